//! Patterns: globs over qualified names, in rules, grants and the allow lists of callers. A pattern is
//! written with any separator of [`super::naming`], so a name is matched in each of its spellings.
//! Pure.

use std::sync::Arc;

use globset::{Candidate, Glob, GlobSet};

use super::naming::{
    canonical_name, ends_with_hash, exposed_name, second_name, split_first, split_name,
};
use base::ServerName;
use base::text::nearest;
use protocol::Capabilities;

/// How a pattern is read when the name of one server begins with that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reading<'s> {
    /// It denies, or asks: any item that it can mean.
    Wide,
    /// It permits: when it begins with the name of a server, by the longest of these names, items
    /// of that server alone.
    Narrow(&'s [ServerName]),
}

/// Compiled patterns over qualified names (`server.tool`, `server/tool`, `server:tool`, or
/// `server__tool` as models and clients see it).
#[derive(Clone, Debug, Default)]
pub struct NamePatterns {
    set: GlobSet,
    /// What each begins with, up to its first wildcard.
    begins: Vec<Box<str>>,
    /// Whether any may be a name with a hash.
    is_hashed: bool,
}

impl NamePatterns {
    /// Compiles patterns.
    ///
    /// # Errors
    /// When they are too large together.
    pub fn new<'g>(globs: impl IntoIterator<Item = &'g Glob>) -> Result<Self, globset::Error> {
        let globs: Vec<&Glob> = globs.into_iter().collect();
        let set = GlobSet::new(globs.iter().copied())?;
        let wild = ['*', '?', '[', '{', '\\'];
        let begins = globs.iter().map(|glob| glob.glob().split(wild).next().unwrap_or("").into());
        let is_hashed = globs.iter().any(|glob| ends_with_hash(glob.glob()));
        Ok(Self { set, begins: begins.collect(), is_hashed })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.begins.is_empty()
    }

    /// Compiles one pattern.
    ///
    /// # Errors
    /// When it is not a glob.
    pub fn parse(pattern: &str) -> Result<Self, globset::Error> {
        Self::new([&Glob::new(pattern)?])
    }

    /// The patterns that match a tool or prompt of a server, by index, in ascending order.
    pub fn matches(&self, server: &str, name: &str, reading: Reading<'_>) -> Vec<usize> {
        let mut found = Vec::new();
        for spelling in spellings(server, name) {
            found.extend(self.set.matches_candidate(&Candidate::new(&spelling)));
        }
        // Of a tool whose other names are those of a tool of another server.
        let mut second = Vec::new();
        if self.is_hashed {
            let name = second_name(&ServerName::new(server), name);
            second = self.set.matches(&name);
            found.extend(&second);
        }
        found.sort_unstable();
        found.dedup();
        if let Reading::Narrow(servers) = reading {
            let known = || servers.iter().map(ServerName::as_str);
            found.retain(|at| {
                let meant = split_name(&self.begins[*at], known());
                meant.is_none_or(|(meant, _)| meant == server) || second.contains(at)
            });
        }
        found
    }

    /// Whether any matches a tool or prompt of a server.
    pub fn is_match(&self, server: &str, name: &str, reading: Reading<'_>) -> bool {
        !self.matches(server, name, reading).is_empty()
    }

    /// Whether any matches a text that has one spelling: a URI, or the name of a server.
    pub fn is_match_text(&self, text: &str) -> bool {
        self.set.is_match(text)
    }

    /// The patterns that match a text that has one spelling, by index.
    pub fn matches_text(&self, text: &str) -> Vec<usize> {
        self.set.matches(text)
    }
}

/// The spellings of a tool or prompt of a server, the canonical one first.
fn spellings(server: &str, name: &str) -> [String; 4] {
    let exposed = exposed_name(Some(&ServerName::new(server)), name);
    [format!("{server}.{name}"), format!("{server}/{name}"), format!("{server}:{name}"), exposed]
}

/// What a server offers, for `meets`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OfferedNames {
    /// The server.
    pub server: ServerName,
    /// Its tools and prompts; `None` when they are not known, so it could have any.
    pub names: Option<Vec<Arc<str>>>,
}

impl OfferedNames {
    /// The tools of a server, if its lists are known.
    pub fn of_tools(server: ServerName, lists: Option<&Capabilities>) -> Self {
        let names = lists.map(|all| all.tools.iter().map(|tool| Arc::clone(&tool.name)).collect());
        Self { server, names }
    }
}

/// Whether a pattern matches something that is offered, or could be by a server whose lists are not
/// known.
pub(super) fn meets(pattern: &Glob, offered: &[OfferedNames]) -> bool {
    let Ok(pattern_of) = NamePatterns::new([pattern]) else { return false };
    let servers: Vec<ServerName> = offered.iter().map(|of| of.server.clone()).collect();
    let reading = Reading::Narrow(&servers);
    let made_up = plain_texts(pattern.glob());
    offered.iter().any(|of| {
        let is_match = |name: &str| pattern_of.is_match(of.server.as_str(), name, reading);
        match &of.names {
            Some(names) => names.iter().any(|name| is_match(name)),
            // A name made up of the end of the pattern.
            None => {
                made_up.iter().any(|text| text.char_indices().any(|(at, _)| is_match(&text[at..])))
            }
        }
    })
}

