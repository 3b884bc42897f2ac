//! Drawing of the call screen: its subject, the form, the state of the call, and the result.

use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::Layout;
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr;

use crate::call::run::{CallEvent, CallEventKind, CallRun, Difference, FORCED, RunState};
use crate::call::screen::{CallFocus, CallScreen};
use crate::form::draw::{Styles, form, put};
use crate::keymap::{KeyScope, Keymap};
use crate::prelude::*;
use crate::result::content::pretty;
use crate::widget::Pen;
use crate::widget::doc::wrap;
use crate::widget::pen::fit;
use config::error::{Error, ErrorCode};

pub(super) struct CallRegions {
    head: Rect,
    pub(super) form: Rect,
    /// The rule between form and result that are side by side.
    pub(super) divider: Option<Rect>,
    pub(super) status: Option<Rect>,
    pub(super) result: Option<Rect>,
}

/// Adds the left margin of the screen's text.
fn inset(area: Rect) -> Rect {
    let margin = area.width.min(1);
    Rect { x: area.x + margin, width: area.width - margin, ..area }
}

impl CallScreen {
    pub(super) fn regions(&self, area: Rect) -> CallRegions {
        let above_keys = Rect { height: area.height.saturating_sub(1), ..area };
        let parts = Layout::horizontal([Fill(1), Length(1), Fill(1)]);
        let columns = self.is_wide.then(|| parts.areas::<3>(above_keys));
        let own = columns.map_or(above_keys, |[own, ..]| own);
        let described = self.description(own).len() as u16;
        let head = 1 + described + self.change_note(own, "").len() as u16;
        let [head, body] = Layout::vertical([Length(head), Fill(1)]).areas(own);
        if self.runs.is_empty() && !self.is_wide {
            return CallRegions { head, form: body, divider: None, status: None, result: None };
        }
        let [form, rest] = if let Some([_, _, rest]) = columns {
            [body, rest]
        } else {
            let rows = self.form.rows().len() as u16;
            // A form that is filled in has its hints; beside a result that is read, its values.
            let (wanted, most, least) = match self.focus {
                CallFocus::Form => (rows + 2, body.height * 3 / 5, 3),
                CallFocus::Result => (rows + 1, body.height / 4, 2),
            };
            let height = wanted.min(most).max(body.height.min(least));
            Layout::vertical([Length(height), Fill(1)]).areas(body)
        };
        let axis = u16::from(rest.height >= MIN_AXIS_ROWS);
        let divider = columns.map(|[_, rule, _]| rule);
        // Below the form, the first row is the rule between.
        let rule = u16::from(divider.is_none());
        let [status, result] = Layout::vertical([Length(rule + 1 + axis), Fill(1)]).areas(rest);
        CallRegions { head, form, divider, status: Some(status), result: Some(inset(result)) }
    }

    /// The lines of the description that there is room for: none, one, or up to three. A last one
    /// that is not the end says so.
    fn description(&self, area: Rect) -> Vec<String> {
        let lines = match area.height {
            0..16 => 0,
            16..32 => 1,
            _ => 3,
        };
        let text = self.subject.description.as_deref().unwrap_or_default();
        let room = area.width.saturating_sub(2).max(8);
        let mut text = text.lines().flat_map(move |line| wrap(line, room));
        let mut shown: Vec<String> = text.by_ref().take(lines).map(str::to_owned).collect();
        if text.next().is_some_and(|more| !more.trim().is_empty())
            && let Some(last) = shown.last_mut()
        {
            last.truncate(fit(last, room - 1));
            last.push('…');
        }
        shown
    }

    /// Updates the layout of the result for the region.
    pub fn lay_out(&mut self, area: Rect, look: &Styles) {
        let Some(result) = self.regions(area).result else { return };
        let shown = self.shown;
        if let Some(view) = self.runs.get_mut(shown).and_then(CallRun::view_mut) {
            view.prepare(result, look);
        }
    }

