//! Splits a result into blocks: content of a tool, messages of a prompt, contents of a resource.
//! Pure; a malformed block never hides the others (MCP, server features, content types).

use base64::Engine as _;

use crate::prelude::*;
use crate::result::image::Picture;
use crate::result::rows::SharedText;
use protocol::Payload;

/// The blocks of a result.
pub type Blocks = Vec<Block>;

/// One piece of content.
#[derive(Clone, Debug)]
pub struct Block {
    /// Role, type, URI: the line above it.
    pub title: SafeText,
    /// JSON pointer of the block within the result.
    pub pointer: String,
    /// The media type, as declared; empty when it is not.
    pub mime: String,
    /// What it is.
    pub kind: BlockKind,
}

#[derive(Clone, Debug)]
pub enum BlockKind {
    /// Text; drawn as Markdown when it looks like it.
    Text(SharedText),
    /// A picture; decoded when it becomes visible.
    Picture(Picture, Binary),
    /// Audio, blobs, pictures that cannot be drawn.
    Data {
        /// Its properties, and why it is not drawn.
        about: SafeText,
        /// The bytes.
        binary: Binary,
    },
    /// A link to a resource; nothing is fetched until the user opens it.
    Link {
        /// The URI on the wire.
        uri: String,
        /// Its properties.
        about: SafeText,
    },
    /// A kind the specification does not define; shown as it was sent.
    Unknown {
        /// Why it is shown raw.
        reason: SafeText,
    },
}

/// Splits a result. Never fails; a result of unknown shape has no blocks.
pub fn blocks(result: &Payload) -> Blocks {
    let mut out = Vec::new();
    let list = |key: &str| result.get(key).and_then(Value::as_array);
    if let Some(content) = list("content") {
        for (i, block) in content.iter().enumerate() {
            out.push(read(result, block, format!("/content/{i}"), ""));
        }
    } else if let Some(messages) = list("messages") {
        for (i, message) in messages.iter().enumerate() {
            let role = message["role"].as_str().unwrap_or("no role");
            match message.get("content") {
                Some(Value::Array(parts)) => {
                    for (j, part) in parts.iter().enumerate() {
                        let pointer = format!("/messages/{i}/content/{j}");
                        out.push(read(result, part, pointer, role));
                    }
                }
                Some(part) => out.push(read(result, part, format!("/messages/{i}/content"), role)),
                None => out.push(unknown(format!("/messages/{i}"), "a message without content")),
            }
        }
    } else if let Some(contents) = list("contents") {
        for i in 0..contents.len() {
            out.push(resource(result, format!("/contents/{i}"), ""));
        }
    }
    out
}

/// A string member of a block; `None` if it is not a string.
fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn read(result: &Payload, block: &Value, pointer: String, role: &str) -> Block {
    let title = |word: &str| title(role, word);
    let has_text = |key: &str| text_of(block, key).is_some();
    match text_of(block, "type").unwrap_or("") {
        "text" if has_text("text") => Block {
            title: title(""),
            mime: "text/plain".to_owned(),
            kind: BlockKind::Text(SharedText::new(result, format!("{pointer}/text"))),
            pointer,
        },
        kind @ ("image" | "audio") if has_text("data") => {
            let mime = text_of(block, "mimeType").unwrap_or(kind);
            let read = if kind == "image" { picture } else { data };
            read(result, pointer, "data", mime, title(mime))
        }
        "resource" => resource(result, format!("{pointer}/resource"), role),
        "resource_link" if has_text("uri") => {
            let uri = text_of(block, "uri").unwrap_or_default().to_owned();
            let name = text_of(block, "title").or_else(|| text_of(block, "name"));
            let about = [name, text_of(block, "mimeType"), text_of(block, "description")];
            let about = about.into_iter().flatten().filter(|said| !said.is_empty());
            let about = SafeText::line(&about.collect::<Vec<_>>().join(" · "));
            let kind = BlockKind::Link { uri, about };
            Block { title: title("link"), mime: String::new(), pointer, kind }
        }
        "" => unknown(pointer, "a content block without a type"),
        kind @ ("text" | "image" | "audio" | "resource_link") => {
            unknown(pointer, &format!("a block of type {kind} without its required data"))
        }
        other => unknown(pointer, &format!("a block of an unknown type: {other}")),
    }
}

fn title(role: &str, word: &str) -> SafeText {
    let parts = [role, word].into_iter().filter(|part| !part.is_empty());
    SafeText::line(&parts.collect::<Vec<_>>().join(" · "))
}

fn unknown(pointer: String, reason: &str) -> Block {
    let kind = BlockKind::Unknown { reason: SafeText::cut(reason, 200) };
    Block { title: SafeText::line("unknown"), mime: String::new(), pointer, kind }
}

