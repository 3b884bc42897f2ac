//! The recorder: a thread that writes what a host does without slowing it down; and the scrubber.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{BlockReader, FORMAT_VERSION, Header, Recording, RecordingLine};
use base::pointer::child_pointer;
use base::secret::MASK;
use base::{Clock, Redactor, Timestamp};
use config::{is_secret_name, secret_ranges, server_entries};
use host::{Fact, Host, Record};
use schema::{Holds, holds};

/// File size in bytes at which recording continues in a new file; one previous file is kept.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Most bytes kept of one message while recording.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Records read from one ring at once.
const MAX_BATCH_RECORDS: usize = 4_096;
/// Queued messages to a model; more are dropped.
const CHAT_CAPACITY: usize = 64;
/// How long a line is held back for earlier ones from the other rings, in order to sort them.
const SORT_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between writes: few lines at once, so that calls are not delayed.
const WRITE_INTERVAL: Duration = Duration::from_millis(2);
/// Lines between two yields, so that threads that a call wakes do not wait for a whole step.
const MAX_TURN_LINES: usize = 8;

/// Write buffer in bytes: more than arrives in one step.
const WRITE_BUFFER_BYTES: usize = 64 << 10;

/// Niceness added to the recorder's thread.
#[cfg(target_os = "linux")]
const WRITER_NICENESS: i32 = 15;

/// A running recording. Dropping it stops it without waiting for the remaining lines.
#[derive(Debug)]
pub struct Recorder {
    stop: DropGuard,
    clock: Clock,
    said: mpsc::Sender<(Timestamp, String)>,
    thread: JoinHandle<()>,
    failure: Arc<RecordingFailure>,
}

/// Why a recording ended early. The reason is given to one who asks, who tells the user.
#[derive(Debug, Default)]
pub struct RecordingFailure {
    reason: Mutex<Option<io::Error>>,
    is_known: CancellationToken,
}

impl RecordingFailure {
    /// Waits until the recording ends early; never returns if it does not. Cancel-safe.
    pub async fn wait(&self) -> io::Error {
        self.is_known.cancelled().await;
        let reason = self.reason.lock().take();
        match reason {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    fn set(&self, reason: io::Error) {
        *self.reason.lock() = Some(reason);
        self.is_known.cancel();
    }
}

impl Recorder {
    /// Records everything a host does, and the earlier records that its rings still hold.
    ///
    /// # Errors
    /// When the file cannot be created; an existing file is not overwritten.
    pub fn start(host: &Host, path: &Path) -> io::Result<Self> {
        let mut output = RecordingFile::create(path, servers(host))?;
        let stop = CancellationToken::new();
        let (host, stopped, clock) = (host.clone(), stop.clone(), host.clock());
        let (said, chat_receiver) = mpsc::channel(CHAT_CAPACITY);
        host.traffic().keep_whole(MAX_MESSAGE_BYTES);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let failure = Arc::new(RecordingFailure::default());
        let failed = Arc::clone(&failure);
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            // Calls have priority; on Linux, nice(2) applies to this thread only.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(WRITER_NICENESS);
            let done = runtime
                .block_on(HostReader::new(&host, chat_receiver).record(&mut output, &stopped));
            host.traffic().keep_whole(0);
            if let Err(reason) = done.and(output.close()) {
                failed.set(reason);
            }
        })?;
        Ok(Self { stop: stop.drop_guard(), clock, said, thread, failure })
    }

    /// Records a message of the user to a model, the secrets of the servers masked; dropped when the
    /// queue is full.
    pub fn record_chat(&self, text: &str) {
        let _ = self.said.try_send((self.clock.now(), text.to_owned()));
    }

    /// Says when it has stopped writing, and why.
    pub fn failure(&self) -> Arc<RecordingFailure> {
        Arc::clone(&self.failure)
    }

    /// Writes the remaining lines and the end line.
    ///
    /// # Errors
    /// When something could not be written, now or earlier, and [`RecordingFailure::wait`] has not
    /// said so.
    pub async fn finish(self) -> io::Result<()> {
        drop(self.stop);
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await;
        joined.map_err(io::Error::other)?.map_err(|_| io::Error::other("the recorder failed"))?;
        let reason = self.failure.reason.lock().take();
        reason.map_or(Ok(()), Err)
    }
}

