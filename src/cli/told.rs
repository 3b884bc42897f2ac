//! The outcome of one operation as text or as one JSON object, secrets masked.

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::Common;
use super::exit::Exit;
use super::{content, deck, output};
use crate::check::answers::Script;
use crate::config::ServerName;
use crate::host::{CallOutcome, Error, Host};
use crate::secret::Redactor;
use crate::text::{SafeText, json as safe};

/// How an operation is told.
pub struct Told<'a> {
    /// Key of the JSON object that holds `target`: `tool`, `prompt` or `uri`.
    pub noun: &'static str,
    /// What was asked for.
    pub target: &'a str,
    /// Whether as JSON.
    pub form: Form,
}

/// Text or JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl From<bool> for Form {
    fn from(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// What is known beside the outcome when it is told.
pub struct Aside {
    /// Values of the configuration that a server may print back and nobody should see by accident.
    hidden: Redactor,
    /// Server and method of every request that was denied.
    denied: Vec<(String, String)>,
}

impl Aside {
    /// What a host knows once the work is done; `answers` is what it answered its servers with.
    pub fn of(host: &Host, common: &Common, answers: &Script) -> Self {
        let denied = answers.denied();
        if common.reveal {
            return Self { hidden: Redactor::default(), denied };
        }
        let view = host.view().borrow().clone();
        let configs = view.servers.keys().filter_map(|server| host.server_config(server));
        Self { hidden: Redactor::new(configs.flat_map(|config| config.secrets())), denied }
    }

    /// Says on stderr who asked for what and was refused: a result that was made without it reads
    /// like any other.
    pub fn complain(&self) {
        let mut told: Vec<((&str, &str), usize)> = Vec::new();
        for (server, method) in &self.denied {
            match told.iter_mut().find(|(one, _)| *one == (server, method)) {
                Some((_, times)) => *times += 1,
                None => told.push(((server, method), 1)),
            }
        }
        for ((server, method), times) in told {
            let method = SafeText::cut(method, 60);
            let times = if times == 1 { String::new() } else { format!(" {times} times") };
            output::complain(&format!(
                "{server} asked for {method}{times} and was refused: no answer of --answers fits"
            ));
        }
    }
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
    /// Tells how it went.
    pub fn finish(&self, outcome: Result<CallOutcome, Error>, aside: &Aside) -> Exit {
        aside.complain();
        match outcome {
            Ok(outcome) => self.success(&outcome, aside),
            Err(error) => self.failed(&error, &aside.denied),
        }
    }

    fn success(&self, outcome: &CallOutcome, aside: &Aside) -> Exit {
        let hidden = &aside.hidden;
        let exit = if outcome.is_error { Exit::Failed } else { Exit::Ok };
        for violation in &outcome.output_violations {
            let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
            output::complain(&format!("structuredContent {at}: {}", violation.message));
        }
        if self.form == Form::Json {
            let mut object = self.object(
                Some(&outcome.server),
                json!(outcome.result),
                Value::Null,
                (outcome.duration, outcome.waiting),
            );
            object["denied"] = methods(&aside.denied);
            return output::print(&masked(&(safe::compact(&object) + "\n"), hidden), exit);
        }
        let text = masked(&content::text(&outcome.result), hidden);
        // A terminal gets safe text; a file or a program gets what was sent.
        let text = if std::io::stdout().is_terminal() {
            SafeText::block(&text).as_str().to_owned()
        } else {
            text
        };
        if outcome.is_error {
            output::complain("the tool failed:");
        }
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        output::print(&format!("{text}{end}"), exit)
    }

    /// Tells what went wrong before a server could ask for anything.
    pub fn failure(&self, error: &Error) -> Exit {
        self.failed(error, &[])
    }

    fn failed(&self, error: &Error, denied: &[(String, String)]) -> Exit {
        let exit = deck::exit_of(error);
        if self.form == Form::Text {
            deck::complain(error);
            return exit;
        }
        let told = deck::error_json(error);
        let mut object =
            self.object(error.server.as_ref(), Value::Null, told, (Duration::ZERO, Duration::ZERO));
        object["denied"] = methods(denied);
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

/// What was asked for and refused, in the order it came.
fn methods(denied: &[(String, String)]) -> Value {
    denied.iter().map(|(_, method)| SafeText::cut(method, 60).as_str().to_owned()).collect()
}
