//! The answers of a polite server: the default where a script has no reaction.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::stage::ReactionContext;
use super::template::{self, TemplateScope as _};
use protocol::RpcCode;

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A refusal: code, message, data.
pub(crate) struct ScriptedRefusal(pub(crate) i64, pub(crate) String, pub(crate) Value);

impl ScriptedRefusal {
    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.0, "message": self.1});
        if !self.2.is_null() {
            error["data"] = self.2.clone();
        }
        error
    }
}

/// The requests that have a polite answer.
const METHODS: &str = "\
    initialize server/discover ping tools/list tools/call prompts/list prompts/get resources/list \
    resources/templates/list resources/read resources/subscribe resources/unsubscribe \
    completion/complete logging/setLevel subscriptions/listen";

/// Whether the method has a polite answer.
pub(crate) fn knows(method: &str) -> bool {
    method.starts_with("notifications/") || METHODS.split(' ').any(|known| known == method)
}

/// The result of a request as JSON text.
pub(crate) fn result(cx: &ReactionContext, method: &str) -> Result<String, ScriptedRefusal> {
    let stage = &cx.stage;
    let lists = stage.lists.borrow();
    match method {
        "initialize" => initialize(cx),
        "server/discover" => discover(cx),
        "tools/list" => list(cx, "tools", lists.tools.as_ref()),
        "prompts/list" => list(cx, "prompts", lists.prompts.as_ref()),
        "resources/list" => list(cx, "resources", lists.resources.as_ref()),
        "resources/templates/list" => {
            list(cx, "resourceTemplates", lists.resource_templates.as_ref())
        }
        "tools/call" => {
            let arguments = cx.lookup("arguments").unwrap_or(Value::Null).to_string();
            Ok(text_result(cx, &arguments, false))
        }
        "prompts/get" => {
            let said = format!("{} {}", cx.text("${name}"), cx.text("${arguments}"));
            let message = json!({"role": "user", "content": {"type": "text", "text": said}});
            Ok(complete(cx, &json!({"messages": [message]})))
        }
        "resources/read" => {
            let uri = cx.text("${uri}");
            let text = format!("Content of {uri}");
            let content = json!({"uri": uri, "mimeType": "text/plain", "text": text});
            Ok(cached(cx, json!({"contents": [content]})))
        }
        "completion/complete" => {
            let known = stage.script.complete.get(&cx.text("${params.argument.name}"));
            let typed = cx.text("${params.argument.value}").to_lowercase();
            let fits = |value: &&String| value.to_lowercase().starts_with(&typed);
            let values: Vec<&String> = known.into_iter().flatten().filter(fits).collect();
            let total = values.len();
            let completion = json!({"values": values, "total": total, "hasMore": false});
            Ok(complete(cx, &json!({"completion": completion})))
        }
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            Ok(complete(cx, &json!({})))
        }
        other => Err(ScriptedRefusal(
            RpcCode::METHOD_NOT_FOUND,
            format!("Method not found: {other}"),
            Value::Null,
        )),
    }
}

/// A tool result with one block of text.
pub(crate) fn text_result(cx: &ReactionContext, text: &str, is_error: bool) -> String {
    let mut result = json!({"content": [{"type": "text", "text": text}]});
    if is_error {
        result["isError"] = true.into();
    }
    complete(cx, &result)
}

fn server_info(cx: &ReactionContext) -> Value {
    match &cx.stage.script.server_info {
        Some(info) => template::value(info, cx),
        None => json!({"name": "mock", "version": "1.0.0"}),
    }
}

fn capabilities(cx: &ReactionContext) -> Value {
    if let Some(capabilities) = &cx.stage.script.capabilities {
        return template::value(capabilities, cx);
    }
    let lists = cx.stage.lists.borrow();
    let resources = lists.resources.is_some() || lists.resource_templates.is_some();
    let all = [
        ("tools", lists.tools.is_some(), json!({"listChanged": true})),
        ("prompts", lists.prompts.is_some(), json!({"listChanged": true})),
        ("resources", resources, json!({"listChanged": true, "subscribe": true})),
    ];
    let offered = all.into_iter().filter(|(_, is_there, _)| *is_there);
    offered.map(|(name, _, what)| (name, what)).collect()
}

/// The result of a handshake, with the instructions of the server.
fn instructed(cx: &ReactionContext, mut result: Value) -> Value {
    if let Some(instructions) = &cx.stage.lists.borrow().instructions {
        result["instructions"] = template::text(instructions, cx).into();
    }
    result
}

