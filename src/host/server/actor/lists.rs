//! The lists of a server after its start: fetched again when they change, each at
//! most once per `limits.refetch`, however often the server notifies.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::Fact;
use crate::collisions::{OfferedList, are_related, collisions, has_uris};
use crate::server::actor::{Actor, Addressee, Happened};
use base::human::Dur;
use base::text::cut;
use base::{LogLevel, LogRecord, LogSource, SafeText, ServerName, Timestamp};
use config::ToolFilter;
use config::error::{Error, ErrorCode};
use mcp::SessionHandle;
use protocol::{
    Capabilities, FetchedList, Finding, FindingKind, ListChanges, ListKind, Notice, NoticeKind,
};

/// State of the fetches, per list.
#[derive(Default)]
pub(super) struct Refreshes([Refresh; 4]);

#[derive(Default)]
struct Refresh {
    last: Option<Instant>,
    running: bool,
    planned: bool,
    /// The list changed again while it was being fetched.
    again: bool,
}

impl Actor<'_> {
    pub(super) fn list_changed(&mut self, kind: ListKind) {
        self.forget_answers(kind);
        self.plan_fetch(kind);
        // The specification has one notification for resources and their templates.
        if kind == ListKind::Resources {
            self.plan_fetch(ListKind::ResourceTemplates);
        }
    }

    fn plan_fetch(&mut self, kind: ListKind) {
        let least = self.config.wire.refetch;
        let refresh = &mut self.refreshes.0[kind as usize];
        if refresh.running {
            refresh.again = true;
        } else if !refresh.planned {
            refresh.planned = true;
            let due = refresh.last.map_or_else(Instant::now, |last| last + least);
            let wait = tokio::time::sleep_until(due);
            self.wait_for(Addressee::Session, wait.map(move |()| Happened::RefreshDue(kind)));
        }
    }

    pub(super) fn fetch(&mut self, kind: ListKind) {
        let refresh = &mut self.refreshes.0[kind as usize];
        refresh.planned = false;
        let Some(opened) = &self.current else { return };
        if refresh.running {
            return;
        }
        refresh.running = true;
        refresh.last = Some(Instant::now());
        let limit = self.config.request_timeout;
        let list = fetch(opened.session.as_ref(), kind, limit);
        self.wait_for(Addressee::Session, list.map(move |list| Happened::Listed(kind, list)));
    }

    pub(super) fn refresh_all(&mut self, done: oneshot::Sender<Result<(), Error>>) {
        let live = self.slot.live();
        let Some(session) = &live.session else {
            let _ = done.send(Err(live.unavailable()));
            return;
        };
        let (view, limit) = (session.view(), self.config.request_timeout);
        let offered = ListKind::ALL.into_iter().filter(|kind| view.offers(*kind));
        let lists = offered
            .map(|kind| fetch(session.as_ref(), kind, limit).map(move |list| (kind, list)).boxed());
        let lists = futures::future::join_all(lists);
        self.wait_for(Addressee::Session, lists.map(|lists| Happened::Refreshed(lists, done)));
    }

    pub(super) async fn refreshed(
        &mut self,
        lists: Vec<(ListKind, Result<FetchedList, Error>)>,
        done: oneshot::Sender<Result<(), Error>>,
    ) {
        let failed = lists.iter().find_map(|(_, list)| list.as_ref().err().cloned());
        for (kind, list) in lists {
            self.listed(kind, list).await;
        }
        let _ = done.send(failed.map_or(Ok(()), Err));
    }

    pub(super) async fn listed(&mut self, kind: ListKind, result: Result<FetchedList, Error>) {
        let refresh = &mut self.refreshes.0[kind as usize];
        refresh.running = false;
        if std::mem::take(&mut refresh.again) {
            self.plan_fetch(kind);
        }
        match result {
            Ok(list) => {
                let mut capabilities = Capabilities::clone(&self.capabilities);
                capabilities.replace(kind, &list, &self.slot.redactor);
                self.take_lists(capabilities).await;
                self.shared.reroute();
            }
            Err(error) => self.list_failed(kind, &error).await,
        }
    }

    /// Publishes the lists without the tools the entry hides, and records the changes.
    pub(super) async fn take_lists(&mut self, mut capabilities: Capabilities) {
        let hidden = hide(&mut capabilities, &self.config.tools);
        let capabilities = Arc::new(capabilities);
        let changes = self
            .listed_before
            .then(|| ListChanges::between(&self.capabilities, &capabilities).map(Arc::new))
            .flatten();
        let is_news =
            !self.listed_before || changes.is_some() || *self.capabilities != *capabilities;
        self.listed_before = true;
        self.capabilities = Arc::clone(&capabilities);
        self.slot.publish(|live| {
            live.capabilities = Arc::clone(&capabilities);
            live.hidden = hidden;
        });
        for finding in bad_entries(&capabilities, self.shared.clock.now()) {
            self.record(Fact::Found { finding }).await;
        }
        if is_news {
            for finding in self.collisions() {
                self.record(Fact::Found { finding }).await;
            }
            self.record(Fact::Listed { capabilities, changes }).await;
        }
    }

    /// Names and URIs of its lists that lead to items of other servers too.
    fn collisions(&self) -> Vec<Finding> {
        let slots = self.shared.slots();
        let of = |may_matter: &dyn Fn(&ServerName) -> bool| -> Vec<OfferedList> {
            let slots = slots.values().filter(|slot| may_matter(&slot.name));
            slots.map(|slot| (slot.name.clone(), Arc::clone(&slot.live().capabilities))).collect()
        };
        let own = &self.slot.name;
        // Most servers collide with none of those whose names are like theirs, and need not look at
        // the lists of all.
        let is_likely = has_uris(&self.capabilities)
            || !collisions(own, &of(&|other| other == own || are_related(own, other))).is_empty();
        if !is_likely {
            return Vec::new();
        }
        let now = self.shared.clock.now();
        let found = collisions(own, &of(&|_| true)).into_iter();
        found.map(|(list, text)| about(list, FindingKind::Collision, now, &text)).collect()
    }

    async fn list_failed(&mut self, kind: ListKind, error: &Error) {
        let text = format!("could not be fetched again; keeping the old list: {}", error.message);
        let finding = about(kind, FindingKind::PartialList, self.shared.clock.now(), &text);
        self.record(Fact::Found { finding }).await;
    }

    /// Invalidates cached results of a list that changed.
    fn forget_answers(&self, kind: ListKind) {
        let method = match kind {
            ListKind::Prompts => "prompts/get",
            ListKind::Resources | ListKind::ResourceTemplates => "resources/read",
            ListKind::Tools => return,
        };
        let reason = SafeText::line(&format!("{} changed", kind.method()));
        self.shared.cache.invalidate(&reason, self.shared.clock.now(), |key| {
            key.server == self.slot.name && key.method == method
        });
    }

    pub(super) fn resource_updated(&self, uri: &str) {
        let reason = SafeText::line("the server says that the resource was updated");
        let params = crate::cache::resource_params(uri);
        self.shared.cache.invalidate(&reason, self.shared.clock.now(), |key| {
            key.server == self.slot.name && key.params == params
        });
        self.log_info(&format!("resource updated: {uri}"));
        // Sent after the invalidation, so that receivers read the new version.
        let (server, kind) = (self.slot.name.clone(), NoticeKind::Updated { uri: uri.into() });
        let _ = self.shared.notices.send(Notice { server, kind });
    }

    /// Adds an informational record to the server's log.
    pub(super) fn log_info(&self, text: &str) {
        self.log(LogLevel::Info, text);
    }

    pub(super) fn log(&self, level: LogLevel, text: &str) {
        self.shared.logs.push(Arc::new(LogRecord {
            at: self.shared.clock.now(),
            server: Some(self.slot.name.clone()),
            source: LogSource::Host,
            level,
            logger: None,
            text: SafeText::line(text),
        }));
    }
}

