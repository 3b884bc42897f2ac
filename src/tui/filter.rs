//! The filter language of the traffic pane: `server:time -kind:notification duration:>100ms text`.
//! Words are joined by "and"; a leading `-` or `!` negates one; `"in quotes"` is literal text.
//! Pure.

use std::cmp::Ordering;

use jiff::Zoned;

use crate::prelude::*;
use base::logs::LogRecord;
use protocol::{Direction, MessageKind, TrafficRecord};
pub use terminal::search::{contains, find};

/// Keys of the language.
const KEYS: [&str; 12] = [
    "server:",
    "tool:",
    "method:",
    "id:",
    "dir:",
    "kind:",
    "status:",
    "duration:",
    "size:",
    "since:",
    "from:",
    "to:",
];

/// Keys with a fixed set of values, and the test each value stands for.
const CHOICES: [(&str, &[(&str, Test)]); 3] = [
    ("dir", &[("in", Test::Direction(Direction::In)), ("out", Test::Direction(Direction::Out))]),
    (
        "kind",
        &[
            ("request", Test::Kind(MessageKind::Request)),
            ("notification", Test::Kind(MessageKind::Notification)),
            ("response", Test::Kind(MessageKind::Response)),
            ("error", Test::Kind(MessageKind::Error)),
            ("non-json", Test::Kind(MessageKind::Junk)),
        ],
    ),
    (
        "status",
        &[
            ("ok", Test::Kind(MessageKind::Response)),
            ("error", Test::Kind(MessageKind::Error)),
            ("non-json", Test::Kind(MessageKind::Junk)),
            ("problem", Test::Problem),
        ],
    ),
];

/// The values of a key that has a fixed set.
fn choices(key: &str) -> Option<&'static [(&'static str, Test)]> {
    CHOICES.into_iter().find(|(name, _)| *name == key).map(|(_, values)| values)
}

/// Keys that apply to log lines; other words are searched as text.
const OF_LOGS: [&str; 4] = ["server", "since", "from", "to"];

/// A parsed filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    negated: bool,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Server(String),
    Target(String),
    Method(String),
    Id(String),
    Direction(Direction),
    Kind(MessageKind),
    /// It breaks the protocol.
    Problem,
    Duration(Ordering, Duration),
    Size(Ordering, usize),
    From(Timestamp),
    To(Timestamp),
    Text(String),
}

impl Filter {
    /// Parses a filter; a time of day means its latest occurrence before `now`.
    ///
    /// # Errors
    /// The word that is not understood, and what is accepted instead.
    pub fn parse(text: &str, now: &Zoned) -> Result<Self, String> {
        Self::from_words(words(text), now)
    }

    /// Parses a filter for log lines; also returns the remaining search text in lower case.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn of_logs(text: &str, now: &Zoned) -> Result<(Self, String), String> {
        let filters = |word: &&str| {
            let bare = word.trim_start_matches(['-', '!']);
            bare.split_once(':').is_some_and(|(key, _)| OF_LOGS.contains(&key))
        };
        let needle: Vec<&str> = words(text).filter(|word| !filters(word)).collect();
        let filter = Self::from_words(words(text).filter(filters), now)?;
        // Text without a filter is searched verbatim, including blanks.
        let needle = if filter.is_empty() { text.to_owned() } else { needle.join(" ") };
        Ok((filter, needle.to_ascii_lowercase()))
    }

    fn from_words<'a>(words: impl Iterator<Item = &'a str>, now: &Zoned) -> Result<Self, String> {
        let mut terms = Vec::new();
        for word in words {
            let bare = word.trim_start_matches(['-', '!']);
            let negated = bare.len() < word.len() && !bare.is_empty();
            let bare = if bare.is_empty() { word } else { bare };
            let test = match bare.strip_prefix('"') {
                Some(quoted) => Test::Text(quoted.trim_end_matches('"').to_ascii_lowercase()),
                None => test(bare, now)?,
            };
            terms.push(Term { negated, test });
        }
        let from = terms.iter().find_map(|term| match term.test {
            Test::From(from) => Some(from),
            _ => None,
        });
        for term in &mut terms {
            if let (Test::To(to), Some(from)) = (&mut term.test, from)
                && *to < from
            {
                *to = to.plus(DAY_INTERVAL);
            }
        }
        Ok(Self { terms })
    }

    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a message passes.
    pub fn passes(&self, record: &TrafficRecord) -> bool {
        self.terms.iter().all(|term| term.test.passes(record) != term.negated)
    }

    /// Whether a log line passes; tests that apply only to messages are skipped.
    pub fn passes_line(&self, record: &LogRecord) -> bool {
        let server = record.server.as_ref().map_or("host", ServerName::as_str);
        self.terms.iter().all(|term| match &term.test {
            Test::Server(part) => contains(server, part) != term.negated,
            test => test.is_at(record.at).is_none_or(|is| is != term.negated),
        })
    }
}

