//! The waterfall: operations of all servers on one time axis, below the operations that caused
//! them. Owns the rows; builds and draws only those on the screen.

use std::collections::HashSet;

use ratatui::layout::{Constraint, Layout};

use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::prelude::*;
use crate::widget::{ListState, Pen, empty_text, scroll_bar, width};
use deck::{RecordedOperation, RecordedOperations, RecordedOutcome};
use protocol::Direction;

/// Shortest durations shown, in the order they are cycled.
const LEAST: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
];
/// The axis is magnified by two at most so many times.
const MAX_ZOOM_STEPS: u32 = 20;
/// Cells of the duration at the right.
const DURATION_COLUMNS: u16 = 9;

/// What is shown, and where the cursor is.
#[derive(Debug, Default)]
pub struct Waterfall {
    /// Whether it is shown instead of the messages.
    pub on: bool,
    rows: Vec<u64>,
    list: ListState<u64>,
    stays: bool,
    folded: HashSet<u64>,
    least: usize,
    /// How many times the axis is magnified by two, around the selected operation.
    zoom: u32,
    built_for: Option<(u64, Option<ServerName>)>,
    /// The moment of a recording whose operation is selected.
    moment: Option<Timestamp>,
}

/// The lines of the pane: head, axis, rows, detail.
fn lines(area: Rect) -> [Rect; 4] {
    let detail = if area.height >= 10 { 3 } else { 0 };
    let heights = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(0)];
    Layout::vertical(heights.into_iter().chain([Constraint::Length(detail)])).areas(area)
}

impl Waterfall {
    /// Brings the rows up to date.
    pub fn sync(&mut self, ui: Ui<'_>) {
        let operations = &ui.model.operations;
        let key = (operations.version(), ui.model.scope.clone());
        let is_new = self.built_for.as_ref() != Some(&key);
        if is_new {
            self.build(operations, ui.model);
            self.built_for = Some(key);
        }
        if let Some(playback) = &ui.model.playback {
            // A moment that was asked for is shown; one that only passes leaves the cursor alone.
            let is_other = self.moment.replace(playback.at) != Some(playback.at);
            let follows = !self.stays && (is_other || is_new);
            if (follows || is_other && !playback.is_playing)
                && let Some(number) = self.happened_at(playback.at, operations)
            {
                self.list.select(number);
            }
        } else if let (false, Some(last)) = (self.stays, self.rows.last()) {
            self.list.select(*last);
        }
        self.list.sync(&self.rows[..], usize::from(lines(ui.area)[2].height));
    }

    /// The operation that began or ended last before a moment; of several, one that failed.
    fn happened_at(&self, at: Timestamp, operations: &RecordedOperations) -> Option<u64> {
        let known = self.rows.iter().filter_map(|number| Some((number, operations.get(*number)?)));
        let happened = known.filter_map(|(number, operation)| {
            let ended = operation.ended.filter(|ended| *ended <= at);
            let last = ended.or(Some(operation.asked).filter(|asked| *asked <= at))?;
            Some(((last, ended.is_some() && operation.has_failed()), *number))
        });
        happened.max_by_key(|(last, _)| *last).map(|(_, number)| number)
    }

    fn build(&mut self, operations: &RecordedOperations, model: &Model) {
        self.rows.clear();
        let least = LEAST[self.least];
        let mut below = Vec::new();
        for (number, operation) in operations.iter() {
            // Other operations are listed below the one that caused them.
            if operation.parent.is_some_and(|parent| operations.get(parent).is_some()) {
                continue;
            }
            below.push(number);
            while let Some(number) = below.pop() {
                let Some(operation) = operations.get(number) else { continue };
                if model.in_scope(&operation.server) && operation.took(operations.latest()) >= least
                {
                    self.rows.push(number);
                }
                if !self.folded.contains(&number) {
                    below.extend(operation.children.iter().rev());
                }
            }
        }
    }

