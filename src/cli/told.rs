//! The outcome of one operation as text or as one JSON object, secrets masked.

use std::io::IsTerminal;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::args::Common;
use super::exit::Exit;
use super::{content, deck, output};
use crate::base::ServerName;
use crate::base::secret::Redactor;
use crate::base::text::{SafeText, json as safe};
use crate::check::answers::Script;
use crate::error::Error;
use crate::host::{CallOutcome, Host};
use crate::mcp::Payload;

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
            let object = Object {
                told: self,
                server: Some(&outcome.server),
                result: Some(&outcome.result),
                error: None,
                times: (outcome.duration, outcome.waiting),
                denied: &aside.denied,
            };
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
        let object = Object {
            told: self,
            server: error.server.as_ref(),
            result: None,
            error: Some(deck::error_json(error)),
            times: (Duration::ZERO, Duration::ZERO),
            denied,
        };
        output::print(&(safe::compact(&object) + "\n"), exit)
    }
}

/// What is printed as JSON. The result is written as it lies there: an answer of millions of values
/// that is kept as text never becomes a tree, which would take fifty times as much memory.
struct Object<'a> {
    told: &'a Told<'a>,
    server: Option<&'a ServerName>,
    result: Option<&'a Payload>,
    error: Option<Value>,
    /// In all, and of that waiting for a person.
    times: (Duration, Duration),
    denied: &'a [(String, String)],
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("server", &self.server)?;
        map.serialize_entry(self.told.noun, self.told.target)?;
        map.serialize_entry("result", &self.result)?;
        map.serialize_entry("error", &self.error)?;
        map.serialize_entry("durationMs", &(self.times.0.as_millis() as u64))?;
        map.serialize_entry("waitingMs", &(self.times.1.as_millis() as u64))?;
        map.serialize_entry("denied", &methods(self.denied))?;
        map.end()
    }
}

/// What was asked for and refused, in the order it came.
fn methods(denied: &[(String, String)]) -> Value {
    denied.iter().map(|(_, method)| SafeText::cut(method, 60).as_str().to_owned()).collect()
}
