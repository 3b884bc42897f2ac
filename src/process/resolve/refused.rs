//! Words for what the operating system says when it will not start a program.

use std::io;

#[cfg(unix)]
use super::inspect::{forbids_execution, no_exec};
use super::{Launch, SpawnError, SpawnErrorKind};

/// Words for what the operating system said when the start itself failed.
pub(crate) fn refused(launch: &Launch, error: &io::Error) -> SpawnError {
    let name = launch.program.display();
    let new = |kind, message: String| SpawnError::new(kind, message);
    #[cfg(unix)]
    if let Some(errno) = rustix::io::Errno::from_io_error(error) {
        use rustix::io::Errno;
        match errno {
            Errno::NOENT => {
                return new(
                    SpawnErrorKind::Format,
                    format!("{name} exists, but the loader or interpreter it names does not"),
                )
                .help("it was built for another system (for example musl against glibc)");
            }
            Errno::NOEXEC => {
                return new(
                    SpawnErrorKind::Format,
                    format!("{name} is not in a format this machine can execute"),
                )
                .help("wrong architecture, or a script without a shebang line");
            }
            Errno::ACCESS | Errno::PERM if forbids_execution(&launch.program) => {
                return no_exec(&launch.program);
            }
            Errno::ACCESS | Errno::PERM => {
                return new(
                    SpawnErrorKind::NotExecutable,
                    format!("{name} may not be executed: {error}"),
                );
            }
            Errno::TOOBIG => {
                return new(
                    SpawnErrorKind::Arguments,
                    "arguments and environment together are too long for the system".to_owned(),
                )
                .help("pass the data in a file, or drop `inheritEnv`");
            }
            Errno::TXTBSY => {
                return new(SpawnErrorKind::Busy, format!("{name} is being written to"));
            }
            Errno::AGAIN => {
                return new(SpawnErrorKind::Busy, "the limit of processes is reached".to_owned())
                    .help("see `ulimit -u`, or the pids limit of the container");
            }
            Errno::MFILE | Errno::NFILE => {
                return new(SpawnErrorKind::Busy, "the limit of open files is reached".to_owned())
                    .help("see `ulimit -n`");
            }
            Errno::NOMEM => {
                return new(
                    SpawnErrorKind::Busy,
                    "there is no memory for a new process".to_owned(),
                );
            }
            _ => {}
        }
    }
    #[cfg(windows)]
    if let Some(told) = windows(launch, error) {
        return told;
    }
    new(SpawnErrorKind::Os, format!("{name} could not be started: {error}"))
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
    let new = |kind, message: String| SpawnError::new(kind, message);
    // How the standard library refuses what cannot be quoted for `cmd.exe`.
    if error.kind() == io::ErrorKind::InvalidInput && is_batch(&launch.program) {
        let why = format!("{name} is a batch file, and an argument cannot be passed to one safely");
        return Some(new(SpawnErrorKind::Arguments, why).help(
            "no batch file can be given a line break: pass it in a file or in `env`, or name the \
             program that the batch file starts",
        ));
    }
    Some(match error.raw_os_error()? {
        BAD_EXE_FORMAT | EXE_MACHINE_TYPE_MISMATCH => {
            let told = new(
                SpawnErrorKind::Format,
                format!("{name} is no program that this machine can execute"),
            );
            match super::interpreter(&launch.program) {
                Some(interpreter) => told.help(format!(
                    "start it with its interpreter, {interpreter:?} as `command` and the file first \
                     in `args`"
                )),
                None => told.help("wrong architecture, or a script, which needs its interpreter"),
            }
        }
        ACCESS_DENIED => new(SpawnErrorKind::NotExecutable, format!("{name}: {error}")),
        VIRUS_INFECTED | DISABLED_BY_POLICY => {
            new(SpawnErrorKind::NotExecutable, format!("{name}: {error}"))
                .help("this machine's protection refuses it")
        }
        ELEVATION_REQUIRED => {
            new(SpawnErrorKind::NotExecutable, format!("{name} asks for administrator rights"))
                .help("start mcpdeck as administrator, or use a program that needs no such rights")
        }
        FILENAME_EXCED_RANGE => new(
            SpawnErrorKind::Arguments,
            "the command line is too long for the system (32767 characters)".to_owned(),
        )
        .help("pass the data in a file"),
        SHARING_VIOLATION => new(SpawnErrorKind::Busy, format!("{name} is being written to")),
        NO_SYSTEM_RESOURCES | COMMITMENT_LIMIT => {
            new(SpawnErrorKind::Busy, "there is no memory for a new process".to_owned())
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
