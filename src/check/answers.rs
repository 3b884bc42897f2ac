//! Scripted answers to requests of servers (`--answers FILE`): matched by server, kind and content.
//!
//! A request that matches no entry is denied, counted and reported.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use base::text::json::exact;
use deck::WrittenText;
use host::{ApprovalRequest, RequestHandler};
use protocol::{Answer, RequestKind, RpcCode};

pub use deck::{AnswerReply, Answers, AskedKind, ScriptedAnswer};

/// Answers from a script; records the requests it had no answer for.
#[derive(Clone, Default)]
pub struct AnswerScript {
    entries: Arc<[AnswerLine]>,
    denied: Arc<Mutex<Vec<(String, String)>>>,
}

struct AnswerLine {
    entry: ScriptedAnswer,
    pattern: Option<regex::Regex>,
    used: AtomicU64,
}

impl AnswerScript {
    /// Reads a file.
    ///
    /// # Errors
    /// When the file cannot be read or is not valid, or has a number that would not be sent as it is
    /// written.
    pub fn load(path: &Path) -> Result<Self, String> {
        let file = answers_of(&WrittenText::load(path)?)?;
        Self::new(file).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Whether it has no answers: none were given.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A script of these answers.
    ///
    /// # Errors
    /// When a pattern is not a valid regular expression.
    pub fn new(file: Answers) -> Result<Self, String> {
        let line = |entry: ScriptedAnswer| {
            let pattern = entry.matches.as_deref().map(regex::Regex::new).transpose();
            let pattern = pattern.map_err(|e| format!("matches: {e}"))?;
            Ok(AnswerLine { entry, pattern, used: AtomicU64::new(0) })
        };
        let entries = file.answers.into_iter().map(line).collect::<Result<_, String>>()?;
        Ok(Self { entries, denied: Arc::default() })
    }

    /// The answer to one request; `None` denies it. What the host itself asks (may this call be
    /// sent?) is for a person alone: it is neither answered nor counted.
    pub fn answer(&self, server: &str, kind: &RequestKind, params: &Value) -> Option<Answer> {
        if kind.is_own() {
            return None;
        }
        let found = self.entries.iter().find(|line| line.takes(server, kind, params));
        if let Some(line) = found {
            return Some(match line.entry.reply.result() {
                Ok(result) => Answer::Result(result),
                Err(message) => Answer::Refuse { code: RpcCode::USER_REJECTED, message },
            });
        }
        // Roots are answered from the configuration: no answer here is not a denial.
        if *kind != RequestKind::Roots {
            let mut denied = self.denied.lock();
            denied.push((server.to_owned(), kind.method().to_owned()));
        }
        None
    }

    /// Server and method of every request that was denied, in the order they came.
    pub fn denied(&self) -> Vec<(String, String)> {
        self.denied.lock().clone()
    }
}

/// The answers of a text, all of whose numbers are sent as they are written.
fn answers_of(text: &WrittenText) -> Result<Answers, String> {
    let file: Answers = text.decode()?;
    let numbers = text.written_value().map_err(|error| text.problem("", &error))?.numbers;
    for (place, number) in numbers.iter() {
        exact(number).map_err(|why| text.problem(place, &why))?;
    }
    Ok(file)
}

impl AnswerLine {
    fn takes(&self, server: &str, kind: &RequestKind, params: &Value) -> bool {
        let asked = AskedKind::from_request_kind(kind);
        let entry = &self.entry;
        entry.server.as_deref().is_none_or(|s| s == server)
            && entry.kind.is_none_or(|k| asked == Some(k))
            && self.pattern.as_ref().is_none_or(|p| p.is_match(&params.to_string()))
            && self.use_one()
    }

    /// Counts one use of the entry; `false` when its uses are exhausted. Atomic, because servers
    /// ask concurrently.
    fn use_one(&self) -> bool {
        let Some(most) = self.entry.times else { return true };
        let one_more = |used: u64| (used < most).then_some(used + 1);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }
}

impl RequestHandler for AnswerScript {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let answer = self.answer(request.server.as_str(), &request.kind, &request.params);
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_entry_that_matches_server_kind_and_content_answers() {
        let file = json!({"answers": [
            {"server": "a", "kind": "elicitation", "matches": "colour", "times": 1,
             "accept": {"colour": "red"}},
            {"kind": "elicitation", "decline": true},
            {"kind": "sampling", "text": "hello"},
        ]});
        let script =
            AnswerScript::new(serde_json::from_value(file).expect("a file")).expect("a script");
        let ask = |server: &str, kind, params| match script.answer(server, &kind, &params) {
            Some(Answer::Result(value)) => value,
            other => json!(format!("{other:?}")),
        };
        let colour = json!({"message": "which colour?"});
        let form = || RequestKind::Elicitation;
        assert_eq!(ask("a", form(), colour.clone())["content"]["colour"], "red");
        assert_eq!(ask("a", form(), colour.clone())["action"], "decline", "only once");
        assert_eq!(ask("b", form(), colour)["action"], "decline");
        assert_eq!(ask("b", RequestKind::Sampling, json!({}))["content"]["text"], "hello");
        assert_eq!(script.answer("b", &RequestKind::UrlElicitation, &json!({})), None);
        assert_eq!(script.denied(), [("b".to_owned(), "elicitation/create".to_owned())]);
    }

    #[test]
    fn a_number_that_would_be_rounded_is_refused_with_its_place() {
        let load = |number: &str| {
            let text = format!("{{\"answers\": [\n {{\"accept\": {{\"n\": {number}}}}}]}}");
            answers_of(&WrittenText::new("answers.json", &text)).err()
        };
        for number in ["7", "1.50", "1e3", "18446744073709551615"] {
            assert_eq!(load(number), None, "{number}");
        }
        let why = load("123456789012345678901").expect("refused");
        assert!(why.contains("answers.json:2:"), "{why}");
        assert!(why.contains("123456789012345678901 cannot be sent exactly"), "{why}");
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        let file = json!({"answers": [{"matches": "(", "text": "x"}]});
        assert!(AnswerScript::new(serde_json::from_value(file).expect("a file")).is_err());
    }
}
