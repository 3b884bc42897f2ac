//! What comes back, and what happens meanwhile: pictures, bytes, links, updates, calls under way,
//! and what is left of them when the program dies. The server is a script.

use base64::Engine as _;

use super::*;

/// A dashboard over one scripted server, `mock`, which writes down every line it receives.
pub fn scripted(script: &Value) -> Deck {
    let deck = launch(script).start();
    deck.wait("1 ready");
    deck
}

pub fn launch(script: &Value) -> Launch {
    let program = env!("CARGO_BIN_EXE_mcpdeck");
    let mut script = script.clone();
    script["record"] = json!("record.jsonl");
    let server = json!({"command": program, "args": ["mock", "script.json"]});
    Launch::file(Size(120, 40), &json!({"servers": {"mock": server}}).to_string())
        .write("script.json", &script.to_string())
}

/// Lines the server received that hold `text`.
pub fn received(deck: &Deck, text: &str) -> usize {
    let record = std::fs::read_to_string(deck.home().join("record.jsonl")).unwrap_or_default();
    record.lines().filter(|line| line.contains(text)).count()
}

pub fn tool(name: &str, schema: &Value) -> Value {
    json!({"name": name, "inputSchema": schema})
}

fn picture() -> Value {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::RgbaImage::from_fn(16, 16, |x, y| image::Rgba([x as u8 * 16, y as u8 * 16, 90, 255]))
        .write_to(&mut bytes, image::ImageFormat::Png)
        .unwrap();
    let data = base64::engine::general_purpose::STANDARD.encode(bytes.into_inner());
    json!({"tools": [tool("draw", &json!({"type": "object"}))],
        "calls": {"draw": {"answer": {"content": [{"type": "image", "mimeType": "image/png", "data": data}]}}}})
}

#[test]
fn a_picture_is_drawn_as_the_terminal_says_it_can() {
    let cell = "\x1b[6;20;10t";
    for (answer, program, sequence) in [
        (format!("{cell}\x1b[?62;4;22c"), "", "\x1bP"),
        (format!("\x1b_Gi=31;OK\x1b\\{cell}\x1b[?62c"), "", "\x1b_Ga=t,f=100,"),
        (format!("{cell}\x1b[?62c"), "iTerm.app", "\x1b]1337;File=inline=1"),
    ] {
        let mut deck =
            launch(&picture()).without_env("MCPDECK_IMAGES").env("TERM_PROGRAM", program).start();
        deck.wait_raw(0, "\x1b_Gi=31,s=1,v=1,a=q");
        deck.bytes(&answer);
        deck.wait("1 ready");
        deck.keys("2");
        open(&mut deck, "draw");
        let place = deck.written();
        deck.keys(F5);
        deck.wait("16 x 16");
        deck.wait_raw(place, sequence);
        // What is laid over it is not drawn over: the question is readable, half blocks below it.
        deck.keys("w");
        deck.wait("write to the file");
        deck.wait("▀");
        if sequence.contains("_G") {
            // The terminal keeps that picture: it is told to take it away, and gets it back by name.
            deck.wait_raw(place, "\x1b_Ga=d,d=i,i=");
        }
        let place = deck.written();
        deck.keys(ESC);
        deck.gone("write to the file");
        let again = if sequence.contains("_G") { "\x1b_Ga=p,i=" } else { sequence };
        deck.wait_raw(place, again);
        leave(&mut deck);
        deck.quit();
    }
}

#[test]
fn a_terminal_that_never_answers_shows_half_blocks_and_none_is_asked_in_vain() {
    let mut deck = launch(&picture()).without_env("MCPDECK_IMAGES").start();
    deck.wait("1 ready");
    deck.keys("2");
    open(&mut deck, "draw");
    deck.keys(F5);
    deck.wait("▀");
    leave(&mut deck);
    deck.quit();
    for (name, value) in [("MCPDECK_IMAGES", "off"), ("NO_COLOR", "1"), ("TERM", "linux")] {
        let mut deck = launch(&picture()).without_env("MCPDECK_IMAGES").env(name, value).start();
        deck.wait("1 ready");
        assert!(!deck.raw().contains("\x1b_G"), "{name}={value}");
        if name != "TERM" {
            deck.keys("2");
            open(&mut deck, "draw");
            deck.keys(F5);
            deck.wait("not drawn");
            assert!(!deck.screen().contains('▀'), "{}", deck.screen());
            leave(&mut deck);
        }
        deck.quit();
    }
}

