//! Applying another configuration (requirement C8): what did not change is not touched, what
//! changed or left is drained, and a server that takes the place of another waits for its end.
//!
//! A configuration is in use when this returns; servers that were taken out may take their time to
//! end, and nobody but those that take their place waits for that: the next change least of all.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::leaving::{Gone, Told};
use super::plan::{reload_plan, restart_reason};
use super::{Supervisor, check, introduce, loaded, new_slot};
use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::{ConfigChange, McpConfig};
use crate::error::Error;
use crate::host::server::command::Command;
use crate::host::server::lifecycle::{Input, Next};
use crate::host::server::slot::Slot;
use crate::host::server::slot::Slots;
use crate::host::{Fact, ServerState};

/// Settings that decide whether and how a server comes up.
const STARTING: [&str; 4] = ["timeout", "startupTimeout", "restart", "retry"];

/// A server that is new in the deck.
pub(super) type Fresh = (Arc<Slot>, mpsc::Receiver<Command>);

impl Supervisor {
    /// Takes another configuration into use; what it gives fires when the servers that were taken
    /// out are gone, and those that took their place on their way.
    pub(super) async fn reload(&mut self, config: McpConfig) -> Result<CancellationToken, Error> {
        check(&config)?;
        let done = CancellationToken::new();
        let told: Told = Arc::new(done.clone().drop_guard());
        // Who still waits for its turn is planned anew.
        for heir in self.leaving.heirs.drain(..) {
            self.config.servers.shift_remove(&heir.fresh.0.name);
        }
        let plan = reload_plan(&self.config, &config);
        let reason = SafeText::line("stopping: it was taken out of the configuration");
        for (name, end) in self.stops(&plan.removed, &Input::Retire(Next::Leave, reason)) {
            if let Some(was) = self.config.servers.get(&name) {
                self.leaving.add(was.clone(), end, Arc::clone(&told));
            }
        }
        self.config = config;
        self.deck.facts.record(loaded(&self.config)).await;
        for fresh in self.arrange(&plan) {
            if let Some(fresh) = self.leaving.hold_back(fresh, &told) {
                self.bring_up(fresh).await;
            }
        }
        self.change(&plan).await;
        self.follow_sources();
        self.deck.facts.record(Fact::Reloaded(plan)).await;
        self.deck.facts.flush().await;
        Ok(done)
    }

    /// A server that was taken out is gone.
    pub(super) async fn left(&mut self, gone: Gone) {
        self.reap().await;
        self.forget(&gone.name).await;
        let heirs = self.leaving.gone(&gone.name);
        let mut told = vec![gone.told];
        for (fresh, of) in heirs {
            self.bring_up(fresh).await;
            told.push(of);
        }
        self.follow_sources();
        self.deck.facts.flush().await;
        drop(told);
    }

    /// Puts the slots of the new configuration in place, in file order; gives the new ones.
    fn arrange(&self, plan: &ConfigChange) -> Vec<Fresh> {
        let before = self.deck.slots();
        let mut slots = Slots::new();
        let mut fresh = Vec::new();
        let added: HashSet<&ServerName> = plan.added.iter().collect();
        for config in self.config.servers.values() {
            let slot = match before.get(&config.name) {
                Some(slot) if !added.contains(&config.name) => Arc::clone(slot),
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

    async fn bring_up(&mut self, (slot, commands): Fresh) {
        self.deck.facts.record_all(introduce(&slot)).await;
        self.spawn(slot, commands);
    }

    /// Hands every server that stays its new entry.
    async fn change(&self, plan: &ConfigChange) {
        let slots = self.deck.slots();
        let of = |name: &ServerName| {
            Some((slots.get(name)?, Arc::new(self.config.servers.get(name)?.clone())))
        };
        // One that could not be started is tried again with what may have kept it from starting.
        let again = plan.followed.iter().filter(|(name, fields)| {
            let down = |slot: &Arc<Slot>| slot.live().state == ServerState::Unavailable;
            fields.iter().any(|f| STARTING.contains(&f.as_str()))
                && slots.get(name).is_some_and(down)
        });
        for (name, fields) in plan.changed.iter().chain(again) {
            let Some((slot, config)) = of(name) else { continue };
            let (done, taken) = oneshot::channel();
            let command = Command::Reconfigure(config, restart_reason(fields), done);
            if slot.commands.send(command).await.is_ok() {
                let _ = taken.await;
            }
        }
        for name in &plan.kept {
            if let Some((slot, config)) = of(name)
                && slot.live().config != config
            {
                let (done, taken) = oneshot::channel();
                if slot.commands.send(Command::Moved(config, done)).await.is_ok() {
                    let _ = taken.await;
                }
            }
        }
    }

    pub(super) async fn forget(&self, name: &ServerName) {
        self.deck.facts.record(Fact::ServerRemoved { server: name.clone() }).await;
        let reason = SafeText::line("the server was removed");
        self.deck.cache.invalidate(&reason, self.deck.clock.now(), |key| key.server == *name);
    }
}
