//! Logs of the host, stderr of the servers, log notifications: levels, search, wrap, follow.

use crate::filter::{Filter, contains, find};
use crate::keymap::KeyScope;
use crate::model::{Model, zoned};
use crate::overlay::{Palette, TextReader};
use crate::pane::{Availability, Cx, Gesture, Out, Pane, RedRow, Ui, when};
use crate::pick::{Choice, Pick};
use crate::prefs::Prefs;
use crate::prelude::*;
use crate::widget::doc::wrap;
use crate::widget::{Doc, FilterMatch, KeepFilter, Pen, StreamList, scroll_bar, width};
use base::LogLevel;
use base::logs::{LogRecord, LogSource};
use deck::{Order, ServerCommand};
use host::ServerState;
use terminal::ink::InkSlice;

/// Levels from the least to the most severe, in the order of [`LogLevel`]: with a word and a role.
const LEVELS: [(LogLevel, &str, Role); 9] = [
    (LogLevel::Trace, "trace", Role::Faint),
    (LogLevel::Debug, "debug", Role::Faint),
    (LogLevel::Info, "info", Role::Muted),
    (LogLevel::Notice, "notice", Role::Muted),
    (LogLevel::Warning, "warn", Role::Warning),
    (LogLevel::Error, "error", Role::Error),
    (LogLevel::Critical, "crit", Role::Error),
    (LogLevel::Alert, "alert", Role::Error),
    (LogLevel::Emergency, "emerg", Role::Error),
];

/// Cells per step of horizontal scrolling.
const SIDEWAYS_COLUMNS: u16 = 8;
/// Most lines of one record where lines wrap.
const MAX_RECORD_LINES: usize = 50;
/// Most rows examined by one search.
const MAX_SEARCHED_ROWS: usize = 500_000;

#[derive(Default)]
pub struct LogsPane {
    stream: StreamList,
    /// The least severe level that is shown, as a row of [`LEVELS`].
    least: usize,
    wrap: bool,
    shift: u16,
    /// Whether to search for the text just typed.
    seek: bool,
}

/// The word of a level.
pub const fn level_word(level: LogLevel) -> &'static str {
    LEVELS[level as usize].1
}

const fn level_role(level: LogLevel) -> Role {
    LEVELS[level as usize].2
}

impl LogsPane {
    /// Restores the preferences.
    pub fn read_prefs(&mut self, prefs: &Prefs) {
        self.least = prefs.log_level.unwrap_or(LogLevel::Trace) as usize;
        self.wrap = prefs.wrap_logs;
    }

    /// Stores the preferences.
    pub fn write_prefs(&self, prefs: &mut Prefs) {
        prefs.log_level = Some(LEVELS[self.least].0);
        prefs.wrap_logs = self.wrap;
    }

