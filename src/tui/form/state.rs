//! The state of a form: the value, what was typed that is no value yet, and what a person chose.
//! Rows and problems are kept in step with every change. Does no I/O.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::check::{CheckJob, Checked, Checks};
use super::field::FieldKind;
use super::input::Editor;
use super::json::JsonEditor;
use super::problem::{self, Problem, Weight};
use super::row::{self, Decisions, Row, RowKind};
use super::schema::Document;
use super::seed::{Defaults, seed};
use super::{pointer, popup::Popup};
use crate::config::ContentLimits;
use crate::host::Verdict;
use crate::host::validate::{Limits, SchemaProblem};

/// Text that is no value yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// As typed.
    pub text: String,
    /// Why it is no value; empty when it is only half an intention, such as a key being named.
    pub message: String,
}

/// A form over one JSON value.
pub struct FormState {
    pub(super) document: Arc<Document>,
    pub(super) value: Option<Value>,
    pub(super) drafts: BTreeMap<String, Draft>,
    pub(super) decisions: Decisions,
    /// Values of variants that were left, to come back to.
    pub(super) stash: HashMap<(String, usize, usize), Option<Value>>,
    pub(super) rows: Vec<Row>,
    pub(super) cursor: usize,
    pub(super) editor: Option<Editor>,
    pub(super) popup: Option<Popup>,
    pub(super) json: Option<JsonEditor>,
    /// Values of before, each with what was typed then.
    pub(super) undo: Vec<(Option<Value>, BTreeMap<String, Draft>)>,
    /// The place that is being typed in since the last step of undo.
    pub(super) typing: Option<String>,
    /// The moment a date or time that is not set begins with.
    pub now: crate::base::Timestamp,
    checks: Checks,
    problems: Vec<Problem>,
}

const UNDO: usize = 64;
/// Values larger than this are not kept for undo, roughly in JSON nodes.
const UNDO_NODES: usize = 20_000;

impl FormState {
    /// A form for `schema`, starting with what must be there.
    pub fn new(schema: &Arc<Value>, defaults: Defaults) -> Self {
        let document = Arc::new(Document::new(schema));
        let value = seed(&document, &[Arc::clone(&document.root)], defaults);
        Self::build(document, value)
    }

    /// A form for `schema` over a value that is there already.
    pub fn with_value(schema: &Arc<Value>, value: Option<Value>) -> Self {
        Self::build(Arc::new(Document::new(schema)), value)
    }

    fn build(document: Arc<Document>, value: Option<Value>) -> Self {
        let mut form = Self {
            checks: Checks::new(&document, Limits::default()),
            document,
            value,
            drafts: BTreeMap::new(),
            decisions: Decisions::default(),
            stash: HashMap::new(),
            rows: Vec::new(),
            cursor: 0,
            editor: None,
            popup: None,
            json: None,
            undo: Vec::new(),
            typing: None,
            now: crate::base::Timestamp::default(),
            problems: Vec::new(),
        };
        form.refresh();
        form.select(0);
        form
    }

    /// Checks within the limits of its server.
    pub fn keep_within(&mut self, limits: &ContentLimits) {
        let limits = Limits::from(limits);
        if self.checks.limits() != limits {
            self.checks = Checks::new(&self.document, limits);
            self.refresh();
        }
    }

