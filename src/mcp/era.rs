//! What a handshake settles: the era, the version, who the server says it is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::text::SafeText;

/// Protocol era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// `initialize`, up to 2025-11-25.
    Legacy,
    /// `server/discover`, from 2026-07-28.
    Modern,
}

/// What the handshake gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// Era.
    pub era: Era,
    /// Negotiated version.
    pub protocol_version: SafeText,
    /// `serverInfo.name`.
    pub name: SafeText,
    /// `serverInfo.version`.
    pub version: SafeText,
    /// `serverInfo.title`.
    pub title: Option<SafeText>,
    /// `instructions`.
    pub instructions: Option<SafeText>,
    /// `capabilities` exactly as sent.
    pub capabilities: Arc<serde_json::Value>,
    /// `serverInfo` exactly as sent.
    pub server_info: Arc<serde_json::Value>,
}
