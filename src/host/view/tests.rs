//! Folding of facts, and serialization of facts and views.

use serde_json::json;

use super::*;
use crate::approvals::{Decider, Settlement};
use config::ConfigChange;
use protocol::{FieldChange, ListKind, PartialList, RejectedEntry, RequestKind, Tool, ToolHints};

fn server() -> ServerName {
    ServerName::new("git")
}

fn state(state: ServerState) -> Fact {
    Fact::StateChanged { state, reason: None, attempt: 1, retry_at: None }
}

fn fold(facts: Vec<Fact>) -> HostView {
    let mut view = HostView::default();
    for (n, fact) in facts.into_iter().enumerate() {
        let seq = n as u64 + 1;
        let (at, server) = (Timestamp(seq * 1_000), Some(server()));
        view.apply(&Record { seq, at, server, fact });
    }
    view
}

fn exited() -> Fact {
    let exit = ExitView { signal: Some(11), lived: Duration::from_secs(3), ..ExitView::default() };
    Fact::Exited { exit, stderr_tail: vec![SafeText::line("oh no")] }
}

#[test]
fn warnings_go_with_the_text_they_are_about() {
    let warning = |text: &str| {
        vec![Diagnostic::new("config/unknown-key", config::Severity::Warning, text.to_owned())]
    };
    let loaded =
        |diagnostics| Fact::ConfigLoaded { files: Vec::new(), diagnostics, order: Vec::new() };
    let rejected = Fact::ConfigRejected { diagnostics: warning("new") };
    let view = fold(vec![loaded(warning("old")), rejected.clone()]);
    assert_eq!((view.diagnostics, view.rejected), (Vec::new(), warning("new")));
    let view = fold(vec![loaded(warning("old")), rejected, loaded(warning("old"))]);
    assert_eq!((view.diagnostics, view.rejected), (warning("old"), Vec::new()));
}

#[test]
fn restarts_count_the_times_a_server_became_ready_again() {
    use ServerState::{Ready, Starting, Unavailable};
    let restarts = |facts: Vec<Fact>| fold(facts).servers["git"].restarts;
    // An attempt that failed before it was ready is not a restart.
    assert_eq!(restarts(vec![state(Starting), exited(), state(Starting), state(Ready)]), 0);
    // A restart counts with and without an exit, as for servers reached by URL.
    let twice =
        vec![state(Ready), state(Unavailable), state(Starting), state(Ready), state(Unavailable)];
    assert_eq!(restarts(twice), 1);
    assert_eq!(restarts(vec![state(Ready), exited(), state(Starting), state(Ready)]), 1);
    // Repeated `Ready` facts count once.
    assert_eq!(restarts(vec![state(Ready), state(Ready)]), 0);
}

#[test]
fn the_black_box_of_a_dead_server_stays_until_it_dies_again() {
    let view = fold(vec![
        Fact::Spawned { pid: 7 },
        exited(),
        state(ServerState::Starting),
        Fact::Spawned { pid: 8 },
        state(ServerState::Ready),
    ]);
    let git = &view.servers["git"];
    assert_eq!(git.pid, Some(8));
    assert_eq!(git.exit.as_ref().map(ExitView::describe).as_deref(), Some("killed by SIGSEGV"));
    assert_eq!(git.stderr_tail, [SafeText::line("oh no")]);
}

#[test]
fn findings_are_bounded_and_counted() {
    let finding = Finding {
        kind: FindingKind::Junk,
        at: Timestamp(1),
        message: SafeText::line("no JSON"),
        raw: SafeText::line("hello"),
        request: None,
        count: 1,
    };
    let fact = Fact::Found { finding };
    let view = fold(vec![fact; 100]);
    let git = &view.servers["git"];
    assert_eq!(git.findings.len(), ServerView::MAX_FINDINGS);
    assert_eq!(git.finding_counts[&FindingKind::Junk], 100);
}

