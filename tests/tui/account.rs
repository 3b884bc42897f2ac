//! The account of a server: its details, the warning before a token ends, and what can be done with it.

use std::time::Duration;

use mcpdeck::base::text::SafeText;
use mcpdeck::host::Fact;
use mcpdeck::host::view::AccountView;
use mcpdeck::tui::effect::{Effect, ServerCommand};

use crate::desk::Desk;

/// A dashboard on whose every server somebody is signed in, with a token that lives so long.
fn signed_in(left: Duration, is_refreshed: bool) -> Desk {
    let mut desk = Desk::new();
    let expires = Some(desk.app.model.now.plus(left));
    let names: Vec<_> = desk.view.servers.keys().cloned().collect();
    for server in names {
        let account = AccountView {
            issuer: SafeText::line("https://auth.example"),
            scopes: vec![SafeText::line("read"), SafeText::line("write")],
            expires,
            is_refreshed,
        };
        desk.fact(Fact::AccountChanged { server, account: Some(account) });
    }
    desk.shown();
    desk
}

#[test]
fn the_details_of_a_server_show_its_account_and_a_token_that_ends_is_warned_of() {
    let mut desk = signed_in(Duration::from_secs(7_300), true);
    desk.keys("1");
    assert!(!crate::draw(&mut desk.app, 120, 60).contains("sign in again"));
    desk.keys("b");
    let screen = crate::draw(&mut desk.app, 120, 200);
    for shown in
        ["https://auth.example", "read write", "the token ends in 2h, then refreshed by itself"]
    {
        assert!(screen.contains(shown), "{shown}: {screen}");
    }

    let mut desk = signed_in(Duration::from_secs(200), false);
    desk.keys("1");
    let screen = crate::draw(&mut desk.app, 120, 60);
    assert!(screen.contains("sign in again: the token ends in"), "{screen}");
}

#[test]
fn signing_in_again_refreshing_and_signing_out_are_actions() {
    for (typed, wanted) in [
        (":sign in at\r", ServerCommand::SignIn),
        (":another token\r", ServerCommand::RefreshToken),
        (":revoke and\r", ServerCommand::SignOut),
    ] {
        let mut desk = signed_in(Duration::from_secs(7_300), true);
        desk.keys("1");
        crate::draw(&mut desk.app, 120, 60);
        desk.keys(typed);
        // The end of what works is confirmed where the person wants to be asked.
        desk.keys("y");
        let sent = desk
            .wanted
            .iter()
            .any(|effect| matches!(effect, Effect::Server(_, command) if *command == wanted));
        assert!(sent, "{typed:?}: {:?}", desk.wanted);
    }
}
