//! The headless check (requirements, section 9): its input, rules, findings and reports.
//!
//! Rules are functions over plain data ([`subject::CheckSubject`]), reports are functions over
//! [`model::Report`]; only [`run`] knows the engine.

pub mod answers;
pub mod calls;
pub mod expect;
pub mod lock;
pub mod model;
pub mod report;
pub mod rule;
pub mod rules;
pub mod run;
pub mod subject;

pub use crate::config::Severity;
pub use model::{CheckFinding, CheckVerdict, Report, ServerReport};
