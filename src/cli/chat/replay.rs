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

/// Most of a call that is compared, in bytes.
const MAX_COMPARED_BYTES: usize = 4 << 20;

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

/// Repeats every turn and prints how the calls differ; fails when other tools were called, or an answer
/// is not whole.
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
    // Both sides are what was sent to servers: a call with wrong arguments is not.
    let traffic = scene.host.traffic();
    traffic.keep_whole(MAX_COMPARED_BYTES);
    let (mut seen_frame, mut left_out) = (0, Vec::new());
    for (number, turn) in (1..).zip(replay.turns) {
        if turn.is_masked() {
            let message = SafeText::cut(&turn.message, 60);
            output::complain(&format!(
                "message {number} (`{message}`) is not replayed: the recording has *** in place of a \
                 secret in it; ask it with `mcpdeck chat -p` and the value"
            ));
            left_out.push(turn.message);
            continue;
        }
        let seen = Mutex::new((0, None));
        let on_event = |event: ChatEvent| match event {
            ChatEvent::ToolResult { is_error: true, .. } => seen.lock().0 += 1,
            ChatEvent::Error { message, .. } => seen.lock().1 = Some(message),
            _ => {}
        };
        let reason =
            agent.turn(&mut talk, &turn.message, &CancellationToken::new(), &on_event).await;
        let frames = traffic.read(seen_frame, usize::MAX);
        seen_frame = frames.next;
        let now = frames.items.iter().filter_map(|frame| ToolChoice::of_frame(frame)).collect();
        let (failed, error) = seen.into_inner();
        rows.push(Compared { error, ..Compared::new(turn, now, failed, word(&reason)) });
    }
    let differing = rows.iter().filter(|row| !row.same_tools).count();
    let is_same = differing == 0 && rows.iter().all(is_whole) && !rows.is_empty();
    let exit = if is_same { ExitStatus::Ok } else { ExitStatus::Failed };
    if as_json {
        let model = agent.model();
        let whole = json!({
            "model": model.name(), "differing": differing, "turns": rows, "notReplayed": left_out,
        });
        return output::json(&whole, exit);
    }
    output::print(&table(&rows, differing, left_out.len()), exit)
}

/// Whether the answer of the model is whole.
fn is_whole(row: &Compared) -> bool {
    row.reason == "end"
}

fn table(rows: &[Compared], differing: usize, left_out: usize) -> String {
    let names = |calls: &[ToolChoice]| {
        let names: Vec<_> = calls.iter().map(|call| call.tool.as_str()).collect();
        if names.is_empty() { "no call".to_owned() } else { names.join(", ") }
    };
    let mut out = String::new();
    for row in rows {
        let how = match (row.same_tools, row.same_arguments) {
            (true, _) if !is_whole(row) => "NO WHOLE ANSWER",
            (true, true) => "same",
            (true, false) => "other arguments",
            _ => "OTHER TOOLS",
        };
        let _ = writeln!(out, "{how:16}{}", SafeText::cut(&row.message, 60));
        let _ = writeln!(out, "  recorded      {}", SafeText::cut(&names(&row.recorded), 200));
        if !row.same_tools {
            let _ = writeln!(out, "  now           {}", SafeText::cut(&names(&row.now), 200));
        }
        if row.failed > 0 || !is_whole(row) {
            let failed = count(row.failed, "call");
            let _ = writeln!(out, "  now           {}, {failed} failed", row.reason);
        }
        if let Some(error) = &row.error {
            let _ = writeln!(out, "  now           {}", SafeText::cut(error, 400));
        }
    }
    let messages = count(rows.len(), "message");
    let rest = if left_out == 0 { String::new() } else { format!(", {left_out} not replayed") };
    let _ = writeln!(out, "{messages}, {differing} with other tools{rest}");
    out
}
