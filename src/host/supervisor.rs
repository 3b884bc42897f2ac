//! The supervisor: starts an actor per server, stops them in the order of their dependencies, and
//! applies changed configurations (requirements L2, L5, C8).
//!
//! One task, so that a reload, a shutdown and the end of the last handle never race.

mod graph;
mod leaving;
mod plan;
mod reload;

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::{ConfigChange, McpConfig, ServerConfig};
use crate::error::Error;
use crate::host::approvals::queue::panic_text;
use crate::host::dev::Crew;
use crate::host::server::actor::steps::introduction;
use crate::host::server::command::{COMMANDS, Command};
use crate::host::server::keeper::keep;
use crate::host::server::lifecycle::{Input, Next};
use crate::host::server::slot::Slot;
use crate::host::server::slot::Slots;
use crate::host::shared::Shared;
use crate::host::supervisor::leaving::Leaving;
use crate::host::{Fact, ServerState};

pub use graph::check;
pub use plan::reload_plan;

/// What may be asked of the supervisor.
pub enum Order {
    /// Apply another configuration; answered when it is in use, with what fires when the servers
    /// that were taken out are gone too.
    Reload(Box<McpConfig>, oneshot::Sender<Result<CancellationToken, Error>>),
    /// Apply the configuration there is with a change; answered as a reload.
    Edit(Box<dyn FnOnce(&mut McpConfig) + Send>, oneshot::Sender<Result<CancellationToken, Error>>),
    /// Say what applying another configuration would do.
    Plan(Box<McpConfig>, oneshot::Sender<Result<ConfigChange, Error>>),
    /// Stop everything and end.
    Shutdown(oneshot::Sender<()>),
}

/// Orders that may wait.
pub const ORDERS: usize = 8;

/// The task's state.
pub struct Supervisor {
    deck: Arc<Shared>,
    config: McpConfig,
    actors: JoinSet<()>,
    names: HashMap<Id, ServerName>,
    crew: Crew,
    leaving: Leaving,
}

impl Supervisor {
    /// A supervisor with an actor for every server of `config`; they start when this runs.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::Configuration`] when the dependencies are unknown or go in a
    /// circle.
    pub fn new(deck: Arc<Shared>, config: McpConfig, crew: Crew) -> Result<Self, Error> {
        check(&config)?;
        Ok(Self {
            deck,
            config,
            actors: JoinSet::new(),
            names: HashMap::new(),
            crew,
            leaving: Leaving::default(),
        })
    }

    /// Puts every server into the deck and starts it.
    pub async fn begin(&mut self) {
        let fact = loaded(&self.config);
        self.deck.facts.record(fact).await;
        let mut slots = Slots::new();
        let mut actors = Vec::new();
        for config in self.config.servers.values() {
            let (slot, commands) = new_slot(config);
            slots.insert(config.name.clone(), Arc::clone(&slot));
            actors.push((slot, commands));
        }
        self.deck.set_slots(slots);
        // Told in the order of the file and before anything starts: the first screen is complete.
        let facts = actors.iter().flat_map(|(slot, _)| introduce(slot)).collect();
        self.deck.facts.record_all(facts).await;
        self.deck.facts.flush().await;
        for (slot, commands) in actors {
            self.spawn(slot, commands);
        }
        self.follow_sources();
    }

