//! Secrets in command lines and addresses: which words they are, and how they are shown.

use crate::base::secret::{MASK, Secret};
use crate::config::mask::is_secret_name;
use crate::config::mask::spots::{is_option, is_reference, masked_spots, secret_spots};

/// The secrets of a command line: the word after `--token`, the value in `--token=value`, in a
/// header, the password of an address.
pub(crate) fn secret_arguments(args: &[String]) -> Vec<Secret> {
    let mut out = Vec::new();
    let mut after = false;
    for arg in args {
        if std::mem::replace(&mut after, is_option(arg)) && !arg.starts_with('-') {
            out.push(Secret::new(arg.as_str()));
        }
        let spots = secret_spots(arg).into_iter();
        out.extend(spots.filter_map(|spot| arg.get(spot)).map(Secret::new));
        let address = arg.split_once('=').map_or(arg.as_str(), |(_, value)| value);
        if address.contains("://") {
            out.extend(url::Url::parse(address).iter().flat_map(secret_of_address));
        }
    }
    out
}

/// The secrets of an address: its password, or the user where there is none, and parameters that
/// are called like a secret.
pub(crate) fn secret_of_address(url: &url::Url) -> Vec<Secret> {
    let parameters = url.query_pairs().filter(|(name, _)| is_secret_name(name));
    let values = parameters.map(|(_, value)| value.into_owned());
    let user = Some(url.username()).filter(|user| !user.is_empty());
    let word = url.password().or(user).map(str::to_owned);
    word.into_iter().chain(values).map(Secret::new).collect()
}

/// Arguments with what looks secret replaced: the value after `--token`, or in `--token=value`.
pub fn masked_arguments(args: Vec<String>) -> Vec<String> {
    let mut after = false;
    args.into_iter()
        .map(|arg| {
            let follows = std::mem::replace(&mut after, is_option(&arg));
            if follows && !arg.starts_with('-') && !is_reference(&arg) {
                return MASK.to_owned();
            }
            masked_address(&arg)
        })
        .collect()
}

/// An address, or a text with one in it, without the user and password, and without secret
/// parameters.
pub fn masked_address(text: &str) -> String {
    masked_spots(text)
}
