//! A host for one command: starts the servers it needs, runs it, stops them, also on Ctrl-C.

use super::args::{Common, OneServer};
use super::load::{self, LeftOut, LoadedConfig};
use super::output::{ExitStatus, ProgressLine};
use super::{output, recording, signals};
use crate::telemetry::Telemetry;
use ::check::answers::AnswerScript;
use ::check::run::{CheckSignals, PROGRESS_INTERVAL, Settling};
use ::deck::{Deck, DeckBuilder, KeptDefinitions, PolicyKeeper, Recorder};
use base::human::Dur;
use base::text::quoted;
use base::{SafeText, ServerName};
use config::error::{Error, ErrorCode};
use config::{Environment, McpConfig};
use host::{Host, HostView, ServerState, TargetKind, split_name};
use mcp::Accounts;
use protocol::ListKind;
use std::fmt::Write as _;
use std::time::Duration;

/// Which servers a command needs.
pub enum Need {
    /// These and their dependencies; all when empty.
    Servers(Vec<String>),
    /// The server whose name is the prefix of this; else the only one known to have it; else all.
    Owner(TargetKind, String),
}

/// Where the servers of a command come from, and its log.
#[derive(Clone, Copy)]
pub struct Invocation<'a> {
    /// Options of every command.
    pub common: &'a Common,
    /// A server without a configuration file.
    pub one: &'a OneServer,
    /// The log.
    pub telemetry: &'a Telemetry,
}

/// Whether callers other than the user come: the model of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// The user alone.
    User,
    Model,
}

/// What a command works with.
pub struct Scene<'a> {
    /// The host; every server it has is ready or has failed.
    pub host: &'a Host,
    /// Servers whose entry cannot be used.
    pub left_out: &'a LeftOut,
    /// The recorder, with `--record`.
    #[cfg_attr(not(feature = "chat"), expect(dead_code, reason = "the chat records what it says"))]
    pub recorder: Option<&'a Recorder>,
    /// The policy of the files.
    pub policy: &'a PolicyKeeper,
    kept: &'a KeptDefinitions,
    /// All servers, when only the known owner of the target was started.
    rest: Option<&'a McpConfig>,
}

impl Scene<'_> {
    /// Starts the servers that were skipped as not needed; returns whether there were any.
    ///
    /// # Errors
    /// When the host is stopping.
    pub async fn widen(&self) -> Result<bool, Error> {
        let Some(all) = self.rest else { return Ok(false) };
        output::progress("it no longer has that: starting the other servers too");
        self.host.reload(all.clone()).await?;
        started(self.host, all).await;
        self.policy.look_again().await;
        self.kept.remember(all, &self.host.snapshot());
        Ok(true)
    }
}

