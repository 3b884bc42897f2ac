//! What other programs have: the servers of their files as entries of ours, gathered for one
//! configuration. A literal value that may be secret becomes a reference to a variable, and what is
//! the deck itself is left out. Reads files, writes none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::literals::replace_secrets;
use crate::starts_deck;
use base::{Secret, ServerName};
use config::{
    Diagnostic, Environment, ImportHost, Imported, import_places, is_secret, is_secret_name,
    read_import,
};

/// A server of another program.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundServer {
    /// The program; `None` when the file belongs to none that is known.
    pub host: Option<ImportHost>,
    /// Its file.
    pub file: PathBuf,
    /// A name that no other server of the same [`FoundServers`] has.
    pub name: ServerName,
    /// The entry, without literal secrets where they are recognised.
    pub entry: Value,
}

/// The servers of several files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundServers {
    /// The servers, in the order of the files.
    pub servers: Vec<FoundServer>,
    /// Declared inputs they use.
    pub inputs: Vec<Value>,
    /// What was left out or changed its meaning, one sentence each.
    pub notes: Vec<String>,
    /// The variables that stand for secrets, with what each replaced.
    unset: BTreeMap<String, Secret>,
}

impl FoundServers {
    /// What the known programs of this machine have, and the problems of files that cannot be
    /// read. A file without servers is no problem.
    pub fn from_machine(env: &Environment) -> (Self, Vec<Diagnostic>) {
        let mut found = Self::default();
        let mut problems = Vec::new();
        for place in import_places(env).into_iter().filter(|place| place.exists) {
            match read_import(place.host, &place.path, env) {
                Ok(imported) => found.add(Some(place.host), &place.path, imported),
                Err(wrong) => {
                    problems.extend(wrong.into_iter().filter(|p| p.rule != "import/nothing"));
                }
            }
        }
        (found, problems)
    }

    /// Adds the servers of a file under unused names; skips equal ones.
    pub fn add(&mut self, host: Option<ImportHost>, file: &Path, imported: Imported) {
        for (name, mut entry) in imported.servers {
            if name.as_str().is_empty() {
                let file = file.display();
                self.notes.push(format!("{file}: an entry without a name was left out"));
                continue;
            }
            if starts_deck(&entry) {
                self.notes.push(format!("`{name}` is the deck itself and was left out"));
                continue;
            }
            for key in ["env", "headers"] {
                let values = entry.get_mut(key).and_then(Value::as_object_mut);
                for (variable, value) in values.into_iter().flatten() {
                    refer(variable, value, &mut self.unset);
                }
            }
            replace_secrets(&mut entry, 0, |secret| {
                let own = format!("{name}_SECRET");
                refer_to(secret.label.unwrap_or(&own), secret.value, &mut self.unset)
            });
            if self.servers.iter().any(|other| other.entry == entry) {
                continue;
            }
            let others = (2..).map(|count| ServerName::new(&format!("{name}-{count}")));
            let mut names = std::iter::once(name.clone()).chain(others);
            let free = names.find(|name| self.servers.iter().all(|taken| taken.name != *name));
            let file = file.to_owned();
            self.servers.extend(free.map(|name| FoundServer { host, file, name, entry }));
        }
        for input in imported.inputs {
            if !self.inputs.contains(&input) {
                self.inputs.push(input);
            }
        }
        self.notes.extend(imported.notes);
    }

    /// Whether there is no server.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The variables that stand for secrets: they must be set before the servers start.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.unset.keys().map(String::as_str)
    }

    /// The entries of the servers that `wanted` picks, to be written into a configuration.
    pub fn to_imported(&self, wanted: impl Fn(&FoundServer) -> bool) -> Imported {
        let servers = self.servers.iter().filter(|server| wanted(server));
        Imported {
            servers: servers.map(|one| (one.name.clone(), one.entry.clone())).collect(),
            inputs: self.inputs.clone(),
            notes: self.notes.clone(),
        }
    }
}

/// Replaces a literal value that may be secret, by its name or its look, with a reference.
fn refer(name: &str, value: &mut Value, unset: &mut BTreeMap<String, Secret>) {
    let Some(text) = value.as_str() else { return };
    let is_literal = !text.is_empty() && !text.contains("${");
    if is_literal && (is_secret_name(name) || is_secret(name, text)) {
        *value = Value::String(refer_to(name, text, unset));
    }
}

