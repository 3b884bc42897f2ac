//! From the arguments to a configuration: a file, several, a command, a URL, or what is found.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, Parser};
use indexmap::IndexMap;

use super::args::{Cli, Common, OneServer, Verb};
use super::output::{self, ExitStatus, problems};
use crate::telemetry::Telemetry;
use ::deck::{Masks, TrustStore};
use base::text::{nearest, quoted};
use base::{SafeText, Secret, ServerName};
use config::{
    Diagnostic, Environment, Loaded, McpConfig, ServerConfig, Severity, candidates, discover, load,
};
use host::Startup;

/// Servers of the files that cannot be used, and why.
pub type LeftOut = Vec<(ServerName, Diagnostic)>;

/// What was loaded.
pub struct LoadedConfig {
    /// The servers that can be used.
    pub config: McpConfig,
    /// Every problem; errors only of servers that were left out.
    pub diagnostics: Vec<Diagnostic>,
    /// Servers of the file that cannot be used, and why.
    pub left_out: LeftOut,
    /// The file to name in reports: the last, which wins.
    pub path: Option<PathBuf>,
}

/// Loads what the arguments name. A server with an invalid entry is left out, unless all servers
/// must start.
///
/// # Errors
/// Every diagnostic, when nothing can be used.
pub fn source(
    common: &Common,
    one: &OneServer,
    startup: Startup,
) -> Result<LoadedConfig, Vec<Diagnostic>> {
    if common.demo {
        return demo();
    }
    let (loaded, path) = loaded(common, one)?;
    let left_out = loaded.reasons();
    let nothing = loaded.config.servers.is_empty() && !left_out.is_empty();
    // An error of no single server, such as an invalid input declaration, affects all of them.
    let is_global = loaded.diagnostics.iter().any(|d| d.is_error() && d.server.is_none());
    let diagnostics = loaded.diagnostics.clone();
    let strict = startup == Startup::All || nothing || is_global;
    let config = if strict { loaded.complete()? } else { loaded.config };
    Ok(LoadedConfig { config, diagnostics, left_out, path })
}

