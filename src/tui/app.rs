//! The dashboard's state and its single entry point, `App::update`. Pure: no I/O and no clock; side
//! effects are returned as [`Effect`]s.

use std::path::PathBuf;

use crossterm::event::{Event, MouseEventKind};
use ratatui::widgets::{Clear, Widget as _};

use crate::app::appearance::Appearance;
use crate::app::guide::Guide;
use crate::app::moment::{DrawnDecision, StrayKeys};
use crate::app::panes::Panes;
use crate::app::pointer::Pointer;
use crate::app::screens::{OpenScreen, Screens};
use crate::call::export::ExportOrigin;
use crate::call::{MIN_BENCH_COLUMNS, MIN_COMMON_COLUMNS};
use crate::chat::ChatScreen;
use crate::effect::{ConfigCommand, Effect, FileChange, Order};
use crate::intent::Intent;
use crate::keymap::KeyScope;
use crate::layout::Layout;
use crate::message::{Message, UserFiles};
use crate::model::Model;
use crate::overlay::{self, Confirm, NamePrompt, Named, Palette, TextReader};
use crate::pane::{Cx, NoticeText, Out, Pane, PaneId, Ui};
use crate::panel::{Panel, draw_titles};
use crate::pick::Choice;
use crate::prefs::Prefs;
use crate::prelude::*;
use crate::screen::Screen;
use crate::widget::{Doc, Pen, vertical_rule, width};
use reach::FoundServers;
use terminal::graphics::{Placement, Support};
use terminal::theme::{ColorDepth, ShippedThemes};

mod answers;
mod appearance;
mod calls;
mod chrome;
mod command;
mod guide;
mod incoming;
mod keys;
mod moment;
mod panes;
mod playback;
mod pointer;
mod screens;
mod server_list;

pub use crate::pane::Redraw;
pub use calls::Calls;
pub use server_list::ServerList;

/// The part of the dashboard that has the keyboard focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppFocus {
    /// The server list on the left.
    Servers,
    /// The current pane.
    #[default]
    Pane,
}

/// Initial settings of the dashboard.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Setup {
    /// Draw with ASCII glyphs only.
    pub ascii: bool,
    /// The themes that the program brings with it.
    pub themes: ShippedThemes,
    /// Theme from the command line; overrides the saved preference.
    pub theme: Option<String>,
    /// Colour depth of the terminal.
    pub depth: ColorDepth,
    /// Preferences saved by earlier runs.
    pub prefs: Prefs,
    /// The user's keymap and theme files.
    pub user: UserFiles,
    /// The home directory, to shorten paths.
    pub home: Option<PathBuf>,
    /// Whether this is the demo: shows the first steps unless they were shown before.
    pub tour: bool,
    /// Whether a script plays until the user does something.
    pub plays: bool,
    /// Call history and saved calls.
    pub calls: Calls,
    /// Where the servers come from, for copied command lines.
    pub origin: ExportOrigin,
    /// Graphics support of the terminal.
    pub graphics: Support,
    /// The file that servers are added to, also while it does not exist yet.
    pub own_file: Option<PathBuf>,
    /// What other programs on this machine have, offered because there is no configuration.
    pub found: Option<FoundServers>,
    /// Whether a recording is shown.
    pub recording: bool,
    /// Whether the servers are those of a service, which goes on when the dashboard is left.
    pub attached: bool,
}

/// A short-lived message on a line of its own.
struct Toast {
    shown: Timestamp,
    text: Ink,
    role: Role,
    /// Whether it replies to a key: then its reason is gone with the next one.
    is_reply: bool,
}

/// The dashboard.
pub struct App {
    /// The dashboard's view of the engine.
    pub model: Model,
    size: Rect,
    pane: PaneId,
    focus: AppFocus,
    panes: Panes,
    servers: ServerList,
    /// What is open over the panes, and the state kept for closed screens.
    screens: Screens,
    toast: Option<Toast>,
    /// Whether an event of the user is being handled.
    replying: bool,
    /// The current time; during playback, `model.now` is the time in the recording.
    wall: Timestamp,
    look: Appearance,
    setup: Setup,
    redraw: Redraw,
    stale: bool,
    /// Requests of panes and screens that are not handled yet.
    out: Out,
    /// Effects to return from the current [`App::update`].
    effects: Vec<Effect>,
    moment: DrawnDecision,
    stray_keys: StrayKeys,
    pointer: Pointer,
    guide: Guide,
    /// Whether the user has just added servers, so that their approval follows at once.
    expects_approval: bool,
}

