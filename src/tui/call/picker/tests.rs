//! What the file picker promises: keys lead to a file, and only what was picked reaches the field.

use std::path::Path;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::base::ServerName;
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::deck::history::History;
use crate::deck::saved::SavedCalls;
use crate::tui::call::folder::{self, Entry, EntryKind, Found, LARGEST_FILE, Looked, More};
use crate::tui::call::{CallScreen, Subject, SubjectKind};
use crate::tui::effect::Effect;
use crate::tui::form::draw::Look;
use crate::tui::message::FormToken;

fn screen(field: Value) -> CallScreen {
    let subject = Subject {
        server: ServerName::new("files"),
        kind: SubjectKind::Tool,
        wire: "take".into(),
        label: SafeText::line("take"),
        title: None,
        description: None,
        manner: "",
        schema: Arc::new(json!({"type": "object", "properties": {"x": field}, "required": ["x"]})),
        bytes: 0,
        limits: crate::config::ContentLimits::default(),
    };
    CallScreen::new(subject, &History::default(), &SavedCalls::default(), Timestamp(0))
}

fn text() -> CallScreen {
    screen(json!({"type": "string"}))
}

fn base64() -> CallScreen {
    screen(json!({"type": "string", "contentEncoding": "base64"}))
}

fn send(screen: &mut CallScreen, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    screen.key(KeyEvent::new(code, modifiers), Timestamp(1))
}

fn press(screen: &mut CallScreen, code: KeyCode) -> Vec<String> {
    let intents = send(screen, code, KeyModifiers::NONE);
    answer(screen, intents)
}

fn write(screen: &mut CallScreen, text: &str) {
    for c in text.chars() {
        press(screen, KeyCode::Char(c));
    }
}

/// Does what the screen wants of the file system; gives what it says.
fn answer(screen: &mut CallScreen, intents: Vec<Effect>) -> Vec<String> {
    let mut said = Vec::new();
    for intent in intents {
        let next = match intent {
            Effect::Look(_, path) => screen.looked(folder::look(path)),
            Effect::ReadFile(_, path) => screen.file_read(&folder::content(&path).unwrap()),
            Effect::Say(text) => {
                said.push(text);
                continue;
            }
            other => panic!("{other:?}"),
        };
        said.extend(answer(screen, next));
    }
    said
}

fn open_at(screen: &mut CallScreen, folder: &Path) {
    screen.picked_in = Some(folder.to_owned());
    let intents = send(screen, KeyCode::Char('f'), KeyModifiers::CONTROL);
    answer(screen, intents);
}

fn drawn(screen: &CallScreen) -> String {
    let area = Rect::new(0, 0, 100, 30);
    let mut buf = Buffer::empty(area);
    screen.draw(&Look::default(), Timestamp(2), area, &mut buf);
    let line = |y: u16| (0..100).map(|x| buf[(x, y)].symbol()).collect::<String>() + "\n";
    (0..30).map(line).collect()
}

fn some_files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/deep.bin"), [0, 159, 146]).unwrap();
    std::fs::write(folder.path().join("note.txt"), "a note").unwrap();
    std::fs::write(folder.path().join(".secret"), "dotted").unwrap();
    folder
}

#[test]
fn a_picked_file_gives_its_path_to_text_and_its_bytes_to_base64() {
    let folder = some_files();
    let mut path = text();
    open_at(&mut path, folder.path());
    write(&mut path, "note");
    press(&mut path, KeyCode::Enter);
    let wanted = folder.path().join("note.txt");
    assert_eq!(path.form.arguments(), json!({"x": wanted.to_str().unwrap()}));
    assert!(path.ask.is_none());

    let mut bytes = base64();
    open_at(&mut bytes, folder.path());
    press(&mut bytes, KeyCode::Enter);
    assert!(drawn(&bytes).contains("deep.bin"), "{}", drawn(&bytes));
    press(&mut bytes, KeyCode::Enter);
    assert_eq!(bytes.form.arguments(), json!({"x": "AJ+S"}));
}

