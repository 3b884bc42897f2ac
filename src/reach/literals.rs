//! Secrets that stand literally among the words of a command or in an address: what is masked where
//! an entry is shown does not stay in the file either, if it is one beyond doubt: a setting that was
//! taken for a secret would be missing from its command.

use serde_json::Value;

use base::secret::MASK;
use config::{is_secret_name, is_wordy, masked_address, masked_arguments, names_credential};

/// A secret within a text, and what it is called by the words around it (`api-key` in
/// `--api-key=x`); nothing where they do not say.
pub(crate) struct LiteralSecret<'a> {
    pub(crate) label: Option<&'a str>,
    pub(crate) value: &'a str,
}

/// Replaces the literal secrets in the address of an entry and in its arguments from `first` on by
/// what `refer` makes of each. A text with references is left as it is.
pub(crate) fn replace_secrets(
    entry: &mut Value,
    first: usize,
    mut refer: impl FnMut(&LiteralSecret<'_>) -> String,
) {
    if let Some(Value::String(url)) = entry.get_mut("url") {
        let masked = masked_address(url);
        if let Some(replaced) = with_references(url, &masked, None, &mut refer) {
            *url = replaced;
        }
    }
    let Some(Value::Array(args)) = entry.get_mut("args") else { return };
    let words: Vec<String> =
        args.iter().map(|word| word.as_str().unwrap_or_default().to_owned()).collect();
    let masked_all = masked_arguments(&words);
    for (at, masked) in masked_all.iter().enumerate().skip(first) {
        // A word with a value of its own is no name of the next.
        let option = at.checked_sub(1).filter(|before| masked_all[*before] == words[*before]);
        let option = option.map(|before| words[before].as_str());
        let is_name = |option: &&str| option.starts_with('-') || option.ends_with(':');
        let option = option.filter(|option| is_name(option) && !option.contains('='));
        if let Some(replaced) = with_references(&words[at], masked, option, &mut refer) {
            args[at] = Value::String(replaced);
        }
    }
}

/// A text with references in place of what is masked in it; `None` when nothing is.
fn with_references(
    text: &str,
    masked: &str,
    option: Option<&str>,
    refer: &mut impl FnMut(&LiteralSecret<'_>) -> String,
) -> Option<String> {
    if text == masked || text.contains("${") || text.contains(MASK) {
        return None;
    }
    let mut kept = masked.split(MASK);
    let mut out = kept.next()?.to_owned();
    let mut rest = text.strip_prefix(&out)?;
    let mut kept = kept.peekable();
    while let Some(part) = kept.next() {
        let is_last = kept.peek().is_none();
        let end = if is_last { rest.len().checked_sub(part.len())? } else { rest.find(part)? };
        let (value, after) = (rest.get(..end)?, rest.get(end..)?.strip_prefix(part)?);
        let option = option.map(|option| option.trim_matches(['-', ':', ' ']));
        let label = name_before(&out).or(option);
        if is_credential(label, value, part) {
            out.push_str(&refer(&LiteralSecret { label, value }));
        } else {
            out.push_str(value);
        }
        out.push_str(part);
        rest = after;
    }
    Some(out).filter(|out| out != text)
}

/// Whether a value that is masked where it is shown is a secret, and no setting with such a name: it
/// is what the name says, no plain words and numbers, or stands with a user in front of a host.
fn is_credential(label: Option<&str>, value: &str, after: &str) -> bool {
    let is_login = after.starts_with('@') && value.contains(':');
    let is_named = label.is_some_and(names_credential);
    is_login || is_named || !is_wordy(value) && label.is_none_or(is_secret_name)
}

/// The name at the end of `--api-key=`, `?token=`, `X-Key: ` or `Authorization: Bearer `.
fn name_before(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let scheme = ["Bearer", "Basic"].iter().find_map(|scheme| text.strip_suffix(scheme));
    let name = scheme.unwrap_or(text).trim_end().strip_suffix(['=', ':'])?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let start = name.rfind(|c| !is_part(c)).map_or(0, |at| at + 1);
    Some(name[start..].trim_matches('-')).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn referred(mut entry: Value, first: usize) -> (Value, Vec<String>) {
        let mut found = Vec::new();
        replace_secrets(&mut entry, first, |secret| {
            found.push(secret.value.to_owned());
            format!("${{{}}}", secret.label.unwrap_or("?"))
        });
        (entry, found)
    }

    #[test]
    fn what_would_be_masked_is_replaced_and_all_else_stays() {
        for (words, expected, secrets) in [
            (vec!["--token", "s3cret"], vec!["--token", "${token}"], vec!["s3cret"]),
            (vec!["--api-key=s3"], vec!["--api-key=${api-key}"], vec!["s3"]),
            (
                vec!["-H", "Authorization: Bearer s3"],
                vec!["-H", "Authorization: Bearer ${Authorization}"],
                vec!["s3"],
            ),
            (vec!["https://u:p@h/x?token=s3&a=b"], vec![], vec!["u:p", "s3"]),
            (vec!["--port", "80"], vec!["--port", "80"], vec![]),
            (
                vec!["--api-key=sk-abcdef123456", "https://u:pw@h/x"],
                vec!["--api-key=${api-key}", "https://${?}@h/x"],
                vec!["sk-abcdef123456", "u:pw"],
            ),
            (vec!["--max-tokens", "5"], vec!["--max-tokens", "5"], vec![]),
            (vec!["--max_tokens=4096"], vec!["--max_tokens=4096"], vec![]),
            (vec!["--auth", "none"], vec!["--auth", "none"], vec![]),
            (vec!["--tokenizer", "cl100k_base"], vec!["--tokenizer", "cl100k_base"], vec![]),
            (vec!["--token-file", "/x/t.txt"], vec!["--token-file", "/x/t.txt"], vec![]),
            (vec!["--api-key-env", "API_KEY"], vec!["--api-key-env", "API_KEY"], vec![]),
            (vec!["git+ssh://git@h/a"], vec!["git+ssh://git@h/a"], vec![]),
            (vec!["-c", "print(\"key=1\")"], vec!["-c", "print(\"key=1\")"], vec![]),
            (vec!["--token", "${TOKEN}"], vec!["--token", "${TOKEN}"], vec![]),
        ] {
            let (entry, found) = referred(json!({"command": "x", "args": words}), 0);
            assert_eq!(found, secrets, "{entry}");
            if !expected.is_empty() {
                assert_eq!(entry["args"], json!(expected));
            }
            // As shown, nothing is left to be masked but references.
            let text = entry["args"].to_string();
            assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
        }
    }

    #[test]
    fn an_address_and_the_words_from_a_place_on() {
        let url = "https://u:pw@h.example/mcp?api_key=s3&x=1";
        let (entry, found) = referred(json!({"type": "http", "url": url}), 0);
        assert_eq!(entry["url"], "https://${?}@h.example/mcp?api_key=${api_key}&x=1");
        assert_eq!(found, ["u:pw", "s3"]);
        let args = json!({"command": "x", "args": ["--token", "theirs", "--token", "mine"]});
        let (entry, found) = referred(args, 2);
        assert_eq!(entry["args"], json!(["--token", "theirs", "--token", "${token}"]));
        assert_eq!(found, ["mine"]);
    }
}
