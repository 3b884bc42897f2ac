//! What servers say cannot reach the terminal as anything but text (rows S24 and S25), and terminals
//! that can do little are served or refused in words (row T6). Looks at every byte.

use serde_json::{Value, json};

use crate::pty::{Deck, Launch, Size, own_server};

/// The hostile server of a row of the fault catalogue, with a question to the person in its call.
fn hostile(row: &str, size: Size) -> Launch {
    let file = format!("{}/fixtures/faults/{row}.json", env!("CARGO_MANIFEST_DIR"));
    let row: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut script = row["servers"]["faulty"]["mock"].clone();
    let evil = script["serverInfo"]["title"].clone();
    let question = json!({"ask": {"method": "elicitation/create", "params": {
        "message": evil, "requestedSchema": {"type": "object",
        "properties": {"a": {"type": "string", "title": evil, "description": evil}}}}}});
    let fine = script["calls"]["fine"].as_array_mut().unwrap();
    fine.insert(0, question);
    let server = own_server("faulty", &["mock", "script.json"]);
    Launch::file(size, &format!("{{\"servers\": {{{server}}}}}"))
        .write("script.json", &script.to_string())
}

/// Every pane with its detail, the black box, a call that asks and answers, one that fails.
fn look_everywhere(deck: &mut Deck, asked: &str) {
    deck.wait("1 ready");
    // The program's own bell would look like one of the server's.
    deck.keys("B");
    deck.wait("bell: muted");
    // Typed with a pause between all keys: what comes at once counts as pasted.
    let mut steps = "";
    for (key, shown) in [
        ("2", "tools of 1 server"),
        ("3", "resources"),
        ("3v", "prompts"),
        ("4", "initialize"),
        ("5", "lines"),
        ("1v", "p95"),
        ("3vv", "entries"),
        ("6", "Nothing waits for you"),
        ("7", "effective values"),
        ("1", "faulty"),
    ] {
        deck.keys(&format!("{steps}{key}"));
        deck.wait(shown);
        steps = "jljjhg";
    }
    deck.keys(&format!("{steps}b"));
    deck.wait("diagnostics: faulty");
    deck.keys("G\x1b");
    deck.gone("diagnostics: faulty");
    deck.keys("2g");
    deck.wait("▸  fine ");
    // Opened and called; the keys come in order.
    deck.keys("\r\x1b[15~");
    deck.wait("1 waiting");
    deck.keys("\x07");
    deck.wait(asked);
    deck.decide("\x18");
    deck.wait("said");
    deck.keys("\t\t\t");
    deck.leave_call();
    deck.wait("2 tools of 1 server");
    // It wants arguments: this one is sent past the validation.
    deck.keys("j\r\x1b[19~");
    deck.wait("-32000");
    deck.leave_call();
    for (key, shown) in [("4", "faulty"), ("5", "lines"), ("1v", "p95"), ("1", "pid ")] {
        deck.keys(key);
        deck.wait(shown);
    }
}

#[test]
fn control_sequences_of_a_server_reach_no_terminal_from_any_pane() {
    for size in [Size::WIDE, Size::SMALL] {
        let mut deck = hostile("S24", size).start();
        look_everywhere(&mut deck, "from the server");
        deck.assert_no_foreign_escape();
        let raw = deck.raw();
        for bytes in ["owned\u{7}", "\u{1b}]", "\u{1b}P", "\u{9b}", "\u{7f}", "\u{8}"] {
            let shown = raw.replace("\u{1b}[", "");
            assert!(!shown.contains(bytes), "{bytes:?} reached the terminal");
        }
        // They are not hidden either: marks stand where they were.
        deck.keys("2");
        deck.wait("␛");
        deck.quit();
    }
}

#[test]
fn hidden_turned_and_piled_up_characters_are_marked_and_move_nothing() {
    for size in [Size::WIDE, Size::SMALL] {
        let mut deck = hostile("S25", size).start();
        // Who is asked to decide is told what cannot be seen.
        look_everywhere(&mut deck, "hidden character");
        deck.assert_no_foreign_escape();
        let raw = deck.raw();
        let hidden = |c: &char| {
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
                | '\u{feff}' | '\u{3164}' | '\u{e0000}'..='\u{e007f}')
        };
        assert_eq!(raw.chars().find(hidden), None);
        assert!(!raw.contains(&"\u{301}".repeat(9)), "piled-up marks reached the terminal");
        // The layout is intact: the rule under the tabs is whole.
        let Size(cols, _) = size;
        let rule = deck.look(|screen| screen.rows(0, cols).nth(2).unwrap());
        let is_title = |c: char| c == ' ' || c.is_ascii_lowercase();
        assert!(rule.chars().all(|c| "─━┬".contains(c) || is_title(c)), "{rule}");
        assert_eq!(rule.chars().count(), usize::from(cols), "{rule}");
        deck.keys("2");
        deck.wait("⟨RLO⟩");
        deck.quit();
    }
}

#[test]
fn sixteen_colours_are_enough_where_the_terminal_has_no_more() {
    let launch = Launch::demo(Size::WIDE).env("TERM", "xterm").without_env("COLORTERM");
    let mut deck = launch.arg("--theme").arg("gruvbox").start();
    deck.wait("4 ready");
    deck.keys("2451v1");
    deck.wait("recent output");
    let raw = deck.raw();
    for more in ["38;5;", "48;5;", "38;2;", "48;2;", "58;"] {
        assert!(!raw.contains(more), "{more} needs more than sixteen colours");
    }
    assert!(raw.contains("\u{1b}[3"), "but there are colours");
    deck.quit();
}

#[test]
fn a_dumb_terminal_is_refused_in_words_and_gets_no_escape() {
    let mut deck = Launch::new(Size::WIDE, &["--demo"]).env("TERM", "dumb").start();
    assert_eq!(deck.exit_code(), 2);
    deck.wait("TERM=dumb");
    assert!(!deck.raw().contains('\u{1b}'), "{:?}", deck.raw());
}

#[test]
fn a_closed_input_is_refused_in_words() {
    let program = env!("CARGO_BIN_EXE_mcpdeck");
    let out = std::process::Command::new("sh")
        .args(["-c", "exec \"$0\" --demo <&-", program])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("needs a terminal") && !said.contains('\u{1b}'), "{said}");
    assert!(out.stdout.is_empty());
}

#[test]
fn a_reader_that_goes_away_ends_the_check_quietly() {
    let program = env!("CARGO_BIN_EXE_mcpdeck");
    let out = std::process::Command::new("sh")
        .args(["-c", "\"$0\" --check --demo | head -1", program])
        .output()
        .unwrap();
    let (shown, said) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(!shown.contains('\u{1b}'), "no colours in a pipe: {shown:?}");
    assert!(!said.contains("panicked") && !said.to_lowercase().contains("broken pipe"), "{said}");
}

#[test]
fn a_terminal_that_is_too_small_says_so_and_comes_back_as_it_was() {
    let mut deck = Launch::demo(Size(60, 20)).start();
    deck.wait("4 ready");
    deck.keys("2/airp");
    deck.wait("3 of 31");
    deck.keys("\rT");
    deck.wait("theme: ");
    for (cols, rows) in [(39, 20), (60, 9), (30, 5), (1, 1)] {
        deck.resize(cols, rows);
        if cols >= 30 {
            deck.wait_until("words about the size", |screen| screen.contains("small"));
        }
    }
    deck.resize(60, 20);
    deck.wait_until("the list as it was", |screen| {
        screen.contains("find_airport") && !screen.contains("be_slow")
    });
    deck.quit();
}
