//! Configuration: `mcp.json` as plain data, with positions, diagnostics and expansion.
//!
//! A leaf module: no dependency on engine, terminal or network. Only `edit` writes files.

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod change;
mod diagnostics;
mod discover;
mod document;
mod edit;
mod entry;
mod env_file;
mod environment;
pub mod error;
mod expand;
mod file;
mod graph;
mod hazards;
mod import;
mod json_schema;
mod keys;
mod load;
mod mask;
mod names;
mod overview;
mod print;
mod schema;
mod secret_text;
mod servers;
mod shape;
mod source;
mod syntax;

pub use change::{ConfigChange, FOLLOWED_SETTINGS, changed_settings};
pub use diagnostics::severity_summary;
pub use diagnostics::{
    Diagnostic, Origins, Position, Severity, SnippetMark, ValueOrigin, render, render_all,
};
pub use discover::{FileScope, Pairs, candidates, discover, single_command, single_url};
pub use document::{
    EntryPlace, FileFormat, entry_at, masked_lines, put_entry, read_document, take_entry,
};
pub use edit::{
    DEPENDENCY_KEYS, ENTRY_NAME, Edit, EditError, EntryAmendment, ShownEntry, Undo, apply_edit,
    entry_schema, read_for_edit, restored_entry, shown_entry, write_private_with_backup,
    write_with_backup,
};
pub use edit::{put_element, put_member, without_mark};
pub use entry::{ENTRY_LABEL, HOST_LABEL, ID_FILE};
pub use environment::clean_path;
pub use environment::{Environment, Sources, input_variable};
pub use expand::expand_argument;
pub use graph::{cycle_in_words, dependency_cycles};
pub use hazards::dangers;
pub use hazards::{is_hidden, is_hook};
pub use import::{
    Conflict, ExportScope, ExportedEntry, ImportFile, ImportHost, Imported, client_entry,
    import_places, merge_import, preview_import, read_import, read_import_text, server_templates,
    unified_patch,
};
pub use json_schema::json_schema;
pub use load::{InputNeed, Loaded, load, load_text};
pub use mask::{
    TOKEN_PREFIXES, is_secret, is_secret_name, masked_address, masked_arguments, names_credential,
};
pub use names::look;
pub use overview::{EffectiveValue, ServerValues, SourceFile, effective_values, source_files};
pub use print::{PrintDetail, effective, effective_text, origin_in_words, server_entries};
pub use schema::*;
pub use secret_text::{is_wordy, secret_ranges};
pub use servers::{AsServerName, ServerMap};
pub use source::SourceText;
pub use syntax::{NodeKind, SyntaxMember, SyntaxNode, parse_loosely};
