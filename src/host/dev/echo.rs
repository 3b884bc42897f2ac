//! Tells an edit from the echo of our own doing: builds and servers write files too, and when
//! `dev.watch` matches those, each build would be the reason for the next.
//!
//! Never drops an edit for good: a file that looks as it did when the round began needs no other
//! round, and rounds that follow each other at once are spaced. Reads files; blocks.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of a file that are compared.
const READ: u64 = 8 << 20;

/// What to do about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Begin a round.
    Act,
    /// The running round, or the last one, has it already.
    Known,
    /// Begin a round, but not at once: too many followed each other.
    Slowly,
}

/// What is remembered from round to round.
#[derive(Clone, Debug, Default)]
pub(super) struct Echo {
    /// Files that changed during or right after a round, as they were when the last round began.
    suspects: HashMap<PathBuf, Option<u64>>,
    /// Rounds in a row that began during or right after the one before.
    streak: u32,
}

impl Echo {
    /// From here on a build is not cut short any more.
    const PATIENT: u32 = 3;
    /// From here on rounds are spaced.
    const SPACED: u32 = 8;

    /// A change arrived while nothing of ours was going on.
    pub(super) fn edited(&mut self) -> Verdict {
        *self = Self::default();
        Verdict::Act
    }

    /// A change arrived during a round or right after it.
    pub(super) fn judge(&mut self, files: &[PathBuf]) -> Verdict {
        let known = |file: &PathBuf| {
            self.suspects.get(file).is_some_and(|at_begin| *at_begin == content(file))
        };
        if files.iter().all(known) {
            return Verdict::Known;
        }
        for file in files {
            self.suspects.entry(file.clone()).or_default();
        }
        self.streak += 1;
        if self.streak > Self::SPACED { Verdict::Slowly } else { Verdict::Act }
    }

    /// A round begins: what it sees of the suspects needs no other round.
    pub(super) fn begin(&mut self) {
        for (file, seen) in &mut self.suspects {
            *seen = content(file);
        }
    }

    /// Whether builds are to be left to their end.
    pub(super) const fn is_patient(&self) -> bool {
        self.streak >= Self::PATIENT
    }
}

/// A hash of a file's content; `None` when it cannot be read.
fn content(file: &Path) -> Option<u64> {
    let file = std::fs::File::open(file).ok()?;
    let mut hasher = DefaultHasher::new();
    let mut rest = file.take(READ);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match rest.read(&mut buffer).ok()? {
            0 => return Some(hasher.finish()),
            n => hasher.write(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_writes_the_same_again_is_not_the_reason_for_another() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = vec![dir.path().join("out.js")];
        let mut echo = Echo::default();
        assert_eq!(echo.edited(), Verdict::Act);
        echo.begin();
        std::fs::write(&out[0], "1").expect("written");
        assert_eq!(echo.judge(&out), Verdict::Act, "it may have been an edit");
        echo.begin();
        std::fs::write(&out[0], "1").expect("written");
        assert_eq!(echo.judge(&out), Verdict::Known);
        std::fs::write(&out[0], "2").expect("written");
        assert_eq!(echo.judge(&out), Verdict::Act, "another content was not built yet");
    }

    #[test]
    fn rounds_without_end_become_patient_then_slow_and_an_edit_in_peace_forgives() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = vec![dir.path().join("out.js")];
        let mut echo = Echo::default();
        let mut verdicts = Vec::new();
        for round in 0..10 {
            echo.begin();
            std::fs::write(&out[0], round.to_string()).expect("written");
            verdicts.push((echo.judge(&out), echo.is_patient()));
        }
        assert_eq!(verdicts[1], (Verdict::Act, false));
        assert_eq!(verdicts[2], (Verdict::Act, true));
        assert_eq!(verdicts[9], (Verdict::Slowly, true));
        echo.edited();
        assert!(!echo.is_patient());
    }
}
