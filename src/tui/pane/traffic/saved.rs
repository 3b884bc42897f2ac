//! Saved filters: each under a name of its own, with the last change kept to be taken back.

use crate::tui::prefs::SavedFilter;

/// Most of them; the oldest go first.
const MOST: usize = 200;

/// The saved filters, newest last.
#[derive(Clone, Debug, Default)]
pub struct SavedFilters {
    all: Vec<SavedFilter>,
    before: Option<Vec<SavedFilter>>,
}

impl SavedFilters {
    /// Those that were remembered. Of two with one name the newer stays.
    pub fn remembered(filters: &[SavedFilter]) -> Self {
        let mut saved = Self::default();
        for filter in filters {
            saved.put(filter.clone());
        }
        saved
    }

    /// All of them.
    pub fn all(&self) -> &[SavedFilter] {
        &self.all
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.all.iter().map(|filter| filter.name.clone()).collect()
    }

    /// The one of this name.
    pub fn named(&self, name: &str) -> Option<&SavedFilter> {
        self.all.iter().find(|filter| filter.name == name)
    }

    /// The one with this text, newest first.
    pub fn of_text(&self, text: &str) -> Option<&SavedFilter> {
        self.all.iter().rev().find(|filter| filter.text == text)
    }

    /// The one after that with this text; the first when none has it.
    pub fn after(&self, text: &str) -> Option<&SavedFilter> {
        let at = self.all.iter().position(|filter| filter.text == text);
        self.all.get(at.map_or(0, |at| (at + 1) % self.all.len()))
    }

    /// Whether a change can be taken back.
    pub const fn can_undo(&self) -> bool {
        self.before.is_some()
    }

    fn put(&mut self, filter: SavedFilter) -> bool {
        let replaced = self.named(&filter.name).is_some();
        self.all.retain(|other| other.name != filter.name);
        self.all.push(filter);
        let over = self.all.len().saturating_sub(MOST);
        self.all.drain(..over);
        replaced
    }

    /// Saves one; gives whether one of its name was replaced.
    pub fn save(&mut self, filter: SavedFilter) -> bool {
        self.before = Some(self.all.clone());
        self.put(filter)
    }

    /// Calls one otherwise; gives whether it was there and the name was free.
    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        let free = from == to || self.named(to).is_none();
        let before = self.all.clone();
        let found = self.all.iter_mut().find(|filter| free && filter.name == from);
        let Some(filter) = found else { return false };
        to.clone_into(&mut filter.name);
        self.before = Some(before);
        true
    }

    /// Removes one; gives whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        if self.named(name).is_none() {
            return false;
        }
        self.before = Some(self.all.clone());
        self.all.retain(|filter| filter.name != name);
        true
    }

    /// Takes the last change back, or makes it again; gives whether there was one.
    pub fn undo(&mut self) -> bool {
        let Some(before) = self.before.take() else { return false };
        self.before = Some(std::mem::replace(&mut self.all, before));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(name: &str, text: &str) -> SavedFilter {
        SavedFilter { name: name.into(), text: text.into() }
    }

    #[test]
    fn a_name_stands_for_one_filter_and_every_change_can_be_taken_back() {
        let mut saved = SavedFilters::remembered(&[filter("a", "1"), filter("a", "2")]);
        assert_eq!(saved.all(), [filter("a", "2")]);
        assert!(!saved.undo(), "nothing was changed yet");
        assert!(!saved.save(filter("b", "3")));
        assert!(!saved.rename("b", "a"), "the name is taken");
        assert!(saved.rename("b", "c") && saved.named("c").is_some());
        assert!(saved.undo() && saved.named("b").is_some());
        assert!(saved.save(filter("b", "4")), "it is replaced");
        assert!(saved.undo());
        assert_eq!(saved.named("b"), Some(&filter("b", "3")));
        assert!(saved.remove("b") && !saved.remove("b"));
        assert!(saved.undo());
        assert_eq!(saved.after("2"), Some(&filter("b", "3")));
        assert_eq!(saved.after("3"), Some(&filter("a", "2")));
        assert_eq!(saved.after("else"), Some(&filter("a", "2")));
    }
}
