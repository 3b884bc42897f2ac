//! What counts as a secret (decision D14): values whose name says so, and values that look like a
//! credential. Plain words, numbers, paths, regions and addresses without a user do not.

/// Words that make the last part of a name a secret's: `API_KEY`, `githubToken`.
const WORDS: [&str; 16] = [
    "token",
    "key",
    "apikey",
    "secret",
    "password",
    "passwd",
    "pass",
    "passphrase",
    "auth",
    "authorization",
    "credential",
    "credentials",
    "cookie",
    "bearer",
    "pat",
    "dsn",
];

/// Those of them that make it one wherever they stand: `PASSWORD_FILE_CONTENT`.
const STRONG: [&str; 5] = ["secret", "password", "passwd", "passphrase", "authorization"];

/// How tokens of well-known services begin.
const PREFIXES: [&str; 40] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxe.",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "pypi-",
    "hf_",
    "SG.",
    "dop_v1_",
    "shpat_",
    "sq0",
    "AGE-SECRET-KEY",
    "lin_api_",
    "ntn_",
    "tvly-",
    "gsk_",
    "r8_",
    "figd_",
    "pat-",
    "key-",
    "whsec_",
    "dckr_pat_",
    "Bearer ",
];

/// Shortest token behind such a beginning, and shortest value that is judged by its look, in bytes.
const SHORTEST: (usize, usize) = (12, 20);

/// Whether the value of a variable or header must not be shown.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    looks_secret(value) || (named_secret(name, value) && !is_place(value))
}

/// Whether a value looks like a credential, whatever it is called.
pub(crate) fn looks_secret(value: &str) -> bool {
    let value = value.trim();
    if value.contains("-----BEGIN") || super::spots::has_user(value) {
        return true;
    }
    let known = PREFIXES.iter().any(|prefix| value.starts_with(prefix));
    (known && value.len() >= SHORTEST.0 && !is_place(value)) || is_random(value)
}

fn named_secret(name: &str, value: &str) -> bool {
    let words = words(name);
    let is = |word: &String, list: &[&str]| {
        list.contains(&word.as_str()) || list.iter().any(|w| w.len() > 5 && word.contains(w))
    };
    let last = words.iter().rev().find(|word| !word.chars().all(|c| c.is_ascii_digit()));
    if last.is_some_and(|word| is(word, &WORDS)) || words.iter().any(|word| is(word, &STRONG)) {
        return true;
    }
    // `TOKEN_LIMIT=4096` and `AUTH_MODE=none` are settings; `TOKEN_PROD=a1b2c3` is none.
    words.iter().any(|word| is(word, &WORDS)) && !is_plain(value)
}

/// The words of a name, in lower case: at separators and where capitals begin.
fn words(name: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let begins = before.is_ascii_lowercase() && c.is_ascii_uppercase();
        if !c.is_ascii_alphanumeric() || begins {
            out.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(word) = out.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    out.retain(|word| !word.is_empty());
    out
}

/// A word or a number.
fn is_plain(value: &str) -> bool {
    let part = |part: &str| {
        part.chars().all(char::is_alphabetic) || part.chars().all(|c| c.is_ascii_digit())
    };
    value.split(['-', '_', '.', ' ', ',', ':']).all(part)
}

/// A path, or an address without a user.
fn is_place(value: &str) -> bool {
    let drive = value.get(1..3).is_some_and(|rest| rest == ":\\" || rest == ":/");
    let path =
        value.starts_with(['/', '~', '.']) && value.contains('/') && value.matches('/').count() > 1;
    let file = (value.starts_with("./") || value.starts_with("~/") || value.starts_with('/'))
        && value.contains('.');
    drive || path || file || (value.contains("://") && !super::spots::has_user(value))
}

/// Letters and digits without order: long, of one word, and changing between the two often.
fn is_random(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+/=_-.~".contains(c);
    if value.len() < SHORTEST.1 || !value.chars().all(plain) || is_place(value) {
        return false;
    }
    let chars: Vec<char> = value.chars().collect();
    let pairs = chars.windows(2).filter(|pair| pair.iter().all(char::is_ascii_alphanumeric));
    let changes = pairs.filter(|p| p[0].is_ascii_digit() != p[1].is_ascii_digit()).count();
    changes >= 4 && entropy(&chars) >= 3.0
}

/// Shannon's entropy, in bits a character.
fn entropy(chars: &[char]) -> f64 {
    let mut counts = std::collections::BTreeMap::new();
    for c in chars {
        *counts.entry(c).or_insert(0.0) += 1.0;
    }
    let all = chars.len() as f64;
    counts.values().map(|count: &f64| -(count / all) * (count / all).log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_looks_make_a_secret_and_settings_are_none() {
        for (name, value) in [
            ("API_KEY", "sesame"),
            ("GITHUB_TOKEN", "open-sesame"),
            ("githubToken", "open-sesame"),
            ("DB_PASSWORD", "swordfish"),
            ("DB_PASSWORD_2", "swordfish"),
            ("PGPASSWORD", "swordfish"),
            ("TOKEN_PROD", "a1b2c3"),
            ("Authorization", "Bearer abc"),
            ("X-Api-Key", "sesame"),
            ("DATABASE_URL", "postgres://me:secret@db/x"),
            ("OPAQUE", "ghp_16C7e42F292c6912E7"),
            ("OPAQUE", "q7Zk29fLw0Xn4Rt8Bv6Yp3"),
            ("OPAQUE", "9f86d081884c7d659a2feaa0c55ad015"),
            ("OPAQUE", "-----BEGIN KEY-----\nabc\n-----END KEY-----"),
        ] {
            assert!(is_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("AWS_REGION", "us-east-1"),
            ("NODE_ENV", "production"),
            ("ALLOWED_DIR", "/home/me/projects/alpha2"),
            ("PORT", "8080123"),
            ("TOKEN_LIMIT", "100000"),
            ("AUTH_MODE", "interactive"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/keys/service.json"),
            ("API_URL", "https://api.example.com/v1"),
            ("MODEL", "claude-3-5-sonnet-20241022"),
            ("TARGET", "x86_64-unknown-linux-gnu"),
            ("EDIT", "12345678"),
            ("Accept-Language", "en-GB,en;q=0.9"),
        ] {
            assert!(!is_secret(name, value), "{name}={value}");
        }
    }
}
