//! What a changed configuration means for each server (requirement C8). Pure.

use crate::config::{McpConfig, ServerConfig, ServerName, TransportConfig};
use crate::host::supervisor::graph;

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) added: Vec<ServerName>,
    pub(super) removed: Vec<ServerName>,
    /// Servers to restart, with the fields that differ.
    pub(super) changed: Vec<(ServerName, Vec<String>)>,
    pub(super) kept: Vec<ServerName>,
}

impl Plan {
    pub(super) fn between(before: &McpConfig, after: &McpConfig) -> Self {
        let mut plan = Self::default();
        let gone = before.servers.keys().filter(|name| !after.servers.contains_key(*name));
        plan.removed = gone.cloned().collect();
        let mut same = Vec::new();
        for (name, config) in &after.servers {
            match before.servers.get(name) {
                None => plan.added.push(name.clone()),
                Some(old) => match differences(old, config) {
                    fields if fields.is_empty() => same.push(name.clone()),
                    fields => plan.changed.push((name.clone(), fields)),
                },
            }
        }
        plan.take_dependents(after, &mut same);
        plan.kept = same;
        plan
    }

    /// Servers that depend on one that restarts follow it.
    fn take_dependents(&mut self, after: &McpConfig, same: &mut Vec<ServerName>) {
        let dependents = graph::dependents(after);
        let mut at = 0;
        while let Some((name, _)) = self.changed.get(at).cloned() {
            for dependent in dependents.get(&name).into_iter().flatten() {
                if let Some(place) = same.iter().position(|kept| kept == dependent) {
                    same.remove(place);
                    self.changed.push((dependent.clone(), vec![format!("dependency `{name}`")]));
                }
            }
            at += 1;
        }
    }
}

/// The fields in which two effective configurations differ, as the file spells them. Where the
/// entry stands in its file is no difference.
fn differences(before: &ServerConfig, after: &ServerConfig) -> Vec<String> {
    let mut fields = transport(&before.transport, &after.transport);
    let mut differ = |name: &str, differs: bool| {
        if differs {
            fields.push(name.to_owned());
        }
    };
    let ServerConfig {
        name: _,
        transport: _,
        request_timeout,
        startup_timeout,
        shutdown_timeout,
        dependencies,
        disabled,
        restart,
        on_timeout,
        retry,
        cache,
        wire,
        roots,
        protocol,
        log_level,
        tools,
        dev,
        guard,
        approvals,
        at: _,
    } = before;
    differ("timeout", *request_timeout != after.request_timeout);
    differ("startupTimeout", *startup_timeout != after.startup_timeout);
    differ("shutdownTimeout", *shutdown_timeout != after.shutdown_timeout);
    differ("dependencies", *dependencies != after.dependencies);
    differ("disabled", *disabled != after.disabled);
    differ("restart", *restart != after.restart);
    differ("onTimeout", *on_timeout != after.on_timeout);
    differ("retry", *retry != after.retry);
    differ("cache", *cache != after.cache);
    differ("limits", *wire != after.wire);
    differ("roots", *roots != after.roots);
    differ("protocol", *protocol != after.protocol);
    differ("logLevel", *log_level != after.log_level);
    differ("tools", *tools != after.tools);
    differ("dev", *dev != after.dev);
    differ("guard", *guard != after.guard);
    differ("approvals", *approvals != after.approvals);
    fields
}

fn transport(before: &TransportConfig, after: &TransportConfig) -> Vec<String> {
    use TransportConfig::{Http, Sse, Stdio, WebSocket};
    let mut fields = Vec::new();
    match (before, after) {
        (Stdio(old), Stdio(new)) => {
            let plain = [
                ("command", old.command != new.command),
                ("args", old.args != new.args),
                ("cwd", old.cwd != new.cwd),
                ("inheritEnv", old.inherit_env != new.inherit_env),
                ("limits", old.limits != new.limits),
            ];
            fields.extend(plain.iter().filter(|(_, differs)| *differs).map(|f| f.0.to_owned()));
            fields.extend(keys("env", &old.env, &new.env));
        }
        (Http(old), Http(new)) | (Sse(old), Sse(new)) | (WebSocket(old), WebSocket(new)) => {
            if old.url != new.url {
                fields.push("url".to_owned());
            }
            fields.extend(keys("headers", &old.headers, &new.headers));
        }
        _ => fields.push("type".to_owned()),
    }
    fields
}

/// Names of secrets that differ; values are not told. Their order is no difference.
fn keys(
    field: &str,
    before: &indexmap::IndexMap<String, crate::secret::Secret>,
    after: &indexmap::IndexMap<String, crate::secret::Secret>,
) -> Vec<String> {
    let all = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
    let differing = all.filter(|key| before.get(*key) != after.get(*key));
    differing.map(|key| format!("{field}.{key}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::supervisor::graph::tests::config;
    use crate::secret::Secret;

    fn names(names: &[&str]) -> Vec<ServerName> {
        names.iter().map(|name| ServerName::new(name)).collect()
    }

    #[test]
    fn order_and_position_are_no_change_and_secrets_are_named_not_shown() {
        let before = config(&[("a", &[]), ("b", &[])]);
        let mut after = config(&[("b", &[]), ("a", &[])]);
        after.servers.get_mut("a").expect("a").at.line = 99;
        let plan = Plan::between(&before, &after);
        assert_eq!(plan.kept, names(&["b", "a"]));
        let TransportConfig::Stdio(stdio) = &mut after.servers.get_mut("a").expect("a").transport
        else {
            panic!("stdio")
        };
        stdio.env.insert("TOKEN".into(), Secret::new("hunter2"));
        stdio.args.push("-v".into());
        let plan = Plan::between(&before, &after);
        let fields = vec!["args".to_owned(), "env.TOKEN".to_owned()];
        assert_eq!(plan.changed, [(ServerName::new("a"), fields)]);
    }

    #[test]
    fn dependents_of_a_changed_server_follow_it_and_nobody_else_does() {
        let servers: [(&str, &[&str]); 4] =
            [("db", &[]), ("api", &["db"]), ("web", &["api"]), ("other", &[])];
        let before = config(&servers);
        let mut after = config(&servers);
        after.servers.get_mut("db").expect("db").disabled = true;
        let plan = Plan::between(&before, &after);
        let changed: Vec<_> = plan.changed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(changed, ["db", "api", "web"]);
        assert_eq!(plan.changed[2].1, ["dependency `api`"]);
        assert_eq!(plan.kept, names(&["other"]));
    }

    #[test]
    fn added_and_removed_servers_are_told_apart() {
        let plan = Plan::between(&config(&[("a", &[])]), &config(&[("b", &[])]));
        assert_eq!((plan.added, plan.removed), (names(&["b"]), names(&["a"])));
    }
}
