//! Traffic, logs, black box, help and mouse as people use them, on the built binary.

use crate::pty::{Deck, Launch, Size, own_server, until};

#[test]
fn messages_of_one_operation_are_one_row_that_unfolds() {
    let script = r#"{"tools": [{"name": "work", "inputSchema": {"type": "object"}}],
        "calls": {"work": [{"ask": {"method": "roots/list"}}, {"progress": {"steps": 2}},
        {"text": "done"}]}}"#;
    let server = own_server("mill", &["mock", "mill.json"]);
    let mut deck = Launch::file(Size::WIDE, &format!("{{\"servers\": {{{server}}}}}"))
        .write("mill.json", script)
        .start();
    deck.wait("1 ready");
    deck.keys("2\r");
    deck.wait("f5 call");
    deck.keys("\x1b[15~");
    deck.wait("done");
    deck.keys("\x1b");
    deck.keys("\x1b");
    deck.gone("f5 call");
    deck.keys("4");
    deck.wait("tools/call work");
    deck.wait("notifications/progress");
    let progress = |screen: &str| screen.matches("notifications/progress").count();
    deck.keys("o");
    deck.wait("by operation");
    deck.wait_until("one row of the call", |screen| {
        screen.contains("6 message") && progress(screen) == 0
    });
    deck.keys("Gl");
    deck.wait_until("its messages", |screen| {
        progress(screen) == 2 && screen.contains("├ roots/list")
    });
    deck.keys("jjh");
    deck.wait_until("folded from within", |screen| progress(screen) == 0);
    deck.keys("o");
    deck.gone("by operation");
    deck.quit();
}

#[test]
fn a_message_opens_as_json_that_folds_and_leads_to_its_other_half() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    deck.keys("4/method:tools/list dir:out server:atlas\r");
    deck.wait("1 row of ");
    deck.keys("\r");
    deck.wait("p shows it");
    deck.wait("method: \"tools/list\"");
    // The filter hides the answer: it is found all the same when it is lifted.
    deck.keys("\x1b");
    deck.wait("/ method");
    deck.keys("\x7f");
    deck.gone("method:tools/list");
    deck.keys("p\r");
    deck.wait("response from atlas");
    deck.wait("result: { ");
    deck.wait("tools: [ ");
    // Folding the root leaves one row of JSON, unfolding brings it back.
    deck.keys("gz");
    deck.gone("tools: [ ");
    deck.keys("l");
    deck.wait("▸ result: { 1 }");
    deck.keys("jjjl");
    deck.wait("tools: [ ");
    deck.decide("y");
    deck.wait("copied");
    deck.keys("p");
    deck.wait("request to atlas");
    // Left folds, then leads out.
    deck.keys("ghh");
    deck.wait("following");
    deck.quit();
}

#[test]
fn filters_are_completed_saved_under_a_name_and_remembered_by_the_project() {
    let launch = Launch::demo(Size::WIDE);
    let mut deck = launch.start();
    deck.wait("4 ready");
    // The servers have a column where the preview takes no room.
    deck.keys("4|/ser\t");
    deck.wait("/ server:");
    deck.keys("cr\t");
    deck.wait("/ server:crew");
    deck.wait_until("messages of crew alone", |screen| !screen.contains("→ atlas"));
    deck.keys("\r");
    // What arrives together is a paste, which sends nothing: Enter comes once the text is seen.
    deck.keys(":save this filter");
    deck.wait("▸Save this filter");
    deck.keys("\r");
    deck.wait("save the filter as");
    deck.keys("crew alone");
    deck.wait("crew alone");
    deck.keys("\r");
    deck.wait("saved crew alone");
    deck.keys("\x7f");
    deck.wait("→ atlas");
    deck.keys(":choose a saved");
    deck.wait("▸Choose a saved");
    deck.keys("\r");
    deck.wait("saved filters");
    deck.keys("\r");
    deck.gone("→ atlas");
    deck.keys("/ kind:wrong\r");
    deck.wait("kind: takes one of request, notification");
    deck.keys("\x7f1");
    let mut deck = Launch::demo_again(Size::WIDE, deck.quit_and_keep()).start();
    deck.wait("4 ready");
    deck.keys(":crew alone\r");
    deck.wait("/ server:crew");
    deck.keys("|\x7f");
    deck.wait("→ atlas");
    deck.keys(":choose a saved");
    deck.wait("▸Choose a saved");
    deck.keys("\r");
    deck.wait("saved filters");
    deck.keys("\x1b[3;5~");
    deck.wait("removed crew alone: server:crew");
    deck.keys("\x1b");
    deck.gone("saved filters");
    deck.quit();
}

