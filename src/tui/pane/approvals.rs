//! What servers ask their host for: every open request with who, what, during which call and how
//! long there is. Answering stands on top of this list.

mod detail;
mod rows;

pub use detail::rule;

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::base::ServerName;
use crate::mcp::{ApprovalId, RequestKind};
use crate::tui::action::Action;
use crate::tui::ink::{Bytes, Ink, count, ink};
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::pane::approvals::rows::{Grouping, Row};
use crate::tui::pane::{Availability, Cx, DenyAll, Gesture, Out, Pane, Ui};
use crate::tui::theme::Role;
use crate::tui::widget::{Browser, Doc, FilterLine, Pen, empty_text};

/// The approvals pane.
#[derive(Default)]
pub struct ApprovalsPane {
    browser: Browser<Row>,
    grouping: Grouping,
    /// Requests in scope, whatever the filter and the folds hide.
    count: usize,
}

impl ApprovalsPane {
    /// The server of the selected row.
    pub fn server(&self) -> Option<ServerName> {
        self.browser.selected().map(|row| row.server().clone())
    }

    fn deny(&self, model: &Model) -> Option<DenyAll> {
        let (server, kind) = match self.browser.selected()? {
            Row::Request(request) => (request.server.clone(), None),
            Row::Group { group, .. } => (group.server.clone(), group.kind.clone()),
            Row::Kept(..) => return None,
        };
        let pending = model.view.pending.values();
        let wanted = pending
            .filter(|r| r.server == server && kind.as_ref().is_none_or(|kind| r.kind == *kind));
        let ids: Vec<ApprovalId> = wanted.map(|request| request.id).collect();
        Some(DenyAll { server, ids })
    }

    fn open(&mut self, out: &mut Out) -> bool {
        match self.browser.selected() {
            Some(Row::Request(request) | Row::Kept(request, _)) => out.answer = Some(request.id),
            Some(Row::Group { group, .. }) => self.grouping.turn(&group.clone()),
            None => return false,
        }
        true
    }
}

/// The word of a kind.
pub fn kind_word(kind: &RequestKind) -> Ink {
    match kind {
        RequestKind::Sampling => ink!("sample"),
        RequestKind::Elicitation => ink!("answer"),
        RequestKind::UrlElicitation => ink!("open a URL"),
        RequestKind::Roots => ink!("roots"),
        RequestKind::Guard => ink!("your consent"),
        RequestKind::Permission => ink!("permission"),
        RequestKind::SignIn => ink!("sign in"),
        RequestKind::Other(method) => Ink::line(method),
    }
}

impl Pane for ApprovalsPane {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Approvals, Scope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        let wanted = self.browser.filter.text().to_lowercase();
        let fits = |request: &crate::host::PendingRequest| {
            let during = request.during.as_deref().unwrap_or_default();
            let kind = kind_word(&request.kind);
            let text = format!("{} {} {during}", request.server, kind.as_str()).to_lowercase();
            wanted.split_whitespace().all(|word| text.contains(word))
        };
        let model = ui.model;
        let in_scope = model.view.pending.values().filter(|r| model.in_scope(&r.server));
        self.count = in_scope.clone().count();
        let mut rows = self.grouping.rows(in_scope.filter(|request| fits(request)));
        let kept = model.kept_drafts.iter().filter(|(r, _)| model.in_scope(&r.server) && fits(r));
        rows.extend(kept.map(|(request, why)| Row::Kept(Arc::clone(request), why.clone())));
        self.browser.set_rows(rows, ui.area);
        let width = self.browser.detail_width(ui.area);
        if width > 0 {
            let mut doc = Doc::new(width);
            detail::build(self.browser.selected(), ui.model, &mut doc);
            self.browser.set_doc(doc, ui.area);
        }
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        match action {
            Action::Copy | Action::CopyAll => {
                if let Some(Row::Request(request) | Row::Kept(request, _)) = self.browser.selected()
                {
                    out.copy(super::catalog::pretty(&request.params));
                }
                true
            }
            Action::Open => self.open(out),
            Action::Fold => {
                if let Some(Row::Group { group, .. }) = self.browser.selected() {
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
                out.deny_all = self.deny(ui.model);
                out.deny_all.is_some()
            }
            // There is something to read without any request: rules, roots, what was settled.
            Action::Right => {
                self.browser.open_detail(ui.area);
                true
            }
            action => self.browser.act(action, ui.area),
        }
    }

