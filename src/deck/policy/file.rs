//! A file with policy data: read completely and trusted, or not at all. Symbolic links, another
//! owner, write access for others, broken content and newer versions are refused with a message.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use base::atomic::{Readers, alone, replace};
use base::file::StateFile;

/// Version of the content.
const VERSION: u64 = 1;
/// Largest file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// A file with policy data; see the module.
#[derive(Clone, Debug)]
pub struct TrustedFile(StateFile);

impl TrustedFile {
    /// The file at a path.
    pub fn new(path: PathBuf) -> Self {
        Self(StateFile::new(path, LARGEST))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn fail(&self, what: &str) -> String {
        let path = base::text::path::spelled(self.path());
        format!("{path}: {what}; nothing in it counts until it is repaired or removed")
    }

    /// Its content; `None` when there is no file.
    ///
    /// # Errors
    /// One sentence that names the file and what to do.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        let Some(bytes) = self.0.bytes().map_err(|error| self.fail(&error.to_string()))? else {
            return Ok(None);
        };
        let broken = |_| self.fail("it is broken");
        let value: Value = serde_json::from_slice(&bytes).map_err(broken)?;
        match value["version"].as_u64() {
            Some(VERSION) => serde_json::from_value(value).map(Some).map_err(broken),
            Some(newer) if newer > VERSION => {
                Err(self.fail("it was written by a newer version of mcpdeck"))
            }
            _ => Err(self.fail("it is broken")),
        }
    }

    /// Changes its content under a lock, because another program may do the same. `change` returns
    /// whether there is anything to write.
    ///
    /// # Errors
    /// As [`TrustedFile::read`], or why it cannot be written; the file is then unchanged.
    pub fn change<T, R>(&self, change: impl FnOnce(&mut T) -> (bool, R)) -> Result<R, String>
    where
        T: DeserializeOwned + Serialize + Default,
    {
        alone(self.path(), || {
            let mut content: T = self.read()?.unwrap_or_default();
            let (changed, out) = change(&mut content);
            if changed {
                let path = base::text::path::spelled(self.path());
                let fail = |error: std::io::Error| format!("{path}: {error}");
                let mut value = serde_json::to_value(&content).map_err(|e| fail(e.into()))?;
                value["version"] = VERSION.into();
                let text = serde_json::to_vec_pretty(&value).map_err(|e| fail(e.into()))?;
                replace(self.path(), &text, Readers::Owner).map_err(fail)?;
            }
            Ok(out)
        })
    }
}
