//! `grants`: what callers other than the user may do. Lists, adds and revokes; starts no server. A
//! running host applies a change within a second.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::args::Common;
use super::output::{CommandResult, ExitStatus};
use super::{load, output};
use ::deck::{GrantStore, KeptDefinitions};
use base::human::{Dur, parse_duration};
use base::text::json as safe;
use base::{Clock, SafeText, Timestamp};
use config::Environment;
use host::{
    AccessScope, DEFAULT_PROFILE, Grant, GrantId, GrantKind, NewGrant, OfferedNames, Origin,
    parse_holder, unmatched_tools,
};

/// `mcpdeck grants`
#[derive(Debug, Args)]
pub struct GrantsArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: Option<GrantsVerb>,
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `mcpdeck grants` does.
#[derive(Debug, Subcommand)]
pub enum GrantsVerb {
    /// Show every grant in effect.
    List,
    /// Permit something to a caller, or deny it.
    Add(AddArgs),
    /// Revoke a grant.
    Revoke {
        /// Its number, from `grants list`.
        #[arg(value_name = "ID", required = true)]
        ids: Vec<u64>,
    },
}

/// `mcpdeck grants add`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("how long").required(true).args(["for_time", "always", "deny"]))]
pub struct AddArgs {
    /// Caller: gateway:TOKEN, browser:https://ORIGIN, chat:SESSION or app:SERVER; `gateway:*` for
    /// all tokens.
    #[arg(long, value_name = "ORIGIN", value_parser = parse_origin)]
    pub origin: String,
    /// The caller's profile.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROFILE)]
    pub profile: String,
    /// The scope, for example mcp:resources.read; may be given several times [default: those of
    /// tools with --tools, otherwise all].
    #[arg(long, value_name = "SCOPE", value_parser = parse_scope)]
    pub scope: Vec<AccessScope>,
    /// Only these tools, a glob over server.tool (or server/tool, server:tool); may be given several
    /// times, and with no scope but mcp:tools.list and mcp:tools.call.
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub tools: Vec<String>,
    /// How long: seconds, or with a unit (10m).
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub for_time: Option<Duration>,
    /// Until it is revoked, for the tools as they are now; a changed or new tool is not covered.
    #[arg(long)]
    pub always: bool,
    /// Deny it; overrides every grant.
    #[arg(long)]
    pub deny: bool,
}

fn parse_origin(text: &str) -> Result<String, String> {
    match Origin::parse(text) {
        Some(origin) if origin.is_person() => Err("you need no grant".to_owned()),
        _ => parse_holder(text),
    }
}

pub(super) fn parse_scope(text: &str) -> Result<AccessScope, String> {
    AccessScope::parse(text).ok_or_else(|| {
        let all =
            AccessScope::ALL.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
        format!("use one of {all}")
    })
}

