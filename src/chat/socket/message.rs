//! The messages of `/ws`: what clients send, in the two forms in which they write it, and the form
//! of what they are sent. Pure.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::session::ConsentAnswer;
use deck::AnswerReply;
use protocol::ApprovalId;

/// The subprotocol that asks for messages with a `payload`.
pub(super) const PAYLOAD_PROTOCOL: &str = "mcpdeck.payload";

/// How the fields of messages are written on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MessageForm {
    /// Beside `type`.
    #[default]
    Flat,
    /// Within `payload`.
    Payload,
}

/// A message from a client.
#[derive(Debug, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(super) enum ClientMessage {
    /// The token, unless it was sent as a header.
    Auth { token: String },
    /// A message of the user; replaces their message number `at`, if given.
    Message {
        text: String,
        #[serde(default)]
        at: Option<usize>,
        /// Files to send with it.
        #[serde(default)]
        files: Vec<AttachedFile>,
        /// Whether the files of the message that it replaces go with it too.
        #[serde(default)]
        keep_files: bool,
    },
    /// Resume a session after event `lastSeq`.
    Resume { session: String, last_seq: u64 },
    /// Answer a question about a call.
    Answer { id: ApprovalId, answer: ConsentAnswer },
    /// Answer what a server asks.
    Reply { id: ApprovalId, answer: AnswerReply },
    /// Abort the turn.
    Abort,
    /// Cancel one call.
    AbortTool { id: String },
    /// Request picture number `at` (from 0) of the result of a call.
    Picture {
        call: String,
        #[serde(default)]
        at: usize,
    },
    /// Request the system prompt and its costs.
    Prompt,
    /// Request a pong.
    Ping,
    /// Request the sessions that hold these words.
    Sessions {
        #[serde(default)]
        query: String,
    },
    /// Begin a new session.
    New,
    /// Give a session a name.
    Rename { session: String, title: String },
    /// Delete a session.
    Delete { session: String },
    /// Copy the session, up to the user's message number `at`, if given.
    Branch {
        #[serde(default)]
        at: Option<usize>,
    },
    /// End the cookie that the connection was opened with.
    SignOut,
}

impl ClientMessage {
    /// Whether it asks something of sessions, and nothing of the one that is open.
    pub(super) const fn is_about_sessions(&self) -> bool {
        match self {
            Self::Resume { .. }
            | Self::Sessions { .. }
            | Self::New
            | Self::Rename { .. }
            | Self::Delete { .. }
            | Self::Branch { .. }
            | Self::SignOut => true,
            Self::Auth { .. }
            | Self::Message { .. }
            | Self::Answer { .. }
            | Self::Reply { .. }
            | Self::Abort
            | Self::AbortTool { .. }
            | Self::Picture { .. }
            | Self::Prompt
            | Self::Ping => false,
        }
    }
}

/// A file that is sent with a message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AttachedFile {
    pub(super) name: String,
    /// Its text, unless it is a picture.
    #[serde(default)]
    pub(super) text: Option<String>,
    /// The picture in base64, and its type.
    #[serde(default)]
    pub(super) data: Option<String>,
    #[serde(default)]
    pub(super) mime_type: Option<String>,
}

/// The types of messages from clients.
pub(super) const CLIENT_TYPES: [&str; 16] = [
    "auth",
    "message",
    "resume",
    "answer",
    "reply",
    "abort",
    "abortTool",
    "picture",
    "prompt",
    "ping",
    "sessions",
    "new",
    "rename",
    "delete",
    "branch",
    "signOut",
];

/// Reads a message. The form is `None` for a message that has no fields.
///
/// # Errors
/// Says what is expected instead.
pub(super) fn parse(text: &str) -> (Option<MessageForm>, Result<ClientMessage, String>) {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return (None, Err(format!("the message is not JSON: {error}"))),
    };
    let Value::Object(mut fields) = value else {
        let why = "a message is an object with a `type`, such as {\"type\": \"ping\"}";
        return (None, Err(why.to_owned()));
    };
    let form = match (fields.contains_key("payload"), fields.len()) {
        (true, _) => Some(MessageForm::Payload),
        (false, 0 | 1) => None,
        (false, _) => Some(MessageForm::Flat),
    };
    (form, client_message(&mut fields))
}

