//! Limits of callers other than the user: calls per run, concurrent calls, calls per minute, call
//! timeout and size of arguments; and the budgets of runs.
//!
//! Uses tokio's monotonic clock, so a jump of the wall clock has no effect.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::quotas::{MinuteClaim, QuotaHold, QuotaRefusal, QuotaUse};
use super::rules::{LimitsConfig, PolicyConfig};
use crate::call::Origin;
use crate::policy::principal::Principal;
use base::human;
use config::error::{Denial, Error, ErrorCode};

/// Limits in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Calls per run.
    pub calls_per_run: u32,
    /// Concurrent calls per origin.
    pub calls_at_once: u32,
    /// Maximum duration of a call, excluding the time spent waiting for the user; without progress
    /// where it is not set.
    pub call_timeout: Duration,
    /// Calls per minute of one tool by one origin.
    pub calls_per_minute: u32,
    /// Maximum size of the arguments, in bytes of JSON.
    pub argument_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_per_run: 5,
            calls_at_once: 2,
            call_timeout: Duration::from_secs(30),
            calls_per_minute: 60,
            argument_bytes: 1 << 20,
        }
    }
}

impl Limits {
    fn of_model() -> Self {
        let most = u32::MAX;
        Self {
            calls_per_run: most,
            calls_at_once: most,
            call_timeout: Duration::MAX,
            calls_per_minute: most,
            ..Self::default()
        }
    }

    /// Overrides these limits by the configured ones.
    #[must_use]
    pub fn with(self, config: &LimitsConfig) -> Self {
        let timeout = config.call_timeout.and_then(|s| Duration::try_from_secs_f64(s).ok());
        Self {
            calls_per_run: config.calls_per_run.unwrap_or(self.calls_per_run),
            calls_at_once: config.calls_at_once.unwrap_or(self.calls_at_once),
            call_timeout: timeout.unwrap_or(self.call_timeout),
            calls_per_minute: config.calls_per_minute.unwrap_or(self.calls_per_minute),
            argument_bytes: config.argument_bytes.unwrap_or(self.argument_bytes),
        }
    }
}

/// A run's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Number of calls allowed.
    pub calls: u32,
    /// Number of calls made.
    pub spent: u32,
}

/// The run that a call is counted in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CountedRun {
    /// The one that its caller names.
    Named(Arc<str>),
    /// Without a name: that of the caller's session, or of the caller itself, until it is idle.
    Session(Option<Arc<str>>),
}

impl CountedRun {
    /// A named run that was not ended expires after this time without a call.
    const NAMED_TIMEOUT: Duration = Duration::from_secs(3_600);
    /// A run without a name ends after this time without a call.
    const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

    /// How long it lasts without a call.
    pub const fn timeout(&self) -> Duration {
        match self {
            Self::Named(_) => Self::NAMED_TIMEOUT,
            Self::Session(_) => Self::IDLE_TIMEOUT,
        }
    }

    /// The run of a name.
    pub fn named(name: &str) -> Self {
        Self::Named(name.into())
    }
}

/// Its name in a store that several replicas share.
impl fmt::Display for CountedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "run:{name}"),
            Self::Session(session) => write!(f, "session:{}", session.as_deref().unwrap_or("")),
        }
    }
}

/// The name of a run, as an outside caller gives it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct RunId(Arc<str>);

impl RunId {
    /// Longest name, in bytes.
    const MAX_BYTES: usize = 128;

    /// Reads a name.
    ///
    /// # Errors
    /// When it is empty or too long.
    pub fn parse(name: &str) -> Result<Self, String> {
        if name.is_empty() || name.len() > Self::MAX_BYTES {
            return Err(format!("a run is named by 1 to {} bytes of text", Self::MAX_BYTES));
        }
        Ok(Self(name.into()))
    }

