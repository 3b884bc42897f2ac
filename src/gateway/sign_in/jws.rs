//! Signed tokens: JSON Web Signatures (RFC 7515) over the claims of a JSON Web Token (RFC 7519),
//! checked with the public keys of an issuer (RFC 7517). Pure. A key is used for the algorithms of
//! its own kind alone, and none of these is symmetric.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use host::{SignInConfig, SignatureAlgorithm};

/// Longest token that is looked at, in bytes.
pub const MAX_TOKEN_BYTES: usize = 16 << 10;

/// A public key of an issuer.
#[derive(Debug)]
pub struct IssuerKey {
    id: Option<String>,
    algorithm: Option<SignatureAlgorithm>,
    kind: KeyKind,
}

#[derive(Debug)]
enum KeyKind {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl IssuerKey {
    /// Reads a key; `None` for one that signs no tokens: symmetric, private, for encryption, or of
    /// another kind.
    pub fn from_jwk(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk[name].as_str();
        // A private key that is published is nobody's.
        if text("use").is_some_and(|what| what != "sig") || !jwk["d"].is_null() {
            return None;
        }
        if let Some(uses) = jwk["key_ops"].as_array()
            && !uses.iter().any(|what| what == "verify")
        {
            return None;
        }
        let algorithm = match jwk.get("alg") {
            Some(algorithm) => Some(serde_json::from_value(algorithm.clone()).ok()?),
            None => None,
        };
        let bytes = |name: &str| decoded(text(name)?);
        let number = |name: &str| {
            let bytes = bytes(name)?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            Some(bytes[zeros..].to_vec())
        };
        let point = |size: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == size && y.len() == size).then(|| [&[4][..], &x, &y].concat())
        };
        let kind = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyKind::Rsa { n: number("n")?, e: number("e")? },
            ("EC", Some("P-256")) => KeyKind::P256(point(32)?),
            ("EC", Some("P-384")) => KeyKind::P384(point(48)?),
            ("OKP", Some("Ed25519")) => {
                KeyKind::Ed25519(bytes("x").filter(|bytes| bytes.len() == 32)?)
            }
            _ => return None,
        };
        Some(Self { id: text("kid").map(str::to_owned), algorithm, kind })
    }

    /// Whether a token that names `id`, or no key, may be signed by it.
    fn fits(&self, token: &SignedToken<'_>) -> bool {
        let is_named = match (&token.key, &self.id) {
            (Some(wanted), Some(own)) => wanted == own,
            (Some(_), None) => false,
            (None, _) => true,
        };
        is_named && self.algorithm.is_none_or(|own| own == token.algorithm)
    }

    fn has_signed(&self, token: &SignedToken<'_>) -> bool {
        use SignatureAlgorithm as Alg;
        let (message, sign) = (token.signed.as_bytes(), &token.signature[..]);
        let rsa = |n: &[u8], e: &[u8]| {
            let parameters = match token.algorithm {
                Alg::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                Alg::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                Alg::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                Alg::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                Alg::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                Alg::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                Alg::Es256 | Alg::Es384 | Alg::EdDsa => return false,
            };
            RsaPublicKeyComponents { n, e }.verify(parameters, message, sign).is_ok()
        };
        match (&self.kind, token.algorithm) {
            (KeyKind::Rsa { n, e }, _) => rsa(n, e),
            (KeyKind::P256(point), Alg::Es256) => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, sign).is_ok()
            }
            (KeyKind::P384(point), Alg::Es384) => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point);
                key.verify(message, sign).is_ok()
            }
            (KeyKind::Ed25519(bytes), Alg::EdDsa) => {
                let key = UnparsedPublicKey::new(&signature::ED25519, bytes);
                key.verify(message, sign).is_ok()
            }
            (KeyKind::P256(_) | KeyKind::P384(_) | KeyKind::Ed25519(_), _) => false,
        }
    }
}

/// A token whose signature is not checked yet.
#[derive(Debug)]
pub struct SignedToken<'t> {
    algorithm: SignatureAlgorithm,
    key: Option<String>,
    signed: &'t str,
    signature: Vec<u8>,
    claims: Value,
}

