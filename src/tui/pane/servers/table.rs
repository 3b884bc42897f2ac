//! The servers as a table: one row each, sorted by a column, the worst first.

use std::cmp::Reverse;
use std::ops::Range;

use crate::glyph::Glyphs;
use crate::model::Model;
use crate::prelude::*;
use crate::widget::doc::DocLine;
use crate::widget::{Doc, width};
use host::{ServerState, ServerView};

named! {
    /// What the rows are sorted by.
    pub(super) enum ServerOrder {
        /// State, then errors.
        Worst = "state",
        Name = "name",
        Tools = "tools",
        Calls = "calls",
        Errors = "errors",
        P95 = "p95",
        Memory = "memory",
        Cpu = "cpu",
    }
}

impl ServerOrder {
    /// The next order; `None` is followed by the first and follows the last: the cards.
    pub(super) fn next(order: Option<Self>) -> Option<Self> {
        Self::ALL.get(order.map_or(0, |order| order as usize + 1)).copied()
    }

    /// A cell of a server: the numbers it is sorted by, largest first, the text and its role.
    fn cell(self, server: &ServerView, model: &Model) -> ((u64, u64), Ink, Role) {
        let metrics = model.metrics.get(&server.name).map(|metrics| &metrics.total);
        let usage = model.usage.get(&server.name);
        let errors = metrics.map_or(0, host::MetricsView::failed);
        let or_none = |known: Option<(u64, Ink)>| known.unwrap_or_else(|| (0, ink!("-")));
        let ((first, text), role) = match self {
            Self::Worst => {
                let badness = match server.state {
                    ServerState::Unavailable => 5,
                    ServerState::Starting | ServerState::Waiting => 4,
                    ServerState::Ready if !server.breaker.is_closed() => 3,
                    ServerState::Ready => 2,
                    ServerState::Disabled | ServerState::Shutdown | ServerState::Sleeping => 1,
                };
                return ((badness, errors), Ink::default(), Role::Text);
            }
            Self::Name => (or_none(None), Role::Text),
            Self::Tools => {
                let tools = server.capabilities.tools.len();
                ((tools as u64, ink!("{}", tools)), Role::Text)
            }
            Self::Calls => {
                (or_none(metrics.map(|m| (m.requests, ink!("{}", m.requests)))), Role::Text)
            }
            Self::Errors => {
                let role = if errors > 0 { Role::Error } else { Role::Faint };
                ((errors, ink!("{}", errors)), role)
            }
            Self::P95 => {
                let p95 = metrics.and_then(|m| m.latency).map(|latency| latency.p95);
                (or_none(p95.map(|p95| (p95.as_micros() as u64, ink!("{}", Dur(p95))))), Role::Text)
            }
            Self::Memory => {
                (or_none(usage.map(|u| (u.memory, ink!("{}", Bytes(u.memory))))), Role::Muted)
            }
            Self::Cpu => {
                let cpu = usage.map(|usage| usage.cpu_percent);
                let cpu = cpu.map(|cpu| ((cpu * 100.0) as u64, ink!("{:.0} %", cpu)));
                (or_none(cpu), Role::Muted)
            }
        };
        ((first, 0), text, role)
    }
}

/// The names in row order.
pub(super) fn sorted(model: &Model, order: ServerOrder, reversed: bool) -> Vec<ServerName> {
    let mut servers: Vec<_> = model.servers().collect();
    match order {
        ServerOrder::Name => servers.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str())),
        order => servers.sort_by_cached_key(|server| Reverse(order.cell(server, model).0)),
    }
    if reversed {
        servers.reverse();
    }
    servers.into_iter().map(|server| server.name.clone()).collect()
}

/// Cells of a column of numbers.
const NUMBER_COLUMNS: usize = 8;

/// Draws a line of titles and a row per name; returns the lines of the rows.
pub(super) fn draw(
    model: &Model,
    glyphs: &Glyphs,
    names: &[ServerName],
    (order, reversed): (ServerOrder, bool),
    doc: &mut Doc,
) -> Vec<Range<usize>> {
    let name_width = names.iter().map(|name| width(&Model::name(name))).max().unwrap_or(0).max(6);
    let state_width = 14;
    // Names are never cut for a column: columns that do not fit are left out, the last ones first.
    let room = usize::from(doc.width()).saturating_sub(usize::from(name_width) + 3 + state_width);
    let columns =
        &ServerOrder::ALL[2..(2 + room / (NUMBER_COLUMNS + 1)).min(ServerOrder::ALL.len())];
    let role = |column| if column == order { Role::Accent } else { Role::Faint };
    let title =
        |column: ServerOrder| glyphs.sorted(column.name(), (column == order).then_some(!reversed));
    let name_width = usize::from(name_width);
    let mut line: DocLine = vec![
        (ink!("  {:<1$} ", title(ServerOrder::Name), name_width), role(ServerOrder::Name)),
        (ink!("{:<1$}", title(ServerOrder::Worst), state_width), role(ServerOrder::Worst)),
    ];
    line.extend(columns.iter().map(|c| (ink!(" {:>1$}", title(*c), NUMBER_COLUMNS), role(*c))));
    doc.line(line);
    let mut rows = Vec::new();
    for server in names.iter().filter_map(|name| model.server(name)) {
        rows.push(doc.len()..doc.len() + 1);
        let role = state_role(server.state);
        let word = match server.state {
            ServerState::Unavailable => "down",
            ServerState::Ready if !server.breaker.is_closed() => "breaker open",
            state => state.as_str(),
        };
        let mut line: DocLine = vec![
            (ink!("{} ", glyphs.state(server.state)), role),
            (ink!("{:<1$} ", Model::name(&server.name), name_width), Role::Heading),
            (ink!("{:<1$}", word, state_width), role),
        ];
        for column in columns {
            let (_, text, role) = column.cell(server, model);
            line.push((ink!(" {:>1$}", text, NUMBER_COLUMNS), role));
        }
        if let Some(reason) = server.reason.as_ref().filter(|_| server.state != ServerState::Ready)
        {
            line.push((ink!("  {}", reason), Role::Muted));
        }
        doc.line(line);
    }
    rows
}
