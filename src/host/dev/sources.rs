//! `dev.watch`: which source files of a server matter.
//!
//! Globs are relative to the server's working directory; `*` stays within a folder, `**` does
//! not, `!` in front takes files out again, a folder means everything in it. What `.gitignore`
//! excludes, the temporary files of editors and folders nobody writes by hand (`node_modules`,
//! `__pycache__` ...) never count; the latter do when a glob names them.
//!
//! Owns the rules and the look at the disk; [`watch`] owns when to look.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::gitignore::Gitignore;
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::base::WatchMode;
use crate::base::watch::{Fingerprint, is_change, remote};
use crate::config::DevConfig;
use crate::config::environment::clean;

/// Most folders that are looked into for one server.
const MAX_FOLDERS: usize = 20_000;

/// Folders that programs fill: a change in them is no edit.
const FILLED: &[&str] = &[
    ".git",
    ".hg",
    ".svn",
    "node_modules",
    "__pycache__",
    ".venv",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
];

/// Decides whether a path is a source of a server.
#[derive(Clone, Debug)]
pub struct SourceMatcher {
    wanted: GlobSet,
    unwanted: GlobSet,
    /// Where the globs begin: the parts of them without a wildcard.
    bases: Vec<PathBuf>,
    /// Folders of [`FILLED`] that a glob names.
    named: Vec<&'static str>,
    root: PathBuf,
    ignored: Vec<Gitignore>,
}

/// What one look at the disk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Folders in which sources may appear; for a base that does not exist, the deepest one above
    /// it that does.
    pub folders: BTreeSet<PathBuf>,
    /// The sources there are.
    pub files: BTreeMap<PathBuf, Fingerprint>,
    /// Whether there were more folders than are looked into.
    pub is_cut: bool,
}

impl SourceMatcher {
    /// A matcher for the globs of `dev`; relative ones start at `root`, the absolute working
    /// directory of the server.
    ///
    /// # Errors
    /// Names a glob that is none.
    pub fn new(root: &Path, dev: &DevConfig) -> Result<Self, String> {
        let (mut wanted, mut unwanted) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let mut bases = BTreeSet::new();
        for glob in &dev.watch {
            let bare = glob.strip_prefix('!').unwrap_or(glob);
            let (base, rest) = split(root, bare);
            let start = globset::escape(&base.to_string_lossy());
            let mut patterns = vec![format!("{}/{rest}", start.trim_end_matches('/'))];
            if rest.is_empty() {
                patterns = vec![format!("{}/**", start.trim_end_matches('/')), start];
            }
            for pattern in patterns {
                let built = GlobBuilder::new(&pattern).literal_separator(true).build();
                let built = built.map_err(|e| format!("`{glob}` is not a glob: {}", e.kind()))?;
                if bare.len() == glob.len() { &mut wanted } else { &mut unwanted }.add(built);
            }
            if bare.len() == glob.len() {
                bases.insert(base);
            }
        }
        let named = FILLED
            .iter()
            .copied()
            .filter(|name| dev.watch.iter().any(|glob| glob.split('/').any(|part| part == *name)));
        let mut out = Self {
            wanted: wanted.build().map_err(|e| e.to_string())?,
            unwanted: unwanted.build().map_err(|e| e.to_string())?,
            bases: bases.into_iter().collect(),
            named: named.collect(),
            root: root.to_path_buf(),
            ignored: Vec::new(),
        };
        out.survey();
        Ok(out)
    }

    /// Whether a change of this absolute path matters, by the rules of the last survey.
    pub fn matches(&self, path: &Path) -> bool {
        self.wanted.is_match(path)
            && !self.unwanted.is_match(path)
            && !is_temporary(path)
            && !self.is_filled(path)
            && !self.is_ignored(path, false)
    }

