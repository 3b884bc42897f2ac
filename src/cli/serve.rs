//! `serve` and `token`: the gateway, and who may use it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::args::{Common, OneServer};
use super::output::{CommandResult, ExitStatus, problems};
use super::{deck, load, output, signals};
use crate::telemetry::Telemetry;
#[cfg(feature = "tui")]
use ::deck::{Alongside, DeckBuilder};
use ::deck::{Clients, Deck, DeckEvent, Operated, PolicyKeeper, TrustGate, TrustStore};
#[cfg(unix)]
use ::deck::{Listening, Local};
use base::human::parse_duration;
use base::notices::NoticeReader;
use base::text::quoted;
use base::{Clock, SafeText, Secret, Timestamp};
use config::Environment;
use gateway::{
    self, ADMIN_LINK_PATH, AdminSignIns, Bridge, ClientTokens, DEFAULT_SCOPES, GatewayService,
    OwnerToken, ServeOptions, SharedStore, Traces, admin_routes, serve_stdio,
};
use host::{AccessScope, DEFAULT_PROFILE, Host, ServerState};

/// `mcpdeck serve`
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct ServeArgs {
    /// Address to listen on; port 0 takes any free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7337", value_parser = super::args::listen_address)]
    listen: SocketAddr,
    /// File with your own token; created, readable only by you, when it does not exist.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    token_file: Option<PathBuf>,
    /// The profile your own token (with --stdio, the client) acts under: it is bound by the policy
    /// then, as any other caller is.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Serve one MCP client over stdin and stdout instead of HTTP.
    #[arg(long, conflicts_with_all = ["listen", "token_file"])]
    stdio: bool,
    /// End when stdin is closed, as for a signal: for a program that starts the service, so that it
    /// never outlives that program.
    #[arg(long, conflicts_with = "stdio")]
    stdio_control: bool,
    /// Another value of the Host header to accept, with its port.
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host)]
    allow_host: Vec<String>,
    /// An origin whose pages may call, for example `https://app.example`.
    #[arg(long, value_name = "ORIGIN", value_parser = host::parse_web_origin)]
    allow_origin: Vec<String>,
    /// Send traces of calls to the OpenTelemetry collector (OTLP over HTTP) at this address, for example
    /// <http://127.0.0.1:4318>; without a value, at that of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    otlp: Option<NamedCollector>,
    /// Share sessions, limits, tokens, grants and reviews with other replicas in this Redis or Valkey
    /// server; `rediss://` is over TLS. Write a password as a reference:
    /// `redis://:${secret:store}@HOST:PORT/0`. Requires a build with the feature `cluster`.
    #[arg(long, value_name = "redis://HOST:PORT/DB", conflicts_with = "stdio")]
    store: Option<String>,
    /// Also serve the operator's page at `/admin`: servers, clients, grants, refused calls. A link
    /// that signs a browser of this machine in, once, is printed to stderr.
    #[arg(long, conflicts_with_all = ["stdio", "behind_tls_proxy"])]
    admin: bool,
    /// Listen on an address that others can reach: a proxy in front of it adds TLS.
    #[arg(long)]
    behind_tls_proxy: bool,
    /// The chat.
    #[cfg(feature = "chat")]
    #[command(flatten, next_help_heading = "Chat")]
    chat: super::chat::ServeChat,
    /// A single server instead of a file.
    #[command(flatten, next_help_heading = "One server")]
    one: OneServer,
}

/// The collector of `--otlp`; `None` for that of the environment.
#[derive(Clone, Debug)]
struct NamedCollector(Option<url::Url>);

impl std::str::FromStr for NamedCollector {
    type Err = url::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() { Ok(Self(None)) } else { text.parse().map(|url| Self(Some(url))) }
    }
}

impl ServeArgs {
    /// Where spans go, by `--otlp` and the environment.
    fn traces(&self, environment: &Environment) -> Result<Traces, String> {
        let Some(NamedCollector(collector)) = &self.otlp else { return Ok(Traces::default()) };
        let traces = Traces::to(collector.as_ref(), environment);
        traces.map_err(|why| format!("--otlp: {why}"))
    }
}

