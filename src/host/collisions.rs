//! Names and URIs that lead to the items of two servers: which one is meant, and how the other one is
//! reached. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use super::naming::{ExposedNames, own_uri, resolve_name};
use base::ServerName;
use base::text::cut;
use protocol::{Capabilities, ListKind};

/// Maximum number reported for one server.
const MAX_COLLISIONS: usize = 32;
/// Longest name in a message, in bytes.
const MAX_SHOWN_BYTES: usize = 200;
/// What may stand between the names of a server and of its tool.
const SEPARATORS: [&str; 4] = [".", ":", "/", "__"];

/// A server and what it lists.
pub type OfferedList = (ServerName, Arc<Capabilities>);
/// What each server lists, in the order of the configuration.
pub type OfferedLists = [OfferedList];

/// Whether a server lists anything that has a URI: those of all servers may collide, and names only
/// those of servers that [`are_related`].
pub fn has_uris(own: &Capabilities) -> bool {
    !own.resources.is_empty() || !own.templates.is_empty()
}

/// Whether the name of one of two servers begins with that of the other.
pub fn are_related(one: &ServerName, other: &ServerName) -> bool {
    let (one, other) = (one.as_str(), other.as_str());
    one != other && (one.starts_with(other) || other.starts_with(one))
}

/// The names and URIs that lead to an item of one server and to that of another: each with the list,
/// and a sentence for the operator.
pub fn collisions(of: &ServerName, all: &OfferedLists) -> Vec<(ListKind, String)> {
    let mut found = Vec::new();
    let Some(own) = all.iter().find(|(server, _)| server == of) else { return found };
    for other in all.iter().filter(|(other, _)| are_related(of, other)) {
        let is_longer = other.0.as_str().len() > of.as_str().len();
        let (short, long) = if is_longer { (own, other) } else { (other, own) };
        for kind in [ListKind::Tools, ListKind::Prompts] {
            found.extend(
                same_names(kind, short, long, all).into_iter().map(|sentence| (kind, sentence)),
            );
        }
    }
    for kind in [ListKind::Resources, ListKind::ResourceTemplates] {
        found.extend(same_uris(kind, &own.1, all).into_iter().map(|sentence| (kind, sentence)));
    }
    found.truncate(MAX_COLLISIONS);
    found
}

/// The names or URIs in a list of a server.
fn keys(kind: ListKind, lists: &Capabilities) -> Vec<Arc<str>> {
    lists.entries(kind).into_iter().map(|(key, _)| Arc::clone(key)).collect()
}

/// Names of two servers, of which the name of one begins with that of the other: `a.b.c` is `b.c` of
/// `a`, and `c` of `a.b`.
fn same_names(
    kind: ListKind,
    (short, lists_of_short): &OfferedList,
    (long, lists_of_long): &OfferedList,
    all: &OfferedLists,
) -> Vec<String> {
    let rest = &long.as_str()[short.as_str().len()..];
    let shorts: HashSet<Arc<str>> = keys(kind, lists_of_short).into_iter().collect();
    let longs = if shorts.is_empty() { Vec::new() } else { keys(kind, lists_of_long) };
    let shorts = &shorts;
    let pairs = longs.iter().flat_map(|kept| {
        let of_short = move |separator: &'static str| {
            let tail = format!("{rest}{separator}{kept}");
            let other = shorts.get(tail.strip_prefix(separator)?)?;
            Some((separator, Arc::clone(kept), Arc::clone(other)))
        };
        SEPARATORS.into_iter().filter_map(of_short)
    });
    let pairs: Vec<_> = pairs.take(MAX_COLLISIONS).collect();
    let known: Vec<(&ServerName, Arc<str>)> = if pairs.is_empty() {
        Vec::new()
    } else {
        all.iter()
            .flat_map(|(server, lists)| keys(kind, lists).into_iter().map(move |key| (server, key)))
            .collect()
    };
    let sentences = pairs.into_iter().map(|(separator, kept, other)| {
        let reaches = |name: &String| {
            let known = known.iter().map(|(server, name)| (*server, name));
            resolve_name(name, known).is_ok_and(|found| found == (short, &other))
        };
        let spelled = SEPARATORS.iter().map(|sign| format!("{short}{sign}{other}")).find(reaches);
        let servers = all.iter().map(|(server, _)| server);
        let exposed = ExposedNames::new(servers).name(short, &other);
        let noun = kind.noun();
        let brief = |text: &str| cut(text, MAX_SHOWN_BYTES).to_owned();
        let spelled = match spelled {
            Some(name) => format!("`{}`", brief(&name)),
            None => format!("`{}` with its server named", brief(&other)),
        };
        format!(
            "`{}` is the {noun} `{}` of `{long}`; the {noun} `{}` of `{short}` is {spelled}, and \
             `{exposed}` for models and clients",
            brief(&format!("{long}{separator}{kept}")),
            brief(&kept),
            brief(&other),
        )
    });
    sentences.collect()
}

