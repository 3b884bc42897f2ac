//! One start attempt: the permit to start, the connection, the lists.

use std::sync::Arc;

use tokio::time::Instant;

use crate::Fact;
use crate::server::connect::{EXIT_TIMEOUT, ExitReport, OpenError, OpenRequest, Opened, StopPlan};
use crate::server::remedy::{FailureOutput, error_text, remedy};
use crate::shared::HostShared;
use crate::view::StartStep;
use base::SafeText;
use base::human::Dur;
use config::error::{Error, ErrorCode};
use protocol::{Capabilities, FetchedList, ListKind};

/// The result of a successful attempt.
pub(super) struct Opening {
    pub(super) opened: Opened,
    pub(super) capabilities: Capabilities,
}

/// Everything one attempt needs.
pub(super) struct OpenAttempt {
    pub(super) shared: Arc<HostShared>,
    pub(super) request: OpenRequest,
}

impl OpenAttempt {
    pub(super) async fn run(mut self) -> Result<Opening, OpenError> {
        let place = self.shared.starting.enter(&*self.shared.connector);
        let place = self.request.cancel.run_until_cancelled(place).await;
        let _place = place.ok_or_else(|| OpenError::lasting(cancelled()))?;
        // Waiting for the permit does not count against the startup timeout.
        let config = Arc::clone(&self.request.config);
        let deadline = Instant::now() + config.startup_timeout;
        self.request.deadline = deadline;
        let opened = self.shared.connector.open(self.request.clone()).await?;
        let session = opened.session.view();
        self.shared.remember_era(&config, session.era);
        self.shared.facts.record(&config.name, Fact::Connected { session }).await;
        let lists = tokio::select! {
            lists = self.lists(&opened) => lists,
            () = tokio::time::sleep_until(deadline) => Err(self.too_late()),
            () = self.request.cancel.cancelled() => Err(cancelled()),
        };
        match lists {
            Ok(capabilities) => Ok(Opening { opened, capabilities }),
            Err(error) => Err(self.give_up(opened, error).await),
        }
    }

    /// Fetches every list the server advertises, all at once.
    async fn lists(&self, opened: &Opened) -> Result<Capabilities, Error> {
        let view = opened.session.view();
        let fetches = ListKind::ALL.map(|kind| {
            let offered = view.offers(kind);
            async move { if offered { self.list(opened, kind).await.map(Some) } else { Ok(None) } }
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
    async fn list(&self, opened: &Opened, kind: ListKind) -> Result<FetchedList, Error> {
        let steps = &self.request.steps;
        let running = steps.begin(StartStep::listing(kind)).await;
        match opened.session.list(kind).await {
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
                let partial = Some(SafeText::line(&error.message));
                Ok(FetchedList { partial, ..FetchedList::default() })
            }
        }
    }

    fn too_late(&self) -> Error {
        let config = &self.request.config;
        let message = format!(
            "connected, but its lists did not arrive within {}",
            Dur(config.startup_timeout)
        );
        Error::new(ErrorCode::ServerStartup, message)
            .server(&config.name)
            .help("raise `startupTimeout`, or look at its traffic")
    }

    /// Closes the session and stops the process after the rest of the start failed.
    async fn give_up(&self, opened: Opened, mut error: Error) -> OpenError {
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
        OpenError { error, retryable, exit }
    }
}

fn cancelled() -> Error {
    Error::new(ErrorCode::Cancelled, "the start was given up")
}
