//! `connect`, `disconnect` and `sync`: other MCP clients reach the servers through the deck, or have
//! copies of their entries. Shows every change of a client's file before it is made.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use serde_json::{Map, Value, json};

use super::args::{Common, OneServer};
use super::deck::{self, Invocation, Need};
use super::load::LoadedConfig;
use super::output::{CommandResult, ExitStatus};
use super::typed::StdinLines;
use super::{load, output, signals};
use crate::telemetry::Telemetry;
use ::check::answers::AnswerScript;
use ::deck::load_policy;
use base::file::is_there;
use base::text::nearest;
use base::text::path::spelled;
use base::{Clock, SafeText, ServerName};
use config::{
    Environment, ExportScope, FileFormat, ImportHost, SourceText, client_entry, entry_at,
    masked_lines, preview_import, put_entry, read_document, read_import_text, unified_patch,
};
use host::{DEFAULT_PROFILE, HostView, ServerState, ServerView};
use reach::{
    ClientChange, ConnectionKind, ConnectionRecord, Connections, DECK_ENTRY, ReachError,
    WrittenEntry, is_installed, read_client, servers_of_files, starts_deck,
};

/// How long `--list` waits for the tools of a deck that has answered.
const LISTS_TIMEOUT: Duration = Duration::from_secs(3);

/// Which files of which clients.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct ClientChoice {
    /// The clients: claude-desktop, claude-code, cursor, vs-code, windsurf, cline, gemini-cli, codex, zed,
    /// opencode, goose, continue.
    #[arg(value_name = "CLIENT", value_parser = parse_client)]
    clients: Vec<ImportHost>,
    /// Every client on this machine.
    #[arg(long, conflicts_with = "clients")]
    all: bool,
    /// The file of the project in this folder instead of that of the user.
    #[arg(long)]
    project: bool,
    /// This file of the client.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["all", "project"])]
    file: Option<PathBuf>,
    /// The name of the entry in the client's file [default: mcpdeck].
    #[arg(long, value_name = "NAME", value_parser = parse_entry_name)]
    name: Option<String>,
    /// Make the change without asking.
    #[arg(long, short = 'y')]
    yes: bool,
    /// Only show the change.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

/// `mcpdeck connect`
#[derive(Debug, Args)]
pub struct ConnectArgs {
    #[command(flatten)]
    choice: ClientChoice,
    /// List the clients on this machine: what they have, and whether the deck answers them.
    #[arg(long, conflicts_with_all = ["all", "direct", "http", "yes", "dry_run"])]
    list: bool,
    /// Write the entries of the servers themselves; `mcpdeck sync` keeps them equal to your file.
    #[arg(long, conflicts_with_all = ["http", "profile"])]
    direct: bool,
    /// With --direct: only this server; may be given several times.
    #[arg(long, value_name = "NAME", requires = "direct")]
    server: Vec<String>,
    /// Reach a running `mcpdeck serve` with a token of its own, instead of starting the deck.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "http://127.0.0.1:7337/mcp")]
    http: Option<url::Url>,
    /// The profile of the policy that the client acts under.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Print one JSON object.
    #[arg(long, requires = "list")]
    json: bool,
}

/// `mcpdeck disconnect`
#[derive(Debug, Args)]
pub struct DisconnectArgs {
    #[command(flatten)]
    choice: ClientChoice,
}

/// `mcpdeck sync`
#[derive(Debug, Args)]
pub struct SyncArgs {
    /// Change nothing; exit with 1 when a client's file differs from what was written.
    #[arg(long, conflicts_with = "yes")]
    check: bool,
    /// Make the changes without asking.
    #[arg(long, short = 'y')]
    yes: bool,
}

