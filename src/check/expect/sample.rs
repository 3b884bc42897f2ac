//! Sample calls: what to call, and whether the result is what was expected. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::check::Finding;
use crate::check::rule::finding;
use crate::check::subject::brief;
use crate::host::validate::{Validator, Verdict};

/// A call to make: of a tool, a prompt or a resource, or one that is saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["tool"]}, {"required": ["prompt"]}, {"required": ["resource"]}, {"required": ["saved"]},
]))]
pub struct SampleCall {
    /// The tool to call, as its server spells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub tool: Option<String>,
    /// The prompt to get.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub prompt: Option<String>,
    /// The URI to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub resource: Option<String>,
    /// The name of a call in `mcp.calls.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub saved: Option<String>,
    /// Its arguments; those of a saved call are replaced key by key.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// What it must give.
    pub expect: ResultExpectation,
}

impl SampleCall {
    /// Whether it says once what it goes to.
    ///
    /// # Errors
    /// Says what is missing or too much.
    pub fn is_one(&self) -> Result<(), &'static str> {
        let said = [&self.tool, &self.prompt, &self.resource, &self.saved];
        match said.iter().filter(|target| target.is_some()).count() {
            1 => Ok(()),
            _ => Err("write exactly one of `tool`, `prompt`, `resource` and `saved`"),
        }
    }
}

/// What a call goes to, on its own server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `tools/call`
    Tool(String),
    /// `prompts/get`
    Prompt(String),
    /// `resources/read`
    Resource(String),
}

impl Target {
    /// Its name or URI.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(name) | Self::Prompt(name) | Self::Resource(name) => name,
        }
    }

    /// Where it stands: `tools/NAME`, safe to print.
    pub fn place(&self) -> String {
        let list = match self {
            Self::Tool(_) => "tools",
            Self::Prompt(_) => "prompts",
            Self::Resource(_) => "resources",
        };
        format!("{list}/{}", brief(self.name(), 80))
    }
}

/// What a result must be. Everything left out is free.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ResultExpectation {
    /// Whether the tool must say that it failed [default: false].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// A value the result must contain: every key and element named here must be there, others may
    /// be. Compared with `structuredContent`, or with the text when that is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// A JSON Schema for the same value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// A regular expression that the text of the result must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Longest time the call may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
}

/// The parts of an expectation that are compiled once.
pub struct Compiled {
    text: Option<regex::Regex>,
    schema: Option<Validator>,
}

impl ResultExpectation {
    /// Compiles pattern and schema.
    ///
    /// # Errors
    /// Says which of them is wrong.
    pub fn compile(&self) -> Result<Compiled, String> {
        let text = self.text.as_deref().map(regex::Regex::new).transpose();
        let schema = self.schema.as_ref().map(Validator::compile).transpose();
        Ok(Compiled {
            text: text.map_err(|e| format!("expect.text: {e}"))?,
            schema: schema.map_err(|e| format!("expect.schema: {e}"))?,
        })
    }

    /// Compares a result that came after `took`.
    pub fn judge(&self, target: &Target, result: &Value, took: Duration) -> Vec<Finding> {
        let mut wrong: Vec<String> = Vec::new();
        let failed = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
        let text = text_of(result);
        if failed != self.is_error.unwrap_or(false) {
            wrong.push(if failed {
                format!("the tool failed: {}", brief(&text, 200))
            } else {
                "the tool succeeded, expected it to fail".to_owned()
            });
        }
        match self.compile() {
            Ok(compiled) => self.judge_content(&compiled, result, &text, &mut wrong),
            Err(error) => wrong.push(error),
        }
        if let Some(most) = self.max_duration_ms
            && took > Duration::from_millis(most)
        {
            wrong.push(format!("took longer than {most} ms"));
        }
        wrong.into_iter().map(|message| sample(target, message)).collect()
    }

    fn judge_content(
        &self,
        compiled: &Compiled,
        result: &Value,
        text: &str,
        wrong: &mut Vec<String>,
    ) {
        if let Some(pattern) = compiled.text.as_ref().filter(|p| !p.is_match(text)) {
            wrong.push(format!("the text does not match /{pattern}/: {}", brief(text, 200)));
        }
        if self.json.is_none() && compiled.schema.is_none() {
            return;
        }
        let structured = result.get("structuredContent").filter(|v| !v.is_null()).cloned();
        let Some(value) = structured.or_else(|| serde_json::from_str(text).ok()) else {
            wrong.push("has neither structured content nor text that is JSON".to_owned());
            return;
        };
        if let Some(json) = &self.json
            && let Some((pointer, message)) = lacks(&value, json, &mut String::new())
        {
            let at = if pointer.is_empty() { "/" } else { &pointer };
            wrong.push(format!("{}: {message}", brief(at, 120)));
        }
        match compiled.schema.as_ref().map(|schema| schema.check(&value)) {
            Some(Verdict::Invalid(all)) => wrong.extend(all.iter().take(3).map(|violation| {
                let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
                format!("{}: {}", brief(at, 120), brief(&violation.message, 200))
            })),
            Some(Verdict::Unknown(why)) => wrong.push(format!("could not be validated: {why}")),
            Some(Verdict::Valid) | None => {}
        }
    }
}

