//! The thread behind the screen: it runs a deck, plays a recording, or follows an attached service.
//! The screen never waits for it. Commands go down; events come up as messages.

use std::path::PathBuf;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::message::Message;
use crate::player::{self, PlayCommand};
use crate::prelude::*;
use deck::{ConfigCommand, DeckBuilder, DeckEvent, PolicyKeeper, Scan};
use host::Host;

/// What the dashboard shows.
pub enum DashboardSource {
    /// The running configuration, to be opened.
    Deck(Box<DeckBuilder>),
    /// A recording, with the name of its file: nothing is started.
    Recording(SafeText, Box<Scan>),
    /// A service in another process, by its local socket.
    #[cfg(unix)]
    Attached(PathBuf),
}

impl DashboardSource {
    /// The watched files, or a placeholder that keys the stored preferences.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::Deck(deck) => deck.followed().to_vec(),
            Self::Recording(..) => vec![PathBuf::from(":recording")],
            #[cfg(unix)]
            Self::Attached(_) => vec![PathBuf::from(":attached")],
        }
    }
}

/// An open deck: its engine, and the policy for other clients, where one is kept.
pub type OpenedDeck = (Host, Option<PolicyKeeper>);

/// The engine thread; dropping it stops the servers and joins the thread.
pub struct Engine {
    stop: CancellationToken,
    commands: mpsc::Sender<ConfigCommand>,
    thread: Option<std::thread::JoinHandle<()>>,
    host: Option<Host>,
    player: Option<std::sync::mpsc::Sender<PlayCommand>>,
}

impl Engine {
    /// Starts the thread; `opened` is closed when it ends. Overflow policy: the thread waits while
    /// `messages` is full.
    pub fn start(
        source: DashboardSource,
        opened: mpsc::Sender<OpenedDeck>,
        messages: mpsc::Sender<Message>,
    ) -> std::io::Result<Self> {
        let stop = CancellationToken::new();
        let (commands, asked) = mpsc::channel(16);
        let (player, moves) = std::sync::mpsc::channel();
        let stopped = stop.clone();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            match source {
                DashboardSource::Deck(deck) => {
                    runtime.block_on(run(*deck, &opened, messages, asked, stopped));
                }
                DashboardSource::Recording(name, scan) => {
                    drop(asked);
                    player::play(name, *scan, &moves, &|played| {
                        let message = played.map_or_else(Message::EngineFailed, Message::Played);
                        messages.blocking_send(message).is_ok()
                    });
                }
                #[cfg(unix)]
                DashboardSource::Attached(socket) => {
                    drop(asked);
                    let remote = crate::attached::AttachedSocket(socket);
                    runtime.block_on(async {
                        let attached = crate::attached::run(remote, messages);
                        stopped.run_until_cancelled(attached).await;
                        stopped.cancelled().await;
                    });
                }
            }
            runtime.shutdown_timeout(Duration::from_millis(200));
            drop(opened);
        };
        let thread = std::thread::Builder::new().name("engine".into()).spawn(work)?;
        Ok(Self { stop, commands, thread: Some(thread), host: None, player: Some(player) })
    }

    /// Controls playback, if a recording is shown.
    pub fn command(&self, command: PlayCommand) {
        if let Some(player) = &self.player {
            let _ = player.send(command);
        }
    }

    /// Stores the host handle, which [`Engine::force`] needs.
    pub fn attach(&mut self, host: Host) {
        self.host = Some(host);
    }

    /// Queues a configuration command; returns whether it was accepted. Overflow policy: commands
    /// are rejected while the queue is full.
    pub fn ask(&self, command: ConfigCommand) -> bool {
        self.commands.try_send(command).is_ok()
    }

    /// Requests shutdown; the thread ends once every server has stopped.
    pub fn stop(&mut self) {
        self.stop.cancel();
        self.player = None;
    }

    /// Skips the grace period.
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

/// Runs the deck until stopped. Send errors are ignored: a closed screen needs no events.
async fn run(
    deck: DeckBuilder,
    opened: &mpsc::Sender<OpenedDeck>,
    messages: mpsc::Sender<Message>,
    mut commands: mpsc::Receiver<ConfigCommand>,
    stop: CancellationToken,
) {
    let Some(open) = stop.run_until_cancelled(deck.open()).await else { return };
    let mut deck = match open {
        Ok(deck) => deck,
        Err(error) => {
            let _ = messages.send(Message::EngineFailed(error)).await;
            return stop.cancelled().await;
        }
    };
    let _ = opened.send((deck.host().clone(), Some(deck.policy().clone()))).await;
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => break,
            Some(command) = commands.recv() => match deck.ask(command) {
                Ok(()) => continue,
                Err(error) => DeckEvent::Failed(error),
            },
            Some(event) = deck.next() => event,
        };
        let _ = messages.send(Message::Deck(event)).await;
    }
    deck.shutdown().await;
}
