//! Reads an entry one key at a time: expands values, records their origins and reports their
//! problems.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::diagnostics::{Origins, Problems, ValueOrigin};
use crate::environment::clean_path;
use crate::expand::{ExpandScope, Expanded, expand};
use crate::shape::{KnownKey, Shape, parse_bytes};
use crate::syntax::{NodeKind, SyntaxNode};
use crate::{Diagnostic, Severity};
use base::pointer::child_pointer;
use base::{Secret, ServerName};

/// The context and the results of reading an entry.
pub(crate) struct EntryReader<'a, 'p> {
    pub(crate) entry: &'p ServerEntry<'p>,
    /// Its settings, converted by the table of keys.
    pub(crate) set: Map<String, Value>,
    pub(crate) problems: &'p mut Problems<'a>,
    pub(crate) scope: &'p ExpandScope<'p>,
    pub(crate) origins: &'p mut Origins,
    /// Inputs without an answer, with where they are used.
    pub(crate) unanswered: Vec<(String, Diagnostic)>,
    /// Secrets found within values that are not secret as a whole, such as arguments.
    pub(crate) secrets: Vec<Secret>,
    /// Files read besides the configuration.
    pub(crate) reads: Vec<PathBuf>,
    /// Base folder of relative paths.
    pub(crate) folder: PathBuf,
}

/// One server's entry.
pub(crate) struct ServerEntry<'n> {
    pub(crate) name: ServerName,
    /// Byte range of its name.
    pub(crate) key_range: Range<usize>,
    pub(crate) node: &'n SyntaxNode,
    pub(crate) pointer: String,
}

/// Pointers to a value in the file and in the effective document.
#[derive(Clone)]
pub(crate) struct ValuePlace {
    pub(crate) pointer: String,
    pub(crate) effective: String,
}

impl ValuePlace {
    pub(crate) fn child(&self, key: &str) -> Self {
        Self {
            pointer: child_pointer(&self.pointer, key),
            effective: child_pointer(&self.effective, key),
        }
    }
}

/// Whether this looks like the name of an environment variable: `HOME`, `api_key`.
fn is_variable(name: &str) -> bool {
    let mut all = name.chars();
    let starts = all.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() > 1 && all.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl ServerEntry<'_> {
    pub(crate) fn place(&self) -> ValuePlace {
        let effective = child_pointer("/servers", self.name.as_str());
        ValuePlace { pointer: self.pointer.clone(), effective }
    }
}

/// Whether a text begins with a variable as the shell of Windows reads it: `%NAME%`.
fn is_windows_variable(text: &str) -> bool {
    let name = text.strip_prefix('%').and_then(|rest| rest.split_once('%'));
    name.is_some_and(|(name, _)| is_variable(name))
}

/// Whether a text is a variable of a template: `{{NAME}}`.
fn is_template_variable(text: &str) -> bool {
    let name = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    name.is_some_and(|name| is_variable(name.trim()))
}

/// The letter of the first escape for a control character in a path of Windows: someone wrote
/// `C:\temp` with one backslash, and got a tab.
fn eaten_escape(text: &str) -> Option<char> {
    let has_drive = text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && text.as_bytes().get(1) == Some(&b':');
    let escape = |c: char| {
        Some(match c {
            '\t' => 't',
            '\n' => 'n',
            '\r' => 'r',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            _ => return None,
        })
    };
    text.chars().find_map(escape).filter(|_| has_drive)
}

impl<'a, 'p> EntryReader<'a, 'p> {
    pub(crate) fn new(
        entry: &'p ServerEntry<'p>,
        problems: &'p mut Problems<'a>,
        scope: &'p ExpandScope<'p>,
        origins: &'p mut Origins,
        folder: &Path,
    ) -> Self {
        let (set, unanswered, secrets, reads) = (Map::new(), Vec::new(), Vec::new(), Vec::new());
        let folder = folder.to_path_buf();
        Self { entry, set, problems, scope, origins, unanswered, secrets, reads, folder }
    }

    /// Reports a problem with the value of a key, or with the entry when it lacks the key.
    pub(crate) fn report(
        &mut self,
        rule: (&str, Severity),
        key: &str,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let entry = self.entry;
        if let Some(node) = entry.node.get(key) {
            self.problems.report(rule, &node.range, &child_pointer(&entry.pointer, key), message)
        } else {
            let brace = entry.node.range.start..entry.node.range.start + 1;
            self.problems.report(rule, &brace, &entry.pointer, message)
        }
    }

