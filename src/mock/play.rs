//! Performs the actions of a script, one after the other.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answers::Refusal;
use super::recorded::{Exchange, Recorded, Sent};
use super::script::{
    Action, Ask, Flood, Lists, Notify, Part, Progress, Reaction, Repeat, Spawn, Stream, Switch,
    Until, Write,
};
use super::stage::{Cx, Flow, GO_ON, OVER, Sink};
use super::template::Scope;
use super::{answers, os, template};

/// Plays a reaction.
pub(crate) async fn play(cx: &Cx, actions: &[Action]) {
    let _ = run(cx, actions).await;
}

fn run<'a>(cx: &'a Cx, actions: &'a [Action]) -> LocalBoxFuture<'a, Flow> {
    Box::pin(async move {
        for action in actions {
            perform(cx, action).await?;
        }
        GO_ON
    })
}

async fn perform(cx: &Cx, action: &Action) -> Flow {
    match action {
        Action::Default => default(cx).await,
        Action::Answer(result) => cx.answer(&template::json(result, cx)).await,
        Action::Error(error) => cx.refuse(&template::json(error, cx)).await,
        Action::Text(text) => cx.answer(&answers::text_result(cx, &cx.text(text), false)).await,
        Action::ToolError(text) => {
            cx.answer(&answers::text_result(cx, &cx.text(text), true)).await;
        }
        Action::Send(message) => send(cx, message).await,
        Action::Line(text) => cx.line(Stream::Stdout, &cx.text(text)).await,
        Action::Write(write) => self::write(cx, write).await,
        Action::Stderr(text) => cx.line(Stream::Stderr, &cx.text(text)).await,
        Action::Notify(notify) => self::notify(cx, notify).await,
        Action::Progress(progress) => return self::progress(cx, progress).await,
        Action::Ask(ask) => return self::ask(cx, ask).await,
        Action::Set(lists) => set(cx, lists),
        Action::Save(values) => {
            for (name, value) in values {
                cx.save(name, template::value(value, cx));
            }
        }
        Action::Delay(millis) => return cx.pause(cx.number(millis)).await,
        Action::Wait(until) => return wait(cx, *until).await,
        Action::Repeat(repeat) => return self::repeat(cx, repeat).await,
        Action::Turns(turns) => return self::turns(cx, turns).await,
        Action::Switch(switch) => return self::switch(cx, switch).await,
        Action::Background(reaction) => background(cx, reaction),
        Action::Flood(flood) => return self::flood(cx, flood).await,
        Action::Close(stream) => cx.sink.close(*stream).await,
        Action::StopReading => {
            cx.stage.reading.send_replace(false);
        }
        Action::Exit(code) => {
            cx.stage.exit(cx.number(code) as i32);
            std::future::pending::<()>().await;
        }
        Action::Signal(name) => os::signal_self(name),
        Action::Ignore(name) => os::on_signal(name, || async {}),
        Action::Spawn(spawn) => self::spawn(cx, spawn).await,
        Action::Setsid => os::setsid(),
        Action::Tty(text) => cx.save("tty", os::write_tty(&cx.text(text)).into()),
        Action::WriteFile(file) => {
            if let Err(error) = std::fs::write(cx.text(&file.path), cx.text(&file.text)) {
                complain(cx, &format!("{}: {error}", file.path)).await;
            }
        }
        Action::Allocate(bytes) => cx.stage.hoard.borrow_mut().push(os::allocate(*bytes)),
        Action::OpenFiles(count) => {
            let (files, error) = os::open_files(*count);
            cx.stage.hoard.borrow_mut().push(files);
            if let Some(error) = error {
                complain(cx, &error).await;
            }
        }
        Action::Burn(millis) => os::burn(Duration::from_millis(*millis)),
        Action::Respond(_)
        | Action::Headers(_)
        | Action::Sse(_)
        | Action::EndStream
        | Action::Disconnect => on_http(cx, action).await,
    }
    GO_ON
}

