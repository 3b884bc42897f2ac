//! What the host sends: requests into the table before they are written, everything into the record.

use std::sync::Arc;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions, GetMeta,
    JsonRpcRequest, RequestId,
};
use tokio::time::Instant;

use super::record::{self, Passed, method_name};
use super::{Entry, Expects, Tap};
use crate::base::text::SafeText;
use crate::mcp::FindingKind;
use crate::mcp::traffic::{Direction, MessageKind};
use crate::mcp::wire::exchange::Exchange;

impl Tap {
    /// A message is about to be written. Registers requests, so that their answers find them.
    pub fn sending(&self, message: &ClientJsonRpcMessage, body: &[u8]) {
        self.context.bytes.sent(body.len() + 1);
        let mut passed = Passed::new(Direction::Out, MessageKind::Notification, body);
        match message {
            ClientJsonRpcMessage::Request(request) => {
                passed.kind = MessageKind::Request;
                passed.id = Some(record::id_text(&request.id));
                let (method, exchange) = self.register(request, body.len());
                passed.method = Some(method);
                passed.target = exchange.as_ref().and_then(|e| e.target.clone());
                passed.call = exchange.as_ref().and_then(|e| e.operation.call);
            }
            ClientJsonRpcMessage::Notification(notification) => {
                passed.method = Some(method_name(notification_method(&notification.notification)));
            }
            ClientJsonRpcMessage::Response(response) => {
                passed.kind = MessageKind::Response;
                self.close_open(Some(&response.id), &mut passed);
            }
            ClientJsonRpcMessage::Error(error) => {
                passed.kind = MessageKind::Error;
                self.close_open(error.id.as_ref(), &mut passed);
            }
        }
        self.record(passed);
    }

    fn register(
        &self,
        request: &JsonRpcRequest<ClientRequest>,
        bytes: usize,
    ) -> (SafeText, Option<Arc<Exchange>>) {
        let exchange = request.request.extensions().get::<Arc<Exchange>>().cloned();
        let name = request.request.method();
        let method = exchange.as_ref().map_or_else(|| method_name(name), |e| e.method.clone());
        let expects = match name {
            "initialize" => Expects::Initialize,
            "server/discover" => Expects::Discover,
            "tools/list" => Expects::Tools,
            "subscriptions/listen" => Expects::Listen,
            _ => Expects::Raw,
        };
        if matches!(expects, Expects::Initialize | Expects::Discover) {
            self.context.seen.asked(name);
        }
        let token =
            request.request.get_meta().get_progress_token().and_then(|token| match token.0 {
                RequestId::Number(token) => Some(token),
                RequestId::String(_) => None,
            });
        if let Some(counter) = exchange.as_ref().and_then(|e| e.operation.bytes.as_ref()) {
            counter.sent(bytes + 1);
        }
        let RequestId::Number(id) = request.id else { return (method, exchange) };
        let mut state = self.state();
        if expects == Expects::Initialize {
            state.abandon_probes();
            state.handshake.failure = None;
        }
        state.next_id = state.next_id.max(id + 1);
        if let (Some(token), Some(exchange)) = (token, &exchange) {
            state.next_token = state.next_token.max(token + 1);
            state.tokens.insert(token, Arc::clone(&exchange.operation));
        }
        let entry = Entry {
            method: method.clone(),
            exchange: exchange.clone(),
            token,
            sent: Instant::now(),
            expects,
        };
        if exchange.as_ref().is_some_and(|e| e.is_given_up()) {
            state.remember(id, entry, "was cancelled");
        } else {
            state.pending.insert(id, entry);
        }
        (method, exchange)
    }

    /// Takes a request of the session into the table, before it is written; gives its id and its
    /// progress token.
    pub fn admit(&self, exchange: &Arc<Exchange>) -> (i64, i64) {
        let expects = match exchange.method.as_str() {
            "subscriptions/listen" => Expects::Listen,
            _ => Expects::Raw,
        };
        let mut state = self.state();
        let (id, token) = (state.next_id, state.next_token);
        state.next_id += 1;
        state.next_token += 1;
        state.tokens.insert(token, Arc::clone(&exchange.operation));
        let entry = Entry {
            method: exchange.method.clone(),
            exchange: Some(Arc::clone(exchange)),
            token: Some(token),
            sent: Instant::now(),
            expects,
        };
        state.pending.insert(id, entry);
        (id, token)
    }

    /// An admitted request is about to be written.
    pub fn asking(&self, id: i64, exchange: &Exchange, body: &[u8]) {
        self.context.bytes.sent(body.len() + 1);
        if let Some(counter) = &exchange.operation.bytes {
            counter.sent(body.len() + 1);
        }
        self.record(Passed {
            method: Some(exchange.method.clone()),
            target: exchange.target.clone(),
            id: Some(record::id_text(&RequestId::Number(id))),
            call: exchange.operation.call,
            ..Passed::new(Direction::Out, MessageKind::Request, body)
        });
    }

    /// The server asks and asks, and reads no answer: it is cut off.
    pub fn unread(&self, reason: &str) {
        if !self.over.is_cancelled() {
            self.find(FindingKind::Flood, reason, b"", None);
            self.ended(reason);
        }
    }

    fn close_open(&self, id: Option<&RequestId>, passed: &mut Passed<'_>) {
        let Some(id) = id else { return };
        passed.id = Some(record::id_text(id));
        if let Some(open) = self.state().open.remove(id) {
            passed.latency = Some(open.arrived.elapsed());
            passed.method = Some(open.method);
            passed.call = open.call;
        }
    }
}

const fn notification_method(notification: &ClientNotification) -> &str {
    match notification {
        ClientNotification::CancelledNotification(_) => "notifications/cancelled",
        ClientNotification::ProgressNotification(_) => "notifications/progress",
        ClientNotification::InitializedNotification(_) => "notifications/initialized",
        ClientNotification::RootsListChangedNotification(_) => "notifications/roots/list_changed",
        ClientNotification::CustomNotification(custom) => custom.method.as_str(),
        _ => "notifications/unknown",
    }
}
