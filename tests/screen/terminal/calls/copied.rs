//! A call leaves the dashboard and comes back: copied as a command line that a shell runs, saved and
//! made from the palette and from `mcpdeck call`, taken from the history.

use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;

use super::results::{received, scripted, tool};
use super::*;

/// What the terminal was last told to put on the clipboard (OSC 52).
fn clipboard(deck: &Deck) -> Option<String> {
    let raw = deck.raw();
    let (_, rest) = raw.rsplit_once("\x1b]52;c;")?;
    let end = rest.find(['\x07', '\x1b'])?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(&rest[..end]).unwrap();
    Some(String::from_utf8(bytes).unwrap())
}

/// Runs a line in a shell, as a person would in the same folder.
pub fn shell(line: &str, home: &Path) -> (Option<i32>, String) {
    let program = Path::new(env!("CARGO_BIN_EXE_mcpdeck"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let done = Command::new("sh")
        .args(["-c", line])
        .current_dir(home)
        .env("PATH", path)
        .env("HOME", home)
        .env("MCPDECK_STATE_DIR", home.join("state"))
        .env("MCPDECK_CONFIG_DIR", home.join("config"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout) + &text(done.stderr))
}

/// A server that says what it was given.
fn echo() -> Value {
    let schema = json!({"type": "object", "properties": {
        "text": {"type": "string"}, "n": {"type": "integer"}}});
    json!({"tools": [tool("say", &schema)], "calls": {"say": {"text": "${arguments}"}},
        "prompts": [{"name": "greet", "arguments": [{"name": "who, exactly", "required": true}]}],
        "gets": {"greet": {"answer": {"messages": [
            {"role": "user", "content": {"type": "text", "text": "Hello ${arguments}"}}]}}},
        "resources": [{"uri": "note://it's one", "name": "one"}],
        "reads": {"note://it's one": {"answer": {"contents": [
            {"uri": "note://it's one", "text": "a note"}]}}}})
}

/// Finds something in the palette, fills it in, copies the command line.
fn copied(deck: &mut Deck, name: &str, keys: &str) -> String {
    fill(deck, &format!(":{name}"));
    deck.wait("commands");
    deck.keys(ENTER);
    // What has nothing to fill in is read at once.
    deck.wait_until("its screen", |screen| screen.contains("f4 JSON") || screen.contains("a note"));
    fill(deck, keys);
    let place = deck.written();
    deck.keys("\x19");
    deck.wait("copy as");
    deck.keys(ENTER);
    deck.wait_raw(place, "\x1b]52;c;");
    deck.wait("copied ");
    let line = clipboard(deck).unwrap();
    deck.leave_call();
    line
}

#[test]
fn a_copied_command_line_makes_the_call_again_wherever_the_server_comes_from() {
    let script = echo().to_string();
    let program = env!("CARGO_BIN_EXE_mcpdeck");
    let server = json!({"command": program, "args": ["mock", "../it's.json"]});
    let file = json!({"servers": {"it's mine": server}}).to_string();
    let in_file = Launch::new(Size(120, 40), &["--config", "deck/mcp.json", "--trust"]);
    let alone = ["--env", "WORD=it's given", "--env", "PATH", "--", program, "mock", "it's.json"];
    let mut http = Command::new(program)
        .args(["mock", "--listen", "0", "--script", &script])
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let stdout = http.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut url).unwrap();
    let url = url.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    for launch in [
        in_file.write("deck/mcp.json", &file),
        Launch::new(Size(120, 40), &alone),
        Launch::new(Size(120, 40), &[url, "--header", "X-Word: it's given"]),
    ] {
        let launch = launch.write("it's.json", &script);
        let mut deck = launch.start();
        deck.wait("1 ready");
        let line = copied(&mut deck, "say", "it's $HOME `id` \"x\"\t7");
        let (code, said) = shell(&line, deck.home());
        let sent: Value =
            serde_json::from_str(said.trim()).unwrap_or_else(|_| panic!("{line}\n{said}"));
        assert_eq!(sent, json!({"text": "it's $HOME `id` \"x\"", "n": 7}), "{line}");
        assert_eq!(code, Some(0), "{line}");
        assert_eq!(line.contains("given"), !line.contains("--config"), "{line}");
        let line = copied(&mut deck, "greet", "a=b @c");
        let (_, said) = shell(&line, deck.home());
        assert!(said.contains(r#"{"who, exactly":"a=b @c"}"#), "{line}\n{said}");
        let line = copied(&mut deck, "note", "");
        assert_eq!(shell(&line, deck.home()).1.trim(), "a note", "{line}");
        deck.quit();
    }
    http.kill().unwrap();
    http.wait().unwrap();
}

#[test]
fn a_command_line_copied_in_the_demo_starts_the_embedded_server() {
    let mut deck = Deck::demo(Size(120, 40));
    deck.wait("4 ready");
    let line = copied(&mut deck, "find_airport", "Bergen");
    assert!(line.ends_with(" -- mcpdeck demo-server atlas"), "{line}");
    let (code, said) = shell(&line, deck.home());
    assert_eq!((code, said.contains("Bergen Flesland")), (Some(0), true), "{line}\n{said}");
    deck.quit();
}

#[test]
fn a_call_is_saved_made_from_the_palette_and_from_the_command_line_and_found_in_the_history() {
    let mut deck = scripted(&echo());
    deck.keys(":say");
    deck.wait("commands");
    deck.keys(ENTER);
    deck.wait("f4 JSON");
    deck.keys("first");
    deck.keys("\x13");
    deck.wait("save under the name");
    deck.keys("say\r");
    until("it is written", || deck.home().join("mcp.calls.json").exists());
    deck.leave_call();
    // A tool has the same name: the saved call is first, and is made at once.
    deck.keys(":say");
    deck.wait("Make the saved call say");
    deck.keys(ENTER);
    deck.wait("y share");
    assert_eq!(received(&deck, "\"text\":\"first\""), 1);
    assert_eq!(shell("mcpdeck call @say", deck.home()), (Some(0), "{\"text\":\"first\"}\n".into()));
    let (code, said) = shell("mcpdeck --check --calls -v", deck.home());
    assert!(said.contains("call @say") && code.is_some(), "{said}");
    // Another call, and then the first one out of the history.
    leave_result(&mut deck);
    deck.keys("\x15second");
    deck.keys(F5);
    until("the second is sent", || received(&deck, "\"text\":\"second\"") == 1);
    deck.wait(" ✓ ");
    leave_result(&mut deck);
    deck.keys("\x14");
    deck.wait("call history");
    deck.keys(DOWN);
    deck.keys(ENTER);
    deck.wait_until("the first in the form", |screen| {
        screen.contains("first") && !screen.contains("call history")
    });
    deck.keys(F5);
    until("it is sent again", || received(&deck, "\"text\":\"first\"") == 4);
    deck.wait(" ✓ ");
    deck.leave_call();
    deck.quit();
}

/// From the result back to the form.
fn leave_result(deck: &mut Deck) {
    // The answer of the call before may still be on the screen, under the form.
    deck.wait_until("the answer", |screen| screen.contains("f6 form") && screen.contains(" ✓ "));
    deck.keys(ESC);
    deck.wait("f4 JSON");
}
