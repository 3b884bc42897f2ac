//! Expansion of `${...}` in text (requirement C3). Pure.
//!
//! | written | becomes |
//! | --- | --- |
//! | `${NAME}`, `${env:NAME}` | the variable; unset or empty is an error |
//! | `${NAME:-text}` | the variable, or `text` (expanded too) when it is unset or empty |
//! | `${input:id}` | the answer to an input |
//! | `${secret:name}`, `${keyring:name}`, `${cmd:helper:argument}` | a secret from elsewhere; `:-text` as above |
//! | `${workspaceFolder}`, `${workspaceFolderBasename}`, `${userHome}`, `${cwd}`, `${pathSeparator}`, `${/}` | folders and the separator |
//! | `$${` | a literal `${` |
//!
//! A `$` that is not followed by `{` is an ordinary character. What a variable holds is data and
//! is never expanded again. Nothing that could not be expanded is passed on as it was written.

use std::ops::Range;
use std::path::PathBuf;

use crate::base::Secret;
use crate::config::Environment;
use crate::config::mask::{is_secret, looks_secret};

/// Deepest nesting of defaults.
const MAX_DEPTH: usize = 8;

/// Longest result in bytes; nested defaults must not grow without end.
const MAX_LEN: usize = 1 << 20;

/// Where the words of an expansion come from.
#[derive(Clone)]
pub(crate) struct Scope<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) workspace: PathBuf,
    /// Ids of declared inputs that can be asked for.
    pub(crate) inputs: &'a [String],
    /// Ids of declared inputs that run an editor's command: used when answered, never asked for.
    pub(crate) commands: &'a [String],
    /// Variables set earlier in an env file; they win over the environment.
    pub(crate) local: &'a [(String, String)],
    /// Those of `inputs` whose answers are no passwords.
    pub(crate) plain: &'a [String],
    /// What stands for the answer to an input that has none.
    pub(crate) stand_in: Option<fn(&str) -> String>,
}

impl<'a> Scope<'a> {
    /// An environment alone, without inputs.
    pub(crate) fn of(env: &'a Environment) -> Self {
        Self {
            env,
            workspace: env.cwd.clone(),
            inputs: &[],
            commands: &[],
            local: &[],
            plain: &[],
            stand_in: None,
        }
    }
}

/// Expanded text with where its parts come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    pub(crate) via: Vec<String>,
    /// Parts that are secret: answers, and variables that are called like a secret.
    pub(crate) secrets: Vec<Secret>,
}

/// Why text cannot be expanded, and which bytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) range: Range<usize>,
    pub(crate) cause: Cause,
}

/// The kinds of refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The variable is not set.
    Unset(String),
    /// The variable is set and empty.
    Empty(String),
    /// The input waits for an answer.
    Unanswered(String),
    /// The input runs a command of an editor.
    CommandInput(String),
    /// A secret that its source does not give: the scheme, and why.
    NoSecret(String, String),
    /// No such input is declared.
    UnknownInput(String),
    /// No closing brace.
    Unclosed,
    /// Nothing between the braces, or no name.
    NoName(String),
    /// A word before the colon that nothing here provides.
    UnknownScheme(String),
    /// The home folder is not known.
    NoHome,
    /// A path that is no UTF-8, spelled.
    NotText(String),
    /// Defaults nested too deep, or the result too long.
    TooMuch,
}

/// Expands `text`.
///
/// # Errors
/// Every part that cannot be expanded, in order.
pub(crate) fn expand(text: &str, scope: &Scope<'_>) -> Result<Expanded, Vec<Refusal>> {
    let mut work = Work { scope, out: Expanded::default(), refused: Vec::new() };
    work.run(text, 0, 0);
    if work.refused.is_empty() { Ok(work.out) } else { Err(work.refused) }
}

/// Expands what stands in no file, such as an argument of the command line.
///
/// # Errors
/// What cannot be expanded, and what to do.
#[cfg(feature = "cluster")]
pub(crate) fn expand_argument(text: &str, env: &Environment) -> Result<Secret, String> {
    let words = |refused: Vec<Refusal>| {
        let words = refused.iter().map(|refusal| refusal.cause.words());
        words.map(|(_, message, help)| format!("{message}; {help}")).collect::<Vec<_>>().join("; ")
    };
    expand(text, &Scope::of(env)).map(|expanded| Secret::new(expanded.text)).map_err(words)
}

/// Whether there is anything to expand.
pub(crate) fn has_reference(text: &str) -> bool {
    text.contains("${")
}

