//! What a server needs before it can run: which answers fit, and where each goes. A secret goes to
//! the guarded store, and into the file only its name.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::ServerInput;
use base::{SafeText, Secret, ServerName};
use config::{Environment, FileFormat, SourceText, read_document};
use deck::SecretStore;

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

/// The names of inputs and secrets that are not free for a server of a file: what other servers refer
/// to, what the file declares, and what the store has, for a server of another file perhaps. The
/// server's own entry may go on with its names.
pub fn names_of_others(
    (path, text): (&Path, &str),
    own: &ServerName,
    env: &Environment,
) -> BTreeSet<String> {
    let source = SourceText::new(path, text);
    let mut root = read_document(FileFormat::Json, &source).unwrap_or_default();
    let mut entries = Vec::new();
    for key in ["servers", "mcpServers"] {
        match root.get_mut(key) {
            Some(Value::Object(all)) => entries.extend(all.remove(own.as_str())),
            Some(Value::Array(all)) => {
                let (its, others) =
                    all.drain(..).partition(|entry| entry["id"].as_str() == Some(own.as_str()));
                *all = others;
                entries.extend::<Vec<Value>>(its);
            }
            _ => {}
        }
    }
    let stored = SecretStore::from_env(env).and_then(|store| store.names().ok());
    let declared = root["inputs"].as_array().into_iter().flatten();
    let declared = declared.filter_map(|input| input["id"].as_str());
    let mut names: BTreeSet<String> = stored.into_iter().flatten().collect();
    names.extend(declared.map(str::to_owned));
    for entry in &entries {
        for name in references(entry, "secret").iter().chain(&references(entry, "input")) {
            names.remove(*name);
        }
    }
    names.extend(references(&root, "secret").into_iter().map(str::to_owned));
    names.extend(references(&root, "input").into_iter().map(str::to_owned));
    names
}

/// The names in `${KIND:NAME}` and `${KIND:NAME:-default}` of a value.
pub fn references<'a>(value: &'a Value, kind: &str) -> BTreeSet<&'a str> {
    let opening = format!("${{{kind}:");
    let mut found = BTreeSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => {
                for (at, _) in text.match_indices(&opening) {
                    let is_literal = text[..at].ends_with('$');
                    if let Some((inside, _)) = text[at + opening.len()..].split_once('}')
                        && !is_literal
                    {
                        found.insert(inside.split_once(":-").map_or(inside, |(name, _)| name));
                    }
                }
            }
            Value::Array(list) => open.extend(list),
            Value::Object(map) => open.extend(map.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

/// Gives the inputs of an entry other ids where theirs are taken: two servers do not come to share a
/// secret because their names and those of their inputs make one name.
pub fn keep_apart(
    entry: &mut Value,
    inputs: &mut [ServerInput],
    given: &mut [(String, Secret)],
    taken: &BTreeSet<String>,
) {
    let mut ids: BTreeSet<String> = inputs.iter().map(|input| input.id.clone()).collect();
    for input in inputs.iter_mut().filter(|input| taken.contains(&input.id)) {
        // Its end stays: people name an input by it.
        let mut others = (2..).map(|number: u64| format!("{number}-{}", input.id));
        let is_free = |id: &String| !taken.contains(id) && !ids.contains(id);
        let Some(id) = others.find(is_free) else { continue };
        let marker = |id: &str| format!("${{input:{id}}}");
        replace(entry, &marker(&input.id), Some(&marker(&id)));
        for (known, _) in given.iter_mut().filter(|(known, _)| *known == input.id) {
            known.clone_from(&id);
        }
        ids.insert(id.clone());
        input.id = id;
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
    fn two_servers_whose_names_make_one_name_do_not_share_a_secret() {
        let dir = tempfile::tempdir().expect("a folder");
        let env = Environment {
            cwd: dir.path().to_owned(),
            state_dir: Some(dir.path().join("state")),
            ..Environment::default()
        };
        // `a` has `b-token`; `a-b` is to have `token`.
        let text = r#"{"servers": {
            "a": {"command": "x", "env": {"B_TOKEN": "${secret:a-b-token}"}},
            "c": {"command": "x", "env": {"K": "${input:c-key:-1}", "L": "$${secret:free}"}},
            "own": {"command": "x", "env": {"T": "${secret:own-token}"}}},
            "inputs": [{"id": "declared", "type": "promptString"}]}"#;
        let file = (Path::new("mcp.json"), text);
        let store = SecretStore::from_env(&env).expect("a store");
        for name in ["own-token", "of-another-file"] {
            store.set(name, &Secret::new("s3cret-of-one")).expect("stored");
        }
        let taken = names_of_others(file, &ServerName::new("own"), &env);
        let all = ["a-b-token", "c-key", "declared", "of-another-file"];
        assert_eq!(taken.iter().map(String::as_str).collect::<Vec<_>>(), all);
        let taken = names_of_others(file, &ServerName::new("a-b"), &env);
        let mut entry = json!({"command": "x", "env": {
            "TOKEN": "${input:a-b-token}", "KEY": "${input:a-b-key}"}});
        let mut inputs = [input("a-b-token", true, true, None), input("a-b-key", true, true, None)];
        let mut given = [("a-b-token".to_owned(), Secret::new("s3cret-of-b"))];
        keep_apart(&mut entry, &mut inputs, &mut given, &taken);
        assert_eq!(
            entry["env"],
            json!({"TOKEN": "${input:2-a-b-token}", "KEY": "${input:a-b-key}"})
        );
        assert_eq!((inputs[0].id.as_str(), given[0].0.as_str()), ("2-a-b-token", "2-a-b-token"));
        assert!(["TOKEN", "token", "a-b-token"].iter().all(|name| inputs[0].is_meant(name)));
        let settled = settle(&entry, &inputs, &given, false);
        assert_eq!(settled.entry["env"]["TOKEN"], "${secret:2-a-b-token}");
        // What is stored under a name that only one server can mean stays.
        let mut own = json!({"env": {"T": "${input:own-token}"}});
        let mut inputs = [input("own-token", true, true, None)];
        let taken = names_of_others(file, &ServerName::new("own"), &env);
        keep_apart(&mut own, &mut inputs, &mut [], &taken);
        assert_eq!(inputs[0].id, "own-token");
    }

    #[test]
    fn references_are_found_at_any_depth_and_literals_are_none() {
        let entry = json!({"env": {"A": "${secret:a} ${secret:b \"c\":-x}", "B": "$${secret:d}"},
            "args": [["${X:-${secret:inner}}", "${input:e}", "${secret:a}${secret:open"]]});
        assert_eq!(references(&entry, "secret"), ["a", "b \"c\"", "inner"].into());
        assert_eq!(references(&entry, "input"), ["e"].into());
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
