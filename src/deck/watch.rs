//! Follows the files of a configuration and delivers each stable state.
//!
//! Watches folders, never files: a file that is replaced by rename, deleted and recreated, or
//! swapped behind a symbolic link is a different file, and a watch on the old one reports nothing.
//! A valid state is delivered after a short debounce; one with errors only after a longer one,
//! because a partial, empty or briefly missing file looks like an error too. Fingerprints are
//! compared around loading, so that no state is delivered that was being written.
//!
//! Overflow policy: at most one state waits for the consumer, and a newer one replaces it. File
//! system events only trigger a check; a lost or duplicate event changes nothing. Events can fail
//! (full watch tables, network file systems): then the files are polled, and slowly also otherwise.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::Event;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use config::{Diagnostic, Environment, Loaded, load};

use base::watch::{Fingerprint, FolderWatch, Targets, WatchMode};

/// A loaded state of the files.
pub type LoadResult = Result<Loaded, Vec<Diagnostic>>;

/// Debounce before a valid state is delivered.
const DEBOUNCE_INTERVAL: Duration = Duration::from_millis(40);
/// Polling interval when the file system reports changes.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);
/// Polling interval when it does not.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How to start watching.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Debounce before a state with errors is delivered (default 500 ms).
    pub settle_timeout: Duration,
    /// Poll even where the file system reports changes.
    pub poll_only: bool,
    /// The state that the consumer already has; without it the first state is delivered too.
    pub known: Option<LoadResult>,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { settle_timeout: Duration::from_millis(500), poll_only: false, known: None }
    }
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct ConfigWatch {
    states: mpsc::Receiver<(std::time::Instant, LoadResult)>,
    environment: watch::Sender<Arc<Environment>>,
    wake: Arc<Notify>,
    mode: watch::Receiver<WatchMode>,
    task: JoinHandle<()>,
}

impl ConfigWatch {
    /// Watches `files`, in order of precedence. Must be called within a tokio runtime.
    pub fn start(files: Vec<PathBuf>, env: Environment, options: WatchOptions) -> Self {
        let (sender, states) = mpsc::channel(1);
        let (environment, env) = watch::channel(Arc::new(env));
        let wake = Arc::new(Notify::new());
        let reports = Reports::open(options.poll_only, Arc::clone(&wake));
        let (mode_sender, mode) = watch::channel(reports.watch.mode.clone());
        let task = WatchTask {
            files,
            env,
            settle_timeout: options.settle_timeout,
            known: options.known,
            wake: Arc::clone(&wake),
            reports,
            mode: mode_sender,
            seen: Vec::new(),
            read_at: std::time::Instant::now(),
        };
        let task = tokio::spawn(task.run(sender));
        Self { states, environment, wake, mode, task }
    }

    /// The next state that differs from the one before. Cancel-safe.
    pub async fn next(&mut self) -> Option<LoadResult> {
        self.next_read().await.map(|(_, state)| state)
    }

    /// As [`ConfigWatch::next`], with the time at which the state began to be read: who has read the
    /// files since then knows better. Cancel-safe.
    pub async fn next_read(&mut self) -> Option<(std::time::Instant, LoadResult)> {
        self.states.recv().await
    }

    /// Reloads with another environment, for example when an input was answered.
    pub fn set_environment(&self, env: Environment) {
        self.environment.send_replace(Arc::new(env));
        self.wake.notify_one();
    }

    /// How changes are detected.
    pub fn mode(&self) -> WatchMode {
        self.mode.borrow().clone()
    }
}

impl Drop for ConfigWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// File system events.
struct Reports {
    watch: FolderWatch,
    targets: Arc<Mutex<Targets>>,
}

impl Reports {
    fn open(poll_only: bool, wake: Arc<Notify>) -> Self {
        let targets = Arc::new(Mutex::new(Targets::default()));
        let event_targets = Arc::clone(&targets);
        let watch = FolderWatch::open(poll_only, move |event| {
            // After lost events, check rather than miss a change.
            if event.is_none_or(|event| concerns(&event, &event_targets)) {
                wake.notify_one();
            }
        });
        Self { watch, targets }
    }

    /// Watches the folders of `wanted`, and no others.
    fn aim(&mut self, wanted: Targets) {
        // Release the lock before calling the watcher: its event thread also takes this lock, to
        // filter events.
        self.targets.lock().clone_from(&wanted);
        self.watch.aim(&wanted.folders, wanted.remote);
    }
}

fn concerns(event: &Event, targets: &Mutex<Targets>) -> bool {
    let targets = targets.lock();
    event.need_rescan()
        || event.paths.is_empty()
        || event.paths.iter().any(|path| {
            targets.folders.contains(path)
                || path.file_name().is_some_and(|name| targets.names.contains(name))
        })
}

/// Watches files that other programs of the user write, such as approvals. Dropping it ends it.
pub struct FileWatch {
    paths: Vec<PathBuf>,
    changed: Arc<Notify>,
    task: JoinHandle<()>,
}

