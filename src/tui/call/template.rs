//! URI templates (RFC 6570, levels 1 to 4): their variables and their expansion. Pure.

use serde_json::Value;

use base::text::json::plain;
use base::text::percent;

/// One variable of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    /// `*`: a list or object becomes several parts.
    pub explode: bool,
    /// `:n`: only the first n characters.
    pub prefix: Option<usize>,
}

/// An expression in braces, and how its operator joins and encodes the variables.
struct Expression {
    first: &'static str,
    separator: &'static str,
    named: bool,
    if_empty: &'static str,
    reserved: bool,
    variables: Vec<Variable>,
}

/// Literal texts, each with the expression that follows it, except the last.
fn parse(template: &str) -> Result<Vec<(&str, Option<Expression>)>, String> {
    let mut parts = Vec::new();
    let mut pieces = template.split('}').peekable();
    while let Some(piece) = pieces.next() {
        parts.push(match (piece.split_once('{'), pieces.peek()) {
            (Some((literal, body)), Some(_)) => (literal, Some(expression(body)?)),
            (None, None) => (piece, None),
            (Some(_), None) => return Err("a `{` without its `}`".to_owned()),
            (None, Some(_)) => return Err("a `}` without its `{`".to_owned()),
        });
    }
    Ok(parts)
}

/// RFC 6570, appendix A.
fn expression(body: &str) -> Result<Expression, String> {
    let sign = body.chars().next().ok_or("an empty `{}`")?;
    let (first, separator, named, if_empty, reserved) = match sign {
        '+' => ("", ",", false, "", true),
        '#' => ("#", ",", false, "", true),
        '.' => (".", ".", false, "", false),
        '/' => ("/", "/", false, "", false),
        ';' => (";", ";", true, "", false),
        '?' => ("?", "&", true, "=", false),
        '&' => ("&", "&", true, "=", false),
        _ if sign.is_ascii_alphanumeric() || matches!(sign, '_' | '%') => {
            ("", ",", false, "", false)
        }
        _ => return Err(format!("`{sign}` is not an operator")),
    };
    let list = body.strip_prefix(['+', '#', '.', '/', ';', '?', '&']).unwrap_or(body);
    let variables = list.split(',').map(variable).collect::<Result<_, _>>()?;
    Ok(Expression { first, separator, named, if_empty, reserved, variables })
}

fn variable(text: &str) -> Result<Variable, String> {
    let bare = text.strip_suffix('*').unwrap_or(text);
    let (name, prefix) = match bare.split_once(':') {
        Some((name, length)) => {
            let length = length.parse().map_err(|_| format!("`{length}` is not a length"))?;
            (name, Some(length))
        }
        None => (bare, None),
    };
    if name.is_empty() {
        return Err("a variable without a name".to_owned());
    }
    Ok(Variable { name: name.to_owned(), explode: bare != text, prefix })
}

/// The variables of a template, in order.
///
/// # Errors
/// A message if the template is invalid.
pub fn variables(template: &str) -> Result<Vec<Variable>, String> {
    let expressions = parse(template)?.into_iter().filter_map(|(_, expression)| expression);
    Ok(expressions.flat_map(|expression| expression.variables).collect())
}

/// Expands a template with these values; unset variables expand to nothing.
///
/// # Errors
/// A message if the template is invalid.
pub fn expand(template: &str, values: &Value) -> Result<String, String> {
    let mut out = String::new();
    for (literal, expression) in parse(template)? {
        out += &encode(literal, true);
        let Some(expression) = expression else { continue };
        let pieces = expression.variables.iter();
        let pieces = pieces.flat_map(|one| pieces_of(&expression, one, values.get(&one.name)));
        for (at, piece) in pieces.enumerate() {
            out += if at == 0 { expression.first } else { expression.separator };
            out += &piece;
        }
    }
    Ok(out)
}

fn pieces_of(of: &Expression, variable: &Variable, value: Option<&Value>) -> Vec<String> {
    let encoded = |text: &str| encode(text, of.reserved);
    let members: Vec<(Option<String>, String)> = match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.iter().map(|v| (None, encoded(&plain(v)))).collect(),
        Some(Value::Object(map)) => {
            map.iter().map(|(key, v)| (Some(encoded(key)), encoded(&plain(v)))).collect()
        }
        Some(scalar) => {
            let length = variable.prefix.unwrap_or(usize::MAX);
            vec![(None, encoded(&plain(scalar).chars().take(length).collect::<String>()))]
        }
    };
    let named = |text: String| match encode(&variable.name, true) {
        _ if !of.named => text,
        name if text.is_empty() => name + of.if_empty,
        name => format!("{name}={text}"),
    };
    if members.is_empty() || variable.explode {
        let member = |(key, text): (Option<String>, String)| match key {
            Some(key) => format!("{key}={text}"),
            None => named(text),
        };
        return members.into_iter().map(member).collect();
    }
    let flat = members.into_iter().flat_map(|(key, text)| key.into_iter().chain([text]));
    vec![named(flat.collect::<Vec<_>>().join(","))]
}

/// Percent-encodes all but unreserved characters; with `reserved`, reserved ones and `%XX` stay too.
fn encode(text: &str, reserved: bool) -> String {
    if reserved { percent::completed(text, ":/?#[]@!$&'()*+,;=") } else { percent::encoded(text) }
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
            prop_assert!(host::fit_template(&template, &uri).is_some(), "{template} {uri}");
        }
    }
}
