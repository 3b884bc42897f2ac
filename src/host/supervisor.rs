//! The supervisor: starts an actor per server, stops them in dependency order, and applies changed
//! configurations.
//!
//! One task, so that a reload, a shutdown and the drop of the last handle never race.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::dev::Crew;
use super::server::actor::introduction;
use super::server::command::Command;
use super::server::keeper::keep;
use super::server::lifecycle::{LifecycleInput, Next};
use super::server::mailbox::Mailbox;
use super::server::slot::{Live, Slot, Slots};
use super::shared::HostShared;
use super::{Fact, ServerState};
use base::{SafeText, ServerName};
use config::error::{Error, ErrorCode};
use config::{
    ConfigChange, McpConfig, ServerConfig, TransportConfig, cycle_in_words, dependency_cycles,
};

/// Commands to the supervisor.
pub enum SupervisorCommand {
    /// Edit the current configuration and apply it; answered when it is in use, with a token that
    /// fires when the removed servers are gone.
    Reload(Box<dyn FnOnce(&mut McpConfig) + Send>, ReplySender<CancellationToken>),
    /// Compute the effect of applying another configuration.
    Plan(Box<McpConfig>, ReplySender<ConfigChange>),
    /// Stop all servers and exit.
    Shutdown(oneshot::Sender<()>),
}

type ReplySender<T> = oneshot::Sender<Result<T, Error>>;

/// Capacity of the command channel.
pub const COMMAND_CAPACITY: usize = 8;

/// State of the supervisor task.
pub struct Supervisor {
    shared: Arc<HostShared>,
    config: McpConfig,
    actors: Arc<Actors>,
    crew: Crew,
    leaving: LeavingServer,
}

impl Supervisor {
    /// Creates a supervisor; [`Supervisor::begin`] starts the servers of `config`.
    ///
    /// # Errors
    /// [`config::error::ErrorCode::Configuration`] when a dependency is unknown, disabled or
    /// cyclic.
    pub fn new(shared: Arc<HostShared>, config: McpConfig, crew: Crew) -> Result<Self, Error> {
        check(&config)?;
        let actors = Arc::new(Actors {
            shared: Arc::downgrade(&shared),
            runtime: Handle::current(),
            tasks: Mutex::default(),
        });
        Ok(Self { shared, config, actors, crew, leaving: LeavingServer::default() })
    }

    /// Adds every server to the deck and starts it.
    pub async fn begin(&mut self) {
        self.shared.facts.record(None, loaded(&self.config)).await;
        let mut slots = Slots::new();
        for config in self.config.servers.shared_values() {
            slots.insert(config.name.clone(), self.new_slot(config));
        }
        self.shared.set_slots(slots);
        let slots = self.shared.slots();
        // Recorded in file order before anything starts, so that the first view is complete.
        for slot in slots.values() {
            self.introduce(slot).await;
        }
        self.shared.facts.flush().await;
        for slot in slots.values() {
            begin(slot);
        }
        self.follow_sources();
    }