    pub fn draw(
        &self,
        keymap: &Keymap,
        look: &Styles,
        now: Timestamp,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let area = area.intersection(buf.area);
        if area.height < 3 || area.width < 10 {
            return;
        }
        let regions = self.regions(area);
        let look = &self.uncovered(look);
        // As high as the regions take it to be.
        let height = area.height.saturating_sub(1);
        let head = Rect { width: regions.head.width, height, ..area };
        self.draw_head(look, regions.head, &self.description(head), buf);
        self.draw_form(look, regions.form, buf);
        if let Some(divider) = regions.divider {
            for y in divider.top()..divider.bottom() {
                put(buf, divider.x, y, 1, look.sign("│", "|"), look.rule);
            }
            if let (Some(status), None) = (regions.status, self.run()) {
                let key =
                    keymap.spelled(&[KeyScope::Call], "{send} sends; the result appears here");
                put(buf, status.x + 1, status.y, status.width - 1, key.as_str(), look.faint);
            }
        }
        if let (Some(status), Some(result), Some(run)) =
            (regions.status, regions.result, self.run())
        {
            let mut status = status;
            if regions.divider.is_none() {
                let rule = look.sign("─", "-").repeat(usize::from(status.width));
                put(buf, status.x, status.y, status.width, &rule, look.rule);
                status.y += 1;
                status.height = status.height.saturating_sub(1);
            }
            self.draw_status(keymap, look, now, (run, status), buf);
            draw_run(look, run, result, buf);
        }
        if !self.suggestions.is_empty() {
            self.draw_suggestions(keymap, look, regions.form, buf);
        }
    }

    /// Draws the form; nothing in it looks as if it had the keys while the result has them.
    fn draw_form(&self, look: &Styles, area: Rect, buf: &mut Buffer) {
        let mut look = look.clone();
        if self.focus == CallFocus::Result {
            (look.accent, look.selection) = (look.label, look.input);
        }
        form(&self.form, &look, self.subject.verb(), area, buf);
        if self.focus == CallFocus::Result {
            for at in area.intersection(buf.area).positions() {
                buf[at].modifier.remove(Modifier::REVERSED);
            }
        }
    }

    /// The styles without pixel graphics while a list is open, which pixels would cover.
    pub(super) fn uncovered(&self, look: &Styles) -> Styles {
        let mut look = look.clone();
        if self.form.popup_is_open() {
            look.graphics = look.graphics.as_blocks();
        }
        look
    }

    fn draw_head(&self, look: &Styles, area: Rect, description: &[String], buf: &mut Buffer) {
        /// Fewest cells for a title, of which a few letters say nothing.
        const MIN_TITLE_COLUMNS: u16 = 12;
        let mut parts = vec![self.subject.server.to_string()];
        if !self.subject.manner.is_empty() {
            parts.push(self.subject.manner.to_owned());
        }
        if self.subscribed {
            parts.push("subscribed".to_owned());
        }
        if let Some(dev) = &self.dev {
            parts.push(dev.to_string());
        }
        let text = format!("   {}", parts.join(look.sign(" · ", " - ")));
        let mut pen = Pen::new(buf, Rect { x: area.x + 1, width: area.width - 1, ..area });
        pen.write(&self.subject.label, look.accent).write(&SafeText::line(&text), look.muted);
        if let Some(title) = &self.subject.title
            && pen.room() >= crate::widget::width(title).min(MIN_TITLE_COLUMNS) + 3
        {
            pen.write("   ", look.muted).write(title, look.foreign);
        }
        for (row, line) in (1..area.height).zip(description) {
            pen.at(0, row).write(&SafeText::line(line), look.foreign);
        }
        let change = self.change_note(area, look.sign("⚠ ", "! "));
        for (row, line) in (1 + description.len() as u16..area.height).zip(change) {
            pen.at(0, row).write(&SafeText::line(&line), look.warning);
        }
    }

