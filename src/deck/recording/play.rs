//! Plays a recording: the view, the messages and the logs at any moment of it. Starts nothing. A
//! large file is read block by block; blocks are read again when needed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::operations::{RecordedOperation, RecordedOutcome, is_ordinary, says_error};
use super::{BlockReader, Header, RecordedOperations, Recording, RecordingLine, invalid};
use base::{Batch, LogLevel, LogRecord, ServerName, Timestamp, Weighed};
use config::error::ErrorCode;
use host::{CallView, Ending, Fact, HostView, Metrics, ServerMetrics};
use protocol::{CallId, Direction, MessageKind, TrafficRecord};

/// Most messages, and most log lines, returned from before a position.
const MAX_WINDOW_RECORDS: usize = 10_000;
/// Most bytes of those messages.
const MAX_WINDOW_BYTES: usize = 16 << 20;
/// Blocks between two stored views, so that seeking back need not begin at the first line.
const VIEW_BLOCKS: usize = 64;
/// Most operations that are kept.
const MAX_OPERATIONS: usize = 250_000;
/// Most errors that can be jumped to.
const MAX_ERRORS: usize = 100_000;
/// Methods that count as calls.
const CALLS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];
/// Longest line that is parsed with its message during the scan, in bytes.
const MAX_SMALL_LINE_BYTES: usize = 1_024;

/// Index entry of a block.
#[derive(Clone, Copy, Debug)]
struct BlockIndex {
    place: u64,
    /// Latest time up to its end.
    until: Timestamp,
    /// Messages and lines of logs before it.
    before: [u64; 2],
    has_facts: bool,
}

/// Reads a recording once from beginning to end, and builds its index.
#[derive(Debug)]
pub struct Scan {
    blocks: BlockReader,
    size: u64,
    header: Header,
    index: Vec<BlockIndex>,
    /// The view at the beginning of every [`VIEW_BLOCKS`]th block.
    views: Vec<HostView>,
    view: HostView,
    operations: RecordedOperations,
    errors: Vec<Timestamp>,
    from: Timestamp,
    until: Timestamp,
    before: [u64; 2],
}

impl Scan {
    /// Opens a recording.
    ///
    /// # Errors
    /// When it cannot be read, or is not a recording of a supported version.
    pub fn open(path: &Path) -> io::Result<Self> {
        let Recording { header, mut blocks, .. } = Recording::open(path)?;
        let size = blocks.size()?;
        blocks.seek(0)?;
        Ok(Self {
            blocks,
            size,
            from: header.began,
            until: header.began,
            header,
            index: Vec::new(),
            views: Vec::new(),
            view: HostView::default(),
            operations: RecordedOperations::new(MAX_OPERATIONS),
            errors: Vec::new(),
            before: [0; 2],
        })
    }

    /// The first line.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The share of the file read so far, from 0 to 1, and the view at that point.
    pub fn so_far(&self) -> (f64, &HostView) {
        let read = self.index.last().map_or(0, |block| block.place);
        (read as f64 / self.size.max(1) as f64, &self.view)
    }

    /// Reads the next block; `false` at the end.
    ///
    /// # Errors
    /// When it cannot be read, or a line is not a recording line.
    pub fn advance(&mut self) -> io::Result<bool> {
        let Some((place, text)) = self.blocks.next_block()? else { return Ok(false) };
        if self.index.len().is_multiple_of(VIEW_BLOCKS) {
            self.views.push(self.view.clone());
        }
        let (before, mut has_facts) = (self.before, false);
        for line in lines(&text) {
            let read = if line.len() > MAX_SMALL_LINE_BYTES { head(line) } else { readable(line) };
            // A broken line is left out here and in `entries`.
            let Ok(line) = read else {
                self.blocks.losses.line(0);
                continue;
            };
            self.until = self.until.max(line.at().unwrap_or_default());
            // Records from before the recording began may be in it too.
            self.from = self.from.min(line.at().unwrap_or(self.from));
            match &line {
                RecordingLine::Fact(record) => {
                    has_facts = true;
                    self.view.apply(record);
                    self.operations.fact(record);
                }
                RecordingLine::Frame(record) => {
                    self.before[0] += 1;
                    self.operations.frame(record);
                }
                RecordingLine::Log(_) => self.before[1] += 1,
                RecordingLine::Header(_)
                | RecordingLine::Chat { .. }
                | RecordingLine::Missed { .. }
                | RecordingLine::End { .. } => {}
            }
            if is_error(&line) && self.errors.len() < MAX_ERRORS {
                self.errors.push(self.until);
            }
        }
        self.index.push(BlockIndex { place, until: self.until, before, has_facts });
        Ok(true)
    }

