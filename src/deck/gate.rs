//! What of a loaded configuration may run now: nothing that the person has not approved, nothing
//! that waits for an input. Decides; asks nobody and starts nothing.
//!
//! Every server stays in the configuration, so that it is seen; one that may not run is held
//! ([`Hold`]). An approved server whose entry changed into something unapproved keeps running as
//! it was approved until the person has looked.

use std::path::PathBuf;

use crate::config::{
    Environment, Hold, InputNeed, Loaded, McpConfig, ServerConfig, Severity, TransportConfig,
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
    /// Lets `loaded`, which was loaded in `env`, through. `running` is what runs now.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ServerName;
    use crate::base::secret::Secret;
    use crate::config::load;

    struct Setup {
        dir: tempfile::TempDir,
        env: Environment,
        gate: Gate,
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
            let gate = Gate::Guarded(TrustStore::or_session(&env));
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
        setup.gate = Gate::Open;
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
