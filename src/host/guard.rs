//! The argument guard: detects strings that look like an attack on the server's
//! machine. Pure; the policy decides how to react.

use std::path::{Path, PathBuf};

use serde_json::Value;

use base::pointer::child_pointer;
use base::text::cut;
use config::error::Violation;
use config::{RootConfig, clean_path};

/// Maximum number of warnings per call.
const MAX_WARNINGS: usize = 50;
/// Length to which a string is inspected, in bytes: attacks are short, and documents are not shell
/// arguments.
const MAX_INSPECTED_BYTES: usize = 64 << 10;

/// Inspects every string in `arguments`. Each warning has the JSON pointer and one of the keywords
/// `shell`, `path` and `control`.
pub fn inspect(arguments: &Value, roots: &[RootConfig]) -> Vec<Violation> {
    let roots: Vec<PathBuf> = roots.iter().filter_map(|root| file_path(&root.uri)).collect();
    let mut warnings = Vec::new();
    walk(&ArgumentPlace::Root, arguments, &roots, &mut warnings);
    warnings
}

/// The location of a value; formatted as a pointer only for a warning, which is rare.
enum ArgumentPlace<'a> {
    Root,
    Key(&'a ArgumentPlace<'a>, &'a str),
    Index(&'a ArgumentPlace<'a>, usize),
}

impl ArgumentPlace<'_> {
    /// As a JSON pointer (RFC 6901).
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Key(parent, key) => child_pointer(&parent.pointer(), key),
            Self::Index(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }
}

