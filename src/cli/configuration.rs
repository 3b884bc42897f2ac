//! `config`: the configuration in effect. Values that may be secret are never printed.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::args::{Common, ConfigArgs};
use super::exit::Exit;
use super::{load, output};
use crate::config::{
    Colour, Diagnostic, HttpConfig, Loaded, ServerConfig, StdioConfig, TransportConfig, hazards,
    mask, render_all,
};
use crate::secret::MASK;
use crate::text::{SafeText, json as safe};

/// `mcpdeck config`
pub fn config(common: &Common, args: &ConfigArgs) -> Exit {
    let env = match load::environment(common) {
        Ok(env) => env,
        Err(diagnostics) => return problems(&diagnostics),
    };
    let files = load::files(common, &env);
    let loaded = match crate::config::load(&files, &env) {
        Ok(loaded) => loaded,
        Err(diagnostics) if args.json => {
            let object = json!({"files": files, "servers": {}, "diagnostics": diagnostics});
            return output::print(&(safe::pretty(&object) + "\n"), Exit::Usage);
        }
        Err(diagnostics) => return problems(&diagnostics),
    };
    let wrong = loaded.has_errors() || !loaded.needs.is_empty();
    let exit = if wrong { Exit::Usage } else { Exit::Ok };
    let mut all = loaded.diagnostics.clone();
    all.extend(loaded.needs.iter().map(|need| need.problem.clone()));
    if args.json {
        let servers: Map<String, Value> = loaded
            .config
            .servers
            .values()
            .map(|s| (s.name.as_str().to_owned(), server_json(s, &loaded)))
            .collect();
        let object = json!({"files": files, "servers": servers, "diagnostics": all});
        return output::print(&(safe::pretty(&object) + "\n"), exit);
    }
    let exit = output::print(&config_text(&loaded), exit);
    if !all.is_empty() {
        problems(&all);
    }
    exit
}

/// Tells problems on stderr, each with its line.
pub fn problems(diagnostics: &[Diagnostic]) -> Exit {
    use std::io::Write as _;
    let text = render_all(diagnostics, Colour::Never);
    let _ = writeln!(std::io::stderr().lock(), "{}", text.trim_end());
    Exit::Usage
}

fn config_text(loaded: &Loaded) -> String {
    let mut out = String::new();
    for file in &loaded.config.files {
        let _ = writeln!(out, "{}", SafeText::line(&file.display().to_string()));
    }
    for server in loaded.config.servers.values() {
        let state = if server.disabled { "  (disabled)" } else { "" };
        let _ = writeln!(out, "\n{}{state}", SafeText::line(server.name.as_str()));
        let value = server_json(server, loaded);
        for (key, value) in value.as_object().into_iter().flatten() {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let _ = writeln!(out, "  {key:16} {}", SafeText::line(&text));
        }
        for danger in hazards::dangers(server) {
            let _ = writeln!(out, "  {:16} {}", "careful", SafeText::line(&danger));
        }
    }
    out
}

/// A server as it is in effect. What came from variables is shown as it is written.
fn server_json(server: &ServerConfig, loaded: &Loaded) -> Value {
    let prefix = format!("/servers/{}", server.name.as_str().replace('~', "~0").replace('/', "~1"));
    let shown = |key: &str, value: &str| {
        let origin = loaded.origins.get(&format!("{prefix}/{key}"));
        origin.and_then(|o| o.template()).unwrap_or(value).to_owned()
    };
    let mut object = json!({"type": server.transport.kind().as_str()});
    match &server.transport {
        TransportConfig::Stdio(stdio) => stdio_json(stdio, &shown, &mut object),
        TransportConfig::Http(http)
        | TransportConfig::Sse(http)
        | TransportConfig::WebSocket(http) => http_json(http, &shown, &mut object),
    }
    object["timeout"] = json!(server.request_timeout.as_secs_f64());
    object["startupTimeout"] = json!(server.startup_timeout.as_secs_f64());
    object["shutdownTimeout"] = json!(server.shutdown_timeout.as_secs_f64());
    if !server.dependencies.is_empty() {
        object["dependencies"] = json!(server.dependencies);
    }
    if server.disabled {
        object["disabled"] = json!(true);
    }
    if !server.roots.is_empty() {
        object["roots"] = json!(server.roots);
    }
    object["restart"] = json!(server.restart.policy);
    object["onTimeout"] = json!(server.on_timeout);
    object
}

fn stdio_json(stdio: &StdioConfig, shown: &dyn Fn(&str, &str) -> String, object: &mut Value) {
    object["command"] = json!(shown("command", &stdio.command));
    let mut hide = false;
    let args = stdio.args.iter().enumerate().map(|(index, arg)| {
        let written = shown(&format!("args/{index}"), arg);
        let (name, value) = written.split_once('=').unwrap_or((&written, ""));
        let text = if hide && !written.starts_with('-') {
            MASK.to_owned()
        } else if name.starts_with('-') && !value.is_empty() && mask::is_secret_name(name) {
            format!("{name}={MASK}")
        } else {
            written.clone()
        };
        hide = written.starts_with('-') && value.is_empty() && mask::is_secret_name(&written);
        text
    });
    object["args"] = args.collect();
    if let Some(cwd) = &stdio.cwd {
        object["cwd"] = json!(cwd);
    }
    if !stdio.env.is_empty() {
        object["env"] = json!(stdio.env);
    }
    if stdio.inherit_env {
        object["inheritEnv"] = json!(true);
    }
}

fn http_json(http: &HttpConfig, shown: &dyn Fn(&str, &str) -> String, object: &mut Value) {
    let mut url = http.url.clone();
    if url.password().is_some() {
        let _ = url.set_password(Some(MASK));
    }
    if url.query().is_some() {
        let pairs: Vec<(String, String)> = url
            .query_pairs()
            .map(|(name, value)| {
                let value = if mask::is_secret_name(&name) { MASK.into() } else { value };
                (name.into_owned(), value.into_owned())
            })
            .collect();
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }
    object["url"] = json!(shown("url", url.as_str()));
    if !http.headers.is_empty() {
        object["headers"] = json!(http.headers);
    }
}
