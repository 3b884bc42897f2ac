//! A JSON value as a tree whose rows are computed, not stored: only unfolded values cost anything.
//! Pure; a million elements are one number.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;

use crate::filter::contains;
use crate::prelude::*;
use base::pointer::child_pointer;
use base::text::json::WrittenNumbers;

/// Longer strings are not searched; the content view searches those.
const MAX_SEARCHED_BYTES: usize = 1 << 20;

/// Position of a row: the index of the child at each level.
pub type Path = Vec<usize>;

/// The folds of a value, and the cursor.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Unfolded values with their number of children. Their ancestors are unfolded, too.
    open: BTreeMap<Path, usize>,
    /// Row of the cursor.
    pub cursor: usize,
}

/// One visible row.
#[derive(Clone, Debug)]
pub struct TreeRow<'a> {
    /// How deep it is.
    pub depth: usize,
    /// Its key, or nothing for the root.
    pub key: Option<TreeKey<'a>>,
    pub value: &'a Value,
    /// Of a number, how it is written, when the value spells it otherwise.
    pub written: Option<&'a str>,
    /// Whether it is unfolded; `None` if it has no children.
    pub open: Option<bool>,
}

/// Name or position within the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeKey<'a> {
    /// Key of an object.
    Name(&'a str),
    /// Position in a list, from 0.
    Index(usize),
}

