//! Checking the value of a form against its schema: inline if that is provably fast, otherwise as a
//! job for another thread. What the engine would reject is a violation; a wrong format in a dialect
//! where formats are only annotations is a note. Does no I/O.

use std::collections::{BTreeMap, HashMap};
use std::iter::successors;

use crate::form::row::{Field, FormRow, RowKind};
use crate::prelude::*;
use base::{Violation, pointer};
use schema::{Formats, SchemaDocument, SchemaLimits, SchemaProblem, SchemaVerdict, Validator};

/// Schemas with at most this many sub-schemas are compiled when the form is built, which takes
/// less than a millisecond. Larger ones are compiled by the first job.
const MAX_EAGER_SCHEMAS: usize = 150;

/// The two validators of a schema: the engine's, and one that asserts formats.
type Pair = (Result<Validator, SchemaProblem>, Option<Validator>);

fn compile(schema: &Value, limits: SchemaLimits) -> Pair {
    let engine = Validator::compile_with(schema, Formats::Dialect, limits);
    let strict = engine
        .as_ref()
        .ok()
        .and_then(|_| Validator::compile_with(schema, Formats::Assert, limits).ok());
    (engine, strict)
}

/// The results of checking the value of a form.
#[derive(Default)]
pub(super) struct Checks {
    pub(super) limits: SchemaLimits,
    compiled: Option<Arc<Pair>>,
    pub(super) verdict: SchemaVerdict,
    pub(super) notes: Vec<Violation>,
    revision: u64,
    checked: u64,
    in_flight: bool,
    /// Distinguishes the jobs of this form from those of an earlier one.
    mine: Arc<()>,
}

/// A check that is too slow for the UI thread.
#[derive(Clone, Debug)]
pub struct CheckJob {
    whose: Arc<()>,
    revision: u64,
    schema: Arc<Value>,
    limits: SchemaLimits,
    compiled: Option<Arc<Pair>>,
    value: Value,
}

/// The result of a [`CheckJob`].
#[derive(Clone, Debug)]
pub struct CheckResult {
    whose: Arc<()>,
    revision: u64,
    compiled: Arc<Pair>,
    verdict: SchemaVerdict,
    notes: Vec<Violation>,
}

/// Two jobs are equal if they check the same revision and value against the same schema.
impl PartialEq for CheckJob {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision && self.schema == other.schema && self.value == other.value
    }
}

impl CheckJob {
    /// Compiles the schema if needed and checks the value. Blocks for at most about four times
    /// [`SchemaLimits::time`]: two compilations, two checks.
    pub fn run(self) -> CheckResult {
        let compiled =
            self.compiled.unwrap_or_else(|| Arc::new(compile(&self.schema, self.limits)));
        let (verdict, notes) = judged(&compiled, |validator| Some(validator.check(&self.value)));
        let verdict = verdict.unwrap_or(SchemaVerdict::Valid);
        CheckResult { whose: self.whose, revision: self.revision, compiled, verdict, notes }
    }
}

/// Runs `check` with both validators; returns the verdict and the notes.
fn judged(
    compiled: &Pair,
    check: impl Fn(&Validator) -> Option<SchemaVerdict>,
) -> (Option<SchemaVerdict>, Vec<Violation>) {
    let (engine, strict) = compiled;
    let verdict = match engine {
        Err(problem) => Some(SchemaVerdict::Unknown(problem.message.clone())),
        Ok(engine) => check(engine),
    };
    match strict.as_ref().filter(|_| verdict.is_some()).and_then(check) {
        Some(SchemaVerdict::Invalid(notes)) => (verdict, notes),
        _ => (verdict, Vec::new()),
    }
}

impl Checks {
    pub(super) fn new(document: &SchemaDocument, limits: SchemaLimits) -> Self {
        let small = document.subschemas() <= MAX_EAGER_SCHEMAS;
        Self {
            limits,
            compiled: small.then(|| Arc::new(compile(document.raw(), limits))),
            revision: 1,
            ..Self::default()
        }
    }

    /// Marks the value as changed.
    pub(super) fn changed(&mut self) {
        self.revision += 1;
    }

    /// Checks inline if that is provably fast; otherwise the last verdict is kept until a job has
    /// run.
    pub(super) fn check_quickly(&mut self, value: &Value) {
        let Some(compiled) = self.compiled.clone() else { return };
        let quick = |validator: &Validator| validator.check_in_place(value);
        if let (Some(verdict), notes) = judged(&compiled, quick) {
            (self.verdict, self.notes) = (verdict, notes);
            self.checked = self.revision;
        }
    }

    /// Whether the current value has not been checked yet.
    pub(super) const fn is_pending(&self) -> bool {
        self.checked != self.revision
    }

    /// A job for another thread, one at a time; pass its result to [`Checks::take`].
    pub(super) fn job(
        &mut self,
        document: &SchemaDocument,
        value: impl FnOnce() -> Value,
    ) -> Option<CheckJob> {
        if !self.is_pending() || self.in_flight {
            return None;
        }
        self.in_flight = true;
        Some(CheckJob {
            whose: Arc::clone(&self.mine),
            revision: self.revision,
            schema: Arc::clone(document.raw()),
            limits: self.limits,
            compiled: self.compiled.clone(),
            value: value(),
        })
    }

