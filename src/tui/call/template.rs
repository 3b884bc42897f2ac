//! URI templates (RFC 6570, levels 1 to 4): their variables, and what they expand to. Pure.

use iri_string::spec::UriSpec;
use iri_string::template::simple_context::{SimpleContext, Value as Filled};
use iri_string::template::{Error, UriTemplateStr};
use serde_json::Value;

use crate::tui::form::pointer::plain;

/// The variables of a template, in order; `true` for one whose list becomes several parts (`*`).
///
/// # Errors
/// A sentence when it is no template.
pub fn variables(template: &str) -> Result<Vec<(String, bool)>, String> {
    let names = UriTemplateStr::new(template).map_err(words)?.variables();
    let explodes = |name: &str| {
        let mut pieces = template.split(|c: char| "{}+#./;?&,".contains(c));
        pieces.any(|piece| piece.strip_suffix('*') == Some(name))
    };
    Ok(names.map(|name| (name.as_str().to_owned(), explodes(name.as_str()))).collect())
}

/// The URI of a template with these values; an unset variable leaves nothing behind.
///
/// # Errors
/// A sentence when it is no template.
pub fn expand(template: &str, values: &Value) -> Result<String, String> {
    let mut filled = SimpleContext::new();
    for (name, value) in values.as_object().into_iter().flatten() {
        let value = match value {
            Value::Null => continue,
            Value::Array(items) => Filled::List(items.iter().map(plain).collect()),
            Value::Object(map) => {
                Filled::Assoc(map.iter().map(|(key, value)| (key.clone(), plain(value))).collect())
            }
            scalar => Filled::String(plain(scalar)),
        };
        filled.insert(name.as_str(), value);
    }
    let template = UriTemplateStr::new(template).map_err(words)?;
    Ok(template.expand::<UriSpec, _>(&filled).map_err(words)?.to_string())
}

fn words(error: Error) -> String {
    error.to_string()
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
            let names = names.iter().flatten().map(|(name, _)| name.clone());
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