    /// A new name that nobody can guess.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn random() -> std::io::Result<Self> {
        Ok(Self(base::file::random_hex::<16>()?.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, for [`crate::CallOptions::run`].
    pub fn into_name(self) -> Arc<str> {
        self.0
    }

    /// What a caller is told about its run; the user's own calls are not counted.
    pub fn with(&self, principal: &Principal, budget: Budget) -> Value {
        let Budget { calls, spent } = budget;
        if principal.is_person() {
            return json!({"runId": *self.0, "calls": null, "spent": null, "left": null});
        }
        let left = calls.saturating_sub(spent);
        json!({"runId": *self.0, "calls": calls, "spent": spent, "left": left})
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::parse(&name)
    }
}

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitRefusal {
    /// The arguments are larger than this limit, in bytes.
    Arguments(usize),
    /// The origin has reached this limit of concurrent calls.
    AtOnce(u32),
    /// Too many calls per minute; how long to wait.
    PerMinute(Duration),
    /// The budget of the run is spent.
    Run {
        /// The budget.
        budget: Budget,
        /// When a run without a name ends, if there is no other call.
        ends_in: Option<Duration>,
    },
    /// This caller fills a table of counters; how long to wait.
    Full(Duration),
    /// The shared counters are unavailable; how long to wait.
    Away(Duration),
    /// A quota is used up by the callers of all processes together.
    Quota(QuotaRefusal),
}

impl LimitRefusal {
    /// The error for the caller.
    pub fn error(self) -> Error {
        let text = str::to_owned;
        let denial = matches!(self, Self::Arguments(_)).then_some(Denial::Size);
        let (code, message, retry_after) = match self {
            Self::Arguments(most) => {
                let message =
                    format!("the arguments are larger than {most} bytes; nothing was sent");
                (ErrorCode::Validation, message, None)
            }
            Self::AtOnce(most) => {
                let message =
                    format!("{most} calls of this caller are running, which is the limit");
                (ErrorCode::RateLimited, message, Some(Duration::from_secs(1)))
            }
            Self::PerMinute(wait) => (
                ErrorCode::RateLimited,
                text("too many calls of this tool in a minute"),
                Some(wait),
            ),
            Self::Run { budget: Budget { calls, .. }, ends_in: None } => {
                let calls = human::count(calls, "call");
                let message = format!("the run has made its {calls} (`callsPerRun`)");
                (ErrorCode::BudgetExceeded, message, None)
            }
            Self::Run { budget: Budget { calls, .. }, ends_in } => {
                let calls = human::count(calls, "call");
                let message = format!(
                    "the run has made its {calls} (`callsPerRun`); a new one begins with \
                     another `runId`, or after five minutes without a call"
                );
                (ErrorCode::BudgetExceeded, message, ends_in)
            }
            Self::Full(wait) => {
                let message = "too many runs or tools of this caller are counted at once";
                (ErrorCode::RateLimited, text(message), Some(wait))
            }
            Self::Away(wait) => {
                (ErrorCode::ServerUnavailable, text("calls cannot be counted now"), Some(wait))
            }
            Self::Quota(refusal) => return refusal.error(),
        };
        let mut error = Error::new(code, message);
        (error.retry_after, error.denial) = (retry_after, denial);
        error.outage = (code == ErrorCode::RateLimited).then(|| error.message.clone());
        error
    }
}

/// Time since the limiter was created, by tokio's clock.
#[derive(Clone, Debug)]
struct Ticks(Instant);

impl GovernorClock for Ticks {
    type Instant = Nanos;
    fn now(&self) -> Nanos {
        self.0.elapsed().into()
    }
}

/// A call to be counted across all replicas of a service.
#[derive(Clone, Copy, Debug)]
pub struct LimitClaim<'a> {
    /// The origin of the call.
    pub origin: &'a str,
    /// The tool, as `server.tool`.
    pub tool: &'a str,
    /// The run it belongs to, with the calls that it may make.
    pub run: Option<(&'a CountedRun, u32)>,
    /// The limits in effect.
    pub limits: &'a Limits,
    /// The quotas of a minute that it counts in.
    pub minutes: &'a [MinuteClaim],
}

/// A call's place among the concurrent calls of all replicas; dropping it releases the place.
pub type Lease = Box<dyn std::any::Any + Send + Sync>;

/// Counters shared by several processes.
pub trait SharedLimits: Send + Sync + 'static {
    /// Counts a call and admits it, or refuses it; a refused call does not count.
    fn admit<'a>(&'a self, claim: LimitClaim<'a>) -> BoxFuture<'a, Result<Lease, LimitRefusal>>;

    /// Adds what was used of quotas on a day (days since 1970-01-01 UTC); returns what all processes
    /// have used on it.
    fn add_quota_use(
        &self,
        day: u64,
        new: Vec<QuotaUse>,
    ) -> BoxFuture<'_, Result<Vec<QuotaUse>, String>>;
}

/// The calls of one origin, by tool.
type Rate = RateLimiter<Arc<str>, HashMapStateStore<Arc<str>>, Ticks, NoOpMiddleware<Nanos>>;

/// Counts calls and enforces the limits.
pub struct Limiter {
    clock: Ticks,
    inner: Mutex<LimiterInner>,
    shared: OnceLock<Arc<dyn SharedLimits>>,
}

#[derive(Default)]
struct LimiterInner {
    /// One per configured quota and origin.
    rates: HashMap<(NonZeroU32, Arc<str>), Rate>,
    under_way: HashMap<Arc<str>, u32>,
    runs: OpenRuns,
}

/// The runs of all callers. A full table takes the place of a run from whoever has most of them, so
/// that nobody keeps the others from beginning one.
#[derive(Default)]
struct OpenRuns {
    by_origin: HashMap<Arc<str>, HashMap<CountedRun, OpenRun>>,
    count: usize,
}

#[derive(Clone, Copy)]
struct OpenRun {
    budget: Budget,
    used: Instant,
}

impl OpenRun {
    /// How long it lasts if there is no other call.
    fn left(&self, run: &CountedRun) -> Duration {
        run.timeout().saturating_sub(self.used.elapsed())
    }

