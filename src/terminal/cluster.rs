//! Characters of several code points, which terminals draw in different ways: some in as many
//! columns as the cluster is wide, others in those of each code point, one after the other. Either
//! way the columns behind it hold what the frame says.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use ratatui::buffer::Cell;

use crate::prelude::*;

/// The clusters of the last frame, each with its place.
#[derive(Default)]
pub(crate) struct DrawnClusters(Vec<(Position, Cell)>);

impl DrawnClusters {
    /// The cells to write again after those that a frame changes: the columns that a cluster may have
    /// reached which comes, goes or changes its style with it.
    pub(crate) fn follow(&mut self, frame: &Buffer) -> Vec<(Position, Cell)> {
        let area = frame.area;
        let drawn: Vec<(Position, Cell)> = (area.y..area.bottom())
            .flat_map(|y| (area.x..area.right()).map(move |x| Position { x, y }))
            .filter(|at| is_cluster(frame[*at].symbol()))
            .map(|at| (at, frame[at].clone()))
            .collect();
        let before = std::mem::replace(&mut self.0, drawn);
        // Both are in the order of their places.
        let is_in = |all: &[(Position, Cell)], (at, cell): &(Position, Cell)| {
            let found = all.binary_search_by_key(&(at.y, at.x), |(at, _)| (at.y, at.x));
            found.is_ok_and(|found| all[found].1 == *cell)
        };
        let gone = before.iter().filter(|cluster| !is_in(&self.0, cluster));
        let new = self.0.iter().filter(|cluster| !is_in(&before, cluster));
        let mut again: Vec<Position> = gone.chain(new).flat_map(behind).collect();
        again.sort_unstable_by_key(|at| (at.y, at.x));
        again.dedup();
        let is_own = |at: &Position| area.contains(*at) && !is_covered(frame, *at);
        again.into_iter().filter(is_own).map(|at| (at, frame[at].clone())).collect()
    }
}

/// The columns behind the first that a cluster takes where each of its code points has its own.
fn behind((at, cell): &(Position, Cell)) -> impl Iterator<Item = Position> + use<> {
    let reach = cell.symbol().chars().map(|c| c.width().unwrap_or(0)).sum::<usize>();
    let (reach, at) = (u16::try_from(reach).unwrap_or(u16::MAX), *at);
    (at.x.saturating_add(1)..at.x.saturating_add(reach)).map(move |x| Position { x, y: at.y })
}

/// Whether a wide symbol before it covers a cell.
fn is_covered(frame: &Buffer, at: Position) -> bool {
    let mut x = frame.area.x;
    while x < at.x {
        x += u16::try_from(frame[(x, at.y)].symbol().width().max(1)).unwrap_or(1);
    }
    x > at.x
}

/// Whether a symbol has several code points; one may reach beyond the width of all.
pub(crate) fn is_cluster(symbol: &str) -> bool {
    symbol.len() > 1 && symbol.chars().nth(1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns that are written when each row of text follows the one before.
    fn written(rows: &[&str]) -> Vec<Vec<u16>> {
        let mut clusters = DrawnClusters::default();
        let mut last = Buffer::empty(Rect::new(0, 0, 12, 1));
        let mut out = Vec::new();
        for row in rows {
            let mut next = Buffer::empty(last.area);
            next.set_string(0, 0, row, Style::new());
            let again = clusters.follow(&next);
            let again = again.iter().map(|(at, _)| at.x);
            let mut columns: Vec<u16> =
                last.diff(&next).into_iter().map(|(x, ..)| x).chain(again).collect();
            columns.sort_unstable();
            columns.dedup();
            out.push(columns);
            last = next;
        }
        out
    }

    #[test]
    fn what_a_cluster_may_have_left_behind_it_is_written_again() {
        // SARA AM, a flag, a spacing vowel sign, and joined emoji, each followed by blanks.
        for cluster in ["ทำ", "🇫🇮", "நி", "👩\u{200d}💻"] {
            let reach = cluster.chars().map(|c| c.width().unwrap_or(0)).sum::<usize>() as u16;
            let (wide, none) = (cluster.width() as u16, Vec::<u16>::new());
            let shown: Vec<u16> = [0].into_iter().chain(wide..reach).collect();
            let gone: Vec<u16> = (0..reach).collect();
            assert_eq!(
                written(&[cluster, cluster, "", ""]),
                [shown, none.clone(), gone, none],
                "{cluster}"
            );
        }
        assert_eq!(written(&["ทำ 世界", "ทำ 世界"])[1], [0; 0]);
    }

    #[test]
    fn letters_and_wide_characters_alone_cost_nothing_more() {
        assert_eq!(written(&["ab世", "ab世", "a世"]), [vec![0, 1, 2], vec![], vec![1]]);
    }
}
