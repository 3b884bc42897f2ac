//! Calling by hand: the form of a tool, prompt or resource template, its calls while they run, and
//! what they gave. Makes no call itself: it says what it wants and is told what happened.

mod again;
pub mod ask;
mod draw;
pub mod export;
mod failure;
pub mod folder;
pub mod follow;
pub mod mouse;
pub mod picker;
pub mod run;
pub mod screen;
pub mod subject;
pub mod template;
#[cfg(test)]
mod tests;
mod typing;
pub mod updates;

pub use run::{Run, RunState};
pub use screen::CallScreen;
pub use subject::{Subject, SubjectKind};