struct Work<'a> {
    scope: &'a Scope<'a>,
    out: Expanded,
    refused: Vec<Refusal>,
}

impl Work<'_> {
    fn run(&mut self, text: &str, base: usize, depth: usize) {
        let mut at = 0;
        while let Some(found) = text.get(at..).and_then(|rest| rest.find("${")) {
            let open = at + found;
            if open > at && text.as_bytes().get(open - 1) == Some(&b'$') {
                self.push(text.get(at..open - 1).unwrap_or_default());
                self.push("${");
                at = open + 2;
                continue;
            }
            self.push(text.get(at..open).unwrap_or_default());
            let Some(close) = closing(text, open + 2) else {
                self.refuse(base + open..base + text.len(), Cause::Unclosed);
                return;
            };
            let whole = base + open..base + close + 1;
            let inside = text.get(open + 2..close).unwrap_or_default();
            self.reference(inside, whole, base + open + 2, depth);
            at = close + 1;
        }
        self.push(text.get(at..).unwrap_or_default());
    }

    fn push(&mut self, text: &str) {
        if self.out.text.len() + text.len() <= MAX_LEN {
            self.out.text.push_str(text);
        } else if !self.refused.iter().any(|r| r.cause == Cause::TooMuch) {
            self.refuse(0..0, Cause::TooMuch);
        }
    }

    fn refuse(&mut self, range: Range<usize>, cause: Cause) {
        self.refused.push(Refusal { range, cause });
    }

    fn reference(&mut self, inside: &str, whole: Range<usize>, base: usize, depth: usize) {
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if let Some(variable) = name.strip_prefix("env:") {
            return self.variable(variable, default, whole, (base + name.len() + 2, depth));
        }
        if let Some(id) = inside.strip_prefix("input:") {
            return self.input(id, whole);
        }
        match self.builtin(name) {
            Some(Ok(value)) => {
                self.push(&value);
                self.out.via.push(name.to_owned());
            }
            Some(Err(cause)) => self.refuse(whole, cause),
            None => match name.split_once(':') {
                Some((scheme @ ("secret" | "keyring" | "cmd"), id)) => {
                    self.secret((scheme, id), default, whole, (base + name.len() + 2, depth));
                }
                Some((scheme, _)) => self.refuse(whole, Cause::UnknownScheme(scheme.to_owned())),
                None => self.variable(name, default, whole, (base + name.len() + 2, depth)),
            },
        }
    }

    fn builtin(&self, name: &str) -> Option<Result<String, Cause>> {
        // Another spelling would name another file: what is no text is refused.
        let text = |path: &std::path::Path| match path.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(Cause::NotText(crate::base::text::path::spelled(path).into_owned())),
        };
        Some(match name {
            "workspaceFolder" => text(&self.scope.workspace),
            "workspaceFolderBasename" => {
                text(self.scope.workspace.file_name().unwrap_or_default().as_ref())
            }
            "userHome" => self.scope.env.home.as_deref().ok_or(Cause::NoHome).and_then(text),
            "cwd" => text(&self.scope.env.cwd),
            "pathSeparator" | "/" => Ok(std::path::MAIN_SEPARATOR.to_string()),
            _ => return None,
        })
    }

    fn variable(
        &mut self,
        name: &str,
        default: Option<&str>,
        whole: Range<usize>,
        place: (usize, usize),
    ) {
        if !is_variable(name) {
            return self.refuse(whole, Cause::NoName(name.to_owned()));
        }
        let local = self.scope.local.iter().rev().find(|(n, _)| n == name);
        let value = local.map(|(_, v)| v.as_str()).or_else(|| self.scope.env.var(name));
        match (value, default) {
            (Some(value), _) if !value.is_empty() => {
                self.push(value);
                self.out.via.push(format!("env:{name}"));
                if is_secret(name, value) {
                    self.out.secrets.push(Secret::new(value));
                }
            }
            (_, Some(default)) => self.default(name, default, whole, place),
            (Some(_), None) => self.refuse(whole, Cause::Empty(name.to_owned())),
            (None, None) => self.refuse(whole, Cause::Unset(name.to_owned())),
        }
    }

    fn secret(
        &mut self,
        (scheme, name): (&str, &str),
        default: Option<&str>,
        whole: Range<usize>,
        place: (usize, usize),
    ) {
        match (self.scope.env.sources.get(scheme, name), default) {
            (Ok(value), _) => {
                self.push(value.expose());
                self.out.via.push(format!("{scheme}:{name}"));
                self.out.secrets.push(value);
            }
            (Err(_), Some(default)) => {
                self.default(&format!("{scheme}:{name}"), default, whole, place);
            }
            (Err(why), None) => self.refuse(whole, Cause::NoSecret(scheme.to_owned(), why)),
        }
    }

    /// Expands the default of what is not there; it begins at this byte, at this depth.
    fn default(
        &mut self,
        of: &str,
        default: &str,
        whole: Range<usize>,
        (base, depth): (usize, usize),
    ) {
        if depth >= MAX_DEPTH {
            return self.refuse(whole, Cause::TooMuch);
        }
        self.out.via.push(format!("default of {of}"));
        self.run(default, base, depth + 1);
    }

    fn input(&mut self, id: &str, whole: Range<usize>) {
        let declared = |ids: &[String]| ids.iter().any(|known| known == id);
        let command = declared(self.scope.commands);
        if !command && !declared(self.scope.inputs) {
            return self.refuse(whole, Cause::UnknownInput(id.to_owned()));
        }
        match self.scope.env.input(id) {
            Some(value) => {
                self.push(value.expose());
                self.out.via.push(format!("input:{id}"));
                if !declared(self.scope.plain) || looks_secret(value.expose()) {
                    self.out.secrets.push(value.clone());
                }
            }
            None if command => self.refuse(whole, Cause::CommandInput(id.to_owned())),
            None => match self.scope.stand_in {
                Some(stand_in) => {
                    self.push(&stand_in(id));
                    self.out.via.push(format!("input:{id}"));
                }
                None => self.refuse(whole, Cause::Unanswered(id.to_owned())),
            },
        }
    }
}

