//! The world around a configuration: the files of other MCP clients, which reach the servers
//! through the deck or are kept equal to its file; bundles; what a registry publishes. Knows files and
//! formats, no screen.

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod available;
mod bundle;
mod connections;
mod found;
mod launched;
mod literals;
mod registry;
mod server_card;
mod server_json;
mod settle;
mod source;

pub use available::{AvailableServer, GivenValues};
pub use bundle::Bundle;
pub use connections::{
    ClientChange, ConnectionKind, ConnectionRecord, Connections, DECK_ENTRY, MAX_CLIENT_FILE_BYTES,
    ReachError, WrittenEntry, is_installed, read_client, servers_of_files, starts_deck,
};
pub use found::{FoundServer, FoundServers};
pub use launched::LaunchedPackage;
pub use registry::{Registry, SearchResult};
pub use server_card::ServerCard;
pub use server_json::{
    PublishedBundle, PublishedServer, ServerInput, ServerWay, package_way, short_server_name,
};
pub use settle::{SettledEntry, keep_apart, names_of_others, references, settle};
pub use source::{
    DirectServer, FoundSource, MAX_PUBLISHED_BYTES, ServerOrigin, command_words, direct,
    edits_to_add, find, find_by_words, newest, registry, review_of, way, with_card,
};
