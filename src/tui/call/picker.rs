//! The picker of a file for a field: a folder of this machine as a list, narrowed by typing. Reads
//! nothing itself: it says which path is to be looked at and is told what is there.

mod draw;
#[cfg(test)]
mod tests;

use crate::tui::action::Action;
use crate::tui::keymap::Scope;
use std::ffi::OsString;
use std::path::{MAIN_SEPARATOR, Path, PathBuf, is_separator};

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::{Position, Rect};

use super::ask::Ask;
use super::folder::{Entry, EntryKind, Found, LARGEST_FILE, Looked, More};
use super::mouse::Clicks;
use super::screen::CallScreen;
use crate::base::text::SafeText;
use crate::tui::effect::Effect;
use crate::tui::find;
use crate::tui::form::FieldKind;
use crate::tui::widget::{ListState, TextInput};

/// What a field takes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Its path.
    Path,
    /// Its text, or the JSON it holds.
    Text,
    /// Its bytes as base64.
    Base64,
}

/// What a key came to.
enum Step {
    Stay,
    Close,
    Look(PathBuf),
    Pick(PathBuf, EntryKind),
}

/// A row of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Up,
    Entry(usize),
}

/// A file being picked for the field at a pointer.
#[derive(Clone, Debug, PartialEq)]
pub struct Picker {
    /// JSON pointer of the field.
    pointer: String,
    take: Take,
    /// What the field takes unless the person chooses.
    usual: Take,
    /// The folder that is listed, absolute; empty until the first one was.
    folder: PathBuf,
    entries: Vec<Entry>,
    more: More,
    filter: TextInput,
    hidden: Hidden,
    lines: Vec<Line>,
    list: ListState<Line>,
    /// The path that is being looked at.
    asking: Option<PathBuf>,
    /// Enter was pressed before the answer was there.
    hurried: bool,
    /// Where the selection goes in the next folder: the one that was left upwards.
    left: Option<OsString>,
    said: Option<SafeText>,
}

/// Whether names that begin with a dot are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    Listed,
    Left,
}

/// Rows of the list that are shown.
const ROWS: usize = 14;

impl Picker {
    fn new(pointer: String, take: Take, start: PathBuf) -> Self {
        Self {
            pointer,
            usual: take,
            take,
            folder: PathBuf::new(),
            entries: Vec::new(),
            more: More::No,
            filter: TextInput::default(),
            hidden: Hidden::Left,
            lines: Vec::new(),
            list: ListState::default(),
            asking: Some(start),
            hurried: false,
            left: None,
            said: None,
        }
    }

    /// The path that is typed, when it is one and no part of a name.
    fn typed_path(&self) -> Option<PathBuf> {
        let text = self.filter.text();
        let is_path = text == "~" || text == ".." || text.contains(is_separator);
        // Joined to the folder: what is absolute or of the home folder stands alone.
        let own = Path::new(text).starts_with("~");
        is_path.then(|| if own { PathBuf::from(text) } else { self.folder.join(text) })
    }

    fn search(&mut self) {
        let text = self.filter.text();
        if self.typed_path().is_some() {
            self.lines.clear();
        } else {
            let found = find::rank(text, &self.entries, |entry| entry.shown.as_str().into());
            let all = self.hidden == Hidden::Listed || text.starts_with('.');
            let up = text.is_empty() && self.folder.parent().is_some();
            let listed = found.into_iter().filter(|n| all || !self.entries[*n].is_hidden());
            self.lines =
                up.then_some(Line::Up).into_iter().chain(listed.map(Line::Entry)).collect();
        }
        // The way up is first in the list, but not what Enter is for.
        let below = self.lines.first() == Some(&Line::Up) && self.lines.len() > 1;
        self.select(usize::from(below));
    }

    fn select(&mut self, row: usize) {
        let lines = &self.lines;
        self.list.select_index(row, lines.len(), |n| lines[n]);
        self.list.reveal(lines.len(), ROWS);
    }

    /// Moves the selection by rows.
    pub(super) fn step(&mut self, delta: isize) {
        let lines = &self.lines;
        self.list.step(delta, lines.len(), |n| lines[n]);
        self.list.reveal(lines.len(), ROWS);
    }

