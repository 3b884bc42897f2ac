//! Keeps the policy of a running host in step with its files: grants from other windows,
//! definitions that servers change, rules that are edited. What a file said last stays in force
//! until it says something else as a whole.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::task::AbortOnDropHandle;

use super::quotas::QuotaFile;
use crate::audit::{AuditLog, AuditPlace, NoAuditPlace};
use crate::otlp::{OtlpQueue, OtlpSettings, OtlpSignal};
use crate::policy::{
    GrantStore, LOST_RULES_END, POLICY_FILE, PolicyFile, RightsFile, RulesMemory, Standing,
    granted, load_policy, of_session, state_file,
};
use base::clock::rest_after;
use base::file::read_text;
use base::notices::tell_after;
use base::watch::Fingerprint;
use base::{ServerName, Timestamp};
use config::{Environment, expand_argument};
use host::{
    AuditConfig, DEFAULT_PROFILE, Definition, Digest, Fact, Grant, GrantId, GrantKind, Grants,
    HeldTool, Host, Limits, NewGrant, OfferedNames, Origin, Pins, Policy, PolicyConfig, Principal,
    QuotaView, Rules, ServerDigests, ServerView, Unmatched, unmatched_tools,
};
use protocol::Capabilities;

/// Most profiles whose offer is told.
const MAX_OFFERS: usize = 32;
/// How often the files are polled.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// First id of the grants that exist only in a running host.
const FIRST_SESSION_GRANT: u64 = 1 << 40;
/// Largest policy that is read, in bytes.
const MAX_POLICY_BYTES: u64 = 64 << 20;
/// Most grants that exist only in a running host; the oldest gives way.
const MAX_SESSION_GRANTS: usize = 10_000;

/// Follows the files of a host's policy until the last clone of it is dropped, or until another one
/// is opened for the same host.
#[derive(Clone)]
pub struct PolicyKeeper {
    inner: Arc<KeeperInner>,
    _following: Arc<Following>,
}

/// Follows the files until dropped; a read still in progress then has no effect.
struct Following {
    inner: Arc<KeeperInner>,
    _task: AbortOnDropHandle<()>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.inner.keep_quotas();
        self.inner.state.lock().is_closed = true;
    }
}

/// The tools that the callers of a profile are offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileOffer {
    /// The profile.
    pub profile: String,
    /// How many tools.
    pub tools: usize,
    /// The size of their definitions as they are offered, in bytes of JSON.
    pub bytes: usize,
}

/// Who may do what, as a screen shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyView {
    /// All grants that hold now.
    pub grants: Vec<Grant>,
    /// Tools that are held until they are reviewed.
    pub held: Vec<HeldTool>,
    /// Limits of callers other than the user: the default profile first, then the named ones.
    pub limits: Vec<(String, Limits)>,
    /// The quotas of callers other than the user, and what is used of them today.
    #[serde(default)]
    pub quotas: Vec<QuotaView>,
    /// The profiles whose `callsPerRun` is set: it binds every run, while the default binds pages
    /// and runs that have a name.
    #[serde(default)]
    pub set_runs: Vec<String>,
    /// What the callers of each named profile are offered.
    #[serde(default)]
    pub offers: Vec<ProfileOffer>,
    /// Problems with the files, and rules that match nothing.
    pub warnings: Vec<String>,
}

struct KeeperInner {
    host: Host,
    /// Its number among those that took charge of the host's policy.
    number: u64,
    configs: Vec<PathBuf>,
    /// Whether callers other than the user may come.
    serves_others: bool,
    grants: Option<GrantStore>,
    pins: Option<RightsFile<Pins>>,
    memory: Option<RulesMemory>,
    audit_place: AuditPlace,
    environment: Environment,
    quotas: Option<QuotaFile>,
    /// Held by a look until all of it is told.
    looking: Mutex<()>,
    state: Mutex<KeeperState>,
}

#[derive(Default)]
struct KeeperState {
    /// Grants that end with a session, or with the host.
    session: Vec<Grant>,
    given: u64,
    rules: Standing<PolicyFile>,
    pins: Pins,
    /// What was recorded of each server as it is seen here.
    seen: HashSet<Observation>,
    files: Vec<Fingerprint>,
    /// The files the rules were read from last, and what they said.
    read: Option<(Vec<Fingerprint>, PolicyFile)>,
    notices: Vec<String>,
    audit: Option<Arc<AuditLog>>,
    is_closed: bool,
}