/// Number of children of a value; 0 unless it is an object or a list.
pub fn children(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

/// The children of a value in order, from index `from` on.
fn members(value: &Value, from: usize) -> Box<dyn Iterator<Item = (TreeKey<'_>, &Value)> + '_> {
    match value {
        Value::Array(items) => {
            let items = (from..).zip(items.get(from..).unwrap_or_default());
            Box::new(items.map(|(index, item)| (TreeKey::Index(index), item)))
        }
        Value::Object(map) => {
            Box::new(map.iter().skip(from).map(|(name, item)| (TreeKey::Name(name), item)))
        }
        _ => Box::new(std::iter::empty()),
    }
}

fn child(value: &Value, index: usize) -> Option<(TreeKey<'_>, &Value)> {
    members(value, index).next()
}

impl Tree {
    /// Unfolds the root, and small values completely.
    pub fn new(value: &Value) -> Self {
        let mut tree = Self::default();
        tree.unfold_small(value, &mut Path::new(), &mut 120);
        tree
    }

    fn unfold_small(&mut self, value: &Value, path: &mut Path, budget: &mut usize) {
        let children = children(value);
        if children == 0 || (!path.is_empty() && children > *budget) {
            return;
        }
        *budget = budget.saturating_sub(children);
        self.open.insert(path.clone(), children);
        let few = if children <= 64 { children } else { 0 };
        for (index, (_, child)) in members(value, 0).take(few).enumerate() {
            path.push(index);
            self.unfold_small(child, path, budget);
            path.pop();
        }
    }

    /// The unfolded values below a path, from the top.
    fn below<'a>(&'a self, path: &'a [usize]) -> impl Iterator<Item = (&'a Path, &'a usize)> {
        let behind = self.open.range::<[usize], _>((Bound::Excluded(path), Bound::Unbounded));
        behind.take_while(|(at, _)| at.starts_with(path))
    }

    /// Number of rows below a path.
    fn rows_below(&self, path: &[usize]) -> usize {
        let own = self.open.get(path).copied().unwrap_or(0);
        own + self.below(path).map(|(_, children)| children).sum::<usize>()
    }

    /// How many rows are visible.
    pub(crate) fn len(&self) -> usize {
        1 + self.rows_below(&[])
    }

    /// The rows from `from` on, at most `most`.
    pub fn rows<'a>(
        &self,
        value: &'a Value,
        numbers: &'a WrittenNumbers,
        from: usize,
        most: usize,
    ) -> Vec<TreeRow<'a>> {
        let mut walk = Walk { tree: self, root: value, numbers, skip: from, most, out: Vec::new() };
        walk.node(value, None, &mut Path::new());
        walk.out
    }

    /// The path of row `row`; `None` if there is no such row.
    pub(super) fn path(&self, row: usize) -> Option<Path> {
        let (mut path, mut rest) = (Path::new(), row);
        while rest > 0 {
            let children = *self.open.get(&path)?;
            let (mut index, depth) = (rest - 1, path.len());
            rest = 0;
            for (at, _) in self.below(&path).filter(|(at, _)| at.len() == depth + 1) {
                let (own, rows) = (at[depth], self.rows_below(at));
                if index <= own + rows {
                    // Before this child, at it, or inside it.
                    rest = index.saturating_sub(own);
                    index = index.min(own);
                    break;
                }
                index -= rows;
            }
            if index >= children {
                return None;
            }
            path.push(index);
        }
        Some(path)
    }

    /// The path of the cursor's row.
    fn here(&self) -> Path {
        self.path(self.cursor).unwrap_or_default()
    }

    /// The row of a path whose ancestors are all unfolded.
    pub(super) fn row_of(&self, path: &[usize]) -> usize {
        let before = self.open.range::<[usize], _>((Bound::Unbounded, Bound::Excluded(path)));
        let beside = before.filter(|(at, _)| !path.starts_with(at));
        path.iter().map(|index| 1 + index).sum::<usize>() + beside.map(|(_, n)| n).sum::<usize>()
    }

    /// Unfolds or folds the cursor's row; returns whether it changed.
    fn set_open(&mut self, value: &Value, open: bool) -> bool {
        let path = self.here();
        let children = at(value, &path).map_or(0, children);
        if open && children > 0 {
            self.open.insert(path, children);
        } else {
            self.open.retain(|at, _| !at.starts_with(&path));
        }
        children > 0
    }

    /// Folds, unfolds or leaves the cursor's row; returns whether the action had an effect, and
    /// `None` for other actions.
    pub fn fold(&mut self, value: &Value, action: Action) -> Option<bool> {
        let is_open = self.open.contains_key(&self.here());
        Some(match action {
            Action::Open | Action::Fold => self.set_open(value, !is_open),
            Action::Right => !is_open && self.set_open(value, true),
            Action::Left if is_open => self.set_open(value, false),
            // From a folded or unfoldable value, go to its parent.
            Action::Left => {
                let mut path = self.here();
                let is_inside = path.pop().is_some();
                self.cursor = self.row_of(&path);
                is_inside
            }
            _ => return None,
        })
    }

    /// Moves the cursor to a path, unfolding its ancestors.
    fn reveal(&mut self, value: &Value, path: &[usize]) {
        for depth in 0..path.len() {
            let above = &path[..depth];
            self.open.insert(above.to_vec(), at(value, above).map_or(0, children));
        }
        self.cursor = self.row_of(path);
    }

    /// JSON pointer (RFC 6901) of the cursor's row.
    pub fn pointer(&self, value: &Value) -> String {
        pointer_of(value, &self.here())
    }

    /// The value at the cursor's row.
    pub fn current<'a>(&self, value: &'a Value) -> &'a Value {
        at(value, &self.here()).unwrap_or(value)
    }

    /// Goes to the next row after the cursor, folded or not, whose key or scalar contains `needle`,
    /// wrapping around at the end. Returns whether there is one.
    pub fn search(&mut self, value: &Value, numbers: &WrittenNumbers, needle: &str) -> bool {
        let (start, needle) = (self.here(), needle.to_ascii_lowercase());
        let mut path = Path::new();
        let is_it = |path: &Path, key: &TreeKey<'_>, here: &Value| {
            let written = || written(numbers, value, path, here);
            holds(key, here, &needle) || written().is_some_and(|text| contains(text, &needle))
        };
        // Paths are in the order of their rows.
        let mut later = |path: &Path, key: &TreeKey<'_>, value: &Value| {
            *path > start && is_it(path, key, value)
        };
        let found = !needle.is_empty()
            && (walk(value, &mut path, &mut later)
                || walk(value, &mut path, &mut |path, key, value| is_it(path, key, value)));
        if found {
            self.reveal(value, &path);
        }
        found
    }
}