impl FileWatch {
    /// Watches files, which need not be there yet. Must be called within a tokio runtime.
    pub fn start(paths: Vec<PathBuf>, poll_only: bool) -> Self {
        let (wake, changed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut reports = Reports::open(poll_only, Arc::clone(&wake));
        let (watched, report) = (paths.clone(), Arc::clone(&changed));
        let task = tokio::spawn(async move {
            // The first look counts as a change: there may have been one since they were read.
            let mut seen = None;
            loop {
                // Also when nothing changed: a folder on the way may be there by now.
                reports.aim(Targets::from_paths(&watched));
                let paths = watched.clone();
                let Some(now) = blocking(move || base::watch::fingerprints(&paths)).await else {
                    return;
                };
                if seen.replace(now.clone()) != Some(now) {
                    report.notify_one();
                }
                let _ = timeout(period(&reports.watch.mode), wake.notified()).await;
            }
        });
        Self { paths, changed, task }
    }

    /// What it watches.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Waits until a file has changed. Cancel-safe.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How often files are looked at, whatever the file system reports.
const fn period(mode: &WatchMode) -> Duration {
    match mode {
        WatchMode::Events => SWEEP_INTERVAL,
        WatchMode::Polling(_) => POLL_INTERVAL,
    }
}

/// The task of a watch.
struct WatchTask {
    files: Vec<PathBuf>,
    env: watch::Receiver<Arc<Environment>>,
    settle_timeout: Duration,
    known: Option<LoadResult>,
    wake: Arc<Notify>,
    reports: Reports,
    mode: watch::Sender<WatchMode>,
    seen: Vec<Fingerprint>,
    /// When the last load began.
    read_at: std::time::Instant,
}

impl WatchTask {
    async fn run(mut self, sender: mpsc::Sender<(std::time::Instant, LoadResult)>) {
        loop {
            let Some(state) = self.settled().await else { return };
            if self.known.as_ref() != Some(&state) {
                // Until the consumer takes it, a newer state may replace it.
                tokio::select! {
                    permit = sender.reserve() => {
                        let Ok(permit) = permit else { return };
                        self.known = Some(state.clone());
                        permit.send((self.read_at, state));
                    }
                    () = self.changed() => continue,
                }
            }
            tokio::select! {
                () = self.changed() => {}
                () = sender.closed() => return,
            }
        }
    }

    /// Waits until something may have changed.
    async fn changed(&self) {
        loop {
            let period = period(&self.mode.borrow());
            tokio::select! {
                () = self.wake.notified() => return,
                () = sleep(period) => if self.differs().await == Some(true) { return },
            }
        }
    }

    /// Whether the files changed since the last load. `None` when the runtime shuts down.
    async fn differs(&self) -> Option<bool> {
        let paths: Vec<PathBuf> = self.seen.iter().map(|f| f.path.clone()).collect();
        Some(blocking(move || base::watch::fingerprints(&paths)).await? != self.seen)
    }

    /// The state of the files once they are stable. `None` when the runtime shuts down.
    async fn settled(&mut self) -> Option<LoadResult> {
        let mut patient = false;
        loop {
            if patient {
                // Possibly a partial file: wait for the rest. A change restarts this.
                patient = timeout(self.settle_timeout, self.changed()).await.is_err();
            }
            if !patient {
                self.silence().await;
            }
            let state = self.load().await?;
            if self.differs().await? {
                patient = false;
                continue;
            }
            let sound = state.as_ref().is_ok_and(|loaded| !loaded.has_errors());
            if sound || patient || self.known.as_ref() == Some(&state) {
                return Some(state);
            }
            patient = true;
        }
    }

    /// Waits for [`DEBOUNCE_INTERVAL`] without an event, at most `settle_timeout` in total.
    async fn silence(&self) {
        let end = Instant::now() + self.settle_timeout;
        while Instant::now() < end {
            if timeout(DEBOUNCE_INTERVAL, self.wake.notified()).await.is_err() {
                return;
            }
        }
    }

    /// Loads with fingerprints taken before, and watches the folders of what was read.
    async fn load(&mut self) -> Option<LoadResult> {
        let (files, env) = (self.files.clone(), Arc::clone(&self.env.borrow()));
        let mut paths: Vec<PathBuf> = files.iter().map(|file| env.absolute(file)).collect();
        paths.extend(self.seen.iter().map(|f| f.path.clone()));
        paths.sort();
        paths.dedup();
        self.read_at = std::time::Instant::now();
        let (prints, state, wanted) = blocking(move || {
            let before = base::watch::fingerprints(&paths);
            let state = load(&files, &env);
            let mut all: Vec<PathBuf> = files.iter().map(|file| env.absolute(file)).collect();
            match &state {
                Ok(loaded) => all.extend(loaded.reads.iter().map(|file| env.absolute(file))),
                // The files of an unreadable state are unknown: keep the previous ones.
                Err(_) => all = paths,
            }
            all.sort();
            all.dedup();
            let prints: Vec<Fingerprint> = all
                .iter()
                .map(|path| match before.iter().find(|print| print.path == *path) {
                    Some(print) => print.clone(),
                    None => Fingerprint::from_path(path),
                })
                .collect();
            (prints, state, Targets::from_paths(&all))
        })
        .await?;
        self.seen = prints;
        self.reports.aim(wanted);
        self.mode.send_replace(self.reports.watch.mode.clone());
        Some(state)
    }
}

/// Runs disk access on the blocking pool. `None` when the runtime shuts down.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
