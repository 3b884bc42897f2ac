//! `call`, `read`, `prompt` and `request`: one operation on one server.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::args::{AskArgs, CallArgs, Common, PromptArgs, ReadArgs, RequestArgs};
use super::deck::{Invocation, Need, Scene};
use super::in_use::FilesInUse;
use super::outcome::{Aside, OutcomeFormat, Printer};
use super::output::{CommandResult, ExitStatus};
use super::{consent, deck, outcome, output, target_file, values};
use crate::telemetry::Telemetry;
use ::check::answers::AnswerScript;
use ::deck::{SAVED_CALLS_FILE, SavedCall, SavedCalls, SavedTarget, WrittenText};
use base::text::json::WrittenValue;
use base::text::quoted;
use base::{SafeText, ServerName};
use config::error::{Error, ErrorCode};
use host::{
    CallOptions, CallOutcome, Host, Origin, ServerState, ServerView, TargetKind, TraceContext,
    Validation, canonical_name, parse_traceparent, split_name,
};
use protocol::{ListKind, RejectedEntry};
use schema::SchemaDocument;

/// What every operation needs.
struct OperationArgs<'a> {
    invocation: Invocation<'a>,
    printer: Printer<'a>,
    answers: AnswerScript,
    options: CallOptions,
}

/// `mcpdeck call`
pub fn call(common: &Common, args: &CallArgs, telemetry: &Telemetry) -> CommandResult {
    if args.list {
        return list_saved(common, args);
    }
    let name = args.name.as_deref().unwrap_or_default();
    let mut operation = OperationArgs::new(common, &args.ask, telemetry, ("tool", name))?;
    operation.printer.file = args.output.as_deref();
    operation.printer.need(writable(
        args.output.as_deref(),
        common,
        (&args.ask, &args.arguments),
    ))?;
    if args.force {
        operation.options.validation = Validation::Force;
    }
    let words = operation.printer.need(words(&args.arguments))?;
    if name.starts_with('@') { again(operation, name, words) } else { Ok(tool(operation, words)) }
}

/// Refuses a file that a result could not be written to, before anything is called.
fn writable(
    file: Option<&Path>,
    common: &Common,
    (ask, words): (&AskArgs, &[String]),
) -> Result<(), Error> {
    let Some(path) = file else { return Ok(()) };
    let mut used = FilesInUse::of_common(common);
    used.add_operation(ask, words);
    used.add_outputs(common);
    target_file::check(path).and_then(|()| used.check("--output", path)).map_err(invalid)
}

/// Makes a saved call; the words of the command line replace its arguments key by key.
fn again(mut operation: OperationArgs<'_>, name: &str, mut words: ArgumentWords) -> CommandResult {
    let printer = operation.printer;
    let call = printer.need(find(operation.invocation.common, name))?;
    let more = words.base.take().unwrap_or_else(|| Value::Object(Map::new()).into());
    if !more.is_object() {
        return Err(printer.failure(&invalid("arguments must be a JSON object")));
    }
    let base = call.arguments_with(&more);
    let empty = base.as_object().is_none_or(Map::is_empty) && words.pairs.is_empty();
    words.base = Some(base);
    // The command line overrides the saved timeout.
    let seconds = call.timeout.filter(|_| operation.invocation.common.timeout.is_none());
    operation.options.timeout = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    if call.force {
        operation.options.validation = Validation::Force;
    }
    Ok(match &call.target {
        SavedTarget::Tool { tool: name } => tool(operation.with_target("tool", name), words),
        SavedTarget::Prompt { prompt: name } => {
            prompt_of(operation.with_target("prompt", name), words)
        }
        SavedTarget::Resource { .. } if !empty => {
            printer.failure(&invalid("a saved resource takes no arguments"))
        }
        SavedTarget::Resource { resource, server } => {
            resource_of(operation.with_target("uri", resource), server.as_deref())
        }
    })
}

fn tool(operation: OperationArgs<'_>, words: ArgumentWords) -> ExitStatus {
    let (name, options, invocation) =
        (operation.printer.target, operation.options.clone(), operation.invocation);
    operation.run(Need::Owner(TargetKind::Tool, name.to_owned()), async |host| {
        let prepared = prepare(host, invocation, (name, &words))?;
        let Prepared { canonical, server, arguments, takes } = prepared;
        let numbers = Some(Arc::new(arguments.numbers));
        let options = CallOptions { server: Some(server), numbers, ..options.clone() };
        let outcome = host.call_tool_with(&canonical, arguments.value, options).await;
        outcome.map_err(|error| match error.code {
            ErrorCode::Validation => error.help(takes + "\n--force sends them anyway"),
            _ => error,
        })
    })
}

