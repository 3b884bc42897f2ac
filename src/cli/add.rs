//! `add` and `search`: servers from a registry, a package, a bundle, an address or a command. Shows
//! what would run, asks for what it needs, and checks it before anything is written or trusted.

pub mod inputs;
pub mod trial;

use std::fmt::Write as _;

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use url::Url;

use self::inputs::{answers, parse_input};
use self::trial::{FileDraft, raw_entry, run_trial};
use crate::args::{Common, parse_header, parse_variable};
use crate::connect::confirm;
use crate::output::{self, CommandResult, ExitStatus};
use crate::telemetry::Telemetry;
use crate::{load, signals};
use ::deck::{Review, SecretStore};
use base::text::path::spelled;
use base::{SafeText, Secret, ServerName};
use config::{Environment, Pairs};
use reach::{
    AvailableServer, DirectServer, GivenValues, ReachError, ServerInput, ServerOrigin,
    SettledEntry, direct, edits_to_add, find, names_of_others, settle, with_card,
};

/// Most servers that a search shows.
const MAX_SHOWN_SERVERS: usize = 30;

/// Examples below the help of `add`.
pub const EXAMPLES: &str = "\
Examples:
  mcpdeck add io.example/weather            by its name in the registry
  mcpdeck add weather@1.2.3 --via npm       a version of it, as an npm package
  mcpdeck add npm:@example/weather -e API_KEY=...
  mcpdeck add npm:@example/files -- ~/notes ~/work
  mcpdeck add pypi:mcp-server-time
  mcpdeck add docker:images.example/weather:1.2.3
  mcpdeck add weather.mcpb
  mcpdeck add weather --url https://weather.example/mcp
  mcpdeck add weather -- python3 server.py";

/// Where servers are looked for.
#[derive(Clone, Debug, Args)]
pub struct RegistryArgs {
    /// Address of the registry of MCP servers [default: `registry` in settings.json].
    #[arg(long, value_name = "URL", env = "MCPDECK_REGISTRY", value_hint = ValueHint::Url)]
    pub registry: Option<Url>,
}

/// `mcpdeck search`
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words of the name or the description.
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// `mcpdeck add`
#[derive(Debug, Args)]
pub struct AddServerArgs {
    /// A name in the registry, npm:NAME, pypi:NAME, docker:IMAGE:TAG, a bundle (.mcpb, .dxt) or a
    /// server.json; with --url, or a word before a command, the name of the entry.
    #[arg(value_name = "SOURCE")]
    source: Option<String>,
    /// The name of the entry.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Which of the packages and addresses of a server: npm, pypi, oci, nuget, mcpb or remote.
    #[arg(long, value_name = "KIND")]
    via: Option<String>,
    /// An answer to what the server needs; `MCPDECK_INPUT_<ID>` is one too. Secrets are stored.
    #[arg(long, value_name = "ID=VALUE", value_parser = parse_input)]
    input: Vec<(String, Secret)>,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Add it without starting it for a check.
    #[arg(long)]
    no_check: bool,
    /// Only show what it is and what it would run.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Start, check, write and trust it without asking; not when it cannot be started.
    #[arg(long, short = 'y')]
    yes: bool,
    /// The server at this address.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    url: Option<String>,
    /// Header of the requests to it; ${VARIABLE} in it is expanded. Secrets are stored.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// Variable of its environment; NAME alone passes your own value. Secrets are stored.
    #[arg(long, short = 'e', value_name = "NAME[=VALUE]", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// The command that starts it; with a package, a file or a whole name in the registry, more
    /// arguments for it.
    #[arg(last = true, value_name = "COMMAND|ARGUMENT", value_hint = ValueHint::AnyPath)]
    words: Vec<String>,
}

