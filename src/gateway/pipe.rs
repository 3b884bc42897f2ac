//! The transport of `mcpdeck serve --stdio`: one message on each line (basic/transports, "stdio").
//! Numbers go both ways as they were written, which the transport of rmcp rounds.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use futures::StreamExt as _;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use super::batch::{self, is_batch};
use super::misfit::flaw;
use super::raw::{SentNumbers, to_text};

/// Longest line of a client, in bytes; a longer one is skipped.
const MAX_LINE_BYTES: usize = 16 << 20;

/// The server's end of a pair of pipes.
pub(crate) struct MessagePipe<R, W> {
    lines: FramedRead<R, LinesCodec>,
    /// Whether the last line could not be read: the end that is reported next is not that of the
    /// pipe.
    has_failed: bool,
    /// Messages of a batch that were read and not handed on yet.
    queued: VecDeque<String>,
    /// Batches that are not answered yet (2025-03-26, basic, "Batching").
    batches: Arc<parking_lot::Mutex<Vec<OpenBatch>>>,
    output: Arc<Mutex<Option<W>>>,
}

/// A batch whose answers go out together.
#[derive(Default)]
struct OpenBatch {
    waiting: Vec<RequestId>,
    answers: Vec<String>,
}

/// What is looked at in a message that is not one of the protocol.
#[derive(Deserialize)]
struct MessageHead {
    id: Option<RequestId>,
    method: Option<IgnoredAny>,
}

impl<R: AsyncRead, W> MessagePipe<R, W> {
    pub fn new(input: R, output: W) -> Self {
        let lines = FramedRead::new(input, LinesCodec::new_with_max_length(MAX_LINE_BYTES));
        Self {
            lines,
            has_failed: false,
            queued: VecDeque::new(),
            batches: Arc::default(),
            output: Arc::new(Mutex::new(Some(output))),
        }
    }
}

impl<R, W: AsyncWrite + Send + Unpin + 'static> MessagePipe<R, W> {
    /// Takes the messages of a batch one after the other; one within it is refused as no message.
    fn open_batch(&mut self, line: &str) {
        let messages = match batch::read(line.as_bytes()) {
            Ok(messages) => messages,
            Err(why) => {
                let error = ErrorData::invalid_request(why, None);
                return self.refuse(&ServerJsonRpcMessage::error(error, None));
            }
        };
        let ids = messages.iter().filter_map(|message| message.id.clone());
        // What has no usable id is answered alone.
        let waiting: Vec<_> = ids.filter_map(|id| serde_json::from_value(id).ok()).collect();
        if !waiting.is_empty() {
            self.batches.lock().push(OpenBatch { waiting, answers: Vec::new() });
        }
        let texts = messages.into_iter().map(|message| message.text.get().to_owned());
        self.queued
            .extend(texts.map(|text| if is_batch(text.as_bytes()) { "0".into() } else { text }));
    }

    /// Nobody answers what was cancelled: the other answers of its batch do not wait for it.
    fn let_go(&self, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Notification(sent) = message else { return };
        let ClientNotification::CancelledNotification(cancelled) = &sent.notification else {
            return;
        };
        let Some(id) = &cancelled.params.request_id else { return };
        let mut batches = self.batches.lock();
        let waits = |batch: &OpenBatch| batch.waiting.iter().position(|waiting| waiting == id);
        let found = batches.iter().enumerate().find_map(|(at, batch)| Some((at, waits(batch)?)));
        let Some((at, place)) = found else { return };
        batches[at].waiting.swap_remove(place);
        if !batches[at].waiting.is_empty() {
            return;
        }
        let answers = batches.swap_remove(at).answers;
        if !answers.is_empty() {
            let output = Arc::clone(&self.output);
            tokio::spawn(async move { write(&output, format!("[{}]", answers.join(","))).await });
        }
    }

    /// Answers a line that is not handed on.
    fn refuse(&self, refusal: &ServerJsonRpcMessage) {
        let (output, text) = (Arc::clone(&self.output), sent(&self.batches, refusal));
        // Written beside: the caller's future may be dropped, and the answer lost.
        tokio::spawn(async move {
            match text? {
                Some(text) => write(&output, text).await,
                None => Ok(()),
            }
        });
    }
}

impl MessagePipe<tokio::io::Stdin, tokio::io::Stdout> {
    /// The pipes of this process.
    pub fn standard() -> Self {
        Self::new(tokio::io::stdin(), tokio::io::stdout())
    }
}

