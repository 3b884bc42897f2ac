//! What the terminal can draw besides text. It is queried once, and nothing waits for the reply:
//! until one comes, pictures are drawn with half blocks. Owns the query, the choice of protocol,
//! the encoding and the placement; the result view lays the pictures out.
//!
//! `ratatui-image` (11.1) is not used: it writes escape sequences into cells, which here
//! never hold any, and reads the terminal's replies from stdin itself.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, RgbaImage};

use crate::prelude::*;
use crate::sixel;
use crate::theme::ColorDepth;

/// The user's setting: `auto` (or nothing), `off`, `blocks`, `kitty`, `sixel`, `iterm2`.
pub const VARIABLE: &str = "MCPDECK_IMAGES";

/// Queries the background colour (OSC 11), kitty support, the cell size, the limits of sixel pictures (XTSMGRAPHICS: colours and
/// pixels), and the terminal's attributes (DA1). Nearly every terminal answers the last, so that
/// reply ends the exchange. Sent before the first frame, which draws over anything that a terminal
/// prints because it does not know a query.
pub const QUESTION: &[u8] =
    b"\x1b]11;?\x1b\\\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[?1;1;0S\x1b[?2;1;0S\x1b[c";
/// The same for multiplexers, which do not pass on the kitty protocol and take its query for a pane
/// title.
const QUESTION_INSIDE: &[u8] = b"\x1b]11;?\x1b\\\x1b[16t\x1b[?1;1;0S\x1b[?2;1;0S\x1b[c";

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

/// Limits of a sixel picture in this terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SixelLimits {
    /// Most colours; any beyond that would be drawn wrong.
    pub colours: u16,
    /// Most pixels wide; larger pictures are cut off, or not drawn at all.
    pub width: u16,
    /// Most pixels high.
    pub height: u16,
}

impl Default for SixelLimits {
    /// Assumed for terminals that were not queried or do not reply.
    fn default() -> Self {
        Self { colours: 256, width: u16::MAX, height: u16::MAX }
    }
}

/// The background of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Dark text is read well on it.
    Light,
    /// Light text is read well on it.
    Dark,
}

impl Background {
    /// The background of a colour as terminals write it: `rgb:RRRR/GGGG/BBBB`, of one to four hex
    /// digits each; `None` if it is written otherwise.
    pub fn parse(colour: &str) -> Option<Self> {
        let colour = colour.strip_prefix("rgb:").or_else(|| {
            let (rgb, _alpha) = colour.strip_prefix("rgba:")?.rsplit_once('/')?;
            Some(rgb)
        })?;
        let share = |part: &str| {
            let most = 16_u32.checked_pow(u32::try_from(part.len()).ok()?)?.checked_sub(1)?;
            let value = u32::from_str_radix(part, 16).ok()?;
            (1..=4).contains(&part.len()).then(|| f64::from(value) / f64::from(most))
        };
        let mut parts = colour.split('/').map(share);
        let (red, green, blue) = (parts.next()??, parts.next()??, parts.next()??);
        let luminance = 0.299 * red + 0.587 * green + 0.114 * blue;
        parts.next().is_none().then_some(if luminance > 0.5 { Self::Light } else { Self::Dark })
    }
}

/// A terminal's reply to [`QUESTION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalReply {
    /// Its background, light or dark.
    Background(Background),
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
    /// Not at all; only their properties are shown. The string is the reason.
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

    /// The same with half blocks instead of pixels, for where something may be drawn on top.
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
enum WantedPicture {
    #[default]
    Auto,
    Off,
    Blocks,
    Kitty,
    Sixel,
    Iterm2,
}

/// Known features of the terminal, and the user's setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts of a terminal, each by itself")]
pub struct Support {
    wanted: WantedPicture,
    depth: ColorDepth,
    ascii: bool,
    /// The terminal is known not to place pictures where the text cursor is.
    no_placement: bool,
    iterm2: bool,
    /// A multiplexer runs between mcpdeck and the terminal.
    inner: bool,
    kitty: bool,
    sixel: bool,
    limits: SixelLimits,
    cell: Option<CellPixels>,
}

