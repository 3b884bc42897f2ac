//! `chat`: talks with a language model that calls the tools of the servers, at a terminal, in a pipe
//! or for one question.

#[cfg(feature = "tui")]
mod pane;
mod replay;

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::args::{Common, OneServer};
use super::deck::{self, Job, Need};
use super::output::{Done, Exit};
use super::{load, output};
use crate::base::SafeText;
use crate::base::text::json as safe;
#[cfg(feature = "tui")]
use crate::chat::ModelDrafter;
use crate::chat::files::with_files;
#[cfg(feature = "gateway")]
use crate::chat::session::{SessionLimits, Sessions};
#[cfg(feature = "gateway")]
use crate::chat::socket::{self, SocketLimits};
#[cfg(feature = "gateway")]
use crate::chat::store::Store;
use crate::chat::{Agent, ChatEvent, ChatSettings, Conversation, Provider, StatusKind, TurnLimits};
use crate::check::answers::Script;
use crate::config::Environment;
#[cfg(feature = "gateway")]
use crate::deck::chats::ChatStore;
use crate::deck::policy::PolicyKeeper;
#[cfg(feature = "gateway")]
use crate::gateway::Service;
#[cfg(feature = "gateway")]
use crate::host::Host;
use crate::host::policy::Principal;
#[cfg(feature = "gateway")]
use crate::host::policy::Scope;
use crate::host::{Origin, PendingRequest, RequestHandler};
use crate::mcp::{Answer, RequestKind};
use crate::telemetry::Telemetry;
#[cfg(feature = "tui")]
use crate::tui::chat::port::OpenChat;

/// Which model, and how it is reached.
#[derive(Clone, Debug, Default, Args)]
pub struct ModelArgs {
    /// Whose model; by default that of the settings, or the first whose key is in the environment.
    #[arg(long, value_name = "NAME", value_parser = providers())]
    pub provider: Option<Provider>,
    /// Another address of the provider's interface, for example <http://127.0.0.1:8080/v1>.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<Url>,
    /// The model [default: the provider's usual one].
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Call tools by fenced blocks in the text: for models without calls of their own.
    #[arg(long)]
    pub fenced: bool,
    /// Tokens that a prompt and its answer may have together.
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<u64>,
}

/// The names of the providers.
fn providers() -> impl TypedValueParser<Value = Provider> {
    let names = PossibleValuesParser::new(Provider::ALL.map(Provider::as_str));
    names.try_map(|name| Provider::named(&name).ok_or("there is no such provider"))
}

impl ModelArgs {
    /// The person's defaults, but for what is named here.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn settings(&self, env: &Environment) -> Result<ChatSettings, String> {
        let mut settings = ChatSettings::read(env)?;
        if self.provider.is_some() && self.provider != settings.provider {
            // What is said of the model of one provider holds for no other.
            let ChatSettings { keys, sessions, .. } = settings;
            let provider = self.provider;
            settings = ChatSettings { provider, keys, sessions, ..ChatSettings::default() };
        }
        settings.base_url = self.base_url.as_ref().map(Url::to_string).or(settings.base_url);
        settings.model = self.model.clone().or(settings.model);
        settings.fenced |= self.fenced;
        settings.context = self.context.or(settings.context);
        Ok(settings)
    }
}

/// `mcpdeck chat`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ChatArgs {
    /// Ask this one question and end; without it every line of stdin is a message.
    #[arg(long, short = 'p', value_name = "TEXT")]
    prompt: Option<String>,
    /// Print one JSON object for every event.
    #[arg(long)]
    json: bool,
    /// Ask the messages of this recording again, with the recorded servers, and compare the calls.
    #[arg(long, value_name = "RECORDING", value_hint = ValueHint::FilePath, conflicts_with_all = ["prompt", "profile", "demo"])]
    replay: Option<PathBuf>,
    /// Act under this profile of the policy instead of as yourself.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How often the model may be asked in one turn.
    #[arg(long, value_name = "N", default_value_t = TurnLimits::default().rounds)]
    max_rounds: u32,
    /// How many calls it may make in one turn.
    #[arg(long, value_name = "N", default_value_t = TurnLimits::default().calls)]
    max_calls: u32,
    /// Use the embedded demo servers, and the embedded model unless a provider is named.
    #[arg(long)]
    demo: bool,
    /// The model.
    #[command(flatten, next_help_heading = "Model")]
    model: ModelArgs,
    /// Without a file.
    #[command(flatten, next_help_heading = "One server")]
    one: OneServer,
}

const EXAMPLES: &str = "\
Examples:
  mcpdeck chat                                    a conversation at the terminal
  mcpdeck chat -p 'what changed in this repository?'
  mcpdeck chat --provider ollama --model qwen3
  mcpdeck chat --base-url http://127.0.0.1:8080/v1 --provider openai --model local
  mcpdeck chat -p 'list my notes' --json          one event a line, for scripts
  mcpdeck chat -p 'list my notes' --record a.jsonl
  mcpdeck chat --replay a.jsonl --model other     which tools another model calls

Exit codes: 0 the turn ended, 1 it failed or was stopped by a limit, or other tools were called than
recorded, 2 the arguments or the configuration cannot be used.";

