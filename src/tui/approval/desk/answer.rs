//! From the draft to the answer: checked, confirmed where it opens something, refused once nothing
//! may be sent any more.

use serde_json::{Value, json};

use super::check::Awaits;
use super::{AnswerDesk, Draft, Part, Says};
use crate::base::text::SafeText;
use crate::deck::answers::{Reply, ScriptedAnswer};
use crate::error::Violation;
use crate::host::Verdict;
use crate::mcp::Answer;
use crate::tui::action::Action;
use crate::tui::approval::completion::SamplingDraft;
use crate::tui::approval::elicitation::{Asks, ElicitAction, ElicitationReading};
use crate::tui::approval::media::{Media, media};
use crate::tui::effect::Effect;
use crate::tui::form::FormState;
use crate::tui::pane::Out;
use crate::tui::pane::catalog::file_name;

/// JSON-RPC error code the specification shows for a person who says no to sampling.
const REJECTED: i64 = -1;

impl AnswerDesk {
    pub(super) fn send(&mut self) -> Option<Effect> {
        if self.waits_for_check(Awaits::Send) {
            return None;
        }
        match self.answer() {
            Ok(answer) => match self.url() {
                None if self.armed => {
                    self.armed = false;
                    Some(self.sends(answer))
                }
                None => match self.doubt() {
                    None => Some(self.sends(answer)),
                    Some(doubt) => {
                        self.armed = true;
                        let text = format!("{doubt}; {{send}} again to accept it all the same");
                        self.notice = Some(SafeText::line(&text));
                        None
                    }
                },
                Some(_) if self.by_hand => Some(self.sends(answer)),
                Some(url) if self.armed => {
                    self.armed = false;
                    Some(Effect::OpenUrl(self.id(), url))
                }
                Some(url) => {
                    self.armed = true;
                    let host = url.host_str().unwrap_or_default();
                    self.notice = Some(SafeText::line(&format!(
                        "{{send}} again to open {host} in the browser"
                    )));
                    None
                }
            },
            Err(reason) => {
                self.notice = Some(SafeText::line(&reason));
                None
            }
        }
    }

    /// What is probably wrong with a form that may still go out: a server can be tested with it.
    fn doubt(&mut self) -> Option<String> {
        let Draft::Form(form) = &mut self.draft else { return None };
        let problem = form.problems().first()?;
        let name = problem.pointer.trim_start_matches('/').to_owned();
        let text = problem.message.to_string();
        if problem.row.is_some() {
            form.apply(Action::NextProblem);
        }
        Some(if name.is_empty() { text } else { format!("{name}: {text}") })
    }

    fn url(&self) -> Option<url::Url> {
        match &self.says {
            Says::Elicitation(ElicitationReading { asks: Asks::Url(reading), .. }) => {
                reading.open.as_deref().and_then(|open| url::Url::parse(open).ok())
            }
            _ => None,
        }
    }

    /// The address as the server wrote it, to be copied.
    pub(super) fn address(&self) -> Option<String> {
        self.url().map(Into::into)
    }

    /// The answer as it would go out, or what is missing.
    pub(super) fn answer(&mut self) -> Result<Answer, String> {
        match (&mut self.draft, &self.says) {
            (Draft::Text(composer), _) => {
                let result = composer.draft().result();
                result.map(Answer::Result).map_err(|problems| told(&problems))
            }
            (Draft::Raw(text), Says::Sampling(_)) => {
                let raw =
                    SamplingDraft { raw: Some(text.lines().join("\n")), ..Default::default() };
                raw.result().map(Answer::Result).map_err(|problems| told(&problems))
            }
            (Draft::Raw(text), says) => {
                let value: Value = serde_json::from_str(&text.lines().join("\n"))
                    .map_err(|error| format!("not JSON: {error}"))?;
                if !value.is_object() {
                    return Err("not an object: it begins with { and ends with }".to_owned());
                }
                Ok(Answer::Result(match says {
                    Says::Elicitation(_) => ElicitAction::Accept.result(Some(value)),
                    _ => value,
                }))
            }
            (Draft::Form(form), _) if wrong(form) > 0 => {
                form.go_to_gravest();
                Err(match wrong(form) {
                    1 => "1 invalid field".to_owned(),
                    count => format!("{count} invalid fields"),
                })
            }
            (Draft::Form(form), _) => {
                Ok(Answer::Result(ElicitAction::Accept.result(Some(form.arguments()))))
            }
            (Draft::Consent, Says::Elicitation(reading)) => match &reading.asks {
                Asks::Url(url) if url.open.is_some() => {
                    Ok(Answer::Result(ElicitAction::Accept.result(None)))
                }
                Asks::Url(url) => Err(format!("not opened: {}", url.refusals.join("; "))),
                Asks::Form(_) => Err("nothing to send".to_owned()),
            },
            (Draft::Consent, _) => Ok(Answer::Result(json!({"action": "accept"}))),
        }
    }

