//! The state of a form: the value, typed text that is not a value yet, and the user's decisions.
//! Rows and problems are updated with every change. Does no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::form::check::{
    CheckJob, CheckResult, Checks, HalfTyped, Problem, REQUIRED_WORD, Weight, collect,
};
use crate::form::editor::{Edits, JsonView, LineEditor, Popup, pretty, typed_value};
use crate::form::row::{self, Decisions, Field, FieldDecision, FieldKind, FormRow, RowKind};
use base::pointer;
use base::text::SafeText;
use base::text::json::{WrittenNumbers, WrittenValue, plain as plain_text, weigh};
use deck::FormDraft;
use schema::{
    Defaults, SchemaDocument, SchemaLimits, SchemaProblem, SchemaVerdict, constants, seed,
    strip_secrets,
};

/// An earlier value, with the half-typed text and the decisions of that time.
type Earlier = (Option<Value>, BTreeMap<String, HalfTyped>, Decisions);

/// A field that is shown first, while the others are folded.
#[derive(Clone, Debug)]
struct FirstField {
    pointer: String,
    label: SafeText,
}

/// The contents of last time, and the places that the user has taken over since.
#[derive(Debug, Default)]
pub(super) struct LastTime {
    value: Option<Value>,
    typed: BTreeMap<String, String>,
    confirmed: BTreeSet<String>,
}

/// A form over one JSON value.
#[derive(Default)]
pub struct FormState {
    pub(crate) document: Arc<SchemaDocument>,
    pub(super) value: Option<Value>,
    /// Numbers as they were typed, by the places where that was; moved elsewhere, they are spelled as
    /// the value spells them.
    pub(super) numbers: WrittenNumbers,
    pub(super) drafts: BTreeMap<String, HalfTyped>,
    pub(super) decisions: Decisions,
    pub(super) rows: Vec<FormRow>,
    pub(super) cursor: usize,
    pub(super) editor: Option<LineEditor>,
    pub(super) popup: Option<Popup>,
    pub(super) json: JsonView,
    pub(super) undo: Vec<Earlier>,
    /// The place being typed in since the last undo step.
    pub(super) typing: Option<String>,
    /// The current time, from which unset dates and times start.
    pub now: base::Timestamp,
    /// The value it began with, from its schema.
    pub(super) seeded: Option<Value>,
    pub(super) last: LastTime,
    /// The field that is shown first, and its label, until the rest is unfolded.
    first: Option<FirstField>,
    /// The members of the root that are shown also when they are unset, until the rest is unfolded.
    main: Option<&'static [&'static str]>,
    checks: Checks,
    problems: Vec<Problem>,
}

const MAX_UNDO_STEPS: usize = 64;
/// Largest value kept for undo, in bytes of its JSON.
const MAX_UNDO_BYTES: usize = 1 << 20;

impl FormState {
    /// Creates a form for `schema`, starting with required values.
    pub fn new(schema: &Arc<Value>, defaults: Defaults) -> Self {
        Self::of_document(SchemaDocument::new(schema), defaults)
    }

    /// As [`FormState::new`], for a schema that has been read.
    pub fn of_document(document: SchemaDocument, defaults: Defaults) -> Self {
        let document = Arc::new(document);
        let value = seed(&document, &[Arc::clone(&document.root)], defaults);
        let seeded = value.clone();
        Self { seeded, ..Self::build(document, value) }
    }

    /// Creates a form for `schema` over an existing value.
    pub fn with_value(schema: &Arc<Value>, value: Option<Value>) -> Self {
        Self::build(Arc::new(SchemaDocument::new(schema)), value)
    }

    fn build(document: Arc<SchemaDocument>, value: Option<Value>) -> Self {
        let mut form = Self {
            checks: Checks::new(&document, SchemaLimits::default()),
            document,
            value,
            ..Self::default()
        };
        form.refresh();
        form.select(0);
        form
    }

    /// Shows only the text at `pointer`, as a text box with this label, and folds the other fields
    /// until the user unfolds them; all are shown while there is no such text.
    pub fn show_first(&mut self, pointer: &str, label: SafeText) {
        self.first = Some(FirstField { pointer: pointer.to_owned(), label });
        self.refresh();
        self.select_place(pointer);
    }

