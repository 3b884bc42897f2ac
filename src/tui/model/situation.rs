//! How the configuration stands beyond what runs: what awaits approval, what waits for an input, a
//! changed file that is not used yet. Built by the engine thread, read by the screen.

use crate::config::gate::Awaiting;
use crate::config::{ConfigChange, InputNeed, ServerName};

/// How the configuration stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// Counts situations: an approval is for the one that was shown.
    pub revision: u64,
    /// Servers that await approval, in file order.
    pub awaiting: Vec<Awaiting>,
    /// Inputs without an answer.
    pub needs: Vec<InputNeed>,
    /// What a changed file would do that is not used yet.
    pub plan: Option<ConfigChange>,
}

impl Situation {
    /// Servers a person is asked about now: switched off ones only when they are wanted.
    pub fn asked(&self) -> impl Iterator<Item = &Awaiting> {
        self.awaiting.iter().filter(|awaiting| !awaiting.disabled)
    }

    /// What there is to approve of a server.
    pub fn awaiting(&self, server: &ServerName) -> Option<&Awaiting> {
        self.awaiting.iter().find(|awaiting| awaiting.review.server == *server)
    }
}
