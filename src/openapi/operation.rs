//! Operations of a document, each as a tool.

use std::sync::Arc;

use base::text::percent;
use http::Method;
use serde_json::{Map, Value, json};
use url::Url;

use crate::body::ApiBody;
use crate::document::ApiDocument;
use crate::parameter::{ApiParameter, ParameterPlace, ValueStyle, argument_name};
use crate::schemas::{ToolSchemas, resolve};

/// What the entry sends with every request, which is no argument of a tool then.
#[derive(Clone, Debug, Default)]
pub struct EntryParts {
    /// Names of its headers, in lower case.
    pub headers: Vec<String>,
    /// Names in the query of its address.
    pub query: Vec<String>,
}

impl EntryParts {
    fn sends(&self, place: ParameterPlace, name: &str) -> bool {
        let has_header = |name: &str| self.headers.iter().any(|own| own.eq_ignore_ascii_case(name));
        match place {
            ParameterPlace::Path => false,
            ParameterPlace::Query => self.query.iter().any(|own| own == name),
            ParameterPlace::Cookie => has_header("cookie"),
            ParameterPlace::Header => has_header(name),
        }
    }
}

/// Headers that are no parameters: the first three are described in another way (3.1, Parameter
/// Object), the others belong to the connection.
const RESERVED_HEADERS: [&str; 9] = [
    "accept",
    "content-type",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "host",
    "transfer-encoding",
    "upgrade",
];

/// A part of the path of an operation.
#[derive(Clone, Debug)]
pub(crate) enum PathPiece {
    /// Text, encoded.
    Literal(String),
    /// The name of a parameter.
    Parameter(String),
}

/// One operation: the tool it is offered as, and how its calls become requests.
#[derive(Clone, Debug)]
pub struct ApiOperation {
    pub(crate) name: Arc<str>,
    pub(crate) tool: Value,
    pub(crate) method: Method,
    pub(crate) base: Url,
    pub(crate) template: String,
    pub(crate) path: Vec<PathPiece>,
    pub(crate) parameters: Vec<ApiParameter>,
    pub(crate) body: Option<ApiBody>,
}

/// An operation as it stands in the document.
pub(crate) struct OperationPlace<'d> {
    pub(crate) method: Method,
    pub(crate) template: &'d str,
    /// The Path Item Object.
    pub(crate) item: &'d Value,
    /// The Operation Object.
    pub(crate) object: &'d Value,
}

impl OperationPlace<'_> {
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.method, self.template)
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.object.get("operationId").and_then(Value::as_str).filter(|id| !id.trim().is_empty())
    }

    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.object.get("tags").and_then(Value::as_array);
        tags.into_iter().flatten().filter_map(Value::as_str)
    }
}

impl ApiOperation {
    /// The name of its tool.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The definition of its tool, as `tools/list` has it.
    pub fn tool(&self) -> &Value {
        &self.tool
    }

    /// Method and path, as `GET /pets/{id}`.
    pub fn label(&self) -> String {
        format!("{} {}", self.method, self.template)
    }

    /// Reads an operation; also how many sub-schemas its tool has.
    ///
    /// # Errors
    /// Why it cannot be offered.
    pub(crate) fn read(
        document: &ApiDocument,
        place: &OperationPlace<'_>,
        (base, name): (Url, String),
        entry: &EntryParts,
    ) -> Result<(Self, usize), String> {
        let root = document.root();
        let mut schemas = ToolSchemas::new(root, document.is_older());
        let path = pieces(place.template)?;
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let mut parameters = Vec::new();
        for written in written_parameters(root, place)? {
            let text = |key: &str| written.get(key).and_then(Value::as_str);
            let (Some(own), Some(at)) = (text("name"), text("in")) else {
                return Err("a parameter has no `name` or `in`".to_owned());
            };
            let Some(at) = ParameterPlace::from_word(at) else {
                return Err(format!("the parameter `{own}` goes into the unknown place `{at}`"));
            };
            let is_reserved = at == ParameterPlace::Header
                && RESERVED_HEADERS.iter().any(|name| own.eq_ignore_ascii_case(name));
            if is_reserved || entry.sends(at, own) {
                continue;
            }
            let argument = argument_name(own, at.as_str(), &properties);
            properties.insert(argument.clone(), parameter_schema(written, &mut schemas));
            let is_required = written.get("required") == Some(&Value::Bool(true));
            if is_required || at == ParameterPlace::Path {
                required.push(argument.clone());
            }
            let style = ValueStyle::read(written, at);
            parameters.push(ApiParameter { argument, name: own.to_owned(), place: at, style });
        }
        for piece in &path {
            let PathPiece::Parameter(own) = piece else { continue };
            let is_known =
                |one: &ApiParameter| one.place == ParameterPlace::Path && one.name == *own;
            if parameters.iter().any(is_known) {
                continue;
            }
            let argument = argument_name(own, "path", &properties);
            properties.insert(argument.clone(), json!({ "type": "string" }));
            required.push(argument.clone());
            let (place, name) = (ParameterPlace::Path, own.clone());
            let style = ValueStyle::read(&Value::Null, place);
            parameters.push(ApiParameter { argument, name, place, style });
        }
        let body = place.object.get("requestBody").map(|body| {
            resolve(root, body).ok_or("its `requestBody` leads nowhere in the document")
        });
        let body = body.transpose()?.and_then(|body| {
            let argument = argument_name("body", "request", &properties);
            ApiBody::read(body, root, &mut schemas, &argument)
        });
        let body = body.map(|(body, schema)| {
            properties.insert(body.argument.clone(), schema);
            if body.is_required {
                required.push(body.argument.clone());
            }
            body
        });
        let mut schema = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema["additionalProperties"] = json!(false);
        let definitions = schemas.definitions();
        if !definitions.is_empty() {
            schema["$defs"] = definitions.into();
        }
        let operation = Self {
            tool: definition(place, &name, schema),
            name: name.into(),
            method: place.method.clone(),
            base,
            template: place.template.to_owned(),
            path,
            parameters,
            body,
        };
        Ok((operation, schemas.count()))
    }
}

