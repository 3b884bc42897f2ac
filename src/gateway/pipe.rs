//! The transport of `mcpdeck serve --stdio`: one message on each line (basic/transports, "stdio").
//! Numbers go both ways as they were written, which the transport of rmcp rounds.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use mcp::{LineSplitter, Oversized, PipeLine};
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use super::batch::{self, is_batch};
use super::misfit::{flaw, id_of_request};
use super::raw::{SentNumbers, mended, to_text};
use super::sessions::DRAIN_TIMEOUT;

/// Longest line of a client, in bytes; a longer one is refused.
const MAX_LINE_BYTES: usize = 16 << 20;

/// The server's end of a pair of pipes.
pub(crate) struct MessagePipe<R, W> {
    lines: LineSplitter<R>,
    has_ended: bool,
    /// The revision that was agreed on, once one was.
    revision: Option<String>,
    /// Messages of a batch that were read and not handed on yet.
    queued: VecDeque<String>,
    /// Batches that are not answered yet (2025-03-26, basic, "Batching").
    batches: Arc<parking_lot::Mutex<Vec<OpenBatch>>>,
    output: Arc<Mutex<Option<W>>>,
    /// Answers of the pipe itself that are being written.
    writing: TaskTracker,
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
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

impl MessageHead {
    /// Whether it is an answer or a notification, which nobody answers.
    const fn is_unanswered(&self) -> bool {
        match self.method {
            Some(_) => self.id.is_none(),
            None => self.result.is_some() || self.error.is_some(),
        }
    }
}

impl<R: AsyncRead + Unpin, W> MessagePipe<R, W> {
    pub fn new(input: R, output: W) -> Self {
        Self {
            lines: LineSplitter::new(input, MAX_LINE_BYTES),
            has_ended: false,
            revision: None,
            queued: VecDeque::new(),
            batches: Arc::default(),
            output: Arc::new(Mutex::new(Some(output))),
            writing: TaskTracker::new(),
        }
    }

    /// The next line; `None` when the pipe has ended.
    async fn next_line(&mut self) -> Option<PipeLine> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Some(line);
            }
            if self.has_ended {
                return None;
            }
            match self.lines.fill().await {
                Ok(0) => {
                    self.has_ended = true;
                    return self.lines.rest();
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(target: "mcpdeck::gateway", %error, "stdin cannot be read");
                    self.has_ended = true;
                    return None;
                }
            }
        }
    }
}