    /// Runs until a shutdown is requested or `abandoned` fires, then stops everything.
    pub async fn run(
        mut self,
        mut orders: mpsc::Receiver<SupervisorCommand>,
        abandoned: CancellationToken,
    ) {
        let mut waiting = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = abandoned.cancelled() => break,
                order = orders.recv() => match order {
                    Some(SupervisorCommand::Reload(edit, done)) => {
                        let mut config = self.config.clone();
                        edit(&mut config);
                        let _ = done.send(self.reload(config).await);
                    }
                    Some(SupervisorCommand::Plan(config, done)) => {
                        let plan = check(&config);
                        let plan = plan.map(|()| reload_plan(&self.config, &config));
                        let _ = done.send(plan);
                    }
                    Some(SupervisorCommand::Shutdown(done)) => {
                        waiting.push(done);
                        break;
                    }
                    None => break,
                },
                Some(Ok(gone)) = self.leaving.ends.join_next(), if !self.leaving.ends.is_empty() => {
                    self.left(gone).await;
                }
            }
        }
        self.shared.facts.record(None, Fact::ShutdownBegan).await;
        let slots = self.shared.slots();
        // Those that never began have nothing to stop.
        let begun = slots.values().filter(|slot| !slot.commands.close_unopened());
        let all: Vec<ServerName> = begun.map(|slot| slot.name.clone()).collect();
        let stops =
            self.stops(&all, &LifecycleInput::Stop(Next::Leave)).into_iter().map(|(_, stop)| stop);
        let stopping = futures::future::join_all(stops);
        let leaving = std::mem::take(&mut self.leaving).all_gone();
        // Builds stop too, or one that completes now would restart its server.
        let (gone, ..) = tokio::join!(leaving, self.crew.stop(), stopping);
        for name in &gone {
            self.forget(name).await;
        }
        self.shared.facts.flush().await;
        // Answer further shutdown requests that arrived meanwhile.
        orders.close();
        while let Some(order) = orders.recv().await {
            if let SupervisorCommand::Shutdown(done) = order {
                waiting.push(done);
            }
        }
        for done in waiting {
            let _ = done.send(());
        }
    }

    /// Futures that stop and remove these servers: each waits until its dependents are gone, the
    /// others run concurrently. Lazy; callers must poll them together.
    fn stops(
        &self,
        names: &[ServerName],
        leave: &LifecycleInput,
    ) -> Vec<(ServerName, impl Future<Output = ()> + Send + use<>)> {
        let slots = self.shared.slots();
        let dependents = dependents(&self.config);
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
            let force = self.shared.force.clone();
            let leave = leave.clone();
            let stop = async move {
                let _gone = mine.drop_guard();
                for dependent in first {
                    tokio::select! {
                        () = dependent.cancelled() => {}
                        // A forced shutdown ignores the order.
                        () = force.cancelled() => {}
                    }
                }
                let (done, _) = oneshot::channel();
                let leave = Command::Control(leave, done);
                if slot.commands.close_unopened() {
                    return;
                }
                if slot.commands.send(leave).await {
                    // The actor drops its receiver when it ends, also after a panic.
                    slot.commands.closed().await;
                }
            };
            Some((name.clone(), stop))
        });
        stops.collect()
    }

    /// Updates the source watches for the current servers.
    fn follow_sources(&mut self) {
        let leaving = &self.leaving;
        self.crew.follow(&self.shared, |name| !leaving.awaits(name));
    }

    /// Applies another configuration; the returned token fires when the removed servers are gone
    /// and their replacements are starting.
    async fn reload(&mut self, config: McpConfig) -> Result<CancellationToken, Error> {
        check(&config)?;
        let done = CancellationToken::new();
        let reported: Reported = Arc::new(done.clone().drop_guard());
        // Replacements that still wait are planned again.
        for heir in self.leaving.heirs.drain(..) {
            self.config.servers.shift_remove(&heir.fresh.name);
        }
        let plan = reload_plan(&self.config, &config);
        let reason = SafeText::line("stopping: it was taken out of the configuration");
        for (name, end) in self.stops(&plan.removed, &LifecycleInput::Retire(Next::Leave, reason)) {
            if let Some(was) = self.config.servers.get(&name) {
                self.leaving.add(was.clone(), end, Arc::clone(&reported));
            }
        }
        self.config = config;
        self.shared.facts.record(None, loaded(&self.config)).await;
        for fresh in self.arrange(&plan) {
            if let Some(fresh) = self.leaving.hold_back(fresh, &reported) {
                self.bring_up(fresh).await;
            }
        }
        self.change(&plan).await;
        self.follow_sources();
        self.shared.facts.record(None, Fact::Reloaded(plan)).await;
        self.shared.facts.flush().await;
        Ok(done)
    }

    /// Handles the end of a removed server.
    async fn left(&mut self, gone: Gone) {
        self.forget(&gone.name).await;
        let heirs = self.leaving.gone(&gone.name);
        let mut reported = vec![gone.reported];
        for (fresh, of) in heirs {
            self.bring_up(fresh).await;
            reported.push(of);
        }
        self.follow_sources();
        self.shared.facts.flush().await;
        drop(reported);
    }

    /// Installs the slots of the new configuration, in file order; returns the new ones.
    fn arrange(&self, plan: &ConfigChange) -> Vec<Fresh> {
        let before = self.shared.slots();
        let mut slots = Slots::new();
        let mut fresh = Vec::new();
        let added: HashSet<&ServerName> = plan.added.iter().collect();
        for config in self.config.servers.shared_values() {
            let slot = match before.get(&config.name) {
                Some(slot) if !added.contains(&config.name) => Arc::clone(slot),
                _ => {
                    let slot = self.new_slot(config);
                    fresh.push(Arc::clone(&slot));
                    slot
                }
            };
            slots.insert(config.name.clone(), slot);
        }
        self.shared.set_slots(slots);
        fresh
    }

    /// Records the introduction of a server before its actor starts.
    async fn introduce(&self, slot: &Slot) {
        let Live { config, state, .. } = &*slot.live();
        let mut facts = vec![introduction(config)];
        if *state == ServerState::Disabled {
            let state = *state;
            facts.push(Fact::StateChanged { state, reason: None, attempt: 0, retry_at: None });
        }
        self.shared.facts.record_all(&slot.name, facts).await;
    }

    async fn bring_up(&self, slot: Fresh) {
        self.introduce(&slot).await;
        begin(&slot);
    }

    fn new_slot(&self, config: &Arc<ServerConfig>) -> Arc<Slot> {
        Arc::new_cyclic(|slot| {
            let (slot, actors) = (Weak::clone(slot), Arc::downgrade(&self.actors));
            let start = move |commands| {
                if let (Some(slot), Some(actors)) = (slot.upgrade(), actors.upgrade()) {
                    actors.start(slot, commands);
                }
            };
            Slot::new(Arc::clone(config), Mailbox::new(Box::new(start)))
        })
    }

    /// Passes its new entry to every remaining server.
    async fn change(&self, plan: &ConfigChange) {
        let slots = self.shared.slots();
        let of = |name: &ServerName| {
            Some((slots.get(name)?, Arc::clone(self.config.servers.shared(name)?)))
        };
        // Retry a server that is down when a setting that may have prevented its start changed.
        let again = plan.followed.iter().filter(|(name, fields)| {
            let down = |slot: &Arc<Slot>| slot.live().state == ServerState::Unavailable;
            fields.iter().any(|f| STARTING.contains(&f.as_str()))
                && slots.get(name).is_some_and(down)
        });
        for (name, fields) in plan.changed.iter().chain(again) {
            let Some((slot, config)) = of(name) else { continue };
            let reason = restart_reason(fields);
            slot.command(|done| Command::Reconfigure(config, reason, done)).await;
        }
        for name in &plan.kept {
            if let Some((slot, config)) = of(name)
                && slot.live().config != config
            {
                if !slot.commands.is_open() {
                    slot.publish(|live| live.config = Arc::clone(&config));
                }
                // Its actor may have begun meanwhile.
                if slot.commands.is_open() {
                    slot.command(|done| Command::Moved(config, done)).await;
                }
            }
        }
    }

    async fn forget(&self, name: &ServerName) {
        self.shared.facts.record(name, Fact::ServerRemoved).await;
        let reason = SafeText::line("the server was removed");
        self.shared.cache.invalidate(&reason, self.shared.clock.now(), |key| key.server == *name);
    }
}

