//! Helpers of the integration tests: the built binary, scratch folders with an `mcp.json`, waiting
//! for conditions, and looking at processes. Use with
//! `#[path = "support/helpers.rs"] mod support;`.
#![allow(dead_code, reason = "every test file uses its own part of these")]

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The program under test.
pub fn bin() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_mcpdeck"))
}

/// A file of the repository.
pub fn repo(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Lets other threads run for a moment. Only for use between two looks at a condition.
pub fn breathe() {
    std::thread::park_timeout(Duration::from_millis(10));
}

/// Looks until there is something, at most so long; fails with what was waited for.
pub fn wait_for<T>(what: &str, at_most: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < at_most, "waited {at_most:?} in vain for {what}");
        breathe();
    }
}

/// A scratch folder with an `mcp.json`, and a mark by which its processes are known.
pub struct Bench {
    folder: tempfile::TempDir,
    mark: String,
}

/// The environment variable that marks every process of a [`Bench`].
pub const MARK: &str = "MCPDECK_TEST_MARK";

impl Bench {
    /// A folder without a configuration.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mark = format!("bench-{}-{}", std::process::id(), folder.path().display());
        Self { folder, mark }
    }

    /// A folder with an `mcp.json` whose servers play these scripts.
    pub fn playing(servers: &[(&str, Value)]) -> Self {
        let bench = Self::new();
        let entry = |(name, script): &(&str, Value)| {
            ((*name).to_owned(), bench.mock(name, script, &json!({})))
        };
        bench.servers(&Value::Object(servers.iter().map(entry).collect()));
        bench
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The value of [`MARK`] in every process started from here.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Writes a file into the folder; gives its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file in the temporary folder");
        path
    }

    /// Makes a named pipe in the folder.
    pub fn pipe(&self, name: &str) {
        let path = self.folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo");
        assert!(made.success());
    }

    /// Writes `mcp.json` with these servers; gives its path.
    pub fn servers(&self, servers: &Value) -> PathBuf {
        self.write("mcp.json", &format!("{:#}", json!({"servers": servers})))
    }

    /// An entry of `mcp.json` that plays a mock script, with more keys of the entry beside.
    pub fn mock(&self, name: &str, script: &Value, more: &Value) -> Value {
        let path = self.write(&format!("{name}.mock.json"), &script.to_string());
        let mut entry = json!({
            "command": bin(),
            "args": ["mock", path],
            "env": {MARK: self.mark},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            if key == "env" {
                for (name, value) in value.as_object().into_iter().flatten() {
                    entry["env"][name] = value.clone();
                }
            } else {
                entry[key] = value.clone();
            }
        }
        entry
    }

    /// The program with these arguments, in this folder, with nothing of the user's own.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(bin());
        command
            .args(args)
            .current_dir(self.path())
            .env("HOME", self.path())
            .env("XDG_CONFIG_HOME", self.path().join(".config"))
            .env("XDG_STATE_HOME", self.path().join(".state"))
            .env("XDG_CACHE_HOME", self.path().join(".cache"))
            .env("XDG_DATA_HOME", self.path().join(".data"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end; stops it and fails when it takes longer.
    pub fn run(&self, args: &[&str], at_most: Duration) -> Finished {
        finish(self.command(args), at_most)
    }

    /// Processes that bear the mark of this bench and live.
    pub fn processes(&self) -> Vec<Process> {
        marked(&self.mark)
    }

    /// Processes of this bench that still live when the time is over; none as soon as all are gone.
    pub fn left_after(&self, at_most: Duration) -> Vec<Process> {
        let begun = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() || begun.elapsed() > at_most {
                return left;
            }
            breathe();
        }
    }

    /// Fails unless every process of this bench is gone, or goes within the time.
    pub fn expect_nothing_left(&self, at_most: Duration) {
        let left = self.left_after(at_most);
        assert!(left.is_empty(), "left behind after {at_most:?}: {left:#?}");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for process in self.processes() {
            kill(process.pid, "KILL");
        }
    }
}

/// A peak of memory that is worth an explanation, bytes.
const LARGE: u64 = 200 << 20;

/// What a program did.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
    /// Largest resident set seen, bytes; 0 where the system does not say.
    pub peak: u64,
    /// What the memory was made of when the peak was seen, where it is over [`LARGE`].
    pub peak_was: String,
}

impl Finished {
    /// The JSON it printed.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON ({error}) from {self:#?}"))
    }
}

/// Runs a command to its end; kills it and fails when it takes longer.
pub fn finish(mut command: Command, at_most: Duration) -> Finished {
    let begun = Instant::now();
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let stdout = collect(child.stdout.take().expect("piped"));
    let stderr = collect(child.stderr.take().expect("piped"));
    let (mut peak, mut peak_was) = (0, String::new());
    let status = loop {
        let now = memory(child.id(), "VmHWM");
        peak = peak.max(now);
        if now == peak && now > LARGE {
            let read = |what| std::fs::read_to_string(format!("/proc/{}/{what}", child.id()));
            peak_was =
                ["status", "smaps_rollup"].map(|what| read(what).unwrap_or_default()).concat();
        }
        if let Some(status) = child.try_wait().expect("a child of ours") {
            break Some(status);
        }
        if begun.elapsed() > at_most {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        breathe();
    };
    let took = begun.elapsed();
    let text = |bytes: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&bytes.join().expect("a reader")).into_owned()
    };
    let finished = Finished {
        code: status.and_then(|status| status.code()),
        stdout: text(stdout),
        stderr: text(stderr),
        took,
        peak,
        peak_was,
    };
    assert!(status.is_some(), "still running after {at_most:?}: {command:?}\n{finished:#?}");
    finished
}

