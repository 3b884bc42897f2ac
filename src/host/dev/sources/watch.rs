//! Follows the sources of one server and delivers each change that rests.
//!
//! What the file system reports is only a reason to look: files are compared with what is known
//! of them, and when folders or ignore rules change, everything is looked at again. Where nothing
//! is reported (network file systems, full watch tables) the clock is the reason.
//!
//! Overflow policy: reports wait in a bounded queue; when it is full the rest is dropped and
//! everything is looked at. At most one change waits for the consumer; later ones join it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::{SourceMatcher, Survey};
use crate::base::WatchMode;
use crate::base::watch::is_change;
use crate::base::watch::{Fingerprint, remote};
use crate::config::DevConfig;

/// Reports that may wait.
const REPORTS: usize = 1024;

/// How to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceOptions {
    /// Silence before a change is delivered: formatters and checkouts write in bursts (100 ms).
    pub quiet: Duration,
    /// A tree that never rests is delivered after this long all the same (2 s).
    pub patience: Duration,
    /// How often files are looked at where nothing is reported (500 ms).
    pub poll: Duration,
    /// Look by the clock even where the file system would report.
    pub poll_only: bool,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(100),
            patience: Duration::from_secs(2),
            poll: Duration::from_millis(500),
            poll_only: false,
        }
    }
}

/// What is being watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Source files there are.
    pub files: usize,
    /// Whether there are more folders than are looked into.
    pub is_cut: bool,
    /// How changes are noticed.
    pub mode: WatchMode,
}

/// Sources that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceChange {
    /// The files, in order, at most [`SourceChange::NAMED`] of them.
    pub files: Vec<PathBuf>,
    /// How many more there are.
    pub more: usize,
}

impl SourceChange {
    /// Most files named in one change.
    pub const NAMED: usize = 256;

    fn of(mut all: BTreeSet<PathBuf>) -> Self {
        let more = all.len().saturating_sub(Self::NAMED);
        let mut files = Vec::with_capacity(all.len() - more);
        while files.len() < Self::NAMED
            && let Some(file) = all.pop_first()
        {
            files.push(file);
        }
        Self { files, more }
    }
}

/// Follows the sources of one server. Dropping it ends it.
#[derive(Debug)]
pub struct SourceWatch {
    changes: mpsc::Receiver<SourceChange>,
    watched: watch::Receiver<Watched>,
    task: JoinHandle<()>,
}

impl SourceWatch {
    /// Starts watching below `root`, the absolute working directory of the server. Every change
    /// after this returned is seen.
    ///
    /// # Errors
    /// Names a glob that is none.
    pub async fn start(
        root: &Path,
        dev: &DevConfig,
        options: SourceOptions,
    ) -> Result<Self, String> {
        let (root, dev) = (root.to_path_buf(), dev.clone());
        let (heard, reports) = mpsc::channel(REPORTS);
        let opened = move || -> Result<Eyes, String> {
            let matcher = SourceMatcher::new(&root, &dev)?;
            let mut eyes = Eyes::open(matcher, options, heard);
            eyes.look();
            Ok(eyes)
        };
        let opened = tokio::task::spawn_blocking(opened).await;
        let eyes = opened.map_err(|_| "the runtime is going down".to_owned())??;
        let (watched_sender, watched) = watch::channel(eyes.watched());
        let (sender, changes) = mpsc::channel(1);
        let work = Work { eyes: Some(eyes), reports, options, watched: watched_sender };
        let task = tokio::spawn(work.run(sender));
        Ok(Self { changes, watched, task })
    }

    /// The next change. Cancel-safe.
    pub async fn next(&mut self) -> Option<SourceChange> {
        self.changes.recv().await
    }

    /// What is being watched, now and later.
    pub fn watched(&self) -> watch::Receiver<Watched> {
        self.watched.clone()
    }
}

impl Drop for SourceWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is known of the files, and what hears of them. Touches the disk: used off the runtime's
/// threads.
struct Eyes {
    matcher: SourceMatcher,
    watcher: Option<RecommendedWatcher>,
    known: Survey,
    /// The folders that are watched, each with when it was made.
    aimed: BTreeMap<PathBuf, Option<SystemTime>>,
    mode: WatchMode,
    /// Set when reports were lost.
    lossy: Arc<AtomicBool>,
}

