//! A JSON value as a tree of rows that are found, not kept: only what is unfolded costs anything.
//! Pure; a million elements are one number.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::tui::form::pointer::join;

/// Longer strings are not searched; the content view searches those.
const SEARCHED: usize = 1 << 20;

/// Where a row is: index of the child at each level.
pub type Path = Vec<usize>;

/// What is unfolded below one container.
#[derive(Clone, Debug, Default)]
struct Open {
    /// Children of the container.
    children: usize,
    /// Those that are unfolded themselves.
    open: BTreeMap<usize, Open>,
}

impl Open {
    /// Rows below the container's own.
    fn rows(&self) -> usize {
        self.children + self.open.values().map(Self::rows).sum::<usize>()
    }
}

/// The folds of one value, the cursor and the scroll position.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    open: Option<Open>,
    /// Row of the cursor.
    pub cursor: usize,
}

/// One visible row.
#[derive(Clone, Debug)]
pub struct TreeRow<'a> {
    /// How deep it is.
    pub depth: usize,
    /// Its key, or nothing for the root.
    pub key: Option<Key<'a>>,
    /// Its value.
    pub value: &'a Value,
    /// Whether it is unfolded; `None` for what has no children.
    pub open: Option<bool>,
}

/// Name or position within the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// Key of an object.
    Name(&'a str),
    /// Position in a list, from 0.
    Index(usize),
}

/// How many children a value has; none unless it is an object or a list.
pub fn children(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

/// The children of a value in order, from number `from` on.
fn members(value: &Value, from: usize) -> Box<dyn Iterator<Item = (Key<'_>, &Value)> + '_> {
    match value {
        Value::Array(items) => {
            let items = (from..).zip(items.get(from..).unwrap_or_default());
            Box::new(items.map(|(index, item)| (Key::Index(index), item)))
        }
        Value::Object(map) => {
            Box::new(map.iter().skip(from).map(|(name, item)| (Key::Name(name), item)))
        }
        _ => Box::new(std::iter::empty()),
    }
}

fn child(value: &Value, index: usize) -> Option<(Key<'_>, &Value)> {
    members(value, index).next()
}

impl Tree {
    /// Unfolds the root, and small values wholly.
    pub fn new(value: &Value) -> Self {
        Self { open: unfold_small(value, 0, &mut 120), cursor: 0 }
    }

    /// How many rows are visible.
    pub(crate) fn len(&self) -> usize {
        1 + self.open.as_ref().map_or(0, Open::rows)
    }

    /// The rows from `from` on, at most `most`.
    pub fn rows<'a>(&self, value: &'a Value, from: usize, most: usize) -> Vec<TreeRow<'a>> {
        let mut out = Vec::with_capacity(most.min(200));
        let mut walk = Walk { skip: from, most, out: &mut out };
        walk.node(value, None, 0, self.open.as_ref());
        out
    }

    /// Where the row at `row` is.
    pub fn path(&self, row: usize) -> Option<Path> {
        let mut path = Vec::new();
        let mut rest = row.checked_sub(1)?;
        let mut open = self.open.as_ref()?;
        'down: loop {
            let mut before = 0;
            for (index, inner) in &open.open {
                let own = index - before;
                if rest < own {
                    path.push(before + rest);
                    return Some(path);
                }
                rest -= own;
                // The unfolded child itself, then its rows.
                if rest == 0 {
                    path.push(*index);
                    return Some(path);
                }
                if rest <= inner.rows() {
                    path.push(*index);
                    rest -= 1;
                    open = inner;
                    continue 'down;
                }
                rest -= 1 + inner.rows();
                before = index + 1;
            }
            let index = before + rest;
            if index >= open.children {
                return None;
            }
            path.push(index);
            return Some(path);
        }
    }

    /// The row of a place, when everything above it is unfolded.
    pub fn row_of(&self, path: &[usize]) -> Option<usize> {
        let mut row = 0;
        let mut open = self.open.as_ref();
        for index in path {
            let here = open?;
            row += 1 + index + here.open.range(..index).map(|(_, o)| o.rows()).sum::<usize>();
            open = here.open.get(index);
        }
        Some(row)
    }

    /// Unfolds or folds the row of the cursor; gives whether it could.
    pub fn set_open(&mut self, value: &Value, open: bool) -> bool {
        let path = self.path(self.cursor).unwrap_or_default();
        let Some(target) = at(value, &path).filter(|v| children(v) > 0) else { return false };
        let fresh = Open { children: children(target), open: BTreeMap::new() };
        let Some((last, above)) = path.split_last() else {
            self.open = open.then_some(fresh);
            return true;
        };
        let Some(parent) = self.open_at(above) else { return false };
        if open {
            parent.open.entry(*last).or_insert(fresh);
        } else {
            parent.open.remove(last);
        }
        true
    }

    /// Whether the row of the cursor is unfolded.
    pub fn is_open(&self) -> bool {
        let path = self.path(self.cursor).unwrap_or_default();
        let root = self.open.as_ref();
        root.is_some_and(|root| path.iter().try_fold(root, |open, at| open.open.get(at)).is_some())
    }

    /// Puts the cursor on a place, unfolding what is above it.
    pub fn reveal(&mut self, value: &Value, path: &[usize]) {
        if self.open.is_none() && children(value) > 0 {
            self.open = Some(Open { children: children(value), open: BTreeMap::new() });
        }
        for depth in 1..path.len() {
            let (last, above) = (path[depth - 1], &path[..depth - 1]);
            let Some(target) = at(value, &path[..depth]) else { break };
            let children = children(target);
            if let Some(parent) = self.open_at(above) {
                parent.open.entry(last).or_insert(Open { children, open: BTreeMap::new() });
            }
        }
        self.cursor = self.row_of(path).unwrap_or(0);
    }

    fn open_at(&mut self, path: &[usize]) -> Option<&mut Open> {
        path.iter().try_fold(self.open.as_mut()?, |open, index| open.open.get_mut(index))
    }

    /// JSON pointer (RFC 6901) of the row of the cursor.
    pub fn pointer(&self, value: &Value) -> String {
        let mut out = String::new();
        let mut here = value;
        for index in self.path(self.cursor).unwrap_or_default() {
            let Some((key, next)) = child(here, index) else { break };
            match key {
                Key::Name(name) => out = join(&out, name),
                Key::Index(index) => _ = write!(out, "/{index}"),
            }
            here = next;
        }
        out
    }

    /// The value at the row of the cursor.
    pub fn current<'a>(&self, value: &'a Value) -> &'a Value {
        at(value, &self.path(self.cursor).unwrap_or_default()).unwrap_or(value)
    }

    /// Goes to the next row after the cursor, folded or not, whose key or scalar holds `needle`;
    /// starts again at the top. Gives whether there is one.
    pub fn search(&mut self, value: &Value, needle: &str) -> bool {
        let start = self.path(self.cursor).unwrap_or_default();
        let needle = needle.to_lowercase();
        let mut path = Vec::new();
        let found = !needle.is_empty()
            && (walk(value, &needle, &start, true, &mut path) || {
                path.clear();
                walk(value, &needle, &[], false, &mut path)
            });
        if found {
            self.reveal(value, &path);
        }
        found
    }
}

