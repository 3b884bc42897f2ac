//! `call`, `read` and `prompt`: one operation of one server.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::again::Again;
use super::args::{CallArgs, Common, OneServer, PromptArgs, ReadArgs};
use super::deck::{self, Job, Need, Scene};
use super::exit::Exit;
use super::known::Kind;
use super::told::{Aside, Form, Told};
use super::{content, output, saved, signature, values};
use crate::base::ServerName;
use crate::check::answers::Script;
use crate::check::jsonc;
use crate::deck::SavedTarget;
use crate::error::{Error, ErrorCode};
use crate::host::naming::{self, Resolved};
use crate::host::{CallOptions, CallOutcome, Host, Origin, Validation};
use crate::telemetry::Telemetry;

/// What every operation has.
struct Operation<'a> {
    common: &'a Common,
    one: &'a OneServer,
    telemetry: &'a Telemetry,
    form: Form,
    answers: Script,
    /// Deadline instead of the server's.
    timeout: Option<Duration>,
    validation: Validation,
}

/// `mcpdeck call`
pub fn call(common: &Common, args: &CallArgs, telemetry: &Telemetry) -> Exit {
    if args.list {
        return saved::list(common, args);
    }
    let name = args.name.as_deref().unwrap_or_default();
    let told = Told { noun: "tool", target: name, form: args.json.into() };
    let prepared =
        words(&args.arguments).and_then(|words| Ok((words, scripted(args.answers.as_deref())?)));
    let (words, answers) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return told.failure(&error),
    };
    let operation = Operation {
        common,
        one: &args.one,
        telemetry,
        form: told.form,
        answers,
        timeout: None,
        validation: if args.force { Validation::Force } else { Validation::Enforce },
    };
    if name.starts_with('@') {
        return again(operation, name, words).unwrap_or_else(|error| told.failure(&error));
    }
    tool(operation, name, words)
}

/// Makes a saved call; the words of the command line replace its arguments key by key.
fn again(mut operation: Operation<'_>, name: &str, mut words: Words) -> Result<Exit, Error> {
    let call = saved::find(operation.common, name)?;
    let mut base = call.arguments;
    match words.base.take() {
        None => {}
        Some(Value::Object(more)) => base.extend(more),
        Some(_) => return Err(invalid("arguments must be a JSON object")),
    }
    let empty = base.is_empty() && words.pairs.is_empty();
    words.base = Some(Value::Object(base));
    // What is said on the command line goes before what was saved.
    let seconds = call.timeout.filter(|_| operation.common.timeout.is_none());
    operation.timeout = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    if call.force {
        operation.validation = Validation::Force;
    }
    Ok(match &call.target {
        SavedTarget::Tool { tool: name } => tool(operation, name, words),
        SavedTarget::Prompt { prompt: name } => prompt_of(operation, name, words),
        SavedTarget::Resource { .. } if !empty => {
            return Err(invalid("a saved resource takes no arguments"));
        }
        SavedTarget::Resource { resource, server } => {
            resource_of(operation, resource, server.as_deref(), None)
        }
    })
}

fn tool(operation: Operation<'_>, name: &str, words: Words) -> Exit {
    let told = Told { noun: "tool", target: name, form: operation.form };
    let options = operation.options();
    let again = operation.again();
    operation.run(&told, Need::Owner(Kind::Tool, name.to_owned()), async |host| {
        call_on(host, again, (name, &words), options.clone()).await
    })
}

impl<'a> Operation<'a> {
    /// Without answers, deadline and force.
    fn plain(common: &'a Common, one: &'a OneServer, telemetry: &'a Telemetry, form: Form) -> Self {
        let (answers, timeout) = (Script::default(), None);
        Self { common, one, telemetry, form, answers, timeout, validation: Validation::Enforce }
    }

    fn answering(self, answers: Script) -> Self {
        Self { answers, ..self }
    }

    const fn again(&self) -> Again<'a> {
        Again { common: self.common, one: self.one }
    }

    fn options(&self) -> CallOptions {
        CallOptions {
            origin: Origin::Cli,
            timeout: self.timeout,
            validation: self.validation,
            ..CallOptions::default()
        }
    }

    /// Does `work` over a host with the servers that are needed, and tells how it went.
    fn run(
        self,
        told: &Told<'_>,
        need: Need,
        work: impl AsyncFn(&Host) -> Result<CallOutcome, Error>,
    ) -> Exit {
        let Self { common, one, telemetry, answers, .. } = self;
        let job = Job { common, one, need, answers: answers.clone(), telemetry };
        let done = deck::run(job, async |scene| {
            let host = scene.host;
            let outcome = match attempt(scene, &work).await {
                Err(error) if error.code == ErrorCode::ServerUnavailable => {
                    Err(deck::with_last_words(host, error).await)
                }
                outcome => outcome,
            };
            told.finish(outcome, &Aside::of(host, common, &answers))
        });
        done.unwrap_or_else(|error| told.failure(&error))
    }
}

