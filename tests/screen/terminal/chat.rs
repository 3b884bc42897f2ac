//! The chat in the dashboard, with the scripted model of the demo.

use crate::pty::{Deck, Size};

#[test]
fn the_key_to_answer_opens_what_the_conversation_waits_for() {
    let mut deck = Deck::demo(Size::WIDE);
    // A server of the demo asks for a text before anything else.
    deck.wait("1 waiting");
    deck.keys("C");
    deck.wait("Try one of these");
    deck.wait("crew draft_announcement waits for you");
    deck.keys("Put it into the logbook");
    deck.wait("Put it into the logbook");
    deck.keys("\r");
    deck.wait("may atlas.file_report be called?");
    deck.keys("\x07");
    let is_question = |line: &str| line.contains(" of 2 ") && line.contains("file_report");
    deck.wait_until("the question of the chat", |screen| screen.lines().any(is_question));
}
