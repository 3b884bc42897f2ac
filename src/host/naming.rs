//! Names of tools: the canonical `{server}.{tool}` and accepted variants, and those
//! exposed to models and clients. Pure.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet};
use sha2::{Digest, Sha256};

use base::ServerName;
use base::file::hex;
use base::text::likeness;
use config::ToolFilter;
use config::error::{Error, ErrorCode};
use protocol::APP_URIS;

/// Resolves `asked` among `known`, an iterator of servers with the names of their tools or prompts.
///
/// A server is matched by the longest known prefix followed by a separator (`.`, `:`, `/` or `__`);
/// a bare name works when exactly one server has it, and so does the name that models see.
///
/// # Errors
/// [`ErrorCode::ToolNotFound`] with similar names, or [`ErrorCode::Ambiguous`] with the candidates.
pub fn resolve_name<'a>(
    asked: &str,
    known: impl IntoIterator<Item = (&'a ServerName, &'a Arc<str>)> + Clone,
) -> Result<(&'a ServerName, &'a Arc<str>), Error> {
    let qualified = known
        .clone()
        .into_iter()
        .filter(|(server, name)| split(asked, server).is_some_and(|rest| rest == &***name))
        .max_by_key(|(server, _)| server.as_str().len());
    let mut bare = known.clone().into_iter().filter(|(_, name)| &***name == asked);
    match (qualified, bare.next(), bare.next()) {
        (Some(found), ..) | (None, Some(found), None) => Ok(found),
        (None, None, _) if let Some(found) = exposed(asked, known.clone()) => Ok(found),
        (None, Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(bare);
            let message = format!("`{asked}` is offered by several servers");
            Err(Error::new(ErrorCode::Ambiguous, message)
                .help("write it as `server.name`")
                .candidates(all.map(|(s, n)| canonical_name(s, n))))
        }
        (None, None, _) => {
            let scored = known.into_iter().map(|(server, name)| {
                let full = canonical_name(server, name);
                // All names of one server share its beginning, which makes none of them like
                // another.
                let score = match split(asked, server) {
                    Some(rest) => likeness(rest, name),
                    None => likeness(asked, &full).max(likeness(asked, name)),
                };
                (score, full)
            });
            let message = format!("no server offers `{asked}`");
            let names = similar(scored);
            let error = Error::new(ErrorCode::ToolNotFound, message);
            // Without a name that may be meant, what there is has to be looked up.
            Err(if names.is_empty() { error.advised() } else { error.candidates(names) })
        }
    }
}

/// The names that may have been meant, of all with their likeness: the closest first.
fn similar(scored: impl Iterator<Item = (f64, String)>) -> Vec<String> {
    /// Less alike is not meant.
    const MIN_SIMILAR_SCORE: f64 = 0.75;
    /// Beside a close name, others are noise.
    const MAX_SCORE_DISTANCE: f64 = 0.1;
    const MAX_SIMILAR_NAMES: usize = 5;
    let mut scored: Vec<_> = scored.filter(|(score, _)| *score > MIN_SIMILAR_SCORE).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    scored.retain(|(score, _)| *score > best - MAX_SCORE_DISTANCE);
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(MAX_SIMILAR_NAMES).map(|(_, name)| name).collect()
}

/// The URIs and templates that may have been meant by `asked`, the closest first.
pub(super) fn similar_uris<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    // Beside their schemes: all begin with one, and most share it.
    let score = |uri: &'a str| match (asked.split_once(':'), uri.split_once(':')) {
        (Some((scheme, asked)), Some((other, rest))) => {
            let schemes = likeness(&scheme.to_ascii_lowercase(), other);
            let (asked, rest) = (asked.trim_start_matches('/'), rest.trim_start_matches('/'));
            schemes.min(likeness(asked, rest))
        }
        _ => likeness(asked, uri),
    };
    similar(known.map(|uri| (score(uri), uri.to_owned())))
}