/// The tasks of the servers that have begun; they end with the supervisor.
struct Actors {
    shared: Weak<HostShared>,
    runtime: Handle,
    tasks: Mutex<JoinSet<()>>,
}

impl Actors {
    fn start(&self, slot: Arc<Slot>, commands: mpsc::Receiver<Box<Command>>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(keep(shared, slot, commands), &self.runtime);
    }
}

/// Starts the actor of a server, unless it is disabled: that one begins with the first command.
fn begin(slot: &Slot) {
    if !slot.live().config.disabled {
        slot.commands.open();
    }
}

fn loaded(config: &McpConfig) -> Fact {
    Fact::ConfigLoaded {
        files: config.files.clone(),
        diagnostics: config.warnings.clone(),
        order: config.servers.keys().cloned().collect(),
    }
}

// The dependency graph: checked before anything starts; determines the stop
// order.

/// Checks that every dependency exists and is enabled, and that there are no cycles. For
/// configurations built in code; those loaded from a file are already checked, with positions.
///
/// # Errors
/// [`ErrorCode::Configuration`] with the first problem; a cycle is printed in full.
pub fn check(config: &McpConfig) -> Result<(), Error> {
    for server in config.servers.values() {
        for dependency in &server.dependencies {
            let problem = match config.servers.get(dependency) {
                None => Some("which does not exist"),
                Some(found) if found.disabled && !server.disabled => Some("which is disabled"),
                Some(_) => None,
            };
            if let Some(problem) = problem {
                let message = format!("it depends on `{dependency}`, {problem}");
                return Err(Error::new(ErrorCode::Configuration, message).server(&server.name));
            }
        }
    }
    let dependencies: Vec<_> = config
        .servers
        .values()
        .map(|server| (server.name.clone(), server.dependencies.clone()))
        .collect();
    let Some(circle) = dependency_cycles(&dependencies).into_iter().next() else { return Ok(()) };
    let message = format!("dependencies form a cycle: {}", cycle_in_words(&circle));
    Err(Error::new(ErrorCode::Configuration, message).help("remove one of these dependencies"))
}

