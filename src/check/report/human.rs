//! The report for people: what is wrong, what to do, and a table at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::model::{CheckFinding, CheckVerdict, DoctorStatus, Report, ServerReport};
use crate::subject::brief;
use base::human::{Dur, count};
use config::{Severity, severity_summary};

/// How the report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to write escape sequences for colour.
    pub colour: bool,
    /// How much is shown.
    pub detail: ReportDetail,
}

/// How much is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportDetail {
    /// Warnings and errors, without the table; empty when the verdict is `ok`.
    Quiet,
    /// Warnings and errors; notes are only counted.
    #[default]
    Brief,
    /// Every step and every note.
    Full,
}

// SGR codes.
const RED: &str = "31";
const YELLOW: &str = "33";
const GREEN: &str = "32";
const DIM: &str = "2";
const BOLD: &str = "1";

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn shows(self, finding: &CheckFinding) -> bool {
        // A denied request is shown too: without its answer the server was not fully checked.
        let denied = self.detail == ReportDetail::Brief && finding.rule == "answers/denied";
        self.detail == ReportDetail::Full || finding.severity > Severity::Note || denied
    }

    fn verdict(self, verdict: CheckVerdict) -> String {
        self.paint(colour_of(verdict), verdict.as_str())
    }
}

const fn colour_of(verdict: CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Ok => GREEN,
        CheckVerdict::Violated | CheckVerdict::Usage => RED,
        CheckVerdict::Incomplete => YELLOW,
    }
}

/// Writes the report.
pub(super) fn render(report: &Report, style: Style) -> String {
    let mut out = String::new();
    section(&mut out, style, "configuration", &report.config.findings);
    for server in &report.servers {
        write_server(&mut out, style, server);
    }
    section(&mut out, style, "across servers", &report.findings);
    if style.detail == ReportDetail::Quiet {
        if report.verdict == CheckVerdict::Ok {
            return String::new();
        }
    } else {
        table(&mut out, style, report);
        if style.detail != ReportDetail::Full {
            write_slow_stops(&mut out, style, report);
        }
    }
    closing(&mut out, style, report);
    out
}

fn section(out: &mut String, style: Style, title: &str, findings: &[CheckFinding]) {
    if findings.iter().any(|f| style.shows(f)) {
        let _ = writeln!(out, "{}", style.paint(BOLD, title));
        write_findings(out, style, findings);
        out.push('\n');
    }
}

fn write_server(out: &mut String, style: Style, server: &ServerReport) {
    let has_findings = server.findings.iter().any(|f| style.shows(f));
    if !has_findings && server.verdict == CheckVerdict::Ok && style.detail != ReportDetail::Full {
        return;
    }
    let name = style.paint(BOLD, &brief(&server.name, 60));
    let _ = writeln!(out, "{name}  {}", style.verdict(server.verdict));
    write_findings(out, style, &server.findings);
    if server.verdict == CheckVerdict::Incomplete || style.detail == ReportDetail::Full {
        write_steps(out, style, server);
    }
    write_stderr(out, style, &server.stderr_tail);
    out.push('\n');
}

/// How many of the last lines on stderr are shown without being asked for more.
const MAX_TAIL_LINES: usize = 16;

/// The lines that say something: neither blank ones nor the frames that banners are drawn with, and,
/// unless everything is shown, not where each function was called.
fn write_stderr(out: &mut String, style: Style, tail: &[String]) {
    let is_call = |line: &str| {
        let text = line.trim_start();
        text.len() < line.len() && text.starts_with("at ")
    };
    let says = |line: &&String| {
        let whole = style.detail == ReportDetail::Full;
        line.contains(char::is_alphanumeric) && (whole || !is_call(line))
    };
    let lines: Vec<&String> = tail.iter().filter(says).collect();
    let shown = if style.detail == ReportDetail::Full { lines.len() } else { MAX_TAIL_LINES };
    let hidden = lines.len().saturating_sub(shown);
    let mark = style.paint(DIM, "stderr |");
    if hidden > 0 {
        let earlier = count(hidden, "earlier line");
        let earlier = style.paint(DIM, &format!("({earlier}; --verbose shows them)"));
        let _ = writeln!(out, "    {mark} {earlier}");
    }
    for line in &lines[hidden..] {
        let _ = writeln!(out, "    {mark} {}", brief(line, 400));
    }
}

