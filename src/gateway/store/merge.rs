//! Three-way merge of two changed copies of a JSON file and their common base. Pure.

use serde_json::{Map, Value};

/// Merges the copies. A change or removal in only one copy is taken over. If both changed a value,
/// the larger number wins, else `theirs` (the store). Lists of entries with an `id` are merged by
/// entry; a new entry of `mine` whose id is also new in `theirs` gets the next free id.
pub(super) fn merge(base: &Value, mine: &Value, theirs: &Value) -> Value {
    if mine == theirs || theirs == base {
        return mine.clone();
    }
    match (mine, theirs) {
        _ if mine == base => theirs.clone(),
        (Value::Object(mine), Value::Object(theirs)) => {
            let none = Map::new();
            let mut all = maps(base.as_object().unwrap_or(&none), mine, theirs);
            // `next` is the id of the newest entry.
            let newest = all.get("grants").and_then(newest);
            if let (Some(next), Some(newest)) = (all.get_mut("next"), newest) {
                *next = next.as_u64().unwrap_or_default().max(newest).into();
            }
            Value::Object(all)
        }
        (Value::Array(mine), Value::Array(theirs)) => {
            let base = base.as_array().map_or(&[][..], Vec::as_slice);
            match (by_id(base), by_id(mine), by_id(theirs)) {
                (Some(base), Some(mine), Some(theirs)) => entries(&base, mine, &theirs),
                _ => Value::Array(theirs.clone()),
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() > b.as_f64() => mine.clone(),
        _ => theirs.clone(),
    }
}

fn maps(
    base: &Map<String, Value>,
    mine: &Map<String, Value>,
    theirs: &Map<String, Value>,
) -> Map<String, Value> {
    let added = mine.keys().filter(|key| !theirs.contains_key(*key));
    let joined = |key: &String| {
        let was = base.get(key);
        let value = match (mine.get(key), theirs.get(key)) {
            (Some(mine), Some(theirs)) => merge(was.unwrap_or(&Value::Null), mine, theirs),
            // A key missing from one copy but present in the base was removed there.
            (Some(one), None) | (None, Some(one)) if was.is_none() => one.clone(),
            _ => return None,
        };
        Some((key.clone(), value))
    };
    theirs.keys().chain(added).filter_map(joined).collect()
}

/// The entries by `id`; `None` if any lacks one.
fn by_id(list: &[Value]) -> Option<Map<String, Value>> {
    list.iter().map(|entry| Some((entry.get("id")?.to_string(), entry.clone()))).collect()
}

fn entries(
    base: &Map<String, Value>,
    mut mine: Map<String, Value>,
    theirs: &Map<String, Value>,
) -> Value {
    let twice = |(id, entry): &(&String, &Value)| {
        !base.contains_key(*id) && theirs.get(*id).is_some_and(|other| other != *entry)
    };
    let twice: Vec<String> = mine.iter().filter(twice).map(|(id, _)| id.clone()).collect();
    let lists = [&mine, theirs].map(|list| Value::Array(list.values().cloned().collect()));
    let mut last = lists.iter().filter_map(newest).max().unwrap_or_default();
    for id in twice {
        let Some(mut entry) = mine.shift_remove(&id) else { continue };
        last += 1;
        entry["id"] = last.into();
        mine.insert(last.to_string(), entry);
    }
    Value::Array(maps(base, &mine, theirs).into_iter().map(|(_, entry)| entry).collect())
}

/// The largest numeric id in a list.
fn newest(list: &Value) -> Option<u64> {
    list.as_array()?.iter().filter_map(|entry| entry["id"].as_u64()).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn grants(ids: &[(u64, &str)], next: u64) -> Value {
        let grants: Vec<Value> = ids.iter().map(|(id, to)| json!({"id": id, "to": to})).collect();
        json!({"version": 1, "next": next, "grants": grants})
    }

    #[test]
    fn what_either_side_added_or_took_out_counts() {
        let base = grants(&[(1, "a"), (2, "b")], 2);
        let mine = grants(&[(2, "b"), (3, "c")], 3);
        let theirs = grants(&[(1, "a")], 2);
        assert_eq!(merge(&base, &mine, &theirs), grants(&[(3, "c")], 3));
        assert_eq!(merge(&base, &theirs, &mine), grants(&[(3, "c")], 3));
        assert_eq!(merge(&base, &mine, &base), mine);
        assert_eq!(merge(&base, &base, &theirs), theirs);
    }

    #[test]
    fn a_number_given_twice_is_given_anew() {
        let base = grants(&[(1, "a")], 1);
        let (mine, theirs) = (grants(&[(1, "a"), (2, "b")], 2), grants(&[(1, "a"), (2, "c")], 2));
        let both = merge(&base, &mine, &theirs);
        assert_eq!(both, grants(&[(1, "a"), (2, "c"), (3, "b")], 3));
    }

    #[test]
    fn a_revocation_wins_over_a_change() {
        let base = json!({"tokens": [{"id": "x", "profile": "p"}]});
        let (gone, other) =
            (json!({"tokens": []}), json!({"tokens": [{"id": "x", "profile": "q"}]}));
        assert_eq!(merge(&base, &gone, &other), gone);
        assert_eq!(merge(&base, &other, &gone), gone);
        // Without a common base nothing counts as removed.
        let own = json!({"tokens": [{"id": "y"}]});
        let all = json!({"tokens": [{"id": "x", "profile": "p"}, {"id": "y"}]});
        assert_eq!(merge(&Value::Null, &own, &base), all);
    }
}
