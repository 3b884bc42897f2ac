//! Commands that await approval: all of them on one screen, whole, with what is new or different.
//! Nothing is approved that was not on the screen to its last line.

use super::Verdict;
use crate::deck::FieldChange;
use crate::deck::trust::{Awaiting, Verdict as Trust};
use crate::tui::effect::{ConfigCommand, Effect};
use crate::tui::glyph::Glyphs;
use crate::tui::keymap::Scope;
use crate::tui::model::Situation;
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::prelude::*;
use crate::tui::widget::{Doc, DocView, Pen, width};

/// The commands that await approval.
#[derive(Clone, Debug)]
pub struct Consent {
    /// What is asked, in a few words.
    pub title: Ink,
    awaiting: Vec<Awaiting>,
    text: DocView,
    /// Lines of each server, in the order of `awaiting`.
    blocks: Vec<std::ops::Range<usize>>,
    selected: usize,
    /// Those that were on the screen from their first line to their last.
    seen: Vec<Awaiting>,
    /// How far each one was seen, in the order of `awaiting`.
    read_to: Vec<usize>,
    glyphs: &'static Glyphs,
}

/// Lines below the text: a gap and the keys.
const KEYS: u16 = 2;

impl Consent {
    /// The commands of a situation, with the cursor on those of a server.
    pub fn new(
        situation: &Situation,
        server: Option<&ServerName>,
        glyphs: &'static Glyphs,
    ) -> Self {
        let mut consent = Self {
            title: Ink::default(),
            awaiting: Vec::new(),
            text: DocView::default(),
            blocks: Vec::new(),
            selected: 0,
            seen: Vec::new(),
            read_to: Vec::new(),
            glyphs,
        };
        consent.follow(situation);
        let wanted = |one: &Awaiting| Some(&one.review.server) == server;
        consent.selected = consent.awaiting.iter().position(wanted).unwrap_or(0);
        consent
    }

    /// Takes another situation over; what is the same in it counts as seen. Gives whether there is
    /// anything left to ask.
    pub fn follow(&mut self, situation: &Situation) -> bool {
        let here = self.awaiting.get(self.selected).map(|a| a.review.server.clone());
        self.awaiting.clone_from(&situation.awaiting);
        // What is dangerous comes first, what is switched off last: both are hard to miss there.
        self.awaiting.sort_by_key(|a| (a.disabled, a.review.dangers.is_empty()));
        let place = |name: &ServerName| self.awaiting.iter().position(|a| a.review.server == *name);
        self.selected = here.as_ref().and_then(place).unwrap_or(0);
        self.title = title(&self.awaiting);
        self.text.doc = Doc::default();
        !self.awaiting.is_empty()
    }

    /// Lays the text out, once for each width.
    pub(super) fn prepare(&mut self, width: u16) {
        // The last column is the scroll bar's.
        let width = width.saturating_sub(2).max(8);
        if self.text.doc.is_empty() || self.text.doc.width() != width {
            self.lay_out(width);
        }
    }

    /// Hashes what is on the screen: another line that was read begins another moment.
    pub fn hash_shown(&self, hash: &mut impl std::hash::Hasher) {
        use std::hash::Hash as _;
        for awaiting in &self.awaiting {
            format!("{awaiting:?}").hash(hash);
        }
        self.seen.len().hash(hash);
    }

    /// Whether this approves something; while there is more to read it only reads on.
    pub fn decides(&self, action: Action) -> bool {
        match action {
            Action::ApproveAll => self.awaiting.iter().all(|one| self.seen.contains(one)),
            Action::ApproveOne => {
                self.awaiting.get(self.selected).is_some_and(|one| self.seen.contains(one))
            }
            _ => false,
        }
    }

    /// Columns and rows it wants on a screen, the frame included.
    pub(super) fn size(&self, whole: Rect) -> (u16, u16) {
        let height = self.height().clamp(8, whole.height.saturating_sub(2).max(8));
        (super::reader_width(whole) + 4, height)
    }

