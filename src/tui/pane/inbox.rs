//! The inbox: server requests with their deadlines, sign-ins, commands to approve, inputs, a
//! changed file. The answer to a row opens on top of it.

use std::collections::HashSet;

use indexmap::IndexMap;

use crate::effect::{Effect, Order};
use crate::filter::contains;
use crate::intent::Intent;
use crate::keymap::KeyScope;
use crate::model::{Model, Todo, kind_word};
use crate::pane::{Availability, Cx, Gesture, Out, Pane, Ui, when};
use crate::prelude::*;
use crate::widget::{Browser, Pen, empty_text};
use host::ApprovalRequest;
use protocol::{Answer, RequestKind, RpcCode};

mod detail;

pub use detail::rule;

#[derive(Default)]
pub struct InboxPane {
    browser: Browser<InboxRow>,
    grouping: Grouping,
    /// Items in scope, including those hidden by the filter and folds.
    count: usize,
}

impl InboxPane {
    /// Selects a request, if it has a row of its own.
    pub fn go_to(&mut self, request: &Arc<ApprovalRequest>) {
        let row = InboxRow::Request(Arc::clone(request));
        if self.browser.rows.contains(&row) {
            self.browser.list.select(row);
        }
    }

    fn open(&mut self, out: &mut Out) -> bool {
        match self.browser.selected() {
            Some(InboxRow::Request(request) | InboxRow::Kept(request, _)) => {
                out.intend(Intent::Open(Todo::Request(request.id)));
            }
            Some(InboxRow::Other(todo)) => out.intend(Intent::Open(todo.clone())),
            Some(InboxRow::Group { group, .. }) => self.grouping.turn(&group.clone()),
            None => return false,
        }
        true
    }
}

impl Pane for InboxPane {
    fn scopes(&self) -> &'static [KeyScope] {
        &[KeyScope::Inbox, KeyScope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        let wanted = self.browser.filter.text().to_ascii_lowercase();
        let model = ui.model;
        let holds = |text: String| wanted.split_whitespace().all(|word| contains(&text, word));
        let fits = |request: &ApprovalRequest| {
            let during = request.during.as_deref().unwrap_or_default();
            let (_, said) = Todo::Request(request.id).words(model);
            holds(format!("{} {} {during} {said}", request.server, kind_word(&request.kind)))
        };
        let in_scope = model.view.pending.values().filter(|r| model.in_scope(&r.server));
        let others = model.inbox_of_configuration();
        let others = others.filter(|todo| todo.server(model).is_none_or(|s| model.in_scope(&s)));
        let others: Vec<Todo> = others.collect();
        self.count = in_scope.clone().count() + others.len();
        let mut rows = self.grouping.rows(in_scope.filter(|request| fits(request)));
        rows.extend(others.into_iter().map(InboxRow::Other).filter(|row| {
            let (what, said) = row.words(model);
            let server = row.server(model).map(|server| server.to_string()).unwrap_or_default();
            holds(format!("{server} {what} {said}"))
        }));
        let kept = model.kept_drafts.iter().filter(|(r, _)| model.in_scope(&r.server) && fits(r));
        rows.extend(kept.map(|(request, why)| InboxRow::Kept(Arc::clone(request), why.clone())));
        self.browser.set_rows(rows, ui.area);
        self.browser.describe(ui.area, |row, doc| detail::build(row, model, doc));
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        match action {
            Action::Copy | Action::CopyAll => {
                if let Some(InboxRow::Request(request) | InboxRow::Kept(request, _)) =
                    self.browser.selected()
                {
                    out.copy(super::catalog::pretty(&request.params));
                }
                true
            }
            Action::Open => self.open(out),
            Action::Fold => {
                if let Some(InboxRow::Group { group, .. }) = self.browser.selected() {
                    self.grouping.turn(&group.clone());
                }
                true
            }
            Action::Group => {
                self.grouping.by_server = !self.grouping.by_server;
                self.grouping.turned.clear();
                let how = if self.grouping.by_server { "by server" } else { "oldest first" };
                out.say(ink!("{}", how));
                true
            }
            Action::DenyAll => {
                match self.browser.selected() {
                    Some(InboxRow::Request(request)) => {
                        deny_all(&request.server, None, ui.model, out);
                    }
                    Some(InboxRow::Group { group, .. }) => {
                        deny_all(&group.server, group.kind.as_ref(), ui.model, out);
                    }
                    Some(InboxRow::Kept(..) | InboxRow::Other(_)) | None => return false,
                }
                true
            }
            // The detail is useful without any request: rules, roots, settled requests.
            Action::Right => {
                self.browser.split.open(ui.area);
                true
            }
            action => self.browser.act(action, ui.area),
        }
    }

