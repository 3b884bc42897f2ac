//! Completion in the shell: a script that asks this program, and the answer.
//!
//! Elvish and PowerShell have the scripts of `clap_complete`. Bash, zsh and fish have ours, because
//! those of `clap_complete` split a word at `:`, `=` and `@`, which URIs, `key=value` and saved calls
//! are made of. Reads files, starts no server.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};
use clap_complete::env::{Elvish, EnvCompleter, Powershell};

use crate::cli::args::Cli;
use crate::cli::exit::Exit;
use crate::cli::output;

mod line;
pub mod names;

/// The variable that names the shell that asks.
const ASKED: &str = "MCPDECK_COMPLETE";
/// What bash has of the line up to the cursor, and the characters that end a word for it.
const LINE: &str = "_MCPDECK_LINE";
const BREAKS: &str = "_MCPDECK_BREAKS";

/// Completes one argument.
type Completer = fn(&OsStr) -> Vec<CompletionCandidate>;

/// How the values of arguments go on: the command (none: before any), the argument, its words.
const VALUES: &[(&str, &str, Completer)] = &[
    ("", "url", names::configurations),
    ("", "config", names::configurations),
    ("", "command", names::programs),
    ("", "theme", names::themes),
    ("", "format", names::formats),
    ("", "server", names::servers),
    ("", "fail_on", names::severities),
    ("", "allow", names::rules),
    ("list", "servers", names::servers),
    ("login", "server", names::servers),
    ("logout", "server", names::servers),
    ("list", "command", names::programs),
    ("replay", "against", names::servers),
    ("status", "servers", names::servers),
    ("status", "command", names::programs),
    ("call", "name", names::calls),
    ("call", "arguments", names::tool_arguments),
    ("call", "command", names::programs),
    ("load", "name", names::calls),
    ("load", "arguments", names::tool_arguments),
    ("load", "command", names::programs),
    ("read", "uri", names::resources),
    ("read", "server", names::servers),
    ("read", "command", names::programs),
    ("prompt", "name", names::prompts),
    ("prompt", "arguments", names::prompt_arguments),
    ("prompt", "command", names::programs),
    ("explain", "rule", names::rules),
    ("help", "topic", names::topics),
    ("trust approve", "servers", names::servers),
    ("trust revoke", "servers", names::servers),
];

/// The arguments with their completers.
fn command() -> Command {
    fn within(command: Command, path: &str, of: (&'static str, Completer)) -> Command {
        let Some((verb, rest)) =
            path.split_once(' ').or(Some((path, ""))).filter(|p| !p.0.is_empty())
        else {
            return command.mut_arg(of.0, |arg| arg.add(ArgValueCompleter::new(of.1)));
        };
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
    let words = line::words_of_process();
    let text = match shell.as_str() {
        "bash" => bash(),
        "zsh" => for_zsh(&candidates(words)),
        "fish" => for_fish(&candidates(words)),
        "elvish" => of_clap(&Elvish, words),
        "powershell" => of_clap(&Powershell, words),
        other => return Some(output::refuse(&format!("{ASKED}: there is no shell `{other}`"))),
    };
    Some(output::print(&text, Exit::Ok))
}

fn bash() -> String {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let line = line::Line::split(&variable(LINE), &variable(BREAKS));
    let cut = line.broken;
    for_bash(&candidates(line.words), &cut)
}

/// How the last word goes on. What cannot be parsed goes on in no way.
fn candidates(words: Vec<OsString>) -> Vec<CompletionCandidate> {
    let Some(last) = words.len().checked_sub(1) else { return Vec::new() };
    names::LINE.with(|line| line.replace(line::strings(&words)));
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
    names::LINE.with(|line| line.replace(line::strings(&words)));
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
    lines(
        all,
        |value, help| {
            if help.is_empty() { value.to_owned() } else { format!("{value}\t{help}") }
        },
    )
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
