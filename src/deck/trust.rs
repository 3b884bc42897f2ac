//! Trust in what a configuration runs (rows C5 and C6 of the fault catalogue): approved once by the
//! user, stored by content, per file. A pulled branch cannot run anything new unreviewed.
//!
//! Approvals are stored in the user's state folder, never in the project. Values of the environment
//! and of headers are stored as salted hashes. A value that the file takes from the user's
//! variables or answers is compared as written: a renewed token is not a new command.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use base::file::{file_key, hex};
use base::pointer::child_pointer;
use base::secret::MASK;
use base::state::{StateFile, StateFolder};
use base::text::path::spelled;
use base::{SafeText, ServerName};
use config::{
    Diagnostic, Environment, Hold, InputNeed, Loaded, McpConfig, Origins, Position, ServerConfig,
    Severity, TransportConfig, dangers, is_hidden, masked_address, masked_arguments,
};
use process::Launch;

/// Version of the store; with any other version nothing counts as approved.
const FORMAT_VERSION: u32 = 3;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The store of approvals: one file for each configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustStore {
    /// `None` without a state folder.
    folder: Option<PathBuf>,
    cwd: PathBuf,
    /// Approvals until the program ends, unsalted, by file and server.
    session: BTreeMap<(PathBuf, ServerName), ApprovedContent>,
}

/// The approvals for one configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Approvals {
    version: u32,
    /// Spelled by [`spelled`]; the name of the store's file distinguishes equal spellings.
    file: String,
    salt: String,
    servers: BTreeMap<ServerName, ApprovedContent>,
}

impl TrustStore {
    /// The store of the user. `None` without a state folder.
    pub fn from_env(env: &Environment) -> Option<Self> {
        env.state_dir.as_ref()?;
        Some(Self::or_session(env))
    }

    /// The store of the user; without a state folder, approvals last until the program ends.
    pub fn or_session(env: &Environment) -> Self {
        let folder = env.state_dir.as_ref().map(|state| state.join("trust"));
        Self { folder, cwd: env.cwd.clone(), session: BTreeMap::new() }
    }

    /// The review of every server that comes from a file, in file order. Servers named on the
    /// command line need no approval and are left out.
    pub fn review(&self, loaded: &Loaded) -> Vec<Review> {
        let mut known: BTreeMap<PathBuf, Approvals> = BTreeMap::new();
        let from_files = loaded.config.servers.values().filter(|s| has_file(s));
        from_files
            .map(|server| {
                let file = self.absolute(&server.at.file);
                let kept = known.entry(file.clone()).or_insert_with(|| self.read(&file));
                let salted = ApprovedContent::from_entry(server, &loaded.origins, &kept.salt);
                let unsalted = ApprovedContent::from_entry(server, &loaded.origins, "");
                let kept =
                    kept.servers.get(&server.name).map(|kept| TrustVerdict::compare(kept, &salted));
                let here = self.session.get(&(file, server.name.clone()));
                let here = here.map(|here| TrustVerdict::compare(here, &unsalted));
                // Approved in either store is approved; known to either store is not new.
                let verdict = match kept {
                    Some(TrustVerdict::Approved) => TrustVerdict::Approved,
                    kept => here.or(kept).unwrap_or(TrustVerdict::New),
                };
                Review::new(server, &unsalted, verdict)
            })
            .collect()
    }

    /// The servers that may not be started yet.
    pub fn unapproved(&self, loaded: &Loaded) -> Vec<Review> {
        self.review(loaded).into_iter().filter(|r| r.verdict != TrustVerdict::Approved).collect()
    }

    /// The same as errors of the configuration, for `--require-trust`.
    pub fn diagnostics(&self, loaded: &Loaded) -> Vec<Diagnostic> {
        self.unapproved(loaded)
            .into_iter()
            .map(|review| {
                let why = match &review.verdict {
                    TrustVerdict::Changed(fields) => {
                        let names: Vec<&str> = fields.iter().map(|f| f.field.as_str()).collect();
                        format!("has changed since it was approved ({})", names.join(", "))
                    }
                    _ => "was never approved".to_owned(),
                };
                let message = format!("`{}` {why}", review.server);
                let verb =
                    format!("mcpdeck trust approve {}", SafeText::line(review.server.as_str()));
                let help = format!("look at it and approve it in the dashboard, or with `{verb}`");
                Diagnostic {
                    at: review.at,
                    server: Some(review.server),
                    help: Some(help),
                    ..Diagnostic::new("trust/unapproved", Severity::Error, message)
                }
            })
            .collect()
    }

