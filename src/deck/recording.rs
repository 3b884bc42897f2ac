//! Recordings: what a host and its servers did, as JSON lines that can be read again elsewhere.
//!
//! Every line is an object with a `type`: `header` (once, first), `fact` (what the view is folded
//! from), `frame` (a message from or to a server), `log`, `chat` (a message of the user to a
//! model), `missed` (counts of dropped records) and `end`. An incomplete last line means that the
//! program was killed, and is not an error. Secrets are masked before anything is written.
//!
//! A file whose name ends with `.gz` is compressed when the recording ends, in members (RFC 1952)
//! of about 1 MiB, so that a reader can start at any of them.

mod export;
mod operations;
mod play;
mod write;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use base::{LogRecord, ServerName, Timestamp};
pub use export::{ExportFormat, RecordingPart, export_recording};
use host::Record;
pub use operations::{RecordedOperation, RecordedOperations, RecordedOutcome, says_error};
pub use play::{PlayedPart, Player, Scan, has_failed};
use protocol::TrafficRecord;
pub use write::{Recorder, RecordingFailure, Scrubbed, Scrubber};

/// Format of the lines.
pub const FORMAT_VERSION: u32 = 1;
/// Longest line that is read, in bytes.
const MAX_LINE_BYTES: usize = 64 << 20;

/// The first line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// [`FORMAT_VERSION`].
    pub version: u32,
    /// The program that recorded, with its version.
    pub product: String,
    /// When it began.
    pub began: Timestamp,
    /// Whether [`Scrubber`] has processed it.
    #[serde(default)]
    pub scrubbed: bool,
    /// The servers as configured when it began, secrets masked (`mcpdeck config`).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub servers: Value,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum RecordingLine {
    /// The header.
    Header(Header),
    /// A fact about the host or a server.
    Fact(Arc<Record>),
    /// A message, or an invalid line.
    Frame(Arc<TrafficRecord>),
    /// A line of a log.
    Log(Arc<LogRecord>),
    /// A message of the user to a model.
    Chat {
        /// When.
        at: Timestamp,
        /// The message.
        text: String,
    },
    /// Records that were dropped before they could be written.
    Missed {
        /// Facts.
        facts: u64,
        /// Messages.
        frames: u64,
        /// Lines of logs.
        logs: u64,
    },
    /// The recording ended normally; missing if the program was killed.
    End {
        /// When.
        at: Timestamp,
    },
}

/// The JSON Schema of a line (`mcpdeck schema recording`), as far as programs rely on it.
pub fn recording_schema() -> Value {
    let kinds = ["header", "fact", "frame", "log", "chat", "missed", "end"];
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a mcpdeck recording",
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": kinds}},
        "oneOf": [
            {"properties": {
                "type": {"const": "header"}, "version": {"const": FORMAT_VERSION},
                "product": {"type": "string"}, "scrubbed": {"type": "boolean"},
                "began": {"type": "integer", "description": "microseconds since 1970, UTC"},
                "servers": {"type": "object", "description": "their configuration, secrets masked"},
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
                "problem": {"type": ["string", "null"], "description": "what is wrong with it"},
                "tolerated": {"type": "boolean", "description": "whether it was used all the same"},
            }, "required": ["at", "server", "direction", "kind", "body"]},
            {"properties": {
                "type": {"const": "log"}, "at": {"type": "integer"},
                "server": {"type": ["string", "null"]}, "level": {"type": "string"},
                "source": {"enum": ["host", "stderr", "build", "notification"]},
                "text": {"type": "string"},
            }, "required": ["at", "level", "text"]},
            {"properties": {
                "type": {"const": "chat"}, "at": {"type": "integer"}, "text": {"type": "string"},
            }, "required": ["at", "text"]},
            {"properties": {
                "type": {"const": "missed"}, "facts": {"type": "integer"},
                "frames": {"type": "integer"}, "logs": {"type": "integer"},
            }},
            {"properties": {"type": {"const": "end"}, "at": {"type": "integer"}}},
        ],
    })
}

impl RecordingLine {
    /// When it happened; `None` for the header and for counts.
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Fact(record) => Some(record.at),
            Self::Frame(record) => Some(record.at),
            Self::Log(record) => Some(record.at),
            Self::Chat { at, .. } | Self::End { at } => Some(*at),
            Self::Header(_) | Self::Missed { .. } => None,
        }
    }

    /// The server it is about, when it is about one.
    pub fn server(&self) -> Option<&ServerName> {
        match self {
            Self::Fact(record) => record.server.as_ref(),
            Self::Frame(record) => Some(&record.server),
            Self::Log(record) => record.server.as_ref(),
            Self::Header(_) | Self::Chat { .. } | Self::Missed { .. } | Self::End { .. } => None,
        }
    }
}