impl<'a> OperationArgs<'a> {
    /// The operation on a target, given by its kind and name.
    fn new(
        common: &'a Common,
        args: &'a AskArgs,
        telemetry: &'a Telemetry,
        (noun, target): (&'static str, &'a str),
    ) -> Result<Self, ExitStatus> {
        let invocation = Invocation { common, one: &args.one, telemetry };
        let printer = Printer { noun, target, format: args.json.into(), file: None };
        let answers = args.answers.as_deref().map(AnswerScript::load).transpose().map_err(invalid);
        let answers = printer.need(answers)?.unwrap_or_default();
        let asker = consent::at_terminal();
        let TraceContext { parent: trace, more: meta } = trace_context();
        let options =
            CallOptions { origin: Origin::Cli, asker, trace, meta, ..CallOptions::default() };
        Ok(Self { invocation, printer, answers, options })
    }

    /// The same operation on another target.
    fn with_target<'b>(self, noun: &'static str, target: &'b str) -> OperationArgs<'b>
    where
        'a: 'b,
    {
        OperationArgs { printer: Printer { noun, target, ..self.printer }, ..self }
    }

    /// Runs `work` on a host with the needed servers, and prints the outcome.
    fn run(
        self,
        need: Need,
        work: impl AsyncFn(&Host) -> Result<CallOutcome, Error>,
    ) -> ExitStatus {
        let Self { invocation, printer, answers, .. } = self;
        let done = invocation.run(need, answers.clone(), async |scene| {
            let (host, began) = (scene.host, Instant::now());
            let outcome = match attempt(scene, &work).await {
                Err(error) if error.code == ErrorCode::ServerUnavailable => {
                    Err(deck::explained(host, invocation, error).await)
                }
                outcome => outcome,
            };
            printer.finish(
                outcome,
                &Aside::from_host(host, invocation.common, &answers, began.elapsed()),
            )
        });
        printer.ended(done)
    }
}

/// The trace that this process is part of, as its caller says in the environment (OpenTelemetry,
/// environment variables as propagation carriers).
pub fn trace_context() -> TraceContext {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(written) = variable("TRACEPARENT") else { return TraceContext::default() };
    let Some(parent) = parse_traceparent(&written) else {
        output::complain("TRACEPARENT is not of the form 00-TRACE-SPAN-FLAGS; it is left out");
        return TraceContext::default();
    };
    let more = [("tracestate", "TRACESTATE"), ("baggage", "BAGGAGE")];
    let more = more.into_iter().filter_map(|(key, name)| {
        let value = variable(name)?;
        Some((key.to_owned(), Value::from(value)))
    });
    let more: Map<String, Value> = more.collect();
    let more = (!more.is_empty())
        .then(|| protocol::CallerMeta { members: more, ..protocol::CallerMeta::default() });
    TraceContext { parent: Some(parent), more: more.map(Arc::new) }
}

/// Runs `work`; retries with all servers when the only one started no longer has the target.
async fn attempt(
    scene: &Scene<'_>,
    work: impl AsyncFn(&Host) -> Result<CallOutcome, Error>,
) -> Result<CallOutcome, Error> {
    match work(scene.host).await {
        Err(error) if error.code == ErrorCode::ToolNotFound && scene.widen().await? => {
            work(scene.host).await
        }
        outcome => outcome,
    }
}

/// A call whose arguments have the types of the tool's schema.
pub struct Prepared {
    /// `server.tool`
    pub canonical: String,
    pub server: ServerName,
    pub arguments: WrittenValue,
    /// Usage of the tool, as help for invalid arguments.
    pub takes: String,
}

/// Finds the tool and converts the words to arguments.
///
/// # Errors
/// As [`Host::find_tool`]; [`ErrorCode::Validation`] for words that do not fit the schema.
pub fn prepare(
    host: &Host,
    invocation: Invocation<'_>,
    (name, words): (&str, &ArgumentWords),
) -> Result<Prepared, Error> {
    let (server, tool) = found((host, invocation), name, host.find_tool(name))
        .map_err(|error| with_whole_name(error, name, words))?;
    let schema =
        &SchemaDocument::written(&tool.input_schema, &tool.raw.numbers.below("/inputSchema"));
    let canonical = canonical_name(&server, &tool.name);
    let usage = values::usage(&canonical, schema);
    let takes = format!("it takes: {usage}\n`{}` shows more", invocation.list(&server));
    match values::arguments(words.base.clone(), &words.pairs, schema) {
        Ok(arguments) => Ok(Prepared { canonical, server, arguments, takes }),
        Err(wrong) => Err(invalid(wrong.join("\n  ")).server(&server).help(takes)),
    }
}

