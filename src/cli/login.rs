//! `login` and `logout`: signing in to and out of one server. Starts no server; prints every step.

use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::args::{Common, LoginArgs, OneServer};
use super::deck::interrupted;
use super::output::{CommandResult, ExitStatus, problems};
use super::{load, output, signals, typed};
use ::deck::{accounts, open_browser};
use base::human::Dur;
use base::{SafeText, ServerName};
use config::{Environment, HttpConfig, McpConfig};
use mcp::{
    AuthEvent, AuthFailure, Authorizer, SignIn, SignInPrompt, SignedOut, StoredToken,
    scopes_in_words,
};

/// `mcpdeck login`
pub fn login(common: &Common, args: &LoginArgs) -> CommandResult {
    let browser = !args.no_browser;
    if !browser && !std::io::stdin().is_terminal() {
        output::complain("the address the browser ends at is read from stdin");
    }
    with(common, &args.server, async |server, auth| {
        match auth.sign_in(&Terminal { browser }, args.scope.clone()).await {
            Ok(token) => {
                let text = format!("{server}: signed in\n{}", details(&token, "  "));
                output::print(&text, ExitStatus::Ok)
            }
            Err(failure) => refused(server, &failure),
        }
    })
}

/// `mcpdeck logout`
pub fn logout(common: &Common, server: &str) -> CommandResult {
    with(common, server, async |server, auth| match auth.sign_out().await {
        Ok(SignedOut { token: None, had_client: false, .. }) => {
            output::print(&format!("{server}: was not signed in\n"), ExitStatus::Ok)
        }
        Ok(SignedOut { token: None, had_client: true, .. }) => {
            let text = "was not signed in; the client that was registered for it was forgotten";
            output::print(&format!("{server}: {text}\n"), ExitStatus::Ok)
        }
        Ok(SignedOut { token: Some(token), revoked, .. }) => {
            let issuer = SafeText::line(&token.issuer);
            let text = match (&token.revocation_endpoint, revoked) {
                (None, _) => format!("{issuer} revokes no tokens; it was forgotten here"),
                (_, Ok(())) => format!("the token was revoked at {issuer} and forgotten"),
                (_, Err(why)) => {
                    let why = SafeText::line(&why);
                    output::complain(&format!(
                        "the token was not revoked at {issuer}: {why}; it is valid there until it \
                         expires"
                    ));
                    "the token was forgotten here".to_owned()
                }
            };
            output::print(&format!("{server}: signed out; {text}\n"), ExitStatus::Ok)
        }
        Err(failure) => {
            let why = SafeText::line(&failure.reason());
            output::complain(&format!("{server}: not signed out: {why}"));
            exit_of(&failure)
        }
    })
}

fn refused(server: &SafeText, failure: &AuthFailure) -> ExitStatus {
    output::complain(&format!("{server}: {failure}"));
    exit_of(failure)
}

const fn exit_of(failure: &AuthFailure) -> ExitStatus {
    match failure {
        AuthFailure::Failed(_) | AuthFailure::Unavailable(_) => ExitStatus::Unavailable,
        _ => ExitStatus::Failed,
    }
}

/// Runs `work` with the authorizer of one server, until Ctrl-C.
fn with(
    common: &Common,
    named: &str,
    work: impl AsyncFnOnce(&SafeText, &Arc<Authorizer>) -> ExitStatus,
) -> CommandResult {
    let url = named.contains("://").then(|| named.to_owned());
    let by_url = url.is_some();
    let source = load::usable(common, &OneServer { url, ..OneServer::default() })
        .map_err(|found| problems(&found))?;
    let (name, http) =
        remote(&source.config, named, by_url).map_err(|message| output::refuse(&message))?;
    let accounts = accounts(&Environment::of_process())
        .ok_or_else(|| output::refuse("there is no folder in which tokens could be kept"))?;
    let accounts = accounts.watch(|_, event| {
        if let AuthEvent::Step { step, .. } = event {
            output::complain(&step.to_string());
        }
    });
    let auth = accounts
        .authorizer(name, http)
        .map_err(|failure| output::refuse(&failure.to_string()))?
        .ok_or_else(|| {
            let why = "its entry brings its own `Authorization` header or a user name in its \
                       address, or says `\"oauth\": false`";
            output::refuse(&format!("`{name}` needs no sign-in: {why}"))
        })?;
    let shown = SafeText::line(name.as_str());
    let done = signals::block_on(async |signals| {
        tokio::select! {
            exit = work(&shown, &auth) => exit,
            () = signals.stop.cancelled() => {
                if let Err(failure) = auth.give_up() {
                    output::complain(&format!("{shown}: {failure}"));
                }
                interrupted()
            }
        }
    });
    done.map_err(|error| output::refuse(&error.to_string()))
}

