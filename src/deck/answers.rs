//! Scripted answers to requests from servers: `mcp.answers.json` beside `mcp.json`. The check
//! answers with them (`--answers FILE`), the dashboard offers them and adds to them.
//!
//! ```json
//! { "answers": [
//!     { "name": "polite", "kind": "sampling", "text": "Certainly." },
//!     { "name": "red", "server": "paint", "kind": "elicitation", "accept": { "colour": "red" } } ] }
//! ```
//! Owns the file; does not send answers.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::files::edit_file;
use crate::written::WrittenText;
use base::SafeText;
use base::atomic::Readers;
use base::text::json::pretty;
use config::put_element;
use protocol::{Answer, RequestKind, RpcCode};
use schema::{SchemaVerdict, Validator};

/// Name of the file beside `mcp.json`.
pub const FILE_NAME: &str = "mcp.answers.json";

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Scripted answers of mcpdeck")]
pub struct Answers {
    /// Where editors find the schema of this file.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Entries, the first that matches wins.
    pub answers: Vec<ScriptedAnswer>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptedAnswer {
    /// Its name, for a person who picks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only requests of this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Only requests of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<AskedKind>,
    /// Only requests whose parameters, as JSON text, match this regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// How many requests it answers; without a limit when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// What is answered.
    #[serde(flatten)]
    pub reply: AnswerReply,
}

/// What a server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum AskedKind {
    /// `sampling/createMessage`
    Sampling,
    /// `elicitation/create` with a form
    Elicitation,
    /// `elicitation/create` with a URL
    UrlElicitation,
    /// `roots/list`
    Roots,
}