    fn list(area: Rect) -> Rect {
        Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(1), ..area }
    }

    fn record<'a>(&self, model: &'a Model) -> Option<&'a Arc<LogRecord>> {
        model.logs.get(self.stream.selected()?)
    }

    fn turn_level(&mut self, delta: isize, out: &mut Out) {
        self.least = self.least.saturating_add_signed(delta).min(LEVELS.len() - 1);
        out.say(ink!("showing level {} and above", LEVELS[self.least].1));
        out.remember = true;
    }

    /// After typing: stays on a line that matches, or goes to the nearest older match.
    fn seek_here(&mut self, ui: Ui<'_>) {
        let needle = &self.stream.needle;
        let here = self.record(ui.model);
        if !needle.is_empty() && !here.is_some_and(|record| matches(record, needle)) {
            self.search(-1, ui, &mut Out::default());
        }
    }

    fn search(&mut self, delta: isize, ui: Ui<'_>, out: &mut Out) {
        let needle = &self.stream.needle;
        let len = self.stream.len();
        if needle.is_empty() || len == 0 {
            return;
        }
        let start = self.stream.list.index();
        for step in 1..=len.min(MAX_SEARCHED_ROWS) {
            let row =
                (start as isize + delta * step as isize).rem_euclid(len as isize).unsigned_abs();
            let seq = self.stream.seq(row);
            if ui.model.logs.get(seq).is_some_and(|record| matches(record, needle)) {
                return self.stream.jump(seq, usize::from(Self::list(ui.area).height));
            }
        }
        out.warn(ink!("No matches"));
    }

    fn text_of(&self, model: &Model) -> String {
        let from = self.stream.len().saturating_sub(100_000);
        (from..self.stream.len())
            .filter_map(|row| model.logs.get(self.stream.seq(row)))
            .map(|record| line_of(record))
            .collect()
    }

    // Lines of the logs pane on the screen: wrapped or scrolled, with matches highlighted.

    /// The visible records, each with its lines. If lines wrap, the first records give way to the
    /// selected one.
    fn in_sight<'a>(&self, cx: &Cx<'a>, list: Rect) -> Vec<(u64, &'a LogRecord, Vec<&'a str>)> {
        let room = list.width.saturating_sub(Self::lead(cx, list.width.saturating_sub(1)) + 2);
        let lines = |record: &'a LogRecord| {
            if self.wrap {
                wrap(&record.text, room.max(8)).take(MAX_RECORD_LINES).collect()
            } else {
                vec![record.text.as_str()]
            }
        };
        let window = self.stream.window(usize::from(list.height));
        let records = window.filter_map(|seq| Some((seq, &**cx.model.logs.get(seq)?)));
        let mut rows: Vec<_> = records.map(|(seq, one)| (seq, one, lines(one))).collect();
        let selected = self.stream.selected();
        let at = rows.iter().position(|(seq, ..)| Some(*seq) == selected).unwrap_or(0);
        let mut used: usize = rows.iter().take(at + 1).map(|(.., lines)| lines.len()).sum();
        let mut first = 0;
        while first < at && used > usize::from(list.height) {
            used -= rows[first].2.len();
            first += 1;
        }
        rows.split_off(first)
    }

    /// Why no line is shown.
    fn nothing(&self, model: &Model) -> Ink {
        if model.logs.is_empty() {
            ink!("No log lines yet: stderr and log messages of all servers come here")
        } else if self.stream.filter.is_empty() {
            ink!("No log lines of level {} or above", LEVELS[self.least].1)
        } else {
            ink!("No log lines of level {} or above in this filter", LEVELS[self.least].1)
        }
    }

    /// Cells before the text.
    fn lead(cx: &Cx<'_>, room: u16) -> u16 {
        let time = if room < 70 { 8 } else { 12 };
        1 + time + 1 + 6 + Self::server_columns(cx).map_or(0, |cells| cells + 1)
    }

    /// Cells of the names of the servers, if there is more than one.
    fn server_columns(cx: &Cx<'_>) -> Option<u16> {
        let longest = cx.model.view.servers.keys().map(|name| width(&Model::name(name))).max();
        cx.model.scope.is_none().then(|| longest.unwrap_or(0).clamp(4, 12))
    }

    fn render_record(
        &self,
        cx: &Cx<'_>,
        (seq, record, lines): &(u64, &LogRecord, Vec<&str>),
        area: Rect,
        buf: &mut Buffer,
    ) {
        let selected = self.stream.selected() == Some(*seq);
        let lead = Self::lead(cx, area.width);
        let own = record.source == LogSource::Host;
        let text_role = if own { Role::Text } else { Role::Foreign };
        for (n, (part, line)) in lines.iter().zip(area.rows()).enumerate() {
            let mut pen = Pen::new(buf, line).ellipsis(cx.glyphs.ellipsis);
            if n == 0 {
                pen.put(if selected { cx.glyphs.cursor } else { " " }, cx.style(Role::Accent));
                let cells = if area.width < 70 { 8 } else { 12 };
                let time = Model::time_in(record.at, cells);
                pen.left(time, cells, cx.style(Role::Faint)).skip(1);
                pen.left(level_word(record.level), 5, cx.style(level_role(record.level))).skip(1);
                if let Some(cells) = Self::server_columns(cx) {
                    let who = record.server.as_ref().map_or_else(|| ink!("host"), Model::name);
                    pen.middle(who, cells, cx.style(Role::Muted)).skip(1);
                }
            }
            pen.column(lead);
            if n == 0 && record.source == LogSource::Build {
                pen.put("build ", cx.style(Role::Faint));
            }
            let offset = part.as_ptr() as usize - record.text.as_ptr() as usize;
            let from = offset + if self.wrap { 0 } else { skip(part, self.shift) };
            draw_text(
                cx,
                InkSlice::new(&record.text, from, offset + part.len()),
                &self.stream.needle,
                text_role,
                &mut pen,
            );
            let is_cut = n + 1 == MAX_RECORD_LINES && offset + part.len() < record.text.len();
            if self.wrap && is_cut {
                pen.put(cx.glyphs.ellipsis, cx.style(Role::Faint));
            }
            if selected {
                pen.row_style(cx.selection(true));
            }
        }
    }

    fn render_head(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let list = &self.stream;
        let mut state = ink!("{}  ", count(list.len(), "line"));
        if self.least > 0 {
            state.push(ink!("{} and above  ", LEVELS[self.least].1));
        }
        if self.shift > 0 {
            state.push(ink!("+{} cells  ", self.shift));
        }
        let hint = "search, since: from: to: server:";
        let feed = (&cx.model.logs, KeyScope::Logs);
        let typed = list.render_head(cx, hint, feed, (Ink::default(), state), (area, buf));
        if let Some(problem) = &list.problem {
            let mut pen = Pen::new(buf, typed).ellipsis(cx.glyphs.ellipsis);
            pen.column(width(&Ink::line(list.input.text())) + 3);
            pen.put(Ink::line(problem), cx.style(Role::Error));
        }
    }
}

