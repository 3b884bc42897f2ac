//! The list of servers at the left: it narrows every pane to one server or to all.

use crate::host::ServerState;
use crate::tui::model::Model;
use crate::tui::pane::Cx;
use crate::tui::prelude::*;
use crate::tui::widget::{ListState, Pen};

/// The list; row 0 is all of them.
#[derive(Debug, Default)]
pub struct ServerList {
    list: ListState<Option<ServerName>>,
    rows: Vec<Option<ServerName>>,
}

impl ServerList {
    /// Brings it up to date with the servers and the scope.
    pub fn sync(&mut self, model: &Model, height: u16) {
        self.rows.clear();
        self.rows.push(None);
        self.rows.extend(model.view.servers.keys().cloned().map(Some));
        self.list.select(model.scope.clone());
        self.list.sync(&self.rows[..], usize::from(height));
    }

    /// The row `delta` rows from the selected one.
    pub fn step(&self, delta: isize) -> Option<ServerName> {
        let last = self.rows.len().saturating_sub(1);
        let index = self.list.index().saturating_add_signed(delta).min(last);
        self.rows.get(index).cloned().flatten()
    }

    /// The row at a line of the screen.
    pub fn row_at(&self, line: u16) -> Option<&Option<ServerName>> {
        self.rows.get(self.list.top() + usize::from(line))
    }

    /// Draws it.
    pub fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let selection = cx.selection(true);
        self.list.render(cx, &self.rows[..], (area, selection), buf, |pen, n| {
            match &self.rows[n] {
                None => _ = pen.put("All servers", cx.style(Role::Text)),
                Some(name) => server_row(cx, name, pen),
            }
        });
        self.render_left_out(cx, area, buf);
    }

    /// Servers whose entry cannot be used stand below the others: nothing can be narrowed to them,
    /// but they are not missing.
    fn render_left_out(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let left_out = cx.model.left_out();
        let free = usize::from(area.height).saturating_sub(self.rows.len());
        let shown = if left_out.len() > free { free.saturating_sub(1) } else { left_out.len() };
        let line = |n: usize| {
            let row = (self.rows.len() + n) as u16;
            Rect { y: area.y + row.min(area.height), height: 1, ..area }
        };
        for (n, (name, _)) in left_out.iter().take(shown).enumerate() {
            let mut pen = Pen::new(buf, line(n)).ellipsis(cx.glyphs.ellipsis);
            pen.skip(1).put(cx.glyphs.down, cx.style(Role::Error)).skip(1);
            let note = "left out";
            let room = pen.room().saturating_sub(note.len() as u16 + 2);
            pen.middle(Model::name(name), room, cx.style(Role::Muted)).skip(1);
            pen.put(note, cx.style(Role::Error));
        }
        if left_out.len() > shown && free > 0 {
            let mut pen = Pen::new(buf, line(shown));
            pen.skip(3)
                .put(ink!("{} more left out", left_out.len() - shown), cx.style(Role::Error));
        }
    }

    /// Whether a line of the screen stands for a server that was left out.
    pub fn is_left_out(&self, model: &Model, line: u16) -> bool {
        let line = usize::from(line);
        (self.rows.len()..self.rows.len() + model.left_out().len()).contains(&line)
    }
}

fn server_row(cx: &Cx<'_>, name: &ServerName, pen: &mut Pen<'_>) {
    let Some(server) = cx.model.server(name) else { return };
    let role = Role::of(server.state);
    let mark = if cx.model.marked.contains(name) { "+" } else { " " };
    pen.put(cx.glyphs.state(server.state), cx.style(role)).put(mark, cx.style(Role::Accent));
    let note: Ink = match server.state {
        ServerState::Ready => ink!("{}", server.capabilities.tools.len()),
        ServerState::Starting => cx.model.elapsed(server.since),
        ServerState::Unavailable => match &server.exit {
            Some(exit) if !exit.expected => Ink::line(&exit.describe()),
            _ => ink!("down"),
        },
        state => ink!("{}", state.as_str()),
    };
    let spark = if server.state == ServerState::Ready && pen.room() > 16 { 7 } else { 0 };
    let note_width = crate::tui::widget::width(&note).min(pen.room() / 2);
    let name_width = pen.room().saturating_sub(note_width + spark + 2);
    let weight = if server.state == ServerState::Ready { Role::Text } else { Role::Muted };
    pen.middle(Model::name(name), name_width, cx.style(weight)).skip(1);
    pen.clip(note, note_width, cx.style(Role::Muted));
    if spark > 0 {
        pen.skip(1);
        let recent = cx.model.recent(name, usize::from(spark) - 1);
        let most = recent.iter().copied().max().unwrap_or(0);
        for count in recent {
            let role = if count == 0 { Role::Faint } else { Role::Accent };
            pen.clip(cx.glyphs.bar(count, most), 1, cx.style(role));
        }
    }
}
