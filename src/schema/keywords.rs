//! Which keywords of JSON Schema hold sub-schemas, and how.

use serde_json::{Map, Value};

/// How the value of a keyword contains sub-schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// A schema.
    One,
    /// A schema, or an array of them (`items` before 2020-12).
    OneOrList,
    /// An array of schemas.
    List,
    /// Schemas by name.
    Map,
    /// Data without schemas.
    Data,
}

/// What a keyword holds, of any draft (2020-12, sections 10 and 11 of the core); `None` for one without
/// sub-schemas or an unknown one.
pub fn holds(keyword: &str) -> Option<Holds> {
    Some(match keyword {
        "additionalItems"
        | "additionalProperties"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contentSchema" => Holds::One,
        "items" => Holds::OneOrList,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
        | "dependencies" => Holds::Map,
        "enum" | "const" | "default" | "examples" | "example" | "discriminator"
        | "dependentRequired" | "$vocabulary" => Holds::Data,
        _ => return None,
    })
}

/// The direct sub-schemas of `schema`, each with keyword and inner key.
pub(super) fn children(
    schema: &Map<String, Value>,
) -> impl Iterator<Item = (&str, Option<String>, &Value)> {
    schema.iter().flat_map(|(keyword, value)| {
        let list: Vec<(&str, Option<String>, &Value)> = match (holds(keyword), value) {
            (Some(Holds::List | Holds::OneOrList), Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(i, v)| (keyword.as_str(), Some(i.to_string()), v))
                .collect(),
            (Some(Holds::Map), Value::Object(map)) => map
                .iter()
                .filter(|(_, v)| !v.is_array())
                .map(|(k, v)| (keyword.as_str(), Some(k.clone()), v))
                .collect(),
            (Some(Holds::One | Holds::OneOrList), v) => vec![(keyword.as_str(), None, v)],
            _ => Vec::new(),
        };
        list.into_iter()
    })
}
