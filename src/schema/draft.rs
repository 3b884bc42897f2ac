//! The draft of JSON Schema that a schema is written for.
//!
//! Without `$schema`, MCP means 2020-12. Many servers leave the key out of schemas in which lists
//! under `items` or flags under `exclusiveMinimum` only make sense in an older draft; those are read
//! as that draft. Pure; bounded.

use jsonschema::Draft;
use serde_json::Value;

use super::keywords::children;

const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 20_000;

/// Keywords that 2019-09 introduced.
const SINCE_2019: [&str; 9] = [
    "$defs",
    "$anchor",
    "$recursiveRef",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "minContains",
    "maxContains",
];

/// What shows that a schema without `$schema` is written for an older draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OlderDraft {
    /// JSON pointer of the keyword.
    pub(super) pointer: String,
    name: &'static str,
    what: &'static str,
}

impl OlderDraft {
    /// As which draft it is read, and why.
    pub(super) fn reason(&self) -> String {
        let (name, what) = (self.name, self.what);
        format!("read as {name}: it has no `$schema`, and {what}")
    }
}

/// The draft that a schema is read as.
///
/// # Errors
/// `$schema` names an unknown dialect.
pub(super) fn draft_of(schema: &Value) -> Result<(Draft, Option<OlderDraft>), String> {
    if let Some(declared) = schema.get("$schema") {
        return declared_draft(declared).map(|draft| (draft, None));
    }
    let mut signs = DraftSigns { flag: None, tuple: None, is_newer: false, left: MAX_NODES };
    signs.look(schema, &mut String::new(), 0);
    let older = |pointer, name, what| Some(OlderDraft { pointer, name, what });
    Ok(match (signs.flag, signs.tuple) {
        (Some((pointer, what)), _) => (Draft::Draft4, older(pointer, "draft-04", what)),
        (None, Some(pointer)) if signs.is_newer => {
            (Draft::Draft201909, older(pointer, "2019-09", TUPLE))
        }
        (None, Some(pointer)) => (Draft::Draft7, older(pointer, "draft-07", TUPLE)),
        (None, None) => (Draft::Draft202012, None),
    })
}

/// The draft that a value of `$schema` names.
///
/// # Errors
/// It names none that is known.
pub(super) fn declared_draft(declared: &Value) -> Result<Draft, String> {
    let uri = declared.as_str().ok_or_else(|| "`$schema` must be text".to_owned())?;
    match Draft::from_schema_uri(uri) {
        Draft::Unknown => Err(format!("`$schema` names an unknown dialect: {uri}")),
        known => Ok(known),
    }
}

/// Whether a `$ref` makes its siblings meaningless.
pub(super) const fn ignores_siblings(draft: Draft) -> bool {
    matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
}

const TUPLE: &str = "`items` is a list of schemas";
const FLAGS: [(&str, &str); 2] = [
    ("exclusiveMinimum", "`exclusiveMinimum` is true or false"),
    ("exclusiveMaximum", "`exclusiveMaximum` is true or false"),
];

struct DraftSigns {
    /// Where and which: a boolean limit.
    flag: Option<(String, &'static str)>,
    /// Where `items` is a list.
    tuple: Option<String>,
    is_newer: bool,
    left: usize,
}

impl DraftSigns {
    fn look(&mut self, schema: &Value, at: &mut String, depth: usize) {
        let Value::Object(map) = schema else { return };
        if depth > MAX_DEPTH || self.left == 0 {
            return;
        }
        self.left -= 1;
        for (keyword, what) in FLAGS {
            if map.get(keyword).is_some_and(Value::is_boolean) {
                self.flag.get_or_insert_with(|| (format!("{at}/{keyword}"), what));
            }
        }
        if map.get("items").is_some_and(Value::is_array) {
            self.tuple.get_or_insert_with(|| format!("{at}/items"));
        }
        self.is_newer |= SINCE_2019.iter().any(|keyword| map.contains_key(*keyword));
        let length = at.len();
        for (keyword, key, sub) in children(map) {
            for token in [Some(keyword), key.as_deref()].into_iter().flatten() {
                at.push('/');
                at.push_str(&token.replace('~', "~0").replace('/', "~1"));
            }
            self.look(sub, at, depth + 1);
            at.truncate(length);
        }
    }
}
