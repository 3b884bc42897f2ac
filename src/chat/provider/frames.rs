//! Server-sent events (WHATWG HTML, section 9.2) of a provider: the data of each, whatever the chunks
//! and the line ends. Pure.

use crate::chat::llm::LlmErrorKind;
use crate::chat::provider::wire::Fault;

/// Largest event, in bytes.
const LARGEST: usize = 8 << 20;

/// Puts events together.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// Where the next line begins.
    at: usize,
    data: String,
}

impl Frames {
    /// Takes the next bytes.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), Fault> {
        self.bytes.drain(..std::mem::take(&mut self.at));
        self.bytes.extend_from_slice(chunk);
        if self.bytes.len() + self.data.len() > LARGEST {
            let message = "one event of the answer is larger than 8 MiB";
            return Err(Fault::new(LlmErrorKind::Malformed, message));
        }
        Ok(())
    }

    /// The data of the next event that is complete. An event without its empty line is incomplete.
    pub(super) fn next(&mut self) -> Option<String> {
        loop {
            let rest = &self.bytes[self.at..];
            let end = memchr::memchr2(b'\n', b'\r', rest)?;
            let (line, mut length) = (&rest[..end], end + 1);
            if rest[end] == b'\r' {
                // Whether a line feed belongs to it is seen with the next byte.
                length += usize::from(*rest.get(end + 1)? == b'\n');
            }
            if line.is_empty() {
                self.at += length;
                if !self.data.is_empty() {
                    return Some(std::mem::take(&mut self.data));
                }
                continue;
            }
            if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                let data = data.strip_prefix(b" ").unwrap_or(data);
                self.data.push_str(&String::from_utf8_lossy(data));
            }
            self.at += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_at_every_split_with_every_line_end() {
        let text =
            ": hi\n\nevent: a\ndata: {\"é\": 1}\n\ndata: two\ndata:lines\n\nid: 3\n\ndata: open";
        for end in ["\n", "\r\n", "\r"] {
            let bytes = text.replace('\n', end).into_bytes();
            for size in 1..bytes.len() {
                let mut frames = Frames::default();
                let mut found = Vec::new();
                for chunk in bytes.chunks(size) {
                    assert!(frames.push(chunk).is_ok());
                    found.extend(std::iter::from_fn(|| frames.next()));
                }
                assert_eq!(found, ["{\"é\": 1}", "two\nlines"], "{end:?} {size}");
            }
        }
    }
}
