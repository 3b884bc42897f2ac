//! `upgrade` and `remove`: a newer version of a server, with what it changes in its tools, and the way
//! back out of the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::add::inputs::answers;
use crate::add::trial::{FileDraft, raw_entry, raw_servers, run_trial};
use crate::add::{RegistryArgs, keep_secrets, refused, remind, wait_for};
use crate::args::Common;
use crate::connect::confirm;
use crate::load;
use crate::output::{self, CommandResult, ExitStatus};
use crate::telemetry::Telemetry;
use ::check::Severity;
use ::deck::TrustStore;
use base::text::path::spelled;
use base::{SafeText, ServerName};
use config::{Edit, Environment};
use reach::{
    Bundle, LaunchedPackage, ReachError, ServerInput, keep_apart, names_of_others, newest,
    references, registry, settle, way,
};

/// `mcpdeck upgrade`
#[derive(Debug, Args)]
pub struct UpgradeArgs {
    /// The servers [default: all that have a version].
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
    /// Change nothing; exit with 1 when there is a newer version.
    #[arg(long, conflicts_with = "yes")]
    check: bool,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Upgrade without asking; not when the new version cannot be started, or changes what is an
    /// error of the check, such as a new instruction to the model.
    #[arg(long, short = 'y')]
    yes: bool,
    /// With --yes: such changes too.
    #[arg(long, requires = "yes")]
    accept_risks: bool,
}

/// `mcpdeck remove`
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The servers.
    #[arg(value_name = "SERVER", required = true)]
    servers: Vec<String>,
    /// Remove without asking.
    #[arg(long, short = 'y')]
    yes: bool,
}

/// What says which version of a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PinnedVersion {
    /// A server of a registry, by one of its ways.
    Registry { name: String, version: String, kind: String },
    /// A package, as it stands in the entry.
    Package(LaunchedPackage),
}

impl PinnedVersion {
    /// What an entry says; `None` when it names no version of anything.
    fn find(entry: &Value) -> Option<Self> {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str);
        if let (Some(name), Some(version)) = (text("/origin/registry"), text("/origin/version")) {
            let kind = text("/origin/kind").unwrap_or("npm").to_owned();
            return Some(Self::Registry {
                name: name.to_owned(),
                version: version.to_owned(),
                kind,
            });
        }
        if let Some(written) = text("/launch/uv") {
            return LaunchedPackage::from_requirement(written).map(Self::Package);
        }
        let args = entry.get("args")?.as_array()?;
        let args: Vec<&str> = args.iter().filter_map(Value::as_str).collect();
        LaunchedPackage::find(text("/command")?, &args).map(Self::Package)
    }

    fn version(&self) -> &str {
        match self {
            Self::Registry { version, .. } => version,
            Self::Package(package) => {
                package.version.as_deref().unwrap_or("the newest at each start")
            }
        }
    }
}

/// A newer version of a server.
struct Renewal {
    version: String,
    entry: Value,
    /// Inputs that the old version did not have.
    inputs: Vec<ServerInput>,
    bundle: Option<(Bundle, PathBuf)>,
}

/// `mcpdeck upgrade`
pub fn upgrade(common: &Common, args: &UpgradeArgs, telemetry: &Telemetry) -> CommandResult {
    let env = load::environment(common).map_err(|found| output::problems(&found))?;
    let file = FileDraft::open(common, &env)?;
    let chosen = chosen(&file, &args.servers)?;
    let mut exit = ExitStatus::Ok;
    let is_pinned = |(_, entry): &(ServerName, Value)| PinnedVersion::find(entry).is_some();
    if args.servers.is_empty() && !chosen.iter().any(is_pinned) {
        output::complain(
            "no entry names a version, so there is nothing to upgrade; `mcpdeck add` writes versions",
        );
        return Ok(exit);
    }
    for (name, entry) in chosen {
        let shown = SafeText::line(name.as_str());
        let Some(pinned) = PinnedVersion::find(&entry) else {
            if !args.servers.is_empty() {
                output::complain(&format!("{shown}: its entry names no version"));
            }
            continue;
        };
        let found = wait_for(async {
            let found = renewal(&pinned, &entry, (args, &env)).await;
            found.map_err(|error| ReachError(format!("{shown}: {error}")))
        });
        let renewal = match found {
            Ok(Some(renewal)) => renewal,
            Ok(None) => {
                output::complain(&format!("{shown}: {} is the newest", pinned.version()));
                continue;
            }
            // The others are looked at all the same.
            Err(ExitStatus::Interrupted) => return Err(ExitStatus::Interrupted),
            Err(failed) => {
                exit = failed;
                continue;
            }
        };
        let versions = format!("{shown}: {} -> {}", pinned.version(), renewal.version);
        output::print(&format!("{}\n", SafeText::line(&versions)), ExitStatus::Ok);
        if args.check {
            exit = ExitStatus::Failed;
            continue;
        }
        let done = renew((common, telemetry), args, &env, (&name, &renewal))?;
        if done != ExitStatus::Ok {
            exit = done;
        }
    }
    Ok(exit)
}

