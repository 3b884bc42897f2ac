//! The supervisor: starts an actor per server, stops them in the order of their dependencies, and
//! applies changed configurations (requirements L2, L5, C8).
//!
//! One task, so that a reload, a shutdown and the end of the last handle never race.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::dev::Crew;
use super::server::actor::introduction;
use super::server::command::{COMMANDS, Command};
use super::server::keeper::keep;
use super::server::lifecycle::{LifecycleInput, Next};
use super::server::slot::{Live, Slot, Slots};
use super::shared::HostShared;
use super::{Fact, ServerState};
use crate::base::{SafeText, ServerName};
use crate::config::graph::{cycles, in_words};
use crate::config::{ConfigChange, McpConfig, ServerConfig, TransportConfig};
use crate::error::{Error, ErrorCode};

/// What may be asked of the supervisor.
pub enum SupervisorCommand {
    /// Apply the configuration there is with a change; answered when it is in use, with what fires
    /// when the servers that were taken out are gone too.
    Reload(Box<dyn FnOnce(&mut McpConfig) + Send>, ReplySender<CancellationToken>),
    /// Say what applying another configuration would do.
    Plan(Box<McpConfig>, ReplySender<ConfigChange>),
    /// Stop everything and end.
    Shutdown(oneshot::Sender<()>),
}

type ReplySender<T> = oneshot::Sender<Result<T, Error>>;

/// Orders that may wait.
pub const ORDERS: usize = 8;

/// The task's state.
pub struct Supervisor {
    deck: Arc<HostShared>,
    config: McpConfig,
    actors: JoinSet<()>,
    crew: Crew,
    leaving: LeavingServer,
}

impl Supervisor {
    /// A supervisor with an actor for every server of `config`; they start when this runs.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::Configuration`] when the dependencies are unknown or go in a
    /// circle.
    pub fn new(deck: Arc<HostShared>, config: McpConfig, crew: Crew) -> Result<Self, Error> {
        check(&config)?;
        Ok(Self { deck, config, actors: JoinSet::new(), crew, leaving: LeavingServer::default() })
    }

    /// Puts every server into the deck and starts it.
    pub async fn begin(&mut self) {
        self.deck.facts.record(None, loaded(&self.config)).await;
        let mut slots = Slots::new();
        let mut actors = Vec::new();
        for config in self.config.servers.values() {
            let (slot, commands) = new_slot(config);
            slots.insert(config.name.clone(), Arc::clone(&slot));
            actors.push((slot, commands));
        }
        self.deck.set_slots(slots);
        // Told in the order of the file and before anything starts: the first screen is complete.
        for (slot, _) in &actors {
            self.introduce(slot).await;
        }
        self.deck.facts.flush().await;
        for (slot, commands) in actors {
            self.actors.spawn(keep(Arc::clone(&self.deck), slot, commands));
        }
        self.follow_sources();
    }

