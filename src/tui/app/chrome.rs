//! The frame around the panes: header, tabs, footer. Draws them and finds what is at a position;
//! changes nothing.

use std::ops::Range;
use std::path::Path;

use super::playback;
use crate::glyph::Glyphs;
use crate::keymap::KeyScope;
use crate::layout::{Layout, MIN_SCREEN_CELLS};
use crate::model::EngineState;
use crate::pane::{Cx, PaneId, TABS};
use crate::prelude::*;
use crate::widget::{Pen, width};
use host::ServerState;
use ratatui::style::Modifier;

/// The states counted in the header, in this order.
const STATES: [ServerState; 7] = [
    ServerState::Ready,
    ServerState::Starting,
    ServerState::Waiting,
    ServerState::Sleeping,
    ServerState::Unavailable,
    ServerState::Shutdown,
    ServerState::Disabled,
];

/// Width of the product's name in the header, in cells.
const NAME_COLUMNS: u16 = 9;

/// A footer item: key, label and action.
pub(super) type FooterKey = (String, Ink, Action);

/// Draws the first line: the source of the configuration and a summary of states.
pub(super) fn header(
    cx: &Cx<'_>,
    source: Ink,
    problem: Option<&Ink>,
    area: Rect,
    buf: &mut Buffer,
) {
    let mut right = Vec::new();
    match &cx.model.engine {
        EngineState::Stopping(since) => {
            let text = ink!("stopping the servers {}", cx.model.elapsed(*since));
            right.push((text, Role::Busy));
        }
        EngineState::Failed(_) => right.push((ink!("not running"), Role::Error)),
        EngineState::Starting | EngineState::Running => {
            let servers = &cx.model.view.servers;
            for state in STATES {
                let count = servers.values().filter(|one| one.state == state).count();
                if count > 0 {
                    let role =
                        if state == ServerState::Ready { Role::Muted } else { state_role(state) };
                    right.push((ink!("{} {}", count, state_word(state)), role));
                }
            }
        }
    }
    let left_out = cx.model.left_out().len();
    if left_out > 0 {
        right.push((ink!("{} left out", left_out), Role::Error));
    }
    if let Some(problem) = problem {
        // File and line only; the help shows the whole message.
        let at = problem.as_str().find(": ").unwrap_or(problem.as_str().len());
        let place = terminal::ink::InkSlice::new(problem, 0, at);
        right.push((ink!("{} {}", cx.glyphs.warning, place), Role::Warning));
    }
    playback::marks(cx, &mut right);
    if !cx.model.marked.is_empty() {
        right.push((ink!("{} marked", cx.model.marked.len()), Role::Accent));
    }
    let waiting = cx.model.inbox().count();
    if waiting > 0 {
        right.push((ink!("{} {} waiting", cx.glyphs.hand, waiting), Role::Attention));
    }
    let dot = ink!(" {} ", cx.glyphs.dot);
    let wide = |right: &[(Ink, Role)]| right.iter().map(|(text, _)| width(text) + 3).sum::<u16>();
    // The last marks matter most: the first ones are dropped when there is no room.
    while right.len() > 1 && wide(&right) + NAME_COLUMNS > area.width {
        right.remove(0);
    }
    let total = wide(&right);
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    pen.put(" mcpdeck", cx.style(Role::Accent)).skip(2);
    let room = pen.room().saturating_sub(total + 1);
    pen.clip(source, room, cx.style(Role::Muted));
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

/// Where the configuration comes from, and whether a newer file was rejected.
pub(super) fn source(cx: &Cx<'_>, home: Option<&Path>, demo: Option<&'static str>) -> Ink {
    let view = &cx.model.view;
    if let Some(playback) = &cx.model.playback {
        return Ink::from(&playback.name);
    }
    let Some(file) = view.files.first() else {
        return ink!("{}", demo.unwrap_or_default());
    };
    let shown = match home.and_then(|home| file.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => file.display().to_string(),
    };
    let more = view.files.len() - 1;
    let mut text = Ink::line(&shown);
    if more > 0 {
        text.push(ink!(" and {} more", more));
    }
    if cx.model.rejected().next().is_some() {
        text.push(ink!(" {} newer file has errors  ", cx.glyphs.warning));
        text.push(cx.keymap.spelled(&[KeyScope::Global], "{show-config} shows them"));
    }
    text
}

/// A tab that is there while it is used.
pub(super) struct SideTab {
    /// What opens it.
    pub(super) action: Action,
    /// Its name with the key, and the key alone.
    pub(super) labels: [Ink; 2],
}

/// The tabs that are shown: those of the panes, and those of screens while they are used.
pub(super) struct TabLine {
    /// The current pane.
    pub(super) pane: PaneId,
    /// What is used besides the panes.
    pub(super) sides: Vec<SideTab>,
    /// Which of those is open.
    pub(super) open: Option<Action>,
}

/// Labels of the tabs and the blank columns after each. When room is short, counts are dropped
/// first, then names are shortened. A tab of several panes names those in use: prompts where there is
/// room, the others while they are shown. `asides` are the columns of the other tabs, with and without
/// their names.
fn tab_labels(
    cx: &Cx<'_>,
    current: PaneId,
    room: u16,
    asides: [u16; 2],
) -> (Vec<(PaneId, Ink)>, u16) {
    let label = |pane: PaneId, shortness: u8| {
        let asks = matches!(pane, PaneId::Logs | PaneId::Inbox | PaneId::Config);
        let badge = if shortness == 0 || asks { badge(cx, pane) } else { Ink::default() };
        let gap = if badge.as_str().is_empty() { "" } else { " " };
        let (digit, blank) = match pane.digit() {
            Some(digit) if shortness < 2 || pane == current => (digit, " "),
            Some(digit) => (digit, ""),
            // A view of the tab before it: its name must not look like that of a key and a tab.
            None => (cx.glyphs.dot, " "),
        };
        match shortness {
            0 | 1 => ink!("{}{}{}{}{}", digit, blank, pane.name(), gap, badge),
            2 => ink!("{}{}{}{}{}", digit, blank, pane.short(), gap, badge),
            _ if pane == current => ink!("{}{}{}", digit, blank, pane.name()),
            _ => ink!("{}", digit),
        }
    };
    let labels = |shortness, has_prompts: bool| {
        let named = move |pane: &PaneId| {
            pane.digit().is_some() || *pane == current || *pane == PaneId::Prompts && has_prompts
        };
        let panes = TABS.iter().flat_map(|(_, panes)| panes.iter().copied().filter(named));
        panes.map(|pane| (pane, label(pane, shortness))).collect::<Vec<_>>()
    };
    let fits = |(shortness, has_prompts, gap, aside): &(u8, bool, u16, usize)| {
        let labels = labels(*shortness, *has_prompts);
        let used = labels.iter().map(|(_, text)| width(text) + gap).sum::<u16>();
        used + asides[*aside] <= room
    };
    let ways = [
        (0, true, 2, 0),
        (1, true, 2, 0),
        (1, true, 1, 0),
        (1, false, 1, 0),
        (1, false, 1, 1),
        (2, false, 1, 1),
        (3, false, 2, 1),
    ];
    let (shortness, has_prompts, gap, _) = ways.into_iter().find(fits).unwrap_or((3, false, 1, 1));
    (labels(shortness, has_prompts), gap)
}

/// Tabs with the columns they occupy, each with the action that shows it. Panes of one tab are
/// closer to each other than two tabs.
fn placed_tabs(cx: &Cx<'_>, line: &TabLine, area: Rect) -> Vec<(Action, Ink, Range<u16>)> {
    let aside =
        |short: usize| line.sides.iter().map(|side| width(&side.labels[short]) + 2).sum::<u16>();
    let (labels, gap) = tab_labels(cx, line.pane, area.width, [aside(0), aside(1)]);
    let used = labels.iter().map(|(_, text)| width(text) + gap).sum::<u16>();
    let short = usize::from(used + aside(0) > area.width);
    let mut x = area.x + 1;
    let mut placed: Vec<(Action, Ink, Range<u16>)> = Vec::with_capacity(labels.len());
    for (pane, text) in labels {
        if pane.digit().is_none() {
            x = x.saturating_sub(gap - 1);
        }
        let start = x;
        x += width(&text) + gap;
        placed.push((pane.action(), text, start..x));
    }
    for side in &line.sides {
        let (start, text) = (x, side.labels[short].clone());
        x += width(&text) + gap;
        if x <= area.right() + gap {
            placed.push((side.action, text, start..x));
        }
    }
    placed
}

/// What shows the tab at this column.
pub(super) fn tab_at(cx: &Cx<'_>, line: &TabLine, area: Rect, x: u16) -> Option<Action> {
    let tabs = placed_tabs(cx, line, area);
    let mut tabs = tabs.into_iter().rev();
    tabs.find(|(_, _, columns)| columns.contains(&x)).map(|(action, ..)| action)
}

/// Draws the tabs.
pub(super) fn tabs(cx: &Cx<'_>, line: &TabLine, area: Rect, buf: &mut Buffer) {
    let current = line.open.unwrap_or_else(|| line.pane.action());
    for (action, text, columns) in placed_tabs(cx, line, area) {
        let asks = || action == Action::ShowInbox && cx.model.inbox().next().is_some();
        let role = if action == current {
            Role::Accent
        } else if asks() {
            Role::Attention
        } else {
            Role::Muted
        };
        let mut style = cx.style(role);
        if action == current {
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        Pen::new(buf, area).column(columns.start - area.x).put(&text, style);
        let is_key = text.as_str().starts_with(|c: char| c.is_ascii_alphanumeric() || c == '@');
        if is_key && role == Role::Muted {
            let key = Rect { x: columns.start, width: 1, ..area };
            let key_style = cx.style(Role::Key).remove_modifier(Modifier::DIM);
            buf.set_style(key.intersection(area), key_style);
        }
    }
}

fn badge(cx: &Cx<'_>, pane: PaneId) -> Ink {
    let view = &cx.model.view;
    let sum = |count: fn(&protocol::Capabilities) -> usize| {
        cx.model.servers().map(|server| count(&server.capabilities)).sum::<usize>()
    };
    let count = match pane {
        PaneId::Tools => sum(|c| c.tools.len()),
        PaneId::Resources => sum(|c| c.resources.len() + c.templates.len()),
        PaneId::Prompts => sum(|c| c.prompts.len()),
        PaneId::Cache => cx.model.cache.entries.len(),
        PaneId::Inbox => cx.model.inbox().count(),
        PaneId::Logs if !cx.model.unseen_errors.is_empty() => {
            return ink!("{}{}", cx.glyphs.warning, cx.model.unseen_errors.len());
        }
        PaneId::Config => {
            let problems = view.diagnostics.len() + cx.model.rejected().count();
            return if problems > 0 { ink!("{}{}", cx.glyphs.warning, problems) } else { ink!("") };
        }
        PaneId::Servers | PaneId::Tests | PaneId::Traffic | PaneId::Logs | PaneId::Metrics => 0,
    };
    if count > 0 { ink!("{}", count) } else { ink!("") }
}

/// Footer items with the columns they occupy. Palette, help and quit are always shown; the
/// others only as far as there is room.
fn footer_items(keys: Vec<FooterKey>, area: Rect) -> Vec<(FooterKey, Range<u16>)> {
    let needed = |item: &FooterKey| width(&Ink::line(&item.0)) + width(&item.1) + 4;
    let keeps = |action| matches!(action, Action::Palette | Action::Help | Action::Quit);
    let reserved: u16 = keys.iter().filter(|k| keeps(k.2)).map(needed).sum();
    let limit = area.right().saturating_sub(reserved);
    let mut x = area.x + 1;
    let mut items = Vec::new();
    for key in keys {
        let width = needed(&key);
        let action = key.2;
        if action == Action::Quit {
            x = x.max(area.right().saturating_sub(width));
        } else if !keeps(action) && x + width > limit {
            continue;
        }
        items.push((key, x..x + width));
        x += width;
    }
    items
}

/// The action of the footer item at this column.
pub(super) fn footer_at(keys: Vec<FooterKey>, area: Rect, x: u16) -> Option<Action> {
    let items = footer_items(keys, area);
    items.into_iter().find(|(_, columns)| columns.contains(&x)).map(|((_, _, action), _)| action)
}

/// Draws the last line: the keys that work now.
pub(super) fn footer(cx: &Cx<'_>, keys: Vec<FooterKey>, area: Rect, buf: &mut Buffer) {
    for ((key, label, _), columns) in footer_items(keys, area) {
        let mut pen = Pen::new(buf, area);
        pen.column(columns.start - area.x).put(Ink::line(&key), cx.style(Role::Key));
        pen.skip(1).put(label, cx.style(Role::Muted));
    }
}

/// Joins the rules above and below the pane with the vertical ones that meet them.
pub(super) fn join_rules(cx: &Cx<'_>, layout: &Layout, buf: &mut Buffer) {
    let Glyphs { horizontal, vertical, tee_down, tee_up, .. } = cx.glyphs;
    let below = (layout.rule, layout.rule.bottom(), *tee_down);
    let above = layout.bottom_rule.map(|rule| (rule, rule.y.saturating_sub(1), *tee_up));
    for (rule, beside, tee) in [Some(below), above].into_iter().flatten() {
        for x in rule.left()..rule.right() {
            if buf[(x, rule.y)].symbol() == *horizontal && buf[(x, beside)].symbol() == *vertical {
                buf[(x, rule.y)].set_symbol(tee);
            }
        }
    }
}

/// Draws the message for a terminal that is too small for anything else.
pub(super) fn too_small(cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area);
    pen.put(ink!("{}x{} is too small", area.width, area.height), cx.style(Role::Warning));
    pen.at(0, 1)
        .put(ink!("at least {}x{}", MIN_SCREEN_CELLS.0, MIN_SCREEN_CELLS.1), cx.style(Role::Muted));
    pen.at(0, 2).put(cx.spelled(&[KeyScope::Global], "{quit} quits"), cx.style(Role::Muted));
}