/// What a server shows of itself: its name, its digests, its instructions and its tools.
type ServerDefinitions = (ServerName, ServerDigests, String, Vec<Definition>);

/// What a server shows of itself to this program, by its digests.
#[derive(PartialEq, Eq, Hash)]
struct Observation {
    server: ServerName,
    about: ServerDigests,
    tools: Vec<Digest>,
}

impl Observation {
    fn from_definitions((server, about, _, tools): &ServerDefinitions) -> Self {
        let tools = tools.iter().map(|tool| tool.digest).collect();
        Self { server: server.clone(), about: about.clone(), tools }
    }
}

impl PolicyKeeper {
    /// Sets the policy of `host` from the files of its configuration, and follows them. It applies
    /// to every caller that it binds from when this returns. Without a file, grants hold while the
    /// host runs, and nothing has to be reviewed.
    pub async fn open(host: &Host, configs: &[PathBuf], env: &Environment) -> Self {
        Self::open_for(host, configs, env, true).await
    }

    /// Like [`PolicyKeeper::open`], for a host that only the user calls: grants and reviews are
    /// read and stored only where the policy applies to the user.
    pub async fn open_for_user(host: &Host, configs: &[PathBuf], env: &Environment) -> Self {
        Self::open_for(host, configs, env, false).await
    }