/// The only tool or prompt that models and clients know by this name.
fn exposed<'a>(
    asked: &str,
    known: impl IntoIterator<Item = (&'a ServerName, &'a Arc<str>)>,
) -> Option<(&'a ServerName, &'a Arc<str>)> {
    if asked.len() > MAX_NAME_BYTES {
        return None;
    }
    let is_hashed = ends_with_hash(asked);
    let is_meant = |(server, name): &(&ServerName, &Arc<str>)| {
        exposed_name(Some(server), name) == asked
            || exposed_name(None, name) == asked
            || is_hashed && second_name(server, name) == asked
    };
    let mut found = known.into_iter().filter(is_meant);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The canonical name, `{server}.{name}`.
pub fn canonical_name(server: &ServerName, name: &str) -> String {
    [server.as_str(), ".", name].concat()
}

/// Maximum length of a name accepted by models and clients.
const MAX_NAME_BYTES: usize = 64;
/// Number of hexadecimal digits of the hash in a name.
const HASH_DIGITS: usize = 8;

/// `server__tool`, or the bare name without a server, within `^[A-Za-z0-9_-]{1,64}$`: other
/// characters are replaced by `_`, and an appended hash keeps such names distinct.
pub fn exposed_name(server: Option<&ServerName>, name: &str) -> String {
    let whole = match server {
        Some(server) => format!("{server}__{name}"),
        None => name.to_owned(),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if whole.len() <= MAX_NAME_BYTES && !whole.is_empty() && whole.chars().all(allowed) {
        return whole;
    }
    let plain: String = whole.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    hashed_name(&plain, &whole)
}

/// A name, truncated if necessary, with the hash of `of` appended.
pub fn hashed_name(name: &str, of: &str) -> String {
    let mut out: String = name.chars().take(MAX_NAME_BYTES - HASH_DIGITS - 1).collect();
    out.push('_');
    out.push_str(&hex(&Sha256::digest(of.as_bytes()))[..HASH_DIGITS]);
    out
}

/// Whether a name ends as [`hashed_name`] makes it end.
pub(super) fn ends_with_hash(name: &str) -> bool {
    let hash = name.rsplit_once('_').map_or("", |(_, hash)| hash);
    hash.len() == HASH_DIGITS && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The name of a tool whose [`exposed_name`] is another tool's.
pub(super) fn second_name(server: &ServerName, name: &str) -> String {
    hashed_name(&exposed_name(Some(server), name), &format!("{server}\0{name}"))
}

/// Gives the tools, or the prompts, of several servers the names by which models and clients know
/// them. No name is given twice.
pub struct ExposedNames<'s> {
    servers: Vec<&'s ServerName>,
    has_prefix: bool,
    taken: HashSet<String>,
}

impl<'s> ExposedNames<'s> {
    /// Names that begin with that of their server.
    pub fn new(servers: impl IntoIterator<Item = &'s ServerName>) -> Self {
        let servers = servers.into_iter().collect();
        Self { servers, has_prefix: true, taken: HashSet::new() }
    }

    /// Names as they are, where there is one server.
    pub fn bare() -> Self {
        Self { servers: Vec::new(), has_prefix: false, taken: HashSet::new() }
    }

    /// The name of a tool or prompt.
    pub fn name(&mut self, server: &ServerName, name: &str) -> String {
        let plain = exposed_name(self.has_prefix.then_some(server), name);
        // What begins with the name of another server is that server's, as in patterns and on the
        // command line, even while it lists no such tool: no name may change what it leads to.
        let meant = split_name(&plain, self.servers.iter().map(|server| server.as_str()));
        let is_own = meant.is_none_or(|(meant, _)| meant == server.as_str());
        let plain = if is_own { plain } else { second_name(server, name) };
        self.given(plain, server, name)
    }

    /// The name of a tool or prompt that was chosen by somebody, unless it is taken.
    pub fn given(&mut self, chosen: String, server: &ServerName, name: &str) -> String {
        let mut of = format!("{server}\0{name}");
        let mut out = chosen.clone();
        while !self.taken.insert(out.clone()) {
            out = hashed_name(&chosen, &of);
            of.push('\0');
        }
        out
    }
}

/// The URI, or URI template, of a resource of this server whose own one is that of another server.
pub fn own_uri(server: &ServerName, uri: &str) -> String {
    let name = url::form_urlencoded::byte_serialize(server.as_str().as_bytes());
    let name = name.collect::<String>();
    match uri.strip_prefix(APP_URIS) {
        Some(rest) => format!("{OWN_APP_URIS}{name}/{rest}"),
        None => format!("{OWN_URIS}{name}/{uri}"),
    }
}

/// The beginning of all such URIs.
pub const OWN_URIS: &str = "mcpdeck://";
/// The beginning of those of pages of tools, by whose scheme clients know them.
pub const OWN_APP_URIS: &str = "ui://mcpdeck/";

/// Splits a name at the longest server name it begins with.
pub fn split_name<'a, 's>(
    asked: &'a str,
    servers: impl IntoIterator<Item = &'s str>,
) -> Option<(&'s str, &'a str)> {
    let found = servers.into_iter().filter_map(|server| Some((server, rest(asked, server)?)));
    found.max_by_key(|(server, _)| server.len())
}

pub(super) fn split<'a>(asked: &'a str, server: &ServerName) -> Option<&'a str> {
    rest(asked, server.as_str())
}

