//! The chat of the dashboard: a session of the user, streamed to the screen.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::ModelArgs;
use crate::args::Common;
use crate::load;
use ::chat::files::with_files;
use ::chat::session::{ChatSession, ChatSessions, MessageRefusal, SUMMARISED, SessionLimits};
use ::chat::store::SessionFolder;
use ::chat::{ChatSettings, LanguageModel, ModelDrafter, Provider, TurnLimits};
use ::deck::{Clients, load_policy};
use base::SafeText;
use config::Environment;
use host::{Origin, Principal, TraceContext};
use tui::chat::port::{ChatCommand, ChatNews, Choose, OpenChat};

/// The drafter and the chat of the dashboard; `None` without a model.
pub type InDashboard = Option<(ModelDrafter, OpenChat)>;

/// Sets up the model of the dashboard: for the user's chat, and for drafting answers to requests of
/// servers. `None` when no model can be used.
///
/// # Errors
/// When the settings cannot be used.
pub fn in_dashboard(
    common: &Common,
    is_demo: bool,
    trace: TraceContext,
) -> Result<InDashboard, String> {
    let env = load::environment(common).unwrap_or_default();
    let provider = is_demo.then_some(Provider::Embedded);
    let settings = ModelArgs { provider, ..ModelArgs::default() }.settings(&env)?;
    let model = match settings.model(&env) {
        Ok(_) if is_demo => super::demo_model(),
        Ok(model) => model,
        Err(why) => {
            tracing::info!(target: "mcpdeck::chat", "no chat: {why}");
            return Ok(None);
        }
    };
    let most_cost = settings.most_cost(None, &*model, &env)?;
    let files = if is_demo { Vec::new() } else { load::files(common, &env) };
    let source = ChatSource { settings, env, files, most_cost, trace, reveals: common.reveal };
    Ok(Some((ModelDrafter::new(Arc::clone(&model)), open(model, source))))
}

/// What a chat is created from.
struct ChatSource {
    /// The user's settings.
    settings: ChatSettings,
    /// Where to find keys and attached files.
    env: Environment,
    /// The configuration files, whose policy defines the profiles.
    files: Vec<std::path::PathBuf>,
    /// Most that a conversation may cost, in dollars.
    most_cost: Option<f64>,
    /// The trace that its calls belong to.
    trace: TraceContext,
    /// Whether the secrets of the configuration are shown.
    reveals: bool,
}

/// Returns the function that opens a chat with this model.
fn open(model: Arc<dyn LanguageModel>, source: ChatSource) -> OpenChat {
    let source = Arc::new(source);
    Arc::new(move |host, news| {
        let store = source.settings.sessions.as_deref().map(SessionFolder::open).transpose();
        let store = store.unwrap_or_else(|problem| {
            tracing::error!(target: "mcpdeck::chat", "{problem}");
            None
        });
        let turn = TurnLimits { cost: source.most_cost, ..TurnLimits::default() };
        let limits = SessionLimits { turn, ..SessionLimits::default() };
        let clients = Clients::default();
        let sessions = ChatSessions::new(host, Arc::clone(&model), limits, store, clients);
        sessions.trace(source.trace.clone());
        if source.reveals {
            sessions.reveal();
        }
        let session = sessions.open(Principal::new(Origin::Dashboard))?;
        session.attach();
        let (commands, queue) = mpsc::channel(16);
        let talking = Talking {
            newest: session.newest(),
            seen: 0,
            source: Arc::clone(&source),
            sessions,
            session,
            news,
        };
        tokio::spawn(talking.run(queue));
        Some(commands)
    })
}

/// The session on the screen.
struct Talking {
    source: Arc<ChatSource>,
    sessions: Arc<ChatSessions>,
    session: Arc<ChatSession>,
    newest: watch::Receiver<u64>,
    /// The last event that was sent to the screen.
    seen: u64,
    news: mpsc::Sender<ChatNews>,
}

