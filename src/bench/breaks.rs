//! Values for one place of the arguments: those that its schema permits, those that break one of its
//! rules, and content that a server has to treat as data. Pure.

use fastrand::Rng;
use serde_json::{Number, Value, json};

use crate::pattern::{MAX_TEXT_CHARS, of_pattern, texts_of};
use schema::{Merged, Types};

/// Length of the longest text that is sent, where the schema sets no limit.
const MAX_SENT_TEXT_CHARS: usize = 100_000;
/// A letter that takes more than one unit in every encoding but UTF-32.
const WIDE_LETTER: &str = "\u{1d54f}";

/// Texts that a server has to treat as data; each begins with what is odd about it, so that it may
/// be cut.
const HOSTILE_TEXTS: [(&str, &str); 9] = [
    ("path traversal", "../../../../etc/passwd"),
    ("absolute path", "/etc/shadow"),
    ("shell injection", "$(id); `id` | cat & #"),
    ("SQL injection", "' OR 1=1; DROP TABLE x; --"),
    ("template injection", "{{7*7}}${7*7}<%= 7*7 %>"),
    ("markup", "<script>alert(1)</script>&amp;\"'"),
    ("right-to-left and zero-width characters", "\u{202e}\u{200b}\u{feff}\u{2066}abc"),
    ("control characters", "\u{0}a\u{7}b\u{1b}[31mc\r\n"),
    ("format placeholders", "%s%n%x{0}{name}"),
];

/// Ordinary texts of people who do not write in ASCII.
const FOREIGN_TEXTS: [(&str, &str); 3] = [
    ("letters with accents, and Chinese ones", "\u{e9}\u{dc}\u{6f22}\u{5b57}"),
    ("letters and their accents as two characters", "e\u{301}o\u{308}a\u{30a}"),
    ("characters beyond the first plane", "\u{1f4a9}\u{1d54f}\u{20bb7}"),
];

/// What a difference is meant to be. The schema has the last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseAim {
    /// Permitted.
    Fit,
    /// Forbidden.
    Break,
    /// Permitted, and to be treated as data.
    Data,
    /// Permitted, in letters beyond ASCII.
    Foreign,
}

/// A value for a place, and how it differs.
pub struct PlaceDifference {
    /// The value.
    pub value: Value,
    /// How it differs.
    pub what: String,
    /// What it is meant to be.
    pub aim: CaseAim,
}

/// A value that the schema should permit.
pub fn differs(value: Value, what: impl Into<String>) -> PlaceDifference {
    PlaceDifference { value, what: what.into(), aim: CaseAim::Fit }
}

/// A value that the schema should forbid.
pub fn breaks(value: Value, what: impl Into<String>) -> PlaceDifference {
    PlaceDifference { value, what: what.into(), aim: CaseAim::Break }
}

/// A value that a server has to treat as data.
pub fn hostile(value: Value, what: impl Into<String>) -> PlaceDifference {
    PlaceDifference { value, what: what.into(), aim: CaseAim::Data }
}

/// The values of an `enum`, and near ones.
pub fn of_options(options: &[Value], all: &mut Vec<PlaceDifference>) {
    all.extend(options.iter().map(|option| differs(option.clone(), "enum value")));
    if let Some(text) = options.iter().find_map(Value::as_str) {
        all.push(breaks(json!(format!("{text}x")), "not in the enum"));
        all.push(breaks(json!(""), "not in the enum (empty)"));
        let upper = text.to_uppercase();
        if upper != text {
            all.push(breaks(json!(upper), "not in the enum (upper case)"));
        }
    }
    let greatest = options.iter().filter_map(Value::as_f64).max_by(f64::total_cmp);
    if let Some(greatest) = greatest.filter(|number| number.abs() < 1e15) {
        all.push(breaks(number(greatest + 1.0, false), "not in the enum"));
    }
}

/// Values near the only one that is permitted.
pub fn of_constant(fixed: &Value, all: &mut Vec<PlaceDifference>) {
    let other = match fixed {
        Value::String(text) => json!(format!("{text}x")),
        Value::Number(it) => number(it.as_f64().unwrap_or_default() + 1.0, false),
        Value::Bool(it) => json!(!it),
        Value::Null | Value::Array(_) | Value::Object(_) => return,
    };
    all.push(breaks(other, "not the constant"));
}

