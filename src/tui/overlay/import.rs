//! Servers of other programs on this machine: what was found, each with its program and what it
//! runs. One key takes over those that are marked; nothing starts before it is approved.

use std::collections::BTreeSet;

use crate::effect::{ConfigCommand, Effect, FileChange};
use crate::keymap::KeyScope;
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::prelude::*;
use crate::screen::{Frame, Screen, is_for_all};
use crate::widget::doc::wrap;
use crate::widget::{ListState, Pen, scroll_bar};
use config::{ImportHost, masked_address, masked_arguments};
use reach::{FoundServer, FoundServers};

/// Rows above the list, and below it.
const HEAD_ROWS: u16 = 3;
const FOOT_ROWS: u16 = 2;
/// Widths of the first columns.
const NAME_COLUMNS: u16 = 20;
const HOST_COLUMNS: u16 = 15;

/// What was found, with the marked ones.
pub struct ImportDialog {
    found: FoundServers,
    rows: Vec<ImportRow>,
    marked: BTreeSet<usize>,
    list: ListState<usize>,
    /// Indices of the rows.
    order: Vec<usize>,
    /// The file they would be written to.
    file: Ink,
    /// What was left out, and the variables that become questions.
    remarks: Vec<Ink>,
}

/// One server, as it is drawn.
struct ImportRow {
    name: Ink,
    host: Ink,
    /// What it runs, secrets masked.
    runs: Ink,
}

impl ImportDialog {
    /// Everything that was found, marked.
    pub fn new(found: FoundServers, file: &str) -> Self {
        let rows: Vec<ImportRow> = found.servers.iter().map(row).collect();
        let mut remarks = Vec::new();
        let secrets: Vec<&str> = found.variables().collect();
        if !secrets.is_empty() {
            let names = secrets.join(", ");
            remarks.push(ink!("no secret is written; you are asked for: {}", Ink::line(&names)));
        }
        remarks.extend(found.notes.iter().map(|note| Ink::line(note)));
        let order: Vec<usize> = (0..rows.len()).collect();
        let mut list = ListState::default();
        list.select_index(0, &order[..]);
        let marked = order.iter().copied().collect();
        Self { found, rows, marked, list, order, file: Ink::line(file), remarks }
    }

    /// Lines of the remarks in this width.
    fn remark_rows(&self, width: u16) -> Vec<Ink> {
        let lines = self.remarks.iter().flat_map(|remark| wrap(remark.as_str(), width.max(8)));
        lines.map(Ink::line).collect()
    }

    /// The rows of the list within the dialog.
    fn list_area(&self, inner: Rect) -> Rect {
        let remarks = self.remark_rows(inner.width).len() as u16;
        let room = inner.height.saturating_sub(HEAD_ROWS + FOOT_ROWS);
        // The list keeps at least half of the room.
        let height = room.saturating_sub(remarks).max(room.div_ceil(2));
        let height = height.min(self.rows.len() as u16).max(1);
        Rect { y: inner.y + HEAD_ROWS, height, ..inner }
    }

    fn take(&self, out: &mut Out) {
        if self.marked.is_empty() {
            return out.warn(ink!("mark a server first"));
        }
        let names: BTreeSet<&str> =
            self.marked.iter().map(|at| self.found.servers[*at].name.as_str()).collect();
        let imported = self.found.to_imported(|one| names.contains(one.name.as_str()));
        out.close();
        out.effect(Effect::Config(ConfigCommand::Change(FileChange::Import(imported))));
    }

    fn turn(&mut self) {
        let Some(at) = self.list.selected().copied() else { return };
        if !self.marked.remove(&at) {
            self.marked.insert(at);
        }
    }
}

