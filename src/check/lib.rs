//! The headless check: its input, rules, findings and reports.
//!
//! Rules are functions over plain data ([`subject::CheckSubject`]), reports are functions over
//! [`model::Report`]; only [`run`] knows the engine.

#![cfg_attr(not(test), warn(clippy::expect_used))]
#![allow(
    missing_docs,
    reason = "its readers are its authors: a doc stands where it says more than the name"
)]

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

pub use config::Severity;
pub use model::{CheckFinding, CheckVerdict, Report, ServerReport};