impl Talking {
    async fn run(mut self, mut commands: mpsc::Receiver<ChatCommand>) {
        let first = Arc::clone(&self.session);
        self.show(first).await;
        loop {
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { return };
                    if let Err(problem) = self.act(command).await {
                        self.send(ChatNews::Failed(SafeText::cut(&problem, 300))).await;
                    }
                }
                _ = self.newest.changed() => self.catch_up().await,
            }
        }
    }

    async fn send(&self, news: ChatNews) {
        // A closed channel means that the dashboard is shutting down.
        let _ = self.news.send(news).await;
    }

    async fn catch_up(&mut self) {
        for (number, event) in self.session.since(self.seen).1 {
            self.seen = number;
            let event = self.with_pictures(serde_json::from_str(&event).unwrap_or_default());
            self.send(ChatNews::Event(event)).await;
        }
    }

    /// Shows a session from its beginning.
    async fn show(&mut self, session: Arc<ChatSession>) {
        session.attach();
        self.session.detach();
        self.sessions.close_unused(&self.session);
        self.session = session;
        self.newest = self.session.newest();
        let (events, seen) = self.session.so_far();
        self.seen = seen;
        let events = events.into_iter().map(|event| self.with_pictures(event)).collect();
        let (with, busy) = (self.with(), self.session.is_busy());
        let suggestions = self.session.agent().model().suggestions();
        let suggestions = suggestions.iter().map(|text| SafeText::cut(text, 200)).collect();
        self.send(ChatNews::Opened { with, events, busy, suggestions }).await;
        self.catch_up().await;
    }

    /// Model and profile, in words.
    fn with(&self) -> SafeText {
        let agent = self.session.agent();
        let who = agent.who();
        let profile =
            if who.is_named { format!(", profile {}", who.profile) } else { String::new() };
        SafeText::cut(&format!("{}{profile}", agent.model().name()), 80)
    }

    /// Sends a message of the user.
    async fn say(&self, text: &str, at: Option<usize>) -> Result<(), String> {
        let (said, folder) = (text.to_owned(), self.source.env.cwd.clone());
        let reading = move || with_files(&said, &folder);
        let sent = tokio::task::spawn_blocking(reading).await;
        let sent = sent.map_err(|error| error.to_string())??;
        let cancel = CancellationToken::new();
        let begun = self.session.begin(text, sent, at, cancel).map_err(|refusal| match refusal {
            MessageRefusal::Busy => "the answer is not complete",
            MessageRefusal::NoSuchMessage => "there is no such message",
            MessageRefusal::Summarised => SUMMARISED,
            MessageRefusal::Deleted => "the session was deleted",
            MessageRefusal::NoFiles => "the files of that message are gone",
        });
        begun.map_err(str::to_owned)
    }

    async fn act(&mut self, command: ChatCommand) -> Result<(), String> {
        let me = Principal::new(Origin::Dashboard);
        match command {
            ChatCommand::Say(text, at) => {
                if let Err(problem) = self.say(&text, at).await {
                    self.send(ChatNews::Unsent(text)).await;
                    return Err(problem);
                }
            }
            ChatCommand::Abort => _ = self.session.abort(),
            ChatCommand::CancelCall(id) => _ = self.session.agent().cancel_call(&id),
            ChatCommand::List(what) => {
                let choices = self.choices(what, &me).await?;
                self.send(ChatNews::Choices(what, choices)).await;
            }
            ChatCommand::Find(words) => {
                let found = self.conversations(&me, words.as_deref().unwrap_or_default()).await;
                self.send(ChatNews::Choices(Choose::Conversation, found)).await;
            }
            ChatCommand::Rename(name) => {
                self.sessions.rename(&self.session.id, &me, &name.unwrap_or_default()).await;
            }
            ChatCommand::Delete => {
                let id = self.session.id.clone();
                self.sessions.delete(&id, &me).await;
                let session = self.sessions.open(me).ok_or("there are too many conversations")?;
                self.show(session).await;
            }
            ChatCommand::Open(id) => {
                let session = match id {
                    Some(id) => self.sessions.find(&id, &me).await,
                    None => self.sessions.open(me),
                };
                self.show(session.ok_or("there is no such conversation any more")?).await;
            }
            ChatCommand::Branch(at) => {
                let copy = self.sessions.branch(&self.session, at).await;
                let copy = copy.map_err(|refusal| match refusal {
                    Some(_) => SUMMARISED,
                    None => "there are too many conversations",
                });
                self.show(copy?).await;
            }
            ChatCommand::Model(name) => {
                let settings = ChatSettings { model: Some(name), ..self.source.settings.clone() };
                let source = Arc::clone(&self.source);
                // Getting the key may block on a keyring or a helper program.
                let making = tokio::task::spawn_blocking(move || settings.model(&source.env)).await;
                let model = making.map_err(|error| error.to_string())??;
                self.session.change(model, self.session.agent().who().clone());
                self.send(ChatNews::With(self.with())).await;
            }
            ChatCommand::Profile(name) => {
                let who = match name {
                    Some(name) => me.with_profile(name),
                    None => me,
                };
                self.session.change(self.session.agent().model(), who);
                self.send(ChatNews::With(self.with())).await;
            }
            ChatCommand::Prompt => {
                let agent = self.session.agent();
                let prompt = agent.system_prompt().await;
                let (text, limit) = (SafeText::block(&prompt.text), agent.model().context());
                self.send(ChatNews::Prompt(text, json!(prompt.costs), limit)).await;
            }
        }
        Ok(())
    }

    /// The conversations that hold these words, the last one first.
    async fn conversations(&self, me: &Principal, words: &str) -> Vec<(SafeText, ChatCommand)> {
        let all = self.sessions.list(me, words).await.into_iter();
        all.map(|(id, title)| (SafeText::cut(&title, 80), ChatCommand::Open(Some(id)))).collect()
    }

    /// An event for the screen: with the pictures themselves.
    fn with_pictures(&self, mut event: Value) -> Value {
        let id = event["id"].as_str().unwrap_or_default().to_owned();
        let pictures = event.get_mut("pictures").and_then(Value::as_array_mut);
        for (at, about) in pictures.into_iter().flatten().enumerate() {
            if let Some((mime, data)) = self.session.picture(&id, at) {
                *about = json!({"type": "image", "mimeType": mime, "data": data});
            }
        }
        event
    }

    async fn choices(
        &self,
        what: Choose,
        me: &Principal,
    ) -> Result<Vec<(SafeText, ChatCommand)>, String> {
        let line = |text: &str| SafeText::cut(text, 80);
        Ok(match what {
            Choose::Conversation => {
                let mut all = vec![(line("a new conversation"), ChatCommand::Open(None))];
                let old = self.conversations(me, "").await;
                if !old.is_empty() {
                    all.push((line("search what was said…"), ChatCommand::Find(None)));
                }
                let is_here = |(_, command): &(SafeText, ChatCommand)| matches!(command, ChatCommand::Open(Some(id)) if *id == self.session.id);
                if old.iter().any(is_here) {
                    all.push((line("rename this conversation…"), ChatCommand::Rename(None)));
                    let delete = ChatCommand::List(Choose::Deletion);
                    all.push((line("delete this conversation…"), delete));
                }
                all.extend(old);
                all
            }
            Choose::Deletion => vec![
                (line("keep it"), ChatCommand::List(Choose::Conversation)),
                (line("delete it for good"), ChatCommand::Delete),
            ],
            Choose::Model => {
                let source = &self.source;
                let mut models = source.settings.choices(&source.env);
                // Those in the settings first; a provider that cannot be asked adds none.
                let offered = source.settings.offered(&source.env).await.unwrap_or_default();
                let offered: Vec<_> =
                    offered.into_iter().filter(|name| !models.contains(name)).collect();
                models.extend(offered);
                models.into_iter().map(|name| (line(&name), ChatCommand::Model(name))).collect()
            }
            Choose::Profile => {
                let policy = load_policy(&self.source.files).map_err(|p| p.join("; "))?;
                let names = policy.config.profiles.into_keys();
                let own = (
                    line("no profile: reads, and asks you about the rest"),
                    ChatCommand::Profile(None),
                );
                let named = names.map(|name| (line(&name), ChatCommand::Profile(Some(name))));
                std::iter::once(own).chain(named).collect()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::chat::Embedded;

    #[tokio::test]
    async fn the_first_conversation_is_among_those_to_go_on_with() {
        let none = r#"{"servers": {}}"#;
        let host = host::Host::builder().config_text(none).initialize().await.expect("a host");
        let (settings, env) = (ChatSettings::default(), Environment::of_process());
        let (news, mut received) = mpsc::channel(64);
        let trace = TraceContext::default();
        let (files, most_cost, reveals) = (Vec::new(), None, false);
        let source = ChatSource { settings, env, files, most_cost, trace, reveals };
        let chat = open(Arc::new(Embedded), source)(host.clone(), news).expect("a chat");
        let _ = chat.try_send(ChatCommand::Say("hello there".to_owned(), None));
        let done = |news: &ChatNews| matches!(news, ChatNews::Event(e) if e["type"] == "done");
        while !done(&received.recv().await.expect("the chat goes on")) {}
        let mut listed = async |command| {
            let _ = chat.try_send(command);
            loop {
                let news = received.recv().await.expect("the chat goes on");
                let ChatNews::Choices(_, choices) = news else { continue };
                let titles = choices.iter().map(|(title, _)| title.to_string());
                return titles.filter(|title| !title.ends_with('…')).collect::<Vec<_>>();
            }
        };
        let all = ChatCommand::List(Choose::Conversation);
        assert_eq!(listed(all.clone()).await, ["a new conversation", "hello there"]);
        let _ = chat.try_send(ChatCommand::Rename(Some("greeting".to_owned())));
        assert_eq!(listed(all.clone()).await, ["a new conversation", "greeting"]);
        // The words are those of the conversation, not of its name alone.
        let find = |words: &str| ChatCommand::Find(Some(words.to_owned()));
        assert_eq!(listed(find("HELLO")).await, ["greeting"]);
        assert_eq!(listed(find("nothing of this")).await, Vec::<String>::new());
        assert_eq!(listed(ChatCommand::List(Choose::Deletion)).await.len(), 2);
        let _ = chat.try_send(ChatCommand::Delete);
        assert_eq!(listed(all).await, ["a new conversation"]);
        host.shutdown().await;
    }

    #[tokio::test]
    async fn a_conversation_stops_at_the_most_it_may_cost() {
        let none = r#"{"servers": {}}"#;
        let host = host::Host::builder().config_text(none).initialize().await.expect("a host");
        let (settings, env) = (ChatSettings::default(), Environment::of_process());
        let (news, mut received) = mpsc::channel(64);
        let trace = TraceContext::default();
        let (files, most_cost, reveals) = (Vec::new(), Some(1.0), false);
        let source = ChatSource { settings, env, files, most_cost, trace, reveals };
        let chat = open(Arc::new(Embedded), source)(host.clone(), news).expect("a chat");
        let _ = chat.try_send(ChatCommand::Say("hello there".to_owned(), None));
        let done = loop {
            match received.recv().await.expect("the chat goes on") {
                ChatNews::Event(event) if event["type"] == "done" => break event,
                _ => {}
            }
        };
        // No price is known, and something must not cost more than was said.
        assert_eq!((&done["reason"], &done["rounds"]), (&json!("budget"), &json!(0)), "{done}");
        host.shutdown().await;
    }
}