/// Reads a line.
///
/// # Errors
/// What its sender is told, if anything: a notification and what is not JSON get no answer.
fn read(line: &str) -> Result<ClientJsonRpcMessage, Option<Box<ServerJsonRpcMessage>>> {
    let line = line.trim_start_matches('\u{feff}');
    let refused = |error: ErrorData| {
        let head = serde_json::from_str::<MessageHead>(line);
        let is_notification = head.as_ref().is_ok_and(|it| it.method.is_some() && it.id.is_none());
        let id = head.ok().and_then(|head| head.id);
        (!is_notification).then(|| Box::new(ServerJsonRpcMessage::error(error, id)))
    };
    let sent = SentNumbers::read(line.as_bytes());
    let sent = sent.map_err(|why| refused(ErrorData::invalid_params(why, None)))?;
    let readable = sent.as_ref().map_or(line, |(readable, _)| readable);
    let mut message: ClientJsonRpcMessage = serde_json::from_str(readable).map_err(|error| {
        tracing::debug!(target: "mcpdeck::gateway", %error, "a line is not a message");
        let value = serde_json::from_str(readable).unwrap_or_default();
        let why = flaw(&value).map_or_else(|| error.to_string(), str::to_owned);
        let why = format!("Invalid request: {why}");
        let invalid = || refused(ErrorData::invalid_request(why, None));
        error.is_data().then(invalid).flatten()
    })?;
    if let (Some((_, numbers)), ClientJsonRpcMessage::Request(_)) = (sent, &message) {
        message.insert_extension(numbers);
    }
    Ok(message)
}

/// The text to send for a message: an answer within a batch waits for the others.
fn sent(
    batches: &parking_lot::Mutex<Vec<OpenBatch>>,
    message: &ServerJsonRpcMessage,
) -> io::Result<Option<String>> {
    let text = to_text(message)?;
    let id = match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
    };
    let Some(id) = id else { return Ok(Some(text)) };
    let mut batches = batches.lock();
    let of_batch = |batch: &OpenBatch| batch.waiting.iter().position(|waiting| waiting == id);
    let found = batches.iter().enumerate().find_map(|(at, batch)| Some((at, of_batch(batch)?)));
    let Some((at, place)) = found else { return Ok(Some(text)) };
    batches[at].waiting.swap_remove(place);
    batches[at].answers.push(text);
    let is_whole = batches[at].waiting.is_empty();
    Ok(is_whole.then(|| format!("[{}]", batches.swap_remove(at).answers.join(","))))
}

async fn write<W: AsyncWrite + Unpin>(
    output: &Mutex<Option<W>>,
    mut text: String,
) -> io::Result<()> {
    text.push('\n');
    let mut output = output.lock().await;
    let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    output.write_all(text.as_bytes()).await?;
    output.flush().await
}

impl<R, W> Transport<RoleServer> for MessagePipe<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (output, text) = (Arc::clone(&self.output), sent(&self.batches, &message));
        async move {
            match text? {
                Some(text) => write(&output, text).await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = match self.queued.pop_front() {
                Some(message) => Some(Ok(message)),
                None => self.lines.next().await,
            };
            match line {
                Some(Ok(line)) if line.trim().is_empty() => {}
                Some(Ok(line)) if is_batch(line.as_bytes()) => self.open_batch(&line),
                Some(Ok(line)) => match read(&line) {
                    Ok(message) => {
                        self.let_go(&message);
                        return Some(message);
                    }
                    Err(Some(refusal)) => self.refuse(&refusal),
                    Err(None) => {}
                },
                Some(Err(LinesCodecError::Io(error)))
                    if error.kind() != io::ErrorKind::InvalidData =>
                {
                    tracing::debug!(target: "mcpdeck::gateway", %error, "stdin cannot be read");
                    return None;
                }
                Some(Err(error)) => {
                    tracing::warn!(target: "mcpdeck::gateway", %error, "a line was skipped");
                    self.has_failed = true;
                }
                None if std::mem::take(&mut self.has_failed) => {}
                None => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    #[tokio::test]
    async fn messages_are_read_over_what_is_none() {
        let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        let long = format!("\"{}\"", "x".repeat(MAX_LINE_BYTES));
        let wrong = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":7}"#;
        let input = [b"\xff\n", long.as_bytes(), b"\nno JSON\n\r\n", wrong.as_bytes(), b"\r\n"];
        let input = [input.concat(), ping.as_bytes().to_vec()].concat();
        let (ours, theirs) = tokio::io::duplex(1 << 10);
        let mut pipe = MessagePipe::new(&input[..], ours);
        let message = pipe.receive().await.expect("a message");
        assert!(matches!(message, ClientJsonRpcMessage::Request(_)), "{message:?}");
        assert!(pipe.receive().await.is_none());
        let answer = BufReader::new(theirs).lines().next_line().await;
        let answer = answer.expect("readable").expect("an answer");
        assert!(answer.contains(r#""id":"a""#) && answer.contains("-32600"), "{answer}");
    }

    #[tokio::test]
    async fn numbers_are_kept_beside_their_request() {
        let number = "123456789012345678901234567890";
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","arguments":{{"n":{number}}}}}}}"#
        );
        let mut pipe = MessagePipe::new(line.as_bytes(), tokio::io::sink());
        let message = pipe.receive().await.expect("a message");
        let ClientJsonRpcMessage::Request(request) = message else { panic!("{message:?}") };
        let extensions = rmcp::model::GetExtensions::extensions(&request.request);
        let numbers = SentNumbers::sent(extensions, "/arguments").expect("kept");
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [("/n", number)]);
    }
}
