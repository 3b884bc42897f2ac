//! Layout of the screen: one pure function, used by update (page sizes, mouse) and by render.

use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::{Layout as Split, Position, Rect};

/// The regions of the whole screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    pub whole: Rect,
    /// Name, file, counts.
    pub header: Rect,
    /// Tabs of the panes.
    pub tabs: Rect,
    /// Rule under the tabs.
    pub rule: Rect,
    /// The list of servers, when it is shown.
    pub servers: Option<Rect>,
    /// Rule beside it.
    pub divider: Option<Rect>,
    /// The pane.
    pub main: Rect,
    /// What is beside the pane, where that leaves it room: an open call.
    pub beside: Option<Rect>,
    /// Rule above the footer, where there is room for one.
    pub bottom_rule: Option<Rect>,
    /// Keys.
    pub footer: Rect,
}

/// Smallest screen on which something useful is drawn.
pub const MIN_SCREEN_CELLS: (u16, u16) = (40, 10);
/// Width from which the server list is shown unless it was hidden.
pub const MIN_SERVER_LIST_COLUMNS: u16 = 160;

/// Width of a screen from which a call leaves the list beside it in sight.
const MIN_BESIDE_COLUMNS: u16 = 100;
/// Columns of a list that is beside an open call.
const MIN_NAMES_COLUMNS: u16 = 32;
const MAX_NAMES_COLUMNS: u16 = 48;

impl Layout {
    /// Divides `whole`. `server_list` is the user's choice; `None` decides by width. Returns `None`
    /// when the screen is too small.
    pub fn compute(whole: Rect, server_list: Option<bool>) -> Option<Self> {
        if whole.width < MIN_SCREEN_CELLS.0 || whole.height < MIN_SCREEN_CELLS.1 {
            return None;
        }
        let tall = whole.height >= 20;
        let wide = match whole.width {
            _ if !server_list.unwrap_or(whole.width >= MIN_SERVER_LIST_COLUMNS) => 0,
            0..60 => 0,
            60..100 => 20,
            100..160 => 26,
            _ => 34,
        };
        let rows = [Length(1), Length(1), Length(1), Min(0), Length(tall.into()), Length(1)];
        let [header, tabs, rule, body, bottom_rule, footer] = Split::vertical(rows).areas(whole);
        let columns = [Length(wide), Length((wide > 0).into()), Length(1), Min(0)];
        let [servers, divider, _, main] = Split::horizontal(columns).areas(body);
        Some(Self {
            whole,
            header,
            tabs,
            rule,
            servers: (wide > 0).then_some(servers),
            divider: (wide > 0).then_some(divider),
            main,
            beside: None,
            bottom_rule: tall.then_some(bottom_rule),
            footer,
        })
    }

    /// The same, with what is open beside the pane: it takes what the names of a list leave.
    #[must_use]
    pub fn with_beside(mut self) -> Self {
        if self.whole.width >= MIN_BESIDE_COLUMNS {
            let list = (self.main.width / 3).clamp(MIN_NAMES_COLUMNS, MAX_NAMES_COLUMNS);
            let x = self.main.x + list + 2;
            self.beside = Some(Rect { x, width: self.main.right() - x, ..self.main });
            self.main.width = list;
        }
        self
    }

    /// The rule between the pane and what is beside it.
    pub fn beside_divider(&self) -> Option<Rect> {
        self.beside.map(|beside| Rect { x: beside.x - 2, width: 1, ..self.main })
    }

    /// Region of an open screen: everything below the tabs and above the keys, and one row more,
    /// which screens leave free for messages or, where there is no row for those, for the keys.
    pub fn screen(&self) -> Rect {
        let top = self.rule.bottom();
        let bottom = self.bottom_rule.unwrap_or(self.footer).bottom();
        Rect { y: top, height: bottom.saturating_sub(top), ..self.whole }
    }

    /// The line of messages: the rule above the keys or, on a low screen, the one under the tabs.
    pub fn message(&self) -> Rect {
        self.bottom_rule.unwrap_or(self.rule)
    }

    /// The region under the mouse: server list or pane.
    pub fn region_at(&self, at: Position) -> Option<Rect> {
        [self.servers, Some(self.main)].into_iter().flatten().find(|area| area.contains(at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn regions_lie_inside_and_do_not_overlap(
            width in 0u16..300, height in 0u16..120, choice in proptest::option::of(any::<bool>()),
        ) {
            let whole = Rect::new(0, 0, width, height);
            let Some(layout) = Layout::compute(whole, choice) else {
                prop_assert!(width < MIN_SCREEN_CELLS.0 || height < MIN_SCREEN_CELLS.1);
                return Ok(());
            };
            let regions: Vec<Rect> = [layout.header, layout.tabs, layout.rule, layout.main, layout.footer]
                .into_iter()
                .chain([layout.servers, layout.divider, layout.bottom_rule].into_iter().flatten())
                .collect();
            let open = layout.with_beside();
            if let Some((beside, divider)) = open.beside.zip(open.beside_divider()) {
                prop_assert_eq!(beside.union(open.main), layout.main);
                prop_assert!(!beside.intersects(open.main) && !divider.intersects(open.main));
                prop_assert!(!beside.intersects(divider) && beside.width > open.main.width);
            }
            for (n, a) in regions.iter().enumerate() {
                prop_assert_eq!(a.intersection(whole), *a);
                prop_assert!(a.width > 0 && a.height > 0);
                for b in &regions[n + 1..] {
                    prop_assert!(!a.intersects(*b), "{:?} {:?}", a, b);
                }
            }
        }
    }
}
