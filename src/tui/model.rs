//! What the screen knows about the engine: the view, mirrors of the telemetry rings, snapshots.
//! Changed only by `App::update`; panes read it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;

use crate::prelude::*;
use crate::suites::KnownSuites;
use base::LogLevel;
use base::logs::LogRecord;
use base::ring::Batch;
use config::{Diagnostic, McpConfig, ServerConfig};
use deck::{ClientView, PolicyView, RecordedOperations};
use host::{ApprovalRequest, Blocked, CacheView, CallView, HostView, ServerMetrics, ServerView};
use process::Usage;
use protocol::{CallId, TrafficRecord};

mod inbox;
mod watched;
pub use deck::{FileText, InputState, InputView, Situation};
pub(crate) use inbox::last_text;
pub use inbox::{Todo, kind_word, who_asks};
pub use watched::Watched;

/// The time zone times are shown in; set once when the dashboard starts, UTC before that.
static ZONE: std::sync::OnceLock<jiff::tz::TimeZone> = std::sync::OnceLock::new();

/// Shows times in the zone of the system from now on.
pub fn use_local_time() {
    let _ = ZONE.set(jiff::tz::TimeZone::system());
}

/// A moment in the zone times are shown in.
pub fn zoned(at: Timestamp) -> jiff::Zoned {
    let zone = ZONE.get().cloned().unwrap_or(jiff::tz::TimeZone::UTC);
    let micros = i64::try_from(at.0).unwrap_or_default();
    jiff::Timestamp::from_microsecond(micros).unwrap_or_default().to_zoned(zone)
}

/// Most different errors that are counted, and how much of each is compared.
const MAX_UNSEEN_ERRORS: usize = 999;
const MAX_ERROR_CHARS: usize = 200;

/// Most ended calls that are remembered.
const MAX_ENDED_CALLS: usize = 64;

/// Playback position of the recording shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Playback {
    /// The name of its file.
    pub name: SafeText,
    /// When it begins.
    pub began: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// The moment that is shown.
    pub at: Timestamp,
    /// Whether playback is running.
    pub is_playing: bool,
    /// Speed, as a multiple of the recorded pace.
    pub speed: f64,
    /// Share of the file read so far, while it is being read.
    pub read: Option<f64>,
    /// Whether secrets were masked.
    pub is_scrubbed: bool,
    /// What could not be read of the file.
    pub losses: Option<SafeText>,
}

/// Everything panes read.
#[derive(Debug, Default)]
pub struct Model {
    /// Newest view of the engine.
    pub view: Arc<HostView>,
    /// The one server every pane is narrowed to.
    pub scope: Option<ServerName>,
    /// Servers the user marked: restarted and stopped together; logs and traffic show only these.
    pub marked: BTreeSet<ServerName>,
    /// Messages, as far as the ring still holds them.
    pub traffic: Feed<TrafficRecord>,
    /// Log lines, as far as the ring still holds them.
    pub logs: Feed<LogRecord>,
    /// Operations and their outcomes, as far as they are kept.
    pub operations: Arc<RecordedOperations>,
    /// The recording shown instead of running servers, if any.
    pub playback: Option<Playback>,
    /// The file everything is recorded to.
    pub recording: Option<SafeText>,
    /// Different errors logged since the logs were last viewed.
    pub unseen_errors: BTreeSet<String>,
    /// Metrics by server.
    pub metrics: HashMap<ServerName, ServerMetrics>,
    /// Calls in flight.
    pub calls: Vec<CallView>,
    /// Our recently ended calls: a snapshot taken before the end may arrive after it.
    ended: VecDeque<CallId>,
    /// The address clients connect to, while the dashboard serves.
    pub served: Option<SafeText>,
    /// Clients of the service.
    pub clients: Vec<ClientView>,
    /// Recent denials, oldest first.
    pub blocked: Vec<Blocked>,
    /// The policy: who may do what.
    pub policy: Arc<PolicyView>,
    /// Subscriptions and tasks.
    pub watched: Watched,
    pub cache: CacheView,
    /// The suites of tests.
    pub suites: KnownSuites,
    /// Memory and CPU use by server.
    pub usage: HashMap<ServerName, Usage>,
    /// Messages per second and server.
    pub activity: Activity,
    /// The configuration in use, when it is known here.
    pub config: Option<Arc<McpConfig>>,
    /// The text of its files.
    pub files: Arc<[FileText]>,
    /// Why the configuration could not be used at all.
    pub refused: Vec<Diagnostic>,
    /// State of the configuration: files, values, and what waits for the user.
    pub situation: Arc<Situation>,
    /// The name of the model that drafts answers, if one is registered.
    pub drafter: Option<SafeText>,
    /// Drafts of answers whose requests were withdrawn, with the reasons; kept for copying.
    pub kept_drafts: Vec<(Arc<ApprovalRequest>, SafeText)>,
    /// State of the engine.
    pub engine: EngineState,
    /// The current time.
    pub now: Timestamp,
    wake: Cell<Option<Timestamp>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum EngineState {
    /// Being built.
    #[default]
    Starting,
    Running,
    /// It could not be built; the problems are in [`Model::rejected`] or here.
    Failed(SafeText),
    /// Stopping since this time.
    Stopping(Timestamp),
}

impl Model {
    /// An empty model at this time.
    pub fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    /// Errors of the newest file, whether it failed on reload or at the start.
    pub fn rejected(&self) -> impl Iterator<Item = &Diagnostic> {
        self.refused.iter().chain(&self.view.rejected)
    }

