//! Which folders to watch for changes to a file, and fingerprints that detect a change.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Symbolic links followed for one file.
const MAX_LINKS: usize = 40;

/// Folders to watch, and the names in them that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Existing folders, without symbolic links in their path.
    pub folders: BTreeSet<PathBuf>,
    /// Names of the files, links and missing folders on the way.
    pub names: BTreeSet<OsString>,
    /// Why change events are unreliable, when one of the folders is on a network file system.
    pub remote: Option<String>,
}

impl Targets {
    /// The targets of absolute paths.
    pub fn from_paths(paths: &[PathBuf]) -> Self {
        let mut out = Self::default();
        for path in paths {
            out.add(path);
        }
        out.remote = out.folders.iter().find_map(|folder| remote(folder));
        out
    }

    /// Walks a path part by part. Watches the folder of every link on the way (swapping a link
    /// changes its folder, in events that may never name the file), then the file's own folder;
    /// for a missing path, the deepest existing folder.
    fn add(&mut self, path: &Path) {
        let mut rest: Vec<OsString> = parts(path);
        rest.reverse();
        let mut at = root_of(path);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            let meta = std::fs::symlink_metadata(&next).ok();
            if meta.as_ref().is_some_and(std::fs::Metadata::is_symlink) && links < MAX_LINKS {
                links += 1;
                self.folders.insert(at.clone());
                self.names.insert(part);
                let Ok(target) = std::fs::read_link(&next) else { return };
                if target.is_absolute() {
                    at = root_of(&target);
                }
                rest.extend(parts(&target).into_iter().rev());
                continue;
            }
            if rest.is_empty() || meta.is_none() {
                self.folders.insert(at);
                self.names.insert(part);
                return;
            }
            at = next;
        }
    }
}

/// The named parts of a path; `..` is kept, `.` and the root are not.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

/// Prefix and root of an absolute path.
fn root_of(path: &Path) -> PathBuf {
    path.components()
        .take_while(|p| matches!(p, Component::Prefix(_) | Component::RootDir))
        .collect()
}

/// Distinguishes the states of a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The path, as given.
    pub path: PathBuf,
    /// `None` when there is no such file.
    state: Option<WatchState>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct WatchState {
    length: u64,
    modified: Option<SystemTime>,
    identity: (u64, u64, i64, i64),
}

impl Fingerprint {
    /// The fingerprint of a file now, links followed.
    pub fn from_path(path: &Path) -> Self {
        let state = std::fs::metadata(path).ok().map(|meta| WatchState {
            length: meta.len(),
            modified: meta.modified().ok(),
            identity: identity(&meta),
        });
        Self { path: path.to_path_buf(), state }
    }

    /// Whether there is such a file.
    pub const fn exists(&self) -> bool {
        self.state.is_some()
    }
}

/// The fingerprints of several files.
pub fn fingerprints(paths: &[PathBuf]) -> Vec<Fingerprint> {
    paths.iter().map(|path| Fingerprint::from_path(path)).collect()
}

/// Device, inode and the time of the last change of either content or inode: a file replaced by one
/// of the same length within the clock's resolution differs in the inode.
#[cfg(unix)]
fn identity(meta: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    (0, 0, 0, 0)
}

/// The name of the file system, if it does not report changes made on other machines.
#[cfg(target_os = "linux")]
pub fn remote(folder: &Path) -> Option<String> {
    let kind = rustix::fs::statfs(folder).ok()?.f_type as u32;
    let name = match kind {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x6573_5546 => "FUSE",
        0x0102_1997 => "9P",
        0x5346_414f => "AFS",
        0x00c3_6400 => "Ceph",
        0x786f_4256 => "a VirtualBox share",
        _ => return None,
    };
    Some(format!("{} is on {name}", folder.display()))
}

/// Elsewhere the slow periodic sweep finds unreported changes.
#[cfg(not(target_os = "linux"))]
pub fn remote(_: &Path) -> Option<String> {
    None
}

/// How changes are noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// By file system events.
    Events,
    /// The files are polled, for this reason.
    Polling(String),
}