#[test]
fn what_is_shown_and_what_is_marked_is_exported_as_json_lines() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    deck.keys("4|/method:initialize server:gremlin");
    deck.wait("→ gremlin");
    let exported = |deck: &Deck, name: &str| {
        let path = deck.home().join(name);
        until("the file is written", || std::fs::read(&path).is_ok_and(|text| !text.is_empty()));
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<serde_json::Value>>()
    };
    deck.keys("\rw");
    let all = exported(&deck, "traffic.jsonl");
    assert!(all.len() >= 2, "{all:?}");
    assert!(all.iter().all(|record| record["server"] == "gremlin"), "{all:?}");
    deck.keys("gmw");
    deck.wait("1 marked");
    let marked = exported(&deck, "traffic-1.jsonl");
    assert_eq!(marked, all[..1]);
    deck.quit();
}

#[test]
fn logs_are_searched_both_ways_and_following_never_stops_silently() {
    let line = |n: u32| {
        let word = if n % 50 == 7 { "needle" } else { "hay" };
        format!("{{\"stderr\": \"line {n} of {word}\"}}")
    };
    let lines: Vec<String> = (0..200).map(line).collect();
    let script = format!("{{\"on\": {{\"start\": [{}]}}}}", lines.join(","));
    let server = own_server("talks", &["mock", "talks.json"]);
    let mut deck = Launch::file(Size::WIDE, &format!("{{\"servers\": {{{server}}}}}"))
        .write("talks.json", &script)
        .start();
    deck.wait("1 ready");
    deck.keys("5");
    deck.wait("line 199 of hay");
    deck.wait("following");
    deck.keys("/needle\r");
    let selected = |text: &'static str| {
        move |screen: &str| screen.lines().any(|line| line.contains('▸') && line.contains(text))
    };
    deck.wait_until("the nearest older match", selected("line 157 of needle"));
    deck.wait("not following");
    deck.keys("N");
    deck.wait_until("the one before", selected("line 107 of needle"));
    deck.keys("n");
    deck.wait_until("the one after", selected("line 157 of needle"));
    deck.keys("f");
    deck.gone("not following");
    deck.keys("+++++");
    deck.wait("showing level error and above");
    deck.gone("line 199 of hay");
    deck.keys("-----");
    deck.wait("line 199 of hay");
    deck.quit();
}

#[test]
fn the_level_of_the_log_is_chosen_for_the_host_and_for_a_server() {
    let mut deck = Launch::demo(Size::WIDE).arg("--log-file").arg("deck.log").start();
    deck.wait("4 ready");
    deck.keys("5D");
    deck.wait("mcpdeck: trace and above");
    deck.keys("mcpdeck debug\r");
    deck.gone("mcpdeck: trace and above");
    deck.wait("mcpdeck logs debug and above");
    let log = deck.home().join("deck.log");
    deck.keys("2r");
    until("lines of that level", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("\"level\":\"DEBUG\"")
    });
    deck.keys("5D");
    deck.wait("mcpdeck: trace and above");
    deck.keys("beacon error\r");
    deck.wait("beacon logs from");
    deck.quit();
}

#[test]
fn the_mouse_selects_opens_scrolls_and_changes_panes() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    let (col, row) = deck.place_of("2 Tools");
    deck.click(col + 2, row);
    deck.wait("find_airport");
    let (col, row) = deck.place_of("weather");
    deck.click(col, row);
    let here = |screen: &str| screen.lines().any(|l| l.contains('▸') && l.contains("weather"));
    deck.wait_until("the selected row", here);
    deck.wheel_down(col, row);
    deck.wheel_down(col, row);
    deck.keys("\\");
    deck.wait("All servers");
    let (col, row) = deck.place_of("crew");
    deck.click(col, row);
    deck.wait_until("one server alone", |screen| {
        !screen.contains("find_airport") && !screen.contains("u refresh")
    });
    let (col, row) = deck.place_of("? help");
    deck.click(col, row);
    deck.wait("keys: Tools");
    deck.keys("\x1b");
    deck.quit();
}

#[test]
fn escape_closes_the_topmost_thing_and_never_quits() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    deck.keys("b");
    deck.wait("diagnostics: ");
    deck.keys("?");
    deck.wait("keys: ");
    deck.keys("\x1b");
    deck.gone("keys: ");
    deck.wait("diagnostics: ");
    for _ in 0..5 {
        deck.keys("\x1b");
        deck.gone("diagnostics: ");
    }
    deck.keys("2");
    deck.wait("find_airport");
    deck.quit();
}
