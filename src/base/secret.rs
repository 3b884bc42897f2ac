//! Secrets as a type, and the redactor that keeps their values out of text.
//!
//! Owns the rule "names are shown, values are not". Must not log anything.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use aho_corasick::packed::Searcher;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::text::json::{WrittenNumbers, escaped};
use super::text::percent;

/// What every secret is printed as.
pub const MASK: &str = "***";

/// A value that must not be shown: an environment value, a header, an answered input, a token.
///
/// `Debug`, `Display` and `Serialize` all give [`MASK`]; only [`Secret::expose`] gives the value.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "String")]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that must hand it to a process or a header.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// Replaces known secret values in text with [`MASK`], in every spelling they are likely to have.
///
/// Searched for: the value; its JSON escape (also nested in a string); its percent-encoding; base64
/// in both alphabets and at any alignment, so also inside `Basic` credentials; the token of
/// `Bearer TOKEN`; the password inside a URL or a `Basic` value; each line of a multi-line value.
///
/// Cheap to clone; clones share the values they [learn](Self::learn). Values shorter than
/// [`Redactor::MIN_SECRET_BYTES`] bytes are not searched for: masking every `1` or `true` would destroy the
/// text without protecting anything.
#[derive(Clone)]
pub struct Redactor(Arc<RwLock<Arc<Search>>>);

impl Default for Redactor {
    /// A redactor that knows no secret yet.
    fn default() -> Self {
        /// Shared: there is a redactor for each of thousands of servers that never start.
        static NOTHING: LazyLock<Arc<Search>> = LazyLock::new(Arc::default);
        Self(Arc::new(RwLock::new(Arc::clone(&NOTHING))))
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spellings = self.0.read().patterns.len();
        f.debug_struct("Redactor").field("spellings", &spellings).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Search {
    values: Vec<Secret>,
    all: Option<AhoCorasick>,
    /// Fast pre-check that rules out a match, as for nearly every text. `None` for very many
    /// values.
    glance: Option<Searcher>,
    longest: usize,
    /// What is searched for, sorted.
    patterns: Vec<String>,
}

impl Search {
    fn new(values: Vec<Secret>) -> Self {
        let mut patterns = SecretPatterns::default();
        for value in &values {
            patterns.add(value.expose());
        }
        let patterns: Vec<String> = patterns.0.into_iter().collect();
        let longest = patterns.iter().map(String::len).max().unwrap_or(0);
        if patterns.is_empty() {
            return Self { values, ..Self::default() };
        }
        // Building fails only beyond 2^31 states, gigabytes of secrets.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let all = AhoCorasick::builder().kind(kind).build(&patterns).ok();
        // Vectorised (SIMD), for up to a few dozen patterns.
        let glance = Searcher::new(&patterns).filter(|glance| glance.minimum_len() > 0);
        Self { values, all, glance, longest, patterns }
    }

    /// Where known values are in `text`, in order; those that overlap are one.
    fn spans(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        let Some(search) = &self.all else { return spans };
        if self.glance.as_ref().is_some_and(|glance| glance.find(text).is_none()) {
            return spans;
        }
        // Overlapping matches come ordered by their end. They are merged, so that no part of a
        // value that overlaps another is left.
        for found in search.find_overlapping_iter(text) {
            add_span(&mut spans, found.range());
        }
        spans
    }

    /// Where the beginning of a known value at the end of a text starts, if it reveals something.
    fn revealed_from(&self, text: &str) -> Option<usize> {
        let most = text.len().min(self.longest.saturating_sub(1));
        let mut starts = (text.len() - most..text.len()).filter(|at| text.is_char_boundary(*at));
        let reveals = |start: &usize| {
            let end = &text[*start..];
            let first = self.patterns.partition_point(|pattern| pattern.as_str() < end);
            let mut begun = self.patterns[first..].iter().take_while(|it| it.starts_with(end));
            end.chars().count() >= Redactor::MIN_BEGINNING_CHARS
                && begun.any(|pattern| {
                    end.len() * 100 >= pattern.len() * Redactor::MIN_BEGINNING_PERCENT
                        || end.len() >= Redactor::MAX_BEGINNING_BYTES
                })
        };
        starts.find(reveals)
    }
}

/// Adds a span that ends behind the others; those that it overlaps become one with it.
fn add_span(spans: &mut Vec<Range<usize>>, mut span: Range<usize>) {
    while let Some(last) = spans.pop_if(|last| last.end > span.start) {
        span.start = span.start.min(last.start);
    }
    spans.push(span);
}

impl Redactor {
    /// Shortest value, in bytes, that is searched for.
    pub const MIN_SECRET_BYTES: usize = 6;
    /// Most values kept; beyond that, the oldest are forgotten.
    const MAX_SECRETS: usize = 4096;
    /// Shortest beginning of a value, in characters, that reveals something of it.
    const MIN_BEGINNING_CHARS: usize = 4;
    /// Smallest part of a value, in percent of its bytes, that reveals something of it.
    const MIN_BEGINNING_PERCENT: usize = 25;
    /// From so many bytes on, a beginning reveals something, however long the value is.
    const MAX_BEGINNING_BYTES: usize = 32;

    /// A redactor for `values`.
    pub fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let out = Self::default();
        out.learn(values);
        out
    }

    /// Also searches for these values from now on.
    pub fn learn(&self, values: impl IntoIterator<Item = Secret>) {
        let mut now = self.0.write();
        let mut all = now.values.clone();
        for value in values {
            if !all.contains(&value) {
                all.push(value);
            }
        }
        if all.len() > now.values.len() {
            all.drain(..all.len().saturating_sub(Self::MAX_SECRETS));
            *now = Arc::new(Search::new(all));
        }
    }

    /// The values it searches for.
    pub fn values(&self) -> Vec<Secret> {
        self.0.read().values.clone()
    }

    /// Whether there is nothing to mask.
    pub fn is_empty(&self) -> bool {
        self.0.read().all.is_none()
    }

    /// Length in bytes of the longest pattern: before redaction, text must not be cut within this
    /// distance of where one may begin.
    pub fn longest(&self) -> usize {
        self.0.read().longest
    }

    /// The last place at or before `end` where `text` can be cut without leaving a part of a known
    /// value. For a text that was cut itself, `end` is [`Redactor::longest`] bytes before its end.
    pub fn cut_before(&self, text: &[u8], end: usize) -> usize {
        let known = Arc::clone(&self.0.read());
        let mut end = end.min(text.len());
        let spans = known.spans(&text[..text.len().min(end + known.longest)]);
        if let Some(span) = spans.iter().find(|span| span.start < end && end < span.end) {
            end = span.start;
        }
        // Nor within a character, of at most four bytes.
        let begins =
            |at: &usize| text.get(*at).is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000);
        (end.saturating_sub(3)..=end).rev().find(begins).unwrap_or(end)
    }