/// Letters, digits and `_` as everywhere; also what Windows has, such as `ProgramFiles(x86)`.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '(' | ')' | '.' | '-'))
}

/// The brace that closes the reference whose inside starts at `from`; inner references nest.
fn closing(text: &str, from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'$' if bytes.get(at + 1) == Some(&b'{') => {
                depth += 1;
                at += 1;
            }
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

impl Cause {
    /// Rule, message and help.
    pub(crate) fn words(&self) -> (&'static str, String, String) {
        match self {
            Self::Unset(name) => (
                "config/unset-variable",
                format!("the variable `{name}` is not set"),
                format!("set {name}, or give a default: `${{{name}:-value}}`"),
            ),
            Self::Empty(name) => (
                "config/empty-variable",
                format!("the variable `{name}` is set but empty"),
                format!("give it a value, or allow it: `${{{name}:-}}`"),
            ),
            Self::Unanswered(id) => (
                "config/input-needed",
                format!("the input `{id}` has no answer yet"),
                format!("set {}, or answer it in the dashboard", crate::config::input_variable(id)),
            ),
            Self::CommandInput(id) => (
                "config/input-command",
                format!("the input `{id}` runs a command of an editor, which cannot be done here"),
                format!(
                    "set {}, or declare it as `promptString`",
                    crate::config::input_variable(id)
                ),
            ),
            Self::NoSecret(scheme, why) => (
                "config/secret",
                why.clone(),
                match scheme.as_str() {
                    "secret" => "`mcpdeck secret set NAME` keeps one; `:-text` gives a default",
                    "keyring" => "`mcpdeck secret set NAME --keyring` keeps one",
                    _ => "helpers are named in helpers.json of your own configuration folder",
                }
                .to_owned(),
            ),
            Self::UnknownInput(id) => (
                "config/unknown-input",
                format!("no input `{id}` is declared"),
                format!("add {{ \"id\": \"{id}\", \"type\": \"promptString\" }} to `inputs`"),
            ),
            Self::Unclosed => (
                "config/expansion",
                "`${` is never closed".to_owned(),
                "add `}`, or write `$${` for a literal `${`".to_owned(),
            ),
            Self::NoName(name) => (
                "config/expansion",
                if name.is_empty() {
                    "nothing is named between `${` and `}`".to_owned()
                } else {
                    format!("`{name}` is not the name of a variable")
                },
                "write `$${` for a literal `${`".to_owned(),
            ),
            Self::UnknownScheme(scheme) => (
                "config/expansion",
                format!("`${{{scheme}:...}}` cannot be expanded here"),
                match scheme.as_str() {
                    "command" | "config" => "only an editor can; use `${env:NAME}` or an input",
                    _ => "known are `env`, `input`, `secret`, `keyring` and `cmd`; `$${` is a literal `${`",
                }
                .to_owned(),
            ),
            Self::NoHome => (
                "config/expansion",
                "the home folder is not known".to_owned(),
                "set HOME, or write the path out".to_owned(),
            ),
            Self::NotText(path) => (
                "config/expansion",
                format!("{path} is not UTF-8, and cannot be put into a text"),
                "write a relative path, or rename the folder".to_owned(),
            ),
            Self::TooMuch => (
                "config/expansion",
                "this expands too deep or too far".to_owned(),
                "use fewer nested defaults".to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Result<String, Vec<Cause>> {
        let mut env = Environment {
            cwd: "/here".into(),
            home: Some("/home/u".into()),
            ..Environment::default()
        };
        for (name, value) in [("A", "1"), ("NESTED", "${A}"), ("EMPTY", ""), ("DOLLAR", "$$")] {
            env.vars.insert(name.into(), Secret::new(value));
        }
        env.inputs.insert("key".into(), Secret::new("typed"));
        let inputs = ["key".to_owned(), "open".to_owned()];
        let scope = Scope {
            env: &env,
            workspace: "/w/p".into(),
            inputs: &inputs,
            commands: &[],
            local: &[],
            plain: &[],
            stand_in: None,
        };
        expand(text, &scope)
            .map(|e| e.text)
            .map_err(|all| all.into_iter().map(|r| r.cause).collect())
    }

    #[test]
    fn every_form_expands() {
        for (text, expected) in [
            ("x${A}y", "x1y"),
            ("${env:A}${A}", "11"),
            ("${NO:-d}", "d"),
            ("${env:NO:-d:-e}", "d:-e"),
            ("${NO:-${A}/${NO2:-z}}", "1/z"),
            ("${EMPTY:-d}", "d"),
            ("${NO:-}", ""),
            ("${workspaceFolder}|${workspaceFolderBasename}", "/w/p|p"),
            ("${userHome}${/}${cwd}", &format!("/home/u{}/here", std::path::MAIN_SEPARATOR)),
            ("${input:key}", "typed"),
        ] {
            assert_eq!(ask(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn dollars_that_open_nothing_are_ordinary_characters() {
        for text in ["pa$$word", "$", "$A", "$(id)", "a$", "{}", "; $( ) | > *"] {
            assert_eq!(ask(text).as_deref(), Ok(text));
        }
        assert_eq!(ask("$${A}").as_deref(), Ok("${A}"));
        assert_eq!(ask("$$${A}").as_deref(), Ok("$${A}"));
    }

    #[test]
    fn what_a_variable_holds_is_never_expanded_again() {
        assert_eq!(ask("${NESTED}").as_deref(), Ok("${A}"));
        assert_eq!(ask("${DOLLAR}{A}").as_deref(), Ok("$${A}"));
    }

    #[test]
    fn every_part_that_fails_is_named() {
        assert_eq!(
            ask("${NO}${A}${EMPTY}${input:open}${input:none}${command:x}${1a}${}"),
            Err(vec![
                Cause::Unset("NO".into()),
                Cause::Empty("EMPTY".into()),
                Cause::Unanswered("open".into()),
                Cause::UnknownInput("none".into()),
                Cause::UnknownScheme("command".into()),
                Cause::NoName("1a".into()),
                Cause::NoName(String::new()),
            ])
        );
        assert_eq!(ask("a${A"), Err(vec![Cause::Unclosed]));
        assert_eq!(ask("${NO:-${ALSO_NO}}"), Err(vec![Cause::Unset("ALSO_NO".into())]));
    }

    #[test]
    fn the_place_of_a_nested_failure_is_exact() {
        let env = Environment::default();
        let scope = Scope {
            env: &env,
            workspace: PathBuf::new(),
            inputs: &[],
            commands: &[],
            local: &[],
            plain: &[],
            stand_in: None,
        };
        let text = "ab${X:-${Y}}";
        let refused = expand(text, &scope).expect_err("unset");
        assert_eq!(text.get(refused[0].range.clone()), Some("${Y}"));
    }

    #[test]
    fn nested_defaults_end_somewhere() {
        let text = format!("{}x{}", "${N:-".repeat(50), "}".repeat(50));
        assert_eq!(ask(&text), Err(vec![Cause::TooMuch]));
    }

    #[test]
    fn what_expands_without_end_is_refused_once() {
        let long = "x".repeat(MAX_LEN / 4);
        assert!(ask(&format!("${{NO:-{long}}}").repeat(4)).is_ok());
        let text = format!("${{NO:-{long}}}").repeat(6);
        assert_eq!(ask(&text), Err(vec![Cause::TooMuch]));
    }
}
