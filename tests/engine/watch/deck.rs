//! A deck over a file and scripted servers, without a screen: what is written
//! to the file happens to real processes.

use std::path::PathBuf;
use std::time::Duration;

use mcpdeck::base::ServerName;
use mcpdeck::config::{Environment, TransportConfig};
use mcpdeck::deck::ConfigCommand;
use mcpdeck::host::{HostView, ServerState};
use mcpdeck::{Deck, Host, Startup};
use serde_json::{Value, json};

use crate::support::Bench;

/// Long enough for any machine; reached only when something is wrong.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A running deck over `mcp.json` of a bench.
pub struct Running {
    pub bench: Bench,
    pub file: PathBuf,
    pub host: Host,
    pub deck: Deck,
}

/// Whether the process of a server in the view carries this number in its environment: an entry in
/// use is one thing, the process that was started with it another.
pub fn carries(view: &HostView, server: &str, edit: u64) -> bool {
    let Some(pid) = view.servers.get(server).and_then(|server| server.pid) else { return false };
    let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = format!("EDIT={edit}");
    environ.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes())
}

/// A script of a server with a quick tool and a slow one.
pub fn script() -> Value {
    let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
    json!({
        "tools": [tool("quick"), tool("slow")],
        "calls": {"quick": {"text": "quick"}, "slow": [{"delay": 2500}, {"text": "slow"}]},
    })
}

impl Running {
    /// Over this text; commands need no approval.
    pub async fn start(bench: Bench, text: &str) -> Self {
        Self::with(bench, text, &[]).await
    }

    /// The same with more variables.
    pub async fn with(bench: Bench, text: &str, vars: &[(&str, &str)]) -> Self {
        let file = bench.write("mcp.json", text);
        let mut environment = Environment::of_process();
        environment.cwd = bench.path().to_path_buf();
        for (name, value) in vars {
            environment.vars.insert((*name).to_owned(), mcpdeck::base::secret::Secret::new(*value));
        }
        let deck = Deck::builder()
            .files(vec![file.clone()])
            .environment(environment)
            .host(Host::builder().startup(Startup::Background))
            .open()
            .await
            .expect("it opens");
        let host = deck.host().clone();
        Self { bench, file, host, deck }
    }

    /// Asks the engine for something.
    pub fn ask(&self, command: ConfigCommand) {
        self.deck.ask(command).expect("it was taken");
    }

    /// Waits until the view is as wanted; takes what the engine tells meanwhile.
    pub async fn until(&mut self, what: &str, wanted: impl Fn(&HostView) -> bool) {
        let mut view = self.host.view();
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            if wanted(&view.borrow_and_update()) {
                return;
            }
            tokio::select! {
                changed = view.changed() => changed.expect("the host runs"),
                _ = self.deck.next() => {}
                () = tokio::time::sleep_until(deadline) => {
                    let text = std::fs::read_to_string(&self.file).unwrap_or_default();
                    panic!("never: {what}\nfile: {text}\nview: {:#?}", view.borrow().servers.values().map(|s| (&s.name, s.state, &s.reason, s.pid, s.starts)).collect::<Vec<_>>())
                }
            }
        }
    }

    /// Waits until all servers of the view are ready, and these are all.
    pub async fn ready(&mut self, names: &[&str]) {
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        self.until(&format!("{names:?} are ready"), |view| {
            let mut now: Vec<&str> = view.servers.keys().map(ServerName::as_str).collect();
            now.sort_unstable();
            now == sorted && view.servers.values().all(|s| s.state == ServerState::Ready)
        })
        .await;
    }

    /// The process of a server.
    pub fn pid(&self, server: &str) -> Option<u32> {
        self.host.view().borrow().servers.get(server)?.pid
    }

    /// A variable of a server's entry, as it is in use.
    pub fn variable(&self, server: &str, name: &str) -> Option<String> {
        let config = self.host.server_config(&ServerName::new(server))?;
        let TransportConfig::Stdio(stdio) = &config.transport else { return None };
        stdio.env.get(name).map(|value| value.expose().to_owned())
    }

    /// Stops everything; nothing of it may be left.
    pub async fn end(self) {
        let Self { bench, deck, .. } = self;
        deck.shutdown().await;
        bench.expect_nothing_left(Duration::from_secs(10));
    }
}
