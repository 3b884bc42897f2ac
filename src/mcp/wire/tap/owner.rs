//! Which request an answer belongs to: the one it names, one that nobody waits for any more, or none.

use std::sync::Arc;

use rmcp::model::RequestId;

use super::answers::protocol;
use super::inbound::Source;
use super::record::{Passed, id_text};
use super::{Entry, Tap, full_name};
use crate::base::text::SafeText;
use crate::mcp::FindingKind;
use crate::mcp::traffic::MessageKind;
use crate::mcp::wire::message::Outcome;

impl Tap {
    /// Whose answer names this id; what is nobody's is told here.
    pub(super) fn owner(&self, id: &RequestId, source: &mut Source<'_>) -> Option<(i64, Entry)> {
        let mut state = self.state();
        let wanted = number(id);
        if let Some(number) = wanted
            && let Some(entry) = state.take(number)
        {
            if matches!(id, RequestId::String(_)) {
                source.notes.push(format!("id {number} came back as a string"));
            }
            return Some((number, entry));
        }
        if let Some(at) = wanted.and_then(|n| state.abandoned.iter().position(|a| a.id == n)) {
            let late = state.abandoned.remove(at)?;
            drop(state);
            self.late(&late, source);
            return None;
        }
        let used = wanted.is_some_and(|n| (0..state.next_id).contains(&n));
        let only = state.only_pending().filter(|_| !used);
        // Before the handshake is over nothing else can come that is meant for it.
        let shaking = only.filter(|_| state.version.is_none());
        let failed = shaking.and_then(|n| state.take(n));
        let doubted = only.and_then(|n| Some(Arc::clone(&state.pending.get(&n)?.request)));
        drop(state);
        let id = id_text(id);
        let (kind, message) = if used {
            (FindingKind::DuplicateAnswer, format!("a second answer to request {id}"))
        } else {
            (FindingKind::UnknownId, format!("an answer to request {id}, which was never sent"))
        };
        self.find(kind, &message, source.raw, None);
        self.record(Passed {
            id: Some(id),
            problem: Some(SafeText::line(&message)),
            ..Passed::came(MessageKind::Response, source.raw)
        });
        if let Some(request) = doubted {
            request.doubt(format!("the answer names the wrong request: {message}"));
        }
        if let Some(entry) = failed {
            self.finish(entry, Err(protocol(&message)));
        }
        None
    }

    fn late(&self, late: &super::Abandoned, source: &Source<'_>) {
        if late.why != Self::OVERTAKEN {
            let message = format!("an answer after its request {}", late.why);
            let name = full_name(&late.method, late.target.as_ref());
            self.find(FindingKind::LateAnswer, &message, source.raw, Some(name));
        }
        let problem = format!("late: the request {}", late.why);
        self.record(Passed {
            method: Some(late.method.clone()),
            target: late.target.clone(),
            id: Some(SafeText::line(&late.id.to_string())),
            call: late.call,
            latency: Some(late.sent.elapsed()),
            problem: Some(SafeText::line(&problem)),
            ..Passed::came(MessageKind::Response, source.raw)
        });
    }

    /// An answer that names no request. A server that could not read ours answers with such an error;
    /// a result is nobody's, and only doubted to be that of the one request that waits.
    pub(super) fn owner_without_id(
        &self,
        outcome: &Outcome,
        source: &Source<'_>,
    ) -> Option<(i64, Entry)> {
        let is_error = matches!(outcome, Outcome::Error(_));
        let mut state = self.state();
        let only = state.only_pending();
        if is_error && let Some(id) = only {
            return state.take(id).map(|entry| (id, entry));
        }
        let doubted = only.and_then(|id| Some(Arc::clone(&state.pending.get(&id)?.request)));
        drop(state);
        if let Some(request) = doubted {
            request.doubt("the answer names no request".to_owned());
        }
        let message = match outcome {
            Outcome::Error(error) => format!("an error without an id: {}", error.message),
            _ => "an answer without an id".to_owned(),
        };
        self.find(FindingKind::UnknownId, &message, source.raw, None);
        self.record(Passed {
            problem: Some(SafeText::line(&message)),
            ..Passed::came(
                if is_error { MessageKind::Error } else { MessageKind::Response },
                source.raw,
            )
        });
        None
    }
}

/// The number that an id is, also where it came back as text.
pub(super) fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    }
}