/// A similar qualified name, if a pattern without a match was misspelled or lacks its server.
pub(super) fn meant_by(pattern: &str, offered: &[OfferedNames]) -> Option<String> {
    let full = |of: &OfferedNames, name: &str| canonical_name(&of.server, name);
    let all = || {
        let listed = |of: &'_ OfferedNames| of.names.clone().unwrap_or_default();
        offered.iter().flat_map(move |of| {
            listed(of).into_iter().map(|name| (full(of, &name), name)).collect::<Vec<_>>()
        })
    };
    if let Some((found, _)) = all().find(|(_, name)| &**name == pattern) {
        return Some(found);
    }
    if let Some(near) = nearest(pattern, all().map(|(full, _)| full), 0.8) {
        return Some(near);
    }
    // The name of a server may be what is misspelled.
    let (server, rest) = split_first(pattern)?;
    let known = offered.iter().map(|of| of.server.as_str());
    let near = nearest(server, known, 0.8).filter(|near| *near != server)?;
    Some(format!("{near}.{rest}"))
}

/// Most texts that are made up from one pattern.
const MAX_TEXTS: usize = 64;

/// Texts that a glob matches: wildcards become a letter, a class its first member, alternatives
/// each their own text. Good enough for a warning.
fn plain_texts(glob: &str) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut chars = glob.chars();
    while let Some(c) = chars.next() {
        let push = |texts: &mut Vec<String>, c: char| texts.iter_mut().for_each(|t| t.push(c));
        match c {
            '*' | '?' => push(&mut texts, 'x'),
            '\\' => push(&mut texts, chars.next().unwrap_or('\\')),
            '[' => {
                let class: String = chars.by_ref().take_while(|c| *c != ']').collect();
                let is_negated = class.starts_with(['!', '^']);
                let first = class.chars().next().filter(|_| !is_negated);
                push(&mut texts, first.unwrap_or('~'));
            }
            '{' => {
                let inner: String = chars.by_ref().take_while(|c| *c != '}').collect();
                let each = |text: &String| {
                    let text = text.clone();
                    inner
                        .split(',')
                        .flat_map(plain_texts)
                        .map(move |end| text.clone() + &end)
                        .collect::<Vec<_>>()
                };
                texts = texts.iter().flat_map(each).take(MAX_TEXTS).collect();
            }
            c => push(&mut texts, c),
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<(ServerName, Arc<str>)> {
        [("a", "x"), ("a", "b.x"), ("a.b", "x"), ("git", "status"), ("svn", "status")]
            .into_iter()
            .map(|(s, n)| (ServerName::new(s), Arc::from(n)))
            .collect()
    }

    fn matching(pattern: &str, reading: Reading<'_>) -> Vec<String> {
        let pattern = NamePatterns::parse(pattern).expect("a glob");
        let names = names();
        let all = names.iter().filter(|(s, n)| pattern.is_match(s.as_str(), n, reading));
        all.map(|(s, n)| format!("{s}|{n}")).collect()
    }

    #[test]
    fn a_pattern_is_written_with_any_separator() {
        for sign in [".", "/", ":", "__"] {
            let pattern = |name: &str| format!("git{sign}{name}");
            for name in ["status", "st*", "*", "[s]tatus", "{status,log}"] {
                assert_eq!(matching(&pattern(name), Reading::Wide), ["git|status"], "{sign}{name}");
            }
            assert!(matching(&pattern("log"), Reading::Wide).is_empty());
            assert_eq!(matching(&format!("*{sign}status"), Reading::Wide).len(), 2, "{sign}");
        }
    }

    #[test]
    fn what_permits_belongs_to_the_longest_known_server_and_what_denies_to_all_it_can_mean() {
        let servers: Vec<ServerName> = ["a", "a.b", "git"].map(ServerName::new).into();
        let narrow = Reading::Narrow(&servers);
        assert_eq!(matching("a.b.x", narrow), ["a.b|x"]);
        assert_eq!(matching("a.b.*", narrow), ["a.b|x"]);
        assert_eq!(matching("a.*", narrow), ["a|x", "a|b.x"]);
        assert_eq!(matching("a/b.x", narrow), ["a|b.x"]);
        assert_eq!(matching("*", narrow).len(), 5);
        assert_eq!(matching("a.b.x", Reading::Wide), ["a|b.x", "a.b|x"]);
        assert_eq!(matching("a.*", Reading::Wide), ["a|x", "a|b.x", "a.b|x"]);
    }

    #[test]
    fn a_pattern_that_can_mean_nothing_is_told_from_one_that_can() {
        let listed = |server: &str, names: &[&str]| OfferedNames {
            server: ServerName::new(server),
            names: Some(names.iter().map(|name| Arc::from(*name)).collect()),
        };
        let unknown = OfferedNames { server: ServerName::new("later"), names: None };
        let offered = [listed("files", &["read", "write"]), unknown];
        let may = |pattern: &str| meets(&Glob::new(pattern).expect("a glob"), &offered);
        for pattern in [
            "*",
            "files.read",
            "files/r*",
            "files:{read,list}",
            "files__read",
            "f*.read",
            "*.read",
            "later.anything",
            "later/*",
            "l*r:any_[ab]",
            "{other,later}.x",
            "{other.x,later.y}",
            "late*",
            "later.a.b/c",
        ] {
            assert!(may(pattern), "{pattern}");
        }
        for pattern in ["files.list", "filse.read", "read", "other.*", "filesread", "later"] {
            assert!(!may(pattern), "{pattern}");
        }
        let meant = |pattern: &str| meant_by(pattern, &offered);
        assert_eq!(meant("read").as_deref(), Some("files.read"));
        assert_eq!(meant("files/raed").as_deref(), Some("files.read"));
        assert_eq!(meant("laterr.x").as_deref(), Some("later.x"));
        assert_eq!(meant("zzz.qqq"), None);
    }
}
