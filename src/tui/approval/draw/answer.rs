//! Our side of a request: what should be noticed, the fields of the answer, the draft.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::Widget;
use ratatui_textarea::TextArea;

use super::Spot;
use crate::base::text::SafeText;
use crate::tui::approval::answering::{AnswerScreen, Composer, Draft, Drafting, Part, Says, Stage};
use crate::tui::approval::elicitation::{Asks, ElicitationReading};
use crate::tui::approval::keys::scopes;
use crate::tui::form::draw::form;
use crate::tui::ink::{Ink, ink};
use crate::tui::pane::Cx;
use crate::tui::theme::Role;
use crate::tui::widget::{Doc, Pen, TextInput};

/// Most warnings that are spelled out.
const WARNINGS: usize = 4;

/// Lines of ours between the server's words and the answer: why it ended, an estimate, warnings, who
/// drafted, notice.
pub(super) fn notes(answering: &AnswerScreen, cx: &Cx<'_>, width: u16) -> Doc {
    let mut notes: Vec<(Ink, Role)> = Vec::new();
    if let Stage::Ended(reason) = &answering.stage {
        let mut text = ink!("withdrawn: {}; nothing more is sent", reason);
        if answering.has_draft() {
            text.push(
                cx.keymap.spelled(scopes(answering), "; your draft is kept, {copy-form} copies it"),
            );
        }
        notes.push((text, Role::Error));
    }
    let warnings = match &answering.says {
        Says::Sampling(reading) => {
            let tokens = reading.prompt_tokens;
            notes.push((ink!("the prompt has about {} tokens (an estimate)", tokens), Role::Muted));
            reading.warnings.as_slice()
        }
        Says::Elicitation(reading) => reading.warnings.as_slice(),
        Says::Other(_) => &[],
    };
    if answering.hidden > 0 {
        let (count, s) = (answering.hidden, if answering.hidden == 1 { "" } else { "s" });
        let text = ink!("contains {} hidden character{}, shown as marks", count, s);
        notes.push((text, Role::Warning));
    }
    notes.extend(warnings.iter().take(WARNINGS).map(|w| (Ink::line(w), Role::Warning)));
    if warnings.len() > WARNINGS {
        notes.push((ink!("and {} more warnings", warnings.len() - WARNINGS), Role::Warning));
    }
    let model = cx.model.drafter.as_ref();
    match (&answering.drafting, model) {
        (Drafting::Asked, Some(model)) => notes.push((ink!("{} drafts…", model), Role::Busy)),
        (Drafting::Asked, None) => notes.push((ink!("a draft is being made…"), Role::Busy)),
        (Drafting::By(by), _) => {
            let text = ink!("a draft by {}: read it, change it; it is sent only by you", by);
            notes.push((text, Role::Attention));
        }
        (Drafting::No, _) => {}
    }
    if let Some(notice) = &answering.notice {
        notes.push((cx.keymap.spelled_in(scopes(answering), notice), Role::Attention));
    }
    let mut doc = Doc::new(width);
    for (note, role) in &notes {
        doc.text(0, note, *role);
    }
    doc
}

pub(super) fn render(
    answering: &AnswerScreen,
    cx: &Cx<'_>,
    notes: &Doc,
    area: Rect,
    buf: &mut Buffer,
) {
    let shown = notes.len().min(usize::from(area.height));
    // The newest word stands last: when there is no room, the first go.
    notes.render(cx, notes.len() - shown, area, buf);
    let rest = below_notes(notes, area);
    if rest.height == 0 {
        return;
    }
    let rest = match answering.part {
        Part::Reason => {
            line("reason (optional)  ", &answering.reason, cx, rest, buf);
            // Once nothing can be sent, the draft stays in sight beside the reason.
            if answering.ended().is_none() {
                return;
            }
            lower(rest, 1)
        }
        Part::Name => return line("keep this answer as  ", &answering.name, cx, rest, buf),
        _ => rest,
    };
    let here = answering.part == Part::Answer && answering.stage == Stage::Open;
    match &answering.draft {
        Draft::Text(composer) => compose(answering, composer, cx, rest, buf),
        Draft::Raw(typed) => text(typed, cx, here, rest, buf),
        Draft::Form(state) => {
            let submit = cx.keymap.spelled(scopes(answering), "accept ({send})");
            form(state, &cx.look(), submit.as_str(), rest, buf);
        }
        Draft::Consent => {
            let mut doc = Doc::new(rest.width);
            doc.text(0, &consequence(answering), Role::Faint);
            doc.render(cx, 0, rest, buf);
        }
    }
}

