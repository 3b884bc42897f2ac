//! The panels that are visible side by side: each has its title in the rule above it, and that of
//! the one with the keys is drawn heavier, so that it stands out without colour too.

use crate::context::Cx;
use crate::prelude::*;
use crate::widget::{Pen, width};
use terminal::browser::{BrowserPart, BrowserRegions};

/// A panel below the rule that has its title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Its region; the rule is the row above.
    pub area: Rect,
    pub title: Ink,
    /// Whether the keys are for it.
    pub focused: bool,
}

/// How a pane is divided: its list, and the detail beside or below it, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    pub list: Rect,
    pub detail: Option<Rect>,
    /// Whether the detail has the focus.
    pub in_detail: bool,
}

impl Panel {
    pub const fn new(area: Rect, title: Ink, focused: bool) -> Self {
        Self { area, title, focused }
    }
}

impl Division {
    /// A pane without a detail.
    pub const fn whole(area: Rect) -> Self {
        Self { list: area, detail: None, in_detail: false }
    }

    /// That of a list with a detail, which is a panel only beside the list.
    pub fn from_browser(regions: &BrowserRegions, part: BrowserPart, area: Rect) -> Self {
        match (regions.divider, regions.detail) {
            (Some(divider), Some(detail)) => Self {
                list: Rect { width: divider.x.saturating_sub(area.x), ..area },
                detail: Some(detail),
                in_detail: part == BrowserPart::Detail,
            },
            _ => Self::whole(area),
        }
    }

    /// Its panels; the list has this title.
    pub fn panels(self, title: Ink) -> Vec<Panel> {
        let mut out = vec![Panel::new(self.list, title, !self.in_detail)];
        out.extend(self.detail.map(|area| Panel::new(area, ink!("detail"), self.in_detail)));
        out
    }
}

/// Draws the titles of panels, when there are several.
pub fn draw_titles(cx: &Cx<'_>, panels: &[Panel], buf: &mut Buffer) {
    if panels.len() < 2 {
        return;
    }
    for Panel { area, title, focused } in panels {
        let Some(y) = area.y.checked_sub(1) else { continue };
        // The margin of the panel belongs to its rule.
        let margin = area.x.min(1);
        let row = Rect { x: area.x - margin, y, width: area.width + margin, height: 1 };
        let row = row.intersection(buf.area);
        let focused = *focused && cx.focused;
        let (sign, rule, words) = if focused {
            (cx.glyphs.heavy, cx.style(Role::Accent), cx.style(Role::Accent))
        } else {
            (cx.glyphs.horizontal, cx.style(Role::Rule), cx.style(Role::Muted))
        };
        let mut pen = Pen::new(buf, row).ellipsis(cx.glyphs.ellipsis);
        pen.rule(sign, rule);
        if row.width > width(title) + 4 {
            pen.column(1).fresh(width(title) + 2, cx.style(Role::Text));
            pen.put(" ", words).put(title, words).put(" ", words);
        }
    }
}
