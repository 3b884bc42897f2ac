//! Tables over the machine, and what must hold after any sequence of inputs.

use proptest::prelude::*;

use super::*;
use crate::base::Timestamp;
use crate::config::{RestartConfig, RetryConfig};

const NOW: Timestamp = Timestamp(1_000_000);

struct Rig {
    machine: Lifecycle,
    retry: RetryConfig,
    restart: RestartConfig,
}

impl Rig {
    fn new(policy: RestartPolicy) -> Self {
        Self {
            machine: Lifecycle::new(Phase::Stopped),
            retry: RetryConfig { max_retries: 2, ..RetryConfig::default() },
            restart: RestartConfig { policy, max: 2, ..RestartConfig::default() },
        }
    }

    fn give(&mut self, input: Input) -> Vec<Step> {
        let around = Surroundings {
            now: NOW,
            random: 1.0,
            retry: &self.retry,
            restart: &self.restart,
            reconnects: false,
        };
        let (machine, steps) = self.machine.clone().step(input, around);
        self.machine = machine;
        steps
    }

    fn ready(policy: RestartPolicy) -> Self {
        let mut rig = Self::new(policy);
        for input in [Input::Start, Input::Unblocked, Input::Opened] {
            rig.give(input);
        }
        assert_eq!(rig.machine.phase(), &Phase::Ready);
        rig
    }
}

fn text(words: &str) -> SafeText {
    SafeText::line(words)
}

fn passing() -> Input {
    Input::OpenFailed { reason: text("refused"), retryable: true }
}

fn died(seconds: u64) -> Input {
    Input::Died(Loss { reason: text("exit code 1"), lived: Duration::from_secs(seconds) })
}

fn armed(steps: &[Step]) -> Option<u64> {
    steps.iter().find_map(|step| match step {
        Step::Arm(delay) => Some(delay.as_secs()),
        _ => None,
    })
}

#[test]
fn a_start_looks_at_dependencies_opens_publishes_and_is_ready() {
    let mut rig = Rig::new(RestartPolicy::Never);
    assert_eq!(rig.give(Input::Start), [Step::CheckDependencies]);
    assert_eq!(
        rig.give(Input::Blocked(text("waits for db"))),
        [announce(ServerState::Waiting, Some(text("waits for db")))]
    );
    assert_eq!(rig.give(Input::Unblocked), [announce(ServerState::Starting, None), Step::Open]);
    assert_eq!(rig.give(Input::Opened), [Step::Publish, announce(ServerState::Ready, None)]);
}

#[test]
fn a_failure_that_can_pass_is_retried_with_backoff_and_then_given_up() {
    let mut rig = Rig::new(RestartPolicy::Never);
    rig.give(Input::Start);
    for delay in [1, 2] {
        rig.give(Input::Unblocked);
        assert_eq!(armed(&rig.give(passing())), Some(delay));
        assert_eq!(rig.give(Input::Timer), [Step::CheckDependencies]);
    }
    rig.give(Input::Unblocked);
    assert_eq!(rig.machine.attempt(), 3);
    assert_eq!(armed(&rig.give(passing())), None);
    assert_eq!(rig.machine.phase(), &Phase::Failed);
}

#[test]
fn a_failure_that_cannot_pass_is_not_retried() {
    let mut rig = Rig::new(RestartPolicy::OnFailure);
    rig.give(Input::Start);
    rig.give(Input::Unblocked);
    rig.give(Input::OpenFailed { reason: text("not found"), retryable: false });
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
    rig.give(Input::Timer);
    rig.give(Input::Unblocked);
    // A start that fails after a death counts like a death, not like a first start.
    assert_eq!(armed(&rig.give(passing())), Some(4));
    rig.give(Input::Timer);
    rig.give(Input::Unblocked);
    rig.give(Input::Opened);
    let steps = rig.give(died(1));
    assert_eq!(rig.machine.phase(), &Phase::Failed);
    assert!(format!("{steps:?}").contains("given up after 2 restarts"), "{steps:?}");
}