    /// Adds messages; `oldest` is the first record the ring still holds.
    pub fn take_traffic(&mut self, batch: Batch<TrafficRecord>, oldest: u64) {
        let mut operations = self.playback.is_none().then(|| Arc::make_mut(&mut self.operations));
        for record in &batch.items {
            self.activity.count(&record.server, record.at);
            match &mut operations {
                Some(operations) => _ = operations.frame(record),
                None => self.watched.replay(record),
            }
        }
        self.traffic.take(batch, oldest);
    }

    /// Counts the errors among new log lines. One that comes again, with each attempt say, counts
    /// once: numbers in it do not matter, nor which state of a server has it as its reason.
    pub fn count_errors(&mut self, lines: &[Arc<LogRecord>]) {
        for line in lines.iter().filter(|line| line.level >= LogLevel::Error) {
            if self.unseen_errors.len() >= MAX_UNSEEN_ERRORS {
                return;
            }
            let states = ["crashed: ", "unavailable: "];
            let reason = states.into_iter().find_map(|state| line.text.strip_prefix(state));
            let text = reason.unwrap_or(&line.text).chars().filter(|c| !c.is_ascii_digit());
            let text: String = text.take(MAX_ERROR_CHARS).collect();
            let server = line.server.as_ref().map_or("", ServerName::as_str);
            self.unseen_errors.insert(format!("{server} {text}"));
        }
    }

    /// Takes a newer view.
    pub fn take_view(&mut self, view: Arc<HostView>) {
        if let Some(scope) = &self.scope {
            // A scope remembered from the last run waits for its server; when a server that was
            // present is removed, the scope is reset.
            let was_here = self.view.servers.contains_key(scope);
            if was_here && !view.servers.contains_key(scope) {
                self.scope = None;
            }
        }
        self.view = view;
    }

    /// Records that one of our calls ended, so that an older snapshot cannot bring it back.
    pub fn call_ended(&mut self, id: CallId) {
        self.calls.retain(|call| call.id != id);
        self.ended.truncate(MAX_ENDED_CALLS - 1);
        self.ended.push_front(id);
    }

    /// Whether this is one of our recently ended calls.
    pub fn has_ended(&self, id: CallId) -> bool {
        self.ended.contains(&id)
    }

    /// Takes a snapshot of calls in flight; returns whether it differs.
    pub fn take_calls(&mut self, mut calls: Vec<CallView>) -> bool {
        calls.retain(|call| !self.ended.contains(&call.id));
        // How long one has waited differs at every look, and is not drawn from here.
        let shown = |call: &CallView| (call.id, call.is_waiting, call.progress.clone());
        let differs = !self.calls.iter().map(shown).eq(calls.iter().map(shown));
        self.calls = calls;
        differs
    }

    /// Servers in scope, in file order.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<ServerView>> {
        self.view.servers.values().filter(|server| self.in_scope(&server.name))
    }

