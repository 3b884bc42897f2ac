//! Keys and ends of requests in any order: nothing goes out for what was seen to be over, nothing
//! twice, and no draft is lost.

use std::collections::{BTreeMap, BTreeSet};

use mcpdeck::base::text::SafeText;
use mcpdeck::host::{Decider, Settlement};
use mcpdeck::protocol::{ApprovalId, RequestKind};
use mcpdeck::tui::effect::{Effect, Order};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::tui::driver::Driver;

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
fn an_answer_that_crossed_a_withdrawal_is_reported_and_its_draft_is_kept() {
    let mut driver = Driver::new();
    driver.ask(RequestKind::Sampling, words());
    driver.shown();
    driver.keys("\x07left\x12");
    assert!(driver.wanted.iter().any(|effect| matches!(effect, Effect::Order(Order::Answer(..)))));
    driver.settle(ApprovalId(101), withdrawn("never mind"));
    driver.shown();
    let screen = crate::tui::draw(&mut driver.app, 120, 40);
    assert!(screen.contains("not sent: memory had withdrawn it: never mind"), "{screen}");
    driver.keys("6\r");
    let screen = crate::tui::draw(&mut driver.app, 120, 40);
    assert!(screen.contains("left") && screen.contains("no longer open"), "{screen}");
}

#[test]
fn an_end_among_too_many_others_is_not_called_a_withdrawal() {
    let mut driver = Driver::new();
    driver.ask(RequestKind::Sampling, words());
    driver.shown();
    driver.keys("\x07left\x12");
    let how = |by| Settlement::Answered { by, how: "result".into() };
    driver.settle(ApprovalId(101), how(Decider::Person));
    for n in 0..300 {
        driver.ask_as("github", RequestKind::Sampling, words(), false);
        driver.settle(ApprovalId(102 + n), how(Decider::Rule("deny".into())));
    }
    driver.shown();
    let screen = crate::tui::draw(&mut driver.app, 120, 40);
    assert!(!screen.contains("not sent"), "{screen}");
    assert!(screen.contains("the request of memory ended"), "{screen}");
}

#[test]
fn a_choice_made_after_the_end_sends_nothing_and_sets_no_rule() {
    for pick in ["\x07left\x1bs", "\x07\x14", "\x07left\x13name"] {
        let mut driver = Driver::new();
        driver.ask(RequestKind::Sampling, words());
        driver.shown();
        driver.keys(pick);
        driver.settle(ApprovalId(101), withdrawn("its session ended"));
        driver.shown();
        driver.keys("\r\x12");
        let sent = |effect: &Effect| {
            matches!(effect, Effect::Order(Order::Answer(..) | Order::ApprovalRule(..)))
        };
        assert!(!driver.wanted.iter().any(sent), "{pick:?}: {:?}", driver.wanted);
    }
}

#[test]
fn a_draft_is_in_sight_although_a_refusal_was_begun_and_so_is_its_reason() {
    for (typed, shown) in [("\x07left\x18", "left"), ("\x07left\x18too late", "too late")] {
        let mut driver = Driver::new();
        driver.ask(RequestKind::Sampling, words());
        driver.shown();
        driver.keys(typed);
        driver.settle(ApprovalId(101), withdrawn("never mind"));
        driver.shown();
        let screen = crate::tui::draw(&mut driver.app, 120, 40);
        assert!(screen.contains(shown) && !screen.contains("say why"), "{screen}");
        driver.keys("\x19");
        let copied = |effect: &Effect| matches!(effect, Effect::Copy(text) if text == shown);
        assert!(driver.wanted.iter().any(copied), "{:?}", driver.wanted);
    }
}

/// What happens, in any order.
#[derive(Clone, Debug)]
enum Op {
    Ask(bool),
    Keys(&'static str),
    /// A word of its own is typed, where an answer is being written.
    Word,
    /// A request ends; the screen sees it with the next `Seen`.
    End(u8, bool),
    Seen,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let keys = proptest::sample::select(vec![
        "\x07", "yes", "\x12", "\x12\x12", "\x18", "\x18\x12", "\x0e", "\x1bc", "\x1bk", "y", "n",
        "\r", "\x1bs", "\x14", "\u{e004}", "\u{e006}", "9", "\x18", "z", "o", "\x1b",
    ]);
    let op = prop_oneof![
        4 => any::<bool>().prop_map(Op::Ask),
        9 => keys.prop_map(Op::Keys),
        5 => Just(Op::Keys("\x07")),
        6 => Just(Op::Word),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(which, ours)| Op::End(which, ours)),
        4 => Just(Op::Seen),
    ];
    proptest::collection::vec(op, 1..60)
}

