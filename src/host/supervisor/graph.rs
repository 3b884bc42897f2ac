//! The graph of dependencies (requirement L2): checked before anything starts, and the order of
//! stopping.

use std::collections::HashMap;

use crate::base::ServerName;
use crate::config::McpConfig;
use crate::config::graph::{cycles, in_words};
use crate::error::{Error, ErrorCode};

/// Checks that every dependency exists, is not disabled, and that none goes in a circle. A
/// configuration that was loaded from a file has been checked before, with positions.
///
/// # Errors
/// [`ErrorCode::Configuration`] with the first problem; a circle is printed whole.
pub fn check(config: &McpConfig) -> Result<(), Error> {
    for server in config.servers.values() {
        for dependency in &server.dependencies {
            let problem = match config.servers.get(dependency) {
                None => Some("which does not exist"),
                Some(found) if found.disabled && !server.disabled => Some("which is disabled"),
                Some(_) => None,
            };
            if let Some(problem) = problem {
                let message = format!("it depends on `{dependency}`, {problem}");
                return Err(Error::new(ErrorCode::Configuration, message).server(&server.name));
            }
        }
    }
    let dependencies: Vec<_> = config
        .servers
        .values()
        .map(|server| (server.name.clone(), server.dependencies.clone()))
        .collect();
    let Some(circle) = cycles(&dependencies).into_iter().next() else { return Ok(()) };
    let message = format!("dependencies go in a circle: {}", in_words(&circle));
    Err(Error::new(ErrorCode::Configuration, message).help("take one of these dependencies out"))
}

/// Who depends directly on each server.
pub(super) fn dependents(config: &McpConfig) -> HashMap<ServerName, Vec<ServerName>> {
    let mut dependents: HashMap<ServerName, Vec<ServerName>> = HashMap::new();
    for server in config.servers.values() {
        for dependency in &server.dependencies {
            dependents.entry(dependency.clone()).or_default().push(server.name.clone());
        }
    }
    dependents
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::{ServerConfig, StdioConfig, TransportConfig};

    pub(in super::super) fn config(servers: &[(&str, &[&str])]) -> McpConfig {
        let stdio = StdioConfig {
            command: "server".into(),
            args: vec![],
            env: indexmap::IndexMap::default(),
            cwd: None,
            inherit_env: false,
            limits: crate::config::ProcessLimits::default(),
        };
        let mut config = McpConfig::default();
        for (name, dependencies) in servers {
            let name = ServerName::new(name);
            let transport = TransportConfig::Stdio(stdio.clone());
            let mut server = ServerConfig::new(name.clone(), transport);
            server.dependencies = dependencies.iter().map(|name| ServerName::new(name)).collect();
            config.servers.insert(name, server);
        }
        config
    }

    #[test]
    fn a_circle_is_printed_whole_and_what_hangs_on_it_is_left_out() {
        let circle = config(&[("x", &["a"]), ("a", &["b"]), ("b", &["c"]), ("c", &["a"])]);
        let error = check(&circle).expect_err("it goes in a circle");
        assert!(error.message.ends_with(": a → b → c → a"), "{}", error.message);
        let own = check(&config(&[("a", &["a"])])).expect_err("a circle of one");
        assert!(own.message.ends_with("a → a"), "{}", own.message);
    }

    #[test]
    fn unknown_and_disabled_dependencies_are_refused() {
        let error = check(&config(&[("a", &["ghost"])])).expect_err("unknown");
        assert!(error.message.contains("`ghost`"), "{}", error.message);
        let mut disabled = config(&[("a", &["b"]), ("b", &[])]);
        disabled.servers.get_mut("b").expect("it is there").disabled = true;
        assert!(check(&disabled).is_err());
        assert_eq!(check(&config(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), Ok(()));
    }
}
