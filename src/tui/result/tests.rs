//! Guarantees of the viewer: everything is shown or named, nothing is fetched, nothing hangs.

use base64::Engine as _;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use serde_json::{Value, json};

use super::content::BlockKind;
use super::tree::Tree;
use super::view::ResultView;
use crate::action::Action;
use crate::form::draw::Styles;
use crate::intent::Intent;
use crate::pane::{NoticeText, Out};
use base::text::json::{NO_NUMBERS, WrittenValue};
use config::ContentLimits;
use protocol::Payload;

fn view(result: Value) -> ResultView {
    ResultView::new(result.into(), Vec::new())
}

/// What an action asks for and says.
pub(super) fn applied(view: &mut ResultView, action: Action) -> Out {
    let mut out = Out::default();
    view.apply(action, &mut out);
    out
}

/// Whether a search finds something.
pub(super) fn finds(view: &mut ResultView, needle: &str) -> bool {
    let mut out = Out::default();
    view.search(needle, &mut out);
    out.notice.is_none()
}

fn screen(view: &mut ResultView, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    view.prepare(area, &Styles::default());
    let mut buf = Buffer::empty(area);
    view.render(&Styles::default(), area, &mut buf);
    let line = |y: u16| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut out = std::io::Cursor::new(Vec::new());
    image::RgbaImage::from_pixel(width, height, image::Rgba([200, 10, 10, 255]))
        .write_to(&mut out, image::ImageFormat::Png)
        .expect("encodes");
    out.into_inner()
}

#[test]
fn every_kind_of_content_is_shown_in_order() {
    let mut view = view(json!({"content": [
        {"type": "text", "text": "plain words"},
        {"type": "image", "data": base64(&png(8, 8)), "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "demo://a", "mimeType": "text/plain", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "demo://b", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "demo://c", "name": "see"},
    ]}));
    screen(&mut view, 60, 60);
    while let Some(job) = view.picture_job() {
        view.picture_done(job.run());
    }
    let drawn = screen(&mut view, 60, 60);
    for expected in [
        "plain words",
        "image/png · 8 x 8",
        "▀",
        "data of no known kind · 3 bytes",
        "00000000  00 00 00",
        "demo://a",
        "inside",
        "demo://b",
        "demo://c",
    ] {
        assert!(drawn.contains(expected), "{expected} in {drawn}");
    }
}

#[test]
fn s17_one_odd_block_never_hides_the_others_and_is_labelled() {
    let mut view = view(json!({"x-vendor": 1, "_meta": {"k": true}, "content": [
        {"type": "text", "text": "before"}, {"type": "hologram", "beam": [1]}, {"type": "text", "text": null},
        null, 7, {"no": "type"}, {"type": "image"}, {"type": "text", "text": "after"},
    ]}));
    let drawn = screen(&mut view, 70, 80);
    for expected in ["before", "after", "unknown type: hologram", "\"beam\"", "without a type"] {
        assert!(drawn.contains(expected), "{expected} in {drawn}");
    }
    for odd in
        [json!(null), json!([]), json!({"content": 3}), json!("x"), json!({"messages": [1, {}]})]
    {
        let mut view = ResultView::new(odd.into(), Vec::new());
        assert!(!screen(&mut view, 40, 10).is_empty());
    }
}

#[test]
fn s26_pictures_beyond_the_limits_are_named_and_never_decoded() {
    // A header that claims 20,000 x 20,000 pixels, without any pixel data.
    let mut huge = png(1, 1);
    huge[16..20].copy_from_slice(&20_000_u32.to_be_bytes());
    huge[20..24].copy_from_slice(&20_000_u32.to_be_bytes());
    let crc = crc32(&huge[12..29]);
    huge[29..33].copy_from_slice(&crc.to_be_bytes());
    let result = Payload::from(json!({"content": [
        {"type": "image", "mimeType": "image/png", "data": base64(&huge)},
        {"type": "image", "mimeType": "image/png", "data": base64(b"<!DOCTYPE html><script>1</script>")},
        {"type": "image", "mimeType": "image/png", "data": "%%%not base64%%%"},
        {"type": "audio", "mimeType": "audio/wav", "data": "A".repeat(30 << 20)},
        {"type": "image", "mimeType": "image/gif", "data": base64(&animation())},
    ]}));
    let mut view = ResultView::new(result, Vec::new());
    screen(&mut view, 60, 60);
    // Bytes that are no picture are only recognised as such by the job on the other thread.
    while let Some(job) = view.picture_job() {
        view.picture_done(job.run());
        screen(&mut view, 60, 60);
    }
    let about = |index: usize| match &view.blocks[index].kind {
        BlockKind::Data { about, .. } => about.as_str().to_owned(),
        BlockKind::Picture(picture, _) => format!("{:?}", picture.size),
        other => panic!("{other:?}"),
    };
    assert!(about(0).contains("20000 x 20000"), "{}", about(0));
    assert!(about(1).contains("HTML"), "{}", about(1));
    assert!(about(2).contains("base64"), "{}", about(2));
    assert!(about(3).contains("23592960 bytes"), "{}", about(3));
    assert_eq!(about(4), "Some((4, 4))");
}

#[test]
fn a_picture_is_decoded_within_the_limits_of_its_server() {
    let result = Payload::from(json!({"content": [
        {"type": "image", "mimeType": "image/png", "data": base64(&png(40, 40))},
    ]}));
    let defaults = ContentLimits::default();
    for (limits, decoded) in [
        (defaults, true),
        (ContentLimits { image_pixels: 1_600, ..defaults }, true),
        (ContentLimits { image_pixels: 1_599, ..defaults }, false),
        (ContentLimits { image_bytes: 20, ..defaults }, false),
        (ContentLimits { image_bytes: 4_000, ..defaults }, false),
    ] {
        let mut view = ResultView::new(result.clone(), Vec::new()).within(&limits);
        screen(&mut view, 60, 60);
        while let Some(job) = view.picture_job() {
            view.picture_done(job.run());
            screen(&mut view, 60, 60);
        }
        let is_picture = matches!(view.blocks[0].kind, BlockKind::Picture(..));
        assert_eq!(is_picture, decoded, "{limits:?}");
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |mut crc, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
        crc
    })
}