impl Eyes {
    fn open(matcher: SourceMatcher, options: SourceOptions, heard: mpsc::Sender<Event>) -> Self {
        let lossy = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&lossy);
        let hear = move |event: notify::Result<Event>| match event {
            Ok(event) if !is_change(&event) => {}
            Ok(event) => {
                let rescan = event.need_rescan();
                if rescan || heard.try_send(event).is_err() {
                    lost.store(true, Ordering::SeqCst);
                }
            }
            Err(_) => {
                lost.store(true, Ordering::SeqCst);
                // A queue that is full wakes by itself.
                let _ = heard.try_send(Event::default());
            }
        };
        let (watcher, mode) = if options.poll_only {
            (None, WatchMode::Polling("asked for".to_owned()))
        } else {
            match notify::recommended_watcher(hear) {
                Ok(watcher) => (Some(watcher), WatchMode::Events),
                Err(error) => (None, WatchMode::Polling(error.to_string())),
            }
        };
        Self { matcher, watcher, known: Survey::default(), aimed: BTreeMap::new(), mode, lossy }
    }

    /// Looks at everything; gives the files that are not as they were.
    fn look(&mut self) -> BTreeSet<PathBuf> {
        let mut found = self.matcher.survey();
        if self.aim(&found) {
            // What appeared between the look and the watch would be missed.
            found = self.matcher.survey();
        }
        let changed = difference(&self.known.files, &found.files);
        self.known = found;
        changed
    }

    /// Watches the folders of a survey, and no others; gives whether there are new ones.
    fn aim(&mut self, found: &Survey) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        for gone in self.known.folders.difference(&found.folders) {
            // It may be deleted already, and its watch with it.
            let _ = watcher.unwatch(gone);
            self.aimed.remove(gone);
        }
        let mut fresh = false;
        let mut trouble = found.folders.iter().next().and_then(|folder| remote(folder));
        for folder in &found.folders {
            // A folder made anew under the same name has no watch. Linux takes a second watch for
            // the first and is asked each time; Windows would keep both for good, and with the
            // first the folder that it was made for.
            let made = folder.metadata().and_then(|folder| folder.created()).ok();
            let known = self.aimed.get(folder) == Some(&made);
            if known && !cfg!(target_os = "linux") {
                continue;
            }
            if self.aimed.insert(folder.clone(), made).is_some() && !cfg!(target_os = "linux") {
                let _ = watcher.unwatch(folder);
            }
            fresh |= !known;
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive)
                && folder.is_dir()
            {
                self.aimed.remove(folder);
                trouble = Some(error.to_string());
                break;
            }
        }
        self.mode = trouble.map_or(WatchMode::Events, WatchMode::Polling);
        fresh
    }

    /// Looks at what was reported; gives the files that are not as they were.
    fn settle(&mut self, reported: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let lost = self.lossy.swap(false, Ordering::SeqCst);
        let polling = matches!(self.mode, WatchMode::Polling(_));
        let moved = |path: &PathBuf| {
            self.known.folders.contains(path)
                || path.file_name().is_some_and(|name| name == ".gitignore")
                || path.is_dir()
        };
        if lost || polling || reported.iter().any(moved) {
            let mut changed = self.look();
            // Files that are reported and look the same were written with the same times.
            changed.retain(|path| self.matcher.matches(path));
            return changed;
        }
        let mut changed = BTreeSet::new();
        for path in reported.iter().filter(|path| self.matcher.matches(path)) {
            let now = Fingerprint::of(path);
            if self.known.files.get(path).map_or(now.exists(), |known| *known != now) {
                changed.insert(path.clone());
            }
            if now.exists() {
                self.known.files.insert(path.clone(), now);
            } else {
                self.known.files.remove(path);
            }
        }
        changed
    }

    fn watched(&self) -> Watched {
        Watched {
            files: self.known.files.len(),
            is_cut: self.known.is_cut,
            mode: self.mode.clone(),
        }
    }
}

fn difference(
    before: &BTreeMap<PathBuf, Fingerprint>,
    after: &BTreeMap<PathBuf, Fingerprint>,
) -> BTreeSet<PathBuf> {
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    let other = after.iter().filter(|(path, print)| before.get(*path) != Some(print));
    gone.chain(other.map(|(path, _)| path)).cloned().collect()
}

/// The task of a watch.
struct Work {
    eyes: Option<Eyes>,
    reports: mpsc::Receiver<Event>,
    options: SourceOptions,
    watched: watch::Sender<Watched>,
}

impl Work {
    async fn run(mut self, sender: mpsc::Sender<SourceChange>) {
        let mut changed: BTreeSet<PathBuf> = BTreeSet::new();
        loop {
            let mut reported = BTreeSet::new();
            tokio::select! {
                wakes = self.wakes(&mut reported) => if !wakes { return },
                // Delivered, unless more comes before the consumer is ready.
                permit = sender.reserve(), if !changed.is_empty() => {
                    let Ok(permit) = permit else { return };
                    permit.send(SourceChange::of(std::mem::take(&mut changed)));
                    continue;
                }
                () = sender.closed() => return,
            }
            self.silence(&mut reported).await;
            let Some(mut eyes) = self.eyes.take() else { return };
            let settled = tokio::task::spawn_blocking(move || {
                let changed = eyes.settle(&reported);
                (eyes, changed)
            });
            let Ok((eyes, more)) = settled.await else { return };
            let now = eyes.watched();
            self.watched.send_if_modified(|known| {
                let differs = *known != now;
                *known = now;
                differs
            });
            self.eyes = Some(eyes);
            changed.extend(more);
        }
    }

