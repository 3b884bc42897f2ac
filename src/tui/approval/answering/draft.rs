//! The answer being made: text with its fields and tool calls, JSON, a form, a yes or no.

use ratatui_textarea::TextArea;
use serde_json::json;

use crate::base::text::json::pretty;
use crate::config::{ApprovalRule, ApprovalRules};
use crate::deck::answers::{Answers, AskedKind};
use crate::host::approvals::RuleKind;
use crate::mcp::RequestKind;
use crate::tui::approval::answering::answer::{Awaits, wrong};
use crate::tui::approval::answering::{AnswerScreen, Drafting, Part, Says, read};
use crate::tui::form::FormState;
use crate::tui::form::input::area;
use crate::tui::form::seed::{Defaults, seed};
use crate::tui::model::last_text;
use crate::tui::prelude::*;
use crate::tui::widget::{Doc, TextInput};

/// The answer being made.
pub enum Draft {
    /// Text of a sampling answer, with its fields.
    Text(Box<Composer>),
    /// A whole result as JSON.
    Raw(Box<TextArea<'static>>),
    /// The form of an elicitation.
    Form(Box<FormState>),
    /// A yes or no: a URL to open, a guarded call to let through.
    Consent,
}

impl Draft {
    /// The form being filled in: that of an elicitation, or of a tool call in a completion.
    pub fn form(&self) -> Option<&FormState> {
        match self {
            Self::Form(form) => Some(form),
            Self::Text(composer) => composer.tool.as_ref().map(|tool| &tool.form),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(super) fn form_mut(&mut self) -> Option<&mut FormState> {
        match self {
            Self::Form(form) => Some(form),
            Self::Text(composer) => composer.tool.as_mut().map(|tool| &mut tool.form),
            _ => None,
        }
    }
}

/// Stop reasons of the specification, in the order in which a key steps through them.
pub const STOP_REASONS: &[&str] = &["endTurn", "stopSequence", "maxTokens", "toolUse"];

/// The answer to a sampling request as a person writes it (MCP 2025-11-25, client features,
/// sampling, `CreateMessageResult`).
pub struct Composer {
    /// Its text.
    pub text: TextArea<'static>,
    /// Name of the model; `manual` unless changed.
    pub model: TextInput,
    /// Stop reason, one of `STOP_REASONS` or the person's own.
    pub stop: TextInput,
    /// Tool calls, in order: name and input.
    pub tool_uses: Vec<(String, Value)>,
    /// The one that is being filled in.
    pub tool: Option<ToolForm>,
}

/// The arguments of a tool call being filled in.
pub struct ToolForm {
    /// The tool's name, as the server offers it.
    pub name: String,
    /// The form of its input schema.
    pub form: FormState,
}

impl Default for Composer {
    fn default() -> Self {
        Self {
            text: area(""),
            model: TextInput::new("manual"),
            stop: TextInput::new(STOP_REASONS[0]),
            tool_uses: Vec::new(),
            tool: None,
        }
    }
}

impl Composer {
    /// The composer that says the same as a result, when one can: text and tool calls, nothing else.
    pub fn of(result: &Value) -> Option<Self> {
        let text_of = |key: &str| result.get(key).and_then(Value::as_str);
        let content = result.get("content")?;
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        let mut composer = Self::default();
        for (line, key) in [(&mut composer.model, "model"), (&mut composer.stop, "stopReason")] {
            if let Some(text) = text_of(key) {
                line.set(text);
            }
        }
        for block in blocks {
            let field = |key: &str| block.get(key).and_then(Value::as_str);
            match field("type")? {
                "text" if composer.text.is_empty() => composer.text = area(field("text")?),
                "tool_use" => {
                    let input = block.get("input").cloned().unwrap_or_else(|| json!({}));
                    composer.tool_uses.push((field("name")?.to_owned(), input));
                }
                _ => return None,
            }
        }
        (text_of("role") == Some("assistant")).then_some(composer)
    }

    /// The `CreateMessageResult` it stands for, or why it is none yet.
    pub fn result(&self) -> Result<Value, String> {
        if self.text.is_empty() && self.tool_uses.is_empty() {
            return Err("/content: write an answer first".to_owned());
        }
        Ok(self.compose())
    }

    fn compose(&self) -> Value {
        let text = json!({"type": "text", "text": self.text.lines().join("\n")});
        let uses = self.tool_uses.iter().enumerate().map(|(number, (name, input))| {
            let id = format!("call_{}", number + 1);
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        });
        // A single text goes out bare: every version of the specification reads that.
        let content = if self.tool_uses.is_empty() {
            text
        } else {
            let text = (!self.text.is_empty()).then_some(text);
            text.into_iter().chain(uses).collect()
        };
        json!({"role": "assistant", "content": content, "model": self.model.text().trim(),
            "stopReason": self.stop.text().trim()})
    }
}

/// What was typed as JSON.
pub(super) fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

/// A whole `CreateMessageResult` typed as JSON, or everything that keeps it from being one.
pub(super) fn parsed_result(text: &str) -> Result<Value, String> {
    let value = parsed(text)?;
    let object = value.as_object().ok_or("expected an object")?;
    let has = |key: &str, fits: fn(&Value) -> bool| object.get(key).is_some_and(fits);
    let problems = [
        (has("role", Value::is_string), "/role: expected \"assistant\" or \"user\""),
        (has("model", Value::is_string), "/model: expected the name of a model"),
        (
            has("content", |content| content.is_object() || content.is_array()),
            "/content: expected a content block or a list",
        ),
    ];
    let problems = problems.into_iter().filter_map(|(fits, problem)| (!fits).then_some(problem));
    match problems.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => Ok(value),
        problems => Err(problems),
    }
}

/// Largest request that is edited on the screen, in bytes.
const EDITED: usize = 256 << 10;

impl AnswerScreen {
    /// Whether the person wrote something that would be lost.
    pub fn is_written(&self) -> bool {
        match &self.draft {
            Draft::Form(form) => form.is_touched(),
            _ => self.has_draft(),
        }
    }

