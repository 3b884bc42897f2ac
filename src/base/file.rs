//! Reading files, and state files in which the program persists something.
//!
//! All reads are guarded: regular files only, never more than a limit, and never blocking on a
//! pipe, terminal or device. State files must also belong to the user: no symbolic link is
//! followed, no other user may write them, and a broken one or one of a newer format is set aside,
//! never overwritten.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::atomic::{Readers, alone, replace};

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
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8"))
}

fn take(file: File, limit: u64) -> io::Result<Vec<u8>> {
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
fn open(path: &Path, options: &OpenOptions, flags: i32) -> io::Result<(File, Metadata)> {
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
        // To be created.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let file = options.open(path)?;
    let meta = file.metadata()?;
    regular(&meta)?;
    Ok((file, meta))
}

/// A file in the user's state folder in which the program persists something.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    limit: u64,
}

/// A temporary file older than this has no writer any more.
const LEFT: std::time::Duration = std::time::Duration::from_secs(60);

impl StateFile {
    /// A state file of at most `limit` bytes.
    pub fn new(path: impl Into<PathBuf>, limit: u64) -> Self {
        Self { path: path.into(), limit }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it with `options`: a regular file, no link, owned by the user, not writable by others.
    ///
    /// # Errors
    /// Any system error, or the condition that is not met.
    pub fn open(&self, options: &OpenOptions) -> io::Result<File> {
        refuse_link(&self.path)?;
        let (file, meta) = open(&self.path, options, no_follow())?;
        private(&meta)?;
        Ok(file)
    }

    /// Its bytes; `None` when there is no such file.
    ///
    /// # Errors
    /// As [`StateFile::open`]; [`io::ErrorKind::FileTooLarge`] when it exceeds the limit.
    pub fn bytes(&self) -> io::Result<Option<Vec<u8>>> {
        match self.open(OpenOptions::new().read(true)) {
            Ok(file) => take(file, self.limit).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Its parsed content, or why it cannot be used.
    fn held<T>(&self, parse: impl FnOnce(&[u8]) -> Result<T, String>) -> Result<Option<T>, String> {
        let bytes = self.bytes().map_err(|error| error.to_string())?;
        bytes.map(|bytes| parse(&bytes)).transpose()
    }

    /// Its parsed content; `None` when it cannot be used. `parse` returns the reason on failure.
    pub fn load<T>(&self, parse: impl FnOnce(&[u8]) -> Result<T, String>) -> Option<T> {
        self.held(parse).unwrap_or_else(|why| {
            tracing::warn!(file = %self.path.display(), %why, "a state file is not used");
            None
        })
    }

    /// Changes its content under the lock: `change` gets the old content and returns what to write,
    /// if anything. An unusable file is set aside first. Returns whether anything was written.
    ///
    /// # Errors
    /// When it cannot be written; the old file is kept.
    pub fn change<T>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<T, String>,
        change: impl FnOnce(Option<T>) -> io::Result<Option<Vec<u8>>>,
    ) -> io::Result<bool> {
        alone(&self.path, || {
            self.sweep();
            let (held, broken) = match self.held(parse) {
                Ok(held) => (held, None),
                Err(why) => (None, Some(why)),
            };
            let Some(bytes) = change(held)? else { return Ok(false) };
            if let Some(why) = broken {
                self.set_aside(&why)?;
            }
            replace(&self.path, &bytes, Readers::Owner).map(|()| true)
        })
    }

    /// Replaces its whole content; a link in its place is set aside, not followed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.change(|_| Ok(()), |_| Ok(Some(bytes.to_vec()))).map(|_| ())
    }

    /// Removes this file's stale temporaries, left by killed programs. Callers must hold the lock.
    fn sweep(&self) {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return;
        };
        let own = format!(".{}.", name.to_string_lossy());
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let age = entry.metadata().ok().and_then(|m| m.modified().ok()?.elapsed().ok());
            let is_tmp = Path::new(&name).extension().is_some_and(|e| e == "tmp");
            if name.starts_with(&own) && is_tmp && age.is_some_and(|age| age > LEFT) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Renames it to a name that is never read.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn set_aside(&self, why: &str) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let free = (0..1000).map(|n| match n {
            0 => self.path.with_file_name(format!("{name}.set-aside")),
            n => self.path.with_file_name(format!("{name}.set-aside-{n}")),
        });
        let taken = || io::Error::new(io::ErrorKind::AlreadyExists, "too many files set aside");
        let to = { free }.find(|path| path.symlink_metadata().is_err()).ok_or_else(taken)?;
        std::fs::rename(&self.path, &to)?;
        let (file, to) = (self.path.display(), to.display());
        tracing::warn!(%file, %to, %why, "a state file could not be used and was set aside");
        Ok(())
    }
}

