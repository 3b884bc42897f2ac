//! The roots of one server being edited: what is shared with it from the next time it asks. No
//! drawing, no I/O; nothing is shared but by [`Action::Send`].

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::RootConfig;
use crate::tui::action::Action;
use crate::tui::approval::draw;
use crate::tui::effect::{Effect, ServerCommand};
use crate::tui::ink::{Ink, ink};
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::screen::{Help, Screen, close, keys_of};
use crate::tui::widget::{KeyLine, TextInput};

/// One root being edited.
#[derive(Clone, Debug, Default)]
pub struct RootLine {
    /// A folder or a `file://` URI.
    pub place: TextInput,
    /// Its name; may be empty.
    pub name: TextInput,
}

/// The roots of one server being edited.
pub struct RootsEditor {
    /// With whom they are shared.
    pub server: ServerName,
    /// What is written so far; never empty.
    pub lines: Vec<RootLine>,
    /// The line the keys go to.
    pub at: usize,
    /// Whether they go to the name.
    pub in_name: bool,
    /// What is wrong.
    pub notice: Option<SafeText>,
    home: Option<std::path::PathBuf>,
}

impl RootsEditor {
    /// An editor over what is shared now; `home` is what `~` stands for.
    pub fn new(server: ServerName, roots: &[RootConfig], home: Option<std::path::PathBuf>) -> Self {
        let line = |root: &RootConfig| RootLine {
            place: TextInput::new(&root.uri),
            name: TextInput::new(root.name.as_deref().unwrap_or_default()),
        };
        let mut lines: Vec<RootLine> = roots.iter().map(line).collect();
        if lines.is_empty() {
            lines.push(RootLine::default());
        }
        Self { server, lines, at: 0, in_name: false, notice: None, home }
    }

    /// The line of text that takes the keys.
    pub fn line(&mut self) -> Option<&mut TextInput> {
        let line = self.lines.get_mut(self.at)?;
        Some(if self.in_name { &mut line.name } else { &mut line.place })
    }

    /// Types a key.
    pub fn type_key(&mut self, key: KeyEvent) {
        self.notice = None;
        if let Some(line) = self.line() {
            line.key(key);
        }
    }

    /// Does what was asked; gives the roots when they are to be shared.
    pub fn apply(&mut self, action: Action) -> Option<Vec<RootConfig>> {
        self.notice = None;
        let last = self.lines.len() - 1;
        match action {
            Action::Send => return self.share(),
            Action::AddItem => {
                self.lines.insert(self.at + 1, RootLine::default());
                (self.at, self.in_name) = (self.at + 1, false);
            }
            Action::RemoveItem => {
                self.lines.remove(self.at);
                if self.lines.is_empty() {
                    self.lines.push(RootLine::default());
                }
                self.at = self.at.min(self.lines.len() - 1);
            }
            Action::NextField if self.in_name => {
                (self.at, self.in_name) = ((self.at + 1) % self.lines.len(), false);
            }
            Action::NextField => self.in_name = true,
            Action::PreviousField if self.in_name => self.in_name = false,
            Action::PreviousField => {
                (self.at, self.in_name) = (self.at.checked_sub(1).unwrap_or(last), true);
            }
            Action::Down => self.at = (self.at + 1).min(last),
            Action::Up => self.at = self.at.saturating_sub(1),
            _ => {}
        }
        None
    }

    fn share(&mut self) -> Option<Vec<RootConfig>> {
        let mut roots: Vec<RootConfig> = Vec::new();
        for (n, line) in self.lines.iter().enumerate() {
            let place = line.place.text().trim();
            if place.is_empty() {
                continue;
            }
            match self.uri(place) {
                Ok(uri) => {
                    let name = line.name.text().trim();
                    let name = (!name.is_empty()).then(|| name.to_owned());
                    if roots.iter().all(|root| root.uri != uri) {
                        roots.push(RootConfig { uri, name });
                    }
                }
                Err(reason) => {
                    (self.at, self.in_name) = (n, false);
                    self.notice = Some(SafeText::line(&reason));
                    return None;
                }
            }
        }
        Some(roots)
    }