    /// What could not be read so far.
    pub fn losses(&self) -> Option<String> {
        self.blocks.losses.words()
    }

    /// The player, once the end is reached.
    pub fn finish(mut self) -> Player {
        self.view = HostView::default();
        let operations = Arc::new(std::mem::take(&mut self.operations));
        Player { operations, at: self.from, line: (0, 0), before: [0; 2], cached: None, scan: self }
    }
}

/// What happened between two moments, or everything up to one.
#[derive(Debug)]
#[non_exhaustive]
pub struct PlayedPart {
    /// Whether this replaces all earlier parts.
    pub is_whole: bool,
    /// The view, if it changed.
    pub view: Option<Arc<HostView>>,
    /// Messages.
    pub frames: Batch<TrafficRecord>,
    /// Lines of logs.
    pub logs: Batch<LogRecord>,
}

/// A movable position in a recording.
#[derive(Debug)]
pub struct Player {
    /// The index; its view is that of the current position.
    scan: Scan,
    operations: Arc<RecordedOperations>,
    at: Timestamp,
    /// The next line to play: its block, and its number there.
    line: (usize, usize),
    /// Messages and lines of logs before it.
    before: [u64; 2],
    cached: Option<(usize, Arc<[RecordingLine]>)>,
}

impl Player {
    /// When the recording begins and ends.
    pub const fn span(&self) -> (Timestamp, Timestamp) {
        (self.scan.from, self.scan.until)
    }

    /// The current position.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Every operation of the recording; of more than 250,000 the newest.
    pub const fn operations(&self) -> &Arc<RecordedOperations> {
        &self.operations
    }

    /// Calls up to the current position, with their end if it has passed.
    fn calls_so_far(&self) -> impl Iterator<Item = (u64, &RecordedOperation, Option<Timestamp>)> {
        let asked = self.operations.iter().filter(|(_, operation)| {
            operation.asked <= self.at
                && operation.direction == Direction::Out
                && !operation.is_round
                && CALLS.contains(&operation.method.as_str())
        });
        asked.map(|(number, of)| (number, of, of.ended.filter(|ended| *ended <= self.at)))
    }

    /// Calls that were in flight at this moment.
    pub fn calls(&self) -> Vec<CallView> {
        let open = self.calls_so_far().filter(|(_, _, ended)| ended.is_none());
        let call = |(number, of, _): (u64, &RecordedOperation, _)| CallView {
            id: CallId(number),
            server: of.server.clone(),
            method: of.method.to_string(),
            target: of.target.clone().unwrap_or_default(),
            started: of.asked,
            waiting: Duration::ZERO,
            is_waiting: of.waiting.iter().any(|(from, to)| (*from..*to).contains(&self.at)),
            progress: None,
        };
        open.map(call).collect()
    }

