//! Tokens of servers, kept for all processes of a user: one file per issuer and resource, for the user
//! alone, in `tokens` of the state folder; one per issuer for the client. Replaced whole, and locked
//! while one is refreshed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use url::Url;

use crate::base::atomic::{Readers, replace};
use crate::base::hash::hex;
use crate::config::Environment;
use crate::mcp::auth::{Accounts, StoredClient, StoredToken, TokenStore, covers};

/// Largest file of a token, in bytes.
const LARGEST: u64 = 1 << 20;

/// The files.
#[derive(Clone, Debug)]
pub struct TokenFiles {
    folder: PathBuf,
}

/// Accounts kept in the state folder of `env`; `None` where there is none.
pub fn accounts(env: &Environment) -> Option<Accounts> {
    let state = env.state_dir.as_ref()?;
    Some(Accounts::new(Arc::new(TokenFiles::at(state.join("tokens")))))
}

impl TokenFiles {
    /// Files in `folder`, which is made when the first is written.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn token(&self, issuer: &str, resource: &str) -> PathBuf {
        self.folder.join(format!("{}.json", key(&[issuer, resource])))
    }

    fn of_client(&self, issuer: &str) -> PathBuf {
        self.folder.join(format!("{}.client", key(&[issuer])))
    }

    fn save<T: Serialize>(&self, path: &Path, value: &T) -> io::Result<()> {
        self.prepare()?;
        replace(path, &serde_json::to_vec_pretty(value)?, Readers::Owner)
    }

    /// Makes the folder, for the user alone.
    fn prepare(&self) -> io::Result<()> {
        if self.folder.is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.folder)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&self.folder, std::fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }
}

/// The name of a file: what it is for, and nothing that an address could do to a path.
fn key(of: &[&str]) -> String {
    let mut name = hex(&Sha256::digest(of.join("\n").as_bytes()));
    name.truncate(32);
    name
}

/// What a file holds; `None` when there is none, or when it holds something else: signing in again
/// puts it right.
fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match crate::base::file::read(path, LARGEST) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl TokenStore for TokenFiles {
    fn find(&self, url: &Url) -> io::Result<Option<StoredToken>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut best: Option<StoredToken> = None;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|kind| kind != "json") {
                continue;
            }
            let Some(token) = read::<StoredToken>(&path)? else { continue };
            let rank = |token: &StoredToken| (token.resource.len(), token.obtained_at);
            if covers(&token.resource, url) && best.as_ref().is_none_or(|b| rank(b) < rank(&token))
            {
                best = Some(token);
            }
        }
        Ok(best)
    }

    fn save(&self, token: &StoredToken) -> io::Result<()> {
        Self::save(self, &self.token(&token.issuer, &token.resource), token)
    }

    fn remove(&self, token: &StoredToken) -> io::Result<()> {
        remove(&self.token(&token.issuer, &token.resource))
    }

    fn client(&self, issuer: &str) -> io::Result<Option<StoredClient>> {
        Ok(read::<StoredClient>(&self.of_client(issuer))?.filter(|client| client.issuer == issuer))
    }

    fn save_client(&self, client: &StoredClient) -> io::Result<()> {
        Self::save(self, &self.of_client(&client.issuer), client)
    }

    fn remove_client(&self, issuer: &str) -> io::Result<()> {
        remove(&self.of_client(issuer))
    }

    fn lock(&self, issuer: &str, resource: &str) -> io::Result<Box<dyn Send>> {
        self.prepare()?;
        // Beside the file, which is replaced and so cannot be locked itself.
        let path = self.token(issuer, resource).with_extension("lock");
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(Box::new(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::auth::{ClientAuth, ClientOrigin};

    fn token(issuer: &str, resource: &str, access: &str, at: u64) -> StoredToken {
        let client = StoredClient {
            issuer: issuer.to_owned(),
            id: "id".to_owned(),
            secret: None,
            auth: ClientAuth::None,
            redirect_uri: "http://127.0.0.1:1/callback".to_owned(),
            origin: ClientOrigin::Registered,
        };
        StoredToken {
            issuer: issuer.to_owned(),
            resource: resource.to_owned(),
            client,
            token_endpoint: format!("{issuer}/token"),
            revocation_endpoint: None,
            access_token: access.to_owned(),
            refresh_token: None,
            obtained_at: at,
            expires_in: Some(100),
            scopes: Vec::new(),
        }
    }

    #[test]
    fn the_nearest_resource_wins_and_then_the_newest() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = TokenFiles::at(dir.path().join("tokens"));
        let url = Url::parse("https://m.example/a/mcp").expect("an address");
        assert_eq!(files.find(&url).expect("read"), None);
        for (issuer, resource, access, at) in [
            ("https://a", "https://m.example/", "root", 9),
            ("https://a", "https://m.example/a", "old", 1),
            ("https://b", "https://m.example/a", "new", 2),
            ("https://a", "https://m.example/b", "other", 9),
        ] {
            TokenStore::save(&files, &token(issuer, resource, access, at)).expect("saved");
        }
        let found = files.find(&url).expect("read").expect("there");
        assert_eq!(found.access_token, "new");
        TokenStore::remove(&files, &found).expect("removed");
        assert_eq!(files.find(&url).expect("read").expect("there").access_token, "old");
    }

    #[cfg(unix)]
    #[test]
    fn the_user_alone_may_read_them() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a folder");
        let files = TokenFiles::at(dir.path().join("tokens"));
        let kept = token("https://a", "https://m.example", "secret-token", 1);
        TokenStore::save(&files, &kept).expect("saved");
        files.save_client(&kept.client).expect("saved");
        let _lock = files.lock("https://a", "https://m.example").expect("locked");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&files.folder) & 0o777, 0o700);
        for entry in std::fs::read_dir(&files.folder).expect("listed").flatten() {
            let holds = std::fs::read(entry.path()).expect("read");
            assert!(holds.is_empty() || mode(&entry.path()) & 0o777 == 0o600, "{:?}", entry.path());
        }
        assert!(!format!("{kept:?}").contains("secret-token"));
    }
}