/// Reads a recording line by line, compressed (gzip) or not.
pub struct Recording {
    header: Header,
    blocks: BlockReader,
    losses: Arc<RecordingLosses>,
    /// The current block, and the offset of its next line.
    text: Vec<u8>,
    at: usize,
    number: usize,
    /// Whether a line has been read.
    has_begun: bool,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a recording of a supported version.
    pub fn open(path: &Path) -> io::Result<Self> {
        let blocks = BlockReader::open(path)?;
        let losses = Arc::clone(&blocks.losses);
        let (header, text) = (Header::default(), Vec::new());
        let mut recording =
            Self { header, blocks, losses, text, at: 0, number: 0, has_begun: false };
        recording.header = match recording.next() {
            Some(Ok(RecordingLine::Header(header))) if header.version == FORMAT_VERSION => header,
            Some(Ok(RecordingLine::Header(header))) => {
                return Err(invalid(format!(
                    "it is a recording of version {}; this program reads version {FORMAT_VERSION}",
                    header.version
                )));
            }
            Some(Err(error)) if error.kind() != io::ErrorKind::InvalidData => return Err(error),
            _ => {
                let why = recording.blocks.what_else()?;
                let is = crate::kinds::kind_of_file(path).map(|kind| format!("; it is {kind}"));
                return Err(invalid(why + &is.unwrap_or_default()));
            }
        };
        Ok(recording)
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What could not be read so far; counts on while the recording is read.
    pub fn losses(&self) -> Arc<RecordingLosses> {
        Arc::clone(&self.losses)
    }
}

/// What could not be read of a recording: it is read around it.
#[derive(Debug, Default)]
pub struct RecordingLosses {
    lines: AtomicU64,
    /// Number of the first broken line.
    first: AtomicU64,
    cuts: AtomicU64,
    /// Incomplete last lines.
    tails: AtomicU64,
}

impl RecordingLosses {
    fn line(&self, number: usize) {
        if self.lines.fetch_add(1, Ordering::Relaxed) == 0 {
            self.first.store(number as u64, Ordering::Relaxed);
        }
    }

    fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }

    fn tail(&self) {
        self.tails.fetch_add(1, Ordering::Relaxed);
    }

    /// A sentence about it; `None` when nothing was lost.
    pub fn words(&self) -> Option<String> {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut words = Vec::new();
        match (read(&self.lines), read(&self.first)) {
            (0, _) => {}
            (1, 0) => words.push("a line is broken and was left out".to_owned()),
            (1, at) => words.push(format!("line {at} is broken and was left out")),
            (lines, 0) => words.push(format!("{lines} lines are broken and were left out")),
            (lines, at) => {
                words.push(format!("{lines} lines are broken and were left out, first line {at}"));
            }
        }
        if read(&self.cuts) > 0 {
            words.push(
                "the compressed data is damaged or ends early; what follows the last whole \
                        line before that place is lost"
                    .to_owned(),
            );
        }
        if read(&self.tails) > 0 {
            words.push("the last line breaks off and was left out".to_owned());
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

impl Iterator for Recording {
    type Item = io::Result<RecordingLine>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while self.at == self.text.len() {
                match self.blocks.next_block().transpose()? {
                    Ok((_, text)) => (self.text, self.at) = (text, 0),
                    Err(error) => return Some(Err(error)),
                }
            }
            let rest = &self.text[self.at..];
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            self.at += end;
            self.number += 1;
            if rest[..end].trim_ascii().is_empty() {
                continue;
            }
            let is_first = !std::mem::replace(&mut self.has_begun, true);
            match serde_json::from_slice(&rest[..end]) {
                Ok(line) => return Some(Ok(line)),
                // Without a header it is no recording.
                Err(error) if is_first => {
                    return Some(Err(invalid(format!("line {}: {error}", self.number))));
                }
                Err(_) => self.losses.line(self.number),
            }
        }
    }
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

// Reads a recording in blocks of whole lines, each addressed by its offset in the file, so that
// opening a large file is as fast as opening a small one.

/// Bytes of a block of a file that is not compressed.
const BLOCK_BYTES: u64 = 1 << 20;

/// Reads blocks.
#[derive(Debug)]
pub struct BlockReader {
    file: BufReader<File>,
    is_packed: bool,
    losses: Arc<RecordingLosses>,
}

impl BlockReader {
    /// Opens a file without checking its content.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for one who writes, and it cannot be gone back in.
        let meta = path.metadata()?;
        if !meta.is_file() && !meta.is_dir() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mut file = BufReader::with_capacity(64 << 10, File::open(path)?);
        let is_packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        Ok(Self { file, is_packed, losses: Arc::default() })
    }

    /// Size of the file, in bytes.
    ///
    /// # Errors
    /// When its metadata cannot be read.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.file.get_ref().metadata()?.len())
    }