/// URIs that a server and others list.
fn same_uris(kind: ListKind, own: &Capabilities, all: &OfferedLists) -> Vec<String> {
    let own: HashSet<Arc<str>> = keys(kind, own).into_iter().collect();
    let mut first: Vec<(Arc<str>, Vec<&ServerName>)> = Vec::new();
    if !own.is_empty() && all.len() > 1 {
        for (server, lists) in all {
            for uri in keys(kind, lists).into_iter().filter(|uri| own.contains(uri)) {
                match first.iter_mut().find(|(known, _)| *known == uri) {
                    Some((_, servers)) => servers.push(server),
                    None => first.push((uri, vec![server])),
                }
            }
        }
    }
    let sentences = first.into_iter().filter_map(|(uri, servers)| {
        let (kept, others) = servers.split_first().filter(|(_, others)| !others.is_empty())?;
        let brief = |uri: &str| cut(uri, MAX_SHOWN_BYTES).to_owned();
        let others = others
            .iter()
            .map(|other| format!("that of `{other}` as `{}`", brief(&own_uri(other, &uri))));
        let (noun, others) = (kind.noun(), others.collect::<Vec<_>>().join(", "));
        Some(format!(
            "the {noun} `{}` is listed by several servers: clients of the gateway read that of \
             `{kept}`, and {others}",
            brief(&uri)
        ))
    });
    sentences.take(MAX_COLLISIONS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use protocol::FetchedList;

    fn lists(tools: &[&str], uris: &[&str]) -> Arc<Capabilities> {
        let mut all = Capabilities::default();
        let list = |entries: Vec<serde_json::Value>| FetchedList {
            entries: entries.into_iter().map(|entry| Arc::new(entry.into())).collect(),
            ..FetchedList::default()
        };
        let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
        let tools = list(tools.iter().map(tool).collect());
        let uris = list(uris.iter().map(|uri| json!({"uri": uri, "name": "r"})).collect());
        all.replace(ListKind::Tools, &tools, &base::Redactor::default());
        all.replace(ListKind::Resources, &uris, &base::Redactor::default());
        Arc::new(all)
    }

    fn reported(of: &str, all: &[(&str, Arc<Capabilities>)]) -> Vec<String> {
        let all: Vec<_> =
            all.iter().map(|(name, all)| (ServerName::new(name), Arc::clone(all))).collect();
        collisions(&ServerName::new(of), &all).into_iter().map(|(_, sentence)| sentence).collect()
    }

    #[test]
    fn names_that_lead_to_two_tools_are_reported_to_both_with_the_way_to_each() {
        let all = [
            ("a", lists(&["b.c", "b__c", "d"], &[])),
            ("a.b", lists(&["c", "d"], &[])),
            ("a__b", lists(&["c"], &[])),
            ("b", lists(&["c"], &[])),
        ];
        let dotted = reported("a.b", &all);
        assert_eq!(dotted.len(), 1, "{dotted:?}");
        assert!(
            dotted[0].starts_with(
                "`a.b.c` is the tool `c` of `a.b`; the tool `b.c` of `a` is `a:b.c`, and `a__b_c_"
            ),
            "{dotted:?}"
        );
        let lined = reported("a__b", &all);
        assert_eq!(lined.len(), 1, "{lined:?}");
        assert!(lined[0].starts_with("`a__b__c` is the tool `c` of `a__b`; the tool `b__c` of `a` is `a:b__c`, and `a__b__c_"), "{lined:?}");
        assert_eq!(reported("a", &all).len(), 2);
        assert!(reported("b", &all).is_empty());
    }

    #[test]
    fn a_uri_of_two_servers_is_that_of_the_first_and_the_other_has_its_own() {
        let all = [("x", lists(&[], &["f:1", "f:2"])), ("y", lists(&[], &["f:2"]))];
        let expected = "the resource `f:2` is listed by several servers: clients of the gateway \
                        read that of `x`, and that of `y` as `mcpdeck://y/f:2`";
        assert_eq!(reported("y", &all), [expected]);
        assert!(has_uris(&all[1].1) && !has_uris(&Capabilities::default()));
        assert_eq!(reported("x", &all), [expected]);
    }
}
