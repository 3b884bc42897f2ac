//! Expansion of `${...}` in text. Pure.
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
//! A `$` that is not followed by `{` is an ordinary character. The value of a variable is data and
//! is never expanded again. A reference that cannot be expanded is never passed on as written.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::mask::{is_secret, looks_secret};
use crate::{Environment, InputConfig, input_variable};
use base::Secret;

/// Deepest nesting of defaults.
const MAX_DEFAULT_DEPTH: usize = 8;

/// Longest result in bytes; bounds the growth of nested defaults.
const MAX_EXPANDED_BYTES: usize = 1 << 20;

/// The values available to an expansion.
#[derive(Clone)]
pub(crate) struct ExpandScope<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) workspace: PathBuf,
    /// Declared inputs that can be asked for.
    pub(crate) inputs: &'a [InputConfig],
    /// Ids of declared inputs that run an editor's command: used when answered, never asked for.
    pub(crate) commands: &'a [String],
    /// Variables set earlier in an env file; they win over the environment.
    pub(crate) local: &'a [(String, String)],
    /// Makes the placeholder for a missing answer from the id of its input.
    pub(crate) stand_in: Option<fn(&str) -> String>,
}

impl<'a> ExpandScope<'a> {
    /// The scope of an environment, without inputs.
    pub(crate) fn from_env(env: &'a Environment) -> Self {
        let workspace = env.cwd.clone();
        Self { env, workspace, inputs: &[], commands: &[], local: &[], stand_in: None }
    }
}

/// Expanded text with the sources of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    pub(crate) via: Vec<String>,
    /// Secret parts: answers, values of secret sources, and variables with a secret name or value.
    pub(crate) secrets: Vec<Secret>,
}

/// A reference that could not be expanded, with its message and help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpandError {
    /// Byte range of the whole reference in the text.
    pub(crate) range: Range<usize>,
    pub(crate) rule: &'static str,
    pub(crate) message: String,
    pub(crate) help: String,
    /// The input that has no answer yet.
    pub(crate) unanswered: Option<String>,
}

/// Expands every reference in a text.
///
/// # Errors
/// All references that could not be expanded, in order.
pub(crate) fn expand(text: &str, scope: &ExpandScope<'_>) -> Result<Expanded, Vec<ExpandError>> {
    let mut work = Expansion { scope, out: Expanded::default(), refused: Vec::new(), depth: 0 };
    work.run(text, 0);
    if work.refused.is_empty() { Ok(work.out) } else { Err(work.refused) }
}

/// Expands a command line argument.
///
/// # Errors
/// A message that names the references that cannot be expanded.
pub fn expand_argument(text: &str, env: &Environment) -> Result<Secret, String> {
    let words = |refused: Vec<ExpandError>| {
        refused.iter().map(|r| format!("{}; {}", r.message, r.help)).collect::<Vec<_>>().join("; ")
    };
    expand(text, &ExpandScope::from_env(env))
        .map(|expanded| Secret::new(expanded.text))
        .map_err(words)
}

struct Expansion<'a> {
    scope: &'a ExpandScope<'a>,
    out: Expanded,
    refused: Vec<ExpandError>,
    /// Nesting depth of defaults.
    depth: usize,
}

