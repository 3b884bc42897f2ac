//! Pictures and sound in results of tools: kept for the model while it takes them and there is room,
//! and named in a sentence otherwise. Pure.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::llm::ChatMessage;
use base::human::Bytes;
use base::text::SafeText;

/// Largest picture or sound for a model, in bytes: what the strictest provider takes (Anthropic guide,
/// Vision, 5 MB of base64).
pub(crate) const MAX_MEDIA_BYTES: usize = 3_750_000;
/// Most of them in one result.
const MAX_MEDIA_COUNT: usize = 8;
/// Most bytes of them, in base64, that a conversation keeps: requests have limits of 20 MB and more.
const MAX_KEPT_BYTES: usize = 12 << 20;
/// Most of them that a conversation keeps.
const MAX_KEPT_COUNT: usize = 20;
/// Tokens of a picture, roughly (Anthropic and Gemini guides, tokens of images).
const PICTURE_TOKENS: u64 = 1_600;
/// Bytes of sound, in base64, that make a token, roughly: 32 tokens a second.
const SOUND_BYTES_PER_TOKEN: u64 = 650;

/// A picture or a sound that a tool returned, or that the user attached.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolMedia {
    /// Its MIME type, in lower case and without parameters.
    pub mime: String,
    /// Its bytes in base64.
    pub data: Arc<str>,
}

impl fmt::Debug for ToolMedia {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes in base64", self.mime, self.data.len())
    }
}

impl ToolMedia {
    /// Whether it is a picture, not sound.
    pub fn is_picture(&self) -> bool {
        self.mime.starts_with("image/")
    }

    /// Its tokens, estimated.
    pub fn tokens(&self) -> u64 {
        let sound = self.data.len() as u64 / SOUND_BYTES_PER_TOKEN;
        if self.is_picture() { PICTURE_TOKENS } else { sound }
    }

    /// Its address with the data within.
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.mime, self.data)
    }
}

/// The types of pictures that are shown to people: no browser runs anything within them.
const SHOWN_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The pictures and sounds of a result.
#[derive(Debug, Default)]
pub(crate) struct ResultMedia {
    /// Those that the model takes.
    pub(crate) media: Vec<ToolMedia>,
    /// The pictures that people are shown.
    pub(crate) pictures: Vec<ToolMedia>,
}

/// The pictures of the results of a session, for people to look at: the latest of them. The text of
/// the result names those that are gone.
#[derive(Debug, Default)]
pub(crate) struct PictureShelf {
    /// By the id of the call, oldest first.
    calls: VecDeque<(String, Vec<ToolMedia>)>,
    /// Their size in base64, in bytes.
    bytes: usize,
    /// Whether any were added since they were saved.
    is_changed: bool,
}

impl PictureShelf {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The same for a copy of the conversation, which is yet to be saved.
    pub(crate) fn copied(&self) -> Self {
        Self { calls: self.calls.clone(), bytes: self.bytes, is_changed: !self.is_empty() }
    }

    /// All as JSON, when any were added since this was asked last.
    pub(crate) fn changed(&mut self) -> Option<String> {
        let is_changed = std::mem::take(&mut self.is_changed);
        is_changed.then(|| serde_json::to_string(&self.calls).unwrap_or_default())
    }

    /// Reads what [`PictureShelf::changed`] wrote; without what may not be shown.
    pub(crate) fn from_json(text: &str) -> Self {
        let calls: Vec<(String, Vec<ToolMedia>)> = serde_json::from_str(text).unwrap_or_default();
        let mut shelf = Self::default();
        for (call, mut pictures) in calls {
            pictures.retain(|one| SHOWN_TYPES.contains(&one.mime.as_str()));
            pictures.truncate(MAX_MEDIA_COUNT);
            shelf.add(&call, pictures);
        }
        shelf.is_changed = false;
        shelf
    }

    /// Adds those of a call; the oldest make room.
    pub(crate) fn add(&mut self, call: &str, pictures: Vec<ToolMedia>) {
        if pictures.is_empty() {
            return;
        }
        self.is_changed = true;
        self.bytes += size(&pictures);
        self.calls.push_back((call.to_owned(), pictures));
        let count = |shelf: &Self| shelf.calls.iter().map(|(_, all)| all.len()).sum::<usize>();
        while self.bytes > MAX_KEPT_BYTES || count(self) > MAX_KEPT_COUNT {
            let Some((_, old)) = self.calls.pop_front() else { break };
            self.bytes -= size(&old);
        }
    }

    /// The pictures of a call.
    pub(crate) fn of_call(&self, call: &str) -> &[ToolMedia] {
        // Ids of providers are unique within a conversation, but for what was written again.
        let found = self.calls.iter().rev().find(|(id, _)| id == call);
        found.map_or(&[], |(_, pictures)| pictures)
    }
}

