//! Edits of the person written into the files: by pieces, checked before anything is written, with
//! an undo. What the person typed is approved by typing it; what was never approved stays so.

use std::path::{Path, PathBuf};

use super::handle::{Change, DeckEvent, Saving};
use super::task::Work;
use super::trust::Gate;
use crate::base::{SafeText, ServerName};
use crate::config::edit::entry::{self, NAME};
use crate::config::edit::{self, Edit, EditError, Undo, apply, write_with_backup};
use crate::config::{self, load_text};
use crate::deck::trust::Verdict;

/// Edits that can be taken back.
const UNDO: usize = 50;

/// An edit that was made.
pub(super) struct Made {
    undo: Undo,
    /// The servers it is about.
    servers: Vec<ServerName>,
    /// What it was, in words.
    words: String,
}

impl Work {
    /// Shows an entry to the person.
    pub(super) fn open_entry(&mut self, name: &ServerName) {
        let file = self.file_of(name);
        match entry::shown(&file, name) {
            Ok(entry) => self.send(DeckEvent::Entry(Box::new(entry))),
            Err(error) => self.fail(error.to_string()),
        }
    }

    /// Writes what the person made of an entry.
    pub(super) async fn save_entry(&mut self, saving: Saving) {
        let file = match &saving.before {
            Some(before) => before.file.clone(),
            None => self.files.last().cloned().unwrap_or_default(),
        };
        let outcome = match self.saved(&file, &saving) {
            Ok(made) => Ok(self.made(made).await),
            Err(error) => Err(SafeText::line(&error.to_string())),
        };
        self.send(DeckEvent::Saved(outcome));
    }

    fn saved(&self, file: &Path, saving: &Saving) -> Result<Made, EditError> {
        let mut edited = saving.edited.clone();
        let name = edited.as_object_mut().and_then(|entry| entry.shift_remove(NAME));
        let name = ServerName::new(name.as_ref().and_then(|n| n.as_str()).unwrap_or_default());
        let text = edit::read(file)?;
        match &saving.before {
            None => {
                let edit = Edit::Add { name: name.clone(), entry: edited };
                let words = format!("{name} was added");
                self.write(file, text, &[edit], (vec![name], words))
            }
            Some(before) => {
                let whole = text.clone().unwrap_or_default();
                if let (Some(own), Some(entry)) = (before.shown.get(NAME), edited.as_object_mut()) {
                    // The form has no row for a setting that means nothing.
                    entry.insert(NAME.to_owned(), own.clone());
                }
                let entry = entry::restored(&whole, before, &edited)?;
                let mut edits = vec![Edit::Replace { name: before.name.clone(), entry }];
                let mut servers = vec![before.name.clone()];
                if name != before.name {
                    edits.push(Edit::Rename { name: before.name.clone(), to: name.clone() });
                    servers.insert(0, name.clone());
                }
                self.write(file, text, &edits, (servers, format!("{name} was saved")))
            }
        }
    }

