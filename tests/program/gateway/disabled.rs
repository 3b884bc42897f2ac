//! Files with thousands of entries that are switched off: they cost a place in the list, no task and
//! no channel, and each of them starts when it is enabled.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Pipe, initialize, request};
use crate::support::{Bench, finish};

const AT_MOST: Duration = Duration::from_secs(120);

/// A bench with a file of this many disabled entries, and one more, `late`, that can be enabled.
fn bench(entries: usize, late_is_disabled: bool) -> Bench {
    let bench = Bench::new();
    let script = json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]});
    let off = |n| (format!("server{n:05}"), json!({"command": "node", "disabled": true}));
    let mut all: Map<String, Value> = (0..entries).map(off).collect();
    let late = bench.mock("late", &script, &json!({"disabled": late_is_disabled}));
    all.insert("late".to_owned(), late);
    bench.servers(&Value::Object(all));
    bench
}

#[test]
fn ten_thousand_disabled_entries_are_listed_in_little_memory() {
    let once = |entries, verb: &str| {
        let bench = bench(entries, true);
        let mut command = bench.command(&[verb]);
        // Otherwise each thread of the system's allocator takes memory of its own.
        command.env("MALLOC_ARENA_MAX", "1");
        let done = finish(command, AT_MOST);
        // A check of nothing is a finding.
        let code = i32::from(verb == "--check");
        assert_eq!(done.code, Some(code), "{:?}", done.stderr);
        done.peak
    };
    // A short run can end before all that it takes is seen.
    let peak = |entries, verb: &str| (0..3).map(|_| once(entries, verb)).max().unwrap_or(0);
    for verb in ["list", "config", "status", "--check"] {
        let (one, some, many) = (peak(1, verb), peak(3_000, verb), once(10_000, verb));
        // Beside what the program itself takes, which differs with how it was built.
        let (some, many) = (some.saturating_sub(one), many.saturating_sub(one));
        // 45 MB on an idle machine. A check has a report on each besides.
        let most = if verb == "--check" { 125 << 20 } else { 75 << 20 };
        assert!(many < most, "{verb}: {many} bytes");
        // Linear: what the system adds in steps aside.
        assert!(many < 5 * some + (8 << 20), "{verb}: {some} bytes for 3,000, {many} for 10,000");
    }
}

#[test]
fn one_of_thousands_starts_when_the_file_enables_it_and_is_served() {
    let bench = bench(3_000, true);
    let mut command = bench.command(&["serve", "--stdio"]);
    let mut pipe = Pipe::start(&mut command);
    pipe.ask(&initialize());
    pipe.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut id = 0;
    let mut tools = |pipe: &mut Pipe| {
        id += 1;
        let listed = pipe.ask(&request(id, "tools/list", &json!({})));
        listed["result"]["tools"].as_array().expect("tools").len()
    };
    assert_eq!(tools(&mut pipe), 0);
    let file = bench.path().join("mcp.json");
    let text = std::fs::read_to_string(&file).expect("the file");
    let mut edited: Value = serde_json::from_str(&text).expect("JSON");
    edited["servers"]["late"]["disabled"] = false.into();
    std::fs::write(&file, edited.to_string()).expect("written");
    crate::support::wait_for("its tool", Duration::from_secs(60), || {
        (tools(&mut pipe) == 1).then_some(())
    });
    let called = pipe.ask(&request(100_000, "tools/call", &json!({"name": "late__t"})));
    assert!(called["result"]["content"].is_array(), "{called}");
}
