//! Access policy from files: the rules of the configuration, grants and reviews. Stores them,
//! follows them while a host runs, and sets the policy of the host.

mod file;
mod keeper;
mod offline;
pub(crate) mod secrets;
mod sources;

pub use keeper::{PolicyKeeper, PolicyView};
pub use offline::Offline;
pub use secrets::{NEW_PASSPHRASE, PASSPHRASE, SecretStore};
pub use sources::{keyring_place, secret_sources, system_keyring};

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::file::TrustedFile;
use crate::written::WrittenText;
use base::Timestamp;
use base::file::file_key;
use config::Environment;
use host::{Grant, GrantId, GrantKind, NewGrant, PolicyConfig, Rules};

/// Name of the file beside `mcp.json`.
pub const POLICY_FILE: &str = "mcpdeck.policy.json";

/// A policy that can be used: the `"policy"` of an `mcp.json`, or the file beside it.
#[derive(Debug, Default)]
pub struct PolicyFile {
    /// As written.
    pub config: PolicyConfig,
    /// Its rules.
    pub rules: Rules,
}

/// Loads the policy of a configuration: that of the last file with one; the policy file beside it
/// takes precedence over its own `"policy"`.
///
/// # Errors
/// Every problem, each naming the file: a partial policy must not permit anything.
pub fn load_policy(configs: &[PathBuf]) -> Result<PolicyFile, Vec<String>> {
    let read = |path: &Path| WrittenText::find(path)?.map(|text| text.value()).transpose();
    for config in configs.iter().rev() {
        let beside = config.with_file_name(POLICY_FILE);
        if let Some(value) = read(&beside).map_err(|problem| vec![problem])? {
            return compiled(&beside, value);
        }
        // The loader reports configuration files that cannot be read.
        let mut own = read(config).ok().flatten();
        if let Some(value) = own.as_mut().and_then(|value| value.get_mut("policy")) {
            return compiled(config, value.take());
        }
    }
    Ok(PolicyFile::default())
}

fn compiled(file: &Path, value: Value) -> Result<PolicyFile, Vec<String>> {
    let at = |problem: String| format!("{}: {problem}", base::text::path::spelled(file));
    let config: PolicyConfig =
        serde_json::from_value(value).map_err(|error| vec![at(format!("`policy`: {error}"))])?;
    match Rules::compile(&config) {
        Ok(rules) => Ok(PolicyFile { config, rules }),
        Err(problems) => Err(problems.into_iter().map(at).collect()),
    }
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

/// The grants for one configuration file. An untrusted file is neither read nor written.
#[derive(Clone, Debug)]
pub struct GrantStore {
    file: TrustedFile,
}

impl GrantStore {
    /// The store for a configuration file. `None` without a state folder.
    pub fn of(config: &Path, env: &Environment) -> Option<Self> {
        Some(Self { file: TrustedFile::new(state_path(config, env, "grants")?) })
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
        let mut kept: GrantFile = self.file.read()?.unwrap_or_default();
        kept.grants.retain(|grant| !grant.is_over(now));
        Ok(kept.grants)
    }

    /// Stores a grant. Not for one that ends with a session, which belongs to a running host.
    ///
    /// # Errors
    /// As [`GrantStore::list`], or when the file cannot be written; nothing is granted then.
    pub fn add(&self, new: NewGrant, now: Timestamp) -> Result<Grant, String> {
        self.file.change(|kept: &mut GrantFile| {
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
        self.file.change(|kept: &mut GrantFile| {
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
        self.file.change(|kept: &mut GrantFile| (change(&mut kept.grants), ()))
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

/// Path of the state of kind `what` for a configuration file.
pub(crate) fn state_path(config: &Path, env: &Environment, what: &str) -> Option<PathBuf> {
    let file = config::clean_path(&env.absolute(config));
    Some(env.state_dir.as_ref()?.join("policy").join(format!("{}.{what}.json", file_key(file))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_of_a_file_with_a_byte_order_mark_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = dir.path().join("mcp.json");
        let text = r#"{"servers": {}, "policy": {"deny": ["files.*"]}}"#;
        std::fs::write(&config, format!("\u{feff}{text}")).expect("written");
        let marked = load_policy(std::slice::from_ref(&config)).expect("usable").config;
        std::fs::write(&config, text).expect("written");
        assert_eq!(marked, load_policy(&[config]).expect("usable").config);
        assert_ne!(marked, PolicyConfig::default());
    }
}
