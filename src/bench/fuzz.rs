//! Fuzzing: cases from each `inputSchema` against a copy of the server, verdicts, shrinking.

mod effects;

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use indexmap::IndexMap;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::generate::{CaseKind, CaseMaker, FuzzCase};
use crate::probe::{CallEnd, MAX_GROUP_ROUNDS, MAX_PENDING_CALLS, ProbeCall, ServerProbe};
use crate::stage::BenchSource;
use crate::value::is_match;
use base::pointer::{place as shown_place, remove, set};
use base::text::nearest;
use base::{Secret, ServerName};
use check::Severity;
use check::expect::value_of;
use check::run::CheckSignals;
use check::subject::brief;
use host::canonical_name;
use protocol::{RpcCode, Tool, every_difference};

/// The seed by default: the same cases every time.
pub const DEFAULT_SEED: u64 = 1;
/// Calls of a tool by default.
pub const DEFAULT_CASES: usize = 300;
/// Most calls of a tool.
pub const MAX_FUZZ_CASES: usize = 100_000;
/// How long a call may take by default.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Most findings of one kind and tool that are reported one by one.
const MAX_FINDINGS_PER_TOOL: usize = 8;
/// Most tries to make one value smaller.
const MAX_SHRINK_TRIES: usize = 12;
/// Calls of each tool in one round of the look at the memory.
const MEMORY_ROUND_CALLS: usize = 64;
/// Longest time of one tool in such a round.
const MEMORY_TOOL_TIMEOUT: Duration = Duration::from_millis(400);
/// Growth in one round that counts, in bytes.
const MEMORY_GROWTH_BYTES: u64 = 3 << 20;
/// Time between two looks at the memory: what is read is kept for half a second.
const MEMORY_INTERVAL: Duration = Duration::from_millis(600);

/// `fuzz` in `mcp.tests.json`: what cannot be seen from the schemas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FuzzSettings {
    /// Arguments to start from, by tool (`server.tool`), where a schema does not lead to any that
    /// the tool accepts.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Map<String, Value>>")]
    pub seeds: IndexMap<String, Map<String, Value>>,
    /// How the effect of a tool can be seen, by tool: the tool that shows it. A read-only tool must
    /// not change what that shows; an idempotent one must not change it the second time.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "BTreeMap<String, ClaimObserver>")]
    pub claims: IndexMap<String, ClaimObserver>,
    /// How much it matters that invalid arguments are accepted [default: note].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<check::expect::Level>,
    /// Tools that may be called although they are not annotated read-only; globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Tools that are never called; globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// The folder that a server works in, by server, relative to this file: each copy of the server
    /// gets a copy of it, made anew at each start. What leads into it (arguments, values of `env`,
    /// `cwd`) leads into that copy.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub folders: IndexMap<String, PathBuf>,
}

/// The folder that relative paths of a file of tests begin at.
pub fn folder_of(tests: &Path) -> PathBuf {
    tests.parent().map(Path::to_owned).unwrap_or_default()
}

/// The tool that shows the effect of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimObserver {
    /// The tool of the same server, by its own name.
    pub tool: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
}

impl ClaimObserver {
    /// The own name of the tool, which may be written with that of its server.
    fn name(&self, server: &ServerName) -> &str {
        let local = self.tool.strip_prefix(server.as_str()).and_then(|it| it.strip_prefix('.'));
        local.unwrap_or(&self.tool)
    }
}

/// What is wrong with the settings beyond the schema: pointer and message.
pub fn fuzz_problems(settings: &FuzzSettings) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for (key, globs) in [("allow", &settings.allow), ("skip", &settings.skip)] {
        for (index, glob) in globs.iter().enumerate() {
            let error = globset::Glob::new(glob).err();
            let error = error.map(|error| format!("not a glob: {}", error.kind()));
            wrong.extend(error.map(|error| (format!("/fuzz/{key}/{index}"), error)));
        }
    }
    wrong
}

