//! The OAuth account of one server: its authorizer, its sign-in steps, and at most one open sign-in
//! request to the user.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::command::Command;
use crate::Fact;
use crate::approvals::queue::own_request;
use crate::projector::Facts;
use crate::server::connect::OpenRequest;
use crate::server::lifecycle::LifecycleInput;
use crate::server::mailbox::Mailbox;
use crate::server::persons::CallerIdentity;
use crate::view::AccountView;
use base::{SafeText, ServerName, Timestamp};
use config::HttpConfig;
use mcp::{
    Accounts, AuthEvent, AuthFailure, AuthStep, Authorizer, SignIn, SignInPrompt, StoredToken,
    scopes_in_words,
};
use protocol::{
    Answer, Direction, MessageKind, RequestKind, Responder, ServerRequest, SessionContext,
    TrafficRecord,
};

/// The account of one server; outlives its sessions.
pub struct Account {
    commands: Weak<Mailbox>,
    state: Mutex<AccountState>,
}

#[derive(Default)]
struct AccountState {
    auth: Option<(Arc<Authorizer>, Arc<dyn Responder>, Facts)>,
    asking: Option<AbortOnDropHandle<()>>,
    /// The user declined, or the last sign-in failed: do not ask again.
    is_declined: bool,
}

impl Account {
    /// An account; `commands` is used to start its server after a sign-in.
    pub fn new(commands: Weak<Mailbox>) -> Self {
        Self { commands, state: Mutex::default() }
    }

    /// The authorizer, once the server was opened, if it allows sign-in.
    pub fn authorizer(&self) -> Option<Arc<Authorizer>> {
        self.state.lock().auth.as_ref().map(|(auth, ..)| Arc::clone(auth))
    }

    /// Creates the authorizer of the server being opened. With `asks`, the user is asked through
    /// the approval queue as soon as the server requires a sign-in.
    ///
    /// # Errors
    /// When a certificate of the entry cannot be used.
    pub fn open(
        self: &Arc<Self>,
        accounts: &Accounts,
        request: &OpenRequest,
        http: &HttpConfig,
        asks: bool,
    ) -> Result<Option<Arc<Authorizer>>, AuthFailure> {
        let (context, facts) = (request.context.clone(), request.steps.facts.clone());
        let approvals = Arc::clone(&context.approvals);
        let (me, sink) = (Arc::downgrade(self), facts.clone());
        let accounts = accounts.clone().masked_by(&context.redactor);
        let accounts = accounts.watch(move |server, event| match event {
            AuthEvent::Step { step, sent, answered } => {
                show(&context, step, sent, answered);
                sink.post(server, Fact::AuthStepped { step: step.clone() });
            }
            AuthEvent::Token(token) => {
                sink.post(server, Fact::AccountChanged { account: token.map(view) });
            }
            AuthEvent::Needed if asks => {
                if let Some(me) = me.upgrade() {
                    me.ask(server);
                }
            }
            AuthEvent::Needed => {}
        });
        let auth = accounts.authorizer(&request.config.name, http)?;
        self.state.lock().auth = auth.clone().map(|auth| (auth, approvals, facts));
        Ok(auth)
    }

    /// The authorizer of a person whose session with the server is being opened, with their first
    /// token. Its steps are shown in the traffic.
    ///
    /// # Errors
    /// Why there is no token.
    pub async fn open_person(
        accounts: &Accounts,
        request: &OpenRequest,
        http: &HttpConfig,
        caller: &CallerIdentity,
    ) -> Result<Arc<Authorizer>, AuthFailure> {
        let context = request.context.clone();
        context.redactor.learn([caller.token().clone()]);
        let accounts = accounts.clone().masked_by(&context.redactor);
        let accounts = accounts.watch(move |_, event| match event {
            AuthEvent::Step { step, sent, answered } => show(&context, step, sent, answered),
            // The account of the server is not theirs.
            AuthEvent::Token(_) | AuthEvent::Needed => {}
        });
        let auth = accounts.person(&request.config.name, http, caller.token())?;
        auth.refresh_now().await?;
        Ok(auth)
    }

    /// Stops asking the user to sign in, until [`Account::ask_again`].
    pub fn decline(&self) {
        self.withdraw();
        self.state.lock().is_declined = true;
    }

