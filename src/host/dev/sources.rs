//! `dev.watch`: selects the source files of a server and detects changes to them.
//!
//! Globs are relative to the server's working directory; `*` matches within a folder, `**` across
//! folders, a leading `!` excludes files, and a folder means everything in it. Files excluded by
//! `.gitignore`, temporary files of editors and generated folders (`node_modules`, `__pycache__`,
//! hidden ones) are ignored, except for such folders that a glob begins with.
//!
//! File system events only trigger a scan: all sources are compared with the previous scan. Where
//! events are unavailable (network file systems, exhausted watch tables) scans run periodically.
//!
//! Overflow policy: pending events coalesce into one. One scan result waits for the consumer; later
//! changes are in the next.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::{DirEntry, WalkBuilder};
use notify::Event;
use tokio::sync::mpsc;

use base::WatchMode;
use base::watch::{Fingerprint, FolderWatch, remote};
use config::{DevConfig, clean_path};

/// Maximum number of folders scanned per server.
const MAX_FOLDERS: usize = 20_000;

/// Folders with generated content, besides hidden ones: a change in them is not an edit.
const FILLED: [&str; 2] = ["node_modules", "__pycache__"];

/// Decides which files are sources of a server.
struct SourceMatcher {
    wanted: GlobSet,
    unwanted: GlobSet,
    /// The literal prefixes of the globs, up to the first wildcard.
    bases: BTreeSet<PathBuf>,
    root: PathBuf,
}

/// The result of one scan.
#[derive(Default)]
struct Survey {
    /// Folders in which sources may appear; for a base that does not exist, its nearest existing
    /// ancestor.
    folders: BTreeSet<PathBuf>,
    /// The source files.
    files: BTreeMap<PathBuf, Fingerprint>,
    /// Whether the scan stopped at [`MAX_FOLDERS`].
    is_cut: bool,
}

impl SourceMatcher {
    /// A matcher for the globs of `dev`; relative ones are resolved against `root`, the absolute
    /// working directory of the server.
    ///
    /// # Errors
    /// A message that names an invalid glob.
    fn new(root: &Path, dev: &DevConfig) -> Result<Self, String> {
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
        Ok(Self {
            wanted: wanted.build().map_err(|e| e.to_string())?,
            unwanted: unwanted.build().map_err(|e| e.to_string())?,
            bases,
            root: root.to_path_buf(),
        })
    }

    /// Whether this absolute path is a source.
    fn matches(&self, path: &Path) -> bool {
        self.wanted.is_match(path) && !self.unwanted.is_match(path) && !is_temporary(path)
    }

    /// Whether to descend into a folder or include a file.
    fn takes(&self, entry: &DirEntry) -> bool {
        let path = entry.path();
        if entry.file_type().is_none_or(|kind| !kind.is_dir()) {
            return self.matches(path);
        }
        let name = entry.file_name().to_string_lossy();
        let is_filled = name.starts_with('.') || FILLED.contains(&&*name);
        let leads = |base: &PathBuf| base.starts_with(path);
        self.bases.iter().any(|base| leads(base) || !is_filled && path.starts_with(base))
    }

    /// Whether an event may concern a source, an ignore file or a folder.
    fn concerns(&self, event: &Event) -> bool {
        let rules = |path: &Path| path.file_name().is_some_and(|name| name == ".gitignore");
        let about = |path: &PathBuf| self.matches(path) || rules(path) || !path.is_file();
        event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(about)
    }

