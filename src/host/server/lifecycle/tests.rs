//! Table tests of the machine, and invariants after any sequence of inputs.

use proptest::prelude::*;

use super::*;
use base::Timestamp;
use config::{RestartConfig, RetryConfig};

const NOW: Timestamp = Timestamp(1_000_000);

struct Rig {
    machine: Lifecycle,
    retry: RetryConfig,
    restart: RestartConfig,
    reconnects: bool,
}

impl Rig {
    fn new(policy: RestartPolicy) -> Self {
        Self {
            machine: Lifecycle::new(Phase::Stopped),
            retry: RetryConfig { max_retries: 2, ..RetryConfig::default() },
            restart: RestartConfig { policy, max: 2, ..RestartConfig::default() },
            reconnects: false,
        }
    }

    fn give(&mut self, input: LifecycleInput) -> Vec<LifecycleStep> {
        let around = Surroundings {
            now: NOW,
            random: 1.0,
            retry: &self.retry,
            restart: &self.restart,
            reconnects: self.reconnects,
        };
        let (machine, steps) = self.machine.clone().step(input, around);
        self.machine = machine;
        steps
    }

    fn ready(policy: RestartPolicy) -> Self {
        let mut rig = Self::new(policy);
        for input in [LifecycleInput::Start, LifecycleInput::Unblocked, LifecycleInput::Opened] {
            rig.give(input);
        }
        assert_eq!(rig.machine.phase(), &Phase::Ready);
        rig
    }
}

fn text(words: &str) -> SafeText {
    SafeText::line(words)
}

fn passing() -> LifecycleInput {
    LifecycleInput::OpenFailed { reason: text("refused"), retryable: true }
}

fn died(seconds: u64) -> LifecycleInput {
    LifecycleInput::Died(Loss { reason: text("exit code 1"), lived: Duration::from_secs(seconds) })
}

fn armed(steps: &[LifecycleStep]) -> Option<u64> {
    steps.iter().find_map(|step| match step {
        LifecycleStep::Arm(delay) => Some(delay.as_secs()),
        _ => None,
    })
}

#[test]
fn a_start_looks_at_dependencies_opens_publishes_and_is_ready() {
    let mut rig = Rig::new(RestartPolicy::Never);
    assert_eq!(rig.give(LifecycleInput::Start), [LifecycleStep::CheckDependencies]);
    assert_eq!(
        rig.give(LifecycleInput::Blocked(text("waits for db"))),
        [announce(ServerState::Waiting, Some(text("waits for db")))]
    );
    assert_eq!(
        rig.give(LifecycleInput::Unblocked),
        [announce(ServerState::Starting, None), LifecycleStep::Open]
    );
    assert_eq!(
        rig.give(LifecycleInput::Opened),
        [LifecycleStep::Publish, announce(ServerState::Ready, None)]
    );
}

#[test]
fn a_failure_that_can_pass_is_retried_with_backoff_and_then_given_up() {
    let mut rig = Rig::new(RestartPolicy::Never);
    rig.give(LifecycleInput::Start);
    for delay in [1, 2] {
        rig.give(LifecycleInput::Unblocked);
        assert_eq!(armed(&rig.give(passing())), Some(delay));
        assert_eq!(rig.give(LifecycleInput::Timer), [LifecycleStep::CheckDependencies]);
    }
    rig.give(LifecycleInput::Unblocked);
    assert_eq!(rig.machine.attempt(), 3);
    assert_eq!(armed(&rig.give(passing())), None);
    assert_eq!(rig.machine.phase(), &Phase::Failed);
}

#[test]
fn an_address_that_accepts_and_closes_is_reconnected_to_ever_more_slowly() {
    let mut rig = Rig::ready(RestartPolicy::Never);
    rig.reconnects = true;
    let mut lose = |after: u64| {
        let steps = rig.give(died(after));
        for input in [LifecycleInput::Timer, LifecycleInput::Unblocked, LifecycleInput::Opened] {
            rig.give(input);
        }
        assert_eq!(rig.machine.phase(), &Phase::Ready);
        armed(&steps).expect("it is tried again")
    };
    let pauses: Vec<u64> = (0..8).map(|_| lose(1)).collect();
    assert_eq!(pauses, [0, 1, 2, 4, 8, 15, 15, 15]);
    assert_eq!((lose(60), lose(1)), (0, 1), "a connection that held");
}