    /// Approves servers as they are loaded now.
    ///
    /// # Errors
    /// When the store cannot be written; nothing is approved then.
    pub fn approve(&self, loaded: &Loaded, servers: &[ServerName]) -> io::Result<()> {
        for (file, servers) in self.by_file(loaded, servers) {
            self.change(&file, |approvals| {
                for server in servers {
                    let content =
                        ApprovedContent::from_entry(server, &loaded.origins, &approvals.salt);
                    approvals.servers.insert(server.name.clone(), content);
                }
                true
            })?;
        }
        Ok(())
    }

    /// Changes the approvals for a file under a lock: another window may approve concurrently.
    /// Returns what `change` returns: whether there is anything to write.
    fn change(&self, file: &Path, change: impl FnOnce(&mut Approvals) -> bool) -> io::Result<bool> {
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, "there is no folder to keep it in");
        let kept = self.approvals_file(file).ok_or_else(missing)?;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", spelled(kept.path())))
        };
        kept.change(
            |bytes| Approvals::parse(bytes, file),
            |approvals| {
                let mut approvals = approvals.unwrap_or_else(|| Approvals::none(file));
                if !change(&mut approvals) {
                    return Ok(None);
                }
                serde_json::to_vec_pretty(&approvals).map(Some).map_err(io::Error::other)
            },
        )
        .map_err(named)
    }

    /// Approves servers as they are loaded now, until the program ends: nothing is written.
    pub fn approve_for_session(&mut self, loaded: &Loaded, servers: &[ServerName]) {
        for (file, servers) in self.by_file(loaded, servers) {
            for server in servers {
                let content = ApprovedContent::from_entry(server, &loaded.origins, "");
                self.session.insert((file.clone(), server.name.clone()), content);
            }
        }
    }

    fn by_file<'l>(
        &self,
        loaded: &'l Loaded,
        servers: &[ServerName],
    ) -> BTreeMap<PathBuf, Vec<&'l ServerConfig>> {
        let mut out: BTreeMap<PathBuf, Vec<&ServerConfig>> = BTreeMap::new();
        for server in servers.iter().filter_map(|name| loaded.config.servers.get(name)) {
            if has_file(server) {
                out.entry(self.absolute(&server.at.file)).or_default().push(server);
            }
        }
        out
    }

    /// Revokes an approval; returns whether there was one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn revoke(&self, file: &Path, server: &ServerName) -> io::Result<bool> {
        self.change(&self.absolute(file), |approvals| approvals.servers.remove(server).is_some())
    }

    /// The servers approved for a file.
    pub fn approved(&self, file: &Path) -> Vec<ServerName> {
        self.read(&self.absolute(file)).servers.into_keys().collect()
    }

    /// The files that hold the approvals for what was loaded.
    pub(super) fn files(&self, loaded: &Loaded) -> Vec<PathBuf> {
        let servers = loaded.config.servers.values().filter(|server| has_file(server));
        let files: BTreeSet<PathBuf> =
            servers.map(|server| self.absolute(&server.at.file)).collect();
        let kept = files.iter().filter_map(|file| self.approvals_file(file));
        kept.map(|kept| kept.path().to_owned()).collect()
    }

    fn absolute(&self, file: &Path) -> PathBuf {
        config::clean_path(&self.cwd.join(file))
    }

    /// The file that stores the approvals for a configuration file.
    fn approvals_file(&self, file: &Path) -> Option<StateFile> {
        let name = file_key(file);
        let folder = StateFolder::new(self.folder.as_ref()?);
        Some(folder.file(&format!("{name}.json"), MAX_FILE_BYTES).of_rights())
    }

    /// Reads the approvals for a file; an unusable store counts as nothing approved.
    fn read(&self, file: &Path) -> Approvals {
        let kept =
            self.approvals_file(file).and_then(|kept| kept.load(|b| Approvals::parse(b, file)));
        kept.unwrap_or_else(|| Approvals::none(file))
    }
}

impl Approvals {
    fn none(file: &Path) -> Self {
        Self {
            version: FORMAT_VERSION,
            file: spelled(file).into_owned(),
            salt: format!("{:032x}{:032x}", fastrand::u128(..), fastrand::u128(..)),
            servers: BTreeMap::new(),
        }
    }