impl Invocation<'_> {
    /// Runs `work` on a host with the needed servers; `answers` replies to requests of the servers.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] when nothing could be started; a failure of `work` is its exit.
    pub fn run(
        self,
        need: Need,
        answers: AnswerScript,
        work: impl AsyncFnOnce(&Scene<'_>) -> ExitStatus,
    ) -> Result<ExitStatus, Error> {
        let source = load::source(self.common, self.one, self.common.startup_mode());
        self.run_over(source.map_err(refused)?, (need, Callers::User), answers, work)
    }

    /// As [`Self::run`], with a configuration that is already loaded.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_over(
        self,
        mut source: LoadedConfig,
        (need, callers): (Need, Callers),
        answers: AnswerScript,
        work: impl AsyncFnOnce(&Scene<'_>) -> ExitStatus,
    ) -> Result<ExitStatus, Error> {
        let common = self.common;
        source.config.answer_once(common.timeout);
        let kept = KeptDefinitions::from_env(&Environment::of_process());
        let (names, spared) = needed(&source, need, &kept);
        let rest = spared.then(|| source.config.clone());
        let wrong = |message| Error::new(ErrorCode::Configuration, message);
        source.narrow(&names).map_err(wrong)?;
        source.warn_of_ignored_settings();
        let all = rest.as_ref().unwrap_or(&source.config);
        self.telemetry.redactor().learn(load::secrets(all));
        let done = signals::block_on(async |signals| {
            let config = source.config.clone();
            let mut engine = Host::builder()
                .startup(common.startup_mode())
                .handler(answers)
                .accounts(accounts(common, self.one));
            // A recording holds how every server ended.
            if common.record.is_none() {
                engine = engine.hands_over();
            }
            // Its rules are those of the files; a server alone has none.
            let env = load::environment(common).unwrap_or_default();
            let files = source.path.as_ref().map(|_| load::files(common, &env));
            let mut deck = Deck::builder().config(source.config).host(engine);
            deck.serves_others = callers == Callers::Model;
            let deck = deck.environment(env).policy_of(files.unwrap_or_default());
            let done = over(common, &signals, deck, async |deck, recorder| {
                let (host, left_out, policy) = (deck.host(), &source.left_out, deck.policy());
                tell(policy);
                let rest = rest.as_ref();
                let scene = Scene { host, left_out, recorder, policy, kept: &kept, rest };
                tokio::select! {
                    exit = async {
                        started(host, &config).await;
                        // What the servers offer has to be known before anything is decided.
                        policy.look_again().await;
                        kept.remember(&config, &host.snapshot());
                        work(&scene).await
                    } => exit,
                    () = signals.stop.cancelled() => interrupted(),
                }
            });
            Ok(done.await?.unwrap_or_else(interrupted))
        });
        done.map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))?
    }

    // Other command lines for the same servers, to suggest to the user.

    /// The check of a server, with every step.
    pub fn check(self, server: &ServerName) -> String {
        line(CHECK, (self.common, self.one), server)
    }

    /// The list of a server, with the parameters of its tools.
    pub fn list(self, server: &ServerName) -> String {
        line(LIST, (self.common, self.one), server)
    }
}

