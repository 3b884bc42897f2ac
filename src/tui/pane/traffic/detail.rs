//! The detail of one message: what is known of it, and its body as JSON.

use serde_json::Value;

use crate::host::traffic::{Direction, MessageKind, TrafficRecord};
use crate::text::SafeText;
use crate::tui::glyph::Glyphs;
use crate::tui::ink::{Bytes, Dur, ink};
use crate::tui::model::Model;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// Draws a message; `pair` is the sequence number of its other half.
pub fn draw(record: &TrafficRecord, pair: Option<u64>, glyphs: &Glyphs, width: u16) -> Doc {
    let mut doc = Doc::new(width);
    let (sign, way, role): (&'static str, &'static str, Role) = match record.direction {
        Direction::Out => (glyphs.outbound, "to", Role::Outbound),
        Direction::In => (glyphs.inbound, "from", Role::Inbound),
    };
    let kind: &'static str = match record.kind {
        MessageKind::Request => "request",
        MessageKind::Notification => "notification",
        MessageKind::Response => "response",
        MessageKind::Error => "error",
        MessageKind::Junk => "no JSON-RPC message",
    };
    doc.line(vec![
        (ink!("{} ", sign), role),
        (ink!("{} {} {}", kind, way, Model::name(&record.server)), Role::Heading),
    ]);
    if let Some(method) = &record.method {
        doc.field("method", method, Role::Text);
    }
    if let Some(target) = &record.target {
        doc.field("target", target, Role::Text);
    }
    if let Some(id) = &record.id {
        doc.field("id", id, Role::Text);
    }
    if let Some(call) = record.call {
        doc.field("call", ink!("{}", call), Role::Text);
    }
    doc.field("time", Model::time_of_day(record.at), Role::Text);
    doc.field("size", ink!("{}", Bytes(record.bytes as u64)), Role::Text);
    if let Some(latency) = record.latency {
        doc.field("took", ink!("{}", Dur(latency)), Role::Text);
    }
    if record.kind == MessageKind::Request {
        let word: &'static str =
            if pair.is_some() { "answered, p goes there" } else { "not answered" };
        doc.field("answer", word, if pair.is_some() { Role::Text } else { Role::Busy });
    }
    if let Some(problem) = &record.problem {
        doc.field("problem", problem, Role::Warning);
    }
    doc.gap();
    match serde_json::from_str::<Value>(&record.body) {
        Ok(value) => _ = doc.json(0, &value),
        Err(_) => _ = doc.text(0, &SafeText::block(&record.body), Role::Foreign),
    }
    if record.cut {
        doc.gap();
        doc.text(0, &"the rest of the message was not kept", Role::Warning);
    }
    doc
}
