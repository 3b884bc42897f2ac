//! What an error must not show: stack traces and credentials.

use std::cell::LazyCell;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// What an error must not show: the words for it, and how it is known.
static LEAKS: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    let all = [
        ("a stack trace", r"Traceback \(most recent call last\)"),
        ("a stack trace", r#"(?m)^\s*File "[^"\n]+", line \d+"#),
        ("a stack trace", r"(?m)^\s*at \S.*[(/\\ ][^()\n]*:\d+(?::\d+)?\)?$"),
        ("a stack trace", r"(?m)^goroutine \d+ \["),
        ("a stack trace", r"thread '[^']*' (?:\(\d+\) )?panicked at"),
        ("a stack trace", r"\.(?:java|kt|scala):\d+\)"),
        ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
        (
            "a credential",
            r"\b(?:sk-[A-Za-z0-9_-]{16,}|[spr]k_(?:live|test)_[A-Za-z0-9]{10,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|A[KS]IA[0-9A-Z]{16}|xox[abeprs]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*)",
        ),
        (
            "a credential",
            r#"(?i)\bauthorization\b["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+[^\s"',;]{6,}"#,
        ),
        ("a credential", r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}"),
        ("a credential", r#"(?i)\btoken=["']?[^\s"',;&]{6,}"#),
        ("a credential", r"(?i)\b[a-z]+://[^\s/:@]+:[^\s/@]+@"),
        (
            "a credential",
            r#"(?i)\b(?:[a-z]+[_-])*(?:password|passwd|pwd|secret|api[_-]?key|(?:access|auth|refresh|session|bearer)[_-]?token|secret[_-]?(?:access[_-]?)?key|private[_-]?key)\b["']?\s*[=:]\s*["']?[^\s"',;]{6,}"#,
        ),
    ];
    all.into_iter().filter_map(|(what, pattern)| Some((what, Regex::new(pattern).ok()?))).collect()
});

/// What an error shows that it must not, unless the arguments held it.
pub(super) fn leak(text: &str, arguments: &Value) -> Option<&'static str> {
    // Written only where something is found at all.
    let given = LazyCell::new(|| arguments.to_string());
    let found = LEAKS.iter().find(|(_, pattern)| {
        let mut found = pattern.find_iter(text).map(|found| found.as_str());
        found.any(|found| !is_prose(found) && !given.contains(found))
    });
    found.map(|(what, _)| *what)
}

/// Whether it is the name of an argument and words of what is said about it: `password: expected`,
/// `authorization: bearer required`.
fn is_prose(found: &str) -> bool {
    let is_word = |word: &str| {
        let word = word.trim_matches(['"', '\'', ' ']);
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '-')
    };
    if let Some((_, said)) = found.split_once(':') {
        return said.split_whitespace().all(is_word);
    }
    let mut words = found.split_whitespace();
    let scheme = words.next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("bearer") && words.all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn traces_and_credentials_are_leaks_unless_they_were_given() {
        let none = json!({});
        assert_eq!(
            leak("Traceback (most recent call last):\n  File \"s.py\", line 3", &none),
            Some("a stack trace")
        );
        assert_eq!(
            leak("TypeError: x\n    at run (/srv/app.js:10:5)", &none),
            Some("a stack trace")
        );
        assert_eq!(leak("thread 'main' panicked at src/main.rs:1:1", &none), Some("a stack trace"));
        assert_eq!(leak("cannot reach postgres://app:hunter22@db/x", &none), Some("a credential"));
        assert_eq!(leak("password=correct-horse", &none), Some("a credential"));
        assert_eq!(leak("login.password: hunter22", &none), Some("a credential"));
        assert_eq!(leak("settings.password: expected a text, found an object", &none), None);
        assert_eq!(leak("api_key: \"required\"", &none), None);
        for text in [
            "cannot sign in: Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "{\"authorization\": \"Basic YXBwOmh1bnRlcjI=\"}",
            "sent the header bearer 0123456789abcdef0123",
            "charge failed with sk_live_0123456789abcdef",
            "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENG",
            "DB_PASSWORD=hunter22 is wrong",
            "clone failed: glpat-0123456789abcdefghij",
            "refresh_token: 1//0abcdef",
            "GET /x?token=0123abcd failed",
        ] {
            assert_eq!(leak(text, &none), Some("a credential"), "{text}");
        }
        for text in [
            "authorization: missing",
            "authorization: bearer required",
            "the scheme bearer authentication-required",
            "unexpected token: foo_bar",
            "unexpected token: expected",
            "the bearer of this message",
            "token: a string is expected",
            "Invalid token < in JSON at position 0",
        ] {
            assert_eq!(leak(text, &none), None, "{text}");
        }
        assert_eq!(leak("no note `at 12:30`", &none), None);
        assert_eq!(leak("no such file at the path /tmp/a", &none), None);
        assert_eq!(
            leak("url `http://a:bcdefg@h/` is wrong", &json!({"u": "http://a:bcdefg@h/"})),
            None
        );
    }
}
