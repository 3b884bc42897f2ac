//! One entry of a file for a form: its value with secrets masked, the schema to edit it by, and the
//! reverse step, which puts the original values back for untouched masks. Secrets are never shown.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{EditError, named, parsed};
use crate::json_schema;
use crate::keys::{PROCESS, SERVER, URLS};
use crate::mask::{self, behind_scheme, masked_address, masked_arguments};
use base::ServerName;
use base::secret::MASK;

/// An entry that is safe to show.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownEntry {
    /// The file it is in.
    pub file: PathBuf,
    /// Its name.
    pub name: ServerName,
    /// Its value, secrets masked.
    pub shown: Value,
}

/// Objects whose values are secrets unless they are references.
const SECRET_OBJECTS: [&str; 2] = ["env", "headers"];

/// Reads an entry for showing.
///
/// # Errors
/// When the file cannot be read or parsed, or has no such server.
pub fn shown_entry(file: &Path, name: &ServerName) -> Result<ShownEntry, EditError> {
    let written = written(&super::read_for_edit(file)?.unwrap_or_default(), name)?;
    Ok(ShownEntry { file: file.to_path_buf(), name: name.clone(), shown: masked(&written) })
}

/// The entry as written in a text.
pub(super) fn written(text: &str, name: &ServerName) -> Result<Value, EditError> {
    let doc = parsed(text)?;
    let found = named(&doc.root, name)?;
    let mut value = found.node.to_json();
    if found.parent.is_list()
        && let Some(entry) = value.as_object_mut()
    {
        // In a list, `id` is the name.
        entry.shift_remove("id");
    }
    Ok(value)
}

/// The value to write for an edited entry of a text.
///
/// # Errors
/// [`EditError::Refused`] when the entry has changed since, or a mask is used where nothing was
/// masked.
pub fn restored_entry(text: &str, before: &ShownEntry, edited: &Value) -> Result<Value, EditError> {
    let written = written(text, &before.name)?;
    if masked(&written) != before.shown {
        return Err(EditError::Refused(format!(
            "`{}` was changed in the file meanwhile: nothing was written; leave and edit it again",
            before.name
        )));
    }
    unmasked(edited, &before.shown, &written)
}

/// An entry with its secrets masked; references to variables and inputs are not secret and stay.
pub fn masked(entry: &Value) -> Value {
    let mut out = entry.clone();
    let Some(map) = out.as_object_mut() else { return out };
    for of in SECRET_OBJECTS {
        match map.get_mut(of) {
            Some(Value::Object(values)) => values.values_mut().for_each(hide),
            // Of the wrong type, but still a secret.
            Some(other) => hide(other),
            None => {}
        }
    }
    if let Some(Value::Array(args)) = map.get_mut("args") {
        let words: Vec<String> = args.iter().map(word).collect();
        for (arg, shown) in args.iter_mut().zip(masked_arguments(&words)) {
            if word(arg) != shown {
                *arg = Value::String(shown);
            }
        }
    }
    for key in ADDRESSES {
        if let Some(url) = map.get(key).and_then(Value::as_str) {
            let url = masked_address(url);
            map.insert(key.to_owned(), json!(url));
        }
    }
    out
}

/// Keys of strings that may contain a secret: addresses, and a command that includes arguments.
const ADDRESSES: [&str; 4] = ["url", "httpUrl", "serverUrl", "command"];

fn hide(value: &mut Value) {
    if !value.is_null() && !value.as_str().is_some_and(is_reference) {
        *value = json!(MASK);
    }
}

/// Whether a value is only a reference, optionally after an authorisation scheme.
fn is_reference(value: &str) -> bool {
    let value = behind_scheme(value);
    value.is_empty() || mask::is_reference(value)
}

/// An argument as compared: a string unchanged, anything else as JSON.
fn word(arg: &Value) -> String {
    arg.as_str().map_or_else(|| arg.to_string(), str::to_owned)
}

