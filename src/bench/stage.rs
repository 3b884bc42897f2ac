//! Servers for a suite: started with the policy of their files, called, and stopped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use base::{Redactor, ServerName};
use check::answers::{AnswerScript, Answers};
use check::run::{CheckSignals, Settling};
use config::McpConfig;
use config::error::Error;
use deck::{AskedKind, Deck, ScriptedAnswer};
use host::{
    ApprovalRequest, CallOptions, Host, HostView, Origin, RequestHandler, ServerState, Startup,
    Validation, split_name,
};
use mcp::Accounts;
use protocol::Answer;

/// Where servers come from, and the rules for calls.
#[derive(Clone)]
pub struct BenchSource {
    /// The servers that can be used.
    pub config: McpConfig,
    /// The files whose policy applies to the calls.
    pub policy: Vec<PathBuf>,
    /// The accounts to sign in with.
    pub accounts: Option<Accounts>,
    /// Time limit for starts and requests, instead of the configured ones.
    pub timeout: Option<Duration>,
    /// Whether reports may show values of the configuration that servers echo.
    pub reveal: bool,
}

impl BenchSource {
    /// The same with these servers and what they depend on; all of them when none is named.
    #[must_use]
    pub fn narrowed(&self, names: &[ServerName]) -> Self {
        let mut narrow = self.clone();
        if names.is_empty() {
            return narrow;
        }
        let (mut keep, mut open) = (Vec::new(), names.to_vec());
        while let Some(name) = open.pop() {
            if !keep.contains(&name) {
                let server = self.config.servers.get(&name);
                open.extend(server.iter().flat_map(|server| server.dependencies.clone()));
                keep.push(name);
            }
        }
        narrow.config.servers.retain(|name, _| keep.contains(name));
        narrow
    }

    /// The server whose name a full name begins with.
    pub fn owner(&self, name: &str) -> Option<ServerName> {
        let known = self.config.servers.keys().map(ServerName::as_str);
        split_name(name, known).map(|(server, _)| ServerName::new(server))
    }
}

/// Answers to what servers ask: those of the step that is being made, then those behind it. Keeps
/// what was asked.
#[derive(Clone, Default)]
pub struct BenchAnswers(Arc<Mutex<AnswerStack>>);

#[derive(Default)]
struct AnswerStack {
    scripts: Vec<AnswerScript>,
    asked: Vec<(ServerName, AskedKind)>,
}

impl BenchAnswers {
    /// Sets the answers, the first list first, and forgets what was asked.
    ///
    /// # Errors
    /// When a pattern is not a regular expression.
    pub fn set(&self, lists: [&[ScriptedAnswer]; 3]) -> Result<(), String> {
        let scripts = lists
            .map(|answers| AnswerScript::new(Answers { schema: None, answers: answers.to_vec() }));
        let scripts = scripts.into_iter().collect::<Result<Vec<_>, _>>()?;
        *self.0.lock() = AnswerStack { scripts, asked: Vec::new() };
        Ok(())
    }

    /// What servers asked for since, in order.
    pub fn requested_kinds(&self) -> Vec<AskedKind> {
        self.0.lock().asked.iter().map(|(_, kind)| *kind).collect()
    }
}

impl RequestHandler for BenchAnswers {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let scripts = {
            let mut stack = self.0.lock();
            if let Some(kind) =
                AskedKind::from_request_kind(&request.kind).filter(|k| *k != AskedKind::Roots)
            {
                stack.asked.push((request.server.clone(), kind));
            }
            stack.scripts.clone()
        };
        let server = request.server.as_str();
        let found =
            scripts.iter().find_map(|script| script.answer(server, &request.kind, &request.params));
        Box::pin(std::future::ready(found))
    }
}

/// Running servers.
pub struct BenchStage {
    deck: Deck,
    reveal: bool,
    /// The answers to what they ask.
    pub answers: BenchAnswers,
}

impl BenchStage {
    /// Starts servers and waits until each is ready or has failed.
    ///
    /// # Errors
    /// When the configuration or the policy cannot be used.
    pub async fn open(source: BenchSource) -> Result<Self, Error> {
        let (mut config, reveal) = (source.config, source.reveal);
        config.answer_once(source.timeout);
        let answers = BenchAnswers::default();
        let engine = Host::builder()
            .startup(Startup::Background)
            .handler(answers.clone())
            .accounts(source.accounts);
        let deck = Deck::builder().config(config.clone()).host(engine);
        let deck = deck.policy_of(source.policy).open().await?;
        settle(deck.host(), &config).await;
        // What the servers offer has to be known before anything is decided.
        deck.policy().look_again().await;
        Ok(Self { deck, reveal, answers })
    }

    /// The engine.
    pub const fn host(&self) -> &Host {
        self.deck.host()
    }

    /// What a report must not show of the results of a server: the values of its configuration, unless
    /// they are revealed.
    pub fn masks(&self, server: &ServerName) -> Redactor {
        if self.reveal { Redactor::default() } else { self.secrets(server) }
    }

    /// The values of the configuration of a server, which no file may keep.
    pub fn secrets(&self, server: &ServerName) -> Redactor {
        Redactor::new(self.host().secrets(server))
    }

    /// What is wrong with the policy.
    pub fn notices(&self) -> Vec<String> {
        self.deck.policy().notices()
    }

    /// The servers that did not start, with the reason of each.
    pub fn failed(&self) -> Vec<(ServerName, String)> {
        let view = self.host().snapshot();
        let down = view
            .servers
            .values()
            .filter(|server| !server.state.is_callable() && server.state != ServerState::Disabled);
        down.map(|server| (server.name.clone(), server.reason_in_full("it did not become ready")))
            .collect()
    }

    /// Stops the servers.
    pub async fn close(self, signals: &CheckSignals) {
        let host = self.deck.host().clone();
        signals.shut_down(&host, || ()).await;
    }
}

async fn settle(host: &Host, config: &McpConfig) {
    let needs = |name: &ServerName| -> Vec<&ServerName> {
        config.servers.get(name).into_iter().flat_map(|server| &server.dependencies).collect()
    };
    let mut settling = Settling::default();
    let is_over = |view: &Arc<HostView>| settling.is_over(view, &needs);
    let _ = host.view().wait_for(is_over).await;
}

/// The options of a call of the bench.
pub fn options(timeout: Option<Duration>, validation: Validation) -> CallOptions {
    CallOptions {
        timeout,
        bypass_cache: true,
        origin: Origin::Check,
        validation,
        ..CallOptions::default()
    }
}
