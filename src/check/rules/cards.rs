//! What the card of a server (SEP-2127) says of it, beside what it says itself.

use std::collections::BTreeSet;

use serde_json::Value;
use url::Url;

use crate::CheckFinding;
use crate::rule::finding;
use crate::subject::{CheckSubject, CheckedCard, brief};

/// Checks the card of one server that became ready, where it has one.
pub(super) fn check(subject: &CheckSubject) -> Vec<CheckFinding> {
    let Some(card) = subject.card.as_ref().filter(|_| subject.was_ready()) else {
        return Vec::new();
    };
    if let Some(problem) = &card.problem {
        return vec![finding("card/unusable", "", brief(problem, 200))];
    }
    let mut found = Vec::new();
    let mut differs = |place: &str, message: String| {
        found.push(finding("card/differs", place, message));
    };
    let info = subject.server_info.as_deref().unwrap_or(&Value::Null);
    if let Some((card, server)) = name(&card.document, info) {
        differs("name", format!("its card names it {card}, the server {server}"));
    }
    let (said, own) = (text(&card.document, "version"), text(info, "version"));
    if let (Some(said), Some(own)) = (said, own)
        && said != own
    {
        let (said, own) = (brief(said, 60), brief(own, 60));
        differs("version", format!("its card is of version {said}, the server of {own}"));
    }
    match remote(card) {
        Err(others) => differs("remotes", format!("its card names other addresses: {others}")),
        Ok(Some(remote)) => {
            let listed = texts(&remote["supportedProtocolVersions"]);
            if let Some(spoken) = subject.protocol_version.as_deref()
                && !listed.is_empty()
                && !listed.contains(spoken)
            {
                let listed = brief(&Vec::from_iter(listed).join(", "), 120);
                let message = format!("its card lists the versions {listed}; it speaks {spoken}");
                differs("remotes", message);
            }
        }
        Ok(None) => {}
    }
    if let Some(message) = capabilities(&card.document, subject.capabilities.as_deref()) {
        differs("capabilities", message);
    }
    found
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str().filter(|text| !text.is_empty())
}

fn texts(value: &Value) -> BTreeSet<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The names of a card and of its server, when they have nothing in common. A card has the name of a
/// registry (`com.example/files`), of which servers say the last part, or the title.
fn name(card: &Value, info: &Value) -> Option<(String, String)> {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let whole = text(card, "name")?;
    let last = whole.rsplit('/').next().unwrap_or_default();
    let said: Vec<String> =
        [Some(whole), Some(last), text(card, "title")].into_iter().flatten().map(plain).collect();
    let own: Vec<&str> = [text(info, "name"), text(info, "title")].into_iter().flatten().collect();
    let is_same = own.iter().any(|own| said.contains(&plain(own)));
    let first = own.first().filter(|_| !is_same)?;
    Some((brief(whole, 80), brief(first, 80)))
}

/// What the card says of the address that was checked; `None` where it names no address, or only
/// patterns.
///
/// # Errors
/// The other addresses that it names.
fn remote(card: &CheckedCard) -> Result<Option<&Value>, String> {
    let bare = |text: &str| {
        let mut url = Url::parse(text).ok()?;
        url.set_query(None);
        url.set_fragment(None);
        Some(url.as_str().trim_end_matches('/').to_owned())
    };
    let own = bare(&card.address);
    let remotes: Vec<&Value> = card.document["remotes"].as_array().into_iter().flatten().collect();
    let addresses = || remotes.iter().filter_map(|remote| Some((*remote, text(remote, "url")?)));
    if let Some((remote, _)) = addresses().find(|(_, url)| bare(url) == own) {
        return Ok(Some(remote));
    }
    let others: Vec<&str> = addresses().map(|(_, url)| url).collect();
    if others.is_empty() || others.iter().any(|url| url.contains('{')) {
        return Ok(None);
    }
    Err(brief(&others.join(", "), 160))
}

/// What the card promises and the server has not, or the other way round.
fn capabilities(card: &Value, own: Option<&Value>) -> Option<String> {
    let names = |value: &Value| -> BTreeSet<String> {
        let all = value.as_object().into_iter().flatten();
        let declared = all.filter(|(_, value)| !value.is_null() && **value != false);
        declared.map(|(name, _)| name.clone()).collect()
    };
    let said = names(card.get("capabilities").filter(|said| said.is_object())?);
    let own = names(own.unwrap_or(&Value::Null));
    let listed = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
        let names: Vec<&str> = one.difference(other).map(String::as_str).collect();
        (!names.is_empty()).then(|| brief(&names.join(", "), 100))
    };
    // What is for clients to find out needs no promise.
    let lists: BTreeSet<String> = ["tools", "prompts", "resources"].map(String::from).into();
    let lists: BTreeSet<String> = own.intersection(&lists).cloned().collect();
    let missing =
        listed(&said, &own).map(|names| format!("its card promises {names}: it has none"));
    let hidden = listed(&lists, &said).map(|names| format!("its card does not mention {names}"));
    let both: Vec<String> = missing.into_iter().chain(hidden).collect();
    (!both.is_empty()).then(|| both.join("; "))
}
