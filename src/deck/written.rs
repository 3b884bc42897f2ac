//! JSON files that users write: comments and trailing commas are allowed, and every error
//! message names the file, the line and what to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use base::SafeText;
use base::file::read_text;
use base::text::json::{WrittenValue, within_range};
use base::text::nearest;
use base::text::path::spelled;
use config::error::Violation;
use config::{NodeKind, Position, SourceText, SyntaxNode, parse_loosely, without_mark};
use schema::{Outline, SchemaDocument, SchemaVerdict, Validator};

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Maximum number of problems reported for one file.
const MAX_PROBLEMS: usize = 12;

/// A text written by hand, which finds the line of a value.
pub struct WrittenText {
    name: PathBuf,
    text: String,
}

impl WrittenText {
    /// Reads a file.
    ///
    /// # Errors
    /// When the file does not exist or cannot be read.
    pub fn load(path: &Path) -> Result<Self, String> {
        Self::find(path)?.ok_or_else(|| format!("{}: there is no such file", spelled(path)))
    }

    /// Reads a file; `None` when it does not exist.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn find(path: &Path) -> Result<Option<Self>, String> {
        let text = read_text(path, MAX_FILE_BYTES)
            .map_err(|error| format!("{}: {error}", spelled(path)))?;
        Ok(text.map(|text| Self::new(path, &text)))
    }

    /// A text; `name` is its name in messages.
    pub fn new(name: impl Into<PathBuf>, text: &str) -> Self {
        Self { name: name.into(), text: without_mark(text).to_owned() }
    }

    fn source(&self) -> SourceText {
        SourceText::new(&self.name, self.text.as_str())
    }

    fn root(&self) -> Result<Option<SyntaxNode>, String> {
        parse_loosely(&self.source()).map_err(|problem| match &problem.help {
            Some(help) => format!("{problem}; {help}"),
            None => problem.to_string(),
        })
    }

    /// The value; an empty text is an empty object.
    ///
    /// # Errors
    /// A syntax error, with its place.
    pub fn value(&self) -> Result<Value, String> {
        if let Ok(value) = serde_json::from_str(&self.text) {
            return Ok(value);
        }
        Ok(self.root()?.map_or_else(|| Value::Object(Map::new()), |root| root.to_json()))
    }

    /// The value with its numbers as they are written; an empty text is an empty object.
    ///
    /// # Errors
    /// A syntax error, with its place.
    pub fn written_value(&self) -> Result<WrittenValue, String> {
        WrittenValue::parse(&self.text).or_else(|_| match self.root()? {
            Some(root) => WrittenValue::parse(&root.to_json_text()),
            None => Ok(Value::Object(Map::new()).into()),
        })
    }

    /// The value of a text that is whole: an object, in which no key is given twice. Nothing at all
    /// is not whole: the file is being written, or was cut short.
    ///
    /// # Errors
    /// What it lacks, with its place.
    pub fn whole(&self) -> Result<Value, String> {
        self.whole_root().map(|root| root.to_json())
    }

    fn whole_root(&self) -> Result<SyntaxNode, String> {
        let Some(root) = self.root()? else {
            return Err(self.problem("", "it is empty; write `{}` if it is to say nothing"));
        };
        if !matches!(root.kind, NodeKind::Object(_)) {
            return Err(self.problem("", "an object, `{ ... }`, is expected"));
        }
        if let Some((offset, key)) = twice(&root) {
            let at = self.source().position(offset);
            return Err(format!("{at}: `{}` is given twice", SafeText::cut(key, 160)));
        }
        Ok(root)
    }

    /// As [`WrittenText::whole`], of an `mcp.json`, whose servers are left out: of thousands, a copy
    /// would be made for nothing.
    ///
    /// # Errors
    /// What it lacks, with its place.
    pub fn whole_configuration(&self) -> Result<Value, String> {
        const SERVERS: [&str; 2] = ["servers", "mcpServers"];
        let mut root = self.whole_root()?;
        if let NodeKind::Object(members) = &mut root.kind {
            for member in members.iter_mut().filter(|it| SERVERS.contains(&it.key.as_str())) {
                match &mut member.value.kind {
                    NodeKind::Object(servers) => servers.clear(),
                    NodeKind::List(servers) => servers.clear(),
                    _ => {}
                }
            }
        }
        let value = root.to_json();
        match SERVERS.iter().find_map(|key| value.get(key)) {
            Some(Value::Object(_) | Value::Array(_)) => Ok(value),
            Some(_) => Err(self.problem("", "`servers` is not an object")),
            None => Err(self.problem("", "`servers` is missing")),
        }
    }

    /// Checks a value at a pointer of the text against the JSON Schema of `T`.
    ///
    /// # Errors
    /// Every place where it does not fit.
    pub fn fits<T: JsonSchema>(&self, pointer: &str, value: &Value) -> Result<(), Vec<String>> {
        let problems = self.misfits::<T>(pointer, value);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// The places where a value at a pointer of the text does not fit the JSON Schema of `T`.
    fn misfits<T: JsonSchema>(&self, pointer: &str, value: &Value) -> Vec<String> {
        let verdict = Validator::compile(&schema_of::<T>()).map(|schema| schema.check(value));
        let Ok(SchemaVerdict::Invalid(all)) = verdict else { return Vec::new() };
        let told = all.iter().map(|v| {
            let near = nearest_key::<T>(&v.pointer).filter(|_| is_unknown_key(v));
            let near = near.map(|near| format!("; did you mean `{near}`?"));
            let message = format!("{}{}", v.message, near.unwrap_or_default());
            self.problem(&format!("{pointer}{}", v.pointer), &message)
        });
        let mut problems: Vec<String> = told.collect();
        problems.dedup();
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        if more > 0 {
            problems.push(format!("{}: and {more} more", spelled(&self.name)));
        }
        problems
    }

    /// Decodes a `T` from a text that is whole ([`WrittenText::whole`]).
    ///
    /// # Errors
    /// Every place where the text does not fit the JSON Schema of `T`, a line each.
    pub fn decode<T: DeserializeOwned + JsonSchema>(&self) -> Result<T, String> {
        let root = self.whole_root()?;
        // As text, for values that keep their numbers as they are written.
        let text = root.to_json_text();
        // A number beyond a double is the largest one for those that keep values alone.
        let plain = |_| serde_json::from_str(&within_range(&text));
        if let Ok(decoded) = serde_json::from_str(&text).or_else(plain) {
            return Ok(decoded);
        }
        let value = root.to_json();
        let error = match serde_json::from_value(value.clone()) {
            Ok(decoded) => return Ok(decoded),
            Err(error) => error.to_string(),
        };
        let problems = self.misfits::<T>("", &value);
        Err(if problems.is_empty() { self.problem("", &error) } else { problems.join("\n") })
    }

    /// A message about the value at a JSON pointer, or about its nearest existing ancestor.
    pub fn problem(&self, pointer: &str, message: &str) -> String {
        let at = self.source().position(self.offset(pointer));
        let (shown, message) = (SafeText::cut(pointer, 160), SafeText::cut(message, 400));
        let gap = if pointer.is_empty() { "" } else { ": " };
        format!("{at}: {shown}{gap}{message}")
    }

    /// The place of the value at a pointer, or of its nearest existing ancestor.
    pub fn position(&self, pointer: &str) -> Position {
        self.source().position(self.offset(pointer))
    }

    /// The offset of the value at a pointer, or of its nearest existing ancestor.
    fn offset(&self, pointer: &str) -> usize {
        let Ok(Some(root)) = self.root() else { return 0 };
        let (mut at, mut start) = (&root, root.range.start);
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let next = match &at.kind {
                NodeKind::Object(members) => members
                    .iter()
                    .find(|member| member.key == step)
                    .map(|member| (member.key_range.start, &member.value)),
                NodeKind::List(elements) => {
                    let element = step.parse().ok().and_then(|n: usize| elements.get(n));
                    element.map(|element| (element.range.start, element))
                }
                _ => None,
            };
            let Some((place, next)) = next else { break };
            // Objects and lists are located by their key.
            let is_long = matches!(next.kind, NodeKind::Object(_) | NodeKind::List(_));
            start = if is_long { place } else { next.range.start };
            at = next;
        }
        start
    }
}

