//! What the terminal can draw beside text: asked once, answered or not. Nothing ever waits for an
//! answer: until one comes, pictures are drawn with half blocks. Owns the question and the decision;
//! the pictures themselves are drawn by the result view.

use crate::tui::theme::ColorDepth;

mod encode;
mod placed;

pub use encode::{Encoded, Manner, encode};
pub use placed::{Placed, Placement};

/// The setting of the person: `auto` (or nothing), `off`, `blocks`, `kitty`, `sixel`, `iterm2`.
pub const VARIABLE: &str = "MCPDECK_IMAGES";

/// Asks whether the kitty protocol is understood, how large a cell is, how many colours and pixels
/// a sixel picture may have (XTSMGRAPHICS), and what the terminal is. The last one is answered by
/// nearly every terminal, so its answer ends the conversation. Sent before the first frame: a
/// terminal that prints what it does not know is drawn over.
pub const QUESTION: &[u8] =
    b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[?1;1;0S\x1b[?2;1;0S\x1b[c";
/// The same for a multiplexer: it lets nothing of the kitty protocol through, and takes the question
/// for the title of its pane.
const QUESTION_INSIDE: &[u8] = b"\x1b[16t\x1b[?1;1;0S\x1b[?2;1;0S\x1b[c";

/// A cell of the terminal in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellPixels {
    /// Width, at least 1.
    pub width: u16,
    /// Height, at least 1.
    pub height: u16,
}

impl Default for CellPixels {
    /// Twice as high as wide, as most are.
    fn default() -> Self {
        Self { width: 10, height: 20 }
    }
}

/// What a sixel picture may have in this terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SixelLimits {
    /// Most colours; those beyond would be drawn as others.
    pub colours: u16,
    /// Most pixels wide; what is larger is cut, or not drawn at all.
    pub width: u16,
    /// Most pixels high.
    pub height: u16,
}

impl Default for SixelLimits {
    /// What terminals that were not asked, or do not answer, take.
    fn default() -> Self {
        Self { colours: 256, width: u16::MAX, height: u16::MAX }
    }
}

/// What a terminal answered to [`QUESTION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalReply {
    /// It understands the kitty graphics protocol.
    Kitty,
    /// The size of a cell.
    Cell(CellPixels),
    /// How many colours a sixel picture may have.
    SixelColours(u16),
    /// How many pixels wide and high it may be.
    SixelArea(u16, u16),
    /// Its attributes; whether sixel graphics are among them.
    Attributes {
        /// Attribute 4 of DA1.
        sixel: bool,
    },
}

/// How pictures are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Graphics {
    /// Not at all; only what is known of them is shown. Why, in words.
    Off(&'static str),
    /// Two pixels per cell, in these colours.
    Blocks(ColorDepth, CellPixels),
    /// The kitty protocol.
    Kitty(CellPixels),
    /// Sixel, within these limits.
    Sixel(CellPixels, SixelLimits),
    /// The protocol of iTerm2.
    Iterm2(CellPixels),
}

impl Default for Graphics {
    fn default() -> Self {
        Self::Blocks(ColorDepth::True, CellPixels::default())
    }
}

impl Graphics {
    /// The size of a cell.
    pub fn cell(self) -> CellPixels {
        match self {
            Self::Off(_) => CellPixels::default(),
            Self::Blocks(_, cell)
            | Self::Kitty(cell)
            | Self::Sixel(cell, _)
            | Self::Iterm2(cell) => cell,
        }
    }

    /// The same with half blocks instead of pixels: where something else may be drawn over it.
    #[must_use]
    pub fn as_blocks(self) -> Self {
        match self {
            Self::Off(_) | Self::Blocks(..) => self,
            Self::Kitty(cell) | Self::Sixel(cell, _) | Self::Iterm2(cell) => {
                Self::Blocks(ColorDepth::True, cell)
            }
        }
    }