    /// Whether there is anything to keep for copying.
    pub fn has_draft(&self) -> bool {
        let written = match &self.draft {
            Draft::Text(composer) => {
                let Composer { text, tool_uses, tool, .. } = &**composer;
                let is_blank = text.lines().iter().all(|line| line.trim().is_empty());
                !is_blank || !tool_uses.is_empty() || tool.is_some()
            }
            Draft::Raw(text) => text.lines().concat().chars().any(char::is_alphanumeric),
            Draft::Form(form) => form.value().is_some() || form.has_drafts(),
            Draft::Consent => false,
        };
        written || !self.reason.text().is_empty()
    }

    /// Tools that the request offers to the model.
    pub fn tools(&self) -> &[Value] {
        self.params.get("tools").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Begins a call of one of these.
    pub fn begin_tool(&mut self, index: usize) {
        let Some(tool) = self.tools().get(index) else { return };
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let schema = tool.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}));
        let Draft::Text(composer) = &mut self.draft else { return };
        let form = FormState::new(&Arc::new(schema), Defaults::All);
        composer.tool = Some(ToolForm { name, form });
        self.part = Part::Tool;
        self.notice = None;
    }

    /// Takes the tool call that was filled in into the answer.
    pub(super) fn finish_tool(&mut self) {
        if self.waits_for_check(Awaits::Tool) {
            return;
        }
        let Draft::Text(composer) = &mut self.draft else { return };
        let Some(tool) = &mut composer.tool else { return };
        let count = wrong(&tool.form);
        if count > 0 {
            tool.form.go_to_gravest();
            self.say(&format!("{count} invalid fields"));
            return;
        }
        composer.tool_uses.push((tool.name.clone(), tool.form.arguments()));
        composer.tool = None;
        composer.stop.set("toolUse");
        self.part = Part::Answer;
    }

    pub(super) fn remove_tool(&mut self) {
        let Draft::Text(composer) = &mut self.draft else { return };
        let removed = composer.tool_uses.pop();
        if composer.tool_uses.is_empty() && composer.stop.text() == "toolUse" {
            composer.stop.set(STOP_REASONS[0]);
        }
        match removed {
            Some((name, _)) => self.say(&format!("the call of {name} was removed")),
            None => self.say("there is no tool call in the answer"),
        };
    }

