//! A recording in blocks of whole lines, each of which can be read again by its place in the file:
//! what makes a large one as quick to open as a small one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::{LONGEST, invalid};

/// Bytes of a block of a file that is not compressed.
const BLOCK: u64 = 1 << 20;

/// Reads blocks.
#[derive(Debug)]
pub struct Blocks {
    file: BufReader<File>,
    is_packed: bool,
}

impl Blocks {
    /// Opens a file; nothing is known of what is in it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(64 << 10, File::open(path)?);
        let is_packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        Ok(Self { file, is_packed })
    }

    /// Size of the file, in bytes.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.file.get_ref().metadata()?.len())
    }

    /// Goes to a place that [`Blocks::next_block`] gave; the first is 0.
    ///
    /// # Errors
    /// When the system cannot.
    pub fn seek(&mut self, place: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(place)).map(drop)
    }

    /// The block at a place that [`Blocks::next_block`] gave.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn block(&mut self, place: u64) -> io::Result<Vec<u8>> {
        self.seek(place)?;
        Ok(self.next_block()?.map_or_else(Vec::new, |(_, text)| text))
    }

    /// The next block with its place; `None` at the end. A line that was cut is left out.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn next_block(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        let place = self.file.stream_position()?;
        if self.file.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut text = Vec::new();
        if self.is_packed {
            let most = LONGEST as u64 + BLOCK;
            let mut member = flate2::bufread::GzDecoder::new(&mut self.file).take(most + 1);
            member.read_to_end(&mut text)?;
            if text.len() as u64 > most {
                return Err(invalid("another program compressed it: unpack it first (gunzip)"));
            }
        } else {
            (&mut self.file).take(BLOCK).read_to_end(&mut text)?;
            let most = LONGEST as u64;
            if text.last() != Some(&b'\n')
                && (&mut self.file).take(most).read_until(b'\n', &mut text)? as u64 == most
            {
                return Err(invalid("a line is longer than 64 MiB"));
            }
        }
        text.truncate(memchr::memrchr(b'\n', &text).map_or(0, |end| end + 1));
        Ok(Some((place, text)))
    }
}
