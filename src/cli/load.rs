//! From the arguments to a configuration: a file, several, a command, a URL, or what is found.

use std::path::PathBuf;

use super::args::{Common, OneServer};
use crate::config::trust::TrustStore;
use crate::config::{
    Diagnostic, Environment, Loaded, McpConfig, ServerName, Severity, discover, load,
};
use crate::secret::{Redactor, Secret};

/// What was loaded.
pub struct Source {
    /// The servers that can be used.
    pub config: McpConfig,
    /// Every problem; none of them an error.
    pub diagnostics: Vec<Diagnostic>,
    /// The file to name in reports: the last, which wins.
    pub path: Option<PathBuf>,
}

/// Loads what the arguments ask for.
///
/// # Errors
/// Every diagnostic, when one of them is an error or an input has no answer.
pub fn source(common: &Common, one: &OneServer) -> Result<Source, Vec<Diagnostic>> {
    let env = environment(common)?;
    let (loaded, path) = if !one.command.is_empty() {
        (discover::single_command(&one.command, &env)?, None)
    } else if let Some(url) = &one.url {
        (discover::single_url(url, &env)?, None)
    } else {
        let files = files(common, &env);
        (load(&files, &env)?, files.last().cloned())
    };
    if common.require_trust {
        trusted(&loaded, &env)?;
    }
    let diagnostics = loaded.diagnostics.clone();
    let config = loaded.complete()?;
    Ok(Source { config, diagnostics, path })
}

/// The embedded demo servers, as children of this program.
///
/// # Errors
/// When this build has none, or the program does not know its own path.
pub fn demo() -> Result<Source, Vec<Diagnostic>> {
    let refuse = |message: &str| vec![Diagnostic::new("config/demo", Severity::Error, message)];
    #[cfg(feature = "demo")]
    {
        let exe = std::env::current_exe().map_err(|error| refuse(&error.to_string()))?;
        Ok(Source { config: crate::demo::config(&exe), diagnostics: Vec::new(), path: None })
    }
    #[cfg(not(feature = "demo"))]
    Err(refuse("this build was made without the demo servers"))
}

/// Refuses what was not approved in the dashboard (`--require-trust`); nothing is started then.
fn trusted(loaded: &Loaded, env: &Environment) -> Result<(), Vec<Diagnostic>> {
    let problems = TrustStore::of(env).map_or_else(
        || {
            let message = "there is no folder in which approvals could be kept";
            vec![Diagnostic::new("start/untrusted", Severity::Error, message)]
        },
        |store| store.diagnostics(loaded),
    );
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// The files to read: those named, or the one found here.
pub fn files(common: &Common, env: &Environment) -> Vec<PathBuf> {
    if common.config.is_empty() {
        discover::discover(env).into_iter().collect()
    } else {
        common.config.clone()
    }
}

/// The surroundings of this process, and the variables of `--env-file`.
///
/// # Errors
/// When such a file cannot be read or has a line that is none.
pub fn environment(common: &Common) -> Result<Environment, Vec<Diagnostic>> {
    let mut env = Environment::of_process();
    for file in &common.env_file {
        env.add_file(file)?;
    }
    Ok(env)
}

/// Masks every secret of a configuration.
pub fn redactor(config: &McpConfig) -> Redactor {
    let secrets: Vec<Secret> =
        config.servers.values().flat_map(crate::config::ServerConfig::secrets).collect();
    Redactor::new(secrets)
}

impl Source {
    /// Keeps the named servers and what they depend on, all when none is named.
    ///
    /// # Errors
    /// Names a server that does not exist, with the nearest that does.
    pub fn narrow(&mut self, names: &[String]) -> Result<(), String> {
        if names.is_empty() {
            return Ok(());
        }
        let mut keep: Vec<ServerName> = Vec::new();
        let mut open: Vec<ServerName> = Vec::new();
        for name in names {
            let name = ServerName::new(name);
            if !self.config.servers.contains_key(&name) {
                return Err(unknown(&self.config, name.as_str()));
            }
            open.push(name);
        }
        while let Some(name) = open.pop() {
            if keep.contains(&name) {
                continue;
            }
            if let Some(server) = self.config.servers.get(&name) {
                open.extend(server.dependencies.iter().cloned());
            }
            keep.push(name);
        }
        self.config.servers.retain(|name, _| keep.contains(name));
        Ok(())
    }
}

/// Says that there is no such server.
pub fn unknown(config: &McpConfig, name: &str) -> String {
    let near = config
        .servers
        .keys()
        .map(|known| (strsim::jaro_winkler(name, known.as_str()), known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score > 0.7);
    match near {
        Some((_, known)) => format!("there is no server `{name}`; did you mean `{known}`?"),
        None => format!("there is no server `{name}`"),
    }
}