    fn availability(&self, action: Action, model: &Model) -> Option<Availability> {
        let any = !self.browser.rows.is_empty();
        match action {
            Action::Open | Action::Copy | Action::CopyAll | Action::Fold | Action::Group => {
                Some(when(any, "nothing waits for you"))
            }
            Action::DenyAll => Some(when(!model.view.pending.is_empty(), "no request is open")),
            Action::Save => Some(Err("not available here")),
            _ => None,
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        if self.browser.mouse(gesture, ui.area) {
            self.act(Action::Open, ui, out);
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let summary = if self.count == 0 {
            ink!("Nothing waits for you")
        } else {
            ink!("{} {} waiting for you", cx.glyphs.hand, count(self.count, "item"))
        };
        self.browser.render_frame(cx, &summary, self.count, area, buf);
        let regions = self.browser.regions(area);
        let faint = cx.style(Role::Faint);
        // On narrow lists the age is dropped: the time left matters more.
        let age = if regions.list.width >= 64 { 8 } else { 0 };
        let window =
            self.browser.list.window(self.browser.rows.len(), usize::from(regions.list.height));
        let columns = InboxColumns::fit(cx, &self.browser.rows[window], regions.list.width, age);
        let InboxColumns { server, kind, said, .. } = columns;
        let mut pen = Pen::new(buf, regions.columns);
        if !self.browser.rows.is_empty() {
            pen.skip(1).left("server", server, faint).skip(1).left("kind", kind, faint).skip(1);
            pen.left("says", said, faint);
            pen.right(if age > 0 { "age" } else { "" }, age, faint).skip(1).right("left", 7, faint);
        }
        self.browser.render_rows(cx, area, buf, |pen, row| render_row(cx, row, columns, pen));
        let text = ink!("requests of servers, sign-ins, commands to approve and inputs wait here");
        let words = crate::widget::render_empty(&self.browser, cx, (&text, self.count), area, buf);
        let used = if words > 0 { words + 1 } else { self.browser.rows.len() as u16 };
        if regions.detail.is_none() && regions.list.height > used + 1 {
            let rest = Rect {
                y: regions.list.y + used,
                height: regions.list.height - used,
                ..regions.list
            };
            let text = cx.spelled(&[], "{right}: rules, roots and decided requests");
            empty_text(cx, &text, rest, buf);
        }
    }

    fn call_region(&self, area: Rect) -> Option<Rect> {
        let beside = self.browser.split.is_beside(area);
        let detail = self.browser.regions(area).detail.filter(|_| beside);
        detail.filter(|detail| detail.width >= MIN_ANSWER_COLUMNS)
    }

    fn server(&self, model: &Model) -> Option<ServerName> {
        self.browser.selected().and_then(|row| row.server(model))
    }

    of_browser!();
}

/// Asks before the open requests of a server, or those of one kind, are denied together.
pub fn deny_all(server: &ServerName, kind: Option<&RequestKind>, model: &Model, out: &mut Out) {
    let pending = model.view.pending.values();
    let wanted = pending.filter(|r| r.server == *server && kind.is_none_or(|kind| r.kind == *kind));
    let denied: Vec<_> = wanted.map(|request| (request.id, refusal(&request.kind))).collect();
    let name = Model::name(server);
    if denied.is_empty() {
        return out.say(ink!("no request of {} is waiting", name));
    }
    let open = count(denied.len(), "open request");
    let lines = vec![ink!("{} of this server will be denied", open)];
    out.ask(
        ink!("deny all requests of server \"{}\"?", name),
        lines,
        Effect::Order(Order::Deny(denied)),
    );
}

/// The refusal of a request kind, as sent on the wire.
fn refusal(kind: &RequestKind) -> Answer {
    match kind {
        RequestKind::Elicitation | RequestKind::UrlElicitation => {
            Answer::Result(serde_json::json!({"action": "decline"}))
        }
        _ => {
            Answer::Refuse { code: RpcCode::USER_REJECTED, message: "the user declined".to_owned() }
        }
    }
}

/// Width of the column of kinds.
const KIND_COLUMNS: u16 = 16;
/// Fewest columns in which a request is answered beside the list.
const MIN_ANSWER_COLUMNS: u16 = 56;

/// Cells of the columns; the message has what the others leave.
#[derive(Clone, Copy, Debug)]
struct InboxColumns {
    server: u16,
    kind: u16,
    said: u16,
    age: u16,
}

impl InboxColumns {
    /// Server and kind are as wide as those in sight.
    fn fit(cx: &Cx<'_>, rows: &[InboxRow], width: u16, age: u16) -> Self {
        let longest = |of: &dyn Fn(&InboxRow) -> u16| rows.iter().map(of).max().unwrap_or(0);
        let server = longest(&|row| crate::widget::width(&row.server_words(cx.model)));
        let kind = longest(&|row| {
            let folds = matches!(row, InboxRow::Group { .. });
            crate::widget::width(&row.words(cx.model).0) + if folds { 2 } else { 0 }
        });
        let (server, kind) = (server.clamp(6, 14), kind.clamp(4, KIND_COLUMNS));
        Self { server, kind, said: width.saturating_sub(12 + server + kind + age), age }
    }
}

fn render_row(cx: &Cx<'_>, row: &InboxRow, columns: InboxColumns, pen: &mut Pen<'_>) {
    let InboxColumns { server: name, kind, said, age } = columns;
    let (muted, foreign) = (cx.style(Role::Muted), cx.style(Role::Foreign));
    pen.middle(row.server_words(cx.model), name, cx.style(Role::Text)).skip(1);
    let (mut what, says) = row.words(cx.model);
    let role = if matches!(row, InboxRow::Kept(..)) { Role::Warning } else { Role::Attention };
    let (times, says_style) = match row {
        InboxRow::Request(request) => (Some((request.arrived, request.deadline)), foreign),
        InboxRow::Group { folded, requests, .. } => {
            let sign = if *folded { cx.glyphs.closed } else { cx.glyphs.open };
            what = ink!("{} {}", sign, what);
            let first = requests.iter().map(|request| request.deadline).min();
            (requests.first().map(|r| r.arrived).zip(first), muted)
        }
        InboxRow::Kept(..) | InboxRow::Other(_) => (None, foreign),
    };
    let room = if times.is_some() { said } else { said + age + 8 };
    pen.left(what, kind, cx.style(role)).skip(1).left(says, room, says_style);
    if let Some((arrived, deadline)) = times {
        pen.right(cx.model.elapsed(arrived), age, muted).skip(1);
        pen.right(cx.model.until(deadline), 7, cx.style(Role::Busy));
    }
}

// The rows of the inbox: requests oldest first, optionally grouped by server, storms collapsed into
// one row; then other items and drafts of withdrawn requests. Pure.

/// From this many requests of one kind from one server on, they are a storm, shown as one row.
pub const MIN_STORM_REQUESTS: usize = 6;

/// What one row groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InboxGroup {
    /// Who asks.
    pub server: ServerName,
    /// The kind; all kinds when `None`.
    pub kind: Option<RequestKind>,
}

#[derive(Clone, Debug)]
pub enum InboxRow {
    /// A request that waits.
    Request(Arc<ApprovalRequest>),
    /// Several of them.
    Group {
        /// Which.
        group: InboxGroup,
        /// The requests, oldest first.
        requests: Vec<Arc<ApprovalRequest>>,
        /// Whether their own rows are hidden.
        folded: bool,
    },
    /// Something else that waits.
    Other(Todo),
    /// The draft of one that was withdrawn, and why.
    Kept(Arc<ApprovalRequest>, SafeText),
}

/// Rows are equal if they have the same subject, so that the selection follows them.
impl PartialEq for InboxRow {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Request(a), Self::Request(b)) | (Self::Kept(a, _), Self::Kept(b, _)) => {
                a.id == b.id
            }
            (Self::Group { group: a, .. }, Self::Group { group: b, .. }) => a == b,
            (Self::Other(a), Self::Other(b)) => a == b,
            _ => false,
        }
    }
}

