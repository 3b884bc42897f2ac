//! Themes: semantic roles, read from TOML, resolved to styles for the terminal's colours. Owns no
//! drawing and reads no files other than the built-in ones.

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;
use toml::Spanned;

named! {
    /// The roles that a theme colours.
    pub enum Role {
        /// Ordinary text, and the background of everything.
        Text = "text",
        /// Secondary text: labels, units, times.
        Muted = "muted",
        /// The least prominent text: hints, placeholders, what is not available.
        Faint = "faint",
        /// Titles of sections and columns.
        Heading = "heading",
        /// The one accent: the active tab, the focused list.
        Accent = "accent",
        /// The selected row that has the focus.
        Selection = "selection",
        /// The selected row elsewhere.
        SelectionInactive = "selection-inactive",
        /// Rules between regions.
        Rule = "rule",
        /// A key in footer and help.
        Key = "key",
        /// Something works.
        Ok = "ok",
        /// Something is under way.
        Busy = "busy",
        /// Something needs attention.
        Warning = "warning",
        /// Something failed.
        Error = "error",
        /// The user is needed.
        Attention = "attention",
        /// Text from a server, set apart from ours.
        Foreign = "foreign",
        /// What a search or filter found.
        Match = "match",
        /// Added by a change.
        Added = "added",
        /// Removed by a change.
        Removed = "removed",
        /// Altered by a change.
        Changed = "changed",
        /// Messages from a server.
        Inbound = "inbound",
        /// Messages to a server.
        Outbound = "outbound",
        /// JSON: names of members.
        JsonKey = "json-key",
        JsonString = "json-string",
        JsonNumber = "json-number",
        /// JSON: `true`, `false`, `null`.
        JsonLiteral = "json-literal",
        /// Where text is typed.
        Input = "input",
    }
}

/// A resolved theme.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Theme {
    name: String,
    styles: [Style; Role::ALL.len()],
    /// The ground of popups; `None` where the theme leaves the ground to the terminal.
    raised: Option<Color>,
}

/// The theme that is used when none is chosen.
pub const DEFAULT_THEME: &str = "default";

