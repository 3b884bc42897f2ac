//! The recorder: a thread that writes what a host tells, and never slows the host down.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::blocks::Blocks;
use super::{Header, VERSION};
use crate::base::Timestamp;
use crate::base::logs::LogRecord;
use crate::config::print;
use crate::host::{Host, Record};
use crate::mcp::traffic::TrafficRecord;

/// Size at which a file is put aside and another begun, in bytes; the one before is kept.
const ROTATE: u64 = 1 << 30;
/// Bytes of one message that are kept while something records.
const FRAME: usize = 4 << 20;
/// Records of one ring that are taken at once.
const BATCH: usize = 4_096;
/// Messages to a model that may wait to be written.
const SAID: usize = 64;
/// What is gathered after the first news before it is written: a host under load is not woken for
/// every message.
const GATHER: Duration = Duration::from_millis(20);

/// How much less the recorder's thread counts than others for the scheduler.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// A running recording. Dropping it ends it without waiting for what is left to be written.
#[derive(Debug)]
pub struct Recorder {
    stop: DropGuard,
    said: mpsc::Sender<String>,
    thread: JoinHandle<io::Result<()>>,
}

impl Recorder {
    /// Records everything a host does, and what it still keeps of what it did before.
    ///
    /// # Errors
    /// When the file cannot be made; one that exists is not written over.
    pub fn start(host: &Host, path: &Path) -> io::Result<Self> {
        let mut output = Output::create(path, servers(host))?;
        let stop = CancellationToken::new();
        let (host, stopped) = (host.clone(), stop.clone());
        let (said, heard) = mpsc::channel(SAID);
        host.traffic().keep_whole(FRAME);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            // Calls come first; on Linux this holds for the thread alone (nice(2)).
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(NICE);
            let done = runtime.block_on(Source::of(&host, heard).record(&mut output, &stopped));
            host.traffic().keep_whole(0);
            done.and(output.close())
        })?;
        Ok(Self { stop: stop.drop_guard(), said, thread })
    }

    /// Records what the person said to a model. What comes faster than it can be written is lost.
    pub fn said(&self, text: &str) {
        let _ = self.said.try_send(text.to_owned());
    }

    /// Whether it cannot write any more; [`Recorder::finish`] tells why.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Writes what is left and the last line.
    ///
    /// # Errors
    /// When something could not be written, now or before.
    pub async fn finish(self) -> io::Result<()> {
        drop(self.stop);
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await;
        joined.map_err(io::Error::other)?.map_err(|_| io::Error::other("the recorder failed"))?
    }
}

/// The servers as they are configured now, secrets as their names.
fn servers(host: &Host) -> Value {
    let names: Vec<_> = host.snapshot().servers.keys().cloned().collect();
    let configs = names.iter().filter_map(|name| host.server_config(name));
    print::servers(configs)
}

/// What is told of a host, from where it was read last.
struct Source<'a> {
    host: &'a Host,
    frame: u64,
    log: u64,
    seq: u64,
    facts: mpsc::Receiver<Arc<Record>>,
    said: mpsc::Receiver<String>,
    /// When the latest fact happened: a fact that came late keeps its place.
    latest: Timestamp,
}

/// One line, as it is written.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Written<'a> {
    Header(&'a Header),
    Fact(Arc<Record>),
    Frame(Arc<TrafficRecord>),
    Log(Arc<LogRecord>),
    Chat { at: Timestamp, text: String },
    Missed { facts: u64, frames: u64, logs: u64 },
    End { at: Timestamp },
}

impl<'a> Source<'a> {
    fn of(host: &'a Host, said: mpsc::Receiver<String>) -> Self {
        let facts = host.subscribe();
        Self { host, frame: 0, log: 0, seq: 0, facts, said, latest: Timestamp(0) }
    }

    async fn record(mut self, output: &mut Output, stop: &CancellationToken) -> io::Result<()> {
        let (traffic, logs) = (self.host.traffic(), self.host.logs());
        let (mut new_frames, mut new_logs) = (traffic.changed(), logs.changed());
        let mut lines = Vec::new();
        let mut missed = self.catch_up(&mut lines);
        loop {
            let is_last = stop.is_cancelled();
            missed += self.take_facts(&mut lines);
            while let Ok(text) = self.said.try_recv() {
                self.hear(text, &mut lines);
            }
            let frames = traffic.read(self.frame, BATCH);
            let records = logs.read(self.log, BATCH);
            (self.frame, self.log) = (frames.next, records.next);
            let missed_now =
                Written::Missed { facts: missed, frames: frames.missed, logs: records.missed };
            if std::mem::take(&mut missed) + frames.missed + records.missed > 0 {
                lines.push((Timestamp(0), missed_now));
            }
            lines.extend(frames.items.into_iter().map(|item| (item.at, Written::Frame(item))));
            lines.extend(records.items.into_iter().map(|item| (item.at, Written::Log(item))));
            let was_idle = lines.is_empty();
            lines.sort_by_key(|(at, _)| *at);
            for (_, line) in lines.drain(..) {
                output.line(&line)?;
            }
            if output.flush()? {
                // A file can be read alone: what the view is made of stands in each.
                for fact in self.host.journal().into_iter().filter(|fact| fact.seq <= self.seq) {
                    output.line(&Written::Fact(fact))?;
                }
            }
            if !was_idle && (is_last || self.frame < traffic.span().end) {
                continue;
            }
            if is_last {
                output.line(&Written::End { at: self.host.clock().now() })?;
                return output.flush().map(drop);
            }
            tokio::select! {
                _ = new_frames.changed() => {}
                _ = new_logs.changed() => {}
                fact = self.facts.recv() => match fact {
                    Some(fact) => missed += self.take(fact, &mut lines),
                    None => missed += self.catch_up(&mut lines),
                },
                Some(text) = self.said.recv() => self.hear(text, &mut lines),
                () = stop.cancelled() => {}
            }
            tokio::select! {
                () = tokio::time::sleep(GATHER) => {}
                () = stop.cancelled() => {}
            }
            new_frames.mark_unchanged();
            new_logs.mark_unchanged();
        }
    }

