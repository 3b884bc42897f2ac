//! What is copied as Rust compiles, is laid out as rustfmt would, and makes the same call: the text
//! stands in `copied_calls.rs`, which is a part of these tests.

use std::fmt::Write as _;
use std::sync::Arc;

use mcpdeck::base::ServerName;
use mcpdeck::base::text::SafeText;
use mcpdeck::config::ContentLimits;
use mcpdeck::host::{Host, Validation};
use mcpdeck::tui::ExportOrigin;
use mcpdeck::tui::call::export::{Export, WrittenCall};
use mcpdeck::tui::call::{CallSubject, SubjectKind};
use serde_json::{Value, json};

use super::copied_calls as calls;
use crate::support::Bench;

const HEAD: &str = "\
//! Calls as the dashboard copies them as Rust, each in a function. Written by the test beside it.

use std::error::Error;

use mcpdeck::host::{CallOutcome, Host};

type Copied = Result<CallOutcome, Box<dyn Error>>;
";

/// Values that are hard to write down.
fn awkward() -> Value {
    json!({
        "quo\"te": "a\\b \"c\" 'd' ${e} {f} \u{7} ü 🦀\nline\ttab",
        "numbers": [0, -1, 2_147_483_648_u32, i64::MIN, u64::MAX, 0.5, 1e300, -0.0],
        "nothing": null, "no": false, "empty": {}, "none": [], "": {"deep": [[{"er": ""}]]},
    })
}

/// Much of it, with fences of raw strings inside.
fn large() -> Value {
    let many: Vec<Value> = (0..60).map(|n| json!(format!("\"#{n}\"##"))).collect();
    json!({"many": many})
}

fn subject(kind: SubjectKind, wire: &str) -> CallSubject {
    CallSubject {
        server: ServerName::new("my deck"),
        kind,
        wire: wire.into(),
        label: SafeText::line(wire),
        title: None,
        description: None,
        manner: "",
        schema: Arc::new(json!({"type": "object"})),
        numbers: mcpdeck::base::text::json::WrittenNumbers::default(),
        bytes: 0,
        has_app: false,
        limits: ContentLimits::default(),
        target: SafeText::default(),
    }
}

fn cases() -> [(&'static str, CallSubject, Value, Validation); 7] {
    let tool = |wire: &str| subject(SubjectKind::Tool, wire);
    let long = "a-tool-whose-name-is-rather-long-for-a-line-of-code-that-has-more-on-it";
    [
        ("nothing", tool("say"), json!({}), Validation::Enforce),
        ("plain", tool(long), json!({"a": "x", "b": [1, {"c": 2}]}), Validation::Enforce),
        ("awkward", tool("say"), awkward(), Validation::Enforce),
        ("large", tool("say"), large(), Validation::Enforce),
        ("forced", tool("strict"), json!({"n": "no number"}), Validation::Force),
        (
            "prompt",
            subject(SubjectKind::Prompt, "greet"),
            json!({"who": "Ada"}),
            Validation::Enforce,
        ),
        ("resource", subject(SubjectKind::Resource, "note://one"), json!({}), Validation::Enforce),
    ]
}

/// The file as it has to be.
fn written() -> String {
    let mut out = HEAD.to_owned();
    for (name, subject, arguments, validation) in cases() {
        let uri = subject.wire.to_string();
        let origin = ExportOrigin::default();
        let call = WrittenCall {
            subject: &subject,
            arguments: &arguments.into(),
            uri: &uri,
            validation,
            origin: &origin,
        };
        let _ = writeln!(out, "\npub async fn {name}(host: &Host) -> Copied {{");
        for line in Export::Rust.text(&call).lines() {
            let _ = writeln!(out, "    {line}");
        }
        out.push_str("    Ok(outcome)\n}\n");
    }
    out
}

#[test]
fn the_copied_rust_that_is_compiled_here_is_what_is_copied() {
    let path = crate::support::repo("tests/program/verbs/copied_calls.rs");
    let there = std::fs::read_to_string(&path).expect("the file");
    let wanted = written();
    if there != wanted {
        let new = path.with_extension("rs.new");
        std::fs::write(&new, wanted).expect("written");
        panic!("{} differs from what is copied now: see {}", path.display(), new.display());
    }
}

#[tokio::test]
async fn the_copied_rust_makes_the_same_call() {
    let bench = Bench::new();
    let long = cases()[1].1.wire.to_string();
    let any = json!({"type": "object"});
    let strict = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let script = json!({
        "tools": [
            {"name": "say", "inputSchema": any}, {"name": long, "inputSchema": any},
            {"name": "strict", "inputSchema": strict},
        ],
        "calls": {"say": {"text": "${arguments}"}, long: {"text": "${arguments}"},
            "strict": {"text": "${arguments}"}},
        "prompts": [{"name": "greet", "arguments": [{"name": "who"}]}],
        "gets": {"greet": {"answer": {"messages": [
            {"role": "user", "content": {"type": "text", "text": " ${arguments}"}}]}}},
        "resources": [{"uri": "note://one", "name": "one"}],
        "reads": {"note://one": {"answer": {"contents": [{"uri": "note://one", "text": "{}"}]}}},
    });
    let file = bench.servers(&json!({"my deck": bench.mock("say", &script, &json!({}))}));
    let host = Host::builder().config_file(file).initialize().await.expect("a host");
    let outcomes = [
        calls::nothing(&host).await,
        calls::plain(&host).await,
        calls::awkward(&host).await,
        calls::large(&host).await,
        calls::forced(&host).await,
        calls::prompt(&host).await,
        calls::resource(&host).await,
    ];
    for (outcome, (name, _, arguments, validation)) in outcomes.into_iter().zip(cases()) {
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        let result = &*outcome.result;
        let text = ["/content/0/text", "/messages/0/content/text", "/contents/0/text"]
            .iter()
            .find_map(|pointer| result.pointer(pointer)?.as_str())
            .unwrap_or_else(|| panic!("{name}: {result}"));
        let sent: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(sent, arguments, "{name}");
        assert_eq!(outcome.forced, validation == Validation::Force, "{name}");
    }
    host.shutdown().await;
}
