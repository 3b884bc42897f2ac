//! What a changed configuration means for each server (requirement C8). Pure.

use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::McpConfig;
use crate::config::change::ConfigChange;
use crate::host::supervisor::graph;

/// What a reload does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadPlan {
    /// Servers to start.
    pub added: Vec<ServerName>,
    /// Servers to stop.
    pub removed: Vec<ServerName>,
    /// Servers to restart, with the settings that differ or the dependency that restarts.
    pub changed: Vec<(ServerName, Vec<String>)>,
    /// Servers that run on.
    pub kept: Vec<ServerName>,
    /// Of those: servers that are given other settings as they run, and which.
    pub followed: Vec<(ServerName, Vec<String>)>,
}

impl ReloadPlan {
    /// Whether nothing is touched.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.changed.is_empty()
            && self.followed.is_empty()
    }

    /// What is to be done to come from one configuration to another.
    pub fn between(before: &McpConfig, after: &McpConfig) -> Self {
        let ConfigChange { added, removed, changed, mut kept, followed } =
            ConfigChange::between(before, after);
        let mut plan = Self { added, removed, changed, ..Self::default() };
        plan.take_dependents(after, &mut kept);
        plan.followed = followed;
        plan.followed.retain(|(name, _)| kept.contains(name));
        plan.kept = kept;
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

/// Why a server restarts, in words: the settings that differ, the first three by name.
pub(super) fn restart_reason(fields: &[String]) -> SafeText {
    let named =
        |field: &String| if field.contains('`') { field.clone() } else { format!("`{field}`") };
    let mut words: Vec<String> = fields.iter().take(3).map(named).collect();
    if fields.len() > 3 {
        words.push(format!("{} more", fields.len() - 3));
    }
    SafeText::line(&format!("restarting: {} changed", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::ReloadPlan as Plan;
    use super::*;
    use crate::base::secret::Secret;
    use crate::config::TransportConfig;
    use crate::host::supervisor::graph::tests::config;

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
