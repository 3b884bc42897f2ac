//! Secrets in command lines and addresses: which words they are, and how they are shown.

use crate::config::mask::is_secret_name;
use crate::secret::{MASK, Secret};

/// The secrets of a command line: the word after `--token`, the value in `--token=value`, the
/// password of an address.
pub(crate) fn secret_arguments(args: &[String]) -> Vec<Secret> {
    let mut out = Vec::new();
    let mut after = false;
    for arg in args {
        let (name, value) = arg.split_once('=').unwrap_or(("", arg));
        if std::mem::replace(&mut after, false) && !arg.starts_with('-') {
            out.push(Secret::new(arg.as_str()));
        } else if value.contains("://") {
            out.extend(url::Url::parse(value).iter().flat_map(secret_of_address));
        } else if is_secret_name(name) {
            out.push(Secret::new(value));
        } else {
            after = arg.starts_with('-') && is_secret_name(arg);
        }
    }
    out
}

/// The secrets of an address: its password, and parameters that are called like a secret.
pub(crate) fn secret_of_address(url: &url::Url) -> Vec<Secret> {
    let parameters = url.query_pairs().filter(|(name, _)| is_secret_name(name));
    let values = parameters.map(|(_, value)| value.into_owned());
    url.password().map(str::to_owned).into_iter().chain(values).map(Secret::new).collect()
}

/// Arguments with what looks secret replaced: the value after `--token`, or in `--token=value`.
pub fn masked_arguments(args: Vec<String>) -> Vec<String> {
    let mut after = false;
    args.into_iter()
        .map(|arg| {
            if std::mem::replace(&mut after, false) && !arg.starts_with('-') && !is_reference(&arg)
            {
                return MASK.to_owned();
            }
            if arg.contains("://") && !arg.starts_with('-') {
                return masked_address(&arg);
            }
            match arg.split_once('=') {
                Some((name, value)) if is_secret_name(name) && !is_reference(value) => {
                    format!("{name}={MASK}")
                }
                Some((name, value)) if value.contains("://") => {
                    format!("{name}={}", masked_address(value))
                }
                _ => {
                    after = arg.starts_with('-') && !arg.contains('=') && is_secret_name(&arg);
                    masked_address(&arg)
                }
            }
        })
        .collect()
}

fn is_reference(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}') && !text.contains(":-")
}

/// An address without the user and password in it, and without secret parameters.
pub fn masked_address(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else { return text.to_owned() };
    let secret = |name: &str| is_secret_name(name);
    let hidden = url.query_pairs().any(|(name, _)| secret(&name));
    if url.password().is_none() && url.username().is_empty() && !hidden {
        return text.to_owned();
    }
    if url.password().is_some() {
        let _ = url.set_password(Some(MASK));
    }
    if !url.username().is_empty() {
        let _ = url.set_username(MASK);
    }
    if hidden {
        let pairs: Vec<(String, String)> = url
            .query_pairs()
            .map(|(name, value)| {
                let value = if secret(&name) { MASK.to_owned() } else { value.into_owned() };
                (name.into_owned(), value)
            })
            .collect();
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }
    url.to_string()
}
