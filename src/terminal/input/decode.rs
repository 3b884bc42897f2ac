//! Decodes terminal bytes into events: UTF-8, CSI, SS3, SGR mouse, bracketed paste, focus. Pure.
//!
//! The parser of the crate `termina` (0.4) is no replacement: an unterminated paste or reply grows
//! there without bound, and a reply in APC, as sent by kitty, becomes keys.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use crate::graphics::{Background, CellPixels, TerminalReply};

const PASTE_END: &[u8] = b"\x1b[201~";

/// Decodes a stream of bytes; keeps incomplete input for the next call.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
    replies: Vec<TerminalReply>,
    /// Silences counted while a reply or paste is unterminated, see [`Decoder::flush`].
    silences: u32,
}

enum DecodeStep {
    /// This many bytes are one event, or nothing known.
    Took(usize, Option<Event>),
    /// This many bytes begin a paste.
    Paste(usize),
    /// This many bytes are a reply of the terminal.
    Reply(usize, Option<TerminalReply>),
    /// More bytes are needed.
    More,
}

impl Decoder {
    /// Longest paste accepted, in bytes; the rest of it is discarded.
    pub const MAX_PASTE_BYTES: usize = 8 << 20;
    const MAX_SEQUENCE_BYTES: usize = 64;
    /// Longest reply of a terminal (OSC, DCS, APC, PM, SOS), in bytes.
    const MAX_ANSWER_BYTES: usize = 4096;
    /// Silences after which an unterminated reply or paste is given up so that the keyboard works
    /// again. Keys typed meanwhile do not restart the count.
    const MAX_SILENCES: u32 = 20;

    /// Decodes bytes; returns the events they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        if bytes.len() > Self::MAX_SEQUENCE_BYTES {
            // Bulk input comes from the terminal, not from typing: the rest is still on its way.
            self.silences = 0;
        }
        self.pending.extend_from_slice(bytes);
        let mut events = Vec::new();
        loop {
            if self.paste.is_some() {
                if !self.feed_paste(&mut events) {
                    break;
                }
                continue;
            }
            if self.pending.is_empty() {
                break;
            }
            match step(&self.pending) {
                DecodeStep::Took(n, event) => {
                    self.pending.drain(..n);
                    events.extend(event);
                }
                DecodeStep::Paste(n) => {
                    self.pending.drain(..n);
                    (self.paste, self.silences) = (Some(Vec::new()), 0);
                }
                DecodeStep::Reply(n, reply) => {
                    self.pending.drain(..n);
                    self.replies.extend(reply);
                    self.silences = 0;
                }
                DecodeStep::More if self.pending.len() > self.longest() => self.pending.clear(),
                DecodeStep::More => break,
            }
        }
        events
    }

    /// The terminal's replies since the last call.
    pub fn replies(&mut self) -> Vec<TerminalReply> {
        std::mem::take(&mut self.replies)
    }

    fn longest(&self) -> usize {
        if is_answer(&self.pending) { Self::MAX_ANSWER_BYTES } else { Self::MAX_SEQUENCE_BYTES }
    }

    /// Whether incomplete input is pending: a lone escape, an unterminated reply or paste.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty() || self.paste.is_some()
    }

    /// Whether nothing is pending, except possibly a lone escape.
    pub fn is_alone(&self) -> bool {
        self.paste.is_none() && matches!(self.pending.as_slice(), [] | [0x1b])
    }

    /// Resolves pending input after a silence. The rest of a reply or paste may come late, but it
    /// must not block the keyboard forever.
    pub fn flush(&mut self) -> Vec<Event> {
        if self.paste.is_some() || self.pending.len() > 2 && is_answer(&self.pending) {
            self.silences += 1;
            if self.silences < Self::MAX_SILENCES {
                return Vec::new();
            }
        }
        self.silences = 0;
        let pending = std::mem::take(&mut self.pending);
        if let Some(mut paste) = self.paste.take() {
            paste.extend(pending);
            return vec![Event::Paste(pasted(&paste))];
        }
        match pending.as_slice() {
            [0x1b] => vec![key(KeyCode::Esc, KeyModifiers::NONE)],
            [0x1b, c @ (b'[' | b'O' | b']' | b'P' | b'_' | b'^' | b'X')] => {
                vec![key(KeyCode::Char(char::from(*c)), KeyModifiers::ALT)]
            }
            _ => Vec::new(),
        }
    }

    fn feed_paste(&mut self, events: &mut Vec<Event>) -> bool {
        let Some(paste) = &mut self.paste else { return false };
        let end = find(&self.pending, PASTE_END);
        // Bytes that may begin the end marker are kept back.
        let keep = if end.is_some() { 0 } else { PASTE_END.len() - 1 };
        let upto = end.unwrap_or(self.pending.len().saturating_sub(keep));
        let room = Self::MAX_PASTE_BYTES.saturating_sub(paste.len());
        paste.extend(self.pending.drain(..upto).take(room));
        if end.is_none() {
            return false;
        }
        self.pending.drain(..PASTE_END.len());
        let text = self.paste.take().unwrap_or_default();
        events.push(Event::Paste(pasted(&text)));
        true
    }
}

