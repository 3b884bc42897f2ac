//! Words for what the operating system says when it will not start a program.

use std::io;

#[cfg(unix)]
use super::inspect::{forbids_execution, no_exec};
use super::{Launch, SpawnError, SpawnErrorKind};

/// Words for what the operating system said when the start itself failed.
pub(in crate::host::server::process) fn refused(launch: &Launch, error: &io::Error) -> SpawnError {
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
    new(SpawnErrorKind::Os, format!("{name} could not be started: {error}"))
}
