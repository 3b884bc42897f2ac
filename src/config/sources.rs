//! `dev.watch`: which source files of a server matter, and when they have changed.
//!
//! Globs are relative to the server's working directory and `*` stays within a folder, `**` does
//! not. What `.gitignore` excludes, `.git` itself and the temporary files of editors never count.
//!
//! Overflow policy: reports of the file system wait in a bounded queue; when it is full the rest
//! is dropped and the change is delivered all the same. At most one change waits for the
//! consumer; later ones join it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;
use ignore::gitignore::Gitignore;
use notify::event::CreateKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::DevConfig;

/// Most folders that are watched for one server.
const MAX_FOLDERS: usize = 20_000;

/// Most paths named in one change.
const MAX_PATHS: usize = 256;

/// Silence before a change is delivered: builds and formatters write in bursts.
const QUIET: Duration = Duration::from_millis(100);

/// Decides whether a path is a source of a server.
#[derive(Clone, Debug)]
pub struct SourceMatcher {
    root: PathBuf,
    globs: GlobSet,
    ignored: Vec<Gitignore>,
}

impl SourceMatcher {
    /// A matcher for the globs of `dev` below `root`, the server's working directory.
    ///
    /// # Errors
    /// Names a glob that is none.
    pub fn new(root: &Path, dev: &DevConfig) -> Result<Self, String> {
        let mut globs = GlobSetBuilder::new();
        for glob in &dev.watch {
            let plain = glob.strip_prefix("./").unwrap_or(glob);
            let built = GlobBuilder::new(plain).literal_separator(true).build();
            globs.add(built.map_err(|e| format!("`{glob}` is not a glob: {}", e.kind()))?);
        }
        let globs = globs.build().map_err(|e| e.to_string())?;
        let mut out = Self { root: root.to_path_buf(), globs, ignored: Vec::new() };
        out.read_ignore_files();
        Ok(out)
    }

    /// Whether a change of this absolute path matters.
    pub fn matches(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(&self.root) else { return false };
        self.globs.is_match(below) && !is_temporary(path) && !self.is_ignored(path, false)
    }

    /// The folders whose files may matter: all below the root that are not ignored.
    pub fn folders(&self) -> Vec<PathBuf> {
        let walk = WalkBuilder::new(&self.root)
            .hidden(false)
            .require_git(false)
            .follow_links(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        walk.flatten()
            .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_dir()))
            .map(ignore::DirEntry::into_path)
            .take(MAX_FOLDERS)
            .collect()
    }

    fn read_ignore_files(&mut self) {
        let above = self.root.ancestors().skip(1).map(Path::to_path_buf);
        let all: Vec<PathBuf> = above.chain(self.folders()).collect();
        let files = all.into_iter().map(|folder| folder.join(".gitignore"));
        self.ignored = files.filter(|f| f.is_file()).map(|f| Gitignore::new(f).0).collect();
        // The deepest file decides.
        self.ignored.sort_by_key(|rules| std::cmp::Reverse(rules.path().components().count()));
    }

    fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        if path.components().any(|part| part.as_os_str() == ".git") {
            return true;
        }
        for rules in self.ignored.iter().filter(|rules| path.starts_with(rules.path())) {
            let verdict = rules.matched_path_or_any_parents(path, is_dir);
            if !verdict.is_none() {
                return verdict.is_ignore();
            }
        }
        false
    }
}

/// What editors leave beside a file while they save it.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default();
    name.ends_with('~')
        || name.starts_with(".#")
        || name == "4913"
        || ["swp", "swx", "swo", "tmp", "part", "crswap"].iter().any(|e| extension == *e)
}

/// Follows the sources of one server. Dropping it ends it.
#[derive(Debug)]
pub struct SourceWatch {
    changes: mpsc::Receiver<Vec<PathBuf>>,
    task: JoinHandle<()>,
}

impl SourceWatch {
    /// Starts watching. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the file system cannot be watched, with the reason.
    pub fn start(matcher: SourceMatcher) -> Result<Self, String> {
        let (heard, reports) = mpsc::channel(1024);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            if !matches!(event.kind, EventKind::Access(_)) {
                // Full: enough is known to be changed already.
                let _ = heard.try_send(event);
            }
        })
        .map_err(|e| e.to_string())?;
        for folder in matcher.folders() {
            watcher.watch(&folder, RecursiveMode::NonRecursive).map_err(|e| e.to_string())?;
        }
        let (sender, changes) = mpsc::channel(1);
        let task = tokio::spawn(follow(matcher, watcher, reports, sender));
        Ok(Self { changes, task })
    }

    /// The next change: the paths that changed, in order, at most 256 of them. Cancel-safe.
    pub async fn next(&mut self) -> Option<Vec<PathBuf>> {
        self.changes.recv().await
    }
}

