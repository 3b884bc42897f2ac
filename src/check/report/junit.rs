//! The report as `JUnit` XML: one suite per server, one case per step of the doctor and per finding.
//!
//! Written with `quick-xml`: `quick-junit` would replace only the element names, and adds a clock
//! and identifiers to the same writer.

use std::path::Path;
use std::time::Duration;

use quick_xml::se::Serializer;
use serde::Serialize;
use serde_json::{Value, json};

use crate::model::{CheckFinding, CheckVerdict, DoctorStatus, DoctorStep, Report, ServerReport};
use crate::rule;
use base::file::hex;
use base::text::{json as safe, percent};
use config::Position;

/// The root element, without attributes: some readers forbid them.
#[derive(Serialize)]
#[serde(rename = "testsuites")]
struct Suites {
    testsuite: Vec<Suite>,
}

#[derive(Serialize)]
struct Suite {
    #[serde(rename = "@id")]
    id: usize,
    #[serde(rename = "@package")]
    package: &'static str,
    #[serde(rename = "@name")]
    name: String,
    #[serde(rename = "@timestamp")]
    timestamp: String,
    #[serde(rename = "@hostname")]
    hostname: &'static str,
    #[serde(rename = "@tests")]
    tests: usize,
    #[serde(rename = "@failures")]
    failures: usize,
    #[serde(rename = "@errors")]
    errors: usize,
    #[serde(rename = "@skipped")]
    skipped: usize,
    #[serde(rename = "@time")]
    time: String,
    properties: (),
    testcase: Vec<Case>,
    /// The strictest of the schemas in use requires both, in this order.
    #[serde(rename = "system-out")]
    out: (),
    #[serde(rename = "system-err")]
    err: String,
}

#[derive(Default, Serialize)]
struct Case {
    #[serde(rename = "@classname")]
    class: String,
    #[serde(rename = "@name")]
    name: String,
    #[serde(rename = "@time")]
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<JunitFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<JunitFailure>,
}

#[derive(Serialize)]
struct JunitFailure {
    #[serde(rename = "@type")]
    kind: String,
    #[serde(rename = "@message")]
    message: String,
    #[serde(rename = "$text")]
    text: String,
}

pub(super) fn junit(report: &Report) -> String {
    let own = report.config.findings.iter().chain(&report.findings);
    let cases: Vec<Case> = own.map(|f| case_of(report, "mcpdeck", None, f)).collect();
    let mut suites = Vec::new();
    if !cases.is_empty() {
        suites.push(suite(report, "mcpdeck", Duration::ZERO, cases, ""));
    }
    for server in &report.servers {
        let class = format!("mcpdeck.{}", server.name);
        let steps = server.steps.iter().map(|step| step_case(&class, server, step));
        let found = server.findings.iter().map(|f| case_of(report, &class, Some(server), f));
        let stderr: String = server.stderr_tail.iter().map(|line| line.clone() + "\n").collect();
        suites.push(suite(
            report,
            &server.name,
            server.took,
            steps.chain(found).collect(),
            &stderr,
        ));
    }
    for (id, suite) in suites.iter_mut().enumerate() {
        suite.id = id;
    }
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let mut writer = Serializer::new(&mut out);
    writer.indent(' ', 2);
    let written = Suites { testsuite: suites }.serialize(writer);
    debug_assert!(written.is_ok(), "writing to memory does not fail");
    out.push('\n');
    out
}

fn suite(report: &Report, name: &str, took: Duration, cases: Vec<Case>, stderr: &str) -> Suite {
    let count = |is: fn(&&Case) -> bool| cases.iter().filter(is).count();
    Suite {
        id: 0,
        package: "mcpdeck",
        name: clean(name),
        timestamp: report.began.clone(),
        hostname: "localhost",
        tests: cases.len(),
        failures: count(|case| case.failure.is_some()),
        errors: count(|case| case.error.is_some()),
        skipped: count(|case| case.skipped.is_some()),
        time: seconds(took),
        properties: (),
        testcase: cases,
        out: (),
        err: clean(stderr),
    }
}

fn case(class: &str, name: &str, took: Duration) -> Case {
    Case { class: clean(class), name: clean(name), time: seconds(took), ..Case::default() }
}

fn failure(kind: &str, message: &str, text: &str) -> JunitFailure {
    JunitFailure { kind: clean(kind), message: clean(message), text: clean(text) }
}

fn step_name(name: &str) -> String {
    format!("step {name}")
}

fn step_case(class: &str, server: &ServerReport, step: &DoctorStep) -> Case {
    let case = case(class, &step_name(&step.name), step.took.unwrap_or_default());
    match step.status {
        DoctorStatus::Ok => case,
        // The finding that explains a failed step carries the failure; the step itself counts only
        // when there is no finding.
        DoctorStatus::Failed if server.findings.is_empty() => {
            Case { error: Some(failure(&step.name, &step.detail, "")), ..case }
        }
        _ => Case { skipped: Some(()), ..case },
    }
}

