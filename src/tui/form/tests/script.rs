//! Scripts of key presses.

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
        "enter" => (KeyCode::Enter, crate::action::Action::Open),
        "tab" => (KeyCode::Tab, crate::action::Action::NextField),
        "down" => (KeyCode::Down, crate::action::Action::NextField),
        "up" => (KeyCode::Up, crate::action::Action::PreviousField),
        "space" => (KeyCode::Char(' '), crate::action::Action::Toggle),
        "backspace" => (KeyCode::Backspace, crate::action::Action::Unset),
        other => panic!("no key {other}"),
    };
    if !form.type_key(key(code)) {
        form.apply(command);
    }
}

pub(super) fn random(form: &mut FormState, n: u8) {
    use crate::action::Action as C;
    let commands = [
        C::NextField,
        C::PreviousField,
        C::NextProblem,
        C::Open,
        C::Toggle,
        C::Unset,
        C::SetNull,
        C::SetEmpty,
        C::AddItem,
        C::RemoveItem,
        C::DuplicateItem,
        C::MoveUp,
        C::MoveDown,
        C::StepUp,
        C::StepDown,
        C::Left,
        C::Right,
        C::Rename,
        C::AsJson,
        C::Json,
        C::Undo,
        C::LastField,
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
