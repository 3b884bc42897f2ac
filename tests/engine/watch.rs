//! The file watcher on real files: every way of saving is detected, intermediate states are not
//! delivered, and after a thousand random edits the last valid file is in effect.

#[cfg(all(unix, feature = "tui", feature = "mock"))]
mod deck;
#[cfg(all(unix, feature = "tui", feature = "mock"))]
mod invalid;
#[cfg(all(unix, feature = "tui", feature = "mock"))]
mod library;
#[cfg(all(unix, feature = "tui", feature = "mock"))]
mod rows;
#[cfg(all(unix, feature = "tui", feature = "mock"))]
mod torture;

use std::path::{Path, PathBuf};
use std::time::Duration;

use mcpdeck::base::WatchMode;
use mcpdeck::config::{self, ConfigChange, Environment, McpConfig};
use mcpdeck::deck::{ConfigWatch, LoadResult, WatchOptions};
use tempfile::TempDir;

/// Timeout, long enough for any machine; only reached on failure.
const DEADLINE: Duration = Duration::from_secs(20);

struct Deck {
    dir: TempDir,
    file: PathBuf,
    watch: ConfigWatch,
}

fn environment(dir: &Path) -> Environment {
    Environment { cwd: dir.to_path_buf(), ..Environment::default() }
}

/// A file whose server `a` has this argument, with another server that never changes.
fn text(argument: &str) -> String {
    format!(
        "{{ \"servers\": {{\n  \"same\": {{ \"command\": \"same\" }},\n  \
         \"a\": {{ \"command\": \"x\", \"args\": [\"{argument}\"] }}\n}} }}\n"
    )
}

fn argument_of(config: &McpConfig) -> Option<String> {
    match &config.servers.get("a")?.transport {
        config::TransportConfig::Stdio(stdio) => stdio.args.first().cloned(),
        _ => None,
    }
}

/// The argument of a valid state, or the rule of the first problem.
fn word(result: &LoadResult) -> String {
    match result {
        Ok(loaded) if !loaded.has_errors() => argument_of(&loaded.config).unwrap_or_default(),
        Ok(loaded) => loaded.diagnostics.first().map(|d| d.rule.clone()).unwrap_or_default(),
        Err(all) => all.first().map(|d| d.rule.clone()).unwrap_or_default(),
    }
}