    /// Looks at the disk, and takes the ignore rules found there into use. Blocks.
    pub fn survey(&mut self) -> Survey {
        let mut found = Survey::default();
        self.ignored.clear();
        self.read_rules_above();
        let mut open = Vec::new();
        for base in self.bases.clone() {
            let above: Vec<&Path> =
                base.ancestors().take_while(|f| f.starts_with(&self.root)).collect();
            for folder in above.into_iter().rev() {
                self.read_rules(folder);
            }
            if self.is_ignored(&base, base.is_dir()) {
                continue;
            }
            let there = base.ancestors().find(|path| path.is_dir());
            match there {
                Some(folder) if folder == base => open.push(base),
                Some(folder) => {
                    found.folders.insert(folder.to_path_buf());
                    if base.is_file() {
                        open.push(folder.to_path_buf());
                    }
                }
                None => {}
            }
        }
        while let Some(folder) = open.pop() {
            if found.folders.len() >= MAX_FOLDERS {
                found.is_cut = true;
                break;
            }
            self.read_rules(&folder);
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                if kind.is_dir() {
                    if self.may_hold(&path) && !found.folders.contains(&path) {
                        open.push(path);
                    }
                } else if self.matches(&path) {
                    found.files.insert(path.clone(), Fingerprint::of(&path));
                }
            }
            found.folders.insert(folder);
        }
        found
    }

    /// Whether sources can lie below a folder.
    fn may_hold(&self, folder: &Path) -> bool {
        self.bases.iter().any(|base| folder.starts_with(base) || base.starts_with(folder))
            && !self.is_filled(folder)
            && !self.is_ignored(folder, true)
    }

    /// The rules of the folders between the root and the top of its repository. Rules that
    /// exclude the root itself say nothing about the sources in it.
    fn read_rules_above(&mut self) {
        let top = self.root.ancestors().find(|folder| folder.join(".git").exists());
        let Some(top) = top.map(Path::to_path_buf) else { return };
        let root = self.root.clone();
        for folder in root.ancestors().skip(1).take_while(|folder| folder.starts_with(&top)) {
            self.read_rules(folder);
        }
        self.ignored.retain(|rules| !rules.matched_path_or_any_parents(&root, true).is_ignore());
    }

    fn read_rules(&mut self, folder: &Path) {
        let file = folder.join(".gitignore");
        let known = self.ignored.iter().any(|rules| rules.path() == folder);
        if !known && file.is_file() {
            self.ignored.push(Gitignore::new(file).0);
            // The deepest file decides.
            self.ignored.sort_by_key(|rules| std::cmp::Reverse(rules.path().components().count()));
        }
    }

    fn is_filled(&self, path: &Path) -> bool {
        let bases = self.bases.iter().filter_map(|base| path.strip_prefix(base).ok());
        // Seen from the deepest base: that the project itself lies in such a folder is no matter.
        let below = bases.min_by_key(|below| below.components().count());
        below.is_some_and(|below| {
            below.components().any(|part| {
                let name = part.as_os_str();
                FILLED.iter().any(|filled| name == *filled && !self.named.contains(filled))
            })
        })
    }

    fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        for rules in self.ignored.iter().filter(|rules| path.starts_with(rules.path())) {
            let verdict = rules.matched_path_or_any_parents(path, is_dir);
            if !verdict.is_none() {
                return verdict.is_ignore();
            }
        }
        false
    }
}

/// A glob as the absolute folder or file it begins with, and the rest with the wildcards.
fn split(root: &Path, glob: &str) -> (PathBuf, String) {
    let wild = |part: &str| part.contains(['*', '?', '[', '{', '\\']);
    let mut parts = glob.split('/').peekable();
    let mut base = PathBuf::new();
    if glob.starts_with('/') {
        base.push(Component::RootDir);
    }
    while let Some(part) = parts.next_if(|part| !wild(part)) {
        base.push(part);
        if cfg!(windows) && part.ends_with(':') {
            // The drive itself, not the folder one is in there.
            base.push(Component::RootDir);
        }
    }
    let rest: Vec<&str> = parts.collect();
    (clean(&root.join(base)), rest.join("/"))
}

/// What editors leave beside a file while they save it.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default();
    let extensions = ["swp", "swx", "swo", "tmp", "part", "crswap"];
    name.ends_with('~')
        || name.starts_with(".#")
        || name == "4913"
        || name == ".DS_Store"
        || extensions.iter().any(|e| extension == OsStr::new(e))
}