impl Expansion<'_> {
    /// Expands a part of the text that starts at `base`.
    fn run(&mut self, text: &str, base: usize) {
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
                let help = "add `}`, or write `$${` for a literal `${`";
                return self.misused(base + open..base + text.len(), "`${` is never closed", help);
            };
            let inside = text.get(open + 2..close).unwrap_or_default();
            self.reference(inside, base + open..base + close + 1);
            at = close + 1;
        }
        self.push(text.get(at..).unwrap_or_default());
    }

    fn push(&mut self, text: &str) {
        if self.out.text.len() + text.len() <= MAX_EXPANDED_BYTES {
            self.out.text.push_str(text);
        } else if !self.refused.iter().any(|refusal| refusal.message == TOO_MUCH) {
            self.misused(0..0, TOO_MUCH, FEWER);
        }
    }

    fn refuse(
        &mut self,
        range: Range<usize>,
        rule: &'static str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let (message, help) = (message.into(), help.into());
        self.refused.push(ExpandError { range, rule, message, help, unanswered: None });
    }

    /// Refuses a malformed or unsupported reference.
    fn misused(&mut self, range: Range<usize>, message: impl Into<String>, help: &str) {
        self.refuse(range, "config/expansion", message, help);
    }

    fn reference(&mut self, inside: &str, whole: Range<usize>) {
        if let Some(id) = inside.strip_prefix("input:") {
            return self.input(id, whole);
        }
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        match (self.builtin(name), name.split_once(':')) {
            (Some(Ok(value)), _) => {
                self.push(&value);
                self.out.via.push(name.to_owned());
            }
            (Some(Err((message, help))), _) => self.misused(whole, message, help),
            (None, None) => self.variable(name, default, whole),
            (None, Some(("env", variable))) => self.variable(variable, default, whole),
            (None, Some((scheme @ ("secret" | "keyring" | "cmd"), id))) => {
                self.secret((scheme, id), default, whole);
            }
            (None, Some((scheme, _))) => {
                let help = match scheme {
                    "command" | "config" => "only an editor can; use `${env:NAME}` or an input",
                    "localEnv" | "process" => "write `${env:NAME}`",
                    "workspaceFolder" | "workspaceFolderBasename" | "fileWorkspaceFolder" => {
                        "only an editor has several folders: write `${workspaceFolder}`, or the path"
                    }
                    _ => {
                        "known: `env`, `input`, `secret`, `keyring` and `cmd`; `$${` is a literal `${`"
                    }
                };
                self.misused(whole, format!("`${{{scheme}:...}}` cannot be expanded here"), help);
            }
        }
    }

    /// The value of a built-in reference, or its error and help; `None` for any other name.
    fn builtin(&self, name: &str) -> Option<Result<String, (String, &'static str)>> {
        // A lossy spelling would name another file, so paths that are not UTF-8 are refused.
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| {
                let path = base::text::path::spelled(path);
                let message = format!("{path} is not UTF-8, and cannot be put into a text");
                (message, "write a relative path, or rename the folder")
            })
        };
        let homeless =
            || ("the home folder is not known".to_owned(), "set HOME, or write the path out");
        let workspace = &self.scope.workspace;
        Some(match name {
            "workspaceFolder" => text(workspace),
            "workspaceFolderBasename" => text(workspace.file_name().unwrap_or_default().as_ref()),
            "userHome" => self.scope.env.home.as_deref().ok_or_else(homeless).and_then(text),
            "cwd" => text(&self.scope.env.cwd),
            "pathSeparator" | "/" => Ok(std::path::MAIN_SEPARATOR.to_string()),
            _ => return None,
        })
    }

    fn variable(&mut self, name: &str, default: Option<&str>, whole: Range<usize>) {
        if !is_variable(name) {
            let message = match name {
                "" => "nothing is named between `${` and `}`".to_owned(),
                name => format!("`{name}` is not the name of a variable"),
            };
            return self.misused(whole, message, "write `$${` for a literal `${`");
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
            (_, Some(default)) => self.default(name, default, whole),
            (Some(_), None) => {
                let message = format!("the variable `{name}` is set but empty");
                let help = format!("give it a value, or allow it: `${{{name}:-}}`");
                self.refuse(whole, "config/empty-variable", message, help);
            }
            (None, None) if env_property(name).is_some() => {
                let variable = env_property(name).unwrap_or_default();
                let message = format!("`{name}` is not how a variable is named here");
                let help = format!("write `${{env:{variable}}}`");
                self.refuse(whole, "config/unset-variable", message, help);
            }
            (None, None) if is_bundle_variable(name) => {
                let message = format!("only a bundle or a plugin knows `${{{name}}}`");
                let help = format!(
                    "write the value itself, or a default: `${{{name}:-value}}`; `mcpdeck add FILE` \
                     adds a bundle"
                );
                self.refuse(whole, "config/unset-variable", message, help);
            }
            (None, None) if OF_EDITORS.contains(&name) => {
                let message = format!("only an editor knows `${{{name}}}`");
                let help = match name {
                    "workspaceRoot" | "fileWorkspaceFolder" => "write `${workspaceFolder}`".into(),
                    _ => format!("write the value itself, or a default: `${{{name}:-value}}`"),
                };
                self.refuse(whole, "config/unset-variable", message, help);
            }
            (None, None) => {
                let message = format!("the variable `{name}` is not set");
                let help = format!("set {name}, or give a default: `${{{name}:-value}}`");
                self.refuse(whole, "config/unset-variable", message, help);
            }
        }
    }

    fn secret(&mut self, (scheme, name): (&str, &str), default: Option<&str>, whole: Range<usize>) {
        match (self.scope.env.sources.get(scheme, name), default) {
            (Ok(value), _) => {
                self.push(value.expose());
                self.out.via.push(format!("{scheme}:{name}"));
                self.out.secrets.push(value);
            }
            (Err(_), Some(default)) => self.default(&format!("{scheme}:{name}"), default, whole),
            (Err(why), None) => {
                let help = match scheme {
                    "secret" => "`mcpdeck secret set NAME` keeps one; `:-text` gives a default",
                    "keyring" => "`mcpdeck secret set NAME --keyring` keeps one",
                    _ => "helpers are named in helpers.json of your own configuration folder",
                };
                self.refuse(whole, "config/secret", why, help);
            }
        }
    }

    /// Expands a default, which may contain references; it ends just before the closing brace.
    fn default(&mut self, of: &str, default: &str, whole: Range<usize>) {
        if self.depth >= MAX_DEFAULT_DEPTH {
            return self.misused(whole, TOO_MUCH, FEWER);
        }
        self.out.via.push(format!("default of {of}"));
        self.depth += 1;
        self.run(default, whole.end - 1 - default.len());
        self.depth -= 1;
    }

    fn input(&mut self, id: &str, whole: Range<usize>) {
        let declared = self.scope.inputs.iter().find(|input| input.id == id);
        let command = self.scope.commands.iter().any(|known| known == id);
        if !command && declared.is_none() {
            let message = format!("no input `{id}` is declared");
            let help =
                format!("add {{ \"id\": \"{id}\", \"type\": \"promptString\" }} to `inputs`");
            return self.refuse(whole, "config/unknown-input", message, help);
        }
        let variable = input_variable(id);
        match (self.scope.env.input(id), self.scope.stand_in) {
            (Some(value), _) => {
                self.push(value.expose());
                let is_plain = declared.is_some_and(|input| !input.is_password());
                if !is_plain || looks_secret(value.expose()) {
                    self.out.secrets.push(value.clone());
                }
            }
            (None, _) if command => {
                let message = format!(
                    "the input `{id}` runs a command of an editor, which cannot be done here"
                );
                let help = format!("set {variable}, or declare it as `promptString`");
                self.refuse(whole, "config/input-command", message, help);
            }
            (None, Some(stand_in)) => self.push(&stand_in(id)),
            (None, None) => {
                let message = format!("the input `{id}` has no answer yet");
                let help = format!("set {variable}, or answer it in the dashboard");
                self.refuse(whole, "config/input-needed", message, help);
                self.refused.last_mut().map(|refusal| refusal.unanswered.replace(id.to_owned()));
            }
        }
        self.out.via.push(format!("input:{id}"));
    }
}

