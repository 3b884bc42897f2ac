//! Sets a row up: its configuration, its servers over HTTP, the canaries.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use mcpdeck::mock::script::ServerScript;
use serde_json::{Value, json};

use super::disk::Disk;
use super::row::{Harm, HarmKind, Row, ServerPlan, random};
use super::support::{Bench, HttpMock, wait_for};
use super::tcp::TcpPlay;

/// A secret in the host's environment that no server may get.
pub static HOST_SECRET: LazyLock<String> = LazyLock::new(|| secret("host"));
/// A secret that the configuration passes to every server.
pub static CONFIG_SECRET: LazyLock<String> = LazyLock::new(|| secret("config"));

fn secret(of: &str) -> String {
    format!("canary-of-the-{of}-{:08x}", random(of).u32(..))
}

/// Both secrets.
pub fn secrets() -> [&'static str; 2] {
    [HOST_SECRET.as_str(), CONFIG_SECRET.as_str()]
}

/// A row ready to be played.
pub struct Stage {
    pub bench: Bench,
    pub config: PathBuf,
    pub log: PathBuf,
    /// The given files with their content, which must not change.
    given: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    /// A full or read-only file system.
    disk: Option<Disk>,
    /// Servers over HTTP live as long as the stage.
    _http: Vec<HttpPeer>,
}

/// A server that listens until dropped.
enum HttpPeer {
    Mock(#[expect(dead_code, reason = "it listens until it is dropped")] HttpMock),
    Bytes(#[expect(dead_code, reason = "it listens until it is dropped")] TcpPlay),
}

impl Stage {
    pub fn set(row: &Row) -> Self {
        let bench = Bench::new();
        let mut http = Vec::new();
        let disk = row.host.disk.as_ref().map(|plan| Disk::mount(plan).expect("a mounted disk"));
        let at = |text: &str| match &disk {
            Some(disk) => text.replace("@DISK@", &disk.path.to_string_lossy()),
            None => text.to_owned(),
        };
        let folder = row.host.folder_hex.as_deref().map_or_else(PathBuf::new, from_hex);
        let folder = bench.path().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.join(at(name));
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, at(text)).expect("a file");
            path
        };
        let servers = row.config.is_none().then(|| entries(row, &bench, &mut http));
        let reached = |text: &str| reached(servers.as_ref(), text);
        for (name, text) in &row.files {
            write(name, &reached(text));
        }
        let config = match (&row.config, &servers) {
            (None, Some(servers)) => {
                let servers = reached(&servers.to_string());
                bench.servers(&serde_json::from_str(&servers).expect("JSON"))
            }
            (text, _) => {
                let text = text.as_deref().unwrap_or_default();
                write("mcp.json", &text.replace("@MARK@", bench.mark()))
            }
        };
        let config = match (&disk, &row.host.disk) {
            (Some(disk), Some(plan)) if plan.configuration => {
                let there = disk.path.join("mcp.json");
                std::fs::copy(&config, &there).expect("room for it");
                there
            }
            _ => config,
        };
        let log = row.host.log_file.as_deref();
        let log = log.map_or_else(|| bench.path().join("log"), |path| at(path).into());
        let mut given = files(bench.path());
        if let (Some(disk), Some(plan)) = (&disk, &row.host.disk) {
            given.extend(files(&disk.path));
            disk.close(plan);
        }
        let given = Mutex::new(given);
        Self { bench, config, log, given, disk, _http: http }
    }

    /// Replaces `@DISK@` by the path of the row's file system.
    pub fn at(&self, text: &str) -> String {
        match &self.disk {
            Some(disk) => text.replace("@DISK@", &disk.path.to_string_lossy()),
            None => text.to_owned(),
        }
    }

    /// The state folder.
    pub fn state(&self) -> PathBuf {
        self.bench.path().join("state-of-the-row")
    }

