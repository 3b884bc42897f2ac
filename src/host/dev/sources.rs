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

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::gitignore::Gitignore;

use crate::base::watch::Fingerprint;
use crate::config::DevConfig;
use crate::config::environment::clean;

pub mod watch;

pub use watch::{SourceChange, SourceOptions, SourceWatch, Watched};

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

    /// Where a source lies, seen from the server's working directory.
    pub fn shown<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.root).unwrap_or(path)
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
        assert_eq!(matcher.shown(&root.join("src/a.ts")), Path::new("src/a.ts"));
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
