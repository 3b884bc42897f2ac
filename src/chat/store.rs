//! Sessions on disk, so that a chat survives a restart of the program: one guarded file for each in
//! a folder, rewritten when a turn begins and ends.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::state::{NotUsed, StateFile, StateFolder};
use base::text::path::spelled;
use deck::{ChatStore, KeptChat, Stored};

/// Maximum number of sessions; the least recently changed are deleted beyond it.
const MAX_SESSIONS: usize = 1_000;
/// Maximum size of the file of a session, in bytes.
const MAX_SESSION_BYTES: u64 = 64 << 20;
/// Format version of the files.
const FORMAT_VERSION: u32 = 1;

/// What the file of a session holds; `T` is what is read of the conversation.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionContent<T> {
    version: u32,
    owner: String,
    title: String,
    seq: u64,
    talk: T,
}

#[derive(Clone)]
pub struct SessionFolder(Arc<StateFolder>);

impl SessionFolder {
    /// Opens the folder; creates it, for the user alone, if it does not exist.
    ///
    /// # Errors
    /// Names the folder and why it cannot be used.
    pub fn open(path: &Path) -> Result<Arc<dyn ChatStore>, String> {
        if path.is_file() {
            let path = spelled(path);
            return Err(format!(
                "{path}: sessions are kept in a folder, one file each, and this is a file; name \
                 another place (databases of earlier versions are not read)"
            ));
        }
        let folder = StateFolder::new(path);
        let wrong = |error: std::io::Error| format!("{}: {error}", spelled(path));
        folder.check().map_err(wrong)?;
        folder.prepare().map_err(|error| error.to_string())?;
        Ok(Arc::new(Self(Arc::new(folder))))
    }

    /// The file of a session; `None` for what cannot be the id of one.
    fn file(&self, id: &str) -> Option<StateFile> {
        let is_id = (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric());
        is_id.then(|| self.0.file(&format!("{id}.json"), MAX_SESSION_BYTES).of_secrets())
    }

    /// The ids of all sessions, with their last changes, newest first.
    fn ids(&self) -> Result<Vec<(SystemTime, String)>, String> {
        let names = self.0.names().map_err(|error| error.to_string())?;
        let dated = names.into_iter().filter_map(|name| {
            let changed = self.0.path().join(&name).metadata().ok()?.modified().ok()?;
            Some((changed, name.strip_suffix(".json")?.to_owned()))
        });
        let mut ids: Vec<_> = dated.filter(|(_, id)| self.file(id).is_some()).collect();
        ids.sort_by(|a, b| b.cmp(a));
        Ok(ids)
    }

    /// Runs an operation on a blocking thread.
    fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Self) -> Result<T, String> + Send + 'static,
    ) -> Stored<'_, T> {
        let this = self.clone();
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || ask(&this)).await;
            asked.map_err(|error| error.to_string())?
        })
    }

    fn save_now(&self, chat: &KeptChat) -> Result<(), String> {
        let file = self.file(&chat.id).ok_or("the session has no id that can name a file")?;
        let is_new = !file.path().exists();
        let talk: Value = serde_json::from_str(&chat.talk).map_err(|error| error.to_string())?;
        let (owner, title) = (chat.owner.clone(), chat.title.clone());
        let content = SessionContent { version: FORMAT_VERSION, owner, title, seq: chat.seq, talk };
        let bytes = serde_json::to_vec(&content).map_err(|error| error.to_string())?;
        file.write(&bytes).map_err(|error| format!("{}: {error}", spelled(file.path())))?;
        if is_new {
            for (_, id) in self.ids()?.iter().skip(MAX_SESSIONS) {
                _ = std::fs::remove_file(self.0.path().join(format!("{id}.json")));
            }
        }
        Ok(())
    }
}

fn unusable(why: NotUsed) -> String {
    why.to_string()
}

/// Reads the content of a file.
fn parse<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<SessionContent<T>, String> {
    let content: SessionContent<T> =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if content.version > FORMAT_VERSION {
        return Err("it was written by a newer mcpdeck".to_owned());
    }
    Ok(content)
}