    /// What changed in the definition while the form was open, in lines that fit.
    fn change_note(&self, area: Rect, sign: &str) -> Vec<String> {
        let Some((at, parts)) = &self.changed else { return Vec::new() };
        let at = clock(*at);
        let text = format!("its definition changed at {at}: {parts}; what you typed is kept");
        let lines = wrap(&text, area.width.saturating_sub(4).max(8)).enumerate();
        let led = |(n, line)| if n == 0 { format!("{sign}{line}") } else { format!("  {line}") };
        lines.map(led).collect()
    }

    fn draw_status(
        &self,
        keymap: &Keymap,
        look: &Styles,
        now: Timestamp,
        (run, area): (&CallRun, Rect),
        buf: &mut Buffer,
    ) {
        if area.height == 0 {
            return;
        }
        let mut line = Rect { height: 1, ..area };
        if let Some(at) = self.updates.at {
            let mut text = format!(" updated {} times, last {} ", self.updates.count, clock(at));
            if self.updates.count == 1 {
                text = format!(" updated at {} ", clock(at));
            }
            if self.updates.stale && !self.subscribed {
                let again = keymap.spelled(&[KeyScope::Result], "{again} reads it again ");
                text.push_str(look.sign("· ", "- "));
                text.push_str(again.as_str());
            }
            let wide = (text.chars().count() as u16).min(area.width / 2);
            line.width -= wide;
            put(buf, line.right(), area.y, wide, &text, look.warning);
        }
        if area.height > 1 {
            draw_axis(look, run, now, Rect { y: area.y + 1, height: 1, ..area }, buf);
        }
        let mut pen = Pen::new(buf, line);
        if let RunState::Running { cancelling } = &run.state {
            let (elapsed, waiting) = run.clocks(now);
            let elapsed = Dur(elapsed);
            let word = if *cancelling { "cancelling" } else { "running" };
            pen.write(&format!(" {} {word} {elapsed}", look.sign("◐", "~")), look.accent);
            if run.waiting.1.is_some() {
                let key = keymap.spelled(&[KeyScope::Global], "{answer} answers");
                let waits = match run.asks.len() {
                    0 | 1 => "waiting for you".to_owned(),
                    several => format!("{several} requests wait for you"),
                };
                let text = format!("  {waits} {}  {key}", Dur(waiting));
                pen.write(&text, look.warning);
            } else if waiting > Duration::from_millis(100) {
                pen.write(&format!("  + {} waiting for you", Dur(waiting)), look.muted);
            }
            if run.forced {
                pen.write(&format!("  {FORCED}"), look.warning);
            }
            draw_progress(look, run, pen.skip(2));
            let hint = keymap.spelled(&[KeyScope::Call], "  {cancel-call} cancels");
            if crate::widget::width(&hint) <= pen.room() {
                pen.write(hint.as_str(), look.faint);
            }
        } else {
            let Some(ending) = run.ending() else { return };
            let (sign, style) = if ending.good {
                (look.sign(" ✓ ", " ok "), look.ok)
            } else {
                (look.sign(" ✗ ", " x "), look.error)
            };
            pen.write(sign, style).write(&SafeText::line(&ending.words), style);
            if let Some(found) = run.findings() {
                let text = format!("  {}{found}", look.sign("⚠ ", "! "));
                pen.write(&SafeText::line(&text), look.warning);
            }
            let remark = run.remark();
            if !remark.is_empty() {
                let differs = matches!(run.difference, Some(Difference::Places(_)));
                let style = if differs { look.warning } else { look.muted };
                pen.write(look.sign(" · ", " - "), look.muted);
                pen.write(&SafeText::line(&remark), style);
            }
            // Without a result, the next step is shown below, in as many rows as it takes.
            if matches!(run.state, RunState::Answered { .. }) && !ending.next.is_empty() {
                let text = format!("  {} {}", look.sign("↳", ">"), ending.next);
                pen.write(&SafeText::line(&text), look.muted);
            }
        }
    }