/// Terminals send CR for every line break: a lone CR becomes LF, while CR LF is kept as copied.
fn pasted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let pairs = text.split("\r\n").map(|part| part.replace('\r', "\n"));
    pairs.collect::<Vec<_>>().join("\r\n")
}

/// Whether bytes begin a terminal reply with its own terminator: OSC, DCS, APC, PM, SOS.
fn is_answer(bytes: &[u8]) -> bool {
    matches!(bytes, [0x1b, b']' | b'P' | b'_' | b'^' | b'X', ..])
}

/// Length of a reply in bytes, with and without its terminator.
fn answer_end(bytes: &[u8]) -> Option<(usize, usize)> {
    let bell = bytes.iter().position(|b| *b == 0x07).map(|at| (at + 1, at));
    let string = find(bytes, b"\x1b\\").map(|at| (at + 2, at));
    bell.into_iter().chain(string).min()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
    Event::Key(KeyEvent::new(code, modifiers))
}

fn step(bytes: &[u8]) -> DecodeStep {
    match bytes {
        [0x1b] | [0x1b, b'[' | b'O'] => DecodeStep::More,
        [0x1b, b'[', rest @ ..] => csi(rest),
        [0x1b, b']' | b'P' | b'_' | b'^' | b'X', ..] => match answer_end(bytes) {
            Some((took, end)) => {
                let body = &bytes[..end];
                let kitty = body.starts_with(b"\x1b_G") && body.ends_with(b";OK");
                let kitty = kitty.then_some(TerminalReply::Kitty);
                DecodeStep::Reply(took, kitty.or_else(|| background(body)))
            }
            None => DecodeStep::More,
        },
        [0x1b, b'O', final_byte, ..] => {
            DecodeStep::Took(3, named(*final_byte).map(|code| key(code, KeyModifiers::NONE)))
        }
        [0x1b, 0x1b, ..] => DecodeStep::Took(1, Some(key(KeyCode::Esc, KeyModifiers::NONE))),
        [0x1b, rest @ ..] => match character(rest) {
            Some(Some((n, code, modifiers))) => {
                DecodeStep::Took(n + 1, Some(key(code, modifiers | KeyModifiers::ALT)))
            }
            Some(None) => DecodeStep::Took(2, None),
            None => DecodeStep::More,
        },
        _ => match character(bytes) {
            Some(Some((n, code, modifiers))) => DecodeStep::Took(n, Some(key(code, modifiers))),
            Some(None) => DecodeStep::Took(1, None),
            None => DecodeStep::More,
        },
    }
}

/// `None`: more bytes are needed; `Some(None)`: not a character.
type Character = Option<Option<(usize, KeyCode, KeyModifiers)>>;