/// The title of a session if it is of this owner and its title or its text holds the words.
fn listed(bytes: &[u8], owner: &str, words: &str) -> Option<String> {
    let content: SessionContent<IgnoredAny> = parse(bytes).ok()?;
    let holds = |text: &str| text.to_lowercase().contains(words);
    let is_found =
        words.is_empty() || holds(&content.title) || holds(&String::from_utf8_lossy(bytes));
    (content.owner == owner && is_found).then_some(content.title)
}

impl ChatStore for SessionFolder {
    fn save(&self, chat: KeptChat) -> Stored<'_, ()> {
        self.ask(move |folder| folder.save_now(&chat))
    }

    fn load<'a>(&'a self, id: &'a str, owner: &'a str) -> Stored<'a, Option<(u64, String)>> {
        let (id, owner) = (id.to_owned(), owner.to_owned());
        self.ask(move |folder| {
            let Some(file) = folder.file(&id) else { return Ok(None) };
            let content = file.read(parse::<Value>).map_err(unusable)?;
            let content = content.filter(|content| content.owner == owner);
            Ok(content.map(|content| (content.seq, content.talk.to_string())))
        })
    }

    fn list<'a>(&'a self, owner: &'a str, words: &'a str) -> Stored<'a, Vec<(String, String)>> {
        let (owner, words) = (owner.to_owned(), words.to_lowercase());
        self.ask(move |folder| {
            let chats = folder.ids()?.into_iter().filter_map(|(_, id)| {
                let bytes = folder.file(&id)?.bytes().ok()??;
                Some((id, listed(&bytes, &owner, &words)?))
            });
            Ok(chats.collect())
        })
    }

    fn remove<'a>(&'a self, id: &'a str, owner: &'a str) -> Stored<'a, bool> {
        let (id, owner) = (id.to_owned(), owner.to_owned());
        self.ask(move |folder| {
            let Some(file) = folder.file(&id) else { return Ok(false) };
            let content = file.read(parse::<IgnoredAny>).map_err(unusable)?;
            if content.is_none_or(|content| content.owner != owner) {
                return Ok(false);
            }
            let removed = std::fs::remove_file(file.path());
            removed.map_err(|error| format!("{}: {error}", spelled(file.path())))?;
            Ok(true)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(id: &str, owner: &str, text: &str) -> KeptChat {
        let talk = serde_json::json!({"messages": [{"role": "user", "text": text}]}).to_string();
        let (id, owner, title) = (id.to_owned(), owner.to_owned(), text[..4].to_owned());
        KeptChat { id, owner, title, seq: 7, talk }
    }

    #[tokio::test]
    async fn sessions_are_kept_found_and_removed_by_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chats");
        let store = SessionFolder::open(&path).unwrap();
        store.save(chat("a1", "me", "Snow in Oslo")).await.unwrap();
        store.save(chat("b2", "you", "Rain in Bergen")).await.unwrap();
        // A file that cannot be read does not hide the others.
        std::fs::write(path.join("c3.json"), "{").unwrap();
        let again = SessionFolder::open(&path).unwrap();
        let (seq, talk) = again.load("a1", "me").await.unwrap().unwrap();
        assert_eq!((seq, talk.contains("Snow in Oslo")), (7, true));
        for (id, owner) in [("a1", "you"), ("none", "me"), ("../chats/a1", "me"), ("", "me")] {
            assert_eq!(again.load(id, owner).await.unwrap(), None, "{id} of {owner}");
            assert!(!again.remove(id, owner).await.unwrap(), "{id} of {owner}");
        }
        let mine = vec![("a1".to_owned(), "Snow".to_owned())];
        assert_eq!(again.list("me", "").await.unwrap(), mine);
        assert_eq!(again.list("me", "OSLO").await.unwrap(), mine);
        assert_eq!(again.list("me", "bergen").await.unwrap(), Vec::new());
        assert!(again.remove("a1", "me").await.unwrap());
        assert_eq!(again.list("me", "").await.unwrap(), Vec::new());
        std::fs::write(folder.path().join("old.sqlite"), "SQLite format 3").unwrap();
        let told = SessionFolder::open(&folder.path().join("old.sqlite")).err().unwrap();
        assert!(told.contains("old.sqlite") && told.contains("folder"), "{told}");
    }
}
