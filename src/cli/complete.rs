//! Completion in the shell: a script that asks this program, and the answer.
//!
//! Elvish and PowerShell have the scripts of `clap_complete`. Bash, zsh and fish have ours, because
//! those of `clap_complete` split a word at `:`, `=` and `@`, which URIs, `key=value` and saved calls
//! are made of. Reads files, starts no server.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete,
};
use clap_complete::env::{Elvish, EnvCompleter, Powershell};

use super::args::{Cli, Common};
use super::docs::TOPICS;
use super::known::{Known, Offer, Offers};
use super::output::Exit;
use super::{load, operate, output};
use crate::base::SafeText;
use crate::check::rule;
use crate::config::{Environment, Loaded, ServerConfig};
use crate::deck::SavedTarget;

/// The variable that names the shell that asks.
const ASKED: &str = "MCPDECK_COMPLETE";
/// What bash has of the line up to the cursor, and the characters that end a word for it.
const LINE: &str = "_MCPDECK_LINE";
const BREAKS: &str = "_MCPDECK_BREAKS";

/// Completes one argument.
type Completer = fn(&OsStr) -> Vec<CompletionCandidate>;

/// How the values of arguments go on: the command (none: before any), the argument, its words.
const VALUES: &[(&str, &str, Completer)] = &[
    ("", "url", configurations),
    ("", "config", configurations),
    ("", "command", programs),
    ("", "theme", themes),
    ("", "format", formats),
    ("", "server", servers),
    ("", "fail_on", severities),
    ("", "allow", rules),
    ("list", "servers", servers),
    ("login", "server", servers),
    ("logout", "server", servers),
    ("list", "command", programs),
    ("replay", "against", servers),
    ("status", "servers", servers),
    ("status", "command", programs),
    ("call", "name", calls),
    ("call", "arguments", tool_arguments),
    ("call", "command", programs),
    ("load", "name", calls),
    ("load", "arguments", tool_arguments),
    ("load", "command", programs),
    ("read", "uri", resources),
    ("read", "server", servers),
    ("read", "command", programs),
    ("prompt", "name", prompts),
    ("prompt", "arguments", prompt_arguments),
    ("prompt", "command", programs),
    ("explain", "rule", rules),
    ("help", "topic", topics),
    ("trust approve", "servers", servers),
    ("trust revoke", "servers", servers),
];

