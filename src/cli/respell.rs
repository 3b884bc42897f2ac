//! Arguments of a call as other tools spell them (`--arg x=y`, `--params JSON`, `x:=1`), and how they
//! are written here. Pure.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::args::Cli;
use base::text::quoted;

/// The verbs that take a name and arguments.
const CALLING_VERBS: [&str; 5] = ["call", "app", "load", "prompt", "request"];

/// Options of other tools, without their dashes, by what they take.
const PAIR_OPTIONS: [&str; 15] = [
    "arg",
    "argument",
    "param",
    "parameter",
    "tool-arg",
    "field",
    "set",
    "var",
    "kv",
    "a",
    "p",
    "P",
    "F",
    "A",
    "D",
];
const VALUE_OPTIONS: [&str; 19] = [
    "args",
    "arguments",
    "params",
    "parameters",
    "tool-args",
    "tool-arguments",
    "input",
    "inputs",
    "data",
    "payload",
    "body",
    "json-args",
    "args-json",
    "arguments-json",
    "json-input",
    "input-json",
    "d",
    "i",
    "j",
];
const FILE_OPTIONS: [&str; 8] = [
    "input-file",
    "args-file",
    "arguments-file",
    "params-file",
    "json-file",
    "from-file",
    "file",
    "f",
];
const NAME_OPTIONS: [&str; 8] =
    ["tool", "tool-name", "name", "prompt-name", "prompt", "method", "t", "n"];
const SERVER_OPTIONS: [&str; 3] = ["server", "server-name", "s"];

/// A command as it is written here.
#[derive(Default)]
struct Respelled {
    server: Option<String>,
    name: Option<String>,
    /// A JSON object, a file of it, or stdin: comes first.
    object: Option<String>,
    pairs: Vec<String>,
    options: Vec<String>,
    /// The first option that there is not.
    unknown: Option<String>,
}

/// The message for a call whose arguments are spelled as other tools do; `args` is the whole command
/// line.
pub fn respelled(args: &[String]) -> Option<String> {
    let at = args.iter().position(|word| CALLING_VERBS.contains(&word.as_str()))?;
    let verb = args[at].as_str();
    let command = Cli::command();
    let own = command.find_subcommand(verb)?.get_arguments();
    let known: Vec<&Arg> =
        own.chain(command.get_arguments().filter(|arg| arg.is_global_set())).collect();
    let words = &args[at + 1..];
    let (words, server) = match words.iter().position(|word| word == "--") {
        Some(end) => words.split_at(end),
        None => (words, &[][..]),
    };
    let mut out = Respelled::default();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some((option, inline)) = option_of(word) else {
            out.word(word);
            continue;
        };
        let of_option = |arg: &&&Arg| is_named(arg, option);
        let is_value = |word: &&String| option_of(word).is_none();
        if let Some(arg) = known.iter().find(of_option) {
            out.options.push(word.clone());
            let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
            if takes && inline.is_none() {
                out.options.extend(words.next().cloned());
            }
        } else {
            let value = inline.map(str::to_owned).or_else(|| words.next_if(is_value).cloned());
            let dashes = word.len() - word.trim_start_matches('-').len();
            out.unknown.get_or_insert_with(|| format!("{}{option}", &word[..dashes]));
            out.option(option, value, word.starts_with("--"))?;
        }
    }
    let unknown = out.unknown.clone()?;
    let line = out.line(verb, &args[1..=at], server);
    let is_spelled = is_of_other_tools(unknown.trim_start_matches('-'));
    let why = match of_dashboard(&command, &unknown).filter(|_| !is_spelled) {
        Some(why) => format!("{why}; as an argument of the tool"),
        None => "arguments are words, key=value or one JSON object".to_owned(),
    };
    Some(format!("`{verb}` has no option `{unknown}`: {why}\n  write: {line}"))
}

/// What to say of an option, with or without its dashes, that is one of the dashboard or of `--check`.
pub fn of_dashboard(command: &Command, option: &str) -> Option<String> {
    let name = option.trim_start_matches('-');
    let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name))?;
    let owner = match arg.get_help_heading()? {
        "Dashboard" => "the dashboard (`mcpdeck` without a command)",
        "Check" => "`mcpdeck --check`",
        _ => return None,
    };
    Some(format!("it is an option of {owner}"))
}