fn character(bytes: &[u8]) -> Character {
    let head = &bytes[..bytes.len().min(4)];
    let c = match std::str::from_utf8(head) {
        Ok(text) => text.chars().next()?,
        Err(e) if e.valid_up_to() > 0 => head.utf8_chunks().next()?.valid().chars().next()?,
        Err(e) if e.error_len().is_none() => return None,
        Err(_) => return Some(None),
    };
    let control = |from: u8, to: u8| KeyCode::Char(char::from(c as u8 - from + to));
    let (code, modifiers) = match c {
        '\r' => (KeyCode::Enter, KeyModifiers::NONE),
        '\t' => (KeyCode::Tab, KeyModifiers::NONE),
        '\x7f' | '\x08' => (KeyCode::Backspace, KeyModifiers::NONE),
        '\0' => (KeyCode::Char(' '), KeyModifiers::CONTROL),
        '\x01'..='\x1a' => (control(1, b'a'), KeyModifiers::CONTROL),
        '\x1c'..='\x1f' => (control(0x1c, b'4'), KeyModifiers::CONTROL),
        c => (KeyCode::Char(c), KeyModifiers::NONE),
    };
    Some(Some((c.len_utf8(), code, modifiers)))
}

/// The key for the final byte of an SS3 or CSI sequence.
const fn named(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'P'..=b'S' => KeyCode::F(last - b'P' + 1),
        _ => return None,
    })
}

/// Decodes what follows `ESC [`.
fn csi(rest: &[u8]) -> DecodeStep {
    const HEAD_BYTES: usize = 2;
    if let [b'[', f, ..] = rest {
        // The Linux console's function keys.
        let event =
            (b'A'..=b'E').contains(f).then(|| key(KeyCode::F(f - b'A' + 1), KeyModifiers::NONE));
        return DecodeStep::Took(HEAD_BYTES + 2, event);
    }
    let Some(end) = rest.iter().position(|b| (0x40..=0x7e).contains(b)) else {
        // A control byte inside a sequence ends it: losing the sequence beats losing the next keys.
        return match rest.iter().position(|b| *b < 0x20) {
            Some(n) => DecodeStep::Took(HEAD_BYTES + n, None),
            None => DecodeStep::More,
        };
    };
    if let Some(n) = rest[..end].iter().position(|b| *b < 0x20) {
        return DecodeStep::Took(HEAD_BYTES + n, None);
    }
    let took = HEAD_BYTES + end + 1;
    let body = std::str::from_utf8(&rest[..end]).unwrap_or_default();
    if let Some(mouse) = body.strip_prefix('<') {
        return DecodeStep::Took(took, sgr_mouse(mouse, rest[end]));
    }
    if body.starts_with('?') || rest[end] == b't' {
        // No key has this form: it is a reply, or a refusal to give one.
        return DecodeStep::Reply(took, reply(body, rest[end]));
    }
    let mut numbers = body.split(';').map(|n| n.split(':').next().unwrap_or("").parse::<u16>());
    let first = numbers.next().and_then(Result::ok);
    let modifiers = modifiers(numbers.next().and_then(Result::ok).unwrap_or(1).saturating_sub(1));
    let code = match (rest[end], first) {
        (b'Z', _) => KeyCode::BackTab,
        (b'~', Some(1 | 7)) => KeyCode::Home,
        (b'~', Some(4 | 8)) => KeyCode::End,
        (b'I', None) => return DecodeStep::Took(took, Some(Event::FocusGained)),
        (b'O', None) => return DecodeStep::Took(took, Some(Event::FocusLost)),
        (b'~', Some(200)) => return DecodeStep::Paste(took),
        (b'~', Some(2)) => KeyCode::Insert,
        (b'~', Some(3)) => KeyCode::Delete,
        (b'~', Some(5)) => KeyCode::PageUp,
        (b'~', Some(6)) => KeyCode::PageDown,
        (b'~', Some(n @ 11..=15)) => KeyCode::F(n as u8 - 10),
        (b'~', Some(n @ 17..=21)) => KeyCode::F(n as u8 - 11),
        (b'~', Some(n @ 23..=24)) => KeyCode::F(n as u8 - 12),
        (b'u', Some(n)) => return DecodeStep::Took(took, kitty(n, modifiers)),
        (last, _) => {
            return DecodeStep::Took(took, named(last).map(|code| key(code, modifiers)));
        }
    };
    DecodeStep::Took(took, Some(key(code, modifiers)))
}

