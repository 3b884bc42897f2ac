//! Pictures: decoded within limits on another thread, drawn as the terminal can. What is too large
//! or no picture at all is said, never decoded (`limits.imagePixels`, `limits.imageBytes`).

use std::io::Cursor;
use std::sync::Arc;

use base64::Engine as _;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, RgbaImage};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::style::{Color, Style};
use ratatui::widgets::Widget as _;
use ratatui_image::protocol::{Protocol, iterm2::Iterm2, kitty::Kitty, sixel::Sixel};

use super::rows::Shared;
use crate::config::ContentLimits;
use crate::tui::graphics::{CellPixels, Graphics};
use crate::tui::theme::ColorDepth;

/// Pictures are kept this large at most: more than half blocks show.
const KEPT: u32 = 640;
/// The same where the terminal draws pixels.
const KEPT_PIXELS: u32 = 1_600;

/// A picture of a result: known to be one, decoded when it is looked at.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its base64.
    pub text: Shared,
    /// Width and height as sent, once known.
    pub size: Option<(u32, u32)>,
    pixels: Option<Arc<RgbaImage>>,
    drawn: Option<Drawn>,
}

/// The picture as the terminal wants it, for a region.
#[derive(Clone)]
struct Drawn {
    how: Graphics,
    cells: (u16, u16),
    protocol: Arc<Protocol>,
}

impl std::fmt::Debug for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.how, self.cells)
    }
}

/// Work on a picture, for another thread.
#[derive(Clone, Debug)]
pub struct PictureJob {
    /// Which block of the result it is.
    pub block: usize,
    text: Shared,
    pixels: Option<Arc<RgbaImage>>,
    how: Graphics,
    limits: ContentLimits,
    cells: Option<(u16, u16)>,
}

impl PartialEq for PictureJob {
    fn eq(&self, other: &Self) -> bool {
        (self.block, &self.text, self.how, self.cells)
            == (other.block, &other.text, other.how, other.cells)
    }
}

/// What came of a [`PictureJob`].
#[derive(Clone, Debug)]
pub struct PictureDone {
    /// Which block of the result it is.
    pub block: usize,
    outcome: Result<Ready, String>,
}

#[derive(Clone, Debug)]
struct Ready {
    size: Option<(u32, u32)>,
    pixels: Arc<RgbaImage>,
    drawn: Option<Drawn>,
}

impl PictureJob {
    /// Decodes, and encodes for the terminal. Bounded by the limits of this module; takes up to
    /// about a second for the largest picture.
    pub fn run(self) -> PictureDone {
        let block = self.block;
        PictureDone { block, outcome: self.work() }
    }

    /// What stands for a job that could not be run.
    pub fn failed(block: usize) -> PictureDone {
        PictureDone { block, outcome: Err("it could not be decoded".to_owned()) }
    }

    fn work(self) -> Result<Ready, String> {
        let (size, pixels) = if let Some(pixels) = self.pixels {
            (None, pixels)
        } else {
            let keep = if self.how.has_pixels() { KEPT_PIXELS } else { KEPT };
            let (size, pixels) = decode(self.text.as_str(), keep, &self.limits)?;
            (Some(size), Arc::new(pixels))
        };
        // A terminal that is only spoken to wrongly still shows half blocks.
        let drawn = self.cells.and_then(|cells| encode(&pixels, self.how, cells).ok());
        Ok(Ready { size, pixels, drawn })
    }
}

/// Decodes base64; blanks and line breaks are let through.
pub(in crate::tui) fn bytes(encoded: &str) -> Result<Vec<u8>, String> {
    let decode = |text: &str| base64::engine::general_purpose::STANDARD.decode(text);
    decode(encoded)
        .or_else(|error| {
            if encoded.bytes().any(|b| b.is_ascii_whitespace()) {
                let packed: String = encoded.split_ascii_whitespace().collect();
                return decode(&packed);
            }
            Err(error)
        })
        .map_err(|error| format!("bad base64: {error}"))
}

