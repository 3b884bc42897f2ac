//! A recording as one HTML page without anything from outside, to attach to an issue.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use super::{Line, Recording};
use crate::base::Timestamp;
use crate::mcp::traffic::{Direction, MessageKind};

/// Most operations of the table; the rest is counted.
const ROWS: usize = 5_000;
/// Most bytes of a body that are shown.
const BODY: usize = 2_000;

/// One request and what became of it.
struct Operation {
    at: Timestamp,
    server: String,
    method: String,
    target: String,
    request: String,
    answer: Option<(MessageKind, f64, String)>,
}

/// The page.
///
/// # Errors
/// When the recording cannot be read.
pub fn html(recording: Recording) -> io::Result<String> {
    let header = recording.header().clone();
    let mut operations: Vec<Operation> = Vec::new();
    let mut open: BTreeMap<(String, String, bool), usize> = BTreeMap::new();
    let mut facts = Vec::new();
    let (mut frames, mut skipped, mut missed) = (0_u64, 0_u64, 0_u64);
    for line in recording {
        match line? {
            Line::Frame(frame) => {
                frames += 1;
                let id = frame.id.as_ref().map_or("", |id| id.as_str()).to_owned();
                let server = frame.server.as_str().to_owned();
                let is_out = frame.direction == Direction::Out;
                match frame.kind {
                    MessageKind::Request if operations.len() < ROWS => {
                        open.insert((server.clone(), id, is_out), operations.len());
                        operations.push(Operation {
                            at: frame.at,
                            server,
                            method: frame.method.map_or(String::new(), |m| m.to_string()),
                            target: frame.target.map_or(String::new(), |t| t.to_string()),
                            request: cut(&frame.body),
                            answer: None,
                        });
                    }
                    MessageKind::Request => skipped += 1,
                    MessageKind::Response | MessageKind::Error => {
                        let row = open.remove(&(server, id, !is_out));
                        if let Some(row) = row.and_then(|row| operations.get_mut(row)) {
                            let micros = frame.at.0.saturating_sub(row.at.0);
                            let ms = micros as f64 / 1_000.0;
                            row.answer = Some((frame.kind, ms, cut(&frame.body)));
                        }
                    }
                    MessageKind::Notification | MessageKind::Junk => {}
                }
            }
            Line::Fact(record) => {
                let fact = serde_json::to_value(&record.fact)?;
                if let (Some(name), Some(server)) = (fact["fact"].as_str(), fact["server"].as_str())
                    && ["serverState", "exited", "finding", "breakerChanged"].contains(&name)
                {
                    facts.push((
                        record.at,
                        server.to_owned(),
                        name.to_owned(),
                        cut(&fact.to_string()),
                    ));
                }
            }
            Line::Missed { frames, .. } => missed += frames,
            Line::Header(_) | Line::Log(_) | Line::End { .. } => {}
        }
    }
    let mut page = String::new();
    let began = header.began.to_rfc3339();
    let _ = write!(
        page,
        "<!doctype html><html lang=en><meta charset=utf-8><title>mcpdeck recording</title>\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <style>{STYLE}</style><h1>Recording of {began}</h1><p>{} · {frames} messages · {}{}",
        escaped(&header.product),
        if header.scrubbed { "scrubbed" } else { "not scrubbed: it may hold private data" },
        if missed > 0 { format!(" · {missed} messages were not kept") } else { String::new() },
    );
    page.push_str(
        "<h2>Operations</h2><table><tr><th>at<th>server<th>method<th>target<th>ms<th>result",
    );
    for row in &operations {
        let at = row.at.0.saturating_sub(header.began.0) as f64 / 1e6;
        let (class, ms, answer) = match &row.answer {
            Some((MessageKind::Error, ms, body)) => ("error", format!("{ms:.1}"), body.as_str()),
            Some((_, ms, body)) => ("ok", format!("{ms:.1}"), body.as_str()),
            None => ("open", String::new(), "no answer"),
        };
        let _ = write!(
            page,
            "<tr class={class}><td>{at:.3} s<td>{}<td>{}<td>{}<td class=n>{ms}<td><details><summary>{class}\
             </summary><pre>{}</pre><pre>{}</pre></details>",
            escaped(&row.server),
            escaped(&row.method),
            escaped(&row.target),
            escaped(&row.request),
            escaped(answer),
        );
    }
    page.push_str("</table>");
    if skipped > 0 {
        let _ = write!(page, "<p>{skipped} more operations are in the recording.");
    }
    page.push_str("<h2>Servers</h2><table><tr><th>at<th>server<th>event<th>");
    for (at, server, name, text) in &facts {
        let at = at.0.saturating_sub(header.began.0) as f64 / 1e6;
        let (server, text) = (escaped(server), escaped(text));
        let _ = write!(page, "<tr><td>{at:.3} s<td>{server}<td>{name}<td><code>{text}</code>");
    }
    page.push_str("</table></html>\n");
    Ok(page)
}

const STYLE: &str = "body{font:14px system-ui;margin:2em;max-width:90em}table{border-collapse:collapse}\
td,th{padding:.2em .8em;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}.n{text-align:right}\
.error td{background:#fee}.open td{background:#ffd}pre{white-space:pre-wrap;word-break:break-all;max-width:60em}";

fn cut(text: &str) -> String {
    match text.char_indices().nth(BODY) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Text that is text in a page, whatever it holds; control characters are made visible.
fn escaped(text: &str) -> String {
    let safe = crate::base::text::SafeText::block(text);
    safe.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
