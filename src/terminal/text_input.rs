//! One line of typed text with a cursor: filters, palette, names.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::Widget as _;
use ratatui_textarea::{CursorMove, Input, TextArea};

use crate::prelude::*;
use base::text::inspect;

/// A text area over `text` with the cursor at its end.
pub fn text_area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_cursor_line_style(Style::default());
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

/// Edits like line editors: the keys of the text area, `ctrl-u` to the start of the line, and
/// `alt-z` to undo.
pub fn edit(area: &mut TextArea<'static>, key: KeyEvent) -> bool {
    let is_control = key.modifiers == KeyModifiers::CONTROL;
    match key.code {
        KeyCode::Left if key.modifiers.is_empty() => step(area, key, -1),
        KeyCode::Right if key.modifiers.is_empty() => step(area, key, 1),
        KeyCode::Char('b') if is_control => step(area, key, -1),
        KeyCode::Char('f') if is_control => step(area, key, 1),
        // The text area itself deletes nothing that takes no cell.
        KeyCode::Delete if key.modifiers.is_empty() => area.delete_str(1),
        KeyCode::Char('d') if is_control => area.delete_str(1),
        KeyCode::Char('z') if key.modifiers == KeyModifiers::ALT => area.undo(),
        // The same byte as `ctrl-_`.
        KeyCode::Char('7') if is_control => area.undo(),
        KeyCode::Char('u') if is_control => area.delete_line_by_head(),
        _ => area.input(Input::from(key)),
    }
}

/// Moves the cursor by one character within its line. The text area itself counts cells, and would
/// stay in front of or behind characters that take none.
fn step(area: &mut TextArea<'static>, key: KeyEvent, by: isize) -> bool {
    let cursor = area.cursor();
    let end = area.lines()[cursor.0].chars().count();
    let column = cursor.1.checked_add_signed(by).filter(|column| *column <= end);
    let place = column.map(|column| (u16::try_from(cursor.0), u16::try_from(column)));
    match place {
        Some((Ok(row), Ok(column))) if !area.is_selecting() => {
            area.move_cursor(CursorMove::Jump(row, column));
            false
        }
        _ => area.input(Input::from(key)),
    }
}

/// Whether a key breaks the line of a text where Enter alone does something else. Many terminals send
/// Enter as it is, whatever is held down with it; `ctrl-j` comes from all of them.
pub fn breaks_line(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Enter => key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT),
        KeyCode::Char('j') => key.modifiers == KeyModifiers::CONTROL,
        _ => false,
    }
}

/// Whether a chord of alt with this character edits text or moves the cursor in it.
pub fn edits_with_alt(c: char) -> bool {
    "bdfhnpvz<>[]".contains(c)
}

/// Draws a text area with its cursor. Characters that a terminal would act on, or that nobody would
/// see, are drawn as markers.
pub fn draw_area(area: &TextArea<'static>, region: Rect, buf: &mut Buffer) {
    let region = region.intersection(buf.area);
    let lines = area.lines();
    if area.mask_char().is_some() || lines.iter().all(|line| inspect(line).is_empty()) {
        return area.render(region, buf);
    }
    let cursor = area.cursor();
    let before: String = lines[cursor.0].chars().take(cursor.1).collect();
    let marked: Vec<String> = lines.iter().map(|line| SafeText::line(line).to_string()).collect();
    let column = SafeText::line(&before).chars().count();
    let mut shown = TextArea::new(marked);
    shown.set_style(area.style());
    shown.set_cursor_line_style(Style::default());
    shown.set_selection_style(area.style().add_modifier(Modifier::REVERSED));
    if area.is_selecting() {
        shown.select_all();
    }
    let place = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
    if !area.is_selecting() {
        shown.move_cursor(CursorMove::Jump(place(cursor.0), place(column)));
    }
    (&shown).render(region, buf);
}

/// A line of text being typed.
#[derive(Clone, Debug)]
pub struct TextInput {
    area: TextArea<'static>,
    /// Whether it has the focus, if it is the filter of a list.
    pub editing: bool,
}

