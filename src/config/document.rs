//! Files of other programs as text: read, and changed entry by entry. Everything but the entry
//! keeps its bytes: comments, order, line ends. Pure, text to text; knows no program.

use std::path::Path;

use serde_json::{Map, Value};

use crate::Diagnostic;
use crate::edit::{EditError, put_path, take_path, without_mark};
use crate::source::SourceText;
use crate::syntax::{paired, parse, parse_loosely};

mod place;
mod toml_text;
mod yaml;

pub use place::EntryPlace;
use place::is_named;

/// The language a file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

impl FileFormat {
    /// The language that the name of a file stands for; JSON when it stands for none.
    pub fn from_path(path: &Path) -> Self {
        let end = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
        match end.as_deref() {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }
}

/// Reads a file of another program.
///
/// # Errors
/// Diagnostics with positions; a file in another language is named as such.
pub fn read_document(format: FileFormat, source: &SourceText) -> Result<Value, Vec<Diagnostic>> {
    match format {
        FileFormat::Toml => toml_text::read(source),
        FileFormat::Yaml => yaml::read(source).map_err(|problem| vec![*problem]),
        FileFormat::Json => read_json(source),
    }
}

fn read_json(source: &SourceText) -> Result<Value, Vec<Diagnostic>> {
    let text = paired(source.text());
    // What a program wrote may exceed the limits of files that users write.
    serde_json::from_str(&text).or_else(|_| {
        let source = SourceText::new(source.file(), &*text);
        match parse(&source) {
            (Some(root), problems) if problems.is_empty() => Ok(root.to_json()),
            // Comments alone: a file whose user has set nothing yet.
            (None, _) if matches!(parse_loosely(&source), Ok(None)) => Ok(Value::Null),
            (_, problems) => Err(problems),
        }
    })
}

/// Returns `text` with `value` as the entry at a place, which replaces one that is there.
///
/// # Errors
/// [`EditError::Syntax`] when the text cannot be read, [`EditError::Refused`] when it is written in
/// a way that cannot be changed safely.
pub fn put_entry(
    format: FileFormat,
    text: &str,
    place: &EntryPlace,
    value: &Value,
) -> Result<String, EditError> {
    let (mark, body) = split_mark(text);
    let before = read(format, body)?;
    let after = match format {
        FileFormat::Json => put_path(body, &place.path, &place.name, value)?,
        FileFormat::Toml => toml_text::put(body, place, value)?,
        FileFormat::Yaml => yaml::put(body, place, value)?,
    };
    guard(format, (&before, &after), place, Some(value))?;
    Ok(format!("{mark}{after}"))
}

/// Returns `text` without the entry at a place; `None` when there is none.
///
/// # Errors
/// As [`put_entry`].
pub fn take_entry(
    format: FileFormat,
    text: &str,
    place: &EntryPlace,
) -> Result<Option<String>, EditError> {
    let (mark, body) = split_mark(text);
    let before = read(format, body)?;
    if entry_at(&before, place).is_none() {
        return Ok(None);
    }
    let after = match format {
        FileFormat::Json => take_path(body, &place.path, &place.name)?,
        FileFormat::Toml => toml_text::take(body, place)?,
        FileFormat::Yaml => yaml::take(body, place)?,
    };
    guard(format, (&before, &after), place, None)?;
    Ok(Some(format!("{mark}{after}")))
}

/// The entry at a place of a file that was read.
pub fn entry_at<'v>(root: &'v Value, place: &EntryPlace) -> Option<&'v Value> {
    let within = place.path.iter().try_fold(root, |value, key| value.get(key))?;
    match within {
        Value::Array(list) => list.iter().find(|entry| is_named(entry, &place.name)),
        Value::Object(map) => map.get(&place.name),
        _ => None,
    }
}

fn split_mark(text: &str) -> (&str, &str) {
    let body = without_mark(text);
    (text.strip_suffix(body).unwrap_or_default(), body)
}

/// The whole file, leniently: what the program itself accepts is accepted.
fn read(format: FileFormat, body: &str) -> Result<Value, EditError> {
    if body.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let source = SourceText::new("", body);
    let root = match format {
        FileFormat::Json => parse_loosely(&source)
            .map(|root| root.map(|root| root.to_json()))
            .map_err(|problem| vec![*problem]),
        FileFormat::Toml | FileFormat::Yaml => read_document(format, &source).map(Some),
    };
    match root.map_err(EditError::Syntax)? {
        Some(root @ Value::Object(_)) => Ok(root),
        None | Some(Value::Null) => Ok(Value::Object(Map::new())),
        Some(_) => Err(EditError::Refused(format!("the file is not {} with keys", format.name()))),
    }
}