    /// Whether a new run in its place would have as many calls left.
    const fn is_untouched(&self) -> bool {
        self.budget.spent == 0 || self.budget.calls == u32::MAX
    }
}

impl Default for Limiter {
    fn default() -> Self {
        Self { clock: Ticks(Instant::now()), inner: Mutex::default(), shared: OnceLock::new() }
    }
}

/// An admitted call; dropping it releases its place.
pub struct Permit {
    limiter: Arc<Limiter>,
    origin: Arc<str>,
    lease: Option<Lease>,
    quota: Option<QuotaHold>,
}

impl Permit {
    /// The same, which counts in quotas too.
    #[must_use]
    pub fn counted_in(mut self, quota: Option<QuotaHold>) -> Self {
        self.quota = quota;
        self
    }

    /// Counts a result in its quotas.
    pub fn received(&self, bytes: impl FnOnce() -> usize) {
        if let Some(quota) = &self.quota {
            quota.received(bytes());
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        drop(self.lease.take());
        let mut inner = self.limiter.inner.lock();
        if let Some(count) = inner.under_way.get_mut(&self.origin) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                inner.under_way.remove(&self.origin);
            }
        }
    }
}

impl Limiter {
    /// Maximum number of runs of all callers, and of tools of one caller.
    pub const MAX_TABLE_KEYS: usize = 10_000;
    const LIMIT_WINDOW: Duration = Duration::from_secs(60);

    /// Admits or refuses a call. A refused call does not count against any limit.
    ///
    /// # Errors
    /// The limit that was reached.
    pub fn admit(
        self: &Arc<Self>,
        principal: &Principal,
        tool: &str,
        run: Option<&CountedRun>,
        (arguments, limits): (usize, &Limits),
    ) -> Result<Permit, LimitRefusal> {
        if arguments > limits.argument_bytes {
            return Err(LimitRefusal::Arguments(limits.argument_bytes));
        }
        let none = LimitRefusal::PerMinute(Self::LIMIT_WINDOW);
        let per_minute = NonZeroU32::new(limits.calls_per_minute).ok_or(none)?;
        let origin: Arc<str> = principal.origin.to_string().into();
        let mut inner = self.inner.lock();
        let under_way = inner.under_way.get(&origin).copied().unwrap_or(0);
        if under_way >= limits.calls_at_once {
            return Err(LimitRefusal::AtOnce(limits.calls_at_once));
        }
        if let Some(run) = run {
            let open = inner.runs.begin(&origin, run, limits.calls_per_run)?;
            if open.budget.spent >= open.budget.calls {
                let is_named = matches!(run, CountedRun::Named(_));
                let ends_in = (!is_named).then(|| open.left(run));
                return Err(LimitRefusal::Run { budget: open.budget, ends_in });
            }
        }
        self.rate(&mut inner, &origin, tool, per_minute)?;
        if let Some(open) = run.and_then(|run| inner.runs.get_mut(&origin, run)) {
            open.budget.spent += 1;
            open.used = Instant::now();
        }
        *inner.under_way.entry(Arc::clone(&origin)).or_default() += 1;
        Ok(Permit { limiter: Arc::clone(self), origin, lease: None, quota: None })
    }