/// The first key that an object holds twice, with its offset.
fn twice(node: &SyntaxNode) -> Option<(usize, &str)> {
    let mut seen = std::collections::HashSet::new();
    for member in node.members() {
        if !seen.insert(member.key.as_str()) {
            return Some((member.key_range.start, &member.key));
        }
    }
    let inner = node.members().iter().map(|member| &member.value).chain(node.elements());
    { inner }.find_map(twice)
}

/// Whether a violation is that of a key that the schema does not have.
fn is_unknown_key(violation: &Violation) -> bool {
    matches!(violation.keyword.as_str(), "additionalProperties" | "unevaluatedProperties")
}

/// The key of a `T` that an unknown one at a pointer looks like.
fn nearest_key<T: JsonSchema>(pointer: &str) -> Option<String> {
    let document = SchemaDocument::new(&Arc::new(schema_of::<T>()));
    let mut steps: Vec<String> =
        pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let key = steps.pop()?;
    let mut at = Outline::new(&document);
    for step in steps {
        let properties = at.properties();
        let is_index = step.parse::<usize>().is_ok() && at.types().contains(&"array");
        at = match properties.get(&step) {
            Some(property) => at.property(property),
            None if is_index => at.items(),
            None => at.other(&step)?,
        };
    }
    let properties = at.properties();
    nearest(&key, properties.keys(), 0.7).cloned()
}

