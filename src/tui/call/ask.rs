//! Questions over the call screen: what to do about problems, lists to pick from, lines to type.

use crossterm::event::{KeyCode, KeyEvent};

use super::export::{Export, Written};
use super::picker::Picker;
use super::run::Run;
use super::screen::{CallScreen, Focus};
use super::subject::SubjectKind;
use super::template;
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::deck::history::HistoryEntry;
use crate::deck::saved::{SavedCall, SavedTarget};
use crate::host::Validation;
use crate::tui::effect::{Effect, Existing};
use crate::tui::widget::TextInput;

/// A question to the person, over the screen.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// The form has problems: go to them, or send anyway.
    Problems,
    /// A list to pick from.
    Pick(Pick, Vec<SafeText>, usize),
    /// A line of text.
    Line(Line, TextInput),
    /// A file for the field under the cursor.
    File(Box<Picker>),
}

/// What is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// A call of the past.
    History,
    /// A saved call.
    Saved,
    /// A way to copy the call.
    Export,
    /// A suggestion of the server.
    Suggestion,
}

/// What a line of text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The name of a saved call.
    Name,
    /// What to search for.
    Search,
    /// Where to write a result.
    SaveAs,
}

impl CallScreen {
    pub(super) fn open_history(&mut self) {
        let describe = |entry: &HistoryEntry| {
            let HistoryEntry { at, arguments, outcome, .. } = entry;
            let when = Timestamp(*at).to_rfc3339();
            let how = match outcome {
                Some((word, millis)) => format!("{word} {millis} ms"),
                None => "outcome unknown".to_owned(),
            };
            let text: String = arguments.to_string().chars().take(300).collect();
            SafeText::line(&format!("{}  {how}  {text}", when.get(..16).unwrap_or(&when)))
        };
        let entries = self.past.iter().map(describe).collect();
        self.ask = Some(Ask::Pick(Pick::History, entries, 0));
    }

    pub(super) fn open_saved(&mut self) {
        let entries = self.saved.iter().map(|(name, _)| SafeText::line(name)).collect();
        self.ask = Some(Ask::Pick(Pick::Saved, entries, 0));
    }

    pub(super) fn suggest(&mut self) -> Vec<Effect> {
        if self.suggestions.len() == 1 {
            let text = self.suggestions.remove(0);
            self.form.replace_text(&text);
        } else if !self.suggestions.is_empty() {
            let entries = self.suggestions.iter().map(|text| SafeText::line(text)).collect();
            self.ask = Some(Ask::Pick(Pick::Suggestion, entries, 0));
        }
        Vec::new()
    }

    pub(super) fn key_in_ask(&mut self, key: KeyEvent) -> Vec<Effect> {
        match (self.ask.take(), key.code) {
            (Some(Ask::File(picker)), _) => return self.key_in_picker(picker, key),
            (_, KeyCode::Esc) => {}
            (Some(Ask::Problems), KeyCode::Char('f')) => {
                return self.send(self.form.arguments(), Validation::Force);
            }
            (Some(Ask::Problems), KeyCode::Enter) => {
                self.focus = Focus::Form;
                self.form.go_to_gravest();
            }
            (Some(Ask::Pick(pick, entries, at)), code) => {
                return self.key_in_pick(pick, entries, at, code);
            }
            (Some(Ask::Line(line, text)), KeyCode::Enter) => {
                return self.line_done(line, text.text().trim().to_owned());
            }
            (Some(Ask::Line(line, mut text)), _) => {
                text.key(key);
                self.ask = Some(Ask::Line(line, text));
            }
            (ask, _) => self.ask = ask,
        }
        Vec::new()
    }

    fn key_in_pick(
        &mut self,
        pick: Pick,
        entries: Vec<SafeText>,
        at: usize,
        code: KeyCode,
    ) -> Vec<Effect> {
        let last = entries.len().saturating_sub(1);
        let at = match code {
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab => (at + 1).min(last),
            KeyCode::PageDown => (at + 10).min(last),
            KeyCode::PageUp => at.saturating_sub(10),
            KeyCode::Enter => return self.picked(pick, at),
            _ => at,
        };
        self.ask = Some(Ask::Pick(pick, entries, at));
        Vec::new()
    }

    fn picked(&mut self, pick: Pick, at: usize) -> Vec<Effect> {
        match pick {
            Pick::History => {
                if let Some(entry) = self.past.get(at) {
                    let arguments = entry.arguments.clone();
                    self.form.set_value(Some(arguments));
                    self.seconds = None;
                    self.focus = Focus::Form;
                }
            }
            Pick::Saved => {
                if let Some(call) = self.saved.get(at).map(|(_, call)| call.clone()) {
                    self.take_up(&call);
                }
            }
            Pick::Export => {
                let arguments = self.form.arguments();
                let uri = match self.subject.kind {
                    SubjectKind::Template => {
                        template::expand(&self.subject.wire, &arguments).unwrap_or_default()
                    }
                    _ => self.subject.wire.to_string(),
                };
                let way = Export::ALL.get(at).copied().unwrap_or(Export::Arguments);
                let blocked = self.form.blocking() > 0 && self.form.schema_problem().is_none();
                let call = Written {
                    subject: &self.subject,
                    arguments: &arguments,
                    uri: &uri,
                    validation: if blocked { Validation::Force } else { Validation::Enforce },
                    origin: &self.origin,
                };
                return vec![Effect::Copy(way.text(&call))];
            }
            Pick::Suggestion => {
                if let Some(text) = self.suggestions.get(at).cloned() {
                    self.form.replace_text(&text);
                    self.suggestions.clear();
                }
            }
        }
        Vec::new()
    }

    fn line_done(&mut self, line: Line, text: String) -> Vec<Effect> {
        match line {
            _ if text.is_empty() => Vec::new(),
            Line::Search => {
                let view = self.runs.get_mut(self.shown).and_then(Run::view_mut);
                let wants = view.and_then(|view| view.search(&text));
                self.want(wants)
            }
            Line::SaveAs => {
                let content = self.saving.take();
                let path = text.into();
                let existing = Existing::Keep;
                let save = |content| Effect::SaveAs { path, content, existing };
                content.map(save).into_iter().collect()
            }
            Line::Name => {
                let canonical = format!("{}.{}", self.subject.server, self.subject.wire);
                let arguments = self.form.without_secrets(self.form.arguments());
                let mut call = SavedCall::tool(canonical.clone(), &arguments);
                call.target = match self.subject.kind {
                    SubjectKind::Tool => SavedTarget::Tool { tool: canonical },
                    SubjectKind::Prompt => SavedTarget::Prompt { prompt: canonical },
                    SubjectKind::Template | SubjectKind::Resource => SavedTarget::Resource {
                        resource: match self.subject.kind {
                            SubjectKind::Template => {
                                template::expand(&self.subject.wire, &arguments).unwrap_or_default()
                            }
                            _ => self.subject.wire.to_string(),
                        },
                        server: Some(self.subject.server.to_string()),
                    },
                };
                if matches!(call.target, SavedTarget::Resource { .. }) {
                    call.arguments.clear();
                }
                call.force = self.form.blocking() > 0;
                call.timeout = self.seconds;
                self.saved.push((text.clone(), call.clone()));
                vec![Effect::SaveCall(text, Box::new(call))]
            }
        }
    }
}
