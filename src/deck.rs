//! One running configuration: what may run, what is remembered, what changed on disk. Knows no screen.

pub mod answers;
pub mod drafts;
pub mod gate;
pub mod history;
pub mod keyring;
pub mod policy;
pub mod saved;
pub mod trust;
pub mod watch;

pub use saved::{SavedCall, SavedCalls, SavedTarget};
pub use trust::{FieldChange, Review, TrustStore, Verdict};
pub use watch::{LoadResult, Reloaded, Watch, WatchOptions, WatchTiming};
