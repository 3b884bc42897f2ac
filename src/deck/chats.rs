//! Storage of conversations with a model, which continue after a restart or on another replica.

use futures::future::BoxFuture;

/// A conversation to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptChat {
    /// Id of its session.
    pub id: String,
    /// Its owner; hidden from everyone else.
    pub owner: String,
    /// Its first words.
    pub title: String,
    /// The number of its last event.
    pub seq: u64,
    /// Its messages, as JSON.
    pub talk: String,
}

/// The future result of a store operation.
pub type Stored<'a, T> = BoxFuture<'a, Result<T, String>>;

/// Stores conversations. Errors say why the store could not be used.
pub trait ChatStore: Send + Sync + 'static {
    /// Saves a conversation, replacing its earlier state.
    fn save(&self, chat: KeptChat) -> Stored<'_, ()>;

    /// The number of the last event and the messages of a conversation of this owner.
    fn load<'a>(&'a self, id: &'a str, owner: &'a str) -> Stored<'a, Option<(u64, String)>>;

    /// Ids and titles of this owner's conversations that hold these words, newest first; empty for
    /// a store where a conversation can only be resumed by its id.
    fn list<'a>(&'a self, _owner: &'a str, _words: &'a str) -> Stored<'a, Vec<(String, String)>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Saves the pictures of a conversation of this owner, as JSON, in place of those before. A store
    /// may leave them out: the messages name them.
    fn save_pictures<'a>(
        &'a self,
        _id: &'a str,
        _owner: &'a str,
        _pictures: String,
    ) -> Stored<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// The pictures of a conversation of this owner, if they were saved.
    fn load_pictures<'a>(&'a self, _id: &'a str, _owner: &'a str) -> Stored<'a, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// Removes a conversation of this owner; returns whether there was one.
    fn remove<'a>(&'a self, id: &'a str, owner: &'a str) -> Stored<'a, bool>;
}
