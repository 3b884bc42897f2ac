//! Bodies of requests: JSON, forms, files, text (`OpenAPI` 3.1, Media Type and Encoding Objects).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::parameter::{ArgumentProblem, ParameterPlace, ValueStyle, text};
use crate::schemas::{ToolSchemas, is_binary, resolve};

/// How a body is written.
#[derive(Clone, Debug)]
enum BodyFormat {
    Json,
    /// `application/x-www-form-urlencoded`, with the styles of its fields.
    Form(IndexMap<String, ValueStyle>),
    /// `multipart/form-data`, with the fields that are files, and the media types of fields.
    Parts {
        files: Vec<String>,
        kinds: IndexMap<String, String>,
    },
    /// The argument as it is.
    Text,
    /// The argument decoded from base64.
    Bytes,
}

/// The body of an operation.
#[derive(Clone, Debug)]
pub(crate) struct ApiBody {
    /// Its name among the arguments of the tool.
    pub(crate) argument: String,
    pub(crate) is_required: bool,
    media_type: String,
    format: BodyFormat,
}

/// The part of a media type before its parameters, in lower case.
pub(crate) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a media type is JSON (RFC 6839, section 3.1).
pub(crate) fn is_json(essence: &str) -> bool {
    essence == "application/json" || essence.ends_with("+json")
}

