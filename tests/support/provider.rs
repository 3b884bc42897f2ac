//! A model provider for tests: speaks the streams of Anthropic, Gemini, `OpenAI` and Ollama as their
//! public documentation describes them, one scripted answer for each request, and keeps what it was
//! sent. What it describes of its models is answered beside the script.
//! Use with `#[path = "support/provider.rs"] mod provider;`.
#![allow(dead_code, reason = "every test file uses its own part of these")]

#[path = "history_rules.rs"]
mod history_rules;
#[path = "tool_rules.rs"]
pub mod tool_rules;

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use tool_rules::ToolRules;

/// A part of an answer.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Text, one event for each word.
    Text(&'static str),
    /// Reasoning, signed where the provider signs it.
    Reason(&'static str),
    /// A call of a tool with arguments as text.
    Call(&'static str, &'static str),
    /// A refusal, where the provider has a field for it.
    Refuse(&'static str),
    /// A call that is not finished when the answer ends.
    OpenCall(&'static str, &'static str),
}

/// What a request is answered with.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A whole stream.
    Stream(Vec<Piece>),
    /// The same, which ends with a closed connection before its end.
    Cut(Vec<Piece>),
    /// The same, which stays open until the client leaves.
    Stalled(Vec<Piece>),
    /// A stream that a content filter ends.
    Filtered,
    /// A stream that stops at its longest length.
    Longest(Vec<Piece>),
    /// A stream that is paused, to be asked for again (Anthropic).
    Paused(Vec<Piece>),
    /// Another status, with headers and a body.
    Status(u16, &'static str, Value),
    /// A stream as it was recorded.
    Recorded(String),
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Path and query.
    pub path: String,
    /// Header lines in lower case.
    pub headers: Vec<String>,
    /// The body.
    pub body: Value,
}

/// A provider that listens.
pub struct Provider {
    /// The address before `/messages` and the others.
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    is_strict: Arc<AtomicBool>,
    descriptions: Descriptions,
}

/// What is answered to questions about models, by the end of the path.
type Descriptions = Arc<Mutex<HashMap<&'static str, Value>>>;

impl Provider {
    /// Answers with these, one after the other; then with the last again and again.
    pub fn new(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let is_strict: Arc<AtomicBool> = Arc::default();
        let descriptions = Descriptions::default();
        let provider = Self {
            url,
            requests: Arc::clone(&requests),
            answers: Arc::clone(&answers),
            is_strict: Arc::clone(&is_strict),
            descriptions: Arc::clone(&descriptions),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (requests, answers) = (Arc::clone(&requests), Arc::clone(&answers));
                let is_strict = is_strict.load(Ordering::Relaxed);
                let descriptions = Arc::clone(&descriptions);
                std::thread::spawn(move || {
                    serve(stream, &requests, &answers, is_strict, &descriptions)
                });
            }
        });
        provider
    }

    /// Refuses tools by the documented rules of the provider.
    pub fn strict(self) -> Self {
        self.is_strict.store(true, Ordering::Relaxed);
        self
    }

    /// Answers this to questions about models at paths with this end.
    pub fn describes(self, path: &'static str, description: Value) -> Self {
        self.descriptions.lock().expect("not poisoned").insert(path, description);
        self
    }

    /// What it was sent so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("not poisoned").clone()
    }

    /// Answers with this next.
    pub fn then(&self, answer: Answer) {
        self.answers.lock().expect("not poisoned").push_back(answer);
    }
}

