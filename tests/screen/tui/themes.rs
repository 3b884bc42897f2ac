//! The themes that the program brings with it.

use std::collections::BTreeMap;

use mcpdeck::THEMES;
use mcpdeck::tui::theme::{ColorDepth, DEFAULT_THEME, Role, Theme};
use ratatui::style::{Color, Style};

use super::*;

#[test]
fn every_shipped_theme_loads_and_styles_every_role_that_carries_meaning() {
    for (name, _) in THEMES {
        let theme = Theme::load(name, &[], THEMES).unwrap();
        for role in Role::ALL.into_iter().filter(|role| *role != Role::Text) {
            assert_ne!(theme.style(role), Style::new(), "{name}: {}", role.name());
        }
    }
}

#[test]
fn the_default_theme_uses_the_colours_of_the_terminal_alone() {
    let theme = Theme::load(DEFAULT_THEME, &[], THEMES).unwrap();
    for role in Role::ALL {
        for colour in [theme.style(role).fg, theme.style(role).bg].into_iter().flatten() {
            assert!(!matches!(colour, Color::Rgb(..) | Color::Indexed(_)), "{role:?}");
        }
    }
}

#[test]
fn every_file_among_the_themes_is_shipped() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/themes");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut shipped: Vec<&str> = THEMES.iter().map(|(name, _)| *name).collect();
    files.sort();
    shipped.sort_unstable();
    assert_eq!(files, shipped);
}

// Contrast, as the Web Content Accessibility Guidelines 2.2 reckon it (success criteria 1.4.3 and
// 1.4.11).

/// The least contrast of a role: 4.5 for text that is read, 3 for text that may be passed over, and
/// 1.5 for lines between regions, which carry nothing that title, place and sign do not tell too.
const fn least(role: Role) -> f64 {
    match role {
        Role::Rule => 1.5,
        Role::Faint => 3.0,
        _ => 4.5,
    }
}