/// The direct dependents of each server.
fn dependents(config: &McpConfig) -> HashMap<ServerName, Vec<ServerName>> {
    let mut dependents: HashMap<ServerName, Vec<ServerName>> = HashMap::new();
    for server in config.servers.values() {
        for dependency in &server.dependencies {
            dependents.entry(dependency.clone()).or_default().push(server.name.clone());
        }
    }
    dependents
}

// Removed servers that are still stopping, and new ones that wait for them. Tracks the waiting
// only; does not start or stop servers.

/// Signals the end of a reload when its last clone is dropped.
type Reported = Arc<DropGuard>;

/// The removed servers that are still stopping.
#[derive(Default)]
struct LeavingServer {
    /// Tasks that end when a removed server is gone.
    ends: JoinSet<Gone>,
    /// The old entry of each, and the token that fires when it is gone.
    were: HashMap<ServerName, (ServerConfig, CancellationToken)>,
    /// New servers that wait for their predecessors, in file order.
    heirs: Vec<Heir>,
}

/// A removed server that is gone.
struct Gone {
    name: ServerName,
    /// Dropped once its removal has been recorded.
    reported: Reported,
}

/// A new server that replaces others and waits until they are gone.
struct Heir {
    fresh: Fresh,
    of: Vec<ServerName>,
    reported: Reported,
}

impl LeavingServer {
    /// Adds a removed server; `end` completes when it is gone.
    fn add(
        &mut self,
        was: ServerConfig,
        end: impl Future<Output = ()> + Send + 'static,
        reported: Reported,
    ) {
        let (name, gone) = (was.name.clone(), CancellationToken::new());
        self.were.insert(name.clone(), (was, gone.clone()));
        self.ends.spawn(async move {
            let _gone = gone.drop_guard();
            end.await;
            Gone { name, reported }
        });
    }

    /// Tokens that fire when the stopping dependents of this server are gone.
    fn dependents(&self, of: &ServerName) -> Vec<CancellationToken> {
        let needs = |(was, _): &&(ServerConfig, _)| was.dependencies.contains(of);
        self.were.values().filter(needs).map(|(_, gone)| gone.clone()).collect()
    }

