//! Content codings of response bodies (RFC 9110, section 8.4). `identity` is asked for; what a
//! server or a proxy compresses all the same is decoded piece by piece, so that the reader's limit
//! holds for the decoded bytes and a small body cannot become a large one in memory.

use std::io;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use base::SafeText;

/// The bytes of a body.
pub(crate) type DecodedBody = BoxStream<'static, io::Result<Bytes>>;

/// Most bytes that are decoded at once.
const MAX_PIECE_BYTES: usize = 32 << 10;
/// Longest header of a gzip member, in bytes: it may hold a file name and a comment.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// What stands where a coding belongs, and is none: `identity`, and names of character sets and of
/// transfers that some servers and gateways put there.
const UNCODED: [&str; 13] = [
    "",
    "identity",
    "none",
    "utf-8",
    "utf8",
    "us-ascii",
    "iso-8859-1",
    "7bit",
    "8bit",
    "binary",
    "text",
    "chunked",
    "aws-chunked",
];

/// A coding that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    /// The zlib format, or the bare DEFLATE stream that some servers send under this name.
    Deflate,
}

impl Coding {
    /// The coding of a response.
    ///
    /// # Errors
    /// Names a coding that cannot be decoded.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, String> {
        let named = |value: &http::HeaderValue| value.to_str().unwrap_or("?").to_ascii_lowercase();
        let given = headers.get_all(CONTENT_ENCODING).iter().map(named).collect::<Vec<_>>();
        let given = given.join(",");
        let mut codings =
            given.split(',').map(str::trim).filter(|coding| !UNCODED.contains(coding));
        let coding = match codings.next() {
            None => Self::Identity,
            Some("gzip" | "x-gzip") => Self::Gzip,
            Some("deflate") => Self::Deflate,
            Some(_) => return Err(refusal(&given)),
        };
        if codings.next().is_some() { Err(refusal(&given)) } else { Ok(coding) }
    }

    /// Its name in a message.
    pub(super) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Deflate => Some("deflate"),
        }
    }
}

fn refusal(coding: &str) -> String {
    let coding = SafeText::cut(coding, 32);
    format!(
        "the answer is compressed (`content-encoding: {coding}`), which was not asked for and \
         cannot be read: have the server, or the proxy in front of it, heed `accept-encoding`"
    )
}

/// The decoded body of a response; an error in place of one that cannot be decoded.
pub(crate) fn decoded(response: reqwest::Response) -> DecodedBody {
    let coding = Coding::from_headers(response.headers());
    let body = response.bytes_stream().map_err(io::Error::other).boxed();
    match coding {
        Ok(coding) => decode(body, coding),
        Err(text) => stream::once(async { Err(io::Error::other(text)) }).boxed(),
    }
}

fn decode(body: DecodedBody, coding: Coding) -> DecodedBody {
    if coding == Coding::Identity {
        return body;
    }
    let inflater = Inflater::new(coding);
    let pieces = stream::try_unfold((body, inflater), async |(mut body, mut inflater)| {
        loop {
            if let Some(piece) = inflater.next()? {
                return Ok(Some((piece, (body, inflater))));
            }
            match body.next().await {
                Some(chunk) => inflater.input = chunk?,
                None if inflater.is_complete() => return Ok(None),
                None => return Err(broken("it breaks off")),
            }
        }
    });
    pieces.boxed()
}

fn broken(what: &str) -> io::Error {
    io::Error::other(format!("the compressed answer cannot be read: {what}"))
}

/// Where a body is being read.
enum Place {
    /// In a body that is not compressed, whatever its header says.
    Plain,
    /// In the header of a gzip member; what is known of it.
    Header(Vec<u8>),
    /// At the first bytes of a `deflate` body, which tell its format.
    Start(Vec<u8>),
    Data(Box<Decompress>),
    /// Behind the data: bytes of the trailer to skip.
    Trailer(usize),
}

struct Inflater {
    coding: Coding,
    place: Place,
    input: Bytes,
    /// Whether a gzip member has been read.
    has_begun: bool,
}

