//! Lines of a byte stream, with a hard cap: a longer line is skipped to its end in bounded memory.

use std::io;
use std::ops::Range;

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What stands next in the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole line, without its break, as a range of [`Lines::bytes`].
    Whole(Range<usize>),
    /// A line over the limit, with its ends.
    Oversized {
        /// Its beginning.
        head: Vec<u8>,
        /// Its end.
        tail: Vec<u8>,
        /// Its length in bytes.
        total: u64,
    },
}

/// Splits a stream into lines.
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Begin of what was not handed out.
    start: usize,
    /// Everything before this was searched for a line break.
    searched: usize,
    limit: usize,
    skipping: Option<Skipping>,
    step: usize,
    small: u32,
}

struct Skipping {
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
}

impl Skipping {
    const HEAD: usize = 64 << 10;
    const TAIL: usize = 512;

    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(Self::TAIL)..]);
        self.tail.drain(..self.tail.len().saturating_sub(Self::TAIL));
    }
}

impl<R: AsyncRead + Unpin> Lines<R> {
    const STEP: usize = 8 << 10;
    const MAX_STEP: usize = 256 << 10;
    /// Most bytes of one read. While a large pipe is being emptied its writer cannot go on; read in
    /// parts, both work at the same time.
    const READ: usize = 64 << 10;
    /// A buffer grown for a long line is given back after this many reads that did not need it.
    const SMALL_READS: u32 = 32;