    /// The value as it is now; `None` when nothing is set.
    pub const fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// The arguments to send: an object even when nothing is set.
    pub fn arguments(&self) -> Value {
        self.value.clone().unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// `value` as it may be written to disk: without what the schema calls secret.
    pub fn without_secrets(&self, mut value: Value) -> Value {
        super::secret::strip(&self.document, &self.decisions, &mut value);
        value
    }

    /// The schema.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The visible rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Index of the row where the cursor is; [`FormState::rows`]`.len()` is the line that calls.
    pub const fn cursor(&self) -> usize {
        self.cursor
    }

    /// Whether the cursor is on the line that calls.
    pub fn is_on_submit(&self) -> bool {
        self.cursor >= self.rows.len()
    }

    /// The row where the cursor is.
    pub fn current(&self) -> Option<&Row> {
        self.rows.get(self.cursor)
    }

    /// Everything that is wrong, in the order of the rows.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The gravest problem of a row.
    pub fn problem_at(&self, row: usize) -> Option<&Problem> {
        let from = self.problems.partition_point(|p| p.row.unwrap_or(usize::MAX) < row);
        self.problems.get(from).filter(|p| p.row == Some(row))
    }

    /// How many problems keep a validated call from being made.
    pub fn blocking(&self) -> usize {
        self.problems.iter().filter(|p| p.weight < Weight::Note).count()
    }

    /// Whether text was typed somewhere that is no value: such a form cannot be sent, even on
    /// purpose, because it is not known what would be sent.
    pub fn has_drafts(&self) -> bool {
        self.problems.iter().any(|p| p.weight == Weight::Draft)
            || self.json.as_ref().is_some_and(|json| json.problem().is_some())
    }

    /// Whether anything was changed by the person.
    pub fn is_touched(&self) -> bool {
        !self.undo.is_empty() || self.has_drafts()
    }

    /// Why the schema itself cannot be used to validate, when it cannot.
    pub fn schema_problem(&self) -> Option<&SchemaProblem> {
        self.checks.schema_problem()
    }

    /// What the engine's validator says of the value as it is now.
    pub const fn verdict(&self) -> &Verdict {
        self.checks.verdict()
    }

    /// Whether the value as it is now is still to be checked, by [`FormState::pending_check`].
    pub const fn is_checking(&self) -> bool {
        self.checks.is_pending()
    }

    /// The value as its JSON was edited: what was typed in fields stays where that says the same.
    pub(super) fn take_json(&mut self, value: Option<Value>) {
        let drafts = self.drafts.clone();
        let before = self.value.clone();
        self.set_value(value);
        for (place, draft) in drafts {
            let now = super::pointer::get(self.value.as_ref(), &place);
            if now == super::pointer::get(before.as_ref(), &place) {
                self.drafts.insert(place, draft);
            }
        }
        self.collect();
    }

    /// Replaces the whole value (paste, history). Everything typed that is no value is dropped,
    /// because it belonged to the value before.
    pub fn set_value(&mut self, value: Option<Value>) {
        if self.value == value && self.drafts.is_empty() {
            return;
        }
        self.remember();
        self.value = value;
        self.drafts.clear();
        self.decisions.picks.clear();
        self.decisions.types.clear();
        self.editor = None;
        self.changed();
    }

    /// A check that must run elsewhere; give what it finds to [`FormState::checked`]. One at a
    /// time: while one is under way there is no other.
    pub fn pending_check(&mut self) -> Option<CheckJob> {
        let value = self.value.as_ref();
        self.checks
            .job(&self.document, || value.cloned().unwrap_or_else(|| Value::Object(Map::new())))
    }

    /// Takes what a check found that ran elsewhere; an old one, or one of another form, is ignored.
    pub fn checked(&mut self, found: Checked) {
        if !self.checks.is_mine(&found) {
            return;
        }
        if self.checks.take(found) {
            self.collect();
        } else {
            // What was compiled may make the newer value quick to check.
            self.check();
        }
    }

    /// Keeps the value for undo.
    pub(super) fn remember(&mut self) {
        self.typing = None;
        let known = |(value, drafts): &(_, _)| *value == self.value && *drafts == self.drafts;
        if self.undo.last().is_some_and(known) || nodes(self.value.as_ref()) > UNDO_NODES {
            return;
        }
        if self.undo.len() == UNDO {
            self.undo.remove(0);
        }
        self.undo.push((self.value.clone(), self.drafts.clone()));
    }

    /// Keeps the value for undo before the first key in a place: a line that is typed is one step.
    pub(super) fn remember_typing(&mut self, at: &str) {
        if self.typing.as_deref() != Some(at) {
            self.remember();
            self.typing = Some(at.to_owned());
        }
    }

    /// After any change of the value: rows, JSON view and problems follow.
    pub(super) fn changed(&mut self) {
        self.checks.changed();
        if let Some(json) = &mut self.json {
            json.follow(self.value.as_ref());
        }
        self.refresh();
    }

    /// Rebuilds rows and problems; the cursor stays on its place.
    pub(super) fn refresh(&mut self) {
        let here =
            self.rows.get(self.cursor).map(|row| (row.pointer.clone(), kind_rank(&row.kind)));
        let on_submit = !self.rows.is_empty() && self.is_on_submit();
        self.rows = row::rows(&self.document, self.value.as_ref(), &self.decisions);
        self.cursor = match here {
            _ if on_submit => self.rows.len(),
            Some((pointer, rank)) => self.find(&pointer, rank),
            None => self.cursor.min(self.rows.len()),
        };
        self.check();
    }

    fn find(&self, pointer: &str, rank: u8) -> usize {
        let exact =
            self.rows.iter().position(|r| r.pointer == pointer && kind_rank(&r.kind) == rank);
        exact
            .or_else(|| self.rows.iter().position(|r| r.pointer == pointer))
            .or_else(|| {
                let (parent, _) = pointer::split(pointer)?;
                self.rows.iter().rposition(|r| pointer::is_within(&r.pointer, parent))
            })
            .unwrap_or_else(|| self.cursor.min(self.rows.len()))
    }

    fn check(&mut self) {
        let empty = Value::Object(Map::new());
        self.checks.check_quickly(self.value.as_ref().unwrap_or(&empty));
        self.collect();
    }

    /// Joins the problems again, for example after a draft changed.
    pub(super) fn collect(&mut self) {
        self.problems = problem::collect(
            &self.rows,
            self.value.as_ref(),
            &self.drafts,
            self.checks.verdict(),
            self.checks.notes(),
        );
    }

    /// Whether the row under the cursor takes typed text.
    pub fn takes_text(&self) -> bool {
        self.editor.is_some()
            || self.popup.is_some()
            || self.json.as_ref().is_some_and(|j| j.focused)
    }

    /// How many rows fell back to typed JSON, and why.
    pub fn degraded(&self) -> Vec<(&str, &str)> {
        let reason = |row: &'_ Row| {
            row.field().and_then(|f| f.degraded()).map(String::as_str).map(str::to_owned)
        };
        self.rows
            .iter()
            .filter(|row| reason(row).is_some())
            .filter_map(|row| Some((row.pointer.as_str(), row.field()?.degraded()?.as_str())))
            .collect()
    }