/// The servers as currently configured, secrets masked.
fn servers(host: &Host) -> Value {
    let names: Vec<_> = host.snapshot().servers.keys().cloned().collect();
    let configs = names.iter().filter_map(|name| host.server_config(name));
    server_entries(configs)
}

/// Reads the rings of a host, with a cursor for each.
struct HostReader<'a> {
    host: &'a Host,
    fact: u64,
    frame: u64,
    log: u64,
    said: mpsc::Receiver<(Timestamp, String)>,
    /// Time of the latest fact: a fact that arrives late keeps its place in the order.
    latest: Timestamp,
}

impl<'a> HostReader<'a> {
    fn new(host: &'a Host, said: mpsc::Receiver<(Timestamp, String)>) -> Self {
        let fact = host.facts().span().start;
        Self { host, fact, frame: 0, log: 0, said, latest: Timestamp(0) }
    }

    /// The line of a message to a model, secrets masked.
    fn chat(&self, (at, text): (Timestamp, String)) -> (Timestamp, RecordingLine) {
        let view = self.host.view().borrow().clone();
        let secrets = view.servers.keys().flat_map(|server| self.host.secrets(server));
        let text = Redactor::new(secrets).redact(&text).into_owned();
        (at, RecordingLine::Chat { at, text })
    }

    async fn record(
        mut self,
        output: &mut RecordingFile,
        stop: &CancellationToken,
    ) -> io::Result<()> {
        let (facts, traffic, logs) = (self.host.facts(), self.host.traffic(), self.host.logs());
        let mut lines = Vec::new();
        loop {
            let is_last = stop.is_cancelled();
            while let Ok(said) = self.said.try_recv() {
                lines.push(self.chat(said));
            }
            let records = facts.read(self.fact, MAX_BATCH_RECORDS);
            let frames = traffic.read(self.frame, MAX_BATCH_RECORDS);
            let logged = logs.read(self.log, MAX_BATCH_RECORDS);
            (self.fact, self.frame, self.log) = (records.next, frames.next, logged.next);
            if records.missed + frames.missed + logged.missed > 0 {
                let (facts, frames, logs) = (records.missed, frames.missed, logged.missed);
                lines.push((Timestamp(0), RecordingLine::Missed { facts, frames, logs }));
            }
            for fact in records.items {
                self.latest = self.latest.max(fact.at);
                lines.push((self.latest, RecordingLine::Fact(without_secrets(self.host, fact))));
            }
            lines
                .extend(frames.items.into_iter().map(|item| (item.at, RecordingLine::Frame(item))));
            lines.extend(logged.items.into_iter().map(|item| (item.at, RecordingLine::Log(item))));
            let was_idle = lines.is_empty();
            lines.sort_by_key(|(at, _)| *at);
            let since = self.host.clock().now().0.saturating_sub(SORT_INTERVAL.as_micros() as u64);
            let waited = |(at, _): &(Timestamp, _)| is_last || at.0 <= since;
            for (n, (_, line)) in lines.drain(..lines.partition_point(waited)).enumerate() {
                output.line(&line)?;
                if n % MAX_TURN_LINES == MAX_TURN_LINES - 1 {
                    std::thread::yield_now();
                }
            }
            if output.flush()? {
                // Each file must be readable on its own: repeat the facts that the view is folded
                // from, except those still waiting to be written.
                let waiting =
                    lines.iter().filter(|(_, line)| matches!(line, RecordingLine::Fact(_)));
                let written = self.fact - waiting.count() as u64;
                let kept = facts.read(0, usize::MAX);
                let before = written.saturating_sub(kept.first) as usize;
                for fact in kept.items.into_iter().take(before) {
                    output.line(&RecordingLine::Fact(without_secrets(self.host, fact)))?;
                }
            }
            if !was_idle && (is_last || self.frame < traffic.span().end) {
                continue;
            }
            if is_last {
                output.line(&RecordingLine::End { at: self.host.clock().now() })?;
                return output.flush().map(drop);
            }
            // While lines wait, poll instead of subscribing: a call would pay for waking this task,
            // or for checking whether it sleeps.
            if lines.is_empty() {
                let (mut new_frames, mut new_logs) = (traffic.changed(), logs.changed());
                let mut new_facts = facts.changed();
                let ends = [facts.span().end, traffic.span().end, logs.span().end];
                if ends != [self.fact, self.frame, self.log] {
                    continue;
                }
                tokio::select! {
                    _ = new_facts.changed() => {}
                    _ = new_frames.changed() => {}
                    _ = new_logs.changed() => {}
                    Some(said) = self.said.recv() => lines.push(self.chat(said)),
                    () = stop.cancelled() => {}
                }
            }
            tokio::select! {
                () = tokio::time::sleep(WRITE_INTERVAL) => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

/// A fact as it may be kept. Lists hold names and URIs as they go to the server, secrets in them
/// included.
fn without_secrets(host: &Host, record: Arc<Record>) -> Arc<Record> {
    let (Some(server), Fact::Listed { .. }) = (&record.server, &record.fact) else { return record };
    let masks = Redactor::new(host.secrets(server));
    let written = serde_json::to_value(&*record).ok();
    let masked = written.and_then(|written| masks.redact_json(&written));
    match masked.and_then(|masked| serde_json::from_value(masked).ok()) {
        Some(masked) => Arc::new(masked),
        None => record,
    }
}

/// The output file, which is rotated when it is full.
struct RecordingFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// Buffer for the current line, reused.
    text: Vec<u8>,
    header: Header,
    bytes: u64,
    most: u64,
    /// Compresses the previous file.
    packing: Option<JoinHandle<io::Result<()>>>,
}

impl RecordingFile {
    fn create(path: &Path, servers: Value) -> io::Result<Self> {
        let header = Header {
            version: FORMAT_VERSION,
            product: concat!("mcpdeck ", env!("CARGO_PKG_VERSION")).to_owned(),
            began: base::Clock::system().now(),
            scrubbed: false,
            servers,
        };
        let file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, create_private(path)?);
        let (path, text) = (path.to_owned(), Vec::new());
        let mut output =
            Self { path, file, text, header, bytes: 0, most: MAX_FILE_BYTES, packing: None };
        output.begin()?;
        Ok(output)
    }

    fn begin(&mut self) -> io::Result<()> {
        self.bytes = 0;
        self.line(&RecordingLine::Header(self.header.clone()))?;
        self.file.flush()
    }

    fn line(&mut self, line: &RecordingLine) -> io::Result<()> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, line)?;
        self.text.push(b'\n');
        self.bytes += self.text.len() as u64;
        let written = self.file.write_all(&self.text);
        // Release the memory of a large message.
        self.text.shrink_to(WRITE_BUFFER_BYTES);
        written
    }

