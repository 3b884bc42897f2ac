//! Resolves an entry's `command` into something that can be started: the executable is located and
//! inspected first, so that every reason it cannot run has its own message.
//!
//! Starts nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use super::advice::{LaunchAdvice, RenameReason};
use super::environment;
use base::SafeText;
use base::text::nearest;
use config::error::{Error, ErrorCode};
use config::{ProcessLimits, StdioConfig};

#[cfg(unix)]
use std::io::Read;

/// Why a process could not be started.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpawnError {
    /// Code [`ErrorCode::ServerStartup`], what happened, what to do.
    pub error: Error,
    /// Whether the same start may succeed a moment later. Never set for a missing file.
    pub retryable: bool,
    /// What mends the entry, where that is known; the help of the error says the same in words.
    pub advice: Option<LaunchAdvice>,
}

impl SpawnError {
    pub(super) fn new(message: impl AsRef<str>) -> Self {
        let message = SafeText::line(message.as_ref());
        let error = Error::new(ErrorCode::ServerStartup, message.as_str());
        Self { error, retryable: false, advice: None }
    }

    /// A possibly transient one: the system lacks resources now, or the error is unknown.
    pub(super) fn passing(message: impl AsRef<str>) -> Self {
        Self { retryable: true, ..Self::new(message) }
    }

    pub(super) fn help(mut self, help: impl AsRef<str>) -> Self {
        self.error.help = Some(SafeText::line(help.as_ref()).to_string());
        self
    }

    fn hint(self, hint: LaunchHint) -> Self {
        let advised = self.help(hint.to_string());
        match hint {
            LaunchHint::Words(_) => advised,
            LaunchHint::Advice(advice) => Self { advice: Some(advice), ..advised },
        }
    }
}

/// What helps to launch a program: a change of the entry, or words.
enum LaunchHint {
    Advice(LaunchAdvice),
    Words(&'static str),
}

impl From<LaunchAdvice> for LaunchHint {
    fn from(advice: LaunchAdvice) -> Self {
        Self::Advice(advice)
    }
}

impl fmt::Display for LaunchHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advice(advice) => advice.fmt(f),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// A program that was found and looks startable, with everything it will be given.
#[derive(Clone)]
pub struct Launch {
    /// The executable: absolute, symbolic links not resolved (shims depend on their own name).
    pub program: PathBuf,
    /// Arguments, passed literally.
    pub args: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) limits: ProcessLimits,
}

impl Launch {
    /// Whether the program was found via a relative folder of PATH: then whoever can write to the
    /// working directory decides what runs.
    pub fn is_found_relatively(&self) -> bool {
        let path = self.env.iter().find(|(name, _)| is_path(name));
        path.is_some_and(|(_, path)| {
            std::env::split_paths(path).any(|folder| {
                folder.is_relative() && self.program.parent() == Some(&*self.cwd.join(folder))
            })
        })
    }
}

/// Finds the executable of an entry and checks its arguments, directory and environment.
///
/// A bare name is searched on the PATH the child will have; a name with a separator is taken
/// relative to the entry's working directory. Reads a few bytes of the file.
///
/// # Errors
/// [`SpawnError`] with its own message for each reason.
pub fn resolve(config: &StdioConfig) -> Result<Launch, SpawnError> {
    let command = config.command.as_str();
    if command.trim().is_empty() {
        return Err(SpawnError::new("the command is empty").help("name a program in `command`"));
    }
    if let Some(bad) = std::iter::once(command)
        .chain(config.args.iter().map(String::as_str))
        .position(|text| text.contains('\0'))
    {
        let what = if bad == 0 { "the command".into() } else { format!("argument {bad}") };
        return Err(SpawnError::new(format!("{what} contains NUL")));
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
        SpawnError::new(format!("the directory the host runs in is gone ({error})"))
            .help("start the host from a directory that exists")
    });
    let Some(cwd) = &config.cwd else { return here };
    let cwd = if cwd.is_absolute() { cwd.clone() } else { here?.join(cwd) };
    let (problem, is_missing) = match fs::metadata(&cwd) {
        Ok(meta) if meta.is_dir() => return Ok(cwd),
        Ok(_) => ("is not a directory".to_owned(), false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => ("does not exist".into(), true),
        Err(error) => (format!("cannot be used: {error}"), false),
    };
    Err(SpawnError::new(format!("the working directory {} {problem}", cwd.display()))
        .hint(LaunchAdvice::WorkingDirectory { is_missing }.into()))
}

