//! Secrets in an encrypted file: each value separately under XChaCha20-Poly1305, bound to its name;
//! the key from a passphrase by Argon2id, or from a file that only its owner may read. Names are
//! readable, values are not.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};

use crate::policy::file::{MAX_RIGHTS_BYTES, RightsContent, RightsFile};
use base::atomic::resolved;
use base::file::hex;
use base::state::StateFile;
use base::text::path::spelled;
use base::{SafeText, Secret};
use config::Environment;

/// Variable that holds the passphrase.
pub const PASSPHRASE: &str = "MCPDECK_SECRETS_PASSPHRASE";
/// Variable that holds the new passphrase of a rotation.
pub const NEW_PASSPHRASE: &str = "MCPDECK_SECRETS_NEW_PASSPHRASE";
/// Variable that names the key file.
pub const KEY_FILE: &str = "MCPDECK_SECRETS_KEY_FILE";
/// Argon2id parameters: memory in KiB, rounds, lanes.
const COST: (u32, u32, u32) = (19_456, 2, 1);
/// Plaintext that is encrypted to verify a key.
const CHECK: &str = "mcpdeck";
/// Prefix of the names that the host uses for its own data: tokens of servers.
const OWN: &str = "mcpdeck/";
/// Largest key file, in bytes.
const MAX_KEY_BYTES: u64 = 4 << 10;

/// The name of an item of the host's own data.
pub fn own_name(kind: &str, name: &str) -> String {
    format!("{OWN}{kind}/{name}")
}

/// The file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SecretsContent {
    version: u32,
    /// Salt of Argon2id; `None` when a key file is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    salt: Option<String>,
    /// [`CHECK`], encrypted, to verify a key.
    check: Option<Sealed>,
    secrets: BTreeMap<String, Sealed>,
}

impl RightsContent for SecretsContent {
    fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    nonce: String,
    data: String,
}

/// The secrets of the user.
pub struct SecretStore {
    file: RightsFile<SecretsContent>,
    passphrase: Option<Secret>,
    key_file: PathBuf,
}

impl SecretStore {
    /// The store of the user. `None` without a state folder. The key comes from the passphrase in
    /// the environment, else from the key file.
    pub fn from_env(env: &Environment) -> Option<Self> {
        let folder = env.state_dir.as_ref()?;
        let own = env.own_config_dir().unwrap_or_else(|| folder.clone());
        let named = env.var(KEY_FILE).filter(|name| !name.is_empty());
        Some(Self {
            file: RightsFile::new(
                StateFile::new(folder.join("secrets.json"), MAX_RIGHTS_BYTES).of_secrets(),
            ),
            passphrase: env.var(PASSPHRASE).filter(|text| !text.is_empty()).map(Secret::new),
            // A key that the user names may be mounted as a link; the file it leads to is guarded.
            key_file: named.map_or_else(
                || own.join("secrets.key"),
                |name| resolved(&env.absolute(name.as_ref())),
            ),
        })
    }

    /// The file that keeps them.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The names of the user's secrets, without the host's own data.
    ///
    /// # Errors
    /// When the file cannot be trusted.
    pub fn names(&self) -> Result<Vec<String>, String> {
        let names = self.read()?.secrets.into_keys();
        Ok(names.filter(|name| !name.starts_with(OWN)).collect())
    }

    /// Names of the host's own data of this kind; `None` when the user has no store.
    ///
    /// # Errors
    /// When the file cannot be trusted.
    pub fn own_names(&self, kind: &str) -> Result<Option<Vec<String>>, String> {
        let content = self.read()?;
        let start = own_name(kind, "");
        let names = content.secrets.into_keys().filter(|name| name.starts_with(&start));
        Ok(content.check.is_some().then(|| names.collect()))
    }

    /// The value of this name, if there is one.
    ///
    /// # Errors
    /// When the file cannot be trusted, or the key is wrong.
    pub fn get(&self, name: &str) -> Result<Option<Secret>, String> {
        let content = self.read()?;
        let Some(sealed) = content.secrets.get(name) else { return Ok(None) };
        let cipher = self.cipher(&content)?;
        open(&cipher, name, sealed)
            .map(Some)
            .ok_or_else(|| format!("the secret `{name}` is damaged"))
    }

    /// Stores a value. The first one creates the store, and a key file when no passphrase is given.
    ///
    /// # Errors
    /// As [`SecretStore::get`], or when it cannot be written.
    pub fn set(&self, name: &str, value: &Secret) -> Result<(), String> {
        let odd = |c: char| matches!(c, '{' | '}' | '$') || c.is_control();
        // The rest would be read as the default of `${secret:NAME:-text}`.
        if name.is_empty() || name.contains(odd) || name.contains(":-") {
            return Err(format!("`{}` cannot name a secret", SafeText::line(name)));
        }
        self.change(|content| {
            if content.check.is_none() {
                *content = fresh(self.passphrase.as_ref(), &self.key_file)?.0;
            }
            let cipher = self.cipher(content)?;
            content.secrets.insert(name.to_owned(), seal(&cipher, name, value)?);
            Ok(())
        })
    }

