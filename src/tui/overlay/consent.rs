//! Commands that await approval: all of them in full on one screen, with what is new or changed. A
//! command can only be approved after every line of it was on the screen.

use std::ops::Range;

use crate::effect::{ConfigCommand, Effect};
use crate::glyph::Glyphs;
use crate::keymap::KeyScope;
use crate::model::{Model, Situation, Todo};
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::prelude::*;
use crate::screen::{Frame, Screen, is_for_all};
use crate::widget::{Doc, DocView, Pen, width};
use deck::{ApprovalChange, Awaiting, TrustVerdict};

/// The commands that await approval.
pub struct Consent {
    /// The question, in a few words.
    title: Ink,
    blocks: Vec<CommandBlock>,
    text: DocView,
    selected: usize,
    /// Commands of which every line was on the screen.
    seen: Vec<Awaiting>,
    glyphs: &'static Glyphs,
}

/// One server's command that awaits approval.
struct CommandBlock {
    awaiting: Awaiting,
    lines: Range<usize>,
    /// End of the lines that were on the screen without a gap.
    read_to: usize,
}

/// Lines below the text: a gap and the keys.
const KEY_ROWS: u16 = 2;

impl Consent {
    /// The commands of a situation, with the cursor on those of `server`.
    pub fn new(
        situation: &Situation,
        server: Option<&ServerName>,
        glyphs: &'static Glyphs,
    ) -> Self {
        let mut consent = Self {
            title: Ink::default(),
            blocks: Vec::new(),
            text: DocView::default(),
            selected: 0,
            seen: Vec::new(),
            glyphs,
        };
        consent.renew(situation);
        consent.select(server);
        consent
    }

    /// Switches to a new situation; unchanged commands still count as seen. Returns whether any
    /// command is left.
    fn renew(&mut self, situation: &Situation) -> bool {
        let here = self.awaiting().nth(self.selected).map(|one| one.review.server.clone());
        let mut awaiting = situation.awaiting.clone();
        // Dangerous commands first, disabled ones last: both are hard to miss there.
        awaiting.sort_by_key(|one| (one.disabled, one.review.dangers.is_empty()));
        self.title = title(&awaiting);
        // Nothing counts as seen before it is laid out.
        let block = |awaiting| CommandBlock { awaiting, lines: 0..usize::MAX, read_to: 0 };
        self.blocks = awaiting.into_iter().map(block).collect();
        self.select(here.as_ref());
        self.text.doc = Doc::default();
        !self.blocks.is_empty()
    }

    fn awaiting(&self) -> impl Iterator<Item = &Awaiting> {
        self.blocks.iter().map(|block| &block.awaiting)
    }

    fn select(&mut self, server: Option<&ServerName>) {
        let at = self.awaiting().position(|one| Some(&one.review.server) == server);
        self.selected = at.unwrap_or(0);
    }

    /// Whether every line of it was on the screen.
    fn is_seen(&self, block: &CommandBlock) -> bool {
        self.seen.contains(&block.awaiting)
    }

    /// Records what a frame shows. Only what was drawn counts as seen.
    fn look(&mut self, whole: Rect) {
        let frame = super::frame_area(self, whole).unwrap_or(whole);
        let rows = usize::from(super::inner(frame).height.saturating_sub(KEY_ROWS));
        self.text.top = self.text.top.min(self.text.doc.len().saturating_sub(rows));
        let shown = self.text.top..self.text.top + rows;
        for CommandBlock { awaiting, lines, read_to } in &mut self.blocks {
            // Seen without a gap from its first line.
            if shown.start <= (*read_to).max(lines.start) {
                *read_to = (*read_to).max(shown.end.min(lines.end));
            }
            if *read_to >= lines.end && !self.seen.contains(awaiting) {
                self.seen.push(awaiting.clone());
            }
        }
    }

    fn lay_out(&mut self, width: u16) {
        let mut doc = Doc::new(width);
        let intro = "Nothing here was started. A command runs as you, with your rights. An approval \
                     is remembered on this machine, for this file, until the command changes.";
        doc.text(0, &intro, Role::Muted);
        let files: std::collections::BTreeSet<_> =
            self.awaiting().map(|one| &one.review.at.file).collect();
        let several = files.len() > 1;
        for CommandBlock { awaiting, lines, read_to } in &mut self.blocks {
            doc.gap();
            let start = doc.len();
            draw(awaiting, several, self.glyphs, &mut doc);
            // What cannot be shown in full never counts as seen.
            *lines = start..if doc.is_cut() { usize::MAX } else { doc.len() };
            *read_to = if self.seen.contains(awaiting) { lines.end } else { 0 };
        }
        self.text.doc = doc;
    }

    /// Scrolls to what was not on the screen yet.
    fn read_on(&mut self, unread: usize, rows: usize, out: &mut Out) {
        if let Some(CommandBlock { lines, read_to, .. }) = self.blocks.get(unread) {
            self.text.top = lines.start.max(*read_to);
            self.selected = unread;
            self.scroll(0, rows);
        }
        out.warn(ink!("there is more to read: approve when you have seen it"));
    }