    /// Whether a container of the row is folded.
    pub fn folded(&self, row: usize) -> Option<bool> {
        match self.rows.get(row)?.kind {
            RowKind::Field { folded, .. } => folded,
            _ => None,
        }
    }
}

/// Lines of one place are distinguished by this.
const fn kind_rank(kind: &RowKind) -> u8 {
    match kind {
        RowKind::Variant { slot, .. } => 10 + *slot as u8 % 200,
        RowKind::Types { .. } => 1,
        RowKind::Field { .. } => 2,
        RowKind::Add { .. } => 3,
        RowKind::More { .. } => 4,
    }
}

fn nodes(value: Option<&Value>) -> usize {
    match value {
        Some(Value::Array(items)) => {
            items.iter().take(UNDO_NODES).map(|v| nodes(Some(v))).sum::<usize>() + 1
        }
        Some(Value::Object(map)) => {
            map.values().take(UNDO_NODES).map(|v| nodes(Some(v))).sum::<usize>() + 1
        }
        Some(Value::String(text)) => 1 + text.len() / 64,
        _ => 1,
    }
}

/// The text with which a field is edited: `None` when it is not edited as text.
pub(super) fn text_of(kind: &FieldKind, value: Option<&Value>) -> Option<String> {
    Some(match (kind, value) {
        (FieldKind::Text { .. } | FieldKind::Number { .. } | FieldKind::Json(_), None) => {
            String::new()
        }
        (FieldKind::Text { .. }, Some(Value::String(text))) => text.clone(),
        (FieldKind::Number { .. }, Some(Value::Number(n))) => n.to_string(),
        // Null is shown as a hint, so that typing replaces it.
        (
            FieldKind::Text { .. } | FieldKind::Number { .. } | FieldKind::Json(_),
            Some(Value::Null),
        ) => String::new(),
        (FieldKind::Json(_), Some(value)) => serde_json::to_string_pretty(value).ok()?,
        _ => return None,
    })
}
