//! The thread that owns the deck: the screen never waits for it. Passes commands down and events up.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::deck::policy::PolicyKeeper;
use crate::deck::recording::Scan;
use crate::deck::{ConfigCommand, DeckBuilder, DeckEvent};
use crate::error::Error;
use crate::host::Host;
#[cfg(unix)]
use crate::tui::attached::Remote;
#[cfg(unix)]
use crate::tui::message::Message;
use crate::tui::player::{PlayCommand, Played};
use crate::tui::prelude::*;

/// What the thread reports.
pub enum EngineEvent {
    /// The deck is open; with what decides about others, where that is kept.
    Ready(Host, Option<PolicyKeeper>),
    /// It cannot be opened.
    Failed(Error),
    /// What happened to the configuration.
    Deck(DeckEvent),
    /// Another moment of a recording.
    Played(Box<Played>),
}

/// The thread; dropping it stops the servers and waits for that.
pub struct Engine {
    stop: CancellationToken,
    commands: mpsc::Sender<ConfigCommand>,
    thread: Option<std::thread::JoinHandle<()>>,
    host: Option<Host>,
    player: Option<std::sync::mpsc::Sender<PlayCommand>>,
}

impl Engine {
    /// Starts the thread. Overflow policy: the thread waits while `events` is full.
    pub fn spawn(deck: DeckBuilder, events: mpsc::Sender<EngineEvent>) -> std::io::Result<Self> {
        let stop = CancellationToken::new();
        let (commands, asked) = mpsc::channel(16);
        let stopped = stop.clone();
        let thread = on_thread("engine", move || run(deck, events, asked, stopped))?;
        Ok(Self { stop, commands, thread: Some(thread), host: None, player: None })
    }

    /// Starts a thread that plays a recording instead: nothing runs. Overflow policy as above.
    pub fn play(
        (name, scan): (SafeText, Scan),
        events: mpsc::Sender<EngineEvent>,
    ) -> std::io::Result<Self> {
        let (player, asked) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("player".into()).spawn(move || {
            super::player::play(name, scan, &asked, &|played| {
                let event = played.map_or_else(EngineEvent::Failed, EngineEvent::Played);
                events.blocking_send(event).is_ok()
            });
        })?;
        let (stop, commands) = (CancellationToken::new(), mpsc::channel(1).0);
        Ok(Self { stop, commands, thread: Some(thread), host: None, player: Some(player) })
    }

    /// Starts a thread that tells of a service that runs elsewhere.
    #[cfg(unix)]
    pub fn watch(
        remote: Remote,
        events: mpsc::Sender<EngineEvent>,
        messages: mpsc::Sender<Message>,
    ) -> std::io::Result<Self> {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = on_thread("attached", move || async move {
            tokio::select! {
                () = crate::tui::attached::run(remote, messages) => stopped.cancelled().await,
                () = stopped.cancelled() => {}
            }
            drop(events);
        })?;
        let commands = mpsc::channel(1).0;
        Ok(Self { stop, commands, thread: Some(thread), host: None, player: None })
    }

    /// Moves in the recording that is played.
    pub fn command(&self, command: PlayCommand) {
        if let Some(player) = &self.player {
            let _ = player.send(command);
        }
    }

    /// Keeps the handle, to force the end with.
    pub fn attach(&mut self, host: Host) {
        self.host = Some(host);
    }

    /// Asks for something of the configuration; gives whether it was taken. Overflow policy: what
    /// comes faster than a person asks is refused.
    pub fn ask(&self, command: ConfigCommand) -> bool {
        self.commands.try_send(command).is_ok()
    }

    /// Asks for the end; the thread ends when every server has.
    pub fn stop(&mut self) {
        self.stop.cancel();
        self.player = None;
    }

    /// Skips the grace.
    pub fn force(&self) {
        if let Some(host) = &self.host {
            host.force_shutdown();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            self.force();
        }
        self.host = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Does work on a thread of its own, with a runtime of its own.
fn on_thread<W: Future<Output = ()>>(
    name: &str,
    work: impl FnOnce() -> W + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(work());
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
    })
}

/// Runs until it is stopped. A screen that is gone needs no news.
async fn run(
    deck: DeckBuilder,
    events: mpsc::Sender<EngineEvent>,
    mut commands: mpsc::Receiver<ConfigCommand>,
    stop: CancellationToken,
) {
    let opened = tokio::select! {
        opened = deck.open() => opened,
        () = stop.cancelled() => return,
    };
    let mut deck = match opened {
        Ok(deck) => deck,
        Err(error) => {
            let _ = events.send(EngineEvent::Failed(error)).await;
            return stop.cancelled().await;
        }
    };
    let _ = events.send(EngineEvent::Ready(deck.host().clone(), deck.policy().cloned())).await;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(command) = commands.recv() => {
                if let Err(error) = deck.ask(command) {
                    let _ = events.send(EngineEvent::Deck(DeckEvent::Failed(error))).await;
                }
            }
            Some(event) = deck.next() => {
                let _ = events.send(EngineEvent::Deck(event)).await;
            }
        }
    }
    deck.shutdown().await;
}
