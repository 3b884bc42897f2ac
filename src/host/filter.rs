//! Which tools of a server are visible (`tools.allow`, `tools.deny`): globs over names, deny wins.

use std::borrow::Cow;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::config::ToolFilter;

/// A compiled filter.
pub struct Visible {
    allow: Option<GlobSet>,
    deny: GlobSet,
}

impl Visible {
    /// Compiles a filter. A pattern that is no glob matches nothing; the configuration reports it.
    pub fn new(filter: &ToolFilter) -> Self {
        let allow = (!filter.allow.is_empty()).then(|| globs(&filter.allow));
        Self { allow, deny: globs(&filter.deny) }
    }

    /// Whether a tool is shown.
    pub fn shows(&self, name: &str) -> bool {
        let name = &*literal(name);
        self.allow.as_ref().is_none_or(|allow| allow.is_match(name)) && !self.deny.is_match(name)
    }
}

/// On Windows globs take a backslash for a slash; in names of tools these are two characters. One
/// that is private to us, and so in no name, stands for it there.
fn literal(text: &str) -> Cow<'_, str> {
    if cfg!(windows) && text.contains('\\') {
        Cow::Owned(text.replace('\\', "\u{f05c}"))
    } else {
        Cow::Borrowed(text)
    }
}

fn globs(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        // Tool names are no paths: `*` crosses `/`, and a backslash is a character like another.
        let pattern = literal(pattern);
        let glob =
            GlobBuilder::new(&pattern).literal_separator(false).backslash_escape(false).build();
        if let Ok(glob) = glob {
            set.add(glob);
        }
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(allow: &[&str], deny: &[&str], name: &str) -> bool {
        let own = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        Visible::new(&ToolFilter { allow: own(allow), deny: own(deny) }).shows(name)
    }

    #[test]
    fn an_empty_filter_shows_everything_and_deny_wins() {
        assert!(shows(&[], &[], "any"));
        assert!(shows(&["read_*"], &[], "read_file"));
        assert!(!shows(&["read_*"], &[], "write_file"));
        assert!(!shows(&["*"], &["write_*"], "write_file"));
        assert!(shows(&["a/*"], &[], "a/b/c"));
    }

    #[test]
    fn an_allow_list_of_nothing_but_nonsense_shows_nothing() {
        assert!(!shows(&["[broken"], &[], "x"));
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn deny_wins_and_a_plain_name_is_that_name_only(
            allow in prop::collection::vec("[ab*?\\[\\]{}!,\\\\-]{0,6}", 0..4),
            name in "[ab/\\\\]{1,6}", other in "[ab/\\\\]{1,6}",
        ) {
            let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
            prop_assert!(!shows(&allow, &[&name], &name));
            prop_assert!(!shows(&allow, &["*"], &name));
            prop_assert_eq!(shows(&[&name], &[], &other), name == other);
            prop_assert!(allow.is_empty() || shows(&allow, &[], &name) || !shows(&allow, &[], &name));
        }
    }
}