/// 2,000 frames in one file.
fn animation() -> Vec<u8> {
    let mut out = Vec::new();
    {
        let mut encoder = image::codecs::gif::GifEncoder::new(&mut out);
        for _ in 0..2_000 {
            let frame = image::Frame::new(image::RgbaImage::new(4, 4));
            encoder.encode_frame(frame).expect("encodes");
        }
    }
    out
}

#[test]
fn s32_links_and_svg_are_shown_and_only_opened_when_asked() {
    let mut view = view(json!({"content": [
        {"type": "resource_link", "uri": "http://169.254.169.254/latest/meta-data", "name": "harmless"},
        {"type": "resource", "resource": {"uri": "file:///etc/passwd", "mimeType": "image/svg+xml", "blob": base64(b"<svg onload=1>")}},
    ]}));
    let drawn = screen(&mut view, 80, 12);
    assert!(
        drawn.contains("http://169.254.169.254/latest/meta-data")
            && drawn.contains("file:///etc/passwd")
    );
    assert_eq!(view.picture_job(), None, "nobody decodes it");
    assert_eq!(
        applied(&mut view, Action::Open).intents,
        [Intent::OpenResource("http://169.254.169.254/latest/meta-data".into())]
    );
    applied(&mut view, Action::NextBlock);
    applied(&mut view, Action::Save);
    let (name, content) = view.take_file().expect("a file");
    assert_eq!(name, "mcpdeck-result.svg");
    assert!(content.bytes().is_ok_and(|bytes| bytes.starts_with(b"<svg")));
}

#[test]
fn nothing_of_a_result_reaches_the_screen_as_a_control_character() {
    let evil = "\u{1b}]52;c;eA==\u{7}\u{9b}2J\u{202e}\r\u{8}x";
    let mut view = view(json!({"content": [
        {"type": "text", "text": format!("# {evil}\n- {evil}\n- [{evil}](http://x/{evil})")},
        {"type": "text", "text": evil}, {"type": evil}, {"type": "resource_link", "uri": evil, "name": evil},
        {"type": "audio", "mimeType": evil, "data": evil}], "structuredContent": {evil: evil}, evil: evil}));
    for _ in 0..3 {
        let drawn = screen(&mut view, 90, 40);
        assert!(!drawn.chars().any(|c| c.is_control() && c != '\n'), "{drawn:?}");
        applied(&mut view, Action::NextTab);
    }
    assert!(!super::content::suffix(evil).chars().any(|c| !c.is_ascii_alphanumeric()));
}