/// Replaces each mask with the value it stands for.
fn unmasked(edited: &Value, shown: &Value, written: &Value) -> Result<Value, EditError> {
    let mut out = edited.clone();
    let Some(map) = out.as_object_mut() else { return Ok(out) };
    let missing = |place: &str| {
        EditError::Refused(format!(
            "{place}: type the value; {MASK} only stands for one that was hidden"
        ))
    };
    for of in SECRET_OBJECTS {
        let hidden = |at: Option<&Value>| at == Some(&json!(MASK));
        let (shown, written) = (shown.get(of), written.get(of));
        match map.get_mut(of) {
            Some(Value::Object(values)) => {
                for (key, value) in values.iter_mut().filter(|(_, value)| hidden(Some(*value))) {
                    let was = hidden(shown.and_then(|all| all.get(key)));
                    let before = written.and_then(|all| all.get(key)).filter(|_| was);
                    *value = before.cloned().ok_or_else(|| missing(&format!("{of}.{key}")))?;
                }
            }
            Some(value) if hidden(Some(value)) => {
                let before = written.filter(|_| hidden(shown));
                *value = before.cloned().ok_or_else(|| missing(of))?;
            }
            _ => {}
        }
    }
    if let Some(Value::Array(args)) = map.get_mut("args") {
        let list = |of: &Value| of.get("args").and_then(Value::as_array).cloned();
        whole_arguments(args, &list(shown).unwrap_or_default(), &list(written).unwrap_or_default())
            .map_err(|i| missing(&format!("args[{i}]")))?;
    }
    for key in ADDRESSES {
        let Some(text) = map.get(key).and_then(Value::as_str) else { continue };
        if text.contains(MASK) {
            let same = shown.get(key).and_then(Value::as_str) == Some(text);
            let before = written.get(key).filter(|_| same).cloned();
            map.insert(key.to_owned(), before.ok_or_else(|| missing(key))?);
        }
    }
    Ok(out)
}

/// Replaces masked arguments with the originals, wherever they were moved; the error is the index
/// of a mask that stands for nothing.
fn whole_arguments(args: &mut [Value], shown: &[Value], written: &[Value]) -> Result<(), usize> {
    let hidden = |arg: &Value| word(arg).contains(MASK);
    let mut stand_ins: Vec<(&Value, &Value)> =
        shown.iter().zip(written).filter(|(shown, old)| hidden(shown) && shown != old).collect();
    for (i, arg) in args.iter_mut().enumerate() {
        match stand_ins.iter().position(|(shown, _)| *shown == arg) {
            Some(at) => *arg = stand_ins.remove(at).1.clone(),
            None if hidden(arg) && !written.contains(arg) => return Err(i),
            None => {}
        }
    }
    Ok(())
}

/// The key of the name in a form; no setting has this key.
pub const ENTRY_NAME: &str = "name";