/// The name of an entry: clients show it, and make names of tools of it.
fn parse_entry_name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.trim() != text || text.chars().any(char::is_control) {
        return Err("a name on one line is expected, without blanks around it".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_client(text: &str) -> Result<ImportHost, String> {
    let wanted = text.to_lowercase().replace([' ', '_'], "-");
    let plain = |name: &str| name.replace('-', "");
    // What people call them in a terminal.
    let short = [("code", ImportHost::VsCode), ("gemini", ImportHost::GeminiCli)];
    let found = ImportHost::ALL.iter().copied().find(|host| {
        plain(&host.slug()) == plain(&wanted)
            || short.iter().any(|(name, meant)| *name == wanted && meant == host)
    });
    found.ok_or_else(|| {
        let names: Vec<String> = ImportHost::ALL.iter().map(|host| host.slug()).collect();
        match nearest(&wanted, names.iter().map(String::as_str), 0.6) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("there are {}", names.join(", ")),
        }
    })
}

/// A client with its file.
struct ClientTarget {
    host: ImportHost,
    file: PathBuf,
}

impl ClientChoice {
    /// The name of the deck's entry in a client's file.
    fn entry(&self) -> &str {
        self.name.as_deref().unwrap_or(DECK_ENTRY)
    }

    /// The clients and their files.
    fn chosen(
        &self,
        env: &Environment,
        known: &[ConnectionRecord],
    ) -> Result<Vec<ClientTarget>, ExitStatus> {
        let hosts: Vec<ImportHost> = if self.all {
            let has = |host: &ImportHost| {
                is_installed(*host, env) || known.iter().any(|one| one.client == host.slug())
            };
            ImportHost::ALL.iter().copied().filter(has).collect()
        } else {
            self.clients.clone()
        };
        if hosts.is_empty() {
            return Err(output::refuse(if self.all {
                "no MCP client was found on this machine; name one"
            } else {
                "name a client, or use `--all`; `mcpdeck connect --list` shows those on this machine"
            }));
        }
        if self.file.is_some() && hosts.len() > 1 {
            return Err(output::refuse("--file goes with one client"));
        }
        let mut out = Vec::new();
        for host in hosts {
            let file = self.file.clone().or_else(|| host.client_file(env, self.project));
            let Some(file) = file else {
                if self.all {
                    continue;
                }
                let where_ = if self.project { "in a project" } else { "known here" };
                let why = format!("{} has no file {where_}; name it with --file", host.name());
                return Err(output::refuse(&why));
            };
            // A link is followed: its target is the file.
            let file = base::atomic::resolved(&env.absolute(&file));
            out.push(ClientTarget { host, file });
        }
        Ok(out)
    }

    /// Shows a change, and asks for consent to it. Whether to make it.
    fn consents(&self, client: &ClientTarget, change: &ClientChange) -> Result<bool, ExitStatus> {
        output::print(&shown_change(client.host, change), ExitStatus::Ok);
        if self.dry_run {
            return Ok(false);
        }
        change.check_writable().map_err(refused)?;
        if self.yes {
            return Ok(true);
        }
        confirm(&format!("change {}?", spelled(&client.file)))
    }
}

/// Asks at the terminal.
///
/// # Errors
/// When there is no terminal: a script says `--yes`. When a signal came.
pub fn confirm(question: &str) -> Result<bool, ExitStatus> {
    if !std::io::stdin().is_terminal() {
        return Err(output::refuse("nothing was changed: confirm with `--yes`"));
    }
    let line = answer_line(&format!("{question} [y/N]"))?;
    let is_yes = matches!(line.trim().to_lowercase().as_str(), "y" | "yes");
    if !is_yes {
        output::complain("nothing was changed");
    }
    Ok(is_yes)
}

/// Asks for one line at the terminal; empty at its end. What was typed before the question was shown
/// does not answer it.
///
/// # Errors
/// When a signal came.
pub fn answer_line(question: &str) -> Result<String, ExitStatus> {
    // Once a runtime has listened, signals end nothing by themselves any more.
    let answered = signals::block_on(async |signals| {
        let lines = StdinLines::default();
        let mut lines = lines.open().await;
        tokio::select! {
            line = lines.ask(Some(question)) => Some(line.unwrap_or_default()),
            () = signals.stop.cancelled() => None,
        }
    });
    match answered {
        Ok(line) => line.ok_or_else(deck::interrupted),
        Err(error) => Err(output::refuse(&error.to_string())),
    }
}

/// A change as a patch, secrets masked.
fn shown_change(host: ImportHost, change: &ClientChange) -> String {
    let (now, then) = (change.now.as_deref().unwrap_or(""), change.then.as_deref().unwrap_or(""));
    let patch = match host.format(&change.file) {
        FileFormat::Json => preview_import(&change.file, now, then),
        format => {
            let (now, then) = (masked_lines(format, now), masked_lines(format, then));
            unified_patch(&change.file, &now, &then)
        }
    };
    let mut out = SafeText::block(&patch).to_string();
    if change.then.is_none() {
        let _ =
            writeln!(out, "{} goes away: it was made by `mcpdeck connect`", spelled(&change.file));
    }
    out
}

fn refused(error: ReachError) -> ExitStatus {
    output::refuse(&SafeText::block(&error.0))
}

fn connections(env: &Environment) -> Result<Connections, ExitStatus> {
    let nowhere = "there is no folder to remember connections in: set MCPDECK_STATE_DIR";
    Connections::from_env(env).ok_or_else(|| output::refuse(nowhere))
}

/// The path under which clients find this program: that on `PATH`, which outlives an upgrade, when
/// it is this one.
fn program(env: &Environment) -> Result<PathBuf, ExitStatus> {
    let own = std::env::current_exe()
        .map_err(|error| output::refuse(&format!("where this program is: {error}")))?;
    let name = own.file_name().unwrap_or_default().to_owned();
    let real = |path: &Path| path.canonicalize().ok();
    let on_path = std::env::split_paths(env.var("PATH").unwrap_or_default())
        .map(|folder| env.absolute(&folder.join(&name)))
        .find(|path| path.is_file());
    Ok(match on_path {
        Some(path) if real(&path).is_some() && real(&path) == real(&own) => path,
        _ => own,
    })
}

/// `mcpdeck connect`
pub fn connect(common: &Common, args: &ConnectArgs, telemetry: &Telemetry) -> CommandResult {
    let env = load::environment(common).map_err(|found| output::problems(&found))?;
    let known = connections(&env)?;
    if args.list {
        return list(common, args, (&env, &known), telemetry);
    }
    let records = known.list().map_err(refused)?;
    let chosen = args.choice.chosen(&env, &records)?;
    let files: Vec<PathBuf> =
        load::files(common, &env).iter().map(|file| env.absolute(file)).collect();
    if files.is_empty() && args.http.is_none() {
        let looked = load::looked_for(&env);
        return Err(output::refuse(&format!(
            "there is no configuration to connect to; looked for {looked}; name one with --config"
        )));
    }
    known_profile(&files, args.profile.as_deref())?;
    each(&chosen, |client| connect_one(common, args, client, (&env, &known, &files)))
}

/// Does its work on each client: what fails for one is told, and keeps the others from nothing. A
/// failure counts more than a difference; after a signal nothing more is done.
fn each<T>(all: &[T], mut work: impl FnMut(&T) -> CommandResult) -> CommandResult {
    let mut exit = ExitStatus::Ok;
    for one in all {
        match work(one) {
            Err(ExitStatus::Interrupted) => return Err(ExitStatus::Interrupted),
            Err(failed) => exit = failed,
            Ok(done) if exit == ExitStatus::Ok => exit = done,
            Ok(_) => {}
        }
    }
    Ok(exit)
}

/// Refuses a profile that the policy does not have.
fn known_profile(files: &[PathBuf], profile: Option<&str>) -> Result<(), ExitStatus> {
    let Some(profile) = profile.filter(|profile| *profile != DEFAULT_PROFILE) else {
        return Ok(());
    };
    let policy = load_policy(files).map_err(|problems| output::refuse(&problems.join("; ")))?;
    if policy.config.profiles.contains_key(profile) {
        return Ok(());
    }
    let names = policy.config.profiles.keys().map(String::as_str);
    let near = nearest(profile, names, 0.7);
    let near = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    let profile = SafeText::line(profile);
    Err(output::refuse(&format!("the policy has no profile `{profile}`{near}")))
}

fn connect_one(
    common: &Common,
    args: &ConnectArgs,
    client: &ClientTarget,
    (env, known, files): (&Environment, &Connections, &[PathBuf]),
) -> CommandResult {
    let ClientTarget { host, file } = client;
    let name = host.name();
    let real = |path: &Path| path.canonicalize().ok();
    if files.iter().any(|own| real(own).is_some() && real(own) == real(file)) {
        return Err(output::refuse(&format!(
            "{}: this file of {name} is the configuration itself, so the deck would start itself; \
             name another configuration with --config, or move its servers with `mcpdeck import`",
            spelled(file)
        )));
    }
    let root = parsed(*host, file)?;
    let (kind, mut entries) = if args.direct {
        let kind = ConnectionKind::Direct { files: files.to_vec(), servers: args.server.clone() };
        (kind, direct_entries(*host, &root, (files, &args.server), env)?)
    } else {
        let entry = deck_entry(common, args, (env, files), "***")?;
        let value = in_words_of(*host, args.choice.entry(), &entry, (&root, env))?;
        let profile = args.profile.clone();
        let kind = match &args.http {
            None => ConnectionKind::Stdio { profile },
            Some(_) => ConnectionKind::Http { profile, token: String::new() },
        };
        (kind, vec![WrittenEntry { name: args.choice.entry().to_owned(), value }])
    };
    let planned = known.connection(*host, file, &mut entries.clone()).map_err(refused)?;
    let (change, kept) = &planned;
    for name in kept {
        let name = SafeText::line(name);
        let taken = format!("{}: there is another `{name}` already, which stays", spelled(file));
        if args.direct {
            output::complain(&taken);
        } else {
            return Err(output::refuse(&format!("{taken}; choose a name with --name")));
        }
    }
    if change.is_empty() {
        output::complain(&format!("{name}: {} has all of it already", spelled(file)));
        return Ok(ExitStatus::Ok);
    }
    replaces(client, known.find(file).map_err(refused)?.as_ref(), args);
    if !args.choice.consents(client, change)? {
        return Ok(ExitStatus::Ok);
    }
    let kind = match (kind, &args.http) {
        #[cfg(feature = "gateway")]
        (ConnectionKind::Http { profile, .. }, Some(_)) => {
            let (token, id) = super::serve::token_for(profile.as_deref())?;
            let entry = deck_entry(common, args, (env, files), token.expose())?;
            entries[0].value = in_words_of(*host, args.choice.entry(), &entry, (&root, env))?;
            ConnectionKind::Http { profile, token: id }
        }
        (kind, _) => kind,
    };
    let written = || {
        let (change, _) = known.connection(*host, file, &mut entries)?;
        let former = known.find(file)?;
        let made = (kind.clone(), entries);
        let backup = known.connect(*host, &change, made, (env, Clock::system().now()))?;
        Ok::<_, ReachError>((backup, former))
    };
    let (backup, former) = written().map_err(|error| {
        // The token that was made for it.
        revoke(&kind);
        refused(error)
    })?;
    if let Some(former) = former {
        revoke(&former.kind);
    }
    let copy = backup.map(|copy| format!("; the old file is in {}", spelled(&copy)));
    output::complain(&format!(
        "{name}: wrote {}{}; restart {name} to use it",
        spelled(file),
        copy.unwrap_or_default()
    ));
    hints(args, &kind, client, env);
    Ok(ExitStatus::Ok)
}

/// Says that a connection under another name goes: a client has one.
fn replaces(client: &ClientTarget, former: Option<&ConnectionRecord>, args: &ConnectArgs) {
    let is_deck =
        |record: &&ConnectionRecord| !matches!(record.kind, ConnectionKind::Direct { .. });
    let entry = former.filter(is_deck).and_then(|record| record.entries.first());
    if let Some(entry) = entry.filter(|entry| entry.name != args.choice.entry()) {
        let (client, entry) = (client.host.name(), SafeText::line(&entry.name));
        output::complain(&format!(
            "{client}: `{entry}` goes, since a client is connected once; one deck serves several \
             configurations: -c FILE -c FILE"
        ));
    }
}

/// What the user may want to do next.
fn hints(args: &ConnectArgs, kind: &ConnectionKind, client: &ClientTarget, env: &Environment) {
    let ClientTarget { host, file } = client;
    if let ConnectionKind::Http { token, profile } = kind {
        let named = profile.as_deref().filter(|profile| *profile != DEFAULT_PROFILE);
        if named.is_none() {
            output::complain(&format!(
                "its token is {token}; permit tools with `mcpdeck grants add --origin \
                 gateway:{token} --profile {DEFAULT_PROFILE} --always --tools SERVER.GLOB`"
            ));
        }
    }
    let text = read_client(file).ok().flatten().unwrap_or_default();
    let found = read_import_text(*host, file, &text, env).ok();
    let others: Vec<String> = found
        .into_iter()
        .flat_map(|found| found.servers)
        .map(|(name, _)| name.to_string())
        .filter(|name| name != args.choice.entry())
        .collect();
    if !args.direct && !others.is_empty() {
        let others = SafeText::line(&others.join(", "));
        output::complain(&format!(
            "it still starts servers of its own: {others}; `mcpdeck import` takes them over"
        ));
    }
}

/// The content of a client's file.
fn parsed(host: ImportHost, file: &Path) -> Result<Value, ExitStatus> {
    let text = read_client(file).map_err(refused)?.unwrap_or_default();
    if config::without_mark(&text).trim().is_empty() {
        return Ok(json!({}));
    }
    let read = read_document(host.format(file), &SourceText::new(file, text));
    read.map_err(|problems| output::problems(&problems))
}

/// The entry of the deck, in our words. Without references: nothing in it is expanded.
fn deck_entry(
    common: &Common,
    args: &ConnectArgs,
    (env, files): (&Environment, &[PathBuf]),
    token: &str,
) -> Result<Value, ExitStatus> {
    if let Some(url) = &args.http {
        let bearer = format!("Bearer {token}");
        return Ok(json!({
            "type": "http", "url": url.as_str(), "headers": { "Authorization": bearer },
        }));
    }
    let mut words = vec!["serve".to_owned(), "--stdio".to_owned()];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    for file in files {
        option("--config", file.display().to_string());
    }
    for file in &common.env_file {
        option("--env-file", env.absolute(file).display().to_string());
    }
    if let Some(profile) = &args.profile {
        option("--profile", profile.clone());
    }
    let mut entry = json!({ "command": program(env)?, "args": words });
    // Where approvals and grants are kept is a part of what the client reaches.
    if let Some(state) = env.var("MCPDECK_STATE_DIR").filter(|state| !state.is_empty()) {
        entry["env"] = json!({ "MCPDECK_STATE_DIR": env.absolute(Path::new(state)) });
    }
    Ok(entry)
}

/// Makes `${` in a value literal.
fn escaped(value: Value) -> Value {
    match value {
        Value::String(text) => text.replace("${", "$${").into(),
        Value::Array(list) => list.into_iter().map(escaped).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, escaped(value))).collect(),
        other => other,
    }
}

