//! How a bench states a figure: its median, the middle half of what was measured, the number of runs,
//! and what they say about the goal. Nothing is said where the goal lies within the middle half.
//!
//! With the environment variable [`ROWS`], each figure is added to that file too, one JSON object a
//! line; `benches/all` makes its table of them.

use std::io::Write as _;

use serde_json::json;

/// Environment variable with the file that the figures are added to.
pub const ROWS: &str = "MCPDECK_BENCH_ROWS";

/// What a figure should be.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "a bench may have goals of one kind")]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// It is only looked at.
    Open,
}

impl Goal {
    fn verdict(self, low: f64, high: f64) -> &'static str {
        let (met, missed) = match self {
            Self::Open => return "",
            Self::AtMost(goal) => (high <= goal, low > goal),
            Self::AtLeast(goal) => (low >= goal, high < goal),
        };
        match (met, missed) {
            (true, _) => "met",
            (_, true) => "missed",
            _ => "no verdict, the spread is wider than the difference",
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtMost(goal) => format!("<= {goal}"),
            Self::AtLeast(goal) => format!(">= {goal}"),
            Self::Open => String::new(),
        }
    }
}

/// A figure of the table.
pub struct Figure<'a> {
    /// What was measured, and for how many of what: "small call".
    pub what: &'a str,
    /// What it is compared with; empty for a figure that stands alone.
    pub against: &'a str,
    /// The unit, empty for a ratio.
    pub unit: &'a str,
    pub goal: Goal,
}

impl Figure<'_> {
    /// Prints the figure, given what each run measured. Sorts `values`, of which there is at least one.
    pub fn state(&self, values: &mut [f64]) {
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| at(values, share));
        let (runs, goal) = (values.len(), self.goal.words());
        let verdict = self.goal.verdict(low, high);
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let over =
            if self.against.is_empty() { String::new() } else { format!(" over {}", self.against) };
        let said =
            if goal.is_empty() { String::new() } else { format!("; goal {goal}: {verdict}") };
        let [low_text, middle_text, high_text] = [low, middle, high].map(short);
        println!(
            "{}{over}: {middle_text}{unit} ({low_text} to {high_text}, {runs} runs){said}",
            self.what
        );
        let Some(file) = std::env::var_os(ROWS) else { return };
        let row = json!({
            "what": self.what, "against": self.against, "unit": self.unit, "median": middle,
            "low": low, "high": high, "runs": runs, "goal": goal, "verdict": verdict,
        });
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
        writeln!(file.expect("the file of figures can be written"), "{row}")
            .expect("a line is written");
    }
}

/// The quantile `share` (0 to 1) of the values, which it sorts.
pub fn at(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
