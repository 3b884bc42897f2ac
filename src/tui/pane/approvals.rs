//! What servers ask their host for: every open request with who, what, during which call and how
//! long there is. Answering stands on top of this list.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::host::approvals::{Decider, PendingRequest, RequestKind, Settlement};
use crate::tui::action::Action;
use crate::tui::ink::{Bytes, Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::pane::{Availability, Cx, Gesture, Out, Pane, Ui};
use crate::tui::theme::Role;
use crate::tui::widget::{Browser, Doc, Part, Pen};

#[derive(Clone, Debug)]
struct Row(Arc<PendingRequest>);

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

/// The approvals pane.
#[derive(Default)]
pub struct ApprovalsPane {
    browser: Browser<Row>,
}

impl ApprovalsPane {
    /// The selected request.
    pub fn selected(&self) -> Option<&Arc<PendingRequest>> {
        self.browser.selected().map(|row| &row.0)
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
        RequestKind::Other(method) => Ink::line(method),
    }
}

impl Pane for ApprovalsPane {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Approvals, Scope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        let pending = ui.model.view.pending.values();
        let rows =
            pending.filter(|r| ui.model.in_scope(&r.server)).map(|r| Row(Arc::clone(r))).collect();
        self.browser.set_rows(rows, ui.area);
        let width = self.browser.detail_width(ui.area);
        if width > 0 {
            let mut doc = Doc::new(width);
            match self.browser.selected() {
                Some(row) => detail(&row.0, ui.model, &mut doc),
                None => settled(ui.model, &mut doc),
            }
            self.browser.set_doc(doc, ui.area);
        }
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        match action {
            Action::Copy | Action::CopyAll => {
                if let Some(row) = self.browser.selected() {
                    out.copy(super::catalog::pretty(&row.0.params));
                }
                true
            }
            Action::Open => {
                out.answer = self.browser.selected().map(|row| row.0.id);
                out.answer.is_some()
            }
            Action::DenyAll => {
                out.deny_all = self.browser.selected().map(|row| row.0.server.clone());
                out.deny_all.is_some()
            }
            Action::Filter | Action::ClearFilter => false,
            action => self.browser.act(action, ui.area),
        }
    }

    fn availability(&self, action: Action, _: &Model) -> Option<Availability> {
        match action {
            Action::Open | Action::Copy | Action::CopyAll | Action::DenyAll => {
                Some(Availability::when(!self.browser.rows.is_empty(), "nothing waits"))
            }
            Action::Filter | Action::Save => Some(Availability::Disabled("not here")),
            _ => None,
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        if self.browser.mouse(gesture, ui.area) {
            self.act(Action::Open, ui, out);
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let count = self.browser.rows.len();
        let summary = if count == 0 {
            ink!("nothing waits for you")
        } else {
            ink!("{} {} waiting for you", cx.glyphs.hand, count)
        };
        self.browser.render_frame(cx, &summary, count, area, buf);
        let regions = self.browser.regions(area);
        let faint = cx.style(Role::Faint);
        let during = regions.list.width.saturating_sub(50);
        let mut pen = Pen::new(buf, regions.columns);
        pen.skip(1).left("server", 14, faint).skip(1).left("wants", 11, faint).skip(1);
        pen.left("during", during, faint).skip(1).right("age", 7, faint).skip(1);
        pen.right("left", 8, faint).skip(1).right("size", 6, faint);
        self.browser.render_rows(cx, area, buf, |pen, row| {
            let request = &row.0;
            pen.left(Model::name(&request.server), 14, cx.style(Role::Text)).skip(1);
            pen.left(kind_word(&request.kind), 11, cx.style(Role::Attention)).skip(1);
            let call = request.during.as_ref().map_or_else(|| ink!("-"), Ink::from);
            pen.left(call, during, cx.style(Role::Muted)).skip(1);
            pen.right(cx.model.elapsed(request.arrived), 7, cx.style(Role::Muted)).skip(1);
            pen.right(cx.model.until(request.deadline), 8, cx.style(Role::Busy)).skip(1);
            pen.right(ink!("{}", Bytes(request.bytes as u64)), 6, cx.style(Role::Muted));
        });
        if count == 0 && !regions.list.is_empty() {
            let mut pen = Pen::new(buf, regions.list);
            pen.at(1, 1)
                .put("when a server asks for a completion or an answer, it waits here", faint);
        }
    }

    fn focus_next(&mut self, ui: Ui<'_>) -> bool {
        let beside = self.browser.regions(ui.area).divider.is_some();
        let inside = self.browser.part == Part::List && beside;
        self.browser.part = if inside { Part::Detail } else { Part::List };
        inside
    }
}

fn detail(request: &PendingRequest, model: &Model, doc: &mut Doc) {
    doc.line(vec![
        (Model::name(&request.server), Role::Heading),
        (ink!(" asks: {}", Ink::line(request.kind.method())), Role::Attention),
    ]);
    if let Some(during) = &request.during {
        doc.field("during", during, Role::Text);
    }
    doc.field("you have", model.until(request.deadline), Role::Busy);
    doc.heading("what the server says");
    doc.json(0, &request.params);
}

fn settled(model: &Model, doc: &mut Doc) {
    if model.view.settled.is_empty() {
        return;
    }
    doc.heading("settled");
    for (at, request, settlement) in model.view.settled.iter().rev().take(50) {
        let (what, role) = match settlement {
            Settlement::Answered { by, how } => {
                let by: Ink = match by {
                    Decider::Person => ink!("by you"),
                    Decider::Callback => ink!("by the callback"),
                    Decider::Rule(rule) => ink!("by the rule {}", Ink::line(rule)),
                    Decider::Nobody => ink!("by nobody"),
                };
                (ink!("{} {}", Ink::line(how), by), Role::Text)
            }
            Settlement::Withdrawn { reason } => (ink!("withdrawn: {}", reason), Role::Warning),
        };
        doc.line(vec![
            (ink!("  {} ", Model::time_of_day(*at)), Role::Faint),
            (ink!("{} {}  ", Model::name(&request.server), kind_word(&request.kind)), Role::Muted),
            (what, role),
        ]);
    }
}
