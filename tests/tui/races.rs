//! Keys and ends of requests in any order: nothing goes out for what was seen to be over, nothing
//! twice, and no draft is lost.

use std::collections::BTreeSet;

use mcpdeck::host::ApprovalId;
use mcpdeck::host::approvals::{Decider, RequestKind, Settlement};
use mcpdeck::text::SafeText;
use mcpdeck::tui::effect::Effect;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::desk::Desk;

fn words() -> Value {
    json!({"maxTokens": 5, "messages": [
        {"role": "user", "content": {"type": "text", "text": "Left or right?"}}]})
}

fn form() -> Value {
    json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {
        "name": {"type": "string"}}}})
}

fn withdrawn(why: &str) -> Settlement {
    Settlement::Withdrawn { reason: SafeText::line(why) }
}

#[test]
fn an_answer_that_crossed_a_withdrawal_is_told_and_its_draft_is_kept() {
    let mut desk = Desk::new();
    desk.ask(RequestKind::Sampling, words());
    desk.shown();
    desk.keys("\x07left\x13");
    assert!(desk.wanted.iter().any(|effect| matches!(effect, Effect::Answer(..))));
    desk.settle(ApprovalId(101), withdrawn("never mind"));
    desk.shown();
    let screen = crate::draw(&mut desk.app, 120, 40);
    assert!(screen.contains("not sent: memory had withdrawn it: never mind"), "{screen}");
    desk.keys("9\r");
    let screen = crate::draw(&mut desk.app, 120, 40);
    assert!(screen.contains("left") && screen.contains("no longer open"), "{screen}");
}

#[test]
fn an_end_among_too_many_others_is_not_called_a_withdrawal() {
    let mut desk = Desk::new();
    desk.ask(RequestKind::Sampling, words());
    desk.shown();
    desk.keys("\x07left\x13");
    let how = |by| Settlement::Answered { by, how: "result".into() };
    desk.settle(ApprovalId(101), how(Decider::Person));
    for n in 0..300 {
        desk.ask_as("github", RequestKind::Sampling, words(), false);
        desk.settle(ApprovalId(102 + n), how(Decider::Rule("deny".into())));
    }
    desk.shown();
    let screen = crate::draw(&mut desk.app, 120, 40);
    assert!(!screen.contains("not sent"), "{screen}");
    assert!(screen.contains("the request of memory is over"), "{screen}");
}

#[test]
fn a_choice_made_after_the_end_sends_nothing_and_sets_no_rule() {
    for pick in ["\x07left\x1bs", "\x07\x14", "\x07left\x1bwname"] {
        let mut desk = Desk::new();
        desk.ask(RequestKind::Sampling, words());
        desk.shown();
        desk.keys(pick);
        desk.settle(ApprovalId(101), withdrawn("its session ended"));
        desk.shown();
        desk.keys("\r\x13");
        let sent =
            |effect: &Effect| matches!(effect, Effect::Answer(..) | Effect::ApprovalRule(..));
        assert!(!desk.wanted.iter().any(sent), "{pick:?}: {:?}", desk.wanted);
    }
}

/// What happens, in any order.
#[derive(Clone, Debug)]
enum Op {
    Ask(bool),
    Keys(&'static str),
    /// A request ends; the screen sees it with the next `Seen`.
    End(u8, bool),
    Seen,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let keys = proptest::sample::select(vec![
        "\x07", "yes", "\x13", "\x13\x13", "\x18", "\x18\x13", "\x0e", "\x1bc", "\x1bk", "y", "n",
        "\r", "\x1bs", "\x14", "\x12", "\x17", "9", "X", "z", "o", "\x1b",
    ]);
    let op = prop_oneof![
        3 => any::<bool>().prop_map(Op::Ask),
        10 => keys.prop_map(Op::Keys),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(which, ours)| Op::End(which, ours)),
        4 => Just(Op::Seen),
    ];
    proptest::collection::vec(op, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn nothing_goes_out_for_what_was_seen_to_be_over_and_no_answer_twice(ops in ops()) {
        let mut desk = Desk::new();
        let mut answered = BTreeSet::new();
        let mut over = BTreeSet::new();
        let mut ended = Vec::new();
        for op in ops {
            match op {
                Op::Ask(true) => desk.ask(RequestKind::Sampling, words()),
                Op::Ask(false) => desk.ask(RequestKind::Elicitation, form()),
                Op::Keys(keys) => desk.keys(keys),
                Op::End(which, ours) => {
                    let at = usize::from(which) % desk.view.pending.len().max(1);
                    let Some((id, _)) = desk.view.pending.get_index(at) else { continue };
                    let id = *id;
                    let by = Decider::Person;
                    let settlement = if ours && answered.contains(&id) {
                        Settlement::Answered { by, how: "result".into() }
                    } else {
                        withdrawn("never mind")
                    };
                    desk.settle(id, settlement);
                    ended.push(id);
                }
                Op::Seen => {
                    desk.shown();
                    over.extend(ended.drain(..));
                }
            }
            for effect in std::mem::take(&mut desk.wanted) {
                if let Effect::Answer(id, _) = effect {
                    prop_assert!(!over.contains(&id), "{id} was seen to be over");
                    prop_assert!(answered.insert(id), "{id} is answered twice");
                }
            }
            crate::draw(&mut desk.app, 80, 24);
        }
    }
}