    async fn open_for(
        host: &Host,
        configs: &[PathBuf],
        env: &Environment,
        serves_others: bool,
    ) -> Self {
        let main = configs.last();
        let inner = Arc::new(KeeperInner {
            host: host.clone(),
            number: host.take_charge_of_policy(),
            configs: configs.to_vec(),
            serves_others,
            grants: main.and_then(|main| GrantStore::from_config(main, env)),
            pins: main.and_then(|main| state_file(main, env, "pins")).map(RightsFile::new),
            memory: main.and_then(|main| RulesMemory::from_config(main, env)),
            audit_place: AuditPlace::new(main.map(PathBuf::as_path), env),
            environment: env.clone(),
            quotas: main.and_then(|main| QuotaFile::for_config(main, env)),
            looking: Mutex::default(),
            state: Mutex::default(),
        });
        let facts = host.facts();
        let (mut changed, mut next) = (facts.changed(), facts.span().end);
        inner.look_async().await;
        let weak = Arc::downgrade(&inner);
        host.grant_with(Arc::new(move |new| {
            let inner = weak.upgrade();
            let granting = move || {
                let inner = inner.ok_or("no grants are kept here any more")?;
                inner.grant(new).map(|_| ())
            };
            Box::pin(async move {
                let granted = tokio::task::spawn_blocking(granting).await;
                granted.unwrap_or_else(|error| Err(error.to_string()))
            })
        }));
        let following = Arc::clone(&inner);
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(POLL_INTERVAL);
            loop {
                let news = tokio::select! {
                    _ = changed.changed() => {
                        let new = facts.read(next, usize::MAX);
                        next = new.next;
                        let is_news = |fact| matches!(fact, &Fact::Listed { .. } | &Fact::Reloaded(_));
                        new.missed > 0 || new.items.iter().any(|record| is_news(&record.fact))
                    }
                    _ = tick.tick() => {
                        following.share_quotas().await;
                        following.state.lock().files != following.files()
                    }
                };
                if news {
                    let began = Instant::now();
                    following.look_async().await;
                    // Many servers list one after the other, and each look is at all of them.
                    let rest = rest_after(began.elapsed()).min(POLL_INTERVAL);
                    tokio::time::sleep(rest).await;
                }
            }
        });
        let following = Following { inner: inner.clone(), _task: AbortOnDropHandle::new(task) };
        Self { inner, _following: Arc::new(following) }
    }

    /// Reads the files again after a change.
    pub async fn look_again(&self) {
        self.inner.look_async().await;
    }

    /// The files of grants and pins, with the kind of each.
    pub fn files(&self) -> Vec<(&'static str, PathBuf)> {
        self.inner.stores().collect()
    }

    /// Problems with the files, one sentence each. What was read before stays in force; where
    /// nothing could be read yet, only the user's own actions are permitted.
    pub fn notices(&self) -> Vec<String> {
        let state = self.inner.state.lock();
        let audit = state.audit.as_ref().and_then(|log| log.problem());
        state.notices.iter().cloned().chain(audit).collect()
    }

    /// Problems with the files ([`PolicyKeeper::notices`]), and the rules that match nothing the
    /// servers offer now.
    pub fn warnings(&self) -> Vec<String> {
        let view = self.inner.host.snapshot();
        let all = view.servers.values().map(|server| (server.name.as_str(), lists(server)));
        let rules = self.inner.host.policy().rules.unmatched(all);
        let rules = rules.into_iter().map(|unmatched| unmatched.to_string());
        let grants = self.grants();
        let grants = grants.iter().flat_map(|grant| {
            let unmatched = self.unmatched(&grant.allowed_tools);
            let unmatched =
                unmatched.into_iter().map(|unmatched| format!("{}: {unmatched}", grant.rule()));
            grant.flaws().into_iter().chain(unmatched)
        });
        self.notices().into_iter().chain(rules).chain(grants).collect()
    }

    /// The patterns of a grant that match nothing the servers offer now.
    pub fn unmatched(&self, patterns: &[String]) -> Vec<Unmatched> {
        let view = self.inner.host.snapshot();
        let offered = view.servers.values();
        let offered = offered.map(|it| OfferedNames::of_tools(it.name.clone(), lists(it)));
        unmatched_tools(patterns, &offered.collect::<Vec<_>>())
    }

    /// The time of the host, by which grants end.
    pub fn now(&self) -> Timestamp {
        self.inner.host.clock().now()
    }

    /// Adds a grant.
    ///
    /// # Errors
    /// When it cannot be stored; nothing is granted then.
    pub fn grant(&self, new: NewGrant) -> Result<Grant, String> {
        self.inner.grant(new)
    }

    /// Revokes a grant; returns it, if there was one. It has no effect any more when this returns.
    ///
    /// # Errors
    /// When it cannot be removed from the file.
    pub fn revoke(&self, id: GrantId) -> Result<Option<Grant>, String> {
        let own = {
            let mut state = self.inner.state.lock();
            let at = state.session.iter().position(|grant| grant.id == id);
            at.map(|at| state.session.remove(at))
        };
        let gone = match (own, &self.inner.grants) {
            (Some(own), _) => Some(own),
            (None, Some(grants)) => grants.revoke(id)?,
            (None, None) => None,
        };
        self.inner.look();
        Ok(gone)
    }

    /// Ends every grant of a tab or session; returns their number.
    pub fn expire_session(&self, session: &str) -> usize {
        let ends = |grant: &Grant| matches!(&grant.effect, GrantKind::Once { session: Some(own), .. } if **own == *session);
        let gone = self.inner.state.lock().session.extract_if(.., |grant| ends(grant)).count();
        self.inner.look();
        gone
    }

    /// Who may do what, as a screen shows it.
    pub fn view(&self) -> PolicyView {
        let in_force = self.inner.host.follow_policy().borrow().clone();
        let profiles = in_force.config.profiles.keys().map(String::as_str);
        let profiles = profiles.filter(|profile| *profile != DEFAULT_PROFILE);
        let limits = std::iter::once(DEFAULT_PROFILE).chain(profiles);
        let sets_run = |profile: &&str| in_force.config.sets_calls_per_run(profile);
        let named = in_force.config.profiles.keys().take(MAX_OFFERS);
        let offers = named.map(|profile| self.offer(profile)).collect();
        let set_runs = limits.clone().filter(sets_run).map(str::to_owned).collect();
        PolicyView {
            grants: self.grants(),
            held: self.held(),
            limits: limits.map(|p| (p.to_owned(), in_force.config.limits_of(p))).collect(),
            quotas: in_force.policy.rules.quotas().view(&self.inner.host.quotas().used()),
            set_runs,
            offers,
            warnings: self.warnings(),
        }
    }

    /// What the callers of a profile are offered.
    fn offer(&self, profile: &str) -> ProfileOffer {
        let caller = Principal::new(Origin::Dashboard).with_profile(profile);
        let offers = self.inner.host.offers(&caller);
        let tools = || offers.iter().flat_map(|(_, offer)| &offer.tools);
        let bytes = tools().map(|tool| tool.raw.to_string().len()).sum();
        ProfileOffer { profile: profile.to_owned(), tools: tools().count(), bytes }
    }

    /// All grants that hold now.
    pub fn grants(&self) -> Vec<Grant> {
        let now = self.inner.host.clock().now();
        let all = self.inner.host.policy();
        all.grants.all().iter().filter(|grant| !grant.is_over(now)).cloned().collect()
    }

    /// What is held of all servers, for the user to review.
    pub fn held(&self) -> Vec<HeldTool> {
        let pins = self.inner.host.policy().pins;
        let servers = self.inner.host.definitions();
        let held = servers.iter().flat_map(|(server, about, instructions, tools)| {
            pins.review(server.as_str(), about.command, instructions, tools)
        });
        held.collect()
    }

    /// Accepts a tool of a server as it was shown, or its instructions when `tool` is `None`.
    ///
    /// # Errors
    /// When it has changed since, or cannot be stored.
    pub fn accept(
        &self,
        server: &ServerName,
        tool: Option<&str>,
        shown: Digest,
    ) -> Result<(), String> {
        let servers = self.inner.host.definitions();
        let found = servers.iter().find(|(name, ..)| name == server);
        let (_, about, instructions, tools) = found.ok_or("the server is not there any more")?;
        let (name, command) = (server.as_str(), about.command);
        let changed = || "it has changed meanwhile: look again".to_owned();
        match tool {
            None if Digest::of_text(instructions) == shown => {
                self.inner.review(|pins| pins.accept_instructions(name, command, instructions))
            }
            None => Err(changed()),
            Some(tool) => {
                let now = tools.iter().find(|now| now.name == tool && now.digest == shown);
                let now = now.ok_or_else(changed)?;
                self.inner.review(|pins| pins.accept(name, command, now))
            }
        }
    }

    /// Refuses a tool of a server as it was shown, or its instructions when `tool` is `None`: it
    /// stays held.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub fn refuse(
        &self,
        server: &ServerName,
        tool: Option<&str>,
        shown: Digest,
    ) -> Result<(), String> {
        let servers = self.inner.host.definitions();
        let found = servers.iter().find(|(name, ..)| name == server);
        let (_, about, ..) = found.ok_or("the server is not there any more")?;
        self.inner.review(|pins| pins.refuse(server.as_str(), about.command, tool, shown))
    }
}