const DAY_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The latest occurrence of a time of day before `now`.
fn time_of_day(text: &str, now: &Zoned) -> Option<Timestamp> {
    let time: jiff::civil::Time = text.parse().ok()?;
    let today = now.with().time(time).build().ok()?;
    let at = if today > *now { today.yesterday().ok()? } else { today };
    u64::try_from(at.timestamp().as_microsecond()).ok().map(Timestamp)
}

/// The words of a filter, separated by blanks outside quotes.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let mut quoted = false;
        let end = rest.find(|c: char| {
            quoted ^= c == '"';
            c.is_whitespace() && !quoted
        });
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

fn test(word: &str, now: &Zoned) -> Result<Test, String> {
    let Some((key, value)) = word.split_once(':') else {
        return Ok(Test::Text(word.to_ascii_lowercase()));
    };
    let lower = value.to_ascii_lowercase();
    let wrong = |choices: &str| format!("{key}: takes {choices}");
    if let Some(values) = choices(key) {
        let found = values.iter().find(|(name, _)| *name == lower).map(|(_, test)| test.clone());
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        return found.ok_or_else(|| wrong(&format!("one of {}", names.join(", "))));
    }
    Ok(match key {
        "server" => Test::Server(lower),
        "tool" | "target" => Test::Target(lower),
        "method" => Test::Method(lower),
        "id" => Test::Id(value.to_owned()),
        "duration" => bounded(&lower, duration)
            .map(|(bound, limit)| Test::Duration(bound, limit))
            .ok_or_else(|| wrong("> or < and a time: >100ms, <2s"))?,
        "size" => bounded(&lower, size)
            .map(|(bound, limit)| Test::Size(bound, limit))
            .ok_or_else(|| wrong("> or < and a size: >10kb, <200"))?,
        "since" => {
            let ago = duration(&lower).ok_or_else(|| wrong("a time: 30s, 10m, 2h"))?;
            let now = u64::try_from(now.timestamp().as_microsecond()).unwrap_or_default();
            Test::From(Timestamp(now.saturating_sub(ago.as_micros() as u64)))
        }
        "from" | "to" => {
            let at =
                time_of_day(value, now).ok_or_else(|| wrong("a time of day: 14:03 or 14:03:20"))?;
            if key == "from" { Test::From(at) } else { Test::To(at) }
        }
        // A colon in plain text, a URI or a path for example, is text.
        _ if !key.chars().all(|c| c.is_ascii_lowercase()) || value.starts_with(['/', '\\']) => {
            Test::Text(word.to_ascii_lowercase())
        }
        _ => {
            let keys = KEYS.join(" ");
            return Err(format!(
                "unknown key `{key}:`; a filter takes {keys} or \"{word}\" as text"
            ));
        }
    })
}

/// A bound (`>` or `<`) and the value after it.
fn bounded<T>(text: &str, read: fn(&str) -> Option<T>) -> Option<(Ordering, T)> {
    let (bound, limit) = text.split_at_checked(1)?;
    let bound = match bound {
        ">" => Ordering::Greater,
        "<" => Ordering::Less,
        _ => return None,
    };
    Some((bound, read(limit)?))
}

/// A time with its unit, `100ms` or `1.5s`.
fn duration(text: &str) -> Option<Duration> {
    text.parse::<jiff::SignedDuration>().ok()?.try_into().ok()
}

fn size(text: &str) -> Option<usize> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor) as usize)
}

impl Test {
    /// Whether a time is in its range; `None` if the test has no time range.
    fn is_at(&self, at: Timestamp) -> Option<bool> {
        match self {
            Self::From(from) => Some(at >= *from),
            Self::To(to) => Some(at <= *to),
            _ => None,
        }
    }