// Follows the sources of one server and delivers each change that rests.
//
// What the file system reports is only a reason to look: files are compared with what is known
// of them, and when folders or ignore rules change, everything is looked at again. Where nothing
// is reported (network file systems, full watch tables) the clock is the reason.
//
// Overflow policy: reports wait in a bounded queue; when it is full the rest is dropped and
// everything is looked at. At most one change waits for the consumer; later ones join it.

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

    fn of(all: BTreeSet<PathBuf>) -> Self {
        let more = all.len().saturating_sub(Self::NAMED);
        Self { files: all.into_iter().take(Self::NAMED).collect(), more }
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
pub(crate) mod tests {
    use super::*;

    pub(crate) fn dev(globs: &[&str]) -> DevConfig {
        let watch = globs.iter().map(|g| (*g).to_owned()).collect();
        DevConfig { watch, ..DevConfig::default() }
    }

    fn folders(root: &Path, names: &[&str]) {
        for name in names {
            std::fs::create_dir_all(root.join(name)).expect("made");
        }
    }

    #[test]
    fn globs_and_ignore_rules_decide_together() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        folders(root, &["src/deep", "dist", "src/gen", ".git", "src/node_modules/x"]);
        std::fs::write(root.join(".gitignore"), "dist/\n*.log\n").expect("written");
        std::fs::write(root.join("src/.gitignore"), "gen\n!keep.log\n").expect("written");
        let globs = ["./src/**", "*.py", "dist/**", "!src/*.snap", "schema", "../shared/*.json"];
        let mut matcher = SourceMatcher::new(root, &dev(&globs)).expect("ok");
        for (path, expected) in [
            ("src/a.ts", true),
            ("src/deep/b.ts", true),
            ("server.py", true),
            ("src/server.py", true),
            ("deep/server.py", false),
            ("dist/a.js", false),
            ("src/x.log", false),
            ("src/keep.log", true),
            ("src/gen/a.ts", false),
            ("src/a.ts~", false),
            ("src/.a.ts.swp", false),
            ("src/.git/HEAD", false),
            ("src/node_modules/x/y.js", false),
            ("src/a.snap", false),
            ("schema/deep/a.json", true),
            ("../shared/a.json", true),
            ("../shared/deep/a.json", false),
            ("README.md", false),
        ] {
            assert_eq!(matcher.matches(&clean(&root.join(path))), expected, "{path}");
        }
        assert!(!matcher.matches(Path::new("/elsewhere/server.py")));
        let found = matcher.survey().folders;
        assert!(found.contains(&root.join("src/deep")) && !found.contains(&root.join("dist")));
        assert!(!found.contains(&root.join("src/node_modules")));
    }

    #[test]
    fn a_survey_stays_below_the_parts_that_the_globs_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        folders(root, &["src/deep", "huge/deep"]);
        std::fs::write(root.join("src/deep/a.py"), "").expect("written");
        std::fs::write(root.join("one.py"), "").expect("written");
        let globs = ["src/**/*.py", "one.py", "later/**"];
        let found = SourceMatcher::new(root, &dev(&globs)).expect("ok").survey();
        let names: Vec<_> =
            found.files.keys().map(|f| f.strip_prefix(root).expect("below")).collect();
        assert_eq!(names, [Path::new("one.py"), Path::new("src/deep/a.py")]);
        assert!(found.folders.contains(root), "`later` may appear in it");
        assert!(!found.folders.contains(&root.join("huge/deep")), "{:?}", found.folders);
    }

    #[test]
    fn rules_above_the_root_hold_up_to_the_top_of_the_repository_unless_they_exclude_it_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path();
        folders(top, &[".git", "a/src", "built/src"]);
        std::fs::write(top.join(".gitignore"), "*.log\n/built/\n").expect("written");
        let a = SourceMatcher::new(&top.join("a"), &dev(&["src/**"])).expect("ok");
        assert!(a.matches(&top.join("a/src/x.py")) && !a.matches(&top.join("a/src/x.log")));
        let built = SourceMatcher::new(&top.join("built"), &dev(&["src/**"])).expect("ok");
        assert!(built.matches(&top.join("built/src/x.py")));
    }

    #[test]
    fn a_folder_that_programs_fill_counts_when_a_glob_names_it() {
        let root = Path::new("/p/node_modules/x");
        let named = SourceMatcher::new(root, &dev(&["node_modules/y/**"])).expect("ok");
        assert!(named.matches(&root.join("node_modules/y/a.js")));
        let plain = SourceMatcher::new(root, &dev(&["**/*.js"])).expect("ok");
        assert!(plain.matches(&root.join("a.js")));
        assert!(!plain.matches(&root.join("node_modules/y/a.js")));
    }

    #[test]
    fn a_glob_that_is_none_is_named() {
        let wrong = SourceMatcher::new(Path::new("/"), &dev(&["{a"])).expect_err("no glob");
        assert!(wrong.contains("`{a`"), "{wrong}");
    }
}

#[cfg(test)]
mod watch_tests {
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
