//! Quotas: what a team allows its callers in a minute and in a day, counted by client, profile and
//! tool. Minutes follow tokio's clock; a day is one of UTC, by a clock that no adjustment of the
//! system's moves. What a day has used outlives the process: the deck keeps it. Where
//! processes share counters, those count the minutes of all of them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use globset::{Glob, GlobSet};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::globs::GlobList;
use super::principal::{PolicyTarget, Principal, TargetKind};
use crate::pattern::{NamePatterns, Reading};
use base::human;
use base::{Clock, Timestamp};
use config::error::{Error, ErrorCode};

/// What callers other than the user may use in a minute and in a day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct QuotaConfig {
    /// Its name, in refusals and lists; by default what it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only these callers, globs over origins (`gateway:ID`, `gateway:*`, `browser:https://*`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<GlobList>,
    /// Only these profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profiles: Option<GlobList>,
    /// Only calls of these tools, `server.tool`; otherwise reads and prompts count too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<GlobList>,
    /// Whether each client, profile or tool has the whole quota for itself (default: each client);
    /// an empty list is one quota for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<Vec<QuotaPer>>,
    /// Calls per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_minute: Option<u32>,
    /// Calls per day, from midnight to midnight UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_day: Option<u64>,
    /// Tokens of results per day, four bytes of JSON each. The call that reaches it still has its
    /// result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_tokens_per_day: Option<u64>,
}

/// What has a quota for itself.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum QuotaPer {
    /// Each client.
    Client,
    /// Each profile.
    Profile,
    /// Each tool.
    Tool,
}

/// Compiled quotas.
#[derive(Debug, Default)]
pub struct Quotas(Vec<Quota>);

#[derive(Debug)]
struct Quota {
    label: Arc<str>,
    clients: Option<GlobSet>,
    profiles: Option<GlobSet>,
    tools: Option<NamePatterns>,
    per: Vec<QuotaPer>,
    limits: QuotaLimits,
}

/// What a quota allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaLimits {
    /// Calls per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_minute: Option<u32>,
    /// Calls per day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_day: Option<u64>,
    /// Tokens of results per day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_tokens_per_day: Option<u64>,
}

/// What somebody has used of a quota today.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// The quota.
    pub quota: Arc<str>,
    /// Whose it is: the client, profile and tool that have it for themselves.
    pub whose: Arc<str>,
    /// The day, in days since 1970-01-01 UTC.
    pub day: u64,
    /// Calls.
    pub calls: u64,
    /// Tokens of results.
    pub result_tokens: u64,
}

/// What a quota allows, and who has used what of it today.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaView {
    /// The quota.
    pub quota: Arc<str>,
    /// What it allows.
    #[serde(flatten)]
    pub limits: QuotaLimits,
    /// Who has used what.
    pub used: Vec<QuotaUse>,
}

impl QuotaConfig {
    /// What it is called.
    fn label(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let mut label = String::new();
        let lists = [("", &self.tools), ("clients ", &self.clients), ("profiles ", &self.profiles)];
        for (what, list) in lists {
            let Some(list) = list else { continue };
            let separator = if label.is_empty() { "" } else { ", " };
            let globs: Vec<&str> = list.iter().collect();
            let _ = write!(label, "{separator}{what}{}", globs.join(" "));
        }
        if label.is_empty() {
            label.push_str("all calls");
        }
        for (at, per) in self.counted_per().iter().enumerate() {
            label.push_str(if at == 0 { " per " } else { " and " });
            label.push_str(match per {
                QuotaPer::Client => "client",
                QuotaPer::Profile => "profile",
                QuotaPer::Tool => "tool",
            });
        }
        label
    }

    fn counted_per(&self) -> Vec<QuotaPer> {
        let mut per = self.per.clone().unwrap_or_else(|| vec![QuotaPer::Client]);
        per.sort_unstable();
        per.dedup();
        per
    }

    const fn limits(&self) -> QuotaLimits {
        QuotaLimits {
            calls_per_minute: self.calls_per_minute,
            calls_per_day: self.calls_per_day,
            result_tokens_per_day: self.result_tokens_per_day,
        }
    }