impl InboxRow {
    /// The server it concerns; `None` for the configuration.
    pub fn server(&self, model: &Model) -> Option<ServerName> {
        match self {
            Self::Request(request) | Self::Kept(request, _) => Some(request.server.clone()),
            Self::Group { group, .. } => Some(group.server.clone()),
            Self::Other(todo) => todo.server(model),
        }
    }

    /// That server, or the file of the configuration.
    fn server_words(&self, model: &Model) -> Ink {
        self.server(model).map_or_else(|| ink!("mcp.json"), |name| Model::name(&name))
    }

    /// A short label of ours, and the other side's own text.
    pub fn words(&self, model: &Model) -> (Ink, Ink) {
        match self {
            Self::Request(request) => Todo::Request(request.id).words(model),
            Self::Other(todo) => todo.words(model),
            Self::Kept(_, reason) => (ink!("draft kept"), ink!("withdrawn: {}", reason)),
            Self::Group { group, requests, .. } => {
                let what = group.kind.as_ref().map_or_else(|| ink!("all"), kind_word);
                let refused = model.server(&group.server).map_or(0, |s| s.refused_requests);
                let note = match refused {
                    0 => ink!("oldest of {}", requests.len()),
                    refused => ink!("{} more refused", refused),
                };
                (ink!("{} {}", requests.len(), what), note)
            }
        }
    }
}

