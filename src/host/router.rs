//! Resolves names and URIs to servers: rebuilt when lists change,
//! read by every call.
//!
//! Includes the last known lists of servers that are down: their tools are reported as unavailable,
//! with the reason, never as unknown.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::naming::{canonical_name, resolve_name, similar_uris, split};
use super::policy::TargetKind;
use super::server::slot::{Slot, Slots};
use base::ServerName;
use base::text::likeness;
use config::error::{Error, ErrorCode};
use protocol::ListKind;

/// A server and one of its items, as the server spells it.
pub type Route = (Arc<Slot>, Arc<str>);

type Names = Vec<(ServerName, Arc<str>)>;

/// A snapshot of all routes.
#[derive(Default)]
pub struct Routes {
    slots: Slots,
    tools: Names,
    prompts: Names,
    /// Canonical tool names, the fast path of most calls.
    canonical: HashMap<Box<str>, Route>,
    resources: HashMap<Arc<str>, Vec<Arc<Slot>>>,
    templates: Vec<(Arc<str>, Arc<Slot>)>,
}

/// The server of a name among all.
///
/// # Errors
/// [`ErrorCode::Configuration`] with the known names, the most similar first.
pub fn find_server<'a>(slots: &'a Slots, name: &ServerName) -> Result<&'a Arc<Slot>, Error> {
    const MAX_NAMED_SERVERS: usize = 20;
    slots.get(name).ok_or_else(|| {
        let score = |known: &&ServerName| likeness(name.as_str(), known.as_str());
        let mut known: Vec<&ServerName> = slots.keys().collect();
        known.sort_by(|a, b| score(b).total_cmp(&score(a)));
        known.truncate(MAX_NAMED_SERVERS);
        Error::new(ErrorCode::Configuration, format!("no server `{name}`"))
            .help("`mcpdeck list` shows the servers")
            .candidates(known)
    })
}

impl Routes {
    /// Builds the routes from the lists of every server.
    pub fn build(slots: &Slots) -> Self {
        let mut routes = Self { slots: slots.clone(), ..Self::default() };
        for slot in slots.values() {
            let all = Arc::clone(&slot.live().capabilities);
            for tool in &all.tools {
                let name = Arc::clone(&tool.name);
                let full = canonical_name(&slot.name, &name).into_boxed_str();
                // Two servers can spell one canonical name (`a` + `b.x`, `a.b` + `x`): the longest
                // server name wins, which is the rule of `naming`.
                let longer =
                    |(other, _): &Route| other.name.as_str().len() > slot.name.as_str().len();
                if !routes.canonical.get(&full).is_some_and(longer) {
                    routes.canonical.insert(full, (Arc::clone(slot), Arc::clone(&name)));
                }
                routes.tools.push((slot.name.clone(), name));
                // Servers need not list the pages of their tools.
                if let Some(uri) = tool.app() {
                    routes.resources.entry(uri.into()).or_default().push(Arc::clone(slot));
                }
            }
            for prompt in &all.prompts {
                routes.prompts.push((slot.name.clone(), Arc::clone(&prompt.name)));
            }
            for resource in &all.resources {
                let lists = routes.resources.entry(Arc::clone(&resource.uri)).or_default();
                lists.push(Arc::clone(slot));
            }
            for template in &all.templates {
                routes.templates.push((Arc::clone(&template.uri), Arc::clone(slot)));
            }
        }
        routes
    }

    /// A server by name.
    ///
    /// # Errors
    /// As [`find_server`].
    pub fn server(&self, name: &ServerName) -> Result<&Arc<Slot>, Error> {
        find_server(&self.slots, name)
    }

    /// The servers that are being started and may list what cannot be found: the one that `asked`
    /// names, otherwise any.
    pub fn coming(&self, asked: Option<&str>, server: Option<&ServerName>) -> Vec<Arc<Slot>> {
        let named = server.cloned().or_else(|| {
            let fits = |name: &&ServerName| asked.is_some_and(|asked| split(asked, name).is_some());
            self.slots.keys().filter(fits).max_by_key(|name| name.as_str().len()).cloned()
        });
        let may_have = |slot: &&Arc<Slot>| named.as_ref().is_none_or(|name| slot.name == *name);
        let coming = self.slots.values().filter(may_have).filter(|slot| slot.live().is_coming());
        coming.cloned().collect()
    }

    /// Every tool or prompt, with its server.
    pub fn names(&self, kind: TargetKind) -> &[(ServerName, Arc<str>)] {
        if kind == TargetKind::Tool { &self.tools } else { &self.prompts }
    }

