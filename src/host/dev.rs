//! Development (`dev` of an entry): when sources of a server change, it is built and restarted.
//!
//! One task per server that has `dev.watch`, beside its actor and never in it: a build takes long,
//! and the server runs on meanwhile. A task ends with its build, so nothing outlives the host.
//! Owns what people see of it ([`DevView`]); the restart itself is the actor's.

mod sources;
mod task;
pub(in crate::host) mod view;

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::base::{LogLevel, SafeText, ServerName};
use crate::config::{ServerConfig, changed_settings};
use crate::host::Fact;
use crate::host::dev::task::Follower;
use crate::host::server::slot::Slot;
use crate::host::shared::HostShared;

pub use view::{BuildEnd, BuildView, DevView};

/// The tasks that follow sources. Stops them when it is dropped.
#[derive(Default)]
pub struct Crew {
    /// Whether files are only looked at by the clock; `None` when nobody asked to act on `dev`.
    poll_only: Option<bool>,
    members: HashMap<ServerName, FollowedServer>,
    tasks: JoinSet<()>,
}

/// One server that is followed.
struct FollowedServer {
    slot: Arc<Slot>,
    config: Arc<ServerConfig>,
    /// Ends its task when it is dropped.
    _stop: DropGuard,
}

impl Crew {
    /// A crew that follows sources this way, or not at all.
    pub fn new(poll_only: Option<bool>) -> Self {
        Self { poll_only, ..Self::default() }
    }

    /// Follows the sources of the servers there are now, as far as they are `there`. A task whose
    /// server did not change goes on; one whose server did ends, and its build with it.
    pub fn follow(&mut self, deck: &Arc<HostShared>, there: impl Fn(&ServerName) -> bool) {
        let Some(poll_only) = self.poll_only else { return };
        while self.tasks.try_join_next().is_some() {}
        let slots = deck.slots();
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
                let what = SafeText::line("its sources are not watched any more");
                let (dev, level) = (None, LogLevel::Debug);
                deck.facts.post(&name, Fact::DevChanged { dev, level, what });
            }
        }
        for (name, slot) in slots.iter() {
            let config = Arc::clone(&slot.live().config);
            let wanted = config.dev.as_ref().is_some_and(|dev| !dev.watch.is_empty());
            // What may not run may not be built either.
            let possible = config.hold.is_none() && there(name);
            if !wanted || !possible || self.members.contains_key(name) {
                continue;
            }
            let stop = CancellationToken::new();
            self.tasks.spawn(Follower::new(deck, slot).run(poll_only, stop.clone()));
            let member =
                FollowedServer { slot: Arc::clone(slot), config, _stop: stop.drop_guard() };
            self.members.insert(name.clone(), member);
        }
    }

    /// Ends every task, and every build, and waits for that.
    pub async fn stop(&mut self) {
        self.members.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}