/// The chat of `mcpdeck serve`
#[cfg(feature = "gateway")]
#[derive(Debug, Args)]
pub struct ServeChat {
    /// Serve a chat with a model too: a page at `/`, and `/ws`.
    #[arg(long, conflicts_with = "stdio")]
    chat: bool,
    /// Keep sessions in this file (`SQLite`): they go on after the program was started again. With
    /// `--store` they are kept there.
    #[arg(long, value_name = "FILE", requires = "chat", value_hint = ValueHint::FilePath)]
    sessions: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Adds the chat to a service: whoever chats may do what their token may. `shared` keeps the sessions
/// of all replicas.
///
/// # Errors
/// Says what is missing of the model.
#[cfg(feature = "gateway")]
pub fn serve(
    args: &ServeChat,
    shared: Option<Arc<dyn ChatStore>>,
    host: Host,
    service: &mut Service,
) -> Result<(), String> {
    if !args.chat {
        return Ok(());
    }
    let mut env = Environment::of_process();
    env.sources = crate::deck::policy::sources(&env);
    let settings = args.model.settings(&env)?;
    let store = match (shared, args.sessions.as_ref().or(settings.sessions.as_ref())) {
        (Some(_), _) if args.sessions.is_some() => {
            return Err(
                "leave --sessions out: it is a file of this machine, and with --store the \
                        replicas share their sessions there"
                    .to_owned(),
            );
        }
        (Some(shared), _) => Some(shared),
        (None, file) => file.map(|file| Store::open(file)).transpose()?,
    };
    let sessions = Sessions::new(host, settings.model(&env)?, SessionLimits::default(), store);
    let clients = service.clients();
    let who = move |token: &str| {
        let client = clients(token)?;
        client.may(Scope::ToolsCall).then(|| client.principal())
    };
    service.serve_beside(socket::routes(sessions, Arc::new(who), SocketLimits::default()));
    Ok(())
}

/// What talks with a model in the dashboard.
#[cfg(feature = "tui")]
pub type InDashboard = Option<(ModelDrafter, OpenChat)>;

/// What talks with a model in the dashboard: the person's chat, and what drafts answers to requests of
/// servers. Nothing where no model is known.
///
/// # Errors
/// When the settings cannot be used.
#[cfg(feature = "tui")]
pub fn in_dashboard(common: &Common, is_demo: bool) -> Result<InDashboard, String> {
    let env = load::environment(common).unwrap_or_default();
    let provider = is_demo.then_some(Provider::Embedded);
    let settings = ModelArgs { provider, ..ModelArgs::default() }.settings(&env)?;
    let model = match settings.model(&env) {
        Ok(model) => model,
        Err(why) => {
            tracing::info!(target: "mcpdeck::chat", "no chat: {why}");
            return Ok(None);
        }
    };
    let files = if is_demo { Vec::new() } else { load::files(common, &env) };
    let source = pane::Source { settings, env, files };
    Ok(Some((ModelDrafter::new(Arc::clone(&model)), pane::open(model, source))))
}

/// `mcpdeck chat`
pub fn chat(common: &Common, args: &ChatArgs, telemetry: &Telemetry) -> Done {
    let mut which = args.model.clone();
    if args.demo && which.provider.is_none() {
        which.provider = Some(Provider::Embedded);
    }
    let env = load::environment(common).unwrap_or_default();
    let model = which.settings(&env).and_then(|settings| settings.model(&env));
    let model = model.map_err(|message| output::refuse(&message))?;
    let limits =
        TurnLimits { rounds: args.max_rounds, calls: args.max_calls, ..TurnLimits::default() };
    let need = Need::Servers(Vec::new());
    let job = Job { common, one: &args.one, need, answers: Script::default(), telemetry };
    if let Some(file) = &args.replay {
        let (replay, source) = replay::read(file).map_err(|message| output::refuse(&message))?;
        let work = async |scene: &deck::Scene<'_>| {
            replay::ask(scene, replay, model, limits, args.json).await
        };
        return deck::ended(deck::run_over(source, job, work));
    }
    let work = async |scene: &deck::Scene<'_>| {
        // Who acts as somebody else has the rules of the files.
        let files = if args.demo { Vec::new() } else { load::files(common, &env) };
        let _keeper = match &args.profile {
            Some(_) => Some(PolicyKeeper::open(scene.host, &files, &env).await),
            None => None,
        };
        let who = match &args.profile {
            Some(profile) => {
                Principal::new(Origin::Chat("cli".to_owned())).with_profile(profile.as_str())
            }
            None => Principal::new(Origin::Cli),
        };
        let agent = Agent::new(scene.host.clone(), who.with_session("cli"), model).limits(limits);
        let mut talk = Conversation::default();
        if let Some(prompt) = &args.prompt {
            return turn(scene, &agent, &mut talk, (prompt, &env), args.json).await;
        }
        let lines = lines();
        if std::io::stdin().is_terminal() {
            scene.host.register_callback(AtTerminal(Arc::clone(&lines)));
        }
        output::note(&format!("talking with {}; an empty line ends it", agent.model().name()));
        let mut exit = Exit::Ok;
        loop {
            if std::io::stdin().is_terminal() && !args.json {
                output::print("\n> ", Exit::Ok);
            }
            let Some(line) = lines.lock().await.recv().await else { return exit };
            if line.trim().is_empty() {
                return exit;
            }
            exit = turn(scene, &agent, &mut talk, (&line, &env), args.json).await;
        }
    };
    let source = if args.demo { load::demo() } else { load::usable(common, &args.one) };
    let done = match source {
        Ok(source) => deck::run_over(source, job, work),
        Err(problems) => Err(deck::refused(problems)),
    };
    deck::ended(done)
}

