//! The report as one HTML page that needs nothing else: no script, no other file. What servers said
//! stands in it as text.

use std::fmt::Write as _;

use crate::cases::{EvalReport, ModelScore, eval_notes};
use crate::coverage::{CoverageReport, CoveredPart};
use crate::fuzz::FuzzReport;
use crate::outcome::{
    BenchReport, StepReport, StepVerdict, SuiteReport, calls_text, figures, fuzz_figures,
};
use base::human::{Dur, count};
use check::subject::brief;

/// The page of a report.
pub fn html(report: &BenchReport) -> String {
    let mut page = format!(
        "{PAGE_HEAD}<h1>mcpdeck test: <span class=\"{0}\">{0}</span></h1>\n<p class=\"facts\">",
        report.verdict.as_str(),
    );
    if !report.suites.is_empty() {
        let _ = write!(page, "{} · ", figures(report));
    }
    let _ = writeln!(page, "{} UTC · {}</p>", report.began.replace('T', " "), Dur(report.took));
    for suite in &report.suites {
        suite_part(&mut page, suite);
    }
    if let Some(fuzz) = &report.fuzz {
        fuzz_part(&mut page, fuzz);
    }
    if let Some(eval) = &report.eval {
        eval_part(&mut page, eval);
    }
    if let Some(coverage) = &report.coverage {
        coverage_part(&mut page, coverage);
    }
    page + "</body></html>\n"
}

/// The style of the page, for narrow screens and dark ones too.
const PAGE_HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
<meta name=\"color-scheme\" content=\"light dark\">\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
<title>mcpdeck test</title><style>\
:root{--ink:#222;--dim:#666;--line:#ddd;--good:#17803d;--bad:#b3261e;--part:#8a5d00}\
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--dim:#999;--line:#444;--good:#5fc27e;--bad:#ff8a80;\
--part:#e0b04c}body{background:#181818}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:var(--ink);\
overflow-wrap:anywhere}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin:2rem 0 .3rem}\
ul{list-style:none;margin:0;padding:0}li{border-top:1px solid var(--line);padding:.3rem 0}\
li p,li pre{margin:.2rem 0 .2rem 5.5rem}b{display:inline-block;min-width:5rem;margin-right:.5rem}\
small,.facts{font-weight:normal;color:var(--dim)}small{white-space:normal;font-size:.9rem}\
pre{white-space:pre-wrap;font-size:.85rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;overflow-wrap:normal}\
th,td{border-top:1px solid var(--line);padding:.3rem .8rem .3rem 0;text-align:left;vertical-align:top}\
.ok,.passed b{color:var(--good)}.violated,.failed b,.error b,.usage{color:var(--bad)}\
.incomplete,.flaky b,.warning b{color:var(--part)}.skipped,.note{color:var(--dim)}\
@media(max-width:40rem){li p,li pre{margin-left:0}}\
</style></head><body>\n";

/// A heading with a verdict.
fn heading(page: &mut String, name: &str, class: &str, facts: &str) {
    let name = escaped(name);
    let _ = writeln!(page, "<h2 class=\"{class}\">{name} <small>{}</small></h2>", escaped(facts));
}

fn suite_part(page: &mut String, suite: &SuiteReport) {
    let verdict = suite.verdict.as_str();
    heading(page, &suite.name, verdict, &format!("{verdict} · {}", Dur(suite.took)));
    if let Some(reason) = &suite.reason {
        let _ = writeln!(page, "<p>{}</p>", escaped(reason));
    }
    page.push_str("<ul>\n");
    suite.steps.iter().for_each(|step| step_item(page, step));
    page.push_str("</ul>\n");
}

fn step_item(page: &mut String, step: &StepReport) {
    let mut facts = Vec::new();
    if step.part != "steps" {
        facts.push(step.part.to_owned());
    }
    if step.target != step.name {
        facts.push(step.target.clone());
    }
    if step.verdict != StepVerdict::Skipped {
        facts.push(Dur(step.took).to_string());
    }
    if step.attempts > 1 {
        facts.push(count(step.attempts, "attempt").to_string());
    }
    if step.verdict != StepVerdict::Passed {
        facts.extend(step.at.as_ref().map(ToString::to_string));
    }
    let word = step.verdict.as_str().to_lowercase();
    item(page, &word, &step.name, &facts.join(" · "), &step.problems);
}

