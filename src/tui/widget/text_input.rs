//! One line of typed text with a cursor: filters, palette, names.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;

use super::pen::{Pen, width};
use crate::tui::prelude::*;

/// A line of text being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextInput {
    text: String,
    /// Byte offset, always at a grapheme boundary.
    cursor: usize,
    /// Whether all of it is selected: what is typed replaces it.
    is_selected: bool,
    /// Whether it takes the keys, where it is the filter of a list.
    pub editing: bool,
}

impl TextInput {
    /// Longest text, in bytes.
    pub const MAX: usize = 4096;

    /// A line that holds `text`, with the cursor at its end.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), cursor: text.len(), ..Self::default() }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the text.
    pub fn set(&mut self, text: &str) {
        *self = Self { editing: self.editing, ..Self::new(text) };
    }

    /// Puts text at the cursor, or in place of what is selected; line breaks within it become
    /// blanks, one at its end is none.
    pub fn insert(&mut self, text: &str) {
        if self.is_selected {
            self.set("");
        }
        for c in text.trim_end_matches(['\r', '\n']).chars() {
            if self.text.len() + c.len_utf8() > Self::MAX {
                break;
            }
            let c = if c.is_control() { ' ' } else { c };
            self.text.insert(self.cursor, c);
            self.cursor += c.len_utf8();
        }
    }

    /// Begins to type a filter; the one that is there is selected.
    pub fn begin(&mut self) {
        self.editing = true;
        self.is_selected = !self.text.is_empty();
    }

    /// Ends typing a filter; `keep` says whether it stays.
    pub fn end(&mut self, keep: Keep) {
        (self.editing, self.is_selected) = (false, false);
        if keep == Keep::No {
            self.set("");
        }
    }

    /// Handles a key as line editors do; gives whether the key was one of theirs.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Backspace | KeyCode::Delete if self.is_selected => self.set(""),
            KeyCode::Char(_) if !control && !alt => {}
            _ => self.is_selected = false,
        }
        match key.code {
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.text.len(),
            KeyCode::Char('u') if control => {
                self.text.drain(..self.cursor);
                self.cursor = 0;
            }
            KeyCode::Char('k') if control => self.text.truncate(self.cursor),
            KeyCode::Char('w') if control => self.delete_word(),
            KeyCode::Char('h') if control => self.delete_back(),
            KeyCode::Char('b') if control => self.cursor = self.previous(),
            KeyCode::Char('f') if control => self.cursor = self.next(),
            KeyCode::Char('b') if alt => self.cursor = self.word_start(),
            KeyCode::Char('f') if alt => self.cursor = self.word_end(),
            KeyCode::Char('d') if control || alt => {
                let end = if alt { self.word_end() } else { self.next() };
                self.text.drain(self.cursor..end);
            }
            KeyCode::Backspace if alt => self.delete_word(),
            KeyCode::Backspace => self.delete_back(),
            KeyCode::Delete if !control => {
                let end = self.next();
                self.text.drain(self.cursor..end);
            }
            KeyCode::Left => self.cursor = self.previous(),
            KeyCode::Right => self.cursor = self.next(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            KeyCode::Char(c) if !control && !alt => self.insert(c.encode_utf8(&mut [0; 4])),
            _ => return false,
        }
        true
    }

    fn previous(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        self.text[self.cursor..]
            .graphemes(true)
            .next()
            .map_or(self.cursor, |grapheme| self.cursor + grapheme.len())
    }

    fn delete_back(&mut self) {
        let from = self.previous();
        self.text.drain(from..self.cursor);
        self.cursor = from;
    }

    fn word_start(&self) -> usize {
        let head = self.text[..self.cursor].trim_end();
        head.rfind(char::is_whitespace)
            .map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8))
    }

    fn word_end(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let blank = rest.len() - rest.trim_start().len();
        let word = rest[blank..].find(char::is_whitespace);
        self.cursor + word.map_or(rest.len(), |end| blank + end)
    }

    fn delete_word(&mut self) {
        let from = self.word_start();
        self.text.drain(from..self.cursor);
        self.cursor = from;
    }

    /// Draws a sign for each character, with the cursor.
    pub fn render_masked(&self, area: Rect, buf: &mut Buffer, style: Style, sign: &str) {
        let masked = |text: &str| sign.repeat(text.graphemes(true).count());
        let mut shown = Self::new(&masked(&self.text));
        shown.cursor = masked(&self.text[..self.cursor]).len();
        shown.render(area, buf, style);
    }

    /// Draws it with its cursor, scrolled so that the cursor is visible.
    pub fn render(&self, area: Rect, buf: &mut Buffer, style: Style) {
        let before = Ink::line(&self.text[..self.cursor]);
        let hidden = width(&before).saturating_sub(area.width.saturating_sub(1));
        let mut pen = Pen::new(buf, area);
        pen.row_style(style);
        let marked = style.add_modifier(Modifier::REVERSED);
        let text = if self.is_selected { marked } else { style };
        let shown =
            crate::tui::ink::Piece::of(&before, skip_cells(before.as_str(), hidden), usize::MAX);
        pen.put(shown, text);
        let end = self.next();
        let under = if end > self.cursor {
            Ink::line(&self.text[self.cursor..end])
        } else {
            Ink::line(" ")
        };
        pen.put(under, marked);
        pen.put(Ink::line(&self.text[end..]), style);
    }
}