/// Everything that fuzzing needs.
#[derive(Clone)]
pub struct FuzzPlan {
    /// The servers.
    pub source: BenchSource,
    /// The tools: names or globs (`server.tool`); every read-only one when empty.
    pub tools: Vec<String>,
    /// What the file says.
    pub settings: FuzzSettings,
    /// The folder of the file: relative paths in it begin there.
    pub beside: PathBuf,
    /// What the cases are drawn with.
    pub seed: u64,
    /// Most calls of a tool.
    pub cases: usize,
    /// How long a call may take.
    pub timeout: Duration,
    /// Whether every call gets a fresh copy of the server.
    pub fresh: bool,
    /// Whether tools are called one after the other with what earlier ones returned.
    pub sequences: bool,
}

/// A call in a finding.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FuzzCall {
    /// The tool: `server.tool`.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzFinding {
    /// Its rule: `fuzz/crash`.
    pub rule: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// The server.
    pub server: String,
    /// The tool: `server.tool`.
    pub tool: String,
    /// JSON pointer of the odd value in the arguments; empty for none.
    pub place: String,
    /// What is odd: `above the maximum`.
    pub what: String,
    /// What happened.
    pub message: String,
    /// The calls that show it, the smallest that do.
    pub calls: Vec<FuzzCall>,
    /// How many cases showed it.
    pub count: u64,
}

/// What was done with one tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzedTool {
    /// The tool: `server.tool`.
    pub tool: String,
    /// Cases that were called.
    pub cases: u64,
    /// Cases there were.
    pub known: u64,
    /// Why it was not called, or not wholly.
    pub note: Option<String>,
}

/// The outcome of fuzzing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzReport {
    /// The seed, to repeat it.
    pub seed: u64,
    /// Calls that were made.
    pub calls: u64,
    /// Calls for each second of the time that the servers had.
    pub calls_per_second: f64,
    /// The tools.
    pub tools: Vec<FuzzedTool>,
    /// What was found.
    pub findings: Vec<FuzzFinding>,
    /// Servers that could not be fuzzed, and settings that name what is not there; and why.
    pub failed: BTreeMap<String, String>,
}

impl FuzzFinding {
    /// What was found, on one line.
    pub fn line(&self) -> String {
        let place =
            if self.place.is_empty() { String::new() } else { format!(" at {}", self.place) };
        let call = self.calls.last().map(|call| call.arguments.to_string()).unwrap_or_default();
        format!(
            "{} {}{}: {} ({}); {}",
            self.rule,
            brief(&self.tool, 80),
            brief(&place, 80),
            self.message,
            brief(&self.what, 120),
            brief(&call, 200),
        )
    }
}

impl FuzzPlan {
    /// Why a tool is not called; `None` when it is.
    fn refusal(&self, name: &str, tool: &Tool) -> Option<&'static str> {
        if self.settings.skip.iter().any(|glob| is_match(glob, name)) {
            return Some("`fuzz.skip` names it");
        }
        let is_named = self.tools.iter().any(|named| named == name);
        let is_allowed = self.settings.allow.iter().any(|glob| is_match(glob, name));
        if is_named || is_allowed || tool.hints.read_only == Some(true) {
            return None;
        }
        Some("not annotated read-only: name it, or permit it with --allow")
    }

    /// The settings that name a server that is not there: a place of theirs, and why.
    fn unknown_servers(&self) -> BTreeMap<String, String> {
        let known = &self.source.config.servers;
        let why = |name: &str| {
            let near = nearest(name, known.keys().map(ServerName::as_str), 0.6);
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            format!("there is no such server{near}")
        };
        let settings = &self.settings;
        let folders = settings.folders.keys().filter(|name| !known.contains_key(name.as_str()));
        let folders = folders.map(|name| (format!("fuzz.folders: {name}"), why(name)));
        let tools = [("seeds", settings.seeds.keys().collect::<Vec<_>>())];
        let tools = tools.into_iter().chain([("claims", settings.claims.keys().collect())]);
        let tools = tools.flat_map(|(key, names)| names.into_iter().map(move |name| (key, name)));
        let tools = tools.filter(|(_, name)| self.source.owner(name).is_none());
        let tools = tools.map(|(key, name)| {
            let server = name.split_once('.').map_or(name.as_str(), |(server, _)| server);
            (format!("fuzz.{key}: {name}"), why(server))
        });
        folders.chain(tools).collect()
    }

    fn takes(&self, name: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|glob| is_match(glob, name))
    }
}

