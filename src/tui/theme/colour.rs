//! Colours: reading them, and fitting them to what the terminal can show.

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorDepth {
    /// None wanted (`NO_COLOR`, `TERM=dumb`): weight, underline and reverse carry the meaning.
    None,
    /// The sixteen of ANSI.
    Ansi16,
    /// The xterm palette.
    Indexed,
    /// Red, green and blue.
    #[default]
    True,
}

impl ColorDepth {
    /// Reads it from the environment as programs agree to say it.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Self {
        let term = get("TERM").unwrap_or_default();
        let colorterm = get("COLORTERM").unwrap_or_default();
        if get("NO_COLOR").is_some_and(|v| !v.is_empty()) || term == "dumb" {
            Self::None
        } else if colorterm.contains("truecolor")
            || colorterm.contains("24bit")
            || term.contains("direct")
        {
            Self::True
        } else if term.contains("256color") {
            Self::Indexed
        } else {
            Self::Ansi16
        }
    }

    /// `style` in these colours.
    pub fn adapt(self, style: Style) -> Style {
        if self == Self::None {
            let mut plain = Style { fg: None, bg: None, underline_color: None, ..style };
            if style.bg.is_some_and(|bg| bg != Color::Reset) {
                plain = plain.add_modifier(Modifier::REVERSED);
            }
            return plain;
        }
        Style { fg: style.fg.map(|c| self.fit(c)), bg: style.bg.map(|c| self.fit(c)), ..style }
    }

    fn fit(self, colour: Color) -> Color {
        match (self, colour) {
            (Self::Indexed, Color::Rgb(r, g, b)) => Color::Indexed(nearest_indexed([r, g, b])),
            (Self::Ansi16, Color::Rgb(r, g, b)) => nearest_ansi([r, g, b]),
            (Self::Ansi16, Color::Indexed(n)) => nearest_ansi(rgb_of_indexed(n)),
            _ => colour,
        }
    }
}

/// A colour by palette name, ANSI name, `#rrggbb` or index.
pub(super) fn parse_colour(
    text: &str,
    palette: &BTreeMap<String, String>,
) -> Result<Color, String> {
    let literal = palette.get(text).map_or(text, String::as_str);
    if literal == "none" {
        return Ok(Color::Reset);
    }
    literal.parse().map_err(|_| {
        format!("`{text}` is no colour: use a palette entry, an ANSI name, `#rrggbb` or 0 to 255")
    })
}

const ANSI: [(Color, [u8; 3]); 16] = [
    (Color::Black, [0, 0, 0]),
    (Color::Red, [170, 0, 0]),
    (Color::Green, [0, 170, 0]),
    (Color::Yellow, [170, 120, 0]),
    (Color::Blue, [0, 0, 170]),
    (Color::Magenta, [170, 0, 170]),
    (Color::Cyan, [0, 150, 170]),
    (Color::Gray, [170, 170, 170]),
    (Color::DarkGray, [85, 85, 85]),
    (Color::LightRed, [255, 85, 85]),
    (Color::LightGreen, [85, 255, 85]),
    (Color::LightYellow, [255, 255, 85]),
    (Color::LightBlue, [85, 120, 255]),
    (Color::LightMagenta, [255, 85, 255]),
    (Color::LightCyan, [85, 255, 255]),
    (Color::White, [255, 255, 255]),
];

fn distance(a: [u8; 3], b: [u8; 3]) -> u32 {
    a.iter().zip(b).map(|(x, y)| u32::from(x.abs_diff(y)).pow(2)).sum()
}

fn nearest_ansi(rgb: [u8; 3]) -> Color {
    ANSI.iter().min_by_key(|(_, c)| distance(rgb, *c)).map_or(Color::Reset, |(name, _)| *name)
}

fn nearest_indexed(rgb: [u8; 3]) -> u8 {
    (16..=255).min_by_key(|n| distance(rgb, rgb_of_indexed(*n))).unwrap_or(7)
}

fn rgb_of_indexed(n: u8) -> [u8; 3] {
    match n {
        0..=15 => ANSI[usize::from(n)].1,
        16..=231 => {
            let level = |v: u8| if v == 0 { 0 } else { 55 + v * 40 };
            let n = n - 16;
            [level(n / 36), level(n / 6 % 6), level(n % 6)]
        }
        232..=255 => [8 + (n - 232) * 10; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(vars: &[(&str, &str)]) -> ColorDepth {
        ColorDepth::from_env(|key| {
            vars.iter().find(|(k, _)| *k == key).map(|(_, v)| (*v).to_owned())
        })
    }

    #[test]
    fn the_environment_says_how_many_colours_there_are() {
        assert_eq!(depth(&[("TERM", "xterm"), ("NO_COLOR", "1")]), ColorDepth::None);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]), ColorDepth::Indexed);
        assert_eq!(depth(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), ColorDepth::True);
        assert_eq!(depth(&[("TERM", "linux")]), ColorDepth::Ansi16);
        assert_eq!(depth(&[("TERM", "dumb")]), ColorDepth::None);
    }

    #[test]
    fn without_colours_a_ground_of_its_own_becomes_reverse() {
        let style = Style::new().fg(Color::Red).bg(Color::Blue);
        let plain = ColorDepth::None.adapt(style);
        assert_eq!((plain.fg, plain.bg), (None, None));
        assert!(plain.add_modifier.contains(Modifier::REVERSED));
    }

    #[test]
    fn true_colours_come_down_to_their_nearest_neighbour() {
        let red = Style::new().fg(Color::Rgb(250, 80, 80));
        assert_eq!(ColorDepth::Ansi16.adapt(red).fg, Some(Color::LightRed));
        assert_eq!(ColorDepth::Indexed.adapt(red).fg, Some(Color::Indexed(203)));
    }
}
