//! A server that could be added: its entry, what it needs, and what a user gives it with the command
//! that adds it (arguments, variables, headers).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::literals::replace_secrets;
use crate::{Bundle, ReachError, ServerInput, keep_apart};
use base::{SafeText, Secret};
use config::{Pairs, is_secret, is_secret_name};
use deck::Review;

/// A server that could be added.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct AvailableServer {
    /// Its name in the configuration, unless another is wanted.
    pub name: String,
    /// What is shown of it: a label and a text.
    pub facts: Vec<(&'static str, SafeText)>,
    /// Its entry, with inputs as `${input:ID}`.
    pub entry: Value,
    /// What it needs.
    pub inputs: Vec<ServerInput>,
    /// Answers that were given with the command, by input.
    pub given: Vec<(String, Secret)>,
    /// A bundle to unpack first, and its folder.
    pub bundle: Option<(Bundle, PathBuf)>,
}

/// What is given to a server beside what its publisher says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenValues {
    /// More arguments of its command, after its own.
    pub arguments: Vec<String>,
    /// Variables of its environment.
    pub variables: Pairs,
    /// Headers of the requests to it.
    pub headers: Pairs,
}

impl AvailableServer {
    /// The inputs that its entry refers to.
    pub fn needed(&self) -> impl Iterator<Item = &ServerInput> {
        let entry = self.entry.to_string();
        self.inputs.iter().filter(move |input| entry.contains(&format!("${{input:{}}}", input.id)))
    }

    /// Gives its inputs other ids where theirs are taken ([`crate::names_of_others`]).
    pub fn keep_apart(&mut self, taken: &BTreeSet<String>) {
        keep_apart(&mut self.entry, &mut self.inputs, &mut self.given, taken);
    }

    /// Unpacks its bundle, if it is one.
    ///
    /// # Errors
    /// When the bundle is not sound, or cannot be written.
    pub fn unpack(&self) -> Result<(), ReachError> {
        let Some((bundle, folder)) = &self.bundle else { return Ok(()) };
        bundle.unpack(folder)
    }

    /// What it is, runs and needs, for people: a label and a text. The review is that of its entry
    /// in the file.
    pub fn described(&self, review: &Review) -> Vec<(&'static str, SafeText)> {
        let mut out = self.facts.clone();
        let is_command = |label: &str| {
            ["command", "args", "url"].iter().any(|key| {
                label.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
            })
        };
        let runs = review.shown.iter().filter(|(label, _)| is_command(label));
        let runs: Vec<&str> = runs.map(|(_, value)| value.as_str()).collect();
        // Nothing of what would run is cut.
        out.push(("runs", SafeText::line(&runs.join(" "))));
        for (label, value) in review.shown.iter().filter(|(label, _)| !is_command(label)) {
            out.push(("with", SafeText::line(&format!("{label} {value}"))));
        }
        for input in self.needed() {
            let mut text = input.id.clone();
            for (word, is_so) in [("secret", input.is_secret), ("required", input.is_required)] {
                if is_so {
                    let _ = write!(text, ", {word}");
                }
            }
            if let Some(default) = &input.default {
                let _ = write!(text, ", else {default}");
            }
            if !input.description.is_empty() {
                let _ = write!(text, ": {}", input.description);
            }
            out.push(("needs", SafeText::line(&text)));
        }
        out.extend(review.dangers.iter().map(|danger| ("careful", SafeText::line(danger))));
        out
    }

    /// Puts into its entry what the user gives it; `name` is that of the entry. Arguments are taken as
    /// they are, `${NAME}` in variables and headers is expanded. A variable or header that the server
    /// asks for answers that; what may be secret, by its name or its look, goes to the store.
    ///
    /// # Errors
    /// Arguments and variables for a server at an address, headers for one that is started.
    pub fn give(&mut self, name: &str, given: &GivenValues) -> Result<(), ReachError> {
        let is_started = self.entry.get("command").is_some();
        let wrong = if is_started {
            (!given.headers.is_empty()).then_some("it is started, so it takes no headers")
        } else {
            let is_given = !given.arguments.is_empty() || !given.variables.is_empty();
            is_given.then_some("it is reached at an address, so it takes no arguments or variables")
        };
        if let Some(why) = wrong {
            return Err(ReachError(format!("{}: {why}", SafeText::line(name))));
        }
        if let Some(args) = self.entry.get_mut("args").and_then(Value::as_array_mut) {
            let first = args.len();
            args.extend(given.arguments.iter().map(|word| json!(literal(word))));
            self.store_literals(name, first);
        }
        self.give_pairs(name, "headers", &given.headers);
        self.pass_to_container(&given.variables);
        self.give_pairs(name, "env", &given.variables);
        Ok(())
    }

