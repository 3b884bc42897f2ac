//! The store on a Redis or Valkey server. All keys start with `mcpdeck:`; two services can share a
//! server by using different database numbers.
//!
//! Tokens, grants and reviewed definitions remain files of each replica, so that programs that read
//! or change them keep working. Changes to a file are merged with its copy in the store, and files
//! are updated with the changes of other replicas.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::{
    AsyncCommands as _, Client, IntoConnectionInfo as _, RedisError, RedisResult, Script,
};
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use rmcp::model::{RequestStateCodec, SealOptions};
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use serde_json::Value;
use tokio::sync::watch;

use super::merge::merge;
use super::{KeptEvents, ParkedCall, SharedStore, SharedTask};
use base::atomic::{alone, replace_private};
use base::file::random_hex;
use base::state::StateFile;
use base::watch::Fingerprint;
use config::{Environment, expand_argument};
use deck::{ChatStore, KeptChat, PolicyKeeper};
use host::{Lease, LimitClaim, LimitRefusal, MinuteClaim, QuotaUse, SharedLimits};

/// The reason for being unavailable before the first exchange.
const NEW: &str = "not reached yet";
/// Timeout for connecting and for responses of the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(3);
/// Retry delay for callers while the store is unreachable.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Expiry of a session that no replica renews, in seconds.
const SESSION_LIFETIME_SECONDS: i64 = 3_600;
/// Expiry of a conversation, in seconds: 30 days.
const CHAT_LIFETIME_SECONDS: i64 = 30 * 86_400;
/// Expiry of the pictures of a conversation, in seconds: they are large, and its text names them.
const PICTURE_LIFETIME_SECONDS: i64 = 2 * 86_400;
/// Maximum number of events kept per stream (approximate).
const MAX_STREAM_EVENTS: usize = 1_000;
/// How long a parked call waits for its client.
const INPUT_TIMEOUT: Duration = Duration::from_secs(600);
/// Lease of a call's slot, in milliseconds; the slot is freed if its replica stops renewing it.
const LEASE_LIFETIME_MILLIS: u64 = 10_000;
/// How long a message for a task waits for the replica that runs it.
const TASK_MESSAGE_LIFETIME: Duration = Duration::from_secs(60);
/// How long the sender of such a message waits for it to be taken, and how often it looks.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(2);
const TAKEN_INTERVAL: Duration = Duration::from_millis(50);
/// Exchanges between two renewals of leases and keys.
const RENEWAL_EXCHANGES: u64 = 8;
/// Maximum size of a shared file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Admits a call against its limits: in flight, per run, per minute (GCRA), and the quotas of a minute
/// that it counts in (GCRA). All or nothing. The keys are those in flight, of the rate, of the run
/// where there is one (its calls are given then), and of the quotas, whose calls are the last
/// arguments. A quota that is used up is named by its place among them.
const ADMIT: &str = r"
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function text(number) return string.format('%.0f', number) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return {'busy', 0, 0} end
local run = ARGV[5] ~= ''
if run and tonumber(redis.call('GET', KEYS[3]) or '0') >= tonumber(ARGV[5]) then
    return {'run', math.max(redis.call('PTTL', KEYS[3]), 0) * 1000, 0}