    fn compile(&self) -> Result<Quota, String> {
        let limits = self.limits();
        if limits == QuotaLimits::default() {
            return Err("it limits nothing: set `callsPerMinute`, `callsPerDay` or \
                        `resultTokensPerDay`"
                .to_owned());
        }
        let globs = |list: &Option<GlobList>| list.as_ref().map(GlobList::parse).transpose();
        let set = |list: &Option<GlobList>| {
            let globs: Option<Vec<Glob>> = globs(list)?;
            globs.map(GlobSet::new).transpose().map_err(|error| error.to_string())
        };
        let tools = globs(&self.tools)?.map(|globs| NamePatterns::new(globs.iter()));
        Ok(Quota {
            label: self.label().into(),
            clients: set(&self.clients)?,
            profiles: set(&self.profiles)?,
            tools: tools.transpose().map_err(|error| error.to_string())?,
            per: self.counted_per(),
            limits,
        })
    }
}

impl Quotas {
    /// Compiles the quotas of a policy; adds what is wrong with them.
    pub(super) fn compile(all: &[QuotaConfig], problems: &mut Vec<String>) -> Self {
        let mut out: Vec<Quota> = Vec::new();
        for (at, config) in all.iter().enumerate() {
            let place = format!("policy/quotas/{at}");
            match config.compile() {
                Ok(quota) if out.iter().any(|other| other.label == quota.label) => {
                    let label = &quota.label;
                    problems.push(format!(
                        "{place}: another quota is called `{label}` too: give it a `name`"
                    ));
                }
                Ok(quota) => out.push(quota),
                Err(problem) => problems.push(format!("{place}: {problem}")),
            }
        }
        Self(out)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What each allows, with what was used of it.
    pub fn view(&self, used: &[QuotaUse]) -> Vec<QuotaView> {
        let view = |quota: &Quota| {
            let mut used: Vec<QuotaUse> =
                used.iter().filter(|it| it.quota == quota.label).cloned().collect();
            used.sort_by(|one, other| one.whose.cmp(&other.whose));
            QuotaView { quota: Arc::clone(&quota.label), limits: quota.limits, used }
        };
        self.0.iter().map(view).collect()
    }

    /// The quotas that a call counts in, each with whose it is.
    fn claims(&self, principal: &Principal, target: &PolicyTarget<'_>) -> Vec<QuotaClaim> {
        let origin = principal.origin.to_string();
        let matching = self.0.iter().filter(|quota| {
            let fits = |globs: &Option<GlobSet>, text: &str| {
                globs.as_ref().is_none_or(|globs| globs.is_match(text))
            };
            let tools = quota.tools.as_ref().is_none_or(|tools| {
                target.kind == TargetKind::Tool
                    && tools.is_match(target.server, target.name, Reading::Wide)
            });
            fits(&quota.clients, &origin) && fits(&quota.profiles, &principal.profile) && tools
        });
        let claim = |quota: &Quota| {
            let tool = || match target.kind {
                TargetKind::Tool | TargetKind::Prompt => {
                    format!("{}.{}", target.server, target.name)
                }
                TargetKind::Resource | TargetKind::Server => target.server.to_owned(),
            };
            let whose = quota.per.iter().map(|per| match per {
                QuotaPer::Client => origin.clone(),
                QuotaPer::Profile => principal.profile.to_string(),
                QuotaPer::Tool => tool(),
            });
            let whose: Vec<String> = whose.collect();
            let key = (Arc::clone(&quota.label), whose.join(" ").into());
            QuotaClaim { key, limits: quota.limits }
        };
        matching.map(claim).collect()
    }
}

/// A quota, and whose it is.
type QuotaKey = (Arc<str>, Arc<str>);

struct QuotaClaim {
    key: QuotaKey,
    limits: QuotaLimits,
}

/// What was counted for a key.
#[derive(Debug)]
struct QuotaCount {
    used: QuotaUse,
    /// What is not kept yet.
    new_calls: u64,
    new_tokens: u64,
    /// Calls that the minute still allows, when it was looked at last.
    left: f64,
    looked: Instant,
}

/// Why a quota refuses a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaRefusal {
    /// The minute's calls are made.
    Minute {
        /// The quota.
        quota: Arc<str>,
        /// Its calls.
        calls: u32,
        /// How long to wait.
        wait: Duration,
    },
    /// The day's calls, or its tokens, are used.
    Day {
        /// The quota.
        quota: Arc<str>,
        /// What is used: `100 calls`.
        used: String,
        /// How long to wait.
        wait: Duration,
        /// When the next day begins.
        until: Timestamp,
    },
    /// Too many callers and tools are counted.
    Full,
}

