//! `import`: the servers of other programs, printed as one `mcp.json` or merged into the user's. A
//! literal value that may be secret becomes a reference to a variable. Writes only with `--write`.

use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::ImportArgs;
use super::output::{self, CommandResult, ExitStatus, problems};
use base::{SafeText, ServerName};
use config::{
    Conflict, Diagnostic, Environment, FileFormat, ImportHost, Imported, Severity, import_places,
    merge_import, preview_import, read_import, write_with_backup,
};
use reach::{Bundle, FoundServers, MAX_PUBLISHED_BYTES, PublishedServer, ReachError, ServerInput};

/// A file without servers.
const EMPTY: &str = "{\n  \"servers\": {}\n}\n";

/// `mcpdeck import`
pub fn import(args: &ImportArgs) -> CommandResult {
    let env = Environment::of_process();
    let files: Vec<(Option<ImportHost>, PathBuf)> = if args.files.is_empty() {
        import_places(&env)
            .into_iter()
            .filter(|p| p.exists)
            .map(|p| (Some(p.host), p.path))
            .collect()
    } else {
        args.files.iter().map(|path| (ImportHost::of_path(path), path.clone())).collect()
    };
    if args.list {
        let mut out = String::new();
        for (host, path) in &files {
            let name = host.map_or("unknown", ImportHost::name);
            let _ = writeln!(out, "{name:16} {}", SafeText::line(&path.display().to_string()));
        }
        return Ok(output::print(&out, ExitStatus::Ok));
    }
    if files.is_empty() {
        return Err(output::refuse("no configuration of another program was found; name a file"));
    }
    let mut found = FoundServers::default();
    let mut exit = ExitStatus::Ok;
    for (host, path) in &files {
        match read_any(*host, path, &env) {
            Ok(imported) => found.add(*host, path, imported),
            // A known place without servers is not an error; a named file is.
            Err(mut wrong) if args.files.is_empty() => {
                wrong.retain(|problem| problem.rule != "import/nothing");
                if !wrong.is_empty() {
                    problems(&wrong);
                }
            }
            Err(diagnostics) => exit = problems(&diagnostics),
        }
    }
    if exit != ExitStatus::Ok && found.is_empty() {
        return Err(exit);
    }
    match &args.into {
        Some(path) => put_into(&found, path, args, &env, exit),
        None => print(&found, exit),
    }
}

/// Reads a file; one of an unknown host is tried in the common dialects.
fn read_any(
    host: Option<ImportHost>,
    path: &Path,
    env: &Environment,
) -> Result<Imported, Vec<Diagnostic>> {
    if let Some(host) = host {
        return read_import(host, path, env);
    }
    let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
    if matches!(end.as_deref(), Some("mcpb" | "dxt")) {
        return bundled(path, env).map_err(|error| vec![unusable(path, &error.0)]);
    }
    if let Some(published) = published(path, env) {
        return published.map_err(|why| vec![unusable(path, &why)]);
    }
    let hosts: &[ImportHost] = match FileFormat::from_path(path) {
        FileFormat::Toml => &[ImportHost::Codex],
        FileFormat::Yaml => &[ImportHost::Goose, ImportHost::Continue],
        FileFormat::Json => &[
            ImportHost::ClaudeDesktop,
            ImportHost::VsCode,
            ImportHost::Zed,
            ImportHost::Opencode,
            ImportHost::Continue,
        ],
    };
    let mut problems = Vec::new();
    for host in hosts {
        match read_import(*host, path, env) {
            Ok(found) => return Ok(found),
            // What cannot be read as one of them cannot be read as another.
            Err(found) if found.iter().any(|problem| problem.rule != "import/nothing") => {
                return Err(found);
            }
            Err(found) => problems = found,
        }
    }
    for problem in &mut problems {
        "no servers of any known program are in this file".clone_into(&mut problem.message);
        let names: Vec<&str> = ImportHost::ALL.iter().map(|host| host.name()).collect();
        problem.help = Some(format!("files of these are read: {}", names.join(", ")));
    }
    Err(problems)
}

fn unusable(path: &Path, why: &str) -> Diagnostic {
    let why = SafeText::line(why);
    let mut problem = Diagnostic::new("import/unusable", Severity::Error, why.as_str());
    path.clone_into(&mut problem.at.file);
    problem
}

