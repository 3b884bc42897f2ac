//! The rotating log file: bounded in size, keeps a few old files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Number of old files kept, as `NAME.1` (newest) to `NAME.3`.
const MAX_OLD_FILES: u32 = 3;

/// An append-only file; renames `NAME` to `NAME.1` when it is full.
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    size: u64,
    max: u64,
}

impl RotatingFile {
    /// Opens or creates the file; it is rotated at `max` bytes.
    pub(super) fn open(path: &Path, max: u64) -> io::Result<Self> {
        let file = append(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size, max })
    }

    fn rotate(&mut self) -> io::Result<()> {
        for n in (1..MAX_OLD_FILES).rev() {
            let _ = fs::rename(numbered(&self.path, n), numbered(&self.path, n + 1));
        }
        fs::rename(&self.path, numbered(&self.path, 1))?;
        self.file = append(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

impl Write for RotatingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.size > 0 && self.size + line.len() as u64 > self.max {
            // A full disk or a read-only directory must not stop logging: keep appending to the old
            // file, and retry the rotation after another `max` bytes.
            if self.rotate().is_err() {
                self.size = 0;
            }
        }
        self.file.write_all(line)?;
        self.size += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Readable by the owner only: logs contain names of files and tools.
fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

fn numbered(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_moved_aside_and_only_three_old_ones_are_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let mut file = RotatingFile::open(&path, 10).expect("writable");
        for n in 0..8 {
            writeln!(file, "line {n}").expect("written");
        }
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        assert_eq!(read("log"), "line 7\n");
        assert_eq!(read("log.1"), "line 6\n");
        assert_eq!(read("log.3"), "line 4\n");
        assert!(!dir.path().join("log.4").exists());
    }
}
