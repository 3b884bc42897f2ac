//! Sizes of schemas as JSON text, which estimates need for every request: measured once for each
//! schema that a server listed, whatever the number of conversations.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use serde_json::Value;

use base::text::json::weigh;

/// Maximum number of schemas whose size is remembered.
const MAX_REMEMBERED_SCHEMAS: usize = 8_192;

/// By address: while the weak reference is held, no other schema can be there.
type KnownSizes = HashMap<usize, (Weak<Value>, usize)>;

static KNOWN: LazyLock<Mutex<KnownSizes>> = LazyLock::new(Mutex::default);

/// The size of a schema as JSON text, in bytes.
pub fn schema_bytes(schema: &Arc<Value>) -> usize {
    let place = Arc::as_ptr(schema).addr();
    if let Some((_, size)) = KNOWN.lock().get(&place) {
        return *size;
    }
    let size = weigh(&**schema);
    let mut known = KNOWN.lock();
    if known.len() >= MAX_REMEMBERED_SCHEMAS {
        known.retain(|_, (schema, _)| schema.strong_count() > 0);
        if known.len() >= MAX_REMEMBERED_SCHEMAS {
            known.clear();
        }
    }
    known.insert(place, (Arc::downgrade(schema), size));
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_schema_has_its_own_size_also_where_another_one_was() {
        for n in 0..MAX_REMEMBERED_SCHEMAS + 10 {
            let schema =
                Arc::new(serde_json::json!({"type": "object", "title": "t".repeat(n % 7)}));
            assert_eq!(schema_bytes(&schema), schema.to_string().len());
            assert_eq!(schema_bytes(&schema), schema.to_string().len(), "remembered");
        }
        assert!(KNOWN.lock().len() <= MAX_REMEMBERED_SCHEMAS);
    }
}