fn in_words_of(
    host: ImportHost,
    name: &str,
    ours: &Value,
    (root, env): (&Value, &Environment),
) -> Result<Value, ExitStatus> {
    let scope = ExportScope {
        folder: &env.cwd,
        home: env.home.as_deref(),
        workspace: env.cwd.clone(),
        root,
    };
    let written = client_entry(host, name, &escaped(ours.clone()), &scope);
    written
        .map(|entry| entry.value)
        .map_err(|why| output::refuse(&format!("{}: {}", host.name(), SafeText::line(&why))))
}

/// The entries of the servers, in a client's words; what cannot be written there is told.
fn direct_entries(
    host: ImportHost,
    root: &Value,
    (files, only): (&[PathBuf], &[String]),
    env: &Environment,
) -> Result<Vec<WrittenEntry>, ExitStatus> {
    let all = servers_of_files(files).map_err(refused)?;
    for name in only {
        if !all.iter().any(|(known, ..)| known == name) {
            let names = all.iter().map(|(known, ..)| known.as_str());
            let near = nearest(name, names, 0.6);
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let name = SafeText::line(name);
            return Err(output::refuse(&format!("there is no server `{name}`{near}")));
        }
    }
    let mut out = Vec::new();
    for (name, ours, file) in all {
        if (!only.is_empty() && !only.contains(&name)) || starts_deck(&ours) {
            continue;
        }
        let scope = ExportScope {
            folder: file.parent().unwrap_or(Path::new("")),
            home: env.home.as_deref(),
            workspace: env.workspace_of(&file),
            root,
        };
        match client_entry(host, &name, &ours, &scope) {
            Ok(entry) => {
                for note in entry.notes {
                    output::complain(&SafeText::line(&note));
                }
                out.push(WrittenEntry { name, value: entry.value });
            }
            Err(why) => output::complain(&SafeText::line(&format!("`{name}` is left out: {why}"))),
        }
    }
    if out.is_empty() {
        let why = format!("{}: no server can be written there", host.name());
        return Err(output::refuse(&why));
    }
    Ok(out)
}

