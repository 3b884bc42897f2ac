//! Errors as callers outside the process see them (requirements, section 11; decision D7): one
//! stable code, no path, command line or value of ours.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rmcp::model::ErrorCode as RpcCode;
use serde_json::{Value, json};

use crate::error::{Error, ErrorCode, RpcError};

/// An error for a caller outside.
#[derive(Debug)]
pub(crate) struct Outside {
    code: &'static str,
    status: StatusCode,
    message: String,
    server: Option<String>,
    /// The upstream's own JSON-RPC error, which is the server talking and goes through as it is.
    rpc: Option<Box<RpcError>>,
}

impl Outside {
    /// An error of the gateway itself.
    pub fn new(code: &'static str, status: StatusCode, message: impl Into<String>) -> Self {
        Self { code, status, message: message.into(), server: None, rpc: None }
    }

    /// There is no such tool for this caller.
    pub fn no_tool(name: &str) -> Self {
        let name = crate::base::text::SafeText::line(name);
        Self::new("ERR_TOOL_NOT_FOUND", StatusCode::NOT_FOUND, format!("there is no tool `{name}`"))
    }

    /// The token does not carry a scope.
    pub fn scope(scope: &str) -> Self {
        let message = format!("the token does not carry the scope `{scope}`");
        Self::new("ERR_SCOPE_REQUIRED", StatusCode::FORBIDDEN, message)
    }

    /// As the REST interface answers it.
    pub fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(server) = &self.server {
            error["server"] = json!(server);
        }
        if let Some(rpc) = &self.rpc {
            error["rpc"] = json!({"code": rpc.code, "message": rpc.message, "data": rpc.data});
        }
        json!({"error": error})
    }

    /// As an MCP client gets it.
    pub fn to_rpc(&self) -> rmcp::ErrorData {
        if let Some(rpc) = &self.rpc {
            let code = rpc.code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-32_603);
            return rmcp::ErrorData::new(RpcCode(code), rpc.message.clone(), rpc.data.clone());
        }
        let code = match self.code {
            "ERR_TOOL_NOT_FOUND" | "ERR_TOOL_NOT_ALLOWED" => RpcCode::INVALID_PARAMS,
            _ => RpcCode::INTERNAL_ERROR,
        };
        let data = json!({"code": self.code, "server": self.server});
        rmcp::ErrorData::new(code, self.message.clone(), Some(data))
    }
}

impl From<Error> for Outside {
    fn from(error: Error) -> Self {
        use StatusCode as S;
        let (code, status) = match error.code {
            ErrorCode::ToolNotFound => ("ERR_TOOL_NOT_FOUND", S::NOT_FOUND),
            ErrorCode::Ambiguous => ("ERR_TOOL_NOT_FOUND", S::CONFLICT),
            ErrorCode::Validation => ("ERR_TOOL_FAILED", S::UNPROCESSABLE_ENTITY),
            ErrorCode::Timeout => ("ERR_TOOL_TIMEOUT", S::GATEWAY_TIMEOUT),
            ErrorCode::Cancelled => ("ERR_TOOL_FAILED", S::CONFLICT),
            ErrorCode::Protocol => ("ERR_PROTOCOL_ERROR", S::BAD_GATEWAY),
            ErrorCode::ServerStartup | ErrorCode::ServerUnavailable | ErrorCode::CircuitOpen => {
                ("ERR_SERVER_UNAVAILABLE", S::SERVICE_UNAVAILABLE)
            }
            ErrorCode::PermissionDenied => ("ERR_TOOL_NOT_ALLOWED", S::FORBIDDEN),
            ErrorCode::PolicyBlocked => ("ERR_PERMISSION_DENIED", S::FORBIDDEN),
            ErrorCode::RateLimited => ("ERR_RATE_LIMITED", S::TOO_MANY_REQUESTS),
            ErrorCode::BudgetExceeded => ("ERR_BUDGET_EXCEEDED", S::TOO_MANY_REQUESTS),
            ErrorCode::Configuration | ErrorCode::Internal => {
                ("ERR_INTERNAL", S::INTERNAL_SERVER_ERROR)
            }
        };
        let server = error.server.as_ref().map(|server| server.as_str().to_owned());
        let message = match error.code {
            // What these say in full is about our machine: paths, command lines, lines of stderr.
            ErrorCode::ServerStartup => "the server did not start".to_owned(),
            ErrorCode::ServerUnavailable => "the server is not available now".to_owned(),
            ErrorCode::Configuration | ErrorCode::Internal => "the host failed".to_owned(),
            ErrorCode::Validation => violations(&error),
            _ => error.message.clone(),
        };
        let rpc = error.rpc.as_ref().filter(|_| error.code == ErrorCode::Protocol);
        let rpc = rpc.map(|rpc| Box::new(rpc.clone()));
        Self { code, status, message, server, rpc }
    }
}

fn violations(error: &Error) -> String {
    let list = error.violations.iter().map(|violation| {
        let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
        format!("{at}: {}", violation.message)
    });
    let list: Vec<String> = list.collect();
    format!("the arguments do not fit the schema: {}", list.join("; "))
}

impl IntoResponse for Outside {
    fn into_response(self) -> Response {
        (self.status, Json(self.to_json())).into_response()
    }
}
