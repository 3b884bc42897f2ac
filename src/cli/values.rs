//! Parameters of a tool or prompt: described in words, and as the types that convert `key=value`
//! arguments of the command line. Pure.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use base::SafeText;
use base::text::nearest;
use mcp::{Prompt, schema_kind};

/// Builds the arguments: at most one JSON object first, then `key=value` pairs that add to it or
/// replace its values.
///
/// # Errors
/// Every word that cannot be used, and why.
pub fn arguments(
    base: Option<Value>,
    pairs: &[String],
    schema: &Value,
) -> Result<Value, Vec<String>> {
    let mut wrong = Vec::new();
    let mut object = match base {
        None => Map::new(),
        Some(Value::Object(object)) => object,
        Some(other) => {
            return Err(vec![format!(
                "arguments must be a JSON object, not {}",
                schema_kind(&other)
            )]);
        }
    };
    let mut given: Vec<&str> = Vec::new();
    for pair in pairs {
        let Some((key, text)) = pair.split_once('=') else {
            wrong.push(format!("`{pair}` is not key=value; JSON must be one word and come first"));
            continue;
        };
        let again = given.contains(&key);
        given.push(key);
        let done = resolve(key, schema).and_then(|(path, target)| {
            put(&mut object, &path, text, (target, schema), again)
                .map_err(|message| format!("{key}: {message}"))
        });
        wrong.extend(done.err());
    }
    if wrong.is_empty() { Ok(Value::Object(object)) } else { Err(wrong) }
}

/// The path that a key names, and the schema there when one is known.
type ResolvedPath<'a> = Result<(Vec<String>, Option<&'a Value>), String>;

/// Resolves a key. A property whose name has dots takes precedence over a path.
fn resolve<'a>(key: &str, root: &'a Value) -> ResolvedPath<'a> {
    let mut path = Vec::new();
    let mut schema = root;
    let mut rest = key;
    loop {
        let properties = properties(schema, root);
        let whole = properties.iter().find(|(name, _)| *name == rest);
        let found = whole.or_else(|| {
            let starts = |name: &str| rest.strip_prefix(name).is_some_and(|r| r.starts_with('.'));
            properties.iter().filter(|(name, _)| starts(name)).max_by_key(|(name, _)| name.len())
        });
        let Some((name, sub)) = found else {
            return unknown(path, rest, schema, root, &properties);
        };
        path.push((*name).to_owned());
        if name.len() == rest.len() {
            return Ok((path, Some(sub)));
        }
        rest = &rest[name.len() + 1..];
        schema = sub;
    }
}

fn unknown<'a>(
    mut path: Vec<String>,
    rest: &str,
    schema: &'a Value,
    root: &'a Value,
    properties: &[(&'a str, &'a Value)],
) -> ResolvedPath<'a> {
    let schema = follow(schema, root, 0);
    let extra = schema.get("additionalProperties");
    let closed = extra == Some(&Value::Bool(false))
        || (extra.is_none() && !properties.is_empty() && schema.get("patternProperties").is_none());
    if closed && !properties.is_empty() {
        let near = nearest(rest, properties.iter().map(|(name, _)| name), 0.7);
        let names: Vec<&str> = properties.iter().map(|(n, _)| *n).take(12).collect();
        let hint = near.map_or_else(
            || format!("there are {}", names.join(", ")),
            |name| format!("did you mean `{name}`?"),
        );
        return Err(format!("there is no parameter `{rest}`; {hint}"));
    }
    path.push(rest.to_owned());
    Ok((path, extra.filter(|e| e.is_object())))
}

/// The properties of a schema, those of its `allOf`, `anyOf` and `oneOf` included.
fn properties<'a>(schema: &'a Value, root: &'a Value) -> Vec<(&'a str, &'a Value)> {
    fn collect<'a>(
        schema: &'a Value,
        root: &'a Value,
        depth: usize,
        out: &mut Vec<(&'a str, &'a Value)>,
    ) {
        let schema = follow(schema, root, depth);
        if depth > 8 {
            return;
        }
        let own = schema.get("properties").and_then(Value::as_object);
        out.extend(own.into_iter().flatten().map(|(name, sub)| (name.as_str(), sub)));
        for key in ["allOf", "anyOf", "oneOf"] {
            for part in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
                collect(part, root, depth + 1, out);
            }
        }
    }
    let mut out = Vec::new();
    collect(schema, root, 0, &mut out);
    out
}

