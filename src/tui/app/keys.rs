//! Availability of actions, shared by dispatch, footer, help and palette, and the contents of the
//! latter three. Reads the dashboard, changes nothing.

use super::App;
use super::chrome::FooterKey;
use crate::action::{ActionPlace, EditAction, ServerAction};
use crate::keymap::{KeyRow, KeyScope, MENUS};
use crate::model::{EngineState, Model};
use crate::overlay::{NextKey, NextKeys, TextReader, reader_width};
use crate::pane::catalog::CatalogPane;
use crate::pane::{Availability, PaneId, when};
use crate::pick::{Choice, FilterPick, Pick};
use crate::prelude::*;
use crate::screen::Screen;
use crate::user_command::{FilledCommand, PLACES};
use crate::widget::Doc;
use host::{ServerState, ServerView};
use terminal::chord::Chord;

/// Most single letters in the last line, besides those that are always there.
const MAX_FOOTER_LETTERS: usize = 8;
/// From this place in the footer on, a key is always shown.
const ALWAYS_SHOWN: u8 = 90;

/// Mouse gestures, for the help.
const MOUSE: &[(&str, &str)] = &[
    ("click", "Select a row; press a key of the last line"),
    ("second click", "Open it"),
    ("click a title", "Sort by that column, and then the other way round"),
    ("wheel", "Scroll what is under the pointer"),
    ("drag", "Select text; it is copied when the button is released"),
    ("shift-drag", "The terminal's own selection, in most terminals"),
];

/// Whether an action can be used now, or the reason why not.
pub(super) fn availability(app: &App, action: Action) -> Availability {
    let model = &app.model;
    let target = app.target_server();
    let server = target.as_ref().and_then(|name| model.server(name));
    let on_a_server = |works: fn(&ServerView) -> bool, reason| match server {
        None => Err("select a server first"),
        Some(server) => when(works(server), reason),
    };
    let running = matches!(model.engine, EngineState::Running);
    match action {
        // These are for the open screen, or for the line being typed.
        action if is_of_screen(app, action) => {
            app.screens.top().map_or(Ok(()), |screen| screen.availability(action))
        }
        Action::Open | Action::Copy | Action::CopyAll | Action::Save | Action::Fold
            if app.is_typing() =>
        {
            Ok(())
        }
        action
            if action != Action::ServerKeys
                && let Some(scope) = menu_of(action) =>
        {
            // A menu in which nothing can be chosen has no use.
            let rows = app.look.keymap.rows(&[scope]).into_iter();
            let mut all = rows
                .filter(|row| row.action != Action::Back)
                .map(|row| availability(app, row.action));
            let first = all.next().unwrap_or(Ok(()));
            if first.is_err() && all.any(|one| one.is_ok()) { Ok(()) } else { first }
        }
        action if model.playback.is_some() && is_for_what_runs(action) => {
            Err("this is a recording: nothing runs")
        }
        Action::User(_) => can_run(app, action),
        action if matches!(action.place(), ActionPlace::Play(_)) => {
            when(model.playback.is_some(), "this is for recordings: mcpdeck open FILE")
        }
        Action::Record | Action::Restart | Action::StartStop | Action::Refresh | Action::Ping
            if !running =>
        {
            Err("the engine is not running")
        }
        Action::Why if app.red_row().is_some() => Ok(()),
        Action::Restart
        | Action::StartStop
        | Action::BlackBox
        | Action::ServerInfo
        | Action::Why => {
            when(server.is_some() || !model.marked.is_empty(), "select a server first")
        }
        Action::Request | Action::CopyEntry | Action::CompareServers => on_a_server(|_| true, ""),
        Action::Refresh | Action::Ping => {
            on_a_server(|one| one.state == ServerState::Ready, "the server is not ready")
        }
        Action::ResetBreaker => on_a_server(
            |one| !one.breaker.is_closed() || !one.tool_breakers.is_empty(),
            "no breaker is open",
        ),
        Action::SignIn => on_a_server(
            |one| one.account.is_some() || !one.auth_steps.is_empty(),
            "the server does not ask for it",
        ),
        Action::RefreshToken | Action::SignOut => {
            on_a_server(|one| one.account.is_some(), "you are not signed in")
        }
        Action::AskReload => {
            when(!model.situation.sources.is_empty(), "there is no file that could change")
        }
        Action::Chat => {
            when(app.screens.chat.is_some(), "no model: set an API key, see `mcpdeck help chat`")
        }
        Action::Filters if app.setup.prefs.saved_filters.is_empty() => {
            Err("no filter is saved; {save-filter} saves the one in use")
        }
        Action::Inputs => {
            when(!model.situation.inputs.is_empty(), "the configuration declares no input")
        }
        Action::SortReverse if !is_sorted(app.pane) => Err("this list has an order of its own"),
        Action::ServerKeys => when(!model.view.servers.is_empty(), "there is no server yet"),
        Action::Mark if app.pane == PaneId::Servers => {
            when(server.is_some(), "select a server first")
        }
        Action::AllServers => {
            when(model.scope.is_some() || !model.marked.is_empty(), "all servers are shown")
        }
        action => match action.place() {
            ActionPlace::Edit(edit) => can_change(app, edit, target.is_some()),
            ActionPlace::Here
            | ActionPlace::Browse(_)
            | ActionPlace::Show
            | ActionPlace::Server(_)
            | ActionPlace::Play(_)
            | ActionPlace::App(_)
            | ActionPlace::User => pane_availability(app, action),
        },
    }
}