    /// Whether it draws pixels.
    pub const fn has_pixels(self) -> bool {
        matches!(self, Self::Kitty(_) | Self::Sixel(..) | Self::Iterm2(_))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wanted {
    #[default]
    Auto,
    Off,
    Blocks,
    Kitty,
    Sixel,
    Iterm2,
}

/// What is known of the terminal, and what the person wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts of a terminal, each by itself")]
pub struct Support {
    wanted: Wanted,
    depth: ColorDepth,
    ascii: bool,
    /// The terminal is known not to place kitty's pictures where text would be.
    no_placement: bool,
    iterm2: bool,
    /// A multiplexer stands between us and the terminal.
    inner: bool,
    kitty: bool,
    sixel: bool,
    limits: SixelLimits,
    cell: Option<CellPixels>,
}

impl Support {
    /// Reads the setting and what the environment says of the terminal.
    pub fn from_env(
        get: impl Fn(&str) -> Option<String>,
        depth: ColorDepth,
        glyphs: &crate::tui::glyph::Glyphs,
    ) -> Self {
        let is = |name: &str, words: &[&str]| {
            get(name).is_some_and(|value| words.iter().any(|word| value.contains(word)))
        };
        let wanted = match get(VARIABLE).unwrap_or_default().to_ascii_lowercase().as_str() {
            "off" | "none" | "0" => Wanted::Off,
            "blocks" | "halfblocks" => Wanted::Blocks,
            "kitty" => Wanted::Kitty,
            "sixel" => Wanted::Sixel,
            "iterm2" => Wanted::Iterm2,
            _ => Wanted::Auto,
        };
        // Inside a multiplexer the outer terminal's variables say nothing of what comes through.
        let inner = is("TERM", &["tmux", "screen"]) || get("TMUX").is_some();
        let wezterm = is("TERM_PROGRAM", &["WezTerm"]);
        let konsole = get("KONSOLE_VERSION").is_some();
        let speaks_iterm2 = is("TERM_PROGRAM", &["iTerm", "WezTerm", "mintty", "vscode", "rio"])
            || is("LC_TERMINAL", &["iTerm"]);
        Self {
            wanted,
            depth,
            ascii: glyphs.ellipsis == crate::tui::glyph::ASCII.ellipsis,
            no_placement: wezterm || konsole,
            iterm2: speaks_iterm2 && !inner,
            inner,
            ..Self::default()
        }
    }

    /// The size of a cell as the operating system has it.
    #[must_use]
    pub fn with_cell(mut self, cell: Option<CellPixels>) -> Self {
        self.cell = cell;
        self
    }

    /// Whether the terminal is worth asking: not when the answer would change nothing, and not a
    /// terminal that cannot be expected to swallow the question. Nor on Windows, where an answer
    /// comes as if its characters had been typed.
    pub fn asks(&self, term: Option<&str>) -> bool {
        let simple = ["", "dumb", "linux", "cons25", "vt52", "ansi"];
        !cfg!(windows)
            && matches!(self.wanted, Wanted::Auto | Wanted::Kitty | Wanted::Sixel | Wanted::Iterm2)
            && self.depth != ColorDepth::None
            && !self.ascii
            && !simple.contains(&term.unwrap_or_default())
    }

    /// What the terminal is asked.
    pub const fn question(&self) -> &'static [u8] {
        if self.inner { QUESTION_INSIDE } else { QUESTION }
    }

    /// The terminal answered; gives whether that changes how pictures are drawn.
    pub fn answered(&mut self, reply: TerminalReply) -> bool {
        let before = self.graphics();
        match reply {
            TerminalReply::Kitty => self.kitty = true,
            TerminalReply::Cell(cell) => self.cell = Some(cell),
            TerminalReply::SixelColours(colours) => self.limits.colours = colours,
            TerminalReply::SixelArea(width, height) => {
                (self.limits.width, self.limits.height) = (width, height);
            }
            TerminalReply::Attributes { sixel } => self.sixel = sixel,
        }
        self.graphics() != before
    }

    /// How pictures are drawn.
    pub fn graphics(&self) -> Graphics {
        let cell = self.cell.unwrap_or_default();
        match self.wanted {
            Wanted::Off => Graphics::Off("pictures are turned off"),
            _ if self.depth == ColorDepth::None => Graphics::Off("there are no colours"),
            _ if self.ascii => Graphics::Off("there are only ASCII characters"),
            Wanted::Kitty => Graphics::Kitty(cell),
            Wanted::Sixel => Graphics::Sixel(cell, self.limits),
            Wanted::Iterm2 => Graphics::Iterm2(cell),
            Wanted::Auto if self.kitty && !self.no_placement => Graphics::Kitty(cell),
            Wanted::Auto if self.iterm2 => Graphics::Iterm2(cell),
            // Without the size of a cell, pixels would not fit the cells left free for them.
            Wanted::Auto if self.sixel && !self.no_placement && self.cell.is_some() => {
                Graphics::Sixel(cell, self.limits)
            }
            Wanted::Auto | Wanted::Blocks => Graphics::Blocks(self.depth, cell),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::glyph::{ASCII, UNICODE};

    fn support(vars: &[(&str, &str)]) -> Support {
        let get = |name: &str| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        Support::from_env(get, ColorDepth::True, &UNICODE)
    }

    #[test]
    fn a_terminal_that_never_answers_gets_half_blocks() {
        let silent = support(&[]);
        assert_eq!(silent.asks(Some("xterm-256color")), !cfg!(windows));
        assert_eq!(silent.graphics(), Graphics::default());
    }

    #[test]
    fn what_the_terminal_answers_decides() {
        let cell = CellPixels { width: 8, height: 17 };
        let mut sixel = support(&[]);
        assert!(!sixel.answered(TerminalReply::Attributes { sixel: true }), "no cell size yet");
        assert!(sixel.answered(TerminalReply::Cell(cell)));
        assert_eq!(sixel.graphics(), Graphics::Sixel(cell, SixelLimits::default()));
        assert!(sixel.answered(TerminalReply::SixelColours(16)));
        assert!(sixel.answered(TerminalReply::SixelArea(800, 600)));
        let limits = SixelLimits { colours: 16, width: 800, height: 600 };
        assert_eq!(sixel.graphics(), Graphics::Sixel(cell, limits));
        let mut kitty = sixel;
        assert!(kitty.answered(TerminalReply::Kitty));
        assert_eq!(kitty.graphics(), Graphics::Kitty(cell));
        assert_eq!(
            support(&[("TERM_PROGRAM", "iTerm.app")]).graphics().cell(),
            CellPixels::default()
        );
        let mut konsole = support(&[("KONSOLE_VERSION", "230800")]);
        konsole.answered(TerminalReply::Kitty);
        assert!(!konsole.graphics().has_pixels());
        let inside = support(&[("TERM_PROGRAM", "iTerm.app"), ("TMUX", "/tmp/x")]);
        assert!(!inside.graphics().has_pixels());
        assert!(!inside.question().contains(&b'_'), "tmux would call its pane so");
        assert!(support(&[]).question().starts_with(b"\x1b_G"));
    }

    #[test]
    fn the_setting_wins_and_no_colours_mean_no_pictures() {
        let mut off = support(&[(VARIABLE, "off")]);
        off.answered(TerminalReply::Kitty);
        assert!(matches!(off.graphics(), Graphics::Off(_)));
        assert!(!off.asks(Some("xterm")));
        let mut blocks = support(&[(VARIABLE, "blocks")]);
        blocks.answered(TerminalReply::Kitty);
        assert!(!blocks.graphics().has_pixels() && !blocks.asks(Some("xterm")));
        assert!(matches!(support(&[(VARIABLE, "SIXEL")]).graphics(), Graphics::Sixel(..)));
        let plain = Support::from_env(|_| None, ColorDepth::None, &UNICODE);
        let ascii = Support::from_env(|_| None, ColorDepth::True, &ASCII);
        for none in [plain, ascii] {
            assert!(matches!(none.graphics(), Graphics::Off(_)) && !none.asks(Some("xterm")));
        }
        assert!(!support(&[]).asks(Some("linux")) && !support(&[]).asks(None));
    }
}
