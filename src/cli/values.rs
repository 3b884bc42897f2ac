//! Parameters of a tool or prompt on the command line: described in words, and as the types that
//! convert `key=value` arguments. Pure.

use std::fmt::Write as _;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::respell::respelled_pair;
use base::SafeText;
use base::pointer::child_pointer;
use base::text::json::{WrittenNumbers, WrittenValue, is_whole};
use base::text::{nearest, quoted};
use protocol::{Prompt, schema_kind};
use schema::{
    Outline, OutlineProperty, Parameter, SchemaDocument, TypeStyle, parameters, type_text,
};

/// Builds the arguments: at most one JSON object first, then `key=value` pairs that add to it or
/// replace its values.
///
/// # Errors
/// Every word that cannot be used, and why.
pub fn arguments(
    base: Option<WrittenValue>,
    pairs: &[String],
    schema: &SchemaDocument,
) -> Result<WrittenValue, Vec<String>> {
    let mut wrong = Vec::new();
    let WrittenValue { value, mut numbers } =
        base.unwrap_or_else(|| Value::Object(Map::new()).into());
    let Value::Object(mut object) = value else {
        let kind = schema_kind(&value);
        return Err(vec![format!("arguments must be a JSON object, not {kind}")]);
    };
    if let Some(here) = joined(pairs, schema) {
        return Err(vec![here]);
    }
    let mut given: Vec<&str> = Vec::new();
    for pair in pairs {
        let Some((key, text)) = pair.split_once('=') else {
            let here = respelled_pair(pair).map(|here| format!("write `{here}`"));
            let here = here.unwrap_or_else(|| "JSON must be one word and come first".to_owned());
            wrong.push(format!("`{pair}` is not key=value; {here}"));
            continue;
        };
        // `x:=1` is no key `x:`, unless the schema has it.
        let is_typed = key.ends_with(':') && !is_declared(key, schema);
        if let Some(here) = respelled_pair(pair).filter(|_| is_typed) {
            wrong.push(format!("`{pair}`: write `{here}`; the schema gives the type"));
            continue;
        }
        let again = given.contains(&key);
        given.push(key);
        let done = resolve(key, schema).and_then(|named| {
            let (pointer, written) = put(&mut object, &named, text, again)
                .map_err(|message| format!("{key}: {message}"))?;
            numbers.put(&pointer, written);
            Ok(())
        });
        wrong.extend(done.err());
    }
    let value = Value::Object(object);
    if wrong.is_empty() { Ok(WrittenValue { value, numbers }) } else { Err(wrong) }
}

/// The message for a pair that is written as several words, or for words that can only be the value
/// of the one parameter that there is.
fn joined(pairs: &[String], schema: &SchemaDocument) -> Option<String> {
    let here = |key: &str, value: &str| quoted(&format!("{key}={value}"));
    let sign = pairs.iter().position(|word| word.starts_with('='));
    if let Some(at) = sign.filter(|at| *at > 0 && !pairs[at - 1].contains('=')) {
        let value = match pairs[at].strip_prefix('=') {
            Some("") | None => pairs.get(at + 1).map_or("VALUE", String::as_str),
            Some(value) => value,
        };
        return Some(format!("no blanks around `=`: write {}", here(&pairs[at - 1], value)));
    }
    let all = Outline::new(schema).properties();
    let [only] = all.keys().collect::<Vec<_>>()[..] else { return None };
    let is_word = |word: &String| !word.contains(['=', ':', '{', '[']) && word != only;
    let is_value = !pairs.is_empty() && pairs.iter().all(is_word);
    is_value.then(|| {
        let words = pairs.join(" ");
        format!("`{words}` is not key=value: write {}", here(only, &words))
    })
}

/// Whether a schema has a parameter of exactly this name.
fn is_declared(key: &str, schema: &SchemaDocument) -> bool {
    Outline::new(schema).properties().contains_key(key)
}

/// What a key of the command line names.
struct NamedPlace<'a> {
    /// The keys that lead to it.
    path: Vec<String>,
    /// What it may hold.
    outline: Outline<'a>,
}

