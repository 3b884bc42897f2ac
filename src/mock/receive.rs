//! Messages of the host: finds the reaction to each of them, and starts it.
//!
//! Everything runs on one thread; a reaction is a local task, so that one that waits does not block
//! the others.

use std::io::Write as _;
use std::rc::Rc;

use serde_json::{Value, json};

use super::play::{play, replay};
use super::script::ScriptAction;
use super::stage::{Cue, MockStage, ReactionContext, Sink};
use super::{answers, template};
use protocol::RpcCode;

/// Plays `on.WHAT` to its end, if the script has it; returns whether it has.
pub(crate) async fn event(stage: &Rc<MockStage>, what: &str, sink: &Sink) -> bool {
    let cue = Cue::On(what.to_owned());
    let Some(reaction) = stage.reaction(&cue) else { return false };
    play(&ReactionContext::new(stage, sink, None), reaction.actions()).await;
    true
}

/// Handles one line or body of the host.
pub(crate) fn receive(stage: &Rc<MockStage>, bytes: &[u8], sink: &Sink) {
    record(stage, bytes);
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Array(batch)) => {
            for message in batch {
                take(stage, message, sink);
            }
        }
        Ok(message) => take(stage, message, sink),
        Err(error) => {
            let error = json!({"code": RpcCode::PARSE_ERROR, "message": error.to_string()});
            let message = json!({"jsonrpc": "2.0", "id": null, "error": error});
            let sink = sink.clone();
            tokio::task::spawn_local(async move { sink.answer(message.to_string()).await });
        }
    }
}

fn record(stage: &MockStage, bytes: &[u8]) {
    let Some(path) = &stage.script.record else { return };
    let path = template::text(&Value::String(path.clone()), stage);
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(&[bytes, b"\n"].concat()));
}

fn take(stage: &Rc<MockStage>, message: Value, sink: &Sink) {
    match message["method"].as_str().map(str::to_owned) {
        None => answered(stage, message, sink),
        Some(method) => asked_for(stage, &method, message, sink),
    }
}

/// Handles a response of the host to one of our requests.
fn answered(stage: &Rc<MockStage>, mut message: Value, sink: &Sink) {
    let key = message["id"].to_string();
    let waiting = stage.asks.borrow_mut().remove(&key);
    if let Some(map) = message.as_object_mut() {
        map.remove("jsonrpc");
    }
    if let Some(waiting) = waiting {
        let _ = waiting.send(message.clone());
    }
    let cx = ReactionContext::new(stage, sink, Some(message));
    tokio::task::spawn_local(async move {
        if let Some(reaction) = cx.stage.reaction(&Cue::On("answer".to_owned())) {
            play(&cx, reaction.actions()).await;
        }
        cx.sink.finish(false);
    });
}

fn asked_for(stage: &Rc<MockStage>, method: &str, message: Value, sink: &Sink) {
    if method == "notifications/cancelled" {
        cancel(stage, &message["params"]["requestId"]);
    }
    let cue = cue(stage, method, &message);
    *stage.counts.borrow_mut().entry(cue.clone()).or_default() += 1;
    let key = message.get("id").map(Value::to_string);
    let mut cx = ReactionContext::new(stage, sink, Some(message));
    cx.count = stage.counts.borrow()[&cue];
    if let Some(key) = &key {
        stage.running.borrow_mut().insert(key.clone(), cx.cancelled.clone());
    }
    tokio::task::spawn_local(async move {
        match (&cx.stage.recorded, cx.stage.reaction(&cue)) {
            (Some(recorded), _) => {
                if let Some(request) = cx.request.clone().filter(|_| key.is_some()) {
                    replay(&cx, recorded, &request).await;
                }
            }
            (None, Some(reaction)) => play(&cx, reaction.actions()).await,
            (None, None) => play(&cx, &[ScriptAction::Default]).await,
        }
        if let Some(key) = &key {
            cx.stage.running.borrow_mut().remove(key);
        }
        cx.sink.finish(key.is_some());
    });
}

/// The most specific reaction there is: tool, method, then `*`.
fn cue(stage: &MockStage, method: &str, message: &Value) -> Cue {
    let params = &message["params"];
    let named = |key: &str| params[key].as_str().unwrap_or_default().to_owned();
    let particular = match method {
        "tools/call" => Some(Cue::Call(named("name"))),
        "resources/read" => Some(Cue::Read(named("uri"))),
        "prompts/get" => Some(Cue::Get(named("name"))),
        _ => None,
    };
    let exact = Cue::On(method.to_owned());
    match particular.filter(|cue| stage.reaction(cue).is_some()) {
        Some(cue) => cue,
        None if stage.reaction(&exact).is_some() || answers::knows(method) => exact,
        None => Cue::On("*".to_owned()),
    }
}

fn cancel(stage: &MockStage, id: &Value) {
    if let Some(token) = stage.running.borrow().get(&id.to_string()) {
        token.cancel();
    }
    let mut listeners = stage.listeners.borrow_mut();
    if let Some(at) = listeners.iter().position(|(listener, _)| listener == id) {
        let (id, sink) = listeners.remove(at);
        tokio::task::spawn_local(async move { sink.answer(answers::listen_end(&id)).await });
    }
}