/// A command, and the words it needs before a URL and before a server's name.
type Asking = (&'static str, &'static str, &'static str);
const CHECK: Asking = ("--check -v", "", "--server ");
const LIST: Asking = ("list --long", "--url ", "");
const LOGIN: Asking = ("login", "", "");

/// The accounts of the user. What needs a sign-in names a command that works for these servers.
pub fn accounts(common: &Common, one: &OneServer) -> Option<Accounts> {
    let (common, one) = (common.clone(), one.clone());
    let accounts = ::deck::accounts(&Environment::of_process())?;
    Some(accounts.command(move |server| line(LOGIN, (&common, &one), server)))
}

fn line(
    (verb, for_url, for_name): Asking,
    (common, one): (&Common, &OneServer),
    server: &ServerName,
) -> String {
    let mut line = format!("mcpdeck {verb}");
    // A name that begins like an option comes after all of them.
    let is_odd = for_name.is_empty() && server.as_str().starts_with('-');
    let mut last = None;
    let _ = match (&one.url, one.command.is_empty()) {
        (Some(url), _) => write!(line, " {for_url}{}", quoted(url)),
        (None, true) if is_odd => {
            last = Some(quoted(server.as_str()));
            Ok(())
        }
        (None, true) if server.as_str().starts_with('-') => {
            write!(line, " {}={}", for_name.trim_end(), quoted(server.as_str()))
        }
        (None, true) => write!(line, " {for_name}{}", quoted(server.as_str())),
        (None, false) => Ok(()),
    };
    if common.demo {
        line += " --demo";
    }
    let files = [("--config", &common.config), ("--env-file", &common.env_file)];
    for (option, files) in files {
        for file in files {
            let _ = write!(line, " {option} {}", quoted(&file.display().to_string()));
        }
    }
    let words: Vec<_> = one.command.iter().map(|word| quoted(word)).chain(last).collect();
    if words.is_empty() { line } else { format!("{line} -- {}", words.join(" ")) }
}

/// Tells what is wrong with the files of the policy.
pub fn tell(policy: &PolicyKeeper) {
    for notice in policy.notices() {
        output::notice(&notice);
    }
}

/// Refuses a named profile that neither the policy nor a grant has: nothing would be permitted
/// under it.
///
/// # Errors
/// Names the profile, and one of a similar name.
#[cfg(any(feature = "chat", feature = "gateway"))]
pub fn known_profile(host: &Host, profile: Option<&str>) -> Result<(), String> {
    let Some(profile) = profile else { return Ok(()) };
    let in_force = host.follow_policy().borrow().clone();
    let is_known =
        profile == host::DEFAULT_PROFILE || in_force.config.profiles.contains_key(profile);
    let all = in_force.policy.grants.all();
    let is_known = is_known || all.iter().any(|grant| grant.profile == profile);
    if is_known || in_force.policy.closed.is_some() {
        return Ok(());
    }
    let near =
        base::text::nearest(profile, in_force.config.profiles.keys().map(String::as_str), 0.7);
    let near = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    Err(format!("the policy has no profile `{profile}`{near}"))
}

/// Runs `work` on a deck, recorded with `--record`, then stops its servers. `None` when a signal
/// came before the deck was open; servers started by then are stopped.
///
/// # Errors
/// When the deck cannot be opened, or not be recorded.
pub async fn over<T>(
    common: &Common,
    signals: &CheckSignals,
    deck: DeckBuilder,
    work: impl AsyncFnOnce(&mut Deck, Option<&Recorder>) -> T,
) -> Result<Option<T>, Error> {
    let mut deck = tokio::select! {
        deck = deck.open() => deck?,
        () = signals.stop.cancelled() => return Ok(None),
    };
    let host = deck.host().clone();
    let recorder = recording::start(common, &host);
    let done = match &recorder {
        Ok(recorder) => Ok(work(&mut deck, recorder.as_ref()).await),
        Err(message) => Err(Error::new(ErrorCode::Configuration, message)),
    };
    signals.shut_down(&host, || ()).await;
    recording::finish(common, recorder.ok().flatten()).await;
    done.map(Some)
}

/// The servers to start (empty: all), and whether others were skipped because of their remembered
/// lists, which may be outdated.
fn needed(source: &LoadedConfig, need: Need, kept: &KeptDefinitions) -> (Vec<String>, bool) {
    let (kind, name) = match need {
        Need::Servers(names) => return (names, false),
        Need::Owner(kind, name) => (kind, name),
    };
    let left_out = source.left_out.iter().map(|(name, _)| name);
    let servers = source.config.servers.keys().chain(left_out).map(ServerName::as_str);
    if kind != TargetKind::Resource
        && let Some((server, _)) = split_name(&name, servers)
    {
        return (vec![server.to_owned()], false);
    }
    let owner = owner(kept, &source.config, kind, &name).filter(|_| source.left_out.is_empty());
    let Some((server, age)) = owner else { return (Vec::new(), false) };
    let (shown, ago) = (SafeText::line(server.as_str()), Dur(age));
    output::progress(&format!("asking `{shown}` alone: no other server had that {ago} ago"));
    (vec![server.as_str().to_owned()], true)
}

/// Maximum age of the remembered lists that a server is chosen by.
const MAX_LISTS_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The only server that has this name, when the lists of all servers are remembered: a server with
/// unknown lists could have it too. With the age of the oldest list used.
fn owner(
    kept: &KeptDefinitions,
    config: &McpConfig,
    kind: TargetKind,
    name: &str,
) -> Option<(ServerName, Duration)> {
    let kind = match kind {
        TargetKind::Tool => ListKind::Tools,
        TargetKind::Prompt => ListKind::Prompts,
        TargetKind::Resource => ListKind::Resources,
        TargetKind::Server => return None,
    };
    let (mut owners, mut oldest) = (Vec::new(), Duration::ZERO);
    let enabled: Vec<_> = config.servers.values().filter(|server| !server.disabled).collect();
    for server in &enabled {
        let (lists, age) = kept.lists(server)?;
        if !lists.partial.is_empty() || age >= MAX_LISTS_AGE {
            return None;
        }
        oldest = oldest.max(age);
        if lists.entries(kind).iter().any(|(known, _)| known.as_ref() == name) {
            owners.push(server.name.clone());
        }
    }
    match <[ServerName; 1]>::try_from(owners) {
        // With one server there is nothing to skip.
        Ok([server]) if enabled.len() > 1 => Some((server, oldest)),
        _ => None,
    }
}

/// Reports that a signal ended the command.
pub fn interrupted() -> ExitStatus {
    output::complain("interrupted");
    ExitStatus::Interrupted
}

/// Problems of a configuration as an error.
pub fn refused(diagnostics: Vec<config::Diagnostic>) -> Error {
    crate::telemetry::refused(&diagnostics);
    let mut error = Error::new(ErrorCode::Configuration, "the configuration cannot be used");
    error.diagnostics = diagnostics;
    error
}

/// Waits until every server is ready or has failed; shows progress on a terminal.
async fn started(host: &Host, config: &McpConfig) {
    let mut progress = ProgressLine::new();
    let mut settling = Settling::default();
    let mut view = host.view();
    // Refreshes the elapsed time.
    let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        let now = view.borrow_and_update().clone();
        let all = &config.servers;
        let needs = |name: &ServerName| -> Vec<&ServerName> {
            all.get(name).into_iter().flat_map(|server| &server.dependencies).collect()
        };
        if settling.is_over(&now, &needs) {
            break;
        }
        progress.show(&now, false);
        tokio::select! {
            changed = view.changed() => if changed.is_err() { break },
            _ = tick.tick() => {}
        }
    }
}