    /// Sets the shared counters, which are checked before the local ones. A no-op if already set.
    pub fn share(&self, shared: Arc<dyn SharedLimits>) {
        let _ = self.shared.set(shared);
    }

    /// The shared counters, if there are any.
    pub fn shared(&self) -> Option<&Arc<dyn SharedLimits>> {
        self.shared.get()
    }

    /// Like [`Limiter::admit`], after checking the counters shared by replicas.
    ///
    /// # Errors
    /// The limit that was reached.
    pub async fn admit_shared(
        self: &Arc<Self>,
        principal: &Principal,
        tool: &str,
        run: Option<&CountedRun>,
        (arguments, limits): (usize, &Limits),
        minutes: &[MinuteClaim],
    ) -> Result<Permit, LimitRefusal> {
        let lease = match self.shared.get() {
            // Skip the shared counters for a call that is refused locally anyway.
            Some(shared) if arguments <= limits.argument_bytes && limits.calls_per_minute > 0 => {
                let calls = |run: &CountedRun| {
                    self.budget_of(principal, run).map_or(limits.calls_per_run, |b| b.calls)
                };
                let run = run.map(|run| (run, calls(run)));
                let origin = &principal.origin.to_string();
                Some(shared.admit(LimitClaim { origin, tool, run, limits, minutes }).await?)
            }
            _ => None,
        };
        let mut permit = self.admit(principal, tool, run, (arguments, limits))?;
        permit.lease = lease;
        Ok(permit)
    }

    fn rate(
        &self,
        inner: &mut LimiterInner,
        origin: &Arc<str>,
        tool: &str,
        quota: NonZeroU32,
    ) -> Result<(), LimitRefusal> {
        let key = (quota, Arc::clone(origin));
        if inner.rates.len() >= Self::MAX_TABLE_KEYS && !inner.rates.contains_key(&key) {
            // What has regained its full quota can be dropped.
            inner.rates.retain(|_, rate| {
                rate.retain_recent();
                !rate.is_empty()
            });
        }
        let rate = inner.rates.entry(key).or_insert_with(|| {
            RateLimiter::hashmap_with_clock(Quota::per_minute(quota), self.clock.clone())
        });
        if rate.len() >= Self::MAX_TABLE_KEYS {
            rate.retain_recent();
            if rate.len() >= Self::MAX_TABLE_KEYS {
                return Err(LimitRefusal::Full(Self::LIMIT_WINDOW));
            }
        }
        rate.check_key(&tool.into()).map_err(|until| {
            LimitRefusal::PerMinute(until.wait_time_from(GovernorClock::now(&self.clock)))
        })
    }

    /// Sets the budget of a run of this caller, instead of the default.
    ///
    /// # Errors
    /// When this caller has most of the runs that may be open.
    pub fn create_budget(
        &self,
        principal: &Principal,
        run: &str,
        calls: u32,
    ) -> Result<Budget, LimitRefusal> {
        let origin = principal.origin.to_string().into();
        let mut inner = self.inner.lock();
        let open = inner.runs.begin(&origin, &CountedRun::named(run), calls)?;
        open.budget.calls = calls;
        Ok(open.budget)
    }

    /// What a run has spent.
    pub fn budget(&self, principal: &Principal, run: &str) -> Option<Budget> {
        self.budget_of(principal, &CountedRun::named(run))
    }

