//! Tokens that are bound to a key of the host (`DPoP`, RFC 9449): who reads a token on its way cannot
//! use it. The key is made for one sign-in, kept beside its token, and never sent.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use url::Url;

use super::fresh::{now, random_text};
use super::step::AuthFailure;
use base::Secret;

/// The header of a proof.
const PROOF: HeaderName = HeaderName::from_static("dpop");
/// The header of a nonce that a server wants in the next proof.
const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// A key pair (P-256, ES256), and the nonces that the servers asked for last.
pub(super) struct ProofKey {
    pkcs8: Secret,
    pair: EcdsaKeyPair,
    nonces: Mutex<Vec<ServerNonce>>,
}

/// What one server wants in the next proof.
struct ServerNonce {
    origin: String,
    nonce: String,
}

impl ProofKey {
    /// The algorithm of its proofs.
    pub(super) const ALGORITHM: &str = "ES256";
    /// Most servers whose nonces are remembered: the resource and its authorization server, and
    /// some that they have moved from.
    const MAX_NONCES: usize = 8;
    /// Longest nonce that is sent back, in bytes.
    const MAX_NONCE_BYTES: usize = 4096;

    /// Makes a new key.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(super) fn generate() -> Result<Self, AuthFailure> {
        let failed = |_| AuthFailure::failed("the system's random source failed");
        let made =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self::parse(&STANDARD.encode(made.map_err(failed)?.as_ref()))
    }

    /// Reads a key as [`Self::stored`] writes it.
    ///
    /// # Errors
    /// When it is no such key.
    pub(super) fn parse(stored: &str) -> Result<Self, AuthFailure> {
        let wrong = || AuthFailure::refused("the kept key of the token cannot be read");
        let der = STANDARD.decode(stored).map_err(|_| wrong())?;
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new());
        let pair = pair.map_err(|_| wrong())?;
        Ok(Self { pkcs8: Secret::new(stored), pair, nonces: Mutex::default() })
    }

    /// The key as it is kept beside its token: PKCS#8 in base64.
    pub(super) fn stored(&self) -> &str {
        self.pkcs8.expose()
    }

    /// The public key (RFC 7517), with its members in the order of a thumbprint (RFC 7638).
    fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        // 4, then both coordinates (SEC 1, section 2.3.3).
        let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len().saturating_sub(1) / 2);
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"crv": "P-256", "kty": "EC", "x": part(x), "y": part(y)})
    }

    /// What a sign-in page is told of the key (`dpop_jkt`, RFC 9449, section 10).
    pub(super) fn thumbprint(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.jwk().to_string().as_bytes()))
    }

    /// The proof for one request (RFC 9449, section 4.2), of a `token` where it is sent with one.
    ///
    /// # Errors
    /// When the system has no random numbers.
    fn prove(&self, method: &str, url: &Url, token: Option<&str>) -> Result<String, AuthFailure> {
        let mut place = url.clone();
        place.set_query(None);
        place.set_fragment(None);
        let mut claims = json!({
            "jti": random_text()?,
            "htm": method,
            "htu": place,
            "iat": now(),
        });
        if let Some(token) = token {
            claims["ath"] = json!(URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes())));
        }
        let origin = url.origin().ascii_serialization();
        if let Some(known) = self.nonces.lock().iter().find(|known| known.origin == origin) {
            claims["nonce"] = json!(known.nonce);
        }
        let header = json!({"typ": "dpop+jwt", "alg": Self::ALGORITHM, "jwk": self.jwk()});
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes());
        let signature = signature.map_err(|_| AuthFailure::failed("the key cannot sign"))?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Adds the proof for a request, and its token where it has one.
    ///
    /// # Errors
    /// When the system has no random numbers, or a header cannot hold the token.
    pub(super) fn attach(
        &self,
        headers: &mut HeaderMap,
        method: &str,
        url: &Url,
        token: Option<&str>,
    ) -> Result<(), AuthFailure> {
        let proof = self.prove(method, url, token)?;
        headers.insert(PROOF, HeaderValue::from_str(&proof).map_err(AuthFailure::failed)?);
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("DPoP {token}"));
            let mut value = value.map_err(AuthFailure::failed)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(())
    }

    /// Remembers the nonce that a response of the server at `url` asks for. Returns whether there
    /// was a new one.
    pub(super) fn learn(&self, url: &Url, headers: &HeaderMap) -> bool {
        let nonce = headers.get(NONCE).and_then(|nonce| nonce.to_str().ok());
        let Some(nonce) = nonce.filter(|n| !n.is_empty() && n.len() <= Self::MAX_NONCE_BYTES)
        else {
            return false;
        };
        let origin = url.origin().ascii_serialization();
        let mut known = self.nonces.lock();
        if known.iter().any(|known| known.origin == origin && known.nonce == nonce) {
            return false;
        }
        known.retain(|known| known.origin != origin);
        if known.len() >= Self::MAX_NONCES {
            known.remove(0);
        }
        known.push(ServerNonce { origin, nonce: nonce.to_owned() });
        true
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    fn decoded(part: &str) -> Value {
        let bytes = URL_SAFE_NO_PAD.decode(part).expect("base64");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    #[test]
    fn a_proof_is_signed_by_the_key_it_shows_and_names_the_request() {
        let key = ProofKey::generate().expect("a key");
        let key = ProofKey::parse(key.stored()).expect("the same key");
        let url: Url = "https://a.example:444/mcp?secret=1#part".parse().expect("an address");
        let proof = key.prove("POST", &url, Some("token")).expect("a proof");
        let parts: Vec<&str> = proof.split('.').collect();
        let (header, claims) = (decoded(parts[0]), decoded(parts[1]));
        assert_eq!((&header["typ"], &header["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
        assert!(header["jwk"].get("d").is_none());
        assert_eq!(
            (&claims["htm"], &claims["htu"]),
            (&json!("POST"), &json!("https://a.example:444/mcp"))
        );
        // The hash of `token`, by another program.
        assert_eq!(claims["ath"], "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A");
        let mut point = vec![4];
        for axis in ["x", "y"] {
            let axis = header["jwk"][axis].as_str().expect("an axis");
            point.extend(URL_SAFE_NO_PAD.decode(axis).expect("base64"));
        }
        let signature = URL_SAFE_NO_PAD.decode(parts[2]).expect("base64");
        let signed = format!("{}.{}", parts[0], parts[1]);
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        assert!(public.verify(signed.as_bytes(), &signature).is_ok());
        let other = key.prove("POST", &url, Some("token")).expect("a proof");
        assert_ne!(decoded(other.split('.').nth(1).expect("claims"))["jti"], claims["jti"]);
    }

    #[test]
    fn a_nonce_is_sent_to_the_server_that_asked_for_it_alone() {
        let key = ProofKey::generate().expect("a key");
        let (a, b): (Url, Url) =
            ("https://a.example/x".parse().expect("a"), "https://b.example/x".parse().expect("b"));
        let nonce = |url: &Url| {
            let proof = key.prove("GET", url, None).expect("a proof");
            decoded(proof.split('.').nth(1).expect("claims"))["nonce"].clone()
        };
        let mut headers = HeaderMap::new();
        assert!(!key.learn(&a, &headers));
        headers.insert(NONCE, HeaderValue::from_static("n1"));
        assert!(key.learn(&a, &headers));
        assert!(!key.learn(&a, &headers));
        assert_eq!((nonce(&a), nonce(&b)), (json!("n1"), Value::Null));
        headers.insert(NONCE, HeaderValue::from_static("n2"));
        assert!(key.learn(&a, &headers));
        assert_eq!(nonce(&a), json!("n2"));
    }
}
