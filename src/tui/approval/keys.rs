//! Where the keys of the answering screen are looked up, and the words its last line shows.

use crate::tui::action::Action;
use crate::tui::approval::answering::{AnswerScreen, Draft, Part, Says};
use crate::tui::approval::elicitation::{Asks, ElicitationReading};
use crate::tui::keymap::{Keymap, Scope};

/// Where the keys of a request being answered are bound, innermost first.
pub fn scopes(answering: &AnswerScreen) -> &'static [Scope] {
    match (&answering.says, answering.is_typing()) {
        (Says::Sampling(_), true) => &[Scope::AnswerSampling, Scope::Answer],
        (Says::Sampling(_), false) => &[Scope::AnswerReading, Scope::AnswerSampling, Scope::Answer],
        (Says::Elicitation(_), true) => &[Scope::AnswerElicitation, Scope::Answer],
        (Says::Elicitation(_), false) => {
            &[Scope::AnswerReading, Scope::AnswerElicitation, Scope::Answer]
        }
        (Says::Other(_), true) => &[Scope::Answer],
        (Says::Other(_), false) => &[Scope::AnswerReading, Scope::Answer],
    }
}

/// Keys and words for the footer: what decides comes first, in the words of the specification where
/// it has them.
pub fn footer(keymap: &Keymap, answering: &AnswerScreen) -> Vec<(String, &'static str)> {
    let (kind, send, deny) = match (&answering.says, &answering.draft) {
        (Says::Sampling(_), _) => (Scope::AnswerSampling, "send", "deny"),
        (Says::Elicitation(_), Draft::Consent) => (Scope::AnswerElicitation, "open it", "decline"),
        (Says::Elicitation(_), _) => (Scope::AnswerElicitation, "accept", "decline"),
        (Says::Other(_), Draft::Consent) => (Scope::AnswerReading, "allow", "refuse"),
        (Says::Other(_), _) => (Scope::AnswerReading, "send", "deny"),
    };
    // What is typed for the answer is ended by the same key.
    let send = match answering.part {
        Part::Tool => "add it",
        Part::Name => "keep it",
        Part::Reason => deny,
        Part::Request => "take it",
        Part::Says | Part::Answer | Part::Model | Part::Stop => send,
    };
    let refused = matches!(&answering.says, Says::Elicitation(ElicitationReading { asks: Asks::Url(url), .. }) if url.open.is_none());
    let media = matches!(&answering.says, Says::Sampling(reading) if reading.has_media());
    let rank = |action: Action| match action {
        Action::Send => 0,
        Action::Deny => 1,
        // What cannot be seen otherwise, and what decides too.
        Action::SaveMedia | Action::CancelRequest => 2,
        _ => 3,
    };
    let mut labels = keymap.labels(&[Scope::Answer, kind]);
    labels.retain(|(.., action)| match action {
        Action::CopyForm | Action::NextRequest | Action::Back => true,
        _ if answering.ended().is_some() => false,
        Action::Send => !refused,
        Action::Deny => answering.part != Part::Reason,
        Action::SaveMedia => media,
        _ => true,
    });
    labels.sort_by_key(|(.., action)| rank(*action));
    let worded = labels.into_iter().map(|(key, word, action)| match action {
        Action::Send => (key, send),
        Action::Deny => (key, deny),
        _ => (key, word),
    });
    worded.collect()
}