    /// Runs until a shutdown is ordered or `abandoned` fires, and everything is stopped.
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
                Some(_) = self.actors.join_next(), if !self.actors.is_empty() => {}
            }
        }
        self.deck.facts.record(None, Fact::ShutdownBegan).await;
        let all: Vec<ServerName> = self.deck.slots().keys().cloned().collect();
        let stops =
            self.stops(&all, &LifecycleInput::Stop(Next::Leave)).into_iter().map(|(_, stop)| stop);
        let stopping = futures::future::join_all(stops);
        let leaving = std::mem::take(&mut self.leaving).all_gone();
        // Builds first, or one that ends now would restart its server.
        let (gone, ..) = tokio::join!(leaving, self.crew.stop(), stopping);
        for name in &gone {
            self.forget(name).await;
        }
        self.deck.facts.flush().await;
        // Those who ask for the shutdown while it runs wait for the same end.
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

    /// What stops these servers for good: each as soon as those that depend on it are gone, all
    /// others at the same time. Nothing happens before they are polled, together.
    fn stops(
        &self,
        names: &[ServerName],
        leave: &LifecycleInput,
    ) -> Vec<(ServerName, impl Future<Output = ()> + Send + use<>)> {
        let slots = self.deck.slots();
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

    /// Takes another configuration into use; what it gives fires when the servers that were taken
    /// out are gone, and those that took their place on their way.
    async fn reload(&mut self, config: McpConfig) -> Result<CancellationToken, Error> {
        check(&config)?;
        let done = CancellationToken::new();
        let reported: Reported = Arc::new(done.clone().drop_guard());
        // Who still waits for its turn is planned anew.
        for heir in self.leaving.heirs.drain(..) {
            self.config.servers.shift_remove(&heir.fresh.0.name);
        }
        let plan = reload_plan(&self.config, &config);
        let reason = SafeText::line("stopping: it was taken out of the configuration");
        for (name, end) in self.stops(&plan.removed, &LifecycleInput::Retire(Next::Leave, reason)) {
            if let Some(was) = self.config.servers.get(&name) {
                self.leaving.add(was.clone(), end, Arc::clone(&reported));
            }
        }
        self.config = config;
        self.deck.facts.record(None, loaded(&self.config)).await;
        for fresh in self.arrange(&plan) {
            if let Some(fresh) = self.leaving.hold_back(fresh, &reported) {
                self.bring_up(fresh).await;
            }
        }
        self.change(&plan).await;
        self.follow_sources();
        self.deck.facts.record(None, Fact::Reloaded(plan)).await;
        self.deck.facts.flush().await;
        Ok(done)
    }

    /// A server that was taken out is gone.
    async fn left(&mut self, gone: Gone) {
        self.forget(&gone.name).await;
        let heirs = self.leaving.gone(&gone.name);
        let mut reported = vec![gone.reported];
        for (fresh, of) in heirs {
            self.bring_up(fresh).await;
            reported.push(of);
        }
        self.follow_sources();
        self.deck.facts.flush().await;
        drop(reported);
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

    /// Records what a server is before anything is done with it.
    async fn introduce(&self, slot: &Slot) {
        let Live { config, state, .. } = &*slot.live();
        let mut facts = vec![introduction(config)];
        if *state == ServerState::Disabled {
            let state = *state;
            facts.push(Fact::StateChanged { state, reason: None, attempt: 0, retry_at: None });
        }
        self.deck.facts.record_all(&slot.name, facts).await;
    }

    async fn bring_up(&mut self, (slot, commands): Fresh) {
        self.introduce(&slot).await;
        self.actors.spawn(keep(Arc::clone(&self.deck), slot, commands));
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
            let reason = restart_reason(fields);
            slot.command(|done| Command::Reconfigure(config, reason, done)).await;
        }
        for name in &plan.kept {
            if let Some((slot, config)) = of(name)
                && slot.live().config != config
            {
                slot.command(|done| Command::Moved(config, done)).await;
            }
        }
    }

    async fn forget(&self, name: &ServerName) {
        self.deck.facts.record(name, Fact::ServerRemoved).await;
        let reason = SafeText::line("the server was removed");
        self.deck.cache.invalidate(&reason, self.deck.clock.now(), |key| key.server == *name);
    }
}

fn new_slot(config: &ServerConfig) -> (Arc<Slot>, mpsc::Receiver<Command>) {
    let (sender, commands) = mpsc::channel(COMMANDS);
    (Arc::new(Slot::new(Arc::new(config.clone()), sender)), commands)
}

fn loaded(config: &McpConfig) -> Fact {
    Fact::ConfigLoaded {
        files: config.files.clone(),
        diagnostics: config.warnings.clone(),
        order: config.servers.keys().cloned().collect(),
    }
}

// The graph of dependencies (requirement L2): checked before anything starts, and the order of
// stopping.

/// Checks that every dependency exists, is not disabled, and that none goes in a circle. A
/// configuration that was loaded from a file has been checked before, with positions.
///
/// # Errors
/// [`ErrorCode::Configuration`] with the first problem; a circle is printed whole.
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
    let Some(circle) = cycles(&dependencies).into_iter().next() else { return Ok(()) };
    let message = format!("dependencies form a cycle: {}", in_words(&circle));
    Err(Error::new(ErrorCode::Configuration, message).help("remove one of these dependencies"))
}

/// Who depends directly on each server.
fn dependents(config: &McpConfig) -> HashMap<ServerName, Vec<ServerName>> {
    let mut dependents: HashMap<ServerName, Vec<ServerName>> = HashMap::new();
    for server in config.servers.values() {
        for dependency in &server.dependencies {
            dependents.entry(dependency.clone()).or_default().push(server.name.clone());
        }
    }
    dependents
}

