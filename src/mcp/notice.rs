//! What a server tells without being asked, for those who pass it on to clients of their own.

use std::sync::Arc;

use serde_json::Value;

use crate::base::{LogLevel, ServerName};
use crate::mcp::CallId;

/// Something a server told.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Which server.
    pub server: ServerName,
    /// What.
    pub kind: NoticeKind,
}

/// What a server told.
#[derive(Clone, Debug, PartialEq)]
pub enum NoticeKind {
    /// `notifications/resources/updated`
    Updated {
        /// The resource.
        uri: Arc<str>,
    },
    /// `notifications/message`. Not told where several calls are in flight and it cannot be said
    /// which of them it is about: it may be meant for one caller alone.
    Logged {
        /// Its level.
        level: LogLevel,
        /// `params` as sent, secrets masked.
        params: Value,
        /// The call during which it came; `None` when none was in flight.
        call: Option<CallId>,
    },
}
