//! A model that plays a script: known questions lead to calls and to answers that were written
//! beforehand, with the results in their places. It says so. Needs no network; anything else is left to
//! the embedded model.

use serde::Deserialize;
use serde_json::Value;

use crate::embedded;
use crate::llm::{
    ChatMessage, LanguageModel, ModelPrompt, ModelReply, OnDelta, PendingReply, ToolCall, call_id,
};
use crate::prompt::inner;

/// A model that plays a script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scripted {
    /// What stands below every answer: that it is scripted.
    about: String,
    /// What stands above the list of questions, where another one was asked.
    otherwise: String,
    questions: Vec<ScriptedQuestion>,
}

/// A question, and what follows from it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedQuestion {
    ask: String,
    /// A question with all these words, in lower case, means it too.
    words: Vec<String>,
    /// One after the other; the last one makes no calls.
    steps: Vec<ScriptedStep>,
}

/// One answer of the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedStep {
    /// The text. `${0}` is the first result of the turn, `${0.a.b}` a value in it.
    say: String,
    #[serde(default)]
    calls: Vec<ScriptedCall>,
    /// What is done instead when a call of the step before failed.
    #[serde(default)]
    failed: Option<Box<Self>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    tool: String,
    /// Its arguments; places are filled in as in the text.
    arguments: Value,
}

/// The results of a turn so far.
struct ScriptedResult<'a> {
    is_error: bool,
    text: &'a str,
}

impl Scripted {
    /// Reads a script.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(script: &str) -> Result<Self, String> {
        serde_json::from_str(script).map_err(|error| error.to_string())
    }

    fn answer(&self, prompt: &ModelPrompt) -> ModelReply {
        let is_user = |message: &ChatMessage| matches!(message, ChatMessage::User { .. });
        let at = prompt.messages.iter().rposition(is_user);
        let asked = at.and_then(|at| match &prompt.messages[at] {
            ChatMessage::User { text, .. } => Some(text.as_str()),
            ChatMessage::Assistant(_) | ChatMessage::Tool { .. } => None,
        });
        let (Some(at), Some(asked)) = (at, asked) else { return embedded::answer(prompt) };
        // Without tools, texts for servers are drafted.
        if prompt.tools.is_empty() {
            return embedded::answer(prompt);
        }
        match self.question(asked) {
            // What is written as a call is one, whatever its words are.
            _ if embedded::is_command(prompt, asked) => embedded::answer(prompt),
            Some(question) => self.play(question, &prompt.messages[at + 1..], prompt),
            None => {
                let list = self.questions.iter().enumerate();
                let list = list.map(|(n, question)| format!("{}. {}\n", n + 1, question.ask));
                let text = format!(
                    "{}\n\n{}\n`call NAME {{\"key\": \"value\"}}` calls any tool.",
                    self.otherwise,
                    list.collect::<String>()
                );
                ModelReply { text, ..ModelReply::default() }
            }
        }
    }

    /// The question that is meant: by its number, its text or its words.
    fn question(&self, asked: &str) -> Option<&ScriptedQuestion> {
        let plain = |text: &str| {
            let kept = text.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' });
            let kept: String = kept.collect::<String>().to_lowercase();
            kept.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let asked = plain(asked);
        if let [number] = asked.as_slice()
            && let Ok(number) = number.parse::<usize>()
        {
            return self.questions.get(number.checked_sub(1)?);
        }
        let is_meant = |question: &&ScriptedQuestion| {
            plain(&question.ask) == asked || question.words.iter().all(|word| asked.contains(word))
        };
        self.questions.iter().find(is_meant)
    }

    /// The next answer of a turn, of which these are the messages so far.
    fn play(
        &self,
        question: &ScriptedQuestion,
        turn: &[ChatMessage],
        prompt: &ModelPrompt,
    ) -> ModelReply {
        let mut results: Vec<ScriptedResult<'_>> = Vec::new();
        let mut steps = question.steps.iter();
        let mut step = steps.next();
        // What the calls of the step before came to leads to the next one, again at each answer.
        for round in
            turn.split_inclusive(|message| matches!(message, ChatMessage::Assistant(_))).skip(1)
        {
            let has_failed = add_results(&mut results, round);
            step = steps.next().map(|next| match &next.failed {
                Some(failed) if has_failed => &**failed,
                _ => next,
            });
        }
        let Some(step) = step else {
            return ModelReply { text: self.about.clone(), ..ModelReply::default() };
        };
        let mut text = filled(&step.say, &results);
        let mut calls = Vec::new();
        for call in &step.calls {
            if !prompt.tools.iter().any(|tool| tool.name == call.tool) {
                text = format!("The tool `{}` is not there: does its server run?", call.tool);
                calls.clear();
                break;
            }
            calls.push(ToolCall {
                id: call_id(),
                name: call.tool.clone(),
                arguments: filled_value(&call.arguments, &results),
                ..ToolCall::default()
            });
        }
        if calls.is_empty() {
            text = format!("{text}\n\n*{}*", self.about);
        }
        ModelReply { text, calls, ..ModelReply::default() }
    }
}

/// Adds the results in these messages; returns whether one of them failed.
fn add_results<'a>(results: &mut Vec<ScriptedResult<'a>>, round: &'a [ChatMessage]) -> bool {
    let before = results.len();
    results.extend(round.iter().filter_map(|message| match message {
        ChatMessage::Tool { text, is_error, .. } => {
            Some(ScriptedResult { is_error: *is_error, text: inner(text) })
        }
        ChatMessage::User { .. } | ChatMessage::Assistant(_) => None,
    }));
    results[before..].iter().any(|result| result.is_error)
}