impl Deck {
    fn new(options: WatchOptions) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("mcp.json");
        std::fs::write(&file, text("0")).expect("written");
        let known = config::load(std::slice::from_ref(&file), &environment(dir.path()));
        let options = WatchOptions { known: Some(known), ..options };
        let watch = ConfigWatch::start(vec![file.clone()], environment(dir.path()), options);
        Self { dir, file, watch }
    }

    /// Waits until a state is delivered.
    async fn next(&mut self) -> LoadResult {
        let next = tokio::time::timeout(DEADLINE, self.watch.next()).await;
        next.expect("a state in time").expect("a running watch")
    }

    /// Waits for a state, as text, and returns all states before it.
    async fn until(&mut self, wanted: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let state = word(&self.next().await);
            if state == wanted {
                return before;
            }
            before.push(state);
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Ways of saving a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Method {
    InPlace,
    Rename,
    DeleteAndCreate,
    BackupThenWrite,
    InPieces,
    #[cfg(unix)]
    LinkSwap,
}

pub(crate) const METHODS: &[Method] = &[
    Method::InPlace,
    Method::Rename,
    Method::DeleteAndCreate,
    Method::BackupThenWrite,
    Method::InPieces,
    #[cfg(unix)]
    Method::LinkSwap,
];

pub(crate) fn save(method: Method, file: &Path, content: &str, number: usize) {
    use std::io::Write;
    let beside = |suffix: &str| file.with_file_name(format!("other-{number}{suffix}"));
    match method {
        Method::InPlace => std::fs::write(file, content).expect("written"),
        Method::Rename => {
            std::fs::write(beside(".tmp"), content).expect("written");
            std::fs::rename(beside(".tmp"), file).expect("renamed");
        }
        Method::DeleteAndCreate => {
            let _ = std::fs::remove_file(file);
            std::fs::write(file, content).expect("written");
        }
        // vim with `backupcopy=no`.
        Method::BackupThenWrite => {
            let _ = std::fs::rename(file, beside("~"));
            std::fs::write(file, content).expect("written");
            let _ = std::fs::remove_file(beside("~"));
        }
        Method::InPieces => {
            let mut out = std::fs::File::create(file).expect("created");
            for piece in content.as_bytes().chunks(7) {
                out.write_all(piece).expect("written");
                out.flush().expect("flushed");
            }
        }
        #[cfg(unix)]
        Method::LinkSwap => {
            std::fs::write(beside(".json"), content).expect("written");
            std::os::unix::fs::symlink(beside(".json"), beside(".link")).expect("linked");
            std::fs::rename(beside(".link"), file).expect("renamed");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_of_saving_is_followed_twice() {
    for method in METHODS {
        let mut deck = Deck::new(WatchOptions::default());
        for number in 1..=2 {
            save(*method, &deck.file, &text(&number.to_string()), number);
            let before = deck.until(&number.to_string()).await;
            assert_eq!(before, [""; 0], "{method:?}: only the state that stays is delivered");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_file_that_is_completed_later_is_never_delivered() {
    // A long wait, so that the pause below is shorter even on a slow machine.
    let settle_timeout = Duration::from_secs(30);
    let mut deck = Deck::new(WatchOptions { settle_timeout, ..WatchOptions::default() });
    let whole = text("1");
    std::fs::write(&deck.file, "").expect("truncated");
    std::fs::write(&deck.file, &whole[..whole.len() / 2]).expect("half");
    // The pause under test: longer than the debounce interval.
    tokio::time::sleep(Duration::from_millis(200)).await;
    std::fs::write(&deck.file, &whole).expect("whole");
    assert_eq!(deck.until("1").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_is_shown_once_and_the_next_valid_one_is_taken() {
    let mut deck = Deck::new(WatchOptions::default());
    std::fs::write(&deck.file, "{ \"servers\": {").expect("written");
    assert_eq!(deck.until("config/syntax").await, [""; 0]);
    std::fs::write(&deck.file, text("0").replace("\"x\"", "7")).expect("written");
    assert_eq!(deck.until("config/type").await, [""; 0]);
    std::fs::remove_file(&deck.file).expect("removed");
    assert_eq!(deck.until("config/read").await, [""; 0]);
    std::fs::write(&deck.file, text("0")).expect("written");
    assert_eq!(deck.until("0").await, [""; 0], "the old state counts as new after an error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_saves_is_one_state() {
    let mut deck = Deck::new(WatchOptions::default());
    for number in 1..=50 {
        save(METHODS[number % METHODS.len()], &deck.file, &text(&number.to_string()), number);
    }
    let before = deck.until("50").await;
    assert!(before.len() <= 3, "{before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_appears_later_in_a_folder_that_appears_later_is_found() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join(".vscode/mcp.json");
    let watch =
        ConfigWatch::start(vec![file.clone()], environment(dir.path()), WatchOptions::default());
    let mut deck = Deck { dir, file, watch };
    assert_eq!(deck.until("config/read").await, [""; 0]);
    std::fs::create_dir(deck.path(".vscode")).expect("made");
    std::fs::write(&deck.file, text("1")).expect("written");
    deck.until("1").await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_configuration_is_followed_through_two_swaps() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().expect("a folder");
    let version = |n: usize| dir.path().join(format!("..v{n}"));
    for n in 0..=2 {
        std::fs::create_dir(version(n)).expect("made");
        std::fs::write(version(n).join("mcp.json"), text(&n.to_string())).expect("written");
    }
    symlink("..v0", dir.path().join("..data")).expect("linked");
    symlink("..data/mcp.json", dir.path().join("mcp.json")).expect("linked");
    let file = dir.path().join("mcp.json");
    let watch =
        ConfigWatch::start(vec![file.clone()], environment(dir.path()), WatchOptions::default());
    let mut deck = Deck { dir, file, watch };
    deck.until("0").await;
    for n in 1..=2 {
        symlink(format!("..v{n}"), deck.path("..data_tmp")).expect("linked");
        std::fs::rename(deck.path("..data_tmp"), deck.path("..data")).expect("swapped");
        assert_eq!(deck.until(&n.to_string()).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_env_file_is_a_changed_configuration() {
    let mut deck = Deck::new(WatchOptions::default());
    std::fs::write(deck.path(".env"), "A=1\n").expect("written");
    let with_env = text("1").replace("\"args\"", "\"envFile\": \".env\", \"args\"");
    std::fs::write(&deck.file, with_env).expect("written");
    let first = deck.next().await.expect("loads");
    std::fs::write(deck.path(".env"), "A=2\n").expect("written");
    let second = deck.next().await.expect("loads");
    let change = ConfigChange::between(&first.config, &second.config);
    assert_eq!(change.changed, [("a".into(), vec!["env.A".to_owned()])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answered_input_loads_again() {
    let mut deck = Deck::new(WatchOptions::default());
    let asking = "{ \"inputs\": [{ \"id\": \"k\", \"type\": \"promptString\" }], \
                  \"servers\": { \"a\": { \"command\": \"x\", \"args\": [\"${input:k}\"] } } }";
    std::fs::write(&deck.file, asking).expect("written");
    let waiting = deck.next().await.expect("loads");
    assert_eq!(waiting.needs.len(), 1);
    assert_eq!(waiting.left_out, ["a".into()]);
    let mut env = environment(deck.dir.path());
    env.inputs.insert("k".into(), mcpdeck::base::secret::Secret::new("answer"));
    deck.watch.set_environment(env);
    deck.until("answer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_reports_the_files_are_looked_at_by_the_clock() {
    let mut deck = Deck::new(WatchOptions { poll_only: true, ..WatchOptions::default() });
    assert!(matches!(deck.watch.mode(), WatchMode::Polling(_)));
    for (number, method) in METHODS.iter().enumerate().map(|(i, m)| (i + 1, m)) {
        save(*method, &deck.file, &text(&number.to_string()), number);
        deck.until(&number.to_string()).await;
    }
}

/// A small random number generator, so that a failure can be reproduced from its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_random_edits_always_converge_to_the_last_valid_file() {
    const EDITS: usize = 1_000;
    let seed = std::env::var("MCPDECK_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    let mut dice = Dice(seed);
    let mut deck = Deck::new(WatchOptions::default());
    let mut running = config::load(std::slice::from_ref(&deck.file), &environment(deck.dir.path()))
        .expect("loads")
        .config;
    // All contents that were complete on disk; nothing else may be delivered as valid.
    let mut written = vec!["0".to_owned()];
    let mut expected = "0".to_owned();
    for number in 1..=EDITS {
        let method = METHODS[dice.roll(METHODS.len())];
        let valid = number.to_string();
        match dice.roll(10) {
            0 => save(method, &deck.file, "{ \"servers\": ", number),
            1 => save(method, &deck.file, "", number),
            2 => {
                let _ = std::fs::remove_file(&deck.file);
            }
            3 => save(method, &deck.file, &text(&valid)[..40], number),
            4 => save(method, &deck.file, &text("x").replace("\"x\"", "[]"), number),
            _ => {
                save(method, &deck.file, &text(&valid), number);
                written.push(valid.clone());
                expected.clone_from(&valid);
            }
        }
        // Random intervals: most edits are close together, some far apart.
        if dice.roll(8) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.roll(60) as u64)).await;
        }
        // Periodically, and at the end, all states must agree.
        if number % 100 == 0 {
            save(method, &deck.file, &text(&valid), number + EDITS);
            written.push(valid.clone());
            expected.clone_from(&valid);
            while argument_of(&running).as_ref() != Some(&expected) {
                let Ok(loaded) = deck.next().await else { continue };
                if loaded.has_errors() {
                    continue;
                }
                let argument = argument_of(&loaded.config).expect("an argument");
                assert!(written.contains(&argument), "seed {seed}: {argument} was never whole");
                let change = ConfigChange::between(&running, &loaded.config);
                assert_eq!(change.kept, ["same".into()], "seed {seed}, edit {number}");
                running = loaded.config;
            }
        }
    }
    assert_eq!(argument_of(&running), Some(EDITS.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the figures are what this is run for")]
#[ignore = "a measurement: cargo test --test engine watch::measure -- --ignored --nocapture"]
async fn measure_the_time_from_save_to_delivery() {
    for (name, poll_only) in [("events", false), ("polling", true)] {
        let mut deck = Deck::new(WatchOptions { poll_only, ..WatchOptions::default() });
        let mut took: Vec<u128> = Vec::new();
        for number in 1..=60 {
            let start = std::time::Instant::now();
            save(METHODS[number % METHODS.len()], &deck.file, &text(&number.to_string()), number);
            deck.until(&number.to_string()).await;
            took.push(start.elapsed().as_millis());
        }
        took.sort_unstable();
        let at = |part: usize| took[took.len() * part / 100];
        println!("{name}: p50 {} ms, p95 {} ms, max {} ms", at(50), at(95), took[took.len() - 1]);
    }
}