    /// Performs an action; returns whether it was handled.
    pub fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        let height = usize::from(lines(ui.area)[2].height);
        if let Some(steps) = action.steps(height.max(1) as isize) {
            self.list.step(steps, &self.rows[..], height);
            self.stays = self.list.index() + 1 < self.rows.len();
            return true;
        }
        match action {
            Action::Follow | Action::Freeze => self.stays = !self.stays,
            Action::Fold => self.fold(ui.model, None),
            Action::Left => self.fold(ui.model, Some(true)),
            Action::Right => self.fold(ui.model, Some(false)),
            Action::ZoomIn => self.zoom = (self.zoom + 1).min(MAX_ZOOM_STEPS),
            Action::ZoomOut => self.zoom = self.zoom.saturating_sub(1),
            Action::Longer => {
                self.least = (self.least + 1) % LEAST.len();
                self.built_for = None;
            }
            Action::Copy => match self.selected(ui.model) {
                Some(operation) => out.copy(exact(operation, ui.model).as_str().to_owned()),
                None => out.warn(ink!("there is no operation")),
            },
            _ => return false,
        }
        true
    }

    /// Folds or unfolds what the selected operation caused; if nothing, what its parent caused.
    fn fold(&mut self, model: &Model, fold: Option<bool>) {
        let Some(number) = self.list.selected().copied() else { return };
        let Some(operation) = model.operations.get(number) else { return };
        self.stays = true;
        let number = match operation.parent {
            Some(parent) if operation.children.is_empty() => {
                if fold == Some(false) {
                    return;
                }
                self.list.select(parent);
                parent
            }
            _ => number,
        };
        if fold.unwrap_or(!self.folded.contains(&number)) {
            self.folded.insert(number);
        } else {
            self.folded.remove(&number);
        }
        self.built_for = None;
    }

    /// The selected operation.
    pub fn selected<'a>(&self, model: &'a Model) -> Option<&'a RecordedOperation> {
        model.operations.get(*self.list.selected()?)
    }

    /// The wheel, and clicks on rows; returns whether a row was clicked.
    /// The wheel over the axis magnifies it.
    pub fn mouse(&mut self, gesture: Gesture, area: Rect) -> bool {
        if let Gesture::Scroll { at, delta } = gesture
            && lines(area)[1].contains(at)
        {
            let step = i32::from(delta < 0) - i32::from(delta > 0);
            self.zoom = self.zoom.saturating_add_signed(step).min(MAX_ZOOM_STEPS);
            return false;
        }
        let clicked = self.list.mouse(gesture, &self.rows[..], lines(area)[2]);
        self.stays = clicked || self.list.index() + 1 < self.rows.len();
        clicked
    }

    /// Draws it.
    pub fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let [head, axis_line, list, detail] = lines(area);
        self.render_head(cx, head, buf);
        if self.rows.is_empty() {
            let text = if self.least == 0 {
                ink!("No operations yet; requests of all servers are listed here")
            } else {
                cx.spelled(
                    &[KeyScope::Traffic],
                    "Nothing took that long; {longer} shows shorter ones",
                )
            };
            empty_text(cx, &text, list, buf);
            return;
        }
        let operations = &cx.model.operations;
        let height = usize::from(list.height);
        let window = self.list.window(self.rows.len(), height);
        let shown: Vec<&RecordedOperation> =
            self.rows[window].iter().filter_map(|number| operations.get(*number)).collect();
        let now = if cx.model.playback.is_some() { operations.latest() } else { cx.model.now };
        let moment = cx.model.playback.as_ref().map(|playback| playback.at);
        let center = self.selected(cx.model).map(|operation| operation.asked);
        let axis = Axis::new((&shown, operations), now, (self.zoom, center), list);
        let path = self.critical_path(operations);
        axis.render(cx, axis_line, buf);
        let style = cx.selection(true);
        self.list.render(cx, &self.rows[..], (list, style), buf, |pen, at| {
            let number = &self.rows[at];
            let Some(operation) = operations.get(*number) else { return };
            let folded = self.folded.contains(number);
            let is_critical = path.len() > 1 && path.iter().any(|(on, _)| on == number);
            let role = match moment {
                Some(at) if operation.asked > at => Role::Faint,
                _ if is_critical => Role::Heading,
                _ => Role::Text,
            };
            name(operation, (folded, role), cx, axis.left.saturating_sub(2), pen);
            pen.column(list.width.saturating_sub(DURATION_COLUMNS + 1));
            let role = if operation.has_failed() { Role::Error } else { Role::Muted };
            pen.right(ink!("{}", Dur(operation.took(now))), DURATION_COLUMNS, cx.style(role));
            axis.folds(cx, pen);
            axis.moment(moment, cx, pen);
            axis.bar(operation, &waits(operation, operations, now), cx, pen);
        });
        scroll_bar(cx, self.rows.len(), self.list.top(), list, buf);
        if let Some(operation) = self.selected(cx.model).filter(|_| detail.height > 0) {
            Pen::new(buf, detail).rule(cx.glyphs.horizontal, cx.style(Role::Rule));
            let mut pen = Pen::new(buf, detail).ellipsis(cx.glyphs.ellipsis);
            pen.at(1, 1).put(exact(operation, cx.model), cx.style(Role::Text));
            pen.at(1, 2).put("critical path", cx.style(Role::Heading));
            for (number, took) in &path {
                let Some(on) = operations.get(*number) else { continue };
                let what = on.target.as_ref().unwrap_or(&on.method);
                pen.skip(2).put(what, cx.style(Role::Text)).skip(1);
                pen.put(ink!("{}", Dur(*took)), cx.style(Role::Muted));
            }
        }
    }

    /// The critical path of the root operation above the selected one.
    fn critical_path(&self, operations: &RecordedOperations) -> Vec<(u64, Duration)> {
        let Some(mut root) = self.list.selected().copied() else { return Vec::new() };
        while let Some(above) = operations.get(root).and_then(|operation| operation.parent)
            && operations.get(above).is_some()
        {
            root = above;
        }
        operations.critical_path(root)
    }

    fn render_head(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let operations = &cx.model.operations;
        let mut text = ink!("{}", count(self.rows.len(), "operation"));
        if self.zoom > 0 {
            text.push(ink!("  {}x", 1_u64 << self.zoom));
        }
        if self.least > 0 {
            text.push(ink!(" of {} or longer", Dur(LEAST[self.least])));
        }
        if operations.first() > 0 {
            text.push(ink!("  {} older ones dropped", operations.first()));
        }
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.put("waterfall  ", cx.style(Role::Accent)).put(text, cx.style(Role::Muted));
        let legend = [("queued", 0), ("sent", 1), ("progress", 2), ("a person", 3)];
        let needed: u16 = legend.iter().map(|(word, _)| width(word) + 4).sum();
        pen.column(area.width.saturating_sub(needed).max(pen.position() + 2));
        for (word, kind) in legend {
            pen.put(cx.glyphs.spans[kind], cx.style(ROLES[kind])).skip(1);
            pen.put(word, cx.style(Role::Faint)).skip(2);
        }
    }
}

