//! The stack of what is open over the panes, and the calls and answers that are kept after closing.
//! The topmost screen or dialog gets keys, mouse and pasted text, except for a few global keys.

use super::answers::{OpenAnswers, how_many, is_alike, send_next, send_others};
use super::calls::{Calls, called, named, request_of, resource_of, subject_of, subject_of_call};
use crate::approval::answering::AnsweringStage;
use crate::call::export::{Export, ExportOrigin, Start, WrittenCall};
use crate::call::{CallScreen, CallSubject};
use crate::chat::ChatScreen;
use crate::effect::{Effect, Order};
use crate::form::CheckResult;
use crate::form::draw::Styles;
use crate::intent::Intent;
use crate::message::{CallPurpose, FormToken, Message};
use crate::model::{Model, Todo};
use crate::overlay::SignInDialog;
use crate::pane::inbox::deny_all;
use crate::pane::{Out, Redraw, Ui};
use crate::pick::{ApprovalPick, Choice, Pick, SharedMessage};
use crate::prelude::*;
use crate::screen::Screen;
use crate::suites::{NewStep, SuiteCommand};
use deck::SavedCall;
use host::{ApprovalRequest, HostView, RuleKind, Validation};
use protocol::{ApprovalId, ListKind, RequestKind};

/// An open screen. The state of calls, answers and the chat is kept after closing.
pub enum OpenScreen {
    /// A call screen, by its number.
    Call(usize),
    /// An answer to this request.
    Answer(ApprovalId),
    Chat,
    /// Any other screen or dialog, dropped when it is closed.
    Own(Box<dyn Screen>),
}

/// The open screens, and the state kept for closed ones.
#[derive(Default)]
pub struct Screens {
    /// From bottom to top; the last one has the keys.
    stack: Vec<OpenScreen>,
    pub calls: Calls,
    pub answers: OpenAnswers,
    /// The chat, once there is one.
    pub chat: Option<ChatScreen>,
    /// Where the servers come from, for copied command lines.
    origin: ExportOrigin,
}

impl OpenScreen {
    fn is_dialog(&self) -> bool {
        matches!(self, Self::Own(screen) if screen.frame(Rect::default()).is_some())
    }
}

impl Screens {
    /// Creates the stack without any open screen.
    pub fn new(calls: Calls, origin: ExportOrigin) -> Self {
        Self { calls, origin, ..Self::default() }
    }

    /// What is open on top.
    pub fn open(&self) -> Option<&OpenScreen> {
        self.stack.last()
    }

    /// The screen that has the keys, when one is open.
    pub fn top(&self) -> Option<&dyn Screen> {
        self.screen(self.stack.last()?)
    }

    /// Like [`Screens::top`], mutable.
    pub fn top_mut(&mut self) -> Option<&mut dyn Screen> {
        self.screen_mut(self.stack.len().checked_sub(1)?)
    }

    fn screen<'a>(&'a self, open: &'a OpenScreen) -> Option<&'a dyn Screen> {
        Some(match open {
            OpenScreen::Call(number) => self.calls.screens.get(*number)?,
            OpenScreen::Answer(id) => self.answers.screens.get(id)?,
            OpenScreen::Chat => self.chat.as_ref()?,
            OpenScreen::Own(screen) => &**screen,
        })
    }

    fn screen_mut(&mut self, at: usize) -> Option<&mut dyn Screen> {
        Some(match self.stack.get_mut(at)? {
            OpenScreen::Call(number) => self.calls.screens.get_mut(*number)?,
            OpenScreen::Answer(id) => self.answers.screens.get_mut(id)?,
            OpenScreen::Chat => self.chat.as_mut()?,
            OpenScreen::Own(screen) => &mut **screen,
        })
    }

    /// Where the dialogs over the topmost other screen begin in the stack.
    fn dialogs(&self) -> usize {
        self.stack.iter().rposition(|open| !open.is_dialog()).map_or(0, |at| at + 1)
    }

    /// What is visible: the topmost screen that is no dialog, and the dialogs over it.
    pub fn visible(&self) -> impl Iterator<Item = &dyn Screen> {
        let first = self.dialogs().saturating_sub(1);
        self.stack[first..].iter().filter_map(|open| self.screen(open))
    }

