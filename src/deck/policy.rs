//! Access policy from files: the rules of the configuration, grants and reviews. Stores them,
//! follows them while a host runs, and sets the policy of the host.

mod file;
mod keeper;
mod offline;
mod quotas;
pub(crate) mod secrets;
mod sources;

pub use keeper::{PolicyKeeper, PolicyView, ProfileOffer};
pub use offline::{NamedTool, Offline};
pub use quotas::QuotaFile;
pub use secrets::{NEW_PASSPHRASE, PASSPHRASE, SecretStore};
pub use sources::{keyring_place, secret_sources, system_keyring};

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::file::MAX_RIGHTS_BYTES;
pub use self::file::{RightsContent, RightsFile, Standing};
use crate::written::WrittenText;
use base::atomic::{Readers, alone, replace};
use base::file::file_key;
use base::pointer::child_pointer;
use base::state::{StateFile, StateFolder};
use base::text::nearest;
use base::text::path::spelled;
use base::{SafeText, Timestamp};
use config::Environment;
use host::{Grant, GrantId, GrantKind, NewGrant, Pins, PolicyConfig, Rules};

/// Name of the file beside `mcp.json`.
pub const POLICY_FILE: &str = "mcpdeck.policy.json";

/// Similarity above which a key of a configuration counts as a misspelt `"policy"`.
const MIN_KEY_SIMILARITY: f64 = 0.9;

/// A policy that can be used: the `"policy"` of an `mcp.json`, or the file beside it.
#[derive(Clone, Debug, Default)]
pub struct PolicyFile {
    /// As written.
    pub config: PolicyConfig,
    /// Its rules.
    pub rules: Arc<Rules>,
    /// The file it is from; `None` when no file has a policy.
    pub source: Option<PathBuf>,
}

impl PolicyFile {
    /// Whether it has no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.config == PolicyConfig::default()
    }

    /// Whether what it is from says nothing of a policy any more, as opposed to something else: the
    /// file is gone, or a whole configuration has no `"policy"`.
    pub(crate) fn is_lost(&self) -> bool {
        let Some(path) = &self.source else { return false };
        match path.symlink_metadata() {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(_) if is_beside(path) => false,
            Ok(_) => {
                let whole = WrittenText::find(path).ok().flatten();
                let whole = whole.and_then(|text| text.whole_configuration().ok());
                whole.is_some_and(|whole| whole.get("policy").is_none())
            }
        }
    }

    /// Whether what the files say now ends these rules, which are lost: it is the same at another
    /// place, or is from a place that takes precedence over theirs.
    pub(crate) fn is_ended_by(&self, found: &Self, configs: &[PathBuf]) -> bool {
        let rank = |policy: &Self| precedence(policy.source.as_deref()?, configs);
        found.source.is_some() && (found.config == self.config || rank(found) > rank(self))
    }

    /// The place of rules that are lost, for messages.
    pub(crate) fn place(&self) -> String {
        match self.source.as_deref() {
            None => "the policy".to_owned(),
            Some(path) if is_beside(path) => spelled(path).into_owned(),
            Some(path) => format!("`policy` of {}", spelled(path)),
        }
    }
}

/// Whether a path is that of a policy file, as opposed to a configuration.
fn is_beside(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == POLICY_FILE)
}

/// Which of the places of a policy takes precedence: the greater. `None` for another place.
fn precedence(source: &Path, configs: &[PathBuf]) -> Option<usize> {
    let whole = |path: &Path| {
        config::clean_path(&std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()))
    };
    let source = whole(source);
    let places = configs.iter().flat_map(|it| [whole(it), whole(&it.with_file_name(POLICY_FILE))]);
    { places }.collect::<Vec<_>>().iter().rposition(|place| *place == source)
}

