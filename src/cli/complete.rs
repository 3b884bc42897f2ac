//! Shell completion: the scripts that call this program, and its answers.
//!
//! Most shells use the scripts of `clap_complete`. Bash and zsh have their own: `clap_complete`
//! splits a bash word at `:`, `=` and `@`, which URIs, `key=value` and saved calls contain, and
//! ends every zsh word with a space, even `key=`. Reads files, starts no server.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete,
};
use clap_complete::env::{Elvish, Fish, Powershell, Shells};

use super::args::{Cli, Common};
use super::docs::TOPICS;
use super::output::ExitStatus;
use super::{load, operate, output, values};
use ::check::rule;
use ::deck::{KeptDefinitions, SavedTarget};
use base::SafeText;
use config::{Environment, ImportHost, Loaded, ServerConfig};
use protocol::{Capabilities, ListKind};
use schema::SchemaDocument;

/// How long the names of a server are offered after its lists were last read.
const MAX_NAMES_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Maximum number of values offered for a parameter.
const MAX_CHOICES: usize = 40;

/// The shells whose scripts are those of `clap_complete`.
const OF_CLAP: Shells<'static> = Shells(&[&Elvish, &Fish, &Powershell]);

/// The variable with the name of the requesting shell.
const ASKED: &str = "MCPDECK_COMPLETE";
/// The variables of bash with the line up to the cursor, and with the characters that end a word.
const LINE: &str = "_MCPDECK_LINE";
const BREAKS: &str = "_MCPDECK_BREAKS";

/// Returns the candidates for an argument that begins with this text.
type Completer = fn(&CompletionContext<'_>, &str) -> Candidates;

/// Completers of argument values: the command (empty: before any), the argument, the completer.
const VALUES: &[(&str, &str, Completer)] = &[
    ("", "format", formats),
    ("", "server", servers),
    ("", "allow", rules),
    ("connect", "clients", clients),
    ("disconnect", "clients", clients),
    ("list", "servers", servers),
    ("login", "server", servers),
    ("logout", "server", servers),
    ("replay", "against", servers),
    ("status", "servers", servers),
    ("call", "name", calls),
    ("call", "arguments", tool_arguments),
    #[cfg(feature = "apps")]
    ("app", "name", calls),
    #[cfg(feature = "apps")]
    ("app", "arguments", tool_arguments),
    ("load", "name", calls),
    ("load", "arguments", tool_arguments),
    ("read", "uri", resources),
    ("read", "server", servers),
    ("prompt", "name", prompts),
    ("prompt", "arguments", prompt_arguments),
    ("explain", "rule", rules),
    ("help", "topic", topics),
    ("remove", "servers", servers),
    ("trust approve", "servers", servers),
    ("trust revoke", "servers", servers),
    ("upgrade", "servers", servers),
];

/// The command line with completers for these words, the last of which is being completed.
/// Options are offered only for a word that begins with a dash.
fn command(words: &[String]) -> Command {
    fn within(command: Command, path: &str, name: &str, values: ArgValueCompleter) -> Command {
        if path.is_empty() {
            // Not `mut_arg`, which moves the argument behind the others.
            return command
                .mut_args(|arg| if arg.get_id() == name { arg.add(values.clone()) } else { arg });
        }
        let (verb, rest) = path.split_once(' ').unwrap_or((path, ""));
        command.mut_subcommand(verb, |verb| within(verb, rest, name, values))
    }
    fn without_options(command: Command) -> Command {
        let hidden = |arg: clap::Arg| if arg.is_positional() { arg } else { arg.hide(true) };
        command.mut_args(hidden).mut_subcommands(without_options)
    }
    let (last, typed) =
        words.split_last().map_or(("", words), |(last, typed)| (last.as_str(), typed));
    let mut command = Cli::command();
    for (path, name, values) in VALUES {
        let typed = typed.to_vec();
        let completer = move |current: &OsStr| {
            values(&CompletionContext::look(&typed), &current.to_string_lossy())
        };
        command = within(command, path, name, ArgValueCompleter::new(completer));
    }
    if last.starts_with('-') {
        return command;
    }
    command.build();
    without_options(command)
}

/// The script of a shell.
pub fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => return BASH.to_owned(),
        Shell::Zsh => return ZSH.to_owned(),
        _ => {}
    }
    let mut out = Vec::new();
    if let Some(shell) = OF_CLAP.completer(&shell.to_string()) {
        // Writing into memory does not fail.
        let _ = shell.write_registration(ASKED, "mcpdeck", "mcpdeck", "mcpdeck", &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Answers a shell that asks for completions of a line; a line that cannot be parsed has none.
pub fn answer() -> Option<ExitStatus> {
    let shell = std::env::var(ASKED).ok().filter(|shell| !shell.is_empty())?;
    // The words after `--`; the last one is being completed.
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    // A word that is not UTF-8 matches no known name.
    let mut words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut broken = String::new();
    if shell == "bash" {
        let variable = |name| std::env::var(name).unwrap_or_default();
        (words, broken) = split(&variable(LINE), &variable(BREAKS));
    }
    if words.is_empty() {
        words.push(String::new());
    }
    let (here, last) = (std::env::current_dir().ok(), words.len() - 1);
    let mut command = command(&words);
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let mut candidates = |words| complete(&mut command, words, last, here.as_deref());
    let text = match shell.as_str() {
        "bash" => for_bash(&candidates(words).unwrap_or_default(), &broken),
        "zsh" => for_zsh(&candidates(words).unwrap_or_default()),
        other => {
            let Some(shell) = OF_CLAP.completer(other) else {
                return Some(output::refuse(&format!("{ASKED}: there is no shell `{other}`")));
            };
            let mut out = Vec::new();
            let _ = shell.write_complete(&mut command, words, here.as_deref(), &mut out);
            String::from_utf8_lossy(&out).into_owned()
        }
    };
    Some(output::print(&text, ExitStatus::Ok))
}

// The scripts of bash and zsh, and how each wants its answer. Pure.

/// One candidate per line. A single one that ends with `=`, `/` or `.` gets no space after it.
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

/// Lines begin with `=` when more has to follow, with `/` for a folder, else with a space; then
/// `word:description`, as `_describe` expects it.
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

/// Words for bash: quoted, and without the prefix that it treats as separate words.
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

// The line that is being typed: its words up to the cursor, and which configuration it names. Pure.

/// Splits a line up to the cursor as a POSIX shell does; the last word may be incomplete. Returns
/// the unquoted words, and the prefix of the last one that bash treats as separate words (`file:`)
/// and that candidates must omit; `breaks` is `COMP_WORDBREAKS`.
pub fn split(text: &str, breaks: &str) -> (Vec<String>, String) {
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
                    // These two also begin the next word.
                    broken = if matches!(c, '@' | '$') { start } else { word.len() };
                }
            }
        }
        any = true;
    }
    let broken = word.get(..broken).unwrap_or_default().to_owned();
    words.push(word);
    (words, broken)
}

