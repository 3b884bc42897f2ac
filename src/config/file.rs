//! One file: parse, check, find its servers and inputs, read each entry.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::names;
use super::{Origins, ValueOrigin};
use crate::diagnostics::{Problems, closest};
use crate::entry::{self, EntryReader, ServerEntry};
use crate::environment::project_of;
use crate::expand::ExpandScope;
use crate::hazards::is_hidden;
use crate::keys::FILE;
use crate::shape::{Shape, check};
use crate::source::SourceText;
use crate::syntax::{NodeKind, SyntaxNode, parse};
use crate::{
    Diagnostic, Environment, Hold, InputConfig, InputKind, Position, ReloadMode, ServerConfig,
    Severity,
};
use base::ServerName;
use base::pointer::child_pointer;

/// Files of other programs, recognised by their top-level keys.
const OTHERS: [(&str, &str); 4] = [
    ("context_servers", "a settings file of Zed"),
    ("mcp", "a configuration of opencode or VS Code"),
    ("projects", "a settings file of Claude Code"),
    ("customizations devcontainer dockerFile features image", "a devcontainer.json"),
];

/// Placeholders for missing answers; the first that makes an entry readable is used. The first one
/// shows where the answer goes, but cannot be an address. The server is held and never run.
const STAND_INS: [fn(&str) -> String; 3] = [
    |id| format!("${{input:{id}}}"),
    |_| "unanswered".to_owned(),
    |_| "http://unanswered.invalid/".to_owned(),
];

/// The content of one file.
#[derive(Default)]
pub(crate) struct FileContent {
    pub(crate) servers: Vec<ParsedServer>,
    pub(crate) inputs: Vec<InputConfig>,
    pub(crate) reload: Option<ReloadMode>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) origins: Origins,
    pub(crate) reads: Vec<PathBuf>,
    /// Whether nothing in it can be used.
    pub(crate) fatal: bool,
}

/// One server of a file.
pub(crate) struct ParsedServer {
    pub(crate) name: ServerName,
    /// `None` when the entry cannot be used. Held when it waits for an input, with a placeholder
    /// for the answer.
    pub(crate) config: Option<Arc<ServerConfig>>,
    /// Inputs it waits for, with where they are used.
    pub(crate) unanswered: Vec<(String, Diagnostic)>,
    pub(crate) disabled: bool,
    /// As written, for the graph: known even when the entry cannot be used.
    pub(crate) dependencies: Vec<(ServerName, FilePlace)>,
    pub(crate) key: FilePlace,
}

/// A position in a file that outlives its source, stored as an empty diagnostic.
#[derive(Clone, Debug)]
pub(crate) struct FilePlace(Box<Diagnostic>);

impl FilePlace {
    fn new(source: &SourceText, range: &Range<usize>, pointer: &str, server: &ServerName) -> Self {
        let mut diagnostic = source.diagnostic("", Severity::Error, range.clone(), "");
        pointer.clone_into(&mut diagnostic.pointer);
        diagnostic.server = Some(server.clone());
        Self(Box::new(diagnostic))
    }

    /// Its position.
    pub(crate) fn at(&self) -> &Position {
        &self.0.at
    }

    /// A diagnostic at this position.
    pub(crate) fn problem(&self, rule: &str, severity: Severity, message: String) -> Diagnostic {
        Diagnostic { rule: rule.to_owned(), severity, message, ..(*self.0).clone() }
    }
}