    /// Lines of at most `limit` bytes.
    pub const fn new(reader: R, limit: usize) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            limit,
            skipping: None,
            step: Self::STEP,
            small: 0,
        }
    }

    /// The bytes a range of [`Line::Whole`] means; valid until [`Lines::fill`].
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Bytes that wait for their line break.
    pub const fn unfinished(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether the line that is being read is over the limit, and its bytes are let go.
    pub const fn is_skipping(&self) -> bool {
        self.skipping.is_some()
    }

    /// The next line that is complete already.
    pub fn next_line(&mut self) -> Option<Line> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        if let Some(skipping) = &mut self.skipping {
            let end = found.map_or(self.buffer.len(), |at| self.searched + at);
            skipping.add(&self.buffer[self.start..end]);
            self.start = end + usize::from(found.is_some());
            self.searched = self.start;
            found?;
            let Skipping { head, tail, total } = self.skipping.take()?;
            return Some(Line::Oversized { head, tail, total });
        }
        let Some(at) = found else {
            self.searched = self.buffer.len();
            if self.unfinished() > self.limit {
                let mut skipping = Skipping { head: Vec::new(), tail: Vec::new(), total: 0 };
                let rest = &self.buffer[self.start..];
                skipping.head.extend_from_slice(&rest[..rest.len().min(Skipping::HEAD)]);
                skipping.add(rest);
                self.skipping = Some(skipping);
                self.start = self.buffer.len();
            }
            return None;
        };
        let line = self.start..self.searched + at;
        self.start = line.end + 1;
        self.searched = self.start;
        if line.len() > self.limit {
            let bytes = &self.buffer[line];
            return Some(Line::Oversized {
                head: bytes[..bytes.len().min(Skipping::HEAD)].to_vec(),
                tail: bytes[bytes.len().saturating_sub(Skipping::TAIL)..].to_vec(),
                total: bytes.len() as u64,
            });
        }
        Some(Line::Whole(line))
    }

    /// Reads more; 0 at the end of the stream. Dropping the future loses nothing.
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.make_room();
        let read = self.reader.read_buf(&mut (&mut self.buffer).limit(Self::READ)).await?;
        self.step = if read >= self.step { (self.step * 2).min(Self::MAX_STEP) } else { self.step };
        Ok(read)
    }

    /// What stood after the last line break when the stream ended.
    pub fn rest(&mut self) -> Option<Line> {
        self.buffer.push(b'\n');
        self.next_line()
    }

    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start.., 0);
            self.buffer.truncate(self.buffer.len() - self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.small = if self.buffer.len() < Self::STEP { self.small + 1 } else { 0 };
        if self.small > Self::SMALL_READS && self.buffer.capacity() > Self::MAX_STEP {
            self.buffer.shrink_to(Self::STEP);
            self.step = Self::STEP;
            self.small = 0;
        }
        if self.buffer.capacity() - self.buffer.len() < self.step {
            self.buffer.reserve(self.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &[u8], limit: usize) -> Vec<String> {
        let mut lines = Lines::new(text, limit);
        let mut out = Vec::new();
        loop {
            let mut next = lines.next_line();
            let ended = next.is_none() && lines.fill().await.unwrap() == 0;
            if ended {
                next = lines.rest();
            }
            match next {
                Some(Line::Whole(range)) => {
                    out.push(String::from_utf8_lossy(lines.bytes(range)).into_owned());
                }
                Some(Line::Oversized { head, tail, total }) => {
                    let (head, tail) = (head.len(), String::from_utf8_lossy(&tail).into_owned());
                    out.push(format!(
                        "{total} bytes, {head} of head, ..{}",
                        &tail[tail.len() - 3..]
                    ));
                }
                None => {}
            }
            if ended {
                return out;
            }
        }
    }

    #[tokio::test]
    async fn splits_lines_and_gives_the_unfinished_one_at_the_end() {
        assert_eq!(all(b"a\n\nbc\r\nd", 10).await, ["a", "", "bc\r", "d"]);
        assert_eq!(all(b"a\n", 10).await, ["a", ""]);
    }

    #[tokio::test]
    async fn skips_a_line_over_the_limit_and_goes_on_behind_it() {
        let mut text = vec![b'x'; 20 << 20];
        text.extend_from_slice(b"yz}\nnext\n");
        let got = all(&text, 1 << 20).await;
        assert_eq!(got[0], format!("{} bytes, {} of head, ..yz}}", (20 << 20) + 3, 64 << 10));
        assert_eq!(got[1], "next");
        assert_eq!(all(b"0123456789\nok", 5).await[1], "ok");
    }

    #[tokio::test]
    async fn a_line_without_end_costs_no_more_than_its_limit() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 1 << 20);
        for _ in 0..1000 {
            lines.fill().await.unwrap();
            assert_eq!(lines.next_line(), None);
            assert!(lines.buffer.capacity() <= 4 << 20, "{}", lines.buffer.capacity());
        }
    }

    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use proptest::prelude::*;
    use tokio::io::ReadBuf;

    /// Gives a stream in pieces, and nothing at all before every one of them.
    struct Pieces {
        left: VecDeque<Vec<u8>>,
        hesitates: bool,
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.hesitates = !self.hesitates;
            if self.hesitates {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(mut piece) = self.left.pop_front() {
                let rest = piece.split_off(piece.len().min(into.remaining()));
                into.put_slice(&piece);
                if !rest.is_empty() {
                    self.left.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    /// What the lines of a text are, whole or with their length.
    fn by_hand(text: &[u8], limit: usize) -> Vec<Result<Vec<u8>, u64>> {
        let lines = text.split(|byte| *byte == b'\n');
        lines.map(|l| if l.len() > limit { Err(l.len() as u64) } else { Ok(l.to_vec()) }).collect()
    }

    fn shown<R: AsyncRead + Unpin>(lines: &Lines<R>, line: Line) -> Result<Vec<u8>, u64> {
        match line {
            Line::Whole(range) => Ok(lines.bytes(range).to_vec()),
            Line::Oversized { head, tail, total } => {
                assert!(head.len() as u64 <= total && tail.len() as u64 <= total);
                Err(total)
            }
        }
    }

    proptest! {
        #[test]
        fn lines_are_the_same_in_whatever_pieces_they_come_and_whoever_stops_waiting(
            pieces in prop::collection::vec(prop::collection::vec(
                prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 1..40), 0..30),
            limit in 0_usize..60,
        ) {
            let text = pieces.concat();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let got = runtime.block_on(async {
                let pieces = Pieces { left: pieces.into(), hesitates: false };
                let (mut lines, mut got) = (Lines::new(pieces, limit), Vec::new());
                loop {
                    if let Some(line) = lines.next_line() {
                        got.push(shown(&lines, line));
                        continue;
                    }
                    // Stops waiting at once; the next look waits again.
                    let read = tokio::select! {
                        biased;
                        read = lines.fill() => Some(read.unwrap()),
                        () = std::future::ready(()) => None,
                    };
                    if read == Some(0) {
                        let rest = lines.rest();
                        got.extend(rest.map(|line| shown(&lines, line)));
                        return got;
                    }
                }
            });
            prop_assert_eq!(got, by_hand(&text, limit));
        }
    }
}
