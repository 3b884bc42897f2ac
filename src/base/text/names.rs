//! What hidden characters are called.

use super::scan::HiddenKind;

/// Names of C0 (U+0000 to U+001F).
const C0: [&str; 32] = [
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR",
    "SO", "SI", "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC",
    "FS", "GS", "RS", "US",
];

/// The usual abbreviation of a character, or `U+XXXX`.
pub(super) fn of(c: char) -> String {
    let name = match c {
        '\0'..='\u{1f}' => C0[c as usize],
        '\u{7f}' => "DEL",
        '\u{85}' => "NEL",
        '\u{90}' => "DCS",
        '\u{98}' => "SOS",
        '\u{9b}' => "CSI",
        '\u{9c}' => "ST",
        '\u{9d}' => "OSC",
        '\u{9e}' => "PM",
        '\u{9f}' => "APC",
        '\u{ad}' => "SHY",
        '\u{34f}' => "CGJ",
        '\u{61c}' => "ALM",
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => "HANGUL FILLER",
        '\u{200b}' => "ZWSP",
        '\u{200c}' => "ZWNJ",
        '\u{200d}' => "ZWJ",
        '\u{200e}' => "LRM",
        '\u{200f}' => "RLM",
        '\u{2028}' => "LS",
        '\u{2029}' => "PS",
        '\u{202a}' => "LRE",
        '\u{202b}' => "RLE",
        '\u{202c}' => "PDF",
        '\u{202d}' => "LRO",
        '\u{202e}' => "RLO",
        '\u{2060}' => "WJ",
        '\u{2066}' => "LRI",
        '\u{2067}' => "RLI",
        '\u{2068}' => "FSI",
        '\u{2069}' => "PDI",
        '\u{2800}' => "BLANK",
        '\u{feff}' => "BOM",
        c => return format!("U+{:04X}", u32::from(c)),
    };
    name.to_owned()
}

/// What a run of hidden characters is called.
pub(super) fn of_run(kind: HiddenKind, text: &str) -> String {
    match kind {
        HiddenKind::Tag => format!("tags {:?}", spelt(text)),
        HiddenKind::Marks => "combining marks".to_owned(),
        _ => text.chars().next().map(of).unwrap_or_default(),
    }
}

/// The ASCII text that tag characters spell; those that spell nothing printable become `?`.
pub(super) fn spelt(tags: &str) -> String {
    tags.chars()
        .map(|c| {
            let ascii = char::from_u32(u32::from(c).wrapping_sub(0xE_0000)).unwrap_or('?');
            if ascii.is_ascii_graphic() || ascii == ' ' { ascii } else { '?' }
        })
        .collect()
}
