//! Keys of a person, written down.

use super::*;

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

pub(super) fn press(form: &mut FormState, script: &str) {
    let mut rest = script;
    while let Some(c) = rest.chars().next() {
        if c == '<'
            && let Some((name, after)) = rest[1..].split_once('>')
        {
            named(form, name);
            rest = after;
        } else {
            form.type_key(key(KeyCode::Char(c)));
            rest = &rest[c.len_utf8()..];
        }
    }
}

fn named(form: &mut FormState, name: &str) {
    let (code, command) = match name {
        "enter" => (KeyCode::Enter, FormCommand::Enter),
        "tab" => (KeyCode::Tab, FormCommand::Next),
        "down" => (KeyCode::Down, FormCommand::Next),
        "up" => (KeyCode::Up, FormCommand::Previous),
        "space" => (KeyCode::Char(' '), FormCommand::Toggle),
        "backspace" => (KeyCode::Backspace, FormCommand::Unset),
        other => panic!("no key {other}"),
    };
    if !form.type_key(key(code)) {
        form.apply(command);
    }
}

pub(super) fn random(form: &mut FormState, n: u8) {
    use FormCommand as C;
    let commands = [
        C::Next,
        C::Previous,
        C::NextProblem,
        C::Enter,
        C::Toggle,
        C::Unset,
        C::Null,
        C::Empty,
        C::Add,
        C::Remove,
        C::Duplicate,
        C::MoveUp,
        C::MoveDown,
        C::StepUp,
        C::StepDown,
        C::Fold,
        C::Unfold,
        C::Rename,
        C::AsJson,
        C::Json,
        C::Undo,
        C::Last,
    ];
    if let Some(command) = commands.get(usize::from(n)) {
        form.apply(*command);
    } else {
        let codes = [
            KeyCode::Char('1'),
            KeyCode::Char('a'),
            KeyCode::Char('"'),
            KeyCode::Char('{'),
            KeyCode::Backspace,
            KeyCode::Enter,
            KeyCode::Down,
            KeyCode::Char(' '),
        ];
        form.type_key(key(codes[usize::from(n) % codes.len()]));
    }
}
