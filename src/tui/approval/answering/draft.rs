//! The answer being made: text with its fields and tool calls, JSON, a form, a yes or no.

use ratatui_textarea::TextArea;
use serde_json::json;

use crate::config::{ApprovalRule, ApprovalRules};
use crate::deck::answers::{Answers, AskedKind};
use crate::host::Verdict;
use crate::host::approvals::RuleKind;
use crate::mcp::RequestKind;
use crate::tui::form::FormState;
use crate::tui::form::editor::area;
use crate::tui::prelude::*;
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

/// Problems that keep a form from being accepted. A schema that cannot be used is not the person's
/// fault: nothing could ever be answered.
pub(super) fn wrong(form: &FormState) -> usize {
    let unknown = matches!(form.verdict(), Verdict::Unknown(_));
    form.blocking().saturating_sub(usize::from(unknown))
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

    pub(super) fn compose(&self) -> Value {
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