/// Values of other types than `kinds`: plain ones, and those that look like the right one, such as
/// `own`, written as text.
pub fn of_other_types(kinds: Types, own: Option<&Value>, all: &mut Vec<PlaceDifference>) {
    all.push(differs(Value::Null, "null"));
    for (value, what) in [
        (json!("text"), "a text instead of another type"),
        (json!(1), "a number instead of another type"),
        (json!(true), "a boolean instead of another type"),
        (json!(["a"]), "a list instead of another type"),
        (json!({"a": 1}), "an object instead of another type"),
    ] {
        if !kinds.contains(Types::from_value(&value)) {
            all.push(breaks(value, what));
        }
    }
    let Some(own) = own else { return };
    if !kinds.contains(Types::STRING) && !own.is_null() {
        let what = match own {
            Value::Number(_) => "a number as text",
            Value::Bool(_) => "a boolean as text",
            Value::Array(_) => "a list as JSON text",
            _ => "an object as JSON text",
        };
        all.push(breaks(json!(own.to_string()), what));
    }
    if let Some(first) = own.as_array().and_then(|items| items.first())
        && !kinds.contains(Types::from_value(first))
    {
        all.push(breaks(first.clone(), "one item instead of a list"));
    }
    if own.is_boolean() && !kinds.contains(Types::NUMBER) {
        all.push(breaks(json!(0), "0 instead of a boolean"));
    }
}

/// A text that is as long as it may be, and not shorter than it must be; `None` when nothing is left
/// of it.
fn fitted(text: &str, (least, most): (u64, u64)) -> Option<String> {
    let many = (text.chars().count() as u64).max(least).min(most);
    (many > 0 && many <= MAX_TEXT_CHARS).then(|| text.chars().cycle().take(many as usize).collect())
}

/// Texts for a place.
pub fn of_texts(merged: &Merged, all: &mut Vec<PlaceDifference>) {
    let (least, most) = lengths(merged);
    let repeat = |letter: &str, many: u64| json!(letter.repeat(many as usize));
    let pattern = merged.first(|node| node.text("pattern"));
    let format = merged.first(|node| node.text("format"));
    let format = format.filter(|format| !format_others(format).is_empty());
    if let Some(pattern) = pattern {
        of_patterns(pattern, all);
    } else if let Some(format) = format {
        let what = format!("another text of the format {format}");
        all.extend(format_others(format).iter().map(|text| differs(json!(text), what.as_str())));
        let what = format!("not of the format {format}");
        all.extend(format_breaks(format).iter().map(|text| breaks(json!(text), what.as_str())));
    } else {
        if least == 0 {
            all.push(differs(json!(""), "empty text"));
        }
        if least > 0 && least <= MAX_TEXT_CHARS {
            all.push(differs(repeat("a", least), "shortest text"));
        }
        if most <= MAX_TEXT_CHARS {
            all.push(differs(repeat("a", most), "longest text"));
        }
    }
    if format.is_none() {
        let mut add = |text: &str, what: &str, aim: CaseAim| {
            let what = what.to_owned();
            let text = fitted(text, (least, most));
            all.extend(text.map(|text| PlaceDifference { value: json!(text), what, aim }));
        };
        let begins = pattern.and_then(|pattern| of_pattern(pattern, &mut Rng::with_seed(0), false));
        let data = HOSTILE_TEXTS.map(|(what, text)| (what, text, CaseAim::Data));
        let foreign = FOREIGN_TEXTS.map(|(what, text)| (what, text, CaseAim::Foreign));
        for (what, text, aim) in data.into_iter().chain(foreign) {
            add(text, what, aim);
            // What a pattern says of the beginning alone.
            if let Some(begins) = &begins {
                add(&format!("{begins}{text}"), what, aim);
            }
        }
        if most <= MAX_TEXT_CHARS {
            let longest = WIDE_LETTER.repeat(most as usize);
            add(&longest, "longest text, in characters beyond the first plane", CaseAim::Foreign);
        }
        if most > MAX_SENT_TEXT_CHARS as u64 {
            all.push(hostile(json!("a".repeat(MAX_SENT_TEXT_CHARS)), "huge text"));
        }
    }
    if least > 0 && least <= MAX_TEXT_CHARS {
        all.push(breaks(repeat("a", least - 1), "shorter than the minimum"));
    }
    if least > 1 && least <= MAX_TEXT_CHARS {
        // As many units as it must have characters.
        let units = repeat(WIDE_LETTER, least.div_ceil(2));
        all.push(breaks(units, "shorter than the minimum, in characters beyond the first plane"));
    }
    if most < MAX_TEXT_CHARS {
        all.push(breaks(repeat("a", most + 1), "longer than the maximum"));
    }
}

