//! Manual calls: the form of a tool, prompt or resource template, its calls while they run, and
//! what they gave. Makes no call itself: it gives effects and takes what happened.

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