/// How rows are grouped.
#[derive(Clone, Debug, Default)]
pub struct Grouping {
    /// By server; otherwise oldest first, storms collapsed.
    pub by_server: bool,
    /// Groups the user folded or unfolded against the default.
    pub turned: HashSet<InboxGroup>,
}

impl Grouping {
    /// Builds the rows.
    pub fn rows<'a>(
        &self,
        pending: impl Iterator<Item = &'a Arc<ApprovalRequest>>,
    ) -> Vec<InboxRow> {
        let mut groups: IndexMap<InboxGroup, Vec<Arc<ApprovalRequest>>> = IndexMap::new();
        for request in pending {
            let kind = (!self.by_server).then(|| request.kind.clone());
            let group = InboxGroup { server: request.server.clone(), kind };
            groups.entry(group).or_default().push(Arc::clone(request));
        }
        let mut rows = Vec::new();
        for (group, requests) in groups {
            let first = requests[0].id;
            let together = self.by_server || requests.len() >= MIN_STORM_REQUESTS;
            let folded = together && self.turned.contains(&group) == self.by_server;
            if together {
                let requests = requests.clone();
                rows.push((first, InboxRow::Group { group, requests, folded }));
            }
            let alone = requests.into_iter().filter(|_| !folded);
            rows.extend(alone.map(|r| (if together { first } else { r.id }, InboxRow::Request(r))));
        }
        // Stable: members stay after their group.
        rows.sort_by_key(|(place, _)| *place);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Folds or unfolds a group.
    pub fn turn(&mut self, group: &InboxGroup) {
        if !self.turned.remove(group) {
            self.turned.insert(group.clone());
        }
    }
}

#[cfg(test)]
mod rows_tests {
    use serde_json::json;

    use super::*;
    use protocol::ApprovalId;

    fn request(id: u64, server: &str, kind: RequestKind) -> Arc<ApprovalRequest> {
        Arc::new(ApprovalRequest {
            id: ApprovalId(id),
            server: server.into(),
            kind,
            call: None,
            candidates: vec![],
            during: None,
            params: Arc::new(json!({})),
            bytes: 2,
            arrived: Timestamp(id),
            deadline: Timestamp(id + 100),
            deferred: false,
            input: None,
        })
    }

    fn shown(rows: &[InboxRow]) -> Vec<String> {
        let show = |row: &InboxRow| match row {
            InboxRow::Request(request) | InboxRow::Kept(request, _) => request.id.to_string(),
            InboxRow::Other(todo) => format!("{todo:?}"),
            InboxRow::Group { group, requests, folded } => {
                format!("{} x{}{}", group.server, requests.len(), if *folded { "+" } else { "-" })
            }
        };
        rows.iter().map(show).collect()
    }

    #[test]
    fn a_storm_is_one_row_where_its_oldest_stood_and_the_others_keep_their_order() {
        let mut pending = vec![request(1, "a", RequestKind::Sampling)];
        pending.extend((2..9).map(|id| request(id, "b", RequestKind::Sampling)));
        pending.push(request(9, "b", RequestKind::Elicitation));
        let mut grouping = Grouping::default();
        assert_eq!(shown(&grouping.rows(pending.iter())), ["1", "b x7+", "9"]);
        let storm = InboxGroup { server: "b".into(), kind: Some(RequestKind::Sampling) };
        grouping.turn(&storm);
        let rows = shown(&grouping.rows(pending.iter()));
        assert_eq!(rows, ["1", "b x7-", "2", "3", "4", "5", "6", "7", "8", "9"]);
    }

    #[test]
    fn groups_by_server_are_open_until_they_are_folded() {
        let pending = [
            request(1, "a", RequestKind::Sampling),
            request(2, "b", RequestKind::Sampling),
            request(3, "a", RequestKind::UrlElicitation),
        ];
        let mut grouping = Grouping { by_server: true, ..Grouping::default() };
        assert_eq!(shown(&grouping.rows(pending.iter())), ["a x2-", "1", "3", "b x1-", "2"]);
        grouping.turn(&InboxGroup { server: "a".into(), kind: None });
        assert_eq!(shown(&grouping.rows(pending.iter())), ["a x2+", "b x1-", "2"]);
    }
}
