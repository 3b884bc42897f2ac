//! Structured results after they came, against `outputSchema` (requirement R3).

use crate::error::Violation;
use crate::host::operation::Operation;
use crate::host::server::slot::Live;
use crate::host::validate::{Limits, Verdict};
use crate::mcp::Payload;
use crate::mcp::capabilities::Tool;
use crate::mcp::payload::Cut;

impl Operation {
    /// Where `structuredContent` does not fit `outputSchema`. Of a large answer the beginning is
    /// checked, and that is said.
    pub(super) async fn check_output(
        &self,
        live: &Live,
        tool: &Tool,
        result: &Payload,
    ) -> Vec<Violation> {
        let Some(schema) = &tool.output_schema else { return Vec::new() };
        let whole = |message: String, keyword: &str| {
            vec![Violation { pointer: String::new(), message, keyword: keyword.to_owned() }]
        };
        let cut = result.cut().and_then(Cut::of_structured);
        let Some(content) = result.get("structuredContent") else {
            if result.cut().is_some() {
                return whole("too large to be checked".to_owned(), "unknown");
            }
            let message = "no `structuredContent`, although the tool has an `outputSchema`";
            return whole(message.to_owned(), "required");
        };
        let limits = Limits::from(&live.config.content);
        let validator = self.deck.validators.get_async(schema, limits).await;
        let validator = match validator.as_ref() {
            Err(problem) => {
                return whole(format!("`outputSchema` is unusable: {problem}"), "schema");
            }
            Ok(validator) => validator,
        };
        let mut violations = match validator.check_async(content).await {
            Verdict::Valid => Vec::new(),
            Verdict::Invalid(violations) => violations,
            Verdict::Unknown(why) => whole(why, "unknown"),
        };
        if let Some(cut) = cut {
            violations.retain(|violation| !may_cause(&cut, violation));
            violations.push(unchecked(&cut));
        }
        violations
    }
}

/// Whether children that were not taken can be the reason.
fn may_cause(cut: &Cut, violation: &Violation) -> bool {
    let above = |place: &String| {
        let rest = place.strip_prefix(violation.pointer.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let whatever_follows = matches!(
        &*violation.keyword,
        "type"
            | "maxItems"
            | "maxProperties"
            | "additionalProperties"
            | "propertyNames"
            | "uniqueItems"
            | "additionalItems"
            | "items"
    );
    !whatever_follows && cut.places.iter().any(above)
}

/// Says how far the check went.
fn unchecked(cut: &Cut) -> Violation {
    let message = format!(
        "too large to be checked whole: the first {} of {} are, the rest is not",
        cut.taken, cut.of
    );
    Violation { pointer: cut.most.clone(), message, keyword: "unknown".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_missing_children_may_cause_is_not_held_against_the_server() {
        let places = vec!["/items/7".to_owned(), "/items".to_owned(), String::new()];
        let cut = Cut { places, most: "/items".to_owned(), taken: 7, of: 90 };
        let found = |pointer: &str, keyword: &str| Violation {
            pointer: pointer.to_owned(),
            message: String::new(),
            keyword: keyword.to_owned(),
        };
        for blamed in [("", "required"), ("/items", "minItems"), ("/items/7", "anyOf")] {
            assert!(may_cause(&cut, &found(blamed.0, blamed.1)), "{blamed:?}");
        }
        for real in
            [("", "type"), ("/items/3", "required"), ("/items/3/id", "type"), ("/it", "anyOf")]
        {
            assert!(!may_cause(&cut, &found(real.0, real.1)), "{real:?}");
        }
        let told = unchecked(&cut);
        assert_eq!((told.pointer.as_str(), told.keyword.as_str()), ("/items", "unknown"));
        assert!(told.message.contains("first 7 of 90"), "{}", told.message);
    }
}
