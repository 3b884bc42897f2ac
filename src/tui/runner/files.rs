//! Effects about files: what a person saves and loads, and what outlives the program. What may
//! have to wait for a disk is done away from the drawing.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Runner;
use crate::base::text::SafeText;
use crate::deck::history::History;
use crate::deck::lock::Lock;
use crate::deck::saved::{SavedCall, SavedCalls};
use crate::error::{Error, ErrorCode};
use crate::tui::effect::{Baseline, Effect, Existing, LockChange};
use crate::tui::message::Message;
use crate::tui::result::Content;
use crate::tui::state;

/// There is no lock file beside nothing.
const NO_LOCK: &str = "there is no configuration file, so no lock file beside it";

impl Runner {
    /// Does one of these effects; others are not its business.
    pub(super) fn about_files(&mut self, effect: Effect) {
        match effect {
            Effect::Save { name, content } => self.tell(match state::save_new(&name, &content) {
                Ok(path) => {
                    Message::Done(SafeText::line(&format!("saved {}", whole(path).display())))
                }
                Err(error) => failed(&format!("{} was not saved: {error}", name.display())),
            }),
            Effect::SaveAs { path, content, existing } => {
                self.beside(move || save_as(&path, content, existing));
            }
            Effect::SavePrefs(prefs) => {
                let file = self.prefs_file.as_ref();
                let written = file.map(|file| state::write_prefs(file, &self.prefs, &prefs));
                self.prefs = *prefs;
                self.kept("preferences", written);
            }
            Effect::Record(record) => {
                let file = self.history_file.as_ref();
                let written = file.map(|file| History::append(file, &record));
                self.kept("calls and drafts", written);
            }
            Effect::SaveCall(name, call) => self.save_call(&name, *call),
            Effect::ReadFile(token, path) => {
                self.beside(move || Message::FileRead(token, content(&path)));
            }
            Effect::Baseline(baseline) => {
                let file = self.lock_file.clone();
                self.beside(move || {
                    let known = match &baseline {
                        Baseline::Lock => {
                            file.ok_or_else(|| NO_LOCK.to_owned()).and_then(|f| Lock::read(&f))
                        }
                        Baseline::Recording(path) => Lock::of_recording(path),
                    };
                    Message::Baseline(baseline, known.map_err(|problem| SafeText::line(&problem)))
                });
            }
            Effect::Lock(change) => {
                let file = self.lock_file.clone();
                self.beside(move || {
                    match file.ok_or_else(|| NO_LOCK.to_owned()).and_then(|f| lock(&f, change)) {
                        Ok(known) => Message::Baseline(Baseline::Lock, Ok(known)),
                        Err(problem) => failed(&problem),
                    }
                });
            }
            _ => {}
        }
    }

    /// Something that should outlive the program will not: said once, logged every time.
    fn kept(&mut self, what: &'static str, written: Option<std::io::Result<()>>) {
        let Some(Err(error)) = written else { return };
        tracing::warn!(%error, "not kept: {what}");
        if self.not_kept.insert(what) {
            let text = format!("not kept beyond this session: {what}: {error}");
            self.tell(Message::Warned(SafeText::line(&text)));
        }
    }

    fn save_call(&self, name: &str, call: SavedCall) {
        let Some(file) = &self.calls_file else {
            let reason = "there is no configuration file to save calls beside";
            return self.tell(Message::Failed(Error::new(ErrorCode::Configuration, reason)));
        };
        self.tell(match SavedCalls::put(file, name, call) {
            Ok(()) => Message::Done(SafeText::line(&format!("saved {name} in {}", file.display()))),
            Err(error) => Message::Failed(Error::new(ErrorCode::Configuration, error.to_string())),
        });
    }
}

/// Writes a file that a person named.
fn save_as(path: &Path, content: Content, existing: Existing) -> Message {
    let path = state::at_home(path);
    let written = content
        .bytes()
        .map_err(std::io::Error::other)
        .and_then(|bytes| state::write_file(&path, &bytes, existing));
    match written {
        Ok(size) => {
            let text = format!("wrote {size} bytes to {}", whole(path).display());
            Message::Done(SafeText::line(&text))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Message::FileExists(path, content)
        }
        Err(error) => failed(&format!("{} was not written: {error}", path.display())),
    }
}

/// Largest file whose content fills a field, in bytes.
const LARGEST_FILE: u64 = 4 << 20;

/// The content of a file of at most [`LARGEST_FILE`] bytes, or why there is none.
fn content(path: &Path) -> Result<Vec<u8>, SafeText> {
    let path = state::at_home(path);
    let fail = |reason: &str| SafeText::line(&format!("{}: {reason}", path.display()));
    let read = || {
        let mut bytes = Vec::new();
        // It may grow while it is read, and some files do not know their size.
        std::fs::File::open(&path)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    if std::fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
        return Err(fail("is no file"));
    }
    let bytes = read().map_err(|error: std::io::Error| fail(&error.to_string()))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(fail("is larger than the 4 MiB that fill a field"));
    }
    Ok(bytes)
}

fn failed(text: &str) -> Message {
    Message::Failed(Error::new(ErrorCode::Internal, text))
}

/// A path as it is found again from anywhere.
fn whole(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Changes the lock file; gives it as it is then.
fn lock(file: &Path, change: LockChange) -> Result<Lock, String> {
    let mut lock = Lock::read(file)?;
    match change {
        LockChange::Accept(server, place, now) => {
            lock.servers.entry(server).or_default().accept(&place, &now);
        }
        LockChange::All(now) => lock.servers.extend(now.servers),
    }
    lock.write(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(lock)
}
