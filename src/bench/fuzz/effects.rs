//! What is wrong beside a single answer: the list of tools, answers that depend on earlier calls, work
//! that grows faster than its input, memory that grows with every call.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{CaseVerdict, FuzzFinding, FuzzedTool, Fuzzer, ToolRun};
use crate::generate::{CaseKind, FuzzCase};
use crate::probe::{CallEnd, ProbeCall};
use base::pointer::set;
use check::Severity;
use check::expect::value_of;
use check::subject::brief;
use host::{ServerView, canonical_name};
use protocol::{FindingKind, ListKind, Tool};

/// Most cases after which the smallest arguments are called again.
const MAX_CARRIED_CASES: usize = 48;
/// Slowest call of a tool that takes part in comparisons.
const MAX_OBSERVED_TIMEOUT: Duration = Duration::from_millis(100);
/// Shortest text whose length may be what makes a call slow.
const MIN_LONG_CHARS: usize = 1_000;
/// A call that is quicker than this is quick enough, however long its text is.
const SLOW_CALL_TIMEOUT: Duration = Duration::from_millis(200);
/// Most places whose length is looked at, for each tool.
const MAX_LONG_PLACES: usize = 4;
/// A call whose work grows faster than its text takes at least this many times as long with twice of it.
const MIN_STEEP_GROWTH: f64 = 2.8;
/// How often a call is timed: the quickest counts.
const MAX_TIMED_CALLS: usize = 3;

/// Calls of each tool in one round of the look at the memory.
const MEMORY_ROUND_CALLS: usize = 64;
/// Longest time of one tool in such a round.
const MEMORY_TOOL_TIMEOUT: Duration = Duration::from_millis(400);
/// Growth in one round that counts, in bytes.
const MEMORY_GROWTH_BYTES: u64 = 3 << 20;
/// Time between two looks at the memory: what is read is kept for half a second.
const MEMORY_INTERVAL: Duration = Duration::from_millis(600);

