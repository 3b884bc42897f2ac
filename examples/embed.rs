//! A program that embeds the host, as an AI application would: it starts every server of an
//! `mcp.json`, offers their tools to a model, runs the calls the model asks for, and answers what
//! servers ask in return.
//!
//! ```text
//! cargo run --example embed -- mcp.json                      # what is there
//! cargo run --example embed -- mcp.json time.get_current_time '{"timezone": "Etc/UTC"}'
//! ```

use std::io::{self, Write};
use std::sync::Arc;

use futures::future::BoxFuture;
use mcpdeck::host::approvals::RequestHandler;
use mcpdeck::host::{Answer, CallOptions, PendingRequest, RequestKind};
use mcpdeck::{Error, Host, Startup};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Answers servers: here a model would be asked, and a person before it.
struct Application;

impl RequestHandler for Application {
    fn handle(
        &self,
        request: Arc<PendingRequest>,
        _withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        Box::pin(async move {
            match request.kind {
                RequestKind::Sampling => Some(Answer::Result(json!({
                    "role": "assistant",
                    "content": {"type": "text", "text": "a model would speak here"},
                    "model": "none",
                    "stopReason": "endTurn",
                }))),
                // `None`: nobody here can answer, and the server is told so as the specification says.
                _ => None,
            }
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "mcp.json".to_owned());
    let call = arguments.next().zip(Some(arguments.next().unwrap_or_else(|| "{}".to_owned())));
    let mut out = io::stdout().lock();
    match run(&file, call, &mut out).await? {
        Ok(()) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

async fn run(
    file: &str,
    call: Option<(String, String)>,
    out: &mut impl Write,
) -> io::Result<Result<(), Error>> {
    // Servers that do not start are shown with the reason; the others are used.
    let starting = Host::builder()
        .config_file(file)
        .startup(Startup::Available)
        .handler(Application)
        .initialize();
    let host = match starting.await {
        Ok(host) => host,
        Err(error) => return Ok(Err(error)),
    };
    let view = host.view().borrow().clone();
    // Entries that cannot be used are left out; the configuration says why, with line and column.
    for problem in view.diagnostics.iter().filter(|problem| problem.is_error()) {
        writeln!(out, "{}: {}", problem.at, problem.message)?;
    }
    for server in view.servers.values() {
        let lists = &server.capabilities;
        let why = server.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        writeln!(out, "{} {}{why}", server.name, server.state.as_str())?;
        for tool in &lists.tools {
            writeln!(out, "  {}.{}", server.name, tool.label)?;
        }
    }
    if let Some((tool, arguments)) = call {
        let arguments: Value = serde_json::from_str(&arguments)?;
        match host.call_tool_with(&tool, arguments, CallOptions::default()).await {
            Ok(outcome) => writeln!(out, "{:.1?}: {}", outcome.duration, outcome.result)?,
            // One error type with a stable code; nothing to parse.
            Err(error) => writeln!(out, "{}: {error}", error.code)?,
        }
    }
    let report = host.shutdown().await;
    writeln!(out, "stopped {} processes in {:.1?}", report.exits.len(), report.took)?;
    Ok(Ok(()))
}
