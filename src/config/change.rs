//! The difference between two configurations, by server and setting name, so that a reload can
//! report why it restarts a server. Pure. Names only, never values.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{HttpConfig, McpConfig, OpenApiConfig, ServerConfig, StdioConfig, TransportConfig};
use base::{Secret, ServerName};

/// The difference between two configurations, or what a reload does because of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// New servers, in file order.
    pub added: Vec<ServerName>,
    /// Removed servers, in the old order.
    pub removed: Vec<ServerName>,
    /// Servers whose effective configuration differs, with the names of the differing settings.
    pub changed: Vec<(ServerName, Vec<String>)>,
    /// Servers whose effective configuration is the same, ignoring order, position in the file and
    /// settings that need no restart ([`FOLLOWED_SETTINGS`]).
    pub kept: Vec<ServerName>,
    /// Kept servers with changed [`FOLLOWED_SETTINGS`], and the names of those settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<(ServerName, Vec<String>)>,
}

/// Settings of how the host treats a server: changes take effect while the server keeps running.
/// All others need a new process, connection or handshake.
pub const FOLLOWED_SETTINGS: &str = "\
    start idleStop timeout startupTimeout shutdownTimeout stop restart retry breaker onTimeout \
    cache tools guard approvals roots logLevel dev";

impl ConfigChange {
    /// The difference from `old` to `new`.
    pub fn between(old: &McpConfig, new: &McpConfig) -> Self {
        let mut out = Self::default();
        for (name, server) in &new.servers {
            match old.servers.get(name) {
                None => out.added.push(name.clone()),
                Some(before) => {
                    let fields = changed_settings(before, server);
                    let (followed, changed): (Vec<_>, Vec<_>) = fields
                        .into_iter()
                        .partition(|field| FOLLOWED_SETTINGS.split(' ').any(|name| name == field));
                    if !changed.is_empty() {
                        out.changed.push((name.clone(), changed));
                        continue;
                    }
                    out.kept.push(name.clone());
                    if !followed.is_empty() {
                        out.followed.push((name.clone(), followed));
                    }
                }
            }
        }
        let gone = old.servers.keys().filter(|name| !new.servers.contains_key(*name));
        out.removed = gone.cloned().collect();
        out
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.changed.is_empty()
            && self.followed.is_empty()
    }
}

/// The settings in which two entries of one server differ, named as in the file, for example `args`
/// or `env.TOKEN`. Empty when the entries are equivalent.
pub fn changed_settings(old: &ServerConfig, new: &ServerConfig) -> Vec<String> {
    let mut out = Vec::new();
    transport(&old.transport, &new.transport, &mut out);
    let settings = |of: &ServerConfig| serde_json::to_value(of).unwrap_or_default();
    let (was, is) = (settings(old), settings(new));
    let names = [&was, &is].into_iter().filter_map(Value::as_object).flat_map(Map::keys);
    for name in names {
        let differs =
            was.get(name) != is.get(name) || (name == "limits" && old.content != new.content);
        if differs && !out.contains(name) {
            out.push(name.clone());
        }
    }
    if old.hold != new.hold {
        let holds = [&old.hold, &new.hold].into_iter().flatten();
        out.extend(holds.map(crate::Hold::setting));
        out.dedup();
    }
    out
}

fn transport(old: &TransportConfig, new: &TransportConfig, out: &mut Vec<String>) {
    if old.kind() != new.kind() {
        out.push("type".to_owned());
    } else if let (TransportConfig::Stdio(old), TransportConfig::Stdio(new)) = (old, new) {
        stdio(old, new, out);
    } else if let (Some(before), Some(after)) = (old.http(), new.http()) {
        if let (TransportConfig::OpenApi(old), TransportConfig::OpenApi(new)) = (old, new) {
            openapi(old, new, out);
        }
        http(before, after, out);
    }
}

fn stdio(old: &StdioConfig, new: &StdioConfig, out: &mut Vec<String>) {
    // Destructured so that a new field cannot be forgotten here.
    let StdioConfig { command, args, env, cwd, inherit_env, limits } = old;
    let settings = [
        ("command", *command != new.command),
        ("args", *args != new.args),
        ("cwd", *cwd != new.cwd),
        ("inheritEnv", *inherit_env != new.inherit_env),
        ("limits", *limits != new.limits),
    ];
    push_differing(&settings, out);
    values("env", env, &new.env, out);
}

fn http(old: &HttpConfig, new: &HttpConfig, out: &mut Vec<String>) {
    let HttpConfig { url, headers, oauth, tls } = old;
    let settings =
        [("url", *url != new.url), ("oauth", *oauth != new.oauth), ("tls", *tls != new.tls)];
    push_differing(&settings, out);
    values("headers", headers, &new.headers, out);
}

fn openapi(old: &OpenApiConfig, new: &OpenApiConfig, out: &mut Vec<String>) {
    let OpenApiConfig { http: _, finds_base, document, tags, operations } = old;
    let differs = *finds_base != new.finds_base
        || *document != new.document
        || *tags != new.tags
        || *operations != new.operations;
    push_differing(&[("openapi", differs)], out);
}

fn push_differing(settings: &[(&str, bool)], out: &mut Vec<String>) {
    let differing = settings.iter().filter(|(_, differs)| *differs);
    out.extend(differing.map(|(name, _)| (*name).to_owned()));
}

