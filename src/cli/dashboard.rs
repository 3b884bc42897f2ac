//! Starts the dashboard over what the arguments name: files, one server, or the demo.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use std::sync::Arc;

use parking_lot::Mutex;

use super::args::{Cli, ColorChoice, OneServer};
use super::output::{ExitStatus, problems};
use super::{load, output};
use crate::telemetry::Telemetry;
use ::deck::{Clients, Deck, DeckBuilder, KeptDefinitions, Notebook, Scan, TrustGate, TrustStore};
use base::{LogLevel, SafeText};
use config::{Environment, FileScope, ImportFile, Loaded, McpConfig, candidates, import_places};
use host::{Drafter, Host, HostBuilder, ServerState, TraceContext};
use protocol::Capabilities;
use reach::FoundServers;
use tui::app::Setup;
use tui::chat::port::OpenChat;
use tui::suites::OpenSuites;
use tui::{DashboardOptions, DashboardSource, ExportOrigin, HostLogLevel, OpenApp, Show, Start};

/// Runs the dashboard until the user quits.
pub fn run(cli: &Cli, telemetry: &Telemetry) -> Result<ExitCode, ExitStatus> {
    let engine = Host::builder()
        .startup(cli.common.startup_mode())
        .person_answers()
        .accounts(super::deck::accounts(&cli.common, &one_server(cli)));
    let (deck, found) = deck(cli)?;
    let (deck, engine, clients) = served(cli, deck, engine)?;
    let mut deck = deck.host(engine);
    deck.keep_watching = true;
    deck.starts_empty = found.is_some();
    // The model of a chat, and clients with `--serve`.
    deck.serves_others = true;
    deck.masks = Some(load::masks(telemetry));
    deck.notebook = Some(notebook());
    show(cli, telemetry, DashboardSource::Deck(Box::new(deck)), (clients, found))
}

/// Stores what the servers offer whenever it changes.
fn notebook() -> Notebook {
    type Seen = (ServerState, Arc<Capabilities>);
    let (kept, seen) =
        (KeptDefinitions::from_env(&Environment::of_process()), Mutex::<Vec<Seen>>::default());
    let same = |(a, b): (&Seen, &Seen)| a.0 == b.0 && Arc::ptr_eq(&a.1, &b.1);
    Arc::new(move |config, view| {
        let now = view.servers.values().map(|server| (server.state, server.capabilities.clone()));
        let (now, mut seen) = (now.collect::<Vec<_>>(), seen.lock());
        if seen.len() != now.len() || !seen.iter().zip(&now).all(same) {
            *seen = now;
            kept.remember(config, view);
        }
    })
}

/// Shows a recording until the user quits.
pub fn open(cli: &Cli, telemetry: &Telemetry, file: &Path) -> Result<ExitCode, ExitStatus> {
    let name = SafeText::line(&file.display().to_string());
    let scan = Scan::open(file).map_err(|error| {
        output::refuse(&format!("{name}: {}", SafeText::line(&error.to_string())))
    })?;
    show(cli, telemetry, DashboardSource::Recording(name, Box::new(scan)), (None, None))
}

/// Attaches to a running service until the user quits; the service keeps running.
#[cfg(unix)]
pub fn attach(cli: &Cli, telemetry: &Telemetry, pid: Option<u32>) -> Result<ExitCode, ExitStatus> {
    let state = Environment::of_process().state_dir.unwrap_or_default();
    let mut found = ::deck::local_sockets(&state);
    let id = |path: &Path| path.file_stem()?.to_str()?.parse::<u32>().ok();
    found.retain(|path| pid.is_none_or(|pid| id(path) == Some(pid)));
    let socket = match <[_; 1]>::try_from(found) {
        Ok([socket]) => socket,
        Err(none) if none.is_empty() => {
            return Err(output::refuse("no service is running: start `mcpdeck serve`"));
        }
        Err(several) => {
            let ids: Vec<String> =
                several.iter().filter_map(|path| id(path)).map(|id| id.to_string()).collect();
            let ids = ids.join(", ");
            return Err(output::refuse(&format!("several services run; name one: {ids}")));
        }
    };
    let clients = Clients::default();
    clients.served_at("the attached service");
    show(cli, telemetry, DashboardSource::Attached(socket), (Some(clients), None))
}

