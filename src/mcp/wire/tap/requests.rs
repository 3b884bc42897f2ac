//! Requests of the server: answered by the approval queue as they were sent, or refused here before they cost
//! anything.

use std::sync::Arc;

use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::inbound::Source;
use super::record::{id_text, method_name};
use super::{Open, Tap};
use crate::config::OutsideCalls;
use crate::mcp::pending::PendingRequest;
use crate::mcp::session::ServerRequest;
use crate::mcp::traffic::{MessageKind, TrafficRecord};
use crate::mcp::{Answer, Claim, FindingKind, RequestKind};

/// Longest id of a request, in bytes: it is kept until the request is answered, and sent back.
const LONGEST_ID: usize = 1 << 10;

enum Verdict {
    Pass,
    Refuse(FindingKind, i64, String),
    Drop(FindingKind, String),
}

impl Tap {
    pub(super) fn request(
        &self,
        id: RequestId,
        method: &str,
        params: Option<Value>,
        source: &Source<'_>,
    ) {
        let name = method_name(method);
        let mut problem = self.note_all(source, &name);
        let during = self.of_task(params.as_ref()).or_else(|| self.during(source.stream));
        let verdict = self.judge(&id, method, source.raw.len());
        if let Verdict::Refuse(kind, _, message) | Verdict::Drop(kind, message) = &verdict {
            self.find(*kind, message, source.raw, Some(name.clone()));
            problem = Some(message.clone());
        }
        let call = during.as_ref().and_then(|request| request.call);
        self.record(TrafficRecord {
            method: Some(name.clone()),
            id: Some(id_text(&id)),
            call,
            problem: problem.map(|problem| self.remark(&problem)),
            ..self.came(MessageKind::Request, source.raw)
        });
        match verdict {
            Verdict::Drop(..) => return,
            Verdict::Refuse(_, code, message) => return self.reply(&id, Err((code, message))),
            Verdict::Pass if method == "ping" => return self.reply(&id, Ok(json!({}))),
            Verdict::Pass if is_of_sessions(method) => {
                return self.reply(&id, Err((-32601, method.to_owned())));
            }
            Verdict::Pass => {}
        }
        let (claim, withdrawn) = (Arc::new(Claim::default()), CancellationToken::new());
        let open = Open {
            method: name,
            bytes: source.raw.len(),
            call,
            arrived: Instant::now(),
            claim: Arc::clone(&claim),
            withdrawn: withdrawn.clone(),
        };
        self.state.lock().open.insert(id.clone(), open);
        let params = params.unwrap_or(Value::Null);
        let asked = ServerRequest {
            server: self.context.server.clone(),
            kind: kind(method, &params),
            call,
            params: Arc::new(params),
            bytes: source.raw.len(),
            deferred: false,
            input: None,
            withdrawn: withdrawn.clone(),
            claim,
        };
        // At most `limits.approvals` of these tasks live, and none longer than the session.
        if let Some(tap) = self.me.upgrade() {
            tokio::spawn(async move {
                let answer = tap.decided(asked, during, &withdrawn).await;
                match answer {
                    Some(Answer::Result(result)) => tap.reply(&id, Ok(result)),
                    Some(Answer::Refuse { code, message }) => tap.reply(&id, Err((code, message))),
                    None => {}
                }
            });
        }
    }

    /// What the approval queue says to a request; `None` when the server has taken it back or its session has
    /// ended. The clocks of the calls that wait for it stand still meanwhile.
    async fn decided(
        &self,
        asked: ServerRequest,
        during: Option<Arc<PendingRequest>>,
        taken_back: &CancellationToken,
    ) -> Option<Answer> {
        let (claim, withdrawn) = (Arc::clone(&asked.claim), CancellationToken::new());
        let on_drop = withdrawn.clone().drop_guard();
        let answer =
            self.context.approvals.ask(ServerRequest { withdrawn: withdrawn.clone(), ..asked });
        // Where it cannot be told which call asks, the clocks of all stand still: none may run out
        // while a person thinks about what may be its question.
        let waiting = during.map_or_else(|| self.in_flight(), |during| vec![during]);
        let _held: Vec<_> = waiting.iter().map(PendingRequest::hold).collect();
        let answer = async {
            tokio::pin!(answer);
            tokio::select! {
                biased;
                answer = &mut answer => answer,
                // The approval queue takes it back from the person and says what the server is told.
                () = all_given_up(&waiting) => {
                    withdrawn.cancel();
                    answer.await
                }
            }
        };
        let answer = tokio::select! {
            biased;
            () = taken_back.cancelled() => return None,
            () = self.over.cancelled() => {
                claim.withdraw("its session ended");
                return None;
            }
            answer = answer => answer,
        };
        on_drop.disarm();
        Some(answer)
    }

