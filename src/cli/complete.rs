//! Completion in the shell: a script that asks this program, and the answer.
//!
//! Elvish and PowerShell have the scripts of `clap_complete`. Bash, zsh and fish have ours, because
//! those of `clap_complete` split a word at `:`, `=` and `@`, which URIs, `key=value` and saved calls
//! are made of. Reads files, starts no server.

mod line;
pub mod names;
mod shells;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};
use clap_complete::env::{Elvish, EnvCompleter, Powershell};

use super::args::Cli;
use super::exit::Exit;
use super::output;

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
        Shell::Bash => shells::BASH.to_owned(),
        Shell::Zsh => shells::ZSH.to_owned(),
        Shell::Fish => shells::FISH.to_owned(),
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
        "zsh" => shells::for_zsh(&candidates(words)),
        "fish" => shells::for_fish(&candidates(words)),
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
    shells::for_bash(&candidates(line.words), &cut)
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
