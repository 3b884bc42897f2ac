//! Orders of a dashboard to a running configuration, local or over the socket of a service:
//! commands to servers, calls, answers, decisions of the operator. Plain data with its execution.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{self, BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clients::Clients;
use super::policy::PolicyKeeper;
use base::human::Dur;
use base::text::SafeText;
use base::text::json::WrittenValue;
use base::{LogLevel, Redactor, ServerName};
use config::RootConfig;
use config::error::{Error, ErrorCode};
use host::{AccessScope, GrantKind, NewGrant};
use host::{
    CallOptions, CallOutcome, Digest, GrantId, Host, Origin, RuleKind, SessionRule, Validation,
};
use protocol::{Answer, ApprovalId, ListKind};

/// An order whose outcome is at most one line of text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// A command to one server.
    Server(ServerName, ServerCommand),
    /// Answer a request from a server.
    Answer(ApprovalId, Answer),
    /// Deny these together; those no longer open are only counted.
    Deny(Vec<(ApprovalId, Answer)>),
    /// Answer these together; those no longer open are only counted.
    AnswerAll(Vec<(ApprovalId, Answer)>),
    /// Give a request more time.
    MoreTime(ApprovalId, Duration),
    /// Set or remove a rule of this session.
    ApprovalRule(ServerName, RuleKind, Option<SessionRule>),
    /// Act on a client of the service, by its origin.
    Client(ClientOrder, String),
    /// A decision about the policy.
    Policy(PolicyOrder),
}

/// A command to one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServerCommand {
    /// Start it.
    Start,
    /// Stop it.
    Stop,
    /// Stop and start it.
    Restart,
    /// Fetch its lists again.
    Refresh,
    /// The user has seen that these entries of its lists changed.
    ChangesSeen(Vec<(ListKind, SafeText)>),
    /// Close its breaker, or that of one of its tools.
    ResetBreaker(Option<String>),
    /// Ask the user to sign in.
    SignIn,
    /// Check whether it responds.
    Ping,
    /// Refresh its token.
    RefreshToken,
    /// Revoke and forget its token.
    SignOut,
    /// Set its log level.
    LogLevel(LogLevel),
    /// Share these roots.
    Roots(Vec<RootConfig>),
    /// Subscribe to a resource.
    Subscribe(String),
    /// End a subscription.
    Unsubscribe(String),
}

/// A call made by the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRequest {
    /// The server to call.
    pub server: ServerName,
    /// What is called.
    pub target: CallTarget,
    /// Whether arguments must match the schema.
    pub validation: Validation,
    /// Do not answer from the cache.
    pub bypass_cache: bool,
    /// Deadline that overrides the server's.
    pub timeout: Option<Duration>,
    /// The arguments as text, where they hold numbers that are not as their values spell them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
}

/// What is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallTarget {
    /// `tools/call`: name on the wire, arguments.
    Tool(String, Value),
    /// `prompts/get`: name on the wire, arguments.
    Prompt(String, Value),
    /// `resources/read`: URI.
    Resource(String),
    /// `completion/complete`: its parameters.
    Complete(Value),
    /// Any request: method and parameters.
    Request(String, Option<Value>),
}

/// An action on a client of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientOrder {
    /// Pauses its calls, or resumes them.
    Pause,
    /// Cancels its calls and streams.
    Cut,
    /// Revokes its token.
    Revoke,
}

/// A decision about the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PolicyOrder {
    /// Accepts or refuses a definition as it was shown.
    Review {
        /// Its server.
        server: ServerName,
        /// The tool; `None` for the instructions.
        tool: Option<String>,
        /// Digest of the definition that was shown.
        digest: Digest,
        /// Whether it is accepted.
        accept: bool,
    },
    /// Permits a caller to call one tool.
    Grant {
        /// The caller, in the spelling of [`host::Origin`].
        origin: String,
        /// Its profile.
        profile: String,
        /// The tool, `server.tool`; no pattern.
        tool: String,
        /// How long, in seconds; without it, until it is revoked or the tool changes.
        seconds: Option<u64>,
    },
    /// Revokes a grant.
    Revoke(GrantId),
}

