//! Diagnostics for people: the line, a caret under what is meant, and what to do.
//!
//! Writes plain text; whether it is coloured is the caller's decision. Everything printed is safe:
//! messages, names and snippets pass through [`SafeText`].

use std::fmt::Write;

use crate::base::text::SafeText;
use crate::config::{Diagnostic, Severity};

/// Whether ANSI colours are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    #[default]
    Never,
    /// ANSI escapes of the sixteen basic colours.
    Ansi,
}

impl Colour {
    fn paint(self, style: &str, text: &str) -> String {
        match self {
            Self::Never => text.to_owned(),
            Self::Ansi => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
        }
    }
}

/// One diagnostic, without a line break at its end.
///
/// ```text
/// error: the variable `TOKEN` is not set  [config/unset-variable]
///   --> mcp.json:12:24  /servers/github/env/TOKEN
///    |
/// 12 | "TOKEN": "${TOKEN}"
///    |           ^^^^^^^^
///    = set TOKEN, or give a default: `${TOKEN:-value}`
/// ```
pub fn render(diagnostic: &Diagnostic, colour: Colour) -> String {
    let (style, under) = match diagnostic.severity {
        Severity::Error => ("1;31", "31"),
        Severity::Warning => ("1;33", "33"),
        Severity::Note => ("1;36", "36"),
    };
    let mut out = String::new();
    let level = colour.paint(style, &diagnostic.severity.to_string());
    let message = colour.paint("1", &SafeText::line(&diagnostic.message));
    let rule = colour.paint("2", &format!("[{}]", SafeText::line(&diagnostic.rule)));
    let _ = write!(out, "{level}: {message}  {rule}");
    let number = diagnostic.at.line.to_string();
    let gutter = if diagnostic.at.line == 0 { 1 } else { number.len() };
    let blank = " ".repeat(gutter);
    if !diagnostic.at.file.as_os_str().is_empty() {
        let place = if diagnostic.at.line == 0 {
            diagnostic.at.file.display().to_string()
        } else {
            diagnostic.at.to_string()
        };
        let place = SafeText::line(&place);
        let pointer = SafeText::line(&diagnostic.pointer);
        let gap = if pointer.is_empty() { "" } else { "  " };
        let arrow = colour.paint("34", "-->");
        let _ = write!(out, "\n{blank}{arrow} {place}{gap}{}", colour.paint("2", &pointer));
    }
    if !diagnostic.snippet.is_empty() {
        let bar = colour.paint("34", "|");
        let snippet = SafeText::line(&diagnostic.snippet);
        let caret = "^".repeat(diagnostic.mark.len as usize);
        let indent = " ".repeat(diagnostic.mark.start as usize);
        let _ = write!(out, "\n{blank} {bar}\n{} {bar} {snippet}", colour.paint("34", &number));
        let _ = write!(out, "\n{blank} {bar} {indent}{}", colour.paint(under, &caret));
    }
    if let Some(help) = &diagnostic.help {
        let _ = write!(out, "\n{blank} {} {}", colour.paint("34", "="), SafeText::line(help));
    }
    out
}

/// All of them, a blank line between two, and a count at the end: `2 errors, 1 warning`.
pub fn render_all(diagnostics: &[Diagnostic], colour: Colour) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&render(diagnostic, colour));
        out.push_str("\n\n");
    }
    out.push_str(&summary(diagnostics));
    out.push('\n');
    out
}

/// How many there are of each severity, in words.
pub fn summary(diagnostics: &[Diagnostic]) -> String {
    let count = |severity: Severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let parts: Vec<String> = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .map(|severity| (count(severity), severity))
        .filter(|(n, _)| *n > 0)
        .map(|(n, severity)| format!("{n} {severity}{}", if n == 1 { "" } else { "s" }))
        .collect();
    if parts.is_empty() { "no problems".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::Source;

    fn sample() -> Diagnostic {
        let text = "{\n  \"servers\": {\"a\": {\"cmmand\": \"x\"}}\n}";
        let source = Source::new("mcp.json", text);
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
        assert_eq!(render(&sample(), Colour::Never), expected);
    }

    #[test]
    fn colour_changes_nothing_but_escapes() {
        let coloured = render(&sample(), Colour::Ansi);
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some(i) = rest.find('\u{1b}') {
            plain.push_str(&rest[..i]);
            let end = rest[i..].find('m').expect("an SGR escape");
            rest = &rest[i + end + 1..];
        }
        plain.push_str(rest);
        assert_eq!(plain, render(&sample(), Colour::Never));
    }

    #[test]
    fn nothing_in_a_diagnostic_can_act_on_the_terminal() {
        let mut hostile = sample();
        hostile.message = "a\u{1b}]52;c;x\u{7}".into();
        hostile.pointer = "/\u{1b}[2J".into();
        hostile.at.file = "x\u{1b}[31m".into();
        assert!(!render(&hostile, Colour::Never).contains('\u{1b}'));
    }

    #[test]
    fn the_summary_counts_each_severity() {
        assert_eq!(summary(&[]), "no problems");
        let mut error = sample();
        error.severity = Severity::Error;
        assert_eq!(summary(&[error.clone(), sample(), error]), "2 errors, 1 warning");
    }
}
