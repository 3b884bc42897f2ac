//! A recorded server played again over stdin and stdout: what was asked before is answered as it was
//! then; what was never asked is refused, naming the nearest that was.
//!
//! Requests are matched by method and parameters without `_meta`, which changes from run to run; of
//! equal requests the first gets the first answer, and so on, the last answer staying. What the
//! server sent between a request and its answer (progress, logs, requests of its own) is sent again.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use crate::base::text::SafeText;
use crate::deck::recording::{Line, Recording};
use crate::mcp::traffic::{Direction, MessageKind, TrafficRecord};

/// How a recording is played.
#[derive(Clone, Debug, Default)]
pub struct PlayOptions {
    /// The server to play, when several were recorded.
    pub server: Option<String>,
    /// Times the recorded speed; `None` answers at once.
    pub speed: Option<f64>,
    /// Plays although the recording was scrubbed.
    pub scrubbed: bool,
    /// Faults on top of what was recorded.
    pub faults: Faults,
}

/// Faults on top of what was recorded; steps count the requests of the client from 1.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Every answer comes this much later.
    pub delay: Duration,
    /// No answer to this request.
    pub drop: Option<u64>,
    /// A line that is no message before the answer to this request.
    pub junk: Option<u64>,
    /// The program ends instead of answering this request.
    pub die: Option<u64>,
}

/// What the server did for one request, in order.
#[derive(Debug, Default)]
struct Exchange {
    /// Time from the request and what was sent.
    sent: Vec<(Duration, Value)>,
    /// The client's id and progress token then, which are replaced by those of now.
    id: Value,
    token: Option<Value>,
}

/// The exchanges of one server, by method and parameters.
#[derive(Debug, Default)]
struct Script {
    exchanges: Vec<Exchange>,
    by_key: HashMap<String, Vec<usize>>,
    used: HashMap<String, usize>,
}

/// Plays a recording; gives the exit code: 2 when it cannot be played.
pub fn play(path: &Path, options: &PlayOptions) -> ExitCode {
    let script = match read(path, options) {
        Ok(script) => script,
        Err(message) => {
            let path = SafeText::line(&path.display().to_string());
            let _ = writeln!(io::stderr(), "mcpdeck mock: {path}: {message}");
            return ExitCode::from(2);
        }
    };
    match script.serve(options) {
        Ok(code) => code,
        // The client left.
        Err(_) => ExitCode::SUCCESS,
    }
}

