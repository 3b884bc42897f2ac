//! Text from outside: what comes out can be drawn anywhere, and shows what was hidden in it.

use mcpdeck::base::text::{HiddenKind, SafeText, inspect};
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

fn line(raw: &str) -> String {
    SafeText::line(raw).to_string()
}

/// Whether a terminal or a renderer does something with `c` other than drawing it.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}'
            | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{10ffff}')
}

/// The text without joiners that make one sign of two emoji.
fn unjoined(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let sign =
        |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(|c| *c >= '\u{203c}');
    let joins =
        |at: usize| chars[at] == '\u{200d}' && sign(at.checked_sub(1)) && sign(Some(at + 1));
    (0..chars.len()).filter(|at| !joins(*at)).map(|at| chars[at]).collect()
}

#[test]
fn ordinary_text_of_every_script_is_left_alone() {
    for text in [
        "plain ASCII ~!@#",
        "naïve café – “quotes” … €",
        "Привет",
        "日本語テキスト",
        "한국어 글",
        "हिन्दी में क्षत्रिय",
        "ภาษาไทยน้ำ",
        "العربية",
        "שָׁלוֹם",
        "Tiếng Việt e\u{302}\u{301}",
        "👍🏽 ❤\u{fe0f} ⚠\u{fe0f} 1\u{fe0f}\u{20e3} 🇩🇪",
        "👩‍💻 👩🏽‍💻 👩‍👩‍👧‍👦 ❤\u{fe0f}‍🔥 🏳\u{fe0f}‍🌈",
        "ཀྵྨླྺྼྻྂ",
        "ကျွန်ုပ်",
        "ｶﾞ",
        "➜ ✔ ├── │",
        "",
    ] {
        assert_eq!(line(text), text);
        assert_eq!(SafeText::line(text).hidden(), 0, "{text}");
        assert!(inspect(text).is_empty(), "{text}");
    }
}

#[test]
fn numbers_are_written_in_digits() {
    for number in [0, 7, -1, 1_234_567_890, i64::MAX, i64::MIN] {
        assert_eq!(SafeText::number(number).as_str(), number.to_string());
    }
}

#[test]
fn each_attack_leaves_a_visible_marker() {
    for (raw, safe) in [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]52;c;cHduZWQ=\x07", "␛]52;c;cHduZWQ=␇"),
        ("\u{9b}2J", "⟨CSI⟩2J"),
        ("a\rb", "a␍b"),
        ("a\r\nb\nc", "a⏎b⏎c"),
        ("a\tb", "a    b"),
        ("\0\x7f", "␀␡"),
        ("abc\u{202e}fed\u{202c}", "abc⟨RLO⟩fed⟨PDF⟩"),
        ("a\u{200b}\u{200b}\u{200b}\u{200d}b", "a⟨ZWSP×3⟩⟨ZWJ⟩b"),
        ("👩\u{200d}b 1\u{200d}👩 👩\u{200d}\u{200d}💻", "👩⟨ZWJ⟩b 1⟨ZWJ⟩👩 👩⟨ZWJ×2⟩💻"),
        ("👩\u{200d}👩\u{200d}👩\u{200d}👩\u{200d}👩", "👩\u{200d}👩\u{200d}👩\u{200d}👩⟨ZWJ⟩👩"),
        ("hi\u{e0049}\u{e0067}\u{e006e}\u{e0020}\u{e0022}", "hi⟨tags \"Ign \\\"\"⟩"),
        ("a\u{fe00}\u{e0100}\u{e0101}", "a⟨VS×3⟩"),
        ("❤\u{fe0f}\u{fe0f}\u{fe0e}", "❤\u{fe0f}⟨VS×2⟩"),
        ("soft\u{ad}hyphen\u{3164}x", "soft⟨SHY⟩hyphen⟨HANGUL FILLER⟩x"),
        ("a\u{2028}b", "a⟨LS⟩b"),
        ("\u{301}x \u{301}", "◌\u{301}x ◌\u{301}"),
        ("\x1b\u{301}", "␛◌\u{301}"),
        ("\u{e0b0}", "⟨U+E0B0⟩"),
        ("\u{fdd0}\u{378}", "⟨U+FDD0⟩⟨U+0378⟩"),
    ] {
        assert_eq!(line(raw), safe, "{raw:?}");
        assert_eq!(line(safe), safe, "idempotent");
        if unjoined(raw).contains(|c: char| c != '\n' && c != '\r' && c != '\t' && acts(c)) {
            assert!(SafeText::line(raw).hidden() > 0, "{raw:?}");
        }
    }
}

