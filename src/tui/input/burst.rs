//! Bursts of keys: what comes faster than anybody types was pasted into a terminal that does not
//! say so. It is text, never keys. Pure; the input thread gathers what comes within [`TOGETHER`].

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

/// Keys that follow each other within this time were not typed one by one.
pub const TOGETHER: Duration = Duration::from_millis(3);
/// Characters that are no paste yet: two hands, a slow line, an escape and a key.
const FEW: usize = 4;

/// Whether keys like this one may be part of a paste.
pub fn is_text(event: &Event) -> bool {
    matches!(
        event,
        Event::Key(KeyEvent { code: KeyCode::Char(_) | KeyCode::Enter | KeyCode::Tab, .. })
    )
}

/// Makes one paste of every run of keys that came together. `goes_on` says that such a run came a
/// moment ago: what follows it at once is its rest, however short. Gives the events, and whether
/// they end with such a run.
pub fn join(events: Vec<Event>, goes_on: bool) -> (Vec<Event>, bool) {
    let mut out = Vec::with_capacity(events.len());
    let mut run = Vec::new();
    for event in events {
        match event {
            Event::Key(key) if is_text(&event) => run.push(key),
            other => {
                end(&mut run, goes_on && out.is_empty(), &mut out);
                out.push(other);
            }
        }
    }
    let burst = end(&mut run, goes_on && out.is_empty(), &mut out);
    (out, burst)
}

fn end(run: &mut Vec<KeyEvent>, goes_on: bool, out: &mut Vec<Event>) -> bool {
    let keys = std::mem::take(run);
    // A key that is held down repeats, and comes in bulk over a slow line.
    let held = keys.iter().all(|key| key == &keys[0] && key.code != KeyCode::Enter);
    if keys.is_empty() || !goes_on && (keys.len() < FEW || held) {
        out.extend(keys.into_iter().map(Event::Key));
        return false;
    }
    let text = keys.iter().filter_map(|key| match key.code {
        KeyCode::Enter => Some('\n'),
        KeyCode::Tab => Some('\t'),
        KeyCode::Char('j') if key.modifiers == KeyModifiers::CONTROL => Some('\n'),
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::CONTROL) => None,
        KeyCode::Char(c) => Some(c),
        _ => None,
    });
    out.push(Event::Paste(text.collect()));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(bytes: &str, goes_on: bool) -> Vec<Event> {
        let mut decoder = crate::tui::input::Decoder::default();
        join(decoder.feed(bytes.as_bytes()), goes_on).0
    }

    #[test]
    fn what_nobody_can_type_so_fast_is_text_and_holds_no_key() {
        for text in ["yes\rplease", "quit", "a\x13b\rc\r", "\r\r\r\r", "x\x1by\rzz", "grün\n"] {
            let events = joined(text, false);
            let [Event::Paste(pasted)] = events.as_slice() else { panic!("{text:?}: {events:?}") };
            assert!(!pasted.contains('\x13'), "{pasted:?}");
        }
        assert!(matches!(joined("q", true).as_slice(), [Event::Paste(_)]), "the rest of a paste");
    }

    #[test]
    fn single_keys_held_keys_and_keys_between_others_stay_keys() {
        for (text, count) in [("q", 1), ("2jj", 3), ("jjjjjjjj", 8), ("ab\x1b[Acd\x1b[B", 6)] {
            let events = joined(text, false);
            assert_eq!(events.len(), count, "{events:?}");
            assert!(events.iter().all(|event| matches!(event, Event::Key(_))), "{events:?}");
        }
    }
}