#[test]
fn a_failure_that_cannot_pass_is_not_retried() {
    let mut rig = Rig::new(RestartPolicy::OnFailure);
    rig.give(LifecycleInput::Start);
    rig.give(LifecycleInput::Unblocked);
    rig.give(LifecycleInput::OpenFailed { reason: text("not found"), retryable: false });
    assert_eq!(rig.machine.phase(), &Phase::Failed);
}

#[test]
fn a_death_is_final_by_default() {
    let mut rig = Rig::ready(RestartPolicy::Never);
    let steps = rig.give(died(5));
    assert_eq!(rig.machine.phase(), &Phase::Failed);
    assert_eq!(steps.last(), Some(&announce(ServerState::Unavailable, Some(text("exit code 1")))));
}

#[test]
fn with_a_policy_a_death_is_followed_by_restarts_until_the_budget_is_spent() {
    let mut rig = Rig::ready(RestartPolicy::OnFailure);
    assert_eq!(armed(&rig.give(died(1))), Some(2));
    rig.give(LifecycleInput::Timer);
    rig.give(LifecycleInput::Unblocked);
    // A failed start after a crash counts as a crash, not as a first start.
    assert_eq!(armed(&rig.give(passing())), Some(4));
    rig.give(LifecycleInput::Timer);
    rig.give(LifecycleInput::Unblocked);
    rig.give(LifecycleInput::Opened);
    let steps = rig.give(died(1));
    assert_eq!(rig.machine.phase(), &Phase::Failed);
    assert!(format!("{steps:?}").contains("given up after 2 restarts"), "{steps:?}");
}

#[test]
fn a_stable_minute_forgives_earlier_deaths() {
    let mut rig = Rig::ready(RestartPolicy::OnFailure);
    for _ in 0..10 {
        assert_eq!(armed(&rig.give(died(61))), Some(2));
        for input in [LifecycleInput::Timer, LifecycleInput::Unblocked, LifecycleInput::Opened] {
            rig.give(input);
        }
    }
}

#[test]
fn a_timeout_turns_callers_away_but_a_start_then_makes_a_fresh_session() {
    let mut rig = Rig::ready(RestartPolicy::Never);
    rig.give(LifecycleInput::TimedOut(text("tools/call slow: no answer in 30 s")));
    assert_eq!(rig.machine.phase(), &Phase::Wedged);
    assert!(rig.give(LifecycleInput::Start).contains(&LifecycleStep::End));
    assert_eq!(rig.give(LifecycleInput::Ended), [LifecycleStep::CheckDependencies]);
}

#[test]
fn a_stop_during_a_start_gives_the_attempt_up_and_a_late_success_is_ignored() {
    let mut rig = Rig::new(RestartPolicy::Never);
    rig.give(LifecycleInput::Start);
    rig.give(LifecycleInput::Unblocked);
    assert!(rig.give(LifecycleInput::Stop(Next::Rest)).contains(&LifecycleStep::Abort));
    assert_eq!(rig.give(LifecycleInput::Opened), []);
    rig.give(LifecycleInput::Ended);
    assert_eq!(rig.machine.phase(), &Phase::Stopped);
}

#[test]
fn leaving_wins_over_every_later_command() {
    let mut rig = Rig::ready(RestartPolicy::OnFailure);
    rig.give(LifecycleInput::Stop(Next::Leave));
    rig.give(LifecycleInput::Stop(Next::Rest));
    rig.give(LifecycleInput::Restart);
    rig.give(LifecycleInput::Start);
    assert_eq!(rig.give(LifecycleInput::Ended).last(), Some(&LifecycleStep::Finish));
}

#[test]
fn a_lost_connection_is_announced_at_once_and_judged_when_the_process_is_gone() {
    let mut rig = Rig::ready(RestartPolicy::OnFailure);
    let lost = Loss { reason: text("stdout closed"), lived: Duration::ZERO };
    assert!(rig.give(LifecycleInput::Lost(lost)).contains(&LifecycleStep::End));
    assert_eq!(armed(&rig.give(LifecycleInput::Ended)), Some(2));
}

#[test]
fn another_entry_lets_calls_finish_and_a_command_by_hand_does_not_wait_for_them() {
    let mut rig = Rig::ready(RestartPolicy::Never);
    let steps = rig.give(LifecycleInput::Retire(Next::Start, text("restarting: `args` changed")));
    assert_eq!(steps.last(), Some(&LifecycleStep::Drain));
    assert_eq!(rig.give(LifecycleInput::Retire(Next::Disable, text("disabled"))), [], "no hurry");
    assert_eq!(rig.give(LifecycleInput::Restart), [LifecycleStep::Hurry]);
    assert_eq!(rig.give(LifecycleInput::Stop(Next::Rest)), [LifecycleStep::Hurry]);
    rig.give(LifecycleInput::Ended);
    assert_eq!(rig.machine.phase(), &Phase::Stopped);
}

