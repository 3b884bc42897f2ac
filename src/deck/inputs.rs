//! Answers to inputs: given by the person, kept in memory or on request in the keyring, changed and
//! forgotten. Which inputs are in the keyring is remembered by name; values are written nowhere.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::files::json;
use super::handle::Keep;
use super::keyring::{Keyring, Place};
use super::situation::{InputState, InputView};
use super::task::{Heard, Work};
use crate::base::file::StateFile;
use crate::base::{Secret, ServerName};
use crate::config::Hold;

impl Work {
    /// Uses an answer of the person.
    pub(super) fn answer(&mut self, id: String, value: Secret, keep: Keep) {
        self.environment.inputs.insert(id.clone(), value.clone());
        self.fresh_answers();
        let was_kept = self.kept.contains(&id);
        match (keep, &self.keyring) {
            (Keep::Keyring, Some(keyring)) => {
                let (keyring, place) = (keyring.clone(), self.place(&id));
                let heard = self.heard.clone();
                tokio::spawn(async move {
                    let kept = keyring.set(&place, &value).await;
                    let _ = heard.send(Heard::Kept(id, kept)).await;
                });
            }
            (Keep::Keyring, None) => {
                let program = Keyring::program_name();
                self.fail(format!(
                    "there is no keyring here: {program} is not on PATH; the answer is kept until \
                     you leave"
                ));
            }
            (Keep::Memory, _) if was_kept => self.forget_kept(&id),
            (Keep::Memory, _) => {}
        }
    }

    /// Forgets an answer, in the keyring too; the servers that use it wait again.
    pub(super) fn forget(&mut self, id: &str) {
        self.environment.inputs.remove(id);
        self.fresh_answers();
        self.forget_kept(id);
    }

    fn forget_kept(&mut self, id: &str) {
        if self.kept.remove(id) {
            self.remember_kept(id);
            if let Some(keyring) = self.keyring.clone() {
                let place = self.place(id);
                tokio::spawn(async move { keyring.forget(&place).await });
            }
        }
    }

    /// The answers changed: the files are read anew with them, which the person asked for.
    fn fresh_answers(&mut self) {
        self.expected = true;
        if let Some(watch) = &self.watch {
            watch.set_environment(self.environment.clone());
        }
    }

    /// Asks the keyring for what was put there before.
    pub(super) fn look_up_kept(&mut self) {
        let path = self.environment.var("PATH").map(str::to_owned);
        self.keyring = Keyring::find(path.as_deref());
        self.kept = self
            .kept_file()
            .and_then(|file| StateFile::new(file, LARGEST).load(json))
            .unwrap_or_default();
        let Some(keyring) = self.keyring.clone() else { return };
        for id in self.kept.clone() {
            let (keyring, place, heard) = (keyring.clone(), self.place(&id), self.heard.clone());
            tokio::spawn(async move {
                let found = keyring.get(&place).await;
                let _ = heard.send(Heard::Found(id, found)).await;
            });
        }
    }

    /// The keyring has answered.
    pub(super) fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Found(id, Ok(Some(value))) => {
                // What the person typed meanwhile is newer.
                if self.environment.input(&id).is_none() {
                    self.environment.inputs.insert(id, value);
                    self.fresh_answers();
                }
            }
            Heard::Found(id, Ok(None)) => {
                self.kept.remove(&id);
                self.remember_kept(&id);
                self.tell();
            }
            Heard::Kept(id, Ok(())) => {
                self.kept.insert(id.clone());
                self.remember_kept(&id);
                self.tell();
            }
            Heard::Found(_, Err(error)) | Heard::Kept(_, Err(error)) => self.fail(error),
        }
    }

    /// The declared inputs and how they stand.
    pub(super) fn inputs(&self) -> Vec<InputView> {
        let environment = &self.environment;
        let declared = self.passed.config.inputs.iter();
        declared
            .map(|input| {
                let id = &input.id;
                let state = if environment.inputs.contains_key(id) {
                    let kept = self.kept.contains(id);
                    if kept { InputState::Kept } else { InputState::Answered }
                } else if environment.input(id).is_some() {
                    InputState::Variable
                } else {
                    InputState::Open
                };
                let waiting = self.passed.needs.iter().find(|need| need.input.id == *id);
                // What is not approved yet has no claim to be given anything.
                let waits = |name: &&ServerName| {
                    let server = self.passed.config.servers.get(*name);
                    matches!(server.and_then(|s| s.hold.as_ref()), Some(Hold::Input(_)))
                };
                let servers = waiting.map(|need| need.servers.iter().filter(waits).cloned());
                let servers = servers.map(Iterator::collect).unwrap_or_default();
                InputView { input: input.clone(), state, servers }
            })
            .collect()
    }

    fn place(&self, id: &str) -> Place {
        let file = self.files.last().cloned().unwrap_or_default();
        let file = self.environment.absolute(&file).display().to_string();
        Place { file, input: id.to_owned() }
    }

    fn kept_file(&self) -> Option<PathBuf> {
        let state = self.environment.state_dir.as_ref()?;
        let file = self.place("").file;
        Some(state.join("inputs").join(format!("{}.json", crate::base::file::file_key(&file))))
    }

    /// Whether this one is kept. The others in the file may be another window's.
    fn remember_kept(&self, id: &str) {
        let Some(file) = self.kept_file() else { return };
        let written =
            StateFile::new(file, LARGEST).change(json, |all: Option<BTreeSet<String>>| {
                let mut all = all.unwrap_or_default();
                if self.kept.contains(id) {
                    all.insert(id.to_owned());
                } else {
                    all.remove(id);
                }
                Ok(Some(serde_json::to_vec(&all)?))
            });
        if let Err(error) = written {
            tracing::warn!(%error, "which inputs are in the keyring was not remembered");
        }
    }
}

/// Largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;
