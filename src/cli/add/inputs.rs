//! What a server needs before it can run: answers from the command, the environment or the terminal,
//! and where each goes. A secret goes to the guarded store, and into the file only its name.

use std::io::{BufRead as _, IsTerminal as _};

use serde_json::{Value, json};

use crate::output::{self, ExitStatus};
use base::{SafeText, Secret};
use config::{Environment, input_variable};
use reach::ServerInput;

/// `ID=VALUE` of `--input`.
///
/// # Errors
/// When it has another form.
pub fn parse_input(text: &str) -> Result<(String, Secret), String> {
    match text.split_once('=') {
        Some((id, value)) if !id.is_empty() => Ok((id.to_owned(), Secret::new(value))),
        _ => Err("write ID=VALUE".to_owned()),
    }
}

/// The answers to the inputs of a server, by id. Asks at the terminal, when it may.
///
/// # Errors
/// When an answer is given for an input that there is not, or is not one of its choices.
pub fn answers(
    inputs: &[&ServerInput],
    given: &[(String, Secret)],
    (env, may_ask): (&Environment, bool),
) -> Result<Vec<(String, Secret)>, ExitStatus> {
    let mut out: Vec<(String, Secret)> = Vec::new();
    for (id, value) in given {
        let Some(input) = inputs.iter().find(|input| is_meant(id, input)) else {
            let all: Vec<&str> = inputs.iter().map(|input| input.id.as_str()).collect();
            let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            let id = SafeText::line(id);
            return Err(output::refuse(&format!("there is no input `{id}`; it has {all}")));
        };
        accepted(input, value).map_err(|why| output::refuse(&why))?;
        out.push((input.id.clone(), value.clone()));
    }
    let asks = may_ask && std::io::stdin().is_terminal();
    for input in inputs {
        if out.iter().any(|(id, _)| *id == input.id) {
            continue;
        }
        let preset = env.var(&input_variable(&input.id)).filter(|value| !value.is_empty());
        let value = match preset {
            Some(value) => Some(Secret::new(value)),
            None if asks => ask(input),
            None => None,
        };
        if let Some(value) = value {
            accepted(input, &value).map_err(|why| output::refuse(&why))?;
            out.push((input.id.clone(), value));
        }
    }
    Ok(out)
}

/// Whether a name given by the user is that of an input: its id, or the last part of it.
fn is_meant(name: &str, input: &ServerInput) -> bool {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).collect();
    input.id == name || input.id.to_ascii_lowercase().ends_with(&format!("-{name}"))
}

fn accepted(input: &ServerInput, value: &Secret) -> Result<(), String> {
    if value.expose().contains(['\0', '\n', '\r']) {
        return Err(format!("`{}`: a value is one line", input.id));
    }
    if input.choices.is_empty() || input.choices.iter().any(|one| one == value.expose()) {
        return Ok(());
    }
    let all = SafeText::cut(&input.choices.join(", "), 300);
    Err(format!("`{}` is one of {all}", input.id))
}

/// Asks for one value; nothing when it is left empty.
fn ask(input: &ServerInput) -> Option<Secret> {
    let mut question = SafeText::line(&input.id).to_string();
    if !input.description.is_empty() {
        question = format!("{question} ({})", input.description);
    }
    if !input.choices.is_empty() {
        question = format!("{question}, one of {}", SafeText::cut(&input.choices.join(", "), 300));
    }
    let rest = match (&input.default, input.is_required) {
        (Some(default), _) => format!("; empty for {}", SafeText::cut(default, 80)),
        (None, false) => "; may be empty".to_owned(),
        (None, true) => "; empty to answer it later".to_owned(),
    };
    let _echo = input.is_secret.then(EchoOff::new);
    let shown = if input.is_secret { ", not shown and kept in the store" } else { "" };
    output::complain(&format!("{question}{shown}{rest}:"));
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
    let value = line.trim_end_matches(['\n', '\r']);
    (!value.is_empty()).then(|| Secret::new(value))
}

/// The terminal does not show what is typed, until this is dropped.
struct EchoOff {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl EchoOff {
    fn new() -> Self {
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
            let stdin = std::io::stdin();
            let before = tcgetattr(&stdin).ok();
            if let Some(mut hidden) = before.clone() {
                hidden.local_modes.remove(LocalModes::ECHO);
                let _ = tcsetattr(&stdin, OptionalActions::Flush, &hidden);
            }
            Self { before }
        }
        #[cfg(not(unix))]
        Self {}
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, before);
        }
    }
}

/// An entry whose inputs are settled.
#[derive(Debug, PartialEq)]
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
        match (answer, &input.default) {
            (Some(_), _) if input.is_secret && is_trial => out.declared.push(input.declaration()),
            (Some(value), _) if input.is_secret => {
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
            assert!(is_meant(name, &input), "{name}");
        }
        assert!(!is_meant("ey", &input) && !is_meant("weather", &input));
    }
}
