//! The fault suite: every file of `fixtures/faults` is a row of the catalogue of faults that a host
//! must survive. Each is played against the built program and the library, and held to the
//! universal invariants besides what it expects itself. Prints a table.
//!
//! Their constants are drawn from a seed, which is printed; `MCPDECK_FAULTS_SEED` gives another, or
//! `random` one.
//! `cargo test --test faults` plays all; `cargo test --test faults -- S2 O1` plays some. Only Unix has
//! the pseudo-terminals and the signals that it takes.

#[cfg(all(unix, feature = "tui"))]
#[path = "faults/suite.rs"]
mod suite;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(unix, feature = "tui"))]
    return suite::play();
    #[cfg(not(all(unix, feature = "tui")))]
    ExitCode::SUCCESS
}