fn show(
    cli: &Cli,
    telemetry: &Telemetry,
    source: DashboardSource,
    (clients, found): (Option<Clients>, Option<FoundServers>),
) -> Result<ExitCode, ExitStatus> {
    let trace = super::operate::trace_context();
    let (drafter, chat) = models(cli, &trace)?;
    let apps: Option<OpenApp> = None;
    #[cfg(feature = "apps")]
    let apps: Option<OpenApp> = apps.or_else(|| Some(super::app::in_dashboard(trace.clone())));
    let options = DashboardOptions {
        record: cli.common.record.clone(),
        setup: Setup {
            ascii: cli.dashboard.ascii,
            themes: cli.dashboard.themes,
            theme: cli.dashboard.theme.clone(),
            tour: cli.common.demo,
            origin: origin(cli),
            found,
            ..Setup::default()
        },
        colour: match cli.common.color {
            ColorChoice::Auto => None,
            ColorChoice::Always => Some(true),
            ColorChoice::Never => Some(false),
        },
        log_level: Some(log_level(telemetry)),
        reveal: cli.common.reveal,
        drafter,
        clients,
        show: show_of_demo(cli),
        trace,
        chat,
        apps,
        tries: Some(super::add::trial::in_dashboard(&cli.common, telemetry)),
        suites: suites(cli),
        complain: output::complain,
    };
    tui::run(source, options).map_err(|error| {
        let exit = output::refuse(&error.to_string());
        if error.kind() != std::io::ErrorKind::Unsupported {
            return exit;
        }
        output::refuse("without a terminal there are --check, list, call and status")
    })
}

/// Runs suites of tests, in builds with the bench.
fn suites(cli: &Cli) -> Option<OpenSuites> {
    let suites: Option<OpenSuites> = None;
    #[cfg(feature = "bench")]
    let suites: Option<OpenSuites> =
        suites.or_else(|| Some(super::suites::in_dashboard(&cli.common, &one_server(cli))));
    let _ = cli;
    suites
}

/// Adds the gateway when `--serve` is given.
#[cfg(feature = "gateway")]
fn served(cli: &Cli, deck: DeckBuilder, engine: HostBuilder) -> Result<Served, ExitStatus> {
    let Some(listen) = cli.dashboard.serve else { return Ok((deck, engine, None)) };
    let listen = cli.dashboard.listen.unwrap_or(listen);
    let (deck, bridge, clients) = super::serve::beside(deck, listen)?;
    Ok((deck, engine.handler(bridge), Some(clients)))
}

#[cfg(not(feature = "gateway"))]
fn served(_: &Cli, deck: DeckBuilder, engine: HostBuilder) -> Result<Served, ExitStatus> {
    Ok((deck, engine, None))
}

type Served = (DeckBuilder, HostBuilder, Option<Clients>);

/// The drafter of answers, and the function that opens a chat.
type Models = (Option<Arc<dyn Drafter>>, Option<OpenChat>);

/// Drafts answers to sampling requests, for the user to edit and send, and opens the user's chat:
/// both with the model that has a key, in the demo with the embedded one.
fn models(cli: &Cli, trace: &TraceContext) -> Result<Models, ExitStatus> {
    let models: Models = (None, None);
    #[cfg(feature = "chat")]
    let models: Models = super::chat::in_dashboard(&cli.common, cli.common.demo, trace.clone())
        .map_err(|message| output::refuse(&message))?
        .map_or(models, |(drafter, chat)| (Some(Arc::new(drafter)), Some(chat)));
    let _ = (cli, trace);
    Ok(models)
}

/// The scripted show of the demo; none with `--quiet`.
fn show_of_demo(cli: &Cli) -> Option<Show> {
    #[cfg(feature = "demo")]
    if cli.common.demo && !cli.check.quiet {
        let config = demo::config(&std::env::current_exe().ok()?);
        return Some(Box::new(|host, stop| Box::pin(demo::show(host, config, stop))));
    }
    let _ = cli;
    None
}

