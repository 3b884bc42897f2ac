//! The books of the soak: what was asked and how it ended, held against what the host says.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use mcpdeck::host::{Fact, Host};
use tokio_util::sync::CancellationToken;

use crate::deck::SERVERS;

/// How calls ended, per server.
#[derive(Debug, Default)]
pub struct Books {
    asked: [AtomicU64; SERVERS],
    answered: [AtomicU64; SERVERS],
    refused: [AtomicU64; SERVERS],
    /// Given up by their caller before there was an answer.
    dropped: [AtomicU64; SERVERS],
    /// Answered with what another call asked.
    wrong: [AtomicU64; SERVERS],
    /// Numbers of calls, never given twice.
    numbers: AtomicU64,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub enum Ended {
    Answered,
    Refused,
    Dropped,
    Wrong,
}

impl Books {
    /// A call to a server begins; gives its number.
    pub fn begin(&self, server: usize) -> u64 {
        self.asked[server].fetch_add(1, Ordering::SeqCst);
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// It ended.
    pub fn end(&self, server: usize, ended: Ended) {
        let column = match ended {
            Ended::Answered => &self.answered,
            Ended::Refused => &self.refused,
            Ended::Dropped => &self.dropped,
            Ended::Wrong => &self.wrong,
        };
        column[server].fetch_add(1, Ordering::SeqCst);
    }

    /// What does not add up; the host is at rest.
    pub fn flaws(&self, host: &Host) -> Vec<String> {
        let mut flaws = Vec::new();
        let waiting = host.calls();
        if !waiting.is_empty() {
            flaws.push(format!("calls still run when nobody waits for any: {waiting:?}"));
        }
        if total(&self.wrong) > 0 {
            flaws.push("a call got another's answer".to_owned());
        }
        if total(&self.answered) * 2 < total(&self.asked) {
            flaws.push("fewer than half of the calls were answered".to_owned());
        }
        let metrics = host.get_metrics();
        for number in 0..SERVERS {
            let at = |column: &[AtomicU64; SERVERS]| column[number].load(Ordering::SeqCst);
            let ended =
                at(&self.answered) + at(&self.refused) + at(&self.dropped) + at(&self.wrong);
            if at(&self.asked) != ended {
                flaws.push(format!("s{number}: {} calls asked, {ended} ended", at(&self.asked)));
            }
            let Some((_, seen)) =
                metrics.iter().find(|(name, _)| *name == crate::deck::name(number))
            else {
                flaws.push(format!("s{number} has no metrics"));
                continue;
            };
            let seen = &seen.total;
            let counted = seen.successes + seen.tool_errors + seen.errors.values().sum::<u64>();
            if seen.in_flight != 0 || seen.requests != counted {
                flaws.push(format!("s{number}: the metrics do not add up: {seen:?}"));
            }
            if number != 0 && seen.successes < at(&self.answered) {
                flaws.push(format!(
                    "s{number}: {} answers came, the host counted {}",
                    at(&self.answered),
                    seen.successes
                ));
            }
        }
        flaws
    }
}

fn total(column: &[AtomicU64; SERVERS]) -> u64 {
    column.iter().map(|count| count.load(Ordering::SeqCst)).sum()
}

impl fmt::Display for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "calls: {} asked, {} answered, {} refused, {} given up by the caller, {} wrong",
            total(&self.asked),
            total(&self.answered),
            total(&self.refused),
            total(&self.dropped),
            total(&self.wrong)
        )
    }
}

/// Reads every fact of a host, to its end.
pub struct FactReader {
    task: tokio::task::JoinHandle<Vec<String>>,
    ended: CancellationToken,
}

impl FactReader {
    /// Starts to read.
    pub fn start(host: &Host) -> Self {
        let (facts, ended) = (host.facts(), CancellationToken::new());
        let (mut changed, last) = (facts.changed(), ended.clone());
        let mut cursor = facts.span().end;
        let task = tokio::spawn(async move {
            let (mut flaws, mut stopped, mut over) = (Vec::new(), false, false);
            while !over {
                tokio::select! {
                    _ = changed.changed() => {}
                    () = last.cancelled() => over = true,
                }
                let batch = facts.read(cursor, usize::MAX);
                if batch.missed > 0 {
                    flaws.push(format!("{} facts were not read in time", batch.missed));
                }
                cursor = batch.next;
                for record in batch.items {
                    match &record.fact {
                        Fact::TaskFailed { task, message } => {
                            flaws.push(format!("the task {task} failed: {message}"));
                        }
                        Fact::ShutdownBegan => stopped = true,
                        _ => {}
                    }
                }
            }
            if !stopped {
                flaws.push("the facts broke off before the end".to_owned());
            }
            flaws
        });
        Self { task, ended }
    }

    /// What was wrong with the facts; the host is gone.
    pub async fn flaws(self) -> Vec<String> {
        self.ended.cancel();
        match self.task.await {
            Ok(flaws) => flaws,
            Err(error) => vec![format!("the reader of facts failed: {error}")],
        }
    }
}