fn resource(result: &Payload, pointer: String, role: &str) -> Block {
    let Some(block) = result.pointer(&pointer) else {
        return unknown(pointer, "a resource block without a resource");
    };
    let uri = text_of(block, "uri").unwrap_or("no uri");
    let mime = text_of(block, "mimeType").unwrap_or_default();
    let shown = if mime.is_empty() { uri.to_owned() } else { format!("{uri} · {mime}") };
    let title = title(role, SafeText::cut(&shown, 300).as_str());
    if text_of(block, "text").is_some() {
        let kind = BlockKind::Text(SharedText::new(result, format!("{pointer}/text")));
        return Block { title, pointer, mime: mime.to_owned(), kind };
    }
    if text_of(block, "blob").is_some() {
        if mime.starts_with("image/") && mime != "image/svg+xml" {
            return picture(result, pointer, "blob", mime, title);
        }
        return data(result, pointer, "blob", mime, title);
    }
    unknown(pointer, "a resource with neither text nor blob")
}

fn binary(result: &Payload, pointer: &str, key: &str) -> Binary {
    Binary::new(SharedText::new(result, format!("{pointer}/{key}")))
}

fn picture(result: &Payload, pointer: String, key: &str, mime: &str, title: SafeText) -> Block {
    let binary = binary(result, &pointer, key);
    let picture = Picture::new(binary.text.clone());
    let kind = BlockKind::Picture(picture, binary);
    Block { title, pointer, mime: mime.to_owned(), kind }
}

fn data(result: &Payload, pointer: String, key: &str, mime: &str, title: SafeText) -> Block {
    let binary = binary(result, &pointer, key);
    let about = SafeText::line(&binary.facts());
    Block { title, pointer, mime: mime.to_owned(), kind: BlockKind::Data { about, binary } }
}

impl Block {
    /// Turns a picture that cannot be drawn into data, with the reason.
    pub(super) fn undrawable(&mut self, reason: &str) {
        if let BlockKind::Picture(_, binary) = &self.kind {
            let about = SafeText::line(&format!("not drawn: {reason} · {}", binary.facts()));
            self.kind = BlockKind::Data { about, binary: binary.clone() };
        }
    }

    /// Whether its text looks like a JSON document that is too large to be indented.
    pub(super) fn is_too_large(&self) -> bool {
        let BlockKind::Text(text) = &self.kind else { return false };
        let text = text.as_str();
        text.len() > MAX_INDENTED_BYTES && text.trim_start().starts_with(['{', '['])
    }

    /// The bytes, of binary content.
    pub(super) const fn binary(&self) -> Option<&Binary> {
        match &self.kind {
            BlockKind::Picture(_, binary) | BlockKind::Data { binary, .. } => Some(binary),
            _ => None,
        }
    }
}

/// A value as indented JSON of at most `most` bytes, and whether it was cut. The cost depends on
/// the output, not on the size of the value.
pub(crate) fn pretty(value: &impl serde::Serialize, most: usize) -> (String, bool) {
    struct Bounded(Vec<u8>, usize);
    impl std::io::Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let room = self.1 - self.0.len();
            self.0.extend(bytes.iter().take(room));
            if bytes.len() > room {
                return Err(std::io::ErrorKind::FileTooLarge.into());
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut out = Bounded(Vec::new(), most);
    let cut = serde_json::to_writer_pretty(&mut out, value).is_err();
    // Cut between characters.
    let whole = std::str::from_utf8(&out.0).map_or_else(|error| error.valid_up_to(), str::len);
    out.0.truncate(whole);
    (String::from_utf8(out.0).unwrap_or_default(), cut)
}

/// Most text that is indented.
pub(super) const MAX_INDENTED_BYTES: usize = 8_000_000;
/// Most text that indenting may make of it: every level adds blanks to each line.
const MAX_SPACED_BYTES: usize = 4 * MAX_INDENTED_BYTES;

/// Text that is one JSON document, indented; `None` if it is not, or too large. It is checked and
/// spaced out, never built as a value, so that megabytes take milliseconds.
pub(super) fn indented(text: &str) -> Option<String> {
    let trimmed = text.trim();
    if trimmed.len() > MAX_INDENTED_BYTES || !trimmed.starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str::<serde::de::IgnoredAny>(trimmed).ok()?;
    spaced_out(trimmed)
}

/// Valid JSON with a line for each member and item; `None` if that is too large. Numbers and names
/// stay as they are written; texts with escapes are written as `serde_json` does.
fn spaced_out(json: &str) -> Option<String> {
    const STEP: &str = "  ";
    let mut out = String::with_capacity(json.len() + json.len() / 2);
    let mut depth = 0;
    let mut rest = json;
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(STEP));
    };
    while let Some(first) = rest.chars().next() {
        if out.len() > MAX_SPACED_BYTES {
            return None;
        }
        let mut length = first.len_utf8();
        match first {
            '"' => {
                length = terminal::json_line::string_end(rest);
                out.push_str(&unescaped(&rest[..length]));
            }
            '{' | '[' => {
                let inside = rest[1..].trim_start();
                out.push(first);
                if inside.starts_with(['}', ']']) {
                    out.push_str(&inside[..1]);
                    length = rest.len() - inside.len() + 1;
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(first);
            }
            ',' => {
                out.push(first);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            first if first.is_ascii_whitespace() => {}
            _ => {
                let end = |c: char| c.is_ascii_whitespace() || ",:]}".contains(c);
                length = rest.find(end).unwrap_or(rest.len());
                out.push_str(&rest[..length]);
            }
        }
        rest = &rest[length..];
    }
    Some(out)
}

/// A JSON string without escapes that it does not need.
fn unescaped(written: &str) -> std::borrow::Cow<'_, str> {
    if !written.contains('\\') {
        return written.into();
    }
    let text: Result<String, _> = serde_json::from_str(written);
    text.map_or_else(|_| written.into(), |text| Value::String(text).to_string().into())
}