fn folders(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    path.map(std::env::split_paths).into_iter().flatten()
}

/// Looks `command` up on `path`. Remembers what was found but cannot be used, for the message.
fn search(command: &str, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, SpawnError> {
    let mut unusable = None;
    for dir in folders(path) {
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
    Err(SpawnError::new(message).hint(suggestion(command, path, cwd)))
}

/// Which PATH was searched: in full if short; otherwise the number of folders, with the full PATH
/// in the log.
fn searched(path: Option<&OsStr>) -> String {
    const MAX_SHOWN_PATH_BYTES: usize = 60;
    match path.map(|path| path.display().to_string()) {
        Some(path) if path.is_empty() => "the server's PATH is empty".to_owned(),
        Some(path) if path.len() <= MAX_SHOWN_PATH_BYTES => format!("searched PATH={path}"),
        Some(path) => {
            tracing::debug!("searched PATH={path}");
            let folders = std::env::split_paths(&path).count();
            format!("searched the {folders} folders of PATH")
        }
        None => "the server's environment has no PATH".to_owned(),
    }
}

/// Windows finds programs by their extension (`PATHEXT`). Tried first: beside `npx.cmd` lies an
/// `npx` that only a POSIX shell can run.
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
    let name = file.display().to_string();
    let message = format!("{name} exists but may not be executed by this user");
    let advice = match interpreter(file) {
        Some(with) => {
            LaunchAdvice::UseInterpreter { interpreter: with.to_owned(), file: Some(name) }
        }
        None => LaunchAdvice::MakeExecutable { file: name },
    };
    SpawnError::new(message).hint(advice.into())
}

/// The interpreter for a file with this extension.
fn interpreter(file: &Path) -> Option<&'static str> {
    Some(match file.extension()?.to_str()? {
        "py" => "python3",
        "js" | "mjs" | "cjs" => "node",
        "sh" => "sh",
        "rb" => "ruby",
        _ => return None,
    })
}

/// Help for a command that was not found.
fn suggestion(command: &str, path: Option<&OsStr>, cwd: &Path) -> LaunchHint {
    /// Most directory entries scanned: computing the help must stay fast.
    const MAX_FOLDER_ENTRIES: usize = 20_000;
    if let Some(help) = command_line(command, |first| !first.contains(char::is_whitespace)) {
        return help;
    }
    let rename = |name, reason| LaunchHint::Advice(LaunchAdvice::Rename { name, reason });
    if cwd.join(command).is_file() {
        return rename(format!("./{command}"), RenameReason::FileInFolder);
    }
    let name = Path::new(command).file_stem().and_then(OsStr::to_str).unwrap_or(command);
    let known = match name {
        "npx" | "npm" | "node" => {
            "install Node.js, or add its `bin` directory to PATH in the entry's `env`"
        }
        "uvx" | "uv" => "install uv, or add its directory to PATH in the entry's `env`",
        "python" => return rename("python3".to_owned(), RenameReason::OtherPython),
        "pipx" | "python3" | "pip" => "install Python 3, or give the interpreter's full path",
        "docker" | "podman" => "install the container engine, or give its full path",
        "bun" | "bunx" => "install Bun, or add its directory to PATH in the entry's `env`",
        "deno" => "install Deno, or add its directory to PATH in the entry's `env`",
        _ => "",
    };
    if !known.is_empty() {
        return LaunchHint::Words(known);
    }
    let entries =
        folders(path).filter_map(|dir| fs::read_dir(dir).ok()).flatten().take(MAX_FOLDER_ENTRIES);
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    match nearest(command, names, 0.9) {
        Some(near) => rename(near, RenameReason::Similar),
        None => {
            LaunchHint::Words("install it, give its full path, or set PATH in the entry's `env`")
        }
    }
}