/// Maximum number of parameters shown of one tool.
const PARAMETERS: usize = 40;

/// A parameter that a schema declares.
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    pub(super) required: bool,
    /// Its description.
    pub(super) says: &'a str,
    schema: &'a Value,
    root: &'a Value,
}

/// The parameters a schema declares, required ones first.
pub(super) fn parameters(root: &Value) -> Vec<Parameter<'_>> {
    let whole = follow(root, root, 0);
    let required = whole.get("required").and_then(Value::as_array);
    let required: Vec<_> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    let all = properties(whole, root).into_iter().take(PARAMETERS).map(|(name, sub)| {
        let (schema, required) = (follow(sub, root, 0), required.contains(&name));
        let says = schema.get("description").or_else(|| sub.get("description"));
        let says = says.and_then(Value::as_str).unwrap_or_default();
        Parameter { name, required, says, schema, root }
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|parameter| !parameter.required);
    all
}

/// The arguments of a prompt as the input schema of a tool: all are strings.
pub(super) fn of_prompt(prompt: &Prompt) -> Value {
    let all = prompt.arguments.iter();
    let required: Vec<_> = all.clone().filter(|one| one.required).map(|one| &one.name).collect();
    let properties: Map<String, Value> = all
        .map(|one| {
            let schema = json!({"type": "string", "description": one.description});
            (one.name.to_string(), schema)
        })
        .collect();
    json!({"properties": properties, "required": required, "additionalProperties": false})
}

impl Parameter<'_> {
    /// The values it may have, when they are enumerated or boolean.
    pub(super) fn choices(&self) -> Vec<String> {
        match self.schema.get("enum").and_then(Value::as_array) {
            Some(values) => values.iter().take(PARAMETERS).map(word).collect(),
            None if types(self.schema, self.root) == ["boolean"] => {
                ["true", "false"].map(str::to_owned).to_vec()
            }
            None => Vec::new(),
        }
    }

    /// The allowed values, or the types, short enough for a line.
    fn kind(&self) -> String {
        /// Longest, in characters.
        const LONGEST: usize = 48;
        let values = self.schema.get("enum").and_then(Value::as_array);
        let words: Vec<String> = if let Some(values) = values {
            values.iter().map(word).collect()
        } else {
            let mut all = types(self.schema, self.root);
            all.dedup();
            all.into_iter().filter(|name| *name != "null").map(|name| self.of(name)).collect()
        };
        let kind = if words.is_empty() { "json".to_owned() } else { words.join("|") };
        SafeText::cut(&kind, LONGEST).to_string()
    }

    /// A type; for an array with the type of its items.
    fn of(&self, name: &str) -> String {
        let items = self.schema.get("items").filter(|_| name == "array");
        match items.map(|items| types(items, self.root)).as_deref() {
            Some([one]) => format!("{one}[]"),
            _ => name.to_owned(),
        }
    }
}

