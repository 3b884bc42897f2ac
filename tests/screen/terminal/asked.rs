//! Questions of the commands that change files: a signal at one ends the command, and the terminal is
//! as before.

use crate::pty::{Deck, Launch, Signal, Size, program, signal};

const SERVER: &str = "{\"tools\": [{\"name\": \"a\", \"inputSchema\": {\"type\": \"object\"}}]}";

/// A server that needs a secret, as a registry has it.
const PUBLISHED: &str = "{\"name\": \"io.example/vault\", \"version\": \"1.0.0\", \"packages\": \
    [{\"registryType\": \"npm\", \"identifier\": \"@example/vault\", \"version\": \"1.0.0\", \
    \"environmentVariables\": [{\"name\": \"API_KEY\", \"isRequired\": true, \"isSecret\": true}]}]}";

/// Ends a command at a question, in every way that there is.
fn ended_at(question: &str, launch: impl Fn() -> Launch, answers: &[(&str, &str)]) {
    let ends: [fn(&mut Deck); 3] = [
        |deck| deck.bytes("\x03"),
        |deck| signal(deck.pid(), Signal::TERM),
        |deck| signal(deck.pid(), Signal::HUP),
    ];
    for end in ends {
        let mut deck = launch().start();
        for (shown, answer) in answers {
            deck.wait(shown);
            deck.bytes(answer);
        }
        deck.wait(question);
        end(&mut deck);
        assert_eq!(deck.exit_code(), 130, "{}", deck.screen());
        assert!(!deck.home().join("mcp.json").exists());
        deck.assert_restored();
    }
}

#[test]
fn a_signal_at_a_question_of_add_ends_it() {
    let program = program();
    let add = || {
        Launch::new(Size::WIDE, &["add", "calc", "--", &program, "mock", "calc.json"])
            .write("calc.json", SERVER)
    };
    ended_at("start it, to check it?", add, &[]);
    // Once a server was started, the program handles signals itself.
    ended_at("and trust it?", add, &[("start it, to check it?", "y\r")]);
}

#[test]
fn a_signal_at_a_secret_ends_it_and_what_is_typed_is_shown_again() {
    let add = || Launch::new(Size::WIDE, &["add", "server.json"]).write("server.json", PUBLISHED);
    ended_at("not shown and kept in the store", add, &[]);
}