#[test]
fn numbers_are_shown_found_copied_saved_and_compared_as_the_server_wrote_them() {
    const BIG: &str = "123456789012345678901234567890";
    let written = |number: &str| {
        let text =
            format!(r#"{{"structuredContent":{{"a":[1e3,{{"b/c":{number}}}],"d":1E-400}}}}"#);
        Payload::from(WrittenValue::parse(&text).expect("JSON"))
    };
    let mut view = ResultView::new(written(BIG), Vec::new());
    for tab in 0..2 {
        let shown = screen(&mut view, 60, 12);
        for number in ["0: 1e3", BIG, "d: 1E-400"] {
            assert!(shown.contains(number), "{tab}: {shown}");
        }
        assert!(finds(&mut view, BIG), "{tab}");
        let copied = format!("{:?}", applied(&mut view, Action::Copy).intents);
        assert!(copied.contains(&format!("\"{BIG}\"")), "{tab}: {copied}");
        applied(&mut view, Action::Save);
        let (_, file) = view.take_file().expect("a file");
        assert_eq!(file.bytes(), Ok(BIG.as_bytes().to_vec()), "{tab}");
        applied(&mut view, Action::NextTab);
    }
    let copied = format!("{:?}", applied(&mut view, Action::CopyAll).intents);
    assert!(copied.contains(BIG) && copied.contains("1E-400"), "{copied}");
    // The last digit is beyond what a double holds.
    view.compare_with(&written("123456789012345678901234567891"), true);
    let compared = screen(&mut view, 60, 12);
    assert!(compared.contains("67891") && compared.contains("67890"), "{compared}");
}

/// The colour of the first cell where this text is drawn.
fn colour_of(view: &mut ResultView, text: &str, (width, height): (u16, u16)) -> Option<Color> {
    let colours = [Color::Cyan, Color::Green, Color::Yellow, Color::Magenta];
    let [key, string, number, literal] = colours.map(|colour| Style::new().fg(colour));
    let look = Styles {
        json_key: key,
        json_string: string,
        json_number: number,
        json_literal: literal,
        ..Styles::default()
    };
    let area = Rect::new(0, 0, width, height);
    view.prepare(area, &look);
    let mut buf = Buffer::empty(area);
    view.render(&look, area, &mut buf);
    let begins = |x: u16, y: u16| {
        text.chars().zip(x..).all(|(c, x)| x < width && buf[(x, y)].symbol() == c.to_string())
    };
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    places.into_iter().find(|(x, y)| begins(*x, *y)).map(|at| buf[at].fg)
}

#[test]
fn json_in_a_text_has_the_colours_of_its_kinds_however_it_is_written() {
    let long = "word ".repeat(30);
    let value = json!({"city": "Bergen", "open": true, "runway": 2990, "about": long.trim()});
    for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
        let mut view = view(json!({"content": [{"type": "text", "text": text}]}));
        for (text, colour) in [
            ("\"city\"", Color::Cyan),
            ("\"Bergen\"", Color::Green),
            ("true", Color::Magenta),
            ("2990", Color::Yellow),
            // In a row that goes on with the string.
            ("word\"", Color::Green),
        ] {
            assert_eq!(colour_of(&mut view, text, (40, 16)), Some(colour), "{text}");
        }
        // Moved sideways, a row has the colours of what is left of it.
        applied(&mut view, Action::Wrap);
        applied(&mut view, Action::Right);
        assert_eq!(colour_of(&mut view, "Bergen\"", (40, 16)), Some(Color::Green));
        applied(&mut view, Action::Left);
        applied(&mut view, Action::Wrap);
    }
    let mut plain = view(json!({"content": [{"type": "text", "text": "[INFO] 2990 is true"}]}));
    assert_eq!(colour_of(&mut plain, "2990", (40, 16)), Some(Color::Reset));
}

#[test]
fn what_has_no_effect_on_a_result_says_why_and_changes_nothing() {
    let mut tree = view(json!({"structuredContent": {"a": 1}}));
    let before = screen(&mut tree, 40, 8);
    for action in [Action::Wrap, Action::Markdown, Action::Hex, Action::SideBySide] {
        assert!(tree.availability(action).is_err(), "{action:?}");
    }
    assert_eq!(tree.availability(Action::CopyPath), Ok(()));
    applied(&mut tree, Action::Hex);
    assert_eq!(screen(&mut tree, 40, 8), before);
    let mut text = view(json!({"content": [{"type": "text", "text": "words"}]}));
    assert!(text.availability(Action::CopyPath).is_err());
    assert!(applied(&mut text, Action::Right).notice.is_some(), "wrapped lines do not move");
}