/// Asks a question that no other request asks.
fn ask(driver: &mut Driver, sampling: bool, number: u64) {
    let question = format!("Question {number}?");
    if sampling {
        let message = json!({"role": "user", "content": {"type": "text", "text": question}});
        driver.ask(RequestKind::Sampling, json!({"maxTokens": 5, "messages": [message]}));
    } else {
        let mut params = form();
        params["message"] = question.into();
        driver.ask(RequestKind::Elicitation, params);
    }
}

/// The number that follows `before` on the screen.
fn number_after(screen: &str, before: &str) -> Option<u64> {
    let (_, behind) = screen.split_once(before)?;
    let behind = behind.trim_start();
    behind[..behind.find(|c: char| !c.is_ascii_digit())?].parse().ok()
}

/// The request whose answering screen is shown, with nothing over it.
fn looked_at(driver: &Driver, screen: &str) -> Option<ApprovalId> {
    let shown = driver.app.has_screen() && !screen.contains('╭');
    // The list of the inbox may stand at its left.
    let beside = |line: &str| line.rsplit('│').next().unwrap_or_default().to_owned();
    let answer: Vec<String> = screen.lines().map(beside).collect();
    shown.then(|| number_after(&answer.join("\n"), "Question ")).flatten().map(ApprovalId)
}

/// What a person sees and did, told from the screen alone.
#[derive(Default)]
struct Witness {
    answered: BTreeSet<ApprovalId>,
    over: BTreeSet<ApprovalId>,
    ended: Vec<(ApprovalId, bool)>,
    /// Which request each word was typed for.
    words: BTreeMap<String, ApprovalId>,
    /// The words on the answering screen of each request when it was last looked at.
    written: BTreeMap<ApprovalId, BTreeSet<String>>,
    /// Requests whose drafts must be kept.
    kept: BTreeSet<ApprovalId>,
    looked: Option<ApprovalId>,
    /// The same, also while a list of choices lies over it.
    behind: Option<ApprovalId>,
}

impl Witness {
    fn look(&mut self, driver: &mut Driver) -> String {
        let screen = crate::tui::draw(&mut driver.app, 120, 30);
        self.looked = looked_at(driver, &screen);
        self.behind = self.looked.or(self.behind).filter(|_| driver.app.has_screen());
        if let Some(id) = self.looked {
            let shown = |word: &&String| screen.contains(word.as_str());
            self.written.insert(id, self.words.keys().filter(shown).cloned().collect());
        }
        screen
    }

    /// Judges what the screen wants sent.
    fn judge(&mut self, driver: &mut Driver) -> Result<(), TestCaseError> {
        for effect in std::mem::take(&mut driver.wanted) {
            let (id, answer) = match effect {
                Effect::Order(Order::Answer(id, answer)) => (id, answer),
                // A refusal of all does nothing to those that are over or answered already.
                Effect::Order(Order::Deny(all)) => {
                    self.answered.extend(all.into_iter().map(|(id, _)| id));
                    continue;
                }
                // The same answer for others of the kind, which the user has chosen.
                Effect::Order(Order::AnswerAll(all)) => {
                    for (id, _) in all {
                        prop_assert!(!self.over.contains(&id), "{id} was seen to be over");
                        prop_assert!(self.answered.insert(id), "{id} is answered twice");
                    }
                    continue;
                }
                _ => continue,
            };
            prop_assert!(!self.over.contains(&id), "{id} was seen to be over");
            prop_assert!(self.answered.insert(id), "{id} is answered twice");
            let text = format!("{answer:?}");
            for (word, whose) in &self.words {
                prop_assert!(!text.contains(word) || *whose == id, "{word} went to {id}");
            }
            if text.contains("Result") && !text.contains("decline") {
                prop_assert_eq!(self.behind, Some(id), "accepted without being looked at");
            }
        }
        Ok(())
    }