    /// Metrics as they were at this moment.
    pub fn metrics(&self) -> Vec<(ServerName, ServerMetrics)> {
        let mut servers: BTreeMap<ServerName, (Metrics, BTreeMap<String, Metrics>)> =
            BTreeMap::new();
        for (_, of, ended) in self.calls_so_far() {
            let (total, targets) = servers.entry(of.server.clone()).or_default();
            let ending = match of.outcome {
                RecordedOutcome::Ok | RecordedOutcome::Open => Ending::Success,
                RecordedOutcome::ToolError => Ending::ToolError,
                RecordedOutcome::Error => Ending::Failed(ErrorCode::Protocol),
                RecordedOutcome::Lost => Ending::Failed(ErrorCode::ServerUnavailable),
            };
            let waited = of.waiting.iter().map(|(from, to)| to.since(*from)).sum();
            for metrics in [total, targets.entry(of.name()).or_default()] {
                metrics.begin(of.asked);
                if let Some(ended) = ended {
                    metrics.end(ending, of.took(ended).saturating_sub(waited), ended);
                }
            }
        }
        let shown = servers.into_iter().map(|(server, (total, targets))| {
            let by_target = targets.into_iter().map(|(name, metrics)| (name, metrics.view()));
            (server, ServerMetrics { total: total.view(), by_target: by_target.collect() })
        });
        shown.collect()
    }

    /// The next error after the current position, or the last one before it.
    pub fn error(&self, forward: bool) -> Option<Timestamp> {
        let errors = &self.scan.errors;
        let after = errors.partition_point(|at| *at <= self.at);
        let before = errors.partition_point(|at| *at < self.at);
        errors.get(if forward { after } else { before.checked_sub(1)? }).copied()
    }

