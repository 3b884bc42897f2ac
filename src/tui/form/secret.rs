//! What a schema calls secret (`writeOnly`, `format: password`): drawn as dots, and taken out of
//! everything that is written to disk: drafts, history, saved calls. Pure.

use serde_json::Value;

use super::field::item_conj;
use super::merge::{Conj, merge};
use super::pointer::join;
use super::row::Decisions;
use super::schema::{Document, Node};

const MAX_DEPTH: usize = 64;

/// Takes every secret out of `value`; gives how many there were.
pub(super) fn strip(document: &Document, decisions: &Decisions, value: &mut Value) -> usize {
    if !document.has_secrets() {
        return 0;
    }
    let mut stripper = Stripper { document, decisions, taken: 0 };
    stripper.inside(&vec![std::sync::Arc::clone(&document.root)], String::new(), value, 0);
    stripper.taken
}

struct Stripper<'a> {
    document: &'a Document,
    decisions: &'a Decisions,
    taken: usize,
}

impl Stripper<'_> {
    /// Whether the place itself is secret; goes on inside when it is not. Every alternative of a
    /// union counts, shown or not: better a value too few on disk than a secret too many.
    fn is_secret(&self, conj: &[Node], depth: usize) -> bool {
        depth < MAX_DEPTH
            && conj.iter().any(|node| {
                let target = node.reference.as_deref().and_then(|r| self.document.resolve(r));
                node.secret
                    || target.is_some_and(|t| self.is_secret(std::slice::from_ref(t), depth + 1))
                    || [&node.all_of, &node.any_of, &node.one_of]
                        .iter()
                        .any(|list| self.is_secret(list, depth + 1))
            })
    }

    fn inside(&mut self, conj: &Conj, at: String, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH || !(value.is_object() || value.is_array()) {
            return;
        }
        let picks = self.decisions.picks.get(&at).map_or(&[][..], Vec::as_slice);
        let merged = merge(self.document, conj, Some(value), picks);
        match value {
            Value::Object(map) => {
                let names: Vec<String> = map.keys().cloned().collect();
                for name in names {
                    let known = merged.properties.get(&name).cloned();
                    let conj = known.or_else(|| merged.other(&name)).unwrap_or_default();
                    if self.is_secret(&conj, 0) {
                        map.shift_remove(&name);
                        self.taken += 1;
                    } else if let Some(member) = map.get_mut(&name) {
                        self.inside(&conj, join(&at, &name), member, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    let conj = item_conj(&merged, i);
                    if self.is_secret(&conj, 0) {
                        *item = Value::Null;
                        self.taken += 1;
                    } else {
                        self.inside(&conj, format!("{at}/{i}"), item, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }
}
