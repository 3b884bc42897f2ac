//! The rich demo server: tools with every kind of schema, structured results, images, sound,
//! prompts with completion, resources and templates. Speaks through rmcp's server side.

use std::borrow::Cow;

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

use crate::demo::{library, tools};

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

impl Atlas {
    pub(crate) fn new() -> Self {
        Self {
            catalogue: serde_json::from_str(CATALOGUE).unwrap_or_default(),
            logbook: Mutex::default(),
            subscribed: Mutex::default(),
        }
    }

    fn logbook(&self) -> parking_lot::MutexGuard<'_, Vec<Value>> {
        self.logbook.lock()
    }

    fn list<T: DeserializeOwned>(&self, key: &str) -> Result<T, ErrorData> {
        typed(json!({key: self.catalogue[key]}))
    }

    /// Tells a host that subscribed to the logbook that it changed.
    async fn logbook_changed(&self, context: &Context) {
        const URI: &str = "atlas://logbook";
        let wanted = {
            let subscribed = self.subscribed.lock();
            subscribed.iter().any(|uri| uri == URI)
        };
        if wanted {
            let params = rmcp::model::ResourceUpdatedNotificationParam::new(URI);
            let _ = context.peer.notify_resource_updated(params).await;
        }
    }
}

/// A value of the catalogue as one of rmcp's types.
fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
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

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        self.list("tools")
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.list("prompts")
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.list("resources")
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.list("resourceTemplates")
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let result = match &*request.name {
            "file_report" => {
                let count = {
                    let mut logbook = self.logbook();
                    logbook.push(arguments);
                    logbook.len()
                };
                self.logbook_changed(&context).await;
                tools::said(&format!("Filed. The logbook holds {count}."))
            }
            "erase_logbook" => {
                let count = std::mem::take(&mut *self.logbook()).len();
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
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default().into_iter().collect());
        let prompt = library::prompt(&request.name, &arguments)
            .map_err(|error| ErrorData::invalid_params(error, None))?;
        Ok(GetPromptResponse::Complete(typed::<GetPromptResult>(prompt)?))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let logbook = Value::Array(self.logbook().clone());
        let content = library::read(&request.uri, &self.catalogue, &logbook).ok_or_else(|| {
            let data = json!({"uri": request.uri});
            ErrorData::resource_not_found("Resource not found", Some(data))
        })?;
        let result = typed::<ReadResourceResult>(json!({"contents": [content]}))?;
        Ok(ReadResourceResponse::Complete(result))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let from = request.context.as_ref().and_then(|context| context.get_argument("from"));
        let from = from.map(String::as_str);
        let values = library::complete(&request.argument.name, &request.argument.value, from);
        typed(json!({"completion": {"total": values.len(), "values": values, "hasMore": false}}))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: Context,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().push(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: Context,
    ) -> Result<(), ErrorData> {
        let mut subscribed = self.subscribed.lock();
        subscribed.retain(|uri| *uri != request.uri);
        Ok(())
    }
}