    /// Notes what a frame shows. Only what was drawn counts as seen.
    pub fn look(&mut self, whole: Rect) {
        let (width, height) = self.size(whole);
        let height = super::inner(super::centred(whole, width, height)).height;
        let rows = usize::from(height.saturating_sub(KEYS));
        self.text.top = self.text.top.min(self.text.doc.len().saturating_sub(rows));
        let shown = self.text.top..self.text.top + rows;
        for (n, block) in self.blocks.iter().enumerate() {
            // Seen without a gap from its beginning.
            if shown.start <= self.read_to[n].max(block.start) {
                self.read_to[n] = self.read_to[n].max(shown.end.min(block.end));
            }
            if self.read_to[n] >= block.end && !self.seen.contains(&self.awaiting[n]) {
                self.seen.push(self.awaiting[n].clone());
            }
        }
    }

    /// Rows it wants, the frame included.
    pub fn height(&self) -> u16 {
        u16::try_from(self.text.doc.len()).unwrap_or(u16::MAX).saturating_add(KEYS + 3)
    }

    fn lay_out(&mut self, width: u16) {
        let mut doc = Doc::new(width);
        let intro = "Nothing here was started. A command runs as you, with your rights. An approval \
                     is remembered on this machine, for this file, until the command changes.";
        doc.text(0, &intro, Role::Muted);
        let files: std::collections::BTreeSet<_> =
            self.awaiting.iter().map(|a| &a.review.at.file).collect();
        let several = files.len() > 1;
        self.blocks.clear();
        for awaiting in &self.awaiting {
            doc.gap();
            let start = doc.len();
            block(awaiting, several, self.glyphs, &mut doc);
            // What cannot be shown whole can never have been seen.
            self.blocks.push(start..if doc.is_cut() { usize::MAX } else { doc.len() });
        }
        self.read_to = self
            .awaiting
            .iter()
            .zip(&self.blocks)
            .map(|(a, block)| if self.seen.contains(a) { block.end } else { 0 })
            .collect();
        self.text.doc = doc;
    }

    pub(super) fn act(&mut self, action: Action, inner: Rect, out: &mut Out) -> Verdict {
        let rows = usize::from(inner.height.saturating_sub(KEYS)).max(1);
        let page = (rows - 1).max(1);
        match action {
            Action::Down => self.step_down(rows),
            Action::Up => self.step_up(rows),
            Action::Back => {
                out.tell("it was not started; {show-inbox} lists it", Role::Warning);
                return Verdict::Close;
            }
            Action::ApproveAll => {
                let unread = self.awaiting.iter().position(|a| !self.seen.contains(a));
                if let Some(unread) = unread {
                    self.read_on(unread, rows, out);
                    return Verdict::Stay;
                }
                let servers: Vec<_> =
                    self.awaiting.iter().map(|a| a.review.server.clone()).collect();
                self.approve(&servers, out);
                return Verdict::Close;
            }
            Action::ApproveOne => match self.awaiting.get(self.selected) {
                Some(one) if self.seen.contains(one) => {
                    let servers = vec![one.review.server.clone()];
                    self.approve(&servers, out);
                }
                Some(_) => self.read_on(self.selected, rows, out),
                None => return Verdict::Close,
            },
            Action::Copy | Action::CopyAll => out.copy(self.text.doc.to_text()),
            Action::QuitNow | Action::Quit | Action::Help | Action::Redraw | Action::Suspend => {
                return Verdict::Pass;
            }
            action => {
                if let Some(delta) = action.steps(page as isize) {
                    self.scroll(delta, rows);
                }
            }
        }
        Verdict::Stay
    }

    fn approve(&self, servers: &[ServerName], out: &mut Out) {
        let awaiting = self.awaiting.iter().map(|a| &a.review);
        let shown = awaiting.filter(|review| servers.contains(&review.server));
        let shown = shown.map(|review| (review.server.clone(), review.shown_hash.clone()));
        out.effect(Effect::Config(ConfigCommand::Approve(shown.collect())));
    }

    /// Shows what was not on the screen yet.
    fn read_on(&mut self, unread: usize, rows: usize, out: &mut Out) {
        if let (Some(block), Some(read)) = (self.blocks.get(unread), self.read_to.get(unread)) {
            self.text.top = block.start.max(*read);
            self.selected = unread;
            self.scroll(0, rows);
        }
        out.warn(ink!("there is more to read: approve when you have seen it"));
    }

