//! The graph of dependencies (requirement L2): checked before anything starts, and the order of
//! stopping.

use std::collections::HashMap;

use petgraph::algo::{tarjan_scc, toposort};
use petgraph::graphmap::DiGraphMap;

use crate::config::{McpConfig, ServerName};
use crate::host::{Error, ErrorCode};

/// Checks that every dependency exists, is not disabled, and that none goes in a circle. A
/// configuration that was loaded from a file has been checked before, with positions.
///
/// # Errors
/// [`ErrorCode::Configuration`] with the first problem; a circle is printed whole.
pub fn check(config: &McpConfig) -> Result<(), Error> {
    let mut graph: DiGraphMap<&str, ()> = DiGraphMap::new();
    for server in config.servers.values() {
        graph.add_node(server.name.as_str());
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
            graph.add_edge(server.name.as_str(), dependency.as_str(), ());
        }
    }
    let Err(cycle) = toposort(&graph, None) else { return Ok(()) };
    let circle = walk(&graph, cycle.node_id());
    let message = format!("dependencies go in a circle: {}", circle.join(" -> "));
    Err(Error::new(ErrorCode::Configuration, message))
}

/// The circle that `start` is on, from and to `start`.
fn walk<'a>(graph: &DiGraphMap<&'a str, ()>, start: &'a str) -> Vec<&'a str> {
    let group = tarjan_scc(graph).into_iter().find(|group| group.contains(&start));
    let group = group.unwrap_or_default();
    let mut path = vec![start];
    let mut here = start;
    loop {
        let mut next = graph.neighbors(here).filter(|name| group.contains(name));
        let all: Vec<&str> = next.by_ref().collect();
        let Some(step) = all.iter().find(|name| **name == start || !path.contains(name)) else {
            // Every way on has been walked: close the circle at the place it comes back to.
            let back = all.first().copied().unwrap_or(start);
            let from = path.iter().position(|name| *name == back).unwrap_or_default();
            path.drain(..from);
            path.push(back);
            return path;
        };
        path.push(step);
        if **step == *start {
            return path;
        }
        here = step;
    }
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
        let circle = error.message.rsplit(": ").next().expect("names").split(" -> ");
        let circle: Vec<&str> = circle.collect();
        assert_eq!((circle.len(), circle[0]), (4, circle[3]), "{}", error.message);
        assert!(!circle.contains(&"x"));
        let own = check(&config(&[("a", &["a"])])).expect_err("a circle of one");
        assert!(own.message.ends_with("a -> a"), "{}", own.message);
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
