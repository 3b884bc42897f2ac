//! An MCP client session: JSON-RPC over pipes and Streamable HTTP, both eras, the tap. Knows no host.

pub mod auth;
pub mod capabilities;
pub mod era;
pub mod id;
pub mod notice;
pub mod payload;
pub mod pending;
pub mod session;
pub mod traffic;
pub mod transport;
pub mod wire;

pub use capabilities::{
    Capabilities, FieldChange, ListChanges, ListKind, Prompt, RejectedEntry, Resource, Risk, Tool,
    ToolHints,
};
pub use era::{Era, SessionView};
pub use id::{ApprovalId, CallId};
pub use notice::{Answer, InputPlace, Notice, NoticeKind, Progress, RequestKind};
pub use payload::Payload;
pub use pending::{Claim, PendingRequest};
pub use session::SessionEvent;
pub use traffic::{Direction, Finding, FindingKind, MessageKind, TrafficRecord};
