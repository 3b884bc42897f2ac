//! Pictures: decoded within limits on another thread, drawn as the terminal can. Data that is too
//! large or no picture is described, not decoded (`limits.imagePixels`, `limits.imageBytes`).

use std::io::Cursor;

use base64::Engine as _;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, RgbaImage};
use ratatui::style::Color;

use super::rows::SharedText;
use crate::prelude::*;
use config::ContentLimits;
use terminal::graphics::{CellPixels, Encoded, Graphics, PictureProtocol, Placement};
use terminal::theme::ColorDepth;

/// Most pixels kept per side: more than half blocks can show.
const MAX_BLOCK_PIXELS: u32 = 640;
/// The same where the terminal draws pixels.
const MAX_SIDE_PIXELS: u32 = 1_600;
/// Smaller pictures are enlarged to this size, in pixels of the terminal.
const MIN_SIDE_PIXELS: f32 = 320.0;
/// The text in the cells of a picture drawn in pixels: blank, but unlike any text ever written
/// there, so that all these cells are redrawn once the picture is gone.
const FREE: &str = "\u{a0}";

/// Columns and rows.
type Cells = (u16, u16);

/// A picture of a result: recognised as one, decoded when it becomes visible.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its base64.
    pub text: SharedText,
    /// Width and height as sent, once known.
    pub size: Option<(u32, u32)>,
    pixels: Option<Arc<RgbaImage>>,
    /// Scaled to two pixels per cell for this many cells.
    small: Option<(Cells, Arc<RgbaImage>)>,
    drawn: Option<Drawn>,
}

/// The picture as encoded for the terminal.
#[derive(Clone, Debug)]
struct Drawn {
    how: Graphics,
    cells: Cells,
    /// Rows skipped at the top, and rows included.
    window: (u16, u16),
    picture: Arc<Encoded>,
}

impl Drawn {
    /// Whether it includes these rows for this protocol and size.
    fn has(&self, how: Graphics, cells: Cells, window: (u16, u16)) -> bool {
        let kept = matches!(self.picture.manner, PictureProtocol::Kept(..));
        self.how == how && self.cells == cells && (kept || self.window == window)
    }
}

/// A job on a picture, for another thread.
#[derive(Clone, Debug)]
pub struct PictureJob {
    /// Which block of the result it is.
    pub block: usize,
    picture: Picture,
    how: Graphics,
    limits: ContentLimits,
    /// The region it is fitted to.
    region: Cells,
    /// Rows above the visible ones, and the number of visible ones.
    window: (u16, u16),
}

impl PartialEq for PictureJob {
    fn eq(&self, other: &Self) -> bool {
        let of =
            |job: &Self| (job.block, job.picture.text.clone(), job.how, job.region, job.window);
        of(self) == of(other)
    }
}

/// The outcome of a [`PictureJob`].
#[derive(Clone, Debug)]
pub struct PictureDone {
    /// Which block of the result it is.
    pub block: usize,
    outcome: Result<Picture, String>,
}

impl PictureJob {
    /// Decodes, and encodes for the terminal. Bounded by the limits of this module; takes up to
    /// about a second for the largest picture.
    pub fn run(self) -> PictureDone {
        let block = self.block;
        PictureDone { block, outcome: self.work() }
    }

    /// The outcome for a job that could not be run.
    pub fn failed(block: usize) -> PictureDone {
        PictureDone { block, outcome: Err("it could not be decoded".to_owned()) }
    }

    fn work(self) -> Result<Picture, String> {
        let Self { mut picture, how, limits, region, window, .. } = self;
        let known = picture.size.zip(picture.pixels.take());
        let (size, pixels) = if let Some(known) = known {
            known
        } else {
            let keep = if how.has_pixels() { MAX_SIDE_PIXELS } else { MAX_BLOCK_PIXELS };
            let (size, pixels) = decode(picture.text.as_str(), keep, &limits)?;
            (size, Arc::new(pixels))
        };
        let cells = fitted(size, region, how);
        let small = resized(&pixels, u32::from(cells.0), u32::from(cells.1) * 2);
        picture.small = Some((cells, Arc::new(small)));
        // If encoding for the terminal fails, half blocks are still shown. The visible rows are
        // only known once the picture has its size.
        picture.drawn = picture.size.and_then(|_| drawn(&pixels, how, cells, window));
        (picture.size, picture.pixels) = (Some(size), Some(pixels));
        Ok(picture)
    }
}