    /// The screen below the tabs that is visible.
    pub fn filling(&self) -> Option<&dyn Screen> {
        self.screen(&self.stack[self.dialogs().checked_sub(1)?])
    }

    /// Whether the screen below the tabs that is visible is that of a call.
    pub fn is_call(&self) -> bool {
        let filling = self.dialogs().checked_sub(1).and_then(|at| self.stack.get(at));
        matches!(filling, Some(OpenScreen::Call(_)))
    }

    /// Whether it is that of an answer.
    pub fn is_answer(&self) -> bool {
        let filling = self.dialogs().checked_sub(1).and_then(|at| self.stack.get(at));
        matches!(filling, Some(OpenScreen::Answer(_)))
    }

    /// Brings what is visible up to date before a frame; `ui.area` is the room for a screen below
    /// the tabs.
    pub fn prepare(&mut self, ui: Ui<'_>, whole: Rect) {
        for at in self.dialogs().saturating_sub(1)..self.stack.len() {
            let area = if self.stack[at].is_dialog() { whole } else { ui.area };
            let cx = ui.cx.with_focus(at + 1 == self.stack.len());
            if let Some(screen) = self.screen_mut(at) {
                screen.prepare(Ui { cx, area });
            }
        }
    }

    /// The number of the open call screen, even if it is not the topmost one.
    pub fn open_call(&self) -> Option<usize> {
        self.stack.iter().rev().find_map(|open| {
            let OpenScreen::Call(number) = open else { return None };
            Some(*number)
        })
    }

    /// The open call screen, even if it is not the topmost one.
    pub fn call_screen(&mut self) -> Option<&mut CallScreen> {
        let number = self.open_call()?;
        self.calls.screens.get_mut(number)
    }

    /// The server of the open call screen.
    pub fn open_server(&self) -> Option<ServerName> {
        Some(self.calls.screens.get(self.open_call()?)?.subject.server.clone())
    }

    /// The request whose answer is open.
    pub fn open_request(&self) -> Option<ApprovalId> {
        self.stack.iter().rev().find_map(|open| {
            let OpenScreen::Answer(id) = open else { return None };
            Some(*id)
        })
    }

    /// Opens a screen over the others, but below dialogs that ask for something. At most one call,
    /// one answer and one chat are open.
    pub fn push(&mut self, open: OpenScreen, out: &mut Out) {
        out.mark(Redraw::Now);
        if open.is_dialog() {
            return self.stack.push(open);
        }
        out.opened = true;
        self.retain(|screen| !screen.is_passing());
        let kind = std::mem::discriminant(&open);
        if !matches!(open, OpenScreen::Own(_)) {
            self.stack.retain(|other| std::mem::discriminant(other) != kind);
        }
        self.stack.insert(self.dialogs(), open);
    }

    /// Closes the topmost screen.
    pub fn pop(&mut self) {
        self.stack.pop();
    }

    /// Closes all dialogs.
    pub fn close_dialogs(&mut self) {
        self.stack.retain(|open| !open.is_dialog());
    }

    /// Closes the screens that are not to be kept.
    fn retain(&mut self, keep: impl Fn(&dyn Screen) -> bool) {
        let stack = std::mem::take(&mut self.stack).into_iter();
        self.stack = stack.filter(|open| self.screen(open).is_some_and(&keep)).collect();
    }

    /// Whether an open screen shows this item of the inbox.
    pub fn has_open(&self, todo: &Todo) -> bool {
        self.stack.iter().filter_map(|open| self.screen(open)).any(|screen| screen.shows(todo))
    }

    /// Closes the screens that show this request.
    fn close_request(&mut self, id: ApprovalId) {
        self.retain(|screen| !screen.shows(&Todo::Request(id)));
    }

    /// Has the open screens follow the model; those without a reason to be shown are closed. Returns
    /// whether the topmost was one of them and had text that was typed.
    pub fn follow(&mut self, model: &Model) -> bool {
        let mut lost_line = false;
        let top = self.stack.len().saturating_sub(1);
        for at in (0..self.stack.len()).rev() {
            let screen = self.screen_mut(at);
            let (stays, typed) = match screen {
                Some(screen) => {
                    let has_text = screen.line().is_some_and(|line| !line.text().is_empty());
                    (screen.follow(model), has_text)
                }
                None => (false, false),
            };
            if !stays {
                self.stack.remove(at);
                lost_line |= at == top && typed;
            }
        }
        lost_line
    }

