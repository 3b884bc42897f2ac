//! Interprets a JSON value as a JSON-RPC 2.0 message (sections 4 and 5), leniently: whatever has
//! only one possible meaning is accepted, and what was wrong with it is noted.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex, bytes};
use serde_json::{Map, Value};

use crate::capabilities::schema_kind;
use crate::id::RequestId;
use base::SafeText;
use config::error::RpcError;

/// A message of the server.
#[derive(Debug, PartialEq)]
pub enum Inbound {
    /// A request to the host.
    Request {
        /// Its id.
        id: RequestId,
        /// Its method.
        method: String,
        /// Its parameters.
        params: Option<Value>,
    },
    /// A notification to the host.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Option<Value>,
    },
    /// An answer to a request of the host.
    Answer {
        /// The id it answers; `None` when it has none.
        id: Option<RequestId>,
        /// Its content.
        outcome: Outcome,
    },
    /// Meant as a message, but of no valid kind.
    Malformed {
        /// Its id, if any.
        id: Option<RequestId>,
        /// What is wrong.
        reason: String,
    },
    /// JSON unrelated to the protocol, such as a structured log line.
    Junk,
}

/// The content of an answer.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// A result.
    Result(Value),
    /// An error object.
    Error(RpcError),
    /// Neither, or both.
    Broken(String),
}

/// Classifies `value`; adds to `notes` what was wrong with it, in a few words each.
pub fn classify(value: Value, notes: &mut Vec<String>) -> Inbound {
    let Value::Object(mut object) = value else { return Inbound::Junk };
    let known = ["jsonrpc", "id", "method", "result", "error"];
    if !known.iter().any(|key| object.contains_key(*key)) {
        return Inbound::Junk;
    }
    match object.get("jsonrpc") {
        Some(Value::String(version)) if version == "2.0" => {}
        Some(other) => notes.push(format!("`jsonrpc` is {other}, not \"2.0\"")),
        None => notes.push("`jsonrpc` is missing".to_owned()),
    }
    let had_id = object.contains_key("id");
    let id = object.get("id").and_then(|id| request_id(id, notes));
    match object.remove("method") {
        Some(Value::String(method)) => {
            let params = object.remove("params");
            if params.as_ref().is_some_and(|p| !p.is_object()) {
                notes.push("`params` is not an object".to_owned());
            }
            match id {
                Some(id) => Inbound::Request { id, method, params },
                None if had_id => Inbound::Malformed {
                    id: None,
                    reason: format!("request `{}` has an unusable id", SafeText::line(&method)),
                },
                None => Inbound::Notification { method, params },
            }
        }
        Some(_) => Inbound::Malformed { id, reason: "`method` is not a string".to_owned() },
        None => answer(object, id, notes),
    }
}

/// An id that can be matched: an integer or a string. Whole floats count as integers. What is odd
/// about it is added to `notes`.
pub fn request_id(id: &Value, notes: &mut Vec<String>) -> Option<RequestId> {
    match id {
        Value::Number(number) => number.as_i64().map(RequestId::Number).or_else(|| {
            notes.push(format!("id {number} is not an integer"));
            whole_number(id).map(RequestId::Number)
        }),
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        Value::Null => None,
        _ => {
            notes.push("the id is neither a number nor a string".to_owned());
            None
        }
    }
}

fn answer(
    mut object: Map<String, Value>,
    id: Option<RequestId>,
    notes: &mut Vec<String>,
) -> Inbound {
    let outcome = match (object.remove("result"), object.remove("error")) {
        (Some(result), None) => Outcome::Result(result),
        (Some(result), Some(Value::Null)) => {
            notes.push("a result with `error: null`".to_owned());
            Outcome::Result(result)
        }
        (None, Some(error)) => Outcome::Error(rpc_error(error, notes)),
        (Some(Value::Null), Some(error)) => {
            notes.push("an error with `result: null`".to_owned());
            Outcome::Error(rpc_error(error, notes))
        }
        (Some(_), Some(_)) => Outcome::Broken("it has both a result and an error".to_owned()),
        (None, None) => {
            let near = object.keys().find(|key| {
                key.eq_ignore_ascii_case("result") || key.eq_ignore_ascii_case("error")
            });
            let near = near.map(|key| format!(" (it has `{}`)", SafeText::line(key)));
            let reason =
                format!("it has neither a result nor an error{}", near.unwrap_or_default());
            if id.is_none() {
                return Inbound::Malformed { id, reason };
            }
            Outcome::Broken(reason)
        }
    };
    // An error may lack one: the message it is about could not be read (2025-11-25, schema).
    if id.is_none() && !matches!(outcome, Outcome::Error(_)) {
        notes.push("an answer without an id".to_owned());
    }
    Inbound::Answer { id, outcome }
}