    /// Puts variables or headers into its entry.
    pub(crate) fn give_pairs(&mut self, name: &str, key: &str, pairs: &Pairs) {
        for (field, value) in pairs {
            let asked = self.entry[key].get(field).and_then(Value::as_str);
            let asked = asked.and_then(|text| text.strip_prefix("${input:")?.strip_suffix('}'));
            let is_reference = value.contains("${");
            if let Some(id) = asked.filter(|_| !is_reference) {
                self.given.push((id.to_owned(), Secret::new(value.as_str())));
            } else if (is_secret_name(field) || is_secret(field, value)) && !is_reference {
                self.entry[key][field] = json!(self.stored(name, field, value));
            } else {
                self.entry[key][field] = json!(value);
            }
        }
    }

    /// Moves what is secret in its address, and in its arguments from `first` on, to the store.
    pub(crate) fn store_literals(&mut self, name: &str, first: usize) {
        let mut entry = std::mem::take(&mut self.entry);
        replace_secrets(&mut entry, first, |secret| {
            self.stored(name, secret.label.unwrap_or("secret"), secret.value)
        });
        self.entry = entry;
    }

    /// Keeps a secret for the store, not for the file. Returns the reference to it; different
    /// secrets of one label get different ones.
    fn stored(&mut self, name: &str, label: &str, secret: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let first = format!("{name}-{}", label.chars().map(plain).collect::<String>());
        let others = |id: &str| {
            let is_asked = self.inputs.iter().any(|input| input.id == *id);
            is_asked && !self.given.iter().any(|(own, kept)| own == id && kept.expose() == secret)
        };
        let mut id = first.clone();
        let mut count = 1;
        while others(&id) {
            count += 1;
            id = format!("{first}-{count}");
        }
        let reference = format!("${{input:{id}}}");
        if !self.inputs.iter().any(|input| input.id == id) {
            self.given.push((id.clone(), Secret::new(secret)));
            self.inputs.push(ServerInput {
                description: SafeText::line(label),
                is_required: true,
                is_secret: true,
                default: None,
                choices: Vec::new(),
                id,
            });
        }
        reference
    }

    /// Names variables to a container, which has none of its surroundings.
    fn pass_to_container(&mut self, variables: &Pairs) {
        if self.entry["command"] != "docker" {
            return;
        }
        let Some(args) = self.entry.get_mut("args").and_then(Value::as_array_mut) else { return };
        // Before the image: `run -i --rm -e NAME IMAGE`.
        let mut end = args.iter().position(|arg| arg == "--rm").map_or(0, |at| at + 1);
        let mut known = Vec::new();
        while args.get(end).is_some_and(|arg| arg == "-e") {
            known.extend(args.get(end + 1).cloned());
            end += 2;
        }
        let new = variables.keys().filter(|name| !known.contains(&json!(name)));
        let words: Vec<Value> = new.flat_map(|name| [json!("-e"), json!(name)]).collect();
        args.splice(end..end, words);
    }
}

