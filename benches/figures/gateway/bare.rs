//! The least that a hop costs: a service which passes each body to a server's pipe and the answer
//! back, and does nothing else. Same HTTP library and runtime as the gateway.

use std::io::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;

use crate::place::Place;
use crate::ways::spawn;

/// Environment variable that makes this program the bare hop.
pub const HOP: &str = "MCPDECK_BENCH_HOP";

struct Pipe {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Serves until it is terminated; prints its address first.
#[tokio::main]
pub async fn serve() {
    let (_child, stdin, stdout) = spawn(Place::Spread);
    let pipe = Arc::new(Mutex::new(Pipe { stdin, stdout: BufReader::new(stdout) }));
    let router = Router::new().route("/", post(pass)).with_state(pipe);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    std::io::stdout().flush().unwrap();
    axum::serve(listener, router).await.unwrap();
}

async fn pass(State(pipe): State<Arc<Mutex<Pipe>>>, body: Bytes) -> impl IntoResponse {
    let mut line = Vec::with_capacity(body.len() + 1);
    line.extend_from_slice(&body);
    line.push(b'\n');
    let mut pipe = pipe.lock().await;
    pipe.stdin.write_all(&line).await.unwrap();
    let mut answer = Vec::new();
    pipe.stdout.read_until(b'\n', &mut answer).await.unwrap();
    ([(CONTENT_TYPE, "application/json")], answer)
}