#[test]
fn a_stable_minute_forgives_earlier_deaths() {
    let mut rig = Rig::ready(RestartPolicy::OnFailure);
    for _ in 0..10 {
        assert_eq!(armed(&rig.give(died(61))), Some(2));
        for input in [Input::Timer, Input::Unblocked, Input::Opened] {
            rig.give(input);
        }
    }
}

#[test]
fn a_timeout_turns_callers_away_but_a_start_then_makes_a_fresh_session() {
    let mut rig = Rig::ready(RestartPolicy::Never);
    rig.give(Input::TimedOut(text("tools/call slow: no answer in 30 s")));
    assert_eq!(rig.machine.phase(), &Phase::Wedged);
    assert!(rig.give(Input::Start).contains(&Step::End));
    assert_eq!(rig.give(Input::Ended), [Step::CheckDependencies]);
}

#[test]
fn a_stop_during_a_start_gives_the_attempt_up_and_a_late_success_is_ignored() {
    let mut rig = Rig::new(RestartPolicy::Never);
    rig.give(Input::Start);
    rig.give(Input::Unblocked);
    assert!(rig.give(Input::Stop(Next::Rest)).contains(&Step::Abort));
    assert_eq!(rig.give(Input::Opened), []);
    rig.give(Input::Ended);
    assert_eq!(rig.machine.phase(), &Phase::Stopped);
}

#[test]
fn leaving_wins_over_every_later_command() {
    let mut rig = Rig::ready(RestartPolicy::OnFailure);
    rig.give(Input::Stop(Next::Leave));
    rig.give(Input::Stop(Next::Rest));
    rig.give(Input::Restart);
    rig.give(Input::Start);
    assert_eq!(rig.give(Input::Ended).last(), Some(&Step::Finish));
}

#[test]
fn a_lost_connection_is_announced_at_once_and_judged_when_the_process_is_gone() {
    let mut rig = Rig::ready(RestartPolicy::OnFailure);
    let lost = Loss { reason: text("stdout closed"), lived: Duration::ZERO };
    assert!(rig.give(Input::Lost(lost)).contains(&Step::End));
    assert_eq!(armed(&rig.give(Input::Ended)), Some(2));
}

#[test]
fn another_entry_lets_calls_finish_and_a_command_by_hand_does_not_wait_for_them() {
    let mut rig = Rig::ready(RestartPolicy::Never);
    let steps = rig.give(Input::Retire(Next::Start, text("restarting: `args` changed")));
    assert_eq!(steps.last(), Some(&Step::Drain));
    assert_eq!(rig.give(Input::Retire(Next::Disable, text("disabled"))), [], "no hurry");
    assert_eq!(rig.give(Input::Restart), [Step::Hurry]);
    assert_eq!(rig.give(Input::Stop(Next::Rest)), [Step::Hurry]);
    rig.give(Input::Ended);
    assert_eq!(rig.machine.phase(), &Phase::Stopped);
}

#[test]
fn new_sources_revive_what_failed_and_leave_alone_what_was_stopped() {
    let renew = || Input::Renew(text("restarting: a.py changed"));
    let mut rig = Rig::ready(RestartPolicy::Never);
    rig.give(died(5));
    assert_eq!(rig.machine.phase(), &Phase::Failed);
    assert_eq!(rig.give(renew()), [Step::CheckDependencies]);
    rig.give(Input::Stop(Next::Rest));
    assert_eq!(rig.give(renew()), []);
    assert_eq!(rig.machine.phase(), &Phase::Stopped);
    let mut rig = Rig::new(RestartPolicy::Never);
    rig.give(Input::Start);
    rig.give(Input::Unblocked);
    assert_eq!(rig.give(renew()), [Step::Abort], "an attempt over old sources is given up");
}

