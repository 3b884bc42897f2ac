//! The whole screen: header, tabs, server list, pane, footer, overlays. Draws into a buffer and
//! does nothing else.

use ratatui::widgets::{Clear, Widget};

use super::{App, Focus};
use crate::host::ServerState;
use crate::tui::keymap::Scope;
use crate::tui::layout::{Layout, SMALLEST};
use crate::tui::model::EngineState;
use crate::tui::pane::{Cx, PaneId};
use crate::tui::prelude::*;
use crate::tui::widget::{Pen, width};

/// States, as the header counts them.
const STATES: [ServerState; 7] = [
    ServerState::Ready,
    ServerState::Starting,
    ServerState::Waiting,
    ServerState::Sleeping,
    ServerState::Unavailable,
    ServerState::Shutdown,
    ServerState::Disabled,
];

type FooterItem = (String, Ink, Action, std::ops::Range<u16>);

impl App {
    /// Draws the screen.
    pub fn render(&self, area: Rect, buf: &mut Buffer) {
        self.render_screen(area, buf);
        self.render_drag(buf);
        if self.setup.ascii {
            for cell in &mut buf.content {
                if cell.symbol() == "µ" {
                    cell.set_symbol("u");
                }
            }
        }
    }

    fn render_screen(&self, area: Rect, buf: &mut Buffer) {
        let cx = self.cx(self.overlays.is_empty());
        buf.set_style(area, cx.style(Role::Text));
        let Some(layout) = Layout::compute(area, self.setup.prefs.server_list) else {
            return too_small(&cx, area, buf);
        };
        self.render_header(&cx, layout.header, buf);
        self.render_tabs(&cx, layout.tabs, buf);
        let rule = cx.style(Role::Rule);
        if let Some(screen) = self.screen() {
            Pen::new(buf, layout.rule).rule(cx.glyphs.horizontal, rule);
            let place = layout.screen();
            let (key, word) = (cx.style(Role::Key), cx.style(Role::Muted));
            screen.key_line(&self.keymap).render(screen.key_area(place), buf, key, word);
            screen.render(&cx, place, buf);
            if self.toast.is_some() {
                Clear.render(layout.footer, buf);
                self.render_footer(&cx, layout.footer, buf);
            }
            return self.render_overlays(&cx, area, buf);
        }
        Pen::new(buf, layout.rule).rule(cx.glyphs.horizontal, rule);
        if let Some(bottom) = layout.bottom_rule {
            Pen::new(buf, bottom).rule(cx.glyphs.horizontal, rule);
        }
        if let (Some(servers), Some(divider)) = (layout.servers, layout.divider) {
            let column = divider.x - layout.whole.x;
            Pen::new(buf, layout.rule).column(column).clip(cx.glyphs.tee_down, 1, rule);
            if let Some(bottom) = layout.bottom_rule {
                Pen::new(buf, bottom).column(column).clip(cx.glyphs.tee_up, 1, rule);
            }
            crate::tui::widget::vertical_rule(&cx, divider, buf);
            let here = Cx { focused: cx.focused && self.focus == Focus::Servers, ..cx };
            self.servers.render(&here, servers, buf);
        }
        super::incoming::render(&cx, layout.rule, buf);
        let here = Cx { focused: cx.focused && self.focus == Focus::Pane, ..cx };
        self.panes.get(self.pane).render(&here, layout.main, buf);
        self.render_footer(&cx, layout.footer, buf);
        self.render_overlays(&cx, area, buf);
    }

    fn render_overlays(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        for (depth, overlay) in self.overlays.iter().enumerate() {
            let top = depth + 1 == self.overlays.len();
            overlay.render(&Cx { focused: top, ..*cx }, area, buf);
        }
    }