    /// Takes a job's result; returns whether the value is current, `None` for another form's job.
    pub(super) fn take(&mut self, found: CheckResult) -> Option<bool> {
        if !Arc::ptr_eq(&self.mine, &found.whose) {
            return None;
        }
        self.in_flight = false;
        self.compiled.get_or_insert(found.compiled);
        let current = found.revision == self.revision;
        if current {
            self.checked = found.revision;
            self.verdict = found.verdict;
            self.notes = found.notes;
        }
        Some(current)
    }

    pub(super) fn schema_problem(&self) -> Option<&SchemaProblem> {
        self.compiled.as_deref().and_then(|(engine, _)| engine.as_ref().err())
    }
}

// Problems of a form: violations found by the engine's validator, half-typed text, and wrong
// formats, each at its row. Pure.

/// Half-typed text: text that is not a value yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HalfTyped {
    /// As typed.
    pub text: String,
    /// Why it is not a value.
    pub message: String,
}

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Half-typed text: the form cannot be sent at all.
    Draft,
    /// The engine would reject it; it can be sent by force.
    Violation,
    /// Only a warning; the form can be sent.
    Note,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer of its place.
    pub pointer: String,
    /// What is wrong, in words.
    pub message: SafeText,
    /// Its severity.
    pub weight: Weight,
    /// The row that shows it, if any.
    pub row: Option<usize>,
}

/// What is said of a required place that is not set.
pub const REQUIRED_WORD: &str = "required";

/// Collects problems from drafts, verdict and notes, in the order of the rows.
pub fn collect(
    rows: &[FormRow],
    value: Option<&Value>,
    drafts: &BTreeMap<String, HalfTyped>,
    verdict: &SchemaVerdict,
    notes: &[Violation],
) -> Vec<Problem> {
    let shown = shown(rows);
    let at = |pointer: &str, message: SafeText, weight| Problem {
        // The row of the place, or that of its nearest visible parent.
        row: successors(Some(pointer), |at| at.rsplit_once('/').map(|(parent, _)| parent))
            .find_map(|at| shown.get(at).copied()),
        pointer: pointer.to_owned(),
        message,
        weight,
    };
    let mut all: Vec<Problem> = drafts
        .iter()
        .map(|(pointer, draft)| at(pointer, SafeText::line(&draft.message), Weight::Draft))
        .collect();
    let violations = match verdict {
        SchemaVerdict::Invalid(violations) => violations.as_slice(),
        _ => &[],
    };
    for violation in violations {
        // The half-typed text at this place is already reported.
        if drafts.contains_key(&violation.pointer) {
            continue;
        }
        let missing = missing_below(rows, value, violation);
        if missing.is_empty() {
            let row = shown.get(&*violation.pointer).and_then(|row| rows.get(*row));
            all.push(at(&violation.pointer, words(violation, row), Weight::Violation));
        }
        let required = |pointer| at(pointer, SafeText::line(REQUIRED_WORD), Weight::Violation);
        all.extend(missing.into_iter().map(required));
    }
    for note in notes {
        if !violations.contains(note) {
            let row = shown.get(&*note.pointer).and_then(|row| rows.get(*row));
            all.push(at(&note.pointer, words(note, row), Weight::Note));
        }
    }
    if let SchemaVerdict::Unknown(reason) = verdict {
        let message = SafeText::line(&format!("cannot be checked: {reason}"));
        all.push(Problem { pointer: String::new(), message, weight: Weight::Violation, row: None });
    }
    all.sort_by_key(|p| (p.row.unwrap_or(usize::MAX), p.weight));
    all
}

/// For a value that fits no alternative: the unset required fields of the one that is shown. They
/// are reported first; the violation of the union itself only once all of them are set.
fn missing_below<'a>(
    rows: &'a [FormRow],
    value: Option<&Value>,
    violation: &Violation,
) -> Vec<&'a str> {
    if !matches!(&*violation.keyword, "oneOf" | "anyOf") {
        return Vec::new();
    }
    rows.iter()
        .filter(|row| pointer::is_within(&row.pointer, &violation.pointer))
        .filter(|row| row.required && row.pointer != violation.pointer)
        .filter(|row| matches!(row.kind, RowKind::Field { .. }))
        .filter(|row| value.and_then(|value| value.pointer(&row.pointer)).is_none())
        .map(|row| row.pointer.as_str())
        .collect()
}

/// A violation in words; instead of a pattern, a text that matches it.
fn words(violation: &Violation, row: Option<&FormRow>) -> SafeText {
    if violation.keyword == "required" {
        return SafeText::line(REQUIRED_WORD);
    }
    if violation.keyword == "pattern"
        && let Some(example) = row.and_then(FormRow::field).and_then(Field::example)
    {
        return SafeText::line(&format!("must look like {example}"));
    }
    SafeText::line(&violation.message)
}

/// The row that shows each place, by JSON pointer.
fn shown(rows: &[FormRow]) -> HashMap<&str, usize> {
    let mut shown = HashMap::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        match row.kind {
            // The field row of a place takes precedence over its choice row.
            RowKind::Field { .. } => _ = shown.insert(row.pointer.as_str(), i),
            RowKind::Choice { .. } => _ = shown.entry(row.pointer.as_str()).or_insert(i),
            _ => {}
        }
    }
    shown
}