#[test]
fn markdown_is_rendered_and_can_be_seen_plain() {
    let text = "# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n\n```\nlet x = 1;\n```\n[here](http://there/)";
    let mut view = view(json!({"content": [{"type": "text", "text": text}]}));
    insta::assert_snapshot!(screen(&mut view, 40, 14));
    applied(&mut view, Action::Markdown);
    assert!(screen(&mut view, 40, 14).contains("**bold**"));
}

#[test]
fn a_search_finds_what_is_folded_and_wraps_around() {
    let value = json!({"a": [{"deep": {"needle": 1}}, 2], "b": "x", "c": {"y": ["NEEDLE two"]}});
    let mut tree = Tree::default();
    assert!(tree.search(&value, &NO_NUMBERS, "needle"));
    assert_eq!(tree.pointer(&value), "/a/0/deep/needle");
    assert!(tree.search(&value, &NO_NUMBERS, "needle"));
    assert_eq!(tree.pointer(&value), "/c/y/0");
    assert!(tree.search(&value, &NO_NUMBERS, "needle"));
    assert_eq!(tree.pointer(&value), "/a/0/deep/needle");
    assert!(!tree.search(&value, &NO_NUMBERS, "nowhere"));
}

#[test]
fn a_search_in_text_goes_from_match_to_match() {
    let text: String =
        (0..500).map(|i| if i % 100 == 7 { "a hit here\n" } else { "nothing\n" }).collect();
    let mut view = view(json!({"content": [{"type": "text", "text": text}]}));
    screen(&mut view, 40, 10);
    assert!(finds(&mut view, "HIT"));
    assert!(screen(&mut view, 40, 10).lines().nth(1).is_some_and(|l| l.contains("a hit here")));
    for _ in 0..6 {
        assert!(applied(&mut view, Action::SearchNext).notice.is_none());
        assert!(screen(&mut view, 40, 10).lines().nth(1).is_some_and(|l| l.contains("a hit here")));
    }
    assert!(!finds(&mut view, "absent"));
}

#[test]
fn the_end_of_a_comparison_in_part_can_be_reached() {
    let lines =
        |word: &str, count| (0..count).map(|n| format!("{word}{n}\n")).collect::<Vec<_>>().concat();
    let text = |word: &str| json!({"content": [{"type": "text", "text": lines(word, 40) + &lines("same", 20_000)}]});
    let mut view = view(text("new"));
    screen(&mut view, 60, 12);
    view.compare_with(&text("old").into(), true);
    assert!(screen(&mut view, 60, 12).contains("20000 lines"));
    view.move_by(1_000);
    let drawn = screen(&mut view, 60, 12);
    assert!(drawn.contains("same2"), "{drawn}");
}

#[test]
fn wrapped_text_is_shown_to_its_end_and_uses_the_whole_width() {
    let tabs = |n| format!("{}a line of code END{n}\n", "\t".repeat(n));
    let tabs = (0..9).map(tabs).collect::<Vec<_>>().concat();
    for (text, ends) in [
        (tabs, (0..9).map(|n| format!("END{n}")).collect()),
        (format!("{}END", "日本語".repeat(40)), vec!["END".to_owned()]),
        (format!("# T\n\nsee {}END", "x".repeat(200)), vec!["END".to_owned()]),
        (format!("# T\n\n```\n{}END\n```", "y".repeat(200)), vec!["END".to_owned()]),
    ] {
        let mut view = view(json!({"content": [{"type": "text", "text": text}]}));
        let drawn = screen(&mut view, 40, 30);
        for end in ends {
            assert!(drawn.contains(&end), "{end}\n{drawn}");
        }
    }
    let text = "Съешь же ещё этих мягких французских булок ".repeat(4);
    let mut view = view(json!({"content": [{"type": "text", "text": text}]}));
    let first = screen(&mut view, 60, 9).lines().nth(1).map_or(0, |line| line.chars().count());
    assert!(first > 45, "{first}");
}

#[test]
fn a_match_far_along_a_line_that_does_not_wrap_is_brought_into_sight() {
    let text = format!("{}needle\nshort\n{}needle", "x".repeat(300), "é".repeat(90));
    let mut view = view(json!({"content": [{"type": "text", "text": text}]}));
    applied(&mut view, Action::Wrap);
    screen(&mut view, 40, 4);
    for _ in 0..3 {
        assert!(finds(&mut view, "needle"));
        let drawn = screen(&mut view, 40, 4);
        assert!(drawn.contains("needle"), "{drawn}");
    }
}

