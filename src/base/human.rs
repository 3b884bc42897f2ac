//! Human-readable figures: durations, sizes, and counts with their noun. Formatted here only, for
//! every screen, report and message.

use std::fmt;
use std::time::Duration;

/// A duration: `850 µs`, `12 ms`, `1.4 s`, `3m 05s`, `2h 10m`, `4d 3h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dur(pub Duration);

impl fmt::Display for Dur {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        let seconds = self.0.as_secs();
        let text = match micros {
            0..1_000 => format!("{micros} µs"),
            1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
            10_000..1_000_000 => format!("{} ms", micros / 1_000),
            1_000_000..60_000_000 => format!("{:.1} s", micros as f64 / 1e6),
            _ if seconds < 3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
            _ if seconds < 86_400 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
            _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3_600),
        };
        f.pad(&text)
    }
}

/// Parses seconds, fractions allowed, or a number with `ms`, `s`, `m` or `h`.
///
/// # Errors
/// A message that says what was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|s: f64| Duration::try_from_secs_f64(s).ok());
    let span = || Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok();
    match seconds.or_else(span) {
        Some(Duration::ZERO) => Err("a time span must be longer than zero".to_owned()),
        Some(span) => Ok(span),
        None => {
            Err(format!("`{text}` is not a time span: write seconds (1.5) or a unit (500ms, 2m)"))
        }
    }
}

/// A code of one word, such as `rateLimited` or `ServerUnavailable`, as words: `rate limited`, `server
/// unavailable`.
pub fn phrase(code: &str) -> String {
    let mut words = String::with_capacity(code.len() + 4);
    for letter in code.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// A size: `812 B`, `4.2 kB`, `92 MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = "B";
        for next in ["kB", "MB", "GB", "TB"] {
            if value < 1_000.0 {
                break;
            }
            value /= 1_000.0;
            unit = next;
        }
        let text = if unit == "B" || value >= 10.0 {
            format!("{value:.0} {unit}")
        } else {
            format!("{value:.1} {unit}")
        };
        f.pad(&text)
    }
}

/// A count with its noun: `1 call`, `2 calls`, `3 entries`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    number: u64,
    noun: &'static str,
}

/// `number` of `noun`, which is given in the singular.
pub fn count(number: impl TryInto<u64>, noun: &'static str) -> Count {
    Count { number: number.try_into().unwrap_or(u64::MAX), noun }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, noun } = *self;
        let text = match noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o'])) {
            _ if number == 1 => format!("1 {noun}"),
            Some(stem) => format!("{number} {stem}ies"),
            None if noun.ends_with(['s', 'x']) || noun.ends_with("ch") || noun.ends_with("sh") => {
                format!("{number} {noun}es")
            }
            None => format!("{number} {noun}s"),
        };
        f.pad(&text)
    }
}

/// Durations as a number of milliseconds in JSON.
pub mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes milliseconds, a whole number where they are.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        match (span.subsec_nanos() % 1_000_000, u64::try_from(span.as_millis())) {
            (0, Ok(millis)) => to.serialize_u64(millis),
            _ => to.serialize_f64(span.as_secs_f64() * 1e3),
        }
    }

    /// Reads milliseconds, or seconds and nanoseconds as earlier versions wrote them.
    ///
    /// # Errors
    /// When it is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Millis(f64),
            Parts { secs: u64, nanos: u32 },
        }
        match Written::deserialize(from)? {
            Written::Millis(millis) => {
                Duration::try_from_secs_f64(millis / 1e3).map_err(serde::de::Error::custom)
            }
            Written::Parts { secs, nanos } => Ok(Duration::new(secs, nanos)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_span_is_seconds_unless_it_has_a_unit() {
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "x", "-1", "1d", "nan", "inf", "0", "1e400"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_sizes_and_counts_read_like_people_say_them() {
        let dur = |micros| Dur(Duration::from_micros(micros)).to_string();
        assert_eq!(
            [850, 3_240, 12_900, 1_440_000, 185_000_000, 7_800_000_000].map(dur),
            ["850 µs", "3.2 ms", "12 ms", "1.4 s", "3m 05s", "2h 10m"]
        );
        assert_eq!(
            [0, 812, 4_230, 92_000_000].map(|n| Bytes(n).to_string()),
            ["0 B", "812 B", "4.2 kB", "92 MB"]
        );
        assert_eq!(
            [
                (1, "problem"),
                (0, "problem"),
                (2, "entry"),
                (3, "address"),
                (4, "process"),
                (5, "key")
            ]
            .map(|(n, noun)| count(n, noun).to_string()),
            ["1 problem", "0 problems", "2 entries", "3 addresses", "4 processes", "5 keys"]
        );
    }
}
