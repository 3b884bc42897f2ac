//! Tokens of the gateway: the operator's own, in a file that only the operator can read, and client
//! tokens, of which only a hash is stored.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::outside::Outside;
use base::Timestamp;
use base::file::{hex, random_hex};
use base::secret::Secret;
use base::state::{StateFile, StateFolder};
use base::text::path::spelled;
use base::watch::Fingerprint;
use deck::{RightsContent, RightsFile};
use host::{AccessScope, CallOptions, CallerIdentity, DEFAULT_PROFILE, Origin, Principal};

/// Maximum size of a token file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The scopes of a token created without `--scope`. Scopes are an upper bound: grants decide what
/// the token may do.
pub const DEFAULT_SCOPES: [AccessScope; 4] = [
    AccessScope::ToolsList,
    AccessScope::ToolsCall,
    AccessScope::ResourcesRead,
    AccessScope::PromptsGet,
];

/// The client that sent a request, identified by its token.
#[derive(Clone, Debug)]
pub struct Client {
    /// The token's id; `owner` for the operator's own.
    pub id: Arc<str>,
    /// The profile it acts under.
    pub profile: Arc<str>,
    /// Whether the profile was named, by the operator or in the path; it binds the operator then.
    pub is_named: bool,
    /// Whether it is the operator's own token, which carries every scope.
    pub is_owner: bool,
    pub(crate) scopes: Vec<AccessScope>,
    /// Its MCP session, if any.
    pub(crate) session: Option<Arc<str>>,
    /// Cancels its streams and calls.
    pub cut: CancellationToken,
    /// The profiles that its path may name.
    pub(crate) profiles: Arc<[Arc<str>]>,
    /// When its token ends, if it has signed in.
    pub(crate) expires: Option<Timestamp>,
    /// Who it is, if it has signed in.
    pub(crate) identity: Option<Arc<CallerIdentity>>,
}

impl Client {
    /// The operator, under this profile if one is named.
    pub fn owner(profile: Option<Arc<str>>) -> Self {
        let cut = CancellationToken::new();
        let (id, scopes) = (Origin::OWNER.into(), Vec::new());
        let is_named = profile.is_some();
        let profile = profile.unwrap_or_else(|| DEFAULT_PROFILE.into());
        let (profiles, expires, identity) = (Arc::default(), None, None);
        Self {
            id,
            profile,
            is_named,
            is_owner: true,
            scopes,
            session: None,
            cut,
            profiles,
            expires,
            identity,
        }
    }

    /// The origin of its calls, for the engine.
    pub fn origin(&self) -> Origin {
        Origin::Gateway(Arc::clone(&self.id))
    }

    /// The principal of its calls, for policy decisions.
    pub fn principal(&self) -> Principal {
        let profile = Arc::clone(&self.profile);
        let (is_named, session) = (self.is_named, self.session.clone());
        Principal { origin: self.origin(), profile, is_named, session }
    }

    /// Options for a call by this client.
    pub(crate) fn options(&self) -> CallOptions {
        let profile = self.is_named.then(|| Arc::clone(&self.profile));
        let (origin, identity) = (self.origin(), self.identity.clone());
        let (session, cancel) = (self.session.clone(), self.cut.child_token());
        CallOptions { profile, session, identity, ..CallOptions::new(origin, cancel) }
    }

    /// Returns an error unless its token carries the scope.
    pub(crate) fn allows(&self, scope: AccessScope) -> Result<(), Outside> {
        if self.may(scope) { Ok(()) } else { Err(Outside::scope(scope)) }
    }

    /// Whether its token carries a scope.
    pub fn may(&self, scope: AccessScope) -> bool {
        self.is_owner || self.scopes.contains(&scope)
    }
}

/// The operator's own token; the default matches no token.
#[derive(Clone, Default)]
pub struct OwnerToken {
    digest: Option<[u8; 32]>,
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken(***)")
    }
}

