//! Which pictures stand in pixels on the screen, and the bytes that bring the terminal from one
//! frame to the next: what is gone is taken away before the cells are drawn, what is new is put
//! there after them. Nothing is written while nothing moves.

use std::sync::Arc;

use ratatui::layout::Rect;

use super::encode::{Encoded, Manner};

/// Most pictures the terminal is left to keep.
const KEPT: usize = 8;

/// A picture, or some rows of it, on the screen.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Where.
    pub area: Rect,
    /// Rows of the picture above the first that is shown.
    pub skip: u16,
    /// The picture.
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
            Manner::Kept(id, _) => Some(id),
            Manner::Painted => None,
        }
    }
}

/// The pictures that are on the screen.
#[derive(Debug, Default)]
pub struct Placed {
    now: Vec<Placement>,
    /// Numbers of pictures the terminal has, the latest last.
    kept: Vec<u32>,
}

impl Placed {
    /// The bytes that take away what is not in `next`; to be written before the cells.
    pub fn take_away(&self, next: &[Placement]) -> Vec<u8> {
        let mut out = Vec::new();
        for old in self.now.iter().filter(|old| !next.contains(old)) {
            match old.number() {
                // A picture that only moves is put elsewhere in one step.
                Some(id) if next.iter().any(|new| new.number() == Some(id)) => {}
                Some(id) => out.extend(format!("\x1b_Ga=d,d=i,i={id},q=2\x1b\\").into_bytes()),
                None => out.extend(erased(old.area)),
            }
        }
        out
    }

    /// The bytes that put there what is new in `next`; to be written after the cells.
    pub fn put(&mut self, next: Vec<Placement>) -> Vec<u8> {
        let mut out = Vec::new();
        for new in next.iter().filter(|new| !self.now.contains(new)) {
            let Rect { x, y, width, height } = new.area;
            let go = format!("\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1);
            let Manner::Kept(id, cell) = new.picture.manner else {
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
        while self.kept.len() > KEPT.max(self.now.len()) {
            let id = self.kept.remove(0);
            out.extend_from_slice(format!("\x1b_Ga=d,d=I,i={id},q=2\x1b\\").as_bytes());
        }
        out
    }

    /// The screen is cleared or somebody else's: the bytes that make the terminal forget what it
    /// keeps. Everything is sent again by the next [`Placed::put`].
    pub fn forget(&mut self) -> Vec<u8> {
        self.now.clear();
        let kept = std::mem::take(&mut self.kept);
        let forget = |id| format!("\x1b_Ga=d,d=I,i={id},q=2\x1b\\").into_bytes();
        kept.into_iter().flat_map(forget).collect()
    }
}

/// Erases cells, and with them what was painted over them. The cells a picture stands on are blank
/// for the screen: what was painted there would stay where another picture leaves a hole.
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
    use crate::tui::graphics::CellPixels;

    fn picture(manner: Manner) -> Arc<Encoded> {
        Arc::new(Encoded { manner, bytes: b"<picture>".to_vec() })
    }

    fn kept(id: u32) -> Arc<Encoded> {
        picture(Manner::Kept(id, CellPixels { width: 10, height: 20 }))
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
        let chart = kept(7);
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
        let chart = picture(Manner::Painted);
        let shown = frame(&mut placed, &[at(&chart, 4, 2, 0)]);
        assert_eq!(shown, (String::new(), "\x1b[5;3H<picture>".to_owned()));
        let moved = frame(&mut placed, &[at(&chart, 3, 2, 0)]);
        let erased = "\x1b[0m\x1b[5;3H\x1b[6X\x1b[6;3H\x1b[6X";
        assert_eq!(moved, (erased.to_owned(), "\x1b[4;3H<picture>".to_owned()));
    }

    #[test]
    fn after_the_screen_was_cleared_everything_is_sent_again() {
        let mut placed = Placed::default();
        let chart = kept(7);
        let first = frame(&mut placed, &[at(&chart, 4, 3, 0)]);
        assert_eq!(placed.forget(), b"\x1b_Ga=d,d=I,i=7,q=2\x1b\\");
        assert_eq!(frame(&mut placed, &[at(&chart, 4, 3, 0)]), first);
    }

    #[test]
    fn the_terminal_is_not_left_to_keep_every_picture_ever_shown() {
        let mut placed = Placed::default();
        for id in 1..=u32::try_from(KEPT).unwrap() {
            assert!(!frame(&mut placed, &[at(&kept(id), 0, 1, 0)]).1.contains("d=I"));
        }
        let (_, after) = frame(&mut placed, &[at(&kept(99), 0, 1, 0)]);
        assert!(after.ends_with("\x1b_Ga=d,d=I,i=1,q=2\x1b\\"), "{after}");
    }
}