#[test]
fn settled_requests_are_kept_within_bytes_and_failures_within_number() {
    let mut facts = Vec::new();
    for n in 0..20 {
        let request = Arc::new(ApprovalRequest {
            id: ApprovalId(n),
            server: server(),
            kind: RequestKind::Sampling,
            call: None,
            candidates: vec![],
            during: None,
            params: Arc::new(json!(null)),
            bytes: 1 << 20,
            arrived: Timestamp(0),
            deadline: Timestamp(0),
            deferred: false,
            input: None,
        });
        let settlement = Settlement::Withdrawn { reason: SafeText::default() };
        let (id, after) = (ApprovalId(n), Duration::ZERO);
        facts.push(Fact::RequestArrived { request });
        facts.push(Fact::RequestSettled { id, settlement, after });
    }
    let failure = Fact::TaskFailed { task: SafeText::default(), message: SafeText::default() };
    facts.extend(std::iter::repeat_n(failure, 300));
    let view = fold(facts);
    assert_eq!(view.settled.len(), 8);
    assert_eq!(view.settled.back().expect("kept").1.id, ApprovalId(19));
    assert_eq!(view.failures.len(), HostView::MAX_TASK_FAILURES);
}

fn more_time() -> Fact {
    Fact::RequestExtended { id: ApprovalId(2), deadline: Timestamp(9_000_000) }
}

fn roots_shared() -> Fact {
    let roots = vec![RootConfig { uri: "file:///a".into(), name: None }];
    Fact::RootsShared { roots }
}
fn reloaded() -> Fact {
    Fact::Reloaded(ConfigChange {
        removed: vec![ServerName::new("old")],
        changed: vec![(server(), vec!["env.X".into()])],
        ..ConfigChange::default()
    })
}

fn every_fact() -> Vec<Fact> {
    let tool = Tool {
        name: "a\u{202e}b".into(),
        label: SafeText::line("a\u{202e}b"),
        title: None,
        description: Some(SafeText::block("two\nlines")),
        input_schema: Arc::new(json!({"type": "object"})),
        output_schema: None,
        hints: ToolHints { read_only: Some(true), ..ToolHints::default() },
        raw: Arc::new(json!({"name": "a"}).into()),
    };
    let capabilities = Arc::new(Capabilities {
        tools: vec![Arc::new(tool)],
        rejected: vec![RejectedEntry {
            list: ListKind::Tools,
            index: 1,
            reason: SafeText::line("no name"),
            raw: Arc::new(json!(null)),
        }],
        partial: vec![(ListKind::Prompts, PartialList::Pages(3))],
        ..Capabilities::default()
    });
    let change =
        FieldChange { pointer: "/description".into(), before: Some(json!("x")), after: None };
    let changes = Arc::new(ListChanges {
        added: vec![(ListKind::Tools, SafeText::line("new"))],
        removed: vec![],
        changed: vec![(ListKind::Tools, SafeText::line("a"), vec![change])],
    });
    let session = Arc::new(SessionView {
        era: protocol::Era::Modern,
        protocol_version: SafeText::line("2026-07-28"),
        name: SafeText::line("git"),
        version: SafeText::line("1"),
        title: None,
        instructions: Some(SafeText::block("be\nnice")),
        capabilities: Arc::new(json!({"tools": {}})),
        server_info: Arc::new(json!({"name": "git"})),
    });
    let request = Arc::new(ApprovalRequest {
        id: ApprovalId(3),
        server: server(),
        kind: RequestKind::Other("x/y".into()),
        call: Some(protocol::CallId(9)),
        candidates: vec![],
        during: None,
        params: Arc::new(json!({"deep": [1, 2.5, null]})),
        bytes: 20,
        arrived: Timestamp(5),
        deadline: Timestamp(6),
        deferred: true,
        input: None,
    });
    let open = BreakerView::Open { until: Timestamp(1), cause: SafeText::line("boom") };
    let kept = ApprovalRequest { id: ApprovalId(4), ..ApprovalRequest::clone(&request) };
    vec![
        Fact::ConfigLoaded { files: vec!["mcp.json".into()], diagnostics: vec![], order: vec![] },
        Fact::ServerAdded {
            transport: TransportKind::Stdio,
            target: SafeText::line("git-server --stdio"),
            dependencies: vec![ServerName::new("db")],
            limits: ContentLimits { image_pixels: 1, ..ContentLimits::default() },
        },
        state(ServerState::Starting),
        Fact::StepChanged {
            step: StartStep::Handshake,
            status: StepStatus::Ok,
            took: Some(Duration::from_micros(12_345)),
            detail: Some(SafeText::line("2026-07-28")),
        },
        Fact::Spawned { pid: 4711 },
        Fact::Connected { session },
        Fact::Listed { capabilities, changes: Some(changes) },
        state(ServerState::Ready),
        Fact::BreakerChanged { tool: None, breaker: open.clone() },
        Fact::BreakerChanged { tool: Some(SafeText::line("a")), breaker: open },
        Fact::RequestArrived { request },
        Fact::RequestArrived { request: Arc::new(kept) },
        Fact::RequestSettled {
            id: ApprovalId(3),
            settlement: Settlement::Answered {
                by: Decider::Rule("canned".into()),
                how: "result".into(),
            },
            after: Duration::from_secs(48),
        },
        more_time(),
        roots_shared(),
        exited(),
        reloaded(),
        Fact::ServerRemoved,
        Fact::ConfigRejected { diagnostics: vec![] },
        Fact::TaskFailed { task: SafeText::line("t"), message: SafeText::line("m") },
        Fact::ShutdownBegan,
    ]
}

