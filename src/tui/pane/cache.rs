//! The cache: entries, lifetimes, hits, why entries were dropped; view an entry, drop it.

use crate::effect::Effect;
use crate::filter::contains;
use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::{Availability, Cx, Gesture, Out, Pane, Ui, when};
use crate::prelude::*;
use crate::widget::{Browser, Doc, Pen};
use host::CacheEntryView;

/// A row; compared by its key.
#[derive(Clone, Debug)]
struct CacheRow(CacheEntryView);

impl PartialEq for CacheRow {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

#[derive(Default)]
pub struct CachePane {
    browser: Browser<Arc<CacheRow>>,
    total: usize,
}

impl Pane for CachePane {
    fn scopes(&self) -> &'static [KeyScope] {
        &[KeyScope::Cache, KeyScope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        let needle = self.browser.filter.text().to_ascii_lowercase();
        let entries = ui.model.cache.entries.iter();
        let mut rows: Vec<Arc<CacheRow>> = entries
            .filter(|entry| ui.model.in_scope(&entry.key.server))
            .map(|entry| Arc::new(CacheRow(entry.clone())))
            .collect();
        self.total = rows.len();
        rows.retain(|row| contains(&row.0.label, &needle));
        self.browser.set_rows(rows, ui.area);
        self.browser.describe(ui.area, |row, doc| {
            if let Some(row) = row {
                detail(&row.0, ui.model, doc);
            }
            invalidated(ui.model, doc);
        });
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        let key = self.browser.selected().map(|row| row.0.key.clone());
        match (action, key) {
            (Action::Open, Some(key)) => out.effect(Effect::CacheContent(key)),
            (Action::DropEntry, Some(key)) => {
                out.effect(Effect::CacheDrop(Some(key)));
                out.say(ink!("dropped"));
            }
            (Action::DropAll, _) => {
                let entries = count(self.total, "entry");
                let lines = vec![ink!("{} dropped; fetched again when needed.", entries)];
                out.ask(ink!("clear the cache?"), lines, Effect::CacheDrop(None));
            }
            (Action::Copy, Some(key)) => out.copy(format!("{} {}", key.method, key.params)),
            (Action::CopyAll | Action::Save, _) => return false,
            _ => return self.browser.act(action, ui.area),
        }
        true
    }

    fn availability(&self, action: Action, _: &Model) -> Option<Availability> {
        match action {
            Action::DropAll => Some(when(self.total > 0, "the cache is empty")),
            Action::Open | Action::DropEntry | Action::Copy => {
                Some(when(!self.browser.rows.is_empty(), "nothing is selected"))
            }
            Action::Save | Action::CopyAll => Some(Err("open an entry first")),
            _ => None,
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        if self.browser.mouse(gesture, ui.area) {
            self.act(Action::Open, ui, out);
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let cache = &cx.model.cache;
        let asked = cache.hits + cache.misses;
        let rate = if asked == 0 { 0.0 } else { cache.hits as f64 * 100.0 / asked as f64 };
        let summary = ink!(
            "{}   {}  {}  ({:.0} %)   {} evicted",
            count(self.total, "entry"),
            count(cache.hits, "hit"),
            count(cache.misses, "miss"),
            rate,
            cache.evictions
        );
        self.browser.render_frame(cx, &summary, self.total, area, buf);
        let regions = self.browser.regions(area);
        let roomy = regions.list.width >= 64;
        let name = regions.list.width.saturating_sub(if roomy { 46 } else { 19 });
        let mut pen = Pen::new(buf, regions.columns);
        let faint = cx.style(Role::Faint);
        pen.skip(1).left("entry", name, faint).skip(1);
        if roomy {
            pen.left("kind", 10, faint).skip(1);
        }
        for title in if roomy { &["age", "left", "hits", "size"][..] } else { &["left", "size"] } {
            pen.right(*title, 7, faint).skip(1);
        }
        self.browser.render_rows(cx, area, buf, |pen, row| {
            let entry = &row.0;
            pen.middle(&entry.label, name, cx.style(Role::Text)).skip(1);
            if roomy {
                pen.left(kind(&entry.key.method), 10, cx.style(Role::Muted)).skip(1);
                pen.right(cx.model.ago(entry.stored), 7, cx.style(Role::Muted)).skip(1);
            }
            let (left, role) = left(entry, cx.model);
            pen.right(left, 7, cx.style(role)).skip(1);
            if roomy {
                pen.right(ink!("{}", entry.hits), 7, cx.style(Role::Text)).skip(1);
            }
            pen.right(ink!("{}", Bytes(entry.bytes as u64)), 7, cx.style(Role::Muted));
        });
        let text = ink!("The cache is empty; resources and prompts are cached when they are read");
        crate::widget::render_empty(&self.browser, cx, (&text, self.total), area, buf);
    }

    of_browser!();
}

fn kind(method: &str) -> &'static str {
    match method {
        "resources/read" => "resource",
        "prompts/get" => "prompt",
        _ => "other",
    }
}

fn left(entry: &CacheEntryView, model: &Model) -> (Ink, Role) {
    let end = entry.stored.plus(entry.ttl);
    match end.since(model.now).as_secs() {
        _ if end <= model.now => (ink!("expired"), Role::Warning),
        0..60 => (model.until(end), Role::Busy),
        // Seconds are shown only in the last minute, to save redraws.
        _ => (model.left(end), Role::Muted),
    }
}

fn detail(entry: &CacheEntryView, model: &Model, doc: &mut Doc) {
    doc.heading(&entry.label).gap();
    doc.field("server", Model::name(&entry.key.server), Role::Text);
    doc.field("method", Ink::line(&entry.key.method), Role::Text);
    doc.field("parameters", Ink::line(&entry.key.params), Role::Text);
    doc.field("stored", Model::time_of_day(entry.stored), Role::Text);
    doc.field("time to live", ink!("{}", Dur(entry.ttl)), Role::Text);
    let (left, role) = left(entry, model);
    doc.field("left", left, role);
    doc.field("hits", ink!("{}", entry.hits), Role::Text);
    doc.field("size", ink!("{}", Bytes(entry.bytes as u64)), Role::Text);
}

fn invalidated(model: &Model, doc: &mut Doc) {
    if model.cache.invalidated.is_empty() {
        return;
    }
    doc.heading("recently dropped");
    for (at, key, reason) in model.cache.invalidated.iter().rev().take(20) {
        doc.line(vec![
            (ink!("  {} ", Model::time_of_day(*at)), Role::Faint),
            (ink!("{} {}  ", Model::name(&key.server), Ink::line(&key.params)), Role::Text),
            (Ink::from(reason), Role::Muted),
        ]);
    }
}