fn luminance(channels: [u8; 3]) -> f64 {
    let [red, green, blue] = channels.map(|channel| {
        let share = f64::from(channel) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

const fn channels(colour: Color) -> Option<[u8; 3]> {
    match colour {
        Color::Rgb(red, green, blue) => Some([red, green, blue]),
        _ => None,
    }
}

/// The shipped themes that have colours of their own.
fn coloured_themes() -> impl Iterator<Item = Theme> {
    let themes = THEMES.iter().map(|(name, _)| Theme::load(name, &[], THEMES).unwrap());
    themes.filter(|theme| theme.name() != DEFAULT_THEME)
}

/// The grounds that a role is drawn on: its own, else that of the screen and that of popups, and for
/// all but lines the selected row of a list without the focus and the line that is typed.
fn grounds(theme: &Theme, role: Role) -> Vec<(&'static str, Color)> {
    let own = theme.style(role).bg.map(|ground| ("its own ground", ground));
    if let Some(own) = own.filter(|_| role != Role::Text) {
        return vec![own];
    }
    let resting = theme.style(Role::SelectionInactive);
    let on_rows = |ground: Option<Color>| ground.filter(|_| role != Role::Rule);
    let all = [
        ("the screen", theme.style(Role::Text).bg),
        ("a popup", theme.raised()),
        ("a selected row", on_rows(resting.bg.filter(|_| resting.fg.is_none()))),
        ("a typed line", on_rows(theme.style(Role::Input).bg)),
    ];
    all.into_iter().filter_map(|(place, ground)| Some((place, ground?))).collect()
}

#[test]
fn what_a_shipped_theme_colours_can_be_read_on_every_ground_it_is_drawn_on() {
    let mut poor = Vec::new();
    for theme in coloured_themes() {
        for role in Role::ALL {
            let Some(ink) = theme.style(role).fg.and_then(channels) else { continue };
            for (place, ground) in grounds(&theme, role) {
                let ratio = contrast(ink, channels(ground).unwrap());
                if ratio < least(role) {
                    let (theme, role) = (theme.name(), role.name());
                    poor.push(format!("{theme}: {role} on {place}: {ratio:.2}"));
                }
            }
        }
    }
    assert!(poor.is_empty(), "{} pairs are hard to read:\n{}", poor.len(), poor.join("\n"));
}

#[test]
fn the_selected_row_stands_out_from_the_screen_and_from_popups() {
    for theme in coloured_themes() {
        let Some(row) = theme.style(Role::Selection).bg.and_then(channels) else { continue };
        for ground in [theme.style(Role::Text).bg, theme.raised()] {
            let Some(ground) = ground.and_then(channels) else { continue };
            let ratio = contrast(row, ground);
            assert!(ratio >= 3.0, "{}: {ratio:.2}", theme.name());
        }
    }
}

#[test]
fn every_cell_of_the_main_screens_can_be_read_in_every_shipped_theme() {
    let mut poor = BTreeMap::new();
    for theme in coloured_themes() {
        let colours = |role| theme.style(role).fg.and_then(channels);
        let least_of = |ink: [u8; 3]| {
            let same = Role::ALL.into_iter().filter(|role| colours(*role) == Some(ink));
            same.map(least).min_by(f64::total_cmp).unwrap_or(4.5)
        };
        for (situation, keys) in SHOWN {
            let name = Some(theme.name().to_owned());
            let themes = mcpdeck::THEMES;
            let mut app = app_with(situation, Setup { theme: name, themes, ..Setup::default() });
            let area = Rect::new(0, 0, 120, 40);
            let mut buffer = Buffer::empty(area);
            draw(&mut app, 120, 40);
            for key in keys.chars() {
                let key = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
                press(&mut app, key, KeyModifiers::NONE);
                draw(&mut app, 120, 40);
            }
            app.render(area, &mut buffer);
            for cell in buffer.content().iter().filter(|cell| !cell.symbol().trim().is_empty()) {
                let (Some(ink), Some(ground)) = (channels(cell.fg), channels(cell.bg)) else {
                    continue;
                };
                let ratio = contrast(ink, ground);
                if ratio < least_of(ink) {
                    let first = || format!("{:?} after {keys:?}: {ratio:.2}", cell.symbol());
                    poor.entry((theme.name().to_owned(), ink, ground)).or_insert_with(first);
                }
            }
        }
    }
    assert!(poor.is_empty(), "{poor:#?}");
}

/// Sessions, and the keys that lead to a screen of them.
const SHOWN: [(&str, &str); 14] = [
    ("degraded", "1"),
    ("degraded", "1\n"),
    ("typical", "1v"),
    ("typical", "2"),
    ("typical", "2\n"),
    ("typical", "3v"),
    ("typical", "4"),
    ("typical", "4v"),
    ("typical", "5"),
    ("degraded", "6"),
    ("degraded", "6\n"),
    ("degraded", "7"),
    ("typical", "2:"),
    ("degraded", "1?"),
];

#[test]
fn fewer_colours_never_give_text_the_colour_of_its_ground() {
    let xterm = |colour: Color| match colour {
        Color::Indexed(n @ 16..=231) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + step * 40 };
            let n = n - 16;
            [level(n / 36), level(n / 6 % 6), level(n % 6)]
        }
        Color::Indexed(n @ 232..) => [8 + (n - 232) * 10; 3],
        other => panic!("{other:?}"),
    };
    let mut poor = Vec::new();
    for theme in coloured_themes() {
        let [few, more] =
            [ColorDepth::Ansi16, ColorDepth::Indexed].map(|depth| theme.clone().adapted(depth));
        for role in Role::ALL {
            let place_of = |place| format!("{}: {} on {place}", theme.name(), role.name());
            for (place, ground) in grounds(&few, role) {
                if few.style(role).fg == Some(ground) {
                    poor.push(format!("{} is {ground} on {ground}", place_of(place)));
                }
            }
            let Some(ink) = more.style(role).fg.map(xterm) else { continue };
            for (place, ground) in grounds(&more, role) {
                let ratio = contrast(ink, xterm(ground));
                // The palette of xterm is coarse: half of what holds in full colour.
                if ratio < (least(role) / 2.0).max(1.1) {
                    poor.push(format!("{} has {ratio:.2} with 256 colours", place_of(place)));
                }
            }
        }
    }
    assert!(poor.is_empty(), "{poor:#?}");
}
