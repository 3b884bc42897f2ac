//! Problems of a configuration and their positions, one value each; rendering.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::source::SourceText;
use base::{SafeText, Secret, ServerName};

/// How much a problem weighs.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
    strum::Display,
    strum::EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing has to change.
    Note,
    /// Probably a mistake; the file is still used.
    Warning,
    /// The file (or the server it names) cannot be used.
    #[default]
    Error,
}

/// A place in a file: 1-based line and column (in characters), as editors count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The file, as the user named it; empty for values that come from no file.
    #[serde(serialize_with = "base::text::path::one")]
    pub file: PathBuf,
    /// 1-based line; 0 when unknown.
    pub line: u32,
    /// 1-based column in characters; 0 when unknown.
    pub column: u32,
}

/// As far as it is known: `FILE:LINE:COLUMN`, `FILE`, `LINE:COLUMN`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match (self.file.as_os_str().is_empty(), self.line) {
            (true, 0) => Ok(()),
            (true, line) => write!(f, "{line}:{}", self.column),
            (false, 0) => write!(f, "{file}"),
            (false, line) => write!(f, "{file}:{line}:{}", self.column),
        }
    }
}

/// The origin of one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueOrigin {
    /// The place in a file.
    pub at: Position,
    /// What its parts were expanded from, for example `env:GITHUB_TOKEN` or `input:key`; empty for
    /// a literal value.
    pub via: Vec<String>,
    /// The value as written, if it was expanded. A secret: part of it may be one.
    pub written: Option<Secret>,
}

impl ValueOrigin {
    /// The written form, when the value depends on variables, answers or secrets of the user.
    pub fn template(&self) -> Option<&str> {
        const OWN: [&str; 6] = ["env:", "input:", "secret:", "keyring:", "cmd:", "default of "];
        let own = |via: &String| OWN.iter().any(|scheme| via.starts_with(scheme));
        self.written.as_ref().filter(|_| self.via.iter().any(own)).map(Secret::expose)
    }
}

/// Origins by pointer into the effective document, `/servers/NAME/KEY...`. A value without one is a
/// default.
pub type Origins = BTreeMap<String, ValueOrigin>;

/// A span of a snippet, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnippetMark {
    /// First character, counted from 0.
    pub start: u32,
    /// How many; 0 when there is nothing to underline.
    pub len: u32,
}

/// One problem of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Stable id, for example `config/unknown-key`.
    pub rule: String,
    /// Its severity.
    pub severity: Severity,
    /// Where it is.
    pub at: Position,
    /// JSON pointer (RFC 6901) of the value, for example `/servers/github/args/1`.
    pub pointer: String,
    /// The server whose entry this is, when it belongs to one.
    pub server: Option<ServerName>,
    /// What is wrong, in one sentence, secrets masked.
    pub message: String,
    /// The offending source line, secrets masked, safe to print; windowed when it is very long.
    pub snippet: String,
    /// Which characters of `snippet` to underline.
    #[serde(default)]
    pub mark: SnippetMark,
    /// What to do, for example "did you mean `command`?".
    pub help: Option<String>,
}

/// The place, as far as it is known, and the message.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.to_string();
        let gap = if at.is_empty() { "" } else { ": " };
        write!(f, "{at}{gap}{}", self.message)
    }
}

impl Diagnostic {
    /// A problem without a position in a file.
    pub fn new(rule: &str, severity: Severity, message: impl Into<String>) -> Self {
        Self { rule: rule.to_owned(), severity, message: message.into(), ..Self::default() }
    }

    /// Whether it keeps the file, or the server it names, from being used.
    pub const fn is_error(&self) -> bool {
        matches!(self.severity, Severity::Error)
    }

    /// Whether it tells of a setting that has no effect, so that what the user asked for does not
    /// happen.
    pub fn is_ignored_setting(&self) -> bool {
        const RULES: [&str; 3] =
            ["config/unknown-key", "config/unused-key", "config/duplicate-key"];
        RULES.contains(&self.rule.as_str()) && self.severity == Severity::Warning
    }

    /// Sets the help text.
    pub(crate) fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }
}

// Collects the problems of one file, each with its place.

/// Number of problems that get a snippet; later ones only have a position.
const MAX_SNIPPETS: usize = 1_000;

/// Problems found so far.
pub(crate) struct Problems<'a> {
    pub(crate) source: &'a SourceText,
    /// The server whose entry is being checked.
    pub(crate) server: Option<ServerName>,
    pub(crate) list: Vec<Diagnostic>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(source: &'a SourceText) -> Self {
        Self { source, server: None, list: Vec::new() }
    }

    /// Adds an error; the result lets the caller add help.
    pub(crate) fn error(
        &mut self,
        rule: &str,
        range: &Range<usize>,
        pointer: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.report((rule, Severity::Error), range, pointer, message)
    }

    /// Adds a warning.
    pub(crate) fn warn(
        &mut self,
        rule: &str,
        range: &Range<usize>,
        pointer: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.report((rule, Severity::Warning), range, pointer, message)
    }

    pub(crate) fn report(
        &mut self,
        (rule, severity): (&str, Severity),
        range: &Range<usize>,
        pointer: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        // Of so many problems, users read only the first ones.
        let mut problem = if self.list.len() < MAX_SNIPPETS {
            self.source.diagnostic(rule, severity, range.clone(), message)
        } else {
            let at = self.source.position(range.start);
            Diagnostic { at, ..Diagnostic::new(rule, severity, message) }
        };
        pointer.clone_into(&mut problem.pointer);
        problem.server.clone_from(&self.server);
        self.list.push(problem);
        let last = self.list.len() - 1;
        &mut self.list[last]
    }
}

