//! A recording, or a part of it, in another form: an HTML page, HAR 1.2, OTLP traces as JSON, or a
//! recording again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::operations::{OperationStep, RecordedOperation, RecordedOperations, RecordedOutcome};
use super::{Header, Recording, RecordingLine};
use base::file::hex;
use base::{LogSource, SafeText, ServerName, Timestamp};
use host::{Fact, Record};
use protocol::Direction;

/// An export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFormat {
    /// One self-contained page, to attach to an issue.
    Html,
    /// HTTP Archive 1.2, for the viewers of browsers: one entry for each operation.
    Har,
    /// OpenTelemetry traces (OTLP/JSON), one span per operation, without arguments and results.
    Otlp,
    /// A recording.
    Jsonl,
}

/// Which part is exported.
#[derive(Clone, Debug, Default)]
pub struct RecordingPart {
    /// Only these servers; all when empty.
    pub servers: Vec<String>,
    /// From this offset after the beginning.
    pub from: Option<Duration>,
    /// Up to this offset after the beginning.
    pub to: Option<Duration>,
}

impl RecordingPart {
    /// Whether something of one server, or of none, is exported. With servers named, what is about
    /// none, as the loaded configuration or a message to a model, may be about others.
    fn is_of(&self, server: Option<&ServerName>) -> bool {
        let is_named =
            |server: &ServerName| self.servers.iter().any(|name| name == server.as_str());
        self.servers.is_empty() || server.is_some_and(is_named)
    }

    /// The header of the part: the configuration of its servers. What they depend on elsewhere is
    /// left out.
    fn header(&self, header: &Header) -> Header {
        let mut header = header.clone();
        if let Some(servers) = header.servers.as_object_mut() {
            servers.retain(|name, _| self.is_of(Some(&ServerName::new(name))));
            for key in config::DEPENDENCY_KEYS {
                let lists = servers.values_mut().filter_map(|entry| entry.get_mut(key));
                lists.filter_map(Value::as_array_mut).for_each(|names| {
                    let is_of = |name: &str| self.is_of(Some(&ServerName::new(name)));
                    names.retain(|name| name.as_str().is_some_and(is_of));
                });
            }
        }
        header
    }

    /// A line of the part as it is exported: where the host speaks of a server and of one outside the
    /// part, that is left out. `None` when nothing is left. What a server writes itself is kept.
    fn without_others(&self, line: RecordingLine, others: &[String]) -> Option<RecordingLine> {
        if others.is_empty() {
            return Some(line);
        }
        // As sentences of the host name a server, and a tool of one.
        let names_another = |text: &SafeText| {
            let is_in = |name: &String| {
                text.contains(&format!("`{name}`")) || text.contains(&format!("`{name}."))
            };
            others.iter().any(is_in)
        };
        match &line {
            RecordingLine::Log(log)
                if log.source == LogSource::Host && names_another(&log.text) =>
            {
                None
            }
            RecordingLine::Fact(record) => match &record.fact {
                Fact::Found { finding } if names_another(&finding.message) => None,
                Fact::ServerAdded { .. } | Fact::StateChanged { .. } => {
                    let mut record = Record::clone(record);
                    match &mut record.fact {
                        Fact::ServerAdded { dependencies, .. } => {
                            dependencies.retain(|name| self.is_of(Some(name)));
                        }
                        Fact::StateChanged { reason, .. } => {
                            *reason = reason.take().filter(|reason| !names_another(reason));
                        }
                        _ => {}
                    }
                    Some(RecordingLine::Fact(Arc::new(record)))
                }
                _ => Some(line),
            },
            _ => Some(line),
        }
    }

    /// Whether a line is exported. Facts from before `from` are included, because the state of the
    /// servers is folded from them.
    fn has(&self, line: &RecordingLine, began: Timestamp) -> bool {
        let is_fact = matches!(line, RecordingLine::Fact(_));
        let after = line.at().map_or(Duration::ZERO, |at| at.since(began));
        let in_time = self.to.is_none_or(|to| after <= to)
            && (is_fact || self.from.is_none_or(|from| after >= from || line.at().is_none()));
        let is_count = matches!(line, RecordingLine::Missed { .. } | RecordingLine::End { .. });
        in_time && (is_count || self.is_of(line.server()))
    }
}

