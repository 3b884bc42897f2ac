//! From an entry's `command` to something that can be started: the executable is found and looked
//! at first, so that every reason it cannot run has a message of its own (requirement L4).
//!
//! Starts nothing.

mod inspect;
mod refused;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use inspect::inspect;
pub(super) use refused::refused;

use crate::base::text::SafeText;
use crate::config::{ProcessLimits, StdioConfig};
use crate::error::{Error, ErrorCode};
use crate::process::environment;

/// Why a process could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnErrorKind {
    /// No such command on PATH, or no such file.
    NotFound,
    /// The file exists but may not be executed.
    NotExecutable,
    /// The command names a directory.
    Directory,
    /// The file is no program: unknown format, no shebang, or a shebang whose interpreter is missing.
    Format,
    /// The file system it is on forbids execution.
    NoExec,
    /// The working directory is missing or is no directory.
    Cwd,
    /// Command or argument that cannot be passed (empty, NUL, too long).
    Arguments,
    /// Environment entry that cannot be passed.
    Environment,
    /// The operating system has no room for it now (processes, files, memory, file being written).
    Busy,
    /// Anything else the operating system said.
    Os,
}

/// Why a process could not be started, as the error to show and what to make of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SpawnError {
    /// The kind.
    pub kind: SpawnErrorKind,
    /// Code [`ErrorCode::ServerStartup`], what happened, what to do.
    pub error: Error,
}

impl SpawnError {
    pub(super) fn new(kind: SpawnErrorKind, message: impl AsRef<str>) -> Self {
        let message = SafeText::line(message.as_ref());
        Self { kind, error: Error::new(ErrorCode::ServerStartup, message.as_str()) }
    }

    pub(super) fn help(mut self, help: impl AsRef<str>) -> Self {
        self.error = self.error.help(SafeText::line(help.as_ref()).as_str());
        self
    }

    /// Whether the same start may succeed a moment later. Nothing about a missing file does.
    pub fn retryable(&self) -> bool {
        matches!(self.kind, SpawnErrorKind::Busy | SpawnErrorKind::Os)
    }
}

/// A program that was found and looks startable, with everything it will be given.
#[derive(Clone)]
pub struct Launch {
    /// The executable: absolute, symbolic links not resolved (shims look at their own name).
    pub program: PathBuf,
    /// Arguments, passed literally.
    pub args: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) limits: ProcessLimits,
}

