//! What of an entry is approved: everything that decides what runs and what it is given.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::base::secret::Secret;
use crate::config::diagnostics::child;
use crate::config::mask::{masked_address, masked_arguments};
use crate::config::origin::Origins;
use crate::config::{ServerConfig, TransportConfig};

/// The approved content of one server: what is shown, and hashes of what is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// `stdio`, `http`, `sse` or `websocket`.
    pub kind: String,
    /// Program or address, as it is written where it depends on the user's variables.
    pub target: String,
    /// Arguments in order, likewise; parts that look secret are masked.
    pub args: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Whether the whole environment is handed over.
    pub inherit_env: bool,
    /// Build command of `dev`, which is run too.
    #[serde(default)]
    pub build: Vec<String>,
    /// Salted hashes of the environment's values, by name.
    pub env: BTreeMap<String, String>,
    /// Salted hashes of the headers' values, by name.
    pub headers: BTreeMap<String, String>,
    /// Salted hash of everything, masked parts included.
    pub hash: String,
}

impl Content {
    /// The content of an entry.
    pub(super) fn of(server: &ServerConfig, origins: &Origins, salt: &str) -> Self {
        let base = child("/servers", server.name.as_str());
        let word = |key: &str, value: &str| {
            let written = origins.get(&child(&base, key)).and_then(|o| o.template());
            written.unwrap_or(value).to_owned()
        };
        let mut out = Self { kind: server.transport.kind().as_str().to_owned(), ..Self::default() };
        let mut args = Vec::new();
        match &server.transport {
            TransportConfig::Stdio(stdio) => {
                out.target = word("command", &stdio.command);
                args = stdio
                    .args
                    .iter()
                    .enumerate()
                    .map(|(i, arg)| {
                        let at = format!("{}/{i}", child(&base, "args"));
                        let written = origins.get(&at).and_then(|o| o.template());
                        written.unwrap_or(arg).to_owned()
                    })
                    .collect();
                let cwd = stdio.cwd.as_deref().map(|p| p.display().to_string());
                out.cwd = cwd.map(|cwd| word("cwd", &cwd)).unwrap_or_default();
                out.inherit_env = stdio.inherit_env;
                out.env = hashes("env", &stdio.env, (origins, &base), salt);
            }
            TransportConfig::Http(http)
            | TransportConfig::Sse(http)
            | TransportConfig::WebSocket(http) => {
                out.target = word("url", http.url.as_str());
                out.headers = hashes("headers", &http.headers, (origins, &base), salt);
            }
        }
        out.build = server.dev.as_ref().and_then(|dev| dev.build.clone()).unwrap_or_default();
        out.args.clone_from(&args);
        out.hash = out.digest(salt);
        // Masked only after the hash, which has to see a swapped secret.
        out.args = masked_arguments(args);
        out.target = masked_address(&out.target);
        out
    }

    fn digest(&self, salt: &str) -> String {
        let mut parts: Vec<&str> = vec![
            salt,
            &self.kind,
            &self.target,
            &self.cwd,
            if self.inherit_env { "inherit" } else { "clear" },
        ];
        let lists: [(&str, &[String]); 2] = [("args", &self.args), ("build", &self.build)];
        // Each with its length: an argument may be called like what follows the arguments.
        let lengths = [&self.args, &self.build].map(|list| list.len().to_string());
        for ((name, list), length) in lists.into_iter().zip(&lengths) {
            parts.extend([name, length]);
            parts.extend(list.iter().map(String::as_str));
        }
        for (name, map) in [("env", &self.env), ("headers", &self.headers)] {
            parts.push(name);
            parts.extend(map.iter().flat_map(|(k, v)| [k.as_str(), v.as_str()]));
        }
        digest(&parts)
    }
}

fn hashes(
    of: &str,
    values: &indexmap::IndexMap<String, Secret>,
    (origins, base): (&Origins, &str),
    salt: &str,
) -> BTreeMap<String, String> {
    let pointer = child(base, of);
    values
        .iter()
        .map(|(name, value)| {
            let written = origins.get(&child(&pointer, name)).and_then(|o| o.template());
            let kind = if written.is_some() { "written" } else { "value" };
            let value = written.unwrap_or(value.expose());
            (name.clone(), digest(&[salt, of, name, kind, value]))
        })
        .collect()
}

/// A hash of words that no shifting of their borders can keep equal.
fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    super::hex(&hasher.finalize())
}
