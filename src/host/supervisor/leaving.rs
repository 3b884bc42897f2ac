//! Servers that were taken out of the configuration and are not gone yet, and new ones that wait for
//! their end. Owns who waits for whom; stops and starts nothing.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::reload::Fresh;
use crate::base::ServerName;
use crate::config::{ServerConfig, TransportConfig};

/// Tells whoever waits for a reload that it is done, once the last of what belongs to it is dropped.
pub(super) type Told = Arc<DropGuard>;

/// See the module.
#[derive(Default)]
pub(super) struct Leaving {
    /// The ends of those that leave.
    pub(super) ends: JoinSet<Gone>,
    /// What each of them was, and what fires when it is gone.
    were: HashMap<ServerName, (ServerConfig, CancellationToken)>,
    /// New servers that wait, in file order.
    pub(super) heirs: Vec<Heir>,
}

/// A server that is gone.
pub(super) struct Gone {
    pub(super) name: ServerName,
    /// Dropped when its end has been told.
    pub(super) told: Told,
}

/// A new server that takes the place of others and waits until they are gone.
pub(super) struct Heir {
    pub(super) fresh: Fresh,
    of: Vec<ServerName>,
    told: Told,
}

impl Leaving {
    /// A server leaves; `end` is over when it is gone.
    pub(super) fn add(
        &mut self,
        was: ServerConfig,
        end: impl Future<Output = ()> + Send + 'static,
        told: Told,
    ) {
        let (name, gone) = (was.name.clone(), CancellationToken::new());
        self.were.insert(name.clone(), (was, gone.clone()));
        self.ends.spawn(async move {
            let _gone = gone.drop_guard();
            end.await;
            Gone { name, told }
        });
    }

    /// What fires when those that leave and need this server are gone.
    pub(super) fn dependents(&self, of: &ServerName) -> Vec<CancellationToken> {
        let needs = |(was, _): &&(ServerConfig, _)| was.dependencies.contains(of);
        self.were.values().filter(needs).map(|(_, gone)| gone.clone()).collect()
    }

    /// Keeps a new server back when it takes the place of one that leaves; gives it back when not.
    pub(super) fn hold_back(&mut self, fresh: Fresh, told: &Told) -> Option<Fresh> {
        let live = fresh.0.live();
        let takes_place_of = |was: &ServerConfig| {
            was.name == live.config.name || is_same(&was.transport, &live.config.transport)
        };
        let of = self.were.values().map(|(was, _)| was).filter(|was| takes_place_of(was));
        let of = of.map(|was| was.name.clone());
        let of: Vec<ServerName> = of.collect();
        if of.is_empty() {
            return Some(fresh);
        }
        self.heirs.push(Heir { fresh, of, told: Arc::clone(told) });
        None
    }

    /// A server is gone: gives those that waited for it and for nobody else.
    pub(super) fn gone(&mut self, name: &ServerName) -> Vec<(Fresh, Told)> {
        self.were.remove(name);
        for heir in &mut self.heirs {
            heir.of.retain(|of| of != name);
        }
        let free = self.heirs.extract_if(.., |heir| heir.of.is_empty());
        free.map(|heir| (heir.fresh, heir.told)).collect()
    }

    /// Waits for the end of all that leave. Who waited for their place gets it no more.
    pub(super) async fn all_gone(mut self) -> Vec<ServerName> {
        self.heirs.clear();
        let mut gone = Vec::new();
        while let Some(ended) = self.ends.join_next().await {
            gone.extend(ended.map(|gone| gone.name));
        }
        gone
    }

    /// Whether a server of the deck only waits for its turn.
    pub(super) fn awaits(&self, name: &ServerName) -> bool {
        self.heirs.iter().any(|heir| heir.fresh.0.name == *name)
    }
}

/// Whether two entries reach the same thing. Both at once could want the same port or file.
fn is_same(old: &TransportConfig, now: &TransportConfig) -> bool {
    match (old, now) {
        (TransportConfig::Stdio(old), TransportConfig::Stdio(now)) => {
            old.command == now.command && old.args == now.args
        }
        (old, now) => old == now,
    }
}
