//! Calls to a server that its callers use as themselves (`oauth.exchange`): each in a session of the
//! caller's own, with a token that the caller's was exchanged for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;

use crate::call::CallOptions;
use crate::server::command::Command;
use crate::server::connect::{OpenRequest, Opened, Steps, StopPlan};
use crate::server::context::{EVENT_CAPACITY, session_context};
use crate::server::persons::{CallerIdentity, Person, PersonHold};
use crate::server::slot::{Live, Slot};
use crate::shared::HostShared;
use base::{Redactor, Timestamp};
use config::TokenExchange;
use config::error::{Error, ErrorCode};
use mcp::SessionHandle;
use protocol::{Notice, NoticeKind, SessionEvent};

/// Notices of a session that wait to be passed on; the oldest are dropped when it is full.
const NOTICE_CAPACITY: usize = 64;

/// A call of a person to a server that they use as themselves.
pub(super) struct PersonCall<'a> {
    shared: &'a Arc<HostShared>,
    slot: &'a Arc<Slot>,
    live: &'a Live,
    options: &'a CallOptions,
    caller: &'a CallerIdentity,
    exchange: &'a TokenExchange,
}

/// The error for a caller without an identity.
pub(crate) fn nobody() -> Error {
    let message = "this server is used by persons as themselves: sign in to the gateway, whose token \
                   is exchanged for one of the server";
    Error::new(ErrorCode::PermissionDenied, message)
        .help("\"others\": true in `exchange` lets everyone else use the entry's own session")
}

impl<'a> PersonCall<'a> {
    /// A call with these options; `None` where the session of the entry itself serves it.
    ///
    /// # Errors
    /// [`ErrorCode::PermissionDenied`] for a caller that is nobody in particular, unless the entry
    /// serves these too.
    pub(super) fn from_options(
        (shared, slot): (&'a Arc<HostShared>, &'a Arc<Slot>),
        live: &'a Live,
        options: &'a CallOptions,
    ) -> Result<Option<Self>, Error> {
        let Some(exchange) = live.config.exchange() else { return Ok(None) };
        match &options.identity {
            Some(caller) => Ok(Some(Self { shared, slot, live, options, caller, exchange })),
            None if exchange.others => Ok(None),
            None => Err(nobody().server(&live.config.name)),
        }
    }

    /// The session of the caller, with the call's hold on it.
    ///
    /// # Errors
    /// [`ErrorCode::PermissionDenied`] when there is no token for this caller;
    /// [`ErrorCode::ServerUnavailable`] when the server, or who exchanges tokens, cannot be reached.
    pub(super) async fn session(&self) -> Result<(Arc<dyn SessionHandle>, PersonHold<'a>), Error> {
        let hold = self.slot.persons.join(self.caller, self.exchange.max_sessions)?;
        match hold.session(|person| Box::pin(self.open(person))).await {
            Ok(session) => Ok((session, hold)),
            Err(error) => Err(self.outward(error)),
        }
    }

    /// The error of a failed request, which means nothing for the sessions of others.
    pub(super) fn failed(&self, hold: &PersonHold<'_>, error: Error) -> Error {
        if error.unauthorized || error.code == ErrorCode::ServerUnavailable && !error.answered {
            hold.give_up();
        }
        self.outward(error)
    }

    /// The error for the caller: why there is no token is for the operator.
    fn outward(&self, error: Error) -> Error {
        if !error.unauthorized {
            return error;
        }
        tracing::warn!(
            target: "mcpdeck::policy", action = "no token", server = %self.slot.name,
            principal = %self.options.principal(), "{}", error.message
        );
        let message =
            "there is no token of yours for this server: it, or who exchanges tokens, refuses it";
        let outward = Error::new(ErrorCode::PermissionDenied, message);
        let mut outward = outward.help(error.message.clone());
        outward.unauthorized = true;
        outward
    }

    async fn open(&self, person: Arc<Person>) -> Result<Arc<dyn SessionHandle>, Error> {
        let Self { shared, slot, .. } = *self;
        let config = &self.live.config;
        let (events, receiver) = mpsc::channel(EVENT_CAPACITY);
        let (notices, heard) = broadcast::channel(NOTICE_CAPACITY);
        let mut context = session_context((shared, slot), config, events);
        context.notices = notices;
        // Of its own: it holds so many secrets and no more, and persons have many tokens.
        context.redactor = Redactor::default();
        context.redactor.learn(slot.redactor.values());
        let request = OpenRequest {
            config: Arc::clone(config),
            context,
            remembered: shared.era(config),
            deadline: Instant::now() + config.startup_timeout,
            cancel: person.ended.clone(),
            force: shared.force.clone(),
            steps: Steps { is_quiet: true, ..Steps::new(&slot.name, &shared.facts) },
            account: Arc::clone(&slot.account),
            caller: Some(self.caller.clone()),
        };
        let opened = shared.connector.open(request).await.map_err(|failure| failure.error)?;
        let session = Arc::clone(&opened.session);
        let own = PersonWatch {
            shared: Arc::clone(shared),
            slot: Arc::downgrade(slot),
            person,
            opened,
            plan: StopPlan::new(config, &shared.force),
            expires: self.caller.expires,
            idle: self.exchange.idle_timeout,
        };
        tokio::spawn(own.run(receiver, heard));
        Ok(session)
    }
}

/// Ends the session of a person: when their token ends, when nobody uses it, when it is lost.
struct PersonWatch {
    shared: Arc<HostShared>,
    slot: Weak<Slot>,
    person: Arc<Person>,
    opened: Opened,
    plan: StopPlan,
    expires: Timestamp,
    idle: Duration,
}

impl PersonWatch {
    async fn run(
        self,
        mut events: mpsc::Receiver<SessionEvent>,
        mut heard: broadcast::Receiver<Notice>,
    ) {
        let Self { shared, slot, person, opened, plan, expires, idle } = self;
        let end = Instant::now() + expires.since(shared.clock.now());
        let mut look = Instant::now() + idle;
        let why = loop {
            tokio::select! {
                biased;
                () = person.ended.cancelled() => break "the session of the caller was ended",
                () = tokio::time::sleep_until(end) => break "the token of the caller has expired",
                event = events.recv() => match event {
                    Some(SessionEvent::Closed(_)) | None => break "the connection was lost",
                    // The lists are those of the entry, whose own session may hear of no change
                    // that a call of a person made. One that finds no room is the last of many.
                    Some(SessionEvent::ListChanged(kind)) => {
                        let slot = slot.upgrade();
                        slot.map(|slot| slot.commands.try_send(Command::ListChanged(kind)));
                    }
                    Some(
                        SessionEvent::FirstByte
                        | SessionEvent::Finding(_)
                        | SessionEvent::ResourceUpdated(_)
                        | SessionEvent::Renewed,
                    ) => {}
                },
                Ok(notice) = heard.recv() => {
                    // What belongs to no call is for nobody else.
                    if matches!(notice.kind, NoticeKind::Logged { call: Some(_), .. }) {
                        let _ = shared.notices.send(notice);
                    }
                }
                () = tokio::time::sleep_until(look) => {
                    let Some(slot) = slot.upgrade() else { break "the server was removed" };
                    match slot.persons.retire(&person, idle) {
                        Some(left) => look = Instant::now() + left,
                        None => break "nobody used it",
                    }
                }
            }
        };
        match slot.upgrade() {
            Some(slot) => slot.persons.forget(&person),
            None => person.ended.cancel(),
        }
        opened.end(Error::new(ErrorCode::ServerUnavailable, why), plan).await;
    }
}
