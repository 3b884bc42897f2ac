//! A dashboard over a recorded session that goes on: servers ask, requests end, keys are pressed.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};
use mcpdeck::base::Timestamp;
use mcpdeck::base::text::SafeText;
use mcpdeck::deck::News;
use mcpdeck::host::{ApprovalRequest, Fact, HostView, Record, Settlement};
use mcpdeck::protocol::{ApprovalId, RequestKind};
use mcpdeck::tui::app::App;
use mcpdeck::tui::effect::Effect;
use mcpdeck::tui::message::Message;
use serde_json::Value;

/// When the requests arrived; the screen is looked at a minute and a half later.
pub const ARRIVED: Timestamp = Timestamp(1_790_000_000_000_000);
/// When those were settled that are.
const SETTLED: Timestamp = Timestamp(ARRIVED.0 + 12_000_000);
/// How long they may wait.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// A dashboard, and the session behind it, which goes on.
pub struct Driver {
    pub app: App,
    pub view: HostView,
    seq: u64,
    asked: u64,
    /// What the screen wanted done outside.
    pub wanted: Vec<Effect>,
}

impl Driver {
    pub fn new() -> Self {
        let view = crate::tui::session("typical");
        let app = crate::tui::app("typical");
        let mut driver = Self { app, view, seq: 1_000, asked: 0, wanted: Vec::new() };
        driver.app.update(Message::Resize(120, 40));
        // What the session recorded is not what is looked at here.
        let open: Vec<_> = driver.view.pending.keys().copied().collect();
        for id in open {
            driver.settle(id, Settlement::Withdrawn { reason: SafeText::line("an earlier one") });
        }
        driver.view.settled.clear();
        driver
    }

    /// Something happens.
    pub fn fact(&mut self, server: &str, fact: Fact) {
        self.seq += 1;
        let at = if matches!(fact, Fact::RequestSettled { .. }) { SETTLED } else { ARRIVED };
        self.view.apply(&Record { seq: self.seq, at, server: Some(server.into()), fact });
    }

    /// The screen sees it.
    pub fn shown(&mut self) {
        let seen = self.app.update(Message::News(News::View(Arc::new(self.view.clone()))));
        self.wanted.extend(seen);
    }

    pub fn ask_as(&mut self, server: &str, kind: RequestKind, params: Value, deferred: bool) {
        self.asked += 1;
        let request = ApprovalRequest {
            id: ApprovalId(100 + self.asked),
            server: server.into(),
            kind,
            call: None,
            candidates: vec![],
            during: Some(SafeText::line("book_table")),
            bytes: params.to_string().len(),
            params: Arc::new(params),
            arrived: ARRIVED,
            deadline: ARRIVED.plus(PATIENCE),
            deferred,
            input: None,
        };
        self.fact(server, Fact::RequestArrived { request: Arc::new(request) });
    }

    pub fn ask(&mut self, kind: RequestKind, params: Value) {
        self.ask_as("memory", kind, params, false);
    }

    pub fn settle(&mut self, id: ApprovalId, settlement: Settlement) {
        let server = self.view.pending.get(&id).map(|request| request.server.clone()).unwrap();
        let after = Duration::from_secs(12);
        self.fact(server.as_str(), Fact::RequestSettled { id, settlement, after });
    }

    /// A frame is drawn, and half a second passes.
    pub fn reads(&mut self) {
        self.app.prepare();
        let now = self.app.model.now.plus(Duration::from_millis(500));
        self.wanted.extend(self.app.update(Message::Now(now)));
    }

    /// Types; `\u{e004}` is F4, `\x01` to `\x1a` are control keys, `\x1b` makes the next one an Alt key, or is Escape
    /// at the end.
    pub fn keys(&mut self, keys: &str) {
        let mut keys = keys.chars();
        while let Some(key) = keys.next() {
            if "\x12\x18y".contains(key) {
                // What is decided was there to be read.
                self.reads();
            }
            let (code, modifiers) = match key {
                '\u{e001}'..='\u{e00c}' => (KeyCode::F(key as u8), KeyModifiers::NONE),
                '\r' => (KeyCode::Enter, KeyModifiers::NONE),
                '\t' => (KeyCode::Tab, KeyModifiers::NONE),
                '\x1b' => match keys.next() {
                    Some(key) => (KeyCode::Char(key), KeyModifiers::ALT),
                    None => (KeyCode::Esc, KeyModifiers::NONE),
                },
                '\x01'..='\x1a' => {
                    let letter = char::from(b'a' - 1 + key as u8);
                    (KeyCode::Char(letter), KeyModifiers::CONTROL)
                }
                key => (KeyCode::Char(key), KeyModifiers::NONE),
            };
            self.wanted.extend(crate::tui::press(&mut self.app, code, modifiers));
        }
    }
}
