//! The `OpenAPI` document of the REST interface.

use axum::Json;
use serde_json::{Value, json};

fn operation(summary: &str, scope: &str) -> Value {
    json!({
        "summary": summary,
        "description": format!("Needs the scope `{scope}`."),
        "security": [{"token": []}],
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {}}},
            "default": {
                "description": "Refused or failed",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    })
}

fn with_body(mut operation: Value, schema: Value) -> Value {
    operation["requestBody"] =
        json!({"required": true, "content": {"application/json": {"schema": schema}}});
    operation
}

/// `GET /openapi.json`.
pub(crate) async fn document() -> Json<Value> {
    let call = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "arguments": {"type": "object"},
            "timeout": {"type": "number", "minimum": 0, "maximum": 600, "description": "seconds"},
        },
    });
    let restart = json!({
        "type": "object", "additionalProperties": false, "required": ["server"],
        "properties": {"server": {"type": "string"}},
    });
    let mut call = with_body(operation("Call a tool", "mcp:tools.call"), call);
    call["parameters"] =
        json!([{"name": "name", "in": "path", "required": true, "schema": {"type": "string"}}]);
    let mut result = json!({
        "type": "object", "required": ["content", "isError"],
        "properties": {
            "content": {"type": "array", "items": {"type": "object"}},
            "isError": {"type": "boolean"},
            "structuredContent": {},
            "provenance": {"type": "object"},
        },
    });
    result["description"] = json!("The result as the server sent it.");
    call["responses"]["200"]["content"]["application/json"]["schema"] = result;
    Json(json!({
        "openapi": "3.1.0",
        "info": {"title": "mcpdeck", "version": env!("CARGO_PKG_VERSION")},
        "paths": {
            "/tools": {"get": operation("List every tool", "mcp:tools.list")},
            "/tools/{name}/call": {"post": call},
            "/servers": {"get": operation("List every server", "any")},
            "/servers/restart": {
                "post": with_body(operation("Restart a server", "mcp:server.connect"), restart),
            },
            "/metrics": {"get": operation("Metrics for Prometheus", "mcp:server.connect")},
            "/readyz": {"get": operation("Whether every server has started", "none")},
            "/healthz": {"get": {"summary": "Whether the service lives", "responses": {"200": {"description": "ok"}}}},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": {
                "type": "object", "required": ["error"],
                "properties": {"error": {
                    "type": "object", "required": ["code", "message"],
                    "properties": {
                        "code": {"type": "string", "enum": [
                            "ERR_PERMISSION_DENIED", "ERR_SCOPE_REQUIRED", "ERR_SERVER_UNAVAILABLE",
                            "ERR_TOOL_NOT_FOUND", "ERR_TOOL_NOT_ALLOWED", "ERR_TOOL_TIMEOUT",
                            "ERR_TOOL_FAILED", "ERR_PROTOCOL_ERROR", "ERR_INTERNAL",
                            "ERR_RATE_LIMITED", "ERR_BUDGET_EXCEEDED",
                        ]},
                        "message": {"type": "string"},
                        "server": {"type": "string"},
                        "retryAfterMs": {"type": "integer", "description": "milliseconds"},
                        "violations": {"type": "array", "items": {"type": "object"}},
                    },
                }},
            }},
        },
    }))
}