#[test]
fn a_million_elements_cost_what_is_visible() {
    let value = Value::Array((0..1_000_000).map(Value::from).collect());
    let mut tree = Tree::new(&value);
    assert_eq!(tree.len(), 1_000_001);
    tree.cursor = 777_778;
    assert_eq!(tree.pointer(&value), "/777777");
    let rows = tree.rows(&value, &NO_NUMBERS, 999_990, 40);
    assert_eq!((rows.len(), rows[10].value), (11, &json!(999_999)));
}

#[test]
fn the_cursor_stays_in_sight_below_what_is_said_of_the_schema() {
    let said = |n: usize| config::error::Violation {
        pointer: format!("/items/{n}"),
        message: "wrong".to_owned(),
        keyword: "type".to_owned(),
    };
    let items: Vec<Value> = (0..50).map(|n| json!(format!("item-{n}"))).collect();
    let value = json!({"structuredContent": {"items": items}});
    let mut view = ResultView::new(value.into(), (0..3).map(said).collect());
    for _ in 0..30 {
        view.move_by(1);
        let drawn = screen(&mut view, 40, 12);
        let (tree, value) = view.tree().expect("a tree");
        let here = tree.current(value).as_str().map(str::to_owned);
        assert!(here.is_none_or(|text| drawn.contains(&text)), "{drawn}");
    }
}

#[test]
fn a_comparison_names_only_what_differs() {
    let earlier =
        json!({"content": [{"type": "text", "text": "one\ntwo\nthree"}], "isError": false});
    let mut view =
        view(json!({"content": [{"type": "text", "text": "one\n2\nthree"}], "isError": false}));
    view.compare_with(&earlier.into(), true);
    let drawn = screen(&mut view, 40, 12);
    assert!(drawn.contains("- two") && drawn.contains("+ 2"), "{drawn}");
    applied(&mut view, Action::SideBySide);
    let beside = screen(&mut view, 60, 12);
    assert!(beside.lines().any(|l| l.contains("- two") && l.contains("+ 2")), "{beside}");
    let same = view.result.clone();
    view.compare_with(&same, true);
    assert!(screen(&mut view, 40, 12).contains("no difference"));
}