/// Reads one source.
pub(crate) fn read(source: &SourceText, env: &Environment) -> FileContent {
    let mut out =
        FileContent { reads: vec![source.file().to_path_buf()], ..FileContent::default() };
    if source.text().contains("${secret:") {
        out.reads.extend(env.sources.file().map(Path::to_path_buf));
    }
    let (root, syntax) = parse(source);
    out.fatal = !syntax.is_empty();
    out.diagnostics = syntax;
    let Some(root) = root else { return out };
    let mut problems = Problems::new(source);
    let found = structure(&root, &mut problems);
    out.fatal |= problems.list.iter().any(Diagnostic::is_error);
    if out.fatal {
        check_entries(&found, &mut problems);
        out.diagnostics.append(&mut problems.list);
        return out;
    }
    if let Some(node) = root.get("reload") {
        let at = problems.source.position(node.range.start);
        out.origins.insert("/reload".to_owned(), ValueOrigin { at, ..ValueOrigin::default() });
    }
    out.reload = root.get("reload").and_then(SyntaxNode::text).map(|word| match word {
        "ask" => ReloadMode::Ask,
        _ => ReloadMode::Auto,
    });
    let (inputs, commands) = inputs(&root, &mut problems);
    let workspace = env.workspace_of(source.file());
    let scope = ExpandScope {
        workspace,
        inputs: &inputs,
        commands: &commands,
        ..ExpandScope::from_env(env)
    };
    let folder = env.absolute(&project_of(source.file()));
    for entry in found {
        let server = server(&entry, &mut problems, (&scope, &folder), &mut out);
        out.servers.push(server);
    }
    out.inputs = inputs;
    out.diagnostics.append(&mut problems.list);
    out
}

/// Checks everything but the entries; returns the entries.
fn structure<'n>(root: &'n SyntaxNode, problems: &mut Problems<'_>) -> Vec<ServerEntry<'n>> {
    check(&Shape::Object(&FILE), root, "", problems);
    if !matches!(root.kind, NodeKind::Object(_)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let containers = root.members().iter().filter(|m| is_servers(&m.key));
    let mut some = false;
    for m in containers {
        some = true;
        let pointer = child_pointer("", &m.key);
        if root.members().iter().filter(|o| o.key == m.key).count() > 1 {
            let message = format!("`{}` is given twice", m.key);
            problems.error("config/duplicate-key", &m.key_range, &pointer, message);
        }
        entries(&m.value, &pointer, problems, &mut found);
    }
    if !some {
        no_servers(root, problems);
    }
    check_names(&found, problems);
    found
}

fn is_servers(key: &str) -> bool {
    matches!(key, "servers" | "mcpServers")
}

fn no_servers(root: &SyntaxNode, problems: &mut Problems<'_>) {
    let near = root
        .members()
        .iter()
        .find(|m| closest(&m.key, ["servers", "mcpServers", "mcp_servers"]).is_some());
    let brace = root.range.start..root.range.start + 1;
    let problem = problems.error("config/missing-key", &brace, "", "`servers` is missing");
    let foreign = |keys: &str| keys.split(' ').any(|key| root.get(key).is_some());
    if root.get("command").is_some() || root.get("url").is_some() {
        let help = "this is the entry of one server: write { \"servers\": { \"NAME\": { ... } } } around it";
        problem.help(help);
    } else if let Some(near) = near {
        problem.help(format!("`{}` may be a typo of it", near.key));
    } else if let Some((_, whose)) = OTHERS.iter().find(|(keys, _)| foreign(keys)) {
        problem.help(format!("this is {whose}: `mcpdeck import` reads its servers"));
    } else {
        problem.help("write { \"servers\": { \"NAME\": { \"command\": \"...\" } } }");
    }
}

/// Finds the entries of an object, or of a list (older spelling).
fn entries<'n>(
    node: &'n SyntaxNode,
    pointer: &str,
    problems: &mut Problems<'_>,
    out: &mut Vec<ServerEntry<'n>>,
) {
    for m in node.members() {
        let (key_range, pointer) = (m.key_range.clone(), child_pointer(pointer, &m.key));
        let name = ServerName::new(&m.key);
        out.push(ServerEntry { name, key_range, node: &m.value, pointer });
    }
    for (i, element) in node.elements().iter().enumerate() {
        let pointer = format!("{pointer}/{i}");
        let Some((id, name)) = element.get("id").and_then(|id| Some((id, id.text()?))) else {
            let brace = element.range.start..element.range.start + 1;
            let help = match element.get("name") {
                Some(_) => "in a list of servers, `id` is the name: write `id` instead of `name`",
                None => "in a list of servers, `id` is the name",
            };
            problems.error("config/missing-key", &brace, &pointer, "`id` is missing").help(help);
            continue;
        };
        let (name, key_range) = (ServerName::new(name), id.range.clone());
        out.push(ServerEntry { name, key_range, node: element, pointer });
    }
}