/// How a pair in the spelling of another tool (`x:=1`, `x:y`, `x==1`) is written here.
pub fn respelled_pair(pair: &str) -> Option<String> {
    let end = pair.find([':', '='])?;
    let (key, rest) = pair.split_at(end);
    let is_key = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let value = [":=", "==", ":"].iter().find_map(|sign| rest.strip_prefix(sign))?;
    let is_address = value.starts_with("//");
    (!key.is_empty() && key.chars().all(is_key) && !is_address)
        .then(|| format!("{key}={}", value.trim_start()))
}

impl Respelled {
    fn word(&mut self, word: &str) {
        let is_plain = |word: &str| !word.contains(['=', ':', '{', '[', '@']) && word != "-";
        match &self.name {
            None => self.name = Some(word.to_owned()),
            // The server, and then the tool.
            Some(first)
                if self.object.is_none()
                    && self.pairs.is_empty()
                    && self.server.is_none()
                    && is_plain(first)
                    && is_plain(word) =>
            {
                self.server = self.name.replace(word.to_owned());
            }
            Some(_) => self.value(word),
        }
    }

    /// A pair, JSON, a file or stdin, as it is.
    fn value(&mut self, word: &str) {
        if word == "-" || word.starts_with(['{', '[', '@']) {
            self.object = Some(word.to_owned());
        } else {
            self.pairs.push(respelled_pair(word).unwrap_or_else(|| word.to_owned()));
        }
    }

    /// Translates an option that there is not; `None` for one that no tool has.
    fn option(&mut self, option: &str, value: Option<String>, is_long: bool) -> Option<()> {
        match value {
            // What was forgotten is not guessed.
            None if is_of_other_tools(option) && (!is_long || option.len() > 1) => {}
            // One letter with two dashes is the name of a parameter.
            Some(value) if is_long && option.len() == 1 => {
                self.pairs.push(format!("{option}={value}"));
            }
            Some(value) if PAIR_OPTIONS.contains(&option) => self.value(&value),
            Some(value) if VALUE_OPTIONS.contains(&option) => {
                let is_path = !value.contains(['=', ':', '{', '[', '@']) && value != "-";
                self.value(&if is_path { format!("@{value}") } else { value });
            }
            Some(value) if FILE_OPTIONS.contains(&option) => {
                self.object = Some(format!("@{value}"));
            }
            Some(value) if NAME_OPTIONS.contains(&option) => {
                // What was taken for the name is an argument, or the server.
                let first = self.name.replace(value);
                if let Some(first) = first {
                    if first.contains(['=', '{']) {
                        self.value(&first);
                    } else {
                        self.server = Some(first);
                    }
                }
            }
            Some(value) if SERVER_OPTIONS.contains(&option) => self.server = Some(value),
            // The name of a parameter.
            value if is_long => {
                self.pairs.push(format!("{option}={}", value.as_deref().unwrap_or("true")));
            }
            _ => return None,
        }
        Some(())
    }

    fn line(self, verb: &str, before: &[String], command: &[String]) -> String {
        let name = self.name.unwrap_or_else(|| "NAME".to_owned());
        let name = match self.server.filter(|server| !name.starts_with(&format!("{server}."))) {
            Some(server) if verb != "request" => format!("{server}.{name}"),
            _ => name,
        };
        let before = before.iter().cloned();
        let all = before.chain([name]).chain(self.object).chain(self.pairs).chain(self.options);
        let all: Vec<String> =
            all.chain(command.iter().cloned()).map(|word| quoted(&word)).collect();
        format!("mcpdeck {}", all.join(" "))
    }
}

/// Whether other tools take arguments, their file, or the name of a tool behind this option.
fn is_of_other_tools(option: &str) -> bool {
    [&PAIR_OPTIONS[..], &VALUE_OPTIONS, &FILE_OPTIONS, &NAME_OPTIONS, &SERVER_OPTIONS]
        .iter()
        .any(|names| names.contains(&option))
}

