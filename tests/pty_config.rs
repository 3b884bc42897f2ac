//! Trust, inputs and editing as people meet them: the built binary in a pseudo-terminal over
//! configuration files, which are compared byte for byte.
#![cfg(all(unix, feature = "tui", feature = "demo"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "support/pty.rs"]
mod pty;

use pty::{Launch, Size, own_server};

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
    deck.wait("mcp.json wants to run 1 command");
    deck.wait("demo-server beacon");
    deck.wait("1 to approve");
    deck.keys("\x1b");
    deck.wait("nothing of it was started");
    deck.wait("awaiting your approval");
    deck.keys("s");
    deck.wait("wants to run 1 command");
    deck.keys("y");
    deck.wait("1 ready");
    let pid = deck.pid_of("one");

    let file = deck.home().join("mcp.json");
    std::fs::write(&file, servers(&[one.clone(), beacon("two")])).unwrap();
    deck.wait("1 command awaits your approval");
    assert_eq!(deck.pid_of("one"), pid, "what was approved runs on");
    deck.keys("t");
    deck.wait("two   new");
    deck.wait("wants to run 1 command");
    deck.keys("y");
    deck.wait("2 ready");

    let changed = one.replace("\"beacon\"", "\"atlas\"");
    std::fs::write(&file, servers(&[changed.clone(), beacon("two")])).unwrap();
    deck.wait("it runs as you approved it");
    assert_eq!(deck.pid_of("one"), pid);
    deck.keys("t");
    deck.wait("changed since you approved it; runs on as it was");
    deck.wait("- args[1]  beacon");
    deck.wait("+ args[1]  atlas");
    deck.keys("y");
    deck.wait_until("another process", |screen| {
        screen.contains("2 ready") && !screen.contains(&format!("pid {pid} "))
    });
    let home = deck.quit_and_keep();

    let mut deck = Launch::again(Size::SMALL, home).start();
    deck.wait("2 ready");
    assert!(!deck.screen().contains("approve"), "{}", deck.screen());
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
    deck.wait("wants to run 2 commands");
    deck.wait("`sudo` raises privileges");
    deck.wait("evil   new");
    deck.wait(r#""a\nb\u{202e}c\u{1b}]0;t\u{7}""#);
    deck.keys("y");
    deck.wait("there is more to read");
    for _ in 0..12 {
        deck.keys("\x1b[6~");
    }
    deck.wait("fine   new");
    deck.keys("\x1b");
    deck.wait("2 to approve");
    assert!(!deck.raw().contains("canary-7733"), "values are not shown");
    assert!(!deck.screen().contains("ready"), "{}", deck.screen());
    deck.assert_no_foreign_escape();
    deck.quit();
}
