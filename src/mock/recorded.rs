//! Plays a recorded server: a recorded request gets its recorded answer; any other is refused,
//! naming the nearest recorded one.
//!
//! Requests are matched by method and parameters without `_meta`, which changes from run to run;
//! equal requests get the recorded answers in order, and then the last one again. What the server
//! sent between a request and its answer (progress, logs, requests of its own, lines that are not
//! messages, stderr output and its exit) is repeated.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use base::human::parse_duration;
use base::masked::may_be;
use base::secret::MASK;
use base::text::nearest;
use base::{LogSource, SafeText, ServerName, Timestamp};
use deck::{Recording, RecordingLine};
use host::Fact;
use protocol::{Direction, MessageKind, RpcCode};

/// How a recording is played.
#[derive(Clone, Debug, Default, Args)]
pub struct PlayOptions {
    /// The server of the recording to play, when it holds several.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,

    /// Answer at this multiple of the recorded speed; at once when left out.
    #[arg(long, value_name = "TIMES", value_parser = parse_speed)]
    pub speed: Option<f64>,

    /// Play the recording although it was scrubbed.
    #[arg(long)]
    pub scrubbed: bool,

    /// Fault: every answer is delayed by this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub delay: Option<Duration>,

    /// Fault: the Nth request gets no answer.
    #[arg(long, value_name = "N")]
    pub drop: Option<u64>,

    /// Fault: a line that is not a message precedes the Nth answer.
    #[arg(long, value_name = "N")]
    pub junk: Option<u64>,

    /// Fault: the program ends instead of answering the Nth request.
    #[arg(long, value_name = "N")]
    pub die: Option<u64>,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok().filter(|speed| (1e-6..=1e6).contains(speed));
    speed.ok_or_else(|| "write a number above 0, for example 2 or 0.5".to_owned())
}

/// What the server did.
#[derive(Clone, Debug)]
pub(crate) enum RecordedSend {
    /// A message.
    Message(Value),
    /// A line that is not a message.
    Junk(String),
    /// A line on stderr.
    Stderr(String),
    /// It ended: with a code, or by a signal.
    End(Result<i32, String>),
}

/// What the server did for one request, in order.
#[derive(Debug, Default)]
pub(crate) struct RecordedExchange {
    /// Time from the request and what was sent.
    pub(crate) sent: Vec<(Duration, RecordedSend)>,
    asked: Timestamp,
    /// The client's recorded id and progress token, which are replaced with the current ones.
    pub(crate) id: Value,
    token: Option<Value>,
}

/// The exchanges of one server, by method and parameters.
#[derive(Debug, Default)]
pub(crate) struct RecordedServer {
    /// How it is played.
    pub(crate) options: PlayOptions,
    exchanges: Vec<Rc<RecordedExchange>>,
    by_key: HashMap<String, Vec<usize>>,
    used: RefCell<HashMap<String, usize>>,
    step: Cell<u64>,
}

impl RecordedServer {
    /// Reads what one server did.
    ///
    /// # Errors
    /// When it cannot be played.
    pub(crate) fn read(recording: Recording, options: PlayOptions) -> Result<Self, String> {
        if recording.header().scrubbed && !options.scrubbed {
            let message = "it was scrubbed, so answers may hold *** instead of values; \
                           play it anyway with --scrubbed";
            return Err(message.to_owned());
        }
        let mut lines: Vec<RecordingLine> = Vec::new();
        let mut servers = Vec::new();
        for line in recording {
            let line = line.map_err(|error| error.to_string())?;
            if let RecordingLine::Frame(frame) = &line
                && !servers.contains(&frame.server)
            {
                servers.push(frame.server.clone());
            }
            if line.server().is_some() {
                lines.push(line);
            }
        }
        let wanted =
            |name: &&ServerName| options.server.as_deref().is_none_or(|it| it == name.as_str());
        let mut found = servers.iter().filter(wanted);
        let name = match (found.next(), found.next()) {
            (Some(one), None) => one,
            (None, _) if servers.is_empty() => {
                return Err("no message of a server was recorded".to_owned());
            }
            _ => {
                let names: Vec<String> =
                    servers.iter().map(|name| SafeText::line(name.as_str()).to_string()).collect();
                let names = names.join(", ");
                return Err(format!("name one of its servers with --server: {names}"));
            }
        };
        let lines = lines.into_iter().filter(|line| line.server() == Some(name));
        let mut recorded = Self { options, ..Self::default() };
        recorded.fold(lines);
        Ok(recorded)
    }

