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

pub use run::{CallRun, RunState};
pub use screen::CallScreen;
pub use subject::{CallSubject, SubjectKind};
