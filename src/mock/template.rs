//! Templates: JSON with `${...}` placeholders and generators, rendered straight to JSON text.
//!
//! Text, not a value, because a script must be able to send what no JSON value can hold: duplicate
//! keys, numbers out of range, nesting a parser refuses, a hundred megabytes. Independent of
//! servers: the [`TemplateScope`] resolves the names.

use std::fmt::Write as _;

use serde_json::Value;

/// Where `${name.path}` is looked up.
pub(crate) trait TemplateScope {
    /// The value of a dotted path, `None` when there is none.
    fn lookup(&self, path: &str) -> Option<Value>;
}

/// A scope with the counter `${i}` of a generator on top.
struct CountedScope<'a> {
    outer: &'a dyn TemplateScope,
    index: u64,
}

impl TemplateScope for CountedScope<'_> {
    fn lookup(&self, path: &str) -> Option<Value> {
        if path == "i" { Some(self.index.into()) } else { self.outer.lookup(path) }
    }
}

/// Adds `${i}` to a scope.
pub(crate) fn counted(outer: &dyn TemplateScope, index: u64) -> impl TemplateScope {
    CountedScope { outer, index }
}

/// Resolves a placeholder; `path:-default` has a default, as JSON or as bare text. Placeholders
/// within it are replaced first.
fn resolve(placeholder: &str, scope: &dyn TemplateScope) -> Option<Value> {
    let placeholder = interpolate(placeholder, scope);
    match placeholder.split_once(":-") {
        None => scope.lookup(&placeholder),
        Some((path, default)) => scope.lookup(path).or_else(|| {
            Some(serde_json::from_str(default).unwrap_or_else(|_| default.to_owned().into()))
        }),
    }
}

/// Follows a dotted path into a value; a number selects an array element.
pub(crate) fn follow(value: &Value, path: &str) -> Option<Value> {
    let mut at = value;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        at = match at {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            Value::Object(map) => map.get(step)?,
            _ => return None,
        };
    }
    Some(at.clone())
}

/// Renders a template as JSON text.
pub(crate) fn json(template: &Value, scope: &dyn TemplateScope) -> String {
    let mut out = String::new();
    render(template, scope, &mut out);
    out
}

/// Renders a template as a JSON value; text that is not valid JSON becomes a string.
pub fn value(template: &Value, scope: &dyn TemplateScope) -> Value {
    let text = json(template, scope);
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Renders a template as plain text: a string without its quotes, anything else as JSON.
pub(crate) fn text(template: &Value, scope: &dyn TemplateScope) -> String {
    match template {
        Value::String(text) => interpolate(text, scope),
        Value::Object(_) => match value(template, scope) {
            Value::String(text) => text,
            other => other.to_string(),
        },
        other => json(other, scope),
    }
}

/// The entries of a list template, each as JSON text; `$list` is spread in place.
pub(crate) fn entries(template: &Value, scope: &dyn TemplateScope) -> Vec<String> {
    let one = std::slice::from_ref(template);
    let items = template.as_array().map_or(one, Vec::as_slice);
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        match item.as_object().and_then(|map| map.get("$list")) {
            Some(list) => {
                for index in 0..times(list) {
                    out.push(json(&list["of"], &counted(scope, index)));
                }
            }
            None => out.push(json(item, scope)),
        }
    }
    out
}

fn times(generator: &Value) -> u64 {
    generator["times"].as_u64().unwrap_or(1)
}

fn render(template: &Value, scope: &dyn TemplateScope, out: &mut String) {
    match template {
        Value::String(text) => render_string(text, scope, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                render(item, scope, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            if let Some((key, body)) = map.iter().next()
                && map.len() == 1
                && generate(key, body, scope, out)
            {
                return;
            }
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                quote(&interpolate(key, scope), out);
                out.push(':');
                render(item, scope, out);
            }
            out.push('}');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

/// A string that is one placeholder gives the value itself, so that `"${id}"` keeps its type.
fn render_string(text: &str, scope: &dyn TemplateScope, out: &mut String) {
    let whole = text.strip_prefix("${").and_then(|rest| Some((rest, closing(rest)?)));
    match whole {
        Some((rest, end)) if end + 1 == rest.len() => {
            let _ = write!(out, "{}", resolve(&rest[..end], scope).unwrap_or(Value::Null));
        }
        _ => quote(&interpolate(text, scope), out),
    }
}

/// The offset of the `}` that closes the placeholder whose inside is at the start of `text`.
fn closing(text: &str) -> Option<usize> {
    let (mut open, mut last) = (0, ' ');
    let end = text.char_indices().find(|(_, c)| {
        open += i32::from((last, *c) == ('$', '{')) - i32::from(*c == '}');
        last = *c;
        open < 0
    });
    end.map(|(at, _)| at)
}

fn quote(text: &str, out: &mut String) {
    let _ = write!(out, "{}", Value::String(text.to_owned()));
}

/// Replaces `${path}` in a text; `$${` stands for a literal `${`.
fn interpolate(text: &str, scope: &dyn TemplateScope) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at - 1]);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let Some(end) = closing(inside) else {
            out.push_str(&rest[at..]);
            return out;
        };
        match resolve(&inside[..end], scope) {
            Some(Value::String(text)) => out.push_str(&text),
            Some(other) => {
                let _ = write!(out, "{other}");
            }
            None => {}
        }
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    out
}

