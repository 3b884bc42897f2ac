//! Saved calls: `mcp.calls.json` beside `mcp.json`, made to be committed and run again.
//!
//! ```json
//! { "version": 1,
//!   "calls": {
//!     "weather in Oslo": { "tool": "weather.forecast", "arguments": { "city": "Oslo" } },
//!     "greeting":        { "prompt": "crew.greet", "arguments": { "name": "Ada" } },
//!     "readme":          { "resource": "file:///readme.md", "server": "files" } } }
//! ```
//! `timeout` (seconds) and `force` (send past validation) are optional. Owns the file; makes no
//! call.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::files::edit_file;
use crate::written::WrittenText;
use base::atomic::Readers;
use base::pointer::child_pointer;
use base::text::json::{WrittenNumbers, WrittenValue, pretty};
use base::text::nearest;
use config::put_member;

/// Name of the file beside `mcp.json`.
pub const SAVED_CALLS_FILE: &str = "mcp.calls.json";

/// All saved calls of one project, in file order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SavedCalls {
    /// Version of the format; 1.
    #[serde(default = "version")]
    pub version: u32,
    /// The calls by name.
    #[serde(default)]
    pub calls: IndexMap<String, SavedCall>,
}

const fn version() -> u32 {
    1
}

/// One saved call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedCall {
    /// What is called.
    #[serde(flatten)]
    pub target: SavedTarget,
    /// Arguments of a tool or prompt.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// Numbers of the arguments that are sent as the file writes them.
    #[serde(skip)]
    pub numbers: WrittenNumbers,
    /// Deadline in seconds instead of the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Send it even if validation fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// What a saved call calls; names as `server.tool`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", untagged)]
pub enum SavedTarget {
    /// A tool.
    Tool {
        /// Its name.
        tool: String,
    },
    /// A prompt.
    Prompt {
        /// Its name.
        prompt: String,
    },
    /// A resource.
    Resource {
        /// Its URI.
        resource: String,
        /// The server that offers it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
    },
}

impl SavedCall {
    /// A call of a tool by its canonical name.
    pub fn tool(name: impl Into<String>, arguments: &Value) -> Self {
        Self {
            target: SavedTarget::Tool { tool: name.into() },
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            numbers: WrittenNumbers::default(),
            timeout: None,
            force: false,
        }
    }

    /// The arguments as one value.
    pub fn arguments_value(&self) -> Value {
        Value::Object(self.arguments.clone())
    }

    /// The arguments with their numbers as they are written, and in place of them those of `more`, key
    /// by key.
    pub fn arguments_with(&self, more: &WrittenValue) -> WrittenValue {
        let (value, numbers) = (self.arguments_value(), self.numbers.clone());
        let mut all = WrittenValue { value, numbers };
        for key in more.as_object().into_iter().flat_map(Map::keys) {
            all.insert_written(key, more.part(&child_pointer("", key)));
        }
        all
    }
}

impl SavedCalls {
    /// The file that belongs to a configuration file.
    pub fn path_beside(config: &Path) -> PathBuf {
        config.with_file_name(SAVED_CALLS_FILE)
    }

    /// Reads the file; a missing file holds no calls. Comments and trailing commas are allowed, as
    /// in `mcp.json`.
    ///
    /// # Errors
    /// Names the file, the position and what is wrong.
    pub fn load(path: &Path) -> Result<Self, String> {
        WrittenText::find(path)?
            .map_or_else(|| Ok(Self::default()), |text| Self::from_written(&text))
    }

    fn from_written(text: &WrittenText) -> Result<Self, String> {
        text.whole()?;
        let written = text.written_value().map_err(|error| text.problem("", &error))?;
        let WrittenValue { value, numbers } = written;
        let wrong = |pointer: &str, message: &str| Err(text.problem(pointer, message));
        if value.get("version").is_some_and(|version| *version != 1) {
            return wrong("/version", "only version 1 is known");
        }
        let calls = match value.get("calls") {
            Some(Value::Object(calls)) => calls.clone(),
            None if value.is_object() => Map::new(),
            _ => return wrong("/calls", "write { \"calls\": { \"NAME\": { \"tool\": ... } } }"),
        };
        // Call by call, so that the message names the one that is wrong.
        let mut out = Self { version: 1, calls: IndexMap::new() };
        for (name, call) in calls {
            let pointer = child_pointer("/calls", &name);
            let Ok(mut call) = serde_json::from_value::<SavedCall>(call) else {
                let needs =
                    "a call needs `tool`, `prompt` or `resource`, and `arguments` as an object";
                return wrong(&pointer, needs);
            };
            let is_time = |s| Duration::try_from_secs_f64(s).is_ok_and(|time| !time.is_zero());
            if !call.timeout.is_none_or(is_time) {
                return wrong(&format!("{pointer}/timeout"), "it must be more than 0 seconds");
            }
            call.numbers = numbers.below(&format!("{pointer}/arguments"));
            out.calls.insert(name, call);
        }
        Ok(out)
    }

    /// The call of this name; a leading `@` is not part of it.
    ///
    /// # Errors
    /// When there is none; suggests a similar name.
    pub fn get(&self, name: &str) -> Result<&SavedCall, String> {
        let name = name.strip_prefix('@').unwrap_or(name);
        self.calls.get(name).ok_or_else(|| {
            let near = nearest(name, self.calls.keys(), 0.75);
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            format!("there is no saved call `{name}`{near}")
        })
    }

    /// Adds or replaces a call.
    pub fn set(&mut self, name: impl Into<String>, call: SavedCall) {
        self.version = 1;
        self.calls.insert(name.into(), call);
    }

