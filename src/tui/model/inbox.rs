//! Everything that waits for the user, in one list: used by the inbox, its count and its key.

use std::collections::BTreeSet;

use super::Model;
use crate::pick::{Choice, Pick};
use crate::prelude::*;
use config::{ConfigChange, Hold};
use deck::{Awaiting, InputState, TrustVerdict};
use host::ApprovalRequest;
use protocol::{ApprovalId, RequestKind};

/// Most characters of a request's text used in a row.
const MAX_LABEL_CHARS: usize = 300;

/// Something that waits for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Todo {
    /// A request of a server.
    Request(ApprovalId),
    /// A command or address that is not approved.
    Approval(ServerName),
    /// An input of the configuration that a server waits for.
    Input(String),
    /// A changed file that is not applied yet.
    Plan,
    /// Definitions of a server that are withheld from callers until they are reviewed.
    Held(ServerName),
}

impl Model {
    /// Everything that waits for the user; items with a deadline first.
    pub fn inbox(&self) -> impl Iterator<Item = Todo> {
        let requests = self.view.pending.keys().map(|id| Todo::Request(*id));
        requests.chain(self.inbox_of_configuration())
    }

    /// The same without the requests of servers.
    pub fn inbox_of_configuration(&self) -> impl Iterator<Item = Todo> {
        let now = &self.situation;
        let approvals = now.needing_approval().map(|one| Todo::Approval(one.review.server.clone()));
        let inputs = now.wanted().map(|view| Todo::Input(view.input.id.clone()));
        let held: BTreeSet<&str> = self.policy.held.iter().map(|one| &*one.server).collect();
        let held = held.into_iter().map(|server| Todo::Held(ServerName::new(server)));
        let plan = now.plan.is_some().then_some(Todo::Plan);
        approvals.chain(inputs).chain(plan).chain(held)
    }

    /// What the user has to do before a server may start, if anything.
    pub fn hold(&self, name: &ServerName) -> Option<Todo> {
        match self.entry(name)?.hold.as_ref()? {
            Hold::Approval => Some(Todo::Approval(name.clone())),
            Hold::Input(id) => Some(Todo::Input(id.clone())),
        }
    }

    /// The inputs of the configuration, answered or not.
    pub fn input_choices(&self) -> Vec<Choice> {
        let choices = self.situation.inputs.iter().map(|view| {
            let state = match view.state {
                InputState::Open => "no answer",
                InputState::Answered => "answered",
                InputState::Kept => "keyring",
                InputState::Variable => "variable",
            };
            let words =
                ink!("{}  {}", Ink::line(&view.input.id), Ink::line(&view.input.description));
            Choice::new(words, ink!("{}", state), Pick::Input(view.input.id.clone()))
        });
        choices.collect()
    }
}

impl Todo {
    /// The server it concerns; `None` for the configuration.
    pub fn server(&self, model: &Model) -> Option<ServerName> {
        match self {
            Self::Request(id) => Some(model.view.pending.get(id)?.server.clone()),
            Self::Approval(server) | Self::Held(server) => Some(server.clone()),
            Self::Input(id) => model.input(id)?.servers.first().cloned(),
            Self::Plan => None,
        }
    }

    /// A short label of ours, and the other side's own text.
    pub fn words(&self, model: &Model) -> (Ink, Ink) {
        match self {
            Self::Request(id) => match model.view.pending.get(id) {
                Some(request) => (kind_word(&request.kind), request_text(request)),
                None => Default::default(),
            },
            Self::Approval(server) => {
                let command = model.situation.awaiting(server).map(command_line);
                (ink!("approval"), command.unwrap_or_default())
            }
            Self::Input(id) => {
                let about = model.input(id).map(|view| Ink::line(&view.input.description));
                (ink!("input"), ink!("{}: {}", Ink::line(id), about.unwrap_or_default()))
            }
            Self::Held(server) => {
                let held = model.policy.held.iter().filter(|one| *one.server == *server.as_str());
                let names = held.map(|one| one.tool.as_deref().unwrap_or("its instructions"));
                let names: Vec<&str> = names.collect();
                let held = count(names.len(), "definition");
                (ink!("review"), ink!("{} held: {}", held, Ink::line(&names.join(", "))))
            }
            Self::Plan => {
                let plan = model.situation.plan.as_ref().map(plan_words);
                (ink!("file changed"), plan.unwrap_or_default())
            }
        }
    }
}

