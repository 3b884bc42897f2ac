//! Where a name or a URI leads (decision D3, requirement R2): built anew when lists change, read by
//! every call.
//!
//! Holds the last known lists of dead servers too: a tool of a server that is down is *unavailable
//! because ...*, never unknown.

pub mod template;

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::ServerName;
use crate::error::{Error, ErrorCode};
use crate::host::naming::{canonical, resolve};
use crate::host::policy::TargetKind;
use crate::host::router::template::UriTemplate;
use crate::host::server::slot::Slot;
use crate::host::server::slot::Slots;

/// A server and what is meant of it, as the server spells it.
pub type Route = (Arc<Slot>, Arc<str>);

type Names = Vec<(ServerName, Arc<str>)>;

/// All routes of a moment.
#[derive(Default)]
pub struct Routes {
    slots: Slots,
    tools: Names,
    prompts: Names,
    /// Canonical tool names: the way nearly every call goes.
    canonical: HashMap<Box<str>, Route>,
    resources: HashMap<Arc<str>, Vec<Arc<Slot>>>,
    templates: Vec<(UriTemplate, Arc<Slot>)>,
}

impl Routes {
    /// Reads the lists of every server.
    pub fn build(slots: &Slots) -> Self {
        let mut routes = Self { slots: slots.clone(), ..Self::default() };
        for slot in slots.values() {
            let all = Arc::clone(&slot.live().capabilities);
            for tool in &all.tools {
                let name = Arc::clone(&tool.name);
                let full = canonical(&slot.name, &name).into_boxed_str();
                // Two servers can spell one canonical name (`a` + `b.x`, `a.b` + `x`): the longest
                // server name wins, which is the rule of `naming`.
                let longer =
                    |(other, _): &Route| other.name.as_str().len() > slot.name.as_str().len();
                if !routes.canonical.get(&full).is_some_and(longer) {
                    routes.canonical.insert(full, (Arc::clone(slot), Arc::clone(&name)));
                }
                routes.tools.push((slot.name.clone(), name));
            }
            for prompt in &all.prompts {
                routes.prompts.push((slot.name.clone(), Arc::clone(&prompt.name)));
            }
            for resource in &all.resources {
                let lists = routes.resources.entry(Arc::clone(&resource.uri)).or_default();
                lists.push(Arc::clone(slot));
            }
            for template in &all.templates {
                let template = UriTemplate::parse(&template.uri_template);
                routes.templates.push((template, Arc::clone(slot)));
            }
        }
        routes
    }

    /// A server by name.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] with the names there are.
    pub fn server(&self, name: &ServerName) -> Result<&Arc<Slot>, Error> {
        self.slots.get(name).ok_or_else(|| {
            let mut error = Error::new(ErrorCode::Configuration, format!("no server `{name}`"));
            error.candidates = self.slots.keys().map(ToString::to_string).collect();
            error
        })
    }

    /// The tool meant by `asked`, of `server` when one is given.
    ///
    /// # Errors
    /// [`ErrorCode::ToolNotFound`], [`ErrorCode::Ambiguous`]; [`ErrorCode::PermissionDenied`] for a
    /// tool that the entry's filter hides; [`ErrorCode::ServerUnavailable`] when the server named
    /// has not told its tools.
    pub fn tool(&self, asked: &str, server: Option<&ServerName>) -> Result<Route, Error> {
        if server.is_none()
            && let Some(route) = self.canonical.get(asked)
        {
            return Ok(route.clone());
        }
        self.named(asked, server, &self.tools)
    }

    /// Every tool or prompt there is, with its server.
    pub fn names(&self, kind: TargetKind) -> &[(ServerName, Arc<str>)] {
        if kind == TargetKind::Tool { &self.tools } else { &self.prompts }
    }

    /// The prompt meant by `asked`; as [`Routes::tool`].
    ///
    /// # Errors
    /// As [`Routes::tool`].
    pub fn prompt(&self, asked: &str, server: Option<&ServerName>) -> Result<Route, Error> {
        self.named(asked, server, &self.prompts)
    }

    fn named(
        &self,
        asked: &str,
        server: Option<&ServerName>,
        names: &Names,
    ) -> Result<Route, Error> {
        let pairs = names.iter().map(|(server, name)| (server, name));
        let found = match server {
            None => resolve(asked, pairs),
            Some(server) => {
                self.server(server)?;
                resolve(asked, pairs.filter(|(other, _)| *other == server))
            }
        };
        match found {
            Ok(found) => Ok((Arc::clone(self.server(&found.server)?), found.name)),
            Err(error) if error.code == ErrorCode::ToolNotFound => {
                Err(self.hidden_or_down(asked, server).unwrap_or(error))
            }
            Err(error) => Err(error),
        }
    }

    /// A better answer than "not found", where there is one.
    fn hidden_or_down(&self, asked: &str, server: Option<&ServerName>) -> Option<Error> {
        let strip = |name: &ServerName| -> Option<&str> {
            asked.strip_prefix(name.as_str())?.strip_prefix(['.', ':', '/'])
        };
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
            let help = format!("`mcpdeck --check --server {}` says what to mend in it", slot.name);
            let error = Error::new(ErrorCode::ToolNotFound, message);
            return Some(error.server(&slot.name).help(help));
        }
        (!live.is_callable()).then(|| live.unavailable())
    }

    /// The server that has the resource `uri`: the one that lists it, else the one whose template
    /// fits it.
    ///
    /// # Errors
    /// [`ErrorCode::ToolNotFound`] or [`ErrorCode::Ambiguous`], both with the servers to choose
    /// from.
    pub fn resource(&self, uri: &str, server: Option<&ServerName>) -> Result<Arc<Slot>, Error> {
        if let Some(server) = server {
            return self.server(server).cloned();
        }
        if let Some(slots) = self.resources.get(uri) {
            return Self::only(uri, slots.iter());
        }
        let fits = |template: &UriTemplate| template.matches(uri).then_some(template.literals());
        let best = self.templates.iter().filter_map(|(t, _)| fits(t)).max();
        let Some(best) = best else {
            let mut error = Error::new(ErrorCode::ToolNotFound, format!("no server lists `{uri}`"))
                .help("name the server that shall read it");
            let offers = |slot: &&Arc<Slot>| {
                let all = &slot.live().capabilities;
                !(all.resources.is_empty() && all.templates.is_empty())
            };
            error.candidates =
                self.slots.values().filter(offers).map(|slot| slot.name.to_string()).collect();
            return Err(error);
        };
        let fitting =
            self.templates.iter().filter(|(t, _)| fits(t) == Some(best)).map(|(_, slot)| slot);
        Self::only(uri, fitting)
    }

    fn only<'a>(uri: &str, slots: impl Iterator<Item = &'a Arc<Slot>>) -> Result<Arc<Slot>, Error> {
        let mut found: Vec<&Arc<Slot>> = slots.collect();
        found.dedup_by(|a, b| Arc::ptr_eq(a, b));
        if let [one] = found[..] {
            return Ok(Arc::clone(one));
        }
        let mut error =
            Error::new(ErrorCode::Ambiguous, format!("`{uri}` is offered by several servers"))
                .help("name the server that shall read it");
        error.candidates = found.iter().map(|slot| slot.name.to_string()).collect();
        Err(error)
    }
}
