//! Files with rights: read completely and trusted, or not at all. Symbolic links, another owner,
//! write access for others, broken content and newer versions are refused with a message.
//!
//! While one is followed, what it said last stays in force, until it says something else as a whole
//! or a person changes it: a file that is emptied, cut short or deleted ends no denial.

use std::path::Path;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use base::notices::notify;
use base::state::StateFile;
use base::text::path::spelled;

/// Version of the content.
const FORMAT_VERSION: u64 = 1;
/// Largest file that is read, in bytes.
pub const MAX_RIGHTS_BYTES: u64 = 64 << 20;

/// What is in force of a source of rights.
#[derive(Debug)]
pub struct Standing<T> {
    /// What it said last; `None` until it was read as a whole once.
    last: Option<T>,
    /// The problem that was told last.
    problem: Option<String>,
}

impl<T> Default for Standing<T> {
    fn default() -> Self {
        Self { last: None, problem: None }
    }
}

impl<T: Default> Standing<T> {
    /// Takes what was read now, `None` when there is no such source. Returns the problem when that
    /// is not what is in force. `place` names the source, `end` what ends it when it is gone.
    pub fn take(
        &mut self,
        place: &str,
        end: &str,
        read: Result<Option<T>, String>,
        says_nothing: impl Fn(&T) -> bool,
    ) -> Option<String> {
        let is_there = matches!(read, Ok(Some(_)));
        let problem = match (read, &self.last) {
            (Ok(Some(new)), _) => {
                self.last = Some(new);
                None
            }
            (Ok(None), Some(last)) if !says_nothing(last) => {
                Some(format!("{place}: it is gone; what it said stays in force until {end}"))
            }
            (Ok(None), _) => {
                self.last = Some(T::default());
                None
            }
            (Err(problem), Some(_)) => {
                Some(format!("{problem}; what was in force before stays in force"))
            }
            (Err(problem), None) => Some(format!(
                "{problem}; nothing is permitted to others until it is repaired or removed"
            )),
        };
        if problem != self.problem {
            match &problem {
                Some(problem) => notify(problem),
                None if is_there => notify(&format!("{place}: it is used again")),
                None => notify(&format!("{place}: it is gone, and nothing of it is in force")),
            }
            self.problem.clone_from(&problem);
        }
        problem
    }

    /// Begins with what was in force when it was last followed.
    pub fn resume(&mut self, last: T) {
        self.last.get_or_insert(last);
    }

    /// What is in force; `None` when nothing was ever read as a whole: everything is refused then.
    pub const fn in_force(&self) -> Option<&T> {
        self.last.as_ref()
    }
}

/// The content of a file of rights.
pub trait RightsContent: Clone + Default + Serialize + DeserializeOwned {
    /// Whether it says nothing.
    fn is_empty(&self) -> bool;
}

/// A file with rights; see the module.
#[derive(Debug)]
pub struct RightsFile<T> {
    file: StateFile,
    standing: Mutex<Standing<T>>,
}

impl<T> RightsFile<T> {
    /// The file.
    pub fn new(file: StateFile) -> Self {
        Self { file, standing: Mutex::default() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// A message about it.
    pub fn about(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", spelled(self.path()))
    }
}

impl<T: DeserializeOwned> RightsFile<T> {
    /// Its content now; `None` when there is no file.
    ///
    /// # Errors
    /// One sentence that names the file.
    pub fn read(&self) -> Result<Option<T>, String> {
        self.file.read(parse).map_err(|why| self.about(why))
    }
}

impl<T: RightsContent> RightsFile<T> {
    /// Reads it again. Returns what is in force, `None` when nothing can be, and the problem when
    /// that is not what the file says. A file that has vanished is written again.
    pub fn follow(&self) -> (Option<T>, Option<String>) {
        let mut standing = self.standing.lock();
        let mut read = self.read();
        if matches!(read, Ok(None)) && standing.in_force().is_some_and(|last| !last.is_empty()) {
            drop(standing);
            let restored = self.change(|_| (true, ()));
            let place = spelled(self.path());
            if restored.is_ok() {
                notify(&format!(
                    "{place}: it was gone; what it said stays in force and was written again"
                ));
            }
            read = self.read();
            standing = self.standing.lock();
        }
        let problem = standing.take(&spelled(self.path()), "it is back", read, T::is_empty);
        (standing.in_force().cloned(), problem)
    }

    /// Changes its content under a lock, because another program may do the same. What is in force
    /// is changed where the file is gone or cannot be used; that file is set aside. `change` returns
    /// whether there is anything to write.
    ///
    /// # Errors
    /// As [`RightsFile::read`] when nothing is in force, or why it cannot be written; the file is
    /// then unchanged.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> (bool, R)) -> Result<R, String> {
        let standing = self.standing.lock().in_force().cloned();
        let mut out = None;
        self.file
            .change_read(parse, |read| {
                let mut content: T = match (read, standing) {
                    (Ok(Some(content)), _) => content,
                    (Ok(None), standing) => standing.unwrap_or_default(),
                    (Err(_), Some(standing)) => standing,
                    (Err(why), None) => {
                        let help = "nothing in it counts until it is repaired or removed";
                        return Err(std::io::Error::other(format!("{why}; {help}")));
                    }
                };
                let (changed, done) = change(&mut content);
                out = Some(done);
                if !changed {
                    return Ok(None);
                }
                let mut value = serde_json::to_value(&content)?;
                value["version"] = FORMAT_VERSION.into();
                Ok(Some(serde_json::to_vec_pretty(&value)?))
            })
            .map_err(|error| self.about(error))?;
        out.ok_or_else(|| self.about("it was not read"))
    }
}

/// The content of bytes that are whole and of this version.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let broken = |_| "it is broken".to_owned();
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("it is empty".to_owned());
    }
    let value: Value = serde_json::from_slice(bytes).map_err(broken)?;
    match value["version"].as_u64() {
        Some(FORMAT_VERSION) => serde_json::from_value(value).map_err(broken),
        Some(newer) if newer > FORMAT_VERSION => {
            Err("it was written by a newer version of mcpdeck".to_owned())
        }
        _ => Err("it is broken".to_owned()),
    }
}