/// Shows how a tool is named where server and tool were given as two words.
fn with_whole_name(mut error: Error, server: &str, words: &ArgumentWords) -> Error {
    let tool = words.pairs.first().filter(|word| !word.contains(['=', ':']));
    match tool.filter(|_| error.code == ErrorCode::ToolNotFound && words.base.is_none()) {
        Some(tool) => {
            let whole = format!("{server}.{tool}");
            if error.candidates.contains(&whole) {
                error.candidates.clear();
            }
            error.help(format!("server and tool are one word: `{whole}`"))
        }
        None => error,
    }
}

/// Why a tool or prompt of this name, which a server lists, is not among what it offers.
fn reason_set_aside<'a>(server: &'a ServerView, name: &str) -> Option<&'a SafeText> {
    let own = split_name(name, [server.name.as_str()]).map(|(_, own)| own);
    let is_meant = |entry: &&RejectedEntry| {
        let listed = entry.raw["name"].as_str();
        matches!(entry.list, ListKind::Tools | ListKind::Prompts)
            && !entry.is_repeated()
            && (listed == Some(name) || own.is_some() && listed == own)
    };
    server.capabilities.rejected.iter().find(is_meant).map(|entry| &entry.reason)
}

/// An unknown name may belong to a server that did not start, or whose lists are not complete; then
/// the error also reports that server. It is the error itself only when the name is one of that
/// server, or no server can be asked.
fn found<T>(
    (host, invocation): (&Host, Invocation<'_>),
    name: &str,
    found: Result<T, Error>,
) -> Result<T, Error> {
    found.map_err(|mut error| {
        if !matches!(error.code, ErrorCode::ToolNotFound | ErrorCode::ServerUnavailable) {
            return error;
        }
        let view = host.view().borrow().clone();
        let known = view.servers.keys().map(ServerName::as_str);
        let named = error.server.clone().filter(|server| name.starts_with(server.as_str()));
        let named = named.or_else(|| split_name(name, known).map(|(s, _)| ServerName::new(s)));
        let is_alone = !view.servers.values().any(|server| server.state.is_callable());
        if (named.is_some() || is_alone)
            && let Some(mut down) = deck::unready(&view, invocation, named.as_ref())
        {
            if named.is_none() {
                down.candidates = std::mem::take(&mut error.candidates);
            }
            return down;
        }
        if error.code != ErrorCode::ToolNotFound {
            return error;
        }
        let concerned = view.servers.values().filter(|server| {
            named.as_ref().is_none_or(|named| server.name == *named)
                && server.state != ServerState::Disabled
        });
        let mut is_down = false;
        let reasons = concerned.filter_map(|server| {
            let quoted = SafeText::line(server.name.as_str());
            if !server.state.is_callable() {
                is_down = true;
                let state = server.state.because(server.reason.as_ref());
                return Some(format!("`{quoted}` was not asked, it is {state}"));
            }
            if let Some(why) = reason_set_aside(server, name) {
                return Some(format!("`{quoted}` lists it, and it cannot be used: {why}"));
            }
            let unlisted = outcome::unlisted_reason(server).or_else(|| {
                let (list, why) = server.capabilities.partial.first()?;
                Some(format!("its `{}` is not complete: {why}", list.method()))
            });
            unlisted.map(|why| format!("`{quoted}` may have it: {why}"))
        });
        let reasons: Vec<_> = reasons.collect();
        if !reasons.is_empty() {
            let next = error.help.take();
            error.help = Some(reasons.into_iter().chain(next).collect::<Vec<_>>().join("\n"));
        }
        // Nobody knows whether that server has it, unless something else was meant.
        if is_down && error.candidates.is_empty() {
            error.code = ErrorCode::ServerUnavailable;
        }
        error
    })
}

/// `mcpdeck read`
pub fn read(common: &Common, args: &ReadArgs, telemetry: &Telemetry) -> CommandResult {
    let mut operation = OperationArgs::new(common, &args.ask, telemetry, ("uri", &args.uri))?;
    operation.printer.file = args.output.as_deref();
    operation.printer.need(writable(args.output.as_deref(), common, (&args.ask, &[])))?;
    Ok(resource_of(operation, args.server.as_deref()))
}

fn resource_of(operation: OperationArgs<'_>, server: Option<&str>) -> ExitStatus {
    let (uri, invocation) = (operation.printer.target, operation.invocation);
    let need = match server {
        Some(server) => Need::Servers(vec![server.to_owned()]),
        None => Need::Owner(TargetKind::Resource, uri.to_owned()),
    };
    let options = CallOptions { server: server.map(ServerName::new), ..operation.options.clone() };
    operation.run(need, async |host| {
        let outcome = host.get_resource_with(uri, options.clone()).await;
        let missing = outcome.as_ref().is_err_and(|error| error.code == ErrorCode::ToolNotFound);
        if missing { found((host, invocation), uri, outcome) } else { outcome }
    })
}

/// `mcpdeck request`
pub fn request(common: &Common, args: &RequestArgs, telemetry: &Telemetry) -> CommandResult {
    let mut operation = OperationArgs::new(common, &args.ask, telemetry, ("method", &args.method))?;
    operation.printer.format =
        if args.ask.json { OutcomeFormat::Json } else { OutcomeFormat::Result };
    let params = words(&args.params).and_then(|words| {
        let given = words.base.is_some() || !words.pairs.is_empty();
        let params = values::arguments(words.base, &words.pairs, &SchemaDocument::default());
        let params = params.map_err(|wrong| {
            let error = invalid(wrong.join("; "));
            match misplaced_server(&args.method, &args.params).filter(|_| args.server.is_none()) {
                Some(line) => error.help(format!("did you mean `{line}`?")),
                None => error,
            }
        })?;
        Ok(given.then_some(params))
    });
    let params = operation.printer.need(params)?;
    let (params, numbers) = params.map(|params| (params.value, Arc::new(params.numbers))).unzip();
    let options = CallOptions { numbers, ..operation.options.clone() };
    let need = Need::Servers(args.server.iter().cloned().collect());
    Ok(operation.run(need, async |host| {
        let names: Vec<_> = host.snapshot().servers.keys().cloned().collect();
        let server = match (&args.server, names.as_slice()) {
            (Some(server), _) => ServerName::new(server),
            (None, [only]) => only.clone(),
            (None, []) => return Err(invalid("the configuration has no server to ask")),
            (None, _) => {
                let mut error = invalid("there are several servers: name one with --server");
                error.candidates = names.iter().map(ToString::to_string).collect();
                return Err(error);
            }
        };
        host.request(&server, &args.method, params.clone(), options.clone()).await
    }))
}

/// The command line that was meant, when a server was named beside the method without `--server`.
fn misplaced_server(method: &str, params: &[String]) -> Option<String> {
    let [word] = params else { return None };
    let is_method = |word: &str| word.contains('/') || matches!(word, "ping" | "initialize");
    let is_plain = |word: &str| !word.contains(['=', '{', '[']);
    let (method, server) = match (is_method(method), is_method(word)) {
        (true, false) => (method, word.as_str()),
        (false, true) => (word.as_str(), method),
        _ => return None,
    };
    (is_plain(method) && is_plain(server)).then(|| {
        SafeText::line(&format!("mcpdeck request {method} --server {}", quoted(server))).to_string()
    })
}

/// `mcpdeck prompt`
pub fn prompt(common: &Common, args: &PromptArgs, telemetry: &Telemetry) -> CommandResult {
    let operation = OperationArgs::new(common, &args.ask, telemetry, ("prompt", &args.name))?;
    let words = operation.printer.need(words(&args.arguments))?;
    Ok(prompt_of(operation, words))
}

fn prompt_of(operation: OperationArgs<'_>, words: ArgumentWords) -> ExitStatus {
    let (name, options, invocation) =
        (operation.printer.target, operation.options.clone(), operation.invocation);
    operation.run(Need::Owner(TargetKind::Prompt, name.to_owned()), async |host| {
        let (server, prompt) = found((host, invocation), name, host.find_prompt(name))?;
        let schema = values::prompt_schema(&prompt);
        let arguments = values::arguments(words.base.clone(), &words.pairs, &schema)
            .map_err(|wrong| invalid(wrong.join("\n  ")).server(&server))?
            .value;
        let all = prompt.arguments.iter();
        let missing = all.filter(|one| one.required && arguments.get(&*one.name).is_none());
        let missing: Vec<&str> = missing.map(|one| &*one.name).collect();
        if !missing.is_empty() {
            let message = format!("the prompt needs {}", missing.join(", "));
            let help = format!("write {}=TEXT", missing.join("=TEXT "));
            return Err(invalid(message).server(&server).help(help));
        }
        let canonical = canonical_name(&server, &prompt.name);
        let options = CallOptions { server: Some(server), ..options.clone() };
        host.get_prompt_with(&canonical, arguments, options).await
    })
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::Validation, message)
}

