//! What providers take as the definition of a tool, written down a second time from their documents
//! and from the errors that they answer with, independent of the table that the program uses.

use serde_json::{Map, Value, json};

/// A provider's rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ToolRules {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
    /// Chat Completions of an address that may pass requests on to any of the others: what `OpenAI`
    /// takes, as far as Gemini's `Schema` takes it too.
    Compatible,
}

const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

impl ToolRules {
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Ollama, Self::Compatible];

    /// The name of the provider.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Compatible => "compatible",
        }
    }

    /// Why a list of tools is refused, each with `name`, `description` and its schema.
    pub fn refuse(self, tools: &[(&str, &str, &Value)]) -> Option<String> {
        let most = match self {
            Self::OpenAi | Self::Compatible => 128,
            Self::Gemini => 512,
            Self::Anthropic | Self::Ollama => usize::MAX,
        };
        if tools.len() > most {
            return Some(format!(
                "Invalid 'tools': array too long. Expected an array with maximum length {most}, \
                 but got an array with length {} instead.",
                tools.len()
            ));
        }
        tools.iter().enumerate().find_map(|(at, (name, description, schema))| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let (length, takes): (usize, &dyn Fn(char) -> bool) = match self {
                Self::OpenAi | Self::Compatible => (64, &plain),
                Self::Anthropic => (128, &plain),
                Self::Gemini => (128, &|c| plain(c) || matches!(c, '.' | ':')),
                Self::Ollama => (usize::MAX, &|_| true),
            };
            // Gemini and Moonshot want a letter or `_` first.
            let is_begun = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let is_first = !matches!(self, Self::Gemini | Self::Compatible) || is_begun;
            if name.is_empty() || !is_first || name.len() > length || !name.chars().all(takes) {
                return Some(format!("tools[{at}].name: {name}"));
            }
            if self == Self::Compatible && description.is_empty() {
                return Some(format!("tools[{at}].description: length less than 1"));
            }
            let is_short = !matches!(self, Self::OpenAi | Self::Compatible);
            if !is_short && description.chars().count() > 1_024 {
                return Some(format!(
                    "Invalid 'tools[{at}].function.description': string too long. Expected a \
                     string with maximum length 1024"
                ));
            }
            let why = self.schema(schema)?;
            Some(format!("Invalid schema for function '{name}': {why}"))
        })
    }

    /// Why a schema is refused.
    pub fn schema(self, schema: &Value) -> Option<String> {
        self.root(schema).or_else(|| self.place(schema, "")).or_else(|| {
            // Both say that they read the current JSON Schema.
            let reads = matches!(self, Self::OpenAi | Self::Anthropic | Self::Compatible);
            let is_valid = !reads || jsonschema::draft202012::meta::is_valid(schema);
            (!is_valid).then(|| "it must match JSON Schema draft 2020-12".to_owned())
        })
    }

    fn root(self, schema: &Value) -> Option<String> {
        let has = |key: &&str| schema.get(*key).is_some();
        if schema["type"] != "object" {
            return Some("schema must be a JSON Schema of 'type: \"object\"'".to_owned());
        }
        if matches!(self, Self::OpenAi | Self::Compatible) && !schema["properties"].is_object() {
            return Some("object schema missing properties".to_owned());
        }
        let union = ["anyOf", "oneOf", "allOf", "enum", "not"].into_iter().find(has);
        union.map(|union| format!("{union} at the top level"))
    }

    /// The keywords that it reads; none: any.
    fn reads(self) -> Option<&'static str> {
        match self {
            Self::OpenAi | Self::Anthropic => None,
            Self::Gemini => Some(
                "type format title description enum items prefixItems minItems maxItems minimum \
                 maximum anyOf oneOf properties additionalProperties required",
            ),
            Self::Ollama => Some("type description enum items anyOf properties required"),
            Self::Compatible => Some(
                "type format title description enum items minItems maxItems minimum maximum anyOf \
                 properties additionalProperties required",
            ),
        }
    }

    /// One place and those below it.
    fn place(self, schema: &Value, at: &str) -> Option<String> {
        let Some(map) = schema.as_object() else { return Some(format!("{at}: {schema}")) };
        let types = match &schema["type"] {
            Value::Null => Vec::new(),
            Value::Array(list) => list.clone(),
            one => vec![one.clone()],
        };
        if types.iter().any(|word| !TYPES.iter().any(|known| word == known)) {
            return Some(format!("{at}: {} is no type", schema["type"]));
        }
        if self != Self::Anthropic && types.contains(&json!("array")) && !map.contains_key("items")
        {
            return Some(format!("{at}: array schema missing items"));
        }
        if self == Self::Compatible {
            let has_union = map.contains_key("anyOf");
            if has_union && map.len() > 1 {
                return Some(format!(
                    "{at}: schema specified other fields alongside any_of. When using any_of, it \
                     must be the only field set."
                ));
            }
            // Gemini reads these as its own `Schema`.
            let formats: &[&str] = match types.first().and_then(Value::as_str) {
                Some("string") => &["enum", "date-time"],
                Some("integer") => &["int32", "int64"],
                Some("number") => &["float", "double"],
                _ => &[],
            };
            if map.get("format").is_some_and(|format| !formats.iter().any(|one| format == one)) {
                return Some(format!("{at}.format: only 'enum' and 'date-time' are supported"));
            }
            if types.len() > 1 || types.is_empty() && !has_union {
                return Some(format!("{at}: type must be specified, once: {schema}"));
            }
            let other = |keyword: &str, of: &str| {
                map.contains_key(keyword) && !types.is_empty() && !types.contains(&json!(of))
            };
            if other("properties", "object")
                || other("required", "object")
                || other("items", "array")
            {
                return Some(format!("{at}: only allowed for its own type: {schema}"));
            }
        }
        map.iter()
            .find_map(|(key, value)| self.keyword(map, key, value))
            .or_else(|| self.names(map))
            .map(|why| format!("{at}: {why}"))
            .or_else(|| {
                below(map).find_map(|(key, value)| self.place(value, &format!("{at}/{key}")))
            })
    }

    fn keyword(self, map: &Map<String, Value>, key: &str, value: &Value) -> Option<String> {
        let properties = map.get("properties").and_then(Value::as_object);
        let is_right = match key {
            "$ref" | "$defs" | "definitions" | "allOf" | "$schema" => false,
            "exclusiveMinimum" | "exclusiveMaximum" | "minimum" | "maximum" => value.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
            "title" | "description" | "pattern" | "format" => value.is_string(),
            "items" | "properties" => value.is_object(),
            "additionalProperties" => {
                // An open schema is refused where `true` is not.
                value.is_boolean() || value.as_object().is_some_and(|map| !map.is_empty())
            }
            "required" => value.as_array().is_some_and(|names| {
                let known = |name: &Value| properties?.get(name.as_str()?);
                names.iter().all(|name| name.is_string() && known(name).is_some())
            }),
            "enum" => value.as_array().is_some_and(|values| {
                // An empty text is refused: `enum[0]: cannot be empty`.
                let fits = |value: &Value| match self {
                    Self::Gemini => value != "" && (value.is_string() || value.is_number()),
                    Self::Compatible => value != "" && value.is_string(),
                    Self::OpenAi | Self::Anthropic | Self::Ollama => true,
                };
                !values.is_empty() && values.iter().all(fits)
            }),
            "anyOf" | "oneOf" => value.as_array().is_some_and(|list| !list.is_empty()),
            _ => true,
        };
        let is_read = self.reads().is_none_or(|all| all.split_whitespace().any(|one| one == key));
        (!is_right || !is_read).then(|| format!("{key}: {value}"))
    }

    /// The names of properties.
    fn names(self, map: &Map<String, Value>) -> Option<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut names = map.get("properties")?.as_object()?.keys();
        let wrong = names.find(|name| match self {
            Self::OpenAi | Self::Ollama => false,
            Self::Anthropic => {
                let fits = |c: char| plain(c) || matches!(c, '.' | '-');
                name.is_empty() || name.len() > 64 || !name.chars().all(fits)
            }
            Self::Gemini | Self::Compatible => {
                let is_short = (1..=64).contains(&name.len());
                !is_short || !name.chars().all(plain) || name.starts_with(char::is_numeric)
            }
        });
        wrong.map(|name| format!("Property keys should match a pattern: {name}"))
    }
}

/// The sub-schemas of a place.
fn below(map: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let lists = ["anyOf", "oneOf", "prefixItems"].into_iter();
    let listed = lists
        .filter_map(|key| Some((key, map.get(key)?.as_array()?)))
        .flat_map(|(key, list)| list.iter().map(move |one| (key, one)));
    let named = ["properties", "patternProperties"].into_iter();
    let named = named.filter_map(|key| map.get(key)?.as_object());
    let named = named.flatten().map(|(name, one)| (name.as_str(), one));
    let others = ["items", "additionalProperties"].into_iter();
    let others = others.filter_map(|key| Some((key, map.get(key)?)));
    listed.chain(named).chain(others.filter(|(_, value)| !value.is_boolean()))
}
