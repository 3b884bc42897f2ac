//! The one table of key bindings: it drives dispatch, footer, help, palette, `--keys` and README.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use crossterm::event::{KeyEvent, KeyModifiers};
use toml::Spanned;

use crate::prelude::*;
use crate::user_command::UserCommand;
use terminal::chord::Chord;
use terminal::theme::line_at;

mod table;
pub use table::BINDINGS;

named! {
    /// Where a binding applies. A key is looked up from the innermost scope outwards.
    pub enum KeyScope {
        /// Everywhere.
        Global = "global",
        /// Wherever rows are listed or text is scrolled.
        List = "list",
        /// The list of servers at the left.
        ServerList = "server-list",
        /// The servers pane.
        Servers = "servers",
        /// The tools pane.
        Tools = "tools",
        /// The resources pane.
        Resources = "resources",
        /// The prompts pane.
        Prompts = "prompts",
        /// The traffic pane.
        Traffic = "traffic",
        /// The logs pane.
        Logs = "logs",
        /// The metrics pane.
        Metrics = "metrics",
        /// The cache pane.
        Cache = "cache",
        /// The suites of tests.
        Tests = "tests",
        Inbox = "inbox",
        /// The configuration pane.
        Config = "config",
        /// A recording shown instead of running servers.
        Playback = "playback",
        /// A question with yes and no.
        Confirm = "confirm",
        /// Commands that await approval.
        Consent = "consent",
        /// After the key that begins a change of the file.
        EditKeys = "edit-keys",
        /// After the key that begins what is rarely done with a server.
        ServerKeys = "server-keys",
        /// Servers of other programs to take over.
        Import = "import",
        /// A server being added.
        AddServer = "add-server",
        /// A value the configuration asks for.
        Input = "input",
        /// A server that needs the user to sign in.
        SignIn = "sign-in",
        /// The list of saved filters.
        SavedFilters = "saved-filters",
        /// A line that asks for a name.
        Ask = "ask",
        /// Help, diagnostics and other texts over the panes.
        Reader = "reader",
        /// The page that says why something failed, and what mends it.
        Why = "why",
        /// A line being typed: only keys bound here and chords with control work.
        Text = "text",
        /// The whole call screen.
        Call = "call",
        /// Its form; letters are text there, so these are chords or keys other than letters.
        Form = "form",
        /// Lines of its form that take no text.
        FormLine = "form-line",
        Result = "result",
        /// After the key that begins what is rarely done with a result.
        ResultKeys = "result-keys",
        /// After the key that begins what is rarely done with a field.
        FormKeys = "form-keys",
        /// The answering screen.
        Answer = "answer",
        /// The answering screen over a completion.
        AnswerSampling = "answer-sampling",
        /// The answering screen over an elicitation.
        AnswerElicitation = "answer-elicitation",
        /// After the key that begins what is rarely done with a request.
        AnswerKeys = "answer-keys",
        /// The answering screen while nothing is typed.
        AnswerReading = "answer-reading",
        /// The form of a server's entry, or of the roots shared with it.
        Entry = "entry",
        /// The chat; letters are typed there.
        Chat = "chat",
        /// The policy screen.
        Policy = "policy",
    }
}

impl KeyScope {
    /// The scope of this name.
    fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Whether this is the scope of a pane.
    pub fn is_pane(self) -> bool {
        (Self::Servers..=Self::Config).contains(&self)
    }

    /// Whether both are scopes of one kind of screen: panes, calls or answers.
    fn is_beside(self, other: Self) -> bool {
        let kind = |scope: Self| match scope {
            Self::Call
            | Self::Form
            | Self::FormLine
            | Self::FormKeys
            | Self::Result
            | Self::ResultKeys
            | Self::Entry
            | Self::Chat => 1,
            scope if (Self::Answer..=Self::AnswerReading).contains(&scope) => 2,
            _ => 0,
        };
        kind(self) == kind(other)
    }
}