/// Revokes the token of a connection that is no more.
fn revoke(kind: &ConnectionKind) {
    if let ConnectionKind::Http { token, .. } = kind {
        #[cfg(feature = "gateway")]
        super::serve::revoke_quietly(token);
        #[cfg(not(feature = "gateway"))]
        let _ = token;
    }
}

/// `mcpdeck disconnect`
pub fn disconnect(common: &Common, args: &DisconnectArgs) -> CommandResult {
    let env = load::environment(common).map_err(|found| output::problems(&found))?;
    let known = connections(&env)?;
    let records = known.list().map_err(refused)?;
    let choice = &args.choice;
    let mut chosen = Vec::new();
    if choice.file.is_none() && !choice.project {
        // Wherever they were connected.
        for record in &records {
            let host = parse_client(&record.client).map_err(|why| output::refuse(&why))?;
            let is_named = |name: &str| record.entries.iter().any(|entry| entry.name == name);
            let is_meant = choice.all && choice.name.as_deref().is_none_or(is_named);
            if is_meant || choice.clients.contains(&host) {
                chosen.push(ClientTarget { host, file: record.file.clone() });
            }
        }
    }
    let rest: Vec<ImportHost> =
        choice.clients.iter().copied().filter(|h| !chosen.iter().any(|c| c.host == *h)).collect();
    if choice.all && chosen.is_empty() {
        output::complain("no client is connected");
        return Ok(ExitStatus::Ok);
    }
    if !rest.is_empty() || (chosen.is_empty() && !choice.all) {
        chosen.extend(ClientChoice { clients: rest, ..choice.clone() }.chosen(&env, &records)?);
    }
    each(&chosen, |client| disconnect_one(choice, client, (&env, &known)))
}

