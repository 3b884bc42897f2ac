//! The cost of `mcpdeck serve`: the program itself, with one echo server behind it over a pipe.
//!
//! `cargo bench --bench gateway` prints, in one run: the time of a small call through the service
//! against the same call over the pipe and through a bare hop (see `bare`), and its CPU time in the
//! service; the memory of the idle service, with 990 idle sessions, and after 10,000 clients opened
//! one and left; and the latency that the service adds to a sleeping server's start. With
//! `MCP_PROXY=PROGRAM`, `mcp-proxy` is measured in the same turns. The goals stand beside the figures.
//! Unix only.

#![cfg_attr(unix, expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints"))]
#![cfg_attr(unix, expect(clippy::unwrap_used, reason = "it should say where it cannot go on"))]

#[cfg(unix)]
#[path = "gateway/bare.rs"]
mod bare;
#[cfg(unix)]
#[allow(dead_code, reason = "the other places are not measured here")]
#[path = "call/place.rs"]
mod place;
#[cfg(unix)]
#[path = "report/figure.rs"]
mod report;
#[cfg(unix)]
#[path = "gateway/unix.rs"]
mod unix;
#[cfg(unix)]
#[allow(dead_code, reason = "the other ways to call are not measured here")]
#[path = "call/ways.rs"]
mod ways;

fn main() {
    #[cfg(unix)]
    unix::measure();
}