pub(super) fn parse_glob(text: &str) -> Result<String, String> {
    globset::Glob::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// `mcpdeck grants`
pub fn grants(common: &Common, args: &GrantsArgs) -> CommandResult {
    let (env, files) = load::here(common)?;
    let store =
        files.last().and_then(|file| GrantStore::from_config(file, &env)).ok_or_else(|| {
            output::refuse("there is no configuration, or no folder in which grants are kept")
        })?;
    let now = Clock::system().now();
    let text = match &args.verb {
        None | Some(GrantsVerb::List) => {
            let all = store.list(now).map_err(|problem| output::refuse(&problem))?;
            for flaw in all.iter().flat_map(Grant::flaws) {
                output::warn(&SafeText::line(&flaw));
            }
            if args.json {
                safe::pretty(&json!({ "grants": all })) + "\n"
            } else {
                listed(&all, now)
            }
        }
        Some(GrantsVerb::Add(add)) => {
            let refused = |problem| output::refuse(&format!("nothing was granted: {problem}"));
            let wanted = wanted(add, now);
            if let Some(problem) = wanted.unlimited_scopes() {
                return Err(refused(problem));
            }
            let grant = store.add(wanted, now).map_err(refused)?;
            warn_unmatched(&files, &env, &grant);
            if args.json { safe::pretty(&grant) + "\n" } else { line(&grant, now) }
        }
        Some(GrantsVerb::Revoke { ids }) => return revoke(&store, ids, args.json),
    };
    Ok(output::print(&text, ExitStatus::Ok))
}

/// Tells which patterns of a grant match nothing of the servers, by their lists as last seen.
fn warn_unmatched(files: &[PathBuf], env: &Environment, grant: &Grant) {
    let Ok(loaded) = load::load_files(files, env) else { return };
    let kept = KeptDefinitions::from_env(env);
    let servers = loaded.config.servers.values();
    let offered = servers.map(|server| {
        let lists = kept.lists(server).map(|(lists, _)| lists);
        OfferedNames::of_tools(server.name.clone(), lists.as_ref())
    });
    for unmatched in unmatched_tools(&grant.allowed_tools, &offered.collect::<Vec<_>>()) {
        output::warn(&SafeText::line(&unmatched.to_string()));
    }
}

fn wanted(add: &AddArgs, now: Timestamp) -> NewGrant {
    let kind = match add.for_time {
        Some(time) => GrantKind::Once { until: Some(now.plus(time)), session: None },
        None if add.deny => GrantKind::Deny,
        None => GrantKind::Always,
    };
    let is_of_tools = add.scope.is_empty() && !add.tools.is_empty() && !add.deny;
    let scopes = if is_of_tools { AccessScope::OF_TOOLS } else { &*add.scope };
    NewGrant {
        origin: add.origin.clone(),
        profile: add.profile.clone(),
        scopes: scopes.iter().copied().collect::<BTreeSet<_>>(),
        allowed_tools: add.tools.clone(),
        kind,
    }
}

fn revoke(store: &GrantStore, ids: &[u64], json: bool) -> CommandResult {
    let mut exit = ExitStatus::Ok;
    let mut out = String::new();
    let mut grants: Vec<Value> = Vec::new();
    for id in ids {
        let revoked = store.revoke(GrantId(*id)).map_err(|problem| output::refuse(&problem))?;
        grants.push(json!({ "id": id, "revoked": revoked.is_some() }));
        let _ = if revoked.is_some() {
            writeln!(out, "{id}: revoked")
        } else {
            exit = ExitStatus::Usage;
            writeln!(out, "{id}: there is no such grant")
        };
    }
    if json {
        return Ok(output::json(&json!({ "grants": grants }), exit));
    }
    Ok(output::print(&out, exit))
}

fn listed(all: &[Grant], now: Timestamp) -> String {
    if all.is_empty() {
        return "nothing is granted: `mcpdeck grants add --help` shows how\n".to_owned();
    }
    all.iter().map(|grant| line(grant, now)).collect()
}

fn line(grant: &Grant, now: Timestamp) -> String {
    let all = |empty: &str, words: Vec<String>| {
        if words.is_empty() { empty.to_owned() } else { words.join(" ") }
    };
    let is_of_tools = !grant.allowed_tools.is_empty();
    let every = if is_of_tools { "the scopes of tools" } else { "every scope" };
    let scopes = all(every, grant.scopes.iter().map(ToString::to_string).collect());
    let tools = all("all tools", grant.allowed_tools.clone());
    let how = match &grant.effect {
        GrantKind::Once { until: Some(until), .. } => {
            format!("for {} more", Dur(until.since(now)))
        }
        GrantKind::Once { .. } => "for a session".to_owned(),
        GrantKind::Always if grant.covers.is_empty() => {
            "always, from when its servers are seen next".to_owned()
        }
        GrantKind::Always => "always".to_owned(),
        GrantKind::Deny => "denied".to_owned(),
    };
    let text =
        format!("{}  {} ({})  {how}  {scopes}  {tools}", grant.id, grant.origin, grant.profile);
    format!("{}\n", SafeText::line(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_for_one_caller_or_for_all_of_a_kind() {
        for origin in
            ["gateway:ci", "gateway:*", "browser:*", "browser:https://app.example", "app:files"]
        {
            assert_eq!(parse_origin(origin).as_deref(), Ok(origin));
        }
        for wrong in [
            "gateway:user/*",
            "gateway:a?",
            "chat:[ab]",
            "app:{a,b}",
            "browser:http://x/path",
            "browser:https://*.example",
            "browser:null",
            "gateway:owner",
            "cli",
            "gateway:",
            "x:y",
        ] {
            assert!(parse_origin(wrong).is_err(), "{wrong}");
        }
    }
}
