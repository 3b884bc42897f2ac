//! Pictures: decoded within limits, drawn with half blocks on any terminal with colours. What is
//! too large or no picture at all is said, never decoded (limits: 4 megapixels, 64 MB).

use std::io::Cursor;
use std::sync::Arc;

use base64::Engine as _;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, RgbaImage};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;

/// Most pixels that are decoded.
pub(super) const MAX_PIXELS: u64 = 4_000_000;
const MAX_ALLOCATION: u64 = 64 << 20;
/// Most base64 text that is looked at; a picture of 4 megapixels takes far less.
const MAX_ENCODED: usize = 48 << 20;
/// Pictures are kept this large at most: more than any terminal shows.
const KEPT: u32 = 640;

/// A decoded picture, shrunk to what a terminal can show.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Width and height as sent.
    pub size: (u32, u32),
    pixels: Arc<RgbaImage>,
}

/// Decodes base64; blanks and line breaks are let through.
pub(super) fn bytes(encoded: &str) -> Result<Vec<u8>, String> {
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

/// Decodes a picture of a result.
pub(super) fn decode(encoded: &str) -> Result<Picture, String> {
    if encoded.len() > MAX_ENCODED {
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
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(format!("too large to show ({width} x {height} pixels)"));
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_ALLOCATION);
    decoder.set_limits(limits).map_err(|e| e.to_string())?;
    // Of an animation this decodes the first frame alone.
    let image = DynamicImage::from_decoder(decoder).map_err(|e| e.to_string())?;
    let image = if width > KEPT || height > KEPT { image.thumbnail(KEPT, KEPT) } else { image };
    Ok(Picture { size: (width, height), pixels: Arc::new(image.into_rgba8()) })
}

impl Picture {
    /// Rows it takes when drawn in `width` cells and at most `height` rows.
    pub fn rows(&self, width: u16, height: u16) -> u16 {
        self.fit(width, height).1
    }

    /// Cells it takes within `width` x `height`; a cell is two pixels high.
    fn fit(&self, width: u16, height: u16) -> (u16, u16) {
        let (w, h) = self.pixels.dimensions();
        let (w, h) = (w.max(1) as f32, h.max(1) as f32);
        let scale = (f32::from(width) / w).min(f32::from(height) * 2.0 / h).min(4.0);
        (
            ((w * scale) as u16).clamp(1, width.max(1)),
            ((h * scale / 2.0).ceil() as u16).clamp(1, height.max(1)),
        )
    }

    /// Draws it into `area`, from row `skip` of its own on.
    pub fn draw(&self, full: (u16, u16), skip: u16, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        let (columns, rows) = self.fit(full.0, full.1);
        let (wide, high) = self.pixels.dimensions();
        let sample = |x: u16, half: u32| {
            let px = u32::from(x) * wide / u32::from(columns.max(1));
            let py = half * high / (u32::from(rows.max(1)) * 2);
            let [r, g, b, a] = self
                .pixels
                .get_pixel(px.min(wide.saturating_sub(1)), py.min(high.saturating_sub(1)))
                .0;
            let over = |c: u8| ((u16::from(c) * u16::from(a)) / 255) as u8;
            Color::Rgb(over(r), over(g), over(b))
        };
        if wide == 0 || high == 0 {
            return;
        }
        for row in 0..area.height.min(rows.saturating_sub(skip)) {
            for x in 0..columns.min(area.width) {
                let half = u32::from(row + skip) * 2;
                buf[(area.x + x, area.y + row)]
                    .set_symbol("▀")
                    .set_fg(sample(x, half))
                    .set_bg(sample(x, half + 1));
            }
        }
    }
}