/// Texts that match a pattern, and some that nearly do.
fn of_patterns(pattern: &str, all: &mut Vec<PlaceDifference>) {
    let mut rng = Rng::with_seed(1);
    let mut made: Vec<String> =
        (0..6).filter_map(|_| of_pattern(pattern, &mut rng, true)).collect();
    if made.is_empty() {
        made = texts_of(pattern);
    }
    for text in ["", " ", "\u{1}", "~!", "a\nb"] {
        all.push(breaks(json!(text), "not of the pattern"));
    }
    if let Some(text) = made.first() {
        let mut shorter = text.clone();
        shorter.pop();
        let upper = text.to_uppercase();
        let turned = if upper == *text { text.to_lowercase() } else { upper };
        for text in [format!("~{text}"), format!("{text}~"), shorter, turned] {
            all.push(breaks(json!(text), "nearly of the pattern"));
        }
    }
    all.extend(made.into_iter().map(|text| differs(json!(text), "another match of the pattern")));
}

/// The bounds of a text's length; the longest is the greatest number without one.
pub fn lengths(merged: &Merged) -> (u64, u64) {
    let least = counts(merged, "minLength").max().unwrap_or(0);
    (least, counts(merged, "maxLength").min().unwrap_or(u64::MAX))
}

/// The values of a keyword that counts, in all schemas of a place.
pub fn counts(merged: &Merged, keyword: &str) -> impl Iterator<Item = u64> {
    merged.nodes.iter().filter_map(move |node| node.count(keyword))
}

/// The numbers that schemas of a place name as limits, as they are written, and their neighbours.
pub fn limit_values(merged: &Merged) -> Vec<Value> {
    let mut all = Vec::new();
    for node in &merged.nodes {
        for keyword in ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"] {
            let Some(limit) = node.value(keyword).filter(|limit| limit.is_number()) else {
                continue;
            };
            all.push(limit.clone());
            if let Some(whole) = limit.as_i64() {
                all.extend([json!(whole.saturating_add(1)), json!(whole.saturating_sub(1))]);
            }
        }
    }
    all
}

/// A number without the last digits, in which sums of fractions go wrong.
fn rounded(value: f64) -> f64 {
    if value.abs() < 1e-300 { value } else { format!("{value:.12e}").parse().unwrap_or(value) }
}

