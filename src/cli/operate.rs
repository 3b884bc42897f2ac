//! `call`, `read` and `prompt`: one operation, told as text or as one JSON object.

use std::fmt::Write as _;
use std::io::{IsTerminal, Read};
use std::time::Duration;

use serde_json::{Value, json};

use super::args::{CallArgs, Common, PromptArgs, ReadArgs};
use super::content;
use super::deck::{self, Job, Need};
use super::exit::Exit;
use super::{output, values};
use crate::check::answers::Script;
use crate::check::jsonc;
use crate::config::ServerName;
use crate::host::naming::{self, Resolved};
use crate::host::{CallOptions, CallOutcome, Error, ErrorCode, Host, Origin, Validation};
use crate::secret::Redactor;
use crate::telemetry::Telemetry;
use crate::text::json as safe;

/// How an operation is told.
struct Told<'a> {
    /// Key of the JSON object that holds `target`: `tool`, `prompt` or `uri`.
    noun: &'static str,
    /// What was asked for.
    target: &'a str,
    /// Whether as JSON.
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

impl From<bool> for Form {
    fn from(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// `mcpdeck call`
pub fn call(common: &Common, args: &CallArgs, telemetry: &Telemetry) -> Exit {
    let told = Told { noun: "tool", target: &args.name, form: args.json.into() };
    let prepared = words(&args.arguments).and_then(|words| {
        let answers = args.answers.as_deref().map(Script::load).transpose();
        Ok((words, answers.map_err(invalid)?.unwrap_or_default()))
    });
    let (words, answers) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return told.failure(&error),
    };
    let job =
        Job { common, one: &args.one, need: Need::Owner(args.name.clone()), answers, telemetry };
    let done = deck::run(job, async |host| {
        let outcome = call_on(host, args, words).await;
        told.finish(outcome, &hidden(host, common))
    });
    done.unwrap_or_else(|error| told.failure(&error))
}

async fn call_on(host: &Host, args: &CallArgs, words: Words) -> Result<CallOutcome, Error> {
    let offers = host.get_tools();
    let names: Vec<(&ServerName, &std::sync::Arc<str>)> = offers
        .iter()
        .flat_map(|(server, all)| all.tools.iter().map(move |tool| (server, &tool.name)))
        .collect();
    let found = found(host, naming::resolve(&args.name, names.iter().copied()))?;
    let schema = offers
        .iter()
        .filter(|(server, _)| *server == found.server)
        .flat_map(|(_, all)| &all.tools)
        .find(|tool| tool.name == found.name)
        .map(|tool| tool.input_schema.as_ref().clone())
        .unwrap_or_default();
    let arguments = values::arguments(words.base, &words.pairs, &schema).map_err(|wrong| {
        let help = format!("`mcpdeck list {} --only tools --json` shows the schema", found.server);
        invalid(wrong.join("\n  ")).server(&found.server).help(help)
    })?;
    let validation = if args.force { Validation::Force } else { Validation::Enforce };
    let options = CallOptions {
        origin: Origin::Cli,
        validation,
        server: Some(found.server.clone()),
        ..CallOptions::default()
    };
    host.call_tool_with(&naming::canonical(&found.server, &found.name), arguments, options).await
}

/// A name that nobody has may belong to a server that did not start; then that is what is told.
fn found(host: &Host, resolved: Result<Resolved, Error>) -> Result<Resolved, Error> {
    resolved.map_err(|error| {
        if error.code != ErrorCode::ToolNotFound {
            return error;
        }
        deck::unready(&host.view().borrow()).unwrap_or(error)
    })
}

/// `mcpdeck read`
pub fn read(common: &Common, args: &ReadArgs, telemetry: &Telemetry) -> Exit {
    let told = Told { noun: "uri", target: &args.uri, form: args.json.into() };
    let need = Need::Servers(args.server.iter().cloned().collect());
    let job = Job { common, one: &args.one, need, answers: Script::default(), telemetry };
    let done = deck::run(job, async |host| {
        let options = CallOptions {
            origin: Origin::Cli,
            server: args.server.as_deref().map(ServerName::new),
            ..CallOptions::default()
        };
        let outcome = match host.get_resource(&args.uri, options).await {
            Err(error) if error.code == ErrorCode::ToolNotFound => {
                Err(deck::unready(&host.view().borrow()).unwrap_or(error))
            }
            other => other,
        };
        match (&args.output, outcome) {
            (Some(path), Ok(outcome)) if told.form == Form::Text => save(path, &outcome),
            (_, outcome) => told.finish(outcome, &hidden(host, common)),
        }
    });
    done.unwrap_or_else(|error| told.failure(&error))
}

fn save(path: &std::path::Path, outcome: &CallOutcome) -> Exit {
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
    let told = Told { noun: "prompt", target: &args.name, form: args.json.into() };
    let words = match words(&args.arguments) {
        Ok(words) => words,
        Err(error) => return told.failure(&error),
    };
    let need = Need::Owner(args.name.clone());
    let job = Job { common, one: &args.one, need, answers: Script::default(), telemetry };
    let done = deck::run(job, async |host| {
        let outcome = prompt_on(host, &args.name, words).await;
        told.finish(outcome, &hidden(host, common))
    });
    done.unwrap_or_else(|error| told.failure(&error))
}

async fn prompt_on(host: &Host, name: &str, words: Words) -> Result<CallOutcome, Error> {
    let offers = host.get_tools();
    let names: Vec<(&ServerName, &std::sync::Arc<str>)> = offers
        .iter()
        .flat_map(|(server, all)| all.prompts.iter().map(move |prompt| (server, &prompt.name)))
        .collect();
    let found = found(host, naming::resolve(name, names.iter().copied()))?;
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
    let arguments = values::arguments(words.base, &words.pairs, &schema)
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
        return Err(invalid(message).server(&found.server));
    }
    let options = CallOptions {
        origin: Origin::Cli,
        server: Some(found.server.clone()),
        ..CallOptions::default()
    };
    host.get_prompt(&naming::canonical(&found.server, &found.name), arguments, options).await
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
        Some(jsonc::parse(&text).map_err(|e| invalid(format!("stdin: {e}")))?)
    } else if let Some(path) = first.strip_prefix('@') {
        Some(jsonc::load(std::path::Path::new(path)).map_err(invalid)?)
    } else if first.trim_start().starts_with(['{', '[']) {
        Some(serde_json::from_str(first).map_err(|e| invalid(format!("`{first}`: {e}")))?)
    } else {
        return Ok(Words { base: None, pairs: arguments.to_vec() });
    };
    Ok(Words { base, pairs: rest.to_vec() })
}