/// Decodes a picture; at most `keep` pixels wide and high stay of it.
fn decode(
    encoded: &str,
    keep: u32,
    limits: &ContentLimits,
) -> Result<((u32, u32), RgbaImage), String> {
    // A picture takes more decoded than it does as base64.
    if encoded.len() as u64 > limits.image_bytes {
        return Err(format!("too large to show ({} MB encoded)", encoded.len() >> 20));
    }
    let bytes = bytes(encoded)?;
    let reader =
        ImageReader::new(Cursor::new(&bytes)).with_guessed_format().map_err(|e| e.to_string())?;
    if reader.format().is_none() {
        let kind = super::hex::kind(&bytes).unwrap_or("not a picture that is known here");
        return Err(format!("its data is {kind}"));
    }
    let mut decoder = reader.into_decoder().map_err(|e| e.to_string())?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > limits.image_pixels {
        return Err(format!("too large to show ({width} x {height} pixels)"));
    }
    let decoded = decoder.total_bytes();
    if decoded > limits.image_bytes {
        return Err(format!("too large to show ({} MB decoded)", decoded >> 20));
    }
    let mut bounds = Limits::default();
    bounds.max_alloc = Some(limits.image_bytes);
    decoder.set_limits(bounds).map_err(|e| e.to_string())?;
    // Of an animation this decodes the first frame alone.
    let image = DynamicImage::from_decoder(decoder).map_err(|e| e.to_string())?;
    let image = if width > keep || height > keep { image.thumbnail(keep, keep) } else { image };
    Ok(((width, height), image.into_rgba8()))
}

/// The sequence that draws `pixels` over `cells`. It is made of the pixels alone: nothing a server
/// wrote is in it.
fn encode(
    pixels: &RgbaImage,
    how: Graphics,
    (columns, rows): (u16, u16),
) -> Result<Drawn, ratatui_image::errors::Errors> {
    let CellPixels { width, height } = how.cell();
    let (wide, high) = (u32::from(columns) * u32::from(width), u32::from(rows) * u32::from(height));
    let scaled = image::imageops::resize(pixels, wide, high, FilterType::Triangle);
    let (scaled, size) = (DynamicImage::ImageRgba8(scaled), Size::new(columns, rows));
    let protocol = match how {
        Graphics::Kitty(_) => {
            Protocol::Kitty(Kitty::new(scaled, size, fastrand::u32(1..), false, false)?)
        }
        Graphics::Sixel(_) => Protocol::Sixel(Sixel::new(scaled, size, false)?),
        Graphics::Iterm2(_) => Protocol::ITerm2(Iterm2::new(scaled, size, false)?),
        Graphics::Blocks(..) | Graphics::Off(_) => {
            return Err(ratatui_image::errors::Errors::NoCap);
        }
    };
    Ok(Drawn { how, cells: (columns, rows), protocol: Arc::new(protocol) })
}

impl Picture {
    /// A picture that was not looked at yet.
    pub const fn new(text: Shared) -> Self {
        Self { text, size: None, pixels: None, drawn: None }
    }

    /// Rows it takes when drawn in `width` cells and at most `height` rows; one while its size is
    /// not known.
    pub fn rows(&self, width: u16, height: u16, how: Graphics) -> u16 {
        self.cells(width, height, how).1
    }

    /// Cells it takes within `width` x `height`.
    fn cells(&self, width: u16, height: u16, how: Graphics) -> (u16, u16) {
        let Some((w, h)) = self.size else { return (1, 1) };
        let cell = how.cell();
        let (w, h) = (w.max(1) as f32, h.max(1) as f32);
        let (cell_w, cell_h) = (f32::from(cell.width), f32::from(cell.height));
        // Small pictures are shown up to four cells a pixel, never wider than the region.
        let most = 4.0 * cell_w;
        let scale = (f32::from(width) * cell_w / w).min(f32::from(height) * cell_h / h).min(most);
        (
            ((w * scale / cell_w).round() as u16).clamp(1, width.max(1)),
            ((h * scale / cell_h).ceil() as u16).clamp(1, height.max(1)),
        )
    }