/// Roles of the parts of a bar: queued, sent, in progress, waiting for the user.
const ROLES: [Role; 4] = [Role::Faint, Role::Accent, Role::Ok, Role::Attention];

/// The left part of a row: depth, fold, server, operation.
fn name(
    operation: &RecordedOperation,
    (folded, role): (bool, Role),
    cx: &Cx<'_>,
    room: u16,
    pen: &mut Pen<'_>,
) {
    let end = pen.position() + room;
    let left = |pen: &Pen<'_>| end.saturating_sub(pen.position());
    pen.skip(u16::from(operation.depth) * 2);
    let sign = match (operation.children.is_empty(), folded) {
        (true, _) => " ",
        (false, true) => cx.glyphs.closed,
        (false, false) => cx.glyphs.open,
    };
    pen.clip(sign, left(pen).min(1), cx.style(Role::Accent)).skip(1);
    if cx.model.scope.is_none() && operation.depth == 0 {
        pen.middle(Model::name(&operation.server), left(pen).min(12), cx.style(Role::Muted))
            .skip(1);
    }
    if operation.direction == Direction::In {
        pen.clip(cx.glyphs.inbound, left(pen).min(1), cx.style(Role::Inbound)).skip(1);
    }
    let is_call = operation.method.as_str() == "tools/call";
    if !is_call || operation.target.is_none() {
        pen.clip(&operation.method, left(pen), cx.style(role)).skip(1);
    }
    if let Some(target) = &operation.target {
        pen.clip(target, left(pen), cx.style(role));
    }
}

