//! Dates and times stepped where the cursor stands: year, month, day, hour, minute or second
//! (RFC 3339, as JSON Schema's formats `date`, `time` and `date-time` want them). Pure.

use jiff::Span;
use jiff::civil::{Date, DateTime, Time};

use super::edit::Direction;
use crate::base::Timestamp;

/// The next text of a field of this format. `column` is where the cursor stands; behind the last
/// part the usual one is stepped: the day of a date, the minute of a time. What is not set becomes
/// now. `None` when the format is none of these, or the text is not of it.
pub(super) fn stepped(
    format: &str,
    text: Option<&str>,
    column: usize,
    direction: Direction,
    now: Timestamp,
) -> Option<String> {
    let one = if direction == Direction::Up { 1 } else { -1 };
    let now = || crate::tui::model::zoned(now);
    match (format, text.filter(|text| !text.is_empty())) {
        ("date", None) => Some(now().date().to_string()),
        ("time", None) => Some(now().strftime("%H:%M:00%:z").to_string()),
        ("date-time", None) => Some(now().strftime("%Y-%m-%dT%H:%M:00%:z").to_string()),
        ("date", Some(text)) => {
            let date: Date = text.parse().ok()?;
            Some(
                date.checked_add(day_part(column).unwrap_or(Span::new().days(1)) * one)
                    .ok()?
                    .to_string(),
            )
        }
        ("time", Some(text)) => {
            let (clock, offset) = split(text, 0);
            let time: Time = clock.parse().ok()?;
            Some(format!("{}{offset}", time.wrapping_add(clock_part(column) * one)))
        }
        ("date-time", Some(text)) => {
            let (moment, offset) = split(text, 11);
            let moment: DateTime = moment.parse().ok()?;
            let part = day_part(column).filter(|_| column <= 10);
            let part = part.unwrap_or_else(|| clock_part(column.saturating_sub(11)));
            Some(format!("{}{offset}", moment.checked_add(part * one).ok()?))
        }
        _ => None,
    }
}

/// Date or time and its offset from UTC.
fn split(text: &str, from: usize) -> (&str, &str) {
    let tail = text.get(from..).unwrap_or_default();
    let at = tail.find(['Z', 'z', '+', '-']).map_or(text.len(), |at| from + at);
    text.split_at(at)
}

/// The part of `2026-11-21` at a column.
fn day_part(column: usize) -> Option<Span> {
    match column {
        0..=4 => Some(Span::new().years(1)),
        5..=7 => Some(Span::new().months(1)),
        8..=9 => Some(Span::new().days(1)),
        _ => None,
    }
}

/// The part of `12:30:00` at a column.
fn clock_part(column: usize) -> Span {
    match column {
        0..=2 => Span::new().hours(1),
        6..=7 => Span::new().seconds(1),
        _ => Span::new().minutes(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(format: &str, text: &str, column: usize) -> Option<String> {
        stepped(format, Some(text), column, Direction::Up, Timestamp(0))
    }

    fn down(format: &str, text: &str, column: usize) -> Option<String> {
        stepped(format, Some(text), column, Direction::Down, Timestamp(0))
    }

    #[test]
    fn the_part_under_the_cursor_is_stepped_and_carries() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(up("date", "2026-12-31", 10), some("2027-01-01"));
        assert_eq!(up("date", "2026-01-31", 6), some("2026-02-28"));
        assert_eq!(down("date", "2024-02-29", 0), some("2023-02-28"));
        assert_eq!(up("time", "23:59:00Z", 9), some("00:00:00Z"));
        assert_eq!(down("time", "00:10:00+01:00", 1), some("23:10:00+01:00"));
        assert_eq!(up("time", "12:00:59", 7), some("12:01:00"));
        let moment = "2026-12-31T23:59:30-05:30";
        assert_eq!(up("date-time", moment, 25), some("2027-01-01T00:00:30-05:30"));
        assert_eq!(up("date-time", moment, 3), some("2027-12-31T23:59:30-05:30"));
        assert_eq!(down("date-time", moment, 9), some("2026-12-30T23:59:30-05:30"));
        assert_eq!(down("date-time", moment, 12), some("2026-12-31T22:59:30-05:30"));
    }

    #[test]
    fn what_is_none_is_left_alone_and_what_is_not_set_is_now() {
        for (format, text) in [("date", "soon"), ("time", "noon"), ("date-time", "é"), ("uri", "a")]
        {
            assert_eq!(up(format, text, 0), None);
        }
        let now = stepped("date-time", None, 0, Direction::Up, Timestamp(0)).expect("now");
        assert_eq!(now, "1970-01-01T00:00:00+00:00");
        assert!(up("date-time", &now, 12).is_some(), "{now}");
        let time = stepped("time", None, 0, Direction::Down, Timestamp(0)).expect("now");
        assert!(up("time", &time, 0).is_some(), "{time}");
    }
}
