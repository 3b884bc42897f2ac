//! The rows of the inbox: requests oldest first, grouped by server when wanted, a storm collapsed
//! into one row; what else waits, and drafts of withdrawn requests, behind them. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::base::ServerName;
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::host::approvals::PendingRequest;
use crate::mcp::{ApprovalId, RequestKind};
use crate::tui::ink::{Ink, ink};
use crate::tui::model::{Model, Todo, kind_word};

/// So many requests of one kind from one server are a storm: shown as one row.
pub const STORM: usize = 6;

/// What stands together in one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Who asks.
    pub server: ServerName,
    /// For what; everything when `None`.
    pub kind: Option<RequestKind>,
}

/// A row.
#[derive(Clone, Debug)]
pub enum Row {
    /// A request that waits.
    Request(Arc<PendingRequest>),
    /// Several of them.
    Group {
        /// Which.
        group: Group,
        /// Their ids, oldest first.
        ids: Vec<ApprovalId>,
        /// When the oldest arrived.
        oldest: Timestamp,
        /// When the first of them ends.
        deadline: Timestamp,
        /// Whether their own rows are hidden.
        folded: bool,
    },
    /// Something else that waits.
    Other(Todo),
    /// The draft of one that was withdrawn, and why.
    Kept(Arc<PendingRequest>, SafeText),
}

/// A row is the same while it is about the same: selection follows it.
impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Request(a), Self::Request(b)) | (Self::Kept(a, _), Self::Kept(b, _)) => {
                a.id == b.id
            }
            (Self::Group { group: a, .. }, Self::Group { group: b, .. }) => a == b,
            (Self::Other(a), Self::Other(b)) => a == b,
            _ => false,
        }
    }
}

impl Row {
    /// Whose it is; `None` when it is the configuration's.
    pub fn server(&self, model: &Model) -> Option<ServerName> {
        match self {
            Self::Request(request) | Self::Kept(request, _) => Some(request.server.clone()),
            Self::Group { group, .. } => Some(group.server.clone()),
            Self::Other(todo) => todo.server(model),
        }
    }

    /// What it wants in a word or two, and what the other side says of it.
    pub fn words(&self, model: &Model) -> (Ink, Ink) {
        match self {
            Self::Request(request) => Todo::Request(request.id).words(model),
            Self::Other(todo) => todo.words(model),
            Self::Kept(_, reason) => (ink!("draft kept"), ink!("withdrawn: {}", reason)),
            Self::Group { group, ids, .. } => {
                let what = group.kind.as_ref().map_or_else(|| ink!("all"), kind_word);
                let refused = model.server(&group.server).map_or(0, |s| s.refused_requests);
                let note = match refused {
                    0 => ink!("oldest of {}", ids.len()),
                    refused => ink!("{} more refused", refused),
                };
                (ink!("{} {}", ids.len(), what), note)
            }
        }
    }
}

/// How rows are put together.
#[derive(Clone, Debug, Default)]
pub struct Grouping {
    /// By server; otherwise oldest first, storms collapsed.
    pub by_server: bool,
    /// Groups that a person folded or unfolded against the rule.
    pub turned: HashSet<Group>,
}

impl Grouping {
    /// Puts the rows together.
    pub fn rows<'a>(&self, pending: impl Iterator<Item = &'a Arc<PendingRequest>>) -> Vec<Row> {
        let mut groups: IndexMap<Group, Vec<&Arc<PendingRequest>>> = IndexMap::new();
        for request in pending {
            let kind = (!self.by_server).then(|| request.kind.clone());
            let group = Group { server: request.server.clone(), kind };
            groups.entry(group).or_default().push(request);
        }
        let mut rows = Vec::new();
        for (group, requests) in &groups {
            if !self.by_server && requests.len() < STORM {
                continue;
            }
            let folded = self.turned.contains(group) == self.by_server;
            rows.push((requests[0].id, gathered(group, requests, folded)));
            if !folded {
                rows.extend(requests.iter().map(|r| (requests[0].id, Row::Request(Arc::clone(r)))));
            }
        }
        if !self.by_server {
            for requests in groups.values().filter(|requests| requests.len() < STORM) {
                rows.extend(requests.iter().map(|r| (r.id, Row::Request(Arc::clone(r)))));
            }
            // Stable: what a group holds stays behind it.
            rows.sort_by_key(|(place, _)| *place);
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Folds or unfolds a group.
    pub fn turn(&mut self, group: &Group) {
        if !self.turned.remove(group) {
            self.turned.insert(group.clone());
        }
    }
}

fn gathered(group: &Group, requests: &[&Arc<PendingRequest>], folded: bool) -> Row {
    Row::Group {
        group: group.clone(),
        ids: requests.iter().map(|request| request.id).collect(),
        oldest: requests.iter().map(|r| r.arrived).min().unwrap_or_default(),
        deadline: requests.iter().map(|r| r.deadline).min().unwrap_or_default(),
        folded,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(id: u64, server: &str, kind: RequestKind) -> Arc<PendingRequest> {
        Arc::new(PendingRequest {
            id: ApprovalId(id),
            server: server.into(),
            kind,
            call: None,
            during: None,
            params: Arc::new(json!({})),
            bytes: 2,
            arrived: Timestamp(id),
            deadline: Timestamp(id + 100),
            deferred: false,
        })
    }

    fn shown(rows: &[Row]) -> Vec<String> {
        let show = |row: &Row| match row {
            Row::Request(request) | Row::Kept(request, _) => request.id.to_string(),
            Row::Other(todo) => format!("{todo:?}"),
            Row::Group { group, ids, folded, .. } => {
                format!("{} x{}{}", group.server, ids.len(), if *folded { "+" } else { "-" })
            }
        };
        rows.iter().map(show).collect()
    }

    #[test]
    fn a_storm_is_one_row_where_its_oldest_stood_and_the_others_keep_their_order() {
        let mut pending = vec![request(1, "a", RequestKind::Sampling)];
        pending.extend((2..9).map(|id| request(id, "b", RequestKind::Sampling)));
        pending.push(request(9, "b", RequestKind::Elicitation));
        let mut grouping = Grouping::default();
        assert_eq!(shown(&grouping.rows(pending.iter())), ["1", "b x7+", "9"]);
        let storm = Group { server: "b".into(), kind: Some(RequestKind::Sampling) };
        grouping.turn(&storm);
        let rows = shown(&grouping.rows(pending.iter()));
        assert_eq!(rows, ["1", "b x7-", "2", "3", "4", "5", "6", "7", "8", "9"]);
    }

    #[test]
    fn groups_by_server_are_open_until_they_are_folded() {
        let pending = [
            request(1, "a", RequestKind::Sampling),
            request(2, "b", RequestKind::Sampling),
            request(3, "a", RequestKind::UrlElicitation),
        ];
        let mut grouping = Grouping { by_server: true, ..Grouping::default() };
        assert_eq!(shown(&grouping.rows(pending.iter())), ["a x2-", "1", "3", "b x1-", "2"]);
        grouping.turn(&Group { server: "a".into(), kind: None });
        assert_eq!(shown(&grouping.rows(pending.iter())), ["a x2+", "b x1-", "2"]);
    }
}
