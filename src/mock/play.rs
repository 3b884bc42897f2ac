//! Performs the actions of a script, one after the other.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answers::ScriptedRefusal;
use super::recorded::{RecordedExchange, RecordedSend, RecordedServer};
use super::script::{
    HostRequest, Notify, Reaction, Repeat, ScriptAction, ScriptPart, ScriptedFlood, ScriptedLists,
    ScriptedProgress, Spawn, StandardStream, Switch, Until, Write,
};
use super::stage::{Flow, GO_ON, OVER, ReactionContext, Sink};
use super::template::TemplateScope;
use super::{answers, os, template};

/// Plays a reaction.
pub(crate) async fn play(cx: &ReactionContext, actions: &[ScriptAction]) {
    let _ = run(cx, actions).await;
}

fn run<'a>(cx: &'a ReactionContext, actions: &'a [ScriptAction]) -> LocalBoxFuture<'a, Flow> {
    Box::pin(async move {
        for action in actions {
            perform(cx, action).await?;
        }
        GO_ON
    })
}

async fn perform(cx: &ReactionContext, action: &ScriptAction) -> Flow {
    match action {
        ScriptAction::Default => default(cx).await,
        ScriptAction::Answer(result) => cx.answer(&template::json(result, cx)).await,
        ScriptAction::Error(error) => cx.refuse(&template::json(error, cx)).await,
        ScriptAction::Text(text) => {
            cx.answer(&answers::text_result(cx, &cx.text(text), false)).await;
        }
        ScriptAction::ToolError(text) => {
            cx.answer(&answers::text_result(cx, &cx.text(text), true)).await;
        }
        ScriptAction::Send(message) => send(cx, message).await,
        ScriptAction::Line(text) => cx.line(StandardStream::Stdout, &cx.text(text)).await,
        ScriptAction::Write(write) => self::write(cx, write).await,
        ScriptAction::Stderr(text) => cx.line(StandardStream::Stderr, &cx.text(text)).await,
        ScriptAction::Notify(notify) => self::notify(cx, notify).await,
        ScriptAction::Progress(progress) => return self::progress(cx, progress).await,
        ScriptAction::Ask(ask) => return self::ask(cx, ask).await,
        ScriptAction::Set(lists) => set(cx, lists),
        ScriptAction::Save(values) => {
            for (name, value) in values {
                cx.save(name, template::value(value, cx));
            }
        }
        ScriptAction::Delay(millis) => return cx.pause(cx.number(millis)).await,
        ScriptAction::Wait(until) => return wait(cx, *until).await,
        ScriptAction::Repeat(repeat) => return self::repeat(cx, repeat).await,
        ScriptAction::Turns(turns) => return self::turns(cx, turns).await,
        ScriptAction::Switch(switch) => return self::switch(cx, switch).await,
        ScriptAction::Background(reaction) => background(cx, reaction),
        ScriptAction::Flood(flood) => return self::flood(cx, flood).await,
        ScriptAction::Close(stream) => cx.sink.close(*stream).await,
        ScriptAction::StopReading => {
            cx.stage.reading.send_replace(false);
        }
        ScriptAction::Exit(code) => {
            cx.stage.exit(cx.number(code) as i32);
            std::future::pending::<()>().await;
        }
        ScriptAction::Signal(name) => os::signal_self(name),
        ScriptAction::Ignore(name) => os::on_signal(name, || async {}),
        ScriptAction::Spawn(spawn) => self::spawn(cx, spawn).await,
        ScriptAction::Setsid => os::setsid(),
        ScriptAction::Tty(text) => cx.save("tty", os::write_tty(&cx.text(text)).into()),
        ScriptAction::WriteFile(file) => {
            if let Err(error) = std::fs::write(cx.text(&file.path), cx.text(&file.text)) {
                complain(cx, &format!("{}: {error}", file.path)).await;
            }
        }
        ScriptAction::Allocate(bytes) => cx.stage.hoard.borrow_mut().push(os::allocate(*bytes)),
        ScriptAction::OpenFiles(count) => {
            let (files, error) = os::open_files(*count);
            cx.stage.hoard.borrow_mut().push(files);
            if let Some(error) = error {
                complain(cx, &error).await;
            }
        }
        ScriptAction::Burn(millis) => os::burn(Duration::from_millis(*millis)),
        ScriptAction::Respond(_)
        | ScriptAction::Headers(_)
        | ScriptAction::Sse(_)
        | ScriptAction::EndStream
        | ScriptAction::Disconnect => on_http(cx, action).await,
    }
    GO_ON
}