/// JSON pointer (RFC 6901) of the value that a path leads to.
fn pointer_of(root: &Value, path: &[usize]) -> String {
    let mut out = String::new();
    let mut here = root;
    for index in path {
        let Some((key, next)) = child(here, *index) else { break };
        match key {
            TreeKey::Name(name) => out = child_pointer(&out, name),
            TreeKey::Index(index) => _ = write!(out, "/{index}"),
        }
        here = next;
    }
    out
}

/// How the number that a path leads to is written, when the value spells it otherwise.
fn written<'n>(
    numbers: &'n WrittenNumbers,
    root: &Value,
    path: &[usize],
    value: &Value,
) -> Option<&'n str> {
    let number = value.as_number().filter(|_| !numbers.is_empty())?;
    numbers.written(&pointer_of(root, path), number)
}

/// Visits the values below one until `is_it` returns true; `path` then leads there.
fn walk(
    value: &Value,
    path: &mut Path,
    is_it: &mut dyn FnMut(&Path, &TreeKey<'_>, &Value) -> bool,
) -> bool {
    for (index, (key, child)) in members(value, 0).enumerate() {
        path.push(index);
        if is_it(path, &key, child) || walk(child, path, is_it) {
            return true;
        }
        path.pop();
    }
    false
}

fn holds(key: &TreeKey<'_>, value: &Value, needle: &str) -> bool {
    matches!(key, TreeKey::Name(name) if contains(name, needle))
        || match value {
            Value::String(text) => text.len() < MAX_SEARCHED_BYTES && contains(text, needle),
            Value::Array(_) | Value::Object(_) => false,
            _ => contains(&value.to_string(), needle),
        }
}

fn at<'a>(value: &'a Value, path: &[usize]) -> Option<&'a Value> {
    path.iter().try_fold(value, |here, index| child(here, *index).map(|(_, v)| v))
}

struct Walk<'v, 'o> {
    tree: &'o Tree,
    root: &'v Value,
    numbers: &'v WrittenNumbers,
    skip: usize,
    most: usize,
    out: Vec<TreeRow<'v>>,
}

impl<'v> Walk<'v, '_> {
    fn node(&mut self, value: &'v Value, key: Option<TreeKey<'v>>, path: &mut Path) {
        if self.out.len() >= self.most {
            return;
        }
        let is_open = self.tree.open.contains_key(path);
        if self.skip > 0 {
            self.skip -= 1;
        } else {
            let open = (children(value) > 0).then_some(is_open);
            let written = written(self.numbers, self.root, path, value);
            self.out.push(TreeRow { depth: path.len(), key, value, written, open });
        }
        if !is_open {
            return;
        }
        let below = self.tree.rows_below(path);
        if self.skip >= below {
            self.skip -= below;
            return;
        }
        let depth = path.len();
        let unfolded = self.tree.below(path).filter(|(at, _)| at.len() == depth + 1);
        let unfolded: Vec<usize> = unfolded.map(|(at, _)| at[depth]).collect();
        let mut first = 0;
        for end in unfolded.into_iter().map(|at| at + 1).chain([children(value)]) {
            // A run of folded children is skipped without visiting them, up to an unfolded one.
            let skipped = self.skip.min(end.saturating_sub(first + 1));
            self.skip -= skipped;
            let run = first + skipped..end;
            for (index, (key, child)) in run.clone().zip(members(value, run.start)) {
                if self.out.len() >= self.most {
                    return;
                }
                path.push(index);
                self.node(child, Some(key), path);
                path.pop();
            }
            first = end;
        }
    }
}