impl<'t> SignedToken<'t> {
    /// Reads a token; `None` when it is not of this form.
    ///
    /// # Errors
    /// What in its header is not accepted.
    pub fn parse(
        token: &'t str,
        accepted: &[SignatureAlgorithm],
    ) -> Option<Result<Self, &'static str>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Value = serde_json::from_slice(&decoded(header)?).ok()?;
        let name = header.as_object()?.get("alg")?;
        let algorithm = serde_json::from_value::<SignatureAlgorithm>(name.clone()).ok();
        let Some(algorithm) = algorithm.filter(|algorithm| accepted.contains(algorithm)) else {
            return Some(Err("the token is signed by an algorithm that is not accepted"));
        };
        // Extensions that have to be understood, and none is (RFC 7515, section 4.1.11).
        if header.get("crit").is_some() {
            return Some(Err("the header of the token has `crit`, which is not understood"));
        }
        if let Some(kind) = header.get("typ") {
            let kind = kind.as_str().unwrap_or_default().to_ascii_lowercase();
            let kind = kind.strip_prefix("application/").unwrap_or(&kind);
            if !matches!(kind, "jwt" | "at+jwt") {
                return Some(Err("the token is of another type (`typ`)"));
            }
        }
        let key = match header.get("kid") {
            Some(key) => Some(key.as_str()?.to_owned()),
            None => None,
        };
        let claims = serde_json::from_slice(&decoded(claims)?).ok()?;
        let signature = decoded(signature)?;
        Some(Ok(Self { algorithm, key, signed, signature, claims }))
    }

    /// Its claims, when one of these keys has signed it.
    pub fn claims_signed_by(&self, keys: &[IssuerKey]) -> Option<&Value> {
        let mut fitting = keys.iter().filter(|key| key.fits(self));
        fitting.any(|key| key.has_signed(self)).then_some(&self.claims)
    }

    /// Whether it names a key, and none of these.
    pub fn names_none_of(&self, keys: &[IssuerKey]) -> bool {
        self.key.is_some() && keys.iter().all(|key| key.id != self.key)
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Checks whose the claims are, whom they are for, and since when and until when they hold. Returns
/// their end, in seconds since 1970.
///
/// # Errors
/// What does not fit, as its caller may read it.
pub fn end_of_claims(claims: &Value, config: &SignInConfig, now: u64) -> Result<u64, &'static str> {
    if claims["iss"].as_str() != Some(&config.issuer) {
        return Err("the token is of another issuer");
    }
    let audience = &claims["aud"];
    let is_for_us = match audience {
        Value::Array(all) => all.iter().any(|one| one == &*config.audience),
        one => one == &*config.audience,
    };
    if !is_for_us {
        return Err("the token is for another audience");
    }
    let skew = config.clock_skew();
    let seconds = |name: &str| match &claims[name] {
        Value::Null => Ok(None),
        value => value
            .as_f64()
            .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
            .map(|seconds| Some(seconds as u64))
            .ok_or("a time of the token is no number"),
    };
    let end = seconds("exp")?.ok_or("the token never ends: it has no `exp`")?;
    if end.saturating_add(skew) <= now {
        return Err("the token has expired");
    }
    for name in ["nbf", "iat"] {
        if seconds(name)?.is_some_and(|begin| begin > now.saturating_add(skew)) {
            return Err("the token is not valid yet");
        }
    }
    Ok(end)
}

/// Why a token is not one that whoever holds it may use: it is bound to a key or a certificate whose
/// proof nobody checks here (RFC 7800; RFC 9449, section 6; RFC 8705, section 3), or meant for
/// something else than access.
pub fn restriction_of_claims(claims: &Value) -> Option<&'static str> {
    let is_any = |name: &str, words: &[&str]| {
        let text = claims[name].as_str().unwrap_or_default();
        words.iter().any(|word| text.eq_ignore_ascii_case(word))
    };
    let bound = &claims["cnf"];
    if !bound["jkt"].is_null() || is_any("token_type", &["dpop"]) {
        return Some(BOUND_TO_KEY);
    }
    if !bound["x5t#S256"].is_null() {
        return Some(
            "the token is bound to a certificate (cnf x5t#S256, mutual TLS), which is not seen \
             here: have the issuer give a bearer token",
        );
    }
    if !bound.is_null() {
        return Some(
            "the token is bound to a key (cnf), and no proof of it is checked here: have the \
             issuer give a bearer token",
        );
    }
    // What issuers say of ID tokens and refresh tokens, which may be for the same audience.
    let is_other = is_any("token_use", &["id", "refresh", "refresh_token", "id_token"])
        || is_any("typ", &["id", "refresh", "offline", "logout"])
        || is_any("token_type", &["refresh_token", "id_token", "n_a"]);
    is_other.then_some("the token is no access token")
}

