//! What the operator must hear about files: those that hold secrets or rights and are not usable,
//! set aside or gone, and recordings that are damaged. One bounded list for the process; the command
//! line prints it, a deck passes it on.

use std::cell::RefCell;
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

thread_local! {
    /// What is told when the work of this thread is done, if it is to wait for that.
    static WAITING: RefCell<Option<Vec<SafeText>>> = const { RefCell::new(None) };
}

/// Does some work, and tells after it what the work tells: so that "it is used again" is not heard
/// before it is. Within itself it changes nothing.
pub fn tell_after<R>(work: impl FnOnce() -> R) -> R {
    /// Tells what waits, also when the work panics.
    struct Telling;
    impl Drop for Telling {
        fn drop(&mut self) {
            WAITING.take().into_iter().flatten().for_each(tell);
        }
    }
    if WAITING.with_borrow(Option::is_some) {
        return work();
    }
    WAITING.set(Some(Vec::new()));
    let _telling = Telling;
    work()
}

/// Tells the operator, in the log too. A repetition of the last notice is dropped.
pub fn notify(text: &str) {
    let text = SafeText::line(text);
    let now = WAITING.with_borrow_mut(|waiting| match waiting {
        Some(waiting) => {
            waiting.push(text);
            None
        }
        None => Some(text),
    });
    now.into_iter().for_each(tell);
}

fn tell(text: SafeText) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_work_tells_is_heard_when_it_is_done() {
        let mut heard = NoticeReader::from_now();
        // Other tests of this program tell something too.
        let mut own =
            || heard.read().into_iter().filter(|text| text.starts_with("after: ")).count();
        tell_after(|| {
            notify("after: one");
            tell_after(|| notify("after: two"));
            assert_eq!(own(), 0);
        });
        assert_eq!(own(), 2);
        notify("after: three");
        assert_eq!(own(), 1);
    }
}