/// The servers that are named, else all, with their entries.
fn chosen(file: &FileDraft, names: &[String]) -> Result<Vec<(ServerName, Value)>, ExitStatus> {
    let refuse = |why: &str| output::refuse(&SafeText::line(why));
    if names.is_empty() {
        let source = config::SourceText::new(&file.path, &file.after);
        let root = config::read_document(config::FileFormat::Json, &source)
            .map_err(|found| output::problems(&found))?;
        return Ok(raw_servers(&root));
    }
    let entry = |name: &String| {
        let name = ServerName::new(name);
        let entry = raw_entry(&file.path, &file.after, &name).map_err(|why| refuse(&why))?;
        Ok((name, entry))
    };
    names.iter().map(entry).collect()
}

/// Looks for a newer version.
async fn renewal(
    pinned: &PinnedVersion,
    entry: &Value,
    (args, env): (&UpgradeArgs, &Environment),
) -> Result<Option<Renewal>, ReachError> {
    let (name, version, kind) = match pinned {
        PinnedVersion::Package(package) => {
            let found = newest(package.kind, &package.name, env).await?;
            if package.version.as_deref().is_some_and(|old| !is_newer(&found, old)) {
                return Ok(None);
            }
            let mut entry = entry.clone();
            replace_text(&mut entry, &package.word, &package.word_for(&found));
            let (inputs, bundle) = (Vec::new(), None);
            return Ok(Some(Renewal { version: found, entry, inputs, bundle }));
        }
        PinnedVersion::Registry { name, version, kind } => (name, version, kind),
    };
    let registry = registry(args.registry.registry.as_ref(), env)?;
    let server = registry.server(name, None).await?;
    if !is_newer(&server.version, version) {
        return Ok(None);
    }
    let way = way(&server, Some(kind.as_str()))?;
    let mut new = entry.clone();
    let changed = |what: &str| {
        ReachError(format!(
            "`{name}`: {what} was changed by hand; remove the server and add it again, or write \
             {} yourself",
            way.pin
        ))
    };
    let mut bundle = None;
    if let Some(published) = &way.bundle {
        let bytes = registry.bundle(published).await?;
        let unpacked = Bundle::from_bytes(bytes)
            .map_err(|why| ReachError(format!("{}: {why}", published.url)))?;
        let folder = unpacked.folder(env)?;
        let old = entry.get("cwd").and_then(Value::as_str).ok_or_else(|| changed("its `cwd`"))?;
        let old = old.to_owned();
        replace_within(&mut new, &old, &folder.to_string_lossy());
        bundle = Some((unpacked, folder));
    } else if kind == "remote" {
        new["url"] = way.entry["url"].clone();
    } else {
        let args = new.get_mut("args").and_then(Value::as_array_mut);
        let own = |arg: &Value| {
            arg.as_str().and_then(|arg| arg.strip_prefix(&way.stem)).is_some_and(|rest| {
                kind != "oci" || rest.is_empty() || rest.starts_with([':', '@'])
            })
        };
        let arg = args.and_then(|args| args.iter_mut().find(|arg| own(arg)));
        *arg.ok_or_else(|| changed("the package in its `args`"))? = json!(way.pin);
    }
    new["origin"]["version"] = json!(server.version);
    // What it needs now and did not need before.
    let mut inputs = Vec::new();
    for key in ["env", "headers"] {
        for (field, value) in way.entry.get(key).and_then(Value::as_object).into_iter().flatten() {
            if entry.get(key).and_then(|own| own.get(field)).is_some() {
                continue;
            }
            let text = value.to_string();
            let is_used = |input: &&ServerInput| text.contains(&format!("${{input:{}}}", input.id));
            let own: Vec<&ServerInput> = way.inputs.iter().filter(is_used).collect();
            if own.iter().all(|input| input.is_required || input.default.is_some()) {
                new[key][field] = value.clone();
                inputs.extend(own.into_iter().cloned());
            }
        }
    }
    Ok(Some(Renewal { version: server.version.clone(), entry: new, inputs, bundle }))
}