/// The configuration a line names, and the tool or prompt.
pub fn read(words: &[String]) -> (Common, Option<String>) {
    let lenient = Cli::command().ignore_errors(true);
    let Ok(line) = lenient.try_get_matches_from(words) else { return (Common::default(), None) };
    let files = |id| line.get_many::<PathBuf>(id).into_iter().flatten().cloned().collect();
    let common =
        Common { config: files("config"), env_file: files("env_file"), ..Common::default() };
    let name = line.subcommand().and_then(|(_, verb)| verb.try_get_one::<String>("name").ok()?);
    (common, name.cloned())
}

// The words only this program knows: servers, tools, prompts, resources, saved calls, rules. Starts
// no server: the lists of each are the remembered ones.

type Candidates = Vec<CompletionCandidate>;

/// A candidate and its description.
fn word(value: impl Into<String>, says: &str) -> CompletionCandidate {
    let says = SafeText::line(says);
    let help = (!says.is_empty()).then(|| says.as_str().to_owned().into());
    CompletionCandidate::new(value.into()).help(help)
}

/// The candidates that begin with `current` and contain nothing to escape.
fn those(current: &str, all: impl IntoIterator<Item = CompletionCandidate>) -> Candidates {
    let fits = |candidate: &CompletionCandidate| {
        let value = candidate.get_value().to_string_lossy();
        value.starts_with(current) && SafeText::line(&value).as_str() == value
    };
    all.into_iter().filter(fits).collect()
}