/// Processor time of a process, without its children; nothing where the system does not say.
pub fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything, the fields 14 and 15 count from 3 (proc(5)).
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn collect(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// A child that is killed when it goes out of scope.
pub struct Guarded(pub Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A scripted server over HTTP, for as long as it is kept.
pub struct HttpMock {
    _child: Guarded,
    /// Where it listens.
    pub url: String,
}

impl HttpMock {
    /// Plays a script on a free port, or on its own.
    pub fn start(script: &Value) -> Self {
        let mut command = Command::new(bin());
        command.args(["mock", "--script", &script.to_string()]);
        if script["http"]["port"].is_null() {
            command.args(["--listen", "0"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = Guarded(command.spawn().expect("the mock starts"));
        let mut line = String::new();
        let out = child.0.stdout.take().expect("piped");
        std::io::BufReader::new(out).read_line(&mut line).expect("it says where");
        let url = line.trim().strip_prefix("listening on ").expect("a play").to_owned();
        Self { _child: child, url }
    }
}

/// A process that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// Processes with this value of [`MARK`] in their environment that live, zombies left out.
pub fn marked(mark: &str) -> Vec<Process> {
    let wanted = format!("{MARK}={mark}");
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if !environment.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes()) {
            continue;
        }
        if is_zombie(pid) {
            continue;
        }
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&line).replace('\0', " ");
        found.push(Process { pid, command });
    }
    found
}

/// Whether a process lives; one that is dead and not yet reaped does not.
pub fn lives(pid: &str) -> bool {
    pid.parse().is_ok_and(|pid: u32| Path::new(&format!("/proc/{pid}")).exists() && !is_zombie(pid))
}

fn is_zombie(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

/// A figure of `/proc/PID/status` in bytes, for example `VmRSS` or `VmHWM`; 0 when unknown.
///
/// A child that was spawned a moment ago may still have the memory of these tests: `spawn` returns as
/// soon as the program to run is opened. Its figure is unknown until then.
pub fn memory(pid: u32, field: &str) -> u64 {
    let program = |of: &str| std::fs::read_link(format!("/proc/{of}/exe")).ok();
    if pid != std::process::id() && program(&pid.to_string()) == program("self") {
        return 0;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    let kilobytes = line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Sends a signal (`TERM`, `KILL`, `INT` ...) to one process.
pub fn kill(pid: u32, signal: &str) {
    let _ = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
}

/// The folder of the installed published servers: `MCPDECK_REAL_SERVERS`, or
/// `fixtures/real-servers` when they are installed there. `None` means that the test is skipped,
/// which it says; with `MCPDECK_REQUIRE_REAL_SERVERS` set it fails instead.
pub fn real_servers() -> Option<PathBuf> {
    let folder = std::env::var_os("MCPDECK_REAL_SERVERS")
        .map_or_else(|| repo("fixtures/real-servers"), PathBuf::from);
    // Both halves: what npm installs, and what pip does.
    let halves = ["node_modules/.mcpdeck-stamp", "venv/bin/mcp-server-git"];
    if halves.iter().all(|half| folder.join(half).exists()) {
        return Some(folder);
    }
    assert!(
        std::env::var_os("MCPDECK_REQUIRE_REAL_SERVERS").is_none(),
        "the published servers are not installed in {}",
        folder.display()
    );
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: no published servers; fixtures/real-servers/install.sh installs them"
    );
    None
}

/// The entries of the published servers as they are shipped, over a folder for their data: it gets
/// the text `hello.txt` and a `repository` with one commit. `None` as [`real_servers`] says.
pub fn published(data: &Path) -> Option<Value> {
    let servers = real_servers()?;
    std::fs::create_dir_all(data.join("repository")).expect("a folder");
    std::fs::write(data.join("hello.txt"), "Hello from the deck\nsecond line\n").expect("a file");
    git(&data.join("repository"), &["init", "--quiet", "--initial-branch=main"]);
    git(&data.join("repository"), &["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let text = std::fs::read_to_string(repo("fixtures/real-servers/mcp.json")).expect("shipped");
    let text = text
        .replace("${MCPDECK_REAL_SERVERS}", &servers.to_string_lossy())
        .replace("${MCPDECK_REAL_DATA}", &data.to_string_lossy());
    let options = jsonc_parser::ParseOptions::default();
    let root = jsonc_parser::cst::CstRootNode::parse(&text, &options).expect("JSON");
    Some(root.to_serde_value().expect("an object")["servers"].take())
}

/// Runs git in a folder, without what its user has configured.
pub fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=deck", "-c", "user.email=deck@example.org"])
        .args(args)
        .current_dir(folder)
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .env_remove("GIT_DIR")
        .stdout(Stdio::null())
        .status();
    assert!(done.is_ok_and(|status| status.success()), "git {args:?}");
}
