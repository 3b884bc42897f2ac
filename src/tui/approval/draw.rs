//! Drawing of the answer screen: the request of the server, then notes and the answer.

use crate::approval::answering::{
    AnswerScreen, AnsweringStage, Drafting, Over, Says, scopes, verbs,
};
use crate::approval::sampling;
use crate::form::draw::form;
use crate::form::{FormState, JsonView};
use crate::model::who_asks;
use crate::pane::Cx;
use crate::prelude::*;
use crate::widget::{Doc, Pen, scroll_bar, width};
use deck::{Asks, ElicitationReading, UrlReading};
use host::ApprovalRequest;
use protocol::RequestKind;

/// Columns reserved for the call in the title before the time left is shortened.
const MIN_CALL_COLUMNS: u16 = 44;
/// Fewest cells for a part of it.
const MIN_PART_COLUMNS: u16 = 8;
/// Rows around the request: title and rule above, one rule below.
const REQUEST_FRAME_ROWS: u16 = 3;

/// The request as lines for a region of this width.
pub fn says(answering: &AnswerScreen, width: u16) -> Doc {
    let mut doc = Doc::new(width);
    match &answering.says {
        Says::Sampling(_) => sampling::show(&answering.params, &mut doc),
        Says::Elicitation(reading) => elicitation(reading, &mut doc),
        Says::Other => drop(doc.json(0, &answering.params)),
    }
    doc
}

fn elicitation(reading: &ElicitationReading, doc: &mut Doc) {
    doc.text(0, &reading.message, Role::Foreign);
    match &reading.asks {
        Asks::Url(url) => draw_url(url, doc),
        Asks::Form(asked) => {
            if !asked.described.is_empty() {
                doc.gap();
            }
            for (label, description) in &asked.described {
                doc.text(0, &ink!("{}  {}", label, description), Role::Foreign);
            }
        }
    }
}

fn draw_url(url: &UrlReading, doc: &mut Doc) {
    doc.gap();
    let host = if url.host.is_empty() { ink!("nowhere") } else { Ink::from(&url.host) };
    doc.line(vec![(ink!("goes to  "), Role::Muted), (host, Role::Attention)]);
    for refusal in &url.refusals {
        doc.text(0, &ink!("not opened: {}", Ink::line(refusal)), Role::Error);
    }
    doc.gap();
    doc.text(0, &ink!("{}{}{}", &url.before, &url.host, &url.after), Role::Foreign);
    if let Some(written) = &url.written {
        doc.gap();
        doc.line(vec![(ink!("the server wrote it differently:"), Role::Warning)]);
        doc.text(0, written, Role::Foreign);
    }
}

/// The regions of the answer screen.
struct ApprovalRegions {
    /// The request.
    says: Rect,
    /// The rule below it.
    rule: Rect,
    /// Notes, and the answer below them.
    answer: Rect,
    notes: Doc,
}

fn regions(answering: &AnswerScreen, cx: &Cx<'_>, area: Rect) -> Option<ApprovalRegions> {
    if area.height < 6 || area.width < 20 {
        return None;
    }
    let notes = notes(answering, cx, area.width - 2);
    let most = area.height * 3 / 5;
    let ours = match answering.form() {
        None => 3,
        // The form needs the room; the request can be scrolled.
        Some(form) if answering.is_typing() && form.json() == JsonView::Focused => most,
        // A sampling request is read while it is answered, so it needs the room.
        Some(_) if answering.over.is_none() && matches!(answering.says, Says::Sampling(_)) => {
            (area.height / 3).clamp(4, 12)
        }
        Some(form) if answering.is_typing() => {
            (form.rows().len() as u16 + 2).clamp(area.height / 3, most)
        }
        Some(_) => (area.height / 3).clamp(4, 12),
    } + (notes.len() as u16).min(area.height / 3);
    let room = area.height.saturating_sub(REQUEST_FRAME_ROWS + ours).max(1);
    let wanted = (answering.doc.len() as u16).clamp(1, area.height);
    let inner = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let says = Rect { y: area.y + 2, height: wanted.min(room), ..inner };
    let rule = Rect { y: says.bottom(), height: 1, ..area };
    let y = rule.bottom();
    let answer = Rect { y, height: area.bottom().saturating_sub(y), ..inner };
    Some(ApprovalRegions { says, rule, answer, notes })
}

/// A part of the answer screen under the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalSpot {
    /// The request.
    Says,
    /// The form, drawn in this region.
    Form(Rect),
}

/// The part at a position of the `area` the screen is drawn in.
pub fn spot(
    answering: &AnswerScreen,
    cx: &Cx<'_>,
    area: Rect,
    at: Position,
) -> Option<ApprovalSpot> {
    let regions = regions(answering, cx, area)?;
    let is_open = answering.open_form().is_some_and(FormState::popup_is_open);
    if regions.says.contains(at) && !is_open {
        return Some(ApprovalSpot::Says);
    }
    let rest = below_notes(&regions.notes, regions.answer);
    let form = answering.form().filter(|_| is_open || rest.contains(at));
    form.map(|_| ApprovalSpot::Form(below_title(answering, rest)))
}

