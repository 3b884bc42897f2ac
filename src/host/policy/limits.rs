//! Limits of callers that are not the person: calls of a run, at once, in a minute, their time and
//! the size of their arguments; and the budgets of runs.
//!
//! Time is tokio's, which cannot be set: a wall clock that jumps neither opens nor shuts anything.

use std::collections::HashMap;
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
use tokio::time::Instant;

use super::rules::{LimitsConfig, PolicyConfig};
use crate::error::{Error, ErrorCode};
use crate::host::policy::principal::Principal;

/// Limits in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Calls of one run.
    pub calls_per_run: u32,
    /// Calls of one origin at once.
    pub calls_at_once: u32,
    /// Longest call, without the time a person takes.
    pub call_timeout: Duration,
    /// Calls of one tool by one origin in a minute.
    pub calls_per_minute: u32,
    /// Largest arguments in bytes of JSON.
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
    /// These, changed by what is configured.
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
    /// Calls it may make.
    pub calls: u32,
    /// Calls it has made.
    pub spent: u32,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitRefusal {
    /// So many bytes are too many.
    Arguments(usize),
    /// So many of the origin are under way.
    AtOnce(u32),
    /// Too many in a minute; when the next may go.
    PerMinute(Duration),
    /// The run has made its calls.
    Run(Budget),
    /// The tables are full; when to try again.
    Full(Duration),
    /// The counts of all replicas cannot be reached; when to try again.
    Away(Duration),
}

impl LimitRefusal {
    /// What the caller is told.
    pub fn error(self) -> Error {
        let text = str::to_owned;
        let (code, message, retry_after) = match self {
            Self::Arguments(most) => {
                let message =
                    format!("the arguments are larger than {most} bytes; nothing was sent");
                (ErrorCode::Validation, message, None)
            }
            Self::AtOnce(most) => {
                let message =
                    format!("{most} calls of this caller are under way, which is the most");
                (ErrorCode::RateLimited, message, Some(Duration::from_secs(1)))
            }
            Self::PerMinute(wait) => (
                ErrorCode::RateLimited,
                text("too many calls of this tool in a minute"),
                Some(wait),
            ),
            Self::Run(Budget { calls, .. }) => {
                (ErrorCode::BudgetExceeded, format!("the run has made its {calls} calls"), None)
            }
            Self::Full(wait) => {
                (ErrorCode::RateLimited, text("too many callers at once"), Some(wait))
            }
            Self::Away(wait) => {
                (ErrorCode::ServerUnavailable, text("calls cannot be counted now"), Some(wait))
            }
        };
        let mut error = Error::new(code, message);
        error.retry_after = retry_after;
        error
    }
}

/// Tokio's clock, since the limiter was made.
#[derive(Clone, Debug)]
struct Ticks(Instant);

impl GovernorClock for Ticks {
    type Instant = Nanos;
    fn now(&self) -> Nanos {
        self.0.elapsed().into()
    }
}

/// A call that is to be counted by all replicas of a service.
#[derive(Clone, Copy, Debug)]
pub struct LimitClaim<'a> {
    /// Who calls.
    pub origin: &'a str,
    /// What, as `server.tool`.
    pub tool: &'a str,
    /// The run it belongs to, and how many calls that may make.
    pub run: Option<(&'a str, u32)>,
    /// What holds for it.
    pub limits: &'a Limits,
}

/// The place of a call among those under way at all replicas; free again when this is dropped.
pub type Lease = Box<dyn std::any::Any + Send + Sync>;

/// Counts that several processes share.
pub trait SharedLimits: Send + Sync + 'static {
    /// Counts a call that may go, or says why it may not; then it costs nothing.
    fn admit<'a>(&'a self, claim: LimitClaim<'a>) -> BoxFuture<'a, Result<Lease, LimitRefusal>>;
}

type LimitKey = (Arc<str>, Arc<str>);
type Rate = RateLimiter<LimitKey, HashMapStateStore<LimitKey>, Ticks, NoOpMiddleware<Nanos>>;

/// Counts calls and refuses what is too much.
pub struct Limiter {
    clock: Ticks,
    inner: Mutex<LimiterInner>,
    shared: OnceLock<Arc<dyn SharedLimits>>,
}

#[derive(Default)]
struct LimiterInner {
    /// One for every quota that is configured: a few.
    rates: HashMap<NonZeroU32, Arc<Rate>>,
    under_way: HashMap<Arc<str>, u32>,
    runs: HashMap<LimitKey, (Budget, Instant)>,
}

impl Default for Limiter {
    fn default() -> Self {
        Self { clock: Ticks(Instant::now()), inner: Mutex::default(), shared: OnceLock::new() }
    }
}

/// A call that may go; its place is free again when this is dropped.
pub struct Permit {
    limiter: Arc<Limiter>,
    origin: Arc<str>,
    lease: Option<Lease>,
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
    /// Most keys of a table.
    pub const KEYS: usize = 10_000;
    /// A run that nobody ended is forgotten after this time without a call.
    const RUN: Duration = Duration::from_secs(3_600);
    const MINUTE: Duration = Duration::from_secs(60);