impl Launch {
    /// Whether a relative folder of PATH led to the program: then whoever fills the working
    /// directory decides what runs.
    pub fn is_found_relatively(&self) -> bool {
        let path = self.env.iter().find(|(name, _)| is_path(name));
        path.is_some_and(|(_, path)| {
            std::env::split_paths(path).any(|folder| {
                folder.is_relative() && self.program.parent() == Some(&*self.cwd.join(folder))
            })
        })
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("cwd", &self.cwd)
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Finds the executable of an entry and checks what it would be given.
///
/// A bare name is searched on the PATH the child will have; a name with a separator is taken
/// relative to the entry's working directory. Reads a few bytes of the file.
///
/// # Errors
/// [`SpawnError`] with a kind and words of its own for each reason.
pub fn resolve(config: &StdioConfig) -> Result<Launch, SpawnError> {
    let command = config.command.as_str();
    if command.trim().is_empty() {
        return Err(SpawnError::new(SpawnErrorKind::Arguments, "the command is empty")
            .help("name a program in `command`"));
    }
    if let Some(bad) = std::iter::once(command)
        .chain(config.args.iter().map(String::as_str))
        .position(|text| text.contains('\0'))
    {
        let what = if bad == 0 { "the command".into() } else { format!("argument {bad}") };
        return Err(SpawnError::new(SpawnErrorKind::Arguments, format!("{what} contains NUL")));
    }
    let cwd = working_directory(config)?;
    let env = environment::build(config)?;
    let path = env.iter().find(|(name, _)| is_path(name)).map(|(_, value)| value.as_os_str());
    let program = match by_extension(command, path, &cwd) {
        Some(found) => found,
        None if has_separator(command) => cwd.join(command),
        None => search(command, path, &cwd)?,
    };
    inspect(command, &program, path, &cwd)?;
    Ok(Launch {
        program,
        args: config.args.iter().map(Into::into).collect(),
        cwd,
        env,
        limits: config.limits.clone(),
    })
}

fn is_path(name: &OsStr) -> bool {
    if cfg!(windows) { name.eq_ignore_ascii_case("PATH") } else { name == "PATH" }
}

fn has_separator(command: &str) -> bool {
    command.contains(std::path::is_separator)
}

fn working_directory(config: &StdioConfig) -> Result<PathBuf, SpawnError> {
    let here = std::env::current_dir().map_err(|error| {
        SpawnError::new(
            SpawnErrorKind::Cwd,
            format!("the directory the host runs in is gone ({error})"),
        )
        .help("start the host from a directory that exists")
    });
    let Some(cwd) = &config.cwd else { return here };
    let cwd = if cwd.is_absolute() { cwd.clone() } else { here?.join(cwd) };
    let problem = match fs::metadata(&cwd) {
        Ok(meta) if meta.is_dir() => return Ok(cwd),
        Ok(_) => "is not a directory".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be used: {error}"),
    };
    Err(SpawnError::new(
        SpawnErrorKind::Cwd,
        format!("the working directory {} {problem}", cwd.display()),
    )
    .help("correct `cwd` of the entry, or create the directory"))
}

/// Looks `command` up on `path`. Remembers what was found but cannot be used, for the message.
fn search(command: &str, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, SpawnError> {
    let mut unusable = None;
    for dir in path.map(std::env::split_paths).into_iter().flatten() {
        // An empty element means the working directory, as it does for a shell.
        let candidate = cwd.join(dir).join(command);
        match fs::metadata(&candidate) {
            Ok(meta) if meta.is_file() && executable(&candidate) => return Ok(candidate),
            Ok(meta) if meta.is_file() => unusable = unusable.or(Some(candidate)),
            _ => {}
        }
    }
    if let Some(file) = unusable {
        return Err(not_executable(&file));
    }
    let message = format!("command not found: {command} ({})", searched(path));
    Err(SpawnError::new(SpawnErrorKind::NotFound, message).help(suggestion(command, path, cwd)))
}

/// Which PATH was searched: a short one whole; of a long one the number of folders, and the whole
/// in the log.
fn searched(path: Option<&OsStr>) -> String {
    const SHORT: usize = 60;
    match path.map(|path| path.display().to_string()) {
        Some(path) if path.is_empty() => "the server's PATH is empty".to_owned(),
        Some(path) if path.len() <= SHORT => format!("searched PATH={path}"),
        Some(path) => {
            tracing::debug!("searched PATH={path}");
            let folders = std::env::split_paths(&path).count();
            format!("searched the {folders} folders of PATH")
        }
        None => "the server's environment has no PATH".to_owned(),
    }
}

/// Windows finds programs by their extension (`PATHEXT`). Looked for first: beside `npx.cmd` lies an
/// `npx` that only a POSIX shell can read.
#[cfg(windows)]
fn by_extension(command: &str, path: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    which::which_in(command, path, cwd).ok()
}

#[cfg(not(windows))]
const fn by_extension(_: &str, _: Option<&OsStr>, _: &Path) -> Option<PathBuf> {
    None
}

#[cfg(unix)]
fn executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn executable(_: &Path) -> bool {
    true
}

fn not_executable(file: &Path) -> SpawnError {
    SpawnError::new(
        SpawnErrorKind::NotExecutable,
        format!("{} exists but may not be executed by this user", file.display()),
    )
    .help(match interpreter(file) {
        Some(name) => format!(
            "start it with its interpreter, {name:?} as `command` and the file first in `args`; \
             or chmod +x {}",
            file.display()
        ),
        None => format!("chmod +x {}", file.display()),
    })
}

/// What runs a file of this kind.
fn interpreter(file: &Path) -> Option<&'static str> {
    Some(match file.extension()?.to_str()? {
        "py" => "python3",
        "js" | "mjs" | "cjs" => "node",
        "sh" => "sh",
        "rb" => "ruby",
        _ => return None,
    })
}

/// What to do about a command that is not there.
fn suggestion(command: &str, path: Option<&OsStr>, cwd: &Path) -> String {
    if let Some((first, rest)) = command.split_once(char::is_whitespace) {
        return format!(
            "put the program in `command` ({first:?}) and the rest ({rest:?}) in `args`: no shell \
             splits them"
        );
    }
    let beside = cwd.join(command);
    if fs::metadata(&beside).is_ok_and(|meta| meta.is_file()) {
        return format!("write \"./{command}\" to start the file in the working directory");
    }
    let name = Path::new(command).file_stem().and_then(OsStr::to_str).unwrap_or(command);
    let known = match name {
        "npx" | "npm" | "node" => {
            Some("install Node.js, or add its `bin` directory to PATH in the entry's `env`")
        }
        "uvx" | "uv" => Some("install uv, or add its directory to PATH in the entry's `env`"),
        "python" => Some("try \"python3\", or the python of the server's virtual environment"),
        "pipx" | "python3" | "pip" => Some("install Python 3, or give the interpreter's full path"),
        "docker" | "podman" => Some("install the container engine, or give its full path"),
        "bun" | "bunx" => Some("install Bun, or add its directory to PATH in the entry's `env`"),
        "deno" => Some("install Deno, or add its directory to PATH in the entry's `env`"),
        _ => None,
    };
    if let Some(known) = known {
        return known.to_owned();
    }
    match nearest(command, path) {
        Some(near) => format!("did you mean {near:?}?"),
        None => "install it, give its full path, or set PATH in the entry's `env`".to_owned(),
    }
}

/// The command on PATH that looks most like `command`.
fn nearest(command: &str, path: Option<&OsStr>) -> Option<String> {
    /// Most directory entries looked at: a help must not take longer than the error is worth.
    const ENTRIES: usize = 20_000;
    path.map(std::env::split_paths)
        .into_iter()
        .flatten()
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flatten()
        .take(ENTRIES)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .map(|name| (strsim::normalized_damerau_levenshtein(command, &name), name))
        .filter(|(likeness, _)| *likeness >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