impl AskedKind {
    /// The kind of a request; `None` for those that no stored answer may decide.
    pub const fn from_request_kind(kind: &RequestKind) -> Option<Self> {
        match kind {
            RequestKind::Sampling => Some(Self::Sampling),
            RequestKind::Elicitation => Some(Self::Elicitation),
            RequestKind::UrlElicitation => Some(Self::UrlElicitation),
            RequestKind::Roots => Some(Self::Roots),
            _ => None,
        }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum AnswerReply {
    /// The result exactly as it is sent.
    Result(Value),
    /// Text of the assistant (sampling).
    Text(String),
    /// Content of an accepted form (elicitation).
    Accept(Value),
    /// The form is declined.
    Decline(bool),
    /// The form is cancelled.
    Cancel(bool),
    /// Refused, with this reason.
    Refuse(String),
}

impl AnswerReply {
    /// The result to send.
    ///
    /// # Errors
    /// The reason, if it is a refusal.
    pub fn result(&self) -> Result<Value, String> {
        Ok(match self {
            Self::Result(value) => value.clone(),
            Self::Text(text) => completion(text, "scripted"),
            Self::Accept(content) => json!({"action": "accept", "content": content}),
            Self::Decline(_) => json!({"action": "decline"}),
            Self::Cancel(_) => json!({"action": "cancel"}),
            Self::Refuse(reason) => return Err(reason.clone()),
        })
    }

    /// The answer when a person replies so to a request of this kind: each kind has its own way to
    /// refuse (MCP 2025-11-25, client features).
    pub fn by_person(&self, kind: &RequestKind) -> Answer {
        let rejected = |message: String| Answer::Refuse { code: RpcCode::USER_REJECTED, message };
        let is_sampling = *kind == RequestKind::Sampling;
        match self {
            Self::Decline(_) | Self::Cancel(_) if is_sampling => {
                rejected("the user rejected the sampling request".to_owned())
            }
            Self::Refuse(reason) if is_sampling => rejected(SafeText::line(reason).to_string()),
            Self::Refuse(_) => Answer::Result(json!({"action": "decline"})),
            Self::Accept(_) if *kind == RequestKind::UrlElicitation => {
                Answer::Result(json!({"action": "accept"}))
            }
            Self::Text(text) => Answer::Result(completion(text, "manual")),
            Self::Result(_) | Self::Accept(_) | Self::Decline(_) | Self::Cancel(_) => {
                self.result().map_or_else(rejected, Answer::Result)
            }
        }
    }
}

/// What a model completes a request with.
fn completion(text: &str, model: &str) -> Value {
    json!({
        "role": "assistant", "content": {"type": "text", "text": text},
        "model": model, "stopReason": "endTurn",
    })
}

/// Checks the result of a request of a server for whoever wrote it (MCP 2025-11-25, client
/// features): its form, and the content of an accepted elicitation against the `requestedSchema` of
/// the request's `params`.
///
/// # Errors
/// What was expected, and where.
pub fn check_answer(kind: &RequestKind, params: &Value, result: &Value) -> Result<(), String> {
    let needs =
        |is_whole: bool, words: &str| is_whole.then_some(()).ok_or_else(|| words.to_owned());
    match kind {
        RequestKind::Sampling => {
            let is_whole = result.get("content").is_some()
                && result["role"].is_string()
                && result["model"].is_string();
            needs(is_whole, "the result has `role`, `content` and `model`")
        }
        RequestKind::Roots => needs(result["roots"].is_array(), "the result has a list `roots`"),
        RequestKind::Elicitation
        | RequestKind::UrlElicitation
        | RequestKind::Guard
        | RequestKind::Permission
        | RequestKind::SignIn
        | RequestKind::Other(_) => {
            let known = ["accept", "decline", "cancel"];
            let is_known = result["action"].as_str().is_some_and(|it| known.contains(&it));
            needs(is_known, "the result has an `action`: accept, decline or cancel")?;
            let is_form = *kind == RequestKind::Elicitation && result["action"] == "accept";
            if is_form { check_content(params, &result["content"]) } else { Ok(()) }
        }
    }
}

/// Checks the content of a form; a schema that cannot be used forbids nothing.
fn check_content(params: &Value, content: &Value) -> Result<(), String> {
    if !content.is_object() {
        return Err("`content` is an object with the fields of the form".to_owned());
    }
    let Some(Ok(validator)) = params.get("requestedSchema").map(Validator::compile) else {
        return Ok(());
    };
    let SchemaVerdict::Invalid(violations) = validator.check(content) else { return Ok(()) };
    let all = violations.iter().map(|one| format!("{}: {}", one.place(), one.message));
    Err(format!("`content` does not fit the form: {}", all.collect::<Vec<_>>().join("; ")))
}

impl ScriptedAnswer {
    /// Whether it applies to requests of `kind` from `server`, regardless of their content.
    pub fn suits(&self, server: &str, kind: AskedKind) -> bool {
        self.server.as_deref().is_none_or(|of| of == server)
            && self.kind.is_none_or(|of| of == kind)
    }
}

impl Answers {
    /// The file that belongs to a configuration file.
    pub fn path_beside(config: &Path) -> PathBuf {
        config.with_file_name(FILE_NAME)
    }

    /// Reads a file: JSON with comments and trailing commas; a missing file counts as empty.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn load(path: &Path) -> Result<Self, String> {
        WrittenText::find(path)?.map_or_else(|| Ok(Self::default()), |text| text.decode())
    }

    /// Adds an answer, replacing one with the same name, server and kind.
    pub fn set(&mut self, answer: ScriptedAnswer) {
        match self.place(&answer).and_then(|at| self.answers.get_mut(at)) {
            Some(old) => *old = answer,
            None => self.answers.push(answer),
        }
    }

    /// Whether there is an answer with the same name, server and kind.
    pub fn has(&self, answer: &ScriptedAnswer) -> bool {
        self.place(answer).is_some()
    }

    fn place(&self, answer: &ScriptedAnswer) -> Option<usize> {
        let of = |a: &ScriptedAnswer| (a.name.clone(), a.server.clone(), a.kind);
        self.answers.iter().position(|old| of(old) == of(answer))
    }

    /// Puts one answer into a file, created if missing: under a lock, so that concurrent changes of
    /// other windows are not lost, and with the rest of the text unchanged. Returns the resulting
    /// content.
    ///
    /// # Errors
    /// Names the file and what is wrong with it; the file is then unchanged.
    pub fn put(path: &Path, answer: ScriptedAnswer) -> Result<Self, String> {
        let mut all = Self::default();
        edit_file(path, Readers::Owner, |text| {
            if let Some(text) = text {
                all = WrittenText::new(path, text).decode()?;
            }
            let value = serde_json::to_value(&answer).map_err(|error| error.to_string())?;
            let place = all.place(&answer);
            all.set(answer);
            let edited = text.and_then(|text| put_element(text, "answers", place, &value));
            Ok(Some(edited.unwrap_or_else(|| pretty(&all) + "\n")))
        })?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_found_again_and_one_of_the_same_name_takes_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = Answers::path_beside(&folder.path().join("mcp.json"));
        let mut answers = Answers::load(&file).expect("no file is no answers");
        let named = |text: &str| ScriptedAnswer {
            name: Some("polite".into()),
            server: Some("a".into()),
            kind: Some(AskedKind::Sampling),
            matches: None,
            times: None,
            reply: AnswerReply::Text(text.into()),
        };
        answers.set(named("no"));
        answers.set(named("yes"));
        std::fs::write(&file, pretty(&answers)).expect("writable");
        let text = std::fs::read_to_string(&file).expect("there");
        std::fs::write(&file, format!("// ours\n{text}")).expect("writable");
        let other = ScriptedAnswer { kind: Some(AskedKind::Roots), ..named("roots") };
        let kept = Answers::put(&file, other).expect("writable");
        assert_eq!(kept, Answers::load(&file).expect("readable"));
        assert_eq!(Answers::put(&file, named("maybe")).expect("writable").answers.len(), 2);
        assert_eq!(Answers::put(&file, named("yes")).expect("writable").answers.len(), 2);
        assert!(std::fs::read_to_string(&file).expect("there").starts_with("// ours\n"));
        let mut again = Answers::load(&file).expect("readable");
        again.answers.pop();
        assert_eq!(again.answers, [named("yes")]);
        assert!(again.answers[0].suits("a", AskedKind::Sampling));
        assert!(!again.answers[0].suits("b", AskedKind::Sampling));
        assert!(!again.answers[0].suits("a", AskedKind::Elicitation));
    }

    #[test]
    fn a_file_that_is_none_names_itself_and_what_is_wrong() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE_NAME);
        std::fs::write(&file, "{\"answers\": [{\"txet\": \"x\"}]}").expect("writable");
        let problem = Answers::load(&file).expect_err("a misspelt key");
        assert!(problem.contains(FILE_NAME), "{problem}");
    }
}
