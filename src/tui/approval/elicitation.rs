//! An elicitation as a person reads it: what is asked, and whether it smells of a secret
//! (MCP 2025-11-25, client features, elicitation). Pure.

use serde_json::{Value, json};

use crate::base::text::SafeText;
use crate::tui::approval::url::{self, UrlReading};

/// An `elicitation/create` request, taken apart for reading.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitationReading {
    /// What the server says.
    pub message: SafeText,
    /// What it asks for.
    pub asks: Asks,
    /// What a person should notice.
    pub warnings: Vec<String>,
}

/// What an elicitation asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asks {
    /// A form with this schema.
    Form(Value),
    /// To visit a URL.
    Url(UrlReading),
}

/// What a person does with an elicitation; the words are the specification's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitAction {
    /// The person agrees and gives what was asked.
    Accept,
    /// The person says no.
    Decline,
    /// The person goes away without deciding.
    Cancel,
}

impl ElicitAction {
    /// The value of `action`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }

    /// The `ElicitResult`; `content` goes only with an accepted form.
    pub fn result(self, content: Option<Value>) -> Value {
        match (self, content) {
            (Self::Accept, Some(content)) => json!({"action": "accept", "content": content}),
            (action, _) => json!({"action": action.as_str()}),
        }
    }
}

/// Words in a field's name or text that mean it holds a secret. The specification forbids asking
/// for these in a form.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "api key",
    "api_key",
    "apikey",
    "api-key",
    "token",
    "private key",
    "private_key",
    "credential",
    "ssn",
    "social security",
    "credit card",
    "card number",
    "cvv",
    "cvc",
    "iban",
    "pin code",
    "one-time code",
    "otp",
    "seed phrase",
    "recovery phrase",
];

/// Most fields that are drawn as a form; more are edited as JSON.
pub const MOST_FIELDS: usize = 200;

/// Takes `params` apart. Never fails.
pub fn read(params: &Value) -> ElicitationReading {
    let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
    let mut warnings = Vec::new();
    let is_url = params.get("mode").and_then(Value::as_str) == Some("url");
    let asks = if is_url {
        let reading = url::read(params.get("url").and_then(Value::as_str).unwrap_or_default());
        warnings.extend(reading.warnings.iter().cloned());
        Asks::Url(reading)
    } else {
        let schema = params.get("requestedSchema").cloned().unwrap_or_else(|| {
            warnings.push("it does not say what it wants: `requestedSchema` is missing".to_owned());
            json!({"type": "object"})
        });
        warnings.extend(schema_warnings(&schema));
        Asks::Form(schema)
    };
    if !is_url && looks_secret(message) {
        warnings.push("the message speaks of a secret; a form is the wrong place for one".into());
    }
    ElicitationReading { message: SafeText::block(message), asks, warnings }
}

fn schema_warnings(schema: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
        return warnings;
    };
    for (name, field) in fields {
        let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
        if [name.as_str(), text("title"), text("description")].into_iter().any(looks_secret)
            || text("format") == "password"
        {
            let name = SafeText::line(name);
            warnings.push(format!("`{name}` looks like a secret; servers must not ask for those"));
        }
        if matches!(text("type"), "object") || field.get("properties").is_some() {
            let name = SafeText::line(name);
            warnings.push(format!("`{name}` is nested, which the specification does not allow"));
        }
    }
    if fields.len() > MOST_FIELDS {
        warnings.push(format!("it asks for {} fields; edit them as JSON", fields.len()));
    }
    warnings
}

/// Whether `text` speaks of a secret.
pub fn looks_secret(text: &str) -> bool {
    let text = text.to_lowercase();
    SECRET_WORDS.iter().any(|word| {
        text.match_indices(word).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !letter(before) && (!letter(after) || after == Some('s'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_wants_a_secret_is_pointed_out_and_an_ordinary_one_is_not() {
        let schema = json!({"type": "object", "properties": {
            "api_key": {"type": "string"}, "x": {"type": "string", "title": "Your password"},
            "city": {"type": "string", "description": "Where you live"}, "tokenizer": {"type": "string"},
        }});
        let reading = read(&json!({"message": "hello", "requestedSchema": schema}));
        assert_eq!(reading.warnings.len(), 2, "{:?}", reading.warnings);
    }

    #[test]
    fn accept_decline_and_cancel_are_three_different_answers() {
        let content = json!({"a": 1});
        assert_eq!(
            ElicitAction::Accept.result(Some(content.clone())),
            json!({"action": "accept", "content": {"a": 1}})
        );
        assert_eq!(ElicitAction::Decline.result(Some(content)), json!({"action": "decline"}));
        assert_eq!(ElicitAction::Cancel.result(None), json!({"action": "cancel"}));
    }

    #[test]
    fn url_mode_shows_the_address_and_refuses_what_must_not_be_opened() {
        let reading =
            read(&json!({"mode": "url", "message": "sign in", "url": "javascript:alert(1)"}));
        assert!(matches!(reading.asks, Asks::Url(url) if url.open.is_none()));
    }

    #[test]
    fn a_request_without_any_schema_is_still_shown() {
        let reading = read(&json!({}));
        assert!(matches!(reading.asks, Asks::Form(_)));
        assert_eq!(reading.warnings.len(), 1);
    }
}