/// The lists of a server, once it has given them.
fn lists(server: &ServerView) -> Option<&Capabilities> {
    let is_known = server.state.is_callable() || *server.capabilities != Capabilities::default();
    is_known.then_some(&*server.capabilities)
}

impl KeeperInner {
    /// Runs [`KeeperInner::look`] on a thread that may block.
    async fn look_async(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        let _ = tokio::task::spawn_blocking(move || inner.look()).await;
    }

    fn grant(&self, new: NewGrant) -> Result<Grant, String> {
        let now = self.host.clock().now();
        let grant = if of_session(&new.kind) {
            let mut state = self.state.lock();
            state.given += 1;
            let grant = granted(GrantId(FIRST_SESSION_GRANT + state.given), new, now);
            if state.session.len() >= MAX_SESSION_GRANTS {
                state.session.remove(0);
            }
            state.session.push(grant.clone());
            grant
        } else {
            self.grants.as_ref().ok_or("there is no folder to keep it in")?.add(new, now)?
        };
        self.look();
        Ok(grant)
    }

    fn stores(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        let grants = self.grants.as_ref().map(|grants| ("grants", grants.path().to_owned()));
        let pins = self.pins.as_ref().map(|pins| ("pins", pins.path().to_owned()));
        grants.into_iter().chain(pins)
    }

    /// The files that may hold the rules.
    fn rules_files(&self) -> impl Iterator<Item = PathBuf> {
        let beside = |config: &PathBuf| config.with_file_name(POLICY_FILE);
        self.configs.iter().flat_map(move |config| [config.clone(), beside(config)])
    }

