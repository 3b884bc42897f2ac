//! A program that uses the library: hot reload, trust and broken files without a terminal.

use mcpdeck::base::ServerName;
use mcpdeck::base::atomic::alone;
use mcpdeck::config::Environment;
use mcpdeck::deck::{
    ConfigCommand, FileChange, SecretStore, TrustGate, TrustStore, secret_sources,
};
use mcpdeck::{Deck, DeckEvent, ErrorCode, Host, Startup};
use serde_json::{Value, json};

use crate::support::Bench;
use crate::watch::deck::script;

#[path = "../../../examples/embed.rs"]
mod embed;

fn file(servers: &[(&str, Value)]) -> String {
    let servers: serde_json::Map<_, _> =
        servers.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
    json!({ "servers": servers }).to_string()
}

/// Waits for an event.
async fn until<T>(deck: &mut Deck, wanted: impl Fn(DeckEvent) -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = wanted(deck.next().await.expect("the deck runs")) {
                return found;
            }
        }
    };
    tokio::time::timeout(crate::watch::deck::DEADLINE, found).await.expect("in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_sees_the_tools_of_a_server_that_is_added_to_the_file() {
    let bench = Bench::new();
    let entry = bench.mock("one", &script(), &json!({}));
    let path = bench.write("mcp.json", &file(&[("one", entry.clone())]));
    let edited = file(&[("one", entry.clone()), ("two", entry)]);
    let tools = embed::edit(&path.display().to_string(), &edited).await.expect("it runs");
    assert_eq!(tools, ["quick", "slow"]);
    bench.expect_nothing_left(crate::watch::deck::DEADLINE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_used_is_an_error_at_first_and_an_event_later() {
    let bench = Bench::new();
    let path = bench.write("mcp.json", "{ \"servers\": ");
    let error = Deck::open(&path).await.err().expect("refused");
    assert_eq!(error.code, ErrorCode::Configuration);
    assert!(!error.diagnostics.is_empty());
    let mut builder = Deck::builder().files(vec![path.clone()]);
    builder.keep_watching = true;
    let mut deck = builder.open().await.expect("it waits for a better file");
    std::fs::write(&path, file(&[("one", bench.mock("one", &script(), &json!({})))]))
        .expect("saved");
    let plan = until(&mut deck, |event| match event {
        DeckEvent::Reloaded(plan) => Some(plan),
        _ => None,
    });
    assert_eq!(plan.await.added, ["one".into()]);
    std::fs::write(&path, "{ \"servers\": ").expect("saved");
    let rejected = until(&mut deck, |event| match event {
        DeckEvent::Rejected(error, _) => Some(error),
        _ => None,
    });
    assert!(!rejected.await.diagnostics.is_empty());
    assert!(deck.host().snapshot().servers.contains_key("one"), "what ran runs on");
    deck.shutdown().await;
    bench.expect_nothing_left(crate::watch::deck::DEADLINE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guarded_deck_asks_for_trust_and_for_inputs_before_anything_runs() {
    let bench = Bench::new();
    let entry = bench.mock("one", &script(), &json!({"env": {"KEY": "${input:key}"}}));
    let text = json!({
        "inputs": [{"id": "key", "type": "promptString", "password": true}],
        "servers": {"one": entry},
    });
    let path = bench.write("mcp.json", &text.to_string());
    let mut environment = Environment::of_process();
    environment.state_dir = Some(bench.path().join("state"));
    let mut deck = Deck::builder()
        .files(vec![path])
        .trust(TrustGate::Guarded(TrustStore::or_session(&environment)))
        .environment(environment)
        .host(Host::builder().startup(Startup::Background))
        .open()
        .await
        .expect("it opens");
    let shown = until(&mut deck, |event| match event {
        DeckEvent::Situation(situation) => Some(situation),
        _ => None,
    })
    .await;
    let name = ServerName::new("one");
    assert_eq!(
        shown.needing_approval().map(|a| a.review.server.clone()).collect::<Vec<_>>(),
        std::slice::from_ref(&name)
    );
    let asked = until(&mut deck, |event| match event {
        DeckEvent::TrustNeeded(servers) => Some(servers),
        _ => None,
    });
    assert_eq!(asked.await, std::slice::from_ref(&name));
    assert!(bench.processes().is_empty(), "nothing runs");
    let shown = shown.awaiting(&name).expect("it awaits").review.shown_hash.clone();
    let approve = |hash: &str| ConfigCommand::Approve(vec![(name.clone(), hash.to_owned())]);
    deck.ask(approve("another")).expect("taken");
    let refused = until(&mut deck, |event| match event {
        DeckEvent::Failed(error) => Some(error),
        _ => None,
    });
    assert!(refused.await.message.contains("look again"));
    deck.ask(approve(&shown)).expect("taken");
    let needed = until(&mut deck, |event| match event {
        DeckEvent::InputNeeded(inputs) => Some(inputs),
        _ => None,
    });
    assert_eq!(needed.await, ["key"]);
    assert!(bench.processes().is_empty(), "still nothing runs");
    let keep = mcpdeck::deck::KeepInput::Memory;
    let answer = ConfigCommand::Answer { id: "key".into(), value: "sesame".into(), keep };
    deck.ask(answer).expect("taken");
    let mut view = deck.host().view();
    let ready =
        view.wait_for(|view| view.servers["one"].state == mcpdeck::host::ServerState::Ready);
    tokio::time::timeout(crate::watch::deck::DEADLINE, ready)
        .await
        .expect("in time")
        .expect("it runs");
    deck.shutdown().await;
    bench.expect_nothing_left(crate::watch::deck::DEADLINE);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_approves_in_another_window_starts_here_and_nothing_else_does() {
    let bench = Bench::new();
    let path = bench.write(
        "mcp.json",
        &file(&[
            ("one", bench.mock("one", &script(), &json!({}))),
            ("two", bench.mock("two", &script(), &json!({}))),
        ]),
    );
    let mut environment = Environment::of_process();
    environment.state_dir = Some(bench.path().join("state"));
    let store = TrustStore::or_session(&environment);
    let mut deck = Deck::builder()
        .files(vec![path.clone()])
        .trust(TrustGate::Guarded(store.clone()))
        .environment(environment.clone())
        .host(Host::builder().startup(Startup::Background))
        .open()
        .await
        .expect("it opens");
    let mut waiting = async |names: &[&str]| {
        until(&mut deck, |event| match event {
            DeckEvent::Situation(shown) => {
                let found: Vec<_> =
                    shown.needing_approval().map(|a| a.review.server.as_str()).collect();
                (found == names).then_some(())
            }
            _ => None,
        })
        .await;
    };
    waiting(&["one", "two"]).await;
    let loaded = mcpdeck::config::load(std::slice::from_ref(&path), &environment).expect("loads");

    // An approval of another command line, as of a file that was changed meanwhile, is none of this.
    let mut other = loaded.clone();
    let entry = other.config.servers.get_mut("two").expect("there");
    if let mcpdeck::config::TransportConfig::Stdio(stdio) = &mut entry.transport {
        stdio.args.push("more".into());
    }
    store.approve(&other, &["two".into()]).expect("kept");
    store.approve(&loaded, &["one".into()]).expect("kept");
    waiting(&["two"]).await;
    let mut view = deck.host().view();
    let ready =
        view.wait_for(|view| view.servers["one"].state == mcpdeck::host::ServerState::Ready);
    let ready = tokio::time::timeout(crate::watch::deck::DEADLINE, ready).await.expect("in time");
    let held = ready.expect("it runs").servers["two"].state;
    assert!(!held.is_callable(), "nobody approved it: {held:?}");
    deck.shutdown().await;
    bench.expect_nothing_left(crate::watch::deck::DEADLINE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_kept_later_is_found_although_the_file_stays_as_it_is() {
    let bench = Bench::new();
    let entry = bench.mock("one", &script(), &json!({"env": {"KEY": "${secret:KEY}"}}));
    let path = bench.write("mcp.json", &file(&[("one", entry)]));
    let mut environment = Environment::of_process();
    environment.state_dir = Some(bench.path().join("state"));
    environment.config_dir = Some(bench.path().join("config"));
    environment.sources = secret_sources(&environment);
    let mut builder = Deck::builder().files(vec![path]).environment(environment.clone());
    builder.keep_watching = true;
    let deck = builder.host(Host::builder().startup(Startup::Background)).open().await;
    let deck = deck.expect("it opens");
    let is_ready = |view: &mcpdeck::host::HostView| {
        let one = view.servers.get("one");
        one.is_some_and(|one| one.state == mcpdeck::host::ServerState::Ready)
    };
    let mut view = deck.host().view();
    assert!(!is_ready(&view.borrow()), "there is no such secret");
    let store = SecretStore::from_env(&environment).expect("a place");
    store.set("KEY", &"sesame".into()).expect("kept");
    let ready = view.wait_for(|view| is_ready(view));
    let ready = tokio::time::timeout(crate::watch::deck::DEADLINE, ready).await;
    ready.expect("in time").expect("it runs");
    deck.shutdown().await;
    bench.expect_nothing_left(crate::watch::deck::DEADLINE);
}

/// On a runtime of one thread: what blocks it stops the whole engine.
#[tokio::test]
async fn an_edit_that_waits_for_another_program_stops_nothing_else() {
    let bench = Bench::new();
    let text = file(&[("one", json!({"command": "x", "disabled": true}))]);
    let path = bench.write("mcp.json", &text);
    let mut deck = Deck::open(&path).await.expect("it opens");
    let read = || std::fs::read_to_string(&path).expect("readable");
    let enable = ConfigCommand::Change(FileChange::Enable(ServerName::new("one")));
    for command in [enable, ConfigCommand::Undo] {
        let before = read();
        let (holds, is_held) = std::sync::mpsc::channel();
        let (release, is_released) = std::sync::mpsc::channel::<()>();
        let locked = path.clone();
        let other = std::thread::spawn(move || {
            alone(&locked, || {
                holds.send(()).expect("the test waits");
                let _ = is_released.recv();
            });
        });
        is_held.recv().expect("the lock is free");
        deck.ask(command).expect("it was taken");
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(read(), before, "the lock was waited for where the tasks run");
        release.send(()).expect("it holds the lock");
        other.join().expect("it ended");
        until(&mut deck, |event| match event {
            DeckEvent::Done(said) => Some(said),
            DeckEvent::Failed(error) => panic!("{error}"),
            _ => None,
        })
        .await;
        assert_ne!(read(), before);
    }
    deck.shutdown().await;
}