    /// Does what a key of the table means here.
    fn apply(&mut self, action: Action) -> Step {
        self.hurried = false;
        self.left = None;
        match action {
            Action::Back => return Step::Close,
            Action::Open => return self.enter(),
            // Folders are entered by Enter alone; their path may be what the field wants.
            Action::PickPath if self.usual != Take::Path || self.asking.is_some() => {
                return self.enter();
            }
            Action::PickPath => {
                if let Some((path, kind)) = self.selected() {
                    return Step::Pick(path, kind);
                }
            }
            Action::Left => return self.up(),
            Action::Right => {
                if let Some((path, EntryKind::Folder)) = self.selected() {
                    return Step::Look(path);
                }
            }
            Action::PathOrText if self.means(action) => {
                self.said = None;
                self.take = if self.take == Take::Path { Take::Text } else { Take::Path };
            }
            Action::PathOrText => {}
            Action::Hidden => {
                self.hidden = match self.hidden {
                    Hidden::Left => Hidden::Listed,
                    Hidden::Listed => Hidden::Left,
                };
                self.search();
            }
            _ => {
                let all = self.lines.len() as isize;
                if let Some(rows) = action.steps(ROWS as isize) {
                    self.step(rows.clamp(-all, all));
                }
            }
        }
        Step::Stay
    }

    /// Whether a command does something for this field.
    fn means(&self, action: Action) -> bool {
        match action {
            Action::PathOrText => self.usual == Take::Path,
            Action::PickPath => self.usual == Take::Path && self.take == Take::Path,
            _ => true,
        }
    }

    /// A key that is in no table: it is typed.
    fn type_key(&mut self, key: KeyEvent) -> Step {
        (self.hurried, self.left) = (false, None);
        if key.code == KeyCode::Backspace && self.filter.text().is_empty() {
            return self.up();
        }
        self.said = None;
        self.filter.key(key);
        self.search();
        Step::Stay
    }

    /// The mouse was pressed: a row is selected; twice, or where it was selected already, it is
    /// entered or picked. Outside of the picker nothing happens.
    fn click(&mut self, at: Position, clicks: Clicks, area: Rect) -> Step {
        let list = draw::list(area);
        if !list.contains(at) {
            return Step::Stay;
        }
        let row = self.top(list.height) + usize::from(at.y - list.y);
        if row >= self.lines.len() {
            return Step::Stay;
        }
        let selected = self.list.index() == row;
        self.select(row);
        if selected || clicks == Clicks::Two { self.apply(Action::Open) } else { Step::Stay }
    }

    /// First row that is seen: a low terminal shows those around the selected one.
    fn top(&self, height: u16) -> usize {
        let at = self.list.index();
        self.list.top().max((at + 1).saturating_sub(usize::from(height.max(1))))
    }

    fn selected(&self) -> Option<(PathBuf, EntryKind)> {
        match self.list.selected()? {
            Line::Up => Some((self.folder.parent()?.to_owned(), EntryKind::Folder)),
            Line::Entry(n) => {
                let entry = self.entries.get(*n)?;
                Some((self.folder.join(&entry.name), entry.kind))
            }
        }
    }

    fn enter(&mut self) -> Step {
        if self.asking.is_some() {
            self.hurried = true;
            return Step::Stay;
        }
        if let Some(path) = self.typed_path() {
            return Step::Look(path);
        }
        match (self.list.selected(), self.selected()) {
            (Some(Line::Up), _) => self.up(),
            (_, Some((path, EntryKind::Folder))) => Step::Look(path),
            (_, Some((path, kind))) => Step::Pick(path, kind),
            (_, None) => Step::Stay,
        }
    }

    fn up(&mut self) -> Step {
        // Pressed again before the answer is there, it leads up from where that will be.
        let coming = self.asking.as_deref().filter(|path| path.is_absolute());
        let from = coming.unwrap_or(&self.folder).to_owned();
        let Some(parent) = from.parent().map(Path::to_owned) else { return Step::Stay };
        self.left = from.file_name().map(ToOwned::to_owned);
        Step::Look(parent)
    }

    /// Takes what stands at the path that was looked at; a file that was typed is picked.
    fn looked(&mut self, looked: Looked) -> Step {
        if self.asking.as_ref() != Some(&looked.asked) {
            return Step::Stay;
        }
        self.asking = None;
        let hurried = std::mem::take(&mut self.hurried);
        match looked.found {
            Err(reason) => {
                self.left = None;
                self.said = Some(reason);
                Step::Stay
            }
            Ok(Found::Leaf(kind)) => Step::Pick(looked.path, kind),
            Ok(Found::Folder(entries, more)) => {
                let first = self.folder.as_os_str().is_empty();
                (self.folder, self.entries, self.more) = (looked.path, entries, more);
                self.said = None;
                // What is typed while the first folder is read is meant for it.
                if !first {
                    self.filter.set("");
                }
                self.search();
                if let Some(name) = self.left.take() {
                    let is_it = |line: &Line| match line {
                        Line::Entry(n) => self.entries[*n].name == name,
                        Line::Up => false,
                    };
                    if let Some(row) = self.lines.iter().position(is_it) {
                        self.select(row);
                    }
                }
                if hurried { self.enter() } else { Step::Stay }
            }
        }
    }