impl OwnerToken {
    /// Reads the token from a file. If there is none, creates it with a new 256-bit token, readable
    /// only by its owner; the second value is that new token, to be shown once.
    ///
    /// # Errors
    /// When the file cannot be read or written, holds no valid token, or others may read it.
    pub fn open(path: &Path) -> Result<(Self, Option<Secret>), String> {
        let file = StateFile::new(path, MAX_FILE_BYTES).of_secrets();
        if let Some(bytes) = file.bytes().map_err(|error| about(path, error))? {
            let text = String::from_utf8_lossy(&bytes);
            let token = text.trim();
            if token.len() < 32 || token.contains(char::is_whitespace) {
                let why = "a token of at least 32 characters on one line is expected; delete the \
                           file to have a new one made";
                return Err(about(path, why));
            }
            return Ok((Self { digest: Some(digest(token)) }, None));
        }
        let token = fresh()?;
        let text = format!("{token}\n");
        file.write(text.as_bytes()).map_err(|error| about(path, error))?;
        Ok((Self { digest: Some(digest(&token)) }, Some(Secret::new(token))))
    }

    /// Whether `token` is the operator's; compares in constant time.
    pub fn is(&self, token: &str) -> bool {
        self.digest.is_some_and(|own| equal(&own, &digest(token)))
    }
}

/// The stored record of a client token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenRecord {
    /// Short id of the token, included in every audit record.
    pub id: String,
    /// SHA-256 of the token. It has 256 random bits, so a slow hash would add no security.
    hash: String,
    /// The profile it acts under.
    pub profile: String,
    pub scopes: Vec<AccessScope>,
    /// When it was created.
    pub created: Timestamp,
    /// When it expires; `None` for never.
    pub expires: Option<Timestamp>,
}

impl TokenRecord {
    /// Whether it has expired.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct TokenFile {
    version: u32,
    tokens: Vec<TokenRecord>,
}

impl RightsContent for TokenFile {
    fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

/// The store of client tokens; the default is empty and has no file. Clones share what is in force.
#[derive(Clone, Debug, Default)]
pub struct ClientTokens {
    file: Option<Arc<RightsFile<TokenFile>>>,
    /// The tokens as of the last read of the file.
    read: Arc<Mutex<Option<ReadTokens>>>,
}

/// The file's fingerprint at the time of the read, and its tokens.
type ReadTokens = (Fingerprint, Arc<[TokenRecord]>);

impl ClientTokens {
    /// The store in the user's state folder.
    pub fn from_state_dir(state: &Path) -> Self {
        let folder = StateFolder::new(state.join("gateway"));
        let file = RightsFile::new(folder.file("tokens.json", MAX_FILE_BYTES).of_secrets());
        Self { file: Some(Arc::new(file)), ..Self::default() }
    }

    /// The file; `None` if nothing is stored.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref().map(RightsFile::path)
    }

