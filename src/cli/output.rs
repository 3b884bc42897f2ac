//! Writing to stdout and stderr: a closed pipe is quiet, colour only where it is wanted.

use std::io::{self, ErrorKind, IsTerminal, Write};

use super::args::ColorChoice;
use super::exit::Exit;

/// Writes the answer of a command to stdout and gives `exit`.
///
/// A reader that went away (`| head -1`) has what it wanted: no message, same exit code. Any other
/// failure, such as a full disk behind a redirection, is told and counts as a failure.
pub fn print(text: &str, exit: Exit) -> Exit {
    print_bytes(text.as_bytes(), exit)
}

/// As [`print`], for what need not be text.
pub fn print_bytes(bytes: &[u8], exit: Exit) -> Exit {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => exit,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit,
        Err(error) => {
            complain(&format!("cannot write to stdout: {error}"));
            if exit == Exit::Ok { Exit::Failed } else { exit }
        }
    }
}

/// Writes one message to stderr.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr().lock(), "mcpdeck: {message}");
}

/// Tells a person at a terminal how a command goes about its work; a program that reads stderr wants
/// only what is wrong.
pub fn note(message: &str) {
    if io::stderr().is_terminal() {
        complain(message);
    }
}

/// Says why the arguments or the configuration cannot be used.
pub fn refuse(message: &str) -> Exit {
    complain(message);
    Exit::Usage
}

/// Whether stdout gets colour.
pub fn colour(choice: ColorChoice) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let off = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            io::stdout().is_terminal() && !off("NO_COLOR") && !dumb
        }
    }
}
