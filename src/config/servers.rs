//! The servers of a configuration, by name. A clone shares them: a configuration is held as it was
//! loaded, as it was approved and as it runs, and the three differ in a few entries at most.

use std::hash::Hash;
use std::ops::Index;
use std::sync::Arc;

use indexmap::{Equivalent, IndexMap};

use crate::ServerConfig;
use base::ServerName;

/// Servers by name, in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerMap(Arc<IndexMap<ServerName, Arc<ServerConfig>>>);

/// A name in one of its forms.
pub trait AsServerName: Hash + Equivalent<ServerName> {}

impl<Q: Hash + Equivalent<ServerName> + ?Sized> AsServerName for Q {}

impl ServerMap {
    /// Number of servers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is one of this name.
    pub fn contains_key(&self, name: &(impl AsServerName + ?Sized)) -> bool {
        self.0.contains_key(name)
    }

    /// The one of this name.
    pub fn get(&self, name: &(impl AsServerName + ?Sized)) -> Option<&ServerConfig> {
        self.shared(name).map(Arc::as_ref)
    }

    /// The same, to be held without a copy.
    pub fn shared(&self, name: &(impl AsServerName + ?Sized)) -> Option<&Arc<ServerConfig>> {
        self.0.get(name)
    }

    /// The one of this name with its name.
    pub fn get_key_value(
        &self,
        name: &(impl AsServerName + ?Sized),
    ) -> Option<(&ServerName, &ServerConfig)> {
        self.0.get_key_value(name).map(unshared)
    }

    /// The first.
    pub fn first(&self) -> Option<(&ServerName, &ServerConfig)> {
        self.0.first().map(unshared)
    }

    /// Their names.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &ServerName> + ExactSizeIterator + Clone {
        self.0.keys()
    }

    /// Their entries.
    pub fn values(
        &self,
    ) -> impl DoubleEndedIterator<Item = &ServerConfig> + ExactSizeIterator + Clone {
        self.0.values().map(Arc::as_ref)
    }

    /// Their entries, to be held without a copy.
    pub fn shared_values(&self) -> impl Iterator<Item = &Arc<ServerConfig>> {
        self.0.values()
    }

    /// Their entries, each as a value of its own.
    pub fn into_values(self) -> impl Iterator<Item = ServerConfig> {
        Arc::unwrap_or_clone(self.0).into_values().map(Arc::unwrap_or_clone)
    }

    /// Names and entries.
    pub fn iter(&self) -> <&Self as IntoIterator>::IntoIter {
        self.into_iter()
    }

    /// The one of this name, to be changed.
    pub fn get_mut(&mut self, name: &(impl AsServerName + ?Sized)) -> Option<&mut ServerConfig> {
        Arc::make_mut(&mut self.0).get_mut(name).map(Arc::make_mut)
    }

    /// All entries, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut ServerConfig> {
        Arc::make_mut(&mut self.0).values_mut().map(Arc::make_mut)
    }

    /// Adds a server at the end, or replaces the one of its name.
    pub fn insert(&mut self, name: ServerName, server: impl Into<Arc<ServerConfig>>) {
        Arc::make_mut(&mut self.0).insert(name, server.into());
    }

    /// Adds a server at a place.
    pub fn shift_insert(
        &mut self,
        at: usize,
        name: ServerName,
        server: impl Into<Arc<ServerConfig>>,
    ) {
        Arc::make_mut(&mut self.0).shift_insert(at, name, server.into());
    }

    /// Removes a server; those after it move up.
    pub fn shift_remove(&mut self, name: &(impl AsServerName + ?Sized)) -> Option<ServerConfig> {
        Arc::make_mut(&mut self.0).shift_remove(name).map(Arc::unwrap_or_clone)
    }

    /// Removes the last.
    pub fn pop(&mut self) -> Option<ServerConfig> {
        Arc::make_mut(&mut self.0).pop().map(|(_, server)| Arc::unwrap_or_clone(server))
    }

    /// Removes the servers for which `keeps` is false.
    pub fn retain(&mut self, mut keeps: impl FnMut(&ServerName, &ServerConfig) -> bool) {
        Arc::make_mut(&mut self.0).retain(|name, server| keeps(name, server));
    }
}

type Unshared<'a> = (&'a ServerName, &'a ServerConfig);

fn unshared<'a>((name, server): (&'a ServerName, &'a Arc<ServerConfig>)) -> Unshared<'a> {
    (name, server)
}

impl<'a> IntoIterator for &'a ServerMap {
    type Item = Unshared<'a>;
    type IntoIter = std::iter::Map<
        indexmap::map::Iter<'a, ServerName, Arc<ServerConfig>>,
        fn((&'a ServerName, &'a Arc<ServerConfig>)) -> Unshared<'a>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(unshared)
    }
}

impl<S: Into<Arc<ServerConfig>>> FromIterator<(ServerName, S)> for ServerMap {
    fn from_iter<I: IntoIterator<Item = (ServerName, S)>>(servers: I) -> Self {
        let servers = servers.into_iter().map(|(name, server)| (name, server.into()));
        Self(Arc::new(servers.collect()))
    }
}

impl<Q: AsServerName + ?Sized> Index<&Q> for ServerMap {
    type Output = ServerConfig;

    fn index(&self, name: &Q) -> &ServerConfig {
        &self.0[name]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::McpConfig;

    #[test]
    fn a_clone_shares_every_entry_that_is_not_changed() {
        let servers = ["a", "b"].map(|name| ServerConfig::stdio(name, "run", [""; 0]));
        let config: McpConfig = servers.into_iter().collect();
        let mut other = config.clone();
        assert!(Arc::ptr_eq(&config.servers.0, &other.servers.0));
        other.servers.get_mut("a").expect("there").disabled = true;
        assert!(!config.servers["a"].disabled && other.servers["a"].disabled);
        let shared = |config: &McpConfig| Arc::clone(config.servers.shared("b").expect("there"));
        assert!(Arc::ptr_eq(&shared(&config), &shared(&other)));
    }
}
