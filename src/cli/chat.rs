//! `chat`: talks with a language model that calls the tools of the servers, at a terminal, in a pipe
//! or for one question.

use std::io::{BufRead as _, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::args::{Common, OneServer};
use super::deck::{self, Job, Need};
use super::exit::Exit;
use super::{load, output};
use crate::base::secret::Secret;
use crate::base::text::{SafeText, json as safe};
#[cfg(feature = "tui")]
use crate::chat::session::Session;
#[cfg(any(feature = "tui", feature = "gateway"))]
use crate::chat::session::{SessionLimits, Sessions};
#[cfg(feature = "gateway")]
use crate::chat::socket::{self, SocketLimits};
use crate::chat::{
    Agent, ChatEvent, Conversation, Embedded, Model, Provider, Remote, RemoteConfig, StatusKind,
    TurnLimits,
};
use crate::check::answers::Script;
use crate::deck::policy::PolicyKeeper;
#[cfg(feature = "gateway")]
use crate::gateway::Service;
#[cfg(feature = "gateway")]
use crate::host::Host;
use crate::host::approvals::RequestHandler;
use crate::host::policy::Principal;
#[cfg(feature = "gateway")]
use crate::host::policy::Scope;
use crate::host::{Origin, PendingRequest};
use crate::mcp::{Answer, RequestKind};
use crate::telemetry::Telemetry;
#[cfg(feature = "tui")]
use crate::tui::chat::port::{Chat, ChatCommand, OpenChat};

/// Which model, and how it is reached.
#[derive(Clone, Debug, Default, Args)]
pub struct ModelArgs {
    /// Whose model; by default the first whose key is in the environment.
    #[arg(long, value_name = "NAME")]
    pub provider: Option<ProviderName>,
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

/// Whose model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProviderName {
    /// Google; key in `GEMINI_API_KEY` or `GOOGLE_API_KEY`.
    Gemini,
    /// Anthropic; key in `ANTHROPIC_API_KEY`.
    Anthropic,
    /// `OpenAI` and everything compatible; key in `OPENAI_API_KEY`.
    Openai,
    /// Ollama on this machine.
    Ollama,
    /// A model inside this program that needs no network and only calls what it is told to.
    Embedded,
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

Exit codes: 0 the turn ended, 1 it failed or was stopped by a limit, 2 the arguments or the
configuration cannot be used.";

/// The model that the arguments name.
///
/// # Errors
/// Says what is missing.
pub fn model(args: &ModelArgs) -> Result<Arc<dyn Model>, String> {
    let key_of = |provider: Provider| {
        let key = provider.key_variables().iter().find_map(|name| std::env::var(name).ok());
        key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty())
    };
    let provider = match args.provider {
        Some(ProviderName::Embedded) => return Ok(Arc::new(Embedded)),
        Some(ProviderName::Gemini) => Provider::Gemini,
        Some(ProviderName::Anthropic) => Provider::Anthropic,
        Some(ProviderName::Openai) => Provider::OpenAi,
        Some(ProviderName::Ollama) => Provider::Ollama,
        None => {
            let found = Provider::ALL.into_iter().find(|provider| key_of(*provider).is_some());
            found.ok_or(
                "no model: set GEMINI_API_KEY, ANTHROPIC_API_KEY or OPENAI_API_KEY, or name one \
                 with --provider (ollama and embedded need no key)",
            )?
        }
    };
    let usual = || Url::parse(provider.base_url()).map_err(|error| error.to_string());
    let base_url = args.base_url.clone().map_or_else(usual, Ok)?;
    let key = key_of(provider);
    if key.is_none() && provider != Provider::Ollama && args.base_url.is_none() {
        return Err(format!("set {} to your key", provider.key_variables()[0]));
    }
    let name = args.model.clone().unwrap_or_else(|| provider.default_model().to_owned());
    let mut config = RemoteConfig::new(provider, base_url, name);
    config.key = key.map(Secret::from);
    config.fenced = args.fenced;
    config.context = args.context.unwrap_or(config.context);
    Ok(Arc::new(Remote::new(config)?))
}

/// The chat of `mcpdeck serve`
#[cfg(feature = "gateway")]
#[derive(Debug, Args)]
pub struct ServeChat {
    /// Serve a chat with a model too: a page at `/`, and `/ws`.
    #[arg(long, conflicts_with = "stdio")]
    chat: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// Adds the chat to a service: whoever chats may do what their token may.
///
/// # Errors
/// Says what is missing of the model.
#[cfg(feature = "gateway")]
pub fn serve(args: &ServeChat, host: Host, service: &mut Service) -> Result<(), String> {
    if !args.chat {
        return Ok(());
    }
    let sessions = Sessions::new(host, model(&args.model)?, SessionLimits::default());
    let clients = service.clients();
    let who = move |token: &str| {
        let client = clients(token)?;
        client.may(Scope::ToolsCall).then(|| client.principal())
    };
    service.serve_beside(socket::routes(sessions, Arc::new(who), SocketLimits::default()));
    Ok(())
}

/// A chat in the dashboard, when there is a model: the person's own.
#[cfg(feature = "tui")]
pub fn in_dashboard(is_demo: bool) -> Option<OpenChat> {
    let demo = is_demo.then_some(ProviderName::Embedded);
    let model = model(&ModelArgs { provider: demo, ..ModelArgs::default() }).ok()?;
    Some(Arc::new(move |host, events| {
        let sessions = Sessions::new(host, Arc::clone(&model), SessionLimits::default());
        let session = sessions.open(Principal::new(Origin::Dashboard))?;
        session.attach();
        let talking = Arc::clone(&session);
        tokio::spawn(async move {
            let _sessions = sessions;
            let (mut newest, mut seen) = (session.newest(), 0);
            while newest.changed().await.is_ok() {
                for (number, event) in session.since(seen).events {
                    seen = number;
                    let event = serde_json::from_str(&event).unwrap_or_default();
                    if events.send(event).await.is_err() {
                        return;
                    }
                }
            }
        });
        Some(Arc::new(Talking(talking)) as Arc<dyn Chat>)
    }))
}

/// The session of the dashboard.
#[cfg(feature = "tui")]
struct Talking(Arc<Session>);

#[cfg(feature = "tui")]
impl Chat for Talking {
    fn model(&self) -> SafeText {
        SafeText::line(self.0.agent().model().name())
    }

    fn command(&self, command: ChatCommand) {
        match command {
            // The screen sends nothing while a turn is under way.
            ChatCommand::Say(text, at) => _ = self.0.begin(text, at),
            ChatCommand::Abort => _ = self.0.abort(),
        }
    }
}

/// `mcpdeck chat`
pub fn chat(common: &Common, args: &ChatArgs, telemetry: &Telemetry) -> Exit {
    let mut which = args.model.clone();
    if args.demo && which.provider.is_none() {
        which.provider = Some(ProviderName::Embedded);
    }
    let model = match model(&which) {
        Ok(model) => model,
        Err(message) => return output::refuse(&message),
    };
    let need = Need::Servers(Vec::new());
    let job = Job { common, one: &args.one, need, answers: Script::default(), telemetry };
    let work = async |scene: &deck::Scene<'_>| {
        // Who acts as somebody else has the rules of the files.
        let env = load::environment(common).unwrap_or_default();
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
        let limits =
            TurnLimits { rounds: args.max_rounds, calls: args.max_calls, ..TurnLimits::default() };
        let agent = Agent::new(scene.host.clone(), who.with_session("cli"), model).limits(limits);
        let mut talk = Conversation::default();
        if let Some(prompt) = &args.prompt {
            return turn(&agent, &mut talk, prompt, args.json).await;
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
            exit = turn(&agent, &mut talk, &line, args.json).await;
        }
    };
    let source = if args.demo { load::demo() } else { load::usable(common, &args.one) };
    let done = match source {
        Ok(source) => deck::run_over(source, job, work),
        Err(problems) => Err(deck::refused(problems)),
    };
    done.unwrap_or_else(|error| {
        deck::complain(&error);
        deck::exit_of(&error)
    })
}

/// One turn, printed as it goes.
async fn turn(agent: &Agent, talk: &mut Conversation, text: &str, as_json: bool) -> Exit {
    // Whether a line of the answer is open.
    let open = AtomicBool::new(false);
    let tell = |event: ChatEvent| {
        if as_json {
            output::print(&(safe::compact(&event) + "\n"), Exit::Ok);
        } else {
            show(&event, &open);
        }
    };
    let reason = agent.turn(talk, text, &CancellationToken::new(), &tell).await;
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