impl Screen for ImportDialog {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::Import, KeyScope::List]
    }

    fn frame(&self, whole: Rect) -> Option<Frame> {
        let width = super::reader_width(whole) + 4;
        let rows = self.rows.len() + self.remark_rows(width.saturating_sub(4)).len();
        let rows = u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(HEAD_ROWS + FOOT_ROWS);
        let height = rows.saturating_add(4).clamp(8, whole.height.saturating_sub(2).max(8));
        let title = ink!("{} of other programs", count(self.rows.len(), "server"));
        Some((title, width, height))
    }

    fn takes_letters(&self) -> bool {
        false
    }

    fn lets_through(&self, action: Action) -> bool {
        is_for_all(action) || action == Action::Quit
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) {
        let height = usize::from(self.list_area(ui.area).height);
        match action {
            Action::Open => self.take(out),
            Action::Mark => {
                self.turn();
                self.list.step(1, &self.order[..], height);
            }
            Action::AllServers if self.marked.len() == self.rows.len() => self.marked.clear(),
            Action::AllServers => self.marked = self.order.iter().copied().collect(),
            Action::Back => {
                let text = "nothing was written; {palette} and import shows them again";
                out.notify(text, Role::Ok);
                out.close();
            }
            action => {
                if let Some(delta) = action.steps(height.max(2) as isize - 1) {
                    self.list.step(delta, &self.order[..], height);
                }
            }
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, _out: &mut Out) {
        let area = self.list_area(ui.area);
        match gesture {
            Gesture::Scroll { delta, .. } => {
                self.list.step(delta, &self.order[..], usize::from(area.height));
            }
            Gesture::Click(at) | Gesture::DoubleClick(at) if area.contains(at) => {
                let row = self.list.top() + usize::from(at.y - area.y);
                if row < self.order.len() {
                    self.list.select_index(row, &self.order[..]);
                    self.turn();
                }
            }
            _ => {}
        }
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        let frame = super::frame_area(self, ui.area).unwrap_or(ui.area);
        let height = self.list_area(super::inner(frame)).height;
        self.list.sync(&self.order[..], usize::from(height));
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        let keys = "{open} writes the marked ones into ";
        pen.put(cx.spelled(&[KeyScope::Import], keys), cx.style(Role::Muted));
        pen.put(&self.file, cx.style(Role::Text));
        pen.at(0, 1).put("nothing starts before you approve it", cx.style(Role::Muted));
        let rows = self.list_area(area);
        let list = Rect { width: rows.width.saturating_sub(1), ..rows };
        let selection = cx.selection(true);
        self.list.render(cx, &self.order[..], (list, selection), buf, |pen, at| {
            let row = &self.rows[at];
            let mark = if self.marked.contains(&at) { cx.glyphs.check } else { " " };
            pen.put(mark, cx.style(Role::Ok)).skip(1);
            let room = pen.room();
            let (name, host) = if room < 60 { (room / 2, 0) } else { (NAME_COLUMNS, HOST_COLUMNS) };
            pen.middle(&row.name, name, cx.style(Role::Text)).skip(1);
            if host > 0 {
                pen.left(&row.host, host, cx.style(Role::Muted)).skip(1);
            }
            pen.put(&row.runs, cx.style(Role::Foreign));
        });
        scroll_bar(cx, self.rows.len(), self.list.top(), rows, buf);
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        let top = rows.bottom() - area.y + 1;
        for (line, remark) in (top..area.height.saturating_sub(1)).zip(self.remark_rows(area.width))
        {
            pen.at(0, line).put(remark, cx.style(Role::Muted));
        }
        pen.at(0, area.height.saturating_sub(1));
        let all = self.marked.len() == self.rows.len();
        super::keys(cx, KeyScope::Import, &mut pen, |action| match action {
            Action::Open => Some("take over"),
            Action::Mark => Some("mark"),
            Action::AllServers if all => Some("none"),
            Action::AllServers => Some("all"),
            Action::Back => Some("not now"),
            action => Some(action.label()),
        });
        let marked = ink!("{} of {} marked", self.marked.len(), self.rows.len());
        pen.flush_right(marked, cx.style(Role::Muted));
    }

    fn in_footer(&self, scope: KeyScope, _action: Action) -> bool {
        scope == KeyScope::Global
    }
}

/// A server as it is drawn.
fn row(server: &FoundServer) -> ImportRow {
    let text = |key: &str| server.entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let args = server.entry.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let args = masked_arguments(&args.collect::<Vec<_>>());
    let runs = match text("command") {
        "" => masked_address(text("url")),
        command => format!("{command} {}", args.join(" ")),
    };
    let file = || server.file.display().to_string();
    ImportRow {
        name: Ink::line(server.name.as_str()),
        host: server
            .host
            .map_or_else(|| Ink::line(&file()), |host| ink!("{}", ImportHost::name(host))),
        runs: Ink::line(&runs),
    }
}
