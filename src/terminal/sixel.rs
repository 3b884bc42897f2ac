//! Encodes a picture as sixels: six rows of pixels to a line of text, one colour of a palette at a
//! time (DEC STD 070, chapter 9). Pure.
//!
//! Written here because the crate for it (`icy_sixel`) brought a colour science library and its
//! fifteen packages for one picture format; a median cut and an ordered dither are as good on a
//! picture of a few hundred pixels.

use image::RgbaImage;

/// Most colours a picture is drawn with.
const MAX_COLOURS: u16 = 256;
/// Rows of pixels in one line of sixels.
const BAND_ROWS: u32 = 6;
/// Pixels at least as opaque as this are drawn.
const MIN_ALPHA: u8 = 128;
/// Shortest run of equal sixels that is shorter when written as a repeat (`!4x`).
const MIN_REPEAT_SIXELS: usize = 4;

/// How much an ordered dither moves a pixel, by its place in a square of 4 by 4 (Bayer).
const DITHER: [[i32; 4]; 4] = [[-8, 0, -6, 2], [4, -4, 6, -2], [-5, 3, -7, 1], [7, -1, 5, -3]];

/// `pixels` as one sixel sequence with at most this many colours; what is transparent stays as it
/// is. `None` for a picture without pixels.
pub fn encode(pixels: &RgbaImage, colours: u16) -> Option<Vec<u8>> {
    let (width, height) = pixels.dimensions();
    if width == 0 || height == 0 {
        return None;
    }
    let palette = SixelPalette::from_pixels(pixels, colours.clamp(2, MAX_COLOURS));
    // 1: what is not drawn keeps its colour. The raster attributes tell the size in advance.
    let mut out = format!("\x1bP0;1q\"1;1;{width};{height}").into_bytes();
    for (index, [r, g, b]) in palette.colours.iter().enumerate() {
        let percent = |value: u8| (u32::from(value) * 100 + 127) / 255;
        let colour = format!("#{index};2;{};{};{}", percent(*r), percent(*g), percent(*b));
        out.extend_from_slice(colour.as_bytes());
    }
    for top in (0..height).step_by(BAND_ROWS as usize) {
        // Not after the last line: a terminal might scroll.
        if top > 0 {
            out.push(b'-');
        }
        Band::new(pixels, top, &palette).write(&mut out);
    }
    out.extend_from_slice(b"\x1b\\");
    Some(out)
}

/// Colours, and the nearest of them for each colour of a coarse cube.
struct SixelPalette {
    colours: Vec<[u8; 3]>,
    nearest: Vec<u8>,
}

/// Bits of each channel by which colours are counted and looked up.
const CHANNEL_BITS: u32 = 5;
/// Cells of the cube of coarse colours.
const CUBE_CELLS: usize = 1 << (3 * CHANNEL_BITS);

/// The cell of a colour in the cube.
fn cell([r, g, b]: [u8; 3]) -> usize {
    let coarse = |value: u8| usize::from(value >> (8 - CHANNEL_BITS));
    (coarse(r) << (2 * CHANNEL_BITS)) | (coarse(g) << CHANNEL_BITS) | coarse(b)
}

/// The coarse channels of a cell.
fn channels(cell: usize) -> [usize; 3] {
    let mask = (1 << CHANNEL_BITS) - 1;
    [(cell >> (2 * CHANNEL_BITS)) & mask, (cell >> CHANNEL_BITS) & mask, cell & mask]
}

