//! Effects about requests of servers: answered, decided by rules, denied together, given time,
//! drafted, kept, opened.

use super::Runner;
use crate::base::text::SafeText;
use crate::deck::answers::{Answers, ScriptedAnswer};
use crate::deck::browser;
use crate::error::{Error, ErrorCode};
use crate::mcp::{Answer, ApprovalId};
use crate::tui::effect::Effect;
use crate::tui::message::Message;

impl Runner {
    pub(super) fn about_requests(&self, effect: Effect) {
        match effect {
            Effect::Answer(id, answer) => self.ask(|host| host.answer(id, answer)),
            Effect::ApprovalRule(server, kind, rule) => {
                self.ask(|host| host.set_approval_rule(&server, kind, rule));
            }
            Effect::Deny(answers) => self.deny(answers),
            Effect::MoreTime(id, more) => {
                self.ask(|host| host.extend_request(id, more).map(|_| ()));
            }
            Effect::Draft(id, params) => match self.host() {
                Ok(host) => {
                    let messages = self.messages.clone();
                    tokio::spawn(async move {
                        let drafted = host.draft(id, params).await;
                        let _ = messages.send(Message::Drafted(id, drafted)).await;
                    });
                }
                Err(error) => self.tell(Message::Drafted(id, Err(error))),
            },
            Effect::KeepAnswer(answer) => self.keep_answer(*answer),
            Effect::OpenUrl(id, url) => {
                let messages = self.messages.clone();
                tokio::spawn(async move {
                    let opened = browser::open(url).await;
                    let _ = messages.send(Message::Opened(id, opened)).await;
                });
            }
            _ => {}
        }
    }

    fn deny(&self, answers: Vec<(ApprovalId, Answer)>) {
        let host = match self.host() {
            Ok(host) => host,
            Err(error) => return self.tell(Message::Failed(error)),
        };
        let all = answers.len();
        let denied = answers.into_iter().filter(|(id, no)| host.answer(*id, no.clone()).is_ok());
        let text = match denied.count() {
            denied if denied == all => format!("denied {denied}"),
            denied => format!("denied {denied}; {} were no longer open", all - denied),
        };
        self.tell(Message::Done(SafeText::line(&text)));
    }

    fn keep_answer(&self, answer: ScriptedAnswer) {
        let name = answer.name.clone().unwrap_or_default();
        let Some(file) = &self.answers_file else {
            let text = format!("kept {name} until you leave: there is no configuration file");
            return self.tell(Message::Done(SafeText::line(&text)));
        };
        match Answers::put(file, answer) {
            Ok(kept) => {
                self.tell(Message::KeptAnswers(kept));
                let text = format!("kept {name} in {}", file.display());
                self.tell(Message::Done(SafeText::line(&text)));
            }
            Err(problem) => {
                self.tell(Message::Failed(Error::new(ErrorCode::Configuration, problem)));
            }
        }
    }
}