/// Renders the generator `{"$name": body}`; returns `false` when there is no such generator.
fn generate(name: &str, body: &Value, scope: &dyn TemplateScope, out: &mut String) -> bool {
    match name {
        "$text" => {
            let unit = text(&body["of"], scope);
            let mut whole = String::with_capacity(unit.len() * times(body) as usize);
            for _ in 0..times(body) {
                whole.push_str(&unit);
            }
            quote(&whole, out);
        }
        "$list" => {
            out.push('[');
            repeat(body, out, |index, out| render(&body["of"], &counted(scope, index), out));
            out.push(']');
        }
        "$map" => {
            out.push('{');
            repeat(body, out, |index, out| {
                let scope = counted(scope, index);
                quote(&text(&body["key"], &scope), out);
                out.push(':');
                render(&body["of"], &scope, out);
            });
            out.push('}');
        }
        "$nest" => {
            let open = body["open"].as_str().unwrap_or("[");
            let close = body["close"].as_str().unwrap_or("]");
            let depth = body["depth"].as_u64().unwrap_or(1) as usize;
            out.push_str(&open.repeat(depth));
            match &body["inner"] {
                Value::Null => out.push('0'),
                inner => render(inner, scope, out),
            }
            out.push_str(&close.repeat(depth));
        }
        "$raw" => out.push_str(&text(body, scope)),
        "$json" => quote(&json(body, scope), out),
        _ => return false,
    }
    true
}

fn repeat(generator: &Value, out: &mut String, mut each: impl FnMut(u64, &mut String)) {
    for index in 0..times(generator) {
        if index > 0 {
            out.push(',');
        }
        each(index, out);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json as j;

    use super::*;

    impl TemplateScope for Value {
        fn lookup(&self, path: &str) -> Option<Value> {
            follow(self, path)
        }
    }

    fn scope() -> Value {
        j!({"id": 7, "arguments": {"text": "hi \"you\"", "list": [1, 2]}})
    }

    #[test]
    fn a_string_that_is_one_placeholder_keeps_the_type() {
        assert_eq!(json(&j!({"id": "${id}"}), &scope()), r#"{"id":7}"#);
        assert_eq!(json(&j!("${arguments.list.1}"), &scope()), "2");
        assert_eq!(json(&j!("${nothing.here}"), &scope()), "null");
        assert_eq!(json(&j!("${a.${at}.0}"), &j!({"at": "é", "a": {"é": [7]}})), "7");
        assert_eq!(json(&j!("<${a.${at}}>"), &j!({"at": "b", "a": {"b": 7}})), r#""<7>""#);
    }

    #[test]
    fn placeholders_inside_text_are_escaped_as_json() {
        assert_eq!(json(&j!("say ${arguments.text}!"), &scope()), r#""say hi \"you\"!""#);
        assert_eq!(json(&j!("$${id} is ${id}"), &scope()), r#""${id} is 7""#);
        assert_eq!(json(&j!("open ${id"), &scope()), r#""open ${id""#);
        assert_eq!(json(&j!("${no:-5} ${no:-five}"), &scope()), r#""5 five""#);
        assert_eq!(json(&j!("${no:-5}"), &scope()), "5");
    }

    #[test]
    fn generators_write_what_no_value_can_hold() {
        let twice = j!({"$map": {"times": 2, "key": "same", "of": "${i}"}});
        assert_eq!(json(&twice, &scope()), r#"{"same":0,"same":1}"#);
        assert_eq!(json(&j!({"$raw": "1e999"}), &scope()), "1e999");
        assert_eq!(json(&j!({"$nest": {"depth": 3}}), &scope()), "[[[0]]]");
        assert_eq!(json(&j!({"$text": {"of": "ab", "times": 3}}), &scope()), r#""ababab""#);
        assert_eq!(json(&j!({"$json": {"a": "${id}"}}), &scope()), r#""{\"a\":7}""#);
    }

    #[test]
    fn lists_spread_their_generators() {
        let template = j!([{"name": "first"}, {"$list": {"times": 2, "of": {"name": "t${i}"}}}]);
        assert_eq!(
            entries(&template, &scope()),
            [r#"{"name":"first"}"#, r#"{"name":"t0"}"#, r#"{"name":"t1"}"#]
        );
    }
}
