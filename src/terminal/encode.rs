//! Encodes cells as bytes for the terminal. Sixteen colours use the codes that every colour
//! terminal knows (SGR 30 to 37 and 90 to 97), a frame is a single write, and the terminal is never
//! queried here, since its replies would arrive among the keys.

use std::io::{self, Write};

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::Color;

use crate::cluster::is_cluster;
use crate::theme::ANSI;

/// Writes frames to `W`, which must buffer them until it is flushed.
pub struct Ansi<W: Write>(pub W);

impl<W: Write> Ansi<W> {
    fn style(&mut self, cell: &Cell) -> io::Result<()> {
        self.0.write_all(b"\x1b[0")?;
        // Modifier bits are in the order of their SGR codes, from bold (1) to crossed out (9).
        let bits = cell.modifier.bits();
        for code in (1..=9).filter(|code| bits >> (code - 1) & 1 == 1) {
            write!(self.0, ";{code}")?;
        }
        self.colour(cell.fg, 30)?;
        self.colour(cell.bg, 40)?;
        self.0.write_all(b"m")
    }

    /// Writes a foreground (`first` 30) or background (`first` 40) colour.
    fn colour(&mut self, colour: Color, first: u8) -> io::Result<()> {
        match colour {
            Color::Reset => Ok(()),
            Color::Rgb(r, g, b) => write!(self.0, ";{};2;{r};{g};{b}", first + 8),
            Color::Indexed(n) => write!(self.0, ";{};5;{n}", first + 8),
            named => write!(self.0, ";{}", first + ansi(named)),
        }
    }
}

/// Offset of a colour's SGR code: 0 to 7, 60 to 67 for the bright ones, 9 for the default.
fn ansi(colour: Color) -> u8 {
    match ANSI.iter().position(|(named, _)| *named == colour) {
        Some(n @ 0..8) => n as u8,
        Some(n) => 60 + n as u8 - 8,
        // The default colour: 39 and 49.
        None => 9,
    }
}

impl<W: Write> Backend for Ansi<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, cells: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let look = |cell: &Cell| (cell.fg, cell.bg, cell.modifier);
        let mut worn = look(&Cell::EMPTY);
        let mut next = None;
        for (x, y, cell) in cells {
            if next != Some((x, y)) {
                write!(self.0, "\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1)?;
            }
            if look(cell) != worn {
                self.style(cell)?;
                worn = look(cell);
            }
            self.0.write_all(cell.symbol().as_bytes())?;
            // Where a cluster leaves the cursor is not known.
            next = x.checked_add(1).map(|x| (x, y)).filter(|_| !is_cluster(cell.symbol()));
        }
        if worn == look(&Cell::EMPTY) { Ok(()) } else { self.0.write_all(b"\x1b[0m") }
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        // The session hides it once; each frame asks for it.
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.write_all(b"\x1b[?25h")
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // The cursor is hidden, so any position will do.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        write!(self.0, "\x1b[{};{}H", u32::from(y) + 1, u32::from(x) + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.0.write_all(match region {
            ClearType::All => b"\x1b[2J",
            ClearType::AfterCursor => b"\x1b[0J",
            ClearType::BeforeCursor => b"\x1b[1J",
            ClearType::CurrentLine => b"\x1b[2K",
            ClearType::UntilNewLine => b"\x1b[0K",
        })
    }

    fn size(&self) -> io::Result<Size> {
        let (width, height) = crossterm::terminal::size()?;
        Ok(Size { width, height })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        let size = crossterm::terminal::window_size()?;
        Ok(WindowSize {
            columns_rows: Size { width: size.columns, height: size.rows },
            pixels: Size { width: size.width, height: size.height },
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::{Modifier, Style};

    use super::*;

    fn drawn(cells: &[(u16, u16, &str, Style)]) -> String {
        let cells: Vec<(u16, u16, Cell)> = cells
            .iter()
            .map(|(x, y, symbol, style)| {
                let mut cell = Cell::default();
                cell.set_symbol(symbol).set_style(*style);
                (*x, *y, cell)
            })
            .collect();
        let mut backend = Ansi(Vec::new());
        backend.draw(cells.iter().map(|(x, y, cell)| (*x, *y, cell))).unwrap();
        String::from_utf8(backend.0).unwrap()
    }

    #[test]
    fn neighbours_need_no_move_and_a_style_is_said_once() {
        let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        let cells = [(0, 0, "a", red), (1, 0, "b", red), (0, 2, "c", Style::new())];
        assert_eq!(drawn(&cells), "\x1b[1;1H\x1b[0;1;31mab\x1b[3;1H\x1b[0mc");
    }

    #[test]
    fn a_cell_after_a_wide_one_is_gone_to() {
        let plain = Style::new();
        let cells = [(0, 0, "世", plain), (2, 0, "x", plain)];
        assert_eq!(drawn(&cells), "\x1b[1;1H世\x1b[1;3Hx");
        let cells = [(0, 0, "é\u{301}", plain), (1, 0, "x", plain)];
        assert_eq!(drawn(&cells), "\x1b[1;1Hé\u{301}\x1b[1;2Hx");
    }

    #[test]
    fn every_kind_of_colour_is_written_in_its_own_way() {
        let of = |fg, bg| drawn(&[(0, 0, "x", Style::new().fg(fg).bg(bg))]);
        assert!(of(Color::White, Color::Black).contains("\x1b[0;97;40m"));
        assert!(of(Color::Gray, Color::DarkGray).contains("\x1b[0;37;100m"));
        assert!(
            of(Color::Indexed(203), Color::Rgb(1, 2, 3)).contains("\x1b[0;38;5;203;48;2;1;2;3m")
        );
        assert!(of(Color::Reset, Color::Reset).ends_with("Hx"));
    }
}
