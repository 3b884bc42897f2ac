//! A word where a command or a URL belongs, and is neither: says what was most likely meant.
//!
//! Owns the words that people try because other programs have them. Decides nothing else.

use clap::CommandFactory;

use super::args::Cli;

/// What is not a command here, and how it is written. The first words are the flags that do the
/// work of a command; the others are what it is called elsewhere.
const WRITTEN: &[(&str, &str)] = &[
    ("check", "--check"),
    ("demo", "--demo"),
    ("keys", "--keys"),
    ("lock", "--check --lock"),
    ("init", "--check --init"),
    ("version", "--version"),
    ("validate", "--check"),
    ("verify", "--check"),
    ("lint", "--check"),
    ("test", "--check"),
    ("doctor", "--check --verbose"),
    ("ls", "list"),
    ("tools", "list --only tools"),
    ("prompts", "list --only prompts"),
    ("resources", "list --only resources"),
    ("servers", "status"),
    ("ps", "status"),
    ("invoke", "call"),
    ("get", "read"),
    ("start", ""),
    ("dashboard", ""),
    ("tui", ""),
];

/// How alike two words must be, from 0 to 1, before one is offered for the other.
const ALIKE: f64 = 0.78;

/// Words this much less alike than the best are offered beside it.
const TIED: f64 = 0.02;

/// What to say about a word that is neither a command nor a URL.
pub fn unknown(word: &str) -> String {
    let said = format!("`{word}` is neither a command nor a URL");
    if looks_like_a_file(word) {
        return format!("{said}; a configuration is named with `mcpdeck --config {word}`");
    }
    if looks_like_an_address(word) {
        return format!("{said}; did you mean `mcpdeck http://{word}`?");
    }
    let offered: Vec<String> =
        similar(word).into_iter().map(|w| format!("`{}`", format!("mcpdeck {w}").trim())).collect();
    match offered.split_last() {
        None => format!("{said}; see `mcpdeck --help`"),
        Some((only, [])) => format!("{said}; did you mean {only}?"),
        Some((last, others)) => format!("{said}; did you mean {} or {last}?", others.join(", ")),
    }
}

/// The word of these arguments that stands where a command or a URL belongs, when that is why
/// they cannot be understood.
pub fn astray(arguments: &[String]) -> Option<&str> {
    let first = arguments.first().map(String::as_str)?;
    let command = Cli::command();
    let known = command.get_subcommands().any(|verb| verb.get_name() == first);
    let is_word = !first.is_empty() && !first.starts_with('-') && !first.contains("://");
    (is_word && !known && first != "help").then_some(first)
}

/// What to write instead, the most alike first.
fn similar(word: &str) -> Vec<String> {
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name);
    let verbs = verbs.map(|verb| (verb.to_owned(), verb.to_owned()));
    let written = WRITTEN.iter().map(|(word, way)| ((*word).to_owned(), (*way).to_owned()));
    let wanted = word.to_lowercase();
    let mut near: Vec<(f64, String)> = written
        .chain(verbs)
        .map(|(known, way)| (strsim::jaro_winkler(&wanted, &known), way))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = near.first().map_or(0.0, |(score, _)| *score);
    let mut ways: Vec<String> = Vec::new();
    for (_, way) in near.into_iter().take_while(|(score, _)| best - score <= TIED) {
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    // A word spelt right has one meaning.
    ways.truncate(if best >= 1.0 { 1 } else { 3 });
    ways
}

fn looks_like_a_file(word: &str) -> bool {
    let path = std::path::Path::new(word);
    path.extension().is_some_and(|e| e == "json" || e == "jsonc") || path.is_file()
}

/// A host with a port or a path, the scheme forgotten.
fn looks_like_an_address(word: &str) -> bool {
    let host = word.split(['/', ':']).next().unwrap_or_default();
    let rest = &word[host.len()..];
    !rest.is_empty() && (host == "localhost" || (host.contains('.') && !host.starts_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_is_found_by_its_name_its_misspellings_and_its_names_elsewhere() {
        for word in ["check", "chekc", "chekk", "Check", "validate", "lint"] {
            let told = unknown(word);
            assert!(told.ends_with("did you mean `mcpdeck --check`?"), "{told}");
        }
    }

    #[test]
    fn a_misspelt_command_is_answered_with_the_command() {
        for (word, way) in [
            ("statsu", "status"),
            ("lsit", "list"),
            ("cal", "call"),
            ("promt", "prompt"),
            ("shcema", "schema"),
            ("improt", "import"),
            ("tools", "list --only tools"),
        ] {
            let told = unknown(word);
            assert!(told.ends_with(&format!("did you mean `mcpdeck {way}`?")), "{told}");
        }
        assert!(unknown("dashboard").ends_with("did you mean `mcpdeck`?"));
        assert!(unknown("xyzzy").ends_with("see `mcpdeck --help`"));
    }

    #[test]
    fn a_file_is_answered_with_the_option_that_takes_it() {
        assert!(unknown("team.json").ends_with("`mcpdeck --config team.json`"));
    }

    #[test]
    fn an_address_is_answered_with_its_scheme() {
        for word in ["localhost:3001/mcp", "127.0.0.1:3001/mcp", "mcp.example.com/mcp"] {
            assert!(unknown(word).ends_with(&format!("`mcpdeck http://{word}`?")));
        }
    }

    #[test]
    fn only_a_first_word_that_nothing_knows_is_astray() {
        let astray = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            astray(&words).map(str::to_owned)
        };
        assert_eq!(astray(&["check", "mcp.json"]), Some("check".to_owned()));
        for known in
            [&["call", "x", "--bad"][..], &["--chek"], &["http://a/mcp", "x"], &["help"], &[]]
        {
            assert_eq!(astray(known), None, "{known:?}");
        }
    }
}
