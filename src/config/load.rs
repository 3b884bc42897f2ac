//! Loads one or several files into one configuration.
//!
//! A problem with a whole file (it cannot be read or parsed, a server is defined twice) makes
//! loading fail. A problem with one entry leaves out that server and those that depend on it; the
//! caller decides whether to use the rest: [`Loaded::config`] holds it, [`Loaded::complete`]
//! refuses it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::diagnostics::closest;
use crate::file::{self, FileContent, ParsedServer};
use crate::source::SourceText;
use crate::{
    Diagnostic, Environment, InputConfig, McpConfig, Origins, ServerConfig, Severity, graph,
};
use base::ServerName;
use base::pointer::child_pointer;

/// A configuration and everything found while loading it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// What can be used now.
    pub config: McpConfig,
    /// Every problem, in file order, including the errors of servers that were left out.
    pub diagnostics: Vec<Diagnostic>,
    /// Inputs that have to be answered first. Put the answers into [`Environment::inputs`] and
    /// load again.
    pub needs: Vec<InputNeed>,
    /// Servers of the files that are not in `config`: their entry has an error, waits for an
    /// input, or depends on one that does.
    pub left_out: Vec<ServerName>,
    /// Those of `left_out` that wait only for an input, or for a server that does, each with its
    /// index among all usable servers; an input is replaced by a placeholder and its server held.
    pub waiting: Vec<(usize, ServerConfig)>,
    /// Where each value comes from.
    pub origins: Arc<Origins>,
    /// Every file that was read, including env files: the files to watch.
    pub reads: Vec<PathBuf>,
}

/// An input without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputNeed {
    /// The input.
    pub input: InputConfig,
    /// Servers that wait for it.
    pub servers: Vec<ServerName>,
    /// The missing answer as an error: where it is used first, and how to answer it.
    pub problem: Diagnostic,
}

impl Loaded {
    /// The configuration, if there are no errors and no unanswered inputs.
    ///
    /// # Errors
    /// All diagnostics when one of them is an error or an input has no answer; the inputs are
    /// then among them, each as an error that names its variable.
    pub fn complete(self) -> Result<McpConfig, Vec<Diagnostic>> {
        let mut all = self.diagnostics;
        all.extend(self.needs.into_iter().map(|need| need.problem));
        if all.iter().any(Diagnostic::is_error) { Err(all) } else { Ok(self.config) }
    }

    /// The same including the waiting servers, in their order; those that use an unanswered input
    /// must not be started ([`crate::Hold::Input`]).
    #[must_use]
    pub fn with_waiting(mut self) -> Self {
        let waits: HashSet<ServerName> = self.waiting.iter().map(|(_, s)| s.name.clone()).collect();
        self.left_out.retain(|name| !waits.contains(name));
        self.diagnostics.retain(|d| {
            d.rule != "config/left-out"
                || d.server.as_ref().is_none_or(|name| !waits.contains(name))
        });
        for (at, server) in std::mem::take(&mut self.waiting) {
            self.config.servers.shift_insert(at, server.name.clone(), server);
        }
        self
    }

    /// The servers that were left out, each with the problem that caused it.
    pub fn reasons(&self) -> Vec<(ServerName, Diagnostic)> {
        let why = |name: &ServerName| {
            let of = |d: &&Diagnostic| d.server.as_ref() == Some(name);
            let own = self.diagnostics.iter().filter(of);
            own.clone()
                .find(|d| d.is_error())
                .or_else(|| {
                    let need = self.needs.iter().find(|need| need.servers.contains(name));
                    need.map(|need| &need.problem)
                })
                // Left out because of a dependency.
                .or_else(|| own.clone().next())
                .cloned()
        };
        let unknown = || Diagnostic::new("config/left-out", Severity::Error, "it cannot be used");
        let all = self.left_out.iter();
        all.map(|name| (name.clone(), why(name).unwrap_or_else(unknown))).collect()
    }

