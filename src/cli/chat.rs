//! `chat`: a conversation with a language model that calls the tools of the servers, at a terminal,
//! in a pipe or for one question.

#[cfg(feature = "tui")]
mod pane;
mod replay;
#[cfg(feature = "gateway")]
mod serve;

#[cfg(feature = "tui")]
pub use pane::in_dashboard;
#[cfg(feature = "gateway")]
pub use serve::{ServeChat, serve};

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, ValueHint};
use parking_lot::Mutex;
use strum::VariantArray as _;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::args::{Common, OneServer};
use super::deck::{self, Callers, Invocation, Need};
use super::output::{CommandResult, ExitStatus};
use super::typed::StdinLines;
use super::{load, output, signals};
use crate::telemetry::Telemetry;
#[cfg(feature = "demo")]
use ::chat::Scripted;
use ::chat::event::word;
use ::chat::files::{UserInput, with_files};
use ::chat::llm::TokenUsage;
use ::chat::provider::compatible_address;
use ::chat::{
    Agent, ChatEvent, ChatSettings, Conversation, Embedded, LanguageModel, Provider, StatusKind,
    TurnLimits,
};
use ::check::answers::AnswerScript;
use base::SafeText;
use base::human::{count, phrase};
use config::Environment;
use host::{AccessScope, GrantKind, NewGrant, Origin, Principal};

/// Which model, and how it is reached.
#[derive(Clone, Debug, Default, Args)]
pub struct ModelArgs {
    /// Provider [default: that of the settings, or the first with a key in the environment].
    #[arg(long, value_name = "NAME", value_parser = ProviderNames)]
    pub provider: Option<Provider>,
    /// Another base URL of the provider's API, for example <http://127.0.0.1:8080/v1>.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<Url>,
    /// The model [default: the provider's usual one].
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Call tools by fenced blocks in the text, for models without native tool calls.
    #[arg(long)]
    pub fenced: bool,
    /// Context size in tokens, for a prompt and its answer together.
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<u64>,
}

/// Reads the name of a provider; of one that is compatible with another it tells how it is reached.
#[derive(Clone, Copy, Debug)]
struct ProviderNames;

impl TypedValueParser for ProviderNames {
    type Value = Provider;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Provider, clap::Error> {
        let name = value.to_str().unwrap_or_default();
        if let Some(address) = compatible_address(name) {
            let name = SafeText::line(name);
            let how = format!(
                "{name} is reached with --provider openai --base-url {address} and its key in \
                 OPENAI_API_KEY\n"
            );
            return Err(clap::Error::raw(ErrorKind::InvalidValue, how).with_cmd(command));
        }
        let names = PossibleValuesParser::new(Provider::VARIANTS.iter().map(|one| one.as_str()));
        names.try_map(|name| name.parse::<Provider>()).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Provider::VARIANTS.iter().map(|one| PossibleValue::new(one.as_str()))))
    }
}

impl ModelArgs {
    /// The user's settings, overridden by these arguments.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn settings(&self, env: &Environment) -> Result<ChatSettings, String> {
        let mut settings = ChatSettings::read(env)?;
        let is_other = |given: &Provider| settings.provider.is_some_and(|set| set != *given);
        if self.provider.as_ref().is_some_and(is_other) {
            // Model settings of one provider do not apply to another; what a conversation may cost does.
            settings = ChatSettings {
                keys: settings.keys,
                sessions: settings.sessions,
                prices: settings.prices,
                max_cost: settings.max_cost,
                ..ChatSettings::default()
            };
        }
        settings.provider = self.provider.or(settings.provider);
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
    /// Ask this one question and exit; without it every line of stdin is a message.
    #[arg(long, short = 'p', value_name = "TEXT")]
    prompt: Option<String>,
    /// Print one JSON object for every event.
    #[arg(long)]
    json: bool,
    /// Print the names of the models that the provider offers, or that Ollama has installed.
    #[arg(long, conflicts_with_all = ["prompt", "replay", "profile", "demo", "allow", "allow_reads", "allow_all"])]
    list_models: bool,
    /// Send the messages of this recording again, with the recorded servers, and compare the calls.
    #[arg(long, value_name = "RECORDING", value_hint = ValueHint::FilePath, conflicts_with_all = ["prompt", "profile", "demo", "allow", "allow_reads", "allow_all"])]
    pub replay: Option<PathBuf>,
    /// The model acts under this profile of the policy.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// What the model may do without a question.
    #[command(flatten, next_help_heading = "Consent")]
    consent: ConsentArgs,
    /// Maximum number of requests to the model in one turn.
    #[arg(long, value_name = "N", default_value_t = TurnLimits::default().rounds)]
    max_rounds: u32,
    /// Maximum number of tool calls in one turn.
    #[arg(long, value_name = "N", default_value_t = TurnLimits::default().calls)]
    max_calls: u32,
    /// Maximum cost of the conversation, in dollars; needs the price of the model in the settings.
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    max_cost: Option<f64>,
    /// Scripted answers to requests from servers; what they leave open is asked at the terminal, or
    /// denied without one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "replay")]
    pub answers: Option<PathBuf>,
    /// The model.
    #[command(flatten, next_help_heading = "Model")]
    model: ModelArgs,
    /// A single server instead of a file.
    #[command(flatten, next_help_heading = "One server")]
    one: OneServer,
}

