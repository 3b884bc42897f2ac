//! One start attempt: a place among those that start, the connection, the lists.

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::text::SafeText;
use crate::config::ServerConfig;
use crate::error::{Error, ErrorCode};
use crate::host::Fact;
use crate::host::approvals::queue::QueueHandle;
use crate::host::server::account::Account;
use crate::host::server::actor::{Actor, EVENTS, Happened, lists};
use crate::host::server::connect::{OpenError, OpenRequest, Opened, Steps, StopPlan};
use crate::host::server::lifecycle::{Input, Phase};
use crate::host::server::memory::Definitions;
use crate::host::shared::Shared;
use crate::host::view::StartStep;
use crate::mcp::capabilities::{Capabilities, ListKind};
use crate::mcp::session::{FetchedList, SessionContext, SessionEvent};

/// What an attempt gave.
pub(super) struct Opening {
    pub(super) opened: Opened,
    pub(super) capabilities: Capabilities,
}

/// Everything one attempt needs.
struct Attempt {
    deck: Arc<Shared>,
    config: Arc<ServerConfig>,
    context: SessionContext,
    cancel: CancellationToken,
    steps: Steps,
    account: Arc<Account>,
}

impl Actor {
    /// Starts, or sleeps when that is wanted and it is known what the server offers.
    pub(super) async fn begin(&mut self) {
        let sleeps = self.config.on_demand && self.config.hold.is_none();
        if !sleeps || !(self.listed_before || self.recall().await) {
            return self.give(Input::Start).await;
        }
        if *self.machine.phase() == Phase::Sleeping {
            return;
        }
        self.give(Input::Sleep).await;
        self.deck.reroute();
    }

    async fn recall(&mut self) -> bool {
        let (memory, config) = (self.deck.memory.clone(), Arc::clone(&self.config));
        let Some(memory) = memory else { return false };
        let known = tokio::task::spawn_blocking(move || memory.recall(&config)).await;
        let Ok(Some(known)) = known else { return false };
        self.slot.publish(|live| live.about = Some(Arc::new(known.about)));
        self.take_lists(known.capabilities).await;
        self.deck.reroute();
        true
    }

    /// Keeps what it offers now for the time when it sleeps.
    pub(super) fn remember(&self) {
        let live = self.slot.live();
        let (Some(memory), Some(about)) = (self.deck.memory.clone(), live.about.clone()) else {
            return;
        };
        if !self.config.on_demand || !self.capabilities.partial.is_empty() {
            return;
        }
        let (config, capabilities) = (Arc::clone(&self.config), Arc::clone(&self.capabilities));
        tokio::task::spawn_blocking(move || {
            let (about, capabilities) = ((*about).clone(), (*capabilities).clone());
            memory.keep(&config, &Definitions { about, capabilities });
        });
    }

    pub(super) fn open(&mut self) {
        self.generation += 1;
        self.closed = None;
        self.refreshes = lists::Refreshes::default();
        let generation = self.generation;
        self.slot.publish(|live| live.generation = generation);
        let (events, heard) = mpsc::channel(EVENTS);
        self.events = Some(heard);
        let cancel = CancellationToken::new();
        self.opening = Some(cancel.clone());
        self.attempt_began = Some(Instant::now());
        let attempt = Attempt {
            context: self.session_context(events),
            steps: Steps::new(self.slot.name.clone(), self.deck.facts.clone()),
            deck: Arc::clone(&self.deck),
            config: Arc::clone(&self.config),
            account: Arc::clone(&self.slot.account),
            cancel,
        };
        self.work.push(attempt.run().map(|done| Happened::Opened(Box::new(done))).boxed());
    }

    fn session_context(&self, events: mpsc::Sender<SessionEvent>) -> SessionContext {
        self.slot.redactor.learn(self.config.secrets());
        SessionContext {
            server: self.slot.name.clone(),
            limits: self.config.wire.clone(),
            log_level: self.slot.log_level().or(self.config.log_level),
            clock: self.deck.clock,
            redactor: self.slot.redactor.clone(),
            traffic: self.deck.traffic.clone(),
            black_box: self.slot.black_box.clone(),
            logs: self.deck.logs.clone(),
            notices: self.deck.notices.clone(),
            events,
            approvals: Arc::new(QueueHandle(Arc::clone(&self.deck.approvals))),
            auth: None,
            bytes: Arc::clone(&self.slot.bytes),
            seen: Arc::default(),
        }
    }

    pub(super) async fn first_byte(&mut self) {
        let Some(began) = self.attempt_began else { return };
        let steps = Steps::new(self.slot.name.clone(), self.deck.facts.clone());
        steps.passed(StartStep::FirstByte, began.elapsed(), None).await;
    }