/// Shrinks by averaging, so that thin lines survive; enlarges with hard edges.
fn resized(pixels: &RgbaImage, width: u32, height: u32) -> RgbaImage {
    let grows = width >= pixels.width() && height >= pixels.height();
    let filter = if grows { FilterType::Nearest } else { FilterType::Triangle };
    image::imageops::resize(pixels, width, height, filter)
}

/// The visible rows of a picture, encoded for a terminal that draws pixels.
fn drawn(pixels: &RgbaImage, how: Graphics, cells: Cells, window: (u16, u16)) -> Option<Drawn> {
    if !how.has_pixels() {
        return None;
    }
    let CellPixels { width, height } = how.cell();
    let (wide, cell_high) = (u32::from(cells.0) * u32::from(width), u32::from(height));
    let whole = resized(pixels, wide, u32::from(cells.1) * cell_high);
    // A stored picture is cropped by the terminal, a painted one is cropped here.
    let window = if matches!(how, Graphics::Kitty(_)) { (0, cells.1) } else { window };
    let (skip, rows) = (u32::from(window.0) * cell_high, u32::from(window.1) * cell_high);
    if rows == 0 || skip + rows > whole.height() {
        return None;
    }
    let seen = image::imageops::crop_imm(&whole, 0, skip, wide, rows).to_image();
    let picture = terminal::graphics::encode(&seen, how, (cells.0, window.1))?;
    Some(Drawn { how, cells, window, picture: Arc::new(picture) })
}

/// Cells a picture of this size takes within a region.
fn fitted((w, h): (u32, u32), region: Cells, how: Graphics) -> Cells {
    let cell = how.cell();
    let (w, h) = (w.max(1) as f32, h.max(1) as f32);
    let (cell_w, cell_h) = (f32::from(cell.width), f32::from(cell.height));
    let (mut wide, mut high) = (f32::from(region.0) * cell_w, f32::from(region.1) * cell_h);
    if let Graphics::Sixel(_, limits) = how {
        wide = wide.min(f32::from(limits.width) - cell_w).max(cell_w);
        high = high.min(f32::from(limits.height) - cell_h).max(cell_h);
    }
    let most = (MIN_SIDE_PIXELS / w.max(h)).max(4.0);
    let scale = (wide / w).min(high / h).min(most);
    (
        ((w * scale / cell_w).round() as u16).clamp(1, region.0.max(1)),
        ((h * scale / cell_h).round() as u16).clamp(1, region.1.max(1)),
    )
}

/// Decodes base64, ignoring blanks and line breaks.
pub(crate) fn bytes(encoded: &str) -> Result<Vec<u8>, String> {
    let decode = |text: &str| base64::engine::general_purpose::STANDARD.decode(text);
    let packed = || decode(&encoded.split_ascii_whitespace().collect::<String>());
    decode(encoded).or_else(|_| packed()).map_err(|error| format!("bad base64: {error}"))
}

/// Decodes a picture and shrinks it to at most `keep` pixels per side.
fn decode(
    encoded: &str,
    keep: u32,
    limits: &ContentLimits,
) -> Result<((u32, u32), RgbaImage), String> {
    // A picture is larger decoded than as base64.
    if encoded.len() as u64 > limits.image_bytes {
        return Err(format!("too large to show ({} encoded)", Bytes(encoded.len() as u64)));
    }
    let bytes = bytes(encoded)?;
    let reader =
        ImageReader::new(Cursor::new(&bytes)).with_guessed_format().map_err(|e| e.to_string())?;
    if reader.format().is_none() {
        let kind = super::content::kind(&bytes).unwrap_or("not a picture that is known here");
        return Err(format!("its data is {kind}"));
    }
    let mut decoder = reader.into_decoder().map_err(|e| e.to_string())?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > limits.image_pixels {
        return Err(format!("too large to show ({width} x {height} pixels)"));
    }
    let decoded = decoder.total_bytes();
    if decoded > limits.image_bytes {
        return Err(format!("too large to show ({} decoded)", Bytes(decoded)));
    }
    let mut bounds = Limits::default();
    bounds.max_alloc = Some(limits.image_bytes);
    decoder.set_limits(bounds).map_err(|e| e.to_string())?;
    // Decodes only the first frame of an animation.
    let image = DynamicImage::from_decoder(decoder).map_err(|e| e.to_string())?;
    let image = if width > keep || height > keep { image.thumbnail(keep, keep) } else { image };
    Ok(((width, height), image.into_rgba8()))
}

impl Picture {
    /// A picture that has not been examined yet.
    pub const fn new(text: SharedText) -> Self {
        Self { text, size: None, pixels: None, small: None, drawn: None }
    }