/// The server of a bundle, which is unpacked into the state folder.
fn bundled(path: &Path, env: &Environment) -> Result<Imported, ReachError> {
    let bundle = Bundle::open(&env.absolute(path))?;
    let folder = bundle.folder(env)?;
    let entry = bundle.entry(&folder, env)?;
    bundle.unpack(&folder)?;
    let used = entry.to_string();
    let inputs = bundle.inputs.iter();
    let inputs = inputs.filter(|input| used.contains(&format!("${{input:{}}}", input.id)));
    Ok(Imported {
        servers: vec![(ServerName::new(&bundle.name), entry)],
        inputs: inputs.map(ServerInput::declaration).collect(),
        notes: vec![format!("`{}` was unpacked into {}", bundle.name, folder.display())],
    })
}

/// The server of a `server.json`, as a registry has it; `None` when the file is no such thing.
fn published(path: &Path, env: &Environment) -> Option<Result<Imported, String>> {
    let text = base::file::read_text(&env.absolute(path), MAX_PUBLISHED_BYTES).ok()??;
    let root: Value = serde_json::from_str(config::without_mark(&text)).ok()?;
    let own = root.get("server").unwrap_or(&root);
    own.get("name").filter(|_| own.get("packages").is_some() || own.get("remotes").is_some())?;
    let read = || {
        let server = PublishedServer::parse(&root)?;
        let way = server
            .first_way()
            .ok_or_else(|| format!("it cannot be run from here: {}", server.refused.join("; ")))?;
        let others = server.ways.iter().filter(|other| !std::ptr::eq(*other, way));
        let mut notes: Vec<String> = server.refused.clone();
        notes.extend(
            others.map(|other| format!("`{}` could also be had as {}", server.name, other.kind)),
        );
        Ok(Imported {
            servers: vec![(ServerName::new(&server.short_name()), way.entry.clone())],
            inputs: way.needed().map(ServerInput::declaration).collect(),
            notes,
        })
    };
    Some(read())
}

/// Writes notes and the variables that must be set to stderr.
fn remark(found: &FoundServers, notes: &[String]) {
    for note in found.notes.iter().chain(notes) {
        output::complain(&SafeText::line(note));
    }
    let names: Vec<&str> = found.variables().collect();
    if !names.is_empty() {
        output::complain(&format!(
            "secrets were replaced by references; set {} before the servers start",
            names.join(", ")
        ));
    }
}

/// Prints all of it as one `mcp.json`.
fn print(found: &FoundServers, exit: ExitStatus) -> CommandResult {
    let (text, notes) = merge_import(EMPTY, &found.to_imported(|_| true), Conflict::Keep)
        .map_err(|error| output::refuse(&error.to_string()))?;
    remark(found, &notes);
    Ok(output::print(&text, exit))
}

/// Shows what would change in a file, or changes it.
fn put_into(
    found: &FoundServers,
    path: &Path,
    args: &ImportArgs,
    env: &Environment,
    exit: ExitStatus,
) -> CommandResult {
    let path = env.absolute(path);
    let refused = |why: &dyn Display| output::refuse(&format!("{}: {why}", path.display()));
    let before = config::read_for_edit(&path).map_err(|error| refused(&error))?;
    let conflict = if args.replace { Conflict::Replace } else { Conflict::Keep };
    let ours = before.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or(EMPTY);
    let (after, notes) = merge_import(ours, &found.to_imported(|_| true), conflict)
        .map_err(|error| refused(&error))?;
    remark(found, &notes);
    if before.as_ref() == Some(&after) {
        output::complain(&format!("{} has all of it already", path.display()));
        return Ok(exit);
    }
    let exit = output::print(&preview_import(&path, before.as_deref().unwrap_or(""), &after), exit);
    if !args.write {
        output::complain("nothing was written; --write makes this change");
        return Ok(exit);
    }
    let undo = write_with_backup(&path, before, after, env)
        .map_err(|error| output::refuse(&error.to_string()))?;
    let copy = undo.backup.map(|copy| format!("; the old one is in {}", copy.display()));
    output::complain(&format!("wrote {}{}", path.display(), copy.unwrap_or_default()));
    Ok(exit)
}