impl Support {
    /// Reads the setting and the environment variables of the terminal.
    pub fn from_env(get: impl Fn(&str) -> Option<String>, depth: ColorDepth, ascii: bool) -> Self {
        let is = |name: &str, words: &[&str]| {
            get(name).is_some_and(|value| words.iter().any(|word| value.contains(word)))
        };
        let wanted = match get(VARIABLE).unwrap_or_default().to_ascii_lowercase().as_str() {
            "off" | "none" | "0" => WantedPicture::Off,
            "blocks" | "halfblocks" => WantedPicture::Blocks,
            "kitty" => WantedPicture::Kitty,
            "sixel" => WantedPicture::Sixel,
            "iterm2" => WantedPicture::Iterm2,
            _ => WantedPicture::Auto,
        };
        // Inside a multiplexer, the outer terminal's variables do not tell what gets through.
        let inner = is("TERM", &["tmux", "screen"]) || get("TMUX").is_some();
        let wezterm = is("TERM_PROGRAM", &["WezTerm"]);
        let konsole = get("KONSOLE_VERSION").is_some();
        let speaks_iterm2 = is("TERM_PROGRAM", &["iTerm", "WezTerm", "mintty", "vscode", "rio"])
            || is("LC_TERMINAL", &["iTerm"]);
        Self {
            wanted,
            depth,
            ascii,
            no_placement: wezterm || konsole,
            iterm2: speaks_iterm2 && !inner,
            inner,
            ..Self::default()
        }
    }

    /// Sets the size of a cell as reported by the operating system.
    #[must_use]
    pub fn with_cell(mut self, cell: Option<CellPixels>) -> Self {
        self.cell = cell;
        self
    }

    /// Whether to query the terminal: not if the reply would change nothing, nor if the terminal
    /// may print the query. Nor on Windows, where replies arrive as if their characters had been
    /// typed.
    pub fn asks(&self, term: Option<&str>) -> bool {
        let simple = ["", "dumb", "linux", "cons25", "vt52", "ansi"];
        !cfg!(windows)
            && !matches!(self.wanted, WantedPicture::Off | WantedPicture::Blocks)
            && self.depth != ColorDepth::None
            && !self.ascii
            && !simple.contains(&term.unwrap_or_default())
    }

    /// The query to send.
    pub const fn question(&self) -> &'static [u8] {
        if self.inner { QUESTION_INSIDE } else { QUESTION }
    }

    /// Records a reply; returns whether it changes how pictures are drawn.
    pub fn answered(&mut self, reply: TerminalReply) -> bool {
        let before = self.graphics();
        match reply {
            // Pictures look the same on either.
            TerminalReply::Background(_) => {}
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
            WantedPicture::Off => Graphics::Off("pictures are turned off"),
            _ if self.depth == ColorDepth::None => Graphics::Off("there are no colours"),
            _ if self.ascii => Graphics::Off("there are only ASCII characters"),
            WantedPicture::Kitty => Graphics::Kitty(cell),
            WantedPicture::Sixel => Graphics::Sixel(cell, self.limits),
            WantedPicture::Iterm2 => Graphics::Iterm2(cell),
            WantedPicture::Auto if self.kitty && !self.no_placement => Graphics::Kitty(cell),
            WantedPicture::Auto if self.iterm2 => Graphics::Iterm2(cell),
            // Without the size of a cell, pixels would not fit the cells left free for them.
            WantedPicture::Auto if self.sixel && !self.no_placement && self.cell.is_some() => {
                Graphics::Sixel(cell, self.limits)
            }
            WantedPicture::Auto | WantedPicture::Blocks => Graphics::Blocks(self.depth, cell),
        }
    }
}

// Encodes pixels for the terminal: kitty, sixel, iTerm2. Pure; the output depends on the pixels
// alone and contains no text from a server.

/// Most bytes of base64 in one command of the kitty protocol.
const MAX_CHUNK_BYTES: usize = 4_096;

/// A picture as bytes for the terminal.
#[derive(Debug)]
pub struct Encoded {
    /// How the terminal treats it.
    pub manner: PictureProtocol,
    pub bytes: Vec<u8>,
}

/// How a terminal treats a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureProtocol {
    /// The terminal stores the picture under this id and shows any rows of it (kitty). The bytes
    /// are sent once; cells have this size.
    Kept(u32, CellPixels),
    /// The terminal paints the cells under the cursor, as with text (sixel, iTerm2). The bytes are
    /// sent every time.
    Painted,
}

/// Encodes `pixels` to fill `cells` (columns, rows); `None` if `how` draws no pixels or encoding
/// fails.
pub fn encode(pixels: &RgbaImage, how: Graphics, cells: (u16, u16)) -> Option<Encoded> {
    let painted = |bytes| Encoded { manner: PictureProtocol::Painted, bytes };
    match how {
        Graphics::Kitty(cell) => {
            let id = fastrand::u32(1..);
            Some(Encoded { manner: PictureProtocol::Kept(id, cell), bytes: kitty(id, pixels)? })
        }
        Graphics::Sixel(_, limits) => sixel::encode(pixels, limits.colours).map(painted),
        Graphics::Iterm2(_) => iterm2(pixels, cells).map(painted),
        Graphics::Off(_) | Graphics::Blocks(..) => None,
    }
}