    /// Scans the disk. Blocking.
    fn survey(self: &Arc<Self>) -> Survey {
        let mut found = Survey::default();
        // Symlinks are followed only where a glob begins with them.
        let apart = |base: &&PathBuf| !base.starts_with(&self.root) || base.is_symlink();
        for start in std::iter::once(&self.root).chain(self.bases.iter().filter(apart)) {
            let there = start.ancestors().find(|path| path.is_dir());
            found.folders.extend(there.map(Path::to_path_buf));
            // Ignore files of parent folders apply only within a repository.
            let has_repository = start.ancestors().any(|folder| folder.join(".git").exists());
            let this = Arc::clone(self);
            let walk = WalkBuilder::new(start)
                .parents(has_repository)
                .require_git(has_repository)
                .hidden(false)
                .ignore(false)
                .git_global(false)
                .git_exclude(false)
                .filter_entry(move |entry| this.takes(entry))
                .build();
            for entry in walk.flatten() {
                let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                let path = entry.into_path();
                if !is_folder {
                    found.files.insert(path.clone(), Fingerprint::from_path(&path));
                } else if found.folders.len() < MAX_FOLDERS {
                    found.folders.insert(path);
                } else {
                    found.is_cut = true;
                    return found;
                }
            }
        }
        found
    }
}

/// Splits a glob into its literal absolute prefix and the rest with the wildcards.
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
            // The root of the drive, not the current folder on it.
            base.push(Component::RootDir);
        }
    }
    let rest: Vec<&str> = parts.collect();
    (clean_path(&root.join(base)), rest.join("/"))
}

/// Whether it is a temporary file that an editor creates while saving.
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

/// Debounce interval: formatters and checkouts write in bursts.
const DEBOUNCE_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum total debounce time, for a tree that changes continuously.
const DEBOUNCE_TIMEOUT: Duration = Duration::from_secs(2);
/// Poll interval where events are unavailable.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A scan of the sources of a server, compared with the previous one.
#[derive(Debug)]
pub(super) struct SourceScan {
    /// Files that were added, changed or removed.
    pub(super) changed: BTreeSet<PathBuf>,
    /// Number of source files.
    pub(super) files: usize,
    /// A note about the watch, for the user.
    pub(super) note: Option<String>,
}

/// Watches the sources of one server on a dedicated thread. Dropping it ends the thread.
pub(super) struct SourceWatch {
    looks: mpsc::Receiver<SourceScan>,
    wake: SyncSender<()>,
}

impl SourceWatch {
    /// Starts watching below `root`, the absolute working directory of the server. Reports every
    /// change after the first scan.
    ///
    /// # Errors
    /// A message that names an invalid glob.
    pub(super) fn start(root: &Path, dev: &DevConfig, poll_only: bool) -> Result<Self, String> {
        let matcher = Arc::new(SourceMatcher::new(root, dev)?);
        let ((wake, woken), (sender, looks)) = (sync_channel(1), mpsc::channel(1));
        let waker = wake.clone();
        let follow = move || follow(&matcher, poll_only, (waker, woken), &sender);
        let thread = std::thread::Builder::new().name("sources".to_owned()).spawn(follow);
        thread.map_err(|error| error.to_string())?;
        Ok(Self { looks, wake })
    }

    /// The next scan with changes or a new note; the first is the initial state. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<SourceScan> {
        self.looks.recv().await
    }
}

impl Drop for SourceWatch {
    fn drop(&mut self) {
        self.looks.close();
        let _ = self.wake.try_send(());
    }
}

