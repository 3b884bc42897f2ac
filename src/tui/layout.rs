//! Where things are on the screen: one pure function, asked by update (page sizes, mouse) and by
//! render.

use ratatui::layout::{Position, Rect};

/// The regions of the whole screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The whole.
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
    /// Rule above the footer, where there is room for one.
    pub bottom_rule: Option<Rect>,
    /// Keys, or a message.
    pub footer: Rect,
}

/// Smallest screen on which something useful is drawn.
pub const SMALLEST: (u16, u16) = (40, 10);
/// Width from which the server list is shown unless it was hidden.
pub const ROOM_FOR_SERVERS: u16 = 100;

impl Layout {
    /// Divides `whole`. `server_list` is the person's choice; `None` leaves it to the width. Gives
    /// nothing when the screen is too small.
    pub fn compute(whole: Rect, server_list: Option<bool>) -> Option<Self> {
        if whole.width < SMALLEST.0 || whole.height < SMALLEST.1 {
            return None;
        }
        let row = |y: u16| Rect { y: whole.y + y, height: 1, ..whole };
        let bottom_rule = (whole.height >= 20).then(|| row(whole.height - 2));
        let body_end = whole.height - 1 - u16::from(bottom_rule.is_some());
        let body = Rect { y: whole.y + 3, height: body_end - 3, ..whole };
        let shown = server_list.unwrap_or(whole.width >= ROOM_FOR_SERVERS);
        let wide = match whole.width {
            0..60 => 0,
            60..100 => 20,
            100..160 => 26,
            _ => 34,
        };
        let (servers, divider, main) = if shown && wide > 0 {
            let main_x = body.x + wide + 1;
            (
                Some(Rect { width: wide, ..body }),
                Some(Rect { x: body.x + wide, width: 1, ..body }),
                Rect { x: main_x + 1, width: body.right() - main_x - 1, ..body },
            )
        } else {
            (None, None, Rect { x: body.x + 1, width: body.width - 1, ..body })
        };
        Some(Self {
            whole,
            header: row(0),
            tabs: row(1),
            rule: row(2),
            servers,
            divider,
            main,
            bottom_rule,
            footer: row(whole.height - 1),
        })
    }

    /// Where an open screen is: everything between the tabs and the end.
    pub fn screen(&self) -> Rect {
        let top = self.rule.bottom();
        Rect { y: top, height: self.whole.bottom().saturating_sub(top), ..self.whole }
    }

    /// The region of servers or pane under the mouse.
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
                prop_assert!(width < SMALLEST.0 || height < SMALLEST.1);
                return Ok(());
            };
            let regions: Vec<Rect> = [layout.header, layout.tabs, layout.rule, layout.main, layout.footer]
                .into_iter()
                .chain([layout.servers, layout.divider, layout.bottom_rule].into_iter().flatten())
                .collect();
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
