//! Fuzzing: cases from each `inputSchema` against a copy of the server, verdicts, shrinking.

mod effects;
mod leaks;
mod plan;
mod report;
mod sequences;
mod smaller;
mod targets;

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Duration;

use indexmap::IndexMap;
use regex::Regex;
use serde_json::Value;

use crate::generate::{CaseKind, CaseMaker, FuzzCase};
use crate::probe::{CallEnd, MAX_GROUP_ROUNDS, MAX_PENDING_CALLS, ProbeCall, ServerProbe};
use base::pointer::{place as shown_place, remove, set};
use base::{Secret, ServerName};
use check::Severity;
use check::expect::value_of;
use check::run::CheckSignals;
use check::subject::brief;
use host::canonical_name;
use protocol::{RpcCode, Tool, every_difference};

pub use plan::{
    ClaimObserver, DEFAULT_CALL_TIMEOUT, DEFAULT_CASES, DEFAULT_SEED, FuzzPlan, FuzzSettings,
    MAX_FUZZ_CASES, folder_of, fuzz_problems,
};
pub use report::{FuzzCall, FuzzFinding, FuzzReport, FuzzedTool};

use leaks::leak;
use smaller::smaller_values;
use targets::FuzzTargets;

/// Most findings of one kind and tool that are reported one by one.
const MAX_FINDINGS_PER_TOOL: usize = 8;
/// Most tries to make one value smaller.
const MAX_SHRINK_TRIES: usize = 12;

/// Fuzzes the tools of every server that the plan chooses; `show` hears of each tool.
pub async fn fuzz(
    plan: &FuzzPlan,
    signals: &CheckSignals,
    show: &(dyn Fn(&str) + Sync),
) -> FuzzReport {
    let mut report = FuzzReport { seed: plan.seed, ..FuzzReport::default() };
    let mut spent = Duration::ZERO;
    let mut targets = match FuzzTargets::new(plan) {
        Ok(targets) => targets,
        Err(error) => {
            report.failed.insert("fuzz".to_owned(), error.to_string());
            return report;
        }
    };
    let servers: Vec<ServerName> = plan.source.config.servers.keys().cloned().collect();
    let owners: Vec<Option<ServerName>> =
        plan.tools.iter().map(|name| plan.source.owner(name)).collect();
    for server in servers {
        if signals.stop.is_cancelled() {
            break;
        }
        // A server whose name no pattern can mean is not started.
        let all_named = !owners.is_empty() && owners.iter().all(Option::is_some);
        if all_named && !owners.iter().flatten().any(|owner| *owner == server) {
            continue;
        }
        if plan.source.config.servers.get(&server).is_none_or(|entry| entry.disabled) {
            continue;
        }
        let folder = plan.settings.folders.get(server.as_str());
        let folder = folder.map(|folder| plan.beside.join(folder));
        let started = ServerProbe::start(&plan.source, &server, (plan.timeout, folder)).await;
        let probe = match started {
            Ok(probe) => probe,
            Err(why) => {
                report.failed.insert(server.to_string(), why);
                continue;
            }
        };
        if let Some(seen) = probe.host().snapshot().servers.get(&server) {
            targets.see(&server, &seen.capabilities);
        }
        let mut fuzzer = Fuzzer {
            plan,
            targets: &targets,
            secrets: Vec::new(),
            server: &server,
            probe,
            report: &mut report,
            violations: 0,
            mark: 0,
            memory: 0,
        };
        let fuzzing = Box::pin(fuzzer.server(show));
        let _ = signals.stop.run_until_cancelled(fuzzing).await;
        let Fuzzer { probe, .. } = fuzzer;
        report.calls += probe.calls;
        spent += probe.spent;
        probe.close(signals).await;
    }
    report.failed.extend(targets.unmatched());
    if !report.tools.is_empty() {
        report.failed.extend(targets.unmatched_tools());
    }
    report.calls_per_second = report.calls as f64 / spent.as_secs_f64().max(f64::EPSILON);
    report.findings.sort_by(|a, b| {
        (b.severity, a.rule, &a.tool, &a.place).cmp(&(a.severity, b.rule, &b.tool, &b.place))
    });
    report
}

/// What is wrong with one case.
#[derive(Clone, Debug, PartialEq)]
struct CaseVerdict {
    rule: &'static str,
    severity: Severity,
    message: String,
}

struct Fuzzer<'a> {
    plan: &'a FuzzPlan,
    targets: &'a FuzzTargets<'a>,
    /// The secrets of its entry, which no error may show.
    secrets: Vec<Secret>,
    server: &'a ServerName,
    probe: ServerProbe,
    report: &'a mut FuzzReport,
    /// Breaches of the protocol before the tool that is fuzzed.
    violations: u64,
    /// Up to where messages of the server were looked at for what breaks the protocol.
    mark: u64,
    /// The memory of the server when it was looked at last.
    memory: u64,
}