    /// A place as a `file://` URI (MCP 2025-11-25, client features, roots: no other scheme yet).
    fn uri(&self, place: &str) -> Result<String, String> {
        if place.contains("://") {
            let parsed = url::Url::parse(place).map_err(|e| format!("{place}: {e}"))?;
            return match parsed.scheme() {
                "file" => Ok(parsed.into()),
                other => Err(format!("`{other}:` cannot be shared, only folders and `file:`")),
            };
        }
        let home = self.home.as_deref();
        let path = match (place.strip_prefix('~'), home) {
            (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
            _ => std::path::PathBuf::from(place),
        };
        url::Url::from_directory_path(&path)
            .map(|url| url.as_str().trim_end_matches('/').to_owned())
            .map_err(|()| format!("{place}: write a whole path, or a `file://` URI"))
    }
}

impl Screen for RootsEditor {
    fn scopes(&self) -> Vec<Scope> {
        vec![Scope::Roots]
    }

    fn help(&self) -> Help {
        ("keys: roots", &[(Scope::Roots, "what a server may look at")])
    }

    fn takes_letters(&self) -> bool {
        true
    }

    fn key(&mut self, key: KeyEvent, bound: Option<Action>, _cx: &Cx<'_>, _out: &mut Out) -> bool {
        if bound.is_none() {
            self.type_key(key);
        }
        bound.is_none()
    }

    fn act(&mut self, action: Action, _cx: &Cx<'_>, out: &mut Out) {
        if action == Action::Back {
            close(out);
        } else if let Some(roots) = self.apply(action) {
            let name = Ink::line(self.server.as_str());
            out.say(ink!("{} roots are shared with {}", roots.len(), name));
            out.effect(Effect::Server(self.server.clone(), ServerCommand::Roots(roots)));
            close(out);
        }
    }

    fn paste(&mut self, text: &str, _cx: &Cx<'_>, _out: &mut Out) {
        if let Some(line) = self.line() {
            line.insert(text);
        }
    }

    fn mouse(&mut self, gesture: Gesture, _cx: &Cx<'_>, area: Rect, _out: &mut Out) {
        let area = Rect { height: area.height.saturating_sub(1), ..area };
        if let Gesture::Click(at) | Gesture::DoubleClick(at) = gesture
            && let Some((line, in_name)) = draw::roots_spot(self, area, at)
        {
            (self.at, self.in_name) = (line, in_name);
        }
    }

    fn prepare(&mut self, _cx: &Cx<'_>, _area: Rect) {}

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        draw::render_roots(self, cx, Rect { height: area.height.saturating_sub(1), ..area }, buf);
    }

    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        keys_of(keymap, &[Scope::Roots])
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;

    use super::*;

    fn typed(editor: &mut RootsEditor, text: &str) {
        for c in text.chars() {
            editor.type_key(KeyCode::Char(c).into());
        }
    }

    fn root(uri: &str, name: Option<&str>) -> RootConfig {
        RootConfig { uri: uri.to_owned(), name: name.map(str::to_owned) }
    }

    #[test]
    fn folders_become_uris_and_empty_lines_and_doubles_are_left_out() {
        let drive = if cfg!(windows) { "C:" } else { "" };
        let slash = if cfg!(windows) { "/" } else { "" };
        let home = Some(std::path::PathBuf::from(format!("{drive}/home/ada")));
        let mut editor = RootsEditor::new("s".into(), &[root("file:///srv/a b", None)], home);
        editor.apply(Action::AddItem);
        typed(&mut editor, "~/notes");
        editor.apply(Action::NextField);
        typed(&mut editor, "Notes");
        editor.apply(Action::AddItem);
        editor.apply(Action::AddItem);
        typed(&mut editor, &format!("{drive}/home/ada/notes"));
        let shared = editor.apply(Action::Send);
        let notes = root(&format!("file://{slash}{drive}/home/ada/notes"), Some("Notes"));
        assert_eq!(shared, Some(vec![root("file:///srv/a%20b", None), notes]));
    }

    #[test]
    fn what_is_no_folder_is_refused_where_it_stands() {
        for wrong in ["notes", "https://a.example/", "file//"] {
            let mut editor = RootsEditor::new("s".into(), &[root("file:///a", None)], None);
            editor.apply(Action::AddItem);
            typed(&mut editor, wrong);
            editor.apply(Action::Up);
            assert_eq!(editor.apply(Action::Send), None, "{wrong}");
            assert!(editor.notice.is_some() && editor.at == 1, "{wrong}");
        }
    }

    #[test]
    fn taking_the_last_one_out_shares_nothing() {
        let mut editor = RootsEditor::new("s".into(), &[root("file:///a", None)], None);
        editor.apply(Action::RemoveItem);
        assert_eq!(editor.apply(Action::Send), Some(Vec::new()));
    }
}