/// Serves one connection and closes it.
fn serve(
    stream: TcpStream,
    requests: &Mutex<Vec<Request>>,
    answers: &Mutex<VecDeque<Answer>>,
    is_strict: bool,
    descriptions: &Mutex<HashMap<&'static str, Value>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        headers.push(line);
    }
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(Some(0), |length| length.parse().ok())?];
    reader.read_exact(&mut body).ok()?;
    if first.starts_with("GET ") || path.ends_with("/api/show") {
        let descriptions = descriptions.lock().expect("not poisoned");
        let place = path.split('?').next().unwrap_or_default();
        let known = descriptions.iter().find(|(end, _)| place.ends_with(**end));
        let (code, answer) = match known {
            Some((_, description)) => (200, description.clone()),
            None => (404, json!({"error": "model 'test-model' not found"})),
        };
        return respond(&stream, code, "", &answer);
    }
    let body: Value = serde_json::from_slice(&body).expect("a request is JSON");
    let refusal = is_strict.then(|| refusal(&path, &body)).flatten();
    let shown = descriptions.lock().expect("not poisoned").get("/api/show").cloned();
    let refusal = refusal.or_else(|| history_rules::refuse(&path, &body));
    let refusal = refusal.or_else(|| deepseek_refusal(&path, &body));
    let refusal = refusal.or_else(|| ollama_refusal(&path, &body, &shown.unwrap_or_default()));
    requests.lock().expect("not poisoned").push(Request { path: path.clone(), headers, body });
    let answer = {
        let mut answers = answers.lock().expect("not poisoned");
        if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
    };
    let stream = &stream;
    let refused = |message| Answer::Status(400, "", json!({"error": {"message": message}}));
    match refusal.map(refused).or(answer)? {
        Answer::Status(code, headers, body) => respond(stream, code, headers, &body),
        Answer::Recorded(text) => send(stream, &text, true),
        Answer::Stream(pieces) => send(stream, &events(&path, &pieces, End::Whole), true),
        Answer::Filtered => send(stream, &events(&path, &[], End::Filtered), true),
        Answer::Paused(pieces) => send(stream, &events(&path, &pieces, End::Paused), true),
        Answer::Longest(pieces) => send(stream, &events(&path, &pieces, End::Length), true),
        Answer::Cut(pieces) => send(stream, &events(&path, &pieces, End::None), false),
        Answer::Stalled(pieces) => {
            send(stream, &events(&path, &pieces, End::None), false)?;
            let mut left = Vec::new();
            reader.read_to_end(&mut left).ok().map(|_| ())
        }
    }
}