fn initialize(cx: &ReactionContext) -> Result<String, ScriptedRefusal> {
    let versions = cx.stage.script.legacy_versions();
    let asked = cx.text("${params.protocolVersion}");
    let Some(newest) = versions.iter().max() else {
        let data = json!({"supported": cx.stage.script.modern_versions(), "requested": asked});
        return Err(ScriptedRefusal(
            RpcCode::UNSUPPORTED_VERSION,
            "Unsupported protocol version".to_owned(),
            data,
        ));
    };
    let version = versions.iter().find(|v| **v == asked).unwrap_or(newest);
    let result = json!({
        "protocolVersion": version,
        "capabilities": capabilities(cx),
        "serverInfo": server_info(cx),
    });
    Ok(instructed(cx, result).to_string())
}

fn discover(cx: &ReactionContext) -> Result<String, ScriptedRefusal> {
    let versions = cx.stage.script.modern_versions();
    if versions.is_empty() {
        return Err(ScriptedRefusal(
            RpcCode::METHOD_NOT_FOUND,
            "Method not found: server/discover".to_owned(),
            Value::Null,
        ));
    }
    let asked = cx.lookup("params").unwrap_or_default()["_meta"][META_VERSION].clone();
    if asked.as_str().is_some_and(|asked| !versions.contains(&asked)) {
        let data = json!({"supported": versions, "requested": asked});
        return Err(ScriptedRefusal(
            RpcCode::UNSUPPORTED_VERSION,
            "Unsupported protocol version".to_owned(),
            data,
        ));
    }
    let result = json!({
        "supportedVersions": versions,
        "capabilities": capabilities(cx),
        "_meta": {META_SERVER: server_info(cx)},
    });
    Ok(cached(cx, instructed(cx, result)))
}

/// One page of a list; cursors are `page-N`.
fn list(
    cx: &ReactionContext,
    key: &str,
    template: Option<&Value>,
) -> Result<String, ScriptedRefusal> {
    let entries = template.map(|list| template::entries(list, cx)).unwrap_or_default();
    let size = cx.stage.script.page_size.unwrap_or(usize::MAX).max(1);
    let cursor = cx.lookup("params.cursor").unwrap_or_default();
    let page = match cursor.as_str() {
        None => 0,
        Some(cursor) => {
            cursor.strip_prefix("page-").and_then(|n| n.parse::<usize>().ok()).ok_or_else(|| {
                ScriptedRefusal(
                    RpcCode::INVALID_PARAMS,
                    format!("Unknown cursor {cursor:?}"),
                    Value::Null,
                )
            })?
        }
    };
    let begin = page.saturating_mul(size).min(entries.len());
    let end = begin.saturating_add(size).min(entries.len());
    let mut text = format!("{{\"{key}\":[{}]", entries[begin..end].join(","));
    if end < entries.len() {
        let _ = write!(text, r#","nextCursor":"page-{}""#, page + 1);
    }
    if is_modern(cx) {
        let rest = cached(cx, json!({}));
        text.push(',');
        text.push_str(rest.trim_start_matches('{'));
    } else {
        text.push('}');
    }
    Ok(text)
}

/// Whether the request is of the `server/discover` era: such a request carries its version.
fn is_modern(cx: &ReactionContext) -> bool {
    cx.lookup("params").is_some_and(|params| params["_meta"].get(META_VERSION).is_some())
}

/// A result with the fields that its era requires of every result.
pub(crate) fn complete(cx: &ReactionContext, result: &Value) -> String {
    let mut result = result.clone();
    if is_modern(cx) && result.is_object() && result.get("resultType").is_none() {
        result["resultType"] = "complete".into();
    }
    result.to_string()
}

/// A cacheable result: with `ttlMs` and `cacheScope` in the modern era.
fn cached(cx: &ReactionContext, mut result: Value) -> String {
    if is_modern(cx) {
        result["resultType"] = "complete".into();
        result["ttlMs"] = cx.stage.script.ttl_ms.unwrap_or(0).into();
        let scope = cx.stage.script.cache_scope.as_deref().unwrap_or("private");
        result["cacheScope"] = scope.into();
    }
    result.to_string()
}

/// The notification that opens a subscription (`subscriptions/listen`).
pub(crate) fn listen_begin(id: &Value, params: &Value) -> String {
    let params =
        json!({"notifications": params["notifications"], "_meta": {META_SUBSCRIPTION: id}});
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": params,
    })
    .to_string()
}

/// The result that ends a subscription.
pub(crate) fn listen_end(id: &Value) -> String {
    let result = json!({"resultType": "complete", "_meta": {META_SUBSCRIPTION: id}});
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// A notification for one subscription: with its id in `_meta`.
pub(crate) fn for_listener(mut params: Value, id: &Value) -> Value {
    if !params.is_object() {
        params = json!({});
    }
    params["_meta"][META_SUBSCRIPTION] = id.clone();
    params
}