    /// Every token in the file.
    ///
    /// # Errors
    /// When the file exists but cannot be used.
    pub fn stored(&self) -> Result<Vec<TokenRecord>, String> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        let help = "no token works until it is repaired or deleted";
        let read = file.read().map_err(|problem| format!("{problem}; {help}"))?;
        Ok(read.unwrap_or_default().tokens)
    }

    /// Every token in force. The file is read again whenever it has changed, so that a revocation
    /// takes effect at once; while it is gone or cannot be used, its last state stays in force.
    ///
    /// # Errors
    /// When the file exists and never could be used; callers must then reject all tokens.
    pub fn list(&self) -> Result<Arc<[TokenRecord]>, String> {
        let Some(file) = &self.file else { return Ok(Arc::default()) };
        let now = Fingerprint::from_path(file.path());
        if let Some((then, tokens)) = &*self.read.lock()
            && *then == now
        {
            return Ok(Arc::clone(tokens));
        }
        let (kept, problem) = file.follow();
        let Some(kept) = kept else {
            return Err(problem.unwrap_or_else(|| file.about("it cannot be used")));
        };
        let tokens = Arc::<[TokenRecord]>::from(kept.tokens);
        *self.read.lock() = Some((now, Arc::clone(&tokens)));
        Ok(tokens)
    }

    /// Creates a token; returns it and its stored record.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn create(
        &self,
        profile: &str,
        scopes: Vec<AccessScope>,
        lifetime: Option<Duration>,
        now: Timestamp,
    ) -> Result<(Secret, TokenRecord), String> {
        let token = fresh()?;
        let expires = lifetime.map(|lifetime| now.plus(lifetime));
        let hash = hex(&digest(&token));
        let id = hash.chars().take(8).collect();
        let record =
            TokenRecord { id, hash, profile: profile.to_owned(), scopes, created: now, expires };
        self.change(|tokens| {
            // Removes expired tokens.
            tokens.retain(|kept| !kept.is_over(now));
            tokens.push(record.clone());
        })?;
        Ok((Secret::new(token), record))
    }

    /// Revokes a token; returns whether it existed.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn revoke(&self, id: &str) -> Result<bool, String> {
        let mut found = false;
        self.change(|tokens| found = tokens.extract_if(.., |kept| kept.id == id).count() > 0)?;
        Ok(found)
    }

    /// The client of a token; `None` if it is unknown or expired.
    pub(crate) fn client(&self, token: &str, now: Timestamp) -> Option<Client> {
        let own = hex(&digest(token));
        // Why they cannot be read was told.
        let tokens = self.list().ok()?;
        let found = tokens.iter().find(|kept| equal(kept.hash.as_bytes(), own.as_bytes()))?;
        if found.is_over(now) {
            return None;
        }
        Some(Client {
            id: found.id.as_str().into(),
            profile: found.profile.as_str().into(),
            profiles: [found.profile.as_str().into()].into(),
            expires: None,
            identity: None,
            is_named: true,
            is_owner: false,
            scopes: found.scopes.clone(),
            session: None,
            cut: CancellationToken::new(),
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<TokenRecord>)) -> Result<(), String> {
        let file = self.file.as_ref().ok_or("there is no folder to keep tokens in")?;
        file.change(|kept| (true, change(&mut kept.tokens)))
    }
}

fn about(path: &Path, why: impl fmt::Display) -> String {
    format!("{}: {why}", spelled(path))
}

fn fresh() -> Result<String, String> {
    let random = random_hex::<32>().map_err(|error| error.to_string())?;
    Ok(format!("mcpdeck_{random}"))
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Constant-time comparison.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn tokens_stay_in_force_until_they_are_revoked_whatever_becomes_of_their_file() {
        let now = Timestamp::default();
        for how in ["gone", "empty", "cut", "null", "readable by all", "folder", "link"] {
            let dir = tempfile::tempdir().expect("a folder");
            let service = ClientTokens::from_state_dir(dir.path());
            let other = ClientTokens::from_state_dir(dir.path());
            let made = other.create("default", Vec::new(), None, now).expect("made");
            let (token, id) = (made.0.expose().to_owned(), made.1.id);
            assert!(service.client(&token, now).is_some());
            let file = service.path().expect("a file").to_owned();
            let anew = |make: &dyn Fn() -> std::io::Result<()>| {
                std::fs::remove_file(&file).and_then(|()| make()).expect("made");
            };
            match how {
                "gone" => anew(&|| Ok(())),
                "empty" => std::fs::write(&file, "").expect("written"),
                "cut" => std::fs::write(&file, "{\"version\": 1, \"tok").expect("written"),
                "null" => std::fs::write(&file, "null").expect("written"),
                "folder" => anew(&|| std::fs::create_dir(&file)),
                "link" => anew(&|| std::os::unix::fs::symlink("missing", &file)),
                _ => {
                    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
                    std::fs::set_permissions(&file, mode).expect("set");
                }
            }
            let started = ClientTokens::from_state_dir(dir.path());
            assert_eq!(started.list().is_ok(), how == "gone", "{how}: closed at a start");
            assert!(started.client(&token, now).is_none());
            assert!(service.client(&token, now).is_some(), "{how}");
            assert!(service.revoke(&id).expect("revoked"), "{how}");
            assert!(service.client(&token, now).is_none(), "{how}");
            assert_eq!(
                ClientTokens::from_state_dir(dir.path()).stored().expect("sound").len(),
                0,
                "{how}"
            );
        }
    }
}