    fn budget_of(&self, principal: &Principal, run: &CountedRun) -> Option<Budget> {
        let inner = self.inner.lock();
        let open = inner.runs.by_origin.get(&*principal.origin.to_string())?.get(run)?;
        (!open.left(run).is_zero()).then_some(open.budget)
    }

    /// Ends a run; returns its final budget.
    pub fn end_budget(&self, principal: &Principal, run: &str) -> Option<Budget> {
        let origin = principal.origin.to_string();
        let ended = self.inner.lock().runs.remove(&origin, &CountedRun::named(run));
        ended.map(|open| open.budget)
    }
}

impl OpenRuns {
    /// A run, which begins where it is not open.
    ///
    /// # Errors
    /// When the table is full and this caller has most of it, with no run that it could do without.
    fn begin(
        &mut self,
        origin: &Arc<str>,
        run: &CountedRun,
        calls: u32,
    ) -> Result<&mut OpenRun, LimitRefusal> {
        if self.get_mut(origin, run).is_none_or(|open| open.left(run).is_zero()) {
            self.remove(origin, run);
            if self.count >= Limiter::MAX_TABLE_KEYS {
                self.make_room(origin)?;
            }
            self.count += 1;
        }
        let budget = Budget { calls, spent: 0 };
        let open = OpenRun { budget, used: Instant::now() };
        let of_origin = self.by_origin.entry(Arc::clone(origin)).or_default();
        Ok(of_origin.entry(run.clone()).or_insert(open))
    }

    fn get_mut(&mut self, origin: &str, run: &CountedRun) -> Option<&mut OpenRun> {
        self.by_origin.get_mut(origin)?.get_mut(run)
    }

    fn remove(&mut self, origin: &str, run: &CountedRun) -> Option<OpenRun> {
        let of_origin = self.by_origin.get_mut(origin)?;
        let ended = of_origin.remove(run)?;
        if of_origin.is_empty() {
            self.by_origin.remove(origin);
        }
        self.count -= 1;
        Some(ended)
    }

    /// Makes room for a run of `origin` in a full table: of runs that have expired, or of whoever has
    /// most, first of the oldest in whose place a new one would be the same.
    fn make_room(&mut self, origin: &Arc<str>) -> Result<(), LimitRefusal> {
        self.by_origin.retain(|_, runs| {
            runs.retain(|run, open| !open.left(run).is_zero());
            !runs.is_empty()
        });
        self.count = self.by_origin.values().map(HashMap::len).sum();
        if self.count < Limiter::MAX_TABLE_KEYS {
            return Ok(());
        }
        // The caller itself among those that have as many.
        let most = self.by_origin.iter().max_by_key(|(of, runs)| (runs.len(), *of == origin));
        let Some((most, runs)) = most else { return Ok(()) };
        let oldest = runs.iter().min_by_key(|(_, open)| (!open.is_untouched(), open.used));
        let Some((run, open)) = oldest else { return Ok(()) };
        if most == origin && !open.is_untouched() {
            let first = runs.iter().map(|(run, open)| open.left(run)).min();
            return Err(LimitRefusal::Full(first.unwrap_or_default()));
        }
        let (most, run) = (Arc::clone(most), run.clone());
        self.remove(&most, &run);
        Ok(())
    }
}

impl PolicyConfig {
    /// The limits of a profile.
    pub fn limits_of(&self, profile: &str) -> Limits {
        self.narrowed(Limits::default(), profile)
    }

    /// The limits of a caller, for a call in this run. Those of the user's own model have no
    /// defaults: its turns end at limits of the chat. The default of a run holds for pages, and for
    /// runs that have a name; the session of an agent is no run that anybody began.
    pub fn limits_for(&self, principal: &Principal, run: Option<&CountedRun>) -> Limits {
        let is_own = matches!(principal.origin, Origin::Chat(_)) && principal.client().is_none();
        let mut base = if is_own { Limits::of_model() } else { Limits::default() };
        let is_page = matches!(principal.accountable().origin, Origin::Browser(_));
        if !is_page && !matches!(run, Some(CountedRun::Named(_))) {
            base.calls_per_run = u32::MAX;
        }
        self.narrowed(base, &principal.profile)
    }

