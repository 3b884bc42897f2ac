//! Operating system calls: signals, sessions, child processes, terminals, use of resources.
//! The only part of the mock server that differs by platform.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::script::Spawn;

/// Starts a process: a program, or this one performing actions.
pub(crate) fn spawn(spawn: &Spawn, command: &[String]) -> io::Result<Child> {
    let mut process = match (command, &spawn.actions) {
        ([program, args @ ..], _) => {
            let mut process = Command::new(program);
            process.args(args);
            process
        }
        ([], actions) => {
            let mut start = match actions {
                Some(Value::Array(several)) => several.clone(),
                one => one.iter().cloned().collect(),
            };
            start.push(json!({"exit": 0}));
            let script = json!({"on": {"start": start}});
            let mut process = Command::new(std::env::current_exe()?);
            process.args(["mock", "--script"]).arg(script.to_string());
            process
        }
    };
    let keep = |keep: bool| if keep { Stdio::inherit() } else { Stdio::null() };
    process.stdin(Stdio::null());
    process.stdout(keep(spawn.keep_stdout));
    process.stderr(keep(spawn.keep_stderr));
    process.spawn()
}

/// Keeps a processor busy.
pub(crate) fn burn(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Allocates memory and touches every page, so that it is really used.
pub(crate) fn allocate(bytes: u64) -> Box<dyn std::any::Any> {
    let mut memory = vec![0_u8; bytes as usize];
    for page in memory.chunks_mut(4096) {
        page[0] = 1;
    }
    Box::new(memory)
}

/// Opens `count` files, or as many as the system allows, with the error that stopped it.
pub(crate) fn open_files(count: u64) -> (Box<dyn std::any::Any>, Option<String>) {
    let path = if cfg!(windows) { "NUL" } else { "/dev/null" };
    let mut files = Vec::new();
    for number in 0..count {
        match std::fs::File::open(path) {
            Ok(file) => files.push(file),
            Err(error) => {
                return (Box::new(files), Some(format!("file {number} cannot be opened: {error}")));
            }
        }
    }
    (Box::new(files), None)
}

/// Writes to the controlling terminal; returns `written` or the error.
pub(crate) fn write_tty(text: &str) -> String {
    use std::io::Write;
    let opened = std::fs::OpenOptions::new().write(true).open("/dev/tty");
    match opened.and_then(|mut tty| tty.write_all(text.as_bytes())) {
        Ok(()) => "written".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[cfg(unix)]
fn signal_number(name: &str) -> Option<rustix::process::Signal> {
    use rustix::process::Signal;
    Some(match name.trim_start_matches("SIG") {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "ILL" => Signal::ILL,
        "ABRT" => Signal::ABORT,
        "BUS" => Signal::BUS,
        "FPE" => Signal::FPE,
        "KILL" => Signal::KILL,
        "USR1" => Signal::USR1,
        "SEGV" => Signal::SEGV,
        "PIPE" => Signal::PIPE,
        "TERM" => Signal::TERM,
        "STOP" => Signal::STOP,
        "XCPU" => Signal::XCPU,
        _ => return None,
    })
}

/// Sends this process a signal. Twice, because Rust's own handler of `SEGV` and `BUS` uses the
/// first one to check for a stack overflow, and then only restores the default action.
#[cfg(unix)]
pub(crate) fn signal_self(name: &str) {
    if let Some(signal) = signal_number(name) {
        for _ in 0..2 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        }
    }
}

/// Runs `each` on every such signal, instead of the default action. A handler even where `each` is
/// a no-op, because children would inherit `SIG_IGN`.
#[cfg(unix)]
pub(crate) fn on_signal<F: Future<Output = ()>>(name: &str, each: impl Fn() -> F + 'static) {
    use tokio::signal::unix::{SignalKind, signal};
    if let Some(number) = signal_number(name)
        && let Ok(mut stream) = signal(SignalKind::from_raw(number.as_raw()))
    {
        tokio::task::spawn_local(async move {
            while stream.recv().await.is_some() {
                each().await;
            }
        });
    }
}

/// Becomes the leader of a new session.
#[cfg(unix)]
pub(crate) fn setsid() {
    let _ = rustix::process::setsid();
}

/// Replaces a standard stream with `/dev/null`, so that its other end sees it closed.
#[cfg(unix)]
pub(crate) fn close(stream: crate::script::StandardStream) -> io::Result<()> {
    use crate::script::StandardStream;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    match stream {
        StandardStream::Stdin => rustix::stdio::dup2_stdin(&null)?,
        StandardStream::Stdout => rustix::stdio::dup2_stdout(&null)?,
        StandardStream::Stderr => rustix::stdio::dup2_stderr(&null)?,
    }
    Ok(())
}

/// Not available here: the process aborts instead.
#[cfg(not(unix))]
pub(crate) fn signal_self(_: &str) {
    std::process::abort();
}

/// Not available here.
#[cfg(not(unix))]
pub(crate) fn on_signal<F: Future<Output = ()>>(_: &str, _: impl Fn() -> F + 'static) {}

/// Not available here.
#[cfg(not(unix))]
pub(crate) fn setsid() {}

/// Not available here.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere the system may refuse it")]
pub(crate) fn close(_: crate::script::StandardStream) -> io::Result<()> {
    Ok(())
}