/// A line of a list: how it went, what it is, facts about it, and paragraphs.
fn item(page: &mut String, word: &str, name: &str, facts: &str, texts: &[String]) {
    let (name, facts) = (escaped(name), escaped(facts));
    let class = if word == "not run" { "skipped" } else { word };
    let _ = write!(page, "<li class=\"{class}\"><b>{word}</b>{name} <small>{facts}</small>");
    for text in texts {
        let _ = write!(page, "<p>{}</p>", escaped(text));
    }
    page.push_str("</li>\n");
}

fn fuzz_part(page: &mut String, fuzz: &FuzzReport) {
    heading(page, "Fuzzing", "", &fuzz_figures(fuzz));
    page.push_str("<ul>\n");
    for found in &fuzz.findings {
        let name = format!("{} {}", found.tool, found.place);
        let facts = format!("{} · seen in {}", found.rule, count(found.count, "case"));
        let mut texts = vec![format!("{} ({})", found.message, found.what)];
        if !found.calls.is_empty() {
            texts.push(calls_text(&found.calls));
        }
        item(page, &found.severity.to_string(), name.trim_end(), &facts, &texts);
    }
    for (server, why) in &fuzz.failed {
        item(page, "not run", server, "", std::slice::from_ref(why));
    }
    for tool in &fuzz.tools {
        let is_found = fuzz.findings.iter().any(|found| found.tool == tool.tool);
        let word = match tool.cases {
            0 => "skipped",
            _ if is_found => "called",
            _ => "passed",
        };
        let facts = format!("{} of {}", tool.cases, count(tool.known, "case"));
        let facts = if tool.cases > 0 { facts } else { String::new() };
        item(page, word, &tool.tool, &facts, tool.note.as_slice());
    }
    page.push_str("</ul>\n");
}

fn eval_part(page: &mut String, eval: &EvalReport) {
    for model in &eval.models {
        model_part(page, model);
    }
    let notes = eval_notes(eval);
    if !notes.is_empty() {
        let _ = writeln!(page, "<pre>{}</pre>", escaped(&notes));
    }
}

fn model_part(page: &mut String, model: &ModelScore) {
    heading(page, &format!("Evaluation: {}", brief(&model.model, 60)), "", "");
    let powers = model.pass_power.iter().enumerate().skip(1);
    let powers = powers.map(|(k, rate)| (format!("pass^{}", k + 1), rate.text()));
    let figures = [
        ("pass", model.pass.text()),
        ("precision", model.precision.text()),
        ("recall", model.recall.text()),
        ("arguments", model.arguments.text()),
        ("requests", model.rounds.to_string()),
        ("tokens", format!("{} in, {} out", model.input_tokens, model.output_tokens)),
        ("cost", model.cost.map_or_else(|| "-".to_owned(), |cost| format!("${cost:.4}"))),
        ("time of a run", format!("{} ms", model.mean_millis)),
    ];
    let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value));
    let rows = figures.chain(powers).map(|(name, value)| vec![name, value]);
    table(page, &["measure", "value"], rows);
    page.push_str("<ul>\n");
    for case in &model.cases {
        let word = match (case.enough, case.runs) {
            (true, _) => "passed",
            (false, 0) => "not run",
            (false, _) => "failed",
        };
        let facts = format!("{} of {}", case.passed, count(case.runs, "run"));
        item(page, word, &case.case, &facts, case.why.as_slice());
    }
    for one in &model.confusions {
        let name = format!("{} was called for {}", one.called, one.expected);
        let words = format!("both descriptions have: {}", one.shared_words.join(", "));
        item(page, "note", &name, &count(one.count, "time").to_string(), &[words]);
    }
    page.push_str("</ul>\n");
    let rows = model.tools.iter().map(|(tool, score)| {
        let numbers = [score.expected, score.called, score.right];
        std::iter::once(tool.clone()).chain(numbers.map(|number| number.to_string())).collect()
    });
    table(page, &["tool", "expected", "called", "rightly"], rows);
}