/// Label of a request kind, and the phrase for it; for a permission the caller adds the tool.
fn spoken(kind: &RequestKind) -> (Ink, Ink) {
    match kind {
        RequestKind::Sampling => (ink!("sampling"), ink!("asks for sampling")),
        RequestKind::Elicitation => (ink!("elicitation"), ink!("asks you")),
        RequestKind::UrlElicitation => (ink!("open a page"), ink!("asks you to open a page")),
        RequestKind::Roots => (ink!("roots"), ink!("asks for the roots")),
        RequestKind::Guard => (ink!("consent"), ink!("would be called with suspicious arguments")),
        RequestKind::Permission => (ink!("permission"), ink!("asks to call")),
        RequestKind::SignIn => (ink!("sign in"), ink!("asks you to sign in")),
        RequestKind::Other(method) => (Ink::line(method), ink!("asks for {}", Ink::line(method))),
    }
}

/// The label of a request kind, a word or two.
pub fn kind_word(kind: &RequestKind) -> Ink {
    spoken(kind).0
}

/// Who asks, and what for.
pub fn who_asks(request: &ApprovalRequest) -> (Ink, Ink) {
    let asks = spoken(&request.kind).1;
    if request.kind != RequestKind::Permission {
        return (Model::name(&request.server), asks);
    }
    let field = |name: &str| {
        let text = request.params.get(name).and_then(Value::as_str).unwrap_or_default();
        Ink::from(&SafeText::cut(text, MAX_LABEL_CHARS))
    };
    (field("caller"), ink!("{} {}", asks, field("tool")))
}

/// The text of a request, cut to what a row shows.
fn request_text(request: &ApprovalRequest) -> Ink {
    let params = &request.params;
    let text = match request.kind {
        RequestKind::SignIn => params.get("issuer").and_then(Value::as_str),
        RequestKind::Sampling => last_text(params),
        RequestKind::UrlElicitation => params.get("url").and_then(Value::as_str),
        RequestKind::Elicitation => params.get("message").and_then(Value::as_str),
        RequestKind::Guard => params.get("tool").and_then(Value::as_str),
        RequestKind::Permission => {
            let (who, asks) = who_asks(request);
            return ink!("{} {}", who, asks);
        }
        RequestKind::Roots | RequestKind::Other(_) => None,
    };
    Ink::from(&SafeText::cut(text.unwrap_or_default(), MAX_LABEL_CHARS))
}

/// The text of the last message of a sampling request.
pub(crate) fn last_text(params: &Value) -> Option<&str> {
    let content = params.get("messages")?.as_array()?.last()?.get("content")?;
    let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
    blocks.iter().rev().find_map(|block| block.get("text")?.as_str())
}

/// What an unapproved server would run or connect to.
fn command_line(awaiting: &Awaiting) -> Ink {
    let runs = |label: &str| {
        let of = |part: &&str| {
            label.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        };
        ["command", "args", "url"].iter().any(of)
    };
    let shown = awaiting.review.shown.iter().filter(|(label, _)| runs(label));
    let words: Vec<&str> = shown.map(|(_, value)| value.as_str()).collect();
    let line = Ink::line(&words.join(" "));
    match awaiting.review.verdict {
        TrustVerdict::Changed(_) => ink!("changed: {}", line),
        _ => line,
    }
}

/// What a changed file would do, in a few words.
fn plan_words(plan: &ConfigChange) -> Ink {
    let parts = [
        (plan.changed.len(), "restart"),
        (plan.added.len(), "start"),
        (plan.removed.len(), "stop"),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0);
    let words: Vec<String> = parts.map(|(n, word)| format!("{n} would {word}")).collect();
    if words.is_empty() { ink!("no server changes") } else { Ink::line(&words.join(", ")) }
}
