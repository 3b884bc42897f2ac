//! Servers answered by hand: the built binary in a pseudo-terminal, real and played servers, keys in
//! and screens out; and what went over the wire, from the servers' own records.

mod by_hand;
mod hostile;
pub mod stage;
mod withdrawn;

use std::time::{Duration, Instant};

use crate::pty::{Deck, Launch, Size};
use crate::support;
use stage::{ANSWER, CALL, SEND, Stage};

#[test]
fn sampling_and_elicitation_of_the_reference_server_are_answered_by_keys() {
    let Some(folder) = support::real_servers() else { return };
    let module = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let script = folder.join(module).display().to_string();
    let text = format!(
        r#"{{"servers": {{"everything": {{"command": "node", "args": [{script:?}, "stdio"],
            "timeout": 5}}}}}}"#
    );
    let mut stage = Stage::on(Launch::file(Size::WIDE, &text).start(), "everything");
    stage::open_call(&mut stage.deck, "trigger-sampling-request");
    stage.deck.keys("good morning");
    stage.asked_again("asks for sampling");
    stage.deck.wait("You are a helpful test server.");
    stage.deck.wait("good morning");
    // Some time goes by, and the screen shows it.
    stage.deck.wait_until("less than an hour", |screen| {
        screen.lines().any(|line| line.contains(" 59m ") && line.contains("s to answer"))
    });
    stage.deck.keys("Good morning to you");
    stage.send("LLM sampling result");
    stage.deck.wait("Good morning to you");
    stage.deck.wait("waiting for you");
    stage.leave();
    stage.open_question("trigger-elicitation-request", "everything asks you");
    // Text, a choice of yes or no, a default that stays, an address, a page, a day; numbers and
    // choices as the server proposes them, and one list of titled choices changed.
    stage.deck.keys("Ada Lovelace\r \x1b[B\r");
    stage.deck.keys("ada@a.example\rhttps://a.example\r1815-12-10\r");
    stage.deck.wait("Tuna");
    stage.deck.keys("\x1b[B\x1b[B\x1b[B\x1b[B\x1b[B\r");
    stage.deck.wait("space marks, enter closes");
    stage.deck.keys("\x1b[B \r");
    stage.deck.wait("Tuna, Salmon");
    stage.send("User provided the requested information");
    stage.deck.wait("Ada Lovelace");
    // The choices are at the end of what the server says.
    stage.deck.keys("G");
    stage.deck.wait("fish-2");
    stage.leave();
    stage.open_question("trigger-elicitation-request", "everything asks you");
    stage.deck.decide("\x18");
    stage.deck.wait("declined");
    stage.end();
}

#[test]
fn a_completion_shows_all_that_is_asked_and_goes_out_as_it_was_written() {
    let mut stage = Stage::asker(Size::WIDE);
    stage.call("sample");
    stage.deck.keys(ANSWER);
    for said in [
        "Answer in one word.",
        "What colour is the sky?",
        "image image/png",
        "audio audio/wav",
        "max 40 tokens",
        "temperature 0.5",
        "END",
        "model like tiny",
        "cost 0.25",
        "context allServers",
        "context of all servers; nothing is added",
        "\"trace\": 77",
    ] {
        stage.deck.wait(said);
    }
    stage.deck.keys("grey\rblue");
    // Model and stop reason are behind "more".
    stage.deck.keys("\t\r");
    stage.deck.wait("stopReason");
    stage.deck.keys("\t");
    stage.deck.keys(" (me)\t");
    stage.deck.keys("!");
    stage.send("said: grey");
    let answer = stage.answer("sample");
    assert_eq!(answer["result"]["content"]["text"], "grey\nblue");
    assert_eq!(answer["result"]["model"], "manual (me)");
    assert_eq!(answer["result"]["stopReason"], "endTurn!");
    assert_eq!(answer.as_object().unwrap().len(), 3, "no context leaked: {answer}");
    stage.end();
}

#[test]
fn a_tool_call_is_filled_in_and_goes_out_as_a_block() {
    // Wide enough for the JSON beside the form.
    let mut stage = Stage::asker(Size(134, 40));
    stage.open_question("use_tool", "it asks for a tool call");
    stage.deck.wait("uses look_up");
    stage.deck.wait("result of c0");
    // Without a chord of alt, which not every terminal sends.
    stage.deck.wait("f9 more");
    stage.deck.keys("\x1b[20~");
    stage.deck.wait("Answer with a tool call");
    stage.deck.wait("only an elicitation can be cancelled");
    stage.deck.keys("t");
    stage.deck.wait("call a tool");
    stage.deck.keys("book\r");
    stage.deck.wait("a call of book");
    stage.deck.keys("0");
    stage.send("⚠ must be");
    stage.deck.keys("\x7f4");
    stage.send("\"tool_use\"");
    stage.deck.wait("toolUse");
    stage.send("chosen:");
    let result = stage.answer("use_tool")["result"].clone();
    assert_eq!(result["content"][0]["name"], "book");
    assert_eq!(result["content"][0]["input"], serde_json::json!({"seats": 4}));
    assert_eq!(result["stopReason"], "toolUse");
    stage.end();
}

