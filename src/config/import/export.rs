//! Writes an entry of ours as another program has it, key by key. Pure.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::import::{ImportHost, insert, is_nested_opencode};

/// What an entry of ours refers to without naming a variable.
#[derive(Clone, Debug)]
pub struct ExportScope<'a> {
    /// The folder of our file: a server runs there, and relative paths begin there.
    pub folder: &'a Path,
    /// The user's home.
    pub home: Option<&'a Path>,
    /// `${workspaceFolder}`.
    pub workspace: PathBuf,
    /// The content of the other program's file, which may tell its version.
    pub root: &'a Value,
}

/// An entry in the words of another program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExportedEntry {
    /// The entry.
    pub value: Value,
    /// What was left out or changed its meaning, one sentence each; names only, no values.
    pub notes: Vec<String>,
}

/// Writes an entry of ours for another program.
///
/// # Errors
/// Why it cannot be written there: what the program has no word for, or a reference that it cannot
/// expand.
pub fn client_entry(
    host: ImportHost,
    name: &str,
    ours: &Value,
    scope: &ExportScope<'_>,
) -> Result<ExportedEntry, String> {
    let Some(ours) = ours.as_object() else { return Err("its entry is not an object".to_owned()) };
    let mut writer = Writer { host, name, scope, left: ours.clone(), notes: Vec::new() };
    let is_off = writer.is_off();
    let url = ["url", "httpUrl", "serverUrl"].into_iter().find_map(|key| writer.left.remove(key));
    let value = match (writer.left.remove("command"), url) {
        (Some(command), None) => writer.process(command)?,
        (None, Some(url)) => writer.address(url)?,
        _ if ours.contains_key("launch") => {
            return Err("`launch` has no counterpart there; reach it through the deck".to_owned());
        }
        _ => return Err("it names neither a command nor an address".to_owned()),
    };
    let value = writer.finished(value, is_off)?;
    Ok(ExportedEntry { value, notes: writer.notes })
}

struct Writer<'w> {
    host: ImportHost,
    name: &'w str,
    scope: &'w ExportScope<'w>,
    left: Map<String, Value>,
    notes: Vec<String>,
}

