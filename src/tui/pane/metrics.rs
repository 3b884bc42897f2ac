//! Counts, errors and latencies per server and per tool; sorted by any column.

use crate::find::{self, SearchFields};
use crate::glyph::Glyphs;
use crate::keymap::KeyScope;
use crate::model::{Activity, Model};
use crate::pane::{Availability, Cx, Gesture, Out, Pane, Ui, when};
use crate::prelude::*;
use crate::widget::{Browser, Doc, Pen, width};
use config::error::ErrorCode;
use host::{LatencyView, MetricsView};
use protocol::MessageKind;

/// One row: a server, or one of its targets.
#[derive(Clone, Debug)]
struct MetricsRow {
    server: ServerName,
    target: Option<String>,
    label: Ink,
    view: MetricsView,
}

impl MetricsRow {
    fn fields(&self) -> SearchFields<'_> {
        SearchFields { name: self.label.as_str(), context: self.server.as_str(), text: "" }
    }
}

impl PartialEq for MetricsRow {
    fn eq(&self, other: &Self) -> bool {
        (&self.server, &self.target) == (&other.server, &other.target)
    }
}

named! {
    /// Columns by which rows are sorted.
    #[derive(Default)]
    enum Column {
        #[default]
        Name = "name",
        Calls = "calls",
        Errors = "errors",
        P50 = "p50",
        P95 = "p95",
        P99 = "p99",
        Bytes = "bytes",
        LastUsed = "used",
    }
}

impl Column {
    const fn width(self) -> u16 {
        match self {
            Self::Name => 0,
            Self::Calls | Self::Errors => 6,
            Self::LastUsed => 4,
            _ => 7,
        }
    }

    /// Columns shown in a list of this width beside names of `name` cells, which are never
    /// shortened for a column.
    fn shown(width: u16, name: u16) -> Vec<Self> {
        let mut room = width.saturating_sub(name + 3);
        let mut shown = Vec::new();
        for column in [
            Self::Calls,
            Self::P95,
            Self::Errors,
            Self::P50,
            Self::P99,
            Self::Bytes,
            Self::LastUsed,
        ] {
            if column.width() < room {
                room -= column.width() + 1;
                shown.push(column);
            }
        }
        shown.sort();
        shown
    }
}

#[derive(Default)]
pub struct MetricsPane {
    browser: Browser<Arc<MetricsRow>>,
    column: Column,
    reversed: bool,
    total: usize,
    /// Cells of the longest name.
    names: u16,
}

impl MetricsPane {
    fn rows(&mut self, model: &Model) -> Vec<Arc<MetricsRow>> {
        let mut rows = Vec::new();
        for server in model.servers() {
            let Some(metrics) = model.metrics.get(&server.name) else { continue };
            rows.push(MetricsRow {
                server: server.name.clone(),
                target: None,
                label: Model::name(&server.name),
                view: metrics.total.clone(),
            });
            rows.extend(metrics.by_target.iter().map(|(target, view)| MetricsRow {
                server: server.name.clone(),
                target: Some(target.clone()),
                label: ink!("  {}", Ink::line(target)),
                view: view.clone(),
            }));
        }
        self.total = rows.len();
        let needle = self.browser.filter.text();
        rows.retain(|row| find::fits(needle, &row.fields()));
        if self.column != Column::Name {
            rows.sort_by_cached_key(|row| std::cmp::Reverse(cell(row, self.column, model).0));
        }
        if self.reversed {
            rows.reverse();
        }
        rows.into_iter().map(Arc::new).collect()
    }
}

impl Pane for MetricsPane {
    fn scopes(&self) -> &'static [KeyScope] {
        &[KeyScope::Metrics, KeyScope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        let rows = self.rows(ui.model);
        self.names = rows.iter().map(|row| width(&row.label)).max().unwrap_or(0).clamp(12, 40);
        // Calls, errors and both percentiles get room before the detail does.
        self.browser.wants = self.names + 34;
        self.browser.set_rows(rows, ui.area);
        self.browser.describe(ui.area, |row, doc| {
            if let Some(row) = row {
                detail(row, ui.model, ui.glyphs, doc);
            }
        });
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        if self.browser.act(action, ui.area) {
            return true;
        }
        match action {
            Action::Sort => {
                self.column = Column::ALL[(self.column as usize + 1) % Column::ALL.len()];
                self.reversed = false;
                out.say(ink!("sorted by {}", self.column.name()));
            }
            Action::SortReverse => self.reversed = !self.reversed,
            Action::Copy => {
                if let Some(row) = self.browser.selected() {
                    out.copy(serde_json::to_string_pretty(&row.view).unwrap_or_default());
                }
            }
            Action::CopyAll => out.copy(everything(ui.model)),
            Action::Save => out.save("mcpdeck-metrics.json", everything(ui.model)),
            _ => return false,
        }
        true
    }

