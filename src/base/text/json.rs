//! JSON that is safe to print: what serde leaves as it is but a terminal or an eye would obey
//! (delete, C1, bidi, zero-width and tag characters) is written as `\u` escapes.
//!
//! The value is unchanged: a parser reads back exactly what was put in.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// One line.
pub fn compact<T: Serialize + ?Sized>(value: &T) -> String {
    write(value, CompactFormatter)
}

/// Indented by two blanks.
pub fn pretty<T: Serialize + ?Sized>(value: &T) -> String {
    write(value, PrettyFormatter::new())
}

fn write<T: Serialize + ?Sized>(value: &T, inner: impl Formatter) -> String {
    let mut out = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut out, Safe(inner)));
    // Only a map with keys that are no strings fails, and no value of ours has one.
    debug_assert!(written.is_ok(), "not representable as JSON");
    String::from_utf8(out).unwrap_or_default()
}

/// Whether a character must not reach a terminal as it is.
const fn unsafe_to_print(c: char) -> bool {
    matches!(c,
        '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

struct Safe<F>(F);

impl<F: Formatter> Formatter for Safe<F> {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| unsafe_to_print(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

/// The size of a value as JSON text, without building the text.
pub fn weigh(value: &impl serde::Serialize) -> usize {
    struct Scale(usize);
    impl std::io::Write for Scale {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut scale = Scale(0);
    match serde_json::to_writer(&mut scale, value) {
        Ok(()) => scale.0,
        Err(_) => usize::MAX / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_reads_back_the_same() {
        let nasty = "a\u{9b}31m\u{1b}]52;\u{7}b\u{202e}c\u{e0041}d\u{200b}\u{7f}é€😀";
        let text = compact(&serde_json::json!({ nasty: [nasty] }));
        assert!(text.contains("é€😀"), "{text}");
        assert!(!text.chars().any(|c| c.is_control() || unsafe_to_print(c)), "{text:?}");
        let back: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(back[nasty][0], nasty);
    }

    #[test]
    fn pretty_output_is_indented_as_usual() {
        let value = serde_json::json!({"a": [1, {}], "b": []});
        assert_eq!(pretty(&value), serde_json::to_string_pretty(&value).expect("plain"));
    }
}