fn png(pixels: &RgbaImage) -> Option<String> {
    let mut png = Vec::new();
    pixels.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).ok()?;
    Some(STANDARD.encode(png))
}

/// Transmits a picture without showing it. Replies are off (`q=2`): they would come as input.
fn kitty(id: u32, pixels: &RgbaImage) -> Option<Vec<u8>> {
    let data = png(pixels)?;
    let mut rest = data.as_str();
    let mut out = Vec::with_capacity(data.len() + data.len() / 200 + 64);
    let mut first = format!("a=t,f=100,t=d,i={id},");
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.len().min(MAX_CHUNK_BYTES));
        rest = after;
        let more = u8::from(!rest.is_empty());
        out.extend_from_slice(format!("\x1b_G{first}q=2,m={more};{chunk}\x1b\\").as_bytes());
        first.clear();
    }
    Some(out)
}

fn iterm2(pixels: &RgbaImage, (columns, rows): (u16, u16)) -> Option<Vec<u8>> {
    let data = png(pixels)?;
    // In cells, because terminals on high-density screens count pixels differently.
    let head = format!(
        "\x1b]1337;File=inline=1;width={columns};height={rows};preserveAspectRatio=0;\
         doNotMoveCursor=1:"
    );
    Some([head.as_bytes(), data.as_bytes(), b"\x07"].concat())
}

// Tracks which pictures are on the screen in pixels, and yields the bytes between two frames:
// removed pictures are erased before the cells are drawn, new ones placed after them. Nothing is
// written if nothing changed.

/// Most pictures stored in the terminal.
const MAX_STORED_PICTURES: usize = 8;

/// A picture, or some rows of it, on the screen.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Where.
    pub area: Rect,
    /// Rows of the picture above the first that is shown.
    pub skip: u16,
    pub picture: Arc<Encoded>,
}

impl PartialEq for Placement {
    fn eq(&self, other: &Self) -> bool {
        (self.area, self.skip) == (other.area, other.skip)
            && Arc::ptr_eq(&self.picture, &other.picture)
    }
}

impl Placement {
    fn number(&self) -> Option<u32> {
        match self.picture.manner {
            PictureProtocol::Kept(id, _) => Some(id),
            PictureProtocol::Painted => None,
        }
    }
}

/// The pictures that are on the screen.
#[derive(Debug, Default)]
pub struct Placed {
    now: Vec<Placement>,
    /// Ids of the pictures stored in the terminal, latest last.
    kept: Vec<u32>,
}

impl Placed {
    /// Bytes that remove the pictures not in `next`; to be written before the cells.
    pub fn take_away(&self, next: &[Placement]) -> Vec<u8> {
        let mut out = Vec::new();
        for old in self.now.iter().filter(|old| !next.contains(old)) {
            match old.number() {
                // A picture that only moves is placed anew in one step.
                Some(id) if next.iter().any(|new| new.number() == Some(id)) => {}
                Some(id) => out.extend(format!("\x1b_Ga=d,d=i,i={id},q=2\x1b\\").into_bytes()),
                None => out.extend(erased(old.area)),
            }
        }
        out
    }

