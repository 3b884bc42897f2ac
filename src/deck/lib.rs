//! One running configuration: loads it, starts its servers, follows its files, and stores
//! approvals, answers, calls and drafts. Independent of any screen.

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod answers;
mod audit;
mod browser;
mod chats;
mod clients;
mod command;
mod definitions;
mod edits;
mod elicitation;
mod files;
mod handle;
mod history;
mod inputs;
mod keyring;
mod kinds;
#[cfg(unix)]
mod local;
mod lock;
mod news;
mod order;
mod otlp;
mod pages;
mod policy;
mod question;
mod recording;
mod saved;
mod situation;
mod stats;
mod task;
mod tokens;
mod trust;
mod watch;
mod written;

pub use answers::{AnswerReply, Answers, AskedKind, ScriptedAnswer, check_answer};
pub use audit::{AuditLog, AuditPlace, AuditReport, read_audit, verify_audit};
pub use browser::open_browser;
pub use chats::Stored;
pub use chats::{ChatStore, KeptChat};
pub use clients::{ClientView, Clients};
pub use command::{
    AddedServer, ConfigCommand, DeckEvent, FileChange, KeepInput, Masks, Notebook, Saving,
};
pub use definitions::KeptDefinitions;
pub use elicitation::{
    AskedForm, Asks, ElicitationReading, MAX_FORM_FIELDS, UrlReading, accepted_form,
    read_elicitation, read_url,
};
pub use files::{edit_file, load_json, parse_json};
pub use handle::{Alongside, Deck, DeckBuilder};
pub use history::{FormDraft, History, HistoryEntry, HistoryRecord};
pub use keyring::{Keyring, ProgramFailure, query_program, run_program};
pub use kinds::{FileKind, kind_of_file};
#[cfg(unix)]
pub use local::native::{NATIVE_MESSAGES, native_schema};
#[cfg(unix)]
pub use local::{Listening, Local, MAX_LOCAL_LINE_BYTES, local_sockets};
pub use lock::{Drift, DriftPlace, LOCK_FILE, Lock, LockedServer, canonical_json};
pub use news::{News, ResourceUpdates, UpdatedResource, follow_news};
pub use order::{
    CallRequest, CallTarget, ClientOrder, Operated, Order, PolicyOrder, ServerCommand,
};
pub use otlp::{OtlpQueue, OtlpSettings, OtlpSignal, attribute};
pub use pages::{BrowserSignIns, cookie_name, page_policy};
pub use policy::{
    GrantStore, NEW_PASSPHRASE, NamedTool, Offline, PASSPHRASE, POLICY_FILE, PolicyKeeper,
    PolicyView, ProfileOffer, QuotaFile, RightsContent, RightsFile, SecretStore, clear_policy,
    keyring_place, load_policy, policy_schema, secret_sources, system_keyring,
};
pub use question::{checked_reply, page_question, with_questions};
pub use recording::{
    ExportFormat, PlayedPart, Player, RecordedOperation, RecordedOperations, RecordedOutcome,
    Recorder, Recording, RecordingFailure, RecordingLine, RecordingLosses, RecordingPart, Scan,
    Scrubbed, Scrubber, export_recording, has_failed, recording_schema, says_error,
};
pub use saved::{SAVED_CALLS_FILE, SavedCall, SavedCalls, SavedTarget};
pub use situation::{FileText, InputState, InputView, Situation, ValuesInEffect};
pub use stats::host_stats;
pub use tokens::{TokenFiles, accounts};
pub use trust::{ApprovalChange, Awaiting, Passed, Review, TrustGate, TrustStore, TrustVerdict};
pub use watch::{ConfigWatch, LoadResult, WatchOptions};
pub use written::{WrittenText, schema_of};