impl Writer<'_> {
    fn is_off(&mut self) -> bool {
        let mut says = |key: &str, on| self.left.remove(key) == Some(Value::Bool(on));
        let off = [says("disabled", true), says("enabled", false), says("isActive", false)];
        off.contains(&true)
    }

    /// A server that the program starts.
    fn process(&mut self, command: Value) -> Result<Map<String, Value>, String> {
        let command = self.text(&command)?;
        let is_relative = command.contains(['/', '\\']) && Path::new(&command).is_relative();
        let command = if is_relative {
            let path = crate::clean_path(&self.scope.folder.join(&command));
            path.to_string_lossy().into_owned()
        } else {
            command
        };
        let args = match self.left.remove("args") {
            Some(Value::Array(args)) => {
                args.iter().map(|arg| self.text(arg).map(Value::from)).collect::<Result<_, _>>()?
            }
            _ => Vec::new(),
        };
        let (env, passed) = self.variables()?;
        let cwd = match self.left.remove("cwd") {
            Some(cwd) => Some(crate::clean_path(&self.scope.folder.join(self.text(&cwd)?))),
            None => None,
        };
        self.left.remove("type");
        self.left.remove("transport");
        if self.left.remove("envFile").is_some() {
            return Err("`envFile` has no counterpart there; reach it through the deck".to_owned());
        }
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| {
            out.insert(key.to_owned(), value);
        };
        let env_key = match self.host {
            ImportHost::Goose => {
                put("enabled", json!(true));
                put("type", json!("stdio"));
                put("name", json!(self.name));
                put("description", json!(""));
                put("cmd", json!(command));
                put("args", json!(args));
                "envs"
            }
            ImportHost::Opencode => {
                put("type", json!("local"));
                put("command", [vec![json!(command)], args].concat().into());
                "environment"
            }
            host => {
                if host == ImportHost::Continue {
                    put("name", json!(self.name));
                }
                if host == ImportHost::Zed {
                    put("source", json!("custom"));
                }
                let typed = [ImportHost::ClaudeCode, ImportHost::VsCode, ImportHost::Continue];
                if typed.contains(&host) {
                    put("type", json!("stdio"));
                }
                put("command", json!(command));
                put("args", json!(args));
                "env"
            }
        };
        if !env.is_empty() {
            put(env_key, Value::Object(env));
        }
        if !passed.is_empty() {
            put(
                if self.host == ImportHost::Goose { "env_keys" } else { "env_vars" },
                json!(passed),
            );
        }
        if let Some(cwd) = cwd {
            let knows = [
                ImportHost::VsCode,
                ImportHost::Codex,
                ImportHost::GeminiCli,
                ImportHost::Opencode,
                ImportHost::Continue,
            ];
            if !knows.contains(&self.host) {
                return Err("`cwd` has no counterpart there; reach it through the deck".to_owned());
            }
            put("cwd", json!(cwd));
        }
        Ok(out)
    }

    /// The variables with their values, and those that the program passes on from its own
    /// environment by name.
    fn variables(&mut self) -> Result<(Map<String, Value>, Vec<String>), String> {
        let (mut env, mut passed) = (Map::new(), Vec::new());
        let Some(Value::Object(all)) = self.left.remove("env") else { return Ok((env, passed)) };
        for (name, value) in all {
            let own = value.as_str().and_then(whole_reference).is_some_and(|of| of == name);
            if own && matches!(self.host, ImportHost::Codex | ImportHost::Goose) {
                passed.push(name);
                continue;
            }
            let value = match &value {
                Value::Null => continue,
                other => self.text(other)?,
            };
            env.insert(name, json!(value));
        }
        Ok((env, passed))
    }

    /// A server that runs already.
    fn address(&mut self, url: Value) -> Result<Map<String, Value>, String> {
        let url = self.text(&url)?;
        let declared = self.left.remove("type").or_else(|| self.left.remove("transport"));
        self.left.remove("transport");
        let declared = declared.as_ref().and_then(Value::as_str).unwrap_or_default();
        let is_socket = declared == "websocket" || url.starts_with("ws");
        let is_sse = declared == "sse"
            || (declared.is_empty() && url.trim_end_matches('/').ends_with("/sse"));
        if is_socket {
            return Err("it is reached over WebSocket; reach it through the deck".to_owned());
        }
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| {
            out.insert(key.to_owned(), value);
        };
        let kind = |http: &'static str| json!(if is_sse { "sse" } else { http });
        let mut headers_key = "headers";
        match self.host {
            ImportHost::ClaudeDesktop => {
                return Err("Claude Desktop starts programs only".to_owned());
            }
            ImportHost::Codex if is_sse => {
                return Err("Codex does not speak HTTP with SSE; reach it through the deck".into());
            }
            ImportHost::ClaudeCode | ImportHost::VsCode => {
                put("type", kind("http"));
                put("url", json!(url));
            }
            ImportHost::Cursor => put("url", json!(url)),
            ImportHost::Windsurf => put("serverUrl", json!(url)),
            ImportHost::Cline => {
                put("type", kind("streamableHttp"));
                put("url", json!(url));
            }
            ImportHost::GeminiCli => put(if is_sse { "url" } else { "httpUrl" }, json!(url)),
            ImportHost::Codex => {
                put("url", json!(url));
                headers_key = "http_headers";
            }
            ImportHost::Zed => {
                put("source", json!("custom"));
                put("url", json!(url));
            }
            ImportHost::Opencode => {
                put("type", json!("remote"));
                put("url", json!(url));
            }
            ImportHost::Goose => {
                put("enabled", json!(true));
                put("type", kind("streamable_http"));
                put("name", json!(self.name));
                put("description", json!(""));
                put("uri", json!(url));
            }
            ImportHost::Continue => {
                put("name", json!(self.name));
                put("type", kind("streamable-http"));
                put("url", json!(url));
                headers_key = "requestOptions";
            }
        }
        let (headers, by_name, bearer) = self.headers()?;
        if !headers.is_empty() {
            let headers = Value::Object(headers);
            let is_inner = self.host == ImportHost::Continue;
            put(headers_key, if is_inner { json!({ "headers": headers }) } else { headers });
        }
        if !by_name.is_empty() {
            put("env_http_headers", Value::Object(by_name));
        }
        if let Some(bearer) = bearer {
            put("bearer_token_env_var", json!(bearer));
        }
        Ok(out)
    }

    /// The headers, and for Codex those that hold a variable, and the variable of a bearer token.
    #[expect(clippy::type_complexity, reason = "three kinds of headers, used once")]
    fn headers(
        &mut self,
    ) -> Result<(Map<String, Value>, Map<String, Value>, Option<String>), String> {
        let (mut headers, mut by_name, mut bearer) = (Map::new(), Map::new(), None);
        let Some(Value::Object(all)) = self.left.remove("headers") else {
            return Ok((headers, by_name, bearer));
        };
        for (name, value) in all {
            if self.host == ImportHost::Codex
                && let Some(text) = value.as_str()
            {
                if let Some(variable) = whole_reference(text) {
                    by_name.insert(name, json!(variable));
                    continue;
                }
                let token = text.strip_prefix("Bearer ").and_then(whole_reference);
                if name.eq_ignore_ascii_case("authorization") && token.is_some() {
                    bearer = token.map(str::to_owned);
                    continue;
                }
            }
            headers.insert(name, json!(self.text(&value)?));
        }
        Ok((headers, by_name, bearer))
    }

    /// Adds times and the switch; notes what is left.
    fn finished(&mut self, mut out: Map<String, Value>, is_off: bool) -> Result<Value, String> {
        let mut seconds = |key: &str| {
            let plain = self.left.remove(key).and_then(|value| value.as_f64());
            let millis = self.left.remove(&format!("{key}Ms")).and_then(|value| value.as_f64());
            plain.or(millis.map(|millis| millis / 1000.0))
        };
        let (timeout, startup) = (seconds("timeout"), seconds("startupTimeout"));
        let whole = |value: f64| {
            if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
        };
        let timeout_key = match self.host {
            ImportHost::Cline | ImportHost::Zed | ImportHost::Goose => Some(("timeout", 1.0)),
            ImportHost::GeminiCli | ImportHost::ClaudeCode | ImportHost::Opencode => {
                Some(("timeout", 1000.0))
            }
            ImportHost::Codex => Some(("tool_timeout_sec", 1.0)),
            ImportHost::ClaudeDesktop
            | ImportHost::Cursor
            | ImportHost::VsCode
            | ImportHost::Windsurf
            | ImportHost::Continue => None,
        };
        if let (Some(timeout), Some((key, factor))) = (timeout, timeout_key) {
            insert(&mut out, key, Some(whole(timeout * factor)));
        }
        if let (Some(startup), ImportHost::Codex) = (startup, self.host) {
            insert(&mut out, "startup_timeout_sec", Some(whole(startup)));
        }
        let is_second = self.host == ImportHost::Opencode && is_nested_opencode(self.scope.root);
        match self.host {
            ImportHost::Opencode if !is_second => {
                out.insert("enabled".to_owned(), json!(!is_off));
            }
            ImportHost::Goose => _ = out.insert("enabled".to_owned(), json!(!is_off)),
            ImportHost::Codex | ImportHost::Zed if is_off => {
                out.insert("enabled".to_owned(), json!(false));
            }
            ImportHost::Cline => _ = out.insert("disabled".to_owned(), json!(is_off)),
            ImportHost::Windsurf | ImportHost::Opencode if is_off => {
                out.insert("disabled".to_owned(), json!(true));
            }
            _ if is_off => {
                return Err(format!("it is disabled, and {} has no switch", self.host.name()));
            }
            _ => {}
        }
        // What people write for people, or what only this program does.
        let quiet =
            ["description", "icon", "public", "secrets", "dependencies", "dependsOn", "origin"];
        self.left.retain(|key, _| !quiet.contains(&key.as_str()));
        if !self.left.is_empty() {
            let names: Vec<&str> = self.left.keys().map(String::as_str).collect();
            self.notes.push(format!(
                "`{}`: {} has no counterpart in {}",
                self.name,
                names.join(", "),
                self.host.name()
            ));
        }
        Ok(Value::Object(out))
    }

    /// A text with its references as the program writes them.
    fn text(&self, value: &Value) -> Result<String, String> {
        let text = match value {
            Value::String(text) => text.as_str(),
            Value::Number(_) | Value::Bool(_) => return Ok(value.to_string()),
            _ => return Err("a value that should be text is not".to_owned()),
        };
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                if self.reference("X", None).is_some_and(|known| known.starts_with("${")) {
                    return Err("a literal `${` would be a reference there".to_owned());
                }
                out.extend([before, "${"]);
                rest = after;
                continue;
            }
            let Some((name, then)) = after.split_once('}') else {
                return Err("a reference in it is not closed".to_owned());
            };
            out.push_str(before);
            out.push_str(&self.expanded(name)?);
            rest = then;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn expanded(&self, written: &str) -> Result<String, String> {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let base = self.scope.workspace.file_name().unwrap_or_default().to_string_lossy();
        match written {
            "workspaceFolder" => return Ok(shown(&self.scope.workspace)),
            "workspaceFolderBasename" => return Ok(base.into_owned()),
            "cwd" => return Ok(shown(self.scope.folder)),
            "pathSeparator" | "/" => return Ok(std::path::MAIN_SEPARATOR.to_string()),
            "userHome" => {
                let home = self.scope.home.map(shown);
                return home.ok_or_else(|| "the home folder is not known".to_owned());
            }
            _ => {}
        }
        let (name, default) = match written.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (written, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        let is_variable = !name.contains(':');
        let known = if is_variable { self.reference(name, default) } else { None };
        known.ok_or_else(|| {
            format!(
                "{} cannot expand `${{{written}}}`; reach it through the deck, or write the value \
                 itself",
                self.host.name()
            )
        })
    }

    /// A variable as the program refers to it; `None` when it cannot.
    fn reference(&self, name: &str, default: Option<&str>) -> Option<String> {
        match (self.host, default) {
            (ImportHost::ClaudeCode, Some(default)) => Some(format!("${{{name}:-{default}}}")),
            (ImportHost::ClaudeCode | ImportHost::GeminiCli, None) => Some(format!("${{{name}}}")),
            (
                ImportHost::Cursor | ImportHost::VsCode | ImportHost::Windsurf | ImportHost::Cline,
                None,
            ) => Some(format!("${{env:{name}}}")),
            (ImportHost::Opencode, None) => Some(format!("{{env:{name}}}")),
            (ImportHost::Continue, None) => Some(format!("${{{{ secrets.{name} }}}}")),
            _ => None,
        }
    }
}