/// What follows the name of a server and a separator.
fn rest<'a>(asked: &'a str, server: &str) -> Option<&'a str> {
    let rest = asked.strip_prefix(server)?;
    rest.strip_prefix(['.', ':', '/']).or_else(|| rest.strip_prefix("__"))
}

/// Splits a name at its first separator, for a server that is not known.
pub fn split_first(asked: &str) -> Option<(&str, &str)> {
    let split = |at: usize| Some((asked.get(..at)?, rest(asked, asked.get(..at)?)?));
    asked.char_indices().skip(1).find_map(|(at, _)| split(at))
}

// The filter of visible tools (`tools.allow`, `tools.deny`): globs over names, deny wins.

/// A compiled filter.
pub struct Visible {
    allow: Option<GlobSet>,
    deny: GlobSet,
}

impl Visible {
    /// Compiles a filter.
    ///
    /// # Errors
    /// When one of its patterns is not a glob of names: then nobody knows what it was to hide.
    pub fn new(filter: &ToolFilter) -> Result<Self, globset::Error> {
        let allow = (!filter.allow.is_empty()).then(|| globs(&filter.allow)).transpose()?;
        Ok(Self { allow, deny: globs(&filter.deny)? })
    }

    /// Whether a tool is visible.
    pub fn shows(&self, name: &str) -> bool {
        let name = &*literal(name);
        self.allow.as_ref().is_none_or(|allow| allow.is_match(name)) && !self.deny.is_match(name)
    }
}

/// Whether any of these globs matches a name; when one cannot be read, it may be meant by it.
pub fn may_match(patterns: &[String], name: &str) -> bool {
    globs(patterns).map_or(true, |globs| globs.is_match(&*literal(name)))
}

/// On Windows globs treat a backslash as a slash, which must stay distinct in tool names, so it is
/// replaced by a private-use character.
fn literal(text: &str) -> Cow<'_, str> {
    if cfg!(windows) && text.contains('\\') {
        Cow::Owned(text.replace('\\', "\u{f05c}"))
    } else {
        Cow::Borrowed(text)
    }
}