    /// Whether an entry has an error.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Loads files in order of precedence, the last one highest: its entries entirely replace those of
/// the same name.
///
/// # Errors
/// Every diagnostic when nothing can be used: a file that cannot be read or parsed, a server
/// defined twice, or no file at all.
pub fn load(files: &[PathBuf], env: &Environment) -> Result<Loaded, Vec<Diagnostic>> {
    let contents = files.iter().map(|file| match SourceText::read(file) {
        Ok(source) => file::read(&source, env),
        Err(problem) => {
            FileContent { diagnostics: vec![*problem], fatal: true, ..FileContent::default() }
        }
    });
    merge(files, contents.collect())
}

/// Loads one configuration from text; `file` is the name shown, its folder the base of paths.
///
/// # Errors
/// As [`load`].
pub fn load_text(file: &Path, text: &str, env: &Environment) -> Result<Loaded, Vec<Diagnostic>> {
    let content = file::read(&SourceText::new(file, text), env);
    merge(&[file.to_path_buf()], vec![content])
}

fn merge(files: &[PathBuf], contents: Vec<FileContent>) -> Result<Loaded, Vec<Diagnostic>> {
    if files.is_empty() {
        let mut nothing =
            Diagnostic::new("config/read", Severity::Error, "no configuration was named or found");
        nothing.help = Some("write an mcp.json, or run `mcpdeck -- COMMAND ARGS...`".to_owned());
        return Err(vec![nothing]);
    }
    let fatal = contents.iter().any(|content| content.fatal);
    let mut out = Loaded::default();
    let mut origins = Origins::new();
    out.config.files = files.to_vec();
    let mut servers: IndexMap<ServerName, ParsedServer> = IndexMap::new();
    let mut inputs: IndexMap<String, InputConfig> = IndexMap::new();
    for content in contents {
        let mut replaced: HashSet<String> = HashSet::new();
        for server in content.servers {
            if let Some(earlier) = servers.get(&server.name) {
                out.diagnostics.push(overridden(earlier, &server));
                replaced.insert(child_pointer("/servers", server.name.as_str()));
            }
            servers.insert(server.name.clone(), server);
        }
        if !replaced.is_empty() {
            origins.retain(|pointer, _| !replaced.contains(entry_of(pointer)));
        }
        inputs.extend(content.inputs.into_iter().map(|input| (input.id.clone(), input)));
        out.config.reload = content.reload.unwrap_or(out.config.reload);
        origins.extend(content.origins);
        out.reads.extend(content.reads);
        out.diagnostics.extend(content.diagnostics);
    }
    if fatal {
        return Err(sorted(out.diagnostics, files));
    }
    out.origins = Arc::new(origins);
    out.reads.sort();
    out.reads.dedup();
    out.needs = needs(&servers, &inputs);
    out.config.inputs = inputs.into_values().collect();
    let whole = sound_servers(&servers, &mut out.diagnostics);
    let is_held = |name: &ServerName| {
        let config = servers.get(name).and_then(|server| server.config.as_ref());
        config.is_some_and(|config| config.hold.is_some())
    };
    let mut ready = whole.clone();
    ready.retain(|name| !is_held(name));
    leave_out_dependents(&servers, &mut ready, &mut out.diagnostics);
    for (name, server) in servers {
        match server.config.filter(|_| whole.contains(&name)) {
            Some(config) if ready.contains(&name) => {
                out.config.servers.insert(name, config);
                continue;
            }
            Some(config) => {
                let at = out.config.servers.len() + out.waiting.len();
                out.waiting.push((at, Arc::unwrap_or_clone(config)));
            }
            None => {}
        }
        out.left_out.push(name);
    }
    out.diagnostics = sorted(out.diagnostics, files);
    out.config.warnings = out.diagnostics.iter().filter(|d| !d.is_error()).cloned().collect();
    Ok(out)
}

/// The part of a pointer that names the entry: `/servers/NAME`.
fn entry_of(pointer: &str) -> &str {
    let end = pointer.match_indices('/').nth(2).map_or(pointer.len(), |(at, _)| at);
    pointer.get(..end).unwrap_or(pointer)
}

/// Sorts by file, then by position.
fn sorted(mut all: Vec<Diagnostic>, files: &[PathBuf]) -> Vec<Diagnostic> {
    let rank = |d: &Diagnostic| files.iter().position(|f| *f == d.at.file).unwrap_or(files.len());
    all.sort_by_key(|d| (rank(d), d.at.clone()));
    all
}

fn overridden(earlier: &ParsedServer, later: &ParsedServer) -> Diagnostic {
    let message = format!("`{}` replaces the entry of {}", later.name, earlier.key.at());
    later.key.problem("config/overridden", Severity::Note, message)
}

fn needs(
    servers: &IndexMap<ServerName, ParsedServer>,
    inputs: &IndexMap<String, InputConfig>,
) -> Vec<InputNeed> {
    let mut out: Vec<InputNeed> = Vec::new();
    for server in servers.values() {
        for (id, problem) in &server.unanswered {
            let Some(input) = inputs.get(id) else { continue };
            match out.iter_mut().find(|need| need.input.id == *id) {
                Some(need) if need.servers.contains(&server.name) => {}
                Some(need) => need.servers.push(server.name.clone()),
                None => out.push(InputNeed {
                    input: input.clone(),
                    servers: vec![server.name.clone()],
                    problem: problem.clone(),
                }),
            }
        }
    }
    out
}

/// The servers whose entry and dependencies are usable; reports unusable dependencies.
fn sound_servers(
    servers: &IndexMap<ServerName, ParsedServer>,
    out: &mut Vec<Diagnostic>,
) -> HashSet<ServerName> {
    let usable = servers.values().filter(|server| server.config.is_some());
    let mut sound: HashSet<ServerName> = usable.map(|server| server.name.clone()).collect();
    let mut broken: HashSet<ServerName> = HashSet::new();
    for server in servers.values() {
        for (needed, place) in &server.dependencies {
            let message = match servers.get(needed) {
                None => format!("`{}` depends on `{needed}`, which is not defined", server.name),
                Some(on) if on.disabled && !server.disabled => {
                    format!("`{}` depends on `{needed}`, which is disabled", server.name)
                }
                Some(_) => continue,
            };
            let severity = if server.disabled { Severity::Warning } else { Severity::Error };
            let mut problem = place.problem("config/dependency", severity, message);
            let known = servers.keys().map(ServerName::as_str);
            if !servers.contains_key(needed) {
                problem.help(match closest(needed.as_str(), known) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "define it, or remove it from the dependencies".to_owned(),
                });
            }
            out.push(problem);
            broken.insert(server.name.clone());
        }
    }
    broken.extend(report_cycles(servers, out));
    sound.retain(|name| !broken.contains(name));
    leave_out_dependents(servers, &mut sound, out);
    sound
}