/// The schema to edit an entry by: the name first, then the settings that fit its transport.
pub fn entry_schema(entry: &Value) -> Value {
    let whole = json_schema();
    let has = |key: &str| entry.get(key).is_some();
    let remote = URLS.into_iter().any(has);
    let process = has("command") || has("launch") || !remote;
    let other: &[&str] = match (process, remote) {
        (true, false) => &["url", "headers"],
        (false, true) => &PROCESS,
        _ => &[],
    };
    let aliases = SERVER.keys.iter().filter(|key| key.alias_of.is_some()).map(|key| key.name);
    let spellings: Vec<&str> = aliases.chain(["transport", "id", "enabled", "isActive"]).collect();
    let mut properties = Map::new();
    let name = json!({ "type": "string", "title": "name", "minLength": 1,
        "description": "Its tools are called by it: NAME.tool" });
    properties.insert(ENTRY_NAME.to_owned(), name);
    let all = whole.pointer("/$defs/server/properties").and_then(Value::as_object);
    for (key, schema) in all.into_iter().flatten() {
        let left_out = other.contains(&key.as_str()) || spellings.contains(&key.as_str());
        if has(key) || !left_out {
            properties.insert(key.clone(), schema.clone());
        }
    }
    // The form writes environment values as strings; a file may hold numbers too.
    let texts = |env: &Value| env.as_object().is_some_and(|e| e.values().all(Value::is_string));
    if let Some(env) = properties.get_mut("env")
        && entry.get("env").is_none_or(texts)
    {
        env["additionalProperties"] = json!({ "type": "string" });
    }
    let mut required = vec![ENTRY_NAME];
    if process && !remote && !has("launch") {
        required.push("command");
    }
    json!({ "type": "object", "properties": properties, "required": required,
        "$defs": whole.get("$defs").cloned().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"servers":{"a":{"command":"x",
        "args":["--token","s3cret-one","-v","--token","s3cret-two","${REF}"],
        "env":{"K":"s3cret","N":7,"R":"${K}","B":"Bearer ${T}","D":"${X:-s3cret}"},
        "vendor":{"kept":true}}}}"#;

    fn open(text: &str) -> ShownEntry {
        let name = ServerName::new("a");
        let shown = masked(&written(text, &name).expect("there"));
        ShownEntry { file: "mcp.json".into(), name, shown }
    }

    #[test]
    fn no_secret_is_shown_and_references_are() {
        let entry = open(TEXT);
        let text = entry.shown.to_string();
        assert!(!text.contains("s3cret"), "{text}");
        assert_eq!(entry.shown["env"]["R"], "${K}");
        assert_eq!(entry.shown["env"]["B"], "Bearer ${T}");
        assert_eq!(entry.shown["args"][5], "${REF}");
    }

    #[test]
    fn what_is_of_the_wrong_type_is_masked_too_and_comes_back() {
        let text = r#"{"servers":{"a":{"command":"x --token s3cret",
            "args":["--token","s3cret-one",5,"-H","Authorization: Bearer s3cret"],
            "env":["TOKEN=s3cret"],"headers":"X-Key: s3cret","url":"https://s3cret@${H}/"}}}"#;
        let entry = open(text);
        assert!(!entry.shown.to_string().contains("s3cret"), "{}", entry.shown);
        assert_eq!(entry.shown["args"][2], 5);
        let same = restored_entry(text, &entry, &entry.shown).expect("restored");
        assert_eq!(same, written(text, &entry.name).expect("there"));
    }

    #[test]
    fn what_was_left_alone_comes_back_and_what_was_typed_stays() {
        let entry = open(TEXT);
        let same = restored_entry(TEXT, &entry, &entry.shown).expect("restored");
        assert_eq!(same, written(TEXT, &entry.name).expect("there"));
        let mut edited = entry.shown.clone();
        edited["env"]["K"] = json!("typed");
        edited["args"] = json!(["-v", "--token", MASK, "--token", MASK, "new"]);
        let out = restored_entry(TEXT, &entry, &edited).expect("restored");
        assert_eq!(out["env"]["K"], "typed");
        assert_eq!(out["env"]["N"], 7);
        assert_eq!(
            out["args"],
            json!(["-v", "--token", "s3cret-one", "--token", "s3cret-two", "new"])
        );
    }

    #[test]
    fn a_mask_that_stands_for_nothing_and_an_entry_that_changed_are_refused() {
        let entry = open(TEXT);
        for place in ["env", "headers"] {
            let mut edited = entry.shown.clone();
            edited[place] = json!({ "NEW": MASK });
            assert!(matches!(restored_entry(TEXT, &entry, &edited), Err(EditError::Refused(_))));
        }
        let mut edited = entry.shown.clone();
        edited["args"] = json!(["--other=***"]);
        assert!(matches!(restored_entry(TEXT, &entry, &edited), Err(EditError::Refused(_))));
        let newer = TEXT.replace("\"-v\"", "\"-vv\"");
        assert!(matches!(restored_entry(&newer, &entry, &entry.shown), Err(EditError::Refused(_))));
    }

    #[test]
    fn the_schema_has_what_fits_the_entry_and_what_the_entry_has() {
        let keys = |entry: Value| -> Vec<String> {
            entry_schema(&entry)["properties"]
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect()
        };
        let process = keys(json!({ "command": "x", "dependsOn": [] }));
        let has = |keys: &[String], key: &str| keys.iter().any(|k| k == key);
        assert_eq!(process[0], ENTRY_NAME);
        assert!(has(&process, "args") && has(&process, "dependsOn") && !has(&process, "url"));
        assert!(!has(&process, "timeoutMs"));
        let launched = entry_schema(&json!({ "launch": { "uv": "x" } }));
        assert_eq!(launched["required"], json!([ENTRY_NAME]), "a package brings its own program");
        let remote = keys(json!({ "url": "http://h" }));
        assert!(has(&remote, "headers") && !has(&remote, "command"));
    }
}