end
local first = run and 4 or 3
local rates = {{KEYS[2], tonumber(ARGV[4]), 0}}
for at = first, #KEYS do
    rates[#rates + 1] = {KEYS[at], tonumber(ARGV[7 + at - first]), at - first + 1}
end
for _, rate in ipairs(rates) do
    rate[4] = 60000000 / rate[2]
    rate[5] = math.max(tonumber(redis.call('GET', rate[1]) or '0'), now)
    local wait = rate[5] - now - rate[4] * (rate[2] - 1)
    if wait >= 1 then return {rate[3] > 0 and 'quota' or 'minute', math.ceil(wait), rate[3]} end
end
for _, rate in ipairs(rates) do
    local next = rate[5] + rate[4]
    redis.call('SET', rate[1], text(next), 'PX', text((next - now) / 1000 + 1))
end
redis.call('ZADD', KEYS[1], text(now + ARGV[2] * 1000), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if run then
    redis.call('INCR', KEYS[3])
    redis.call('EXPIRE', KEYS[3], ARGV[6])
end
return {'', 0, 0}";

/// Renews the leases of calls in flight.
const RENEW: &str = r"
local t = redis.call('TIME')
local ends = string.format('%.0f', t[1] * 1000000 + t[2] + ARGV[1] * 1000)
for at, key in ipairs(KEYS) do
    redis.call('ZADD', key, 'XX', ends, ARGV[at + 1])
    redis.call('PEXPIRE', key, ARGV[1])
end";

/// Compare-and-swap of a shared file; returns its new version, or false if the version differs.
const PUSH: &str = r"
if (redis.call('HGET', KEYS[1], 'version') or '') ~= ARGV[1] then return false end
redis.call('HSET', KEYS[1], 'text', ARGV[2])
return tostring(redis.call('HINCRBY', KEYS[1], 'version', 1))";

/// A file shared by all replicas.
struct SharedFile {
    key: String,
    path: PathBuf,
    /// Fingerprint of the file and version in the store when they were last in sync.
    same: Mutex<Option<(Fingerprint, Option<String>)>>,
}

/// The fields of an event.
type EventFields = HashMap<String, String>;

/// Calls in flight that are counted here, each with its key in the store.
type Leases = Arc<Mutex<HashMap<String, String>>>;

/// A [`SharedStore`] on a Redis or Valkey server.
pub struct Valkey {
    connection: ConnectionManager,
    place: String,
    away: watch::Sender<Option<Arc<str>>>,
    codec: RwLock<Option<RequestStateCodec>>,
    documents: Vec<SharedFile>,
    policy: PolicyKeeper,
    leases: Leases,
    replica: String,
    counted: AtomicU64,
    exchanged: AtomicU64,
    scripts: [Script; 3],
}

/// The slot of one call in flight; freed on drop.
struct CallPlace {
    connection: ConnectionManager,
    leases: Leases,
    member: String,
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        let key = self.leases.lock().remove(&self.member);
        let (Some(key), Ok(runtime)) = (key, tokio::runtime::Handle::try_current()) else { return };
        let (mut connection, member) = (self.connection.clone(), std::mem::take(&mut self.member));
        runtime.spawn(async move { connection.zrem::<_, _, ()>(key, member).await });
    }
}

impl Valkey {
    /// The store at `redis://HOST:PORT/DATABASE`, or `rediss://` over TLS; a password must be
    /// a `${...}` reference to where it is kept. Connects at the first exchange. Replicas share the
    /// file of tokens and those of `policy`.
    ///
    /// # Errors
    /// When the address is invalid; the message never contains the password.
    pub fn new(
        address: &str,
        env: &Environment,
        tokens: &Path,
        policy: PolicyKeeper,
    ) -> Result<Arc<Self>, String> {
        let form = "write --store redis://HOST:PORT/DATABASE, or rediss:// for TLS";
        let (scheme, rest) = address.split_once("://").ok_or(form)?;
        if !matches!(scheme, "redis" | "rediss") {
            return Err(form.to_owned());
        }
        let (user, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let url = url::Url::parse(&format!("{scheme}://{place}")).map_err(|_| form)?;
        let info = url.into_connection_info().map_err(|_| form)?;
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        let mut settings = info.redis_settings().clone();
        if !user.is_empty() {
            settings = settings.set_username(user);
        }
        if !password.is_empty() {
            if !password.starts_with("${") {
                return Err("every local user can read arguments: write the password of the \
                            store as ${env:NAME}, ${secret:NAME} or ${keyring:NAME}"
                    .to_owned());
            }
            settings = settings.set_password(expand_argument(password, env)?.expose());
        }
        mcp::provide_tls();
        let client = Client::open(info.set_redis_settings(settings)).map_err(|_| form)?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(STORE_TIMEOUT))
            .set_response_timeout(Some(STORE_TIMEOUT))
            .set_pipeline_buffer_size(1_000)
            .set_number_of_retries(1);
        let connection = ConnectionManager::new_lazy_with_config(client, config);
        let files = policy.files().into_iter().chain([("tokens", tokens.to_owned())]);
        let documents = files.map(|(kind, path)| SharedFile {
            key: format!("mcpdeck:file:{kind}"),
            path,
            same: Mutex::default(),
        });
        Ok(Arc::new(Self {
            connection: connection.map_err(|error| error.to_string())?,
            place: place.to_owned(),
            away: watch::Sender::new(Some(NEW.into())),
            codec: RwLock::default(),
            documents: documents.collect(),
            policy,
            leases: Leases::default(),
            replica: random_hex::<8>().map_err(|error| error.to_string())?,
            counted: AtomicU64::default(),
            exchanged: AtomicU64::default(),
            scripts: [ADMIT, RENEW, PUSH].map(Script::new),
        }))
    }

    /// Host, port and database number, without credentials.
    pub fn place(&self) -> &str {
        &self.place
    }

    async fn exchanged(
        &self,
        sessions: &[String],
        waiting: Vec<String>,
    ) -> Result<Vec<String>, String> {
        let mut pipe = ::redis::pipe();
        for document in &self.documents {
            pipe.hget(&document.key, "version");
        }
        for session in sessions {
            pipe.expire(key("session", session), SESSION_LIFETIME_SECONDS).ignore();
        }
        for call in &waiting {
            pipe.exists(key("taken", call));
        }
        let mut connection = self.connection.clone();
        let found: Vec<Option<String>> = pipe.query_async(&mut connection).await.map_err(words)?;
        let is_new = self.away.borrow().is_some();
        if is_new
            || self.exchanged.fetch_add(1, Ordering::Relaxed).is_multiple_of(RENEWAL_EXCHANGES)
        {
            self.renew().await.map_err(words)?;
        }
        let mut pulled = false;
        for (document, version) in self.documents.iter().zip(&found) {
            pulled |= self.join(document, version.as_ref()).await?;
        }
        if pulled {
            self.policy.look_again().await;
        }
        let taken = found.iter().skip(self.documents.len());
        let taken = waiting.into_iter().zip(taken);
        Ok(taken.filter(|(_, found)| found.as_deref() == Some("1")).map(|(call, _)| call).collect())
    }

    /// Renews the leases of calls, and reads the keys of `requestState`: one per day, created a day
    /// ahead, so that every replica has it before any replica uses it.
    async fn renew(&self) -> RedisResult<()> {
        const KEYS: &str = "mcpdeck:keys";
        let mut connection = self.connection.clone();
        let leases: Vec<(String, String)> =
            self.leases.lock().iter().map(|(member, key)| (key.clone(), member.clone())).collect();
        if !leases.is_empty() {
            let mut renew = self.scripts[1].arg(LEASE_LIFETIME_MILLIS);
            for (key, member) in &leases {
                renew.key(key).arg(member);
            }
            renew.invoke_async::<()>(&mut connection).await?;
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let day = since.as_secs() / 86_400;
        let mut pipe = ::redis::pipe();
        for day in [day, day + 1] {
            if let Ok(key) = random_hex::<32>() {
                pipe.hset_nx(KEYS, day, key).ignore();
            }
        }
        pipe.hdel(KEYS, day.saturating_sub(2)).ignore().hgetall(KEYS);
        let (keys,): (HashMap<String, String>,) = pipe.query_async(&mut connection).await?;
        let codec = RequestStateCodec::new_with_keyring(day.to_string(), keys);
        *self.codec.write() = codec.ok();
        Ok(())
    }

    /// Synchronizes a file with its copy in the store; returns whether the file was written.
    async fn join(&self, document: &SharedFile, version: Option<&String>) -> Result<bool, String> {
        let now = (Fingerprint::from_path(&document.path), version.cloned());
        if document.same.lock().as_ref() == Some(&now) {
            return Ok(false);
        }
        let mut connection = self.connection.clone();
        let mut pulled = false;
        loop {
            let key = &document.key;
            let stored = connection.hmget(key, &["version", "text"]).await.map_err(words)?;
            let (mut version, text): (Option<String>, Option<String>) = stored;
            let path = document.path.clone();
            let joined = tokio::task::spawn_blocking(move || join_file(&path, text.as_deref()));
            let joined = joined.await.map_err(|error| error.to_string())??;
            pulled |= joined.is_written;
            if let Some(push) = &joined.push {
                let was = version.as_deref().unwrap_or_default();
                let mut script = self.scripts[2].key(key);
                let pushed = script.arg(was).arg(push).invoke_async(&mut connection).await;
                version = pushed.map_err(words)?;
                if version.is_none() {
                    continue;
                }
            }
            if let Some(text) = &joined.text {
                let base = base_of(&document.path);
                replace_private(&base, text.as_bytes()).map_err(|e| e.to_string())?;
            }
            *document.same.lock() = Some((joined.file, version));
            return Ok(pulled);
        }
    }

    /// One hash for each day: a field for the calls, and one for the tokens, of everybody's quotas.
    async fn quota_use(&self, day: u64, new: Vec<QuotaUse>) -> Result<Vec<QuotaUse>, String> {
        /// A day is kept until no clock that is a little slow asks for it any more.
        const DAY_LIFETIME: Duration = Duration::from_secs(2 * 86_400);
        let key = key("quotas", &day.to_string());
        let mut pipe = ::redis::pipe();
        for one in new.iter().filter(|one| one.day == day) {
            let field = |what: char| format!("{what}{}\u{1f}{}", one.quota, one.whose);
            pipe.hincr(&key, field('c'), one.calls).ignore();
            pipe.hincr(&key, field('t'), one.result_tokens).ignore();
        }
        pipe.expire(&key, DAY_LIFETIME.as_secs() as i64).ignore().hgetall(&key);
        let all = pipe.query_async(&mut self.connection.clone()).await;
        let (all,): (HashMap<String, u64>,) = all.map_err(words)?;
        let mut used: HashMap<&str, QuotaUse> = HashMap::new();
        for (field, number) in &all {
            let Some((what, rest)) = field.split_at_checked(1) else { continue };
            let Some((quota, whose)) = rest.split_once('\u{1f}') else { continue };
            let one = used.entry(rest).or_insert_with(|| QuotaUse {
                quota: quota.into(),
                whose: whose.into(),
                day,
                ..QuotaUse::default()
            });
            match what {
                "c" => one.calls = *number,
                _ => one.result_tokens = *number,
            }
        }
        Ok(used.into_values().collect())
    }

    async fn counted(&self, claim: LimitClaim<'_>) -> Result<Lease, LimitRefusal> {
        let number = self.counted.fetch_add(1, Ordering::Relaxed);
        let member = format!("{} {number}", self.replica);
        let LimitClaim { origin, tool, run, limits, minutes, .. } = claim;
        let per_minute = limits.calls_per_minute;
        let busy = format!("mcpdeck:busy:{origin}");
        let mut script = self.scripts[0].key(&busy);
        script.key(format!("mcpdeck:rate:{per_minute}:{origin}:{tool}"));
        script.arg(&member).arg(LEASE_LIFETIME_MILLIS).arg(limits.calls_at_once).arg(per_minute);
        match run {
            Some((run, calls)) => {
                script.key(format!("mcpdeck:run:{origin}:{run}")).arg(calls);
                script.arg(run.timeout().as_secs());
            }
            None => _ = script.arg("").arg(""),
        }
        for one in minutes {
            let MinuteClaim { quota, whose, calls, .. } = one;
            script.key(format!("mcpdeck:minute:{calls}:{quota}\u{1f}{whose}")).arg(calls);
        }
        let mut connection = self.connection.clone();
        let counted: RedisResult<(String, u64, usize)> = script.invoke_async(&mut connection).await;
        let (reached, wait, place) = counted.map_err(|error| {
            tracing::warn!(target: "mcpdeck::gateway", "a call cannot be counted: {error}");
            LimitRefusal::Away(RETRY_INTERVAL)
        })?;
        match (&*reached, run) {
            ("busy", _) => Err(LimitRefusal::AtOnce(limits.calls_at_once)),
            ("minute", _) => Err(LimitRefusal::PerMinute(Duration::from_micros(wait))),
            ("quota", _) => {
                let wait = Duration::from_micros(wait);
                let used = place.checked_sub(1).and_then(|at| minutes.get(at));
                Err(used.map_or(LimitRefusal::PerMinute(wait), |claim| {
                    LimitRefusal::Quota(claim.refusal(wait))
                }))
            }
            ("run", Some((run, calls))) => {
                let budget = host::Budget { calls, spent: calls };
                let is_named = matches!(run, host::CountedRun::Named(_));
                let ends_in = (!is_named).then(|| Duration::from_micros(wait));
                Err(LimitRefusal::Run { budget, ends_in })
            }
            _ => {
                self.leases.lock().insert(member.clone(), busy);
                let leases = Arc::clone(&self.leases);
                Ok(Box::new(CallPlace { connection, leases, member }))
            }
        }
    }
}

/// The key of an item in the store.
fn key(kind: &str, id: &str) -> String {
    format!("mcpdeck:{kind}:{id}")
}

fn words(error: RedisError) -> String {
    error.to_string()
}

/// The file that holds the common base of a file and its copy in the store.
fn base_of(path: &Path) -> PathBuf {
    path.with_extension("shared")
}

/// The result of merging a file with its copy in the store.
struct Joined {
    file: Fingerprint,
    is_written: bool,
    /// The merged content.
    text: Option<String>,
    /// The content to push; `None` if the store is up to date.
    push: Option<String>,
}

fn join_file(path: &Path, theirs: Option<&str>) -> Result<Joined, String> {
    let fail = |what: String| format!("{}: {what}", base::text::path::spelled(path));
    let read = |path: &Path| {
        let bytes = StateFile::new(path, MAX_FILE_BYTES)
            .bytes()
            .map_err(|error| fail(error.to_string()))?;
        let value = bytes.map(|bytes| serde_json::from_slice::<Value>(&bytes));
        value.transpose().map_err(|error| fail(error.to_string()))
    };
    alone(path, || {
        let mine = read(path)?;
        let theirs = theirs.map(serde_json::from_str::<Value>).transpose();
        let theirs = theirs.map_err(|error| fail(format!("its copy in the store: {error}")))?;
        let joined = match (&mine, &theirs) {
            (Some(mine), Some(theirs)) => {
                Some(merge(&read(&base_of(path))?.unwrap_or_default(), mine, theirs))
            }
            // A store that has lost the file gets it again.
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        let is_written = joined != mine;
        let text = joined.as_ref().map(|joined| format!("{joined:#}"));
        if let (true, Some(text)) = (is_written, &text) {
            replace_private(path, text.as_bytes()).map_err(|e| fail(e.to_string()))?;
        }
        let push = text.clone().filter(|_| joined != theirs);
        Ok(Joined { file: Fingerprint::from_path(path), is_written, text, push })
    })
}

impl SharedLimits for Valkey {
    fn admit<'a>(&'a self, claim: LimitClaim<'a>) -> BoxFuture<'a, Result<Lease, LimitRefusal>> {
        Box::pin(self.counted(claim))
    }

    fn add_quota_use(
        &self,
        day: u64,
        new: Vec<QuotaUse>,
    ) -> BoxFuture<'_, Result<Vec<QuotaUse>, String>> {
        Box::pin(self.quota_use(day, new))
    }
}

#[async_trait::async_trait]
impl SharedStore for Valkey {
    fn away(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.away.subscribe()
    }

    async fn owner(&self, session: &str) -> Result<Option<String>, String> {
        self.connection.clone().hget(key("session", session), "owner").await.map_err(words)
    }

    async fn set_owner(&self, session: &str, client: &str) {
        let key = key("session", session);
        let owned: RedisResult<()> = self.connection.clone().hset(key, "owner", client).await;
        if let Err(error) = owned {
            tracing::warn!(target: "mcpdeck::gateway", "session not shared: {error}");
        }
    }

    async fn append(&self, stream: &str, event: String, keep: Duration) -> Result<String, String> {
        let key = key("events", stream);
        let mut add = ::redis::cmd("XADD");
        add.arg(&key)
            .arg("MAXLEN")
            .arg("~")
            .arg(MAX_STREAM_EVENTS)
            .arg("*")
            .arg("event")
            .arg(event);
        let mut pipe = ::redis::pipe();
        pipe.add_command(add).expire(&key, keep.as_secs() as i64).ignore();
        let added = pipe.query_async(&mut self.connection.clone()).await;
        let (id,): (String,) = added.map_err(words)?;
        Ok(format!("{stream}/{id}"))
    }

    async fn events_after(&self, id: &str) -> Result<KeptEvents, String> {
        let (stream, after) = id.rsplit_once('/').ok_or("no event has this id")?;
        let key = key("events", stream);
        let mut range = ::redis::cmd("XRANGE");
        range.arg(&key).arg(format!("({after}")).arg("+").arg("COUNT").arg(MAX_STREAM_EVENTS);
        let mut pipe = ::redis::pipe();
        pipe.exists(&key).add_command(range);
        let found = pipe.query_async(&mut self.connection.clone()).await;
        let (is_kept, found): (bool, Vec<(String, EventFields)>) = found.map_err(words)?;
        let event = |(id, mut fields): (String, EventFields)| {
            (format!("{stream}/{id}"), fields.remove("event").unwrap_or_default())
        };
        Ok(is_kept.then(|| found.into_iter().map(event).collect()))
    }

    fn seal(&self, waiting: &ParkedCall, context: &str) -> Option<String> {
        let options = SealOptions::new().associated_data(context.as_bytes()).ttl(INPUT_TIMEOUT);
        self.codec.read().as_ref()?.seal_json_with(waiting, &options).ok()
    }

    fn open(&self, state: &str, context: &str) -> Option<ParkedCall> {
        self.codec.read().as_ref()?.open_json_with(state, context.as_bytes()).ok()
    }

    async fn take(&self, call: &str) -> bool {
        let mut take = ::redis::cmd("SET");
        take.arg(key("taken", call))
            .arg(&self.replica)
            .arg("NX")
            .arg("EX")
            .arg(INPUT_TIMEOUT.as_secs());
        let taken: RedisResult<Option<String>> =
            take.query_async(&mut self.connection.clone()).await;
        taken.is_ok_and(|taken| taken.is_some())
    }

    async fn keep_task(&self, id: &str, task: &SharedTask, keep: Duration) -> Result<(), String> {
        let text = serde_json::to_string(task).map_err(|error| error.to_string())?;
        let mut pipe = ::redis::pipe();
        pipe.set_ex(key("task", id), text, keep.as_secs().max(1)).ignore();
        if task.is_over {
            pipe.del(key("runs", id)).ignore();
        } else {
            pipe.pset_ex(key("runs", id), &self.replica, LEASE_LIFETIME_MILLIS).ignore();
        }
        pipe.query_async(&mut self.connection.clone()).await.map_err(words)
    }

    async fn task(&self, id: &str) -> Result<Option<(SharedTask, bool)>, String> {
        let mut pipe = ::redis::pipe();
        pipe.get(key("task", id)).exists(key("runs", id));
        let found = pipe.query_async(&mut self.connection.clone()).await;
        let (text, runs): (Option<String>, bool) = found.map_err(words)?;
        let task = text.map(|text| serde_json::from_str(&text)).transpose();
        let task: Option<SharedTask> = task.map_err(|error| error.to_string())?;
        Ok(task.map(|task| (task, runs)))
    }

    async fn tell_task(&self, id: &str, message: String) -> Result<(), String> {
        let (key, mut connection) = (key("told", id), self.connection.clone());
        let mut pipe = ::redis::pipe();
        pipe.rpush(&key, message).ignore();
        pipe.expire(&key, TASK_MESSAGE_LIFETIME.as_secs() as i64).ignore();
        pipe.query_async::<()>(&mut connection).await.map_err(words)?;
        let taken = async {
            while connection.exists(&key).await.map_err(words)? {
                tokio::time::sleep(TAKEN_INTERVAL).await;
            }
            Ok(())
        };
        tokio::time::timeout(TAKEN_TIMEOUT, taken).await.unwrap_or(Ok(()))
    }

    async fn exchange_tasks(&self, running: Vec<String>) -> Vec<(String, String)> {
        if running.is_empty() {
            return Vec::new();
        }
        let mut pipe = ::redis::pipe();
        // All at once: a message that arrives between reading and deleting would be lost.
        pipe.atomic();
        for id in &running {
            pipe.pset_ex(key("runs", id), &self.replica, LEASE_LIFETIME_MILLIS).ignore();
            pipe.lrange(key("told", id), 0, -1).del(key("told", id)).ignore();
        }
        let told = pipe.query_async(&mut self.connection.clone()).await;
        let told: Vec<Vec<String>> = told.unwrap_or_else(|error: RedisError| {
            tracing::warn!(target: "mcpdeck::gateway", "tasks not exchanged: {error}");
            Vec::new()
        });
        let told = running.into_iter().zip(told);
        told.flat_map(|(id, all)| all.into_iter().map(move |one| (id.clone(), one))).collect()
    }

    async fn exchange(&self, sessions: Vec<String>, waiting: Vec<String>) -> Vec<String> {
        let (taken, away) = match self.exchanged(&sessions, waiting).await {
            Ok(taken) => (taken, None),
            Err(problem) => (Vec::new(), Some(Arc::from(problem))),
        };
        self.away.send_if_modified(|known| {
            let is_news = known.is_some() != away.is_some() || known.as_deref() == Some(NEW);
            *known = away;
            is_news
        });
        taken
    }
}

impl ChatStore for Valkey {
    fn save(&self, chat: KeptChat) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let KeptChat { id, owner, seq, talk, .. } = chat;
            let key = key("chat", &id);
            let fields = [("owner", owner), ("seq", seq.to_string()), ("talk", talk)];
            let mut pipe = ::redis::pipe();
            pipe.hset_multiple(&key, &fields).ignore().expire(&key, CHAT_LIFETIME_SECONDS).ignore();
            pipe.query_async(&mut self.connection.clone()).await.map_err(words)
        })
    }

    fn load<'a>(
        &'a self,
        id: &'a str,
        owner: &'a str,
    ) -> BoxFuture<'a, Result<Option<(u64, String)>, String>> {
        Box::pin(async move {
            let fields = ["owner", "seq", "talk"];
            let kept = self.connection.clone().hmget(key("chat", id), &fields).await;
            let kept: (Option<String>, Option<u64>, Option<String>) = kept.map_err(words)?;
            let (own, seq, talk) = kept;
            Ok(seq.zip(talk).filter(|_| own.as_deref() == Some(owner)))
        })
    }

    fn remove<'a>(&'a self, id: &'a str, owner: &'a str) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            let (key, mut connection) = (key("chat", id), self.connection.clone());
            let own: Option<String> = connection.hget(&key, "owner").await.map_err(words)?;
            if own.as_deref() != Some(owner) {
                return Ok(false);
            }
            let removed: u64 = connection.del(&key).await.map_err(words)?;
            let _: u64 = connection.del(self::key("pictures", id)).await.map_err(words)?;
            Ok(removed > 0)
        })
    }

    fn save_pictures<'a>(
        &'a self,
        id: &'a str,
        owner: &'a str,
        pictures: String,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let key = key("pictures", id);
            let fields = [("owner", owner), ("pictures", &pictures)];
            let mut pipe = ::redis::pipe();
            pipe.hset_multiple(&key, &fields)
                .ignore()
                .expire(&key, PICTURE_LIFETIME_SECONDS)
                .ignore();
            pipe.query_async(&mut self.connection.clone()).await.map_err(words)
        })
    }

    fn load_pictures<'a>(
        &'a self,
        id: &'a str,
        owner: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move {
            let fields = ["owner", "pictures"];
            let kept = self.connection.clone().hmget(key("pictures", id), &fields).await;
            let (own, pictures): (Option<String>, Option<String>) = kept.map_err(words)?;
            Ok(pictures.filter(|_| own.as_deref() == Some(owner)))
        })
    }
}