impl Inflater {
    /// Checksum and length at the end of a gzip member.
    const GZIP_TRAILER_BYTES: usize = 8;

    fn new(coding: Coding) -> Self {
        let first = if coding == Coding::Gzip { Place::Header } else { Place::Start };
        Self { coding, place: first(Vec::new()), input: Bytes::new(), has_begun: false }
    }

    /// Whether the body may end here.
    fn is_complete(&self) -> bool {
        match &self.place {
            Place::Header(known) | Place::Start(known) => known.is_empty(),
            Place::Plain | Place::Trailer(_) => true,
            Place::Data(_) => false,
        }
    }

    /// The next decoded piece; `None` when more input is needed.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.input.is_empty() {
            match &mut self.place {
                Place::Plain => return Ok(Some(std::mem::take(&mut self.input))),
                Place::Header(known) => {
                    known.extend_from_slice(&self.input);
                    // A proxy that has unpacked a body may leave the header as it was.
                    if !self.has_begun && !is_gzip(known) {
                        self.input = Bytes::from(std::mem::take(known));
                        self.place = Place::Plain;
                        continue;
                    }
                    let Some(length) = header_length(known)? else {
                        self.input = Bytes::new();
                        continue;
                    };
                    self.input = Bytes::from(std::mem::take(known)).slice(length..);
                    self.place = Place::Data(Box::new(Decompress::new(false)));
                    self.has_begun = true;
                }
                Place::Start(known) => {
                    known.extend_from_slice(&self.input);
                    self.input = Bytes::new();
                    if let [first, second, ..] = **known {
                        let zlib = first & 0x0f == 8
                            && (u16::from(first) << 8 | u16::from(second)).is_multiple_of(31);
                        self.input = std::mem::take(known).into();
                        self.place = Place::Data(Box::new(Decompress::new(zlib)));
                    }
                }
                Place::Data(inflate) => {
                    let (read, written) = (inflate.total_in(), inflate.total_out());
                    let mut piece = vec![0; MAX_PIECE_BYTES];
                    let status = inflate.decompress(&self.input, &mut piece, FlushDecompress::None);
                    let status = status.map_err(|error| broken(&error.to_string()))?;
                    let read = (inflate.total_in() - read) as usize;
                    let written = (inflate.total_out() - written) as usize;
                    self.input = self.input.slice(read..);
                    if status == Status::StreamEnd {
                        let gzip = self.coding == Coding::Gzip;
                        self.place =
                            Place::Trailer(if gzip { Self::GZIP_TRAILER_BYTES } else { 0 });
                    } else if read == 0 && written == 0 {
                        return Err(broken("it makes no progress"));
                    }
                    if written > 0 {
                        piece.truncate(written);
                        return Ok(Some(piece.into()));
                    }
                }
                Place::Trailer(left) => {
                    let skipped = self.input.len().min(*left);
                    *left -= skipped;
                    self.input = self.input.slice(skipped..);
                    if *left == 0 && !self.input.is_empty() {
                        // Another member may follow; what follows a deflate stream means nothing.
                        if self.coding == Coding::Gzip {
                            self.place = Place::Header(Vec::new());
                        } else {
                            self.input = Bytes::new();
                        }
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Whether these may be the first bytes of a gzip member.
fn is_gzip(bytes: &[u8]) -> bool {
    let begins = [0x1f, 0x8b, 8];
    begins.starts_with(&bytes[..bytes.len().min(begins.len())])
}

/// The length of the gzip header at the start of `bytes` (RFC 1952, section 2.3); `None` when it
/// goes on behind them.
fn header_length(bytes: &[u8]) -> io::Result<Option<usize>> {
    const GZIP_HEADER_BYTES: usize = 10;
    if !is_gzip(bytes) {
        return Err(broken("it is not gzip"));
    }
    if bytes.len() > MAX_HEADER_BYTES {
        return Err(broken("its header has no end"));
    }
    let Some(&flags) = bytes.get(3) else { return Ok(None) };
    let mut at = GZIP_HEADER_BYTES;
    if flags & 4 != 0 {
        let Some(&[low, high]) = bytes.get(at..at + 2) else { return Ok(None) };
        at += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for text in [8, 16] {
        if flags & text != 0 {
            let Some(rest) = bytes.get(at..) else { return Ok(None) };
            let Some(end) = memchr::memchr(0, rest) else { return Ok(None) };
            at += end + 1;
        }
    }
    if flags & 2 != 0 {
        at += 2;
    }
    Ok((bytes.len() >= at).then_some(at))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::GzBuilder::new().filename("answer.json").comment("ours");
        encoder = encoder.extra(vec![1, 2, 3]);
        let mut encoder = encoder.write(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    async fn read(body: &[u8], pieces: usize, coding: Coding) -> io::Result<Vec<u8>> {
        let pieces: Vec<_> = body.chunks(pieces).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let parts: Vec<Bytes> = decode(stream::iter(pieces).boxed(), coding).try_collect().await?;
        Ok(parts.concat())
    }

    #[tokio::test]
    async fn what_is_compressed_is_read_however_it_is_cut() {
        let text = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.repeat(40).into_bytes();
        let mut plain = GzEncoder::new(Vec::new(), Compression::best());
        plain.write_all(&text).unwrap();
        let (mut zlib, mut raw) = (
            ZlibEncoder::new(Vec::new(), Compression::fast()),
            DeflateEncoder::new(Vec::new(), Compression::fast()),
        );
        zlib.write_all(&text).unwrap();
        raw.write_all(&text).unwrap();
        let bodies = [
            (plain.finish().unwrap(), Coding::Gzip),
            (gzip(&text), Coding::Gzip),
            ([gzip(&text[..100]), gzip(&text[100..])].concat(), Coding::Gzip),
            (zlib.finish().unwrap(), Coding::Deflate),
            (raw.finish().unwrap(), Coding::Deflate),
            (text.clone(), Coding::Identity),
        ];
        for (body, coding) in &bodies {
            for pieces in [1, 2, 7, 4096] {
                assert_eq!(read(body, pieces, *coding).await.unwrap(), text, "{coding:?} {pieces}");
            }
        }
        assert_eq!(read(b"", 1, Coding::Gzip).await.unwrap(), b"");
        // Unpacked on the way, under the header of before.
        for pieces in [1, 4096] {
            assert_eq!(read(&text, pieces, Coding::Gzip).await.unwrap(), text);
        }
    }

    #[tokio::test]
    async fn what_is_broken_is_an_error_and_not_half_an_answer() {
        let whole = gzip(&[b'x'; 5000]);
        let followed = [&whole[..], b"{\"jsonrpc\":\"2.0\"}"].concat();
        for body in [&whole[..whole.len() - 12], &followed, &[0x1f, 0x8b, 8]] {
            assert!(read(body, 64, Coding::Gzip).await.is_err(), "{body:?}");
        }
    }

    #[tokio::test]
    async fn a_bomb_is_decoded_no_further_than_it_is_read() {
        let bomb = gzip(&vec![0; 64 << 20]);
        let once = stream::iter([Ok(Bytes::from(bomb))]).boxed();
        let mut body = decode(once, Coding::Gzip);
        let mut total = 0;
        while total < 1 << 20 {
            let piece = body.next().await.unwrap().unwrap();
            assert!(piece.len() <= MAX_PIECE_BYTES);
            total += piece.len();
        }
    }

    #[test]
    fn a_coding_that_cannot_be_read_is_named() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_ENCODING, value.parse().unwrap());
            Coding::from_headers(&headers)
        };
        assert_eq!(of("GZIP"), Ok(Coding::Gzip));
        for none in ["identity", "UTF-8", "none", "aws-chunked", "binary"] {
            assert_eq!(of(none), Ok(Coding::Identity), "{none}");
        }
        assert_eq!(of("aws-chunked, gzip"), Ok(Coding::Gzip));
        assert!(of("br").unwrap_err().contains("content-encoding: br"));
        assert!(of("gzip, br").unwrap_err().contains("gzip, br"));
    }
}
