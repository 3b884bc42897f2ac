//! Parameters of an operation: where they go, and how their values are written (`OpenAPI` 3.1,
//! Parameter Object, style values).

use serde_json::{Map, Value};

use base::text::percent::{encoded, encoded_but};

/// Why a call cannot become a request. Its text says which argument is wrong and in what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the argument `{argument}` {what}")]
pub struct ArgumentProblem {
    argument: String,
    what: String,
}

impl ArgumentProblem {
    pub(crate) fn new(argument: &str, what: &str) -> Self {
        Self { argument: argument.to_owned(), what: what.to_owned() }
    }
}

/// Where a parameter is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterPlace {
    Path,
    Query,
    Header,
    Cookie,
}

impl ParameterPlace {
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "path" => Self::Path,
            "query" => Self::Query,
            "header" => Self::Header,
            "cookie" => Self::Cookie,
            _ => return None,
        })
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }

    /// The style of a parameter that names none.
    const fn style(self) -> ParameterStyle {
        match self {
            Self::Path | Self::Header => ParameterStyle::Simple,
            Self::Query | Self::Cookie => ParameterStyle::Form,
        }
    }
}

/// How arrays and objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterStyle {
    Simple,
    Label,
    Matrix,
    Form,
    Space,
    Pipe,
    Deep,
    /// As JSON (`content` in place of `schema`).
    Json,
}

impl ParameterStyle {
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "simple" => Self::Simple,
            "label" => Self::Label,
            "matrix" => Self::Matrix,
            "form" => Self::Form,
            "spaceDelimited" => Self::Space,
            "pipeDelimited" => Self::Pipe,
            "deepObject" => Self::Deep,
            _ => return None,
        })
    }
}

/// How the value of a parameter, or of a field of a form, is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueStyle {
    pub(crate) style: ParameterStyle,
    pub(crate) explode: bool,
    /// Reserved characters are sent as they are, but for those that separate parameters.
    pub(crate) allow_reserved: bool,
}

impl ValueStyle {
    /// The style that a Parameter or Encoding Object names, or the default of its place.
    pub(crate) fn read(object: &Value, place: ParameterPlace) -> Self {
        let word = object.get("style").and_then(Value::as_str);
        let mut style = word.and_then(ParameterStyle::from_word).unwrap_or_else(|| place.style());
        if object.get("content").is_some() {
            style = ParameterStyle::Json;
        }
        let flag = |key: &str| object.get(key).and_then(Value::as_bool);
        Self {
            style,
            explode: flag("explode").unwrap_or(style == ParameterStyle::Form),
            allow_reserved: flag("allowReserved").unwrap_or(false),
        }
    }

    fn encode(self, text: &str) -> String {
        if self.allow_reserved { encoded_but(text, ":/?@!$'()*,;") } else { encoded(text) }
    }

    /// The text of a value in a segment of a path, encoded.
    pub(crate) fn in_path(self, name: &str, value: &Value) -> String {
        // Reserved characters could end the segment.
        let each = |text: &str| encoded(text);
        let (start, join) = match (self.style, self.explode) {
            (ParameterStyle::Label, true) => (".", "."),
            (ParameterStyle::Label, false) => (".", ","),
            (ParameterStyle::Matrix, _) => return self.matrix(name, value),
            _ => ("", ","),
        };
        format!("{start}{}", self.joined(value, join, &each))
    }

    /// The value of a header; not encoded (RFC 9110, section 5.5).
    pub(crate) fn in_header(self, value: &Value) -> String {
        if self.style == ParameterStyle::Json {
            json_text(value)
        } else {
            self.joined(value, ",", &str::to_owned)
        }
    }

    fn matrix(self, name: &str, value: &Value) -> String {
        let name = encoded(name);
        let pair = |name: &str, item: &Value| [";", name, "=", &encoded(&text(item))].concat();
        match value {
            Value::Array(items) if self.explode => {
                items.iter().map(|item| pair(&name, item)).collect()
            }
            Value::Object(members) if self.explode => {
                members.iter().map(|(key, item)| pair(&encoded(key), item)).collect()
            }
            value => format!(";{name}={}", self.joined(value, ",", &|text: &str| encoded(text))),
        }
    }

    fn joined(self, value: &Value, join: &str, each: &dyn Fn(&str) -> String) -> String {
        match value {
            Value::Array(items) => {
                items.iter().map(|item| each(&text(item))).collect::<Vec<_>>().join(join)
            }
            Value::Object(members) => {
                let sign = if self.explode { "=" } else { join };
                let pair = |(key, item): (&String, &Value)| {
                    format!("{}{sign}{}", each(key), each(&text(item)))
                };
                members.iter().map(pair).collect::<Vec<_>>().join(join)
            }
            value => each(&text(value)),
        }
    }

    /// The pairs of a query, a cookie or a form, both sides encoded.
    pub(crate) fn pairs(self, name: &str, value: &Value) -> Vec<(String, String)> {
        let own = encoded(name);
        let delimiter = match self.style {
            ParameterStyle::Json => return vec![(own, self.encode(&json_text(value)))],
            ParameterStyle::Deep => {
                let mut out = Vec::new();
                self.deep(&own, value, &mut out);
                return out;
            }
            ParameterStyle::Space => "%20",
            ParameterStyle::Pipe => "%7C",
            _ => ",",
        };
        match value {
            Value::Array(items) if self.explode => {
                items.iter().map(|item| (own.clone(), self.encode(&text(item)))).collect()
            }
            Value::Object(members) if self.explode => {
                members.iter().map(|(key, item)| (encoded(key), self.encode(&text(item)))).collect()
            }
            Value::Array(items) if items.is_empty() => Vec::new(),
            value => {
                let flat = Self { explode: false, ..self };
                vec![(own, flat.joined(value, delimiter, &|text: &str| self.encode(text)))]
            }
        }
    }

