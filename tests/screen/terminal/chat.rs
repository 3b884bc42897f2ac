//! The chat in the dashboard, with the scripted model of the demo.

use crate::pty::{Deck, Size};

#[test]
fn the_key_to_answer_opens_what_the_conversation_waits_for() {
    let mut deck = Deck::demo(Size::WIDE);
    deck.wait("4 ready");
    // A call asks for a text before the conversation asks anything.
    deck.keys("2");
    deck.wait("enter call");
    deck.keys("/draft_ann");
    deck.wait("1 of 31");
    deck.keys("\r");
    deck.wait("enter call");
    deck.keys("\r");
    deck.wait("occasion *");
    deck.keys("boarding");
    deck.wait("boarding");
    deck.keys("\x1b[15~");
    deck.wait("1 waiting");
    deck.keys("\x1b");
    deck.wait("f6 result");
    deck.keys("\x1b");
    deck.wait("enter call");
    deck.keys("C");
    deck.wait("crew draft_announcement waits for you");
    deck.keys("Put it into the logbook");
    deck.wait("Put it into the logbook");
    deck.keys("\r");
    deck.wait("may atlas.file_report be called?");
    deck.keys("\x07");
    let is_question = |line: &str| line.contains(" of 2 ") && line.contains("file_report");
    deck.wait_until("the question of the chat", |screen| screen.lines().any(is_question));
}
