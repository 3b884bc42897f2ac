//! Tokens of servers, shared by all processes of a user: one file per issuer and server, and another
//! for the client, in `tokens` of the state folder, readable only by the user. Replaced atomically,
//! and locked during a refresh. What others may have written or read is set aside: it must not decide
//! where a token is sent. If the user has a secret store (`mcpdeck secret`), tokens and clients are
//! encrypted there instead.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use url::Url;

use crate::files::parse_json;
use crate::policy::SecretStore;
use crate::policy::secrets::own_name;
use base::Secret;
use base::file::{hex, remove};
use base::notices::notify;
use base::state::{StateFile, StateFolder};
use config::Environment;
use mcp::{Accounts, StoredClient, StoredToken, TokenStore, account_address};

/// Largest file of a token, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Kind of the secrets that hold tokens and clients.
const KIND: &str = "token";

/// The token files.
pub struct TokenFiles {
    folder: StateFolder,
    secrets: Option<SecretStore>,
}

/// Accounts stored in the state folder of `env`; `None` without one.
pub fn accounts(env: &Environment) -> Option<Accounts> {
    let state = env.state_dir.as_ref()?;
    let files =
        TokenFiles { secrets: SecretStore::from_env(env), ..TokenFiles::at(state.join("tokens")) };
    Some(Accounts::new(Arc::new(files)))
}

impl TokenFiles {
    /// Files in `folder`, which is created on the first write.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: StateFolder::new(folder), secrets: None }
    }

    /// The names of all entries, in files or encrypted.
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = self.encrypted()?.unwrap_or_default();
        names.extend(self.folder.names()?);
        Ok(names)
    }

    fn file(&self, name: &str) -> StateFile {
        self.folder.file(name, MAX_FILE_BYTES).of_secrets()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The names of encrypted entries; `None` when the user has no secret store.
    fn encrypted(&self) -> io::Result<Option<Vec<String>>> {
        let Some(secrets) = &self.secrets else { return Ok(None) };
        let names = secrets.own_names(KIND).map_err(io::Error::other)?;
        let bare = |name: String| name.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(names.map(|names| names.into_iter().map(bare).collect()))
    }

    /// All entries whose name has this extension.
    fn entries<T: DeserializeOwned>(&self, extension: &str) -> io::Result<Vec<T>> {
        let names = self.names()?;
        let is_wanted =
            |name: &&String| Path::new(name).extension().is_some_and(|end| end == extension);
        // One that cannot be read keeps no other from being used.
        let read = |name: &String| {
            self.read::<T>(name).inspect_err(|error| notify(&error.to_string())).ok()
        };
        Ok(names.iter().filter(is_wanted).filter_map(read).flatten().collect())
    }

    fn save<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        if let (Some(secrets), Some(_)) = (&self.secrets, self.encrypted()?) {
            let text = Secret::new(serde_json::to_string(value)?);
            secrets.set(&own_name(KIND, name), &text).map_err(io::Error::other)?;
            return remove(&self.path(name)).map(drop);
        }
        self.folder.prepare()?;
        self.file(name).write(&serde_json::to_vec_pretty(value)?)
    }

    /// The entry of a name; `None` when it is missing, or was set aside: signing in again repairs
    /// it.
    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        if let Some(secrets) = &self.secrets
            && let Some(text) = secrets.get(&own_name(KIND, name)).map_err(io::Error::other)?
        {
            return Ok(serde_json::from_str(text.expose()).ok());
        }
        self.file(name).load_or_set_aside(parse_json)
    }

    fn forget(&self, name: &str) -> io::Result<()> {
        if let (Some(secrets), Some(_)) = (&self.secrets, self.encrypted()?) {
            secrets.remove(&own_name(KIND, name)).map_err(io::Error::other)?;
        }
        self.folder.check()?;
        remove(&self.path(name)).map(drop)
    }
}

fn token_name(token: &StoredToken) -> String {
    // Tokens were once kept by their resource.
    let server = if token.server.is_empty() { &token.resource } else { &token.server };
    format!("{}.json", key(&[&token.issuer, server]))
}

fn client_name(issuer: &str, server: &str) -> String {
    format!("{}.client", key(&[issuer, server]))
}

/// A file name made of a hash, so that an address cannot influence the path.
fn key(of: &[&str]) -> String {
    let mut name = hex(&Sha256::digest(of.join("\n").as_bytes()));
    name.truncate(32);
    name
}

impl TokenStore for TokenFiles {
    fn find(&self, url: &Url) -> io::Result<Option<StoredToken>> {
        let tokens = self.entries::<StoredToken>("json")?;
        let own = tokens.into_iter().filter(|token| token.is_for(url));
        Ok(own.max_by_key(|token| token.obtained_at))
    }

    fn save(&self, token: &StoredToken) -> io::Result<()> {
        Self::save(self, &token_name(token), token)
    }

    fn remove(&self, token: &StoredToken) -> io::Result<()> {
        self.forget(&token_name(token))
    }