/// `mcpdeck token`
#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Create a token and print it; only its hash is stored.
    New {
        /// The profile it acts under.
        #[arg(long, value_name = "NAME", default_value = "default")]
        profile: String,
        /// Upper limit of its permissions, for example mcp:tools.list [default: listing and calling
        /// tools, reading, prompts]. The permissions themselves come from `mcpdeck grants add`, or
        /// from its profile in the policy.
        #[arg(long, value_name = "SCOPE", value_parser = super::grants::parse_scope)]
        scope: Vec<AccessScope>,
        /// How long it is valid: seconds, or with a unit (30m, 12h, 90d) [default: forever].
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        expires: Option<Duration>,
    },
    /// Show every token: its id, profile, scopes and expiry.
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token; it becomes invalid at once.
    Revoke {
        /// Its id, as `token list` shows it.
        id: String,
    },
}

/// Longest lifetime of a token that expires: a century, in seconds.
const MAX_TOKEN_SECONDS: u64 = 36_500 * 86_400;

/// Parses a duration, which may also be in days.
fn lifetime(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    let span = match days {
        Some(days) => Duration::from_secs(u64::from(days) * 86_400),
        None => parse_duration(text)?,
    };
    if span.is_zero() || span.as_secs() > MAX_TOKEN_SECONDS {
        return Err("more than zero and at most 36500d; without it a token never expires".into());
    }
    Ok(span)
}

fn refused(error: String) -> ExitStatus {
    output::refuse(&SafeText::line(&error))
}

/// Serves until a signal ends it.
pub fn serve(common: &Common, args: &ServeArgs, telemetry: &Telemetry) -> CommandResult {
    if !args.listen.ip().is_loopback() && !args.behind_tls_proxy {
        return Err(output::refuse(
            "others can reach this address, and nothing here encrypts: listen on 127.0.0.1, or put \
             a proxy with TLS in front and say so with --behind-tls-proxy",
        ));
    }
    let source = load::usable(common, &args.one).map_err(|found| problems(&found))?;
    let env = load::environment(common).map_err(|found| problems(&found))?;
    source.warn_of_ignored_settings();
    for (server, problem) in &source.left_out {
        let server = SafeText::line(server.as_str());
        output::complain(&format!("{server} is left out: {}", SafeText::line(&problem.message)));
    }
    // Servers and clients need cores too, and fewer hand-overs between threads lower the latency of
    // a call (benches/figures/gateway.rs). With many clients the gateway starts helpers.
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|error| output::refuse(&format!("cannot start: {error}")))?;
    let done = runtime.block_on(async {
        let signals = signals::listen();
        if args.stdio_control {
            signals::stop_at_end_of_input(&signals);
        }
        let bridge = Bridge::default();
        let engine = Host::builder()
            .startup(common.startup_mode())
            .handler(bridge.clone())
            .accounts(deck::accounts(common, &args.one));
        let mut deck = Deck::builder().host(engine).environment(env.clone());
        deck.masks = Some(load::masks(telemetry));
        let files = match source.path {
            Some(_) => load::files(common, &env),
            None => Vec::new(),
        };
        let deck = match (files.is_empty(), common.require_trust) {
            (true, _) => deck.config(source.config),
            (false, true) => {
                deck.files(files).trust(TrustGate::Guarded(TrustStore::or_session(&env)))
            }
            (false, false) => deck.files(files),
        };
        let mut deck = deck;
        deck.serves_others = true;
        let serving = deck::over(common, &signals, deck, async |deck, _| {
            let host = deck.host().clone();
            let keeper = deck.policy().clone();
            deck::known_profile(&host, args.profile.as_deref())?;
            let clients = Clients::default();
            let _local = local(&host, &keeper, &clients);
            let stop = signals.stop.clone();
            let serving = async {
                if args.stdio {
                    let traces = args.traces(&env)?;
                    let who = (args.profile.clone(), traces.clone());
                    let served = serve_stdio(host.clone(), bridge, who, stop).await;
                    traces.flush().await;
                    served
                } else {
                    let store = store(args, &env, &keeper)?;
                    let beside = (clients, store, env.clone(), keeper.clone());
                    over_http(args, host.clone(), bridge, beside, stop).await
                }
            };
            tokio::pin!(serving);
            let mut warned = Vec::new();
            let mut told = NoticeReader::from_start();
            loop {
                let settled = settled(&host, &keeper, &warned);
                tokio::select! {
                    served = &mut serving => return served,
                    Some(event) = deck.next() => report_event(&event),
                    notices = told.next() => {
                        output::notices();
                        // The policy warns of the same.
                        warned.extend(notices.iter().map(ToString::to_string));
                    }
                    warnings = settled => {
                        for warning in warnings.iter().filter(|text| !warned.contains(text)) {
                            output::notice(warning);
                        }
                        warned = warnings;
                    }
                }
            }
        });
        Box::pin(serving).await
    });
    runtime.shutdown_background();
    let served = deck::ended(done)?.unwrap_or(Ok(()));
    served.map(|()| ExitStatus::Ok).map_err(|message| output::refuse(&SafeText::line(&message)))
}