fn number(value: f64, integer: bool) -> Value {
    let value = rounded(value);
    let is_whole = value.fract() == 0.0 && value.abs() < 9e15;
    if integer || is_whole {
        return json!(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// The nearest number at or above a lower bound, or at or below an upper one, else a small one.
pub fn smallest_number(merged: &Merged) -> Value {
    let step = merged.step();
    let has_step = merged.nodes.iter().any(|node| node.multiple_of().is_some());
    let start = match (merged.minimum(), merged.maximum()) {
        (Some((low, open)), _) => {
            let unit = if merged.integer || has_step { step } else { 1e-3 };
            let first = if merged.integer || has_step { (low / step).ceil() * step } else { low };
            if open && first <= low { first + unit } else { first }
        }
        (None, Some((high, open))) if high < 1.0 || open && high <= 1.0 => {
            let unit = if merged.integer || has_step { step } else { 1e-3 };
            let last = if merged.integer || has_step { (high / step).floor() * step } else { high };
            if open && last >= high { last - unit } else { last }
        }
        _ => step,
    };
    number(start, merged.integer)
}

/// Numbers for a place.
pub fn of_numbers(merged: &Merged, all: &mut Vec<PlaceDifference>) {
    let integer = merged.integer;
    let has_step = merged.nodes.iter().any(|node| node.multiple_of().is_some());
    let unit = if integer || has_step { merged.step() } else { 1e-3 };
    let mut add = |value: f64, what: &str| all.push(differs(number(value, integer), what));
    if let Some((low, open)) = merged.minimum() {
        add(if open { low + unit } else { low }, "smallest number");
        add(if open { low } else { low - unit }, "below the minimum");
        add(low - 1e6, "far below the minimum");
    } else {
        add(-1.0, "negative number");
    }
    if let Some((high, open)) = merged.maximum() {
        add(if open { high - unit } else { high }, "largest number");
        add(if open { high } else { high + unit }, "above the maximum");
        add(high + 1e6, "far above the maximum");
    }
    add(0.0, "zero");
    add(1.0, "one");
    if has_step {
        add(merged.step() * 2.0, "a multiple");
        all.push(breaks(json!(merged.step() * 1.5), "not a multiple"));
    }
    if integer {
        all.push(breaks(json!(1.5), "a fraction instead of a whole number"));
        for (value, what) in
            [(1_i64 << 31, "2^31"), (-(1_i64 << 31) - 1, "below -2^31"), ((1 << 53) - 1, "2^53-1")]
        {
            all.push(hostile(json!(value), what));
        }
    } else {
        all.push(differs(json!(0.5), "a fraction"));
        all.push(hostile(json!(1e300), "a huge number"));
        all.push(hostile(json!(-1e300), "a huge negative number"));
        all.push(hostile(json!(5e-324), "the least number above zero"));
    }
}

/// A text of a format.
pub fn format_sample(format: &str) -> Option<&'static str> {
    format_others(format).first().copied()
}

/// Texts of a format; none of one that is not known.
fn format_others(format: &str) -> &'static [&'static str] {
    match format {
        "date" => &["2026-01-15", "2024-02-29", "1970-01-01", "9999-12-31"],
        "time" => &["12:30:00Z", "00:00:00Z", "23:59:59.999+05:30"],
        "date-time" => &[
            "2026-01-15T12:30:00Z",
            "2024-02-29T23:59:59.999999+05:30",
            "1969-12-31T23:59:59-11:00",
        ],
        "duration" => &["PT1H", "P1Y2M3DT4H5M6S", "P4W"],
        "email" => &["a@example.com", "first.last+tag@sub.example.org"],
        "idn-email" => &["a@example.com", "j\u{fc}rgen@b\u{fc}cher.example"],
        "hostname" => &["example.com", "a.b-c.example.org"],
        "idn-hostname" => &["example.com", "b\u{fc}cher.example"],
        "ipv4" => &["192.0.2.1", "0.0.0.0", "255.255.255.255"],
        "ipv6" => &["2001:db8::1", "::", "::ffff:192.0.2.1"],
        "uri" | "uri-reference" => &[
            "https://example.com/a",
            "http://example.com:8080/a/b?c=d&e=%20#f",
            "urn:isbn:0451450523",
        ],
        "iri" | "iri-reference" => &["https://example.com/a", "https://b\u{fc}cher.example/\u{e9}"],
        "uri-template" => &["https://example.com/{id}", "/a{?page,size}"],
        "uuid" => &["123e4567-e89b-42d3-a456-426614174000", "00000000-0000-0000-0000-000000000000"],
        "json-pointer" => &["/a/b", "", "/a~1b/0"],
        "relative-json-pointer" => &["0", "1/a", "2#"],
        "regex" => &["^a+$", "[0-9]{2,3}"],
        "byte" | "base64" => &["aGVsbG8=", "AA=="],
        _ => &[],
    }
}

/// Texts that are nearly of a format.
fn format_breaks(format: &str) -> &'static [&'static str] {
    match format {
        "date" => &["no such thing", "", "2026-02-30", "2026-1-5", "15.01.2026"],
        "time" => &["no such thing", "", "25:00:00Z", "12:30"],
        "date-time" => &["no such thing", "", "2026-01-15T12:30:00", "2026-02-30T00:00:00Z"],
        "duration" => &["no such thing", "", "P", "1h"],
        "email" | "idn-email" => &["no such thing", "", "@example.com", "a@"],
        "hostname" | "idn-hostname" => &["no such thing", "", "-a.example"],
        "ipv4" => &["no such thing", "", "256.0.2.1", "192.0.2", "2001:db8::1"],
        "ipv6" => &["no such thing", "", "2001:db8", "192.0.2.1"],
        "uri" | "iri" => &["no such thing", "", "/a/b"],
        "uri-reference" | "iri-reference" => &["no such thing", "\\\\a\\b"],
        "uri-template" => &["{", "/a{b"],
        "uuid" => &["no such thing", "", "123e4567-e89b-42d3-a456-42661417400"],
        "json-pointer" => &["a/b", "/a~2"],
        "relative-json-pointer" => &["", "/a", "-1"],
        "regex" => &["(", "[a"],
        _ => &["no such thing", ""],
    }
}