    /// What is to be done elsewhere before it can be drawn in this region.
    pub(super) fn job(
        &self,
        block: usize,
        (width, height): (u16, u16),
        (how, limits): (Graphics, ContentLimits),
    ) -> Option<PictureJob> {
        if matches!(how, Graphics::Off(_)) {
            return None;
        }
        let cells = self.cells(width, height, how);
        let fits = |drawn: &Drawn| drawn.how == how && drawn.cells == cells;
        let wants_pixels = how.has_pixels() && self.size.is_some();
        let is_done = self.pixels.is_some()
            && (!how.has_pixels() || (wants_pixels && self.drawn.as_ref().is_some_and(fits)));
        (!is_done).then(|| PictureJob {
            block,
            text: self.text.clone(),
            pixels: self.pixels.clone(),
            how,
            limits,
            cells: wants_pixels.then_some(cells),
        })
    }

    /// Takes what was done; a reason when it cannot be drawn at all.
    pub(super) fn take(&mut self, done: PictureDone) -> Result<(), String> {
        let ready = done.outcome?;
        self.size = ready.size.or(self.size);
        self.pixels = Some(ready.pixels);
        self.drawn = ready.drawn;
        Ok(())
    }

    /// Whether it holds pixels in memory.
    pub(super) const fn is_decoded(&self) -> bool {
        self.pixels.is_some()
    }

    /// Lets the pixels go; its size stays known, so that nothing moves.
    pub(super) fn forget(&mut self) {
        self.pixels = None;
        self.drawn = None;
    }

    /// What the terminal keeps of it is gone: it is sent again.
    pub(super) fn send_again(&mut self) {
        self.drawn = None;
    }

    /// Draws it into `area`, from row `skip` of its own on; `full` is the region it was fitted to.
    pub fn draw(&self, full: (u16, u16), skip: u16, how: Graphics, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        let (columns, rows) = self.cells(full.0, full.1, how);
        let whole = skip == 0 && area.height >= rows && area.width >= columns;
        // Pixels are drawn whole or not at all: part of a picture is half blocks.
        let fits = |drawn: &&Drawn| drawn.how == how && drawn.cells == (columns, rows);
        if let Some(drawn) = self.drawn.as_ref().filter(|drawn| whole && fits(drawn)) {
            let area = Rect { width: columns, height: rows, ..area };
            return ratatui_image::Image::new(&drawn.protocol).render(area, buf);
        }
        let depth = match how {
            Graphics::Blocks(depth, _) => depth,
            _ => ColorDepth::True,
        };
        self.draw_blocks((columns, rows), skip, depth, area, buf);
    }

    fn draw_blocks(
        &self,
        (columns, rows): (u16, u16),
        skip: u16,
        depth: ColorDepth,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let Some(pixels) = self.pixels.as_deref() else { return };
        let (wide, high) = pixels.dimensions();
        if wide == 0 || high == 0 {
            return;
        }
        let sample = |x: u16, half: u32| {
            let px = u32::from(x) * wide / u32::from(columns.max(1));
            let py = half * high / (u32::from(rows.max(1)) * 2);
            let [r, g, b, a] = pixels.get_pixel(px.min(wide - 1), py.min(high - 1)).0;
            let over = |c: u8| ((u16::from(c) * u16::from(a)) / 255) as u8;
            Color::Rgb(over(r), over(g), over(b))
        };
        for row in 0..area.height.min(rows.saturating_sub(skip)) {
            for x in 0..columns.min(area.width) {
                let half = u32::from(row + skip) * 2;
                let style = Style::new().fg(sample(x, half)).bg(sample(x, half + 1));
                buf[(area.x + x, area.y + row)].set_symbol("▀").set_style(depth.adapt(style));
            }
        }
    }
}