    /// How all files are now, those of the rules first.
    fn files(&self) -> Vec<Fingerprint> {
        let kept = self.stores().map(|(_, path)| path);
        self.rules_files().chain(kept).map(|path| Fingerprint::from_path(&path)).collect()
    }

    /// Reads all files again, records what servers offer, and sets the policy of the host. The
    /// operator is told what changed once it is in force, and has been told when this returns, also
    /// where another look found it first.
    fn look(&self) {
        let _alone = self.looking.lock();
        tell_after(|| self.look_now());
    }

    fn look_now(&self) {
        let mut state = self.state.lock();
        if state.is_closed || !self.host.is_in_charge_of_policy(self.number) {
            return;
        }
        // Taken before reading, so that a write in between counts as a change.
        let files = self.files();
        let now = self.host.clock().now();
        let mut notices = Vec::new();
        let rules = self.rules(&mut state, &files, &mut notices);
        let mut closed = rules.is_none();
        let rules = rules.unwrap_or_else(|| unusable(&self.configs, self.memory.as_ref()));
        self.audit(&mut state, &rules, &mut notices);
        let is_for_many = self.serves_others || rules.rules.applies_to_person();
        let servers = if is_for_many { self.host.definitions() } else { Vec::new() };
        let mut grants = state.session.clone();
        if let Some(store) = self.grants.as_ref().filter(|_| is_for_many) {
            let (mut kept, problem) = store.follow(now);
            let is_unbound = |kept: &Vec<Grant>| bind(&mut kept.clone(), &servers);
            if problem.is_none() && kept.as_ref().is_some_and(is_unbound) {
                match store.change(|all| bind(all, &servers)) {
                    Ok(()) => kept = store.follow(now).0,
                    Err(problem) => notices.push(problem),
                }
            }
            notices.extend(problem);
            closed |= kept.is_none();
            grants.extend(kept.unwrap_or_default());
        }
        closed |= self.record(&mut state, &servers, is_for_many, &mut notices);
        for notice in &notices {
            if !state.notices.contains(notice) {
                tracing::error!(target: "mcpdeck::policy", action = "not trusted", "{notice}");
            }
        }
        state.files = files;
        state.notices.clone_from(&notices);
        let known: Arc<[ServerName]> = self.host.snapshot().servers.keys().cloned().collect();
        rules.rules.read_for(&known);
        let policy = Policy {
            rules: rules.rules,
            grants: Arc::new(Grants::new(grants).among(known)),
            is_at_rest: false,
            pins: Arc::new(state.pins.clone()),
            closed: closed.then(|| notices.join("; ").into()),
        };
        self.host.set_policy(rules.config, policy);
        drop(state);
        self.keep_quotas();
    }

    /// Records what the servers show of themselves, and reads what was reviewed. Returns whether that
    /// cannot be used.
    fn record(
        &self,
        state: &mut KeeperState,
        servers: &[ServerDefinitions],
        is_for_many: bool,
        notices: &mut Vec<String>,
    ) -> bool {
        let seen = std::mem::take(&mut state.seen);
        // What another program sees of the same server may differ: each records what is new to itself,
        // or both would tell each other for ever that it changes back and forth.
        let observe = |pins: &mut Pins| {
            let mut news = false;
            for shown @ (server, about, instructions, tools) in servers {
                let (name, command) = (server.as_str(), about.command);
                if !seen.contains(&Observation::from_definitions(shown))
                    || !pins.has_recorded(name, command)
                {
                    news |= pins.observe(name, command, instructions, tools);
                }
            }
            news
        };
        if !is_for_many {
            state.pins = Pins::default();
            return false;
        }
        let Some(file) = &self.pins else {
            state.pins.enforced = !self.configs.is_empty();
            observe(&mut state.pins);
            state.seen = servers.iter().map(Observation::from_definitions).collect();
            return false;
        };
        let (mut kept, mut problem) = file.follow();
        // Nothing that is not stored counts as seen.
        let is_news = |kept: &Pins| observe(&mut Pins { enforced: true, ..kept.clone() });
        if problem.is_none() && kept.as_ref().is_some_and(is_news) {
            let observe = |pins: &mut Pins| {
                pins.enforced = true;
                (observe(pins), ())
            };
            match file.change(observe) {
                Ok(()) => kept = file.follow().0,
                Err(why) => problem = Some(why),
            }
        }
        if problem.is_none() {
            state.seen = servers.iter().map(Observation::from_definitions).collect();
        }
        notices.extend(problem);
        let is_closed = kept.is_none();
        state.pins = kept.unwrap_or_default();
        state.pins.enforced = true;
        is_closed
    }

