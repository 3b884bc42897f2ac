//! Which pictures of a result are worked on: those that can be seen, one at a time, and only so
//! many kept in memory. The work itself runs elsewhere.

use super::content::BlockKind;
use super::image::{PictureDone, PictureJob};
use super::view::{ResultView, Tab};

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
        let seen = self.scroll..self.scroll + usize::from(self.height.max(1));
        let mut above = 0;
        let mut found = None;
        for (index, block) in self.blocks.iter().enumerate() {
            let rows = self.block_rows(index);
            let visible = above < seen.end && above + rows > seen.start;
            above += rows;
            let BlockKind::Picture(picture, _) = &block.kind else { continue };
            if visible && !self.expanded.contains(&index) {
                found = picture.job(index, region, (self.look.graphics, self.limits));
            }
            if found.is_some() || above >= seen.end {
                break;
            }
        }
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
                    block.title = crate::text::SafeText::line(&title);
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

    /// The terminal lost what it was shown: everything it keeps itself is sent again.
    pub fn redraw_pictures(&mut self) {
        for block in &mut self.blocks {
            if let BlockKind::Picture(picture, _) = &mut block.kind {
                picture.send_again();
            }
        }
    }
}
