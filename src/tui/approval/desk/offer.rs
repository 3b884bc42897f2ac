//! Answers that lie ready for a request: kept ones, those of the entry, and a few that every kind
//! of request has. Choosing one fills the draft; nothing is sent.

use serde_json::{Value, json};

use super::{AnswerDesk, Draft, Says};
use crate::config::{ApprovalRule, ApprovalRules};
use crate::deck::answers::{Answers, AskedKind};
use crate::host::approvals::RuleKind;
use crate::mcp::RequestKind;

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

/// What the format of kept answers calls this kind.
pub const fn asked_kind(kind: &RequestKind) -> Option<AskedKind> {
    match kind {
        RequestKind::Sampling => Some(AskedKind::Sampling),
        RequestKind::Elicitation => Some(AskedKind::Elicitation),
        RequestKind::UrlElicitation => Some(AskedKind::UrlElicitation),
        RequestKind::Roots => Some(AskedKind::Roots),
        RequestKind::Guard
        | RequestKind::Permission
        | RequestKind::SignIn
        | RequestKind::Other(_) => None,
    }
}

/// Kept answers, then the entry's, for one kind of request of one server.
pub fn kept(
    server: &str,
    kind: &RequestKind,
    answers: &Answers,
    entry: Option<&ApprovalRules>,
) -> Vec<Offer> {
    let mut offers = Vec::new();
    if let Some(asked) = asked_kind(kind) {
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

impl AnswerDesk {
    /// Everything that can be taken into the draft.
    pub fn offers(&self, answers: &Answers, entry: Option<&ApprovalRules>) -> Vec<Offer> {
        let server = self.request.server.as_str();
        let mut offers = kept(server, &self.request.kind, answers, entry);
        let built_in =
            |name: &str, result| Offer { name: name.to_owned(), origin: "built in", result };
        let completion = |text: &str, stop: &str| {
            json!({"role": "assistant", "model": "by hand", "stopReason": stop,
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