/// Programs that entries often name together with their arguments, installed or not.
const LAUNCHERS: [&str; 13] = [
    "npx", "npm", "node", "uvx", "uv", "python", "python3", "pipx", "docker", "podman", "bunx",
    "bun", "deno",
];

/// Whether a path begins with a drive letter (`C:\`, `C:/`).
fn has_drive(command: &str) -> bool {
    let mut chars = command.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.next() == Some(':')
        && matches!(chars.next(), Some('\\' | '/'))
}

/// Help for a whole command line in `command`, if it begins with a program.
fn command_line(command: &str, is_program: impl Fn(&str) -> bool) -> Option<LaunchHint> {
    // Paths of Windows often contain blanks, and are never split.
    if has_drive(command) {
        let help = "give the path of one program, with its arguments in `args`";
        let elsewhere = "this is a path of Windows: name the program as this system knows it";
        return Some(LaunchHint::Words(if cfg!(windows) { help } else { elsewhere }));
    }
    let mut split = command.match_indices(char::is_whitespace).map(|(at, _)| command.split_at(at));
    let (first, rest) = split.rfind(|(first, _)| is_program(first))?;
    let (program, rest) = (first.to_owned(), rest.trim().to_owned());
    Some(LaunchAdvice::SplitCommand { program, rest }.into())
}

// Inspection of the executable, because the operating system's own error messages about it are few
// and misleading.

/// Checks that the program exists, is executable and has a format that can run.
fn inspect(
    command: &str,
    program: &Path,
    path: Option<&OsStr>,
    cwd: &Path,
) -> Result<(), SpawnError> {
    let name = program.display();
    let meta = fs::metadata(program).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let how = if Path::new(command).is_absolute() {
                String::new()
            } else {
                format!(" ({command:?} is relative to the working directory {})", cwd.display())
            };
            SpawnError::new(format!("no such file: {name}{how}")).hint(missing(command, path, cwd))
        }
        _ => SpawnError::new(format!("{name} cannot be accessed: {error}")),
    })?;
    if meta.is_dir() {
        return Err(SpawnError::new(format!("{name} is a directory, not a program"))
            .help("name the executable inside it"));
    }
    if !executable(program) {
        // `access` also fails on a noexec mount, whatever the mode bits.
        return Err(if forbids_execution(program) {
            no_exec(program)
        } else {
            not_executable(program)
        });
    }
    #[cfg(unix)]
    check_format(program, path)?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Help for a path that does not exist.
fn missing(command: &str, path: Option<&OsStr>, cwd: &Path) -> LaunchHint {
    if let Some(rest) = command.strip_prefix("~/") {
        let (name, reason) = (format!("${{userHome}}/{rest}"), RenameReason::HomeFolder);
        return LaunchAdvice::Rename { name, reason }.into();
    }
    // A path may contain spaces: it is a command line only if the part before one is a program.
    let is_program = |first: &str| {
        cwd.join(first).is_file()
            || (!has_separator(first)
                && !first.contains(char::is_whitespace)
                && (LAUNCHERS.contains(&first) || search(first, path, cwd).is_ok()))
    };
    command_line(command, is_program)
        .unwrap_or(LaunchHint::Words("correct `command` or `cwd` of the entry"))
}

fn no_exec(program: &Path) -> SpawnError {
    let name = program.display();
    SpawnError::new(format!("{name} is on a file system mounted noexec"))
        .help("move the program, or name an interpreter in `command` and the file in `args`")
}