    /// Bytes that place the new pictures of `next`; to be written after the cells.
    pub fn put(&mut self, next: Vec<Placement>) -> Vec<u8> {
        let mut out = Vec::new();
        for new in next.iter().filter(|new| !self.now.contains(new)) {
            let Rect { x, y, width, height } = new.area;
            let go = format!("\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1);
            let PictureProtocol::Kept(id, cell) = new.picture.manner else {
                out.extend_from_slice(go.as_bytes());
                out.extend_from_slice(&new.picture.bytes);
                continue;
            };
            if let Some(at) = self.kept.iter().position(|kept| *kept == id) {
                self.kept.remove(at);
            } else {
                out.extend_from_slice(&new.picture.bytes);
            }
            self.kept.push(id);
            let from = u32::from(new.skip) * u32::from(cell.height);
            let wide = u32::from(width) * u32::from(cell.width);
            let high = u32::from(height) * u32::from(cell.height);
            out.extend_from_slice(
                format!(
                    "{go}\x1b_Ga=p,i={id},p=1,x=0,y={from},w={wide},h={high},c={width},r={height},\
                     C=1,q=2\x1b\\"
                )
                .as_bytes(),
            );
        }
        self.now = next;
        while self.kept.len() > MAX_STORED_PICTURES.max(self.now.len()) {
            let id = self.kept.remove(0);
            out.extend_from_slice(format!("\x1b_Ga=d,d=I,i={id},q=2\x1b\\").as_bytes());
        }
        out
    }

    /// For when the screen was cleared or is released: bytes that make the terminal discard its
    /// stored pictures. The next [`Placed::put`] sends everything again.
    pub fn forget(&mut self) -> Vec<u8> {
        self.now.clear();
        let kept = std::mem::take(&mut self.kept);
        let forget = |id| format!("\x1b_Ga=d,d=I,i={id},q=2\x1b\\").into_bytes();
        kept.into_iter().flat_map(forget).collect()
    }
}

/// Erases cells and the pixels painted over them. Cells under a picture are blank in the buffer, so
/// a cell diff alone would leave old pixels where a new picture does not cover them.
fn erased(area: Rect) -> Vec<u8> {
    let mut out = b"\x1b[0m".to_vec();
    for y in area.top()..area.bottom() {
        let (y, x) = (u32::from(y) + 1, u32::from(area.x) + 1);
        out.extend_from_slice(format!("\x1b[{y};{x}H\x1b[{}X", area.width).as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn support(vars: &[(&str, &str)]) -> Support {
        let get = |name: &str| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        Support::from_env(get, ColorDepth::True, false)
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
        assert!(support(&[]).question().windows(3).any(|part| part == b"\x1b_G"));
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
        let plain = Support::from_env(|_| None, ColorDepth::None, false);
        let ascii = Support::from_env(|_| None, ColorDepth::True, true);
        for none in [plain, ascii] {
            assert!(matches!(none.graphics(), Graphics::Off(_)) && !none.asks(Some("xterm")));
        }
        assert!(!support(&[]).asks(Some("linux")) && !support(&[]).asks(None));
    }
}

#[cfg(test)]
mod encode_tests {
    use super::*;
    use crate::graphics::SixelLimits;

    fn pixels() -> RgbaImage {
        RgbaImage::from_fn(64, 40, |x, y| {
            image::Rgba([x as u8 * 4, y as u8 * 6, (x * y % 251) as u8, 255])
        })
    }

    #[test]
    fn kitty_is_sent_a_picture_once_in_pieces_it_takes_and_asked_for_no_answer() {
        let how = Graphics::Kitty(CellPixels::default());
        let encoded = encode(&pixels(), how, (8, 2)).unwrap();
        let PictureProtocol::Kept(id, _) = encoded.manner else { panic!("{:?}", encoded.manner) };
        let text = String::from_utf8(encoded.bytes).unwrap();
        assert!(text.starts_with(&format!("\x1b_Ga=t,f=100,t=d,i={id},q=2,m=1;")), "{text}");
        let pieces: Vec<&str> = text.split_terminator("\x1b\\").collect();
        assert!(pieces.len() > 1);
        let mut data = String::new();
        for (index, piece) in pieces.iter().enumerate() {
            let (keys, part) = piece.split_once(';').unwrap();
            let last = index + 1 == pieces.len();
            assert!(keys.contains("q=2") && keys.ends_with(if last { "m=0" } else { "m=1" }));
            assert!(part.len() <= MAX_CHUNK_BYTES && (last || part.len() % 4 == 0));
            data.push_str(part);
        }
        let back = image::load_from_memory(&STANDARD.decode(data).unwrap()).unwrap();
        assert_eq!(back.into_rgba8(), pixels());
    }

    #[test]
    fn sixel_uses_no_more_colours_than_the_terminal_has() {
        let colours = |most: u16| {
            let limits = SixelLimits { colours: most, ..SixelLimits::default() };
            let how = Graphics::Sixel(CellPixels::default(), limits);
            let encoded = encode(&pixels(), how, (8, 2)).unwrap();
            assert_eq!(encoded.manner, PictureProtocol::Painted);
            let text = String::from_utf8(encoded.bytes).unwrap();
            assert!(text.starts_with("\x1bP") && text.ends_with("\x1b\\"), "{text:?}");
            text.split('#').skip(1).filter(|part| part.contains(";2;")).count()
        };
        assert!((2..=16).contains(&colours(16)), "{}", colours(16));
        assert!((17..=256).contains(&colours(256)), "{}", colours(256));
    }

    #[test]
    fn iterm2_is_reported_the_cells_and_leaves_the_cursor() {
        let encoded = encode(&pixels(), Graphics::Iterm2(CellPixels::default()), (8, 2)).unwrap();
        let text = String::from_utf8(encoded.bytes).unwrap();
        assert!(text.starts_with("\x1b]1337;File=inline=1;width=8;height=2;"), "{text}");
        assert!(text.contains("doNotMoveCursor=1:") && text.ends_with('\x07'));
    }
}

#[cfg(test)]
mod placed_tests {
    use super::*;
    use crate::graphics::CellPixels;

    fn picture(manner: PictureProtocol) -> Arc<Encoded> {
        Arc::new(Encoded { manner, bytes: b"<picture>".to_vec() })
    }

    fn kept_picture(id: u32) -> Arc<Encoded> {
        picture(PictureProtocol::Kept(id, CellPixels { width: 10, height: 20 }))
    }

    fn at(picture: &Arc<Encoded>, y: u16, height: u16, skip: u16) -> Placement {
        Placement { area: Rect::new(2, y, 6, height), skip, picture: Arc::clone(picture) }
    }

    /// The bytes of one frame: before the cells, and after them.
    fn frame(placed: &mut Placed, next: &[Placement]) -> (String, String) {
        let before = placed.take_away(next);
        let after = placed.put(next.to_vec());
        (String::from_utf8(before).unwrap(), String::from_utf8(after).unwrap())
    }

    #[test]
    fn a_kept_picture_is_sent_once_moved_in_one_step_and_taken_away_at_last() {
        let mut placed = Placed::default();
        let chart = kept_picture(7);
        let put = "\x1b[5;3H\x1b_Ga=p,i=7,p=1,x=0,y=0,w=60,h=60,c=6,r=3,C=1,q=2\x1b\\";
        let shown = frame(&mut placed, &[at(&chart, 4, 3, 0)]);
        assert_eq!(shown, (String::new(), format!("<picture>{put}")));
        let same = frame(&mut placed, &[at(&chart, 4, 3, 0)]);
        assert_eq!(same, (String::new(), String::new()), "nothing moved");
        let scrolled = frame(&mut placed, &[at(&chart, 4, 2, 1)]);
        let cut = "\x1b[5;3H\x1b_Ga=p,i=7,p=1,x=0,y=20,w=60,h=40,c=6,r=2,C=1,q=2\x1b\\";
        assert_eq!(scrolled, (String::new(), cut.to_owned()));
        let gone = frame(&mut placed, &[]);
        assert_eq!(gone, ("\x1b_Ga=d,d=i,i=7,q=2\x1b\\".to_owned(), String::new()));
        let back = frame(&mut placed, &[at(&chart, 4, 3, 0)]);
        assert_eq!(back, (String::new(), put.to_owned()), "the terminal still has it");
    }

    #[test]
    fn a_painted_picture_is_erased_before_the_cells_and_painted_after_them() {
        let mut placed = Placed::default();
        let chart = picture(PictureProtocol::Painted);
        let shown = frame(&mut placed, &[at(&chart, 4, 2, 0)]);
        assert_eq!(shown, (String::new(), "\x1b[5;3H<picture>".to_owned()));
        let moved = frame(&mut placed, &[at(&chart, 3, 2, 0)]);
        let erased = "\x1b[0m\x1b[5;3H\x1b[6X\x1b[6;3H\x1b[6X";
        assert_eq!(moved, (erased.to_owned(), "\x1b[4;3H<picture>".to_owned()));
    }

    #[test]
    fn after_the_screen_was_cleared_everything_is_sent_again() {
        let mut placed = Placed::default();
        let chart = kept_picture(7);
        let first = frame(&mut placed, &[at(&chart, 4, 3, 0)]);
        assert_eq!(placed.forget(), b"\x1b_Ga=d,d=I,i=7,q=2\x1b\\");
        assert_eq!(frame(&mut placed, &[at(&chart, 4, 3, 0)]), first);
    }

    #[test]
    fn the_terminal_is_not_left_to_keep_every_picture_ever_shown() {
        let mut placed = Placed::default();
        for id in 1..=u32::try_from(MAX_STORED_PICTURES).unwrap() {
            assert!(!frame(&mut placed, &[at(&kept_picture(id), 0, 1, 0)]).1.contains("d=I"));
        }
        let (_, after) = frame(&mut placed, &[at(&kept_picture(99), 0, 1, 0)]);
        assert!(after.ends_with("\x1b_Ga=d,d=I,i=1,q=2\x1b\\"), "{after}");
    }
}