#[test]
fn alt_enter_takes_the_path_of_a_folder() {
    let folder = some_files();
    let mut screen = text();
    open_at(&mut screen, folder.path());
    write(&mut screen, "sub");
    send(&mut screen, KeyCode::Enter, KeyModifiers::ALT);
    let wanted = folder.path().join("sub");
    assert_eq!(screen.form.arguments(), json!({"x": wanted.to_str().unwrap()}));
    open_at(&mut screen, folder.path());
    write(&mut screen, "sub");
    press(&mut screen, KeyCode::Tab);
    send(&mut screen, KeyCode::Enter, KeyModifiers::ALT);
    assert!(drawn(&screen).contains("sub is no file"));
}

#[test]
fn tab_takes_the_text_of_a_file_instead_of_its_path() {
    let folder = some_files();
    let mut screen = text();
    open_at(&mut screen, folder.path());
    write(&mut screen, "note");
    press(&mut screen, KeyCode::Tab);
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.form.arguments(), json!({"x": "a note"}));
    open_at(&mut screen, folder.path());
    press(&mut screen, KeyCode::Tab);
    press(&mut screen, KeyCode::Enter);
    let said = press(&mut screen, KeyCode::Enter);
    assert!(said[0].contains("is no text"), "{said:?}");
    assert_eq!(screen.form.arguments(), json!({"x": "a note"}));
}

#[test]
fn the_way_leads_up_and_back_and_esc_changes_nothing() {
    let folder = some_files();
    let mut screen = text();
    write(&mut screen, "kept");
    for key in [KeyCode::Left, KeyCode::Backspace] {
        open_at(&mut screen, &folder.path().join("sub"));
        press(&mut screen, key);
        assert!(drawn(&screen).contains("note.txt"), "{}", drawn(&screen));
        // The folder that was left is selected: Enter leads back into it.
        press(&mut screen, KeyCode::Enter);
        assert!(drawn(&screen).contains("deep.bin"), "{}", drawn(&screen));
        press(&mut screen, KeyCode::Esc);
        assert!(screen.ask.is_none());
    }
    assert_eq!(screen.form.arguments(), json!({"x": "kept"}));
}

#[test]
fn a_typed_path_is_gone_to_or_picked_and_an_absent_one_is_said() {
    let folder = some_files();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut screen = text();
    open_at(&mut screen, elsewhere.path());
    write(&mut screen, folder.path().join("absent").to_str().unwrap());
    press(&mut screen, KeyCode::Enter);
    assert!(drawn(&screen).contains("absent: "), "{}", drawn(&screen));
    send(&mut screen, KeyCode::Char('u'), KeyModifiers::CONTROL);
    write(&mut screen, folder.path().to_str().unwrap());
    press(&mut screen, KeyCode::Enter);
    assert!(drawn(&screen).contains("note.txt"));
    write(&mut screen, "sub/deep.bin");
    press(&mut screen, KeyCode::Enter);
    let wanted = folder.path().join("sub").join("deep.bin");
    assert_eq!(screen.form.arguments(), json!({"x": wanted.to_str().unwrap()}));
}

#[test]
fn a_path_of_the_home_folder_is_asked_for_as_it_is_typed() {
    let folder = some_files();
    let mut screen = text();
    open_at(&mut screen, folder.path());
    write(&mut screen, "~/x");
    let intents = send(&mut screen, KeyCode::Enter, KeyModifiers::NONE);
    assert_eq!(intents, [Effect::Look(FormToken(0), "~/x".into())]);
}

#[test]
fn hidden_files_are_listed_when_asked_for() {
    let folder = some_files();
    let mut screen = text();
    open_at(&mut screen, folder.path());
    assert!(!drawn(&screen).contains(".secret"));
    assert!(drawn(&screen).contains("1 hidden"));
    send(&mut screen, KeyCode::Char('.'), KeyModifiers::ALT);
    assert!(drawn(&screen).contains(".secret"));
    send(&mut screen, KeyCode::Char('.'), KeyModifiers::ALT);
    assert!(!drawn(&screen).contains(".secret"));
    write(&mut screen, ".sec");
    assert!(drawn(&screen).contains(".secret"));
}

