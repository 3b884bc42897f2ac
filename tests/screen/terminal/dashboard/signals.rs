//! Signals, job control, panics: however the program is left, the terminal is as it was before and
//! no server stays.

use crate::pty::{Deck, Launch, Signal, Size, is_alive, own_server, process_state, signal, until};

/// The dashboard in the foreground of its shell takes keys, and quits.
fn works_and_ends(deck: &mut Deck, job: i32) {
    deck.wait("4 ready");
    deck.keys("2");
    deck.wait("find_airport");
    deck.keys("q");
    until("the job has ended", || !is_alive(job));
    deck.assert_restored();
}

#[test]
fn ctrl_z_gives_the_terminal_back_and_fg_draws_everything_again() {
    let mut deck = Launch::demo(Size::WIDE).in_shell().start();
    deck.wait("4 ready");
    let (job, server) = (deck.job_pid(), deck.pid_of("atlas"));
    for stop in ["key", "signal"] {
        match stop {
            "key" => deck.keys("\x1a"),
            _ => signal(job, Signal::TSTP),
        }
        until("the job is stopped", || process_state(job) == Some('T'));
        deck.assert_restored();
        let place = deck.written();
        deck.keys("echo in the shell $((6*7))\r");
        deck.wait("in the shell 42");
        assert!(is_alive(server), "its servers run on");
        deck.keys("fg\r");
        deck.wait("4 ready");
        assert!(deck.look(vt100::Screen::alternate_screen));
        deck.wait_raw(place, "Servers");
        // The whole screen is drawn again, and keys work.
        deck.keys("2");
        deck.wait("find_airport");
        deck.keys("1");
        deck.wait("recent output");
    }
    deck.keys("q");
    until("the job has ended", || !is_alive(job));
    deck.assert_restored();
    assert!(!is_alive(server), "the server outlived the host");
    deck.keys("exit\r");
    assert_eq!(deck.exit_code(), 0);
}

#[test]
fn ctrl_z_does_not_wait_for_the_input_that_came_after_it() {
    let mut deck = Launch::demo(Size::WIDE).in_shell().start();
    deck.wait("4 ready");
    let (job, place) = (deck.job_pid(), deck.written());
    deck.bytes(&format!("\x1a{}", "\x1b[<65;5;5M".repeat(2_000)));
    until("the job is stopped", || process_state(job) == Some('T'));
    // From here on the terminal is the shell's, and an interrupt too.
    deck.wait_raw(place, "Stopped");
    deck.assert_restored();
    // The rest has reached the shell, which an interrupt makes forget it.
    deck.keys("\x03");
    deck.keys("fg\r");
    works_and_ends(&mut deck, job);
}

#[test]
fn keys_of_a_command_that_has_the_terminal_neither_end_nor_hang_the_dashboard() {
    let keymap = r#"
        [commands.wait]
        key = "f10"
        run = "echo it runs; sleep 60; echo late"
        terminal = true"#;
    let launch = Launch::demo(Size::WIDE).in_shell().write("config/keymap.toml", keymap);
    let mut deck = launch.start();
    deck.wait("4 ready");
    let job = deck.job_pid();
    let place = deck.written();
    deck.keys("\x1b[21~");
    deck.wait_raw(place, "it runs");
    deck.keys("\x1a");
    until("both are stopped", || process_state(job) == Some('T'));
    deck.keys("echo in the shell $((6*7))\r");
    deck.wait("in the shell 42");
    deck.keys("fg\r");
    until("both go on", || process_state(job) != Some('T'));
    deck.keys("\x03");
    works_and_ends(&mut deck, job);
}

#[test]
fn every_signal_that_ends_a_program_restores_the_terminal_and_ends_the_servers() {
    for end in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        let mut deck = Deck::demo(Size::WIDE);
        deck.wait("4 ready");
        let server = deck.pid_of("atlas");
        signal(deck.pid(), end);
        assert_eq!(deck.exit_code(), 130, "{end:?}");
        deck.assert_restored();
        until("its servers are gone", || !is_alive(server));
    }
}

/// A server that neither end of input nor SIGTERM ends: stopping it takes its whole grace.
fn stubborn() -> Launch {
    let script = r#"{"on": {"start": {"ignore": "TERM"}, "stdinClosed": {"wait": "forever"},
        "SIGTERM": {"delay": 1}}}"#;
    let server = own_server("stubborn", &["mock", "stubborn.json"]);
    Launch::file(Size::WIDE, &format!("{{\"servers\": {{{server}}}}}"))
        .write("stubborn.json", script)
}

