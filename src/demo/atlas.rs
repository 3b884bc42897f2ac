//! The rich demo server: tools with every kind of schema, structured results, images, sound,
//! prompts with completion, resources and templates. Speaks through rmcp's server side.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerConfig, SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::geo::Airport;
use super::{chart, geo, tools};

/// What the server offers, as data.
pub(crate) const CATALOGUE: &str = include_str!("atlas.json");

/// The server: its catalogue and the logbook that its tools change.
#[derive(Debug)]
pub(crate) struct Atlas {
    catalogue: Value,
    logbook: Mutex<Vec<Value>>,
    subscribed: Mutex<Vec<String>>,
}

type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;
type Answer<T> = Result<T, ErrorData>;

impl Atlas {
    pub(crate) fn new() -> Self {
        Self {
            catalogue: serde_json::from_str(CATALOGUE).unwrap_or_default(),
            logbook: Mutex::default(),
            subscribed: Mutex::default(),
        }
    }

    fn list<T: DeserializeOwned>(&self, key: &str) -> Answer<T> {
        typed(json!({key: self.catalogue[key]}))
    }

    /// Tells a host that subscribed to the logbook that it changed.
    async fn logbook_changed(&self, context: &Context) {
        const URI: &str = "atlas://logbook";
        let wanted = self.subscribed.lock().iter().any(|uri| uri == URI);
        if wanted {
            let params = rmcp::model::ResourceUpdatedNotificationParam::new(URI);
            let _ = context.peer.notify_resource_updated(params).await;
        }
    }
}

/// A value of the catalogue as one of rmcp's types.
fn typed<T: DeserializeOwned>(value: Value) -> Answer<T> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

impl ServerHandler for Atlas {
    fn get_info(&self) -> ServerConfig {
        let info = json!({
            "protocolVersion": "2025-11-25",
            "serverInfo": {"name": "atlas", "title": "Atlas", "version": env!("CARGO_PKG_VERSION")},
            "capabilities": {
                "tools": {}, "prompts": {}, "completions": {},
                "resources": {"subscribe": true},
            },
            "instructions": self.catalogue["instructions"],
        });
        typed(info).unwrap_or_default()
    }