    /// Waits for a reason to look. `false` when there will be none any more.
    async fn wakes(&mut self, reported: &mut BTreeSet<PathBuf>) -> bool {
        let polling = matches!(self.watched.borrow().mode, WatchMode::Polling(_));
        if polling {
            sleep(self.options.poll).await;
            return true;
        }
        let event = self.reports.recv().await;
        reported.extend(event.into_iter().flat_map(|event| event.paths));
        self.eyes.as_ref().is_some_and(|eyes| eyes.watcher.is_some())
    }

    /// Waits until nothing was reported for a moment.
    async fn silence(&mut self, reported: &mut BTreeSet<PathBuf>) {
        let end = Instant::now() + self.options.patience;
        while Instant::now() < end {
            match timeout(self.options.quiet, self.reports.recv()).await {
                Ok(Some(event)) => reported.extend(event.paths),
                Ok(None) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::dev::sources::tests::dev;

    struct Tree {
        root: PathBuf,
        watch: SourceWatch,
        _dir: tempfile::TempDir,
    }

    async fn tree(globs: &[&str], options: SourceOptions) -> Tree {
        let dir = tempfile::tempdir().expect("a folder");
        // The folder for temporary files may be behind a link; on Windows it is not.
        let root = match dir.path().canonicalize() {
            Ok(real) if !cfg!(windows) => real,
            _ => dir.path().to_owned(),
        };
        std::fs::create_dir(root.join("src")).expect("made");
        std::fs::write(root.join("src/old.ts"), "0").expect("written");
        let watch = SourceWatch::start(&root, &dev(globs), options).await.expect("a watch");
        Tree { root, watch, _dir: dir }
    }

    impl Tree {
        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.root.join(name), text).expect("written");
        }

        /// The files of the next change.
        async fn next(&mut self) -> Vec<String> {
            let next = timeout(Duration::from_secs(20), self.watch.next()).await;
            let change = next.expect("in time").expect("running");
            let shown = change.files.iter().map(|f| f.strip_prefix(&self.root).expect("below"));
            shown.map(|f| f.display().to_string().replace('\\', "/")).collect()
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_burst_of_saves_is_one_change_and_a_new_folder_is_followed() {
        let mut tree = tree(&["src/**/*.ts"], SourceOptions::default()).await;
        for i in 0..20 {
            tree.write("src/a.ts", &i.to_string());
            tree.write("src/note.md", &i.to_string());
        }
        assert_eq!(tree.next().await, ["src/a.ts"]);
        std::fs::create_dir_all(tree.root.join("src/new/deep")).expect("made");
        tree.write("src/new/deep/b.ts", "1");
        assert_eq!(tree.next().await, ["src/new/deep/b.ts"]);
        tree.write("src/new/deep/b.ts", "22");
        assert_eq!(tree.next().await, ["src/new/deep/b.ts"], "the new folder is watched");
    }

    #[cfg_attr(windows, ignore = "wine keeps a deleted folder as long as somebody has it open")]
    #[tokio::test(flavor = "multi_thread")]
    async fn files_and_folders_that_go_and_come_back_are_changes() {
        let mut tree = tree(&["src/**"], SourceOptions::default()).await;
        std::fs::remove_dir_all(tree.root.join("src")).expect("removed");
        assert_eq!(tree.next().await, ["src/old.ts"]);
        std::fs::create_dir(tree.root.join("src")).expect("made");
        tree.write("src/old.ts", "1");
        assert_eq!(tree.next().await, ["src/old.ts"]);
        tree.write("src/next.ts", "1");
        assert_eq!(tree.next().await, ["src/next.ts"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_changed_ignore_file_holds_from_then_on() {
        let mut tree = tree(&["src/**", "!src/.gitignore"], SourceOptions::default()).await;
        tree.write("src/.gitignore", "*.log\n");
        tree.write("src/a.log", "1");
        tree.write("src/a.ts", "1");
        assert_eq!(tree.next().await, ["src/a.ts"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn where_nothing_is_reported_the_clock_finds_the_change() {
        let options = SourceOptions { poll_only: true, ..SourceOptions::default() };
        let mut tree = tree(&["src/**"], options).await;
        assert!(matches!(tree.watch.watched().borrow().mode, WatchMode::Polling(_)));
        tree.write("src/old.ts", "longer");
        assert_eq!(tree.next().await, ["src/old.ts"]);
        std::fs::create_dir(tree.root.join("src/new")).expect("made");
        tree.write("src/new/b.ts", "1");
        assert_eq!(tree.next().await, ["src/new/b.ts"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_tree_without_sources_says_so_until_there_are_some() {
        let mut tree = tree(&["later/*.py"], SourceOptions::default()).await;
        assert_eq!(tree.watch.watched().borrow().files, 0);
        std::fs::create_dir(tree.root.join("later")).expect("made");
        tree.write("later/a.py", "1");
        assert_eq!(tree.next().await, ["later/a.py"]);
        assert_eq!(tree.watch.watched().borrow().files, 1);
    }
}