#[test]
fn every_fact_and_the_view_of_all_survive_being_written_and_read() {
    let facts = every_fact();
    let mut lines = String::new();
    for (n, fact) in facts.iter().enumerate() {
        let server = if *fact == Fact::ServerRemoved { ServerName::new("old") } else { server() };
        let (seq, at) = (n as u64 + 1, Timestamp(1_000 * n as u64));
        let record = Record { seq, at, server: Some(server), fact: fact.clone() };
        let line = serde_json::to_string(&record).expect("a fact is plain data");
        assert!(line.contains(&format!("\"fact\":\"{}\"", fact.name())), "{line}");
        lines.push_str(&line);
        lines.push('\n');
    }
    let mut replayed = HostView::default();
    for (line, fact) in lines.lines().zip(&facts) {
        let record: Record = serde_json::from_str(line).expect("what was written can be read");
        assert_eq!(&record.fact, fact);
        replayed.apply(&record);
    }
    assert_eq!(replayed.pending.len(), 1);
    let text = serde_json::to_string(&replayed).expect("a view is plain data");
    assert_eq!(serde_json::from_str::<HostView>(&text).expect("readable"), replayed);
}

#[test]
fn a_stop_is_told_in_the_words_of_people_and_once() {
    let told =
        |reason: Option<&str>| ServerState::Shutdown.because(reason.map(SafeText::line).as_ref());
    assert_eq!(told(None), "stopped");
    assert_eq!(told(Some("stopped on request")), "stopped on request");
    assert_eq!(told(Some("stopping")), "stopping");
    assert_eq!(told(Some("its entry changed")), "stopped: its entry changed");
    let reason = SafeText::line("exit code 1");
    assert_eq!(ServerState::Unavailable.because(Some(&reason)), "unavailable: exit code 1");
    assert_eq!(ServerState::Shutdown.as_str(), "shutdown", "what programs read stays");
}

#[test]
fn the_steps_of_a_start_are_in_their_order_however_they_are_reported() {
    let step = |step| Fact::StepChanged {
        step,
        status: StepStatus::Ok,
        took: Some(Duration::from_millis(1)),
        detail: None,
    };
    let all = [StartStep::Spawn, StartStep::Handshake, StartStep::FirstByte, StartStep::Tools];
    let view = fold(all.into_iter().map(step).collect());
    let steps: Vec<StartStep> = view.servers["git"].steps.iter().map(|one| one.step).collect();
    let wanted = [StartStep::Spawn, StartStep::FirstByte, StartStep::Handshake, StartStep::Tools];
    assert_eq!(steps, wanted);
}

#[test]
fn a_reason_that_quotes_stderr_is_not_followed_by_the_same_line() {
    let mut server =
        ServerView { stderr_tail: vec![SafeText::line("Error: no key")], ..ServerView::default() };
    assert_eq!(server.reason_in_full("it is gone"), "it is gone (stderr: Error: no key)");
    for (reason, quotes_stderr) in
        [("exit code 1: Error: no key", false), ("no answer in 30 s; on stderr: no", true)]
    {
        server.reason = Some(SafeText::line(reason));
        server.failure = Some(StartFailure { quotes_stderr, ..StartFailure::default() });
        assert_eq!(server.reason_in_full(""), reason);
    }
    // What a server says of itself is not how its reason was made.
    let reason = "its log is empty; on stderr: nothing";
    server.reason = Some(SafeText::line(reason));
    server.failure = Some(StartFailure::default());
    assert_eq!(server.reason_in_full(""), format!("{reason} (stderr: Error: no key)"));
}
