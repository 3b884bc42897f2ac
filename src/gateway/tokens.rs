//! Tokens of the gateway: the operator's own, in a file that only the operator can read, and client
//! tokens, of which only a hash is stored.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::outside::Outside;
use base::Timestamp;
use base::atomic::{Readers, alone, replace};
use base::file::{hex, random_hex, read_text};
use base::secret::Secret;
use base::watch::Fingerprint;
use host::{AccessScope, CallOptions, Origin, Principal};

/// Format version of the file of hashes.
const VERSION: u32 = 1;
/// Maximum size of a token file, in bytes.
const LARGEST: u64 = 1 << 20;

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
    /// Whether it is the operator's own token, which carries every scope.
    pub is_owner: bool,
    scopes: Vec<AccessScope>,
    /// Its MCP session, if any.
    pub(crate) session: Option<Arc<str>>,
    /// Cancels its streams and calls.
    pub cut: CancellationToken,
}

impl Client {
    /// The operator.
    pub fn owner(profile: Arc<str>) -> Self {
        let cut = CancellationToken::new();
        let (id, scopes) = (Origin::OWNER.into(), Vec::new());
        Self { id, profile, is_owner: true, scopes, session: None, cut }
    }

    /// The origin of its calls, for the engine.
    pub fn origin(&self) -> Origin {
        Origin::Gateway(self.id.to_string())
    }

    /// The principal of its calls, for policy decisions.
    pub fn principal(&self) -> Principal {
        let principal = Principal::new(self.origin()).with_profile(Arc::clone(&self.profile));
        Principal { session: self.session.clone(), ..principal }
    }

    /// Options for a call by this client.
    pub(crate) fn options(&self) -> CallOptions {
        let (origin, profile) = (self.origin(), Some(Arc::clone(&self.profile)));
        let (session, cancel) = (self.session.clone(), self.cut.child_token());
        CallOptions { cancel, origin, profile, session, ..CallOptions::default() }
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
#[derive(Default)]
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
        if let Some(text) = read_private(path)? {
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
        replace(path, text.as_bytes(), Readers::Owner).map_err(|error| about(path, error))?;
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
    /// Its scopes.
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

#[derive(Debug, Serialize, Deserialize)]
struct TokenFile {
    version: u32,
    tokens: Vec<TokenRecord>,
}

/// The store of client tokens; the default is empty and has no file.
#[derive(Clone, Debug, Default)]
pub struct ClientTokens {
    path: Option<PathBuf>,
    /// The tokens as of the last read of the file.
    read: Arc<Mutex<Option<ReadTokens>>>,
}

/// The file's fingerprint at the time of the read, and its tokens.
type ReadTokens = (Fingerprint, Arc<[TokenRecord]>);

impl ClientTokens {
    /// The store in the user's state folder.
    pub fn of(state: &Path) -> Self {
        Self { path: Some(state.join("gateway").join("tokens.json")), ..Self::default() }
    }

    /// The file; `None` if nothing is stored.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Every token that was not revoked. The file is read again whenever it has changed, so that a
    /// revocation takes effect at once.
    ///
    /// # Errors
    /// When the file exists but cannot be used; callers must then reject all tokens.
    pub fn list(&self) -> Result<Arc<[TokenRecord]>, String> {
        let Some(path) = &self.path else { return Ok(Arc::default()) };
        let now = Fingerprint::of(path);
        if let Some((then, tokens)) = &*self.read.lock()
            && *then == now
        {
            return Ok(Arc::clone(tokens));
        }
        let Some(text) = read_private(path)? else { return Ok(Arc::default()) };
        let file: TokenFile = serde_json::from_str(&text).map_err(|error| {
            about(path, format!("{error}; no token works until it is repaired or deleted"))
        })?;
        if file.version != VERSION {
            return Err(about(path, "it was written by another version of mcpdeck"));
        }
        let tokens = Arc::<[TokenRecord]>::from(file.tokens);
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
        let tokens = match self.list() {
            Ok(tokens) => tokens,
            Err(error) => {
                tracing::error!(target: "mcpdeck::gateway", "tokens cannot be read: {error}");
                return None;
            }
        };
        let found = tokens.iter().find(|kept| equal(kept.hash.as_bytes(), own.as_bytes()))?;
        if found.is_over(now) {
            return None;
        }
        Some(Client {
            id: found.id.as_str().into(),
            profile: found.profile.as_str().into(),
            is_owner: false,
            scopes: found.scopes.clone(),
            session: None,
            cut: CancellationToken::new(),
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<TokenRecord>)) -> Result<(), String> {
        let path = self.path.as_ref().ok_or("there is no folder to keep tokens in")?;
        alone(path, || {
            let mut tokens = self.list()?.to_vec();
            change(&mut tokens);
            let file = TokenFile { version: VERSION, tokens };
            let text = serde_json::to_vec_pretty(&file).map_err(|error| about(path, error))?;
            replace(path, &text, Readers::Owner).map_err(|error| about(path, error))
        })
    }
}

fn about(path: &Path, why: impl fmt::Display) -> String {
    format!("{}: {why}", path.display())
}

/// Reads a file that only its owner may read; `None` if it does not exist.
fn read_private(path: &Path) -> Result<Option<String>, String> {
    let meta = std::fs::symlink_metadata(path);
    if meta.as_ref().is_ok_and(std::fs::Metadata::is_symlink) {
        return Err(about(path, "a plain file is expected, not a link"));
    }
    #[cfg(unix)]
    if meta.is_ok_and(|meta| std::os::unix::fs::MetadataExt::mode(&meta) & 0o077 != 0) {
        return Err(about(path, "others may read it; make it private with `chmod 600`"));
    }
    read_text(path, LARGEST).map_err(|error| about(path, error))
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