    /// Whether a server is in scope.
    pub fn in_scope(&self, server: &ServerName) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope == server)
    }

    /// A declared input.
    pub fn input(&self, id: &str) -> Option<&InputView> {
        self.situation.inputs.iter().find(|view| view.input.id == id)
    }

    /// The servers that logs and traffic are narrowed to; empty for all.
    pub fn narrowed(&self) -> BTreeSet<ServerName> {
        self.scope.as_ref().map_or_else(|| self.marked.clone(), |one| [one.clone()].into())
    }

    /// One server's view.
    pub fn server(&self, name: &ServerName) -> Option<&Arc<ServerView>> {
        self.view.servers.get(name)
    }

    /// One server's entry of the configuration.
    pub fn entry(&self, name: &ServerName) -> Option<&ServerConfig> {
        self.config.as_ref()?.servers.get(name)
    }

    /// File and line of an entry; otherwise of the first error, or the file of highest precedence.
    pub fn place_of(&self, name: Option<&ServerName>) -> Option<(PathBuf, u32)> {
        let server = name.and_then(|name| self.entry(name));
        if let Some(server) = server.filter(|s| !s.at.file.as_os_str().is_empty()) {
            return Some((server.at.file.clone(), server.at.line));
        }
        // A file with an error opens at the error.
        if let Some(wrong) = self.rejected().next() {
            return Some((wrong.at.file.clone(), wrong.at.line));
        }
        self.files.last().map(|file| (file.path.clone(), 1))
    }

    /// A server name as drawable text.
    pub fn name(name: &ServerName) -> Ink {
        Ink::line(name.as_str())
    }

    /// A server in a sentence: with the word and in quotes, as a name may read like a word.
    pub fn quoted(name: &ServerName) -> Ink {
        ink!("server \"{}\"", Self::name(name))
    }

    /// Clears the next wake time; called before a frame is prepared.
    pub fn reset_wake(&self) {
        self.wake.set(None);
    }

    /// When the first relative time on the screen changes.
    pub const fn wake(&self) -> Option<Timestamp> {
        self.wake.get()
    }

    /// Requests another frame at once.
    pub fn wake_soon(&self) {
        self.wake_at(self.now);
    }

    /// Requests a frame at this time, when a text on the screen changes.
    pub fn wake_at(&self, at: Timestamp) {
        if self.wake.get().is_none_or(|earlier| at < earlier) {
            self.wake.set(Some(at));
        }
    }

    /// Whether a time has passed; otherwise requests a frame for that time.
    pub fn is_past(&self, at: Timestamp) -> bool {
        let past = self.now >= at;
        if !past {
            self.wake_at(at);
        }
        past
    }

    /// Rough time left until something: `4m`, `3h`, `2d`.
    pub fn left(&self, at: Timestamp) -> Ink {
        let seconds = at.since(self.now).as_secs();
        let (unit, word) = unit_of(seconds);
        let units = seconds / unit;
        // One microsecond later the count drops by one.
        self.wake_at(Timestamp(at.0.saturating_sub(units * unit * 1_000_000) + 1));
        ink!("{}{}", units, word)
    }

    /// Rough age of something finished: `now`, `4m`, `3h`, `2d`. Changes at most once a minute.
    pub fn ago(&self, at: Timestamp) -> Ink {
        let seconds = self.now.since(at).as_secs();
        let (unit, word) = unit_of(seconds);
        self.wake_at(at.plus(Duration::from_secs((seconds / unit + 1) * unit)));
        if self.is_now(at) { ink!("now") } else { ink!("{}{}", seconds / unit, word) }
    }

    /// Whether something is finished for less than a minute.
    const fn is_now(&self, at: Timestamp) -> bool {
        self.now.since(at).as_secs() < 60
    }

    /// Rough age as a phrase: `just now`, `4m ago`.
    pub fn when(&self, at: Timestamp) -> Ink {
        let ago = self.ago(at);
        if self.is_now(at) { ink!("just now") } else { ink!("{} ago", ago) }
    }

    /// Messages of a server in the newest `n` slots of [`Activity`]; redraws while any is shown.
    pub fn recent(&self, server: &ServerName, n: usize) -> Vec<u32> {
        let recent = self.activity.recent(server, n, self.now);
        if recent.iter().any(|count| *count > 0) {
            self.wake_at(Timestamp(
                (self.now.0 / Activity::SLOT_MICROS + 1) * Activity::SLOT_MICROS,
            ));
        }
        recent
    }

    /// How long something has been running, to the second.
    pub fn elapsed(&self, since: Timestamp) -> Ink {
        let seconds = self.now.since(since).as_secs();
        self.wake_at(since.plus(Duration::from_secs(seconds + 1)));
        seconds_text(seconds)
    }

    /// How long until something happens, to the second.
    pub fn until(&self, at: Timestamp) -> Ink {
        let left = at.since(self.now);
        let seconds = left.as_micros().div_ceil(1_000_000) as u64;
        if seconds > 0 {
            let next = Duration::from_secs(seconds - 1);
            self.wake_at(Timestamp(at.0 - next.as_micros() as u64));
        }
        seconds_text(seconds)
    }

    /// Time of day in `cells` cells; without milliseconds where they do not fit.
    pub fn time_in(at: Timestamp, cells: u16) -> Ink {
        let time = Self::time_of_day(at);
        let end = if cells < 12 { 8 } else { usize::MAX };
        ink!("{}", terminal::ink::InkSlice::new(&time, 0, end))
    }

    /// Local time of day: `14:03:59.120`.
    pub fn time_of_day(at: Timestamp) -> Ink {
        Ink::line(&zoned(at).strftime("%H:%M:%S%.3f").to_string())
    }

    /// Servers in the files that are missing because their entry cannot be used, each with its
    /// first problem; errors take precedence.
    pub fn left_out(&self) -> Vec<(&ServerName, &Diagnostic)> {
        let mut out: Vec<(&ServerName, &Diagnostic)> = Vec::new();
        let errors = self.view.diagnostics.iter().filter(|d| d.is_error());
        let dependents = self.view.diagnostics.iter().filter(|d| d.rule == "config/left-out");
        for diagnostic in errors.chain(dependents) {
            let Some(name) = &diagnostic.server else { continue };
            if self.server(name).is_none() && !out.iter().any(|(known, _)| *known == name) {
                out.push((name, diagnostic));
            }
        }
        out
    }
}