    /// `name[key]=value`, at any depth; the key of an item is its index.
    fn deep(self, name: &str, value: &Value, out: &mut Vec<(String, String)>) {
        let within = |key: &str| format!("{name}%5B{}%5D", encoded(key));
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(key, item)| self.deep(&within(key), item, out));
            }
            Value::Array(items) => {
                let each = items.iter().enumerate();
                each.for_each(|(at, item)| self.deep(&within(&at.to_string()), item, out));
            }
            value => out.push((name.to_owned(), self.encode(&text(value)))),
        }
    }
}

/// A value as text: a string as it is, nothing for null, lists and objects as JSON.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

fn json_text(value: &Value) -> String {
    value.to_string()
}

/// One parameter.
#[derive(Clone, Debug)]
pub(crate) struct ApiParameter {
    /// Its name among the arguments of the tool.
    pub(crate) argument: String,
    /// Its name in the request.
    pub(crate) name: String,
    pub(crate) place: ParameterPlace,
    pub(crate) style: ValueStyle,
}

/// A name that models and their providers take as one of an argument: letters, digits, `_`, `.`
/// and `-`, at most 64, unique among `taken`.
pub(crate) fn argument_name(name: &str, place: &str, taken: &Map<String, Value>) -> String {
    const MAX_NAME_CHARS: usize = 64;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let base: String = name.chars().map(plain).take(MAX_NAME_CHARS - 12).collect();
    let base = if base.is_empty() { "_".to_owned() } else { base };
    let others = std::iter::once(format!("{base}_{place}"));
    let numbered = (2..).map(|n| format!("{base}_{n}"));
    std::iter::once(base.clone())
        .chain(others)
        .chain(numbered)
        .find(|name| !taken.contains_key(name))
        .unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn style(place: ParameterPlace, object: Value) -> ValueStyle {
        ValueStyle::read(&object, place)
    }

    fn query(object: Value, value: &Value) -> String {
        let pairs = style(ParameterPlace::Query, object).pairs("c", value);
        pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&")
    }

    /// The table of style examples (3.1, Parameter Object).
    #[test]
    fn values_are_written_as_the_specification_has_them() {
        let (list, object) = (json!(["blue", "black"]), json!({"R": 100, "G": 200}));
        let path = |word: &str, explode: bool, value: &Value| {
            style(ParameterPlace::Path, json!({"style": word, "explode": explode}))
                .in_path("c", value)
        };
        for (word, explode, of_list, of_object) in [
            ("matrix", false, ";c=blue,black", ";c=R,100,G,200"),
            ("matrix", true, ";c=blue;c=black", ";R=100;G=200"),
            ("label", false, ".blue,black", ".R,100,G,200"),
            ("label", true, ".blue.black", ".R=100.G=200"),
            ("simple", false, "blue,black", "R,100,G,200"),
            ("simple", true, "blue,black", "R=100,G=200"),
        ] {
            assert_eq!(path(word, explode, &list), of_list, "{word} {explode}");
            assert_eq!(path(word, explode, &object), of_object, "{word} {explode}");
        }
        assert_eq!(query(json!({}), &list), "c=blue&c=black");
        assert_eq!(query(json!({}), &object), "R=100&G=200");
        assert_eq!(query(json!({"explode": false}), &list), "c=blue,black");
        assert_eq!(query(json!({"explode": false}), &object), "c=R,100,G,200");
        assert_eq!(query(json!({"style": "spaceDelimited"}), &list), "c=blue%20black");
        assert_eq!(query(json!({"style": "pipeDelimited"}), &object), "c=R%7C100%7CG%7C200");
        assert_eq!(query(json!({"style": "deepObject"}), &object), "c%5BR%5D=100&c%5BG%5D=200");
        assert_eq!(
            query(json!({"style": "deepObject"}), &json!([{"p": [1]}])),
            "c%5B0%5D%5Bp%5D%5B0%5D=1"
        );
        assert_eq!(query(json!({"content": {}}), &list), "c=%5B%22blue%22%2C%22black%22%5D");
        assert_eq!(query(json!({}), &json!("a/b&c=d#e")), "c=a%2Fb%26c%3Dd%23e");
        assert_eq!(query(json!({"allowReserved": true}), &json!("a/b&c=d#e")), "c=a/b%26c%3Dd%23e");
        assert_eq!(query(json!({}), &json!([])), "");
    }

    #[test]
    fn names_of_arguments_are_ones_that_providers_take() {
        let mut taken = Map::new();
        for (name, expected) in [
            ("filter[name]", "filter_name_"),
            ("id", "id"),
            ("id", "id_query"),
            ("id", "id_2"),
            ("", "_"),
        ] {
            let argument = argument_name(name, "query", &taken);
            assert_eq!(argument, expected);
            taken.insert(argument, Value::Null);
        }
    }
}
