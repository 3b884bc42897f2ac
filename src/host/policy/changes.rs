//! What the policy service changed of an operation. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::SafeText;
use protocol::every_difference;

/// Longest pointer that is listed, in characters: callers and servers choose the names in it.
const MAX_PLACE_CHARS: usize = 300;

/// What the policy service changed of an operation: JSON pointers of the places that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServiceChanges {
    /// In the arguments that the caller gave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// In the result of the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub result: Vec<String>,
}

impl ServiceChanges {
    /// Most places that are listed one by one.
    const MAX_LISTED_PLACES: usize = 16;

    /// Whether it changed nothing.
    pub fn is_empty(&self) -> bool {
        self.arguments.is_empty() && self.result.is_empty()
    }

    /// What it changed, in words: `arguments /city; result /content/0/text`. Empty for nothing.
    pub fn words(&self) -> String {
        let list = |what: &str, places: &[String]| {
            let shown =
                |place: &String| if place.is_empty() { "(whole)".into() } else { place.clone() };
            let places: Vec<String> = places.iter().map(shown).collect();
            (!places.is_empty()).then(|| format!("{what} {}", places.join(", ")))
        };
        let both = [list("arguments", &self.arguments), list("result", &self.result)];
        both.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// The places where two values differ: some of them, when there are very many.
    pub(crate) fn places(before: &Value, after: &Value) -> Vec<String> {
        let changed = every_difference(before, after);
        let listed = changed.iter().take(Self::MAX_LISTED_PLACES);
        let mut places: Vec<String> = listed
            .map(|change| SafeText::cut(&change.pointer, MAX_PLACE_CHARS).to_string())
            .collect();
        if let Some(more) = changed.len().checked_sub(Self::MAX_LISTED_PLACES).filter(|m| *m > 0) {
            places.push(format!("and {more} more"));
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn places_are_listed_up_to_a_limit() {
        let places =
            ServiceChanges::places(&json!({"a": 1, "b": [1, 2]}), &json!({"a": 1, "b": [1, 3]}));
        assert_eq!(places, ["/b/1"]);
        let many: serde_json::Map<String, Value> =
            (0..40).map(|n| (format!("k{n:02}"), json!(n))).collect();
        let arguments = ServiceChanges::places(&json!({}), &Value::Object(many));
        assert_eq!((arguments.len(), arguments[16].as_str()), (17, "and 24 more"));
        let changes = ServiceChanges { arguments: places, result: vec![String::new()] };
        assert_eq!(changes.words(), "arguments /b/1; result (whole)");
        assert!(ServiceChanges::default().is_empty());
    }
}
