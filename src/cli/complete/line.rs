//! The line that is being typed: its words up to the cursor, and which configuration it names. Pure,
//! but for the words of this process.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::args::Common;

/// The words a shell gives after the two dashes; the last is the one that goes on.
pub fn words_of_process() -> Vec<OsString> {
    std::env::args_os().skip_while(|word| word != "--").skip(1).collect()
}

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

/// Options whose value is a word of its own.
const VALUES: [&str; 16] = [
    "-c",
    "--config",
    "--env-file",
    "--timeout",
    "--log-file",
    "--log-level",
    "--color",
    "--url",
    "--answers",
    "--server",
    "--output",
    "-o",
    "--only",
    "--format",
    "--theme",
    "--into",
];

/// The configuration a line names, and the words that are neither options nor their values.
pub fn read(words: &[String]) -> (Common, Vec<&str>) {
    let mut common = Common::default();
    let mut plain = Vec::new();
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
        let value = value.or_else(|| if VALUES.contains(&name) { rest.next() } else { None });
        match (name, value) {
            ("-c" | "--config", Some(file)) => common.config.push(PathBuf::from(file)),
            ("--env-file", Some(file)) => common.env_file.push(PathBuf::from(file)),
            _ => {}
        }
    }
    (common, plain)
}

#[cfg(test)]
mod tests {
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
