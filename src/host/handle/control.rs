//! Control: servers started, stopped, restarted; configurations applied; the end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::base::ServerName;
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::config::{ConfigChange, Diagnostic, McpConfig};
use crate::error::{Error, ErrorCode};
use crate::host::Fact;
use crate::host::approvals::queue::Presence;
use crate::host::approvals::{Drafted, Drafter, RequestHandler, RuleKind, SessionRule};
use crate::host::handle::builder::settled;
use crate::host::handle::{Host, ShutdownReport};
use crate::host::server::command::Command;
use crate::host::server::lifecycle::{Input, Next};
use crate::host::server::slot::Slot;
use crate::host::supervisor::Order;
use crate::mcp::Answer;
use crate::mcp::ApprovalId;
use crate::mcp::auth::{AuthFailure, Authorization, Authorizer};
use crate::mcp::capabilities::ListKind;

/// A configuration that is in use while servers it has no more are still ending. Dropping it waits
/// for nothing and takes nothing back.
#[derive(Debug)]
#[must_use = "`finished` waits for the servers that were taken out"]
pub struct Reloading {
    finished: CancellationToken,
}

impl Reloading {
    /// Waits until the servers that were taken out are gone.
    pub async fn finished(self) {
        self.finished.cancelled().await;
    }
}

impl Host {
    /// Stops every server in dependency order and waits until nothing is left. Asked again, it
    /// waits for the same end.
    pub async fn shutdown(&self) -> ShutdownReport {
        let began = tokio::time::Instant::now();
        // A reload that waits for calls in flight must not hold up the end.
        self.inner.deck.hurry.cancel();
        let (done, wait) = oneshot::channel();
        if self.inner.orders.send(Order::Shutdown(done)).await.is_ok() {
            let _ = wait.await;
        }
        let mut kept = self.inner.report.lock();
        let report = kept.get_or_insert_with(|| {
            let view = self.inner.view.borrow();
            let exits = view.servers.values().filter_map(|server| {
                let exit = server.exit.clone().filter(|exit| exit.expected)?;
                Some((server.name.clone(), exit))
            });
            ShutdownReport { exits: exits.collect(), took: began.elapsed() }
        });
        report.clone()
    }

    /// Skips the grace of a running shutdown: kills at once (second Ctrl-C).
    pub fn force_shutdown(&self) {
        self.inner.deck.force.cancel();
    }

    /// Starts a server that is stopped, unavailable or disabled. Returns when it is ready.
    ///
    /// # Errors
    /// [`ErrorCode::ServerStartup`] when it does not get ready, with the reason.
    pub async fn start(&self, server: &ServerName) -> Result<(), Error> {
        let slot = self.control(server, Input::Start).await?;
        self.ready(&slot).await
    }

    /// Stops a server; it stays in the deck. Returns when its process is gone.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server, [`ErrorCode::RateLimited`] when too many
    /// commands wait for it.
    pub async fn stop(&self, server: &ServerName) -> Result<(), Error> {
        let slot = self.control(server, Input::Stop(Next::Rest)).await?;
        settled(&slot).await;
        self.inner.deck.facts.flush().await;
        Ok(())
    }

    /// Stops and starts a server; forgives its breaker and restart count. Returns when it is ready.
    ///
    /// # Errors
    /// As [`Host::start`].
    pub async fn restart(&self, server: &ServerName) -> Result<(), Error> {
        let slot = self.control(server, Input::Restart).await?;
        for fact in slot.close_breakers(self.inner.deck.clock.now()) {
            self.inner.deck.facts.record(fact).await;
        }
        self.ready(&slot).await
    }

    /// Asks a person to sign in at a server ([`crate::mcp::RequestKind::SignIn`]), also when they
    /// said "not now" before. Returns at once; the server is started when somebody has signed in.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] where nobody signs in.
    pub fn sign_in(&self, server: &ServerName) -> Result<(), Error> {
        let (slot, _) = self.account(server)?;
        slot.account.ask_again(server);
        Ok(())
    }

    /// Revokes and forgets the token of a server, and restarts the server without one. Nobody is
    /// asked to sign in until [`Host::sign_in`]. What the issuer said against the revocation.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] where nobody signs in; the token is still kept.
    pub async fn sign_out(&self, server: &ServerName) -> Result<Option<AuthFailure>, Error> {
        let (slot, auth) = self.account(server)?;
        slot.account.decline();
        let done = auth.sign_out().await.map_err(|failure| refused(&failure, server))?;
        self.control(server, Input::Restart).await?;
        Ok(done.and_then(|(_, revoked)| revoked.err()))
    }

