//! The result viewer: every content kind of the specification, structured content with its
//! violations, and the raw response. Only visible rows are ever built, whatever the size.

mod compare;
pub mod content;
pub mod draw;
pub mod image;
pub mod markdown;
pub mod rows;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod view;

pub use content::{Block, Blocks};
pub use image::{PictureDone, PictureJob};
pub use view::{ResultFile, ResultView};