/// Fuzzes the tools of every server that the plan chooses; `show` hears of each tool.
pub async fn fuzz(
    plan: &FuzzPlan,
    signals: &CheckSignals,
    show: &(dyn Fn(&str) + Sync),
) -> FuzzReport {
    let mut report = FuzzReport { seed: plan.seed, ..FuzzReport::default() };
    let mut spent = Duration::ZERO;
    report.failed = plan.unknown_servers();
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
        let mut fuzzer = Fuzzer {
            plan,
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
        self.unknown_tools(&tools);
        self.mark = self.probe.mark();
        let mut accepted: Vec<ToolRun> = Vec::new();
        for tool in &tools {
            let full = canonical_name(self.server, &tool.name);
            if !self.plan.takes(&full) {
                continue;
            }
            if let Some(why) = self.plan.refusal(&full, tool) {
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
        let seeded = self.plan.settings.seeds.get(&full).map(|map| Value::Object(map.clone()));
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
            CallEnd::ToolError { text, .. } => self.refused(run, case, None, text),
            CallEnd::RpcError { code, text } => self.refused(run, case, Some(*code), text),
        }
    }

    fn refused(
        &self,
        run: &ToolRun,
        case: &FuzzCase,
        code: Option<i64>,
        text: &str,
    ) -> Option<CaseVerdict> {
        let echoed = self.secrets.iter().any(|secret| {
            let value = secret.expose();
            value.len() >= 6 && text.contains(value) && !case.arguments.to_string().contains(value)
        });
        if let Some(leak) =
            leak(text, &case.arguments).or(echoed.then_some("a secret of its entry"))
        {
            let shown = brief(text, 200);
            return Some(CaseVerdict {
                rule: "fuzz/leak",
                severity: Severity::Error,
                message: format!("the error shows {leak}: {shown}"),
            });
        }
        if case.kind == CaseKind::Invalid || !run.accepts {
            return None;
        }
        let shown = brief(text, 200);
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
        let Some(observer) = self.plan.settings.claims.get(&run.full).cloned() else { return };
        let seen = |end: CallEnd| end.into_outcome().map(|outcome| value_of(&outcome.result));
        let look = Value::Object(observer.arguments.clone());
        if self.probe.restart().await.is_err() {
            return;
        }
        let mut states = Vec::new();
        for round in 0..3 {
            if round > 0 {
                let _ = self.probe.call(&run.name, &run.smallest.clone()).await;
            }
            states.push(seen(self.probe.call(observer.name(self.server), &look).await));
        }
        let [Some(before), Some(once), Some(twice)] = states.as_slice() else { return };
        let shown = brief(&observer.tool, 60);
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

    /// Looks for memory that keeps growing: rounds of the same calls after a warm-up; then which
    /// half of the tools it is, and so on.
    async fn memory(&mut self, runs: &[ToolRun]) {
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
            let began = tokio::time::Instant::now();
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

    /// Calls tools one after the other with what earlier ones returned.
    async fn sequences(&mut self, tools: &[std::sync::Arc<Tool>], runs: &[ToolRun]) {
        let mut chains = 0;
        for maker in runs {
            if self.probe.restart().await.is_err() {
                return;
            }
            let made = self.probe.call(&maker.name, &maker.smallest.clone()).await;
            let Some(made) = made.into_outcome() else { continue };
            let made = value_of(&made.result);
            let given = leaves(&made);
            let links: Vec<(&ToolRun, String, Value)> =
                runs.iter().flat_map(|taker| links(tools, maker, taker, &given)).collect();
            for (index, (_, place, value)) in links.iter().enumerate() {
                let others = links.iter().enumerate().filter(|(other, _)| *other != index);
                let mut orders: Vec<Vec<usize>> = vec![vec![index], vec![index, index]];
                orders.extend(others.map(|(other, _)| vec![index, other, index]).take(6));
                for order in orders {
                    if chains >= MAX_SEQUENCES {
                        return;
                    }
                    chains += 1;
                    let mut calls = vec![(maker, maker.smallest.clone())];
                    for step in order {
                        let Some((run, place, value)) = links.get(step) else { continue };
                        let mut arguments = Some(run.smallest.clone());
                        set(&mut arguments, place, value.clone());
                        calls.extend(arguments.map(|arguments| (*run, arguments)));
                    }
                    self.sequence((place, value), &calls).await;
                }
            }
        }
    }

    async fn sequence(&mut self, (place, value): (&str, &Value), calls: &[(&ToolRun, Value)]) {
        // A fresh server, so that the ids are those of the first call.
        if self.probe.restart().await.is_err() {
            return;
        }
        for (at, (run, arguments)) in calls.iter().enumerate() {
            let end = self.probe.call(&run.name, arguments).await;
            let case = FuzzCase {
                arguments: arguments.clone(),
                place: place.to_owned(),
                what: format!(
                    "the value that an earlier call returned, {}",
                    brief(&value.to_string(), 60)
                ),
                kind: CaseKind::Hostile,
            };
            let Some(verdict) = self.verdict(run, &case, &end) else { continue };
            let known = self
                .report
                .findings
                .iter()
                .any(|finding| finding.rule == verdict.rule && finding.tool == run.full);
            if !known {
                let calls: Vec<FuzzCall> = calls[..=at]
                    .iter()
                    .map(|(run, arguments)| FuzzCall {
                        tool: run.full.clone(),
                        arguments: arguments.clone(),
                    })
                    .collect();
                let first = calls.first().map_or("", |call| call.tool.as_str());
                let what = format!("in a sequence after {first}");
                self.report.findings.push(FuzzFinding {
                    rule: verdict.rule,
                    severity: verdict.severity,
                    server: self.server.to_string(),
                    tool: run.full.clone(),
                    place: case.place,
                    what,
                    message: verdict.message,
                    calls,
                    count: 1,
                });
            }
            return;
        }
    }
}

/// Most sequences of one server.
const MAX_SEQUENCES: usize = 400;

/// The values of a result that another tool may take, by the normalised name of their key.
fn leaves(value: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    collect_leaves(value, "", &mut all, 0);
    all
}

fn collect_leaves(value: &Value, key: &str, all: &mut Vec<(String, Value)>, depth: usize) {
    if depth > 4 || all.len() > 64 {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                collect_leaves(value, key, all, depth + 1);
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                collect_leaves(first, key.trim_end_matches('s'), all, depth + 1);
            }
        }
        Value::Null | Value::Bool(_) => {}
        leaf => {
            if !key.is_empty() {
                all.push((plain(key), leaf.clone()));
            }
        }
    }
}

/// A name without case and separators.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The parameters of a tool that take a value which another returned: the tool, the place, the value.
fn links<'r>(
    tools: &[std::sync::Arc<Tool>],
    maker: &ToolRun,
    taker: &'r ToolRun,
    given: &[(String, Value)],
) -> Vec<(&'r ToolRun, String, Value)> {
    let Some(tool) = tools.iter().find(|tool| *tool.name == *taker.name) else { return Vec::new() };
    let document = schema::SchemaDocument::new(&tool.input_schema);
    let parameters = schema::parameters(&document, 64);
    let mut all = Vec::new();
    for parameter in parameters {
        let name = plain(&parameter.name);
        let types = parameter.outline.types();
        let fits = |value: &Value| {
            let own = match value {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                _ => return false,
            };
            types.is_empty()
                || types.contains(&own)
                || (own == "number" && types.contains(&"integer") && !value.is_f64())
        };
        let is_id = |key: &str| key == "id" && name.ends_with("id");
        let found = given.iter().find(|(key, value)| {
            fits(value)
                && (*key == name || is_id(key) || (key.ends_with(&name) && name.ends_with("id")))
        });
        if let Some((_, value)) = found
            && (maker.name != taker.name || name.ends_with("id"))
        {
            let place = base::pointer::child_pointer("", &parameter.name);
            all.push((taker, place, value.clone()));
        }
    }
    all
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

/// Values that are smaller than one: shorter texts and lists, numbers nearer to zero.
fn smaller_values(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) if text.chars().count() > 1 => {
            let many = text.chars().count();
            let half = many / 2;
            vec![
                Value::String(text.chars().take(half).collect()),
                Value::String(text.chars().skip(half).collect()),
                Value::String(text.chars().take(many - 1).collect()),
            ]
        }
        Value::Number(number) => {
            let Some(number) = number.as_i64().filter(|number| number.abs() > 1) else {
                return Vec::new();
            };
            vec![Value::from(number / 2), Value::from(number - number.signum())]
        }
        Value::Array(items) if items.len() > 1 => {
            let half = items.len() / 2;
            vec![
                Value::Array(items[..half].to_vec()),
                Value::Array(items[half..].to_vec()),
                Value::Array(items[..items.len() - 1].to_vec()),
            ]
        }
        nested => {
            let levels = nested_levels(nested);
            let less = [levels / 2, levels / 2 + 1, 2, 1].into_iter().filter(|it| *it < levels);
            less.filter_map(|less| inner_value(nested, less)).cloned().collect()
        }
    }
}