/// How many findings that say the same become one with a list of places.
const MIN_ALIKE_FINDINGS: usize = 3;
/// How many of these places are named without being asked for more.
const MAX_NAMED_PLACES: usize = 4;
/// How many findings of one rule on one server are shown without being asked for more.
const MAX_RULE_FINDINGS: usize = 6;

/// Writes the findings that are shown, those of a rule together and its help once. What holds for
/// several places is told once, and of many only the first unless everything is shown.
fn write_findings(out: &mut String, style: Style, findings: &[CheckFinding]) {
    let shown = findings.iter().filter(|f| style.shows(f));
    for ruled in grouped(shown, |f| (f.severity, &f.rule, &f.help)) {
        let alike = grouped(ruled.iter().copied(), |f| (&f.message, f.place.is_empty()));
        let whole = style.detail == ReportDetail::Full || alike.len() <= MAX_RULE_FINDINGS;
        let (shown, hidden) =
            alike.split_at(if whole { alike.len() } else { MAX_RULE_FINDINGS - 1 });
        for same in shown {
            write_alike(out, style, same);
        }
        let hidden = hidden.iter().map(Vec::len).sum();
        write_hidden(out, style, hidden);
        if let Some(first) = ruled.first() {
            write_help(out, style, first);
        }
    }
}

/// The findings by a key, in the order in which each key comes first.
fn grouped<'f, K: Ord>(
    findings: impl Iterator<Item = &'f CheckFinding>,
    key: impl Fn(&'f CheckFinding) -> K,
) -> Vec<Vec<&'f CheckFinding>> {
    let (mut groups, mut places) = (Vec::<Vec<_>>::new(), BTreeMap::new());
    for finding in findings {
        let at = *places.entry(key(finding)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(finding);
    }
    groups
}

/// Writes findings that say the same: each with its place, or several as one with their places.
fn write_alike(out: &mut String, style: Style, same: &[&CheckFinding]) {
    let [first, ..] = same else { return };
    if same.len() < MIN_ALIKE_FINDINGS || first.place.is_empty() {
        for finding in same {
            write_message(out, style, (finding, &finding.prefix()));
        }
        return;
    }
    write_message(out, style, (first, &format!("{}: ", count(same.len(), "place"))));
    let full = style.detail == ReportDetail::Full;
    let named = if full { same.len() } else { same.len().min(MAX_NAMED_PLACES) };
    for finding in &same[..named] {
        let _ = writeln!(out, "          {}", finding.place);
    }
    write_hidden(out, style, same.len() - named);
}

/// Says how many were left out.
fn write_hidden(out: &mut String, style: Style, hidden: usize) {
    if hidden > 0 {
        let more = format!("and {hidden} more; --verbose shows them");
        let _ = writeln!(out, "          {}", style.paint(DIM, &more));
    }
}

fn write_message(out: &mut String, style: Style, (finding, place): (&CheckFinding, &str)) {
    let word = format!("{:7}", finding.severity.to_string());
    let word = match finding.severity {
        Severity::Error => style.paint(RED, &word),
        Severity::Warning => style.paint(YELLOW, &word),
        Severity::Note => style.paint(DIM, &word),
    };
    let rule = style.paint(DIM, &format!("[{}]", finding.rule));
    let _ = writeln!(out, "  {word} {place}{} {rule}", finding.message);
}

fn write_help(out: &mut String, style: Style, finding: &CheckFinding) {
    if !finding.help.is_empty() && finding.severity > Severity::Note {
        let _ = writeln!(out, "          {}", style.paint(DIM, &format!("help: {}", finding.help)));
    }
}