    /// Seeks to an offset returned by [`BlockReader::next_block`]; the first is 0.
    ///
    /// # Errors
    /// When the seek fails.
    pub fn seek(&mut self, place: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(place)).map(drop)
    }

    /// The block at an offset returned by [`BlockReader::next_block`].
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn block(&mut self, place: u64) -> io::Result<Vec<u8>> {
        self.seek(place)?;
        Ok(self.next_block()?.map_or_else(Vec::new, |(_, text)| text))
    }

    /// What a file is that is no recording, by its first bytes.
    fn what_else(&mut self) -> io::Result<String> {
        self.seek(0)?;
        let begins = self.file.fill_buf()?;
        let is = |mark: &[u8]| begins.starts_with(mark);
        let packed = |with: &str, how: &str| {
            format!("it is compressed with {with}: unpack it first ({how})")
        };
        Ok(if begins.is_empty() {
            "it is empty".to_owned()
        } else if is(&[0x28, 0xb5, 0x2f, 0xfd]) {
            packed("zstd", "zstd -d")
        } else if is(b"PK\x03\x04") {
            packed("zip", "unzip")
        } else if is(&[0xfd, b'7', b'z', b'X', b'Z']) {
            packed("xz", "xz -d")
        } else if is(b"BZh") {
            packed("bzip2", "bzip2 -d")
        } else if is(&[0xff, 0xfe]) || is(&[0xfe, 0xff]) {
            "it is UTF-16: save it as UTF-8".to_owned()
        } else if self.is_packed && self.losses.cuts.load(Ordering::Relaxed) > 0 {
            "its compressed data is damaged where it begins: no line of it can be read".to_owned()
        } else {
            "it is not a recording: its first line is not a header".to_owned()
        })
    }

    /// Decompresses what follows up to the end of a line: another program may end its members within
    /// one.
    fn unpack(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let most = MAX_LINE_BYTES as u64 + BLOCK_BYTES;
        loop {
            let left = most + 1 - text.len() as u64;
            let mut member = flate2::bufread::GzDecoder::new(&mut self.file).take(left);
            if let Err(error) = member.read_to_end(text) {
                use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
                if !matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof) {
                    return Err(error);
                }
                self.losses.cut();
                return self.skip_to_member();
            }
            if text.len() as u64 > most {
                return Err(invalid("another program compressed it: unpack it first (gunzip)"));
            }
            let is_whole = text.is_empty() || text.ends_with(b"\n");
            if is_whole || self.file.fill_buf()?.is_empty() {
                return Ok(());
            }
        }
    }

    /// The next block with its offset; `None` at the end. A last line that breaks off is left out.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn next_block(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        let place = self.file.stream_position()?;
        if self.file.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut text = Vec::new();
        if self.is_packed {
            self.unpack(&mut text)?;
        } else {
            (&mut self.file).take(BLOCK_BYTES).read_to_end(&mut text)?;
            let most = MAX_LINE_BYTES as u64;
            if text.last() != Some(&b'\n')
                && (&mut self.file).take(most).read_until(b'\n', &mut text)? as u64 == most
            {
                return Err(invalid("a line is longer than 64 MiB"));
            }
        }
        let end = memchr::memrchr(b'\n', &text).map_or(0, |end| end + 1);
        let rest = text[end..].trim_ascii();
        // An editor may have taken the last line break.
        if !rest.is_empty() && serde_json::from_slice::<serde::de::IgnoredAny>(rest).is_ok() {
            text.push(b'\n');
        } else {
            if !rest.is_empty() && !self.is_packed {
                self.losses.tail();
            }
            text.truncate(end);
        }
        if place == 0 && text.starts_with(b"\xef\xbb\xbf") {
            text.drain(..3);
        }
        Ok(Some((place, text)))
    }

    /// Goes on to the next compressed member (RFC 1952, section 2.3), or to the end.
    fn skip_to_member(&mut self) -> io::Result<()> {
        while self.file.skip_until(0x1f)? > 0 {
            let next = self.file.fill_buf()?;
            if next.starts_with(&[0x8b, 8]) {
                return self.file.seek_relative(-1);
            }
        }
        Ok(())
    }
}