    /// Whether anything is counted in quotas.
    fn has_quotas(&self) -> bool {
        self.serves_others
            && self.host.is_in_charge_of_policy(self.number)
            && !self.host.policy().rules.quotas().is_empty()
    }

    /// Keeps what is used of quotas, and takes in what other programs have used.
    fn keep_quotas(&self) {
        if let Some(file) = self.quotas.as_ref().filter(|_| self.has_quotas()) {
            file.share(self.host.quotas());
        }
    }

    /// As [`KeeperInner::keep_quotas`], in the store that replicas share, if there is one.
    async fn share_quotas(self: &Arc<Self>) {
        if !self.has_quotas() {
            return;
        }
        let counter = self.host.quotas();
        let Some(shared) = self.host.shared_limits() else {
            let inner = Arc::clone(self);
            let _ = tokio::task::spawn_blocking(move || inner.keep_quotas()).await;
            return;
        };
        let new = counter.take_new();
        match shared.add_quota_use(counter.today(), new.clone()).await {
            Ok(used) => counter.take_over(&used),
            Err(error) => {
                counter.put_back(&new);
                tracing::warn!(target: "mcpdeck::policy", action = "not shared", "{error}");
            }
        }
    }

    /// Opens the audit log that the policy asks for, and ends one that it does not ask for any more.
    fn audit(&self, state: &mut KeeperState, policy: &PolicyFile, notices: &mut Vec<String>) {
        let before = state.audit.take();
        let (Some(config), Some(path)) = (&policy.config.audit, self.audit_place.of_policy(policy))
        else {
            self.host.audit_with(None);
            return;
        };
        match path {
            Ok(path) => {
                let same = before.filter(|log| log.is_for(&path, config));
                let log = same.unwrap_or_else(|| {
                    let queue = export_of(config, &self.environment).unwrap_or_else(|problem| {
                        notices.push(format!("policy/audit/otlp: {problem}; nothing is exported"));
                        None
                    });
                    Arc::new(AuditLog::new(path, config).exported_to(queue))
                });
                self.host.audit_with(Some(log.clone()));
                log.prepare();
                state.audit = Some(log);
            }
            Err(problem) => {
                notices.push(format!("{problem}; calls cannot be audited, so they are refused"));
                self.host.audit_with(Some(Arc::new(NoAuditPlace(problem))));
            }
        }
    }

    /// The rules in force; `None` when none could be read yet.
    fn rules(
        &self,
        state: &mut KeeperState,
        files: &[Fingerprint],
        notices: &mut Vec<String>,
    ) -> Option<PolicyFile> {
        let memory = self.memory.as_ref();
        let mut forgotten = None;
        if state.rules.in_force().is_none() {
            match memory.map_or(Ok(None), RulesMemory::lost) {
                Ok(Some(lost)) => state.rules.resume(lost),
                Ok(None) => {}
                Err(problem) => forgotten = Some(problem),
            }
        }
        let read = self.read_rules(state, files);
        // Looked for after reading: what vanishes in between is lost too.
        let held = state.rules.in_force().filter(|held| !held.is_empty());
        let says_none = read.as_ref().is_ok_and(|found| found.source.is_none());
        let lost = held.filter(|held| held.source.is_some() && (says_none || held.is_lost()));
        let ends = |found: &PolicyFile| lost.is_none_or(|it| it.is_ended_by(found, &self.configs));
        let is_used = |found: &PolicyFile| found.source.is_some() && ends(found);
        let used = read.as_ref().ok().filter(|found| is_used(found));
        let named = used.or(lost).or_else(|| state.rules.in_force());
        let place = named.map_or_else(|| "the policy".to_owned(), PolicyFile::place);
        let read = match read {
            // Nobody knows whether there were rules.
            Ok(PolicyFile { source: None, .. }) if let Some(problem) = forgotten => Err(problem),
            Ok(found) => Ok(Some(found).filter(is_used)),
            Err(problems) => Err(problems.join("; ")),
        };
        let problem = state.rules.take(&place, LOST_RULES_END, read, PolicyFile::is_empty);
        if problem.is_none()
            && let (Some(memory), Some(rules)) = (memory, state.rules.in_force())
        {
            memory.keep(rules);
        }
        notices.extend(problem);
        state.rules.in_force().cloned()
    }