    /// Flushes the buffer and rotates a full file; returns whether it rotated.
    fn flush(&mut self) -> io::Result<bool> {
        self.file.flush()?;
        if self.bytes < self.most {
            return Ok(false);
        }
        self.packed()?;
        let plain = self.path.with_extension("");
        let plain = if is_packed(&self.path) { plain.as_path() } else { self.path.as_path() };
        let [aside, packed] = [".1", ".1.gz"].map(|end| {
            let mut name = plain.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        });
        std::fs::rename(&self.path, &aside)?;
        self.packing = Some(std::thread::spawn(move || {
            let _ = std::fs::remove_file(&packed);
            pack(&aside, create_private(&packed)?)?;
            std::fs::remove_file(&aside)
        }));
        self.file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, create_private(&self.path)?);
        self.header.began = base::Clock::system().now();
        self.begin()?;
        Ok(true)
    }

    /// Waits until the previous file is compressed.
    fn packed(&mut self) -> io::Result<()> {
        let Some(packing) = self.packing.take() else { return Ok(()) };
        packing.join().unwrap_or_else(|_| Err(io::Error::other("compressing failed")))
    }

    fn close(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.packed()?;
        if !is_packed(&self.path) {
            return Ok(());
        }
        let (part, file) = create_beside(&self.path)?;
        let packed = pack(&self.path, file).and_then(|()| std::fs::rename(&part, &self.path));
        if packed.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        packed
    }
}

