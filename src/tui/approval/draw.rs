//! Drawing a request being answered: what the server says on its own ground, then our side.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::widgets::Widget;
use ratatui_textarea::TextArea;

use crate::host::approvals::RequestKind;
use crate::text::SafeText;
use crate::tui::app::calls::look;
use crate::tui::approval::desk::{AnswerDesk, Draft, Part, Says};
use crate::tui::approval::elicitation::{Asks, ElicitationReading};
use crate::tui::approval::sampling::{PartContent, SamplingReading};
use crate::tui::approval::url::UrlReading;
use crate::tui::form::draw::form;
use crate::tui::ink::{Bytes, Ink, ink};
use crate::tui::model::Model;
use crate::tui::pane::Cx;
use crate::tui::theme::Role;
use crate::tui::widget::{Doc, Pen, scroll_bar};

/// Rows above and below the server's words: title, rule; rule.
const AROUND_SAYS: u16 = 3;

/// What the server says, as lines for a region of this width.
pub fn says(desk: &AnswerDesk, width: u16) -> Doc {
    let mut doc = Doc::new(width);
    match &desk.says {
        Says::Sampling(reading) => sampling(reading, &mut doc),
        Says::Elicitation(reading) => elicitation(reading, &mut doc),
        Says::Other(params) => drop(doc.json(0, params)),
    }
    doc
}

fn sampling(reading: &SamplingReading, doc: &mut Doc) {
    for part in &reading.parts {
        match &part.content {
            PartContent::Text(text) => {
                doc.line(vec![(Ink::from(&part.role), Role::Muted)]);
                doc.text(2, text, Role::Foreign);
            }
            PartContent::Media { kind, mime, bytes } => {
                let what = ink!("{} {} {}", kind, mime, Bytes(*bytes as u64));
                doc.line(vec![(ink!("{} ", &part.role), Role::Muted), (what, Role::Foreign)]);
            }
            PartContent::Tool { title, body } => {
                doc.line(vec![
                    (ink!("{} ", &part.role), Role::Muted),
                    (Ink::from(title), Role::Foreign),
                ]);
                doc.text(2, body, Role::Foreign);
            }
            PartContent::Odd(body) => {
                doc.line(vec![
                    (ink!("{} ", &part.role), Role::Muted),
                    (ink!("content of an unknown kind"), Role::Warning),
                ]);
                doc.text(2, body, Role::Foreign);
            }
        }
    }
    for (name, description) in &reading.tools {
        let line = ink!("{}  {}", name, description);
        doc.line(vec![(ink!("tool "), Role::Muted), (line, Role::Foreign)]);
    }
}

fn elicitation(reading: &ElicitationReading, doc: &mut Doc) {
    doc.text(0, &reading.message, Role::Foreign);
    match &reading.asks {
        Asks::Url(url) => draw_url(url, doc),
        Asks::Form(schema) => {
            let fields = schema.get("properties").and_then(|p| p.as_object());
            let described = |f: &serde_json::Value| f.get("description").is_some();
            if fields.is_some_and(|fields| fields.values().any(described)) {
                doc.gap();
            }
            for (name, field) in fields.into_iter().flatten() {
                let Some(text) = field.get("description").and_then(|d| d.as_str()) else {
                    continue;
                };
                let line = ink!("{}  {}", Ink::line(name), Ink::line(text));
                doc.text(0, &line, Role::Foreign);
            }
        }
    }
}

fn draw_url(url: &UrlReading, doc: &mut Doc) {
    doc.gap();
    doc.text(0, &ink!("{}", &url.before), Role::Muted);
    doc.line(vec![(ink!("  "), Role::Text), (Ink::from(&url.host), Role::Attention)]);
    if !url.after.is_empty() {
        doc.text(2, &url.after, Role::Muted);
    }
    doc.gap();
    for refusal in &url.refusals {
        doc.text(0, &ink!("not opened: {}", Ink::line(refusal)), Role::Error);
    }
}

/// Draws the whole screen of a request being answered.
pub fn render(desk: &AnswerDesk, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let area = area.intersection(buf.area);
    if area.height < 6 || area.width < 20 {
        Pen::new(buf, area).put("too small to answer here", cx.style(Role::Warning));
        return;
    }
    let doc = &desk.doc;
    let notes = notes(desk);
    let wanted = (doc.len() as u16).clamp(1, area.height);
    let consent = matches!(desk.draft, Draft::Consent);
    let ours = if consent { 3 } else { (area.height / 3).clamp(4, 12) } + notes.len() as u16;
    let room = area.height.saturating_sub(AROUND_SAYS + ours).max(1);
    let height = wanted.min(room);
    title(desk, cx, Rect { height: 1, ..area }, buf);
    rule(cx, Rect { y: area.y + 1, height: 1, ..area }, says_title(desk), buf);
    let body = Rect { x: area.x + 1, y: area.y + 2, width: area.width - 2, height };
    let top = desk.top.min(doc.len().saturating_sub(usize::from(height)));
    doc.render(cx, top, body, buf);
    if doc.len() > usize::from(height) {
        scroll_bar(cx, doc.len(), top, Rect { width: area.width, x: area.x, ..body }, buf);
    }
    let below = doc.len().saturating_sub(top + usize::from(height));
    let y = body.bottom();
    let hint = if below > 0 { ink!("{} more lines below", below) } else { ink!("your answer") };
    rule(cx, Rect { y, height: 1, ..area }, hint, buf);
    let rest = Rect {
        x: area.x + 1,
        y: y + 1,
        width: area.width - 2,
        height: area.bottom().saturating_sub(y + 1),
    };
    answer(desk, cx, &notes, rest, buf);
}