/// Variables of VS Code that depend on what is open in it.
const OF_EDITORS: [&str; 22] = [
    "workspaceRoot",
    "fileWorkspaceFolder",
    "fileWorkspaceFolderBasename",
    "file",
    "fileBasename",
    "fileBasenameNoExtension",
    "fileDirname",
    "fileDirnameBasename",
    "fileExtname",
    "relativeFile",
    "relativeFileDirname",
    "lineNumber",
    "columnNumber",
    "selectedText",
    "execPath",
    "defaultBuildTask",
    "extensionInstallFolder",
    "containerWorkspaceFolder",
    "containerWorkspaceFolderBasename",
    "localWorkspaceFolder",
    "localWorkspaceFolderBasename",
    "userData",
];

/// The variable that a name means as a property of the environment: `env.HOME`.
fn env_property(name: &str) -> Option<&str> {
    let variable = name.strip_prefix("process.").unwrap_or(name).strip_prefix("env.")?;
    (is_variable(variable) && !variable.contains('.')).then_some(variable)
}

/// Whether a name is set by what installs a bundle (.mcpb), a plugin or an extension.
fn is_bundle_variable(name: &str) -> bool {
    name == "__dirname"
        || name == "extensionPath"
        || name == "DOCUMENTS"
        || name == "DESKTOP"
        || name == "DOWNLOADS"
        || name.starts_with("user_config.")
        || name.starts_with("CLAUDE_PLUGIN_")
}

