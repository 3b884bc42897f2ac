//! Trust, inputs and editing as people meet them: the built binary in a pseudo-terminal over
//! configuration files, which are compared byte for byte.

use crate::pty::{self, Launch, Size, own_server};

fn servers(entries: &[String]) -> String {
    format!("{{\n  \"servers\": {{\n    {}\n  }}\n}}\n", entries.join(",\n    "))
}

fn beacon(name: &str) -> String {
    own_server(name, &["demo-server", "beacon"])
}

#[test]
fn a_command_runs_only_after_a_yes_which_is_remembered_until_it_changes() {
    let one = beacon("one");
    let mut deck = Launch::untrusted(Size::SMALL, &servers(std::slice::from_ref(&one))).start();
    deck.wait("mcp.json would run 1 command");
    deck.wait("demo-server beacon");
    deck.wait("1 waiting");
    deck.keys("\x1b");
    deck.wait("it was not started");
    deck.wait("awaiting your approval");
    deck.keys("s");
    deck.wait("would run 1 command");
    deck.decide("y");
    deck.wait("1 ready");
    let pid = deck.pid_of("one");

    let file = deck.home().join("mcp.json");
    std::fs::write(&file, servers(&[one.clone(), beacon("two")])).unwrap();
    deck.wait("1 command awaits your approval");
    assert_eq!(deck.pid_of("one"), pid, "what was approved runs on");
    deck.keys("a\r");
    deck.wait("two   new");
    deck.wait("would run 1 command");
    deck.decide("y");
    deck.wait("2 ready");
    // The inbox stays: the servers tell the rest.
    deck.keys("1");

    let changed = one.replace("\"beacon\"", "\"atlas\"");
    std::fs::write(&file, servers(&[changed.clone(), beacon("two")])).unwrap();
    deck.wait("its changed entry awaits your approval; the approved one keeps running");
    assert_eq!(deck.pid_of("one"), pid);
    deck.keys("\x07");
    deck.wait("changed since you approved it; the approved one keeps running");
    deck.wait("- args[1]  beacon");
    deck.wait("+ args[1]  atlas");
    deck.decide("y");
    deck.wait_until("another process", |screen| {
        screen.contains("2 ready") && !screen.contains(&format!("pid {pid} "))
    });
    let home = deck.quit_and_keep();

    let mut deck = Launch::again(Size::SMALL, home).start();
    deck.wait("2 ready");
    assert!(!deck.screen().contains("awaits"), "{}", deck.screen());
    deck.quit();
}

#[test]
fn hostile_commands_are_shown_whole_and_harmless_and_have_to_be_read_to_their_end() {
    let long = "x".repeat(8_000);
    let evil = format!(
        "\"evil\": {{\"command\": \"sudo\", \"args\": [\"npx\", \"-c\", \"a\\nb\\u202ec\\u001b]0;t\\u0007\", \"\", {long:?}], \
         \"env\": {{\"LD_PRELOAD\": \"canary-7733\"}}, \"trust\": true}}"
    );
    let fine = beacon("fine");
    let mut deck = Launch::untrusted(Size::SMALL, &servers(&[fine, evil])).start();
    deck.wait("would run 2 commands");
    deck.wait("`sudo` raises privileges");
    deck.wait("evil   new");
    deck.wait(r#""a\nb\u{202e}c\u{1b}]0;t\u{7}""#);
    deck.decide("y");
    deck.wait("there is more to read");
    for _ in 0..12 {
        deck.keys("\x1b[6~");
    }
    deck.wait("fine   new");
    deck.keys("\x1b");
    deck.wait("2 waiting");
    assert!(!deck.raw().contains("canary-7733"), "values are not shown");
    assert!(!deck.screen().contains("ready"), "{}", deck.screen());
    deck.assert_no_foreign_escape();
    deck.quit();
}

/// A `secret-tool` that keeps one value per input in a folder, as the real one does elsewhere.
const SECRET_TOOL: &str = r#"#!/bin/sh
word=$1; shift
case "$1" in --label=*) shift;; esac
name="$6"
case "$word" in
  store) cat > "$KEYRING/$name" ;;
  lookup) cat "$KEYRING/$name" ;;
  clear) rm -f "$KEYRING/$name" ;;
esac
"#;

const ASKS: &str = r#"{
  "inputs": [
    { "id": "token", "type": "promptString", "description": "the token", "password": true },
    { "id": "which", "type": "pickString", "description": "which server", "options": ["nothing", "atlas", "beacon"] }
  ],
  "servers": {
    SERVER
  }
}
"#;

