//! A dashboard on a service that runs elsewhere: what it tells comes as the same messages that the
//! engine's own news are, what a person wants goes to it as orders.

use std::io;
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::base::text::SafeText;
use crate::deck::local::{Look, Seen};
use crate::deck::order::{CallRequest, Order};
use crate::error::{Error, ErrorCode};
use crate::host::CallOutcome;
use crate::tui::message::{CallToken, Message};

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

    /// The answer, or the error that it is.
    async fn reply(&mut self, request: &Value) -> Result<Value, Error> {
        let reply = self.ask(request).await.map_err(|error| lost(&error))?;
        let reply: Value = serde_json::from_str(&reply).map_err(|error| lost(&error.into()))?;
        match reply.pointer("/error/message").and_then(Value::as_str) {
            Some(why) => {
                let error = Error::new(ErrorCode::Internal, SafeText::line(why).as_str());
                let help = reply.pointer("/error/help").and_then(Value::as_str);
                Err(match help {
                    Some(help) => error.help(SafeText::line(help).as_str()),
                    None => error,
                })
            }
            None => Ok(reply),
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
        (seen.traffic, seen.logs) = (look.traffic.batch.next, look.logs.batch.next);
        let mut news = Vec::new();
        if std::mem::take(&mut begins) {
            news.push(Message::EngineReady);
        }
        if let Some(view) = look.view {
            seen.seq = view.seq;
            news.push(Message::View(view.into()));
        }
        if !look.traffic.batch.items.is_empty() {
            news.push(Message::Traffic(look.traffic.batch, look.traffic.oldest));
        }
        if !look.logs.batch.items.is_empty() {
            news.push(Message::Logs(look.logs.batch, look.logs.oldest));
        }
        news.push(Message::Calls(look.calls));
        news.push(Message::Metrics(look.metrics));
        news.push(Message::Clients(look.clients, look.blocked));
        news.extend(look.policy.map(Message::Policy));
        for message in news {
            if messages.send(message).await.is_err() {
                return Ok(());
            }
        }
    }
}

impl Remote {
    /// Has an order done at the service; gives what there is to say.
    pub fn perform(self, order: Order) -> BoxFuture<'static, Result<Option<SafeText>, Error>> {
        Box::pin(async move {
            let reply = self.line().await?.reply(&json!({"type": "order", "order": order})).await?;
            Ok(reply["done"].as_str().map(SafeText::line))
        })
    }

    /// Makes a call at the service. Dropping what this gives cancels it there.
    pub async fn call(
        self,
        token: CallToken,
        request: CallRequest,
        reveal: bool,
        messages: &mpsc::Sender<Message>,
    ) -> Result<CallOutcome, Error> {
        let mut line = self.line().await?;
        let id = line.reply(&json!({"type": "callId"})).await?["id"].take();
        let began = serde_json::from_value(id.clone()).map_err(|error| lost(&error.into()))?;
        let _ = messages.send(Message::CallBegan(token, began)).await;
        let call = json!({"type": "call", "id": id, "request": request, "reveal": reveal});
        let ended = line.reply(&call).await?["ended"].take();
        let ended: Result<CallOutcome, Error> =
            serde_json::from_value(ended).map_err(|error| lost(&error.into()))?;
        ended
    }

    async fn line(&self) -> Result<Line, Error> {
        Line::open(&self.0).await.map_err(|error| lost(&error))
    }
}

fn lost(error: &io::Error) -> Error {
    Error::new(ErrorCode::Internal, format!("the service does not answer: {error}"))
        .help("leave, and attach again when it runs")
}