/// The actions that wait for another key, each with the scope of that key.
pub const MENUS: [(Action, KeyScope); 5] = [
    (Action::EditKeys, KeyScope::EditKeys),
    (Action::ServerKeys, KeyScope::ServerKeys),
    (Action::ResultKeys, KeyScope::ResultKeys),
    (Action::FormKeys, KeyScope::FormKeys),
    (Action::AnswerKeys, KeyScope::AnswerKeys),
];

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Where it applies.
    pub scopes: &'static [KeyScope],
    /// The chords, separated by spaces; the first is the one shown.
    pub keys: &'static str,
    /// What it does.
    pub action: Action,
    /// Place in the footer, 1 first; 0 keeps it out.
    pub footer: u8,
    /// Footer word that replaces the action's label.
    pub word: &'static str,
}

/// Chords and their actions: the table with the user's changes.
#[derive(Clone, Debug, Default)]
pub struct Keymap {
    meanings: HashMap<(KeyScope, Chord), Action>,
    /// What help and footer list.
    listed: Vec<KeyRow>,
    /// The user's commands, by number.
    pub commands: Vec<UserCommand>,
    /// What the user's file has bound so far.
    bound: HashSet<(KeyScope, Chord)>,
}

impl Keymap {
    /// The built-in table.
    pub fn builtin() -> Self {
        let mut keymap = Self::default();
        for &Binding { scopes, keys, action, footer, word } in BINDINGS {
            let chords: Vec<Chord> = keys.split(' ').filter_map(|key| key.parse().ok()).collect();
            let word = if word.is_empty() { action.label() } else { word };
            for &scope in scopes {
                keymap.meanings.extend(chords.iter().map(|chord| ((scope, *chord), action)));
                keymap.listed.push(KeyRow { scope, chords: chords.clone(), action, footer, word });
            }
        }
        keymap.listed.sort_by_key(|row| row.scope);
        keymap
    }

    /// The table with the changes of a user's keymap file: one table per scope, `chord = "action"`;
    /// `"none"` unbinds a chord; and one table per command, `[commands.NAME]`.
    ///
    /// # Errors
    /// A sentence describing what is wrong; nothing of the file is applied then.
    pub fn with_user(text: &str) -> Result<Self, String> {
        type Entries = BTreeMap<Spanned<String>, toml::Value>;
        let wrong = |at: Range<usize>, what: &str| {
            format!("keymap.toml:{}: {what}", line_at(text, at.start))
        };
        let file: BTreeMap<Spanned<String>, Entries> =
            toml::from_str(text).map_err(|e| wrong(e.span().unwrap_or_default(), e.message()))?;
        let mut keymap = Self::builtin();
        let mut commands = Entries::new();
        for (table, entries) in file {
            let name = table.get_ref().as_str();
            if name == "commands" {
                commands = entries;
                continue;
            }
            let scope = KeyScope::by_name(name)
                .ok_or_else(|| wrong(table.span(), &format!("there is no scope `{name}`")))?;
            for (key, value) in entries {
                let bound = keymap.bind(scope, key.get_ref(), &value);
                bound.map_err(|what| wrong(key.span(), &what))?;
            }
        }
        for (name, entry) in commands {
            let added = keymap.add_command(name.get_ref(), entry);
            added.map_err(|what| wrong(name.span(), &what))?;
        }
        Ok(keymap)
    }

    /// The user's command that an action runs.
    pub fn command(&self, action: Action) -> Option<&UserCommand> {
        let Action::User(number) = action else { return None };
        self.commands.get(usize::from(number))
    }

    /// One or two words for an action.
    pub fn label(&self, action: Action) -> Ink {
        self.command(action).map_or_else(|| ink!("{}", action.label()), |own| Ink::line(&own.name))
    }

    /// One sentence for an action.
    pub fn help(&self, action: Action) -> Ink {
        match self.command(action) {
            None => ink!("{}", action.help()),
            Some(own) if own.help.is_empty() => Ink::line(&format!("{}: {}", own.name, own.run)),
            Some(own) => Ink::line(&own.help),
        }
    }

    fn bind(&mut self, scope: KeyScope, key: &str, value: &toml::Value) -> Result<(), String> {
        let id = value.as_str().ok_or("expected the name of an action, in quotes")?;
        let action = Action::by_id(id).filter(|action| {
            // An unbound action can be run from the palette over the panes.
            let mut bound = BINDINGS.iter().filter(|row| row.action == *action).peekable();
            let none = bound.peek().is_none() && scope.is_beside(KeyScope::Global);
            none || bound.flat_map(|row| row.scopes).any(|other| scope.is_beside(*other))
        });
        if action.is_none() && id != "none" {
            return Err(format!("there is no action `{id}` in `{}`", scope.name()));
        }
        self.rebind(scope, key.parse()?, action)
    }

