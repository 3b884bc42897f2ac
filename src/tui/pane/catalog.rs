//! Common parts of tools, resources and prompts: entries of many servers in one list, with filter,
//! recent changes, and the reason when an entry cannot be used.

use std::collections::{HashMap, HashSet};

use crate::effect::{Effect, Order, ServerCommand};
use crate::find::{self, SearchFields, TypedSearch};
use crate::glyph::reason_beside;
use crate::intent::Intent;
use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::servers::unstable;
use crate::pane::{Availability, Cx, Gesture, Out, Pane, Ui, when};
use crate::prelude::*;
use crate::widget::{Browser, BrowserPart, Doc, Pen, WordBudget, changed, width};
use base::text::json::WrittenValue;
use host::{ServerState, ServerView};
use protocol::ListKind;

/// How an entry differs from the previous list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChange {
    /// It is new.
    Added,
    /// It differs.
    Changed,
}

/// One entry of a list of a server.
#[derive(Clone, Debug)]
pub struct CatalogEntry {
    pub server: ServerName,
    pub list: ListKind,
    /// Its name or URI on the wire.
    pub wire: Arc<str>,
    /// Name to draw.
    pub label: SafeText,
    /// The text after the name.
    pub note: Ink,
    /// Marks at the right.
    pub marks: Ink,
    /// Whether they warn of what calling it may destroy.
    pub is_destructive: bool,
    /// Number at the right: tokens, bytes.
    pub number: Ink,
    /// The same as a number, for sorting.
    pub size: u64,
    /// The entry as sent.
    pub raw: Arc<WrittenValue>,
    /// How it changed recently.
    pub change: Option<EntryChange>,
    /// Why it cannot be used now.
    pub unavailable: Option<Ink>,
    /// Other names the filter matches, besides its server's.
    pub names: String,
    /// The description, which the filter matches too.
    pub description: Option<SafeText>,
}

impl CatalogEntry {
    /// Fills in what all lists have in common but for recent changes; the rest is empty.
    pub fn new(
        server: &ServerView,
        list: ListKind,
        wire: &Arc<str>,
        label: &SafeText,
        raw: &Arc<WrittenValue>,
    ) -> Self {
        Self {
            server: server.name.clone(),
            list,
            wire: Arc::clone(wire),
            label: label.clone(),
            note: Ink::default(),
            marks: Ink::default(),
            is_destructive: false,
            number: Ink::default(),
            size: 0,
            raw: Arc::clone(raw),
            change: None,
            unavailable: unavailable(server),
            names: String::new(),
            description: None,
        }
    }

    fn fields(&self) -> SearchFields<'_> {
        SearchFields {
            name: &self.label,
            context: &self.names,
            text: self.description.as_deref().unwrap_or_default(),
        }
    }
}

impl PartialEq for CatalogEntry {
    fn eq(&self, other: &Self) -> bool {
        (&self.server, self.list, &self.wire) == (&other.server, other.list, &other.wire)
    }
}

/// How one catalogue differs from another.
pub struct CatalogKind {
    /// Where its keys are bound, innermost first.
    pub scopes: &'static [KeyScope],
    /// What an entry is called.
    pub noun: &'static str,
    /// What the numbers at the right are.
    pub number: &'static str,
    /// Its entries of one server.
    pub build: fn(&ServerView) -> Vec<CatalogEntry>,
    /// The detail of an entry.
    pub detail: fn(&CatalogEntry, &ServerView, &Model, &mut Doc),
}

/// What the entries of a server were built from: its name, its lists, its state, their changes.
type BuiltFrom = (ServerName, usize, ServerState, usize);

/// A pane over entries of servers; tools, resources and prompts differ only in [`CatalogKind`].
pub struct CatalogPane {
    kind: &'static CatalogKind,
    browser: Browser<Arc<CatalogEntry>>,
    all: Vec<Arc<CatalogEntry>>,
    built_from: Vec<BuiltFrom>,
    built_filter: String,
    search: TypedSearch,
    sort: Sort,
    wanted: Option<(ServerName, Arc<str>)>,
    /// What the columns of all entries could use: neither scrolling nor a filter moves them.
    widest: CatalogColumns,
}