fn report_cycles(
    servers: &IndexMap<ServerName, ParsedServer>,
    out: &mut Vec<Diagnostic>,
) -> Vec<ServerName> {
    let edges: Vec<(ServerName, Vec<ServerName>)> = servers
        .values()
        .map(|s| (s.name.clone(), s.dependencies.iter().map(|(n, _)| n.clone()).collect()))
        .collect();
    let cycles = graph::dependency_cycles(&edges);
    for cycle in &cycles {
        let Some(first) = cycle.first().and_then(|name| servers.get(name)) else { continue };
        let next = cycle.get(1).or(cycle.first());
        let place = first
            .dependencies
            .iter()
            .find(|(name, _)| Some(name) == next)
            .map_or(&first.key, |(_, place)| place);
        let message = format!("the dependencies form a cycle: {}", graph::cycle_in_words(cycle));
        let mut problem = place.problem("config/cycle", Severity::Error, message);
        problem.help = Some("remove one of these dependencies".to_owned());
        out.push(problem);
    }
    cycles.into_iter().flatten().collect()
}

/// Removes every server that depends, directly or not, on one that is left out.
fn leave_out_dependents(
    servers: &IndexMap<ServerName, ParsedServer>,
    sound: &mut HashSet<ServerName>,
    out: &mut Vec<Diagnostic>,
) {
    let mut dependents: HashMap<&ServerName, Vec<&ParsedServer>> = HashMap::new();
    for server in servers.values() {
        for (needed, _) in &server.dependencies {
            dependents.entry(needed).or_default().push(server);
        }
    }
    let gone = servers.keys().filter(|name| !sound.contains(*name));
    let mut lost: VecDeque<&ServerName> = gone.collect();
    while let Some(needed) = lost.pop_front() {
        for server in dependents.remove(needed).into_iter().flatten() {
            let place = server.dependencies.iter().find(|(name, _)| name == needed);
            let Some((_, place)) = place.filter(|_| sound.remove(&server.name)) else { continue };
            let message = format!("`{}` is left out: it depends on `{needed}`", server.name);
            out.push(place.problem("config/left-out", Severity::Note, message));
            lost.push_back(&server.name);
        }
    }
}
