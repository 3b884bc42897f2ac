//! The rotating log file: bounded in size, keeps a few old files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// Number of old files kept, as `NAME.1` (newest) to `NAME.3`.
const MAX_OLD_FILES: u32 = 3;

/// An append-only file; renames `NAME` to `NAME.1` when it is full.
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    size: u64,
    max: u64,
    /// Whether the file ends within a line: the next one stands alone.
    is_torn: bool,
    lost: Arc<LostLines>,
}

/// Lines that could not be written: their number, and why the first one was not.
#[derive(Debug, Default)]
pub(super) struct LostLines(Mutex<Option<(u64, io::Error)>>);

impl LostLines {
    fn add(&self, error: io::Error) {
        self.0.lock().get_or_insert((0, error)).0 += 1;
    }

    /// What was lost, once.
    pub(super) fn take(&self) -> Option<(u64, io::Error)> {
        self.0.lock().take()
    }
}

impl RotatingFile {
    /// Opens or creates the file; it is rotated at `max` bytes.
    pub(super) fn open(path: &Path, max: u64) -> io::Result<Self> {
        let file = append(path)?;
        let size = file.metadata()?.len();
        let is_torn = ends_within_line(path);
        Ok(Self { path: path.to_owned(), file, size, max, is_torn, lost: Arc::default() })
    }

    /// The lines that could not be written.
    pub(super) fn lost(&self) -> Arc<LostLines> {
        Arc::clone(&self.lost)
    }

    /// Appends a line, or nothing of it.
    fn append_line(&mut self, line: &[u8]) -> io::Result<()> {
        let line = if self.is_torn { [&b"\n"[..], line].concat() } else { line.to_owned() };
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            let error = match self.file.write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(written) => {
                    rest = &rest[written..];
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            let begun = (line.len() - rest.len()) as u64;
            if begun > 0 {
                let taken_back = self
                    .file
                    .metadata()
                    .and_then(|meta| self.file.set_len(meta.len().saturating_sub(begun)));
                self.is_torn |= taken_back.is_err();
            }
            return Err(error);
        }
        self.is_torn = false;
        self.size += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for n in (1..MAX_OLD_FILES).rev() {
            let _ = fs::rename(numbered(&self.path, n), numbered(&self.path, n + 1));
        }
        fs::rename(&self.path, numbered(&self.path, 1))?;
        self.file = append(&self.path)?;
        self.size = 0;
        self.is_torn = false;
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
        // Nobody reads the result: what is lost is told at the end.
        if let Err(error) = self.append_line(line) {
            self.lost.add(error);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Readable by the owner only: logs contain names of files and tools. A pipe is not waited for: it has
/// a reader, or it is refused.
fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags(OFlags::NONBLOCK.bits() as i32);
        let file = options.open(path).map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => {
                io::Error::new(error.kind(), "nobody reads this pipe")
            }
            _ => error,
        })?;
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        Ok(file)
    }
    #[cfg(not(unix))]
    {
        options.open(path)
    }
}

/// Whether a file ends without a line break: a program that wrote to it was killed.
fn ends_within_line(path: &Path) -> bool {
    let last = || -> io::Result<u8> {
        if !path.metadata()?.is_file() {
            return Ok(b'\n');
        }
        let (mut file, mut byte) = (File::open(path)?, [0]);
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut byte)?;
        Ok(byte[0])
    };
    last().is_ok_and(|byte| byte != b'\n')
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
    #[test]
    fn a_line_that_was_torn_off_is_not_glued_to_the_next() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        fs::write(&path, "{\"half\":").expect("written");
        let mut file = RotatingFile::open(&path, 1 << 20).expect("writable");
        writeln!(file, "line 1").expect("written");
        writeln!(file, "line 2").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "{\"half\":\nline 1\nline 2\n");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_written_is_counted_and_told_once() {
        let mut file = RotatingFile::open(Path::new("/dev/full"), 1 << 20).expect("writable");
        for n in 0..3 {
            file.write_all(format!("line {n}\n").as_bytes()).expect("nobody reads the result");
        }
        let lost = file.lost();
        let (lines, why) = lost.take().expect("some were lost");
        assert_eq!((lines, why.kind()), (3, io::ErrorKind::StorageFull));
        assert!(lost.take().is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_that_nobody_reads_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("there");
        assert!(made.success());
        let refused = RotatingFile::open(&path, 1 << 20).err().expect("nobody reads");
        assert_eq!(refused.to_string(), "nobody reads this pipe");
    }
}
