//! Masking what a recording holds before it is given to others: by key, by pattern and by a list of
//! words. The shape stays: types, keys and lengths of lists.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{Line, Recording};

/// What stands for a masked value.
const MASK: &str = "***";

/// Names of values that are secret wherever they stand.
static KEYS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let names = "token|secret|passw(or)?d|passphrase|authorization|cookie|credential|\
                 api[_-]?key|private[_-]?key|access[_-]?key";
    Regex::new(&format!("(?i)({names})")).ok()
});

/// Texts that are secret by their looks: issued tokens, keys, user info in addresses.
static LOOKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        r"gh[pousr]_[A-Za-z0-9]{20,}",
        r"github_pat_[A-Za-z0-9_]{20,}",
        r"glpat-[A-Za-z0-9_-]{16,}",
        r"sk-[A-Za-z0-9_-]{16,}",
        r"xox[abeprs]-[A-Za-z0-9-]{10,}",
        r"AKIA[A-Z0-9]{16}",
        r"AIza[A-Za-z0-9_-]{30,}",
        r"mcpdeck_[0-9a-f]{64}",
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
        r"(?i:bearer|basic) [A-Za-z0-9+/=._~-]{8,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\\nr\s]*",
    ];
    Regex::new(&format!("{}|(?P<lead>://)[^/\\s@:]+:[^/\\s@]+@", forms.join("|"))).ok()
});

/// What was masked, by why, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Lines of the recording.
    pub lines: u64,
    /// Values under a name that says so, by that name.
    pub by_key: BTreeMap<String, u64>,
    /// Texts that look like a credential.
    pub by_pattern: u64,
    /// Words of the list.
    pub by_word: u64,
}

impl Scrubbed {
    fn masked(&self) -> u64 {
        self.by_key.values().sum::<u64>() + self.by_pattern + self.by_word
    }
}

/// Masks recordings.
#[derive(Debug, Default)]
pub struct Scrubber {
    words: Vec<String>,
    done: Scrubbed,
}

impl Scrubber {
    /// Masks these words too, wherever they stand; empty ones are left out.
    pub fn new(words: impl IntoIterator<Item = String>) -> Self {
        let words = words.into_iter().filter(|word| !word.is_empty()).collect();
        Self { words, done: Scrubbed::default() }
    }

    /// Writes a recording again without what is secret; tells what was masked.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn scrub(mut self, recording: Recording, mut to: impl Write) -> io::Result<Scrubbed> {
        let mut header = recording.header().clone();
        header.scrubbed = true;
        self.write(&Line::Header(header), &mut to)?;
        for line in recording {
            self.write(&line?, &mut to)?;
        }
        to.flush()?;
        Ok(self.done)
    }

    fn write(&mut self, line: &Line, to: &mut impl Write) -> io::Result<()> {
        let mut value = serde_json::to_value(line)?;
        self.done.lines += 1;
        // The message is text in the line; inside it stands JSON, which is masked as such.
        let body = value.get("body").and_then(Value::as_str).map(|body| self.body(body));
        if body.is_some() {
            value["body"] = Value::Null;
        }
        self.value(&mut value);
        if let Some(body) = body {
            value["body"] = Value::String(body);
        }
        serde_json::to_writer(&mut *to, &value)?;
        to.write_all(b"\n")
    }

    fn body(&mut self, body: &str) -> String {
        match serde_json::from_str::<Value>(body) {
            Ok(mut value) if value.is_object() || value.is_array() => {
                let before = self.done.masked();
                self.value(&mut value);
                // What holds no secret stays as it was written.
                if self.done.masked() == before { body.to_owned() } else { value.to_string() }
            }
            _ => self.text(body),
        }
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                // JSON in a string, as tools like to answer, is masked by its keys too.
                let masked = if text.trim_start().starts_with(['{', '[']) {
                    self.body(text)
                } else {
                    self.text(text)
                };
                *text = masked;
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                for (key, member) in members {
                    if is_secret(key) && hide(member) {
                        *self.done.by_key.entry(key.clone()).or_default() += 1;
                    } else {
                        self.value(member);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut out = text.to_owned();
        for word in &self.words {
            let found = out.matches(word.as_str()).count() as u64;
            if found > 0 {
                self.done.by_word += found;
                out = out.replace(word.as_str(), MASK);
            }
        }
        let Some(looks) = &*LOOKS else { return out };
        let found = looks.find_iter(&out).count() as u64;
        if found > 0 {
            self.done.by_pattern += found;
            let mask = |found: &regex::Captures<'_>| match found.name("lead") {
                Some(lead) => format!("{}{MASK}@", lead.as_str()),
                None => MASK.to_owned(),
            };
            out = looks.replace_all(&out, mask).into_owned();
        }
        out
    }
}

/// Masks a value by its name; says whether there was something to mask. What a schema says
/// about a parameter of that name is an object and stays.
fn hide(value: &mut Value) -> bool {
    match value {
        Value::String(text) if !text.is_empty() && text != MASK => {
            MASK.clone_into(text);
            true
        }
        _ => false,
    }
}

fn is_secret(key: &str) -> bool {
    // Words of the protocol that only sound like it.
    const HARMLESS: [&str; 4] = ["progressToken", "maxTokens", "tokenFile", "nextCursor"];
    !HARMLESS.contains(&key) && KEYS.as_ref().is_some_and(|keys| keys.is_match(key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_go_by_key_pattern_and_list_and_the_shape_stays() {
        let mut scrubber = Scrubber::new(["Zanzibar".to_owned()]);
        let mut value = json!({
            "password": "hunter2", "progressToken": "keep", "api_key": "", "count": 3,
            "text": "see ghp_0123456789abcdefghijABCDEF in Zanzibar",
            "inner": "{\"accessToken\":\"abc\",\"n\":1}", "pretty": "{\n  \"n\": 1\n}",
            "url": "postgres://me:geheim@db/x",
            "schema": {"properties": {"token": {"type": "string"}}},
        });
        scrubber.value(&mut value);
        assert_eq!(value["password"], MASK);
        assert_eq!(value["progressToken"], "keep");
        assert_eq!((value["api_key"].as_str(), &value["count"]), (Some(""), &json!(3)));
        assert_eq!(value["text"], "see *** in ***");
        assert_eq!(value["inner"], "{\"accessToken\":\"***\",\"n\":1}");
        assert_eq!(value["pretty"], "{\n  \"n\": 1\n}", "written as it was");
        assert_eq!(value["url"], "postgres://***@db/x");
        assert_eq!(value["schema"]["properties"]["token"]["type"], "string");
        assert_eq!((scrubber.done.by_pattern, scrubber.done.by_word), (2, 1));
    }
}