fn any_input() -> impl Strategy<Value = Input> {
    let next =
        || prop_oneof![Just(Next::Rest), Just(Next::Start), Just(Next::Disable), Just(Next::Leave)];
    let loss = || Loss { reason: text("x"), lived: Duration::ZERO };
    prop_oneof![
        Just(Input::Start),
        Just(Input::Restart),
        next().prop_map(Input::Stop),
        next().prop_map(|next| Input::Retire(next, text("c"))),
        Just(Input::Renew(text("s"))),
        Just(Input::Unblocked),
        Just(Input::Blocked(text("b"))),
        Just(Input::Opened),
        any::<bool>().prop_map(|retryable| Input::OpenFailed { reason: text("f"), retryable }),
        Just(Input::Lost(loss())),
        Just(Input::Died(loss())),
        Just(Input::Ended),
        Just(Input::TimedOut(text("t"))),
        Just(Input::Timer),
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
                    Step::Publish => published = true,
                    Step::Unpublish(_) => published = false,
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
        rig.give(Input::Stop(Next::Leave));
        rig.give(Input::Ended);
        prop_assert_eq!(rig.machine.phase(), &Phase::Gone);
    }
}

/// What the actor has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    None,
    Opening,
    Aborting,
    Live,
    Ending,
}

/// The world around the machine: it executes the steps, and only what can happen in it happens.
struct World {
    rig: Rig,
    process: Process,
    timer: bool,
    /// Dependencies are being looked at.
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

    /// What can happen now: what people ask for, and what the world still owes.
    fn possible(&self) -> Vec<Input> {
        let loss = || Loss { reason: text("x"), lived: Duration::ZERO };
        let mut inputs = vec![Input::Start, Input::Restart, Input::Sleep];
        let nexts = [Next::Rest, Next::Start, Next::Disable, Next::Leave];
        inputs.extend(nexts.map(Input::Stop));
        inputs.extend(nexts.map(|next| Input::Retire(next, text("changed"))));
        inputs.push(Input::Renew(text("rebuilt")));
        if self.checking {
            inputs.extend([Input::Unblocked, Input::Blocked(text("b"))]);
        }
        if self.timer {
            inputs.push(Input::Timer);
        }
        let failed = |retryable| Input::OpenFailed { reason: text("f"), retryable };
        match self.process {
            Process::None => {}
            Process::Opening => inputs.extend([Input::Opened, failed(true), failed(false)]),
            Process::Aborting => inputs.extend([Input::Ended, Input::Opened, failed(true)]),
            Process::Live => inputs.extend([
                Input::Lost(loss()),
                Input::Died(loss()),
                Input::TimedOut(text("t")),
            ]),
            Process::Ending => inputs.extend([Input::Ended, Input::Died(loss())]),
        }
        inputs
    }

    fn happens(&mut self, input: Input) -> Result<(), TestCaseError> {
        match (&input, self.process) {
            (Input::Opened, Process::Opening) => self.process = Process::Live,
            (Input::OpenFailed { .. } | Input::Died(_) | Input::Ended, _) => {
                self.process = Process::None;
            }
            (Input::Timer, _) => self.timer = false,
            (Input::Unblocked, _) => self.checking = false,
            _ => {}
        }
        for step in self.rig.give(input) {
            let from = self.process;
            match step {
                Step::CheckDependencies => self.checking = true,
                Step::Open => {
                    prop_assert_eq!(from, Process::None, "a second process");
                    self.process = Process::Opening;
                }
                Step::Abort => {
                    prop_assert_eq!(from, Process::Opening);
                    self.process = Process::Aborting;
                }
                Step::End | Step::Drain => {
                    prop_assert_eq!(from, Process::Live);
                    self.process = Process::Ending;
                }
                Step::Hurry => {
                    prop_assert!(matches!(from, Process::Ending | Process::Aborting));
                }
                Step::Arm(_) => self.timer = true,
                Step::Disarm => self.timer = false,
                Step::Announce { state, .. } => self.announced = Some(state),
                Step::Finish => self.finished = true,
                Step::Publish | Step::Unpublish(_) | Step::Record(_) => {}
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
