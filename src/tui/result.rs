//! Results worth reading: every content kind of the specification, structured content with its
//! violations, and the raw answer. Only visible rows are ever built, whatever the size.

pub mod content;
pub mod diff;
pub mod draw;
pub mod hex;
mod image;
mod markdown;
pub mod rows;
mod take;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod view;

pub use content::{Block, Blocks};
pub use view::{ResultCommand, ResultView};