    fn scroll(&mut self, delta: isize, rows: usize) {
        self.text.scroll(delta, rows as u16);
        let shown = self.text.top..self.text.top + rows;
        let visible = |CommandBlock { lines, .. }: &CommandBlock| {
            lines.start < shown.end && lines.end > shown.start
        };
        if !self.blocks.get(self.selected).is_some_and(visible) {
            self.selected = self.blocks.iter().position(visible).unwrap_or(self.selected);
        }
    }

    /// Moves to the next command, first scrolling through the rest of a long one.
    fn step_down(&mut self, rows: usize) {
        let Some(CommandBlock { lines, .. }) = self.blocks.get(self.selected) else { return };
        let last = self.selected + 1 == self.blocks.len();
        if lines.end > self.text.top + rows || last {
            return self.scroll((rows / 2).max(1) as isize, rows);
        }
        self.selected += 1;
        let next = &self.blocks[self.selected].lines;
        if next.end > self.text.top + rows {
            self.text.top = next.start.min(next.end.saturating_sub(rows).max(self.text.top));
            self.scroll(0, rows);
        }
    }

    fn step_up(&mut self, rows: usize) {
        let Some(CommandBlock { lines, .. }) = self.blocks.get(self.selected) else { return };
        if lines.start < self.text.top || self.selected == 0 {
            return self.scroll(-((rows / 2).max(1) as isize), rows);
        }
        self.selected -= 1;
        self.text.top = self.text.top.min(self.blocks[self.selected].lines.start);
    }
}

impl Screen for Consent {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::Consent, KeyScope::List]
    }

    fn frame(&self, whole: Rect) -> Option<Frame> {
        let lines = u16::try_from(self.text.doc.len()).unwrap_or(u16::MAX);
        let height = lines.saturating_add(KEY_ROWS + 3);
        let most = whole.height.saturating_sub(2).max(8);
        Some((self.title.clone(), super::reader_width(whole) + 4, height.clamp(8, most)))
    }

    fn takes_letters(&self) -> bool {
        false
    }

    fn lets_through(&self, action: Action) -> bool {
        is_for_all(action) || action == Action::Quit
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) {
        let rows = usize::from(ui.area.height.saturating_sub(KEY_ROWS)).max(1);
        let page = (rows - 1).max(1);
        match action {
            Action::Down => self.step_down(rows),
            Action::Up => self.step_up(rows),
            Action::Back => {
                out.notify("it was not started; {show-inbox} lists it", Role::Warning);
                out.close();
            }
            Action::ApproveAll => {
                let unread = self.blocks.iter().position(|one| !self.is_seen(one));
                if let Some(unread) = unread {
                    self.read_on(unread, rows, out);
                } else {
                    approve(&self.blocks, out);
                    out.close();
                }
            }
            Action::ApproveOne => match self.blocks.get(self.selected) {
                Some(one) if self.is_seen(one) => approve(std::slice::from_ref(one), out),
                Some(_) => self.read_on(self.selected, rows, out),
                None => out.close(),
            },
            Action::Copy | Action::CopyAll => out.copy(self.text.doc.to_text()),
            action => {
                if let Some(delta) = action.steps(page as isize) {
                    self.scroll(delta, rows);
                }
            }
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, _out: &mut Out) {
        let inner = ui.area;
        let rows = usize::from(inner.height.saturating_sub(KEY_ROWS)).max(1);
        match gesture {
            Gesture::Scroll { delta, .. } => self.scroll(delta, rows),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                let line = self.text.top + usize::from(at.y.saturating_sub(inner.y));
                if let Some(n) = self.blocks.iter().position(|one| one.lines.contains(&line)) {
                    self.selected = n;
                }
            }
        }
    }

    fn follow(&mut self, model: &Model) -> bool {
        self.renew(&model.situation)
    }

    fn shows(&self, todo: &Todo) -> bool {
        matches!(todo, Todo::Approval(_))
    }

    /// Any change of what is shown is another decision.
    fn decision(&self) -> Option<String> {
        let shown: Vec<&Awaiting> = self.awaiting().collect();
        Some(format!("{} {shown:?}", self.seen.len()))
    }

    /// Until all is read, approving only scrolls on.
    fn decides(&self, action: Action) -> bool {
        match action {
            Action::ApproveAll => self.blocks.iter().all(|block| self.is_seen(block)),
            Action::ApproveOne => {
                self.blocks.get(self.selected).is_some_and(|block| self.is_seen(block))
            }
            _ => false,
        }
    }

    /// Lays out the text, once per width. What is covered by another dialog is not seen.
    fn prepare(&mut self, ui: Ui<'_>) {
        let width = super::reader_width(ui.area).min(ui.area.width.saturating_sub(4));
        // The last column is the scroll bar's.
        let width = width.saturating_sub(2).max(8);
        if self.text.doc.is_empty() || self.text.doc.width() != width {
            self.lay_out(width);
        }
        if ui.focused {
            self.look(ui.area);
        }
    }

    fn render(&self, cx: &Cx<'_>, inner: Rect, buf: &mut Buffer) {
        let text = Rect { height: inner.height.saturating_sub(KEY_ROWS), ..inner };
        self.text.render(cx, text, buf);
        let first = self.blocks.get(self.selected).map(|block| block.lines.start);
        if let Some(row) = first.and_then(|first| first.checked_sub(self.text.top)) {
            Pen::new(buf, text).at(0, row as u16).put(cx.glyphs.cursor, cx.style(Role::Accent));
        }
        let mut pen = Pen::new(buf, inner).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, inner.height.saturating_sub(1));
        let one = self.blocks.len() == 1;
        super::keys(cx, KeyScope::Consent, &mut pen, |action| match action {
            Action::ApproveAll if one => Some("approve and start"),
            Action::ApproveOne if one => None,
            Action::Back => Some("not now"),
            action => Some(action.label()),
        });
        let below = self.text.doc.len().saturating_sub(self.text.top + usize::from(text.height));
        if below > 0 {
            let more = ink!("{}", count(below, "more line"));
            if pen.room() > width(&more) {
                pen.flush_right(more, cx.style(Role::Attention));
            }
        }
    }

    fn in_footer(&self, scope: KeyScope, _action: Action) -> bool {
        scope == KeyScope::Global
    }
}