    /// Resolves `asked` to a tool or prompt, of `server` when given.
    ///
    /// # Errors
    /// [`ErrorCode::ToolNotFound`], [`ErrorCode::Ambiguous`]; [`ErrorCode::PermissionDenied`] for a
    /// tool that the entry's filter hides; [`ErrorCode::ServerUnavailable`] when the server named
    /// has not listed its tools.
    pub fn named(
        &self,
        asked: &str,
        server: Option<&ServerName>,
        kind: TargetKind,
    ) -> Result<Route, Error> {
        if kind == TargetKind::Tool
            && server.is_none()
            && let Some(route) = self.canonical.get(asked)
        {
            return Ok(route.clone());
        }
        let pairs = self.names(kind).iter().map(|(server, name)| (server, name));
        let found = match server {
            None => resolve_name(asked, pairs),
            Some(server) => {
                self.server(server)?;
                resolve_name(asked, pairs.filter(|(other, _)| *other == server))
            }
        };
        match found {
            Ok((server, name)) => Ok((Arc::clone(self.server(server)?), Arc::clone(name))),
            Err(error) if error.code == ErrorCode::ToolNotFound => {
                let better = self.hidden_or_down(asked, server);
                let list = match kind {
                    TargetKind::Prompt => ListKind::Prompts,
                    _ => ListKind::Tools,
                };
                Err(better.unwrap_or_else(|| self.with_partial_lists(error, list, server)))
            }
            Err(error) => Err(error),
        }
    }

    /// Adds the incomplete lists to a "not found" error, since they might contain the item.
    fn with_partial_lists(
        &self,
        mut error: Error,
        list: ListKind,
        server: Option<&ServerName>,
    ) -> Error {
        let slots = self.slots.values().filter(|slot| server.is_none_or(|name| slot.name == *name));
        for slot in slots {
            let live = slot.live();
            for (_, why) in live.capabilities.partial.iter().filter(|(kind, _)| *kind == list) {
                let (method, name) = (list.method(), &slot.name);
                let _ = write!(error.message, "; `{method}` of {name} is not complete: {why}");
                error.help = Some(format!("`mcpdeck --check --server {name}` says what is wrong"));
            }
        }
        error
    }

    /// A more specific error than "not found", if there is one.
    fn hidden_or_down(&self, asked: &str, server: Option<&ServerName>) -> Option<Error> {
        let strip = |name: &ServerName| split(asked, name);
        let hides = |slot: &Slot, name: &str| slot.live().hidden.iter().any(|h| &**h == name);
        let slot = if let Some(server) = server {
            self.slots.get(server)?
        } else {
            let named = self.slots.values().filter(|slot| strip(&slot.name).is_some());
            let named = named.max_by_key(|slot| slot.name.as_str().len());
            named.or_else(|| self.slots.values().find(|slot| hides(slot, asked)))?
        };
        let live = slot.live();
        let name = strip(&slot.name).unwrap_or(asked);
        if hides(slot, name) {
            let message = format!("the tool `{name}` is hidden by the entry's `tools` filter");
            return Some(
                Error::new(ErrorCode::PermissionDenied, message)
                    .server(&slot.name)
                    .help("change `tools.allow` or `tools.deny`"),
            );
        }
        let rejected = live.capabilities.rejected.iter();
        if let Some(entry) = { rejected }.find(|entry| entry.raw["name"] == name) {
            let message = format!("`{name}` is listed but cannot be used: {}", entry.reason);
            let help = format!("`mcpdeck --check --server {}` shows what to correct", slot.name);
            let error = Error::new(ErrorCode::ToolNotFound, message);
            return Some(error.server(&slot.name).help(help));
        }
        (!live.is_callable()).then(|| live.unavailable())
    }

    /// The server of the resource `uri`: the one that lists it, otherwise the one with the best
    /// matching template.
    ///
    /// # Errors
    /// [`ErrorCode::ToolNotFound`] with similar URIs, or [`ErrorCode::Ambiguous`] with the servers.
    pub fn resource(&self, uri: &str, server: Option<&ServerName>) -> Result<Arc<Slot>, Error> {
        if let Some(server) = server {
            return self.server(server).cloned();
        }
        if let Some(slots) = self.resources.get(uri) {
            return Self::only(uri, slots.iter());
        }
        let fitting =
            self.templates.iter().filter_map(|(t, slot)| Some((fit_template(t, uri)?, slot)));
        let fitting: Vec<(usize, &Arc<Slot>)> = fitting.collect();
        let best = fitting.iter().map(|(literals, _)| *literals).max();
        let Some(best) = best else {
            let offers = |slot: &&Arc<Slot>| {
                let all = &slot.live().capabilities;
                !(all.resources.is_empty() && all.templates.is_empty())
            };
            // Servers read more than they list, and with one server there is nothing to guess.
            if let [slot] = self.slots.values().collect::<Vec<_>>()[..]
                && offers(&slot)
            {
                return Ok(Arc::clone(slot));
            }
            let error = self.unlisted_uri(uri, self.slots.values().filter(offers));
            return Err(self.with_partial_lists(error, ListKind::Resources, None));
        };
        let fitting = fitting.into_iter().filter(|(literals, _)| *literals == best);
        Self::only(uri, fitting.map(|(_, slot)| slot))
    }

