//! The form of the roots shared with a server: its schema, its initial value, its result. Pure.

use std::path::Path;

use serde_json::{Value, json};

use config::RootConfig;

/// The schema of the form.
pub fn schema() -> Value {
    let folder = "a whole path, `~/...`, or a `file://` URI; the server is notified of changes";
    let root = json!({"type": "object", "required": ["folder"], "additionalProperties": false,
        "properties": {
            "folder": {"type": "string", "maxLength": 100, "description": folder},
            "name": {"type": "string", "maxLength": 100, "description": "what the server may call it"}}});
    json!({"type": "object", "required": ["roots"], "additionalProperties": false,
        "properties": {"roots": {"type": "array", "items": root}}})
}

/// The initial value of the form: the roots shared now, or one empty line.
pub fn value(roots: &[RootConfig]) -> Value {
    let one = |root: &RootConfig| match &root.name {
        Some(name) => json!({"folder": root.uri, "name": name}),
        None => json!({"folder": root.uri}),
    };
    let mut all: Vec<Value> = roots.iter().map(one).collect();
    if all.is_empty() {
        all.push(json!({"folder": ""}));
    }
    json!({ "roots": all })
}

/// The roots in a form; empty lines and duplicates are dropped. `home` replaces `~`.
///
/// # Errors
/// The index of the first line that does not name a folder, and why.
pub fn read(value: &Value, home: Option<&Path>) -> Result<Vec<RootConfig>, (usize, String)> {
    let mut roots: Vec<RootConfig> = Vec::new();
    let lines = value.get("roots").and_then(Value::as_array);
    for (n, line) in lines.into_iter().flatten().enumerate() {
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default().trim();
        if text("folder").is_empty() {
            continue;
        }
        let uri = uri(text("folder"), home).map_err(|reason| (n, reason))?;
        let name = Some(text("name")).filter(|name| !name.is_empty()).map(str::to_owned);
        if roots.iter().all(|root| root.uri != uri) {
            roots.push(RootConfig { uri, name });
        }
    }
    Ok(roots)
}

/// A folder as a `file://` URI (MCP 2025-11-25, client features, roots: no other scheme yet).
fn uri(place: &str, home: Option<&Path>) -> Result<String, String> {
    if place.contains("://") {
        let parsed = url::Url::parse(place).map_err(|e| format!("{place}: {e}"))?;
        return match parsed.scheme() {
            "file" => Ok(parsed.into()),
            other => Err(format!("`{other}:` cannot be shared, only folders and `file:`")),
        };
    }
    let path = match (place.strip_prefix('~'), home) {
        (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
        _ => std::path::PathBuf::from(place),
    };
    url::Url::from_directory_path(&path)
        .map(|url| url.as_str().trim_end_matches('/').to_owned())
        .map_err(|()| format!("{place}: write a whole path, or a `file://` URI"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(uri: &str, name: Option<&str>) -> RootConfig {
        RootConfig { uri: uri.to_owned(), name: name.map(str::to_owned) }
    }

    #[test]
    fn folders_become_uris_and_empty_lines_and_doubles_are_left_out() {
        let drive = if cfg!(windows) { "C:" } else { "" };
        let slash = if cfg!(windows) { "/" } else { "" };
        let home = std::path::PathBuf::from(format!("{drive}/home/ada"));
        let mut form = value(&[root("file:///srv/a b", None)]);
        let lines = form["roots"].as_array_mut().expect("a list");
        lines.push(json!({"folder": "~/notes", "name": " Notes "}));
        lines.push(json!({"folder": ""}));
        lines.push(json!({"folder": format!("{drive}/home/ada/notes")}));
        let notes = root(&format!("file://{slash}{drive}/home/ada/notes"), Some("Notes"));
        assert_eq!(read(&form, Some(&home)), Ok(vec![root("file:///srv/a%20b", None), notes]));
        assert_eq!(read(&value(&[]), None), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_folder_is_refused_where_it_stands() {
        for wrong in ["notes", "https://a.example/", "file//"] {
            let form = value(&[root("file:///a", None), root(wrong, None)]);
            assert_eq!(read(&form, None).map_err(|(line, _)| line), Err(1), "{wrong}");
        }
    }
}
