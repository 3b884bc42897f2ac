//! Child setup between `fork` and `exec`: the only `unsafe` code on Unix.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal, setrlimit};

/// Sets up the child between `fork` and `exec`: a session of its own without a controlling
/// terminal, the parent-death signal (Linux) and the resource limits.
pub(super) fn prepare(
    command: &mut Command,
    death_signal: Option<Signal>,
    limits: Vec<(Resource, Rlimit)>,
) {
    let host = rustix::process::getpid();
    let before_exec = move || {
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        if death_signal.is_some() {
            rustix::process::set_parent_process_death_signal(death_signal)?;
            // The host may have died before the line above; then the signal would never come.
            if rustix::process::getppid() != Some(host) {
                return Err(rustix::io::Errno::SRCH.into());
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (death_signal, host);
        for (resource, limit) in &limits {
            setrlimit(*resource, *limit)?;
        }
        Ok(())
    };
    #[expect(
        unsafe_code,
        reason = "there is no safe way to act between fork and exec; the closure makes system calls \
                  only: no allocation, no lock, no panic"
    )]
    unsafe {
        command.pre_exec(before_exec);
    }
}
