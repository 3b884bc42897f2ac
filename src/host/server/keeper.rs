//! Keeps a server's actor running: a panic is a fault of the host, not of the server, and the actor
//! is restarted like a crashed process, with the same command channel and slot.
//!
//! Owns the number and timing of restarts; independent of what an actor does.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::approvals::queue::panic_text;
use crate::server::actor::Actor;
use crate::server::command::Command;
use crate::server::lifecycle::Next;
use crate::server::slot::Slot;
use crate::shared::HostShared;
use crate::{Fact, ServerState};
use base::SafeText;

/// Delays before the restarts of an actor; after the last one its server stays down.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(3)];
/// An actor that ran for this long gets all restarts again.
const STABLE_INTERVAL: Duration = Duration::from_secs(60);

/// Runs the actor of `slot` until its server was removed or the actor has failed too often.
pub async fn keep(
    shared: Arc<HostShared>,
    slot: Arc<Slot>,
    mut commands: mpsc::Receiver<Box<Command>>,
) {
    let mut desired = Next::Start;
    let mut pauses = PAUSES.iter();
    loop {
        // Boxed: the task waits between two actors, too.
        let actor = Actor::new(&shared, &slot, &mut commands, &mut desired);
        let running = Box::pin(actor.run());
        let began = Instant::now();
        // Unwind-safe: shared state is either behind locks that do not poison or published
        // atomically.
        let Err(panic) = AssertUnwindSafe(running).catch_unwind().await else { break };
        if began.elapsed() >= STABLE_INTERVAL {
            pauses = PAUSES.iter();
        }
        let pause = pauses.next().filter(|_| desired != Next::Leave);
        record_panic(&shared, &slot, &panic_text(&*panic), pause.copied()).await;
        let Some(pause) = pause else { break };
        tokio::time::sleep(*pause).await;
    }
    shared.approvals.forget(&slot.name);
    // Closing the channel signals that the server is gone.
    drop(commands);
}

/// Records the panic and marks the server as unavailable.
async fn record_panic(shared: &HostShared, slot: &Slot, panic: &str, pause: Option<Duration>) {
    let task = SafeText::line(&format!("actor of {}", slot.name));
    shared.facts.record(None, Fact::TaskFailed { task, message: SafeText::line(panic) }).await;
    let reason = SafeText::line(match pause {
        Some(_) => "a fault of the host ended its task, which is restarted; please report it",
        None => "faults of the host ended its task; restart mcpdeck, and please report them",
    });
    let retry_at = pause.map(|pause| shared.clock.now().plus(pause));
    slot.publish(|live| {
        live.session = None;
        live.process = None;
        live.state = ServerState::Unavailable;
        live.reason = Some(reason.clone());
        live.retry_at = retry_at;
        live.settled = pause.is_none();
    });
    let (state, reason) = (ServerState::Unavailable, Some(reason));
    let fact = Fact::StateChanged { state, reason, attempt: 0, retry_at };
    shared.facts.record(&slot.name, fact).await;
}