/// A reference to the variable that stands for a secret. Different secrets get different variables.
fn refer_to(name: &str, secret: &str, unset: &mut BTreeMap<String, Secret>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let first: String = name.chars().map(plain).collect();
    let is_free = |name: &String| unset.get(name).is_none_or(|kept| kept.expose() == secret);
    let mut variable = first.clone();
    let mut count = 1;
    while !is_free(&variable) {
        count += 1;
        variable = format!("{first}_{count}");
    }
    let reference = format!("${{{variable}}}");
    unset.insert(variable, Secret::new(secret));
    reference
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Conflict, merge_import};
    use serde_json::json;

    /// What is masked where it is shown does not stay in the file.
    #[test]
    fn secrets_are_found_by_their_look_and_in_command_lines_and_addresses() {
        let token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        let mut found = FoundServers::default();
        let entries = [
            json!({"command": "x", "env": {"GH": token, "MODE": "fast"}}),
            json!({"command": "x", "args": ["--token", "s3cret-1", "--api-key=s3cret-2"]}),
            json!({"url": "https://me:s3cret-3@h.example/mcp?api_key=s3cret-4"}),
        ];
        for (name, entry) in ["a", "b", "c"].into_iter().zip(entries) {
            let servers = vec![(ServerName::new(name), entry)];
            found.add(None, Path::new("x.json"), Imported { servers, ..Imported::default() });
        }
        let (text, _) =
            merge_import("{}", &found.to_imported(|_| true), Conflict::Keep).expect("merged");
        assert!(!text.contains(token) && !text.contains("s3cret"), "{text}");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            file["servers"]["b"]["args"],
            json!(["--token", "${TOKEN}", "--api-key=${API_KEY}"])
        );
        assert_eq!(
            file["servers"]["c"]["url"],
            "https://${C_SECRET}@h.example/mcp?api_key=${API_KEY_2}"
        );
        let variables: Vec<&str> = found.variables().collect();
        assert_eq!(variables, ["API_KEY", "API_KEY_2", "C_SECRET", "GH", "TOKEN"]);
    }

    #[test]
    fn secrets_of_imported_servers_become_references_and_equal_servers_come_once() {
        let entry = json!({"command": "x", "env": {"API_TOKEN": "s3cret", "MODE": "fast",
            "OTHER_TOKEN": "${OTHER}"}});
        let one = |entry| Imported {
            servers: vec![(ServerName::new("a"), entry)],
            ..Imported::default()
        };
        let file = Path::new("mcp.json");
        let mut found = FoundServers::default();
        found.add(None, file, one(entry.clone()));
        found.add(None, file, one(entry));
        found.add(None, file, one(json!({"command": "y"})));
        found.add(None, file, one(json!({"command": "mcpdeck", "args": ["serve", "--stdio"]})));
        // A program of that name in the folder of a project is not the deck.
        let theirs = json!({"command": "./bin/mcpdeck", "args": ["serve", "--stdio"]});
        found.add(None, file, one(theirs));
        let nameless = vec![(ServerName::new(" "), json!({"command": "z"}))];
        found.add(None, file, Imported { servers: nameless, ..Imported::default() });
        assert_eq!(found.notes[1], "mcp.json: an entry without a name was left out");
        let imported = found.to_imported(|_| true);
        let (text, _) = merge_import("{}", &imported, Conflict::Keep).expect("merged");
        assert!(!text.contains("s3cret"), "{text}");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(file["servers"]["a"]["env"]["API_TOKEN"], "${API_TOKEN}");
        assert_eq!(file["servers"]["a"]["env"]["OTHER_TOKEN"], "${OTHER}");
        assert_eq!(file["servers"]["a-2"]["command"], "y");
        assert_eq!(file["servers"]["a-3"]["command"], "./bin/mcpdeck");
        assert_eq!(file["servers"].as_object().map(serde_json::Map::len), Some(3), "{text}");
        assert_eq!(found.variables().collect::<Vec<_>>(), ["API_TOKEN"]);
    }
}
