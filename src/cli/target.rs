//! The first word of the command line when it is no command: a configuration, the address of a
//! server, or a mistake that can be named.

use std::path::Path;

use clap::CommandFactory;

use super::args::Cli;

/// Makes the word what it is: a file joins the configurations, an address stays where it is.
///
/// # Errors
/// Says what was meant perhaps.
pub fn settle(cli: &mut Cli) -> Result<(), String> {
    let Some(word) = cli.url.take_if(|word| !word.contains("://")) else { return Ok(()) };
    let path = Path::new(&word);
    let named = path.extension().is_some_and(|e| e == "json" || e == "jsonc" || e == "json5");
    if path.is_file() || named {
        cli.common.config.push(path.to_path_buf());
        return Ok(());
    }
    Err(format!("`{word}` is no command, file or URL; {}", meant(&word)))
}

/// Programs that people start servers with.
const RUNNERS: [&str; 13] = [
    "npx", "bunx", "uvx", "pipx", "node", "bun", "deno", "python", "python3", "uv", "docker",
    "podman", "tsx",
];

/// Words for what is an option here.
const OPTIONS: [(&str, &str); 5] = [
    ("check", "mcpdeck --check"),
    ("test", "mcpdeck --check"),
    ("demo", "mcpdeck --demo"),
    ("version", "mcpdeck --version"),
    ("keys", "mcpdeck --keys"),
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
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name);
    let all = verbs.map(|verb| (verb, format!("mcpdeck {verb}")));
    let near = all
        .chain(OPTIONS.map(|(name, option)| (name, option.to_owned())))
        .map(|(name, line)| (strsim::jaro_winkler(word, name), line))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score > 0.7);
    match near {
        Some((_, line)) => format!("did you mean `{line}`?"),
        None => "see `mcpdeck --help`".to_owned(),
    }
}

/// What to say of arguments that begin with a program, where the two dashes are missing.
pub fn without_dashes(args: impl Iterator<Item = String>) -> Option<String> {
    let args: Vec<String> = args.skip(1).collect();
    let (first, rest) = args.split_first()?;
    let line = RUNNERS.contains(&first.as_str()) && !rest.iter().any(|word| word == "--");
    let words = || args.iter().map(|word| crate::text::shell::quoted(word)).collect::<Vec<_>>();
    line.then(|| format!("a command goes after two dashes: mcpdeck -- {}", words().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

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
            ("chek", "did you mean `mcpdeck --check`?"),
            ("localhost:3000/mcp", "`mcpdeck http://localhost:3000/mcp`"),
            ("npx", "`mcpdeck -- npx ...`"),
            ("src", "it is a folder"),
            ("zzz", "see `mcpdeck --help`"),
        ] {
            let message = settled(word).expect_err(word);
            assert!(message.contains(part), "{message}");
        }
        let args = ["mcpdeck", "npx", "-y", "a b"].map(str::to_owned);
        let told = without_dashes(args.into_iter()).expect("a program");
        assert!(told.ends_with("mcpdeck -- npx -y 'a b'"), "{told}");
        assert_eq!(without_dashes(["mcpdeck", "--chekc"].map(str::to_owned).into_iter()), None);
    }
}