/// The deck, and what other programs have if there is no configuration.
fn deck(cli: &Cli) -> Result<(DeckBuilder, Option<FoundServers>), ExitStatus> {
    if cli.common.demo {
        let source = load::demo().map_err(|found| problems(&found))?;
        return Ok((Deck::builder().config(source.config), None));
    }
    let env = load::environment(&cli.common).map_err(|found| problems(&found))?;
    if let Some(loaded) = one_server(cli).load(&env) {
        let config = loaded.and_then(Loaded::complete).map_err(|found| problems(&found))?;
        return Ok((Deck::builder().config(McpConfig { files: Vec::new(), ..config }), None));
    }
    let mut files = load::files(&cli.common, &env);
    let mut found = None;
    if files.is_empty() {
        let Some((file, servers)) = unwritten(&env) else {
            return Err(output::refuse(&nothing_here(&env)));
        };
        files.push(file);
        found = Some(servers);
    }
    // The commands of a file need the user's approval, once for each command.
    let gate = if cli.dashboard.trust {
        TrustGate::Open
    } else {
        TrustGate::Guarded(TrustStore::or_session(&env))
    };
    Ok((Deck::builder().files(files).environment(env).trust(gate), found))
}

/// The user's own file, which does not exist, and what other programs have to begin it with;
/// `None` if they have nothing, or nobody is there to take it.
fn unwritten(env: &Environment) -> Option<(PathBuf, FoundServers)> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return None;
    }
    let mut places = candidates(env).into_iter();
    let file = places.find(|place| place.scope == FileScope::User)?.path;
    let (found, _) = FoundServers::from_machine(env);
    (!found.is_empty()).then_some((file, found))
}

/// The single server that the arguments name.
fn one_server(cli: &Cli) -> OneServer {
    OneServer { url: cli.url.clone(), given: cli.given.clone(), command: cli.command.clone() }
}

/// How the dashboard was started, for the command lines it offers to copy.
fn origin(cli: &Cli) -> ExportOrigin {
    let start = match &cli.url {
        _ if cli.common.demo => Start::Demo,
        Some(url) => Start::Url(url.clone()),
        None if !cli.command.is_empty() => Start::Command(cli.command.clone()),
        None => Start::default(),
    };
    let files = cli.common.env_file.iter();
    let files = files.map(|path| ("--env-file", path.to_string_lossy().into_owned()));
    let headers = cli.given.header.iter();
    let headers = headers.map(|(name, value)| ("--header", format!("{name}: {value}")));
    // A variable passed by name is copied by name, to keep its value off the clipboard.
    let variables = cli.given.env.iter().map(|(name, value)| {
        let own = *value == format!("${{{name}}}");
        ("--env", if own { name.clone() } else { format!("{name}={value}") })
    });
    let options = files.chain(headers).chain(variables);
    ExportOrigin {
        start,
        options: options.flat_map(|(name, value)| [name.to_owned(), value]).collect(),
    }
}

/// The message for when there is no configuration, with ways to start.
fn nothing_here(env: &Environment) -> String {
    let mut text = format!("no configuration found; looked for {}\n", load::looked_for(env));
    let others = import_places(env).into_iter().filter(|place| place.exists);
    let other = |place: ImportFile| {
        let path = SafeText::line(&place.path.display().to_string());
        format!("{} ({path})", place.host.name())
    };
    let mut others: Vec<String> = others.map(other).collect();
    others.sort();
    if others.is_empty() {
        others.push("Claude, VS Code, Cursor and others".to_owned());
    }
    let import = format!("those of {}", others.join(", "));
    text.push_str("\nStart with one of these:\n");
    for (line, what) in [
        ("mcpdeck --demo", "look around: embedded servers, nothing to install"),
        ("mcpdeck -- COMMAND ARGS...", "one server, as you would start it"),
        ("mcpdeck http://HOST/mcp", "one server that runs already"),
        ("mcpdeck FILE", "a configuration somewhere else"),
        ("mcpdeck add NAME", "one from the registry"),
        ("mcpdeck import", import.as_str()),
    ] {
        let _ = write!(text, "\n  {line:28}{what}");
    }
    text.push_str(
        "\n\nor write an mcp.json (`mcpdeck help configuration` explains its keys):\n\n  ",
    );
    text.push_str(r#"{ "servers": { "NAME": { "command": "npx", "args": ["-y", "PACKAGE"] } } }"#);
    text
}

/// Changes the level of the log file from the Logs pane.
fn log_level(telemetry: &Telemetry) -> HostLogLevel {
    let control = telemetry.control();
    Arc::new(move |level: LogLevel| {
        let word = match level {
            LogLevel::Trace => "trace",
            LogLevel::Debug => "debug",
            LogLevel::Info | LogLevel::Notice => "info",
            LogLevel::Warning => "warn",
            LogLevel::Error | LogLevel::Critical | LogLevel::Alert | LogLevel::Emergency => "error",
        };
        // These levels are always valid.
        let _ = control.set_filter(word);
    })
}
