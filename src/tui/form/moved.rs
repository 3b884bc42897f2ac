//! What is remembered by place (text that is no value yet, choices, folds) goes with the places when
//! items move or keys are renamed. Otherwise what was typed in one item would be shown in another,
//! and the half of it that happened to be a value would be sent.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::pointer;
use super::row::Row;
use super::seed::constants;
use super::state::FormState;

impl FormState {
    /// Items of a list moved; `to` gives where the item of an index is now, `None` when it is gone.
    pub(super) fn items_moved(&mut self, list: &str, to: impl Fn(usize) -> Option<usize>) {
        self.places_moved(|place| {
            let below = place.strip_prefix(list).and_then(|rest| rest.strip_prefix('/'));
            let (token, rest) = match below {
                Some(below) => below.split_at(below.find('/').unwrap_or(below.len())),
                None => return Some(place.to_owned()),
            };
            let Ok(index) = token.parse::<usize>() else { return Some(place.to_owned()) };
            to(index).map(|index| format!("{list}/{index}{rest}"))
        });
    }

    /// A place has another name.
    pub(super) fn place_renamed(&mut self, at: &str, new: &str) {
        self.places_moved(|place| {
            let rest = place.strip_prefix(at).filter(|_| pointer::is_within(place, at));
            Some(rest.map_or_else(|| place.to_owned(), |rest| format!("{new}{rest}")))
        });
    }

    /// A place is gone, and everything below it.
    pub(super) fn place_gone(&mut self, at: &str) {
        self.places_moved(|place| (!pointer::is_within(place, at)).then(|| place.to_owned()));
    }

    /// What was typed in an item is in its copy too.
    pub(super) fn drafts_copied(&mut self, from: &str, to: &str) {
        let inside = self.drafts.iter().filter(|(place, _)| pointer::is_within(place, from));
        let copies: Vec<_> =
            inside.map(|(place, d)| (format!("{to}{}", &place[from.len()..]), d.clone())).collect();
        self.drafts.extend(copies);
    }

    /// What was typed within a place and is no value is dropped, together with the part of it that
    /// was one: it must not be what is sent instead.
    pub(super) fn drop_drafts(&mut self, at: &str) {
        let within = |place: &&String| pointer::is_within(place, at);
        let places: Vec<String> = self.drafts.keys().filter(within).cloned().collect();
        for place in places {
            self.drafts.remove(&place);
            let parent = pointer::split(&place).map(|(parent, _)| parent);
            let parent = parent.and_then(|parent| pointer::get(self.value.as_ref(), parent));
            if parent.is_some_and(Value::is_object) {
                pointer::remove(&mut self.value, &place);
            }
        }
    }

    /// Objects that come into being because something in them is set begin with their constants.
    pub(super) fn begin_above(&mut self, at: &str) {
        for (end, _) in at.match_indices('/').skip(1) {
            let above = &at[..end];
            if pointer::get(self.value.as_ref(), above).is_some() {
                continue;
            }
            let field = self.rows.iter().filter(|row| row.pointer == above).find_map(Row::field);
            let Some(field) = field else { continue };
            let constants = constants(&self.document, &field.merged);
            if !constants.is_empty() {
                pointer::set(&mut self.value, above, Value::Object(constants));
            }
        }
    }

    fn places_moved(&mut self, to: impl Fn(&str) -> Option<String>) {
        fn keyed<T>(map: &mut HashMap<String, T>, to: impl Fn(&str) -> Option<String>) {
            let moved = std::mem::take(map).into_iter();
            map.extend(moved.filter_map(|(place, kept)| Some((to(&place)?, kept))));
        }
        let drafts: BTreeMap<_, _> = std::mem::take(&mut self.drafts);
        let drafts = drafts.into_iter();
        self.drafts = drafts.filter_map(|(place, draft)| Some((to(&place)?, draft))).collect();
        keyed(&mut self.decisions.picks, &to);
        keyed(&mut self.decisions.types, &to);
        keyed(&mut self.decisions.folds, &to);
        let as_json = std::mem::take(&mut self.decisions.as_json).into_iter();
        self.decisions.as_json = as_json.filter_map(|place| to(&place)).collect();
        let stash = std::mem::take(&mut self.stash).into_iter();
        self.stash =
            stash.filter_map(|((at, a, b), kept)| Some(((to(&at)?, a, b), kept))).collect();
        self.editor = None;
    }
}