    /// Shows these members of the root and those that are set, and folds the others until the user
    /// unfolds them.
    pub fn show_main(&mut self, members: &'static [&'static str]) {
        self.main = Some(members);
        self.refresh();
    }

    /// Whether a row is of a member that is folded while only the main ones are shown.
    fn is_minor(&self, row: &FormRow, main: &[&str]) -> bool {
        let member = row.pointer.split('/').nth(1).unwrap_or_default();
        let is_set = self.value.as_ref().is_some_and(|value| value.get(member).is_some());
        let drafts = || self.drafts.keys().any(|place| place.split('/').nth(1) == Some(member));
        !member.is_empty() && !main.contains(&member) && !is_set && !drafts()
    }

    /// Folds the members that are neither main ones nor set.
    fn fold_minor(&mut self, main: &[&str]) {
        let rows = std::mem::take(&mut self.rows);
        let (minor, shown): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| self.is_minor(row, main));
        self.rows = shown;
        if minor.is_empty() {
            return;
        }
        let mut names: Vec<&str> =
            minor.iter().filter(|row| row.depth == 0).map(|row| row.label.as_str()).collect();
        names.retain(|name| !name.is_empty());
        let summary = SafeText::cut(&names.join(", "), 200);
        let label = SafeText::line("more");
        let kind = RowKind::Rest { summary };
        self.rows.push(FormRow { label, kind, ..FormRow::default() });
    }

    /// Unfolds the fields that were folded.
    pub(super) fn show_rest(&mut self) {
        if let Some(main) = self.main.take() {
            self.refresh();
            let first = self.rows.iter().find(|row| self.is_minor(row, main));
            if let Some(place) = first.map(|row| row.pointer.clone()) {
                self.select_place(&place);
                self.focus();
            }
        }
        if let Some(first) = self.first.take() {
            self.refresh();
            self.select_place(&first.pointer);
            self.focus();
        }
    }

    /// Whether a row is the text box of the field that is shown first.
    pub(super) fn is_text_box(&self, row: &FormRow) -> bool {
        self.first.as_ref().is_some_and(|first| first.pointer == row.pointer) && self.has_rest()
    }

    /// Whether fields are folded for the first one.
    pub(super) fn has_rest(&self) -> bool {
        self.rows.last().is_some_and(|last| matches!(last.kind, RowKind::Rest { .. }))
    }

    /// Folds all rows but that of the first field, if there is one.
    fn fold_rest(&mut self) {
        if let Some(main) = self.main {
            self.fold_minor(main);
        }
        let Some(first) = &self.first else { return };
        let is_first = |row: &FormRow| {
            let kind = row.field().map(|field| &field.kind);
            row.pointer == first.pointer && matches!(kind, Some(FieldKind::Text { .. }))
        };
        let Some(at) = self.rows.iter().position(is_first) else { return };
        let mut row = self.rows.swap_remove(at);
        (row.label, row.depth) = (first.label.clone(), 0);
        let members = self.value.as_ref().and_then(Value::as_object).into_iter().flatten();
        let plain = members.filter(|(_, value)| !value.is_object() && !value.is_array());
        let words: Vec<String> =
            plain.map(|(name, value)| format!("{name} {}", plain_text(value))).collect();
        let rest = FormRow {
            label: SafeText::line("more"),
            kind: RowKind::Rest { summary: SafeText::cut(&words.join(" · "), 200) },
            ..FormRow::default()
        };
        self.rows = vec![row, rest];
    }

    /// Sets the limits for checking, from the form's server.
    pub fn keep_within(&mut self, limits: SchemaLimits) {
        if self.checks.limits != limits {
            self.checks = Checks::new(&self.document, limits);
            self.refresh();
        }
    }

    /// The current value; `None` if nothing is set.
    pub const fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// The value at a place, if it is set.
    pub(super) fn at(&self, pointer: &str) -> Option<&Value> {
        self.value.as_ref()?.pointer(pointer)
    }

    /// How the number at a place was typed, if it was and its value spells it otherwise.
    pub(super) fn written_at(&self, place: &str) -> Option<&str> {
        self.numbers.written(place, self.at(place)?.as_number()?)
    }

    /// A value of this form, or a part of it that stands at the same place, with its numbers as they
    /// were typed, or as its schema writes them.
    pub fn spelled(&self, value: Value) -> WrittenValue {
        let mut spelled = self.document.spellings().spelled(&value);
        for (place, _) in self.numbers.iter() {
            let number = value.pointer(place).and_then(Value::as_number);
            if number.is_some_and(|number| self.numbers.written(place, number).is_some()) {
                spelled.numbers.put(place, self.numbers.below(place));
            }
        }
        spelled
    }

    /// The current value as it is to be written; `None` if nothing is set.
    pub(super) fn written(&self) -> Option<WrittenValue> {
        self.value.clone().map(|value| self.spelled(value))
    }

    /// The value at a place as it is to be written, if it is set.
    pub(super) fn part(&self, place: &str) -> Option<WrittenValue> {
        let value = self.at(place)?.clone();
        let mut part = self.document.spellings().spelled(&value);
        for (inner, _) in self.numbers.below(place).iter() {
            let at = format!("{place}{inner}");
            if self.written_at(&at).is_some() {
                part.numbers.put(inner, self.numbers.below(&at));
            }
        }
        Some(part)
    }

    /// The arguments to send: an object even when nothing is set.
    pub fn arguments(&self) -> Value {
        self.value.clone().unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// `value` as it may be written to disk: without what the schema marks as secret.
    pub fn without_secrets(&self, mut value: Value) -> Value {
        let picks = |at: &str| row::picks(&self.decisions, at);
        strip_secrets(&self.document, &picks, &mut value);
        value
    }

    /// The visible rows.
    pub fn rows(&self) -> &[FormRow] {
        &self.rows
    }

    /// Index of the row under the cursor; [`FormState::rows`]`.len()` is the submit line.
    pub const fn cursor(&self) -> usize {
        self.cursor
    }

    /// Whether the cursor is on the submit line.
    pub fn is_on_submit(&self) -> bool {
        self.cursor >= self.rows.len()
    }

    /// The row under the cursor.
    pub fn current(&self) -> Option<&FormRow> {
        self.rows.get(self.cursor)
    }

    /// The field of a place.
    pub(super) fn field_at(&self, at: &str) -> Option<&Field> {
        self.rows.iter().filter(|row| row.pointer == at).find_map(FormRow::field)
    }

    /// All problems, in the order of the rows.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The gravest problem of a row.
    pub fn problem_at(&self, row: usize) -> Option<&Problem> {
        let from = self.problems.partition_point(|p| p.row.unwrap_or(usize::MAX) < row);
        self.problems.get(from).filter(|p| p.row == Some(row))
    }

    /// Number of problems that prevent a validated call.
    pub fn blocking(&self) -> usize {
        self.problems.iter().filter(|p| p.weight < Weight::Note).count()
    }

    /// The required fields that are not set, each by its place.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        let missing = self.problems.iter().filter(|one| one.message.as_str() == REQUIRED_WORD);
        missing.map(|one| one.pointer.trim_start_matches('/'))
    }

    /// Whether any typed text is not a value. Such a form cannot be sent even by force, because it
    /// is undefined what would be sent.
    pub fn has_drafts(&self) -> bool {
        self.problems.iter().any(|p| p.weight == Weight::Draft)
    }

    /// The JSON text of the whole value if it does not parse, and why.
    pub(super) fn broken_json(&self) -> Option<&HalfTyped> {
        self.drafts.get("").filter(|_| self.json != JsonView::Closed)
    }

    /// Whether the user changed anything.
    pub fn is_touched(&self) -> bool {
        !self.undo.is_empty() || self.has_drafts()
    }

    /// Why the schema itself cannot be used for validation, if so.
    pub fn schema_problem(&self) -> Option<&SchemaProblem> {
        self.checks.schema_problem()
    }

    /// The last verdict of the engine's validator.
    pub const fn verdict(&self) -> &SchemaVerdict {
        &self.checks.verdict
    }

    /// Whether the current value still has to be checked, by [`FormState::pending_check`].
    pub const fn is_checking(&self) -> bool {
        self.checks.is_pending()
    }

    /// Replaces the schema; the value, half-typed text and the place of the cursor stay.
    pub fn redefine(&mut self, document: SchemaDocument) {
        let (typed, json, old) = (self.half_typed(), self.json, self.editor.take());
        let here = self.current().map(|row| row.pointer.clone());
        let had_rows = !self.rows.is_empty();
        let (last, seeded) = (std::mem::take(&mut self.last), self.seeded.take());
        let (value, numbers) = (self.value.take(), std::mem::take(&mut self.numbers));
        let new = Self::build(Arc::new(document), value);
        *self = Self { now: self.now, last, seeded, numbers, ..new };
        self.type_again(typed);
        match here {
            Some(at) => self.select_place(&at),
            None if had_rows => self.select(self.rows.len()),
            None => {}
        }
        match json {
            JsonView::Focused => self.enter_json(),
            view => self.json = view,
        }
        // The cursor within the text stays as well.
        if let (Some(old), Some(new)) = (old, &mut self.editor)
            && old.pointer == new.pointer
            && old.area.lines() == new.area.lines()
        {
            *new = old;
        }
    }

    /// Takes a value edited as JSON; half-typed text stays in places whose value is unchanged.
    fn take_whole(&mut self, value: Option<Value>) {
        let (before, drafts) = (self.value.clone(), self.drafts.clone());
        self.set_value(value);
        for (place, draft) in drafts {
            if self.at(&place) == before.as_ref().and_then(|before| before.pointer(&place)) {
                self.drafts.insert(place, draft);
            }
        }
    }

    /// Replaces the whole value (paste, history). Half-typed text is dropped, because it belonged
    /// to the old value.
    pub fn set_value(&mut self, value: Option<Value>) {
        if self.value == value && self.drafts.is_empty() {
            return;
        }
        self.remember();
        self.value = value;
        self.drafts.clear();
        for decided in self.decisions.values_mut() {
            (decided.picks, decided.of_type) = (Vec::new(), None);
        }
        self.editor = None;
        self.changed();
    }

    /// A check to run on another thread; pass its result to [`FormState::checked`]. `None` while
    /// another one is running.
    pub fn pending_check(&mut self) -> Option<CheckJob> {
        let value = self.value.as_ref();
        self.checks
            .job(&self.document, || value.cloned().unwrap_or_else(|| Value::Object(Map::new())))
    }

    /// Takes the result of a check. The verdict on an outdated value, or another form, is ignored.
    pub fn checked(&mut self, found: CheckResult) {
        match self.checks.take(found) {
            Some(true) => self.collect(),
            // The schema is compiled now, so the newer value may be quick to check.
            Some(false) => self.check(),
            None => {}
        }
    }

    /// Saves the value for undo.
    pub(super) fn remember(&mut self) {
        self.typing = None;
        let known = |(value, drafts, decisions): &Earlier| {
            *value == self.value && *drafts == self.drafts && *decisions == self.decisions
        };
        if self.undo.last().is_some_and(known) || weigh(&self.value) > MAX_UNDO_BYTES {
            return;
        }
        if self.undo.len() == MAX_UNDO_STEPS {
            self.undo.remove(0);
        }
        self.undo.push((self.value.clone(), self.drafts.clone(), self.decisions.clone()));
    }

    /// The decisions about a place, to be changed.
    pub(super) fn decide(&mut self, at: &str) -> &mut FieldDecision {
        self.decisions.entry(at.to_owned()).or_default()
    }

    /// Saves the value for undo before the first key in a place, so that a typed line is one step.
    pub(super) fn remember_typing(&mut self, at: &str) {
        if self.typing.as_deref() != Some(at) {
            self.remember();
            self.typing = Some(at.to_owned());
        }
    }

    /// Updates rows and problems; must be called after any change of the value.
    pub(super) fn changed(&mut self) {
        self.checks.changed();
        self.refresh();
    }

    /// Rebuilds rows and problems; the cursor stays at its place.
    pub(super) fn refresh(&mut self) {
        let here =
            self.rows.get(self.cursor).map(|row| (row.pointer.clone(), kind_rank(&row.kind)));
        let on_submit = !self.rows.is_empty() && self.is_on_submit();
        self.rows = row::rows(&self.document, self.value.as_ref(), &self.decisions);
        self.fold_rest();
        self.cursor = match here {
            _ if on_submit => self.rows.len(),
            Some((pointer, rank)) => self.find(&pointer, rank),
            None => self.cursor.min(self.rows.len()),
        };
        self.check();
    }

    fn find(&self, pointer: &str, rank: usize) -> usize {
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

    /// Collects the problems again, for example after a draft changed.
    pub(super) fn collect(&mut self) {
        self.problems = collect(
            &self.rows,
            self.value.as_ref(),
            &self.drafts,
            &self.checks.verdict,
            &self.checks.notes,
        );
    }

    /// Whether the row under the cursor takes typed text.
    pub fn takes_text(&self) -> bool {
        self.editor.is_some() || self.popup.is_some()
    }

    /// The rows that fell back to typed JSON, by pointer, and why.
    pub fn degraded(&self) -> Vec<(&str, &str)> {
        self.rows
            .iter()
            .filter_map(|row| Some((row.pointer.as_str(), row.field()?.degraded()?.as_str())))
            .collect()
    }

    /// Whether the row is folded; `None` if it has no members.
    pub fn folded(&self, row: usize) -> Option<bool> {
        match self.rows.get(row)?.kind {
            RowKind::Field { folded, .. } => folded,
            _ => None,
        }
    }

    /// Opens and focuses the JSON, returns the focus to the fields, or closes the JSON.
    pub(super) fn toggle_json(&mut self) {
        match self.json {
            JsonView::Focused => _ = self.leave_json(),
            // Text that does not parse yet stays open until it does.
            JsonView::Open if self.broken_json().is_none() => self.json = JsonView::Closed,
            JsonView::Open | JsonView::Closed => self.enter_json(),
        }
    }

    /// Focuses the JSON, opening it if needed; JSON that is too large to be edited is only shown.
    pub fn enter_json(&mut self) {
        (self.json, self.popup) = (JsonView::Focused, None);
        self.focus();
    }

    /// Moves the focus from the JSON to the fields; returns whether the JSON had it.
    pub fn leave_json(&mut self) -> bool {
        let focused = self.json == JsonView::Focused;
        if focused {
            (self.json, self.editor) = (JsonView::Open, None);
            self.focus();
        }
        focused
    }

    /// Whether the JSON is closed, open or focused.
    pub const fn json(&self) -> JsonView {
        self.json
    }

    /// Whether what was typed as JSON in place of the fields cannot be read.
    pub fn has_broken_json(&self) -> bool {
        self.broken_json().is_some()
    }

    /// The whole value as JSON, or the text being typed in its place.
    pub fn json_text(&self) -> String {
        let whole = || pretty(self.written().as_ref());
        self.broken_json().map_or_else(whole, |json| json.text.clone())
    }

    /// Applies the whole value typed as JSON.
    pub(super) fn take_json(&mut self, text: String) {
        let editor = self.editor.take();
        self.drafts.remove("");
        let spellings = self.document.spellings();
        let parsed =
            if text.trim().is_empty() { Ok(None) } else { typed_value(&text, spellings).map(Some) };
        match parsed {
            Ok(None) => self.take_whole(None),
            Ok(Some(WrittenValue { value, numbers })) => {
                self.take_whole(Some(value));
                self.numbers = numbers;
            }
            Err(message) => {
                self.remember();
                self.drafts.insert(String::new(), HalfTyped { text, message });
            }
        }
        self.editor = editor;
        self.collect();
    }

    // Drafts: the value of a form and its half-typed text, kept for later. No I/O.

    /// The form as it may be written to disk. If the schema has secrets, half-typed text is left
    /// out, because it may contain one.
    pub fn draft(&self) -> FormDraft {
        let value = self.value.clone().map(|value| self.without_secrets(value));
        let whole = !self.document.has_secrets();
        FormDraft {
            value: value.unwrap_or_default(),
            typed: if whole { self.half_typed() } else { BTreeMap::new() },
        }
    }

    /// Restores a draft of last time.
    pub fn take_up(&mut self, draft: FormDraft) {
        if !draft.value.is_null() {
            self.set_value(Some(draft.value));
        }
        self.type_again(draft.typed);
        self.mark_as_last_time();
    }

    // What a form holds from last time: a draft of an earlier run, or the arguments of the call
    // that was just made. It is marked, and the first character typed in such a field replaces its
    // text; moving the cursor in it keeps it.

    /// Marks all that is set now as that of last time.
    pub fn mark_as_last_time(&mut self) {
        self.last = LastTime {
            value: self.value.clone(),
            typed: self.half_typed(),
            confirmed: BTreeSet::new(),
        };
        self.editor = None;
        self.focus();
    }

    /// Takes over all that is set: nothing is marked any more.
    pub fn confirm_all(&mut self) {
        self.last = LastTime::default();
        self.editor = None;
        self.focus();
    }

    /// Takes over a place, as the cursor moved in its text.
    pub(super) fn confirm(&mut self, at: &str) {
        self.last.confirmed.insert(at.to_owned());
    }

    /// Whether the value of a place is that of last time. What the form starts with anyway is not,
    /// and an object or a list is not, as its members are marked.
    pub fn is_from_last_time(&self, at: &str) -> bool {
        if self.last.confirmed.contains(at) {
            return false;
        }
        if let Some(draft) = self.drafts.get(at) {
            return self.last.typed.get(at) == Some(&draft.text);
        }
        let value = self.at(at).filter(|value| !value.is_object() && !value.is_array());
        let of =
            |whole: &Option<Value>| whole.as_ref().and_then(|whole| whole.pointer(at)).cloned();
        value.is_some()
            && value == of(&self.last.value).as_ref()
            && value != of(&self.seeded).as_ref()
    }

    /// Typed text that is not a value yet, by the JSON pointer of its field.
    pub fn half_typed(&self) -> BTreeMap<String, String> {
        let typed = self.drafts.iter().filter(|(_, half)| !half.text.is_empty());
        typed.map(|(at, half)| (at.clone(), half.text.clone())).collect()
    }

    /// Restores half-typed text; fields that are gone or have another type now are skipped.
    pub fn type_again(&mut self, typed: BTreeMap<String, String>) {
        for (at, text) in typed {
            if at.is_empty() && self.field_at("").is_none() {
                self.enter_json();
                self.replace_text(&text);
                continue;
            }
            let field = self.field_at(&at);
            let edits = field.and_then(|field| Edits::from_kind(&field.kind));
            if let Some(edits @ (Edits::Number | Edits::Json)) = edits {
                self.take_typed(&at, edits, text);
            }
        }
        self.editor = None;
        self.focus();
    }

    // State kept by place (half-typed text, choices, folds) must follow when items move or keys are
    // renamed. Otherwise text typed in one item would show up in another, and the part of it that
    // happened to be a value would be sent.

    /// Updates places after items of a list moved; `to` maps the old index to the new one.
    pub(super) fn items_moved(&mut self, list: &str, to: impl Fn(usize) -> usize) {
        self.places_moved(|place| {
            let below = place.strip_prefix(list).and_then(|rest| rest.strip_prefix('/'));
            let (token, rest) = match below {
                Some(below) => below.split_at(below.find('/').unwrap_or(below.len())),
                None => return Some(place.to_owned()),
            };
            let Ok(index) = token.parse::<usize>() else { return Some(place.to_owned()) };
            Some(format!("{list}/{}{rest}", to(index)))
        });
    }

    /// Updates places after a key was renamed.
    pub(super) fn place_renamed(&mut self, at: &str, new: &str) {
        self.places_moved(|place| {
            let rest = place.strip_prefix(at).filter(|_| pointer::is_within(place, at));
            Some(rest.map_or_else(|| place.to_owned(), |rest| format!("{new}{rest}")))
        });
    }

    /// Drops the state of a removed place and everything below it.
    pub(super) fn place_gone(&mut self, at: &str) {
        self.places_moved(|place| (!pointer::is_within(place, at)).then(|| place.to_owned()));
    }

    /// Copies half-typed text of an item to its duplicate.
    pub(super) fn drafts_copied(&mut self, from: &str, to: &str) {
        let inside = self.drafts.iter().filter(|(place, _)| pointer::is_within(place, from));
        let copies: Vec<_> =
            inside.map(|(place, d)| (format!("{to}{}", &place[from.len()..]), d.clone())).collect();
        self.drafts.extend(copies);
    }

    /// Drops half-typed text within a place, together with the values it left behind, which must
    /// not be sent instead.
    pub(super) fn drop_drafts(&mut self, at: &str) {
        let within = |place: &&String| pointer::is_within(place, at);
        let places: Vec<String> = self.drafts.keys().filter(within).cloned().collect();
        for place in places {
            self.drafts.remove(&place);
            let parent = pointer::split(&place).map(|(parent, _)| parent);
            let parent = parent.and_then(|parent| self.at(parent));
            if parent.is_some_and(Value::is_object) {
                pointer::remove(&mut self.value, &place);
            }
        }
    }

    /// Creates missing objects above a place with their constants.
    pub(super) fn begin_above(&mut self, at: &str) {
        for (end, _) in at.match_indices('/').skip(1) {
            let above = &at[..end];
            if self.at(above).is_some() {
                continue;
            }
            let Some(field) = self.field_at(above) else { continue };
            let constants = constants(&self.document, &field.merged);
            if !constants.is_empty() {
                pointer::set(&mut self.value, above, Value::Object(constants));
            }
        }
    }

    fn places_moved(&mut self, to: impl Fn(&str) -> Option<String>) {
        fn keyed<T>(map: &mut BTreeMap<String, T>, to: impl Fn(&str) -> Option<String>) {
            let moved = std::mem::take(map).into_iter();
            map.extend(moved.filter_map(|(place, kept)| Some((to(&place)?, kept))));
        }
        keyed(&mut self.drafts, &to);
        keyed(&mut self.decisions, &to);
        self.editor = None;
    }
}