    /// Why this cannot be picked.
    fn refusal(&self, path: &Path, kind: EntryKind) -> Option<SafeText> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = SafeText::cut(&name, 60);
        let reason = match (self.take, kind) {
            (Take::Path, _) if path.to_str().is_none() => {
                format!("{name}: its path is no UTF-8 text, so it cannot be sent")
            }
            (Take::Path, _) => return None,
            (_, EntryKind::File(size)) if size > LARGEST_FILE => {
                format!("{name} has {}; 4 MiB of content fit into a field", draw::size(size))
            }
            (_, EntryKind::File(_)) => return None,
            (_, _) => format!("{name} is no file: it has no content to take"),
        };
        Some(SafeText::line(&reason))
    }
}

impl CallScreen {
    /// Opens the picker for the field under the cursor.
    pub(super) fn open_picker(&mut self) -> Vec<Effect> {
        let typing_json = self.form.json().is_some_and(|json| json.focused);
        let row = self.form.current().filter(|_| !typing_json);
        let Some((pointer, field)) = row.and_then(|row| Some((row.pointer.clone(), row.field()?)))
        else {
            return vec![Effect::Say("no field to fill on this line".to_owned())];
        };
        let take = match field.kind {
            _ if self.form.wants_base64() => Take::Base64,
            FieldKind::Text { .. } => Take::Path,
            _ => Take::Text,
        };
        let start = self.picked_in.clone().unwrap_or_else(|| PathBuf::from("."));
        self.ask = Some(Ask::File(Box::new(Picker::new(pointer, take, start.clone()))));
        vec![Effect::Look(self.form_token(), start)]
    }

    pub(super) fn key_in_picker(&mut self, mut picker: Box<Picker>, key: KeyEvent) -> Vec<Effect> {
        let step = match self.keymap.pressed(&[Scope::Picker], key) {
            Some(action) => picker.apply(action),
            None => picker.type_key(key),
        };
        self.picker_step(picker, step)
    }

    /// The mouse was pressed while a picker may be open.
    pub(super) fn click_in_picker(
        &mut self,
        at: Position,
        clicks: Clicks,
        area: Rect,
    ) -> Vec<Effect> {
        match self.ask.take() {
            Some(Ask::File(mut picker)) => {
                let step = picker.click(at, clicks, area);
                self.picker_step(picker, step)
            }
            ask => {
                self.ask = ask;
                Vec::new()
            }
        }
    }

    pub(super) fn paste_in_picker(&mut self, text: &str) {
        if let Some(Ask::File(picker)) = &mut self.ask {
            picker.filter.insert(text.trim_end_matches(['\r', '\n']));
            picker.search();
        }
    }

    /// A path was looked at for the picker; one that nobody waits for any more is ignored.
    pub fn looked(&mut self, looked: Looked) -> Vec<Effect> {
        match self.ask.take() {
            Some(Ask::File(mut picker)) => {
                let step = picker.looked(looked);
                self.picker_step(picker, step)
            }
            ask => {
                self.ask = ask;
                Vec::new()
            }
        }
    }

    fn picker_step(&mut self, mut picker: Box<Picker>, step: Step) -> Vec<Effect> {
        let mut wanted = Vec::new();
        match step {
            Step::Close => return wanted,
            Step::Stay => {}
            Step::Look(path) => {
                picker.said = None;
                picker.asking = Some(path.clone());
                wanted.push(Effect::Look(self.form_token(), path));
            }
            Step::Pick(path, kind) => match picker.refusal(&path, kind) {
                Some(reason) => picker.said = Some(reason),
                None => return self.picked_file(&picker, path),
            },
        }
        self.ask = Some(Ask::File(picker));
        wanted
    }

    /// JSON pointer of the line under the cursor.
    pub(super) fn here(&self) -> Option<&str> {
        self.form.current().map(|row| row.pointer.as_str())
    }

    fn picked_file(&mut self, picker: &Picker, path: PathBuf) -> Vec<Effect> {
        self.keep_soon();
        self.picked_in = path.parent().map(Path::to_owned);
        if self.here() != Some(&*picker.pointer) {
            return vec![Effect::Say(
                "the field is no longer there; nothing was filled".to_owned(),
            )];
        }
        if let (Take::Path, Some(text)) = (picker.take, path.to_str()) {
            self.form.replace_text(text);
            return self.typed();
        }
        self.filling = Some(picker.pointer.clone());
        vec![Effect::ReadFile(self.form_token(), path)]
    }
}
