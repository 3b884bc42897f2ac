//! What the dashboard costs a person's patience, measured in a pseudo-terminal on the built binary:
//! the first frame after exec beside the exec floor, ten idle seconds, keys under floods, memory.
//!
//! `cargo bench --bench screen` (optionally `-- first idle flood memory`, any of them). Unix only.

#[cfg(unix)]
#[path = "screen/unix.rs"]
#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
#[expect(clippy::unwrap_used, reason = "a bench that cannot go on should say where")]
mod unix;

fn main() {
    #[cfg(unix)]
    unix::measure();
}
