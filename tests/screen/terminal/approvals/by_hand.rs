//! Ways of answering that need hands: every kind of field, an editor outside, pasted answers, the
//! bell, calls that are given up.

use serde_json::{Value, json};

use super::stage::{self, ANSWER, CALL, SEND, Stage};
use crate::pty::{self, Launch, Size};

/// Fills the form of `kinds`; every field is changed once.
fn fill_every_kind(deck: &mut pty::Deck) {
    deck.wait("Every kind of field there is.");
    stage::slowly(deck, "Ada\r");
    stage::slowly(deck, "nobody\r");
    deck.wait("is not a valid e-mail address");
    // Page and day, then the moment is taken out.
    stage::slowly(deck, "\r1815-12-10\r\x1bu\r");
    stage::slowly(deck, "\x15200\r");
    deck.wait("must be at most 120");
    stage::slowly(deck, "\x150.25\r");
    // News is no longer true; coffee; green; large; tuesday too; nuts.
    stage::slowly(deck, " \x1b[B");
    for choice in ["coff", "gre", "lar"] {
        stage::slowly(deck, &format!("{choice}\r\x1b[B"));
    }
    stage::slowly(deck, "\r");
    deck.wait("space marks, enter closes");
    stage::slowly(deck, "\x1b[B \r\x1b[B");
    stage::slowly(deck, "\r");
    deck.wait("space marks, enter closes");
    stage::slowly(deck, " \r");
    deck.wait("Nuts");
    deck.decide(SEND);
    deck.wait("⚠ must be at most 120");
    stage::slowly(deck, "\x1577");
    // What only looks wrong is asked about once more.
    deck.decide(SEND);
    deck.wait("is not a valid e-mail address; f5 again");
    stage::slowly(deck, "\x15ada@a.example");
    deck.decide(SEND);
    deck.wait("kinds: {\"action\":\"accept\"");
}

fn every_kind() -> Value {
    json!({"name": "Ada", "mail": "ada@a.example", "page": "https://a.example/",
        "day": "1815-12-10", "age": 77, "share": 0.25, "news": false, "drink": "coffee",
        "legacy": "g", "size": "l", "days": ["mon", "tue"], "extras": ["n"]})
}

#[test]
fn every_kind_of_field_is_filled_in_and_goes_out_typed_in_both_eras() {
    let mut stage = Stage::asker(Size::WIDE);
    stage.call("kinds");
    stage.deck.keys(ANSWER);
    fill_every_kind(&mut stage.deck);
    assert_eq!(stage.answer("kinds")["result"]["content"], every_kind());
    stage.end();
    let mut stage = Stage::from_play("modern", Size::SMALL, "{}");
    stage.call("kinds");
    stage.deck.keys(ANSWER);
    fill_every_kind(&mut stage.deck);
    let record = stage.record();
    let sent = record.iter().find_map(|message| message["params"].get("inputResponses")).unwrap();
    assert_eq!(sent["kinds"], json!({"action": "accept", "content": every_kind()}));
    stage.end();
}

#[test]
fn roots_of_a_modern_server_are_given_when_it_asks_inside_its_result() {
    let mut stage = Stage::from_play("modern", Size::WIDE, "{}");
    stage.deck.keys("6f");
    stage.deck.wait("roots shared with modern");
    stage.deck.keys("/srv/data\tData");
    stage.deck.keys("\x1bOP");
    stage.deck.wait("keys: editing");
    stage.deck.keys("\x1b");
    stage.deck.gone("keys: editing");
    stage.deck.keys("\x13");
    stage.deck.wait("1 root shared with");
    stage.call_and_wait("roots", "roots: [{\"uri\":\"file:///srv/data\",\"name\":\"Data\"}]");
    stage.end();
}

/// A dashboard whose editor writes `written` and waits for the file `go` where it is told to.
fn with_editor(script: &str) -> Stage {
    let text = stage::config(&[stage::entry("asker", "asker", "{}")]);
    let launch = Launch::file(Size::WIDE, &text).write("editor.sh", script);
    let editor = format!("sh {}", launch.home().join("editor.sh").display());
    let deck = launch.env("EDITOR", &editor).start();
    deck.wait("1 ready");
    Stage::on(deck, "asker")
}