    /// Closes the screen of a sent answer; its state is kept until the engine confirms it.
    pub fn answer_sent(&mut self, id: ApprovalId, view: &HostView) {
        if view.pending.contains_key(&id)
            && let Some(answering) = self.answers.show(id, view)
        {
            answering.stage = AnsweringStage::Sent;
        }
        self.close_request(id);
    }

    /// Updates answers from the state of their requests.
    pub fn follow_answers(&mut self, view: &HostView, model: &mut Model, out: &mut Out) {
        let open = self.open_request();
        for id in self.answers.follow(view, open, out) {
            self.close_request(id);
        }
        model.kept_drafts = self.answers.forget_empty(self.open_request());
    }

    /// Handles a finished form check. An action that waited for it runs only if its screen is open.
    fn checked(&mut self, token: FormToken, found: CheckResult, out: &mut Out) {
        let (call, request) = (self.open_call(), self.open_request());
        match token {
            FormToken::Answer(id) => {
                let Some(answering) = self.answers.screens.get_mut(&id) else { return };
                answering.checked(found, request == Some(id), out);
            }
            FormToken::Call(index) => {
                let Some(screen) = self.calls.screens.get_mut(index) else { return };
                screen.checked(found, call == Some(index), out);
            }
        }
    }

    /// Handles messages for calls, answers and open forms.
    /// `visible` is the call on the screen.
    pub fn take(
        &mut self,
        message: Message,
        visible: Option<usize>,
        model: &mut Model,
        out: &mut Out,
    ) {
        out.mark(Redraw::Soon);
        match message {
            Message::CallBegan(token, id) => _ = self.calls.ids.insert(token, id),
            Message::CallEnded(token, result) => {
                if let Some(id) = self.calls.ids.remove(&token) {
                    model.call_ended(id);
                }
                self.calls.ended(token, *result, model.now, visible, out);
            }
            Message::CallProgress(token, progress) => {
                self.calls.ids.insert(token, progress.call);
                let screen = self.calls.screens.get_mut(token.screen);
                if let (Some(screen), CallPurpose::Run(run)) = (screen, token.what) {
                    screen.progress(run, progress, model.now);
                }
            }
            Message::PictureDone(token, done) => {
                if let Some(view) = self.calls.view_of(token) {
                    view.picture_done(*done);
                } else {
                    _ = self.receive(&Message::PictureDone(token, done), out);
                }
            }
            Message::Checked(token, found) => self.checked(token, *found, out),
            Message::FileRead(FormToken::Call(index), Err(reason)) => {
                if let Some(screen) = self.calls.screens.get_mut(index) {
                    screen.file_unread(reason, out);
                }
            }
            Message::Edited(_, Err(reason)) | Message::FileRead(_, Err(reason)) => {
                out.warn(Ink::from(&reason));
            }
            Message::Edited(FormToken::Answer(id), Ok(text)) => {
                if let Some(answering) = self.answers.screens.get_mut(&id) {
                    answering.replace_text(text.trim_end_matches('\n'));
                }
            }
            Message::Edited(FormToken::Call(index), Ok(text)) => {
                if let Some(screen) = self.calls.screens.get_mut(index) {
                    screen.edited(&text);
                }
            }
            Message::FileRead(FormToken::Call(index), Ok(bytes)) => {
                if let Some(screen) = self.calls.screens.get_mut(index) {
                    screen.file_read(&bytes, out);
                }
            }
            Message::Drafted(id, drafted) => {
                if let Some(answering) = self.answers.screens.get_mut(&id) {
                    let drafted = drafted.map(|drafted| (drafted.by, drafted.result));
                    answering.drafted(drafted.map_err(|error| SafeText::line(&error.message)));
                }
            }
            Message::Opened(id, opened) => self.answers.opened(id, opened, out),
            message @ Message::Baseline(..) => _ = self.receive(&message, out),
            // The dashboard itself takes these.
            Message::FileRead(FormToken::Answer(_), Ok(_))
            | Message::Now(_)
            | Message::Played(_)
            | Message::Recording(_)
            | Message::Input(_)
            | Message::Resize(..)
            | Message::EngineReady
            | Message::EngineFailed(_)
            | Message::News(_)
            | Message::Found(_)
            | Message::ServerFound(_)
            | Message::ServerTried(_)
            | Message::CacheContent(..)
            | Message::Suites(_)
            | Message::Deck(_)
            | Message::Done(_)
            | Message::Warned(_)
            | Message::Output(..)
            | Message::Failed(_)
            | Message::Chat(_)
            | Message::Drafter(_)
            | Message::KeptAnswers(_)
            | Message::KeptAnswer(_)
            | Message::SavedCalls(_)
            | Message::NameTaken(..)
            | Message::NotDone(_)
            | Message::FileEdited
            | Message::FileExists(..)
            | Message::NotWritten(..)
            | Message::Terminal(_)
            | Message::UserFiles(_)
            | Message::Terminate
            | Message::WorkerPanicked(_) => {}
        }
    }