    fn parse(bytes: &[u8], file: &Path) -> Result<Self, String> {
        let all: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match all {
            all if all.version != FORMAT_VERSION => Err(format!("it has format {}", all.version)),
            all if all.file != spelled(file) => Err("it is about another file".to_owned()),
            all if all.salt.len() < 32 => Err("it has no salt".to_owned()),
            all => Ok(all),
        }
    }
}

fn has_file(server: &ServerConfig) -> bool {
    !server.at.file.as_os_str().is_empty()
}

// The part of an entry that is approved: everything that decides what runs and what it receives.

/// The settings of a server that are approved, by their names in the file, in the order in which
/// they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ApprovedContent(IndexMap<String, Setting>);

/// One approved setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Setting {
    /// Its value for display: escaped, secrets masked.
    shown: String,
    /// Hash of its value, masked parts included.
    hash: String,
}

impl ApprovedContent {
    /// The content of an entry, its hashes with this salt.
    fn from_entry(server: &ServerConfig, origins: &Origins, salt: &str) -> Self {
        let base = child_pointer("/servers", server.name.as_str());
        let written = |pointer: &str| origins.get(&format!("{base}{pointer}"))?.template();
        let mut all = IndexMap::new();
        // A value that depends on the user's variables is compared as written.
        let mut put = |name: String, pointer: &str, value: &str, shown: &dyn Fn(&str) -> String| {
            let template = written(pointer);
            let kind = if template.is_some() { "written" } else { "value" };
            let value = template.unwrap_or(value);
            let hash = digest(&[salt, &name, kind, value]);
            all.insert(name, Setting { shown: escaped(&shown(value)), hash });
        };
        let plain = |value: &str| value.to_owned();
        let hidden = |_: &str| MASK.to_owned();
        put("type".to_owned(), "", server.transport.kind().as_str(), &plain);
        match &server.transport {
            TransportConfig::Stdio(stdio) => {
                put("command".to_owned(), "/command", &stdio.command, &masked_address);
                let args = stdio.args.iter().enumerate();
                let args = args.map(|(i, arg)| written(&format!("/args/{i}")).unwrap_or(arg));
                let args: Vec<String> = args.map(str::to_owned).collect();
                let shown = masked_arguments(&args);
                for (i, (arg, masked)) in stdio.args.iter().zip(shown).enumerate() {
                    put(format!("args[{i}]"), &format!("/args/{i}"), arg, &|_| masked.clone());
                }
                if let Some(cwd) = &stdio.cwd {
                    put("cwd".to_owned(), "/cwd", &cwd.display().to_string(), &plain);
                }
                if stdio.inherit_env {
                    put("inheritEnv".to_owned(), "", "true", &plain);
                }
                for (name, value) in &stdio.env {
                    put(
                        format!("env.{name}"),
                        &child_pointer("/env", name),
                        value.expose(),
                        &hidden,
                    );
                }
            }
            other => {
                let Some(http) = other.http() else { return Self(all) };
                if let TransportConfig::OpenApi(api) = other {
                    let pointer = "/openapi";
                    put("openapi".to_owned(), pointer, &api.document.text(), &masked_address);
                }
                put("url".to_owned(), "/url", http.url.as_str(), &masked_address);
                for (name, value) in &http.headers {
                    let pointer = child_pointer("/headers", name);
                    put(format!("headers.{name}"), &pointer, value.expose(), &hidden);
                }
            }
        }
        let build = server.dev.iter().flat_map(|dev| &dev.build).flatten().enumerate();
        for (i, word) in build {
            put(format!("dev.build[{i}]"), "", word, &plain);
        }
        Self(all)
    }

    /// A hash to compare contents.
    fn hash(&self) -> String {
        let parts = self.0.iter().flat_map(|(name, setting)| [name.as_str(), &setting.hash]);
        digest(&parts.collect::<Vec<_>>())
    }
}

/// Hashes words with their lengths, so that moving a word boundary changes the hash.
fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize())
}

// What the user is shown before a server may run: the whole command line, nothing hidden.

