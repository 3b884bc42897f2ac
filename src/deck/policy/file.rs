//! One file that decides something: read whole and trusted, or not at all. A link, another owner,
//! a file that others may write, broken content and a newer version are each refused in a sentence.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::base::atomic::{Readers, replace};
use crate::base::turn::alone;

/// Version of the content.
const VERSION: u64 = 1;
/// Largest file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// The file at a path.
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds; `None` when there is no file.
    ///
    /// # Errors
    /// One sentence that names the file and what to do.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        let fail = |what: &str| {
            let path = crate::base::text::path::spelled(&self.path);
            format!("{path}: {what}; nothing in it counts until it is repaired or removed")
        };
        let mut file = match open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(_) if self.path.is_symlink() => return Err(fail("is a symbolic link")),
            Err(error) => return Err(fail(&error.to_string())),
        };
        let meta = file.metadata().map_err(|error| fail(&error.to_string()))?;
        if !meta.is_file() {
            return Err(fail("is no file"));
        }
        if let Some(problem) = foreign(&meta) {
            return Err(fail(problem));
        }
        if meta.len() > LARGEST {
            return Err(fail("is too large"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| fail(&error.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|_| fail("is broken"))?;
        match value["version"].as_u64() {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => {
                return Err(fail("was written by a newer version of mcpdeck"));
            }
            _ => return Err(fail("is broken")),
        }
        serde_json::from_value(value).map(Some).map_err(|_| fail("is broken"))
    }

    /// Changes what it holds, alone: another program may do the same at the moment. `change` says
    /// whether there is anything to write.
    ///
    /// # Errors
    /// As [`StateFile::read`], or why it cannot be written; the file is then as it was.
    pub fn change<T, R>(&self, change: impl FnOnce(&mut T) -> (bool, R)) -> Result<R, String>
    where
        T: DeserializeOwned + Serialize + Default,
    {
        alone(&self.path, || {
            let mut content: T = self.read()?.unwrap_or_default();
            let (changed, out) = change(&mut content);
            if changed {
                self.write(&content)?;
            }
            Ok(out)
        })
    }

    fn write<T: Serialize>(&self, content: &T) -> Result<(), String> {
        let fail =
            |error: io::Error| format!("{}: {error}", crate::base::text::path::spelled(&self.path));
        let mut value = serde_json::to_value(content).map_err(|error| fail(error.into()))?;
        value["version"] = VERSION.into();
        let text = serde_json::to_vec_pretty(&value).map_err(|error| fail(error.into()))?;
        replace(&self.path, &text, Readers::Owner).map_err(fail)
    }
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    if path.is_symlink() {
        return Err(io::Error::other("is a symbolic link"));
    }
    OpenOptions::new().read(true).open(path)
}

#[cfg(unix)]
fn foreign(meta: &std::fs::Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        Some("belongs to somebody else")
    } else if meta.mode() & 0o022 != 0 {
        Some("can be written by others")
    } else {
        None
    }
}

#[cfg(not(unix))]
const fn foreign(_: &std::fs::Metadata) -> Option<&'static str> {
    None
}
