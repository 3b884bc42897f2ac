//! Cycles among the dependencies of servers. Pure.

use std::collections::BTreeMap;

use petgraph::algo::{astar, kosaraju_scc};
use petgraph::graph::{DiGraph, NodeIndex};

use base::ServerName;

/// Every cycle, each as the path through it, starting with its first server in file order and
/// without repeating it at the end. Servers that are in no cycle do not appear.
pub fn dependency_cycles(dependencies: &[(ServerName, Vec<ServerName>)]) -> Vec<Vec<ServerName>> {
    let mut graph: DiGraph<usize, ()> = DiGraph::new();
    let nodes: Vec<NodeIndex> = (0..dependencies.len()).map(|i| graph.add_node(i)).collect();
    let index: BTreeMap<&ServerName, usize> =
        dependencies.iter().enumerate().map(|(i, (name, _))| (name, i)).collect();
    for (i, (_, needs)) in dependencies.iter().enumerate() {
        for need in needs.iter().filter_map(|need| index.get(need)) {
            graph.update_edge(nodes[i], nodes[*need], ());
        }
    }
    // Not Tarjan's algorithm: it recurses once per server of a chain.
    let mut out: Vec<Vec<usize>> = kosaraju_scc(&graph)
        .into_iter()
        .filter(|part| part.len() > 1 || part.first().is_some_and(|n| graph.contains_edge(*n, *n)))
        .map(|part| walk(&graph, &part))
        .collect();
    out.sort();
    let name = |i: usize| dependencies[i].0.clone();
    out.into_iter().map(|cycle| cycle.into_iter().map(name).collect()).collect()
}

/// A shortest path from the first server of a strongly connected part back to itself.
fn walk(graph: &DiGraph<usize, ()>, part: &[NodeIndex]) -> Vec<usize> {
    let Some(start) = part.iter().copied().min() else { return Vec::new() };
    let back = |next| astar(graph, next, |at| at == start, |_| 1, |_| 0);
    let shortest = graph.neighbors(start).filter_map(back).min();
    let way = shortest.into_iter().flat_map(|(_, way)| way).filter(|at| *at != start);
    std::iter::once(start).chain(way).map(|at| graph[at]).collect()
}

/// A cycle as text: `a → b → a`.
pub fn cycle_in_words(cycle: &[ServerName]) -> String {
    let names = cycle.iter().chain(cycle.first()).map(ServerName::as_str);
    names.collect::<Vec<_>>().join(" → ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(&str, &[&str])]) -> Vec<String> {
        let dependencies: Vec<_> = edges
            .iter()
            .map(|(name, needs)| {
                (ServerName::new(name), needs.iter().map(|n| ServerName::new(n)).collect())
            })
            .collect();
        dependency_cycles(&dependencies).iter().map(|c| cycle_in_words(c)).collect()
    }

    #[test]
    fn each_cycle_is_found_once_and_printed_from_its_first_server() {
        assert_eq!(
            found(&[("c", &["a"]), ("a", &["b"]), ("b", &["c"]), ("x", &["x"]), ("y", &["a"])]),
            ["c → a → b → c", "x → x"]
        );
    }

    #[test]
    fn a_diamond_is_no_cycle() {
        assert_eq!(found(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])]), [""; 0]);
    }

    #[test]
    fn a_tangle_gives_a_shortest_way_round() {
        assert_eq!(found(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &["a"])]), ["a → c → a"]);
    }
}