named! {
    /// What entries are sorted by.
    #[derive(Default)]
    enum By {
        /// Nothing: in the order of the servers, or by match rank.
        #[default]
        Listed = "listing order",
        Name = "name",
        Server = "server",
        Marks = "hints",
        Number = "size",
    }
}

/// How the list is sorted.
#[derive(Clone, Copy, Debug, Default)]
struct Sort {
    by: By,
    reversed: bool,
    changed: bool,
}

impl Sort {
    fn next(&mut self) {
        self.by = By::ALL[(self.by as usize + 1) % By::ALL.len()];
        self.reversed = false;
        self.changed = true;
    }

    /// The title of a column was clicked: sorts by it, the second time the other way round.
    fn by_title(&mut self, title: Option<By>) {
        if let Some(by) = title {
            self.reversed = self.by == by && !self.reversed;
            (self.by, self.changed) = (by, true);
        }
    }

    fn apply(self, rows: &mut [Arc<CatalogEntry>]) {
        match self.by {
            By::Listed => {}
            By::Name => rows.sort_by(|a, b| a.label.cmp(&b.label)),
            By::Server => rows.sort_by(|a, b| a.server.as_str().cmp(b.server.as_str())),
            By::Marks => rows.sort_by(|a, b| a.marks.cmp(&b.marks)),
            By::Number => rows.sort_by_key(|entry| std::cmp::Reverse(entry.size)),
        }
        if self.reversed {
            rows.reverse();
        }
    }

    /// A title, with a sign where the list is sorted by it.
    fn heading(self, by: By, title: &'static str, cx: &Cx<'_>) -> Ink {
        let down = (by == By::Number) != self.reversed;
        cx.glyphs.sorted(title, (self.by == by).then_some(down))
    }
}

/// The columns of a catalogue, in cells; 0 where there is no room for one. What is dropped first:
/// the number, then the hints; signature, server and name follow only where even these do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CatalogColumns {
    name: u16,
    note: u16,
    server: u16,
    marks: u16,
    number: u16,
}

impl CatalogColumns {
    /// Narrowest signature: a few letters of one are useless.
    const MIN_NOTE_CELLS: u16 = 12;

    /// What is shown in a list of this width, where `wanted` is what the rows could use.
    fn fit(width: u16, wanted: &Self) -> Self {
        // Cursor and mark of a change before the name, and the edge.
        let mut room = width.saturating_sub(4);
        let name = wanted.name.min(room);
        room -= name;
        let mut is_full = false;
        let mut take = |cells: u16, least: u16| {
            if least == 0 {
                return 0;
            }
            if least >= room {
                // What matters less does not take the room of what matters more.
                is_full = true;
            }
            if is_full {
                return 0;
            }
            let taken = cells.min(room - 1);
            room -= taken + 1;
            taken
        };
        let server = take(wanted.server, wanted.server.min(6));
        let least = wanted.note.min(20);
        let signature = take(least, wanted.note.min(Self::MIN_NOTE_CELLS));
        let marks = take(wanted.marks, wanted.marks);
        let number = take(wanted.number, wanted.number);
        let note = if signature > 0 { signature + room } else { 0 };
        let name = if note > 0 { name } else { name + room };
        Self { name, note, server, marks, number }
    }

    /// What these entries could use.
    fn wanted(entries: &[Arc<CatalogEntry>], kind: &CatalogKind) -> Self {
        /// Cells of names that are shorter than their title with its sign.
        const MIN_NAME_COLUMNS: u16 = 6;
        let longest = |of: fn(&CatalogEntry) -> Ink, most: u16| {
            entries.iter().map(|e| width(&of(e))).max().unwrap_or(0).min(most)
        };
        Self {
            name: name_columns(entries).max(MIN_NAME_COLUMNS),
            server: longest(|e| Model::name(&e.server), 14).max(6),
            note: longest(|e| e.note.clone(), 60),
            marks: longest(|e| e.marks.clone(), 15),
            number: longest(|e| e.number.clone(), 10).max(kind.number.len() as u16),
        }
    }