impl Fuzzer<'_> {
    /// Adds what the server did wrong before anything was called: entries of its list that had to be
    /// set aside, lists without an end, lines that are no messages.
    pub(super) fn discovery(&mut self, seen: &ServerView) {
        for entry in &seen.capabilities.rejected {
            if entry.list != ListKind::Tools {
                continue;
            }
            let name = entry.raw.get("name").and_then(Value::as_str).unwrap_or("(without a name)");
            if self.targets.takes(self.server, name) {
                let tool = canonical_name(self.server, name);
                let why = brief(entry.reason.as_str(), 200);
                let note = Some(format!("its entry of tools/list was set aside: {why}"));
                self.report.tools.push(FuzzedTool { tool, note, ..FuzzedTool::default() });
            }
        }
        if !self.plan.tools.is_empty() {
            return;
        }
        for found in &seen.findings {
            // What a server says to a method that it does not have is tolerated by every client.
            if found.request.as_ref().is_some_and(|it| it.as_str().starts_with("server/discover")) {
                continue;
            }
            let severity = match found.kind {
                FindingKind::Junk
                | FindingKind::Malformed
                | FindingKind::UnknownId
                | FindingKind::DuplicateAnswer
                | FindingKind::WrongShape
                | FindingKind::NotAllowed => Severity::Error,
                FindingKind::BadEntry | FindingKind::PartialList => Severity::Warning,
                FindingKind::TooLarge
                | FindingKind::LateAnswer
                | FindingKind::Version
                | FindingKind::Flood
                | FindingKind::Leftover
                | FindingKind::AskedAfterClose
                | FindingKind::Tolerated
                | FindingKind::Collision => continue,
            };
            self.report.findings.push(FuzzFinding {
                rule: "fuzz/protocol",
                severity,
                server: self.server.to_string(),
                tool: self.server.to_string(),
                place: String::new(),
                what: "before any tool was called".to_owned(),
                message: brief(found.message.as_str(), 300),
                calls: Vec::new(),
                count: 1,
            });
        }
    }

    /// What a tool answers to its smallest arguments; `None` when it fails.
    async fn answer(&mut self, run: &ToolRun) -> Option<Value> {
        let end = self.probe.call(&run.name, &run.smallest).await;
        end.into_outcome().map(|outcome| value_of(&outcome.result).value)
    }

    /// As [`Fuzzer::answer`], of a copy that has answered so before; `None` where it does not stay
    /// the same by itself.
    async fn steady_answer(&mut self, run: &ToolRun) -> Option<Value> {
        self.probe.restart().await.ok()?;
        self.answer(run).await?;
        let first = self.answer(run).await?;
        (self.answer(run).await? == first).then_some(first)
    }

    /// Whether a read-only tool answers the same arguments otherwise after it was called with others.
    pub(super) async fn carryover(&mut self, tool: &Tool, run: &ToolRun, cases: &[FuzzCase]) {
        if tool.hints.read_only != Some(true) || run.pace.is_none_or(|it| it > MAX_OBSERVED_TIMEOUT)
        {
            return;
        }
        let others = cases.iter().filter(|case| case.kind == CaseKind::Valid && !run.hangs(case));
        let others: Vec<&FuzzCase> = others.take(MAX_CARRIED_CASES).collect();
        let (Some(first), Some(again)) = (self.answer(run).await, self.answer(run).await) else {
            return;
        };
        if first != again {
            return;
        }
        // At full speed; one by one only if there is something to be seen.
        let mut calls: Vec<ProbeCall<'_>> = Vec::new();
        for case in &others {
            calls.push(ProbeCall { tool: &run.name, arguments: &case.arguments });
            calls.push(run.smallest_call());
        }
        let ends = self.probe.call_all(&calls).await;
        let is_other = |end: &CallEnd| match end {
            CallEnd::Done(outcome) => value_of(&outcome.result) != first,
            CallEnd::ToolError { .. }
            | CallEnd::RpcError { .. }
            | CallEnd::Crash(_)
            | CallEnd::Hang
            | CallEnd::Slow
            | CallEnd::Protocol(_)
            | CallEnd::Blocked(_) => false,
        };
        if !ends.iter().skip(1).step_by(2).any(is_other) {
            return;
        }
        let Some(steady) = self.steady_answer(run).await else { return };
        for case in others {
            let _ = self.probe.call(&run.name, &case.arguments).await;
            let after = self.answer(run).await;
            let Some(after) = after.filter(|after| *after != steady) else { continue };
            let message = format!(
                "after this call the tool answers the same arguments otherwise: {} instead of {}",
                brief(&after.to_string(), 80),
                brief(&steady.to_string(), 80)
            );
            let (rule, severity) = ("fuzz/carryover", Severity::Warning);
            let verdict = CaseVerdict { rule, severity, message };
            if self.is_carried(run, case).await && self.is_carried(run, case).await {
                self.keep(run, case, verdict).await;
            }
            return;
        }
    }

    /// Whether a fresh copy answers the smallest arguments otherwise after a case.
    pub(super) async fn is_carried(&mut self, run: &ToolRun, case: &FuzzCase) -> bool {
        let Some(steady) = self.steady_answer(run).await else { return false };
        let _ = self.probe.call(&run.name, &case.arguments).await;
        self.answer(run).await.is_some_and(|after| after != steady)
    }

    /// Whether the time of a call grows faster than the length of a text in it.
    pub(super) async fn slowness(&mut self, run: &ToolRun, cases: &[FuzzCase]) {
        let mut places: Vec<&FuzzCase> = Vec::new();
        for case in cases {
            let is_long = case.kind != CaseKind::Invalid && length(case) >= MIN_LONG_CHARS;
            if !is_long || run.hangs(case) {
                continue;
            }
            match places.iter_mut().find(|it| it.place == case.place) {
                Some(known) if length(known) < length(case) => *known = case,
                Some(_) => {}
                None => places.push(case),
            }
        }
        for case in places.into_iter().take(MAX_LONG_PLACES) {
            let many = length(case);
            let mut times = Vec::new();
            for chars in [many, many / 2, many / 4] {
                let part = shortened(case, chars);
                // A shorter text may be one that the schema forbids.
                let Some(took) = self.quickest(run, &part).await else { break };
                times.push((chars, took));
                if times.len() == 1 && took < SLOW_CALL_TIMEOUT {
                    break;
                }
            }
            let [(_, whole), (half, half_took), (quarter, quarter_took)] = times.as_slice() else {
                continue;
            };
            if !is_steep(&[*quarter_took, *half_took, *whole]) {
                continue;
            }
            let message = format!(
                "the time of the call grows faster than its text: {many} characters take {} ms, {half} \
                 {} ms, {quarter} {} ms",
                whole.as_millis(),
                half_took.as_millis(),
                quarter_took.as_millis()
            );
            self.add(run, case.clone(), "fuzz/slow", Severity::Warning, message);
        }
    }

    /// The shortest time that a call took; `None` when it was not answered.
    async fn quickest(&mut self, run: &ToolRun, case: &FuzzCase) -> Option<Duration> {
        let mut quickest = None;
        for _ in 0..MAX_TIMED_CALLS {
            let began = Instant::now();
            if !self.probe.call(&run.name, &case.arguments).await.is_orderly() {
                return None;
            }
            let took = began.elapsed();
            quickest = Some(quickest.map_or(took, |least: Duration| least.min(took)));
            if took < SLOW_CALL_TIMEOUT / 8 {
                break;
            }
        }
        quickest
    }

    /// Looks for memory that keeps growing: rounds of the same calls after a warm-up; then which
    /// half of the tools it is, and so on.
    pub(super) async fn memory(&mut self, runs: &[ToolRun]) {
        if runs.is_empty() {
            return;
        }
        if self.probe.memory().is_none() {
            // What was read before the server was started does not know it.
            tokio::time::sleep(MEMORY_INTERVAL).await;
        }
        if self.probe.memory().is_none() || self.probe.restart().await.is_err() {
            return;
        }
        let all: Vec<&ToolRun> = runs.iter().collect();
        // The first round fills caches.
        for round in 0..3 {
            let grown = self.grown(&all).await;
            if round > 0 && grown < MEMORY_GROWTH_BYTES {
                return;
            }
        }
        let mut open: Vec<Vec<&ToolRun>> = vec![all];
        while let Some(group) = open.pop() {
            let grown = self.grown(&group).await;
            if grown < MEMORY_GROWTH_BYTES {
                continue;
            }
            let [run] = group.as_slice() else {
                let (left, right) = group.split_at(group.len() / 2);
                open.push(left.to_vec());
                open.push(right.to_vec());
                continue;
            };
            let megabytes = grown as f64 / 1e6;
            let message = format!(
                "the memory of the server grows by {megabytes:.1} MB with every {MEMORY_ROUND_CALLS} \
                 calls of the same arguments"
            );
            let case = FuzzCase {
                arguments: run.smallest.clone(),
                place: String::new(),
                what: "the smallest arguments".to_owned(),
                kind: CaseKind::Valid,
            };
            self.add(run, case, "fuzz/memory", Severity::Warning, message);
        }
    }

    /// By how much the memory grows in one round.
    async fn grown(&mut self, runs: &[&ToolRun]) -> u64 {
        let is_quick = |run: &&&ToolRun| {
            let most = MEMORY_TOOL_TIMEOUT / MEMORY_ROUND_CALLS as u32;
            run.pace.is_some_and(|pace| pace <= most)
        };
        let (quick, slow): (Vec<&&ToolRun>, Vec<&&ToolRun>) = runs.iter().partition(is_quick);
        // Without a stop between one tool and the next: that would take longer than the calls.
        let calls = quick.iter().flat_map(|run| vec![run.smallest_call(); MEMORY_ROUND_CALLS]);
        let calls: Vec<ProbeCall<'_>> = calls.collect();
        let made = if calls.is_empty() { Vec::new() } else { self.probe.call_all(&calls).await };
        let left = if made.len() < calls.len() { quick } else { Vec::new() };
        for run in left.into_iter().chain(slow) {
            let began = Instant::now();
            let mut left = MEMORY_ROUND_CALLS;
            while left > 0 && began.elapsed() <= MEMORY_TOOL_TIMEOUT {
                let many = self.probe.group_size().min(left);
                let _ = self.probe.call_all(&vec![run.smallest_call(); many]).await;
                left -= many;
            }
        }
        tokio::time::sleep(MEMORY_INTERVAL).await;
        let now = self.probe.memory().unwrap_or_default();
        let before = std::mem::replace(&mut self.memory, now);
        now.saturating_sub(before)
    }
}