/// Actions that concern the HTTP answer; over stdio nothing happens.
async fn on_http(cx: &Cx, action: &Action) {
    let Sink::Http(exchange) = &cx.sink else { return };
    match action {
        Action::Respond(respond) => {
            let body = respond.body.as_ref().map(|body| template::text(body, cx));
            if respond.body.as_ref().is_some_and(|body| !body.is_string()) {
                exchange.header("content-type", "application/json");
            }
            exchange.respond(respond, body.unwrap_or_default());
        }
        Action::Headers(headers) => {
            for (name, value) in headers {
                exchange.header(name, &cx.text(value));
            }
        }
        Action::Sse(text) => exchange.event_text(&cx.text(text)).await,
        Action::EndStream => exchange.end(),
        Action::Disconnect => exchange.disconnect(),
        _ => {}
    }
}

async fn complain(cx: &Cx, text: &str) {
    cx.line(Stream::Stderr, &format!("mock: {text}")).await;
}

async fn default(cx: &Cx) {
    let Some(request) = cx.request.as_deref().filter(|request| request.get("id").is_some()) else {
        return;
    };
    let method = request["method"].as_str().unwrap_or_default();
    if method == "subscriptions/listen" && !cx.stage.script.modern_versions().is_empty() {
        let id = request["id"].clone();
        cx.sink.message(answers::listen_begin(&id, &request["params"])).await;
        cx.stage.listeners.borrow_mut().push((id, cx.sink.clone()));
        return;
    }
    let session = &cx.stage.script.http.session;
    if let Sink::Http(exchange) = &cx.sink
        && method == "initialize"
        && !session.is_empty()
    {
        exchange.header("mcp-session-id", session);
    }
    let outcome: Result<String, Refusal> = answers::result(cx, method);
    match outcome {
        Ok(result) => cx.answer(&result).await,
        Err(refusal) => cx.refuse(&refusal.to_json().to_string()).await,
    }
}

async fn send(cx: &Cx, message: &Value) {
    let text = template::json(message, cx);
    if message.get("result").is_some() || message.get("error").is_some() {
        cx.sink.answer(text).await;
    } else {
        cx.sink.message(text).await;
    }
}

async fn write(cx: &Cx, write: &Write) {
    let mut bytes = Vec::new();
    for part in &write.parts {
        match part {
            Part::Text(text) => bytes.extend_from_slice(cx.text(text).as_bytes()),
            Part::Json { json } => bytes.extend_from_slice(template::json(json, cx).as_bytes()),
            Part::Times { text, times } => {
                let unit = cx.text(text);
                bytes.reserve(unit.len() * *times as usize);
                for _ in 0..*times {
                    bytes.extend_from_slice(unit.as_bytes());
                }
            }
            Part::Hex { hex } => {
                let digits: Vec<u8> =
                    hex.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
                bytes.extend(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
            }
        }
    }
    cx.sink.bytes(write.to, &bytes, write.chunk, write.pause).await;
}

async fn notify(cx: &Cx, notify: &Notify) {
    let params = notify.params.as_ref();
    let listeners = cx.stage.listeners.borrow().clone();
    let subscribed = notify.method.ends_with("_changed") || notify.method.ends_with("/updated");
    if subscribed && !listeners.is_empty() {
        for (id, sink) in listeners {
            let params = params.map(|params| template::value(params, cx)).unwrap_or_default();
            let params = answers::for_listener(params, &id);
            let message = json!({"jsonrpc": "2.0", "method": notify.method, "params": params});
            sink.message(message.to_string()).await;
        }
        return;
    }
    let method = Value::String(notify.method.clone());
    let params = cx.params(params);
    cx.sink.message(format!(r#"{{"jsonrpc":"2.0","method":{method}{params}}}"#)).await;
}

async fn progress(cx: &Cx, progress: &Progress) -> Flow {
    let token = match &progress.token {
        Some(token) => template::json(token, cx),
        None => cx.lookup("token").unwrap_or_default().to_string(),
    };
    // A host that gave no token wants no progress; the work takes its time all the same.
    let wanted = token != "null";
    for step in 1..=progress.steps {
        let cx = cx.counting(step);
        let value = progress.value.as_ref().map(|value| template::json(value, &cx));
        let value = value.unwrap_or_else(|| step.to_string());
        let mut params = format!(r#"{{"progressToken":{token},"progress":{value}"#);
        if let Some(total) = &progress.total {
            let _ = write!(params, r#","total":{}"#, template::json(total, &cx));
        }
        if let Some(message) = &progress.message {
            let _ = write!(params, r#","message":{}"#, Value::String(cx.text(message)));
        }
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}}}"#);
        if wanted {
            cx.sink.message(text).await;
        }
        if progress.every > 0 {
            cx.pause(progress.every).await?;
        }
    }
    GO_ON
}

async fn ask(cx: &Cx, ask: &Ask) -> Flow {
    let number = cx.next_asked();
    let id = match &ask.id {
        Some(id) => template::json(id, cx),
        None => format!("\"mock-{number}\""),
    };
    let (answered, answer) = tokio::sync::oneshot::channel();
    cx.stage.asks.borrow_mut().insert(id.clone(), answered);
    let method = Value::String(ask.method.clone());
    let params = cx.params(ask.params.as_ref());
    cx.sink.message(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}{params}}}"#)).await;
    let got = match ask.wait {
        Some(0) => return GO_ON,
        Some(millis) => tokio::time::timeout(Duration::from_millis(millis), answer).await.ok(),
        None => tokio::select! {
            got = answer => Some(got),
            () = cx.cancelled.cancelled() => return OVER,
        },
    };
    let got = got.and_then(Result::ok);
    if let (None, Some(reason)) = (&got, &ask.cancel) {
        let reason = Value::String(cx.text(reason));
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#
        );
        cx.sink.message(text).await;
    }
    cx.save(ask.save_as.as_deref().unwrap_or("answer"), got.unwrap_or_default());
    GO_ON
}

