//! What a user has to do with an account: a sign-in as it is shown, where it leads, and what signing
//! out has done.

use futures::future::BoxFuture;
use serde::Serialize;
use url::Url;

use super::token::StoredToken;
use base::{SafeText, ServerName};

/// A sign-in that waits for the user.
#[derive(Clone, Debug)]
pub struct SignIn {
    /// The server that requires it.
    pub server: ServerName,
    /// Who asks for the user's name and password.
    pub issuer: SafeText,
    /// The authorization servers that the server names before that one, which cannot be used now.
    pub instead_of: Vec<SafeText>,
    /// What the token will allow.
    pub scopes: Vec<SafeText>,
    /// The address to open; checked to be a web address.
    pub url: Url,
    /// Where the browser is redirected to.
    pub redirect_uri: String,
}

/// Describes scopes in words: those of `OpenID` Connect Core 1.0 (sections 5.4 and 11), and those
/// that join a verb to a noun, such as `repo:read`. Others are kept as they are.
pub fn scopes_in_words<'a>(scopes: impl IntoIterator<Item = &'a str>) -> String {
    const VERBS: [&str; 8] =
        ["admin", "call", "create", "delete", "list", "manage", "read", "write"];
    let words = |scope: &str| {
        let known = match scope {
            "openid" => "who you are",
            "profile" => "your name and picture",
            "email" => "your email address",
            "address" => "your postal address",
            "phone" => "your phone number",
            "offline_access" => "staying signed in while you are away",
            _ => {
                let (first, second) = scope.split_once([':', '.'])?;
                let verb = |word: &str| VERBS.contains(&word);
                return match (verb(first), verb(second)) {
                    (true, false) => Some(format!("{first} {second} ({scope})")),
                    (false, true) => Some(format!("{second} {first} ({scope})")),
                    _ => None,
                };
            }
        };
        Some(format!("{known} ({scope})"))
    };
    let words = scopes.into_iter().map(|scope| words(scope).unwrap_or_else(|| scope.to_owned()));
    let words: Vec<String> = words.collect();
    if words.is_empty() { "nothing in particular".to_owned() } else { words.join(", ") }
}

/// Shows a sign-in to the user.
pub trait SignInPrompt: Send + Sync + 'static {
    /// Shows it. Returns `None` when the browser will be redirected to `redirect_uri` by itself, or
    /// else the address that the user pasted. Dropped when the redirect arrives.
    ///
    /// # Errors
    /// Why the user declined.
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>>;
}

/// Where a server sends users to sign in, according to its current metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Authorization {
    /// Who issues tokens.
    pub issuer: String,
    /// Where the user signs in.
    pub authorization_endpoint: String,
    /// Where codes and refresh tokens are exchanged.
    pub token_endpoint: String,
    /// Where clients are registered, when that is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_endpoint: Option<String>,
    /// Where tokens are revoked, when that is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
}

/// What signing out has done.
#[derive(Debug)]
pub struct SignedOut {
    /// The token that was forgotten.
    pub token: Option<StoredToken>,
    /// Why it was not revoked, where it could have been: it is forgotten all the same.
    pub revoked: Result<(), String>,
    /// Whether the host had registered a client, which was forgotten too.
    pub had_client: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_said_in_words_and_keep_their_names() {
        assert_eq!(
            scopes_in_words(["openid", "offline_access", "repo:read", "write.files", "a:b"]),
            "who you are (openid), staying signed in while you are away (offline_access), \
             read repo (repo:read), write files (write.files), a:b"
        );
        assert_eq!(scopes_in_words([]), "nothing in particular");
    }
}
