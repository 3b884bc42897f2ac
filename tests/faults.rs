//! The fault suite: every file of `fixtures/faults` is a row of the catalogue of faults that a host
//! must survive. Each is played against the built program and the library, and checked
//! against its own expectations and the universal invariants. Prints a table.
//!
//! The constants are derived from a seed, which is printed; `MCPDECK_FAULTS_SEED` sets another, or
//! a random one with `random`.
//! `cargo test --test faults` plays all; `cargo test --test faults -- S2 O1` plays some. Unix only:
//! needs pseudo-terminals and signals.

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