    /// Replaces a text in a given file.
    pub fn edit(&mut self, name: &str, before: &str, after: &str) {
        let path = self.bench.path().join(name);
        let text = std::fs::read_to_string(&path).expect("a file of the row");
        assert!(text.contains(before), "{name} does not hold {before}");
        let text = text.replace(before, after);
        // Atomically, like most editors.
        let new = self.bench.path().join("edited");
        std::fs::write(&new, &text).expect("a file");
        std::fs::rename(new, &path).expect("a file of the row");
        self.given().insert(path, text.into_bytes());
    }

    fn given(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Vec<u8>>> {
        self.given.lock().expect("no panic holds it")
    }

    /// Does something to a file, and waits until the log tells of it.
    pub fn harm(&self, harm: &Harm) {
        let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
        let before = log().len();
        let path = self.find(&harm.file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        self.given().remove(&path);
        if !matches!(harm.how, HarmKind::Text(_) | HarmKind::Large(_) | HarmKind::Mode(_)) {
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
        } else if !path.symlink_metadata().is_ok_and(|meta| meta.is_file() || meta.is_dir()) {
            let _ = std::fs::remove_file(&path);
        }
        let link = |to: &Path| std::os::unix::fs::symlink(to, &path).expect("a link");
        match &harm.how {
            HarmKind::Text(text) => {
                let _ = std::fs::remove_dir(&path);
                std::fs::write(&path, text).expect("a file");
            }
            HarmKind::Large(bytes) => {
                let file = std::fs::File::options().create(true).append(true).open(&path);
                file.and_then(|file| file.set_len(*bytes)).expect("a file");
            }
            HarmKind::Mode(mode) => {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(*mode);
                std::fs::set_permissions(&path, mode).expect("a file");
            }
            HarmKind::Gone => {}
            HarmKind::Folder => std::fs::create_dir(&path).expect("a folder"),
            HarmKind::Pipe => {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.expect("mkfifo").success());
            }
            HarmKind::Link => {
                let precious = self.bench.path().join("precious");
                std::fs::write(&precious, "precious").expect("a file");
                link(&precious);
                self.given().insert(precious, b"precious".to_vec());
            }
            HarmKind::DanglingLink => link(Path::new("missing")),
        }
        if let Some(text) = &harm.logged {
            let what = format!("the log to tell of {harm:?}");
            wait_for(&what, Duration::from_secs(30), || {
                log().get(before..).is_some_and(|new| new.contains(text)).then_some(())
            });
        }
    }

    /// The file of this name, with one `*` in it.
    fn find(&self, name: &str) -> PathBuf {
        let path = self.bench.path().join(name);
        let Some((start, end)) = name.rsplit('/').next().and_then(|name| name.split_once('*'))
        else {
            return path;
        };
        let folder = path.parent().expect("a folder");
        let fits = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(start) && name.ends_with(end)
        };
        let entries = std::fs::read_dir(folder).expect("a folder").flatten();
        entries.map(|entry| entry.path()).find(fits).expect("a file of this name")
    }

    /// I2 and I8 on disk: the given files are unchanged, and no other file holds a secret. Also
    /// checks the command lines of live processes.
    pub fn flaws(&self, more: &[&Path]) -> Vec<String> {
        let mut flaws = self.disk.as_ref().map(Disk::flaws).unwrap_or_default();
        for (path, before) in &*self.given() {
            if std::fs::read(path).ok().as_ref() != Some(before) {
                flaws.push(format!("I2: {} was changed", path.display()));
            }
        }
        for folder in std::iter::once(self.bench.path()).chain(more.iter().copied()) {
            for (path, content) in files(folder) {
                if self.given().contains_key(&path) {
                    continue;
                }
                for secret in secrets() {
                    if memchr::memmem::find(&content, secret.as_bytes()).is_some() {
                        flaws.push(format!("I8: {secret} in {}", path.display()));
                    }
                }
            }
        }
        for process in self.bench.processes() {
            for secret in secrets() {
                if process.command.contains(secret) {
                    flaws.push(format!("I8: {secret} in the command line {}", process.command));
                }
            }
        }
        flaws
    }
}