#[test]
fn a_pile_of_marks_is_cut_and_counted() {
    let safe = line(&format!("Z{}algo", "\u{301}".repeat(500)));
    assert_eq!(safe, format!("Z{}⟨+492 marks⟩algo", "\u{301}".repeat(8)));
}

#[test]
fn blocks_keep_their_lines_and_nothing_else() {
    assert_eq!(SafeText::block("a\r\n\tb\u{85}\x0bc").as_str(), "a\n    b⟨NEL⟩␋c");
}

#[test]
fn a_limited_text_has_at_most_that_many_characters_and_no_half_marker() {
    assert_eq!(SafeText::cut("abcdef", 6).as_str(), "abcdef");
    assert_eq!(SafeText::cut("abcdefg", 6).as_str(), "abcde…");
    assert_eq!(SafeText::cut("ab\u{202e}cdefgh", 6).as_str(), "ab…");
    assert_eq!(SafeText::cut("abc", 0).as_str(), "");
    assert_eq!(SafeText::cut(&"x".repeat(10_000_000), 3).as_str(), "xx…");
}

#[test]
fn every_kind_of_hidden_character_is_distinguished() {
    for (first, last, kind) in [
        ('\0', '\u{8}', HiddenKind::Control),
        ('\u{7f}', '\u{9f}', HiddenKind::Control),
        ('\u{202a}', '\u{202e}', HiddenKind::Bidi),
        ('\u{2066}', '\u{2069}', HiddenKind::Bidi),
        ('\u{200b}', '\u{200d}', HiddenKind::ZeroWidth),
        ('\u{2060}', '\u{2064}', HiddenKind::ZeroWidth),
        ('\u{e0001}', '\u{e007f}', HiddenKind::Tag),
        ('\u{fe00}', '\u{fe0d}', HiddenKind::VariationSelector),
        ('\u{e0100}', '\u{e01ef}', HiddenKind::VariationSelector),
        ('\u{3164}', '\u{3164}', HiddenKind::Filler),
        ('\u{115f}', '\u{1160}', HiddenKind::Filler),
        ('\u{2028}', '\u{2029}', HiddenKind::Separator),
        ('\u{fff9}', '\u{fffb}', HiddenKind::Format),
        ('\u{e000}', '\u{f8ff}', HiddenKind::PrivateUse),
        ('\u{fdd0}', '\u{fdef}', HiddenKind::Unassigned),
    ] {
        for c in first..=last {
            let found = inspect(&format!("x{c}"));
            let kinds: Vec<HiddenKind> = found.iter().map(|hidden| hidden.kind).collect();
            assert_eq!(kinds, [kind], "{c:?}");
        }
    }
}

#[test]
fn inspection_names_what_and_where() {
    let found = inspect("ok\u{202e}\n\u{200b}\u{200b}e\u{e0061}\u{e0062}");
    let short: Vec<_> = found.iter().map(|h| (h.at, h.kind, h.count, h.name.as_str())).collect();
    assert_eq!(
        short,
        [
            (2, HiddenKind::Bidi, 1, "RLO"),
            (6, HiddenKind::ZeroWidth, 2, "ZWSP"),
            (13, HiddenKind::Tag, 2, "tags \"ab\""),
        ]
    );
}

#[test]
fn no_character_can_grow_a_cluster_without_end() {
    // Every character that joins itself, after a letter; linkers between letters.
    let mut texts: Vec<String> = ('\u{80}'..=char::MAX)
        .filter(|c| !acts(*c) && format!("{c}{c}").graphemes(true).count() == 1)
        .map(|c| format!("क{}", c.to_string().repeat(40)))
        .collect();
    texts.push("क्".repeat(1000));
    texts.push("\u{1100}".repeat(1000));
    texts.push(format!("\u{ac00}{}", "\u{11a8}".repeat(1000)));
    texts.push("\u{600}".repeat(1000));
    for raw in texts {
        let safe = line(&raw);
        for cluster in safe.graphemes(true) {
            assert!(cluster.chars().count() <= 24, "{raw:?}: {cluster:?}");
        }
    }
}

