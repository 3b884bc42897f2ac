//! What drawing depends on: theme, signs, graphics, focus; and styles and signs of forms and results,
//! made from the theme once per frame: layouts made with them are rebuilt when they change.

use crate::glyph::Glyphs;
use crate::graphics::Graphics;
use crate::prelude::*;
use crate::theme::Theme;

/// What drawing depends on besides what is drawn.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub theme: &'a Theme,
    pub glyphs: &'a Glyphs,
    /// How pictures are drawn.
    pub graphics: Graphics,
    /// Whether what is drawn has the keyboard focus.
    pub focused: bool,
}

impl Look<'_> {
    /// The style of a role.
    pub const fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    /// Styles of forms and results. Pictures use pixels only where nothing overlaps them.
    pub fn styles(&self) -> Styles {
        let graphics = if self.focused { self.graphics } else { self.graphics.as_blocks() };
        Styles::from_theme(self.theme, self.glyphs.is_ascii(), graphics)
    }

    /// Style of the selected row; `here` is whether its list has the focus within its region.
    pub const fn selection(&self, here: bool) -> Style {
        if self.focused && here {
            self.style(Role::Selection)
        } else {
            self.style(Role::SelectionInactive)
        }
    }
}

macro_rules! look {
    ($($(#[$doc:meta])* $name:ident: $role:ident;)*) => {
        /// Styles and signs; made from the theme.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Styles {
            $($(#[$doc])* pub $name: Style,)*
            /// Only ASCII signs.
            pub ascii: bool,
            /// How pictures are drawn.
            pub graphics: Graphics,
        }

        impl Styles {
            /// The styles of a theme.
            pub const fn from_theme(theme: &Theme, ascii: bool, graphics: Graphics) -> Self {
                Self { $($name: theme.style(Role::$role),)* ascii, graphics }
            }
        }
    };
}

look! {
    /// Ordinary text.
    text: Text;
    /// Secondary labels, units.
    muted: Muted;
    /// Hints, and unset values.
    faint: Faint;
    /// Names of fields.
    label: Heading;
    accent: Accent;
    /// The row that has the focus.
    selection: Selection;
    /// Where text is typed.
    input: Input;
    /// Needs attention.
    warning: Warning;
    /// Failed.
    error: Error;
    /// Works.
    ok: Ok;
    /// Text from a server.
    foreign: Foreign;
    rule: Rule;
    /// JSON: names of members.
    json_key: JsonKey;
    json_string: JsonString;
    json_number: JsonNumber;
    /// JSON: `true`, `false`, `null`.
    json_literal: JsonLiteral;
    /// Found by a search.
    matched: Match;
    /// Added by a change.
    added: Added;
    /// Removed by a change.
    removed: Removed;
}

impl Styles {
    /// The style of a part of JSON text.
    pub const fn json(&self, role: Role) -> Style {
        match role {
            Role::JsonKey => self.json_key,
            Role::JsonString => self.json_string,
            Role::JsonNumber => self.json_number,
            Role::JsonLiteral => self.json_literal,
            Role::Faint => self.faint,
            Role::Text => self.text,
            _ => self.muted,
        }
    }

    /// The Unicode or the ASCII sign, whichever is in use.
    pub const fn sign(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }
}