    fn availability(&self, action: Action, _: &Model) -> Option<Availability> {
        match action {
            Action::Open | Action::Copy | Action::CopyAll | Action::Save => {
                Some(when(!self.browser.rows.is_empty(), "No calls yet"))
            }
            _ => None,
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let columns = self.browser.regions(ui.area).columns;
        let at = gesture.position();
        if columns.contains(at) && !matches!(gesture, Gesture::Scroll { .. }) {
            // The columns end two cells before the edge.
            let mut x = columns.right().saturating_sub(2);
            let clicked = Column::shown(columns.width, self.names).into_iter().rev().find(|one| {
                x = x.saturating_sub(one.width() + 1);
                at.x >= x
            });
            let clicked = clicked.unwrap_or_default();
            self.reversed = self.column == clicked && !self.reversed;
            self.column = clicked;
            return;
        }
        if self.browser.mouse(gesture, ui.area) {
            self.act(Action::Open, ui, out);
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let summary = ink!("servers and methods: {}", self.total);
        self.browser.render_frame(cx, &summary, self.total, area, buf);
        let regions = self.browser.regions(area);
        let shown = Column::shown(regions.list.width, self.names);
        let numbers: u16 = shown.iter().map(|column| column.width() + 1).sum();
        let name = regions.list.width.saturating_sub(numbers + 3);
        let mut pen = Pen::new(buf, regions.columns);
        let style = |column: Column| {
            cx.style(if column == self.column { Role::Accent } else { Role::Faint })
        };
        pen.skip(1).left("name", name, style(Column::Name));
        for column in &shown {
            let down = (*column == self.column).then_some(!self.reversed);
            let title = cx.glyphs.sorted(column.name(), down);
            pen.skip(1).right(title, column.width(), style(*column));
        }
        self.browser.render_rows(cx, area, buf, |pen, row| {
            let role = if row.target.is_none() { Role::Heading } else { Role::Text };
            let found = find::spans(self.browser.filter.text(), row.label.as_str());
            pen.found(&row.label, &found, name, cx.style(role), cx.style(Role::Match));
            for column in &shown {
                let (_, text, role) = cell(row, *column, cx.model);
                pen.skip(1).right(text, column.width(), cx.style(role));
            }
        });
        crate::widget::render_empty(
            &self.browser,
            cx,
            (&ink!("No calls yet"), self.total),
            area,
            buf,
        );
    }

    of_browser!();
}

/// The metrics of all servers as JSON.
fn everything(model: &Model) -> String {
    let of =
        |(k, v): (&ServerName, _)| Some((k.as_str().to_owned(), serde_json::to_value(v).ok()?));
    let all: serde_json::Map<_, _> = model.metrics.iter().filter_map(of).collect();
    super::catalog::pretty(&Value::from(all))
}

/// A cell of a row: the number it is sorted by, the text, and its role.
fn cell(row: &MetricsRow, column: Column, model: &Model) -> (u64, Ink, Role) {
    let view = &row.view;
    let took = |of: fn(&LatencyView) -> Duration| match view.latency.as_ref().map(of) {
        Some(took) => (took.as_micros() as u64, ink!("{}", Dur(took)), Role::Text),
        None => (0, ink!("-"), Role::Text),
    };
    match column {
        Column::Name => (0, row.label.clone(), Role::Text),
        Column::Calls => (view.requests, ink!("{}", view.requests), Role::Text),
        Column::Errors => {
            let count = view.failed();
            (count, ink!("{}", count), if count > 0 { Role::Error } else { Role::Faint })
        }
        Column::P50 => took(|l| l.p50),
        Column::P95 => took(|l| l.p95),
        Column::P99 => took(|l| l.p99),
        Column::Bytes => {
            let bytes = view.bytes_in + view.bytes_out;
            (bytes, ink!("{}", Bytes(bytes)), Role::Muted)
        }
        Column::LastUsed => match view.last_used {
            Some(at) => (at.0, model.ago(at), Role::Muted),
            None => (0, ink!("-"), Role::Muted),
        },
    }
}

fn detail(row: &MetricsRow, model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    let label = row.label.as_str().trim();
    doc.line(vec![(Ink::line(label), Role::Heading)]);
    if label != row.server.as_str() {
        doc.line(vec![(Model::name(&row.server), Role::Muted)]);
    }
    doc.gap();
    let view = &row.view;
    doc.field("calls", ink!("{}", view.requests), Role::Text);
    doc.field("results", ink!("{}", view.successes), Role::Ok);
    doc.field("tool errors", ink!("{}", view.tool_errors), Role::Text);
    doc.field("in flight", ink!("{}", view.in_flight), Role::Text);
    let mut label = "errors";
    for (code, count) in &view.errors {
        let role = if *code == ErrorCode::Cancelled { Role::Muted } else { Role::Error };
        doc.field(std::mem::take(&mut label), ink!("{} {}", count, code.words()), role);
    }
    doc.field("received", ink!("{}", Bytes(view.bytes_in)), Role::Text);
    doc.field("sent", ink!("{}", Bytes(view.bytes_out)), Role::Text);
    if let Some(l) = &view.latency {
        doc.heading("latency");
        for (label, value) in [
            ("min", l.min),
            ("mean", l.mean),
            ("p50", l.p50),
            ("p95", l.p95),
            ("p99", l.p99),
            ("max", l.max),
            ("recent mean", l.average),
        ] {
            doc.field(label, ink!("{}", Dur(value)), Role::Text);
        }
    }
    histogram(row, model, glyphs, doc);
    chart(row, model, glyphs, doc);
}

/// Latencies of the responses still in the traffic ring, by powers of two.
fn histogram(row: &MetricsRow, model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    let mut buckets = [0u32; 24];
    let from = model.traffic.end().saturating_sub(50_000);
    for (_, record) in model.traffic.from(from) {
        let answer = matches!(record.kind, MessageKind::Response | MessageKind::Error);
        // The deck's own requests, lists and pings, are no calls and not counted above either.
        let called = answer && record.call.is_some();
        if !called || record.server != row.server || !fits(row, record) {
            continue;
        }
        if let Some(latency) = record.latency {
            let micros = (latency.as_micros() as u64).max(1);
            buckets[(micros.ilog2() as usize).min(buckets.len() - 1)] += 1;
        }
    }
    let (Some(first), Some(last)) =
        (buckets.iter().position(|n| *n > 0), buckets.iter().rposition(|n| *n > 0))
    else {
        return;
    };
    doc.heading("latency histogram");
    let most = buckets.iter().max().copied().unwrap_or(1).max(1);
    for (n, count) in buckets.iter().enumerate().take(last + 1).skip(first) {
        let limit = Duration::from_micros(2u64 << n);
        let cells = (*count as usize * 28).div_ceil(most as usize);
        let mut bar = Ink::default();
        for _ in 0..cells {
            bar.push(glyphs.lying());
        }
        doc.line(vec![
            (ink!("  < {:>8} ", Dur(limit)), Role::Muted),
            (bar, Role::Accent),
            (ink!(" {}", count), Role::Faint),
        ]);
    }
}

fn fits(row: &MetricsRow, record: &protocol::TrafficRecord) -> bool {
    let Some(target) = &row.target else { return true };
    let mut parts = target.splitn(2, ' ');
    let method = parts.next().unwrap_or_default();
    let name = parts.next();
    record.method.as_deref() == Some(method)
        && name.is_none_or(|name| record.target.as_deref() == Some(name))
}

/// Height of the chart in lines.
const CHART_ROWS: usize = 5;
/// Columns of the numbers before the chart.
const SCALE_COLUMNS: u16 = 7;

/// How many bars fit a width: a bar and a blank each, after the scale; the newest is never cut.
fn slots(width: u16) -> usize {
    Activity::MAX_SLOTS.min(usize::from(width.saturating_sub(SCALE_COLUMNS)) / 2)
}

fn chart(row: &MetricsRow, model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    let counts = model.recent(&row.server, slots(doc.width()));
    let most = counts.iter().max().copied().unwrap_or(0);
    if most == 0 {
        return;
    }
    doc.heading("messages of the server, 2 s per bar");
    for level in (0..CHART_ROWS).rev() {
        let mut line = Ink::default();
        for count in &counts {
            let eighths = (*count as usize * CHART_ROWS * 8).div_ceil(most as usize);
            let here = eighths.saturating_sub(level * 8).min(8);
            line.push(glyphs.bars[here]).push(" ");
        }
        let label = if level == CHART_ROWS - 1 { ink!("{:>5} ", most) } else { ink!("      ") };
        doc.line(vec![(label, Role::Faint), (line, Role::Accent)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_fills_its_width_and_its_newest_bar_is_never_cut() {
        for width in 0..300 {
            let cells = usize::from(SCALE_COLUMNS) + slots(width) * 2;
            assert!(slots(width) == 0 || cells <= usize::from(width), "{width}");
            let full = slots(width) == Activity::MAX_SLOTS;
            assert!(full || cells + 2 > usize::from(width), "{width}: there is room for one more");
        }
    }
}