fn read(path: &Path, options: &PlayOptions) -> Result<Script, String> {
    let recording = Recording::open(path).map_err(|error| error.to_string())?;
    if recording.header().scrubbed && !options.scrubbed {
        let message = "it was scrubbed, so answers may hold *** instead of values; \
                       play it all the same with --scrubbed";
        return Err(message.to_owned());
    }
    let mut frames: Vec<TrafficRecord> = Vec::new();
    for line in recording {
        if let Line::Frame(frame) = line.map_err(|error| error.to_string())? {
            frames.push(frame);
        }
    }
    let mut servers: Vec<&str> = frames.iter().map(|frame| frame.server.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    let name = match (&options.server, servers.as_slice()) {
        (Some(name), _) if servers.contains(&name.as_str()) => name.as_str(),
        (None, [one]) => one,
        (_, []) => return Err("no message of a server was recorded".to_owned()),
        _ => {
            let names: Vec<String> =
                servers.iter().map(|name| SafeText::line(name).to_string()).collect();
            return Err(format!("name one of its servers with --server: {}", names.join(", ")));
        }
    };
    let name = name.to_owned();
    if let Some(cut) = frames.iter().find(|f| f.server.as_str() == name && f.cut) {
        let target = cut.method.as_ref().map_or("", |method| method.as_str());
        return Err(format!("a message ({target}) was larger than what is recorded of one"));
    }
    Ok(Script::new(frames.iter().filter(|frame| frame.server.as_str() == name)))
}

impl Script {
    fn new<'a>(frames: impl Iterator<Item = &'a TrafficRecord>) -> Self {
        let mut script = Self::default();
        // Requests of the client that have no answer yet, newest last.
        let mut open: Vec<(Value, usize, u64)> = Vec::new();
        for frame in frames {
            let Ok(message) = serde_json::from_str::<Value>(&frame.body) else { continue };
            match (frame.direction, frame.kind) {
                (Direction::Out, MessageKind::Request) => {
                    let at = script.exchanges.len();
                    open.push((message["id"].clone(), at, frame.at.0));
                    let token = message.pointer("/params/_meta/progressToken").cloned();
                    let id = message["id"].clone();
                    script.exchanges.push(Exchange { sent: Vec::new(), id, token });
                    script.by_key.entry(key(&message)).or_default().push(at);
                }
                (Direction::In, MessageKind::Response | MessageKind::Error) => {
                    let found = open.iter().position(|(id, ..)| *id == message["id"]);
                    if let Some(found) = found {
                        let (_, at, since) = open.remove(found);
                        script.push(at, frame.at.0 - since.min(frame.at.0), message);
                    }
                }
                // What comes on its own belongs to the newest request that waits.
                (Direction::In, MessageKind::Request | MessageKind::Notification) => {
                    let token = message.pointer("/params/progressToken");
                    let of_token = open.iter().rev().find(|(_, at, _)| {
                        token.is_some() && script.exchanges[*at].token.as_ref() == token
                    });
                    if let Some((_, at, since)) = of_token.or_else(|| open.last()).cloned() {
                        script.push(at, frame.at.0 - since.min(frame.at.0), message);
                    }
                }
                _ => {}
            }
        }
        script
    }

    fn push(&mut self, at: usize, micros: u64, message: Value) {
        if let Some(exchange) = self.exchanges.get_mut(at) {
            exchange.sent.push((Duration::from_micros(micros), message));
        }
    }

    /// The exchange that answers a request, in the order of the recording.
    fn find(&mut self, request: &Value) -> Option<&Exchange> {
        let key = key(request);
        let recorded = self.by_key.get(&key)?;
        let used = self.used.entry(key).or_default();
        let at = recorded.get(*used).or(recorded.last())?;
        *used += 1;
        self.exchanges.get(*at)
    }

    /// Why a request cannot be answered: the nearest of what was recorded.
    fn unknown(&self, request: &Value) -> Value {
        let wanted = key(request);
        let method = request["method"].as_str().unwrap_or_default();
        let nearest =
            self.by_key.keys().filter(|key| key.split(' ').next() == Some(method)).max_by(
                |a, b| {
                    strsim::jaro_winkler(a, &wanted).total_cmp(&strsim::jaro_winkler(b, &wanted))
                },
            );
        let nearest = match nearest {
            Some(key) => format!("the nearest that was recorded is `{}`", SafeText::cut(key, 300)),
            None => format!("no `{method}` was recorded"),
        };
        json!({
            "jsonrpc": "2.0", "id": request["id"],
            "error": {"code": -32_000, "message": format!("never recorded: {nearest}")},
        })
    }

    fn serve(mut self, options: &PlayOptions) -> io::Result<ExitCode> {
        let mut lines = io::stdin().lock().lines();
        let mut out = io::stdout().lock();
        let mut step = 0;
        while let Some(line) = lines.next() {
            let Ok(request) = serde_json::from_str::<Value>(&line?) else { continue };
            if request.get("method").is_none() || request.get("id").is_none() {
                continue;
            }
            step += 1;
            let faults = &options.faults;
            if faults.die == Some(step) {
                return Ok(ExitCode::FAILURE);
            }
            if faults.drop == Some(step) {
                continue;
            }
            if faults.junk == Some(step) {
                writeln!(out, "this line is no message")?;
            }
            wait(faults.delay);
            let unknown = self.unknown(&request);
            let Some(exchange) = self.find(&request) else {
                writeln!(out, "{unknown}")?;
                out.flush()?;
                continue;
            };
            let token = request.pointer("/params/_meta/progressToken");
            let mut before = Duration::ZERO;
            for (at, message) in &exchange.sent {
                if let Some(speed) = options.speed {
                    wait(at.saturating_sub(before).div_f64(speed));
                    before = *at;
                }
                let mut message = message.clone();
                let is_request = message.get("method").is_some() && message.get("id").is_some();
                if message.get("method").is_none() && message["id"] == exchange.id {
                    message["id"] = request["id"].clone();
                } else if let Some(token) = token
                    && message.pointer("/params/progressToken").is_some()
                {
                    message["params"]["progressToken"] = token.clone();
                }
                writeln!(out, "{message}")?;
                out.flush()?;
                if is_request {
                    // The server asked then, and went on when it was answered.
                    answered(&mut lines, &message["id"])?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Waits for the client's answer to a request of the server.
fn answered(lines: &mut io::Lines<io::StdinLock<'_>>, id: &Value) -> io::Result<()> {
    for line in lines {
        let answer = serde_json::from_str::<Value>(&line?).unwrap_or_default();
        if answer.get("method").is_none() && answer["id"] == *id {
            return Ok(());
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

#[expect(clippy::disallowed_methods, reason = "a server of one client, which waits meanwhile")]
fn wait(time: Duration) {
    if time > Duration::ZERO {
        std::thread::sleep(time);
    }
}

/// Method and parameters, so that equal requests have equal keys: members in order, `_meta` left
/// out. Handshakes differ by client and are told apart by their method alone.
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