    fn scroll(&mut self, delta: isize, rows: usize) {
        self.text.scroll(delta, rows as u16);
        let shown = self.text.top..self.text.top + rows;
        let visible =
            |block: &std::ops::Range<usize>| block.start < shown.end && block.end > shown.start;
        if !self.blocks.get(self.selected).is_some_and(visible) {
            self.selected = self.blocks.iter().position(visible).unwrap_or(self.selected);
        }
    }

    /// To the next command, through the rest of a long one first.
    fn step_down(&mut self, rows: usize) {
        let Some(block) = self.blocks.get(self.selected).cloned() else { return };
        let last = self.selected + 1 == self.blocks.len();
        if block.end > self.text.top + rows || last {
            return self.scroll((rows / 2).max(1) as isize, rows);
        }
        self.selected += 1;
        let next = self.blocks[self.selected].clone();
        if next.end > self.text.top + rows {
            self.text.top = next.start.min(next.end.saturating_sub(rows).max(self.text.top));
            self.scroll(0, rows);
        }
    }

    fn step_up(&mut self, rows: usize) {
        let Some(block) = self.blocks.get(self.selected).cloned() else { return };
        if block.start < self.text.top || self.selected == 0 {
            return self.scroll(-((rows / 2).max(1) as isize), rows);
        }
        self.selected -= 1;
        let start = self.blocks[self.selected].start;
        if start < self.text.top {
            self.text.top = start;
        }
    }

    pub(super) fn mouse(&mut self, gesture: Gesture, inner: Rect) {
        let rows = usize::from(inner.height.saturating_sub(KEYS)).max(1);
        match gesture {
            Gesture::Scroll { delta, .. } => self.scroll(delta, rows),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                let line = self.text.top + usize::from(at.y.saturating_sub(inner.y));
                if let Some(n) = self.blocks.iter().position(|block| block.contains(&line)) {
                    self.selected = n;
                }
            }
        }
    }

    pub(super) fn render(&self, cx: &Cx<'_>, inner: Rect, buf: &mut Buffer) {
        let text = Rect { height: inner.height.saturating_sub(KEYS), ..inner };
        self.text.render(cx, text, buf);
        if let Some(block) = self.blocks.get(self.selected).filter(|b| b.start >= self.text.top) {
            let mut pen = Pen::new(buf, text);
            pen.at(0, (block.start - self.text.top) as u16);
            pen.put(cx.glyphs.cursor, cx.style(Role::Accent));
        }
        let mut pen = Pen::new(buf, inner).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, inner.height.saturating_sub(1));
        let one = self.awaiting.len() == 1;
        super::keys(cx, Scope::Consent, &mut pen, |action| match action {
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
}

fn title(awaiting: &[Awaiting]) -> Ink {
    let file = awaiting.first().and_then(|a| a.review.at.file.file_name());
    let file = file.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut commands, mut addresses) = (0, 0);
    for one in awaiting {
        let process = one.review.shown.iter().any(|(label, _)| label == "command");
        *(if process { &mut commands } else { &mut addresses }) += 1;
    }
    let mut text = ink!("{} wants to", Ink::line(&file));
    if commands > 0 {
        text.push(ink!(" run {}", count(commands, "command")));
    }
    if addresses > 0 {
        let and = if commands > 0 { " and" } else { "" };
        text.push(ink!("{} connect to {}", and, count(addresses, "address")));
    }
    text
}

/// One server: what it is, the whole command line, what is remarkable.
fn block(awaiting: &Awaiting, several: bool, glyphs: &Glyphs, doc: &mut Doc) {
    let review = &awaiting.review;
    let (word, role): (&'static str, Role) = match (&review.verdict, awaiting.disabled) {
        (_, true) => ("switched off; asked when it is switched on", Role::Faint),
        (Trust::Changed(_), _) if awaiting.runs_as_before => {
            ("changed since you approved it; the approved one keeps running", Role::Warning)
        }
        (Trust::Changed(_), _) => ("changed since you approved it", Role::Warning),
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
    if let Trust::Changed(fields) = &review.verdict {
        for field in fields {
            change(field, doc);
        }
    }
}

fn change(field: &FieldChange, doc: &mut Doc) {
    let name = Ink::line(&field.field);
    for (sign, value, role) in
        [("-", &field.before, Role::Removed), ("+", &field.after, Role::Added)]
    {
        if let Some(value) = value {
            doc.text(4, &ink!("{} {}  {}", sign, &name, Ink::line(value)), role);
        }
    }
}