fn approve(blocks: &[CommandBlock], out: &mut Out) {
    let reviews = blocks.iter().map(|block| &block.awaiting.review);
    let shown = reviews.map(|review| (review.server.clone(), review.shown_hash.clone()));
    out.effect(Effect::Config(ConfigCommand::Approve(shown.collect())));
}

fn title(awaiting: &[Awaiting]) -> Ink {
    let file = awaiting.first().and_then(|a| a.review.at.file.file_name());
    let file = file.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut commands, mut addresses) = (0, 0);
    for one in awaiting {
        let process = one.review.shown.iter().any(|(label, _)| label == "command");
        *(if process { &mut commands } else { &mut addresses }) += 1;
    }
    let mut text = ink!("{} would", Ink::line(&file));
    if commands > 0 {
        text.push(ink!(" run {}", count(commands, "command")));
    }
    if addresses > 0 {
        let and = if commands > 0 { " and" } else { "" };
        text.push(ink!("{} connect to {}", and, count(addresses, "address")));
    }
    text
}

/// Draws one server: what it is, the full command line, and anything notable.
fn draw(awaiting: &Awaiting, several: bool, glyphs: &Glyphs, doc: &mut Doc) {
    let review = &awaiting.review;
    let (word, role): (&'static str, Role) = match (&review.verdict, awaiting.disabled) {
        (_, true) => ("switched off; asked when it is switched on", Role::Faint),
        (TrustVerdict::Changed(_), _) if awaiting.runs_as_before => {
            ("changed since you approved it; the approved one keeps running", Role::Warning)
        }
        (TrustVerdict::Changed(_), _) => ("changed since you approved it", Role::Warning),
        _ => ("new", Role::Muted),
    };
    let mut line = vec![
        (ink!("  {}", Ink::line(review.server.as_str())), Role::Heading),
        (ink!("   {}", word), role),
    ];
    if several {
        line.push((ink!("   {}", Ink::line(&review.at.file.display().to_string())), Role::Faint));
    }
    doc.line(line);
    for danger in &review.dangers {
        doc.text(4, &ink!("{} {}", glyphs.warning, Ink::line(danger)), Role::Warning);
    }
    let all = |prefix: &str| -> Vec<&str> {
        let of = |label: &String| label == prefix || label.starts_with(&format!("{prefix}["));
        review.shown.iter().filter(|(label, _)| of(label)).map(|(_, v)| v.as_str()).collect()
    };
    let names = |prefix: &str| -> Vec<&str> {
        review.shown.iter().filter_map(|(label, _)| label.strip_prefix(prefix)).collect()
    };
    let mut command = all("command");
    command.extend(all("args"));
    command.extend(all("openapi"));
    command.extend(all("url"));
    doc.text(4, &Ink::line(&command.join(" ")), Role::Text);
    for (what, value) in [
        ("in", awaiting.elsewhere.as_ref().map_or_else(String::new, |_| all("cwd").join(" "))),
        ("env", names("env.").join(", ")),
        ("headers", names("headers.").join(", ")),
        ("builds with", all("dev.build").join(" ")),
    ] {
        if !value.is_empty() {
            doc.text(4, &ink!("{}  {}", what, Ink::line(&value)), Role::Muted);
        }
    }
    if let TrustVerdict::Changed(fields) = &review.verdict {
        for field in fields {
            change(field, doc);
        }
    }
}

fn change(field: &ApprovalChange, doc: &mut Doc) {
    let name = Ink::line(&field.field);
    for (sign, value, role) in
        [("-", &field.before, Role::Removed), ("+", &field.after, Role::Added)]
    {
        if let Some(value) = value {
            doc.text(4, &ink!("{} {}  {}", sign, &name, Ink::line(value)), role);
        }
    }
}