/// A finding about a sample call.
pub fn sample(target: &Target, message: String) -> Finding {
    finding("expect/sample", target.place(), message)
}

/// The texts of a result, of a prompt's messages or of a resource, joined by line breaks.
pub fn text_of(result: &Value) -> String {
    let list = |key: &str| result.get(key).and_then(Value::as_array).into_iter().flatten();
    let messages = list("messages").filter_map(|message| message.get("content"));
    let blocks = list("content").chain(messages).chain(list("contents"));
    let text = |block: &'_ Value| {
        let inner = block.pointer("/resource/text").or_else(|| block.get("text"));
        inner.and_then(Value::as_str).map(str::to_owned)
    };
    blocks.filter_map(text).collect::<Vec<_>>().join("\n")
}

/// Where `value` lacks something of `subset`: pointer and message.
///
/// Objects must have every key; arrays must begin with the elements; the rest must be equal, numbers
/// by value.
fn lacks(value: &Value, subset: &Value, pointer: &mut String) -> Option<(String, String)> {
    let length = pointer.len();
    match (value, subset) {
        (Value::Object(have), Value::Object(want)) => want.iter().find_map(|(key, wanted)| {
            pointer.push('/');
            pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            let found = match have.get(key) {
                Some(value) => lacks(value, wanted, pointer),
                None => Some((pointer.clone(), "is missing".to_owned())),
            };
            pointer.truncate(length);
            found
        }),
        (Value::Array(have), Value::Array(want)) => {
            want.iter().enumerate().find_map(|(index, wanted)| {
                let _ = write!(pointer, "/{index}");
                let found = match have.get(index) {
                    Some(value) => lacks(value, wanted, pointer),
                    None => Some((pointer.clone(), "is missing".to_owned())),
                };
                pointer.truncate(length);
                found
            })
        }
        (Value::Number(have), Value::Number(want)) if have.as_f64() == want.as_f64() => None,
        (have, want) if have == want => None,
        (have, want) => Some((
            pointer.clone(),
            format!(
                "is {}, expected {}",
                brief(&have.to_string(), 80),
                brief(&want.to_string(), 80)
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judge(expect: Value, result: Value) -> Vec<String> {
        let expect: ResultExpectation = serde_json::from_value(expect).expect("an expectation");
        let took = Duration::from_millis(20);
        expect
            .judge(&Target::Tool("t".into()), &result, took)
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_subset_a_schema_a_pattern_the_error_flag_and_the_time_are_compared() {
        let result =
            json!({"content": [{"type": "text", "text": "{\"a\": {\"b\": 1, \"c\": [1, 2]}}"}]});
        assert_eq!(judge(json!({}), result.clone()), [""; 0]);
        assert_eq!(judge(json!({"json": {"a": {"b": 1.0, "c": [1]}}}), result.clone()), [""; 0]);
        assert_eq!(
            judge(json!({"json": {"a": {"b": 2}}}), result.clone()),
            ["/a/b: is 1, expected 2"]
        );
        assert_eq!(
            judge(json!({"json": {"a": {"c": [1, 2, 3]}}}), result.clone()),
            ["/a/c/2: is missing"]
        );
        assert_eq!(judge(json!({"schema": {"required": ["z"]}}), result.clone()).len(), 1);
        assert_eq!(judge(json!({"text": "^\\{.*\\}$"}), result.clone()), [""; 0]);
        assert_eq!(judge(json!({"text": "nothing"}), result.clone()).len(), 1);
        assert_eq!(judge(json!({"maxDurationMs": 10}), result.clone()), ["took longer than 10 ms"]);
        assert_eq!(judge(json!({"isError": true}), result).len(), 1);
        let failed = json!({"isError": true, "content": [{"type": "text", "text": "no"}]});
        assert_eq!(judge(json!({}), failed.clone()), ["the tool failed: no"]);
        assert_eq!(judge(json!({"isError": true, "text": "no"}), failed), [""; 0]);
    }

    #[test]
    fn structured_content_is_preferred_to_text() {
        let result =
            json!({"content": [{"type": "text", "text": "7"}], "structuredContent": {"n": 1}});
        assert_eq!(judge(json!({"json": {"n": 1}}), result), [""; 0]);
        let plain = json!({"content": [{"type": "text", "text": "no json"}]});
        assert_eq!(judge(json!({"json": {}}), plain).len(), 1);
    }
}