/// The unit, in seconds, for showing this many seconds, and its suffix.
const fn unit_of(seconds: u64) -> (u64, &'static str) {
    match seconds {
        0..3_600 => (60, "m"),
        3_600..86_400 => (3_600, "h"),
        _ => (86_400, "d"),
    }
}

fn seconds_text(seconds: u64) -> Ink {
    if seconds < 60 { ink!("{} s", seconds) } else { ink!("{}", Dur(Duration::from_secs(seconds))) }
}

// Messages per server over the last minute, in slots of two seconds: the spark-lines.

/// Counts by server and slot; slots without a message are not kept.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    by_server: HashMap<ServerName, BTreeMap<u64, u32>>,
}

impl Activity {
    /// Slots that are kept.
    pub const MAX_SLOTS: usize = 30;
    /// Length of one slot in microseconds.
    pub const SLOT_MICROS: u64 = 2_000_000;

    /// Counts one message.
    pub fn count(&mut self, server: &ServerName, at: Timestamp) {
        let slots = self.by_server.entry(server.clone()).or_default();
        *slots.entry(at.0 / Self::SLOT_MICROS).or_default() += 1;
        if slots.len() > Self::MAX_SLOTS {
            slots.pop_first();
        }
    }

    /// The newest `n` slots up to now, oldest first.
    pub fn recent(&self, server: &ServerName, n: usize, now: Timestamp) -> Vec<u32> {
        let end = now.0 / Self::SLOT_MICROS + 1;
        let begin = end.saturating_sub(n as u64);
        let count = |slot| self.by_server.get(server)?.get(&slot).copied();
        let mut recent = vec![0; n - (end - begin) as usize];
        recent.extend((begin..end).map(|slot| count(slot).unwrap_or_default()));
        recent
    }
}

// A mirror of a telemetry ring: it shares the records and drops them when the ring does.

/// Records by sequence number. Bounded by the ring it mirrors.
#[derive(Debug)]
pub struct Feed<T> {
    items: VecDeque<Arc<T>>,
    first: u64,
    dropped: u64,
}

impl<T> Default for Feed<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), first: 0, dropped: 0 }
    }
}