/// The model of the demo: its script, without the demo's servers the embedded one.
fn demo_model() -> Arc<dyn LanguageModel> {
    #[cfg(feature = "demo")]
    match Scripted::parse(demo::CHAT_SCRIPT) {
        Ok(script) => return Arc::new(script),
        Err(why) => tracing::error!(target: "mcpdeck::chat", "the script of the demo: {why}"),
    }
    Arc::new(Embedded)
}

/// Parses an amount of dollars.
fn dollars(text: &str) -> Result<f64, String> {
    let amount: f64 = text.trim_start_matches('$').parse().map_err(|_| "no amount of dollars")?;
    let is_amount = amount.is_finite() && amount > 0.0;
    is_amount.then_some(amount).ok_or_else(|| "more than zero dollars are expected".to_owned())
}

/// What the model may do without a question.
#[derive(Debug, Args)]
struct ConsentArgs {
    /// The model may call these tools without a question, a glob over server.tool; may be given
    /// several times. What the policy denies or asks about stays so.
    #[arg(long, value_name = "GLOB", value_parser = super::grants::parse_glob)]
    allow: Vec<String>,
    /// Ask about nothing: only tools annotated as read-only are called, and those of --allow.
    #[arg(long, conflicts_with = "allow_all")]
    allow_reads: bool,
    /// The model may call every tool that the policy permits, without a question.
    #[arg(long)]
    allow_all: bool,
}

const EXAMPLES: &str = "\
Examples:
  mcpdeck chat                                    a conversation at the terminal
  mcpdeck chat -p 'what changed in this repository?'
  mcpdeck chat --provider ollama --model qwen3
  mcpdeck chat --provider ollama --list-models
  mcpdeck chat --base-url http://127.0.0.1:8080/v1 --provider openai --model local
  mcpdeck chat -p 'list my notes' --json          one event a line, for scripts
  mcpdeck chat -p 'tidy my notes' --allow 'notes.*'
  mcpdeck chat -p 'list my notes' --record a.jsonl
  mcpdeck chat --replay a.jsonl --model other     which tools another model calls

Exit codes: 0 the answer is whole, 1 it is not, or other tools were called than
recorded, 2 the arguments or the configuration cannot be used.";

