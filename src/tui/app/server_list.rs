//! The server list on the left. Its selection limits every pane to one server or shows all.

use crate::model::Model;
use crate::pane::Cx;
use crate::prelude::*;
use crate::widget::{ListState, Pen};
use host::ServerState;

/// The list; row 0 stands for all servers.
#[derive(Debug, Default)]
pub struct ServerList {
    list: ListState<Option<ServerName>>,
    rows: Vec<Option<ServerName>>,
}

impl ServerList {
    /// Updates the list from the servers and the scope.
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

    /// Draws the list.
    pub fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let selection = cx.selection(true);
        self.list.render(cx, &self.rows[..], (area, selection), buf, |pen, n| {
            match &self.rows[n] {
                None => _ = pen.put("All servers", cx.style(Role::Text)),
                Some(name) => server_row(cx, name, pen),
            }
        });
    }
}

fn server_row(cx: &Cx<'_>, name: &ServerName, pen: &mut Pen<'_>) {
    let Some(server) = cx.model.server(name) else { return };
    let role = state_role(server.state);
    let mark = if cx.model.marked.contains(name) { "+" } else { " " };
    pen.put(cx.glyphs.state(server.state), cx.style(role)).put(mark, cx.style(Role::Accent));
    let note: Ink = match server.state {
        ServerState::Ready => ink!("{}", server.capabilities.tools.len()),
        ServerState::Starting => cx.model.elapsed(server.since),
        ServerState::Unavailable => match &server.exit {
            Some(exit) if !exit.expected => Ink::line(&exit.describe()),
            _ => ink!("{}", server_word(server)),
        },
        ServerState::Waiting
        | ServerState::Sleeping
        | ServerState::Shutdown
        | ServerState::Disabled => ink!("{}", server_word(server)),
    };
    let spark = if server.state == ServerState::Ready && pen.room() > 16 { 7 } else { 0 };
    let note_width = crate::widget::width(&note).min(pen.room() / 2);
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