    /// What the title at a cell of the line of titles stands for.
    fn title_at(&self, x: u16) -> Option<By> {
        // Cursor and mark of a change come before the name.
        let mut end = 3 + self.name + 1 + self.after_note();
        if x < end {
            return Some(By::Name);
        }
        for (cells, by) in [(self.server, By::Server), (self.marks, By::Marks)] {
            if cells > 0 {
                end += cells + 1;
            }
            if cells > 0 && x < end {
                return Some(by);
            }
        }
        (self.number > 0).then_some(By::Number)
    }

    /// Cells of the note with the blank after it.
    const fn after_note(&self) -> u16 {
        if self.note > 0 { self.note + 1 } else { 0 }
    }
}

/// Cells for names. A few that are much longer than the others lose their middle: they
/// would take the signatures of all.
fn name_columns(rows: &[Arc<CatalogEntry>]) -> u16 {
    const LONG_NAME_COLUMNS: u16 = 40;
    const MAX_NAME_COLUMNS: u16 = 48;
    let widths = || rows.iter().map(|entry| width(&entry.label));
    let long = widths().filter(|wide| *wide > LONG_NAME_COLUMNS).count();
    if long * 4 > rows.len() {
        return MAX_NAME_COLUMNS;
    }
    let common = widths().filter(|wide| *wide <= LONG_NAME_COLUMNS).max().unwrap_or(0);
    if long > 0 { common.max(LONG_NAME_COLUMNS / 2) } else { common }
}

/// Cells the list can use: for names, useful parts of notes, and the columns after them.
fn wanted(rows: &[Arc<CatalogEntry>]) -> u16 {
    let longest = |of: &dyn Fn(&CatalogEntry) -> u16| rows.iter().map(|e| of(e)).max().unwrap_or(0);
    let names = longest(&|e| width(&e.label)).min(48);
    let notes = longest(&|e| width(&e.note)).min(60);
    let behind = longest(&|e| width(&e.marks) + width(&Model::name(&e.server)).min(14));
    names + notes + behind + 18
}

impl CatalogPane {
    /// An empty pane.
    pub fn new(kind: &'static CatalogKind) -> Self {
        Self {
            kind,
            browser: Browser::default(),
            all: Vec::new(),
            built_from: Vec::new(),
            built_filter: String::new(),
            search: TypedSearch::default(),
            sort: Sort::default(),
            wanted: None,
            widest: CatalogColumns::wanted(&[], kind),
        }
    }

    /// The selected entry's name on the wire.
    pub fn wire_name(&self) -> Option<String> {
        self.browser.selected().map(|entry| entry.wire.to_string())
    }

    /// Builds the entries of the servers that differ; the others keep theirs.
    fn rebuild(&mut self, model: &Model, from: Vec<BuiltFrom>) {
        // The entries of one server follow each other.
        let chunks = self.all.chunk_by(|one, other| one.server == other.server);
        let before: HashMap<_, _> = chunks.map(|own| (own[0].server.clone(), own)).collect();
        let is_same = |now: &BuiltFrom| self.built_from.contains(now);
        let mut all = Vec::with_capacity(self.all.len());
        for (server, now) in model.servers().zip(&from) {
            if let Some(own) = before.get(&server.name).filter(|_| is_same(now)) {
                all.extend_from_slice(own);
            } else {
                let mut own = (self.kind.build)(server);
                mark_changes(&mut own, server);
                all.extend(own.into_iter().map(Arc::new));
            }
        }
        (self.all, self.built_from) = (all, from);
    }

    /// The changed entry whose diff has the focus.
    fn read(&self) -> Option<Arc<CatalogEntry>> {
        let reads = self.browser.split.part == BrowserPart::Detail;
        self.browser.selected().filter(|entry| reads && entry.change.is_some()).cloned()
    }

    /// Clears the changed mark of an entry once the user leaves its diff.
    fn turn_from(&self, read: Option<Arc<CatalogEntry>>, ui: Ui<'_>, out: &mut Out) {
        if let Some(entry) = read.filter(|entry| self.read().as_ref() != Some(entry)) {
            Self::seen(&entry, ui, out);
        }
    }

