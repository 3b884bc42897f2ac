//! Finding in a result, and taking out of it: search, copy, save.

use serde_json::Value;

use super::content::BlockKind;
use super::lay::Laid;
use super::markdown;
use super::rows::{Shared, find};
use super::view::{ResultView, Tab};
use crate::mcp::Payload;
use crate::tui::effect::{Effect, Existing};

impl ResultView {
    /// Looks for `needle` from here on.
    pub fn search(&mut self, needle: &str) -> Option<Effect> {
        needle.clone_into(&mut self.needle);
        self.search_next()
    }

    pub(super) fn search_next(&mut self) -> Option<Effect> {
        let needle = self.needle.clone();
        if needle.is_empty() {
            return None;
        }
        let found = match self.with_tree(|tree, value| tree.search(value, &needle)) {
            Some(found) => found,
            None => self.search_text(&needle),
        };
        (!found).then(|| Effect::Say(format!("not found: {needle}")))
    }

    fn search_text(&mut self, needle: &str) -> bool {
        if self.tab == Tab::Compare {
            return self.search_comparison();
        }
        let blocks = self.blocks.len();
        let mut above = 0;
        let mut hits = Vec::new();
        for index in 0..blocks {
            let title = usize::from(self.has_title(index));
            if let Some(Laid::Rows(rows, text)) = self.laid.get(index) {
                let text = text.as_str();
                let local = self.scroll.saturating_sub(above + title);
                let from = if self.scroll >= above {
                    rows.slice(text, local + 1..local + 2)
                        .first()
                        .map(|r| r.as_ptr() as usize - text.as_ptr() as usize)
                } else {
                    Some(0)
                };
                let found = find(text, needle, from.unwrap_or(text.len()));
                hits.extend(found.map(|offset| above + title + rows.row_of(text, offset)));
            } else if let Some(Laid::Lines(lines)) = self.laid.get(index) {
                let wanted = needle.to_lowercase();
                let holds = |line: &Vec<markdown::Span>| {
                    line.iter()
                        .map(|(t, _)| t.as_str())
                        .collect::<String>()
                        .to_lowercase()
                        .contains(&wanted)
                };
                hits.extend(
                    lines
                        .iter()
                        .enumerate()
                        .filter(|(_, l)| holds(l))
                        .map(|(i, _)| above + title + i),
                );
            }
            above += self.block_rows(index);
        }
        let next = hits.iter().copied().filter(|row| *row > self.scroll).min();
        let Some(row) = next.or_else(|| hits.into_iter().min()) else { return false };
        self.scroll = row;
        true
    }

    pub(super) fn copied(&self) -> Effect {
        if let Some((tree, value)) = self.tree() {
            return copy_of(tree.current(value));
        }
        match self.blocks.get(self.block).map(|b| (&b.kind, &b.pointer)) {
            Some((BlockKind::Text(text), _)) => copy_text(text.as_str()),
            Some((BlockKind::Link { uri, .. }, _)) => Effect::Copy(uri.clone()),
            Some((_, pointer)) => copy_of(self.result.pointer(pointer).unwrap_or(NOTHING)),
            None => self.copied_whole(),
        }
    }

    pub(super) fn copied_whole(&self) -> Effect {
        if self.result.cut().is_some() { too_large() } else { copy_of(&self.result) }
    }

    pub(super) fn saved(&self) -> Effect {
        let block = self.blocks.get(self.block).filter(|_| self.tab == Tab::Content);
        if let Some(binary) = block.and_then(super::content::Block::binary) {
            let mime = block.map(|b| b.mime.as_str()).unwrap_or_default();
            let name = format!("mcpdeck-result.{}", super::content::suffix(mime));
            return save(&name, Content::Base64(binary.text().clone()));
        }
        if let Some(BlockKind::Text(text)) = block.map(|b| &b.kind) {
            return save("mcpdeck-result.txt", Content::Text(text.clone()));
        }
        let place = match (self.tree(), block) {
            // Of a large answer the value is only the beginning.
            _ if self.result.cut().is_some() => String::new(),
            (Some((tree, value)), _) if self.tab == Tab::Structured => {
                format!("/structuredContent{}", tree.pointer(value))
            }
            (Some((tree, value)), _) => tree.pointer(value),
            (None, Some(block)) => block.pointer.clone(),
            (None, None) => String::new(),
        };
        let content = Content::Json(Shared::new(&self.result, place));
        save("mcpdeck-result.json", content)
    }
}