fn disconnect_one(
    choice: &ClientChoice,
    client: &ClientTarget,
    (env, known): (&Environment, &Connections),
) -> CommandResult {
    let (name, place) = (client.host.name(), spelled(&client.file));
    let change = known.disconnection(client.host, &client.file, choice.name.as_deref());
    let change = change.map_err(refused)?;
    let record = known.find(&client.file).map_err(refused)?;
    if change.is_empty() && record.is_none() {
        output::complain(&format!("{name}: {place} is not connected"));
        return Ok(ExitStatus::Ok);
    }
    if (!change.is_empty() && !choice.consents(client, &change)?) || choice.dry_run {
        return Ok(ExitStatus::Ok);
    }
    known.disconnect(&change, env).map_err(refused)?;
    if let Some(record) = record {
        revoke(&record.kind);
    }
    let how = match (change.is_exact, &change.then) {
        (true, None) => "is gone, as before",
        (true, Some(_)) => "is as it was before, to the byte",
        (false, _) => "has changed since: the entry is gone, all else stays",
    };
    output::complain(&format!("{name}: {place} {how}"));
    Ok(ExitStatus::Ok)
}

/// `mcpdeck sync`
pub fn sync(common: &Common, args: &SyncArgs) -> CommandResult {
    let env = load::environment(common).map_err(|found| output::problems(&found))?;
    let known = connections(&env)?;
    let records = known.list().map_err(refused)?;
    if records.is_empty() {
        output::complain("no client is connected; `mcpdeck connect` does");
        return Ok(ExitStatus::Ok);
    }
    each(&records, |record| sync_one(args, record, (&env, &known)))
}