impl SixelPalette {
    /// At most `most` colours for a picture, by median cut.
    fn from_pixels(pixels: &RgbaImage, most: u16) -> Self {
        let mut counts = vec![0_u32; CUBE_CELLS];
        let mut sums = vec![[0_u64; 3]; CUBE_CELLS];
        for pixel in pixels.pixels().filter(|pixel| pixel.0[3] >= MIN_ALPHA) {
            let [r, g, b, _] = pixel.0;
            let at = cell([r, g, b]);
            counts[at] += 1;
            for (sum, value) in sums[at].iter_mut().zip([r, g, b]) {
                *sum += u64::from(value);
            }
        }
        let used: Vec<usize> = (0..CUBE_CELLS).filter(|at| counts[*at] > 0).collect();
        let mut boxes = vec![used];
        while boxes.len() < usize::from(most) {
            let spread = |cells: &Vec<usize>| {
                let (channel, length) = longest_side(cells);
                let weight: u64 = cells.iter().map(|at| u64::from(counts[*at])).sum();
                (length as u64 * weight.isqrt(), channel)
            };
            let widest = boxes.iter().enumerate().map(|(at, cells)| (spread(cells), at)).max();
            let Some(((1.., channel), at)) = widest else { break };
            let mut cells = boxes.swap_remove(at);
            cells.sort_by_key(|at| channels(*at)[channel]);
            let half: u64 = cells.iter().map(|at| u64::from(counts[*at])).sum::<u64>() / 2;
            let mut before = 0;
            let middle = cells.iter().position(|at| {
                before += u64::from(counts[*at]);
                before > half
            });
            let upper = cells.split_off(middle.unwrap_or_default().clamp(1, cells.len() - 1));
            boxes.extend([cells, upper]);
        }
        let mean = |cells: &Vec<usize>| {
            let count: u64 = cells.iter().map(|at| u64::from(counts[*at])).sum();
            [0, 1, 2].map(|channel| {
                let sum: u64 = cells.iter().map(|at| sums[*at][channel]).sum();
                (sum / count.max(1)) as u8
            })
        };
        let colours: Vec<[u8; 3]> = boxes.iter().map(mean).collect();
        let nearest = (0..CUBE_CELLS).map(|at| nearest_colour(&colours, at)).collect();
        Self { colours, nearest }
    }

    /// The index of the colour of a pixel at this place, dithered; `None` when it is transparent.
    fn index(&self, pixels: &RgbaImage, column: u32, row: u32) -> Option<u8> {
        let [r, g, b, alpha] = pixels.get_pixel(column, row).0;
        if alpha < MIN_ALPHA {
            return None;
        }
        let moved = DITHER[row as usize % 4][column as usize % 4];
        let near = |value: u8| (i32::from(value) + moved).clamp(0, 255) as u8;
        Some(self.nearest[cell([near(r), near(g), near(b)])])
    }
}

/// The channel in which these cells differ most, and by how much.
fn longest_side(cells: &[usize]) -> (usize, usize) {
    let side = |channel: usize| {
        let values = || cells.iter().map(|at| channels(*at)[channel]);
        values().max().unwrap_or_default() - values().min().unwrap_or_default()
    };
    let sides = [0, 1, 2].map(|channel| (side(channel), channel));
    let (length, channel) = sides.into_iter().max().unwrap_or_default();
    (channel, length)
}

/// The colour nearest to the middle of a cell.
fn nearest_colour(colours: &[[u8; 3]], at: usize) -> u8 {
    let middle = channels(at).map(|value| (value << (8 - CHANNEL_BITS)) as i32 + 4);
    let distance = |colour: &[u8; 3]| -> i32 {
        colour.iter().zip(middle).map(|(a, b)| (i32::from(*a) - b).pow(2)).sum()
    };
    let nearest = colours.iter().enumerate().min_by_key(|(_, colour)| distance(colour));
    nearest.map_or(0, |(index, _)| index as u8)
}

/// Six rows of pixels as sixels of each colour.
struct Band {
    /// By colour: the bits of each column, from the top row on.
    columns: Vec<Option<Vec<u8>>>,
}

impl Band {
    fn new(pixels: &RgbaImage, top: u32, palette: &SixelPalette) -> Self {
        let (width, height) = pixels.dimensions();
        let mut columns = vec![None; palette.colours.len()];
        for y in top..height.min(top + BAND_ROWS) {
            for x in 0..width {
                if let Some(colour) = palette.index(pixels, x, y) {
                    let row = columns[usize::from(colour)]
                        .get_or_insert_with(|| vec![0_u8; width as usize]);
                    row[x as usize] |= 1 << (y - top);
                }
            }
        }
        Self { columns }
    }

