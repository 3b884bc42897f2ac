//! The spellings a secret value may appear in.
//!
//! Only makes patterns; what is masked is decided by searching for them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use super::Redactor;

/// Shortest piece of base64 that is searched for: shorter ones appear by chance.
const MIN_BASE64: usize = 10;
/// Shortest line of a value of several lines: the last one of a key may be short.
const MIN_LINE: usize = 4;

/// Patterns to search for.
#[derive(Default)]
pub(super) struct Patterns(BTreeSet<String>);

impl Patterns {
    /// Adds every spelling of a value and of the secrets inside it.
    pub(super) fn add(&mut self, value: &str) {
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
            let decoded = percent_decoded(password);
            self.add_spellings(&decoded);
        }
        if value.contains('\n') {
            let lines = value.lines().map(str::trim);
            for line in lines.filter(|line| line.len() >= MIN_LINE && !line.starts_with("-----")) {
                self.0.insert(line.to_owned());
                self.add_spellings(line);
            }
        }
    }

    /// The patterns in a stable order.
    pub(super) fn into_sorted(self) -> Vec<String> {
        self.0.into_iter().collect()
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
        if value.len() < Redactor::MIN_LEN {
            return;
        }
        self.0.insert(value.to_owned());
        let json = json_escaped(value);
        for escaped in [json_ascii(value), json.replace('/', "\\/"), json_escaped(&json), json] {
            self.0.insert(escaped);
        }
        for kept in KEPT {
            for hex in [Hex::Upper, Hex::Lower] {
                self.0.insert(percent_encoded(value, hex, kept));
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
                // Six bits a character: those of the last whole byte end here.
                let last = bytes.len() * 8 / 6;
                if let Some(middle) = text.get(first..last)
                    && middle.len() >= MIN_BASE64
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

/// The same with everything outside ASCII as `\\uXXXX`, as Python writes it.
fn json_ascii(value: &str) -> String {
    let mut out = String::new();
    for c in json_escaped(value).chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

#[derive(Clone, Copy)]
enum Hex {
    Upper,
    Lower,
}

/// What percent-encoding leaves alone besides letters and digits: RFC 3986 (section 2.1),
/// JavaScript's `encodeURIComponent`, HTML forms (which write a space as `+`).
const KEPT: [&str; 3] = ["-._~", "-_.!~*'()", "*-._ "];

fn percent_encoded(value: &str, hex: Hex, kept: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || kept.contains(c) {
            out.push(if c == ' ' { '+' } else { c });
            continue;
        }
        let _ = match hex {
            Hex::Upper => write!(out, "%{byte:02X}"),
            Hex::Lower => write!(out, "%{byte:02x}"),
        };
    }
    out
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%')
            .then(|| std::str::from_utf8(tail.get(..2)?).ok())
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