/// Sends a response that is no stream.
fn respond(mut stream: &TcpStream, code: u16, headers: &str, body: &Value) -> Option<()> {
    let body = body.to_string();
    let text = format!(
        "HTTP/1.1 {code} Status\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).ok()
}

/// Sends events, every byte as a chunk of its own.
fn send(mut stream: &TcpStream, text: &str, is_whole: bool) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    let mut out = head.as_bytes().to_vec();
    for byte in text.bytes() {
        out.extend_from_slice(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']);
    }
    if is_whole {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    stream.write_all(&out).ok()
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Whole,
    Length,
    Filtered,
    Paused,
    None,
}

fn events(path: &str, pieces: &[Piece], end: End) -> String {
    if path.ends_with("/api/chat") {
        let lines = ollama(pieces, end);
        return lines.iter().fold(String::new(), |out, line| out + &format!("{line}\n"));
    }
    let (events, is_named) = if path.ends_with("/messages") {
        (anthropic(pieces, end), true)
    } else if path.contains(":streamGenerateContent") {
        (gemini(pieces, end), false)
    } else if path.ends_with("/responses") {
        (responses(pieces, end), true)
    } else {
        assert!(path.ends_with("/chat/completions"), "{path}");
        (openai(pieces, end), false)
    };
    events.iter().fold(String::new(), |out, event| match event {
        Value::String(text) => out + &format!("data: {text}\n\n"),
        // Anthropic names its events and ends lines with LF, Gemini ends them with CR LF.
        event if is_named => {
            let name = event["type"].as_str().expect("a type");
            out + &format!("event: {name}\ndata: {event}\n\n")
        }
        event if path.contains(":stream") => out + &format!("data: {event}\r\n\r\n"),
        event => out + &format!("data: {event}\n\n"),
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// Two halves, so that arguments come in pieces.
fn halves(text: &str) -> [&str; 2] {
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    [&text[..middle], &text[middle..]]
}

fn anthropic(pieces: &[Piece], end: End) -> Vec<Value> {
    let usage = json!({"input_tokens": 11, "output_tokens": 1});
    let message = json!({"id": "msg_1", "role": "assistant", "content": [], "usage": usage});
    let mut out =
        vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    for (index, piece) in pieces.iter().enumerate() {
        let start = |block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
        let delta =
            |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        match piece {
            Piece::Text(text) => {
                out.push(start(json!({"type": "text", "text": ""})));
                out.extend(words(text).map(|w| delta(json!({"type": "text_delta", "text": w}))));
            }
            Piece::Refuse(_) => unreachable!("Anthropic stops with a reason instead"),
            Piece::Reason(text) => {
                out.push(start(json!({"type": "thinking", "thinking": "", "signature": ""})));
                out.extend(
                    words(text).map(|w| delta(json!({"type": "thinking_delta", "thinking": w}))),
                );
                out.push(delta(json!({"type": "signature_delta", "signature": "c2lnbmVk"})));
            }
            Piece::Call(name, arguments) | Piece::OpenCall(name, arguments) => {
                let id = format!("toolu_{index}");
                out.push(start(json!({"type": "tool_use", "id": id, "name": name, "input": {}})));
                for half in halves(arguments) {
                    out.push(delta(json!({"type": "input_json_delta", "partial_json": half})));
                }
            }
        }
        if !matches!(piece, Piece::OpenCall(..)) {
            out.push(json!({"type": "content_block_stop", "index": index}));
        }
    }
    let has_call = pieces.iter().any(|piece| matches!(piece, Piece::Call(..)));
    let reason = match end {
        End::None => return out,
        End::Length => "max_tokens",
        End::Filtered => "refusal",
        End::Paused => "pause_turn",
        End::Whole if has_call => "tool_use",
        End::Whole => "end_turn",
    };
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    out.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}));
    out.push(json!({"type": "message_stop"}));
    out
}

fn gemini(pieces: &[Piece], end: End) -> Vec<Value> {
    let chunk = |parts: Value| {
        let content = json!({"role": "model", "parts": parts});
        json!({"candidates": [{"content": content, "index": 0}], "usageMetadata": {"promptTokenCount": 11}})
    };
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.extend(words(text).map(|w| chunk(json!([{"text": w}])))),
            Piece::Reason(text) => {
                out.extend(words(text).map(|w| chunk(json!([{"text": w, "thought": true}]))));
            }
            Piece::Call(name, arguments) => {
                let args: Value = serde_json::from_str(arguments).expect("Gemini sends objects");
                let call = json!({"name": name, "args": args});
                out.push(chunk(json!([{"functionCall": call, "thoughtSignature": "c2lnbmVk"}])));
            }
            Piece::Refuse(_) => unreachable!("Gemini stops with a reason instead"),
            Piece::OpenCall(..) => {
                out.push(json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}));
                return out;
            }
        }
    }
    let reason = match end {
        End::None => return out,
        End::Length => "MAX_TOKENS",
        End::Filtered => "SAFETY",
        End::Whole | End::Paused => "STOP",
    };
    let usage = json!({"promptTokenCount": 11, "candidatesTokenCount": 7});
    out.push(json!({"candidates": [{"finishReason": reason, "index": 0}], "usageMetadata": usage}));
    out
}