fn walk(
    place: &ArgumentPlace<'_>,
    value: &Value,
    roots: &[PathBuf],
    warnings: &mut Vec<Violation>,
) {
    if warnings.len() >= MAX_WARNINGS {
        return;
    }
    match value {
        Value::String(text) => look_at(place, text, roots, warnings),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(&ArgumentPlace::Index(place, index), item, roots, warnings);
            }
        }
        Value::Object(object) => {
            for (key, item) in object {
                walk(&ArgumentPlace::Key(place, key), item, roots, warnings);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn look_at(
    place: &ArgumentPlace<'_>,
    text: &str,
    roots: &[PathBuf],
    warnings: &mut Vec<Violation>,
) {
    let text = cut(text, MAX_INSPECTED_BYTES);
    let mut warn = |keyword: &str, message: String| {
        let pointer = place.pointer();
        warnings.push(Violation { pointer, message, keyword: keyword.to_owned() });
    };
    if let Some(sign) = shell(text) {
        warn("shell", format!("holds a shell substitution: `{sign}`"));
    }
    if let Some(message) = path(text, roots) {
        warn("path", message);
    }
    let control = |c: &char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if let Some(found) = text.chars().find(control) {
        warn("control", format!("holds the control character U+{:04X}", found as u32));
    }
}

/// Command substitution, or a command chained after a separator.
fn shell(text: &str) -> Option<&'static str> {
    // Fast path: every pattern below contains one of these.
    if !text.contains(['$', '(', '`', ';', '&', '|']) {
        return None;
    }
    if text.contains("$(") {
        return Some("$(");
    }
    if text.contains("<(") || text.contains(">(") {
        return Some("<(");
    }
    // Prose quotes code in backticks too; a substitution starts with a command.
    let mut parts = text.split('`').skip(1).step_by(2);
    let whole = text.trim();
    let alone = whole.starts_with('`') && whole.ends_with('`') && whole.matches('`').count() == 2;
    if text.matches('`').count() >= 2
        && !text.contains('\n')
        && parts.any(|part| looks_like_command(part, alone))
    {
        return Some("`");
    }
    ["; ", ";", "&& ", "&&", "|| ", "| "]
        .into_iter()
        .find(|separator| text.split(separator).skip(1).any(|part| looks_like_command(part, true)))
}

/// Programs common in attacks, flagged regardless of what follows.
const PROGRAMS: &str = "rm curl wget sh bash zsh nc ncat python python3 perl cat chmod chown sudo eval \
     exec powershell mkfifo ls reboot shutdown poweroff halt whoami uname ssh scp dd \
     mkfs nohup xargs ruby php systemctl crontab killall printenv";
/// Programs whose names are also common in prose or code: flagged only with an argument.
const AMBIGUOUS: &str = "id node env find kill touch echo sleep ping mv cp tar tee awk sed ps";

/// Whether text begins with a program common in attacks; with `alone`, a program without arguments
/// matches too.
fn looks_like_command(text: &str, alone: bool) -> bool {
    let word = text.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next();
    let first = word.unwrap_or_default();
    let rest = text.trim_start().get(first.len()..).unwrap_or_default();
    let is_in = |programs: &str| programs.split(' ').any(|program| program == first);
    let nothing = alone && rest.trim().is_empty();
    let argument = rest.starts_with([' ', '\t'])
        && rest.trim_start().starts_with(['-', '/', '.', '$', '~', '"', '\''])
        || rest.starts_with('$');
    is_in(PROGRAMS) && (nothing || rest.starts_with([' ', '\t', '$', '/']))
        || is_in(AMBIGUOUS) && (nothing || argument)
}

/// Path traversal: outside the server's roots, or any `..` when it has none.
fn path(text: &str, roots: &[PathBuf]) -> Option<String> {
    if text.len() > 4_096 || text.contains('\n') {
        return None;
    }
    // Fast path: cannot be absolute or contain `..` in any encoding.
    if !text.contains(['/', '\\', '.', '%', ':']) {
        return None;
    }
    let decoded = text.replace("%2e", ".").replace("%2E", ".").replace("%2f", "/");
    let decoded = decoded.replace("%2F", "/").replace('\\', "/");
    let climbs = decoded.split('/').any(|part| part == "..") && decoded.contains('/');
    let climbs = climbs || decoded == "..";
    let plain = file_path(&decoded).unwrap_or_else(|| PathBuf::from(&decoded));
    // On Windows a rooted path without a drive counts as absolute (on the current drive).
    let rooted = plain.has_root();
    let absolute = rooted && !decoded.contains(' ') && plain.components().count() > 2;
    if roots.is_empty() {
        return climbs.then(|| "leaves its directory with `..`".to_owned());
    }
    let inside = |path: &Path| roots.iter().any(|root| normal(path).starts_with(normal(root)));
    if absolute && !inside(&plain) {
        return Some("is a path outside the server's roots".to_owned());
    }
    let outside = || roots.iter().all(|root| !inside(&root.join(&plain)));
    (climbs && !rooted && outside()).then(|| "leaves the server's roots".to_owned())
}

/// The path without `.` and `..`, computed lexically, without file system access. Lowercased on
/// Windows, where paths are case-insensitive.
fn normal(path: &Path) -> PathBuf {
    let small = cfg!(windows).then(|| PathBuf::from(path.to_string_lossy().to_lowercase()));
    clean_path(small.as_deref().unwrap_or(path))
}

fn file_path(uri: &str) -> Option<PathBuf> {
    if !uri.starts_with("file:") {
        return None;
    }
    url::Url::parse(uri).ok()?.to_file_path().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keywords(text: &str, roots: &[&str]) -> Vec<String> {
        let root = |uri: &&str| RootConfig { uri: (*uri).into(), name: None };
        let roots: Vec<_> = roots.iter().map(root).collect();
        inspect(&json!({"a": [text]}), &roots)
            .into_iter()
            .map(|warning| {
                assert_eq!(warning.pointer, "/a/0");
                warning.keyword
            })
            .collect()
    }

    #[test]
    fn substitutions_and_chained_commands_are_flagged_and_prose_is_not() {
        for attack in
            ["$(id)", "x`curl evil`", "a; rm -rf /", "a && curl http://x", "q | sh -c x", "<(ls)"]
                .into_iter()
                .chain(["`id`", "x; ls -la", "x || id", "x; reboot now", "x; node -e 1", "a;ls"])
        {
            assert_eq!(keywords(attack, &[]), ["shell"], "{attack}");
        }
        for harmless in [
            "Tom & Jerry; the cat sat",
            "use `name` and `cat`",
            "a | b",
            "costs $5 (or more)",
            "SELECT a FROM b; SELECT 1",
            "if (a && b) { c || d }",
            "first; find the node, then id it",
            "see `id` and `env` there",
        ] {
            assert_eq!(keywords(harmless, &[]), [""; 0], "{harmless}");
        }
    }

    #[test]
    fn climbing_is_flagged_in_every_spelling() {
        for attack in ["../../etc/passwd", "a/%2e%2e/%2E./b", "..\\..\\x", "..", "file:///a/../b"] {
            assert_eq!(keywords(attack, &[]), ["path"], "{attack}");
        }
        assert_eq!(keywords("wait... what", &[]), [""; 0]);
        assert_eq!(keywords("/etc/passwd", &[]), [""; 0]);
    }

    #[test]
    fn with_roots_a_path_must_stay_inside_one_of_them() {
        let drive = if cfg!(windows) { "C:" } else { "" };
        let root = format!("file://{}{drive}/home/ada/shop", if cfg!(windows) { "/" } else { "" });
        let keywords = |path: &str| keywords(path, &[&root]);
        assert_eq!(keywords("/etc/passwd"), ["path"]);
        assert_eq!(keywords(&format!("{drive}/home/ada/shop/../secret")), ["path"]);
        assert_eq!(keywords(&format!("{drive}/home/ada/shopping/list")), ["path"]);
        assert_eq!(keywords("../x"), ["path"]);
        assert_eq!(keywords(&format!("{drive}/home/ada/shop/src/main.rs")), [""; 0]);
        assert_eq!(keywords("src/../Cargo.toml"), [""; 0]);
        if cfg!(windows) {
            assert_eq!(keywords("c:\\HOME\\ada\\shop\\a.rs"), [""; 0]);
            assert_eq!(keywords("D:\\home\\ada\\shop\\a.rs"), ["path"]);
        }
    }

    #[test]
    fn control_characters_are_flagged_but_not_line_breaks() {
        assert_eq!(keywords("a\u{1b}[2J", &[]), ["control"]);
        assert_eq!(keywords("two\r\nlines\tand a tab", &[]), [""; 0]);
    }

    #[test]
    fn the_work_and_the_warnings_are_bounded() {
        let many = Value::Array(vec![json!("$(id)"); 10_000]);
        assert_eq!(inspect(&many, &[]).len(), MAX_WARNINGS);
        assert_eq!(keywords(&"ü".repeat(1 << 20), &[]), [""; 0]);
    }
}