#[test]
fn bytes_are_read_in_hexadecimal_and_written_to_a_file_that_is_replaced_only_after_a_yes() {
    let data = base64::engine::general_purpose::STANDARD.encode([0x4f, 0x67, 0x67, 0x53, 7, 9]);
    let content = json!([{"type": "audio", "mimeType": "audio/ogg", "data": data}]);
    let script = json!({"tools": [tool("sing", &json!({"type": "object"}))],
        "calls": {"sing": {"answer": {"content": content}}}});
    let mut deck = scripted(&script);
    deck.keys("2");
    open(&mut deck, "sing");
    deck.keys(F5);
    deck.wait("Ogg media · 6 bytes");
    deck.wait("00000000  4f 67 67 53 07 09");
    deck.keys("w");
    deck.wait("mcpdeck-result.ogg");
    deck.keys("\x15song.bin\r");
    deck.wait("wrote 6 bytes");
    let song = deck.home().join("song.bin");
    assert_eq!(std::fs::read(&song).unwrap(), b"OggS\x07\x09");
    std::fs::write(&song, "precious").unwrap();
    for (answer, left) in [("n", &b"precious"[..]), ("y", b"OggS\x07\x09")] {
        deck.keys("w\x15song.bin\r");
        deck.wait("replace the file?");
        deck.decide(answer);
        deck.gone("replace the file?");
        until("the file is as wanted", || std::fs::read(&song).unwrap() == left);
    }
    leave(&mut deck);
    deck.quit();
}

#[test]
fn a_link_opens_among_the_resources_and_what_changes_is_read_again_while_subscribed() {
    let updated = json!({"notify": {"method": "notifications/resources/updated", "params": {"uri": "demo://counter"}}});
    let script = json!({
        "capabilities": {"tools": {}, "resources": {"subscribe": true}},
        "tools": [tool("point", &json!({"type": "object"})), tool("touch", &json!({"type": "object"}))],
        "resources": [{"uri": "demo://other", "name": "other"}, {"uri": "demo://counter", "name": "counter"}],
        "calls": {
            "point": {"answer": {"content": [{"type": "resource_link", "uri": "demo://counter", "name": "counter"}]}},
            "touch": [updated, {"text": "touched"}],
        },
        "reads": {"demo://counter": {"answer": {"contents": [{"uri": "demo://counter", "text": "reading ${count}"}]}}},
        "on": {"resources/subscribe": [{"answer": {}}, updated]},
    });
    let mut deck = scripted(&script);
    deck.keys("2");
    open(&mut deck, "point");
    deck.keys(F5);
    deck.wait("demo://counter");
    deck.keys(ENTER);
    deck.wait("reading 1");
    // Subscribed: from the server to have changed is read again, in its place.
    deck.keys(" ");
    deck.wait("Subscribe to the resource");
    deck.keys("u");
    deck.wait("subscribed");
    deck.wait("reading 2");
    deck.wait("updated at");
    // Behind it are the resources, with the one that was linked selected.
    deck.keys(ESC);
    deck.wait("f6 result");
    deck.keys(ESC);
    deck.wait_until("the linked resource is selected", |screen| {
        screen.lines().any(|line| line.contains('▸') && line.contains("demo://counter"))
    });
    deck.keys("2");
    open(&mut deck, "touch");
    deck.keys(F5);
    deck.wait("touched");
    until("it is read again though nobody looks", || received(&deck, "resources/read") == 3);
    leave(&mut deck);
    deck.quit();
}

