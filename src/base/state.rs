//! Files in which the program persists something for the user: what it remembers, rights, secrets.
//!
//! Every one is a regular file of the user: no symbolic link is followed, nobody else may write it,
//! and what holds a secret nobody else may read. Whatever is otherwise, broken, too large or of a
//! newer format is not used; it is set aside before anything is written in its place, never
//! overwritten. Where rights or secrets are at stake, the operator is told ([`super::notices`]).

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::atomic::{alone, create_private_folder, folder_of, replace_private};
use super::file::{open, take};
use super::notices::notify;
use super::text::path::spelled;

/// A temporary file older than this has no writer any more.
const TEMPORARY_TIMEOUT: Duration = Duration::from_secs(60);

/// Most names that are tried for something that is set aside.
const MAX_SET_ASIDE: usize = 1_000;

/// What depends on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AtStake {
    /// Convenience.
    #[default]
    Memory,
    /// What somebody may do.
    Rights,
    /// Something that nobody else may read.
    Secrets,
}

/// A file in which the program persists something.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    limit: u64,
    stake: AtStake,
    /// Whether its folder is the program's own too.
    in_own_folder: bool,
}

/// Why a file is not used.
#[derive(Debug)]
pub enum NotUsed {
    /// It cannot be trusted or understood.
    Unusable(String),
    /// The system failed; the file may be sound.
    Failed(io::Error),
}

impl NotUsed {
    fn from_error(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::InvalidInput
            | Kind::InvalidData
            | Kind::PermissionDenied
            | Kind::FileTooLarge
            | Kind::NotADirectory => Self::Unusable(error.to_string()),
            _ => Self::Failed(error),
        }
    }
}

impl std::fmt::Display for NotUsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unusable(why) => f.write_str(why),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl StateFile {
    /// A file of at most `limit` bytes.
    pub fn new(path: impl Into<PathBuf>, limit: u64) -> Self {
        Self { path: path.into(), limit, stake: AtStake::Memory, in_own_folder: false }
    }

    /// The same, which says what somebody may do: the operator is told when it cannot be used.
    #[must_use]
    pub fn of_rights(self) -> Self {
        Self { stake: AtStake::Rights, ..self }
    }

    /// The same, which holds a secret: nobody else may read it, and the operator is told when it
    /// cannot be used.
    #[must_use]
    pub fn of_secrets(self) -> Self {
        Self { stake: AtStake::Secrets, ..self }
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
        self.check_folder()?;
        refuse_link(&self.path)?;
        let (file, meta) = open(&self.path, options, no_follow())?;
        self.check(&meta)?;
        Ok(file)
    }

    /// As [`StateFile::open`]; what cannot be used is set aside first, for options that create it.
    ///
    /// # Errors
    /// As [`StateFile::open`], naming the file.
    pub fn open_anew(&self, options: &OpenOptions) -> io::Result<File> {
        let open = || {
            self.check_folder()?;
            create_private_folder(folder_of(&self.path))?;
            self.open(options).or_else(|error| match NotUsed::from_error(error) {
                NotUsed::Unusable(why) => {
                    self.check_folder()?;
                    self.set_aside(&why)?;
                    self.open(options)
                }
                NotUsed::Failed(error) => Err(error),
            })
        };
        open().map_err(|error| self.named(&error))
    }

    /// Locks it until the returned file is dropped, against other programs that do the same.
    /// Blocks.
    ///
    /// # Errors
    /// As [`StateFile::open_anew`].
    pub fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = self.open_anew(&options)?;
        file.lock().map_err(|error| self.named(&error))?;
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

