//! What a person is shown before a server may run: the whole command line, nothing hidden.

use crate::base::ServerName;
use crate::config::hazards::{dangers, is_hidden};
use crate::config::{Position, ServerConfig, TransportConfig};
use crate::deck::trust::Content;
use crate::process::Launch;

/// One server to decide on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// The server.
    pub server: ServerName,
    /// Where its entry stands.
    pub at: Position,
    /// What is known about it.
    pub verdict: Verdict,
    /// Label and value of everything that is approved, untruncated, safe to draw: each argument
    /// on its own line, escaped so that white space, empty and hidden parts show.
    pub shown: Vec<(String, String)>,
    /// Why to look twice, safe to draw.
    pub dangers: Vec<String>,
    /// Tells whether another review shows the same, masked values included. Not for keeping.
    pub shown_hash: String,
}

/// What is known about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Approved as it is now.
    Approved,
    /// Never approved for this file.
    New,
    /// Approved once, and different since.
    Changed(Vec<FieldChange>),
}

/// One difference to what was approved. Values are escaped; values of the environment and of
/// headers are not known, only that they differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Setting, as in the file, for example `args[1]` or `env.PATH`.
    pub field: String,
    /// What was approved; `None` when it was not there.
    pub before: Option<String>,
    /// What it is now; `None` when it is gone.
    pub after: Option<String>,
}

impl Review {
    pub(super) fn new(
        server: &ServerConfig,
        now: &Content,
        approved: Option<&Content>,
        shown_hash: &str,
    ) -> Self {
        let verdict = match approved {
            None => Verdict::New,
            Some(before) if before.hash == now.hash => Verdict::Approved,
            Some(before) => Verdict::Changed(changes(before, now)),
        };
        Self {
            server: server.name.clone(),
            at: server.at.clone(),
            verdict,
            shown: shown(now),
            dangers: dangers(server)
                .iter()
                .chain(&relative(server))
                .map(|danger| escape_hidden(danger))
                .collect(),
            shown_hash: shown_hash.to_owned(),
        }
    }
}

/// A bare command that PATH finds in the working directory, which is often a project of others.
fn relative(server: &ServerConfig) -> Option<String> {
    let TransportConfig::Stdio(stdio) = &server.transport else { return None };
    if stdio.command.contains(std::path::is_separator) {
        return None;
    }
    let launch = crate::process::resolve(stdio).ok().filter(Launch::is_found_relatively)?;
    let (command, program) = (&stdio.command, launch.program.display());
    Some(format!("a relative folder of PATH makes `{command}` this program: {program}"))
}

fn shown(content: &Content) -> Vec<(String, String)> {
    let mut out = vec![("type".to_owned(), escape_hidden(&content.kind))];
    let target = if content.kind == "stdio" { "command" } else { "url" };
    out.push((target.to_owned(), escaped(&content.target)));
    let list = |name: &str, words: &[String], out: &mut Vec<(String, String)>| {
        out.extend(words.iter().enumerate().map(|(i, w)| (format!("{name}[{i}]"), escaped(w))));
    };
    list("args", &content.args, &mut out);
    if !content.cwd.is_empty() {
        out.push(("cwd".to_owned(), escaped(&content.cwd)));
    }
    if content.inherit_env {
        out.push(("inheritEnv".to_owned(), "true".to_owned()));
    }
    out.extend(content.env.keys().map(|n| (escape_hidden(&format!("env.{n}")), "***".to_owned())));
    out.extend(
        content.headers.keys().map(|n| (escape_hidden(&format!("headers.{n}")), "***".to_owned())),
    );
    list("dev.build", &content.build, &mut out);
    out
}

fn changes(before: &Content, now: &Content) -> Vec<FieldChange> {
    let mut out = Vec::new();
    let mut field = |name: String, before: Option<String>, after: Option<String>| {
        if before != after {
            out.push(FieldChange { field: escape_hidden(&name), before, after });
        }
    };
    let text = |text: &str| Some(escaped(text));
    field("type".into(), text(&before.kind), text(&now.kind));
    field(
        if now.kind == "stdio" { "command" } else { "url" }.into(),
        text(&before.target),
        text(&now.target),
    );
    for (name, old, new) in
        [("args", &before.args, &now.args), ("dev.build", &before.build, &now.build)]
    {
        for i in 0..old.len().max(new.len()) {
            let at = |list: &[String]| list.get(i).map(|word| escaped(word));
            field(format!("{name}[{i}]"), at(old), at(new));
        }
    }
    field("cwd".into(), text(&before.cwd), text(&now.cwd));
    let flag = |on: bool| Some(on.to_string());
    field("inheritEnv".into(), flag(before.inherit_env), flag(now.inherit_env));
    for (of, old, new) in
        [("env", &before.env, &now.env), ("headers", &before.headers, &now.headers)]
    {
        let added = new.keys().filter(|name| !old.contains_key(*name));
        for name in old.keys().chain(added) {
            let (was, is) = (old.get(name), new.get(name));
            if was != is {
                let side = |value: Option<&String>, word: &str| value.map(|_| word.to_owned());
                field(format!("{of}.{name}"), side(was, "a value"), side(is, "another value"));
            }
        }
    }
    if out.is_empty() {
        // Only what is masked differs.
        out.push(FieldChange {
            field: "a masked value".to_owned(),
            before: Some("***".to_owned()),
            after: Some("*** (another)".to_owned()),
        });
    }
    out
}

/// A word of a command line as it can be checked by eye: in quotes when it is empty or holds
/// white space or quotes, hidden and control characters as `\u{...}`, never cut.
pub fn escaped(word: &str) -> String {
    let plain = !word.is_empty()
        && !word.chars().any(|c| c.is_whitespace() || c == '"' || c == '\\' || is_hidden(c));
    if plain {
        return word.to_owned();
    }
    let mut out = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hidden(c) || (c.is_whitespace() && c != ' ') => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Hidden characters of a name, escaped in place.
fn escape_hidden(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}
