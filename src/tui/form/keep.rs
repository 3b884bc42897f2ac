//! What is kept of a form for later: its value, and what was typed that is no value yet. Does no I/O.

use std::collections::BTreeMap;

use super::field::FieldKind;
use super::input::Edits;
use super::row::RowKind;
use super::state::{Draft as Half, FormState};
use crate::deck::drafts::Draft;

impl FormState {
    /// The form as it may be written to disk. Of a schema with secrets only values are kept: of text
    /// that is no value yet nobody knows what it holds.
    pub fn draft(&self) -> Draft {
        let value = self.value.clone().map(|value| self.without_secrets(value));
        let whole = !self.document.has_secrets();
        let json = self.json.as_ref().filter(|json| whole && json.problem().is_some());
        Draft {
            value: value.unwrap_or_default(),
            typed: if whole { self.half_typed() } else { BTreeMap::new() },
            json: json.map(|json| json.area.lines().join("\n")),
        }
    }

    /// Goes on where a draft was left.
    pub fn take_up(&mut self, draft: Draft) {
        if !draft.value.is_null() {
            self.set_value(Some(draft.value));
        }
        self.type_again(draft.typed);
        if let Some(text) = draft.json {
            self.toggle_json();
            self.replace_json(&text);
        }
    }

    /// What was typed and is no value, by the JSON pointer of its field.
    pub fn half_typed(&self) -> BTreeMap<String, String> {
        let half = |(at, half): (&String, &Half)| {
            (!half.message.is_empty() && !half.text.is_empty())
                .then(|| (at.clone(), half.text.clone()))
        };
        self.drafts.iter().filter_map(half).collect()
    }

    /// Types what was typed before; fields that are gone, or take something else now, stay as they
    /// are.
    pub fn type_again(&mut self, typed: BTreeMap<String, String>) {
        for (at, text) in typed {
            let field = self.rows.iter().find_map(|row| match &row.kind {
                RowKind::Field { field, .. } if row.pointer == at => Some(&field.kind),
                _ => None,
            });
            let edits = match field {
                Some(FieldKind::Number { .. }) => Edits::Number,
                Some(FieldKind::Json(_)) => Edits::Json,
                _ => continue,
            };
            self.take_typed(&at, edits, text);
        }
        let here = self.cursor;
        self.editor = None;
        self.select(here);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::tui::action::Action;
    use crate::tui::form::Defaults;

    fn again(schema: &Arc<Value>, draft: &Draft) -> FormState {
        // As it comes back from the disk.
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
        form.replace_json("{\"a\": \"y");
        let back = again(&schema, &form.draft());
        assert_eq!(back.arguments(), json!({"a": "x"}));
        let json = back.json().expect("open");
        assert_eq!(json.area.lines(), ["{\"a\": \"y"]);
        assert!(json.problem().is_some() && back.has_drafts());
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
