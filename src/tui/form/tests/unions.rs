//! Problems of unions are shown at the fields to fill in.

use super::*;

#[test]
fn of_the_alternative_that_is_shown_the_missing_fields_are_marked_themselves() {
    let shape = |kind: &str, size: &str| {
        json!({"type": "object", "required": ["kind", size],
            "properties": {"kind": {"const": kind}, size: {"type": "number", "minimum": 1}}})
    };
    let schema = json!({"type": "object", "properties": {"shape":
        {"oneOf": [shape("circle", "r"), shape("square", "side")]}}});
    let mut form =
        FormState::with_value(&Arc::new(schema), Some(json!({"shape": {"kind": "square"}})));
    let problems_of = |form: &FormState| {
        form.problems()
            .iter()
            .map(|p| (p.pointer.clone(), p.message.to_string()))
            .collect::<Vec<_>>()
    };
    assert_eq!(problems_of(&form), [("/shape/side".to_owned(), "required".to_owned())]);
    form.apply(Action::NextProblem);
    press(&mut form, "0");
    let problems = problems_of(&form);
    assert!(problems.iter().all(|(_, message)| message != "required"), "{problems:?}");
    assert!(!problems.is_empty());
    press(&mut form, "<backspace>2");
    assert_eq!(problems_of(&form), []);
}