#[test]
fn a_second_ctrl_c_waits_for_no_server() {
    for (again, code) in [("key", 0), ("signal", 130)] {
        let mut deck = stubborn().start();
        deck.wait("1 ready");
        let server = deck.pid_of("stubborn");
        deck.ctrl_c();
        deck.wait("stopping");
        assert!(is_alive(server));
        match again {
            "key" => deck.ctrl_c(),
            _ => signal(deck.pid(), Signal::INT),
        }
        assert_eq!(deck.exit_code(), code, "{again}");
        deck.assert_restored();
        until("the server is gone too", || !is_alive(server));
    }
}

#[test]
fn a_hangup_that_is_ignored_still_ends_a_program_without_a_terminal() {
    let mut deck = Launch::demo(Size::WIDE).ignoring_hangup().start();
    deck.wait("4 ready");
    let (own, server) = (deck.pid(), deck.pid_of("atlas"));
    drop(deck.close_terminal());
    until("the program is gone", || !is_alive(own));
    until("its server is gone", || !is_alive(server));
}

#[test]
fn hangups_in_a_row_and_a_closed_terminal_are_one_request_and_servers_keep_their_grace() {
    let script = r#"{"on": {"stdinClosed": {"wait": "forever"},
        "SIGTERM": [{"writeFile": {"path": "told", "text": "SIGTERM"}}, {"exit": 0}]}}"#;
    let server = own_server("slow", &["mock", "slow.json"]);
    let deck = Launch::file(Size::WIDE, &format!("{{\"servers\": {{{server}}}}}"));
    let deck = deck.write("slow.json", script).start();
    deck.wait("1 ready");
    let (own, told) = (deck.pid(), deck.home().join("told"));
    for _ in 0..3 {
        signal(own, Signal::HUP);
    }
    let _home = deck.close_terminal();
    until("the program is gone", || !is_alive(own));
    assert_eq!(std::fs::read_to_string(told).unwrap(), "SIGTERM", "it was not killed");
}

#[test]
fn a_panic_while_drawing_restores_the_terminal_says_where_and_ends_the_servers() {
    for (fault, words) in [("render", "while drawing"), ("drop", "in a destructor")] {
        let mut deck = Launch::demo(Size::WIDE).env("MCPDECK_FAULT", fault).start();
        deck.wait("4 ready");
        let server = deck.pid_of("atlas");
        deck.keys("\x0c");
        assert_ne!(deck.exit_code(), 0, "{fault}");
        deck.assert_restored();
        // A panic on top of a panic prints a backtrace, which scrolls the rest away.
        deck.wait_raw(0, words);
        let raw = deck.raw();
        assert_eq!(raw.matches("\x1b[?1049l").count(), 1, "the terminal is restored once");
        let (restored, said) = (raw.find("\x1b[?1049l"), raw.find("fault.rs:"));
        assert!(restored.is_some() && restored < said, "{raw}");
        until("its servers are gone", || !is_alive(server));
    }
}

#[test]
fn a_panic_in_a_task_or_a_thread_is_shown_and_the_program_goes_on() {
    for (fault, words) in [("task", "in a task"), ("thread", "in a thread")] {
        let mut deck = Launch::demo(Size::WIDE).env("MCPDECK_FAULT", fault).start();
        deck.wait("4 ready");
        deck.keys("\x0c");
        deck.wait("everything else continues");
        assert!(deck.look(vt100::Screen::alternate_screen), "{words}");
        assert!(!deck.raw().contains("\x1b[?1049l"), "the terminal was given back");
        deck.keys("2");
        deck.wait("find_airport");
        deck.quit();
    }
}

#[test]
fn a_thousand_resizes_under_floods_end_in_a_screen_that_fits() {
    let flood = r#"{"on": {"notifications/initialized": {"flood": {"to": "stderr",
        "perSecond": 20000, "line": "flood ${i}"}}}}"#;
    let servers = [
        own_server("loud", &["mock", "loud.json"]),
        own_server("quiet", &["demo-server", "beacon"]),
    ];
    let mut deck = Launch::file(Size::WIDE, &format!("{{\"servers\": {{{}}}}}", servers.join(",")))
        .write("loud.json", flood)
        .start();
    deck.wait("2 ready");
    deck.keys("5");
    deck.wait("following");
    let odd = [(1, 1), (0, 0), (500, 200), (20, 5), (60, 20), (80, 24), (200, 60), (3, 100)];
    for n in 0..1_000 {
        let (cols, rows) = odd[n % odd.len()];
        deck.resize_terminal(cols, rows);
    }
    deck.resize(80, 24);
    deck.keys("1");
    deck.wait("60 s");
    deck.wait("quit");
    assert!(deck.screen().lines().count() <= 24, "{}", deck.screen());
    deck.quit();
}
