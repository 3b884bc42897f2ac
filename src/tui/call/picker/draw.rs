//! Drawing of the file picker over the call screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Hidden, LARGEST_FILE, Line, MAIN_SEPARATOR, More, Picker, ROWS, Take};
use crate::base::text::SafeText;
use crate::tui::call::folder::{EntryKind, MOST_ENTRIES};
use crate::tui::form::draw::{Look, popup_frame, put};
use crate::tui::keymap::{Keymap, Scope};

/// Rows around the list: title, folder, typed text; what is said, keys.
const AROUND: u16 = 6;

/// The region of the picker over `area`.
fn frame(area: Rect) -> Rect {
    let width = 84.min(area.width);
    let height = (ROWS as u16 + AROUND).min(area.height);
    let x = area.x + (area.width - width) / 2;
    Rect { x, y: area.y + (area.height - height) / 3, width, height }
}

/// The region of its list.
pub(super) fn list(area: Rect) -> Rect {
    let outer = frame(area);
    let height = outer.height.saturating_sub(AROUND);
    Rect { x: outer.x + 1, y: outer.y + 3, width: outer.width.saturating_sub(2), height }
}

impl Picker {
    /// Draws it over `area`; its keys are those of `keymap`.
    pub fn render(&self, keymap: &Keymap, look: &Look, area: Rect, buf: &mut Buffer) {
        let outer = frame(area);
        let height = outer.height;
        let inner = Rect { x: outer.x + 1, width: outer.width.saturating_sub(2), ..outer };
        let title = match self.take {
            Take::Path => "pick a path for this field",
            Take::Text => "pick a file whose text fills this field, up to 4 MiB",
            Take::Base64 => "pick a file whose content fills this field as base64, up to 4 MiB",
        };
        popup_frame(look, title, outer, buf);
        if height < AROUND {
            return;
        }
        put(buf, inner.x, inner.y + 1, inner.width, &self.place(inner.width), look.muted);
        let typed = Rect { y: inner.y + 2, height: 1, ..inner };
        self.filter.render(typed, buf, look.text);
        let list = list(area);
        self.draw_list(look, list, buf);
        let (said, style) = self.remark(look);
        put(buf, inner.x, list.bottom(), inner.width, &said, style);
        self.draw_keys(keymap, look, Rect { y: list.bottom() + 1, height: 1, ..inner }, buf);
    }

    fn draw_keys(&self, keymap: &Keymap, look: &Look, area: Rect, buf: &mut Buffer) {
        let mut x = area.x;
        for (key, word, command) in keymap.labels(&[Scope::Picker]) {
            if !self.means(command) {
                continue;
            }
            let room = area.right().saturating_sub(x);
            if usize::from(room) < key.len() + word.len() + 1 {
                break;
            }
            x = put(buf, x, area.y, room, &SafeText::line(&key), look.accent);
            x = put(buf, x, area.y, area.right() - x, &format!(" {word}  "), look.faint);
        }
    }

    /// The folder, its end where it is too long.
    fn place(&self, width: u16) -> SafeText {
        let text = SafeText::line(&self.folder.to_string_lossy());
        let over = text.chars().count().saturating_sub(usize::from(width));
        if over == 0 {
            return text;
        }
        let end: String = text.chars().skip(over + 2).collect();
        SafeText::line(&format!("..{end}"))
    }

    fn draw_list(&self, look: &Look, area: Rect, buf: &mut Buffer) {
        let rows = usize::from(area.height);
        let (at, top) = (self.list.index(), self.top(area.height));
        for (row, line) in self.lines.iter().enumerate().skip(top).take(rows) {
            let y = area.y + (row - top) as u16;
            let (name, note, faint) = match line {
                Line::Up => ("..".to_owned(), String::new(), false),
                Line::Entry(n) => {
                    let entry = &self.entries[*n];
                    match entry.kind {
                        EntryKind::Folder => {
                            (format!("{}{MAIN_SEPARATOR}", entry.shown), String::new(), false)
                        }
                        EntryKind::File(bytes) => {
                            let over = self.take != Take::Path && bytes > LARGEST_FILE;
                            let note = if over { "too large  " } else { "" };
                            (entry.shown.to_string(), format!("{note}{}", size(bytes)), over)
                        }
                        EntryKind::Other => {
                            let faint = self.take != Take::Path;
                            (entry.shown.to_string(), "no file".to_owned(), faint)
                        }
                    }
                }
            };
            let style = match row == at {
                true => look.selection,
                false if faint => look.faint,
                false => look.text,
            };
            if row == at {
                buf.set_style(Rect { y, height: 1, ..area }, look.selection);
            }
            let wide = note.chars().count() as u16;
            put(buf, area.x, y, area.width.saturating_sub(wide + 2), &name, style);
            let x = area.right().saturating_sub(wide).max(area.x);
            put(buf, x, y, wide.min(area.width), &note, style);
        }
    }

    fn remark(&self, look: &Look) -> (SafeText, ratatui::style::Style) {
        if let Some(said) = &self.said {
            return (said.clone(), look.warning);
        }
        let text = if self.asking.is_some() {
            look.sign("reading…", "reading...").to_owned()
        } else if self.typed_path().is_some() {
            "enter goes to the path that is typed".to_owned()
        } else if self.more == More::Yes {
            let text = format!("only {MOST_ENTRIES} entries of this folder are listed");
            return (SafeText::line(&format!("{text}; type the path of others")), look.warning);
        } else {
            let dotted = self.entries.iter().filter(|entry| entry.is_hidden()).count();
            let listed = self.lines.iter().filter(|line| **line != Line::Up).count();
            let hidden = match self.hidden {
                Hidden::Left if dotted > 0 => format!(", {dotted} hidden"),
                _ => String::new(),
            };
            format!("{listed} of {}{hidden}", self.entries.len())
        };
        (SafeText::line(&text), look.muted)
    }
}

/// A size for people: `17 B`, `4.2 KiB`.
pub(super) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}
