//! A dashboard over played servers that ask, and the record of what each of them received.

use std::path::PathBuf;

use serde_json::Value;

pub use crate::pty::until;
use crate::pty::{Deck, Launch, Size};

/// F5: makes the call.
pub const CALL: &str = "\x1b[15~";
/// Opens what waits longest.
pub const ANSWER: &str = "\x07";
/// Sends.
pub const SEND: &str = "\x12";

/// A dashboard and its servers.
pub struct Stage {
    pub deck: Deck,
    /// The record of the first server.
    name: String,
}

/// The path of a script of `fixtures/approvals`.
fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/approvals/{name}.jsonc"))
}

/// An entry that plays a script under a name; its record has that name too.
pub fn entry(name: &str, play: &str, limits: &str) -> String {
    let program = env!("CARGO_BIN_EXE_mcpdeck");
    let script = script(play).display().to_string();
    format!(
        "{name:?}: {{\"command\": {program:?}, \"args\": [\"mock\", {script:?}, \"{name}.record\"],
         \"timeout\": 60, \"limits\": {limits}}}"
    )
}

/// The text of a configuration with these entries.
pub fn config(entries: &[String]) -> String {
    format!("{{\"servers\": {{{}}}}}", entries.join(",\n"))
}

impl Stage {
    pub fn asker(size: Size) -> Self {
        Self::from_play("asker", size, "{}")
    }

    pub fn from_play(play: &str, size: Size, limits: &str) -> Self {
        let text = config(&[entry(play, play, limits)]);
        Self::on(Launch::file(size, &text).start(), play)
    }

    /// A dashboard that was started, over one server of this name.
    pub fn on(deck: Deck, name: &str) -> Self {
        deck.wait("1 ready");
        Self { deck, name: name.to_owned() }
    }

    /// Calls a tool and waits until the server asks.
    pub fn call(&mut self, tool: &str) {
        open_call(&mut self.deck, tool);
        self.deck.keys(CALL);
        self.deck.wait("1 waiting");
    }

    /// Calls a tool and opens what its server asks, which reads like this.
    pub fn open_question(&mut self, tool: &str, says: &str) {
        open_call(&mut self.deck, tool);
        self.asked_again(says);
    }

    /// Makes the call of the open call screen, and opens what its server asks.
    pub fn asked_again(&mut self, says: &str) {
        self.deck.gone("1 waiting");
        self.deck.decide(CALL);
        self.deck.wait("1 waiting");
        self.deck.keys(ANSWER);
        self.deck.wait(says);
    }

    /// Sends the answer and waits for what comes of it.
    pub fn send(&mut self, told: &str) {
        self.deck.decide(SEND);
        self.deck.wait(told);
    }

    /// Says no to a completion, without a reason.
    pub fn refuse(&mut self) {
        self.deck.decide("\x18");
        self.deck.wait("reason (optional)");
        self.send("said: the user declined");
    }

    /// Calls a tool that asks nobody.
    pub fn call_and_wait(&mut self, tool: &str, text: &str) {
        open_call(&mut self.deck, tool);
        self.deck.keys(CALL);
        self.deck.wait(text);
    }

    /// Every message that the server received.
    pub fn record(&self) -> Vec<Value> {
        record(&self.deck, &self.name)
    }

    /// Every answer to the server's request of this id.
    pub fn answers(&self, id: &str) -> Vec<Value> {
        let mut record = self.record();
        record.retain(|message| message["id"] == id && message.get("method").is_none());
        record
    }

    /// The only answer.
    pub fn answer(&self, id: &str) -> Value {
        let answers = self.answers(id);
        assert_eq!(answers.len(), 1, "{id}: {answers:?}");
        answers[0].clone()
    }

    /// Back to the panes.
    pub fn leave(&mut self) {
        self.deck.leave_call();
    }

    /// Back to the panes, and out.
    pub fn end(mut self) {
        self.leave();
        self.deck.quit();
    }
}

/// Every message that a server received.
pub fn record(deck: &Deck, name: &str) -> Vec<Value> {
    let path = deck.home().join(format!("{name}.record"));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The last line may be half written.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Opens the call screen of a tool.
pub fn open_call(deck: &mut Deck, tool: &str) {
    deck.keys("2");
    deck.wait("tokens");
    // An empty list first: what is selected afterwards is the best that fits.
    deck.keys("/\x15");
    deck.paste("zzzzz");
    deck.wait("0 of");
    deck.keys("\x15");
    deck.gone("zzzzz");
    deck.paste(tool);
    deck.wait_until("the tool under the cursor", |screen| {
        let marked =
            |line: &str| line.split('▸').next_back().is_some_and(|t| t.trim().starts_with(tool));
        screen.lines().any(|line| line.contains('▸') && marked(line))
    });
    // The first ends the typing, the second opens what is marked.
    deck.keys("\r\r");
    deck.wait("f5 call");
}

/// Types as slowly as a person: keys that a busy machine reads together would be a paste.
pub fn slowly(deck: &mut Deck, keys: &str) {
    let mut key = String::new();
    for c in keys.chars() {
        key.push(c);
        let unfinished = key == "\x1b" || key == "\x1b[" || key == "\x1bO";
        let inside = key.starts_with("\x1b[") && !('@'..='~').contains(&c);
        if !unfinished && !inside {
            deck.keys(&key);
            key.clear();
            std::thread::park_timeout(std::time::Duration::from_millis(40));
        }
    }
    assert!(key.is_empty(), "half a key: {key:?}");
}

/// Out, although calls are still in flight.
pub fn stop(deck: &mut Deck) {
    deck.keys("q");
    deck.wait("stop the servers and quit?");
    deck.decide("y");
    assert_eq!(deck.exit_code(), 0);
}