    /// Puts one call into the file, created if missing: under a lock, so that concurrent changes of
    /// other windows are not lost, and with the rest of the text unchanged.
    ///
    /// # Errors
    /// Names the file and what is wrong with it; the file is then unchanged.
    pub fn put(path: &Path, name: &str, call: SavedCall) -> Result<(), String> {
        edit_file(path, Readers::Owner, |text| {
            let read = |text| Self::from_written(&WrittenText::new(path, text));
            let mut all = text.map(read).transpose()?.unwrap_or_default();
            let value = serde_json::to_value(&call).map_err(|error| error.to_string())?;
            all.set(name, call);
            let edited = text.and_then(|text| put_member(text, "calls", name, &value));
            Ok(Some(edited.unwrap_or_else(|| pretty(&all) + "\n")))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_saved_is_loaded_again_and_found_by_name_with_or_without_at() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = SavedCalls::path_beside(&dir.path().join("mcp.json"));
        assert_eq!(SavedCalls::load(&path).expect("no file is no call"), SavedCalls::default());
        let mut saved = SavedCalls::default();
        saved.set("oslo", SavedCall::tool("weather.forecast", &json!({"city": "Oslo", "days": 3})));
        saved.set(
            "readme",
            SavedCall {
                target: SavedTarget::Resource { resource: "file:///r".into(), server: None },
                arguments: Map::new(),
                numbers: WrittenNumbers::default(),
                timeout: Some(1.5),
                force: true,
            },
        );
        std::fs::write(&path, pretty(&saved)).expect("writable");
        let loaded = SavedCalls::load(&path).expect("readable");
        assert_eq!(loaded, saved);
        assert_eq!(
            loaded.get("@oslo").expect("there").arguments_value(),
            json!({"city": "Oslo", "days": 3})
        );
        let error = loaded.get("osla").expect_err("unknown");
        assert!(error.contains("did you mean oslo?"), "{error}");
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("listable").count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn a_call_that_is_put_into_a_file_leaves_the_rest_of_it_alone() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join(SAVED_CALLS_FILE);
        let text = "{ // ours\n  \"version\": 1,\n  \"calls\": {\n    // why\n    \"a\": { \"prompt\": \"x.y\" }\n  }\n}\n";
        std::fs::write(&path, text).expect("writable");
        let call = |n: u32| SavedCall::tool("a.t", &json!({"n": n}));
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || SavedCalls::put(path, &format!("n{n}"), call(n)));
            }
        });
        let all = SavedCalls::load(&path).expect("readable");
        assert_eq!(all.calls.len(), 9);
        assert_eq!(all.get("n7").expect("there"), &call(7));
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(text.contains("{ // ours\n") && text.contains("    // why\n"), "{text}");
        SavedCalls::put(&dir.path().join("new/mcp.calls.json"), "a", call(1)).expect("made");
        std::fs::write(&path, format!("\u{feff}{text}")).expect("writable");
        SavedCalls::put(&path, "marked", call(2)).expect("a byte order mark is no matter");
        assert_eq!(SavedCalls::load(&path).expect("readable").calls.len(), 10);
        std::fs::write(&path, "{\"calls\": [").expect("writable");
        assert!(SavedCalls::put(&path, "a", call(1)).is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "{\"calls\": [");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_stays_so_and_a_new_one_is_the_owners() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join(SAVED_CALLS_FILE);
        let mode = || std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        SavedCalls::put(&path, "a", SavedCall::tool("a.t", &json!({}))).expect("writable");
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("set");
        SavedCalls::put(&path, "a", SavedCall::tool("a.t", &json!({}))).expect("writable");
        assert_eq!(mode(), 0o644);
    }

    #[test]
    fn numbers_are_sent_as_the_file_writes_them_and_replaced_with_their_keys() {
        let text = r#"{ // exact
            "calls": {"big": {"tool": "a.b", "arguments": {"n": 123456789012345678901, "f": 1e3, "x": 1e400}}}}"#;
        let saved = SavedCalls::from_written(&WrittenText::new("c.json", text)).expect("readable");
        let call = saved.get("big").expect("there");
        let sent =
            |more: &str| call.arguments_with(&WrittenValue::parse(more).expect("JSON")).to_string();
        assert_eq!(sent("{}"), r#"{"n":123456789012345678901,"f":1e3,"x":1e400}"#);
        assert_eq!(
            sent(r#"{"f":1.50,"g":0.0}"#),
            r#"{"n":123456789012345678901,"f":1.50,"x":1e400,"g":0.0}"#
        );
        assert_eq!(sent(r#"{"n":{"m":1e400}}"#), r#"{"n":{"m":1e400},"f":1e3,"x":1e400}"#);
    }

    #[test]
    fn a_broken_file_is_named_with_the_place_and_comments_are_allowed() {
        let read = |text: &str| SavedCalls::from_written(&WrittenText::new("mcp.calls.json", text));
        let good = "{ // mine\n \"calls\": {\"a\": {\"prompt\": \"x.y\"},}, }";
        assert_eq!(read(good).expect("comments").calls.len(), 1);
        for (text, place) in [
            ("{\n \"calls\": {\n  \"b\": {\"tol\": \"x\"}}}", "mcp.calls.json:3:3"),
            ("{\n \"calls\": [", "mcp.calls.json:2:"),
            ("{\"version\": 9}", "mcp.calls.json:1:13"),
            ("{\"calls\": []}", "mcp.calls.json:1:2"),
            ("[]", "mcp.calls.json:1:1"),
            ("{\"calls\": {\"a\": {\"tool\": \"x\", \"timeout\": -1}}}", "mcp.calls.json:1:42"),
        ] {
            let error = read(text).expect_err("broken");
            assert!(error.starts_with(place), "{error}");
        }
    }
}