impl<T> Feed<T> {
    /// Adds a batch of records; `oldest` is the first record the ring still holds.
    pub fn take(&mut self, batch: Batch<T>, oldest: u64) {
        if batch.missed > 0 {
            // Records were dropped before they were read: those kept here are older than the gap.
            self.dropped += batch.missed + self.items.len() as u64;
            self.items.clear();
        }
        if self.items.is_empty() {
            self.first = batch.first;
        }
        self.items.extend(batch.items);
        while self.first < oldest && self.items.pop_front().is_some() {
            self.first += 1;
            self.dropped += 1;
        }
    }

    /// Sequence number of the oldest record.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Sequence number after the newest record.
    pub fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Records dropped for lack of space, seen or not.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The record of a sequence number, if it is still there.
    pub fn get(&self, seq: u64) -> Option<&Arc<T>> {
        self.items.get(usize::try_from(seq.checked_sub(self.first)?).ok()?)
    }

    /// Records from a sequence number on, each with its own number.
    pub fn from(&self, seq: u64) -> impl Iterator<Item = (u64, &Arc<T>)> {
        let start = seq.max(self.first);
        let skip = usize::try_from(start - self.first).unwrap_or(usize::MAX).min(self.items.len());
        self.items.range(skip..).enumerate().map(move |(n, item)| (start + n as u64, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    #[test]
    fn a_screen_without_relative_times_never_wakes() {
        assert_eq!(Model::default().wake(), None);
    }

    #[test]
    fn the_next_wake_is_when_the_first_shown_time_changes() {
        let model = Model { now: at(1_000), ..Model::default() };
        assert_eq!(model.ago(at(400)).as_str(), "10m");
        assert_eq!(model.wake(), Some(at(1_060)));
        assert_eq!(model.elapsed(at(988)).as_str(), "12 s");
        assert_eq!(model.wake(), Some(at(1_001)));
        model.reset_wake();
        assert_eq!(model.until(at(1_008)).as_str(), "8 s");
        assert_eq!(model.wake(), Some(at(1_001)));
    }
}

#[cfg(test)]
mod activity_tests {
    use super::*;

    #[test]
    fn slots_age_and_gaps_are_empty() {
        let mut activity = Activity::default();
        let server = ServerName::new("a");
        for at in [0, 1, 4_000_000] {
            activity.count(&server, Timestamp(at));
        }
        let recent = |activity: &Activity, n, at| activity.recent(&server, n, Timestamp(at));
        assert_eq!(recent(&activity, 4, 4_000_000), [0, 2, 0, 1]);
        assert_eq!(recent(&activity, 4, 8_500_000), [0, 1, 0, 0], "idle slots follow");
        assert_eq!(recent(&activity, 4, 60_000_000), [0; 4]);
        activity.count(&server, Timestamp(900_000_000));
        assert_eq!(recent(&activity, 2, 900_000_000), [0, 1]);
    }
}

#[cfg(test)]
mod feed_tests {
    use super::*;
    use base::ring::{Ring, Weighed};

    struct ModelLine;
    impl Weighed for ModelLine {
        fn bytes(&self) -> usize {
            1
        }
    }

    #[test]
    fn it_holds_what_the_ring_holds_and_counts_what_it_never_saw() {
        let ring = Ring::new(10, 1_000);
        let mut feed = Feed::default();
        let pull = |feed: &mut Feed<ModelLine>| {
            let batch = ring.read(feed.end(), 100);
            feed.take(batch, ring.read(0, 0).first);
        };
        for _ in 0..6 {
            ring.push(Arc::new(ModelLine));
        }
        pull(&mut feed);
        for _ in 0..6 {
            ring.push(Arc::new(ModelLine));
        }
        pull(&mut feed);
        assert_eq!((feed.first(), feed.end(), feed.dropped()), (2, 12, 2));
        for _ in 0..25 {
            ring.push(Arc::new(ModelLine));
        }
        pull(&mut feed);
        assert_eq!((feed.first(), feed.end(), feed.dropped()), (27, 37, 27));
        assert!(feed.get(26).is_none() && feed.get(36).is_some());
        assert_eq!(
            feed.from(0).map(|(seq, _)| seq).collect::<Vec<_>>(),
            (27..37).collect::<Vec<_>>()
        );
    }
}