/// Creates a new file beside another, with a name of its own: a part that was left behind, or that
/// another program writes, is kept.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    const MAX_TRIED_NAMES: u32 = 100;
    let mut tried = 0;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(if tried == 0 { ".part".to_owned() } else { format!(".{tried}.part") });
        let name = PathBuf::from(name);
        match create_private(&name) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && tried < MAX_TRIED_NAMES =>
            {
                tried += 1;
            }
            created => return created.map(|file| (name, file)),
        }
    }
}

/// Whether a name asks for compression.
fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "gz")
}

/// Creates a new file readable only by the user.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            io::Error::new(error.kind(), "it exists; name another file or move it away")
        }
        _ => error,
    })
}

/// Compresses a recording, one member for each block.
fn pack(from: &Path, to: File) -> io::Result<()> {
    let mut blocks = BlockReader::open(from)?;
    let mut to = BufWriter::new(to);
    while let Some((_, text)) = blocks.next_block()? {
        let mut member = flate2::write::GzEncoder::new(to, flate2::Compression::fast());
        member.write_all(&text)?;
        to = member.finish()?;
    }
    to.flush()
}

// Masks the content of a recording before it is shared: by key, by pattern and by a list of words.
// The structure stays, types, keys and list lengths, but for what has the name of a secret: that goes
// as a whole.

/// Counts of what was masked, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scrubbed {
    /// Lines of the recording.
    pub lines: u64,
    /// Values with a secret-like name, by that name.
    pub by_key: BTreeMap<String, u64>,
    /// Texts that look like a credential.
    pub by_pattern: u64,
    /// Words of the list.
    pub by_word: u64,
}

impl Scrubbed {
    fn masked(&self) -> u64 {
        self.by_key.values().sum::<u64>() + self.by_pattern + self.by_word
    }
}

/// Masks recordings.
#[derive(Debug, Default)]
pub struct Scrubber {
    words: Vec<String>,
    done: Scrubbed,
}

impl Scrubber {
    /// Also masks these words, anywhere; empty ones are ignored.
    pub fn new(words: impl IntoIterator<Item = String>) -> Self {
        let words = words.into_iter().filter(|word| !word.is_empty());
        let mut words: Vec<String> = words.flat_map(|word| spellings(&word)).collect();
        // The longer ones first: one may be within another.
        words.sort_by_key(|word| (std::cmp::Reverse(word.len()), word.clone()));
        words.dedup();
        Self { words, done: Scrubbed::default() }
    }