/// The themes that a program brings with it: names, and sources in TOML.
pub type ShippedThemes = &'static [(&'static str, &'static str)];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThemeConfig {
    inherits: Option<String>,
    #[serde(default)]
    palette: BTreeMap<String, String>,
    #[serde(default)]
    roles: BTreeMap<Spanned<String>, RoleConfig>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum RoleConfig {
    Foreground(String),
    Full(StyleConfig),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of a style")]
struct StyleConfig {
    fg: Option<String>,
    bg: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    reversed: bool,
}

impl Theme {
    /// The theme of this name among the user's `sources` (name, TOML) and the shipped ones.
    ///
    /// # Errors
    /// A sentence describing what is wrong with it and where.
    pub fn load(
        name: &str,
        sources: &[(String, String)],
        shipped: ShippedThemes,
    ) -> Result<Self, String> {
        let mut chain: Vec<(String, &str, ThemeConfig)> = Vec::new();
        let mut next = Some(name.to_owned());
        while let Some(current) = next.take() {
            if chain.iter().any(|(seen, ..)| *seen == current) {
                return Err(format!("theme `{name}` inherits from itself"));
            }
            let own = sources.iter().map(|(name, text)| (name.as_str(), text.as_str()));
            let (_, text) = own
                .chain(shipped.iter().copied())
                .find(|(name, _)| *name == current)
                .ok_or_else(|| format!("there is no theme `{current}`"))?;
            let config: ThemeConfig = toml::from_str(text).map_err(|e| {
                let line = line_at(text, e.span().unwrap_or_default().start);
                format!("theme `{current}`, line {line}: {}", e.message())
            })?;
            next.clone_from(&config.inherits);
            chain.push((current, text, config));
        }
        let mut theme = Self { name: name.to_owned(), ..Self::default() };
        let mut palette = BTreeMap::new();
        for (current, text, config) in chain.into_iter().rev() {
            palette.extend(config.palette);
            for (key, role) in config.roles {
                theme.adopt(key.get_ref(), role, &palette).map_err(|what| {
                    format!("theme `{current}`, line {}: {what}", line_at(text, key.span().start))
                })?;
            }
        }
        theme.raised = match (theme.style(Role::Text).bg, theme.style(Role::Input).bg) {
            (Some(Color::Rgb(r, g, b)), Some(Color::Rgb(red, green, blue))) => {
                let between = u8::midpoint;
                Some(Color::Rgb(between(r, red), between(g, green), between(b, blue)))
            }
            _ => None,
        };
        Ok(theme)
    }

    fn adopt(
        &mut self,
        name: &str,
        config: RoleConfig,
        palette: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let role = Role::ALL.into_iter().find(|role| role.name() == name);
        let role = role.ok_or_else(|| format!("there is no role `{name}`"))?;
        let config = match config {
            RoleConfig::Foreground(fg) => StyleConfig { fg: Some(fg), ..StyleConfig::default() },
            RoleConfig::Full(full) => full,
        };
        self.styles[role as usize] = resolve(&config, palette)?;
        Ok(())
    }

    /// The theme that is used when none is chosen; without one there are no styles.
    pub fn shipped(shipped: ShippedThemes) -> Self {
        // A broken shipped theme fails a test; an unstyled screen is still a usable one.
        Self::load(DEFAULT_THEME, &[], shipped).unwrap_or_default()
    }

    /// The same theme in the colours a terminal has.
    #[must_use]
    pub fn adapted(mut self, depth: ColorDepth) -> Self {
        for style in &mut self.styles {
            *style = depth.adapt(*style);
        }
        self.raised = self.raised.and_then(|raised| depth.adapt(Style::new().bg(raised)).bg);
        if matches!(depth, ColorDepth::Ansi16 | ColorDepth::Indexed) {
            self.part_from_grounds();
        }
        if depth == ColorDepth::None {
            // Without colours, weight tells a key from its word.
            let key = &mut self.styles[Role::Key as usize];
            *key = key.add_modifier(Modifier::BOLD);
        }
        self
    }

    /// Among few colours the nearest of a line or a hint may be that of its ground, on which it then
    /// vanishes: it takes the colour of more prominent text.
    fn part_from_grounds(&mut self) {
        let resting = self.style(Role::SelectionInactive);
        let rows = [resting.bg.filter(|_| resting.fg.is_none()), self.style(Role::Input).bg];
        let both = [self.style(Role::Text).bg, self.raised];
        for role in [Role::Muted, Role::Faint, Role::Rule] {
            let on_rows = if role == Role::Rule { [None; 2] } else { rows };
            let mut grounds = both.into_iter().chain(on_rows).flatten();
            if let Some(ink) = self.style(role).fg
                && grounds.any(|ground| ground == ink)
            {
                let better = if role == Role::Muted { Role::Text } else { Role::Muted };
                self.styles[role as usize].fg = self.style(better).fg;
            }
        }
    }

    /// The ground of popups, between that of the screen and that of a typed line; `None` where the
    /// theme leaves the ground to the terminal.
    pub const fn raised(&self) -> Option<Color> {
        self.raised
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The style of a role.
    pub const fn style(&self, role: Role) -> Style {
        self.styles[role as usize]
    }
}

fn resolve(spec: &StyleConfig, palette: &BTreeMap<String, String>) -> Result<Style, String> {
    let colour = |text: &Option<String>| text.as_ref().map(|text| parse_colour(text, palette));
    let (fg, bg) = (colour(&spec.fg).transpose()?, colour(&spec.bg).transpose()?);
    let mut style = Style { fg, bg, ..Style::new() };
    if spec.reversed && style.fg.is_none() && style.bg.is_none() {
        // One background for the whole row: reversing each colour would give several.
        style = style.fg(Color::Reset).bg(Color::Reset).remove_modifier(Modifier::DIM);
    }
    for (on, modifier) in [
        (spec.bold, Modifier::BOLD),
        (spec.dim, Modifier::DIM),
        (spec.italic, Modifier::ITALIC),
        (spec.underline, Modifier::UNDERLINED),
        (spec.reversed, Modifier::REVERSED),
    ] {
        if on {
            style = style.add_modifier(modifier);
        }
    }
    Ok(style)
}

/// The line number (from 1) of a byte offset in a text.
pub fn line_at(text: &str, at: usize) -> usize {
    text.get(..at).map_or(1, |before| before.matches('\n').count() + 1)
}

// Colours: parsing them, and adapting them to the terminal.

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
    /// Detects it from the environment by the usual conventions.
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
fn parse_colour(text: &str, palette: &BTreeMap<String, String>) -> Result<Color, String> {
    let literal = palette.get(text).map_or(text, String::as_str);
    if literal == "none" {
        return Ok(Color::Reset);
    }
    literal.parse().map_err(|_| {
        format!(
            "`{text}` is not a colour: use a palette entry, an ANSI name, `#rrggbb` or 0 to 255"
        )
    })
}

/// The sixteen ANSI colours in order, and their usual appearance.
pub(crate) const ANSI: [(Color, [u8; 3]); 16] = [
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

    const SHIPPED: ShippedThemes =
        &[("dark", "[roles]\naccent = \"cyan\"\nok = { fg = \"#88cc88\", dim = true }")];

    #[test]
    fn a_theme_inherits_overrides_and_names_its_colours() {
        let mine = r##"
            inherits = "dark"
            [palette]
            sea = "#003344"
            [roles]
            accent = "sea"
            error = { fg = "red", bold = true }
        "##;
        let theme = Theme::load("mine", &[("mine".into(), mine.into())], SHIPPED).unwrap();
        let dark = Theme::load("dark", &[], SHIPPED).unwrap();
        assert_eq!(theme.style(Role::Accent).fg, Some(Color::Rgb(0, 0x33, 0x44)));
        assert_eq!(theme.style(Role::Error).fg, Some(Color::Red));
        assert_eq!(theme.style(Role::Ok), dark.style(Role::Ok));
    }

    #[test]
    fn a_bad_theme_is_a_sentence_not_a_panic() {
        for (text, said) in [
            ("[roles]\nacccent = \"red\"", "no role `acccent`"),
            ("[roles]\naccent = \"reddish\"", "line 2: `reddish`"),
            ("[roles]\n\nkey = ", "theme `mine`, line 3: "),
            ("inherits = \"mine\"", "inherits from itself"),
            ("inherits = \"nowhere\"", "no theme `nowhere`"),
            ("roles = 3", "theme `mine`"),
        ] {
            let error = Theme::load("mine", &[("mine".into(), text.into())], SHIPPED).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}

#[cfg(test)]
mod colour_tests {
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