/// The stretches of an axis over what happened, in order of their beginnings; `now` ends an axis
/// without any.
fn stretched(busy: &[(u64, u64)], now: u64) -> Vec<Stretch> {
    let first = busy.first().map_or(now, |(from, _)| *from);
    let last = busy.iter().map(|(_, to)| *to).max().unwrap_or(now).max(first + 1);
    // Time in which something happened, in one piece each.
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for &(from, to) in busy {
        match pieces.last_mut() {
            Some(piece) if from <= piece.1 => piece.1 = piece.1.max(to),
            _ => pieces.push((from, to)),
        }
    }
    let least = MIN_IDLE_MICROS.max((last - first) / 10);
    let idle = |from: u64, to: u64| to - from > least;
    let gaps = pieces.windows(2).map(|pair| (pair[0].1, pair[1].0));
    let folded: Vec<(u64, u64)> = gaps.filter(|(from, to)| idle(*from, *to)).collect();
    let lost: u64 = folded.iter().map(|(from, to)| to - from).sum();
    let share = ((last - first - lost) / FOLDED_SHARE).max(1);
    let mut stretches = Vec::with_capacity(folded.len() * 2 + 1);
    let (mut from, mut at) = (first, 0);
    for (begin, end) in folded {
        let long = begin - from;
        stretches.push(Stretch { from, to: begin, at, long });
        let fold = share.min(end - begin);
        stretches.push(Stretch { from: begin, to: end, at: at + long, long: fold });
        at += long + fold;
        from = end;
    }
    stretches.push(Stretch { from, to: last, at, long: last - from });
    stretches
}

/// The exact times of an operation, relative to when it was requested.
fn exact(operation: &RecordedOperation, model: &Model) -> Ink {
    let after = |at: Timestamp| Dur(at.since(operation.asked));
    let mut text = ink!("{}", Model::time_of_day(operation.asked));
    if operation.sent > operation.asked {
        text.push(ink!("  sent +{}", after(operation.sent)));
    }
    if let Some(progress) = operation.progress {
        text.push(ink!("  progress +{}", after(progress)));
    }
    let by_person = operation.waiting.iter().filter(|span| is_of_person(span));
    let waited: Duration = by_person.map(|(from, to)| to.since(*from)).sum();
    if !waited.is_zero() {
        text.push(ink!("  a person {}", Dur(waited)));
    }
    match operation.ended {
        Some(ended) => text.push(ink!("  {} +{}", Ink::line(&operation.ending()), after(ended))),
        None => text.push(ink!("  open {}", Dur(operation.took(model.now)))),
    };
    text.push(ink!("  {} {}", Model::name(&operation.server), Ink::line(&operation.name())));
    text
}

/// The spans in which an operation only waited for the user, in order; the last may go on.
fn waits(
    operation: &RecordedOperation,
    operations: &RecordedOperations,
    now: Timestamp,
) -> Vec<(Timestamp, Timestamp)> {
    let is_open = |one: &RecordedOperation| one.direction == Direction::In && one.ended.is_none();
    let mut spans = operation.waiting.clone();
    spans.retain(is_of_person);
    if is_open(operation) {
        spans.push((operation.asked, now));
    } else if operation.ended.is_none() {
        let asked = operation.children.iter().filter_map(|number| operations.get(*number));
        spans.extend(
            asked.filter(|one| is_open(one)).map(|one| one.asked).min().map(|at| (at, now)),
        );
    }
    spans.sort_unstable();
    spans
}

/// Nobody reads and answers within this time: a rule did.
const PERSON_INTERVAL: Duration = Duration::from_millis(100);

/// Whether a wait for an answer was one for a person.
fn is_of_person((from, to): &(Timestamp, Timestamp)) -> bool {
    to.since(*from) >= PERSON_INTERVAL
}

/// Idle time longer than this, and than a tenth of all, is folded.
const MIN_IDLE_MICROS: u64 = 2_000_000;
/// What a folded stretch is drawn as, in shares of the time in which something happened.
const FOLDED_SHARE: u64 = 20;