/// A line for each parameter of a schema, indented below its tool.
pub(super) fn write_parameters(out: &mut String, schema: &Value) {
    let rows = parameters(schema).into_iter().map(|parameter| {
        let star = if parameter.required { "*" } else { "" };
        let name = format!("{}{star}", SafeText::cut(parameter.name, 60));
        (name, parameter.kind(), first_line(parameter.says))
    });
    let rows: Vec<_> = rows.collect();
    let names = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0).min(32);
    let kinds = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or(0).min(24);
    for (name, kind, says) in rows {
        let line = format!("      {name:names$}  {kind:kinds$}  {says}");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// The first line of a description, cut at 80 characters.
pub(super) fn first_line(text: &str) -> SafeText {
    let line = text.split(['\n', '⏎']).map(str::trim).find(|line| !line.is_empty());
    SafeText::cut(line.unwrap_or_default(), 80)
}

/// `math.add a=NUMBER [note=STRING]`: how a tool is called.
pub(super) fn usage(name: &str, schema: &Value) -> String {
    let mut out = SafeText::line(name).to_string();
    for parameter in parameters(schema) {
        let types = ["string", "integer", "number", "boolean", "object", "array", "json"];
        let (name, kind) = (SafeText::cut(parameter.name, 60), parameter.kind());
        let kind = if types.contains(&kind.as_str()) { kind.to_uppercase() } else { kind };
        let (open, close) = if parameter.required { ("", "") } else { ("[", "]") };
        let _ = write!(out, " {open}{name}={kind}{close}");
    }
    out
}

/// Follows local references.
fn follow<'a>(schema: &'a Value, root: &'a Value, depth: usize) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
    match reference.and_then(|pointer| root.pointer(pointer)) {
        Some(target) if depth < 16 => follow(target, root, depth + 1),
        _ => schema,
    }
}

/// A value without the quotes of a text.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The JSON types a schema accepts, as far as it declares them.
fn types<'a>(schema: &'a Value, root: &'a Value) -> Vec<&'a str> {
    let mut out = Vec::new();
    collect_types(schema, root, 0, &mut out);
    out
}

