//! Manual calls: the form of a tool, prompt, resource or request, its running calls, and their
//! results. Makes no call itself: it returns effects and is updated with their outcome.

mod draw;
pub mod export;
pub mod follow;
pub mod run;
pub mod screen;
pub mod subject;
pub mod template;
#[cfg(test)]
mod tests;

/// Width of a screen from which the catalogue, the form of a call and its result are side by side.
pub const MIN_BENCH_COLUMNS: u16 = 140;
/// The same for the region of a pane.
pub const MIN_COMMON_COLUMNS: u16 = 120;

pub use run::{CallAsk, CallRun, RunState, WhyCall};
pub use screen::CallScreen;
pub use subject::{CallSubject, SubjectKind};