/// Actions that concern the HTTP answer; a no-op over stdio.
async fn on_http(cx: &ReactionContext, action: &ScriptAction) {
    let Sink::Http(exchange) = &cx.sink else { return };
    match action {
        ScriptAction::Respond(respond) => {
            let body = respond.body.as_ref().map(|body| template::text(body, cx));
            if respond.body.as_ref().is_some_and(|body| !body.is_string()) {
                exchange.header("content-type", "application/json");
            }
            exchange.respond(respond, body.unwrap_or_default());
        }
        ScriptAction::Headers(headers) => {
            for (name, value) in headers {
                exchange.header(name, &cx.text(value));
            }
        }
        ScriptAction::Sse(text) => exchange.event_text(&cx.text(text)).await,
        ScriptAction::EndStream => exchange.end(),
        ScriptAction::Disconnect => exchange.disconnect(),
        _ => {}
    }
}

async fn complain(cx: &ReactionContext, text: &str) {
    cx.line(StandardStream::Stderr, &format!("mock: {text}")).await;
}

async fn default(cx: &ReactionContext) {
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
    let outcome: Result<String, ScriptedRefusal> = answers::result(cx, method);
    match outcome {
        Ok(result) => cx.answer(&result).await,
        Err(refusal) => cx.refuse(&refusal.to_json().to_string()).await,
    }
}

async fn send(cx: &ReactionContext, message: &Value) {
    let text = template::json(message, cx);
    if message.get("result").is_some() || message.get("error").is_some() {
        cx.sink.answer(text).await;
    } else {
        cx.sink.message(text).await;
    }
}

