//! Draws a route as a small PNG: coast-less, but with a graticule, the great circle and the
//! airports. Encodes with stored deflate blocks, which need no compression library.

use std::io::Write as _;

use crate::demo::geo::{self, Airport};

const WIDTH: usize = 256;
const HEIGHT: usize = 128;
/// Sea, graticule, other airports, route, ends of the route.
const PALETTE: [[u8; 3]; 5] =
    [[16, 32, 52], [38, 62, 88], [120, 140, 160], [250, 180, 60], [255, 255, 255]];

/// A chart of a route as PNG.
pub(crate) fn route(stops: &[&Airport]) -> Vec<u8> {
    let mut pixels = vec![0_u8; WIDTH * HEIGHT];
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            if x % 21 == 0 || y % 21 == 1 {
                pixels[y * WIDTH + x] = 1;
            }
        }
    }
    for airport in &geo::AIRPORTS {
        dot(&mut pixels, place(airport.latitude, airport.longitude), 1, 2);
    }
    for leg in stops.windows(2) {
        for step in 0..=600 {
            let (latitude, longitude) = geo::along(leg[0], leg[1], f64::from(step) / 600.0);
            dot(&mut pixels, place(latitude, longitude), 0, 3);
        }
    }
    for stop in stops {
        dot(&mut pixels, place(stop.latitude, stop.longitude), 2, 4);
    }
    png(&pixels)
}

fn place(latitude: f64, longitude: f64) -> (usize, usize) {
    let x = (longitude + 180.0) / 360.0 * (WIDTH - 1) as f64;
    let y = (90.0 - latitude) / 180.0 * (HEIGHT - 1) as f64;
    (x.round() as usize, y.round() as usize)
}

fn dot(pixels: &mut [u8], (x, y): (usize, usize), radius: usize, colour: u8) {
    for row in y.saturating_sub(radius)..=(y + radius).min(HEIGHT - 1) {
        for column in x.saturating_sub(radius)..=(x + radius).min(WIDTH - 1) {
            pixels[row * WIDTH + column] = colour;
        }
    }
}

/// PNG (ISO/IEC 15948) with a palette, eight bits a pixel.
fn png(pixels: &[u8]) -> Vec<u8> {
    let mut rows = Vec::with_capacity(pixels.len() + HEIGHT);
    for row in pixels.chunks(WIDTH) {
        rows.push(0);
        rows.extend_from_slice(row);
    }
    let mut header = Vec::new();
    header.extend_from_slice(&(WIDTH as u32).to_be_bytes());
    header.extend_from_slice(&(HEIGHT as u32).to_be_bytes());
    header.extend_from_slice(&[8, 3, 0, 0, 0]);
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, *b"IHDR", &header);
    chunk(&mut out, *b"PLTE", PALETTE.as_flattened());
    chunk(&mut out, *b"IDAT", &zlib(&rows));
    chunk(&mut out, *b"IEND", &[]);
    out
}

fn chunk(out: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    let begin = out.len();
    out.extend_from_slice(&kind);
    out.extend_from_slice(data);
    let mut sum = flate2::Crc::new();
    sum.update(&out[begin..]);
    out.extend_from_slice(&sum.sum().to_be_bytes());
}

/// The rows as they are, as a zlib stream (RFC 1950).
fn zlib(rows: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::none());
    // Memory takes everything.
    let _ = out.write_all(rows);
    out.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "tui")]
    #[test]
    fn a_chart_is_an_image_that_others_can_read() {
        let stops: Vec<&Airport> = ["ZRH", "SIN"].iter().filter_map(|c| geo::find(c)).collect();
        let image = image::load_from_memory(&route(&stops)).expect("a PNG").to_rgb8();
        assert_eq!((image.width(), image.height()), (256, 128));
        let (x, y) = place(stops[0].latitude, stops[0].longitude);
        assert_eq!(image.get_pixel(x as u32, y as u32).0, [255, 255, 255]);
    }
}
