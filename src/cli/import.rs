//! `import`: the servers of other programs, printed as one `mcp.json`. Writes no file; a literal value
//! that may be secret becomes a reference to a variable.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::args::ImportArgs;
use super::configuration::problems;
use super::exit::Exit;
use super::output;
use crate::config::import::{Host, Imported, places, read};
use crate::config::{Diagnostic, Environment, mask};
use crate::text::{SafeText, json as safe};

/// `mcpdeck import`
pub fn import(args: &ImportArgs) -> Exit {
    let env = Environment::of_process();
    let files: Vec<(Option<Host>, PathBuf)> = if args.files.is_empty() {
        places(&env).into_iter().filter(|p| p.exists).map(|p| (Some(p.host), p.path)).collect()
    } else {
        args.files.iter().map(|path| (Host::of_path(path), path.clone())).collect()
    };
    if args.list {
        let mut out = String::new();
        for (host, path) in &files {
            let name = host.map_or("unknown", Host::name);
            let _ = writeln!(out, "{name:16} {}", SafeText::line(&path.display().to_string()));
        }
        return output::print(&out, Exit::Ok);
    }
    if files.is_empty() {
        return output::refuse("no configuration of another program was found; name a file");
    }
    let mut taken = Taken::default();
    let mut exit = Exit::Ok;
    for (host, path) in &files {
        match read_any(*host, path, &env) {
            Ok(found) => taken.add(found),
            // A known place without servers is nothing wrong; a named file is.
            Err(_) if args.files.is_empty() => {}
            Err(diagnostics) => exit = problems(&diagnostics),
        }
    }
    taken.print(exit)
}

/// Reads a file; one that nothing is known of is tried as the common dialects.
fn read_any(
    host: Option<Host>,
    path: &Path,
    env: &Environment,
) -> Result<Imported, Vec<Diagnostic>> {
    if let Some(host) = host {
        return read(host, path, env);
    }
    read(Host::ClaudeDesktop, path, env).or_else(|first| {
        [Host::VsCode, Host::Zed].into_iter().find_map(|h| read(h, path, env).ok()).ok_or(first)
    })
}

/// What was taken over so far.
#[derive(Default)]
struct Taken {
    servers: Map<String, Value>,
    inputs: Vec<Value>,
    notes: Vec<String>,
    unset: Vec<String>,
}

impl Taken {
    /// Adds servers under names that are free; equal ones once.
    fn add(&mut self, found: Imported) {
        for (name, mut entry) in found.servers {
            for key in ["env", "headers"] {
                let values = entry.get_mut(key).and_then(Value::as_object_mut);
                for (variable, value) in values.into_iter().flatten() {
                    refer(variable, value, &mut self.unset);
                }
            }
            if self.servers.values().any(|other| *other == entry) {
                continue;
            }
            let mut free = name.as_str().to_owned();
            let mut count = 2;
            while self.servers.contains_key(&free) {
                free = format!("{name}-{count}");
                count += 1;
            }
            self.servers.insert(free, entry);
        }
        for input in found.inputs {
            if !self.inputs.contains(&input) {
                self.inputs.push(input);
            }
        }
        self.notes.extend(found.notes);
    }

    fn print(mut self, exit: Exit) -> Exit {
        for note in &self.notes {
            output::complain(&SafeText::line(note));
        }
        if !self.unset.is_empty() {
            self.unset.sort();
            self.unset.dedup();
            output::complain(&format!(
                "secrets were replaced by references; set {} before the servers start",
                self.unset.join(", ")
            ));
        }
        let mut file = json!({"servers": self.servers});
        if !self.inputs.is_empty() {
            file["inputs"] = Value::Array(self.inputs);
        }
        output::print(&(safe::pretty(&file) + "\n"), exit)
    }
}

/// Replaces a literal value that is called like a secret by a reference.
fn refer(name: &str, value: &mut Value, unset: &mut Vec<String>) {
    let Some(text) = value.as_str() else { return };
    if text.is_empty() || text.contains("${") || !mask::is_secret_name(name) {
        return;
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let variable: String = name.chars().map(plain).collect();
    *value = Value::String(format!("${{{variable}}}"));
    unset.push(variable);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerName;

    #[test]
    fn secrets_of_imported_servers_become_references_and_equal_servers_come_once() {
        let entry = json!({"command": "x", "env": {"API_TOKEN": "s3cret", "MODE": "fast",
            "OTHER_TOKEN": "${OTHER}"}});
        let found =
            Imported { servers: vec![(ServerName::new("a"), entry)], ..Imported::default() };
        let mut taken = Taken::default();
        taken.add(found.clone());
        taken.add(found);
        let text = Value::Object(taken.servers.clone()).to_string();
        assert!(!text.contains("s3cret"), "{text}");
        assert_eq!(taken.servers["a"]["env"]["API_TOKEN"], "${API_TOKEN}");
        assert_eq!(taken.servers["a"]["env"]["OTHER_TOKEN"], "${OTHER}");
        assert_eq!(taken.servers.len(), 1, "{text}");
    }
}
