//! Binary content as it came, in base64: what it is, and any row of it in hexadecimal, without
//! decoding the whole. Pure; the whole is only decoded to be saved, elsewhere.

use base64::Engine as _;

use super::rows::Shared;
use super::{audio, hex};

/// Bytes looked at to tell what it is.
const HEAD: usize = 48 << 10;
/// Base64 with line breaks is packed before it is shown by row; larger ones are only saved.
const PACKED: usize = 4 << 20;

/// Binary content.
#[derive(Clone, Debug)]
pub struct Binary {
    text: Shared,
    /// The text without line breaks, where it had some.
    packed: Option<String>,
    bytes: u64,
    /// Why it cannot be shown by row.
    broken: Option<&'static str>,
}

impl Binary {
    /// The content whose base64 is `text`. Looks at its beginning alone, whatever its size.
    pub fn new(text: Shared) -> Self {
        let raw = text.as_str();
        let head = &raw.as_bytes()[..raw.len().min(HEAD)];
        let mut packed = None;
        let mut broken = None;
        if head.iter().any(u8::is_ascii_whitespace) {
            if raw.len() <= PACKED {
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

    /// The base64.
    pub const fn text(&self) -> &Shared {
        &self.text
    }

    /// Size in bytes; about, where the base64 is not what it should be.
    pub const fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What it is, in words: kind by its first bytes, size, and of audio what its head says.
    pub fn facts(&self) -> String {
        let size = self.bytes;
        if let Some(reason) = self.broken {
            return format!("{reason} · about {size} bytes");
        }
        let head = self.read(0, HEAD).unwrap_or_default();
        let known = audio::facts(&head, size).or_else(|| hex::kind(&head).map(str::to_owned));
        let other = || if hex::is_text(&head) { "text" } else { "data of no known kind" };
        let kind = known.unwrap_or_else(|| other().to_owned());
        format!("{kind} · {size} bytes")
    }

    /// How many rows of hexadecimal there are.
    pub fn rows(&self) -> usize {
        if self.broken.is_some() {
            return 0;
        }
        usize::try_from(self.bytes.div_ceil(hex::PER_ROW as u64)).unwrap_or(usize::MAX)
    }

    /// One row of hexadecimal.
    pub fn row(&self, row: usize) -> String {
        let from = row.saturating_mul(hex::PER_ROW);
        match self.read(from, hex::PER_ROW) {
            Some(bytes) => hex::line(from, &bytes),
            None => format!("{from:08x}  bad base64 from here on"),
        }
    }

    /// At most `most` bytes from `from` on.
    fn read(&self, from: usize, most: usize) -> Option<Vec<u8>> {
        let text = self.packed.as_deref().unwrap_or_else(|| self.text.as_str()).as_bytes();
        // Three bytes are four letters.
        let first = from / 3 * 4;
        let last = (from + most).div_ceil(3).saturating_mul(4).min(text.len());
        let part = text.get(first..last)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(part).ok()?;
        let skip = from % 3;
        Some(bytes.into_iter().skip(skip).take(most).collect())
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn binary(text: &str) -> Binary {
        Binary::new(Shared::own(text.to_owned()))
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
            assert_eq!((binary.len(), binary.rows()), (1_003, 63));
            for row in 0..binary.rows() {
                let part = &bytes[row * 16..(row * 16 + 16).min(bytes.len())];
                assert_eq!(binary.row(row), hex::line(row * 16, part));
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
        assert!(binary("").is_empty());
    }
}
