//! How the dashboard looks and listens: theme, signs and keys, as the files of the person and the
//! terminal have them.

use crate::tui::context::{Cx, Ui};
use crate::tui::glyph::{ASCII, Glyphs, UNICODE};
use crate::tui::graphics::Support;
use crate::tui::keymap::Keymap;
use crate::tui::message::UserFiles;
use crate::tui::model::Model;
use crate::tui::prelude::*;
use crate::tui::theme::{ColorDepth, SHIPPED, Theme};

/// Theme, signs and keys in use.
pub struct Appearance {
    pub keymap: Keymap,
    pub theme: Theme,
    pub glyphs: &'static Glyphs,
    /// What the terminal can draw.
    pub graphics: Support,
    /// What is wrong with a file of the person; the old one stays in use.
    pub problem: Option<Ink>,
    /// Files of the person.
    pub user: UserFiles,
    depth: ColorDepth,
}

impl Appearance {
    /// What is built in, until the files of the person are adopted.
    pub fn new(ascii: bool, depth: ColorDepth, graphics: Support, user: UserFiles) -> Self {
        Self {
            keymap: Keymap::builtin(),
            theme: Theme::builtin().adapted(depth),
            glyphs: if ascii { &ASCII } else { &UNICODE },
            graphics,
            problem: None,
            user,
            depth,
        }
    }

    /// Takes the files of the person into use, and a theme; what is wrong leaves the old as it is.
    pub fn adopt(&mut self, theme: Option<&str>) {
        let mut warning = None;
        match self.user.keymap.clone().map(|text| Keymap::with_user(&text?)) {
            Some(Ok(keymap)) => self.keymap = keymap,
            Some(Err(error)) => warning = Some(format!("{error}; the keys stay as they are")),
            None => self.keymap = Keymap::builtin(),
        }
        match Theme::load(theme.unwrap_or("default"), &self.user.themes) {
            Ok(theme) => self.theme = theme.adapted(self.depth),
            Err(error) => warning = Some(format!("{error}; the colours stay as they are")),
        }
        let warning = self.user.unread.first().cloned().or(warning);
        self.problem = warning.map(|warning| Ink::line(&warning));
    }

    /// Names of the themes there are.
    pub fn themes(&self) -> Vec<String> {
        let shipped = SHIPPED.iter().map(|(name, _)| (*name).to_owned());
        let all = shipped.chain(self.user.themes.iter().map(|(name, _)| name.clone()));
        all.collect::<indexmap::IndexSet<_>>().into_iter().collect()
    }

    /// What drawing sees.
    pub fn cx<'a>(&'a self, model: &'a Model, focused: bool) -> Cx<'a> {
        Cx {
            model,
            theme: &self.theme,
            glyphs: self.glyphs,
            keymap: &self.keymap,
            graphics: self.graphics.graphics(),
            focused,
        }
    }

    /// What reacting in this region sees.
    pub fn ui<'a>(&'a self, model: &'a Model, area: Rect) -> Ui<'a> {
        Ui { cx: self.cx(model, true), area }
    }
}
