//! `policy`: what the policy decides about calls, and why. Starts no server.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use serde::Deserialize;
use serde_json::json;

use super::args::Common;
use super::output::{CommandResult, ExitStatus};
use super::{load, output};
use ::deck::{NamedTool, Offline, QuotaFile, Recording, RecordingLine, clear_policy, load_policy};
use base::file::read_text;
use base::human::count;
use base::text::nearest;
use base::text::path::spelled;
use base::{Clock, SafeText};
use host::{
    DEFAULT_PROFILE, Decision, HookConfig, Origin, OverlayConfig, PolicyAction, PolicyEffect,
    Principal, QuotaCounter, QuotaUse, TargetKind,
};
use protocol::{Direction, MessageKind};

/// `mcpdeck policy`
#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: PolicyVerb,
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `mcpdeck policy` does.
#[derive(Debug, Subcommand)]
pub enum PolicyVerb {
    /// Show whether a caller may call a tool, and which rule decides; exits with 1 when it may not.
    Why {
        /// Caller: gateway:TOKEN (gateway:owner is your own token), browser:https://ORIGIN, the
        /// model of a chat (chat:cli, chat:dashboard, chat:gateway:TOKEN), the app of a server
        /// (app:SERVER), cli, dashboard, check or library.
        #[arg(value_name = "ORIGIN")]
        origin: String,
        /// Target: server.tool, or a URI with --read.
        #[arg(value_name = "CALL")]
        call: String,
        /// Under this profile; a named one binds you too. Without it, that of the token for gateway:TOKEN.
        #[arg(long, value_name = "NAME")]
        profile: Option<String>,
        /// Read this resource instead.
        #[arg(long, conflicts_with = "prompt")]
        read: bool,
        /// Get this prompt instead.
        #[arg(long)]
        prompt: bool,
    },
    /// Show which calls of a file would be blocked: a recording, a JSON list, or one JSON object
    /// per line, each with `origin` and `tool`; exits with 1 when any is.
    Test {
        /// The file.
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Caller of the calls without an `origin`, such as those of a recording.
        #[arg(long, value_name = "ORIGIN", default_value = "gateway:TOKEN")]
        origin: String,
        /// Under this profile; a named one binds you too.
        #[arg(long, value_name = "NAME")]
        profile: Option<String>,
    },
    /// Show the limits and quotas of callers other than you, and what is used of the quotas today.
    Limits,
    /// End every rule: writes a policy file without rules beside the configuration, for running
    /// services too. The old file is set aside.
    Clear,
    /// Print the smallest profile that permits the calls of a recording or of such a file.
    Suggest {
        /// The file.
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Name of the profile.
        #[arg(long, value_name = "NAME", default_value = DEFAULT_PROFILE)]
        profile: String,
    },
}

/// How a caller is written.
const ORIGINS: &str = "gateway:TOKEN, browser:https://ORIGIN, chat:CALLER (chat:cli, \
                       chat:dashboard, chat:gateway:TOKEN), app:SERVER, cli, dashboard, check or \
                       library";

/// A call in a file.
#[derive(Deserialize)]
struct PolicyCall {
    origin: Option<String>,
    profile: Option<String>,
    /// `server.tool`, `server.prompt` or a URI.
    tool: String,
    #[serde(skip, default = "tools")]
    kind: TargetKind,
}

const fn tools() -> TargetKind {
    TargetKind::Tool
}

/// `mcpdeck policy`
pub fn policy(common: &Common, args: &PolicyArgs) -> CommandResult {
    match &args.verb {
        PolicyVerb::Why { origin, call, profile, read, prompt } => {
            let origin =
                Origin::parse(origin).ok_or_else(|| output::refuse(&format!("write {ORIGINS}")))?;
            let profile = profile.clone().or_else(|| profile_of(&origin));
            if profile.is_none() && is_signed_in(&origin) {
                output::warn(
                    "what a signed-in caller may do is said by the profile that its groups give: \
                     name it with --profile",
                );
            }
            let principal = principal(origin, profile.as_deref());
            let kind = match (read, prompt) {
                (true, _) => TargetKind::Resource,
                (_, true) => TargetKind::Prompt,
                _ => TargetKind::Tool,
            };
            let offline = open(common)?;
            if let Some(name) = profile.as_deref() {
                warn_of_profile(&offline, name);
            }
            let is_tool = kind == TargetKind::Tool;
            let whole = if is_tool { whole_name(&offline, &principal, call)? } else { None };
            let call = whole.as_deref().unwrap_or(call);
            let decided = offline.decide(&principal, used(kind), kind, call);
            let overlay = offline.overlay(&principal, call).filter(|_| is_tool);
            let service = offline.service(&principal);
            Ok(why(&decided, whole.as_deref(), service, overlay.as_ref(), args.json))
        }
        PolicyVerb::Test { file, origin, profile } => {
            test(&open(common)?, file, (origin, profile.as_deref()), args.json)
        }
        PolicyVerb::Limits => limits(common, args.json),
        PolicyVerb::Clear => clear(common, args.json),
        PolicyVerb::Suggest { file, profile } => suggest(file, profile),
    }
}

