//! Bytes as rows of hexadecimal, and what kind of file they look like. Pure.

use std::fmt::Write as _;

/// Bytes per row.
pub const PER_ROW: usize = 16;

/// One row: offset, bytes, and those that are printable ASCII.
pub fn line(from: usize, part: &[u8]) -> String {
    let mut out = format!("{from:08x}  ");
    for i in 0..PER_ROW {
        match part.get(i) {
            Some(byte) => {
                let _ = write!(out, "{byte:02x} ");
            }
            None => out.push_str("   "),
        }
        if i == PER_ROW / 2 - 1 {
            out.push(' ');
        }
    }
    out.push(' ');
    out.extend(part.iter().map(|b| if (0x20..0x7f).contains(b) { *b as char } else { '.' }));
    out
}

/// The kind of file the first bytes speak of, whatever its declared type.
pub fn kind(bytes: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 13] = [
        (b"\x89PNG", "PNG image"),
        (b"\xff\xd8\xff", "JPEG image"),
        (b"GIF8", "GIF image"),
        (b"%PDF", "PDF document"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"\x1f\x8b", "gzip data"),
        (b"OggS", "Ogg media"),
        (b"fLaC", "FLAC audio"),
        (b"ID3", "MP3 audio"),
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

/// Whether the beginning of some data is text: UTF-8, and no control characters but those of lines.
/// It may be cut in the middle of a character.
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