/// Loads the policy of a configuration: that of the last file with one; the policy file beside it
/// takes precedence over its own `"policy"`. A file without rules says so as an object, `{}`: an
/// empty one is being written, or was cut short.
///
/// # Errors
/// Every problem, each naming the file: a partial policy must not permit anything.
pub fn load_policy(configs: &[PathBuf]) -> Result<PolicyFile, Vec<String>> {
    let one = |problem: String| vec![problem];
    for config in configs.iter().rev() {
        let beside = config.with_file_name(POLICY_FILE);
        if let Some(text) = WrittenText::find(&beside).map_err(one)? {
            return compiled(&beside, &text, "", text.whole().map_err(one)?);
        }
        // The loader reports what is wrong with a configuration in full.
        let Some(text) = WrittenText::find(config).map_err(one)? else { continue };
        let mut whole = text.whole_configuration().map_err(one)?;
        if let Some(value) = whole.get_mut("policy") {
            return compiled(config, &text, "/policy", value.take());
        }
        // A policy under another name would silently have no effect.
        if let Some(key) = misspelt(&whole) {
            let problem = "is not a known key; did you mean `policy`?";
            let problem = format!("`{}` {problem}", SafeText::cut(key, 160));
            return Err(one(text.problem(&child_pointer("", key), &problem)));
        }
    }
    Ok(PolicyFile::default())
}

/// A key of a configuration that seems to be meant as its `"policy"`.
fn misspelt(whole: &Value) -> Option<&str> {
    let keys = whole.as_object()?.iter().filter(|(_, value)| value.is_object());
    let plain = |key: &str| key.to_lowercase().replace(['_', '-', ' '], "");
    let is_close = |key: &str| nearest(&plain(key), ["policy"], MIN_KEY_SIMILARITY).is_some();
    { keys }.map(|(key, _)| key.as_str()).find(|key| is_close(key))
}

fn compiled(
    file: &Path,
    text: &WrittenText,
    pointer: &str,
    value: Value,
) -> Result<PolicyFile, Vec<String>> {
    // A list in the place of an object would be read as an object without rules.
    text.fits::<PolicyConfig>(pointer, &value)?;
    let config: PolicyConfig = serde_json::from_value(value)
        .map_err(|error| vec![text.problem(pointer, &format!("`policy`: {error}"))])?;
    // Each is `policy/PLACE: PROBLEM`.
    let at = |problem: String| {
        let place = problem.split_once(": ").and_then(|(place, _)| place.strip_prefix("policy"));
        let place = format!("{pointer}{}", place.unwrap_or_default());
        format!("{}: {problem}", text.position(&place))
    };
    match Rules::compile(&config) {
        Ok(rules) => {
            Ok(PolicyFile { config, rules: Arc::new(rules), source: Some(file.to_path_buf()) })
        }
        Err(problems) => Err(problems.into_iter().map(at).collect()),
    }
}

/// The rules of a policy as they were last in force, kept in the state folder: the loss of the file,
/// or of the `"policy"` in it, between two runs ends none of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RememberedRules {
    source: PathBuf,
    config: PolicyConfig,
}

impl RightsContent for RememberedRules {
    fn is_empty(&self) -> bool {
        self.config == PolicyConfig::default()
    }
}

/// The memory of the rules of one configuration.
#[derive(Debug)]
pub(crate) struct RulesMemory {
    file: RightsFile<RememberedRules>,
    cwd: PathBuf,
}

impl RulesMemory {
    /// That of a configuration file. `None` without a state folder.
    pub(crate) fn from_config(config: &Path, env: &Environment) -> Option<Self> {
        let file = RightsFile::new(state_file(config, env, "rules")?);
        Some(Self { file, cwd: env.cwd.clone() })
    }

    /// The rules whose source says nothing of them any more, if there are any.
    ///
    /// # Errors
    /// One sentence that names the file of the memory, when it cannot be used.
    pub(crate) fn lost(&self) -> Result<Option<PolicyFile>, String> {
        let Some(RememberedRules { source, config }) = self.file.read()? else { return Ok(None) };
        let rules = Rules::compile(&config).map_err(|all| self.file.about(all.join("; ")))?;
        let file = PolicyFile { config, rules: Arc::new(rules), source: Some(source) };
        Ok(Some(file).filter(|file| file.is_lost() && !file.is_empty()))
    }

    /// Whether the rules that were last in force apply to the user too.
    pub(crate) fn binds_user(&self) -> bool {
        let kept = self.file.read().ok().flatten();
        kept.is_some_and(|kept| kept.config.applies_to_person)
    }

    /// Keeps the rules that are in force now, unless they are lost.
    pub(crate) fn keep(&self, rules: &PolicyFile) {
        if rules.is_lost() {
            return;
        }
        let source = rules.source.as_ref().map(|file| config::clean_path(&self.cwd.join(file)));
        let new =
            RememberedRules { source: source.unwrap_or_default(), config: rules.config.clone() };
        let old = self.file.read().ok().flatten();
        let is_known = old.as_ref().map_or_else(|| new.is_empty(), |old| *old == new);
        if !is_known && let Err(problem) = self.replace(new) {
            tracing::warn!(target: "mcpdeck::policy", action = "not kept", "{problem}");
        }
    }

