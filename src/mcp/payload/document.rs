//! JSON text that is read in place: where its long values end and where every 64th of their
//! children stands. What is short is found by looking.

use std::borrow::Cow;

use super::node::{Kind, Node};
use super::scan::{self, Bounds};

/// A JSON text that was found valid, with an index of its long parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Document {
    text: Box<str>,
    spans: Vec<Span>,
    marks: Vec<u32>,
    nodes: usize,
    tree: usize,
}

/// A value that is long enough to be remembered. Ordered by `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
    /// Children of a container.
    pub(super) count: u32,
    /// Where its marks begin: one for its child 64, 128 and so on.
    pub(super) marks: u32,
}

/// A child: where its key stands, if it has one, and where its value begins.
pub(super) type Child = (Option<usize>, usize);

impl Document {
    /// Children from one mark to the next.
    pub(super) const STRIDE: usize = 64;

    /// Takes over `text`, if it is one JSON value within `bounds` in which nothing is odd: no key
    /// that stands twice in an object, no lone surrogate, no number out of range. `None` otherwise;
    /// a parser can say why.
    ///
    /// `text` must be valid JSON; what is not gives nothing or a document with nonsense in it, never
    /// a panic.
    pub fn new(text: &str, bounds: Bounds) -> Option<Self> {
        Self::new_if(text, bounds, |_, _| true)
    }

    /// The same, unless `wanted` declines the number of values in it and the bytes that a tree of
    /// them takes: then nothing was copied.
    pub fn new_if(
        text: &str,
        bounds: Bounds,
        wanted: impl FnOnce(usize, usize) -> bool,
    ) -> Option<Self> {
        let text = text.trim_ascii();
        let scan::Index { spans, marks, nodes, tree } = scan::index(text.as_bytes(), bounds)?;
        wanted(nodes, tree).then(|| Self { text: text.into(), spans, marks, nodes, tree })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The bytes of the text.
    pub fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// How many values it holds.
    pub const fn nodes(&self) -> usize {
        self.nodes
    }

    /// How many bytes a tree of it takes besides its texts.
    pub const fn tree(&self) -> usize {
        self.tree
    }

    /// The value.
    pub const fn root(&self) -> Node<'_> {
        Node::Text(self, 0)
    }

    pub(super) fn kind(&self, at: usize) -> Kind {
        match self.bytes().get(at) {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    fn span(&self, at: usize) -> Option<&Span> {
        let found = self.spans.binary_search_by_key(&at, |span| span.start as usize);
        self.spans.get(found.ok()?)
    }

    /// Where the value that begins at `at` ends.
    pub(super) fn end(&self, at: usize) -> usize {
        match self.span(at) {
            Some(span) => span.end as usize,
            None => scan::end(self.bytes(), at),
        }
    }

    /// The text of the value at `at`.
    pub(super) fn slice(&self, at: usize) -> &str {
        self.text.get(at..self.end(at)).unwrap_or("null")
    }

    /// The string at `at`; borrowed when nothing in it is escaped.
    pub(super) fn string(&self, at: usize) -> Cow<'_, str> {
        let quoted = self.slice(at);
        let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match inner {
            Some(inner) if memchr::memchr(b'\\', inner.as_bytes()).is_none() => {
                Cow::Borrowed(inner)
            }
            _ => Cow::Owned(serde_json::from_str(quoted).unwrap_or_default()),
        }
    }

    /// How many children the container at `at` has.
    pub(super) fn count(&self, at: usize) -> usize {
        match self.span(at) {
            Some(span) => span.count as usize,
            None => Children::new(self, at, 0).count(),
        }
    }

    /// The children of the container at `at`, from the one with number `from` on.
    pub(super) fn children(&self, at: usize, from: usize) -> Children<'_> {
        let jumps = from / Self::STRIDE;
        let mark = self.span(at).filter(|span| jumps > 0 && from < span.count as usize);
        let mark = mark.and_then(|span| self.marks.get(span.marks as usize + jumps - 1));
        let (mut children, skip) = match mark {
            Some(mark) => (Children::resume(self, at, *mark as usize), from % Self::STRIDE),
            None => (Children::new(self, at, 0), from),
        };
        for _ in 0..skip {
            if children.next().is_none() {
                break;
            }
        }
        children
    }
}

/// Children of a container in order.
pub(super) struct Children<'a> {
    document: &'a Document,
    object: bool,
    at: usize,
}

impl<'a> Children<'a> {
    fn new(document: &'a Document, container: usize, _from: usize) -> Self {
        Self::resume(document, container, container + 1)
    }

    /// From a place inside, where a child begins.
    fn resume(document: &'a Document, container: usize, at: usize) -> Self {
        Self { document, object: document.kind(container) == Kind::Object, at }
    }
}

impl Iterator for Children<'_> {
    type Item = Child;

    fn next(&mut self) -> Option<Child> {
        let bytes = self.document.bytes();
        let mut at = scan::blank(bytes, self.at);
        if bytes.get(at) == Some(&b',') {
            at = scan::blank(bytes, at + 1);
        }
        if matches!(bytes.get(at), None | Some(b']' | b'}')) {
            self.at = at;
            return None;
        }
        let mut key = None;
        if self.object {
            key = Some(at);
            let colon = scan::blank(bytes, self.document.end(at));
            at = scan::blank(bytes, colon + 1);
        }
        self.at = self.document.end(at).max(at + 1);
        Some((key, at))
    }
}

/// Places in the text, for whoever searches it.
impl Document {
    /// The text of the value at `at`, as a range.
    pub fn region(&self, at: usize) -> std::ops::Range<usize> {
        at..self.end(at)
    }

    /// Where the rows behind the one at `path` begin: inside a list or an object, behind anything
    /// else. `path` numbers the child at each level, from the value at `root` on.
    pub fn behind(&self, root: usize, path: &[usize]) -> usize {
        let mut at = root;
        for index in path {
            let Some((_, value)) = self.children(at, *index).next() else { break };
            at = value;
        }
        match self.kind(at) {
            Kind::Array | Kind::Object => at + 1,
            _ => self.end(at),
        }
    }

    /// The path of the innermost value that `offset` lies in, its key included.
    pub fn path(&self, root: usize, offset: usize) -> Option<Vec<usize>> {
        let mut path = Vec::new();
        let mut at = root;
        if !self.region(root).contains(&offset) {
            return None;
        }
        while matches!(self.kind(at), Kind::Array | Kind::Object) {
            let marks = self.marks_of(at);
            let jumps = marks.partition_point(|mark| *mark as usize <= offset);
            let from = jumps * Self::STRIDE;
            let inside = (from..).zip(self.children(at, from)).find(|(_, (key, value))| {
                key.unwrap_or(*value) <= offset && offset < self.end(*value)
            });
            // Between two children, or behind the last: white space and commas.
            let Some((index, (_, value))) = inside else { break };
            path.push(index);
            if offset < value {
                break;
            }
            at = value;
        }
        Some(path)
    }

    fn marks_of(&self, at: usize) -> &[u32] {
        let Some(span) = self.span(at) else { return &[] };
        let many = (span.count as usize).saturating_sub(1) / Self::STRIDE;
        self.marks.get(span.marks as usize..span.marks as usize + many).unwrap_or_default()
    }
}