    /// Holds back a new server that replaces a stopping one; otherwise returns it.
    fn hold_back(&mut self, fresh: Fresh, reported: &Reported) -> Option<Fresh> {
        let live = fresh.live();
        let takes_place_of = |was: &ServerConfig| {
            was.name == live.config.name || is_same(&was.transport, &live.config.transport)
        };
        let of = self.were.values().map(|(was, _)| was).filter(|was| takes_place_of(was));
        let of: Vec<ServerName> = of.map(|was| was.name.clone()).collect();
        if of.is_empty() {
            return Some(fresh);
        }
        self.heirs.push(Heir { fresh, of, reported: Arc::clone(reported) });
        None
    }

    /// Removes a server that is gone; returns the new servers that no longer wait for any other.
    fn gone(&mut self, name: &ServerName) -> Vec<(Fresh, Reported)> {
        self.were.remove(name);
        for heir in &mut self.heirs {
            heir.of.retain(|of| of != name);
        }
        let free = self.heirs.extract_if(.., |heir| heir.of.is_empty());
        free.map(|heir| (heir.fresh, heir.reported)).collect()
    }

    /// Waits until all stopping servers are gone; discards their replacements.
    async fn all_gone(mut self) -> Vec<ServerName> {
        self.heirs.clear();
        let mut gone = Vec::new();
        while let Some(ended) = self.ends.join_next().await {
            gone.extend(ended.map(|gone| gone.name));
        }
        gone
    }

    /// Whether a server of the deck is still waiting for its predecessors.
    fn awaits(&self, name: &ServerName) -> bool {
        self.heirs.iter().any(|heir| heir.fresh.name == *name)
    }
}

/// Whether two entries run the same server; both at once could conflict over a port or file.
fn is_same(old: &TransportConfig, now: &TransportConfig) -> bool {
    match (old, now) {
        (TransportConfig::Stdio(old), TransportConfig::Stdio(now)) => {
            old.command == now.command && old.args == now.args
        }
        (old, now) => old == now,
    }
}

// The effect of a changed configuration on each server. Pure.

/// The effect of a reload on each server; dependents of a restarted server restart too.
pub fn reload_plan(before: &McpConfig, after: &McpConfig) -> ConfigChange {
    let mut plan = ConfigChange::between(before, after);
    let dependents = dependents(after);
    let mut at = 0;
    while let Some((name, _)) = plan.changed.get(at).cloned() {
        for dependent in dependents.get(&name).into_iter().flatten() {
            if let Some(place) = plan.kept.iter().position(|kept| kept == dependent) {
                plan.kept.remove(place);
                plan.changed.push((dependent.clone(), vec![format!("dependency `{name}`")]));
            }
        }
        at += 1;
    }
    plan.followed.retain(|(name, _)| plan.kept.contains(name));
    plan
}

/// The reason of a restart, for display: the changed settings, the first three by name.
fn restart_reason(fields: &[String]) -> SafeText {
    let named =
        |field: &String| if field.contains('`') { field.clone() } else { format!("`{field}`") };
    let mut words: Vec<String> = fields.iter().take(3).map(named).collect();
    if fields.len() > 3 {
        words.push(format!("{} more", fields.len() - 3));
    }
    SafeText::line(&format!("restarting: {} changed", words.join(", ")))
}

// Applying another configuration: unchanged servers are not touched, changed and
// removed ones are drained, and a replacement waits until its predecessor is gone.
//
// The configuration is in use when `reload` returns. Removed servers may still be stopping; only
// their replacements wait for them, further reloads do not.

/// Settings that affect whether a start succeeds.
const STARTING: [&str; 4] = ["timeout", "startupTimeout", "restart", "retry"];

/// A new slot and its command receiver.
type Fresh = Arc<Slot>;

