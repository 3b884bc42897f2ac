//! What of a loaded configuration may run now: nothing that the person has not approved, nothing
//! that waits for an input. Decides; asks nobody and starts nothing.
//!
//! Every server stays in the configuration, so that it is seen; one that may not run is held
//! ([`Hold`]). An approved server whose entry changed into something unapproved keeps running as
//! it was approved until the person has looked.

use std::path::PathBuf;

use crate::base::ServerName;
use crate::base::secret::Secret;
use crate::config::{
    Environment, Hold, InputNeed, Loaded, McpConfig, ServerConfig, Severity, TransportConfig, load,
};
use crate::deck::trust::{Review, TrustStore};

/// Whose word counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Everything a file names may run: whoever started the program said so (`--trust`).
    Open,
    /// What the person approved, as the store remembers it.
    Guarded(TrustStore),
}

/// A server that awaits approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaiting {
    /// What there is to look at.
    pub review: Review,
    /// It runs meanwhile as it was approved.
    pub runs_as_before: bool,
    /// Its entry is switched off: nothing is asked until it is wanted.
    pub disabled: bool,
    /// Where it would run, when that is not the folder of its file.
    pub elsewhere: Option<PathBuf>,
}

/// A configuration that went through the gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passed {
    /// What to run: every server, some of them held.
    pub config: McpConfig,
    /// Servers that await approval, in file order.
    pub awaiting: Vec<Awaiting>,
    /// Inputs without an answer.
    pub needs: Vec<InputNeed>,
    /// What was reviewed: approvals are for this and nothing newer.
    pub reviewed: Loaded,
}

