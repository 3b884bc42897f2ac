//! What stands on the screen is said in words, and whole: no code, no half of a word, no column that
//! moves while a list is read.

use mcpdeck::error::{Error, ErrorCode};
use mcpdeck::tui::message::CallToken;

use super::driver::Driver;
use super::*;

/// A call that is still running when another pane is looked at.
fn left() -> (Driver, CallToken) {
    let (mut driver, token) = super::why::calling();
    driver.keys("\x1b");
    driver.keys("\x1b");
    draw(&mut driver.app, 100, 30);
    (driver, token)
}

#[test]
fn an_error_is_named_in_words_wherever_it_is_seen() {
    use ErrorCode::*;
    for (code, words) in [
        (ServerUnavailable, "server unavailable"),
        (ServerStartup, "server did not start"),
        (CircuitOpen, "rejected by the breaker"),
        (BudgetExceeded, "budget spent"),
        (RateLimited, "too many calls"),
        (ToolNotFound, "not found"),
        (Ambiguous, "ambiguous name"),
        (Configuration, "configuration error"),
        (Timeout, "timed out"),
        (Cancelled, "cancelled"),
        (Internal, "internal error"),
    ] {
        let (mut driver, token) = left();
        let error = Error::new(code, "no such luck").server(&"filesystem".into());
        driver.app.update(Message::CallEnded(token, Box::new(Err(error))));
        for width in [80, 120] {
            let screen = draw(&mut driver.app, width, 30);
            assert!(screen.contains(words), "{code}: {screen}");
            assert!(!screen.contains(code.as_str()), "{code}: {screen}");
        }
    }
}