fn values(
    of: &str,
    old: &IndexMap<String, Secret>,
    new: &IndexMap<String, Secret>,
    out: &mut Vec<String>,
) {
    let differing =
        old.iter().filter(|(name, value)| new.get(*name) != Some(value)).map(|(n, _)| n);
    let fresh = new.keys().filter(|name| !old.contains_key(*name));
    out.extend(differing.chain(fresh).map(|name| format!("{of}.{name}")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, load_text};

    fn config(text: &str) -> McpConfig {
        let env = Environment { cwd: "/".into(), ..Environment::default() };
        load_text("mcp.json".as_ref(), text, &env).expect("loads").complete().expect("complete")
    }

    fn fields(old: &str, new: &str) -> Vec<String> {
        let of = |entry: &str| config(&format!("{{\"servers\":{{\"a\":{entry}}}}}"));
        let change = ConfigChange::between(&of(old), &of(new));
        change.changed.first().map(|(_, fields)| fields.clone()).unwrap_or_default()
    }

    #[test]
    fn order_white_space_comments_and_spelling_do_not_count() {
        let old = config(r#"{"servers":{"a":{"command":"x","timeout":2},"b":{"url":"http://h"}}}"#);
        let new = config(
            "{ // moved\n\"mcpServers\":{\"b\":{\"type\":\"http\",\"url\":\"http://h/\"},\n\
             \"a\":{\"timeoutMs\":2000,\"command\":\"x\",\"args\":[]}}}",
        );
        let change = ConfigChange::between(&old, &new);
        assert!(change.is_empty(), "{change:?}");
        assert_eq!(change.kept.len(), 2);
    }

    #[test]
    fn the_settings_that_differ_are_named_and_their_values_are_not() {
        assert_eq!(
            fields(
                r#"{"command":"x","env":{"A":"1","B":"2"},"args":["1","2"]}"#,
                r#"{"command":"x","env":{"B":"3","C":"4"},"args":["2","1"],"timeout":1}"#
            ),
            ["args", "env.A", "env.B", "env.C"]
        );
        assert_eq!(
            fields(r#"{"url":"http://h/1","headers":{"X":"1"}}"#, r#"{"url":"http://h/2"}"#),
            ["url", "headers.X"]
        );
        assert_eq!(fields(r#"{"command":"x"}"#, r#"{"url":"http://h"}"#), ["type"]);
        assert_eq!(
            fields(
                r#"{"command":"x"}"#,
                r#"{"command":"x","limits":{"cpu":1,"depth":9},"env":{"A":"1"}}"#
            ),
            ["limits", "env.A"]
        );
    }

    #[test]
    fn what_the_host_does_beside_a_server_is_no_reason_to_restart_it() {
        let dev = r#"{"command":"x","dev":{"watch":["src/**"],"build":["make"]}}"#;
        assert_eq!(fields(r#"{"command":"x"}"#, dev), [""; 0]);
        assert_eq!(fields(dev, r#"{"command":"x","dev":{"watch":["lib/**"]}}"#), [""; 0]);
        assert_eq!(fields(dev, r#"{"command":"y"}"#), ["command"], "the restart is for the rest");
    }

    #[test]
    fn settings_that_need_no_other_process_are_followed_and_the_rest_is_a_reason_to_restart() {
        let server =
            |more: &str| config(&format!("{{\"servers\":{{\"a\":{{\"command\":\"x\"{more}}}}}}}"));
        let between = |more: &str| ConfigChange::between(&server(""), &server(more));
        for (key, more) in [
            ("timeout", r#","timeout":1"#),
            ("startupTimeout", r#","startupTimeout":1"#),
            ("shutdownTimeout", r#","shutdownTimeout":1"#),
            ("restart", r#","restart":"on-failure""#),
            ("retry", r#","retry":{"maxRetries":9}"#),
            ("breaker", r#","breaker":{"threshold":2}"#),
            ("onTimeout", r#","onTimeout":"breaker""#),
            ("cache", r#","cache":false"#),
            ("tools", r#","tools":{"deny":["x"]}"#),
            ("guard", r#","guard":"off""#),
            ("approvals", r#","approvals":{"sampling":"deny"}"#),
            ("roots", r#","roots":["file:///x"]"#),
            ("logLevel", r#","logLevel":"error""#),
            ("dev", r#","dev":{"watch":["x"]}"#),
            ("start", r#","start":"onDemand""#),
        ] {
            let change = between(more);
            assert_eq!(change.followed, [("a".into(), vec![key.to_owned()])], "{more}");
            assert!(change.changed.is_empty() && !change.is_empty(), "{more}");
            assert_eq!(change.kept.len(), 1, "{more}");
        }
        for more in [
            r#","args":["1"]"#,
            r#","cwd":"/x""#,
            r#","inheritEnv":true"#,
            r#","limits":{"depth":9}"#,
            r#","limits":{"imagePixels":9}"#,
            r#","protocol":"legacy""#,
            r#","disabled":true"#,
        ] {
            let change = between(more);
            assert_eq!((change.changed.len(), change.followed.len()), (1, 0), "{more}");
        }
    }

    #[test]
    fn a_renamed_key_is_one_removed_and_one_added() {
        let old = config(r#"{"servers":{"a":{"command":"x"},"k":{"command":"y"}}}"#);
        let new = config(r#"{"servers":{"b":{"command":"x"},"k":{"command":"y"}}}"#);
        let change = ConfigChange::between(&old, &new);
        assert_eq!(change.removed, [ServerName::new("a")]);
        assert_eq!(change.added, [ServerName::new("b")]);
        assert_eq!(change.kept, [ServerName::new("k")]);
    }
}
