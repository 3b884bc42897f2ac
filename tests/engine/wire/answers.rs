//! Invalid answers of servers. None may hang the call or affect the next one.

use std::sync::Arc;
use std::time::Duration;

use mcpdeck::error::ErrorCode;
use mcpdeck::host::{OutsideCode, OutsideError};
use mcpdeck::mcp::Request;
use mcpdeck::protocol::{CallId, FindingKind, MessageKind, SessionEvent, TrafficRecord};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::wire::peer::{call, echo, rig, rig_with, start, text};

/// Sends `answer` (with `ID` replaced) to one call and returns its outcome; then checks that the
/// next call works. Everything must finish within a second of the paused clock.
async fn outcome(answer: &[u8]) -> (Result<Value, String>, Vec<FindingKind>) {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let began = Instant::now();
    let pending = start(&connected, echo("a"), call(1).context);
    let request = peer.expect("tools/call").await;
    let id = request["id"].to_string();
    let mut bytes = Vec::new();
    for (n, part) in split(answer, b"ID").into_iter().enumerate() {
        if n > 0 {
            bytes.extend_from_slice(id.as_bytes());
        }
        bytes.extend_from_slice(part);
    }
    bytes.push(b'\n');
    peer.raw(&bytes).await;
    let result = pending.await.unwrap().map(|v| (*v).clone()).map_err(|error| {
        assert_eq!(error.code, ErrorCode::Protocol, "{error}");
        assert_eq!(error.request.as_deref(), Some("tools/call echo"));
        error.message.clone()
    });
    assert!(began.elapsed() <= Duration::from_millis(1100), "{:?}", began.elapsed());

    let next = start(&connected, echo("b"), call(2).context);
    let mut request = peer.recv().await;
    if request["method"] == "notifications/cancelled" {
        request = peer.recv().await;
    }
    peer.reply(&request, text("fine")).await;
    assert_eq!(*next.await.unwrap().unwrap(), text("fine"));
    // A problem is tolerated where the result is used in spite of it.
    let records = rig.traffic();
    let of_call = |record: &&Arc<TrafficRecord>| {
        let is_answer = matches!(record.kind, MessageKind::Response | MessageKind::Junk);
        is_answer && record.call == Some(CallId(1)) && record.problem.is_some()
    };
    for record in records.iter().filter(of_call) {
        assert_eq!(record.tolerated, result.is_ok(), "{record:?}");
    }
    (result, rig.kinds().await)
}

fn split<'a>(text: &'a [u8], by: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while at + by.len() <= text.len() {
        if &text[at..at + by.len()] == by {
            parts.push(&text[from..at]);
            at += by.len();
            from = at;
        } else {
            at += 1;
        }
    }
    parts.push(&text[from..]);
    parts
}

async fn works(answer: impl AsRef<[u8]>, kinds: &[FindingKind]) -> Value {
    let (result, found) = outcome(answer.as_ref()).await;
    assert_eq!(found, kinds);
    result.expect("the answer can be understood")
}

async fn fails(answer: impl AsRef<[u8]>, kind: FindingKind, says: &str) {
    let (result, found) = outcome(answer.as_ref()).await;
    let message = result.expect_err("the answer is no good");
    assert!(message.contains(says), "{message}");
    assert_eq!(found, [kind], "{message}");
}

const OK: &str = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"x"}]}}"#;

