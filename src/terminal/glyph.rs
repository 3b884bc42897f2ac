//! The signs the screen uses, in Unicode and in ASCII. State is always a sign and a word, never a
//! colour alone.

use crate::ink::{Ink, ink};

/// A sign, one cell wide.
type GlyphText = &'static str;

macro_rules! glyphs {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $unicode:expr, $ascii:expr;)*) => {
        /// One set of signs.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Glyphs { $($(#[$doc])* pub $name: $kind),* }

        /// For terminals that show Unicode.
        pub const UNICODE: Glyphs = Glyphs { $($name: $unicode),* };

        /// For those that do not.
        pub const ASCII: Glyphs = Glyphs { $($name: $ascii),* };
    };
}

// Each sign in Unicode, then in ASCII.
glyphs! {
    /// A server in use.
    ready: GlyphText = "●", "*";
    /// Under way.
    busy: GlyphText = "◐", "~";
    /// Cannot be used.
    down: GlyphText = "✗", "x";
    /// Waits for something.
    waiting: GlyphText = "○", "o";
    /// Not in use on purpose.
    off: GlyphText = "·", "-";
    /// Done.
    check: GlyphText = "✓", "+";
    /// Needs attention.
    warning: GlyphText = "⚠", "!";
    /// Needs the user.
    hand: GlyphText = "✋", "!";
    /// The selected row.
    cursor: GlyphText = "▸", ">";
    /// Unfolded.
    open: GlyphText = "▾", "v";
    /// Folded.
    closed: GlyphText = "▸", ">";
    /// Text continues.
    ellipsis: GlyphText = "…", "~";
    /// Horizontal rule.
    horizontal: GlyphText = "─", "-";
    /// Horizontal rule of what has the focus.
    heavy: GlyphText = "━", "=";
    /// Vertical rule.
    vertical: GlyphText = "│", "|";
    /// Rule meeting a vertical one below it.
    tee_down: GlyphText = "┬", "+";
    /// Rule meeting a vertical one above it.
    tee_up: GlyphText = "┴", "+";
    /// Corners of a frame: top left, top right, bottom left, bottom right.
    corners: [GlyphText; 4] = ["╭", "╮", "╰", "╯"], ["+", "+", "+", "+"];
    /// To the server.
    outbound: GlyphText = "→", ">";
    /// From the server.
    inbound: GlyphText = "←", "<";
    /// Leads to.
    arrow: GlyphText = "▸", ">";
    /// Branches on.
    branch: GlyphText = "├", "+";
    last_branch: GlyphText = "└", "`";
    /// Separates facts on one line.
    dot: GlyphText = "·", "-";
    descending: GlyphText = "↓", "v";
    ascending: GlyphText = "↑", "^";
    mark: GlyphText = "*", "*";
    /// The thumb of a scroll bar.
    thumb: GlyphText = "┃", "#";
    /// Heights from nothing to full.
    bars: [GlyphText; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
        [" ", ".", ".", ":", ":", "+", "+", "#", "#"];
    /// Parts of a bar in the waterfall: queued, sent, in progress, waiting for the user.
    spans: [GlyphText; 4] = ["┈", "━", "█", "░"], [".", "=", "#", ":"];
    /// Follows the end.
    follow: GlyphText = "↓", "v";
    /// Paused.
    frozen: GlyphText = "❚", "=";
}

impl Glyphs {
    /// Whether these are the signs for terminals without Unicode.
    pub fn is_ascii(&self) -> bool {
        *self == ASCII
    }

    /// A bar of a spark-line, `count` of at most `most`. Any non-zero count is visible.
    pub fn bar(&self, count: u32, most: u32) -> GlyphText {
        let level = (count as usize * 8).div_ceil(most.max(4) as usize).min(8);
        self.bars[if count == 0 { 1 } else { level.max(2) }]
    }

    /// A part of a bar that lies; such bars do not touch those of the rows above and below.
    pub fn lying(&self) -> GlyphText {
        self.bars[if self.is_ascii() { 8 } else { 6 }]
    }

    /// A column title with a sign if rows are sorted by it; `down` means descending.
    pub fn sorted(&self, title: &'static str, down: Option<bool>) -> Ink {
        let sign = down.map_or("", |down| if down { self.descending } else { self.ascending });
        ink!("{}{}", sign, title)
    }
}