    /// Makes a change that needs no form.
    pub(super) async fn change(&mut self, change: Change) {
        let one = |name: &ServerName, what: &str| (vec![name.clone()], format!("{name} {what}"));
        let (about, edit) = match change {
            Change::Disable(name) => (one(&name, "is switched off"), Edit::Disable { name }),
            Change::Enable(name) => (one(&name, "is switched on"), Edit::Enable { name }),
            Change::Remove(name) => (one(&name, "was removed"), Edit::Remove { name }),
            Change::Duplicate(name) => {
                let copy = self.free_name(&name);
                let about =
                    (vec![copy.clone(), name.clone()], format!("{copy} is a copy of {name}"));
                (about, Edit::Duplicate { name, copy })
            }
        };
        let file = about.0.last().map(|name| self.file_of(name)).unwrap_or_default();
        let done = edit::read(&file)
            .map_err(EditError::from)
            .and_then(|text| self.write(&file, text, &[edit], about));
        match done {
            Ok(made) => {
                let words = self.made(made).await;
                self.send(DeckEvent::Done(words));
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    /// Takes the last edit back, unless the file is another by now.
    pub(super) async fn undo(&mut self) {
        let Some(made) = self.edits.pop() else {
            return self.fail("there is nothing to undo".to_owned());
        };
        let trusted = self.trusted();
        match made.undo.undo() {
            Ok(()) => {
                self.written(&made.servers, &trusted, false).await;
                self.send(DeckEvent::Done(SafeText::line(&format!("undone: {}", made.words))));
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn write(
        &self,
        file: &Path,
        before: Option<String>,
        edits: &[Edit],
        (servers, words): (Vec<ServerName>, String),
    ) -> Result<Made, EditError> {
        let start = before.clone().unwrap_or_default();
        let after = edits.iter().try_fold(start, |text, edit| apply(&text, edit))?;
        let removes = matches!(edits, [Edit::Remove { .. } | Edit::Disable { .. }]);
        if !removes {
            self.check(file, &after, servers.first())?;
        }
        let environment = &self.environment;
        let undo = write_with_backup(file, before, after, environment)?;
        Ok(Made { undo, servers, words })
    }

    /// Refuses an entry that could not be used.
    fn check(&self, file: &Path, text: &str, name: Option<&ServerName>) -> Result<(), EditError> {
        let problems = load_text(file, text, &self.environment)
            .map_or_else(|problems| problems, |loaded| loaded.diagnostics);
        // Servers of other files are not seen here; reading all of them will tell.
        let wrong = problems
            .iter()
            .find(|d| d.is_error() && d.server.as_ref() == name && d.rule != "config/dependency");
        let Some(wrong) = wrong else { return Ok(()) };
        let pointer = wrong.pointer.rsplit('/').next().unwrap_or_default();
        let help = wrong.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        Err(EditError::Refused(format!("{pointer}: {}{help}", wrong.message)))
    }

    /// An edit was written; gives what there is to say about it.
    async fn made(&mut self, made: Made) -> SafeText {
        let trusted = self.trusted();
        let added = made.servers.len() == 1 && !self.knows(&made.servers[0]);
        let servers = made.servers.clone();
        let said = SafeText::line(&format!("{}   z: undo", made.words));
        self.edits.push(made);
        let over = self.edits.len().saturating_sub(UNDO);
        self.edits.drain(..over);
        self.written(&servers, &trusted, added).await;
        said
    }

    fn knows(&self, name: &ServerName) -> bool {
        self.passed.reviewed.config.servers.contains_key(name)
            || self.passed.reviewed.left_out.contains(name)
    }

    /// The servers that are approved as they stand in the files now.
    fn trusted(&self) -> Vec<ServerName> {
        let Gate::Guarded(store) = &self.gate else { return Vec::new() };
        let reviews = store.review(&self.passed.reviewed).into_iter();
        reviews.filter(|r| r.verdict == Verdict::Approved).map(|r| r.server).collect()
    }

    /// Our own edit is on the disk: it is loaded, approved as far as what it was made of was
    /// approved, and applied.
    async fn written(&mut self, servers: &[ServerName], trusted: &[ServerName], typed: bool) {
        let result = config::load(&self.files, &self.environment);
        if let (Ok(loaded), true) = (&result, typed || servers.iter().any(|s| trusted.contains(s)))
        {
            let passed = self.gate.pass(loaded.clone(), &self.environment, self.running.as_ref());
            if let Gate::Guarded(store) = &mut self.gate
                && let Err(error) = store.approve(&passed.reviewed, servers)
            {
                tracing::warn!(%error, "an edit of the person could not be remembered as approved");
                store.approve_for_session(&passed.reviewed, servers);
            }
        }
        self.expected = true;
        self.changed(result).await;
    }

    /// The file an entry stands in; the one that wins when it is nowhere.
    fn file_of(&self, name: &ServerName) -> PathBuf {
        let known = self.passed.reviewed.config.servers.get(name).map(|s| s.at.file.clone());
        known.or_else(|| self.files.last().cloned()).unwrap_or_default()
    }

    fn free_name(&self, name: &ServerName) -> ServerName {
        let numbered = (2..).map(|n| ServerName::new(&format!("{name}-{n}")));
        let mut free = numbered.filter(|name| !self.knows(name));
        free.next().unwrap_or_else(|| name.clone())
    }
}