    fn passes(&self, record: &TrafficRecord) -> bool {
        if let Some(is) = self.is_at(record.at) {
            return is;
        }
        let has =
            |text: Option<&SafeText>, part: &str| text.is_some_and(|text| contains(text, part));
        match self {
            Self::Server(part) => contains(record.server.as_str(), part),
            Self::Target(part) => has(record.target.as_ref(), part),
            Self::Method(part) => has(record.method.as_ref(), part),
            Self::Id(id) => record.id.as_ref().is_some_and(|own| own.as_str() == id),
            Self::Direction(direction) => record.direction == *direction,
            Self::Kind(kind) => record.kind == *kind,
            Self::Problem => record.problem.is_some(),
            Self::Duration(bound, limit) => {
                record.latency.is_some_and(|took| took.cmp(limit) == *bound)
            }
            Self::Size(bound, limit) => record.bytes.cmp(limit) == *bound,
            Self::From(_) | Self::To(_) => true,
            Self::Text(part) => contains(&record.body, part) || has(record.method.as_ref(), part),
        }
    }
}

/// Completions of the last word of `text`: keys, then values of a key.
pub fn completions<'a>(text: &str, servers: impl Iterator<Item = &'a str>) -> Vec<String> {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let sign_len = word.len() - word.trim_start_matches(['-', '!']).len();
    let (sign, bare) = word.split_at(sign_len);
    let values: Vec<String> = match bare.split_once(':') {
        None if bare.is_empty() => return Vec::new(),
        None => KEYS.map(str::to_owned).to_vec(),
        Some(("server", _)) => servers.map(|name| format!("server:{name}")).collect(),
        Some((key, _)) => {
            let values = choices(key).unwrap_or_default().iter();
            values.map(|(value, _)| format!("{key}:{value}")).collect()
        }
    };
    values
        .into_iter()
        .filter(|value| value.starts_with(bare) && value != bare)
        .map(|value| format!("{sign}{value}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;
    use base::text::SafeText;

    fn record() -> TrafficRecord {
        TrafficRecord {
            at: Timestamp(0),
            server: "time".into(),
            direction: Direction::In,
            kind: MessageKind::Response,
            method: Some(SafeText::line("tools/call")),
            target: Some(SafeText::line("get_current_time")),
            id: Some(SafeText::line("7")),
            call: None,
            bytes: 12_000,
            latency: Some(Duration::from_millis(150)),
            queued: None,
            body: r#"{"result":{"text":"Zürich noon"}}"#.into(),
            cut: false,
            problem: None,
            tolerated: false,
        }
    }

    fn now() -> Zoned {
        jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC)
    }

    fn passes(filter: &str) -> bool {
        Filter::parse(filter, &now()).unwrap().passes(&record())
    }

    #[test]
    fn every_word_must_fit_and_a_minus_turns_it_round() {
        for yes in [
            "",
            "server:time",
            "tool:current",
            "method:tools",
            "id:7",
            "dir:in",
            "kind:response",
            "status:ok",
            "duration:>100ms",
            "duration:<1s",
            "size:>10kb",
            "NOON",
            "-server:git",
            "!kind:non-json noon",
            "-kind:non-json \"Zürich noon\"",
            "\"result\":{",
            "-",
            "https://x.y -zzz".trim_start_matches("https://x.y "),
        ] {
            assert!(passes(yes) || yes == "-", "{yes}");
        }
        for no in ["server:git", "-noon", "id:77", "duration:>2s", "size:<200", "dir:out noon"] {
            assert!(!passes(no), "{no}");
        }
    }

    #[test]
    fn times_of_the_day_are_the_last_ones_and_the_end_follows_the_beginning() {
        let now: jiff::Timestamp = "2026-05-02T00:10Z".parse().unwrap();
        let now = now.to_zoned(jiff::tz::TimeZone::UTC);
        let at = |text: &str| {
            let at: jiff::Timestamp = text.parse().unwrap();
            Timestamp(at.as_microsecond().cast_unsigned())
        };
        for (filter, yes, no) in [
            ("from:23:50 to:23:59", "2026-05-01T23:55Z", "2026-05-02T00:01Z"),
            ("from:23:50 to:00:20", "2026-05-02T00:05Z", "2026-05-01T23:49Z"),
            ("since:1h", "2026-05-01T23:20Z", "2026-05-01T23:00Z"),
            ("-since:1h", "2026-05-01T23:00Z", "2026-05-01T23:20Z"),
        ] {
            let read = Filter::parse(filter, &now).unwrap();
            let passes = |moment| read.passes(&TrafficRecord { at: at(moment), ..record() });
            assert!(passes(yes) && !passes(no), "{filter}");
        }
    }

    #[test]
    fn text_of_any_script_is_found_in_either_case() {
        let record =
            TrafficRecord { body: "L'ÉCOLE, Ärger, МОСКВА, ẞ".into(), ..record() };
        for word in ["ÉCOLE", "école", "Ärger", "ÄRGER", "москва", "МОСКВА", "ẞ", "\"école, ä\""]
        {
            let read = Filter::parse(word, &now()).unwrap();
            assert!(read.passes(&record), "{word}");
        }
        assert!(!Filter::parse("ecole", &now()).unwrap().passes(&record));
        let (_, needle) = Filter::of_logs("ÉCOLE", &now()).unwrap();
        assert_eq!((find("L'ÉCOLE", &needle), find("L'école", &needle)), (Some(2), Some(2)));
    }

    #[test]
    fn a_word_that_is_not_understood_says_what_would_be() {
        for (filter, said) in [
            ("dir:up", "in, out"),
            ("duration:100", "> or <"),
            ("kind:x", "non-json"),
            ("bogus:foo", "unknown key `bogus:`"),
        ] {
            assert!(Filter::parse(filter, &now()).unwrap_err().contains(said));
        }
    }

    #[test]
    fn keys_and_values_are_completed() {
        let complete = |text: &str| completions(text, ["time", "git"].into_iter());
        assert_eq!(complete("foo -se"), ["-server:"]);
        assert_eq!(complete("server:t"), ["server:time"]);
        assert_eq!(complete("kind:re"), ["kind:request", "kind:response"]);
        assert!(complete("foo ").is_empty());
    }

    use proptest::prelude::*;

    /// Words of the language whose meaning for the record above is known.
    const WORDS: [(&str, bool); 16] = [
        ("server:time", true),
        ("server:git", false),
        ("tool:CURRENT", true),
        ("method:call", true),
        ("id:7", true),
        ("id:77", false),
        ("dir:IN", true),
        ("dir:out", false),
        ("kind:response", true),
        ("kind:non-json", false),
        ("status:ok", true),
        ("status:problem", false),
        ("duration:>0.1s", true),
        ("size:<1.5kb", false),
        ("noon", true),
        ("a://b", false),
    ];

    proptest! {
        #[test]
        fn a_filter_is_the_conjunction_of_its_words_in_any_order_and_spacing(
            words in prop::collection::vec((0..WORDS.len(), "[-!]{0,2}", "[ \\t]{1,3}"), 0..6)
        ) {
            let mut text = String::new();
            let mut expected = true;
            for (index, sign, gap) in &words {
                let (word, holds) = WORDS[*index];
                text.extend([sign.as_str(), word, gap.as_str()]);
                expected &= holds == sign.is_empty();
            }
            prop_assert_eq!(passes(&text), expected, "{}", text);
        }

        #[test]
        fn any_text_is_read_or_refused_in_words_and_what_is_completed_is_read(
            text in "([-!:><a-z0-9. é\\u{130}]|server:|kind:|size:>|duration:<|status:){0,8}"
        ) {
            match Filter::parse(&text, &now()) {
                Ok(filter) => {
                    let _ = filter.passes(&record());
                    prop_assert_eq!(filter.is_empty(), text.trim().is_empty());
                }
                Err(said) => prop_assert!(said.contains("takes"), "{said}"),
            }
            for word in completions(&text, ["time"].into_iter()) {
                prop_assert!(word.ends_with(':') || Filter::parse(&word, &now()).is_ok(), "{word}");
            }
        }

        #[test]
        fn looking_for_a_part_is_looking_in_lower_case(text in "[a-zA-Z é]{0,12}", part in "[a-zé ]{0,3}") {
            prop_assert_eq!(find(&text, &part), text.to_ascii_lowercase().find(&part));
        }
    }
}