/// The exit code of a failed operation.
pub fn exit_of(error: &Error) -> ExitStatus {
    match error.code {
        ErrorCode::Configuration
        | ErrorCode::Validation
        | ErrorCode::ToolNotFound
        | ErrorCode::Ambiguous => ExitStatus::Usage,
        ErrorCode::ServerStartup | ErrorCode::ServerUnavailable | ErrorCode::CircuitOpen => {
            ExitStatus::Unavailable
        }
        _ => ExitStatus::Failed,
    }
}

/// Reports an error, if there is one, and converts it to its exit code.
pub fn ended<T>(done: Result<T, Error>) -> Result<T, ExitStatus> {
    done.map_err(|error| {
        complain(&error);
        exit_of(&error)
    })
}

/// Writes an error to stderr: a configuration's problems with their lines, anything else as it is.
pub fn complain(error: &Error) {
    if error.diagnostics.is_empty() {
        let mut plain = error.clone();
        let help = plain.help.take();
        let meant = match plain.code {
            ErrorCode::ToolNotFound => std::mem::take(&mut plain.candidates),
            _ => Vec::new(),
        };
        let mut text = plain.to_string();
        if !meant.is_empty() {
            let names: Vec<_> = meant.iter().map(|name| format!("`{name}`")).collect();
            let _ = write!(text, "\n  did you mean {}?", names.join(" or "));
        }
        for line in help.iter().flat_map(|help| help.lines()) {
            // An indented line continues a list and keeps its indentation.
            let indent = if line.starts_with(' ') { "" } else { "  " };
            let _ = write!(text, "\n{indent}{line}");
        }
        output::complain(&SafeText::block(&text));
        return;
    }
    let text = config::render_all(&error.diagnostics);
    output::complain(&format!("{}\n{}", error.message, text.trim_end()));
}