/// What is said to who shows a token that is bound to a key.
pub const BOUND_TO_KEY: &str = "the token is bound to a key (cnf jkt, DPoP), and no proof of it is \
                                checked here: have the issuer give a bearer token";

#[cfg(test)]
mod tests {
    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    };
    use serde_json::json;

    fn encoded(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    struct Signer {
        pair: EcdsaKeyPair,
        jwk: Value,
    }

    impl Signer {
        fn new(id: &str) -> Self {
            let random = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
            let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).expect("a key");
            let point = pair.public_key().as_ref();
            let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
            let jwk = json!({"kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y});
            Self { pair, jwk }
        }

        fn key(&self) -> IssuerKey {
            IssuerKey::from_jwk(&self.jwk).expect("a key")
        }

        fn token(&self, header: &Value, claims: &Value) -> String {
            let (header, claims) = (header.to_string(), claims.to_string());
            let signed = format!("{}.{}", encoded(header), encoded(claims));
            let sign = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
            format!("{signed}.{}", encoded(sign))
        }
    }

    fn is_accepted(token: &str, keys: &[IssuerKey]) -> bool {
        let config = SignInConfig::default();
        let parsed = SignedToken::parse(token, config.algorithms());
        parsed.is_some_and(|it| it.is_ok_and(|it| it.claims_signed_by(keys).is_some()))
    }

    #[test]
    fn only_what_a_fitting_key_has_signed_is_accepted() {
        let (one, other) = (Signer::new("one"), Signer::new("other"));
        let keys = [one.key(), other.key()];
        let claims = json!({"sub": "alice"});
        let header = json!({"alg": "ES256", "kid": "one", "typ": "at+jwt"});
        let token = one.token(&header, &claims);
        assert!(is_accepted(&token, &keys));
        assert!(is_accepted(&one.token(&json!({"alg": "ES256"}), &claims), &keys), "no kid");
        let wrong = [
            ("another key", other.token(&header, &claims)),
            ("unknown key", one.token(&json!({"alg": "ES256", "kid": "x"}), &claims)),
            ("kid is no text", one.token(&json!({"alg": "ES256", "kid": 1}), &claims)),
            ("none", one.token(&json!({"alg": "none", "kid": "one"}), &claims)),
            ("None", one.token(&json!({"alg": "nOnE"}), &claims)),
            ("symmetric", one.token(&json!({"alg": "HS256", "kid": "one"}), &claims)),
            ("another kind", one.token(&json!({"alg": "RS256", "kid": "one"}), &claims)),
            ("another curve", one.token(&json!({"alg": "ES384", "kid": "one"}), &claims)),
            ("crit", one.token(&json!({"alg": "ES256", "crit": ["b64"], "b64": false}), &claims)),
            ("typ", one.token(&json!({"alg": "ES256", "typ": "logout+jwt"}), &claims)),
            ("cut", token[..token.len() - 2].to_owned()),
            ("no signature", format!("{}.", token.rsplit_once('.').expect("parts").0)),
            ("other claims", {
                let parts: Vec<&str> = token.split('.').collect();
                format!("{}.{}.{}", parts[0], encoded(r#"{"sub":"bob"}"#), parts[2])
            }),
            ("jwk in the header", {
                let jwk = &other.jwk;
                other.token(&json!({"alg": "ES256", "jwk": jwk, "kid": "one"}), &claims)
            }),
            ("five parts", format!("{token}.a.b")),
            ("nothing", String::new()),
        ];
        for (why, token) in wrong {
            assert!(!is_accepted(&token, &keys), "{why}");
        }
    }

    /// A public key must not serve as the secret of a symmetric signature.
    #[test]
    fn a_public_key_is_no_secret() {
        let signer = Signer::new("one");
        let header = encoded(json!({"alg": "HS256", "kid": "one"}).to_string());
        let signed = format!("{header}.{}", encoded(json!({"sub": "eve"}).to_string()));
        let secret = signer.pair.public_key().as_ref();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let sign = encoded(ring::hmac::sign(&key, signed.as_bytes()));
        assert!(!is_accepted(&format!("{signed}.{sign}"), &[signer.key()]));
    }

    #[test]
    fn keys_that_sign_no_tokens_are_left_out() {
        let signer = Signer::new("one");
        let with = |change: Value| {
            let mut jwk = signer.jwk.clone();
            jwk.as_object_mut()
                .expect("an object")
                .extend(change.as_object().cloned().expect("one"));
            jwk
        };
        for jwk in [
            json!({"kty": "oct", "k": "c2VjcmV0", "kid": "one"}),
            with(json!({"use": "enc"})),
            with(json!({"d": "AAAA"})),
            with(json!({"alg": "HS256"})),
            with(json!({"key_ops": ["sign"]})),
            with(json!({"x": "AAAA"})),
            with(json!({"crv": "secp256k1"})),
            json!("text"),
        ] {
            assert!(IssuerKey::from_jwk(&jwk).is_none(), "{jwk}");
        }
        assert!(IssuerKey::from_jwk(&with(json!({"use": "sig", "alg": "ES256"}))).is_some());
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).expect("a key");
        let x = encoded(pair.public_key());
        let key = IssuerKey::from_jwk(&json!({"kty": "OKP", "crv": "Ed25519", "x": x}));
        let signed = format!("{}.{}", encoded(r#"{"alg":"EdDSA"}"#), encoded("{}"));
        let token = format!("{signed}.{}", encoded(pair.sign(signed.as_bytes())));
        assert!(is_accepted(&token, &[key.expect("a key")]));
    }

    #[test]
    fn a_token_that_is_bound_to_something_or_for_something_else_gives_no_access() {
        for (claims, why) in [
            (json!({"cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}), "DPoP"),
            (json!({"cnf": {"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}}), "TLS"),
            (json!({"cnf": {"jwk": {"kty": "EC"}}}), "cnf"),
            (json!({"cnf": {}}), "cnf"),
            (json!({"cnf": "text"}), "cnf"),
            (json!({"token_type": "DPoP"}), "DPoP"),
            (json!({"token_type": "N_A"}), "no access token"),
            (json!({"token_use": "refresh_token"}), "no access token"),
            (json!({"typ": "ID"}), "no access token"),
            (json!({"typ": "Refresh"}), "no access token"),
        ] {
            let told = restriction_of_claims(&claims).unwrap_or_default();
            assert!(told.contains(why), "{claims}: {told}");
        }
        for claims in [
            json!({"sub": "alice"}),
            json!({"cnf": null, "token_type": "Bearer", "typ": "Bearer", "token_use": "access"}),
        ] {
            assert_eq!(restriction_of_claims(&claims), None, "{claims}");
        }
    }

    #[test]
    fn claims_hold_for_one_audience_and_a_time() {
        let config: SignInConfig = serde_json::from_value(json!({
            "issuer": "https://id.example", "audience": "https://deck.example/mcp",
        }))
        .expect("a setting");
        let right = json!({"iss": "https://id.example", "aud": ["x", "https://deck.example/mcp"],
                           "exp": 1_000, "nbf": 900, "iat": 900});
        assert_eq!(end_of_claims(&right, &config, 950), Ok(1_000));
        assert_eq!(end_of_claims(&right, &config, 1_059), Ok(1_000), "within the skew");
        assert_eq!(end_of_claims(&right, &config, 840), Ok(1_000));
        assert_eq!(end_of_claims(&right, &config, 1_060), Err("the token has expired"));
        assert_eq!(end_of_claims(&right, &config, 839), Err("the token is not valid yet"));
        for (change, why) in [
            (json!({"iss": "https://id.example/"}), "another issuer"),
            (json!({"iss": ["https://id.example"]}), "another issuer"),
            (json!({"aud": "https://deck.example/mcp/"}), "another audience"),
            (json!({"aud": null}), "another audience"),
            (json!({"aud": {"x": "https://deck.example/mcp"}}), "another audience"),
            (json!({"exp": null}), "never ends"),
            (json!({"exp": "1000"}), "no number"),
            (json!({"exp": -1}), "no number"),
            (json!({"nbf": 2_000}), "not valid yet"),
        ] {
            let mut claims = right.clone();
            let object = claims.as_object_mut().expect("an object");
            object.extend(change.as_object().expect("an object").clone());
            let told = end_of_claims(&claims, &config, 950).expect_err("refused");
            assert!(told.contains(why), "{claims}: {told}");
        }
    }
}