fn set(cx: &Cx, new: &Lists) {
    let now = &mut *cx.stage.lists.borrow_mut();
    for (slot, value) in [
        (&mut now.tools, &new.tools),
        (&mut now.prompts, &new.prompts),
        (&mut now.resources, &new.resources),
        (&mut now.resource_templates, &new.resource_templates),
        (&mut now.instructions, &new.instructions),
    ] {
        if value.is_some() {
            slot.clone_from(value);
        }
    }
}

async fn wait(cx: &Cx, until: Until) -> Flow {
    match until {
        Until::Cancelled => cx.cancelled.cancelled().await,
        Until::StdinClosed => cx.stage.stdin_closed.cancelled().await,
        Until::Forever => std::future::pending().await,
    }
    GO_ON
}

async fn repeat(cx: &Cx, repeat: &Repeat) -> Flow {
    for index in 0..repeat.times.as_ref().map_or(u64::MAX, |times| cx.number(times)) {
        if index > 0 && repeat.every > 0 {
            cx.pause(repeat.every).await?;
        }
        run(&cx.counting(index), repeat.actions.actions()).await?;
    }
    GO_ON
}

/// Scripts never move once they play, so the address of a `turns` names it.
async fn turns(cx: &Cx, turns: &[Reaction]) -> Flow {
    let key = turns.as_ptr() as usize;
    let turn = {
        let mut seen = cx.stage.turns.borrow_mut();
        let next = seen.entry(key).or_default();
        *next += 1;
        *next - 1
    };
    match turns.get(turn).or(turns.last()) {
        Some(reaction) => run(cx, reaction.actions()).await,
        None => GO_ON,
    }
}

async fn switch(cx: &Cx, switch: &Switch) -> Flow {
    let value = cx.text(&switch.on);
    match switch.cases.get(&value).or(switch.otherwise.as_ref()) {
        Some(reaction) => run(cx, reaction.actions()).await,
        None => GO_ON,
    }
}

fn background(cx: &Cx, reaction: &Arc<Reaction>) {
    let (cx, reaction) = (cx.clone(), Arc::clone(reaction));
    tokio::task::spawn_local(async move { play(&cx, reaction.actions()).await });
}

async fn spawn(cx: &Cx, spawn: &Spawn) {
    let command: Vec<String> = spawn.command.iter().map(|part| cx.text(part)).collect();
    match os::spawn(spawn, &command) {
        Ok(mut child) if spawn.wait => {
            let _ = tokio::task::spawn_blocking(move || child.wait()).await;
        }
        Ok(child) => {
            cx.save("child", json!({"pid": child.id()}));
            cx.stage.hoard.borrow_mut().push(Box::new(child));
        }
        Err(error) => complain(cx, &format!("cannot spawn: {error}")).await,
    }
}