/// A text with results in the places for them.
fn filled(text: &str, results: &[ScriptedResult<'_>]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((place, after)) = after.split_once('}') else { break };
        out.push_str(before);
        match at_place(place, results) {
            Some(Value::String(text)) => out.push_str(text.trim_end()),
            Some(value) => out.push_str(&value.to_string()),
            None => out.push('?'),
        }
        rest = after;
    }
    out + rest
}

/// A value with results in the places for them; text that is one place becomes what is there.
fn filled_value(value: &Value, results: &[ScriptedResult<'_>]) -> Value {
    match value {
        Value::String(text) => {
            let place = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
            let found = place.and_then(|place| at_place(place, results));
            found.unwrap_or_else(|| filled(text, results).into())
        }
        Value::Array(list) => list.iter().map(|item| filled_value(item, results)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, item)| (key.clone(), filled_value(item, results))).collect()
        }
        other => other.clone(),
    }
}

/// What stands at `N` or `N.key.key` of the results.
fn at_place(place: &str, results: &[ScriptedResult<'_>]) -> Option<Value> {
    let mut keys = place.split('.');
    let text = results.get(keys.next()?.parse::<usize>().ok()?)?.text;
    let mut keys = keys.peekable();
    if keys.peek().is_none() {
        return Some(text.into());
    }
    let whole: Value = serde_json::from_str(text).ok()?;
    let found = keys.try_fold(&whole, |value, key| match key.parse::<usize>() {
        Ok(index) if value.is_array() => value.get(index),
        _ => value.get(key),
    });
    found.cloned()
}

impl LanguageModel for Scripted {
    fn name(&self) -> &'static str {
        "script, no language model"
    }

    fn context(&self) -> u64 {
        32_000
    }

    fn suggestions(&self) -> Vec<String> {
        self.questions.iter().map(|question| question.ask.clone()).collect()
    }

    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, on: OnDelta<'a>) -> PendingReply<'a> {
        Box::pin(async move { Ok(embedded::spoken(self.answer(prompt), prompt, on).await) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::llm::ToolSpec;

    const SCRIPT: &str = r#"{
        "about": "Scripted.", "otherwise": "I know:",
        "questions": [{"ask": "How warm is it?", "words": ["warm"], "steps": [
            {"say": "I look. ", "calls": [{"tool": "a__read", "arguments": {"at": "hall"}}]},
            {"say": "Again. ", "calls": [{"tool": "a__read", "arguments": {"at": "${0.next}", "n": "${0.list.1}"}}],
             "failed": {"say": "It failed: ${0}"}},
            {"say": "${0.list.0} and ${1}, ${9}."}
        ]}]
    }"#;

    fn prompt(messages: Vec<ChatMessage>) -> ModelPrompt {
        let schema = Arc::new(json!({"type": "object"}));
        let tools =
            vec![ToolSpec { name: "a__read".to_owned(), description: String::new(), schema }];
        ModelPrompt { system: String::new(), messages, tools }
    }

    fn user(text: &str) -> ChatMessage {
        ChatMessage::user(text)
    }

    fn result(text: &str, is_error: bool) -> ChatMessage {
        let (id, name, text) = ("1".to_owned(), "a__read".to_owned(), crate::prompt::marked(text));
        ChatMessage::Tool { id, name, text, is_error, media: Vec::new(), given: 0 }
    }

    #[test]
    fn a_question_leads_from_call_to_call_and_results_stand_in_the_answer() {
        let script = Scripted::parse(SCRIPT).unwrap();
        for asked in ["How warm is it?", "how WARM is it", "is it warm today?", "1", "1."] {
            let mut messages = vec![user("before"), user(asked)];
            let first = script.answer(&prompt(messages.clone()));
            assert_eq!(first.calls[0].arguments, json!({"at": "hall"}), "{asked}");
            messages.push(ChatMessage::Assistant(first));
            messages.push(result(r#"{"next": "cellar", "list": ["21", 7]}"#, false));
            let second = script.answer(&prompt(messages.clone()));
            assert_eq!(second.calls[0].arguments, json!({"at": "cellar", "n": 7}), "{asked}");
            messages.push(ChatMessage::Assistant(second));
            messages.push(result("12 degrees", false));
            let last = script.answer(&prompt(messages));
            assert_eq!(last.text, "21 and 12 degrees, ?.\n\n*Scripted.*");
            assert!(last.calls.is_empty());
        }
    }

    #[test]
    fn a_failure_takes_the_other_way_and_other_questions_are_listed() {
        let script = Scripted::parse(SCRIPT).unwrap();
        let mut messages = vec![user("warm?")];
        messages.push(ChatMessage::Assistant(script.answer(&prompt(messages.clone()))));
        messages.push(result("refused", true));
        let last = script.answer(&prompt(messages));
        assert!(last.text.starts_with("It failed: refused") && last.calls.is_empty(), "{last:?}");
        let other = script.answer(&prompt(vec![user("Who are you?")]));
        assert!(other.text.contains("I know:") && other.text.contains("1. How warm is it?"));
        let command = script.answer(&prompt(vec![user("call a__read {\"warm\": 1}")]));
        assert_eq!(command.calls[0].arguments, json!({"warm": 1}));
        let mut gone = prompt(vec![user("1")]);
        gone.tools[0].name = "other".to_owned();
        assert!(script.answer(&gone).text.contains("`a__read` is not there"));
        assert!(Scripted::parse("{}").is_err());
    }
}