/// What orders act on.
#[derive(Clone)]
pub struct Operated {
    /// The engine.
    pub host: Host,
    /// Clients of the service, when there is one.
    pub clients: Option<Clients>,
    /// Decides about callers other than the user, if a policy is kept.
    pub policy: Option<PolicyKeeper>,
}

impl Order {
    /// Executes it; immediate effects are done when this returns. Resolves to a message, if any.
    ///
    /// # Errors
    /// Those of the engine; [`ErrorCode::Configuration`] when a file cannot be changed, or when
    /// there are no clients or no policy.
    pub fn perform(self, on: Operated) -> BoxFuture<'static, Result<Option<SafeText>, Error>> {
        let Operated { host, clients, policy } = on;
        let done = match self {
            Self::Server(server, command) => {
                return Box::pin(async move { command.run(&host, &server).await });
            }
            Self::Client(order, origin) => match clients {
                Some(clients) => {
                    return Box::pin(blocking(move || order.run(&clients, &origin)));
                }
                None => Err(refused("nothing is served here".to_owned())),
            },
            Self::Policy(order) => match policy {
                Some(policy) => return Box::pin(blocking(move || order.run(&policy))),
                None => Err(refused("no policy is kept here".to_owned())),
            },
            Self::Answer(id, answer) => host.answer(id, answer).map(|()| None),
            Self::Deny(answers) => Ok(Some(together(&host, answers, "denied"))),
            Self::AnswerAll(answers) => Ok(Some(together(&host, answers, "answered"))),
            Self::MoreTime(id, more) => host.extend_request(id, more).map(|_| None),
            Self::ApprovalRule(server, kind, rule) => {
                host.set_approval_rule(&server, kind, rule).map(|()| None)
            }
        };
        Box::pin(future::ready(done))
    }
}

/// Answers requests together; says how many were still open.
fn together(host: &Host, answers: Vec<(ApprovalId, Answer)>, word: &str) -> SafeText {
    let all = answers.len();
    let open = answers.into_iter().filter(|(id, answer)| host.answer(*id, answer.clone()).is_ok());
    SafeText::line(&match open.count() {
        done if done == all => format!("{word} {done}"),
        done => format!("{word} {done}; {} were no longer open", all - done),
    })
}

/// Runs work that waits for files on the blocking pool.
async fn blocking(
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Result<Option<SafeText>, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(error.to_string()));
    done.map(|said| Some(SafeText::line(&said))).map_err(refused)
}

fn refused(why: String) -> Error {
    Error::new(ErrorCode::Configuration, why)
}

impl ServerCommand {
    async fn run(self, host: &Host, server: &ServerName) -> Result<Option<SafeText>, Error> {
        match self {
            Self::Start => host.start(server).await?,
            Self::Stop => host.stop(server).await?,
            Self::Restart => host.restart(server).await?,
            Self::Refresh => host.refresh(server).await?,
            Self::ChangesSeen(items) => {
                for item in items {
                    host.changes_seen(server, Some(item))?;
                }
            }
            Self::ResetBreaker(tool) => host.reset_breaker(server, tool.as_deref())?,
            Self::Ping => {
                let options = CallOptions { origin: Origin::Dashboard, ..CallOptions::default() };
                let took = host.request(server, "ping", None, options).await?.duration;
                return Ok(Some(SafeText::line(&format!("{server} answers after {}", Dur(took)))));
            }
            Self::SignIn => host.sign_in(server)?,
            Self::RefreshToken => host.refresh_token(server).await?,
            Self::SignOut => {
                if let Some(why) = host.sign_out(server).await? {
                    let text =
                        format!("the token of {server} is forgotten, but not revoked: {why}");
                    return Ok(Some(SafeText::line(&text)));
                }
            }
            Self::LogLevel(level) => {
                host.set_log_level(server, level).await?;
                let word: &str = level.into();
                return Ok(Some(SafeText::line(&format!("{server} logs from {word} on"))));
            }
            Self::Roots(roots) => host.set_roots(server, roots)?,
            Self::Subscribe(uri) => host.subscribe_resource(server, &uri).await?,
            Self::Unsubscribe(uri) => host.unsubscribe_resource(server, &uri).await?,
        }
        Ok(None)
    }
}