/// Lets the user choose what is logged, by mcpdeck and by each server.
pub fn choose_level(model: &Model, out: &mut Out) {
    let mut choices = Vec::new();
    let host = [LogLevel::Trace, LogLevel::Debug, LogLevel::Info, LogLevel::Warning];
    for level in host.into_iter().chain([LogLevel::Error]) {
        choices.push(Choice::new(
            ink!("mcpdeck: {} and above", level_word(level)),
            ink!("log file"),
            Pick::LogLevel(level),
        ));
    }
    for server in model.servers() {
        for (level, ..) in LEVELS.into_iter().skip(1) {
            choices.push(Choice {
                words: ink!("{}: {} and above", Model::name(&server.name), level_word(level)),
                hint: ink!(""),
                pick: Pick::Order(Order::Server(
                    server.name.clone(),
                    ServerCommand::LogLevel(level),
                )),
                disabled: (server.state != ServerState::Ready).then(|| ink!("not ready")),
            });
        }
    }
    let title = ink!("log level");
    out.open(Palette::new(title, choices));
}

/// Whether a line contains the text, or belongs to a server with that text in its name.
fn matches(record: &LogRecord, needle: &str) -> bool {
    let of = record.server.as_ref().is_some_and(|server| contains(server.as_str(), needle));
    of || contains(&record.text, needle)
}

/// Every known detail of a line.
fn detail(record: &LogRecord, width: u16) -> Doc {
    let mut doc = Doc::new(width.clamp(40, 100));
    let server = record.server.as_ref().map_or_else(|| ink!("mcpdeck"), Model::name);
    doc.field("time", Ink::line(&record.at.to_rfc3339()), Role::Text);
    doc.field("level", level_word(record.level), level_role(record.level));
    doc.field("server", server, Role::Text);
    doc.field("source", source_word(record), Role::Text);
    doc.field_if("logger", record.logger.as_ref(), Role::Foreign);
    doc.gap();
    doc.text(0, &record.text, Role::Foreign);
    doc
}

/// Where a line came from.
fn source_word(record: &LogRecord) -> &'static str {
    record.source.into()
}

/// The same, as the end of a phrase.
fn whence(record: &LogRecord) -> &'static str {
    let known = [
        (LogSource::Host, "from mcpdeck"),
        (LogSource::Stderr, "on stderr"),
        (LogSource::Build, "of its build"),
        (LogSource::Notification, "from the server"),
    ];
    let found = known.iter().find(|(source, _)| *source == record.source);
    found.map_or_else(|| source_word(record), |(_, words)| *words)
}

fn line_of(record: &LogRecord) -> String {
    let server = record.server.as_ref().map_or("host", ServerName::as_str);
    format!(
        "{} {} {} {}\n",
        record.at.to_rfc3339(),
        level_word(record.level),
        server,
        record.text.as_str()
    )
}