#[cfg(target_os = "linux")]
fn forbids_execution(program: &Path) -> bool {
    rustix::fs::statvfs(program)
        .is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

/// Elsewhere the flag cannot be read.
#[cfg(not(target_os = "linux"))]
fn forbids_execution(_: &Path) -> bool {
    false
}

/// A script's interpreter must exist: the kernel's own message for a missing one is the misleading
/// "no such file or directory" about the script.
#[cfg(unix)]
fn check_format(program: &Path, path: Option<&OsStr>) -> Result<(), SpawnError> {
    let mut head = Vec::with_capacity(256);
    match fs::File::open(program) {
        Ok(file) => {
            let _ = file.take(256).read_to_end(&mut head);
        }
        // Executable but not readable is legal; the kernel will report any problem.
        Err(_) => return Ok(()),
    }
    let name = program.display();
    if head.is_empty() {
        return Err(SpawnError::new(format!("{name} is an empty file")));
    }
    let Some(rest) = head.strip_prefix(b"#!") else {
        let is_text = std::str::from_utf8(&head).map_or_else(|e| e.error_len().is_none(), |_| true);
        if head.contains(&0) || !is_text {
            let foreign =
                SpawnError::new(format!("{name} is not in a format this machine can execute"));
            let help = "install the program for this machine, or name its interpreter in `command`";
            return if is_foreign(&head) { Err(foreign.help(help)) } else { Ok(()) };
        }
        return Err(SpawnError::new(format!("{name} is a text file without a shebang line"))
            .help("begin it with a line such as #!/bin/sh, or name the interpreter in `command`"));
    };
    let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
    if line.ends_with(b"\r") {
        return Err(SpawnError::new(format!(
            "{name} has Windows line endings, so its shebang names no program"
        ))
        .help("save it with LF line endings"));
    }
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next() else {
        return Err(SpawnError::new(format!("the shebang line of {name} is empty")));
    };
    if fs::metadata(interpreter).is_err() {
        return Err(SpawnError::new(format!("{name} needs {interpreter}, which does not exist"))
            .help("install that interpreter, or correct the first line of the file"));
    }
    let mut takes_value = false;
    let mut is_program = |word: &&str| {
        let is_value = std::mem::replace(&mut takes_value, VALUE_OPTIONS.contains(word));
        !is_value && !word.starts_with('-') && !word.contains('=')
    };
    if Path::new(interpreter).file_name() == Some(OsStr::new("env"))
        && let Some(wanted) = words.find(&mut is_program)
        && !on_path(wanted, path)
    {
        let searched = searched(path);
        return Err(SpawnError::new(format!(
            "{name} needs {wanted}, which was not found ({searched})"
        ))
        // In words alone: it is the first line of the file that names this program.
        .help(suggestion(wanted, path, Path::new("/")).to_string()));
    }
    Ok(())
}

/// Options of `env` whose value is the next word.
#[cfg(unix)]
const VALUE_OPTIONS: [&str; 4] = ["-u", "--unset", "-C", "--chdir"];

#[cfg(unix)]
fn on_path(command: &str, path: Option<&OsStr>) -> bool {
    has_separator(command) || folders(path).any(|dir| executable(&dir.join(command)))
}

/// Whether a binary has a format the kernel cannot run: the C library's `execvp` would hand it to a
/// shell, which would run garbage and report a syntax error.
#[cfg(target_os = "linux")]
fn is_foreign(head: &[u8]) -> bool {
    // Magic number, class, byte order and machine of an ELF header.
    let kind = |head: &[u8]| Some((head.get(..6)?.to_vec(), head.get(18..20)?.to_vec()));
    let mut own = [0; 20];
    let read = fs::File::open("/proc/self/exe").and_then(|mut file| file.read_exact(&mut own));
    // More formats may be registered: emulators, Java, Wine.
    let taught = fs::read_dir("/proc/sys/fs/binfmt_misc").is_ok_and(|mut dir| {
        let own = |name: &OsStr| name == "register" || name == "status";
        dir.any(|entry| entry.is_ok_and(|entry| !own(&entry.file_name())))
    });
    read.is_ok() && kind(head) != kind(&own) && !taught
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_foreign(_: &[u8]) -> bool {
    false
}

// Messages for the operating system's errors when it refuses to start a program.

/// The error to report when the start itself failed.
pub(super) fn refused(launch: &Launch, error: &io::Error) -> SpawnError {
    let name = launch.program.display();
    let unknown = SpawnError::passing(format!("{name} could not be started: {error}"));
    #[cfg(unix)]
    if let Some(errno) = rustix::io::Errno::from_io_error(error) {
        use rustix::io::Errno;
        return match errno {
            Errno::NOENT => SpawnError::new(format!(
                "{name} exists, but the loader or interpreter it names does not"
            ))
            .help("it was built for another system (for example musl against glibc)"),
            Errno::NOEXEC => {
                SpawnError::new(format!("{name} is not in a format this machine can execute"))
                    .help("wrong architecture, or a script without a shebang line")
            }
            Errno::ACCESS | Errno::PERM if forbids_execution(&launch.program) => {
                no_exec(&launch.program)
            }
            Errno::ACCESS | Errno::PERM => {
                SpawnError::new(format!("{name} may not be executed: {error}"))
            }
            Errno::TOOBIG => {
                SpawnError::new("arguments and environment together are too long for the system")
                    .help("pass the data in a file, or drop `inheritEnv`")
            }
            Errno::TXTBSY => SpawnError::passing(format!("{name} is being written to")),
            Errno::AGAIN => SpawnError::passing("the limit of processes is reached")
                .help("see `ulimit -u`, or the pids limit of the container"),
            Errno::MFILE | Errno::NFILE => {
                SpawnError::passing("the limit of open files is reached").help("see `ulimit -n`")
            }
            Errno::NOMEM => SpawnError::passing("there is no memory for a new process"),
            _ => unknown,
        };
    }
    #[cfg(windows)]
    if let Some(known) = windows(launch, error) {
        return known;
    }
    unknown
}

/// The same for the error codes of Windows (`winerror.h`).
#[cfg(windows)]
fn windows(launch: &Launch, error: &io::Error) -> Option<SpawnError> {
    const ACCESS_DENIED: i32 = 5;
    const SHARING_VIOLATION: i32 = 32;
    const BAD_EXE_FORMAT: i32 = 193;
    const FILENAME_EXCED_RANGE: i32 = 206;
    const VIRUS_INFECTED: i32 = 225;
    const EXE_MACHINE_TYPE_MISMATCH: i32 = 216;
    const ELEVATION_REQUIRED: i32 = 740;
    const DISABLED_BY_POLICY: i32 = 1260;
    const NO_SYSTEM_RESOURCES: i32 = 1450;
    const COMMITMENT_LIMIT: i32 = 1455;
    let name = launch.program.display();
    // The standard library refuses arguments that cannot be quoted for `cmd.exe` this way.
    if error.kind() == io::ErrorKind::InvalidInput && is_batch(&launch.program) {
        let why = format!("{name} is a batch file, and an argument cannot be passed to one safely");
        return Some(SpawnError::new(why).help(
            "batch files cannot take a line break: pass it in a file or in `env`, or name the \
             program that the batch file starts",
        ));
    }
    Some(match error.raw_os_error()? {
        BAD_EXE_FORMAT | EXE_MACHINE_TYPE_MISMATCH => {
            let refused =
                SpawnError::new(format!("{name} is not a program that this machine can execute"));
            match interpreter(&launch.program) {
                Some(with) => refused.hint(
                    LaunchAdvice::UseInterpreter { interpreter: with.to_owned(), file: None }
                        .into(),
                ),
                None => {
                    refused.help("wrong architecture, or a script, which needs its interpreter")
                }
            }
        }
        ACCESS_DENIED => SpawnError::new(format!("{name}: {error}")),
        VIRUS_INFECTED | DISABLED_BY_POLICY => {
            SpawnError::new(format!("{name}: {error}")).help("blocked by this machine's security")
        }
        ELEVATION_REQUIRED => SpawnError::new(format!("{name} asks for administrator rights"))
            .help("start mcpdeck as administrator, or use a program that needs no such rights"),
        FILENAME_EXCED_RANGE => {
            SpawnError::new("the command line is too long for the system (32767 characters)")
                .help("pass the data in a file")
        }
        SHARING_VIOLATION => SpawnError::passing(format!("{name} is being written to")),
        NO_SYSTEM_RESOURCES | COMMITMENT_LIMIT => {
            SpawnError::passing("there is no memory for a new process")
        }
        _ => return None,
    })
}

/// Whether `cmd.exe` runs it.
#[cfg(windows)]
fn is_batch(program: &std::path::Path) -> bool {
    let is = |kind| program.extension().is_some_and(|ext| ext.eq_ignore_ascii_case(kind));
    is("cmd") || is("bat")
}