    /// Its parsed content; `None` when there is no such file. `parse` returns the reason on failure.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read<T>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, NotUsed> {
        let bytes = self.bytes().map_err(NotUsed::from_error)?;
        bytes.map(|bytes| parse(&bytes).map_err(NotUsed::Unusable)).transpose()
    }

    /// Its parsed content; `None` when it cannot be used.
    pub fn load<T>(&self, parse: impl FnOnce(&[u8]) -> Result<T, String>) -> Option<T> {
        self.read(parse).unwrap_or_else(|why| {
            self.tell(&format!("{}: {why}; nothing in it is used", spelled(&self.path)));
            None
        })
    }

    /// Its parsed content; `None` when there is no such file, or when it could not be used and was
    /// set aside.
    ///
    /// # Errors
    /// When the system fails, or it can neither be used nor set aside; names the file.
    pub fn load_or_set_aside<T>(
        &self,
        parse: impl Fn(&[u8]) -> Result<T, String>,
    ) -> io::Result<Option<T>> {
        self.check_folder().map_err(|error| self.named(&error))?;
        match self.read(&parse) {
            Ok(content) => return Ok(content),
            Err(NotUsed::Failed(error)) => return Err(self.named(&error)),
            Err(NotUsed::Unusable(_)) => {}
        }
        alone(&self.path, || match self.read(&parse) {
            Ok(content) => Ok(content),
            Err(NotUsed::Failed(error)) => Err(error),
            Err(NotUsed::Unusable(why)) => self.set_aside(&why).map(|_| None),
        })
        .map_err(|error| self.named(&error))
    }

    /// Changes its content under the lock: `change` gets the old content, or why it cannot be used,
    /// and returns what to write, if anything. An unusable file is set aside first. Returns whether
    /// anything was written.
    ///
    /// # Errors
    /// When it cannot be written; the old file is kept.
    pub fn change_read<T>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<T, String>,
        change: impl FnOnce(Result<Option<T>, &str>) -> io::Result<Option<Vec<u8>>>,
    ) -> io::Result<bool> {
        self.check_folder()?;
        create_private_folder(folder_of(&self.path))?;
        alone(&self.path, || {
            self.sweep();
            let (held, broken) = match self.read(parse) {
                Ok(held) => (held, None),
                Err(NotUsed::Unusable(why)) => (None, Some(why)),
                Err(NotUsed::Failed(error)) => return Err(error),
            };
            let held = broken.as_deref().map_or(Ok(held), Err);
            let Some(bytes) = change(held)? else { return Ok(false) };
            if let Some(why) = broken {
                self.set_aside(&why)?;
            }
            replace_private(&self.path, &bytes).map(|()| true)
        })
    }

    /// As [`StateFile::change_read`], for content whose loss does no harm.
    ///
    /// # Errors
    /// As [`StateFile::change_read`].
    pub fn change<T>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<T, String>,
        change: impl FnOnce(Option<T>) -> io::Result<Option<Vec<u8>>>,
    ) -> io::Result<bool> {
        self.change_read(parse, |held| change(held.unwrap_or_default()))
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
            if name.starts_with(&own) && is_tmp && age.is_some_and(|age| age > TEMPORARY_TIMEOUT) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Renames it to a name that is never read; returns that.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn set_aside(&self, why: &str) -> io::Result<PathBuf> {
        let to = set_aside(&self.path)?;
        self.tell(&words_of(&self.path, why, &to));
        Ok(to)
    }

    fn tell(&self, words: &str) {
        match self.stake {
            AtStake::Memory => tracing::warn!(target: "mcpdeck::files", "{words}"),
            AtStake::Rights | AtStake::Secrets => notify(words),
        }
    }

    /// An error that names the file.
    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", spelled(&self.path)))
    }

    fn check_folder(&self) -> io::Result<()> {
        if self.in_own_folder { check_own_folder(folder_of(&self.path)) } else { Ok(()) }
    }

    /// Refuses files that other users own or may write, and secrets that they may read.
    #[cfg(unix)]
    fn check(&self, meta: &Metadata) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt as _;
        of_user(meta, "it", "it")?;
        match self.stake {
            AtStake::Secrets if meta.mode() & 0o077 != 0 => {
                Err(denied("others may read it; make it private with `chmod 600`".to_owned()))
            }
            _ => Ok(()),
        }
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
    fn check(&self, _: &Metadata) -> io::Result<()> {
        Ok(())
    }
}

/// A folder of the program itself, which only its user may enter.
#[derive(Clone, Debug)]
pub struct StateFolder {
    path: PathBuf,
}

impl StateFolder {
    /// The folder at a path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it. Used only while the folder is one that nobody else could have filled.
    pub fn file(&self, name: &str, limit: u64) -> StateFile {
        StateFile { in_own_folder: true, ..StateFile::new(self.path.join(name), limit) }
    }