/// One turn, printed as it goes.
async fn turn(
    scene: &deck::Scene<'_>,
    agent: &Agent,
    talk: &mut Conversation,
    (text, env): (&str, &Environment),
    as_json: bool,
) -> Exit {
    let text = match with_files(text, &env.cwd) {
        Ok(text) => text,
        Err(message) => {
            output::complain(&message);
            return Exit::Failed;
        }
    };
    if let Some(recorder) = scene.recorder {
        recorder.said(&text);
    }
    // Whether a line of the answer is open.
    let open = AtomicBool::new(false);
    let tell = |event: ChatEvent| {
        if as_json {
            output::print(&(safe::compact(&event) + "\n"), Exit::Ok);
        } else {
            show(&event, &open);
        }
    };
    let reason = agent.turn(talk, &text, &CancellationToken::new(), &tell).await;
    if reason.is_end() { Exit::Ok } else { Exit::Failed }
}

/// Prints the answer to stdout and what happens meanwhile to stderr.
fn show(event: &ChatEvent, open: &AtomicBool) {
    let is_silent = match event {
        ChatEvent::Text { text } => {
            open.store(!text.ends_with('\n'), Ordering::Relaxed);
            output::print(&SafeText::block(text), Exit::Ok);
            return;
        }
        ChatEvent::Status { status, message, .. } => {
            message.is_none() || *status == StatusKind::Reasoning
        }
        _ => false,
    };
    if is_silent {
        return;
    }
    if open.swap(false, Ordering::Relaxed) {
        output::print("\n", Exit::Ok);
    }
    match event {
        ChatEvent::ToolCall { name, arguments, .. } => {
            let arguments = SafeText::cut(&arguments.to_string(), 200);
            output::complain(&format!("calls {} {arguments}", SafeText::line(name)));
        }
        ChatEvent::ToolResult { name, is_error, text, duration_ms, .. } => {
            let how = if *is_error { "failed" } else { "answered" };
            let name = SafeText::line(name);
            let first = SafeText::cut(text.lines().next().unwrap_or_default(), 120);
            output::complain(&format!("{name} {how} after {duration_ms} ms: {first}"));
        }
        ChatEvent::Status { status, tool, message: Some(message) } => {
            let tool = tool.as_deref().map(|tool| format!(" {}", SafeText::line(tool)));
            let word = serde_json::to_value(status).unwrap_or_default();
            let word = word.as_str().unwrap_or_default();
            let message = SafeText::line(message);
            output::complain(&format!("{word}{}: {message}", tool.unwrap_or_default()));
        }
        ChatEvent::Text { .. } | ChatEvent::Status { .. } => {}
        ChatEvent::Error { code, message, attempts, .. } => {
            let (code, message) = (SafeText::line(code), SafeText::line(message));
            output::complain(&format!(
                "the model failed ({code}, tried {attempts} times): {message}"
            ));
        }
        ChatEvent::Done { usage, costs, .. } => {
            let about = if usage.is_estimate { "about " } else { "" };
            let servers: Vec<String> = costs
                .iter()
                .map(|cost| {
                    let server = SafeText::line(cost.server.as_str());
                    format!("{server} {}", cost.definitions + cost.guidance)
                })
                .collect();
            output::note(&format!(
                "{about}{} tokens in, {} out; of every prompt, about: {}",
                usage.input,
                usage.output,
                servers.join(", ")
            ));
        }
    }
}

/// Lines of stdin, read by a thread of their own: reading cannot be given up.
type Lines = Arc<Mutex<mpsc::Receiver<String>>>;

fn lines() -> Lines {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    Arc::new(Mutex::new(receiver))
}

/// Asks the person at the terminal whether a call may go out.
struct AtTerminal(Lines);

impl RequestHandler for AtTerminal {
    fn handle(
        &self,
        request: Arc<PendingRequest>,
        withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let lines = Arc::clone(&self.0);
        Box::pin(async move {
            if request.kind != RequestKind::Guard {
                return None;
            }
            let shown = SafeText::cut(&request.params.to_string(), 2_000);
            output::complain(&format!("may {} do this? {shown}  [y/N]", request.server));
            let line = tokio::select! {
                line = async { lines.lock().await.recv().await } => line,
                () = withdrawn.cancelled() => None,
            };
            let is_yes = line.is_some_and(|line| matches!(line.trim(), "y" | "yes"));
            Some(Answer::Result(json!({"action": if is_yes { "accept" } else { "decline" }})))
        })
    }
}