#[tokio::test(start_paused = true)]
async fn a_plain_answer_arrives_exactly_as_it_was_sent() {
    let answer = r#"{"jsonrpc":"2.0","id":ID,"result":{"z":1,"content":[{"type":"text","text":"x","x-vendor":{"a":null}}],"_meta":{"k":[1.5,18446744073709551615]}}}"#;
    let value = works(answer, &[]).await;
    assert_eq!(
        value.to_string(),
        r#"{"z":1,"content":[{"type":"text","text":"x","x-vendor":{"a":null}}],"_meta":{"k":[1.5,18446744073709551615]}}"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_dressed_up_is_understood() {
    works(format!("\u{feff}{OK}\r"), &[]).await;
    works(format!("  {OK}  "), &[]).await;
    works(format!("INFO ready {OK}"), &[FindingKind::Malformed]).await;
    works(format!("{OK} done"), &[FindingKind::Malformed]).await;
    works(format!("starting\n\n\u{1b}[32mlog\u{1b}[0m\n{OK}"), &[FindingKind::Junk]).await;
    works(OK.replace("\"jsonrpc\":\"2.0\",", ""), &[FindingKind::Malformed]).await;
    works(OK.replace("\"id\":ID", "\"id\":\"ID\""), &[FindingKind::Malformed]).await;
    works(OK.replace("\"id\":ID", "\"id\":ID.0"), &[FindingKind::Malformed]).await;
    works(OK.replace("\"id\":ID", "\"id\":ID,\"error\":null"), &[FindingKind::Malformed]).await;
    works(OK.replace("\"id\":ID", "\"id\":99,\"id\":ID"), &[FindingKind::Malformed]).await;
    works(format!("[{OK}]"), &[FindingKind::NotAllowed]).await;
    let pretty = "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": ID,\n  \"result\": {\n    \"content\": [{\"type\": \"text\", \"text\": \"}\"}]\n  }\n}";
    works(pretty, &[FindingKind::Malformed]).await;
}

#[tokio::test(start_paused = true)]
async fn text_that_is_no_text_is_repaired_and_reported() {
    let value = works(OK.replace("\"x\"", r#""a\ud800b""#), &[FindingKind::Malformed]).await;
    assert_eq!(value["content"][0]["text"], "a\u{fffd}b");
    let mut bytes = OK.as_bytes().to_vec();
    let at = bytes.windows(3).position(|w| w == b"\"x\"").unwrap() + 1;
    bytes[at] = 0xff;
    let value = works(bytes, &[FindingKind::Malformed]).await;
    assert_eq!(value["content"][0]["text"], "\u{fffd}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_understood_fails_its_call_at_once() {
    use FindingKind::{Malformed, TooLarge, UnknownId, WrongShape};
    let nested = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let with = |value: &str| format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"a":{value}}}}}"#);
    fails(with("NaN"), Malformed, "not valid JSON").await;
    fails(with("1.e999"), Malformed, "not valid JSON").await;
    fails(with(&nested), TooLarge, "nested deeper than 128").await;
    fails(r#"{"jsonrpc":"2.0","id":ID,"result":{"a"#, Malformed, "ends in the middle").await;
    fails(r#"{"jsonrpc":"2.0","id":ID}"#, Malformed, "neither a result nor an error").await;
    fails(r#"{"jsonrpc":"2.0","id":ID,"Result":{}}"#, Malformed, "`Result`").await;
    fails(
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"x"}}"#,
        Malformed,
        "both",
    )
    .await;
    fails(r#"{"jsonrpc":"2.0","id":ID,"error":"boom"}"#, Malformed, "boom").await;
    // An error may lack an id: the request could not be read.
    for id in [r#""id":null,"#, ""] {
        let error =
            format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"parse"}}}}"#);
        let (result, found) = outcome(error.as_bytes()).await;
        assert!(result.expect_err("an error").contains("parse"));
        assert_eq!(found, [], "{error}");
    }
    fails(r#"{"jsonrpc":"2.0","id":ID,"result":null}"#, WrongShape, "null").await;
    fails(r#"{"jsonrpc":"2.0","id":ID,"result":[]}"#, WrongShape, "an array").await;
    fails(r#"{"jsonrpc":"2.0","id":777,"result":{"content":[]}}"#, UnknownId, "777").await;
}

#[tokio::test(start_paused = true)]
async fn odd_results_are_handed_on_and_labelled() {
    for odd in [
        json!({}),
        json!({"content": [{"type": "video", "url": "x"}]}),
        json!({"content": [], "isError": "yes"}),
        json!({"toolResult": 1}),
        json!({"content": [], "resultType": "later"}),
    ] {
        let answer = json!({"jsonrpc": "2.0", "id": "ID", "result": odd}).to_string();
        let value = works(answer.replace("\"ID\"", "ID"), &[FindingKind::WrongShape]).await;
        assert_eq!(value, odd);
    }
    works(r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[],"tools":[],"contents":[]}}"#, &[])
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_breaks_the_specification_fails_its_call_and_what_is_odd_is_reported_with_the_answer()
{
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let get = |name: &str| Request::GetPrompt { name: name.into(), arguments: Arc::default() };
    let read = || Request::ReadResource { uri: "a:b".into() };
    for (asked, result) in [
        (echo("a"), json!({"content": "x"})),
        (echo("a"), json!({"content": [{"type": "text"}]})),
        (get("p"), json!({"messages": "x"})),
        (read(), json!({"contents": "x"})),
    ] {
        let pending = start(&connected, asked, call(1).context);
        let request = peer.recv().await;
        peer.reply(&request, result.clone()).await;
        let error = pending.await.unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::Protocol);
        assert!(error.message.contains("wrong shape"), "{error}");
        let raw = error.raw.as_deref().unwrap();
        assert!(raw.contains(&result.to_string()), "{raw}");
    }
    assert_eq!(rig.kinds().await, [FindingKind::WrongShape]);
    let one = call(2);
    let pending = start(&connected, echo("a"), one.context);
    let id = peer.recv().await["id"].clone();
    peer.line(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"x":"\udc00","isError":"yes"}}}}"#
    ))
    .await;
    pending.await.unwrap().unwrap();
    let found: Vec<_> = one.seen.take_findings().iter().map(|finding| finding.kind).collect();
    assert_eq!(found, [FindingKind::Malformed, FindingKind::WrongShape]);
}

