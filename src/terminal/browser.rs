//! A list with a detail beside or over it, as in most panes. Owns selection, scroll, filter line
//! and focus; the pane supplies rows, row painter and detail.

use crate::doc::{Doc, DocView};
use crate::gesture::Gesture;
use crate::list::{BrowseAction, ListState, ToBrowse};
use crate::look::Look;
use crate::parts::{filter_line, scroll_bar, vertical_rule};
use crate::pen::Pen;
use crate::prelude::*;
use crate::text_input::TextInput;

/// Which part of a pane has the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowserPart {
    #[default]
    List,
    Detail,
}

/// How the pane's region is divided. Pure: the same for update and render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrowserRegions {
    /// Summary or filter line; empty when the detail covers the list.
    pub head: Rect,
    /// Column titles.
    pub columns: Rect,
    /// Rows; empty when the detail covers the list.
    pub list: Rect,
    /// Rule between list and detail.
    pub divider: Option<Rect>,
    /// The detail, when it is shown.
    pub detail: Option<Rect>,
}

/// Width from which list and detail are side by side.
const MIN_SPLIT_COLUMNS: u16 = 88;

/// Which of a list and its detail is shown, and which has the focus.
#[derive(Clone, Copy, Debug, Default)]
pub struct Split {
    /// Which part has the focus.
    pub part: BrowserPart,
    /// Whether the detail covers the list on a narrow screen.
    opened: bool,
    /// Whether the detail is hidden beside the list on a wide one.
    alone: bool,
}

impl Split {
    /// Whether both are shown in `area`.
    pub const fn is_beside(self, area: Rect) -> bool {
        area.width >= MIN_SPLIT_COLUMNS && !self.alone
    }

    /// The first `share` columns, the rule after them, and the rest.
    pub const fn beside(area: Rect, share: u16) -> [Rect; 3] {
        let x = area.x + share + 2;
        [
            Rect { width: share, ..area },
            Rect { x: area.x + share, width: 1, ..area },
            Rect { x, width: area.right() - x, ..area },
        ]
    }

    /// How `area` is divided; beside a detail the list has `share` columns.
    pub fn regions(self, area: Rect, share: u16) -> BrowserRegions {
        let (list, divider, detail) = if self.is_beside(area) {
            let [list, divider, detail] = Self::beside(area, share);
            (list, Some(divider), Some(detail))
        } else if self.opened {
            (Rect { width: 0, height: 0, ..area }, None, Some(area))
        } else {
            (area, None, None)
        };
        let head = Rect { height: list.height.min(1), ..list };
        let columns = Rect { y: list.y + head.height, height: (list.height > 3).into(), ..list };
        let used = head.height + columns.height;
        let list = Rect { y: list.y + used, height: list.height.saturating_sub(used), ..list };
        BrowserRegions { head, columns, list, divider, detail }
    }

    /// Focuses the detail, which covers the whole area if it does not fit beside the list.
    pub fn open(&mut self, area: Rect) {
        self.opened = !self.is_beside(area);
        self.part = BrowserPart::Detail;
    }

    /// Returns to the list.
    pub fn close(&mut self) {
        (self.opened, self.part) = (false, BrowserPart::List);
    }

    /// Leaves the detail, or shows or hides it beside the list; returns whether the action was one
    /// of these and had an effect.
    pub fn act(&mut self, action: impl ToBrowse) -> bool {
        match action.to_browse() {
            Some(BrowseAction::ToggleDetail) => {
                self.alone = !self.alone;
                self.part = BrowserPart::List;
            }
            Some(BrowseAction::Left | BrowseAction::Back)
                if self.part == BrowserPart::Detail || self.opened =>
            {
                self.close();
            }
            _ => return false,
        }
        true
    }

    /// Moves the focus from the list to the detail beside it; returns whether there is one.
    pub fn focus_next(&mut self, area: Rect) -> bool {
        let inside = self.part == BrowserPart::List && self.is_beside(area);
        self.part = if inside { BrowserPart::Detail } else { BrowserPart::List };
        inside
    }
}

/// A list, its filter and its detail.
#[derive(Clone, Debug)]
pub struct Browser<I> {
    /// Selection and scroll.
    pub list: ListState<I>,
    /// Ids of the rows, in order, filtered.
    pub rows: Vec<I>,
    /// The filter line.
    pub filter: TextInput,
    /// What is shown, and what has the focus.
    pub split: Split,
    /// Cells the list can use; it gets them as long as the detail keeps enough.
    pub wants: u16,
    /// Whether the list may take more than half of a wide screen, down to a detail that is read; else
    /// the detail has room for more than text.
    pub is_for_reading: bool,
    pub detail: DocView,
}

impl<I> Default for Browser<I> {
    fn default() -> Self {
        Self {
            list: ListState::default(),
            rows: Vec::new(),
            filter: TextInput::default(),
            split: Split::default(),
            wants: 0,
            is_for_reading: false,
            detail: DocView::default(),
        }
    }
}

impl<I: Clone + PartialEq> Browser<I> {
    /// How `area` is divided.
    pub fn regions(&self, area: Rect) -> BrowserRegions {
        // Beside a detail, a list shows no less than it does alone on a small screen.
        let most = match area.width {
            0..=138 => area.width.saturating_sub(37),
            wide if self.is_for_reading => 101 + (wide - 138) / 2,
            wide => 52 + (wide - 139) / 2,
        };
        let least = (area.width / 2).min(most);
        self.split.regions(area, self.wants.clamp(least, most))
    }