/// The name of an option, without dashes, and the value behind its `=`.
fn option_of(word: &str) -> Option<(&str, Option<&str>)> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
        return (!name.is_empty()).then_some((name, value));
    }
    let short = word.strip_prefix('-')?;
    let first = short.chars().next().filter(char::is_ascii_alphabetic)?;
    let (name, rest) = short.split_at(first.len_utf8());
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    Some((name, Some(rest).filter(|rest| !rest.is_empty())))
}

fn is_named(arg: &Arg, option: &str) -> bool {
    let mut chars = option.chars();
    match (chars.next(), chars.next()) {
        (Some(short), None) => arg.get_short() == Some(short),
        _ => arg.get_long() == Some(option),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str) -> String {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let message = respelled(&args).unwrap_or_default();
        message.rsplit("write: ").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_spellings_of_other_tools_are_shown_as_they_are_written_here() {
        for (given, here) in [
            ("call demo add --arg a=1 --arg b=2", "call demo.add a=1 b=2"),
            ("call demo.add --arg=a=1", "call demo.add a=1"),
            ("call demo.add -a a=1 --json", "call demo.add a=1 --json"),
            ("call demo.add -aa=1", "call demo.add a=1"),
            ("call demo.add --args {\"a\":1}", "call demo.add '{\"a\":1}'"),
            (
                "call demo.add --params {\"a\":1} --timeout 3",
                "call demo.add '{\"a\":1}' --timeout 3",
            ),
            ("call demo.add --tool-arg a:=1", "call demo.add a=1"),
            ("call demo.add --input call.json", "call demo.add @call.json"),
            ("call demo.add --input - b=2", "call demo.add - b=2"),
            ("call demo.add --args-file a.json", "call demo.add @a.json"),
            ("call --server demo --tool add --arg a=-1", "call demo.add a=-1"),
            ("call demo --tool-name add --tool-arg a=1", "call demo.add a=1"),
            ("call demo.add --a 1", "call demo.add a=1"),
            ("call demo.add --x=1 --flag", "call demo.add x=1 flag=true"),
            ("call demo.add --tool-arg", "call demo.add"),
            ("call demo.find --city Oslo --exact", "call demo.find city=Oslo exact=true"),
            ("prompt demo.hi --arg name=x", "prompt demo.hi name=x"),
            ("load demo.add -n 5 --arg a=1", "load demo.add a=1 -n 5"),
            ("request ping --params {}", "request ping '{}'"),
            ("call add --arg a=1 -- node s.js", "call add a=1 -- node s.js"),
        ] {
            assert_eq!(written(&format!("mcpdeck {given}")), format!("mcpdeck {here}"), "{given}");
        }
        for line in ["call demo.add a=1", "call demo.add -z", "list --arg a=1", "call x --json"] {
            assert_eq!(written(&format!("mcpdeck {line}")), "", "{line}");
        }
    }

    #[test]
    fn an_option_of_the_dashboard_is_not_taken_for_an_argument_without_a_word() {
        let message = |line: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            respelled(&args).expect(line)
        };
        let given = message("mcpdeck call demo.add --trust");
        let whose =
            "`call` has no option `--trust`: it is an option of the dashboard (`mcpdeck` without";
        assert!(given.starts_with(whose), "{given}");
        assert!(given.ends_with("write: mcpdeck call demo.add trust=true"), "{given}");
        // The option of another tool, though the check has one of that name.
        let given = message("mcpdeck call --server demo --tool add");
        assert!(given.contains("arguments are words"), "{given}");
    }

    #[test]
    fn a_pair_with_another_sign_is_shown_with_an_equals_sign() {
        for (given, here) in [
            ("x:=1", Some("x=1")),
            ("x:y", Some("x=y")),
            ("x==1", Some("x=1")),
            ("a.b:c", Some("a.b=c")),
            ("x: y", Some("x=y")),
            ("x=y", None),
            ("url=http://a", None),
            ("http://a", None),
            ("word", None),
            (":y", None),
        ] {
            assert_eq!(respelled_pair(given).as_deref(), here, "{given}");
        }
    }
}