/// The values of the configuration that a server may print back and nobody should see by accident.
fn hidden(host: &Host, common: &Common) -> Redactor {
    if common.reveal {
        return Redactor::default();
    }
    let view = host.view().borrow().clone();
    let configs = view.servers.keys().filter_map(|server| host.server_config(server));
    Redactor::new(configs.flat_map(|config| config.secrets()))
}

/// The text without those values; says so when there were some.
fn masked(text: &str, hidden: &Redactor) -> String {
    let masked = hidden.redact(text);
    if masked != text {
        output::complain(
            "values of the configuration are masked in the answer; --reveal shows them",
        );
    }
    masked.into_owned()
}

impl Told<'_> {
    fn finish(&self, outcome: Result<CallOutcome, Error>, hidden: &Redactor) -> Exit {
        match outcome {
            Ok(outcome) => self.success(&outcome, hidden),
            Err(error) => self.failure(&error),
        }
    }

    fn success(&self, outcome: &CallOutcome, hidden: &Redactor) -> Exit {
        let exit = if outcome.is_error { Exit::Failed } else { Exit::Ok };
        for violation in &outcome.output_violations {
            let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
            output::complain(&format!("structuredContent {at}: {}", violation.message));
        }
        if self.form == Form::Json {
            let object = self.object(
                Some(&outcome.server),
                json!(outcome.result),
                Value::Null,
                (outcome.duration, outcome.waiting),
            );
            return output::print(&masked(&(safe::compact(&object) + "\n"), hidden), exit);
        }
        let text = masked(&content::text(&outcome.result), hidden);
        // A terminal gets safe text; a file or a program gets what was sent.
        let text = if std::io::stdout().is_terminal() {
            crate::text::SafeText::block(&text).as_str().to_owned()
        } else {
            text
        };
        if outcome.is_error {
            output::complain("the tool failed:");
        }
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        output::print(&format!("{text}{end}"), exit)
    }

    fn failure(&self, error: &Error) -> Exit {
        let exit = deck::exit_of(error);
        if self.form == Form::Text {
            deck::complain(error);
            return exit;
        }
        let mut message = error.message.clone();
        for violation in &error.violations {
            let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
            let _ = write!(message, "; {at}: {}", violation.message);
        }
        for diagnostic in &error.diagnostics {
            let _ = write!(message, "; {}: {}", diagnostic.at, diagnostic.message);
        }
        let told = json!({
            "code": error.code, "message": message, "server": error.server,
            "help": error.clone().advised().help,
        });
        let object =
            self.object(error.server.as_ref(), Value::Null, told, (Duration::ZERO, Duration::ZERO));
        output::print(&(safe::compact(&object) + "\n"), exit)
    }

    fn object(
        &self,
        server: Option<&ServerName>,
        result: Value,
        error: Value,
        (duration, waiting): (Duration, Duration),
    ) -> Value {
        json!({
            "server": server,
            self.noun: self.target,
            "result": result,
            "error": error,
            "durationMs": duration.as_millis() as u64,
            "waitingMs": waiting.as_millis() as u64,
        })
    }
}
