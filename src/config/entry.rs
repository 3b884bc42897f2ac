//! One server's entry: from a checked tree to a [`ServerConfig`].
//!
//! The structural check has already reported wrong types, which are skipped here; this module
//! reports what only the content shows (addresses, names, globs, references).

use super::mask::{secret_arguments, secret_of_address, secrets_within};
use crate::keys::{ADDRESS, OPENAPI_KEY, PROCESS, SERVER};
use crate::shape::KnownKey;
use crate::{Diagnostic, OpenApiSource, ServerConfig, TransportConfig};
use base::Secret;

mod address;
mod reader;
mod settings;
mod transport;

pub(crate) use reader::{EntryReader, ServerEntry};
pub use transport::{ENTRY_LABEL, HOST_LABEL, ID_FILE};

/// Settings read separately: their shape alone is not enough to convert them.
const APART: [&str; 5] = ["type", "transport", "id", "env", "headers"];

/// Reads one entry. `None` when it cannot be used: the reason is reported, or an input is missing.
pub(crate) fn read(reader: &mut EntryReader<'_, '_>) -> Option<ServerConfig> {
    let entry = reader.entry;
    let before = reader.problems.list.len();
    let unanswered = reader.unanswered.len();
    let kind = transport::kind(reader);
    // The settings are read without a transport too, so that their problems are reported.
    let of_transport = [ADDRESS.as_slice(), &PROCESS, &[OPENAPI_KEY]].concat();
    let is_used = |key: &&KnownKey| {
        kind.map_or_else(
            || !of_transport.contains(&key.name),
            |kind| !transport::is_unused(kind, key.name),
        )
    };
    let keys = SERVER.keys.iter().filter(|key| !APART.contains(&key.name)).filter(is_used);
    reader.set = reader.settled_keys(keys, entry.node, &entry.place());
    let transport = kind.and_then(|kind| transport::read(reader, kind));
    let is_reachable = transport.is_some();
    let mut server = settings::read(reader);
    server.transport = transport.unwrap_or(server.transport);
    server.hidden = std::mem::take(&mut reader.secrets);
    let hidden = hidden_parts(&server);
    server.hidden.extend(hidden);
    server.at = reader.problems.source.position(entry.node.range.start);
    reader.trace(&entry.place().effective, entry.node, Vec::new());
    let failed = reader.problems.list.iter().skip(before).any(Diagnostic::is_error);
    let waits = reader.unanswered.len() > unanswered;
    (is_reachable && !failed && !waits).then_some(server)
}

/// Secrets written directly in arguments and addresses, and within values of the environment and of
/// headers.
fn hidden_parts(server: &ServerConfig) -> Vec<Secret> {
    let values = match &server.transport {
        TransportConfig::Stdio(stdio) => Some(&stdio.env),
        other => other.http().map(|http| &http.headers),
    };
    let is_public = |name: &str| server.public.iter().any(|n| n.eq_ignore_ascii_case(name));
    let values = values.into_iter().flatten().filter(|(name, _)| !is_public(name));
    let mut hidden: Vec<Secret> =
        values.flat_map(|(_, value)| secrets_within(value.expose())).collect();
    hidden.extend(written_parts(&server.transport));
    hidden
}

/// Secrets written directly in arguments and addresses.
fn written_parts(transport: &TransportConfig) -> Vec<Secret> {
    match transport {
        TransportConfig::Stdio(stdio) => secret_arguments(&stdio.args),
        other => {
            let mut hidden =
                other.http().map_or_else(Vec::new, |http| secret_of_address(&http.url));
            if let TransportConfig::OpenApi(api) = other
                && let OpenApiSource::Address(url) = &api.document
            {
                hidden.extend(secret_of_address(url));
            }
            hidden
        }
    }
}