/// Draws the whole screen of a request being answered.
pub fn render(answering: &AnswerScreen, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let area = area.intersection(buf.area);
    let Some(ApprovalRegions { says, rule: divider, answer: rest, notes }) =
        regions(answering, cx, area)
    else {
        Pen::new(buf, area).put("too small to answer here", cx.style(Role::Warning));
        return;
    };
    title(answering, cx, Rect { height: 1, ..area }, buf);
    rule(cx, Rect { y: area.y + 1, height: 1, ..area }, says_title(answering), buf);
    let doc = &answering.doc;
    let height = usize::from(says.height);
    let top = answering.top.min(doc.len().saturating_sub(height));
    doc.render(cx, top, says, buf);
    if doc.len() > height {
        scroll_bar(cx, doc.len(), top, Rect { width: area.width, x: area.x, ..says }, buf);
    }
    let below = doc.len().saturating_sub(top + height);
    let hint = if below > 0 {
        ink!("{} below", count(below, "more line"))
    } else if answering.form().is_none() {
        ink!("your decision")
    } else {
        ink!("your answer")
    };
    rule(cx, divider, hint, buf);
    render_answer(answering, cx, &notes, rest, buf);
}

fn title(answering: &AnswerScreen, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let request = &answering.request;
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    pen.put(ink!(" {} ", cx.glyphs.hand), cx.style(Role::Attention));
    let pending = &cx.model.view.pending;
    if let Some(at) = pending.get_index_of(&request.id).filter(|_| pending.len() > 1) {
        pen.put(ink!("{} of {}  ", at + 1, pending.len()), cx.style(Role::Muted));
    }
    let (who, asks) = who_asks(request);
    pen.put(who, cx.style(Role::Heading));
    let asks = ink!(" {}", asks);
    let during = request.during.as_ref().map(|during| ink!("   during {}", during));
    let wanted =
        width(&asks) + during.as_ref().map_or(0, |during| width(during).min(MIN_CALL_COLUMNS));
    let (time, role) = time_left(answering, cx, pen.room().saturating_sub(wanted + 2));
    let room = |pen: &Pen<'_>| pen.room().saturating_sub(width(&time) + 2);
    let free = room(&pen);
    pen.clip(asks, free, cx.style(Role::Attention));
    if let Some(during) = during {
        let free = room(&pen);
        // A few letters of it say nothing.
        let free = if free < MIN_PART_COLUMNS { 0 } else { free };
        pen.clip(during, free, cx.style(Role::Muted));
    }
    pen.flush_right(time, cx.style(role));
}

/// The time left to answer, worded as fully as there is room for.
fn time_left(answering: &AnswerScreen, cx: &Cx<'_>, room: u16) -> (Ink, Role) {
    match &answering.stage {
        AnsweringStage::Ended(_) => (ink!("no longer open "), Role::Error),
        AnsweringStage::Sent => (ink!("on its way "), Role::Busy),
        AnsweringStage::Open => {
            let left = cx.model.until(answering.request.deadline);
            let over = answering.request.call.is_some_and(|call| cx.model.has_ended(call));
            let words: &[&str] = if over {
                &["; the call has ended", "; call ended", ""]
            } else if is_outside_calls(answering, cx) {
                &["; no call waits for it", "; no call", ""]
            } else if answering.request.deferred {
                &["; no request is open on the wire", "; no open request", ""]
            } else {
                &["; the timeout of the call is paused", "; call paused", ""]
            };
            let mut texts = words.iter().map(|words| ink!("{} to answer{} ", &left, *words));
            let fits = texts.clone().find(|texts| width(texts) <= room);
            (fits.or_else(|| texts.next_back()).unwrap_or_default(), Role::Busy)
        }
    }
}

/// Whether no call was running when the server asked, so that no timeout is paused for it.
fn is_outside_calls(answering: &AnswerScreen, cx: &Cx<'_>) -> bool {
    let ApprovalRequest { server, call, during, deferred, .. } = &*answering.request;
    let works = || cx.model.calls.iter().any(|call| call.server == *server);
    call.is_none() && during.is_none() && !deferred && !works()
}

fn says_title(answering: &AnswerScreen) -> Ink {
    match &answering.request.kind {
        RequestKind::Guard | RequestKind::Permission => ink!("the call"),
        _ if answering.is_edited() => ink!("from the server, edited by you"),
        _ => ink!("from the server"),
    }
}

fn rule(cx: &Cx<'_>, area: Rect, title: Ink, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    pen.put(cx.glyphs.horizontal, cx.style(Role::Rule));
    pen.put(ink!(" {} ", title), cx.style(Role::Muted));
    pen.rule(cx.glyphs.horizontal, cx.style(Role::Rule));
}

