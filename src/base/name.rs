//! The name of a server as the configuration spells it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A server's key in `servers`, trimmed; the prefix of its tools' canonical names.
///
/// Cheap to clone. Draw it through [`crate::text::SafeText`]: file content is untrusted too.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerName(Arc<str>);

impl ServerName {
    /// A name from its spelling in the file; surrounding white space is dropped.
    pub fn new(name: &str) -> Self {
        Self(name.trim().into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ServerName> for Arc<str> {
    fn from(name: ServerName) -> Self {
        name.0
    }
}

impl From<&str> for ServerName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}
