//! What a session shares with the host: its limits, its masks, where its messages are shown.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::approvals::queue::QueueHandle;
use crate::server::slot::Slot;
use crate::shared::HostShared;
use config::ServerConfig;
use protocol::{SessionContext, SessionEvent};

/// Capacity of a session's event channel; when it is full, the session waits (backpressure).
pub const EVENT_CAPACITY: usize = 256;

/// The context of a new session of a server.
pub fn session_context(
    (shared, slot): (&HostShared, &Slot),
    config: &ServerConfig,
    events: mpsc::Sender<SessionEvent>,
) -> SessionContext {
    slot.redactor.learn(config.secrets());
    SessionContext {
        server: slot.name.clone(),
        limits: (*config.wire).clone(),
        log_level: slot.log_level().or(config.log_level),
        clock: shared.clock,
        redactor: slot.redactor.clone(),
        traffic: shared.traffic.clone(),
        black_box: slot.black_box().clone(),
        logs: shared.logs.clone(),
        notices: shared.notices.clone(),
        events,
        approvals: Arc::new(QueueHandle(Arc::clone(&shared.approvals))),
        bytes: Arc::clone(&slot.bytes),
        tasks: Arc::clone(&slot.tasks),
        seen: Arc::default(),
    }
}
