//! Answers a command line that cannot be read: what there is instead, and how it is written here.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};

use super::args::Cli;
use super::output::ExitStatus;
use super::{load, output, respell};
use base::text::{nearest, quoted};

/// Reports invalid arguments: with a suggestion where there is one, else with clap's message.
pub fn answer(mut error: clap::Error) -> ExitStatus {
    let args: Vec<String> = std::env::args_os().filter_map(|a| a.into_string().ok()).collect();
    if !args.iter().any(|word| word == "--")
        && let Some(message) = load::mistaken(args.iter().cloned())
    {
        return output::refuse(&message);
    }
    let given = GivenVerb::find(&args);
    if error.kind() == ErrorKind::UnknownArgument
        && error.get(ContextKind::SuggestedArg).is_none()
        && let Some(message) = respell::respelled(&args).or_else(|| given.unknown(&error, &args))
    {
        return output::refuse(&message);
    }
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(message) = given.no_such_verb(&error)
    {
        return output::refuse(&message);
    }
    // Words after `--` are a command to run here, so clap's tip to use `--` is misleading.
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(tip) = given.missing()
    {
        let tip = ContextValue::StyledStrs(vec![tip.to_owned().into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    let _ = error.print();
    ExitStatus::Usage
}

/// The verb of a command line, as far as there is one.
struct GivenVerb {
    /// Its words: `trust approve`; empty for the dashboard.
    path: String,
    command: Command,
}

/// Words of other programs for what a verb does here, each row with one meaning.
const SAME_VERBS: [&[&str]; 7] = [
    &["new", "create", "generate", "issue", "make"],
    &["add", "permit", "allow", "grant", "approve", "accept", "trust", "new", "create"],
    &["list", "ls", "show", "all", "get", "print", "view"],
    &["remove", "rm", "delete", "del", "unset", "revoke", "deny", "drop", "forget", "uninstall"],
    &["why", "explain", "decide", "check", "can", "eval"],
    &["verify", "check", "validate"],
    &["set", "put", "store", "save", "add", "write"],
];

/// An option of other programs, and how it is written here.
struct KnownOption {
    /// Its names, without dashes.
    names: &'static [&'static str],
    /// The verbs that it is for; all when empty.
    verbs: &'static [&'static str],
    /// The option that a verb must have for it; none when empty.
    needs: &'static str,
    /// What to write; `{}` is the name, `{value}` the value.
    here: &'static str,
}

const fn known(
    names: &'static [&'static str],
    verbs: &'static [&'static str],
    needs: &'static str,
    here: &'static str,
) -> KnownOption {
    KnownOption { names, verbs, needs, here }
}

const KNOWN_OPTIONS: [KnownOption; 16] = [
    known(&["tools", "prompts", "resources", "templates"], &[], "only", "write `--only {}`"),
    known(&["verbose", "v", "full", "details"], &["list"], "long", "write `--long`"),
    known(
        &["verbose", "v", "details"],
        &["status"],
        "",
        "`mcpdeck --check -v` shows every step of every server",
    ),
    known(
        &["watch", "w", "follow", "f"],
        &["list", "status"],
        "",
        "the dashboard, `mcpdeck`, goes on showing them",
    ),
    known(
        &["format", "output", "o", "j", "as-json", "output-format"],
        &[],
        "json",
        "write `--json`",
    ),
    known(&["out", "save", "to", "o", "file"], &[], "output", "write `--output {value}`"),
    known(
        &["port", "p"],
        &[],
        "listen",
        "write `--listen 127.0.0.1:{value}`; other machines need an address of this one",
    ),
    known(
        &["host", "bind", "addr", "address", "http", "interface"],
        &[],
        "listen",
        "write `--listen ADDRESS:PORT`, such as `--listen 127.0.0.1:7337`",
    ),
    known(
        &["server", "s", "name", "n"],
        &["list", "status", "login", "logout", "remove", "upgrade"],
        "",
        "name the server as a word: `mcpdeck {verb} {value}`",
    ),
    known(
        &["dry-run", "n", "preview"],
        &["import", "remove"],
        "",
        "without being told to write, it only shows what would change: leave it out",
    ),
    known(&["dry-run", "n", "preview"], &["upgrade", "sync"], "check", "write `--check`"),
    known(&["yes", "y", "force", "f", "no-input"], &["import"], "write", "write `--write`"),
    known(&["force", "f", "no-input", "assume-yes"], &[], "yes", "write `--yes`"),
    known(
        &["config-file", "conf", "cfg", "mcp-config", "configuration", "file", "f"],
        &[],
        "config",
        "write `--config {value}`",
    ),
    known(&["no-color", "no-colour", "plain"], &[], "color", "write `--color never`"),
    known(&["debug", "trace", "loglevel"], &[], "log-level", "write `--log-level debug`"),
];

