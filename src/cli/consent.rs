//! Asks the user at the terminal: for consent to a call, and what servers ask during one.

use std::io::IsTerminal as _;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::questions;
use super::typed::StdinLines;
use base::SafeText;
use host::{ApprovalRequest, Asker, ConsentReach, RequestHandler};
use protocol::{Answer, RequestKind};

/// Maximum length of the arguments that are shown, in characters.
const MAX_SHOWN_CHARS: usize = 2_000;

impl StdinLines {
    /// What asks on this terminal; `None` without one.
    pub fn asker(&self) -> Option<Asker> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        is_terminal.then(|| Asker(Arc::new(AtTerminal(self.clone()))))
    }
}

/// What asks at the terminal of this process; `None` without one.
pub fn at_terminal() -> Option<Asker> {
    StdinLines::default().asker()
}

struct AtTerminal(StdinLines);

impl RequestHandler for AtTerminal {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let lines = self.0.clone();
        Box::pin(async move {
            let mut lines = lines.open().await;
            if !matches!(request.kind, RequestKind::Guard | RequestKind::Permission) {
                return questions::ask(&mut lines, &request).await;
            }
            let line = lines.ask(Some(&question(&request))).await.unwrap_or_default();
            Some(Answer::Result(match reach(&request, line.trim()) {
                Some(reach) => json!({"action": "accept", "for": reach}),
                None => json!({"action": "decline"}),
            }))
        })
    }
}

/// Whether the user may answer for more than one call.
fn reaches_further(request: &ApprovalRequest) -> bool {
    offers(request, ConsentReach::Session)
}

fn offers(request: &ApprovalRequest, reach: ConsentReach) -> bool {
    let answers = request.params["answers"].as_array();
    answers.is_some_and(|answers| answers.iter().any(|answer| answer == reach.as_str()))
}

fn question(request: &ApprovalRequest) -> String {
    let params = &request.params;
    if request.kind == RequestKind::Guard {
        let shown = SafeText::cut(&params.to_string(), MAX_SHOWN_CHARS);
        return format!("may {} do this? {shown}  [y/N]", request.server);
    }
    let text = |key: &str| SafeText::cut(params[key].as_str().unwrap_or_default(), 200);
    let arguments = match &params["arguments"] {
        Value::Null => SafeText::default(),
        arguments => SafeText::cut(&arguments.to_string(), MAX_SHOWN_CHARS),
    };
    let (caller, tool, why) = (text("caller"), text("tool"), text("why"));
    let answers = match (reaches_further(request), offers(request, ConsentReach::Always)) {
        (false, _) => "[y/N]",
        (true, false) => "[y: once, s: for this session, N]",
        (true, true) => "[y: once, s: for this session, a: always, N]",
    };
    format!("{caller} asks to call {tool} {arguments}\n  {why}  {answers}")
}

/// How far an answer reaches; `None` for a refusal.
fn reach(request: &ApprovalRequest, line: &str) -> Option<ConsentReach> {
    let reach = match line {
        "y" | "yes" => return Some(ConsentReach::Once),
        "s" | "session" => ConsentReach::Session,
        "a" | "always" => ConsentReach::Always,
        _ => return None,
    };
    offers(request, reach).then_some(reach)
}