/// Compares the old and the new version of a server, and writes the new one when it is wanted.
fn renew(
    (common, telemetry): (&Common, &Telemetry),
    args: &UpgradeArgs,
    env: &Environment,
    (name, renewal): (&ServerName, &Renewal),
) -> Result<ExitStatus, ExitStatus> {
    let shown = SafeText::line(name.as_str());
    // The file as it is now: an upgrade before this one may have changed it.
    let file = FileDraft::open(common, env)?;
    let (mut entry, mut inputs) = (renewal.entry.clone(), renewal.inputs.clone());
    let taken = names_of_others((&file.path, &file.after), name, env);
    keep_apart(&mut entry, &mut inputs, &mut [], &taken);
    let needed: Vec<&ServerInput> = inputs.iter().collect();
    let answers = answers(&needed, &[], (env, !args.yes))?;
    let edits = |entry: &Value, declared: &[Value]| -> Vec<Edit> {
        let inputs = declared.iter().map(|input| Edit::AddInput { input: input.clone() });
        let replace = Edit::Replace { name: name.clone(), entry: entry.clone() };
        inputs.chain([replace]).collect()
    };
    let settled = settle(&entry, &inputs, &answers, false);
    let draft = file.edited(&edits(&settled.entry, &settled.declared))?;
    output::print(&draft.patch(), ExitStatus::Ok);
    if !args.yes && !confirm("start both versions, to compare what they offer?")? {
        return Ok(ExitStatus::Ok);
    }
    if let Some((bundle, folder)) = &renewal.bundle {
        bundle.unpack(folder).map_err(refused)?;
    }
    if settled.open.is_empty() {
        let before = run_trial((common, telemetry), &file, name, (None, env));
        let before = match before {
            Ok(trial) if trial.is_whole() => Some(trial.offered),
            Err(ExitStatus::Interrupted) => return Err(ExitStatus::Interrupted),
            _ => {
                output::warn(&format!(
                    "{shown}: the version that is there now could not be started, so there is nothing \
                     to compare with"
                ));
                None
            }
        };
        let tried = settle(&entry, &inputs, &answers, true);
        let trial_draft = file.edited(&edits(&tried.entry, &tried.declared))?;
        let mut trial_env = env.clone();
        trial_env.inputs.extend(answers.iter().cloned());
        let is_compared = before.is_some();
        let trial = run_trial((common, telemetry), &trial_draft, name, (before, &trial_env))?;
        trial.print(common);
        let findings = trial.report.servers.iter().flat_map(|server| &server.findings);
        let changes = findings.filter(|finding| finding.rule.starts_with("lock/")).count();
        if is_compared && trial.is_whole() && changes == 0 {
            output::complain(&format!("{shown}: what it offers has not changed"));
        }
        let findings = trial.report.servers.iter().flat_map(|server| &server.findings);
        let risks = findings
            .filter(|it| it.rule.starts_with("lock/") && it.severity == Severity::Error)
            .count();
        if risks > 0 && args.yes && !args.accept_risks {
            output::complain(&format!(
                "{shown}: not upgraded: {risks} of the changes are errors; confirm at the terminal, or \
                 with --accept-risks"
            ));
            return Ok(ExitStatus::Failed);
        }
        if !trial.is_whole() && args.yes {
            output::complain(&format!(
                "{shown}: not upgraded: the new version could not be checked"
            ));
            return Ok(ExitStatus::Unavailable);
        }
    }
    if !args.yes && !confirm(&format!("upgrade `{shown}` to {}?", renewal.version))? {
        return Ok(ExitStatus::Ok);
    }
    keep_secrets(&settled, env)?;
    draft.write(std::slice::from_ref(name), env)?;
    remind(&settled);
    Ok(ExitStatus::Ok)
}

