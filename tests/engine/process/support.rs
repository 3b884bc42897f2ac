//! Shared by the tests with real processes: starting one, and finding what is left of it.

use std::path::Path;
use std::time::{Duration, Instant};

use mcpdeck::base::Clock;
use mcpdeck::base::logs::LogRecord;
use mcpdeck::base::ring::Ring;
use mcpdeck::base::secret::{Redactor, Secret};
use mcpdeck::config::{ProcessLimits, StdioConfig};
use mcpdeck::process::{
    self, Launch, ProcessContext, ServerProcess, ServerStdin, ServerStdout, SpawnError,
};
use tokio::io::AsyncReadExt;

/// Context for starting a server.
pub struct Deck {
    pub context: ProcessContext,
    pub logs: Ring<LogRecord>,
}

/// A deck for one server.
pub fn deck(server: &str) -> Deck {
    masking(server, &[])
}

/// The same, with secrets that are masked in stderr.
pub fn masking(server: &str, secrets: &[&str]) -> Deck {
    let logs = Ring::new(100_000, 64 << 20);
    let context = ProcessContext {
        server: server.into(),
        clock: Clock::system(),
        redactor: Redactor::new(secrets.iter().map(|s| Secret::new(*s))),
        logs: logs.clone(),
        source: mcpdeck::base::logs::LogSource::Stderr,
        stderr_line_bytes: 1 << 10,
        stderr_bytes: 32 << 10,
        outlives_host: false,
    };
    Deck { context, logs }
}

/// An entry that runs a shell script.
pub fn shell(script: &str) -> StdioConfig {
    StdioConfig {
        command: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: indexmap::IndexMap::new(),
        cwd: None,
        inherit_env: false,
        limits: ProcessLimits::default(),
    }
}

/// A running server.
pub struct Server {
    pub stdin: Option<ServerStdin>,
    pub stdout: ServerStdout,
    pub process: ServerProcess,
    pub mark: String,
}

impl Deck {
    pub async fn start(&self, config: &StdioConfig) -> Server {
        match self.try_start(process::resolve(config).expect("a program")).await {
            Ok(server) => server,
            Err(error) => panic!("{}", error.error),
        }
    }

    pub async fn try_start(&self, launch: Launch) -> Result<Server, SpawnError> {
        let spawned = process::spawn(launch, self.context.clone()).await?;
        let mark = mark_of(spawned.process.pid());
        Ok(Server {
            stdin: Some(spawned.stdin),
            stdout: spawned.stdout,
            process: spawned.process,
            mark,
        })
    }

    /// The log lines so far.
    pub fn log(&self) -> Vec<String> {
        self.logs.tail(usize::MAX).iter().map(|record| record.text.to_string()).collect()
    }
}

impl Server {
    /// Reads one line.
    pub async fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            match self.stdout.read_u8().await.expect("a line") {
                b'\n' => return String::from_utf8(line).expect("text"),
                byte => line.push(byte),
            }
        }
    }

    /// Command lines of the server's processes that are still alive.
    pub fn survivors(&self) -> Vec<String> {
        marked(&self.mark)
    }
}

fn mark_of(pid: u32) -> String {
    // Between fork and exec the environment is still that of the test.
    let mut found = String::new();
    until_blocking("the server has its environment", || {
        let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        found = env
            .split(|b| *b == 0)
            .map(String::from_utf8_lossy)
            .find(|entry| entry.starts_with("MCPDECK_SERVER="))
            .map(std::borrow::Cow::into_owned)
            .unwrap_or_default();
        !found.is_empty() || state.contains(") Z ")
    });
    found
}

/// Command lines of living processes that carry `mark`.
pub fn marked(mark: &str) -> Vec<String> {
    assert!(!mark.is_empty());
    processes(|_, environ| environ.split(|b| *b == 0).any(|entry| entry == mark.as_bytes()))
        .into_iter()
        .map(|(pid, line)| format!("{pid} {line}"))
        .collect()
}

/// Live processes (id, command line with spaces), filtered by command line and environment.
pub fn processes(choose: impl Fn(&[u8], &[u8]) -> bool) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("a process table").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let read = |what| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let (line, environ) = (read("cmdline"), read("environ"));
        if choose(&line, &environ) {
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

/// Polls a condition every few milliseconds, with a generous deadline.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The same without a runtime.
pub fn until_blocking(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let pause = std::sync::mpsc::channel::<()>();
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        let _ = pause.1.recv_timeout(Duration::from_millis(5));
    }
}

/// Kills an escaped process of the test, by its exact command line.
pub fn end_escaped(line: &[u8]) {
    for (pid, _) in processes(|own, _| own == line) {
        kill(pid);
    }
}

/// chmod 755.
pub fn make_executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("chmod");
}

/// SIGKILL to a process of the test.
pub fn kill(pid: u32) {
    send(pid, rustix::process::Signal::KILL);
}

/// A signal to a process of the test.
pub fn send(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("an id");
    let _ = rustix::process::kill_process(pid, signal);
}