/// How many levels of a value are a list of one item, or an object with one member.
fn nested_levels(value: &Value) -> usize {
    std::iter::successors(Some(value), |value| inner_value(value, 1)).count() - 1
}

/// The value so many levels below one, through lists of one item and objects with one member.
fn inner_value(value: &Value, levels: usize) -> Option<&Value> {
    (0..levels).try_fold(value, |value, _| match value {
        Value::Array(items) if items.len() == 1 => items.first(),
        Value::Object(map) if map.len() == 1 => map.values().next(),
        _ => None,
    })
}

/// Words by which an error says that the arguments were at fault.
static COMPLAINT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let words = r"(?i)\b(invalid|unsupported|unexpected|unrecogni[sz]ed|not (?:allowed|supported|permitted|valid|one of)|must (?:be|not|match|have)|validation|is required|missing|out of range|too (?:long|short|large|small|many|few)|not implemented)\b";
    Regex::new(words).ok()
});

/// What an error must not show: the words for it, and how it is known.
static LEAKS: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    let all = [
        ("a stack trace", r"Traceback \(most recent call last\)"),
        ("a stack trace", r#"(?m)^\s*File "[^"\n]+", line \d+"#),
        ("a stack trace", r"(?m)^\s*at \S.*[(/\\ ][^()\n]*:\d+(?::\d+)?\)?$"),
        ("a stack trace", r"(?m)^goroutine \d+ \["),
        ("a stack trace", r"thread '[^']*' (?:\(\d+\) )?panicked at"),
        ("a stack trace", r"\.(?:java|kt|scala):\d+\)"),
        ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
        (
            "a credential",
            r"\b(?:sk-[A-Za-z0-9_-]{16,}|[spr]k_(?:live|test)_[A-Za-z0-9]{10,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|A[KS]IA[0-9A-Z]{16}|xox[abeprs]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*)",
        ),
        (
            "a credential",
            r#"(?i)\bauthorization\b["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+[^\s"',;]{6,}"#,
        ),
        ("a credential", r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}"),
        ("a credential", r#"(?i)\btoken=["']?[^\s"',;&]{6,}"#),
        ("a credential", r"(?i)\b[a-z]+://[^\s/:@]+:[^\s/@]+@"),
        (
            "a credential",
            r#"(?i)\b(?:[a-z]+[_-])*(?:password|passwd|pwd|secret|api[_-]?key|(?:access|auth|refresh|session|bearer)[_-]?token|secret[_-]?(?:access[_-]?)?key|private[_-]?key)\b["']?\s*[=:]\s*["']?[^\s"',;]{6,}"#,
        ),
    ];
    all.into_iter().filter_map(|(what, pattern)| Some((what, Regex::new(pattern).ok()?))).collect()
});

