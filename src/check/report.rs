//! Reports: one model, rendered for people, for programs and for CI systems. Pure; writes nothing.

mod human;
mod junit;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Report;
use super::model::{CheckFinding, CheckVerdict, ServerReport};
use base::SafeText;
use base::human::Dur;
use base::text::json;
use config::Severity;
pub use human::{ReportDetail, Style};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum ReportFormat {
    /// For people.
    #[default]
    Human,
    /// Our own JSON, with a schema.
    Json,
    /// `JUnit` XML.
    Junit,
    /// SARIF 2.1.0.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
}

/// A format and its destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportOutput {
    pub format: ReportFormat,
    /// The file; stdout without one.
    pub file: Option<PathBuf>,
}

impl FromStr for ReportOutput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, file) = match text.split_once('=') {
            Some((_, "")) => return Err(format!("`{text}` names no file after `=`")),
            Some((word, file)) => (word, Some(PathBuf::from(file))),
            None => (text, None),
        };
        let format: ReportFormat = word.parse().map_err(|_| {
            format!("there is no format `{word}`; write human, json, junit, sarif or github")
        })?;
        Ok(Self { format, file })
    }
}

impl ReportFormat {
    /// Renders the report in this format. `style` applies to [`ReportFormat::Human`] only.
    pub fn render(self, report: &Report, style: Style) -> String {
        match self {
            Self::Human => human::render(report, style),
            Self::Json => json::pretty(report) + "\n",
            Self::Junit => junit::junit(report),
            Self::Sarif => junit::sarif(report),
            Self::Github => annotations(report),
        }
    }
}

/// The JSON Schema of the JSON report.
pub fn report_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<Report>().to_value()
}

// The report for GitHub Actions: annotations on stdout and a job summary in Markdown.

/// The annotations, one workflow command per line.
fn annotations(report: &Report) -> String {
    let mut out = String::new();
    for (server, finding) in report.all() {
        annotation(&mut out, report, server, finding);
    }
    let _ = writeln!(out, "mcpdeck: {}", report.verdict.as_str());
    out
}

fn annotation(
    out: &mut String,
    report: &Report,
    server: Option<&ServerReport>,
    finding: &CheckFinding,
) {
    let command = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let (file, at) = report.place(server, finding);
    let mut properties = Vec::new();
    let file = file.map(from_root);
    properties.extend(file.map(|file| format!("file={}", property(&file.to_string_lossy()))));
    properties.extend(at.map(|at| format!("line={},col={}", at.line, at.column.max(1))));
    let who = server.map(|s| format!("{}: ", s.name)).unwrap_or_default();
    properties.push(format!("title={}", property(&format!("{who}{}", finding.rule))));
    let place = finding.prefix();
    let text = format!("{who}{place}{}\n{}", finding.message, finding.help);
    let _ = writeln!(out, "::{command} {}::{}", properties.join(","), data(text.trim_end()));
}

/// A file as who reads the report finds it: from the root of the checkout that GitHub names, which
/// need not be the folder of the step, or else from here.
fn from_root(file: &Path) -> PathBuf {
    let Ok(here) = std::env::current_dir() else { return file.to_owned() };
    let root = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
    let root = root.filter(|root| here.starts_with(root)).unwrap_or_else(|| here.clone());
    let whole = config::clean_path(&here.join(file));
    whole.strip_prefix(root).map_or_else(|_| file.to_owned(), Path::to_owned)
}

/// Escapes the text of a workflow command, so that nothing in it can begin another one, nor speak to
/// the terminal of whoever reads the log.
fn data(text: &str) -> String {
    let text = SafeText::block(text);
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The job summary.
pub fn github_summary(report: &Report) -> String {
    let mut out = format!("### mcpdeck --check: {}\n\n", report.verdict.as_str());
    out.push_str("| server | verdict | version | tools | prompts | resources | time |\n");
    out.push_str("| --- | --- | --- | ---: | ---: | ---: | ---: |\n");
    for server in &report.servers {
        let _ = writeln!(
            out,
            "| {} | {} {} | {} | {} | {} | {} | {} |",
            cell(&server.name),
            mark(server.verdict),
            server.verdict.as_str(),
            cell(server.protocol_version.as_deref().unwrap_or("-")),
            server.counts.tools,
            server.counts.prompts,
            server.counts.resources,
            Dur(server.took),
        );
    }
    let serious: Vec<_> = report.all().filter(|(_, f)| f.severity > Severity::Note).collect();
    if !serious.is_empty() {
        out.push_str("\n| | server | rule | finding |\n| --- | --- | --- | --- |\n");
        for (server, finding) in serious {
            let place = finding.prefix();
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} |",
                finding.severity,
                cell(server.map_or("", |s| &s.name)),
                cell(&finding.rule),
                cell(&format!("{place}{}", finding.message)),
            );
        }
    }
    out
}

const fn mark(verdict: CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Ok => "✅",
        CheckVerdict::Violated => "❌",
        CheckVerdict::Incomplete | CheckVerdict::Usage => "⚠️",
    }
}

/// Escapes text, so that Markdown shows it verbatim: no link, image, tag, mention or end of cell.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '!' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_workflow_command_can_neither_end_it_nor_speak_to_a_terminal() {
        assert_eq!(data("50%\n::error::\u{1b}[31m"), "50%25%0A::error::␛[31m");
        assert_eq!(property("a: b,\u{7}c"), "a%3A b%2C␇c");
    }
}
