//! MCP as JSON-RPC: messages of both eras, what servers offer and how it changed, requests in flight,
//! and the tap, which reads every byte of a server.
//!
//! Bytes in, events out: no pipe, socket, process or file is opened here, no task is spawned, no timer
//! set and no clock read but that of the [`SessionContext`]. A message is interpreted where it is read,
//! in wire order. Of tokio only `sync` is used: channels and wakers, which need no runtime. The owner
//! of a connection feeds [`Tap::line`] and [`Tap::arrived`], delivers what the [`Pump`] collects, has an
//! [`UndecidedRequest`] decided, calls [`PendingRequest::next_step`] when it says, and carries away what
//! the tap leaves in an [`Outbox`].

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod capabilities;
mod context;
mod era;
mod id;
mod json;
mod message;
mod notice;
mod payload;
mod pending;
mod pump;
mod received;
mod request;
mod rpc_code;
mod sending;
mod tap;
mod tasks;
mod traffic;

pub use capabilities::diff::{every_difference, every_written_difference, is_set_keyword};
pub use capabilities::schema_kind;
pub use capabilities::written_entry;
pub use capabilities::{
    APP_MEDIA_TYPE, APP_URIS, APPS_EXTENSION, Capabilities, FetchedList, FieldChange, ListChanges,
    ListKind, PartialList, Prompt, PromptArgument, RejectedEntry, Resource, Risk, Tool, ToolHints,
    app_of, is_for_models,
};
pub use context::{Responder, ServerRequest, SessionContext, SessionEvent};
pub use era::{
    CLIENT_NAME, Era, HOPS_KEY, LEGACY_VERSION, MODERN_VERSION, PROTOCOL_VERSIONS, SessionView,
    initialize_params, request_meta, vendor_meta,
};
pub use id::{ApprovalId, CallId, RequestId};
pub use json::ParseBudget;
pub use message::{find_id, find_last_id, repair, tokens};
pub use notice::{Answer, InputPlace, Notice, NoticeKind, Progress, RequestKind};
pub use payload::{Cut, Payload};
pub use pending::{ByteCount, CallerMeta, Claim, HeldClock, PendingRequest};
pub use pump::Pump;
pub use received::{Arrivals, ReceivedSoFar};
pub use request::{Params, RpcRequest, level_name};
pub use rpc_code::RpcCode;
pub use sending::{Outbox, SendError, SendFailure};
pub use tap::{Attended, RoundTripResult, Tap, UndecidedRequest};
pub use tasks::{ServerTask, ServerTasks};
pub use traffic::{Direction, Finding, FindingKind, MessageKind, TrafficRecord};