fn size(pictures: &[ToolMedia]) -> usize {
    pictures.iter().map(|one| one.data.len()).sum()
}

/// The media type and the size in bytes of each picture, without its data.
pub(crate) fn about(pictures: &[ToolMedia]) -> Vec<Value> {
    let one = |one: &ToolMedia| json!({"mimeType": one.mime, "bytes": one.data.len() / 4 * 3});
    pictures.iter().map(one).collect()
}

impl ResultMedia {
    /// Takes one content block's data; returns the sentence that stands in the text for it. `takes`
    /// tells the MIME types that the model takes.
    pub(crate) fn take(
        &mut self,
        mime: Option<&str>,
        data: &str,
        takes: impl Fn(&str) -> bool,
    ) -> String {
        let written = mime.unwrap_or("data");
        let mime = written.split(';').next().unwrap_or_default().trim().to_lowercase();
        let what = match mime.split('/').next() {
            Some("image") => "picture, ",
            Some("audio") => "sound, ",
            _ => "",
        };
        // Some servers break the lines.
        let data: String = data.split_ascii_whitespace().collect();
        let decoded = base64::engine::general_purpose::STANDARD.decode(&data);
        let size = decoded.as_ref().map_or(data.len() * 3 / 4, Vec::len);
        let name = format!("{what}{}, {}", SafeText::cut(written, 80), Bytes(size as u64));
        if decoded.is_ok()
            && SHOWN_TYPES.contains(&mime.as_str())
            && size <= MAX_MEDIA_BYTES
            && self.pictures.len() < MAX_MEDIA_COUNT
        {
            self.pictures.push(ToolMedia { mime: mime.clone(), data: data.as_str().into() });
        }
        let why = if what.is_empty() {
            return format!("[{name}]");
        } else if decoded.is_err() {
            "which is no base64 and cannot be read"
        } else if !takes(&mime) {
            "which this model does not take"
        } else if size > MAX_MEDIA_BYTES {
            "which is too large for the model"
        } else if self.media.len() >= MAX_MEDIA_COUNT {
            "which is one too many for the model"
        } else {
            let shown = self.pictures.last().filter(|one| one.mime == mime && *one.data == *data);
            let data = shown.map_or_else(|| data.as_str().into(), |one| Arc::clone(&one.data));
            self.media.push(ToolMedia { mime, data });
            return format!("[{name}]");
        };
        format!("[{name}, {why}]")
    }
}

/// Room for pictures and sounds in a conversation or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaRoom {
    /// Most of them.
    pub(crate) count: usize,
    /// Most bytes of all, in base64.
    pub(crate) bytes: usize,
}

impl MediaRoom {
    /// For as many as there are.
    pub(crate) const ANY: Self = Self { count: usize::MAX, bytes: usize::MAX };
    /// For none.
    pub(crate) const NONE: Self = Self { count: 0, bytes: 0 };
    /// What a conversation keeps.
    const KEPT: Self = Self { count: MAX_KEPT_COUNT, bytes: MAX_KEPT_BYTES };

    /// The lesser of both.
    pub(crate) fn within(self, other: Self) -> Self {
        Self { count: self.count.min(other.count), bytes: self.bytes.min(other.bytes) }
    }

    /// How many of the oldest have no room.
    pub(crate) fn excess(self, messages: &[ChatMessage]) -> usize {
        let sizes = sizes(messages);
        let mut bytes = 0_usize;
        let kept = sizes.iter().rev().take(self.count).take_while(|size| {
            bytes = bytes.saturating_add(**size);
            bytes <= self.bytes
        });
        sizes.len() - kept.count()
    }

    /// Room for the latest of these, of half their size, and for one less at least: for a provider that
    /// takes no request of this size. None when there are none.
    pub(crate) fn half_of(messages: &[ChatMessage]) -> Option<Self> {
        let sizes = sizes(messages);
        let fewer = sizes.len().checked_sub(1)?;
        let bytes = sizes.iter().sum::<usize>() / 2;
        let half = Self { count: fewer, bytes };
        let kept = sizes.len() - half.excess(messages);
        // The latest is what was asked for last.
        Some(Self { count: kept.max(usize::from(fewer > 0)), bytes: usize::MAX })
    }
}

/// The sizes of the pictures and sounds of a conversation in base64, in bytes, oldest first.
pub(crate) fn sizes(messages: &[ChatMessage]) -> Vec<usize> {
    messages.iter().flat_map(ChatMessage::media).map(|one| one.data.len()).collect()
}

/// Drops this many of the oldest pictures and sounds. Their sentences stay.
pub(crate) fn drop_oldest<'a>(messages: impl Iterator<Item = &'a mut ChatMessage>, count: usize) {
    let mut left = count;
    for media in messages.filter_map(ChatMessage::media_mut) {
        let these = left.min(media.len());
        media.drain(..these);
        left -= these;
    }
}

