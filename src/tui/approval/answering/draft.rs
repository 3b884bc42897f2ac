//! The answer being made: text with its fields and tool calls, JSON, a form, a yes or no.

use std::sync::Arc;

use ratatui_textarea::{CursorMove, TextArea};
use serde_json::{Map, Value, json};

use crate::base::text::SafeText;
use crate::config::{ApprovalRule, ApprovalRules};
use crate::deck::answers::{Answers, AskedKind};
use crate::error::Violation;
use crate::host::approvals::RuleKind;
use crate::mcp::RequestKind;
use crate::tui::action::Action;
use crate::tui::approval::answering::answer::{Awaits, wrong};
use crate::tui::approval::answering::{AnswerScreen, Drafting, Part, Says, read};
use crate::tui::form::FormState;
use crate::tui::form::seed::Defaults;
use crate::tui::widget::TextInput;

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

/// A sampling answer being written.
pub struct Composer {
    /// Its text.
    pub text: TextArea<'static>,
    /// Name of the model.
    pub model: TextInput,
    /// Stop reason.
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
        Self::new(&SamplingDraft::default())
    }
}

impl Composer {
    /// A composer that holds a draft.
    pub fn new(draft: &SamplingDraft) -> Self {
        Self {
            text: area(&draft.text),
            model: TextInput::new(&draft.model),
            stop: TextInput::new(&draft.stop_reason),
            tool_uses: draft.tool_uses.clone(),
            tool: None,
        }
    }

