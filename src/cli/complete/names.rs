//! The words only this program knows: servers, tools, prompts, resources, saved calls, rules. Starts
//! no server: what they offer is what is remembered of them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};

use super::line;
use crate::base::text::SafeText;
use crate::check::rule;
use crate::cli::args::{Cli, Common};
use crate::cli::known::{Known, Offer, Offers};
use crate::cli::topics::TOPICS;
use crate::cli::{load, saved};
use crate::config::{Environment, Loaded, ServerConfig};
use crate::deck::SavedTarget;

type Candidates = Vec<CompletionCandidate>;

thread_local! {
    /// The words of the line; the last is the one that goes on.
    pub static LINE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A word that goes on from `current`, and what it is.
fn word(value: impl Into<String>, says: &str) -> CompletionCandidate {
    let says = SafeText::line(says);
    let help = (!says.is_empty()).then(|| says.as_str().to_owned().into());
    CompletionCandidate::new(value.into()).help(help)
}

fn those(current: &OsStr, all: impl IntoIterator<Item = CompletionCandidate>) -> Candidates {
    let begun = current.to_string_lossy();
    let fits = |word: &CompletionCandidate| word.get_value().to_string_lossy().starts_with(&*begun);
    let shows = |word: &CompletionCandidate| {
        let value = word.get_value().to_string_lossy().into_owned();
        SafeText::line(&value).as_str() == value
    };
    all.into_iter().filter(|word| fits(word) && shows(word)).collect()
}

/// The line, the configuration it names, and what is known of its servers.
struct Here {
    common: Common,
    plain: Vec<String>,
    loaded: Loaded,
    known: Option<Known>,
}

impl Here {
    fn look() -> Self {
        let words = LINE.with(|line| line.borrow().clone());
        let typed = words.split_last().map(|(_, typed)| typed).unwrap_or_default();
        let (common, plain) = line::read(typed);
        let plain = plain.into_iter().map(str::to_owned).collect();
        let env = load::environment(&common);
        let loaded = env.and_then(|env| load::load_files(&load::files(&common, &env), &env));
        let known = Known::of(&Environment::of_process());
        // What is wrong with a file is told by what comes after completion.
        Self { common, plain, loaded: loaded.unwrap_or_default(), known }
    }

    /// Servers with what is known of them.
    fn servers(&self) -> impl Iterator<Item = (&ServerConfig, Option<Offers>)> {
        let enabled = self.loaded.config.servers.values().filter(|server| !server.disabled);
        enabled.map(|server| (server, self.known.as_ref().and_then(|known| known.get(server))))
    }

    /// Everything of one list as `server.name`; the bare name where only that goes on.
    fn owned(&self, current: &OsStr, list: fn(&Offers) -> &[Offer]) -> Candidates {
        let (mut full, mut bare) = (Vec::new(), Vec::new());
        for (server, offers) in self.servers() {
            let name = server.name.as_str();
            let Some(offers) = offers else {
                full.push(word(format!("{name}."), "`mcpdeck list` learns what it has"));
                continue;
            };
            for offer in list(&offers) {
                full.push(word(format!("{name}.{}", offer.name), &offer.says));
                bare.push(word(&offer.name, &format!("{name}: {}", offer.says)));
            }
        }
        let full = those(current, full);
        if full.is_empty() { those(current, bare) } else { full }
    }

    /// What the tool or prompt that was named on the line takes.
    fn parameters(&self, current: &OsStr, list: fn(&Offers) -> &[Offer]) -> Candidates {
        let given: BTreeSet<&str> =
            self.plain.iter().filter_map(|word| Some(word.split_once('=')?.0)).collect();
        let Some(name) = self.plain.get(1) else { return Vec::new() };
        let name = self.target(name);
        let parameters = self.servers().find_map(|(server, offers)| {
            let own = name.strip_prefix(server.name.as_str());
            let own = own.and_then(|rest| rest.strip_prefix(['.', ':', '/']));
            let offers = offers?;
            let found =
                list(&offers).iter().find(|o| Some(o.name.as_str()) == own || o.name == name);
            found.map(|offer| offer.parameters.clone())
        });
        let typed = current.to_string_lossy();
        let mut out = Vec::new();
        for parameter in parameters.unwrap_or_default() {
            let key = format!("{}=", parameter.name);
            if typed.starts_with(&key) {
                out.extend(parameter.values.iter().map(|value| word(format!("{key}{value}"), "")));
            } else if !given.contains(parameter.name.as_str()) {
                let needed = if parameter.required { "needed: " } else { "" };
                out.push(word(key, &format!("{needed}{}", parameter.says)));
            }
        }
        those(current, out)
    }

    /// The tool or prompt behind a saved call.
    fn target(&self, name: &str) -> String {
        if !name.starts_with('@') {
            return name.to_owned();
        }
        match saved::all(&self.common).get(name).map(|call| &call.target) {
            Ok(SavedTarget::Tool { tool: target } | SavedTarget::Prompt { prompt: target }) => {
                target.clone()
            }
            _ => String::new(),
        }
    }
}

/// Servers that are not on the line yet.
pub fn servers(current: &OsStr) -> Candidates {
    let here = Here::look();
    let named = |name: &str| here.plain.iter().any(|word| word == name);
    let all = here.loaded.config.servers.values().map(|server| {
        let at = if server.disabled { "disabled".to_owned() } else { server.at.to_string() };
        word(server.name.as_str(), &at)
    });
    let left_out = here.loaded.left_out.iter().map(|name| word(name.as_str(), "cannot be used"));
    let all = all.chain(left_out);
    those(current, all.filter(|word| !named(&word.get_value().to_string_lossy())))
}

/// Tools, and the saved calls.
pub fn calls(current: &OsStr) -> Candidates {
    let here = Here::look();
    let saved = saved::all(&here.common).calls.into_iter().map(|(name, call)| {
        let target = match call.target {
            SavedTarget::Tool { tool } => tool,
            SavedTarget::Prompt { prompt } => prompt,
            SavedTarget::Resource { resource, .. } => resource,
        };
        word(format!("@{name}"), &target)
    });
    let mut out = those(current, saved);
    if !current.to_string_lossy().starts_with('@') {
        out.extend(here.owned(current, |offers| &offers.tools));
    }
    out
}

/// Prompts.
pub fn prompts(current: &OsStr) -> Candidates {
    Here::look().owned(current, |offers| &offers.prompts)
}

/// Parameters of the tool on the line; a file after `@`.
pub fn tool_arguments(current: &OsStr) -> Candidates {
    arguments(current, |offers| &offers.tools)
}

/// Parameters of the prompt on the line; a file after `@`.
pub fn prompt_arguments(current: &OsStr) -> Candidates {
    arguments(current, |offers| &offers.prompts)
}

fn arguments(current: &OsStr, list: fn(&Offers) -> &[Offer]) -> Candidates {
    let typed = current.to_string_lossy();
    if let Some(path) = typed.strip_prefix('@') {
        let files = PathCompleter::file().complete(OsStr::new(path));
        return files.into_iter().map(|file| file.add_prefix("@")).collect();
    }
    let here = Here::look();
    let parameters = here.parameters(current, list);
    match typed.split_once('=') {
        // A value nobody has told is a path perhaps.
        Some((key, value)) if parameters.is_empty() => {
            let files = PathCompleter::any().complete(OsStr::new(value));
            files.into_iter().map(|file| file.add_prefix(format!("{key}="))).collect()
        }
        _ => parameters,
    }
}

/// Resources; of a template what stands before its first variable.
pub fn resources(current: &OsStr) -> Candidates {
    let mut all = Vec::new();
    for (_, offers) in Here::look().servers() {
        let Some(offers) = offers else { continue };
        all.extend(offers.resources.iter().map(|offer| word(&offer.name, &offer.says)));
        all.extend(offers.templates.iter().filter_map(|offer| {
            let start = offer.name.split('{').next().filter(|start| !start.is_empty())?;
            Some(word(start, &offer.name))
        }));
    }
    those(current, all)
}

/// Rules of the check.
pub fn rules(current: &OsStr) -> Candidates {
    those(current, rule::all().map(|rule| word(rule.id, rule.summary)))
}

/// Topics of the help, and the commands.
pub fn topics(current: &OsStr) -> Candidates {
    let topics = TOPICS.iter().map(|topic| word(topic.name, topic.about));
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs = verbs.map(|verb| {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        word(verb.get_name(), &about)
    });
    those(current, topics.chain([word("keys", "every key of the dashboard")]).chain(verbs))
}

/// Severities.
pub fn severities(current: &OsStr) -> Candidates {
    those(current, ["note", "warning", "error"].map(|severity| word(severity, "")))
}

/// Formats of the report; a file after `=`.
pub fn formats(current: &OsStr) -> Candidates {
    let typed = current.to_string_lossy();
    if let Some((format, file)) = typed.split_once('=') {
        let files = PathCompleter::any().complete(OsStr::new(file));
        return files.into_iter().map(|file| file.add_prefix(format!("{format}="))).collect();
    }
    let all = [
        ("human", "for people"),
        ("json", "everything; `mcpdeck schema report` describes it"),
        ("junit", "for the test view of a CI"),
        ("sarif", "for code scanning"),
        ("github", "annotations and a summary of GitHub Actions"),
    ];
    those(current, all.map(|(format, what)| word(format, what)))
}

/// Themes.
pub fn themes(current: &OsStr) -> Candidates {
    #[cfg(feature = "tui")]
    return those(current, crate::tui::theme::SHIPPED.iter().map(|(name, _)| word(*name, "")));
    #[cfg(not(feature = "tui"))]
    {
        let _ = current;
        Vec::new()
    }
}

/// Files that may be configurations, and the folders on the way to them.
pub fn configurations(current: &OsStr) -> Candidates {
    let ours = ["mcp.calls.json", "mcp.lock.json", "mcp.expect.json", "mcp.answers.json"];
    let fits = move |path: &Path| {
        let json = path
            .extension()
            .is_some_and(|end| ["json", "jsonc", "json5"].iter().any(|e| end == *e));
        path.is_dir() || (json && !ours.iter().any(|name| path.ends_with(name)))
    };
    PathCompleter::any().filter(fits).complete(current)
}

/// Programs, then files: the command of a server.
pub fn programs(current: &OsStr) -> Candidates {
    let first = LINE.with(|line| {
        let line = line.borrow();
        line.len() >= 2 && line.get(line.len() - 2).is_some_and(|before| before == "--")
    });
    let mut out = Vec::new();
    let typed = current.to_string_lossy();
    if first && !typed.is_empty() && !typed.contains('/') {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let files = std::env::split_paths(&path).filter_map(|dir| std::fs::read_dir(dir).ok());
        let names = files.flatten().flatten().filter_map(|f| f.file_name().into_string().ok());
        let names: BTreeSet<String> = names.filter(|name| name.starts_with(&*typed)).collect();
        out.extend(those(current, names.into_iter().map(|name| word(name, ""))));
    }
    out.extend(PathCompleter::any().complete(current));
    out
}
