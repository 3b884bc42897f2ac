//! The report as SARIF 2.1.0, for code-scanning services.
//!
//! Written as JSON: `serde-sarif` generates types for the whole standard, of which a dozen keys are
//! used here, and a build script for them.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::base::text::json as safe;
use crate::check::model::{Finding, Report, ServerReport, Verdict};
use crate::check::rule;
use crate::config::{Position, Severity};

/// Where the schema of the format stands.
const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Writes the report.
pub(super) fn render(report: &Report) -> String {
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

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn describe(id: &str) -> Value {
    match rule::find(id) {
        Some(rule) => json!({
            "id": rule.id,
            "shortDescription": {"text": rule.summary},
            "fullDescription": {"text": rule.why},
            "help": {"text": rule.fix},
            "defaultConfiguration": {"level": level(rule.severity)},
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
        "level": level(finding.severity),
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
    hash.finalize().iter().take(16).fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
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
