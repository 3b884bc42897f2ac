//! Requests of the server: let through as they were sent, or refused here before they cost anything.

use std::collections::VecDeque;
use std::sync::Arc;

use rmcp::model::{CustomRequest, PingRequest, RequestId, ServerJsonRpcMessage, ServerRequest};
use serde_json::Value;
use tokio::time::Instant;

use super::inbound::Source;
use super::record::{Passed, id_text, method_name};
use super::{Delivery, Expects, Open, Tap};
use crate::base::text::SafeText;
use crate::config::OutsideCalls;
use crate::mcp::Claim;
use crate::mcp::FindingKind;
use crate::mcp::traffic::MessageKind;
use crate::mcp::wire::exchange::Operation;

/// Travels with a request to the handler: what the tap knows about it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its parameters as sent.
    pub params: Arc<Value>,
    /// Size of the message.
    pub bytes: usize,
    /// The operation whose task it names, or that was alone in flight when it came.
    pub during: Option<Arc<Operation>>,
    /// Which of answer and withdrawal was first.
    pub claim: Arc<Claim>,
}

/// Travels with a request that is refused: the handler says so and does nothing else.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// JSON-RPC error code.
    pub code: i32,
    /// The reason.
    pub message: String,
}

/// Requests that wait to be refused; a server that sends more without reading gets no answer.
const UNANSWERED: usize = 1024;

/// Longest id of a request, in bytes: it is kept until the request is answered, and sent back.
const LONGEST_ID: usize = 1 << 10;

enum Verdict {
    Pass,
    Refuse(FindingKind, i32, String),
    Drop(FindingKind, String),
}

impl Tap {
    pub(super) fn request(
        &self,
        id: RequestId,
        method: String,
        params: Option<Value>,
        source: Source<'_>,
        out: &mut VecDeque<Delivery>,
    ) {
        let mut problem = self.note_all(&source, || method_name(&method));
        let during = self.of_task(params.as_ref()).or_else(|| self.during(None));
        let verdict = self.judge(&id, &method, source.raw.len());
        let name = method_name(&method);
        match &verdict {
            Verdict::Pass => {}
            Verdict::Refuse(kind, _, message) | Verdict::Drop(kind, message) => {
                self.find(*kind, message, source.raw, Some(name.clone()));
                problem = Some(message.clone());
            }
        }
        let call = during.as_ref().and_then(|operation| operation.call);
        self.record(Passed {
            method: Some(name.clone()),
            id: Some(id_text(&id)),
            call,
            problem: problem.as_deref().map(SafeText::line),
            ..Passed::came(MessageKind::Request, source.raw)
        });
        if matches!(verdict, Verdict::Drop(..)) {
            return;
        }
        let claim = Arc::new(Claim::default());
        let refused = matches!(verdict, Verdict::Refuse(..));
        let bytes = if refused { 0 } else { source.raw.len() };
        let arrived = Instant::now();
        let open = Open { method: name, bytes, call, arrived, claim: Arc::clone(&claim) };
        self.state().open.insert(id.clone(), open);
        let request = if method == "ping" && matches!(verdict, Verdict::Pass) {
            ServerRequest::PingRequest(PingRequest::default())
        } else {
            let mut request = CustomRequest::new(method, None);
            if let Verdict::Refuse(_, code, message) = verdict {
                request.extensions.insert(Refusal { code, message });
            } else {
                let params = Arc::new(params.unwrap_or(Value::Null));
                let bytes = source.raw.len();
                request.extensions.insert(Asked { params, bytes, during, claim });
            }
            ServerRequest::CustomRequest(request)
        };
        let message = ServerJsonRpcMessage::request(request, id);
        out.push_back(Delivery { message, expects: Expects::Raw });
    }

    fn judge(&self, id: &RequestId, method: &str, bytes: usize) -> Verdict {
        let state = self.state();
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
        if state.open.len() >= most + UNANSWERED {
            let message = "too many requests that wait for an answer; this one gets none";
            return Verdict::Drop(FindingKind::Flood, message.to_owned());
        }
        if method == "ping" {
            return Verdict::Pass;
        }
        if state.modern {
            let message = format!("`{}` as a request does not exist in this version", safe(method));
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
                && self.context.desk.outside_calls(&self.context.server) == OutsideCalls::Allow;
            if !allowed {
                let message = format!(
                    "`{}` while no call is in flight (`approvals.outsideCalls`)",
                    safe(method)
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

fn safe(method: &str) -> SafeText {
    method_name(method)
}