impl QuotaRefusal {
    /// The error for the caller.
    pub fn error(self) -> Error {
        let (code, message, wait) = match self {
            Self::Minute { quota, calls, wait } => (
                ErrorCode::RateLimited,
                format!("the quota `{quota}` allows {} per minute", human::count(calls, "call")),
                wait,
            ),
            Self::Day { quota, used, wait, until } => {
                let until = until.to_rfc3339();
                let message = format!(
                    "the quota `{quota}` of {used} per day is used up; the next day begins at {until}"
                );
                (ErrorCode::BudgetExceeded, message, wait)
            }
            Self::Full => (
                ErrorCode::RateLimited,
                "too many callers and tools are counted today".to_owned(),
                MINUTE_WINDOW,
            ),
        };
        let mut error = Error::new(code, message);
        error.retry_after = Some(wait);
        error.outage = (code == ErrorCode::RateLimited).then(|| error.message.clone());
        error
    }
}

/// Microseconds of a day.
const DAY_MICROS: u64 = 86_400_000_000;
/// Span of `callsPerMinute`.
const MINUTE_WINDOW: Duration = Duration::from_secs(60);
/// Most keys that are counted.
const MAX_QUOTA_KEYS: usize = 10_000;

/// Counts what is used of quotas.
#[derive(Debug)]
pub struct QuotaCounter {
    clock: Clock,
    counts: Mutex<HashMap<QuotaKey, QuotaCount>>,
}

/// A quota of a minute that a call counts in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MinuteClaim {
    /// The quota.
    pub quota: Arc<str>,
    /// Whose it is: the client, profile and tool that have it for themselves.
    pub whose: Arc<str>,
    /// The calls that it allows in a minute, at least 1.
    pub calls: u32,
}

impl MinuteClaim {
    /// The refusal of a call that has to wait so long.
    pub fn refusal(&self, wait: Duration) -> QuotaRefusal {
        QuotaRefusal::Minute { quota: Arc::clone(&self.quota), calls: self.calls, wait }
    }
}

/// A call that was counted.
#[derive(Debug)]
pub struct QuotaHold {
    counter: Arc<QuotaCounter>,
    keys: Vec<QuotaKey>,
    /// The day that it was counted in.
    day: u64,
    /// Its quotas of a minute, for what counts for all processes.
    minutes: Vec<MinuteClaim>,
}

impl QuotaCounter {
    /// A counter without counts.
    pub fn new(clock: Clock) -> Self {
        Self { clock, counts: Mutex::default() }
    }

    /// Today.
    pub fn today(&self) -> u64 {
        self.clock.now().0 / DAY_MICROS
    }

    /// Counts a call in every quota that it is subject to; one that is refused counts in none.
    ///
    /// # Errors
    /// The quota that is used up.
    pub fn take(
        self: &Arc<Self>,
        quotas: &Quotas,
        principal: &Principal,
        target: &PolicyTarget<'_>,
    ) -> Result<Option<QuotaHold>, QuotaRefusal> {
        if quotas.is_empty() {
            return Ok(None);
        }
        let claims = quotas.claims(principal, target);
        let (now, today) = (Instant::now(), self.today());
        let mut counts = self.counts.lock();
        for claim in &claims {
            if let Some(count) = counts.get_mut(&claim.key) {
                count.turn(claim.limits, now, today);
                if let Some(refusal) = self.refusal(claim, count) {
                    return Err(refusal);
                }
            } else if let Some(refusal) = self.refusal(claim, &QuotaCount::new(claim, now, today)) {
                return Err(refusal);
            }
        }
        if counts.len() + claims.len() > MAX_QUOTA_KEYS {
            counts.retain(|_, count| count.used.day == today || count.is_unkept());
            if counts.len() + claims.len() > MAX_QUOTA_KEYS {
                return Err(QuotaRefusal::Full);
            }
        }
        for claim in &claims {
            let count = counts.entry(claim.key.clone());
            let count = count.or_insert_with(|| QuotaCount::new(claim, now, today));
            count.used.calls += 1;
            count.new_calls += 1;
            count.left -= 1.0;
        }
        let minute = |claim: &QuotaClaim| {
            let (quota, whose) = claim.key.clone();
            let calls = claim.limits.calls_per_minute.filter(|calls| *calls > 0)?;
            Some(MinuteClaim { quota, whose, calls })
        };
        let minutes = claims.iter().filter_map(minute).collect();
        let keys = claims.into_iter().map(|claim| claim.key).collect();
        Ok(Some(QuotaHold { counter: Arc::clone(self), keys, day: today, minutes }))
    }

