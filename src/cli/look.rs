//! `list` and `status`: what the servers offer, and their state.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::args::{Common, ListArgs, OneServer, StatusArgs};
use super::deck::{Invocation, Need};
use super::load::LeftOut;
use super::output::ExitStatus;
use super::{deck, load, login, outcome, output, values};
use crate::telemetry::Telemetry;
use ::check::answers::AnswerScript;
use base::text::json::WrittenValue;
use base::{SafeText, ServerName};
use config::TransportKind;
use host::{HostView, ServerState, ServerView};
use mcp::StoredToken;
use process::containment;
use protocol::{FindingKind, ListKind, Prompt, Resource, Tool};
use schema::SchemaDocument;

/// Maximum number of findings per server written to stderr; the JSON has all.
const MAX_FINDINGS: usize = 8;

/// `mcpdeck list`
pub fn list(common: &Common, args: &ListArgs, telemetry: &Telemetry) -> ExitStatus {
    let text = |view: &HostView, left_out: &LeftOut| {
        let mut text = list_text(view, args);
        for (name, why) in left_out {
            let why = SafeText::line(&load::in_a_line(why));
            let _ = writeln!(text, "{}  left out: {why}\n", SafeText::line(name.as_str()));
        }
        text
    };
    let object = |view: &HostView| list_json(view, args);
    let invocation = Invocation { common, one: &args.one, telemetry };
    show(invocation, (&args.servers, args.json), object, text)
}

/// Starts the servers and prints their state as formatted by `object` (for JSON) or `text`.
fn show(
    invocation: Invocation<'_>,
    (servers, as_json): (&[String], bool),
    object: impl Fn(&HostView) -> WrittenValue,
    text: impl Fn(&HostView, &LeftOut) -> String,
) -> ExitStatus {
    let need = Need::Servers(servers.to_vec());
    let done = invocation.run(need, AnswerScript::default(), async |scene| {
        let (view, left_out) = (scene.host.snapshot(), scene.left_out);
        complain_of_lists(&view);
        let exit = exit_of(&view, left_out);
        if !as_json {
            return output::print(&text(&view, left_out), exit);
        }
        let mut object = object(&view);
        add_left_out(&mut object.value, left_out);
        output::json_line(&object, exit)
    });
    done.unwrap_or_else(|error| failure(&error, as_json))
}

/// Reports a command that could not start, in the requested format.
fn failure(error: &config::error::Error, json: bool) -> ExitStatus {
    if !json {
        deck::complain(error);
        return deck::exit_of(error);
    }
    let object = json!({"servers": [], "error": outcome::error_json(error)});
    output::json_line(&object, deck::exit_of(error))
}

/// Adds servers whose entry cannot be used to those that did not start.
fn add_left_out(object: &mut Value, left_out: &LeftOut) {
    let Some(servers) = object["servers"].as_array_mut() else { return };
    servers.extend(left_out.iter().map(|(name, why)| {
        let reason = format!("its entry cannot be used: {} ({})", why.message, why.at);
        json!({"name": name, "state": "unavailable", "reason": reason, "help": why.help})
    }));
}

fn exit_of(view: &HostView, left_out: &LeftOut) -> ExitStatus {
    if !left_out.is_empty() {
        return ExitStatus::Usage;
    }
    let up = |s: &ServerView| s.state.is_callable() || s.state == ServerState::Disabled;
    if !view.servers.values().all(|s| up(s)) {
        return ExitStatus::Unavailable;
    }
    let whole =
        |s: &ServerView| s.capabilities.partial.is_empty() && outcome::unlisted_reason(s).is_none();
    if view.servers.values().all(|s| whole(s)) { ExitStatus::Ok } else { ExitStatus::Failed }
}

/// Writes problems of the servers' lists to stderr: a failed list looks like an empty one, and a name
/// does not show that it leads to two servers.
fn complain_of_lists(view: &HostView) {
    let mut reported = HashSet::new();
    for server in view.servers.values() {
        for (list, why) in &server.capabilities.partial {
            let method = list.method();
            output::complain(&format!("{}: `{method}` is not complete: {why}", server.name));
        }
        let found = outcome::list_findings(server);
        for twice in found.iter().filter(|found| found.kind == FindingKind::Collision) {
            if reported.len() < MAX_FINDINGS && reported.insert(twice.message.clone()) {
                output::complain(&twice.message);
            }
        }
        let shape = found.iter().filter(|found| found.kind == FindingKind::WrongShape);
        for finding in shape.take(MAX_FINDINGS) {
            output::complain(&format!("{}: {}", server.name, finding.message));
        }
    }
}