/// The words before the one to complete, the configuration they name, and its servers' known lists.
struct CompletionContext<'a> {
    words: &'a [String],
    common: Common,
    /// The tool or prompt that is named.
    name: Option<String>,
    loaded: Loaded,
    kept: KeptDefinitions,
}

impl<'a> CompletionContext<'a> {
    fn look(words: &'a [String]) -> Self {
        let (common, name) = read(words);
        let env = load::environment(&common);
        let loaded = env.and_then(|env| load::load_files(&load::files(&common, &env), &env));
        let kept = KeptDefinitions::from_env(&Environment::of_process());
        // Errors in a file are reported when the completed command runs.
        Self { words, common, name, loaded: loaded.unwrap_or_default(), kept }
    }

    /// Enabled servers, with their remembered lists when there are any.
    fn servers(&self) -> impl Iterator<Item = (&ServerConfig, Option<Capabilities>)> {
        let enabled = self.loaded.config.servers.values().filter(|server| !server.disabled);
        enabled.map(|server| {
            let known = self.kept.lists(server).filter(|(_, age)| *age < MAX_NAMES_AGE);
            (server, known.map(|(lists, _)| lists))
        })
    }

    /// The entries of one list as `server.name`; as bare names when only those match.
    fn owned(&self, current: &str, kind: ListKind) -> Candidates {
        let (mut full, mut bare) = (Vec::new(), Vec::new());
        for (server, lists) in self.servers() {
            let owner = server.name.as_str();
            let Some(lists) = lists else {
                full.push(word(format!("{owner}."), "`mcpdeck list` reads its lists"));
                continue;
            };
            for (name, raw) in lists.entries(kind) {
                let says = values::first_line(raw["description"].as_str().unwrap_or_default());
                full.push(word(format!("{owner}.{name}"), &says));
                bare.push(word(&**name, &format!("{owner}: {says}")));
            }
        }
        let full = those(current, full);
        if full.is_empty() { those(current, bare) } else { full }
    }