fn follow(
    matcher: &Arc<SourceMatcher>,
    poll_only: bool,
    (wake, woken): (SyncSender<()>, Receiver<()>),
    looks: &mpsc::Sender<SourceScan>,
) {
    let about = Arc::clone(matcher);
    let mut watch = FolderWatch::open(poll_only, move |event| {
        if event.is_none_or(|event| about.concerns(&event)) {
            let _ = wake.try_send(());
        }
    });
    let mut known: Option<(Survey, Option<String>)> = None;
    loop {
        let mut found = matcher.survey();
        let remote = found.folders.first().and_then(|folder| remote(folder));
        if watch.aim(&found.folders, remote) {
            // Catches files that appeared between the scan and the start of the watch.
            found = matcher.survey();
        }
        let files = found.files.len();
        let note = match &watch.mode {
            WatchMode::Polling(why) => Some(format!("polled ({why})")),
            _ if files == 0 => Some("`dev.watch` matches no file that is not ignored".to_owned()),
            _ if found.is_cut => Some("there are too many folders; some are left out".to_owned()),
            WatchMode::Events => None,
        };
        let (changed, is_news) = match &known {
            Some((before, said)) => (difference(&before.files, &found.files), *said != note),
            None => (BTreeSet::new(), true),
        };
        if (is_news || !changed.is_empty())
            && looks.blocking_send(SourceScan { changed, files, note: note.clone() }).is_err()
        {
            return;
        }
        known = Some((found, note));
        match watch.mode {
            WatchMode::Events => _ = woken.recv(),
            WatchMode::Polling(_) => _ = woken.recv_timeout(POLL_INTERVAL),
        }
        if looks.is_closed() {
            return;
        }
        let end = Instant::now() + DEBOUNCE_TIMEOUT;
        while Instant::now() < end && woken.recv_timeout(DEBOUNCE_INTERVAL).is_ok() {}
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

#[cfg(test)]
mod tests {
    use super::*;

    fn dev(globs: &[&str]) -> DevConfig {
        let watch = globs.iter().map(|g| (*g).to_owned()).collect();
        DevConfig { watch, ..DevConfig::default() }
    }

    fn write(root: &Path, names: &[&str]) {
        for name in names {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "").expect("written");
        }
    }

    fn survey(root: &Path, globs: &[&str]) -> Survey {
        Arc::new(SourceMatcher::new(root, &dev(globs)).expect("globs")).survey()
    }

    /// The sources found, relative to `root`.
    fn found(root: &Path, globs: &[&str]) -> Vec<String> {
        let files = survey(root, globs).files.into_keys();
        let above = root.parent().expect("a folder");
        let shown = |path: PathBuf| {
            let below = path.strip_prefix(root).map(Path::to_path_buf);
            let path = below.unwrap_or_else(|_| {
                Path::new("..").join(path.strip_prefix(above).expect("beside the root"))
            });
            path.display().to_string().replace('\\', "/")
        };
        files.map(shown).collect()
    }

    #[test]
    fn globs_and_ignore_rules_decide_together() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = &dir.path().join("root");
        let no = [
            "deep/server.py",
            "dist/a.js",
            "src/x.log",
            "src/gen/a.ts",
            "src/a.ts~",
            "src/.a.ts.swp",
            "src/.git/HEAD",
            "src/node_modules/x/y.js",
            "src/a.snap",
            "README.md",
            "../shared/deep/a.json",
        ];
        let yes = [
            "../shared/a.json",
            "schema/deep/a.json",
            "server.py",
            "src/a.ts",
            "src/deep/b.ts",
            "src/keep.log",
            "src/server.py",
        ];
        write(root, &no);
        write(root, &yes);
        std::fs::write(root.join(".gitignore"), "dist/\n*.log\n").expect("written");
        std::fs::write(root.join("src/.gitignore"), "gen\n!keep.log\n").expect("written");
        let globs = [
            "./src/**",
            "*.py",
            "dist/**",
            "!src/*.snap",
            "!**/.gitignore",
            "schema",
            "../shared/*.json",
        ];
        let mut files = found(root, &globs);
        files.sort();
        assert_eq!(files, yes);
        let folders = survey(root, &globs).folders;
        assert!(folders.contains(&root.join("src/deep")) && !folders.contains(&root.join("dist")));
        assert!(!folders.contains(&root.join("src/node_modules")));
    }

    #[test]
    fn a_survey_stays_below_the_parts_that_the_globs_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        write(root, &["src/deep/a.py", "one.py", "huge/deep/a.py"]);
        let globs = ["src/**/*.py", "one.py", "later/**"];
        assert_eq!(found(root, &globs), ["one.py", "src/deep/a.py"]);
        let folders = survey(root, &globs).folders;
        assert!(folders.contains(root), "`later` may appear in it");
        assert!(!folders.contains(&root.join("huge")), "{folders:?}");
    }

    #[test]
    fn rules_above_the_root_hold_up_to_the_top_of_the_repository_unless_they_exclude_it_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path();
        std::fs::create_dir(top.join(".git")).expect("made");
        write(top, &["a/src/x.py", "a/src/x.log", "built/src/x.py"]);
        std::fs::write(top.join(".gitignore"), "*.log\n/built/\n").expect("written");
        assert_eq!(found(&top.join("a"), &["src/**"]), ["src/x.py"]);
        assert_eq!(found(&top.join("built"), &["src/**"]), ["src/x.py"]);
    }

    #[test]
    fn a_folder_that_programs_fill_counts_when_a_glob_begins_with_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = &dir.path().join("node_modules/x");
        write(root, &["a.js", "node_modules/y/b.js"]);
        assert_eq!(found(root, &["node_modules/y/**"]), ["node_modules/y/b.js"]);
        assert_eq!(found(root, &["**/*.js"]), ["a.js"]);
    }

    #[test]
    fn a_glob_that_is_none_is_named() {
        let wrong = SourceMatcher::new(Path::new("/"), &dev(&["{a"])).err().expect("no glob");
        assert!(wrong.contains("`{a`"), "{wrong}");
    }

    struct Tree {
        root: PathBuf,
        watch: SourceWatch,
        first: SourceScan,
        _dir: tempfile::TempDir,
    }

    async fn tree(globs: &[&str], poll_only: bool) -> Tree {
        let dir = tempfile::tempdir().expect("a folder");
        // The temporary folder may be behind a symlink, except on Windows.
        let root = match dir.path().canonicalize() {
            Ok(real) if !cfg!(windows) => real,
            _ => dir.path().to_owned(),
        };
        std::fs::create_dir(root.join("src")).expect("made");
        std::fs::write(root.join("src/old.ts"), "0").expect("written");
        let mut watch = SourceWatch::start(&root, &dev(globs), poll_only).expect("a watch");
        let first = watch.next().await.expect("a first look");
        Tree { root, watch, first, _dir: dir }
    }

    impl Tree {
        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.root.join(name), text).expect("written");
        }

        async fn look(&mut self) -> SourceScan {
            let next = tokio::time::timeout(Duration::from_secs(20), self.watch.next()).await;
            next.expect("in time").expect("running")
        }

        /// The files of the next change.
        async fn next(&mut self) -> Vec<String> {
            let look = self.look().await;
            let shown = look.changed.iter().map(|f| f.strip_prefix(&self.root).expect("below"));
            shown.map(|f| f.display().to_string().replace('\\', "/")).collect()
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_burst_of_saves_is_one_change_and_a_new_folder_is_followed() {
        let mut tree = tree(&["src/**/*.ts"], false).await;
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
        let mut tree = tree(&["src/**"], false).await;
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
        let mut tree = tree(&["src/**", "!src/.gitignore"], false).await;
        tree.write("src/.gitignore", "*.log\n");
        tree.write("src/a.log", "1");
        tree.write("src/a.ts", "1");
        assert_eq!(tree.next().await, ["src/a.ts"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn where_nothing_is_reported_the_clock_finds_the_change() {
        let mut tree = tree(&["src/**"], true).await;
        assert!(tree.first.note.as_ref().is_some_and(|note| note.contains("polled")));
        tree.write("src/old.ts", "longer");
        assert_eq!(tree.next().await, ["src/old.ts"]);
        std::fs::create_dir(tree.root.join("src/new")).expect("made");
        tree.write("src/new/b.ts", "1");
        assert_eq!(tree.next().await, ["src/new/b.ts"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_tree_without_sources_says_so_until_there_are_some() {
        let mut tree = tree(&["later/*.py"], false).await;
        assert!(tree.first.files == 0 && tree.first.note.is_some());
        std::fs::create_dir(tree.root.join("later")).expect("made");
        tree.write("later/a.py", "1");
        let look = tree.look().await;
        assert_eq!((look.changed.len(), look.files, look.note), (1, 1, None));
    }
}