/// Whether a version is newer than another: by their numbers, then whether they differ.
fn is_newer(version: &str, old: &str) -> bool {
    /// The numbers, and whether it is a candidate of them (`1.0.0-rc.1`, `1.0rc1`, `1.0.dev2`).
    fn read(version: &str) -> (Vec<u64>, bool) {
        let core = version.split(['-', '+']).next().unwrap_or_default().trim_start_matches('v');
        let mut is_candidate = version.contains('-');
        let mut numbers = Vec::new();
        for part in core.split('.') {
            let digits = part.trim_start_matches(|c: char| c.is_ascii_digit());
            let number = &part[..part.len() - digits.len()];
            is_candidate |=
                ["a", "b", "c", "rc", "dev", "pre"].iter().any(|mark| digits.starts_with(mark));
            let number = if number.is_empty() { part.trim_start_matches("post") } else { number };
            if !is_candidate || !number.starts_with(|c: char| c.is_ascii_alphabetic()) {
                numbers.push(number.parse().unwrap_or(0));
            }
            if is_candidate {
                break;
            }
        }
        while numbers.last() == Some(&0) && numbers.len() > 1 {
            numbers.pop();
        }
        (numbers, is_candidate)
    }
    let ((new, _), (former, is_candidate)) = (read(version), read(old));
    // A version follows its own candidates.
    new > former || (new == former && version != old && is_candidate)
}

/// Replaces texts that are this one.
fn replace_text(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::String(text) if text == old => new.clone_into(text),
        Value::Array(list) => list.iter_mut().for_each(|element| replace_text(element, old, new)),
        Value::Object(map) => map.values_mut().for_each(|value| replace_text(value, old, new)),
        _ => {}
    }
}

/// Replaces a part of texts.
fn replace_within(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::String(text) => *text = text.replace(old, new),
        Value::Array(list) => list.iter_mut().for_each(|element| replace_within(element, old, new)),
        Value::Object(map) => map.values_mut().for_each(|value| replace_within(value, old, new)),
        _ => {}
    }
}

/// `mcpdeck remove`
pub fn remove(common: &Common, args: &RemoveArgs) -> CommandResult {
    let env = load::environment(common).map_err(|found| output::problems(&found))?;
    let file = FileDraft::open(common, &env)?;
    let gone = chosen(&file, &args.servers)?;
    let is_gone = |name: &ServerName| gone.iter().any(|(own, _)| own == name);
    let all = chosen(&file, &[])?;
    let stay: Vec<&(ServerName, Value)> = all.iter().filter(|(name, _)| !is_gone(name)).collect();
    for (name, entry) in &stay {
        let lists = ["dependencies", "dependsOn"].into_iter().filter_map(|key| entry.get(key));
        let mut needs = lists.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        if let Some(needed) = needs.find(|needed| is_gone(&ServerName::new(needed))) {
            let (name, needed) = (SafeText::line(name.as_str()), SafeText::line(needed));
            return Err(output::refuse(&format!(
                "`{name}` depends on `{needed}`: remove it too, or its `dependencies` first"
            )));
        }
    }
    let edits: Vec<Edit> =
        gone.iter().map(|(name, _)| Edit::Remove { name: name.clone() }).collect();
    let draft = file.edited(&edits)?;
    output::print(&draft.patch(), ExitStatus::Ok);
    let names: Vec<String> = gone.iter().map(|(name, _)| format!("`{name}`")).collect();
    let path = draft.path.clone();
    let question = format!("remove {} from {}?", names.join(", "), spelled(&path));
    if !args.yes && !confirm(&SafeText::line(&question))? {
        return Ok(ExitStatus::Ok);
    }
    draft.write(&[], &env)?;
    for (name, entry) in &gone {
        if let Some(store) = TrustStore::from_env(&env) {
            // An approval that was never given need not be withdrawn.
            let _ = store.revoke(&path, name);
        }
        forget_bundle(entry, &stay, &env);
        remind_of_secrets(entry, &stay);
    }
    Ok(ExitStatus::Ok)
}

/// The folder in the state folder that bundles are unpacked into.
const BUNDLES_FOLDER: &str = "bundles";

/// Deletes the folder that a bundle was unpacked into, when no other server uses it.
fn forget_bundle(entry: &Value, stay: &[&(ServerName, Value)], env: &Environment) {
    let Some(folder) = entry.get("cwd").and_then(Value::as_str) else { return };
    let Some(bundles) = env.state_dir.as_ref().map(|state| state.join(BUNDLES_FOLDER)) else {
        return;
    };
    let path = Path::new(folder);
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    let is_used = || stay.iter().any(|(_, other)| names_bundle(other, name));
    if path.parent() == Some(&*bundles) && !is_used() && std::fs::remove_dir_all(path).is_ok() {
        output::complain(&format!("removed {}", SafeText::line(folder)));
    }
}