impl GivenVerb {
    fn find(args: &[String]) -> Self {
        let mut command = Cli::command();
        command.build();
        let mut path: Vec<&str> = Vec::new();
        for word in args.iter().skip(1).take_while(|word| *word != "--") {
            if let Some(verb) = command.find_subcommand(word) {
                path.push(word);
                command = verb.clone();
            }
        }
        Self { path: path.join(" "), command }
    }

    fn options(&self) -> impl Iterator<Item = &Arg> {
        self.command.get_arguments().filter(|arg| !arg.is_hide_set())
    }

    fn has_option(&self, name: &str) -> bool {
        self.options().any(|arg| arg.get_long() == Some(name))
    }

    /// The message for a word or an option that the verb does not have.
    fn unknown(&self, error: &clap::Error, args: &[String]) -> Option<String> {
        let word = text_of(error, ContextKind::InvalidArg)?;
        let path = &self.path;
        if path.is_empty() {
            return None;
        }
        if !word.starts_with('-') {
            if load::is_file(&word) {
                let word = quoted(&word);
                return Some(format!(
                    "a file is named with --config: mcpdeck {path} --config {word}"
                ));
            }
            let usage = self.command.clone().render_usage().to_string();
            let usage = usage.split_once(": ").map_or("", |(_, usage)| usage);
            return Some(format!("`{word}` is one word too many for `{path}`\n  usage: {usage}"));
        }
        let option = word.trim_start_matches('-').split('=').next().unwrap_or_default();
        let at = args.iter().position(|arg| arg.split('=').next() == Some(word.as_str()))?;
        let inline = args[at].split_once('=').map(|(_, value)| value);
        let next = args.get(at + 1).map(String::as_str).filter(|next| !next.starts_with('-'));
        let value = inline.or(next).unwrap_or("VALUE");
        let is_meant = |known: &&KnownOption| {
            known.names.contains(&option)
                && (known.verbs.is_empty() || known.verbs.contains(&path.as_str()))
                && (known.needs.is_empty() || self.has_option(known.needs))
        };
        if let Some(known) = KNOWN_OPTIONS.iter().find(is_meant) {
            let here = known.here.replace("{}", option).replace("{verb}", path);
            let here = here.replace("{value}", &quoted(value));
            return Some(format!("`{path}` has no option `{word}`: {here}"));
        }
        let own = self.options().filter(|arg| !arg.is_global_set() && arg.get_id() != "help");
        let own: Vec<String> =
            own.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        let (whose, it) = match respell::of_dashboard(&Cli::command(), &word) {
            Some(whose) => (format!("{whose}; "), format!("`{path}`")),
            None => (String::new(), "it".to_owned()),
        };
        let there = match own.as_slice() {
            [] => format!("{it} has only those of every command"),
            own => format!("{it} has {}", own.join(", ")),
        };
        Some(format!(
            "`{path}` has no option `{word}`: {whose}{there}\n  `mcpdeck {path} --help` explains"
        ))
    }