/// `mcpdeck search`
pub fn search(args: &SearchArgs) -> CommandResult {
    let env = Environment::of_process();
    let registry = reach::registry(args.registry.registry.as_ref(), &env).map_err(refused)?;
    let found = wait_for(registry.search(&args.words, MAX_SHOWN_SERVERS))?;
    for why in &found.refused {
        output::complain(&format!("left out: {why}"));
    }
    if args.json {
        let servers = found.servers.iter().map(|server| {
            let ways = server
                .ways
                .iter()
                .map(|way| json!({ "kind": way.kind, "transport": way.transport, "pin": way.pin }));
            json!({
                "name": server.name, "version": server.version, "publisher": server.publisher(),
                "description": server.description.as_str(), "status": server.status.as_str(),
                "ways": ways.collect::<Vec<_>>(), "refused": server.refused,
            })
        });
        let object = json!({ "servers": servers.collect::<Vec<_>>(), "isCut": found.is_cut });
        return Ok(output::json(&object, ExitStatus::Ok));
    }
    if found.servers.is_empty() {
        output::complain("the registry has nothing with these words in its name");
        return Ok(ExitStatus::Failed);
    }
    let head = ["name", "version", "as", "about"].map(str::to_owned);
    let rows = found.servers.iter().map(|server| {
        let mut kinds: Vec<&str> = server.ways.iter().map(|way| way.kind).collect();
        kinds.dedup();
        let kinds = if kinds.is_empty() { "-".to_owned() } else { kinds.join(" ") };
        let about = base::text::cut(server.description.as_str(), 80).to_string();
        [server.name.clone(), server.version.clone(), kinds, about]
    });
    if found.is_cut {
        output::complain("there are more; use more words");
    }
    Ok(output::print(&output::table("", std::iter::once(head).chain(rows)), ExitStatus::Ok))
}

/// Runs what asks a registry; Ctrl-C ends it.
pub fn wait_for<T>(work: impl Future<Output = Result<T, ReachError>>) -> Result<T, ExitStatus> {
    let done = signals::block_on(async |signals| {
        tokio::select! {
            done = work => Some(done),
            () = signals.stop.cancelled() => None,
        }
    });
    match done.map_err(|error| output::refuse(&error.to_string()))? {
        Some(done) => done.map_err(refused),
        None => Err(crate::deck::interrupted()),
    }
}

pub fn refused(error: ReachError) -> ExitStatus {
    output::refuse(&SafeText::line(&error.0))
}

/// `mcpdeck add`
pub fn add(common: &Common, args: &AddServerArgs, telemetry: &Telemetry) -> CommandResult {
    let env = load::environment(common).map_err(|found| output::problems(&found))?;
    let file = FileDraft::open(common, &env)?;
    let mut server = available(args, &env)?;
    let name = ServerName::new(args.name.as_deref().unwrap_or(&server.name));
    if raw_entry(&file.path, &file.after, &name).is_ok() {
        let (name, path) = (SafeText::line(name.as_str()), spelled(&file.path));
        return Err(output::refuse(&format!(
            "there is already a server `{name}` in {path}; `--as NAME` adds this one under another \
             name, `mcpdeck upgrade {name}` renews that one"
        )));
    }
    server.keep_apart(&names_of_others((&file.path, &file.after), &name, &env));
    server.given.extend(args.input.iter().cloned());
    let declared: Vec<Value> = server.needed().map(ServerInput::declaration).collect();
    let plain = file.edited(&edits_to_add(&name, &server.entry, &declared))?;
    let review = plain.review(&name, &env)?;
    output::print(&described(&name, &server, &review), ExitStatus::Ok);
    if args.dry_run {
        return Ok(ExitStatus::Ok);
    }
    let needed: Vec<&ServerInput> = server.needed().collect();
    let answers = answers(&needed, &server.given, (&env, !args.yes))?;
    let settled = settle(&server.entry, &server.inputs, &answers, false);
    if !args.no_check && settled.open.is_empty() {
        let tried = settle(&server.entry, &server.inputs, &answers, true);
        let draft = file.edited(&edits_to_add(&name, &tried.entry, &tried.declared))?;
        if !args.yes && !confirm("start it, to check it?")? {
            return Ok(ExitStatus::Ok);
        }
        server.unpack().map_err(refused)?;
        let mut env = env.clone();
        env.inputs.extend(answers.iter().cloned());
        let trial = run_trial((common, telemetry), &draft, &name, (None, &env))?;
        trial.print(common);
        if !trial.is_whole() {
            if args.yes {
                output::complain(
                    "not added: it could not be checked; --no-check adds it unstarted, `-- ARGUMENT` \
                     and `-e NAME=VALUE` give it what it may need",
                );
                return Err(ExitStatus::Unavailable);
            }
            if !confirm("it could not be checked; go on all the same?")? {
                return Ok(ExitStatus::Ok);
            }
        }
    }
    let draft = file.edited(&edits_to_add(&name, &settled.entry, &settled.declared))?;
    output::print(&draft.patch(), ExitStatus::Ok);
    let path = spelled(&draft.path).into_owned();
    let question = format!("add `{}` to {path}, and trust it?", SafeText::line(name.as_str()));
    if !args.yes && !confirm(&question)? {
        return Ok(ExitStatus::Ok);
    }
    server.unpack().map_err(refused)?;
    keep_secrets(&settled, &env)?;
    draft.write(std::slice::from_ref(&name), &env)?;
    remind(&settled);
    Ok(ExitStatus::Ok)
}