fn case_of(
    report: &Report,
    class: &str,
    server: Option<&ServerReport>,
    finding: &CheckFinding,
) -> Case {
    // A step has one name, however it ends: what reads the report follows it from run to run.
    let name = match finding.rule.as_ref() {
        "test/failed" | "test/flaky" => step_name(&finding.place),
        rule => format!("{rule} {}", finding.place),
    };
    let case = case(class, name.trim_end(), Duration::ZERO);
    let mut text = format!("{}: {}\nhelp: {}\n", finding.severity, finding.message, finding.help);
    text.extend(finding.at.as_ref().map(|at| format!("at: {at}\n")));
    let broken = server.is_some_and(|s| s.verdict == CheckVerdict::Incomplete)
        && finding.rule.starts_with("start/");
    if let Some(server) = server.filter(|_| broken) {
        text.extend(server.stderr_tail.iter().map(|line| format!("stderr: {line}\n")));
        return Case { error: Some(failure(&finding.rule, &finding.message, &text)), ..case };
    }
    if finding.severity < report.fail_on {
        return case;
    }
    Case { failure: Some(failure(&finding.rule, &finding.message, &text)), ..case }
}

fn seconds(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64())
}

/// Replaces the characters XML 1.0 cannot hold (section 2.2).
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

// The report as SARIF 2.1.0, for code-scanning services.
//
// Written as JSON: `serde-sarif` generates types for the whole standard, of which a dozen keys are
// used here, and a build script for them.

/// The schema of the format.
const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Writes the report.
pub(super) fn sarif(report: &Report) -> String {
    let mut rules: Vec<&str> = report.all().map(|(_, f)| f.rule.as_ref()).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Value> =
        report.all().map(|(server, finding)| result(report, server, finding, &rules)).collect();
    let document = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "mcpdeck",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|id| describe(id)).collect::<Vec<_>>(),
            }},
            "invocations": [{
                "executionSuccessful": report.verdict <= CheckVerdict::Violated,
                "exitCode": report.exit_code,
            }],
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    safe::pretty(&document) + "\n"
}

fn describe(id: &str) -> Value {
    match rule::find(id) {
        Some(rule) => json!({
            "id": rule.id,
            "shortDescription": {"text": rule.summary},
            "fullDescription": {"text": rule.why},
            "help": {"text": rule.fix},
            "defaultConfiguration": {"level": rule.severity.to_string()},
        }),
        None => json!({"id": id, "shortDescription": {"text": "a problem of the configuration"}}),
    }
}

fn result(
    report: &Report,
    server: Option<&ServerReport>,
    finding: &CheckFinding,
    rules: &[&str],
) -> Value {
    let id: &str = &finding.rule;
    let text = match server {
        Some(server) => format!("{}: {}", server.name, finding.message),
        None => finding.message.clone(),
    };
    let mut result = json!({
        "ruleId": id,
        "ruleIndex": rules.binary_search(&id).unwrap_or_default(),
        "level": finding.severity.to_string(),
        "message": {"text": text},
        "partialFingerprints": {"mcpdeck/v1": fingerprint(server, finding)},
    });
    let (file, at) = report.place(server, finding);
    let mut location = json!({});
    if let Some(file) = file {
        location["physicalLocation"] = physical(file, at);
    }
    let place = match (server, finding.place.as_str()) {
        (Some(server), "") => Some(server.name.clone()),
        (Some(server), place) => Some(format!("{}/{place}", server.name)),
        (None, _) => None,
    };
    if let Some(place) = place {
        location["logicalLocations"] = json!([{"fullyQualifiedName": place, "kind": "member"}]);
    }
    if location.as_object().is_some_and(|object| !object.is_empty()) {
        result["locations"] = json!([location]);
    }
    result
}

/// A fingerprint that is the same in every run: no times, no counts.
fn fingerprint(server: Option<&ServerReport>, finding: &CheckFinding) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in [server.map_or("", |s| &s.name), &finding.rule, &finding.place] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hex(&hash.finalize()[..16])
}

fn physical(file: &Path, at: Option<&Position>) -> Value {
    let near = super::from_root(file);
    let near = near.strip_prefix("./").unwrap_or(&near);
    let uri = if near.is_absolute() {
        url::Url::from_file_path(near).map(String::from).unwrap_or_default()
    } else {
        let parts = near.components().map(|c| percent::encoded(&c.as_os_str().to_string_lossy()));
        parts.collect::<Vec<_>>().join("/")
    };
    let mut location = json!({"artifactLocation": {"uri": uri}});
    if let Some(at) = at {
        location["region"] = json!({"startLine": at.line, "startColumn": at.column.max(1)});
    }
    location
}
