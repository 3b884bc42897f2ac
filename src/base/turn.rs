//! One program at a time: whoever reads a file, changes what is in it and writes it back must do so
//! alone, or the change of another window that did the same is lost.
//!
//! The folder is what is locked, because a file that is replaced by rename is another file. Owns the
//! waiting; must not touch the file.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use crate::base::atomic::resolved;

/// How long to wait for another program, in looks: it holds the lock for a few writes.
const LOOKS: u32 = 300;
/// From one look to the next.
const PAUSE: Duration = Duration::from_millis(10);

/// Does `work` while no other program does work on a file in the same folder. Blocks until it is
/// its turn; after three seconds, and where nothing can be locked (some network file systems), the
/// work is done all the same. Must not be called from within itself.
pub fn alone<T>(file: &Path, work: impl FnOnce() -> T) -> T {
    let lock = wait(file);
    let done = work();
    drop(lock);
    done
}

#[expect(clippy::disallowed_methods, reason = "the end of another program's lock is no event")]
fn wait(file: &Path) -> Option<File> {
    let target = resolved(file);
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let lock = open(folder).ok()?;
    for _ in 0..LOOKS {
        match lock.try_lock() {
            Ok(()) => return Some(lock),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(_)) => return None,
        }
    }
    None
}

#[cfg(unix)]
fn open(folder: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(folder)?;
    File::open(folder)
}

/// A folder cannot be opened there; a file of the user's own temporary folder stands for it.
#[cfg(not(unix))]
fn open(folder: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let key = crate::base::hash::file_key(std::path::absolute(folder)?);
    let path = std::env::temp_dir().join(format!("mcpdeck-{key}.lock"));
    std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_by_many_at_once_loses_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("deep/count");
        let count = || -> u32 {
            std::fs::read_to_string(&file).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        alone(&file, || {
                            let next = count() + 1;
                            std::fs::write(&file, next.to_string()).expect("written");
                        });
                    }
                });
            }
        });
        assert_eq!(count(), 40);
    }
}