    /// Rows that fit the list.
    pub fn height(&self, area: Rect) -> usize {
        usize::from(self.regions(area).list.height)
    }

    /// Width of the detail's text; 0 when it is not shown.
    pub fn detail_width(&self, area: Rect) -> u16 {
        self.regions(area).detail.map_or(0, |detail| detail.width.saturating_sub(1))
    }

    /// Replaces the rows; selection and scroll follow.
    pub fn set_rows(&mut self, rows: Vec<I>, area: Rect) {
        self.rows = rows;
        self.sync(area);
    }

    /// Clamps selection and scroll to the rows.
    pub fn sync(&mut self, area: Rect) {
        let height = self.height(area);
        self.list.sync(&self.rows[..], height);
    }

    /// Replaces the detail; its scroll position is clamped.
    pub fn set_doc(&mut self, doc: Doc, area: Rect) {
        self.detail.doc = doc;
        self.scroll_detail(0, area);
    }

    /// Describes the selected row in the detail, if that is shown.
    pub fn describe(&mut self, area: Rect, of: impl FnOnce(Option<&I>, &mut Doc)) {
        let width = self.detail_width(area);
        if width > 0 {
            let mut doc = Doc::new(width);
            of(self.selected(), &mut doc);
            self.set_doc(doc, area);
        }
    }

    fn scroll_detail(&mut self, delta: isize, area: Rect) {
        self.detail.scroll(delta, self.regions(area).detail.map_or(0, |detail| detail.height));
    }

    /// The selected id.
    pub const fn selected(&self) -> Option<&I> {
        self.list.selected()
    }

    /// Handles the actions common to all lists; returns whether the action was one of these.
    pub fn act(&mut self, action: impl ToBrowse, area: Rect) -> bool {
        let Some(action) = action.to_browse() else { return false };
        let regions = self.regions(area);
        let in_detail = regions.detail.filter(|_| self.split.part == BrowserPart::Detail);
        if let Some(delta) = in_detail.and_then(|detail| action.steps(detail.height as isize - 1)) {
            self.scroll_detail(delta, area);
            return true;
        }
        if let Some(delta) = action.steps(regions.list.height.max(2) as isize - 1) {
            self.step(delta, area);
            return true;
        }
        match action {
            BrowseAction::Open | BrowseAction::Right if !self.rows.is_empty() => {
                self.split.open(area);
            }
            BrowseAction::Filter => {
                self.filter.begin();
                self.split.close();
            }
            BrowseAction::ClearFilter => self.filter.set(""),
            action if self.split.act(action) => {}
            BrowseAction::Back if !self.filter.text().is_empty() => self.filter.set(""),
            _ => return false,
        }
        true
    }

    /// Moves the selection.
    pub fn step(&mut self, delta: isize, area: Rect) {
        let before = self.list.index();
        let height = self.height(area);
        self.list.step(delta, &self.rows[..], height);
        if self.list.index() != before {
            self.detail.top = 0;
        }
    }

    /// Handles the mouse; returns whether a row was opened by a double click.
    pub fn mouse(&mut self, gesture: Gesture, area: Rect) -> bool {
        let regions = self.regions(area);
        let inside = |r: Rect| r.contains(gesture.position());
        let in_detail = regions.detail.is_some_and(inside);
        match gesture {
            Gesture::Scroll { delta, .. } if in_detail => self.scroll_detail(delta, area),
            Gesture::Click(_) if in_detail => self.split.part = BrowserPart::Detail,
            Gesture::Click(_) if inside(regions.head) => self.filter.begin(),
            _ => {
                let before = self.list.index();
                let clicked = self.list.mouse(gesture, &self.rows[..], regions.list);
                if clicked {
                    self.split.part = BrowserPart::List;
                }
                if self.list.index() != before {
                    self.detail.top = 0;
                }
                return clicked && matches!(gesture, Gesture::DoubleClick(_));
            }
        }
        false
    }

    /// Draws head line, divider and detail; the pane draws the rows.
    pub fn render_frame(
        &self,
        look: &Look<'_>,
        summary: &Ink,
        total: usize,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let regions = self.regions(area);
        self.render_head(look, summary, total, regions.head, buf);
        if let Some(divider) = regions.divider {
            vertical_rule(look, divider, buf);
        }
        if let Some(detail) = regions.detail {
            self.detail.render(look, detail, buf);
        }
        scroll_bar(look, self.rows.len(), self.list.top(), regions.list, buf);
    }

    fn render_head(
        &self,
        look: &Look<'_>,
        summary: &Ink,
        total: usize,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let typed = self.filter.text();
        if !area.is_empty() && !self.filter.editing && typed.is_empty() {
            Pen::new(buf, area)
                .ellipsis(look.glyphs.ellipsis)
                .put(summary, look.style(Role::Muted));
        } else if !area.is_empty() {
            let right = [(ink!("{} of {} ", self.rows.len(), total), Role::Muted)];
            let text = (Ink::line(typed), Role::Text);
            filter_line(look, &self.filter, text, &right, (area, buf));
        }
    }

    /// Draws the visible rows through `paint`, which gets a pen after the cursor column, the id and
    /// the base style of the row.
    pub fn render_rows(
        &self,
        look: &Look<'_>,
        area: Rect,
        buf: &mut Buffer,
        mut paint: impl FnMut(&mut Pen<'_>, &I),
    ) {
        let area = self.regions(area).list;
        let style = look.selection(self.split.part == BrowserPart::List);
        self.list
            .render(look, &self.rows[..], (area, style), buf, |pen, n| paint(pen, &self.rows[n]));
    }
}