#[test]
fn an_entry_that_cannot_be_used_is_named_among_the_servers_and_readable_at_its_line() {
    // The whole entry on one line, as other programs write it: its problem is far to the right.
    let lost = format!(
        r#""lost": {{"command": "x", "args": ["{}"], "env": {{"KEY": "${{NEVER_SET_ANYWHERE}}"}}}}"#,
        "y".repeat(120)
    );
    let mut deck = Launch::file(Size::WIDE, &servers(&[beacon("fine"), lost])).start();
    deck.wait("1 ready");
    deck.wait("left out");
    deck.wait("the variable `NEVER_SET_ANYWHERE` is not set");
    deck.wait("set NEVER_SET_ANYWHERE, or give a default");
    deck.keys("7");
    deck.wait("^ error: the variable `NEVER_SET_ANYWHERE` is not set");
    deck.quit();
}

fn asking(name: &str) -> String {
    let server = own_server(name, &["demo-server", "${input:which}"]);
    let env = r#", "env": { "TOKEN": "${input:token}" }}"#;
    format!("{}{env}", server.strip_suffix('}').unwrap())
}

#[test]
fn inputs_are_asked_for_once_masked_and_kept_in_the_keyring_on_request_only() {
    let text = ASKS.replace("SERVER", &format!("{},\n    {}", asking("asks"), beacon("free")));
    let launch = Launch::untrusted(Size::SMALL, &text).arg("--trust").arg("--log-file").arg("log");
    let launch = launch.arg("--log-level").arg("trace");
    let (bin, ring) = (launch.home().join("bin"), launch.home().join("ring"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let launch = launch.write("bin/secret-tool", SECRET_TOOL).write("ring/.keep", "");
    make_runnable(&bin.join("secret-tool"));
    let ring_text = ring.to_str().unwrap().to_owned();
    let mut deck = launch.env("PATH", &path).env("KEYRING", &ring_text).start();
    deck.wait("the token");
    deck.wait("1 ready");
    deck.decide("\r");
    deck.wait("type a value first");
    deck.keys("canary-41");
    deck.wait("•••••••••");
    deck.decide("\r");
    deck.wait("which server");
    deck.keys("\x1b");
    deck.wait("waiting for input `which`");
    deck.keys("\x07");
    deck.wait("input which");
    deck.keys("atl");
    deck.wait("▸atlas");
    deck.decide("\r");
    deck.wait("2 ready");
    assert!(!ring.join("token").exists(), "nobody asked for the keyring");

    deck.keys("7itoken\r");
    deck.wait("a new answer restarts the servers that use it");
    deck.keys("canary-52");
    deck.wait("•••••••••");
    deck.keys("\x13");
    deck.wait("kept in the keyring of this computer");
    deck.decide("\r");
    pty::until("the keyring holds it", || {
        std::fs::read_to_string(ring.join("token")).is_ok_and(|text| text == "canary-52")
    });
    deck.wait("2 ready");
    // A long line wraps.
    deck.wait_until("the file", |screen| {
        let words: Vec<&str> = screen.split_whitespace().collect();
        words.join(" ").contains("\"description\": \"the token\"")
    });
    let raw = deck.raw();
    assert!(!raw.contains("canary"), "an answer was shown");
    let home = deck.quit_and_keep();
    assert_no_canary(home.path(), &ring);

    let again = Launch::again(Size::SMALL, home).arg("--trust").env("PATH", &path);
    let mut deck = again.env("KEYRING", &ring_text).start();
    deck.wait("input which");
    deck.wait("1 waiting");
    deck.keys("\x1b");
    deck.gone("input which");
    deck.quit();
}

fn make_runnable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// No file below a folder holds an answer, but those of the keyring.
fn assert_no_canary(folder: &std::path::Path, ring: &std::path::Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path == ring {
            continue;
        }
        if path.is_dir() {
            assert_no_canary(&path, ring);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("canary"), "{}", path.display());
        }
    }
}

/// A file with everything a careless edit would lose.
const CARED_FOR: &str = "\u{feff}// the team's servers\r
{\r
\t\"$schema\": \"./schema.json\",\r
\t\"vendor\": { \"kept\":true }, // unknown here\r
\t\"servers\": {\r
\t\t/* first */ \"one\": { \"command\": PROGRAM, \"args\": [ \"demo-server\",   \"beacon\" ],\r
\t\t\t\"env\": { \"TOKEN\": \"canary-61\" }, }, // after one\r
\t\t// the end\r
\t},\r
}\r
";

