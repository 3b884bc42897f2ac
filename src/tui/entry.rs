//! The form of one server's entry: a new one from a template, or one of a file. Made from the JSON
//! Schema of the configuration; secrets stand there as `***` and stay what they are.

use crate::tui::action::Action;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Map, Value, json};

use crate::base::text::SafeText;
use crate::config::edit::entry::{NAME, ShownEntry, schema};
use crate::tui::effect::Saving;
use crate::tui::form::FormState;
use crate::tui::form::draw::{Look, form, put};
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::widget::KeyLine;

/// An entry being edited.
pub struct EntryScreen {
    /// The form.
    pub form: FormState,
    before: Option<ShownEntry>,
    /// The value the form began with.
    began: Value,
    /// The file it goes to, as it is shown.
    file: SafeText,
    /// Why it was not written.
    pub problem: Option<SafeText>,
    /// It is being written.
    pub saving: bool,
    /// The person wanted to leave with changes unsaved, once.
    pub leaving: bool,
}

impl EntryScreen {
    /// A form for an entry of a file.
    pub fn edit(entry: ShownEntry) -> Self {
        let file = SafeText::line(&entry.file.display().to_string());
        let shown = entry.shown.clone();
        let name = entry.name.to_string();
        Self::over(&name, &shown, file, Some(entry))
    }

    /// A form for a new entry.
    pub fn add(template: &Value, file: &std::path::Path) -> Self {
        Self::over("", template, SafeText::line(&file.display().to_string()), None)
    }

    fn over(name: &str, entry: &Value, file: SafeText, before: Option<ShownEntry>) -> Self {
        let mut value = Map::new();
        value.insert(NAME.to_owned(), json!(name));
        value.extend(entry.as_object().cloned().unwrap_or_default());
        let began = Value::Object(value);
        let schema = std::sync::Arc::new(schema(entry));
        let mut form = FormState::with_value(&schema, Some(began.clone()));
        form.apply(Action::FirstField);
        Self { form, before, began, file, problem: None, saving: false, leaving: false }
    }

    /// Whether something would be lost by leaving.
    pub fn is_changed(&self) -> bool {
        self.form.arguments() != self.began || self.form.has_drafts()
    }

    /// What is to be written; why not, when something typed is no value yet.
    pub fn saving(&self) -> Result<Saving, &'static str> {
        if self.form.has_drafts() {
            return Err("a field has an invalid value");
        }
        Ok(Saving { before: self.before.clone(), edited: self.form.arguments() })
    }

    /// Where the form is drawn.
    pub fn body(&self, area: Rect) -> Rect {
        let problem = u16::from(self.problem.is_some());
        let height = area.height.saturating_sub(2 + problem);
        Rect { y: area.y + 1 + problem, height, ..area }
    }

    /// Draws the screen.
    pub fn render(&self, look: &Look, keymap: &Keymap, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if area.height < 4 || area.width < 20 {
            return;
        }
        let room = |x: u16| area.right().saturating_sub(x);
        let title = match &self.before {
            Some(before) => SafeText::line(&format!("edit {}", before.name)),
            None => SafeText::line("add a server"),
        };
        let x = put(buf, area.x + 1, area.y, room(area.x + 1), &title, look.accent);
        let x = put(buf, x + 3, area.y, room(x + 3), &self.file, look.muted);
        let note = "*** is hidden, and kept unless you type over it";
        put(buf, x + 3, area.y, room(x + 3), note, look.faint);
        if let Some(text) = &self.problem {
            let sign = look.sign("⚠ ", "! ");
            let x = put(buf, area.x + 1, area.y + 1, room(area.x + 1), sign, look.error);
            put(buf, x, area.y + 1, room(x), text, look.error);
        }
        form(&self.form, look, "save", self.body(area), buf);
        Self::key_line(keymap).render(Self::key_area(area), buf, look.key, look.muted);
    }

    /// The line of keys at its foot.
    pub fn key_line(keymap: &Keymap) -> KeyLine {
        let labels = keymap.labels(&[Scope::Entry, Scope::Form]).into_iter();
        KeyLine::new(labels.map(|(key, word, _)| (key, word)).collect(), keymap.help_label())
    }

    /// Where that line is drawn.
    pub fn key_area(area: Rect) -> Rect {
        let height = area.height.min(1);
        Rect { y: area.bottom() - height, height, ..area }
    }
}