/// Where the keys are bound that can follow one that waits for another.
fn menu_of(opens: Action) -> Option<KeyScope> {
    MENUS.into_iter().find(|(action, _)| *action == opens).map(|(_, scope)| scope)
}

/// Whether an action is for servers that run, and for their file.
const fn is_for_what_runs(action: Action) -> bool {
    matches!(
        action,
        Action::Restart
            | Action::StartStop
            | Action::Refresh
            | Action::Ping
            | Action::Request
            | Action::Call
            | Action::Record
            | Action::ResetBreaker
            | Action::Rules
            | Action::Roots
            | Action::SignIn
            | Action::RefreshToken
            | Action::SignOut
            | Action::Answer
            | Action::DenyAll
            | Action::AddServer
            | Action::Import
            | Action::EditServer
            | Action::EditFile
            | Action::DuplicateServer
            | Action::ToggleServer
            | Action::RemoveServer
            | Action::UndoEdit
    )
}

/// Whether the list of a pane can be sorted.
const fn is_sorted(pane: PaneId) -> bool {
    match pane {
        PaneId::Servers | PaneId::Tools | PaneId::Resources | PaneId::Prompts | PaneId::Metrics => {
            true
        }
        PaneId::Tests
        | PaneId::Traffic
        | PaneId::Logs
        | PaneId::Cache
        | PaneId::Inbox
        | PaneId::Config => false,
    }
}

fn pane_availability(app: &App, action: Action) -> Availability {
    app.panes.get(app.pane).availability(action, &app.model).unwrap_or(Ok(()))
}

/// Whether an entry or a file can be changed; `has_server` says that a server is selected.
fn can_change(app: &App, action: EditAction, has_server: bool) -> Availability {
    let selected = when(has_server, "select a server first");
    match action {
        EditAction::UndoEdit => when(app.model.situation.undo, "there is nothing to undo"),
        EditAction::AddServer | EditAction::Import => can_edit(app),
        // There is nothing to open before it is written.
        EditAction::EditFile => can_edit(app).and(when(
            !app.model.files.is_empty() || !app.model.view.files.is_empty(),
            "there is no file yet: {add-server} begins one",
        )),
        EditAction::EditServer
        | EditAction::DuplicateServer
        | EditAction::ToggleServer
        | EditAction::RemoveServer => can_edit(app).and(selected),
    }
}

/// Whether there are configuration files to edit.
fn can_edit(app: &App) -> Availability {
    let any = !app.model.view.files.is_empty() || app.own_file().is_some();
    when(any, "these servers are in no file: `mcpdeck -c FILE` opens one")
}

/// A user command filled in from the selection; `None` if the action is not a user command.
pub(super) fn user_command(app: &App, action: Action) -> Option<FilledCommand> {
    let command = app.look.keymap.command(action)?.clone();
    let server = app.target_server().map(|server| server.to_string());
    let of = |pane, list: &CatalogPane| (app.pane == pane).then(|| list.wire_name()).flatten();
    let tool = of(PaneId::Tools, &app.panes.tools);
    let uri = of(PaneId::Resources, &app.panes.resources);
    Some(FilledCommand { command, values: [server, tool, uri] })
}

