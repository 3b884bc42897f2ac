//! Types of drawable text (invariant 8): our own literals, numbers, and [`SafeText`]; a borrowed
//! `&str` of unknown origin does not compile. Owns no drawing.

use std::fmt::{self, Write as _};

use unicode_width::UnicodeWidthStr as _;

pub use base::human::{Bytes, Dur, count};
pub use base::text::{SafePart, SafeText};

/// Text that is safe to draw because all its parts were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ink(String);

impl Ink {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Sanitises one line of text of any origin.
    pub fn line(raw: &str) -> Self {
        Self(SafeText::line(raw).as_str().to_owned())
    }

    /// Formats parts that [`SafePart`] vouches for; called by the `ink!` macro alone.
    #[doc(hidden)]
    pub fn from_parts(arguments: fmt::Arguments<'_>) -> Self {
        Self(arguments.to_string())
    }

    /// Appends another piece.
    pub fn push(&mut self, more: impl Drawable) -> &mut Self {
        self.0.push_str(more.text());
        self
    }
}

impl fmt::Display for Ink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pad(&self.0, f)
    }
}

/// Writes text padded to cells of the screen; `Formatter::pad` counts characters, of which some are
/// two cells wide and some none.
fn pad(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let blank = f.width().unwrap_or(0).saturating_sub(text.width());
    let before = match f.align() {
        Some(fmt::Alignment::Right) => blank,
        Some(fmt::Alignment::Center) => blank / 2,
        Some(fmt::Alignment::Left) | None => 0,
    };
    for _ in 0..before {
        f.write_char(' ')?;
    }
    f.write_str(text)?;
    for _ in before..blank {
        f.write_char(' ')?;
    }
    Ok(())
}

impl From<&SafeText> for Ink {
    fn from(text: &SafeText) -> Self {
        Self(text.as_str().to_owned())
    }
}

/// Something a [`crate::pen::Pen`] draws.
pub trait Drawable {
    /// The text, safe to draw.
    fn text(&self) -> &str;
}

impl Drawable for SafeText {
    fn text(&self) -> &str {
        self.as_str()
    }
}

impl Drawable for Ink {
    fn text(&self) -> &str {
        &self.0
    }
}

impl Drawable for &'static str {
    fn text(&self) -> &str {
        self
    }
}

impl<T: Drawable> Drawable for &T {
    fn text(&self) -> &str {
        (**self).text()
    }
}

/// A slice of something drawable: safe because the whole is.
#[derive(Clone, Copy, Debug)]
pub struct InkSlice<'a>(&'a str);

impl<'a> InkSlice<'a> {
    /// The part of `whole` between two byte offsets; clamped to character boundaries.
    pub fn new<T: Drawable + ?Sized>(whole: &'a T, from: usize, to: usize) -> Self {
        InkSlice(whole.text()).part(from, to)
    }

    /// Its text.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }

    #[must_use]
    pub fn part(&self, from: usize, to: usize) -> Self {
        let text = self.0;
        Self(text.get(from.min(text.len())..to.min(text.len())).unwrap_or_default())
    }
}

impl Drawable for InkSlice<'_> {
    fn text(&self) -> &str {
        self.0
    }
}

impl SafePart for Ink {}
impl SafePart for InkSlice<'_> {}

impl fmt::Display for InkSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pad(self.0, f)
    }
}

/// Makes the compiler reject unsafe parts.
#[doc(hidden)]
pub const fn vouched<T: SafePart>(part: T) -> T {
    part
}

/// `format!` whose arguments must be safe to draw.
#[macro_export]
macro_rules! ink {
    ($fmt:literal $(, $arg:expr)* $(,)?) => {
        $crate::ink::Ink::from_parts(format_args!($fmt $(, $crate::ink::vouched($arg))*))
    };
}
pub use crate::ink;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_padded_to_cells_of_the_screen() {
        let wide = Ink::line("\u{65e5}\u{672c}");
        let padded = [ink!("{:<6}|", &wide), ink!("{:>6}|", &wide), ink!("{:^6}|", &wide)];
        let expected = ["\u{65e5}\u{672c}  |", "  \u{65e5}\u{672c}|", " \u{65e5}\u{672c} |"];
        assert_eq!(padded.each_ref().map(Ink::as_str), expected);
        assert_eq!(ink!("{:<3}|", Ink::line("e\u{301}")).as_str(), "e\u{301}  |");
    }

    #[test]
    fn a_piece_that_would_cut_a_character_is_empty_instead_of_a_panic() {
        let whole = SafeText::line("aé");
        assert_eq!(InkSlice::new(&whole, 0, 2).as_str(), "");
        assert_eq!(InkSlice::new(&whole, 1, 99).as_str(), "é");
    }
}