#[cfg(test)]
mod tests {
    use super::*;
    use config::{ServerConfig, StdioConfig, TransportConfig};

    pub(super) fn config(servers: &[(&str, &[&str])]) -> McpConfig {
        let stdio = StdioConfig {
            command: "server".into(),
            args: vec![],
            env: indexmap::IndexMap::default(),
            cwd: None,
            inherit_env: false,
            limits: config::ProcessLimits::default(),
        };
        let mut config = McpConfig::default();
        for (name, dependencies) in servers {
            let name = ServerName::new(name);
            let transport = TransportConfig::Stdio(stdio.clone());
            let mut server = ServerConfig::new(name.clone(), transport);
            server.dependencies = dependencies.iter().map(|name| ServerName::new(name)).collect();
            config.servers.insert(name, server);
        }
        config
    }

    #[test]
    fn a_circle_is_printed_whole_and_what_hangs_on_it_is_left_out() {
        let circle = config(&[("x", &["a"]), ("a", &["b"]), ("b", &["c"]), ("c", &["a"])]);
        let error = check(&circle).expect_err("it goes in a circle");
        assert!(error.message.ends_with(": a → b → c → a"), "{}", error.message);
        let own = check(&config(&[("a", &["a"])])).expect_err("a circle of one");
        assert!(own.message.ends_with("a → a"), "{}", own.message);
    }

    #[test]
    fn unknown_and_disabled_dependencies_are_refused() {
        let error = check(&config(&[("a", &["ghost"])])).expect_err("unknown");
        assert!(error.message.contains("`ghost`"), "{}", error.message);
        let mut disabled = config(&[("a", &["b"]), ("b", &[])]);
        disabled.servers.get_mut("b").expect("it is there").disabled = true;
        assert!(check(&disabled).is_err());
        assert_eq!(check(&config(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), Ok(()));
    }
}

#[cfg(test)]
mod reload_tests {
    use super::tests::config;
    use super::*;
    use base::ServerName;
    use base::secret::Secret;
    use config::TransportConfig;

    fn names(names: &[&str]) -> Vec<ServerName> {
        names.iter().map(|name| ServerName::new(name)).collect()
    }

    #[test]
    fn order_and_position_are_no_change_and_secrets_are_named_not_shown() {
        let before = config(&[("a", &[]), ("b", &[])]);
        let mut after = config(&[("b", &[]), ("a", &[])]);
        after.servers.get_mut("a").expect("a").at.line = 99;
        let plan = reload_plan(&before, &after);
        assert_eq!(plan.kept, names(&["b", "a"]));
        let TransportConfig::Stdio(stdio) = &mut after.servers.get_mut("a").expect("a").transport
        else {
            panic!("stdio")
        };
        stdio.env.insert("TOKEN".into(), Secret::new("hunter2"));
        stdio.args.push("-v".into());
        let plan = reload_plan(&before, &after);
        let fields = vec!["args".to_owned(), "env.TOKEN".to_owned()];
        assert_eq!(plan.changed, [(ServerName::new("a"), fields)]);
    }

    #[test]
    fn dependents_of_a_changed_server_follow_it_and_nobody_else_does() {
        let servers: [(&str, &[&str]); 4] =
            [("db", &[]), ("api", &["db"]), ("web", &["api"]), ("other", &[])];
        let before = config(&servers);
        let mut after = config(&servers);
        after.servers.get_mut("db").expect("db").disabled = true;
        let plan = reload_plan(&before, &after);
        let changed: Vec<_> = plan.changed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(changed, ["db", "api", "web"]);
        assert_eq!(plan.changed[2].1, ["dependency `api`"]);
        assert_eq!(plan.kept, names(&["other"]));
    }

    #[test]
    fn added_and_removed_servers_are_distinguished() {
        let plan = reload_plan(&config(&[("a", &[])]), &config(&[("b", &[])]));
        assert_eq!((plan.added, plan.removed), (names(&["b"]), names(&["a"])));
    }
}