/// One server to decide on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// The server.
    pub server: ServerName,
    /// Position of its entry.
    pub at: Position,
    /// Whether it is approved.
    pub verdict: TrustVerdict,
    /// Label and value of everything that is approved, untruncated, safe to display: each argument
    /// on its own line, escaped so that white space, empty and hidden parts show.
    pub shown: Vec<(String, String)>,
    /// Reasons for caution, safe to display.
    pub dangers: Vec<String>,
    /// Hash to check that another review shows the same, masked values included. Not for storage.
    pub shown_hash: String,
}

/// The approval state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustVerdict {
    /// Approved as it is now.
    Approved,
    /// Never approved for this file.
    New,
    /// Changed since it was approved.
    Changed(Vec<ApprovalChange>),
}

/// One difference from what was approved. Values are escaped; for values of the environment and of
/// headers, only the fact that they differ is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalChange {
    /// Setting, as in the file, for example `args[1]` or `env.PATH`.
    pub field: String,
    /// The approved value; `None` if it was absent.
    pub before: Option<String>,
    /// The current value; `None` if it was removed.
    pub after: Option<String>,
}

impl TrustVerdict {
    fn compare(before: &ApprovedContent, now: &ApprovedContent) -> Self {
        if before == now { Self::Approved } else { Self::Changed(changes(before, now)) }
    }
}

impl Review {
    fn new(server: &ServerConfig, now: &ApprovedContent, verdict: TrustVerdict) -> Self {
        Self {
            server: server.name.clone(),
            at: server.at.clone(),
            verdict,
            shown: now
                .0
                .iter()
                .map(|(name, setting)| (escape_hidden(name), setting.shown.clone()))
                .collect(),
            dangers: dangers(server)
                .iter()
                .chain(&relative(server))
                .map(|danger| escape_hidden(danger))
                .collect(),
            shown_hash: now.hash(),
        }
    }
}

/// Warns of a bare command that a relative folder of PATH resolves, often in a project of others.
fn relative(server: &ServerConfig) -> Option<String> {
    let TransportConfig::Stdio(stdio) = &server.transport else { return None };
    if stdio.command.contains(std::path::is_separator) {
        return None;
    }
    let launch = process::resolve(stdio).ok().filter(Launch::is_found_relatively)?;
    let (command, program) = (&stdio.command, launch.program.display());
    Some(format!("a relative folder of PATH resolves `{command}` to {program}"))
}

fn changes(
    ApprovedContent(old): &ApprovedContent,
    ApprovedContent(new): &ApprovedContent,
) -> Vec<ApprovalChange> {
    let added = new.keys().filter(|name| !old.contains_key(*name));
    let differing = old.keys().chain(added).filter(|name| old.get(*name) != new.get(*name));
    let change = |name: &String| {
        let side = |setting: Option<&Setting>, hidden: &str| {
            let text = |s: &Setting| if s.shown == MASK { hidden } else { &*s.shown }.to_owned();
            setting.map(text)
        };
        let before = side(old.get(name), "a value");
        let mut after = side(new.get(name), "another value");
        if let Some(after) = after.as_mut().filter(|after| Some(&**after) == before.as_ref()) {
            // Only what is masked differs.
            after.push_str(" (another)");
        }
        ApprovalChange { field: escape_hidden(name), before, after }
    };
    differing.map(change).collect()
}

/// Escapes a word of a command line for visual review: in quotes when it is empty or contains white
/// space or quotes, hidden and control characters as `\u{...}`, never truncated.
pub fn escaped(word: &str) -> String {
    let plain = !word.is_empty()
        && !word.chars().any(|c| c.is_whitespace() || c == '"' || c == '\\' || is_hidden(c));
    if plain {
        return word.to_owned();
    }
    let mut out = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' | '\n' | '\r' | '\t' => out.extend(c.escape_default()),
            c if is_hidden(c) || (c.is_whitespace() && c != ' ') => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Escapes the hidden characters of a text.
fn escape_hidden(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

// Decides what of a loaded configuration may run now: nothing that the user has not approved,
// nothing that waits for an input. Neither asks the user nor starts anything.
//
// Every server stays in the configuration, so that it is shown; one that may not run is held
// ([`Hold`]). An approved server whose entry changed into something unapproved keeps running as
// approved until the user decides.

/// What decides about approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustGate {
    /// Everything in the files may run, without approval (`--trust`).
    Open,
    /// What the user approved, according to the store.
    Guarded(TrustStore),
}

/// A server that awaits approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Awaiting {
    /// The review to show.
    pub review: Review,
    /// Whether it keeps running as approved before.
    pub runs_as_before: bool,
    /// Whether its entry is disabled: the user is not asked until it is enabled.
    pub disabled: bool,
    /// Its working directory, if that is not the folder of its file.
    pub elsewhere: Option<PathBuf>,
}