    fn seen(&mut self, driver: &mut Driver) -> Result<(), TestCaseError> {
        driver.shown();
        for (id, withdrawn) in self.ended.drain(..) {
            self.over.insert(id);
            if withdrawn && self.written.get(&id).is_some_and(|words| !words.is_empty()) {
                self.kept.insert(id);
            }
        }
        let screen = crate::tui::draw(&mut driver.app, 120, 30);
        let top = screen.lines().next().unwrap_or_default();
        let open = driver.view.pending.len() as u64;
        // Something large may lie over it.
        if !top.contains('─') {
            prop_assert_eq!(number_after(top, "✋").unwrap_or(0), open, "{}", screen);
        }
        Ok(())
    }

    /// Every draft that was withdrawn can still be read and copied.
    fn find_kept(&mut self, driver: &mut Driver) -> Result<(), TestCaseError> {
        let listed: BTreeSet<_> = driver.app.model.kept_drafts.iter().map(|(r, _)| r.id).collect();
        let lost: Vec<_> = self.kept.difference(&listed).collect();
        prop_assert!(lost.is_empty(), "drafts of {lost:?} are not listed");
        for (at, request) in driver.app.model.kept_drafts.clone().iter().rev().enumerate() {
            // Kept drafts stand behind everything else.
            driver.keys("6G");
            driver.keys(&"k".repeat(at));
            driver.keys("\r");
            // With room for a whole draft, which may be edited as JSON.
            let screen = crate::tui::draw(&mut driver.app, 120, 60);
            let id = request.0.id;
            prop_assert_eq!(looked_at(driver, &screen), Some(id), "{}", screen);
            driver.keys("\x19");
            let copied = driver.wanted.iter().rev().find_map(|effect| match effect {
                Effect::Copy(text) => Some(text.clone()),
                _ => None,
            });
            for word in self.written.get(&id).into_iter().flatten() {
                // The end of a long draft is below what fits.
                let is_there = screen.contains(word.as_str())
                    || copied.as_ref().is_some_and(|copied| copied.contains(word.as_str()));
                prop_assert!(is_there, "{word} of {id} is lost: {copied:?}\n{screen}");
            }
            driver.keys("\x1b");
        }
        Ok(())
    }

    /// Everything that is open can be answered, each once.
    fn answer_all(&mut self, driver: &mut Driver) -> Result<(), TestCaseError> {
        let open = driver.view.pending.keys().filter(|id| !self.answered.contains(*id)).count();
        for _ in 0..open {
            driver.keys("\x07");
            let screen = self.look(driver);
            let id = self.looked;
            prop_assert!(id.is_some(), "{screen}");
            let before = self.answered.len();
            // The first key may come too soon after the screen appeared; a refusal asks for a reason.
            for key in ["\x18", "\x18", "\x12"] {
                if self.answered.len() == before {
                    driver.keys(key);
                    self.judge(driver)?;
                }
            }
            prop_assert!(id.is_some_and(|id| self.answered.contains(&id)), "no answer:\n{screen}");
        }
        driver.keys("\x07");
        prop_assert!(!driver.app.has_screen(), "more is open than came");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn every_request_is_answered_once_or_over_by_what_was_typed_for_it(ops in ops()) {
        let mut driver = Driver::new();
        let mut witness = Witness::default();
        let mut asked = 100;
        let mut typed = 0;
        for op in ops {
            match op {
                Op::Ask(sampling) => {
                    asked += 1;
                    ask(&mut driver, sampling, asked);
                }
                Op::Keys(keys) => driver.keys(keys),
                Op::Word => {
                    let Some(id) = witness.looked else { continue };
                    typed += 1;
                    let word = format!("w{typed}w");
                    witness.words.insert(word.clone(), id);
                    driver.keys(&word);
                }
                Op::End(which, ours) => {
                    let at = usize::from(which) % driver.view.pending.len().max(1);
                    let Some((id, _)) = driver.view.pending.get_index(at) else { continue };
                    let id = *id;
                    let by = Decider::Person;
                    let ours = ours && witness.answered.contains(&id);
                    let settlement = if ours {
                        Settlement::Answered { by, how: "result".into() }
                    } else {
                        withdrawn("never mind")
                    };
                    driver.settle(id, settlement);
                    witness.ended.push((id, !ours));
                }
                Op::Seen => witness.seen(&mut driver)?,
            }
            witness.judge(&mut driver)?;
            witness.look(&mut driver);
        }
        witness.seen(&mut driver)?;
        driver.keys("\x1b");
        for _ in 0..6 {
            driver.keys("\x1b");
        }
        witness.judge(&mut driver)?;
        witness.find_kept(&mut driver)?;
        witness.answer_all(&mut driver)?;
    }
}