fn rpc_error(error: Value, notes: &mut Vec<String>) -> RpcError {
    let Value::Object(mut object) = error else {
        notes.push("`error` is not an object".to_owned());
        let message = match &error {
            Value::String(text) => SafeText::line(text),
            other => SafeText::line(&other.to_string()),
        };
        return RpcError { code: None, message: message.to_string(), data: None };
    };
    let code = object.get("code").and_then(whole_number);
    if code.is_none() {
        notes.push("the error has no integer `code`".to_owned());
    }
    let message = match object.get("message") {
        Some(Value::String(text)) => SafeText::line(text).to_string(),
        Some(other) => SafeText::line(&other.to_string()).to_string(),
        None => String::new(),
    };
    RpcError { code, message, data: object.remove("data") }
}

fn whole_number(value: &Value) -> Option<i64> {
    // Beyond this, one `f64` stands for several integers, and which was meant is unknown.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    let whole = |f: &f64| f.fract() == 0.0 && f.abs() <= MAX_EXACT_INTEGER;
    value.as_i64().or_else(|| value.as_f64().filter(whole).map(|f| f as i64))
}

// A rough shape check of results: enough to reject an unusable answer, never to lose a usable one.

/// What is wrong with a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Unusable: the call fails with this reason.
    Useless(String),
    /// Passed on as it is, with this remark.
    Odd(String),
}

/// Checks the result of `method`.
pub fn check(method: &str, result: &Value) -> Option<Misfit> {
    if !result.is_object() {
        let what = format!("the result is {}, not an object", schema_kind(result));
        return Some(match method {
            // Their results are empty anyway.
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => {
                Misfit::Odd(what)
            }
            _ => Misfit::Useless(what),
        });
    }
    let kind = result.get("resultType").map(|kind| kind.as_str().unwrap_or("no string"));
    match kind {
        None | Some("complete") => {}
        Some("input_required" | "task") => return None,
        Some(other) => return Some(Misfit::Odd(format!("unknown `resultType`: {other}"))),
    }
    let (key, of) = match method {
        "tools/call" | "tasks/result" => return tool_result(result),
        "prompts/get" => ("messages", message as fn(&Value) -> Option<String>),
        "resources/read" => ("contents", content as fn(&Value) -> Option<String>),
        _ => return None,
    };
    match result.get(key) {
        Some(Value::Array(list)) => {
            let mut flaws = list.iter().enumerate();
            let flaw = flaws.find_map(|(at, item)| Some((at, of(item)?)));
            flaw.map(|(at, flaw)| Misfit::Useless(format!("`{key}[{at}]` {flaw}")))
        }
        Some(_) => Some(Misfit::Useless(format!("`{key}` is not an array"))),
        None => Some(Misfit::Odd(format!("the result has no `{key}`"))),
    }
}

/// What is wrong with a message of a prompt.
fn message(item: &Value) -> Option<String> {
    let content = match item.get("content") {
        Some(content) if content.is_object() => content,
        Some(list) if list.is_array() => return None,
        _ => return Some("has no `content`".to_owned()),
    };
    let text = content["type"] == "text";
    let lacks = text && !content.get("text").is_some_and(Value::is_string);
    lacks.then(|| "is a text without `text`".to_owned())
}

/// What is wrong with a content of a resource.
fn content(item: &Value) -> Option<String> {
    let holds = |key: &str| item.get(key).is_some_and(Value::is_string);
    (!holds("text") && !holds("blob")).then(|| "has neither a `text` nor a `blob`".to_owned())
}

/// Which members of a block of content have to be strings, by its type (`ContentBlock` in the schema of
/// the revision 2025-06-18).
fn needs(kind: &str) -> &'static [&'static str] {
    match kind {
        "image" | "audio" => &["/data", "/mimeType"],
        "resource_link" => &["/uri", "/name"],
        "resource" => &["/resource/uri"],
        _ => &[],
    }
}