    fn draw_suggestions(&self, keymap: &Keymap, look: &Styles, area: Rect, buf: &mut Buffer) {
        if area.height < 3 {
            return;
        }
        let mut pen = Pen::new(buf, Rect { y: area.bottom() - 1, height: 1, ..area });
        pen.write(&" ".repeat(usize::from(area.width)), look.text);
        let key = keymap.spelled(&[KeyScope::Form], "{suggest} ");
        pen.column(1).write(key.as_str(), look.accent);
        for suggestion in self.suggestions.iter().take(20) {
            pen.write(&format!("{}  ", SafeText::cut(suggestion, 60)), look.foreign);
        }
    }
}

fn clock(at: Timestamp) -> String {
    crate::model::Model::time_of_day(at).as_str().to_owned()
}

fn draw_progress(look: &Styles, run: &CallRun, pen: &mut Pen<'_>) {
    let Some(progress) = &run.progress else { return };
    if let Some(share) = run.share() {
        let width = 20.min(pen.room() / 2);
        let full = (f64::from(width) * share) as u16;
        pen.write(&look.sign("█", "#").repeat(usize::from(full)), look.accent);
        pen.write(&look.sign("░", ".").repeat(usize::from(width - full)), look.faint);
        pen.cut(&format!(" {:.0} %", share * 100.0), 6, look.text);
    } else if progress.progress > 0.0 {
        pen.cut(&format!("step {}", progress.progress), 24, look.text);
    }
    if let Some(message) = &progress.message {
        let room = pen.room().saturating_sub(18);
        pen.cut(&format!("  {}", SafeText::cut(message, 300)), room, look.foreign);
    }
}

fn draw_run(look: &Styles, run: &CallRun, area: Rect, buf: &mut Buffer) {
    match &run.state {
        RunState::Answered { view, .. } => view.render(look, area, buf),
        RunState::Running { .. } => {
            let from = run.events.len().saturating_sub(usize::from(area.height));
            for (y, event) in (area.y..).zip(run.events.iter().skip(from)) {
                draw_event(look, run, event, Rect { y, height: 1, ..area }, buf);
            }
        }
        RunState::Failed(error) => draw(look, run, error, area, buf),
    }
}

/// Draws an event of a call: when, what, and what it said.
fn draw_event(look: &Styles, run: &CallRun, event: &CallEvent, area: Rect, buf: &mut Buffer) {
    let (word, style, text) = match event.kind {
        CallEventKind::Progress => ("progress", look.accent, look.foreign),
        CallEventKind::Log => ("log", look.muted, look.foreign),
        CallEventKind::Asked => ("asks you", look.warning, look.text),
        CallEventKind::Replied | CallEventKind::Resumed => ("answered", look.ok, look.muted),
    };
    let at = format!("+{}", Dur(event.at.since(run.began)));
    let mut pen = Pen::new(buf, area);
    pen.cut(&at, 9, look.faint);
    pen.column(10).cut(word, 9, style);
    pen.column(20).write(&event.text, text);
    if !event.says.is_empty() {
        pen.write("  ", look.muted).write(&event.says, look.foreign);
    }
}

// The time axis of a call: when it was sent, if it was, its progress and logs, when it waited for the
// user and for what, and its end.

/// Rows below the form from which the axis is drawn.
const MIN_AXIS_ROWS: u16 = 9;

