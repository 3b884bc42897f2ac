//! One start attempt: the permit to start, the connection, the lists.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Fact;
use crate::failure::StartCause;
use crate::server::connect::{
    EXIT_TIMEOUT, ExitReport, OpenError, OpenRequest, Opened, RunningStep, StopPlan,
};
use crate::server::remedy::{FailureOutput, error_text, remedy};
use crate::shared::HostShared;
use crate::view::StartStep;
use base::SafeText;
use config::error::{Error, ErrorCode};
use protocol::{Capabilities, FetchedList, ListKind, PartialList};

/// The result of a successful attempt.
pub(super) struct Opening {
    pub(super) opened: Opened,
    pub(super) capabilities: Capabilities,
}

/// Everything one attempt needs.
pub(super) struct OpenAttempt {
    pub(super) shared: Arc<HostShared>,
    pub(super) request: OpenRequest,
    /// Set once the attempt has its permit: what it waited for that is no time of the server.
    pub(super) admitted: Arc<OnceLock<Instant>>,
}

/// The list requests that are not answered yet.
type Unanswered = Mutex<BTreeMap<ListKind, RunningStep>>;

impl OpenAttempt {
    pub(super) async fn run(mut self) -> Result<Opening, OpenError> {
        let place = self.shared.starting.enter(&*self.shared.connector);
        let place = self.request.cancel.run_until_cancelled(place).await;
        let _place = place.ok_or_else(|| OpenError::lasting(cancelled()))?;
        // Waiting for the permit does not count against the startup timeout.
        let config = Arc::clone(&self.request.config);
        let began = *self.admitted.get_or_init(Instant::now);
        let deadline = began + config.startup_timeout;
        self.request.deadline = deadline;
        let opened = self.shared.connector.open(self.request.clone()).await?;
        let session = opened.session.view();
        self.shared.remember_era(&config, session.era);
        self.shared.facts.record(&config.name, Fact::Connected { session }).await;
        let (connected, unanswered) = (Instant::now(), Unanswered::default());
        let mut is_late = false;
        let lists = tokio::select! {
            biased;
            lists = self.lists(&opened, &unanswered) => lists,
            () = tokio::time::sleep_until(deadline) => {
                is_late = true;
                let left = std::mem::take(&mut *unanswered.lock());
                Err(self.too_late(connected - began, left).await)
            }
            () = self.request.cancel.cancelled() => Err(cancelled()),
        };
        match lists {
            Ok(capabilities) => Ok(Opening { opened, capabilities }),
            Err(error) => {
                is_late |= error.code == ErrorCode::Timeout;
                let cause = if is_late { StartCause::TimedOut } else { StartCause::Other };
                Err(self.give_up(opened, error, cause).await)
            }
        }
    }

    /// Fetches every list the server advertises, all at once.
    async fn lists(&self, opened: &Opened, unanswered: &Unanswered) -> Result<Capabilities, Error> {
        let view = opened.session.view();
        let fetches = ListKind::ALL.map(|kind| {
            let offered = view.offers(kind);
            async move {
                if !offered {
                    return Ok(None);
                }
                self.list(opened, kind, unanswered).await.map(Some)
            }
        });
        let mut capabilities = Capabilities::default();
        let fetched = futures::future::try_join_all(fetches).await?;
        for (kind, list) in ListKind::ALL.into_iter().zip(fetched) {
            if let Some(list) = list {
                capabilities.replace(kind, &list, &self.request.context.redactor);
            }
        }
        Ok(capabilities)
    }

    /// Fetches one list. On an error response it is empty and marked as partial; without a response
    /// the start fails.
    async fn list(
        &self,
        opened: &Opened,
        kind: ListKind,
        unanswered: &Unanswered,
    ) -> Result<FetchedList, Error> {
        let steps = &self.request.steps;
        let running = steps.begin(StartStep::listing(kind)).await;
        unanswered.lock().insert(kind, running);
        let answer = opened.session.list(kind).await;
        unanswered.lock().remove(&kind);
        match answer {
            Ok(list) => {
                let count = list.entries.len();
                match &list.partial {
                    Some(why) => steps.failed(running, &format!("{count}, then {why}")).await,
                    None => steps.done(running, &count.to_string()).await,
                }
                Ok(list)
            }
            Err(error) => {
                steps.failed(running, &error.message).await;
                if error.code != ErrorCode::Protocol {
                    return Err(error);
                }
                let partial = Some(PartialList::Refused(SafeText::line(&error.message)));
                Ok(FetchedList { partial, ..FetchedList::default() })
            }
        }
    }

    /// The startup timeout passed before these lists arrived.
    async fn too_late(&self, connected: Duration, left: BTreeMap<ListKind, RunningStep>) -> Error {
        let config = &self.request.config;
        let rest = config.startup_timeout.saturating_sub(connected);
        let (methods, rest) = (left.keys().map(|kind| kind.method()), rest.as_secs_f64());
        let methods = methods.map(|method| format!("`{method}`")).collect::<Vec<_>>().join(", ");
        let message = format!(
            "connected after {:.1} s, then no answer to {methods} in the {rest:.1} s that were \
             left of the startup timeout of {} s",
            connected.as_secs_f64(),
            config.startup_timeout.as_secs_f64()
        );
        for (kind, step) in left {
            let cause = format!("no answer to `{}` in {rest:.1} s", kind.method());
            self.request.steps.failed(step, &cause).await;
        }
        Error::new(ErrorCode::ServerStartup, message)
            .server(&config.name)
            .help("raise `startupTimeout`, or look at its traffic")
    }

    /// Closes the session and stops the process after the rest of the start failed.
    async fn give_up(&self, opened: Opened, mut error: Error, mut cause: StartCause) -> OpenError {
        let plan = StopPlan::new(&self.request.config, &self.shared.force);
        let by_itself = match &opened.process {
            // A closed connection: how the process ends is the better reason.
            Some(process) if error.code == ErrorCode::ServerUnavailable => {
                tokio::time::timeout(EXIT_TIMEOUT, process.exited()).await.is_ok()
            }
            _ => false,
        };
        let exit = opened.end(error.clone(), plan).await;
        if let Some(ExitReport { exit, stderr_tail }) = exit.as_ref().filter(|_| by_itself) {
            cause = StartCause::Exited;
            let said = error_text(stderr_tail).map(|text| format!(": {text}"));
            let said = said.unwrap_or_default();
            error.message = format!("{} while its lists were fetched{said}", exit.describe());
            let output = FailureOutput {
                exit: Some(exit),
                stderr: stderr_tail,
                junk: None,
                was_ready: false,
            };
            if let Some(help) = remedy(output) {
                error = error.help(help);
            }
        }
        let retryable = error.code == ErrorCode::ServerUnavailable;
        OpenError { error, retryable, exit, failure: cause.into() }
    }
}

fn cancelled() -> Error {
    Error::new(ErrorCode::Cancelled, "the start was given up")
}