fn skip_cells(text: &str, cells: u16) -> usize {
    if cells == 0 {
        return 0;
    }
    let upto = super::pen::fit(text, cells);
    // A wide character across the edge is left out as a whole.
    match text[upto..].graphemes(true).next() {
        Some(wide) if width(&Ink::line(&text[..upto])) < cells => upto + wide.len(),
        _ => upto,
    }
}

/// Whether a filter stays when typing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It stays.
    Yes,
    /// It goes.
    No,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_typed_replaces_a_filter_that_is_opened_again_and_moving_in_it_keeps_it() {
        let mut filter = TextInput::default();
        let typed = |filter: &mut TextInput, codes: &[KeyCode]| {
            for code in codes {
                filter.key(KeyEvent::new(*code, KeyModifiers::NONE));
            }
            filter.text().to_owned()
        };
        filter.begin();
        assert_eq!(typed(&mut filter, &[KeyCode::Char('s'), KeyCode::Char('u')]), "su");
        filter.end(Keep::Yes);
        filter.begin();
        assert_eq!(typed(&mut filter, &[KeyCode::Char('g'), KeyCode::Char('e')]), "ge");
        filter.begin();
        assert_eq!(typed(&mut filter, &[KeyCode::End, KeyCode::Char('t')]), "get");
        filter.begin();
        assert_eq!(typed(&mut filter, &[KeyCode::Backspace]), "");
        filter.insert("log");
        filter.begin();
        filter.insert("pasted");
        assert_eq!(filter.text(), "pasted");
    }

    #[test]
    fn editing_is_by_what_people_see_as_characters() {
        let mut input = TextInput::new("ae\u{301}");
        input.key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE));
        assert_eq!(input.text(), "a");
        input.insert(" two words");
        input.key(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(input.text(), "a two ");
    }

    proptest! {
        #[test]
        fn any_keys_on_any_text_keep_it_whole_and_drawable(
            text in ".{0,40}",
            keys in proptest::collection::vec(0u8..10, 0..40),
            cells in 0u16..20,
        ) {
            let mut input = TextInput::default();
            input.insert(&text);
            for key in keys {
                let (code, modifiers) = [
                    (KeyCode::Left, KeyModifiers::NONE), (KeyCode::Right, KeyModifiers::NONE),
                    (KeyCode::Backspace, KeyModifiers::NONE), (KeyCode::Delete, KeyModifiers::NONE),
                    (KeyCode::Char('w'), KeyModifiers::CONTROL), (KeyCode::Home, KeyModifiers::NONE),
                    (KeyCode::Char('語'), KeyModifiers::NONE), (KeyCode::End, KeyModifiers::NONE),
                    (KeyCode::Char('u'), KeyModifiers::CONTROL), (KeyCode::Char('k'), KeyModifiers::CONTROL),
                ][usize::from(key)];
                input.key(KeyEvent::new(code, modifiers));
                let area = Rect::new(0, 0, cells, 1);
                input.render(area, &mut Buffer::empty(area), Style::new());
            }
        }
    }
}
