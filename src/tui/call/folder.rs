//! Folders and files of this machine, read for a field of a form. Everything here waits for the
//! file system, so it is run beside the drawing and never by it; what is kept is bounded.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use crate::base::text::SafeText;
use crate::tui::state::at_home;

/// Most entries of one folder that are looked at.
pub const MOST_ENTRIES: usize = 5_000;
/// Largest file whose content fills a field, in bytes.
pub const LARGEST_FILE: u64 = 4 << 20;

/// What an entry of a folder is, symbolic links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file of so many bytes.
    File(u64),
    /// A device, pipe or socket, or a link to nothing: has a path, but no content to take.
    Other,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name as the file system has it.
    pub name: OsString,
    /// Its name as it can be shown.
    pub shown: SafeText,
    /// What it is.
    pub kind: EntryKind,
}

impl Entry {
    /// An entry of this name.
    pub fn new(name: OsString, kind: EntryKind) -> Self {
        let shown = SafeText::cut(&name.to_string_lossy(), 300);
        Self { name, shown, kind }
    }

    /// Whether its name begins with a dot.
    pub fn is_hidden(&self) -> bool {
        self.name.as_encoded_bytes().first() == Some(&b'.')
    }
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A folder: its entries, folders first, and whether there are more than were looked at.
    Folder(Vec<Entry>, More),
    /// Something that is no folder.
    Leaf(EntryKind),
}

/// Whether a folder holds more than was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// All of it was looked at.
    No,
    /// Only [`MOST_ENTRIES`] were.
    Yes,
}

/// What came of looking at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The path as it was asked for.
    pub asked: PathBuf,
    /// The same, absolute.
    pub path: PathBuf,
    /// What is there, or why that cannot be told.
    pub found: Result<Found, SafeText>,
}

/// Looks at a path; a relative one begins at the working folder, `~/` at home.
pub fn look(asked: PathBuf) -> Looked {
    look_at_most(asked, MOST_ENTRIES)
}

fn look_at_most(asked: PathBuf, most: usize) -> Looked {
    let path = at_home(&asked);
    // Up from a path that ends in `..` would otherwise lead back down.
    let climbs = path.components().any(|part| part == Component::ParentDir);
    // On Windows `..` goes by the words, and what `canonicalize` gives (`\\\\?\\C:\\`) is no path
    // that a server could be told.
    let looks_up = climbs && !cfg!(windows);
    let path = match if looks_up { path.canonicalize() } else { std::path::absolute(&path) } {
        // Without the separator that may end what was typed.
        Ok(path) => path.components().collect::<PathBuf>(),
        Err(error) => return Looked { found: Err(refusal(&asked, &error)), path, asked },
    };
    let found = entries(&path, most).map_err(|error| refusal(&path, &error));
    Looked { asked, path, found }
}

fn entries(path: &Path, most: usize) -> std::io::Result<Found> {
    let meta = std::fs::metadata(path)?;
    if !meta.is_dir() {
        return Ok(Found::Leaf(kind(&meta)));
    }
    let mut all = Vec::new();
    let mut more = More::No;
    for entry in std::fs::read_dir(path)? {
        if all.len() == most {
            more = More::Yes;
            break;
        }
        let entry = entry?;
        let kind = std::fs::metadata(entry.path()).map_or(EntryKind::Other, |meta| kind(&meta));
        all.push(Entry::new(entry.file_name(), kind));
    }
    all.sort_by_cached_key(|entry| {
        let name = entry.name.to_string_lossy().to_lowercase();
        (entry.kind != EntryKind::Folder, name, entry.name.clone())
    });
    Ok(Found::Folder(all, more))
}

fn kind(meta: &std::fs::Metadata) -> EntryKind {
    if meta.is_dir() {
        EntryKind::Folder
    } else if meta.is_file() {
        EntryKind::File(meta.len())
    } else {
        EntryKind::Other
    }
}

/// The content of a file of at most [`LARGEST_FILE`] bytes.
///
/// # Errors
///
/// Why there is none: no file, too large, unreadable.
pub fn content(path: &Path) -> Result<Vec<u8>, SafeText> {
    let path = at_home(path);
    let fail = |reason: &str| SafeText::line(&format!("{}: {reason}", path.display()));
    let meta = std::fs::metadata(&path).map_err(|error| refusal(&path, &error))?;
    if !meta.is_file() {
        return Err(fail("is no file"));
    }
    let file = std::fs::File::open(&path).map_err(|error| refusal(&path, &error))?;
    let mut bytes = Vec::new();
    // It may grow while it is read, and some files do not know their size.
    let read = file.take(LARGEST_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|error| refusal(&path, &error))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(fail("is larger than the 4 MiB that fill a field"));
    }
    Ok(bytes)
}

fn refusal(path: &Path, error: &std::io::Error) -> SafeText {
    SafeText::line(&format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(looked: &Looked) -> Vec<&str> {
        let Ok(Found::Folder(entries, _)) = &looked.found else { panic!("{looked:?}") };
        entries.iter().map(|entry| entry.shown.as_str()).collect()
    }

    #[test]
    fn a_folder_is_listed_folders_first_and_cut_where_it_is_too_long() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.txt", "A.txt", ".hidden"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(folder.path().join("zoo")).unwrap();
        let looked = look(folder.path().to_owned());
        assert_eq!(names(&looked), ["zoo", ".hidden", "A.txt", "b.txt"]);
        let Ok(Found::Folder(entries, More::No)) = &looked.found else { panic!("{looked:?}") };
        assert_eq!(entries[3].kind, EntryKind::File(5));
        let short = look_at_most(folder.path().to_owned(), 2);
        assert_eq!(names(&short).len(), 2);
        assert!(matches!(short.found, Ok(Found::Folder(_, More::Yes))));
        let exact = look_at_most(folder.path().to_owned(), 4);
        assert!(matches!(exact.found, Ok(Found::Folder(_, More::No))));
        let ended = look(folder.path().join("zoo").join(""));
        assert!(ended.path.to_string_lossy().ends_with("zoo"), "{:?}", ended.path);
        let up = look(folder.path().join("zoo/.."));
        assert_eq!(up.path, real(folder.path()));
    }

    /// Where a folder really is, in the words of this system's people.
    fn real(folder: &Path) -> PathBuf {
        if cfg!(windows) { folder.to_owned() } else { folder.canonicalize().unwrap() }
    }

    #[test]
    fn only_files_of_a_size_that_fits_a_field_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (small, large) = (folder.path().join("small"), folder.path().join("large"));
        std::fs::write(&small, [0, 255]).unwrap();
        std::fs::File::create(&large).unwrap().set_len(LARGEST_FILE + 1).unwrap();
        assert_eq!(content(&small), Ok(vec![0, 255]));
        assert!(content(&large).unwrap_err().as_str().contains("4 MiB"));
        assert!(content(folder.path()).unwrap_err().as_str().contains("is no file"));
        let absent = look(folder.path().join("absent"));
        assert!(absent.found.is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_hostile_name_is_shown_by_signs_and_kept_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let name = "evil\x1b]0;title\x07\n\u{202e}gpj";
        std::fs::write(folder.path().join(name), "").unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("z")).unwrap();
        let looked = look(folder.path().to_owned());
        let Ok(Found::Folder(entries, _)) = &looked.found else { panic!("{looked:?}") };
        let bad = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!entries[0].shown.as_str().contains(bad), "{:?}", entries[0].shown);
        assert_eq!(entries[0].name, name);
        assert_eq!(entries[1].kind, EntryKind::Other);
    }
}