    pub(super) fn deny(&mut self) -> Option<Effect> {
        if matches!(self.says, Says::Elicitation(_)) {
            return Some(self.sends(Answer::Result(ElicitAction::Decline.result(None))));
        }
        if self.part != Part::Reason {
            self.part = Part::Reason;
            self.notice = Some(SafeText::line("say why, or send an empty reason"));
            return None;
        }
        let message = match self.reason.text().trim() {
            "" => "the user declined".to_owned(),
            reason => reason.to_owned(),
        };
        Some(self.sends(Answer::Refuse { code: REJECTED, message }))
    }

    /// Asks for the name under which the answer is to be kept.
    pub fn ask_for_name(&mut self) {
        self.armed = false;
        if self.waits_for_check(Awaits::Name) {
            return;
        }
        match self.answer() {
            Ok(_) if matches!(self.draft, Draft::Consent) => {
                self.notice = Some(SafeText::line("there is nothing to keep"));
            }
            Ok(_) => {
                self.part = Part::Name;
                self.notice = Some(SafeText::line("name it; {send} or enter keeps it"));
            }
            Err(reason) => self.notice = Some(SafeText::line(&reason)),
        }
    }

    pub(super) fn keep(&mut self) -> Option<Effect> {
        let name = self.name.text().trim().to_owned();
        if name.is_empty() {
            self.notice = Some(SafeText::line("it needs a name"));
            return None;
        }
        if self.waits_for_check(Awaits::Keep) {
            return None;
        }
        match self.answer() {
            Ok(answer) => {
                self.part = Part::Answer;
                self.notice = None;
                Some(self.keeps(name, answer))
            }
            Err(reason) => {
                self.notice = Some(SafeText::line(&reason));
                None
            }
        }
    }

    /// The answer as it is kept under a name.
    fn keeps(&self, name: String, answer: Answer) -> Effect {
        let reply = match answer {
            Answer::Result(result) => Reply::Result(result),
            Answer::Refuse { message, .. } => Reply::Refuse(message),
        };
        Effect::KeepAnswer(Box::new(ScriptedAnswer {
            name: Some(name),
            server: Some(self.request.server.as_str().to_owned()),
            kind: super::asked_kind(&self.request.kind),
            matches: None,
            times: None,
            reply,
        }))
    }

    /// Writes the pictures and sounds of the request to files.
    pub(super) fn save_media(&mut self, out: &mut Out) {
        let found = media(&self.request.params);
        if found.is_empty() {
            self.notice = Some(SafeText::line("it brings no picture and no sound"));
        }
        let server = file_name(&SafeText::line(self.request.server.as_str()));
        for (at, Media { suffix, content }) in found.into_iter().enumerate() {
            match content {
                Ok(content) => {
                    let name = format!("{server}-{}-{}.{suffix}", self.id().0, at + 1);
                    out.effect(Effect::Save { name: name.into(), content });
                }
                Err(reason) => {
                    let notice = format!("number {} was not written: {reason}", at + 1);
                    self.notice = Some(SafeText::line(&notice));
                }
            }
        }
    }
}

/// Problems that keep a form from being accepted. A schema that cannot be used is not the person's
/// fault: nothing could ever be answered.
pub(super) fn wrong(form: &FormState) -> usize {
    let unknown = matches!(form.verdict(), Verdict::Unknown(_));
    form.blocking().saturating_sub(usize::from(unknown))
}

fn told(problems: &[Violation]) -> String {
    let one = |problem: &Violation| match problem.pointer.as_str() {
        "" => problem.message.clone(),
        pointer => format!("{pointer}: {}", problem.message),
    };
    problems.iter().map(one).collect::<Vec<_>>().join("; ")
}