    /// Withdraws an open request.
    pub fn withdraw(&self) {
        self.state.lock().asking = None;
    }

    /// Asks the user to sign in, even after an earlier "not now".
    pub fn ask_again(self: &Arc<Self>, server: &ServerName) {
        self.state.lock().is_declined = false;
        self.ask(server);
    }

    /// Asks the user to sign in, unless a request is open or was declined.
    fn ask(self: &Arc<Self>, server: &ServerName) {
        let mut state = self.state.lock();
        let is_open = state.asking.as_ref().is_some_and(|asking| !asking.is_finished());
        let Some((auth, approvals, facts)) = state.auth.clone() else { return };
        if is_open || state.is_declined {
            return;
        }
        let (me, server) = (Arc::downgrade(self), server.clone());
        state.asking = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let done = auth.sign_in(&Inbox(approvals), Vec::new()).await;
            Self::settled(&me, done.map(drop), &server, &facts);
        })));
    }

    fn settled(me: &Weak<Self>, done: Result<(), AuthFailure>, server: &ServerName, facts: &Facts) {
        let Some(me) = me.upgrade() else { return };
        match done {
            // A no-op for a running server: its next request uses the token.
            Ok(()) => {
                if let Some(commands) = me.commands.upgrade() {
                    let start = Command::Control(LifecycleInput::Start, oneshot::channel().0);
                    let _ = commands.try_send(start);
                }
            }
            Err(failure) => {
                me.state.lock().is_declined = true;
                let help = SafeText::line(&failure.to_string());
                facts.post(server, Fact::Advised { help });
            }
        }
    }
}

fn view(token: &StoredToken) -> AccountView {
    let now = token.obtained_at;
    let end = token.left(now).map(|seconds| now.saturating_add(seconds));
    AccountView {
        issuer: SafeText::line(&token.issuer),
        scopes: token.scopes.iter().map(|scope| SafeText::line(scope)).collect(),
        expires: end.map(|seconds| Timestamp(seconds.saturating_mul(1_000_000))),
        is_refreshed: token.refresh_token.is_some(),
    }
}

/// Adds a step to the traffic as a request and a response, paired by a generated id.
fn show(context: &SessionContext, step: &AuthStep, sent: &str, answered: &str) {
    static STEPS: AtomicU64 = AtomicU64::new(1);
    let id = SafeText::line(&format!("sign-in {}", STEPS.fetch_add(1, Ordering::Relaxed)));
    let now = context.clock.now();
    let method = SafeText::line(&format!("sign-in: {}", step.kind.as_str()));
    let record = |direction, kind, body: &str| TrafficRecord {
        method: Some(method.clone()),
        target: Some(step.url.clone()),
        id: Some(id.clone()),
        ..context.passed(direction, kind, body.as_bytes())
    };
    let at = Timestamp(now.0.saturating_sub(step.took.as_micros() as u64));
    context.keep(TrafficRecord { at, ..record(Direction::Out, MessageKind::Request, sent) });
    let failed = step.refused.is_some() || step.status.is_some_and(|status| status >= 400);
    let kind = if failed { MessageKind::Error } else { MessageKind::Response };
    let (latency, problem) = (Some(step.took), step.refused.clone());
    context.keep(TrafficRecord { latency, problem, ..record(Direction::In, kind, answered) });
}

/// Submits sign-ins to the approval queue.
struct Inbox(Arc<dyn Responder>);

impl SignInPrompt for Inbox {
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>> {
        let asks = scopes_in_words(request.scopes.iter().map(SafeText::as_str));
        let SignIn { server, issuer, .. } = &request;
        let params = json!({
            "mode": "url",
            "message": format!("{server} asks you to sign in at {issuer}, for: {asks}"),
            "issuer": request.issuer,
            "scopes": request.scopes,
            "url": request.url.as_str(),
            "redirectUri": request.redirect_uri,
        });
        let own = own_request(request.server, RequestKind::SignIn, params);
        let asked = self.0.ask(ServerRequest { deferred: true, ..own });
        Box::pin(async move {
            match asked.await {
                Answer::Result(answer) if answer["action"] == "accept" => {
                    Ok(answer["content"]["address"].as_str().map(str::to_owned))
                }
                Answer::Result(_) => Err("not now".to_owned()),
                Answer::Refuse { message, .. } => Err(message),
            }
        })
    }
}