/// Reads a value of the Host header: `HOST` or `HOST:PORT`.
fn parse_host(text: &str) -> Result<String, String> {
    let is_host = |url: &Url| {
        let name = url.host_str().unwrap_or_default();
        text.get(..name.len()).is_some_and(|host| host.eq_ignore_ascii_case(name))
            && !name.contains('*')
            && text[name.len()..].chars().all(|c| c == ':' || c.is_ascii_digit())
    };
    match Url::parse(&format!("http://{text}/")) {
        Ok(url) if is_host(&url) => Ok(text.to_owned()),
        _ => Err("write HOST:PORT, as the Host header has it; no pattern, no address".to_owned()),
    }
}

/// Waits until every server has started or failed and the policy warnings differ from `before`;
/// returns the warnings.
async fn settled(host: &Host, keeper: &PolicyKeeper, before: &[String]) -> Vec<String> {
    let (mut view, mut policy) = (host.view(), host.follow_policy());
    loop {
        let starts = |state| matches!(state, ServerState::Starting | ServerState::Waiting);
        if !view.borrow_and_update().servers.values().any(|server| starts(server.state)) {
            let warnings = keeper.warnings();
            if warnings != before {
                return warnings;
            }
        }
        tokio::select! {
            Ok(()) = view.changed() => {}
            Ok(()) = policy.changed() => {}
            else => return std::future::pending().await,
        }
    }
}

/// Reports to the operator what happened to a changed configuration.
fn report_event(event: &DeckEvent) {
    match event {
        DeckEvent::Reloaded(plan) if !plan.is_empty() => {
            output::complain("the changed configuration is used from now on");
        }
        DeckEvent::Rejected(error, _) => {
            output::complain(
                "the changed configuration cannot be used; the previous one stays in use",
            );
            deck::complain(error);
        }
        DeckEvent::Waiting(_) => output::complain(
            "the configuration has changed, and its `reload` asks first: restart the service to \
             use it, or open it in the dashboard",
        ),
        DeckEvent::TrustNeeded(servers) => {
            let names: Vec<&str> = servers.iter().map(base::ServerName::as_str).collect();
            let names = SafeText::line(&names.join(", "));
            output::complain(&format!("not started before `mcpdeck trust` approves them: {names}"));
        }
        _ => {}
    }
}

/// A bound listener with its options, ready to serve once there is a host.
struct Door {
    listener: TcpListener,
    options: ServeOptions,
    url: String,
    token_file: PathBuf,
}

impl Door {
    fn open(
        listen: SocketAddr,
        token_file: Option<&Path>,
        clients: Clients,
        profile: Option<String>,
    ) -> Result<Self, String> {
        let mut environment = Environment::of_process();
        environment.sources = ::deck::secret_sources(&environment);
        let state = environment.state_dir.clone();
        let none = "there is no folder for the token: name a file with --token-file";
        // Who names the file knows where the token is.
        let is_named = token_file.is_some();
        let token_file = match token_file {
            Some(file) => file.to_owned(),
            None => gateway::token_file(state.as_deref().ok_or(none)?),
        };
        let (owner, fresh) = OwnerToken::open(&token_file)?;
        let listener = TcpListener::bind(listen).map_err(|error| {
            format!("cannot listen on {listen}: {error}; choose another address")
        })?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        if fresh.is_some() && !is_named {
            let file = SafeText::line(&token_file.display().to_string());
            output::complain(&format!("made a new token, which you alone can read in {file}"));
        }
        let tokens = state.as_deref().map(ClientTokens::from_state_dir).unwrap_or_default();
        // A file that cannot be used is told now, not when the first client is refused.
        let _ = tokens.list();
        let options = ServeOptions {
            clients,
            owner,
            tokens,
            profile,
            environment,
            ..ServeOptions::default()
        };
        Ok(Self { listener, options, url: format!("http://{address}"), token_file })
    }
}

/// Opens the socket for attached dashboards and browsers; the service runs without it too.
#[cfg(unix)]
fn local(host: &Host, policy: &PolicyKeeper, clients: &Clients) -> Option<Listening> {
    let state = Environment::of_process().state_dir?;
    let local = Local { host: host.clone(), policy: policy.clone(), clients: clients.clone() };
    let listening = local.listen(&state);
    listening
        .inspect_err(|error| {
            tracing::warn!(target: "mcpdeck::gateway", %error, "there is no local socket");
        })
        .ok()
}