/// A configuration that went through the gate.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Passed {
    /// What to run: every server, some of them held.
    pub config: McpConfig,
    /// Servers that await approval, in file order.
    pub awaiting: Vec<Awaiting>,
    /// Inputs without an answer.
    pub needs: Vec<InputNeed>,
    /// What was reviewed: approvals apply to this and nothing newer.
    pub reviewed: Loaded,
}

impl TrustGate {
    /// Applies the gate to `loaded`, which was loaded in `env`. `running` is what runs now.
    pub fn pass(&self, loaded: Loaded, env: &Environment, running: Option<&McpConfig>) -> Passed {
        let needs = loaded.needs.clone();
        let reviewed = loaded.with_waiting();
        let mut config = reviewed.config.clone();
        let mut awaiting = Vec::new();
        let unapproved = match self {
            Self::Open => Vec::new(),
            Self::Guarded(store) => store.unapproved(&reviewed),
        };
        for review in unapproved {
            let Some(server) = config.servers.get_mut(&review.server) else { continue };
            let disabled = server.disabled;
            let before = running.and_then(|config| config.servers.get(&review.server));
            let kept = before.filter(|before| may_stay(before, server));
            let runs_as_before = kept.is_some();
            let elsewhere = elsewhere(server, env);
            match kept {
                Some(kept) => *server = ServerConfig { at: server.at.clone(), ..kept.clone() },
                None => server.hold = Some(Hold::Approval),
            }
            awaiting.push(Awaiting { review, runs_as_before, disabled, elsewhere });
        }
        config.warnings.clone_from(&reviewed.diagnostics);
        let warning =
            |need: &InputNeed| Diagnostic { severity: Severity::Warning, ..need.problem.clone() };
        config.warnings.extend(needs.iter().map(warning));
        config.warnings.dedup();
        Passed { config, awaiting, needs, reviewed }
    }
}

fn elsewhere(server: &ServerConfig, env: &Environment) -> Option<PathBuf> {
    let TransportConfig::Stdio(stdio) = &server.transport else { return None };
    let cwd = env.absolute(stdio.cwd.as_ref()?);
    let own = env.absolute(&server.at.file);
    (own.parent() != Some(&cwd)).then_some(cwd)
}