#[test]
fn servers_are_edited_copied_switched_and_removed_and_every_other_byte_stays() {
    let program = format!("{:?}", env!("CARGO_BIN_EXE_mcpdeck"));
    let before = CARED_FOR.replace("PROGRAM", &program);
    let mut deck = Launch::untrusted(Size::WIDE, &before).start();
    let file = deck.home().join("mcp.json");
    let text = |file: &std::path::Path| std::fs::read_to_string(file).unwrap();
    deck.wait("would run 1 command");
    deck.decide("y");
    deck.wait("1 ready");

    deck.keys("ed");
    deck.wait("one-2 is a copy of one");
    deck.wait("2 ready");
    let copied = text(&file);
    let rest = copied.replacen("\"one-2\": {", "", 1);
    assert!(rest.len() < copied.len() && copied.contains("*/ \"one\": { \"command\""), "{copied}");
    deck.keys("z");
    deck.wait("undone");
    assert_eq!(text(&file), before);

    deck.keys("ex");
    deck.wait("1 disabled");
    let off = text(&file);
    assert_eq!(off.replacen("\r\n\t\t\t\"disabled\": true,", "", 1), before, "{off}");
    deck.keys("ex");
    deck.wait("1 ready");
    assert_eq!(text(&file), before, "on again, to the byte");

    deck.keys("ee");
    deck.wait("edit server \"one\"");
    assert!(!deck.raw().contains("canary-61"), "a secret was shown");
    deck.keys(&"\x1b[B".repeat(5));
    deck.wait("adds an item");
    deck.keys("\r--quiet");
    deck.wait("--quiet");
    deck.keys("\x1b");
    deck.wait("not saved");
    deck.keys("\x13");
    deck.wait("one was saved");
    let wanted = before
        .replace("[ \"demo-server\",   \"beacon\" ]", "[\"demo-server\", \"beacon\", \"--quiet\"]");
    assert_eq!(text(&file), wanted, "the secret and everything else is as it was");
    assert!(!deck.screen().contains("1 waiting"), "typing it was approving it");
    deck.keys("z");
    deck.wait("undone");
    assert_eq!(text(&file), before);

    deck.keys("eX");
    deck.wait("remove server \"one\"?");
    deck.keys("n");
    deck.gone("remove server \"one\"?");
    assert_eq!(text(&file), before, "nothing without a yes");
    deck.keys("eX");
    deck.wait("remove server \"one\"?");
    deck.decide("y");
    deck.wait("one was removed");
    let removed = text(&file);
    assert!(!removed.contains("\"one\"") && removed.contains("// the end"), "{removed}");
    deck.keys("z");
    deck.wait("undone: one was removed");
    assert_eq!(text(&file), before);
    deck.wait("1 ready");
    deck.quit();
}

#[test]
fn a_server_is_added_from_a_template_and_what_could_not_be_used_is_not_written() {
    let before = servers(&[beacon("one")]);
    let mut deck = Launch::file(Size::WIDE, &before).start();
    let file = deck.home().join("mcp.json");
    deck.wait("1 ready");
    deck.keys("+");
    deck.wait("or fill in a form");
    deck.keys("\r");
    deck.gone("or fill in a form");
    deck.keys("\x13");
    deck.wait("a server needs a name");
    deck.keys("new");
    deck.decide("\x13");
    deck.wait("`command` is empty");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    deck.keys("\t");
    deck.wait("Program to run");
    deck.keys(env!("CARGO_BIN_EXE_mcpdeck"));
    // Somebody else writes the file meanwhile: both survive.
    let theirs = servers(&[beacon("one"), beacon("theirs")]);
    std::fs::write(&file, &theirs).unwrap();
    deck.wait("2 ready");
    deck.keys("\x13");
    deck.wait("new was added");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"theirs\"") && text.contains("\"new\""), "{text}");
    deck.quit();
}

#[test]
fn a_server_is_found_by_its_command_checked_added_and_taken_out_again() {
    let before = servers(&[beacon("one")]);
    let mut deck = Launch::file(Size::WIDE, &before).start();
    let file = deck.home().join("mcp.json");
    deck.wait("1 ready");
    deck.keys("+");
    deck.wait("what is it?");
    let command = format!("{} demo-server atlas", env!("CARGO_BIN_EXE_mcpdeck"));
    deck.keys(&command);
    deck.keys("\r");
    deck.wait("nothing has run yet");
    deck.decide("\r");
    deck.wait("it offers 9 tools");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "nothing is written yet");
    deck.decide("\r");
    deck.wait("was added");
    deck.wait("2 ready");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"demo-server\"") && text.contains("\"atlas\""), "{text}");
    deck.keys("z");
    deck.wait("undone");
    deck.wait("1 ready");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    deck.quit();
}

#[test]
fn an_entry_that_changed_on_disk_meanwhile_is_not_overwritten() {
    let mut deck = Launch::file(Size::WIDE, &servers(&[beacon("one")])).start();
    let file = deck.home().join("mcp.json");
    deck.wait("1 ready");
    deck.keys("ee");
    deck.wait("edit server \"one\"");
    let theirs = servers(&[own_server("one", &["demo-server", "atlas"])]);
    std::fs::write(&file, &theirs).unwrap();
    deck.keys("-two");
    deck.wait("one-two");
    deck.keys("\x13");
    deck.wait("was changed in the file meanwhile");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), theirs);
    assert!(deck.screen().contains("one-two"), "what was typed is still there");
    deck.keys("\x1b");
    deck.wait("not saved");
    deck.keys("\x1b");
    deck.gone("edit server \"one\"");
    deck.quit();
}
