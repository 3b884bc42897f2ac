//! A look at the file that is to be executed, because the operating system's own words for what is
//! wrong with it are few and misleading.

use std::ffi::OsStr;
use std::fs;
use std::io;
#[cfg(unix)]
use std::io::Read;
use std::path::Path;

use super::{SpawnError, SpawnErrorKind, executable, not_executable};
#[cfg(unix)]
use super::{has_separator, suggestion};

/// Looks at the file itself.
pub(super) fn inspect(
    command: &str,
    program: &Path,
    path: Option<&OsStr>,
    cwd: &Path,
) -> Result<(), SpawnError> {
    let meta = fs::metadata(program).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let how = if Path::new(command).is_absolute() {
                String::new()
            } else {
                format!(" ({command:?} is relative to the working directory {})", cwd.display())
            };
            SpawnError::new(
                SpawnErrorKind::NotFound,
                format!("no such file: {}{how}", program.display()),
            )
            .help(missing(command, cwd))
        }
        _ => SpawnError::new(
            SpawnErrorKind::NotExecutable,
            format!("{} cannot be looked at: {error}", program.display()),
        ),
    })?;
    if meta.is_dir() {
        return Err(SpawnError::new(
            SpawnErrorKind::Directory,
            format!("{} is a directory, not a program", program.display()),
        )
        .help("name the executable inside it"));
    }
    if !executable(program) {
        // `access` says no on a noexec mount too, whatever the mode bits say.
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

/// What to do about a path with nothing at its end.
fn missing(command: &str, cwd: &Path) -> String {
    if let Some(rest) = command.strip_prefix("~/") {
        return format!(
            "no shell reads this, so `~` means nothing: write \"${{userHome}}/{rest}\""
        );
    }
    let mut split = command.match_indices(char::is_whitespace).map(|(at, _)| command.split_at(at));
    // A path may have spaces of its own: only where a file stands before one is it a command line.
    let line = split.rfind(|(first, _)| cwd.join(first).is_file());
    match line {
        Some((first, rest)) => format!(
            "put the program in `command` ({first:?}) and the rest ({:?}) in `args`: no shell \
             splits them",
            rest.trim()
        ),
        None => "correct `command` or `cwd` of the entry".to_owned(),
    }
}

pub(super) fn no_exec(program: &Path) -> SpawnError {
    SpawnError::new(
        SpawnErrorKind::NoExec,
        format!("{} is on a file system mounted noexec", program.display()),
    )
    .help("move the program, or name an interpreter in `command` and the file in `args`")
}

#[cfg(target_os = "linux")]
pub(super) fn forbids_execution(program: &Path) -> bool {
    rustix::fs::statvfs(program)
        .is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

/// Elsewhere the flag is not told apart from other reasons.
#[cfg(not(target_os = "linux"))]
pub(super) fn forbids_execution(_: &Path) -> bool {
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
        // Executable but not readable is legal; the kernel will say.
        Err(_) => return Ok(()),
    }
    let bad = |message: String| SpawnError::new(SpawnErrorKind::Format, message);
    let name = program.display();
    if head.is_empty() {
        return Err(bad(format!("{name} is an empty file")));
    }
    let Some(rest) = head.strip_prefix(b"#!") else {
        if looks_binary(&head) {
            return check_binary(program, &head);
        }
        return Err(bad(format!("{name} is a text file without a shebang line"))
            .help("begin it with a line such as #!/bin/sh, or name the interpreter in `command`"));
    };
    let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
    if line.ends_with(b"\r") {
        return Err(bad(format!(
            "{name} has Windows line endings, so its shebang names no program"
        ))
        .help("save it with LF line endings"));
    }
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next() else {
        return Err(bad(format!("the shebang line of {name} is empty")));
    };
    if fs::metadata(interpreter).is_err() {
        return Err(bad(format!("{name} needs {interpreter}, which does not exist"))
            .help("install that interpreter, or correct the first line of the file"));
    }
    if Path::new(interpreter).file_name() == Some(OsStr::new("env"))
        && let Some(wanted) = words.find(|word| !word.starts_with('-') && !word.contains('='))
        && !on_path(wanted, path)
    {
        let searched = super::searched(path);
        return Err(bad(format!("{name} needs {wanted}, which was not found ({searched})"))
            .help(suggestion(wanted, path, Path::new("/"))));
    }
    Ok(())
}

#[cfg(unix)]
fn on_path(command: &str, path: Option<&OsStr>) -> bool {
    has_separator(command)
        || path
            .map(std::env::split_paths)
            .into_iter()
            .flatten()
            .any(|dir| executable(&dir.join(command)))
}

/// Anything that no text file has.
#[cfg(unix)]
fn looks_binary(head: &[u8]) -> bool {
    head.starts_with(ELF)
        || head.contains(&0)
        || std::str::from_utf8(head).is_err_and(|e| e.error_len().is_some())
}

#[cfg(unix)]
const ELF: &[u8] = b"\x7fELF";

/// A binary must be one the kernel knows: `execvp` of the C library hands any other file to a shell,
/// which would run garbage and report a syntax error.
#[cfg(target_os = "linux")]
fn check_binary(program: &Path, head: &[u8]) -> Result<(), SpawnError> {
    /// Class, byte order and machine of an ELF header: what must equal our own.
    fn kind(head: &[u8]) -> Option<(&[u8], &[u8])> {
        head.starts_with(ELF).then_some((head.get(4..6)?, head.get(18..20)?))
    }
    let mut own = [0; 20];
    let read = fs::File::open("/proc/self/exe").and_then(|mut file| file.read_exact(&mut own));
    if read.is_err() || kind(head) == kind(&own) || foreign_formats() {
        return Ok(());
    }
    let what = if kind(head).is_some() {
        "is built for another kind of machine"
    } else {
        "is not in a format this machine can execute"
    };
    Err(SpawnError::new(SpawnErrorKind::Format, format!("{} {what}", program.display()))
        .help("install the program for this machine, or name its interpreter in `command`"))
}

#[cfg(all(unix, not(target_os = "linux")))]
#[expect(clippy::unnecessary_wraps, reason = "Linux says more")]
fn check_binary(_: &Path, _: &[u8]) -> Result<(), SpawnError> {
    Ok(())
}

/// Whether the kernel was taught more formats (`binfmt_misc`: emulators, Java, Wine).
#[cfg(target_os = "linux")]
fn foreign_formats() -> bool {
    fs::read_dir("/proc/sys/fs/binfmt_misc").is_ok_and(|dir| {
        dir.flatten().any(|entry| entry.file_name() != "register" && entry.file_name() != "status")
    })
}