/// Does `work`; once more with all servers, when only one was asked, which has that no more.
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

async fn call_on(
    host: &Host,
    again: Again<'_>,
    (name, words): (&str, &Words),
    options: CallOptions,
) -> Result<CallOutcome, Error> {
    let offers = host.get_tools();
    let names: Vec<(&ServerName, &std::sync::Arc<str>)> = offers
        .iter()
        .flat_map(|(server, all)| all.tools.iter().map(move |tool| (server, &tool.name)))
        .collect();
    let found = found((host, again), name, naming::resolve(name, names.iter().copied()))?;
    let schema = offers
        .iter()
        .filter(|(server, _)| *server == found.server)
        .flat_map(|(_, all)| &all.tools)
        .find(|tool| tool.name == found.name)
        .map(|tool| tool.input_schema.as_ref().clone())
        .unwrap_or_default();
    let canonical = naming::canonical(&found.server, &found.name);
    let takes = || {
        let usage = signature::usage(&canonical, &schema);
        format!("it takes: {usage}\n`{}` says more", again.list(&found.server))
    };
    let arguments = values::arguments(words.base.clone(), &words.pairs, &schema)
        .map_err(|wrong| invalid(wrong.join("\n  ")).server(&found.server).help(takes()))?;
    let options = CallOptions { server: Some(found.server.clone()), ..options };
    let outcome = host.call_tool_with(&canonical, arguments, options).await;
    outcome.map_err(|error| match error.code {
        ErrorCode::Validation => error.help(takes() + "\n--force sends them all the same"),
        _ => error,
    })
}