/// A file suffix for a media type: only letters and digits, whatever the server sent.
pub fn suffix(mime: &str) -> String {
    let known = match mime {
        "audio/mpeg" => "mp3",
        "audio/x-wav" | "audio/wave" => "wav",
        "image/jpeg" => "jpg",
        "image/svg+xml" => "svg",
        "text/plain" => "txt",
        "text/markdown" => "md",
        "" | "application/octet-stream" => "bin",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let tail = mime.rsplit(['/', '+']).next().unwrap_or_default();
    let clean: String = tail.chars().take_while(char::is_ascii_alphanumeric).take(8).collect();
    if clean.is_empty() { "bin".to_owned() } else { clean.to_ascii_lowercase() }
}

// Binary content as base64: what it is, and any row of it in hexadecimal, without decoding all of
// it. Pure; it is only decoded in full to be saved, elsewhere.

/// Bytes examined to detect the kind.
const MAX_HEAD_BYTES: usize = 48 << 10;
/// Base64 with line breaks is packed to show its rows; beyond this size it can only be saved.
const MAX_PACKED_BYTES: usize = 4 << 20;

/// Binary content.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The base64.
    pub(super) text: SharedText,
    /// The text without line breaks, if it had any.
    packed: Option<String>,
    /// Decoded size in bytes; approximate if the base64 is malformed.
    bytes: u64,
    /// Why it cannot be shown by row.
    broken: Option<&'static str>,
}

impl Binary {
    /// Binary content from base64. Examines only its beginning, whatever its size.
    pub fn new(text: SharedText) -> Self {
        let raw = text.as_str();
        let head = &raw.as_bytes()[..raw.len().min(MAX_HEAD_BYTES)];
        let mut packed = None;
        let mut broken = None;
        if head.iter().any(u8::is_ascii_whitespace) {
            if raw.len() <= MAX_PACKED_BYTES {
                packed = Some(raw.split_ascii_whitespace().collect::<String>());
            } else {
                broken = Some("its base64 has line breaks");
            }
        }
        let used = packed.as_deref().unwrap_or(raw);
        let padding = used.bytes().rev().take(2).take_while(|b| *b == b'=').count();
        let bytes = (used.len() as u64 * 3 / 4).saturating_sub(padding as u64);
        let mut binary = Self { text, packed, bytes, broken };
        if binary.broken.is_none() && bytes > 0 && binary.read(0, 3).is_none() {
            binary.broken = Some("bad base64");
        }
        binary
    }

    /// A description: the kind, detected from its first bytes, and the size.
    pub fn facts(&self) -> String {
        let size = self.bytes;
        if let Some(reason) = self.broken {
            return format!("{reason} · about {size} bytes");
        }
        let head = self.read(0, MAX_HEAD_BYTES).unwrap_or_default();
        let other = if is_text(&head) { "text" } else { "data of no known kind" };
        let kind = kind(&head).unwrap_or(other);
        format!("{kind} · {size} bytes")
    }

    /// How many rows of hexadecimal there are.
    pub fn rows(&self) -> usize {
        if self.broken.is_some() {
            return 0;
        }
        usize::try_from(self.bytes.div_ceil(ROW_BYTES as u64)).unwrap_or(usize::MAX)
    }

    /// One row of hexadecimal.
    pub fn row(&self, row: usize) -> String {
        let from = row.saturating_mul(ROW_BYTES);
        match self.read(from, ROW_BYTES) {
            Some(bytes) => line(from, &bytes),
            None => format!("{from:08x}  bad base64 from here on"),
        }
    }

