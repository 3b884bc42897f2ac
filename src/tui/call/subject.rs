//! The subject of a call: a tool, prompt, resource template, resource or any method, with the
//! schema of its form. Pure.

use serde_json::{Map, json};

use super::template;
use crate::prelude::*;
use base::text::json::WrittenNumbers;
use config::ContentLimits;
use protocol::{Prompt, Resource, Tool};
use schema::{Outline, SchemaDocument};

/// The kind of a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SubjectKind {
    /// `tools/call`
    #[default]
    Tool,
    /// `prompts/get`
    Prompt,
    /// `resources/read`, URI from a template
    Template,
    /// `resources/read`
    Resource,
    /// Any JSON-RPC request.
    Request,
}

/// Methods of MCP that a client may request, for completion, in alphabetical order.
pub const METHODS: &str = "completion/complete logging/setLevel ping prompts/get prompts/list \
    resources/list resources/read resources/subscribe resources/templates/list \
    resources/unsubscribe server/discover tasks/cancel tasks/get tasks/list tasks/result \
    tools/call tools/list";

/// The subject of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallSubject {
    pub server: ServerName,
    pub kind: SubjectKind,
    /// Name, URI or template on the wire.
    pub wire: Arc<str>,
    /// Name to draw.
    pub label: SafeText,
    /// Title to draw.
    pub title: Option<SafeText>,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// Its annotation in words, or empty if there is none.
    pub manner: &'static str,
    /// Schema of the form.
    pub schema: Arc<Value>,
    /// The numbers of the schema as its server writes them.
    pub numbers: WrittenNumbers,
    /// Size of the definition in bytes, which tells that something else of it changed.
    pub bytes: usize,
    /// Limits for content sent by its server.
    pub limits: ContentLimits,
    /// Whether its results can be shown in an app.
    pub has_app: bool,
    /// Command line or URL of its server, for copying.
    pub target: SafeText,
}

impl CallSubject {
    pub fn tool(server: &ServerName, tool: &Tool) -> Self {
        Self {
            title: tool.title.clone(),
            description: tool.description.clone(),
            manner: tool.hints.manner(),
            schema: Arc::clone(&tool.input_schema),
            numbers: tool.raw.numbers.below("/inputSchema"),
            has_app: tool.app().is_some(),
            bytes: tool.raw.to_string().len(),
            ..Self::bare(server, SubjectKind::Tool, &tool.name, &tool.label)
        }
    }

    /// A prompt; its arguments are text on the wire (MCP, server features, prompts).
    pub fn prompt(server: &ServerName, prompt: &Prompt) -> Self {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for argument in &prompt.arguments {
            let mut field = json!({"type": "string", "title": argument.label.as_str()});
            if let Some(description) = &argument.description {
                field["description"] = json!(description.as_str());
            }
            properties.insert(argument.name.to_string(), field);
            if argument.required {
                required.push(argument.name.to_string());
            }
        }
        Self {
            title: prompt.title.clone(),
            description: prompt.description.clone(),
            manner: "",
            schema: Arc::new(closed(properties, &required)),
            bytes: prompt.raw.to_string().len(),
            ..Self::bare(server, SubjectKind::Prompt, &prompt.name, &prompt.label)
        }
    }

    /// A resource template; its variables are the fields.
    pub fn template(server: &ServerName, template: &Resource) -> Self {
        let mut properties = Map::new();
        for variable in template::variables(&template.uri).unwrap_or_default() {
            let field = if variable.explode {
                json!({"type": ["array", "string"], "items": {"type": "string"}})
            } else {
                json!({"type": "string"})
            };
            properties.insert(variable.name, field);
        }
        Self {
            title: template.title.clone().or_else(|| Some(template.name.clone())),
            description: template.description.clone(),
            schema: Arc::new(closed(properties, &[])),
            bytes: template.raw.to_string().len(),
            ..Self::bare(server, SubjectKind::Template, &template.uri, &template.label)
        }
    }

    /// A resource: nothing to fill in.
    pub fn resource(server: &ServerName, resource: &Resource) -> Self {
        Self {
            title: resource.title.clone().or_else(|| Some(resource.name.clone())),
            description: resource.description.clone(),
            bytes: resource.raw.to_string().len(),
            ..Self::bare(server, SubjectKind::Resource, &resource.uri, &resource.label)
        }
    }

    /// A resource known only by its URI, such as the target of a link in a result.
    pub fn uri(server: &ServerName, uri: &str) -> Self {
        Self::bare(server, SubjectKind::Resource, &uri.into(), &SafeText::line(uri))
    }