fn title(desk: &AnswerDesk, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let request = &desk.request;
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    pen.put(ink!(" {} ", cx.glyphs.hand), cx.style(Role::Attention));
    pen.put(Model::name(&request.server), cx.style(Role::Heading));
    pen.put(ink!(" {}", asks_for(&request.kind)), cx.style(Role::Attention));
    if let Some(during) = &request.during {
        pen.put(ink!("   during {}", during), cx.style(Role::Muted));
    }
    let time = match &desk.ended {
        Some(_) => ink!("no longer open "),
        None => ink!("{} left, its clock is stopped ", cx.model.until(request.deadline)),
    };
    pen.flush_right(time, cx.style(if desk.ended.is_some() { Role::Error } else { Role::Busy }));
}

/// What a kind of request asks for, in words.
pub fn asks_for(kind: &RequestKind) -> Ink {
    match kind {
        RequestKind::Sampling => ink!("asks for a completion"),
        RequestKind::Elicitation => ink!("asks you"),
        RequestKind::UrlElicitation => ink!("asks you to open a page"),
        RequestKind::Roots => ink!("asks for the roots"),
        RequestKind::Guard => ink!("would be called with suspicious arguments"),
        RequestKind::Other(method) => ink!("asks for {}", Ink::line(method)),
    }
}

fn says_title(desk: &AnswerDesk) -> Ink {
    match &desk.request.kind {
        RequestKind::Guard => ink!("the call"),
        _ => ink!("what the server says"),
    }
}

fn rule(cx: &Cx<'_>, area: Rect, title: Ink, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    pen.put(cx.glyphs.horizontal, cx.style(Role::Rule));
    pen.put(ink!(" {} ", title), cx.style(Role::Muted));
    pen.rule(cx.glyphs.horizontal, cx.style(Role::Rule));
}

/// Lines of ours between the server's words and the answer: why it ended, warnings, wishes, notice.
fn notes(desk: &AnswerDesk) -> Vec<(Ink, Role)> {
    let mut notes = Vec::new();
    if let Some(ended) = &desk.ended {
        notes.push((
            ink!("withdrawn: {}; nothing more is sent, copy your draft", ended),
            Role::Error,
        ));
    }
    let (wishes, warnings) = match &desk.says {
        Says::Sampling(reading) => {
            let tokens = ink!("about {} tokens (an estimate)", reading.prompt_tokens);
            let wishes = reading.wishes.iter().fold(tokens, |mut line, wish| {
                line.push(" · ").push(wish);
                line
            });
            (Some(wishes), reading.warnings.as_slice())
        }
        Says::Elicitation(reading) => (None, reading.warnings.as_slice()),
        Says::Other(_) => (None, &[][..]),
    };
    notes.extend(wishes.map(|wishes| (wishes, Role::Muted)));
    if desk.hidden > 0 {
        let count = desk.hidden;
        notes.push((ink!("contains {} hidden characters, shown as marks", count), Role::Warning));
    }
    notes.extend(warnings.iter().take(4).map(|w| (Ink::line(w), Role::Warning)));
    if warnings.len() > 4 {
        notes.push((ink!("and {} more warnings", warnings.len() - 4), Role::Warning));
    }
    if let Some(notice) = &desk.notice {
        notes.push((Ink::from(notice), Role::Attention));
    }
    notes
}

fn answer(desk: &AnswerDesk, cx: &Cx<'_>, notes: &[(Ink, Role)], area: Rect, buf: &mut Buffer) {
    let shown = notes.len().min(usize::from(area.height));
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    for (row, (line, role)) in notes.iter().take(shown).enumerate() {
        pen.at(0, row as u16).put(line, cx.style(*role));
    }
    let rest =
        Rect { y: area.y + shown as u16, height: area.height.saturating_sub(shown as u16), ..area };
    if rest.height == 0 {
        return;
    }
    if desk.part == Part::Reason {
        let mut pen = Pen::new(buf, rest);
        pen.put("reason for saying no  ", cx.style(Role::Muted));
        let used = pen.position();
        let line =
            Rect { x: rest.x + used, width: rest.width.saturating_sub(used), height: 1, ..rest };
        text(&desk.reason, cx, true, line, buf);
        return;
    }
    let here = desk.part == Part::Answer && desk.ended.is_none();
    match &desk.draft {
        Draft::Text(draft, typed) => {
            let mut pen = Pen::new(buf, rest);
            pen.put("model  ", cx.style(Role::Muted));
            pen.put(SafeText::line(&draft.model), cx.style(Role::Text));
            pen.put("     stop  ", cx.style(Role::Muted));
            pen.put(SafeText::line(&draft.stop_reason), cx.style(Role::Text));
            text(typed, cx, here, lower(rest, 1), buf);
        }
        Draft::Raw(typed) => text(typed, cx, here, rest, buf),
        Draft::Form(state) => form(state, &look(cx.theme, cx.glyphs), "accept", rest, buf),
        Draft::Consent => {}
    }
}

fn lower(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

fn text(typed: &TextArea<'static>, cx: &Cx<'_>, here: bool, area: Rect, buf: &mut Buffer) {
    let mut typed = typed.clone();
    typed.set_style(cx.style(Role::Text));
    typed.set_cursor_line_style(Style::new());
    let cursor = if here { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    typed.set_cursor_style(cursor);
    (&typed).render(area, buf);
}
