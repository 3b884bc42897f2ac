//! Requests of the server: whether one is allowed.

use tokio_util::sync::CancellationToken;

use super::record::{id_text, method_name};
use super::table::PendingTable;
use crate::context::SessionContext;
use crate::id::RequestId;
use crate::rpc_code::RpcCode;
use crate::traffic::FindingKind;
use config::OutsideCalls;

/// Longest id of a request, in bytes: it is kept until the request is answered, and sent back.
const MAX_ID_BYTES: usize = 1 << 10;

/// What happens to a request.
pub(super) enum RequestDecision {
    Pass,
    Refuse(FindingKind, i64, String),
    Drop(FindingKind, String),
    /// It is a request of the host that came back. An answer to it would come back too, and be taken
    /// for the answer of a server.
    Echo(String),
}

/// Decides whether a request passes, by its id, its method and the size of its message in bytes.
pub(super) fn judge(
    table: &PendingTable,
    context: &SessionContext,
    over: &CancellationToken,
    (id, method, bytes): (&RequestId, &str, usize),
) -> RequestDecision {
    if over.is_cancelled() {
        let message = format!("`{}` was asked after its session was closed", method_name(method));
        return RequestDecision::Drop(FindingKind::AskedAfterClose, message);
    }
    if table.has_sent(id, method) {
        let message = format!("it sent our own `{}` back", method_name(method));
        return RequestDecision::Echo(message);
    }
    let most = context.limits.approvals;
    if let RequestId::String(text) = id
        && text.len() > MAX_ID_BYTES
    {
        let message = format!("a request with an id of {} bytes", text.len());
        return RequestDecision::Drop(FindingKind::Malformed, message);
    }
    if table.open.contains_key(id) {
        let message = format!("request id {} is used again while it is open", id_text(id));
        return RequestDecision::Drop(FindingKind::Malformed, message);
    }
    if method == "ping" {
        return RequestDecision::Pass;
    }
    if table.modern {
        let message = format!("`{}` is not a request in this version", method_name(method));
        return RequestDecision::Refuse(
            FindingKind::NotAllowed,
            RpcCode::METHOD_NOT_FOUND,
            message,
        );
    }
    // Sampling and elicitation must be nested inside other features of a server (client
    // features, sampling; a MUST in SEP-2260), that is inside a call. The host's own requests
    // (`initialize`, the lists, `ping`) involve nothing that could need the user, and one of
    // them is in flight whenever a server starts. `roots/list` is harmless, and servers request
    // it as soon as they are initialized: it passes.
    let needs_cause = matches!(method, "sampling/createMessage" | "elicitation/create");
    if needs_cause && table.calls().next().is_none() {
        // Before `initialize` is answered, it is unknown what the server may request (lifecycle,
        // initialization: "only pings and logging").
        let allowed = table.version.is_some()
            && context.approvals.outside_calls(&context.server) == OutsideCalls::Allow;
        if !allowed {
            let message = format!(
                "`{}` while no call is in flight (`approvals.outsideCalls`)",
                method_name(method)
            );
            return RequestDecision::Refuse(
                FindingKind::NotAllowed,
                RpcCode::INVALID_REQUEST,
                message,
            );
        }
    }
    if table.open.len() >= most {
        let message = format!("more than {most} requests at once (`limits.approvals`)");
        return RequestDecision::Refuse(FindingKind::Flood, RpcCode::SERVER_ERROR, message);
    }
    let open: usize = table.open.values().map(|open| open.bytes).sum();
    let whole = context.limits.line_bytes;
    if open > 0 && open + bytes > whole {
        let message = format!("requests of more than {whole} bytes at once (`limits.lineBytes`)");
        return RequestDecision::Refuse(FindingKind::Flood, RpcCode::SERVER_ERROR, message);
    }
    RequestDecision::Pass
}

/// Whether a method belongs to the session itself, which no application can answer.
pub(super) fn is_of_sessions(method: &str) -> bool {
    matches!(method.split('/').next(), Some("initialize" | "server" | "subscriptions"))
}