/// A stretch of time on the axis, in microseconds.
struct Stretch {
    from: u64,
    to: u64,
    /// Where it begins on the axis, and how long it is there.
    at: u64,
    long: u64,
}

/// The time span of the visible rows, mapped to the cells of the bars. Where nothing happens for
/// long, time is folded; a part of the axis may be magnified.
struct Axis {
    stretches: Vec<Stretch>,
    /// The part of the axis that is shown.
    shown: (u64, u64),
    now: Timestamp,
    /// First column of the bars.
    left: u16,
    cells: u16,
}

impl Axis {
    /// `zoom` halves what is shown so many times, around `center`.
    fn new(
        (shown, operations): (&[&RecordedOperation], &RecordedOperations),
        now: Timestamp,
        (zoom, center): (u32, Option<Timestamp>),
        list: Rect,
    ) -> Self {
        let mut busy: Vec<(u64, u64)> = Vec::with_capacity(shown.len());
        for operation in shown {
            let mut from = operation.asked.0;
            if operation.lasts() {
                // On the axis it would compress all others to a point.
                busy.push((from, from));
                continue;
            }
            let end = operation.ended.unwrap_or(now).0.max(from);
            // While it waits for a person, nothing happens.
            for (begin, until) in waits(operation, operations, now) {
                busy.push((from, begin.0.clamp(from, end)));
                from = until.0.clamp(from, end);
            }
            busy.push((from, end));
        }
        busy.sort_unstable();
        let stretches = stretched(&busy, now.0);
        let whole = stretches.last().map_or(1, |last| last.at + last.long).max(1);
        let left = (list.width * 2 / 5).clamp(16.min(list.width), 44);
        let cells = list.width.saturating_sub(left + DURATION_COLUMNS + 2);
        let mut axis = Self { stretches, shown: (0, whole), now, left, cells };
        if zoom > 0 {
            let wide = (whole >> zoom.min(40)).max(10);
            let center = center.map_or(whole, |at| axis.place(at));
            let from = center.saturating_sub(wide / 2).min(whole.saturating_sub(wide));
            axis.shown = (from, from + wide);
        }
        axis
    }

    /// Where a point in time is on the axis.
    fn place(&self, at: Timestamp) -> u64 {
        let after = self.stretches.partition_point(|stretch| stretch.from <= at.0);
        let Some(stretch) = after.checked_sub(1).and_then(|n| self.stretches.get(n)) else {
            return 0;
        };
        let into = at.0.min(stretch.to) - stretch.from;
        let span = (stretch.to - stretch.from).max(1);
        stretch.at + (u128::from(into) * u128::from(stretch.long) / u128::from(span)) as u64
    }

    /// The point in time at a place on the axis.
    fn time_at(&self, place: u64) -> u64 {
        let after = self.stretches.partition_point(|stretch| stretch.at <= place);
        let Some(stretch) = after.checked_sub(1).and_then(|n| self.stretches.get(n)) else {
            return self.now.0;
        };
        let into = (place - stretch.at).min(stretch.long);
        let span = stretch.to - stretch.from;
        let long = u128::from(stretch.long.max(1));
        stretch.from + (u128::from(into) * u128::from(span) / long) as u64
    }

    /// The cell of a point in time, if it is shown; otherwise the one next to it.
    fn cell(&self, at: Timestamp) -> u16 {
        let last = u64::from(self.cells.saturating_sub(1));
        let (from, to) = self.shown;
        let into = self.place(at).saturating_sub(from).min(to - from);
        (u128::from(into) * u128::from(last) / u128::from((to - from).max(1))) as u16
    }

    /// Whether any of a time is shown.
    fn shows(&self, from: Timestamp, to: Timestamp) -> bool {
        self.place(to) >= self.shown.0 && self.place(from) <= self.shown.1
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let faint = cx.style(Role::Faint);
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        let began = self.time_at(self.shown.0);
        pen.skip(1).put(Model::time_of_day(Timestamp(began)), faint);
        let marks = u64::from(self.cells / 14).max(1);
        let last = u64::from(self.cells.saturating_sub(1));
        let mut free = pen.position() + 1;
        for mark in 0..=marks {
            let place = self.shown.0 + (self.shown.1 - self.shown.0) * mark / marks;
            let since = Duration::from_micros(self.time_at(place).saturating_sub(began));
            let text = ink!("+{}", Dur(since));
            let at = (last * mark / marks) as u16;
            let at = self.left + at.min(self.cells.saturating_sub(width(&text)));
            // Labels never run into each other.
            if at >= free {
                pen.column(at).put(&text, faint);
                free = at + width(&text) + 1;
            }
        }
    }