#[tokio::test(start_paused = true)]
async fn an_error_keeps_its_code_and_data_whatever_they_are() {
    for (sent, code) in [
        ("-32602", Some(-32602)),
        ("0", Some(0)),
        ("9007199254740993", Some(9_007_199_254_740_993)),
        ("\"x\"", None),
        ("3.0", Some(3)),
        ("3.5", None),
        ("1e300", None),
        ("99999999999999999999", None),
    ] {
        let mut rig = rig();
        let (connected, mut peer) = rig.legacy().await;
        let pending = start(&connected, echo("a"), call(1).context);
        let id = peer.recv().await["id"].clone();
        peer.line(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{sent},"message":"no","data":{{"k":[1]}}}}}}"#)).await;
        let error = pending.await.unwrap().unwrap_err();
        let rpc = error.rpc.clone().unwrap();
        assert_eq!((rpc.code, rpc.message.as_str()), (code, "no"));
        assert_eq!(rpc.data, Some(json!({"k": [1]})));
        let expected: &[FindingKind] = if code.is_none() { &[FindingKind::Malformed] } else { &[] };
        assert_eq!(rig.kinds().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_over_the_limit_fails_its_call_and_the_next_is_fine() {
    for answer in [
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"BIG"}]}}"#,
        r#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"BIG"}]},"id":ID}"#,
    ] {
        fails(answer.replace("BIG", &"x".repeat(17 << 20)), FindingKind::TooLarge, "the limit is")
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_valid_answer_wins_and_the_rest_is_counted() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let pending = start(&connected, echo("a"), call(1).context);
    let request = peer.recv().await;
    peer.send(json!({"jsonrpc": "2.0", "id": 4711, "result": text("not mine")})).await;
    peer.reply(&request, text("first")).await;
    peer.reply(&request, text("second")).await;
    assert_eq!(*pending.await.unwrap().unwrap(), text("first"));
    let found = rig.kinds().await;
    assert_eq!(found, [FindingKind::UnknownId, FindingKind::DuplicateAnswer]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_names_no_request_completes_none_and_the_real_answer_arrives() {
    let ids = ["null", "[7]", "{\"a\":1}", "true", "3.5", "-0.25"];
    let named = ids.iter().map(|id| format!("\"id\":{id},"));
    for id in named.chain([String::new()]) {
        let mut rig = rig();
        let (connected, mut peer) = rig.legacy().await;
        let pending = start(&connected, echo("a"), call(1).context);
        let request = peer.recv().await;
        peer.line(format!("{{\"jsonrpc\":\"2.0\",{id}\"result\":{{\"content\":[]}}}}")).await;
        peer.reply(&request, text("real")).await;
        assert_eq!(*pending.await.unwrap().unwrap(), text("real"), "{id}");
        assert_eq!(rig.kinds().await, [FindingKind::UnknownId], "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_several_calls_open_an_answer_without_an_id_hurts_none() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let first = start(&connected, echo("a"), call(1).context);
    let one = peer.recv().await;
    let second = start(&connected, echo("b"), call(2).context);
    let two = peer.recv().await;
    peer.line(r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse"}}"#).await;
    peer.line("{\"jsonrpc\":\"2.0\",\"id\":").await;
    peer.reply(&two, text("two")).await;
    peer.reply(&one, text("one")).await;
    assert_eq!(*first.await.unwrap().unwrap(), text("one"));
    assert_eq!(*second.await.unwrap().unwrap(), text("two"));
    assert_eq!(rig.kinds().await, [FindingKind::UnknownId, FindingKind::Malformed]);
}

#[tokio::test(start_paused = true)]
async fn numbers_stay_as_they_were_written_alone_and_in_a_batch() {
    let plain = r#"{"a":[1e3,123456789012345678901234567890],"b":-1E-400}"#;
    let beyond = r#"{"a":[1e999,-1e999],"b":0.10}"#;
    for (result, in_batch) in [(plain, false), (beyond, false), (plain, true), (beyond, true)] {
        let mut rig = rig();
        let (connected, mut peer) = rig.legacy().await;
        let pending = start(&connected, echo("a"), call(1).context);
        let id = peer.expect("tools/call").await["id"].to_string();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let notice = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"n":1e999}}"#;
        let line = if in_batch { format!("[{notice}, {answer}]") } else { answer };
        peer.line(&line).await;
        assert_eq!(pending.await.unwrap().unwrap().to_string(), result, "{line}");
        let kinds = rig.kinds().await;
        assert!(!kinds.contains(&FindingKind::Malformed), "{kinds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_output_fails_what_is_open_and_a_last_line_without_break_still_counts() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let first = start(&connected, echo("a"), call(1).context);
    let one = peer.recv().await;
    let second = start(&connected, echo("b"), call(2).context);
    peer.recv().await;
    let answer = json!({"jsonrpc": "2.0", "id": one["id"], "result": text("last")});
    peer.raw(answer.to_string()).await;
    drop(peer);
    assert_eq!(*first.await.unwrap().unwrap(), text("last"));
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
    assert!(error.message.contains("closed its output"), "{error}");
    loop {
        if let SessionEvent::Closed(_) = rig.events.recv().await.unwrap() {
            break;
        }
    }
    let error = connected.session.request(echo("c"), call(3).context).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
}

#[tokio::test(start_paused = true)]
async fn a_death_in_the_middle_of_a_line_says_so() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let pending = start(&connected, echo("a"), call(1).context);
    let id = peer.recv().await["id"].clone();
    peer.raw(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"cont"#)).await;
    drop(peer);
    let error = pending.await.unwrap().unwrap_err();
    assert!(error.message.contains("ends in the middle"), "{error}");
    assert_eq!(rig.kinds().await, [FindingKind::Malformed]);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_junk_is_counted_and_costs_bounded_records() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let junk = "some library prints this line again and again\n".repeat(50_000);
    let pending = start(&connected, echo("a"), call(1).context);
    let request = peer.recv().await;
    peer.raw(junk).await;
    peer.reply(&request, text("through")).await;
    assert_eq!(*pending.await.unwrap().unwrap(), text("through"));
    drop(peer);
    let counted: u64 = rig.findings().await.iter().map(|f| f.count).sum();
    assert_eq!(counted, 50_000);
    assert!(rig.traffic().len() < 200, "{}", rig.traffic().len());
}

#[tokio::test(start_paused = true)]
async fn limits_follow_the_configuration() {
    let mut rig = rig_with(|limits| limits.line_bytes = 1000, None);
    let (connected, mut peer) = rig.legacy().await;
    let pending = start(&connected, echo("a"), call(1).context);
    let request = peer.recv().await;
    peer.reply(&request, text(&"x".repeat(2000))).await;
    let error = pending.await.unwrap().unwrap_err();
    assert!(error.message.contains("the limit is 1000"), "{error}");
    let outside = OutsideError::from_error(&error);
    assert_eq!(outside.code, OutsideCode::ProtocolError);
    for words in ["too large", "the limit is 1000 (`limits.lineBytes`)", "ask for less"] {
        assert!(outside.message.contains(words), "{outside}");
    }
    assert_eq!(rig.kinds().await, [FindingKind::TooLarge]);
}

/// The secret of the rig is at every place around the end of what is kept of the line.
#[tokio::test(start_paused = true)]
async fn a_line_over_the_limit_is_kept_without_a_part_of_a_secret_and_with_its_length() {
    for before in (64 << 10) - 60..(64 << 10) {
        let rig = rig_with(|limits| limits.line_bytes = 70 << 10, None);
        let (connected, mut peer) = rig.legacy().await;
        let pending = start(&connected, echo("a"), call(1).context);
        let id = peer.recv().await["id"].to_string();
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"text":""#);
        let pad = "p".repeat(before - head.len());
        let line = format!("{head}{pad}s3cr3t-value{}\"}}]}}}}", "q".repeat(20 << 10));
        let length = line.len();
        peer.line(line).await;
        assert!(pending.await.unwrap().is_err());
        let traffic = rig.traffic();
        let record = traffic.iter().find(|record| record.body.contains("ppp")).unwrap();
        assert!(record.cut && record.bytes == length, "{} {}", record.cut, record.bytes);
        assert!(!record.body.contains("s3") && !record.body.ends_with('s'), "{before}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_brace_on_a_line_of_its_own_swallows_no_message_behind_it() {
    let answer = r#"{"id":ID,"result":{"content":[]},"jsonrpc":"2.0"}"#;
    works(format!("{{\n{answer}"), &[FindingKind::Junk]).await;
}

#[tokio::test(start_paused = true)]
async fn no_mutation_of_an_answer_harms_the_session() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let mut random = fastrand::Rng::with_seed(7);
    let seeds = [
        OK.replace("ID", "3"),
        r#"{"jsonrpc":"2.0","id":"x","method":"roots/list","params":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}"#.to_owned(),
        r#"[{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"\ud800\u00e9"}}]"#.to_owned(),
    ];
    for n in 0..3000 {
        let mut line = seeds[n % seeds.len()].clone().into_bytes();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..line.len());
            match random.u8(..4) {
                0 => line[at] = random.u8(..),
                1 => drop(line.remove(at)),
                2 => line.insert(at, *random.choice(b"{}[]\",:\\0e\xff".iter()).unwrap()),
                _ => line.truncate(at.max(1)),
            }
            if line.is_empty() {
                line.push(b' ');
            }
        }
        line.push(b'\n');
        peer.raw(&line).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let call = start(&connected, echo("after"), call(1).context);
    let request = loop {
        let message = peer.recv().await;
        if message["method"] == "tools/call" {
            break message;
        }
    };
    peer.line("").await;
    peer.reply(&request, text("alive")).await;
    assert_eq!(*call.await.unwrap().unwrap(), text("alive"));
}