    /// Gets another token for a server, without a person.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] where nobody signs in, or why there is none.
    pub async fn refresh_token(&self, server: &ServerName) -> Result<(), Error> {
        let (_, auth) = self.account(server)?;
        auth.refresh_now().await.map(drop).map_err(|failure| refused(&failure, server))
    }

    /// Looks where a server sends those who sign in.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] where nobody signs in, or why its metadata cannot be used.
    pub async fn authorization(&self, server: &ServerName) -> Result<Authorization, Error> {
        let (_, auth) = self.account(server)?;
        auth.authorization().await.map_err(|failure| refused(&failure, server))
    }

    fn account(&self, server: &ServerName) -> Result<(Arc<Slot>, Arc<Authorizer>), Error> {
        let slot = Arc::clone(self.inner.deck.routes().server(server)?);
        let auth = slot.account.authorizer().ok_or_else(|| {
            let message = format!("nobody signs in to `{server}`");
            Error::new(ErrorCode::Configuration, message)
                .server(server)
                .help("it is no server behind an address, or its entry authorises it")
        })?;
        Ok((slot, auth))
    }

    /// Closes a breaker manually: the server's, or a tool's.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server.
    pub fn reset_breaker(&self, server: &ServerName, tool: Option<&str>) -> Result<(), Error> {
        let slot = Arc::clone(self.inner.deck.routes().server(server)?);
        if let Some(fact) = slot.close_breaker(tool, self.inner.deck.clock.now()) {
            self.inner.deck.facts.post(fact);
        }
        Ok(())
    }

    /// Somebody has looked at what changed in the lists of a server: at one item, or at all of it.
    /// What was looked at is marked no more.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server.
    pub fn changes_seen(
        &self,
        server: &ServerName,
        item: Option<(ListKind, SafeText)>,
    ) -> Result<(), Error> {
        self.inner.deck.routes().server(server)?;
        self.inner.deck.facts.post(Fact::ChangesSeen { server: server.clone(), item });
        Ok(())
    }

    /// Fetches the lists of a server again. Returns when they are there.
    ///
    /// # Errors
    /// [`ErrorCode::ServerUnavailable`], or the error of the first list that could not be fetched.
    pub async fn refresh(&self, server: &ServerName) -> Result<(), Error> {
        let slot = Arc::clone(self.inner.deck.routes().server(server)?);
        let (done, wait) = oneshot::channel();
        send(&slot, Command::Refresh(done))?;
        let result = wait.await.unwrap_or_else(|_| Err(slot.live().unavailable()));
        self.inner.deck.facts.flush().await;
        result
    }

    /// Registers the application's answer to requests of servers (requirement S1); replaces the
    /// one before. Requests that are open stay with the one they were given to.
    pub fn register_callback(&self, handler: impl RequestHandler) {
        self.inner.deck.approvals.set_handler(Some(Arc::new(handler)));
    }

    /// A person answers pending requests until what this gives is dropped
    /// ([`crate::HostBuilder::person_answers`] says so for good).
    pub fn person_arrives(&self) -> Presence {
        self.inner.deck.approvals.person_arrives()
    }

    /// Answers a pending request of a server.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it was withdrawn meanwhile: nothing was sent.
    pub fn answer(&self, id: ApprovalId, answer: Answer) -> Result<(), Error> {
        self.inner.deck.approvals.answer(id, answer)
    }

    /// Gives a pending request more time, to at most a day in all; gives when it ends now.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it is no longer open.
    pub fn extend_request(&self, id: ApprovalId, more: Duration) -> Result<Timestamp, Error> {
        self.inner.deck.approvals.extend(id, more)
    }

    /// Registers what drafts answers for a person to approve; replaces the one before.
    pub fn set_drafter(&self, drafter: impl Drafter) {
        self.inner.deck.approvals.set_drafter(Some(Arc::new(drafter)));
    }

    /// The name of what drafts answers, when something does.
    pub fn drafter_name(&self) -> Option<SafeText> {
        self.inner.deck.approvals.drafter_name()
    }