/// Text with a good chance of being nasty.
fn nasty() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        '\x1b',
        '\u{9b}',
        '\x07',
        '\r',
        '\n',
        '\t',
        '\0',
        '\u{7f}',
        '\u{202e}',
        '\u{200b}',
        '\u{200d}',
        '\u{fe0f}',
        '\u{fe0e}',
        '\u{e0041}',
        '\u{e0100}',
        '\u{301}',
        '\u{489}',
        '\u{94d}',
        'क',
        '\u{1100}',
        '\u{11a8}',
        '◌',
        '⟨',
        '⟩',
        '␛',
        '⏎',
        '…',
        '1',
        '❤',
        '👍',
        '💻',
        '\u{1f3fb}',
        '\u{ff9e}',
        ' ',
        'a',
        '\u{3164}',
        '\u{2028}',
        '\u{e0b0}',
        '\u{378}',
    ]);
    prop::collection::vec(prop_oneof![3 => special, 1 => any::<char>()], 0..40)
        .prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn nothing_that_comes_out_acts(raw in nasty()) {
        let safe = line(&raw);
        prop_assert!(!unjoined(&safe).contains(acts), "{safe:?}");
        let block = SafeText::block(&raw);
        prop_assert!(!unjoined(&block).contains(|c| c != '\n' && acts(c)), "{block:?}");
    }

    #[test]
    fn sanitising_twice_changes_nothing(raw in nasty()) {
        let once = SafeText::line(&raw);
        prop_assert_eq!(&SafeText::line(&once), &once);
        let once = SafeText::block(&raw);
        prop_assert_eq!(&SafeText::block(&once), &once);
    }

    #[test]
    fn what_is_inspected_is_what_is_marked(raw in nasty()) {
        let found = inspect(&raw);
        let acting = unjoined(&raw.replace("\r\n", "\n")).chars().any(|c| c != '\n' && c != '\t' && acts(c));
        prop_assert!(!acting || !found.is_empty());
        prop_assert!(found.is_empty() || SafeText::line(&raw).hidden() > 0);
        for hidden in found {
            prop_assert!(raw[hidden.at..].starts_with(hidden.first));
        }
    }

    #[test]
    fn a_limit_is_kept(raw in nasty(), max in 0_usize..30) {
        let safe = SafeText::cut(&raw, max);
        prop_assert!(safe.chars().count() <= max);
        prop_assert!(!unjoined(&safe).contains(acts));
        prop_assert_eq!(&SafeText::cut(&safe, max), &safe);
    }

    #[test]
    fn clusters_stay_short(raw in nasty()) {
        let safe = line(&raw);
        for cluster in safe.graphemes(true) {
            prop_assert!(cluster.chars().count() <= 24, "{cluster:?}");
        }
    }
}

/// What is shown of a text when every marker is taken out of it again.
fn without_markers(safe: &str) -> String {
    let mut out = String::new();
    let mut in_marker = false;
    for c in safe.chars() {
        match c {
            '⟨' => in_marker = true,
            '⟩' => in_marker = false,
            '\u{2400}'..='\u{2421}' | '⏎' => {}
            _ if in_marker => {}
            _ => out.push(c),
        }
    }
    out
}

proptest! {
    #[test]
    fn what_is_visible_is_kept_to_the_letter_and_to_its_width(
        parts in prop::collection::vec((
            "[a-zäé日本한글क👍ｶ ]{0,6}",
            prop::sample::select(vec![
                "", "\x1b[31m", "\x1b]52;c;", "\u{9b}", "\x07", "\r", "\u{202e}", "\u{2066}",
                "\u{200b}\u{200b}", "\u{e0041}\u{e0042}", "\u{2028}", "\u{3164}", "\0", "\u{7f}",
            ]),
        ), 0..12)
    ) {
        let raw: String = parts.iter().flat_map(|(text, attack)| [text.as_str(), *attack]).collect();
        let visible: String = raw.chars().filter(|c| !acts(*c)).collect();
        let safe = SafeText::line(&raw);
        prop_assert_eq!(without_markers(&safe), &*visible);
        let block = SafeText::block(&raw);
        prop_assert_eq!(without_markers(&block), &*visible);
        let width = |text: &str| unicode_width::UnicodeWidthStr::width(text);
        prop_assert_eq!(width(&without_markers(&safe)), width(&visible));
        // What is drawn sign by sign takes the place that the whole asks for.
        let by_cluster: usize = safe.graphemes(true).map(width).sum();
        prop_assert_eq!(by_cluster, width(&safe));
    }
}

#[test]
fn marks_never_sit_on_a_marker_and_letters_join_in_bounded_clusters() {
    assert_eq!(SafeText::line("⟩\u{301}").as_str(), "⟩◌\u{301}");
    assert_eq!(SafeText::line("\u{200b}\u{301}").as_str(), "⟨ZWSP⟩◌\u{301}");
    let jamo = SafeText::line(&"\u{1100}".repeat(40));
    let longest = jamo.as_str().split('◌').map(|part| part.chars().count()).max();
    assert_eq!(longest, Some(8), "{jamo}");
}