/// Does for a request of the client what was done when it was recorded.
pub(crate) async fn replay(cx: &Cx, recorded: &Recorded, request: &Value) {
    let faults = &recorded.options;
    let step = Some(recorded.step());
    if faults.die == step {
        return cx.stage.exit(1);
    }
    if faults.drop == step {
        return;
    }
    if faults.junk == step {
        cx.line(Stream::Stdout, "this line is no message").await;
    }
    tokio::time::sleep(faults.delay.unwrap_or_default()).await;
    let Some(exchange) = recorded.find(request) else {
        return cx.sink.answer(recorded.unknown(request).to_string()).await;
    };
    let mut before = Duration::ZERO;
    for (at, sent) in &exchange.sent {
        if let Some(speed) = recorded.options.speed {
            tokio::time::sleep(at.saturating_sub(before).div_f64(speed)).await;
            before = *at;
        }
        match sent {
            Sent::Message(message) => send_again(cx, &exchange, message, request).await,
            Sent::Junk(line) => cx.line(Stream::Stdout, line).await,
            Sent::Stderr(line) => cx.line(Stream::Stderr, line).await,
            Sent::End(Ok(code)) => return cx.stage.exit(*code),
            Sent::End(Err(signal)) => return os::signal_self(signal),
        }
    }
}

/// Sends a recorded message with the ids of now. What the server asked is waited for.
async fn send_again(cx: &Cx, exchange: &Exchange, message: &Value, request: &Value) {
    let mut message = message.clone();
    match (message.get("method").is_some(), message.get("id").is_some()) {
        (false, _) => {
            if message["id"] == exchange.id {
                message["id"] = request["id"].clone();
            }
            cx.sink.answer(message.to_string()).await;
        }
        (true, false) => {
            if let Some(token) = request.pointer("/params/_meta/progressToken")
                && message.pointer("/params/progressToken").is_some()
            {
                message["params"]["progressToken"] = token.clone();
            }
            cx.sink.message(message.to_string()).await;
        }
        (true, true) => {
            let asked = cx.next_asked();
            message["id"] = asked.into();
            let (answered, answer) = tokio::sync::oneshot::channel();
            cx.stage.asks.borrow_mut().insert(asked.to_string(), answered);
            cx.sink.message(message.to_string()).await;
            let _ = answer.await;
        }
    }
}

// Floods: very much output, as fast as it goes or at a rate.

/// Bytes written at once.
const BLOCK: usize = 64 << 10;
/// How often a rate is kept up.
const TICK: Duration = Duration::from_millis(10);

/// Writes what the flood asks for. Its time is looked at between blocks, so that no line is cut.
async fn flood(cx: &Cx, flood: &Flood) -> Flow {
    if flood.bytes > 0 {
        unbroken(cx, flood).await;
    } else {
        lines(cx, flood).await;
    }
    GO_ON
}

async fn unbroken(cx: &Cx, flood: &Flood) {
    let block = vec![b'x'; BLOCK];
    let mut left = flood.bytes as usize;
    while left > 0 {
        let size = left.min(BLOCK);
        cx.sink.bytes(flood.to, &block[..size], 0, 0).await;
        left -= size;
    }
}

async fn lines(cx: &Cx, flood: &Flood) {
    let begun = Instant::now();
    let most = if flood.lines > 0 { flood.lines } else { u64::MAX };
    let time = if flood.millis > 0 { Duration::from_millis(flood.millis) } else { Duration::MAX };
    let mut written = 0;
    let mut block = Vec::with_capacity(BLOCK + 1024);
    while written < most && begun.elapsed() < time {
        let due = match flood.per_second {
            0 => most,
            rate => most.min(rate * begun.elapsed().as_millis() as u64 / 1000),
        };
        if due <= written {
            tokio::time::sleep(TICK).await;
            continue;
        }
        block.clear();
        while written < due && block.len() < BLOCK {
            line(cx, flood, written, &mut block);
            written += 1;
        }
        cx.sink.bytes(flood.to, &block, 0, 0).await;
        tokio::task::yield_now().await;
    }
}

fn line(cx: &Cx, flood: &Flood, index: u64, out: &mut Vec<u8>) {
    let text = match (&flood.json, &flood.line) {
        (Some(json), _) => template::json(json, &template::counted(cx, index)),
        (None, Some(text)) if text.contains("${") => {
            template::text(&text.as_str().into(), &template::counted(cx, index))
        }
        (None, Some(text)) => text.clone(),
        (None, None) => format!("flood {index}"),
    };
    out.extend_from_slice(text.as_bytes());
    out.push(b'\n');
}
