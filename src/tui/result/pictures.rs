//! Which pictures of a result are worked on: those that can be seen, one at a time, and only so
//! many kept in memory. The work itself runs elsewhere.

use ratatui::layout::Rect;

use super::content::BlockKind;
use super::draw::{Seen, body};
use super::image::{Picture, PictureDone, PictureJob};
use super::lay::Laid;
use super::view::{ResultView, Tab};
use crate::tui::form::draw::Look;
use crate::tui::graphics::Placement;

/// Most pictures of one result that are kept decoded.
const DECODED: usize = 8;

impl ResultView {
    /// Work for another thread on a picture that can be seen now; what comes of it goes to
    /// [`ResultView::picture_done`]. Nothing while such work is under way.
    pub fn picture_job(&mut self) -> Option<PictureJob> {
        if self.drawing || self.tab != Tab::Content || self.laid.is_empty() {
            return None;
        }
        let region = self.picture_region();
        let area = Rect { x: 0, y: 0, width: self.width, height: self.height };
        let job = |seen: Seen| {
            let (picture, rows) = self.seen_picture(&seen)?;
            let window = (seen.skip as u16, rows);
            picture.job(seen.index, region, window, (self.look.graphics, self.limits))
        };
        let found = self.seen(area).into_iter().find_map(job);
        self.drawing = found.is_some();
        found
    }

    /// Takes what came of a job.
    pub fn picture_done(&mut self, done: PictureDone) {
        self.drawing = false;
        let index = done.block;
        let Some(block) = self.blocks.get_mut(index) else { return };
        let BlockKind::Picture(picture, _) = &mut block.kind else { return };
        let known = picture.size.is_some();
        match picture.take(done) {
            Ok(()) => {
                if let Some((w, h)) = picture.size.filter(|_| !known) {
                    let title = format!("{} · {w} x {h}", block.title);
                    block.title = crate::base::text::SafeText::line(&title);
                }
            }
            Err(reason) => block.undrawable(&reason),
        }
        self.lay_again(index);
        self.forget_pictures(index);
    }

    /// The farthest pictures give their memory back.
    fn forget_pictures(&mut self, near: usize) {
        let decoded = |(index, block): (usize, &mut super::content::Block)| match &block.kind {
            BlockKind::Picture(picture, _) if picture.is_decoded() => Some(index),
            _ => None,
        };
        let mut all: Vec<usize> = self.blocks.iter_mut().enumerate().filter_map(decoded).collect();
        all.sort_by_key(|index| index.abs_diff(near));
        for index in all.into_iter().skip(DECODED) {
            if let BlockKind::Picture(picture, _) = &mut self.blocks[index].kind {
                picture.forget();
            }
        }
    }

    /// The pictures that stand in pixels where the result is drawn in `area`.
    pub fn placements(&self, look: &Look, area: Rect) -> Vec<Placement> {
        if self.tab != Tab::Content || area.height == 0 {
            return Vec::new();
        }
        let place = |seen: Seen| {
            let (picture, rows) = self.seen_picture(&seen)?;
            let area = Rect { height: rows, ..seen.area };
            picture.placement(self.picture_region(), seen.skip as u16, look.graphics, area)
        };
        self.seen(body(area)).into_iter().filter_map(place).collect()
    }

    /// The picture of a block that is seen, and how many rows of it are.
    fn seen_picture(&self, seen: &Seen) -> Option<(&Picture, u16)> {
        let Some(Laid::Picture(rows)) = self.laid.get(seen.index) else { return None };
        let BlockKind::Picture(picture, _) = &self.blocks.get(seen.index)?.kind else {
            return None;
        };
        Some((picture, rows.saturating_sub(seen.skip as u16).min(seen.area.height)))
    }
}