#[cfg(not(unix))]
fn local(_: &Host, _: &PolicyKeeper, _: &Clients) -> Option<()> {
    None
}

/// The store shared with other replicas. Reports when it becomes unavailable and available again.
fn store(
    args: &ServeArgs,
    env: &Environment,
    keeper: &PolicyKeeper,
) -> Result<Option<Arc<dyn SharedStore>>, String> {
    let Some(address) = &args.store else { return Ok(None) };
    #[cfg(not(feature = "cluster"))]
    {
        let _ = (address, env, keeper);
        let built = "this mcpdeck was built without the store of replicas: build it with";
        Err(format!("{built} `--features cluster`"))
    }
    #[cfg(feature = "cluster")]
    {
        let state =
            Environment::of_process().state_dir.map(|state| ClientTokens::from_state_dir(&state));
        let tokens = state.as_ref().and_then(ClientTokens::path);
        let tokens = tokens.ok_or("there is no folder for the tokens: set MCPDECK_STATE_DIR")?;
        let store = gateway::Valkey::new(address, env, tokens, keeper.clone())?;
        let (mut away, place) = (store.away(), store.place().to_owned());
        tokio::spawn(async move {
            while away.changed().await.is_ok() {
                let words = match &*away.borrow_and_update() {
                    Some(reason) => format!("{reason}; requests are refused until it is back"),
                    None => "it is there".to_owned(),
                };
                output::complain(&SafeText::line(&format!("the store at {place}: {words}")));
            }
        });
        Ok(Some(store))
    }
}

async fn over_http(
    args: &ServeArgs,
    host: Host,
    bridge: Bridge,
    (clients, store, environment, policy): (
        Clients,
        Option<Arc<dyn SharedStore>>,
        Environment,
        PolicyKeeper,
    ),
    stop: CancellationToken,
) -> Result<(), String> {
    let file = args.token_file.as_deref();
    let mut door = Door::open(args.listen, file, clients, args.profile.clone())?;
    door.options.clients.served_at(&format!("{}/mcp", door.url));
    #[cfg(feature = "chat")]
    let chats = (store.clone().map(|store| store as _), door.options.clients.clone());
    door.options.store = store;
    door.options.traces = args.traces(&environment)?;
    door.options.environment = environment;
    door.options.allowed_hosts.clone_from(&args.allow_host);
    door.options.allowed_origins.clone_from(&args.allow_origin);
    let traces = door.options.traces.clone();
    let (url, file) = (&door.url, &door.token_file);
    let event = json!({
        "event": "listening", "url": url, "mcp": format!("{url}/mcp"), "tokenFile": file,
    });
    let address = url.clone();
    let (clients, owner) = (door.options.clients.clone(), door.options.owner.clone());
    let mut service = GatewayService::on(door.listener, host.clone(), bridge, door.options)
        .map_err(|error| error.to_string())?;
    if args.admin {
        let sign_ins = Arc::new(AdminSignIns::default());
        let code = sign_ins.link(CancellationToken::new());
        let code = code.ok_or("there are no random numbers for the link of the page")?;
        let on = Operated { host: host.clone(), clients: Some(clients), policy: Some(policy) };
        service.serve_beside(admin_routes(on, sign_ins, owner, service.streams()));
        output::complain(&format!(
            "the operator's page: {address}{ADMIN_LINK_PATH}{code} (signs a browser in, once)"
        ));
    }
    #[cfg(feature = "chat")]
    if let Some(link) = super::chat::serve(&args.chat, chats, host, &mut service)? {
        output::complain(&format!("the chat: {address}{link} (signs a browser in, once)"));
    }
    output::print(&format!("{event}\n"), ExitStatus::Ok);
    service.run(stop).await;
    traces.flush().await;
    Ok(())
}

/// Serves beside the dashboard, whose user answers requests and watches the clients.
///
/// # Errors
/// When the address is not loopback or cannot be bound, or the token file cannot be used.
#[cfg(feature = "tui")]
pub fn beside(
    mut deck: DeckBuilder,
    listen: SocketAddr,
) -> Result<(DeckBuilder, Bridge, Clients), ExitStatus> {
    if !listen.ip().is_loopback() {
        return Err(output::refuse("beside the dashboard it listens on 127.0.0.1 or [::1] only"));
    }
    let clients = Clients::default();
    let door = Door::open(listen, None, clients.clone(), None);
    let door = door.map_err(|message| output::refuse(&SafeText::line(&message)))?;
    clients.served_at(&format!("{}/mcp, token in {}", door.url, door.token_file.display()));
    let bridge = Bridge::default();
    let callback = bridge.clone();
    let known = clients.clone();
    let service: Alongside = Box::new(move |host, policy| {
        Box::pin(async move {
            let _local = local(&host, &policy, &known);
            match GatewayService::on(door.listener, host, callback, door.options) {
                Ok(service) => service.run(CancellationToken::new()).await,
                Err(error) => {
                    tracing::error!(target: "mcpdeck::gateway", "the service cannot start: {error}");
                }
            }
        })
    });
    deck.serves_others = true;
    deck.alongside = Some(service);
    Ok((deck, bridge, clients))
}