fn kitty(number: u16, modifiers: KeyModifiers) -> Option<Event> {
    let code = match number {
        9 => KeyCode::Tab,
        13 => KeyCode::Enter,
        27 => KeyCode::Esc,
        127 => KeyCode::Backspace,
        n => KeyCode::Char(char::from_u32(u32::from(n)).filter(|c| !c.is_control())?),
    };
    Some(key(code, modifiers))
}

/// Bits for shift, alt and control, in this order.
fn modifiers(bits: u16) -> KeyModifiers {
    let all = [KeyModifiers::SHIFT, KeyModifiers::ALT, KeyModifiers::CONTROL];
    all.into_iter().enumerate().filter(|(n, _)| bits >> n & 1 != 0).map(|(_, one)| one).collect()
}

fn sgr_mouse(body: &str, last: u8) -> Option<Event> {
    let mut numbers = body.split(';').map(str::parse::<u16>);
    let code = numbers.next()?.ok()?;
    let column = numbers.next()?.ok()?.saturating_sub(1);
    let row = numbers.next()?.ok()?.saturating_sub(1);
    let modifiers = modifiers(code >> 2);
    let button = match code & 3 {
        0 => Some(MouseButton::Left),
        1 => Some(MouseButton::Middle),
        2 => Some(MouseButton::Right),
        _ => None,
    };
    let kind = match (code & 0x40 != 0, code & 0x20 != 0, button) {
        (true, _, _) => match code & 3 {
            0 => MouseEventKind::ScrollUp,
            1 => MouseEventKind::ScrollDown,
            2 => MouseEventKind::ScrollLeft,
            _ => MouseEventKind::ScrollRight,
        },
        (false, true, Some(button)) => MouseEventKind::Drag(button),
        (false, false, Some(button)) if last == b'M' => MouseEventKind::Down(button),
        (false, false, Some(button)) => MouseEventKind::Up(button),
        (false, _, None) => MouseEventKind::Moved,
    };
    Some(Event::Mouse(MouseEvent { kind, column, row, modifiers }))
}

// Replies to the queries of `graphics`, parsed from the bytes between `ESC [` and the final letter.
// Makes no decisions.

/// A reply to one of our queries: attributes (DA1), sixel limits (XTSMGRAPHICS), or the size of a
/// cell in pixels.
pub(super) fn reply(body: &str, last: u8) -> Option<TerminalReply> {
    if let (b'c', Some(attributes)) = (last, body.strip_prefix('?')) {
        let sixel = attributes.split(';').skip(1).any(|attribute| attribute == "4");
        return Some(TerminalReply::Attributes { sixel });
    }
    if last == b'S' {
        return sixel_limit(body);
    }
    let size = body.strip_prefix("6;").filter(|_| last == b't')?;
    let (height, width) = size.split_once(';')?;
    let sane = |text: &str| text.parse::<u16>().ok().filter(|n| (2..=256).contains(n));
    Some(TerminalReply::Cell(CellPixels { width: sane(width)?, height: sane(height)? }))
}

/// The background colour, the answer to OSC 11.
fn background(body: &[u8]) -> Option<TerminalReply> {
    let colour = std::str::from_utf8(body.strip_prefix(b"\x1b]11;")?).ok()?;
    Background::parse(colour).map(TerminalReply::Background)
}

