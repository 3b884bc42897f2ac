//! Requests that end before they are answered: taken back, their server dead or taken out of the
//! configuration. The draft stays, and nothing goes over the wire any more.

use super::stage::{self, CALL, Stage};
use crate::pty::{self, Launch, Signal, Size};

/// Types half an answer to the question of `midway`.
fn half_written() -> (Stage, i32) {
    let mut stage = Stage::asker(Size::WIDE);
    let pid = stage.deck.pid_of("asker");
    stage.open_question("midway", "Left or right?");
    stage.deck.keys("I would rather");
    stage.deck.wait("I would rather");
    (stage, pid)
}

/// The draft can be read and copied, nothing is sent, and it is found again.
fn draft_stays(stage: &mut Stage, reason: &str) {
    stage.deck.wait("withdrawn:");
    stage.deck.wait(reason);
    stage.deck.wait("I would rather");
    stage.send("nothing was sent: it is no longer open");
    stage::slowly(&mut stage.deck, "typed after the end\x18\x19");
    // "I would rather", as OSC 52 carries it.
    let place = 0;
    stage.deck.wait_raw(place, "SSB3b3VsZCByYXRoZXI=");
    stage.deck.keys("\x1b");
    stage.deck.gone("no longer open");
    stage.leave();
    stage.deck.keys("6");
    stage.deck.wait("draft kept");
    stage.deck.keys("\r");
    stage.deck.wait("I would rather");
    assert!(!stage.deck.screen().contains("typed after the end"));
    assert!(stage.answers("midway").is_empty(), "{:?}", stage.answers("midway"));
    stage.deck.keys("\x1b");
    stage.deck.wait("quit");
}

#[test]
fn a_question_taken_back_in_the_middle_is_never_answered_and_the_draft_stays() {
    let (mut stage, pid) = half_written();
    pty::signal(pid, Signal::INT);
    draft_stays(&mut stage, "the server withdrew it: never mind");
    stage::stop(&mut stage.deck);
    assert!(stage.answers("midway").is_empty());
}

#[test]
fn a_server_that_dies_in_the_middle_withdraws_its_question() {
    let (mut stage, pid) = half_written();
    pty::kill(pid);
    draft_stays(&mut stage, "its session ended");
    stage.deck.quit();
    assert!(stage.answers("midway").is_empty());
}

/// The process of a server, from its card.
fn pid(deck: &mut pty::Deck, server: &str) -> i32 {
    deck.keys("1");
    deck.wait("pid ");
    let pid = deck.pid_of(server);
    deck.keys("6");
    deck.wait("items waiting");
    pid
}

fn kill(deck: &mut pty::Deck, server: &str) {
    let pid = pid(deck, server);
    pty::kill(pid);
}

#[test]
fn u2_a_hundred_questions_of_five_servers_are_distinguished_denied_together_and_never_sent_stale() {
    let names = ["ann", "ben", "cat", "dan", "eve"];
    let entries: Vec<String> = names.iter().map(|name| stage::entry(name, "asker", "{}")).collect();
    let mut deck = Launch::file(Size::WIDE, &stage::config(&entries)).start();
    deck.wait("5 ready");
    for (n, name) in names.iter().enumerate() {
        // Narrowed to one server, its tool is the only one of that name.
        stage::slowly(&mut deck, "2*");
        for _ in 0..=n {
            stage::slowly(&mut deck, "]");
        }
        deck.wait(&format!("{name}   about"));
        stage::open_call(&mut deck, "twenty");
        deck.keys(CALL);
        deck.wait(&format!("{} waiting", (n + 1) * 20));
        deck.leave_call();
    }
    deck.keys("*6");
    deck.wait("100 items waiting");
    for name in names {
        deck.wait_until(name, |screen| {
            screen.lines().any(|line| line.contains(name) && line.contains("20 elicitation"))
        });
    }
    // One server's are denied as one.
    deck.keys("g");
    deck.keys("\x18");
    deck.wait("deny all requests of server \"ann\"?");
    deck.wait("20 open requests of this server");
    deck.decide("y");
    deck.wait("denied 20");
    deck.wait("80 items waiting");
    // One server dies, one leaves the configuration.
    kill(&mut deck, "ben");
    deck.wait("60 items waiting");
    let left: Vec<String> =
        ["ann", "ben", "dan", "eve"].iter().map(|name| stage::entry(name, "asker", "{}")).collect();
    std::fs::write(deck.home().join("mcp.json"), stage::config(&left)).unwrap();
    deck.wait("40 items waiting");
    let dan = pid(&mut deck, "dan");
    // A question before a withdrawal, a yes after it: the stale ones are only counted.
    deck.keys("g");
    deck.keys("\x18");
    deck.wait("deny all requests of server \"dan\"?");
    // The question stands over the pane; behind it the server goes.
    pty::kill(dan);
    deck.wait("20 waiting");
    deck.decide("y");
    // What is said of it shares its line with the news that the server died, and may give way.
    deck.gone("deny all requests of server \"dan\"?");
    let answered = |name: &str| {
        let record = stage::record(&deck, name);
        let id = |message: &serde_json::Value| message["id"].as_str().map(str::to_owned);
        let answers = record.iter().filter(|message| message.get("method").is_none());
        let ids: Vec<String> = answers.filter_map(id).filter(|id| id.starts_with("q-")).collect();
        ids.len()
    };
    // One that leaves the configuration is told, before its input is closed, that nobody answers.
    assert_eq!(names.map(answered), [20, 0, 20, 0, 0]);
    let told = stage::record(&deck, "cat");
    assert_eq!(told.iter().filter(|message| message["error"]["code"].is_i64()).count(), 20);
    let declined = stage::record(&deck, "ann");
    let declined = declined.iter().filter(|message| message["result"]["action"] == "decline");
    assert_eq!(declined.count(), 20);
    stage::stop(&mut deck);
}