/// The length of the text at the place of a case, in characters.
fn length(case: &FuzzCase) -> usize {
    let text = case.arguments.pointer(&case.place).and_then(Value::as_str);
    text.map_or(0, |text| text.chars().count())
}

/// A case with fewer characters in the text at its place.
fn shortened(case: &FuzzCase, chars: usize) -> FuzzCase {
    let text = case.arguments.pointer(&case.place).and_then(Value::as_str).unwrap_or_default();
    let text: String = text.chars().take(chars).collect();
    let mut arguments = Some(case.arguments.clone());
    set(&mut arguments, &case.place, Value::String(text));
    FuzzCase { arguments: arguments.unwrap_or_default(), ..case.clone() }
}

/// Whether each of the times, of texts that are twice as long as the one before, grows by more than
/// twice the one before.
fn is_steep(times: &[Duration]) -> bool {
    let grows =
        |pair: &[Duration]| pair[1].as_secs_f64() > MIN_STEEP_GROWTH * pair[0].as_secs_f64();
    times.windows(2).all(grows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_grows_faster_than_the_text_is_steep() {
        let steep = |times: [u64; 3]| is_steep(&times.map(Duration::from_millis));
        assert!(steep([30, 120, 480]));
        assert!(steep([10, 80, 640]));
        assert!(!steep([100, 200, 400]), "as fast as the text");
        assert!(!steep([10, 11, 480]), "a machine that was busy once");
        assert!(!steep([200, 201, 202]), "a slow tool");
    }

    #[test]
    fn a_case_is_shortened_at_its_place() {
        let case = FuzzCase {
            arguments: json!({"a": {"b": "\u{e9}\u{e9}\u{e9}\u{e9}"}, "c": "x"}),
            place: "/a/b".to_owned(),
            what: String::new(),
            kind: CaseKind::Valid,
        };
        assert_eq!(length(&case), 4);
        assert_eq!(shortened(&case, 2).arguments, json!({"a": {"b": "\u{e9}\u{e9}"}, "c": "x"}));
    }
}
