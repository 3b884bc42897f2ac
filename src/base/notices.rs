//! What the operator must hear about files: those that hold secrets or rights and are not usable,
//! set aside or gone, and recordings that are damaged. One bounded list for the process; the command line prints it, a deck passes it on.

use std::sync::{Arc, LazyLock};

use tokio::sync::watch;

use super::ring::{Ring, Weighed};
use super::text::SafeText;

/// Notices that are held for readers; the oldest are dropped beyond that.
const NOTICES_CAPACITY: usize = 256;
/// Bytes of them.
const MAX_NOTICES_BYTES: usize = 1 << 20;

static NOTICES: LazyLock<Ring<FileNotice>> =
    LazyLock::new(|| Ring::new(NOTICES_CAPACITY, MAX_NOTICES_BYTES));

/// One notice.
#[derive(Debug)]
struct FileNotice(SafeText);

impl Weighed for FileNotice {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.0.len()
    }
}

/// Tells the operator, in the log too. A repetition of the last notice is dropped.
pub fn notify(text: &str) {
    let text = SafeText::line(text);
    if NOTICES.tail(1).first().is_some_and(|last| last.0 == text) {
        return;
    }
    tracing::warn!(target: "mcpdeck::files", action = "notice", "{text}");
    NOTICES.push(Arc::new(FileNotice(text)));
}

/// Reads the notices in order.
#[derive(Clone, Debug)]
pub struct NoticeReader {
    next: u64,
    changed: watch::Receiver<u64>,
}

impl NoticeReader {
    /// A reader that begins with the oldest notice held.
    pub fn from_start() -> Self {
        Self { next: 0, changed: NOTICES.changed() }
    }

    /// A reader of what is told from now on.
    pub fn from_now() -> Self {
        Self { next: NOTICES.span().end, changed: NOTICES.changed() }
    }

    /// The notices since the last read.
    pub fn read(&mut self) -> Vec<SafeText> {
        let new = NOTICES.read(self.next, usize::MAX);
        self.next = new.next;
        new.items.iter().map(|notice| notice.0.clone()).collect()
    }

    /// Waits for the next notices. Cancel-safe.
    pub async fn next(&mut self) -> Vec<SafeText> {
        loop {
            let new = self.read();
            if !new.is_empty() {
                return new;
            }
            if self.changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
