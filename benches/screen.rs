//! Responsiveness of the dashboard, measured in a pseudo-terminal with the built binary: the first
//! frame against the time of a bare exec, ten idle seconds, key presses during floods and in a list of
//! 5,000 tools, and memory.
//!
//! `cargo bench --bench screen` (optionally `-- first idle flood tools memory`, any of them). Unix only.

#[cfg(unix)]
#[path = "report/figure.rs"]
#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
#[expect(clippy::expect_used, reason = "a bench that cannot go on should say where")]
mod report;
#[cfg(unix)]
#[path = "screen/unix.rs"]
#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
#[expect(clippy::unwrap_used, reason = "a bench that cannot go on should say where")]
mod unix;

fn main() {
    #[cfg(unix)]
    unix::measure();
}