fn from_hex(digits: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
    let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect();
    std::ffi::OsString::from_vec(bytes).into()
}

/// Every file below a folder, with its content.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&path)),
            Ok(kind) if kind.is_file() => {
                found.insert(path.clone(), std::fs::read(&path).unwrap_or_default());
            }
            _ => {}
        }
    }
    found
}

fn entries(row: &Row, bench: &Bench, http: &mut Vec<HttpPeer>) -> Value {
    let mut servers = json!({});
    if !row.host.alone {
        let well = json!({"tools": [{"name": "echo", "description": "Says it back to the caller",
            "inputSchema": {"type": "object", "properties": {
                "n": {"type": "integer", "description": "A number"},
                "note": {"type": "string", "description": "Some text"}}}}]});
        servers["well"] = bench.mock("well", &well, &json!({"shutdownTimeout": 3}));
    }
    for (name, plan) in &row.servers {
        let entry = entry(name, plan, bench, http);
        match plan.times {
            None => servers[name] = entry,
            Some(times) => {
                for number in 1..=times {
                    servers[format!("{name}-{number}")] = entry.clone();
                }
            }
        }
    }
    servers
}

/// A text with `@AT-NAME@` replaced by the origin of a server that listens.
fn reached(servers: Option<&Value>, text: &str) -> String {
    let servers = servers.and_then(Value::as_object).into_iter().flatten();
    servers.fold(text.to_owned(), |text, (name, entry)| match entry["url"].as_str() {
        Some(url) => text.replace(&format!("@AT-{name}@"), url.trim_end_matches("/mcp")),
        None => text,
    })
}

fn entry(name: &str, plan: &ServerPlan, bench: &Bench, http: &mut Vec<HttpPeer>) -> Value {
    if !plan.tcp.is_empty() {
        let play = TcpPlay::start(plan.tcp.clone());
        let mut entry = plan.entry.as_object().cloned().unwrap_or_default();
        let is_socket = plan.tcp.iter().any(|turn| turn.websocket);
        let url = if is_socket { play.url.replacen("http", "ws", 1) } else { play.url.clone() };
        entry.insert("url".to_owned(), url.into());
        http.push(HttpPeer::Bytes(play));
        return entry.into();
    }
    let mut more = json!({"env": {"CANARY_SECRET": CONFIG_SECRET.as_str()}});
    match (&plan.mock, plan.http) {
        (Some(script), true) => {
            let mock = HttpMock::start(script);
            let mut entry = plan.entry.as_object().cloned().unwrap_or_default();
            entry.insert("url".to_owned(), mock.url.clone().into());
            http.push(HttpPeer::Mock(mock));
            entry.into()
        }
        (Some(script), false) => {
            for (key, value) in plan.entry.as_object().into_iter().flatten() {
                if key == "env" {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        more["env"][name] = value.clone();
                    }
                } else {
                    more[key] = value.clone();
                }
            }
            // Checked first, so that a mistake in a row is not taken for a fault.
            ServerScript::parse(&script.to_string(), name)
                .unwrap_or_else(|error| panic!("{error}"));
            bench.mock(name, script, &more)
        }
        (None, _) => {
            let mut entry = plan.entry.clone();
            if entry.get("command").is_some() {
                entry["env"][super::support::MARK] = bench.mark().into();
            }
            entry
        }
    }
}

/// A listener that must not get a connection.
pub struct Canary {
    pub address: String,
    visits: Arc<AtomicUsize>,
}

impl Canary {
    pub fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("bound").to_string();
        let visits = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&visits);
        std::thread::spawn(move || {
            for _ in listener.incoming() {
                seen.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, visits }
    }

    pub fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}
