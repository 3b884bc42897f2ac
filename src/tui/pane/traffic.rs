//! Every message of every server: filter language, follow and freeze, pairs, operations, export.

use crate::filter::{Filter, completions};
use crate::intent::Intent;
use crate::keymap::KeyScope;
use crate::model::{Model, zoned};
use crate::pane::{Availability, Cx, Gesture, Out, Pane, RedRow, Ui, when};
use crate::panel::Division;
use crate::pick::{Pick, SharedMessage};
use crate::prelude::*;
use crate::widget::{BrowserPart, BrowserRegions, FilterMatch, Split, StreamList};
use base::text::json::WrittenValue;
use deck::{RecordedOperation, RecordedOutcome, has_failed, says_error};
use protocol::{Direction, MessageKind, TrafficRecord};

mod detail;
mod page;
mod row;
pub mod waterfall;

/// Most characters of a message on the page that says why it is red.
const MAX_WHY_CHARS: usize = 2_000;
/// Most messages on one page.
const MAX_PAGE_MESSAGES: usize = 2_000;
/// Most messages in one export.
const MAX_EXPORTED_MESSAGES: usize = 100_000;
/// Most messages between the two halves of a pair.
const MAX_BETWEEN_MESSAGES: usize = 200_000;
/// Columns of the list on a small screen.
const LIST_COLUMNS: u16 = 80;

#[derive(Default)]
pub struct TrafficPane {
    stream: StreamList,
    split: Split,
    groups: row::Groups,
    marked: Vec<u64>,
    /// Operations on one axis, instead of rows.
    pub waterfall: waterfall::Waterfall,
    detail: detail::MessageDetail,
}

impl TrafficPane {
    fn regions(&self, area: Rect) -> BrowserRegions {
        // Beside a detail, a list shows no less than it does alone on a small screen.
        let share = (area.width * 3 / 5).max(LIST_COLUMNS).min(area.width.saturating_sub(37));
        self.split.regions(area, share)
    }

