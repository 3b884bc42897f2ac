//! The answer being made: text with its fields and tool calls, JSON, a form, a yes or no.

use std::sync::Arc;

use ratatui_textarea::{CursorMove, TextArea};
use serde_json::{Value, json};

use super::answer::{Awaits, wrong};
use super::{AnswerScreen, Drafting, Part, Says, read};
use crate::base::text::SafeText;
use crate::config::{ApprovalRule, ApprovalRules};
use crate::deck::answers::{Answers, AskedKind};
use crate::host::approvals::RuleKind;
use crate::mcp::RequestKind;
use crate::tui::action::Action;
use crate::tui::approval::completion::{STOP_REASONS, SamplingDraft};
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
            Some((name, _)) => SafeText::line(&format!("the call of {name} is out")),
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

impl AnswerScreen {
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
                    offers.push(built_in("the last message, said back", result));
                }
                offers.push(built_in("OK", completion("OK", "endTurn")));
                let cut = completion("I was about to say", "maxTokens");
                offers.push(built_in("an answer cut off by the limit of tokens", cut));
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