    fn add_command(&mut self, name: &str, entry: toml::Value) -> Result<(), String> {
        let command: UserCommand = entry.try_into().map_err(|e| e.message().to_owned())?;
        let scope = KeyScope::by_name(&command.scope)
            .filter(|scope| scope.is_pane() || matches!(scope, KeyScope::Global | KeyScope::List));
        let scope = scope.ok_or_else(|| {
            let wanted = "a command is bound in `global`, `list` or a pane";
            format!("{wanted}, not in `{}`", command.scope)
        })?;
        let number = u8::try_from(self.commands.len()).map_err(|_| "more than 256 commands")?;
        self.rebind(scope, command.key.parse()?, Some(Action::User(number)))?;
        self.commands.push(UserCommand { name: name.to_owned(), ..command });
        Ok(())
    }

    fn rebind(
        &mut self,
        scope: KeyScope,
        chord: Chord,
        wanted: Option<Action>,
    ) -> Result<(), String> {
        if scope == KeyScope::Form && chord.typed().is_some() {
            return Err(format!("`{chord}` is text in a form: bind a chord or another key"));
        }
        if !self.bound.insert((scope, chord)) {
            return Err(format!("`{chord}` is bound twice in `{}`", scope.name()));
        }
        for row in self.listed.iter_mut().filter(|row| row.scope == scope) {
            row.chords.retain(|c| *c != chord);
        }
        let Some(wanted) = wanted else {
            self.meanings.remove(&(scope, chord));
            return Ok(());
        };
        self.meanings.insert((scope, chord), wanted);
        let same = |row: &&mut KeyRow| row.scope == scope && row.action == wanted;
        match self.listed.iter_mut().find(same) {
            Some(row) => row.chords.insert(0, chord),
            None => self.listed.push(KeyRow {
                scope,
                chords: vec![chord],
                action: wanted,
                footer: if matches!(wanted, Action::User(_)) { 50 } else { 0 },
                word: wanted.label(),
            }),
        }
        Ok(())
    }

    /// The action of a chord, innermost scope first.
    pub fn action(&self, scopes: &[KeyScope], chord: Chord) -> Option<Action> {
        scopes.iter().find_map(|scope| self.meanings.get(&(*scope, chord))).copied()
    }

    /// The action of a key on an open screen; shift is ignored where it has no binding of its own.
    pub fn pressed(&self, scopes: &[KeyScope], key: KeyEvent) -> Option<Action> {
        let chord = Chord::pressed(key);
        let plain = Chord { modifiers: chord.modifiers - KeyModifiers::SHIFT, ..chord };
        self.action(scopes, chord).or_else(|| self.action(scopes, plain))
    }

    /// Rows of the dashboard that apply in these scopes, innermost first; a chord bound in an inner
    /// scope is left out of outer ones, so that only working keys are shown.
    pub fn rows(&self, scopes: &[KeyScope]) -> Vec<KeyRow> {
        self.working(scopes, |_| true).collect()
    }