const TOO_MUCH: &str = "this expands too deep or too far";
const FEWER: &str = "use fewer nested defaults";

/// Letters, digits and `_`; also names used on Windows, such as `ProgramFiles(x86)`.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '(' | ')' | '.' | '-'))
}

/// Offset of the brace that closes the reference whose content starts at `from`; inner ones nest.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InputKind;

    fn ask(text: &str) -> Result<String, Vec<String>> {
        let mut env = Environment {
            cwd: "/here".into(),
            home: Some("/home/u".into()),
            ..Environment::default()
        };
        for (name, value) in [("A", "1"), ("NESTED", "${A}"), ("EMPTY", ""), ("DOLLAR", "$$")] {
            env.vars.insert(name.into(), Secret::new(value));
        }
        env.inputs.insert("key".into(), Secret::new("typed"));
        let inputs = ["key", "open"].map(|id| InputConfig {
            id: id.to_owned(),
            description: String::new(),
            kind: InputKind::PromptString { password: true },
            default: None,
        });
        let scope = ExpandScope {
            workspace: "/w/p".into(),
            inputs: &inputs,
            ..ExpandScope::from_env(&env)
        };
        expand(text, &scope)
            .map(|e| e.text)
            .map_err(|all| all.into_iter().map(|r| r.message).collect())
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
                "the variable `NO` is not set".to_owned(),
                "the variable `EMPTY` is set but empty".to_owned(),
                "the input `open` has no answer yet".to_owned(),
                "no input `none` is declared".to_owned(),
                "`${command:...}` cannot be expanded here".to_owned(),
                "`1a` is not the name of a variable".to_owned(),
                "nothing is named between `${` and `}`".to_owned(),
            ])
        );
        assert_eq!(ask("a${A"), Err(vec!["`${` is never closed".to_owned()]));
        let also = "the variable `ALSO_NO` is not set".to_owned();
        assert_eq!(ask("${NO:-${ALSO_NO}}"), Err(vec![also]));
    }

    #[test]
    fn what_an_editor_alone_knows_is_told_as_such() {
        for name in ["file", "workspaceRoot", "fileWorkspaceFolder", "execPath", "lineNumber"] {
            let text = format!("${{{name}}}");
            assert_eq!(ask(&text), Err(vec![format!("only an editor knows `{text}`")]));
            assert_eq!(ask(&format!("${{{name}:-x}}")).as_deref(), Ok("x"));
        }
    }

    #[test]
    fn how_others_spell_a_variable_leads_to_how_it_is_spelled_here() {
        let env = Environment::default();
        for (text, help) in [
            ("${env.HOME}", "write `${env:HOME}`"),
            ("${process.env.API_KEY}", "write `${env:API_KEY}`"),
            ("${localEnv:HOME}", "write `${env:NAME}`"),
            ("${workspaceFolder:api}", "`${workspaceFolder}`"),
            ("${containerWorkspaceFolder}", "write the value itself"),
            ("${__dirname}", "mcpdeck add FILE"),
            ("${user_config.api_key}", "mcpdeck add FILE"),
            ("${CLAUDE_PLUGIN_ROOT}", "mcpdeck add FILE"),
        ] {
            let refused = expand(text, &ExpandScope::from_env(&env)).expect_err("no value");
            assert!(refused[0].help.contains(help), "{text}: {}", refused[0].help);
        }
    }

    #[test]
    fn the_place_of_a_nested_failure_is_exact() {
        let env = Environment::default();
        let scope = ExpandScope::from_env(&env);
        let text = "ab${X:-${Y}}";
        let refused = expand(text, &scope).expect_err("unset");
        assert_eq!(text.get(refused[0].range.clone()), Some("${Y}"));
    }

    #[test]
    fn nested_defaults_end_somewhere() {
        let text = format!("{}x{}", "${N:-".repeat(50), "}".repeat(50));
        assert_eq!(ask(&text), Err(vec![TOO_MUCH.to_owned()]));
    }

    #[test]
    fn what_expands_without_end_is_refused_once() {
        let long = "x".repeat(MAX_EXPANDED_BYTES / 4);
        assert!(ask(&format!("${{NO:-{long}}}").repeat(4)).is_ok());
        let text = format!("${{NO:-{long}}}").repeat(6);
        assert_eq!(ask(&text), Err(vec![TOO_MUCH.to_owned()]));
    }
}