impl Drop for SourceWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(
    matcher: SourceMatcher,
    mut watcher: RecommendedWatcher,
    mut reports: mpsc::Receiver<Event>,
    sender: mpsc::Sender<Vec<PathBuf>>,
) {
    let mut changed: BTreeSet<PathBuf> = BTreeSet::new();
    loop {
        let report = if changed.is_empty() {
            tokio::select! {
                report = reports.recv() => report,
                () = sender.closed() => return,
            }
        } else if let Ok(report) = timeout(QUIET, reports.recv()).await {
            report
        } else {
            // Quiet: deliver, unless more comes before the consumer is ready.
            tokio::select! {
                permit = sender.reserve() => {
                    let Ok(permit) = permit else { return };
                    permit.send(std::mem::take(&mut changed).into_iter().collect());
                    continue;
                }
                report = reports.recv() => report,
            }
        };
        let Some(event) = report else { return };
        if matches!(event.kind, EventKind::Create(CreateKind::Folder | CreateKind::Any)) {
            changed.extend(new_folder(&matcher, &mut watcher, &event));
        }
        let sources = event.paths.into_iter().filter(|path| matcher.matches(path));
        changed.extend(sources.take(MAX_PATHS.saturating_sub(changed.len())));
    }
}

/// Watches a folder that was made, and gives the sources that were in it before that.
fn new_folder(
    matcher: &SourceMatcher,
    watcher: &mut RecommendedWatcher,
    event: &Event,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let folders = event.paths.iter().filter(|p| p.is_dir() && !matcher.is_ignored(p, true));
    for folder in folders {
        let walk = WalkBuilder::new(folder).hidden(false).require_git(false).build();
        for entry in walk.flatten().take(MAX_FOLDERS) {
            let path = entry.into_path();
            if path.is_dir() {
                let _ = watcher.watch(&path, RecursiveMode::NonRecursive);
            } else if matcher.matches(&path) && found.len() < MAX_PATHS {
                found.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev(globs: &[&str]) -> DevConfig {
        let watch = globs.iter().map(|g| (*g).to_owned()).collect();
        DevConfig { watch, ..DevConfig::default() }
    }

    #[test]
    fn globs_and_ignore_rules_decide_together() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        for folder in ["src/deep", "dist", "src/gen", ".git"] {
            std::fs::create_dir_all(root.join(folder)).expect("made");
        }
        std::fs::write(root.join(".gitignore"), "dist/\n*.log\n").expect("written");
        std::fs::write(root.join("src/.gitignore"), "gen\n!keep.log\n").expect("written");
        let matcher = SourceMatcher::new(root, &dev(&["./src/**", "*.py", "dist/**"])).expect("ok");
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
            ("README.md", false),
        ] {
            assert_eq!(matcher.matches(&root.join(path)), expected, "{path}");
        }
        assert!(!matcher.matches(Path::new("/elsewhere/server.py")));
        let folders = matcher.folders();
        assert!(folders.contains(&root.join("src/deep")) && !folders.contains(&root.join("dist")));
    }

    #[test]
    fn a_glob_that_is_none_is_named() {
        let wrong = SourceMatcher::new(Path::new("/"), &dev(&["{a"])).expect_err("no glob");
        assert!(wrong.contains("`{a`"), "{wrong}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_burst_of_saves_is_one_change_and_a_new_folder_is_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("a path");
        std::fs::create_dir(root.join("src")).expect("made");
        let matcher = SourceMatcher::new(&root, &dev(&["src/**/*.ts"])).expect("a matcher");
        let mut watch = SourceWatch::start(matcher).expect("watching");
        for i in 0..20 {
            std::fs::write(root.join("src/a.ts"), i.to_string()).expect("written");
            std::fs::write(root.join("src/note.md"), i.to_string()).expect("written");
        }
        let deadline = Duration::from_secs(20);
        let first = timeout(deadline, watch.next()).await.expect("in time").expect("running");
        assert_eq!(first, [root.join("src/a.ts")]);
        std::fs::create_dir(root.join("src/new")).expect("made");
        std::fs::write(root.join("src/new/b.ts"), "1").expect("written");
        let second = timeout(deadline, watch.next()).await.expect("in time").expect("running");
        assert_eq!(second, [root.join("src/new/b.ts")]);
    }
}
