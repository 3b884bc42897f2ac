//! Keeps the secrets of the configuration out of what a chat shows and stores. What the model is
//! sent and sends stays as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::event::{ChatEvent, StatusKind};
use base::secret::Redactor;
use host::{ApprovalRequest, Asker, Host, RequestHandler};
use protocol::{Answer, RequestKind};

/// Keys of events whose values clients decide by: they are words of ours, and ids.
const OWN_KEYS: [&str; 8] = ["type", "id", "seq", "role", "status", "reason", "code", "answers"];

/// What is masked in conversations. Clones share it.
#[derive(Clone)]
pub(crate) struct ChatMask {
    host: Host,
    known: Redactor,
    is_lifted: Arc<AtomicBool>,
}

impl ChatMask {
    /// Masks the secrets of the servers of this host, once it [learns](Self::learn) them.
    pub(crate) fn new(host: &Host) -> Self {
        Self { host: host.clone(), known: Redactor::default(), is_lifted: Arc::default() }
    }

    /// Shows everything from now on. What is stored is masked all the same.
    pub(crate) fn lift(&self) {
        self.is_lifted.store(true, Ordering::Relaxed);
    }

    /// Learns the secrets of now: servers come, and their tokens are renewed.
    pub(crate) fn learn(&self) {
        let view = self.host.view().borrow().clone();
        self.known.learn(view.servers.keys().flat_map(|server| self.host.secrets(server)));
    }

    /// For what is stored.
    pub(crate) fn stored(&self) -> Redactor {
        self.known.clone()
    }

    /// For what is shown.
    pub(crate) fn shown(&self) -> Redactor {
        if self.is_lifted.load(Ordering::Relaxed) {
            Redactor::default()
        } else {
            self.known.clone()
        }
    }

    /// An event or a message as it is shown.
    pub(crate) fn shown_event(&self, mut event: Value) -> Value {
        let redactor = self.shown();
        for (key, value) in event.as_object_mut().into_iter().flatten() {
            if !OWN_KEYS.contains(&key.as_str())
                && let Some(masked) = redactor.redact_json(value)
            {
                *value = masked;
            }
        }
        event
    }

    /// What asks, with questions about calls as they are shown.
    pub(crate) fn asker(&self, asker: Asker) -> Asker {
        Asker(Arc::new(MaskedAsker { asker, mask: self.clone() }))
    }
}

struct MaskedAsker {
    asker: Asker,
    mask: ChatMask,
}

impl RequestHandler for MaskedAsker {
    fn handle(
        &self,
        mut request: Arc<ApprovalRequest>,
        withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        // The answers to what servers ask are checked by it.
        if matches!(request.kind, RequestKind::Guard | RequestKind::Permission) {
            let params = self.mask.shown_event((*request.params).clone());
            request = Arc::new(ApprovalRequest { params: Arc::new(params), ..(*request).clone() });
        }
        self.asker.0.handle(request, withdrawn)
    }
}

/// The events of a turn as they are shown. The end of a text that still comes is held back, as far
/// as a secret may have begun in it.
pub(crate) struct MaskedEvents<'a> {
    mask: &'a ChatMask,
    on_event: &'a (dyn Fn(ChatEvent) + Send + Sync),
    held: String,
    /// Whether that is reasoning, not the answer.
    is_reasoning: bool,
}

impl<'a> MaskedEvents<'a> {
    pub(crate) const fn new(
        mask: &'a ChatMask,
        on_event: &'a (dyn Fn(ChatEvent) + Send + Sync),
    ) -> Self {
        Self { mask, on_event, held: String::new(), is_reasoning: false }
    }

    /// Passes on an event, and what is known of the text before it.
    pub(crate) fn pass(&mut self, event: ChatEvent) {
        match event {
            ChatEvent::Text { text } => self.add(&text, false),
            ChatEvent::Status { status: StatusKind::Reasoning, message: Some(text), .. } => {
                self.add(&text, true);
            }
            event => {
                // The model begins its answer anew.
                if matches!(event, ChatEvent::Status { status: StatusKind::Retrying, .. }) {
                    self.held.clear();
                }
                self.end();
                (self.on_event)(self.masked(event));
            }
        }
    }

    fn add(&mut self, text: &str, is_reasoning: bool) {
        if self.is_reasoning != is_reasoning {
            self.end();
            self.is_reasoning = is_reasoning;
        }
        self.held.push_str(text);
        let redactor = self.mask.shown();
        let later = self.held.split_off(settled(&self.held, &redactor));
        let known = std::mem::replace(&mut self.held, later);
        self.show(redactor.redact(&known).into_owned());
    }

    /// Shows what was held back: nothing follows, also where the text was cut off within a secret.
    fn end(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.show(self.mask.shown().redact_cut_off(&held).into_owned());
    }

    fn show(&self, text: String) {
        if text.is_empty() {
            return;
        }
        (self.on_event)(if self.is_reasoning {
            ChatEvent::status(StatusKind::Reasoning, text)
        } else {
            ChatEvent::Text { text }
        });
    }