    fn client(&self, issuer: &str, url: &Url) -> io::Result<Option<StoredClient>> {
        let server = account_address(url);
        let kept = self.read::<StoredClient>(&client_name(issuer, server.as_str()))?;
        Ok(kept.filter(|client| client.issuer == issuer && client.server == server.as_str()))
    }

    fn clients(&self, url: &Url) -> io::Result<Vec<StoredClient>> {
        let server = account_address(url);
        let mut clients = self.entries::<StoredClient>("client")?;
        clients.retain(|client| client.server == server.as_str());
        Ok(clients)
    }

    fn save_client(&self, client: &StoredClient) -> io::Result<()> {
        Self::save(self, &client_name(&client.issuer, &client.server), client)
    }

    fn remove_client(&self, client: &StoredClient) -> io::Result<()> {
        self.forget(&client_name(&client.issuer, &client.server))
    }

    fn lock(&self, token: &StoredToken) -> io::Result<Box<dyn Send>> {
        self.folder.prepare()?;
        // A separate file: the token file is replaced, and so cannot be locked itself.
        let name = token_name(token);
        let name = format!("{}.lock", name.trim_end_matches(".json"));
        Ok(Box::new(self.folder.file(&name, 0).lock()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp::{ClientAuth, ClientOrigin};

    fn token(issuer: &str, server: &str, access: &str, at: u64) -> StoredToken {
        let client = StoredClient {
            issuer: issuer.to_owned(),
            server: server.to_owned(),
            id: "id".to_owned(),
            secret: None,
            secret_expires_at: None,
            auth: ClientAuth::None,
            redirect_uri: "http://127.0.0.1:1/callback".to_owned(),
            origin: ClientOrigin::Registered,
        };
        StoredToken {
            issuer: issuer.to_owned(),
            server: server.to_owned(),
            resource: "https://m.example/".to_owned(),
            client,
            token_endpoint: format!("{issuer}/token"),
            revocation_endpoint: None,
            access_token: access.to_owned(),
            refresh_token: None,
            obtained_at: at,
            expires_in: Some(100),
            scopes: Vec::new(),
            proof_key: None,
        }
    }

    #[test]
    fn only_a_token_of_the_server_itself_is_found_and_the_newest_first() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = TokenFiles::at(dir.path().join("tokens"));
        let url = Url::parse("https://m.example/a/mcp").expect("an address");
        assert_eq!(files.find(&url).expect("read"), None);
        for (issuer, server, access, at) in [
            ("https://a", "https://m.example/", "above", 9),
            ("https://a", "https://m.example/a", "above too", 9),
            ("https://a", "https://m.example/b/mcp", "beside", 9),
            ("https://a", "https://m.example/a/mcp", "old", 1),
            ("https://b", "https://m.example/a/mcp", "new", 2),
        ] {
            TokenStore::save(&files, &token(issuer, server, access, at)).expect("saved");
        }
        let found = files.find(&url).expect("read").expect("there");
        assert_eq!(found.access_token, "new");
        TokenStore::remove(&files, &found).expect("removed");
        assert_eq!(files.find(&url).expect("read").expect("there").access_token, "old");
    }

    #[test]
    fn a_client_is_kept_for_one_server_and_one_issuer() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = TokenFiles::at(dir.path().join("tokens"));
        let kept = token("https://a", "https://m.example/a/mcp", "t", 1).client;
        files.save_client(&kept).expect("saved");
        let url = |path: &str| format!("https://m.example{path}").parse::<Url>().expect("a URL");
        let found = |issuer, path| files.client(issuer, &url(path)).expect("read");
        assert_eq!(found("https://a", "/a/mcp").as_ref(), Some(&kept));
        assert_eq!(found("https://a", "/b/mcp"), None);
        assert_eq!(found("https://b", "/a/mcp"), None);
        assert_eq!(files.clients(&url("/a/mcp")).expect("read").len(), 1);
        assert_eq!(files.clients(&url("/a")).expect("read"), []);
        files.remove_client(&kept).expect("removed");
        assert_eq!(found("https://a", "/a/mcp"), None);
    }

    #[test]
    fn a_token_that_was_kept_by_its_resource_is_that_servers_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = TokenFiles::at(dir.path().join("tokens"));
        let old = |resource: &str| StoredToken {
            server: String::new(),
            resource: resource.to_owned(),
            ..token("https://a", "", resource, 1)
        };
        for resource in ["https://m.example", "https://m.example/a/mcp"] {
            TokenStore::save(&files, &old(resource)).expect("saved");
        }
        let found = |path: &str| {
            let url = format!("https://m.example{path}").parse().expect("an address");
            files.find(&url).expect("read").map(|token| token.access_token)
        };
        assert_eq!(found("/a/mcp").as_deref(), Some("https://m.example/a/mcp"));
        assert_eq!(found("/").as_deref(), Some("https://m.example"));
        assert_eq!(found("/b/mcp"), None);
        TokenStore::remove(&files, &old("https://m.example/a/mcp")).expect("removed");
        assert_eq!(found("/a/mcp"), None);
    }