/// A step in words; reports for programs have the names.
fn words_of(step: &str) -> &str {
    match step {
        "firstByte" => "first output",
        "junk" => "clean stdout",
        "resourceTemplates" => "resource templates",
        "shutdown" => "stop",
        "leftovers" => "nothing left behind",
        other => other,
    }
}

/// How long a server took to stop from which on it is told without being asked for.
const STOP_NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

/// Says which servers kept everybody waiting, unless their steps are shown.
fn write_slow_stops(out: &mut String, style: Style, report: &Report) {
    // A server whose steps are shown has its stop among them.
    let shown = report.servers.iter().filter(|s| s.verdict != CheckVerdict::Incomplete);
    let slow = shown.filter_map(|server| {
        let stop = server.steps.iter().find(|step| step.name == "shutdown")?;
        let took = stop.took.filter(|took| *took >= STOP_NOTICE_TIMEOUT)?;
        Some((stop.detail.as_str(), format!("{} {}", brief(&server.name, 40), Dur(took))))
    });
    let mut by_end: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    slow.for_each(|(end, server)| by_end.entry(end).or_default().push(server));
    for (end, servers) in by_end {
        let line = format!("took long to stop ({end}): {}", servers.join(", "));
        let _ = writeln!(out, "{}", style.paint(DIM, &line));
    }
}

fn write_steps(out: &mut String, style: Style, server: &ServerReport) {
    let reached = || server.steps.iter().filter(|step| step.status != DoctorStatus::Pending);
    let widths = reached().map(|step| words_of(&step.name).chars().count());
    let width = widths.max().unwrap_or(0).max(18);
    for step in reached() {
        let (word, colour) = match step.status {
            // A step that is worth only a note is not a failure.
            DoctorStatus::Failed if server.verdict == CheckVerdict::Ok => ("noted", YELLOW),
            DoctorStatus::Ok => ("ok", GREEN),
            DoctorStatus::Failed => ("FAILED", RED),
            DoctorStatus::Skipped | DoctorStatus::Pending => ("-", DIM),
        };
        let took = step.took.map(|took| Dur(took).to_string()).unwrap_or_default();
        let word = style.paint(colour, &format!("{word:11}"));
        let name = words_of(&step.name);
        let line = format!("    {name:width$} {word} {took:>8}  {}", step.detail);
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn table(out: &mut String, style: Style, report: &Report) {
    if report.servers.is_empty() {
        return;
    }
    let names: Vec<String> = report.servers.iter().map(|s| brief(&s.name, 40)).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(6);
    let head = format!(
        "{:width$}  {:10}  {:9}  {:10}  {:>5}  {:>7}  {:>9}  {:>9}  {:>8}",
        "server",
        "verdict",
        "transport",
        "version",
        "tools",
        "prompts",
        "resources",
        "templates",
        "time"
    );
    let _ = writeln!(out, "{}", style.paint(DIM, &head));
    for (server, name) in report.servers.iter().zip(&names) {
        let verdict =
            style.paint(colour_of(server.verdict), &format!("{:10}", server.verdict.as_str()));
        let version =
            server.protocol_version.as_deref().map_or_else(|| "-".into(), |v| brief(v, 10));
        let _ = writeln!(
            out,
            "{name:width$}  {verdict}  {:9}  {version:10}  {:>5}  {:>7}  {:>9}  {:>9}  {:>8}",
            server.transport,
            server.counts.tools,
            server.counts.prompts,
            server.counts.resources,
            server.counts.resource_templates,
            Dur(server.took),
        );
    }
    out.push('\n');
}

fn closing(out: &mut String, style: Style, report: &Report) {
    let found = severity_summary(report.all().map(|(_, f)| f.severity));
    let found = found.unwrap_or_else(|| "nothing to report".to_owned());
    let _ = write!(
        out,
        "{}: {found} in {}, {}",
        style.verdict(report.verdict),
        count(report.servers.len(), "server"),
        Dur(report.took)
    );
    let hidden = report.all().any(|(_, finding)| !style.shows(finding));
    if hidden && style.detail == ReportDetail::Brief {
        out.push_str("; --verbose shows the notes");
    }
    out.push('\n');
}
