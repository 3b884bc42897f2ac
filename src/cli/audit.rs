//! `audit`: checks and shows the log of who called what. Starts no server.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use serde_json::{Value, json};

use super::args::Common;
use super::output::{CommandResult, ExitStatus};
use super::{load, output};
use ::deck::{AuditPlace, AuditReport, load_policy, read_audit, verify_audit};
use base::SafeText;
use base::human::{Dur, count};
use base::text::path::spelled;
use host::{NamePatterns, Reading, split_name};

/// `mcpdeck audit`
#[derive(Debug, Args)]
#[command(after_help = "\
A policy turns the log on: `\"policy\": {\"audit\": {\"file\": \"audit.jsonl\"}}`. Each call is a line
before it is sent and one when it ends; each refused one is a line. A call that cannot be written is
refused. Each line has the hash of the line before: what is changed, taken out or put in shows, and
with --end a cut end too.")]
pub struct AuditArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: AuditVerb,
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `mcpdeck audit` does.
#[derive(Debug, Subcommand)]
pub enum AuditVerb {
    /// Check that no line was changed, taken out or put in; exits with 1 when one was.
    Verify {
        /// The log [default: that of the policy here].
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
        /// A line with this hash must be there: the one that an earlier `verify` printed.
        #[arg(long, value_name = "HASH")]
        end: Option<String>,
    },
    /// Show who called what: the calls with how they ended, and the refused ones.
    Show(ShowArgs),
}

/// `mcpdeck audit show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The log [default: that of the policy here].
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Only these callers, a glob (gateway:*).
    #[arg(long, value_name = "GLOB", value_parser = parse_patterns)]
    pub caller: Option<NamePatterns>,
    /// Only these targets, a glob over server.tool, or over URIs.
    #[arg(long, value_name = "GLOB", value_parser = parse_patterns)]
    pub target: Option<NamePatterns>,
    /// Only those that were not permitted.
    #[arg(long)]
    pub refused: bool,
    /// How many of the last ones; 0 for all.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    pub last: usize,
}

/// Most calls without an end that are remembered while a log is read.
const MAX_OPEN_CALLS: usize = 100_000;

fn parse_patterns(text: &str) -> Result<NamePatterns, String> {
    NamePatterns::parse(text).map_err(|error| error.to_string())
}

/// Whether a pattern matches the target of an event: a URI, or a tool as the caller spelled it. The
/// log does not say where the name of its server ends.
fn is_target(pattern: &NamePatterns, target: &str) -> bool {
    let split = |(at, _)| split_name(target, [target.get(..at)?]);
    let is_match = |(server, name)| pattern.is_match(server, name, Reading::Wide);
    pattern.is_match_text(target) || target.char_indices().filter_map(split).any(is_match)
}

/// `mcpdeck audit`
pub fn audit(common: &Common, args: &AuditArgs) -> CommandResult {
    match &args.verb {
        AuditVerb::Verify { file, end } => {
            let file = log_file(common, file.as_ref())?;
            Ok(match verify_audit(&file, end.as_deref()) {
                Ok(report) => verified(&report, args.json),
                Err(why) if args.json => {
                    output::json(&json!({"ok": false, "why": why}), ExitStatus::Failed)
                }
                Err(why) => {
                    output::complain(&why);
                    ExitStatus::Failed
                }
            })
        }
        AuditVerb::Show(show) => {
            let file = log_file(common, show.file.as_ref())?;
            let events = selected(&file, show).map_err(|why| output::refuse(&why))?;
            if args.json {
                let events: Vec<Value> = events.into();
                let object = json!({"file": spelled(&file), "events": events});
                return Ok(output::json(&object, ExitStatus::Ok));
            }
            if events.is_empty() {
                output::progress(&format!("nothing in {} fits", spelled(&file)));
            }
            Ok(output::print(&table(&events), ExitStatus::Ok))
        }
    }
}

/// The log: the one that is named, else that of the policy here.
fn log_file(common: &Common, named: Option<&PathBuf>) -> Result<PathBuf, ExitStatus> {
    if let Some(file) = named {
        return Ok(file.clone());
    }
    let (env, files) = load::here(common)?;
    let policy = load_policy(&files).map_err(|all| output::refuse(&all.join("\n")))?;
    let place = AuditPlace::new(files.last().map(PathBuf::as_path), &env);
    let none = || {
        output::refuse(
            "the policy here asks for no audit log: set `\"policy\": {\"audit\": {}}`, or name a file",
        )
    };
    let path = place.of_policy(&policy).ok_or_else(none)?;
    path.map_err(|problem| output::refuse(&problem))
}

fn verified(report: &AuditReport, json: bool) -> ExitStatus {
    if json {
        let mut object = json!(report);
        object["ok"] = true.into();
        return output::json(&object, ExitStatus::Ok);
    }
    let AuditReport { files, events, first, last, hash } = report;
    let files = count(files.len(), "file");
    let span = if *events == 0 { String::new() } else { format!(", numbers {first} to {last}") };
    let mut text = format!("unbroken: {} in {files}{span}\nend: {hash}\n", count(*events, "line"));
    if *first > 1 {
        let _ = writeln!(text, "the lines before number {first} are not there any more");
    }
    output::print(&text, ExitStatus::Ok)
}

