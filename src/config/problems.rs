//! Collects the problems of one file, each with its place.

use std::ops::Range;

use crate::base::ServerName;
use crate::config::source::Source;
use crate::config::{Diagnostic, Severity};

/// Problems that are shown with their line; later ones are told by their place alone.
const EXCERPTS: usize = 1_000;

/// Problems found so far.
pub(crate) struct Problems<'a> {
    pub(crate) source: &'a Source,
    /// The server whose entry is being looked at.
    pub(crate) server: Option<ServerName>,
    pub(crate) list: Vec<Diagnostic>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        Self { source, server: None, list: Vec::new() }
    }

    /// Adds an error; the result lets the caller add help.
    pub(crate) fn error(
        &mut self,
        rule: &str,
        range: &Range<usize>,
        pointer: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.report((rule, Severity::Error), range, pointer, message)
    }

    /// Adds a warning.
    pub(crate) fn warn(
        &mut self,
        rule: &str,
        range: &Range<usize>,
        pointer: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.report((rule, Severity::Warning), range, pointer, message)
    }

    /// Adds a note.
    pub(crate) fn note(
        &mut self,
        rule: &str,
        range: &Range<usize>,
        pointer: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.report((rule, Severity::Note), range, pointer, message)
    }

    fn report(
        &mut self,
        (rule, severity): (&str, Severity),
        range: &Range<usize>,
        pointer: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        // Of a file that is wrong everywhere a person reads the first ones.
        let mut problem = if self.list.len() < EXCERPTS {
            self.source.diagnostic(rule, severity, range.clone(), message)
        } else {
            let at = self.source.position(range.start);
            Diagnostic { at, ..Diagnostic::new(rule, severity, message) }
        };
        pointer.clone_into(&mut problem.pointer);
        problem.server.clone_from(&self.server);
        self.list.push(problem);
        let last = self.list.len() - 1;
        &mut self.list[last]
    }
}

impl Diagnostic {
    /// Says what to do.
    pub(crate) fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }
}

/// The pointer of a child (RFC 6901).
pub(crate) fn child(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The known word closest to `asked`, when it is close enough to be meant. The time goes with the
/// product of the lengths, so nothing is looked for that nobody types.
pub(crate) fn closest<'a>(
    asked: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    const LONGEST: usize = 64;
    const MOST: usize = 1_000;
    let plain = |s: &str| -> String {
        s.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
    };
    if asked.len() > LONGEST {
        return None;
    }
    let wanted = plain(asked);
    let most = (wanted.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter(|word| word.len() <= LONGEST)
        .take(MOST)
        .map(|word| (strsim::damerau_levenshtein(&wanted, &plain(word)), word))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}
