//! From the arguments to a configuration: a file, several, a command, a URL, or what is found.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::args::{Common, OneServer};
use crate::base::ServerName;
use crate::base::secret::{Redactor, Secret};
use crate::config::{
    Diagnostic, Environment, Loaded, McpConfig, ServerConfig, Severity, discover, load,
};
use crate::deck::Masks;
use crate::deck::trust::TrustStore;
use crate::telemetry::Telemetry;

/// Servers of the files that cannot be used, and why.
pub type LeftOut = Vec<(ServerName, Diagnostic)>;

/// What was loaded.
pub struct Source {
    /// The servers that can be used.
    pub config: McpConfig,
    /// Every problem; errors only of servers that were left out.
    pub diagnostics: Vec<Diagnostic>,
    /// Servers of the file that cannot be used, and why.
    pub left_out: LeftOut,
    /// The file to name in reports: the last, which wins.
    pub path: Option<PathBuf>,
}

/// Loads what the arguments ask for, when all of it can be used.
///
/// # Errors
/// Every diagnostic, when one of them is an error or an input has no answer.
pub fn source(common: &Common, one: &OneServer) -> Result<Source, Vec<Diagnostic>> {
    let (loaded, path) = loaded(common, one)?;
    let diagnostics = loaded.diagnostics.clone();
    let config = loaded.complete()?;
    Ok(Source { config, diagnostics, left_out: Vec::new(), path })
}

/// Loads what the arguments ask for, as far as it can be used: a server whose entry is wrong costs
/// the others nothing.
///
/// # Errors
/// Every diagnostic, when nothing can be used.
pub fn usable(common: &Common, one: &OneServer) -> Result<Source, Vec<Diagnostic>> {
    let (loaded, path) = loaded(common, one)?;
    let left_out = loaded.reasons();
    let nothing = loaded.config.servers.is_empty() && !left_out.is_empty();
    // An error that is nobody's, such as an input that is declared wrongly, is everybody's.
    let everybodys = loaded.diagnostics.iter().any(|d| d.is_error() && d.server.is_none());
    let diagnostics = loaded.diagnostics.clone();
    let config = if nothing || everybodys { loaded.complete()? } else { loaded.config };
    Ok(Source { config, diagnostics, left_out, path })
}

fn loaded(common: &Common, one: &OneServer) -> Result<(Loaded, Option<PathBuf>), Vec<Diagnostic>> {
    let env = environment(common)?;
    let (loaded, path) = if let Some(loaded) = one.load(&env) {
        (loaded?, None)
    } else {
        let files = files(common, &env);
        (load_files(&files, &env)?, files.last().cloned())
    };
    if common.require_trust {
        trusted(&loaded, &env)?;
    }
    Ok((loaded, path))
}

/// Loads files; where there is none, says where one was looked for.
///
/// # Errors
/// Every diagnostic when nothing can be used.
pub fn load_files(files: &[PathBuf], env: &Environment) -> Result<Loaded, Vec<Diagnostic>> {
    let mut loaded = load(files, env);
    for problem in loaded.as_mut().err().into_iter().flatten() {
        if problem.rule == "config/read" && problem.help.is_none() {
            problem.help = Some(neighbours(&problem.at.file, env));
        }
    }
    if files.is_empty()
        && let Err(problems) = &mut loaded
        && let Some(nothing) = problems.first_mut()
    {
        nothing.help = Some(format!(
            "looked for {}; write one, name a file with --config, take over what other programs \
             have with `mcpdeck import`, or start one server with `-- COMMAND ARGS...`",
            looked_for(env)
        ));
    }
    loaded
}

/// Where a file was looked for, and the one that was meant perhaps.
fn neighbours(file: &Path, env: &Environment) -> String {
    let file = env.absolute(file);
    let folder = file.parent().unwrap_or(&file);
    let shown = crate::base::text::SafeText::line(&folder.display().to_string());
    let Ok(entries) = std::fs::read_dir(folder) else {
        return format!("there is no folder {shown}");
    };
    let wanted = file.file_name().unwrap_or_default().to_string_lossy();
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let alike = names
        .filter(|name| Path::new(name).extension() == file.extension())
        .map(|name| (strsim::jaro_winkler(&wanted, &name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score > 0.6);
    match alike {
        Some((_, name)) => {
            format!("there is {} in {shown}", crate::base::text::SafeText::line(&name))
        }
        None => format!("it was looked for in {shown}"),
    }
}

/// The places of a configuration, in words.
pub fn looked_for(env: &Environment) -> String {
    let places = discover::candidates(env).into_iter().map(|candidate| {
        let path = candidate.path.display().to_string();
        let path = if candidate.path.is_absolute() { path } else { format!("./{path}") };
        crate::base::text::SafeText::line(&path).as_str().to_owned()
    });
    places.collect::<Vec<_>>().join(", ")
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
        Ok(Source {
            config: crate::demo::config(&exe),
            diagnostics: Vec::new(),
            left_out: Vec::new(),
            path: None,
        })
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
    env.sources = crate::deck::policy::sources(&env);
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
        let left_out = std::mem::take(&mut self.left_out);
        let mut keep: Vec<ServerName> = Vec::new();
        let mut open: Vec<ServerName> = Vec::new();
        for name in names {
            let name = ServerName::new(name);
            if let Some((_, why)) = left_out.iter().find(|(left, _)| *left == name) {
                return Err(format!("`{name}` cannot be used: {}", in_a_line(why)));
            }
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
    if let Some((_, known)) = near {
        return format!("there is no server `{name}`; did you mean `{known}`?");
    }
    let mut names: Vec<&str> = config.servers.keys().map(ServerName::as_str).collect();
    let more = if names.len() > 8 { ", ..." } else { "" };
    names.truncate(8);
    let names = crate::base::text::SafeText::line(&names.join(", "));
    format!("there is no server `{name}`; there are {names}{more}")
}

/// A problem with its place and what to do, on one line.
pub fn in_a_line(problem: &Diagnostic) -> String {
    let place = problem.at.to_string();
    let place = if place.is_empty() { place } else { format!(" ({place})") };
    let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{}{place}{help}", problem.message)
}

/// Most values that are kept out of the log file; of more, the newest.
const SECRETS: usize = 2_000;

/// Keeps the secrets of each configuration out of the log file.
pub fn masks(telemetry: &Telemetry) -> Masks {
    let masks = telemetry.masks();
    let known: Mutex<Vec<Secret>> = Mutex::default();
    Arc::new(move |config: &McpConfig| {
        let mut known = known.lock();
        // A server that is being replaced may still speak of the values it was given.
        for secret in config.servers.values().flat_map(ServerConfig::secrets) {
            if !known.contains(&secret) {
                known.push(secret);
            }
        }
        let most = known.len().saturating_sub(SECRETS);
        known.drain(..most);
        masks.set(Redactor::new(known.iter().cloned()));
    })
}
