//! What a server needs before it can run: which answers fit, and where each goes. A secret goes to
//! the guarded store, and into the file only its name.

use serde_json::{Value, json};

use crate::ServerInput;
use base::{SafeText, Secret};

/// Longest list of choices in a message, in characters.
const MAX_CHOICES_CHARS: usize = 300;

impl ServerInput {
    /// Whether a name given by the user is that of this input: its id, or the last part of it.
    pub fn is_meant(&self, name: &str) -> bool {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = name.chars().map(plain).collect();
        self.id == name || self.id.to_ascii_lowercase().ends_with(&format!("-{name}"))
    }

    /// Accepts a value.
    ///
    /// # Errors
    /// When it is not one line, or not one of the choices.
    pub fn accept(&self, value: &Secret) -> Result<(), String> {
        if value.expose().contains(['\0', '\n', '\r']) {
            return Err(format!("`{}`: a value is one line", self.id));
        }
        if self.choices.is_empty() || self.choices.iter().any(|one| one == value.expose()) {
            return Ok(());
        }
        Err(format!("`{}` is one of {}", self.id, self.choices_in_words()))
    }

    /// Its choices, shortened for a message.
    pub fn choices_in_words(&self) -> SafeText {
        SafeText::cut(&self.choices.join(", "), MAX_CHOICES_CHARS)
    }
}

/// An entry whose inputs are settled.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SettledEntry {
    /// The entry.
    pub entry: Value,
    /// Inputs that are asked for later, as `mcp.json` declares them.
    pub declared: Vec<Value>,
    /// Secrets for the store, by name.
    pub secrets: Vec<(String, Secret)>,
    /// The ids of required inputs without an answer.
    pub open: Vec<String>,
}

/// Puts answers into an entry. With `is_trial` secrets stay `${input:ID}`, declared, so that they can
/// be tried before they are stored.
pub fn settle(
    entry: &Value,
    inputs: &[ServerInput],
    answers: &[(String, Secret)],
    is_trial: bool,
) -> SettledEntry {
    let mut out = SettledEntry {
        entry: entry.clone(),
        declared: Vec::new(),
        secrets: Vec::new(),
        open: Vec::new(),
    };
    for input in inputs {
        let marker = format!("${{input:{}}}", input.id);
        if !holds(&out.entry, &marker) {
            continue;
        }
        let answer = answers.iter().find(|(id, _)| *id == input.id).map(|(_, value)| value);
        let literal = |text: &str| text.replace("${", "$${");
        // A secret by its look is one, whatever it was asked for as.
        let is_secret = |value: &Secret| input.is_secret || config::is_secret("", value.expose());
        match (answer, &input.default) {
            (Some(value), _) if is_secret(value) && is_trial => {
                out.declared.push(input.declaration());
            }
            (Some(value), _) if is_secret(value) => {
                replace(&mut out.entry, &marker, Some(&format!("${{secret:{}}}", input.id)));
                out.secrets.push((input.id.clone(), value.clone()));
            }
            (Some(value), _) => replace(&mut out.entry, &marker, Some(&literal(value.expose()))),
            (None, Some(default)) => replace(&mut out.entry, &marker, Some(&literal(default))),
            (None, None) if input.is_required => {
                out.declared.push(input.declaration());
                out.open.push(input.id.clone());
            }
            (None, None) => replace(&mut out.entry, &marker, None),
        }
    }
    out
}

fn holds(value: &Value, marker: &str) -> bool {
    match value {
        Value::String(text) => text.contains(marker),
        Value::Array(list) => list.iter().any(|element| holds(element, marker)),
        Value::Object(map) => map.values().any(|value| holds(value, marker)),
        _ => false,
    }
}

/// Replaces a reference; without a value, what is nothing but the reference goes.
fn replace(value: &mut Value, marker: &str, with: Option<&str>) {
    let goes = |value: &Value| with.is_none() && value.as_str() == Some(marker);
    match value {
        Value::String(text) if text.contains(marker) => {
            *text = text.replace(marker, with.unwrap_or_default());
        }
        Value::Array(list) => {
            list.retain(|element| !goes(element));
            for element in list.iter_mut() {
                replace(element, marker, with);
            }
        }
        Value::Object(map) => {
            map.retain(|_, value| !goes(value));
            map.values_mut().for_each(|value| replace(value, marker, with));
        }
        _ => {}
    }
    if let Value::Object(map) = value {
        for key in ["env", "headers"] {
            if map.get(key) == Some(&json!({})) {
                map.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(id: &str, is_required: bool, is_secret: bool, default: Option<&str>) -> ServerInput {
        ServerInput {
            id: id.to_owned(),
            description: SafeText::line(""),
            is_required,
            is_secret,
            default: default.map(str::to_owned),
            choices: Vec::new(),
        }
    }

    #[test]
    fn answers_go_into_the_entry_secrets_into_the_store_and_the_rest_is_left_out() {
        let inputs = [
            input("w-key", true, true, None),
            input("w-place", true, false, None),
            input("w-unit", false, false, Some("metric")),
            input("w-token", false, true, None),
            input("w-later", true, false, None),
            input("w-unused", true, false, None),
        ];
        let entry = json!({"command": "x", "args": ["${input:w-place}/a", "${input:w-unit}"],
            "env": {"KEY": "${input:w-key}", "TOKEN": "${input:w-token}", "L": "${input:w-later}"}});
        let answers = [
            ("w-key".to_owned(), Secret::new("s3")),
            ("w-place".to_owned(), Secret::new("${HOME}")),
        ];
        let settled = settle(&entry, &inputs, &answers, false);
        assert_eq!(
            settled.entry,
            json!({"command": "x", "args": ["$${HOME}/a", "metric"],
                "env": {"KEY": "${secret:w-key}", "L": "${input:w-later}"}})
        );
        assert_eq!(settled.open, ["w-later"]);
        assert_eq!(settled.declared.len(), 1);
        assert_eq!(settled.secrets[0].0, "w-key");
        let trial = settle(&entry, &inputs, &answers, true);
        assert_eq!(trial.entry["env"]["KEY"], "${input:w-key}");
        assert!(trial.secrets.is_empty());
        let none = json!({"command": "x", "env": {"TOKEN": "${input:w-token}"}});
        assert_eq!(settle(&none, &inputs, &[], false).entry, json!({"command": "x"}));
    }

    #[test]
    fn inputs_are_named_as_people_write_them() {
        let input = input("weather-api-key", true, true, None);
        for name in ["weather-api-key", "API_KEY", "api-key", "KEY"] {
            assert!(input.is_meant(name), "{name}");
        }
        assert!(!input.is_meant("ey") && !input.is_meant("weather"));
    }
}
