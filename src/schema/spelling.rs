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
        Self(found)
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