    /// Whether the number of calls of a run is set for a profile, which then holds for every run.
    pub fn sets_calls_per_run(&self, profile: &str) -> bool {
        let own = self.profiles.get(profile).and_then(|profile| profile.limits.calls_per_run);
        own.or(self.limits.calls_per_run).is_some()
    }

    /// Whether the duration of a call is set for a profile: progress does not prolong it then.
    pub fn sets_call_timeout(&self, profile: &str) -> bool {
        let own = self.profiles.get(profile).and_then(|profile| profile.limits.call_timeout);
        own.or(self.limits.call_timeout).is_some()
    }

    fn narrowed(&self, base: Limits, profile: &str) -> Limits {
        let limits = base.with(&self.limits);
        self.profiles.get(profile).map_or(limits, |profile| limits.with(&profile.limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(id: &str) -> Principal {
        Principal::new(Origin::Gateway(id.into()))
    }

    /// Fills the table with runs, but for the first ones.
    fn fill(limiter: &Limiter, of: &Principal, first: usize) {
        for run in first..Limiter::MAX_TABLE_KEYS {
            limiter.create_budget(of, &run.to_string(), 5).expect("there is room");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_fills_the_table_of_runs_keeps_nobody_else_from_calling() {
        let limiter = Arc::new(Limiter::default());
        let (many, other) = (caller("many"), caller("other"));
        for older in 0..4 {
            limiter.create_budget(&many, &older.to_string(), 5).expect("there is room");
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        fill(&limiter, &many, 4);
        let limits = Limits::default();
        for run in [CountedRun::named("r"), CountedRun::Session(None)] {
            let permit = limiter.admit(&other, "s.t", Some(&run), (1, &limits));
            assert!(permit.is_ok(), "{run}");
        }
        assert_eq!(limiter.budget(&other, "r"), Some(Budget { calls: 5, spent: 1 }));
        let kept = |run: usize| limiter.budget(&many, &run.to_string()).is_some();
        assert_eq!((kept(0), kept(1), kept(2)), (false, false, true), "its oldest gave way");
        limiter.create_budget(&many, "more", 5).expect("its own oldest gives way");
        assert_eq!((kept(2), kept(3)), (false, true));
        assert!(limiter.budget(&other, "r").is_some());
        assert_eq!(limiter.inner.lock().runs.count, Limiter::MAX_TABLE_KEYS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_whose_every_run_is_begun_is_refused_alone_until_the_first_ends() {
        let limiter = Arc::new(Limiter::default());
        let (many, other) = (caller("many"), caller("other"));
        fill(&limiter, &many, 0);
        for open in limiter.inner.lock().runs.by_origin.values_mut().flat_map(HashMap::values_mut) {
            open.budget.spent = 1;
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        let refused = limiter.create_budget(&many, "more", 5);
        assert_eq!(refused, Err(LimitRefusal::Full(Duration::from_secs(3_000))));
        limiter.create_budget(&other, "r", 5).expect("nobody else is refused");
        limiter.end_budget(&many, "7");
        limiter.create_budget(&many, "more", 5).expect("one has ended");
        tokio::time::advance(Duration::from_secs(3_000)).await;
        limiter.create_budget(&many, "again", 5).expect("they have expired");
        assert_eq!(limiter.inner.lock().runs.count, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn who_calls_many_tools_keeps_nobody_else_from_calling_one() {
        let limiter = Arc::new(Limiter::default());
        let limits = Limits::default();
        let admit = |of: &str, tool: usize| {
            limiter.admit(&caller(of), &tool.to_string(), None, (1, &limits)).map(drop)
        };
        for tool in 0..Limiter::MAX_TABLE_KEYS {
            admit("many", tool).expect("there is room");
        }
        let full = admit("many", Limiter::MAX_TABLE_KEYS);
        assert!(matches!(full, Err(LimitRefusal::Full(_))));
        admit("other", Limiter::MAX_TABLE_KEYS).expect("nobody else is refused");
    }
}
