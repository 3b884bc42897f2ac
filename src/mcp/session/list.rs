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

impl Core {
    /// Fetches all pages of a list, within the limits.
    ///
    /// # Errors
    /// When the first page fails; a failure of a later one gives a partial list.
    pub(super) async fn fetch(&self, kind: ListKind) -> Result<FetchedList, Error> {
        let limits = &self.tap.context.limits;
        let mut list = FetchedList::default();
        let mut cursor: Option<String> = None;
        let mut seen = HashSet::new();
        for page in 1.. {
            let (next, whole) = match self.page(kind, cursor.take(), &mut list).await {
                Ok(page) => page,
                // Whoever declares `resources` need not have templates.
                Err(error)
                    if kind == ListKind::ResourceTemplates
                        && error.rpc.as_ref().is_some_and(|rpc| rpc.code == Some(-32601)) =>
                {
                    let message = format!("the server does not know `{}`", kind.method());
                    self.tap.report(FindingKind::PartialList, &message, "", Some(kind.method()));
                    return Ok(list);
                }
                Err(error) if page == 1 => return Err(error),
                Err(error) => {
                    let reason = format!("page {page} failed: {}", error.message);
                    return Ok(self.partial(kind, list, &reason));
                }
            };
            if !whole {
                let reason =
                    format!("more than {} entries, the rest was not read", limits.list_entries);
                return Ok(self.partial(kind, list, &reason));
            }
            // An empty cursor is a cursor: only its absence ends a list.
            let Some(next) = next else { break };
            if !seen.insert(next.clone()) {
                let reason = format!(
                    "the cursor `{}` came again on page {page}: the list would never end",
                    SafeText::line(cut(&next, 64))
                );
                return Ok(self.partial(kind, list, &reason));
            }
            if page == limits.list_pages {
                let reason =
                    format!("more than {} pages, the rest was not read", limits.list_pages);
                return Ok(self.partial(kind, list, &reason));
            }
            cursor = Some(next);
        }
        Ok(list)
    }

    /// Fetches one page; gives the next cursor, and whether all its entries were taken.
    async fn page(
        &self,
        kind: ListKind,
        cursor: Option<String>,
        list: &mut FetchedList,
    ) -> Result<(Option<String>, bool), Error> {
        let params = cursor.map(|cursor| json!({"cursor": cursor}));
        let rpc = RpcRequest::new(kind.method(), None, params);
        // The caller has patience of its own with the whole.
        let own = PendingRequest::own(self.tap.context.limits.max_call);
        let mut result = self.round_trip(rpc, &own).await?.into_value();
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
                self.tap.report(FindingKind::WrongShape, &message, "", Some(kind.method()));
                return Err(Error::new(ErrorCode::Protocol, message)
                    .server(&self.tap.context.server)
                    .request(kind.method()));
            }
        };
        for entry in entries {
            let index = list.entries.len() + list.rejected.len();
            if index == self.tap.context.limits.list_entries {
                return Ok((next, false));
            }
            if !entry.is_object() {
                list.rejected.push(self.rejected(kind, index, entry, "it is not an object"));
            } else if let Some(flaw) = self.unsendable(kind, &entry) {
                list.rejected.push(self.rejected(kind, index, entry, &flaw));
            } else {
                list.entries.push(Arc::new(entry));
            }
        }
        Ok((next, true))
    }

    /// Why calls of a tool could not be sent: over HTTP of the modern era its annotated parameters
    /// travel as headers.
    fn unsendable(&self, kind: ListKind, entry: &Value) -> Option<String> {
        let mirrors = self.era() == Era::Modern && self.transport.is_http();
        if kind != ListKind::Tools || !mirrors {
            return None;
        }
        let problem = super::message::problem(entry);
        if problem.is_none() {
            self.mirrored.lock().learn(entry);
        }
        problem
    }

    fn rejected(&self, kind: ListKind, index: usize, entry: Value, why: &str) -> RejectedEntry {
        let message = format!("entry {index} of `{}`: {why}", kind.method());
        let raw = entry.to_string();
        self.tap.report(FindingKind::BadEntry, &message, &raw, Some(kind.method()));
        RejectedEntry { list: kind, index, reason: SafeText::line(&message), raw: Arc::new(entry) }
    }

    fn partial(&self, kind: ListKind, mut list: FetchedList, reason: &str) -> FetchedList {
        let message = format!("`{}` is not complete: {reason}", kind.method());
        self.tap.report(FindingKind::PartialList, &message, "", Some(kind.method()));
        list.partial = Some(SafeText::line(reason));
        list
    }
}
