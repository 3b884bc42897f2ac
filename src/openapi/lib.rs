//! HTTP APIs as MCP tools: what an `OpenAPI` 3.0 or 3.1 document describes becomes definitions of
//! tools, their arguments become HTTP requests, and the responses results.
//!
//! Pure: reads no file and opens no connection; `mcp` does both. A document is data from outside:
//! one part that cannot be used costs its operation, not the document, and nothing in it or in the
//! arguments of a call moves a request to another host or out of the path of its operation.
//!
//! The document is read as JSON, not into the types of a library: schemas are passed on with every
//! keyword they have, and the libraries there are know either 3.0 or 3.1, and refuse a document for
//! one unusual value in it.

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod answer;
mod body;
mod document;
mod operation;
mod parameter;
mod request;
mod schemas;
#[cfg(test)]
mod tests;

pub use answer::tool_result;
pub use document::{ApiDocument, ApiDocumentError, ApiFilter, ApiOperations};
pub use operation::{ApiOperation, EntryParts};
pub use parameter::ArgumentProblem;
pub use request::ApiRequest;
