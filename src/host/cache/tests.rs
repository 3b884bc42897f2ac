//! Time to live, hints, eviction, staleness, and consistent counters.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn key(params: &str) -> CacheKey {
    CacheKey {
        server: ServerName::new("s"),
        method: "resources/read".into(),
        params: params.into(),
    }
}

fn keep(cache: &Cache, config: &CacheConfig, name: &str, result: Value, now: u64) {
    let version = cache.version();
    let (key, label) = (key(name), SafeText::line(name));
    let keep = CachePut { key, label, result: result.into(), version };
    cache.keep(config, keep, at(now));
}

fn at(seconds: u64) -> Timestamp {
    Timestamp(seconds * 1_000_000)
}

#[test]
fn an_answer_is_fresh_for_its_time_to_live_and_stale_after() {
    let cache = Cache::default();
    keep(&cache, &CacheConfig::default(), "a", json!({"contents": []}), 0);
    assert!(cache.fresh(&key("a"), at(299)).is_some());
    assert!(cache.fresh(&key("a"), at(300)).is_none());
    let stale = cache.any(&key("a"), at(400)).expect("still kept");
    assert_eq!((stale.fresh, stale.age), (false, Duration::from_secs(400)));
    let view = cache.view();
    assert_eq!((view.hits, view.misses, view.entries[0].hits), (2, 1, 2));
}

#[test]
fn the_servers_hint_wins_and_nonsense_hints_do_not_overflow() {
    let ttl = |hint: Value| {
        let cache = Cache::default();
        keep(&cache, &CacheConfig::default(), "a", json!({"ttlMs": hint}), 0);
        cache.view().entries[0].ttl
    };
    assert_eq!(ttl(json!(1_500)), Duration::from_millis(1_500));
    assert_eq!(ttl(json!(0)), Duration::ZERO);
    assert_eq!(ttl(json!(-5)), Duration::ZERO);
    assert_eq!(ttl(json!(1e300)), Cache::MAX_ENTRY_LIFETIME);
    assert_eq!(ttl(json!("soon")), Duration::from_secs(300));
}

#[test]
fn the_least_recently_used_goes_first() {
    let cache = Cache::default();
    let config = CacheConfig { max_entries: 2, ..CacheConfig::default() };
    keep(&cache, &config, "a", json!(1), 0);
    keep(&cache, &config, "b", json!(2), 0);
    assert!(cache.fresh(&key("a"), at(1)).is_some());
    keep(&cache, &config, "c", json!(3), 2);
    let left: Vec<String> = cache.view().entries.into_iter().map(|e| e.key.params).collect();
    assert_eq!(left, ["c", "a"]);
    assert_eq!(cache.view().evictions, 1);
}

#[test]
fn what_is_larger_than_the_cache_is_not_kept_and_evicts_nothing() {
    let cache = Cache::default();
    let config = CacheConfig { max_bytes: 4_096, ..CacheConfig::default() };
    keep(&cache, &config, "a", json!(1), 0);
    keep(&cache, &config, "b", json!("x".repeat(5_000)), 0);
    let view = cache.view();
    assert_eq!((view.entries.len(), view.evictions), (1, 0));
}

#[test]
fn invalidated_entries_are_gone_and_the_reason_is_remembered() {
    let cache = Cache::default();
    for n in 0..150 {
        keep(&cache, &CacheConfig::default(), &n.to_string(), json!(n), 0);
    }
    cache.invalidate(&SafeText::line("list changed"), at(1), |key| key.params != "7");
    let view = cache.view();
    assert_eq!(view.entries.len(), 1);
    assert_eq!(view.invalidated.len(), Cache::MAX_INVALIDATIONS);
    assert_eq!(&*view.invalidated[0].2, "list changed");
    assert!(cache.any(&key("8"), at(1)).is_none());
}

#[test]
fn an_answer_that_was_invalidated_on_its_way_is_not_kept() {
    let cache = Cache::default();
    let version = cache.version();
    cache.invalidate(&SafeText::default(), at(0), |_| true);
    let (key, label) = (key("a"), SafeText::line("a"));
    let keep = CachePut { key, label, result: json!(1).into(), version };
    cache.keep(&CacheConfig::default(), keep, at(0));
    assert!(cache.view().entries.is_empty());
}

