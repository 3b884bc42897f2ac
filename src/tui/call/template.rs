//! URI templates (RFC 6570, levels 1 to 4): their variables, and what they expand to. Pure.

use serde_json::Value;

use crate::tui::form::pointer::plain;

/// One variable of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// `*`: a list or object becomes several parts.
    pub explode: bool,
    /// `:n`: only the first n characters.
    pub prefix: Option<usize>,
}

enum Part<'a> {
    Literal(&'a str),
    Expression(Operator, Vec<Variable>),
}

#[derive(Clone, Copy)]
struct Operator {
    first: &'static str,
    separator: &'static str,
    named: bool,
    if_empty: &'static str,
    reserved: bool,
}

/// RFC 6570, appendix A.
fn operator(sign: char) -> Option<Operator> {
    let (first, separator, named, if_empty, reserved) = match sign {
        '+' => ("", ",", false, "", true),
        '#' => ("#", ",", false, "", true),
        '.' => (".", ".", false, "", false),
        '/' => ("/", "/", false, "", false),
        ';' => (";", ";", true, "", false),
        '?' => ("?", "&", true, "=", false),
        '&' => ("&", "&", true, "=", false),
        _ => return None,
    };
    Some(Operator { first, separator, named, if_empty, reserved })
}

const SIMPLE: Operator =
    Operator { first: "", separator: ",", named: false, if_empty: "", reserved: false };

fn parse(template: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find(['{', '}']) {
        if rest[open..].starts_with('}') {
            return Err("a `}` without its `{`".to_owned());
        }
        if open > 0 {
            parts.push(Part::Literal(&rest[..open]));
        }
        let inner = &rest[open + 1..];
        let close = inner.find('}').ok_or("a `{` without its `}`")?;
        let body = &inner[..close];
        let sign = body.chars().next().ok_or("an empty `{}`")?;
        let (operator, list) = match operator(sign) {
            Some(operator) => (operator, &body[sign.len_utf8()..]),
            None if sign.is_ascii_alphanumeric() || matches!(sign, '_' | '%') => (SIMPLE, body),
            None => return Err(format!("`{sign}` is not an operator")),
        };
        let variables = list.split(',').map(variable).collect::<Result<_, _>>()?;
        parts.push(Part::Expression(operator, variables));
        rest = &inner[close + 1..];
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest));
    }
    Ok(parts)
}

fn variable(text: &str) -> Result<Variable, String> {
    let (text, explode) = match text.strip_suffix('*') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (name, prefix) = match text.split_once(':') {
        Some((name, length)) => {
            let length = length.parse().map_err(|_| format!("`{length}` is not a length"))?;
            (name, Some(length))
        }
        None => (text, None),
    };
    if name.is_empty() {
        return Err("a variable without a name".to_owned());
    }
    Ok(Variable { name: name.to_owned(), explode, prefix })
}

/// The variables of a template, each once, in order.
///
/// # Errors
/// A sentence when it is no template.
pub fn variables(template: &str) -> Result<Vec<Variable>, String> {
    let mut out: Vec<Variable> = Vec::new();
    for part in parse(template)? {
        if let Part::Expression(_, variables) = part {
            for variable in variables {
                if !out.iter().any(|v| v.name == variable.name) {
                    out.push(variable);
                }
            }
        }
    }
    Ok(out)
}

/// The URI of a template with these values; an unset variable leaves nothing behind.
///
/// # Errors
/// A sentence when it is no template.
pub fn expand(template: &str, values: &Value) -> Result<String, String> {
    let mut out = String::new();
    for part in parse(template)? {
        match part {
            Part::Literal(text) => encode(&mut out, text, true),
            Part::Expression(operator, variables) => {
                let mut first = true;
                for variable in variables {
                    for piece in pieces(&operator, &variable, values.get(&variable.name)) {
                        out.push_str(if first { operator.first } else { operator.separator });
                        out.push_str(&piece);
                        first = false;
                    }
                }
            }
        }
    }
    Ok(out)
}

fn pieces(operator: &Operator, variable: &Variable, value: Option<&Value>) -> Vec<String> {
    let encoded = |text: &str| {
        let mut out = String::new();
        encode(&mut out, text, operator.reserved);
        out
    };
    let named = |text: String| {
        if !operator.named {
            return text;
        }
        let empty = if text.is_empty() { operator.if_empty } else { "=" };
        let mut out = String::new();
        encode(&mut out, &variable.name, true);
        out + empty + &text
    };
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) if items.is_empty() => Vec::new(),
        Some(Value::Object(map)) if map.is_empty() => Vec::new(),
        Some(Value::Array(items)) => {
            let items = items.iter().map(|v| encoded(&plain(v)));
            if variable.explode {
                return items.map(named).collect();
            }
            vec![named(items.collect::<Vec<_>>().join(","))]
        }
        Some(Value::Object(map)) => {
            let pairs = map.iter().map(|(k, v)| (encoded(k), encoded(&plain(v))));
            if variable.explode {
                return pairs.map(|(k, v)| format!("{k}={v}")).collect();
            }
            vec![named(pairs.map(|(k, v)| format!("{k},{v}")).collect::<Vec<_>>().join(","))]
        }
        Some(scalar) => {
            let text = plain(scalar);
            let cut: String = match variable.prefix {
                Some(length) => text.chars().take(length).collect(),
                None => text,
            };
            vec![named(encoded(&cut))]
        }
    }
}

/// Percent-encodes what is not allowed; with `reserved`, what has a meaning in URIs stays.
fn encode(out: &mut String, text: &str, reserved: bool) {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
        let hex = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_hexdigit);
        let kept = reserved
            && (b":/?#[]@!$&'()*+,;=".contains(byte)
                || (*byte == b'%' && hex(at + 1) && hex(at + 2)));
        if unreserved || kept {
            out.push(*byte as char);
        } else {
            use std::fmt::Write as _;
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use serde_json::json;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_filled_in_comes_out_as_a_plain_uri(
            template in "([a-z/:? é\u{1b}]|\\{[+#./;?&]?[a-z é\u{202e}]{1,3}(\\*|:[0-9])?(,b)?\\}){0,6}",
            text: String, list in prop::collection::vec(any::<String>(), 0..3),
        ) {
            let names = variables(&template);
            let names = names.iter().flatten().map(|variable| variable.name.clone());
            let values = [json!(text), json!(list), json!({text.clone(): list}), json!(7)];
            let values = names.zip(values.into_iter().cycle()).collect();
            if let Ok(uri) = expand(&template, &Value::Object(values)) {
                prop_assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()), "{uri:?}");
            }
        }

        #[test]
        fn what_was_filled_in_leads_back_to_its_template(
            parts in prop::collection::vec(("[a-z:/.]{1,4}", 0_usize..4, ".{1,6}"), 1..6)
        ) {
            let (mut template, mut values) = (String::new(), serde_json::Map::new());
            for (number, (literal, kind, value)) in parts.into_iter().enumerate() {
                let sign = ["", "+", "/", "?"][kind];
                let _ = write!(template, "{literal}{{{sign}v{number}}}");
                values.insert(format!("v{number}"), value.into());
            }
            let uri = expand(&template, &Value::Object(values)).expect("a template");
            prop_assert!(crate::host::router::fit(&template, &uri).is_some(), "{template} {uri}");
        }
    }
}
