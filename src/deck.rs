//! One running configuration: loads it, starts its servers, follows its files, and remembers what
//! was approved, answered, called and drafted. Knows no screen.

pub mod answers;
pub mod browser;
pub mod chats;
pub mod clients;
mod command;
pub mod definitions;
mod edits;
pub(crate) mod files;
mod handle;
pub mod history;
mod inputs;
pub mod keyring;
#[cfg(unix)]
pub mod local;
pub mod lock;
pub mod news;
pub mod order;
pub mod policy;
pub mod recording;
pub mod saved;
mod situation;
mod task;
pub mod tokens;
pub mod trust;
pub mod watch;

pub use command::{Change, ConfigCommand, DeckEvent, Keep, Masks, Notebook, Saving};
pub use handle::{Alongside, Deck, DeckBuilder};
pub use saved::{SavedCall, SavedCalls, SavedTarget};
pub use situation::{FileText, InputState, InputView, Situation};
pub use trust::{FieldChange, Review, TrustStore, Verdict};
pub use watch::{LoadResult, Watch, WatchOptions};