    fn replace(&self, new: RememberedRules) -> Result<(), String> {
        // What is there may be unusable: a sound source has just said what holds.
        let write = || self.file.change(|held| (true, *held = new.clone()));
        write().or_else(|problem| {
            let path = self.file.path();
            StateFile::new(path, MAX_RIGHTS_BYTES)
                .set_aside(&problem)
                .map_err(|e| e.to_string())?;
            write()
        })
    }
}

/// What ends rules that are lost.
pub(crate) const LOST_RULES_END: &str = "it is back, or `mcpdeck policy clear` ends it";

/// The rules of a configuration that hold where no service runs: those of [`load_policy`], or lost
/// ones, as they were last in force. The operator is told of these.
///
/// # Errors
/// As [`load_policy`]; when no file has a policy, and what is remembered cannot be used.
pub(crate) fn standing_policy(
    configs: &[PathBuf],
    env: &Environment,
) -> Result<PolicyFile, Vec<String>> {
    let found = load_policy(configs)?;
    let memory = configs.last().and_then(|main| RulesMemory::from_config(main, env));
    match memory.map_or(Ok(None), |memory| memory.lost()) {
        Ok(Some(lost)) if lost.is_ended_by(&found, configs) => Ok(found),
        Ok(Some(lost)) => {
            let place = lost.place();
            base::notices::notify(&format!(
                "{place}: it is gone; what it said stays in force until {LOST_RULES_END}"
            ));
            Ok(lost)
        }
        Err(problem) if found.source.is_none() => Err(vec![problem]),
        Ok(None) | Err(_) => Ok(found),
    }
}

/// Ends every rule of a configuration: writes a policy file without rules beside it, which takes
/// precedence over its `"policy"`. Returns the file, and where its old content is, if it had any.
///
/// # Errors
/// When it cannot be written; names the file.
pub fn clear_policy(config: &Path) -> Result<(PathBuf, Option<PathBuf>), String> {
    let file = config.with_file_name(POLICY_FILE);
    let cleared = alone(&file, || {
        let old = match file.symlink_metadata() {
            Ok(_) => {
                Some(StateFile::new(&file, MAX_RIGHTS_BYTES).set_aside("its rules were ended")?)
            }
            Err(_) => None,
        };
        replace(&file, b"{}\n", Readers::Default).map(|()| old)
    });
    let cleared = cleared.map_err(|error| format!("{}: {error}", spelled(&file)))?;
    Ok((file, cleared))
}

/// The JSON Schema of a policy.
pub fn policy_schema() -> Value {
    schemars::schema_for!(PolicyConfig).to_value()
}

/// The stored grants of one configuration file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantFile {
    version: u32,
    next: u64,
    grants: Vec<Grant>,
}

impl RightsContent for GrantFile {
    fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }
}

impl RightsContent for Pins {
    fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }
}

/// The grants for one configuration file; clones share what is in force. An untrusted file is
/// neither read nor written over.
#[derive(Clone, Debug)]
pub struct GrantStore {
    file: Arc<RightsFile<GrantFile>>,
}