    /// Removes a value; returns whether there was one. Needs no key.
    ///
    /// # Errors
    /// When the file cannot be trusted or written.
    pub fn remove(&self, name: &str) -> Result<bool, String> {
        self.change(|content| Ok(content.secrets.remove(name).is_some()))
    }

    /// Re-encrypts everything: under a new passphrase, or, when none is given, under a new key in
    /// the key file. Returns the number of secrets.
    ///
    /// # Errors
    /// As [`SecretStore::set`]; nothing is changed then.
    pub fn rotate(&self, passphrase: Option<&Secret>) -> Result<usize, String> {
        let next_key = self.next_key();
        let done = self.change(|content| {
            let old = self.cipher(content)?;
            let _ = std::fs::remove_file(&next_key);
            let (mut next, cipher) = fresh(passphrase, &next_key)?;
            for (name, sealed) in &content.secrets {
                let value = open(&old, name, sealed);
                let value = value.ok_or_else(|| format!("the secret `{name}` is damaged"))?;
                next.secrets.insert(name.clone(), seal(&cipher, name, &value)?);
            }
            *content = next;
            Ok(content.secrets.len())
        });
        // Only now: a kill in between must not leave secrets without their key.
        let _ = match &done {
            Ok(_) => std::fs::rename(next_key, &self.key_file),
            Err(_) => std::fs::remove_file(next_key),
        };
        done
    }

    /// Path of the next key until everything is encrypted under it.
    fn next_key(&self) -> PathBuf {
        let mut name = self.key_file.clone().into_os_string();
        name.push(".next");
        name.into()
    }

    fn read(&self) -> Result<SecretsContent, String> {
        Ok(self.file.read()?.unwrap_or_default())
    }

    fn change<R>(
        &self,
        change: impl FnOnce(&mut SecretsContent) -> Result<R, String>,
    ) -> Result<R, String> {
        self.file.change(|content| {
            let done = change(content);
            (done.is_ok(), done)
        })?
    }

    fn cipher(&self, content: &SecretsContent) -> Result<XChaCha20Poly1305, String> {
        let is_right = |cipher: &XChaCha20Poly1305| {
            content.check.as_ref().is_some_and(|check| open(cipher, CHECK, check).is_some())
        };
        let cipher = match (&content.salt, &self.passphrase) {
            (Some(salt), Some(passphrase)) => derived(passphrase, salt)?,
            (Some(_), None) => {
                return Err(format!("the secrets need their passphrase: set {PASSPHRASE}"));
            }
            (None, _) => {
                // The next key of an interrupted rotation.
                if let Some(next) = of_file(&self.next_key()).ok().filter(is_right) {
                    let _ = std::fs::rename(self.next_key(), &self.key_file);
                    return Ok(next);
                }
                of_file(&self.key_file)?
            }
        };
        let wrong = || "the key of the secrets is wrong".to_owned();
        is_right(&cipher).then_some(cipher).ok_or_else(wrong)
    }
}

/// An empty store and its cipher: a key from the passphrase, else the one in the key file, which is
/// created if missing.
fn fresh(
    passphrase: Option<&Secret>,
    key_file: &Path,
) -> Result<(SecretsContent, XChaCha20Poly1305), String> {
    let mut content = SecretsContent::default();
    let cipher = if let Some(passphrase) = passphrase {
        let salt = hex(&random::<16>()?);
        let cipher = derived(passphrase, &salt)?;
        content.salt = Some(salt);
        cipher
    } else {
        if key_file.symlink_metadata().is_err() {
            let text = hex(&random::<32>()?);
            let made = key_state(key_file).write(text.as_bytes());
            made.map_err(|error| unusable(key_file, &error))?;
        }
        of_file(key_file)?
    };
    content.check = Some(seal(&cipher, CHECK, &Secret::new(CHECK))?);
    Ok((content, cipher))
}

/// The cipher with the key in a file.
fn of_file(key_file: &Path) -> Result<XChaCha20Poly1305, String> {
    let shown = spelled(key_file);
    let bytes = key_state(key_file).bytes().map_err(|error| unusable(key_file, &error))?;
    let bytes = bytes.ok_or_else(|| unusable(key_file, &io::ErrorKind::NotFound.into()))?;
    let text = String::from_utf8_lossy(&bytes);
    let key = unhex(text.trim()).filter(|key| key.len() == 32);
    let cipher = key.and_then(|key| XChaCha20Poly1305::new_from_slice(&key).ok());
    cipher.ok_or_else(|| format!("{shown}: not a key of 64 hexadecimal digits"))
}

