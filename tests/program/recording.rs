//! Recordings as a user makes and uses them: recorded, masked, played as a server, compared, shown.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const SCRIPT: &str = r#"{
  "serverInfo": {"name": "counter", "version": "1"},
  "tools": [
    {"name": "echo", "inputSchema": {"type": "object"}},
    {"name": "login", "inputSchema": {"type": "object"}}
  ],
  "calls": {
    "echo": {"text": "said ${arguments.word}"},
    "login": {"text": "{\"accessToken\": \"walnut-4711\", \"user\": \"ada\"}"}
  }
}"#;

mod published;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.path("counter.json"), SCRIPT).unwrap();
        place.configure("live.json", &[place.path("counter.json").to_str().unwrap()]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A configuration whose server is the mock with these arguments.
    fn configure(&self, name: &str, args: &[&str]) {
        let mut all = vec!["mock"];
        all.extend(args);
        let exe = env!("CARGO_BIN_EXE_mcpdeck");
        let config = json!({"servers": {"counter": {"command": exe, "args": all}}});
        std::fs::write(self.path(name), config.to_string()).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_mcpdeck"))
            .args(args)
            .current_dir(self.0.path())
            .env("MCPDECK_STATE_DIR", self.path("state"))
            .output()
            .unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// Records one call of each tool.
    fn record(&self) {
        let echo = ["-c", "live.json", "--record", "a.jsonl", "call", "counter.echo", "word=hi"];
        self.ok(&echo);
        self.ok(&["-c", "live.json", "--record", "b.jsonl", "call", "counter.login"]);
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_recording_holds_every_message_in_order_and_says_when_it_ends() {
    let place = Place::new();
    place.record();
    let lines = lines(&place.path("a.jsonl"));
    let schema: Value = serde_json::from_str(&place.ok(&["schema", "recording"])).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    for line in &lines {
        assert!(schema.is_valid(line), "{line}");
    }
    assert_eq!(lines.first().unwrap()["type"], "header");
    assert_eq!(lines.last().unwrap()["type"], "end");
    assert_eq!(lines[0]["servers"]["counter"]["args"][0], "mock", "the configuration is there");
    let of = |direction: &str, word: &str| {
        lines.iter().position(|line| {
            line["type"] == "frame"
                && line["direction"] == direction
                && line["body"].as_str().unwrap().contains(word)
        })
    };
    let (asked, answered) = (of("out", "\"tools/call\""), of("in", "said hi"));
    assert!(asked.is_some() && asked < answered, "{asked:?} {answered:?}");
    assert!(lines.iter().any(|line| line["type"] == "fact" && line["fact"] == "exited"));
    let again = place.run(&["-c", "live.json", "--record", "a.jsonl", "list"]);
    assert_eq!(again.status.code(), Some(2), "a recording is not written over");
}

#[test]
fn a_recording_plays_as_a_server_that_answers_as_it_did() {
    let place = Place::new();
    place.record();
    place.configure("played.json", &[place.path("a.jsonl").to_str().unwrap()]);
    let played = ["-c", "played.json", "call", "counter.echo", "word=hi"];
    assert_eq!(
        place.ok(&played),
        place.ok(&["-c", "live.json", "call", "counter.echo", "word=hi"])
    );
    let checked = place.run(&["-c", "played.json", "--check"]);
    let live = place.run(&["-c", "live.json", "--check"]);
    assert_eq!(checked.status.code(), live.status.code());
    let unknown = place.run(&["-c", "played.json", "call", "counter.echo", "word=ho"]);
    let output = String::from_utf8(unknown.stderr).unwrap();
    assert!(!unknown.status.success() && output.contains("never recorded"), "{output}");
    assert!(output.contains(r#""word":"hi""#), "the nearest is named: {output}");
}

#[test]
fn faults_come_on_top_of_a_recording() {
    let place = Place::new();
    place.record();
    let file = place.path("a.jsonl");
    // Every request of the handshake and the lists is a step; the call is the last of them.
    let recorded = lines(&file);
    let requests = recorded
        .iter()
        .filter(|line| line["direction"] == "out" && line["kind"] == "request")
        .count()
        .to_string();
    place.configure("dying.json", &[file.to_str().unwrap(), "--die", &requests]);
    let died = place.run(&["-c", "dying.json", "call", "counter.echo", "word=hi"]);
    assert!(!died.status.success());
    place.configure("junk.json", &[file.to_str().unwrap(), "--junk", &requests]);
    assert!(place.ok(&["-c", "junk.json", "call", "counter.echo", "word=hi"]).contains("said hi"));
}

#[test]
fn a_scrubbed_recording_holds_no_secret_and_says_so() {
    let place = Place::new();
    place.record();
    let output = place.ok(&["scrub", "b.jsonl", "-o", "clean.jsonl", "--mask", "ada"]);
    assert!(output.contains("accessToken"), "{output}");
    let clean = std::fs::read_to_string(place.path("clean.jsonl")).unwrap();
    assert!(!clean.contains("walnut-4711") && !clean.contains("ada"), "{clean}");
    assert_eq!(lines(&place.path("clean.jsonl"))[0]["scrubbed"], true);
    place.configure("masked.json", &[place.path("clean.jsonl").to_str().unwrap()]);
    let refused = place.run(&["-c", "masked.json", "call", "counter.login"]);
    assert!(!refused.status.success(), "a scrubbed recording plays only when asked to");
    let clean = place.path("clean.jsonl");
    place.configure("asked.json", &[clean.to_str().unwrap(), "--scrubbed"]);
    assert!(place.ok(&["-c", "asked.json", "call", "counter.login"]).contains("***"));
}

#[test]
fn a_live_server_is_compared_with_a_recording_by_field() {
    let place = Place::new();
    place.record();
    let same = place.ok(&["-c", "live.json", "replay", "a.jsonl"]);
    assert_eq!(same, "1 request, 0 answered differently\n");
    std::fs::write(place.path("counter.json"), SCRIPT.replace("said", "shouted")).unwrap();
    let other = place.run(&["-c", "live.json", "replay", "a.jsonl", "--json"]);
    assert_eq!(other.status.code(), Some(1));
    let other: Value = serde_json::from_slice(&other.stdout).unwrap();
    let found = &other["results"][0]["differences"][0];
    assert_eq!(found["pointer"], "/content/0/text");
    assert_eq!((&found["recorded"], &found["now"]), (&json!("said hi"), &json!("shouted hi")));
}

/// The recorder masks what the entry says is a secret, in what is sent too.
#[test]
fn a_call_whose_arguments_are_masked_in_the_recording_is_not_sent_as_if_they_were_the_values() {
    let place = Place::new();
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let entry = json!({"command": exe, "args": ["mock", place.path("counter.json")],
        "env": {"API_KEY": "open-sesame-wide"}});
    std::fs::write(place.path("live.json"), json!({"servers": {"counter": entry}}).to_string())
        .unwrap();
    let record = |file: &str, word: &str| {
        place.ok(&["-c", "live.json", "--record", file, "call", "counter.echo", word]);
        std::fs::read_to_string(place.path(file)).unwrap()
    };
    let one = record("one.jsonl", "word=open-sesame-wide");
    assert!(one.contains("***") && !one.contains("open-sesame-wide"), "{one}");
    let other = record("other.jsonl", "word=hi");
    std::fs::write(place.path("both.jsonl"), one + other.split_once('\n').unwrap().1).unwrap();
    let replay = ["-c", "live.json", "replay", "both.jsonl"];
    let done = place.run(&replay);
    let (out, says) =
        (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert_eq!(out, "1 request, 0 answered differently, 1 not replayed\n", "{says}");
    for word in ["tools/call echo", "`word`", "--scrubbed"] {
        assert!(says.contains(word), "{word}: {says}");
    }
    let whole: Value =
        serde_json::from_str(&place.ok(&[&replay[..], &["--json"]].concat())).unwrap();
    assert_eq!(whole["notReplayed"][0]["masked"], json!(["/arguments/word"]), "{whole}");
    // What was asked for is done.
    let all = place.ok(&[&replay[..], &["--scrubbed"]].concat());
    assert_eq!(all, "2 requests, 0 answered differently\n");
    let none = place.run(&["-c", "live.json", "replay", "one.jsonl"]);
    assert_eq!(none.status.code(), Some(1), "nothing was compared: {none:?}");
    // Played, it answers whoever has the value.
    place.configure("played.json", &[place.path("one.jsonl").to_str().unwrap()]);
    let played = place.ok(&["-c", "played.json", "call", "counter.echo", "word=any-other"]);
    assert_eq!(played, "said ***\n");
}

#[test]
fn what_is_masked_in_a_recorded_result_may_be_anything() {
    let place = Place::new();
    place.record();
    place.ok(&["scrub", "b.jsonl", "-o", "clean.jsonl"]);
    let replay = ["-c", "live.json", "replay", "clean.jsonl", "--scrubbed"];
    assert_eq!(place.ok(&replay), "1 request, 0 answered differently\n");
    std::fs::write(place.path("counter.json"), SCRIPT.replace("ada", "bob")).unwrap();
    assert_eq!(place.run(&replay).status.code(), Some(1), "the rest is compared");
}

#[test]
fn an_answer_belongs_to_the_newest_request_of_its_id() {
    let place = Place::new();
    place.record();
    // A server that died before it answered counts anew after its restart.
    let mut all = lines(&place.path("a.jsonl"));
    let is_call = |line: &Value| line["method"] == "tools/call" && line["direction"] == "out";
    let at = all.iter().position(is_call).unwrap();
    let mut lost = all[at].clone();
    lost["body"] = lost["body"].as_str().unwrap().replace("hi", "lost").into();
    all.insert(at, lost);
    let text: Vec<String> = all.iter().map(Value::to_string).collect();
    std::fs::write(place.path("twice.jsonl"), text.join("\n") + "\n").unwrap();
    let same = place.ok(&["-c", "live.json", "replay", "twice.jsonl"]);
    assert_eq!(same, "1 request, 0 answered differently\n");
    place.configure("played.json", &[place.path("twice.jsonl").to_str().unwrap()]);
    let played = place.ok(&["-c", "played.json", "call", "counter.echo", "word=hi"]);
    assert_eq!(played, "said hi\n");
}

#[test]
fn a_recording_of_several_servers_is_compared_for_the_one_that_was_called_or_named() {
    let place = Place::new();
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let script = place.path("counter.json");
    let entry = json!({"command": exe, "args": ["mock", script]});
    let two = json!({"servers": {"counter": entry, "second": entry}});
    std::fs::write(place.path("live.json"), two.to_string()).unwrap();
    let record = |file: &str, call: &[&str]| {
        place.run(&[&["-c", "live.json", "--record", file], call].concat());
        std::fs::read_to_string(place.path(file)).unwrap()
    };
    record("none.jsonl", &["list"]);
    let refused = place.run(&["-c", "live.json", "replay", "none.jsonl"]);
    assert_eq!(refused.status.code(), Some(2), "nothing was compared: {refused:?}");
    let one = record("one.jsonl", &["call", "second.echo", "word=hi"]);
    let other = record("other.jsonl", &["call", "counter.echo", "word=hi"]);
    let both = one + other.split_once('\n').unwrap().1;
    std::fs::write(place.path("both.jsonl"), both).unwrap();
    let refused = place.run(&["-c", "live.json", "replay", "both.jsonl"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let says = String::from_utf8(refused.stderr).unwrap();
    assert!(says.contains("name one with --server (counter, second)"), "{says}");
    let named = place.ok(&["-c", "live.json", "replay", "both.jsonl", "--server", "second"]);
    assert_eq!(named, "1 request, 0 answered differently\n");
    let wrong = ["-c", "live.json", "replay", "both.jsonl", "--server", "x", "--against", "second"];
    assert_eq!(place.run(&wrong).status.code(), Some(2));
    let only = place.ok(&["-c", "live.json", "replay", "one.jsonl"]);
    assert_eq!(only, "1 request, 0 answered differently\n", "the one that was called");
}

#[test]
fn a_broken_line_is_left_out_and_told_and_no_file_is_overwritten() {
    let place = Place::new();
    place.record();
    let text = std::fs::read_to_string(place.path("a.jsonl")).unwrap();
    std::fs::write(place.path("broken.jsonl"), text + "{}\n").unwrap();
    for args in
        [["scrub", "broken.jsonl", "-o", "out.jsonl"], ["report", "broken.jsonl", "-o", "out.har"]]
    {
        let read = place.run(&args);
        assert_eq!(read.status.code(), Some(0), "{read:?}");
        let says = String::from_utf8(read.stderr).unwrap();
        assert!(says.contains("broken.jsonl: line ") && says.contains("was left out"), "{says}");
        assert!(place.path(args[3]).exists(), "{args:?}");
    }
    let again = place.run(&["scrub", "a.jsonl", "-o", "live.json"]);
    assert!(String::from_utf8(again.stderr).unwrap().contains("name another file"));
    let nobody = place.run(&["report", "a.jsonl", "-o", "a.html", "--server", "nobody"]);
    let says = String::from_utf8(nobody.stderr).unwrap();
    assert!(says.contains("nothing of `nobody` was recorded"), "{says}");
    let turned = place.run(&["report", "a.jsonl", "-o", "b.html", "--from", "5", "--to", "1"]);
    assert_eq!(turned.status.code(), Some(2), "{turned:?}");
}

#[test]
fn every_reader_of_a_damaged_recording_says_what_was_lost() {
    let place = Place::new();
    place.record();
    let text = std::fs::read_to_string(place.path("a.jsonl")).unwrap();
    let mut damaged: Vec<&str> = text.lines().collect();
    damaged.insert(2, r#"{"type":"frame","at":"#);
    std::fs::write(place.path("line.jsonl"), damaged.join("\n") + "\n").unwrap();
    let echo = ["-c", "live.json", "--record", "whole.jsonl.gz", "call", "counter.echo", "word=hi"];
    place.ok(&echo);
    let packed = std::fs::read(place.path("whole.jsonl.gz")).unwrap();
    std::fs::write(place.path("cut.jsonl.gz"), &packed[..packed.len() - 9]).unwrap();
    for (file, lost) in [("line.jsonl", "line 3 is broken"), ("cut.jsonl.gz", "is damaged or ends")]
    {
        for args in [
            &["-c", "live.json", "replay", file][..],
            &["-c", "live.json", "policy", "test", file, "--origin", "cli"],
            &["policy", "suggest", file],
            &["mock", file],
        ] {
            let read = place.run(args);
            let says = String::from_utf8_lossy(&read.stderr).into_owned();
            assert!(says.contains(&format!("{file}: ")) && says.contains(lost), "{args:?}: {says}");
            assert_eq!(read.status.code(), Some(0), "{args:?}: {says}");
        }
    }
}

#[test]
fn a_report_does_not_replace_its_own_recording() {
    let place = Place::new();
    place.record();
    let before = std::fs::read(place.path("a.jsonl")).unwrap();
    let refused = place.run(&["report", "a.jsonl", "-o", "./a.jsonl"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(std::fs::read(place.path("a.jsonl")).unwrap(), before);
}

#[test]
fn a_report_is_one_page_that_runs_and_fetches_nothing() {
    let place = Place::new();
    let evil = SCRIPT.replace("said", "<script>alert(1)</script><img src=x>");
    std::fs::write(place.path("counter.json"), evil).unwrap();
    place.record();
    place.ok(&["report", "a.jsonl", "-o", "a.html"]);
    let page = std::fs::read_to_string(place.path("a.html")).unwrap();
    assert!(page.contains("tools/call") && page.contains("&lt;script&gt;"), "{page}");
    assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
}

#[test]
fn a_cut_last_line_is_a_program_that_was_killed() {
    let place = Place::new();
    place.record();
    let text = std::fs::read_to_string(place.path("a.jsonl")).unwrap();
    std::fs::write(place.path("cut.jsonl"), &text[..text.len() - 7]).unwrap();
    let read = place.run(&["report", "cut.jsonl", "-o", "cut.html"]);
    let says = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(read.status.success() && says.contains("the last line breaks off"), "{says}");
    std::fs::write(place.path("none.jsonl"), "{}\n").unwrap();
    let refused = place.run(&["report", "none.jsonl", "-o", "none.html"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("not a recording"));
}

#[test]
fn what_other_programs_do_to_a_recording_is_read_around_or_named() {
    let place = Place::new();
    place.record();
    let text = std::fs::read_to_string(place.path("a.jsonl")).unwrap();
    let packed = |part: &str| {
        let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut member, part.as_bytes()).unwrap();
        member.finish().unwrap()
    };
    let (first, second) = text.split_at(text.len() / 2);
    let one = "1 request, 0 answered differently\n";
    for (file, bytes) in [
        ("marked.jsonl", format!("\u{feff}{text}").into_bytes()),
        ("blank.jsonl", format!("\n \n{}", text.replace('\n', "\r\n\r\n")).into_bytes()),
        ("unended.jsonl", text.trim_end().as_bytes().to_vec()),
        ("split.jsonl.gz", [packed(first), packed(second)].concat()),
        ("unended.jsonl.gz", packed(text.trim_end())),
    ] {
        std::fs::write(place.path(file), bytes).unwrap();
        assert_eq!(place.ok(&["-c", "live.json", "replay", file]), one, "{file}");
        let out = format!("{file}.html");
        let report = place.run(&["report", file, "-o", &out]);
        assert!(report.status.success() && report.stderr.is_empty(), "{file}: {report:?}");
    }
    for (file, bytes, said) in [
        ("empty.jsonl", &b""[..], "it is empty"),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfd....", "zstd -d"),
        ("wide.jsonl", b"\xff\xfe{\0}\0", "UTF-16"),
        ("begun.jsonl.gz", b"\x1f\x8b\x08\x00......", "damaged where it begins"),
        ("har.json", b"{\"log\": {}}\n", "not a recording"),
    ] {
        std::fs::write(place.path(file), bytes).unwrap();
        let refused = place.run(&["report", file, "-o", "none.html"]);
        let says = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && says.contains(said), "{file}: {says}");
    }
}

#[test]
fn a_recording_named_gz_is_compressed_when_it_ends_and_reads_the_same() {
    let place = Place::new();
    let echo = ["-c", "live.json", "--record", "a.jsonl.gz", "call", "counter.echo", "word=hi"];
    place.ok(&echo);
    let bytes = std::fs::read(place.path("a.jsonl.gz")).unwrap();
    assert!(bytes.starts_with(&[0x1f, 0x8b]), "it is compressed");
    assert_eq!(
        place.ok(&["-c", "live.json", "replay", "a.jsonl.gz"]),
        "1 request, 0 answered differently\n"
    );
    place.configure("played.json", &[place.path("a.jsonl.gz").to_str().unwrap()]);
    assert!(
        place.ok(&["-c", "played.json", "call", "counter.echo", "word=hi"]).contains("said hi")
    );
}

#[test]
fn a_part_of_a_recording_is_exported_for_other_tools() {
    let place = Place::new();
    place.record();
    let export = |name: &str, more: &[&str]| -> Value {
        place.ok(&[&["report", "a.jsonl", "-o", name], more].concat());
        serde_json::from_slice(&std::fs::read(place.path(name)).unwrap()).unwrap()
    };
    let har = export("a.har", &[]);
    let entries = har["log"]["entries"].as_array().unwrap();
    let call =
        entries.iter().find(|entry| entry["request"]["url"] == "mcp://counter/tools/call/echo");
    let call = call.expect("the call is an entry");
    assert_eq!((&har["log"]["version"], &call["response"]["status"]), (&json!("1.2"), &json!(200)));
    assert!(call["response"]["content"]["text"].as_str().unwrap().contains("said hi"));

    let traces = export("a.json", &[]);
    let scope = &traces["resourceSpans"][0]["scopeSpans"][0];
    let span = scope["spans"].as_array().unwrap().iter().find(|s| s["name"] == "tools/call echo");
    let span = span.expect("the call is a span");
    assert_eq!(span["traceId"].as_str().unwrap().len(), 32);
    assert!(span["startTimeUnixNano"].as_str() <= span["endTimeUnixNano"].as_str());
    assert!(!traces.to_string().contains("said hi"), "results are no attributes");

    place.ok(&["report", "a.jsonl", "-o", "part.jsonl", "--to", "1h", "--server", "nobody"]);
    let part = lines(&place.path("part.jsonl"));
    assert_eq!(part[0]["type"], "header");
    assert!(part.iter().all(|line| line["type"] != "frame"), "{part:?}");
    let vague = place.run(&["report", "a.jsonl", "-o", "a.bin"]);
    assert_eq!(vague.status.code(), Some(2));
}

#[test]
fn a_recording_plays_over_http_too() {
    let place = Place::new();
    place.record();
    let mut mock = Command::new(env!("CARGO_BIN_EXE_mcpdeck"))
        .args(["mock", "a.jsonl", "--listen", "127.0.0.1:0"])
        .current_dir(place.path(""))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = String::new();
    let mut stdout = std::io::BufReader::new(mock.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut output).unwrap();
    let _mock = crate::support::Guarded(mock);
    let url = output.trim().strip_prefix("listening on ").unwrap();
    let said = place.ok(&["call", "--url", url, "echo", "word=hi"]);
    assert!(said.contains("said hi"), "{said}");
    let unknown = place.run(&["call", "--url", url, "echo", "word=ho"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("never recorded"));
}

/// The row S10 of the fault suite: a server that dies in a call, after lines that are no messages.
#[test]
fn a_fault_is_reproduced_from_its_recording_alone() {
    let row = std::fs::read_to_string(crate::support::repo("fixtures/faults/S10.json")).unwrap();
    // Of the constants that the suite draws (`@code:2..99@`) the least.
    let parts = row.split('@').enumerate().map(|(n, part)| match part.split_once("..") {
        Some((drawn, _)) if n % 2 == 1 => drawn.rsplit(':').next().unwrap(),
        _ => part,
    });
    let row: String = parts.collect();
    let row: Value = serde_json::from_str(&row).unwrap();
    let mut script = row["servers"]["faulty"]["mock"].clone();
    script["calls"]["chatty"] = json!([{"line": "Now listening!"}, {"text": "fine"}]);
    let place = Place::new();
    std::fs::write(place.path("counter.json"), script.to_string()).unwrap();
    for call in ["three", "segv", "chatty"] {
        let name = format!("counter.{call}");
        let file = format!("{call}.jsonl");
        let of = |config: &str, record: &[&str]| {
            let args = [&["-c", config, "--timeout", "20"], record, &["call", &name, "--json"]];
            let out = place.run(&args.concat());
            let output: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
            // How long it had lived differs.
            let message = output["error"]["message"].as_str().unwrap_or_default().to_owned();
            let message = message.split(" after ").next().unwrap_or_default();
            let words: Vec<&str> =
                message.split(' ').filter(|word| word.parse::<f64>().is_err()).collect();
            (out.status.code(), json!(words), output["result"].clone())
        };
        let live = of("live.json", &["--record", &file]);
        assert_ne!((&live.1, &live.2), (&json!([""]), &Value::Null), "{call}");
        place.configure("played.json", &[place.path(&file).to_str().unwrap()]);
        let again = "again.jsonl";
        let _ = std::fs::remove_file(place.path(again));
        let played = of("played.json", &["--record", again]);
        assert_eq!(played, live, "{call}");
        let junk = |name: &str| {
            let lines = lines(&place.path(name));
            lines
                .iter()
                .filter(|line| line["kind"] == "junk")
                .map(|line| line["body"].clone())
                .collect()
        };
        let (then, now): (Vec<Value>, Vec<Value>) = (junk(&file), junk(again));
        assert_eq!(then, now, "{call}");
        assert_eq!(call == "chatty", !now.is_empty(), "{call}: {now:?}");
    }
}

#[test]
fn a_secret_that_is_a_number_is_masked_and_what_holds_it_stays_json() {
    let place = Place::new();
    let script = r#"{"tools": [{"name": "pin", "inputSchema": {"type": "object"}}],
        "calls": {"pin": {"answer": {"content": [], "structuredContent":
            {"key": 8492749201, "list": [8492749201]}}}}}"#;
    std::fs::write(place.path("pin.json"), script).unwrap();
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let entry = json!({
        "command": exe, "args": ["mock", place.path("pin.json")], "env": {"API_KEY": "8492749201"},
    });
    std::fs::write(place.path("live.json"), json!({"servers": {"s": entry}}).to_string()).unwrap();
    let call = [
        "-c",
        "live.json",
        "--record",
        "a.jsonl",
        "--log-file",
        "log",
        "--log-payloads",
        "call",
        "s.pin",
        "--json",
    ];
    let printed: Value = serde_json::from_str(&place.ok(&call)).unwrap();
    let shown = json!({"key": "***", "list": ["***"]});
    assert_eq!(printed["result"]["structuredContent"], shown);
    for file in ["a.jsonl", "log"] {
        let text = std::fs::read_to_string(place.path(file)).unwrap();
        assert!(!text.contains("8492749201") && text.contains("***"), "{file}: {text}");
    }
    for frame in lines(&place.path("a.jsonl")).iter().filter(|line| line["type"] == "frame") {
        let body = frame["body"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(body).is_ok(), "{body}");
    }
    let replayed = place.run(&["-c", "live.json", "replay", "a.jsonl"]);
    assert!(String::from_utf8_lossy(&replayed.stdout).starts_with("1 request, "), "{replayed:?}");
}

#[test]
fn messages_that_cannot_be_read_are_counted_and_told() {
    let place = Place::new();
    place.record();
    let text = std::fs::read_to_string(place.path("a.jsonl")).unwrap();
    std::fs::write(place.path("cut.jsonl"), text.replace("said hi\\\"}]", "said hi")).unwrap();
    let replayed = place.run(&["-c", "live.json", "replay", "cut.jsonl"]);
    let says = String::from_utf8_lossy(&replayed.stderr).into_owned();
    assert!(says.contains("cut.jsonl: 1 message without whole JSON"), "{says}");
}

#[test]
fn requests_of_a_scrubbed_recording_are_sent_only_when_asked_to() {
    let place = Place::new();
    place.ok(&[
        "-c",
        "live.json",
        "--record",
        "a.jsonl",
        "call",
        "counter.echo",
        "word=hi",
        "password=hi",
    ]);
    place.ok(&["scrub", "a.jsonl", "-o", "clean.jsonl"]);
    let refused = place.run(&["-c", "live.json", "replay", "clean.jsonl"]);
    let says = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{says}");
    assert!(says.contains("it was scrubbed") && says.contains("--scrubbed"), "{says}");
    let sent = place.ok(&["-c", "live.json", "replay", "clean.jsonl", "--scrubbed"]);
    assert_eq!(sent, "1 request, 0 answered differently\n");
}

#[test]
fn a_part_of_a_recording_holds_nothing_of_other_servers() {
    let place = Place::new();
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let args = json!(["mock", place.path("counter.json")]);
    let two = json!({"servers": {
        "first": {"command": exe, "args": args, "dependsOn": ["second"]},
        "second": {"command": exe, "args": args, "timeout": 77},
    }});
    std::fs::write(place.path("live.json"), two.to_string()).unwrap();
    place.ok(&["-c", "live.json", "--record", "a.jsonl", "list"]);
    let whole = std::fs::read_to_string(place.path("a.jsonl")).unwrap();
    // The one that is ready last is told that the other has its tools too.
    assert!(whole.contains("are tools of `second` too"), "{whole}");
    let chat = "{\"type\":\"chat\",\"at\":1,\"text\":\"ask second\"}\n";
    std::fs::write(place.path("a.jsonl"), whole + chat).unwrap();
    place.ok(&["report", "a.jsonl", "-o", "part.jsonl", "--server", "first"]);
    let part = std::fs::read_to_string(place.path("part.jsonl")).unwrap();
    assert!(!part.contains("second"), "{part}");
    let part = lines(&place.path("part.jsonl"));
    assert_eq!(part[0]["servers"]["first"]["args"], args);
    assert!(part.iter().any(|line| line["type"] == "frame" && line["server"] == "first"));
    place.ok(&["report", "a.jsonl", "-o", "all.jsonl"]);
    assert!(std::fs::read_to_string(place.path("all.jsonl")).unwrap().contains("second"));
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_recording_and_is_not_waited_for() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    for args in [&["report", "pipe", "-o", "a.html"][..], &["scrub", "pipe", "-o", "b.jsonl"]] {
        let refused = place.run(args);
        let says = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{says}");
        assert!(says.contains("pipe: it is not a regular file"), "{says}");
    }
}

/// A limit on the size of files stands for a full disk.
#[cfg(all(unix, feature = "gateway"))]
#[test]
fn a_service_says_at_once_that_it_can_record_no_more() {
    use std::io::{BufRead as _, BufReader};
    let place = Place::new();
    let big = SCRIPT.replace(
        "\"echo\", \"in",
        &format!("\"echo\", \"title\": \"{}\", \"in", "x".repeat(9 << 10)),
    );
    std::fs::write(place.path("counter.json"), big).unwrap();
    let mut service = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_mcpdeck"),
        ])
        .args(["-c", "live.json", "--record", "a.jsonl", "serve", "--stdio"])
        .current_dir(place.0.path())
        .env("MCPDECK_STATE_DIR", place.path("state"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = BufReader::new(service.stderr.take().unwrap()).lines().map_while(Result::ok);
    // Its input is open: it runs on.
    let told = says.by_ref().find(|line| line.contains("cannot record to a.jsonl: "));
    assert!(told.is_some() && service.try_wait().unwrap().is_none(), "{told:?}");
    drop(service.stdin.take());
    let again = says.filter(|line| line.contains("cannot record")).count();
    service.wait().unwrap();
    assert_eq!(again, 0, "told once");
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_cannot_be_written_is_told_once() {
    let place = Place::new();
    let done = place.run(&["-c", "live.json", "--log-file", "/dev/full", "call", "counter.echo"]);
    let says = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{says}");
    assert_eq!(says.matches("of the log could not be written: No space left").count(), 1, "{says}");
}