/// Whether catalogue, form and result are side by side.
const fn fits_all(layout: &Layout) -> bool {
    layout.whole.width >= MIN_BENCH_COLUMNS && layout.main.width >= MIN_COMMON_COLUMNS
}

impl App {
    /// How long a toast stays; an error stays until a key is pressed after that time.
    pub const TOAST_TIMEOUT: Duration = Duration::from_secs(4);

    /// Creates the dashboard in its initial state.
    pub fn new(mut setup: Setup, now: Timestamp) -> Self {
        let (calls, origin) = (std::mem::take(&mut setup.calls), setup.origin.clone());
        let screens = Screens::new(calls, origin);
        let user = std::mem::take(&mut setup.user);
        let mut app = Self {
            model: Model::at(now),
            size: Rect::default(),
            pane: PaneId::default(),
            focus: AppFocus::default(),
            panes: Panes::default(),
            servers: ServerList::default(),
            screens,
            toast: None,
            replying: false,
            wall: now,
            look: Appearance::new(setup.ascii, setup.depth, setup.graphics, setup.themes, user),
            setup,
            redraw: Redraw::Now,
            stale: true,
            out: Out::default(),
            effects: Vec::new(),
            moment: DrawnDecision::default(),
            stray_keys: StrayKeys::default(),
            pointer: Pointer::default(),
            guide: Guide::default(),
            expects_approval: false,
        };
        app.adopt_user_files();
        app.adopt_prefs();
        if app.setup.recording {
            // A recording is seen as a whole first.
            app.pane = PaneId::Traffic;
            app.panes.traffic.waterfall.on = true;
        }
        if app.setup.tour && !app.setup.prefs.toured {
            // Shown once, no matter how far one gets.
            app.setup.prefs.toured = true;
            app.guide.toggle();
        }
        if let Some(found) = app.setup.found.take() {
            app.offer_import(found);
        }
        app
    }