fn draw_axis(look: &Styles, run: &CallRun, now: Timestamp, area: Rect, buf: &mut Buffer) {
    let end = run.ended.unwrap_or(now).max(run.began);
    let span = end.since(run.began);
    let took = match run.ended {
        Some(_) => format!(" {}", Dur(span)),
        None => format!(" {}", Dur(Duration::from_millis(span.as_millis() as u64 / 100 * 100))),
    };
    let start = if run.is_sent() { "sent " } else { "not sent " };
    let took_cells = took.width() as u16;
    let mut pen = Pen::new(buf, area);
    pen.skip(1).write(start, look.faint);
    let x = pen.position();
    let Some(cells) = area.width.checked_sub(x + took_cells + 1).filter(|cells| *cells >= 10)
    else {
        return;
    };
    let cell = |at: Timestamp| {
        let share = at.since(run.began).as_secs_f64() / span.as_secs_f64().max(1e-6);
        (share.clamp(0.0, 1.0) * f64::from(cells - 1)) as u16
    };
    let mut draw = |column: u16, text: &str, room: u16, style: Style| {
        pen.column(x + column).cut(text, room, style);
    };
    draw(0, &look.sign("─", "-").repeat(cells.into()), cells, look.rule);
    for event in &run.events {
        let (sign, style) = match event.kind {
            CallEventKind::Progress => (look.sign("●", "o"), look.accent),
            CallEventKind::Log => (look.sign("·", "."), look.foreign),
            CallEventKind::Asked | CallEventKind::Replied | CallEventKind::Resumed => continue,
        };
        draw(cell(event.at), sign, 1, style);
    }
    for (from, to, what) in run.waits(end) {
        let (from, to) = (cell(from), cell(to));
        let wide = to - from + 1;
        draw(from, &look.sign("░", "~").repeat(wide.into()), wide, look.warning);
        let label = format!(" {what}: you ");
        if label.width() as u16 + 2 <= wide {
            draw(from + (wide - label.width() as u16) / 2, &label, wide, look.warning);
        }
    }
    draw(0, look.sign("├", "|"), 1, look.rule);
    let good = run.ending().is_none_or(|ending| ending.good);
    let (sign, style) = match run.ended {
        None => (look.sign("▶", ">"), look.accent),
        Some(_) if good => (look.sign("┤", "|"), look.ok),
        Some(_) => (look.sign("✗", "x"), look.error),
    };
    draw(cells - 1, sign, 1, style);
    draw(cells, &took, took_cells, look.muted);
}

// A call without a result: the reason and the next step, in as many rows as they take.

/// Most of the `data` of a JSON-RPC error that is shown.
const MAX_DATA_BYTES: usize = 20_000;

/// Draws a failed call; if not everything fits, the last line says where the rest is.
pub(super) fn draw(look: &Styles, run: &CallRun, error: &Error, area: Rect, buf: &mut Buffer) {
    let room = area.width.max(8);
    let texts = error_lines(look, run, error);
    let mut rows = texts.iter().flat_map(|(text, style)| {
        text.lines().flat_map(move |line| wrap(line, room)).map(move |row| (row, *style))
    });
    for y in area.y..area.bottom() {
        let Some((row, style)) = rows.next() else { return };
        let last = y + 1 == area.bottom();
        if last && rows.next().is_some() {
            let text = "… the rest is among the messages in Traffic";
            put(buf, area.x + 1, y, room, text, look.faint);
            return;
        }
        put(buf, area.x, y, area.width, row, style);
    }
}

/// The message, the next step, all violations, and the JSON-RPC error with its data.
fn error_lines(look: &Styles, run: &CallRun, error: &Error) -> Vec<(SafeText, Style)> {
    let mut out = Vec::new();
    if !(run.cancelled && error.code == ErrorCode::Cancelled) {
        out.push((SafeText::block(&error.message), look.text));
    }
    if let Some(next) = run.ending().map(|ending| ending.next).filter(|next| !next.is_empty()) {
        let text = format!("{} {next}", look.sign("↳", ">"));
        out.push((SafeText::line(&text), look.muted));
    }
    for violation in &error.violations {
        let text = format!("  {}  {}", violation.pointer, violation.message);
        out.push((SafeText::line(&text), look.text));
    }
    if let Some(rpc) = &error.rpc {
        if !error.message.contains(&rpc.message) {
            let code = rpc.code.map_or_else(|| "no code".to_owned(), |code| code.to_string());
            let text = format!("JSON-RPC error {code}: {}", rpc.message);
            out.push((SafeText::line(&text), look.foreign));
        }
        if let Some(data) = &rpc.data {
            let (text, is_cut) = pretty(data, MAX_DATA_BYTES);
            let end = if is_cut { "…" } else { "" };
            out.push((SafeText::block(&(text + end)), look.foreign));
        }
    }
    out
}