/// What is to be in a file; shared with the result, made into bytes where it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text as it is.
    Text(Shared),
    /// Bytes that stand there as base64.
    Base64(Shared),
    /// A value, as indented JSON; a text alone without its quotes.
    Json(Shared),
}

impl Content {
    /// The bytes. For large results this takes time: not on the screen's thread.
    ///
    /// # Errors
    /// A sentence, when the base64 is broken.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.as_str().as_bytes().to_vec()),
            Self::Base64(text) => super::image::bytes(text.as_str()),
            Self::Json(place) => {
                let value = place.value().unwrap_or(NOTHING);
                match place.whole().or_else(|| value.as_str()) {
                    Some(text) => Ok(text.as_bytes().to_vec()),
                    None => serde_json::to_vec_pretty(value).map_err(|error| error.to_string()),
                }
            }
        }
    }
}

/// Most text that is put on the clipboard: it goes through the terminal, and few take more.
const CLIPBOARD: usize = 1 << 20;

/// What stands where nothing does.
pub(super) const NOTHING: &Value = &Value::Null;

/// A file, by the name it is to have.
fn save(name: &str, content: Content) -> Effect {
    Effect::SaveAs { path: name.into(), content, existing: Existing::Keep }
}

/// A value for the clipboard, text without its quotes; words instead when it is too large.
pub(super) fn copy_of(value: &Value) -> Effect {
    if let Some(text) = value.as_str() {
        return copy_text(text);
    }
    match pretty(value, CLIPBOARD) {
        (_, true) => too_large(),
        (text, false) => Effect::Copy(text),
    }
}

fn copy_text(text: &str) -> Effect {
    if text.len() > CLIPBOARD { too_large() } else { Effect::Copy(text.to_owned()) }
}

fn too_large() -> Effect {
    Effect::Say("too large for the clipboard (1 MiB); {save} writes it to a file".to_owned())
}

/// A value as indented JSON of at most `most` bytes, and whether it was cut there. Costs what is
/// written, whatever the size of the value.
pub(super) fn pretty(value: &Value, most: usize) -> (String, bool) {
    struct Bounded(Vec<u8>, usize);
    impl std::io::Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0.len() + bytes.len() > self.1 {
                return Err(std::io::ErrorKind::FileTooLarge.into());
            }
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut out = Bounded(Vec::new(), most);
    let cut = serde_json::to_writer_pretty(&mut out, value).is_err();
    (String::from_utf8_lossy(&out.0).into_owned(), cut)
}

/// Most text that is parsed to compare it with the structured content.
const COMPARED: usize = 256 << 10;

/// Whether a result has structured content, and text that is JSON too but says something else. A
/// server that gives the one SHOULD give the other (MCP, tools, structured content); many give the
/// text without the object that structured content has to be wrapped in, which says the same.
pub(super) fn says_otherwise(result: &Payload) -> bool {
    let Some(structured) = result.get("structuredContent") else { return false };
    let blocks = result["content"].as_array().filter(|_| result.cut().is_none());
    let mut parsed = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| block["text"].as_str())
        .filter(|text| text.len() <= COMPARED && text.trim_start().starts_with(['{', '[']))
        .filter_map(|text| serde_json::from_str::<Value>(text).ok())
        .peekable();
    if parsed.peek().is_none() {
        return false;
    }
    let wraps = |value: &Value| {
        structured.as_object().is_some_and(|map| map.len() == 1 && map.values().any(|v| v == value))
    };
    !parsed.any(|value| value == *structured || wraps(&value))
}
