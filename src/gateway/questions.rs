//! What servers ask during a call that a program made over REST (sampling, elicitation, roots): it
//! waits here until the program has fetched and answered it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::bridge::BridgedRequest;
use super::tokens::Client;
use host::ApprovalRequest;
use protocol::{Answer, RequestKind};

/// Maximum number of questions that wait for programs.
const MAX_QUESTIONS: usize = 1_000;
/// Longest name of a program, in bytes.
const MAX_PROGRAM_BYTES: usize = 128;

/// Which program of a client answers: one that has named itself, or any of those that have not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProgramName(Option<Arc<str>>);

impl ProgramName {
    /// The name as it stands in a request.
    ///
    /// # Errors
    /// It is empty or too long.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > MAX_PROGRAM_BYTES {
            return Err(format!("the name of a program has 1 to {MAX_PROGRAM_BYTES} bytes"));
        }
        Ok(Self(Some(text.into())))
    }
}

/// The questions that wait for programs, by their id.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: Mutex<HashMap<String, RestQuestion>>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct RestQuestion {
    client: Arc<str>,
    /// The program that the call named, of those that use the token.
    program: ProgramName,
    ask: BridgedRequest,
}

/// The questions of one call; they are withdrawn with it.
pub(super) struct CallQuestions<'g> {
    all: &'g Questions,
    program: ProgramName,
    ids: Vec<String>,
}

impl Drop for CallQuestions<'_> {
    fn drop(&mut self) {
        let mut waiting = self.all.waiting.lock();
        for id in &self.ids {
            waiting.remove(id);
        }
    }
}

impl Questions {
    /// The questions of a call that begins. Those of a call that names its program are for that
    /// one alone: another program with the same token does not get to see them.
    pub fn begin(&self, program: ProgramName) -> CallQuestions<'_> {
        CallQuestions { all: self, program, ids: Vec::new() }
    }

    /// Told when there is a new question.
    pub fn follow(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The open questions of a program of a client, oldest first; without a name, of the calls
    /// that named none.
    pub fn list(&self, client: &Client, program: &ProgramName) -> Vec<Value> {
        let waiting = self.waiting.lock();
        let is_theirs = |it: &RestQuestion| it.client == client.id && it.program == *program;
        let own = waiting.iter().filter(|(_, it)| is_theirs(it));
        let mut own: Vec<_> = own.filter(|(_, it)| !it.ask.reply.is_closed()).collect();
        own.sort_by_key(|(_, it)| (it.ask.request.arrived, it.ask.request.id.0));
        let shown = own.into_iter().map(|(id, it)| {
            let request = &it.ask.request;
            json!({
                "id": id,
                "server": request.server,
                "method": request.kind.method(),
                "params": &*request.params,
                "during": request.during,
                "deadline": request.deadline.to_rfc3339(),
            })
        });
        shown.collect()
    }
}

impl Questions {
    /// Looks up an open question to a client.
    pub fn find(&self, client: &Client, id: &str) -> Option<Arc<ApprovalRequest>> {
        let waiting = self.waiting.lock();
        let own = waiting.get(id).filter(|it| it.client == client.id);
        Some(Arc::clone(&own.filter(|it| !it.ask.reply.is_closed())?.ask.request))
    }

    /// Answers a question to a client; whether it was still open.
    pub fn answer(&self, client: &Client, id: &str, answer: Answer) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.get(id).is_none_or(|it| it.client != client.id) {
            return false;
        }
        let question = waiting.remove(id);
        question.is_some_and(|question| question.ask.reply.send(Some(answer)).is_ok())
    }
}

impl CallQuestions<'_> {
    /// Has a question wait for the client, if a program may answer it; otherwise the operator gets
    /// it.
    pub fn wait_for(&mut self, client: &Client, ask: BridgedRequest) {
        let can = match ask.request.kind {
            RequestKind::Sampling
            | RequestKind::Elicitation
            | RequestKind::UrlElicitation
            | RequestKind::Roots => true,
            // Programs must not grant themselves permissions.
            RequestKind::Guard
            | RequestKind::Permission
            | RequestKind::SignIn
            | RequestKind::Other(_) => false,
        };
        let mut waiting = self.all.waiting.lock();
        waiting.retain(|_, it| !it.ask.reply.is_closed());
        let id = base::file::random_hex::<16>().ok();
        let (Some(id), true) = (id, can && waiting.len() < MAX_QUESTIONS) else {
            let _ = ask.reply.send(None);
            return;
        };
        let (client, program) = (Arc::clone(&client.id), self.program.clone());
        waiting.insert(id.clone(), RestQuestion { client, program, ask });
        drop(waiting);
        self.ids.push(id);
        self.all.changed.send_replace(());
    }
}
