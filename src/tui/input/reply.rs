//! What the terminal answers to the questions of `graphics`: from the bytes between `ESC [` and the
//! letter at the end to what they say. Decides nothing.

use crate::tui::graphics::{CellPixels, TerminalReply};

/// An answer to one of our questions: attributes (DA1), what a sixel picture may have
/// (XTSMGRAPHICS), or the size of a cell in pixels.
pub(super) fn reply(body: &str, last: u8) -> Option<TerminalReply> {
    if let (b'c', Some(attributes)) = (last, body.strip_prefix('?')) {
        let sixel = attributes.split(';').skip(1).any(|attribute| attribute == "4");
        return Some(TerminalReply::Attributes { sixel });
    }
    if last == b'S' {
        return sixel_limit(body);
    }
    let size = body.strip_prefix("6;").filter(|_| last == b't')?;
    let (height, width) = size.split_once(';')?;
    let sane = |text: &str| text.parse::<u16>().ok().filter(|n| (2..=256).contains(n));
    Some(TerminalReply::Cell(CellPixels { width: sane(width)?, height: sane(height)? }))
}

/// `?1;0;N`: N colours; `?2;0;W;H`: pixels. Anything but a 0 in the middle is a refusal.
fn sixel_limit(body: &str) -> Option<TerminalReply> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|n| *n > 1);
    let mut parts = body.strip_prefix('?')?.split(';');
    match (parts.next()?, parts.next()?, number(parts.next()?)?, parts.next()) {
        ("1", "0", colours, None) => Some(TerminalReply::SixelColours(colours)),
        ("2", "0", width, Some(height)) => Some(TerminalReply::SixelArea(width, number(height)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sixel_picture_may_have_is_read_and_a_refusal_says_nothing() {
        assert_eq!(reply("?1;0;1024", b'S'), Some(TerminalReply::SixelColours(1024)));
        assert_eq!(reply("?2;0;1000;800", b'S'), Some(TerminalReply::SixelArea(1000, 800)));
        for nothing in
            ["?1;3;0", "?1;0;0", "?1;0", "?2;0;0;0", "?2;0;800", "?3;0;5", "1", "?1;0;16;4"]
        {
            assert_eq!(reply(nothing, b'S'), None, "{nothing}");
        }
    }
}
