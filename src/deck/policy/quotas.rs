//! What is used of quotas, kept in a file: over restarts, and for all programs that serve one
//! configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::policy::state_file;
use base::state::StateFile;
use base::watch::Fingerprint;
use config::Environment;
use host::{QuotaCounter, QuotaUse};

/// The file in which the programs that serve a configuration add up what is used of its quotas.
#[derive(Debug)]
pub struct QuotaFile {
    file: StateFile,
    /// The file as it was read last.
    seen: Mutex<Option<Fingerprint>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptQuotas {
    version: u32,
    used: Vec<QuotaUse>,
}

/// Version of the content.
const FORMAT_VERSION: u32 = 1;

impl QuotaFile {
    /// That of a configuration file. `None` without a state folder.
    pub fn for_config(config: &Path, env: &Environment) -> Option<Self> {
        Some(Self { file: state_file(config, env, "quotas")?, seen: Mutex::default() })
    }

    /// What is used, as it is kept.
    pub fn read(&self) -> Vec<QuotaUse> {
        self.file.load(parse).unwrap_or_default().used
    }

    /// Adds what `counter` has counted since, and has it take over what all programs have used. What
    /// cannot be written goes on counting in this program.
    pub fn share(&self, counter: &QuotaCounter) {
        let mut seen = self.seen.lock();
        let new = counter.take_new();
        let now = Fingerprint::from_path(self.file.path());
        if new.is_empty() && seen.as_ref() == Some(&now) {
            return;
        }
        let (today, known) = (counter.today(), counter.used());
        let mut sum = Vec::new();
        let added = self.file.change(parse, |kept| {
            sum = added(kept.unwrap_or_default().used, &new, &known, today);
            if new.is_empty() {
                return Ok(None);
            }
            let kept = KeptQuotas { version: FORMAT_VERSION, used: sum.clone() };
            Ok(Some(serde_json::to_vec(&kept)?))
        });
        match added {
            Ok(_) => counter.take_over(&sum),
            Err(error) => {
                counter.put_back(&new);
                tracing::warn!(target: "mcpdeck::policy", action = "not kept", "{error}");
            }
        }
        *seen = Some(Fingerprint::from_path(self.file.path()));
    }
}

/// What is kept with what is new: of today, and of the days beside it, so that a clock that is set
/// back over midnight, or is not quite that of another program, gives no day a second time. A file
/// that was deleted or cut takes back nothing that this program knows of.
fn added(kept: Vec<QuotaUse>, new: &[QuotaUse], known: &[QuotaUse], today: u64) -> Vec<QuotaUse> {
    let key = |one: &QuotaUse| (one.day, Arc::clone(&one.quota), Arc::clone(&one.whose));
    let nothing = |one: &QuotaUse| QuotaUse { calls: 0, result_tokens: 0, ..one.clone() };
    let is_near = |one: &QuotaUse| one.day.abs_diff(today) <= 1;
    let kept = kept.into_iter().filter(is_near);
    let mut sum: BTreeMap<_, QuotaUse> = kept.map(|one| (key(&one), one)).collect();
    for one in new.iter().filter(|one| is_near(one)) {
        let row = sum.entry(key(one)).or_insert_with(|| nothing(one));
        row.calls = row.calls.saturating_add(one.calls);
        row.result_tokens = row.result_tokens.saturating_add(one.result_tokens);
    }
    for one in known {
        let row = sum.entry(key(one)).or_insert_with(|| nothing(one));
        row.calls = row.calls.max(one.calls);
        row.result_tokens = row.result_tokens.max(one.result_tokens);
    }
    sum.into_values().collect()
}

fn parse(bytes: &[u8]) -> Result<KeptQuotas, String> {
    let kept: KeptQuotas = serde_json::from_slice(bytes).map_err(|_| "it is broken".to_owned())?;
    if kept.version == FORMAT_VERSION {
        Ok(kept)
    } else {
        Err("it was written by a newer version of mcpdeck".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(whose: &str, day: u64, calls: u64) -> QuotaUse {
        QuotaUse { quota: "q".into(), whose: whose.into(), day, calls, result_tokens: calls }
    }

    #[test]
    fn what_is_used_adds_up_and_an_old_day_goes() {
        let kept = vec![used("a", 1, 9), used("a", 2, 3), used("a", 3, 3)];
        let sum = added(kept, &[used("a", 3, 2), used("b", 3, 1), used("a", 1, 5)], &[], 3);
        assert_eq!(sum, [used("a", 2, 3), used("a", 3, 5), used("b", 3, 1)]);
        let lost = added(Vec::new(), &[used("a", 2, 2)], &[used("a", 2, 7)], 2);
        assert_eq!(lost, [used("a", 2, 7)]);
    }

    #[test]
    fn a_clock_that_is_set_back_gives_no_day_twice() {
        let evening = added(Vec::new(), &[used("a", 7, 5)], &[], 7);
        let morning = added(evening, &[used("a", 8, 2)], &[], 8);
        // Set back over midnight, and on again.
        let back = added(morning, &[used("a", 7, 1)], &[], 7);
        let of = |all: &[QuotaUse], day| all.iter().find(|one| one.day == day).map(|one| one.calls);
        assert_eq!((of(&back, 7), of(&back, 8)), (Some(6), Some(2)));
        let on = added(back, &[used("a", 8, 1)], &[], 8);
        assert_eq!((of(&on, 7), of(&on, 8)), (Some(6), Some(3)));
        // A clock that was wrong by years leaves nothing behind.
        assert_eq!(added(vec![used("a", 9_000, 5)], &[used("a", 8, 1)], &[], 8), [used("a", 8, 1)]);
    }
}
