//! An MCP client session: JSON-RPC over pipes and Streamable HTTP, both eras, the tap. Knows no host.

pub mod auth;
pub mod capabilities;
pub mod claim;
pub mod client;
pub mod era;
pub mod finding;
pub mod id;
pub mod notice;
pub mod payload;
pub mod pending;
pub mod progress;
pub mod server_request;
pub mod session;
pub mod traffic;
pub mod transport;
pub mod wire;

pub use capabilities::{Capabilities, Prompt, Resource, ResourceTemplate, Tool};
pub use claim::Claim;
pub use era::{Era, SessionView};
pub use finding::{Finding, FindingKind};
pub use id::{ApprovalId, CallId};
pub use notice::{Notice, NoticeKind};
pub use payload::Payload;
pub use pending::PendingRequest;
pub use progress::Progress;
pub use server_request::{Answer, InputPlace, RequestKind};
pub use session::SessionEvent;