    /// At most `most` bytes from `from` on.
    fn read(&self, from: usize, most: usize) -> Option<Vec<u8>> {
        let text = self.packed.as_deref().unwrap_or_else(|| self.text.as_str()).as_bytes();
        // Four letters encode three bytes.
        let first = from / 3 * 4;
        let last = (from + most).div_ceil(3).saturating_mul(4).min(text.len());
        let part = text.get(first..last)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(part).ok()?;
        let skip = from % 3;
        Some(bytes.into_iter().skip(skip).take(most).collect())
    }
}

// Bytes as rows of hexadecimal, and what kind of file they look like. Pure.

/// Bytes per row.
pub const ROW_BYTES: usize = 16;

/// One row: offset, bytes, and those that are printable ASCII.
pub fn line(from: usize, part: &[u8]) -> String {
    let half =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let (left, right) = part.split_at(part.len().min(ROW_BYTES / 2));
    let sign = |byte: &u8| if (0x20..0x7f).contains(byte) { *byte as char } else { '.' };
    let signs: String = part.iter().map(sign).collect();
    format!("{from:08x}  {:24} {:24} {signs}", half(left), half(right))
}

/// The kind of file indicated by the first bytes, whatever the declared type.
pub fn kind(bytes: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 14] = [
        (b"\x89PNG", "PNG image"),
        (b"\xff\xd8\xff", "JPEG image"),
        (b"GIF8", "GIF image"),
        (b"%PDF", "PDF document"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"\x1f\x8b", "gzip data"),
        (b"OggS", "Ogg media"),
        (b"fLaC", "FLAC audio"),
        (b"ID3", "MP3 audio"),
        (b"\xff\xfb", "MP3 audio"),
        (b"\x7fELF", "ELF program"),
        (b"SQLite format 3", "SQLite database"),
        (b"<svg", "SVG image"),
        (b"<!DOCTYPE", "HTML"),
    ];
    if bytes.starts_with(b"RIFF") && bytes.len() > 12 {
        return Some(match &bytes[8..12] {
            b"WEBP" => "WebP image",
            b"WAVE" => "WAV audio",
            _ => "RIFF media",
        });
    }
    known.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, name)| *name)
}

/// Whether the beginning of some data is text: UTF-8 without control characters other than line
/// breaks and tabs. It may be cut in the middle of a character.
pub fn is_text(head: &[u8]) -> bool {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    !text.is_empty() && !text.contains(odd)
}

#[cfg(test)]
mod binary_tests {

    use super::*;

    fn binary(text: &str) -> Binary {
        Binary::new(SharedText::from_text(text.to_owned()))
    }

    #[test]
    fn every_row_is_found_without_the_rest() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1_003).collect();
        let engine = base64::engine::general_purpose::STANDARD;
        let plain = engine.encode(&bytes);
        let broken_up: String = plain
            .as_bytes()
            .chunks(76)
            .map(|line| String::from_utf8_lossy(line).into_owned() + "\r\n")
            .collect();
        for text in [plain, broken_up] {
            let binary = binary(&text);
            assert_eq!((binary.bytes, binary.rows()), (1_003, 63));
            for row in 0..binary.rows() {
                let part = &bytes[row * 16..(row * 16 + 16).min(bytes.len())];
                assert_eq!(binary.row(row), line(row * 16, part));
            }
        }
    }

    #[test]
    fn data_that_is_text_is_called_so() {
        let engine = base64::engine::general_purpose::STANDARD;
        let called = |bytes: &[u8]| binary(&engine.encode(bytes)).facts();
        assert_eq!(called("a line\n\u{e9}\t".as_bytes()), "text · 10 bytes");
        assert_eq!(called(b"a\x1b[2J"), "data of no known kind · 5 bytes");
        assert_eq!(called(&[0xc3, 0x28]), "data of no known kind · 2 bytes");
        // Cut in the middle of a character.
        assert!(called("\u{e9}".repeat(30_000).as_bytes()).starts_with("text"));
        assert!(called(&["x", &"\u{e9}".repeat(30_000)].concat().into_bytes()).starts_with("text"));
    }

    #[test]
    fn what_is_no_base64_says_so_and_is_never_decoded() {
        assert!(binary("%%%").facts().contains("bad base64"));
        assert_eq!(binary("%%%").rows(), 0);
        let late = format!("{}%%%%", "AAAA".repeat(20_000));
        assert!(binary(&late).row(3_750).contains("bad base64 from here on"));
        assert_eq!(binary("").rows(), 0);
        assert_eq!(binary("").bytes, 0);
    }
}