    /// Writes the sixels of each colour over the same line.
    fn write(&self, out: &mut Vec<u8>) {
        let mut is_first = true;
        for (index, columns) in self.columns.iter().enumerate() {
            let Some(columns) = columns else { continue };
            if !std::mem::take(&mut is_first) {
                out.push(b'$');
            }
            out.extend_from_slice(format!("#{index}").as_bytes());
            for run in columns.chunk_by(|a, b| a == b) {
                let sixel = b'?' + run[0];
                if run.len() >= MIN_REPEAT_SIXELS {
                    out.extend_from_slice(format!("!{}", run.len()).as_bytes());
                    out.push(sixel);
                } else {
                    out.extend(run.iter().map(|_| sixel));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use image::Rgba;

    use super::*;

    /// What a terminal draws: a colour in percent for each pixel that is drawn.
    fn decoded(bytes: &[u8]) -> (usize, usize, Vec<Option<[u32; 3]>>) {
        let text = std::str::from_utf8(bytes).unwrap();
        let text = text.strip_prefix("\x1bP0;1q\"1;1;").unwrap().strip_suffix("\x1b\\").unwrap();
        let end = text.find('#').unwrap_or(text.len());
        let (width, height) = text[..end].trim_end_matches('-').split_once(';').unwrap();
        let (width, height): (usize, usize) = (width.parse().unwrap(), height.parse().unwrap());
        let mut drawn = vec![None; width * height];
        let mut palette = std::collections::BTreeMap::new();
        let (mut colour, mut x, mut top) = (0, 0, 0);
        let mut rest = &text[end..];
        while let Some(c) = rest.chars().next() {
            rest = &rest[1..];
            let number = |rest: &mut &str| {
                let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let (number, after) = rest.split_at(digits);
                *rest = after;
                number.parse::<usize>().unwrap()
            };
            let mut times = 1;
            let sixel = match c {
                '#' => {
                    colour = number(&mut rest);
                    if let Some(after) = rest.strip_prefix(";2;") {
                        rest = after;
                        let mut part = || {
                            let value = number(&mut rest) as u32;
                            rest = rest.strip_prefix(';').unwrap_or(rest);
                            value
                        };
                        palette.insert(colour, [part(), part(), part()]);
                    }
                    continue;
                }
                '$' => {
                    x = 0;
                    continue;
                }
                '-' => {
                    (x, top) = (0, top + 6);
                    continue;
                }
                '!' => {
                    times = number(&mut rest);
                    let sixel = rest.chars().next().unwrap();
                    rest = &rest[1..];
                    sixel
                }
                sixel => sixel,
            };
            let bits = sixel as u8 - b'?';
            for _ in 0..times {
                for row in (0..6).filter(|row| bits >> row & 1 == 1) {
                    assert!(drawn[(top + row) * width + x].is_none(), "drawn once");
                    drawn[(top + row) * width + x] = Some(palette[&colour]);
                }
                x += 1;
            }
        }
        (width, height, drawn)
    }

    #[test]
    fn a_terminal_draws_the_colours_of_the_picture_where_it_has_any() {
        // Two halves and a hole, 13 rows: three lines of sixels, the last one not full.
        let pixels = RgbaImage::from_fn(9, 13, |x, y| match (x, y) {
            (4, 4) => Rgba([9, 9, 9, 0]),
            (0..5, _) => Rgba([255, 0, 0, 255]),
            _ => Rgba([0, 0, 255, 255]),
        });
        let (width, height, drawn) = decoded(&encode(&pixels, 16).unwrap());
        assert_eq!((width, height), (9, 13));
        for (at, colour) in drawn.iter().enumerate() {
            let wanted = match (at % 9, at / 9) {
                (4, 4) => None,
                (0..5, _) => Some([100, 0, 0]),
                _ => Some([0, 0, 100]),
            };
            assert_eq!(*colour, wanted, "pixel {at}");
        }
    }

    #[test]
    fn a_gradient_stays_near_its_colours_and_within_those_allowed() {
        let pixels = RgbaImage::from_fn(64, 40, |x, y| Rgba([x as u8 * 4, y as u8 * 6, 128, 255]));
        for (most, off) in [(16, 60), (256, 24)] {
            let (_, _, drawn) = decoded(&encode(&pixels, most).unwrap());
            let used: std::collections::BTreeSet<_> = drawn.iter().collect();
            assert!(used.len() <= usize::from(most) && used.len() > usize::from(most) / 4);
            for (pixel, colour) in pixels.pixels().zip(&drawn) {
                for (value, percent) in pixel.0.iter().zip(colour.unwrap()) {
                    let drawn = percent * 255 / 100;
                    assert!(u32::from(*value).abs_diff(drawn) <= off, "{pixel:?} {colour:?}");
                }
            }
        }
    }

    #[test]
    fn a_picture_without_pixels_or_without_colour_is_no_mistake() {
        assert_eq!(encode(&RgbaImage::new(0, 3), 16), None);
        let (_, _, drawn) = decoded(&encode(&RgbaImage::new(3, 3), 16).unwrap());
        assert!(drawn.iter().all(Option::is_none));
    }
}
