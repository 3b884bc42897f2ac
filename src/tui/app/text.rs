//! Words and small drawings that several parts share.

use crate::base::ServerName;
use crate::host::ServerState;
use crate::tui::model::Model;
use crate::tui::pane::Cx;
use crate::tui::theme::Role;
use crate::tui::widget::Pen;

/// The role of a state.
pub const fn state_role(state: ServerState) -> Role {
    match state {
        ServerState::Ready => Role::Ok,
        ServerState::Starting | ServerState::Waiting => Role::Busy,
        ServerState::Unavailable => Role::Error,
        ServerState::Disabled | ServerState::Shutdown | ServerState::Sleeping => Role::Faint,
    }
}

/// Draws a server's activity over the last minute in `cells` cells.
pub fn spark(cx: &Cx<'_>, server: &ServerName, cells: usize, pen: &mut Pen<'_>) {
    let recent = cx.model.recent(server, cells);
    let max = recent.iter().copied().max().unwrap_or(0).max(4);
    for count in recent {
        let level = (count as usize * 8).div_ceil(max as usize).min(8);
        let level = if count == 0 { 1 } else { level.max(2) };
        let role = if count == 0 { Role::Faint } else { Role::Accent };
        pen.clip(cx.glyphs.bars[level], 1, cx.style(role));
    }
}

/// Counts of states, as the header says them.
pub fn count_states(model: &Model) -> [(ServerState, usize); 7] {
    [
        ServerState::Ready,
        ServerState::Starting,
        ServerState::Waiting,
        ServerState::Sleeping,
        ServerState::Unavailable,
        ServerState::Shutdown,
        ServerState::Disabled,
    ]
    .map(|state| (state, model.view.servers.values().filter(|s| s.state == state).count()))
}
