//! JSON with comments and trailing commas, for files written by hand; every error message names the
//! line.

use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::base::file::read_text;
use crate::check::report::schema_of;
use crate::check::subject::brief;
use crate::config::{NodeKind, SourceText, SyntaxNode, parse_with};
use crate::host::{SchemaVerdict, Validator};

/// Largest file that is read, in bytes.
const LARGEST: u64 = 16 << 20;
/// Maximum number of problems reported for one file.
const MOST: usize = 12;

/// A text written by hand, which finds the line of a value.
pub struct WrittenText(SourceText);

impl WrittenText {
    /// Reads a file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, String> {
        let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = read_text(path, LARGEST).map_err(|e| fail(&e))?;
        let text = text.ok_or_else(|| fail(&"there is no such file"))?;
        Ok(Self::new(path, &text))
    }

    /// A text; `name` is its name in messages.
    pub fn new(name: impl Into<PathBuf>, text: &str) -> Self {
        Self(SourceText::new(name, text))
    }

    fn root(&self) -> Result<Option<SyntaxNode>, String> {
        parse_with(&self.0, &ParseOptions::default())
            .map_err(|e| format!("{}{}", self.place(e.range().start), e.kind()))
    }

    fn value(&self) -> Result<Value, String> {
        Ok(self.root()?.map_or_else(|| Value::Object(Map::new()), |root| root.to_json()))
    }

    /// Decodes a `T` that has no schema; an empty text is an empty object.
    ///
    /// # Errors
    /// When it does not decode; a syntax error with line and column.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_value(self.value()?).map_err(|e| self.problem("", &e.to_string()))
    }

    /// Decodes a `T`.
    ///
    /// # Errors
    /// Every place where the text does not fit the JSON Schema of `T`, a line each.
    pub fn decode<T: DeserializeOwned + JsonSchema>(&self) -> Result<T, String> {
        let value = self.value()?;
        let error = match serde_json::from_value(value.clone()) {
            Ok(decoded) => return Ok(decoded),
            Err(error) => error.to_string(),
        };
        let verdict = Validator::compile(&schema_of::<T>()).map(|schema| schema.check(&value));
        let mut problems: Vec<String> = match verdict {
            Ok(SchemaVerdict::Invalid(all)) => {
                all.iter().map(|v| self.problem(&v.pointer, &v.message)).collect()
            }
            _ => Vec::new(),
        };
        problems.dedup();
        let more = problems.len().saturating_sub(MOST);
        problems.truncate(MOST);
        if more > 0 {
            problems.push(format!("{}: and {more} more", self.0.file().display()));
        }
        Err(if problems.is_empty() { self.problem("", &error) } else { problems.join("\n") })
    }

    /// A message about the value at a JSON pointer, or about its nearest existing ancestor.
    pub fn problem(&self, pointer: &str, message: &str) -> String {
        let path: String =
            if pointer.is_empty() { String::new() } else { format!("{}: ", brief(pointer, 160)) };
        format!("{}{path}{}", self.place(self.find(pointer)), brief(message, 400))
    }

    /// The offset of the value at a pointer, or of its nearest existing ancestor.
    fn find(&self, pointer: &str) -> usize {
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

    fn place(&self, offset: usize) -> String {
        format!("{}: ", self.0.position(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::expect::Expectations;

    fn wrong(text: &str) -> String {
        WrittenText::new("f.json", text).decode::<Expectations>().expect_err("it is wrong")
    }

    #[test]
    fn syntax_types_and_unknown_keys_are_reported_with_their_lines() {
        assert!(wrong("{\n  \"servers\": [}").starts_with("f.json:2:"), "{}", wrong("{\n [}"));
        let problems = wrong(
            "{\n  // mine\n  \"servers\": {\n    \"s\": {\n      \"tools\": [],\n      \"forbiden\": [\"x\"]\n    }\n  },\n  \"budgets\": {\"contextTokens\": \"many\"}\n}",
        );
        assert!(problems.contains("f.json:5:"), "{problems}");
        assert!(problems.contains("forbiden"), "{problems}");
        assert!(problems.contains("f.json:9:32: /budgets/contextTokens: "), "{problems}");
        assert_eq!(problems.lines().count(), 3, "{problems}");
    }

    #[test]
    fn a_root_of_another_kind_and_an_empty_file_are_understood() {
        assert!(wrong("[1]").starts_with("f.json:1:1: "), "{}", wrong("[1]"));
        let empty = WrittenText::new("f.json", "\u{feff} // nothing\n").decode::<Expectations>();
        assert_eq!(empty, Ok(Expectations::default()));
    }
}