/// The content of a recording, its messages combined into operations.
pub(super) struct Contents {
    pub(super) header: Header,
    pub(super) operations: RecordedOperations,
    /// Request and answer of each operation.
    pub(super) bodies: HashMap<u64, [String; 2]>,
    pub(super) facts: Vec<Arc<Record>>,
    pub(super) frames: u64,
    pub(super) missed: u64,
}

/// Writes a part of a recording in another form. Returns the servers of the part that the
/// recording has nothing of.
///
/// # Errors
/// When it cannot be read or written.
pub fn export_recording(
    recording: Recording,
    part: &RecordingPart,
    format: ExportFormat,
    to: &mut impl Write,
) -> io::Result<Vec<String>> {
    let header = part.header(recording.header());
    let all = recording.header().servers.as_object().into_iter().flat_map(|all| all.keys());
    let others: Vec<String> =
        all.filter(|name| !part.is_of(Some(&ServerName::new(name)))).cloned().collect();
    let mut unknown = part.servers.clone();
    let lines = recording.filter_map(|line| {
        let Ok(line) = line else { return Some(line) };
        unknown.retain(|name| line.server().is_none_or(|server| server.as_str() != name));
        let is_of = part.has(&line, header.began);
        is_of.then(|| part.without_others(line, &others)).flatten().map(Ok)
    });
    if format == ExportFormat::Jsonl {
        for line in std::iter::once(Ok(RecordingLine::Header(header.clone()))).chain(lines) {
            serde_json::to_writer(&mut *to, &line?)?;
            to.write_all(b"\n")?;
        }
        return to.flush().map(|()| unknown);
    }
    let contents =
        contents(&header, lines, matches!(format, ExportFormat::Html | ExportFormat::Har))?;
    match format {
        ExportFormat::Html => to.write_all(html(&contents).as_bytes())?,
        ExportFormat::Har => serde_json::to_writer(&mut *to, &har(&contents))?,
        _ => serde_json::to_writer(&mut *to, &otlp(&contents))?,
    }
    to.flush().map(|()| unknown)
}

fn contents(
    header: &Header,
    lines: impl Iterator<Item = io::Result<RecordingLine>>,
    with_bodies: bool,
) -> io::Result<Contents> {
    let mut contents = Contents {
        header: header.clone(),
        operations: RecordedOperations::new(usize::MAX),
        bodies: HashMap::new(),
        facts: Vec::new(),
        frames: 0,
        missed: 0,
    };
    for line in lines {
        match line? {
            RecordingLine::Frame(frame) => {
                contents.frames += 1;
                match contents.operations.frame(&frame) {
                    OperationStep::Began(number) if with_bodies => {
                        contents.bodies.insert(number, [frame.body.to_string(), String::new()]);
                    }
                    OperationStep::Ended(number) => {
                        if let Some([_, answer]) = contents.bodies.get_mut(&number) {
                            *answer = frame.body.to_string();
                        }
                    }
                    _ => {}
                }
            }
            RecordingLine::Fact(record) => {
                contents.operations.fact(&record);
                contents.facts.push(record);
            }
            RecordingLine::Missed { frames, .. } => contents.missed += frames,
            RecordingLine::Header(_)
            | RecordingLine::Log(_)
            | RecordingLine::Chat { .. }
            | RecordingLine::End { .. } => {}
        }
    }
    Ok(contents)
}