    /// What is written so far.
    pub fn draft(&self) -> SamplingDraft {
        SamplingDraft {
            text: self.text.lines().join("\n"),
            model: self.model.text().trim().to_owned(),
            stop_reason: self.stop.text().trim().to_owned(),
            tool_uses: self.tool_uses.clone(),
            raw: None,
        }
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
                let SamplingDraft { text, tool_uses, .. } = composer.draft();
                !text.trim().is_empty() || !tool_uses.is_empty() || composer.tool.is_some()
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
            self.notice = Some(SafeText::line(&format!("{count} invalid fields")));
            return;
        }
        let (name, input) = (tool.name.clone(), tool.form.arguments());
        composer.tool = None;
        composer.tool_uses.push((name, input));
        composer.stop.set("toolUse");
        self.part = Part::Answer;
    }

    pub(super) fn remove_tool(&mut self) {
        let Draft::Text(composer) = &mut self.draft else { return };
        let removed = composer.tool_uses.pop();
        if composer.tool_uses.is_empty() && composer.stop.text() == "toolUse" {
            composer.stop.set(STOP_REASONS[0]);
        }
        self.notice = Some(match removed {
            Some((name, _)) => SafeText::line(&format!("the call of {name} was removed")),
            None => SafeText::line("there is no tool call in the answer"),
        });
    }

    pub(super) fn next_stop_reason(&mut self) {
        let Draft::Text(composer) = &mut self.draft else { return };
        let mut draft = composer.draft();
        draft.next_stop_reason();
        composer.stop.set(&draft.stop_reason);
    }

    pub(super) fn toggle_raw(&mut self) {
        self.draft = match std::mem::replace(&mut self.draft, Draft::Consent) {
            Draft::Text(composer) => {
                let mut draft = composer.draft();
                self.kept = draft.clone();
                draft.edit_raw();
                Draft::Raw(Box::new(area(draft.raw.as_deref().unwrap_or_default())))
            }
            Draft::Raw(_) if matches!(self.says, Says::Sampling(_)) => {
                Draft::Text(Box::new(Composer::new(&self.kept)))
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
        let say = |text: &str| Some(SafeText::line(text));
        let Some(editing) = &self.editing else {
            if !matches!(self.says, Says::Sampling(_)) {
                self.notice = say("only a request for a completion can be edited");
                return;
            }
            if self.request.bytes > EDITED {
                self.notice = say("the request is too large to be edited here");
                return;
            }
            let text = pretty(&self.params);
            self.editing = Some(Box::new(area(&text)));
            self.part = Part::Request;
            return;
        };
        match serde_json::from_str::<Value>(&editing.lines().join("\n")) {
            Err(error) => self.notice = say(&format!("not JSON: {error}")),
            Ok(params) => {
                let same = params == *self.request.params;
                let theirs = Arc::clone(&self.request.params);
                self.params = if same { theirs } else { Arc::new(params) };
                self.says = read(&self.request.kind, &self.params).0;
                (self.doc, self.top) = (crate::tui::widget::Doc::default(), 0);
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
                self.draft = match SamplingDraft::of(result) {
                    Some(mut draft) => {
                        // It may say what a server said: nothing goes out unseen.
                        draft.text = SafeText::block(&draft.text).to_string();
                        Draft::Text(Box::new(Composer::new(&draft)))
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
                if let Some(text) = self.last_message() {
                    let result = completion(text, "endTurn");
                    offers.push(built_in("the last message, repeated", result));
                }
                offers.push(built_in("OK", completion("OK", "endTurn")));
                let cut = completion("I was about to say", "maxTokens");
                offers.push(built_in("an answer cut off by the token limit", cut));
            }
            (Says::Elicitation(_), Draft::Form(form)) => {
                use crate::tui::form::seed::{Defaults, seed};
                let conj = [form.document().root.clone()];
                if let Some(content) = seed(form.document(), &conj, Defaults::All) {
                    let result = json!({"action": "accept", "content": content});
                    offers.push(built_in("the defaults of the form", result));
                }
            }
            _ => {}
        }
        offers
    }

    fn last_message(&self) -> Option<&str> {
        let content = self.params.get("messages")?.as_array()?.last()?.get("content")?;
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        blocks.iter().rev().find_map(|block| block.get("text")?.as_str())
    }
}

/// The content of an accepted form, or a draft of it without that frame.
fn content(result: &Value) -> &Value {
    let framed = result.get("action").is_some_and(Value::is_string);
    result.get("content").filter(|_| framed).unwrap_or(result)
}

/// Indented JSON; characters an eye would not see are `\u` escapes.
pub(super) fn pretty(value: &Value) -> String {
    crate::base::text::json::pretty(value)
}

/// Text to go on with: the cursor stands behind it.
pub(super) fn area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
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

// The answer to a sampling request as a person writes it (MCP 2025-11-25, client features,
// sampling, `CreateMessageResult`). Pure: values in, values out.

/// Stop reasons of the specification, in the order in which a key steps through them.
pub const STOP_REASONS: &[&str] = &["endTurn", "stopSequence", "maxTokens", "toolUse"];

/// The answer a person is writing.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingDraft {
    /// Text of the assistant's message.
    pub text: String,
    /// Name of the "model"; `manual` unless changed.
    pub model: String,
    /// Stop reason, one of [`STOP_REASONS`] or the person's own.
    pub stop_reason: String,
    /// Tool calls to answer with: name and input.
    pub tool_uses: Vec<(String, Value)>,
    /// The whole result as JSON text, when the person edits that instead.
    pub raw: Option<String>,
}

impl Default for SamplingDraft {
    fn default() -> Self {
        Self {
            text: String::new(),
            model: "manual".to_owned(),
            stop_reason: STOP_REASONS[0].to_owned(),
            tool_uses: Vec::new(),
            raw: None,
        }
    }
}

impl SamplingDraft {
    /// The draft that says the same as a result, when one can: text and tool calls, nothing else.
    pub fn of(result: &Value) -> Option<Self> {
        let text_of = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
        let content = result.get("content")?;
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        let mut draft = Self { text: String::new(), ..Self::default() };
        draft.model = text_of("model").unwrap_or(draft.model);
        draft.stop_reason = text_of("stopReason").unwrap_or(draft.stop_reason);
        for block in blocks {
            let field = |key: &str| block.get(key).and_then(Value::as_str);
            match field("type")? {
                "text" if draft.text.is_empty() => field("text")?.clone_into(&mut draft.text),
                "tool_use" => {
                    let input = block.get("input").cloned().unwrap_or_else(|| json!({}));
                    draft.tool_uses.push((field("name")?.to_owned(), input));
                }
                _ => return None,
            }
        }
        let role = result.get("role").and_then(Value::as_str);
        (role == Some("assistant")).then_some(draft)
    }

    /// The `CreateMessageResult` this draft stands for.
    ///
    /// # Errors
    /// Every reason why the draft is no such result, with the pointer into the raw JSON.
    pub fn result(&self) -> Result<Value, Vec<Violation>> {
        match &self.raw {
            Some(raw) => parse_raw(raw),
            None if self.text.is_empty() && self.tool_uses.is_empty() => {
                Err(vec![violation("/content", "write an answer first", "required")])
            }
            None => Ok(self.compose()),
        }
    }

    /// Changes to editing the result as JSON, starting from what is written so far.
    pub fn edit_raw(&mut self) {
        if self.raw.is_none() {
            self.raw = Some(crate::base::text::json::pretty(&self.compose()));
        }
    }

    /// Steps to the next stop reason of the specification.
    pub fn next_stop_reason(&mut self) {
        let at = STOP_REASONS.iter().position(|r| *r == self.stop_reason);
        let next = at.map_or(0, |at| (at + 1) % STOP_REASONS.len());
        STOP_REASONS[next].clone_into(&mut self.stop_reason);
    }

    fn compose(&self) -> Value {
        let text = json!({"type": "text", "text": self.text});
        let mut blocks: Vec<Value> = Vec::new();
        if !self.text.is_empty() || self.tool_uses.is_empty() {
            blocks.push(text);
        }
        for (number, (name, input)) in self.tool_uses.iter().enumerate() {
            let id = format!("call_{}", number + 1);
            blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
        }
        // A single block goes out bare: every version of the specification reads that.
        let content = if blocks.len() == 1 && self.tool_uses.is_empty() {
            blocks.remove(0)
        } else {
            Value::Array(blocks)
        };
        let mut result = Map::new();
        result.insert("role".into(), "assistant".into());
        result.insert("content".into(), content);
        result.insert("model".into(), self.model.clone().into());
        result.insert("stopReason".into(), self.stop_reason.clone().into());
        Value::Object(result)
    }
}

fn parse_raw(raw: &str) -> Result<Value, Vec<Violation>> {
    let value: Value = serde_json::from_str(raw)
        .map_err(|error| vec![violation("", &format!("not JSON: {error}"), "json")])?;
    let mut problems = Vec::new();
    let Some(object) = value.as_object() else {
        return Err(vec![violation("", "expected an object", "type")]);
    };
    if !object.get("role").is_some_and(Value::is_string) {
        problems.push(violation("/role", "expected \"assistant\" or \"user\"", "required"));
    }
    if !object.get("model").is_some_and(Value::is_string) {
        problems.push(violation("/model", "expected the name of a model", "required"));
    }
    if !object.get("content").is_some_and(|c| c.is_object() || c.is_array()) {
        problems.push(violation("/content", "expected a content block or a list", "required"));
    }
    if problems.is_empty() { Ok(value) } else { Err(problems) }
}

fn violation(pointer: &str, message: &str, keyword: &str) -> Violation {
    Violation {
        pointer: pointer.to_owned(),
        message: message.to_owned(),
        keyword: keyword.to_owned(),
    }
}

#[cfg(test)]
mod completion_tests {
    use super::*;

    #[test]
    fn a_draft_becomes_the_result_of_the_specification() {
        let mut draft = SamplingDraft { text: "Hi!".into(), ..SamplingDraft::default() };
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
        assert!(SamplingDraft::default().result().is_err());
        let raw = |text: &str| SamplingDraft { raw: Some(text.into()), ..SamplingDraft::default() };
        assert_eq!(raw("{}").result().expect_err("nothing in it").len(), 3);
        assert_eq!(raw("{").result().expect_err("broken")[0].keyword, "json");
        assert_eq!(raw("[]").result().expect_err("a list")[0].keyword, "type");
    }

    #[test]
    fn editing_as_json_starts_from_what_was_written() {
        let mut draft = SamplingDraft { text: "Hi!".into(), ..SamplingDraft::default() };
        let before = draft.result();
        draft.edit_raw();
        assert_eq!(draft.result(), before);
        draft.next_stop_reason();
        assert_eq!(draft.stop_reason, "stopSequence");
    }

    #[test]
    fn a_result_becomes_the_draft_that_says_the_same_or_none() {
        let mut draft =
            SamplingDraft { text: "Hi".into(), model: "m".into(), ..Default::default() };
        draft.tool_uses.push(("add".into(), json!({"a": 1})));
        draft.stop_reason = "toolUse".into();
        let result = draft.result().expect("complete");
        assert_eq!(SamplingDraft::of(&result), Some(draft));
        let image = json!({"role": "assistant", "model": "m",
            "content": {"type": "image", "data": "", "mimeType": "image/png"}});
        assert_eq!(SamplingDraft::of(&image), None);
    }
}