    /// Expands a text, reports what cannot be expanded, and records the origin.
    pub(crate) fn expanded(&mut self, node: &SyntaxNode, place: &ValuePlace) -> Option<String> {
        let written = node.text()?;
        let Expanded { text, via, secrets } = match expand(written, self.scope) {
            Ok(expanded) => expanded,
            Err(refusals) => {
                // Offsets are into the decoded text, and match the file only without escapes.
                let raw = self.problems.source.text().get(node.range.clone()).unwrap_or_default();
                let exact = raw.len() == written.len() + 2;
                for refusal in refusals {
                    let base = node.range.start + 1;
                    let part = base + refusal.range.start..base + refusal.range.end;
                    let range = if exact { part } else { node.range.clone() };
                    let problem =
                        self.problems.error(refusal.rule, &range, &place.pointer, refusal.message);
                    problem.help(refusal.help);
                    // An unanswered input is not an error in the file.
                    if let Some(id) = refusal.unanswered
                        && let Some(question) = self.problems.list.pop()
                    {
                        self.unanswered.push((id, question));
                    }
                }
                return None;
            }
        };
        self.secrets.extend(secrets);
        if text.contains('\0') {
            let message = "a NUL character cannot be passed to a program";
            self.problems.error("config/nul", &node.range, &place.pointer, message);
            return None;
        }
        if via.is_empty() {
            self.unexpanded(written, node, &place.pointer);
        }
        self.trace(&place.effective, node, via);
        Some(text)
    }

    /// Warns about syntax that a shell would expand, but mcpdeck does not.
    fn unexpanded(&mut self, written: &str, node: &SyntaxNode, pointer: &str) {
        if let Some(escape) = eaten_escape(written) {
            let message =
                format!("a path of Windows with `\\{escape}`, which is a control character");
            let problem = self.problems.warn("config/unexpanded", &node.range, pointer, message);
            problem.help(format!("write `\\\\` for one backslash: `\\\\{escape}`"));
            return;
        }
        if written.contains(char::is_whitespace) {
            // It may be a shell script.
            return;
        }
        if pointer.contains("/args/")
            && let Some((message, help)) = misread_argument(written)
        {
            self.problems.warn("config/command-line", &node.range, pointer, message).help(help);
            return;
        }
        let (first, rest) = written.split_once('/').unwrap_or((written, ""));
        // The text itself is not repeated: a secret may begin like that.
        let (what, help) = match first.strip_prefix('$') {
            Some(name) if is_variable(name) => ("$NAME", "write `${NAME}` for its value"),
            None if first == "~" && !rest.is_empty() => ("~", "write `${userHome}`"),
            Some(name) if name.starts_with("env:") => ("$env:NAME", "write `${env:NAME}`"),
            Some(name) if name.starts_with("(pwd)") => ("$(pwd)", "write `${cwd}`"),
            None if is_windows_variable(written) => ("%NAME%", "write `${NAME}` for its value"),
            None if is_template_variable(written) => ("{{NAME}}", "write `${NAME}` for its value"),
            _ => return,
        };
        let message = format!("`{what}` is passed on as it stands: no shell expands it");
        self.problems.warn("config/unexpanded", &node.range, pointer, message).help(help);
    }

    /// Records the position of a value, and its written form if it was expanded.
    pub(crate) fn trace(&mut self, effective: &str, node: &SyntaxNode, via: Vec<String>) {
        let at = self.problems.source.position(node.range.start);
        let written = if via.is_empty() { None } else { node.text().map(Secret::new) };
        self.origins.insert(effective.to_owned(), ValueOrigin { at, via, written });
    }

    /// A value in the form serde reads: texts expanded, sizes in bytes, durations in seconds.
    /// `None` when it does not fit or part of it cannot be expanded, which has been reported.
    pub(crate) fn settled(
        &mut self,
        shape: &Shape,
        node: &SyntaxNode,
        place: &ValuePlace,
    ) -> Option<Value> {
        let value = match (shape, &node.kind) {
            (Shape::Either(shapes), _) => {
                let shape = shapes.iter().find(|shape| shape.takes(node))?;
                return self.settled(shape, node, place);
            }
            (Shape::Text, _) | (Shape::Scalar, NodeKind::Text(_)) => {
                return self.expanded(node, place).map(Value::String);
            }
            (Shape::Glob, _) => {
                let text = self.expanded(node, place)?;
                if let Err(error) = globset::Glob::new(&text) {
                    let message = format!("this is not a glob: {}", error.kind());
                    self.problems.error("config/glob", &node.range, &place.pointer, message);
                }
                return Some(text.into());
            }
            (Shape::Folder, _) => {
                let text = self.expanded(node, place)?;
                let uri = folder_uri(&text, &self.folder).map_err(|message| {
                    self.problems
                        .error("config/root", &node.range, &place.pointer, message)
                        .help("write a folder, or a `file://` URI");
                });
                return uri.ok().map(Value::String);
            }
            (Shape::List(of), NodeKind::List(elements)) => {
                let each = elements.iter().enumerate();
                // Convert all of them before failing, so that the problems of all are reported.
                let all: Vec<Option<Value>> = each
                    .map(|(i, element)| self.settled(of, element, &place.child(&i.to_string())))
                    .collect();
                return all.into_iter().collect();
            }
            (Shape::Map(of), NodeKind::Object(members)) => {
                let each = members.iter().filter_map(|m| {
                    Some((m.key.clone(), self.settled(of, &m.value, &place.child(&m.key))?))
                });
                return Some(Value::Object(each.collect()));
            }
            (Shape::Object(of), NodeKind::Object(_)) => {
                return Some(self.settled_keys(of.keys.iter(), node, place).into());
            }
            (Shape::Scalar, NodeKind::Number(written)) => written.as_str().into(),
            (Shape::Scalar, NodeKind::Bool(value)) => value.to_string().into(),
            (Shape::Bytes, NodeKind::Text(text)) => parse_bytes(text)?.into(),
            (Shape::Integer { .. } | Shape::Bytes, _) => {
                let whole = |n: &f64| n.fract() == 0.0 && *n >= 0.0;
                (number(node).filter(whole)? as u64).into()
            }
            (_, NodeKind::Number(_)) => number(node)?.into(),
            _ => node.to_json(),
        };
        self.trace(&place.effective, node, Vec::new());
        Some(value)
    }

