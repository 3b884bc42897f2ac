//! Guarded reads of files: regular files only, never more than a limit, and never blocking on a
//! pipe, terminal or device. Files in which the program itself persists something are
//! [`super::state`] files.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Reads a regular file of at most `limit` bytes, links followed. Never blocks on a pipe or device.
///
/// # Errors
/// Any system error; [`io::ErrorKind::InvalidInput`] if it is not a regular file,
/// [`io::ErrorKind::FileTooLarge`] if it is longer than `limit`.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    take(open(path, OpenOptions::new().read(true), 0)?.0, limit)
}

/// Like [`read`], as text; `None` when there is no such file.
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<Option<String>> {
    let bytes = match read(path, limit) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let bytes = error.as_bytes();
        let is_wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        let why = if is_wide { "it is UTF-16: save it as UTF-8" } else { "it is not valid UTF-8" };
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// Whether there is anything at a path, as opposed to nothing: a link that leads nowhere, and what
/// may not be looked at, count too. For files that mean something by being there.
pub fn is_there(path: &Path) -> bool {
    path.symlink_metadata().map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true)
}

/// Removes a file. Returns whether it was there: another program may have been first.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

pub(super) fn take(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it is larger than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Opens a regular file. Checked before, because opening a device may have side effects, and after,
/// because it may have been swapped; `O_NONBLOCK` keeps a swapped-in pipe from blocking.
pub(super) fn open(path: &Path, options: &OpenOptions, flags: i32) -> io::Result<(File, Metadata)> {
    let regular = |meta: &Metadata| {
        if meta.is_file() {
            return Ok(());
        }
        let what = if meta.is_dir() { "it is a folder" } else { "it is not a regular file" };
        Err(io::Error::new(io::ErrorKind::InvalidInput, what))
    };
    #[cfg(unix)]
    let options = {
        use std::os::unix::fs::OpenOptionsExt as _;
        let nonblocking = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        let mut options = options.clone();
        options.custom_flags(nonblocking.bits() as i32 | flags);
        options
    };
    #[cfg(not(unix))]
    let _ = flags;
    match std::fs::metadata(path) {
        Ok(meta) => regular(&meta)?,
        // A link that leads nowhere is there, but it is not what the user meant to say with it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // What is there by now, another program has just made.
            if path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
                let why = "it is a symbolic link to what does not exist";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
        }
        Err(error) => return Err(error),
    }
    let file = options.open(path)?;
    let meta = file.metadata()?;
    regular(&meta)?;
    Ok((file, meta))
}

// Hashes as text.

/// A short, stable name for a path, for files that store something about it.
pub fn file_key(file: impl AsRef<Path>) -> String {
    let mut name = hex(&Sha256::digest(file.as_ref().as_os_str().as_encoded_bytes()));
    name.truncate(32);
    name
}

/// `N` random bytes as hexadecimal digits, for unguessable names.
///
/// # Errors
/// When the system's random source fails.
pub fn random_hex<const N: usize>() -> io::Result<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(hex(&bytes))
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_make_and_remove_meanwhile_is_no_link() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = &*dir.path().join("file");
        let mut made = OpenOptions::new();
        made.append(true).create(true);
        std::thread::scope(|scope| {
            let threads = (0..2).map(|_| {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        open(path, &made, 0).expect("opened");
                        let _ = std::fs::remove_file(path);
                    }
                })
            });
            for thread in threads.collect::<Vec<_>>() {
                thread.join().expect("always a file");
            }
        });
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let nowhere = dir.path().join("nowhere");
        std::os::unix::fs::symlink("missing", &nowhere).expect("linked");
        let devices = [Path::new("/dev/zero"), Path::new("/dev/tty")];
        for path in [&*pipe, dir.path(), &*nowhere].into_iter().chain(devices) {
            let error = read(path, 1 << 20).expect_err("no file");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
            assert!(is_there(path) || path.starts_with("/dev"), "{}", path.display());
        }
        assert!(!is_there(&dir.path().join("none")));
        assert!(remove(&nowhere).expect("the link") && !remove(&nowhere).expect("gone"));
        assert!(remove(dir.path()).is_err() && is_there(dir.path()));
        let long = dir.path().join("long");
        std::fs::write(&long, "123456").expect("written");
        assert_eq!(read(&long, 5).expect_err("long").kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&long, 6).expect("fits"), b"123456");
        assert_eq!(read_text(&dir.path().join("none"), 6).expect("no file"), None);
        for (bytes, words) in [(&b"\xff\xfe{\0"[..], "UTF-16"), (&b"a\xe9"[..], "not valid UTF-8")]
        {
            std::fs::write(&long, bytes).expect("written");
            let error = read_text(&long, 6).expect_err("no text");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