    /// Refuses it when others could have filled it. A missing one is fine.
    ///
    /// # Errors
    /// The condition that is not met, naming the folder.
    pub fn check(&self) -> io::Result<()> {
        check_own_folder(&self.path)
    }

    /// Creates it if it is missing; one that cannot be trusted is set aside first.
    ///
    /// # Errors
    /// When it cannot be created or set aside; names the folder.
    pub fn prepare(&self) -> io::Result<()> {
        self.check_or_set_aside()?;
        create_private_folder(&self.path).map_err(|error| self.named(&error))
    }

    /// The names in it; none when it does not exist. One that cannot be trusted is set aside.
    ///
    /// # Errors
    /// When it can neither be read nor set aside; names the folder.
    pub fn names(&self) -> io::Result<Vec<String>> {
        self.check_or_set_aside()?;
        match std::fs::read_dir(&self.path) {
            Ok(entries) => {
                let names = entries.flatten().map(|entry| entry.file_name());
                Ok(names.filter_map(|name| name.into_string().ok()).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.named(&error)),
        }
    }

    fn check_or_set_aside(&self) -> io::Result<()> {
        let Err(error) = self.check() else { return Ok(()) };
        let to = set_aside(&self.path).map_err(|error| self.named(&error))?;
        notify(&words_of(&self.path, &error.to_string(), &to));
        Ok(())
    }

    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", spelled(&self.path)))
    }
}

fn words_of(path: &Path, why: &str, to: &Path) -> String {
    let (path, to) = (spelled(path), spelled(to));
    format!("{path}: {why}; it is set aside as {to}, and nothing in it is used")
}

/// Renames something to a name that is never read; returns that.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let free = (0..MAX_SET_ASIDE).map(|n| match n {
        0 => path.with_file_name(format!("{name}.set-aside")),
        n => path.with_file_name(format!("{name}.set-aside-{n}")),
    });
    let taken = || io::Error::new(io::ErrorKind::AlreadyExists, "too many files set aside");
    let to = { free }.find(|path| path.symlink_metadata().is_err()).ok_or_else(taken)?;
    std::fs::rename(path, &to)?;
    Ok(to)
}

fn refuse_link(path: &Path) -> io::Result<()> {
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    let refusal = || io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link");
    if is_link { Err(refusal()) } else { Ok(()) }
}

/// Refuses a folder that is a link, or that others own or may write. A missing one is fine.
fn check_own_folder(folder: &Path) -> io::Result<()> {
    let refuse = |what: &str| {
        let why = format!("the folder {} {what}", spelled(folder));
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    };
    let meta = match folder.symlink_metadata() {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if meta.is_symlink() {
        return refuse("is a symbolic link");
    }
    if !meta.is_dir() {
        return refuse("is not a folder");
    }
    #[cfg(unix)]
    {
        let name = format!("the folder {}", spelled(folder));
        of_user(&meta, &name, "in it")?;
    }
    Ok(())
}

#[cfg(unix)]
fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}

#[cfg(not(unix))]
const fn no_follow() -> i32 {
    0
}

