//! Keeps a server's actor running: one that panics is a fault of the host, not of the server, and
//! is begun anew like a crashed process, with the same commands and the same published side.
//!
//! Owns how often and how soon. Must not know what an actor does.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::base::SafeText;
use crate::host::approvals::queue::panic_text;
use crate::host::server::actor::Actor;
use crate::host::server::command::Command;
use crate::host::server::lifecycle::Next;
use crate::host::server::slot::Slot;
use crate::host::shared::HostShared;
use crate::host::{Fact, ServerState};

/// Pauses before an actor is begun anew; when they are used up, its server stays down.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(3)];
/// An actor that ran for this long has earned all of them again.
const PROVEN: Duration = Duration::from_secs(60);

/// Runs the actor of `slot` until its server has left the deck, or until it has failed too often.
pub async fn keep(deck: Arc<HostShared>, slot: Arc<Slot>, mut commands: mpsc::Receiver<Command>) {
    let mut desired = Next::Start;
    let mut pauses = PAUSES.iter();
    loop {
        let actor = Actor::new(&deck, &slot, &mut commands, &mut desired);
        let began = Instant::now();
        // What an actor leaves behind when it unwinds is its own; what it shares is either behind
        // locks that do not mind or published whole.
        let Err(panic) = AssertUnwindSafe(actor.run()).catch_unwind().await else { break };
        if began.elapsed() >= PROVEN {
            pauses = PAUSES.iter();
        }
        let pause = pauses.next().filter(|_| desired != Next::Leave);
        tell(&deck, &slot, &panic_text(&*panic), pause.copied()).await;
        let Some(pause) = pause else { break };
        tokio::time::sleep(*pause).await;
    }
    deck.approvals.forget(&slot.name);
    // Nobody takes commands any more: that is how others learn that it is gone.
    drop(commands);
}

/// The server is down, and everything else goes on.
async fn tell(deck: &HostShared, slot: &Slot, panic: &str, pause: Option<Duration>) {
    let task = SafeText::line(&format!("actor of {}", slot.name));
    deck.facts.record(None, Fact::TaskFailed { task, message: SafeText::line(panic) }).await;
    let reason = SafeText::line(match pause {
        Some(_) => "a fault of the host ended its task, which is begun anew; please report it",
        None => "faults of the host ended its task; restart mcpdeck, and please report them",
    });
    let retry_at = pause.map(|pause| deck.clock.now().plus(pause));
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
    deck.facts.record(&slot.name, fact).await;
}