/// What is left of `area` below the notes.
pub(super) fn below_notes(notes: &Doc, area: Rect) -> Rect {
    lower(area, notes.len().min(usize::from(area.height)) as u16)
}

/// What stands at a place of the answer, drawn in `area`.
pub(super) fn spot(answering: &AnswerScreen, area: Rect, at: Position) -> Option<Spot> {
    match &answering.draft {
        _ if matches!(answering.part, Part::Reason | Part::Name) => None,
        Draft::Consent => None,
        Draft::Form(_) => Some(Spot::Form(area)),
        Draft::Text(composer) if answering.part == Part::Tool && composer.tool.is_some() => {
            Some(Spot::Form(lower(area, 1)))
        }
        Draft::Text(_) if at.y == area.y && at.x < area.x + stop_column(area) => {
            Some(Spot::Part(Part::Model))
        }
        Draft::Text(_) if at.y == area.y => Some(Spot::Part(Part::Stop)),
        Draft::Text(_) | Draft::Raw(_) => Some(Spot::Part(Part::Answer)),
    }
}

/// The column of the reason why a completion stops.
fn stop_column(area: Rect) -> u16 {
    34.min(area.width / 2)
}

/// What a yes would do, where nothing is written.
fn consequence(answering: &AnswerScreen) -> &'static str {
    match &answering.says {
        _ if answering.stage != Stage::Open => "",
        Says::Elicitation(ElicitationReading { asks: Asks::Url(url), .. }) => match &url.open {
            Some(_) => "opened by a second press only; the server learns that you agreed, no more",
            None => "it cannot be opened from here: decline, or cancel without deciding",
        },
        _ => "allowed, the call goes out as it stands; refused, it fails",
    }
}

/// The fields of a completion, its tool calls, its text.
fn compose(
    answering: &AnswerScreen,
    composer: &Composer,
    cx: &Cx<'_>,
    area: Rect,
    buf: &mut Buffer,
) {
    if let (Part::Tool, Some(tool)) = (answering.part, &composer.tool) {
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.put("a call of ", cx.style(Role::Muted));
        pen.put(Ink::line(&tool.name), cx.style(Role::Heading));
        let look = cx.look();
        let submit = cx.keymap.spelled(scopes(answering), "add it ({send})");
        return form(&tool.form, &look, submit.as_str(), lower(area, 1), buf);
    }
    let field = |label: &'static str, input: &TextInput, part: Part, x: u16, buf: &mut Buffer| {
        let row = Rect { x: area.x + x, width: area.width.saturating_sub(x), height: 1, ..area };
        let mut pen = Pen::new(buf, row);
        pen.put(label, cx.style(Role::Muted));
        let used = pen.position();
        let rest = Rect { x: row.x + used, width: row.width.saturating_sub(used).min(24), ..row };
        if answering.part == part && answering.stage == Stage::Open {
            input.render(rest, buf, cx.style(Role::Input));
        } else {
            let shown = SafeText::line(input.text());
            Pen::new(buf, rest).ellipsis(cx.glyphs.ellipsis).put(shown, cx.style(Role::Text));
        }
    };
    field("model  ", &composer.model, Part::Model, 0, buf);
    field("stop  ", &composer.stop, Part::Stop, stop_column(area), buf);
    let mut row = 1;
    for (name, input) in &composer.tool_uses {
        let mut pen = Pen::new(buf, lower(area, row)).ellipsis(cx.glyphs.ellipsis);
        pen.put("calls ", cx.style(Role::Muted)).put(Ink::line(name), cx.style(Role::Heading));
        pen.put(ink!("  {}", Ink::line(&input.to_string())), cx.style(Role::Text));
        row += 1;
    }
    let here = answering.part == Part::Answer && answering.stage == Stage::Open;
    text(&composer.text, cx, here, lower(area, row), buf);
}

fn line(label: &'static str, input: &TextInput, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area);
    pen.put(label, cx.style(Role::Muted));
    let used = pen.position();
    let rest = Rect { x: area.x + used, width: area.width.saturating_sub(used), height: 1, ..area };
    input.render(rest, buf, cx.style(Role::Input));
}

pub(super) fn lower(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

pub(super) fn text(
    typed: &TextArea<'static>,
    cx: &Cx<'_>,
    here: bool,
    area: Rect,
    buf: &mut Buffer,
) {
    let mut typed = typed.clone();
    typed.set_style(cx.style(Role::Text));
    typed.set_cursor_line_style(Style::new());
    let cursor = if here { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    typed.set_cursor_style(cursor);
    (&typed).render(area, buf);
}
