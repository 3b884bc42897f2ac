//! Settings that hardly any entry has: entries without them share one copy of the defaults. A file
//! may hold ten thousand entries, and each of them would otherwise carry all that can be set.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    ApprovalRules, BreakerConfig, CacheConfig, ContentLimits, GuardPolicy, OAuthConfig,
    RetryConfig, ToolFilter, WireLimits,
};

/// A group of settings, read like the group itself. Writing to it makes a copy of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

/// Settings whose defaults are shared.
pub trait SharedDefault: Clone + PartialEq + 'static {
    /// The one copy of the defaults.
    fn shared() -> Arc<Self>;
}

macro_rules! shared_defaults {
    ($($settings:ty),*) => { $(
        impl SharedDefault for $settings {
            fn shared() -> Arc<Self> {
                static DEFAULT: LazyLock<Arc<$settings>> = LazyLock::new(Arc::default);
                Arc::clone(&DEFAULT)
            }
        }
    )* };
}
shared_defaults!(ApprovalRules, BreakerConfig, CacheConfig, ContentLimits, GuardPolicy);
shared_defaults!(OAuthConfig, RetryConfig, ToolFilter, WireLimits);

impl<T: SharedDefault> Default for Shared<T> {
    fn default() -> Self {
        Self(T::shared())
    }
}

impl<T: SharedDefault> From<T> for Shared<T> {
    fn from(settings: T) -> Self {
        let default = T::shared();
        Self(if *default == settings { default } else { Arc::new(settings) })
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de, T: SharedDefault + Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::deserialize(from).map(Self::from)
    }
}