    /// How many bytes at the end of a text that goes on may be the beginning of a known value.
    pub fn begun_at_end(&self, text: &[u8]) -> usize {
        let known = Arc::clone(&self.0.read());
        let most = text.len().min(known.longest.saturating_sub(1));
        (text.len() - most..text.len())
            .map(|start| &text[start..])
            .find_map(|end| {
                let next = known.patterns.partition_point(|pattern| pattern.as_bytes() <= end);
                let begins = known.patterns.get(next)?.as_bytes().starts_with(end);
                begins.then_some(end.len())
            })
            .unwrap_or_default()
    }

    /// `value` with every known value in its texts, keys and numbers masked; `None` when nothing was
    /// found. A number becomes a text.
    pub fn redact_json(&self, value: &Value) -> Option<Value> {
        let text = |text: &str| match self.redact(text) {
            Cow::Owned(masked) if masked != text => Some(masked),
            _ => None,
        };
        match value {
            Value::String(string) => text(string).map(Value::String),
            Value::Array(items) => {
                let masked: Vec<_> = items.iter().map(|item| self.redact_json(item)).collect();
                masked.iter().any(Option::is_some).then(|| {
                    let pairs = masked.into_iter().zip(items);
                    pairs.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect()
                })
            }
            Value::Object(map) => {
                let masked: Vec<_> =
                    map.iter().map(|(key, item)| (text(key), self.redact_json(item))).collect();
                masked.iter().any(|(key, item)| key.is_some() || item.is_some()).then(|| {
                    let pairs = masked.into_iter().zip(map).map(|((key, item), old)| {
                        let key = key.unwrap_or_else(|| old.0.clone());
                        (key, item.unwrap_or_else(|| old.1.clone()))
                    });
                    Value::Object(pairs.collect())
                })
            }
            Value::Number(_) if self.is_empty() => None,
            Value::Number(number) => text(&number.to_string()).map(|_| MASK.into()),
            Value::Null | Value::Bool(_) => None,
        }
    }

