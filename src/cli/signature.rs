//! What a tool or prompt takes, in words short enough for a line. Pure.

use std::fmt::Write as _;

use serde_json::Value;

use super::values::{follow, properties, types};
use crate::base::text::SafeText;
use crate::mcp::Prompt;

/// Most parameters that are told of one tool.
const MOST: usize = 40;
/// Longest word for a type, in characters.
const LONGEST: usize = 48;

/// One parameter.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: SafeText,
    /// Whether a call needs it.
    pub required: bool,
    /// What it takes: a type, or the values that are allowed.
    pub kind: String,
    /// What it is for.
    pub says: SafeText,
}

/// The parameters an `inputSchema` declares, required ones first.
pub fn of_tool(schema: &Value) -> Vec<Parameter> {
    let root = schema;
    let schema = follow(schema, root, 0);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut out: Vec<Parameter> = properties(schema, root)
        .into_iter()
        .take(MOST)
        .map(|(name, sub)| {
            let text = follow(sub, root, 0).get("description").or_else(|| sub.get("description"));
            Parameter {
                name: SafeText::cut(name, 60),
                required: required.contains(&name),
                kind: kind(sub, root),
                says: SafeText::cut(text.and_then(Value::as_str).unwrap_or_default(), 80),
            }
        })
        .collect();
    out.sort_by_key(|parameter| !parameter.required);
    out
}

/// The arguments of a prompt.
pub fn of_prompt(prompt: &Prompt) -> Vec<Parameter> {
    let arguments = prompt.arguments.iter().take(MOST).map(|argument| Parameter {
        name: SafeText::cut(&argument.name, 60),
        required: argument.required,
        kind: "string".to_owned(),
        says: SafeText::cut(argument.description.as_deref().unwrap_or_default(), 80),
    });
    arguments.collect()
}

/// One line for each, indented below its tool.
pub fn write(out: &mut String, parameters: &[Parameter]) {
    let width = |of: fn(&Parameter) -> usize| parameters.iter().map(of).max().unwrap_or(0);
    let names = width(|p| p.name.chars().count() + 1).min(32);
    let kinds = width(|p| p.kind.chars().count()).min(24);
    for parameter in parameters {
        let star = if parameter.required { "*" } else { "" };
        let name = format!("{}{star}", parameter.name);
        let line = format!("      {name:names$}  {:kinds$}  {}", parameter.kind, parameter.says);
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// `math.add a=NUMBER [note=STRING]`: how a tool is called.
pub fn usage(name: &str, schema: &Value) -> String {
    let mut out = SafeText::line(name).as_str().to_owned();
    for Parameter { name, required, kind, .. } in of_tool(schema) {
        let types = ["string", "integer", "number", "boolean", "object", "array", "json"];
        let kind = if types.contains(&kind.as_str()) { kind.to_uppercase() } else { kind };
        let (open, close) = if required { ("", "") } else { ("[", "]") };
        let _ = write!(out, " {open}{name}={kind}{close}");
    }
    out
}

/// The values that are allowed, or the types.
fn kind(schema: &Value, root: &Value) -> String {
    let schema = follow(schema, root, 0);
    let words: Vec<String> = if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        values.iter().map(word).collect()
    } else {
        let mut all = Vec::new();
        types(schema, root, 0, &mut all);
        all.dedup();
        all.iter().filter(|t| **t != "null").map(|t| of_type(t, schema, root)).collect()
    };
    if words.is_empty() {
        return "json".to_owned();
    }
    SafeText::cut(&words.join("|"), LONGEST).as_str().to_owned()
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// An array says what it holds.
fn of_type(name: &str, schema: &Value, root: &Value) -> String {
    let Some(items) = schema.get("items").filter(|_| name == "array") else {
        return name.to_owned();
    };
    let mut of = Vec::new();
    types(follow(items, root, 0), root, 0, &mut of);
    match of[..] {
        [one] => format!("{one}[]"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_is_told_in_a_line_for_each_parameter() {
        let schema = json!({
            "type": "object",
            "required": ["city"],
            "properties": {
                "days": {"type": "integer", "description": "How many\u{1b}[2J"},
                "unit": {"enum": ["C", "F"]},
                "city": {"$ref": "#/$defs/city"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "any": true
            },
            "$defs": {"city": {"type": "string", "description": "Where"}}
        });
        let mut out = String::new();
        write(&mut out, &of_tool(&schema));
        let lines: Vec<&str> = out.lines().map(str::trim).collect();
        assert_eq!(lines[0], "city*  string    Where");
        assert!(lines[1].starts_with("days   integer   How many␛"), "{out}");
        assert_eq!(lines[2..], ["unit   C|F", "tags   string[]", "note   string", "any    json"]);
        assert_eq!(
            usage("weather.forecast", &schema),
            "weather.forecast city=STRING [days=INTEGER] [unit=C|F] [tags=string[]] [note=STRING] \
             [any=JSON]"
        );
        assert!(of_tool(&json!(true)).is_empty());
    }
}
