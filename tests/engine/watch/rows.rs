//! Rows C1, C2, C3, C6 and C8 of the fault catalogue that need a running deck, and what a reload
//! does besides: the question first, the clock where nothing is reported, a file that comes later.

use std::path::Path;
use std::time::Duration;

use mcpdeck::DeckEvent;
use mcpdeck::config::{ConfigChange, Severity};
use mcpdeck::deck::ConfigCommand;
use mcpdeck::host::{HostView, ServerState};
use serde_json::{Value, json};

use crate::support::Bench;
use crate::watch::deck::{DEADLINE, Running, carries, script};
use crate::watch::{METHODS, save};

/// An entry that carries a number.
fn entry(bench: &Bench, number: u64) -> Value {
    // The script is written once for each number: servers read it while they start.
    bench.mock(
        &format!("server-{number}"),
        &script(),
        &json!({"env": {"EDIT": number.to_string()}}),
    )
}

fn file(servers: &[(&str, Value)]) -> String {
    let servers: serde_json::Map<String, Value> =
        servers.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
    format!("{:#}\n", json!({ "servers": servers }))
}

/// A deck with servers `a` and `b`, each carrying 0.
async fn two() -> Running {
    let bench = Bench::new();
    let text = file(&[("a", entry(&bench, 0)), ("b", entry(&bench, 0))]);
    let mut running = Running::start(bench, &text).await;
    running.ready(&["a", "b"]).await;
    running
}

impl Running {
    /// The text with another number for `a`.
    fn text(&self, number: u64) -> String {
        file(&[("a", entry(&self.bench, number)), ("b", entry(&self.bench, 0))])
    }

    /// Waits until `a` runs with this number; `b` must be the process it was.
    async fn runs(&mut self, number: u64, b: Option<u32>) {
        self.until(&format!("a runs with {number}"), |view| {
            carries(view, "a", number) && view.servers["a"].state == ServerState::Ready
        })
        .await;
        assert_eq!(self.pid("b"), b, "the other one is left alone");
    }