/// The JSON Schema of a file that is read as a `T`.
pub fn schema_of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lock;

    fn wrong(text: &str) -> String {
        WrittenText::new("f.json", text).decode::<Lock>().expect_err("it is wrong")
    }

    #[test]
    fn syntax_types_and_unknown_keys_are_reported_with_their_lines() {
        let open = "f.json:2:14: this `[` is never closed; add the missing `]`";
        assert_eq!(wrong("{\n  \"servers\": ["), open);
        let problems = wrong(
            "{\n  // mine\n  \"servers\": {\n    \"s\": {\n      \"tools\": [],\n      \"tool\": {}\n    }\n  },\n  \"lockVersion\": \"many\"\n}",
        );
        assert!(problems.contains("f.json:5:"), "{problems}");
        assert!(problems.contains("tool\""), "{problems}");
        assert!(problems.contains("f.json:9:18: /lockVersion: "), "{problems}");
        assert_eq!(problems.lines().count(), 3, "{problems}");
    }

    #[test]
    fn an_unknown_key_is_named_with_the_one_that_it_looks_like() {
        let problems = wrong("{\"servrs\": {}, \"servers\": {\"s\": {\"tols\": {}, \"x\": 1}}}");
        for words in [
            "/servrs: \"servrs\" is not known; did you mean `servers`?",
            "/servers/s/tols: \"tols\" is not known; did you mean `tools`?",
        ] {
            assert!(problems.contains(words), "{problems}");
        }
        assert!(
            problems.contains("\"x\" is not known") && problems.matches("did you").count() == 2
        );
    }

    #[test]
    fn a_root_of_another_kind_and_an_empty_file_are_understood() {
        assert!(wrong("[1]").starts_with("f.json:1:1: "), "{}", wrong("[1]"));
        let empty = WrittenText::new("f.json", "\u{feff} // nothing\n").value();
        assert_eq!(empty, Ok(Value::Object(Map::new())));
        // What a file demands does not end by its being cut short.
        for text in ["", " \n", "// nothing", "[]", "null", "{\"servers\": {}, \"servers\": {}}"] {
            assert!(wrong(text).starts_with("f.json:1:"), "{}", wrong(text));
        }
    }
}
