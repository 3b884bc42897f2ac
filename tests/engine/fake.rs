//! In-process fake servers: what they list, how they answer, when they die.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpdeck::base::ServerName;
use mcpdeck::base::text::SafeText;
use mcpdeck::config::{McpConfig, ServerConfig, StdioConfig, TransportConfig};
use mcpdeck::host::{
    Connector, ExitReport, Host, HostBuilder, OpenError, OpenRequest, Opened, ProcessHandle,
    ServerState, StopPlan,
};
use mcpdeck::mcp::{Request, SessionHandle};
use mcpdeck::process::ExitView;
use mcpdeck::process::Usage;
use mcpdeck::protocol::{
    Era, FetchedList, ListKind, Payload, PendingRequest, SessionContext, SessionEvent, SessionView,
};
use mcpdeck::{Error, ErrorCode};
use serde_json::{Value, json};
use tokio::sync::watch;

type Answer = Arc<
    dyn Fn(Request, Arc<PendingRequest>) -> BoxFuture<'static, Result<Value, Error>> + Send + Sync,
>;

/// Behavior of a fake server. Shared, so that a test can change it at run time.
pub struct Server {
    /// How long a start takes.
    pub start: Mutex<Duration>,
    /// Start attempts that fail before one succeeds; true for transient failures.
    pub failures: Mutex<Vec<bool>>,
    pub lists: Mutex<HashMap<ListKind, Vec<Value>>>,
    answer: Mutex<Answer>,
    /// Number of start attempts.
    pub opens: AtomicU32,
    /// Number of list fetches.
    pub fetches: AtomicU32,
    /// Number of notifications of changed roots.
    pub roots_changes: AtomicU32,
    /// Number of stops.
    pub stops: AtomicU32,
    /// How long a stop takes.
    pub stop: Mutex<Duration>,
    /// Whether requests continue after their session was closed.
    pub detached: AtomicBool,
    /// Whether its process is stopped by a signal.
    pub suspended: AtomicBool,
    live: Mutex<Option<(SessionContext, watch::Sender<Option<ExitView>>)>>,
}

impl Default for Server {
    fn default() -> Self {
        let echo = json!({"name": "echo", "inputSchema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "text": {"type": "string"}},
            "additionalProperties": false,
        }});
        Self {
            start: Mutex::new(Duration::from_secs(1)),
            failures: Mutex::default(),
            lists: Mutex::new(HashMap::from([(ListKind::Tools, vec![echo])])),
            answer: Mutex::new(Arc::new(|request, context| {
                context.bytes.sent(10);
                context.bytes.received(20);
                let said = match request {
                    Request::CallTool { arguments, .. } => (*arguments).clone(),
                    Request::ReadResource { uri } => json!(&*uri),
                    other => json!(format!("{other:?}")),
                };
                async move { Ok(json!({"content": [], "said": said})) }.boxed()
            })),
            opens: AtomicU32::new(0),
            fetches: AtomicU32::new(0),
            roots_changes: AtomicU32::new(0),
            stops: AtomicU32::new(0),
            stop: Mutex::new(Duration::ZERO),
            detached: AtomicBool::new(false),
            suspended: AtomicBool::new(false),
            live: Mutex::default(),
        }
    }
}

impl Server {
    /// Sets how requests are answered.
    pub fn answers<F, R>(&self, answer: F)
    where
        F: Fn(Request, Arc<PendingRequest>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, Error>> + Send + 'static,
    {
        *self.answer.lock().unwrap() = Arc::new(move |r, c| answer(r, c).boxed());
    }

    /// Sends an event to its owner.
    pub async fn tell(&self, event: SessionEvent) {
        let context = self.context();
        context.events.send(event).await.unwrap();
    }

    /// Its process exits with this code.
    pub fn die(&self, code: i32) {
        let exit = ExitView { code: Some(code), ..ExitView::default() };
        self.live.lock().unwrap().as_ref().unwrap().1.send_replace(Some(exit));
    }

    /// The context of its current session.
    pub fn context(&self) -> SessionContext {
        self.live.lock().unwrap().as_ref().unwrap().0.clone()
    }

    pub fn opens(&self) -> u32 {
        self.opens.load(Ordering::SeqCst)
    }

    pub fn lists(&self, kind: ListKind, entries: &[Value]) {
        self.lists.lock().unwrap().insert(kind, entries.to_vec());
    }
}

/// All servers of a test, by name.
#[derive(Clone, Default)]
pub struct World {
    pub servers: Arc<Mutex<HashMap<String, Arc<Server>>>>,
    /// Names in the order in which their processes ended.
    pub gone: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub fn server(&self, name: &str) -> Arc<Server> {
        Arc::clone(self.servers.lock().unwrap().entry(name.to_owned()).or_default())
    }

    pub fn host(&self, config: McpConfig) -> HostBuilder {
        Host::builder().config(config).connector(self.clone())
    }
}

/// A listed tool.
pub fn tool(name: &str, hints: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "annotations": hints})
}

pub fn name(name: &str) -> ServerName {
    ServerName::new(name)
}

/// A configuration of servers with their dependencies.
pub fn config(servers: &[(&str, &[&str])]) -> McpConfig {
    let mut all = McpConfig::default();
    for (server, dependencies) in servers {
        let stdio = StdioConfig {
            command: (*server).to_owned(),
            args: vec![],
            env: indexmap::IndexMap::default(),
            cwd: None,
            inherit_env: false,
            limits: mcpdeck::config::ProcessLimits::default(),
        };
        let mut entry = ServerConfig::new(name(server), TransportConfig::Stdio(stdio));
        entry.dependencies = dependencies.iter().map(|dependency| name(dependency)).collect();
        all.servers.insert(name(server), entry);
    }
    all
}

