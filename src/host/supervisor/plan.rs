//! What a changed configuration means for each server (requirement C8). Pure.

use crate::base::text::SafeText;
use crate::config::{ConfigChange, McpConfig};
use crate::host::supervisor::graph;

/// What a reload does to each server: those that depend on one that restarts restart too.
pub fn reload_plan(before: &McpConfig, after: &McpConfig) -> ConfigChange {
    let mut plan = ConfigChange::between(before, after);
    let dependents = graph::dependents(after);
    let mut at = 0;
    while let Some((name, _)) = plan.changed.get(at).cloned() {
        for dependent in dependents.get(&name).into_iter().flatten() {
            if let Some(place) = plan.kept.iter().position(|kept| kept == dependent) {
                plan.kept.remove(place);
                plan.changed.push((dependent.clone(), vec![format!("dependency `{name}`")]));
            }
        }
        at += 1;
    }
    plan.followed.retain(|(name, _)| plan.kept.contains(name));
    plan
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
    use super::*;
    use crate::base::ServerName;
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
        let plan = reload_plan(&before, &after);
        assert_eq!(plan.kept, names(&["b", "a"]));
        let TransportConfig::Stdio(stdio) = &mut after.servers.get_mut("a").expect("a").transport
        else {
            panic!("stdio")
        };
        stdio.env.insert("TOKEN".into(), Secret::new("hunter2"));
        stdio.args.push("-v".into());
        let plan = reload_plan(&before, &after);
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
        let plan = reload_plan(&before, &after);
        let changed: Vec<_> = plan.changed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(changed, ["db", "api", "web"]);
        assert_eq!(plan.changed[2].1, ["dependency `api`"]);
        assert_eq!(plan.kept, names(&["other"]));
    }

    #[test]
    fn added_and_removed_servers_are_told_apart() {
        let plan = reload_plan(&config(&[("a", &[])]), &config(&[("b", &[])]));
        assert_eq!((plan.added, plan.removed), (names(&["b"]), names(&["a"])));
    }
}
