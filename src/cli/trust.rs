//! `trust`: which commands of a configuration may run without asking. Lists, approves and revokes;
//! starts no server.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::args::{Chosen, Common, TrustArgs, TrustVerb};
use super::output::{CommandResult, ExitStatus, problems};
use super::{load, output};
use ::deck::{Passed, Review, TrustGate, TrustStore, TrustVerdict};
use base::{SafeText, ServerName};
use config::Environment;

/// `mcpdeck trust`
pub fn trust(common: &Common, args: &TrustArgs) -> CommandResult {
    let (env, files) = load::here(common)?;
    let store = TrustStore::from_env(&env)
        .ok_or_else(|| output::refuse("there is no folder in which approvals could be kept"))?;
    let passed = read(&files, &env, &store)?;
    let reviews = store.review(&passed.reviewed);
    match &args.verb {
        None | Some(TrustVerb::List) => Ok(list(&reviews, args.json)),
        Some(TrustVerb::Approve(chosen)) => {
            let chosen = choose(&reviews, chosen)?;
            let names: Vec<ServerName> = chosen.iter().map(|r| r.server.clone()).collect();
            store
                .approve(&passed.reviewed, &names)
                .map_err(|error| output::refuse(&format!("the approval was not kept: {error}")))?;
            let word = word(&TrustVerdict::Approved);
            if args.json {
                let servers = chosen.iter().map(|review| as_json(review, word));
                let object = json!({ "servers": servers.collect::<Vec<_>>() });
                return Ok(output::json(&object, ExitStatus::Ok));
            }
            let mut out = String::new();
            for review in chosen {
                describe(review, word, &mut out);
            }
            Ok(output::print(&out, ExitStatus::Ok))
        }
        Some(TrustVerb::Revoke(chosen)) => revoke(&store, choose(&reviews, chosen)?, args.json),
    }
}

fn read(files: &[PathBuf], env: &Environment, store: &TrustStore) -> Result<Passed, ExitStatus> {
    let loaded = load::load_files(files, env).map_err(|d| problems(&d))?;
    let wrong: Vec<_> = loaded.diagnostics.iter().filter(|d| d.is_error()).cloned().collect();
    if !wrong.is_empty() {
        // The other servers can still be approved.
        problems(&wrong);
    }
    Ok(TrustGate::Guarded(store.clone()).pass(loaded, env, None))
}

fn list(reviews: &[Review], json: bool) -> ExitStatus {
    let open = reviews.iter().any(|review| review.verdict != TrustVerdict::Approved);
    let exit = if open { ExitStatus::Failed } else { ExitStatus::Ok };
    if json {
        let shown = |review: &Review| as_json(review, word(&review.verdict));
        let servers: Vec<Value> = reviews.iter().map(shown).collect();
        return output::json(&json!({ "servers": servers }), exit);
    }
    let mut out = String::new();
    for review in reviews {
        describe(review, word(&review.verdict), &mut out);
    }
    if open {
        out.push_str("approve with `mcpdeck trust approve NAME` or `--all`, or in the dashboard\n");
    }
    output::print(&out, exit)
}

fn revoke(store: &TrustStore, chosen: Vec<&Review>, json: bool) -> CommandResult {
    let mut out = String::new();
    let mut servers: Vec<Value> = Vec::new();
    for review in chosen {
        let name = SafeText::line(review.server.as_str());
        let revoked = store
            .revoke(&review.at.file, &review.server)
            .map_err(|error| output::refuse(&format!("{name}: {error}")))?;
        let word = if revoked { "no longer approved" } else { "was not approved" };
        let _ = writeln!(out, "{name}: {word}");
        servers.push(json!({ "server": review.server, "revoked": revoked }));
    }
    if json {
        return Ok(output::json(&json!({ "servers": servers }), ExitStatus::Ok));
    }
    Ok(output::print(&out, ExitStatus::Ok))
}

fn choose<'r>(reviews: &'r [Review], chosen: &Chosen) -> Result<Vec<&'r Review>, ExitStatus> {
    if chosen.all {
        return Ok(reviews.iter().collect());
    }
    if chosen.servers.is_empty() {
        return Err(output::refuse("name the servers, or use `--all`"));
    }
    let find = |name: &String| {
        let name = ServerName::new(name);
        reviews.iter().find(|review| review.server == name).ok_or_else(|| {
            let known: Vec<&str> = reviews.iter().map(|r| r.server.as_str()).collect();
            let known = SafeText::line(&known.join(", "));
            let name = SafeText::line(name.as_str());
            output::refuse(&format!("there is no server `{name}` in the file; there are {known}"))
        })
    };
    chosen.servers.iter().map(find).collect()
}

const fn word(verdict: &TrustVerdict) -> &'static str {
    match verdict {
        TrustVerdict::Approved => "approved",
        TrustVerdict::New => "new",
        TrustVerdict::Changed(_) => "changed",
    }
}

/// One server for people to read; the words of the command line are already escaped.
fn describe(review: &Review, word: &str, out: &mut String) {
    let name = SafeText::line(review.server.as_str());
    let _ = writeln!(out, "{name}: {word}");
    let value = |label: &str| {
        let all =
            review.shown.iter().filter(|(l, _)| l == label || l.starts_with(&format!("{label}[")));
        all.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    let line = ["command", "args", "openapi", "url"].map(value).concat().join(" ");
    let _ = writeln!(out, "  {}", SafeText::line(&line));
    for danger in &review.dangers {
        let _ = writeln!(out, "  careful: {}", SafeText::line(danger));
    }
    if let TrustVerdict::Changed(fields) = &review.verdict {
        for field in fields {
            for (sign, side) in [('-', &field.before), ('+', &field.after)] {
                if let Some(side) = side {
                    let line = format!("{sign} {}  {side}", field.field);
                    let _ = writeln!(out, "  {}", SafeText::line(&line));
                }
            }
        }
    }
}

fn as_json(review: &Review, word: &str) -> Value {
    let shown: serde_json::Map<String, Value> =
        review.shown.iter().map(|(label, value)| (label.clone(), json!(value))).collect();
    let changes: Vec<Value> = match &review.verdict {
        TrustVerdict::Changed(fields) => fields
            .iter()
            .map(|f| json!({ "field": f.field, "before": f.before, "after": f.after }))
            .collect(),
        _ => Vec::new(),
    };
    json!({
        "server": review.server,
        "at": review.at.to_string(),
        "state": word,
        "runs": shown,
        "changes": changes,
        "dangers": review.dangers,
    })
}
