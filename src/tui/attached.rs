//! A dashboard attached to a service in another process: events arrive over a socket instead of
//! from the engine's thread, and orders of the user go back over it.

use std::io;
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::message::{CallToken, Message};
use base::text::SafeText;
use base::text::json::WrittenValue;
use config::error::{Error, ErrorCode};
use deck::{CallRequest, Order};
use host::CallOutcome;

/// The socket of the service.
#[derive(Clone, Debug)]
pub struct AttachedSocket(pub PathBuf);

/// A connection with one line per request and per reply.
struct SocketLine(BufReader<UnixStream>);

impl SocketLine {
    async fn open(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).await.map(|stream| Self(BufReader::new(stream)))
    }

    async fn write(&mut self, request: &Value) -> io::Result<()> {
        self.0.write_all(format!("{request}\n").as_bytes()).await
    }

    async fn read(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    /// Sends a request; returns the reply, or the error it carries.
    async fn reply(&mut self, request: &Value) -> Result<WrittenValue, Error> {
        let reply = async {
            self.write(request).await?;
            self.read().await
        };
        let reply = reply.await.map_err(|error| lost(&error))?;
        let reply = WrittenValue::parse(&reply).map_err(|error| lost(&io::Error::other(error)))?;
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

/// Forwards the service's events until the screen or the service is gone.
pub async fn run(remote: AttachedSocket, messages: mpsc::Sender<Message>) {
    let Err(error) = follow(&remote, &messages).await else { return };
    let text = format!("the service is gone: {error}");
    let _ = messages.send(Message::EngineFailed(Error::new(ErrorCode::Internal, text))).await;
}

/// Returns `Ok` when the screen is gone.
async fn follow(remote: &AttachedSocket, messages: &mpsc::Sender<Message>) -> io::Result<()> {
    let mut line = SocketLine::open(&remote.0).await?;
    line.write(&json!({"type": "follow"})).await?;
    let mut message = Message::EngineReady;
    while messages.send(message).await.is_ok() {
        message = Message::News(serde_json::from_str(&line.read().await?)?);
    }
    Ok(())
}

impl AttachedSocket {
    /// Has the service perform an order; returns a message for the user, if any.
    pub fn perform(self, order: Order) -> BoxFuture<'static, Result<Option<SafeText>, Error>> {
        Box::pin(async move {
            let reply = self.line().await?.reply(&json!({"type": "order", "order": order})).await?;
            Ok(reply["done"].as_str().map(SafeText::line))
        })
    }

    /// Makes a call through the service. Dropping the future cancels it there.
    pub async fn call(
        self,
        token: CallToken,
        request: CallRequest,
        reveal: bool,
        messages: &mpsc::Sender<Message>,
    ) -> Result<CallOutcome, Error> {
        let mut line = self.line().await?;
        let id = line.reply(&json!({"type": "callId"})).await?["id"].clone();
        let began = serde_json::from_value(id.clone()).map_err(|error| lost(&error.into()))?;
        let _ = messages.send(Message::CallBegan(token, began)).await;
        let call = json!({"type": "call", "id": id, "request": request, "reveal": reveal});
        let ended = line.reply(&call).await?.part("/ended").to_string();
        serde_json::from_str(&ended).map_err(|error| lost(&error.into()))?
    }

    async fn line(&self) -> Result<SocketLine, Error> {
        SocketLine::open(&self.0).await.map_err(|error| lost(&error))
    }
}

fn lost(error: &io::Error) -> Error {
    Error::new(ErrorCode::Internal, format!("the service does not answer: {error}"))
        .help("quit, and attach again when it runs")
}