    fn seen(entry: &CatalogEntry, ui: Ui<'_>, out: &mut Out) {
        if entry.change.is_some() && ui.model.playback.is_none() {
            let seen = ServerCommand::ChangesSeen(vec![(entry.list, entry.label.clone())]);
            out.effect(Effect::Order(Order::Server(entry.server.clone(), seen)));
        }
    }

    /// The selected entry: its server, list, and name on the wire.
    pub fn selected(&self) -> Option<(&ServerName, ListKind, &str)> {
        let entry = self.browser.selected()?;
        Some((&entry.server, entry.list, &entry.wire))
    }

    /// The columns of a list drawn in this region.
    fn columns(&self, model: &Model, list: Rect) -> CatalogColumns {
        let many = model.scope.is_none() && self.built_from.len() > 1;
        let server = if many { self.widest.server } else { 0 };
        CatalogColumns::fit(list.width, &CatalogColumns { server, ..self.widest })
    }

    /// Number of servers that have an entry here.
    fn offering(&self) -> usize {
        // The entries of one server follow each other.
        self.all.chunk_by(|one, other| one.server == other.server).count()
    }

    /// Leaves the detail room for a form with its result, once something was called; until then, the
    /// list has what it wants.
    pub const fn make_room(&mut self, is_called: bool) {
        self.browser.is_for_reading = !is_called;
    }

    /// Selects an entry once it is listed; a filter that might hide it is cleared.
    pub fn go_to(&mut self, server: &ServerName, wire: &str) {
        self.wanted = Some((server.clone(), wire.into()));
    }
}

