//! The account of a server: its details, the warning before a token ends, and what can be done with it.

use std::time::Duration;

use mcpdeck::base::text::SafeText;
use mcpdeck::host::{AccountView, Fact};
use mcpdeck::tui::effect::{Effect, Order, ServerCommand};

use crate::tui::driver::Driver;

/// A dashboard on whose every server somebody is signed in, with a token that lives so long.
fn signed_in(left: Duration, is_refreshed: bool) -> Driver {
    let mut driver = Driver::new();
    let expires = Some(driver.app.model.now.plus(left));
    let names: Vec<_> = driver.view.servers.keys().cloned().collect();
    for server in names {
        let account = AccountView {
            issuer: SafeText::line("https://auth.example"),
            scopes: vec![SafeText::line("read"), SafeText::line("write")],
            expires,
            is_refreshed,
        };
        driver.fact(server.as_str(), Fact::AccountChanged { account: Some(account) });
    }
    driver.shown();
    driver
}

#[test]
fn the_details_of_a_server_show_its_account_and_a_token_that_ends_is_warned_of() {
    let mut driver = signed_in(Duration::from_secs(7_300), true);
    driver.keys("1");
    assert!(!crate::tui::draw(&mut driver.app, 120, 60).contains("sign in again"));
    driver.keys("b");
    let screen = crate::tui::draw(&mut driver.app, 120, 200);
    for shown in
        ["https://auth.example", "read write", "the token ends in 2h, then refreshed by itself"]
    {
        assert!(screen.contains(shown), "{shown}: {screen}");
    }

    let mut driver = signed_in(Duration::from_secs(200), false);
    driver.keys("1");
    let screen = crate::tui::draw(&mut driver.app, 120, 60);
    assert!(screen.contains("sign in again: the token ends in"), "{screen}");
}

#[test]
fn signing_in_again_refreshing_and_signing_out_are_actions() {
    for (typed, wanted) in [
        (":sign in to\r", ServerCommand::SignIn),
        (":new token\r", ServerCommand::RefreshToken),
        (":revoke and\r", ServerCommand::SignOut),
    ] {
        let mut driver = signed_in(Duration::from_secs(7_300), true);
        driver.keys("1");
        crate::tui::draw(&mut driver.app, 120, 60);
        driver.keys(typed);
        // The end of what works is confirmed where the person wants to be asked.
        driver.keys("y");
        let sent = driver
            .wanted
            .iter()
            .any(|effect| matches!(effect, Effect::Order(Order::Server(_, command)) if *command == wanted));
        assert!(sent, "{typed:?}: {:?}", driver.wanted);
    }
}
