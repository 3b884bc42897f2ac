//! What can be called by its name: saved calls, and whatever the servers offer. Opens their screens.

use std::time::Duration;

use super::subject_of;
use crate::base::ServerName;
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::deck::saved::{SavedCall, SavedTarget};
use crate::host::{ServerState, ServerView};
use crate::mcp::capabilities::ListKind;
use crate::tui::app::{App, Redraw};
use crate::tui::call::Subject;
use crate::tui::effect::Effect;
use crate::tui::ink::{Dur, Ink, ink};
use crate::tui::model::Model;
use crate::tui::overlay::{Choice, Pick};
use crate::tui::theme::Role;

/// Most calls of the past that are listed.
const PAST: usize = 500;

impl App {
    /// Opens the call screen of an entry of a server.
    pub(in crate::tui::app) fn open_call(
        &mut self,
        server: &ServerName,
        list: ListKind,
        wire: &str,
    ) {
        let Some(view) = self.model.server(server) else { return };
        let Some(subject) = subject_of(view, list, wire) else { return };
        self.show_call(subject);
        self.mark(Redraw::Now);
    }

    /// Opens a saved call, filled in; gives it, when there is one and a server offers what it calls.
    pub(in crate::tui::app) fn open_saved_call(&mut self, name: &str) -> Option<SavedCall> {
        let call = self.calls.saved.get(name).ok()?.clone();
        let found = self.model.view.servers.iter().find_map(|(server, view)| {
            let subject = |list, wire: &str| subject_of(view, list, wire);
            match &call.target {
                SavedTarget::Tool { tool } => {
                    subject(ListKind::Tools, tool.strip_prefix(server.as_str())?.get(1..)?)
                }
                SavedTarget::Prompt { prompt } => {
                    subject(ListKind::Prompts, prompt.strip_prefix(server.as_str())?.get(1..)?)
                }
                SavedTarget::Resource { resource, server: wanted } => wanted
                    .as_deref()
                    .is_none_or(|wanted| wanted == server.as_str())
                    .then(|| Subject { limits: view.limits, ..Subject::uri(server, resource) }),
            }
        });
        let Some(subject) = found else {
            let words = ink!("no server offers what {} calls", Ink::line(name));
            self.toast(words, Role::Warning);
            return None;
        };
        self.show_call(subject);
        if let Some(screen) = self.call_screen() {
            screen.take_up(&call);
        }
        self.mark(Redraw::Now);
        Some(call)
    }

    /// The calls of the past, to be taken into their forms; those of the open call screen first.
    pub(in crate::tui::app) fn choose_history(&mut self) {
        let open = self.call_screen().map(|screen| screen.subject.key());
        let mut all = self.calls.history.all();
        all.sort_by_key(|(target, _)| open.as_deref() != Some(*target));
        let choices = all.into_iter().take(PAST).map(|(target, entry)| {
            let at = Timestamp(entry.at);
            let how = match &entry.outcome {
                Some((word, millis)) => {
                    ink!("{} {}", Ink::line(word), Dur(Duration::from_millis(*millis)))
                }
                None => ink!("outcome unknown"),
            };
            let arguments = Ink::line(&cut(&entry.arguments.to_string()));
            Choice {
                words: ink!("{} {}", Ink::line(target), arguments),
                hint: ink!("{}, {}", how, self.model.when(at)),
                pick: Pick::Past(target.to_owned(), entry.id),
                disabled: None,
            }
        });
        let choices: Vec<Choice> = choices.collect();
        if choices.is_empty() {
            return self.toast(ink!("nothing was called yet"), Role::Ok);
        }
        self.choose(ink!("call history"), choices);
    }