/// The server that the arguments name, with what they give it.
fn available(args: &AddServerArgs, env: &Environment) -> Result<AvailableServer, ExitStatus> {
    let pairs = |given: &[(String, String)]| -> Pairs { given.iter().cloned().collect() };
    let source = args.source.as_deref();
    let (address, name) = match source {
        Some(word) if args.url.is_none() && word.contains("://") => (Some(word), None),
        name => (args.url.as_deref(), name),
    };
    let origin = source.map(ServerOrigin::parse);
    let is_command =
        !origin.as_ref().is_some_and(ServerOrigin::is_certain) && !args.words.is_empty();
    if address.is_some() || is_command {
        let (url, command, pairs) = match address {
            Some(_) if !args.words.is_empty() || !args.env.is_empty() => {
                return Err(output::refuse(
                    "a server at an address takes no command and no variables",
                ));
            }
            Some(url) => (Some(url.to_owned()), Vec::new(), pairs(&args.header)),
            None if !args.header.is_empty() => {
                return Err(output::refuse("a server that is started takes no headers"));
            }
            None => (None, args.words.clone(), pairs(&args.env)),
        };
        let one = DirectServer { url, command, pairs };
        let server = direct(name, &one, env).map_err(refused)?;
        return match address {
            Some(url) => wait_for(with_card(server, url)),
            None => Ok(server),
        };
    }
    let Some(origin) = origin else {
        return Err(output::refuse(
            "name a server: its name in the registry, npm:NAME, pypi:NAME, docker:IMAGE:TAG, a \
             bundle, `--url URL` or `-- COMMAND`",
        ));
    };
    let registry = args.registry.registry.as_ref();
    let mut server = wait_for(find(&origin, args.via.as_deref(), (registry, env)))?;
    let (variables, headers) = (pairs(&args.env), pairs(&args.header));
    let given = GivenValues { arguments: args.words.clone(), variables, headers };
    let name = args.name.clone().unwrap_or_else(|| server.name.clone());
    server.give(&name, &given).map_err(refused)?;
    Ok(server)
}

/// Stores the secrets of an entry.
///
/// # Errors
/// When there is no store, or it cannot be written.
pub fn keep_secrets(settled: &SettledEntry, env: &Environment) -> Result<(), ExitStatus> {
    if settled.secrets.is_empty() {
        return Ok(());
    }
    let store = SecretStore::from_env(env)
        .ok_or_else(|| output::refuse("there is no folder in which secrets could be kept"))?;
    for (name, value) in &settled.secrets {
        store.set(name, value).map_err(|why| output::refuse(&why))?;
        output::complain(&format!("`{name}` is kept in the store of `mcpdeck secret`"));
    }
    Ok(())
}

/// Says which inputs are still to be answered.
pub fn remind(settled: &SettledEntry) {
    for id in &settled.open {
        let variable = config::input_variable(id);
        output::complain(&format!(
            "it needs `{id}` before it starts, so it was not checked: the dashboard asks for it, and \
             {variable} answers it"
        ));
    }
}

/// What a server is, runs and needs, for people.
fn described(name: &ServerName, server: &AvailableServer, review: &Review) -> String {
    let mut out = format!("{}\n", SafeText::line(name.as_str()));
    for (label, text) in server.described(review) {
        let _ = writeln!(out, "  {label:10} {text}");
    }
    out
}