/// Resolves a key. A property whose name has dots takes precedence over a path.
fn resolve<'a>(key: &str, schema: &'a SchemaDocument) -> Result<NamedPlace<'a>, String> {
    let mut path = Vec::new();
    let mut outline = Outline::new(schema);
    let mut rest = key;
    loop {
        let properties = outline.properties();
        let whole = properties.get_key_value(rest);
        let found = whole.or_else(|| {
            let starts =
                |name: &str| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
            properties.iter().filter(|(name, _)| starts(name)).max_by_key(|(name, _)| name.len())
        });
        let Some((name, property)) = found else {
            let outline = unknown(rest, &outline, &properties)?;
            path.push(rest.to_owned());
            return Ok(NamedPlace { path, outline });
        };
        path.push(name.clone());
        outline = outline.property(property);
        if name.len() == rest.len() {
            return Ok(NamedPlace { path, outline });
        }
        rest = &rest[name.len() + 1..];
    }
}

/// What a key that is not described may hold.
fn unknown<'a>(
    key: &str,
    outline: &Outline<'a>,
    properties: &IndexMap<String, OutlineProperty>,
) -> Result<Outline<'a>, String> {
    let other = outline.other(key);
    let is_known = other.as_ref().is_some_and(|other| !other.is_open());
    if outline.names_all_keys() && !is_known && !properties.is_empty() {
        let near = nearest(key, properties.keys(), 0.7);
        let names: Vec<&str> = properties.keys().map(String::as_str).take(12).collect();
        let hint = near.map_or_else(
            || format!("there are {}", names.join(", ")),
            |name| format!("did you mean `{name}`?"),
        );
        return Err(format!("there is no parameter `{key}`; {hint}"));
    }
    Ok(other.unwrap_or_else(|| Outline::from_alternatives(outline.document(), &[])))
}

/// Maximum number of parameters shown of one tool.
const MAX_PARAMETERS: usize = 40;
/// Maximum length of a type, in characters.
const MAX_TYPE_CHARS: usize = 48;

/// The parameters a schema declares, required ones first.
pub(super) fn sorted_parameters(schema: &SchemaDocument) -> Vec<Parameter<'_>> {
    let mut all = parameters(schema, MAX_PARAMETERS);
    all.sort_by_key(|parameter| !parameter.required);
    all
}

/// The arguments of a prompt as the input schema of a tool: all are strings.
pub(super) fn prompt_schema(prompt: &Prompt) -> SchemaDocument {
    let all = prompt.arguments.iter();
    let required: Vec<_> = all.clone().filter(|one| one.required).map(|one| &one.name).collect();
    let properties: Map<String, Value> = all
        .map(|one| {
            let schema = json!({"type": "string", "description": one.description});
            (one.name.to_string(), schema)
        })
        .collect();
    let schema =
        json!({"properties": properties, "required": required, "additionalProperties": false});
    SchemaDocument::new(&Arc::new(schema))
}

/// The allowed values, or the types, short enough for a line.
pub(super) fn kind(parameter: &Parameter<'_>) -> String {
    SafeText::cut(&type_text(&parameter.outline, TypeStyle::Words), MAX_TYPE_CHARS).to_string()
}