impl Pane for LogsPane {
    fn scopes(&self) -> &'static [KeyScope] {
        &[KeyScope::Logs, KeyScope::List]
    }

    fn rewound(&mut self) {
        self.stream.reset();
    }

    fn sync(&mut self, ui: Ui<'_>) {
        let now = zoned(ui.model.now);
        self.stream.read(ui.model, self.least, |typed| Filter::of_logs(typed, &now));
        let level = LEVELS[self.least].0;
        let judge = |filter: &Filter, _: u64, record: &LogRecord| {
            let passes = record.level >= level && filter.passes_line(record);
            if passes { FilterMatch::Row } else { FilterMatch::Out }
        };
        let height = usize::from(Self::list(ui.area).height);
        let feed = (ui.model, &ui.model.logs);
        self.stream.update(
            feed,
            level > LogLevel::Trace,
            |line| line.server.as_ref(),
            judge,
            height,
        );
        if std::mem::take(&mut self.seek) {
            self.seek_here(ui);
        }
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        let height = usize::from(Self::list(ui.area).height);
        if self.stream.input.editing || self.stream.act(action, height, ui.model.logs.end()) {
            return true;
        }
        match action {
            Action::SearchNext => self.search(1, ui, out),
            Action::SearchPrevious => self.search(-1, ui, out),
            Action::LevelUp => self.turn_level(1, out),
            Action::LevelDown => self.turn_level(-1, out),
            Action::ServerLogLevel => choose_level(ui.model, out),
            Action::Wrap => {
                self.wrap = !self.wrap;
                self.shift = 0;
                out.remember = true;
            }
            Action::Left => self.shift = self.shift.saturating_sub(SIDEWAYS_COLUMNS),
            Action::Right => self.shift = self.shift.saturating_add(SIDEWAYS_COLUMNS).min(16_384),
            Action::Copy => {
                if let Some(record) = self.record(ui.model) {
                    out.copy(record.text.as_str().to_owned());
                }
            }
            Action::CopyAll => out.copy(self.text_of(ui.model)),
            Action::Save => out.save("mcpdeck-logs.txt", self.text_of(ui.model)),
            Action::Open => {
                if let Some(record) = self.record(ui.model) {
                    let reader = TextReader::new(ink!("log line"), detail(record, ui.area.width));
                    out.open(reader);
                }
            }
            _ => return false,
        }
        true
    }

    fn availability(&self, action: Action, _: &Model) -> Option<Availability> {
        Some(match action {
            Action::SearchNext | Action::SearchPrevious => {
                when(!self.stream.needle.is_empty(), "search with {filter} first")
            }
            Action::Open | Action::Copy | Action::CopyAll | Action::Save => {
                when(!self.stream.is_empty(), "there are no log lines")
            }
            _ => return None,
        })
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let list = Self::list(ui.area);
        let at = gesture.position();
        let rows = self.in_sight(&ui, list);
        let mut lines = rows.iter().flat_map(|(seq, _, lines)| lines.iter().map(|_| *seq));
        let clicked = at.y.checked_sub(list.y).and_then(|line| lines.nth(line.into()));
        match (gesture, clicked) {
            (Gesture::Click(_), Some(seq)) => self.stream.jump(seq, list.height.into()),
            // The first of the two clicks has selected it.
            (Gesture::DoubleClick(_), Some(_)) => _ = self.act(Action::Open, ui, out),
            _ => _ = self.stream.mouse(gesture, Rect { height: 1, ..ui.area }, list),
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        self.render_head(cx, Rect { height: area.height.min(1), ..area }, buf);
        let list = Self::list(area);
        // The last column is for the scroll bar.
        let mut rest = Rect { width: list.width.saturating_sub(1), ..list };
        for row in self.in_sight(cx, list) {
            self.render_record(cx, &row, rest, buf);
            let used = rest.height.min(row.2.len() as u16);
            rest = Rect { y: rest.y + used, height: rest.height - used, ..rest };
        }
        scroll_bar(cx, self.stream.len(), self.stream.list.top(), list, buf);
        if self.stream.is_empty() {
            Pen::new(buf, list).at(1, 1).put(self.nothing(cx.model), cx.style(Role::Faint));
        }
    }

    fn end_typing(&mut self, keep: KeepFilter) {
        self.stream.input.end(keep);
        self.seek = keep == KeepFilter::Yes;
    }

    fn red_row(&self, model: &Model) -> Option<RedRow> {
        let record = self.record(model)?;
        let source = whence(record);
        Some(RedRow {
            server: record.server.clone(),
            what: "log line",
            words: ink!("{} {}, {}", level_word(record.level), source, model.when(record.at)),
            text: record.text.clone(),
            at: Some(record.at),
            help: None,
            place: None,
        })
    }

    filtered_by!(stream.input);
}

fn skip(text: &str, cells: u16) -> usize {
    if cells == 0 { 0 } else { crate::widget::pen::fit(text, cells) }
}

fn draw_text(cx: &Cx<'_>, text: InkSlice<'_>, needle: &str, role: Role, pen: &mut Pen<'_>) {
    let mut at = 0;
    while !needle.is_empty() && pen.room() > 0 {
        let Some(found) = text.as_str().get(at..).and_then(|rest| find(rest, needle)) else {
            break;
        };
        pen.put(text.part(at, at + found), cx.style(role));
        pen.put(text.part(at + found, at + found + needle.len()), cx.style(Role::Match));
        at += found + needle.len();
    }
    pen.put(text.part(at, usize::MAX), cx.style(role));
}