impl<R, W: AsyncWrite + Send + Unpin + 'static> MessagePipe<R, W> {
    /// Takes the messages of a batch one after the other; one within it is refused as no message.
    fn open_batch(&mut self, line: &str) {
        let revision = self.revision.as_deref().map(str::as_bytes);
        let permitted = revision.map_or(Ok(()), batch::permitted_by);
        let messages = match permitted.and_then(|()| batch::read(line.as_bytes())) {
            Ok(messages) => messages,
            Err(error) => return self.refuse(&ServerJsonRpcMessage::error(error, None)),
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
            self.write_beside(format!("[{}]", answers.join(",")));
        }
    }

    /// Answers a line that is not handed on.
    fn refuse(&self, refusal: &ServerJsonRpcMessage) {
        if let Ok(Some(text)) = sent(&self.batches, refusal) {
            self.write_beside(text);
        }
    }

    /// Writes an answer in a task of its own: the caller's future may be dropped, and the answer lost.
    fn write_beside(&self, text: String) {
        let output = Arc::clone(&self.output);
        self.writing.spawn(async move { write(&output, text).await });
    }

    /// Completes when these answers are written: the process ends soon after the pipe.
    async fn drain(&mut self) {
        self.writing.close();
        if tokio::time::timeout(DRAIN_TIMEOUT, self.writing.wait()).await.is_err() {
            tracing::debug!(target: "mcpdeck::gateway", "stdout is not read: answers are lost");
        }
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
/// What its sender is told, if anything: an answer and a notification get none.
fn read(line: &str) -> Result<ClientJsonRpcMessage, Option<Box<ServerJsonRpcMessage>>> {
    let line = line.trim_start_matches('\u{feff}');
    let refused = |error: ErrorData| {
        let id = match serde_json::from_str::<MessageHead>(line) {
            Ok(head) if head.is_unanswered() => return None,
            Ok(head) => head.id,
            Err(_) => found_id(line.as_bytes(), b""),
        };
        Some(Box::new(ServerJsonRpcMessage::error(error, id)))
    };
    let sent = SentNumbers::read(line.as_bytes());
    let sent = sent.map_err(|why| refused(ErrorData::invalid_params(why, None)))?;
    let readable = sent.as_ref().map_or(line, |(readable, _)| readable);
    let mut message: ClientJsonRpcMessage = serde_json::from_str(readable).map_err(|error| {
        tracing::debug!(target: "mcpdeck::gateway", %error, "a line is not a message");
        refused(match serde_json::from_str(readable) {
            Ok(value) => {
                let why = flaw(&value).map_or_else(|| error.to_string(), str::to_owned);
                ErrorData::invalid_request(format!("Invalid request: {why}"), None)
            }
            Err(error) => ErrorData::parse_error(format!("Parse error: {error}"), None),
        })
    })?;
    if let (Some((_, numbers)), ClientJsonRpcMessage::Request(_)) = (sent, &message) {
        message.insert_extension(numbers);
    }
    Ok(message)
}

/// The refusal of a line that is longer than the limit.
fn too_long(line: &Oversized) -> ServerJsonRpcMessage {
    let why = format!(
        "Invalid request: a message of {} bytes, the limit is {MAX_LINE_BYTES}",
        line.total
    );
    tracing::warn!(target: "mcpdeck::gateway", bytes = line.total, "a line is too long");
    let error = ErrorData::invalid_request(why, None);
    ServerJsonRpcMessage::error(error, found_id(&line.head, &line.tail))
}

/// The id of a request that does not parse.
fn found_id(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    serde_json::to_value(id_of_request(head, tail)?).and_then(serde_json::from_value).ok()
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
        if let ServerJsonRpcMessage::Response(answer) = &message
            && let ServerResult::InitializeResult(agreed) = &answer.result
        {
            self.revision = Some(agreed.protocol_version.to_string());
        }
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
                Some(message) => message,
                None => match self.next_line().await {
                    Some(PipeLine::Whole(range)) => {
                        let line = self.lines.bytes(range);
                        mended(line).unwrap_or_else(|| String::from_utf8_lossy(line).into_owned())
                    }
                    Some(PipeLine::Oversized(line)) => {
                        self.refuse(&too_long(&line));
                        continue;
                    }
                    None => {
                        // A client that ends before the handshake: nothing closes the pipe then.
                        self.drain().await;
                        return None;
                    }
                },
            };
            if line.trim().is_empty() {
                continue;
            }
            if is_batch(line.as_bytes()) {
                self.open_batch(&line);
                continue;
            }
            match read(&line) {
                Ok(message) => {
                    self.let_go(&message);
                    return Some(message);
                }
                Err(Some(refusal)) => self.refuse(&refusal),
                Err(None) => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.drain().await;
        // What holds it longer than that is a write that nobody reads.
        if let Ok(mut output) = tokio::time::timeout(DRAIN_TIMEOUT, self.output.lock()).await {
            output.take();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    /// Lets a pipe read these lines; returns the messages handed on, and the answers written.
    async fn read_all(lines: &[&[u8]]) -> (Vec<ClientJsonRpcMessage>, Vec<Value>) {
        let input = lines.join(&b'\n');
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let mut pipe = MessagePipe::new(&input[..], ours);
        let mut handed_on = Vec::new();
        while let Some(message) = pipe.receive().await {
            handed_on.push(message);
        }
        // Every answer that is being written holds the output, and ends it.
        drop(pipe);
        let mut answers = BufReader::new(theirs).lines();
        let mut written = Vec::new();
        while let Some(answer) = answers.next_line().await.expect("readable") {
            written.push(serde_json::from_str(&answer).expect("JSON"));
        }
        (handed_on, written)
    }

    fn call(id: &str, text: &str) -> Vec<u8> {
        let params = format!(r#"{{"name":"a","arguments":{{"text":{text}}}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#).into()
    }

    #[tokio::test]
    async fn every_request_that_cannot_be_read_is_answered() {
        let long = format!("\"{}\"", "x".repeat(MAX_LINE_BYTES));
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let last = format!(r#"{{"method":"ping","params":{{"a":{long}}},"jsonrpc":"2.0","id":5}}"#);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":6,"result":{{"a":{long}}}}}"#);
        let notice = format!(r#"{{"jsonrpc":"2.0","method":"a","params":{{"a":{deep}}}}}"#);
        let (handed_on, answers) = read_all(&[
            br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":7}"#,
            &call("2", &deep),
            &call("3", "{"),
            &call("4", &long),
            last.as_bytes(),
            b"no JSON",
            answer.as_bytes(),
            notice.as_bytes(),
            br#"{"jsonrpc":"2.0","id":7,"result":7,"error":7}"#,
            b"\r\n",
            br#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#,
        ])
        .await;
        let is_ping = |message: &ClientJsonRpcMessage| json!(message)["id"] == 8;
        assert!(handed_on.last().is_some_and(is_ping), "{handed_on:?}");
        let told: Vec<_> = answers
            .iter()
            .map(|answer| (answer["id"].clone(), answer["error"]["code"].clone()))
            .collect();
        let told: Vec<String> = told.iter().map(|(id, code)| format!("{id} {code}")).collect();
        let due = ["\"a\" -32600", "2 -32700", "3 -32700", "4 -32600", "5 -32600"];
        assert_eq!(told, [&due[..], &["null -32700", "null -32600"]].concat());
    }

    #[tokio::test]
    async fn what_is_no_character_keeps_no_request_from_its_server() {
        let halved = call("1", r#""cut \ud83d""#);
        let mut latin = call("2", "\"caf~\"");
        latin.iter_mut().filter(|byte| **byte == b'~').for_each(|byte| *byte = 0xe9);
        let (handed_on, answers) = read_all(&[&halved, &latin]).await;
        let texts: Vec<_> = handed_on
            .iter()
            .map(|message| json!(message)["params"]["arguments"]["text"].clone())
            .collect();
        assert_eq!(texts, ["cut \u{fffd}", "caf\u{fffd}"]);
        assert_eq!(answers, [""; 0]);
    }

    #[tokio::test]
    async fn a_batch_is_refused_once_a_revision_without_batches_was_agreed_on() {
        for (revision, is_read) in [("2025-03-26", true), ("2025-06-18", false)] {
            let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
            let (ours, theirs) = tokio::io::duplex(1 << 10);
            let mut pipe = MessagePipe::new(&batch[..], ours);
            let hello = format!(
                r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"{revision}","capabilities":{{}},"serverInfo":{{"name":"a","version":"1"}}}}}}"#
            );
            pipe.send(serde_json::from_str(&hello).expect("a message")).await.expect("sent");
            assert_eq!(pipe.receive().await.is_some(), is_read, "{revision}");
            if !is_read {
                let mut answers = BufReader::new(theirs).lines();
                assert!(answers.next_line().await.expect("readable").is_some());
                let refused = answers.next_line().await.expect("readable").expect("a refusal");
                assert!(refused.contains("batches ended with"), "{refused}");
            }
        }
    }

    #[tokio::test]
    async fn what_was_refused_is_written_before_the_pipe_closes() {
        let refusals = |written: &[u8]| {
            String::from_utf8_lossy(written).lines().filter(|line| line.contains("error")).count()
        };
        // Room for a part of a refusal: the rest is written while it is read.
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut pipe = MessagePipe::new(&b"no JSON\n7\n"[..], ours);
        let read = tokio::spawn(async move {
            let mut written = Vec::new();
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut theirs, &mut written).await;
            written
        });
        assert!(pipe.receive().await.is_none());
        pipe.close().await.expect("closed");
        assert_eq!(refusals(&read.await.expect("read")), 2);
    }

    #[tokio::test]
    async fn what_is_refused_while_the_pipe_is_open_is_written_by_its_end() {
        let (input, mut client) = tokio::io::duplex(64);
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut pipe = MessagePipe::new(input, ours);
        client.write_all(b"no JSON\n").await.expect("sent");
        let waited = tokio::time::timeout(Duration::from_millis(20), pipe.receive()).await;
        assert!(waited.is_err(), "no message came");
        let read = tokio::spawn(async move {
            let mut written = String::new();
            let _ = tokio::io::AsyncReadExt::read_to_string(&mut theirs, &mut written).await;
            written
        });
        pipe.close().await.expect("closed");
        let written = read.await.expect("read");
        assert!(written.contains("-32700") && written.ends_with("}\n"), "{written}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_does_not_keep_the_pipe_open() {
        let (ours, _unread) = tokio::io::duplex(8);
        let mut pipe = MessagePipe::new(&b"no JSON\n"[..], ours);
        assert!(pipe.receive().await.is_none());
        pipe.close().await.expect("closed");
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