impl Gate {
    /// Lets `loaded` through. `running` is what runs now. `files` and `env` are what it was loaded
    /// from: with inputs unanswered it is read once more, to show what waits for them.
    pub fn pass(
        &self,
        loaded: Loaded,
        (files, env): (&[PathBuf], &Environment),
        running: Option<&McpConfig>,
    ) -> Passed {
        let needs = loaded.needs.clone();
        let (mut reviewed, waiting) = with_waiting(loaded, files, env);
        let mut config = std::mem::take(&mut reviewed.config);
        for (name, input) in &waiting {
            if let Some(server) = config.servers.get_mut(name) {
                server.hold = Some(Hold::Input(input.clone()));
            }
        }
        reviewed.config = config.clone();
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
        config.warnings.extend(needs.iter().map(|need| {
            let mut problem = need.problem.clone();
            problem.severity = Severity::Warning;
            problem
        }));
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

/// Whether a server may run on as it was approved, although its entry is another now.
fn may_stay(before: &ServerConfig, now: &ServerConfig) -> bool {
    // What is switched off stops at once, and what waits for others is started in their order.
    before.hold.is_none()
        && !before.disabled
        && !now.disabled
        && before.dependencies == now.dependencies
}

/// Stand-ins for answers, the first that makes an entry readable is used. The first shows where the
/// answer will be; an address or a host name cannot hold it.
const STAND_INS: [fn(&str) -> String; 3] = [
    |id| format!("${{input:{id}}}"),
    |_| "unanswered".to_owned(),
    |_| "http://unanswered.invalid/".to_owned(),
];

/// The configuration with the servers that wait for an input in it, and those servers with the
/// input. A stand-in is never run: who uses one is held.
fn with_waiting(
    loaded: Loaded,
    files: &[PathBuf],
    env: &Environment,
) -> (Loaded, Vec<(ServerName, String)>) {
    let open: Vec<String> = loaded
        .config
        .inputs
        .iter()
        .map(|input| input.id.clone())
        .filter(|id| env.input(id).is_none())
        .collect();
    if open.is_empty() || loaded.left_out.is_empty() {
        return (loaded, Vec::new());
    }
    let mut whole: Option<Loaded> = None;
    for stand_in in STAND_INS {
        let mut env = env.clone();
        env.inputs.extend(open.iter().map(|id| (id.clone(), Secret::new(stand_in(id)))));
        let Ok(attempt) = load(files, &env) else { continue };
        let done = attempt.left_out.is_empty();
        match &mut whole {
            None => whole = Some(attempt),
            Some(whole) => take_missing(whole, attempt),
        }
        if done {
            break;
        }
    }
    let Some(mut whole) = whole else { return (loaded, Vec::new()) };
    let waiting: Vec<(ServerName, String)> = whole
        .config
        .servers
        .keys()
        .filter_map(|name| Some((name.clone(), first_open(&whole, name, &open)?)))
        .collect();
    // A server that another place of the file made usable meanwhile is not taken on trust.
    let usable = |name: &ServerName| {
        loaded.config.servers.contains_key(name) || waiting.iter().any(|(w, _)| w == name)
    };
    let depends = |server: &ServerConfig| {
        server.dependencies.iter().any(|d| !loaded.config.servers.contains_key(d))
    };
    whole.config.servers.retain(|name, server| usable(name) || depends(server));
    (whole, waiting)
}

/// Takes over servers that only this attempt could read.
fn take_missing(whole: &mut Loaded, attempt: Loaded) {
    let order: Vec<ServerName> =
        attempt.config.servers.keys().chain(&attempt.left_out).cloned().collect();
    for (name, server) in attempt.config.servers {
        if whole.config.servers.contains_key(&name) {
            continue;
        }
        let base = crate::config::problems::child("/servers", name.as_str());
        let inside = format!("{base}/");
        whole.origins.extend(
            attempt
                .origins
                .iter()
                .filter(|(pointer, _)| **pointer == base || pointer.starts_with(&inside))
                .map(|(pointer, origin)| (pointer.clone(), origin.clone())),
        );
        whole.diagnostics.retain(|d| d.server.as_ref() != Some(&name));
        whole.left_out.retain(|left| *left != name);
        whole.config.servers.insert(name, server);
    }
    let place = |name: &ServerName| order.iter().position(|o| o == name).unwrap_or(usize::MAX);
    whole.config.servers.sort_by(|a, _, b, _| place(a).cmp(&place(b)));
}

/// The first unanswered input a server uses.
fn first_open(whole: &Loaded, name: &ServerName, open: &[String]) -> Option<String> {
    let inside = format!("{}/", crate::config::problems::child("/servers", name.as_str()));
    let used: Vec<&String> = whole
        .origins
        .range(inside.clone()..)
        .take_while(|(pointer, _)| pointer.starts_with(&inside))
        .flat_map(|(_, origin)| &origin.via)
        .collect();
    let uses = |id: &str| used.iter().any(|via| via.strip_prefix("input:") == Some(id));
    open.iter().find(|id| uses(id)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Desk {
        dir: tempfile::TempDir,
        env: Environment,
        gate: Gate,
        running: Option<McpConfig>,
    }

    impl Desk {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let env = Environment {
                cwd: dir.path().to_path_buf(),
                state_dir: Some(dir.path().join("state")),
                ..Environment::default()
            };
            let gate = Gate::Guarded(TrustStore::or_session(&env));
            Self { dir, env, gate, running: None }
        }

        fn pass(&mut self, text: &str) -> Passed {
            let files = [self.dir.path().join("mcp.json")];
            std::fs::write(&files[0], text).expect("written");
            let loaded = load(&files, &self.env).expect("loads");
            let passed = self.gate.pass(loaded, (&files, &self.env), self.running.as_ref());
            self.running = Some(passed.config.clone());
            passed
        }

        fn approve(&mut self, passed: &Passed, names: &[&str]) {
            let names: Vec<ServerName> = names.iter().map(|n| ServerName::new(n)).collect();
            let Gate::Guarded(store) = &mut self.gate else { return };
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
        let mut desk = Desk::new();
        let one = r#"{"servers":{"a":{"command":"x","args":["1"]},"b":{"command":"y"}}}"#;
        let passed = desk.pass(one);
        let wait = "awaiting your approval".to_owned();
        assert_eq!(holds(&passed), [("a", wait.clone()), ("b", wait.clone())]);
        desk.approve(&passed, &["a"]);
        assert_eq!(holds(&desk.pass(one)), [("a", String::new()), ("b", wait.clone())]);

        let two = r#"{"servers":{"a":{"command":"x","args":["2"]},"b":{"command":"y"}}}"#;
        let passed = desk.pass(two);
        assert_eq!(holds(&passed), [("a", String::new()), ("b", wait.clone())]);
        assert_eq!(args(&passed, "a"), ["1"], "the approved command line, not the new one");
        assert!(passed.awaiting[0].runs_as_before && !passed.awaiting[1].runs_as_before);
        assert_eq!(args(&desk.pass(two), "a"), ["1"], "and again");
        desk.approve(&passed, &["a"]);
        assert_eq!(args(&desk.pass(two), "a"), ["2"]);

        let off = r#"{"servers":{"a":{"command":"evil","disabled":true}}}"#;
        let passed = desk.pass(off);
        assert_eq!(holds(&passed), [("a", wait)], "switched off stops at once, and stays shut");
        assert!(passed.awaiting[0].disabled);
    }

    #[test]
    fn what_runs_before_a_restart_of_the_program_is_not_assumed() {
        let mut desk = Desk::new();
        let passed = desk.pass(r#"{"servers":{"a":{"command":"x"}}}"#);
        desk.approve(&passed, &["a"]);
        desk.running = None;
        let passed = desk.pass(r#"{"servers":{"a":{"command":"evil"}}}"#);
        assert_eq!(holds(&passed)[0].1, "awaiting your approval");
    }

    #[test]
    fn servers_that_need_an_input_are_shown_and_wait_for_it_and_the_others_do_not() {
        let mut desk = Desk::new();
        let text = r#"{"inputs":[{"id":"k","type":"promptString"},
                {"id":"h","type":"pickString","options":["a","b"]}],
            "servers":{
                "arg":{"command":"x","args":["--key","${input:k}"]},
                "env":{"command":"x","env":{"T":"${input:h}"}},
                "url":{"url":"https://${input:h}/mcp"},
                "free":{"command":"y"},
                "after":{"command":"z","dependencies":["arg"]},
                "off":{"command":"x","args":["${input:k}"],"disabled":true}}}"#;
        desk.gate = Gate::Open;
        let passed = desk.pass(text);
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
        desk.env.inputs.insert("k".into(), Secret::new("typed"));
        let passed = desk.pass(text);
        assert_eq!(args(&passed, "arg"), ["--key", "typed"]);
        assert_eq!(holds(&passed)[0].1, "");
        desk.env.inputs.insert("h".into(), Secret::new("a"));
        assert!(desk.pass(text).config.servers.values().all(|s| s.hold.is_none()));
    }

    #[test]
    fn an_approval_given_before_an_input_is_answered_holds_afterwards() {
        let mut desk = Desk::new();
        let text = r#"{"inputs":[{"id":"k","type":"promptString"}],
            "servers":{"a":{"command":"x","args":["${input:k}"],"cwd":"${input:k}"}}}"#;
        let passed = desk.pass(text);
        assert_eq!(holds(&passed)[0].1, "awaiting your approval", "before the input is asked for");
        desk.approve(&passed, &["a"]);
        assert_eq!(holds(&desk.pass(text))[0].1, "waiting for input `k`");
        desk.env.inputs.insert("k".into(), Secret::new("sub"));
        assert_eq!(holds(&desk.pass(text))[0].1, "");
    }
}