fn tool_result(result: &Value) -> Option<Misfit> {
    let odd = |text: String| Some(Misfit::Odd(text));
    let list = match result.get("content") {
        Some(Value::Array(list)) => list,
        Some(_) => return Some(Misfit::Useless("`content` is not an array".into())),
        // A started task delivers its result later.
        None if result.get("task").is_some_and(Value::is_object) => return None,
        None if result.get("structuredContent").is_some() => return None,
        None => return odd("the result has no `content`".into()),
    };
    let mut strange = None;
    for (index, item) in list.iter().enumerate() {
        match item.get("type").and_then(Value::as_str) {
            Some("text") if !item.get("text").is_some_and(Value::is_string) => {
                let reason = format!("`content[{index}].text` is not a string");
                return Some(Misfit::Useless(reason));
            }
            _ if strange.is_some() => {}
            Some(
                kind @ ("text" | "image" | "audio" | "resource" | "resource_link" | "tool_use"
                | "tool_result"),
            ) => {
                let lacks =
                    needs(kind).iter().find(|at| !item.pointer(at).is_some_and(Value::is_string));
                strange = lacks.map(|at| {
                    let key = at.trim_start_matches('/').replace('/', ".");
                    format!("`content[{index}].{key}` is not a string, as {kind} needs it")
                });
            }
            Some(other) => {
                strange = Some(format!("`content[{index}]` has the unknown type {other}"));
            }
            None => strange = Some(format!("`content[{index}]` has no type")),
        }
    }
    if strange.is_none() && result.get("isError").is_some_and(|flag| !flag.is_boolean()) {
        return odd("`isError` is neither true nor false".into());
    }
    strange.map(Misfit::Odd)
}

// Repairs of text that is nearly JSON: invalid UTF-8, escapes that are not characters. Only used
// when the strict parser has refused a line, and always reported.

/// A repaired line and what was wrong with it; `None` when there is nothing to repair.
pub fn repair(line: &[u8]) -> Option<(String, &'static str)> {
    let text = String::from_utf8_lossy(line);
    let utf8 = matches!(text, Cow::Owned(_));
    let surrogates = without_lone_surrogates(&text);
    match (utf8, surrogates) {
        (_, Some(text)) if utf8 => Some((text, "bytes that are not UTF-8 and lone surrogates")),
        (_, Some(text)) => Some((text, "a lone surrogate escape")),
        (true, None) => Some((text.into_owned(), "bytes that are not UTF-8")),
        (false, None) => None,
    }
}

/// Escapes: surrogate pairs, lone surrogates, and any others.
static ESCAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pair = r"\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}";
    Regex::new(&format!(r"{pair}|(?P<lone>\\u[dD][89a-fA-F][[:xdigit:]]{{2}})|\\.")).ok()
});

/// Replaces escaped surrogates without a partner by U+FFFD; `None` when there is none.
fn without_lone_surrogates(text: &str) -> Option<String> {
    let escapes = ESCAPES.as_ref()?;
    escapes.captures_iter(text).find(|found| found.name("lone").is_some())?;
    let whole = |found: &Captures<'_>| match found.name("lone") {
        Some(_) => "\\ufffd".to_owned(),
        None => found[0].to_owned(),
    };
    Some(escapes.replace_all(text, whole).into_owned())
}

// Salvaging a line that is not a message: the id it answers, a message inside it.

/// Strings and brackets of JSON. An unterminated string extends to the end of the text: otherwise
/// the search would restart inside it over and over, each time scanning the rest of the text.
static TOKENS: LazyLock<Option<bytes::Regex>> = LazyLock::new(|| json_like(r"STRING?|[{}\[\]]"));
/// The id that follows a key, and the id that ends a message.
static ID: LazyLock<Option<bytes::Regex>> =
    LazyLock::new(|| json_like(r"\A\s*:\s*(?:(-?[0-9]+)[^0-9.eE]|(STRING))"));