/// `mcpdeck chat`
pub fn chat(common: &Common, args: &ChatArgs, telemetry: &Telemetry) -> CommandResult {
    let mut which = args.model.clone();
    let is_scripted = common.demo && which.provider.is_none();
    if is_scripted {
        which.provider = Some(Provider::Embedded);
    }
    let env = load::environment(common).unwrap_or_default();
    if args.list_models {
        return Ok(list_models(&which, &env, args.json));
    }
    let refuse = |message: String| output::refuse(&message);
    let settings = which.settings(&env).map_err(refuse)?;
    let model = if is_scripted { demo_model() } else { settings.model(&env).map_err(refuse)? };
    let cost = settings.most_cost(args.max_cost, &*model, &env).map_err(refuse)?;
    let limits = TurnLimits {
        rounds: args.max_rounds,
        calls: args.max_calls,
        cost,
        ..TurnLimits::default()
    };
    let invocation = Invocation { common, one: &args.one, telemetry };
    let answers = args.answers.as_deref().map(AnswerScript::load).transpose();
    let (need, answers) = (Need::Servers(Vec::new()), answers.map_err(refuse)?.unwrap_or_default());
    if let Some(file) = &args.replay {
        let (replay, source) = replay::read(file).map_err(|message| output::refuse(&message))?;
        let work = async |scene: &deck::Scene<'_>| {
            replay::ask(scene, replay, model, limits, args.json).await
        };
        return deck::ended(invocation.run_over(source, (need, Callers::Model), answers, work));
    }
    let work = async |scene: &deck::Scene<'_>| {
        let who = Principal::new(Origin::Cli).with_session(SESSION);
        let who = match &args.profile {
            Some(profile) => who.with_profile(profile.as_str()),
            None => who,
        };
        let known = deck::known_profile(scene.host, args.profile.as_deref());
        if let Err(problem) = known.and_then(|()| args.consent.grant(scene, &who.model())) {
            return output::refuse(&problem);
        }
        let lines = StdinLines::default();
        let agent = Agent::new(scene.host.clone(), who, model).limits(limits);
        let agent = agent.trace(super::operate::trace_context()).reveals(common.reveal);
        let agent = agent.asker(lines.asker().filter(|_| !args.consent.allow_reads));
        let mut talk = Conversation::default();
        if let Some(prompt) = &args.prompt {
            return turn(scene, &agent, &mut talk, (prompt, &env), args.json).await;
        }
        output::progress(&format!("talking with {}; an empty line ends it", agent.model().name()));
        for (n, question) in agent.model().suggestions().iter().enumerate() {
            output::progress(&format!("  {}  {question}", n + 1));
        }
        let mut exit = ExitStatus::Ok;
        loop {
            if std::io::stdin().is_terminal() && !args.json {
                output::print("\n> ", ExitStatus::Ok);
            }
            let Some(line) = lines.next().await else { return exit };
            if line.trim().is_empty() {
                return exit;
            }
            exit = turn(scene, &agent, &mut talk, (&line, &env), args.json).await;
        }
    };
    let source = load::usable(common, &args.one);
    let source = source.map_err(deck::refused);
    let need = (need, Callers::Model);
    deck::ended(source.and_then(|source| invocation.run_over(source, need, answers, work)))
}

/// Prints the models to choose from, one a line.
fn list_models(which: &ModelArgs, env: &Environment, as_json: bool) -> ExitStatus {
    let settings = match which.settings(env) {
        Ok(settings) => settings,
        Err(message) => return output::refuse(&message),
    };
    match signals::block_on(async |_| settings.offered(env).await) {
        Ok(Ok(names)) if as_json => output::json(&names, ExitStatus::Ok),
        Ok(Ok(names)) => {
            let lines = names.iter().map(|name| format!("{}\n", SafeText::line(name)));
            output::print(&lines.collect::<String>(), ExitStatus::Ok)
        }
        Ok(Err(message)) => {
            output::complain(&message);
            ExitStatus::Failed
        }
        Err(error) => {
            output::complain(&error.to_string());
            ExitStatus::Failed
        }
    }
}

/// The session of the chat at the terminal.
const SESSION: &str = "cli";

impl ConsentArgs {
    /// Grants for this session what the arguments allow the model.
    ///
    /// # Errors
    /// When it cannot be granted.
    fn grant(&self, scene: &deck::Scene<'_>, model: &Principal) -> Result<(), String> {
        if self.allow.is_empty() && !self.allow_all {
            return Ok(());
        }
        // No glob means every tool.
        let tools = if self.allow_all { Vec::new() } else { self.allow.clone() };
        for unmatched in scene.policy.unmatched(&tools) {
            output::warn(&SafeText::line(&unmatched.to_string()));
        }
        allow(scene, model, tools)
    }
}

/// Grants tools to the model for its session; all when empty.
fn allow(scene: &deck::Scene<'_>, model: &Principal, tools: Vec<String>) -> Result<(), String> {
    let granted = scene.policy.grant(NewGrant {
        origin: model.origin.to_string(),
        profile: model.profile.to_string(),
        scopes: [AccessScope::ToolsCall].into(),
        allowed_tools: tools,
        kind: GrantKind::Once { until: None, session: model.session.clone() },
    });
    granted.map(|_| ())
}

/// What permits a call in advance.
const ALLOW: &str = "; --allow GLOB permits a tool in advance, unless a rule asks about it";