    fn working<'a>(
        &'a self,
        scopes: &'a [KeyScope],
        wanted: impl Fn(&KeyRow) -> bool + Copy,
    ) -> impl Iterator<Item = KeyRow> {
        let of = move |scope: &'a KeyScope| {
            self.listed.iter().filter(move |row| row.scope == *scope && wanted(row))
        };
        scopes.iter().flat_map(of).filter_map(|row| {
            let works = |chord: &&Chord| {
                let first = scopes.iter().find(|s| self.meanings.contains_key(&(**s, **chord)));
                first == Some(&row.scope)
            };
            let chords: Vec<Chord> = row.chords.iter().filter(works).copied().collect();
            (!chords.is_empty()).then(|| KeyRow { chords, ..row.clone() })
        })
    }

    /// Where an action of the dashboard is bound, outermost first; for one that is behind another
    /// key, also where that one is.
    pub fn scopes_of(&self, action: Action) -> impl Iterator<Item = KeyScope> {
        let bound = move |action: Action| {
            let rows = self.listed.iter().filter(move |row| row.action == action);
            rows.filter(|row| !row.chords.is_empty()).map(|row| row.scope)
        };
        let behind = MENUS.into_iter().filter(move |(_, menu)| bound(action).any(|s| s == *menu));
        bound(action).chain(behind.flat_map(move |(opens, _)| bound(opens)))
    }

    /// The keys of an action that work in these scopes, as they are pressed one after the other.
    pub fn sequence(&self, scopes: &[KeyScope], action: Action) -> Option<String> {
        let first = |scopes: &[KeyScope], action| {
            let row = self.working(scopes, |row| row.action == action).next()?;
            row.chords.first().map(Chord::to_string)
        };
        first(scopes, action).or_else(|| {
            MENUS.iter().find_map(|(opens, menu)| {
                let inner = first(&[*menu], action)?;
                Some(format!("{} {inner}", first(scopes, *opens)?))
            })
        })
    }

    /// Keys, words and actions for the last line of an open screen, in the order of the table.
    pub fn labels(&self, scopes: &[KeyScope]) -> Vec<(String, &'static str, Action)> {
        let rows = |scope: &KeyScope| {
            let scope = *scope;
            self.listed.iter().filter(move |row| row.scope == scope && row.footer > 0)
        };
        let shown = |row: &KeyRow| Some((row.chords.first()?.to_string(), row.word, row.action));
        scopes.iter().flat_map(rows).filter_map(shown).collect()
    }

    /// The key that shows help while something is typed, with its word, for the end of a line.
    pub fn help_label(&self) -> Option<(String, &'static str)> {
        let key = self.key_while_typing(&[KeyScope::Global], Action::Help.id())?;
        Some((key.to_string(), Action::Help.label()))
    }

    /// Keys and sentences of a scope, for help.
    pub fn sentences(&self, scope: KeyScope) -> impl Iterator<Item = (String, &'static str)> {
        let rows = self.listed.iter().filter(move |row| row.scope == scope);
        rows.filter(|row| !row.chords.is_empty()).map(|row| {
            let chords: Vec<String> = row.chords.iter().map(Chord::to_string).collect();
            (chords.join("  "), row.action.help())
        })
    }

    /// The whole table as text: `--keys` and the README block.
    pub fn to_markdown(&self) -> String {
        let mut out = String::from("| where | keys | what |\n| --- | --- | --- |\n");
        for scope in KeyScope::ALL {
            for row in self.listed.iter().filter(|r| r.scope == scope && !r.chords.is_empty()) {
                let chords = row.chords.iter();
                let keys: Vec<String> =
                    chords.map(|c| format!("`{}`", c.to_string().replace('|', "\\|"))).collect();
                let help = self.help(row.action);
                let cells = ["| ", scope.name(), " | ", &keys.join(" "), " | ", help.as_str()];
                out.extend(cells.into_iter().chain([" |\n"]));
            }
        }
        out
    }

    /// `text` with every `{name}` of an action replaced by the first of its keys that works in
    /// these scopes, innermost first. Other names in braces are left as they are.
    pub fn spelled(&self, scopes: &[KeyScope], text: &str) -> Ink {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            out.push_str(before);
            let keys = |action| self.sequence(scopes, action);
            match Action::by_id(name) {
                Some(action) => out.push_str(keys(action).as_deref().unwrap_or(UNBOUND)),
                None => out.extend(["{", name, "}"]),
            }
            rest = after;
        }
        out.push_str(rest);
        Ink::line(&out)
    }

    /// The first key of an action that works while text is typed; otherwise its first key.
    pub fn key_while_typing(&self, scopes: &[KeyScope], name: &str) -> Option<Chord> {
        let chords = self.chords(scopes, name)?;
        chords.iter().find(|chord| chord.typed().is_none()).or_else(|| chords.first()).copied()
    }

    /// Chords of the named action that work in these scopes, from the innermost that has any; empty
    /// if all were unbound, `None` if there is no such action.
    fn chords(&self, scopes: &[KeyScope], name: &str) -> Option<Vec<Chord>> {
        let found = self.working(scopes, |row| row.action.id() == name).next();
        found.map(|row| row.chords).or_else(|| Action::by_id(name).map(|_| Vec::new()))
    }
}