/// Whether any text of an entry may lead into the folder of a bundle: by its whole path, by one with
/// variables, or behind an option.
fn names_bundle(entry: &Value, name: &str) -> bool {
    let ends_name =
        |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c));
    texts(entry).iter().any(|text| {
        let parts: Vec<&str> = text.split(['/', '\\']).collect();
        let is_here = |part: &str| part.strip_prefix(name).is_some_and(ends_name);
        parts.windows(2).any(|two| two[0] == BUNDLES_FOLDER && is_here(two[1]))
    })
}

/// Names the secrets that only the removed server used; they stay in the store.
fn remind_of_secrets(entry: &Value, stay: &[&(ServerName, Value)]) {
    let secrets = |entry| references(entry, "secret");
    let used: BTreeSet<&str> = stay.iter().flat_map(|(_, other)| secrets(other)).collect();
    for name in secrets(entry).difference(&used) {
        let name = SafeText::line(name);
        output::complain(&format!(
            "the secret `{name}` is still in the store: `mcpdeck secret remove {name}`"
        ));
    }
}

/// The texts of a value, at any depth.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().flat_map(texts).collect(),
        Value::Object(map) => map.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_say_which_version_runs() {
        for (entry, version) in [
            (json!({"command": "npx", "args": ["-y", "@a/b@1.0.0", "--x", "y@2"]}), Some("1.0.0")),
            (json!({"command": "uvx", "args": ["--with", "q<2", "p==1.2"]}), Some("1.2")),
            (json!({"command": "npx.cmd", "args": ["b"]}), Some("the newest at each start")),
            (json!({"launch": {"uv": "p==1"}}), Some("1")),
            (json!({"command": "node", "args": ["x@1"]}), None),
            (json!({"url": "https://h.example/mcp"}), None),
            (json!({"command": "npx"}), None),
        ] {
            let found = PinnedVersion::find(&entry);
            assert_eq!(found.as_ref().map(PinnedVersion::version), version, "{entry}");
        }
        let origin = json!({"command": "npx", "args": ["-y", "x@1"],
            "origin": {"registry": "a.b/x", "version": "1", "kind": "npm"}});
        let found = PinnedVersion::find(&origin).expect("a version");
        assert_eq!(found.version(), "1");
        assert!(matches!(found, PinnedVersion::Registry { .. }));
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (new, old) in [
            ("1.10.0", "1.9.9"),
            ("2", "1.9"),
            ("1.0.1", "1.0"),
            ("1.0.0", "1.0.0-rc.1"),
            ("1.0", "1.0rc1"),
            ("1.0.0", "1.0.0b2"),
            ("2.0", "2.0.dev3"),
            ("1.0.1rc1", "1.0"),
            ("1.0.post1", "1.0"),
        ] {
            assert!(is_newer(new, old) && !is_newer(old, new), "{new} {old}");
        }
        assert!(!is_newer("1.0.0", "1.0") && !is_newer("1.0", "1.0.0"));
        assert!(!is_newer("1.0.0", "1.0.0"));
        assert!(is_newer("1.0.0-rc.2", "1.0.0-rc.1"));
    }

    #[test]
    fn the_folder_of_a_bundle_stays_while_any_text_leads_into_it() {
        let name = "notes-1.0-ab";
        for text in [
            "/state/bundles/notes-1.0-ab",
            "/state/bundles/notes-1.0-ab/server/index.js",
            "C:\\state\\bundles\\notes-1.0-ab\\server.exe",
            "${userHome}/.local/state/mcpdeck/bundles/notes-1.0-ab/x",
            "--root=/state/bundles/notes-1.0-ab/data",
            "/state/bundles/notes-1.0-ab:/data:ro",
        ] {
            let entry = json!({"command": "node", "args": ["--quiet", {"env": text}]});
            assert!(names_bundle(&entry, name), "{text}");
        }
        for text in [
            "/state/bundles/notes-1.0-ab2",
            "/state/bundles/notes-1.0-ab-2/server",
            "/state/bundles/my-notes-1.0-ab",
            "/state/bundles",
            "notes-1.0-ab",
        ] {
            assert!(!names_bundle(&json!({"command": text}), name), "{text}");
        }
    }
}