/// Depth-first search for the first match after `start`.
fn walk(value: &Value, needle: &str, start: &[usize], after: bool, path: &mut Path) -> bool {
    let (first, rest) = match start.split_first() {
        Some((first, rest)) => (*first, Some(rest)),
        None => (0, None),
    };
    for (index, (key, v)) in (first..).zip(members(value, first)) {
        path.push(index);
        let on_start = rest.is_some() && index == first;
        let is_start = on_start && rest.is_some_and(<[usize]>::is_empty) && after;
        let inside = on_start && rest.is_some_and(|rest| !rest.is_empty());
        if !is_start && !inside && holds(&key, v, needle) {
            return true;
        }
        let below = if inside { rest.unwrap_or_default() } else { &[] };
        if walk(v, needle, below, after, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn holds(key: &Key<'_>, value: &Value, needle: &str) -> bool {
    let contains = |text: &str| text.len() < SEARCHED && text.to_lowercase().contains(needle);
    matches!(key, Key::Name(name) if contains(name))
        || match value {
            Value::String(text) => contains(text),
            Value::Array(_) | Value::Object(_) => false,
            _ => contains(&value.to_string()),
        }
}

fn at<'a>(value: &'a Value, path: &[usize]) -> Option<&'a Value> {
    path.iter().try_fold(value, |here, index| child(here, *index).map(|(_, v)| v))
}

fn unfold_small(value: &Value, depth: usize, budget: &mut usize) -> Option<Open> {
    let children = children(value);
    if children == 0 || (depth > 0 && children > *budget) {
        return None;
    }
    *budget = budget.saturating_sub(children);
    let mut open = Open { children, open: BTreeMap::new() };
    if children <= 64 {
        for index in 0..children {
            if let Some((_, v)) = child(value, index)
                && let Some(inner) = unfold_small(v, depth + 1, budget)
            {
                open.open.insert(index, inner);
            }
        }
    }
    Some(open)
}

struct Walk<'v, 'o> {
    skip: usize,
    most: usize,
    out: &'o mut Vec<TreeRow<'v>>,
}

impl<'v> Walk<'v, '_> {
    fn node(&mut self, value: &'v Value, key: Option<Key<'v>>, depth: usize, open: Option<&Open>) {
        if self.out.len() >= self.most {
            return;
        }
        if self.skip > 0 {
            self.skip -= 1;
        } else {
            let fold = (children(value) > 0).then_some(open.is_some());
            self.out.push(TreeRow { depth, key, value, open: fold });
        }
        let Some(open) = open else { return };
        if self.skip >= open.rows() {
            self.skip -= open.rows();
            return;
        }
        // Whole runs of folded children are skipped without being looked at.
        let first = match open.open.keys().next() {
            Some(next) => self.skip.min(*next),
            None => self.skip,
        };
        self.skip -= first;
        for (index, (key, node)) in (first..).zip(members(value, first)) {
            if self.out.len() >= self.most {
                return;
            }
            self.node(node, Some(key), depth + 1, open.open.get(&index));
        }
    }
}
