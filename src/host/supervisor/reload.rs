//! Applying another configuration (requirement C8): what did not change is not touched, what
//! changed or left is drained, and a server that takes the place of another waits for its end.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::plan::{ReloadPlan, restart_reason};
use super::{Supervisor, check, loaded, new_slot};
use crate::config::{McpConfig, ServerName, TransportConfig};
use crate::host::deck::Slots;
use crate::host::server::actor::Command;
use crate::host::server::lifecycle::{Input, Next};
use crate::host::server::slot::Slot;
use crate::host::{Error, Fact};
use crate::text::SafeText;

/// A server that is new in the deck.
type Fresh = (Arc<Slot>, mpsc::Receiver<Command>);

impl Supervisor {
    /// Applies another configuration.
    pub(super) async fn reload(&mut self, config: McpConfig) -> Result<(), Error> {
        check(&config)?;
        let plan = ReloadPlan::between(&self.config, &config);
        let removed = SafeText::line("stopping: it was taken out of the configuration");
        let leaving = self.stop(&plan.removed, &Input::Retire(Next::Leave, removed));
        let before = std::mem::replace(&mut self.config, config);
        self.deck.facts.record(loaded(&self.config)).await;
        let fresh = self.arrange(&plan);
        let (successors, others): (Vec<Fresh>, Vec<Fresh>) =
            fresh.into_iter().partition(|(slot, _)| succeeds(slot, &before, &plan.removed));
        self.bring_up(others).await;
        self.change(&plan).await;
        leaving.await;
        self.reap().await;
        for name in &plan.removed {
            self.forget(name).await;
        }
        self.bring_up(successors).await;
        self.crew.follow(&self.deck);
        let ReloadPlan { added, removed, changed, kept } = plan;
        self.deck.facts.record(Fact::Reloaded { added, removed, changed, kept }).await;
        self.deck.facts.flush().await;
        Ok(())
    }

    /// Puts the slots of the new configuration in place, in file order; gives the new ones.
    fn arrange(&self, plan: &ReloadPlan) -> Vec<Fresh> {
        let before = self.deck.slots();
        let mut slots = Slots::new();
        let mut fresh = Vec::new();
        for config in self.config.servers.values() {
            let slot = match before.get(&config.name) {
                Some(slot) if !plan.added.contains(&config.name) => Arc::clone(slot),
                _ => {
                    let (slot, commands) = new_slot(config);
                    fresh.push((Arc::clone(&slot), commands));
                    slot
                }
            };
            slots.insert(config.name.clone(), slot);
        }
        self.deck.set_slots(slots);
        fresh
    }

    async fn bring_up(&mut self, fresh: Vec<Fresh>) {
        for (slot, commands) in fresh {
            self.introduce(&slot).await;
            self.spawn(slot, commands);
        }
    }

    /// Hands every server that stays its new entry.
    async fn change(&self, plan: &ReloadPlan) {
        let slots = self.deck.slots();
        let of = |name: &ServerName| {
            Some((slots.get(name)?, Arc::new(self.config.servers.get(name)?.clone())))
        };
        for (name, fields) in &plan.changed {
            let Some((slot, config)) = of(name) else { continue };
            let (done, taken) = oneshot::channel();
            let command = Command::Reconfigure(config, restart_reason(fields), done);
            if slot.commands.send(command).await.is_ok() {
                let _ = taken.await;
            }
        }
        for name in &plan.kept {
            if let Some((slot, config)) = of(name)
                && slot.live().config.at != config.at
            {
                let _ = slot.commands.send(Command::Moved(config)).await;
            }
        }
    }

    async fn forget(&self, name: &ServerName) {
        self.deck.facts.record(Fact::ServerRemoved { server: name.clone() }).await;
        let reason = SafeText::line("the server was removed");
        self.deck.cache.invalidate(&reason, self.deck.clock.now(), |key| key.server == *name);
    }
}

/// Whether a new server is one of the removed ones under another name. Both at once could want
/// the same port or file, so it waits for the other's end.
fn succeeds(slot: &Slot, before: &McpConfig, removed: &[ServerName]) -> bool {
    let now = &slot.live().config.transport;
    let left = removed.iter().filter_map(|name| before.servers.get(name));
    left.into_iter().any(|old| match (&old.transport, now) {
        (TransportConfig::Stdio(old), TransportConfig::Stdio(now)) => {
            old.command == now.command && old.args == now.args
        }
        (old, now) => old == now,
    })
}