#[test]
fn an_answer_is_written_in_an_editor_and_pasted_whole() {
    let mut stage = with_editor("sed -i 's/draft/final/' \"$1\"\n");
    stage.open_question("sample", "asks for sampling");
    stage.deck.keys("my draft");
    stage.deck.wait("my draft");
    stage.deck.keys("\x0f");
    stage.deck.wait("my final");
    stage.send("said: my final");
    assert_eq!(stage.answers("sample")[0]["result"]["content"]["text"], "my final");
    stage.deck.gone("1 waiting");
    stage.asked_again("asks for sampling");
    let content = json!([{"type": "text", "text": "grey"}, {"type": "text", "text": "blue"}]);
    let whole = json!({"role": "assistant", "model": "pasted", "content": content, "stopReason": "maxTokens"});
    stage.deck.paste(&format!("{whole:#}"));
    stage.deck.wait("the whole answer was pasted");
    stage.deck.decide(SEND);
    stage::until("it goes out as it was pasted", || {
        stage.answers("sample").get(1).is_some_and(|answer| answer["result"] == whole)
    });
    stage.end();
}

#[test]
fn what_is_written_in_an_editor_outlives_the_server() {
    let script = "echo 'from outside' > \"$1\"\n: > open\nwhile [ ! -e go ]; do sleep 0.05; done\n";
    let mut stage = with_editor(script);
    let pid = stage.deck.pid_of("asker");
    stage.open_question("midway", "Left or right?");
    stage.deck.keys("\x0f");
    let open = stage.deck.home().join("open");
    pty::until("the editor is open", || open.exists());
    pty::kill(pid);
    pty::until("it is gone", || !pty::is_alive(pid));
    std::fs::write(stage.deck.home().join("go"), "").unwrap();
    stage.deck.wait("from outside");
    stage.deck.wait("no longer open");
    stage.send("nothing was sent: it is no longer open");
    stage.deck.keys("\x1b");
    stage.leave();
    assert!(stage.answers("midway").is_empty());
    stage.deck.quit();
}

#[test]
fn a_bell_rings_once_for_a_question_and_not_when_it_is_muted() {
    let mut stage = Stage::asker(Size::WIDE);
    stage::open_call(&mut stage.deck, "twenty");
    stage.deck.keys(CALL);
    stage.deck.wait("20 waiting");
    assert!(stage.deck.raw().contains('\x07'));
    stage.leave();
    stage.deck.keys("6\x18");
    stage.deck.wait("deny all requests of server \"asker\"?");
    stage.deck.decide("y");
    stage.deck.wait("Nothing waits for you");
    stage.deck.keys("B");
    stage.deck.wait("bell: muted");
    let rung = stage.deck.raw().matches('\x07').count();
    stage.call("sample");
    assert_eq!(stage.deck.raw().matches('\x07').count(), rung);
    stage.deck.keys(ANSWER);
    stage.deck.wait("asks for sampling");
    stage.refuse();
    stage.leave();
    stage::stop(&mut stage.deck);
}

#[test]
fn a_question_that_outlives_its_call_says_so_and_is_answered_all_the_same() {
    let mut stage = Stage::asker(Size::WIDE);
    stage.call_and_wait("leaves", "gone on");
    stage.deck.wait("1 waiting");
    stage.deck.keys(ANSWER);
    stage.deck.wait("Which way?");
    stage.deck.wait("to answer; the call has ended");
    stage.deck.keys("that way");
    stage.deck.decide(SEND);
    stage::until("it is answered", || !stage.answers("leaves").is_empty());
    assert_eq!(stage.answer("leaves")["result"]["content"]["text"], "that way");
    stage.end();
}

#[test]
fn a_call_that_is_given_up_takes_its_question_off_the_screen_and_keeps_the_draft() {
    let mut stage = Stage::asker(Size::WIDE);
    stage.open_question("sample", "asks for sampling");
    stage.deck.keys("almost done");
    stage.deck.wait("almost done");
    stage.deck.keys("\x1b");
    stage.deck.wait("ctrl-x cancels");
    stage.deck.keys("\x18");
    stage.deck.wait("cancelled by you after");
    stage.deck.gone("1 waiting");
    stage::until("the server is told that nobody decided", || {
        stage.answers("sample").first().is_some_and(|answer| answer["error"]["code"] == -32000)
    });
    stage.leave();
    stage.deck.keys("6");
    stage.deck.wait("withdrawn: the call that asked ended");
    stage.deck.keys("\r");
    stage.deck.wait("almost done");
    stage.send("nothing was sent: it is no longer open");
    stage.deck.keys("\x1b");
    stage.deck.wait("q quit");
    assert_eq!(stage.answers("sample").len(), 1);
    stage.deck.quit();
}
