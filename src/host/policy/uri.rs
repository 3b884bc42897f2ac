//! One spelling per resource: what a pattern is matched against. `..`, `%2e`, capitals of scheme
//! and host, and the other spellings of a file's address are decided alike. Pure; looks at no disk.

/// Percent signs are decoded this many times: a server may decode what another has decoded before.
const ROUNDS: usize = 4;

/// `uri` in its one spelling. What is no URI is taken as a path of no scheme.
pub fn normalised(uri: &str) -> String {
    let uri = uri.trim();
    let (scheme, rest) = match uri.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => (String::new(), uri),
    };
    let is_file = scheme == "file";
    let slashes = if is_file { rest.replace('\\', "/") } else { rest.to_owned() };
    let (authority, rest) = match slashes.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            (Some(rest[..end].to_ascii_lowercase()), rest[end..].to_owned())
        }
        None => (None, slashes),
    };
    // What follows a question mark is the server's own language; a file has none.
    let cut = if is_file { None } else { rest.find(['?', '#']) };
    let (path, query) = rest.split_at(cut.unwrap_or(rest.len()));
    let mut path = decoded(path);
    if is_file {
        path = path.replace('\\', "/");
        let cut = path.find('\0').unwrap_or(path.len());
        path.truncate(cut);
    }
    let has_path = path.starts_with('/') || authority.is_some() || is_file;
    let mut path = if has_path { without_dots(&path, is_file) } else { path };
    if is_file && (cfg!(windows) || cfg!(target_os = "macos")) {
        path = path.to_lowercase();
    }
    let authority = authority.map(|authority| match (scheme.as_str(), authority.as_str()) {
        ("file", "localhost" | "127.0.0.1") => String::new(),
        ("http" | "ws", _) => authority.trim_end_matches(":80").to_owned(),
        ("https" | "wss", _) => authority.trim_end_matches(":443").to_owned(),
        _ => authority,
    });
    let mut out = scheme;
    if !out.is_empty() {
        out.push(':');
    }
    if let Some(authority) = authority.or(is_file.then(String::new)) {
        out.push_str("//");
        out.push_str(&authority);
    }
    out.push_str(&path);
    out.push_str(query);
    out
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn decoded(text: &str) -> String {
    let mut out = text.to_owned();
    for _ in 0..ROUNDS {
        if !out.contains('%') {
            break;
        }
        let bytes = out.as_bytes();
        let mut next = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
            if let (b'%', Some(high), Some(low)) = (byte, digit(at + 1), digit(at + 2)) {
                next.push((high * 16 + low) as u8);
                at += 3;
            } else {
                next.push(*byte);
                at += 1;
            }
        }
        let next = String::from_utf8_lossy(&next).into_owned();
        if next == out {
            break;
        }
        out = next;
    }
    out
}

/// The path from its root, without `.`, `..` and, for a file, doubled slashes.
fn without_dots(path: &str, is_file: bool) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let all: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let last = all.len().saturating_sub(1);
    for (index, part) in all.into_iter().enumerate() {
        match part {
            "." => {}
            ".." => _ = parts.pop(),
            "" if is_file && index < last => {}
            part => parts.push(part),
        }
    }
    let mut out = String::from("/");
    out.push_str(&parts.join("/"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_resource_is_one() {
        for spelling in [
            "file:///etc/passwd",
            "FILE:///etc/passwd",
            "file:/etc/passwd",
            "file://localhost/etc/passwd",
            "file://LOCALHOST/etc/passwd",
            "file:////etc//passwd",
            "file:///etc/./passwd",
            "file:///home/../etc/passwd",
            "file:///home/%2e%2e/etc/passwd",
            "file:///home/%2E./etc/passwd",
            "file:///home/%252e%252e/etc/passwd",
            "file:///home%2f..%2fetc/passwd",
            "file:///home\\..\\etc\\passwd",
            "file:///%65tc/passwd",
            "file:///../../etc/passwd",
            " file:///etc/passwd\n",
            "file:///etc/passwd%00.txt",
        ] {
            assert_eq!(normalised(spelling), "file:///etc/passwd", "{spelling}");
        }
        for spelling in ["HTTP://Host:80/a/b", "http://host/x/../a/b", "http://host/%61/b"] {
            assert_eq!(normalised(spelling), "http://host/a/b", "{spelling}");
        }
        assert_eq!(normalised("db://Tables/a?q=../b"), "db://tables/a?q=../b");
        assert_eq!(normalised("mailto:a@b"), "mailto:a@b");
    }

    #[test]
    fn a_normal_spelling_stays() {
        for uri in ["file:///", "file:///a/", "http://host/", "memo://insights", "x:y", ""] {
            assert_eq!(normalised(&normalised(uri)), normalised(uri), "{uri}");
        }
    }
}