fn refuse_link(path: &Path) -> io::Result<()> {
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    let refusal = || io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link");
    if is_link { Err(refusal()) } else { Ok(()) }
}

#[cfg(unix)]
fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}

#[cfg(not(unix))]
const fn no_follow() -> i32 {
    0
}

/// Refuses files that other users own or may write.
#[cfg(unix)]
fn private(meta: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid().as_raw();
    let refuse = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if meta.uid() != user {
        return refuse("it belongs to another user");
    }
    let group = rustix::process::getegid().as_raw();
    if meta.mode() & 0o002 != 0 || (meta.mode() & 0o020 != 0 && meta.gid() != group) {
        return refuse("others may write it");
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
fn private(_: &Metadata) -> io::Result<()> {
    Ok(())
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
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn text(bytes: &[u8]) -> Result<String, String> {
        match String::from_utf8_lossy(bytes) {
            text if text.starts_with("v1 ") => Ok(text.into_owned()),
            _ => Err("it has another format".to_owned()),
        }
    }

    fn add(file: &StateFile, word: &str) {
        let change = |old: Option<String>| {
            Ok(Some(format!("{}{word} ", old.unwrap_or("v1 ".into())).into_bytes()))
        };
        assert!(file.change(text, change).expect("written"));
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        for path in [pipe.as_path(), dir.path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
            let error = read(path, 1 << 20).expect_err("no file");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", path.display());
            assert!(StateFile::new(path, 10).bytes().is_err());
        }
        let long = dir.path().join("long");
        std::fs::write(&long, "123456").expect("written");
        assert_eq!(read(&long, 5).expect_err("long").kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(&long, 6).expect("fits"), b"123456");
        assert_eq!(read_text(&dir.path().join("none"), 6).expect("no file"), None);
    }

    #[test]
    fn what_cannot_be_used_is_set_aside_and_never_written_through_or_over() {
        for spoil in ["link", "mode", "garbage"] {
            let dir = tempfile::tempdir().expect("a folder");
            let file = StateFile::new(dir.path().join("deep/state.json"), 1 << 10);
            add(&file, "one");
            let precious = dir.path().join("precious");
            std::fs::write(&precious, "v1 mine").expect("written");
            match spoil {
                "link" => {
                    std::fs::remove_file(file.path()).expect("removed");
                    symlink(&precious, file.path()).expect("linked");
                }
                "mode" => {
                    let mode = std::fs::Permissions::from_mode(0o666);
                    std::fs::set_permissions(file.path(), mode).expect("set");
                }
                _ => std::fs::write(file.path(), "v9 newer").expect("written"),
            }
            assert_eq!(file.load(text), None, "{spoil}");
            add(&file, "two");
            add(&file, "three");
            assert_eq!(file.load(text).as_deref(), Some("v1 two three "), "{spoil}");
            assert_eq!(std::fs::read_to_string(&precious).expect("there"), "v1 mine");
            let aside = dir.path().join("deep/state.json.set-aside");
            assert!(aside.symlink_metadata().is_ok(), "{spoil}: the old one is kept");
            let meta = std::fs::metadata(file.path()).expect("there");
            assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{spoil}");
        }
    }

    #[test]
    fn half_written_files_of_killed_programs_are_swept_and_changes_of_many_are_all_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = StateFile::new(dir.path().join("state.json"), 1 << 10);
        let (old, other) = (dir.path().join(".state.json.1-0.tmp"), dir.path().join(".x.1-0.tmp"));
        for path in [&old, &other] {
            let past = std::time::SystemTime::now() - 2 * LEFT;
            std::fs::File::create(path).expect("made").set_modified(past).expect("set");
        }
        std::thread::scope(|scope| {
            for n in 0..8 {
                let file = &file;
                scope.spawn(move || add(file, &n.to_string()));
            }
        });
        let all = file.load(text).expect("there");
        assert!((0..8).all(|n| all.contains(&format!("{n} "))), "{all}");
        assert!(!old.exists() && other.exists());
    }
}