    /// The subscription of the logbook is of the `initialize` era, so the server is too.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25])
    }

    async fn list_tools(&self, _: Page, _: Context) -> Answer<ListToolsResult> {
        self.list("tools")
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Answer<ListPromptsResult> {
        self.list("prompts")
    }

    async fn list_resources(&self, _: Page, _: Context) -> Answer<ListResourcesResult> {
        self.list("resources")
    }

    async fn list_resource_templates(
        &self,
        _: Page,
        _: Context,
    ) -> Answer<ListResourceTemplatesResult> {
        self.list("resourceTemplates")
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Answer<CallToolResponse> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let result = match &*request.name {
            "file_report" => {
                let count = {
                    let mut logbook = self.logbook.lock();
                    logbook.push(arguments);
                    logbook.len()
                };
                self.logbook_changed(&context).await;
                tools::said(&format!("Filed. The logbook holds {count}."))
            }
            "erase_logbook" => {
                let count = std::mem::take(&mut *self.logbook.lock()).len();
                self.logbook_changed(&context).await;
                tools::said(&format!("Erased {count}."))
            }
            name => tools::call(name, &arguments, &self.catalogue)
                .ok_or_else(|| ErrorData::invalid_params(format!("Unknown tool: {name}"), None))?,
        };
        Ok(CallToolResponse::Complete(typed(result)?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Answer<GetPromptResponse> {
        let arguments = Value::Object(request.arguments.unwrap_or_default().into_iter().collect());
        let prompt = prompt(&request.name, &arguments)
            .map_err(|error| ErrorData::invalid_params(error, None))?;
        Ok(GetPromptResponse::Complete(typed::<GetPromptResult>(prompt)?))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Answer<ReadResourceResponse> {
        let logbook = Value::Array(self.logbook.lock().clone());
        let content = read(&request.uri, &self.catalogue, &logbook).ok_or_else(|| {
            let data = json!({"uri": request.uri});
            ErrorData::resource_not_found("Resource not found", Some(data))
        })?;
        let result = typed::<ReadResourceResult>(json!({"contents": [content]}))?;
        Ok(ReadResourceResponse::Complete(result))
    }

    async fn complete(&self, request: CompleteRequestParams, _: Context) -> Answer<CompleteResult> {
        let from = request.context.as_ref().and_then(|context| context.get_argument("from"));
        let from = from.map(String::as_str);
        let values = complete(&request.argument.name, &request.argument.value, from);
        typed(json!({"completion": {"total": values.len(), "values": values, "hasMore": false}}))
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: Context) -> Answer<()> {
        self.subscribed.lock().push(request.uri);
        Ok(())
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, _: Context) -> Answer<()> {
        self.subscribed.lock().retain(|uri| *uri != request.uri);
        Ok(())
    }
}

// The atlas server's prompts, resources and completions. Pure.

/// An airport as JSON.
pub(crate) fn airport(airport: &Airport) -> Value {
    json!({
        "code": airport.code,
        "name": airport.name,
        "city": airport.city,
        "country": airport.country,
        "latitude": airport.latitude,
        "longitude": airport.longitude,
        "elevationFeet": airport.elevation,
        "runwayMetres": airport.runway.1,
    })
}

/// The content of a resource, `None` when there is none.
pub(crate) fn read(uri: &str, catalogue: &Value, logbook: &Value) -> Option<Value> {
    let rest = uri.strip_prefix("atlas://")?;
    let parts: Vec<&str> = rest.split('/').collect();
    let (kind, text) = match parts.as_slice() {
        ["airports"] => {
            let all: Vec<Value> = geo::AIRPORTS.iter().map(airport).collect();
            ("application/json", format!("{:#}", Value::Array(all)))
        }
        ["logbook"] => ("application/json", format!("{logbook:#}")),
        ["manual", chapter] => {
            ("text/markdown", catalogue["manual"][*chapter].as_str()?.to_owned())
        }
        ["airport", code] => ("application/json", format!("{:#}", airport(geo::find(code)?))),
        ["metar", code, hour] => {
            let (place, hour) = (geo::find(code)?, hour.parse::<u32>().ok().filter(|h| *h < 24)?);
            ("text/plain", geo::weather(place, hour).metar(place.code, hour))
        }
        ["chart", "world"] => {
            let blob = BASE64_STANDARD.encode(chart::route(&[]));
            return Some(json!({"uri": uri, "mimeType": "image/png", "blob": blob}));
        }
        _ => return None,
    };
    Some(json!({"uri": uri, "mimeType": kind, "text": text}))
}

/// A prompt with its arguments filled in.
pub(crate) fn prompt(name: &str, arguments: &Value) -> Result<Value, String> {
    let given = |key: &str| {
        let value = arguments[key].as_str().filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("Argument {key} is missing"))
    };
    let messages = match name {
        "briefing" => {
            let find = |key| {
                let code = given(key)?;
                geo::find(code).ok_or_else(|| format!("Unknown airport: {code}"))
            };
            let (from, to) = (find("from")?, find("to")?);
            let tone = given("tone").unwrap_or("terse");
            let miles = geo::distance(from, to).round();
            let ask = format!(
                "Brief the crew for the flight from {} to {}, {miles} nautical miles. Be {tone}.",
                from.name, to.name
            );
            let weather = json!({
                "uri": format!("atlas://metar/{}/12", to.code),
                "mimeType": "text/plain",
                "text": geo::weather(to, 12).metar(to.code, 12),
            });
            json!([
                {"role": "user", "content": {"type": "text", "text": ask}},
                {"role": "user", "content": {"type": "resource", "resource": weather}},
            ])
        }
        "explain_metar" => {
            let ask =
                format!("Explain this weather report in plain words:\n\n{}", given("report")?);
            json!([{"role": "user", "content": {"type": "text", "text": ask}}])
        }
        "welcome_aboard" => json!([
            {"role": "user", "content": {"type": "text", "text": "Write the announcement before take-off, under sixty words."}},
            {"role": "assistant", "content": {"type": "text", "text": "Ladies and gentlemen, welcome aboard"}},
        ]),
        other => return Err(format!("Unknown prompt: {other}")),
    };
    Ok(json!({"messages": messages}))
}

/// Values that an argument of a prompt or of a template may take and that begin as typed. Nobody
/// flies to where `from` says they are.
pub(crate) fn complete(argument: &str, typed: &str, from: Option<&str>) -> Vec<String> {
    let all: Vec<String> = match argument {
        "from" | "to" | "code" => geo::AIRPORTS.iter().map(|a| a.code.to_owned()).collect(),
        "tone" => ["terse", "friendly", "pirate"].map(str::to_owned).to_vec(),
        "hour" => (0..24).map(|hour| hour.to_string()).collect(),
        _ => Vec::new(),
    };
    let typed = typed.to_lowercase();
    let here = |value: &String| argument == "to" && Some(value.as_str()) == from;
    all.into_iter()
        .filter(|value| !here(value) && value.to_lowercase().starts_with(&typed))
        .collect()
}