fn client_message(fields: &mut Map<String, Value>) -> Result<ClientMessage, String> {
    let types = || CLIENT_TYPES.map(|name| format!("`{name}`")).join(", ");
    let kind = match fields.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(_) => return Err(format!("`type` is not text: one of {} is expected", types())),
        None => return Err(format!("`type` is missing: one of {} is expected", types())),
    };
    if !CLIENT_TYPES.contains(&kind.as_str()) {
        return Err(format!("the type `{kind}` is unknown: one of {} is expected", types()));
    }
    let mut read = std::mem::take(fields);
    match read.remove("payload") {
        None => {}
        Some(Value::Object(payload)) => {
            read.remove("type");
            if let Some(other) = read.keys().next() {
                return Err(format!("`{other}` stands beside `payload`: put it within"));
            }
            read = payload;
            if read.insert("type".to_owned(), json!(kind)).is_some() {
                return Err("`type` stands beside `payload`, not within".to_owned());
            }
        }
        Some(_) => return Err(format!("the `payload` of `{kind}` is not an object")),
    }
    serde_json::from_value(Value::Object(read)).map_err(|error| format!("`{kind}`: {error}"))
}

/// A message of the server with its fields within `payload`; `None` where the form has no message
/// for it because another one says the same.
pub(super) fn in_payload(message: Value) -> Option<Value> {
    let Value::Object(mut fields) = message else { return None };
    let kind = fields.remove("type").unwrap_or_default();
    let seq = fields.remove("seq");
    let (kind, payload) = match kind.as_str().unwrap_or_default() {
        "text" => ("text", json!({"content": fields.remove("text")})),
        "connection" => ("connection", connection(fields)),
        "status" => ("status", status(fields)?),
        "toolCall" => {
            let tool = fields.remove("name").unwrap_or_default();
            let message = format!("calls {}", tool.as_str().unwrap_or_default());
            ("status", state("processing", Some(tool), message, fields))
        }
        "toolResult" => {
            let tool = fields.remove("name").unwrap_or_default();
            let how = if fields["isError"] == true { "failed" } else { "answered" };
            let message = format!("{} {how}", tool.as_str().unwrap_or_default());
            ("status", state("complete", Some(tool), message, fields))
        }
        "toolProgress" => {
            let tool = fields.remove("name").unwrap_or_default();
            let message = fields.remove("message").unwrap_or_default();
            let message = message.as_str().unwrap_or_default().to_owned();
            ("status", state("processing", Some(tool), message, fields))
        }
        "done" => {
            let message = format!("the turn has ended: {}", text(&fields, "message"));
            fields.remove("message");
            ("status", state("complete", None, message, fields))
        }
        other => (other, Value::Object(fields)),
    };
    let mut out = json!({"type": kind, "payload": payload});
    if let Some(seq) = seq {
        out["seq"] = seq;
    }
    Some(out)
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> &'a str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The payload of a status.
fn state(state: &str, tool: Option<Value>, message: String, data: Map<String, Value>) -> Value {
    let mut payload = json!({"state": state, "message": message});
    if let Some(tool) = tool {
        payload["tool"] = tool;
    }
    if !data.is_empty() {
        payload["data"] = Value::Object(data);
    }
    payload
}

fn status(mut fields: Map<String, Value>) -> Option<Value> {
    let message = text(&fields, "message").to_owned();
    let (tool, word) = (fields.remove("tool"), text(&fields, "status").to_owned());
    match word.as_str() {
        // The start of a call and the end of a turn have messages of their own.
        "running" | "complete" => None,
        "processing" => Some(json!({"state": "processing"})),
        _ => {
            let data = Map::from_iter([("status".to_owned(), json!(word))]);
            Some(state("processing", tool, message, data))
        }
    }
}

fn connection(mut fields: Map<String, Value>) -> Value {
    fields.remove("payload");
    let state = fields.remove("status").unwrap_or_default();
    fields.insert("state".to_owned(), state);
    Value::Object(fields)
}

/// The JSON Schema of the messages, in both forms.
pub fn ws_schema() -> Value {
    let mut schema: Value =
        serde_json::from_str(include_str!("ws.schema.json")).unwrap_or_default();
    // The form with a payload follows from the other, except where it has messages of its own.
    for side in ["client", "server"] {
        let flat = schema["$defs"][side]["anyOf"].as_array().cloned().unwrap_or_default();
        let own = schema["$defs"][format!("{side}Payload")]["anyOf"].as_array().cloned();
        let mut all = own.unwrap_or_default();
        let replaced =
            ["text", "status", "connection", "toolCall", "toolProgress", "toolResult", "done"];
        let is_same = |message: &&Value| {
            let kind = message["properties"]["type"]["const"].as_str().unwrap_or_default();
            side == "client" || !replaced.contains(&kind)
        };
        all.extend(flat.iter().filter(is_same).map(with_payload));
        schema["$defs"][format!("{side}Payload")]["anyOf"] = Value::Array(all);
    }
    schema
}

/// The schema of a message with its fields within `payload`.
fn with_payload(flat: &Value) -> Value {
    let mut payload = flat.clone();
    let mut properties = Map::new();
    let mut required = vec![json!("type")];
    for key in ["type", "seq"] {
        if let Some(fields) = payload["properties"].as_object_mut()
            && let Some(schema) = fields.remove(key)
        {
            properties.insert(key.to_owned(), schema);
        }
        if let Some(names) = payload["required"].as_array_mut() {
            let count = names.len();
            names.retain(|name| name != key);
            if names.len() < count && key != "type" {
                required.push(json!(key));
            }
        }
    }
    let description = payload.as_object_mut().and_then(|fields| fields.remove("description"));
    if payload["required"].as_array().is_some_and(|names| !names.is_empty()) {
        required.push(json!("payload"));
    }
    properties.insert("payload".to_owned(), payload);
    let mut out = json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    });
    if let Some(description) = description {
        out["description"] = description;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_message_are_read_and_what_is_wrong_is_said() {
        for text in [
            r#"{"type": "message", "text": "hi", "at": 1}"#,
            r#"{"type": "message", "payload": {"text": "hi", "at": 1}}"#,
            r#"{"payload": {"at": 1, "text": "hi"}, "type": "message"}"#,
        ] {
            let (form, read) = parse(text);
            let is_payload = text.contains("payload");
            let expected = if is_payload { MessageForm::Payload } else { MessageForm::Flat };
            assert_eq!(form, Some(expected), "{text}");
            assert!(
                matches!(read, Ok(ClientMessage::Message { text, at: Some(1), .. }) if text == "hi")
            );
        }
        assert!(matches!(parse(r#"{"type": "ping"}"#), (None, Ok(ClientMessage::Ping))));
        assert!(matches!(parse(r#"{"type": "abort", "payload": {}}"#).1, Ok(ClientMessage::Abort)));
        for (text, why) in [
            ("nothing", "the message is not JSON: expected"),
            ("[]", "a message is an object with a `type`"),
            ("{}", "`type` is missing: one of `auth`, `message`"),
            (r#"{"type": 1}"#, "`type` is not text"),
            (r#"{"type": "launch"}"#, "the type `launch` is unknown: one of `auth`"),
            (r#"{"type": "message"}"#, "`message`: missing field `text`"),
            (r#"{"type": "message", "payload": "hi"}"#, "the `payload` of `message` is not"),
            (r#"{"type": "message", "text": "hi", "payload": {}}"#, "`text` stands beside"),
            (r#"{"type": "message", "payload": {"type": "x"}}"#, "`type` stands beside"),
            (r#"{"type": "message", "payload": {"txt": "hi"}}"#, "unknown field `txt`"),
        ] {
            let said = parse(text).1.expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn every_type_of_client_message_is_in_the_schema_in_both_forms() {
        let schema = ws_schema();
        for side in ["client", "clientPayload"] {
            let all = schema["$defs"][side]["anyOf"].as_array().expect("messages");
            let kinds: Vec<&str> =
                all.iter().filter_map(|m| m["properties"]["type"]["const"].as_str()).collect();
            assert_eq!(kinds, CLIENT_TYPES, "{side}");
        }
        let unknown = serde_json::from_value::<ClientMessage>(json!({"type": "no such"})).err();
        let unknown = unknown.map(|error| error.to_string()).unwrap_or_default();
        let listed = CLIENT_TYPES.map(|name| format!("`{name}`")).join(", ");
        assert!(unknown.ends_with(&listed), "{unknown}");
    }
}