    /// As [`Redactor::redact_json`], for a value whose numbers may be written otherwise than it
    /// spells them.
    pub fn redact_written(&self, value: &Value, numbers: &WrittenNumbers) -> Option<Value> {
        let mut spelled = numbers.iter().filter(|(_, raw)| self.redact(raw) != *raw).peekable();
        if spelled.peek().is_none() {
            return self.redact_json(value);
        }
        let mut masked = value.clone();
        for (pointer, _) in spelled {
            if let Some(number) = masked.pointer_mut(pointer) {
                *number = MASK.into();
            }
        }
        Some(self.redact_json(&masked).unwrap_or(masked))
    }

    /// `text` with every known value masked; borrowed when nothing was found.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = Arc::clone(&self.0.read());
        let spans = known.spans(text.as_bytes());
        masked(text, spans.into_iter().map(|span| (span, MASK)))
    }

    /// As [`Redactor::redact`], of a text that was cut off: the beginning of a known value at its end
    /// is masked too, if it is long enough to reveal something.
    pub fn redact_cut_off<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = Arc::clone(&self.0.read());
        let mut spans = known.spans(text.as_bytes());
        if let Some(start) = known.revealed_from(text) {
            add_span(&mut spans, start..text.len());
        }
        masked(text, spans.into_iter().map(|span| (span, MASK)))
    }

    /// The text of JSON, or a part of it that begins outside of strings, with every known value
    /// masked; what was JSON still is: in place of a number there is a text.
    pub fn redact_json_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = Arc::clone(&self.0.read());
        let mut place = JsonPlace { text: text.as_bytes(), at: 0, in_string: false };
        let mut spans: Vec<(Range<usize>, &str)> = Vec::new();
        for span in known.spans(text.as_bytes()) {
            // Within the number that was masked last.
            if span.end <= place.at {
                continue;
            }
            spans.push(place.widened(span));
        }
        masked(text, spans.into_iter())
    }
}

/// `text` with these parts replaced, which are in order; borrowed when there are none.
fn masked<'a, 'm>(
    text: &'a str,
    parts: impl ExactSizeIterator<Item = (Range<usize>, &'m str)>,
) -> Cow<'a, str> {
    if parts.len() == 0 {
        return Cow::Borrowed(text);
    }
    let (mut out, mut copied) = (String::new(), 0);
    for (part, mask) in parts {
        out.push_str(&text[copied..part.start]);
        out.push_str(mask);
        copied = part.end;
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// A place in a JSON text that is gone through from its beginning.
struct JsonPlace<'a> {
    text: &'a [u8],
    at: usize,
    in_string: bool,
}

impl JsonPlace<'_> {
    /// [`MASK`] as a value.
    const QUOTED_MASK: &'static str = "\"***\"";

    /// Goes on to `end`, or to the beginning of the escape sequence that `end` lies in.
    fn advance(&mut self, end: usize) {
        while self.at < end {
            let step = match self.text[self.at] {
                b'"' => {
                    self.in_string = !self.in_string;
                    1
                }
                b'\\' if self.in_string => self.escape_len(),
                _ => 1,
            };
            if self.at + step > end {
                return;
            }
            self.at += step;
        }
    }

    /// Length of the escape sequence that begins here (RFC 8259, section 7).
    fn escape_len(&self) -> usize {
        let rest = &self.text[self.at..];
        let is_unicode = rest.get(1) == Some(&b'u')
            && rest.get(2..6).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        match rest.get(1) {
            _ if is_unicode => 6,
            Some(next) if next.is_ascii() => 2,
            _ => 1,
        }
    }

    /// What has to be replaced so that `span` is gone and the text stays JSON, and by what: a whole
    /// escape sequence, and outside of strings a whole number.
    fn widened(&mut self, span: Range<usize>) -> (Range<usize>, &'static str) {
        let done = self.at;
        self.advance(span.start);
        let is_bare = !self.in_string;
        let (mut start, mut end) = (self.at.min(span.start).max(done), span.end);
        if is_bare {
            let in_number = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            start -= self.text[done..start].iter().rev().take_while(in_number).count();
            if self.text[start..end].iter().all(|byte| in_number(&byte)) {
                end += self.text[end..].iter().take_while(in_number).count();
            }
        }
        self.advance(end);
        if self.at < end {
            self.at += self.escape_len();
            end = self.at;
        }
        (start..end, if is_bare { Self::QUOTED_MASK } else { MASK })
    }
}