/// Creates a token for a connected client; returns it and its id.
pub fn token_for(profile: Option<&str>) -> Result<(Secret, String), ExitStatus> {
    let nowhere = || output::refuse("there is no folder to keep tokens in: set MCPDECK_STATE_DIR");
    let store =
        ClientTokens::from_state_dir(&Environment::of_process().state_dir.ok_or_else(nowhere)?);
    let profile = profile.unwrap_or(DEFAULT_PROFILE);
    let made = store.create(profile, DEFAULT_SCOPES.to_vec(), None, Clock::system().now());
    made.map(|(token, record)| (token, record.id)).map_err(refused)
}

/// Revokes the token of a client that is no longer connected; one that is gone already is fine.
pub fn revoke_quietly(id: &str) {
    if let Some(state) = Environment::of_process().state_dir
        && let Err(problem) = ClientTokens::from_state_dir(&state).revoke(id)
    {
        output::complain(&SafeText::line(&format!("its token {id} is still valid: {problem}")));
    }
}

/// Creates, lists and revokes tokens.
pub fn token(args: &TokenArgs) -> CommandResult {
    let nowhere = || output::refuse("there is no folder to keep tokens in: set MCPDECK_STATE_DIR");
    let store =
        ClientTokens::from_state_dir(&Environment::of_process().state_dir.ok_or_else(nowhere)?);
    let text = match &args.command {
        TokenCommand::New { profile, scope, expires } => {
            let scopes = if scope.is_empty() { DEFAULT_SCOPES.to_vec() } else { scope.clone() };
            let made = store.create(profile, scopes, *expires, Clock::system().now());
            let (token, record) = made.map_err(refused)?;
            let (id, profile) = (&record.id, SafeText::line(&quoted(profile)));
            output::complain(&format!(
                "token {id}: it is shown only here; permit tools with `mcpdeck grants add \
                 --origin gateway:{id} --profile {profile} --always --tools SERVER.GLOB`"
            ));
            format!("{}\n", token.expose())
        }
        TokenCommand::List { json: true } => {
            let tokens = store.stored().map_err(refused)?;
            let rows = tokens.iter().map(|token| {
                json!({
                    "id": token.id, "profile": token.profile, "scopes": token.scopes,
                    "created": token.created.to_rfc3339(),
                    "expires": token.expires.map(Timestamp::to_rfc3339),
                })
            });
            format!("{:#}\n", json!({ "tokens": rows.collect::<Vec<_>>() }))
        }
        TokenCommand::List { json: false } => {
            let tokens = store.stored().map_err(refused)?;
            let rows = tokens.iter().map(|token| {
                let scopes: Vec<&str> = token.scopes.iter().map(|s| s.as_str()).collect();
                let end = token.expires.map_or("never".to_owned(), Timestamp::to_rfc3339);
                let profile = SafeText::line(&token.profile);
                format!("{}  {profile}  expires {end}  {}\n", token.id, scopes.join(" "))
            });
            if tokens.is_empty() { "no tokens\n".to_owned() } else { rows.collect() }
        }
        TokenCommand::Revoke { id } if store.revoke(id).map_err(refused)? => "revoked\n".to_owned(),
        TokenCommand::Revoke { .. } => {
            let why = "there is no such token; `mcpdeck token list` shows them";
            return Err(output::refuse(why));
        }
    };
    Ok(output::print(&text, ExitStatus::Ok))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_no_client_sends_is_refused() {
        for host in ["gate.example:443", "Gate.example", "[::1]:1", "127.0.0.1:7420"] {
            assert_eq!(parse_host(host).as_deref(), Ok(host));
        }
        for wrong in ["*", "*.y.example", "", "http://x:1", "x:1/", "a@x:1", "x:port", "x y", ":1"]
        {
            assert!(parse_host(wrong).is_err(), "{wrong}");
        }
    }
}