/// The variable that a text consists of.
fn whole_reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    let name = name.strip_prefix("env:").unwrap_or(name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, read_import_text};

    fn scope(root: &Value) -> ExportScope<'_> {
        ExportScope {
            folder: Path::new("/p"),
            home: Some(Path::new("/home/a")),
            workspace: "/p".into(),
            root,
        }
    }

    /// What is written for a program is read back as what it was.
    #[test]
    fn what_is_written_is_read_back() {
        let env = Environment { cwd: "/p".into(), ..Environment::default() };
        let process = json!({"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}});
        let address =
            json!({"type": "http", "url": "https://example.com/mcp", "headers": {"X-A": "b"}});
        let events = json!({"type": "sse", "url": "https://example.com/sse"});
        for &host in ImportHost::ALL {
            for ours in [&process, &address, &events] {
                let root = json!({});
                let Ok(entry) = client_entry(host, "one", ours, &scope(&root)) else {
                    assert!(
                        matches!(host, ImportHost::ClaudeDesktop | ImportHost::Codex),
                        "{host:?}"
                    );
                    continue;
                };
                let place = host.place(&root, "one");
                let format = host.format(Path::new("f"));
                let text = crate::put_entry(format, "", &place, &entry.value).expect("written");
                let back = read_import_text(host, Path::new("f"), &text, &env).expect("read");
                assert_eq!(back.servers.len(), 1, "{host:?}\n{text}");
                let mut read = back.servers[0].1.clone();
                // Claude Code's projects aside, nothing is added.
                read.as_object_mut().expect("an object").shift_remove("timeout");
                assert_eq!(read, *ours, "{host:?}\n{text}");
            }
        }
    }

    #[test]
    fn references_are_written_as_the_program_has_them_or_refused() {
        let ours = json!({"command": "./run", "env": {"T": "${T}", "W": "${workspaceFolder}/x"}});
        let root = json!({});
        let written = |host, ours: &Value| client_entry(host, "one", ours, &scope(&root));
        let env = |host| written(host, &ours).expect("written").value["env"].clone();
        assert_eq!(env(ImportHost::ClaudeCode), json!({"T": "${T}", "W": "/p/x"}));
        assert_eq!(env(ImportHost::Cursor), json!({"T": "${env:T}", "W": "/p/x"}));
        let codex = written(ImportHost::Codex, &ours).expect("written").value;
        assert_eq!((&codex["env_vars"], &codex["command"]), (&json!(["T"]), &json!("/p/run")));
        let goose = written(ImportHost::Goose, &ours).expect("written").value;
        assert_eq!(goose["env_keys"], json!(["T"]));
        let why = written(ImportHost::Zed, &ours).expect_err("refused");
        assert!(why.contains("Zed cannot expand `${T}`"), "{why}");
        let secret = json!({"command": "x", "env": {"T": "${secret:t}"}});
        for &host in ImportHost::ALL {
            let why = written(host, &secret).expect_err("refused");
            assert!(why.contains("through the deck"), "{host:?}: {why}");
        }
        let off = json!({"command": "x", "disabled": true});
        assert_eq!(written(ImportHost::Codex, &off).expect("written").value["enabled"], false);
        assert!(written(ImportHost::Cursor, &off).is_err());
        let odd = json!({"command": "x", "retry": 1});
        assert!(written(ImportHost::Cursor, &odd).expect("written").notes[0].contains("retry"));
    }
}
