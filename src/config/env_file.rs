//! `envFile`: `NAME=value` lines in dotenv syntax. Pure except for reading the file.
//!
//! `#` starts a comment, `export ` is allowed. Single quotes are literal; double quotes support
//! `\n`, `\r`, `\t`, `\"`, `\\` and `\$`; both may span lines. Outside single quotes, `${NAME}` is
//! expanded from earlier lines and the environment.

use std::ops::Range;
use std::path::Path;

use crate::expand::{ExpandScope, Expanded, expand};
use crate::source::SourceText;
use crate::{Diagnostic, Environment, Severity};
use base::Secret;

/// A variable of an env file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvLine {
    pub(crate) name: String,
    pub(crate) value: String,
    /// Bytes of the name.
    pub(crate) range: Range<usize>,
    /// Sources of its expanded parts, for example `env:HOST`.
    pub(crate) via: Vec<String>,
    /// The value before expansion, if anything was expanded.
    pub(crate) written: Option<Secret>,
}

/// Parses the lines of a source; returns a diagnostic for every invalid line.
pub(crate) fn parse(source: &SourceText, env: &Environment) -> (Vec<EnvLine>, Vec<Diagnostic>) {
    let text = source.text();
    let mut lines: Vec<EnvLine> = Vec::new();
    let mut problems = Vec::new();
    let mut report = |range: Range<usize>, rule: &str, message: &str, help: &str| {
        let mut problem = source.diagnostic(rule, Severity::Error, range, message);
        problem.help(help);
        problems.push(problem);
    };
    let mut local: Vec<(String, String)> = Vec::new();
    let mut next = 0;
    while next < text.len() {
        let (at, end) = (next, line_end(text, next));
        next = end + 1;
        let line = text.get(at..end).unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        let body = line.trim();
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let Some(eq) = line.find('=') else {
            let range = at + indent..at + indent + body.len();
            report(range, "config/env-file", "this line has no `=`", "write NAME=value");
            continue;
        };
        let before = line.get(..eq).unwrap_or_default().trim();
        let name = before.strip_prefix("export ").unwrap_or(before).trim();
        let start = at + line.find(name).unwrap_or(indent);
        let range = start..start + name.len().max(1);
        if name.is_empty() || name.contains(char::is_whitespace) {
            let message = "this is not the name of a variable";
            report(range, "config/env-name", message, "write NAME=value");
            continue;
        }
        let (raw, is_literal, behind) = match value(text, at + eq + 1) {
            Ok(found) => found,
            Err(open) => {
                let message = "this quote is never closed";
                report(open..open + 1, "config/env-file", message, "close it, or leave it out");
                break;
            }
        };
        next = behind;
        let expanded = if is_literal {
            Ok(Expanded { text: raw.clone(), ..Expanded::default() })
        } else {
            expand(&raw, &ExpandScope { local: &local, ..ExpandScope::from_env(env) })
        };
        match expanded {
            Ok(Expanded { text: value, via, .. }) => {
                local.push((name.to_owned(), value.clone()));
                let written = (!via.is_empty()).then(|| Secret::new(raw));
                lines.push(EnvLine { name: name.to_owned(), value, range, via, written });
            }
            Err(refusals) => {
                for refusal in refusals {
                    report(range.clone(), refusal.rule, &refusal.message, &refusal.help);
                }
            }
        }
    }
    (lines, problems)
}

impl Environment {
    /// Adds the variables of an env file (`--env-file`); they override existing ones.
    ///
    /// # Errors
    /// When the file cannot be read or a line is invalid; nothing is added then.
    pub fn add_file(&mut self, path: &Path) -> Result<(), Vec<Diagnostic>> {
        let source = SourceText::read_env_file(path).map_err(|problem| vec![*problem])?;
        let (lines, problems) = parse(&source, self);
        if !problems.is_empty() {
            return Err(problems);
        }
        self.vars.extend(lines.into_iter().map(|line| (line.name, Secret::new(line.value))));
        Ok(())
    }
}

fn line_end(text: &str, from: usize) -> usize {
    text.get(from..).and_then(|rest| rest.find('\n')).map_or(text.len(), |i| from + i)
}

/// Returns the value after the `=`, whether it is literal, and where the next line starts; the
/// error is the offset of an unclosed quote.
fn value(text: &str, from: usize) -> Result<(String, bool, usize), usize> {
    let end = line_end(text, from);
    let line = text.get(from..end).unwrap_or_default();
    let start = from + (line.len() - line.trim_start_matches([' ', '\t']).len());
    match text.as_bytes().get(start) {
        Some(b'\'') => {
            let rest = text.get(start + 1..).unwrap_or_default();
            let close = rest.find('\'').ok_or(start)?;
            let value = rest.get(..close).unwrap_or_default().to_owned();
            Ok((value, true, line_end(text, start + 1 + close) + 1))
        }
        Some(b'"') => double_quoted(text, start),
        _ => {
            // A `#` after white space starts a comment; one inside a word does not.
            let mut value = text.get(start..end).unwrap_or_default();
            if value.starts_with('#') {
                value = "";
            } else if let Some(i) = value.find(" #").or_else(|| value.find("\t#")) {
                value = value.get(..i).unwrap_or_default();
            }
            Ok((value.trim().to_owned(), false, end + 1))
        }
    }
}

fn double_quoted(text: &str, start: usize) -> Result<(String, bool, usize), usize> {
    let mut out = String::new();
    let mut chars = text.get(start + 1..).unwrap_or_default().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                return Ok((out, false, line_end(text, text.len() - chars.as_str().len()) + 1));
            }
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                // Written as `$$` where it would otherwise open a reference.
                Some('$') if chars.as_str().starts_with('{') => out.push_str("$$"),
                Some('$') => out.push('$'),
                Some(c @ ('"' | '\\')) => out.push(c),
                Some(c) => out.extend(['\\', c]),
                None => break,
            },
            c => out.push(c),
        }
    }
    Err(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::secret::Secret;

    fn read(text: &str) -> (Vec<(String, String)>, Vec<String>) {
        let mut env = Environment::default();
        env.vars.insert("HOST".into(), Secret::new("h"));
        let (lines, problems) = parse(&SourceText::new(".env", text), &env);
        let problems = problems.into_iter().map(|p| format!("{} {}", p.at.line, p.message));
        (lines.into_iter().map(|l| (l.name, l.value)).collect(), problems.collect())
    }

    #[test]
    fn the_usual_spellings_are_read() {
        let text = "# c\n\nexport A=1\nB = two words # c\nC='${A} #x'\nD=\"l1\\nl2 ${A}${HOST}\"\r\n\
                    E=a#b\nF=\nG=\"two\nlines\"\nH=${NO:-d}\nI=\"\\${A}\"\n";
        let (lines, problems) = read(text);
        assert_eq!(problems, [""; 0]);
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "${A} #x"),
            ("D", "l1\nl2 1h"),
            ("E", "a#b"),
            ("F", ""),
            ("G", "two\nlines"),
            ("H", "d"),
            ("I", "${A}"),
        ];
        assert_eq!(lines, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
    }

    #[test]
    fn every_bad_line_is_reported_and_the_others_are_read() {
        let (lines, problems) = read("novalue\n=x\nA=${NOPE}\nB=1\nC=\"open\n");
        assert_eq!(lines, [("B".to_owned(), "1".to_owned())]);
        assert_eq!(
            problems,
            [
                "1 this line has no `=`",
                "2 this is not the name of a variable",
                "3 the variable `NOPE` is not set",
                "5 this quote is never closed",
            ]
        );
    }
}
