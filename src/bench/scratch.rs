//! The folder that a copy of a server works in instead of its own: copied before each start, and what
//! names it in the entry changed to name the copy.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use base::text::path::spelled;
use config::StdioConfig;

/// Maximum size of a folder that is copied, in bytes.
const MAX_FOLDER_BYTES: u64 = 256 << 20;
/// Maximum number of files in it.
const MAX_FOLDER_FILES: usize = 20_000;

/// A folder and where its copy is.
#[derive(Clone, Debug)]
pub struct ScratchFolder {
    from: PathBuf,
    to: PathBuf,
}

impl ScratchFolder {
    /// A copy of `from` that will be in `within`.
    ///
    /// # Errors
    /// When `from` is no folder.
    pub fn new(from: &Path, within: &Path) -> Result<Self, String> {
        let wrong = |why: &str| format!("`fuzz.folders`: {}: {why}", spelled(from));
        let from = fs::canonicalize(from).map_err(|error| wrong(&error.to_string()))?;
        if !from.is_dir() {
            return Err(wrong("is not a folder"));
        }
        Ok(Self { from, to: within.join("folder") })
    }

    /// Changes what leads into the folder to lead into the copy: arguments, values of variables, the
    /// working folder. `beside` is the folder that relative paths of the entry begin at.
    ///
    /// # Errors
    /// When nothing does.
    pub fn enter(&self, entry: &mut StdioConfig, beside: &Path) -> Result<(), String> {
        let cwd = entry.cwd.clone().unwrap_or_else(|| beside.to_owned());
        let cwd = if cwd.is_absolute() { cwd } else { beside.join(cwd) };
        let mut changed = false;
        for argument in &mut entry.args {
            if let Some(moved) = self.moved(argument, &cwd) {
                (*argument, changed) = (moved, true);
            }
        }
        for value in entry.env.values_mut() {
            if let Some(moved) = self.moved(value.expose(), &cwd) {
                (*value, changed) = (moved.into(), true);
            }
        }
        if let Some(moved) = self.within(&cwd) {
            (entry.cwd, changed) = (Some(moved), true);
        }
        if changed {
            return Ok(());
        }
        Err(format!(
            "`fuzz.folders`: no argument, variable or working folder of the server leads into {}",
            spelled(&self.from)
        ))
    }

    /// The same text with the path in it, if that leads into the folder: a path, or one after `=`.
    fn moved(&self, text: &str, cwd: &Path) -> Option<String> {
        let (before, path) = text.split_once('=').map_or(("", text), |(before, path)| {
            if Path::new(text).is_absolute() { ("", text) } else { (before, path) }
        });
        if path.is_empty() || path.starts_with('-') {
            return None;
        }
        let moved = self.within(&cwd.join(path))?;
        let moved = moved.to_string_lossy();
        Some(if before.is_empty() { moved.into_owned() } else { format!("{before}={moved}") })
    }

    /// Where a path in the folder is in the copy.
    fn within(&self, path: &Path) -> Option<PathBuf> {
        let mut whole = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => _ = whole.pop(),
                Component::CurDir => {}
                part => whole.push(part),
            }
        }
        // A link on the way; a file that the server will create has no path yet.
        let known = fs::canonicalize(&whole).unwrap_or(whole);
        let rest = known.strip_prefix(&self.from).ok()?;
        Some(if rest.as_os_str().is_empty() { self.to.clone() } else { self.to.join(rest) })
    }

    /// Copies the folder anew. Links are left out: they may lead anywhere.
    ///
    /// # Errors
    /// When it is too large, or cannot be copied.
    pub fn copy(&self) -> Result<(), String> {
        let wrong = |error: io::Error| format!("`fuzz.folders`: {}: {error}", spelled(&self.from));
        match fs::remove_dir_all(&self.to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(error)),
            _ => {}
        }
        let mut left = (MAX_FOLDER_BYTES, MAX_FOLDER_FILES);
        let mut open = vec![(self.from.clone(), self.to.clone())];
        while let Some((from, to)) = open.pop() {
            fs::create_dir_all(&to).map_err(wrong)?;
            for entry in fs::read_dir(&from).map_err(wrong)? {
                let entry = entry.map_err(wrong)?;
                let (kind, to) = (entry.file_type().map_err(wrong)?, to.join(entry.file_name()));
                if kind.is_dir() {
                    open.push((entry.path(), to));
                } else if kind.is_file() {
                    let size = entry.metadata().map_err(wrong)?.len();
                    let less = left.0.checked_sub(size).zip(left.1.checked_sub(1));
                    left = less.ok_or_else(|| {
                        let (most, files) = (MAX_FOLDER_BYTES >> 20, MAX_FOLDER_FILES);
                        let most = format!("more than {most} MiB or {files} files");
                        format!("`fuzz.folders`: {}: {most}", spelled(&self.from))
                    })?;
                    fs::copy(entry.path(), to).map_err(wrong)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_into_the_folder_leads_into_its_copy() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        let (data, scratch) = (root.join("data"), root.join("scratch"));
        fs::create_dir_all(data.join("deep")).unwrap();
        fs::create_dir_all(root.join("database")).unwrap();
        fs::write(data.join("deep/a.txt"), "one").unwrap();
        let folder = ScratchFolder::new(&data, &scratch).unwrap();
        folder.copy().unwrap();
        let copy = scratch.join("folder");
        assert_eq!(fs::read_to_string(copy.join("deep/a.txt")).unwrap(), "one");
        // What the last run left behind is gone.
        fs::write(copy.join("new"), "").unwrap();
        folder.copy().unwrap();
        assert!(!copy.join("new").exists());
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        for (text, moved) in [
            ("data", Some(shown(&copy))),
            ("./data/deep/a.txt", Some(shown(&copy.join("deep/a.txt")))),
            ("data/not-there.db", Some(shown(&copy.join("not-there.db")))),
            ("--root=data/deep", Some(format!("--root={}", shown(&copy.join("deep"))))),
            (&shown(&data.join("deep")), Some(shown(&copy.join("deep")))),
            ("database", None),
            ("data/../database", None),
            ("--verbose", None),
            ("", None),
        ] {
            assert_eq!(folder.moved(text, &root), moved, "{text}");
        }
        let mut entry = StdioConfig {
            command: "server".to_owned(),
            args: vec!["other".to_owned()],
            env: [("ROOT".to_owned(), shown(&data).into())].into_iter().collect(),
            cwd: None,
            inherit_env: false,
            limits: config::ProcessLimits::default(),
        };
        folder.enter(&mut entry, &root).unwrap();
        assert_eq!(entry.env["ROOT"].expose(), shown(&copy));
        entry.env.clear();
        let nothing = folder.enter(&mut entry, &root).unwrap_err();
        assert!(nothing.contains("leads into"), "{nothing}");
        entry.cwd = Some("data/deep".into());
        folder.enter(&mut entry, &root).unwrap();
        assert_eq!(entry.cwd, Some(copy.join("deep")));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        fs::create_dir_all(&data).unwrap();
        std::os::unix::fs::symlink("/etc", data.join("out")).unwrap();
        let folder = ScratchFolder::new(&data, &place.path().join("scratch")).unwrap();
        folder.copy().unwrap();
        assert_eq!(fs::read_dir(place.path().join("scratch/folder")).unwrap().count(), 0);
        assert!(ScratchFolder::new(&place.path().join("none"), place.path()).is_err());
    }
}
