//! Text written from right to left on a screen that is read from left to right. Terminals that
//! reorder such text take the direction of a whole row from its first letter, and let runs of two
//! columns flow into one: marks without a width (U+200E) keep every row and every column in place.

use ratatui::buffer::Buffer;

/// Makes what follows stand from left to right, and takes no room.
const MARK: &str = "\u{200e}";

/// Whether a character is written from right to left: Hebrew, Arabic, Syriac and their like.
const fn is_rtl(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8ff}'
        | '\u{fb1d}'..='\u{fdff}'
        | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}'
        | '\u{1e800}'..='\u{1efff}')
}

/// Holds the rows of a frame in place, and in them what stands between rules and wide gaps. Rows
/// without such text stay as they are.
pub fn anchor(buf: &mut Buffer) {
    let area = buf.area;
    for y in area.top()..area.bottom() {
        let row = |x: u16, buf: &Buffer| buf[(x, y)].symbol().to_owned();
        if !(area.left()..area.right()).any(|x| buf[(x, y)].symbol().chars().any(is_rtl)) {
            continue;
        }
        let mut marked = true;
        for x in area.left()..area.right() {
            let symbol = row(x, buf);
            let is_gap = symbol == " " && x > area.left() && buf[(x - 1, y)].symbol() == " ";
            let is_rule = symbol == "│" || symbol == "|";
            let marks = x == area.left() || !marked && (is_gap || is_rule);
            if marks {
                buf[(x, y)].set_symbol(&format!("{MARK}{symbol}"));
            }
            marked = (marked || marks) && !symbol.chars().any(is_rtl);
        }
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    fn anchored(row: &str) -> String {
        let mut buf = Buffer::with_lines([row]);
        anchor(&mut buf);
        buf.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn rows_and_columns_of_right_to_left_text_are_held_in_place() {
        assert_eq!(anchored("שלום abc"), "\u{200e}שלום abc");
        assert_eq!(anchored("a שלום   עולם │ b"), "\u{200e}a שלום \u{200e}  עולם \u{200e}│ b");
    }

    #[test]
    fn other_rows_are_left_alone_and_no_row_gets_wider() {
        assert_eq!(
            anchored("plain  │ 世界 e\u{301}"),
            Buffer::with_lines(["plain  │ 世界 e\u{301}"])
                .content
                .iter()
                .map(ratatui::buffer::Cell::symbol)
                .collect::<String>()
        );
        let mut buf = Buffer::with_lines(["مرحبا  │ abc"]);
        let before = buf.area;
        anchor(&mut buf);
        assert_eq!(buf.area, before);
        assert!(buf.content.iter().all(|cell| cell.symbol().width() == 1));
    }
}
