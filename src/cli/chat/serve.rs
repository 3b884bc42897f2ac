//! The chat of `serve`: a page, a WebSocket, and sessions for every client with a token.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};

use super::ModelArgs;
use ::chat::session::{ChatSessions, SessionLimits};
use ::chat::socket::{self, SocketLimits};
use ::chat::store::SessionFile;
use ::deck::{ChatStore, Clients};
use config::Environment;
use gateway::GatewayService;
use host::{AccessScope, Host};

/// The chat of `mcpdeck serve`
#[derive(Debug, Args)]
pub struct ServeChat {
    /// Also serve a chat with a model: a page at `/`, and a WebSocket at `/ws`.
    #[arg(long, conflicts_with = "stdio")]
    chat: bool,
    /// Keep sessions in this file (`SQLite`), so that they survive a restart. With `--store` they
    /// are kept in the store instead.
    #[arg(long, value_name = "FILE", requires = "chat", value_hint = ValueHint::FilePath)]
    sessions: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Adds the chat to a service; a chat has the permissions of its client's token. `shared` stores
/// the sessions of all replicas; the operator pauses `clients`.
///
/// # Errors
/// When the settings, the model or the session file cannot be used.
pub fn serve(
    args: &ServeChat,
    (shared, clients): (Option<Arc<dyn ChatStore>>, Clients),
    host: Host,
    service: &mut GatewayService,
) -> Result<(), String> {
    if !args.chat {
        return Ok(());
    }
    let mut env = Environment::of_process();
    env.sources = ::deck::secret_sources(&env);
    let settings = args.model.settings(&env)?;
    let store = match (shared, args.sessions.as_ref().or(settings.sessions.as_ref())) {
        (Some(_), _) if args.sessions.is_some() => {
            let why = "it is a file of this machine, and with --store the replicas share their";
            return Err(format!("leave --sessions out: {why} sessions there"));
        }
        (Some(shared), _) => Some(shared),
        (None, file) => file.map(|file| SessionFile::open(file)).transpose()?,
    };
    let (model, limits) = (settings.model(&env)?, SessionLimits::default());
    let sessions = ChatSessions::new(host, model, limits, store, clients);
    let client_of = service.clients();
    let who = move |token: &str| {
        let client = client_of(token)?;
        client.may(AccessScope::ToolsCall).then(|| (client.principal(), client.cut))
    };
    service.serve_beside(socket::routes(sessions, Arc::new(who), SocketLimits::default()));
    Ok(())
}