    fn refusal(&self, claim: &QuotaClaim, count: &QuotaCount) -> Option<QuotaRefusal> {
        let quota = || Arc::clone(&claim.key.0);
        let day = |used: String| {
            let now = self.clock.now();
            let until = Timestamp((now.0 / DAY_MICROS + 1) * DAY_MICROS);
            QuotaRefusal::Day { quota: quota(), used, wait: until.since(now), until }
        };
        let QuotaLimits { calls_per_minute, calls_per_day, result_tokens_per_day } = claim.limits;
        if let Some(calls) = calls_per_day.filter(|calls| count.used.calls >= *calls) {
            return Some(day(human::count(calls, "call").to_string()));
        }
        let is_used = |tokens: &u64| count.used.result_tokens >= *tokens;
        if let Some(tokens) = result_tokens_per_day.filter(is_used) {
            return Some(day(format!("{tokens} tokens of results")));
        }
        let calls = calls_per_minute.filter(|_| count.left < 1.0)?;
        let rate = f64::from(calls) / MINUTE_WINDOW.as_secs_f64();
        let wait = Duration::try_from_secs_f64((1.0 - count.left) / rate);
        Some(QuotaRefusal::Minute { quota: quota(), calls, wait: wait.unwrap_or(MINUTE_WINDOW) })
    }

    /// What was used today.
    pub fn used(&self) -> Vec<QuotaUse> {
        let today = self.today();
        let counts = self.counts.lock();
        let today = counts.values().filter(|count| count.used.day == today);
        today.map(|count| count.used.clone()).collect()
    }

    /// Takes what was used since the last time and is not kept yet, to be kept.
    pub fn take_new(&self) -> Vec<QuotaUse> {
        let mut counts = self.counts.lock();
        let new = counts.values_mut().filter(|count| count.is_unkept());
        let take = |count: &mut QuotaCount| QuotaUse {
            calls: std::mem::take(&mut count.new_calls),
            result_tokens: std::mem::take(&mut count.new_tokens),
            ..count.used.clone()
        };
        new.map(take).collect()
    }

    /// Puts back what could not be kept.
    pub fn put_back(&self, new: &[QuotaUse]) {
        let mut counts = self.counts.lock();
        for one in new {
            let key = (Arc::clone(&one.quota), Arc::clone(&one.whose));
            if let Some(count) = counts.get_mut(&key).filter(|count| count.used.day == one.day) {
                count.new_calls += one.calls;
                count.new_tokens += one.result_tokens;
            }
        }
    }

    /// Takes over what all programs have used, as it is kept, besides what is not kept yet.
    pub fn take_over(&self, kept: &[QuotaUse]) {
        let (now, today) = (Instant::now(), self.today());
        let mut counts = self.counts.lock();
        for one in kept.iter().filter(|one| one.day == today) {
            let key = (Arc::clone(&one.quota), Arc::clone(&one.whose));
            if counts.len() >= MAX_QUOTA_KEYS && !counts.contains_key(&key) {
                continue;
            }
            let count = counts.entry(key).or_insert_with(|| QuotaCount {
                used: QuotaUse { calls: 0, result_tokens: 0, ..one.clone() },
                new_calls: 0,
                new_tokens: 0,
                left: f64::INFINITY,
                looked: now,
            });
            count.begin(today);
            count.used.calls = one.calls.saturating_add(count.new_calls);
            count.used.result_tokens = one.result_tokens.saturating_add(count.new_tokens);
        }
    }
}

