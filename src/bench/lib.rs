//! The test bench of `mcpdeck test`: suites of steps (`mcp.tests.json`), fuzzing, coverage.
//!
//! `file` is what people write; `value`, `judge` and `generate` are pure; `stage` opens servers and
//! `probe` a copy of one; `run` plays suites, `fuzz` looks for faults; `outcome` is the one model
//! behind every report.

#![cfg_attr(not(test), warn(clippy::expect_used))]

#[cfg(feature = "chat")]
pub mod advice;
mod breaks;
pub mod cases;
pub mod coverage;
#[cfg(feature = "chat")]
pub mod eval;
pub mod file;
pub mod fuzz;
pub mod generate;
pub mod init;
pub mod judge;
pub mod outcome;
pub mod page;
mod paths;
mod pattern;
pub mod probe;
mod repair;
pub mod run;
pub mod scratch;
pub mod snapshot;
pub mod stage;
pub mod value;
pub mod watch;

pub use file::{TESTS_FILE, TestFile};
pub use outcome::BenchReport;