/// Runs one turn and prints its events as they arrive.
async fn turn(
    scene: &deck::Scene<'_>,
    agent: &Agent,
    talk: &mut Conversation,
    (text, env): (&str, &Environment),
    as_json: bool,
) -> ExitStatus {
    let UserInput { text, media, .. } = match with_files(text, &env.cwd) {
        Ok(input) => input,
        Err(message) => {
            output::complain(&message);
            return ExitStatus::Failed;
        }
    };
    if let Some(recorder) = scene.recorder {
        recorder.record_chat(&text);
    }
    talk.attached = media;
    let printed = Mutex::new(PrintedAnswer::default());
    let on_event = |event: ChatEvent| {
        if as_json {
            output::json_line(&event, ExitStatus::Ok);
        } else {
            show(&event, &mut printed.lock());
        }
    };
    let reason = agent.turn(talk, &text, &CancellationToken::new(), &on_event).await;
    if reason.is_end() { ExitStatus::Ok } else { ExitStatus::Failed }
}

/// The answer on stdout.
#[derive(Default)]
struct PrintedAnswer {
    /// Whether it is in the middle of a line.
    is_open: bool,
    /// What waits until the answer is whole: an answer that is begun again is printed once. At a
    /// terminal it is printed as it comes.
    held: String,
}

impl PrintedAnswer {
    fn add(&mut self, text: &str) {
        self.held.push_str(text);
        if std::io::stdout().is_terminal() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.held);
        if !text.is_empty() {
            self.is_open = !text.ends_with('\n');
            output::print(&SafeText::block(&text), ExitStatus::Ok);
        }
    }
}

/// Prints the answer to stdout and everything else to stderr.
fn show(event: &ChatEvent, printed: &mut PrintedAnswer) {
    match event {
        ChatEvent::Text { .. } | ChatEvent::Status { status: StatusKind::Reasoning, .. } => {}
        ChatEvent::Status { status: StatusKind::Retrying, .. } | ChatEvent::Error { .. } => {
            printed.held.clear();
        }
        _ => printed.flush(),
    }
    let said = match event {
        ChatEvent::Text { text } => {
            printed.add(text);
            return;
        }
        ChatEvent::Status { status: StatusKind::Reasoning, .. }
        | ChatEvent::Status { message: None, .. } => return,
        ChatEvent::ToolCall { name, arguments, .. } => {
            let arguments = SafeText::cut(&arguments.to_string(), 200);
            format!("calls {} {arguments}", SafeText::line(name))
        }
        ChatEvent::ToolProgress { name, message, .. } => {
            format!("{} {}", SafeText::line(name), SafeText::line(message))
        }
        ChatEvent::ToolResult { name, is_error, text, duration_ms, .. } => {
            let how = if *is_error { "failed" } else { "answered" };
            let name = SafeText::line(name);
            let first = SafeText::cut(text.lines().next().unwrap_or_default(), 120);
            format!("{name} {how} after {duration_ms} ms: {first}")
        }
        ChatEvent::Status { status, tool, message: Some(message) } => {
            let tool = tool.as_deref().map(|tool| format!(" {}", SafeText::line(tool)));
            let hint = if *status == StatusKind::Refused { ALLOW } else { "" };
            let (words, message) = (phrase(&word(status)), SafeText::line(message));
            format!("{words}{}: {message}{hint}", tool.unwrap_or_default())
        }
        ChatEvent::Error { code, message, attempts, .. } => {
            let (what, message) = (SafeText::line(&phrase(code)), SafeText::line(message));
            let tried = count(*attempts, "time");
            format!("the model failed ({what}, tried {tried}): {message}")
        }
        ChatEvent::Done { usage, costs, cost, session_cost, .. } => {
            let about = if usage.is_estimate { "about " } else { "" };
            let servers = costs.iter().map(|cost| {
                let server = SafeText::line(cost.server.as_str());
                let money = cost.dollars.map(|dollars| format!(" ${dollars:.4}"));
                let tokens = cost.definitions + cost.guidance;
                format!("{server} {tokens}{}", money.unwrap_or_default())
            });
            let servers = servers.collect::<Vec<_>>().join(", ");
            let TokenUsage { input, cached, output, .. } = usage;
            let cached = if *cached > 0 { format!(" ({cached} cached)") } else { String::new() };
            let money = cost
                .zip(*session_cost)
                .map(|(turn, all)| format!("; ${turn:.4}, ${all:.4} in all"));
            let money = money.unwrap_or_default();
            format!(
                "{about}{input} tokens in{cached}, {output} out{money}; of every prompt, about: \
                 {servers}"
            )
        }
    };
    if std::mem::take(&mut printed.is_open) {
        output::print("\n", ExitStatus::Ok);
    }
    match event {
        ChatEvent::Done { .. } => output::progress(&said),
        _ => output::complain(&said),
    }
}