    #[test]
    fn where_the_user_keeps_secrets_tokens_are_encrypted_among_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let env = Environment {
            state_dir: Some(dir.path().join("state")),
            config_dir: Some(dir.path().join("config")),
            ..Environment::default()
        };
        let secrets = || SecretStore::from_env(&env).expect("a place");
        let open = || {
            let at = TokenFiles::at(dir.path().join("state/tokens"));
            TokenFiles { secrets: Some(secrets()), ..at }
        };
        let url = Url::parse("https://m.example/mcp").expect("an address");
        let kept = token("https://a", "https://m.example/mcp", "plain-token", 1);
        TokenStore::save(&open(), &kept).expect("saved");
        assert!(dir.path().join("state/tokens").read_dir().expect("there").next().is_some());
        secrets().set("MINE", &Secret::new("x")).expect("set");
        let newer = token("https://a", "https://m.example/mcp", "newer-token", 2);
        TokenStore::save(&open(), &newer).expect("saved");
        open().save_client(&newer.client).expect("saved");
        secrets().rotate(None).expect("rotated");
        assert_eq!(open().find(&url).expect("read").expect("there").access_token, "newer-token");
        assert!(open().client("https://a", &url).expect("read").is_some());
        assert_eq!(secrets().names(), Ok(vec!["MINE".to_owned()]));
        for entry in walkdir(dir.path()) {
            let text = String::from_utf8_lossy(&std::fs::read(&entry).expect("read")).into_owned();
            assert!(!text.contains("-token"), "{}", entry.display());
        }
        TokenStore::remove(&open(), &newer).expect("removed");
        assert_eq!(open().find(&url).expect("read"), None);
    }

    fn walkdir(dir: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).expect("listed").flatten().map(|entry| entry.path());
        entries.flat_map(|path| if path.is_dir() { walkdir(&path) } else { vec![path] }).collect()
    }

    #[cfg(unix)]
    #[test]
    fn the_user_alone_may_read_them() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a folder");
        let files = TokenFiles::at(dir.path().join("tokens"));
        let kept = token("https://a", "https://m.example/", "secret-token", 1);
        TokenStore::save(&files, &kept).expect("saved");
        files.save_client(&kept.client).expect("saved");
        let _lock = files.lock(&kept).expect("locked");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(files.folder.path()) & 0o777, 0o700);
        for entry in std::fs::read_dir(files.folder.path()).expect("listed").flatten() {
            let holds = std::fs::read(entry.path()).expect("read");
            assert!(holds.is_empty() || mode(&entry.path()) & 0o777 == 0o600, "{:?}", entry.path());
        }
        assert!(!format!("{kept:?}").contains("secret-token"));
    }

    #[cfg(unix)]
    #[test]
    fn what_others_may_have_written_or_read_is_set_aside_and_never_written_through() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let allow = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
        };
        let url = Url::parse("https://m.example/mcp").expect("an address");
        let saved = token("https://a", url.as_str(), "secret-token", 1);
        for how in ["link", "0666", "0644", "pipe", "large", "folder", "open folder", "garbage"] {
            let dir = tempfile::tempdir().expect("a folder");
            let files = TokenFiles::at(dir.path().join("tokens"));
            TokenStore::save(&files, &saved).expect("saved");
            files.save_client(&saved.client).expect("saved");
            let victim = dir.path().join("victim");
            std::fs::write(&victim, "precious").expect("written");
            allow(&victim, 0o644);
            for name in [token_name(&saved), client_name("https://a", &saved.server)] {
                let file = files.path(&name);
                let anew = |make: &dyn Fn()| {
                    std::fs::remove_file(&file).expect("removed");
                    make();
                };
                match how {
                    "link" => anew(&|| symlink(&victim, &file).expect("linked")),
                    "0666" => allow(&file, 0o666),
                    "0644" => allow(&file, 0o644),
                    "pipe" => anew(&|| {
                        let made = std::process::Command::new("mkfifo").arg(&file).status();
                        assert!(made.expect("mkfifo").success());
                    }),
                    "large" => std::fs::write(&file, vec![b' '; 2 << 20]).expect("written"),
                    "folder" => anew(&|| std::fs::create_dir(&file).expect("made")),
                    "open folder" => allow(files.folder.path(), 0o777),
                    _ => std::fs::write(&file, "{").expect("written"),
                }
            }
            assert_eq!(files.find(&url).expect("read"), None, "{how}");
            assert!(files.client("https://a", &url).expect("read").is_none(), "{how}");
            drop(files.lock(&saved).expect("locked"));
            TokenStore::save(&files, &saved).expect("saved");
            files.save_client(&saved.client).expect("saved");
            assert_eq!(files.find(&url).expect("read").as_ref(), Some(&saved), "{how}");
            assert_eq!(std::fs::read_to_string(&victim).expect("there"), "precious");
            let meta = std::fs::metadata(files.folder.path()).expect("there");
            assert_eq!(meta.permissions().mode() & 0o777, 0o700, "{how}");
        }
    }
}