    pub(super) fn next_stop_reason(&mut self) {
        let Draft::Text(composer) = &mut self.draft else { return };
        let at = STOP_REASONS.iter().position(|reason| *reason == composer.stop.text().trim());
        composer.stop.set(STOP_REASONS[at.map_or(0, |at| (at + 1) % STOP_REASONS.len())]);
    }

    pub(super) fn toggle_raw(&mut self) {
        self.draft = match std::mem::replace(&mut self.draft, Draft::Consent) {
            Draft::Text(composer) => {
                self.kept = composer.compose();
                Draft::Raw(Box::new(area(&pretty(&self.kept))))
            }
            Draft::Raw(_) if matches!(self.says, Says::Sampling(_)) => {
                Draft::Text(Box::new(Composer::of(&self.kept).unwrap_or_default()))
            }
            Draft::Form(mut form) => {
                form.apply(Action::Json);
                Draft::Form(form)
            }
            other => other,
        };
        if !matches!(self.draft, Draft::Consent) {
            self.part = Part::Answer;
        }
    }

    /// Begins to edit the request, or takes the edits: what is read here, and what a model that
    /// drafts is given. The server's request itself stays as it is.
    pub(super) fn edit_request(&mut self) {
        let Some(editing) = &self.editing else {
            if !matches!(self.says, Says::Sampling(_)) {
                self.say("only a request for a completion can be edited");
            } else if self.request.bytes > EDITED {
                self.say("the request is too large to be edited here");
            } else {
                self.editing = Some(Box::new(area(&pretty(&*self.params))));
                self.part = Part::Request;
            }
            return;
        };
        match parsed(&editing.lines().join("\n")) {
            Err(reason) => _ = self.say(&reason),
            Ok(params) => {
                let same = params == *self.request.params;
                let theirs = Arc::clone(&self.request.params);
                self.params = if same { theirs } else { Arc::new(params) };
                self.says = read(&self.request.kind, &self.params).0;
                (self.doc, self.top) = (Doc::default(), 0);
                self.editing = None;
                self.part = Part::Answer;
            }
        }
    }

    /// Puts a result into the draft, for the person to read and change: a kept answer, or what a
    /// model drafted.
    pub fn take_result(&mut self, result: &Value) {
        match (&mut self.draft, &self.says) {
            (Draft::Text(_) | Draft::Raw(_), Says::Sampling(_)) => {
                self.draft = match Composer::of(result) {
                    Some(mut composer) => {
                        // It may say what a server said: nothing goes out unseen.
                        composer.text = area(&SafeText::block(&composer.text.lines().join("\n")));
                        Draft::Text(Box::new(composer))
                    }
                    None => Draft::Raw(Box::new(area(&pretty(result)))),
                };
            }
            (Draft::Form(form), _) => form.set_value(Some(content(result).clone())),
            (Draft::Raw(text), _) => **text = area(&pretty(content(result))),
            (Draft::Text(_) | Draft::Consent, _) => return,
        }
        self.part = Part::Answer;
        self.notice = None;
    }

    /// The registered model has drafted, or could not.
    pub fn drafted(&mut self, drafted: Result<(SafeText, Value), SafeText>) {
        if self.drafting != Drafting::Asked {
            return;
        }
        match drafted {
            Ok((by, result)) => {
                self.take_result(&result);
                self.drafting = Drafting::By(by);
            }
            Err(reason) => {
                self.drafting = Drafting::No;
                self.notice = Some(reason);
            }
        }
    }

