//! The modern subscription (2026-07-28, `subscriptions/listen`): one long request that names what
//! the host wants to hear of, opened anew when that changes or the server ends it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::live::Core;
use super::message::RpcRequest;
use crate::error::{Error, ErrorCode};
use crate::mcp::pending::PendingRequest;

/// What the host wants to hear of.
#[derive(Default)]
pub struct Subscriptions {
    uris: Mutex<BTreeSet<String>>,
    changed: Notify,
}

/// Resources one server may be asked to watch.
const MOST: usize = 1024;
/// Longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(30);
/// A subscription that lived this long was a good one.
const GOOD: Duration = Duration::from_secs(10);

impl Core {
    pub(super) fn subscribe(&self, uri: &str) -> Result<Value, Error> {
        let mut uris = self.uris();
        if uris.len() == MOST {
            return Err(Error::new(
                ErrorCode::RateLimited,
                format!("more than {MOST} subscriptions"),
            )
            .server(&self.tap.context.server));
        }
        if uris.insert(uri.to_owned()) {
            self.subscriptions.changed.notify_one();
        }
        Ok(json!({}))
    }

    pub(super) fn unsubscribe(&self, uri: &str) -> Value {
        if self.uris().remove(uri) {
            self.subscriptions.changed.notify_one();
        }
        json!({})
    }

    fn uris(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.subscriptions.uris.lock()
    }

    /// Keeps the subscription open as long as the session lives. Ends when the server has none.
    pub(super) async fn keep_listening(self: Arc<Self>) {
        let mut pause = Duration::from_secs(1);
        loop {
            let Some(filter) = self.filter() else {
                self.subscriptions.changed.notified().await;
                continue;
            };
            let params = json!({"notifications": filter});
            let rpc = RpcRequest::new("subscriptions/listen", None, Some(params));
            let own = PendingRequest::own(Duration::MAX);
            let began = tokio::time::Instant::now();
            let ended = tokio::select! {
                ended = self.round_trip(rpc, &own) => ended,
                () = self.subscriptions.changed.notified() => continue,
            };
            // The session is over, or there is no such method: nothing will ever be told.
            if let Err(error) = ended {
                let code = error.rpc.as_ref().and_then(|rpc| rpc.code);
                if error.code == ErrorCode::ServerUnavailable
                    || matches!(code, Some(-32601 | -32602))
                {
                    return;
                }
            }
            pause = if began.elapsed() > GOOD { Duration::from_secs(1) } else { pause };
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
                () = self.subscriptions.changed.notified() => {}
            }
        }
    }

    /// The filter for what the server offers and the host wants; `None` when that is nothing.
    fn filter(&self) -> Option<Value> {
        let view = self.view();
        let capabilities = &view.capabilities;
        let offers = |list: &str, what: &str| {
            capabilities.get(list).and_then(|c| c.get(what)) == Some(&Value::Bool(true))
        };
        let mut filter = Map::new();
        for (list, key) in [
            ("tools", "toolsListChanged"),
            ("prompts", "promptsListChanged"),
            ("resources", "resourcesListChanged"),
        ] {
            if offers(list, "listChanged") {
                filter.insert(key.to_owned(), true.into());
            }
        }
        let uris = self.uris();
        if !uris.is_empty() {
            filter.insert("resourceSubscriptions".to_owned(), json!(*uris));
        }
        (!filter.is_empty()).then_some(Value::Object(filter))
    }
}