    fn fold(&mut self, lines: impl Iterator<Item = RecordingLine>) {
        let mut exchanges: Vec<RecordedExchange> = Vec::new();
        // Requests of the client that have no answer yet, newest last.
        let mut open: Vec<usize> = Vec::new();
        for line in lines {
            // Anything unsolicited belongs to the newest open request, else to the last one.
            let newest = open.last().copied().or(exchanges.len().checked_sub(1));
            match line {
                RecordingLine::Frame(frame) => {
                    let message = if frame.cut {
                        let id = frame.id.as_deref().unwrap_or_default();
                        let id = serde_json::from_str(id).unwrap_or_else(|_| json!(id));
                        let text = "the answer was too large to be recorded";
                        json!({"id": id, "error": {"code": RpcCode::SERVER_ERROR, "message": text}})
                    } else {
                        serde_json::from_str(&frame.body).unwrap_or_default()
                    };
                    let to = match (frame.direction, frame.kind) {
                        // It stands for an answer that never came.
                        (_, MessageKind::Error) if frame.body.is_empty() => continue,
                        (Direction::Out, MessageKind::Request) => {
                            let at = exchanges.len();
                            open.push(at);
                            self.by_key.entry(key(&message)).or_default().push(at);
                            exchanges.push(RecordedExchange {
                                sent: Vec::new(),
                                asked: frame.at,
                                id: message["id"].clone(),
                                token: message.pointer("/params/_meta/progressToken").cloned(),
                            });
                            continue;
                        }
                        (Direction::Out, _) => continue,
                        (_, MessageKind::Response | MessageKind::Error) => {
                            let is_its = |at: &usize| exchanges[*at].id == message["id"];
                            let found = open.iter().rposition(is_its);
                            found.map(|found| open.remove(found)).or(newest)
                        }
                        _ => {
                            let token = message.pointer("/params/progressToken");
                            let is_its = |at: &&usize| exchanges[**at].token.as_ref() == token;
                            let found = open.iter().rev().find(|at| token.is_some() && is_its(at));
                            found.copied().or(newest)
                        }
                    };
                    let sent = match frame.kind {
                        MessageKind::Junk => RecordedSend::Junk(frame.body.to_string()),
                        _ => RecordedSend::Message(message),
                    };
                    push(&mut exchanges, to, frame.at, sent);
                }
                RecordingLine::Log(log) if log.source == LogSource::Stderr => {
                    push(
                        &mut exchanges,
                        newest,
                        log.at,
                        RecordedSend::Stderr(log.text.to_string()),
                    );
                }
                RecordingLine::Fact(record) => {
                    let Fact::Exited { exit, .. } = &record.fact else { continue };
                    open.clear();
                    if !exit.expected {
                        let how = exit.describe();
                        let signal = how.strip_prefix("killed by SIG").map(str::to_owned);
                        let end = signal.map_or(Ok(exit.code.unwrap_or(1)), Err);
                        push(&mut exchanges, newest, record.at, RecordedSend::End(end));
                    }
                }
                _ => {}
            }
        }
        self.exchanges = exchanges.into_iter().map(Rc::new).collect();
    }

    /// The exchange that answers a request, in the order of the recording.
    pub(crate) fn find(&self, request: &Value) -> Option<Rc<RecordedExchange>> {
        let mut key = key(request);
        if !self.by_key.contains_key(&key) {
            key.clone_from(self.masked(&key)?);
        }
        let recorded = self.by_key.get(&key)?;
        let mut used = self.used.borrow_mut();
        let used = used.entry(key).or_default();
        let at = recorded.get(*used).or(recorded.last())?;
        *used += 1;
        self.exchanges.get(*at).cloned()
    }

    /// The recorded request with masks that may be this one: a secret in it was hidden.
    fn masked(&self, wanted: &str) -> Option<&String> {
        let (method, params) = wanted.split_once(' ')?;
        let params: Value = serde_json::from_str(params).ok()?;
        let may_be_it = |recorded: &&String| {
            let same = recorded.strip_prefix(method).and_then(|rest| rest.strip_prefix(' '));
            let same = same.filter(|text| text.contains(MASK)).map(serde_json::from_str::<Value>);
            same.is_some_and(|kept| kept.is_ok_and(|kept| may_be(&kept, &params)))
        };
        self.by_key.keys().filter(may_be_it).min()
    }

    /// The error for a request that was not recorded, with the nearest one that was.
    pub(crate) fn unknown(&self, request: &Value) -> Value {
        let wanted = key(request);
        let method = request["method"].as_str().unwrap_or_default();
        let same = self.by_key.keys().filter(|key| key.split(' ').next() == Some(method));
        let nearest = match nearest(&wanted, same, 0.0) {
            Some(key) => format!("the nearest that was recorded is `{}`", SafeText::cut(key, 300)),
            None => format!("no `{method}` was recorded"),
        };
        json!({
            "jsonrpc": "2.0", "id": request["id"],
            "error": {"code": RpcCode::SERVER_ERROR, "message": format!("never recorded: {nearest}")},
        })
    }

    /// Counts a request of the client; returns its number, from 1.
    pub(crate) fn step(&self) -> u64 {
        self.step.set(self.step.get() + 1);
        self.step.get()
    }
}

fn push(exchanges: &mut [RecordedExchange], to: Option<usize>, at: Timestamp, sent: RecordedSend) {
    if let Some(exchange) = to.and_then(|to| exchanges.get_mut(to)) {
        exchange.sent.push((at.since(exchange.asked), sent));
    }
}

/// Method and parameters, so that equal requests have equal keys: members in order, `_meta` left
/// out. Handshakes differ by client and are matched by their method alone.
fn key(request: &Value) -> String {
    let method = request["method"].as_str().unwrap_or_default();
    if matches!(method, "initialize" | "server/discover") {
        return method.to_owned();
    }
    let mut params = request.get("params").cloned().unwrap_or_else(|| json!({}));
    if let Some(params) = params.as_object_mut() {
        params.shift_remove("_meta");
    }
    params.sort_all_objects();
    format!("{method} {params}")
}

#[cfg(test)]
mod tests {
    use super::parse_speed;

    #[test]
    fn a_speed_is_a_number_that_a_wait_can_be_divided_by() {
        assert_eq!(parse_speed("0.5"), Ok(0.5));
        for text in ["0", "-1", "1e-300", "inf", "NaN", "fast"] {
            assert!(parse_speed(text).is_err(), "{text}");
        }
    }
}