impl Pane for CatalogPane {
    fn scopes(&self) -> &'static [KeyScope] {
        self.kind.scopes
    }

    fn sync(&mut self, ui: Ui<'_>) {
        let CatalogKind { detail, .. } = self.kind;
        let from: Vec<_> = ui
            .model
            .servers()
            .map(|s| {
                let changes = s.changes.as_ref().map_or(0, |(_, c)| Arc::as_ptr(c) as usize);
                (s.name.clone(), Arc::as_ptr(&s.capabilities) as usize, s.state, changes)
            })
            .collect();
        let rebuilt = from != self.built_from;
        if self.wanted.is_some() {
            self.browser.filter.set("");
        }
        if rebuilt {
            self.rebuild(ui.model, from);
            self.search.reset();
            // What a filter leaves does not move the columns.
            self.browser.wants = wanted(&self.all);
            self.widest = CatalogColumns::wanted(&self.all, self.kind);
        }
        let narrowed = self.built_filter != self.browser.filter.text();
        let sorted = std::mem::take(&mut self.sort.changed);
        if rebuilt || narrowed || sorted {
            self.built_filter = self.browser.filter.text().to_owned();
            let found = self.search.rank(&self.built_filter, &self.all, |entry| entry.fields());
            let mut rows: Vec<_> = found.into_iter().map(|n| Arc::clone(&self.all[n])).collect();
            self.sort.apply(&mut rows);
            self.browser.rows = rows;
        }
        let rows = &self.browser.rows;
        let asked = self.wanted.take().and_then(|(server, wire)| {
            rows.iter().find(|entry| entry.server == server && entry.wire == wire)
        });
        // Typing selects the best match.
        let best = rows.first().filter(|_| narrowed && !self.built_filter.is_empty());
        if let Some(entry) = asked.or(best).cloned() {
            self.browser.list.select(entry);
        }
        self.browser.sync(ui.area);
        self.browser.describe(ui.area, |entry, doc| {
            let Some(entry) = entry else { return };
            if let Some(server) = ui.model.server(&entry.server) {
                detail(entry, server, ui.model, doc);
                changes(entry, server, ui, doc);
            }
        });
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        let read = self.read();
        if self.browser.act(action, ui.area) {
            self.turn_from(read, ui, out);
            return true;
        }
        let Some(entry) = self.browser.selected() else { return false };
        match action {
            Action::Call => {
                if self.browser.detail_width(ui.area) > 0 {
                    Self::seen(entry, ui, out);
                }
                let wire = Arc::clone(&entry.wire);
                out.intend(Intent::OpenEntry(entry.server.clone(), entry.list, wire));
            }
            Action::Sort => {
                self.sort.next();
                out.say(ink!("sorted by {}", self.sort.by.name()));
            }
            Action::SortReverse => {
                self.sort.reversed = !self.sort.reversed;
                self.sort.changed = true;
            }
            Action::Copy => out.copy(entry.wire.to_string()),
            Action::CopyAll => out.copy(pretty(&*entry.raw)),
            Action::Save => {
                out.save(&format!("{}.json", file_name(&entry.label)), pretty(&*entry.raw));
            }
            _ => return false,
        }
        true
    }

    fn availability(&self, action: Action, _: &Model) -> Option<Availability> {
        let has = !self.browser.rows.is_empty();
        match action {
            Action::Call | Action::Open | Action::Copy | Action::CopyAll | Action::Save => {
                Some(when(has, "nothing is selected"))
            }
            Action::Sort | Action::SortReverse | Action::Tokens | Action::Refresh => {
                self.all.is_empty().then_some(Err("nothing is listed yet"))
            }
            _ => None,
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let (titles, at) = (self.browser.regions(ui.area).columns, gesture.position());
        if titles.contains(at) && !matches!(gesture, Gesture::Scroll { .. }) {
            let columns = self.columns(ui.model, self.browser.regions(ui.area).list);
            return self.sort.by_title(columns.title_at(at.x - titles.x));
        }
        let read = self.read();
        let open = self.browser.mouse(gesture, ui.area);
        self.turn_from(read, ui, out);
        if open {
            self.act(Action::Call, ui, out);
        }
    }

    fn server(&self, _: &Model) -> Option<ServerName> {
        self.browser.selected().map(|entry| entry.server.clone())
    }

    fn call_region(&self, area: Rect) -> Option<Rect> {
        let beside = self.browser.split.is_beside(area);
        self.browser.regions(area).detail.filter(|_| beside)
    }

    of_browser!();

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let CatalogKind { noun, number, .. } = *self.kind;
        let servers = self.built_from.len();
        let summary = if self.all.is_empty() {
            ink!("{}", count(0usize, noun))
        } else {
            ink!("{} of {}", count(self.all.len(), noun), count(self.offering(), "server"))
        };
        self.browser.render_frame(cx, &summary, self.all.len(), area, buf);
        let regions = self.browser.regions(area);
        let columns = self.columns(cx.model, regions.list);
        let server_width = columns.server;
        let mut pen = Pen::new(buf, regions.columns);
        let heading = cx.style(Role::Faint);
        pen.skip(3).left(self.sort.heading(By::Name, "name", cx), columns.name, heading).skip(1);
        pen.skip(columns.after_note());
        if columns.server > 0 {
            pen.left(self.sort.heading(By::Server, "server", cx), server_width, heading).skip(1);
        }
        if columns.marks > 0 {
            pen.left(self.sort.heading(By::Marks, "hint", cx), columns.marks, heading).skip(1);
        }
        pen.right(self.sort.heading(By::Number, number, cx), columns.number, heading);
        self.browser.render_rows(cx, area, buf, |pen, entry| {
            let (mark, role): (&'static str, Role) = match entry.change {
                Some(EntryChange::Added) => ("+", Role::Added),
                Some(EntryChange::Changed) => ("~", Role::Changed),
                None => (" ", Role::Faint),
            };
            let dim = entry.unavailable.is_some();
            let ink = |role| if dim { cx.style(Role::Faint) } else { cx.style(role) };
            pen.put(mark, cx.style(role)).skip(1);
            let found = find::spans(self.browser.filter.text(), &entry.label);
            pen.found(&entry.label, &found, columns.name, ink(Role::Text), cx.style(Role::Match));
            pen.skip(1);
            if columns.note > 0 {
                let start = pen.position();
                match &entry.unavailable {
                    Some(reason) => pen.clip(reason, columns.note, cx.style(Role::Faint)),
                    None => pen.clip(&entry.note, columns.note, ink(Role::Muted)),
                };
                pen.column(start + columns.after_note());
            }
            if columns.server > 0 {
                pen.middle(Model::name(&entry.server), server_width, ink(Role::Muted)).skip(1);
            }
            if columns.marks > 0 {
                let role = if entry.is_destructive { Role::Warning } else { Role::Muted };
                pen.left(&entry.marks, columns.marks, ink(role)).skip(1);
            }
            pen.right(&entry.number, columns.number, ink(Role::Muted));
        });
        let ready = |(.., state, _): &(_, _, ServerState, _)| *state == ServerState::Ready;
        let comes = |(.., state, _): &(_, _, ServerState, _)| *state != ServerState::Unavailable;
        let nothing = if servers > 0 && self.built_from.iter().all(ready) {
            ink!("No {}s; the servers shown offer none", noun)
        } else if servers > 0 && !self.built_from.iter().any(comes) {
            cx.spelled(&[], "Nothing to list: no server is up; {show-servers} says why")
        } else {
            ink!("Nothing listed yet; servers are listed when they are ready")
        };
        crate::widget::render_empty(&self.browser, cx, (&nothing, self.all.len()), area, buf);
    }
}

