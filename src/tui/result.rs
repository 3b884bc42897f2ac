//! Results worth reading: every content kind of the specification, structured content with its
//! violations, and the raw answer. Only visible rows are ever built, whatever the size.

mod audio;
pub mod binary;
mod compare;
mod compared;
pub mod content;
mod contrast;
pub mod diff;
pub mod draw;
pub mod hex;
pub mod image;
mod lay;
pub mod markdown;
mod mouse;
mod pictures;
pub mod rows;
pub mod take;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod view;

pub use compare::{CompareJob, Compared, Purpose, Stage};
pub use content::{Block, Blocks};
pub use image::{PictureDone, PictureJob};
pub use take::Content;
pub use view::ResultView;
