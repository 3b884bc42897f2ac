//! Replacing a file so that a reader sees the old or the new whole, never a part.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, io};

/// Who may read a file that is made anew. One that exists keeps its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The user alone: it remembers decisions or may hold secrets.
    Owner,
    /// Whoever the system's default lets.
    Default,
}

/// Replaces `path`, or makes it and the folders above it. A symbolic link is followed: what it
/// points to is replaced, the link stays.
///
/// # Errors
/// What the file system says; the old file is then as it was.
pub fn replace(path: &Path, content: &[u8], readers: Readers) -> io::Result<()> {
    put(&resolved(path), content, readers, true)
}

/// Replaces `path`, which the user alone may read, without waiting for the disk: it survives the
/// end of the program, not that of the machine. A symbolic link is replaced, not followed.
///
/// # Errors
/// What the file system says; the old file is then as it was.
pub fn replace_quickly(path: &Path, content: &[u8]) -> io::Result<()> {
    put(path, content, Readers::Owner, false)
}

fn put(target: &Path, content: &[u8], readers: Readers, synced: bool) -> io::Result<()> {
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let (temporary, mut file) = beside(target, readers)?;
    let written = (|| {
        if let Ok(meta) = fs::symlink_metadata(target)
            && meta.is_file()
        {
            same_owner(&file, &meta);
            file.set_permissions(meta.permissions())?;
        }
        file.write_all(content)?;
        if synced {
            file.sync_all()?;
        }
        drop(file);
        fs::rename(&temporary, target)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    } else if synced && let Ok(folder) = File::open(folder) {
        // So that the new name survives a power cut; not every system can.
        let _ = folder.sync_all();
    }
    written
}

/// Gives a file to whom the old one belongs: what an administrator edits stays the user's. Before
/// the permissions are set, which this takes some of away; as far as it is allowed.
#[cfg(unix)]
fn same_owner(file: &File, old: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    if file.metadata().is_ok_and(|new| (new.uid(), new.gid()) != (old.uid(), old.gid())) {
        let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    }
}

#[cfg(not(unix))]
fn same_owner(_: &File, _: &fs::Metadata) {}

/// Where a chain of links ends, whether or not there is a file.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let mut at = path.to_path_buf();
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&at) else { return at };
        at = at.parent().unwrap_or(Path::new("")).join(target);
    }
    at
}

/// A new file in the same folder, under a name nobody else uses.
fn beside(target: &Path, readers: Readers) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for _ in 0..100 {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = target.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if readers == Readers::Owner {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        #[cfg(not(unix))]
        let _ = readers;
        match options.open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary file"))
}

// One program at a time: whoever reads a file, changes what is in it and writes it back must do so
// alone, or the change of another window that did the same is lost.
//
// The folder is what is locked, because a file that is replaced by rename is another file. Owns the
// waiting; must not touch the file.

/// How long to wait for another program, in looks: it holds the lock for a few writes.
const LOOKS: u32 = 300;
/// From one look to the next.
const PAUSE: Duration = Duration::from_millis(10);

/// Does `work` while no other program does work on a file in the same folder. Blocks until it is
/// its turn; after three seconds, and where nothing can be locked (some network file systems), the
/// work is done all the same. Must not be called from within itself.
pub fn alone<T>(file: &Path, work: impl FnOnce() -> T) -> T {
    let _lock = wait(file);
    work()
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
    let key = crate::base::file::file_key(std::path::absolute(folder)?);
    let path = std::env::temp_dir().join(format!("mcpdeck-{key}.lock"));
    std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_target_of_a_link_is_replaced_and_keeps_its_permissions() {
        let dir = tempfile::tempdir().expect("a folder");
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").expect("written");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("set");
        symlink("real", &link).expect("linked");
        replace(&link, b"new", Readers::Owner).expect("replaced");
        assert_eq!(fs::read_to_string(&real).expect("read"), "new");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::metadata(&real).expect("there").permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 2, "nothing is left behind");
    }

    #[test]
    fn what_the_user_alone_may_read_is_made_so() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("a/b/c");
        replace(&file, b"x", Readers::Owner).expect("written");
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_failure_leaves_the_old_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("is-a-folder");
        fs::create_dir(&folder).expect("made");
        fs::write(folder.join("inside"), "x").expect("written");
        assert!(replace(&folder, b"new", Readers::Default).is_err());
        assert!(folder.join("inside").exists());
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1);
    }
}

#[cfg(test)]
mod turn_tests {
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
