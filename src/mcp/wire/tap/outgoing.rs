//! What the host sends: requests into the table before they are written, everything into the record.

use std::sync::Arc;

use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::record::{self, Passed, method_name};
use super::{Answer, Entry, Tap};
use crate::mcp::FindingKind;
use crate::mcp::pending::PendingRequest;
use crate::mcp::session::message::RpcRequest;
use crate::mcp::traffic::{Direction, MessageKind};
use crate::mcp::transport::SendError;

impl Tap {
    /// Takes a request into the table, before it is written: gives its id, which is its progress
    /// token too, and where its answer will be.
    pub fn admit(
        &self,
        rpc: &RpcRequest,
        request: &Arc<PendingRequest>,
    ) -> (i64, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let method = method_name(&rpc.method);
        let shakes = rpc.is_handshake();
        if shakes {
            self.context.seen.asked(&rpc.method);
        }
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        if !shakes {
            state.tokens.insert(id, Arc::clone(request));
        }
        let (target, request) = (rpc.target.clone(), Arc::clone(request));
        let sent = Instant::now();
        let entry = Entry { method, target, request, token: !shakes, sent, answer };
        state.pending.insert(id, entry);
        (id, answered)
    }

    /// An admitted request is about to be written.
    pub fn asking(&self, id: i64, rpc: &RpcRequest, request: &PendingRequest, body: &[u8]) {
        self.context.bytes.sent(body.len() + 1);
        request.bytes.sent(body.len() + 1);
        self.record(Passed {
            method: Some(method_name(&rpc.method)),
            target: rpc.target.clone(),
            id: Some(record::id_text(&RequestId::Number(id))),
            call: request.call,
            queued: request.queued(),
            ..Passed::new(Direction::Out, MessageKind::Request, body)
        });
    }

    /// Queues a notification for the server.
    pub fn notify(&self, method: &str, params: Value) {
        let body = self.notification(method, params);
        self.queue(body);
    }

    /// A notification as it is about to be written.
    pub fn notification(&self, method: &str, params: Value) -> Vec<u8> {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        let body = message.to_string().into_bytes();
        self.context.bytes.sent(body.len() + 1);
        self.record(Passed {
            method: Some(method_name(method)),
            ..Passed::new(Direction::Out, MessageKind::Notification, &body)
        });
        body
    }

    /// Answers a request of the server.
    pub(super) fn reply(&self, id: &RequestId, answer: Result<Value, (i64, String)>) {
        let kind = if answer.is_ok() { MessageKind::Response } else { MessageKind::Error };
        let message = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        };
        let body = message.to_string().into_bytes();
        self.context.bytes.sent(body.len() + 1);
        let mut passed = Passed::new(Direction::Out, kind, &body);
        passed.id = Some(record::id_text(id));
        if let Some(open) = self.state().open.remove(id) {
            passed.latency = Some(open.arrived.elapsed());
            passed.method = Some(open.method);
            passed.call = open.call;
        }
        self.record(passed);
        self.queue(body);
    }

    /// Hands over what nobody waits for. A server that asks and asks, and reads no answer, is cut
    /// off; a broken pipe is told to the next request.
    fn queue(&self, body: Vec<u8>) {
        let Some(transport) = self.transport.get().and_then(std::sync::Weak::upgrade) else {
            return;
        };
        if let Err(error @ SendError::Unread(_)) = transport.queue(body)
            && !self.over.is_cancelled()
        {
            let reason = error.to_string();
            self.find(FindingKind::Flood, &reason, b"", None);
            self.ended(&reason);
        }
    }
}
