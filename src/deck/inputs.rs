//! Answers to inputs that outlive the program: stored in the keyring on request. Only the names of
//! the stored inputs are written to a file, never values.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tokio::task::JoinSet;

use super::files::parse_json;
use super::keyring::{Keyring, KeyringPlace};
use super::situation::{InputState, InputView};
use super::trust::Passed;
use base::file::file_key;
use base::state::StateFile;
use base::{Secret, ServerName};
use config::{Environment, Hold};

/// A reply of the keyring.
pub(super) enum KeyringAnswer {
    /// The lookup of an answer to an input.
    Found(String, Result<Option<Secret>, String>),
    /// The storing of one.
    Kept(String, Result<(), String>),
}

/// The inputs of a configuration file whose answers are in the keyring.
pub(super) struct KeptInputs {
    keyring: Option<Keyring>,
    names: BTreeSet<String>,
    /// Where the names are stored.
    store: Option<StateFile>,
    /// The configuration file, as the keyring names it.
    file: String,
    /// Pending requests to the keyring.
    asked: JoinSet<KeyringAnswer>,
}

impl KeptInputs {
    /// Requests the stored answers from the keyring; no-op without a file.
    pub(super) fn open(files: &[PathBuf], environment: &Environment) -> Self {
        let (names, file, asked) = (BTreeSet::new(), String::new(), JoinSet::new());
        let mut out = Self { keyring: None, names, store: None, file, asked };
        let Some(file) = files.last() else { return out };
        out.file = environment.absolute(file).display().to_string();
        out.keyring = Keyring::find(environment.var("PATH"));
        let name = format!("{}.json", file_key(&out.file));
        let folder = environment.state_dir.as_ref().map(|state| state.join("inputs"));
        out.store = folder.map(|folder| StateFile::new(folder.join(name), MAX_FILE_BYTES));
        out.names = out.store.as_ref().and_then(|store| store.load(parse_json)).unwrap_or_default();
        if let Some(keyring) = &out.keyring {
            for id in out.names.clone() {
                let (keyring, place) = (keyring.clone(), out.place(&id));
                out.asked.spawn(async move { KeyringAnswer::Found(id, keyring.get(&place).await) });
            }
        }
        out
    }

    /// The next reply of the keyring; `None` while no request is pending. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<KeyringAnswer> {
        self.asked.join_next().await?.ok()
    }

    /// Whether there is a keyring.
    pub(super) const fn is_possible(&self) -> bool {
        self.keyring.is_some()
    }

    /// Puts an answer into the keyring; [`KeptInputs::next`] reports the outcome.
    ///
    /// # Errors
    /// When there is no keyring.
    pub(super) fn keep(&mut self, id: String, value: Secret) -> Result<(), String> {
        let Some(keyring) = self.keyring.clone() else {
            let program = Keyring::program_name();
            return Err(format!(
                "there is no keyring here: {program} is not on PATH; the answer is kept until you \
                 leave"
            ));
        };
        let place = self.place(&id);
        self.asked.spawn(async move { KeyringAnswer::Kept(id, keyring.set(&place, &value).await) });
        Ok(())
    }

    /// Removes an answer from the keyring, if it is there.
    pub(super) async fn forget(&mut self, id: &str) {
        if self.names.contains(id) {
            self.record(id, false).await;
            if let Some(keyring) = self.keyring.clone() {
                let place = self.place(id);
                tokio::spawn(async move { keyring.forget(&place).await });
            }
        }
    }

    /// Records whether this one is in the keyring. The others in the file may be another window's.
    pub(super) async fn record(&mut self, id: &str, is_kept: bool) {
        let id = id.to_owned();
        let change = move |names: &mut BTreeSet<String>| {
            if is_kept { names.insert(id.clone()) } else { names.remove(&id) }
        };
        change(&mut self.names);
        let Some(store) = self.store.clone() else { return };
        // On the blocking pool: another program may hold the lock of the file.
        let writing = move || {
            store.change(parse_json, |all: Option<BTreeSet<String>>| {
                let mut all = all.unwrap_or_default();
                change(&mut all);
                Ok(Some(serde_json::to_vec(&all)?))
            })
        };
        let written = tokio::task::spawn_blocking(writing).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            tracing::warn!(%error, "the list of inputs in the keyring was not saved");
        }
    }

    /// The declared inputs with their states.
    pub(super) fn views(&self, environment: &Environment, passed: &Passed) -> Vec<InputView> {
        let declared = passed.config.inputs.iter();
        declared
            .map(|input| {
                let id = &input.id;
                let state = if environment.inputs.contains_key(id) {
                    let is_kept = self.names.contains(id);
                    if is_kept { InputState::Kept } else { InputState::Answered }
                } else if environment.input(id).is_some() {
                    InputState::Variable
                } else {
                    InputState::Open
                };
                let waiting = passed.needs.iter().find(|need| need.input.id == *id);
                // An unapproved server must not receive any answer.
                let waits = |name: &&ServerName| {
                    let server = passed.config.servers.get(*name);
                    matches!(server.and_then(|s| s.hold.as_ref()), Some(Hold::Input(_)))
                };
                let servers = waiting.map(|need| need.servers.iter().filter(waits).cloned());
                let servers = servers.map(Iterator::collect).unwrap_or_default();
                InputView { input: input.clone(), state, servers }
            })
            .collect()
    }

    fn place(&self, id: &str) -> KeyringPlace {
        KeyringPlace { file: self.file.clone(), input: id.to_owned() }
    }
}

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