    /// Runs until a shutdown is ordered or `abandoned` fires, and everything is stopped.
    pub async fn run(mut self, mut orders: mpsc::Receiver<Order>, abandoned: CancellationToken) {
        let mut waiting = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = abandoned.cancelled() => break,
                order = orders.recv() => match order {
                    Some(Order::Reload(config, done)) => {
                        let result = self.reload(*config).await;
                        let _ = done.send(result);
                    }
                    Some(Order::Edit(edit, done)) => {
                        let mut config = self.config.clone();
                        edit(&mut config);
                        let _ = done.send(self.reload(config).await);
                    }
                    Some(Order::Plan(config, done)) => {
                        let plan = check(&config);
                        let plan = plan.map(|()| reload_plan(&self.config, &config));
                        let _ = done.send(plan);
                    }
                    Some(Order::Shutdown(done)) => {
                        waiting.push(done);
                        break;
                    }
                    None => break,
                },
                Some(Ok(gone)) = self.leaving.ends.join_next(), if !self.leaving.ends.is_empty() => {
                    self.left(gone).await;
                }
                Some(ended) = self.actors.join_next_with_id(), if !self.actors.is_empty() => {
                    self.joined(ended).await;
                }
            }
        }
        self.deck.facts.record(Fact::ShutdownBegan).await;
        let all: Vec<ServerName> = self.deck.slots().keys().cloned().collect();
        let stops = self.stops(&all, &Input::Stop(Next::Leave)).into_iter().map(|(_, stop)| stop);
        let stopping = futures::future::join_all(stops);
        let leaving = std::mem::take(&mut self.leaving).all_gone();
        // Builds first, or one that ends now would restart its server.
        let (gone, ..) = tokio::join!(leaving, self.crew.stop(), stopping);
        for name in &gone {
            self.forget(name).await;
        }
        self.reap().await;
        self.deck.facts.flush().await;
        // Those who ask for the shutdown while it runs wait for the same end.
        orders.close();
        while let Some(order) = orders.recv().await {
            if let Order::Shutdown(done) = order {
                waiting.push(done);
            }
        }
        for done in waiting {
            let _ = done.send(());
        }
    }

    fn spawn(&mut self, slot: Arc<Slot>, commands: mpsc::Receiver<Command>) {
        let name = slot.name.clone();
        let task = self.actors.spawn(keep(Arc::clone(&self.deck), slot, commands));
        self.names.insert(task.id(), name);
    }

    /// The task of a server ended. It minds panics itself; what is told here must not happen.
    async fn joined(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) {
        let (id, error) = match ended {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), Some(error)),
        };
        let (Some(name), Some(error)) = (self.names.remove(&id), error) else { return };
        let message = match error.try_into_panic() {
            Ok(panic) => panic_text(&*panic),
            Err(_) => "was cancelled".to_owned(),
        };
        let task = SafeText::line(&format!("keeper of {name}"));
        let message = SafeText::line(&message);
        self.deck.facts.record(Fact::TaskFailed { task, message }).await;
    }

    /// What stops these servers for good: each as soon as those that depend on it are gone, all
    /// others at the same time. Nothing happens before they are polled, together.
    fn stops(
        &self,
        names: &[ServerName],
        leave: &Input,
    ) -> Vec<(ServerName, impl Future<Output = ()> + Send + use<>)> {
        let slots = self.deck.slots();
        let dependents = graph::dependents(&self.config);
        let gone: HashMap<&ServerName, CancellationToken> =
            names.iter().map(|name| (name, CancellationToken::new())).collect();
        let stops = names.iter().filter_map(|name| {
            let slot = Arc::clone(slots.get(name)?);
            let first: Vec<CancellationToken> = dependents
                .get(name)
                .into_iter()
                .flatten()
                .filter_map(|dependent| gone.get(dependent).cloned())
                .chain(self.leaving.dependents(name))
                .collect();
            let mine = gone[name].clone();
            let force = self.deck.force.clone();
            let leave = leave.clone();
            let stop = async move {
                let _gone = mine.drop_guard();
                for dependent in first {
                    tokio::select! {
                        () = dependent.cancelled() => {}
                        // In a hurry the order does not matter any more.
                        () = force.cancelled() => {}
                    }
                }
                let (done, _) = oneshot::channel();
                let leave = Command::Control(leave, done);
                if slot.commands.send(leave).await.is_ok() {
                    // The actor drops its end when it is done, also when it panics.
                    slot.commands.closed().await;
                }
            };
            Some((name.clone(), stop))
        });
        stops.collect()
    }

    /// Follows the sources of the servers there are now.
    fn follow_sources(&mut self) {
        let leaving = &self.leaving;
        self.crew.follow(&self.deck, |name| !leaving.awaits(name));
    }

    async fn reap(&mut self) {
        while let Some(ended) = self.actors.try_join_next_with_id() {
            self.joined(ended).await;
        }
    }
}

fn new_slot(config: &ServerConfig) -> (Arc<Slot>, mpsc::Receiver<Command>) {
    let (sender, commands) = mpsc::channel(COMMANDS);
    (Arc::new(Slot::new(Arc::new(config.clone()), sender)), commands)
}

/// What is said of a server before anything is done with it.
fn introduce(slot: &Slot) -> Vec<Fact> {
    let live = slot.live();
    let mut facts = vec![introduction(&live.config)];
    if live.state == ServerState::Disabled {
        let (server, state) = (slot.name.clone(), ServerState::Disabled);
        facts.push(Fact::StateChanged { server, state, reason: None, attempt: 0, retry_at: None });
    }
    facts
}

fn loaded(config: &McpConfig) -> Fact {
    Fact::ConfigLoaded {
        files: config.files.clone(),
        diagnostics: config.warnings.clone(),
        order: config.servers.keys().cloned().collect(),
    }
}