    /// The parameters of the tool or prompt named on the line.
    fn parameters(&self, typed: &str, kind: ListKind) -> Candidates {
        let given: BTreeSet<&str> =
            self.words.iter().filter_map(|word| Some(word.split_once('=')?.0)).collect();
        let Some(name) = &self.name else { return Vec::new() };
        let name = self.target(name);
        let schema = self.servers().find_map(|(server, lists)| {
            let own = name.strip_prefix(server.name.as_str());
            let own = own.and_then(|rest| rest.strip_prefix(['.', ':', '/']));
            let is_it = |known: &str| Some(known) == own || known == name;
            let lists = lists?;
            if kind == ListKind::Prompts {
                return lists
                    .prompts
                    .iter()
                    .find(|p| is_it(&p.name))
                    .map(|p| values::prompt_schema(p));
            }
            lists.tools.iter().find(|t| is_it(&t.name)).map(|t| {
                SchemaDocument::written(&t.input_schema, &t.raw.numbers.below("/inputSchema"))
            })
        });
        let mut out = Vec::new();
        for parameter in values::sorted_parameters(&schema.unwrap_or_default()) {
            let key = format!("{}=", parameter.name);
            if typed.starts_with(&key) {
                let choices = parameter.choices().into_iter().take(MAX_CHOICES);
                out.extend(choices.map(|value| word(format!("{key}{value}"), "")));
            } else if !given.contains(parameter.name.as_str()) {
                let needed = if parameter.required { "needed: " } else { "" };
                out.push(word(
                    key,
                    &format!("{needed}{}", values::first_line(parameter.description())),
                ));
            }
        }
        those(typed, out)
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
fn servers(here: &CompletionContext<'_>, current: &str) -> Candidates {
    let all = here.loaded.config.servers.values().map(|server| {
        let at = if server.disabled { "disabled".to_owned() } else { server.at.to_string() };
        (&server.name, at)
    });
    let left_out = here.loaded.left_out.iter().map(|name| (name, "cannot be used".to_owned()));
    let open =
        all.chain(left_out).filter(|(name, _)| !here.words.iter().any(|w| w == name.as_str()));
    those(current, open.map(|(name, says)| word(name.as_str(), &says)))
}

/// Tools, and the saved calls.
fn calls(here: &CompletionContext<'_>, current: &str) -> Candidates {
    let saved = operate::saved_calls(&here.common).calls.into_iter().map(|(name, call)| {
        let target = match call.target {
            SavedTarget::Tool { tool } => tool,
            SavedTarget::Prompt { prompt } => prompt,
            SavedTarget::Resource { resource, .. } => resource,
        };
        word(format!("@{name}"), &target)
    });
    let mut out = those(current, saved);
    if !current.starts_with('@') {
        out.extend(here.owned(current, ListKind::Tools));
    }
    out
}

/// Prompts.
fn prompts(here: &CompletionContext<'_>, current: &str) -> Candidates {
    here.owned(current, ListKind::Prompts)
}

/// Parameters of the tool on the line; a file after `@`.
fn tool_arguments(here: &CompletionContext<'_>, current: &str) -> Candidates {
    arguments(here, current, ListKind::Tools)
}

/// Parameters of the prompt on the line; a file after `@`.
fn prompt_arguments(here: &CompletionContext<'_>, current: &str) -> Candidates {
    arguments(here, current, ListKind::Prompts)
}

fn arguments(here: &CompletionContext<'_>, current: &str, kind: ListKind) -> Candidates {
    if let Some(path) = current.strip_prefix('@') {
        return files_after("@", path, &PathCompleter::file());
    }
    let parameters = here.parameters(current, kind);
    match current.split_once('=') {
        // A value without suggestions may be a path.
        Some((key, value)) if parameters.is_empty() => {
            files_after(&format!("{key}="), value, &PathCompleter::any())
        }
        _ => parameters,
    }
}

/// Files that match the text after a prefix.
fn files_after(prefix: &str, typed: &str, files: &PathCompleter) -> Candidates {
    let files = files.complete(OsStr::new(typed));
    files.into_iter().map(|file| file.add_prefix(prefix)).collect()
}

/// Resources; of a template, the part before its first variable.
fn resources(here: &CompletionContext<'_>, current: &str) -> Candidates {
    let mut all = Vec::new();
    for lists in here.servers().filter_map(|(_, lists)| lists) {
        all.extend(lists.resources.iter().map(|known| word(&*known.uri, &known.name)));
        all.extend(lists.templates.iter().filter_map(|known| {
            let start = known.uri.split('{').next().filter(|start| !start.is_empty())?;
            Some(word(start, &known.uri))
        }));
    }
    those(current, all)
}

/// Rules of the check.
fn rules(_: &CompletionContext<'_>, current: &str) -> Candidates {
    those(current, rule::all().map(|rule| word(rule.id, rule.summary)))
}

/// Topics of the help, and the commands.
fn topics(_: &CompletionContext<'_>, current: &str) -> Candidates {
    let topics = TOPICS.iter().map(|topic| word(topic.name, topic.about));
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs = verbs.map(|verb| {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        word(verb.get_name(), &about)
    });
    those(current, topics.chain([word("keys", "every key of the dashboard")]).chain(verbs))
}

/// Clients that can be connected.
fn clients(here: &CompletionContext<'_>, current: &str) -> Candidates {
    let slugs = ImportHost::ALL.iter().map(|host| (host.slug(), host.name()));
    let open = slugs.filter(|(slug, _)| !here.words.contains(slug));
    those(current, open.map(|(slug, name)| word(slug, name)))
}

/// Formats of the report; a file after `=`.
fn formats(_: &CompletionContext<'_>, current: &str) -> Candidates {
    if let Some((format, file)) = current.split_once('=') {
        return files_after(&format!("{format}="), file, &PathCompleter::any());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_completer_has_its_argument() {
        let whole = command(&[String::from("-")]);
        for (path, name, _) in VALUES {
            let verbs = path.split_whitespace();
            let found = verbs.fold(&whole, |on, verb| on.find_subcommand(verb).expect("a command"));
            assert!(found.get_arguments().any(|arg| arg.get_id() == name), "{path} {name}");
        }
        whole.debug_assert();
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
    }
}

#[cfg(test)]
mod line_tests {
    use super::*;

    const BREAKS: &str = " \t\n\"'@><=;|&(:";

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
            let (split, cut) = split(text, BREAKS);
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
            let words = split(line, BREAKS).0;
            let (common, name) = read(&words);
            assert_eq!(common.config, [PathBuf::from("a.json")], "{line}");
            assert_eq!(name.as_deref(), Some("x"), "{line}");
        }
    }
}