/// Drops the oldest pictures and sounds of a conversation that are more than it may keep.
pub(crate) fn drop_old(messages: &mut [ChatMessage]) {
    let excess = MediaRoom::KEPT.excess(messages);
    drop_oldest(messages.iter_mut(), excess);
}

/// The name of a format for a MIME type of sound, as `OpenAI` writes it.
pub(crate) fn sound_format(mime: &str) -> Option<&'static str> {
    match mime {
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(message: &ChatMessage) -> usize {
        let ChatMessage::Tool { media, .. } = message else { return 0 };
        media.len()
    }

    fn result(data: &str) -> ChatMessage {
        let media = vec![ToolMedia { mime: "image/png".to_owned(), data: data.into() }];
        let (id, name, text) = ("1".to_owned(), "t".to_owned(), String::new());
        ChatMessage::Tool { id, name, text, is_error: false, media, given: 1 }
    }

    #[test]
    fn what_a_model_does_not_take_is_a_sentence_that_says_why() {
        let takes = |mime: &str| mime == "image/png";
        let mut out = ResultMedia::default();
        assert_eq!(
            out.take(Some("image/PNG; x=1"), "aGVs\nbG8=", takes),
            "[picture, image/PNG; x=1, 5 B]"
        );
        assert_eq!(out.media.len(), 1);
        assert_eq!((&*out.media[0].mime, &*out.media[0].data), ("image/png", "aGVsbG8="));
        for (mime, data, words) in [
            (
                Some("image/bmp"),
                "aGVsbG8=",
                "[picture, image/bmp, 5 B, which this model does not take]",
            ),
            (Some("image/png"), "a b!", "no base64"),
            (Some("audio/wav"), "aGVsbG8=", "[sound, audio/wav, 5 B, which this model"),
            (Some("application/pdf"), "aGVsbG8=", "[application/pdf, 5 B]"),
            (None, "aGVsbG8=", "[data, 5 B]"),
        ] {
            let text = out.take(mime, data, takes);
            assert!(text.contains(words), "{text}");
        }
        let large = "A".repeat(5_000_004);
        assert!(out.take(Some("image/png"), &large, takes).contains("too large"));
        for _ in 1..MAX_MEDIA_COUNT {
            out.take(Some("image/png"), "aGVsbG8=", takes);
        }
        assert!(out.take(Some("image/png"), "aGVsbG8=", takes).contains("one too many"));
    }

    #[test]
    fn people_are_shown_pictures_whatever_the_model_takes() {
        let mut out = ResultMedia::default();
        out.take(Some("image/png"), "aGVsbG8=", |_| false);
        out.take(Some("image/svg+xml"), "aGVsbG8=", |_| true);
        out.take(Some("image/jpeg"), "a b!", |_| true);
        assert_eq!((out.media.len(), out.pictures.len()), (1, 1));
        let mut shelf = PictureShelf::default();
        for n in 0..30 {
            shelf.add(&n.to_string(), out.pictures.clone());
        }
        assert_eq!(shelf.of_call("9").len(), 0);
        assert_eq!(shelf.of_call("29"), out.pictures);
        assert_eq!(shelf.bytes, MAX_KEPT_COUNT * 8);
        assert_eq!(about(&out.pictures), [json!({"mimeType": "image/png", "bytes": 6})]);
        let text = shelf.changed().expect("new ones");
        assert_eq!(shelf.changed(), None, "saved once");
        let mut again = PictureShelf::from_json(&text);
        assert_eq!((again.of_call("29"), again.bytes), (&*out.pictures, shelf.bytes));
        assert_eq!((again.changed(), again.copied().changed()), (None, Some(text.clone())));
        // What somebody wrote into the file is not shown.
        let forged = text.replace("image/png", "image/svg+xml");
        assert!(PictureShelf::from_json(&forged).is_empty());
        assert!(PictureShelf::from_json("{").is_empty());
    }

    #[test]
    fn a_conversation_keeps_the_latest_pictures() {
        let mut many: Vec<ChatMessage> = (0..30).map(|_| result("aaaa")).collect();
        drop_old(&mut many);
        let kept: Vec<usize> = many.iter().map(media).collect();
        assert_eq!((kept.iter().sum::<usize>(), kept[9], kept[10]), (MAX_KEPT_COUNT, 0, 1));
        let large = "a".repeat(5 << 20);
        let mut many = vec![result(&large), result(&large), result(&large)];
        drop_old(&mut many);
        assert_eq!(many.iter().map(media).sum::<usize>(), 2);
        assert_eq!(media(&many[0]), 0);
    }
}
