//! A server of pipes behind HTTP+SSE and WebSocket on loopback: each connection has a process of its
//! own, and whatever it says is passed on as it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, mpsc};
use tokio_tungstenite::tungstenite::Message;

/// A program and its arguments.
pub type Program = Vec<String>;

fn start(program: &Program) -> (Child, ChildStdin, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).kill_on_drop(true);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, stdin, BufReader::new(stdout).lines())
}

/// Serves WebSocket; gives its port.
pub async fn websocket(program: Program) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let program = program.clone();
            tokio::spawn(async move {
                let Ok(socket) = tokio_tungstenite::accept_async(stream).await else { return };
                let (mut sink, mut frames) = socket.split();
                let (_child, mut stdin, mut lines) = start(&program);
                loop {
                    tokio::select! {
                        line = lines.next_line() => match line {
                            Ok(Some(line)) => drop(sink.send(Message::text(line)).await),
                            _ => return drop(sink.close().await),
                        },
                        frame = frames.next() => match frame {
                            Some(Ok(Message::Text(text))) if text.contains(UNREAD) => {
                                while sink.send(Message::Ping("".into())).await.is_ok() {}
                                return SOCKET_CLOSED.notify_one();
                            }
                            Some(Ok(Message::Text(text))) => {
                                let text = format!("{text}\n");
                                let _ = stdin.write_all(text.as_bytes()).await;
                            }
                            Some(Ok(_)) => {}
                            _ => return,
                        },
                    }
                }
            });
        }
    });
    port
}

type Sessions = Arc<Mutex<HashMap<String, mpsc::Sender<String>>>>;

/// What holds this is not taken.
pub const UNDELIVERABLE: &str = "return-to-sender";

/// What holds this is the last message that is read from a WebSocket.
pub const UNREAD: &str = "not-another-word";

/// Notified when the host closed a POST that was never answered.
pub static POST_CLOSED: Notify = Notify::const_new();

/// Notified when the host closed a WebSocket that is not read.
pub static SOCKET_CLOSED: Notify = Notify::const_new();

/// Serves HTTP+SSE at `/sse`, and at `/slow`, where POSTs of notifications are taken but never
/// answered; takes no POST there. Gives its port.
pub async fn sse(program: Program) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let sessions = Sessions::default();
    tokio::spawn(async move {
        let mut number = 0;
        while let Ok((stream, _)) = listener.accept().await {
            number += 1;
            let program = program.clone();
            tokio::spawn(answer(stream, program, Arc::clone(&sessions), number));
        }
    });
    port
}

async fn answer(
    stream: TcpStream,
    program: Program,
    sessions: Sessions,
    number: u32,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    stream.read_line(&mut head).await.ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().ok()?;
        }
    }
    if head.starts_with("GET /sse ") || head.starts_with("GET /slow ") {
        let path = if head.contains("/slow") { "slow" } else { "post" };
        let kind = "content-type: text/event-stream";
        let first =
            format!("HTTP/1.1 200 OK\r\n{kind}\r\n\r\nevent: endpoint\ndata: /{path}/{number}\n\n");
        let (posted, mut posts) = mpsc::channel::<String>(64);
        sessions.lock().unwrap().insert(number.to_string(), posted);
        stream.write_all(first.as_bytes()).await.ok()?;
        let (_child, mut stdin, mut lines) = start(&program);
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let event = format!("event: message\ndata: {}\n\n", line.ok()??);
                    stream.write_all(event.as_bytes()).await.ok()?;
                }
                body = posts.recv() => stdin.write_all(body?.as_bytes()).await.unwrap_or(()),
                read = stream.read_u8() => drop(read.ok()?),
            }
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let slow = head.starts_with("POST /slow/");
    let session = head.strip_prefix(if slow { "POST /slow/" } else { "POST /post/" });
    let session = session.and_then(|rest| rest.split(' ').next());
    let posted = session.and_then(|session| sessions.lock().unwrap().get(session).cloned());
    let status = match posted {
        Some(_) if String::from_utf8_lossy(&body).contains(UNDELIVERABLE) => {
            "503 Service Unavailable"
        }
        Some(posted) => {
            let body = String::from_utf8_lossy(&body);
            let _ = posted.send(format!("{body}\n")).await;
            if slow && !body.contains("\"id\"") {
                let _ = stream.read_u8().await;
                POST_CLOSED.notify_one();
                return None;
            }
            "202 Accepted"
        }
        None => "405 Method Not Allowed",
    };
    let reply = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(reply.as_bytes()).await.ok()
}