/// A line for each parameter of a schema, indented below its tool.
pub(super) fn write_parameters(out: &mut String, schema: &SchemaDocument) {
    let rows = sorted_parameters(schema).into_iter().map(|parameter| {
        let star = if parameter.required { "*" } else { "" };
        let name = format!("{}{star}", SafeText::cut(&parameter.name, 60));
        (name, kind(&parameter), first_line(parameter.description()))
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
pub(super) fn usage(name: &str, schema: &SchemaDocument) -> String {
    let mut out = SafeText::line(name).to_string();
    for parameter in sorted_parameters(schema) {
        let types = ["string", "integer", "number", "boolean", "object", "array", "json"];
        let (name, kind) = (SafeText::cut(&parameter.name, 60), kind(&parameter));
        let is_type = parameter.outline.values().is_none() && types.contains(&kind.as_str());
        let kind = if is_type { kind.to_uppercase() } else { kind };
        let (open, close) = if parameter.required { ("", "") } else { ("[", "]") };
        let _ = write!(out, " {open}{name}={kind}{close}");
    }
    out
}

/// Puts a value into its place; returns the pointer of that and the numbers as written.
fn put(
    object: &mut Map<String, Value>,
    named: &NamedPlace<'_>,
    text: &str,
    again: bool,
) -> Result<(String, WrittenNumbers), String> {
    let Some((last, parents)) = named.path.split_last() else {
        return Err("the key is empty".into());
    };
    let mut at = object;
    for key in parents {
        let next = at.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
        at = next.as_object_mut().ok_or_else(|| format!("`{key}` is not an object"))?;
    }
    let pointer = named.path.iter().fold(String::new(), |at, key| child_pointer(&at, key));
    let wanted = named.outline.types();
    let items = named.outline.items().types();
    let is_list = wanted.contains(&"array");
    // A repeated key adds to an array.
    if again && is_list {
        let WrittenValue { value, numbers } = parse(text, &items)?;
        if let Some(Value::Array(list)) = at.get_mut(last) {
            list.push(value);
            return Ok((format!("{pointer}/{}", list.len() - 1), numbers));
        }
    }
    if again {
        return Err("was given twice".to_owned());
    }
    let WrittenValue { value, numbers } = match parse(text, &wanted) {
        Ok(value) => value,
        // One word for an array is its first element.
        Err(_) if is_list && !text.trim_start().starts_with('[') => {
            let first = parse(text, &items)?;
            let mut numbers = WrittenNumbers::default();
            numbers.put("/0", first.numbers);
            WrittenValue { value: Value::Array(vec![first.value]), numbers }
        }
        Err(message) => return Err(message),
    };
    at.insert(last.clone(), value);
    Ok((pointer, numbers))
}

/// Parses `text` as the first of the wanted types that it fits.
fn parse(text: &str, wanted: &[&str]) -> Result<WrittenValue, String> {
    let json = WrittenValue::parse(text).ok();
    let words = || WrittenValue::from(Value::from(text));
    if wanted.is_empty() {
        // Without a type, valid JSON is JSON and anything else is text. `null` must be a declared
        // type.
        return Ok(json.filter(|written| !written.value.is_null()).unwrap_or_else(words));
    }
    let order = ["integer", "number", "boolean", "array", "object", "null", "string"];
    for kind in order.iter().filter(|kind| wanted.contains(kind)) {
        let fits = |value: &Value| match *kind {
            "integer" => value.is_number() && is_whole(text.trim()),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => value.is_null(),
        };
        if *kind == "string" {
            return Ok(words());
        }
        if let Some(written) = json.as_ref().filter(|written| fits(&written.value)) {
            return Ok(written.clone());
        }
    }
    let wanted = wanted.join(" or ");
    Err(format!("`{text}` is not of type {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(schema: Value) -> SchemaDocument {
        SchemaDocument::new(&Arc::new(schema))
    }

    fn typed(pairs: &[&str]) -> Result<Value, Vec<String>> {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"},
            "flag": {"type": "boolean"}, "tags": {"type": "array", "items": {"type": "string"}},
            "meta": {"$ref": "#/$defs/meta"}, "a.b": {"type": "integer"},
            "level": {"enum": [1, 2]}, "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "either": {"type": ["number", "string"]},
        }, "$defs": {"meta": {"type": "object", "properties": {"author": {"type": "string"}}}}});
        let pairs: Vec<String> = pairs.iter().map(|p| (*p).to_owned()).collect();
        arguments(None, &pairs, &document(schema)).map(|written| written.value)
    }

    /// What is sent for pairs, with a JSON object before them.
    fn sent(base: &str, pairs: &[&str]) -> String {
        let schema = json!({"properties": {
            "count": {"type": "integer"}, "ratio": {"type": "number"},
            "list": {"type": "array", "items": {"type": "number"}},
            "deep": {"properties": {"x": {"type": "number"}}}, "other": {"type": "object"},
        }});
        let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        let base = Some(WrittenValue::parse(base).expect("JSON"));
        let all = arguments(base, &pairs, &document(schema)).expect("arguments");
        serde_json::to_string(&all.numbers.within(&all.value)).expect("text")
    }

    #[test]
    fn numbers_are_sent_as_they_were_typed() {
        for (base, pairs, expected) in [
            ("{}", &["count=1e3"][..], r#"{"count":1e3}"#),
            ("{}", &["count=-2.0"], r#"{"count":-2.0}"#),
            (
                "{}",
                &["count=123456789012345678901234567890"],
                r#"{"count":123456789012345678901234567890}"#,
            ),
            ("{}", &["ratio=1e-400", "deep.x=1E400"], r#"{"ratio":1e-400,"deep":{"x":1E400}}"#),
            ("{}", &["list=1e2", "list=0.10", "list=3"], r#"{"list":[1e2,0.10,3]}"#),
            ("{}", &["list=[1e2,5]"], r#"{"list":[1e2,5]}"#),
            ("{}", &["other={\"a\":1e-400}"], r#"{"other":{"a":1e-400}}"#),
            (r#"{"deep":{"x":1e3,"y":1e4}}"#, &["deep.x=7"], r#"{"deep":{"x":7,"y":1e4}}"#),
            (r#"{"list":[1e3],"count":1.0}"#, &["list=2"], r#"{"list":[2],"count":1.0}"#),
        ] {
            assert_eq!(sent(base, pairs), expected);
        }
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
        let long = "text=123456789012345678901234567890";
        assert_eq!(typed(&[long]), Ok(json!({"text": "123456789012345678901234567890"})));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_never_sent_as_null() {
        for (pair, part) in [
            ("count=three", "not of type integer"),
            ("count=", "not of type integer"),
            ("count=2.5", "not of type integer"),
            ("count=null", "not of type integer"),
            ("flag=yes", "not of type boolean"),
            ("count=1e-400", "not of type integer"),
            ("count=1.", "not of type integer"),
            ("txt=1", "did you mean `text`?"),
            ("text", "not key=value"),
            ("text:a", "`text:a` is not key=value; write `text=a`"),
            ("count:=1", "write `count=1`"),
        ] {
            let wrong = typed(&[pair]).expect_err(pair);
            assert!(wrong[0].contains(part), "{pair}: {wrong:?}");
        }
        assert_eq!(typed(&["count=x", "flag=y"]).expect_err("both").len(), 2);
        assert!(typed(&["text=a", "text=b"]).is_err());
    }

    #[test]
    fn a_pair_in_several_words_is_shown_as_the_one_that_is_meant() {
        let city = document(json!({"type": "object", "properties": {"city": {"type": "string"}}}));
        let two = document(json!({"type": "object", "properties": {"city": {}, "day": {}}}));
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (line, schema, part) in [
            ("city = Oslo", &two, "no blanks around `=`: write city=Oslo"),
            ("city =Oslo", &two, "write city=Oslo"),
            ("Oslo", &city, "`Oslo` is not key=value: write city=Oslo"),
            ("San Jose", &city, "write 'city=San Jose'"),
            ("city", &city, "`city` is not key=value; JSON"),
            ("Oslo", &two, "`Oslo` is not key=value; JSON"),
        ] {
            let wrong = arguments(None, &words(line), schema).expect_err(line);
            assert!(wrong[0].contains(part), "{line}: {wrong:?}");
        }
    }

    #[test]
    fn pairs_add_to_a_json_object_and_without_a_schema_json_is_json() {
        let base = Some(json!({"a": 1, "b": {"c": 2}}).into());
        let pairs =
            vec!["a=2".to_owned(), "n=null".to_owned(), "l=[1]".to_owned(), "t=x y".to_owned()];
        let value = arguments(base, &pairs, &document(json!({"type": "object"})));
        let value = value.map(|written| written.value);
        assert_eq!(value, Ok(json!({"a": 2, "b": {"c": 2}, "n": "null", "l": [1], "t": "x y"})));
        assert!(arguments(Some(json!([1]).into()), &[], &document(json!({}))).is_err());
    }

    #[test]
    fn a_schema_is_reported_in_a_line_for_each_parameter() {
        let schema = document(json!({
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
        }));
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
        assert!(sorted_parameters(&document(json!(true))).is_empty());
    }
}
