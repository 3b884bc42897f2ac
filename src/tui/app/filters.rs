//! Saved filters of the traffic: asked for a name, listed, used, renamed, removed, taken back.

use super::{App, Redraw};
use crate::tui::action::Action;
use crate::tui::effect::Effect;
use crate::tui::ink::{Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::overlay::{Ask, Choice, FilterPick, Named, Overlay, Palette, Pick};
use crate::tui::pane::{Pane as _, PaneId};
use crate::tui::prefs::SavedFilter;
use crate::tui::theme::Role;

impl App {
    /// Does an action on the saved filters.
    pub(super) fn filter_action(&mut self, action: Action, effects: &mut Vec<Effect>) {
        match action {
            Action::SaveFilter => self.ask_filter_name(),
            Action::Filters => self.open_filters(),
            Action::UndoFilter => {
                self.undo_filters();
                self.remember(effects);
            }
            _ => {}
        }
    }

    fn ask_filter_name(&mut self) {
        let traffic = &self.panes.traffic;
        let text = traffic.filter().map_or("", |filter| filter.text()).trim().to_owned();
        let name = traffic.saved.of_text(&text).map(|saved| saved.name.clone());
        let ask = Ask::new(
            Named::Filter(text),
            name.as_deref().unwrap_or_default(),
            traffic.saved.names(),
        );
        self.push_overlay(Overlay::Ask(ask));
    }

    /// Lists the saved filters.
    pub(super) fn open_filters(&mut self) {
        let choices = self.panes.traffic.saved.all().iter().rev().map(|saved| Choice {
            words: Ink::line(&saved.name),
            hint: Ink::line(&saved.text),
            pick: Pick::Filter(FilterPick::Use(saved.name.clone())),
            disabled: None,
        });
        let mut palette = Palette::new(ink!("saved filters"), choices.collect());
        palette.scopes = &[Scope::SavedFilters, Scope::Text];
        self.push_overlay(Overlay::Palette(palette));
    }

    /// Does what was chosen.
    pub(super) fn filter_pick(&mut self, pick: FilterPick, effects: &mut Vec<Effect>) {
        let saved = &mut self.panes.traffic.saved;
        match pick {
            FilterPick::Use(name) => {
                let Some(text) = saved.named(&name).map(|filter| filter.text.clone()) else {
                    return;
                };
                self.show(PaneId::Traffic);
                if let Some(filter) = self.panes.traffic.filter_mut() {
                    filter.set(&text);
                }
                self.remember_filter();
                self.mark(Redraw::Now);
                return;
            }
            FilterPick::AskRename(name) => {
                let names = saved.names();
                let ask = Ask::new(Named::Rename(name.clone()), &name, names);
                return self.push_overlay(Overlay::Ask(ask));
            }
            FilterPick::Save { name, text } => {
                let shown = Ink::line(&name);
                let replaced = saved.save(SavedFilter { name, text });
                let mut said = ink!("{} {}", if replaced { "replaced" } else { "saved" }, shown);
                said.push(self.spelled("   {filters} lists the saved filters"));
                self.toast(said, Role::Ok);
            }
            FilterPick::Rename { from, to } => {
                saved.rename(&from, &to);
                self.open_filters();
            }
            FilterPick::Remove(name) => {
                if saved.remove(&name) {
                    let mut said = ink!("removed {}", Ink::line(&name));
                    said.push(self.spelled("   {undo-filter} brings it back"));
                    self.toast(said, Role::Ok);
                }
                self.open_filters();
            }
            FilterPick::Undo => {
                self.undo_filters();
                self.open_filters();
            }
        }
        self.remember(effects);
    }

    fn undo_filters(&mut self) {
        if self.panes.traffic.saved.undo() {
            self.toast(ink!("undone"), Role::Ok);
        } else {
            self.toast(ink!("the saved filters were not changed"), Role::Warning);
        }
    }
}