    /// Everything that can be taken into the draft.
    pub fn offers(&self, answers: &Answers, entry: Option<&ApprovalRules>) -> Vec<Offer> {
        let server = self.request.server.as_str();
        let mut offers = kept(server, &self.request.kind, answers, entry);
        let built_in =
            |name: &str, result| Offer { name: name.to_owned(), origin: "built in", result };
        let completion = |text: &str, stop: &str| {
            json!({"role": "assistant", "model": "manual", "stopReason": stop,
                "content": {"type": "text", "text": text}})
        };
        match (&self.says, &self.draft) {
            (Says::Sampling(_), _) => {
                if let Some(text) = last_text(&self.params) {
                    let result = completion(text, "endTurn");
                    offers.push(built_in("the last message, repeated", result));
                }
                offers.push(built_in("OK", completion("OK", "endTurn")));
                let cut = completion("I was about to say", "maxTokens");
                offers.push(built_in("an answer cut off by the token limit", cut));
            }
            (Says::Elicitation(_), Draft::Form(form)) => {
                let conj = [form.document.root.clone()];
                if let Some(content) = seed(&form.document, &conj, Defaults::All) {
                    let result = json!({"action": "accept", "content": content});
                    offers.push(built_in("the defaults of the form", result));
                }
            }
            _ => {}
        }
        offers
    }
}

/// The content of an accepted form, or a draft of it without that frame.
fn content(result: &Value) -> &Value {
    let framed = result.get("action").is_some_and(Value::is_string);
    result.get("content").filter(|_| framed).unwrap_or(result)
}

/// An answer that lies ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub origin: &'static str,
    /// The result.
    pub result: Value,
}

/// Kept answers, then the entry's, for one kind of request of one server.
pub fn kept(
    server: &str,
    kind: &RequestKind,
    answers: &Answers,
    entry: Option<&ApprovalRules>,
) -> Vec<Offer> {
    let mut offers = Vec::new();
    if let Some(asked) = AskedKind::of(kind) {
        for (n, answer) in answers.answers.iter().enumerate() {
            let name = answer.name.clone().unwrap_or_else(|| format!("answer {}", n + 1));
            if let (true, Ok(result)) = (answer.suits(server, asked), answer.reply.result()) {
                offers.push(Offer { name, origin: "kept", result });
            }
        }
    }
    let rule = entry.zip(RuleKind::of(kind)).map(|(rules, kind)| match kind {
        RuleKind::Sampling => &rules.sampling,
        RuleKind::Elicitation => &rules.elicitation,
    });
    if let Some(ApprovalRule::Canned(result)) = rule {
        let name = "the canned answer of the entry".to_owned();
        offers.push(Offer { name, origin: "mcp.json", result: result.clone() });
    }
    offers
}

#[cfg(test)]
mod completion_tests {
    use super::*;

    #[test]
    fn a_draft_becomes_the_result_of_the_specification() {
        let mut draft = Composer { text: area("Hi!"), ..Composer::default() };
        assert_eq!(
            draft.result(),
            Ok(json!({"role": "assistant", "content": {"type": "text", "text": "Hi!"},
                "model": "manual", "stopReason": "endTurn"}))
        );
        draft.tool_uses.push(("add".into(), json!({"a": 1})));
        let result = draft.result().expect("complete");
        assert_eq!(result["content"][1]["name"], "add");
    }

    #[test]
    fn an_empty_or_broken_draft_names_every_problem() {
        assert!(Composer::default().result().is_err());
        let problems = |text: &str| parsed_result(text).expect_err("broken");
        assert_eq!(problems("{}").split("; ").count(), 3);
        assert!(problems("{").starts_with("not JSON: "));
        assert_eq!(problems("[]"), "expected an object");
    }

    #[test]
    fn a_result_becomes_the_draft_that_says_the_same_or_none() {
        let mut draft = Composer { text: area("Hi"), ..Composer::default() };
        draft.model.set("m");
        draft.stop.set("toolUse");
        draft.tool_uses.push(("add".into(), json!({"a": 1})));
        let result = draft.result().expect("complete");
        let again = Composer::of(&result).expect("the same");
        assert_eq!((again.model.text(), again.stop.text()), ("m", "toolUse"));
        assert_eq!((again.text.lines(), &again.tool_uses), (draft.text.lines(), &draft.tool_uses));
        assert_eq!(again.result(), Ok(result));
        let image = json!({"role": "assistant", "model": "m",
            "content": {"type": "image", "data": "", "mimeType": "image/png"}});
        assert!(Composer::of(&image).is_none());
    }
}