    /// Plays up to `to`; returns what happened in between.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn advance(&mut self, to: Timestamp) -> io::Result<PlayedPart> {
        let mut news = PlayedPart {
            is_whole: false,
            view: None,
            frames: batch(self.before[0]),
            logs: batch(self.before[1]),
        };
        let mut changed = false;
        self.at = to.clamp(self.at, self.scan.until.max(self.at));
        while self.line.0 < self.scan.index.len() {
            let entries = self.entries(self.line.0)?;
            let happened = |line: &&RecordingLine| line.at().unwrap_or_default() <= self.at;
            let rest = entries.get(self.line.1..).unwrap_or_default();
            for entry in rest.iter().take_while(happened) {
                self.line.1 += 1;
                match entry {
                    RecordingLine::Fact(record) => {
                        changed = true;
                        self.scan.view.apply(record);
                    }
                    RecordingLine::Frame(record) => add(&mut news.frames, record),
                    RecordingLine::Log(record) => add(&mut news.logs, record),
                    _ => {}
                }
            }
            if self.line.1 < entries.len() {
                break;
            }
            self.line = (self.line.0 + 1, 0);
        }
        self.before = [news.frames.next, news.logs.next];
        news.view = changed.then(|| Arc::new(self.scan.view.clone()));
        Ok(news)
    }

    /// Moves to a time; returns everything to show there.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn seek(&mut self, to: Timestamp) -> io::Result<PlayedPart> {
        let Scan { index, views, view, from, until, .. } = &mut self.scan;
        let to = to.clamp(*from, *until);
        let block = index.partition_point(|block| block.until <= to);
        let kept = block.min(index.len().saturating_sub(1)) / VIEW_BLOCKS;
        *view = views.get(kept).cloned().unwrap_or_default();
        for before in kept * VIEW_BLOCKS..block {
            if self.scan.index[before].has_facts {
                self.facts(before)?;
            }
        }
        (self.at, self.line) = (to, (block, 0));
        self.before = self.scan.index.get(block).map_or(self.scan.before, |block| block.before);
        let now = self.advance(to)?;
        let (mut frames, mut logs) = (now.frames.items, now.logs.items);
        let mut bytes = 0;
        for before in (0..block).rev() {
            let (mut older, mut older_logs) = (Vec::new(), Vec::new());
            for entry in self.entries(before)?.iter() {
                match entry {
                    RecordingLine::Frame(record) => older.push(Arc::clone(record)),
                    RecordingLine::Log(record) => older_logs.push(Arc::clone(record)),
                    _ => {}
                }
            }
            bytes += older.iter().map(|item| item.bytes()).sum::<usize>();
            older.append(&mut frames);
            older_logs.append(&mut logs);
            (frames, logs) = (older, older_logs);
            if frames.len() >= MAX_WINDOW_RECORDS || bytes >= MAX_WINDOW_BYTES {
                break;
            }
        }
        let view = Some(Arc::new(self.scan.view.clone()));
        let frames = window(frames, self.before[0]);
        let logs = window(logs, self.before[1]);
        Ok(PlayedPart { is_whole: true, view, frames, logs })
    }

    fn facts(&mut self, block: usize) -> io::Result<()> {
        let text = self.scan.blocks.block(self.scan.index[block].place)?;
        for line in lines(&text).filter(|line| line.starts_with(br#"{"type":"fact""#)) {
            if let Ok(RecordingLine::Fact(record)) = whole(line) {
                self.scan.view.apply(&record);
            }
        }
        Ok(())
    }

    fn entries(&mut self, block: usize) -> io::Result<Arc<[RecordingLine]>> {
        if let Some((of, entries)) = &self.cached
            && *of == block
        {
            return Ok(Arc::clone(entries));
        }
        let text = self.scan.blocks.block(self.scan.index[block].place)?;
        let entries: Arc<[RecordingLine]> =
            lines(&text).filter_map(|line| readable(line).ok()).collect();
        self.cached = Some((block, Arc::clone(&entries)));
        Ok(entries)
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut from = 0;
    memchr::memchr_iter(b'\n', text)
        .map(move |end| &text[std::mem::replace(&mut from, end + 1)..end])
        .filter(|line| !line.trim_ascii().is_empty())
}

fn whole(line: &[u8]) -> io::Result<RecordingLine> {
    serde_json::from_slice(line).map_err(|error| invalid(format!("not a recording line: {error}")))
}

/// The whole line, or what [`head`] can read of it.
fn readable(line: &[u8]) -> io::Result<RecordingLine> {
    whole(line).or_else(|_| head(line))
}

/// Parses a line without its message body where possible: only the fields before it are needed.
fn head(line: &[u8]) -> io::Result<RecordingLine> {
    let is_frame = line.starts_with(br#"{"type":"frame""#);
    let Some(at) = memchr::memmem::find(line, br#","body":""#).filter(|_| is_frame) else {
        return whole(line);
    };
    let fails = [&br#"\"isError\":true"#[..], br#"\"isError\": true"#];
    let fails = fails.iter().any(|word| memchr::memmem::find(line, word).is_some());
    let body = if fails { r#"\"isError\":true"# } else { "" };
    let mut short = line[..at].to_vec();
    short.extend_from_slice(format!(r#","body":"{body}","cut":false,"problem":null}}"#).as_bytes());
    serde_json::from_slice(&short).or_else(|_| whole(line))
}

/// Whether something went wrong with what is recorded as a message: it is an error that is not
/// ordinary, breaks the protocol, or is the result of a tool that failed. What is used in spite of its
/// problem has not failed.
pub fn has_failed(record: &TrafficRecord) -> bool {
    let method = record.method.as_ref().map_or("", |method| method.as_str());
    let is_broken = record.problem.is_some() && !record.tolerated;
    match record.kind {
        MessageKind::Error => !is_ordinary(method, record.unanswered()),
        MessageKind::Junk => true,
        MessageKind::Response => {
            let is_call = matches!(method, "" | "tools/call");
            is_broken || is_call && says_error(&record.body)
        }
        MessageKind::Request | MessageKind::Notification => is_broken,
    }
}

/// Whether this line is an error that the user may want to jump to.
fn is_error(line: &RecordingLine) -> bool {
    match line {
        RecordingLine::Frame(record) => has_failed(record),
        RecordingLine::Fact(record) => match &record.fact {
            Fact::Exited { exit, .. } => !exit.expected,
            Fact::Crashed { .. } | Fact::GivenUp { .. } | Fact::TaskFailed { .. } => true,
            _ => false,
        },
        RecordingLine::Log(record) => record.level >= LogLevel::Error,
        RecordingLine::Header(_)
        | RecordingLine::Chat { .. }
        | RecordingLine::Missed { .. }
        | RecordingLine::End { .. } => false,
    }
}

fn batch<T>(first: u64) -> Batch<T> {
    Batch { items: Vec::new(), first, next: first, missed: 0 }
}

fn add<T>(batch: &mut Batch<T>, item: &Arc<T>) {
    batch.items.push(Arc::clone(item));
    batch.next += 1;
}

/// The newest items before `next`, at most [`MAX_WINDOW_RECORDS`].
fn window<T>(mut items: Vec<Arc<T>>, next: u64) -> Batch<T> {
    items.drain(..items.len().saturating_sub(MAX_WINDOW_RECORDS));
    Batch { first: next - items.len() as u64, items, next, missed: 0 }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Messages one millisecond apart, in blocks of their own.
    fn recording(folder: &Path, count: u64) -> std::path::PathBuf {
        let mut text =
            r#"{"type":"header","version":1,"product":"p","began":1000}"#.to_owned() + "\n";
        for n in 0..count {
            let (kind, direction) =
                if n % 2 == 0 { ("request", "out") } else { ("response", "in") };
            let error = if n == 5 { r#"\"isError\":true"# } else { "" };
            let long = "x".repeat(if n % 100 == 1 { 600_000 } else { 2_000 });
            let (at, id) = (1_000 * (n + 1), n / 2);
            let _ = writeln!(
                text,
                r#"{{"type":"frame","at":{at},"server":"s","direction":"{direction}","kind":"{kind}","method":"tools/call","target":"t","id":"{id}","call":null,"bytes":9,"latency":null,"body":"{long}{error}","cut":false,"problem":null}}"#
            );
        }
        let path = folder.join("a.jsonl");
        std::fs::write(&path, text + r#"{"type":"fra"#).unwrap();
        path
    }

    #[test]
    fn a_first_question_that_an_older_server_does_not_know_is_no_error_to_jump_to() {
        let is_one = |method: &str| {
            let line = format!(
                r#"{{"type":"frame","at":1,"server":"s","direction":"in","kind":"error","method":"{method}","target":null,"id":"1","call":null,"bytes":9,"latency":null,"body":"{{}}","cut":false,"problem":null}}"#
            );
            is_error(&serde_json::from_str(&line).unwrap())
        };
        assert!(is_one("tools/call"));
        assert!(!is_one("server/discover"));
    }

    #[test]
    fn any_moment_is_found_again_and_playing_from_it_reports_each_message_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut scan = Scan::open(&recording(folder.path(), 1_000)).unwrap();
        while scan.advance().unwrap() {}
        let mut player = scan.finish();
        assert!(player.scan.index.len() > 3, "{} blocks", player.scan.index.len());
        assert_eq!(player.span(), (Timestamp(1_000), Timestamp(1_000_000)));
        assert_eq!(player.operations().iter().count(), 500);
        assert_eq!(player.error(true), Some(Timestamp(6_000)));
        for at in [500_500, 10_000, 1_000_000, 0, 777_000] {
            let news = player.seek(Timestamp(at)).unwrap();
            let happened = (at / 1_000).max(1);
            assert_eq!(news.frames.next, happened, "at {at}");
            assert_eq!(news.frames.items.last().unwrap().at, Timestamp(happened * 1_000));
            assert_eq!(news.frames.first + news.frames.items.len() as u64, news.frames.next);
        }
        let later = player.advance(Timestamp(780_500)).unwrap();
        let times: Vec<u64> = later.frames.items.iter().map(|item| item.at.0).collect();
        assert_eq!((times, later.frames.first), (vec![778_000, 779_000, 780_000], 777));
        assert_eq!(player.error(false), Some(Timestamp(6_000)));
    }
}