    pub(super) fn cx(&self, focused: bool) -> Cx<'_> {
        Cx {
            model: &self.model,
            theme: &self.theme,
            glyphs: self.glyphs,
            keymap: &self.keymap,
            graphics: self.setup.graphics.graphics(),
            focused,
        }
    }

    fn render_header(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let mut right = Vec::new();
        match &self.model.engine {
            EngineState::Stopping(since) => {
                let text = ink!("stopping the servers {}", self.model.elapsed(*since));
                right.push((text, Role::Busy));
            }
            EngineState::Failed(_) => right.push((ink!("not running"), Role::Error)),
            _ => {
                let servers = &self.model.view.servers;
                for state in STATES {
                    let count = servers.values().filter(|one| one.state == state).count();
                    if count > 0 {
                        let role =
                            if state == ServerState::Ready { Role::Muted } else { Role::of(state) };
                        let word =
                            if state == ServerState::Unavailable { "down" } else { state.as_str() };
                        right.push((ink!("{} {}", count, word), role));
                    }
                }
            }
        }
        let left_out = self.model.left_out().len();
        if left_out > 0 {
            right.push((ink!("{} left out", left_out), Role::Error));
        }
        if let Some(problem) = &self.user_problem {
            // File and line; the help has the whole sentence.
            let at = problem.as_str().find(": ").unwrap_or(problem.as_str().len());
            let place = crate::tui::ink::Piece::of(problem, 0, at);
            right.push((ink!("{} {}", self.glyphs.warning, place), Role::Warning));
        }
        super::incoming::marks(cx, &mut right);
        if !self.model.marked.is_empty() {
            right.push((ink!("{} marked", self.model.marked.len()), Role::Accent));
        }
        let waiting = self.model.inbox().count();
        if waiting > 0 {
            right.push((ink!("{} {} waiting", cx.glyphs.hand, waiting), Role::Attention));
        }
        let dot = ink!(" {} ", cx.glyphs.dot);
        let total: u16 = right.iter().map(|(text, _)| width(text) + 3).sum();
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.put(" mcpdeck", cx.style(Role::Accent)).skip(2);
        let room = pen.room().saturating_sub(total + 1);
        pen.clip(self.source(), room, cx.style(Role::Muted));
        pen.column(area.width.saturating_sub(total + 1).max(pen.position()));
        for (n, (text, role)) in right.iter().enumerate() {
            if n > 0 {
                pen.put(&dot, cx.style(Role::Faint));
            } else {
                pen.skip(3);
            }
            pen.put(text, cx.style(*role));
        }
    }

    /// Where the configuration comes from and how it stands.
    fn source(&self) -> Ink {
        let view = &self.model.view;
        if let Some(playback) = &self.model.playback {
            return Ink::from(&playback.name);
        }
        let Some(file) = view.files.first() else {
            return if self.setup.tour { ink!("demo") } else { ink!("") };
        };
        let home = self.setup.home.as_deref();
        let shown = match home.and_then(|home| file.strip_prefix(home).ok()) {
            Some(rest) => format!("~/{}", rest.display()),
            None => file.display().to_string(),
        };
        let more = view.files.len() - 1;
        let mut text = Ink::line(&shown);
        if more > 0 {
            text.push(ink!(" and {} more", more));
        }
        if self.model.rejected().next().is_some() {
            text.push(ink!(" {} newer file has errors  ", self.glyphs.warning));
            text.push(self.keymap.spelled(&[Scope::Global], "{show-config} shows them"));
        }
        text
    }

    /// Labels of the tabs, and the blank columns after each: counts go first where there is little
    /// room, then names are cut.
    fn tab_labels(&self, room: u16) -> (Vec<(PaneId, Ink)>, u16) {
        let labels = |all_badges, title: fn(PaneId) -> &'static str, blank| -> Vec<(PaneId, Ink)> {
            let label = |pane: PaneId| {
                let asks = matches!(pane, PaneId::Logs | PaneId::Inbox | PaneId::Config);
                let badge = if all_badges || asks { self.badge(pane) } else { Ink::default() };
                let gap = if badge.as_str().is_empty() { "" } else { " " };
                (pane, ink!("{}{}{}{}{}", pane.digit(), blank, title(pane), gap, badge))
            };
            PaneId::ALL.into_iter().map(label).collect()
        };
        for (all_badges, title, blank, gap) in [
            (true, PaneId::name as fn(PaneId) -> &'static str, " ", 2),
            (false, PaneId::name, " ", 2),
            (false, PaneId::name, " ", 1),
            (false, PaneId::short, "", 1),
        ] {
            let labels = labels(all_badges, title, blank);
            if labels.iter().map(|(_, text)| width(text) + gap).sum::<u16>() <= room {
                return (labels, gap);
            }
        }
        let label = |pane: PaneId| match pane {
            _ if pane == self.pane => ink!("{} {}", pane.digit(), pane.name()),
            _ => ink!("{}", pane.digit()),
        };
        let labels: Vec<_> = PaneId::ALL.into_iter().map(|pane| (pane, label(pane))).collect();
        let total: u16 = labels.iter().map(|(_, text)| width(text) + 2).sum();
        (labels, if total <= room { 2 } else { 1 })
    }

    /// Tabs with the columns they take.
    fn tabs(&self, area: Rect) -> Vec<(PaneId, Ink, std::ops::Range<u16>)> {
        let (labels, gap) = self.tab_labels(area.width);
        let mut x = area.x + 1;
        labels
            .into_iter()
            .map(|(pane, text)| {
                let start = x;
                x += width(&text) + gap;
                (pane, text, start..x)
            })
            .collect()
    }

    pub(super) fn tab_at(&self, x: u16) -> Option<PaneId> {
        let tabs = self.tabs(self.layout()?.tabs);
        tabs.into_iter().find(|(_, _, columns)| columns.contains(&x)).map(|(pane, ..)| pane)
    }

    fn render_tabs(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        for (pane, text, columns) in self.tabs(area) {
            let role = match pane {
                _ if pane == self.pane => Role::Accent,
                PaneId::Inbox if self.model.inbox().next().is_some() => Role::Attention,
                _ => Role::Muted,
            };
            let mut style = cx.style(role);
            if pane == self.pane {
                style = style.add_modifier(ratatui::style::Modifier::UNDERLINED);
            }
            Pen::new(buf, area).column(columns.start - area.x).put(text, style);
        }
    }

    fn badge(&self, pane: PaneId) -> Ink {
        let view = &self.model.view;
        let sum = |count: fn(&crate::mcp::Capabilities) -> usize| {
            self.model.servers().map(|server| count(&server.capabilities)).sum::<usize>()
        };
        let count = match pane {
            PaneId::Tools => sum(|c| c.tools.len()),
            PaneId::Resources => sum(|c| c.resources.len() + c.templates.len()),
            PaneId::Prompts => sum(|c| c.prompts.len()),
            PaneId::Cache => self.model.cache.entries.len(),
            PaneId::Inbox => self.model.inbox().count(),
            PaneId::Logs if self.model.unseen_errors > 0 => {
                return ink!("{}{}", self.glyphs.warning, self.model.unseen_errors);
            }
            PaneId::Config => {
                let problems = view.diagnostics.len() + self.model.rejected().count();
                return if problems > 0 {
                    ink!("{}{}", self.glyphs.warning, problems)
                } else {
                    ink!("")
                };
            }
            _ => 0,
        };
        if count > 0 { ink!("{}", count) } else { ink!("") }
    }

    /// Keys of the footer with the columns they take. Those that help everywhere keep their place
    /// at the end; the others are shown as far as there is room.
    fn footer_items(&self, area: Rect) -> Vec<FooterItem> {
        let keys = self.footer_keys();
        let needed = |item: &(String, Ink, Action)| width(&Ink::line(&item.0)) + width(&item.1) + 4;
        let keeps = |action| matches!(action, Action::Palette | Action::Help | Action::Quit);
        let reserved: u16 = keys.iter().filter(|k| keeps(k.2)).map(needed).sum();
        let limit = area.right().saturating_sub(reserved);
        let mut x = area.x + 1;
        let mut items = Vec::new();
        for key in keys {
            let width = needed(&key);
            let (key, label, action) = key;
            if action == Action::Quit {
                x = x.max(area.right().saturating_sub(width));
            } else if !keeps(action) && x + width > limit {
                continue;
            }
            items.push((key, label, action, x..x + width));
            x += width;
        }
        items
    }

    pub(super) fn footer_at(&self, x: u16) -> Option<Action> {
        if self.toast.is_some() {
            return None;
        }
        let footer = self.layout()?.footer;
        let items = self.footer_items(footer);
        items.into_iter().find(|(.., columns)| columns.contains(&x)).map(|(_, _, action, _)| action)
    }

    fn render_footer(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if let Some((_, toast)) = &self.toast {
            let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
            pen.skip(1).put(&toast.text, cx.style(toast.role));
            return;
        }
        for (key, label, _, columns) in self.footer_items(area) {
            let mut pen = Pen::new(buf, area);
            pen.column(columns.start - area.x).put(Ink::line(&key), cx.style(Role::Key));
            pen.skip(1).put(label, cx.style(Role::Muted));
        }
    }
}

fn too_small(cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area);
    pen.put(ink!("{}x{} is too small", area.width, area.height), cx.style(Role::Warning));
    pen.at(0, 1).put(ink!("at least {}x{}", SMALLEST.0, SMALLEST.1), cx.style(Role::Muted));
    pen.at(0, 2).put(cx.spelled(&[Scope::Global], "{quit} quits"), cx.style(Role::Muted));
}