/// Waits for a condition of the view.
pub async fn until(host: &Host, wanted: impl FnMut(&mcpdeck::host::HostView) -> bool) {
    let mut wanted = wanted;
    let mut view = host.view();
    let waiting = view.wait_for(|view| wanted(view));
    tokio::time::timeout(Duration::from_secs(600), waiting).await.expect("it happens").unwrap();
}

pub fn state(host: &Host, server: &str) -> ServerState {
    host.view().borrow().servers[server].state
}

impl Connector for World {
    fn open(&self, request: OpenRequest) -> BoxFuture<'static, Result<Opened, OpenError>> {
        let (world, server) = (self.clone(), self.server(request.config.name.as_str()));
        async move {
            server.opens.fetch_add(1, Ordering::SeqCst);
            let delay = *server.start.lock().unwrap();
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = request.cancel.cancelled() => {
                    return Err(OpenError::lasting(Error::new(ErrorCode::Cancelled, "given up")));
                }
            }
            if let Some(passes) = server.failures.lock().unwrap().pop() {
                let error = Error::new(ErrorCode::ServerStartup, "it did not want to");
                return Err(OpenError { retryable: passes, ..OpenError::lasting(error) });
            }
            let (exit, _) = watch::channel(None);
            *server.live.lock().unwrap() = Some((request.context.clone(), exit.clone()));
            let process = FakeProcess {
                name: request.config.name.to_string(),
                server: Arc::clone(&server),
                gone: Arc::clone(&world.gone),
                exit,
            };
            Ok(Opened {
                session: Arc::new(FakeSession { server, closing: watch::channel(None).0 }),
                process: (!request.config.transport.is_address()).then(|| Arc::new(process) as _),
            })
        }
        .boxed()
    }
}

struct FakeProcess {
    name: String,
    server: Arc<Server>,
    gone: Arc<Mutex<Vec<String>>>,
    exit: watch::Sender<Option<ExitView>>,
}

impl ProcessHandle for FakeProcess {
    fn is_suspended(&self) -> bool {
        self.server.suspended.load(Ordering::SeqCst)
    }

    fn pid(&self) -> u32 {
        4711
    }

    fn exited(&self) -> BoxFuture<'static, ()> {
        let mut exit = self.exit.subscribe();
        async move { drop(exit.wait_for(Option::is_some).await) }.boxed()
    }

    fn stop(&self, plan: StopPlan) -> BoxFuture<'static, ExitReport> {
        let (exit, gone) = (self.exit.clone(), Arc::clone(&self.gone));
        let (name, server) = (self.name.clone(), Arc::clone(&self.server));
        async move {
            server.stops.fetch_add(1, Ordering::SeqCst);
            if exit.borrow().is_none() {
                let wait = *server.stop.lock().unwrap();
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = plan.force.cancelled() => {}
                }
                let view = ExitView { code: Some(0), expected: true, ..ExitView::default() };
                exit.send_replace(Some(view));
            }
            gone.lock().unwrap().push(name);
            let exit = exit.borrow().clone().unwrap();
            ExitReport { exit, stderr_tail: vec![SafeText::line("last words")] }
        }
        .boxed()
    }

    fn usage(&self) -> Option<Usage> {
        None
    }
}

struct FakeSession {
    server: Arc<Server>,
    closing: watch::Sender<Option<Error>>,
}

impl SessionHandle for FakeSession {
    fn view(&self) -> Arc<SessionView> {
        let text = SafeText::line("fake");
        Arc::new(SessionView {
            era: Era::Legacy,
            protocol_version: SafeText::line("2025-11-25"),
            name: text.clone(),
            version: text,
            title: None,
            instructions: None,
            capabilities: Arc::new(json!({"tools": {}, "prompts": {}, "resources": {}})),
            server_info: Arc::new(json!({})),
        })
    }

    fn request(
        &self,
        request: Request,
        context: Arc<PendingRequest>,
    ) -> BoxFuture<'static, Result<Payload, Error>> {
        let answer = Arc::clone(&self.server.answer.lock().unwrap());
        let mut exit = self.server.live.lock().unwrap().as_ref().unwrap().1.subscribe();
        let mut closing = self.closing.subscribe();
        let detached = self.server.detached.load(Ordering::SeqCst);
        async move {
            if detached {
                return answer(request, context).await.map(Payload::from);
            }
            let cancel = context.cancel.clone();
            tokio::select! {
                biased;
                Ok(reason) = closing.wait_for(Option::is_some) => Err(reason.clone().unwrap()),
                answer = answer(request, context) => answer.map(Payload::from),
                _ = exit.wait_for(Option::is_some) => {
                    Err(Error::new(ErrorCode::ServerUnavailable, "the connection closed"))
                }
                () = cancel.cancelled() => Err(Error::new(ErrorCode::Cancelled, "cancelled")),
            }
        }
        .boxed()
    }

    fn list(&self, kind: ListKind) -> BoxFuture<'static, Result<FetchedList, Error>> {
        self.server.fetches.fetch_add(1, Ordering::SeqCst);
        let entries = self.server.lists.lock().unwrap().get(&kind).cloned().unwrap_or_default();
        let entries = entries.into_iter().map(|entry| Arc::new(entry.into())).collect();
        async move { Ok(FetchedList { entries, ..FetchedList::default() }) }.boxed()
    }

    fn roots_changed(&self) -> BoxFuture<'static, ()> {
        self.server.roots_changes.fetch_add(1, Ordering::SeqCst);
        async {}.boxed()
    }

    fn close(&self, reason: Error) -> BoxFuture<'static, ()> {
        self.closing.send_replace(Some(reason));
        async {}.boxed()
    }
}