/// Whether an event can mean changed content. Reads are reported too, and our own reads must not
/// wake us.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

/// Watches folders non-recursively, and knows how changes are noticed.
pub struct FolderWatch {
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    /// How changes are noticed now.
    pub mode: WatchMode,
}

impl FolderWatch {
    /// Passes `hear` each event that can mean changed content; `None` when events were lost.
    pub fn open(poll_only: bool, on_event: impl Fn(Option<Event>) + Send + 'static) -> Self {
        let (mut watcher, mut mode) = (None, WatchMode::Polling("asked for".to_owned()));
        if !poll_only {
            let handler = move |event: notify::Result<Event>| match event {
                Ok(event) if !is_change(&event) => {}
                event => on_event(event.ok()),
            };
            match notify::recommended_watcher(handler) {
                Ok(opened) => (watcher, mode) = (Some(opened), WatchMode::Events),
                Err(error) => mode = WatchMode::Polling(error.to_string()),
            }
        }
        Self { watcher, folders: BTreeSet::new(), mode }
    }

    /// Watches exactly these folders; `remote` says why events are unreliable. Returns whether any
    /// of the folders are new.
    pub fn aim(&mut self, folders: &BTreeSet<PathBuf>, remote: Option<String>) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        for gone in self.folders.difference(folders) {
            // It may be deleted already, and its watch with it.
            let _ = watcher.unwatch(gone);
        }
        let (mut watched, mut trouble) = (BTreeSet::new(), remote);
        for folder in folders {
            // Known ones are watched again where that is free: a folder recreated under the same
            // name has no watch.
            if cfg!(target_os = "linux") || !self.folders.contains(folder) {
                let failure = watcher.watch(folder, RecursiveMode::NonRecursive).err();
                if let Some(error) = failure.filter(|_| folder.is_dir()) {
                    trouble = Some(error.to_string());
                    break;
                }
            }
            watched.insert(folder.clone());
        }
        let has_new = !watched.is_subset(&self.folders);
        self.folders = watched;
        self.mode = trouble.map_or(WatchMode::Events, WatchMode::Polling);
        has_new
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(targets: &Targets) -> Vec<&str> {
        targets.names.iter().filter_map(|n| n.to_str()).collect()
    }

    #[test]
    fn a_mounted_configuration_is_watched_where_its_links_are_swapped() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("a path");
        std::fs::create_dir(root.join("..v1")).expect("made");
        std::fs::write(root.join("..v1/mcp.json"), "{}").expect("written");
        symlink("..v1", root.join("..data")).expect("linked");
        symlink("..data/mcp.json", root.join("mcp.json")).expect("linked");
        let targets = Targets::from_paths(&[root.join("mcp.json")]);
        let expected = BTreeSet::from([root.clone(), root.join("..v1")]);
        assert_eq!(targets.folders, expected);
        assert_eq!(names(&targets), ["..data", "mcp.json"]);
    }

    #[test]
    fn of_a_missing_path_the_deepest_folder_is_watched_for_the_next_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("a path");
        let targets = Targets::from_paths(&[root.join(".vscode/mcp.json")]);
        assert_eq!(targets.folders, BTreeSet::from([root.clone()]));
        assert_eq!(names(&targets), [".vscode"]);
    }

    #[test]
    fn links_in_a_circle_come_to_an_end() {
        let dir = tempfile::tempdir().expect("a folder");
        symlink("b", dir.path().join("a")).expect("linked");
        symlink("a", dir.path().join("b")).expect("linked");
        let targets = Targets::from_paths(&[dir.path().join("a/mcp.json")]);
        assert!(!targets.folders.is_empty());
    }

    #[test]
    fn a_replacement_of_the_same_length_has_another_fingerprint() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("f");
        std::fs::write(&file, "1").expect("written");
        let before = Fingerprint::from_path(&file);
        std::fs::write(dir.path().join("g"), "2").expect("written");
        std::fs::rename(dir.path().join("g"), &file).expect("renamed");
        assert_ne!(Fingerprint::from_path(&file), before);
    }
}