    /// Closes all screens except those with unsaved content.
    pub fn leave(&mut self) {
        let unsaved =
            |open: &OpenScreen| matches!(open, OpenScreen::Own(own) if own.unsaved().is_some());
        self.stack.retain(unsaved);
    }

    /// Unsaved content that would be lost by quitting now.
    pub fn unsaved(&self) -> impl Iterator<Item = &'static str> {
        let own = self.stack.iter().filter_map(|open| match open {
            OpenScreen::Own(screen) => screen.unsaved(),
            OpenScreen::Call(_) | OpenScreen::Answer(_) | OpenScreen::Chat => None,
        });
        // The model goes on answering while the chat is closed.
        own.chain(self.chat.iter().filter_map(Screen::unsaved))
    }

    /// Lets the uppermost screen ask for work on other threads.
    pub fn work(&mut self, look: &Styles, area: Option<Rect>, out: &mut Out) {
        if let (Some(OpenScreen::Own(screen)), Some(area)) = (self.stack.last_mut(), area) {
            screen.work(look, area, out);
        }
    }

    /// Passes a message to the open screens; returns whether one of them was waiting for it.
    pub fn receive(&mut self, message: &Message, out: &mut Out) -> bool {
        for at in 0..self.stack.len() {
            let OpenScreen::Own(screen) = &mut self.stack[at] else { continue };
            if screen.receive(message, out) {
                if out.intents.contains(&Intent::Close) {
                    self.stack.remove(at);
                    out.intents.retain(|intent| *intent != Intent::Close);
                }
                out.mark(Redraw::Now);
                return true;
            }
        }
        false
    }

    // Calls: opening, filling in, reading, making.

    /// Opens the screen of a subject. Command lines copied there name the configuration files.
    fn show_call(&mut self, subject: CallSubject, model: &Model, out: &mut Out) -> &mut CallScreen {
        let number = self.calls.show(subject, model.now);
        self.push(OpenScreen::Call(number), out);
        let origin = self.origin_now(model);
        let screen = &mut self.calls.screens[number];
        screen.origin = origin;
        screen
    }

    /// Where the servers come from now.
    fn origin_now(&self, model: &Model) -> ExportOrigin {
        let mut origin = self.origin.clone();
        if let Start::Files(named) = &mut origin.start {
            *named = model.files.iter().map(|file| file.path.clone()).collect();
        }
        origin
    }

    /// The forms in which a message is handed on: as it is, as a call in several languages, and with
    /// all that are listed.
    pub fn share_choices(&self, message: SharedMessage, model: &Model) -> Vec<Choice> {
        let origin = self.origin_now(model);
        let SharedMessage { server, body, request, all } = message;
        let mut out = vec![Choice::new(ink!("the message"), ink!(""), Pick::CopyText(body))];
        let view = model.server(&server);
        let called = request.as_ref().zip(view).and_then(|(request, view)| called(view, request));
        if let Some((subject, arguments)) = called {
            let uri = subject.expanded(&arguments).unwrap_or_default();
            let written = WrittenCall {
                subject: &subject,
                uri: &uri,
                arguments: &arguments,
                validation: Validation::Enforce,
                origin: &origin,
            };
            for way in Export::ALL.into_iter().filter(|way| way.fits(&subject)) {
                let text = Pick::CopyText(way.text(&written));
                out.push(Choice::new(ink!("{}", way.name()), ink!("the call"), text));
            }
        }
        let lists = [
            ("JSON lines", "copied", Action::CopyAll),
            ("JSON lines", "written to a file", Action::Save),
            ("HTML page", "written to a file", Action::Page),
        ];
        out.extend(lists.into_iter().map(|(form, how, action)| {
            Choice::new(ink!("{} with {}", form, &all), ink!("{}", how), Pick::Action(action))
        }));
        out
    }

    /// Opens an entry of a server's list, or a resource that is not listed. Resources and prompts
    /// without arguments are read at once.
    pub fn open_entry(
        &mut self,
        server: &ServerName,
        list: ListKind,
        wire: &str,
        model: &Model,
        out: &mut Out,
    ) {
        let Some(view) = model.server(server) else { return };
        let unlisted = || (list == ListKind::Resources).then(|| resource_of(view, wire));
        if let Some(subject) = subject_of(view, list, wire).or_else(unlisted) {
            self.show_call(subject, model, out).read_if_new(out);
        }
    }

    /// Opens the form of a JSON-RPC request to a server; sends `request` if one is given.
    pub fn send_request(
        &mut self,
        server: &ServerName,
        request: Option<Value>,
        model: &Model,
        out: &mut Out,
    ) {
        let Some(view) = model.server(server) else { return };
        let screen = self.show_call(request_of(view), model, out);
        if let Some(request) = request {
            screen.take_past(request);
            screen.apply(Action::Send, out);
        }
    }

    /// Opens a saved call, filled in, if a server offers its subject. With `makes`, also sends it
    /// as if the user had.
    pub fn open_saved(&mut self, name: &str, makes: bool, model: &Model, out: &mut Out) {
        let Some((call, subject)) = self.calls.saved(name, &model.view) else { return };
        let Some(subject) = subject else {
            return out.warn(ink!("no server offers what {} calls", Ink::line(name)));
        };
        let screen = self.show_call(subject, model, out);
        screen.take_up(&call);
        if makes {
            screen.make(&call, out);
        }
    }

    /// Opens the form of a call, filled in, if a server offers what it calls.
    pub fn fill_call(&mut self, call: &SavedCall, model: &Model, out: &mut Out) {
        match subject_of_call(call, &model.view) {
            Some(subject) => self.show_call(subject, model, out).take_up(call),
            None => out.warn(ink!("no server offers what this step calls")),
        }
    }

    /// The past calls of the open form, as steps of a suite.
    pub fn add_history(&self, out: &mut Out) {
        let open = self.open_call().and_then(|number| self.calls.screens.get(number));
        let Some(screen) = open else { return };
        let past = self.calls.history.calls_of(&screen.subject.key());
        let steps: Vec<NewStep> = past.iter().rev().filter_map(|it| screen.past_step(it)).collect();
        if steps.is_empty() {
            return out.say(ink!("No calls yet"));
        }
        out.intend(Intent::Suites(SuiteCommand::Add(steps)));
    }

    /// Opens a list of past calls; those of the open call screen come first.
    pub fn choose_history(&mut self, model: &Model, out: &mut Out) {
        let first = self.call_screen().map(|screen| screen.subject.key());
        match self.calls.past(first.as_deref(), model) {
            none if none.is_empty() => out.say(ink!("No calls yet")),
            choices => out.choose(ink!("call history"), choices),
        }
    }

    /// Loads the arguments of a past call into its form.
    pub fn open_past(&mut self, target: &str, id: u64, model: &Model, out: &mut Out) {
        let entry =
            self.calls.history.calls_of(target).iter().find(|entry| entry.id == id).cloned();
        let mut views = model.view.servers.iter();
        let subject = views.find_map(|(server, view)| named(server, view, target));
        let (Some(entry), Some(subject)) = (entry, subject) else {
            return out.warn(ink!("no server offers {} now", Ink::line(target)));
        };
        self.show_call(subject, model, out).take_past(entry.arguments);
    }

    // Answers.

    /// Opens the answer screen of a request, or the sign-in dialog.
    pub fn open_answer(&mut self, id: ApprovalId, model: &Model, out: &mut Out) {
        let request = model.view.pending.get(&id);
        if let Some(request) = request.filter(|request| request.kind == RequestKind::SignIn) {
            let dialog = SignInDialog::new(Arc::clone(request));
            out.open(dialog);
        } else if self.answers.show(id, &model.view).is_some() {
            self.push(OpenScreen::Answer(id), out);
        } else {
            out.warn(ink!("the request is no longer open"));
        }
    }

    /// Handles actions on the open request beyond editing its answer; returns whether this is one.
    pub fn request_action(
        &mut self,
        id: ApprovalId,
        action: Action,
        model: &Model,
        out: &mut Out,
    ) -> bool {
        let Some(request) = self.answers.screens.get(&id).map(|one| Arc::clone(&one.request))
        else {
            return false;
        };
        let pending = &model.view.pending;
        let choose = |title, choices: Vec<Choice>, none: &'static str, out: &mut Out| {
            if choices.is_empty() {
                out.warn(ink!("{}", none));
            } else {
                out.choose(title, choices);
            }
        };
        if action == Action::Templates {
            let none = "nothing is kept for this kind of request";
            choose(ink!("start from"), self.answers.templates(id, model), none, out);
        } else if action == Action::UseTool {
            let none = "the request offers no tools";
            choose(ink!("call a tool"), self.answers.tools(id), none, out);
        } else if action == Action::SendAlways {
            let server = Ink::line(request.server.as_str());
            let title = ink!("answer more requests of {} like this one?", server);
            let others = pending.values().filter(|other| is_alike(&request, other));
            let others = others.filter(|other| !self.answers.is_sent(other.id)).count();
            let covered = RuleKind::from_request_kind(&request.kind).is_some();
            let choices = if covered { how_many(others) } else { Vec::new() };
            choose(title, choices, "no rule covers this kind of request", out);
        } else if action == Action::DenyAll {
            deny_all(&request.server, None, model, out);
        } else if action == Action::NextRequest {
            let after = pending.get_index_of(&id).map_or(0, |at| at + 1);
            let mut around = pending.keys().cycle().skip(after).take(pending.len()).copied();
            match around.find(|other| *other != id && !self.answers.is_sent(*other)) {
                Some(next) => self.open_answer(next, model, out),
                None => out.say(ink!("no other request is waiting")),
            }
        } else if action == Action::Draft {
            self.answers.ask_for_draft(id, model, out);
        } else {
            return false;
        }
        out.mark(Redraw::Now);
        true
    }

    /// Applies a choice about requests.
    pub fn approval_pick(&mut self, pick: ApprovalPick, model: &Model, out: &mut Out) {
        let open = self.open_request();
        let answering = open.and_then(|id| self.answers.screens.get_mut(&id));
        match (pick, answering) {
            (ApprovalPick::Take(result), Some(answering)) => answering.take_result(&result),
            (ApprovalPick::Tool(index), Some(answering)) => answering.begin_tool(index),
            (ApprovalPick::SendNext(left), Some(answering)) => send_next(answering, left, out),
            (ApprovalPick::SendOthers, Some(answering)) => {
                let alike = |other: &&Arc<ApprovalRequest>| is_alike(&answering.request, other);
                let others = model.view.pending.values().filter(alike).map(|other| other.id);
                send_others(others.collect(), answering, out);
            }
            (ApprovalPick::Rules(server, kind), _) => {
                let choices = self.answers.rules(&server, kind, model);
                let name = Ink::line(server.as_str());
                out.choose(ink!("{} of {}:", kind.method(), name), choices);
            }
            (ApprovalPick::Rule(server, kind, rule), _) => {
                let name = Ink::line(server.as_str());
                out.say(ink!("rule changed: {} of {}", kind.method(), name));
                out.effect(Effect::Order(Order::ApprovalRule(server, kind, rule)));
            }
            // The dashboard opens the roots; the others are for an answer that is open.
            (ApprovalPick::Roots(_), _)
            | (
                ApprovalPick::Take(_)
                | ApprovalPick::Tool(_)
                | ApprovalPick::SendNext(_)
                | ApprovalPick::SendOthers,
                None,
            ) => {}
        }
    }
}