/// The named server, when it has a URL.
fn remote<'c>(
    config: &'c McpConfig,
    named: &str,
    by_url: bool,
) -> Result<(&'c ServerName, &'c HttpConfig), String> {
    let found = if by_url {
        config.servers.first()
    } else {
        config.servers.get_key_value(&ServerName::new(named))
    };
    let (name, server) = found.ok_or_else(|| load::unknown(config, named))?;
    let no_url = || format!("`{name}` is a local process and needs no sign-in");
    server.transport.http().map(|http| (name, http)).ok_or_else(no_url)
}

/// Issuer, scopes and time left of a token, a line each. No part of the token itself.
pub fn details(token: &StoredToken, indent: &str) -> String {
    let mut out = format!("{indent}issuer   {}\n", SafeText::line(&token.issuer));
    // One that is for more than its server, which it is not sent beyond.
    if !token.is_for_server_alone() {
        let _ = writeln!(out, "{indent}for      {}", SafeText::line(&token.resource));
    }
    let scopes = if token.scopes.is_empty() { "-".to_owned() } else { token.scopes.join(" ") };
    let _ = writeln!(out, "{indent}scopes   {}", SafeText::line(&scopes));
    let _ = writeln!(out, "{indent}expires  {}", expires(token));
    out
}

/// When a token expires, in words.
pub fn expires(token: &StoredToken) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let left = token.left(now.unwrap_or_default().as_secs());
    let refreshed = match token.refresh_token {
        Some(_) => "refreshed by itself",
        None => "then sign in again",
    };
    match left {
        None => "not known".to_owned(),
        // Nothing was sent since: the next request refreshes it first.
        Some(0) if token.refresh_token.is_some() => {
            "expired, the next call refreshes it".to_owned()
        }
        Some(0) => "expired, sign in again".to_owned(),
        Some(left) => format!("in {}, {refreshed}", Dur(Duration::from_secs(left))),
    }
}

/// The user at the terminal.
struct Terminal {
    browser: bool,
}

impl SignInPrompt for Terminal {
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>> {
        let browser = self.browser;
        async move {
            let SignIn { issuer, instead_of, scopes, url, .. } = request;
            for other in instead_of {
                output::complain(&format!("{other} cannot be used now; {issuer} is named too"));
            }
            let asks = scopes_in_words(scopes.iter().map(SafeText::as_str));
            output::complain(&format!("{issuer} asks you to sign in, for: {asks}"));
            if browser {
                output::complain(&format!("opening {}", SafeText::line(url.as_str())));
                match open_browser(url).await {
                    Ok(()) => return Ok(None),
                    Err(why) => output::complain(&format!("{why}: open the address yourself")),
                }
            } else {
                output::complain(&format!("open {}", SafeText::line(url.as_str())));
            }
            typed::forget_typed();
            output::complain(
                "then paste the address the browser ends at, even if it shows an error:",
            );
            let line = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                std::io::stdin().lock().read_line(&mut line).map(|read| (read, line))
            });
            match line.await {
                Ok(Ok((read, line))) if read > 0 && !line.trim().is_empty() => Ok(Some(line)),
                // The browser may still complete the redirect.
                Ok(Ok(_)) if browser => Ok(None),
                Ok(Ok(_)) => Err("no address was pasted".to_owned()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        }
        .boxed()
    }
}
