//! The dashboard as people meet it: the built binary in a pseudo-terminal, its screen read by a
//! terminal emulator. Waits for text, never for time.

mod hostile;
mod panes;
mod signals;

use crate::pty::{self, Deck, Launch, Size, own_server};

#[test]
fn it_starts_shows_every_pane_and_leaves_the_terminal_as_it_was() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    for (key, text) in [
        ("2", "find_airport"),
        ("3", "atlas://airports"),
        ("3v", "prompts of 2 servers"),
        ("4", "initialize"),
        ("5", "following"),
        ("1v", "p95"),
        ("3vv", "entries"),
        ("6", "Nothing waits for you"),
        ("7", "effective values"),
        ("1", "recent output"),
    ] {
        deck.keys(key);
        deck.wait(text);
    }
    deck.quit();
}

#[test]
fn a_filter_narrows_the_palette_finds_and_help_lists_what_works_here() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    deck.keys("2/airp\r");
    deck.wait_until("the filter", |screen| {
        screen.contains("find_airport") && !screen.contains("be_slow")
    });
    deck.keys("\x1b");
    deck.wait("be_slow");
    deck.keys("?");
    deck.wait("keys: Tools");
    deck.keys("\x1b");
    deck.gone("keys: Tools");
    deck.keys(":logs and stderr");
    deck.wait("Show logs and stderr");
    deck.keys("\r");
    deck.wait("following");
    deck.quit();
}

#[test]
fn a_server_killed_from_outside_says_why_and_comes_back_on_a_key() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    let pid = deck.pid_of("atlas");
    pty::kill(pid);
    deck.wait("killed by SIGKILL");
    deck.keys("\r");
    deck.wait("diagnostics: atlas");
    deck.wait("unexpected");
    deck.wait("recent messages");
    deck.keys("\x1b");
    deck.gone("diagnostics: atlas");
    deck.keys("r");
    deck.wait("4 ready");
    deck.quit();
}

#[test]
fn a_storm_of_resizes_ends_in_a_screen_that_fits() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    for n in 0..300u16 {
        deck.resize(1 + n * 7 % 220, 1 + n * 5 % 70);
    }
    deck.resize(30, 8);
    deck.wait("too small");
    deck.resize(80, 24);
    deck.wait("recent output");
    deck.wait("quit");
    deck.quit();
}

#[test]
fn ctrl_c_leaves_and_sigterm_too_with_the_terminal_restored() {
    for (leave, code) in [(Deck::ctrl_c as fn(&mut Deck), 0), (Deck::terminate, 130)] {
        let mut deck = Deck::demo(Size::WIDE);
        deck.wait("4 ready");
        let pid = deck.pid_of("atlas");
        leave(&mut deck);
        assert_eq!(deck.exit_code(), code);
        deck.assert_restored();
        assert!(!pty::is_alive(pid), "the server outlived the host");
    }
}

#[test]
fn without_a_terminal_it_refuses_in_words_and_prints_no_escape() {
    let out = assert_cmd::Command::cargo_bin("mcpdeck")
        .unwrap()
        .arg("--demo")
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("needs a terminal") && !said.contains('\u{1b}'), "{said}");
    assert!(out.stdout.is_empty());
}

#[test]
fn when_the_terminal_goes_the_program_and_its_servers_go_too() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    let (own, server) = (deck.pid(), deck.pid_of("atlas"));
    let (_home, ended) = deck.close_terminal();
    pty::until("the program is gone", || !pty::is_alive(own));
    assert_eq!(ended.join().unwrap(), 130, "as documented for a signal");
    pty::until("its server is gone", || !pty::is_alive(server));
}

#[test]
fn a_screen_without_colours_and_unicode_is_readable() {
    let mut deck = Launch::demo(Size::WIDE).env("NO_COLOR", "1").env("LANG", "C").start();
    deck.wait("4 ready");
    deck.wait("* ready");
    assert!(deck.screen().is_ascii(), "{}", deck.screen());
    let raw = deck.raw();
    for kind in ["[38;5;", "[38;2;", "[48;5;", "[48;2;"] {
        assert!(!raw.contains(kind), "a colour was set: {kind}");
    }
    deck.quit();
}

#[test]
fn a_saved_file_is_picked_up_and_a_broken_one_is_shown_with_its_line() {
    let one = server("one");
    let two = format!("{one}, {}", server("two"));
    let mut deck = Launch::file(Size::WIDE, &format!("{{\"servers\": {{{one}}}}}")).start();
    let file = deck.home().join("mcp.json");
    deck.wait("1 ready");
    let pid = deck.pid_of("one");
    std::fs::write(&file, format!("{{\"servers\": {{{two}}}}}")).unwrap();
    deck.wait("2 ready");
    assert_eq!(deck.pid_of("one"), pid, "an unchanged server keeps its process");
    std::fs::write(&file, "{\n  \"servers\": {\n    \"one\": 3\n  }\n}").unwrap();
    deck.wait("newer file has errors");
    deck.keys("7");
    deck.wait("the last valid configuration stays in use");
    deck.wait("\"one\": 3");
    assert!(deck.screen().contains("2 ready"), "{}", deck.screen());
    deck.quit();
}

fn server(name: &str) -> String {
    own_server(name, &["demo-server", "beacon"])
}

#[test]
fn a_keymap_that_is_saved_while_it_runs_works_at_once() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    std::fs::create_dir_all(deck.config_dir()).unwrap();
    std::fs::write(deck.config_dir().join("keymap.toml"), "[global]\nQ = \"quit\"\n").unwrap();
    deck.wait("Q quit");
    deck.keys("Q");
    assert_eq!(deck.exit_code(), 0);
}