#[test]
fn modern_questions_are_answered_by_calling_again() {
    let mut stage = Stage::from_play("modern", Size::WIDE, "{}");
    stage::open_call(&mut stage.deck, "ask");
    stage.deck.keys(CALL);
    stage.deck.wait("2 waiting");
    stage.deck.keys(ANSWER);
    stage.deck.wait("no request is open on the wire");
    stage.deck.wait("1 of 2");
    stage.deck.keys("Ada");
    stage.send("1 waiting");
    stage.deck.keys(ANSWER);
    stage.deck.wait("Say something.");
    stage.deck.keys("something");
    stage.send("asks you");
    // The answers of before are among the events of the call, so nothing tells when the next question
    // is there but that it opens.
    let opens = |deck: &mut Deck| {
        deck.keys(ANSWER);
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end && !deck.screen().contains("And sign.") {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        deck.screen().contains("And sign.")
    };
    assert!((0..15).any(|_| opens(&mut stage.deck)), "{}", stage.deck.screen());
    stage.deck.decide("\x18");
    stage.deck.wait("state two:Ada:something, page decline");
    let retries: Vec<_> = stage
        .record()
        .into_iter()
        .filter(|message| message["params"].get("inputResponses").is_some())
        .collect();
    assert_eq!(retries.len(), 2, "each round is answered once");
    stage.end();
}

#[test]
fn an_answer_is_kept_picked_again_and_given_by_a_rule() {
    let mut stage = Stage::asker(Size::WIDE);
    stage.open_question("sample", "asks for sampling");
    stage.deck.keys("azure");
    stage.deck.keys("\x13");
    stage.deck.wait("keep this answer as");
    stage.deck.keys("plain\r");
    stage.deck.wait("kept plain in");
    let kept = std::fs::read_to_string(stage.deck.home().join("mcp.answers.json")).unwrap();
    assert!(kept.contains("\"plain\"") && kept.contains("azure"), "{kept}");
    stage.deck.keys("\x7f\x7f\x7f\x7f\x7f\x14");
    stage.deck.wait("start from");
    stage.deck.keys("plain\r");
    stage.deck.wait("azure");
    stage.deck.keys("\x1bs");
    stage.deck.wait("like this one?");
    stage.deck.keys("next 1 ");
    stage.deck.wait("next 1 ");
    stage.deck.decide("\r");
    stage.deck.wait("said: azure");
    stage.deck.keys(CALL);
    stage::until("the rule answered", || stage.answers("sample").len() == 2);
    stage.deck.gone("1 waiting");
    stage.asked_again("asks for sampling");
    stage.deck.decide("\x18");
    stage.deck.wait("reason (optional)");
    stage.deck.keys("enough\r");
    stage.deck.wait("press f5 to deny");
    stage.send("said: enough");
    let error = stage.answers("sample")[2]["error"].clone();
    assert_eq!((error["code"].as_i64(), error["message"].as_str()), (Some(-1), Some("enough")));
    stage.leave();
    stage.deck.keys("6");
    stage.deck.wait("by the rule for this");
    stage.deck.wait("refused by you: enough");
    stage.deck.keys("5");
    stage.deck.wait("answered by a person");
    stage.deck.keys("q");
    assert_eq!(stage.deck.exit_code(), 0);
}

#[test]
fn roots_are_shared_while_it_runs_and_the_server_sees_them() {
    let mut stage = Stage::asker(Size::WIDE);
    stage.deck.keys("6f");
    stage.deck.wait("roots shared with asker");
    stage.deck.keys("/srv/data\tData");
    stage.deck.keys("\x1ba");
    stage.deck.keys("nowhere");
    stage.deck.keys("\x13");
    stage.deck.wait("write a whole path");
    stage.deck.keys("\x1bx\x13");
    stage.deck.wait("root file:///srv/data  Data");
    stage::until("the server is told", || {
        let method = "notifications/roots/list_changed";
        stage.record().iter().any(|message| message["method"] == method)
    });
    stage.call_and_wait("roots", "roots: [{\"uri\":\"file:///srv/data\",\"name\":\"Data\"}]");
    stage.end();
}

#[test]
fn a_registered_drafter_drafts_and_a_person_sends() {
    let mut deck = Launch::demo(Size::WIDE).start();
    deck.wait("4 ready");
    stage::open_call(&mut deck, "draft_announcement");
    deck.keys("fog");
    deck.keys(CALL);
    deck.wait("1 waiting");
    deck.keys(ANSWER);
    deck.wait("asks for sampling");
    // The request is edited before it is used.
    deck.keys("\x1bo");
    deck.wait("the request as JSON");
    deck.keys("\x1bo");
    deck.gone("the request as JSON");
    deck.keys("\x1b[18~");
    deck.wait("a draft by script, no language model");
    deck.wait("all is well.");
    deck.keys(" Enjoy.");
    deck.decide(SEND);
    deck.wait("The purser reads: About");
    deck.leave_call();
    deck.quit();
}

#[test]
fn no_stray_key_answers_anything() {
    let mut stage = Stage::asker(Size::SMALL);
    stage.call("sample");
    // Wherever the person is, and whatever is typed there.
    stage.deck.keys("\r\r yn\r");
    stage.leave();
    for pane in "1234567".chars() {
        stage.deck.keys(&format!("{pane}\r \ry\r\x1b\x1b"));
    }
    stage.deck.keys("\x1b\x1b6");
    stage.deck.wait("1 item waiting");
    stage.deck.keys("\r");
    stage.deck.wait("asks for sampling");
    // In the answer Enter is a new line, and letters are letters.
    stage.deck.keys("\r\ryes\r\r");
    stage.deck.keys("\x1b");
    stage.deck.wait("1 waiting");
    assert!(stage.answers("sample").is_empty());
    stage.deck.keys(ANSWER);
    stage.deck.wait("yes");
    stage.deck.decide(SEND);
    stage::until("it is answered now", || stage.answers("sample").len() == 1);
    stage.deck.wait("Nothing waits for you");
    stage.deck.keys("q");
    assert_eq!(stage.deck.exit_code(), 0);
}

#[test]
fn the_time_left_counts_down_and_can_be_made_longer() {
    let mut stage = Stage::from_play("asker", Size::WIDE, r#"{"maxWaiting": 90}"#);
    stage.open_question("sample", "1m 28s to answer; the timeout of the call is paused");
    stage.deck.wait("1m 27s to answer");
    stage.deck.keys("\x1b[20~");
    stage.deck.wait("Extend the deadline by 10 minutes");
    stage.deck.keys("m");
    stage.deck.wait("11m");
    stage.deck.keys("ok");
    stage.send("said: ok");
    stage.end();
}

#[test]
fn a_call_from_a_shell_asks_at_the_terminal_what_its_server_asks() {
    let text = stage::config(&[stage::entry("asker", "asker", "{}")]);
    let call = |tool: &str| {
        let launch = Launch::new(Size::WIDE, &["call", tool, "--config", "mcp.json"]);
        launch.write("mcp.json", &text).start()
    };
    let mut deck = call("kinds");
    deck.wait("server \"asker\" asks during kinds: Every kind of field there is.");
    deck.wait("[y: answer, n: decline, Enter: cancel]");
    deck.keys("y\r");
    deck.wait("name: as you sign  (string, required)");
    // Too short, then right; what is required is asked for again, what is not is left out.
    deck.keys("A\r");
    deck.wait("2 characters");
    deck.keys("Ada\r");
    deck.wait("mail");
    deck.keys("\r");
    deck.wait("it is required");
    deck.keys("ada@a.example\r");
    for field in ["page", "day", "moment", "age", "share", "news", "drink"] {
        deck.wait(&format!("  {field}"));
        deck.keys("\r");
    }
    deck.wait("legacy");
    deck.keys("x\r");
    deck.wait_until("told what it may be", |screen| screen.matches("  legacy").count() == 2);
    deck.keys("g\r");
    for field in ["size", "days", "extras"] {
        deck.wait(&format!("  {field}"));
        deck.keys("\r");
    }
    deck.wait("\"name\":\"Ada\",\"mail\":\"ada@a.example\",\"page\":\"https://a.example/\"");
    let mut deck = call("sample");
    deck.wait("What colour is the sky?");
    deck.keys("Blue\r\r");
    deck.wait("said: Blue");
    let mut deck = call("sample");
    deck.wait("What colour is the sky?");
    deck.keys("\r");
    deck.wait("the user rejected the sampling request");
    let mut deck = call("page");
    deck.wait("it wants you to open https://auth.example.com/login?state=abc");
    deck.keys("n\r");
    deck.wait("page: {\"action\":\"decline\"}");
    let raw = deck.raw();
    assert!(!raw.contains("was refused"), "{raw}");
}
