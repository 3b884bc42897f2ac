//! Why a server of the deck must not start yet: decided by the front end that asks the person,
//! obeyed by the engine. Never read from a file.

use std::fmt;

/// What a server waits for before it may start. The engine lists such a server and starts it by no
/// means, also not when it is asked to; another configuration without the hold lets it go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The person has not approved what it would run.
    Approval,
    /// An input of this id has no answer.
    Input(String),
}

impl Hold {
    /// Its name among the settings that changed.
    pub fn setting(&self) -> String {
        match self {
            Self::Approval => "approval".to_owned(),
            Self::Input(id) => format!("input `{id}`"),
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approval => f.write_str("awaiting your approval"),
            Self::Input(id) => write!(f, "waiting for input `{id}`"),
        }
    }
}