fn can_run(app: &App, action: Action) -> Availability {
    let Some(FilledCommand { command, values }) = user_command(app, action) else {
        return Err("the keymap file has no such command");
    };
    for ((place, _, missing), value) in PLACES.iter().zip(&values) {
        match value {
            _ if !command.run.contains(place) => {}
            None => return Err(missing),
            Some(value) if value.starts_with('-') => {
                return Err("the name begins with `-`: programs take it for an option");
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Keys of the footer, the most important first.
pub(super) fn footer(app: &App) -> Vec<FooterKey> {
    let dialog = app.screens.top();
    let mut rows = rows_here(app, &app.scopes());
    rows.retain(|row| {
        row.footer > 0
            && dialog.is_none_or(|dialog| {
                let works = row.scope != KeyScope::Global || dialog.lets_through(row.action);
                works && dialog.in_footer(row.scope, row.action)
            })
            && is_called_for(app, row.action)
            && availability(app, row.action).is_ok()
    });
    rows.sort_by_key(|row| row.footer);
    if dialog.is_none() {
        // More than a few keys are not read: the help and the palette have all of them.
        let is_letter = |row: &KeyRow| row.chords[0].typed().is_some() && row.footer < ALWAYS_SHOWN;
        let mut letters = 0;
        rows.retain(|row| {
            letters += usize::from(is_letter(row));
            !is_letter(row) || letters <= MAX_FOOTER_LETTERS
        });
    }
    let types = dialog.is_none() && app.is_typing();
    let key = |row: KeyRow| {
        let label = match row.action {
            // The line being typed is the filter of a list.
            Action::Open if types => ink!("keep"),
            Action::Back if types => ink!("clear"),
            Action::Back if row.scope == KeyScope::Confirm => ink!("no"),
            Action::Open if row.scope == KeyScope::Why => ink!("apply"),
            Action::Waterfall if app.panes.traffic.waterfall.on => ink!("messages"),
            // The words of the protocol for what is not a tool.
            Action::Call if app.pane == PaneId::Resources => ink!("read"),
            Action::Call if app.pane == PaneId::Prompts => ink!("get"),
            action => app.look.keymap.label(action),
        };
        (row.chords[0].to_string(), label, row.action)
    };
    rows.into_iter().map(key).collect()
}

/// Whether there is a reason to name a key that always works.
fn is_called_for(app: &App, action: Action) -> bool {
    if action == Action::ShowInbox {
        return app.pane != PaneId::Inbox
            && app.screens.top().is_none()
            && app.model.inbox().next().is_some();
    }
    if action == Action::Why {
        // A server that works raises no question.
        let target = app.target_server();
        let server = target.as_ref().and_then(|name| app.model.server(name));
        return app.red_row().is_some() || server.is_some_and(|server| is_red(server));
    }
    true
}

/// Whether something is wrong with a server, or may be.
fn is_red(server: &ServerView) -> bool {
    server.state != ServerState::Ready
        || !server.findings.is_empty()
        || !server.breaker.is_closed()
        || !server.tool_breakers.is_empty()
}

/// The keys that work now. While a line is typed, chords that type a character are left out unless
/// the line itself binds them.
fn rows_here(app: &App, scopes: &[KeyScope]) -> Vec<KeyRow> {
    let mut rows = app.look.keymap.rows(scopes);
    if app.is_typing() {
        rows.retain_mut(|row| {
            let own = scopes.first() == Some(&row.scope);
            row.chords.retain(|chord| own || chord.typed().is_none());
            !row.chords.is_empty()
        });
    }
    rows
}

/// The keys that can follow one that waits for another.
pub(super) fn next_keys(app: &App, opens: Action) -> Option<NextKeys> {
    let scope = menu_of(opens)?;
    let rows = app.look.keymap.rows(&[scope]).into_iter();
    let keys = rows.filter(|row| row.action != Action::Back).map(|row| NextKey {
        action: row.action,
        key: Ink::line(&row.chords[0].to_string()),
        help: app.look.keymap.help(row.action),
        disabled: availability(app, row.action).err().map(|reason| app.spelled(reason)),
    });
    let title = match app.target_server() {
        Some(server) if matches!(scope, KeyScope::EditKeys | KeyScope::ServerKeys) => {
            ink!("{}: {}", opens.label(), Model::quoted(&server))
        }
        _ => ink!("{}", opens.label()),
    };
    Some(NextKeys::new(title, scope, keys.collect()))
}

/// Rows of the palette: actions of the screen, other actions, servers, saved calls and filters,
/// themes, and everything the servers offer.
pub(super) fn palette(app: &App) -> Vec<Choice> {
    let keymap = &app.look.keymap;
    let here = app.scopes();
    let mut choices: Vec<Choice> = Vec::new();
    for row in rows_of_screen(app) {
        let pick = Pick::Action(row.action);
        if row.action != Action::Open && !choices.iter().any(|c| c.pick == pick) {
            let hint = keymap.sequence(&here, row.action).map(|keys| Ink::line(&keys));
            let words = ink!("{}", row.action.help());
            choices.push(Choice::new(words, hint.unwrap_or_default(), pick));
        }
    }
    let all = Action::ALL.iter().copied();
    let all = all.filter(|a| !matches!(a, Action::Palette | Action::Confirm | Action::Open));
    let all = all.chain((0..keymap.commands.len()).map(|n| Action::User(n as u8)));
    let all = all.filter(|action| is_of_panes(app, *action) && !is_of_screen(app, *action));
    choices.extend(all.map(|action| action_choice(app, action, &here)));
    let runs = matches!(app.model.engine, EngineState::Running);
    for (name, server) in &app.model.view.servers {
        let mut choice = |words: &'static str, pick| {
            let words = ink!("{} {}", words, Model::name(name));
            choices.push(Choice::new(words, ink!("server"), pick));
        };
        choice("Show only", Pick::Server(name.clone()));
        choice("Diagnostics of", Pick::Diagnostics(name.clone()));
        if app.model.playback.is_none() && runs {
            let start_or_stop = if server.state.is_up() { "Stop" } else { "Start" };
            choice("Restart", Pick::OnServer(ServerAction::Restart, name.clone()));
            choice(start_or_stop, Pick::OnServer(ServerAction::StartStop, name.clone()));
            if server.state == ServerState::Ready {
                choice("Ping", Pick::OnServer(ServerAction::Ping, name.clone()));
            }
        }
    }
    choices.extend(app.screens.calls.choices());
    choices.extend(app.setup.prefs.saved_filters.iter().map(|saved| {
        let words = ink!("Use the traffic filter {}", Ink::line(&saved.name));
        Choice::new(words, ink!("filter"), Pick::Filter(FilterPick::Use(saved.name.clone())))
    }));
    choices.extend(app.look.themes().into_iter().map(|name| {
        let words = ink!("Use the theme {}", Ink::line(&name));
        Choice::new(words, ink!("theme"), Pick::Theme(name))
    }));
    choices.extend(super::calls::offers(&app.model));
    choices
}

/// The keys of the open screen, and those behind one of its keys.
fn rows_of_screen(app: &App) -> Vec<KeyRow> {
    let keymap = &app.look.keymap;
    let mut rows = keymap.rows(&app.screens.top().map(Screen::scopes).unwrap_or_default());
    for (opens, menu) in MENUS {
        if rows.iter().any(|row| row.action == opens) {
            rows.extend(keymap.rows(&[menu]));
        }
    }
    rows
}

/// A row of the palette. An action that is bound only in another pane is performed there.
fn action_choice(app: &App, action: Action, here: &[KeyScope]) -> Choice {
    let pick = Pick::Action(action);
    let words = app.look.keymap.help(action);
    if let Some(pane) = elsewhere(app, action) {
        return Choice::new(words, ink!("in {}", pane.name()), pick);
    }
    let disabled = availability(app, action).err().map(|reason| app.spelled(reason));
    let hint = app.look.keymap.sequence(here, action).map(|keys| Ink::line(&keys));
    Choice { words, hint: hint.unwrap_or_default(), pick, disabled }
}

/// Whether an action works outside of overlays and screens.
fn is_of_panes(app: &App, action: Action) -> bool {
    let mut scopes = app.look.keymap.scopes_of(action).peekable();
    let unbound = scopes.peek().is_none();
    unbound || scopes.any(|s| s.is_pane() || matches!(s, KeyScope::Global | KeyScope::List))
}

/// Whether the open screen binds an action.
pub(super) fn is_of_screen(app: &App, action: Action) -> bool {
    let scopes = app.screens.top().map(Screen::scopes).unwrap_or_default();
    app.look.keymap.scopes_of(action).any(|scope| scopes.contains(&scope))
}

/// Actions of one pane that have no key there.
const KEYLESS: [(Action, PaneId); 2] =
    [(Action::Page, PaneId::Traffic), (Action::SaveFilter, PaneId::Traffic)];

/// The pane an action belongs to, if it is bound neither in the current pane nor globally.
pub(super) fn elsewhere(app: &App, action: Action) -> Option<PaneId> {
    if let Some((_, pane)) = KEYLESS.into_iter().find(|(keyless, _)| *keyless == action) {
        return (app.pane != pane).then_some(pane);
    }
    let here = app.panes.get(app.pane).scopes();
    let everywhere = |scope: &KeyScope| {
        here.contains(scope) || matches!(scope, KeyScope::Global | KeyScope::List)
    };
    if app.look.keymap.scopes_of(action).any(|scope| everywhere(&scope)) {
        return None;
    }
    app.look.keymap.scopes_of(action).find_map(PaneId::from_scope)
}

/// The help: the keys of the open screen, or every key that works now and any problem with the
/// user's files.
pub(super) fn help(app: &App) -> TextReader {
    let width = reader_width(app.size);
    let mut lines = Vec::new();
    if let Some((title, scopes)) = app.screens.top().and_then(Screen::help) {
        for (scope, heading) in scopes {
            lines.push(HelpLine::Heading(heading));
            for (chords, help) in app.look.keymap.sentences(*scope) {
                lines.push(HelpLine::Keys(Ink::line(&chords), ink!("{}", help), Role::Text));
            }
        }
        return TextReader::help(ink!("{}", title), width, move |width| help_text(&lines, width));
    }
    lines.extend(app.look.problem.clone().map(HelpLine::Problem));
    let mut last = None;
    let rows = rows_here(app, &app.scopes());
    for row in &rows {
        if last != Some(row.scope) {
            lines.push(HelpLine::Heading(row.scope.name()));
            last = Some(row.scope);
        }
        let keys: Vec<String> = row.chords.iter().map(Chord::to_string).collect();
        let mut help = app.look.keymap.help(row.action);
        let mut role = Role::Text;
        if let Err(reason) = availability(app, row.action) {
            help.push(ink!("  ({})", app.spelled(reason)));
            role = Role::Faint;
        }
        lines.push(HelpLine::Keys(Ink::line(&keys.join("  ")), help, role));
    }
    // What follows a key that waits for another.
    for (opens, menu) in
        MENUS.into_iter().filter(|(opens, _)| rows.iter().any(|row| row.action == *opens))
    {
        lines.push(HelpLine::Heading(menu.name()));
        for next in next_keys(app, opens).iter().flat_map(NextKeys::keys) {
            let keys = app.look.keymap.sequence(&app.scopes(), next.action).unwrap_or_default();
            let mut help = next.help.clone();
            if let Some(reason) = &next.disabled {
                help.push(ink!("  ({})", reason));
            }
            let role = if next.disabled.is_some() { Role::Faint } else { Role::Text };
            lines.push(HelpLine::Keys(Ink::line(&keys), help, role));
        }
    }
    lines.push(HelpLine::Heading("mouse"));
    for (what, does) in MOUSE {
        lines.push(HelpLine::Keys(ink!("{}", *what), ink!("{}", *does), Role::Text));
    }
    let title = ink!("keys: {}", app.pane.name());
    TextReader::help(title, width, move |width| help_text(&lines, width))
}

/// A line of the help, before it is wrapped.
enum HelpLine {
    Heading(&'static str),
    Problem(Ink),
    /// Keys, what they do, and how that is drawn.
    Keys(Ink, Ink, Role),
}

/// The help in a width.
fn help_text(lines: &[HelpLine], width: u16) -> Doc {
    let mut doc = Doc::new(width);
    for line in lines {
        match line {
            HelpLine::Heading(text) => _ = doc.heading(*text),
            HelpLine::Problem(text) => _ = doc.text(0, text, Role::Error),
            HelpLine::Keys(keys, help, role) => key_line(keys, help, *role, &mut doc),
        }
    }
    doc
}

/// Writes keys and, beside them, their help text wrapped to as many lines as needed.
fn key_line(keys: &Ink, help: &Ink, role: Role, doc: &mut Doc) {
    /// Width of the keys, in columns.
    const KEY_COLUMNS: usize = 19;
    let room = doc.width().saturating_sub(KEY_COLUMNS as u16).max(10);
    let mut lead = ink!("  {:<16} ", keys);
    // Several keys that are longer than the column have a row of their own.
    if usize::from(crate::widget::width(&lead)) > KEY_COLUMNS {
        doc.line(vec![(lead, Role::Key)]);
        lead = ink!("{:1$}", "", KEY_COLUMNS);
    }
    for row in crate::widget::doc::wrap(help.as_str(), room) {
        doc.line(vec![(lead, Role::Key), (Ink::line(row), role)]);
        lead = ink!("{:1$}", "", KEY_COLUMNS);
    }
}
