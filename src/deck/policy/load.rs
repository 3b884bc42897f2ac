//! The policy as written: the `"policy"` of an mcp.json, or `mcpdeck.policy.json` beside it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::base::file::read_text;
use crate::host::policy::{PolicyConfig, Rules};

/// Name of the file beside `mcp.json`.
pub const POLICY_FILE: &str = "mcpdeck.policy.json";

/// Largest file that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// A policy that can be used.
#[derive(Debug, Default)]
pub struct PolicyFile {
    /// As written.
    pub config: PolicyConfig,
    /// Its rules.
    pub rules: Rules,
}

/// Loads the policy of a configuration: the last file that has one, with the policy file beside it
/// before its own `"policy"`.
///
/// # Errors
/// Every problem, each naming the file: nothing may be permitted by half a policy.
pub fn load(configs: &[PathBuf]) -> Result<PolicyFile, Vec<String>> {
    for config in configs.iter().rev() {
        let beside = config.with_file_name(POLICY_FILE);
        let found = match read(&beside).map_err(|problem| vec![problem])? {
            Some(value) => Some((beside, value)),
            // What cannot be read here is told when the configuration is loaded.
            None => read(config)
                .ok()
                .flatten()
                .and_then(|mut value| value.get_mut("policy").map(Value::take))
                .map(|value| (config.clone(), value)),
        };
        if let Some((file, value)) = found {
            return compiled(file, value);
        }
    }
    Ok(PolicyFile::default())
}

fn compiled(file: PathBuf, value: Value) -> Result<PolicyFile, Vec<String>> {
    let at = |problem: String| format!("{}: {problem}", crate::base::text::path::spelled(&file));
    let config: PolicyConfig =
        serde_json::from_value(value).map_err(|error| vec![at(format!("`policy`: {error}"))])?;
    match Rules::compile(&config) {
        Ok(rules) => Ok(PolicyFile { config, rules }),
        Err(problems) => Err(problems.into_iter().map(at).collect()),
    }
}

fn read(path: &Path) -> Result<Option<Value>, String> {
    let fail = |error: String| format!("{}: {error}", crate::base::text::path::spelled(path));
    let text = read_text(path, LARGEST).map_err(|error| fail(error.to_string()))?;
    let Some(text) = text else { return Ok(None) };
    let root = jsonc_parser::cst::CstRootNode::parse(&text, &jsonc_parser::ParseOptions::default())
        .map_err(|error| fail(error.to_string()))?;
    Ok(Some(root.to_serde_value().unwrap_or(Value::Null)))
}

/// The JSON Schema of a policy.
pub fn policy_schema() -> Value {
    schemars::schema_for!(PolicyConfig).to_value()
}