/// The lists that are shown.
fn shown(args: &ListArgs) -> impl Iterator<Item = ListKind> {
    let only = args.only;
    ListKind::ALL.into_iter().filter(move |kind| only.is_none_or(|only| only == *kind))
}

fn list_text(view: &HostView, args: &ListArgs) -> String {
    let mut out = String::new();
    for server in view.servers.values() {
        let _ = write!(out, "{}", SafeText::line(server.name.as_str()));
        if !server.state.is_callable() {
            let _ = writeln!(out, "  {}", server.state.because(server.reason.as_ref()));
            if let Some(help) = &server.help {
                let _ = writeln!(out, "  help: {help}");
            }
            out.push('\n');
            continue;
        }
        out.push('\n');
        let all = &server.capabilities;
        for kind in shown(args) {
            let rows: Vec<ListedRow> = match kind {
                ListKind::Tools => all.tools.iter().map(tool_row).collect(),
                ListKind::Prompts => all.prompts.iter().map(prompt_row).collect(),
                ListKind::Resources => all.resources.iter().map(resource_row).collect(),
                ListKind::ResourceTemplates => all.templates.iter().map(resource_row).collect(),
            };
            section(&mut out, kind, &rows, args.long);
        }
        for entry in &all.rejected {
            let _ =
                writeln!(out, "  rejected {} {}: {}", entry.list.key(), entry.index, entry.reason);
        }
        out.push('\n');
    }
    out
}

/// One entry of a list.
struct ListedRow<'a> {
    name: &'a SafeText,
    says: Option<&'a SafeText>,
    schema: SchemaDocument,
    /// What else is known of it, for `--long`.
    more: Vec<String>,
}

fn tool_row(tool: &Arc<Tool>) -> ListedRow<'_> {
    let mut more = Vec::new();
    if let Some(uri) = tool.app() {
        more.push(format!("app: {}", SafeText::line(uri)));
    }
    if !tool.is_for_models() {
        more.push("for apps only: models are not offered it".to_owned());
    }
    let (says, schema) = (
        tool.description.as_ref(),
        SchemaDocument::written(&tool.input_schema, &tool.raw.numbers.below("/inputSchema")),
    );
    ListedRow { name: &tool.label, says, schema, more }
}

fn prompt_row(prompt: &Arc<Prompt>) -> ListedRow<'_> {
    let (says, schema) = (prompt.description.as_ref(), values::prompt_schema(prompt));
    ListedRow { name: &prompt.label, says, schema, more: Vec::new() }
}

fn resource_row(resource: &Arc<Resource>) -> ListedRow<'_> {
    let (says, schema) = (Some(&resource.name), SchemaDocument::default());
    ListedRow { name: &resource.label, says, schema, more: Vec::new() }
}

