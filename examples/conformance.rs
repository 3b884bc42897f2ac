//! The client that the official conformance suite drives: the real host, with
//! ordinary behaviour and nothing that knows the name of a scenario. It connects to the address
//! given last, calls every tool with what its schema asks for at least, reads every resource, gets
//! every prompt, accepts elicitations with the defaults of their schemas, and stops.
//!
//! ```text
//! cargo build --example conformance
//! conformance client --command "target/debug/examples/conformance" --requirements 2026-07-28
//! ```

use std::io::{self, Write};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpdeck::deck::TokenFiles;
use mcpdeck::host::{ApprovalRequest, CallOptions};
use mcpdeck::mcp::{Accounts, SignIn, SignInPrompt};
use mcpdeck::protocol::{Answer, RequestKind, Tool};
use mcpdeck::{Host, Startup};
use serde_json::{Map, Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().next_back().ok_or("the address of a server is missing")?;
    let entry = json!({"url": url, "timeout": 20, "startupTimeout": 20, "oauth": oauth()});
    let config = json!({"servers": {"suite": entry}});
    let tokens = tempfile::tempdir()?;
    let accounts = Accounts::new(Arc::new(TokenFiles::at(tokens.path()))).prompt(Arc::new(Browser));
    let host = Host::builder()
        .config_text(config.to_string())
        .startup(Startup::All)
        .accounts(accounts)
        .handler(answer)
        .initialize()
        .await?;
    let mut out = io::stderr().lock();
    for (tool, arguments) in calls(&host) {
        // The suite also asks for what a schema forbids, to see what is sent.
        let options = CallOptions::default().forced();
        match host.call_tool_with(&format!("suite.{tool}"), arguments, options).await {
            Ok(outcome) => writeln!(out, "{tool}: {}", outcome.text())?,
            Err(error) => writeln!(out, "{tool}: {}: {error}", error.code)?,
        }
    }
    let (resources, prompts) = rest(&host);
    for uri in resources {
        if let Err(error) = host.get_resource(&uri).await {
            writeln!(out, "{uri}: {error}")?;
        }
    }
    for (prompt, arguments) in prompts {
        if let Err(error) = host.get_prompt(&format!("suite.{prompt}"), arguments).await {
            writeln!(out, "{prompt}: {error}")?;
        }
    }
    host.shutdown().await;
    Ok(())
}

fn context() -> Value {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    serde_json::from_str(&context).unwrap_or_default()
}

/// How to sign in: with what the suite has registered, or with the address of a metadata document.
fn oauth() -> Value {
    let context = context();
    // A text of a configuration is expanded; what the suite says is taken as it is.
    let text = |key: &str| context[key].as_str().map(|text| text.replace("${", "$${"));
    let mut oauth =
        json!({"clientMetadataUrl": "https://conformance-test.local/client-metadata.json"});
    for (key, named) in [
        ("clientId", "client_id"),
        ("clientSecret", "client_secret"),
        ("privateKey", "private_key_pem"),
        ("assertion", "valid_jwt"),
    ] {
        if let Some(text) = text(named) {
            oauth[key] = json!(text);
        }
    }
    if let Some(id_token) = text("idp_id_token") {
        oauth["identityProvider"] = json!({
            "tokenEndpoint": text("idp_token_endpoint"),
            "clientId": text("idp_client_id"),
            "idToken": id_token,
        });
    }
    let grants = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    if grants.contains("client-credentials") {
        oauth["grant"] = json!("client_credentials");
    }
    oauth
}

/// A browser whose person agrees with everything: follows redirects until it is back.
struct Browser;

impl SignInPrompt for Browser {
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>> {
        async move {
            let answer = reqwest::get(request.url).await.map_err(|error| error.to_string())?;
            if answer.status().is_success() { Ok(None) } else { Err(answer.status().to_string()) }
        }
        .boxed()
    }
}

/// What the suite wants to be called (`MCP_CONFORMANCE_CONTEXT`), or else every tool once.
fn calls(host: &Host) -> Vec<(String, Value)> {
    let context = context();
    if let Some(wanted) = context["toolCalls"].as_array() {
        return wanted
            .iter()
            .filter_map(|call| Some((call["name"].as_str()?.to_owned(), call["arguments"].clone())))
            .collect();
    }
    let servers = host.get_tools();
    let tools = || servers.iter().flat_map(|(_, capabilities)| &capabilities.tools);
    let arguments = |of: &Tool| {
        let mut given = least(&of.input_schema);
        // A tool that takes a schema is given that of another one, exactly as it arrived.
        let other = tools().find(|other| other.name != of.name);
        if let (Some(schema), Some(other)) = (given.get_mut("schema"), other) {
            *schema = other.input_schema.as_ref().clone();
        }
        given
    };
    tools().map(|tool| (tool.name.to_string(), arguments(tool))).collect()
}

/// The addresses of all resources, and all prompts with a word for each required argument.
fn rest(host: &Host) -> (Vec<String>, Vec<(String, Value)>) {
    let (mut resources, mut prompts) = (Vec::new(), Vec::new());
    for (_, capabilities) in host.get_tools() {
        resources.extend(capabilities.resources.iter().map(|resource| resource.uri.to_string()));
        for prompt in &capabilities.prompts {
            let required = prompt.arguments.iter().filter(|argument| argument.required);
            let given: Map<String, Value> =
                required.map(|argument| (argument.name.to_string(), json!("word"))).collect();
            prompts.push((prompt.name.to_string(), Value::Object(given)));
        }
    }
    (resources, prompts)
}

/// The required properties of an object schema, each with its default or the least of its type.
fn least(schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let given: Map<String, Value> = required
        .iter()
        .filter_map(Value::as_str)
        .map(|name| (name.to_owned(), value_of(&schema["properties"][name])))
        .collect();
    Value::Object(given)
}

fn value_of(schema: &Value) -> Value {
    if let Some(default) = schema.get("default").or_else(|| schema["enum"].get(0)) {
        return default.clone();
    }
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => least(schema),
        _ => json!("word"),
    }
}

/// Accepts what is asked, as a person would who agrees with every suggestion.
async fn answer(request: Arc<ApprovalRequest>) -> Option<Answer> {
    let result = match request.kind {
        RequestKind::Sampling => json!({
            "role": "assistant",
            "content": {"type": "text", "text": "a model would speak here"},
            "model": "none",
            "stopReason": "endTurn",
        }),
        RequestKind::Elicitation => {
            let schema = &request.params["requestedSchema"];
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let content: Map<String, Value> =
                properties.iter().map(|(name, field)| (name.clone(), value_of(field))).collect();
            json!({"action": "accept", "content": content})
        }
        RequestKind::Roots => json!({"roots": []}),
        _ => return None,
    };
    Some(Answer::Result(result))
}