/// The arguments with their completers.
fn command() -> Command {
    fn within(command: Command, path: &str, of: (&'static str, Completer)) -> Command {
        if path.is_empty() {
            return command.mut_arg(of.0, |arg| arg.add(ArgValueCompleter::new(of.1)));
        }
        let (verb, rest) = path.split_once(' ').unwrap_or((path, ""));
        command.mut_subcommand(verb, |verb| within(verb, rest, of))
    }
    VALUES
        .iter()
        .fold(Cli::command(), |whole, (path, arg, words)| within(whole, path, (arg, *words)))
}

/// The script of a shell.
pub fn script(shell: Shell) -> String {
    let of_clap = |completer: &dyn EnvCompleter| {
        let mut out = Vec::new();
        // Writing into memory does not fail.
        let _ = completer.write_registration(ASKED, "mcpdeck", "mcpdeck", "mcpdeck", &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    match shell {
        Shell::Bash => BASH.to_owned(),
        Shell::Zsh => ZSH.to_owned(),
        Shell::Fish => FISH.to_owned(),
        Shell::Elvish => of_clap(&Elvish),
        _ => of_clap(&Powershell),
    }
}

/// Answers a shell that asks how the line goes on.
pub fn answer() -> Option<Exit> {
    let shell = std::env::var(ASKED).ok().filter(|shell| !shell.is_empty())?;
    // What stands after the two dashes; the last is the word that goes on.
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let text = match shell.as_str() {
        "bash" => {
            let variable = |name| std::env::var(name).unwrap_or_default();
            let Line { words, broken } = Line::split(&variable(LINE), &variable(BREAKS));
            for_bash(&candidates(words), &broken)
        }
        "zsh" => for_zsh(&candidates(words)),
        "fish" => for_fish(&candidates(words)),
        "elvish" => of_clap(&Elvish, words),
        "powershell" => of_clap(&Powershell, words),
        other => return Some(output::refuse(&format!("{ASKED}: there is no shell `{other}`"))),
    };
    Some(output::print(&text, Exit::Ok))
}

/// How the last word goes on. What cannot be parsed goes on in no way.
fn candidates(words: Vec<OsString>) -> Vec<CompletionCandidate> {
    let Some(last) = words.len().checked_sub(1) else { return Vec::new() };
    TYPED.with(|line| line.replace(strings(&words)));
    let here = std::env::current_dir().ok();
    let empty = words.last().is_some_and(|word| word.is_empty());
    let all = complete(&mut command(), words, last, here.as_deref()).unwrap_or_default();
    let is_option =
        |word: &CompletionCandidate| word.get_value().as_encoded_bytes().starts_with(b"-");
    if empty && all.iter().any(|word| !is_option(word)) {
        // Whoever wants an option types its dash.
        return all.into_iter().filter(|word| !is_option(word)).collect();
    }
    all
}

fn of_clap(completer: &dyn EnvCompleter, mut words: Vec<OsString>) -> String {
    TYPED.with(|line| line.replace(strings(&words)));
    let here = std::env::current_dir().ok();
    let mut out = Vec::new();
    if words.is_empty() {
        words.push(OsString::new());
    }
    let asked =
        completer.write_complete(&mut command(), words, here.as_deref().map(Path::new), &mut out);
    // What cannot be parsed goes on in no way.
    asked.map_or_else(|_| String::new(), |()| String::from_utf8_lossy(&out).into_owned())
}

// The scripts of bash, zsh and fish, and how each wants its answer. Pure.

/// One candidate a line. What is one of several is not followed by a space when more has to come.
pub const BASH: &str = r#"_mcpdeck() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(MCPDECK_COMPLETE=bash _MCPDECK_LINE="${COMP_LINE:0:COMP_POINT}" \
        _MCPDECK_BREAKS="$COMP_WORDBREAKS" mcpdeck 2>/dev/null)
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/.] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -o nosort -F _mcpdeck mcpdeck 2>/dev/null ||
    complete -o bashdefault -o default -F _mcpdeck mcpdeck
"#;

/// Lines begin with `=` when more has to come, with `/` for a folder, else with a space; then
/// `word:what it is`, as `_describe` wants it.
pub const ZSH: &str = r#"#compdef mcpdeck
_mcpdeck() {
    local -a all done open folders
    local line
    all=("${(@f)$(MCPDECK_COMPLETE=zsh mcpdeck -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in $all; do
        case $line in
            '='*) open+=("${line#?}") ;;
            '/'*) folders+=("${line#?}") ;;
            *) done+=("${line#?}") ;;
        esac
    done
    local -i some=1
    (( $#done )) && _describe -V mcpdeck done && some=0
    (( $#open )) && _describe -V mcpdeck-open open -S '' && some=0
    (( $#folders )) && _describe -V mcpdeck-folders folders -S '/' -r '/' && some=0
    (( some )) && _default
}
if [[ $funcstack[1] == _mcpdeck ]]; then
    _mcpdeck "$@"
else
    compdef _mcpdeck mcpdeck
fi
"#;

/// `word`, a tab, what it is.
pub const FISH: &str = r"function __mcpdeck_complete
    set -l all (MCPDECK_COMPLETE=fish mcpdeck -- (commandline -opc) (commandline -ct) 2>/dev/null)
    if set -q all[1]
        printf '%s\n' $all
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c mcpdeck -e
complete -c mcpdeck -k -f -a '(__mcpdeck_complete)'
";

fn lines(all: &[CompletionCandidate], line: impl Fn(&str, &str) -> String) -> String {
    let mut out = String::new();
    for candidate in all {
        let value = candidate.get_value().to_string_lossy();
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        if !value.contains(['\n', '\r', '\t']) {
            out.push_str(&line(&value, help));
            out.push('\n');
        }
    }
    out
}

/// Words for bash: quoted, and without the part it takes for words of their own.
pub fn for_bash(all: &[CompletionCandidate], broken: &str) -> String {
    lines(all, |value, _| {
        let rest = value.strip_prefix(broken).unwrap_or(value);
        let mut out = String::with_capacity(rest.len());
        for c in rest.chars() {
            if !(c.is_alphanumeric() || "._-/:=@,+%~".contains(c)) {
                out.push('\\');
            }
            out.push(c);
        }
        out
    })
}

/// Words for zsh, which quotes them itself.
pub fn for_zsh(all: &[CompletionCandidate]) -> String {
    lines(all, |value, help| {
        let (kind, value) = match value.strip_suffix('/') {
            Some(folder) if !value.contains("://") => ('/', folder),
            _ if value.ends_with(['=', '.', '/']) => ('=', value),
            _ => (' ', value),
        };
        let word = value.replace('\\', "\\\\").replace(':', "\\:");
        if help.is_empty() { format!("{kind}{word}") } else { format!("{kind}{word}:{help}") }
    })
}

/// Words for fish, which quotes them itself.
pub fn for_fish(all: &[CompletionCandidate]) -> String {
    let line = |value: &str, help: &str| match help {
        "" => value.to_owned(),
        help => format!("{value}\t{help}"),
    };
    lines(all, line)
}

// The line that is being typed: its words up to the cursor, and which configuration it names. Pure,
// but for the words of this process.

/// The words as text; what is none cannot name anything we know.
pub fn strings(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// A line as bash has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its words without their quotes.
    pub words: Vec<OsString>,
    /// The part of the last word that bash takes for words of their own (`file:`), and does not want
    /// again.
    pub broken: String,
}

impl Line {
    /// Splits a line as a POSIX shell does, up to the cursor, in the middle of whose last word it
    /// may end. `breaks` is `COMP_WORDBREAKS`.
    pub fn split(text: &str, breaks: &str) -> Self {
        let mut words: Vec<String> = Vec::new();
        let mut word = String::new();
        let (mut quote, mut any, mut broken) = (None, false, 0);
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match (quote, c) {
                (None, ' ' | '\t' | '\n') => {
                    if any {
                        words.push(std::mem::take(&mut word));
                    }
                    (any, broken) = (false, 0);
                    continue;
                }
                (None, '\'' | '"') => quote = Some(c),
                (Some(open), _) if open == c => quote = None,
                (None | Some('"'), '\\') => word.extend(rest.next()),
                _ => {
                    let start = word.len();
                    word.push(c);
                    if quote.is_none() && breaks.contains(c) {
                        // These two end a word and begin the next.
                        broken = if matches!(c, '@' | '$') { start } else { word.len() };
                    }
                }
            }
            any = true;
        }
        let broken = word.get(..broken).unwrap_or_default().to_owned();
        words.push(word);
        Self { words: words.into_iter().map(OsString::from).collect(), broken }
    }
}

/// Whether the value of an option is a word of its own, of the whole command or of a verb.
fn takes_value(option: &str, whole: &Command, verb: Option<&&str>) -> bool {
    let is_it = |arg: &clap::Arg| match option.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg
            .get_short()
            .is_some_and(|short| option.strip_prefix('-') == Some(&short.to_string())),
    };
    // A command that was not built yet does not know how many values its flags have.
    let takes = |command: &Command| {
        let own_word =
            |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
        command.get_arguments().any(|arg| is_it(arg) && own_word(arg))
    };
    takes(whole) || verb.and_then(|verb| whole.find_subcommand(verb)).is_some_and(takes)
}

/// The configuration a line names, and the words that are neither options nor their values.
pub fn read(words: &[String]) -> (Common, Vec<&str>) {
    let (whole, mut common, mut plain) = (Cli::command(), Common::default(), Vec::new());
    let mut rest = words.iter().skip(1).map(String::as_str);
    while let Some(word) = rest.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (word, None),
        };
        if word == "--" {
            break;
        }
        if !word.starts_with('-') {
            plain.push(word);
            continue;
        }
        let value = value
            .or_else(|| takes_value(name, &whole, plain.first()).then(|| rest.next()).flatten());
        match (name, value) {
            ("-c" | "--config", Some(file)) => common.config.push(PathBuf::from(file)),
            ("--env-file", Some(file)) => common.env_file.push(PathBuf::from(file)),
            _ => {}
        }
    }
    (common, plain)
}

// The words only this program knows: servers, tools, prompts, resources, saved calls, rules. Starts
// no server: what they offer is what is remembered of them.

type Candidates = Vec<CompletionCandidate>;

thread_local! {
    /// The words of the line; the last is the one that goes on.
    static TYPED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
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
        let words = TYPED.with(|line| line.borrow().clone());
        let typed = words.split_last().map(|(_, typed)| typed).unwrap_or_default();
        let (common, plain) = read(typed);
        let plain = plain.into_iter().map(str::to_owned).collect();
        let env = load::environment(&common);
        let loaded = env.and_then(|env| load::load_files(&load::files(&common, &env), &env));
        let known = Known::of(&Environment::of_process());
        // The command that is being completed reports what is wrong with a file.
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
        match operate::saved_calls(&self.common).get(name).map(|call| &call.target) {
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
    let saved = operate::saved_calls(&here.common).calls.into_iter().map(|(name, call)| {
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
        // A value without suggestions may be a path.
        Some((key, value)) if parameters.is_empty() => files_after(key, value),
        _ => parameters,
    }
}

/// Files that go on from what is typed after `key=`.
fn files_after(key: &str, typed: &str) -> Candidates {
    let files = PathCompleter::any().complete(OsStr::new(typed));
    files.into_iter().map(|file| file.add_prefix(format!("{key}="))).collect()
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
    if let Some((format, file)) = current.to_string_lossy().split_once('=') {
        return files_after(format, file);
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
    let first = TYPED.with(|line| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_completer_has_its_argument() {
        command().debug_assert();
    }

    #[test]
    fn every_shell_has_a_script_that_asks_the_program() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            assert!(script(shell).contains(ASKED), "{shell}");
        }
        for variable in [LINE, BREAKS] {
            assert!(script(Shell::Bash).contains(variable));
        }
    }
}

#[cfg(test)]
mod shells_tests {
    use super::*;

    #[test]
    fn zsh_reads_no_pattern_of_the_script_as_the_path_of_a_command() {
        let bare = |line: &str| line.trim_start().starts_with('=');
        assert!(!ZSH.lines().any(bare), "with EQUALS, which is on, =* is looked for in PATH");
    }

    #[test]
    fn each_shell_gets_its_words_in_its_own_way() {
        let word = |value: &str| CompletionCandidate::new(value.to_owned());
        let all = [
            word("@find ada").help(Some("memory.search".into())),
            word("file://a/"),
            word("key="),
            word("src/"),
            word("two\nlines"),
        ];
        assert_eq!(for_bash(&all, "@"), "find\\ ada\nfile://a/\nkey=\nsrc/\n");
        assert_eq!(for_bash(&all[1..2], "file:"), "//a/\n");
        assert_eq!(for_zsh(&all), " @find ada:memory.search\n=file\\://a/\n=key=\n/src\n");
        assert_eq!(for_fish(&all), "@find ada\tmemory.search\nfile://a/\nkey=\nsrc/\n");
    }
}

#[cfg(test)]
mod line_tests {
    use super::*;

    const BREAKS: &str = " \t\n\"'@><=;|&(:";

    fn split(text: &str) -> (Vec<String>, String) {
        let line = Line::split(text, BREAKS);
        (strings(&line.words), line.broken)
    }

    #[test]
    fn a_line_is_split_as_the_shell_does_and_may_end_anywhere() {
        for (text, words, broken) in [
            ("mcpdeck ", &["mcpdeck", ""][..], ""),
            ("mcpdeck  call @os", &["mcpdeck", "call", "@os"], ""),
            ("mcpdeck call @a\\ b", &["mcpdeck", "call", "@a b"], ""),
            ("mcpdeck call x a=@b", &["mcpdeck", "call", "x", "a=@b"], "a="),
            ("mcpdeck call 'a @b", &["mcpdeck", "call", "a @b"], ""),
            ("mcpdeck call x key=va", &["mcpdeck", "call", "x", "key=va"], "key="),
            ("mcpdeck read file:///a", &["mcpdeck", "read", "file:///a"], "file:"),
            ("mcpdeck call \"a\\\"b\" ''", &["mcpdeck", "call", "a\"b", ""], ""),
            ("", &[""], ""),
        ] {
            let (split, cut) = split(text);
            assert_eq!((split.as_slice(), cut.as_str()), (&words.map_to()[..], broken), "{text}");
        }
    }

    trait Owned {
        fn map_to(&self) -> Vec<String>;
    }
    impl Owned for &[&str] {
        fn map_to(&self) -> Vec<String> {
            self.iter().map(|word| (*word).to_owned()).collect()
        }
    }

    #[test]
    fn the_configuration_is_found_wherever_it_is_named() {
        for line in [
            "mcpdeck call -c a.json x k=v",
            "mcpdeck --config=a.json call x k=v",
            "mcpdeck call --timeout 3 x --config a.json k=v --json -- node b.js",
        ] {
            let words = split(line).0;
            let (common, plain) = read(&words);
            assert_eq!(common.config, [PathBuf::from("a.json")], "{line}");
            assert_eq!(plain, ["call", "x", "k=v"], "{line}");
        }
    }
}