impl Default for TextInput {
    fn default() -> Self {
        Self::new("")
    }
}

impl TextInput {
    /// Longest text, in bytes.
    pub const MAX_TEXT_BYTES: usize = 4096;

    /// A line that holds `text`, with the cursor at its end.
    pub fn new(text: &str) -> Self {
        let area = text_area(&text.replace(char::is_control, " "));
        Self { area, editing: false }
    }

    /// An empty line for what may be a secret: no history is kept of it, so nothing is undone.
    pub fn of_secret() -> Self {
        let mut input = Self::new("");
        input.area.set_max_histories(0);
        input
    }

    pub fn text(&self) -> &str {
        &self.area.lines()[0]
    }

    /// Replaces the text, which can be undone.
    pub fn set(&mut self, text: &str) {
        if self.text() == text {
            return;
        }
        self.area.select_all();
        self.area.cut();
        self.area.insert_str(text.replace(char::is_control, " "));
    }

    /// Inserts text at the cursor, or in place of the selection; line breaks within it become
    /// blanks, those at its end are dropped.
    pub fn insert(&mut self, text: &str) {
        let text = text.trim_end_matches(['\r', '\n']);
        let room = Self::MAX_TEXT_BYTES.saturating_sub(self.text().len()).min(text.len());
        let upto = (0..=room).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.area.insert_str(text[..upto].replace(char::is_control, " "));
    }

    /// Begins to type a filter; the existing one is selected.
    pub fn begin(&mut self) {
        self.editing = true;
        self.area.select_all();
    }

    /// Ends typing a filter; `keep` decides whether it is kept.
    pub fn end(&mut self, keep: KeepFilter) {
        self.editing = false;
        self.area.cancel_selection();
        if keep == KeepFilter::No {
            self.set("");
        }
    }

    /// Handles a key like line editors; returns whether the key was one of theirs.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let own = match key.code {
            KeyCode::Char(c) if control => "abdefhkuw7".contains(c),
            KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::ALT) => "bdfz".contains(c),
            KeyCode::Char(c) => {
                self.insert(c.encode_utf8(&mut [0; 4]));
                return true;
            }
            KeyCode::Backspace | KeyCode::Left | KeyCode::Right | KeyCode::Home | KeyCode::End => {
                true
            }
            KeyCode::Delete => !control,
            _ => false,
        };
        if own {
            edit(&mut self.area, key);
        }
        own
    }

    /// Draws a sign for each character, with the cursor.
    pub fn render_masked(&self, area: Rect, buf: &mut Buffer, style: Style, sign: char) {
        let mut shown = self.clone();
        shown.area.set_mask_char(sign);
        shown.render(area, buf, style);
    }

    /// Draws it with its cursor, scrolled so that the cursor is visible.
    pub fn render(&self, area: Rect, buf: &mut Buffer, style: Style) {
        let mut shown = self.area.clone();
        shown.set_style(style);
        shown.set_selection_style(style.add_modifier(Modifier::REVERSED));
        draw_area(&shown, area, buf);
    }
}