#[async_trait::async_trait]
impl SessionStore for Valkey {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let state: Option<String> =
            self.connection.clone().hget(key("session", id), "state").await?;
        Ok(state.map(|state| serde_json::from_str(&state)).transpose()?)
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let (key, state) = (key("session", id), serde_json::to_string(state)?);
        let mut pipe = ::redis::pipe();
        pipe.hset(&key, "state", state).ignore().expire(&key, SESSION_LIFETIME_SECONDS).ignore();
        Ok(pipe.query_async(&mut self.connection.clone()).await?)
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        Ok(self.connection.clone().del(key("session", id)).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_and_its_copy_become_the_same_whatever_happened_to_either() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("tokens.json");
        let tokens = |ids: &[&str]| {
            let tokens: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
            json!({"version": 1, "tokens": tokens}).to_string()
        };
        let join = |theirs: Option<&str>| {
            let joined = join_file(&path, theirs).expect("joined");
            let same = |text: &str| serde_json::from_str::<Value>(text).expect("JSON").to_string();
            let push = joined.push.as_deref().map(same);
            let text = joined.text.as_deref().map(same);
            if let Some(text) = &text {
                replace_private(&base_of(&path), text.as_bytes()).expect("written");
            }
            (joined.is_written, text, push)
        };
        assert_eq!(join(None), (false, None, None));
        let one = tokens(&["a", "b"]);
        assert_eq!(join(Some(&one)), (true, Some(one.clone()), None), "a new replica");
        assert_eq!(join(Some(&one)), (false, Some(one.clone()), None));
        assert_eq!(join(None), (false, Some(one.clone()), Some(one)), "a store that lost it");
        // One was revoked here while the service was down, another was created elsewhere.
        replace_private(&path, tokens(&["b"]).as_bytes()).expect("written");
        let both = tokens(&["b", "c"]);
        let joined = join(Some(&tokens(&["a", "b", "c"])));
        assert_eq!(joined, (true, Some(both.clone()), Some(both)));
        replace_private(&path, b"{").expect("written");
        assert!(join_file(&path, None).is_err(), "a truncated file is refused");
    }
}
