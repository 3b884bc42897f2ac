//! `chat --replay`: sends the user's messages of a recorded chat to a model again, with the
//! recorded servers, and compares the tools it chooses now with the recorded ones.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::load::LoadedConfig;
use crate::output::ExitStatus;
use crate::{deck, output};
use ::chat::event::word;
use ::chat::replay::{Compared, Replay, ToolChoice};
use ::chat::{Agent, ChatEvent, Conversation, LanguageModel, TurnLimits};
use base::SafeText;
use base::human::count;
use config::{McpConfig, ServerConfig};
use host::{Origin, Principal};

/// Reads the recorded chat, and configures its servers to be played by this program.
///
/// # Errors
/// When the recording cannot be read.
pub(super) fn read(file: &Path) -> Result<(Replay, LoadedConfig), String> {
    let shown = base::text::path::spelled(file);
    let replay = Replay::read(file).map_err(|error| format!("{shown}: {error}"))?;
    if let Some(lost) = &replay.losses {
        output::complain(&format!("{shown}: {lost}"));
    }
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = std::path::absolute(file).map_err(|error| error.to_string())?;
    let played = replay.servers.iter().map(|name| {
        let words = ["mock", &path.to_string_lossy(), "--server", name.as_str()];
        ServerConfig::stdio(name.as_str(), exe.to_string_lossy(), words)
    });
    let config: McpConfig = played.collect();
    Ok((replay, config.into()))
}

/// Repeats every turn and prints how the calls differ; fails when other tools were called.
pub(super) async fn ask(
    scene: &deck::Scene<'_>,
    replay: Replay,
    model: Arc<dyn LanguageModel>,
    limits: TurnLimits,
    as_json: bool,
) -> ExitStatus {
    let who = Principal::new(Origin::Cli).with_session("replay");
    // Only recorded answers are played: nothing is done that needs consent.
    if let Err(problem) = super::allow(scene, &who.model(), Vec::new()) {
        return output::refuse(&problem);
    }
    let agent = Agent::new(scene.host.clone(), who, model).limits(limits);
    let mut talk = Conversation::default();
    let mut rows = Vec::new();
    for turn in replay.turns {
        let seen = Mutex::new((Vec::new(), 0));
        let on_event = |event: ChatEvent| match event {
            ChatEvent::ToolCall { name, server, tool, arguments, .. } => {
                let full = server.zip(tool).map(|(server, tool)| format!("{server}.{tool}"));
                seen.lock().0.push(ToolChoice { tool: full.unwrap_or(name), arguments });
            }
            ChatEvent::ToolResult { is_error: true, .. } => seen.lock().1 += 1,
            _ => {}
        };
        let reason =
            agent.turn(&mut talk, &turn.message, &CancellationToken::new(), &on_event).await;
        let (now, failed) = seen.into_inner();
        rows.push(Compared::new(turn, now, failed, word(&reason)));
    }
    let differing = rows.iter().filter(|row| !row.same_tools).count();
    let exit = if differing == 0 { ExitStatus::Ok } else { ExitStatus::Failed };
    if as_json {
        let model = agent.model();
        let whole = json!({"model": model.name(), "differing": differing, "turns": rows});
        return output::json(&whole, exit);
    }
    output::print(&table(&rows, differing), exit)
}

fn table(rows: &[Compared], differing: usize) -> String {
    let names = |calls: &[ToolChoice]| {
        let names: Vec<_> = calls.iter().map(|call| call.tool.as_str()).collect();
        if names.is_empty() { "no call".to_owned() } else { names.join(", ") }
    };
    let mut out = String::new();
    for row in rows {
        let how = match (row.same_tools, row.same_arguments) {
            (true, true) => "same",
            (true, false) => "other arguments",
            _ => "OTHER TOOLS",
        };
        let _ = writeln!(out, "{how:16}{}", SafeText::cut(&row.message, 60));
        let _ = writeln!(out, "  recorded      {}", SafeText::cut(&names(&row.recorded), 200));
        if !row.same_tools {
            let _ = writeln!(out, "  now           {}", SafeText::cut(&names(&row.now), 200));
        }
        if row.failed > 0 || row.reason != "end" {
            let failed = count(row.failed, "call");
            let _ = writeln!(out, "  now           {}, {failed} failed", row.reason);
        }
    }
    let _ = writeln!(out, "{}, {differing} with other tools", count(rows.len(), "message"));
    out
}
