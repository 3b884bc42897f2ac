//! Environment variables and settings that the output of a server says are missing.

use std::sync::LazyLock;

use regex::Regex;

use base::SafeText;

/// Most names that are repeated in a help text.
const MAX_NAMES: usize = 4;
/// Longest name of a variable or a setting, in bytes.
const MAX_NAME_BYTES: usize = 60;

/// Words beside the name of a variable that is missing, in lower case.
const MISSES: &[&str] = &[
    "not set",
    "required",
    "missing",
    "must be set",
    "must set",
    "must provide",
    "is unset",
    "unset",
    "undefined",
    "not defined",
    "please set",
    "please provide",
    "please specify",
    "need to specify",
    "need to set",
    "not provided",
    "not found",
    "not configured",
    "not specified",
    "is empty",
    "cannot be empty",
    "invalid environment variable",
    "set the ",
    "set it ",
    "no api key",
    "no token",
];

/// A name that is called an environment variable, whatever it looks like.
static CALLED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let named =
        "(?:[Ee]nvironment|ENVIRONMENT|[Ee]nv)(?: |-|)(?:[Vv]ariables?|[Vv]ars?|VARIABLES?)";
    let name = r#"["'`‘“]?([A-Z][A-Z0-9_]{2,59})["'`’”]?"#;
    Regex::new(&format!(r"{named}:? {name}(?:[\s.,;:)]|$)|(?:^|\s){name} {named}")).ok()
});

/// The environment variables that a line says are missing: `KeyError: 'API_KEY'`, `API_KEY is not
/// set`. Of alternatives (`A or B`) the first one.
pub(super) fn missing_names(line: &str) -> Vec<&str> {
    let lower = line.to_ascii_lowercase();
    let misses = line.starts_with("KeyError: ") || MISSES.iter().any(|word| lower.contains(word));
    if !misses || lower.contains("argument") {
        return Vec::new();
    }
    let part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let mut names: Vec<&str> = Vec::new();
    for word in line.split(part).filter(|word| is_variable(word)) {
        if !names.contains(&word) && names.len() < MAX_NAMES {
            names.push(word);
        }
    }
    if names.is_empty()
        && let Some(called) = CALLED.as_ref().and_then(|called| called.captures(line))
    {
        names.extend(called.iter().skip(1).flatten().map(|name| name.as_str()).next());
    }
    if lower.contains(" or ") {
        names.truncate(1);
    }
    names
}

/// Uppercase with an underscore, as `GITHUB_TOKEN`; without codes of errors and versions of
/// libraries.
pub(super) fn is_variable(word: &str) -> bool {
    (5..MAX_NAME_BYTES).contains(&word.len())
        && word.contains('_')
        && !["ERR_", "GLIBC", "CXXABI_", "NODE_MODULE_", "SSL_ERROR", "CERT_"]
            .iter()
            .any(|start| word.starts_with(start))
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// How `zod` says that there is no value.
const NOTHING: &[&str] =
    &["\"Required\"", "'Required'", "received undefined", "\"undefined\"", "'undefined'"];

/// What follows the bracket of a path in the line where it begins.
fn path_start(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("\"path\": [").or_else(|| line.strip_prefix("path: ["))?;
    Some(rest.trim_matches([',', ']', ' ', '"', '\'']))
}

/// The settings that a validation reports as missing, over several lines: those of `pydantic` (the
/// name, then `Field required`), and of `zod` printed as JSON (a `path` beside `Required`).
pub(super) fn missing_settings(lines: &[SafeText]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        let is_name = !name.is_empty()
            && name.len() < MAX_NAME_BYTES
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        if is_name && names.len() < MAX_NAMES && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    };
    for pair in lines.windows(2) {
        if pair[1].trim_start().starts_with("Field required [type=missing") {
            add(pair[0].trim());
        }
    }
    // One issue is printed between braces; its path and its message come in either order.
    let (mut path, mut is_missing, mut in_path) = (None, false, false);
    for line in lines.iter().map(|line| line.trim()) {
        let text = line.trim_end_matches(',').trim_matches(['"', '\'']);
        if line.starts_with('{') {
            (path, is_missing) = (None, false);
        } else if let Some(inline) = path_start(line) {
            in_path = inline.is_empty();
            path = (!in_path).then(|| inline.to_owned());
        } else if line.starts_with(']') {
            in_path = false;
        } else if in_path {
            path = Some(text.to_owned());
        } else if NOTHING.iter().any(|word| line.contains(word)) {
            is_missing = true;
        } else if line.starts_with('}')
            && is_missing
            && let Some(path) = path.take()
        {
            add(&path);
        }
    }
    names
}
