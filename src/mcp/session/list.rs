//! Fetching lists page by page, bounded: repeated cursors, and limits on pages, entries and bytes.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use serde_json::{Value, json};

use super::live::Core;
use super::mirrored::Mirrored;
use base::SafeText;
use base::text::cut;
use base::text::json::WrittenValue;
use config::error::{Error, ErrorCode};
use protocol::{
    Era, FetchedList, FindingKind, ListKind, PartialList, PendingRequest, RejectedEntry, RpcCode,
    RpcRequest,
};

/// Limit on all pages of a list together, as a multiple of the message limit.
const MAX_LIST_MESSAGES: usize = 4;
/// Longest part of a repeated cursor that is shown.
const MAX_SHOWN_CURSOR_BYTES: usize = 64;

/// A list that is being fetched.
struct Fetch<'a> {
    core: &'a Core,
    kind: ListKind,
    list: FetchedList,
    /// Bytes of the pages so far.
    bytes: u64,
    /// Header annotations of its tools; replaces the previous ones at the end.
    mirrored: Mirrored,
}

/// Fetches all pages of a list, within the limits.
///
/// # Errors
/// When the first page fails; a failure of a later one yields a partial list.
pub(super) async fn fetch(core: &Core, kind: ListKind) -> Result<FetchedList, Error> {
    let (list, mirrored) = (FetchedList::default(), Mirrored::default());
    let mut fetch = Fetch { core, kind, list, bytes: 0, mirrored };
    if let Some(reason) = fetch.pages().await? {
        let message = format!("`{}` is not complete: {reason}", kind.method());
        fetch.report(FindingKind::PartialList, &message, "");
        fetch.list.partial = Some(reason);
    }
    if kind == ListKind::Tools {
        *core.mirrored.lock() = fetch.mirrored;
    }
    Ok(fetch.list)
}

impl Fetch<'_> {
    /// Fetches page after page; returns why the list is incomplete, if it is.
    async fn pages(&mut self) -> Result<Option<PartialList>, Error> {
        let (kind, limits) = (self.kind, &self.core.tap.context.limits);
        let mut cursor: Option<String> = None;
        // Only hashes: a cursor may be as long as a message.
        let (mut seen, hasher) = (HashSet::new(), RandomState::new());
        for page in 1.. {
            let (next, whole) = match self.page(cursor.take()).await {
                Ok(page) => page,
                // A server that declares `resources` need not have templates.
                Err(error)
                    if kind == ListKind::ResourceTemplates
                        && error
                            .rpc
                            .as_ref()
                            .is_some_and(|rpc| rpc.code == Some(RpcCode::METHOD_NOT_FOUND)) =>
                {
                    let message = format!("the server does not know `{}`", kind.method());
                    self.report(FindingKind::PartialList, &message, "");
                    break;
                }
                Err(error) if page == 1 => return Err(error),
                Err(error) => {
                    let message = SafeText::line(&error.message);
                    return Ok(Some(PartialList::PageFailed { page, message }));
                }
            };
            if !whole {
                return Ok(Some(PartialList::Entries(limits.list_entries)));
            }
            // An empty cursor is a cursor: only its absence ends a list.
            let Some(next) = next else { break };
            if !seen.insert(hasher.hash_one(&next)) {
                let cursor = SafeText::line(cut(&next, MAX_SHOWN_CURSOR_BYTES));
                return Ok(Some(PartialList::CursorAgain { cursor, page }));
            }
            let most = (MAX_LIST_MESSAGES * limits.line_bytes) as u64;
            if self.bytes > most {
                return Ok(Some(PartialList::Bytes(most)));
            }
            if page == limits.list_pages {
                return Ok(Some(PartialList::Pages(page)));
            }
            cursor = Some(next);
        }
        Ok(None)
    }

    /// Fetches one page; returns the next cursor, and whether all its entries were taken.
    async fn page(&mut self, cursor: Option<String>) -> Result<(Option<String>, bool), Error> {
        let (core, kind) = (self.core, self.kind);
        let context = &core.tap.context;
        let params = cursor.map(|cursor| json!({"cursor": cursor}));
        let rpc = RpcRequest::new(kind.method(), None, params);
        // The caller has its own deadline for the whole list.
        let own = PendingRequest::internal(context.clock, context.limits.max_call);
        let mut result = core.round_trip(rpc, &own).await?.into_written();
        self.bytes += own.bytes.totals().0;
        let next = match result.value.get_mut("nextCursor").map(Value::take) {
            Some(Value::String(next)) => Some(next),
            Some(Value::Null) | None => None,
            Some(other) => Some(other.to_string()),
        };
        let entries = match result.value.get_mut(kind.key()).map(Value::take) {
            Some(Value::Array(entries)) => entries,
            other => {
                let what = if other.is_some() { "is not an array" } else { "is missing" };
                let message = format!("the answer to `{}`: `{}` {what}", kind.method(), kind.key());
                self.report(FindingKind::WrongShape, &message, "");
                return Err(Error::new(ErrorCode::Protocol, message)
                    .server(&core.tap.context.server)
                    .request(kind.method()));
            }
        };
        for (place, entry) in entries.into_iter().enumerate() {
            let index = self.list.entries.len() + self.list.rejected.len();
            if index == context.limits.list_entries {
                return Ok((next, false));
            }
            let flaw = if entry.is_object() {
                self.unsendable(&entry)
            } else {
                Some("it is not an object".to_owned())
            };
            if let Some(flaw) = flaw {
                self.reject(index, entry, &flaw);
            } else {
                let numbers = result.numbers.below(&format!("/{}/{place}", kind.key()));
                self.list.entries.push(Arc::new(WrittenValue { value: entry, numbers }));
            }
        }
        Ok((next, true))
    }

    /// Why calls of a tool could not be sent: over HTTP in the modern era, its annotated parameters
    /// are sent as headers.
    fn unsendable(&mut self, entry: &Value) -> Option<String> {
        let mirrors = self.core.era() == Era::Modern && self.core.transport.is_http();
        if self.kind != ListKind::Tools || !mirrors {
            return None;
        }
        self.mirrored.learn(entry).err()
    }

    fn reject(&mut self, index: usize, entry: Value, why: &str) {
        let list = self.kind;
        let message = format!("entry {index} of `{}`: {why}", list.method());
        self.report(FindingKind::BadEntry, &message, &entry.to_string());
        let (reason, raw) = (SafeText::line(&message), Arc::new(entry));
        self.list.rejected.push(RejectedEntry { list, index, reason, raw });
    }

    fn report(&self, kind: FindingKind, message: &str, raw: &str) {
        self.core.tap.report(kind, message, raw, Some(self.kind.method()));
    }
}
