//! Trust in what a configuration runs: rows C5 and C6 of the fault catalogue, through the public
//! door.

use std::path::{Path, PathBuf};

use mcpdeck::base::ServerName;
use mcpdeck::base::secret::Secret;
use mcpdeck::config::{Environment, Loaded, Pairs, Sources, load_text};
use mcpdeck::deck::{TrustStore, TrustVerdict};
use tempfile::TempDir;

struct Setup {
    dir: TempDir,
    env: Environment,
    store: TrustStore,
}

impl Setup {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut env = Environment {
            cwd: dir.path().to_path_buf(),
            state_dir: Some(dir.path().join("state")),
            ..Environment::default()
        };
        env.vars.insert("TOKEN".into(), Secret::new("canary-from-variable"));
        env.vars.insert("OTHER".into(), Secret::new("other"));
        let store = TrustStore::from_env(&env).expect("a store");
        Self { dir, env, store }
    }

    fn load(&self, entry: &str) -> Loaded {
        let text = format!("{{\"servers\":{{\"a\":{entry}}}}}");
        load_text(Path::new("mcp.json"), &text, &self.env).expect("loads")
    }

    fn verdict(&self, entry: &str) -> TrustVerdict {
        self.store.review(&self.load(entry)).remove(0).verdict
    }

    fn approve(&self, entry: &str) {
        self.store.approve(&self.load(entry), &["a".into()]).expect("approved");
    }

    /// The fields that differ from what was approved, with both sides.
    fn changes(&self, entry: &str) -> Vec<String> {
        match self.verdict(entry) {
            TrustVerdict::Changed(fields) => fields
                .into_iter()
                .map(|f| {
                    let side = |s: Option<String>| s.unwrap_or_else(|| "-".into());
                    format!("{}: {} > {}", f.field, side(f.before), side(f.after))
                })
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    fn stored(&self) -> Vec<(PathBuf, String)> {
        std::fs::read_dir(self.dir.path().join("state/trust"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (path.clone(), std::fs::read_to_string(path).expect("text")))
            .collect()
    }
}

const ENTRY: &str = r#"{"command":"x","args":["1","2"],"env":{"A":"v"}}"#;

#[test]
fn what_was_approved_stays_approved_and_nothing_else_is() {
    let setup = Setup::new();
    assert_eq!(setup.verdict(ENTRY), TrustVerdict::New);
    setup.approve(ENTRY);
    assert_eq!(setup.verdict(ENTRY), TrustVerdict::Approved);
    let again = TrustStore::from_env(&setup.env).expect("a store");
    assert!(again.unapproved(&setup.load(ENTRY)).is_empty(), "remembered beyond the process");
    let other = Path::new("elsewhere/mcp.json");
    let text = format!("{{\"servers\":{{\"a\":{ENTRY}}}}}");
    std::fs::create_dir(setup.dir.path().join("elsewhere")).expect("made");
    let elsewhere = load_text(other, &text, &setup.env).expect("loads");
    assert_eq!(setup.store.unapproved(&elsewhere).len(), 1, "approval is for one file");
}

#[test]
fn every_swap_behind_an_approved_name_needs_another_look() {
    let setup = Setup::new();
    setup.approve(ENTRY);
    for (entry, change) in [
        (r#"{"command":"y","args":["1","2"],"env":{"A":"v"}}"#, "command: x > y"),
        (r#"{"command":"x","args":["2","1"],"env":{"A":"v"}}"#, "args[0]: 1 > 2"),
        (r#"{"command":"x","args":["1"],"env":{"A":"v"}}"#, "args[1]: 2 > -"),
        (r#"{"command":"x","args":["1","2"],"env":{"A":"w"}}"#, "env.A: a value > another value"),
        (r#"{"command":"x","args":["1","2"],"env":{"A":"v","B":"1"}}"#, "env.B: - > another value"),
        (
            r#"{"command":"x","args":["1","2"],"env":{"A":"v"},"inheritEnv":true}"#,
            "inheritEnv: - > true",
        ),
        (
            r#"{"command":"x","args":["1","2"],"env":{"A":"v"},"dev":{"build":["evil"]}}"#,
            "dev.build[0]: - > evil",
        ),
        (r#"{"url":"http://localhost/"}"#, "type: stdio > http"),
    ] {
        assert_eq!(setup.changes(entry).first().map(String::as_str), Some(change), "{entry}");
        assert!(!setup.store.diagnostics(&setup.load(entry)).is_empty());
    }
    let moved = r#"{"command":"x","args":["1","2"],"env":{"A":"v"},"cwd":"sub"}"#;
    assert!(setup.changes(moved)[0].starts_with("cwd: "));
    setup.approve(r#"{"url":"https://h/1","headers":{"K":"1"}}"#);
    assert_eq!(
        setup.changes(r#"{"url":"https://h/2","headers":{"K":"2"}}"#),
        ["url: https://h/1 > https://h/2", "headers.K: a value > another value"]
    );
}

#[test]
fn a_swapped_secret_argument_is_seen_and_not_shown() {
    let setup = Setup::new();
    setup.approve(r#"{"command":"x","args":["--token","canary-one"]}"#);
    let changes = setup.changes(r#"{"command":"x","args":["--token","canary-two"]}"#);
    assert_eq!(changes, ["args[1]: a value > another value"]);
    setup.approve(r#"{"url":"https://h/?token=canary-one"}"#);
    let changes = setup.changes(r#"{"url":"https://h/?token=canary-two"}"#);
    assert_eq!(changes, ["url: https://h/?token=*** > https://h/?token=*** (another)"]);
}

#[test]
fn a_renewed_variable_is_no_new_command_but_another_variable_is() {
    let mut setup = Setup::new();
    let entry = r#"{"command":"x","args":["${TOKEN}"],"env":{"T":"${TOKEN}"}}"#;
    setup.approve(entry);
    setup.env.vars.insert("TOKEN".into(), Secret::new("renewed"));
    assert_eq!(setup.verdict(entry), TrustVerdict::Approved);
    let swapped = r#"{"command":"x","args":["${TOKEN}"],"env":{"T":"${OTHER}"}}"#;
    assert_eq!(setup.changes(swapped), ["env.T: a value > another value"]);
    let literal = r#"{"command":"x","args":["${TOKEN}"],"env":{"T":"renewed"}}"#;
    assert_eq!(setup.changes(literal), ["env.T: a value > another value"]);
}

#[test]
fn a_renewed_secret_of_the_user_is_not_a_new_command() {
    let mut setup = Setup::new();
    let entry = r#"{"command":"x","args":["--key=${secret:key}"],
        "env":{"A":"${keyring:key}","B":"${cmd:op:key}"}}"#;
    setup.env.sources = Sources::new(|_, _| Ok(Secret::new("first")));
    setup.approve(entry);
    setup.env.sources = Sources::new(|_, _| Ok(Secret::new("renewed")));
    assert_eq!(setup.verdict(entry), TrustVerdict::Approved);
    let other = entry.replace("cmd:op:key", "cmd:op:other");
    assert_eq!(setup.changes(&other), ["env.B: a value > another value"]);
}

#[test]
fn no_secret_reaches_the_store() {
    let setup = Setup::new();
    setup.approve(
        r#"{"command":"x","args":["--api-key=canary-arg","--password","canary-next","${TOKEN}",
            "https://u:canary-url@h/?token=canary-query",
            "--dsn=postgres://u:canary-dsn@h/db"],"env":{"K":"canary-env"}}"#,
    );
    let stored = setup.stored();
    assert_eq!(stored.len(), 1);
    assert!(!stored[0].1.contains("canary"), "{}", stored[0].1);
}

#[test]
fn a_damaged_or_foreign_store_approves_nothing_and_can_be_written_anew() {
    let setup = Setup::new();
    setup.approve(ENTRY);
    let (path, text) = setup.stored().remove(0);
    for damaged in [
        "",
        "{",
        "[]",
        &text.replace("mcp.json", "other.json"),
        &text.replace("\"version\": 3", "\"version\": 2"),
    ] {
        std::fs::write(&path, damaged).expect("written");
        assert_eq!(setup.verdict(ENTRY), TrustVerdict::New, "{damaged}");
    }
    setup.approve(ENTRY);
    assert_eq!(setup.verdict(ENTRY), TrustVerdict::Approved);
}

#[test]
fn words_that_move_from_one_list_to_another_are_another_command() {
    let entry = |args: &str, build: &str| {
        format!(
            "{{\"command\":\"npm\",\"args\":{args},\"dev\":{{\"watch\":[],\"build\":{build}}}}}"
        )
    };
    let none = |args: &str| format!("{{\"command\":\"npm\",\"args\":{args}}}");
    for (before, after) in [
        (none(r#"["run","build","x"]"#), entry(r#"["run"]"#, r#"["x","build"]"#)),
        (entry(r#"["a"]"#, r#"["b"]"#), none(r#"["a","b"]"#)),
        (none(r#"["ab","c"]"#), none(r#"["a","bc"]"#)),
        (none(r#"["a","env"]"#), none(r#"["a"]"#)),
    ] {
        let setup = Setup::new();
        setup.approve(&before);
        assert_eq!(setup.verdict(&before), TrustVerdict::Approved);
        assert!(matches!(setup.verdict(&after), TrustVerdict::Changed(_)), "{before} {after}");
    }
}

#[test]
fn approvals_of_two_windows_at_the_same_moment_are_both_kept() {
    let setup = Setup::new();
    let names: Vec<ServerName> = (0..12).map(|n| format!("s{n}").as_str().into()).collect();
    let entries: Vec<String> =
        names.iter().map(|name| format!("\"{name}\":{{\"command\":\"x\"}}")).collect();
    let text = format!("{{\"servers\":{{{}}}}}", entries.join(","));
    let loaded = load_text(Path::new("mcp.json"), &text, &setup.env).expect("loads");
    std::thread::scope(|scope| {
        for name in &names {
            let (store, loaded) = (setup.store.clone(), &loaded);
            scope.spawn(move || store.approve(loaded, std::slice::from_ref(name)));
        }
    });
    assert_eq!(setup.store.unapproved(&loaded), []);
}

#[test]
fn an_approval_can_be_taken_back_at_once() {
    let setup = Setup::new();
    setup.approve(ENTRY);
    let (file, name) = (Path::new("mcp.json"), ServerName::new("a"));
    assert_eq!(setup.store.approved(file), std::slice::from_ref(&name));
    assert!(setup.store.revoke(file, &name).expect("revoked"));
    assert!(!setup.store.revoke(file, &name).expect("nothing to do"));
    assert_eq!(setup.verdict(ENTRY), TrustVerdict::New);
}

#[test]
fn the_whole_command_line_is_shown_with_everything_hidden_made_visible() {
    let setup = Setup::new();
    let long = "x".repeat(8_000);
    let entry = format!(
        r#"{{"command":"npx","args":["-c","a\nb\u202Ec\u200B","","{long}"],
            "env":{{"LD_PRELOAD":"x","NODE_OPTIONS":"y"}},"trust":true}}"#
    );
    let review = setup.store.review(&setup.load(&entry)).remove(0);
    assert_eq!(review.verdict, TrustVerdict::New, "a flag in the file is no trust");
    let value = |label: &str| {
        review.shown.iter().find(|(l, _)| l == label).map(|(_, v)| v.clone()).unwrap_or_default()
    };
    assert_eq!(value("args[1]"), r#""a\nb\u{202e}c\u{200b}""#);
    assert_eq!(value("args[2]"), "\"\"");
    assert_eq!(value("args[3]").len(), 8_000);
    assert_eq!(value("env.LD_PRELOAD"), "***");
    let dangers = review.dangers.join("; ");
    for word in ["npx -c", "LD_PRELOAD", "NODE_OPTIONS", "invisible", "bytes long"] {
        assert!(dangers.contains(word), "{word} in {dangers}");
    }
    let sudo = setup.store.review(&setup.load(r#"{"command":"sudo","args":["x"]}"#)).remove(0);
    assert!(sudo.dangers[0].contains("sudo"));
}

#[test]
fn a_command_named_on_the_command_line_needs_no_approval() {
    let setup = Setup::new();
    let words = ["x".to_owned()];
    let loaded =
        mcpdeck::config::single_command(&words, &Pairs::new(), &setup.env).expect("usable");
    assert!(setup.store.unapproved(&loaded).is_empty());
}

#[cfg(unix)]
#[test]
fn a_program_that_a_relative_path_finds_is_shown_with_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let setup = Setup::new();
    let tool = setup.dir.path().join("own-tool");
    std::fs::write(&tool, "#!/bin/sh\n").expect("written");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).expect("set");
    for (path, warned) in [(".:/usr/bin", true), ("/usr/bin:", true), ("/usr/bin", false)] {
        let entry = format!("{{\"command\":\"own-tool\",\"env\":{{\"PATH\":\"{path}\"}}}}");
        let dangers = setup.store.review(&setup.load(&entry)).remove(0).dangers;
        let warns =
            dangers.iter().any(|danger| danger.contains("own-tool") && danger.contains("PATH"));
        assert_eq!(warns, warned, "{path}: {dangers:?}");
    }
}