#[test]
fn of_a_large_answer_the_beginning_is_shown_and_all_of_it_saved() {
    let items: Vec<Value> = (0..500).map(|id| json!({"id": id})).collect();
    let value = json!({"content": [], "structuredContent": {"items": items}});
    let text = serde_json::value::to_raw_value(&value).expect("JSON");
    let payload = Payload::large(&text, 9, 200).expect("valid");
    let mut view = ResultView::new(payload, Vec::new());
    let drawn = screen(&mut view, 120, 12);
    assert!(drawn.contains("of 500 elements of /structuredContent/items"), "{drawn}");
    assert!(finds(&mut view, "42") && !finds(&mut view, "499"));
    let refused = applied(&mut view, Action::CopyAll);
    assert!(refused.intents.is_empty());
    assert!(
        matches!(&refused.notice, Some((NoticeText::WithKeys(why), _)) if why.contains("{save}"))
    );
    applied(&mut view, Action::Save);
    let (_, content) = view.take_file().expect("a file");
    assert_eq!(content.bytes(), Ok(text.get().as_bytes().to_vec()));
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((".{0,4}", inner), 0..5)
                .prop_map(|e| Value::Object(e.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_row_of_a_tree_has_a_place_and_back(value in json_values(), folds in prop::collection::vec(0_usize..40, 0..12)) {
        let mut tree = Tree::new(&value);
        for row in folds {
            tree.cursor = row.min(tree.len() - 1);
            tree.fold(&value, Action::Open);
        }
        let rows = tree.rows(&value, &NO_NUMBERS, 0, usize::MAX);
        prop_assert_eq!(rows.len(), tree.len());
        for (i, row) in rows.iter().enumerate() {
            let path = tree.path(i).unwrap_or_default();
            prop_assert_eq!(tree.row_of(&path), i);
            tree.cursor = i;
            prop_assert_eq!(tree.current(&value), row.value);
            prop_assert_eq!(value.pointer(&tree.pointer(&value)), Some(row.value));
            let one = tree.rows(&value, &NO_NUMBERS, i, 1);
            prop_assert_eq!(one.first().map(|r| (r.depth, &r.key, r.open)), Some((row.depth, &row.key, row.open)));
        }
    }
}

#[test]
fn megabytes_of_json_on_one_line_are_indented_and_coloured_as_they_are_written() {
    let item = r#"{"id": 12345678901234567890, "name": "a\u00e9\n", "a/b": [], "x": {}, "a/b": [1.50, null]}"#;
    let items = vec![item; 30_000].join(", ");
    let text = format!("[{items}]");
    assert!(text.len() > 2 << 20);
    let mut view = view(json!({"content": [{"type": "text", "text": text}]}));
    let shown = screen(&mut view, 60, 16);
    let first: Vec<&str> = shown.lines().skip(1).take(12).map(str::trim_end).collect();
    let wanted = [
        "[",
        "  {",
        "    \"id\": 12345678901234567890,",
        "    \"name\": \"a\u{e9}\\n\",",
        "    \"a/b\": [],",
        "    \"x\": {},",
        "    \"a/b\": [",
        "      1.50,",
        "      null",
        "    ]",
        "  },",
        "  {",
    ];
    assert_eq!(first, wanted, "{shown}");
    let area = Rect::new(0, 0, 60, 16);
    let look = Styles { json_key: Style::new().fg(Color::Cyan), ..Styles::default() };
    view.prepare(area, &look);
    let mut buf = Buffer::empty(area);
    view.render(&look, area, &mut buf);
    assert_eq!(buf[(5, 3)].fg, Color::Cyan, "the name of a member");
    // At another width nothing is lost, and at the end there is the end.
    applied(&mut view, Action::Bottom);
    assert!(screen(&mut view, 44, 16).trim_end().ends_with(']'));
}

#[test]
fn json_that_is_too_large_to_be_indented_says_so() {
    let text = format!("[{}]", vec!["123456789"; 900_000].join(","));
    let mut view = view(json!({"content": [{"type": "text", "text": text}]}));
    let shown = screen(&mut view, 60, 6);
    assert!(shown.contains("JSON above 8.0 MB is not indented"), "{shown}");
    assert!(shown.contains("[123456789,"), "{shown}");
}

#[test]
fn json_that_only_its_depth_makes_too_large_is_shown_as_it_is() {
    let (depth, items) = (100, vec!["1"; 300_000].join(","));
    let text = format!("{}{items}{}", "[".repeat(depth), "]".repeat(depth));
    let mut view = view(json!({"content": [{"type": "text", "text": text}]}));
    let shown = screen(&mut view, 120, 4);
    assert!(shown.contains(&format!("{}1,1,", "[".repeat(depth))), "{shown}");
}

#[test]
fn characters_without_a_width_make_no_row_without_an_end() {
    let text = format!("e{}", "\u{301}".repeat(200_000));
    let rows = super::rows::WrappedRows::new(&text, 80);
    let shown = rows.slice(&text, 0..rows.len());
    assert!(shown.len() > 2 && shown.iter().all(|row| row.len() <= 70_000), "{}", shown.len());
    assert_eq!(shown.concat(), text);
}

proptest! {
    #[test]
    fn indenting_changes_nothing_but_the_space_between(value in any_json(4)) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("writes")] {
            if let Some(shown) = super::content::indented(&text) {
                let wanted = serde_json::to_string_pretty(&value).expect("writes");
                prop_assert_eq!(shown, wanted);
            }
        }
    }
}

fn any_json(depth: u32) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}|[\"\\\\,:{}\\[\\] \n]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(depth, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-z\" :]{0,5}", inner, 0..5)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

#[test]
fn enter_on_a_text_that_its_row_cannot_show_opens_the_whole_of_it() {
    let long = "word ".repeat(400);
    let structured = json!({"short": "x", "long": long, "lines": "one\ntwo",
        "json": r#"{"a":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26]}"#});
    let mut view = view(json!({"structuredContent": structured}));
    screen(&mut view, 60, 12);
    let opens = |view: &mut ResultView| applied(view, Action::Open).screen.is_some();
    applied(&mut view, Action::Down);
    assert!(view.enters().is_none() && !opens(&mut view), "a short text is there already");
    for name in ["long", "lines", "json"] {
        applied(&mut view, Action::Down);
        assert_eq!(view.enters(), Some("whole text"), "{name}");
        assert!(opens(&mut view), "{name}");
    }
}