    /// Takes the arguments of a call of the past into its form.
    pub(in crate::tui::app) fn open_past(&mut self, target: &str, id: u64) {
        let entry = self.calls.history.of(target).iter().find(|entry| entry.id == id).cloned();
        let mut views = self.model.view.servers.iter();
        let subject = views.find_map(|(server, view)| named(server, view, target));
        let (Some(entry), Some(subject)) = (entry, subject) else {
            let words = ink!("no server offers {} now", Ink::line(target));
            return self.toast(words, Role::Warning);
        };
        self.show_call(subject);
        if let Some(screen) = self.call_screen() {
            screen.take_past(entry.arguments);
        }
        self.mark(Redraw::Now);
    }

    /// Makes a saved call, as if it had been opened and sent.
    pub(in crate::tui::app) fn make_saved_call(&mut self, name: &str, effects: &mut Vec<Effect>) {
        let Some(call) = self.open_saved_call(name) else { return };
        let Some(screen) = self.call_screen() else { return };
        let wanted = screen.make(&call);
        self.wanted(wanted, effects);
    }

    /// The saved calls, to be made or opened.
    pub(in crate::tui::app) fn call_choices(&self) -> impl Iterator<Item = Choice> {
        self.calls.saved.calls.keys().flat_map(|name| {
            let choice =
                |words, pick| Choice { words, hint: ink!("saved call"), pick, disabled: None };
            let shown = Ink::line(name);
            [
                choice(ink!("Make the saved call {}", &shown), Pick::MakeCall(name.clone())),
                choice(ink!("Open the saved call {}", &shown), Pick::SavedCall(name.clone())),
            ]
        })
    }

    /// Whatever the servers offer, to be filled in and called.
    pub(in crate::tui::app) fn offer_choices(&self) -> impl Iterator<Item = Choice> {
        self.model.servers().flat_map(|server| {
            let all = &server.capabilities;
            let disabled =
                (server.state != ServerState::Ready).then(|| ink!("{}", server.state.as_str()));
            let name = Model::name(&server.name);
            let choice = move |verb: &'static str, label: &SafeText, list, wire: &_| Choice {
                words: ink!("{} {}.{}", verb, &name, label),
                hint: ink!("{}", kind(list)),
                pick: Pick::Offer(server.name.clone(), list, std::sync::Arc::clone(wire)),
                disabled: disabled.clone(),
            };
            let tools = all.tools.iter().map(|t| ("Call", &t.label, ListKind::Tools, &t.name));
            let prompts = all.prompts.iter().map(|p| ("Get", &p.label, ListKind::Prompts, &p.name));
            let resources =
                all.resources.iter().map(|r| ("Read", &r.label, ListKind::Resources, &r.uri));
            let templates = all.templates.iter();
            let templates =
                templates.map(|t| ("Read", &t.label, ListKind::ResourceTemplates, &t.uri_template));
            let offers = tools.chain(prompts).chain(resources).chain(templates);
            offers.map(move |(verb, label, list, wire)| choice(verb, label, list, wire))
        })
    }
}

/// What of a server a target of the history names ([`Subject::key`]).
fn named(server: &ServerName, view: &ServerView, target: &str) -> Option<Subject> {
    let of = |list, wire: &str| subject_of(view, list, wire);
    if let Some(uri) = target.strip_prefix("uri:") {
        let uri = uri.strip_prefix(server.as_str())?.strip_prefix(':')?;
        let known = of(ListKind::Resources, uri).or_else(|| of(ListKind::ResourceTemplates, uri));
        return known
            .or_else(|| Some(Subject { limits: view.limits, ..Subject::uri(server, uri) }));
    }
    let (list, name) = match target.strip_prefix("prompt:") {
        Some(name) => (ListKind::Prompts, name),
        None => (ListKind::Tools, target),
    };
    of(list, name.strip_prefix(server.as_str())?.strip_prefix('.')?)
}

/// The beginning of arguments, for a row.
fn cut(text: &str) -> String {
    text.chars().take(300).collect()
}

const fn kind(list: ListKind) -> &'static str {
    match list {
        ListKind::Tools => "tool",
        ListKind::Prompts => "prompt",
        ListKind::Resources => "resource",
        ListKind::ResourceTemplates => "template",
    }
}
