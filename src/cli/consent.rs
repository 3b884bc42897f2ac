//! Asks the user at the terminal: for consent to a call, and what servers ask during one.

use std::io::{BufRead as _, IsTerminal as _};
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, mpsc};
use tokio_util::sync::CancellationToken;

use super::{output, questions};
use base::SafeText;
use host::{ApprovalRequest, Asker, ConsentReach, RequestHandler};
use protocol::{Answer, RequestKind};

/// Maximum length of the arguments that are shown, in characters.
const MAX_SHOWN_CHARS: usize = 2_000;

/// Lines of stdin, read from the first use on, on a dedicated thread: a blocking read cannot be
/// cancelled.
#[derive(Clone, Default)]
pub struct StdinLines(Arc<Mutex<Option<mpsc::Receiver<String>>>>);

impl StdinLines {
    /// Waits for its turn to ask: one at a time does, for as long as it keeps the lines.
    pub async fn open(&self) -> OpenLines<'_> {
        OpenLines(self.0.lock().await)
    }

    /// Reads the next line; `None` at the end of stdin.
    #[cfg(feature = "chat")]
    pub async fn next(&self) -> Option<String> {
        self.open().await.ask(None).await
    }

    /// What asks on this terminal; `None` without one.
    pub fn asker(&self) -> Option<Asker> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        is_terminal.then(|| Asker(Arc::new(AtTerminal(self.clone()))))
    }
}

/// The lines of stdin, for whoever asks now.
pub struct OpenLines<'a>(MutexGuard<'a, Option<mpsc::Receiver<String>>>);

impl OpenLines<'_> {
    /// Writes a question, if there is one, and reads the next line; `None` at the end of stdin.
    pub async fn ask(&mut self, question: Option<&str>) -> Option<String> {
        if let Some(question) = question {
            output::complain(question);
        }
        self.0.get_or_insert_with(read).recv().await
    }
}

/// What asks at the terminal of this process; `None` without one.
pub fn at_terminal() -> Option<Asker> {
    StdinLines::default().asker()
}

fn read() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
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
