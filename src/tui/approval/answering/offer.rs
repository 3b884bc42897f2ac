//! Answers a draft can start from: kept ones, and the canned one of the server's entry.

use crate::prelude::*;
use config::{ApprovalRule, ApprovalRules};
use deck::{Answers, AskedKind};
use host::RuleKind;
use protocol::RequestKind;

/// An answer a draft can start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub name: String,
    /// Where it comes from.
    pub origin: &'static str,
    pub result: Value,
}

/// Kept answers, then the entry's, for one kind of request of one server.
pub fn stored_offers(
    server: &str,
    kind: &RequestKind,
    answers: &Answers,
    entry: Option<&ApprovalRules>,
) -> Vec<Offer> {
    let mut offers = Vec::new();
    if let Some(asked) = AskedKind::from_request_kind(kind) {
        for (n, answer) in answers.answers.iter().enumerate() {
            let name = answer.name.clone().unwrap_or_else(|| format!("answer {}", n + 1));
            if let (true, Ok(result)) = (answer.suits(server, asked), answer.reply.result()) {
                offers.push(Offer { name, origin: "kept", result });
            }
        }
    }
    let rule = entry.zip(RuleKind::from_request_kind(kind)).map(|(rules, kind)| match kind {
        RuleKind::Sampling => &rules.sampling,
        RuleKind::Elicitation => &rules.elicitation,
    });
    if let Some(ApprovalRule::Canned(result)) = rule {
        let name = "the canned answer of the entry".to_owned();
        offers.push(Offer { name, origin: "mcp.json", result: result.clone() });
    }
    offers
}