// Below the request: notes, the fields of the answer, the draft.

/// Maximum number of warnings shown in full.
const MAX_WARNINGS: usize = 4;

/// Notes between the request and the answer: why it ended, token estimate, warnings, draft state,
/// notice.
fn notes(answering: &AnswerScreen, cx: &Cx<'_>, width: u16) -> Doc {
    let mut notes: Vec<(Ink, Role)> = Vec::new();
    if let AnsweringStage::Ended(reason) = &answering.stage {
        let mut text = ink!("withdrawn: {}; nothing more is sent", reason);
        if answering.has_draft() {
            text.push(
                cx.keymap.spelled(scopes(answering), "; your draft is kept, {copy-form} copies it"),
            );
        }
        notes.push((text, Role::Error));
    }
    let warnings = match &answering.says {
        Says::Sampling(reading) => {
            let tokens = reading.prompt_tokens;
            notes.push((ink!("the prompt has about {} tokens (an estimate)", tokens), Role::Muted));
            reading.warnings.as_slice()
        }
        Says::Elicitation(reading) => reading.warnings.as_slice(),
        Says::Other => &[],
    };
    if answering.hidden > 0 {
        let (count, s) = (answering.hidden, if answering.hidden == 1 { "" } else { "s" });
        let text = ink!("contains {} hidden character{}, shown as marks", count, s);
        notes.push((text, Role::Warning));
    }
    notes.extend(warnings.iter().take(MAX_WARNINGS).map(|w| (Ink::line(w), Role::Warning)));
    if warnings.len() > MAX_WARNINGS {
        notes.push((
            ink!("and {}", count(warnings.len() - MAX_WARNINGS, "more warning")),
            Role::Warning,
        ));
    }
    let model = cx.model.drafter.as_ref();
    match (&answering.drafting, model) {
        (Drafting::Asked, Some(model)) => notes.push((ink!("{} drafts…", model), Role::Busy)),
        (Drafting::Asked, None) => notes.push((ink!("a draft is being made…"), Role::Busy)),
        (Drafting::By(by), _) => {
            let text = ink!("a draft by {}: read it, change it; it is sent only by you", by);
            notes.push((text, Role::Attention));
        }
        (Drafting::No, _) => {}
    }
    if let Some(notice) = &answering.notice {
        notes.push((cx.keymap.spelled(scopes(answering), notice), Role::Attention));
    }
    let mut doc = Doc::new(width);
    for (note, role) in &notes {
        doc.text(0, note, *role);
    }
    doc
}

fn render_answer(answering: &AnswerScreen, cx: &Cx<'_>, notes: &Doc, area: Rect, buf: &mut Buffer) {
    let shown = notes.len().min(usize::from(area.height));
    // The newest note comes last; without room, the first ones are dropped.
    notes.render(cx, notes.len() - shown, area, buf);
    let rest = below_notes(notes, area);
    if rest.height == 0 {
        return;
    }
    let Some(state) = answering.form() else {
        let mut doc = Doc::new(rest.width);
        doc.text(0, &consequence(answering), Role::Faint);
        return doc.render(cx, 0, rest, buf);
    };
    if let Some(title) = title_of(answering) {
        Pen::new(buf, rest).ellipsis(cx.glyphs.ellipsis).put(title, cx.style(Role::Heading));
    }
    let submit = ink!("{} ({{send}})", verbs(answering).0);
    let submit = cx.keymap.spelled(scopes(answering), submit.as_str());
    form(state, &cx.styles(), submit.as_str(), below_title(answering, rest), buf);
}

/// The title of a form over the answer.
fn title_of(answering: &AnswerScreen) -> Option<Ink> {
    match &answering.over.as_ref()?.0 {
        Over::Tool(name) => Some(ink!("a call of {}", Ink::line(name))),
        Over::Request => Some(ink!("the request as JSON")),
        Over::Reason | Over::Name => None,
    }
}

/// The region of the form within the area below the notes.
fn below_title(answering: &AnswerScreen, area: Rect) -> Rect {
    lower(area, u16::from(title_of(answering).is_some()))
}

/// The part of `area` below the notes.
fn below_notes(notes: &Doc, area: Rect) -> Rect {
    lower(area, notes.len().min(usize::from(area.height)) as u16)
}

/// What accepting would do, for requests without a form.
fn consequence(answering: &AnswerScreen) -> &'static str {
    match &answering.says {
        _ if answering.stage != AnsweringStage::Open => "",
        Says::Elicitation(ElicitationReading { asks: Asks::Url(url), .. }) => match &url.open {
            Some(_) => "opened by a second press only; the server learns that you agreed, no more",
            None => "it cannot be opened from here: decline, or cancel without deciding",
        },
        _ => "if allowed, the call is sent unchanged; if refused, it fails",
    }
}

fn lower(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}