    fn record<'a>(&self, model: &'a Model) -> Option<&'a Arc<TrafficRecord>> {
        model.traffic.get(self.stream.selected()?)
    }

    fn sync_detail(&mut self, ui: Ui<'_>, area: Option<Rect>) {
        let (Some(area), Some(seq)) = (area, self.stream.selected()) else {
            return self.detail.clear();
        };
        let record = ui.model.traffic.get(seq).map(|record| &**record);
        self.detail.show((seq, area.width), record, || pair(ui.model, seq), ui);
    }

    /// The marked messages, or all that are listed.
    fn chosen<'a>(&self, model: &'a Model) -> Vec<&'a Arc<TrafficRecord>> {
        let rows = self.stream.len().saturating_sub(MAX_EXPORTED_MESSAGES)..self.stream.len();
        let listed = rows.map(|row| self.stream.seq(row)).filter(|_| self.marked.is_empty());
        // What a row folds away is listed too.
        let listed = listed.flat_map(|seq| {
            let folded = self
                .groups
                .group_of(seq)
                .filter(|group| group.head == seq && !self.groups.is_open(group.head));
            let below = folded.map(|group| group.below.as_slice()).unwrap_or_default();
            std::iter::once(seq).chain(below.iter().copied())
        });
        let all = self.marked.iter().copied().chain(listed);
        all.filter_map(|seq| model.traffic.get(seq)).collect()
    }

    /// The same as JSON lines.
    fn export(&self, model: &Model) -> Vec<u8> {
        let mut out = Vec::new();
        for record in self.chosen(model) {
            if serde_json::to_writer(&mut out, &**record).is_ok() {
                out.push(b'\n');
            }
        }
        out
    }

    /// The marked messages, each with its counterpart, or all that are listed, as one page.
    fn page(&self, model: &Model) -> String {
        let mut records: Vec<Arc<TrafficRecord>> = if self.marked.is_empty() {
            self.chosen(model).into_iter().map(Arc::clone).collect()
        } else {
            let both = |seq: &u64| [Some(*seq), pair(model, *seq)];
            let mut all: Vec<u64> = self.marked.iter().flat_map(both).flatten().collect();
            all.sort_unstable();
            all.dedup();
            all.iter().filter_map(|seq| model.traffic.get(*seq).cloned()).collect()
        };
        records.sort_by_key(|record| record.at);
        // The newest ones, if there are too many for one page.
        let over = records.len().saturating_sub(MAX_PAGE_MESSAGES);
        page::page(&records[over..])
    }

    fn complete(&mut self, model: &Model) {
        let servers = model.view.servers.keys().map(ServerName::as_str);
        if let Some(best) = completions(self.stream.input.text(), servers).first() {
            let text = self.stream.input.text();
            let word = text.rsplit(char::is_whitespace).next().unwrap_or_default().len();
            let completed = format!("{}{best}", &text[..text.len() - word]);
            self.stream.input.set(&completed);
        }
    }

    fn act_in_waterfall(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        match action {
            Action::Open => {
                let Some(asked) = self.waterfall.selected(ui.model) else { return true };
                match request_of(asked, ui.model) {
                    Some(seq) => {
                        self.waterfall.on = false;
                        self.sync(ui);
                        self.stream.jump(seq, usize::from(self.regions(ui.area).list.height));
                    }
                    None => out.warn(ink!("its messages are no longer recorded")),
                }
                true
            }
            Action::Back => {
                self.waterfall.on = false;
                true
            }
            action => self.waterfall.act(action, ui, out),
        }
    }

    /// The selected message, with the request that it belongs to.
    fn shared(&self, model: &Model) -> Option<SharedMessage> {
        let record = self.record(model)?;
        let other = || self.stream.selected().and_then(|seq| model.traffic.get(pair(model, seq)?));
        let is_request = |record: &&Arc<TrafficRecord>| {
            record.kind == MessageKind::Request && record.direction == Direction::Out && !record.cut
        };
        let request = Some(record).filter(is_request).or_else(|| other().filter(is_request));
        let all = match self.marked.len() {
            0 => count(self.stream.len(), "listed message"),
            marked => count(marked, "marked message"),
        };
        Some(SharedMessage {
            server: record.server.clone(),
            body: record.body.to_string(),
            request: request.and_then(|record| WrittenValue::parse(&record.body).ok()),
            all: ink!("{}", all),
        })
    }

    fn act_on_record(&mut self, action: Action, ui: Ui<'_>, out: &mut Out, height: usize) -> bool {
        match action {
            Action::Copy => {
                if let Some(message) = self.shared(ui.model) {
                    out.intend(Intent::Pick(Pick::ShareMessages(Box::new(message))));
                }
            }
            Action::CopyAll => {
                out.copy(String::from_utf8_lossy(&self.export(ui.model)).into_owned());
            }
            Action::Save => out.save("traffic.jsonl", self.export(ui.model)),
            Action::Page => out.save("mcpdeck-traffic.html", self.page(ui.model)),
            Action::Mark => {
                if let Some(seq) = self.stream.selected() {
                    match self.marked.iter().position(|marked| *marked == seq) {
                        Some(at) => _ = self.marked.remove(at),
                        None => self.marked.push(seq),
                    }
                    self.stream.step(1, height);
                }
            }
            Action::JumpPair => match self.stream.selected().and_then(|seq| pair(ui.model, seq)) {
                Some(seq) if self.unfolded(seq) || self.stream.has(seq) => {
                    self.stream.jump(seq, height);
                }
                Some(_) => out.notify(
                    "the other message is hidden by the filter; {back} clears it",
                    Role::Warning,
                ),
                None => out.warn(ink!("the other message is no longer recorded")),
            },
            Action::Group => {
                self.groups.turn();
                self.stream.reset();
                out.say(ink!("{}", self.groups.rows.name()));
            }
            _ => return false,
        }
        true
    }

    /// Unfolds, folds or toggles the selected row; returns whether it has several messages.
    fn fold(&mut self, open: Option<bool>) -> bool {
        let Some(seq) = self.stream.selected() else { return false };
        let Some(head) = self.groups.group_of(seq).map(|group| group.head) else { return false };
        let open = open.unwrap_or(!self.groups.is_open(head));
        let Some(group) = self.groups.set_open(head, open) else { return false };
        self.stream.follow = false;
        if open {
            self.stream.unfold(group.head, &group.below);
        } else {
            self.stream.fold(head);
            self.stream.list.select(head);
        }
        true
    }

    /// Unfolds the row that hides a message; returns whether there was one.
    fn unfolded(&mut self, seq: u64) -> bool {
        let Some(head) = self.groups.group_of(seq).map(|group| group.head) else { return false };
        let Some(group) = self.groups.set_open(head, true) else { return false };
        self.stream.unfold(group.head, &group.below);
        true
    }

    /// Whether the keys of a list unfold a row instead of opening the message.
    fn unfolds(&self) -> bool {
        self.split.part == BrowserPart::List && self.groups.rows == row::TrafficRows::Operations
    }
}

/// The other half of a request or response.
pub fn pair(model: &Model, seq: u64) -> Option<u64> {
    let record = model.traffic.get(seq)?;
    let id = record.id.as_ref()?;
    let answer = matches!(record.kind, MessageKind::Response | MessageKind::Error);
    let fits = |other: &TrafficRecord| {
        let other_answers = matches!(other.kind, MessageKind::Response | MessageKind::Error);
        other.server == record.server
            && other.id.as_ref() == Some(id)
            && other.direction != record.direction
            && other_answers != answer
            && (other_answers || other.kind == MessageKind::Request)
    };
    if answer {
        let mut before = (model.traffic.first()..seq).rev().take(MAX_BETWEEN_MESSAGES);
        before.find(|seq| model.traffic.get(*seq).is_some_and(|other| fits(other)))
    } else {
        let mut after = model.traffic.from(seq + 1).take(MAX_BETWEEN_MESSAGES);
        after.find(|(_, other)| fits(other)).map(|(seq, _)| seq)
    }
}