#[test]
fn a_disabled_cache_keeps_nothing() {
    let cache = Cache::default();
    let config = CacheConfig { enabled: false, ..CacheConfig::default() };
    keep(&cache, &config, "a", json!(1), 0);
    assert!(cache.view().entries.is_empty());
}

proptest! {
    #[test]
    fn counts_and_bytes_stay_within_the_limits_whatever_comes(
        steps in prop::collection::vec((0_u8..3, 0_u8..12, 0_usize..3_000), 0..80)
    ) {
        let cache = Cache::default();
        let config = CacheConfig { max_entries: 5, max_bytes: 6_000, ..CacheConfig::default() };
        for (now, (what, name, size)) in steps.into_iter().enumerate() {
            let now = now as u64;
            let name = name.to_string();
            match what {
                0 => keep(&cache, &config, &name, json!("x".repeat(size)), now),
                1 => { cache.fresh(&key(&name), at(now)); }
                _ => cache.invalidate(&SafeText::default(), at(now), |k| k.params == name),
            }
            let inner = cache.inner.lock();
            let bytes = inner.entries.values().map(|entry| entry.view.bytes).sum::<usize>();
            prop_assert!(inner.entries.len() <= 5 && bytes <= 6_000);
        }
    }
}

/// A reference model of the requirement: a list in order of use, trimmed from its old end.
#[derive(Default)]
struct Model {
    /// Name, size, when stored, time to live; the most recently used last.
    entries: Vec<(String, usize, u64, u64)>,
    hits: u64,
    misses: u64,
    evictions: u64,
}

impl Model {
    fn used(&mut self, name: &str) {
        if let Some(at) = self.entries.iter().position(|entry| entry.0 == name) {
            let entry = self.entries.remove(at);
            self.entries.push(entry);
        }
    }

    fn is_fresh(&self, name: &str, now: u64) -> Option<bool> {
        let entry = self.entries.iter().find(|entry| entry.0 == name)?;
        Some(now - entry.2 < entry.3)
    }

    fn keep(&mut self, name: &str, size: usize, now: u64, ttl: u64) {
        self.entries.retain(|entry| entry.0 != name);
        if size > 6_000 {
            return;
        }
        self.entries.push((name.to_owned(), size, now, ttl));
        while self.entries.len() > 5 || self.entries.iter().map(|e| e.1).sum::<usize>() > 6_000 {
            self.entries.remove(0);
            self.evictions += 1;
        }
    }
}

proptest! {
    #[test]
    fn it_answers_keeps_and_forgets_what_its_words_say_in_every_history(
        steps in prop::collection::vec((0_u8..5, 0_u8..8, 0_usize..4_000, 0_u64..20), 0..100)
    ) {
        let (cache, mut model, mut now) = (Cache::default(), Model::default(), 0);
        let config = CacheConfig { max_entries: 5, max_bytes: 6_000, ..CacheConfig::default() };
        for (what, name, size, seconds) in steps {
            let name = name.to_string();
            match what {
                0 => now += seconds,
                1 => {
                    let result = json!({"t": "x".repeat(size), "ttlMs": seconds * 1_000});
                    let bytes = size_of::<CacheEntry>() + name.len() + result.to_string().len();
                    keep(&cache, &config, &name, result, now);
                    model.keep(&name, bytes, now, seconds);
                }
                2 => {
                    let fresh = model.is_fresh(&name, now) == Some(true);
                    prop_assert_eq!(cache.fresh(&key(&name), at(now)).is_some(), fresh);
                    if fresh { model.hits += 1; model.used(&name) } else { model.misses += 1 }
                }
                3 => {
                    let known = model.is_fresh(&name, now);
                    let found = cache.any(&key(&name), at(now));
                    prop_assert_eq!(found.map(|kept| kept.fresh), known);
                    model.hits += u64::from(known.is_some());
                    model.used(&name);
                }
                _ => {
                    cache.invalidate(&SafeText::default(), at(now), |k| k.params == name);
                    model.entries.retain(|entry| entry.0 != name);
                }
            }
            let view = cache.view();
            let shown: Vec<&str> = view.entries.iter().rev().map(|e| &*e.key.params).collect();
            let expected: Vec<&str> = model.entries.iter().map(|entry| &*entry.0).collect();
            prop_assert_eq!(shown, expected);
            prop_assert_eq!(
                (view.hits, view.misses, view.evictions),
                (model.hits, model.misses, model.evictions)
            );
        }
    }
}