/// A name that nobody has may belong to a server that did not start; then that is told with it.
fn found(
    (host, again): (&Host, Again<'_>),
    name: &str,
    resolved: Result<Resolved, Error>,
) -> Result<Resolved, Error> {
    resolved.map_err(|error| {
        if error.code != ErrorCode::ToolNotFound {
            return error;
        }
        let Some(mut down) = deck::unready(&host.view().borrow(), again) else { return error };
        let server = down.server.as_ref().map_or("", ServerName::as_str);
        if !name.starts_with(server) {
            down.message = format!("{error}, and {server} cannot be asked: {}", down.message);
        }
        down
    })
}

/// `mcpdeck read`
pub fn read(common: &Common, args: &ReadArgs, telemetry: &Telemetry) -> Exit {
    let operation = Operation::plain(common, &args.one, telemetry, args.json.into());
    let operation = match scripted(args.answers.as_deref()) {
        Ok(answers) => operation.answering(answers),
        Err(error) => {
            let told = Told { noun: "uri", target: &args.uri, form: operation.form };
            return told.failure(&error);
        }
    };
    resource_of(operation, &args.uri, args.server.as_deref(), args.output.as_ref())
}

fn resource_of(
    operation: Operation<'_>,
    uri: &str,
    server: Option<&str>,
    output: Option<&PathBuf>,
) -> Exit {
    let told = Told { noun: "uri", target: uri, form: operation.form };
    let need = match server {
        Some(server) => Need::Servers(vec![server.to_owned()]),
        None => Need::Owner(Kind::Resource, uri.to_owned()),
    };
    let options = CallOptions { server: server.map(ServerName::new), ..operation.options() };
    let again = operation.again();
    let Operation { common, one, telemetry, answers, .. } = operation;
    let job = Job { common, one, need, answers: answers.clone(), telemetry };
    let done = deck::run(job, async |scene| {
        let host = scene.host;
        let read = async |host: &Host| host.get_resource_with(uri, options.clone()).await;
        let outcome = match attempt(scene, read).await {
            Err(error) if error.code == ErrorCode::ToolNotFound => {
                Err(deck::unready(&host.view().borrow(), again).unwrap_or(error))
            }
            other => other,
        };
        let aside = Aside::of(host, common, &answers);
        match (output, outcome) {
            (Some(path), Ok(outcome)) if told.form == Form::Text => {
                aside.complain();
                save(path, &outcome)
            }
            (_, outcome) => told.finish(outcome, &aside),
        }
    });
    done.unwrap_or_else(|error| told.failure(&error))
}

fn save(path: &Path, outcome: &CallOutcome) -> Exit {
    let bytes = match content::bytes(&outcome.result) {
        Ok(bytes) => bytes,
        Err(message) => {
            output::complain(&message);
            return Exit::Failed;
        }
    };
    match std::fs::write(path, &bytes) {
        Ok(()) => {
            output::complain(&format!("wrote {} bytes to {}", bytes.len(), path.display()));
            Exit::Ok
        }
        Err(error) => output::refuse(&format!("{}: {error}", path.display())),
    }
}

/// `mcpdeck prompt`
pub fn prompt(common: &Common, args: &PromptArgs, telemetry: &Telemetry) -> Exit {
    let operation = Operation::plain(common, &args.one, telemetry, args.json.into());
    let prepared =
        words(&args.arguments).and_then(|words| Ok((words, scripted(args.answers.as_deref())?)));
    match prepared {
        Ok((words, answers)) => prompt_of(operation.answering(answers), &args.name, words),
        Err(error) => {
            Told { noun: "prompt", target: &args.name, form: operation.form }.failure(&error)
        }
    }
}

fn prompt_of(operation: Operation<'_>, name: &str, words: Words) -> Exit {
    let told = Told { noun: "prompt", target: name, form: operation.form };
    let (options, again) = (operation.options(), operation.again());
    operation.run(&told, Need::Owner(Kind::Prompt, name.to_owned()), async |host| {
        prompt_on(host, again, (name, &words), options.clone()).await
    })
}

async fn prompt_on(
    host: &Host,
    again: Again<'_>,
    (name, words): (&str, &Words),
    options: CallOptions,
) -> Result<CallOutcome, Error> {
    let offers = host.get_tools();
    let names: Vec<(&ServerName, &std::sync::Arc<str>)> = offers
        .iter()
        .flat_map(|(server, all)| all.prompts.iter().map(move |prompt| (server, &prompt.name)))
        .collect();
    let found = found((host, again), name, naming::resolve(name, names.iter().copied()))?;
    let prompt = offers
        .iter()
        .filter(|(server, _)| *server == found.server)
        .flat_map(|(_, all)| &all.prompts)
        .find(|prompt| prompt.name == found.name);
    // Arguments of prompts are strings; a schema says so to the typed words.
    let properties: serde_json::Map<String, Value> = prompt
        .iter()
        .flat_map(|prompt| &prompt.arguments)
        .map(|argument| (argument.name.to_string(), json!({"type": "string"})))
        .collect();
    let schema = json!({"properties": properties, "additionalProperties": false});
    let arguments = values::arguments(words.base.clone(), &words.pairs, &schema)
        .map_err(|wrong| invalid(wrong.join("\n  ")).server(&found.server))?;
    let given = |name: &str| arguments.get(name).is_some();
    let missing: Vec<&str> = prompt
        .iter()
        .flat_map(|prompt| &prompt.arguments)
        .filter(|argument| argument.required && !given(&argument.name))
        .map(|argument| argument.name.as_ref())
        .collect();
    if !missing.is_empty() {
        let message = format!("the prompt needs {}", missing.join(", "));
        let words: Vec<String> = missing.iter().map(|name| format!("{name}=TEXT")).collect();
        let help = format!("write {}", words.join(" "));
        return Err(invalid(message).server(&found.server).help(help));
    }
    let options = CallOptions { server: Some(found.server.clone()), ..options };
    host.get_prompt_with(&naming::canonical(&found.server, &found.name), arguments, options).await
}

/// The answers of `--answers FILE`; none deny everything.
fn scripted(file: Option<&Path>) -> Result<Script, Error> {
    file.map(Script::load).transpose().map_err(invalid).map(Option::unwrap_or_default)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::Validation, message)
}

/// The words of a command before their types are known.
struct Words {
    base: Option<Value>,
    pairs: Vec<String>,
}

/// Reads a JSON word, `@file` or `-`; leaves `key=value` pairs as they are.
fn words(arguments: &[String]) -> Result<Words, Error> {
    let Some((first, rest)) = arguments.split_first() else {
        return Ok(Words { base: None, pairs: Vec::new() });
    };
    let base = if first == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|e| invalid(format!("stdin: {e}")))?;
        Some(jsonc::parse("stdin", &text).map_err(invalid)?)
    } else if let Some(path) = first.strip_prefix('@') {
        Some(jsonc::load(Path::new(path)).map_err(invalid)?)
    } else if first.trim_start().starts_with(['{', '[']) {
        let wrong = |error| {
            invalid(format!("`{first}`: {error}"))
                .help("text stands in double quotes; or write key=value")
        };
        Some(serde_json::from_str(first).map_err(wrong)?)
    } else {
        return Ok(Words { base: None, pairs: arguments.to_vec() });
    };
    Ok(Words { base, pairs: rest.to_vec() })
}