fn collect_types<'a>(schema: &'a Value, root: &'a Value, depth: usize, out: &mut Vec<&'a str>) {
    let schema = follow(schema, root, 0);
    match schema.get("type") {
        Some(Value::String(one)) => out.push(one),
        Some(Value::Array(many)) => out.extend(many.iter().filter_map(Value::as_str)),
        _ => {}
    }
    let constants = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    if out.is_empty() {
        out.extend(constants.chain(schema.get("const")).map(|value| -> &'a str { type_of(value) }));
    }
    if depth < 8 {
        for key in ["anyOf", "oneOf", "allOf"] {
            for part in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
                collect_types(part, root, depth + 1, out);
            }
        }
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn put(
    object: &mut Map<String, Value>,
    path: &[String],
    text: &str,
    (schema, root): (Option<&Value>, &Value),
    again: bool,
) -> Result<(), String> {
    let Some((last, parents)) = path.split_last() else { return Err("the key is empty".into()) };
    let mut at = object;
    for key in parents {
        let next = at.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
        at = next.as_object_mut().ok_or_else(|| format!("`{key}` is not an object"))?;
    }
    let wanted = schema.map(|schema| types(schema, root)).unwrap_or_default();
    let items = schema.and_then(|schema| follow(schema, root, 0).get("items"));
    let items = items.map(|items| types(items, root)).unwrap_or_default();
    let is_list = wanted.contains(&"array");
    // A repeated key adds to an array.
    if again && is_list {
        let value = parse(text, &items)?;
        if let Some(Value::Array(list)) = at.get_mut(last) {
            list.push(value);
            return Ok(());
        }
    }
    if again {
        return Err("was given twice".to_owned());
    }
    let value = match parse(text, &wanted) {
        Ok(value) => value,
        // One word for an array is its first element.
        Err(_) if is_list && !text.trim_start().starts_with('[') => {
            Value::Array(vec![parse(text, &items)?])
        }
        Err(message) => return Err(message),
    };
    at.insert(last.clone(), value);
    Ok(())
}

/// Parses `text` as the first of the wanted types that it fits.
fn parse(text: &str, wanted: &[&str]) -> Result<Value, String> {
    let json = || serde_json::from_str::<Value>(text).ok();
    if wanted.is_empty() {
        // Without a type, valid JSON is JSON and anything else is text. `null` must be a declared
        // type.
        return Ok(json().filter(|v| !v.is_null()).unwrap_or_else(|| text.into()));
    }
    let order = ["integer", "number", "boolean", "array", "object", "null", "string"];
    for kind in order.iter().filter(|kind| wanted.contains(kind)) {
        let value = match *kind {
            "string" => Some(Value::String(text.to_owned())),
            "integer" => json().filter(|v| v.is_i64() || v.is_u64() || is_whole(v)),
            "number" => json().filter(Value::is_number),
            "boolean" => json().filter(Value::is_boolean),
            "array" => json().filter(Value::is_array),
            "object" => json().filter(Value::is_object),
            _ => json().filter(Value::is_null),
        };
        if let Some(value) = value {
            return Ok(value);
        }
    }
    let wanted = wanted.join(" or ");
    Err(format!("`{text}` is not of type {wanted}"))
}

/// `1.0` is an integer (JSON Schema 2020-12, section 4.2.3).
fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|n| n.fract() == 0.0 && n.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(pairs: &[&str]) -> Result<Value, Vec<String>> {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"},
            "flag": {"type": "boolean"}, "tags": {"type": "array", "items": {"type": "string"}},
            "meta": {"$ref": "#/$defs/meta"}, "a.b": {"type": "integer"},
            "level": {"enum": [1, 2]}, "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "either": {"type": ["number", "string"]},
        }, "$defs": {"meta": {"type": "object", "properties": {"author": {"type": "string"}}}}});
        let pairs: Vec<String> = pairs.iter().map(|p| (*p).to_owned()).collect();
        arguments(None, &pairs, &schema)
    }

    #[test]
    fn the_schema_decides_the_type() {
        let pairs = ["text=12", "count=3", "ratio=2.5", "flag=true", "tags=[\"x\"]", "level=2"];
        let value = json!({"text": "12", "count": 3, "ratio": 2.5, "flag": true, "tags": ["x"], "level": 2});
        assert_eq!(typed(&pairs), Ok(value));
        assert_eq!(
            typed(&["meta.author=me", "a.b=1"]),
            Ok(json!({"meta": {"author": "me"}, "a.b": 1}))
        );
        assert_eq!(typed(&["tags=a", "tags=b=c"]), Ok(json!({"tags": ["a", "b=c"]})));
        assert_eq!(typed(&["either=4", "maybe=null"]), Ok(json!({"either": 4, "maybe": null})));
        assert_eq!(typed(&["either=four"]), Ok(json!({"either": "four"})));
        assert_eq!(typed(&["text="]), Ok(json!({"text": ""})));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_never_sent_as_null() {
        for (pair, part) in [
            ("count=three", "not of type integer"),
            ("count=", "not of type integer"),
            ("count=2.5", "not of type integer"),
            ("count=null", "not of type integer"),
            ("flag=yes", "not of type boolean"),
            ("txt=1", "did you mean `text`?"),
            ("text", "not key=value"),
        ] {
            let wrong = typed(&[pair]).expect_err(pair);
            assert!(wrong[0].contains(part), "{pair}: {wrong:?}");
        }
        assert_eq!(typed(&["count=x", "flag=y"]).expect_err("both").len(), 2);
        assert!(typed(&["text=a", "text=b"]).is_err());
    }

    #[test]
    fn pairs_add_to_a_json_object_and_without_a_schema_json_is_json() {
        let base = Some(json!({"a": 1, "b": {"c": 2}}));
        let pairs =
            vec!["a=2".to_owned(), "n=null".to_owned(), "l=[1]".to_owned(), "t=x y".to_owned()];
        let value = arguments(base, &pairs, &json!({"type": "object"}));
        assert_eq!(value, Ok(json!({"a": 2, "b": {"c": 2}, "n": "null", "l": [1], "t": "x y"})));
        assert!(arguments(Some(json!([1])), &[], &json!({})).is_err());
    }

    #[test]
    fn a_schema_is_reported_in_a_line_for_each_parameter() {
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
        write_parameters(&mut out, &schema);
        let lines: Vec<&str> = out.lines().map(str::trim).collect();
        assert_eq!(lines[0], "city*  string    Where");
        assert!(lines[1].starts_with("days   integer   How many␛"), "{out}");
        assert_eq!(lines[2..], ["unit   C|F", "tags   string[]", "note   string", "any    json"]);
        assert_eq!(
            usage("weather.forecast", &schema),
            "weather.forecast city=STRING [days=INTEGER] [unit=C|F] [tags=string[]] [note=STRING] \
             [any=JSON]"
        );
        assert!(parameters(&json!(true)).is_empty());
    }
}