fn sync_one(
    args: &SyncArgs,
    record: &ConnectionRecord,
    (env, known): (&Environment, &Connections),
) -> CommandResult {
    let host = parse_client(&record.client).map_err(|why| output::refuse(&why))?;
    let (name, place) = (host.name(), spelled(&record.file));
    let mut entries = match &record.kind {
        ConnectionKind::Direct { files, servers } => {
            if let Some(gone) = files.iter().find(|file| !is_there(file)) {
                let (gone, slug) = (spelled(gone), host.slug());
                return Err(output::refuse(&format!(
                    "{name}: {place} has copies from {gone}, which is gone; `mcpdeck disconnect \
                     {slug}` takes them back"
                )));
            }
            let root = parsed(host, &record.file)?;
            direct_entries(host, &root, (files, servers), env)?
        }
        ConnectionKind::Stdio { .. } | ConnectionKind::Http { .. } => record.entries.clone(),
    };
    let (change, _) = known.connection(host, &record.file, &mut entries).map_err(refused)?;
    if is_in_step(host, record, &entries)? {
        output::complain(&format!("{name}: {place} is in step"));
        return Ok(ExitStatus::Ok);
    }
    output::print(&shown_change(host, &change), ExitStatus::Ok);
    if args.check {
        output::complain(&format!("{name}: {place} has drifted; `mcpdeck sync` repairs it"));
        return Ok(ExitStatus::Failed);
    }
    if !args.yes && !confirm(&format!("change {place}?"))? {
        return Ok(ExitStatus::Ok);
    }
    let now = Clock::system().now();
    known.connect(host, &change, (record.kind.clone(), entries), (env, now)).map_err(refused)?;
    output::complain(&format!("{name}: wrote {place}"));
    Ok(ExitStatus::Ok)
}

/// Whether a client's file has exactly these entries of ours.
fn is_in_step(
    host: ImportHost,
    record: &ConnectionRecord,
    wanted: &[WrittenEntry],
) -> Result<bool, ExitStatus> {
    let root = parsed(host, &record.file)?;
    let there = |name: &str| entry_at(&root, &host.place(&root, name)).cloned();
    let has_all = wanted.iter().all(|entry| there(&entry.name).as_ref() == Some(&entry.value));
    let gone = record.entries.iter().filter(|old| !wanted.iter().any(|new| new.name == old.name));
    let mut gone = gone.filter(|old| there(&old.name).is_some());
    Ok(has_all && gone.next().is_none())
}

// `connect --list`