/// One tool while it is fuzzed.
struct ToolRun {
    /// Its name on the wire.
    name: String,
    /// `server.tool`.
    full: String,
    /// The smallest arguments, and whether the tool accepts them.
    smallest: Value,
    accepts: bool,
    /// Why not.
    refusal: Option<String>,
    /// Cases since the last restart.
    since: Vec<FuzzCase>,
    /// Whether it worked longer than it was waited for.
    is_slow: bool,
    /// How long its last calls took each.
    pace: Option<Duration>,
    /// Places at which the server hung, or worked for too long.
    hung: HashSet<String>,
    maker: CaseMaker,
}

impl ToolRun {
    fn smallest_call(&self) -> ProbeCall<'_> {
        ProbeCall { tool: &self.name, arguments: &self.smallest }
    }

    /// Whether a case has a value of its own where the server hung.
    fn hangs(&self, case: &FuzzCase) -> bool {
        let differs = |at: &String| case.arguments.pointer(at) != self.smallest.pointer(at);
        self.hung.iter().any(|place| case.place == *place || differs(place))
    }
}

impl Fuzzer<'_> {
    async fn server(&mut self, show: &(dyn Fn(&str) + Sync)) {
        let view = self.probe.host().snapshot();
        let Some(seen) = view.servers.get(self.server) else { return };
        let tools = seen.capabilities.tools.clone();
        self.discovery(seen);
        self.mark = self.probe.mark();
        let mut accepted: Vec<ToolRun> = Vec::new();
        for tool in &tools {
            if !self.targets.takes(self.server, &tool.name) {
                continue;
            }
            let full = canonical_name(self.server, &tool.name);
            if let Some(why) = self.targets.refusal(self.server, tool) {
                let note = Some(why.to_owned());
                self.report.tools.push(FuzzedTool { tool: full, note, ..FuzzedTool::default() });
                continue;
            }
            show(&full);
            if let Some(run) = self.tool(tool, full).await {
                accepted.push(run);
            }
        }
        self.memory(&accepted).await;
        if self.plan.sequences {
            self.sequences(&tools, &accepted).await;
        }
    }

    async fn tool(&mut self, tool: &Tool, full: String) -> Option<ToolRun> {
        self.secrets = self.probe.host().secrets(self.server);
        // What the calls of the tool before brought has been read.
        let _ = self.probe.answers().await;
        (self.violations, self.mark) = (self.probe.violations(), self.probe.mark());
        let maker = CaseMaker::new(&tool.input_schema);
        let seeded = self.targets.seed(self.server, &tool.name);
        let seeded = seeded.map(|arguments| Value::Object(arguments.clone()));
        let mut entry = FuzzedTool { tool: full.clone(), ..FuzzedTool::default() };
        let is_seeded = seeded.is_some();
        let Some(smallest) = seeded.or_else(|| maker.smallest()) else {
            entry.note = Some(
                "no arguments could be made from its schema: give some under \
                               `fuzz.seeds`"
                    .to_owned(),
            );
            self.report.tools.push(entry);
            return None;
        };
        let mut cases = maker.cases_from(smallest.clone(), self.plan.seed, self.plan.cases / 4);
        entry.known = cases.len() as u64;
        spare(&mut cases, self.plan.cases, self.plan.seed);
        let mut run = ToolRun {
            name: tool.name.to_string(),
            full,
            smallest,
            accepts: false,
            refusal: None,
            since: Vec::new(),
            is_slow: false,
            pace: None,
            hung: HashSet::new(),
            maker,
        };
        let mut blocked = None;
        let mut open = cases.as_slice();
        while !open.is_empty() && blocked.is_none() {
            // What the first says of the tool, the others are judged by.
            let is_first = open.len() == cases.len();
            let many = if is_first || self.plan.fresh { 1 } else { self.probe.group_size() };
            let (group, rest) = open.split_at(many.min(open.len()));
            open = rest;
            let group: Vec<&FuzzCase> =
                group.iter().filter(|case| is_first || !run.hangs(case)).collect();
            entry.cases += group.len() as u64;
            blocked = match group.as_slice() {
                [] => None,
                [case] => self.case(&mut run, case, is_first).await,
                group => self.group(&mut run, group).await,
            };
        }
        run.pace = self.probe.pace();
        if blocked.is_none() {
            self.settle(&mut run).await;
        }
        if blocked.is_none() && run.accepts {
            self.aftermath(&mut run).await;
            self.claims(tool, &run).await;
            self.carryover(tool, &run, &cases).await;
            self.slowness(&run, &cases).await;
        }
        let slow = run.is_slow.then(|| {
            "it works longer than it is waited for, and reports progress: calls of this kind are left \
             out (--timeout waits longer)"
                .to_owned()
        });
        entry.note = blocked.or(slow).or_else(|| {
            let why = run.refusal.as_deref().unwrap_or("without a reason");
            (!run.accepts).then(|| match (is_seeded, run.maker.is_valid(&run.smallest)) {
                (false, _) => format!(
                    "the tool refuses the smallest arguments of its schema ({why}): give some that \
                     it accepts under `fuzz.seeds`"
                ),
                (true, true) => format!("the tool refuses what `fuzz.seeds` gives ({why})"),
                (true, false) => {
                    format!(
                        "what `fuzz.seeds` gives does not fit the schema, and is refused ({why})"
                    )
                }
            })
        });
        self.report.tools.push(entry);
        run.accepts.then_some(run)
    }

    /// Calls several cases at once, and one after the other where something went wrong, so that it
    /// shows which of them it was; gives the reason when the tool cannot be called any more.
    async fn group(&mut self, run: &mut ToolRun, group: &[&FuzzCase]) -> Option<String> {
        let name = run.name.clone();
        let call = |arguments| ProbeCall { tool: &name, arguments };
        let all: Vec<ProbeCall<'_>> = group.iter().map(|case| call(&case.arguments)).collect();
        let ends = self.probe.call_all(&all).await;
        self.gone(run).await;
        let is_stray = self.probe.problem_since(self.mark).is_some();
        if !is_stray && ends.len() == group.len() && ends.iter().all(CallEnd::is_orderly) {
            for (case, end) in group.iter().zip(&ends) {
                run.since.push(FuzzCase::clone(case));
                if let Some(verdict) = self.verdict(run, case, end) {
                    self.judge(run, case, verdict).await;
                }
            }
            return None;
        }
        if is_stray {
            self.recent(run).await;
        }
        let is_over = |end: &CallEnd| matches!(end, CallEnd::Crash(_) | CallEnd::Hang);
        if ends.iter().any(is_over) {
            run.since.clear();
            if let Err(why) = self.probe.restart().await {
                return Some(why);
            }
            self.mark = self.probe.mark();
        }
        let before = self.ends(run);
        // The one that was not answered before the others: it is repeated as one that hangs.
        let suspect = ends.iter().position(|end| !end.is_orderly());
        let suspect = suspect.filter(|at| ends.get(*at) == Some(&CallEnd::Hang));
        for (at, case) in group.iter().enumerate() {
            if run.hangs(case) || (suspect == Some(at) && self.hangs_alone(run, case).await) {
                continue;
            }
            if let Some(why) = self.case(run, case, false).await {
                return Some(why);
            }
        }
        let first = ends.iter().enumerate().find_map(|(at, end)| match end {
            CallEnd::Crash(how) => Some((at, how)),
            _ => None,
        });
        if let Some((at, how)) = first.filter(|_| self.ends(run) == before) {
            // Those that were under way.
            let crowd = all.get(at..(at + MAX_PENDING_CALLS).min(all.len())).unwrap_or_default();
            self.crowd(run, crowd, how).await;
        }
        None
    }

    /// Whether a case that was not answered among others is not answered alone either; adds that.
    async fn hangs_alone(&mut self, run: &mut ToolRun, case: &FuzzCase) -> bool {
        let Some(verdict) = self.verdict(run, case, &CallEnd::Hang) else { return false };
        run.since.push(case.clone());
        let blamed = self.blame(run, case, verdict).await;
        let is_found = blamed.is_some();
        if let Some((case, verdict)) = blamed {
            self.keep(run, &case, verdict).await;
        }
        self.mark = self.probe.mark();
        is_found
    }

    /// How many cases ended the server while a tool was called.
    fn ends(&self, run: &ToolRun) -> u64 {
        let findings = self.report.findings.iter().filter(|finding| finding.tool == run.full);
        let ends =
            findings.filter(|it| matches!(it.rule, "fuzz/crash" | "fuzz/hang" | "fuzz/state"));
        ends.map(|finding| finding.count).sum()
    }

    /// Adds that the server crashes when calls are under way at once which it survives one after the
    /// other, if it does so again.
    async fn crowd(&mut self, run: &ToolRun, all: &[ProbeCall<'_>], how: &str) {
        let again = self.probe.call_all(all).await;
        if !again.iter().any(|end| matches!(end, CallEnd::Crash(_))) {
            return;
        }
        let message = format!(
            "the server crashed with {} calls under way at once, and with none of them alone: {how}",
            all.len()
        );
        let known = self
            .report
            .findings
            .iter_mut()
            .find(|finding| finding.rule == "fuzz/concurrency" && finding.tool == run.full);
        if let Some(known) = known {
            known.count += 1;
            return;
        }
        let call = |call: &ProbeCall<'_>| FuzzCall {
            tool: run.full.clone(),
            arguments: call.arguments.clone(),
        };
        self.report.findings.push(FuzzFinding {
            rule: "fuzz/concurrency",
            severity: Severity::Error,
            server: self.server.to_string(),
            tool: run.full.clone(),
            place: String::new(),
            what: "calls at once".to_owned(),
            message,
            calls: all.iter().map(call).collect(),
            count: 1,
        });
    }

    /// Calls one case; gives the reason when the tool cannot be called any more.
    async fn case(&mut self, run: &mut ToolRun, case: &FuzzCase, first: bool) -> Option<String> {
        if self.plan.fresh
            && !first
            && let Err(why) = self.probe.restart().await
        {
            return Some(why);
        }
        let end = self.probe.call(&run.name, &case.arguments).await;
        self.gone(run).await;
        if let CallEnd::Blocked(why) = &end {
            return Some(brief(why, 300));
        }
        if end == CallEnd::Slow {
            // It works, and says so: what is odd there takes as long.
            run.hung.insert(case.place.clone());
            run.is_slow = true;
        }
        if first {
            run.accepts = matches!(end, CallEnd::Done(_));
            if let CallEnd::ToolError { text, .. } | CallEnd::RpcError { text, .. } = &end {
                run.refusal = Some(brief(text, 120));
            }
        }
        run.since.push(case.clone());
        if let Some(verdict) = self.verdict(run, case, &end) {
            self.judge(run, case, verdict).await;
        } else if self.probe.problem_since(self.mark).is_some() {
            // Counted since the last look: what a call brought may be seen only after the next.
            self.recent(run).await;
        }
        self.mark = self.probe.mark();
        None
    }

    /// Adds what a case shows, if it shows it again.
    async fn judge(&mut self, run: &mut ToolRun, case: &FuzzCase, verdict: CaseVerdict) {
        let is_end = matches!(verdict.rule, "fuzz/crash" | "fuzz/hang");
        if !is_end && self.is_counted(run, case, &verdict) {
            return;
        }
        let is_odd = matches!(case.kind, CaseKind::Foreign | CaseKind::Hostile);
        if verdict.rule == "fuzz/refused" && is_odd && self.refuses_letters(run, case).await {
            return;
        }
        if let Some((case, verdict)) = self.blame(run, case, verdict).await {
            self.keep(run, &case, verdict).await;
        }
        self.mark = self.probe.mark();
    }

    /// Looks for the case after whose answer the server was gone before the next call: the last one, or
    /// one shortly before.
    async fn gone(&mut self, run: &mut ToolRun) {
        if self.probe.take_loss().is_none() {
            return;
        }
        let before: Vec<FuzzCase> =
            run.since.iter().rev().take(MAX_PENDING_CALLS).cloned().collect();
        run.since.clear();
        for case in before {
            let Some(how) = self.broken_by(run, &case.arguments).await else { continue };
            let message = format!("after this call the server {how}");
            let verdict = CaseVerdict { rule: "fuzz/state", severity: Severity::Error, message };
            self.keep(run, &case, verdict).await;
            break;
        }
        self.probe.take_loss();
        self.mark = self.probe.mark();
    }

    /// Looks for the case that brought a line which is no answer: the last one, or one shortly before.
    async fn recent(&mut self, run: &ToolRun) {
        let recent: Vec<FuzzCase> = run.since.iter().rev().take(4).cloned().collect();
        for case in recent {
            if let Some(verdict) = self.stray(run, &case).await {
                self.keep(run, &case, verdict).await;
                break;
            }
        }
        self.mark = self.probe.mark();
    }

    /// Looks at what came after the answers of a tool's last cases: an end of the server, lines that are
    /// no answers.
    async fn settle(&mut self, run: &mut ToolRun) {
        let _ = self.probe.answers().await;
        self.gone(run).await;
        let Some(problem) = self.probe.problem_since(self.mark) else { return };
        let many = MAX_PENDING_CALLS * MAX_GROUP_ROUNDS;
        let recent: Vec<FuzzCase> = run.since.iter().rev().take(many).cloned().collect();
        let mut is_found = false;
        for case in recent {
            if let Some(verdict) = self.stray(run, &case).await {
                self.keep(run, &case, verdict).await;
                is_found = true;
                break;
            }
        }
        if !is_found && self.probe.violates(self.violations).await {
            let message = format!(
                "the server broke the protocol while this tool was called, and none of the calls shows \
                 it again: {problem}"
            );
            let case = FuzzCase {
                arguments: run.smallest.clone(),
                place: String::new(),
                what: "one of the calls".to_owned(),
                kind: CaseKind::Valid,
            };
            self.add(run, case, "fuzz/protocol", Severity::Error, message);
        }
        self.mark = self.probe.mark();
    }

    /// What the end of a case says.
    fn verdict(&self, run: &ToolRun, case: &FuzzCase, end: &CallEnd) -> Option<CaseVerdict> {
        let verdict = |rule: &'static str, severity: Severity, message: String| {
            Some(CaseVerdict { rule, severity, message })
        };
        match end {
            CallEnd::Crash(how) => {
                verdict("fuzz/crash", Severity::Error, format!("the server crashed: {how}"))
            }
            CallEnd::Hang => {
                let ms = self.plan.timeout.as_millis();
                let message = format!("the server did not answer within {ms} ms");
                verdict("fuzz/hang", Severity::Error, message)
            }
            CallEnd::Protocol(what) => verdict(
                "fuzz/protocol",
                Severity::Error,
                format!("the answer breaks the protocol: {what}"),
            ),
            CallEnd::Blocked(_) | CallEnd::Slow => None,
            CallEnd::Done(outcome) => {
                if let Some(violation) = outcome.output_violations.first() {
                    let at = brief(shown_place(&violation.pointer), 120);
                    let message = format!(
                        "the result does not fit `outputSchema`: {at}: {}",
                        brief(&violation.message, 200)
                    );
                    return verdict("fuzz/output", Severity::Error, message);
                }
                if case.kind != CaseKind::Invalid {
                    return None;
                }
                let severity = match self.plan.settings.accepted {
                    Some(check::expect::Level::Off) => return None,
                    None | Some(check::expect::Level::Note) => Severity::Note,
                    Some(check::expect::Level::Warning) => Severity::Warning,
                    Some(check::expect::Level::Error) => Severity::Error,
                };
                let message = "arguments that the schema forbids were accepted".to_owned();
                verdict("fuzz/accepted", severity, message)
            }
            CallEnd::ToolError { text, sent, .. } => {
                self.refused(run, case, None, sent.expose(), text)
            }
            CallEnd::RpcError { code, text } => self.refused(run, case, Some(*code), text, text),
        }
    }

    fn refused(
        &self,
        run: &ToolRun,
        case: &FuzzCase,
        code: Option<i64>,
        text: &str,
        masked: &str,
    ) -> Option<CaseVerdict> {
        let echoed = self.secrets.iter().any(|secret| {
            let value = secret.expose();
            value.len() >= 6 && text.contains(value) && !case.arguments.to_string().contains(value)
        });
        if let Some(leak) =
            leak(text, &case.arguments).or(echoed.then_some("a secret of its entry"))
        {
            let shown = brief(masked, 200);
            return Some(CaseVerdict {
                rule: "fuzz/leak",
                severity: Severity::Error,
                message: format!("the error shows {leak}: {shown}"),
            });
        }
        if case.kind == CaseKind::Invalid || !run.accepts {
            return None;
        }
        let shown = brief(masked, 200);
        // What is odd in its content a tool may refuse, in an orderly way.
        let is_data = case.kind == CaseKind::Hostile;
        let is_plain = case.kind == CaseKind::Valid;
        let grave = if is_plain { Severity::Error } else { Severity::Warning };
        let (severity, how) = match code {
            Some(RpcCode::INTERNAL_ERROR) => (grave, "with an internal error (-32603)"),
            Some(RpcCode::INVALID_PARAMS) if !is_data => (grave, "as invalid (-32602)"),
            _ if !is_data && COMPLAINT.as_ref().is_some_and(|words| words.is_match(text)) => {
                (Severity::Warning, "as invalid")
            }
            _ => return None,
        };
        Some(CaseVerdict {
            rule: "fuzz/refused",
            severity,
            message: format!("arguments that fit the schema were refused {how}: {shown}"),
        })
    }

    /// Whether a tool refuses plain letters at the place of a case as well, as many of them: then it is
    /// not the odd ones that it does not take.
    async fn refuses_letters(&mut self, run: &ToolRun, case: &FuzzCase) -> bool {
        let text = case.arguments.pointer(&case.place).and_then(Value::as_str);
        let Some(text) = text.filter(|text| !text.is_empty()) else { return false };
        let mut plain = Some(case.arguments.clone());
        set(&mut plain, &case.place, Value::String("a".repeat(text.chars().count())));
        let Some(plain) = plain.filter(|plain| run.maker.is_valid(plain)) else { return true };
        !matches!(self.probe.call(&run.name, &plain).await, CallEnd::Done(_))
    }

    /// Whether a verdict repeats with this case alone on a fresh server; when not, whether one of the
    /// cases before it broke the server.
    async fn blame(
        &mut self,
        run: &mut ToolRun,
        case: &FuzzCase,
        verdict: CaseVerdict,
    ) -> Option<(FuzzCase, CaseVerdict)> {
        let is_end = matches!(verdict.rule, "fuzz/crash" | "fuzz/hang");
        if !is_end {
            let again = self.probe.call(&run.name, &case.arguments).await;
            return self
                .verdict(run, case, &again)
                .filter(|again| again.rule == verdict.rule)
                .map(|_| (case.clone(), verdict));
        }
        let before: Vec<FuzzCase> = run.since.iter().rev().skip(1).take(4).cloned().collect();
        run.since.clear();
        if self.probe.restart().await.is_err() {
            return Some((case.clone(), verdict));
        }
        // Slow is not stuck: twice the time.
        let timeout = self.plan.timeout * 2;
        let again = self.probe.call_within(&run.name, &case.arguments, timeout).await;
        let repeated = self.verdict(run, case, &again).is_some_and(|v| v.rule == verdict.rule);
        if repeated || (again == CallEnd::Hang) {
            let _ = self.probe.restart().await;
            if verdict.rule == "fuzz/hang" {
                run.hung.insert(case.place.clone());
            }
            return Some((case.clone(), verdict));
        }
        for earlier in before {
            // Twice: a machine that is short of time answers late once.
            let mut broken = self.broken_by(run, &earlier.arguments).await;
            if broken.is_some() {
                broken = self.broken_by(run, &earlier.arguments).await;
            }
            let _ = self.probe.restart().await;
            if let Some(how) = broken {
                let message = format!("after this call the server {how}");
                let state = CaseVerdict { rule: "fuzz/state", severity: Severity::Error, message };
                return Some((earlier, state));
            }
        }
        let _ = self.probe.restart().await;
        None
    }

    /// How a fresh server is broken after a call, if it is.
    async fn broken_by(&mut self, run: &ToolRun, arguments: &Value) -> Option<String> {
        self.probe.restart().await.ok()?;
        let _ = self.probe.call(&run.name, arguments).await;
        let answers = self.probe.answers().await;
        let end = self.probe.call(&run.name, &run.smallest).await;
        if let Some(how) = self.probe.take_loss() {
            return Some(format!("is gone ({how})"));
        }
        match end {
            CallEnd::Hang => Some("does not answer any more".to_owned()),
            CallEnd::Crash(how) => Some(format!("is gone ({how})")),
            CallEnd::Done(_)
            | CallEnd::ToolError { .. }
            | CallEnd::RpcError { .. }
            | CallEnd::Protocol(_)
            | CallEnd::Slow
            | CallEnd::Blocked(_) => {
                (!answers).then(|| "does not answer `ping` any more".to_owned())
            }
        }
    }

    /// Whether a case alone makes the server write a line that is no answer.
    async fn stray(&mut self, run: &ToolRun, case: &FuzzCase) -> Option<CaseVerdict> {
        // What the calls before brought has been read.
        let _ = self.probe.answers().await;
        let (before, mark) = (self.probe.violations(), self.probe.mark());
        let _ = self.probe.call(&run.name, &case.arguments).await;
        let _ = self.probe.answers().await;
        let problem = self.probe.problem_since(mark)?;
        self.probe.violates(before).await.then(|| CaseVerdict {
            rule: "fuzz/protocol",
            severity: Severity::Error,
            message: format!("the server breaks the protocol during this call: {problem}"),
        })
    }

    /// Counts a case with a finding of the same rule and place, if there is one.
    fn is_counted(&mut self, run: &ToolRun, case: &FuzzCase, verdict: &CaseVerdict) -> bool {
        let tool = &run.full;
        let same =
            |finding: &&mut FuzzFinding| finding.rule == verdict.rule && finding.tool == *tool;
        let mut known: Vec<&mut FuzzFinding> =
            self.report.findings.iter_mut().filter(same).collect();
        let is_known = |finding: &FuzzFinding| {
            !case.place.is_empty() && finding.place == case.place
                || finding.place.is_empty()
                || case.place.is_empty() && {
                    // A combination that holds an odd value that is known.
                    let odd =
                        finding.calls.last().and_then(|c| c.arguments.pointer(&finding.place));
                    odd.is_some() && odd == case.arguments.pointer(&finding.place)
                }
        };
        let full = known.len() >= MAX_FINDINGS_PER_TOOL;
        let found = known.iter_mut().find(|finding| full || is_known(finding));
        found.map(|finding| finding.count += 1).is_some()
    }

    /// Shrinks a case and adds the finding, or counts it with one that is there.
    async fn keep(&mut self, run: &ToolRun, case: &FuzzCase, verdict: CaseVerdict) {
        if self.is_counted(run, case, &verdict) {
            return;
        }
        let tool = &run.full;
        let shrunk = self.shrink(run, case, &verdict).await;
        let Some(shrunk) = shrunk else { return };
        let twin = self.report.findings.iter_mut().find(|finding| {
            finding.rule == verdict.rule && finding.tool == *tool && finding.place == shrunk.place
        });
        if let Some(twin) = twin {
            twin.count += 1;
            return;
        }
        self.report.findings.push(FuzzFinding {
            rule: verdict.rule,
            severity: verdict.severity,
            server: self.server.to_string(),
            tool: tool.clone(),
            place: shrunk.place,
            what: shrunk.what,
            message: verdict.message,
            calls: {
                let one = |arguments: Value| FuzzCall { tool: tool.clone(), arguments };
                let shows_later = matches!(verdict.rule, "fuzz/state" | "fuzz/carryover");
                let then = shows_later.then(|| one(run.smallest.clone()));
                std::iter::once(one(shrunk.arguments)).chain(then).collect()
            },
            count: 1,
        });
    }

    /// The smallest arguments that still show a verdict: as few places as possible differ from the
    /// smallest valid ones, and what differs is as short as possible.
    async fn shrink(
        &mut self,
        run: &ToolRun,
        case: &FuzzCase,
        verdict: &CaseVerdict,
    ) -> Option<FuzzCase> {
        let mut best = case.clone();
        let slow = matches!(verdict.rule, "fuzz/hang" | "fuzz/state");
        let mut tries = if slow { 3 } else { MAX_SHRINK_TRIES };
        // Places back to what they were, one after the other.
        let places: Vec<String> = every_difference(&run.smallest, &best.arguments)
            .into_iter()
            .map(|change| change.pointer)
            .collect();
        if case.place.is_empty() && places.len() > 1 {
            for place in &places {
                let mut arguments = Some(best.arguments.clone());
                match run.smallest.pointer(place) {
                    Some(value) => _ = set(&mut arguments, place, value.clone()),
                    None => _ = remove(&mut arguments, place),
                }
                let Some(arguments) = arguments else { continue };
                let smaller = FuzzCase { arguments, ..best.clone() };
                if self.shows(run, &smaller, verdict).await {
                    best = smaller;
                }
            }
            let left: Vec<String> = every_difference(&run.smallest, &best.arguments)
                .into_iter()
                .map(|change| change.pointer)
                .collect();
            best.what = match left.as_slice() {
                [one] => {
                    best.place.clone_from(one);
                    "an odd value".to_owned()
                }
                _ => format!("a combination of {}", left.join(", ")),
            };
        }
        let place = best.place.clone();
        while tries > 0 && !place.is_empty() {
            let Some(value) = best.arguments.pointer(&place) else { break };
            let mut smaller = None;
            for value in smaller_values(value) {
                if tries == 0 {
                    break;
                }
                tries -= 1;
                let mut arguments = Some(best.arguments.clone());
                set(&mut arguments, &place, value);
                let Some(arguments) = arguments else { continue };
                let case = FuzzCase { arguments, ..best.clone() };
                if self.shows(run, &case, verdict).await {
                    smaller = Some(case);
                    break;
                }
            }
            match smaller {
                Some(case) => best = case,
                None => break,
            }
        }
        Some(best)
    }

    /// Whether a case shows the same verdict.
    async fn shows(&mut self, run: &ToolRun, case: &FuzzCase, verdict: &CaseVerdict) -> bool {
        // A smaller value must be on the same side of the schema.
        if run.maker.is_valid(&case.arguments) == (case.kind == CaseKind::Invalid) {
            return false;
        }
        if verdict.rule == "fuzz/carryover" {
            return self.is_carried(run, case).await;
        }
        if verdict.rule == "fuzz/state" {
            let _ = self.probe.restart().await;
            let _ = self.probe.call(&run.name, &case.arguments).await;
            let answers = self.probe.answers().await;
            let end = self.probe.call(&run.name, &run.smallest).await;
            let _ = self.probe.restart().await;
            let is_lost = self.probe.take_loss().is_some();
            let is_gone = is_lost || matches!(end, CallEnd::Hang | CallEnd::Crash(_));
            // A tool that refused them before is not broken because it still does.
            return is_gone || !answers || run.accepts && !matches!(end, CallEnd::Done(_));
        }
        let mark = self.probe.mark();
        let end = self.probe.call(&run.name, &case.arguments).await;
        if matches!(end, CallEnd::Crash(_) | CallEnd::Hang) {
            let _ = self.probe.restart().await;
        }
        let found = self.verdict(run, case, &end).is_some_and(|found| found.rule == verdict.rule);
        found
            || verdict.rule == "fuzz/protocol" && {
                let _ = self.probe.answers().await;
                self.probe.problem_since(mark).is_some()
            }
    }

    /// Whether the tool still works as at the beginning; finds the case after which it does not.
    async fn aftermath(&mut self, run: &mut ToolRun) {
        let smallest = run.smallest.clone();
        let is_fine = matches!(self.probe.call(&run.name, &smallest).await, CallEnd::Done(_));
        self.gone(run).await;
        if is_fine || run.since.is_empty() {
            return;
        }
        let cases = std::mem::take(&mut run.since);
        let (mut low, mut high) = (0, cases.len());
        // The fewest cases from the first on after which it fails.
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.probe.restart().await.is_err() {
                return;
            }
            for case in &cases[..middle] {
                let _ = self.probe.call(&run.name, &case.arguments).await;
            }
            if matches!(self.probe.call(&run.name, &smallest).await, CallEnd::Done(_)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(culprit) = high.checked_sub(1).and_then(|index| cases.get(index)).cloned() else {
            return;
        };
        let _ = self.probe.restart().await;
        let _ = self.probe.call(&run.name, &culprit.arguments).await;
        let after = self.probe.call(&run.name, &smallest).await;
        let _ = self.probe.restart().await;
        let how = match after {
            CallEnd::Done(_) | CallEnd::Slow => return,
            CallEnd::Hang => "the tool does not answer any more".to_owned(),
            CallEnd::ToolError { text, .. } | CallEnd::RpcError { text, .. } => {
                format!("arguments that were accepted before are refused: {}", brief(&text, 200))
            }
            CallEnd::Crash(how) | CallEnd::Protocol(how) | CallEnd::Blocked(how) => how,
        };
        let message = format!("after this call {how}");
        let verdict = CaseVerdict { rule: "fuzz/state", severity: Severity::Error, message };
        self.keep(run, &culprit, verdict).await;
    }

    /// Whether what the tool claims of itself is true, where the file says how that can be seen.
    async fn claims(&mut self, tool: &Tool, run: &ToolRun) {
        let Some((observer, look)) = self.targets.claim(self.server, &run.name) else { return };
        let seen = |end: CallEnd| end.into_outcome().map(|outcome| value_of(&outcome.result).value);
        let look = Value::Object(look.clone());
        if self.probe.restart().await.is_err() {
            return;
        }
        let mut states = Vec::new();
        for round in 0..3 {
            if round > 0 {
                let _ = self.probe.call(&run.name, &run.smallest.clone()).await;
            }
            states.push(seen(self.probe.call(observer, &look).await));
        }
        let [Some(before), Some(once), Some(twice)] = states.as_slice() else { return };
        let shown = brief(observer, 60);
        let broken = if tool.hints.read_only == Some(true) && before != once {
            Some(format!("it is annotated read-only, and changes what `{shown}` shows"))
        } else if tool.hints.idempotent == Some(true) && once != twice {
            Some(format!(
                "it is annotated idempotent, and its second call changes what `{shown}` shows"
            ))
        } else {
            None
        };
        if let Some(message) = broken {
            let what = "the smallest arguments".to_owned();
            let case = FuzzCase {
                arguments: run.smallest.clone(),
                place: String::new(),
                what,
                kind: CaseKind::Valid,
            };
            self.add(run, case, "fuzz/claim", Severity::Error, message);
        }
    }

    fn add(
        &mut self,
        run: &ToolRun,
        case: FuzzCase,
        rule: &'static str,
        severity: Severity,
        message: String,
    ) {
        self.report.findings.push(FuzzFinding {
            rule,
            severity,
            server: self.server.to_string(),
            tool: run.full.clone(),
            place: case.place,
            what: case.what,
            message,
            calls: vec![FuzzCall { tool: run.full.clone(), arguments: case.arguments }],
            count: 1,
        });
    }
}

