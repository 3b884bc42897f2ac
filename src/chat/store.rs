//! Sessions on disk, so that a chat survives a restart of the program: one guarded file for each in
//! a folder, rewritten when a turn begins and ends. Its pictures stand in a file beside it, written
//! when there are new ones, and only of the sessions that had some last.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use base::state::{NotUsed, StateFile, StateFolder};
use base::text::path::spelled;
use deck::{ChatStore, KeptChat, Stored};

/// Maximum number of sessions; the least recently changed are deleted beyond it.
const MAX_SESSIONS: usize = 1_000;
/// Maximum size of the file of a session, in bytes.
const MAX_SESSION_BYTES: u64 = 64 << 20;
/// Maximum size of the file of the pictures of a session, in bytes.
const MAX_PICTURES_BYTES: u64 = 16 << 20;
/// Maximum size of all files of pictures, in bytes; the oldest are deleted beyond it.
const MAX_ALL_PICTURES_BYTES: u64 = 256 << 20;
/// What the names of those files end in.
const PICTURES_SUFFIX: &str = ".pictures";
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

    /// The file of the pictures of a session.
    fn pictures(&self, id: &str) -> Option<StateFile> {
        self.file(id)?;
        let name = format!("{id}{PICTURES_SUFFIX}");
        Some(self.0.file(&name, MAX_PICTURES_BYTES).of_secrets())
    }

    /// Removes the oldest files of pictures that are more than may be kept.
    fn drop_old_pictures(&self) -> Result<(), String> {
        let names = self.0.names().map_err(|error| error.to_string())?;
        let files = names.into_iter().filter(|name| name.ends_with(PICTURES_SUFFIX));
        let mut files: Vec<_> = files
            .filter_map(|name| {
                let path = self.0.path().join(name);
                let meta = path.symlink_metadata().ok()?;
                Some((meta.modified().ok()?, meta.len(), path))
            })
            .collect();
        files.sort_by(|a, b| b.cmp(a));
        let mut kept = 0;
        for (_, size, path) in files {
            kept += size;
            if kept > MAX_ALL_PICTURES_BYTES {
                _ = std::fs::remove_file(path);
            }
        }
        Ok(())
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

    fn save_now(&self, chat: KeptChat) -> Result<(), String> {
        let file = self.file(&chat.id).ok_or("the session has no id that can name a file")?;
        let is_new = !file.path().exists();
        let KeptChat { owner, title, seq, talk, .. } = chat;
        // As it is: a long conversation is neither read nor written a second time.
        let talk = RawValue::from_string(talk).map_err(|error| error.to_string())?;
        let content = SessionContent { version: FORMAT_VERSION, owner, title, seq, talk };
        let bytes = serde_json::to_vec(&content).map_err(|error| error.to_string())?;
        file.write(&bytes).map_err(|error| format!("{}: {error}", spelled(file.path())))?;
        if is_new {
            for (_, id) in self.ids()?.iter().skip(MAX_SESSIONS) {
                _ = std::fs::remove_file(self.0.path().join(format!("{id}.json")));
                _ = std::fs::remove_file(self.0.path().join(format!("{id}{PICTURES_SUFFIX}")));
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
        self.ask(move |folder| folder.save_now(chat))
    }

    fn load<'a>(&'a self, id: &'a str, owner: &'a str) -> Stored<'a, Option<(u64, String)>> {
        let (id, owner) = (id.to_owned(), owner.to_owned());
        self.ask(move |folder| {
            let Some(file) = folder.file(&id) else { return Ok(None) };
            let content = file.read(parse::<Box<RawValue>>).map_err(unusable)?;
            let content = content.filter(|content| content.owner == owner);
            Ok(content.map(|content| (content.seq, content.talk.get().to_owned())))
        })
    }

    fn save_pictures<'a>(
        &'a self,
        id: &'a str,
        owner: &'a str,
        pictures: String,
    ) -> Stored<'a, ()> {
        let (id, owner) = (id.to_owned(), owner.to_owned());
        self.ask(move |folder| {
            let file = folder.pictures(&id).ok_or("the session has no id that can name a file")?;
            let (version, title, seq) = (FORMAT_VERSION, String::new(), 0);
            let talk = RawValue::from_string(pictures).map_err(|error| error.to_string())?;
            let content = SessionContent { version, owner, title, seq, talk };
            let bytes = serde_json::to_vec(&content).map_err(|error| error.to_string())?;
            file.write(&bytes).map_err(|error| format!("{}: {error}", spelled(file.path())))?;
            folder.drop_old_pictures()
        })
    }

    fn load_pictures<'a>(&'a self, id: &'a str, owner: &'a str) -> Stored<'a, Option<String>> {
        let (id, owner) = (id.to_owned(), owner.to_owned());
        self.ask(move |folder| {
            let Some(file) = folder.pictures(&id) else { return Ok(None) };
            let content = file.read(parse::<Box<RawValue>>).map_err(unusable)?;
            let content = content.filter(|content| content.owner == owner);
            Ok(content.map(|content| content.talk.get().to_owned()))
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
            let removed = base::file::remove(file.path());
            let removed = removed.map_err(|error| format!("{}: {error}", spelled(file.path())))?;
            if let Some(pictures) = folder.pictures(&id) {
                _ = std::fs::remove_file(pictures.path());
            }
            Ok(removed)
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
    async fn pictures_are_kept_beside_their_session_for_its_owner_and_go_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chats");
        let store = SessionFolder::open(&path).unwrap();
        store.save(chat("a1", "me", "Snow in Oslo")).await.unwrap();
        assert_eq!(store.load_pictures("a1", "me").await.unwrap(), None);
        store.save_pictures("a1", "me", "[[\"call\",[]]]".to_owned()).await.unwrap();
        let again = SessionFolder::open(&path).unwrap();
        let kept = again.load_pictures("a1", "me").await.unwrap();
        assert_eq!(kept.as_deref(), Some("[[\"call\",[]]]"));
        assert_eq!(again.load_pictures("a1", "you").await.unwrap(), None);
        assert_eq!(again.load_pictures("../a1", "me").await.unwrap(), None);
        assert_eq!(again.list("me", "").await.unwrap().len(), 1, "a session is listed once");
        // Of all pictures those of the sessions that had some last are kept.
        let large = std::fs::File::create(path.join("old.pictures")).unwrap();
        large.set_len(MAX_ALL_PICTURES_BYTES).unwrap();
        large.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        store.save_pictures("a1", "me", "[]".to_owned()).await.unwrap();
        assert!(!path.join("old.pictures").exists() && path.join("a1.pictures").exists());
        assert!(again.remove("a1", "me").await.unwrap());
        assert_eq!(again.load_pictures("a1", "me").await.unwrap(), None);
        assert!(std::fs::read_dir(&path).unwrap().next().is_none());
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
