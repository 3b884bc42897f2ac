//! Replays a recorded chat with another model: the user's messages, the recorded calls, and how the
//! new calls differ. The recorded servers answer (`mcpdeck mock RECORDING`).

use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use base::ServerName;
use base::masked::may_be;
use base::secret::MASK;
use deck::{Recording, RecordingLine};
use protocol::{Direction, MessageKind, TrafficRecord};

/// A call that a model chose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolChoice {
    /// `server.tool`
    pub tool: String,
    pub arguments: Value,
}

impl ToolChoice {
    /// The call that a frame asks a server for, if it does.
    pub fn of_frame(frame: &TrafficRecord) -> Option<Self> {
        let is_call = frame.direction == Direction::Out
            && frame.kind == MessageKind::Request
            && frame.method.as_deref() == Some("tools/call");
        if !is_call {
            return None;
        }
        let message: Value = serde_json::from_str(&frame.body).unwrap_or_default();
        let name = message["params"]["name"].as_str().unwrap_or_default();
        let arguments = message["params"]["arguments"].clone();
        Some(Self { tool: format!("{}.{name}", frame.server), arguments })
    }
}

/// A message of the user, and the calls it led to.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayTurn {
    /// The user's message.
    pub message: String,
    /// The calls, in order.
    pub calls: Vec<ToolChoice>,
}

impl ReplayTurn {
    /// Whether a part of the message was hidden: it is not what the user wrote.
    pub fn is_masked(&self) -> bool {
        self.message.contains(MASK)
    }
}

/// The chat of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// The servers that were recorded.
    pub servers: Vec<ServerName>,
    /// The turns, oldest first.
    pub turns: Vec<ReplayTurn>,
    /// What could not be read of the recording, in a sentence.
    pub losses: Option<String>,
}

impl Replay {
    /// Reads a recording.
    ///
    /// # Errors
    /// When it cannot be read, or no chat was recorded.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut out = Self::default();
        let recording = Recording::open(path)?;
        let losses = recording.losses();
        for line in recording {
            let frame = match line? {
                RecordingLine::Chat { text, .. } => {
                    out.turns.push(ReplayTurn { message: text, calls: Vec::new() });
                    continue;
                }
                RecordingLine::Frame(frame) => frame,
                _ => continue,
            };
            if !out.servers.contains(&frame.server) {
                out.servers.push(frame.server.clone());
            }
            if let Some(turn) = out.turns.last_mut() {
                turn.calls.extend(ToolChoice::of_frame(&frame));
            }
        }
        out.losses = losses.words();
        if out.turns.is_empty() {
            let nothing = "no chat was recorded: make one with `mcpdeck chat --record FILE`";
            let message = match &out.losses {
                Some(lost) => format!("{nothing}; {lost}"),
                None => nothing.to_owned(),
            };
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(out)
    }
}

/// The recorded and the new calls for one message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// The user's message.
    pub message: String,
    /// The recorded calls.
    pub recorded: Vec<ToolChoice>,
    /// The new calls, as they were sent.
    pub now: Vec<ToolChoice>,
    /// Whether the same tools were called, in the same order.
    pub same_tools: bool,
    /// Whether their arguments were the same too; those that are masked in the recording may be any.
    pub same_arguments: bool,
    /// Number of new calls that were not recorded or failed.
    pub failed: usize,
    /// Why the new turn ended.
    pub reason: String,
    /// What the provider said where the model failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Compared {
    /// Compares the new calls of a turn with the recorded ones.
    pub fn new(turn: ReplayTurn, now: Vec<ToolChoice>, failed: usize, reason: String) -> Self {
        let tools = |calls: &[ToolChoice]| calls.iter().map(|c| c.tool.clone()).collect::<Vec<_>>();
        let same_tools = tools(&turn.calls) == tools(&now);
        let mut both = turn.calls.iter().zip(&now);
        Self {
            same_tools,
            same_arguments: same_tools
                && both.all(|(old, new)| may_be(&old.arguments, &new.arguments)),
            message: turn.message,
            recorded: turn.calls,
            now,
            failed,
            reason,
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_are_masked_in_the_recording_may_be_any() {
        let call = |arguments: Value| vec![ToolChoice { tool: "s.t".to_owned(), arguments }];
        let compared = |old: Value, new: Value| {
            let turn = ReplayTurn { message: "m".to_owned(), calls: call(old) };
            Compared::new(turn, call(new), 0, "end".to_owned()).same_arguments
        };
        assert!(compared(json!({"key": "***", "n": 1}), json!({"key": "open-sesame", "n": 1})));
        assert!(!compared(json!({"key": "***", "n": 1}), json!({"key": "open-sesame", "n": 2})));
        assert!(!compared(json!({"key": "a"}), json!({"key": "***"})));
    }
}