    fn judge(&self, id: &RequestId, method: &str, bytes: usize) -> Verdict {
        if self.over.is_cancelled() {
            let message =
                format!("`{}` was asked after its session was closed", method_name(method));
            return Verdict::Drop(FindingKind::AskedAfterClose, message);
        }
        let state = self.state.lock();
        let most = self.context.limits.approvals;
        if let RequestId::String(text) = id
            && text.len() > LONGEST_ID
        {
            let message = format!("a request with an id of {} bytes", text.len());
            return Verdict::Drop(FindingKind::Malformed, message);
        }
        if state.open.contains_key(id) {
            let message = format!("request id {} is used again while it is open", id_text(id));
            return Verdict::Drop(FindingKind::Malformed, message);
        }
        if method == "ping" {
            return Verdict::Pass;
        }
        if state.modern {
            let message =
                format!("`{}` as a request does not exist in this version", method_name(method));
            return Verdict::Refuse(FindingKind::NotAllowed, -32601, message);
        }
        // Sampling and elicitation happen nested inside other features of a server (client
        // features, sampling; spelt out as a MUST by SEP-2260): inside what somebody called. The
        // host's own requests (`initialize`, the lists, `ping`) ask for nothing that could need a
        // person, and one of them is in flight whenever a server starts. `roots/list` costs nobody
        // anything, and servers ask for it as soon as they are initialized: it passes.
        let needs_cause = matches!(method, "sampling/createMessage" | "elicitation/create");
        if needs_cause && state.calls().next().is_none() {
            // Before `initialize` is answered nobody knows what the server may ask (lifecycle,
            // initialization: "only pings and logging").
            let allowed = state.version.is_some()
                && self.context.approvals.outside_calls(&self.context.server)
                    == OutsideCalls::Allow;
            if !allowed {
                let message = format!(
                    "`{}` while no call is in flight (`approvals.outsideCalls`)",
                    method_name(method)
                );
                return Verdict::Refuse(FindingKind::NotAllowed, -32600, message);
            }
        }
        if state.open.len() >= most {
            let message = format!("more than {most} requests at once (`limits.approvals`)");
            return Verdict::Refuse(FindingKind::Flood, -32000, message);
        }
        let open: usize = state.open.values().map(|open| open.bytes).sum();
        let whole = self.context.limits.line_bytes;
        if open > 0 && open + bytes > whole {
            let message =
                format!("requests of more than {whole} bytes at once (`limits.lineBytes`)");
            return Verdict::Refuse(FindingKind::Flood, -32000, message);
        }
        Verdict::Pass
    }
}

/// Ends when nobody waits for any of these calls any more: what a server asked during them has no
/// purpose left.
async fn all_given_up(calls: &[Arc<PendingRequest>]) {
    if calls.is_empty() {
        return std::future::pending().await;
    }
    for call in calls {
        call.given_up().await;
    }
}

/// Whether a method is one of the session itself, which no application can answer.
fn is_of_sessions(method: &str) -> bool {
    matches!(method.split('/').next(), Some("initialize" | "server" | "subscriptions"))
}

/// What a request of the server is about.
pub fn kind(method: &str, params: &Value) -> RequestKind {
    match method {
        "sampling/createMessage" => RequestKind::Sampling,
        "elicitation/create" => {
            let mode = params.get("mode").and_then(Value::as_str);
            if mode == Some("url") { RequestKind::UrlElicitation } else { RequestKind::Elicitation }
        }
        "roots/list" => RequestKind::Roots,
        other => RequestKind::Other(other.to_owned()),
    }
}