/// What an error shows that it must not, unless the arguments held it.
fn leak(text: &str, arguments: &Value) -> Option<&'static str> {
    // Written only where something is found at all.
    let given = LazyCell::new(|| arguments.to_string());
    let found = LEAKS.iter().find(|(_, pattern)| {
        let mut found = pattern.find_iter(text).map(|found| found.as_str());
        found.any(|found| !is_prose(found) && !given.contains(found))
    });
    found.map(|(what, _)| *what)
}

/// Whether it is the name of an argument and words of what is said about it: `password: expected`,
/// `authorization: bearer required`.
fn is_prose(found: &str) -> bool {
    let is_word = |word: &str| {
        let word = word.trim_matches(['"', '\'', ' ']);
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '-')
    };
    if let Some((_, said)) = found.split_once(':') {
        return said.split_whitespace().all(is_word);
    }
    let mut words = found.split_whitespace();
    let scheme = words.next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("bearer") && words.all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn traces_and_credentials_are_leaks_unless_they_were_given() {
        let none = json!({});
        assert_eq!(
            leak("Traceback (most recent call last):\n  File \"s.py\", line 3", &none),
            Some("a stack trace")
        );
        assert_eq!(
            leak("TypeError: x\n    at run (/srv/app.js:10:5)", &none),
            Some("a stack trace")
        );
        assert_eq!(leak("thread 'main' panicked at src/main.rs:1:1", &none), Some("a stack trace"));
        assert_eq!(leak("cannot reach postgres://app:hunter22@db/x", &none), Some("a credential"));
        assert_eq!(leak("password=correct-horse", &none), Some("a credential"));
        assert_eq!(leak("login.password: hunter22", &none), Some("a credential"));
        assert_eq!(leak("settings.password: expected a text, found an object", &none), None);
        assert_eq!(leak("api_key: \"required\"", &none), None);
        for text in [
            "cannot sign in: Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "{\"authorization\": \"Basic YXBwOmh1bnRlcjI=\"}",
            "sent the header bearer 0123456789abcdef0123",
            "charge failed with sk_live_0123456789abcdef",
            "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENG",
            "DB_PASSWORD=hunter22 is wrong",
            "clone failed: glpat-0123456789abcdefghij",
            "refresh_token: 1//0abcdef",
            "GET /x?token=0123abcd failed",
        ] {
            assert_eq!(leak(text, &none), Some("a credential"), "{text}");
        }
        for text in [
            "authorization: missing",
            "authorization: bearer required",
            "the scheme bearer authentication-required",
            "unexpected token: foo_bar",
            "unexpected token: expected",
            "the bearer of this message",
            "token: a string is expected",
            "Invalid token < in JSON at position 0",
        ] {
            assert_eq!(leak(text, &none), None, "{text}");
        }
        assert_eq!(leak("no note `at 12:30`", &none), None);
        assert_eq!(leak("no such file at the path /tmp/a", &none), None);
        assert_eq!(
            leak("url `http://a:bcdefg@h/` is wrong", &json!({"u": "http://a:bcdefg@h/"})),
            None
        );
    }

    #[test]
    fn values_become_smaller_until_nothing_is_left_to_take() {
        assert_eq!(smaller_values(&json!("abcd")), [json!("ab"), json!("cd"), json!("abc")]);
        assert_eq!(smaller_values(&json!(9)), [json!(4), json!(8)]);
        assert_eq!(smaller_values(&json!([1, 2])), [json!([1]), json!([2]), json!([1])]);
        assert_eq!(smaller_values(&json!("a")), Vec::<Value>::new());
        let nested = json!([{"a": [{"a": 1}]}]);
        let smaller =
            [json!([{"a": 1}]), json!({"a": 1}), json!([{"a": 1}]), json!({"a": [{"a": 1}]})];
        assert_eq!(smaller_values(&nested), smaller);
        assert_eq!(smaller_values(&json!({"a": 1, "b": 2})), Vec::<Value>::new());
    }
}