/// Warns of a profile under which nothing can be permitted, as when its name is misspelled.
fn warn_of_profile(offline: &Offline, name: &str) {
    let known = offline.profiles();
    if known.contains(name) {
        return;
    }
    let meant = match nearest(name, &known, 0.8) {
        Some(like) => format!("; did you mean `{like}`?"),
        None => format!("; there are: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    };
    let text = format!("neither the policy nor a grant names the profile `{name}`{meant}");
    output::warn(&SafeText::line(&text));
}

/// The tool as `server.tool` that a caller calls by another name: that of its profile, or a bare one.
fn whole_name(
    offline: &Offline,
    principal: &Principal,
    call: &str,
) -> Result<Option<String>, ExitStatus> {
    match offline.tool_by_name(principal, call, &config::Environment::of_process()) {
        NamedTool::Is(whole) => Ok(Some(whole).filter(|whole| whole != call)),
        NamedTool::Several(all) => {
            let all = all.join(" or ");
            Err(output::refuse(&format!("several servers have `{call}`: write {all}")))
        }
        NamedTool::Unseen(like) => {
            let meant = match like {
                Some(like) => format!("; did you mean `{like}`?"),
                None => ": write SERVER.TOOL".to_owned(),
            };
            let text = format!("no server had `{call}` when it was seen last{meant}");
            output::warn(&SafeText::line(&text));
            Ok(None)
        }
    }
}

/// Shows what callers may use, and what they have used today.
fn limits(common: &Common, json: bool) -> CommandResult {
    let (env, files) = load::here(common)?;
    let policy = load_policy(&files).map_err(|all| output::refuse(&all.join("\n")))?;
    let kept = files.last().and_then(|main| QuotaFile::for_config(main, &env));
    let used = kept.map(|file| file.read()).unwrap_or_default();
    let today = QuotaCounter::new(Clock::system()).today();
    let used: Vec<_> = used.into_iter().filter(|one| one.day == today).collect();
    let quotas = policy.rules.quotas().view(&used);
    let named = policy.config.profiles.keys().map(String::as_str);
    let named = named.filter(|name| *name != DEFAULT_PROFILE);
    let profiles = std::iter::once(DEFAULT_PROFILE).chain(named);
    let profiles = profiles.map(|name| (name, policy.config.limits_of(name)));
    if json {
        let profiles = profiles.map(|(name, limits)| {
            json!({
                "profile": name, "callsPerRun": limits.calls_per_run,
                "callsAtOnce": limits.calls_at_once, "callsPerMinute": limits.calls_per_minute,
                "callTimeoutMs": limits.call_timeout.as_millis() as u64,
                "argumentBytes": limits.argument_bytes,
            })
        });
        let profiles: Vec<_> = profiles.collect();
        let object = json!({"profiles": profiles, "quotas": quotas});
        return Ok(output::json(&object, ExitStatus::Ok));
    }
    let rows = profiles.map(|(name, limits)| {
        [
            format!("profile {}", SafeText::line(name)),
            format!("{} per minute and tool", limits.calls_per_minute),
            format!("{} at once", limits.calls_at_once),
            format!("{} in a run", limits.calls_per_run),
        ]
    });
    let mut text = output::table("", rows);
    for quota in &quotas {
        let limits = &quota.limits;
        let parts = [
            limits.calls_per_minute.map(|calls| format!("{} per minute", count(calls, "call"))),
            limits.calls_per_day.map(|calls| format!("{} per day", count(calls, "call"))),
            limits.result_tokens_per_day.map(|all| format!("{all} tokens of results per day")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let _ = writeln!(text, "quota {}: {}", SafeText::line(&quota.quota), parts.join(", "));
        text.push_str(&output::table("  ", quota.used.iter().map(used_row)));
    }
    if !quotas.is_empty() {
        text.push_str("The next day begins at midnight UTC.\n");
    }
    Ok(output::print(&text, ExitStatus::Ok))
}

fn used_row(one: &QuotaUse) -> [String; 3] {
    let whose = if one.whose.is_empty() { "all" } else { &one.whose };
    [
        SafeText::line(whose).to_string(),
        format!("{} today", count(one.calls, "call")),
        count(one.result_tokens, "token").to_string(),
    ]
}

/// Writes a policy file without rules.
fn clear(common: &Common, json: bool) -> CommandResult {
    let (_, files) = load::here(common)?;
    let none = || output::refuse("there is no configuration here: name it with --config");
    let config = files.last().ok_or_else(none)?;
    let (file, old) = clear_policy(config).map_err(|problem| output::refuse(&problem))?;
    if json {
        let object = json!({"file": spelled(&file), "setAside": old.as_deref().map(spelled)});
        return Ok(output::json(&object, ExitStatus::Ok));
    }
    let mut text = format!("no rules are in force any more: {} has none", spelled(&file));
    if let Some(old) = &old {
        let _ = write!(text, "; the old ones are in {}", spelled(old));
    }
    Ok(output::print(&format!("{}\n", SafeText::line(&text)), ExitStatus::Ok))
}

/// Whether a caller signs in at an issuer, so that its token says which profile it has.
fn is_signed_in(origin: &Origin) -> bool {
    matches!(origin, Origin::Gateway(id) if id.starts_with("user/"))
}

/// The profile of the token that the gateway knows by this id.
#[cfg(feature = "gateway")]
fn profile_of(origin: &Origin) -> Option<String> {
    let Origin::Gateway(id) = origin else { return None };
    let state = config::Environment::of_process().state_dir?;
    let tokens = gateway::ClientTokens::from_state_dir(&state).list().ok()?;
    tokens.iter().find(|token| *token.id == **id).map(|token| token.profile.clone())
}

#[cfg(not(feature = "gateway"))]
const fn profile_of(_: &Origin) -> Option<String> {
    None
}

fn open(common: &Common) -> Result<Offline, ExitStatus> {
    let (env, files) = load::here(common)?;
    let loaded = load::load_files(&files, &env).map_err(|d| output::problems(&d))?;
    let offline = Offline::open(&files, &env, loaded.config, Clock::system().now())
        .map_err(|problems| output::refuse(&SafeText::block(&problems.join("\n"))))?;
    for warning in offline.unmatched(&env) {
        output::warn(&SafeText::line(&warning));
    }
    Ok(offline)
}

/// The action on a target of this kind.
const fn used(kind: TargetKind) -> PolicyAction {
    match kind {
        TargetKind::Resource => PolicyAction::Read,
        TargetKind::Prompt => PolicyAction::Prompt,
        _ => PolicyAction::Call,
    }
}

const fn word(effect: PolicyEffect) -> &'static str {
    match effect {
        PolicyEffect::Allow => "allowed",
        PolicyEffect::Ask => "a person is asked",
        PolicyEffect::Deny => "denied",
    }
}

fn principal(origin: Origin, profile: Option<&str>) -> Principal {
    let principal = Principal::new(origin);
    match profile {
        Some(profile) => principal.with_profile(profile),
        None => principal,
    }
}

fn why(
    decision: &Decision,
    whole: Option<&str>,
    service: Option<&HookConfig>,
    overlay: Option<&OverlayConfig>,
    json: bool,
) -> ExitStatus {
    let exit =
        if decision.effect == PolicyEffect::Deny { ExitStatus::Failed } else { ExitStatus::Ok };
    if json {
        let mut object = json!(decision);
        object["why"] = decision.words().into();
        if let Some(whole) = whole {
            object["tool"] = whole.into();
        }
        object["policyService"] = service.is_some().into();
        if let Some(service) = service {
            object["policyServiceMay"] = json!({
                "seeArguments": service.arguments, "seeResults": service.results,
                "change": service.change,
            });
        }
        if let Some(overlay) = overlay {
            object["overlay"] = json!(overlay);
        }
        return output::json(&object, exit);
    }
    let mut text = format!("{}: {}", word(decision.effect), decision.words());
    if let Some(service) = service.filter(|_| exit == ExitStatus::Ok) {
        let _ = write!(text, "; {}", service.words());
    }
    let mut text = format!("{}\n", SafeText::line(&text));
    if let Some(whole) = whole {
        let _ = writeln!(text, "tool: {}", SafeText::line(whole));
    }
    if let Some(overlay) = overlay.filter(|_| exit == ExitStatus::Ok) {
        let _ = writeln!(text, "overlay: {}", SafeText::line(&overlay.words()));
    }
    output::print(&text, exit)
}

fn test(
    offline: &Offline,
    file: &Path,
    (who, profile): (&str, Option<&str>),
    json: bool,
) -> CommandResult {
    let calls = recorded(file).map_err(|problem| output::refuse(&problem))?;
    let mut blocked = Vec::new();
    for call in &calls {
        let origin = call.origin.as_deref().unwrap_or(who);
        let asks = Origin::parse(origin).ok_or_else(|| {
            let (file, origin) = (base::text::path::spelled(file), SafeText::line(origin));
            output::refuse(&format!("{file}: `{origin}` is not an origin; write {ORIGINS}"))
        })?;
        let principal = principal(asks, call.profile.as_deref().or(profile));
        let decision = offline.decide(&principal, used(call.kind), call.kind, &call.tool);
        if decision.effect != PolicyEffect::Allow {
            blocked.push((origin, &call.tool, decision.effect, decision.words()));
        }
    }
    let denied = blocked.iter().filter(|(.., effect, _)| *effect == PolicyEffect::Deny).count();
    let asked = blocked.len() - denied;
    let exit = if denied > 0 { ExitStatus::Failed } else { ExitStatus::Ok };
    if json {
        let rows = blocked.iter().map(|(origin, tool, effect, why)| {
            json!({"origin": origin, "tool": tool, "effect": effect, "why": why})
        });
        let rows: Vec<_> = rows.collect();
        let object = json!({"calls": calls.len(), "blocked": denied, "asked": asked, "rows": rows});
        return Ok(output::json(&object, exit));
    }
    let mut out = String::new();
    for (origin, tool, effect, why) in &blocked {
        let line = format!("{origin}  {tool}  {}: {why}", word(*effect));
        let _ = writeln!(out, "{}", SafeText::line(&line));
    }
    let _ = writeln!(out, "blocks {denied} of {}, asks about {asked}", calls.len());
    Ok(output::print(&out, exit))
}

/// Prints the smallest profile that permits the calls of a file.
fn suggest(file: &Path, profile: &str) -> CommandResult {
    let calls = recorded(file).map_err(|problem| output::refuse(&problem))?;
    let globs = |kind: TargetKind| -> BTreeSet<String> {
        let used = calls.iter().filter(|call| call.kind == kind);
        used.map(|call| globset::escape(&call.tool)).collect()
    };
    let tools = globs(TargetKind::Tool).into_iter().map(|glob| json!(glob));
    let prompts = globs(TargetKind::Prompt).into_iter().map(|glob| json!({ "prompts": glob }));
    let resources = globs(TargetKind::Resource).into_iter();
    let resources = resources.map(|glob| json!({ "resources": glob }));
    let allow: Vec<_> = tools.chain(prompts).chain(resources).collect();
    let object = json!({"policy": {"profiles": {profile: {"allow": allow}}}});
    Ok(output::json(&object, ExitStatus::Ok))
}

/// The calls, reads and prompts of a recording.
fn of_recording(recording: Recording) -> std::io::Result<Vec<PolicyCall>> {
    let mut out = Vec::new();
    for line in recording {
        let RecordingLine::Frame(frame) = line? else { continue };
        let (Some(method), Some(target)) = (&frame.method, &frame.target) else { continue };
        if (frame.direction, frame.kind) != (Direction::Out, MessageKind::Request) {
            continue;
        }
        let own = || format!("{}.{target}", frame.server);
        let (kind, tool) = match method.as_str() {
            "tools/call" => (TargetKind::Tool, own()),
            "prompts/get" => (TargetKind::Prompt, own()),
            "resources/read" => (TargetKind::Resource, target.to_string()),
            _ => continue,
        };
        out.push(PolicyCall { origin: None, profile: None, tool, kind });
    }
    Ok(out)
}

fn recorded(file: &Path) -> Result<Vec<PolicyCall>, String> {
    let shown = base::text::path::spelled(file);
    if let Ok(recording) = Recording::open(file) {
        let losses = recording.losses();
        let calls = of_recording(recording).map_err(|error| format!("{shown}: {error}"))?;
        crate::recording::told(&losses, file);
        return Ok(calls);
    }
    let text = read_text(file, 64 << 20).map_err(|error| format!("{shown}: {error}"))?;
    let text = text.ok_or_else(|| format!("{shown}: there is no such file"))?;
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"));
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| format!("{shown}:{}: {error}", at + 1))
    };
    lines.map(read).collect()
}
