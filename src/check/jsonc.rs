//! JSON with comments and trailing commas, for the files a person writes.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads and decodes a file.
///
/// # Errors
/// Names the file and what is wrong, with line and column where the syntax is.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Decodes a text; an empty one is an empty object.
///
/// # Errors
/// Says what is wrong.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = jsonc_parser::ParseOptions::default();
    let root = jsonc_parser::cst::CstRootNode::parse(text, &options).map_err(|e| e.to_string())?;
    let value = root.to_serde_value().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    serde_json::from_value(value).map_err(|e| e.to_string())
}