/// Whether a server may keep running as approved although its entry has changed.
fn may_stay(before: &ServerConfig, now: &ServerConfig) -> bool {
    // A disabled server stops at once, and changed dependencies need a new start order.
    before.hold.is_none()
        && !before.disabled
        && !now.disabled
        && before.dependencies == now.dependencies
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ServerName;
    use base::secret::Secret;
    use config::load;

    struct Setup {
        dir: tempfile::TempDir,
        env: Environment,
        gate: TrustGate,
        running: Option<McpConfig>,
    }

    impl Setup {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let env = Environment {
                cwd: dir.path().to_path_buf(),
                state_dir: Some(dir.path().join("state")),
                ..Environment::default()
            };
            let gate = TrustGate::Guarded(TrustStore::or_session(&env));
            Self { dir, env, gate, running: None }
        }

        fn pass(&mut self, text: &str) -> Passed {
            let files = [self.dir.path().join("mcp.json")];
            std::fs::write(&files[0], text).expect("written");
            let loaded = load(&files, &self.env).expect("loads");
            let passed = self.gate.pass(loaded, &self.env, self.running.as_ref());
            self.running = Some(passed.config.clone());
            passed
        }

        fn approve(&mut self, passed: &Passed, names: &[&str]) {
            let names: Vec<ServerName> = names.iter().map(|n| ServerName::new(n)).collect();
            let TrustGate::Guarded(store) = &mut self.gate else { return };
            store.approve(&passed.reviewed, &names).expect("kept");
        }
    }

    fn holds(passed: &Passed) -> Vec<(&str, String)> {
        let servers = passed.config.servers.values();
        servers
            .map(|s| (s.name.as_str(), s.hold.as_ref().map_or_else(String::new, Hold::to_string)))
            .collect()
    }

    fn args(passed: &Passed, name: &str) -> Vec<String> {
        match &passed.config.servers[name].transport {
            TransportConfig::Stdio(stdio) => stdio.args.clone(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn nothing_unapproved_runs_and_what_was_approved_runs_on_when_its_entry_changes() {
        let mut setup = Setup::new();
        let one = r#"{"servers":{"a":{"command":"x","args":["1"]},"b":{"command":"y"}}}"#;
        let passed = setup.pass(one);
        let wait = "awaiting your approval".to_owned();
        assert_eq!(holds(&passed), [("a", wait.clone()), ("b", wait.clone())]);
        setup.approve(&passed, &["a"]);
        assert_eq!(holds(&setup.pass(one)), [("a", String::new()), ("b", wait.clone())]);

        let two = r#"{"servers":{"a":{"command":"x","args":["2"]},"b":{"command":"y"}}}"#;
        let passed = setup.pass(two);
        assert_eq!(holds(&passed), [("a", String::new()), ("b", wait.clone())]);
        assert_eq!(args(&passed, "a"), ["1"], "the approved command line, not the new one");
        assert!(passed.awaiting[0].runs_as_before && !passed.awaiting[1].runs_as_before);
        assert_eq!(args(&setup.pass(two), "a"), ["1"], "and again");
        setup.approve(&passed, &["a"]);
        assert_eq!(args(&setup.pass(two), "a"), ["2"]);

        let off = r#"{"servers":{"a":{"command":"evil","disabled":true}}}"#;
        let passed = setup.pass(off);
        assert_eq!(holds(&passed), [("a", wait)], "switched off stops at once, and stays shut");
        assert!(passed.awaiting[0].disabled);
    }

    #[test]
    fn what_runs_before_a_restart_of_the_program_is_not_assumed() {
        let mut setup = Setup::new();
        let passed = setup.pass(r#"{"servers":{"a":{"command":"x"}}}"#);
        setup.approve(&passed, &["a"]);
        setup.running = None;
        let passed = setup.pass(r#"{"servers":{"a":{"command":"evil"}}}"#);
        assert_eq!(holds(&passed)[0].1, "awaiting your approval");
    }

    #[test]
    fn servers_that_need_an_input_are_shown_and_wait_for_it_and_the_others_do_not() {
        let mut setup = Setup::new();
        let text = r#"{"inputs":[{"id":"k","type":"promptString"},
                {"id":"h","type":"pickString","options":["a","b"]}],
            "servers":{
                "arg":{"command":"x","args":["--key","${input:k}"]},
                "env":{"command":"x","env":{"T":"${input:h}"}},
                "url":{"url":"https://${input:h}/mcp"},
                "free":{"command":"y"},
                "after":{"command":"z","dependencies":["arg"]},
                "off":{"command":"x","args":["${input:k}"],"disabled":true}}}"#;
        setup.gate = TrustGate::Open;
        let passed = setup.pass(text);
        let input = |id: &str| format!("waiting for input `{id}`");
        assert_eq!(
            holds(&passed),
            [
                ("arg", input("k")),
                ("env", input("h")),
                ("url", input("h")),
                ("free", String::new()),
                ("after", String::new()),
                ("off", input("k")),
            ]
        );
        assert_eq!(passed.needs.len(), 2);
        assert!(passed.config.warnings.iter().all(|d| !d.is_error()));
        setup.env.inputs.insert("k".into(), Secret::new("typed"));
        let passed = setup.pass(text);
        assert_eq!(args(&passed, "arg"), ["--key", "typed"]);
        assert_eq!(holds(&passed)[0].1, "");
        setup.env.inputs.insert("h".into(), Secret::new("a"));
        assert!(setup.pass(text).config.servers.values().all(|s| s.hold.is_none()));
    }

    #[test]
    fn an_approval_given_before_an_input_is_answered_holds_afterwards() {
        let mut setup = Setup::new();
        let text = r#"{"inputs":[{"id":"k","type":"promptString"}],
            "servers":{"a":{"command":"x","args":["${input:k}"],"cwd":"${input:k}"}}}"#;
        let passed = setup.pass(text);
        assert_eq!(holds(&passed)[0].1, "awaiting your approval", "before the input is asked for");
        setup.approve(&passed, &["a"]);
        assert_eq!(holds(&setup.pass(text))[0].1, "waiting for input `k`");
        setup.env.inputs.insert("k".into(), Secret::new("sub"));
        assert_eq!(holds(&setup.pass(text))[0].1, "");
    }
}