#[test]
fn several_calls_run_at_once_and_say_what_they_do_and_one_is_cancelled() {
    let slow = json!([
        {"notify": {"method": "notifications/message", "params": {"level": "info", "data": "warming up"}}},
        {"progress": {"steps": 3, "total": 4, "message": "step ${i}"}},
        {"wait": "cancelled"},
    ]);
    let script = json!({"capabilities": {"tools": {}, "logging": {}},
        "tools": [tool("slow", &json!({"type": "object"})), tool("quick", &json!({"type": "object"}))],
        "calls": {"slow": slow, "quick": {"text": "done at once"}}});
    let mut deck = scripted(&script);
    deck.keys("2");
    open(&mut deck, "slow");
    deck.keys(F5);
    deck.wait("75 %");
    deck.wait("step 3");
    deck.wait("warming up");
    // The same key again within 700 ms would be held down: the other key that calls.
    deck.keys("\x12");
    deck.wait("2 of 2");
    // Elsewhere and back: both are still there.
    leave(&mut deck);
    open(&mut deck, "quick");
    deck.keys(F5);
    deck.wait("done at once");
    leave(&mut deck);
    open(&mut deck, "slow");
    deck.wait("2 of 2");
    deck.wait("running");
    deck.keys("\x18");
    deck.wait("cancelled");
    until("the server was told", || received(&deck, "notifications/cancelled") == 1);
    // The older one runs on.
    deck.keys("\x1b[17~");
    deck.keys("[");
    deck.wait("1 of 2");
    deck.wait("running");
    deck.keys("\x18");
    until("the server was told again", || received(&deck, "notifications/cancelled") == 2);
    deck.wait("✗ cancelled");
    leave(&mut deck);
    deck.quit();
}

#[test]
fn u4_what_was_typed_survives_the_end_of_the_program_and_no_call_is_made_again() {
    let schema = json!({"type": "object", "required": ["word"], "properties": {
        "word": {"type": "string"}, "pin": {"type": "string", "format": "password"}}});
    let script = json!({"tools": [tool("hang", &schema)], "calls": {"hang": {"wait": "forever"}}});
    let mut deck = scripted(&script);
    deck.keys("2");
    open(&mut deck, "hang");
    deck.keys("precious\tsecret-pin");
    deck.keys(F5);
    deck.wait("running");
    until("the server has it", || received(&deck, "tools/call") == 1);
    deck.keys("\x1b[17~");
    deck.wait("f4 JSON");
    // A key that moves keeps what is left from the call; a letter would replace it.
    deck.keys("\x1b[5~\x1b[F and more");
    let kept = || {
        let folder = deck.home().join("state/dashboard");
        let all = walk(&folder);
        assert!(!all.contains("secret-pin"), "{all}");
        all.contains("precious and more")
    };
    until("what was typed is kept", kept);
    let server = deck.home().join("record.jsonl");
    let home = deck.kill_and_keep();
    let mut deck = Launch::again(Size(120, 40), home).arg("--trust").start();
    deck.wait("1 ready");
    deck.keys("2");
    open(&mut deck, "hang");
    deck.wait("precious and more");
    deck.keys("\x14");
    deck.wait("outcome unknown");
    deck.keys(ESC);
    deck.gone("outcome unknown");
    deck.keys(ESC);
    deck.wait("/ filter");
    deck.quit();
    let record = std::fs::read_to_string(server).unwrap_or_default();
    assert_eq!(record.matches("tools/call").count(), 1, "a call was made again");
}

/// Every file below a folder, as text.
fn walk(folder: &std::path::Path) -> String {
    let mut out = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            out.push_str(&walk(&entry.path()));
        } else {
            out.push_str(&std::fs::read_to_string(entry.path()).unwrap_or_default());
        }
    }
    out
}

#[test]
fn leaving_straight_after_an_answer_asks_nothing() {
    let mut deck = scripted(&json!({"tools": [tool("echo", &json!({"type": "object"}))],
        "calls": {"echo": {"text": "here it is"}}}));
    deck.keys("2");
    open(&mut deck, "echo");
    deck.keys(F5);
    deck.wait("here it is");
    leave(&mut deck);
    deck.quit();
}
