//! The assertion of a client that has a key (RFC 7523, `private_key_jwt`).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;

/// Seconds an assertion is good for.
const LIFE: u64 = 300;

/// Signs that `client` speaks to `audience`, at `now` in seconds since 1970. The key is PKCS#8 in
/// PEM: RSA (RS256), P-256 (ES256) or P-384 (ES384).
///
/// # Errors
/// What is wrong with the key.
pub(super) fn sign(pem: &str, client: &str, audience: &str, now: u64) -> Result<String, String> {
    let key = Key::of(pem)?;
    let random = SystemRandom::new();
    let mut id = [0_u8; 16];
    random.fill(&mut id).map_err(|_| "the system gives no random numbers")?;
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(json!({"alg": key.algorithm(), "typ": "JWT"}));
    let claims = part(json!({
        "iss": client, "sub": client, "aud": audience, "iat": now, "exp": now + LIFE,
        "jti": URL_SAFE_NO_PAD.encode(id),
    }));
    let text = format!("{header}.{claims}");
    let signature = key.sign(text.as_bytes(), &random)?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

enum Key {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
}

impl Key {
    fn of(pem: &str) -> Result<Self, String> {
        let body: String =
            pem.lines().filter(|line| !line.contains("-----")).map(str::trim).collect();
        let wanted = "`oauth.privateKey` must be a private key in PKCS#8 PEM: RSA, P-256 or P-384";
        let der = STANDARD.decode(body).map_err(|_| wanted)?;
        let random = SystemRandom::new();
        let curve = |with| EcdsaKeyPair::from_pkcs8(with, &der, &random);
        if let Ok(key) = RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)) {
            return Ok(Self::Rsa(Box::new(key)));
        }
        if let Ok(key) = curve(&ECDSA_P256_SHA256_FIXED_SIGNING) {
            return Ok(Self::P256(key));
        }
        curve(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::P384).map_err(|_| wanted.to_owned())
    }

    const fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
        }
    }

    fn sign(&self, text: &[u8], random: &SystemRandom) -> Result<Vec<u8>, String> {
        let failed = |_| "the key does not sign".to_owned();
        match self {
            Self::Rsa(key) => {
                let mut out = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, random, text, &mut out).map_err(failed)?;
                Ok(out)
            }
            Self::P256(key) | Self::P384(key) => {
                key.sign(random, text).map(|s| s.as_ref().to_vec()).map_err(failed)
            }
        }
    }
}
