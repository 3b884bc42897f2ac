//! Styles and signs of forms and results, made from the theme once per frame; layouts made with
//! them are rebuilt when they change.

use crate::graphics::Graphics;
use crate::prelude::*;
use crate::theme::Theme;

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
            pub const fn of(theme: &Theme, ascii: bool, graphics: Graphics) -> Self {
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
    /// The one accent.
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
    /// Rules.
    rule: Rule;
    /// JSON: names of members.
    json_key: JsonKey;
    /// JSON: strings.
    json_string: JsonString;
    /// JSON: numbers.
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
    /// The Unicode or the ASCII sign, whichever is in use.
    pub const fn sign(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }
}
