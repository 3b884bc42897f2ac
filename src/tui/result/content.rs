//! A result taken apart into blocks: content of a tool, messages of a prompt, contents of a
//! resource. Pure; one odd block never hides the others (MCP, server features, content types).

use serde_json::Value;

use super::binary::Binary;
use super::image::Picture;
use super::rows::Shared;
use crate::base::text::SafeText;
use crate::mcp::Payload;

/// The blocks of a result.
pub type Blocks = Vec<Block>;

/// One piece of content.
#[derive(Clone, Debug)]
pub struct Block {
    /// Role, type, URI: what stands above it.
    pub title: SafeText,
    /// JSON pointer of the block within the result.
    pub pointer: String,
    /// The media type, as declared; empty when it is not.
    pub mime: String,
    /// What it is.
    pub kind: BlockKind,
}

/// What a block is.
#[derive(Clone, Debug)]
pub enum BlockKind {
    /// Text; drawn as Markdown when it looks like it.
    Text(Shared),
    /// A picture; decoded when it is looked at.
    Picture(Picture, Binary),
    /// Audio, blobs, pictures that cannot be drawn.
    Data {
        /// What is known of it, and why it is not drawn.
        about: SafeText,
        /// The bytes.
        binary: Binary,
    },
    /// A link to a resource; nothing is fetched until a person opens it.
    Link {
        /// The URI on the wire.
        uri: String,
        /// What is known of it.
        about: SafeText,
    },
    /// Something the specification does not know; shown as it was sent.
    Unknown {
        /// Why it is shown raw.
        reason: SafeText,
    },
}

/// Takes a result apart. Never fails; an answer of no known shape has no blocks.
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

/// A string of a block, whatever else stands in its place.
struct Text<'a>(Option<&'a str>);

impl Text<'_> {
    fn or(&self, other: &'static str) -> &str {
        self.0.unwrap_or(other)
    }
}

fn text_of<'a>(value: &'a Value, key: &str) -> Text<'a> {
    Text(value.get(key).and_then(Value::as_str))
}

/// Whether a string stands there, without reading it.
fn has_text(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(Value::is_string)
}

fn read(result: &Payload, block: &Value, pointer: String, role: &str) -> Block {
    let kind = text_of(block, "type");
    let title = |word: &str| title(role, word);
    match kind.or("") {
        "text" if has_text(block, "text") => Block {
            title: title(""),
            mime: "text/plain".to_owned(),
            kind: BlockKind::Text(Shared::new(result, format!("{pointer}/text"))),
            pointer,
        },
        "image" if has_text(block, "data") => {
            let mime = text_of(block, "mimeType");
            let mime = mime.or("image");
            picture(result, pointer, "data", mime, title(mime))
        }
        "audio" if has_text(block, "data") => {
            let mime = text_of(block, "mimeType");
            let mime = mime.or("audio");
            data(result, pointer, "data", mime, title(mime))
        }
        "resource" => resource(result, format!("{pointer}/resource"), role),
        "resource_link" if has_text(block, "uri") => {
            let uri = text_of(block, "uri").or("").to_owned();
            let (name, title_of) = (text_of(block, "name"), text_of(block, "title"));
            let (mime, more) = (text_of(block, "mimeType"), text_of(block, "description"));
            let name = title_of.0.unwrap_or(name.or(""));
            let about = [name, mime.or(""), more.or("")];
            let about =
                about.iter().filter(|s| !s.is_empty()).copied().collect::<Vec<_>>().join(" · ");
            Block {
                title: title("link"),
                mime: String::new(),
                pointer,
                kind: BlockKind::Link { uri, about: SafeText::line(&about) },
            }
        }
        "" => unknown(pointer, "a content block without a type"),
        "text" | "image" | "audio" | "resource_link" => {
            unknown(pointer, &format!("a block of type {} without what belongs in it", kind.or("")))
        }
        other => unknown(pointer, &format!("a block of an unknown type: {other}")),
    }
}

fn title(role: &str, word: &str) -> SafeText {
    match (role.is_empty(), word.is_empty()) {
        (true, _) => SafeText::line(word),
        (false, true) => SafeText::line(role),
        (false, false) => SafeText::line(&format!("{role} · {word}")),
    }
}

fn unknown(pointer: String, reason: &str) -> Block {
    let short: String = reason.chars().take(200).collect();
    Block {
        title: SafeText::line("unknown"),
        mime: String::new(),
        pointer,
        kind: BlockKind::Unknown { reason: SafeText::line(&short) },
    }
}

fn resource(result: &Payload, pointer: String, role: &str) -> Block {
    let Some(block) = result.pointer(&pointer) else {
        return unknown(pointer, "a resource block without a resource");
    };
    let (uri, mime) = (text_of(block, "uri"), text_of(block, "mimeType"));
    let (uri, mime) = (uri.or("no uri"), mime.or(""));
    let shown = if mime.is_empty() { uri.to_owned() } else { format!("{uri} · {mime}") };
    let title = title(role, &shown.chars().take(300).collect::<String>());
    if has_text(block, "text") {
        let kind = BlockKind::Text(Shared::new(result, format!("{pointer}/text")));
        return Block { title, pointer, mime: mime.to_owned(), kind };
    }
    if has_text(block, "blob") {
        if mime.starts_with("image/") && mime != "image/svg+xml" {
            return picture(result, pointer, "blob", mime, title);
        }
        return data(result, pointer, "blob", mime, title);
    }
    unknown(pointer, "a resource with neither text nor blob")
}

fn binary(result: &Payload, pointer: &str, key: &str) -> Binary {
    Binary::new(Shared::new(result, format!("{pointer}/{key}")))
}

fn picture(result: &Payload, pointer: String, key: &str, mime: &str, title: SafeText) -> Block {
    let binary = binary(result, &pointer, key);
    let picture = Picture::new(binary.text().clone());
    let kind = BlockKind::Picture(picture, binary);
    Block { title, pointer, mime: mime.to_owned(), kind }
}

fn data(result: &Payload, pointer: String, key: &str, mime: &str, title: SafeText) -> Block {
    let binary = binary(result, &pointer, key);
    let about = SafeText::line(&binary.facts());
    Block { title, pointer, mime: mime.to_owned(), kind: BlockKind::Data { about, binary } }
}

impl Block {
    /// A picture turned out not to be drawable: it is data, and the reason is said.
    pub(super) fn undrawable(&mut self, reason: &str) {
        if let BlockKind::Picture(_, binary) = &self.kind {
            let about = SafeText::line(&format!("not drawn: {reason} · {}", binary.facts()));
            self.kind = BlockKind::Data { about, binary: binary.clone() };
        }
    }

    /// The bytes, of binary content.
    pub(super) const fn binary(&self) -> Option<&Binary> {
        match &self.kind {
            BlockKind::Picture(_, binary) | BlockKind::Data { binary, .. } => Some(binary),
            _ => None,
        }
    }
}

/// A suffix for a file of a media type: letters and digits alone, whatever the server says.
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