// The spellings a secret value may appear in.
//
// Only makes patterns; what is masked is decided by searching for them.

/// Shortest piece of base64 that is searched for: shorter ones appear by chance.
const MIN_BASE64_BYTES: usize = 10;
/// Shortest line of a value of several lines: the last one of a key may be short.
const MIN_LINE_BYTES: usize = 4;

/// Patterns to search for, in a stable order.
#[derive(Default)]
struct SecretPatterns(BTreeSet<String>);

impl SecretPatterns {
    /// Adds every spelling of a value and of the secrets inside it.
    fn add(&mut self, value: &str) {
        let value = value.trim();
        self.add_spellings(value);
        if let Some((scheme, credentials)) = value.split_once(' ') {
            let scheme = scheme.to_ascii_lowercase();
            if matches!(scheme.as_str(), "bearer" | "basic" | "token" | "apikey" | "digest") {
                let credentials = credentials.trim();
                self.add_spellings(credentials);
                if scheme == "basic" {
                    self.add_basic(credentials);
                }
            }
        }
        if let Ok(url) = url::Url::parse(value)
            && let Some(password) = url.password()
        {
            self.add_spellings(password);
            let decoded = percent::decoded(password);
            self.add_spellings(&decoded);
        }
        if value.contains('\n') {
            let lines = value.lines().map(str::trim);
            for line in
                lines.filter(|line| line.len() >= MIN_LINE_BYTES && !line.starts_with("-----"))
            {
                self.0.insert(line.to_owned());
                self.add_spellings(line);
            }
        }
    }

    /// `user:password` in base64 (RFC 7617).
    fn add_basic(&mut self, credentials: &str) {
        let decoded = base64::engine::general_purpose::STANDARD.decode(credentials);
        if let Some(pair) = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok())
            && let Some((_, password)) = pair.split_once(':')
        {
            self.add_spellings(password);
        }
    }

    fn add_spellings(&mut self, value: &str) {
        if value.len() < Redactor::MIN_SECRET_BYTES {
            return;
        }
        self.0.insert(value.to_owned());
        let json = json_escaped(value);
        // As Python's `json.dumps` writes it.
        let ascii = escaped(&json, |c| !c.is_ascii());
        for escaped in [ascii, json.replace('/', "\\/"), json_escaped(&json), json] {
            self.0.insert(escaped);
        }
        for kept in UNESCAPED_CHARS {
            for upper in [true, false] {
                self.0.insert(percent_encoded(value, upper, kept));
            }
        }
        self.add_base64(value.as_bytes());
    }

    /// The middle of the value's base64 at each of the three alignments it can have in a longer
    /// text; the characters at both ends mix with their neighbours and are left out.
    fn add_base64(&mut self, value: &[u8]) {
        let config = GeneralPurposeConfig::new().with_encode_padding(false);
        for alphabet in [&alphabet::STANDARD, &alphabet::URL_SAFE] {
            let engine = GeneralPurpose::new(alphabet, config);
            for shift in 0..3_usize {
                let mut bytes = vec![0; shift];
                bytes.extend_from_slice(value);
                let text = engine.encode(&bytes);
                let first = [0, 2, 3][shift];
                // Six bits per character: those before this one hold bits of the value only.
                let last = bytes.len() * 8 / 6;
                if let Some(middle) = text.get(first..last)
                    && middle.len() >= MIN_BASE64_BYTES
                {
                    self.0.insert(middle.to_owned());
                }
            }
        }
    }
}

/// As JSON writes it inside quotes (RFC 8259, section 7).
fn json_escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// What percent-encoding leaves alone besides letters and digits: RFC 3986 (section 2.1),
/// JavaScript's `encodeURIComponent`, HTML forms (which write a space as `+`).
const UNESCAPED_CHARS: [&str; 3] = ["-._~", "-_.!~*'()", "*-._ "];

fn percent_encoded(value: &str, upper: bool, kept: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || kept.contains(c) {
            out.push(if c == ' ' { '+' } else { c });
            continue;
        }
        let _ = if upper { write!(out, "%{byte:02X}") } else { write!(out, "%{byte:02x}") };
    }
    out
}
