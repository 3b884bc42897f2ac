//! A terminal and what is drawn on it, whatever the program: decoder and encoder of its bytes, the
//! session that takes and restores it, graphics, themes, signs, key chords, drawable text, and the
//! lists and texts made of them. Knows nothing of MCP, servers or panes.
//!
//! An application reads [`input::InputThread`], keeps [`browser::Browser`], [`list::ListState`],
//! [`doc::Doc`] and [`text_input::TextInput`] in its state, maps its own actions to those of lists
//! with [`list::ToBrowse`], and draws with a [`look::Look`] and a [`pen::Pen`] inside
//! [`session::TerminalSession::draw`].

#![cfg_attr(not(test), warn(clippy::expect_used))]
#![allow(
    missing_docs,
    reason = "its readers are its authors: a doc stands where it says more than the name"
)]

/// An enum whose variants have names in files and on the screen.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $type:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $type { $($(#[$doc])* $value),* }

        impl $type {
            /// All of them, in order.
            pub const ALL: [Self; [$(Self::$value),*].len()] = [$(Self::$value),*];

            /// Its name in files and on the screen.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $name),* }
            }

        }
    };
}

pub mod browser;
pub mod chord;
mod cluster;
pub mod doc;
pub mod encode;
pub mod gesture;
pub mod glyph;
pub mod graphics;
pub mod ink;
pub mod input;
pub mod json_line;
pub mod key_line;
pub mod list;
pub mod look;
pub mod parts;
pub mod pen;
mod prelude;
pub mod search;
pub mod session;
pub mod signal;
mod sixel;
pub mod text_input;
pub mod theme;
