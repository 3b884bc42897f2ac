//! The chat of `serve`: a page, a WebSocket, and sessions for every client with a token.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use sha2::{Digest as _, Sha256};

use super::ModelArgs;
use ::chat::TurnLimits;
use ::chat::session::{ChatSessions, SessionLimits};
use ::chat::socket::{self, LINK_PATH, SignIns, SocketLimits};
use ::chat::store::SessionFolder;
use ::deck::{ChatStore, Clients};
use base::file::random_hex;
use base::secret::Secret;
use config::Environment;
use gateway::GatewayService;
use host::{AccessScope, Host};

/// The chat of `mcpdeck serve`
#[derive(Debug, Args)]
pub struct ServeChat {
    /// Also serve a chat with a model: a page at `/`, and a WebSocket at `/ws`.
    #[arg(long, conflicts_with = "stdio")]
    chat: bool,
    /// Keep sessions in this folder, a file for each, so that they survive a restart. With
    /// `--store` they are kept in the store instead.
    #[arg(long, value_name = "FOLDER", requires = "chat", value_hint = ValueHint::DirPath)]
    sessions: Option<PathBuf>,
    /// Maximum cost of a conversation, in dollars; needs the price of the model in the settings.
    #[arg(long, value_name = "DOLLARS", requires = "chat", value_parser = super::dollars)]
    max_cost: Option<f64>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Adds the chat to a service; a chat has the permissions of its client's token. `shared` stores
/// the sessions of all replicas; the operator pauses `clients`. Returns the path of a link that signs
/// the operator's browser in, once.
///
/// # Errors
/// When the settings, the model or the folder of the sessions cannot be used.
pub fn serve(
    args: &ServeChat,
    (shared, clients): (Option<Arc<dyn ChatStore>>, Clients),
    host: Host,
    service: &mut GatewayService,
) -> Result<Option<String>, String> {
    if !args.chat {
        return Ok(None);
    }
    let mut env = Environment::of_process();
    env.sources = ::deck::secret_sources(&env);
    let settings = args.model.settings(&env)?;
    let store = match (shared, args.sessions.as_ref().or(settings.sessions.as_ref())) {
        (Some(_), _) if args.sessions.is_some() => {
            let why = "it is a folder of this machine, and with --store the replicas share their";
            return Err(format!("leave --sessions out: {why} sessions there"));
        }
        (Some(shared), _) => Some(shared),
        (None, file) => file.map(|file| SessionFolder::open(file)).transpose()?,
    };
    let model = settings.model(&env)?;
    let cost = settings.most_cost(args.max_cost, &*model, &env)?;
    let turn = TurnLimits { cost, ..TurnLimits::default() };
    let limits = SessionLimits { turn, ..SessionLimits::default() };
    let sessions = ChatSessions::new(host, model, limits, store, clients);
    let (client_of, operator) = (service.clients(), service.operator());
    // A token of this process alone, which the link stands for: that of the file is kept as a hash.
    let own = random_hex::<32>().map_err(|error| error.to_string())?;
    let own_hash = Sha256::digest(&own);
    let sign_ins = Arc::new(SignIns::default());
    let link = sign_ins.link(Secret::new(own)).map(|code| format!("{LINK_PATH}{code}"));
    let who = move |token: &str| {
        // Hashes are compared, so that the time tells nothing.
        let is_own = Sha256::digest(token) == own_hash;
        let client = if is_own { operator() } else { client_of(token)? };
        client.may(AccessScope::ToolsCall).then(|| (client.principal(), client.cut))
    };
    let limits = SocketLimits::default();
    service.serve_beside(socket::routes(sessions, Arc::new(who), limits, sign_ins));
    Ok(link)
}
