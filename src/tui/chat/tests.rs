//! The chat screen by itself: events in, lines and commands out.

use serde_json::json;

use crossterm::event::KeyCode;

use super::*;
use crate::intent::Intent;

const AREA: Rect = Rect::new(0, 0, 80, 24);

fn screen(events: &[Value]) -> ChatScreen {
    let mut screen = ChatScreen::default();
    for event in events {
        screen.event(event);
    }
    screen.lay_out(&Styles::default(), AREA);
    screen
}

/// Performs an action; returns the chat command it produced.
fn act(screen: &mut ChatScreen, action: Action) -> Option<ChatCommand> {
    let mut out = Out::default();
    screen.apply(action, &mut out);
    screen.lay_out(&Styles::default(), AREA);
    out.intents.into_iter().find_map(|intent| match intent {
        Intent::Perform(Effect::Chat(command)) => Some(command),
        _ => None,
    })
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn message(text: &str, at: Option<u64>) -> Value {
    json!({"type": "message", "text": text, "at": at})
}

fn call(id: &str) -> [Value; 2] {
    [
        json!({"type": "toolCall", "id": id, "name": "a__b", "arguments": {"n": 1}}),
        json!({"type": "toolResult", "id": id, "isError": false, "text": "4\u{1b}2", "durationMs": 12}),
    ]
}

fn shown(screen: &ChatScreen) -> String {
    let lines = screen.entries.iter().flat_map(|entry| &entry.lines).chain(&screen.tail_lines);
    let line = |line: &ChatLine| line.iter().map(|(text, _)| text.as_str()).collect::<String>();
    lines.map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn finished_blocks_are_laid_out_once_and_the_end_grows() {
    let mut screen = screen(&[text("# One\n\ntwo "), text("three\n\n```\na\n\nb")]);
    assert_eq!(screen.entries.len(), 2);
    assert!(screen.tail.text.starts_with("```"), "{:?}", screen.tail);
    let first = screen.entries[0].lines.as_ptr();
    screen.event(&text("\n```\n\nlast"));
    screen.lay_out(&Styles::default(), AREA);
    assert_eq!(screen.entries[0].lines.as_ptr(), first, "not laid out again");
    assert!(shown(&screen).ends_with("last"), "{}", shown(&screen));
    screen.event(&json!({"type": "status", "status": "retrying", "message": "again"}));
    assert_eq!((screen.entries.len(), screen.tail.text.as_str()), (0, ""), "it is void");
}

#[test]
fn an_answer_is_split_alike_however_it_is_cut_into_pieces() {
    let whole = "one\n\n```\na\n\nb\n```\n\ntwo\nlines\n\n```rust\nc\n\n";
    let entries = |size: usize| {
        let pieces = whole.as_bytes().chunks(size).map(|piece| String::from_utf8_lossy(piece));
        let screen = screen(&pieces.map(|piece| text(&piece)).collect::<Vec<_>>());
        let parts = screen.entries.iter().map(|entry| format!("{:?}", entry.part));
        (parts.collect::<Vec<_>>(), screen.tail.text.clone(), shown(&screen))
    };
    // A piece may be of several blocks; what is shown is the same.
    let (parts, tail, drawn) = entries(1);
    assert_eq!((parts.len(), tail.as_str()), (3, "```rust\nc\n\n"));
    for size in 2..whole.len() {
        let found = entries(size);
        assert_eq!(
            (&found.1, found.2.replace('\n', "")),
            (&tail, drawn.replace('\n', "")),
            "{size}"
        );
    }
}

#[test]
fn a_long_result_is_unfolded_in_part_and_that_is_said() {
    let [begun, mut ended] = call("1");
    for long in
        ["line\n".repeat(2_000), "word ".repeat(40_000), json!([vec![1; 2_000]]).to_string()]
    {
        ended["text"] = json!(long);
        let mut screen = screen(&[begun.clone(), ended.clone()]);
        act(&mut screen, Action::Fold);
        let drawn = shown(&screen);
        assert!(drawn.lines().count() < 250, "{}", drawn.lines().count());
        assert!(drawn.ends_with("… open the call to see the rest"), "{drawn}");
    }
    ended["text"] = json!("short");
    let mut screen = screen(&[begun, ended]);
    act(&mut screen, Action::Fold);
    assert!(!shown(&screen).contains('…'), "{}", shown(&screen));
}

#[test]
fn a_call_is_one_line_unfolds_to_its_result_and_opens() {
    let mut screen = screen(&call("1"));
    let line = shown(&screen);
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains("a__b") && line.contains("12 ms") && line.contains(r#"{"n":1}"#));
    act(&mut screen, Action::Fold);
    assert!(shown(&screen).contains("4␛2"), "{}", shown(&screen));
    let mut out = Out::default();
    screen.apply(Action::NextBlock, &mut out);
    screen.apply(Action::Send, &mut out);
    assert!(out.screen.is_some(), "nothing is open");
    let at = screen.selected.unwrap();
    let opened = ChatCallScreen::new(screen.call(at).unwrap());
    assert_eq!(opened.view.first_text(), "4\u{1b}2");
    assert_eq!(opened.view.result["arguments"], json!({"n": 1}));
    // With a running call selected, only that call is cancelled.
    screen.event(&call("2")[0]);
    act(&mut screen, Action::Back);
    act(&mut screen, Action::NextBlock);
    let wanted = ChatCommand::CancelCall("2".to_owned());
    assert_eq!(act(&mut screen, Action::CancelCall), Some(wanted));
}

#[test]
fn a_result_that_is_json_is_a_tree_and_pictures_come_with_it() {
    let picture = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
    let [begun, mut ended] = call("1");
    ended["text"] = json!(r#"{"rows": [1, 2]}"#);
    let screen = |ended: &Value| screen(&[begun.clone(), ended.clone()]);
    let tree = screen(&ended);
    let opened = ChatCallScreen::new(tree.call(0).unwrap());
    assert_eq!(opened.view.tab, crate::result::view::ResultTab::Structured);
    assert_eq!(opened.view.result["structuredContent"]["rows"], json!([1, 2]));
    ended["pictures"] = json!([picture]);
    let mut shown_screen = screen(&ended);
    act(&mut shown_screen, Action::Fold);
    assert!(shown(&shown_screen).contains("picture, image/png"), "{}", shown(&shown_screen));
    let opened = ChatCallScreen::new(shown_screen.call(0).unwrap());
    assert_eq!((opened.view.result["content"][1].clone(), opened.view.blocks.len()), (picture, 2));
}

#[test]
fn a_message_is_written_again_and_replaces_what_followed() {
    let done = json!({"type": "done", "reason": "end"});
    let mut screen =
        screen(&[message("one", None), text("1"), done.clone(), message("two", None), done]);
    act(&mut screen, Action::EditAgain);
    act(&mut screen, Action::EditAgain);
    screen.type_key(KeyEvent::from(KeyCode::Char('!')));
    let wanted = ChatCommand::Say("one!".to_owned(), Some(0));
    assert_eq!(act(&mut screen, Action::Send), Some(wanted));
    screen.event(&message("one!", Some(0)));
    assert_eq!((screen.said.len(), screen.entries.len()), (1, 1));
    assert_eq!(act(&mut screen, Action::Send), None, "nothing is typed");
    assert_eq!(act(&mut screen, Action::CancelCall), Some(ChatCommand::Abort));
    act(&mut screen, Action::EditAgain);
    assert_eq!(act(&mut screen, Action::Branch), Some(ChatCommand::Branch(Some(0))));
}

#[test]
fn a_search_goes_up_from_match_to_match_and_shows_each() {
    let long: Vec<Value> = (0..60).map(|n| text(&format!("line {n}\n\n"))).collect();
    let mut screen = screen(&long);
    act(&mut screen, Action::Search);
    for c in "line 5".chars() {
        screen.type_key(KeyEvent::from(KeyCode::Char(c)));
    }
    let mut found = Vec::new();
    for _ in 0..12 {
        act(&mut screen, Action::Send);
        let row = screen.search.as_ref().unwrap().1.unwrap();
        let end = screen.end();
        assert!(row < end && row + screen.page() >= end, "row {row} is not seen");
        found.push(row);
    }
    assert!(found[..11].is_sorted_by(|a, b| a > b), "{found:?}");
    assert_eq!(found[11], found[0], "and again from the end");
    act(&mut screen, Action::Back);
    assert!(screen.search.is_none());
}

#[test]
fn the_export_is_markdown() {
    let mut events = vec![message("how warm?", None)];
    events.extend(call("1"));
    events.push(text("It is **42**."));
    events.push(
        json!({"type": "done", "reason": "end", "toolCalls": 1, "usage": {"input": 3, "output": 2},
        "costs": [{"server": "a", "definitions": 10, "guidance": 2, "results": 5}]}),
    );
    let text = screen(&events).markdown();
    for part in [
        "## You\n\nhow warm?",
        "- `a__b` `{\"n\":1}`",
        "It is **42**.",
        "1 call, 3 tokens in, 2 out; of every prompt: a 12 + 5 of results",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn messages_that_a_summary_replaced_are_counted_and_what_is_not_sent_stays_typed() {
    let replaced = json!({"type": "status", "status": "summarised", "replaced": 2, "message": "2"});
    let mut screen = screen(&[replaced, message("three", None), message("four", None)]);
    screen.event(&json!({"type": "done"}));
    for (wanted, at) in [("four", 3), ("three", 2), ("three", 2)] {
        act(&mut screen, Action::EditAgain);
        assert_eq!((screen.input.lines(), screen.again), (&[wanted.to_owned()][..], Some(at)));
    }
    let wanted = ChatCommand::Say("three".to_owned(), Some(2));
    assert_eq!(act(&mut screen, Action::Send), Some(wanted));
    screen.news(ChatNews::Unsent("three".to_owned()));
    assert_eq!(screen.input.lines(), ["three"]);
    screen.event(&message("three", Some(2)));
    assert_eq!(screen.said, ["three"]);
}

#[test]
fn an_empty_conversation_suggests_messages_and_tab_writes_them() {
    let suggestions = ["How warm is it?", "Read it.", "Stop."].map(SafeText::line).to_vec();
    let mut screen = ChatScreen::default();
    let opened = |suggestions| ChatNews::Opened {
        with: SafeText::line("m"),
        events: Vec::new(),
        busy: false,
        suggestions,
    };
    screen.news(opened(suggestions));
    let mut buffer = Buffer::empty(AREA);
    screen.lay_out(&Styles::default(), AREA);
    screen.draw(&Styles::default(), AREA, &mut buffer);
    let drawn = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect::<String>();
    assert!(drawn.contains("• How warm is it?") && drawn.contains("• Stop."), "{drawn}");
    for wanted in ["How warm is it?", "Read it.", "Stop.", "How warm is it?"] {
        act(&mut screen, Action::NextBlock);
        assert_eq!(screen.input.lines(), [wanted]);
    }
    let wanted = ChatCommand::Say("How warm is it?".to_owned(), None);
    assert_eq!(act(&mut screen, Action::Send), Some(wanted));
    screen.event(&message("How warm is it?", None));
    assert_eq!(act(&mut screen, Action::NextBlock), None);
    assert!(screen.input.is_empty(), "tab selects calls again");
}

#[test]
fn arguments_and_results_unfold_as_trees_without_losing_a_character() {
    let long = "word ".repeat(40);
    let result = json!({"rows": [{"name": "hall", "celsius": 21.5}, {"text": long}]}).to_string();
    let mut screen = screen(&[
        json!({"type": "toolCall", "id": "1", "name": "a__b", "arguments": {"at": ["hall"]}}),
        json!({"type": "toolProgress", "id": "1", "name": "a__b", "message": "2 of 4: reading", "progress": 2}),
    ]);
    assert!(shown(&screen).contains("2 of 4: reading"), "{}", shown(&screen));
    screen.event(&json!({"type": "toolResult", "id": "1", "isError": false, "text": result}));
    act(&mut screen, Action::Fold);
    let lines = shown(&screen);
    for part in ["    \"at\": [", "      \"hall\"", "\"celsius\": 21.5"] {
        assert!(lines.contains(part), "{part}\n{lines}");
    }
    assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
    assert_eq!(lines.matches("word").count(), 40, "{lines}");
}

#[test]
fn the_end_of_a_turn_and_its_cost_are_told_in_words() {
    let done = json!({
        "type": "done", "reason": "length", "message": "the answer was cut off at its maximum length",
        "toolCalls": 0, "usage": {"input": 1200, "cached": 800, "output": 64}, "cost": 0.00123,
        "sessionCost": 0.5, "costs": [{"server": "a", "definitions": 10, "guidance": 0, "dollars": 0.001}],
    });
    // Told before, it is told once.
    let said = json!({"type": "status", "status": "stopped",
        "message": "the answer was cut off at its maximum length"});
    let screen = screen(&[said, done]);
    let spent: Vec<&str> = screen.spent.iter().map(SafeText::as_str).collect();
    let long = "1200 in (800 cached), 64 out · $0.0012, $0.5000 in all";
    assert_eq!(spent, [long, "1200 in, 64 out · $0.5000 in all", "$0.5000 in all"]);
    let lines = shown(&screen).replace('\n', " ");
    assert!(lines.starts_with("the answer was cut off at its maximum length: 0 calls"), "{lines}");
    assert_eq!(lines.matches("cut off").count(), 1, "{lines}");
    assert!(lines.contains("a 10 $0.0010"), "{lines}");
}
