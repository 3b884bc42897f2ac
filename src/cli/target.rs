//! The first word of the command line when it is no command: a configuration, the address of a
//! server, or a mistake that can be named.

use std::path::Path;

use clap::{CommandFactory, Parser};

use super::args::{Cli, Verb};

/// Makes the word what it is: a file joins the configurations, an address stays where it is.
///
/// # Errors
/// Says what was meant perhaps.
pub fn settle(cli: &mut Cli) -> Result<(), String> {
    if let Some(verb) = &mut cli.verb {
        return settle_verb(verb);
    }
    let Some(word) = cli.url.take_if(|word| !word.contains("://")) else {
        let lost = cli.url.is_none() && !cli.given.header.is_empty();
        return if lost { Err(HEADER.to_owned()) } else { Ok(()) };
    };
    let path = Path::new(&word);
    let named = path.extension().is_some_and(|e| e == "json" || e == "jsonc" || e == "json5");
    if (path.is_file() || named) && !cli.given.header.is_empty() {
        return Err(HEADER.to_owned());
    }
    if path.is_file() || named {
        cli.common.config.push(path.to_path_buf());
        return Ok(());
    }
    Err(format!("`{word}` is not a command, file or URL; {}", meant(&word)))
}

const HEADER: &str = "--header goes with the address of a server; headers of a file stand in it";

/// `list URL` and `status URL` mean the server there. A header needs such an address.
fn settle_verb(verb: &mut Verb) -> Result<(), String> {
    let no_words = &mut Vec::new();
    let (words, one) = match verb {
        Verb::List(args) => (&mut args.servers, &mut args.one),
        Verb::Status(args) => (&mut args.servers, &mut args.one),
        Verb::Call(args) => (no_words, &mut args.one),
        Verb::Load(args) => (no_words, &mut args.one),
        Verb::Read(args) => (no_words, &mut args.one),
        Verb::Prompt(args) => (no_words, &mut args.one),
        Verb::Request(args) => (no_words, &mut args.one),
        _ => return Ok(()),
    };
    if one.url.is_none() && words.first().is_some_and(|word| word.contains("://")) {
        one.url = Some(words.remove(0));
        if !words.is_empty() {
            return Err("one URL is one server: names of servers do not go with it".to_owned());
        }
    }
    if one.url.is_none() && !one.given.header.is_empty() {
        return Err("--header goes with the address of a server: --url URL".to_owned());
    }
    Ok(())
}

/// Programs that people start servers with.
const RUNNERS: [&str; 13] = [
    "npx", "bunx", "uvx", "pipx", "node", "bun", "deno", "python", "python3", "uv", "docker",
    "podman", "tsx",
];

/// Words for what is an option here, or has another name elsewhere.
const OPTIONS: [(&str, &str); 15] = [
    ("check", "mcpdeck --check"),
    ("validate", "mcpdeck --check"),
    ("verify", "mcpdeck --check"),
    ("lint", "mcpdeck --check"),
    ("test", "mcpdeck --check"),
    ("lock", "mcpdeck --check --lock"),
    ("init", "mcpdeck --check --init"),
    ("demo", "mcpdeck --demo"),
    ("version", "mcpdeck --version"),
    ("keys", "mcpdeck --keys"),
    ("tools", "mcpdeck list --only tools"),
    ("prompts", "mcpdeck list --only prompts"),
    ("resources", "mcpdeck list --only resources"),
    ("ls", "mcpdeck list"),
    ("ps", "mcpdeck status"),
];

fn meant(word: &str) -> String {
    if RUNNERS.contains(&word) {
        return format!("a command goes after two dashes: `mcpdeck -- {word} ...`");
    }
    if Path::new(word).is_dir() {
        return "it is a folder: name the file in it".to_owned();
    }
    let host = word.split(['/', ':']).next().unwrap_or_default();
    if host == "localhost" || host.parse::<std::net::Ipv4Addr>().is_ok() {
        return format!("an address begins with its scheme: `mcpdeck http://{word}`");
    }
    match &similar(word)[..] {
        [] => "see `mcpdeck --help`".to_owned(),
        [line] => format!("did you mean `{line}`?"),
        [others @ .., last] => {
            format!("did you mean `{}` or `{last}`?", others.join("`, `"))
        }
    }
}

