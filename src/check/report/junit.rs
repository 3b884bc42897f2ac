//! The report as `JUnit` XML: one suite per server, one case per step of the doctor and per finding.
//!
//! Written with `quick-xml`: `quick-junit` would replace the element names alone, and stands on the
//! same writer with a clock and identifiers beside it.

use std::io;
use std::path::Path;
use std::time::Duration;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use serde_json::{Value, json};

use crate::base::file::hex;
use crate::base::text::json as safe;
use crate::check::model::{Finding, Report, ServerReport, StepStatus, Verdict};
use crate::check::rule;
use crate::config::Position;

/// One test case, before it is written.
struct Case {
    class: String,
    name: String,
    took: Duration,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    Skipped,
    /// With the element that says so: `failure`, or `error` where nothing could be established.
    Failed {
        tag: &'static str,
        kind: String,
        message: String,
        text: String,
    },
}

/// Writes the report.
pub(super) fn junit(report: &Report) -> String {
    let mut out = Vec::new();
    let written = document(&mut Writer::new_with_indent(&mut out, b' ', 2), report);
    debug_assert!(written.is_ok(), "writing to memory does not fail");
    out.push(b'\n');
    String::from_utf8(out).unwrap_or_default()
}

fn document(writer: &mut Writer<&mut Vec<u8>>, report: &Report) -> io::Result<()> {
    let suites = suites(report);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    // Attributes of the root are known to some readers and forbidden by others.
    let head = writer.create_element("testsuites");
    head.write_inner_content(|writer| {
        for (index, one) in suites.iter().enumerate() {
            suite(writer, index, one, &report.began)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// One suite, before it is written.
struct Suite {
    name: String,
    took: Duration,
    cases: Vec<Case>,
    stderr: String,
}

fn suites(report: &Report) -> Vec<Suite> {
    let own = report.config.findings.iter().chain(&report.findings);
    let cases: Vec<Case> = own.map(|f| case_of(report, "mcpdeck", None, f)).collect();
    let mut suites = Vec::new();
    if !cases.is_empty() {
        let name = "mcpdeck".to_owned();
        suites.push(Suite { name, took: Duration::ZERO, cases, stderr: String::new() });
    }
    for server in &report.servers {
        let class = format!("mcpdeck.{}", server.name);
        let mut cases: Vec<Case> =
            server.steps.iter().map(|step| step_case(&class, server, step)).collect();
        cases.extend(server.findings.iter().map(|f| case_of(report, &class, Some(server), f)));
        let stderr = server.stderr_tail.iter().map(|line| line.clone() + "\n").collect();
        suites.push(Suite { name: server.name.clone(), took: server.took, cases, stderr });
    }
    suites
}

fn step_case(class: &str, server: &ServerReport, step: &crate::check::model::Step) -> Case {
    let outcome = match step.status {
        StepStatus::Ok => Outcome::Passed,
        // The finding that explains a failed step carries the failure; the step is counted apart
        // only when nothing else does.
        StepStatus::Failed if server.findings.is_empty() => Outcome::Failed {
            tag: "error",
            kind: step.name.to_string(),
            message: step.detail.clone(),
            text: String::new(),
        },
        StepStatus::Failed | StepStatus::Skipped | StepStatus::Pending => Outcome::Skipped,
    };
    Case {
        class: class.to_owned(),
        name: format!("step {}", step.name),
        took: step.took.unwrap_or_default(),
        outcome,
    }
}

fn case_of(report: &Report, class: &str, server: Option<&ServerReport>, finding: &Finding) -> Case {
    let name = match finding.place.as_str() {
        "" => finding.rule.to_string(),
        place => format!("{} {place}", finding.rule),
    };
    let mut text = format!("{}: {}\nhelp: {}\n", finding.severity, finding.message, finding.help);
    let broken = server.is_some_and(|s| s.verdict == Verdict::Incomplete)
        && finding.rule.starts_with("start/");
    if let Some(server) = server.filter(|_| broken) {
        for line in &server.stderr_tail {
            text.push_str("stderr: ");
            text.push_str(line);
            text.push('\n');
        }
    }
    let (kind, message) = (finding.rule.to_string(), finding.message.clone());
    let tag = if broken { "error" } else { "failure" };
    let outcome = if broken || finding.severity >= report.fail_on {
        Outcome::Failed { tag, kind, message, text }
    } else {
        Outcome::Passed
    };
    Case { class: class.to_owned(), name, took: Duration::ZERO, outcome }
}

fn suite(
    writer: &mut Writer<&mut Vec<u8>>,
    index: usize,
    suite: &Suite,
    began: &str,
) -> io::Result<()> {
    let count = |is: &dyn Fn(&Outcome) -> bool| {
        suite.cases.iter().filter(|case| is(&case.outcome)).count().to_string()
    };
    let failed = |element| count(&|o| matches!(o, Outcome::Failed { tag, .. } if *tag == element));
    let (failures, errors) = (failed("failure"), failed("error"));
    let skipped = count(&|outcome| matches!(outcome, Outcome::Skipped));
    let name = clean(&suite.name);
    let head = writer.create_element("testsuite").with_attributes([
        ("id", &*index.to_string()),
        ("package", "mcpdeck"),
        ("name", &*name),
        ("timestamp", began),
        ("hostname", "localhost"),
        ("tests", &*suite.cases.len().to_string()),
        ("failures", &*failures),
        ("errors", &*errors),
        ("skipped", &*skipped),
        ("time", &*seconds(suite.took)),
    ]);
    head.write_inner_content(|writer| {
        writer.create_element("properties").write_empty()?;
        for case in &suite.cases {
            write_case(writer, case)?;
        }
        // The strictest of the schemas in use wants both, in this order.
        writer.create_element("system-out").write_empty()?;
        let stderr = clean(&suite.stderr);
        writer.create_element("system-err").write_text_content(BytesText::new(&stderr))?;
        Ok(())
    })?;
    Ok(())
}

fn write_case(writer: &mut Writer<&mut Vec<u8>>, case: &Case) -> io::Result<()> {
    let (class, name) = (clean(&case.class), clean(&case.name));
    let element = writer.create_element("testcase").with_attributes([
        ("classname", &*class),
        ("name", &*name),
        ("time", &*seconds(case.took)),
    ]);
    let (tag, kind, message, text) = match &case.outcome {
        Outcome::Passed => return element.write_empty().map(drop),
        Outcome::Skipped => {
            let skipped = |writer: &mut Writer<&mut Vec<u8>>| {
                writer.create_element("skipped").write_empty().map(drop)
            };
            return element.write_inner_content(skipped).map(drop);
        }
        Outcome::Failed { tag, kind, message, text } => (*tag, kind, message, text),
    };
    element.write_inner_content(|writer| {
        let (kind, message, text) = (clean(kind), clean(message), clean(text));
        writer
            .create_element(tag)
            .with_attributes([("type", &*kind), ("message", &*message)])
            .write_text_content(BytesText::new(&text))
            .map(drop)
    })?;
    Ok(())
}

fn seconds(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64())
}

/// Without the characters XML 1.0 cannot hold (section 2.2).
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

/// Where the schema of the format stands.
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
                "executionSuccessful": report.verdict <= Verdict::Violated,
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
    finding: &Finding,
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
    let at = finding.at.as_ref().or_else(|| server.and_then(|s| s.at.as_ref()));
    let file = at.map(|at| at.file.as_path()).or(report.config.path.as_deref());
    let mut location = json!({});
    if let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) {
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

/// The same finding has the same print in every run: no times, no counts.
fn fingerprint(server: Option<&ServerReport>, finding: &Finding) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in [server.map_or("", |s| &s.name), &finding.rule, &finding.place] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hex(&hash.finalize()[..16])
}

fn physical(file: &Path, at: Option<&Position>) -> Value {
    let here = std::env::current_dir().ok();
    let near = here.as_deref().and_then(|here| file.strip_prefix(here).ok()).unwrap_or(file);
    let near = near.strip_prefix("./").unwrap_or(near);
    let uri = if near.is_absolute() {
        url::Url::from_file_path(near).map(String::from).unwrap_or_default()
    } else {
        let parts = near.components().map(|c| encode(&c.as_os_str().to_string_lossy()));
        parts.collect::<Vec<_>>().join("/")
    };
    let mut location = json!({"artifactLocation": {"uri": uri}});
    if let Some(at) = at.filter(|at| at.line > 0) {
        location["region"] = json!({"startLine": at.line, "startColumn": at.column.max(1)});
    }
    location
}

/// Percent-encodes one segment of a path (RFC 3986, section 2.3).
fn encode(segment: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    segment
        .bytes()
        .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}
