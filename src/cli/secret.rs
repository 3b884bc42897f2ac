//! `secret`: values that a configuration references as `${secret:NAME}`. Values are read from stdin
//! and never printed.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Read as _};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::args::Common;
use super::output::{CommandResult, ExitStatus};
use super::{load, output};
use ::deck::{NEW_PASSPHRASE, SecretStore, keyring_place, system_keyring};
use base::{SafeText, Secret};
use config::Environment;

/// `mcpdeck secret`
#[derive(Debug, Args)]
#[command(after_help = "\
The values are kept encrypted (XChaCha20-Poly1305) in secrets.json of the state folder. The key comes
from MCPDECK_SECRETS_PASSPHRASE (Argon2id), else from the file MCPDECK_SECRETS_KEY_FILE names
[default: secrets.key in the configuration folder of mcpdeck, made with the first secret].
`rotate` encrypts everything under a new key: under MCPDECK_SECRETS_NEW_PASSPHRASE when it is set, else
under a new key file.")]
pub struct SecretArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: SecretVerb,
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `mcpdeck secret` does.
#[derive(Debug, Subcommand)]
pub enum SecretVerb {
    /// Store the value read from stdin, without the line break at its end.
    Set {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
        /// Store it in the keyring of the system, for ${keyring:NAME}.
        #[arg(long)]
        keyring: bool,
    },
    /// Show the names.
    List,
    /// Delete values.
    Remove {
        /// Their names.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
    /// Encrypt everything under a new key.
    Rotate,
}

/// `mcpdeck secret`
pub fn secret(common: &Common, args: &SecretArgs) -> CommandResult {
    let (env, _) = load::here(common)?;
    let store = SecretStore::from_env(&env)
        .ok_or_else(|| output::refuse("there is no folder in which secrets could be kept"))?;
    let done = match &args.verb {
        SecretVerb::Set { name, keyring } => set(&store, keyring.then_some(&env), name),
        SecretVerb::List => list(&store, args.json),
        SecretVerb::Remove { names } => remove(&store, names),
        SecretVerb::Rotate => {
            let new = env.var(NEW_PASSPHRASE).filter(|text| !text.is_empty()).map(Secret::new);
            let count = store.rotate(new.as_ref());
            let text = |count| format!("{count} encrypted under a new key\n");
            count.map(|count| SecretReport {
                text: text(count),
                object: json!({ "encrypted": count }),
            })
        }
    };
    let SecretReport { text, object } = done.map_err(|problem| output::refuse(&problem))?;
    if args.json {
        return Ok(output::json(&object, ExitStatus::Ok));
    }
    Ok(output::print(&text, ExitStatus::Ok))
}

/// What was done, for people and as an object.
struct SecretReport {
    text: String,
    object: Value,
}

fn list(store: &SecretStore, json: bool) -> Result<SecretReport, String> {
    let names = store.names()?;
    if names.is_empty() && !json {
        output::complain("no secret is stored; `mcpdeck secret set NAME` stores one");
    }
    let text = names.iter().map(|name| SafeText::line(name).to_string() + "\n").collect();
    Ok(SecretReport { text, object: json!({ "secrets": names }) })
}

fn remove(store: &SecretStore, names: &[String]) -> Result<SecretReport, String> {
    let mut text = String::new();
    let mut all: Vec<Value> = Vec::new();
    for name in names {
        let removed = store.remove(name)?;
        let word = if removed { "removed" } else { "there was none" };
        let _ = writeln!(text, "{}: {word}", SafeText::line(name));
        all.push(json!({ "secret": name, "removed": removed }));
    }
    Ok(SecretReport { text, object: json!({ "secrets": all }) })
}

fn set(
    store: &SecretStore,
    keyring: Option<&Environment>,
    name: &str,
) -> Result<SecretReport, String> {
    if let Some((name, _)) = name.split_once('=') {
        let name = SafeText::line(name);
        return Err(format!(
            "a value on the command line is seen by every user of this machine: give it on stdin, \
             `mcpdeck secret set {name} < FILE`"
        ));
    }
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Err("give the value on stdin, for example from your password manager".to_owned());
    }
    let mut value = String::new();
    stdin.read_to_string(&mut value).map_err(|error| format!("stdin: {error}"))?;
    let value = value.strip_suffix('\n').unwrap_or(&value);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() {
        return Err("the value is empty".to_owned());
    }
    let value = Secret::new(value);
    let source = match keyring {
        None => {
            store.set(name, &value)?;
            "secret"
        }
        Some(env) => {
            let keyring = system_keyring(env)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            runtime.block_on(keyring.set(&keyring_place(name), &value))?;
            "keyring"
        }
    };
    let (shown, reference) = (SafeText::line(name), format!("${{{source}:{name}}}"));
    let text = format!("{shown}: kept; write {} where it is needed\n", SafeText::line(&reference));
    Ok(SecretReport { text, object: json!({ "secret": name, "reference": reference }) })
}