static LAST_ID: LazyLock<Option<bytes::Regex>> = LazyLock::new(|| {
    json_like(r#""id"\s*:\s*(-?[0-9]+|STRING)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\z"#)
});

fn json_like(pattern: &str) -> Option<bytes::Regex> {
    let pattern = pattern.replace("STRING", r#""(?:[^"\\]|\\.)*""#);
    bytes::Regex::new(&format!("(?s-u){pattern}")).ok()
}

/// Positions of the strings and brackets in a JSON text.
pub fn tokens(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    TOKENS.iter().flat_map(move |tokens| tokens.find_iter(text)).map(|found| found.range())
}

/// The top-level `id` of a JSON object that does not parse, as far as its text can be followed: the
/// first `id` key on the first level whose value is an integer or a string.
pub fn find_id(text: &[u8]) -> Option<RequestId> {
    let text = &text[text.iter().position(|b| *b == b'{')?..];
    let mut depth = 0_i64;
    for token in tokens(text) {
        let rest = &text[token.end..];
        match &text[token] {
            b"{" | b"[" => depth += 1,
            b"}" | b"]" => depth -= 1,
            b"\"id\"" if depth == 1 => {
                if let Some(found) = ID.as_ref()?.captures(rest) {
                    return serde_json::from_slice(found.get(1).or(found.get(2))?.as_bytes()).ok();
                }
            }
            _ => {}
        }
    }
    None
}

/// The `id` at the end of a line of which only the end was kept: `..., "id": 7}`.
pub fn find_last_id(tail: &[u8]) -> Option<RequestId> {
    serde_json::from_slice(LAST_ID.as_ref()?.captures(tail)?.get(1)?.as_bytes()).ok()
}

/// Where a message probably begins inside other text.
pub fn find_message(line: &[u8]) -> Option<usize> {
    let marker = memchr::memmem::find(line, b"\"jsonrpc\"")?;
    let before = line[..marker].iter().rposition(|b| !b.is_ascii_whitespace())?;
    if line[before] == b'{' {
        return Some(before);
    }
    memchr::memchr(b'{', &line[..marker])
}

/// A message printed over several lines, as received so far.
#[derive(Debug, Default)]
pub struct Spread {
    /// Its text.
    pub text: Vec<u8>,
    /// How many brackets are open.
    pub depth: i64,
}

impl Spread {
    /// Appends a line. Strings cannot span lines, so each line can be scanned by itself.
    pub fn add(&mut self, line: &[u8]) {
        for token in tokens(line) {
            match line[token.start] {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
        }
        self.text.extend_from_slice(line);
        self.text.push(b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn noted(value: Value) -> (Inbound, Vec<String>) {
        let mut notes = Vec::new();
        (classify(value, &mut notes), notes)
    }

    #[test]
    fn understands_the_four_kinds_without_a_note() {
        let (message, notes) = noted(json!({"jsonrpc":"2.0","id":1,"result":{"a":1}}));
        assert_eq!(
            message,
            Inbound::Answer {
                id: Some(RequestId::Number(1)),
                outcome: Outcome::Result(json!({"a":1}))
            }
        );
        assert!(notes.is_empty());
        let (message, _) = noted(json!({"jsonrpc":"2.0","method":"a","params":{}}));
        assert!(matches!(message, Inbound::Notification { .. }));
        let (message, _) = noted(json!({"jsonrpc":"2.0","id":"x","method":"a"}));
        assert!(matches!(message, Inbound::Request { .. }));
    }

    #[test]
    fn tolerates_what_has_one_meaning_and_notes_it() {
        let (message, notes) = noted(json!({"id":3.0,"result":{},"error":null}));
        assert!(matches!(message, Inbound::Answer { id: Some(RequestId::Number(3)), .. }));
        assert_eq!(notes.len(), 3, "{notes:?}");
        let (message, notes) = noted(json!({"jsonrpc":"2.0","id":3,"error":"boom"}));
        let Inbound::Answer { outcome: Outcome::Error(error), .. } = message else {
            panic!("an error")
        };
        assert_eq!((error.code, error.message.as_str()), (None, "boom"));
        assert_eq!(notes, ["`error` is not an object"]);
    }

    #[test]
    fn a_line_cut_off_inside_escaped_json_is_followed_in_one_pass() {
        let escaped = r#"{\"a\":["#.repeat(40_000);
        let line = format!(r#"{{"jsonrpc":"2.0","result":{{"text":"{escaped}"#);
        let began = std::time::Instant::now();
        assert_eq!(find_id(line.as_bytes()), None);
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }

    #[test]
    fn a_block_of_content_without_what_its_type_needs_is_odd() {
        let flaw = |block: Value| match check("tools/call", &json!({"content": [block]})) {
            Some(Misfit::Odd(reason)) => reason,
            None => String::new(),
            Some(Misfit::Useless(reason)) => panic!("{reason}"),
        };
        for (block, words) in [
            (
                json!({"type": "image", "data": {"url": "a"}, "mimeType": "image/png"}),
                "].data` is not",
            ),
            (
                json!({"type": "image", "data": "AA=="}),
                "].mimeType` is not a string, as image needs it",
            ),
            (json!({"type": "audio", "mimeType": "audio/wav"}), "].data` is not"),
            (json!({"type": "resource_link", "uri": "a:b"}), "].name` is not"),
            (json!({"type": "resource", "resource": {"text": "x"}}), "].resource.uri` is not"),
            (json!({"type": "txt"}), "unknown type txt"),
        ] {
            let found = flaw(block);
            assert!(found.contains(words), "{words}: {found}");
        }
        for block in [
            json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
            json!({"type": "resource_link", "uri": "a:b", "name": "b"}),
            json!({"type": "resource", "resource": {"uri": "a:b", "blob": "AA=="}}),
        ] {
            assert_eq!(flaw(block), "");
        }
    }

    #[test]
    fn names_what_is_wrong_with_the_rest() {
        let broken = |value| match classify(value, &mut Vec::new()) {
            Inbound::Answer { outcome: Outcome::Broken(reason), .. }
            | Inbound::Malformed { reason, .. } => reason,
            other => panic!("{other:?}"),
        };
        let says = |value, text: &str| {
            let reason = broken(value);
            assert!(reason.contains(text), "{reason}");
        };
        says(json!({"jsonrpc":"2.0","id":3,"Result":{}}), "`Result`");
        says(json!({"jsonrpc":"2.0","id":3,"result":1,"error":{"code":1}}), "both");
        says(json!({"jsonrpc":"2.0","id":[1],"method":"x"}), "unusable id");
        says(json!({"jsonrpc":"2.0","method":7}), "not a string");
        assert_eq!(classify(json!({"level":"info"}), &mut Vec::new()), Inbound::Junk);
        assert_eq!(classify(json!(5), &mut Vec::new()), Inbound::Junk);
    }

    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = Value> {
        let ids = [
            json!(1),
            json!("x"),
            json!(null),
            json!(2.5),
            json!(4.0),
            json!([1]),
            json!(u64::MAX),
        ];
        let errors =
            [json!({"code": 1, "message": "m"}), json!({"message": 2}), json!("e"), json!(null)];
        let key = |key: &'static str, values: Vec<Value>| {
            let member = prop::sample::select(values).prop_map(move |value| (key, value));
            prop::option::weighted(0.6, member)
        };
        let members = (
            key("jsonrpc", vec![json!("2.0"), json!("2.0"), json!("2.0"), json!("1.0"), json!(2)]),
            key("id", ids.to_vec()),
            key("method", vec![json!("ping"), json!("a/b"), json!(7), json!(null)]),
            key("params", vec![json!({}), json!([1]), json!(null)]),
            key("result", vec![json!({}), json!("r"), json!(null)]),
            key("error", errors.to_vec()),
            key("Result", vec![json!({})]),
            key("level", vec![json!("info")]),
        );
        members.prop_map(|(a, b, c, d, e, f, g, h)| {
            let members = [a, b, c, d, e, f, g, h].into_iter().flatten();
            Value::Object(members.map(|(key, value)| (key.to_owned(), value)).collect())
        })
    }

    /// The kind of a message by strict JSON-RPC 2.0 and MCP; `None` when it breaks a rule.
    fn by_the_letter(message: &Value) -> Option<&'static str> {
        let id = message.get("id");
        let named = id.is_some_and(|id| id.is_i64() || id.is_string());
        // An error is about a message whose id could not be read when it has none, or null.
        let is_error = message.get("error").is_some() && message.get("method").is_none();
        let nobody = id.is_none_or(|id| id.is_null() && is_error);
        let plain = message["jsonrpc"] == "2.0" && (nobody || named);
        if !plain {
            return None;
        }
        if let Some(method) = message.get("method") {
            let params = message.get("params").is_none_or(Value::is_object);
            let kind = if named { "request" } else { "notification" };
            return (method.is_string() && params).then_some(kind);
        }
        let error = |error: &Value| error["code"].is_i64() && error.is_object();
        match (message.get("result"), message.get("error")) {
            (Some(_), None) if named => Some("result"),
            (None, Some(found)) if error(found) => Some("error"),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn every_mixture_of_keys_is_what_the_letter_says_or_is_reported_to_break_it(
            message in any_message()
        ) {
            let (inbound, notes) = noted(message.clone());
            let kind = match &inbound {
                Inbound::Request { .. } => Some("request"),
                Inbound::Notification { .. } => Some("notification"),
                Inbound::Answer { outcome: Outcome::Result(_), .. } => Some("result"),
                Inbound::Answer { outcome: Outcome::Error(_), .. } => Some("error"),
                Inbound::Answer { .. } | Inbound::Malformed { .. } | Inbound::Junk => None,
            };
            let kind = kind.filter(|_| notes.is_empty());
            prop_assert_eq!(kind, by_the_letter(&message), "{:?} {:?}", inbound, notes);
            if let Inbound::Answer { id: None, outcome: Outcome::Result(_) } = &inbound {
                prop_assert!(!notes.is_empty(), "an answer to nobody is not told");
            }
        }
    }
}

#[cfg(test)]
mod shape_tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_breaks_the_specification_is_useless_and_what_is_strange_is_reported() {
        for (method, useless) in [
            ("tools/call", json!(null)),
            ("tools/call", json!([])),
            ("tools/call", json!({"content": "x"})),
            ("tools/call", json!({"content": [{"type": "text", "text": null}]})),
            ("prompts/get", json!({"messages": "x"})),
            ("prompts/get", json!({"messages": [{"role": "user"}]})),
            ("prompts/get", json!({"messages": [{"role": "user", "content": {"type": "text"}}]})),
            ("resources/read", json!({"contents": {}})),
            ("resources/read", json!({"contents": [{"uri": "a:b"}]})),
        ] {
            let found = check(method, &useless);
            assert!(matches!(found, Some(Misfit::Useless(_))), "{useless}");
        }
        assert!(matches!(check("logging/setLevel", &json!(null)), Some(Misfit::Odd(_))));
        for odd in [
            json!({}),
            json!({"content":[{"type":"video"}]}),
            json!({"content":[],"isError":"yes"}),
            json!({"content":[],"resultType":"later"}),
        ] {
            assert!(matches!(check("tools/call", &odd), Some(Misfit::Odd(_))), "{odd}");
        }
        let good = json!({"content":[{"type":"text","text":"x","x-vendor":1}],"extra":1});
        assert_eq!(check("tools/call", &good), None);
        assert_eq!(check("tools/call", &json!({"resultType":"input_required"})), None);
    }
}

#[cfg(test)]
mod repair_tests {
    use super::*;

    #[test]
    fn replaces_what_is_no_character_and_nothing_else() {
        let fix = |line: &[u8]| repair(line).map(|(text, _)| text);
        assert_eq!(fix(br#"{"a":"\ud83d\ude00"}"#), None, "a pair is a character");
        assert_eq!(fix(br#"{"a":"\\ud800"}"#), None, "an escaped backslash is no escape");
        assert_eq!(fix(br#"{"a":"x\ud800y\udc00"}"#).unwrap(), r#"{"a":"x\ufffdy\ufffd"}"#);
        assert_eq!(fix(b"{\"a\":\"\xff\"}").unwrap(), "{\"a\":\"\u{fffd}\"}");
        assert_eq!(fix(br#""\ud800\"#).unwrap(), r#""\ufffd\"#, "a cut escape is left alone");
    }
}

#[cfg(test)]
mod scavenge_tests {
    use super::*;

    #[test]
    fn finds_the_id_of_a_broken_message_and_not_one_inside_it() {
        let found = |text: &str| find_id(text.as_bytes());
        assert_eq!(
            found(r#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#),
            Some(RequestId::Number(7))
        );
        assert_eq!(found(r#"{"id" : "x","result":["#), Some(RequestId::String("x".into())));
        assert_eq!(
            found(r#"{"result":{"id":1,"t":"\"id\":2"},"id":3}"#),
            Some(RequestId::Number(3))
        );
        assert_eq!(found(r#"{"result":{"id":1"#), None);
        assert_eq!(found(r#"{"id":12"#), None, "a cut number may be another number");
        assert_eq!(found(r#"{"id":1e400,"result":{}}"#), None, "nor is it what it begins with");
        assert_eq!(find_last_id(br#"xx"}]},"id":9 }"#), Some(RequestId::Number(9)));
        assert_eq!(find_last_id(br#"xx","id":9,"more":{"#), None);
    }

    #[test]
    fn finds_a_message_behind_log_text() {
        let line = br#"INFO {x} ready{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(find_message(line), Some(14));
        assert_eq!(find_message(br#"log: {"id":1,"jsonrpc":"2.0"}"#), Some(5));
        assert_eq!(find_message(b"plain"), None);
    }
}