/// Whether a filter is kept when typing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFilter {
    /// It is kept.
    Yes,
    /// It is cleared.
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
        filter.end(KeepFilter::Yes);
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
    fn what_was_deleted_comes_back_unless_it_may_be_a_secret() {
        let undo = KeyEvent::new(KeyCode::Char('z'), KeyModifiers::ALT);
        let mut input = TextInput::new("server:a");
        input.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(input.text(), "");
        input.key(undo);
        assert_eq!(input.text(), "server:a");
        input.set("");
        input.key(undo);
        assert_eq!(input.text(), "server:a");
        let mut secret = TextInput::of_secret();
        secret.insert("s3cret");
        secret.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        secret.key(undo);
        assert_eq!(secret.text(), "");
    }

    #[test]
    fn a_word_is_deleted_at_once() {
        let mut input = TextInput::new("a");
        input.insert(" two words");
        input.key(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(input.text(), "a two ");
    }

    #[test]
    fn the_cursor_goes_over_characters_that_take_no_cell() {
        let mut input = TextInput::new("\u{200b}a\u{301}\u{200b}");
        for (code, columns) in [(KeyCode::Left, [3, 2, 1, 0, 0]), (KeyCode::Right, [1, 2, 3, 4, 4])]
        {
            for column in columns {
                input.key(KeyEvent::new(code, KeyModifiers::NONE));
                assert_eq!(input.area.cursor().1, column, "{code:?}");
            }
        }
        let back = KeyEvent::new(KeyCode::Char('b'), KeyModifiers::CONTROL);
        input.key(back);
        assert_eq!(input.area.cursor().1, 3);
    }

    /// A line and its cursor as anybody would write them.
    #[derive(Clone, Debug, PartialEq)]
    struct PlainLine {
        chars: Vec<char>,
        cursor: usize,
    }

    impl PlainLine {
        fn from_input(input: &TextInput) -> Self {
            let chars: Vec<char> = input.text().chars().collect();
            Self { chars, cursor: input.area.cursor().1 }
        }

        /// What the key does; not for the one that deletes a word.
        fn press(&mut self, code: KeyCode) {
            let end = self.chars.len();
            match code {
                KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
                KeyCode::Right => self.cursor = (self.cursor + 1).min(end),
                KeyCode::Home => self.cursor = 0,
                KeyCode::End => self.cursor = end,
                KeyCode::Backspace if self.cursor > 0 => {
                    self.cursor -= 1;
                    self.chars.remove(self.cursor);
                }
                KeyCode::Delete if self.cursor < end => _ = self.chars.remove(self.cursor),
                KeyCode::Char('u') => {
                    self.chars.drain(..self.cursor);
                    self.cursor = 0;
                }
                KeyCode::Char('k') => self.chars.truncate(self.cursor),
                KeyCode::Char(c) => {
                    self.chars.insert(self.cursor, c);
                    self.cursor += 1;
                }
                _ => {}
            }
        }
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
            let text = text.trim_end_matches(['\r', '\n']).replace(char::is_control, " ");
            let mut wanted = PlainLine { cursor: text.chars().count(), chars: text.chars().collect() };
            prop_assert_eq!(&PlainLine::from_input(&input), &wanted);
            for key in keys {
                let (code, modifiers) = [
                    (KeyCode::Left, KeyModifiers::NONE), (KeyCode::Right, KeyModifiers::NONE),
                    (KeyCode::Backspace, KeyModifiers::NONE), (KeyCode::Delete, KeyModifiers::NONE),
                    (KeyCode::Char('w'), KeyModifiers::CONTROL), (KeyCode::Home, KeyModifiers::NONE),
                    (KeyCode::Char('語'), KeyModifiers::NONE), (KeyCode::End, KeyModifiers::NONE),
                    (KeyCode::Char('u'), KeyModifiers::CONTROL), (KeyCode::Char('k'), KeyModifiers::CONTROL),
                ][usize::from(key)];
                let is_ours = input.key(KeyEvent::new(code, modifiers));
                prop_assert!(is_ours, "{code:?}");
                let now = PlainLine::from_input(&input);
                if code == KeyCode::Char('w') {
                    // A part that ends at the cursor is gone, if there is any before it.
                    prop_assert!(now.cursor < wanted.cursor || wanted.cursor == 0, "{now:?}");
                    wanted.chars.drain(now.cursor..wanted.cursor);
                    wanted.cursor = now.cursor;
                } else {
                    wanted.press(code);
                }
                prop_assert_eq!(&now, &wanted, "{:?}", code);
                let area = Rect::new(0, 0, cells, 1);
                let mut buf = Buffer::empty(area);
                input.render(area, &mut buf, Style::new());
                let drawn: String =
                    buf.content().iter().map(ratatui::buffer::Cell::symbol).collect();
                prop_assert!(!drawn.contains(char::is_control), "{drawn:?}");
            }
        }
    }
}
