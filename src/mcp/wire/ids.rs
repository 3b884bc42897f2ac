//! Tables by ids that the host itself gives out, with a hash that costs next to nothing.
//!
//! Ids that servers name are looked up here and never inserted, so that nobody outside can choose
//! ids that fall together.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by such ids.
pub type ById<T> = HashMap<i64, T, BuildHasherDefault<IdHasher>>;

/// Numbers in a row keep different low bits, and get different high ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl IdHasher {
    /// 2^64 divided by the golden ratio.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
}

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_i64(i64::from(*byte));
        }
    }

    fn write_i64(&mut self, id: i64) {
        self.0 = (self.0 ^ id.cast_unsigned()).wrapping_mul(Self::SPREAD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_a_row_do_not_fall_together() {
        let hash = |id: i64| {
            let mut hasher = IdHasher::default();
            hasher.write_i64(id);
            hasher.finish()
        };
        let low: std::collections::HashSet<u64> = (0..1024).map(|id| hash(id) % 1024).collect();
        assert_eq!(low.len(), 1024);
        let high: std::collections::HashSet<u64> = (0..1024).map(|id| hash(id) >> 57).collect();
        assert_eq!(high.len(), 128);
        let table: ById<i64> = (-500..500).map(|id| (id, id)).collect();
        assert!((-500..500).all(|id| table[&id] == id) && !table.contains_key(&500));
    }
}