/// `?1;0;N`: N colours; `?2;0;W;H`: pixels. Anything but a 0 in the middle is a refusal.
fn sixel_limit(body: &str) -> Option<TerminalReply> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|n| *n > 1);
    let mut parts = body.strip_prefix('?')?.split(';');
    match (parts.next()?, parts.next()?, number(parts.next()?)?, parts.next()) {
        ("1", "0", colours, None) => Some(TerminalReply::SixelColours(colours)),
        ("2", "0", width, Some(height)) => Some(TerminalReply::SixelArea(width, number(height)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chord::Chord;
    use crate::graphics::CellPixels;

    fn chords(bytes: &[u8]) -> Vec<String> {
        let mut decoder = Decoder::default();
        let mut events = decoder.feed(bytes);
        events.extend(decoder.flush());
        events
            .into_iter()
            .map(|event| match event {
                Event::Key(key) => Chord::pressed(key).to_string(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn keys_of_the_usual_terminals_are_understood() {
        for (bytes, wanted) in [
            (&b"a"[..], "a"),
            (b"\x10", "ctrl-p"),
            (b"\r", "enter"),
            (b"\t", "tab"),
            (b"\x1b[Z", "backtab"),
            (b"\x1b", "esc"),
            (b"\x1b[A", "up"),
            (b"\x1bOB", "down"),
            (b"\x1b[1;5C", "ctrl-right"),
            (b"\x1b[5~", "pageup"),
            (b"\x1b[15~", "f5"),
            (b"\x1b[[A", "f1"),
            (b"\x1bOP", "f1"),
            (b"\x1bx", "alt-x"),
            (b"\x1b[112;5u", "ctrl-p"),
            ("é".as_bytes(), "é"),
            (b"\x7f", "backspace"),
        ] {
            assert_eq!(chords(bytes), [wanted], "{bytes:?}");
        }
    }

    #[test]
    fn an_escape_before_another_key_is_not_swallowed() {
        assert_eq!(chords(b"\x1b\x1b[A"), ["esc", "up"]);
    }

    #[test]
    fn a_paste_is_one_event_however_it_is_cut() {
        let bytes = b"x\x1b[200~one\r\ntwo \x1b[31m\x1b[201~y";
        for cut in 0..bytes.len() {
            let mut decoder = Decoder::default();
            let mut events = decoder.feed(&bytes[..cut]);
            events.extend(decoder.feed(&bytes[cut..]));
            assert_eq!(events.len(), 3, "cut at {cut}: {events:?}");
            assert_eq!(events[1], Event::Paste("one\r\ntwo \x1b[31m".into()));
        }
    }

    #[test]
    fn what_the_terminal_answers_is_no_key_however_it_is_cut() {
        let bytes = b"x\x1b_Gi=31;OK\x1b\\\x1b[6;17;8t\x1b[?1;0;16S\x1b[?62;4;22cy";
        let cell = CellPixels { width: 8, height: 17 };
        let wanted = [
            TerminalReply::Kitty,
            TerminalReply::Cell(cell),
            TerminalReply::SixelColours(16),
            TerminalReply::Attributes { sixel: true },
        ];
        for cut in (0..bytes.len()).filter(|cut| *cut != 3) {
            let mut decoder = Decoder::default();
            let mut events = decoder.feed(&bytes[..cut]);
            if is_answer(&decoder.pending) && decoder.pending.len() > 2 {
                events.extend(decoder.flush());
            }
            events.extend(decoder.feed(&bytes[cut..]));
            assert_eq!(events.len(), 2, "cut at {cut}: {events:?}");
            assert_eq!(decoder.replies(), wanted, "cut at {cut}");
        }
        for nothing in
            [&b"\x1b_Gi=31;EINVAL\x1b\\"[..], b"\x1b[6;0;0t", b"\x1b[4;600;800t", b"\x1b[?1;3;0S"]
        {
            let mut decoder = Decoder::default();
            assert_eq!((decoder.feed(nothing), decoder.replies()), (vec![], vec![]));
        }
    }

    #[test]
    fn the_background_is_light_or_dark_however_its_colour_is_written() {
        use Background::{Dark, Light};
        for (answer, background) in [
            ("\x1b]11;rgb:fdfd/f6f6/e3e3\x07", Some(Light)),
            ("\x1b]11;rgb:ff/ff/ff\x1b\\", Some(Light)),
            ("\x1b]11;rgb:1a1a/1b1b/2626\x1b\\", Some(Dark)),
            ("\x1b]11;rgba:0000/0000/0000/ffff\x07", Some(Dark)),
            ("\x1b]11;rgb:0/0\x07", None),
            ("\x1b]11;rgb:00000/0/0\x07", None),
            ("\x1b]11;red\x07", None),
            ("\x1b]10;rgb:ffff/ffff/ffff\x07", None),
        ] {
            let mut decoder = Decoder::default();
            assert_eq!(decoder.feed(answer.as_bytes()), vec![], "{answer:?}");
            let expected: Vec<_> = background.map(TerminalReply::Background).into_iter().collect();
            assert_eq!(decoder.replies(), expected, "{answer:?}");
        }
    }

    #[test]
    fn answers_nobody_asked_for_leak_no_text_and_hold_no_key_for_ever() {
        for answer in [
            &b"\x1b]11;rgb:0000/1111/2222\x07"[..],
            b"\x1b]52;c;cXVpdA==\x1b\\",
            b"\x1bP>|term 1.2\x1b\\",
            b"\x1b^quit\x1b\\",
        ] {
            for cut in 3..answer.len() {
                let mut decoder = Decoder::default();
                let mut events = decoder.feed(&answer[..cut]);
                events.extend(decoder.flush());
                events.extend(decoder.feed(&answer[cut..]));
                assert_eq!((events, decoder.is_waiting()), (vec![], false), "{answer:?} at {cut}");
            }
        }
        for (begun, lost) in
            [(&b"\x1b]11;rgb:"[..], true), (b"\x1b_Gi=3", true), (b"\x1b[200~a", false)]
        {
            let mut decoder = Decoder::default();
            decoder.feed(begun);
            let mut events = Vec::new();
            for _ in 0..Decoder::MAX_SILENCES {
                assert!(decoder.is_waiting());
                events.extend(decoder.flush());
            }
            assert_eq!(events.is_empty(), lost, "{events:?}");
            assert_eq!(decoder.feed(b"q").len(), 1, "the keyboard is back");
        }
        assert_eq!(chords(b"\x1b]"), ["alt-]"]);
    }

    #[test]
    fn the_mouse_reports_where_and_what() {
        let mut decoder = Decoder::default();
        let events = decoder.feed(b"\x1b[<0;5;3M\x1b[<0;5;3m\x1b[<65;1;1M");
        let kinds: Vec<_> = events
            .iter()
            .map(|e| match e {
                Event::Mouse(m) => (m.kind, m.column, m.row),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            kinds,
            [
                (MouseEventKind::Down(MouseButton::Left), 4, 2),
                (MouseEventKind::Up(MouseButton::Left), 4, 2),
                (MouseEventKind::ScrollDown, 0, 0)
            ]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_stop_it_and_a_key_after_them_still_arrives(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut decoder = Decoder::default();
            decoder.feed(&bytes);
            for _ in 0..Decoder::MAX_SILENCES {
                decoder.flush();
            }
            let events = decoder.feed(b"q");
            let q = matches!(
                events.last(),
                Some(Event::Key(KeyEvent { code: KeyCode::Char('q'), .. }))
            );
            prop_assert!(q);
        }
    }
}

#[cfg(test)]
mod reply_tests {
    use super::*;

    #[test]
    fn what_a_sixel_picture_may_have_is_read_and_a_refusal_says_nothing() {
        assert_eq!(reply("?1;0;1024", b'S'), Some(TerminalReply::SixelColours(1024)));
        assert_eq!(reply("?2;0;1000;800", b'S'), Some(TerminalReply::SixelArea(1000, 800)));
        for nothing in
            ["?1;3;0", "?1;0;0", "?1;0", "?2;0;0;0", "?2;0;800", "?3;0;5", "1", "?1;0;16;4"]
        {
            assert_eq!(reply(nothing, b'S'), None, "{nothing}");
        }
    }
}