    /// Takes a message to a model.
    fn hear(&self, text: String, lines: &mut Vec<(Timestamp, Written<'_>)>) {
        let at = self.host.clock().now();
        lines.push((at, Written::Chat { at, text }));
    }

    /// Takes the facts that are kept, and subscribes to those that follow: at first, and after
    /// more came than could wait here. Gives how many are lost.
    fn catch_up(&mut self, lines: &mut Vec<(Timestamp, Written<'_>)>) -> u64 {
        self.facts = self.host.subscribe();
        let begins = self.seq == 0;
        let mut missed = 0;
        for fact in self.host.journal() {
            let gap = self.take(fact, lines);
            missed += if begins && self.seq == gap + 1 { 0 } else { gap };
        }
        missed
    }

    fn take_facts(&mut self, lines: &mut Vec<(Timestamp, Written<'_>)>) -> u64 {
        let mut missed = 0;
        while let Ok(fact) = self.facts.try_recv() {
            missed += self.take(fact, lines);
        }
        missed
    }

    /// Takes a fact that is new; gives how many before it are lost.
    fn take(&mut self, fact: Arc<Record>, lines: &mut Vec<(Timestamp, Written<'_>)>) -> u64 {
        if fact.seq <= self.seq {
            return 0;
        }
        let missed = fact.seq - self.seq - 1;
        self.seq = fact.seq;
        self.latest = self.latest.max(fact.at);
        lines.push((self.latest, Written::Fact(fact)));
        missed
    }
}

/// The file that is written, which begins anew when it is full.
struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    header: Header,
    bytes: u64,
    most: u64,
    /// Compresses the file that was put aside.
    packing: Option<JoinHandle<io::Result<()>>>,
}

impl Output {
    fn create(path: &Path, servers: Value) -> io::Result<Self> {
        let header = Header {
            version: VERSION,
            product: concat!("mcpdeck ", env!("CARGO_PKG_VERSION")).to_owned(),
            began: crate::base::Clock::system().now(),
            scrubbed: false,
            servers,
        };
        let file = BufWriter::new(own(path)?);
        let path = path.to_owned();
        let mut output = Self { path, file, header, bytes: 0, most: ROTATE, packing: None };
        output.begin()?;
        Ok(output)
    }

    fn begin(&mut self) -> io::Result<()> {
        let header = self.header.clone();
        self.bytes = 0;
        self.line(&Written::Header(&header))?;
        self.file.flush()
    }

    fn line(&mut self, line: &Written<'_>) -> io::Result<()> {
        let text = serde_json::to_vec(line)?;
        self.bytes += text.len() as u64 + 1;
        self.file.write_all(&text)?;
        self.file.write_all(b"\n")
    }

    /// Writes what is buffered, and begins another file when this one is full; says whether it did.
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
            pack(&aside, own(&packed)?)?;
            std::fs::remove_file(&aside)
        }));
        self.file = BufWriter::new(own(&self.path)?);
        self.header.began = crate::base::Clock::system().now();
        self.begin()?;
        Ok(true)
    }

    /// Waits until the file before is compressed.
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
        let mut part = self.path.clone().into_os_string();
        part.push(".part");
        pack(&self.path, own(part.as_ref())?)?;
        std::fs::rename(part, &self.path)
    }
}

/// Whether a name asks for compression.
fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "gz")
}

/// A new file that its user alone reads.
fn own(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Compresses a recording, one member for each block.
fn pack(from: &Path, to: File) -> io::Result<()> {
    let mut blocks = Blocks::open(from)?;
    let mut to = BufWriter::new(to);
    while let Some((_, text)) = blocks.next_block()? {
        let mut member = flate2::write::GzEncoder::new(to, flate2::Compression::fast());
        member.write_all(&text)?;
        to = member.finish()?;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::super::Recording;
    use super::*;

    #[test]
    fn a_full_file_is_put_aside_compressed_and_both_are_recordings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl.gz");
        let mut output = Output::create(&path, Value::Null).unwrap();
        output.most = 1_000;
        for at in 0..60 {
            output.line(&Written::End { at: Timestamp(at) }).unwrap();
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
}