impl CallRequest {
    /// Makes the call. `options` supplies what is not part of the request. Unless `reveal` is set
    /// at the user's request, configured secrets are masked in the result: it may be shown to
    /// others, copied and saved.
    ///
    /// # Errors
    /// Those of [`Host::call_tool_with`].
    pub async fn run(
        self,
        host: &Host,
        reveal: bool,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let Self { server, target, validation, bypass_cache, timeout, written } = self;
        let written = written.and_then(|text| WrittenValue::parse(&text).ok());
        let canonical = |name: &str| format!("{server}.{name}");
        let options = CallOptions {
            timeout,
            bypass_cache,
            validation,
            origin: Origin::Dashboard,
            server: Some(server.clone()),
            numbers: written.map(|written| Arc::new(written.numbers)),
            ..options
        };
        let outcome = match target {
            CallTarget::Tool(name, arguments) => {
                host.call_tool_with(&canonical(&name), arguments, options).await
            }
            CallTarget::Prompt(name, arguments) => {
                host.get_prompt_with(&canonical(&name), arguments, options).await
            }
            CallTarget::Resource(uri) => host.get_resource_with(&uri, options).await,
            CallTarget::Complete(params) => host.complete(&server, params, options).await,
            CallTarget::Request(method, params) => {
                host.request(&server, &method, params, options).await
            }
        };
        let mut outcome = outcome?;
        if let Some(config) = host.server_config(&outcome.server).filter(|_| !reveal)
            && let Some(masked) = outcome.result.redacted(&Redactor::new(config.secrets()))
        {
            outcome.result = masked;
        }
        Ok(outcome)
    }
}

impl ClientOrder {
    fn run(self, clients: &Clients, origin: &str) -> Result<String, String> {
        let said = match self {
            Self::Pause if clients.pause(origin) => "its calls wait",
            Self::Pause => "its calls go on",
            Self::Cut => {
                clients.cut(origin);
                "its calls and streams were ended"
            }
            Self::Revoke => {
                clients.revoke(origin)?;
                "its token was revoked"
            }
        };
        Ok(format!("{origin}: {said}"))
    }
}

impl PolicyOrder {
    fn run(self, policy: &PolicyKeeper) -> Result<String, String> {
        match self {
            Self::Review { server, tool, digest, accept } => {
                let name = tool.as_deref();
                let (done, word) = if accept {
                    (policy.accept(&server, name, digest), "accepted")
                } else {
                    (policy.refuse(&server, name, digest), "refused")
                };
                done.map(|()| format!("{server} {}: {word}", name.unwrap_or("instructions")))
            }
            Self::Grant { origin, profile, tool, seconds } => {
                // What a caller asked for is a name here, not a pattern.
                if tool.contains(['*', '?', '[', ']', '{', '}', '!', '\\', '/', ':']) {
                    return Err(format!("`{tool}` cannot be granted by its name alone"));
                }
                let words = format!("{origin} may call {tool}");
                let now = policy.now();
                let until = seconds.map(|seconds| now.plus(Duration::from_secs(seconds)));
                let kind = match until {
                    Some(until) => GrantKind::Once { until: Some(until), session: None },
                    None => GrantKind::Always,
                };
                let scopes = [AccessScope::ToolsCall].into_iter().collect();
                let allowed_tools = vec![tool];
                policy
                    .grant(NewGrant { origin, profile, scopes, allowed_tools, kind })
                    .map(|grant| format!("grant {}: {words}", grant.id))
            }
            Self::Revoke(id) => match policy.revoke(id)? {
                Some(_) => Ok(format!("grant {id} revoked")),
                None => Err(format!("there is no grant {id}: it has ended already")),
            },
        }
    }
}
