//! Values that are smaller than one, to find the least that still shows what is wrong.

use serde_json::Value;

/// Values that are smaller than one: shorter texts and lists, numbers nearer to zero.
pub(super) fn smaller_values(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) if text.chars().count() > 1 => {
            let many = text.chars().count();
            let half = many / 2;
            vec![
                Value::String(text.chars().take(half).collect()),
                Value::String(text.chars().skip(half).collect()),
                Value::String(text.chars().take(many - 1).collect()),
            ]
        }
        Value::Number(number) => {
            let Some(number) = number.as_i64().filter(|number| number.abs() > 1) else {
                return Vec::new();
            };
            vec![Value::from(number / 2), Value::from(number - number.signum())]
        }
        Value::Array(items) if items.len() > 1 => {
            let half = items.len() / 2;
            vec![
                Value::Array(items[..half].to_vec()),
                Value::Array(items[half..].to_vec()),
                Value::Array(items[..items.len() - 1].to_vec()),
            ]
        }
        nested => {
            let levels = nested_levels(nested);
            let less = [levels / 2, levels / 2 + 1, 2, 1].into_iter().filter(|it| *it < levels);
            less.filter_map(|less| inner_value(nested, less)).cloned().collect()
        }
    }
}

/// How many levels of a value are a list of one item, or an object with one member.
fn nested_levels(value: &Value) -> usize {
    std::iter::successors(Some(value), |value| inner_value(value, 1)).count() - 1
}

/// The value so many levels below one, through lists of one item and objects with one member.
fn inner_value(value: &Value, levels: usize) -> Option<&Value> {
    (0..levels).try_fold(value, |value, _| match value {
        Value::Array(items) if items.len() == 1 => items.first(),
        Value::Object(map) if map.len() == 1 => map.values().next(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_become_smaller_until_nothing_is_left_to_take() {
        assert_eq!(smaller_values(&json!("abcd")), [json!("ab"), json!("cd"), json!("abc")]);
        assert_eq!(smaller_values(&json!(9)), [json!(4), json!(8)]);
        assert_eq!(smaller_values(&json!([1, 2])), [json!([1]), json!([2]), json!([1])]);
        assert_eq!(smaller_values(&json!("a")), Vec::<Value>::new());
        let nested = json!([{"a": [{"a": 1}]}]);
        let smaller =
            [json!([{"a": 1}]), json!({"a": 1}), json!([{"a": 1}]), json!({"a": [{"a": 1}]})];
        assert_eq!(smaller_values(&nested), smaller);
        assert_eq!(smaller_values(&json!({"a": 1, "b": 2})), Vec::<Value>::new());
    }
}
