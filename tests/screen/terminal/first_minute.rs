//! How many keys it takes from the start to the first result: in the demo, with a file, and from
//! nothing but what another program has. The seconds are printed (`-- --nocapture`) and not judged:
//! they are those of the machine, as these hands press a key as soon as they see what it is for, and
//! read a command that is to be approved for 0.8 s.

use std::time::{Duration, Instant};

use crate::pty::{Deck, Launch, Size, own_server};

/// What the first tool of the server called gremlin takes when it is not told otherwise.
const FIRST_TOOL: Duration = Duration::from_millis(2_500);

/// A person at the keyboard, whose keys are counted.
struct Counted {
    deck: Deck,
    keys: usize,
    began: Instant,
}

impl Counted {
    fn start(launch: Launch) -> Self {
        let began = Instant::now();
        Self { deck: launch.start(), keys: 0, began }
    }

    /// The result is there after so many keys; prints how long it took besides the tool itself.
    #[expect(clippy::print_stdout, reason = "a figure for whoever runs it with --nocapture")]
    fn has_result(&self, what: &str, keys: usize, tool: Duration) {
        let took = self.began.elapsed().saturating_sub(tool).as_secs_f64();
        println!("first result {what}: {} keys, {took:.2} s besides the tool", self.keys);
        assert_eq!(self.keys, keys, "{what}");
    }

    /// Presses a key when this is on the screen.
    fn press(&mut self, seen: &str, key: &str) {
        self.deck.wait(seen);
        self.keys += 1;
        self.deck.keys(key);
    }

    /// The same for a key that decides something, which was read before.
    fn decide(&mut self, seen: &str, key: &str) {
        self.deck.wait(seen);
        self.keys += 1;
        self.deck.decide(key);
    }

    /// From the list of servers to the result of the first tool, which needs no arguments.
    fn call_the_first_tool(&mut self) {
        self.press("1 ready", "2");
        self.press("enter call", "\r");
        self.press("f5 call", "\x1b[15~");
        self.deck.wait("f6 form");
        self.deck.wait("✓");
    }
}

fn servers() -> String {
    format!("{{\"mcpServers\": {{{}}}}}", own_server("gremlin", &["demo-server", "gremlin"]))
}

#[test]
fn in_the_demo_the_first_result_is_three_keys_and_a_word_away() {
    let mut person = Counted::start(Launch::demo(Size::WIDE));
    person.press("4 ready", "2");
    person.press("find_airport", "\r");
    for letter in ["Z", "R", "H"] {
        person.press("f5 call", letter);
    }
    person.press("f5 call", "\x1b[15~");
    person.deck.wait("f6 form");
    person.deck.wait("Zürich");
    person.has_result("in the demo", 6, Duration::ZERO);
    person.deck.quit();
}

#[test]
fn with_a_file_one_key_approves_and_three_lead_to_the_first_result() {
    let mut person = Counted::start(Launch::untrusted(Size::WIDE, &servers()));
    person.decide("would run 1 command", "y");
    person.deck.wait("1 ready");
    person.call_the_first_tool();
    person.has_result("with a file", 4, FIRST_TOOL);
    person.deck.quit();
}

#[test]
fn from_nothing_one_key_takes_what_another_program_has() {
    let launch = Launch::new(Size::WIDE, &[]);
    let launch = launch.write(".codeium/windsurf/mcp_config.json", &servers());
    let mut person = Counted::start(launch);
    person.press("1 server of other programs", "\r");
    person.decide("would run 1 command", "y");
    person.deck.wait("1 ready");
    let file = person.deck.config_dir().join("mcp.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"gremlin\""), "{text}");
    person.call_the_first_tool();
    person.has_result("from nothing", 5, FIRST_TOOL);
    person.deck.keys("\x1b\x1b1");
    person.deck.wait("1 ready");
    person.deck.keys("ez");
    person.deck.wait("undone");
    assert!(!std::fs::read_to_string(&file).unwrap_or_default().contains("gremlin"));
    person.deck.quit();
}