fn unavailable(server: &ServerView) -> Option<Ink> {
    if server.state.is_callable() {
        return None;
    }
    let mut text = ink!("{}", server_word(server));
    if let Some(reason) = reason_beside(server) {
        text.push(ink!(": {}", Ink::line(reason)));
    }
    Some(text)
}

/// Notes which entries of a server changed recently. Both lists may be as long as a server makes them.
fn mark_changes(entries: &mut [CatalogEntry], server: &ServerView) {
    let Some((_, changes)) = &server.changes else { return };
    let added: HashSet<(ListKind, &SafeText)> =
        changes.added.iter().map(|(list, label)| (*list, label)).collect();
    let changed: HashSet<(ListKind, &SafeText)> =
        changes.changed.iter().map(|(list, label, _)| (*list, label)).collect();
    for entry in entries {
        let place = (entry.list, &entry.label);
        entry.change = if added.contains(&place) {
            Some(EntryChange::Added)
        } else {
            changed.contains(&place).then_some(EntryChange::Changed)
        };
    }
}

fn changes(entry: &CatalogEntry, server: &ServerView, ui: Ui<'_>, doc: &mut Doc) {
    let Some((at, changes)) = &server.changes else { return };
    let found =
        changes.changed.iter().find(|(l, label, _)| *l == entry.list && *label == entry.label);
    let Some((_, _, fields)) = found else { return };
    doc.heading(ink!("changed {}", ui.model.when(*at)));
    unstable(server, ui.model, doc);
    let mut budget = WordBudget::default();
    for field in fields {
        changed(field, &field.risks(), ui.glyphs, &mut budget, doc);
    }
}

/// A value as indented JSON.
pub fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A name that is a valid file name on every system.
pub fn file_name(label: &SafeText) -> String {
    let name: String = label
        .chars()
        .take(60)
        .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' })
        .collect();
    if name.is_empty() { "unnamed".into() } else { name }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn columns_go_by_their_priority_and_fill_the_list(
            name in 1u16..60, note in 0u16..80, server in 0u16..15, marks in 0u16..12,
            number in 1u16..10, width in 10u16..260,
        ) {
            let wanted = CatalogColumns { name: name.min(48), note: note.min(60), server, marks, number };
            let shown = CatalogColumns::fit(width, &wanted);
            let cells = [shown.note, shown.server, shown.marks, shown.number];
            let used = 3 + shown.name + cells.iter().map(|cells| cells + u16::from(*cells > 0)).sum::<u16>();
            prop_assert!(used <= width, "{shown:?}");
            // A column is there only if those that matter more are.
            prop_assert!(shown.number == 0 || shown.marks > 0 || marks == 0, "{shown:?}");
            prop_assert!(shown.marks == 0 || shown.note > 0 || note == 0, "{shown:?}");
            prop_assert!(shown.note == 0 || shown.server > 0 || server == 0, "{shown:?}");
            if shown.number > 0 {
                prop_assert_eq!(used + 1, width);
            }
            // More room never shows fewer columns.
            let wider = CatalogColumns::fit(width + 1, &wanted);
            for (less, more) in cells.iter().zip([wider.note, wider.server, wider.marks, wider.number]) {
                prop_assert!(*less == 0 || more > 0, "{shown:?} {wider:?}");
            }
        }
    }
}
