//! Recordings: what a host and its servers did, as JSON lines that can be read again elsewhere.
//!
//! Every line is an object with a `type`: `header` (once, first), `fact` (what the view is folded
//! from), `frame` (a message of a server in either direction), `log`, `missed` (what came faster
//! than it could be kept) and `end`. A cut last line is a program that was killed, not a fault.
//! Secrets are masked before anything is written, as everywhere else that keeps something.

mod compare;
mod report;
mod scrub;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::base::Timestamp;
use crate::base::logs::LogRecord;
use crate::host::{Host, Record};
use crate::mcp::traffic::TrafficRecord;

pub use compare::{Difference, differences};
pub use report::html;
pub use scrub::{Scrubbed, Scrubber};

/// Format of the lines.
pub const VERSION: u32 = 1;
/// Size at which a file is put aside and another begun, in bytes; the one before is kept.
const ROTATE: u64 = 1 << 30;
/// Bytes of one message that are kept while something records.
const FRAME: usize = 4 << 20;
/// Longest line that is read, in bytes.
const LONGEST: usize = 64 << 20;
/// Records written at once.
const BATCH: usize = 512;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// The program that recorded, with its version.
    pub product: String,
    /// When it began.
    pub began: Timestamp,
    /// Whether [`Scrubber`] has been over it.
    #[serde(default)]
    pub scrubbed: bool,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Line {
    /// What this is.
    Header(Header),
    /// A fact about the host or a server.
    Fact(Record),
    /// A message, or a line that is none.
    Frame(TrafficRecord),
    /// A line of a log.
    Log(LogRecord),
    /// Records that were dropped before they could be written.
    Missed {
        /// Facts.
        facts: u64,
        /// Messages.
        frames: u64,
        /// Lines of logs.
        logs: u64,
    },
    /// The recording was ended; without it the program was killed.
    End {
        /// When.
        at: Timestamp,
    },
}

/// The JSON Schema of a line (`mcpdeck schema recording`), as far as programs rely on it.
pub fn json_schema() -> Value {
    let kinds = ["header", "fact", "frame", "log", "missed", "end"];
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a mcpdeck recording",
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": kinds}},
        "oneOf": [
            {"properties": {
                "type": {"const": "header"}, "version": {"const": VERSION},
                "product": {"type": "string"}, "scrubbed": {"type": "boolean"},
                "began": {"type": "integer", "description": "microseconds since 1970, UTC"},
            }, "required": ["version", "began"]},
            {"properties": {
                "type": {"const": "fact"}, "seq": {"type": "integer"}, "at": {"type": "integer"},
                "fact": {"type": "string", "description": "what happened; its fields stand beside it"},
            }, "required": ["seq", "at", "fact"]},
            {"properties": {
                "type": {"const": "frame"}, "at": {"type": "integer"}, "server": {"type": "string"},
                "direction": {"enum": ["out", "in"]},
                "kind": {"enum": ["request", "notification", "response", "error", "junk"]},
                "method": {"type": ["string", "null"]}, "target": {"type": ["string", "null"]},
                "id": {"type": ["string", "null"]}, "call": {"type": ["integer", "null"]},
                "bytes": {"type": "integer"},
                "body": {"type": "string", "description": "the message as it passed, secrets masked"},
                "cut": {"type": "boolean", "description": "whether the body was longer"},
            }, "required": ["at", "server", "direction", "kind", "body"]},
            {"properties": {
                "type": {"const": "log"}, "at": {"type": "integer"},
                "server": {"type": ["string", "null"]}, "level": {"type": "string"},
                "source": {"enum": ["host", "stderr", "build", "notification"]},
                "text": {"type": "string"},
            }, "required": ["at", "level", "text"]},
            {"properties": {
                "type": {"const": "missed"}, "facts": {"type": "integer"},
                "frames": {"type": "integer"}, "logs": {"type": "integer"},
            }},
            {"properties": {"type": {"const": "end"}, "at": {"type": "integer"}}},
        ],
    })
}

/// A running recording. Dropping it ends it without the last line.
#[derive(Debug)]
pub struct Recorder {
    stop: CancellationToken,
    task: JoinHandle<io::Result<()>>,
}

impl Recorder {
    /// Records everything a host does from its start on, as far as the host still keeps it.
    ///
    /// # Errors
    /// When the file cannot be made; one that exists is not written over.
    pub fn start(host: &Host, path: &Path) -> io::Result<Self> {
        let output = Output::create(path)?;
        let stop = CancellationToken::new();
        host.traffic().keep_whole(FRAME);
        let task = tokio::spawn(record(host.clone(), output, stop.clone()));
        Ok(Self { stop, task })
    }

    /// Writes what is left and the last line.
    ///
    /// # Errors
    /// When something could not be written, now or before.
    pub async fn finish(self) -> io::Result<()> {
        self.stop.cancel();
        self.task.await.map_err(io::Error::other)?
    }
}

