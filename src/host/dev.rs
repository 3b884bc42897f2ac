//! Development mode (`dev` of an entry): rebuilds and restarts a server when its sources change.
//!
//! One task per server that has `dev.watch`, separate from its actor: a build takes long, and the
//! server keeps running meanwhile. A task that ends stops its build, so nothing outlives the host.
//! Owns the displayed state ([`DevView`]); the restart itself is done by the actor.

mod sources;
mod task;
pub(crate) mod view;

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Fact;
use crate::dev::task::Follower;
use crate::server::slot::Slot;
use crate::shared::HostShared;
use base::{LogLevel, SafeText, ServerName};
use config::{ServerConfig, changed_settings};

pub use view::{BuildEnd, BuildView, DevView};

/// The tasks that watch sources. Dropping it stops them.
#[derive(Default)]
pub struct Crew {
    /// Whether to poll instead of using file system events; `None` when `dev` is ignored.
    poll_only: Option<bool>,
    members: HashMap<ServerName, FollowedServer>,
    tasks: JoinSet<()>,
}

/// One server whose sources are watched.
struct FollowedServer {
    slot: Arc<Slot>,
    config: Arc<ServerConfig>,
    /// Stops its task when dropped.
    _stop: DropGuard,
}

impl Crew {
    /// Creates a crew without tasks; `poll_only` as in the field.
    pub fn new(poll_only: Option<bool>) -> Self {
        Self { poll_only, ..Self::default() }
    }

    /// Watches the sources of all current servers for which `there` holds. Tasks of unchanged
    /// servers keep running; those of changed or removed servers end, with their builds.
    pub fn follow(&mut self, shared: &Arc<HostShared>, there: impl Fn(&ServerName) -> bool) {
        let Some(poll_only) = self.poll_only else { return };
        while self.tasks.try_join_next().is_some() {}
        let slots = shared.slots();
        let stays = |name: &ServerName, member: &mut FollowedServer| {
            slots.get(name).is_some_and(|slot| {
                let now = &slot.live().config;
                Arc::ptr_eq(slot, &member.slot)
                    && changed_settings(&member.config, now).is_empty()
                    && member.config.at.file == now.at.file
            })
        };
        let gone = self.members.extract_if(|name, member| !stays(name, member));
        for (name, member) in gone {
            drop(member);
            if slots.contains_key(&name) && there(&name) {
                let what = SafeText::line("its sources are no longer watched");
                let (dev, level) = (None, LogLevel::Debug);
                shared.facts.post(&name, Fact::DevChanged { dev, level, what });
            }
        }
        for (name, slot) in slots.iter() {
            let config = Arc::clone(&slot.live().config);
            let wanted = config.dev.as_ref().is_some_and(|dev| !dev.watch.is_empty());
            // A server that may not run may not be built either.
            let possible = config.hold.is_none() && there(name);
            if !wanted || !possible || self.members.contains_key(name) {
                continue;
            }
            let stop = CancellationToken::new();
            self.tasks.spawn(Follower::new(shared, slot).run(poll_only, stop.clone()));
            let member =
                FollowedServer { slot: Arc::clone(slot), config, _stop: stop.drop_guard() };
            self.members.insert(name.clone(), member);
        }
    }

    /// Stops all tasks and their builds, and waits until they have ended.
    pub async fn stop(&mut self) {
        self.members.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}
