//! Numbers of a schema as its author wrote them: `1e3`, and those that a double cannot hold. Found by
//! their value, so that a default or a choice is shown and sent as written wherever it is put. Pure.

use std::collections::HashMap;

use serde_json::{Number, Value};

use base::pointer::child_pointer;
use base::text::json::{WrittenNumbers, WrittenValue, exact_form, plain};

/// Numbers as they are written, by what parsing makes of them.
#[derive(Clone, Debug, Default)]
pub struct Spellings(HashMap<String, Option<String>>);

impl Spellings {
    /// The spellings of the numbers of a value. Of numbers that a double cannot tell apart, none.
    pub fn new(value: &Value, numbers: &WrittenNumbers) -> Self {
        let mut found: HashMap<String, Option<String>> = HashMap::new();
        for (place, written) in numbers.iter() {
            let Some(number) = value.pointer(place).and_then(Value::as_number) else { continue };
            let known = found.entry(number.to_string()).or_insert_with(|| Some(written.to_owned()));
            if known.as_ref().is_some_and(|known| exact_form(known) != exact_form(written)) {
                *known = None;
            }
        }
        if !found.is_empty() {
            retract(value, "", numbers, &mut found);
        }
        Self(found)
    }

    /// Whether every number is written as its value spells it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How a number is written, if that is not how its value is spelled.
    pub fn written(&self, number: &Number) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&number.to_string())?.as_deref()
    }

    /// A value for display: text without quotes, numbers as they are written.
    pub fn plain(&self, value: &Value) -> String {
        match value {
            Value::String(_) | Value::Null | Value::Bool(_) => plain(value),
            _ => self.spelled(value).to_string(),
        }
    }

    /// A value with its numbers as they are written here.
    pub fn spelled(&self, value: &Value) -> WrittenValue {
        let mut spelled = WrittenValue::from(value.clone());
        if !self.0.is_empty() {
            self.spell(value, "", &mut spelled.numbers);
        }
        spelled
    }

    fn spell(&self, value: &Value, place: &str, numbers: &mut WrittenNumbers) {
        match value {
            Value::Number(number) => {
                let written = self.written(number).and_then(|it| WrittenValue::parse(it).ok());
                if let Some(written) = written {
                    numbers.put(place, written.numbers);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.spell(item, &format!("{place}/{index}"), numbers);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    self.spell(member, &child_pointer(place, key), numbers);
                }
            }
            Value::String(_) | Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Takes back the spellings of numbers that also stand somewhere as their values spell them: there
/// they are others.
fn retract(
    value: &Value,
    place: &str,
    numbers: &WrittenNumbers,
    found: &mut HashMap<String, Option<String>>,
) {
    match value {
        Value::Number(number) if numbers.written(place, number).is_none() => {
            let spelled = number.to_string();
            if let Some(known) = found.get_mut(&spelled)
                && known.as_ref().is_some_and(|it| exact_form(it) != exact_form(&spelled))
            {
                *known = None;
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                retract(item, &format!("{place}/{index}"), numbers, found);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                retract(member, &child_pointer(place, key), numbers, found);
            }
        }
        Value::Number(_) | Value::String(_) | Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{SchemaDocument, signature};

    #[test]
    fn the_words_of_a_schema_hold_its_numbers_as_they_are_written() {
        let text = r#"{"type":"object","properties":{
            "way":{"enum":[1e3,1e-400,"1e3"]},
            "big":{"enum":[123456789012345678901234567890,123456789012345678901234567891]}}}"#;
        let WrittenValue { value, numbers } = WrittenValue::parse(text).expect("JSON");
        let document = SchemaDocument::written(&Arc::new(value), &numbers);
        let words = signature(&document);
        assert!(words.contains("1e3 | 1e-400 | \"1e3\""), "{words}");
        // Of two that a double cannot tell apart, neither is given for the other.
        assert!(!words.contains("1234567890123456789"), "{words}");
        let spelled = document.spellings().spelled(&json!({"a": [1000.0, 1000, 0.0]}));
        assert_eq!(spelled.to_string(), r#"{"a":[1e3,1000,1e-400]}"#);
        // Where zero stands as well, it stays zero.
        let text = r#"{"enum":[1e3,1e-400],"default":0.0,"examples":[1000.0]}"#;
        let WrittenValue { value, numbers } = WrittenValue::parse(text).expect("JSON");
        let spellings = Spellings::new(&value, &numbers);
        assert_eq!(spellings.spelled(&json!([1000.0, 0.0])).to_string(), "[1e3,0.0]");
    }
}