impl GrantStore {
    /// The store for a configuration file. `None` without a state folder.
    pub fn from_config(config: &Path, env: &Environment) -> Option<Self> {
        Some(Self { file: Arc::new(RightsFile::new(state_file(config, env, "grants")?)) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// All grants that have not ended.
    ///
    /// # Errors
    /// A message when the file cannot be trusted: nothing is granted then.
    pub fn list(&self, now: Timestamp) -> Result<Vec<Grant>, String> {
        let read = self.file.read().map_err(|problem| {
            format!("{problem}; nothing in it counts until it is repaired or removed")
        });
        Ok(read?.unwrap_or_default().standing(now))
    }

    /// All grants in force, as last read from a sound file, and the problem with the file if it
    /// differs. `None` when there never was a sound one.
    pub(crate) fn follow(&self, now: Timestamp) -> (Option<Vec<Grant>>, Option<String>) {
        let (kept, problem) = self.file.follow();
        (kept.map(|kept| kept.standing(now)), problem)
    }

    /// Stores a grant. Not for one that ends with a session, which belongs to a running host.
    ///
    /// # Errors
    /// As [`GrantStore::list`], or when the file cannot be written; nothing is granted then.
    pub fn add(&self, new: NewGrant, now: Timestamp) -> Result<Grant, String> {
        self.file.change(|kept| {
            kept.grants.retain(|grant| !grant.is_over(now));
            kept.next += 1;
            let grant = granted(GrantId(kept.next), new, now);
            kept.grants.push(grant.clone());
            (true, grant)
        })
    }

    /// Revokes a grant; returns it, if there was one.
    ///
    /// # Errors
    /// As [`GrantStore::add`].
    pub fn revoke(&self, id: GrantId) -> Result<Option<Grant>, String> {
        self.file.change(|kept| {
            let at = kept.grants.iter().position(|grant| grant.id == id);
            let gone = at.map(|at| kept.grants.remove(at));
            (gone.is_some(), gone)
        })
    }

    /// Changes the grants in place; `change` returns whether it did.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Vec<Grant>) -> bool,
    ) -> Result<(), String> {
        self.file.change(|kept| (change(&mut kept.grants), ()))
    }
}

impl GrantFile {
    fn standing(mut self, now: Timestamp) -> Vec<Grant> {
        self.grants.retain(|grant| !grant.is_over(now));
        self.grants
    }
}

/// Makes a grant from a request for one.
pub(crate) fn granted(id: GrantId, new: NewGrant, now: Timestamp) -> Grant {
    Grant {
        id,
        origin: new.origin,
        profile: new.profile,
        scopes: new.scopes,
        allowed_tools: new.allowed_tools,
        effect: new.kind,
        given: now,
        covers: std::collections::BTreeMap::new(),
    }
}

/// Whether a grant exists only in a running host.
pub(crate) const fn of_session(kind: &GrantKind) -> bool {
    matches!(kind, GrantKind::Once { session: Some(_), .. } | GrantKind::Once { until: None, .. })
}

/// The file with the rights of kind `what` for a configuration file.
pub(crate) fn state_file(config: &Path, env: &Environment, what: &str) -> Option<StateFile> {
    let file = config::clean_path(&env.absolute(config));
    let folder = StateFolder::new(env.state_dir.as_ref()?.join("policy"));
    let name = format!("{}.{what}.json", file_key(file));
    Some(folder.file(&name, MAX_RIGHTS_BYTES).of_rights())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(config: &Path) -> Result<PolicyFile, Vec<String>> {
        load_policy(&[config.to_path_buf()])
    }

    #[test]
    fn what_is_wrong_with_rules_is_told_with_its_line() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = dir.path().join("mcp.json");
        let beside = dir.path().join(POLICY_FILE);
        let rules = "{\n\"profiles\": {\"a\": {\"overlays\": [\n\
                     {\"tool\": \"s.x\", \"title\": \"T\"},\n\
                     {\"tool\": \"s.y\", \"name\": \"b b\"}\n]}},\n\
                     \"audit\": {\"file\": \"\"},\n\
                     \"limits\": {\"callTimeout\": -1}}";
        std::fs::write(&beside, rules).expect("written");
        let told = loaded(&config).expect_err("wrong").join("\n");
        for line in [
            "mcpdeck.policy.json:4:1: policy/profiles/a/overlays/1: `name` has 1 to 64",
            "mcpdeck.policy.json:6:19: policy/audit/file: ",
            "mcpdeck.policy.json:7:27: policy/limits/callTimeout: ",
        ] {
            assert!(told.contains(line), "{line}: {told}");
        }
        std::fs::remove_file(&beside).expect("removed");
        let within = "{\"servers\": {},\n\"policy\": {\"limits\":\n{\"callTimeout\": -1}}}";
        std::fs::write(&config, within).expect("written");
        let told = loaded(&config).expect_err("wrong").join("\n");
        assert!(told.contains("mcp.json:3:17: policy/limits/callTimeout: "), "{told}");
        let misspelt = "{\"servers\": {},\n\"policy\": {\"profiles\": {\"a\":\n{\"alow\": []}}}}";
        std::fs::write(&config, misspelt).expect("written");
        let told = loaded(&config).expect_err("wrong").join("\n");
        assert!(told.contains("mcp.json:3:2: /policy/profiles/a/alow: "), "{told}");
        assert!(told.ends_with("did you mean `allow`?"), "{told}");
    }

    #[test]
    fn the_policy_of_a_file_with_a_byte_order_mark_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = dir.path().join("mcp.json");
        let text = r#"{"servers": {}, "policy": {"deny": ["files.*"]}}"#;
        std::fs::write(&config, format!("\u{feff}{text}")).expect("written");
        let marked = loaded(&config).expect("usable").config;
        std::fs::write(&config, text).expect("written");
        assert_eq!(marked, loaded(&config).expect("usable").config);
        assert_ne!(marked, PolicyConfig::default());
    }