fn globs(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let globs = patterns.iter().map(|pattern| {
        // Tool names are not paths: `*` crosses `/`, and a backslash is a literal character.
        let pattern = literal(pattern);
        GlobBuilder::new(&pattern).literal_separator(false).backslash_escape(false).build()
    });
    GlobSet::new(globs.collect::<Result<Vec<_>, _>>()?)
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

    fn ask(asked: &str) -> Result<String, Error> {
        let names = names();
        resolve_name(asked, names.iter().map(|(s, n)| (s, n)))
            .map(|(server, name)| format!("{server}|{name}"))
    }

    #[test]
    fn the_longest_server_prefix_wins_with_any_separator() {
        assert_eq!(ask("a.b.x").as_deref(), Ok("a.b|x"));
        assert_eq!(ask("a:x").as_deref(), Ok("a|x"));
        assert_eq!(ask("git/status").as_deref(), Ok("git|status"));
    }

    #[test]
    fn the_name_that_models_see_is_known_too() {
        assert_eq!(ask("git__status").as_deref(), Ok("git|status"));
        let spaced = (ServerName::new("my files"), Arc::from("read"));
        let exposed = exposed_name(Some(&spaced.0), "read");
        let found = resolve_name(&exposed, [(&spaced.0, &spaced.1)]).expect("known");
        assert_eq!(found, (&spaced.0, &spaced.1));
    }

    #[test]
    fn exposed_names_stay_within_what_clients_accept_and_differ() {
        let server = ServerName::new("files");
        assert_eq!(exposed_name(Some(&server), "read"), "files__read");
        assert_eq!(exposed_name(None, "read"), "read");
        let long = "x".repeat(80);
        let (a, b) =
            (exposed_name(Some(&server), &long), exposed_name(Some(&server), &format!("{long}y")));
        assert!(a.len() <= MAX_NAME_BYTES && b.len() <= MAX_NAME_BYTES && a != b, "{a} {b}");
        let (dot, slash) = (exposed_name(Some(&server), "a.b"), exposed_name(Some(&server), "a/b"));
        assert_ne!(dot, slash);
        for name in [&a, &b, &dot, &slash] {
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        }
    }

    #[test]
    fn a_name_that_begins_with_another_server_is_left_to_that_one() {
        let all = ["a", "a__b", "a_"].map(ServerName::new);
        let known = [("a__b", "c"), ("a", "b__c"), ("a", "_x"), ("a_", "x"), ("a", "B__c")];
        let known = known.map(|(server, name)| (ServerName::new(server), Arc::<str>::from(name)));
        let mut names = ExposedNames::new(&all);
        let given: Vec<String> =
            known.iter().map(|(server, name)| names.name(server, name)).collect();
        assert_eq!((given[0].as_str(), given[3].as_str()), ("a__b__c", "a___x"));
        assert_eq!(given[4], "a__B__c", "case tells them apart");
        assert!(given[1].starts_with("a__b__c_") && given[2].starts_with("a___x_"), "{given:?}");
        // Whichever is listed first, and while the other one is not there.
        assert_eq!(ExposedNames::new(&all).name(&known[1].0, &known[1].1), given[1]);
        for ((server, name), given) in known.iter().zip(&given) {
            let found = resolve_name(given, known.iter().map(|(s, n)| (s, n))).expect("known");
            assert_eq!(found, (server, name), "{given}");
        }
        // A tool that takes the name of another's second name on purpose.
        let mut names = ExposedNames::new(&all);
        let (server, name) = (&all[0], given[1].strip_prefix("a__").expect("of a"));
        let thief = names.given(format!("a__{name}"), server, name);
        let later = names.name(&known[1].0, &known[1].1);
        assert_ne!(thief, later);
    }

    #[test]
    fn a_bare_name_works_when_it_is_unique_and_lists_candidates_otherwise() {
        assert_eq!(ask("b.x").as_deref(), Ok("a|b.x"));
        let error = ask("status").expect_err("two servers have it");
        assert_eq!(error.code, ErrorCode::Ambiguous);
        assert_eq!(error.candidates, ["git.status", "svn.status"]);
    }

    #[test]
    fn an_unknown_name_suggests_similar_ones() {
        let error = ask("git.statsu").expect_err("unknown");
        assert_eq!(error.code, ErrorCode::ToolNotFound);
        assert_eq!(error.candidates.first().map(String::as_str), Some("git.status"));
        // What only begins as it does, because the server is the same, is not suggested beside it.
        let server = ServerName::new("memory");
        let tools = ["search_nodes", "open_nodes", "create_relations", "add_observations"];
        let tools = tools.map(Arc::<str>::from);
        let known = tools.iter().map(|tool| (&server, tool));
        let error = resolve_name("memory.serch_nodes", known).expect_err("unknown");
        assert_eq!(error.candidates, ["memory.search_nodes"]);
        // In a short name one swap is a third of all.
        let short = ["add", "big", "log"].map(Arc::<str>::from);
        let known = || short.iter().map(|tool| (&server, tool));
        for (asked, meant) in
            [("memory.bgi", "memory.big"), ("ibg", "memory.big"), ("lgo", "memory.log")]
        {
            let error = resolve_name(asked, known()).expect_err("unknown");
            assert_eq!(error.candidates, [meant], "{asked}");
        }
        let error = resolve_name("memory.igb", known()).expect_err("unknown");
        assert!(error.candidates.is_empty(), "{error:?}");
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_leads_where_its_spelling_says_and_nowhere_else(
            known in prop::collection::btree_set(("[a.]{1,3}", "[a./]{1,3}"), 0..12),
            asked in "[a.:/]{0,6}",
        ) {
            let known: Vec<(ServerName, Arc<str>)> =
                known.iter().map(|(s, n)| (ServerName::new(s), Arc::from(n.as_str()))).collect();
            let pairs = || known.iter().map(|(s, n)| (s, n));
            let spelled = |server: &ServerName, name: &str| {
                ['.', ':', '/'].iter().any(|sign| asked == format!("{server}{sign}{name}"))
            };
            let full: Vec<_> = pairs().filter(|(s, n)| spelled(s, n)).collect();
            let bare: Vec<_> = pairs().filter(|(_, n)| ***n == *asked).collect();
            match resolve_name(&asked, pairs()) {
                Ok(found) if full.is_empty() => {
                    prop_assert_eq!(bare.len(), 1);
                    prop_assert_eq!(found, bare[0]);
                }
                Ok(found) => {
                    prop_assert!(full.contains(&found));
                    let longest = full.iter().map(|(s, _)| s.as_str().len()).max();
                    prop_assert_eq!(Some(found.0.as_str().len()), longest);
                }
                Err(error) => {
                    prop_assert!(full.is_empty());
                    prop_assert_eq!(error.code == ErrorCode::Ambiguous, bare.len() > 1);
                    prop_assert_eq!(error.code == ErrorCode::ToolNotFound, bare.is_empty());
                    for candidate in &error.candidates {
                        prop_assert!(pairs().any(|(s, n)| canonical_name(s, n) == *candidate));
                    }
                }
            }
        }

        #[test]
        fn every_tool_is_reached_by_its_canonical_name_unless_a_longer_server_name_takes_it(
            known in prop::collection::btree_set(("[a.]{1,3}", "[a./]{1,3}"), 1..12),
        ) {
            let known: Vec<(ServerName, Arc<str>)> =
                known.iter().map(|(s, n)| (ServerName::new(s), Arc::from(n.as_str()))).collect();
            for (server, name) in &known {
                let found = resolve_name(&canonical_name(server, name), known.iter().map(|(s, n)| (s, n)));
                let found = found.expect("it is known");
                let other = found.0.as_str().len() > server.as_str().len();
                prop_assert!(other || found == (server, name));
            }
        }
    }
}

