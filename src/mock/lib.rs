//! `mcpdeck mock`: an MCP server played from a script, for people who test MCP hosts.
//!
//! A script is JSON (comments and trailing commas allowed) that declares what the server is and
//! how it reacts. It works on bytes, so that it can reproduce any fault of a server: junk, split
//! writes, wrong, duplicate and late answers, floods, silence, an exit at any step. It uses stdin
//! and stdout, or Streamable HTTP on loopback (`--listen PORT`).
//!
//! # A first script
//! ```json
//! {
//!   "serverInfo": {"name": "greeter", "version": "1.0.0"},
//!   "tools": [{"name": "greet", "description": "Greets", "inputSchema": {"type": "object"}}],
//!   "calls": {"greet": {"text": "Hello ${arguments.name}!"}}
//! }
//! ```
//! `{}` is a polite server that offers nothing. What a script does not mention is answered as a
//! polite server would; `mcpdeck mock --schema` prints the JSON Schema of scripts.
//!
//! # Reactions
//! `calls` (by tool), `gets` (by prompt), `reads` (by URI) and `on` (by method or event) hold a
//! reaction: one action or a list of them. The most specific one is played: `calls.greet`
//! before `on["tools/call"]` before the polite answer; `on["*"]` is for unknown methods.
//! Events are `start` (before stdin is read; reading begins when it has finished), `stdinClosed`
//! (without it the server exits with 0), `SIGTERM`, `SIGINT` (without them it dies) and `answer`;
//! over HTTP also `POST`, `GET`, `DELETE` and any path, which are played first and may answer
//! instead. An empty list sends nothing.
//!
//! Actions: [`ScriptAction`](script::ScriptAction). Reactions run concurrently; the actions of one
//! reaction run in sequence.
//!
//! # Templates
//! Values are templates. `${id}`, `${method}`, `${params.…}`, `${arguments.…}`, `${name}`,
//! `${uri}`, `${token}` (progress token), `${message.…}`, `${header.NAME}` come from the message
//! at hand; `${count}` is the number of messages of its kind; `${i}` counts repetitions;
//! `${saved.…}` a saved value; `${env.NAME}`, `${env}`, `${pid}`, `${cwd}`, `${argv.N}` come from
//! the process. A string that is one placeholder becomes the value itself, of any type.
//! `${path:-default}` has a default; `$${` is a literal `${`.
//!
//! An object with one of these as its only key is a generator:
//!
//! | generator | gives |
//! | --- | --- |
//! | `{"$text": {"of": "x", "times": 9}}` | a text repeated |
//! | `{"$list": {"of": …, "times": 9}}` | an array; spread when it stands in a list |
//! | `{"$map": {"key": "k${i}", "of": …, "times": 9}}` | an object; keys may be equal |
//! | `{"$nest": {"open": "[", "close": "]", "depth": 9, "inner": …}}` | nesting |
//! | `{"$raw": "1e999"}` | this text verbatim, JSON or not |
//! | `{"$json": …}` | the JSON of a value, as a string |

#![cfg_attr(not(test), warn(clippy::expect_used))]
#![allow(
    missing_docs,
    reason = "its readers are its authors: a doc stands where it says more than the name"
)]

mod answers;
mod http;
mod os;
mod play;
mod receive;
pub mod recorded;
pub mod script;
mod serve;
mod stage;
mod stdio;
mod template;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};

use crate::recorded::{PlayOptions, RecordedServer};
use crate::script::ServerScript;
use crate::stage::MockStage;
use base::text::path::spelled;
use deck::Recording;

/// What to play, and how.
#[derive(Clone, Debug, Default, Args)]
pub struct MockOptions {
    /// The script (`mcpdeck mock --schema` prints its JSON Schema), or a recording (`--record`).
    #[arg(value_hint = ValueHint::FilePath, required_unless_present_any = ["script", "schema"])]
    pub file: Option<PathBuf>,

    /// The script itself, instead of a file.
    #[arg(long, value_name = "JSON", conflicts_with = "file")]
    pub script: Option<String>,

    /// Serve Streamable HTTP at this loopback address (port 0 picks one) instead of stdin and
    /// stdout.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = parse_loopback)]
    pub listen: Option<SocketAddr>,

    /// How a recording is played.
    #[command(flatten, next_help_heading = "Recordings")]
    pub recording: PlayOptions,

    /// Print the JSON Schema of scripts.
    #[arg(long)]
    pub schema: bool,

    /// Arguments the script can use as ${argv.N}.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
    pub args: Vec<String>,
}

fn parse_loopback(text: &str) -> Result<SocketAddr, String> {
    let address = match text.parse::<u16>() {
        Ok(port) => Some((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text.parse::<SocketAddr>().ok(),
    };
    let address = address.filter(|address| address.ip().is_loopback());
    address.ok_or_else(|| "write a port, or a loopback address: 127.0.0.1:0".to_owned())
}

/// Plays a script or a recording in this process; returns its exit code (2 when it is unusable).
pub fn run(options: MockOptions) -> ExitCode {
    match play_here(options) {
        Ok(code) => ExitCode::from(code as u8),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "mcpdeck mock: {error}");
            ExitCode::from(2)
        }
    }
}

fn play_here(options: MockOptions) -> Result<i32, Box<dyn std::error::Error>> {
    let (mut script, mut recorded) = (ServerScript::default(), None);
    match (&options.script, &options.file) {
        (Some(text), _) => script = ServerScript::parse(text, "script")?,
        (None, Some(path)) => match Recording::open(path) {
            Ok(recording) => {
                let losses = recording.losses();
                let read = RecordedServer::read(recording, options.recording);
                if let Some(lost) = losses.words() {
                    writeln!(std::io::stderr(), "mcpdeck mock: {}: {lost}", spelled(path))?;
                }
                recorded = Some(read.map_err(|message| format!("{}: {message}", spelled(path)))?);
            }
            Err(_) => script = ServerScript::read(path)?,
        },
        (None, None) => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let code = local.block_on(&runtime, async move {
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, script.http.port));
        let address = options.listen.or((own.port() > 0).then_some(own));
        let stage = MockStage::new(script, recorded, options.args);
        match address {
            None => Ok::<i32, std::io::Error>(serve::stdio(stage).await),
            Some(address) => {
                let listener = tokio::net::TcpListener::bind(address).await?;
                let address = listener.local_addr()?;
                writeln!(std::io::stdout(), "listening on http://{address}/mcp")?;
                Ok(serve::http(stage, listener).await)
            }
        }
    })?;
    // Do not wait for a read of stdin that may still be in progress on a helper thread.
    runtime.shutdown_background();
    Ok(code)
}