    /// Asks the drafter for the answer to a pending request, to be shown to a person. `params` are
    /// its parameters as edited; those that were sent when `None`. Nothing is answered.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] without a drafter, [`ErrorCode::Cancelled`] when the request is
    /// no longer open, [`ErrorCode::Internal`] with the drafter's words.
    pub async fn draft(
        &self,
        id: ApprovalId,
        params: Option<Arc<Value>>,
    ) -> Result<Drafted, Error> {
        self.inner.deck.approvals.draft(id, params).await
    }

    /// Decides the next requests of one kind by a rule of this session, before the entry's rule,
    /// the callback and the person; `None` takes it back. Open requests keep waiting.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server.
    pub fn set_approval_rule(
        &self,
        server: &ServerName,
        kind: RuleKind,
        rule: Option<SessionRule>,
    ) -> Result<(), Error> {
        self.inner.deck.routes().server(server)?;
        self.inner.deck.approvals.set_rule(server, kind, rule);
        Ok(())
    }

    /// Applies another configuration: unchanged servers keep process and session (C8). Returns when
    /// removed servers are gone and changed ones are on their way: calls in flight on either have
    /// a grace of five seconds (the entry's `shutdownTimeout` when that is shorter) to finish.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] when it cannot be used; the one before stays.
    pub async fn reload(&self, config: McpConfig) -> Result<(), Error> {
        self.begin_reload(config).await?.finished().await;
        Ok(())
    }

    /// The same without waiting for removed servers, which may take their `shutdownTimeout`: returns
    /// when the configuration is in use, and another may be applied.
    ///
    /// # Errors
    /// As [`Host::reload`].
    pub async fn begin_reload(&self, config: McpConfig) -> Result<Reloading, Error> {
        let (done, wait) = oneshot::channel();
        let order = Order::Reload(Box::new(config), done);
        let stopping = || Error::new(ErrorCode::ServerUnavailable, "the host is stopping");
        self.inner.orders.send(order).await.map_err(|_| stopping())?;
        let finished = wait.await.unwrap_or_else(|_| Err(stopping()))?;
        Ok(Reloading { finished })
    }

    /// Says what [`Host::reload`] would do with a configuration. Changes nothing.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] when it cannot be used.
    pub async fn plan_reload(&self, config: McpConfig) -> Result<ConfigChange, Error> {
        let (done, wait) = oneshot::channel();
        let stopping = || Error::new(ErrorCode::ServerUnavailable, "the host is stopping");
        let order = Order::Plan(Box::new(config), done);
        self.inner.orders.send(order).await.map_err(|_| stopping())?;
        wait.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Shows the problems of a configuration that cannot be used; the one before stays.
    pub fn reject_config(&self, diagnostics: Vec<Diagnostic>) {
        self.inner.deck.facts.post(Fact::ConfigRejected { diagnostics });
    }

    async fn control(&self, server: &ServerName, input: Input) -> Result<Arc<Slot>, Error> {
        let slot = Arc::clone(self.inner.deck.routes().server(server)?);
        let (done, taken) = oneshot::channel();
        send(&slot, Command::Control(input, done))?;
        let _ = taken.await;
        Ok(slot)
    }

    async fn ready(&self, slot: &Slot) -> Result<(), Error> {
        settled(slot).await;
        self.inner.deck.facts.flush().await;
        let live = slot.live();
        if live.session.is_some() {
            return Ok(());
        }
        let reason = live.reason.as_ref().map_or(live.state.as_str(), |reason| reason.as_str());
        Err(Error::new(ErrorCode::ServerStartup, format!("did not start: {reason}"))
            .server(&slot.name))
    }
}

fn refused(failure: &AuthFailure, server: &ServerName) -> Error {
    Error::new(ErrorCode::ServerUnavailable, failure.to_string()).server(server)
}

fn send(slot: &Slot, command: Command) -> Result<(), Error> {
    use tokio::sync::mpsc::error::TrySendError;
    slot.commands.try_send(command).map_err(|error| match error {
        TrySendError::Full(_) => {
            Error::new(ErrorCode::RateLimited, "busy: too many commands wait for this server")
                .server(&slot.name)
        }
        TrySendError::Closed(_) => {
            Error::new(ErrorCode::ServerUnavailable, "the server has left the deck")
                .server(&slot.name)
        }
    })
}
