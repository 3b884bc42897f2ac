//! What a server asks for when it refuses a request (`WWW-Authenticate`, RFC 9110, section 11.6.1).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use regex::Regex;

/// The error code of a proof without the nonce (RFC 9449, sections 8 and 9).
pub(super) const NONCE_WANTED: &str = "use_dpop_nonce";

/// The challenges of a response, joined: the one that names the metadata need not be the first.
pub(super) fn challenge_of(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(WWW_AUTHENTICATE).iter();
    let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    if lines.is_empty() { None } else { Some(lines.join(", ")) }
}

/// One parameter of a challenge.
pub(super) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let pattern = format!(r#"(?i)(?:^|[ ,]){name} *= *(?:"([^"]*)|([^ ,]*))"#);
    let found = Regex::new(&pattern).ok()?.captures(challenge)?;
    Some(found.get(1).or(found.get(2))?.as_str().to_owned())
}

/// Whether a challenge wants a token that is bound to a key, and takes no other.
pub(super) fn demands_proof(challenge: &str) -> bool {
    let has = |scheme: &str| {
        let quoted = Regex::new(r#""(?:[^"\\]|\\.)*""#);
        let bare = quoted.map(|quoted| quoted.replace_all(challenge, "").into_owned());
        let pattern = format!(r"(?i)(?:^|,)\s*{scheme}(?:\s|,|$)");
        let found = Regex::new(&pattern).map(|find| bare.is_ok_and(|bare| find.is_match(&bare)));
        found.unwrap_or(false)
    };
    has("DPoP") && !has("Bearer")
}

/// Whether a challenge refuses a proof only because it lacks a nonce.
pub(super) fn wants_nonce(challenge: &str) -> bool {
    parameter(challenge, "error").as_deref() == Some(NONCE_WANTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_by_its_whole_name() {
        let challenge = r#"Bearer error="insufficient_scope", error_description="scope=x", scope="a b", resource_metadata=https://a/b"#;
        assert_eq!(parameter(challenge, "error").as_deref(), Some("insufficient_scope"));
        assert_eq!(parameter(challenge, "scope").as_deref(), Some("a b"));
        assert_eq!(parameter(challenge, "resource_metadata").as_deref(), Some("https://a/b"));
        assert_eq!(parameter(challenge, "realm"), None);
        assert_eq!(parameter("bearer SCOPE=", "scope").as_deref(), Some(""));
        assert_eq!(parameter(r#"Bearer scope = "a""#, "scope").as_deref(), Some("a"));
    }

    #[test]
    fn the_challenges_of_several_schemes_are_one() {
        let mut headers = HeaderMap::new();
        assert_eq!(challenge_of(&headers), None);
        for line in ["Negotiate", r#"Bearer scope="a""#] {
            headers.append(WWW_AUTHENTICATE, line.parse().expect("a header"));
        }
        assert_eq!(challenge_of(&headers).as_deref(), Some(r#"Negotiate, Bearer scope="a""#));
    }

    #[test]
    fn a_bound_token_is_demanded_where_no_other_is_taken() {
        for (challenge, demanded) in [
            ("DPoP", true),
            (r#"DPoP algs="ES256", resource_metadata="https://a.example""#, true),
            (r#"dpop error="use_dpop_nonce""#, true),
            (r#"Bearer, DPoP algs="ES256""#, false),
            (r#"DPoP algs="ES256", Bearer realm="x""#, false),
            (r#"Bearer realm="a, DPoP b""#, false),
            ("", false),
        ] {
            assert_eq!(demands_proof(challenge), demanded, "{challenge}");
        }
    }
}
