//! What is new in every message of a sign-in: texts that nobody can guess, and the time.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

use super::step::AuthFailure;

/// A text that nobody can guess: a `state`, a code verifier (RFC 7636).
///
/// # Errors
/// When the system has no random numbers.
pub(super) fn random_text() -> Result<String, AuthFailure> {
    let mut bytes = [0_u8; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| AuthFailure::failed("the system's random source failed"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Seconds since 1970, the unit of token times.
pub(super) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_made_twice() {
        assert_ne!(random_text(), random_text());
    }
}