/// The words of a command before their types are known.
pub struct ArgumentWords {
    base: Option<WrittenValue>,
    pairs: Vec<String>,
}

/// Reads a JSON word, `@file` or `-`; leaves `key=value` pairs as they are.
///
/// # Errors
/// [`ErrorCode::Validation`] when the input cannot be read or is not valid JSON.
pub fn words(arguments: &[String]) -> Result<ArgumentWords, Error> {
    let Some((first, rest)) = arguments.split_first() else {
        return Ok(ArgumentWords { base: None, pairs: Vec::new() });
    };
    let base = if first == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|e| invalid(format!("stdin: {e}")))?;
        Some(WrittenText::new("stdin", &text).written_value().map_err(invalid)?)
    } else if let Some(path) = first.strip_prefix('@') {
        let read = WrittenText::load(Path::new(path)).and_then(|file| file.written_value());
        Some(read.map_err(invalid)?)
    } else if first.trim_start().starts_with(['{', '[']) {
        let wrong = |error: String| {
            let help = if first.contains(['"', '\'']) || !first.contains(':') {
                "strings need double quotes; or write key=value"
            } else {
                "strings need double quotes, which the shell takes away: put all of it in single \
                 quotes, or write key=value"
            };
            invalid(format!("`{first}`: {error}")).help(help)
        };
        Some(WrittenValue::parse(first).map_err(wrong)?)
    } else {
        return Ok(ArgumentWords { base: None, pairs: arguments.to_vec() });
    };
    Ok(ArgumentWords { base, pairs: rest.to_vec() })
}

