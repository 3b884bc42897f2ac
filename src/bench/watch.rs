//! `test --watch`: waits until sources of a server (`dev.watch` of its entry) or the file of tests are
//! saved. The servers run meanwhile, because development mode builds and restarts running ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::stage::BenchSource;
use base::watch::Fingerprint;
use base::{SafeText, ServerName};
use check::run::CheckSignals;
use config::error::Error;
use deck::Deck;
use host::{BuildEnd, Host, HostView, Startup};

/// How often the file of tests is looked at.
const TESTS_FILE_INTERVAL: Duration = Duration::from_millis(300);

/// What was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedSource {
    /// The file of tests.
    Tests,
    /// Sources of these servers, which were built where they have to be.
    Servers(Vec<ServerName>),
    /// Sources of a server whose build failed; the end of its output.
    Broken(ServerName, Vec<SafeText>),
}

/// How often a server was restarted for its sources, and the build that failed last.
type SourceState = (u64, Option<base::Timestamp>);

/// The sources of the servers, and the file of tests.
pub struct SavedWatch {
    deck: Deck,
    tests: PathBuf,
    file: Fingerprint,
    seen: BTreeMap<ServerName, SourceState>,
}

impl SavedWatch {
    /// Starts the servers whose sources are watched.
    ///
    /// # Errors
    /// When the configuration or the policy cannot be used.
    pub async fn open(source: BenchSource, tests: &Path) -> Result<Self, Error> {
        let mut config = source.config;
        config.servers.retain(|_, entry| entry.dev.as_ref().is_some_and(|it| !it.watch.is_empty()));
        for entry in config.servers.values_mut() {
            entry.dependencies.clear();
        }
        let engine = Host::builder().startup(Startup::Background).accounts(source.accounts);
        let mut deck = Deck::builder().config(config).host(engine).policy_of(source.policy);
        deck.keep_watching = true;
        let deck = deck.open().await?;
        let seen = states(&deck.host().snapshot());
        let (tests, file) = (tests.to_owned(), Fingerprint::from_path(tests));
        Ok(Self { deck, tests, file, seen })
    }

    /// The servers whose sources are watched.
    pub fn servers(&self) -> Vec<ServerName> {
        self.deck.host().snapshot().servers.keys().cloned().collect()
    }

    /// Waits until something is saved that was not told before.
    pub async fn next(&mut self) -> SavedSource {
        let mut view = self.deck.host().view();
        let mut look = tokio::time::interval(TESTS_FILE_INTERVAL);
        loop {
            let file = Fingerprint::from_path(&self.tests);
            // Some editors remove a file before they write it anew.
            if file != self.file && file.exists() {
                self.file = file;
                return SavedSource::Tests;
            }
            let now = view.borrow_and_update().clone();
            if let Some(saved) = self.saved(&now) {
                return saved;
            }
            tokio::select! {
                changed = view.changed() => {
                    if changed.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                _ = look.tick() => {}
            }
        }
    }

    fn saved(&mut self, view: &HostView) -> Option<SavedSource> {
        let now = states(view);
        let before = std::mem::replace(&mut self.seen, now.clone());
        let old = |name: &ServerName| before.get(name).copied().unwrap_or_default();
        let broken =
            now.iter().find(|(name, (_, failed))| failed.is_some() && *failed != old(name).1);
        if let Some((name, _)) = broken {
            let dev = view.servers.get(name).and_then(|server| server.dev.as_ref());
            let build = dev.and_then(|dev| dev.build.as_ref());
            let tail = build.map(|build| build.tail.clone()).unwrap_or_default();
            return Some(SavedSource::Broken(name.clone(), tail));
        }
        let taken = now.iter().filter(|(name, (taken, _))| *taken > old(name).0);
        let taken: Vec<ServerName> = taken.map(|(name, _)| name.clone()).collect();
        (!taken.is_empty()).then_some(SavedSource::Servers(taken))
    }

    /// Stops the servers.
    pub async fn close(self, signals: &CheckSignals) {
        let host = self.deck.host().clone();
        signals.shut_down(&host, || ()).await;
    }
}

fn states(view: &HostView) -> BTreeMap<ServerName, SourceState> {
    let state = |dev: &Arc<host::DevView>| {
        let build = dev.build.as_ref().filter(|_| !dev.is_taken);
        let failed = build.and_then(|build| {
            let (end, _) = build.end.as_ref()?;
            is_failure(end).then_some(build.began)
        });
        (dev.taken, failed)
    };
    let servers = view.servers.iter();
    servers
        .map(|(name, it)| (name.clone(), it.dev.as_ref().map(state).unwrap_or_default()))
        .collect()
}

/// Whether a build ended without anything to restart.
fn is_failure(end: &BuildEnd) -> bool {
    match end {
        BuildEnd::Failed(_) | BuildEnd::Refused(_) => true,
        BuildEnd::Done | BuildEnd::Superseded => false,
    }
}
