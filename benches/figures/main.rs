//! What the product costs, as figures beside their goals: `cargo bench --bench figures -- NAME [WORD...]`
//! measures one of them, `benches/all` those of the table.
//!
//! All are one program, since linking it takes longer than everything else. It is also the servers
//! that are called. With the environment variable `MCPDECK_TEST_PROGRAM`, that `mcpdeck` is measured in
//! place of the one that was built along.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the figures are what it is for")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on should say where")]
#![expect(clippy::expect_used, reason = "a bench that cannot go on should say where")]

mod call;
#[cfg(unix)]
mod chat;
mod decide;
#[cfg(unix)]
mod flood;
mod form;
mod fuzz;
#[cfg(unix)]
mod gateway;
mod http;
mod place;
#[cfg(unix)]
#[path = "../../tests/support/pty.rs"]
mod pty;
mod record;
mod report;
#[cfg(unix)]
mod screen;
mod ways;

/// A bench, given the words after its name.
type Bench = fn(&[String]);

const BENCHES: &[(&str, Bench)] = &[
    ("call", call::measure),
    #[cfg(unix)]
    ("chat", chat::measure),
    ("decide", decide::measure),
    #[cfg(unix)]
    ("flood", flood::measure),
    ("form", form::measure),
    ("fuzz", fuzz::measure),
    #[cfg(unix)]
    ("gateway", gateway::measure),
    ("http", http::measure),
    ("record", record::measure),
    #[cfg(unix)]
    ("screen", screen::measure),
];

/// The servers that this program plays, by the environment variable that makes it one.
const SERVERS: &[(&str, fn())] = &[
    (ways::SERVER, ways::echo_server),
    (http::SERVER, http::serve),
    #[cfg(unix)]
    (flood::web::SERVER, flood::web::serve),
    #[cfg(unix)]
    (gateway::bare::HOP, gateway::bare::serve),
];

fn main() {
    if let Some((_, serve)) = SERVERS.iter().find(|(name, _)| std::env::var_os(name).is_some()) {
        return serve();
    }
    // Cargo adds `--bench`.
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let name = words.first().map(String::as_str).unwrap_or_default();
    if let Some((_, measure)) = BENCHES.iter().find(|(known, _)| *known == name) {
        return measure(&words[1..]);
    }
    let names: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
    println!("say what to measure: {}", names.join(", "));
}
