//! Error codes: those of JSON-RPC 2.0, and those that MCP adds. The only place that knows their
//! numbers.

/// The codes of JSON-RPC error objects (JSON-RPC 2.0, section 5.1; MCP, schema), each with what it
/// means.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RpcCode {}

impl RpcCode {
    /// What was sent is not JSON.
    pub const PARSE_ERROR: i64 = -32_700;
    /// The message is no valid request.
    pub const INVALID_REQUEST: i64 = -32_600;
    /// The method is unknown, or not available.
    pub const METHOD_NOT_FOUND: i64 = -32_601;
    /// The parameters are wrong; in MCP also an unknown tool, prompt, task or cursor.
    pub const INVALID_PARAMS: i64 = -32_602;
    /// The receiver failed.
    pub const INTERNAL_ERROR: i64 = -32_603;
    /// The first of the "implementation-defined server errors": any other refusal.
    pub const SERVER_ERROR: i64 = -32_000;
    /// The session is gone, as the official SDKs report it.
    pub const SESSION_NOT_FOUND: i64 = -32_001;
    /// There is no such resource (MCP, server features, resources, "error handling").
    pub const RESOURCE_NOT_FOUND: i64 = -32_002;
    /// `HeaderMismatch`: the headers contradict the message (2026-07-28, Streamable HTTP).
    pub const HEADER_MISMATCH: i64 = -32_020;
    /// `UnsupportedProtocolVersionError` (2026-07-28, versioning).
    pub const UNSUPPORTED_VERSION: i64 = -32_022;
    /// The user refused (MCP, client features, sampling, "error handling").
    pub const USER_REJECTED: i64 = -1;

    /// Whether only a server of the modern era answers with this code: -32020 headers, -32021
    /// capabilities, -32022 version (2026-07-28, schema).
    pub const fn is_modern(code: i64) -> bool {
        matches!(code, Self::UNSUPPORTED_VERSION..=Self::HEADER_MISMATCH)
    }

    /// The help text for an error that a server answered a request of `method` with.
    pub fn advice(method: &str, code: Option<i64>) -> &'static str {
        match (method, code) {
            ("initialize" | "server/discover", Some(Self::METHOD_NOT_FOUND)) => {
                "it speaks JSON-RPC, but not MCP: correct `command` and `args`, or `url`, of the entry"
            }
            ("initialize", Some(Self::INVALID_PARAMS)) => {
                "the server rejected the handshake: its documentation may name the version of the \
                 protocol that it wants, for `protocol` in the entry"
            }
            (_, Some(Self::METHOD_NOT_FOUND)) => "the server does not know this method",
            // A URI or a name that the server does not have is also a wrong parameter.
            ("resources/read" | "resources/subscribe" | "resources/unsubscribe", Some(code))
                if code == Self::RESOURCE_NOT_FOUND || code == Self::INVALID_PARAMS =>
            {
                "the server has no such resource: `mcpdeck list --only resources` shows those that \
                 it lists, `--only templates` their patterns"
            }
            ("prompts/get", Some(Self::INVALID_PARAMS)) => {
                "the server rejected the name or the arguments: `mcpdeck list --only prompts -l` \
                 shows both"
            }
            ("tools/call", Some(Self::INVALID_PARAMS)) => {
                "the server rejected the name or the arguments: `mcpdeck list --only tools -l` \
                 shows both"
            }
            (_, Some(Self::INVALID_PARAMS)) => {
                "the server rejected the parameters: correct them and call again"
            }
            (_, Some(Self::RESOURCE_NOT_FOUND)) => {
                "no such resource: see the server's resource list"
            }
            _ => "the server refused it: its log may say why",
        }
    }
}