fn coverage_part(page: &mut String, coverage: &CoverageReport) {
    let parts = [
        ("prompts", &coverage.prompts),
        ("resources", &coverage.resources),
        ("templates", &coverage.templates),
    ];
    let called = coverage.tools.iter().filter(|tool| tool.calls > 0).count();
    let mut facts = format!("tools {called}/{}", coverage.tools.len());
    for (name, part) in parts.iter().filter(|(_, part)| part.total > 0) {
        let _ = write!(facts, ", {name} {}", part.text());
    }
    heading(page, "Coverage", "", &facts);
    let rows = coverage.tools.iter().map(|tool| {
        let parts = [&tool.parameters, &tool.values, &tool.branches];
        let missed = parts.iter().flat_map(|part| &part.missed).map(String::as_str);
        let missed = missed.filter(|_| tool.calls > 0).collect::<Vec<_>>().join(", ");
        let numbers = [tool.calls.to_string(), tool.errors.to_string()];
        let row = std::iter::once(tool.tool.clone()).chain(numbers);
        row.chain(parts.map(CoveredPart::text)).chain([missed]).collect()
    });
    let names = ["tool", "calls", "errors", "parameters", "values", "branches", "not reached"];
    table(page, &names, rows);
}

fn table(page: &mut String, names: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    page.push_str("<div class=\"wide\"><table>");
    table_row(page, "th", names.iter().copied());
    for row in rows {
        table_row(page, "td", row.iter().map(String::as_str));
    }
    page.push_str("</table></div>\n");
}

fn table_row<'a>(page: &mut String, tag: &str, cells: impl Iterator<Item = &'a str>) {
    page.push_str("<tr>");
    for cell in cells {
        let _ = write!(page, "<{tag}>{}</{tag}>", escaped(cell));
    }
    page.push_str("</tr>\n");
}

/// A text as HTML shows it.
fn escaped(text: &str) -> String {
    base::SafeText::block(text).to_html()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::CaseScore;
    use crate::coverage::ToolCoverage;
    use crate::fuzz::{FuzzCall, FuzzFinding, FuzzedTool};
    use check::Severity;
    use serde_json::json;

    #[test]
    fn the_page_shows_every_kind_of_run_and_no_markup_of_others() {
        let mut report = BenchReport::new(None);
        report.fuzz = Some(FuzzReport {
            tools: vec![FuzzedTool { tool: "s.quiet".into(), cases: 3, known: 3, note: None }],
            findings: vec![FuzzFinding {
                rule: "fuzz/crash",
                severity: Severity::Error,
                server: "s".into(),
                tool: "s.<b>".into(),
                place: "/n".into(),
                what: "above the maximum".into(),
                message: "it ended & said </li><script>".into(),
                calls: vec![FuzzCall { tool: "s.<b>".into(), arguments: json!({"n": 9}) }],
                count: 2,
            }],
            failed: [("broken".to_owned(), "no such file".to_owned())].into(),
            ..FuzzReport::default()
        });
        let case = CaseScore { case: "finds a note".into(), runs: 2, ..CaseScore::default() };
        let model = ModelScore { model: "m".into(), cases: vec![case], ..ModelScore::default() };
        report.eval = Some(EvalReport {
            models: vec![model],
            incomplete: Some("the budget is spent".into()),
            ..EvalReport::default()
        });
        let tool = ToolCoverage { tool: "s.reached".into(), calls: 1, ..ToolCoverage::default() };
        report.coverage = Some(CoverageReport { tools: vec![tool], ..CoverageReport::default() });
        report.settle();
        let page = html(&report);
        for part in [
            "<span class=\"incomplete\">",
            "s.&lt;b&gt; /n <small>fuzz/crash · seen in 2 cases",
            "it ended &amp; said &lt;/li&gt;&lt;script&gt; (above the maximum)",
            "{&quot;n&quot;:9}",
            "no such file",
            "<li class=\"passed\"><b>passed</b>s.quiet <small>3 of 3 cases",
            "Evaluation: m",
            "<b>failed</b>finds a note <small>0 of 2 runs",
            "the budget is spent",
            "<td>s.reached</td>",
            "width=device-width",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("<b>s."), "{page}");
    }
}