    /// Writes a copy of a recording with secrets masked; returns what was masked.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn scrub(mut self, recording: Recording, mut to: impl Write) -> io::Result<Scrubbed> {
        let mut header = recording.header().clone();
        header.scrubbed = true;
        self.write(&RecordingLine::Header(header), &mut to)?;
        for line in recording {
            self.write(&line?, &mut to)?;
        }
        to.flush()?;
        Ok(self.done)
    }

    fn write(&mut self, line: &RecordingLine, to: &mut impl Write) -> io::Result<()> {
        let mut value = serde_json::to_value(line)?;
        self.done.lines += 1;
        // The message is a string in the line; the JSON inside it is masked separately.
        let body = value.get("body").and_then(Value::as_str).map(|body| self.message(body));
        if body.is_some() {
            value["body"] = Value::Null;
        }
        if let Some(body) = body {
            value["body"] = Value::String(body);
        }
        let members = value.as_object().into_iter().flat_map(Map::keys);
        for key in members.filter(|key| *key != "body").cloned().collect::<Vec<_>>() {
            self.place(&mut value, &child_pointer("", &key), &key);
        }
        serde_json::to_writer(&mut *to, &value)?;
        to.write_all(b"\n")
    }

    /// Masks what is at a place of a line, under this name, except what belongs to the format: it
    /// stays a line.
    fn place(&mut self, line: &mut Value, pointer: &str, key: &str) {
        let Some(before) = line.pointer(pointer).cloned() else { return };
        let (mut masked, done) = (before.clone(), self.done.clone());
        self.member(key, &mut masked, MemberRole::Data);
        self.words_in(&mut masked, pointer.starts_with("/servers"));
        let put = |line: &mut Value, value: &Value| {
            if let Some(place) = line.pointer_mut(pointer) {
                place.clone_from(value);
            }
        };
        put(line, &masked);
        if masked == before || RecordingLine::deserialize(&*line).is_ok() {
            return;
        }
        put(line, &before);
        self.done = done;
        let inner: Vec<String> = match &before {
            Value::Object(members) => members.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|at| at.to_string()).collect(),
            _ => Vec::new(),
        };
        for step in inner {
            self.place(line, &child_pointer(pointer, &step), &step);
        }
    }

    /// Masks the words of the list in the texts and numbers of a value, and in its keys if asked to.
    fn words_in(&mut self, value: &mut Value, with_keys: bool) {
        match value {
            _ if self.words.is_empty() => {}
            Value::String(text) => *text = self.words(text),
            Value::Number(number) => {
                let text = number.to_string();
                if self.words(&text) != text {
                    *value = MASK.into();
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.words_in(item, with_keys);
                }
            }
            Value::Object(members) => {
                for (key, mut member) in std::mem::take(members) {
                    self.words_in(&mut member, with_keys);
                    members.insert(if with_keys { self.words(&key) } else { key }, member);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// A text without the words of the list.
    fn words(&mut self, text: &str) -> String {
        let mut out = text.to_owned();
        for word in &self.words {
            let found = out.matches(word.as_str()).count() as u64;
            if found > 0 {
                self.done.by_word += found;
                out = out.replace(word.as_str(), MASK);
            }
        }
        out
    }

    /// The message of a frame. It stays one, with the number it has.
    fn message(&mut self, body: &str) -> String {
        const KEYS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
        let Ok(Value::Object(message)) = serde_json::from_str(body) else {
            return self.body(body);
        };
        let before = self.done.masked();
        let mut out = Map::new();
        for (key, member) in message {
            let is_format = key == "jsonrpc" || (key == "id" && member.is_number());
            let mut one = Value::Object(Map::from_iter([(key.clone(), member)]));
            if !is_format {
                self.value(&mut one);
            }
            if !KEYS.contains(&key.as_str()) {
                self.words_in(&mut one, true);
            } else if !is_format {
                self.words_in(&mut one[&key], true);
            }
            out.extend(one.as_object_mut().map(std::mem::take).unwrap_or_default());
        }
        if self.done.masked() == before { body.to_owned() } else { Value::Object(out).to_string() }
    }

    fn body(&mut self, body: &str) -> String {
        match serde_json::from_str::<Value>(body) {
            Ok(mut value) if value.is_object() || value.is_array() => {
                let before = self.done.masked();
                self.value(&mut value);
                self.words_in(&mut value, true);
                // Without secrets, the original text is kept.
                if self.done.masked() == before { body.to_owned() } else { value.to_string() }
            }
            _ => self.text(body),
        }
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            // JSON in a string, common in tool results, is masked by its keys too.
            Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
                *text = self.body(text);
            }
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                for (key, member) in members {
                    let role = match key.as_str() {
                        "dependentRequired" | "dependencies" => MemberRole::Requirements,
                        key if holds(key) == Some(Holds::Map) => MemberRole::Schemas,
                        _ => MemberRole::Data,
                    };
                    match member {
                        Value::Object(inner) if role != MemberRole::Data => {
                            for (key, member) in inner {
                                self.member(key, member, role);
                            }
                        }
                        _ => self.member(key, member, MemberRole::Data),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks what has this name, as a whole if the name is that of a secret.
    fn member(&mut self, key: &str, member: &mut Value, role: MemberRole) {
        if is_secret(key) && !(is_count(key) && member.is_number()) {
            let is_list = member.as_array().is_some_and(|all| all.iter().all(Value::is_string));
            let is_hidden = match role {
                MemberRole::Requirements if is_list => false,
                MemberRole::Schemas | MemberRole::Requirements if is_schema(member) => {
                    hide_samples(member)
                }
                _ => hide(member),
            };
            if is_hidden {
                *self.done.by_key.entry(key.to_owned()).or_default() += 1;
            }
        }
        self.value(member);
    }

    fn text(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut copied = 0;
        for part in json_in(text) {
            let before = self.done.clone();
            let masked = self.body(&text[part.clone()]);
            if masked == text[part.clone()] {
                self.done = before;
                continue;
            }
            out += &text[copied..part.start];
            out += &masked;
            copied = part.end;
        }
        out += &text[copied..];
        let mut out = self.words(&out);
        let found = secret_ranges(&out);
        self.done.by_pattern += found.len() as u64;
        for part in found.into_iter().rev() {
            out.replace_range(part, MASK);
        }
        out
    }
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberRole {
    /// Among data: its name says what it is.
    Data,
    /// Among schemas: its name is that of what it describes.
    Schemas,
    /// Among the names that another one requires, or schemas.
    Requirements,
}

/// Whether a value among schemas is one: an object with keywords alone, or a boolean.
fn is_schema(value: &Value) -> bool {
    /// Keywords without sub-schemas (JSON Schema Validation 2020-12).
    const KEYWORDS: &str = "type title description format pattern minimum maximum exclusiveMinimum \
        exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minContains \
        maxContains minProperties maxProperties required deprecated readOnly writeOnly nullable \
        contentEncoding contentMediaType enumNames $ref $dynamicRef $id $anchor $comment $schema";
    let is_keyword = |key: &String| {
        key.starts_with("x-") || holds(key).is_some() || KEYWORDS.split(' ').any(|it| it == key)
    };
    match value {
        Value::Object(members) => members.keys().all(is_keyword),
        Value::Bool(_) => true,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

/// Masks the values that a schema gives for what it describes; returns whether there were any.
fn hide_samples(schema: &mut Value) -> bool {
    match schema {
        Value::Object(members) => {
            let mut is_hidden = false;
            for (key, member) in members {
                is_hidden |= match key.as_str() {
                    "default" | "const" | "example" => hide(member),
                    "examples" => match member {
                        Value::Array(all) => all.iter_mut().map(hide).filter(|it| *it).count() > 0,
                        other => hide(other),
                    },
                    "enum" | "required" => false,
                    _ => hide_samples(member),
                };
            }
            is_hidden
        }
        Value::Array(all) => all.iter_mut().map(hide_samples).filter(|it| *it).count() > 0,
        _ => false,
    }
}

/// Masks a value as a whole because of its name; returns whether there was anything to mask.
fn hide(value: &mut Value) -> bool {
    let is_there = match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty() && text != MASK,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    };
    if is_there {
        *value = MASK.into();
    }
    is_there
}

/// The objects and lists of JSON that stand in a text, not those within them.
fn json_in(text: &str) -> Vec<Range<usize>> {
    /// How often a text may be read to find them, on average: nearly every bracket that begins
    /// none is known at once.
    const MAX_READS: usize = 16;
    let mut left = text.len() * MAX_READS;
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(start) = text[from..].find(['{', '[']).map(|at| from + at) {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(_)) => {
                let end = start + values.byte_offset();
                found.push(start..end);
                from = end;
            }
            Some(Err(error)) => {
                let line = text[start..].split_inclusive('\n').take(error.line().saturating_sub(1));
                let read = line.map(str::len).sum::<usize>() + error.column();
                match left.checked_sub(read) {
                    Some(rest) => left = rest,
                    None => break,
                }
                from = start + 1;
            }
            None => break,
        }
    }
    found
}

/// A word as it stands in a text, and as JSON writes it inside quotes, also in ASCII alone (RFC 8259,
/// section 7), or JSON within JSON.
fn spellings(word: &str) -> Vec<String> {
    let within = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let inner = within(word);
    let ascii = |upper: bool| {
        let mut out = String::new();
        for c in inner.chars() {
            if c.is_ascii() {
                out.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ =
                    if upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") };
            }
        }
        out
    };
    let once = [ascii(false), ascii(true), inner.clone()];
    let twice = once.clone().map(|text| within(&text));
    [once.to_vec(), twice.to_vec(), vec![word.to_owned()]].concat()
}

/// Whether a number of this name says how many there are: `maxTokens`, `input_tokens`.
fn is_count(key: &str) -> bool {
    key.to_ascii_lowercase().ends_with("tokens")
}

fn is_secret(key: &str) -> bool {
    // Keys of the protocol that only look secret.
    const HARMLESS: [&str; 4] = ["progressToken", "maxTokens", "tokenFile", "key"];
    !HARMLESS.contains(&key) && is_secret_name(key)
}

#[cfg(test)]
mod tests {
    use super::super::Recording;
    use super::*;

    #[test]
    fn a_full_file_is_put_aside_compressed_and_both_are_recordings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl.gz");
        let mut output = RecordingFile::create(&path, Value::Null).unwrap();
        output.most = 1_000;
        for at in 0..60 {
            output.line(&RecordingLine::End { at: Timestamp(at) }).unwrap();
            output.flush().unwrap();
        }
        output.close().unwrap();
        for name in ["a.jsonl.gz", "a.jsonl.1.gz"] {
            let path = folder.path().join(name);
            let begins = std::fs::read(&path).unwrap();
            assert!(begins.starts_with(&[0x1f, 0x8b]), "{name} is compressed");
            assert!(Recording::open(&path).unwrap().all(|line| line.is_ok()), "{name}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn a_part_that_was_left_behind_is_kept_and_in_nobody_s_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl.gz");
        let left = folder.path().join("a.jsonl.gz.part");
        std::fs::write(&left, "mine").unwrap();
        RecordingFile::create(&path, Value::Null).unwrap().close().unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]), "it is compressed");
        assert_eq!(std::fs::read(&left).unwrap(), b"mine");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }
}

#[cfg(test)]
mod scrub_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_of_every_known_service_goes_wherever_it_stands() {
        for prefix in config::TOKEN_PREFIXES {
            let body = "9aZ8bY7cX6dW5.eV4fU3gT2hS1.kR0";
            let token = format!("{prefix}{body}");
            let mut scrubber = Scrubber::default();
            let mut value = json!({
                "content": [{"type": "text", "text": format!("use {token} for it")}],
                "inner": json!({"note": token, "n": 1}).to_string(),
                "cut": format!("{{\"note\": \"{token}"),
                "headers": {"X-Api-Key": token, "Accept": token, "authorization": token},
                "line": format!("connected with --token={token}\n"),
            });
            scrubber.value(&mut value);
            let left = value.to_string();
            assert!(!left.contains(body), "{left}");
            assert_eq!(value["content"][0]["type"], "text");
            assert_eq!(value["inner"].as_str().map(|text| text.contains("\"n\":1")), Some(true));
        }
    }

    #[test]
    fn secrets_go_by_key_pattern_and_list_and_the_shape_stays() {
        let mut scrubber = Scrubber::new(["Zanzibar".to_owned()]);
        let mut value = json!({
            "password": "hunter2", "progressToken": "keep", "api_key": "", "count": 3,
            "text": "see ghp_0123456789abcdefghijABCDEF in Zanzibar",
            "inner": "{\"accessToken\":\"abc\",\"n\":1}", "pretty": "{\n  \"n\": 1\n}",
            "url": "postgres://me:geheim@db/x", "aws-access-key": "AB",
            "passwords": ["one", {"note": "Zanzibar"}], "total_tokens": 12,
            "schema": {"properties": {"token": {"type": "string"}}},
        });
        scrubber.value(&mut value);
        assert_eq!(value["password"], MASK);
        assert_eq!(value["progressToken"], "keep");
        assert_eq!((value["api_key"].as_str(), &value["count"]), (Some(""), &json!(3)));
        assert_eq!(value["text"], "see *** in ***");
        assert_eq!(value["inner"], "{\"accessToken\":\"***\",\"n\":1}");
        assert_eq!(value["pretty"], "{\n  \"n\": 1\n}", "written as it was");
        assert_eq!(value["url"], "postgres://***@db/x");
        assert_eq!(value["schema"]["properties"]["token"]["type"], "string");
        assert_eq!(value["aws-access-key"], MASK);
        assert_eq!((&value["passwords"], &value["total_tokens"]), (&json!(MASK), &json!(12)));
        assert_eq!((scrubber.done.by_pattern, scrubber.done.by_word), (2, 1));
    }

    #[test]
    fn what_has_the_name_of_a_secret_goes_whole_whatever_its_type() {
        let mut scrubber = Scrubber::default();
        let mut value = json!({
            "pin": 4711, "password": true, "secrets": {"a": {"b": ["walnut"]}}, "cookie": null,
            "credentials": [{"user": "ada", "code": 4712}], "authorization": [], "tokens": "walnut",
            "properties": {"password": {"user": "walnut"}, "token": 4713, "secret": {
                "type": "string", "default": "walnut", "examples": ["walnut"], "enum": ["basic"],
                "anyOf": [{"const": "walnut"}, {"required": ["token"]}]}},
        });
        scrubber.value(&mut value);
        assert_eq!(
            value,
            json!({
                "pin": MASK, "password": MASK, "secrets": MASK, "cookie": null,
                "credentials": MASK, "authorization": [], "tokens": MASK,
                "properties": {"password": MASK, "token": MASK, "secret": {
                    "type": "string", "default": MASK, "examples": [MASK], "enum": ["basic"],
                    "anyOf": [{"const": MASK}, {"required": ["token"]}]}},
            })
        );
    }

    #[test]
    fn json_within_a_text_is_masked_by_its_names_and_the_rest_stays_as_written() {
        let mut scrubber = Scrubber::default();
        let twice = json!({"inner": json!({"pin": 4711}).to_string()}).to_string();
        let so = format!("so: {twice}");
        for (text, masked) in [
            ("got {\"password\": \"walnut\"}.", "got {\"password\":\"***\"}.".to_owned()),
            ("[{\"n\": 1}, {\"pin\": 2}] {", "[{\"n\":1},{\"pin\":\"***\"}] {".to_owned()),
            ("{no} {\"a\": {\"token\": [1]}} {", "{no} {\"a\":{\"token\":\"***\"}} {".to_owned()),
            (so.as_str(), format!("so: {}", twice.replace("4711", r#"\"***\""#))),
            ("{ \"n\" : 1 } and {}", "{ \"n\" : 1 } and {}".to_owned()),
        ] {
            assert_eq!(scrubber.text(text), masked);
        }
        // What only looks like JSON is not read again and again.
        for hostile in ["{\"a\":".repeat(200_000), "{".repeat(1_000_000), "{\"".repeat(500_000)] {
            assert_eq!(scrubber.text(&hostile), hostile);
        }
    }

    #[test]
    fn a_word_goes_wherever_it_is_and_a_line_stays_one() {
        let words = ["Zanzibar", "77777777", "Z\u{fc}rich", "out", "jsonrpc", "frame", "at"];
        let mut scrubber = Scrubber::new(words.map(str::to_owned));
        let body = r#"{"jsonrpc":"2.0","id":77777777,"method":"m","params":{"Zanzibar":1,"n":177777777,
            "t":"from {\"c\": \"Z\\u00fcrich Z\\u00FCrich\"}","u":"Z\u00fcrich out"}}"#;
        for body in [body.to_owned(), body.replace("}}", "")] {
            let line = json!({
                "type": "frame", "at": 1, "server": "out", "direction": "out", "kind": "request",
                "method": "m", "target": null, "id": "1", "call": null, "bytes": 7, "cut": false,
                "latency": null, "queued": null, "body": body, "problem": "in Zanzibar",
            });
            let line: RecordingLine = serde_json::from_value(line).unwrap();
            let mut written = Vec::new();
            scrubber.write(&line, &mut written).unwrap();
            let text = String::from_utf8(written).unwrap();
            let masked: RecordingLine = serde_json::from_str(&text).expect(&text);
            let RecordingLine::Frame(frame) = masked else { unreachable!("{text}") };
            assert_eq!(frame.direction, protocol::Direction::Out);
            let content = [&*frame.body, frame.server.as_str(), frame.problem.as_deref().unwrap()];
            for gone in ["Zanzibar", "177", "rich", "out"] {
                assert!(!content.iter().any(|part| part.contains(gone)), "{gone}: {content:?}");
            }
            // A body that is no JSON is masked as a text.
            let is_message = serde_json::from_str::<Value>(&frame.body)
                .is_ok_and(|message| message["jsonrpc"] == "2.0" && message["id"] == 77_777_777);
            assert_eq!(is_message, frame.body.ends_with("}}"), "{text}");
        }
    }
}