#[test]
fn new_sources_revive_what_failed_and_leave_alone_what_was_stopped() {
    let renew = || LifecycleInput::Renew(text("restarting: a.py changed"));
    let mut rig = Rig::ready(RestartPolicy::Never);
    rig.give(died(5));
    assert_eq!(rig.machine.phase(), &Phase::Failed);
    assert_eq!(rig.give(renew()), [LifecycleStep::CheckDependencies]);
    rig.give(LifecycleInput::Stop(Next::Rest));
    assert_eq!(rig.give(renew()), []);
    assert_eq!(rig.machine.phase(), &Phase::Stopped);
    let mut rig = Rig::new(RestartPolicy::Never);
    rig.give(LifecycleInput::Start);
    rig.give(LifecycleInput::Unblocked);
    assert_eq!(
        rig.give(renew()),
        [LifecycleStep::Abort],
        "an attempt over old sources is given up"
    );
}

fn any_input() -> impl Strategy<Value = LifecycleInput> {
    let next =
        || prop_oneof![Just(Next::Rest), Just(Next::Start), Just(Next::Disable), Just(Next::Leave)];
    let loss = || Loss { reason: text("x"), lived: Duration::ZERO };
    prop_oneof![
        Just(LifecycleInput::Start),
        Just(LifecycleInput::Restart),
        next().prop_map(LifecycleInput::Stop),
        next().prop_map(|next| LifecycleInput::Retire(next, text("c"))),
        Just(LifecycleInput::Renew(text("s"))),
        Just(LifecycleInput::Unblocked),
        Just(LifecycleInput::Blocked(text("b"))),
        Just(LifecycleInput::Opened),
        any::<bool>()
            .prop_map(|retryable| LifecycleInput::OpenFailed { reason: text("f"), retryable }),
        Just(LifecycleInput::Lost(loss())),
        Just(LifecycleInput::Died(loss())),
        Just(LifecycleInput::Ended),
        Just(LifecycleInput::TimedOut(text("t"))),
        Just(LifecycleInput::Timer),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_callers_are_let_in_only_while_ready(
        inputs in prop::collection::vec(any_input(), 0..60)
    ) {
        let mut rig = Rig::new(RestartPolicy::OnFailure);
        let mut published = false;
        for input in inputs {
            for step in rig.give(input) {
                match step {
                    LifecycleStep::Publish => published = true,
                    LifecycleStep::Unpublish(_) => published = false,
                    _ => {}
                }
            }
            prop_assert_eq!(published, rig.machine.phase() == &Phase::Ready);
        }
    }

    #[test]
    fn a_server_asked_to_leave_is_gone_after_at_most_one_end(
        inputs in prop::collection::vec(any_input(), 0..40)
    ) {
        let mut rig = Rig::new(RestartPolicy::OnFailure);
        for input in inputs {
            rig.give(input);
        }
        rig.give(LifecycleInput::Stop(Next::Leave));
        rig.give(LifecycleInput::Ended);
        prop_assert_eq!(rig.machine.phase(), &Phase::Gone);
    }
}

/// The work pending in the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    None,
    Opening,
    Aborting,
    Live,
    Ending,
}

/// The environment of the machine: executes the steps and generates only possible inputs.
struct World {
    rig: Rig,
    process: Process,
    timer: bool,
    /// Dependencies are being checked.
    checking: bool,
    announced: Option<ServerState>,
    finished: bool,
}

impl World {
    fn new(policy: RestartPolicy) -> Self {
        let (process, timer, checking) = (Process::None, false, false);
        let rig = Rig::new(policy);
        Self { rig, process, timer, checking, announced: None, finished: false }
    }

