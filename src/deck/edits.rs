//! Writes the user's edits into the files: minimal changes, checked before anything is written,
//! with undo.

use std::path::{Path, PathBuf};

use super::command::{AddedServer, FileChange, Saving};
use super::policy::SecretStore;
use base::ServerName;
use config::{
    Conflict, ENTRY_NAME, Edit, EditError, Environment, Imported, Loaded, ShownEntry, Undo,
    apply_edit, load_text, merge_import, read_for_edit, restored_entry, shown_entry,
    write_with_backup,
};
use serde_json::{Value, json};

/// An edit that was made.
pub(super) struct Made {
    /// What takes it back; `None` where the file already said so.
    pub(super) undo: Option<Undo>,
    /// The servers it affects.
    pub(super) servers: Vec<ServerName>,
    /// Its description.
    pub(super) words: String,
}

/// The files as last loaded, to edit.
#[derive(Clone, Copy)]
pub(super) struct FileEditor<'a> {
    pub(super) files: &'a [PathBuf],
    pub(super) environment: &'a Environment,
    pub(super) loaded: &'a Loaded,
}

impl FileEditor<'_> {
    /// An entry for the user to edit.
    pub(super) fn shown(self, name: &ServerName) -> Result<ShownEntry, EditError> {
        shown_entry(&self.file_of(name), name)
    }

    /// Writes an entry as the user edited it.
    pub(super) fn save(self, saving: Saving) -> Result<Made, EditError> {
        let mut edited = saving.edited;
        let name = edited.as_object_mut().and_then(|entry| entry.shift_remove(ENTRY_NAME));
        let name = ServerName::new(name.as_ref().and_then(|n| n.as_str()).unwrap_or_default());
        let Some(before) = saving.before else {
            let edit = Edit::Add { name: name.clone(), entry: edited };
            let words = format!("{name} was added");
            let file = self.own_file();
            return self.write(&file, read_for_edit(&file)?, &[edit], (vec![name], words));
        };
        if let (Some(own), Some(entry)) = (before.shown.get(ENTRY_NAME), edited.as_object_mut()) {
            // The form has no row for an unused setting.
            entry.insert(ENTRY_NAME.to_owned(), own.clone());
        }
        let text = read_for_edit(&before.file)?;
        let entry = restored_entry(text.as_deref().unwrap_or_default(), &before, &edited)?;
        let mut edits = vec![Edit::Replace { name: before.name.clone(), entry }];
        let mut servers = vec![before.name.clone()];
        if name != before.name {
            edits.push(Edit::Rename { name: before.name, to: name.clone() });
            servers.insert(0, name.clone());
        }
        self.write(&before.file, text, &edits, (servers, format!("{name} was saved")))
    }

    /// Makes a change that needs no form.
    pub(super) fn change(self, change: FileChange) -> Result<Made, EditError> {
        let one = |name: &ServerName, what: &str| (vec![name.clone()], format!("{name} {what}"));
        let mut before = Vec::new();
        let (about, edit) = match change {
            FileChange::Set { server, path, value } => {
                let key = path.join(".");
                (one(&server, &format!("has a new {key}")), Edit::Set { name: server, path, value })
            }
            FileChange::Amend { server, mut changes, words } => {
                let Some(last) = changes.pop() else {
                    return Err(EditError::Refused("nothing was to be changed".to_owned()));
                };
                let amend = |change| Edit::Amend { name: server.clone(), change };
                before.extend(changes.into_iter().map(amend));
                ((vec![server.clone()], format!("{server}: {words}")), amend(last))
            }
            FileChange::PassVariable { server, variable } => {
                let (input, value) = self.passed(&variable);
                before.extend(input.map(|input| Edit::AddInput { input }));
                let about = one(&server, &format!("gets {variable}"));
                let path = vec!["env".to_owned(), variable];
                (about, Edit::Set { name: server, path, value: Some(value) })
            }
            FileChange::Disable(name) => (one(&name, "is switched off"), Edit::Disable { name }),
            FileChange::Enable(name) => (one(&name, "is switched on"), Edit::Enable { name }),
            FileChange::Remove(name) => (one(&name, "was removed"), Edit::Remove { name }),
            FileChange::Duplicate(name) => {
                let copy = self.free_name(&name);
                let about =
                    (vec![copy.clone(), name.clone()], format!("{copy} is a copy of {name}"));
                (about, Edit::Duplicate { name, copy })
            }
            FileChange::Add(added) => return self.add(*added),
            FileChange::Import(imported) => return self.import(imported),
        };
        let file = about.0.last().map(|name| self.file_of(name)).unwrap_or_default();
        before.push(edit);
        self.write(&file, read_for_edit(&file)?, &before, about)
    }

    /// Stores the secrets of a server and adds it.
    fn add(self, added: AddedServer) -> Result<Made, EditError> {
        let AddedServer { name, entry, inputs, secrets } = added;
        let file = self.own_file();
        let mut edits: Vec<Edit> =
            inputs.into_iter().map(|input| Edit::AddInput { input }).collect();
        edits.push(Edit::Add { name: name.clone(), entry });
        let before = read_for_edit(&file)?;
        if !secrets.is_empty() {
            let store = SecretStore::from_env(self.environment);
            let store = store.ok_or_else(|| {
                EditError::Refused("there is no folder in which secrets could be kept".to_owned())
            })?;
            for (id, value) in &secrets {
                store.set(id, value).map_err(EditError::Refused)?;
            }
        }
        let words = format!("{name} was added");
        self.write(&file, before, &edits, (vec![name], words))
    }

    /// Adds servers of other programs.
    fn import(self, mut imported: Imported) -> Result<Made, EditError> {
        let file = self.own_file();
        for (_, entry) in &mut imported.servers {
            for key in ["env", "headers"] {
                let values = entry.get_mut(key).and_then(Value::as_object_mut);
                for value in values.into_iter().flat_map(|values| values.values_mut()) {
                    let text = value.as_str().and_then(|text| text.strip_prefix("${"));
                    let Some(name) = text.and_then(|text| text.strip_suffix('}')) else { continue };
                    if name.contains([':', '$', '{']) {
                        continue;
                    }
                    let (input, reference) = self.passed(name);
                    imported.inputs.extend(input);
                    *value = reference;
                }
            }
        }
        let before = read_for_edit(&file)?;
        let (after, left) =
            merge_import(before.as_deref().unwrap_or_default(), &imported, Conflict::Keep)?;
        let count = imported.servers.len().saturating_sub(left.len());
        // One that stays as it is keeps its approval for itself.
        let names = imported.servers.into_iter().map(|(name, _)| name);
        let servers: Vec<ServerName> = names.filter(|name| !self.knows(name)).collect();
        let s = if count == 1 { "" } else { "s" };
        let words = format!("{count} server{s} added to {}", file.display());
        let undo = write_with_backup(&file, before, after, self.environment)?;
        Ok(Made { undo: Some(undo), servers, words })
    }

    /// How an entry names a variable: by reference if it is set here, otherwise through an input,
    /// which is returned as well, so that nobody has to write a secret into a file.
    fn passed(self, variable: &str) -> (Option<Value>, Value) {
        if self.environment.var(variable).is_some() {
            return (None, format!("${{{variable}}}").into());
        }
        let id = variable.to_lowercase().replace('_', "-");
        let value = format!("${{input:{id}}}").into();
        let description = format!("{variable}, for a server that needs it");
        let input = json!({"id": id, "type": "promptString", "description": description,
            "password": true});
        (Some(input), value)
    }

    fn write(
        self,
        file: &Path,
        before: Option<String>,
        edits: &[Edit],
        (servers, words): (Vec<ServerName>, String),
    ) -> Result<Made, EditError> {
        let start = before.clone().unwrap_or_default();
        let after = edits.iter().try_fold(start, |text, edit| apply_edit(&text, edit))?;
        let removes = matches!(edits, [Edit::Remove { .. } | Edit::Disable { .. }]);
        if !removes {
            self.check(file, &after, servers.first())?;
        }
        if before.as_deref() == Some(after.as_str()) {
            return Ok(Made { undo: None, servers, words: "nothing was changed".to_owned() });
        }
        let undo = write_with_backup(file, before, after, self.environment)?;
        Ok(Made { undo: Some(undo), servers, words })
    }

    /// Refuses an entry that could not be used.
    fn check(self, file: &Path, text: &str, name: Option<&ServerName>) -> Result<(), EditError> {
        let problems = load_text(file, text, self.environment)
            .map_or_else(|problems| problems, |loaded| loaded.diagnostics);
        // Servers of other files are not known here: the reload checks dependencies.
        let wrong = problems
            .iter()
            .find(|d| d.is_error() && d.server.as_ref() == name && d.rule != "config/dependency");
        let Some(wrong) = wrong else { return Ok(()) };
        let pointer = wrong.pointer.rsplit('/').next().unwrap_or_default();
        let help = wrong.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        Err(EditError::Refused(format!("{pointer}: {}{help}", wrong.message)))
    }

    pub(super) fn knows(self, name: &ServerName) -> bool {
        self.loaded.config.servers.contains_key(name) || self.loaded.left_out.contains(name)
    }

    /// The file of an entry; the one with the highest precedence when it is in none.
    fn file_of(self, name: &ServerName) -> PathBuf {
        let server = self.loaded.config.servers.get(name);
        server.map_or_else(|| self.own_file(), |server| server.at.file.clone())
    }

    /// The file with the highest precedence.
    fn own_file(self) -> PathBuf {
        self.files.last().cloned().unwrap_or_default()
    }

    fn free_name(self, name: &ServerName) -> ServerName {
        let numbered = (2..).map(|n| ServerName::new(&format!("{name}-{n}")));
        let mut free = numbered.filter(|name| !self.knows(name));
        free.next().unwrap_or_else(|| name.clone())
    }
}