    /// Any JSON-RPC request: its method and its parameters are the fields.
    pub fn request(server: &ServerName) -> Self {
        let method =
            json!({"type": "string", "minLength": 1, "description": "Method of the request"});
        let params = json!({"type": "object", "description": "Its `params`, as JSON"});
        let mut fields = Map::new();
        fields.insert("method".to_owned(), method);
        fields.insert("params".to_owned(), params);
        let label = SafeText::line("JSON-RPC request");
        Self {
            manner: "",
            schema: Arc::new(closed(fields, &["method".to_owned()])),
            ..Self::bare(server, SubjectKind::Request, &"request".into(), &label)
        }
    }

    /// A subject of which only the name is known: it reads, and takes no arguments.
    fn bare(server: &ServerName, kind: SubjectKind, wire: &Arc<str>, label: &SafeText) -> Self {
        Self {
            server: server.clone(),
            kind,
            wire: Arc::clone(wire),
            label: label.clone(),
            manner: "read-only",
            schema: Arc::new(closed(Map::new(), &[])),
            ..Self::default()
        }
    }

    /// The parts of the definition that differ in `newer`, in words.
    pub fn changed_parts(&self, newer: &Self) -> Vec<&'static str> {
        let parts = [
            (self.schema != newer.schema, "parameters"),
            (self.description != newer.description, "description"),
            (self.title != newer.title, "title"),
            (self.manner != newer.manner, "behaviour"),
        ];
        let mut parts: Vec<_> = parts.into_iter().filter_map(|(is, it)| is.then_some(it)).collect();
        if parts.is_empty() && self.bytes != newer.bytes {
            parts.push("other fields");
        }
        parts
    }

    /// Whether there are arguments to fill in; `document` is its schema.
    pub fn has_arguments(&self, document: &SchemaDocument) -> bool {
        let outline = Outline::new(document);
        !outline.properties().is_empty() || !outline.is_closed() && self.kind == SubjectKind::Tool
    }

    /// Whether its server is reached by URL.
    pub fn has_address(&self) -> bool {
        self.target.starts_with("http://") || self.target.starts_with("https://")
    }

    /// Its name qualified with that of its server.
    pub fn canonical(&self) -> String {
        format!("{}.{}", self.server, self.wire)
    }

    /// The URI that is read with these arguments.
    ///
    /// # Errors
    /// A message if the template is invalid.
    pub fn expanded(&self, arguments: &Value) -> Result<String, String> {
        match self.kind {
            SubjectKind::Template => template::expand(&self.wire, arguments),
            _ => Ok(self.wire.to_string()),
        }
    }

    /// The key of its history and drafts.
    pub fn key(&self) -> String {
        match self.kind {
            SubjectKind::Tool => self.canonical(),
            SubjectKind::Prompt => format!("prompt:{}", self.canonical()),
            SubjectKind::Template | SubjectKind::Resource => {
                format!("uri:{}:{}", self.server, self.wire)
            }
            SubjectKind::Request => format!("request:{}", self.server),
        }
    }

    /// The schema of the form.
    pub fn document(&self) -> SchemaDocument {
        SchemaDocument::written(&self.schema, &self.numbers)
    }

    /// The label of the submit line.
    pub const fn verb(&self) -> &'static str {
        match self.kind {
            SubjectKind::Tool => "Call",
            SubjectKind::Prompt => "Get",
            SubjectKind::Template | SubjectKind::Resource => "Read",
            SubjectKind::Request => "Send",
        }
    }

    /// Whether the server can complete its fields (`completion/complete`).
    pub const fn completes(&self) -> bool {
        matches!(self.kind, SubjectKind::Prompt | SubjectKind::Template)
    }

    /// The parameters of `completion/complete` for one field (MCP, utilities, completion).
    pub fn completion(&self, argument: &str, value: &str, all: &Value) -> Option<Value> {
        let reference = match self.kind {
            SubjectKind::Prompt => json!({"type": "ref/prompt", "name": &*self.wire}),
            SubjectKind::Template => json!({"type": "ref/resource", "uri": &*self.wire}),
            _ => return None,
        };
        let mut params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        let others: Map<String, Value> = all
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, v)| *name != argument && v.is_string())
            .map(|(name, v)| (name.clone(), v.clone()))
            .collect();
        if !others.is_empty() {
            params["context"] = json!({"arguments": others});
        }
        Some(params)
    }
}

fn closed(properties: Map<String, Value>, required: &[String]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}