    /// The values of these keys, each under the main spelling of its setting.
    pub(crate) fn settled_keys<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k KnownKey>,
        node: &SyntaxNode,
        place: &ValuePlace,
    ) -> Map<String, Value> {
        let values = keys.filter_map(|key| {
            let name = key.alias_of.unwrap_or(key.name);
            let (pointer, effective) =
                (child_pointer(&place.pointer, key.name), child_pointer(&place.effective, name));
            let value =
                self.settled(&key.shape, node.get(key.name)?, &ValuePlace { pointer, effective })?;
            let millis = value.as_f64().filter(|_| key.alias_of.is_some());
            Some((name.to_owned(), millis.map_or(value, |millis| (millis / 1e3).into())))
        });
        values.collect()
    }

    /// Deserialises a part of the settings. The table of keys rules out nearly all failures; one
    /// that remains is reported unless the entry has an error already.
    pub(crate) fn part<T: DeserializeOwned + Default>(&mut self, value: &Value) -> T {
        T::deserialize(value).unwrap_or_else(|error| {
            let entry = self.entry;
            let here =
                |found: &Diagnostic| found.is_error() && found.pointer.starts_with(&entry.pointer);
            if !self.problems.list.iter().any(here) {
                let message = format!("a setting cannot be used: {error}");
                self.problems
                    .error("config/value", &entry.node.range, &entry.pointer, message)
                    .help("`mcpdeck help configuration` lists the settings and their values");
            }
            T::default()
        })
    }
}

/// A folder as a `file://` URI; a relative one is resolved against `base`.
fn folder_uri(text: &str, base: &Path) -> Result<String, String> {
    if let Some((scheme, _)) = text.split_once("://") {
        let parsed = url::Url::parse(text).map_err(|e| format!("this is not a URI: {e}"))?;
        if scheme.eq_ignore_ascii_case("file") {
            return Ok(parsed.into());
        }
        return Err(format!("a root must be a folder, not a `{scheme}:` address"));
    }
    url::Url::from_directory_path(clean_path(&base.join(text)))
        .map(|url| url.as_str().trim_end_matches('/').to_owned())
        .map_err(|()| "this is not an absolute folder".to_owned())
}

/// A number as written.
fn number(node: &SyntaxNode) -> Option<f64> {
    if let NodeKind::Number(written) = &node.kind { written.parse().ok() } else { None }
}

/// What is wrong with an argument that was copied from a page or a command line, and the help.
fn misread_argument(written: &str) -> Option<(String, &'static str)> {
    const FOR_SHELLS: [&str; 9] =
        ["|", "||", "&&", ">", ">>", "2>&1", "2>/dev/null", ">/dev/null", "&>/dev/null"];
    if FOR_SHELLS.contains(&written) {
        let message = format!("`{written}` is passed on as it stands: no shell reads it");
        let help = "leave it out, or write \"command\": \"sh\" and \"args\": [\"-c\", ...]";
        return Some((message, help));
    }
    // Word processors make a dash of a hyphen, or of two.
    let first = written.chars().next()?;
    let is_dash = matches!(first, '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{ff0d}');
    let is_option = written.chars().nth(1).is_some_and(char::is_alphanumeric);
    (is_dash && is_option).then(|| {
        let message = format!("`{first}` (U+{:04X}) does not begin an option", u32::from(first));
        (message, "write `-`, or `--` before a word")
    })
}