/// The last events that fit: one for each call.
fn selected(file: &std::path::Path, show: &ShowArgs) -> Result<VecDeque<Value>, String> {
    let is_caller = |caller: &str| show.caller.as_ref().is_none_or(|of| of.is_match_text(caller));
    let is_target = |target: &str| show.target.as_ref().is_none_or(|of| is_target(of, target));
    let mut found: VecDeque<(u64, Value)> = VecDeque::new();
    // Calls without an end so far, by the program and the number of the call.
    let mut open: HashMap<(String, u64), u64> = HashMap::new();
    read_audit(file, &mut |event| {
        let seq = event["seq"].as_u64().unwrap_or(0);
        let host = event["host"].as_str().unwrap_or_default().to_owned();
        let call = event["call"].as_u64().map(|call| (host, call));
        match (event["event"].as_str(), call) {
            (Some("call"), Some(call)) if open.len() < MAX_OPEN_CALLS => _ = open.insert(call, seq),
            (Some("end"), Some(call)) => {
                if let Some(began) = open.remove(&call) {
                    let at = found.binary_search_by_key(&began, |(seq, _)| *seq);
                    at.ok().and_then(|at| found.remove(at));
                }
            }
            _ => {}
        }
        let is_wanted = is_caller(event["caller"].as_str().unwrap_or_default())
            && is_target(event["target"].as_str().unwrap_or_default())
            && !(show.refused && event["allowed"] != false);
        if is_wanted {
            found.push_back((seq, event));
        }
        // What is under way may still end.
        if show.last > 0 && found.len() > 2 * show.last + open.len() {
            found.pop_front();
        }
    })?;
    let surplus = if show.last == 0 { 0 } else { found.len().saturating_sub(show.last) };
    Ok(found.into_iter().skip(surplus).map(|(_, event)| event).collect())
}

fn table(events: &VecDeque<Value>) -> String {
    let text = |value: &Value| SafeText::line(value.as_str().unwrap_or_default()).to_string();
    let rows = events.iter().map(|event| {
        let who = match event["profile"].as_str() {
            Some(profile) => format!("{} ({profile})", text(&event["caller"])),
            None => String::new(),
        };
        let what = format!("{} {}", text(&event["action"]), text(&event["target"]));
        let took = event["durationMs"].as_f64().and_then(|millis| {
            let span = std::time::Duration::try_from_secs_f64(millis / 1e3).ok()?;
            Some(format!(" in {}", Dur(span)))
        });
        let end = match event["event"].as_str() {
            Some("end") if event["allowed"] == true => {
                format!("{}{}", text(&event["status"]), took.unwrap_or_default())
            }
            Some("end" | "refused") => "refused".to_owned(),
            Some("call") => "under way, or its end is unknown".to_owned(),
            Some("mended") => "a line was cut short".to_owned(),
            _ => String::new(),
        };
        [text(&event["at"]), who, what.trim().to_owned(), end, text(&event["rule"])]
    });
    output::table("", rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_shown_once_with_its_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("audit.jsonl");
        let line = |seq: u64, event: &str, call: u64, caller: &str, allowed: bool| {
            json!({"seq": seq, "event": event, "call": call, "caller": caller, "target": "s.t",
                   "allowed": allowed, "host": "a", "prev": ""})
        };
        let all = [
            line(1, "call", 1, "cli", true),
            line(2, "call", 2, "gateway:x", true),
            line(3, "end", 1, "cli", true),
            line(4, "end", 3, "gateway:x", false),
        ];
        let lines = all.map(|line| line.to_string()).join("\n");
        std::fs::write(&file, lines + "\n").expect("written");
        let show = |caller: Option<&str>, refused, last| {
            let caller = caller.map(|glob| parse_patterns(glob).expect("a glob"));
            let show = ShowArgs { file: None, caller, target: None, refused, last };
            let found = selected(&file, &show).expect("read");
            found.iter().map(|event| event["seq"].as_u64().expect("a number")).collect::<Vec<_>>()
        };
        assert_eq!(show(None, false, 0), [2, 3, 4]);
        assert_eq!(show(None, false, 1), [4]);
        assert_eq!(show(Some("gateway:*"), false, 50), [2, 4]);
        assert_eq!(show(None, true, 50), [4]);
    }

    #[test]
    fn a_target_is_found_by_any_spelling_of_the_pattern_and_of_the_caller() {
        let is_match = |pattern, target| is_target(&parse_patterns(pattern).expect("one"), target);
        for target in ["git.push", "git/push", "git__push", "git:push"] {
            for pattern in ["git.push", "git/p*", "git:push", "git__push", "*.push", "git.*"] {
                assert!(is_match(pattern, target), "{pattern} {target}");
            }
            for pattern in ["git.pull", "gi/p*", "svn__*"] {
                assert!(!is_match(pattern, target), "{pattern} {target}");
            }
        }
        assert!(is_match("my.files/read", "my.files.read"));
        assert!(is_match("file:///notes/*", "file:///notes/a.md"));
        assert!(!is_match("file:///other/*", "file:///notes/a.md"));
    }
}
