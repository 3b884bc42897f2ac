//! The servers as a table: one row each, those that failed first. A server that starts has a bar of
//! its steps in place of its numbers, and keeps it until all that start with it are up: together they
//! are the waterfall of the start, on one axis. A server that is down has the reason.

use std::cmp::Reverse;
use std::ops::Range;

use crate::glyph::{Glyphs, reason_beside};
use crate::model::Model;
use crate::prelude::*;
use crate::widget::doc::DocLine;
use crate::widget::pen::shortened;
use crate::widget::{Doc, width};
use host::{ServerState, ServerView, StepStatus};

named! {
    /// What the rows are sorted by.
    #[derive(Default)]
    pub(super) enum ServerOrder {
        /// Those that are down first, the others in the order of the file: a row moves only when
        /// its server fails or is back.
        #[default]
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
    /// The next order; the last is followed by the first.
    pub(super) const fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    /// Cells of its column.
    const fn width(self) -> usize {
        match self {
            Self::Tools => 6,
            Self::Cpu => 5,
            _ => 7,
        }
    }

    /// A cell of a server: the numbers it is sorted by, largest first, the text and its role.
    fn cell(self, server: &ServerView, model: &Model) -> ((u64, u64), Ink, Role) {
        let metrics = model.metrics.get(&server.name).map(|metrics| &metrics.total);
        let usage = model.usage.get(&server.name);
        let errors = metrics.map_or(0, host::MetricsView::failed);
        let or_none = |known: Option<(u64, Ink)>| known.unwrap_or_else(|| (0, ink!("-")));
        let ((first, text), role) = match self {
            Self::Worst => {
                let down = u64::from(server.state == ServerState::Unavailable);
                return ((down, 0), Ink::default(), Role::Text);
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

/// Cells of the state, with the time since when.
const STATE_COLUMNS: usize = 15;
/// Cells of the spark-line.
const SPARK_COLUMNS: usize = 12;

/// Draws a line of titles and a row per name; returns the lines of the rows.
pub(super) fn draw(
    model: &Model,
    glyphs: &Glyphs,
    names: &[ServerName],
    (order, reversed): (ServerOrder, bool),
    doc: &mut Doc,
) -> Vec<Range<usize>> {
    if names.is_empty() {
        return Vec::new();
    }
    let longest = names.iter().map(|name| width(&Model::name(name))).max().unwrap_or(0);
    // A single long name does not take the columns of all servers.
    let most = (doc.width() / 4).clamp(12, 32);
    let name_width = usize::from(longest.clamp(6, most));
    // Columns that do not fit are left out, the last ones first. The blank after the last column is
    // one cell more.
    let mut room = usize::from(doc.width()).saturating_sub(name_width + 4 + STATE_COLUMNS);
    let mut columns = ServerOrder::ALL[2..].to_vec();
    let fits = |column: &ServerOrder| {
        let wide = column.width() + 1;
        let fits = wide <= room;
        room = if fits { room - wide } else { 0 };
        fits
    };
    columns.retain(fits);
    let has_spark = room > SPARK_COLUMNS;
    let role = |column| if column == order { Role::Accent } else { Role::Faint };
    let title =
        |column: ServerOrder| glyphs.sorted(column.name(), (column == order).then_some(!reversed));
    let mut line: DocLine = vec![
        (ink!("  {:<1$} ", title(ServerOrder::Name), name_width), role(ServerOrder::Name)),
        (ink!("{:<1$}", title(ServerOrder::Worst), STATE_COLUMNS), role(ServerOrder::Worst)),
    ];
    line.extend(columns.iter().map(|c| (ink!(" {:>1$}", title(*c), c.width()), role(*c))));
    if has_spark {
        line.push((ink!("  {:<1$}", "last 24 s", SPARK_COLUMNS), Role::Faint));
    }
    doc.line(line);
    let began = start_of_batch(model);
    let mut rows = Vec::new();
    for server in names.iter().filter_map(|name| model.server(name)) {
        rows.push(doc.len()..doc.len() + 1);
        let mut line = head(server, model, glyphs, name_width);
        let mark = if model.marked.contains(&server.name) { glyphs.mark } else { " " };
        line.push((ink!("{}", mark), Role::Accent));
        match (server.state, reason_beside(server), began) {
            (ServerState::Starting, _, Some(began)) => {
                extend(&mut line, bar(server, model, glyphs, began), doc.width());
            }
            (ServerState::Ready, _, Some(began)) if is_fresh(server, began, model) => {
                extend(&mut line, bar(server, model, glyphs, began), doc.width());
            }
            (ServerState::Ready, ..) | (_, None, _) => {
                for column in &columns {
                    let (_, text, role) = column.cell(server, model);
                    line.push((ink!("{:>1$} ", text, column.width()), role));
                }
                if has_spark {
                    line.push((spark(server, model, glyphs), Role::Muted));
                }
            }
            (_, Some(reason), _) => {
                let role = state_role(server.state);
                line.push((Ink::line(reason), role));
            }
        }
        doc.line(line);
    }
    rows
}

/// Adds a bar to a row; what comes last is left out where it has no room.
fn extend(line: &mut DocLine, mut bar: DocLine, room: u16) {
    let columns = |line: &DocLine| line.iter().map(|(text, _)| width(text)).sum::<u16>();
    if columns(line) + columns(&bar) > room {
        bar.pop();
    }
    line.extend(bar);
}

/// The column whose title stands at this cell of the line of titles.
pub(super) fn title_at(titles: &DocLine, x: u16) -> Option<ServerOrder> {
    let mut end = 0;
    let (title, _) = titles.iter().find(|(title, _)| {
        end += width(title);
        x < end
    })?;
    // The sign of the order stands before the word.
    let word = title.as_str().trim();
    ServerOrder::ALL.into_iter().find(|order| word.ends_with(order.name()))
}

/// Sign, name and state of a server.
fn head(server: &ServerView, model: &Model, glyphs: &Glyphs, name_width: usize) -> DocLine {
    let role = state_role(server.state);
    let since = match server.state {
        ServerState::Starting => model.elapsed(server.since),
        _ => model.ago(server.since),
    };
    let (word, role) = match server.state {
        ServerState::Ready if !server.breaker.is_closed() => (ink!("breaker open"), Role::Warning),
        _ => (ink!("{} {}", server_word(server), since), role),
    };
    vec![
        (ink!("{} ", glyphs.state(server.state)), state_role(server.state)),
        (
            ink!(
                "{:<1$} ",
                shortened(&Model::name(&server.name), name_width as u16, glyphs.ellipsis),
                name_width
            ),
            Role::Heading,
        ),
        (ink!("{:<1$}", word, STATE_COLUMNS), role),
    ]
}

/// The last messages of a server, two seconds each.
fn spark(server: &ServerView, model: &Model, glyphs: &Glyphs) -> Ink {
    let recent = model.recent(&server.name, SPARK_COLUMNS);
    let most = recent.iter().copied().max().unwrap_or(0);
    let mut bars = ink!(" ");
    for count in recent.into_iter().filter(|_| most > 0) {
        bars.push(glyphs.bar(count, most));
    }
    bars
}

/// When the start began that goes on: that of the servers which are starting, and of those whose
/// start met theirs; `None` when none is starting.
fn start_of_batch(model: &Model) -> Option<Timestamp> {
    let begins = |server: &ServerView| Some(server.steps.first()?.began);
    let starting = model.servers().filter(|server| server.state == ServerState::Starting);
    let first = starting.filter_map(|server| begins(server)).min()?;
    let met = model.servers().filter(|server| is_fresh(server, first, model));
    met.filter_map(|server| begins(server)).min().map(|met| met.min(first)).or(Some(first))
}

/// Whether the last start of a server, which nobody has called since, ended after this.
fn is_fresh(server: &ServerView, after: Timestamp, model: &Model) -> bool {
    let calls = model.metrics.get(&server.name).map_or(0, |metrics| metrics.total.requests);
    let end = server.steps.iter().filter_map(|step| Some(step.began.plus(step.took?))).max();
    server.state == ServerState::Ready && calls == 0 && end.is_some_and(|end| end >= after)
}

/// Cells of the bar of a start.
const BAR_COLUMNS: u64 = 24;
/// The shortest time that a whole bar stands for.
const MIN_START_WINDOW: Duration = Duration::from_secs(2);
/// A start is drawn anew this often.
const START_INTERVAL: Duration = Duration::from_millis(250);

/// The steps of a start so far, on the axis of all servers that are starting, and the running one.
fn bar(server: &ServerView, model: &Model, glyphs: &Glyphs, began: Timestamp) -> DocLine {
    model.wake_at(model.now.plus(START_INTERVAL));
    let whole = model.now.since(began).max(MIN_START_WINDOW).as_micros().max(1) as u64;
    let cell = |at: Timestamp| at.since(began).as_micros() as u64 * BAR_COLUMNS / whole;
    let mut line: DocLine = vec![(ink!(" "), Role::Text)];
    let mut drawn = 0;
    let mut upto = |line: &mut DocLine, to: u64, sign: &'static str, role: Role| {
        let mut part = Ink::default();
        for _ in drawn..to.min(BAR_COLUMNS) {
            part.push(sign);
        }
        drawn = drawn.max(to.min(BAR_COLUMNS));
        line.push((part, role));
    };
    let [_, done, running, _] = glyphs.spans;
    for step in server.steps.iter().filter(|step| step.status != StepStatus::Skipped) {
        upto(&mut line, cell(step.began), " ", Role::Text);
        let end = step.took.map_or(model.now, |took| step.began.plus(took));
        let (sign, role) = match step.status {
            StepStatus::Running => (running, Role::Busy),
            StepStatus::Failed => (done, Role::Error),
            StepStatus::Ok | StepStatus::Skipped => (done, Role::Ok),
        };
        upto(&mut line, (cell(end) + 1).max(1), sign, role);
    }
    upto(&mut line, BAR_COLUMNS, " ", Role::Text);
    if let Some(step) = server.steps.iter().find(|step| step.status == StepStatus::Running) {
        line.push((ink!(" {}", step.step.word()), Role::Busy));
        line.push((ink!(" {}", model.elapsed(step.began)), Role::Muted));
    } else if let Some(first) = server.steps.first()
        && server.state == ServerState::Ready
    {
        let ends = server.steps.iter().filter_map(|step| Some(step.began.plus(step.took?)));
        let took = ends.max().map(|end| end.since(first.began)).unwrap_or_default();
        line.push((ink!(" up in {}", Dur(took)), Role::Ok));
        let tools = count(server.capabilities.tools.len(), "tool");
        line.push((ink!(" {} {}", glyphs.dot, tools), Role::Muted));
    }
    line
}