/// The message of a request, if it is still recorded.
fn request_of(asked: &RecordedOperation, model: &Model) -> Option<u64> {
    let is_it = |record: &TrafficRecord| {
        record.at == asked.sent
            && record.server == asked.server
            && record.kind == MessageKind::Request
    };
    let mut all = model.traffic.from(model.traffic.first());
    all.find(|(_, record)| is_it(record)).map(|(seq, _)| seq)
}

/// Whether a message is the result of a tool that failed.
fn is_tool_error(record: &TrafficRecord) -> bool {
    record.kind == MessageKind::Response && says_error(&record.body)
}

/// An operation that failed, with its answer.
fn red_operation(asked: &RecordedOperation, model: &Model) -> Option<RedRow> {
    if !asked.has_failed() {
        return None;
    }
    let answer = request_of(asked, model).and_then(|seq| pair(model, seq));
    let answer = answer.and_then(|seq| model.traffic.get(seq));
    let name = Ink::line(&asked.name());
    let words = match asked.outcome {
        RecordedOutcome::ToolError => ink!("{}: the tool reported an error", name),
        RecordedOutcome::Error => ink!("{} was answered with an error", name),
        RecordedOutcome::Lost | RecordedOutcome::Open | RecordedOutcome::Ok => {
            ink!("{}: {}", name, Ink::line(&asked.ending()))
        }
    };
    Some(RedRow {
        server: Some(asked.server.clone()),
        what: "operation",
        words,
        text: answer.map_or_else(SafeText::default, |record| {
            SafeText::cut_block(&record.body, MAX_WHY_CHARS)
        }),
        at: Some(answer.map_or(asked.ended.unwrap_or(asked.sent), |record| record.at)),
        help: None,
        place: None,
    })
}

