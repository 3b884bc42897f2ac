//! Lists, page by page, with an end: a cursor that repeats, a page limit, an entry limit.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::FetchedList;
use super::live::Core;
use super::message::RpcRequest;
use crate::base::SafeText;
use crate::base::text::cut;
use crate::error::{Error, ErrorCode};
use crate::mcp::capabilities::{ListKind, RejectedEntry};
use crate::mcp::pending::PendingRequest;
use crate::mcp::{Era, FindingKind};

/// A list that is being fetched.
struct Fetch<'a> {
    core: &'a Core,
    kind: ListKind,
    list: FetchedList,
}

/// Fetches all pages of a list, within the limits.
///
/// # Errors
/// When the first page fails; a failure of a later one gives a partial list.
pub(super) async fn fetch(core: &Core, kind: ListKind) -> Result<FetchedList, Error> {
    let mut fetch = Fetch { core, kind, list: FetchedList::default() };
    if let Some(reason) = fetch.pages().await? {
        let message = format!("`{}` is not complete: {reason}", kind.method());
        fetch.report(FindingKind::PartialList, &message, "");
        fetch.list.partial = Some(SafeText::line(&reason));
    }
    Ok(fetch.list)
}

impl Fetch<'_> {
    /// Fetches page after page; gives why the list is not complete, when it is not.
    async fn pages(&mut self) -> Result<Option<String>, Error> {
        let (kind, limits) = (self.kind, &self.core.tap.context.limits);
        let mut cursor: Option<String> = None;
        let mut seen = HashSet::new();
        for page in 1.. {
            let (next, whole) = match self.page(cursor.take()).await {
                Ok(page) => page,
                // Whoever declares `resources` need not have templates.
                Err(error)
                    if kind == ListKind::ResourceTemplates
                        && error.rpc.as_ref().is_some_and(|rpc| rpc.code == Some(-32601)) =>
                {
                    let message = format!("the server does not know `{}`", kind.method());
                    self.report(FindingKind::PartialList, &message, "");
                    break;
                }
                Err(error) if page == 1 => return Err(error),
                Err(error) => return Ok(Some(format!("page {page} failed: {}", error.message))),
            };
            if !whole {
                let most = limits.list_entries;
                return Ok(Some(format!("more than {most} entries, the rest was not read")));
            }
            // An empty cursor is a cursor: only its absence ends a list.
            let Some(next) = next else { break };
            if !seen.insert(next.clone()) {
                return Ok(Some(format!(
                    "the cursor `{}` came again on page {page}: the list would never end",
                    SafeText::line(cut(&next, 64))
                )));
            }
            if page == limits.list_pages {
                return Ok(Some(format!("more than {page} pages, the rest was not read")));
            }
            cursor = Some(next);
        }
        Ok(None)
    }

    /// Fetches one page; gives the next cursor, and whether all its entries were taken.
    async fn page(&mut self, cursor: Option<String>) -> Result<(Option<String>, bool), Error> {
        let (core, kind) = (self.core, self.kind);
        let limits = &core.tap.context.limits;
        let params = cursor.map(|cursor| json!({"cursor": cursor}));
        let rpc = RpcRequest::new(kind.method(), None, params);
        // The caller has patience of its own with the whole.
        let own = PendingRequest::own(limits.max_call);
        let mut result = core.round_trip(rpc, &own).await?.into_value();
        let next = match result.get_mut("nextCursor").map(Value::take) {
            Some(Value::String(next)) => Some(next),
            Some(Value::Null) | None => None,
            Some(other) => Some(other.to_string()),
        };
        let entries = match result.get_mut(kind.key()).map(Value::take) {
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
        for entry in entries {
            let index = self.list.entries.len() + self.list.rejected.len();
            if index == limits.list_entries {
                return Ok((next, false));
            }
            let flaw = if entry.is_object() {
                self.unsendable(&entry)
            } else {
                Some("it is not an object".to_owned())
            };
            match flaw {
                Some(flaw) => self.reject(index, entry, &flaw),
                None => self.list.entries.push(Arc::new(entry)),
            }
        }
        Ok((next, true))
    }

    /// Why calls of a tool could not be sent: over HTTP of the modern era its annotated parameters
    /// travel as headers.
    fn unsendable(&self, entry: &Value) -> Option<String> {
        let mirrors = self.core.era() == Era::Modern && self.core.transport.is_http();
        if self.kind != ListKind::Tools || !mirrors {
            return None;
        }
        self.core.mirrored.lock().learn(entry).err()
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