/// A row of the table in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// Where it is bound.
    pub scope: KeyScope,
    /// Its chords, the one to show first.
    pub chords: Vec<Chord>,
    /// What it does.
    pub action: Action,
    /// Place in the footer; 0 keeps it out.
    pub footer: u8,
    word: &'static str,
}

// Keys in sentences: texts name an action in braces, which is replaced by its current key, so that
// they stay correct when the user rebinds it.

/// Shown for an action without a key: the palette still finds it.
const UNBOUND: &str = "the palette";

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;

    use super::*;

    #[test]
    fn every_chord_of_the_table_reads_and_none_is_bound_twice_in_a_scope() {
        let mut seen = std::collections::HashSet::new();
        for binding in BINDINGS {
            for key in binding.keys.split(' ') {
                let chord: Chord = key.parse().unwrap_or_else(|e| panic!("{e}"));
                for scope in binding.scopes {
                    assert!(seen.insert((scope, chord)), "{key} twice in {scope:?}");
                }
            }
        }
    }

    #[test]
    fn an_inner_scope_hides_the_outer_one_in_dispatch_and_in_help() {
        let keymap = Keymap::builtin();
        let scopes = [KeyScope::Text, KeyScope::Global];
        let enter: Chord = "enter".parse().unwrap();
        assert_eq!(keymap.action(&scopes, enter), Some(Action::Open));
        for row in keymap.rows(&scopes) {
            for chord in &row.chords {
                assert_eq!(keymap.action(&scopes, *chord), Some(row.action));
            }
        }
    }

    #[test]
    fn a_user_moves_a_key_and_help_follows() {
        let keymap = Keymap::with_user("[global]\n\"f10\" = \"quit\"\nq = \"none\"").unwrap();
        assert_eq!(keymap.action(&[KeyScope::Global], "f10".parse().unwrap()), Some(Action::Quit));
        assert_eq!(keymap.action(&[KeyScope::Global], "q".parse().unwrap()), None);
    }

    #[test]
    fn a_person_moves_a_key_of_a_screen_and_footer_and_help_follow() {
        let text = "[call]\nf9 = \"send\"\nf5 = \"none\"\n[result]\nR = \"again\"";
        let keymap = Keymap::with_user(text).unwrap();
        let pressed = |n| keymap.pressed(&[KeyScope::Form, KeyScope::Call], KeyCode::F(n).into());
        assert_eq!(pressed(9), Some(Action::Send));
        assert_eq!(pressed(5), None);
        assert_eq!(keymap.labels(&[KeyScope::Call])[0], ("f9".to_owned(), "call", Action::Send));
        let help: Vec<_> = keymap.sentences(KeyScope::Result).collect();
        assert!(help.contains(&("R  .".to_owned(), Action::Again.help())), "{help:?}");
    }

    #[test]
    fn names_of_one_screen_are_unknown_on_another() {
        for text in
            ["[answer]\nf9 = \"compare\"", "[tools]\nf9 = \"send\"", "[form]\nf9 = \"quit\""]
        {
            assert!(Keymap::with_user(text).unwrap_err().contains("there is no action"), "{text}");
        }
    }

    #[test]
    fn no_letter_means_two_things_of_which_one_ends_or_loses_something() {
        use Action as A;
        const DESTRUCTIVE: &[Action] = &[
            A::Quit,
            A::QuitNow,
            A::Restart,
            A::StartStop,
            A::ToggleServer,
            A::RemoveServer,
            A::DropEntry,
            A::DropAll,
            A::DenyAll,
            A::RemoveFilter,
            A::Forget,
            A::Send,
            A::Force,
            A::CancelCall,
            A::Deny,
            A::CancelRequest,
            A::Unset,
            A::RemoveItem,
        ];
        // All refusals count as one meaning: of a call, a request, a kept answer.
        let meaning = |action| match action {
            A::CancelCall | A::Deny | A::DenyAll | A::Forget | A::Decline => A::Deny,
            A::RemoveItem | A::RemoveFilter | A::DropAll => A::RemoveItem,
            A::Unset | A::DropEntry => A::Unset,
            other => other,
        };
        // A question takes every key, so its yes and no may reuse keys; and so does a list of keys
        // that is read before one of them is pressed.
        let modal = |scope: &KeyScope| {
            use KeyScope as S;
            matches!(scope, S::Confirm | S::Consent | S::FormKeys | S::AnswerKeys)
        };
        let rows = BINDINGS.iter().filter(|row| !row.scopes.iter().all(modal));
        let mut meanings: BTreeMap<&str, Vec<Action>> = BTreeMap::new();
        for row in rows {
            for key in
                row.keys.split(' ').filter(|key| key.chars().count() == 1 || key.contains("ctrl-"))
            {
                meanings.entry(key).or_default().push(meaning(row.action));
            }
        }
        for (key, mut actions) in meanings {
            actions.sort_unstable();
            actions.dedup();
            let ends = actions.iter().any(|action| DESTRUCTIVE.contains(action));
            assert!(!ends || actions.len() == 1, "{key}: {actions:?}");
        }
    }

    /// Terminals of macOS and some of other systems type a letter instead of sending alt with it.
    #[test]
    fn everything_that_has_a_chord_of_alt_has_a_key_that_every_terminal_sends() {
        let keymap = Keymap::builtin();
        let is_alt = |chord: &Chord| chord.modifiers.contains(KeyModifiers::ALT);
        for row in BINDINGS {
            let chords = || row.keys.split(' ').map(|key| key.parse::<Chord>().unwrap());
            if !chords().any(|chord| is_alt(&chord)) || chords().any(|chord| !is_alt(&chord)) {
                continue;
            }
            for scope in row.scopes {
                let opens: Vec<Action> = keymap
                    .rows(&[*scope, KeyScope::Answer, KeyScope::Form])
                    .into_iter()
                    .filter(|other| other.chords.iter().any(|chord| !is_alt(chord)))
                    .map(|other| other.action)
                    .collect();
                let behind = MENUS.into_iter().filter(|(menu, _)| opens.contains(menu));
                let mut behind = behind.flat_map(|(_, menu)| keymap.rows(&[menu]));
                let action = row.action;
                assert!(behind.any(|other| other.action == action), "{action:?} in {scope:?}");
            }
        }
    }

    #[test]
    fn a_wrong_keymap_says_which_word_is_wrong() {
        for (text, said) in [
            ("[globe]\nq = \"quit\"", "keymap.toml:1: there is no scope `globe`"),
            ("\n[global]\nq = \"quti\"", "keymap.toml:3: there is no action `quti`"),
            ("[global]\nctrl-alt = \"quit\"", "keymap.toml:2: "),
            ("[global]\nnonsense", "keymap.toml:2: "),
            ("[tools]\nf4 = 3", "keymap.toml:2: expected the name of an action"),
            ("[global]\nshift-1 = \"quit\"", "keymap.toml:2: `shift-1`: write the character"),
            ("[form]\ne = \"undo\"", "keymap.toml:2: `e` is text in a form"),
            (
                "[global]\nQ = \"quit\"\nshift-q = \"palette\"",
                "keymap.toml:3: `Q` is bound twice in `global`",
            ),
            (
                "[commands.one]\nkey = \"f10\"\nrun = \"x\"\n[commands.two]\nkey = \"f10\"\nrun = \"y\"",
                "keymap.toml:4: `f10` is bound twice in `global`",
            ),
        ] {
            let error = Keymap::with_user(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}

#[cfg(test)]
mod spell_tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_key_that_works_and_follows_a_person_who_moves_it() {
        let text = "{follow} follows, {quit} leaves, {x} stays";
        let scopes = [KeyScope::Traffic, KeyScope::List, KeyScope::Global];
        let builtin = Keymap::builtin();
        assert_eq!(builtin.spelled(&scopes, text).as_str(), "f follows, q leaves, {x} stays");
        let moved = "[traffic]\nf = \"none\"\nf7 = \"follow\"\n[global]\nq = \"none\"";
        let moved = Keymap::with_user(moved).unwrap();
        let said = moved.spelled(&scopes, text);
        assert_eq!(said.as_str(), "f7 follows, the palette leaves, {x} stays");
    }

    #[test]
    fn while_text_is_typed_a_key_that_is_no_letter_is_named() {
        let keymap = Keymap::builtin();
        let key = keymap.key_while_typing(&[KeyScope::Global], "help").unwrap();
        assert_eq!(key.to_string(), "f1");
        assert_eq!(
            keymap.spelled(&[KeyScope::Call, KeyScope::Form], "{save-form}").as_str(),
            "ctrl-s"
        );
    }
}