// Servers that were taken out of the configuration and are not gone yet, and new ones that wait for
// their end. Owns who waits for whom; stops and starts nothing.

/// Tells whoever waits for a reload that it is done, once the last of what belongs to it is dropped.
type Reported = Arc<DropGuard>;

/// See the module.
#[derive(Default)]
struct LeavingServer {
    /// The ends of those that leave.
    ends: JoinSet<Gone>,
    /// What each of them was, and what fires when it is gone.
    were: HashMap<ServerName, (ServerConfig, CancellationToken)>,
    /// New servers that wait, in file order.
    heirs: Vec<Heir>,
}

/// A server that is gone.
struct Gone {
    name: ServerName,
    /// Dropped when its end has been told.
    reported: Reported,
}

/// A new server that takes the place of others and waits until they are gone.
struct Heir {
    fresh: Fresh,
    of: Vec<ServerName>,
    reported: Reported,
}

impl LeavingServer {
    /// A server leaves; `end` is over when it is gone.
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

    /// What fires when those that leave and need this server are gone.
    fn dependents(&self, of: &ServerName) -> Vec<CancellationToken> {
        let needs = |(was, _): &&(ServerConfig, _)| was.dependencies.contains(of);
        self.were.values().filter(needs).map(|(_, gone)| gone.clone()).collect()
    }

    /// Keeps a new server back when it takes the place of one that leaves; gives it back when not.
    fn hold_back(&mut self, fresh: Fresh, reported: &Reported) -> Option<Fresh> {
        let live = fresh.0.live();
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

    /// A server is gone: gives those that waited for it and for nobody else.
    fn gone(&mut self, name: &ServerName) -> Vec<(Fresh, Reported)> {
        self.were.remove(name);
        for heir in &mut self.heirs {
            heir.of.retain(|of| of != name);
        }
        let free = self.heirs.extract_if(.., |heir| heir.of.is_empty());
        free.map(|heir| (heir.fresh, heir.reported)).collect()
    }

    /// Waits for the end of all that leave. Who waited for their place gets it no more.
    async fn all_gone(mut self) -> Vec<ServerName> {
        self.heirs.clear();
        let mut gone = Vec::new();
        while let Some(ended) = self.ends.join_next().await {
            gone.extend(ended.map(|gone| gone.name));
        }
        gone
    }

    /// Whether a server of the deck only waits for its turn.
    fn awaits(&self, name: &ServerName) -> bool {
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

// What a changed configuration means for each server (requirement C8). Pure.

/// What a reload does to each server: those that depend on one that restarts restart too.
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

/// Why a server restarts, in words: the settings that differ, the first three by name.
fn restart_reason(fields: &[String]) -> SafeText {
    let named =
        |field: &String| if field.contains('`') { field.clone() } else { format!("`{field}`") };
    let mut words: Vec<String> = fields.iter().take(3).map(named).collect();
    if fields.len() > 3 {
        words.push(format!("{} more", fields.len() - 3));
    }
    SafeText::line(&format!("restarting: {} changed", words.join(", ")))
}

// Applying another configuration (requirement C8): what did not change is not touched, what
// changed or left is drained, and a server that takes the place of another waits for its end.
//
// A configuration is in use when this returns; servers that were taken out may take their time to
// end, and nobody but those that take their place waits for that: the next change least of all.

/// Settings that decide whether and how a server comes up.
const STARTING: [&str; 4] = ["timeout", "startupTimeout", "restart", "retry"];

/// A server that is new in the deck.
type Fresh = (Arc<Slot>, mpsc::Receiver<Command>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ServerConfig, StdioConfig, TransportConfig};

    pub(super) fn config(servers: &[(&str, &[&str])]) -> McpConfig {
        let stdio = StdioConfig {
            command: "server".into(),
            args: vec![],
            env: indexmap::IndexMap::default(),
            cwd: None,
            inherit_env: false,
            limits: crate::config::ProcessLimits::default(),
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
    use crate::base::ServerName;
    use crate::base::secret::Secret;
    use crate::config::TransportConfig;

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
    fn added_and_removed_servers_are_told_apart() {
        let plan = reload_plan(&config(&[("a", &[])]), &config(&[("b", &[])]));
        assert_eq!((plan.added, plan.removed), (names(&["b"]), names(&["a"])));
    }
}