    #[test]
    fn what_is_no_whole_object_of_rules_is_a_problem_that_names_the_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = dir.path().join("mcp.json");
        let policies: [&[u8]; 28] = [
            b"",
            b"  \n",
            b"\xef\xbb\xbf",
            b"// nothing\n",
            b"[]",
            b"null",
            b"0",
            b"\"\"",
            b"true",
            b"{\"deny\": [\"a.t\"]",
            b"\0\0\0",
            b"{} {}",
            b"{\"deny\": null}",
            b"\xff{}",
            b"{\"limits\": []}",
            b"{\"profiles\": {\"ci\": []}}",
            b"{\"trifecta\": []}",
            b"{\"deny\": [\"a.t\"], \"deny\": []}",
            b"{\"deny\": [{\"tools\": []}]}",
            b"{\"deny\": [{\"servers\": [], \"tools\": [\"t\"]}]}",
            b"{\"deny\": [{\"servers\": []}]}",
            b"{\"limits\": {\"callTimeout\": -1}}",
            b"{\"profiles\": {\"ci\": {\"limits\": {\"callTimeout\": 0}}}}",
            b"{\"hook\": {\"url\": \"http://127.0.0.1\", \"timeout\": 1e300}}",
            b"{\"deny\": [[\"a\"]]}",
            b"{\"deny\": [\"\"]}",
            b"{\"deny\": [\"a.t\", \"  \"]}",
            b"{\"profiles\": {\"ci\": {\"allow\": [{\"servers\": [\"\"]}]}}}",
        ];
        for text in policies {
            let shown = String::from_utf8_lossy(text);
            std::fs::write(dir.path().join(POLICY_FILE), text).expect("written");
            let problems = loaded(&config).expect_err(&shown);
            assert!(problems[0].contains(POLICY_FILE), "{shown}: {problems:?}");
        }
        std::fs::write(dir.path().join(POLICY_FILE), "{}").expect("written");
        assert!(loaded(&config).expect("no rules").is_empty());
        std::fs::remove_file(dir.path().join(POLICY_FILE)).expect("removed");
        for text in [
            "",
            "{}",
            "[]",
            "{\"servers\": {}",
            "{\"servers\": {}, \"policy\": []}",
            "{\"servers\": {}, \"Policy\": {\"deny\": [\"a\"]}}",
            "{\"servers\": {}, \"polcy\": {\"deny\": [\"a\"]}}",
            "{\"servers\": {}, \"policy\": null}",
            "{\"servers\": {}, \"policy\": \"\"}",
            "{\"servers\": {}, \"policy\": {\"deny\": [\"a\"]}, \"policy\": {}}",
        ] {
            std::fs::write(&config, text).expect("written");
            let problems = loaded(&config).expect_err(text);
            assert!(problems[0].contains("mcp.json"), "{text}: {problems:?}");
        }
        std::fs::write(&config, "{\"servers\": {}}").expect("written");
        assert!(loaded(&config).expect("no rules").is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_policy_that_is_no_file_is_a_problem_and_none_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let (config, file) = (dir.path().join("mcp.json"), dir.path().join(POLICY_FILE));
        assert!(loaded(&config).expect("none").source.is_none());
        std::os::unix::fs::symlink("missing", &file).expect("linked");
        loaded(&config).expect_err("a link to nothing");
        std::fs::remove_file(&file).expect("removed");
        std::fs::create_dir(&file).expect("made");
        loaded(&config).expect_err("a folder");
        let (path, old) = clear_policy(&config).expect("cleared");
        assert!(loaded(&config).expect("whole").is_empty());
        assert_eq!((path, old.map(|old| old.is_dir())), (file, Some(true)));
    }
}