    /// The inputs possible now: requests, and results of pending work.
    fn possible(&self) -> Vec<LifecycleInput> {
        let loss = || Loss { reason: text("x"), lived: Duration::ZERO };
        let mut inputs =
            vec![LifecycleInput::Start, LifecycleInput::Restart, LifecycleInput::Sleep];
        let nexts = [Next::Rest, Next::Start, Next::Disable, Next::Leave];
        inputs.extend(nexts.map(LifecycleInput::Stop));
        inputs.extend(nexts.map(|next| LifecycleInput::Retire(next, text("changed"))));
        inputs.push(LifecycleInput::Renew(text("rebuilt")));
        if self.checking {
            inputs.extend([LifecycleInput::Unblocked, LifecycleInput::Blocked(text("b"))]);
        }
        if self.timer {
            inputs.push(LifecycleInput::Timer);
        }
        let failed = |retryable| LifecycleInput::OpenFailed { reason: text("f"), retryable };
        match self.process {
            Process::None => {}
            Process::Opening => {
                inputs.extend([LifecycleInput::Opened, failed(true), failed(false)]);
            }
            Process::Aborting => {
                inputs.extend([LifecycleInput::Ended, LifecycleInput::Opened, failed(true)]);
            }
            Process::Live => inputs.extend([
                LifecycleInput::Lost(loss()),
                LifecycleInput::Died(loss()),
                LifecycleInput::TimedOut(text("t")),
            ]),
            Process::Ending => inputs.extend([LifecycleInput::Ended, LifecycleInput::Died(loss())]),
        }
        inputs
    }

    fn happens(&mut self, input: LifecycleInput) -> Result<(), TestCaseError> {
        match (&input, self.process) {
            (LifecycleInput::Opened, Process::Opening) => self.process = Process::Live,
            (
                LifecycleInput::OpenFailed { .. } | LifecycleInput::Died(_) | LifecycleInput::Ended,
                _,
            ) => {
                self.process = Process::None;
            }
            (LifecycleInput::Timer, _) => self.timer = false,
            (LifecycleInput::Unblocked, _) => self.checking = false,
            _ => {}
        }
        for step in self.rig.give(input) {
            let from = self.process;
            match step {
                LifecycleStep::CheckDependencies => self.checking = true,
                LifecycleStep::Open => {
                    prop_assert_eq!(from, Process::None, "a second process");
                    self.process = Process::Opening;
                }
                LifecycleStep::Abort => {
                    prop_assert_eq!(from, Process::Opening);
                    self.process = Process::Aborting;
                }
                LifecycleStep::End | LifecycleStep::Drain => {
                    prop_assert_eq!(from, Process::Live);
                    self.process = Process::Ending;
                }
                LifecycleStep::Hurry => {
                    prop_assert!(matches!(from, Process::Ending | Process::Aborting));
                }
                LifecycleStep::Arm(_) => self.timer = true,
                LifecycleStep::Disarm => self.timer = false,
                LifecycleStep::Announce { state, .. } => self.announced = Some(state),
                LifecycleStep::Finish => self.finished = true,
                LifecycleStep::Publish | LifecycleStep::Unpublish(_) | LifecycleStep::Record(_) => {
                }
            }
        }
        let phase = self.rig.machine.phase();
        if *phase != Phase::Waiting {
            self.checking = false;
        }
        let owed = match phase {
            Phase::Ready | Phase::Wedged => self.process == Process::Live,
            Phase::Starting => self.process == Process::Opening,
            Phase::Dying { .. } => self.process == Process::Ending,
            Phase::Stopping { .. } => matches!(self.process, Process::Ending | Process::Aborting),
            Phase::Waiting => self.process == Process::None && self.checking,
            Phase::Backoff => self.process == Process::None && self.timer,
            Phase::Failed | Phase::Stopped | Phase::Sleeping | Phase::Disabled | Phase::Gone => {
                self.process == Process::None
            }
        };
        prop_assert!(owed, "{phase:?} with {:?}", self.process);
        prop_assert_eq!(self.timer, *phase == Phase::Backoff);
        prop_assert_eq!(self.finished, *phase == Phase::Gone);
        let expected = match phase {
            Phase::Ready => Some(ServerState::Ready),
            Phase::Wedged | Phase::Backoff | Phase::Failed | Phase::Dying { .. } => {
                Some(ServerState::Unavailable)
            }
            Phase::Starting => Some(ServerState::Starting),
            Phase::Disabled => Some(ServerState::Disabled),
            Phase::Sleeping => Some(ServerState::Sleeping),
            _ => self.announced,
        };
        prop_assert_eq!(expected, self.announced, "{:?}", phase);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn in_every_history_there_is_one_process_at_most_and_something_comes_next_or_it_rests(
        always: bool, choices in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
    ) {
        let policy = if always { RestartPolicy::OnFailure } else { RestartPolicy::Never };
        let mut world = World::new(policy);
        for choice in choices {
            let possible = world.possible();
            world.happens(possible[choice.index(possible.len())].clone())?;
        }
    }
}