#[cfg(test)]
mod filter_tests {
    use super::*;

    fn shows(allow: &[&str], deny: &[&str], name: &str) -> bool {
        let own = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let filter = ToolFilter { allow: own(allow), deny: own(deny) };
        Visible::new(&filter).is_ok_and(|visible| visible.shows(name))
    }

    #[test]
    fn an_empty_filter_shows_everything_and_deny_wins() {
        assert!(shows(&[], &[], "any"));
        assert!(shows(&["read_*"], &[], "read_file"));
        assert!(!shows(&["read_*"], &[], "write_file"));
        assert!(!shows(&["*"], &["write_*"], "write_file"));
        assert!(shows(&["a/*"], &[], "a/b/c"));
    }

    #[test]
    fn a_filter_with_a_pattern_that_cannot_be_read_shows_nothing() {
        for broken in ["[broken", r"drop\{all", "{a"] {
            assert!(!shows(&[broken], &[], "x"), "{broken}");
            assert!(!shows(&[], &[broken], "x"), "{broken}");
            assert!(!shows(&["x"], &["y", broken], "x"), "{broken}");
            assert!(may_match(&[broken.to_owned()], "x"), "{broken}");
        }
        assert!(!may_match(&[], "x"));
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn deny_wins_and_a_plain_name_is_that_name_only(
            allow in prop::collection::vec("[ab*?\\[\\]{}!,\\\\-]{0,6}", 0..4),
            name in "[ab/\\\\]{1,6}", other in "[ab/\\\\]{1,6}",
        ) {
            let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
            prop_assert!(!shows(&allow, &[&name], &name));
            prop_assert!(!shows(&allow, &["*"], &name));
            prop_assert_eq!(shows(&[&name], &[], &other), name == other);
            prop_assert!(allow.is_empty() || shows(&allow, &[], &name) || !shows(&allow, &[], &name));
        }
    }
}