    fn availability(&self, action: Action, model: &Model) -> Option<Availability> {
        let any = !self.browser.rows.is_empty();
        match action {
            Action::Open | Action::Copy | Action::CopyAll | Action::Fold => {
                Some(Availability::when(any, "no request is open"))
            }
            Action::DenyAll => {
                Some(Availability::when(!model.view.pending.is_empty(), "no request is open"))
            }
            Action::Save => Some(Availability::Disabled("not available here")),
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
            ink!("No requests waiting")
        } else {
            ink!("{} {} waiting", cx.glyphs.hand, count(self.count, "request"))
        };
        self.browser.render_frame(cx, &summary, self.count, area, buf);
        let regions = self.browser.regions(area);
        let faint = cx.style(Role::Faint);
        let during = regions.list.width.saturating_sub(53);
        let mut pen = Pen::new(buf, regions.columns);
        pen.skip(1).left("server", 14, faint).skip(1).left("wants", 12, faint).skip(1);
        pen.left("during", during, faint).skip(1).right("age", 7, faint).skip(1);
        pen.right("left", 7, faint).skip(1).right("size", 6, faint);
        self.browser.render_rows(cx, area, buf, |pen, row| render_row(cx, row, during, pen));
        let mut used = self.browser.rows.len() as u16;
        if self.browser.rows.is_empty() && !regions.list.is_empty() {
            let text = ink!("sampling and elicitation requests of servers wait here");
            used = 1 + empty_text(cx, &text, regions.list, buf);
        }
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

    fn focus_next(&mut self, ui: Ui<'_>) -> bool {
        self.browser.focus_next(ui.area)
    }

    fn filter(&self) -> Option<&FilterLine> {
        Some(&self.browser.filter)
    }

    fn filter_mut(&mut self) -> Option<&mut FilterLine> {
        Some(&mut self.browser.filter)
    }
}

fn render_row(cx: &Cx<'_>, row: &Row, during: u16, pen: &mut Pen<'_>) {
    let muted = cx.style(Role::Muted);
    pen.middle(Model::name(row.server()), 14, cx.style(Role::Text)).skip(1);
    let (arrived, deadline, bytes) = match row {
        Row::Request(request) => {
            pen.left(kind_word(&request.kind), 12, cx.style(Role::Attention)).skip(1);
            let call = request.during.as_ref().map_or_else(|| ink!("-"), Ink::from);
            pen.left(call, during, muted).skip(1);
            (request.arrived, request.deadline, request.bytes)
        }
        Row::Group { group, ids, oldest, deadline, bytes, folded } => {
            let sign = if *folded { cx.glyphs.closed } else { cx.glyphs.open };
            let count = ids.len();
            let what = group.kind.as_ref().map_or_else(|| ink!("all"), kind_word);
            pen.left(ink!("{} {} {}", sign, count, what), 12, cx.style(Role::Attention)).skip(1);
            let refused =
                cx.model.server(&group.server).map_or(0, |server| server.refused_requests);
            let note = match refused {
                0 => ink!("oldest of {}", count),
                refused => ink!("{} more refused", refused),
            };
            pen.left(note, during, muted).skip(1);
            (*oldest, *deadline, *bytes)
        }
        Row::Kept(_, reason) => {
            pen.left("draft kept", 12, cx.style(Role::Warning)).skip(1);
            pen.left(ink!("withdrawn: {}", reason), during + 23, muted);
            return;
        }
    };
    pen.right(cx.model.elapsed(arrived), 7, muted).skip(1);
    pen.right(cx.model.until(deadline), 7, cx.style(Role::Busy)).skip(1);
    pen.right(ink!("{}", Bytes(bytes as u64)), 6, muted);
}