impl QuotaCount {
    fn new(claim: &QuotaClaim, looked: Instant, day: u64) -> Self {
        let (quota, whose) = claim.key.clone();
        let used = QuotaUse { quota, whose, day, ..QuotaUse::default() };
        let left = claim.limits.calls_per_minute.map_or(0.0, f64::from);
        Self { used, new_calls: 0, new_tokens: 0, left, looked }
    }

    const fn is_unkept(&self) -> bool {
        self.new_calls > 0 || self.new_tokens > 0
    }

    /// Counts from nothing when it is another day.
    fn begin(&mut self, today: u64) {
        if self.used.day != today {
            self.used.day = today;
            (self.used.calls, self.used.result_tokens) = (0, 0);
            (self.new_calls, self.new_tokens) = (0, 0);
        }
    }

    /// Begins the day anew when it is another one, and fills up the minute.
    fn turn(&mut self, limits: QuotaLimits, now: Instant, today: u64) {
        self.begin(today);
        let most = limits.calls_per_minute.map_or(0.0, f64::from);
        let passed = now.saturating_duration_since(self.looked).as_secs_f64();
        let filled = self.left + passed * most / MINUTE_WINDOW.as_secs_f64();
        (self.left, self.looked) = (filled.min(most), now);
    }
}

impl QuotaHold {
    /// The quotas of a minute that the call counts in.
    pub fn minutes(&self) -> &[MinuteClaim] {
        &self.minutes
    }

    /// Counts the tokens of a result, four bytes of JSON each, in the day in which it came: midnight
    /// may have passed since the call.
    pub fn received(&self, bytes: usize) {
        let (today, tokens) = (self.counter.today(), bytes.div_ceil(4) as u64);
        let mut counts = self.counter.counts.lock();
        for key in &self.keys {
            if let Some(count) = counts.get_mut(key) {
                count.begin(today);
                count.used.result_tokens = count.used.result_tokens.saturating_add(tokens);
                count.new_tokens = count.new_tokens.saturating_add(tokens);
            }
        }
    }

