//! The themes that the program brings with it.

use mcpdeck::THEMES;
use mcpdeck::tui::theme::{DEFAULT_THEME, Role, Theme};
use ratatui::style::{Color, Style};

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