    /// The message for a word where a verb below this one is expected.
    fn no_such_verb(&self, error: &clap::Error) -> Option<String> {
        let word = text_of(error, ContextKind::InvalidSubcommand)?;
        let below = self.command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let names: Vec<&str> =
            below.map(Command::get_name).filter(|name| *name != "help").collect();
        let path = &self.path;
        if path.is_empty() || names.is_empty() {
            return None;
        }
        let same = |name: &&&str| {
            SAME_VERBS.iter().any(|row| row.contains(&word.as_str()) && row.contains(*name))
        };
        let meant = names.iter().find(same).copied();
        let meant = meant.or_else(|| nearest(&word.to_lowercase(), &names, 0.75).copied());
        let meant = meant.map(|name| format!("; did you mean `mcpdeck {path} {name}`?"));
        let meant = meant.unwrap_or_default();
        Some(format!("`{path}` has no command `{word}`{meant}\n  it has: {}", names.join(", ")))
    }

    /// A tip where something is missing.
    fn missing(&self) -> Option<&'static str> {
        Some(match self.path.as_str() {
            "call" | "app" | "read" | "prompt" | "load" => "`mcpdeck list` shows what there is",
            "request" => "a method, such as `ping` or `tools/list`",
            "login" | "logout" | "remove" => "`mcpdeck config` shows the servers and their names",
            "report" => "for example `mcpdeck report RECORDING --output report.html`",
            "scrub" => "for example `mcpdeck scrub RECORDING --output clean.jsonl`",
            "secret set" => "a name; the value is read from stdin",
            "token revoke" => "`mcpdeck token list` shows the tokens and their ids",
            "search" => "words to look for, such as `mcpdeck search github`",
            _ => return None,
        })
    }
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<String> {
    error.get(kind).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(line: &str) -> String {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = Cli::command().try_get_matches_from(&args).expect_err(line);
        let given = GivenVerb::find(&args);
        given.unknown(&error, &args).or_else(|| given.no_such_verb(&error)).unwrap_or_default()
    }

    #[test]
    #[cfg(feature = "gateway")]
    fn an_option_of_other_programs_is_shown_as_it_is_written_here() {
        for (line, part) in [
            ("list --tools", "write `--only tools`"),
            ("list -v", "write `--long`"),
            ("status --verbose", "--check -v"),
            ("status --watch", "the dashboard"),
            ("status --format json", "write `--json`"),
            ("config --format=json", "write `--json`"),
            ("serve --port 8080", "write `--listen 127.0.0.1:8080`"),
            ("list --server atlas", "`mcpdeck list atlas`"),
            ("upgrade --dry-run", "write `--check`"),
            ("remove x --dry-run", "leave it out"),
            ("remove x --force", "write `--yes`"),
            ("list --mcp-config 'a b.json'", "write `--config ''\\''a'"),
            ("list --no-colour", "write `--color never`"),
            ("trust list --debug", "write `--log-level debug`"),
            (
                "list --trust",
                "an option of the dashboard (`mcpdeck` without a command); `list` has --",
            ),
            ("status --lock", "it is an option of `mcpdeck --check`; `status` has --"),
            ("policy why --header x", "`policy why` has no option `--header`: it has --"),
            ("config --nonsense", "`config` has no option `--nonsense`: it has --all, --json"),
            ("man --nonsense", "it has only those of every command"),
        ] {
            let answer = answered(&format!("mcpdeck {line}"));
            assert!(answer.contains(part), "{line}: {answer}");
        }
    }

    #[test]
    #[cfg(feature = "gateway")]
    fn a_verb_of_other_programs_is_answered_with_the_one_that_does_it() {
        for (line, part) in [
            ("token create", "did you mean `mcpdeck token new`?\n  it has: new, list, revoke"),
            ("token delete x", "`mcpdeck token revoke`"),
            ("grants permit x", "`mcpdeck grants add`"),
            ("policy explain x.y", "`mcpdeck policy why`"),
            ("policy x.y", "it has: why, test"),
            ("secret rm x", "`mcpdeck secret remove`"),
            ("secret add x", "`mcpdeck secret set`"),
            ("trust aprove x", "`mcpdeck trust approve`"),
            ("audit check x", "`mcpdeck audit verify`"),
            ("config atlas", "`atlas` is one word too many for `config`\n  usage: mcpdeck config"),
            ("config mcp.json", "mcpdeck config --config mcp.json"),
        ] {
            let answer = answered(&format!("mcpdeck {line}"));
            assert!(answer.contains(part), "{line}: {answer}");
        }
    }
}
