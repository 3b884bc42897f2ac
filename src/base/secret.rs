//! Secrets as a type, and the redactor that keeps their values out of text.
//!
//! Owns the rule "names are shown, values are not". Must not log anything.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock};

use aho_corasick::packed::Searcher;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::text::json::escaped;
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

#[derive(Default)]
struct Search {
    values: Vec<Secret>,
    all: Option<AhoCorasick>,
    /// Fast pre-check that rules out a match, as for nearly every text. `None` for very many
    /// values.
    glance: Option<Searcher>,
    longest: usize,
}

impl Search {
    fn new(values: Vec<Secret>) -> Self {
        let mut patterns = SecretPatterns::default();
        for value in &values {
            patterns.add(value.expose());
        }
        let patterns = patterns.0;
        let longest = patterns.iter().map(String::len).max().unwrap_or(0);
        if patterns.is_empty() {
            return Self { values, ..Self::default() };
        }
        // Building fails only beyond 2^31 states, gigabytes of secrets.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let all = AhoCorasick::builder().kind(kind).build(&patterns).ok();
        // Vectorised (SIMD), for up to a few dozen patterns.
        let glance = Searcher::new(&patterns).filter(|glance| glance.minimum_len() > 0);
        Self { values, all, glance, longest }
    }
}

impl Redactor {
    /// Shortest value, in bytes, that is searched for.
    pub const MIN_SECRET_BYTES: usize = 6;
    /// Most values kept; beyond that, the oldest are forgotten.
    const MAX_SECRETS: usize = 4096;

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

    /// `value` with every known value in its texts and keys masked; `None` when nothing was found.
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
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    /// `text` with every known value masked; borrowed when nothing was found.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = Arc::clone(&self.0.read());
        let Some(search) = &known.all else { return Cow::Borrowed(text) };
        if known.glance.as_ref().is_some_and(|glance| glance.find(text).is_none()) {
            return Cow::Borrowed(text);
        }
        let mut out = String::new();
        let mut copied = 0;
        // Overlapping matches come ordered by their end. They are merged, so that no part of a
        // value that overlaps another is left.
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for found in search.find_overlapping_iter(text) {
            let mut span = (found.start(), found.end());
            while let Some(last) = spans.last().copied().filter(|last| last.1 > span.0) {
                span.0 = span.0.min(last.0);
                spans.pop();
            }
            spans.push(span);
        }
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        for (start, end) in spans {
            out.push_str(&text[copied..start]);
            out.push_str(MASK);
            copied = end;
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spellings = self.0.read().all.as_ref().map_or(0, AhoCorasick::patterns_len);
        f.debug_struct("Redactor").field("spellings", &spellings).finish_non_exhaustive()
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
