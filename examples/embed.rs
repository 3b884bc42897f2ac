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

use mcpdeck::host::PendingRequest;
use mcpdeck::mcp::{Answer, RequestKind};
use mcpdeck::{Host, Startup};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "mcp.json".to_owned());
    // Servers that do not start are shown with the reason; the others are used.
    let host = Host::builder()
        .config_file(file)
        .startup(Startup::Available)
        .handler(answer)
        .initialize()
        .await?;
    let mut out = io::stdout().lock();
    offer(&host, &mut out)?;
    if let Some(tool) = arguments.next() {
        let given = arguments.next().unwrap_or_else(|| "{}".to_owned());
        match host.call_tool(&tool, serde_json::from_str(&given)?).await {
            Ok(outcome) => writeln!(out, "{:.1?}: {}", outcome.duration, outcome.text())?,
            // One error type with a stable code; nothing to parse.
            Err(error) => writeln!(out, "{}: {error}", error.code)?,
        }
    }
    let report = host.shutdown().await;
    writeln!(out, "stopped {} processes in {:.1?}", report.exits.len(), report.took)?;
    Ok(())
}

/// Shows what a model would be given: each tool by its name in all servers, with its schema.
fn offer(host: &Host, out: &mut impl Write) -> io::Result<()> {
    let view = host.snapshot();
    // Entries that cannot be used are left out; the configuration says why, with line and column.
    for problem in view.diagnostics.iter().filter(|problem| problem.is_error()) {
        writeln!(out, "{}: {}", problem.at, problem.message)?;
    }
    for server in view.servers.values() {
        let why = server.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        writeln!(out, "{} {}{why}", server.name, server.state.as_str())?;
        for tool in &server.capabilities.tools {
            let takes = tool.input_schema.get("properties").and_then(Value::as_object);
            let takes: Vec<&String> = takes.into_iter().flat_map(|takes| takes.keys()).collect();
            writeln!(out, "  {}.{} {takes:?}", server.name, tool.label)?;
        }
    }
    Ok(())
}

/// Answers servers: here a model would be asked, and a person before it.
async fn answer(request: Arc<PendingRequest>) -> Option<Answer> {
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
}