    /// The error for a URI that no server lists, of those that list others.
    fn unlisted_uri<'a>(&self, uri: &str, others: impl Iterator<Item = &'a Arc<Slot>>) -> Error {
        const MAX_NAMED_READERS: usize = 5;
        let templates = self.templates.iter().map(|(template, _)| template);
        let known = self.resources.keys().chain(templates);
        let candidates = similar_uris(uri, known.map(|known| &**known));
        let mut readers: Vec<String> = others.map(|slot| format!("`{}`", slot.name)).collect();
        let help = if readers.is_empty() {
            "no server that is up has resources: `mcpdeck list` shows what there is".to_owned()
        } else {
            let more = readers.len().saturating_sub(MAX_NAMED_READERS);
            readers.truncate(MAX_NAMED_READERS);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "`mcpdeck list --only resources` shows those listed, `--only templates` their \
                 patterns\na server that is named (`--server`) is asked for what it does not list: \
                 {}{rest}",
                readers.join(", ")
            )
        };
        Error::new(ErrorCode::ToolNotFound, format!("no server lists `{uri}`"))
            .help(help)
            .candidates(candidates)
    }

    fn only<'a>(uri: &str, slots: impl Iterator<Item = &'a Arc<Slot>>) -> Result<Arc<Slot>, Error> {
        let mut found: Vec<&Arc<Slot>> = slots.collect();
        found.dedup_by(|a, b| Arc::ptr_eq(a, b));
        if let [one] = found[..] {
            return Ok(Arc::clone(one));
        }
        let message = format!("`{uri}` is offered by several servers");
        Err(Error::new(ErrorCode::Ambiguous, message)
            .help("name the server that should read it")
            .candidates(found.iter().map(|slot| &slot.name)))
    }
}

/// Maximum length of a template, in bytes; longer ones never match.
const MAX_TEMPLATE_BYTES: usize = 8 << 10;

/// Matches a URI against an RFC 6570 template; returns the length of the template's literal text in
/// bytes, where the template with more of it is the better match. Anything but an expression is
/// literal text.
pub fn fit_template(template: &str, uri: &str) -> Option<usize> {
    let start = template.split('{').next().unwrap_or_default();
    if !uri.starts_with(start) || template.len() > MAX_TEMPLATE_BYTES {
        return None;
    }
    let (mut pattern, mut literals, mut rest) = ("^".to_owned(), 0, template);
    let mut literal = |text: &str, pattern: &mut String| {
        literals += text.len();
        pattern.push_str(&regex::escape(text));
    };
    while let Some((text, (expression, after))) =
        rest.split_once('{').and_then(|(text, tail)| Some((text, tail.split_once('}')?)))
    {
        literal(text, &mut pattern);
        let simple = expression.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '%');
        // `{name}` matches one segment; `{+path}`, `{#part}`, `{/path*}`, `{?x,y}` etc. anything.
        pattern.push_str(if simple { "[^/?#]+" } else { "(?s:.*)" });
        rest = after;
    }
    literal(rest, &mut pattern);
    pattern.push('$');
    let matcher = regex::RegexBuilder::new(&pattern).size_limit(1 << 20).build().ok()?;
    matcher.is_match(uri).then_some(literals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(template: &str, uri: &str) -> bool {
        fit_template(template, uri).is_some()
    }

    #[test]
    fn a_simple_expression_is_one_segment_and_not_empty() {
        assert!(fits("notes://{id}", "notes://42"));
        assert!(!fits("notes://{id}", "notes://"));
        assert!(!fits("notes://{id}", "notes://a/b"));
        assert!(fits("db://{table}/{row}/x", "db://users/7/x"));
        assert!(!fits("db://{table}/{row}/x", "db://users/7/y"));
    }

    #[test]
    fn reserved_and_form_expressions_take_the_rest() {
        assert!(fits("file:///{+path}", "file:///etc/hosts"));
        assert!(fits("search://q{?text,page}", "search://q"));
        assert!(fits("search://q{?text,page}", "search://q?text=a&page=2"));
        assert!(!fits("search://q{?text}", "other://q?text=a"));
    }

    #[test]
    fn broken_templates_are_literal_text() {
        assert!(fits("a{b", "a{b"));
        assert!(fits("a}b", "a}b"));
        assert!(!fits("a{b", "axb"));
    }

    #[test]
    fn a_template_made_to_backtrack_costs_no_more_than_its_length() {
        let evil = "{+a}x".repeat(5_000);
        assert!(!fits(&evil, &"x".repeat(20)));
        let long = "{a}".repeat(60);
        assert!(fits(&long, &"y".repeat(8_000)));
    }

    #[test]
    fn multi_byte_text_is_matched_as_it_stands() {
        assert!(fits("ä://{name}/ö", "ä://日本/ö"));
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_expanded_from_it_fits(
            parts in prop::collection::vec(("[a-z:/.]{0,4}", "[a-zé%]{1,5}", "[a-z/?#é]{0,5}"), 0..8)
        ) {
            let (mut template, mut uri) = (String::new(), String::new());
            for (literal, segment, rest) in parts {
                template.extend([&literal, "{s}-{+r}"]);
                uri.extend([&literal, &segment, "-", rest.as_str()]);
            }
            prop_assert!(fits(&template, &uri), "{template} {uri}");
        }

        #[test]
        fn any_text_is_a_template_that_is_read_and_matched(template: String, uri: String) {
            let _ = fits(&template, &uri);
            let literal = template.replace(['{', '}'], "");
            prop_assert!(fits(&literal, &literal));
        }
    }
}