/// The known word closest to `asked`, if it is close enough to be meant. The cost grows with the
/// product of the lengths, so long words are skipped.
pub(crate) fn closest<'a>(
    asked: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    const MAX_NAME_BYTES: usize = 64;
    const MAX_KNOWN_NAMES: usize = 1_000;
    let plain = |s: &str| -> String {
        s.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
    };
    if asked.len() > MAX_NAME_BYTES {
        return None;
    }
    let wanted = plain(asked);
    let most = (wanted.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter(|word| word.len() <= MAX_NAME_BYTES)
        .take(MAX_KNOWN_NAMES)
        .map(|word| (strsim::damerau_levenshtein(&wanted, &plain(word)), word))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

// Rendering for users: the line, a caret under the marked part, and the help.
//
// Plain text. Messages, names and snippets pass through [`SafeText`] before they are printed.

/// Renders one diagnostic, without a trailing line break.
///
/// ```text
/// error: the variable `TOKEN` is not set  [config/unset-variable]
///   --> mcp.json:12:24  /servers/github/env/TOKEN
///    |
/// 12 | "TOKEN": "${TOKEN}"
///    |           ^^^^^^^^
///    = set TOKEN, or give a default: `${TOKEN:-value}`
/// ```
pub fn render(diagnostic: &Diagnostic) -> String {
    let level = diagnostic.severity;
    let (message, rule) = (SafeText::line(&diagnostic.message), SafeText::line(&diagnostic.rule));
    let mut out = format!("{level}: {message}  [{rule}]");
    let number = diagnostic.at.line.to_string();
    let gutter = if diagnostic.at.line == 0 { 1 } else { number.len() };
    let blank = " ".repeat(gutter);
    if !diagnostic.at.file.as_os_str().is_empty() {
        let place = SafeText::line(&diagnostic.at.to_string());
        let pointer = SafeText::line(&diagnostic.pointer);
        let gap = if pointer.is_empty() { "" } else { "  " };
        let _ = write!(out, "\n{blank}--> {place}{gap}{pointer}");
    }
    if !diagnostic.snippet.is_empty() {
        let snippet = SafeText::line(&diagnostic.snippet);
        let caret = "^".repeat(diagnostic.mark.len as usize);
        let indent = " ".repeat(diagnostic.mark.start as usize);
        let _ = write!(out, "\n{blank} |\n{number} | {snippet}\n{blank} | {indent}{caret}");
    }
    if let Some(help) = &diagnostic.help {
        let _ = write!(out, "\n{blank} = {}", SafeText::line(help));
    }
    out
}

/// Renders all, separated by blank lines, with a count at the end: `2 errors, 1 warning`.
pub fn render_all(diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&render(diagnostic));
        out.push_str("\n\n");
    }
    let severities = diagnostics.iter().map(|d| d.severity);
    out.push_str(&severity_summary(severities).unwrap_or_else(|| "no problems".to_owned()));
    out.push('\n');
    out
}

/// The number of problems of each severity as text; `None` without any.
pub fn severity_summary(all: impl Iterator<Item = Severity>) -> Option<String> {
    let all: Vec<Severity> = all.collect();
    let counted = |kind: Severity| {
        let n = all.iter().filter(|severity| **severity == kind).count();
        (n > 0).then(|| format!("{n} {kind}{}", if n == 1 { "" } else { "s" }))
    };
    let kinds = [Severity::Error, Severity::Warning, Severity::Note];
    let parts: Vec<String> = kinds.into_iter().filter_map(counted).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod render_tests {
    use super::*;
    use crate::source::SourceText;

    fn sample() -> Diagnostic {
        let text = "{\n  \"servers\": {\"a\": {\"cmmand\": \"x\"}}\n}";
        let source = SourceText::new("mcp.json", text);
        let at = text.find("\"cmmand\"").expect("there");
        let message = "`cmmand` is not a known key of a server";
        let mut out =
            source.diagnostic("config/unknown-key", Severity::Warning, at..at + 8, message);
        out.pointer = "/servers/a/cmmand".into();
        out.help = Some("did you mean `command`?".into());
        out
    }

    #[test]
    fn the_caret_stands_under_what_is_meant() {
        let expected = "warning: `cmmand` is not a known key of a server  [config/unknown-key]\n \
                        --> mcp.json:2:21  /servers/a/cmmand\n  |\n\
                        2 | \"servers\": {\"a\": {\"cmmand\": \"x\"}}\n  \
                        |                   ^^^^^^^^\n  = did you mean `command`?";
        assert_eq!(render(&sample()), expected);
    }

    #[test]
    fn a_place_is_shown_as_far_as_it_is_known() {
        let mut missing = Diagnostic::new("config/read", Severity::Error, "it does not exist");
        assert_eq!(missing.to_string(), "it does not exist");
        missing.at.file = "mcp.json".into();
        assert_eq!(missing.to_string(), "mcp.json: it does not exist");
        (missing.at.line, missing.at.column) = (2, 3);
        assert_eq!(missing.to_string(), "mcp.json:2:3: it does not exist");
    }

    #[test]
    fn nothing_in_a_diagnostic_can_act_on_the_terminal() {
        let mut hostile = sample();
        hostile.message = "a\u{1b}]52;c;x\u{7}".into();
        hostile.pointer = "/\u{1b}[2J".into();
        hostile.at.file = "x\u{1b}[31m".into();
        assert!(!render(&hostile).contains('\u{1b}'));
    }

    #[test]
    fn the_summary_counts_each_severity() {
        assert_eq!(render_all(&[]), "no problems\n");
        let mut error = sample();
        error.severity = Severity::Error;
        let all = render_all(&[error.clone(), sample(), error]);
        assert!(all.ends_with("2 errors, 1 warning\n"), "{all}");
    }
}