/// Keeps at most `most` cases: the smallest arguments, and of each place and kind in turn one that is
/// drawn.
fn spare(cases: &mut Vec<FuzzCase>, most: usize, seed: u64) {
    if cases.len() <= most.max(1) {
        return;
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut groups: IndexMap<(&str, CaseKind), Vec<usize>> = IndexMap::new();
    for (index, case) in cases.iter().enumerate().skip(1) {
        groups.entry((case.place.as_str(), case.kind)).or_default().push(index);
    }
    for group in groups.values_mut() {
        rng.shuffle(group);
    }
    let mut chosen: Vec<usize> = vec![0];
    while chosen.len() < most {
        let left = most - chosen.len();
        let before = chosen.len();
        chosen.extend(groups.values_mut().filter_map(Vec::pop).take(left));
        if chosen.len() == before {
            break;
        }
    }
    chosen.sort_unstable();
    *cases = chosen.into_iter().filter_map(|index| cases.get(index).cloned()).collect();
}

/// Words by which an error says that the arguments were at fault.
static COMPLAINT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = r"(?i)\b(invalid|unsupported|unexpected|unrecogni[sz]ed|not (?:allowed|supported|permitted|valid|one of)|must (?:be|not|match|have)|validation|is required|missing|out of range|too (?:long|short|large|small|many|few)|not implemented)\b";
    Regex::new(words).ok()
});
