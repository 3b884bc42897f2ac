//! Pixels as the bytes a terminal draws them from: kitty, sixel, iTerm2. Pure; what is written is
//! made of the pixels alone, and nothing a server wrote is in it.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use icy_sixel::EncodeOptions;
use image::{ImageFormat, RgbaImage};

use super::{CellPixels, Graphics};

/// Most bytes of base64 in one command of the kitty protocol.
const CHUNK: usize = 4_096;

/// A picture as bytes for the terminal.
#[derive(Debug)]
pub struct Encoded {
    /// How the terminal treats it.
    pub manner: Manner,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// How a terminal treats a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It keeps the picture under this number and shows any rows of it (kitty). The bytes are for
    /// once; the cells are this large.
    Kept(u32, CellPixels),
    /// It paints the cells under the cursor, as text does (sixel, iTerm2). The bytes are for every
    /// time.
    Painted,
}

/// `pixels` as bytes that fill `cells` columns and rows in this way; nothing where it draws no
/// pixels or the picture cannot be written.
pub fn encode(pixels: &RgbaImage, how: Graphics, cells: (u16, u16)) -> Option<Encoded> {
    let painted = |bytes| Encoded { manner: Manner::Painted, bytes };
    match how {
        Graphics::Kitty(cell) => {
            let id = fastrand::u32(1..);
            Some(Encoded { manner: Manner::Kept(id, cell), bytes: kitty(id, pixels)? })
        }
        Graphics::Sixel(_, limits) => sixel(pixels, limits.colours).map(painted),
        Graphics::Iterm2(_) => iterm2(pixels, cells).map(painted),
        Graphics::Off(_) | Graphics::Blocks(..) => None,
    }
}

fn png(pixels: &RgbaImage) -> Option<String> {
    let mut png = Vec::new();
    pixels.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).ok()?;
    Some(STANDARD.encode(png))
}

/// Sends a picture and shows nothing yet. No answer is wanted (`q=2`): it would come as input.
fn kitty(id: u32, pixels: &RgbaImage) -> Option<Vec<u8>> {
    let data = png(pixels)?;
    let mut rest = data.as_str();
    let mut out = Vec::with_capacity(data.len() + data.len() / 200 + 64);
    let mut first = format!("a=t,f=100,t=d,i={id},");
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.len().min(CHUNK));
        rest = after;
        let more = u8::from(!rest.is_empty());
        out.extend_from_slice(format!("\x1b_G{first}q=2,m={more};{chunk}\x1b\\").as_bytes());
        first.clear();
    }
    Some(out)
}

fn sixel(pixels: &RgbaImage, colours: u16) -> Option<Vec<u8>> {
    let (width, height) = pixels.dimensions();
    let options = EncodeOptions { max_colors: colours.clamp(2, 256), ..EncodeOptions::default() };
    let text =
        icy_sixel::sixel_encode(pixels.as_raw(), width as usize, height as usize, &options).ok()?;
    Some(text.into_bytes())
}

fn iterm2(pixels: &RgbaImage, (columns, rows): (u16, u16)) -> Option<Vec<u8>> {
    let data = png(pixels)?;
    // In cells: a terminal on a dense screen counts other pixels than its own.
    let head = format!(
        "\x1b]1337;File=inline=1;width={columns};height={rows};preserveAspectRatio=0;\
         doNotMoveCursor=1:"
    );
    Some([head.as_bytes(), data.as_bytes(), b"\x07"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::graphics::SixelLimits;

    fn pixels() -> RgbaImage {
        RgbaImage::from_fn(64, 40, |x, y| {
            image::Rgba([x as u8 * 4, y as u8 * 6, (x * y % 251) as u8, 255])
        })
    }

    #[test]
    fn kitty_is_sent_a_picture_once_in_pieces_it_takes_and_asked_for_no_answer() {
        let how = Graphics::Kitty(CellPixels::default());
        let encoded = encode(&pixels(), how, (8, 2)).unwrap();
        let Manner::Kept(id, _) = encoded.manner else { panic!("{:?}", encoded.manner) };
        let text = String::from_utf8(encoded.bytes).unwrap();
        assert!(text.starts_with(&format!("\x1b_Ga=t,f=100,t=d,i={id},q=2,m=1;")), "{text}");
        let pieces: Vec<&str> = text.split_terminator("\x1b\\").collect();
        assert!(pieces.len() > 1);
        let mut data = String::new();
        for (index, piece) in pieces.iter().enumerate() {
            let (keys, part) = piece.split_once(';').unwrap();
            let last = index + 1 == pieces.len();
            assert!(keys.contains("q=2") && keys.ends_with(if last { "m=0" } else { "m=1" }));
            assert!(part.len() <= CHUNK && (last || part.len() % 4 == 0));
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
            assert_eq!(encoded.manner, Manner::Painted);
            let text = String::from_utf8(encoded.bytes).unwrap();
            assert!(text.starts_with("\x1bP") && text.ends_with("\x1b\\"), "{text:?}");
            text.split('#').skip(1).filter(|part| part.contains(";2;")).count()
        };
        assert!((2..=16).contains(&colours(16)), "{}", colours(16));
        assert!((17..=256).contains(&colours(256)), "{}", colours(256));
    }

    #[test]
    fn iterm2_is_told_the_cells_and_leaves_the_cursor() {
        let encoded = encode(&pixels(), Graphics::Iterm2(CellPixels::default()), (8, 2)).unwrap();
        let text = String::from_utf8(encoded.bytes).unwrap();
        assert!(text.starts_with("\x1b]1337;File=inline=1;width=8;height=2;"), "{text}");
        assert!(text.contains("doNotMoveCursor=1:") && text.ends_with('\x07'));
    }
}