#[test]
fn what_is_typed_before_the_folder_is_read_counts_and_a_late_answer_does_not() {
    let folder = some_files();
    let mut screen = text();
    screen.picked_in = Some(folder.path().to_owned());
    let wanted = send(&mut screen, KeyCode::Char('f'), KeyModifiers::CONTROL);
    write(&mut screen, "note");
    press(&mut screen, KeyCode::Enter);
    assert!(drawn(&screen).contains("reading"));
    screen.looked(folder::look("/".into()));
    assert!(screen.ask.is_some(), "an answer nobody asked for");
    answer(&mut screen, wanted.clone());
    let path = folder.path().join("note.txt");
    assert_eq!(screen.form.arguments(), json!({"x": path.to_str().unwrap()}));
    answer(&mut screen, wanted);
    assert!(screen.ask.is_none());
}

/// A folder as it was looked at, without there being one.
fn shown(screen: &mut CallScreen, entries: Vec<Entry>, more: More) {
    send(screen, KeyCode::Char('f'), KeyModifiers::CONTROL);
    let path = std::env::temp_dir();
    screen.looked(Looked { asked: ".".into(), path, found: Ok(Found::Folder(entries, more)) });
}

#[test]
fn what_does_not_fit_is_said_and_the_picker_stays() {
    let mut screen = base64();
    let large = Entry::new("large.iso".into(), EntryKind::File(LARGEST_FILE + 1));
    shown(&mut screen, vec![large], More::Yes);
    let seen = drawn(&screen);
    assert!(seen.contains("up to 4 MiB") && seen.contains("too large"), "{seen}");
    assert!(seen.contains("only 5000 entries"), "{seen}");
    assert_eq!(send(&mut screen, KeyCode::Enter, KeyModifiers::NONE), []);
    assert!(drawn(&screen).contains("4 MiB of content fit into a field"));

    let mut screen = base64();
    shown(&mut screen, vec![Entry::new("pipe".into(), EntryKind::Other)], More::No);
    assert_eq!(send(&mut screen, KeyCode::Enter, KeyModifiers::NONE), []);
    assert!(drawn(&screen).contains("pipe is no file"));
}

#[cfg(unix)]
#[test]
fn a_hostile_name_is_never_drawn_raw_and_one_that_is_no_text_is_not_sent() {
    use std::os::unix::ffi::OsStringExt as _;
    let mut screen = text();
    let names = ["a\x1b]0;t\x07\u{202e}b".into(), std::ffi::OsString::from_vec(vec![b'b', 0xff])];
    shown(&mut screen, names.map(|name| Entry::new(name, EntryKind::File(1))).to_vec(), More::No);
    let seen = drawn(&screen);
    assert!(!seen.contains(['\x1b', '\x07', '\u{202e}']), "{seen:?}");
    press(&mut screen, KeyCode::Down);
    assert_eq!(send(&mut screen, KeyCode::Enter, KeyModifiers::NONE), []);
    assert!(drawn(&screen).contains("no UTF-8 text"), "{}", drawn(&screen));
    press(&mut screen, KeyCode::Up);
    press(&mut screen, KeyCode::Enter);
    assert!(screen.ask.is_none());
    let seen = drawn(&screen);
    assert!(!seen.contains(['\x1b', '\x07', '\u{202e}']), "{seen:?}");
}

#[test]
fn a_file_that_comes_after_the_cursor_left_fills_no_other_field() {
    let folder = some_files();
    let mut screen = base64();
    open_at(&mut screen, folder.path());
    write(&mut screen, "note");
    let intents = send(&mut screen, KeyCode::Enter, KeyModifiers::NONE);
    press(&mut screen, KeyCode::Down);
    let before = screen.form.arguments();
    let said = answer(&mut screen, intents);
    assert!(said[0].contains("nothing was filled"), "{said:?}");
    assert_eq!(screen.form.arguments(), before);
}