    /// Rows it takes when drawn in a region of these columns and rows; one while its size is
    /// unknown.
    pub fn rows(&self, region: (u16, u16), how: Graphics) -> u16 {
        self.cells(region, how).1
    }

    /// Cells it takes within a region.
    fn cells(&self, region: Cells, how: Graphics) -> Cells {
        self.size.map_or((1, 1), |size| fitted(size, region, how))
    }

    /// The job needed before these rows (those above, how many) can be drawn in a region; `None` if
    /// there is nothing to do.
    pub(super) fn job(
        &self,
        block: usize,
        region: Cells,
        window: (u16, u16),
        (how, limits): (Graphics, ContentLimits),
    ) -> Option<PictureJob> {
        if matches!(how, Graphics::Off(_)) {
            return None;
        }
        let cells = self.cells(region, how);
        let is_small = self.small.as_ref().is_some_and(|(of, _)| *of == cells);
        let is_drawn = self.drawn.as_ref().is_some_and(|drawn| drawn.has(how, cells, window));
        let is_done = self.pixels.is_some() && is_small && (!how.has_pixels() || is_drawn);
        (!is_done).then(|| PictureJob { block, picture: self.clone(), how, limits, region, window })
    }

    /// Takes the outcome of a job; the error is why it cannot be drawn at all.
    pub(super) fn take(&mut self, done: PictureDone) -> Result<(), String> {
        *self = done.outcome?;
        Ok(())
    }

    /// Whether it holds pixels in memory.
    pub(super) const fn is_decoded(&self) -> bool {
        self.pixels.is_some()
    }

    /// Frees the pixels; the size is kept, so that the layout does not change.
    pub(super) fn forget(&mut self) {
        (self.pixels, self.small, self.drawn) = (None, None, None);
    }

    /// Its placement in pixels when drawn into `area`, starting at its own row `skip`; `None` while
    /// it is drawn with half blocks.
    pub fn placement(
        &self,
        full: Cells,
        skip: u16,
        how: Graphics,
        area: Rect,
    ) -> Option<Placement> {
        let (columns, rows) = self.cells(full, how);
        let window = (skip, rows.saturating_sub(skip).min(area.height));
        let drawn = self.drawn.as_ref().filter(|drawn| drawn.has(how, (columns, rows), window))?;
        if window.1 == 0 || area.width < columns {
            return None;
        }
        let area = Rect { width: columns, height: window.1, ..area };
        Some(Placement { area, skip, picture: Arc::clone(&drawn.picture) })
    }

    /// Draws it into `area`, starting at its own row `skip`; `full` is the region it was fitted to.
    /// The cells of a picture in pixels are left free.
    pub fn draw(&self, full: Cells, skip: u16, how: Graphics, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if let Some(placement) = self.placement(full, skip, how, area) {
            for position in placement.area.positions() {
                buf[position].set_symbol(FREE);
            }
            return;
        }
        let depth = match how {
            Graphics::Blocks(depth, _) => depth,
            _ => ColorDepth::True,
        };
        let cells = self.cells(full, how);
        let (columns, rows) = cells;
        // Until it is scaled for these cells, the full picture serves as a preview.
        let small = self.small.as_ref().filter(|(of, _)| *of == cells).map(|(_, small)| small);
        let Some(pixels) = small.or(self.pixels.as_ref()) else { return };
        let (wide, high) = pixels.dimensions();
        if wide == 0 || high == 0 {
            return;
        }
        let sample = |x: u16, half: u32| {
            let px = u32::from(x) * wide / u32::from(columns.max(1));
            let py = half * high / (u32::from(rows.max(1)) * 2);
            let [r, g, b, a] = pixels.get_pixel(px.min(wide - 1), py.min(high - 1)).0;
            (a >= 128).then_some(Color::Rgb(r, g, b))
        };
        for row in 0..area.height.min(rows.saturating_sub(skip)) {
            for x in 0..columns.min(area.width) {
                let half = u32::from(row + skip) * 2;
                // Transparent pixels show the terminal's background, light or dark.
                let (symbol, style) = match (sample(x, half), sample(x, half + 1)) {
                    (Some(upper), Some(lower)) => ("▀", Style::new().fg(upper).bg(lower)),
                    (Some(upper), None) => ("▀", Style::new().fg(upper)),
                    (None, Some(lower)) => ("▄", Style::new().fg(lower)),
                    (None, None) => (" ", Style::new()),
                };
                buf[(area.x + x, area.y + row)].set_symbol(symbol).set_style(depth.adapt(style));
            }
        }
    }
}