    fn masked(&self, mut event: ChatEvent) -> ChatEvent {
        let redactor = self.mask.shown();
        match &mut event {
            ChatEvent::ToolCall { arguments, .. } => {
                if let Some(masked) = redactor.redact_json(arguments) {
                    *arguments = masked;
                }
            }
            ChatEvent::Text { text }
            | ChatEvent::ToolResult { text, .. }
            | ChatEvent::ToolProgress { message: text, .. }
            | ChatEvent::Status { message: Some(text), .. }
            | ChatEvent::Error { message: text, .. }
            | ChatEvent::Done { message: text, .. } => {
                *text = redactor.redact(text).into_owned();
            }
            ChatEvent::Status { message: None, .. } => {}
        }
        event
    }
}

/// How much of a text can be shown: nothing that follows makes a part of it the beginning of a secret,
/// and no secret lies across its end.
fn settled(text: &str, redactor: &Redactor) -> usize {
    let begun = redactor.begun_at_end(text.as_bytes());
    redactor.cut_before(text.as_bytes(), text.len() - begun)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use parking_lot::Mutex;

    use super::*;

    /// What is shown of a text that comes in pieces of this many characters, and what at most was
    /// held back.
    fn shown_in_pieces(text: &str, mask: &ChatMask, step: usize) -> (String, usize) {
        let (shown, mut most) = (Mutex::new(String::new()), 0);
        let on_event = |event: ChatEvent| {
            if let ChatEvent::Text { text } = event {
                *shown.lock() += &text;
            }
        };
        let mut events = MaskedEvents::new(mask, &on_event);
        let all: Vec<char> = text.chars().collect();
        for piece in all.chunks(step) {
            events.pass(ChatEvent::Text { text: piece.iter().collect() });
            // With a secret that is there as a whole, and goes with what follows it.
            if matches!(mask.known.redact(&events.held), Cow::Borrowed(_)) {
                most = most.max(events.held.len());
            }
        }
        events.pass(ChatEvent::status(StatusKind::Processing, String::new()));
        drop(events);
        (shown.into_inner(), most)
    }

    async fn mask_of(secrets: &[&str]) -> ChatMask {
        let builder = Host::builder().config_text(r#"{"servers": {}}"#);
        let host = builder.initialize().await.expect("a host without servers");
        let mask = ChatMask::new(&host);
        mask.known.learn(secrets.iter().copied().map(Into::into));
        mask
    }

    #[tokio::test]
    async fn a_secret_in_pieces_is_masked_as_in_one_and_no_more_than_its_length_is_held() {
        let mask = mask_of(&["größe-4711-geheim", "heimlich-genug"]).await;
        for text in [
            "it is größe-4711-geheim.",
            "größe-4711-geheimlich-genug and größe-4711-gehei, größe-4711-geheim",
            "größe-4711größe-4711-geheim",
            "nothing of it, and grö",
        ] {
            let whole = mask.known.redact(text);
            for step in 1..=text.chars().count() {
                let (shown, held) = shown_in_pieces(text, &mask, step);
                assert_eq!(shown, whole, "{step}");
                // A character is not divided.
                assert!(held <= mask.known.longest(), "{step}: {held}");
            }
        }
        // What cannot begin a secret, or one of its encodings, is shown as it comes.
        assert!(shown_in_pieces("a plain text", &mask, 1).1 <= 2);
        let none = mask_of(&[]).await;
        assert_eq!(
            shown_in_pieces("größe-4711-geheim", &none, 1),
            ("größe-4711-geheim".to_owned(), 0)
        );
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_off_within_a_secret_shows_no_part_of_it() {
        let mask =
            mask_of(&["größe-4711-geheim", "sesame-of-forty-characters-and-many-more"]).await;
        for (text, shown) in [
            ("it is größe-4711", "it is ***"),
            ("it is größe", "it is ***"),
            ("größe-4711-geheim, größe-4711-geh", "***, ***"),
            ("open sesame-of-forty-char", "open ***"),
            // Words begin like it too.
            ("it is grö", "it is grö"),
            ("open sesame", "open sesame"),
            ("open a se", "open a se"),
        ] {
            for step in 1..=text.chars().count() {
                assert_eq!(shown_in_pieces(text, &mask, step).0, shown, "{step}");
            }
        }
        // A change from reasoning to the answer ends the reasoning.
        let shown = Mutex::new(Vec::new());
        let on_event = |event: ChatEvent| shown.lock().push(format!("{event:?}"));
        let mut events = MaskedEvents::new(&mask, &on_event);
        events.pass(ChatEvent::status(StatusKind::Reasoning, "so größe-4711".to_owned()));
        events.pass(ChatEvent::Text { text: "well".to_owned() });
        drop(events);
        let shown = shown.into_inner().concat();
        assert!(shown.contains("***") && !shown.contains("4711"), "{shown}");
    }
}