/// How alike two words must be, from 0 to 1, before one is offered for the other.
const ALIKE: f64 = 0.75;
/// Words this much less alike than the best are offered beside it.
const TIED: f64 = 0.02;

/// The lines that were meant perhaps, the likeliest first.
fn similar(word: &str) -> Vec<String> {
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name);
    let wanted = word.to_lowercase();
    let mut near: Vec<(f64, String)> = verbs
        .map(|verb| (verb, format!("mcpdeck {verb}")))
        .chain(OPTIONS.map(|(name, line)| (name, line.to_owned())))
        .map(|(name, line)| (strsim::jaro_winkler(&wanted, name), line))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = near.first().map_or(0.0, |(score, _)| *score);
    let mut lines: Vec<String> = Vec::new();
    for (_, line) in near.into_iter().take_while(|(score, _)| best - score <= TIED) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    // A word that is spelt right has one meaning.
    lines.truncate(if best >= 1.0 { 1 } else { 3 });
    lines
}

/// What to say of arguments that are not understood because of their first word: a program, where
/// the two dashes are missing, or a word that is no command.
pub fn mistaken(args: impl Iterator<Item = String>) -> Option<String> {
    let args: Vec<String> = args.skip(1).collect();
    let first = args.first()?.as_str();
    if RUNNERS.contains(&first) {
        let words: Vec<_> = args.iter().map(|word| crate::base::text::quoted(word)).collect();
        return Some(format!("a command goes after two dashes: mcpdeck -- {}", words.join(" ")));
    }
    let command = Cli::command();
    let known = first == "help" || command.get_subcommands().any(|verb| verb.get_name() == first);
    if known || first.is_empty() || first.starts_with('-') {
        return None;
    }
    let mut alone = Cli::try_parse_from(["mcpdeck", first]).ok()?;
    settle(&mut alone).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(word: &str) -> Result<Cli, String> {
        let mut cli = Cli::try_parse_from(["mcpdeck", word]).expect("one word is valid");
        settle(&mut cli).map(|()| cli)
    }

    #[test]
    fn a_file_is_a_configuration_and_an_address_a_server() {
        for file in ["team.json", "a/b.jsonc", "Cargo.toml"] {
            let cli = settled(file).expect("a file");
            assert_eq!((cli.common.config, cli.url), (vec![file.into()], None));
        }
        let cli = settled("http://127.0.0.1/mcp").expect("an address");
        assert_eq!(cli.url.as_deref(), Some("http://127.0.0.1/mcp"));
    }

    #[test]
    fn a_mistake_is_answered_with_what_was_meant() {
        for (word, part) in [
            ("lst", "did you mean `mcpdeck list`?"),
            ("check", "did you mean `mcpdeck --check`?"),
            ("chekc", "did you mean `mcpdeck --check`?"),
            ("Check", "did you mean `mcpdeck --check`?"),
            ("validate", "did you mean `mcpdeck --check`?"),
            ("statsu", "did you mean `mcpdeck status`?"),
            ("promt", "did you mean `mcpdeck prompt`?"),
            ("shcema", "did you mean `mcpdeck schema`?"),
            ("tools", "did you mean `mcpdeck list --only tools`?"),
            ("localhost:3000/mcp", "`mcpdeck http://localhost:3000/mcp`"),
            ("npx", "`mcpdeck -- npx ...`"),
            ("src", "it is a folder"),
            ("zzz", "see `mcpdeck --help`"),
        ] {
            let message = settled(word).expect_err(word);
            assert!(message.contains(part), "{message}");
        }
        let args = ["mcpdeck", "npx", "-y", "a b"].map(str::to_owned);
        let told = mistaken(args.into_iter()).expect("a program");
        assert!(told.ends_with("mcpdeck -- npx -y 'a b'"), "{told}");
    }

    #[test]
    fn only_a_first_word_that_nothing_knows_is_the_mistake() {
        let told = |words: &[&str]| {
            mistaken([&["mcpdeck"], words].concat().into_iter().map(str::to_owned))
        };
        let check = told(&["check", "mcp.json"]).expect("no command");
        assert!(check.contains("did you mean `mcpdeck --check`?"), "{check}");
        for words in [&["call", "x", "--bad"][..], &["--chek"], &["http://a/mcp", "x"], &["help"]] {
            assert_eq!(told(words), None, "{words:?}");
        }
    }
}