fn openai(pieces: &[Piece], end: End) -> Vec<Value> {
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        json!({"id": "c1", "object": "chat.completion.chunk", "choices": [choice], "usage": null})
    };
    let mut out = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    for (index, piece) in pieces.iter().enumerate() {
        let call = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null);
        match piece {
            Piece::Text(text) => {
                out.extend(words(text).map(|w| chunk(json!({"content": w}), Value::Null)));
            }
            Piece::Refuse(text) => {
                out.extend(words(text).map(|w| chunk(json!({"refusal": w}), Value::Null)));
            }
            Piece::Reason(text) => {
                out.extend(
                    words(text).map(|w| chunk(json!({"reasoning_content": w}), Value::Null)),
                );
            }
            Piece::Call(name, arguments) | Piece::OpenCall(name, arguments) => {
                let function = json!({"name": name, "arguments": ""});
                let id = format!("call_{index}");
                // As Gemini signs at addresses that are compatible.
                let extra = json!({"google": {"thought_signature": "c2lnbmVk"}});
                out.push(call(json!({
                    "index": index, "id": id, "type": "function", "function": function,
                    "extra_content": extra,
                })));
                for half in halves(arguments) {
                    out.push(call(json!({"index": index, "function": {"arguments": half}})));
                }
            }
        }
    }
    let has_call =
        pieces.iter().any(|piece| matches!(piece, Piece::Call(..) | Piece::OpenCall(..)));
    let reason = match end {
        End::None => return out,
        End::Length => "length",
        End::Filtered => "content_filter",
        End::Whole if has_call => "tool_calls",
        End::Whole | End::Paused => "stop",
    };
    out.push(chunk(json!({}), json!(reason)));
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18});
    out.push(json!({"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage}));
    out.push(json!("[DONE]"));
    out
}

fn responses(pieces: &[Piece], end: End) -> Vec<Value> {
    let response = |status: &str| json!({"object": "response", "status": status, "error": null});
    let mut out = vec![json!({"type": "response.created", "response": response("in_progress")})];
    for (index, piece) in pieces.iter().enumerate() {
        let at = |kind: &str, more: Value| {
            let mut event = json!({"type": kind, "output_index": index});
            let fields = more.as_object().expect("fields").clone();
            event.as_object_mut().expect("an event").extend(fields);
            event
        };
        let deltas = |kind: &str, text: &str| -> Vec<Value> {
            words(text).map(|word| at(kind, json!({"delta": word}))).collect()
        };
        match piece {
            Piece::Text(text) | Piece::Refuse(text) => {
                let is_text = matches!(piece, Piece::Text(_));
                let part = if is_text { "output_text" } else { "refusal" };
                out.extend(deltas(&format!("response.{part}.delta"), text));
                let key = if is_text { "text" } else { "refusal" };
                let content = json!([{"type": part, key: text}]);
                let item = json!({"type": "message", "id": "msg_1", "role": "assistant",
                    "content": content, "status": "completed"});
                out.push(at("response.output_item.done", json!({"item": item})));
            }
            Piece::Reason(text) => {
                out.extend(deltas("response.reasoning_summary_text.delta", text));
                let summary = json!([{"type": "summary_text", "text": text}]);
                let item = json!({"type": "reasoning", "id": "rs_1", "summary": summary,
                    "encrypted_content": "c2lnbmVk", "status": null});
                out.push(at("response.output_item.done", json!({"item": item})));
            }
            Piece::Call(name, arguments) | Piece::OpenCall(name, arguments) => {
                let (id, call) = (format!("fc_{index}"), format!("call_{index}"));
                let item = |arguments: &str| {
                    json!({"type": "function_call", "id": id, "call_id": call, "name": name,
                        "arguments": arguments})
                };
                out.push(at("response.output_item.added", json!({"item": item("")})));
                for half in halves(arguments) {
                    let delta = json!({"delta": half});
                    out.push(at("response.function_call_arguments.delta", delta));
                }
                if matches!(piece, Piece::Call(..)) {
                    out.push(at("response.output_item.done", json!({"item": item(arguments)})));
                }
            }
        }
    }
    let (status, why) = match end {
        End::None => return out,
        End::Length => ("incomplete", Some("max_output_tokens")),
        End::Filtered => ("incomplete", Some("content_filter")),
        End::Whole | End::Paused => ("completed", None),
    };
    let mut last = response(status);
    last["usage"] = json!({"input_tokens": 11, "output_tokens": 7,
        "input_tokens_details": {"cached_tokens": 4}});
    last["incomplete_details"] = why.map_or(Value::Null, |why| json!({"reason": why}));
    out.push(json!({"type": format!("response.{status}"), "response": last}));
    out
}

fn ollama(pieces: &[Piece], end: End) -> Vec<Value> {
    let line = |message: Value| {
        let at = "2026-11-02T09:00:00Z";
        json!({"model": "test-model", "created_at": at, "message": message, "done": false})
    };
    let mut out = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let said = |key: &str, text: &str| {
            let mut message = json!({"role": "assistant", "content": ""});
            message[key] = json!(text);
            line(message)
        };
        match piece {
            Piece::Text(text) => out.extend(words(text).map(|w| said("content", w))),
            Piece::Reason(text) => out.extend(words(text).map(|w| said("thinking", w))),
            Piece::Refuse(_) | Piece::OpenCall(..) => unreachable!("Ollama has no word for it"),
            Piece::Call(name, arguments) => {
                let arguments: Value = serde_json::from_str(arguments).expect("an object");
                let function = json!({"index": 0, "name": name, "arguments": arguments});
                let call = json!({"id": format!("call_{index}"), "function": function});
                out.push(line(json!({"role": "assistant", "content": "", "tool_calls": [call]})));
            }
        }
    }
    let reason = match end {
        End::None => return out,
        End::Length => "length",
        End::Whole | End::Filtered | End::Paused => "stop",
    };
    let mut last = line(json!({"role": "assistant", "content": ""}));
    last["done"] = json!(true);
    last["done_reason"] = json!(reason);
    (last["prompt_eval_count"], last["eval_count"]) = (json!(11), json!(7));
    out.push(last);
    out
}

/// Why `DeepSeek` refuses a request: once it thinks, each answer has the field of its reasoning, with
/// tools even without calls.
fn deepseek_refusal(path: &str, body: &Value) -> Option<String> {
    if !path.ends_with("/chat/completions") || !body["tools"].is_array() {
        return None;
    }
    let messages = body["messages"].as_array().expect("messages").iter();
    let answers: Vec<_> = messages.filter(|message| message["role"] == "assistant").collect();
    let thinks = answers.iter().any(|answer| answer.get("reasoning_content").is_some());
    let lacks = answers.iter().any(|answer| !answer["reasoning_content"].is_string());
    (thinks && lacks).then(|| {
        "The `reasoning_content` in the thinking mode must be passed back to the API.".to_owned()
    })
}

/// Why Ollama refuses a request: what it cannot read, what the model shown cannot do, and a prompt
/// that does not fit where nothing may be cut.
fn ollama_refusal(path: &str, body: &Value, shown: &Value) -> Option<String> {
    if !path.ends_with("/api/chat") {
        return None;
    }
    let messages = body["messages"].as_array().expect("messages");
    for message in messages {
        assert!(message["content"].is_string(), "no text: {message}");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            assert!(call["function"]["arguments"].is_object(), "no object: {call}");
        }
    }
    let can = |word: &str| {
        let list = shown["capabilities"].as_array();
        list.is_none_or(|list| list.iter().any(|known| known == word))
    };
    if body["think"] == true && !can("thinking") {
        return Some("\"test-model\" does not support thinking".to_owned());
    }
    if body["tools"].is_array() && !can("tools") {
        return Some("registry.ollama.ai/library/test-model does not support tools".to_owned());
    }
    assert_eq!(body["truncate"], false, "what does not fit would be cut silently");
    let mut text = body["messages"].clone();
    for message in text.as_array_mut().into_iter().flatten() {
        message.as_object_mut().expect("a message").remove("images");
    }
    let tokens = (text.to_string().len() + body["tools"].to_string().len()) / 4;
    let window = body["options"]["num_ctx"].as_u64().unwrap_or(4_096);
    (tokens as u64 > window).then(|| {
        format!(
            "request ({tokens} tokens) exceeds the available context size ({window} tokens), try \
             increasing it"
        )
    })
}

/// Why a provider would refuse the tools of a request, by its documented rules.
fn refusal(path: &str, body: &Value) -> Option<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (rules, tools): (ToolRules, Vec<Value>) = if path.ends_with("/messages") {
        (ToolRules::Anthropic, list(&body["tools"]))
    } else if path.contains(":streamGenerateContent") {
        (ToolRules::Gemini, list(&body["tools"][0]["functionDeclarations"]))
    } else {
        let functions = list(&body["tools"]).into_iter();
        let functions = functions.map(|tool| tool.get("function").cloned().unwrap_or(tool));
        let is_ollama = path.ends_with("/api/chat");
        (if is_ollama { ToolRules::Ollama } else { ToolRules::Compatible }, functions.collect())
    };
    let tools: Vec<_> = tools
        .iter()
        .map(|tool| {
            let schema = ["input_schema", "parametersJsonSchema", "parameters"];
            let schema = schema.iter().find_map(|key| tool.get(*key)).expect("a schema");
            let text = |key: &str| tool[key].as_str().expect("text");
            (text("name"), text("description"), schema)
        })
        .collect();
    rules.refuse(&tools)
}