    fn starts(&self, server: &str) -> u32 {
        self.host.view().borrow().servers[server].starts
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c1_states_that_pass_restart_nothing_and_the_last_one_is_reached() {
    let mut running = two().await;
    let (b, whole) = (running.pid("b"), running.text(1));
    std::fs::write(&running.file, "").expect("truncated");
    std::fs::write(&running.file, &whole[..whole.len() / 2]).expect("half");
    // The pause is the row's: an editor that writes slowly.
    tokio::time::sleep(Duration::from_millis(400)).await;
    std::fs::write(&running.file, &whole).expect("whole");
    running.runs(1, b).await;
    assert_eq!(running.starts("a"), 2, "one restart for all of it");
    for number in 2..=4 {
        save(METHODS[1], &running.file, &running.text(number), number as usize);
    }
    running.runs(4, b).await;
    for (n, method) in METHODS.iter().enumerate() {
        let number = 10 + n as u64;
        save(*method, &running.file, &running.text(number), number as usize);
        running.runs(number, b).await;
    }
    let before = running.starts("a");
    std::fs::remove_file(&running.file).expect("deleted");
    running.until("a missing file is told", |view| !view.rejected.is_empty()).await;
    assert_eq!(running.starts("a"), before, "what runs runs on");
    std::fs::write(&running.file, running.text(20)).expect("back");
    running.runs(20, b).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c1_a_mounted_configuration_is_followed_through_swaps_and_another_target() {
    use std::os::unix::fs::symlink;
    let bench = Bench::new();
    let text = |number| file(&[("a", entry(&bench, number)), ("b", entry(&bench, 0))]);
    let at = |path: &str| bench.path().join(path);
    for number in 0..=3 {
        std::fs::create_dir(at(&format!("..v{number}"))).expect("made");
        std::fs::write(at(&format!("..v{number}/mcp.json")), text(number)).expect("written");
    }
    let swap = |target: &str, link: &Path| {
        let fresh = link.with_file_name("fresh-link");
        symlink(target, &fresh).expect("linked");
        std::fs::rename(fresh, link).expect("swapped");
    };
    let (data, config) = (at("..data"), at("mcp.json"));
    let start = text(0);
    let mut running = Running::start(bench, &start).await;
    swap("..v0", &data);
    swap("..data/mcp.json", &config);
    running.ready(&["a", "b"]).await;
    let b = running.pid("b");
    for number in 1..=2 {
        swap(&format!("..v{number}"), &data);
        running.runs(number, b).await;
    }
    swap("..v3/mcp.json", &config);
    running.runs(3, b).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c2_a_wrong_type_is_reported_at_its_place_and_the_last_good_file_stays() {
    let mut running = two().await;
    let (a, b) = (running.pid("a"), running.pid("b"));
    let wrong = running.text(1).replace("server-1.mock.json\"", "server-1.mock.json\", 7");
    std::fs::write(&running.file, &wrong).expect("written");
    running.until("the problem is shown", |view| !view.rejected.is_empty()).await;
    let problem = running.host.view().borrow().rejected[0].clone();
    assert_eq!((problem.rule.as_str(), problem.severity), ("config/type", Severity::Error));
    assert_eq!(problem.pointer, "/servers/a/args/2");
    let line = wrong.lines().position(|line| line.contains(", 7")).expect("it is there") + 1;
    assert_eq!((problem.at.line as usize, &problem.at.file), (line, &running.file));
    assert!(problem.at.column > 1);
    assert_eq!((running.pid("a"), running.pid("b")), (a, b));
    std::fs::write(&running.file, "{ \"servers\": { \"a\": ").expect("written");
    running
        .until("the syntax is told", |view| {
            view.rejected.first().is_some_and(|problem| problem.rule == "config/syntax")
        })
        .await;
    assert_eq!((running.pid("a"), running.pid("b")), (a, b));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_of_ten_servers_exactly_the_changed_one_restarts() {
    let bench = Bench::new();
    let names: Vec<String> = (0..10).map(|n| format!("s{n}")).collect();
    let text = |numbers: &dyn Fn(usize) -> u64| {
        let all: Vec<(&str, Value)> = names
            .iter()
            .enumerate()
            .map(|(n, name)| (name.as_str(), entry(&bench, numbers(n))))
            .collect();
        all
    };
    let same = text(&|_| 0);
    let one = file(&text(&|n| u64::from(n == 4)));
    let mut reordered = same.clone();
    reordered.reverse();
    let mut running = Running::start(bench, &file(&same)).await;
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    running.ready(&all).await;
    let pids: Vec<_> = names.iter().map(|name| running.pid(name)).collect();
    // A number that counts reloads: what is written below must be seen to change nothing.
    let reloads = |view: &HostView| view.reload.as_ref().map(|(at, _)| *at);
    let spaced = file(&same).replace("\": ", "\"   :\n ");
    let commented = format!("// a comment\n{}", file(&same));
    for harmless in [file(&reordered), spaced, commented] {
        let before = reloads(&running.host.view().borrow());
        std::fs::write(&running.file, harmless).expect("written");
        running.until("the file is read", |view| reloads(view) != before).await;
        let now: Vec<_> = names.iter().map(|name| running.pid(name)).collect();
        assert_eq!(now, pids, "order, spaces and comments are no change");
    }
    std::fs::write(&running.file, one).expect("written");
    running.until("one restarted", |view| view.servers["s4"].starts == 2).await;
    running.ready(&all).await;
    for (n, name) in names.iter().enumerate() {
        assert_eq!(running.pid(name) == pids[n], n != 4, "{name}");
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_renamed_server_is_another_one_and_two_of_a_name_are_none() {
    let mut running = two().await;
    let b = running.pid("b");
    let renamed = running.text(0).replace("\"a\":", "\"z\":");
    std::fs::write(&running.file, renamed).expect("written");
    running.ready(&["b", "z"]).await;
    assert_eq!(running.pid("b"), b);
    let twice = running.text(0).replace("\"a\":", "\"b\":");
    std::fs::write(&running.file, twice).expect("written");
    running
        .until("two of a name are told", |view| {
            view.rejected.iter().any(|problem| problem.rule.contains("duplicate"))
        })
        .await;
    running.ready(&["b", "z"]).await;
    assert_eq!(running.pid("b"), b);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c8_an_unset_variable_on_reload_is_named_with_its_server_and_starts_nothing() {
    let mut running = two().await;
    let pids = (running.pid("a"), running.pid("b"));
    for (text, says) in [
        ("${MCPDECK_SURELY_UNSET}", "MCPDECK_SURELY_UNSET"),
        ("${MCPDECK_SURELY_UNSET:-${MCPDECK_UNSET_TOO}}", "MCPDECK_UNSET_TOO"),
    ] {
        let broken =
            running.text(0).replacen("\"EDIT\": \"0\"", &format!("\"EDIT\": \"{text}\""), 1);
        std::fs::write(&running.file, broken).expect("written");
        running
            .until(&format!("{says} is told"), |view| {
                view.rejected.iter().any(|problem| {
                    format!("{} {}", problem.message, problem.snippet).contains(says)
                        && problem.server.as_ref().is_some_and(|server| server.as_str() == "a")
                })
            })
            .await;
        assert_eq!((running.pid("a"), running.pid("b")), pids);
    }
    running.end().await;
}

/// The next event of the deck that this takes.
async fn event<T>(running: &mut Running, take: impl Fn(DeckEvent) -> Option<T>) -> T {
    loop {
        let event = tokio::time::timeout(DEADLINE, running.deck.next()).await.expect("in time");
        if let Some(taken) = take(event.expect("the deck runs")) {
            return taken;
        }
    }
}

/// The plan that waits, once it is as wanted.
async fn plan(running: &mut Running, wanted: impl Fn(&ConfigChange) -> bool) -> ConfigChange {
    let waiting = |event| match event {
        DeckEvent::Situation(situation) => situation.plan.clone().filter(&wanted),
        _ => None,
    };
    event(running, waiting).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_waits_for_a_yes_when_it_says_so_and_newer_changes_join_the_plan() {
    let bench = Bench::new();
    let ask = |servers: &[(&str, Value)]| file(servers).replacen('{', "{ \"reload\": \"ask\",", 1);
    let first = ask(&[("a", entry(&bench, 0)), ("b", entry(&bench, 0))]);
    let mut next = entry(&bench, 0);
    next["dependencies"] = json!(["a"]);
    let second = ask(&[("a", entry(&bench, 1)), ("b", entry(&bench, 0)), ("c", next.clone())]);
    let third = ask(&[("a", entry(&bench, 2)), ("c", next)]);
    let mut running = Running::start(bench, &first).await;
    running.ready(&["a", "b"]).await;
    let pids = (running.pid("a"), running.pid("b"));
    std::fs::write(&running.file, &second).expect("written");
    let waiting = plan(&mut running, |_| true).await;
    assert_eq!(waiting.added, ["c".into()]);
    assert_eq!(waiting.changed, [("a".into(), vec!["args".to_owned(), "env.EDIT".to_owned()])]);
    assert_eq!(waiting.kept, ["b".into()]);
    assert_eq!((running.pid("a"), running.pid("b")), pids, "nothing is done yet");
    std::fs::write(&running.file, "{ \"servers\": ").expect("written");
    running.until("a broken file is told", |view| !view.rejected.is_empty()).await;
    std::fs::write(&running.file, &third).expect("written");
    let waiting = plan(&mut running, |plan| !plan.removed.is_empty()).await;
    assert_eq!(waiting.removed, ["b".into()]);
    assert_eq!((running.pid("a"), running.pid("b")), pids);
    running.ask(ConfigCommand::Apply);
    running.ready(&["a", "c"]).await;
    assert_eq!(running.variable("a", "EDIT").as_deref(), Some("2"));
    let reloaded = running.host.view().borrow().reload.clone().expect("one reload").1;
    assert_eq!(reloaded.removed, ["b".into()]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_an_input_confirms_no_change_of_the_file() {
    let bench = Bench::new();
    let mut asking = entry(&bench, 0);
    asking["env"]["KEY"] = json!("${input:key}");
    let text = |number| {
        json!({
            "reload": "ask", "inputs": [{"id": "key", "type": "promptString"}],
            "servers": {"a": entry(&bench, number), "b": asking},
        })
        .to_string()
    };
    let (first, second) = (text(0), text(1));
    let answer = |value: &str| {
        let (id, keep) = ("key".to_owned(), mcpdeck::deck::KeepInput::Memory);
        ConfigCommand::Answer { id, value: value.into(), keep }
    };
    let mut running = Running::start(bench, &first).await;
    running.ask(answer("one"));
    running.ready(&["a", "b"]).await;
    let pids = (running.pid("a"), running.pid("b"));
    // Changes nothing, and must not confirm the next change either.
    running.ask(answer("one"));
    // Commands are carried out in their order: with this one, the answer before it is.
    running.ask(ConfigCommand::OpenEntry("a".into()));
    event(&mut running, |event| matches!(event, DeckEvent::Entry(_)).then_some(())).await;
    std::fs::write(&running.file, &second).expect("written");
    let waiting = plan(&mut running, |_| true).await;
    assert_eq!(waiting.changed.len(), 1);
    running.ask(answer("two"));
    // The answer joins it.
    plan(&mut running, |plan| plan.changed.len() == 2).await;
    assert_eq!((running.pid("a"), running.pid("b")), pids, "nothing is done yet");
    running.ask(ConfigCommand::Apply);
    running.until("both are new", |view| carries(view, "a", 1)).await;
    assert_eq!(running.variable("b", "KEY").as_deref(), Some("two"));
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_makes_the_deck_look_by_the_clock() {
    let bench = Bench::new();
    let text = |number| file(&[("a", entry(&bench, number)), ("b", entry(&bench, 0))]);
    let (first, second) = (text(0), text(1));
    let mut running = Running::with(bench, &first, &[("MCPDECK_WATCH", "poll")]).await;
    running.ready(&["a", "b"]).await;
    let b = running.pid("b");
    save(METHODS[1], &running.file, &second, 1);
    running.runs(1, b).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn saves_while_a_removed_server_finishes_a_call_are_taken_at_once() {
    let mut running = two().await;
    let host = running.host.clone();
    let calling = tokio::spawn(async move { host.call_tool("a.slow", json!({})).await });
    let host = running.host.clone();
    while host.calls().is_empty() {
        assert!(!calling.is_finished(), "it is under way");
        tokio::task::yield_now().await;
    }
    let before = running.host.facts().span().end;
    let (b, old) = (running.pid("b"), running.pid("a"));
    // Taken out while a call is in flight: it ends when the call has, and saves go on.
    let entry = |number| entry(&running.bench, number);
    let without = file(&[("b", entry(0))]);
    let with_another = file(&[("b", entry(0)), ("c", entry(9))]);
    let back = |number| file(&[("a", entry(number)), ("b", entry(0)), ("c", entry(9))]);
    let backs: Vec<String> = (1..=5).map(back).collect();
    std::fs::write(&running.file, without).expect("written");
    running
        .until("it is being stopped", |view| {
            view.servers.get("a").is_some_and(|a| a.state == ServerState::Shutdown)
        })
        .await;
    std::fs::write(&running.file, with_another).expect("written");
    running
        .until("another one is ready", |view| {
            view.servers.get("c").is_some_and(|c| c.state == ServerState::Ready)
        })
        .await;
    for text in backs {
        std::fs::write(&running.file, text).expect("written");
    }
    let outcome = calling.await.expect("a task").expect("the call finished");
    assert_eq!(outcome.result["content"][0]["text"], "slow");
    running.runs(5, b).await;
    assert_ne!(running.pid("a"), old);
    let mut order = Vec::new();
    for record in running.host.facts().read(before, usize::MAX).items {
        let (what, of) = (record.fact.name(), record.server.as_ref().map(ToString::to_string));
        if matches!(what, "serverRemoved" | "spawned") {
            order.push(format!("{what} {}", of.unwrap_or_default()));
        }
    }
    assert_eq!(order, ["spawned c", "serverRemoved a", "spawned a"], "and none of it twice");
    running.end().await;
}