/// The error for a server that is not ready: the one with this name, else the first, since that may
/// be why a name was not found.
pub fn unready(
    view: &HostView,
    invocation: Invocation<'_>,
    named: Option<&ServerName>,
) -> Option<Error> {
    let mut down = view.servers.values().filter(|server| {
        !server.state.is_callable()
            && server.state != ServerState::Disabled
            && named.is_none_or(|name| server.name == *name)
    });
    let first = down.next()?;
    let reason = first.reason.clone();
    let reason = reason.unwrap_or_else(|| SafeText::line("it did not become ready"));
    let mut message = format!("the server is {}", first.state.because(Some(&reason)));
    if let Some(line) = first.unquoted_word(&reason) {
        let _ = write!(message, " (stderr: {line})");
    }
    let steps = format!("`{}` shows every step", invocation.check(&first.name));
    let help = first.help.as_ref().map_or_else(|| steps.clone(), |help| format!("{help}\n{steps}"));
    Some(Error::new(ErrorCode::ServerUnavailable, message).server(&first.name).help(help))
}

/// Maximum number of stderr lines shown of a server that died during a call.
const MAX_STDERR_LINES: usize = 8;

/// How long to wait for the exit of a process to be reported.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Adds help and the last lines of stderr when the server died during the request; says what is
/// known of one that has no process. The error of one that failed to start already has that.
pub async fn explained(host: &Host, invocation: Invocation<'_>, error: Error) -> Error {
    let Some(name) = error.server.clone().filter(|_| error.request.is_some()) else {
        return error;
    };
    let mut view = host.view();
    let died =
        |view: &std::sync::Arc<HostView>| view.servers.get(&name).is_some_and(|s| s.exit.is_some());
    let known = tokio::time::timeout(EXIT_TIMEOUT, view.wait_for(died)).await;
    let Ok(Ok(view)) = known.map(|known| known.map(|view| view.clone())) else {
        // One that is being reached again is not the better explanation.
        let view = host.snapshot();
        let is_down = view.servers.get(&name).is_some_and(|s| s.state == ServerState::Unavailable);
        let down = unready(&view, invocation, Some(&name)).filter(|_| is_down);
        return down.unwrap_or(error);
    };
    let Some(server) = view.servers.get(&name) else { return error };
    let words: Vec<_> = server.last_words().iter().filter(|line| !line.trim().is_empty()).collect();
    let mut help = match (&server.help, words.is_empty()) {
        (Some(help), _) => help.as_str().to_owned(),
        (None, true) => "it wrote nothing to stderr before".to_owned(),
        (None, false) => "its last output:".to_owned(),
    };
    for line in words.iter().skip(words.len().saturating_sub(MAX_STDERR_LINES)) {
        let _ = write!(help, "\n  stderr | {line}");
    }
    error.help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_servers_as_the_command_did() {
        let name = ServerName::new("files");
        let said = |common: &Common, one: &OneServer| {
            (line(CHECK, (common, one), &name), line(LIST, (common, one), &name))
        };
        let (plain, none) = (Common::default(), OneServer::default());
        let (check, list) = said(&plain, &none);
        assert_eq!(check, "mcpdeck --check -v --server files");
        assert_eq!(list, "mcpdeck list --long files");
        let file = Common { config: vec!["my team.json".into()], ..Common::default() };
        assert!(said(&file, &none).0.ends_with("--server files --config 'my team.json'"));
        let command = ["node", "a b.js"].map(str::to_owned).to_vec();
        let one = OneServer { command, ..OneServer::default() };
        assert_eq!(said(&plain, &one).0, "mcpdeck --check -v -- node 'a b.js'");
        assert_eq!(said(&plain, &one).1, "mcpdeck list --long -- node 'a b.js'");
        let one = OneServer { url: Some("http://h/mcp".to_owned()), ..OneServer::default() };
        assert_eq!(said(&plain, &one).0, "mcpdeck --check -v http://h/mcp");
        assert_eq!(said(&plain, &one).1, "mcpdeck list --long --url http://h/mcp");
    }
}