/// As [`source`], where a server that cannot be used does not affect the others.
///
/// # Errors
/// As [`source`].
pub fn usable(common: &Common, one: &OneServer) -> Result<LoadedConfig, Vec<Diagnostic>> {
    source(common, one, Startup::Background)
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

/// Loads files; without any, the error lists the places where one was looked for.
///
/// # Errors
/// Every diagnostic when nothing can be used.
pub fn load_files(files: &[PathBuf], env: &Environment) -> Result<Loaded, Vec<Diagnostic>> {
    let mut loaded = load(files, env);
    for problem in loaded.as_mut().err().into_iter().flatten() {
        if problem.rule == "config/read" && problem.help.is_none() {
            problem.help = neighbour(&problem.at.file, env);
        }
        let kind = ::deck::kind_of_file(&problem.at.file);
        let other = kind.filter(|kind| *kind != ::deck::FileKind::Configuration);
        if let Some(kind) = other {
            problem.help = Some(format!("this is {kind}"));
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

/// A file of a similar name in the same folder, or one that has the usual name.
fn neighbour(file: &Path, env: &Environment) -> Option<String> {
    let file = Some(env.absolute(file)).filter(|file| !file.exists())?;
    let folder = file.parent()?;
    let is_json = |name: &String| {
        let extension = Path::new(name).extension().and_then(|end| end.to_str());
        extension.is_some_and(|end| matches!(end, "json" | "jsonc")) && folder.join(name).is_file()
    };
    let names = std::fs::read_dir(folder).ok()?.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_json);
    let names: Vec<String> = names.collect();
    let own = file.file_name()?.to_string_lossy();
    let usual = |name: &&String| matches!(name.as_str(), "mcp.json" | ".mcp.json");
    let near = nearest(&own, &names, 0.85).or_else(|| names.iter().find(usual))?;
    let text = format!("did you mean `{near}`? It is in {}", folder.display());
    Some(SafeText::line(&text).to_string())
}

/// The places where a configuration is looked for, as a list.
pub fn looked_for(env: &Environment) -> String {
    let places = candidates(env).into_iter().map(|candidate| {
        let path = candidate.path.display().to_string();
        let path = if candidate.path.is_absolute() { path } else { format!("./{path}") };
        SafeText::line(&path).to_string()
    });
    places.collect::<Vec<_>>().join(", ")
}

/// The embedded demo servers, as children of this program.
///
/// # Errors
/// When this build has none, or the program does not know its own path.
pub fn demo() -> Result<LoadedConfig, Vec<Diagnostic>> {
    let refuse = |message: &str| vec![Diagnostic::new("config/demo", Severity::Error, message)];
    #[cfg(feature = "demo")]
    {
        let exe = std::env::current_exe().map_err(|error| refuse(&error.to_string()))?;
        Ok(demo::config(&exe).into())
    }
    #[cfg(not(feature = "demo"))]
    Err(refuse("this build was made without the demo servers"))
}

/// Refuses a configuration with a server that was not approved (`--require-trust`).
fn trusted(loaded: &Loaded, env: &Environment) -> Result<(), Vec<Diagnostic>> {
    let message = "there is no folder in which approvals could be kept";
    let nowhere = || vec![Diagnostic::new("start/untrusted", Severity::Error, message)];
    let problems = TrustStore::from_env(env).ok_or_else(nowhere)?.diagnostics(loaded);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// The files to read: those named, or the one found here.
pub fn files(common: &Common, env: &Environment) -> Vec<PathBuf> {
    if common.config.is_empty() {
        discover(env).into_iter().collect()
    } else {
        common.config.clone()
    }
}

/// The environment of this process, and the files to read.
///
/// # Errors
/// Those of [`environment`]; they are printed here.
pub fn here(common: &Common) -> Result<(Environment, Vec<PathBuf>), ExitStatus> {
    let env = environment(common).map_err(|found| problems(&found))?;
    let files = files(common, &env);
    Ok((env, files))
}

/// The environment of this process, with the variables of `--env-file`.
///
/// # Errors
/// When such a file cannot be read or has an invalid line.
pub fn environment(common: &Common) -> Result<Environment, Vec<Diagnostic>> {
    let mut env = Environment::of_process();
    for file in &common.env_file {
        env.add_file(file)?;
    }
    env.sources = ::deck::secret_sources(&env);
    Ok(env)
}

/// Every secret of a configuration.
pub fn secrets(config: &McpConfig) -> impl Iterator<Item = Secret> {
    config.servers.values().flat_map(ServerConfig::secrets)
}

impl From<McpConfig> for LoadedConfig {
    fn from(config: McpConfig) -> Self {
        Self { config, diagnostics: Vec::new(), left_out: Vec::new(), path: None }
    }
}

impl LoadedConfig {
    /// Warns of settings without effect, those of servers that are used and of the file itself.
    pub fn warn_of_ignored_settings(&self) {
        /// The others are counted.
        const MAX_WARNINGS: usize = 8;
        let is_used = |of: &Diagnostic| match &of.server {
            Some(name) => self.config.servers.contains_key(name),
            None => true,
        };
        let ignored = self.diagnostics.iter().filter(|of| of.is_ignored_setting() && is_used(of));
        let ignored: Vec<_> = ignored.collect();
        for problem in ignored.iter().take(MAX_WARNINGS) {
            let of = problem.server.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
            output::warn(&SafeText::line(&format!("{of}{}", in_a_line(problem))));
        }
        if ignored.len() > MAX_WARNINGS {
            let more = ignored.len() - MAX_WARNINGS;
            output::warn(&format!("{more} more settings have no effect; see `mcpdeck config`"));
        }
    }

    /// Keeps the named servers and their dependencies; all when none is named.
    ///
    /// # Errors
    /// When a named server does not exist, with the nearest that does, or cannot be used.
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

/// The message for an unknown server name, with a suggestion.
pub fn unknown(config: &McpConfig, name: &str) -> String {
    let known = config.servers.keys().map(ServerName::as_str);
    if let Some(known) = nearest(name, known, 0.7) {
        return format!("there is no server `{name}`; did you mean `{known}`?");
    }
    let mut names: Vec<&str> = config.servers.keys().map(ServerName::as_str).collect();
    if names.is_empty() {
        return format!("there is no server `{name}`: the configuration has none");
    }
    let more = if names.len() > 8 { ", ..." } else { "" };
    names.truncate(8);
    let names = SafeText::line(&names.join(", "));
    format!("there is no server `{name}`; there are {names}{more}")
}

/// A problem with its place and what to do, on one line.
pub fn in_a_line(problem: &Diagnostic) -> String {
    let place = problem.at.to_string();
    let place = if place.is_empty() { place } else { format!(" ({place})") };
    let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{}{place}{help}", problem.message)
}

/// Masks the secrets of each configuration in the log file, also those of earlier ones: a server
/// that is being replaced may still print them.
#[cfg_attr(
    not(any(feature = "tui", feature = "gateway")),
    expect(dead_code, reason = "for decks that go on")
)]
pub fn masks(telemetry: &Telemetry) -> Masks {
    let redactor = telemetry.redactor().clone();
    Arc::new(move |config: &McpConfig| redactor.learn(secrets(config)))
}

// The first word of the command line when it is not a command: a configuration, the URL of a
// server, or a mistake to explain.

/// Resolves the word: a file is added to the configurations, a URL stays in place or becomes the
/// server of the command.
///
/// # Errors
/// When it is neither, or a header has no URL; suggests what may have been meant.
pub fn settle(cli: &mut Cli) -> Result<(), String> {
    if let Some(verb) = &mut cli.verb {
        return settle_verb(verb, &mut cli.common, cli.url.take());
    }
    let Some(word) = cli.url.take_if(|word| !word.contains("://")) else {
        let lost = cli.url.is_none() && !cli.given.header.is_empty();
        return if lost { Err(HEADER.to_owned()) } else { Ok(()) };
    };
    if is_file(&word) && !cli.given.header.is_empty() {
        return Err(HEADER.to_owned());
    }
    use_file(&mut cli.common, word)
}

const HEADER: &str = "--header goes with the address of a server; a file has its own headers";

/// Whether a word names a configuration: a file, or what looks like the name of one.
pub fn is_file(word: &str) -> bool {
    let path = Path::new(word);
    path.is_file() || path.extension().is_some_and(|e| e == "json" || e == "jsonc" || e == "json5")
}

fn use_file(common: &mut Common, word: String) -> Result<(), String> {
    if !is_file(&word) {
        return Err(format!("`{word}` is not a command, file or URL; {}", meant(&word)));
    }
    if common.demo {
        return Err(format!("either --demo or `{word}`: both name the servers"));
    }
    common.config.push(word.into());
    Ok(())
}

/// A verb that uses servers.
struct ServerVerb<'a> {
    /// What it is about: its tool, resource, prompt or method.
    target: Option<&'a str>,
    /// The words among which a server may be named.
    words: Option<&'a mut Vec<String>>,
    /// Its single server.
    one: &'a mut OneServer,
}

/// The verb, if it uses servers that a word before it may name.
fn server_verb(verb: &mut Verb) -> Option<ServerVerb<'_>> {
    let (target, words, one) = match verb {
        Verb::List(args) => (None, Some(&mut args.servers), &mut args.one),
        Verb::Status(args) => (None, Some(&mut args.servers), &mut args.one),
        Verb::Call(args) => (args.name.as_deref(), None, &mut args.ask.one),
        #[cfg(feature = "apps")]
        Verb::App(args) => (Some(&*args.name), None, &mut args.ask.one),
        Verb::Load(args) => (Some(&*args.name), None, &mut args.one),
        #[cfg(feature = "bench")]
        Verb::Test(args) => (None, None, &mut args.one),
        Verb::Read(args) => (Some(&*args.uri), None, &mut args.ask.one),
        Verb::Prompt(args) => (Some(&*args.name), None, &mut args.ask.one),
        Verb::Request(args) => (Some(&*args.method), None, &mut args.ask.one),
        #[cfg(feature = "chat")]
        Verb::Chat(_) => return None,
        #[cfg(feature = "gateway")]
        Verb::Serve(_) | Verb::Token(_) => return None,
        #[cfg(all(unix, feature = "tui"))]
        Verb::Attach { .. } => return None,
        #[cfg(unix)]
        Verb::NativeHost(_) => return None,
        #[cfg(feature = "mock")]
        Verb::Mock(_) => return None,
        Verb::DemoServer { .. } => return None,
        Verb::Explain(_)
        | Verb::Schema { .. }
        | Verb::Config(_)
        | Verb::Trust(_)
        | Verb::Grants(_)
        | Verb::Secret(_)
        | Verb::Policy(_)
        | Verb::Audit(_)
        | Verb::Login(_)
        | Verb::Logout { .. }
        | Verb::Search(_)
        | Verb::Add(_)
        | Verb::Upgrade(_)
        | Verb::Remove(_)
        | Verb::Import(_)
        | Verb::Connect(_)
        | Verb::Disconnect(_)
        | Verb::Sync(_)
        | Verb::Open { .. }
        | Verb::Scrub(_)
        | Verb::Replay(_)
        | Verb::Report(_)
        | Verb::Completions { .. }
        | Verb::Man
        | Verb::Help { .. } => return None,
    };
    Some(ServerVerb { target, words, one })
}

/// `list FILE`, `list URL` and `status URL` mean the servers there, and so does a word before a verb.
/// A header needs an address.
fn settle_verb(verb: &mut Verb, common: &mut Common, before: Option<String>) -> Result<(), String> {
    let target = server_verb(verb).and_then(|verb| verb.target);
    if let Some(name) = target.filter(|name| Path::new(name).is_file() && is_file(name)) {
        let text = format!(
            "`{name}` is a file, and here stands a name: the file goes with --config\n  \
             write: mcpdeck --config {} ...",
            quoted(name)
        );
        return Err(text);
    }
    let takes_demo = match &mut *verb {
        #[cfg(feature = "chat")]
        Verb::Chat(_) => true,
        #[cfg(feature = "gateway")]
        Verb::Serve(_) => true,
        Verb::Replay(_) => true,
        other => server_verb(other).is_some(),
    };
    if common.demo && !takes_demo {
        let text = "--demo goes with the dashboard, --check, and commands that use servers, such as \
                    `list --demo`";
        return Err(text.to_owned());
    }
    let Some(ServerVerb { words, one, .. }) = server_verb(verb) else {
        return match before {
            Some(word) if word.contains("://") => {
                Err(format!("`{word}` comes before a command that takes no address"))
            }
            Some(word) => use_file(common, word),
            None => Ok(()),
        };
    };
    match before {
        Some(word) if word.contains("://") && one.url.is_none() => one.url = Some(word),
        Some(word) if word.contains("://") => {
            return Err(format!("two addresses, and a command is for one: `{word}` is the first"));
        }
        Some(word) => use_file(common, word)?,
        None => {}
    }
    if let Some(words) = words {
        if one.url.is_none() && words.first().is_some_and(|word| word.contains("://")) {
            one.url = Some(words.remove(0));
            if !words.is_empty() {
                return Err("a URL names one server: it cannot be combined with names".to_owned());
            }
        }
        let file = |word: &String| Path::new(word).is_file() && is_file(word);
        if let Some(at) = words.iter().position(file).filter(|_| one.url.is_none()) {
            let word = words.remove(at);
            use_file(common, word)?;
        }
    }
    if one.url.is_none() && !one.given.header.is_empty() {
        return Err("--header goes with the address of a server: --url URL".to_owned());
    }
    Ok(())
}

/// The message for an option before a verb that only the dashboard or the check reads; `matches` are
/// those of the whole command line.
pub fn misplaced(matches: &ArgMatches) -> Option<String> {
    let (verb, _) = matches.subcommand()?;
    let command = Cli::command();
    let of_verb = command.find_subcommand(verb)?;
    let has_dashboard = ["open", "attach"].contains(&verb);
    let is_given = |arg: &&Arg| {
        let is_taken = has_dashboard && arg.get_help_heading() == Some("Dashboard");
        let is_own = !arg.is_global_set() && !arg.is_positional() && !is_taken;
        is_own && matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let option = command.get_arguments().find(is_given)?.get_long()?;
    let takes = of_verb.get_arguments().any(|arg| arg.get_long() == Some(option));
    Some(if takes {
        format!("--{option} comes after the command: `mcpdeck {verb} --{option} ...`")
    } else {
        format!(
            "--{option} goes without a command, and `{verb}` has no such option: see `mcpdeck --help`"
        )
    })
}

/// Programs commonly used to start servers.
const RUNNERS: [&str; 13] = [
    "npx", "bunx", "uvx", "pipx", "node", "bun", "deno", "python", "python3", "uv", "docker",
    "podman", "tsx",
];

/// Words that are an option here, or that other programs use for a command.
const OPTIONS: [(&str, &str); 14] = [
    ("check", "mcpdeck --check"),
    ("validate", "mcpdeck --check"),
    ("verify", "mcpdeck --check"),
    ("lint", "mcpdeck --check"),
    ("lock", "mcpdeck --check --lock"),
    ("init", "mcpdeck --check --init"),
    ("demo", "mcpdeck --demo"),
    ("version", "mcpdeck --version"),
    ("keys", "mcpdeck --keys"),
    ("tools", "mcpdeck list --only tools"),
    ("prompts", "mcpdeck list --only prompts"),
    ("resources", "mcpdeck list --only resources"),
    ("ls", "mcpdeck list"),
    ("ps", "mcpdeck status"),
];

fn meant(word: &str) -> String {
    if RUNNERS.contains(&word) {
        return format!("a command goes after two dashes: `mcpdeck -- {word} ...`");
    }
    if Path::new(word).is_dir() {
        return "it is a folder: name the file in it".to_owned();
    }
    let host = word.split(['/', ':']).next().unwrap_or_default();
    if host == "localhost" || host.parse::<std::net::Ipv4Addr>().is_ok() {
        return format!("an address begins with its scheme: `mcpdeck http://{word}`");
    }
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name);
    let lines: IndexMap<&str, String> = verbs
        .map(|verb| (verb, format!("mcpdeck {verb}")))
        .chain(OPTIONS.map(|(name, line)| (name, line.to_owned())))
        .collect();
    match nearest(&word.to_lowercase(), lines.keys(), 0.75) {
        Some(name) => format!("did you mean `{}`?", lines[*name]),
        None => "see `mcpdeck --help`".to_owned(),
    }
}

/// The message for arguments that are invalid because of their first word: a program without the
/// two dashes before it, or a word that is not a command.
pub fn mistaken(args: impl Iterator<Item = String>) -> Option<String> {
    let args: Vec<String> = args.skip(1).collect();
    let first = args.first()?.as_str();
    if RUNNERS.contains(&first) {
        let words: Vec<_> = args.iter().map(|word| quoted(word)).collect();
        return Some(format!("a command goes after two dashes: mcpdeck -- {}", words.join(" ")));
    }
    let command = Cli::command();
    let known = first == "help" || command.get_subcommands().any(|verb| verb.get_name() == first);
    if known || first.is_empty() || first.starts_with('-') {
        return None;
    }
    let mut alone = Cli::try_parse_from(["mcpdeck", first]).ok()?;
    settle(&mut alone).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(word: &str) -> Result<Cli, String> {
        let mut cli = Cli::try_parse_from(["mcpdeck", word]).expect("one word is valid");
        settle(&mut cli).map(|()| cli)
    }

    #[test]
    fn a_file_is_a_configuration_and_an_address_a_server() {
        for file in ["team.json", "a/b.jsonc", "Cargo.toml"] {
            let cli = settled(file).expect("a file");
            assert_eq!((cli.common.config, cli.url), (vec![file.into()], None));
        }
        let cli = settled("http://127.0.0.1/mcp").expect("an address");
        assert_eq!(cli.url.as_deref(), Some("http://127.0.0.1/mcp"));
    }

    #[test]
    fn a_mistake_is_answered_with_what_was_meant() {
        for (word, part) in [
            ("lst", "did you mean `mcpdeck list`?"),
            ("check", "did you mean `mcpdeck --check`?"),
            ("chekc", "did you mean `mcpdeck --check`?"),
            ("Check", "did you mean `mcpdeck --check`?"),
            ("validate", "did you mean `mcpdeck --check`?"),
            ("statsu", "did you mean `mcpdeck status`?"),
            ("promt", "did you mean `mcpdeck prompt`?"),
            ("shcema", "did you mean `mcpdeck schema`?"),
            ("tools", "did you mean `mcpdeck list --only tools`?"),
            ("localhost:3000/mcp", "`mcpdeck http://localhost:3000/mcp`"),
            ("npx", "`mcpdeck -- npx ...`"),
            ("args", "it is a folder"),
            ("zzz", "see `mcpdeck --help`"),
        ] {
            let message = settled(word).expect_err(word);
            assert!(message.contains(part), "{message}");
        }
        let args = ["mcpdeck", "npx", "-y", "a b"].map(str::to_owned);
        let answer = mistaken(args.into_iter()).expect("a program");
        assert!(answer.ends_with("mcpdeck -- npx -y 'a b'"), "{answer}");
    }

    #[test]
    fn only_a_first_word_that_nothing_knows_is_the_mistake() {
        let answer = |words: &[&str]| {
            mistaken([&["mcpdeck"], words].concat().into_iter().map(str::to_owned))
        };
        let check = answer(&["check", "mcp.json"]).expect("no command");
        assert!(check.contains("did you mean `mcpdeck --check`?"), "{check}");
        for words in [&["call", "x", "--bad"][..], &["--chek"], &["http://a/mcp", "x"], &["help"]] {
            assert_eq!(answer(words), None, "{words:?}");
        }
    }
}