/// <http://www.softwareishard.com/blog/har-12-spec/>
fn har(contents: &Contents) -> Value {
    let entries = contents.operations.iter().map(|(number, operation)| {
        let [request, answer] = contents.bodies.get(&number).cloned().unwrap_or_default();
        let ms = |span: Duration| span.as_secs_f64() * 1e3;
        let (status, text) = match operation.outcome {
            RecordedOutcome::Ok => (200, "OK"),
            RecordedOutcome::ToolError => (200, "Tool Error"),
            RecordedOutcome::Error => (500, "Error"),
            RecordedOutcome::Open | RecordedOutcome::Lost => (0, ""),
        };
        let url =
            format!("mcp://{}/{}", operation.server.as_str(), operation.name().replace(' ', "/"));
        let ended = operation.ended.unwrap_or(contents.operations.latest());
        json!({
            "startedDateTime": operation.asked.to_rfc3339(),
            "time": ms(ended.since(operation.asked)),
            "request": {
                "method": "POST", "url": url, "httpVersion": "JSON-RPC", "cookies": [],
                "headers": [], "queryString": [], "headersSize": -1, "bodySize": request.len(),
                "postData": {"mimeType": "application/json", "text": request},
            },
            "response": {
                "status": status, "statusText": text, "httpVersion": "JSON-RPC", "cookies": [],
                "headers": [], "redirectURL": "", "headersSize": -1, "bodySize": answer.len(),
                "content": {"size": answer.len(), "mimeType": "application/json", "text": answer},
            },
            "cache": {},
            "timings": {
                "blocked": ms(operation.sent.since(operation.asked)), "send": 0,
                "wait": ms(ended.since(operation.sent)), "receive": 0,
            },
            "serverIPAddress": "", "connection": operation.server.as_str(),
            "_direction": operation.direction, "_outcome": operation.outcome.as_str(),
        })
    });
    let (name, version) = contents.header.product.split_once(' ').unwrap_or(("mcpdeck", ""));
    json!({"log": {
        "version": "1.2", "creator": {"name": name, "version": version},
        "entries": entries.collect::<Vec<_>>(),
    }})
}

/// <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>, with the attributes of the
/// conventions for MCP.
fn otlp(contents: &Contents) -> Value {
    let seed = format!("{}{}", contents.header.began.0, contents.header.product);
    let id = |kind: &str, number: u64, bytes: usize| {
        hex(&Sha256::digest(format!("{seed}{kind}{number}"))[..bytes])
    };
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let mut scopes: Vec<(ServerName, Vec<Value>)> = Vec::new();
    for (number, operation) in contents.operations.iter() {
        let mut root = (number, operation);
        while let Some(parent) = root.1.parent.and_then(|n| Some((n, contents.operations.get(n)?)))
        {
            root = parent;
        }
        let mut attributes = vec![text("mcp.method.name", &operation.method)];
        attributes.extend(attribute_of_target(operation).map(|(key, value)| text(key, value)));
        if operation.outcome.is_bad() {
            let kind = operation.outcome.as_str().replace(' ', "_");
            attributes.push(text("error.type", &kind));
        }
        let ended = operation.ended.unwrap_or(contents.operations.latest());
        let is_out = operation.direction == Direction::Out;
        let mut events = Vec::new();
        if operation.sent > operation.asked {
            events.push(json!({"timeUnixNano": nanos(operation.sent), "name": "sent"}));
        }
        events.extend(
            operation.progress.map(|at| json!({"timeUnixNano": nanos(at), "name": "progress"})),
        );
        let mut span = json!({
            "traceId": id("trace", root.0, 16), "spanId": id("span", number, 8),
            "name": operation.name(), "kind": if is_out { 3 } else { 2 },
            "startTimeUnixNano": nanos(operation.asked), "endTimeUnixNano": nanos(ended),
            "attributes": attributes, "events": events,
            "status": if operation.outcome.is_bad() { json!({"code": 2}) } else { json!({}) },
        });
        if let Some(parent) = operation.parent {
            span["parentSpanId"] = id("span", parent, 8).into();
        }
        match scopes.iter_mut().find(|(server, _)| *server == operation.server) {
            Some((_, spans)) => spans.push(span),
            None => scopes.push((operation.server.clone(), vec![span])),
        }
    }
    let resources = scopes.into_iter().map(|(server, spans)| {
        json!({
            "resource": {"attributes": [
                text("service.name", "mcpdeck"), text("mcp.server.name", server.as_str()),
            ]},
            "scopeSpans": [{"scope": {"name": "mcpdeck"}, "spans": spans}],
        })
    });
    json!({"resourceSpans": resources.collect::<Vec<_>>()})
}