    /// What the files of the rules say, read again only where they have changed. `files` were looked
    /// at before.
    fn read_rules(
        &self,
        state: &mut KeeperState,
        files: &[Fingerprint],
    ) -> Result<PolicyFile, Vec<String>> {
        let sources = &files[..self.rules_files().count()];
        if let Some((known, rules)) = &state.read
            && known == sources
        {
            return Ok(rules.clone());
        }
        let read = load_policy(&self.configs);
        state.read = read.as_ref().ok().map(|rules| (sources.to_vec(), rules.clone()));
        read
    }

    /// Changes what was reviewed; `change` returns whether it could.
    fn review(&self, change: impl FnOnce(&mut Pins) -> bool) -> Result<(), String> {
        let is_done = match &self.pins {
            Some(file) => file.change(|pins| {
                let is_done = change(pins);
                (is_done, is_done)
            })?,
            None => change(&mut self.state.lock().pins),
        };
        self.look();
        let done = is_done.then_some(());
        done.ok_or_else(|| "it is not known any more what was reviewed: look again".to_owned())
    }
}

/// What is in force of a policy that cannot be used: no rule, but whether it was meant to bind the
/// user too, by its text or when it was last in force, so that it is closed to the user as well.
fn unusable(configs: &[PathBuf], memory: Option<&RulesMemory>) -> PolicyFile {
    let beside = |config: &PathBuf| config.with_file_name(super::POLICY_FILE);
    let mut texts = configs.iter().flat_map(|config| [config.clone(), beside(config)]);
    let binds = memory.is_some_and(RulesMemory::binds_user)
        || texts.any(|path| match read_text(&path, MAX_POLICY_BYTES) {
            Ok(text) => text.is_some_and(|text| mentions_user(&text)),
            // Nobody knows whom it binds.
            Err(_) => true,
        });
    let config = PolicyConfig { applies_to_person: binds, ..PolicyConfig::default() };
    let rules = Rules::compile(&config).unwrap_or_default();
    PolicyFile { config, rules: Arc::new(rules), ..PolicyFile::default() }
}

/// Whether a text that cannot be read sets `appliesToPerson` to anything but `false`.
fn mentions_user(text: &str) -> bool {
    text.split("appliesToPerson").skip(1).any(|rest| {
        let value = rest.trim_start_matches(|c: char| c.is_whitespace() || "\"':".contains(c));
        !value.starts_with("false")
    })
}

/// Binds every `ALLOW_ALWAYS` to what the servers offer, where it is not bound yet.
fn bind(grants: &mut [Grant], servers: &[ServerDefinitions]) -> bool {
    let mut changed = false;
    for (server, about, _, tools) in servers {
        let tools: BTreeMap<String, Digest> =
            tools.iter().map(|tool| (tool.name.clone(), tool.digest)).collect();
        for grant in &mut *grants {
            changed |= grant.bind(server.as_str(), about.command, &tools);
        }
    }
    changed
}

/// The queue for the collector of an audit log, if it has one.
fn export_of(config: &AuditConfig, environment: &Environment) -> Result<Option<OtlpQueue>, String> {
    let Some(text) = &config.otlp else { return Ok(None) };
    let text = expand_argument(text, environment)?;
    let wrong = |_| "the address of a collector is expected".to_owned();
    let collector = url::Url::parse(text.expose()).map_err(wrong)?;
    let signal = OtlpSignal::Logs;
    let mut settings = OtlpSettings::from_environment(Some(&collector), signal, environment)?;
    for (name, value) in &config.otlp_headers {
        let value = expand_argument(value, environment).map_err(|e| format!("{name}: {e}"))?;
        settings = settings.header(name, value)?;
    }
    OtlpQueue::to(settings).map(Some)
}