fn key_state(key_file: &Path) -> StateFile {
    StateFile::new(key_file, MAX_KEY_BYTES).of_secrets()
}

fn unusable(key_file: &Path, error: &io::Error) -> String {
    format!("the key of the secrets, {}: {error}", spelled(key_file))
}

fn derived(passphrase: &Secret, salt: &str) -> Result<XChaCha20Poly1305, String> {
    let wrong = || "the key of the secrets cannot be derived".to_owned();
    let params = Params::new(COST.0, COST.1, COST.2, Some(32)).map_err(|_| wrong())?;
    let mut key = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(
            passphrase.expose().as_bytes(),
            &unhex(salt).ok_or_else(wrong)?,
            &mut key,
        )
        .map_err(|_| wrong())?;
    XChaCha20Poly1305::new_from_slice(&key).map_err(|_| wrong())
}

fn seal(cipher: &XChaCha20Poly1305, name: &str, value: &Secret) -> Result<Sealed, String> {
    let nonce = random::<24>()?;
    let payload = Payload { msg: value.expose().as_bytes(), aad: name.as_bytes() };
    let data = cipher.encrypt(&XNonce::from(nonce), payload);
    let data = data.map_err(|_| "the value cannot be encrypted".to_owned())?;
    Ok(Sealed { nonce: hex(&nonce), data: hex(&data) })
}

fn open(cipher: &XChaCha20Poly1305, name: &str, sealed: &Sealed) -> Option<Secret> {
    let nonce: [u8; 24] = unhex(&sealed.nonce)?.try_into().ok()?;
    let data = unhex(&sealed.data)?;
    let payload = Payload { msg: &data, aad: name.as_bytes() };
    let plain = cipher.decrypt(&XNonce::from(nonce), payload).ok()?;
    Some(Secret::new(String::from_utf8(plain).ok()?))
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut out = [0; N];
    getrandom::fill(&mut out).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(out)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pairs = digits.len().is_multiple_of(2).then(|| digits.chunks(2))?;
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_that_is_cut_short_leaves_every_secret_readable() {
        let dir = tempfile::tempdir().expect("a folder");
        let state_dir = Some(dir.path().to_path_buf());
        let store = SecretStore::from_env(&Environment { state_dir, ..Environment::default() });
        let store = store.expect("a store");
        let value = Some(Secret::new("one"));
        store.set("a", &Secret::new("one")).expect("kept");
        let old_key = std::fs::read(&store.key_file).expect("a key");
        assert_eq!(store.rotate(None), Ok(1));
        assert_ne!(std::fs::read(&store.key_file).expect("a key"), old_key);
        // Killed after everything was encrypted, before the new key replaced the old one.
        std::fs::rename(&store.key_file, store.next_key()).expect("renamed");
        key_state(&store.key_file).write(&old_key).expect("written");
        assert_eq!(store.get("a"), Ok(value.clone()));
        assert!(!store.next_key().exists(), "it has its place now");
        // Killed before anything was encrypted.
        assert!(fresh(None, &store.next_key()).is_ok());
        assert_eq!(store.get("a"), Ok(value.clone()));
        assert_eq!(store.rotate(None), Ok(1));
        assert_eq!(store.get("a"), Ok(value));
    }

    #[cfg(unix)]
    #[test]
    fn a_store_that_others_may_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a folder");
        let state_dir = Some(dir.path().to_path_buf());
        let store = SecretStore::from_env(&Environment { state_dir, ..Environment::default() });
        let store = store.expect("a store");
        store.set("a", &Secret::new("one")).expect("kept");
        let allow = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(store.file.path(), mode).expect("set");
        };
        for mode in [0o644, 0o640, 0o666] {
            allow(mode);
            let problem = store.get("a").expect_err("open to others");
            assert!(problem.contains("others may"), "{mode:o}: {problem}");
            assert!(store.set("b", &Secret::new("two")).is_err(), "{mode:o}");
        }
        allow(0o600);
        assert_eq!(store.get("a"), Ok(Some(Secret::new("one"))));
    }

    #[test]
    fn a_name_that_no_reference_can_hold_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let state_dir = Some(dir.path().to_path_buf());
        let store = SecretStore::from_env(&Environment { state_dir, ..Environment::default() });
        let store = store.expect("a store");
        for name in ["", "a}b", "a\nb", "a:-b"] {
            assert!(store.set(name, &Secret::new("x")).is_err(), "{name:?}");
        }
        assert_eq!(store.names(), Ok(Vec::new()));
    }
}
