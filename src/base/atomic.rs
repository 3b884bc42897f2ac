//! Atomic file replacement (readers never see a partial file), and a per-folder lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, io};

/// Who may read a newly created file. An existing one keeps its owner and permissions, except
/// under [`Readers::OwnerOnly`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The user alone: the file holds decisions or possibly secrets.
    Owner,
    /// The user alone, whoever might read or owned the file that is replaced.
    OwnerOnly,
    /// Whoever the system default (umask) permits.
    Default,
}

/// Replaces `path`, creating it and its parent folders as needed. A symbolic link is followed: its
/// target is replaced, the link stays.
///
/// # Errors
/// Any file system error, and [`io::ErrorKind::PermissionDenied`] for a file that is read-only; the
/// old file is then unchanged.
pub fn replace(path: &Path, content: &[u8], readers: Readers) -> io::Result<()> {
    check_writable(path)?;
    put(&resolved(path), content, readers, true)
}

/// Whether a file may be changed, as its own permissions have it: a folder that may be written
/// permits to replace or remove any file in it, also one that its owner has protected. One that does
/// not exist may be made.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] when it is read-only.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let is_read_only = |meta: &fs::Metadata| meta.is_file() && meta.permissions().readonly();
    if fs::metadata(path).is_ok_and(|meta| is_read_only(&meta)) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"));
    }
    Ok(())
}

/// Replaces `path`, readable by the user alone, without syncing to disk: it survives the end of the
/// program, but not a crash of the machine. A symbolic link is replaced, not followed.
///
/// # Errors
/// Any file system error; the old file is then unchanged.
pub fn replace_quickly(path: &Path, content: &[u8]) -> io::Result<()> {
    put(path, content, Readers::Owner, false)
}

/// Replaces `path`, readable by the user alone whatever stood there before. A symbolic link is
/// replaced, not followed.
///
/// # Errors
/// Any file system error; the old file is then unchanged.
pub fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    put(path, content, Readers::OwnerOnly, true)
}

/// Creates a folder that only the user may enter, and the missing ones above it. One that exists
/// is left as it is.
///
/// # Errors
/// Any file system error.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The folder of a file.
pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn put(target: &Path, content: &[u8], readers: Readers, synced: bool) -> io::Result<()> {
    let folder = folder_of(target);
    match readers {
        Readers::OwnerOnly => create_private_folder(folder)?,
        Readers::Owner | Readers::Default => fs::create_dir_all(folder)?,
    }
    let (temporary, mut file) = beside(target, readers)?;
    let written = (|| {
        if readers != Readers::OwnerOnly
            && let Ok(meta) = fs::symlink_metadata(target)
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
        // Makes the new name survive a power cut; not every system supports it.
        let _ = folder.sync_all();
    }
    written
}

/// Gives the file the owner of the old one: what an administrator edits stays the user's. Must run
/// before the permissions are set, because chown clears some of them. Best effort.
#[cfg(unix)]
fn same_owner(file: &File, old: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    if file.metadata().is_ok_and(|new| (new.uid(), new.gid()) != (old.uid(), old.gid())) {
        let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    }
}

#[cfg(not(unix))]
fn same_owner(_: &File, _: &fs::Metadata) {}

/// Where a chain of links ends, whether or not a file exists there.
pub fn resolved(path: &Path) -> PathBuf {
    let mut at = path.to_path_buf();
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&at) else { return at };
        at = at.parent().unwrap_or(Path::new("")).join(target);
    }
    at
}

/// A new file in the same folder, under an unused name.
fn beside(target: &Path, readers: Readers) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for _ in 0..100 {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = target.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if readers != Readers::Default {
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

// Mutual exclusion between programs: read-modify-write cycles on a file must not overlap, or the
// change of another window is lost.
//
// The folder is locked, not the file: a file replaced by rename is a different file. Owns the
// waiting; must not touch the file.

/// How many times the lock is tried: another program holds it only for a few writes.
const MAX_LOCK_TRIES: u32 = 300;
/// Delay between two tries.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// Runs `work` while no other program runs work on a file in the same folder. Blocks until the lock
/// is free, so a task calls it on the blocking pool; after three seconds, or where locking is
/// unsupported (some network file systems), runs `work` anyway. Not reentrant.
pub fn alone<T>(file: &Path, work: impl FnOnce() -> T) -> T {
    let _lock = wait(file);
    work()
}

#[expect(clippy::disallowed_methods, reason = "the end of another program's lock is no event")]
fn wait(file: &Path) -> Option<File> {
    let target = resolved(file);
    let lock = open(folder_of(&target)).ok()?;
    for _ in 0..MAX_LOCK_TRIES {
        match lock.try_lock() {
            Ok(()) => return Some(lock),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_INTERVAL),
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

/// Folders cannot be opened here; a lock file in the user's temporary folder stands in.
#[cfg(not(unix))]
fn open(folder: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let key = crate::file::file_key(std::path::absolute(folder)?);
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

    /// The administrator is refused too: a plain write would pass there, and was not meant.
    #[test]
    fn a_file_that_is_read_only_is_not_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        symlink("real", &link).expect("linked");
        check_writable(&link).expect("it may be made");
        fs::write(&real, "old").expect("written");
        for mode in [0o444, 0o400, 0o555] {
            fs::set_permissions(&real, fs::Permissions::from_mode(mode)).expect("set");
            for path in [&real, &link] {
                let refused = replace(path, b"new", Readers::Default).expect_err("read-only");
                assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            }
            assert_eq!(fs::read_to_string(&real).expect("read"), "old");
        }
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 2, "nothing is left behind");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o200)).expect("set");
        replace(&link, b"new", Readers::Default).expect("its owner may write it");
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