/// Reports names that are duplicate, empty, look-alike or contain invisible characters.
fn check_names(found: &[ServerEntry<'_>], problems: &mut Problems<'_>) {
    let mut firsts: HashMap<&ServerName, &ServerEntry<'_>> = HashMap::with_capacity(found.len());
    let mut ids: HashMap<&str, &ServerEntry<'_>> = HashMap::new();
    for entry in found {
        let name = entry.name.as_str();
        problems.server = Some(entry.name.clone());
        if name.is_empty() {
            let message = "the name of a server is empty";
            problems.error("config/server-name", &entry.key_range, &entry.pointer, message);
        } else if name.chars().any(is_hidden) {
            let message = "the name of a server holds a control or invisible character";
            problems.error("config/server-name", &entry.key_range, &entry.pointer, message);
        }
        if let Some(first) = firsts.get(&entry.name) {
            let line = problems.source.position(first.key_range.start).line;
            let message = format!("the server `{name}` is defined twice");
            problems
                .error("config/duplicate-server", &entry.key_range, &entry.pointer, message)
                .help(format!("rename or remove one; the first is in line {line}"));
        } else {
            firsts.insert(&entry.name, entry);
        }
        duplicate_id(entry, &mut ids, problems);
    }
    let all: Vec<&str> = found.iter().map(|entry| entry.name.as_str()).collect();
    for (first, second) in names::look_alikes(&all) {
        let (first, second) = (&found[first], &found[second]);
        problems.server = Some(second.name.clone());
        let message = format!("the name `{}` is easily taken for `{}`", second.name, first.name);
        problems
            .warn("config/look-alike-name", &second.key_range, &second.pointer, message)
            .help("choose names that differ at a glance");
    }
    problems.server = None;
}

/// Checks an `id` in an object of servers: the key is the name, but duplicate ids are still
/// refused. `ids` holds the first server of each id so far.
fn duplicate_id<'f, 'n>(
    entry: &'f ServerEntry<'n>,
    ids: &mut HashMap<&'n str, &'f ServerEntry<'n>>,
    problems: &mut Problems<'_>,
) {
    let Some(node) = entry.node.get("id") else { return };
    let Some(id) = node.text() else { return };
    let pointer = child_pointer(&entry.pointer, "id");
    let first = *ids.entry(id).or_insert(entry);
    if first.name != entry.name {
        let message = format!("the id `{id}` is also that of `{}`", first.name);
        problems.error("config/duplicate-server", &node.range, &pointer, message);
    } else if id.trim() != entry.name.as_str() {
        let message = format!("the key `{}` is the name, `id` is not used", entry.name);
        problems.warn("config/unused-key", &node.range, &pointer, message);
    }
}

fn check_entries(found: &[ServerEntry<'_>], problems: &mut Problems<'_>) {
    for entry in found {
        problems.server = Some(entry.name.clone());
        check(&Shape::Object(&crate::keys::SERVER), entry.node, &entry.pointer, problems);
    }
    problems.server = None;
}

fn server(
    found: &ServerEntry<'_>,
    problems: &mut Problems<'_>,
    (scope, folder): (&ExpandScope<'_>, &PathBuf),
    out: &mut FileContent,
) -> ParsedServer {
    let before = problems.list.len();
    check_entries(std::slice::from_ref(found), problems);
    problems.server = Some(found.name.clone());
    let sound = !problems.list.iter().skip(before).any(Diagnostic::is_error);
    let mut reader = EntryReader::new(found, problems, scope, &mut out.origins, folder);
    // A non-object has been reported; reporting its missing keys too would be redundant.
    let is_object = matches!(found.node.kind, NodeKind::Object(_));
    let mut config = if is_object { entry::read(&mut reader) } else { None };
    let mut unanswered = reader.unanswered;
    out.reads.extend(reader.reads);
    let open = |input: &&InputConfig| unanswered.iter().any(|(id, _)| *id == input.id);
    if let Some(input) = scope.inputs.iter().find(open) {
        let reported = problems.list.len();
        config = STAND_INS.iter().find_map(|stand_in| {
            let scope = ExpandScope { stand_in: Some(*stand_in), ..scope.clone() };
            let mut reader = EntryReader::new(found, problems, &scope, &mut out.origins, folder);
            let config = entry::read(&mut reader);
            // The first read has already reported everything.
            reader.problems.list.truncate(reported);
            config
        });
        if let Some(config) = &mut config {
            config.hold = Some(Hold::Input(input.id.clone()));
        }
    }
    let disabled = found.node.is_disabled();
    if disabled {
        // A disabled server may lack variables and answers.
        unanswered.clear();
        for problem in problems.list.iter_mut().skip(before) {
            if matches!(
                problem.rule.as_str(),
                "config/unset-variable" | "config/empty-variable" | "config/env-file"
            ) {
                problem.severity = Severity::Warning;
            }
        }
    }
    problems.server = None;
    let place = |range: &Range<usize>, pointer: &str| {
        FilePlace::new(problems.source, range, pointer, &found.name)
    };
    ParsedServer {
        name: found.name.clone(),
        config: config.filter(|_| sound).map(Arc::new),
        unanswered,
        disabled,
        dependencies: dependencies(found, &place),
        key: place(&found.key_range, &found.pointer),
    }
}

fn dependencies(
    found: &ServerEntry<'_>,
    place: &dyn Fn(&Range<usize>, &str) -> FilePlace,
) -> Vec<(ServerName, FilePlace)> {
    let key = if found.node.get("dependencies").is_some() { "dependencies" } else { "dependsOn" };
    let pointer = child_pointer(&found.pointer, key);
    let elements = found.node.get(key).map(SyntaxNode::elements).unwrap_or_default();
    elements
        .iter()
        .enumerate()
        .filter_map(|(i, e)| {
            Some((ServerName::new(e.text()?), place(&e.range, &format!("{pointer}/{i}"))))
        })
        .collect()
}

/// The declared inputs, and the ids of those that run an editor's command.
fn inputs(root: &SyntaxNode, problems: &mut Problems<'_>) -> (Vec<InputConfig>, Vec<String>) {
    let mut out: Vec<InputConfig> = Vec::new();
    let mut commands = Vec::new();
    for (i, node) in
        root.get("inputs").map(SyntaxNode::elements).unwrap_or_default().iter().enumerate()
    {
        let pointer = format!("/inputs/{i}");
        let text = |key: &str| node.get(key).and_then(SyntaxNode::text).map(str::to_owned);
        let (Some(id), Some(kind)) = (text("id"), text("type")) else { continue };
        let id_range = node.get("id").map_or(node.range.clone(), |n| n.range.clone());
        if out.iter().any(|o| o.id == id) || commands.contains(&id) {
            let message = format!("the input `{id}` is declared twice; the first one counts");
            problems.warn(
                "config/duplicate-input",
                &id_range,
                &child_pointer(&pointer, "id"),
                message,
            );
            continue;
        }
        if kind == "command" {
            let message =
                format!("the input `{id}` runs a command of an editor, which cannot be done here");
            problems
                .warn("config/input-command", &id_range, &pointer, message)
                .help(format!("set {}", crate::input_variable(&id)));
            commands.push(id);
            continue;
        }
        let kind = if kind == "pickString" {
            InputKind::PickString { options: options(node, &pointer, problems) }
        } else {
            InputKind::PromptString { password: node.is_true("password") }
        };
        let description = text("description").unwrap_or_else(|| id.clone());
        out.push(InputConfig { id, description, kind, default: text("default") });
    }
    (out, commands)
}

fn options(node: &SyntaxNode, pointer: &str, problems: &mut Problems<'_>) -> Vec<String> {
    let options: Vec<String> = node
        .get("options")
        .map(SyntaxNode::elements)
        .unwrap_or_default()
        .iter()
        .filter_map(|o| o.text().or_else(|| o.get("value").and_then(SyntaxNode::text)))
        .map(str::to_owned)
        .collect();
    if options.is_empty() {
        let brace = node.range.start..node.range.start + 1;
        problems
            .warn("config/missing-key", &brace, pointer, "there is nothing to pick from")
            .help("add `options`");
    }
    options
}