#[cfg(unix)]
fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Refuses what other users own or may write.
#[cfg(unix)]
fn of_user(meta: &Metadata, name: &str, what: &str) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(denied(format!("{name} belongs to another user")));
    }
    let group = rustix::process::getegid().as_raw();
    if meta.mode() & 0o002 != 0 || (meta.mode() & 0o020 != 0 && meta.gid() != group) {
        let place = if name == what { String::new() } else { format!("{name}: ") };
        return Err(denied(format!("{place}others may write {what}")));
    }
    Ok(())
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

    fn allow(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
    }

    fn pipe(path: &Path) {
        let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo");
        assert!(made.success());
    }

    /// Puts something in the place of a file.
    fn spoil(file: &Path, how: &str, precious: &Path) {
        let anew = |make: &dyn Fn()| {
            std::fs::remove_file(file).expect("removed");
            make();
        };
        match how {
            "link" => anew(&|| symlink(precious, file).expect("linked")),
            "link to nothing" => anew(&|| symlink("missing", file).expect("linked")),
            "folder" => anew(&|| std::fs::create_dir(file).expect("made")),
            "pipe" => anew(&|| pipe(file)),
            "writable by all" => allow(file, 0o666),
            "too large" => std::fs::write(file, [b'v'; 1 << 11]).expect("written"),
            _ => std::fs::write(file, "v9 newer").expect("written"),
        }
    }

    const WAYS: [&str; 7] =
        ["link", "link to nothing", "folder", "pipe", "writable by all", "too large", "garbage"];

    #[test]
    fn what_cannot_be_used_is_set_aside_and_never_written_through_or_over() {
        for how in WAYS {
            let dir = tempfile::tempdir().expect("a folder");
            let file = StateFile::new(dir.path().join("deep/state.json"), 1 << 10);
            add(&file, "one");
            let precious = dir.path().join("precious");
            std::fs::write(&precious, "v1 mine").expect("written");
            spoil(file.path(), how, &precious);
            assert_eq!(file.load(text), None, "{how}");
            add(&file, "two");
            add(&file, "three");
            assert_eq!(file.load(text).as_deref(), Some("v1 two three "), "{how}");
            assert_eq!(std::fs::read_to_string(&precious).expect("there"), "v1 mine");
            let aside = dir.path().join("deep/state.json.set-aside");
            assert!(aside.symlink_metadata().is_ok(), "{how}: the old one is kept");
            let meta = std::fs::metadata(file.path()).expect("there");
            assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{how}");
        }
    }

    #[test]
    fn a_lock_is_not_taken_through_a_link_or_a_pipe() {
        for how in ["link", "link to nothing", "pipe", "folder"] {
            let dir = tempfile::tempdir().expect("a folder");
            let file = StateFile::new(dir.path().join("lock"), 0);
            let precious = dir.path().join("precious");
            std::fs::write(&precious, "v1 mine").expect("written");
            drop(file.lock().expect("locked"));
            spoil(file.path(), how, &precious);
            drop(file.lock().expect("locked"));
            assert!(file.path().symlink_metadata().expect("there").is_file(), "{how}");
            assert!(!dir.path().join("missing").exists());
        }
    }

    #[test]
    fn a_secret_that_others_may_read_and_one_in_an_open_folder_are_not_used() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = StateFolder::new(dir.path().join("own"));
        folder.prepare().expect("made");
        let file = folder.file("secret", 1 << 10).of_secrets();
        add(&file, "one");
        allow(file.path(), 0o640);
        assert_eq!(file.load(text), None);
        allow(file.path(), 0o600);
        assert_eq!(file.load(text).as_deref(), Some("v1 one "));
        for mode in [0o777, 0o1777] {
            allow(folder.path(), mode);
            assert_eq!(file.load(text), None, "{mode:o}");
            let error = file.write(b"v1 two").expect_err("an open folder");
            assert!(error.to_string().contains(&*spelled(folder.path())), "{error}");
        }
        assert_eq!(folder.names().expect("set aside"), Vec::<String>::new());
        assert!(dir.path().join("own.set-aside/secret").exists());
        symlink("own.set-aside", folder.path()).expect("linked");
        assert_eq!(file.load(text), None, "a linked folder");
        folder.prepare().expect("made anew");
        file.write(b"v1 two").expect("written");
        let mode = std::fs::symlink_metadata(folder.path()).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn what_is_not_usable_is_set_aside_when_it_is_read_and_the_operator_is_told() {
        for how in WAYS {
            let dir = tempfile::tempdir().expect("a folder");
            let file = StateFile::new(dir.path().join("token"), 1 << 10).of_secrets();
            add(&file, "one");
            spoil(file.path(), how, Path::new("/dev/null"));
            let mut notices = super::super::notices::NoticeReader::from_now();
            assert_eq!(file.load_or_set_aside(text).expect("set aside"), None, "{how}");
            assert!(file.path().symlink_metadata().is_err(), "{how}");
            let path = spelled(file.path());
            let told = notices.read().iter().any(|notice| notice.contains(&*path));
            assert!(told, "{how}");
        }
    }

    #[test]
    fn half_written_files_of_killed_programs_are_swept_and_changes_of_many_are_all_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = StateFile::new(dir.path().join("state.json"), 1 << 10);
        let (old, other) = (dir.path().join(".state.json.1-0.tmp"), dir.path().join(".x.1-0.tmp"));
        for path in [&old, &other] {
            let past = std::time::SystemTime::now() - 2 * TEMPORARY_TIMEOUT;
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