/// Distinguishes the rows of one place.
const fn kind_rank(kind: &RowKind) -> usize {
    match kind {
        RowKind::Field { .. } => 0,
        RowKind::AddItem | RowKind::AddKey => 1,
        RowKind::More { .. } | RowKind::Rest { .. } => 2,
        RowKind::Choice { slot, .. } => slot.saturating_add(3),
    }
}

#[cfg(test)]
mod keep_tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::action::Action;

    fn again(schema: &Arc<Value>, draft: &FormDraft) -> FormState {
        // A round trip through JSON, as when it is loaded from disk.
        let text = serde_json::to_string(draft).expect("writes");
        let mut form = FormState::new(schema, Defaults::Required);
        form.take_up(serde_json::from_str(&text).expect("reads"));
        form
    }

    fn typed(schema: &Arc<Value>, script: &str) -> FormState {
        let mut form = FormState::new(schema, Defaults::Required);
        for c in script.chars() {
            let code = if c == '\t' {
                crossterm::event::KeyCode::Tab
            } else {
                crossterm::event::KeyCode::Char(c)
            };
            if !form.type_key(code.into()) {
                form.apply(Action::NextField);
            }
        }
        form
    }

    #[test]
    fn text_that_is_no_value_comes_back_as_it_was_typed_and_is_still_a_problem() {
        let schema = Arc::new(json!({"properties": {
            "name": {"type": "string"}, "n": {"type": "integer"}, "any": {"not": {"const": 1}}}}));
        let form = typed(&schema, "Ada\t12a\t{\"x\":");
        assert!(form.has_drafts());
        let draft = form.draft();
        assert_eq!(draft.value, json!({"name": "Ada", "n": 12}));
        let mut back = again(&schema, &draft);
        assert_eq!((back.draft(), back.problems()), (draft, form.problems()));
        back.select(1);
        assert_eq!(back.editor.as_ref().map(|e| e.area.lines().join("")), Some("12a".to_owned()));
        back.type_key(crossterm::event::KeyCode::Backspace.into());
        assert!(!back.problems().iter().any(|problem| problem.pointer == "/n"));
    }

    #[test]
    fn json_that_is_half_typed_comes_back_open() {
        let schema = Arc::new(json!({"properties": {"a": {"type": "string"}}}));
        let mut form = typed(&schema, "x");
        form.toggle_json();
        form.replace_text("{\"a\": \"y");
        let back = again(&schema, &form.draft());
        assert_eq!(back.arguments(), json!({"a": "x"}));
        assert_eq!((back.json(), &*back.json_text()), (JsonView::Focused, "{\"a\": \"y"));
        assert!(back.has_drafts());
    }

    #[test]
    fn of_a_schema_with_secrets_only_values_are_kept() {
        let schema = Arc::new(json!({"properties": {
            "pin": {"type": "integer", "writeOnly": true}, "n": {"type": "integer"}}}));
        let draft = typed(&schema, "12x\t7").draft();
        assert_eq!(draft, json!({"n": 7}).into());
    }

    #[test]
    fn what_was_typed_for_a_field_that_is_another_one_now_is_let_go() {
        let was = Arc::new(json!({"properties": {"n": {"type": "integer"}}}));
        let is = Arc::new(json!({"properties": {"n": {"type": "boolean"}}}));
        let back = again(&is, &typed(&was, "x").draft());
        assert!(!back.has_drafts());
    }
}