/// Refuses a result that changes anything but the entry: the last line of defence against a wrong
/// splice.
fn guard(
    format: FileFormat,
    (before, after): (&Value, &str),
    place: &EntryPlace,
    value: Option<&Value>,
) -> Result<(), EditError> {
    let refused = || {
        let message =
            "this file is written in a way that cannot be changed safely; change it by hand";
        EditError::Refused(message.to_owned())
    };
    let after = read(format, after).map_err(|_| refused())?;
    let same = without(before.clone(), place) == without(after.clone(), place);
    if same && entry_at(&after, place) == value { Ok(()) } else { Err(refused()) }
}

/// A file without the entry, and without objects around it that hold nothing else.
fn without(mut root: Value, place: &EntryPlace) -> Value {
    fn prune(value: &mut Value, path: &[String], place: &EntryPlace) {
        match (path.split_first(), &mut *value) {
            (Some((key, rest)), Value::Object(map)) => {
                let Some(inner) = map.get_mut(key) else { return };
                prune(inner, rest, place);
                let is_empty = match inner {
                    Value::Object(map) => map.is_empty(),
                    Value::Array(list) => list.is_empty(),
                    Value::Null => true,
                    _ => false,
                };
                if is_empty {
                    map.shift_remove(key);
                }
            }
            (None, Value::Object(map)) => _ = map.shift_remove(&place.name),
            (None, Value::Array(list)) => list.retain(|entry| !is_named(entry, &place.name)),
            _ => {}
        }
    }
    prune(&mut root, &place.path, place);
    root
}