    /// Lets a call through, or says why not. A call that is refused costs nothing of any limit.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn admit(
        self: &Arc<Self>,
        principal: &Principal,
        tool: &str,
        run: Option<&Arc<str>>,
        (arguments, limits): (usize, &Limits),
    ) -> Result<Permit, LimitRefusal> {
        if arguments > limits.argument_bytes {
            return Err(LimitRefusal::Arguments(limits.argument_bytes));
        }
        let none = LimitRefusal::PerMinute(Self::MINUTE);
        let per_minute = NonZeroU32::new(limits.calls_per_minute).ok_or(none)?;
        let origin: Arc<str> = principal.origin.to_string().into();
        let mut inner = self.inner.lock();
        let under_way = inner.under_way.get(&origin).copied().unwrap_or(0);
        if under_way >= limits.calls_at_once {
            return Err(LimitRefusal::AtOnce(limits.calls_at_once));
        }
        let run = run.map(|run| (Arc::clone(&origin), Arc::clone(run)));
        if let Some(run) = &run {
            let calls = limits.calls_per_run;
            let budget = inner.budget(run, calls).ok_or(LimitRefusal::Full(Self::MINUTE))?;
            if budget.spent >= budget.calls {
                return Err(LimitRefusal::Run(*budget));
            }
        }
        self.rate(&mut inner, (Arc::clone(&origin), tool.into()), per_minute)?;
        if let Some((budget, used)) = run.and_then(|run| inner.runs.get_mut(&run)) {
            budget.spent += 1;
            *used = Instant::now();
        }
        *inner.under_way.entry(Arc::clone(&origin)).or_default() += 1;
        Ok(Permit { limiter: Arc::clone(self), origin, lease: None })
    }

    /// From now on calls are counted there too, before they are counted here.
    pub fn share(&self, shared: Arc<dyn SharedLimits>) {
        let _ = self.shared.set(shared);
    }

    /// [`Limiter::admit`] after the counts that replicas share.
    ///
    /// # Errors
    /// The limit that is reached.
    pub async fn admit_shared(
        self: &Arc<Self>,
        principal: &Principal,
        tool: &str,
        run: Option<&Arc<str>>,
        (arguments, limits): (usize, &Limits),
    ) -> Result<Permit, LimitRefusal> {
        let lease = match self.shared.get() {
            // What is refused here need not be counted there.
            Some(shared) if arguments <= limits.argument_bytes && limits.calls_per_minute > 0 => {
                let calls = |run: &str| {
                    self.budget(principal, run).map_or(limits.calls_per_run, |b| b.calls)
                };
                let run = run.map(|run| (&**run, calls(run)));
                let origin = &principal.origin.to_string();
                Some(shared.admit(LimitClaim { origin, tool, run, limits }).await?)
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
        key: LimitKey,
        quota: NonZeroU32,
    ) -> Result<(), LimitRefusal> {
        let rate = inner.rates.entry(quota).or_insert_with(|| {
            Arc::new(RateLimiter::hashmap_with_clock(Quota::per_minute(quota), self.clock.clone()))
        });
        if rate.len() >= Self::KEYS {
            // What has its whole quota again is as good as new.
            rate.retain_recent();
            if rate.len() >= Self::KEYS {
                return Err(LimitRefusal::Full(Self::MINUTE));
            }
        }
        rate.check_key(&key).map_err(|until| {
            LimitRefusal::PerMinute(until.wait_time_from(GovernorClock::now(&self.clock)))
        })
    }

    /// Gives a run of this caller so many calls instead of the default.
    ///
    /// # Errors
    /// When too many runs are open.
    pub fn create_budget(
        &self,
        principal: &Principal,
        run: &str,
        calls: u32,
    ) -> Result<Budget, LimitRefusal> {
        let key = (principal.origin.to_string().into(), run.into());
        let mut inner = self.inner.lock();
        let budget = inner.budget(&key, calls).ok_or(LimitRefusal::Full(Self::MINUTE))?;
        budget.calls = calls;
        Ok(*budget)
    }

    /// What a run has spent.
    pub fn budget(&self, principal: &Principal, run: &str) -> Option<Budget> {
        let key = (principal.origin.to_string().into(), run.into());
        self.inner.lock().runs.get(&key).map(|(budget, _)| *budget)
    }

    /// Ends a run; gives its final budget.
    pub fn end_budget(&self, principal: &Principal, run: &str) -> Option<Budget> {
        let key = (principal.origin.to_string().into(), run.into());
        self.inner.lock().runs.remove(&key).map(|(budget, _)| budget)
    }
}

impl LimiterInner {
    /// The budget of a run, made when there is none; `None` when there is no room.
    fn budget(&mut self, run: &LimitKey, calls: u32) -> Option<&mut Budget> {
        if !self.runs.contains_key(run) {
            if self.runs.len() >= Limiter::KEYS {
                let now = Instant::now();
                self.runs.retain(|_, (_, used)| now - *used < Limiter::RUN);
            }
            if self.runs.len() >= Limiter::KEYS {
                return None;
            }
            self.runs.insert(run.clone(), (Budget { calls, spent: 0 }, Instant::now()));
        }
        self.runs.get_mut(run).map(|(budget, _)| budget)
    }
}

impl PolicyConfig {
    /// The limits of a profile.
    pub fn limits_of(&self, profile: &str) -> Limits {
        let limits = Limits::default().with(&self.limits);
        self.profiles.get(profile).map_or(limits, |profile| limits.with(&profile.limits))
    }
}