/// 64-bit numbers are text in OTLP/JSON.
fn nanos(at: Timestamp) -> String {
    format!("{}000", at.0)
}

fn attribute_of_target(operation: &RecordedOperation) -> Option<(&'static str, &str)> {
    let key = match operation.method.as_str() {
        "tools/call" => "gen_ai.tool.name",
        "prompts/get" => "gen_ai.prompt.name",
        _ => "mcp.resource.uri",
    };
    Some((key, operation.target.as_ref()?.as_str()))
}

// A recording as one HTML page without external resources, to attach to an issue.

/// Most operations of the table; the rest is counted.
const MAX_TABLE_ROWS: usize = 5_000;
/// Most characters of a body that are shown.
const MAX_BODY_CHARS: usize = 2_000;

/// The page.
pub(super) fn html(contents: &Contents) -> String {
    let (header, frames, missed) = (&contents.header, contents.frames, contents.missed);
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
    let at = |moment: Timestamp| moment.since(header.began).as_secs_f64();
    for (number, row) in contents.operations.iter().take(MAX_TABLE_ROWS) {
        let class = match row.outcome {
            RecordedOutcome::Ok => "ok",
            RecordedOutcome::Open => "open",
            RecordedOutcome::ToolError | RecordedOutcome::Error | RecordedOutcome::Lost => "error",
        };
        let ms =
            row.ended.map(|ended| format!("{:.1}", ended.since(row.asked).as_secs_f64() * 1e3));
        let [request, answer] = contents.bodies.get(&number).cloned().unwrap_or_default();
        let _ = write!(
            page,
            "<tr class={class}><td>{:.3} s<td>{}<td>{}{}<td>{}<td class=n>{}<td><details><summary>{}\
             </summary><pre>{}</pre><pre>{}</pre></details>",
            at(row.sent),
            escaped(row.server.as_str()),
            "↳ ".repeat(row.depth.into()),
            escaped(&row.method),
            escaped(row.target.as_deref().unwrap_or_default()),
            ms.unwrap_or_default(),
            row.outcome.as_str(),
            escaped(&cut(&request)),
            escaped(&cut(&answer)),
        );
    }
    page.push_str("</table>");
    let skipped = contents.operations.iter().count().saturating_sub(MAX_TABLE_ROWS);
    if skipped > 0 {
        let _ = write!(page, "<p>{skipped} more operations are in the recording.");
    }
    page.push_str("<h2>Servers</h2><table><tr><th>at<th>server<th>event<th>");
    let shown = contents.facts.iter().filter(|record| {
        matches!(
            record.fact,
            Fact::StateChanged { .. }
                | Fact::Exited { .. }
                | Fact::Found { .. }
                | Fact::BreakerChanged { .. }
        )
    });
    for record in shown {
        let server = record.server.as_ref().map_or("", ServerName::as_str);
        let text = serde_json::to_string(&record.fact).unwrap_or_default();
        let _ = write!(
            page,
            "<tr><td>{:.3} s<td>{}<td>{}<td><code>{}</code>",
            at(record.at),
            escaped(server),
            record.fact.name(),
            escaped(&cut(&text))
        );
    }
    page.push_str("</table></html>\n");
    page
}

const STYLE: &str = "body{font:14px system-ui;margin:2em;max-width:90em}table{border-collapse:collapse}\
td,th{padding:.2em .8em;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}.n{text-align:right}\
.error td{background:#fee}.open td{background:#ffd}pre{white-space:pre-wrap;word-break:break-all;max-width:60em}";

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_BODY_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Escapes a text for HTML; control characters are made visible.
fn escaped(text: &str) -> String {
    base::text::SafeText::block(text).to_html()
}
