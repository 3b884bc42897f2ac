//! Theme, glyphs and keymap in use, from the user's files and the abilities of the terminal.

use crate::context::{Cx, Ui};
use crate::glyph::{ASCII, Glyphs, UNICODE};
use crate::keymap::Keymap;
use crate::message::UserFiles;
use crate::model::Model;
use crate::prelude::*;
use terminal::graphics::{Background, Support};
use terminal::look::Look;
use terminal::theme::{ColorDepth, DEFAULT_THEME, ShippedThemes, Theme};

/// Theme, glyphs and keymap in use.
pub struct Appearance {
    pub keymap: Keymap,
    pub theme: Theme,
    pub glyphs: &'static Glyphs,
    /// Graphics support of the terminal.
    pub graphics: Support,
    /// An error in a user file; its previous version stays in use.
    pub problem: Option<Ink>,
    /// The user's keymap and theme files.
    pub user: UserFiles,
    /// The themes that the program brings with it.
    shipped: ShippedThemes,
    depth: ColorDepth,
    /// The background of the terminal, once it is known.
    background: Option<Background>,
}

impl Appearance {
    /// The built-in defaults, until [`Appearance::adopt`] applies the user's files.
    pub fn new(
        ascii: bool,
        depth: ColorDepth,
        graphics: Support,
        shipped: ShippedThemes,
        user: UserFiles,
    ) -> Self {
        Self {
            keymap: Keymap::builtin(),
            theme: Theme::shipped(shipped).adapted(depth),
            glyphs: if ascii { &ASCII } else { &UNICODE },
            graphics,
            problem: None,
            user,
            shipped,
            depth,
            background: None,
        }
    }

    /// Learns the background of the terminal; returns whether the theme has another flavour for it.
    pub fn stands_on(&mut self, background: Background) -> bool {
        self.background = Some(background);
        background == Background::Light && self.light_flavour(self.theme.name()).is_some()
    }

    /// The flavour of a theme for a light background: `NAME-light`, if there is one.
    fn light_flavour(&self, theme: &str) -> Option<String> {
        let name = format!("{theme}-light");
        self.themes().contains(&name).then_some(name)
    }

    /// Applies the user's files and a theme; what has an error stays as it was.
    pub fn adopt(&mut self, theme: Option<&str>) {
        let mut warning = None;
        match self.user.keymap.clone().map(|text| Keymap::with_user(&text?)) {
            Some(Ok(keymap)) => self.keymap = keymap,
            Some(Err(error)) => warning = Some(format!("{error}; the keys stay as they are")),
            None => self.keymap = Keymap::builtin(),
        }
        let theme = theme.unwrap_or(DEFAULT_THEME);
        let on_light = self.background == Some(Background::Light);
        let light = self.light_flavour(theme).filter(|_| on_light);
        match Theme::load(light.as_deref().unwrap_or(theme), &self.user.themes, self.shipped) {
            Ok(theme) => self.theme = theme.adapted(self.depth),
            Err(error) => warning = Some(format!("{error}; the colours stay as they are")),
        }
        let warning = self.user.unread.first().cloned().or(warning);
        self.problem = warning.map(|warning| Ink::line(&warning));
    }

    /// Names of the available themes.
    pub fn themes(&self) -> Vec<String> {
        let shipped = self.shipped.iter().map(|(name, _)| (*name).to_owned());
        let all = shipped.chain(self.user.themes.iter().map(|(name, _)| name.clone()));
        all.collect::<indexmap::IndexSet<_>>().into_iter().collect()
    }

    /// The context for drawing.
    pub fn cx<'a>(&'a self, model: &'a Model, focused: bool) -> Cx<'a> {
        let look = Look {
            theme: &self.theme,
            glyphs: self.glyphs,
            graphics: self.graphics.graphics(),
            focused,
        };
        Cx { look, model, keymap: &self.keymap }
    }

    /// The context for handling input in this region.
    pub fn ui<'a>(&'a self, model: &'a Model, area: Rect) -> Ui<'a> {
        Ui { cx: self.cx(model, true), area }
    }
}