fn section(out: &mut String, kind: ListKind, rows: &[ListedRow<'_>], long: bool) {
    if rows.is_empty() {
        return;
    }
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(40);
    let _ = writeln!(out, "  {}s", kind.noun());
    for ListedRow { name, says, schema, more } in rows {
        let says = says.map(|says| values::first_line(says)).unwrap_or_default();
        let line = format!("    {:width$}  {says}", name.as_str());
        let _ = writeln!(out, "{}", line.trim_end());
        if long {
            values::write_parameters(out, schema);
            for line in more {
                let _ = writeln!(out, "        {line}");
            }
        }
    }
}

fn list_json(view: &HostView, args: &ListArgs) -> WrittenValue {
    let servers = view.servers.values().map(|server| {
        let mut object = WrittenValue::from(status_json(server));
        for kind in shown(args) {
            let entries = server.capabilities.entries(kind).into_iter();
            let entries = entries.map(|(_, raw)| WrittenValue::clone(raw)).collect();
            object.insert_written(kind.key(), entries);
        }
        object
    });
    let mut all = WrittenValue::from(json!({}));
    all.insert_written("servers", servers.collect());
    all
}

/// `mcpdeck status`
pub fn status(common: &Common, args: &StatusArgs, telemetry: &Telemetry) -> ExitStatus {
    // Read once the servers were connected to: that refreshes tokens.
    let signed_in = |view: &HostView| {
        let is_remote = |server: &ServerView| server.transport != TransportKind::Stdio;
        // Reads the configuration again, which is not needed where nothing can be signed in to.
        if view.servers.values().any(|server| is_remote(server)) {
            signed_in(common, &args.one)
        } else {
            IndexMap::new()
        }
    };
    let object = |view: &HostView| {
        let signed_in = signed_in(view);
        let servers = view.servers.values().map(|server| {
            let mut object = status_json(server);
            if let Some(token) = signed_in.get(&server.name) {
                object["signIn"] = json!({
                    "issuer": token.issuer,
                    "scopes": token.scopes,
                    "expires": login::expires(token),
                });
            }
            object
        });
        json!({"servers": servers.collect::<Vec<_>>(), "containment": containment()}).into()
    };
    let text = |view: &HostView, left_out: &LeftOut| {
        let mut text = status_text(view, left_out);
        for (name, token) in signed_in(view) {
            let _ = write!(text, "\n{}: signed in\n", SafeText::line(name.as_str()));
            text += &login::details(&token, "  ");
        }
        text
    };
    let invocation = Invocation { common, one: &args.one, telemetry };
    show(invocation, (&args.servers, args.json), object, text)
}

/// The tokens of the servers that are signed in to.
fn signed_in(common: &Common, one: &OneServer) -> IndexMap<ServerName, StoredToken> {
    let accounts = deck::accounts(common, one);
    let (Some(accounts), Ok(source)) = (accounts, load::usable(common, one)) else {
        return IndexMap::new();
    };
    let tokens = source.config.servers.iter().filter_map(|(name, server)| {
        let auth = accounts.authorizer(name, server.transport.http()?).ok()??;
        Some((name.clone(), auth.state().ok()??))
    });
    tokens.collect()
}

fn status_json(server: &ServerView) -> Value {
    let session = server.session.as_deref();
    let all = &server.capabilities;
    let findings = outcome::list_findings(server);
    let counts = ListKind::ALL.map(|kind| (kind.key(), all.entries(kind).len()));
    json!({
        "name": server.name,
        "state": server.state.as_str(),
        "reason": server.reason,
        "help": server.help,
        "transport": server.transport.as_str(),
        "protocolVersion": session.map(|s| &s.protocol_version),
        "era": session.map(|s| s.era),
        "serverInfo": session.map(|s| s.server_info.as_ref()),
        "counts": counts.into_iter().collect::<Value>(),
        "findings": findings.iter().map(outcome::finding_json).collect::<Vec<_>>(),
    })
}

fn status_text(view: &HostView, left_out: &LeftOut) -> String {
    let head =
        ["server", "state", "transport", "version", "tools", "prompts", "resources", "server info"];
    let rows = view.servers.values().map(|server| {
        let (session, all) = (server.session.as_deref(), &server.capabilities);
        let says = match (session, server.state) {
            (Some(s), ServerState::Ready) => format!("{} {}", s.name, s.version),
            _ => server.reason.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        let counts = [all.tools.len(), all.prompts.len(), all.resources.len()];
        let [tools, prompts, resources] = counts.map(|count| count.to_string());
        let version = session.map_or("-", |s| s.protocol_version.as_str()).to_owned();
        let (name, state) = (server.name.to_string(), server.state.word().to_owned());
        let transport = server.transport.as_str().to_owned();
        [name, state, transport, version, tools, prompts, resources, says]
    });
    let mut out = output::table("", std::iter::once(head.map(str::to_owned)).chain(rows));
    for (name, why) in left_out {
        let line = format!("{name}  left out  {}", load::in_a_line(why));
        let _ = writeln!(out, "{}", SafeText::line(&line));
    }
    for server in view.servers.values() {
        if let Some(help) = &server.help {
            let _ = writeln!(out, "\n{}: {help}", SafeText::line(server.name.as_str()));
        }
    }
    let is_local = |server: &ServerView| server.transport == TransportKind::Stdio;
    // Only what the user may have to care about; `--json` has it always.
    if !containment().is_whole() && view.servers.values().any(|server| is_local(server)) {
        let _ = writeln!(out, "\nprocesses are held by {}", containment().describe());
    }
    out
}