fn fetch(
    session: &dyn SessionHandle,
    kind: ListKind,
    limit: Duration,
) -> impl Future<Output = Result<FetchedList, Error>> + Send + use<> {
    let fetch = session.list(kind);
    async move {
        tokio::time::timeout(limit, fetch).await.unwrap_or_else(|_| {
            let message = format!("no answer within {}", Dur(limit));
            Err(Error::new(ErrorCode::Timeout, message).request(kind.method()))
        })
    }
}

/// Removes the tools hidden by the filter and returns their names.
fn hide(capabilities: &mut Capabilities, filter: &ToolFilter) -> Arc<[Arc<str>]> {
    let visible = crate::naming::Visible::new(filter)
        .inspect_err(|error| {
            tracing::error!(
                target: "mcpdeck::server", action = "hide",
                "no tool is shown, because the filter `tools` of the entry cannot be read: {error}"
            );
        })
        .ok();
    let shows = |name: &str| visible.as_ref().is_some_and(|visible| visible.shows(name));
    let (shown, hidden): (Vec<_>, Vec<_>) =
        std::mem::take(&mut capabilities.tools).into_iter().partition(|tool| shows(&tool.name));
    capabilities.tools = shown;
    hidden.into_iter().map(|tool| Arc::clone(&tool.name)).collect()
}

fn bad_entries(capabilities: &Capabilities, at: Timestamp) -> Vec<Finding> {
    const MAX_RAW_BYTES: usize = 4 << 10;
    let entries = capabilities.rejected.iter().map(|entry| {
        let (method, reason) = (entry.list.method(), &entry.reason);
        let text = format!("entry {} of {method} was set aside: {reason}", entry.index);
        let raw = SafeText::line(cut(&entry.raw.to_string(), MAX_RAW_BYTES));
        Finding { raw, ..about(entry.list, FindingKind::BadEntry, at, &text) }
    });
    let partial = capabilities.partial.iter().map(|(kind, reason)| {
        let text = format!("{} is not complete: {reason}", kind.method());
        about(*kind, FindingKind::PartialList, at, &text)
    });
    // Limits the findings of a hostile list; the rejected entries themselves are all kept.
    entries.take(32).chain(partial).collect()
}

fn about(list: ListKind, kind: FindingKind, at: Timestamp, text: &str) -> Finding {
    Finding { request: Some(SafeText::line(list.method())), ..Finding::new(kind, at, text) }
}