async fn write(cx: &ReactionContext, write: &Write) {
    let mut bytes = Vec::new();
    for part in &write.parts {
        match part {
            ScriptPart::Text(text) => bytes.extend_from_slice(cx.text(text).as_bytes()),
            ScriptPart::Json { json } => {
                bytes.extend_from_slice(template::json(json, cx).as_bytes());
            }
            ScriptPart::Times { text, times } => {
                let unit = cx.text(text);
                bytes.reserve(unit.len() * *times as usize);
                for _ in 0..*times {
                    bytes.extend_from_slice(unit.as_bytes());
                }
            }
            ScriptPart::Hex { hex } => {
                let digits: Vec<u8> =
                    hex.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
                bytes.extend(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
            }
        }
    }
    cx.sink.bytes(write.to, &bytes, write.chunk, write.pause).await;
}

async fn notify(cx: &ReactionContext, notify: &Notify) {
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

async fn progress(cx: &ReactionContext, progress: &ScriptedProgress) -> Flow {
    let token = match &progress.token {
        Some(token) => template::json(token, cx),
        None => cx.lookup("token").unwrap_or_default().to_string(),
    };
    // Without a token no progress is sent, but the pauses between the steps are kept.
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

async fn ask(cx: &ReactionContext, ask: &HostRequest) -> Flow {
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

fn set(cx: &ReactionContext, new: &ScriptedLists) {
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

async fn wait(cx: &ReactionContext, until: Until) -> Flow {
    match until {
        Until::Cancelled => cx.cancelled.cancelled().await,
        Until::StdinClosed => cx.stage.stdin_closed.cancelled().await,
        Until::Forever => std::future::pending().await,
    }
    GO_ON
}

async fn repeat(cx: &ReactionContext, repeat: &Repeat) -> Flow {
    for index in 0..repeat.times.as_ref().map_or(u64::MAX, |times| cx.number(times)) {
        if index > 0 && repeat.every > 0 {
            cx.pause(repeat.every).await?;
        }
        run(&cx.counting(index), repeat.actions.actions()).await?;
    }
    GO_ON
}

/// Scripts never move while they are played, so the address of a `turns` identifies it.
async fn turns(cx: &ReactionContext, turns: &[Reaction]) -> Flow {
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

async fn switch(cx: &ReactionContext, switch: &Switch) -> Flow {
    let value = cx.text(&switch.on);
    match switch.cases.get(&value).or(switch.otherwise.as_ref()) {
        Some(reaction) => run(cx, reaction.actions()).await,
        None => GO_ON,
    }
}

fn background(cx: &ReactionContext, reaction: &Arc<Reaction>) {
    let (cx, reaction) = (cx.clone(), Arc::clone(reaction));
    tokio::task::spawn_local(async move { play(&cx, reaction.actions()).await });
}

async fn spawn(cx: &ReactionContext, spawn: &Spawn) {
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

/// Reacts to a request of the client as the recorded server did.
pub(crate) async fn replay(cx: &ReactionContext, recorded: &RecordedServer, request: &Value) {
    let faults = &recorded.options;
    let step = Some(recorded.step());
    if faults.die == step {
        return cx.stage.exit(1);
    }
    if faults.drop == step {
        return;
    }
    if faults.junk == step {
        cx.line(StandardStream::Stdout, "this line is no message").await;
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
            RecordedSend::Message(message) => send_again(cx, &exchange, message, request).await,
            RecordedSend::Junk(line) => cx.line(StandardStream::Stdout, line).await,
            RecordedSend::Stderr(line) => cx.line(StandardStream::Stderr, line).await,
            RecordedSend::End(Ok(code)) => return cx.stage.exit(*code),
            RecordedSend::End(Err(signal)) => return os::signal_self(signal),
        }
    }
}

/// Sends a recorded message with the current ids. Waits for the answer to a request of the server.
async fn send_again(
    cx: &ReactionContext,
    exchange: &RecordedExchange,
    message: &Value,
    request: &Value,
) {
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

// Floods: large amounts of output, as fast as possible or at a rate.

/// Bytes written at once.
const BLOCK_BYTES: usize = 64 << 10;
/// How long to wait when ahead of the rate.
const RATE_INTERVAL: Duration = Duration::from_millis(10);

/// Writes a flood. Its time limit is checked between blocks, so that no line is cut.
async fn flood(cx: &ReactionContext, flood: &ScriptedFlood) -> Flow {
    if flood.bytes > 0 {
        unbroken(cx, flood).await;
    } else {
        lines(cx, flood).await;
    }
    GO_ON
}

async fn unbroken(cx: &ReactionContext, flood: &ScriptedFlood) {
    let block = vec![b'x'; BLOCK_BYTES];
    let mut left = flood.bytes as usize;
    while left > 0 {
        let size = left.min(BLOCK_BYTES);
        cx.sink.bytes(flood.to, &block[..size], 0, 0).await;
        left -= size;
    }
}

async fn lines(cx: &ReactionContext, flood: &ScriptedFlood) {
    let begun = Instant::now();
    let most = if flood.lines > 0 { flood.lines } else { u64::MAX };
    let time = if flood.millis > 0 { Duration::from_millis(flood.millis) } else { Duration::MAX };
    let mut written = 0;
    let mut block = Vec::with_capacity(BLOCK_BYTES + 1024);
    while written < most && begun.elapsed() < time {
        let due = match flood.per_second {
            0 => most,
            rate => most.min(rate * begun.elapsed().as_millis() as u64 / 1000),
        };
        if due <= written {
            tokio::time::sleep(RATE_INTERVAL).await;
            continue;
        }
        block.clear();
        while written < due && block.len() < BLOCK_BYTES {
            line(cx, flood, written, &mut block);
            written += 1;
        }
        cx.sink.bytes(flood.to, &block, 0, 0).await;
        tokio::task::yield_now().await;
    }
}

fn line(cx: &ReactionContext, flood: &ScriptedFlood, index: u64, out: &mut Vec<u8>) {
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