    /// Marks the cells where time is folded.
    fn folds(&self, cx: &Cx<'_>, pen: &mut Pen<'_>) {
        for stretch in self.stretches.iter().filter(|s| s.long < s.to - s.from) {
            let at = stretch.at + stretch.long / 2;
            if (self.shown.0..=self.shown.1).contains(&at) {
                let cell = self.cell(Timestamp(self.time_at(at)));
                pen.column(self.left + cell).clip(cx.glyphs.vertical, 1, cx.style(Role::Rule));
            }
        }
    }

    /// Marks the moment of a recording that is shown.
    fn moment(&self, at: Option<Timestamp>, cx: &Cx<'_>, pen: &mut Pen<'_>) {
        if let Some(at) = at.filter(|at| self.cells > 0 && self.shows(*at, *at)) {
            let cell = self.left + self.cell(at);
            pen.column(cell).clip(cx.glyphs.vertical, 1, cx.style(Role::Accent));
        }
    }

    fn bar(
        &self,
        operation: &RecordedOperation,
        waiting: &[(Timestamp, Timestamp)],
        cx: &Cx<'_>,
        pen: &mut Pen<'_>,
    ) {
        if self.cells == 0 {
            return;
        }
        let ended = operation.ended.unwrap_or(self.now);
        if !self.shows(operation.asked, ended) {
            return;
        }
        let end = self.cell(ended).max(self.cell(operation.asked));
        let progress = operation.progress.map_or(end + 1, |at| self.cell(at));
        let sent = self.cell(operation.sent);
        let waits = |cell: u16| {
            let within = |(from, to): &(Timestamp, Timestamp)| {
                (self.cell(*from)..=self.cell(*to)).contains(&cell)
                    && to.since(*from) > Duration::ZERO
            };
            waiting.iter().any(within)
        };
        for cell in self.cell(operation.asked)..=end {
            let kind = match cell {
                cell if waits(cell) => 3,
                cell if cell < sent => 0,
                cell if cell < progress => 1,
                _ => 2,
            };
            let is_last = cell == end;
            let (sign, role) = match operation.outcome {
                RecordedOutcome::Open if is_last => (cx.glyphs.arrow, Role::Busy),
                _ if operation.has_failed() && is_last => (cx.glyphs.down, Role::Error),
                _ => (cx.glyphs.spans[kind], ROLES[kind]),
            };
            pen.column(self.left + cell).clip(sign, 1, cx.style(role));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn folded_time_stays_in_order_and_every_moment_has_its_place(
            starts in proptest::collection::vec((0u64..4_000_000_000, 0u64..90_000_000), 1..30),
        ) {
            let mut busy: Vec<(u64, u64)> = starts.iter().map(|(at, long)| (*at, at + long)).collect();
            busy.sort_unstable();
            let stretches = stretched(&busy, 5_000_000_000);
            let whole = stretches.last().map_or(0, |last| last.at + last.long);
            let axis = Axis {
                stretches, shown: (0, whole.max(1)), now: Timestamp(5_000_000_000), left: 0, cells: 80,
            };
            let mut places: Vec<u64> = Vec::new();
            for (from, to) in &busy {
                let (begin, end) = (axis.place(Timestamp(*from)), axis.place(Timestamp(*to)));
                // Where something happens, time is not folded.
                prop_assert_eq!(end - begin, to - from);
                places.push(begin);
            }
            prop_assert!(places.is_sorted(), "{places:?}");
            prop_assert!(axis.cell(Timestamp(busy[0].0)) == 0);
            let last = busy.iter().map(|busy| busy.1).max().unwrap_or(0);
            prop_assert!(axis.cell(Timestamp(last)) == 79 || last == busy[0].0);
        }
    }
}
