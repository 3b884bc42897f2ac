//! One server's entry: from a checked tree to a [`ServerConfig`].
//!
//! The structural check has reported every wrong type already; here what does not fit is passed
//! over, and what only the content can tell (addresses, names, globs, references) is reported.

use super::mask::{secret_arguments, secret_of_address};
use crate::base::Secret;
use crate::config::{Diagnostic, ServerConfig, TransportConfig};

mod address;
mod reader;
mod settings;
mod transport;

pub(crate) use reader::{Entry, Reader};
pub(crate) use transport::{ENTRY_LABEL, HOST_LABEL, ID_FILE};

/// Reads one entry. `None` when it cannot be used; why has been reported, or an input is missing.
pub(crate) fn read(entry: &Entry<'_>, reader: &mut Reader<'_, '_>) -> Option<ServerConfig> {
    let before = reader.problems.list.len();
    let unanswered = reader.unanswered.len();
    let transport: Option<TransportConfig> = transport::read(entry, reader);
    let is_reachable = transport.is_some();
    // The settings are read without a transport too, so that their problems are reported.
    let mut server = settings::read(entry, reader, transport);
    server.hidden = std::mem::take(&mut reader.secrets);
    server.hidden.extend(hidden_parts(&server.transport));
    server.at = reader.problems.source.position(entry.node.range.start);
    reader.trace(&entry.effective, entry.node, Vec::new());
    let failed = reader.problems.list.iter().skip(before).any(Diagnostic::is_error);
    let waits = reader.unanswered.len() > unanswered;
    (is_reachable && !failed && !waits).then_some(server)
}

/// Secrets that stand in arguments and addresses as they are written.
fn hidden_parts(transport: &TransportConfig) -> Vec<Secret> {
    match transport {
        TransportConfig::Stdio(stdio) => secret_arguments(&stdio.args),
        other => other.http().map_or_else(Vec::new, |http| secret_of_address(&http.url)),
    }
}