/// The tool of an operation. Its hints follow from the method (RFC 9110, section 9.2).
fn definition(place: &OperationPlace<'_>, name: &str, schema: Value) -> Value {
    let text = |key: &str| {
        let of = |object: &Value| {
            let text = object.get(key).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        of(place.object).or_else(|| of(place.item))
    };
    let summary = text("summary");
    let mut parts: Vec<String> = Vec::new();
    if place.object.get("deprecated") == Some(&Value::Bool(true)) {
        parts.push("Deprecated.".to_owned());
    }
    let description = text("description").filter(|text| Some(text) != summary.as_ref());
    parts.extend(summary.clone());
    parts.extend(description);
    parts.push(place.label());
    let method = &place.method;
    let mut tool = json!({ "name": name });
    if let Some(summary) = summary {
        tool["title"] = summary.into();
    }
    tool["description"] = parts.join("\n\n").into();
    tool["inputSchema"] = schema;
    tool["annotations"] = json!({
        "readOnlyHint": method.is_safe(),
        "destructiveHint": !method.is_safe() && *method != Method::POST,
        "idempotentHint": method.is_idempotent(),
        "openWorldHint": true,
    });
    tool
}

/// The parameters of the path item and of the operation; those of the operation win.
fn written_parameters<'d>(
    root: &'d Value,
    place: &OperationPlace<'d>,
) -> Result<Vec<&'d Value>, String> {
    let mut out: Vec<&Value> = Vec::new();
    for object in [place.item, place.object] {
        let list = object.get("parameters").and_then(Value::as_array);
        for written in list.into_iter().flatten() {
            let written = resolve(root, written)
                .ok_or("a parameter refers to what is not in the document")?;
            let is_same =
                |one: &&Value| one["name"] == written["name"] && one["in"] == written["in"];
            match out.iter().position(is_same) {
                Some(at) => out[at] = written,
                None => out.push(written),
            }
        }
    }
    Ok(out)
}

/// The schema of a parameter, with what is said beside it.
fn parameter_schema<'d>(written: &'d Value, schemas: &mut ToolSchemas<'d>) -> Value {
    let media = written.get("content").and_then(Value::as_object);
    let of_media = media.and_then(|media| media.values().next()?.get("schema"));
    let schema = written.get("schema").or(of_media);
    let mut schema = schema.map_or_else(|| json!({ "type": "string" }), |s| schemas.convert(s));
    if let Some(object) = schema.as_object_mut() {
        for key in ["description", "deprecated"] {
            if let Some(value) = written.get(key) {
                object.insert(key.to_owned(), value.clone());
            }
        }
    }
    schema
}

/// Whether a text is, or holds between slashes, a segment that leads out of its place in a path.
pub(crate) fn leaves_path(text: &str) -> bool {
    text.split(['/', '\\']).any(|part| part == "." || part == "..")
}

/// The parts of a path template.
fn pieces(template: &str) -> Result<Vec<PathPiece>, String> {
    if !template.starts_with('/') {
        return Err("its path does not begin with `/`".to_owned());
    }
    let (mut out, mut filled) = (Vec::new(), String::new());
    let mut rest = template;
    let mut put = |text: &str, out: &mut Vec<PathPiece>| {
        filled.push_str(text);
        if !text.is_empty() {
            out.push(PathPiece::Literal(percent::completed(text, "/:@!$&'()*+,;=")));
        }
        // In the place of a parameter, which is never empty and no dot segment itself.
        filled.push('x');
    };
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or("its path has a `{` without a `}`")?;
        put(before, &mut out);
        out.push(PathPiece::Parameter(name.to_owned()));
        rest = after;
    }
    put(rest, &mut out);
    filled.pop();
    if leaves_path(&percent::decoded(&filled)) {
        return Err("its path has `.` or `..` as a segment".to_owned());
    }
    if filled.contains(['?', '#']) {
        return Err("its path has a query or a fragment".to_owned());
    }
    Ok(out)
}
