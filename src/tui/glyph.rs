//! The signs the screen uses, in Unicode and in ASCII. State is always a sign and a word, never a
//! colour alone.

use crate::host::ServerState;

/// One set of signs; every one is a single cell wide unless its name says `bars`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glyphs {
    /// A server in use.
    pub ready: &'static str,
    /// Under way.
    pub busy: &'static str,
    /// Cannot be used.
    pub down: &'static str,
    /// Waits for something.
    pub waiting: &'static str,
    /// Not in use on purpose.
    pub off: &'static str,
    /// Done.
    pub check: &'static str,
    /// Wants a look.
    pub warning: &'static str,
    /// A person is needed.
    pub hand: &'static str,
    /// The selected row.
    pub cursor: &'static str,
    /// Unfolded.
    pub open: &'static str,
    /// Folded.
    pub closed: &'static str,
    /// Text goes on.
    pub ellipsis: &'static str,
    /// Horizontal rule.
    pub horizontal: &'static str,
    /// Vertical rule.
    pub vertical: &'static str,
    /// Rule meeting a vertical one below it.
    pub tee_down: &'static str,
    /// Rule meeting a vertical one above it.
    pub tee_up: &'static str,
    /// To the server.
    pub outbound: &'static str,
    /// From the server.
    pub inbound: &'static str,
    /// Leads to.
    pub arrow: &'static str,
    /// Branches on.
    pub branch: &'static str,
    /// Last branch.
    pub last_branch: &'static str,
    /// Separates facts on one line.
    pub dot: &'static str,
    /// Descending.
    pub descending: &'static str,
    /// Ascending.
    pub ascending: &'static str,
    /// A mark.
    pub mark: &'static str,
    /// The track of a scroll bar.
    pub track: &'static str,
    /// The thumb of a scroll bar.
    pub thumb: &'static str,
    /// Heights from nothing to full.
    pub bars: [&'static str; 9],
    /// Parts of a bar in the waterfall: queued, sent, in progress, waiting for a person.
    pub spans: [&'static str; 4],
    /// Follows the end.
    pub follow: &'static str,
    /// Stands still.
    pub frozen: &'static str,
}

/// For terminals that show Unicode.
pub const UNICODE: Glyphs = Glyphs {
    ready: "●",
    busy: "◐",
    down: "✗",
    waiting: "○",
    off: "·",
    check: "✓",
    warning: "⚠",
    hand: "✋",
    cursor: "▸",
    open: "▾",
    closed: "▸",
    ellipsis: "…",
    horizontal: "─",
    vertical: "│",
    tee_down: "┬",
    tee_up: "┴",
    outbound: "→",
    inbound: "←",
    arrow: "▸",
    branch: "├",
    last_branch: "└",
    dot: "·",
    descending: "↓",
    ascending: "↑",
    mark: "*",
    track: "│",
    thumb: "┃",
    bars: [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    spans: ["┈", "━", "█", "░"],
    follow: "↓",
    frozen: "❚",
};

/// For those that do not.
pub const ASCII: Glyphs = Glyphs {
    ready: "*",
    busy: "~",
    down: "x",
    waiting: "o",
    off: "-",
    check: "+",
    warning: "!",
    hand: "!",
    cursor: ">",
    open: "v",
    closed: ">",
    ellipsis: "~",
    horizontal: "-",
    vertical: "|",
    tee_down: "+",
    tee_up: "+",
    outbound: ">",
    inbound: "<",
    arrow: ">",
    branch: "+",
    last_branch: "`",
    dot: "-",
    descending: "v",
    ascending: "^",
    mark: "*",
    track: "|",
    thumb: "#",
    bars: [" ", ".", ".", ":", ":", "+", "+", "#", "#"],
    spans: [".", "=", "#", ":"],
    follow: "v",
    frozen: "=",
};

impl Glyphs {
    /// The sign of a state.
    pub const fn state(&self, state: ServerState) -> &'static str {
        match state {
            ServerState::Ready => self.ready,
            ServerState::Starting => self.busy,
            ServerState::Unavailable => self.down,
            ServerState::Waiting => self.waiting,
            ServerState::Disabled | ServerState::Shutdown | ServerState::Sleeping => self.off,
        }
    }
}
