//! The chat of `serve`: a page, a WebSocket, and sessions of everybody with a token.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};

use super::ModelArgs;
use crate::chat::session::{ChatSessions, SessionLimits};
use crate::chat::socket::{self, SocketLimits};
use crate::chat::store::SessionFile;
use crate::config::Environment;
use crate::deck::ChatStore;
use crate::gateway::GatewayService;
use crate::host::{AccessScope, Host};

/// The chat of `mcpdeck serve`
#[derive(Debug, Args)]
pub struct ServeChat {
    /// Serve a chat with a model too: a page at `/`, and `/ws`.
    #[arg(long, conflicts_with = "stdio")]
    chat: bool,
    /// Keep sessions in this file (`SQLite`): they go on after the program was started again. With
    /// `--store` they are kept there.
    #[arg(long, value_name = "FILE", requires = "chat", value_hint = ValueHint::FilePath)]
    sessions: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Adds the chat to a service: whoever chats may do what their token may. `shared` keeps the sessions
/// of all replicas.
///
/// # Errors
/// Says what is missing of the model.
pub fn serve(
    args: &ServeChat,
    shared: Option<Arc<dyn ChatStore>>,
    host: Host,
    service: &mut GatewayService,
) -> Result<(), String> {
    if !args.chat {
        return Ok(());
    }
    let mut env = Environment::of_process();
    env.sources = crate::deck::secret_sources(&env);
    let settings = args.model.settings(&env)?;
    let store = match (shared, args.sessions.as_ref().or(settings.sessions.as_ref())) {
        (Some(_), _) if args.sessions.is_some() => {
            let why = "it is a file of this machine, and with --store the replicas share their";
            return Err(format!("leave --sessions out: {why} sessions there"));
        }
        (Some(shared), _) => Some(shared),
        (None, file) => file.map(|file| SessionFile::open(file)).transpose()?,
    };
    let sessions = ChatSessions::new(host, settings.model(&env)?, SessionLimits::default(), store);
    let clients = service.clients();
    let who = move |token: &str| {
        let client = clients(token)?;
        client.may(AccessScope::ToolsCall).then(|| (client.principal(), client.cut))
    };
    service.serve_beside(socket::routes(sessions, Arc::new(who), SocketLimits::default()));
    Ok(())
}