async fn record(host: Host, mut output: Output, stop: CancellationToken) -> io::Result<()> {
    let (traffic, logs) = (host.traffic(), host.logs());
    let (mut new_frames, mut new_logs) = (traffic.changed(), logs.changed());
    let mut facts = host.subscribe();
    let (mut frame, mut log, mut seq) = (0, 0, 0);
    for record in host.journal() {
        seq = record.seq;
        output.line(&Line::Fact((*record).clone()))?;
    }
    loop {
        let is_last = stop.is_cancelled();
        let (mut missed_facts, mut lines) = (0, 0);
        while lines < BATCH
            && let Ok(record) = facts.try_recv()
        {
            if record.seq > seq {
                missed_facts += record.seq - seq - 1;
                seq = record.seq;
                output.line(&Line::Fact((*record).clone()))?;
                lines += 1;
            }
        }
        let frames = traffic.read(frame, BATCH);
        frame = frames.next;
        let records = logs.read(log, BATCH);
        log = records.next;
        lines += frames.items.len() + records.items.len();
        for item in frames.items {
            output.line(&Line::Frame((*item).clone()))?;
        }
        for item in records.items {
            output.line(&Line::Log((*item).clone()))?;
        }
        if missed_facts + frames.missed + records.missed > 0 {
            let missed =
                Line::Missed { facts: missed_facts, frames: frames.missed, logs: records.missed };
            output.line(&missed)?;
        }
        if lines > 0 {
            output.flush()?;
            tokio::task::yield_now().await;
            continue;
        }
        if is_last {
            output.line(&Line::End { at: host.clock().now() })?;
            return output.flush();
        }
        tokio::select! {
            _ = new_frames.changed() => {}
            _ = new_logs.changed() => {}
            // What was received here is read with the next batch from the journal's own order.
            fact = facts.recv() => {
                let Some(record) = fact else { stop.cancel(); continue };
                if record.seq > seq {
                    seq = record.seq;
                    output.line(&Line::Fact((*record).clone()))?;
                }
            }
            () = stop.cancelled() => {}
        }
    }
}

/// The file that is written, which begins anew when it is full.
struct Output {
    path: PathBuf,
    file: io::BufWriter<File>,
    bytes: u64,
}

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
        let mut output = Self { path: path.to_owned(), file: Self::open(path)?, bytes: 0 };
        output.header()?;
        output.flush()?;
        Ok(output)
    }

    fn open(path: &Path) -> io::Result<io::BufWriter<File>> {
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(io::BufWriter::new(options.open(path)?))
    }

    fn header(&mut self) -> io::Result<()> {
        let header = Header {
            version: VERSION,
            product: concat!("mcpdeck ", env!("CARGO_PKG_VERSION")).to_owned(),
            began: crate::base::Clock::system().now(),
            scrubbed: false,
        };
        self.line(&Line::Header(header))
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let text = serde_json::to_vec(line)?;
        self.bytes += text.len() as u64 + 1;
        self.file.write_all(&text)?;
        self.file.write_all(b"\n")
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()?;
        if self.bytes < ROTATE {
            return Ok(());
        }
        let mut before = self.path.clone().into_os_string();
        before.push(".1");
        std::fs::rename(&self.path, before)?;
        self.file = Self::open(&self.path)?;
        self.bytes = 0;
        self.header()
    }
}

/// A recording that is read line by line; compressed ones (gzip) too.
pub struct Recording {
    header: Header,
    lines: Box<dyn BufRead + Send>,
    number: usize,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// When the file cannot be read, or is no recording of a version that is known.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let is_gzip = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let lines: Box<dyn BufRead + Send> = if is_gzip {
            Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        let header =
            Header { version: 0, product: String::new(), began: Timestamp(0), scrubbed: false };
        let mut recording = Self { header, lines, number: 0 };
        match recording.next() {
            Some(Ok(Line::Header(header))) if header.version == VERSION => {
                recording.header = header;
                Ok(recording)
            }
            Some(Ok(Line::Header(header))) => Err(invalid(format!(
                "it is a recording of version {}; this program reads version {VERSION}",
                header.version
            ))),
            Some(Err(error)) if error.kind() != io::ErrorKind::InvalidData => Err(error),
            _ => Err(invalid("it is not a recording: its first line is no header")),
        }
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next line as it stands, without its end; `None` at the end.
    fn text(&mut self) -> Option<io::Result<Vec<u8>>> {
        let mut text = Vec::new();
        let mut limited = (&mut self.lines).take(LONGEST as u64 + 1);
        match limited.read_until(b'\n', &mut text) {
            Ok(0) => None,
            // A line without an end was being written when the program was killed.
            Ok(_) if text.last() != Some(&b'\n') => {
                (text.len() > LONGEST).then(|| Err(invalid("a line is longer than 64 MiB")))
            }
            Ok(_) => {
                self.number += 1;
                Some(Ok(text))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl Iterator for Recording {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = match self.text()? {
            Ok(text) => text,
            Err(error) => return Some(Err(error)),
        };
        let line = serde_json::from_slice(&text);
        Some(line.map_err(|error| invalid(format!("line {}: {error}", self.number))))
    }
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}
