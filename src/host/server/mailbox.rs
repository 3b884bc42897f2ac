//! Where commands to the task of a server are left. The task begins with the first of them: a server
//! that is disabled costs no task and no channel until somebody enables it, and files hold thousands.

use std::sync::OnceLock;

use parking_lot::Mutex;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::command::{COMMAND_CAPACITY, Command};

/// Starts the task that reads the commands.
type BeginActor = Box<dyn FnOnce(mpsc::Receiver<Box<Command>>) + Send>;

/// The commands to one server. Overflow policy: [`Mailbox::send`] waits, [`Mailbox::try_send`] fails.
pub struct Mailbox {
    /// `None` inside once it was closed before its task began.
    sender: OnceLock<Option<mpsc::Sender<Box<Command>>>>,
    start: Mutex<Option<BeginActor>>,
}

impl Mailbox {
    /// A mailbox whose task is started by `start`.
    pub fn new(start: BeginActor) -> Self {
        Self { sender: OnceLock::new(), start: Mutex::new(Some(start)) }
    }

    fn sender(&self) -> Option<&mpsc::Sender<Box<Command>>> {
        let opened = self.sender.get_or_init(|| {
            let start = self.start.lock().take()?;
            let (sender, commands) = mpsc::channel(COMMAND_CAPACITY);
            start(commands);
            Some(sender)
        });
        opened.as_ref()
    }

    /// Starts the task, if it has not begun.
    pub fn open(&self) {
        let _ = self.sender();
    }

    /// Whether the task has begun.
    pub fn is_open(&self) -> bool {
        matches!(self.sender.get(), Some(Some(_)))
    }

    /// Closes it if its task has not begun, which then never begins; returns whether that is so.
    pub fn close_unopened(&self) -> bool {
        self.sender.get_or_init(|| {
            // Dropped outside of the lock.
            let start = self.start.lock().take();
            drop(start);
            None
        });
        !self.is_open()
    }

    /// Leaves a command, and waits for room. Returns `false` when there is no task to read it.
    pub async fn send(&self, command: Command) -> bool {
        match self.sender() {
            Some(sender) => sender.send(Box::new(command)).await.is_ok(),
            None => false,
        }
    }

    /// Leaves a command if there is room.
    ///
    /// # Errors
    /// When there is no room, or no task to read it.
    pub fn try_send(&self, command: Command) -> Result<(), TrySendError<Box<Command>>> {
        let command = Box::new(command);
        match self.sender() {
            Some(sender) => sender.try_send(command),
            None => Err(TrySendError::Closed(command)),
        }
    }

    /// Waits until the task has ended.
    pub async fn closed(&self) {
        if let Some(Some(sender)) = self.sender.get() {
            sender.closed().await;
        }
    }
}
