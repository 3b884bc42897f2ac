//! Where conversations with a model are kept, so that they go on after a restart or at another replica.

use futures::future::BoxFuture;

/// A conversation to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptChat {
    /// Names its session.
    pub id: String,
    /// Whose it is; nobody else sees it.
    pub owner: String,
    /// Its first words.
    pub title: String,
    /// The number of its last event.
    pub seq: u64,
    /// Its messages, as JSON.
    pub talk: String,
}

/// What comes of asking a store.
pub(crate) type Stored<'a, T> = BoxFuture<'a, Result<T, String>>;

/// Keeps conversations. Errors say why the store could not be used.
pub trait ChatStore: Send + Sync + 'static {
    /// Keeps a conversation in place of what was kept of it before.
    fn save(&self, chat: KeptChat) -> Stored<'_, ()>;

    /// The number of the last event and the messages of a conversation of this owner.
    fn load<'a>(&'a self, id: &'a str, owner: &'a str) -> Stored<'a, Option<(u64, String)>>;

    /// Ids and titles of this owner's conversations, the newest first; none where only who knows an
    /// id comes back to one.
    fn list<'a>(&'a self, _owner: &'a str) -> Stored<'a, Vec<(String, String)>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