impl Pane for TrafficPane {
    fn scopes(&self) -> &'static [KeyScope] {
        &[KeyScope::Traffic, KeyScope::List]
    }

    fn rewound(&mut self) {
        self.stream.reset();
        self.groups.reset();
        self.marked.clear();
    }

    fn sync(&mut self, ui: Ui<'_>) {
        if self.waterfall.on {
            return self.waterfall.sync(ui);
        }
        let regions = self.regions(ui.area);
        let now = zoned(ui.model.now);
        let parse = |typed: &str| Ok((Filter::parse(typed, &now)?, String::new()));
        if self.stream.read(ui.model, 0, parse) {
            self.groups.reset();
        }
        let (groups, first) = (&mut self.groups, ui.model.traffic.first());
        let (grouped, height) = (groups.is_grouping(), usize::from(regions.list.height));
        let judge = |filter: &Filter, seq: u64, record: &TrafficRecord| {
            if filter.passes(record) { groups.judge(first, seq, record) } else { FilterMatch::Out }
        };
        let feed = (ui.model, &ui.model.traffic);
        self.stream.update(feed, grouped, |record| Some(&record.server), judge, height);
        self.sync_detail(ui, regions.detail);
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        if action == Action::Waterfall {
            self.waterfall.on = !self.waterfall.on;
            self.stream.input.editing = false;
            return true;
        }
        if self.waterfall.on {
            return self.act_in_waterfall(action, ui, out);
        }
        let regions = self.regions(ui.area);
        if self.stream.input.editing {
            if action == Action::Down {
                self.complete(ui.model);
            }
            return true;
        }
        if self.split.part == BrowserPart::Detail {
            let height = regions.detail.map_or(1, |area| usize::from(area.height));
            if self.detail.act(action, height) {
                return true;
            }
            if action == Action::Copy
                && let Some(text) = self.detail.current()
            {
                out.copy(text);
                return true;
            }
        }
        let height = usize::from(regions.list.height);
        if action == Action::Filter {
            // The filter line is above the list, so the list must be visible.
            self.split.close();
        }
        match action {
            Action::Right if self.unfolds() && self.fold(Some(true)) => {}
            Action::Left if self.split.part == BrowserPart::List && self.fold(Some(false)) => {}
            Action::Fold if self.fold(None) => {}
            Action::Open | Action::Right if !self.stream.is_empty() => {
                self.split.open(ui.area);
                self.stream.follow = false;
            }
            action if self.split.act(action) => {}
            action if self.stream.act(action, height, ui.model.traffic.end()) => {}
            action => return self.act_on_record(action, ui, out, height),
        }
        true
    }

    fn availability(&self, action: Action, model: &Model) -> Option<Availability> {
        let has = !self.stream.is_empty();
        if self.waterfall.on {
            let own = [
                Action::Open,
                Action::Copy,
                Action::Fold,
                Action::Follow,
                Action::Longer,
                Action::ZoomIn,
                Action::ZoomOut,
            ];
            return match action {
                Action::Waterfall => Some(Ok(())),
                action if own.contains(&action) || action.steps(1).is_some() => Some(Ok(())),
                Action::Left | Action::Right | Action::Freeze => Some(Ok(())),
                _ if is_of_messages(action) => Some(Err("{waterfall} shows the messages")),
                _ => None,
            };
        }
        Some(match action {
            Action::Longer | Action::ZoomIn | Action::ZoomOut => {
                Err("{waterfall} shows operations")
            }
            Action::Open
            | Action::Copy
            | Action::CopyAll
            | Action::Save
            | Action::Page
            | Action::Mark => when(has, "there are no messages"),
            Action::Fold => when(
                self.split.part == BrowserPart::Detail
                    || self.stream.selected().and_then(|seq| self.groups.group_of(seq)).is_some(),
                "the row is one message; {open} opens it",
            ),
            Action::JumpPair => when(
                self.record(model).is_some_and(|r| r.id.is_some()),
                "the message has no matching request or response",
            ),
            Action::SaveFilter => when(
                !self.stream.input.text().trim().is_empty() && self.stream.problem.is_none(),
                "there is no filter; {filter} starts one",
            ),
            _ => return None,
        })
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        if self.waterfall.on {
            let clicked = self.waterfall.mouse(gesture, ui.area);
            if clicked && matches!(gesture, Gesture::DoubleClick(_)) {
                self.act_in_waterfall(Action::Open, ui, out);
            }
            return;
        }
        let regions = self.regions(ui.area);
        let at = gesture.position();
        if let Some(area) = regions.detail.filter(|area| area.contains(at)) {
            let height = usize::from(area.height);
            if let Gesture::Scroll { delta, .. } = gesture {
                return self.detail.scroll(delta, height);
            }
            self.split.part = BrowserPart::Detail;
            self.detail.click(usize::from(at.y - area.y), height);
        } else if self.stream.mouse(gesture, regions.head, regions.list) {
            self.split.part = BrowserPart::List;
            if matches!(gesture, Gesture::DoubleClick(_)) {
                self.act(Action::Open, ui, out);
            }
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if self.waterfall.on {
            return self.waterfall.render(cx, area, buf);
        }
        let regions = self.regions(area);
        self.render_head(cx, regions.head, buf);
        row::render(self, cx, &regions, buf);
        if let Some(divider) = regions.divider {
            crate::widget::vertical_rule(cx, divider, buf);
        }
        if let Some(detail) = regions.detail {
            self.detail.render(cx, self.split.part == BrowserPart::Detail, detail, buf);
        }
    }

    fn division(&self, area: Rect, _model: &Model) -> Division {
        if self.waterfall.on {
            return Division::whole(area);
        }
        Division::from_browser(&self.regions(area), self.split.part, area)
    }

    fn focus_next(&mut self, ui: Ui<'_>) -> bool {
        self.split.focus_next(ui.area)
    }

    /// A message with a problem, or an error; of a row with several messages, the one that is. In the
    /// waterfall, an operation that failed.
    fn red_row(&self, model: &Model) -> Option<RedRow> {
        if self.waterfall.on {
            return self.waterfall.selected(model).and_then(|asked| red_operation(asked, model));
        }
        let seq = self.stream.selected()?;
        let is_red = |record: &&Arc<TrafficRecord>| has_failed(record);
        let own = model.traffic.get(seq);
        let answer = || pair(model, seq).and_then(|seq| model.traffic.get(seq));
        let record = own.filter(is_red).or_else(|| answer().filter(is_red))?;
        let words = match (&record.problem, &record.method) {
            (Some(problem), _) => Ink::from(problem),
            (None, _) if is_tool_error(record) => ink!("the tool reported an error"),
            (None, Some(method)) => ink!("{} was answered with an error", method),
            (None, None) => ink!("a request was answered with an error"),
        };
        Some(RedRow {
            server: Some(record.server.clone()),
            what: "message",
            words,
            text: SafeText::cut_block(&record.body, MAX_WHY_CHARS),
            at: Some(record.at),
            help: None,
            place: None,
        })
    }

    filtered_by!(stream.input);
}

/// Whether an action applies only to the list of messages.
const fn is_of_messages(action: Action) -> bool {
    matches!(
        action,
        Action::Filter
            | Action::JumpPair
            | Action::Group
            | Action::Mark
            | Action::Save
            | Action::Page
            | Action::CopyAll
            | Action::SaveFilter
            | Action::Filters
            | Action::ClearFilter
    )
}