/// A text whose assignments of secrets are masked, for TOML and YAML, where every value has a line
/// with its name. JSON has its own (`import::masked`).
pub fn masked_lines(format: FileFormat, text: &str) -> String {
    let sign = if format == FileFormat::Toml { '=' } else { ':' };
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let shown = line.trim_end_matches(['\r', '\n']);
        let hidden = shown.split_once(sign).filter(|(name, value)| {
            let name = name.trim().trim_start_matches("- ").trim_matches(['"', '\'']);
            let value = value.trim().trim_matches(['"', '\'']);
            !value.is_empty() && crate::is_secret(name, value)
        });
        match hidden {
            Some((name, _)) => {
                out.extend([name, &sign.to_string(), " ", base::secret::MASK]);
                out.push_str(line.strip_prefix(shown).unwrap_or_default());
            }
            None => out.push_str(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place(path: &[&str], name: &str, is_listed: bool) -> EntryPlace {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        EntryPlace { path, name: name.to_owned(), is_listed }
    }

    /// Puts an entry, reads it back, and takes it again: all but the entry stays.
    fn round(
        format: FileFormat,
        text: &str,
        place: &EntryPlace,
        value: &Value,
    ) -> (String, String) {
        let put =
            put_entry(format, text, place, value).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let gone = take_entry(format, &put, place).expect("taken").expect("there");
        (put, gone)
    }

    fn entry() -> Value {
        json!({"command": "/opt/mcpdeck", "args": ["serve", "--stdio", "a: b", "#c"],
            "env": {"A": "1", "yes": "no"}, "timeout": 60, "on": true})
    }

    #[test]
    fn json_keeps_comments_order_and_line_ends() {
        let deck = place(&["mcpServers"], "mcpdeck", false);
        for text in [
            "",
            "{}",
            "{\r\n\t// mine\r\n\t\"theme\": \"dark\", /* why */\r\n}\r\n",
            "{ \"mcpServers\": {} }",
            "\u{feff}{\n  \"mcpServers\": {\n    // a\n    \"a\": { \"command\": \"x\" }, // one\n  },\n}\n",
            "{\"mcpServers\": null, \"z\": [1, 2,],}",
            "// nothing set yet\n",
            "/* nothing */ // set yet",
        ] {
            let (put, gone) = round(FileFormat::Json, text, &deck, &entry());
            for line in text.lines().filter(|line| line.contains("//") || line.contains("/*")) {
                assert!(put.contains(line.trim()), "{put}");
                assert!(gone.contains(line.trim()), "{gone}");
            }
            assert_eq!(put.starts_with('\u{feff}'), text.starts_with('\u{feff}'));
        }
        let text = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" }, // one\n    \"b\": {}\n  }\n}\n";
        assert_eq!(round(FileFormat::Json, text, &deck, &entry()).1, text);
    }

    /// Programs in JavaScript cut texts in the middle of a character, and keep the half.
    #[test]
    fn json_may_hold_halves_of_characters() {
        let deck = place(&["mcpServers"], "mcpdeck", false);
        for (written, read) in [
            (r#"{"h": "cut \ud83d"}"#, "cut \u{fffd}"),
            (r#"{"h": "\uDE00 cut"}"#, "\u{fffd} cut"),
            (r#"{"h": "\ud83d\ud83d\ude00\udc00"}"#, "\u{fffd}\u{1f600}\u{fffd}"),
            (r#"{"h": "\ud83dxud83d"}"#, "\u{fffd}xud83d"),
            (r#"{"h": "\\ud83d é\\\ud83d"}"#, "\\ud83d é\\\u{fffd}"),
            ("{\"h\": \"\\ud83d\", // c\n}", "\u{fffd}"),
        ] {
            let (put, gone) = round(FileFormat::Json, written, &deck, &entry());
            let half = written.strip_suffix('}').expect("an object").trim_end();
            let half = half.strip_suffix(", // c").unwrap_or(half);
            assert!(put.contains(half) && gone.contains(half), "{put}\n{gone}");
            let source = SourceText::new("f.json", &*put);
            let root = read_document(FileFormat::Json, &source).expect("read");
            assert_eq!((&root["h"], &root["mcpServers"]["mcpdeck"]), (&json!(read), &entry()));
        }
        let cut = read_document(FileFormat::Json, &SourceText::new("f", r#"{"h": "\ud8"}"#));
        assert!(cut.is_err(), "{cut:?}");
    }

    #[test]
    fn json_entries_may_be_deep() {
        let deep = place(&["mcp", "servers"], "deck", false);
        let (put, _) = round(FileFormat::Json, "{\"a\": 1}", &deep, &json!({"x": 1}));
        assert_eq!(
            serde_json::from_str::<Value>(&put).expect("JSON"),
            json!({"a": 1, "mcp": {"servers": {"deck": {"x": 1}}}})
        );
        let wrong = put_entry(FileFormat::Json, "{\"mcp\": 3}", &deep, &json!({}));
        assert!(wrong.is_err_and(|error| error.to_string().contains("`mcp`")));
    }

    #[test]
    fn toml_keeps_what_people_wrote() {
        let deck = place(&["mcp_servers"], "mcpdeck", false);
        for text in [
            "",
            "# mine\nmodel = \"o3\" # why\n\n[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.a.env]\nB = '1'\n\n# end\n[tui]\nx = 1\n",
            "model = \"a\"\r\n[mcp_servers.a]\r\nurl = \"u\"\r\n",
            "mcp_servers = { a = { command = \"x\" } }\n",
            "mcp_servers.a.command = \"x\"\n",
            "# mine\n[mcp_servers.a]\ncommand = \"x\"",
            "a = 1\r\nb = 2 # no end",
            "a = 1\nb = 2\r\n[mcp_servers.a]\r\nurl = \"u\"\r\n\n",
            "a = \"\"\"\r\n  x\n\"\"\"\n[mcp_servers]\n",
        ] {
            let (put, gone) = round(FileFormat::Toml, text, &deck, &entry());
            for line in text.split_inclusive('\n').filter(|_| text.contains("\r\n")) {
                assert!(put.contains(line) && gone.contains(line), "{line:?}: {put:?} {gone:?}");
            }
            assert_eq!(put.contains("\r\n"), text.contains("\r\n"), "{put:?}");
            for line in text.lines().filter(|line| line.contains('#')) {
                assert!(put.contains(line) && gone.contains(line), "{put}\n{gone}");
            }
        }
        for text in [
            "# mine\n[mcp_servers.a]\ncommand = \"x\"   # odd\n\n[tui]\nx    = 1\n",
            "[mcp_servers.a]\r\ncommand = \"x\"",
            "[mcp_servers.a]\r\ncommand = \"x\"\n\r\n[tui]\nx = 1",
        ] {
            assert_eq!(round(FileFormat::Toml, text, &deck, &entry()).1, text);
        }
    }

    #[test]
    fn yaml_keeps_what_people_wrote() {
        let goose = place(&["extensions"], "mcpdeck", false);
        for text in [
            "",
            "# only a comment\n",
            "GOOSE_MODEL: gpt # mine\nextensions:\n  developer: # built in\n    enabled: true\n    type: builtin\n# end\nother: |\n  text\n  more\n",
            "extensions: {}\n",
            "extensions:\nother: 1\n",
            "extensions: {a: {type: builtin}, \"b\": {x: [1, 2]}}\n",
            "---\nx: &a\n  y: 1\nextensions:\n    wide:\n        z: *a\n",
            "a: 1\r\nextensions:\r\n  b:\r\n    c: 'd'\r\n",
            "a: ü\nextensions:\n  ö:\n    text: >-\n      folded\n      text\n",
            "a: 1",
        ] {
            let (put, gone) = round(FileFormat::Yaml, text, &goose, &entry());
            for line in text.lines().filter(|line| line.contains('#')) {
                assert!(put.contains(line) && gone.contains(line), "{put}\n{gone}");
            }
            if text.contains("\r\n") {
                assert!(!put.replace("\r\n", "").contains('\n'), "{put:?}");
            }
        }
        let text = "extensions:\n  a:\n    x: 1 # one\n  b:\n    y: 2\nlast: 1\n";
        assert_eq!(round(FileFormat::Yaml, text, &goose, &entry()).1, text);
    }

    #[test]
    fn yaml_lists_hold_entries_by_name() {
        let listed = place(&["mcpServers"], "mcpdeck", true);
        let mut value = json!({"name": "mcpdeck"});
        value
            .as_object_mut()
            .expect("an object")
            .extend(entry().as_object().expect("an object").clone());
        for text in [
            "name: Mine\nversion: 1.0.0\n",
            "name: Mine\nmcpServers:\n  - name: a # one\n    command: x\n    args: [1, 2]\nmodels:\n- name: m\n",
            "mcpServers:\n- name: a\n  command: x\n- command: y\n  name: b\n",
            "mcpServers: []\nx: 1\n",
            "mcpServers: [{name: a, command: x}]\n",
        ] {
            let (put, gone) = round(FileFormat::Yaml, text, &listed, &value);
            for line in text.lines().filter(|line| line.contains('#')) {
                assert!(put.contains(line) && gone.contains(line), "{put}\n{gone}");
            }
        }
        let text = "mcpServers:\n  - name: a\n    command: x\nmodels:\n  - name: m\n";
        assert_eq!(round(FileFormat::Yaml, text, &listed, &value).1, text);
        // Once more: it replaces what is there.
        let (put, _) = round(FileFormat::Yaml, text, &listed, &value);
        let again = put_entry(FileFormat::Yaml, &put, &listed, &value).expect("put");
        assert_eq!(again.matches("mcpdeck\n").count(), put.matches("mcpdeck\n").count(), "{again}");
    }

    #[test]
    fn yaml_has_its_own_scalars_and_errors() {
        let read = |text: &str| yaml::read(&SourceText::new("f.yaml", text));
        let text =
            "a: true\nb: 12\nc: 1.5\nd: ~\ne: no\nf: \"1\"\ng: 0x1F\nh: [x, {y: z}]\ni: *r\n";
        let problem = read(text).expect_err("an unknown alias");
        assert_eq!((problem.at.line, problem.rule.as_str()), (9, "config/syntax"));
        let text = text.replace("i: *r", "i: &r v\nj: *r");
        assert_eq!(
            read(&text).expect("read"),
            json!({"a": true, "b": 12, "c": 1.5, "d": null, "e": "no", "f": "1", "g": 31,
                "h": ["x", {"y": "z"}], "i": "v", "j": "v"})
        );
        assert!(read("a: [1\nb: 2\n").is_err());
        // A tab looks like the blanks that it is not.
        for (text, line) in [("a:\n\tb: 1\n", 2), ("a:\n  b:\t1\n", 2), ("x: 1\n\t- y\n", 2)] {
            let problem = read(text).expect_err("a tab");
            assert_eq!(problem.at.line, line, "{text:?}: {problem}");
            let help = problem.help.unwrap_or_default();
            assert!(help.contains("tab"), "{text:?}: {help}");
        }
        let conflict = read("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> x\n");
        let conflict = conflict.expect_err("two versions");
        assert!(conflict.at.line == 2 && conflict.message.contains("git"), "{conflict}");
        // Aliases cannot blow up.
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for n in 1..9 {
            let last = n - 1;
            let all = vec![format!("*a{last}"); 10].join(", ");
            bomb.push_str(
                &["a", &n.to_string(), ": &a", &n.to_string(), " [", &all, "]\n"].concat(),
            );
        }
        assert!(read(&bomb).expect_err("too much").message.contains("more than"));
        assert!(read(&"[".repeat(10_000)).is_err());
    }

    #[test]
    fn secrets_of_lines_are_masked() {
        let text = "A_TOKEN: abc\n  - API_KEY: \"x\"\nname: y\n";
        let shown = masked_lines(FileFormat::Yaml, text);
        assert_eq!(shown, "A_TOKEN: ***\n  - API_KEY: ***\nname: y\n");
        assert_eq!(masked_lines(FileFormat::Toml, "API_TOKEN = \"x\"\n"), "API_TOKEN = ***\n");
    }
}
