//! Signs and roles of what the engine knows; the signs themselves are the terminal's.

use host::{ServerState, ServerView};
use protocol::Direction;
use terminal::theme::Role;

pub use terminal::glyph::{ASCII, Glyphs, UNICODE};

/// Signs of states and directions.
pub trait EngineGlyphs {
    /// The sign of a state.
    fn state(&self, state: ServerState) -> &'static str;

    /// The sign of a direction, and its role.
    fn direction(&self, direction: Direction) -> (&'static str, Role);
}

impl EngineGlyphs for Glyphs {
    fn state(&self, state: ServerState) -> &'static str {
        match state {
            ServerState::Ready => self.ready,
            ServerState::Starting => self.busy,
            ServerState::Unavailable => self.down,
            ServerState::Waiting => self.waiting,
            ServerState::Disabled | ServerState::Shutdown | ServerState::Sleeping => self.off,
        }
    }

    fn direction(&self, direction: Direction) -> (&'static str, Role) {
        match direction {
            Direction::Out => (self.outbound, Role::Outbound),
            Direction::In => (self.inbound, Role::Inbound),
        }
    }
}

/// The word for a state on the screen. "Waiting" stands there for what waits for the user alone, and
/// a server that cannot be used is as short as the others.
pub fn state_word(state: ServerState) -> &'static str {
    match state {
        ServerState::Unavailable => "down",
        ServerState::Waiting => "blocked",
        ServerState::Ready
        | ServerState::Starting
        | ServerState::Disabled
        | ServerState::Shutdown
        | ServerState::Sleeping => state.word(),
    }
}

/// The word for the state of a server: one that was stopped may still be ending.
pub fn server_word(server: &ServerView) -> &'static str {
    if server.state == ServerState::Shutdown && server.pid.is_some() {
        "stopping"
    } else {
        state_word(server.state)
    }
}

/// What the reason of a state adds to its word, if anything.
pub fn reason_beside(server: &ServerView) -> Option<&str> {
    let reason = server.reason.as_ref()?.as_str();
    let rest = reason.strip_prefix(server_word(server)).unwrap_or(reason).trim_start();
    let is_stop = server.state == ServerState::Shutdown && rest == "stopping";
    (!rest.is_empty() && !is_stop).then_some(rest)
}

/// The role of a state.
pub const fn state_role(state: ServerState) -> Role {
    match state {
        ServerState::Ready => Role::Ok,
        ServerState::Starting | ServerState::Waiting => Role::Busy,
        ServerState::Unavailable => Role::Error,
        ServerState::Disabled | ServerState::Shutdown | ServerState::Sleeping => Role::Faint,
    }
}
