//! A dashboard on a service that runs elsewhere: what it tells comes as the same messages that the
//! engine's own news are, what a person wants goes to it as orders.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::base::text::SafeText;
use crate::deck::local::{Look, Order, Seen};
use crate::error::{Error, ErrorCode};
use crate::tui::effect::{Effect, ServerCommand};
use crate::tui::message::Message;
use crate::tui::pick::ClientOrder;

/// The socket of the service.
#[derive(Clone, Debug)]
pub struct Remote(pub PathBuf);

/// A connection that asks and is answered, one line each.
struct Line(BufReader<UnixStream>);

impl Line {
    async fn open(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).await.map(|stream| Self(BufReader::new(stream)))
    }

    async fn ask(&mut self, request: &Value) -> io::Result<String> {
        self.0.write_all(format!("{request}\n").as_bytes()).await?;
        let mut line = String::new();
        match self.0.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}

/// Tells what happens at the service until the screen or the service is gone.
pub async fn run(remote: Remote, messages: mpsc::Sender<Message>) {
    let Err(error) = follow(&remote, &messages).await else { return };
    let text = format!("the service is gone: {error}");
    let _ = messages.send(Message::EngineFailed(Error::new(ErrorCode::Internal, text))).await;
}

/// Ends without an error when the screen is gone.
async fn follow(remote: &Remote, messages: &mpsc::Sender<Message>) -> io::Result<()> {
    let mut line = Line::open(&remote.0).await?;
    let mut seen = Seen::default();
    let mut begins = true;
    loop {
        let look = line.ask(&json!({"type": "look", "seen": seen})).await?;
        let look: Look = serde_json::from_str(&look)?;
        (seen.traffic, seen.logs) = (look.traffic.next(), look.logs.next());
        let mut news = Vec::new();
        if std::mem::take(&mut begins) {
            news.extend([Message::Config(None, Vec::new()), Message::EngineReady]);
        }
        if let Some(view) = look.view {
            seen.seq = view.seq;
            news.push(Message::View(view.into()));
        }
        let (oldest, oldest_log) = (look.traffic.oldest, look.logs.oldest);
        news.extend(look.traffic.batch().map(|batch| Message::Traffic(batch, oldest)));
        news.extend(look.logs.batch().map(|batch| Message::Logs(batch, oldest_log)));
        news.push(Message::Calls(look.calls));
        news.push(Message::Metrics(look.metrics));
        news.push(Message::Clients(look.clients, look.blocked));
        for message in news {
            if messages.send(message).await.is_err() {
                return Ok(());
            }
        }
    }
}

impl Remote {
    /// Does an effect at the service, when it is one of those that are done there; gives it back
    /// otherwise.
    pub fn perform(&self, effect: Effect, messages: &mpsc::Sender<Message>) -> Option<Effect> {
        let orders = match effect {
            Effect::Server(server, ServerCommand::Start) => vec![Order::Start(server)],
            Effect::Server(server, ServerCommand::Stop) => vec![Order::Stop(server)],
            Effect::Server(server, ServerCommand::Restart) => vec![Order::Restart(server)],
            Effect::Server(server, ServerCommand::Refresh) => vec![Order::Refresh(server)],
            Effect::Server(server, ServerCommand::ResetBreaker(tool)) => {
                vec![Order::ResetBreaker(server, tool)]
            }
            Effect::Answer(id, answer) => vec![Order::Answer(id, answer)],
            Effect::Deny(answers) => {
                answers.into_iter().map(|(id, answer)| Order::Answer(id, answer)).collect()
            }
            Effect::MoreTime(id, more) => vec![Order::MoreTime(id, more)],
            Effect::Client(ClientOrder::Pause, origin) => vec![Order::Pause(origin)],
            Effect::Client(ClientOrder::Cut, origin) => vec![Order::Cut(origin)],
            Effect::Client(ClientOrder::Revoke, origin) => vec![Order::Revoke(origin)],
            other => return Some(other),
        };
        let (path, messages) = (self.0.clone(), messages.clone());
        tokio::spawn(async move {
            for order in orders {
                let message = match ordered(&path, &order).await {
                    Ok(Some(said)) => Message::Done(SafeText::line(&said)),
                    Ok(None) => continue,
                    Err(error) => Message::Failed(error),
                };
                let _ = messages.send(message).await;
            }
        });
        None
    }
}

async fn ordered(path: &Path, order: &Order) -> Result<Option<String>, Error> {
    let asked =
        async { Line::open(path).await?.ask(&json!({"type": "order", "order": order})).await };
    let failed = |error: io::Error| Error::new(ErrorCode::Internal, error.to_string());
    let reply: Value =
        asked.await.and_then(|line| Ok(serde_json::from_str(&line)?)).map_err(failed)?;
    if let Some(message) = reply.pointer("/error/message").and_then(Value::as_str) {
        return Err(Error::new(ErrorCode::Internal, SafeText::line(message).as_str()));
    }
    Ok(reply["done"].as_str().map(str::to_owned))
}