/// A word of the user as it stands in an entry, where nothing of it is expanded.
pub(crate) fn literal(word: &str) -> String {
    word.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package_way;

    fn package(kind: &str, name: &str) -> AvailableServer {
        let way = package_way(kind, name, "1.0.0").expect("a package");
        AvailableServer {
            name: "x".to_owned(),
            facts: Vec::new(),
            entry: way.entry,
            inputs: way.inputs,
            given: Vec::new(),
            bundle: None,
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_package_takes_arguments_and_variables_and_no_secret_stays_in_its_entry() {
        let mut server = package("npm", "files");
        let given = GivenValues {
            arguments: vec!["--root".to_owned(), "/a b".to_owned(), "${HOME}".to_owned()],
            variables: pairs(&[("API_KEY", "s3cret"), ("MODE", "fast"), ("TOKEN", "${TOKEN}")]),
            headers: Pairs::default(),
        };
        server.give("mine", &given).expect("given");
        let expected = json!({
            "command": "npx",
            "args": ["-y", "files@1.0.0", "--root", "/a b", "$${HOME}"],
            "env": {"API_KEY": "${input:mine-api-key}", "MODE": "fast", "TOKEN": "${TOKEN}"},
        });
        assert_eq!(server.entry, expected);
        assert_eq!(server.given, [("mine-api-key".to_owned(), Secret::new("s3cret"))]);
        assert!(server.inputs.iter().all(|input| input.is_secret && input.id == "mine-api-key"));
    }

    #[test]
    fn a_secret_is_known_by_its_look_and_among_arguments() {
        let token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        let mut server = package("npm", "files");
        let given = GivenValues {
            arguments: ["--token", token, "--api-key=k", "--api-key=l"].map(str::to_owned).to_vec(),
            variables: pairs(&[("GH", token), ("API_KEY", "k")]),
            headers: Pairs::default(),
        };
        server.give("mine", &given).expect("given");
        let expected = json!({
            "command": "npx",
            "args": ["-y", "files@1.0.0", "--token", "${input:mine-token}",
                "--api-key=${input:mine-api-key}", "--api-key=${input:mine-api-key-2}"],
            "env": {"API_KEY": "${input:mine-api-key}", "GH": "${input:mine-gh}"},
        });
        assert_eq!(server.entry, expected);
        assert_eq!(server.given.len(), 4, "{:?}", server.given);
    }

    #[test]
    fn what_a_server_asks_for_is_answered_by_the_variable() {
        let mut server = package("npm", "files");
        server.entry["env"] = json!({"API_KEY": "${input:own-id}", "PLACE": "${input:place}"});
        let variables = pairs(&[("API_KEY", "k"), ("PLACE", "${PLACE}")]);
        let given = GivenValues { variables, ..GivenValues::default() };
        server.give("mine", &given).expect("given");
        assert_eq!(server.given, [("own-id".to_owned(), Secret::new("k"))]);
        let env = json!({"API_KEY": "${input:own-id}", "PLACE": "${PLACE}"});
        assert!(server.entry["env"] == env && server.inputs.is_empty(), "{}", server.entry);
    }

    #[test]
    fn a_container_is_told_the_names_of_variables_before_its_image() {
        let mut server = package("oci", "images.example/x:1.0");
        let arguments = vec!["--units".to_owned()];
        let variables = pairs(&[("MODE", "fast")]);
        server
            .give("x", &GivenValues { arguments, variables, ..Default::default() })
            .expect("given");
        let words = ["run", "-i", "--rm", "-e", "MODE", "images.example/x:1.0", "--units"];
        assert_eq!(server.entry["args"], json!(words));
        assert_eq!(server.entry["env"], json!({"MODE": "fast"}));
    }

    #[test]
    fn headers_are_for_addresses_and_the_rest_for_what_is_started() {
        let mut started = package("npm", "files");
        let headers = pairs(&[("X-Mode", "fast")]);
        let given = GivenValues { headers, ..GivenValues::default() };
        let why = started.give("x", &given).expect_err("no headers").to_string();
        assert!(why.contains("takes no headers"), "{why}");
        let mut far = package("npm", "files");
        far.entry = json!({"type": "http", "url": "https://h.example/mcp"});
        far.give("x", &given).expect("headers");
        assert_eq!(far.entry["headers"], json!({"X-Mode": "fast"}));
        let given = GivenValues { arguments: vec!["a".to_owned()], ..GivenValues::default() };
        let why = far.give("x", &given).expect_err("no arguments").to_string();
        assert!(why.contains("reached at an address"), "{why}");
    }
}