// Saved calls on the command line: finding and listing them.

/// The saved-calls file of a configuration; without one, that of this folder.
pub fn saved_path(config: Option<&Path>) -> PathBuf {
    config.map_or_else(|| PathBuf::from(SAVED_CALLS_FILE), SavedCalls::path_beside)
}

/// The saved call of this name.
///
/// # Errors
/// [`ErrorCode::Validation`] when the file cannot be used or has no such call.
pub fn find(common: &Common, name: &str) -> Result<SavedCall, Error> {
    let (path, calls) = load_saved(common)?;
    calls.get(name).cloned().map_err(|error| {
        let help = if calls.calls.is_empty() {
            format!("{} has no calls; the dashboard saves them there", path.display())
        } else {
            "`mcpdeck call --list` shows the saved calls".to_owned()
        };
        invalid(error).help(help)
    })
}

/// The saved calls by name; none where they cannot be read.
pub fn saved_calls(common: &Common) -> SavedCalls {
    load_saved(common).map(|(_, calls)| calls).unwrap_or_default()
}

fn load_saved(common: &Common) -> Result<(PathBuf, SavedCalls), Error> {
    let env = super::load::environment(common).map_err(deck::refused)?;
    let path = saved_path(super::load::files(common, &env).last().map(PathBuf::as_path));
    let calls = SavedCalls::load(&path).map_err(invalid)?;
    Ok((path, calls))
}

/// `mcpdeck call --list`
fn list_saved(common: &Common, args: &CallArgs) -> CommandResult {
    let (path, saved) = deck::ended(load_saved(common))?;
    if args.ask.json {
        let object = json!({"path": base::text::path::spelled(&path), "calls": saved.calls});
        return Ok(output::json_line(&object, ExitStatus::Ok));
    }
    if saved.calls.is_empty() {
        output::complain(&format!("{} has no calls", path.display()));
        return Ok(ExitStatus::Ok);
    }
    Ok(output::print(&table(&saved), ExitStatus::Ok))
}

fn table(saved: &SavedCalls) -> String {
    let rows = saved.calls.iter().map(|(name, call)| {
        let target = match &call.target {
            SavedTarget::Tool { tool } => format!("tool {tool}"),
            SavedTarget::Prompt { prompt } => format!("prompt {prompt}"),
            SavedTarget::Resource { resource, server: None } => format!("resource {resource}"),
            SavedTarget::Resource { resource, server: Some(server) } => {
                format!("resource {resource} of {server}")
            }
        };
        // Values may be sensitive; the names of the arguments distinguish the calls.
        let keys: Vec<&str> = call.arguments.keys().map(String::as_str).collect();
        [format!("@{name}"), target, keys.join(", ")]
    });
    output::table("", rows)
}