#[test]
fn a_low_and_narrow_terminal_does_not_break_the_picker() {
    let folder = some_files();
    let mut screen = text();
    open_at(&mut screen, folder.path());
    for (width, height) in [(10, 3), (12, 5), (20, 8), (300, 4)] {
        let area = Rect::new(0, 0, width, height);
        screen.draw(&Look::default(), Timestamp(2), area, &mut Buffer::empty(area));
    }
}

#[test]
fn sizes_are_said_in_one_unit() {
    let sizes = [0, 1023, 1024, 4 << 20, u64::MAX].map(super::draw::size);
    assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "4.0 MiB", "16.0 EiB"]);
}

/// How a folder of that name is listed.
fn inner() -> String {
    format!("inner{}", std::path::MAIN_SEPARATOR)
}

#[test]
fn the_mouse_selects_and_the_second_press_enters_or_picks() {
    use crate::tui::call::mouse::Clicks;
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("inner")).unwrap();
    std::fs::write(dir.path().join("inner/note.txt"), "hi").unwrap();
    std::fs::write(dir.path().join("z.txt"), "").unwrap();
    let mut screen = text();
    open_at(&mut screen, dir.path());
    let area = Rect::new(0, 0, 80, 24);
    let drawn = |screen: &CallScreen| {
        let mut buf = Buffer::empty(area);
        screen.draw(&Look::default(), Timestamp(1), area, &mut buf);
        let line = |y: u16| (0..80).map(|x| buf[(x, y)].symbol()).collect::<String>();
        (0..24).map(line).collect::<Vec<_>>()
    };
    let at = |screen: &CallScreen, word: &str| {
        let row = drawn(screen).iter().position(|line| line.contains(word)).expect(word);
        ratatui::layout::Position::new(5, row as u16)
    };
    let press = |screen: &mut CallScreen, place, clicks| {
        let intents = screen.click(place, clicks, area);
        answer(screen, intents)
    };
    let place = at(&screen, "z.txt");
    press(&mut screen, place, Clicks::One);
    assert!(screen.ask.is_some(), "only selected");
    let place = at(&screen, &inner());
    press(&mut screen, place, Clicks::Two);
    let place = at(&screen, "note.txt");
    press(&mut screen, ratatui::layout::Position::new(5, 23), Clicks::Two);
    assert!(screen.ask.is_some(), "nothing is there");
    // The first file is selected already.
    press(&mut screen, place, Clicks::One);
    assert!(screen.ask.is_none());
    let real = |path: &std::path::Path| match path.canonicalize() {
        Ok(real) if !cfg!(windows) => real,
        _ => path.to_owned(),
    };
    let path = real(dir.path()).join("inner").join("note.txt");
    assert_eq!(screen.form.arguments(), json!({"x": path.to_str().unwrap()}));
}

#[test]
fn its_keys_are_those_of_the_table_and_a_person_may_change_them() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("inner")).unwrap();
    let mut screen = text();
    let keymap = crate::tui::keymap::Keymap::with_user("[picker]\nf4 = \"left\"\nleft = \"none\"");
    screen.keymap = Arc::new(keymap.unwrap());
    open_at(&mut screen, &dir.path().join("inner"));
    let here = |screen: &CallScreen| {
        let area = Rect::new(0, 0, 100, 24);
        let mut buf = Buffer::empty(area);
        screen.draw(&Look::default(), Timestamp(1), area, &mut buf);
        let line = |y: u16| (0..100).map(|x| buf[(x, y)].symbol()).collect::<String>();
        (0..24).map(|y| line(y) + "\n").collect::<String>()
    };
    assert!(here(&screen).contains("f4 up"), "{}", here(&screen));
    press(&mut screen, KeyCode::Left);
    assert!(!here(&screen).contains(&inner()), "{}", here(&screen));
    press(&mut screen, KeyCode::F(4));
    assert!(here(&screen).contains(&inner()), "{}", here(&screen));
}