    /// Takes the call back from the day that it was counted in: it was refused for another reason.
    pub fn refund(self) {
        let mut counts = self.counter.counts.lock();
        for key in &self.keys {
            let Some(count) = counts.get_mut(key) else { continue };
            count.left += 1.0;
            if count.used.day == self.day {
                count.used.calls = count.used.calls.saturating_sub(1);
                // Where it is kept already, it stays counted.
                count.new_calls = count.new_calls.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Origin;
    use serde_json::{Value, json};

    fn quotas(config: Value) -> Quotas {
        let config: Vec<QuotaConfig> = serde_json::from_value(config).expect("quotas");
        let mut problems = Vec::new();
        let quotas = Quotas::compile(&config, &mut problems);
        assert_eq!(problems, [""; 0]);
        quotas
    }

    fn client(id: &str, profile: &str) -> Principal {
        Principal::new(Origin::Gateway(id.into())).with_profile(profile)
    }

    fn counter() -> Arc<QuotaCounter> {
        Arc::new(QuotaCounter::new(Clock::system()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_minute_is_exact_and_says_when_the_next_call_may_come() {
        let (counter, quotas) = (counter(), quotas(json!([{"callsPerMinute": 3}])));
        let take = || counter.take(&quotas, &client("a", "p"), &PolicyTarget::tool("s", "t"));
        for _ in 0..3 {
            take().expect("allowed");
        }
        let Err(QuotaRefusal::Minute { wait, calls: 3, quota }) = take() else { panic!("refused") };
        assert_eq!((wait.as_secs(), &*quota), (20, "all calls per client"));
        tokio::time::advance(wait).await;
        take().expect("again");
        take().expect_err("only one");
        let other = client("b", "p");
        counter.take(&quotas, &other, &PolicyTarget::tool("s", "t")).expect("another client");
    }

    #[tokio::test(start_paused = true)]
    async fn a_day_ends_at_midnight_and_a_refused_call_counts_nowhere() {
        let config = json!([
            {"name": "all", "per": [], "callsPerDay": 4},
            {"tools": ["s.t"], "callsPerDay": 2},
            {"profiles": "small", "per": ["profile"], "resultTokensPerDay": 10},
        ]);
        let (counter, quotas) = (counter(), quotas(config));
        let take = |id: &str, profile: &str, tool: &str| {
            counter.take(&quotas, &client(id, profile), &PolicyTarget::tool("s", tool))
        };
        for _ in 0..2 {
            take("a", "p", "t").expect("allowed");
        }
        let refused = take("a", "p", "t").expect_err("the tool").error();
        assert_eq!(refused.code, ErrorCode::BudgetExceeded);
        let words =
            "the quota `s.t per client` of 2 calls per day is used up; the next day begins at ";
        assert!(refused.message.starts_with(words), "{}", refused.message);
        assert!(refused.message.ends_with("T00:00:00.000Z"), "{}", refused.message);
        let small = take("a", "small", "u").expect("another tool").expect("counted");
        small.received(39);
        take("b", "small", "u").expect_err("the tokens of the profile");
        take("b", "p", "u").expect("another profile").expect("counted").refund();
        take("b", "p", "u").expect("the fourth");
        take("c", "p", "v").expect_err("all");
        tokio::time::advance(refused.retry_after.expect("when")).await;
        take("a", "small", "t").expect("the next day");
        assert_eq!(counter.used().iter().map(|it| it.calls).collect::<Vec<_>>(), [1; 3]);
    }

    /// A call that midnight passes over: nothing of it is lost, and nothing of the next day is given
    /// back.
    #[tokio::test(start_paused = true)]
    async fn what_crosses_midnight_counts_in_the_day_in_which_it_happens() {
        let quotas = quotas(json!([{"per": [], "callsPerDay": 3, "resultTokensPerDay": 10}]));
        let counter = counter();
        let take = || counter.take(&quotas, &client("a", "p"), &PolicyTarget::tool("s", "t"));
        let used = || {
            let used = counter.used();
            used.first().map_or((0, 0), |one| (one.calls, one.result_tokens))
        };
        let (long, refused) = (take().expect("allowed"), take().expect("allowed"));
        assert_eq!(used(), (2, 0));
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert_eq!(used(), (0, 0));
        // Others have used the new day already.
        let others = QuotaUse { day: counter.today(), calls: 1, ..counter.take_new()[0].clone() };
        counter.take_over(&[others]);
        assert_eq!(used(), (1, 0));
        refused.expect("counted").refund();
        assert_eq!(used(), (1, 0), "it was no call of today");
        long.expect("counted").received(40);
        assert_eq!(used(), (1, 10), "the result is one of today");
        take().expect_err("the tokens of today are used");
    }

    #[tokio::test(start_paused = true)]
    async fn what_several_programs_use_is_one_sum() {
        let quotas = quotas(json!([{"per": [], "callsPerDay": 3}]));
        let (one, other) = (counter(), counter());
        let take = |counter: &Arc<QuotaCounter>| {
            counter.take(&quotas, &client("a", "p"), &PolicyTarget::tool("s", "t"))
        };
        take(&one).expect("allowed");
        take(&other).expect("allowed").expect("counted").received(8);
        let kept = one.take_new();
        assert_eq!((kept[0].calls, one.take_new().len()), (1, 0));
        let mut sum = other.take_new();
        assert_eq!(sum[0].result_tokens, 2);
        sum[0].calls += kept[0].calls;
        take(&one).expect("meanwhile");
        for counter in [&one, &other] {
            counter.take_over(&sum);
        }
        assert_eq!((one.used()[0].calls, other.used()[0].calls), (3, 2));
        take(&one).expect_err("three were made");
        one.put_back(&kept);
        assert_eq!(one.take_new()[0].calls, 2);
    }

    #[test]
    fn what_is_no_quota_is_refused_with_its_place() {
        for (config, why) in [
            (json!([{"tools": "a.b"}]), "policy/quotas/0: it limits nothing"),
            (json!([{"tools": "[", "callsPerDay": 1}]), "policy/quotas/0: "),
            (json!([{"callsPerDay": 1}, {"callsPerDay": 2}]), "policy/quotas/1: another quota"),
        ] {
            let config: Vec<QuotaConfig> = serde_json::from_value(config).expect("quotas");
            let mut problems = Vec::new();
            Quotas::compile(&config, &mut problems);
            assert!(problems[0].starts_with(why), "{problems:?}");
        }
    }
}