/// The deck's entry in a client's file. Files of clients belong to projects too: what others wrote
/// into them is shown, and never started or reached.
enum DeckEntry {
    /// As `connect` wrote it, in our words: it starts this program, or reaches the recorded address.
    AsWritten(Value),
    /// Of another hand; why it is not tried.
    Foreign(&'static str),
}

/// A client as `--list` shows it.
struct ListedClient {
    host: ImportHost,
    file: Option<PathBuf>,
    /// How it is connected.
    how: Option<ConnectionRecord>,
    /// The names of the servers in its file, but the deck's.
    servers: Vec<String>,
    deck: Option<DeckEntry>,
    /// Why its file cannot be used.
    problem: Option<String>,
}

fn list(
    common: &Common,
    args: &ConnectArgs,
    (env, known): (&Environment, &Connections),
    telemetry: &Telemetry,
) -> CommandResult {
    let records = known.list().map_err(refused)?;
    let wanted = |host: &ImportHost| {
        args.choice.clients.contains(host)
            || (args.choice.clients.is_empty()
                && (is_installed(*host, env) || records.iter().any(|r| r.client == host.slug())))
    };
    let mut rows: Vec<ListedClient> = Vec::new();
    for host in ImportHost::ALL.iter().copied().filter(wanted) {
        let own = |record: &&ConnectionRecord| record.client == host.slug();
        let connected: Vec<PathBuf> =
            records.iter().filter(own).map(|record| record.file.clone()).collect();
        let usual = host.client_file(env, args.choice.project);
        let usual = usual.map(|file| base::atomic::resolved(&env.absolute(&file)));
        let usual = usual.filter(|usual| !connected.contains(usual));
        let mut files: Vec<Option<PathBuf>> = connected.into_iter().map(Some).collect();
        files.extend(usual.map(Some));
        if files.is_empty() {
            files.push(None);
        }
        for file in files {
            rows.push(look(host, file, &records, env));
        }
    }
    if rows.is_empty() {
        output::complain("no MCP client was found on this machine");
    }
    let tried = handshakes(common, &rows, telemetry, env);
    let works = |at: usize| tried[at].as_ref().map(|shake| shake.is_ready);
    let says = |at: usize| match (&rows[at].deck, &tried[at]) {
        (Some(DeckEntry::Foreign(why)), _) => Some((*why).to_owned()),
        (_, shake) => shake.as_ref().map(|shake| shake.says.clone()),
    };
    if args.json {
        let clients = rows.iter().enumerate().map(|(at, row)| {
            json!({
                "client": row.host.slug(), "name": row.host.name(), "file": row.file,
                "connected": row.how.as_ref().map(|how| &how.kind),
                "servers": row.servers, "problem": row.problem,
                "works": works(at), "says": says(at),
            })
        });
        let object = json!({ "clients": clients.collect::<Vec<_>>() });
        return Ok(output::json(&object, ExitStatus::Ok));
    }
    let head = ["client", "connected", "works", "own servers", "file"].map(str::to_owned);
    let body = rows.iter().enumerate().map(|(at, row)| {
        let connected = match row.how.as_ref().map(|how| &how.kind) {
            Some(ConnectionKind::Stdio { profile }) => {
                with_profile("through the deck", profile.as_deref())
            }
            Some(ConnectionKind::Http { profile, .. }) => {
                with_profile("over HTTP", profile.as_deref())
            }
            Some(ConnectionKind::Direct { .. }) => "copies".to_owned(),
            None if row.deck.is_some() => "by hand".to_owned(),
            None => "-".to_owned(),
        };
        let works = row.problem.clone().or_else(|| says(at)).unwrap_or_else(|| "-".to_owned());
        let file = row.file.as_ref().map(|file| spelled(file).into_owned());
        let servers = if row.servers.is_empty() { "-".to_owned() } else { row.servers.join(" ") };
        [row.host.name().to_owned(), connected, works, servers, file.unwrap_or_default()]
    });
    Ok(output::print(&output::table("", std::iter::once(head).chain(body)), ExitStatus::Ok))
}

fn with_profile(how: &str, profile: Option<&str>) -> String {
    profile.map_or_else(|| how.to_owned(), |profile| format!("{how} as {profile}"))
}

/// What the file of a client holds.
fn look(
    host: ImportHost,
    file: Option<PathBuf>,
    records: &[ConnectionRecord],
    env: &Environment,
) -> ListedClient {
    let how = records.iter().find(|record| Some(&record.file) == file.as_ref()).cloned();
    let mut row = ListedClient { host, file, how, servers: Vec::new(), deck: None, problem: None };
    let Some(file) = &row.file else { return row };
    let text = match read_client(file) {
        Ok(Some(text)) => text,
        Ok(None) => return row,
        Err(error) => {
            row.problem = Some(error.0);
            return row;
        }
    };
    let is_direct = |how: &&ConnectionRecord| matches!(how.kind, ConnectionKind::Direct { .. });
    let own = row.how.as_ref().filter(|how| !is_direct(how)).and_then(|how| how.entries.first());
    let own =
        own.map(|own| (ServerName::new(&own.name), tried_entry(host, file, &text, (own, env))));
    match read_import_text(host, file, &text, env) {
        Ok(found) => {
            for (name, entry) in found.servers {
                if own.as_ref().is_some_and(|(own, _)| *own == name) {
                    continue;
                }
                if starts_deck(&entry) {
                    row.deck.get_or_insert(DeckEntry::Foreign("not tried: written by hand"));
                } else {
                    row.servers.push(name.to_string());
                }
            }
        }
        Err(problems) => {
            let errors = problems.iter().filter(|problem| problem.rule != "import/nothing");
            row.problem =
                errors.map(|problem| format!("{}: {}", problem.at, problem.message)).next();
        }
    }
    if let Some((_, Some(own))) = own.filter(|_| row.problem.is_none()) {
        row.deck = Some(own);
    }
    row
}

/// The entry that `connect` wrote into a client's file, as it is tried; `None` when it is gone.
fn tried_entry(
    host: ImportHost,
    file: &Path,
    text: &str,
    (own, env): (&WrittenEntry, &Environment),
) -> Option<DeckEntry> {
    let format = host.format(file);
    let root = read_document(format, &SourceText::new(file, text)).ok()?;
    let there = entry_at(&root, &host.place(&root, &own.name))?;
    let changed = DeckEntry::Foreign("not tried: changed since `mcpdeck connect` wrote it");
    if *there != own.value {
        return Some(changed);
    }
    // What was written is read, not the file: another entry in it may take precedence under the name.
    let alone = put_entry(format, "", &host.place(&json!({}), &own.name), &own.value).ok()?;
    let read = read_import_text(host, file, &alone, env).ok()?;
    let (_, ours) = read.servers.into_iter().next()?;
    let is_other = ours.get("command").is_some_and(|command| {
        let real = |path: &Path| path.canonicalize().ok();
        let own = std::env::current_exe().ok().and_then(|own| real(&own));
        own.is_none() || command.as_str().and_then(|command| real(Path::new(command))) != own
    });
    Some(if is_other {
        DeckEntry::Foreign("not tried: it starts another program than this one")
    } else {
        DeckEntry::AsWritten(ours)
    })
}

/// The outcome of a handshake.
struct Handshake {
    is_ready: bool,
    says: String,
}

/// Shakes hands with the deck of every client that has one, as that client would.
fn handshakes(
    common: &Common,
    rows: &[ListedClient],
    telemetry: &Telemetry,
    env: &Environment,
) -> Vec<Option<Handshake>> {
    let name = |at: usize| format!("client-{at}");
    let mut servers = Map::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(DeckEntry::AsWritten(entry)) = &row.deck else { continue };
        let mut entry = entry.clone();
        // What a deck starts in turn has to be approved as well.
        if let (true, Some(Value::Array(args))) = (common.require_trust, entry.get_mut("args")) {
            args.push(json!("--require-trust"));
        }
        servers.insert(name(at), entry);
    }
    let mut out: Vec<Option<Handshake>> = rows.iter().map(|_| None).collect();
    if servers.is_empty() {
        return out;
    }
    let text = json!({ "servers": servers }).to_string();
    let loaded = config::load_text(Path::new(""), &text, env);
    let mut config = match loaded {
        Ok(loaded) => loaded.config,
        Err(_) => return out,
    };
    config.files.clear();
    let one = OneServer::default();
    let invocation = Invocation { common, one: &one, telemetry };
    let source = LoadedConfig::from(config);
    let need = (Need::Servers(Vec::new()), deck::Callers::User);
    let mut seen = None;
    let _ = invocation.run_over(source, need, AnswerScript::default(), async |scene| {
        // A deck answers before its servers have started; what they offer comes later.
        let mut view = scene.host.view();
        let has_all = |view: &HostView| {
            let ready = |server: &ServerView| server.state == ServerState::Ready;
            let mut ready = view.servers.values().filter(|server| ready(server));
            ready.all(|server| !server.capabilities.tools.is_empty())
        };
        let complete = async {
            while !has_all(&view.borrow_and_update()) {
                if view.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LISTS_TIMEOUT, complete).await;
        seen = Some(scene.host.snapshot());
        ExitStatus::Ok
    });
    let Some(view) = seen else { return out };
    for (at, state) in out.iter_mut().enumerate() {
        let Some(server) = view.servers.values().find(|server| server.name.as_str() == name(at))
        else {
            continue;
        };
        let is_ready = server.state == ServerState::Ready;
        let says = if is_ready {
            let count = server.capabilities.tools.len();
            format!("yes: {count} {}", if count == 1 { "tool" } else { "tools" })
        } else {
            let reason = server.reason.as_ref().map(ToString::to_string);
            format!("no: {}", reason.unwrap_or_else(|| server.state.word().to_owned()))
        };
        *state = Some(Handshake { is_ready, says });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named_as_people_write_them() {
        for (text, host) in [
            ("cursor", ImportHost::Cursor),
            ("Claude-Code", ImportHost::ClaudeCode),
            ("claude code", ImportHost::ClaudeCode),
            ("vscode", ImportHost::VsCode),
            ("code", ImportHost::VsCode),
            ("gemini", ImportHost::GeminiCli),
        ] {
            assert_eq!(parse_client(text), Ok(host), "{text}");
        }
        assert!(parse_client("cursr").is_err_and(|why| why.contains("`cursor`")));
        assert!(parse_client("").is_err());
    }

    #[test]
    fn an_entry_has_a_name_that_can_be_shown() {
        assert!(parse_entry_name("my deck").is_ok());
        for odd in ["", " ", "a ", "a\nb", "a\u{1b}[2Jb"] {
            assert!(parse_entry_name(odd).is_err(), "{odd:?}");
        }
    }
}
