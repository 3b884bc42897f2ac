//! What an attached dashboard sees of a service and asks of it. The service keeps no state for it:
//! each look says up to where the one before went.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Local, failed};
use crate::base::ServerName;
use crate::base::logs::LogRecord;
use crate::base::ring::{Batch, Ring, Weighed};
use crate::base::text::SafeText;
use crate::deck::clients::ClientView;
use crate::error::{Error, ErrorCode};
use crate::host::HostView;
use crate::host::call::CallView;
use crate::host::metrics::ServerMetrics;
use crate::host::policy::Blocked;
use crate::mcp::traffic::TrafficRecord;
use crate::mcp::{Answer, ApprovalId};

/// How long a look waits for news.
const PATIENCE: Duration = Duration::from_millis(500);
/// What is gathered after the first news: a service under load is not asked for every message.
const GATHER: Duration = Duration::from_millis(50);
/// Most records of one ring in one look.
const BATCH: usize = 2_048;

/// Up to where the look before went.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The newest fact of the view.
    pub seq: u64,
    /// The next message.
    pub traffic: u64,
    /// The next line of a log.
    pub logs: u64,
}

/// What is new since then.
#[derive(Debug, Deserialize)]
pub struct Look {
    /// The view, when it changed.
    pub view: Option<HostView>,
    /// Messages.
    pub traffic: Part<TrafficRecord>,
    /// Lines of logs.
    pub logs: Part<LogRecord>,
    /// Calls in flight.
    pub calls: Vec<CallView>,
    /// Metrics of every server.
    pub metrics: Vec<(ServerName, ServerMetrics)>,
    /// Clients of the service.
    pub clients: Vec<ClientView>,
    /// What was not permitted lately.
    pub blocked: Vec<Blocked>,
    /// Where clients come in.
    pub place: Option<SafeText>,
}

/// A part of a ring.
#[derive(Debug, Serialize, Deserialize)]
pub struct Part<T> {
    items: Vec<Arc<T>>,
    first: u64,
    next: u64,
    missed: u64,
    /// The oldest record the ring still holds.
    pub oldest: u64,
}

impl<T: Weighed + Serialize + DeserializeOwned> Part<T> {
    fn read(ring: &Ring<T>, from: u64) -> Self {
        let Batch { items, first, next, missed } = ring.read(from, BATCH);
        Self { items, first, next, missed, oldest: ring.span().start }
    }

    /// The records; nothing when there are none.
    pub fn batch(self) -> Option<Batch<T>> {
        let Self { items, first, next, missed, .. } = self;
        (!items.is_empty()).then_some(Batch { items, first, next, missed })
    }

    /// Where the next look goes on.
    pub const fn next(&self) -> u64 {
        self.next
    }
}

/// What an attached dashboard asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// Start a server.
    Start(ServerName),
    /// Stop it.
    Stop(ServerName),
    /// Stop and start it.
    Restart(ServerName),
    /// Fetch its lists again.
    Refresh(ServerName),
    /// Close its breaker, or that of a tool.
    ResetBreaker(ServerName, Option<String>),
    /// Answer a request.
    Answer(ApprovalId, Answer),
    /// Give a request more time.
    MoreTime(ApprovalId, Duration),
    /// Hold the calls of a client back, or let them go on.
    Pause(String),
    /// End the calls and streams of a client.
    Cut(String),
    /// End the token of a client.
    Revoke(String),
}

/// Waits a little for news, then tells everything there is since the look before.
pub(super) async fn look(local: &Local, request: &Value) -> Value {
    let seen: Seen = serde_json::from_value(request["seen"].clone()).unwrap_or_default();
    let host = &local.host;
    let (mut view, traffic, logs) = (host.view(), host.traffic(), host.logs());
    let (mut new_traffic, mut new_logs) = (traffic.changed(), logs.changed());
    let (behind, behind_logs) = (traffic.span().end > seen.traffic, logs.span().end > seen.logs);
    if view.borrow_and_update().seq == seen.seq && !behind && !behind_logs {
        tokio::select! {
            _ = view.changed() => {}
            _ = new_traffic.changed() => {}
            _ = new_logs.changed() => {}
            () = tokio::time::sleep(PATIENCE) => {}
        }
    }
    tokio::time::sleep(GATHER).await;
    let now = host.snapshot();
    json!({
        "view": (now.seq != seen.seq).then_some(&*now),
        "traffic": Part::read(&traffic, seen.traffic),
        "logs": Part::read(&logs, seen.logs),
        "calls": host.calls(),
        "metrics": host.get_metrics(),
        "clients": local.clients.list(),
        "blocked": host.blocked(),
        "place": local.clients.place(),
    })
}

/// Does what is asked for; `{"done": ...}` with a word about it, or why not.
pub(super) async fn order(local: &Local, request: &Value) -> Value {
    let order = Order::deserialize(&request["order"]);
    let refused = |why: String| Error::new(ErrorCode::Configuration, why);
    let done = match order {
        Ok(order) => perform(local, order).await,
        Err(error) => Err(refused(error.to_string())),
    };
    done.map_or_else(|error| failed(&error), |done| json!({ "done": done }))
}

async fn perform(local: &Local, order: Order) -> Result<Option<String>, Error> {
    let (host, clients) = (&local.host, &local.clients);
    match order {
        Order::Start(server) => host.start(&server).await?,
        Order::Stop(server) => host.stop(&server).await?,
        Order::Restart(server) => host.restart(&server).await?,
        Order::Refresh(server) => host.refresh(&server).await?,
        Order::ResetBreaker(server, tool) => host.reset_breaker(&server, tool.as_deref())?,
        Order::Answer(id, answer) => host.answer(id, answer)?,
        Order::MoreTime(id, more) => _ = host.extend_request(id, more)?,
        Order::Pause(origin) => {
            let held = clients.pause(&origin);
            let said = if held { "its calls wait" } else { "its calls go on" };
            return Ok(Some(format!("{origin}: {said}")));
        }
        Order::Cut(origin) => {
            clients.cut(&origin);
            return Ok(Some(format!("{origin}: its calls and streams were ended")));
        }
        Order::Revoke(origin) => {
            let revoked = clients.revoke(&origin);
            revoked.map_err(|why| Error::new(ErrorCode::Configuration, why))?;
            return Ok(Some(format!("{origin}: its token was revoked")));
        }
    }
    Ok(None)
}