    pub(super) async fn opened(&mut self, outcome: Result<Opening, OpenError>) {
        self.opening = None;
        match outcome {
            Ok(opening) if *self.machine.phase() == Phase::Starting => {
                let Opening { opened, capabilities } = opening;
                if let Some(process) = opened.process.clone() {
                    let generation = self.generation;
                    let exited = process.exited().map(move |()| Happened::Exited(generation));
                    self.work.push(exited.boxed());
                }
                self.current = Some(opened.clone());
                self.slot.publish(|live| live.process.clone_from(&opened.process));
                self.take_lists(capabilities).await;
                self.give(Input::Opened).await;
                // It may have closed between its last answer and now.
                if let Some(reason) = self.closed.take() {
                    self.closed(reason).await;
                }
            }
            Ok(opening) => {
                // It came up just when it was no longer wanted.
                self.current = Some(opening.opened);
                self.end();
            }
            Err(failure) => {
                self.events = None;
                let reason = SafeText::line(&failure.error.message);
                let retryable = failure.retryable;
                if let Some((exit, stderr_tail)) = failure.exit {
                    let server = self.slot.name.clone();
                    self.deck.facts.record(Fact::Exited { server, exit, stderr_tail }).await;
                }
                self.advise(failure.error.help.as_deref()).await;
                self.give(Input::OpenFailed { reason, retryable }).await;
            }
        }
    }
}

impl Attempt {
    async fn run(self) -> Result<Opening, OpenError> {
        let _place = tokio::select! {
            place = self.deck.starting.enter(&*self.deck.connector) => place,
            () = self.cancel.cancelled() => return Err(OpenError::lasting(cancelled())),
        };
        let deadline = Instant::now() + self.config.startup_timeout;
        let request = OpenRequest {
            config: Arc::clone(&self.config),
            context: self.context.clone(),
            remembered: self.deck.era(&self.config),
            deadline,
            cancel: self.cancel.clone(),
            force: self.deck.force.clone(),
            steps: self.steps.clone(),
            account: Arc::clone(&self.account),
        };
        let opened = self.deck.connector.open(request).await?;
        let session = opened.session.view();
        self.deck.remember_era(&self.config, session.era);
        let server = self.config.name.clone();
        self.deck.facts.record(Fact::Connected { server, session }).await;
        let lists = tokio::select! {
            lists = self.lists(&opened) => lists,
            () = tokio::time::sleep_until(deadline) => Err(self.too_late()),
            () = self.cancel.cancelled() => Err(cancelled()),
        };
        match lists {
            Ok(capabilities) => Ok(Opening { opened, capabilities }),
            Err(error) => Err(self.give_up(opened, error).await),
        }
    }

    /// Fetches every list the server advertises, all at once (requirement L3).
    async fn lists(&self, opened: &Opened) -> Result<Capabilities, Error> {
        let view = opened.session.view();
        let fetches = ListKind::ALL.map(|kind| {
            let offered = lists::offers(&view.capabilities, kind);
            async move { if offered { self.list(opened, kind).await.map(Some) } else { Ok(None) } }
        });
        let mut capabilities = Capabilities::default();
        let fetched = futures::future::try_join_all(fetches).await?;
        for (kind, list) in ListKind::ALL.into_iter().zip(fetched) {
            if let Some(list) = list {
                capabilities.replace(kind, &list);
            }
        }
        capabilities.mask(&self.context.redactor);
        Ok(capabilities)
    }

    /// One list. An error the server answers with leaves it empty and marked; a server that does
    /// not answer has not started.
    async fn list(&self, opened: &Opened, kind: ListKind) -> Result<FetchedList, Error> {
        let running = self.steps.begin(lists::step(kind)).await;
        match opened.session.list(kind).await {
            Ok(list) => {
                let count = list.entries.len();
                match &list.partial {
                    Some(why) => self.steps.failed(running, &format!("{count}, then {why}")).await,
                    None => self.steps.done(running, &count.to_string()).await,
                }
                Ok(list)
            }
            Err(error) => {
                self.steps.failed(running, &error.message).await;
                if error.code != ErrorCode::Protocol {
                    return Err(error);
                }
                let partial = Some(SafeText::line(&error.message));
                Ok(FetchedList { partial, ..FetchedList::default() })
            }
        }
    }

    fn too_late(&self) -> Error {
        let message = format!(
            "connected, but its lists did not arrive within {:?}",
            self.config.startup_timeout
        );
        Error::new(ErrorCode::ServerStartup, message)
            .server(&self.config.name)
            .help("raise `startupTimeout`, or look at its traffic")
    }

    /// Ends what was opened, because the rest of the start failed.
    async fn give_up(&self, opened: Opened, error: Error) -> OpenError {
        if let Some(process) = &opened.process {
            process.expect_exit();
        }
        opened.session.close(error.clone()).await;
        let mut exit = None;
        if let Some(process) = &opened.process {
            let report = process.stop(StopPlan::new(&self.config, &self.deck.force)).await;
            exit = Some((report.exit, report.stderr_tail));
        }
        let retryable = error.code == ErrorCode::ServerUnavailable;
        OpenError { error, retryable, exit }
    }
}

fn cancelled() -> Error {
    Error::new(ErrorCode::Cancelled, "the start was given up")
}