impl ApiBody {
    /// Reads a Request Body Object: the body, and its schema as an argument. Of several media types
    /// the one is chosen that models write best. `None` when there is none to choose from.
    pub(crate) fn read<'d>(
        body: &'d Value,
        root: &'d Value,
        schemas: &mut ToolSchemas<'d>,
        argument: &str,
    ) -> Option<(Self, Value)> {
        let content = body.get("content")?.as_object()?;
        let rank = |media_type: &str| match essence(media_type).as_str() {
            kind if is_json(kind) => 0,
            // Any type will do: that of the schema.
            "*/*" | "application/*" => {
                let schema = content.get(media_type).and_then(|object| object.get("schema"));
                match schema.map(|schema| resolve(root, schema).unwrap_or(schema)) {
                    Some(schema) if is_binary(root, schema) => 5,
                    Some(schema) if schema["type"] == "string" => 3,
                    Some(_) => 0,
                    None => 5,
                }
            }
            "application/x-www-form-urlencoded" => 1,
            "multipart/form-data" => 2,
            kind if kind.starts_with("text/") => 3,
            kind if kind.contains("xml") => 4,
            _ => 5,
        };
        let (media_type, object) = content.iter().min_by_key(|(media_type, _)| rank(media_type))?;
        let written = object.get("schema");
        let mut schema = written.map_or_else(|| json!({}), |schema| schemas.convert(schema));
        let encoding = |name: &str| object.get("encoding").and_then(|all| all.get(name));
        let fields = || {
            let schema = written.map(|schema| resolve(root, schema).unwrap_or(schema));
            let all = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
            all.into_iter().flatten()
        };
        let format = match rank(media_type) {
            0 => BodyFormat::Json,
            1 => BodyFormat::Form(
                fields()
                    .map(|(name, _)| {
                        let none = Value::Null;
                        let object = encoding(name).unwrap_or(&none);
                        (name.clone(), ValueStyle::read(object, ParameterPlace::Query))
                    })
                    .collect(),
            ),
            2 => {
                let is_file = |schema: &Value| {
                    let items = resolve(root, schema).and_then(|schema| schema.get("items"));
                    is_binary(root, schema) || items.is_some_and(|items| is_binary(root, items))
                };
                let files = fields().filter(|(_, schema)| is_file(schema));
                let kinds = fields().filter_map(|(name, _)| {
                    let kind = encoding(name)?.get("contentType")?.as_str()?;
                    Some((name.clone(), kind.split(',').next().unwrap_or(kind).trim().to_owned()))
                });
                BodyFormat::Parts {
                    files: files.map(|(name, _)| name.clone()).collect(),
                    kinds: kinds.collect(),
                }
            }
            3 | 4 => {
                schema = json!({ "type": "string" });
                BodyFormat::Text
            }
            _ => {
                schema = json!({ "type": "string", "contentEncoding": "base64" });
                BodyFormat::Bytes
            }
        };
        let what = match &format {
            BodyFormat::Json => "The body, sent as JSON".to_owned(),
            BodyFormat::Bytes => format!("The body in base64, sent as {media_type}"),
            _ => format!("The body, sent as {media_type}"),
        };
        let description = body.get("description").and_then(Value::as_str).unwrap_or(&what);
        if let Some(schema) = schema.as_object_mut()
            && !schema.contains_key("description")
        {
            schema.insert("description".to_owned(), description.into());
        }
        let is_required = body.get("required").and_then(Value::as_bool).unwrap_or(false);
        // A range such as `*/*` is no type to send.
        let media_type = match &format {
            _ if !media_type.contains('*') => media_type,
            BodyFormat::Json => "application/json",
            BodyFormat::Text => "text/plain",
            BodyFormat::Form(_) | BodyFormat::Parts { .. } | BodyFormat::Bytes => {
                "application/octet-stream"
            }
        };
        let media_type = media_type.to_owned();
        Some((Self { argument: argument.to_owned(), is_required, media_type, format }, schema))
    }

    /// The body with its media type.
    ///
    /// # Errors
    /// When the value cannot be written in this format, or the system gives no random boundary.
    pub(crate) fn write(&self, value: &Value) -> Result<(String, Vec<u8>), ArgumentProblem> {
        let wrong = |what: &str| ArgumentProblem::new(&self.argument, what);
        let object = || value.as_object().ok_or_else(|| wrong("must be an object"));
        let media_type = self.media_type.clone();
        Ok(match &self.format {
            BodyFormat::Json => (media_type, value.to_string().into_bytes()),
            BodyFormat::Form(styles) => {
                let plain = ValueStyle::read(&Value::Null, ParameterPlace::Query);
                let pairs = object()?.iter().flat_map(|(name, value)| {
                    // An object has no form of its own (3.1, Encoding Object): as JSON.
                    let style = styles.get(name).copied().unwrap_or(plain);
                    style.pairs(name, value)
                });
                let pairs = pairs.map(|(name, value)| format!("{name}={value}"));
                (media_type, pairs.collect::<Vec<_>>().join("&").into_bytes())
            }
            BodyFormat::Parts { files, kinds } => {
                let boundary = base::file::random_hex::<16>()
                    .map_err(|error| wrong(&format!("cannot be sent: {error}")))?;
                let body = parts(object()?, files, kinds, &boundary)
                    .map_err(|name| wrong(&format!("`{name}` is not base64")))?;
                (format!("multipart/form-data; boundary={boundary}"), body)
            }
            BodyFormat::Text => (media_type, text(value).into_bytes()),
            BodyFormat::Bytes => {
                let bytes = decode(value).ok_or_else(|| wrong("is not base64"))?;
                (media_type, bytes)
            }
        })
    }
}

fn decode(value: &Value) -> Option<Vec<u8>> {
    let text: String = value.as_str()?.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    BASE64_STANDARD.decode(text).ok()
}

/// The parts of a form (RFC 7578); the error is the name of a file that is not base64.
fn parts(
    fields: &Map<String, Value>,
    files: &[String],
    kinds: &IndexMap<String, String>,
    boundary: &str,
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for (name, value) in fields {
        let is_file = files.contains(name);
        let several = match value {
            Value::Array(items) => items.iter().collect(),
            value => vec![value],
        };
        for value in several {
            let quoted = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
            let (file, default, bytes) = if is_file {
                let bytes = decode(value).ok_or_else(|| name.clone())?;
                (format!("; filename=\"{quoted}\""), Some("application/octet-stream"), bytes)
            } else {
                let kind = value.is_object().then_some("application/json");
                (String::new(), kind, text(value).into_bytes())
            };
            let kind = kinds.get(name).map(String::as_str).or(default);
            let kind = kind.filter(|kind| !kind.contains(['\r', '\n']));
            let kind = kind.map_or_else(String::new, |kind| format!("Content-Type: {kind}\r\n"));
            let head = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{quoted}\"{file}\r\n{kind}\r\n"
            );
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(&bytes);
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(out)
}