    /// Handles a message and returns the effects to carry out.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Input(event) => {
                self.replying = true;
                let acts = matches!(&event, Event::Key(_) | Event::Mouse(_))
                    && !matches!(&event, Event::Mouse(mouse) if mouse.kind == MouseEventKind::Moved);
                self.setup.plays &= !acts;
                self.input(event);
            }
            message => self.incoming(message),
        }
        let look = self.look.cx(&self.model, !self.is_covered()).styles();
        let area = self.layout().map(|layout| self.filling_area(&layout));
        let visible = self.visible_call();
        self.widen_calls();
        let (screens, out) = (&mut self.screens, &mut self.out);
        screens.calls.work(visible, &look, area, out);
        screens.work(&look, area, out);
        screens.answers.work(screens.open_request(), out);
        self.absorb();
        self.replying = false;
        std::mem::take(&mut self.effects)
    }

    /// Whether a frame has to be drawn, and how soon.
    pub const fn redraw(&self) -> Redraw {
        self.redraw
    }

    /// When the screen next changes without input: relative times, expiring toasts, running calls.
    pub fn wake(&self) -> Option<Timestamp> {
        let toast = self.toast.as_ref().filter(|toast| toast.role != Role::Error);
        let toast = toast.map(|toast| toast.shown.plus(Self::TOAST_TIMEOUT));
        // During playback, the player advances the time.
        let shown = self.model.wake().filter(|_| self.model.playback.is_none());
        let calls = self.screens.calls.wake(self.model.now, self.visible_call());
        [toast, shown, calls].into_iter().flatten().min()
    }

    /// Updates panes and screens before a frame is drawn.
    pub fn prepare(&mut self) {
        self.model.reset_wake();
        self.redraw = Redraw::None;
        self.sync();
        let server = self.screens.open_server();
        let dev = server.and_then(|server| calls::dev_words(&server, &self.model));
        if let Some(screen) = self.screens.call_screen() {
            screen.dev = dev;
        }
        // A terminal that is too small shows none of them.
        let Some(layout) = self.layout() else { return self.moment.forget() };
        self.widen_calls();
        let (area, beside) = (self.filling_area(&layout), self.call_beside());
        let ui = self.look.ui(&self.model, area);
        self.screens.prepare(ui, self.size);
        if let Some(screen) = beside.and_then(|number| self.screens.calls.screens.get_mut(number)) {
            screen.lay_out(area, &ui.styles());
        }
        self.moment.record(self.decision(), self.model.now);
    }

    /// Updates lists: before a frame, and before a key that arrives before the next frame.
    fn sync(&mut self) {
        self.stale = false;
        // The list beside an answer shows which one it is.
        let open = self.screens.open_request().and_then(|id| self.model.view.pending.get(&id));
        if let Some(request) = open {
            self.panes.inbox.go_to(request);
        }
        let is_called = !self.screens.calls.screens.is_empty();
        for list in [&mut self.panes.tools, &mut self.panes.resources, &mut self.panes.prompts] {
            list.make_room(is_called);
        }
        self.on_pane(|pane, ui, _| pane.sync(ui));
        if let Some(layout) = self.layout() {
            self.servers.sync(&self.model, layout.servers.map_or(0, |area| area.height));
        }
    }

    /// Runs `act` on the current pane and handles its requests; `None` if the terminal is too small
    /// to show a pane.
    fn on_pane<R>(&mut self, act: impl FnOnce(&mut dyn Pane, Ui<'_>, &mut Out) -> R) -> Option<R> {
        let area = self.layout()?.main;
        let ui = self.look.ui(&self.model, area);
        let done = act(self.panes.get_mut(self.pane), ui, &mut self.out);
        self.absorb();
        Some(done)
    }

    /// Runs `act` on the topmost screen and handles its requests.
    fn on_screen<R: Default>(
        &mut self,
        act: impl FnOnce(&mut dyn Screen, Ui<'_>, &mut Out) -> R,
    ) -> R {
        let Some(screen) = self.screens.top() else { return R::default() };
        let area = self.area_of(screen);
        let ui = self.look.ui(&self.model, area);
        let Some(screen) = self.screens.top_mut() else { return R::default() };
        let done = act(screen, ui, &mut self.out);
        self.mark(Redraw::Now);
        self.absorb();
        done
    }

    /// The region of an open screen, without its frame.
    fn area_of(&self, screen: &dyn Screen) -> Rect {
        overlay::frame_area(screen, self.size).map_or_else(|| self.screen_area(), overlay::inner)
    }

    fn layout(&self) -> Option<Layout> {
        self.layout_in(self.size)
    }

    /// The layout of a screen of this size. Most panes name the servers themselves: unless the user
    /// chose, the list of servers is beside the others alone.
    fn layout_in(&self, whole: Rect) -> Option<Layout> {
        let narrows = matches!(self.pane, PaneId::Traffic | PaneId::Logs);
        let list = self.setup.prefs.server_list.or((!narrows).then_some(false));
        let layout = Layout::compute(whole, list)?;
        let is_beside = self.screens.is_call()
            && matches!(self.pane, PaneId::Tools | PaneId::Resources | PaneId::Prompts)
            && !fits_all(&layout)
            && self.panes.get(self.pane).call_region(layout.main).is_some();
        Some(if is_beside { layout.with_beside() } else { layout })
    }

    fn screen_area(&self) -> Rect {
        self.layout().map_or(self.size, |layout| self.filling_area(&layout))
    }

    /// The region of a call beside the catalogue, or of an answer beside the inbox, on a screen that
    /// is wide enough for both.
    fn bench(&self, layout: &Layout) -> Option<Rect> {
        let wide = self.pane == PaneId::Inbox || fits_all(layout);
        let region = || self.panes.get(self.pane).call_region(layout.main).filter(|_| wide);
        let beside = layout.beside.or_else(region)?;
        let screen = layout.screen();
        Some(Rect { x: beside.x, width: beside.width, ..screen })
    }

    /// The region of the open screen or, without one, of the call beside the catalogue.
    fn filling_area(&self, layout: &Layout) -> Rect {
        let is_beside = if self.pane == PaneId::Inbox {
            self.screens.is_answer()
        } else {
            self.screens.filling().is_none() || self.screens.is_call()
        };
        self.bench(layout).filter(|_| is_beside).unwrap_or_else(|| layout.screen())
    }

    /// The call of the selected entry, shown beside the catalogue while that has the keys.
    fn call_beside(&self) -> Option<usize> {
        if self.screens.filling().is_some() {
            return None;
        }
        self.bench(&self.layout()?)?;
        let (server, list, wire) = match self.pane {
            PaneId::Tools => self.panes.tools.selected()?,
            PaneId::Resources => self.panes.resources.selected()?,
            PaneId::Prompts => self.panes.prompts.selected()?,
            PaneId::Servers
            | PaneId::Tests
            | PaneId::Traffic
            | PaneId::Logs
            | PaneId::Metrics
            | PaneId::Cache
            | PaneId::Inbox
            | PaneId::Config => return None,
        };
        self.screens.calls.screen_of(server, list, wire)
    }

    /// The call whose form and result are visible.
    fn visible_call(&self) -> Option<usize> {
        self.screens.open_call().or_else(|| self.call_beside())
    }

    /// Tells the calls whether form and result fit side by side.
    fn widen_calls(&mut self) {
        let is_beside = self.layout().is_some_and(|layout| layout.beside.is_some());
        let is_wide = self.size.width >= MIN_BENCH_COLUMNS && !is_beside;
        for screen in &mut self.screens.calls.screens {
            screen.is_wide = is_wide;
        }
    }

    fn mark(&mut self, redraw: Redraw) {
        self.redraw = self.redraw.max(redraw);
        self.stale = true;
    }

    /// Whether a screen is open over the panes.
    pub fn has_screen(&self) -> bool {
        self.screens.filling().is_some()
    }

    /// Whether a dialog is open over the screen or the pane.
    fn is_covered(&self) -> bool {
        self.screens.top().is_some_and(|screen| screen.frame(self.size).is_some())
    }

    /// The key scopes currently in effect, innermost first.
    fn scopes(&self) -> Vec<KeyScope> {
        let mut scopes = Vec::with_capacity(4);
        if let Some(screen) = self.screens.top() {
            scopes = screen.scopes();
        } else if self.panes.get(self.pane).is_typing() {
            scopes.push(KeyScope::Text);
        } else {
            match self.focus {
                AppFocus::Servers => scopes.extend([KeyScope::ServerList, KeyScope::List]),
                AppFocus::Pane => scopes.extend_from_slice(self.panes.get(self.pane).scopes()),
            }
            if self.model.playback.is_some() {
                scopes.insert(0, KeyScope::Playback);
            }
        }
        scopes.push(KeyScope::Global);
        scopes
    }

    /// Whether the topmost screen or, without one, the pane is taking text.
    fn is_typing(&self) -> bool {
        match self.screens.top() {
            Some(screen) => screen.takes_letters(),
            None => self.panes.get(self.pane).is_typing(),
        }
    }

    /// Replaces each `{action}` in `text` with its key in the current pane or screen.
    fn spelled(&self, text: &str) -> Ink {
        let pane = || self.panes.get(self.pane).scopes().to_vec();
        let mut scopes = self.screens.filling().map_or_else(pane, Screen::scopes);
        scopes.push(KeyScope::Global);
        self.look.keymap.spelled(&scopes, text)
    }

    /// The server a command applies to: the pane's selection, the scope, or the only server.
    fn target_server(&self) -> Option<ServerName> {
        let in_pane = self.focus == AppFocus::Pane;
        let chosen = in_pane.then(|| self.panes.get(self.pane).server(&self.model)).flatten();
        let chosen = chosen.or_else(|| self.model.scope.clone());
        let mut servers = self.model.view.servers.keys();
        chosen.or_else(|| servers.next().filter(|_| self.model.view.servers.len() == 1).cloned())
    }

    // Requests of panes and screens.

    /// Handles what a pane or a screen requested.
    fn absorb(&mut self) {
        let out = std::mem::take(&mut self.out);
        let may_ask_again = !out.intents.is_empty();
        if out.redraw > Redraw::None {
            self.mark(out.redraw);
        }
        if out.opened {
            // A toast that points to the inbox would only hide the screen's key line.
            self.drop_toast(Role::Attention);
            self.mark(Redraw::Now);
        }
        for intent in out.intents {
            self.carry_out(intent);
        }
        if let Some(screen) = out.screen {
            self.push_screen(OpenScreen::Own(screen));
        }
        if let Some((text, role)) = out.notice {
            let text = match text {
                NoticeText::Plain(text) => text,
                NoticeText::WithKeys(text) => self.spelled(&text),
            };
            self.toast(text, role);
        }
        if out.remember {
            self.remember();
        }
        if may_ask_again {
            self.absorb();
        }
    }

    fn carry_out(&mut self, intent: Intent) {
        match intent {
            Intent::Close => {
                self.screens.pop();
                self.mark(Redraw::Now);
            }
            Intent::Pick(pick) => self.pick(pick),
            Intent::Choose(title, choices) => self.choose(title, choices),
            Intent::AskLine(line, proposed) => {
                self.open(NamePrompt::new(Named::Call(line), &proposed, Vec::new()));
            }
            Intent::AskLineAgain(line, typed, why) => {
                self.open(NamePrompt::again(Named::Call(line), &typed, why));
            }
            Intent::AskFile(proposed, content) => {
                self.open(NamePrompt::new(Named::File(content), &proposed, Vec::new()));
            }
            Intent::Open(todo) => self.open_todo(&todo),
            Intent::OpenEntry(server, list, wire) => {
                self.screens.open_entry(&server, list, &wire, &self.model, &mut self.out);
            }
            Intent::FillCall(call) => {
                self.screens.fill_call(&call, &self.model, &mut self.out);
            }
            Intent::Suites(command) => self.ask_bench(command),
            Intent::OpenResource(uri) => {
                if let Some(server) = self.screens.open_server() {
                    self.open_link(&server, &uri);
                }
            }
            Intent::Perform(effect) => {
                if self.foresee(&effect) {
                    self.effects.push(effect);
                }
            }
        }
    }

    /// Shows what an effect is about to change, before it is carried out; returns whether it may be:
    /// an answer counts only after there was time to read the question.
    fn foresee(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::Order(Order::Answer(..) | Order::AnswerAll(_)) | Effect::OpenUrl(..)
                if !self.was_read() =>
            {
                return false;
            }
            Effect::Order(Order::AnswerAll(answers) | Order::Deny(answers)) => {
                for (id, _) in answers {
                    self.screens.answer_sent(*id, &self.model.view);
                }
            }
            Effect::Order(Order::Answer(id, _)) => self.answer_sent(*id),
            Effect::Copy(text) => {
                self.toast(ink!("copied {}", count(text.chars().count(), "character")), Role::Ok);
            }
            Effect::Record(record) => self.screens.calls.history.apply(record),
            Effect::Config(command) => {
                self.expects_approval |=
                    matches!(command, ConfigCommand::Change(FileChange::Import(_)));
            }
            Effect::Order(
                Order::Server(..)
                | Order::MoreTime(..)
                | Order::ApprovalRule(..)
                | Order::Client(..)
                | Order::Policy(_),
            )
            | Effect::Run(_)
            | Effect::Call(..)
            | Effect::OpenApp(_)
            | Effect::CancelCall(_)
            | Effect::SaveCall(..)
            | Effect::KeepAnswer(..)
            | Effect::Draft(..)
            | Effect::Chat(_)
            | Effect::Baseline(_)
            | Effect::FindServers
            | Effect::FindServer(..)
            | Effect::TryServer(_)
            | Effect::Lock(_)
            | Effect::Suites(_)
            | Effect::CacheDrop(_)
            | Effect::CacheContent(_)
            | Effect::Save { .. }
            | Effect::SaveAs { .. }
            | Effect::Check(..)
            | Effect::Picture(..)
            | Effect::Edit { .. }
            | Effect::EditFile(..)
            | Effect::ReadFile(..)
            | Effect::OpenUrl(..)
            | Effect::SavePrefs(_)
            | Effect::HostLogLevel(_)
            | Effect::Bell
            | Effect::ToggleRecording
            | Effect::Play(_)
            | Effect::Redraw
            | Effect::Suspend
            | Effect::Quit
            | Effect::QuitNow => {}
        }
        true
    }

    fn toast(&mut self, text: Ink, role: Role) {
        let is_reply = self.replying;
        self.toast = Some(Toast { shown: self.wall, text, role, is_reply });
        self.mark(Redraw::Now);
    }

    /// Removes the toast if its time is over; `seen` says that the user was there to read it.
    fn expire_toast(&mut self, seen: bool) {
        let is_over = |toast: &mut Toast| {
            (seen || toast.role != Role::Error)
                && self.wall >= toast.shown.plus(Self::TOAST_TIMEOUT)
        };
        if self.toast.take_if(is_over).is_some() {
            self.mark(Redraw::Soon);
        }
    }

    /// Removes the warning that replied to an earlier key.
    fn drop_reply(&mut self) {
        let is_past = |toast: &mut Toast| toast.is_reply && toast.role == Role::Warning;
        if self.toast.take_if(is_past).is_some() {
            self.mark(Redraw::Now);
        }
    }

    /// Removes the toast if it has this role.
    fn drop_toast(&mut self, role: Role) {
        self.toast.take_if(|toast| toast.role == role);
    }

    /// Opens a text reader over the panes.
    fn read(&mut self, title: Ink, doc: Doc) {
        self.open(TextReader::new(title, doc));
    }

    /// Asks for confirmation before `yes` is carried out.
    fn confirm(&mut self, title: Ink, lines: Vec<Ink>, yes: Vec<Intent>) {
        self.open(Confirm::new(title, lines, yes));
    }

    /// Opens a list for the user to choose from.
    fn choose(&mut self, title: Ink, choices: Vec<Choice>) {
        self.open(Palette::new(title, choices));
    }

    /// Opens a screen or a dialog over the others.
    fn open(&mut self, screen: impl Screen + 'static) {
        self.push_screen(OpenScreen::Own(Box::new(screen)));
    }

    fn push_screen(&mut self, open: OpenScreen) {
        self.screens.push(open, &mut self.out);
        self.mark(Redraw::Now);
    }

    // The frame.

    /// The pictures to draw as pixels over a frame of this size.
    pub fn placements(&self, area: Rect) -> Vec<Placement> {
        let layout = self.layout_in(area);
        let (Some(screen), Some(layout)) = (self.screens.filling(), layout) else {
            return Vec::new();
        };
        let cx = self.look.cx(&self.model, !self.is_covered());
        screen.placements(&cx.styles(), self.filling_area(&layout))
    }

    /// Renders the current frame to a new buffer.
    fn drawn(&self) -> Buffer {
        let mut buf = Buffer::empty(self.size);
        self.render(self.size, &mut buf);
        buf
    }

    /// Draws the screen.
    pub fn render(&self, area: Rect, buf: &mut Buffer) {
        let cx = self.look.cx(&self.model, !self.is_covered());
        buf.set_style(area, cx.style(Role::Text));
        match self.layout_in(area) {
            Some(layout) => {
                self.render_layout(&cx, &layout, buf);
                let mut dialogs = self.screens.visible().filter(|s| s.frame(area).is_some());
                let mut next = dialogs.next();
                while let Some(dialog) = next {
                    next = dialogs.next();
                    let focused = next.is_none();
                    if !dialog.is_at_foot() {
                        overlay::dim(&cx, Rect { height: layout.footer.y, ..area }, buf);
                    }
                    overlay::render(dialog, &cx.with_focus(focused), area, buf);
                }
                self.render_toast(&cx, &layout, buf);
            }
            None => chrome::too_small(&cx, area, buf),
        }
        self.pointer.render(cx.style(Role::Match), buf);
        if self.look.glyphs.is_ascii() {
            for cell in &mut buf.content {
                let plain = match cell.symbol() {
                    "µ" => "u",
                    "·" => "-",
                    "…" => "~",
                    _ => continue,
                };
                cell.set_symbol(plain);
            }
        }
    }

    fn render_layout(&self, cx: &Cx<'_>, layout: &Layout, buf: &mut Buffer) {
        let source = chrome::source(cx, self.setup.home.as_deref(), self.demo_words());
        chrome::header(cx, source, self.look.problem.as_ref(), layout.header, buf);
        chrome::tabs(cx, &self.tab_line(), layout.tabs, buf);
        let rule = cx.style(Role::Rule);
        Pen::new(buf, layout.rule).rule(cx.glyphs.horizontal, rule);
        if let Some(screen) = self.screens.filling() {
            let area = self.filling_area(layout);
            if area.x > layout.main.x {
                self.render_panes(&cx.with_focus(false), layout, buf);
                Clear.render(area, buf);
                buf.set_style(area, cx.style(Role::Text));
            }
            screen.render(cx, area, buf);
            self.finish_rules(cx, layout, buf);
            if self.is_covered() {
                chrome::footer(cx, keys::footer(self), layout.footer, buf);
            } else {
                let (key, word) = (cx.style(Role::Key), cx.style(Role::Muted));
                screen.key_line(cx.keymap).render(layout.footer, buf, key, word);
            }
            return;
        }
        self.render_panes(cx, layout, buf);
        if let Some(call) = self.call_beside() {
            let area = self.filling_area(layout);
            Clear.render(area, buf);
            buf.set_style(area, cx.style(Role::Text));
            let mut look = cx.styles();
            look.accent = cx.style(Role::Heading);
            look.selection = cx.style(Role::SelectionInactive);
            look.graphics = look.graphics.as_blocks();
            let screen = self.screens.calls.screens.get(call);
            if let Some(screen) = screen {
                screen.draw(cx.keymap, &look, cx.model.now, area, buf);
            }
        }
        self.finish_rules(cx, layout, buf);
        chrome::footer(cx, keys::footer(self), layout.footer, buf);
    }

    /// The tabs: the panes, and the policy and the chat while they are used.
    fn tab_line(&self) -> chrome::TabLine {
        let scopes = self.screens.filling().map(Screen::scopes).unwrap_or_default();
        let opens = [(KeyScope::Policy, Action::Policy), (KeyScope::Chat, Action::Chat)];
        let open = opens.into_iter().find(|(scope, _)| scopes.contains(scope));
        let open = open.map(|(_, action)| action);
        let (policy, model) = (&self.model.policy, &self.model);
        let held = policy.held.len();
        let is_used = held > 0
            || !policy.grants.is_empty()
            || !model.blocked.is_empty()
            || !model.clients.is_empty();
        let spelled = |text: &str| self.look.keymap.spelled(&[KeyScope::Global], text);
        let mut sides = Vec::new();
        if is_used || open == Some(Action::Policy) {
            let mut labels = ["{policy} Policy", "{policy}"].map(spelled);
            for label in labels.iter_mut().filter(|_| held > 0) {
                label.push(ink!(" {}", held));
            }
            sides.push(chrome::SideTab { action: Action::Policy, labels });
        }
        let chats = self.screens.chat.as_ref().is_some_and(ChatScreen::is_used);
        if open == Some(Action::Chat) || chats {
            let labels = ["{chat} Chat", "{chat}"].map(spelled);
            sides.push(chrome::SideTab { action: Action::Chat, labels });
        }
        chrome::TabLine { pane: self.pane, sides, open }
    }

    /// What the demo is, if this is the demo.
    fn demo_words(&self) -> Option<&'static str> {
        match (self.setup.tour, self.setup.plays) {
            (true, true) => Some("demo: a script plays until you press a key"),
            (true, false) => Some("demo"),
            (false, _) => None,
        }
    }

    /// Draws the pane and the list of servers beside it.
    fn render_panes(&self, cx: &Cx<'_>, layout: &Layout, buf: &mut Buffer) {
        if let (Some(servers), Some(divider)) = (layout.servers, layout.divider) {
            vertical_rule(cx, divider, buf);
            let here = cx.with_focus(cx.focused && self.focus == AppFocus::Servers);
            self.servers.render(&here, servers, buf);
        }
        let here = cx.with_focus(cx.focused && self.focus == AppFocus::Pane);
        self.panes.get(self.pane).render(&here, layout.main, buf);
        if let Some(divider) = layout.beside_divider() {
            vertical_rule(cx, divider, buf);
        }
    }

    /// The panels that are visible, from left to right.
    fn panels(&self, layout: &Layout) -> Vec<Panel> {
        let mut out = Vec::new();
        let filling = self.screens.filling();
        let area = self.filling_area(layout);
        let is_beside = area.x > layout.main.x;
        if filling.is_none() || is_beside {
            let focus = filling.is_none() && self.focus == AppFocus::Pane;
            let on_servers = filling.is_none() && !focus;
            let servers = layout.servers.map(|area| Panel::new(area, ink!("servers"), on_servers));
            out.extend(servers);
            let division = self.panes.get(self.pane).division(layout.main, &self.model);
            let own = division.panels(Ink::line(&self.pane.name().to_lowercase()));
            out.extend(
                own.into_iter().map(|panel| Panel { focused: panel.focused && focus, ..panel }),
            );
        }
        let beside = self.call_beside().and_then(|call| self.screens.calls.screens.get(call));
        let over = filling.or_else(|| beside.map(|screen| screen as &dyn Screen));
        if let Some(screen) = over {
            out.retain(|panel| panel.area.x < area.x);
            let panels = screen.panels(area).into_iter();
            out.extend(
                panels.map(|panel| Panel { focused: panel.focused && filling.is_some(), ..panel }),
            );
        }
        out
    }

    /// Draws the rule above the keys anew, the titles of the panels and the slider of a recording,
    /// and joins the rules.
    fn finish_rules(&self, cx: &Cx<'_>, layout: &Layout, buf: &mut Buffer) {
        draw_titles(cx, &self.panels(layout), buf);
        if let Some(bottom) = layout.bottom_rule {
            Pen::new(buf, bottom).rule(cx.glyphs.horizontal, cx.style(Role::Rule));
        }
        chrome::join_rules(cx, layout, buf);
        if self.screens.filling().is_none() {
            playback::render(cx, layout.message(), buf);
        }
    }

    /// Draws the message on its line, or on the lower side of a dialog that covers that.
    fn render_toast(&self, cx: &Cx<'_>, layout: &Layout, buf: &mut Buffer) {
        let Some(toast) = &self.toast else {
            let line = self.guide.line(cx.keymap, &self.scopes(), self.is_typing());
            let line = line.filter(|_| !self.is_covered());
            let Some((step, text)) = line else { return };
            let mut pen = Pen::new(buf, layout.message()).ellipsis(cx.glyphs.ellipsis);
            pen.fresh(width(&step) + width(&text) + 4, cx.style(Role::Text));
            pen.put(" ", cx.style(Role::Text))
                .put(step, cx.style(Role::Muted))
                .put("  ", cx.style(Role::Text));
            pen.put(text, cx.style(Role::Key)).put(" ", cx.style(Role::Text));
            return;
        };
        let frame = self.screens.top().and_then(|top| overlay::frame_area(top, self.size));
        let covered = frame.filter(|frame| frame.intersects(layout.message()));
        let line = covered.map_or_else(
            || layout.message(),
            |frame| Rect {
                x: frame.x + 1,
                y: frame.bottom() - 1,
                width: frame.width.saturating_sub(2),
                height: 1,
            },
        );
        let style = cx.style(toast.role);
        if covered.is_none() {
            Clear.render(line, buf);
            buf.set_style(line, cx.style(Role::Text));
        }
        let mut pen = Pen::new(buf, line).ellipsis(cx.glyphs.ellipsis);
        pen.put(" ", style).put(&toast.text, style).put(" ", style);
    }

    // The user's files and preferences.

    fn adopt_user_files(&mut self) {
        let theme = self.setup.theme.as_deref().or(self.setup.prefs.theme.as_deref());
        self.look.adopt(theme);
        if let Some(problem) = self.look.problem.clone() {
            self.toast(problem, Role::Warning);
        }
    }

    fn adopt_prefs(&mut self) {
        let prefs = &self.setup.prefs;
        if let Some(pane) = prefs.pane.as_deref().and_then(PaneId::by_title) {
            self.pane = pane;
        }
        self.model.scope = prefs.scope.as_deref().map(ServerName::new);
        for id in PaneId::ALL {
            let text = prefs.filters.get(&id.name().to_lowercase());
            if let (Some(text), Some(filter)) = (text, self.panes.get_mut(id).filter_mut()) {
                filter.set(text);
            }
        }
        self.panes.logs.read_prefs(prefs);
    }
}
