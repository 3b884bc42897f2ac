//! Sources of `${secret:NAME}`, `${keyring:NAME}` and `${cmd:HELPER:ARGUMENT}` in a configuration.
//! Helper programs are named only in the user's own `helpers.json`, never in a configuration.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize;

use crate::files;
use crate::keyring::{Keyring, KeyringPlace, run_program};
use crate::policy::SecretStore;
use base::Secret;
use config::{Environment, Sources};

/// Name of the file of helpers in the user's configuration folder.
pub const HELPERS: &str = "helpers.json";
/// How long a value is cached.
const VALUE_LIFETIME: Duration = Duration::from_secs(30);
/// How long a helper may take: the user may have to unlock something.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest file of helpers, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The user's helper programs: `{"helpers": {"op": ["op", "read", "{}"]}}`. `{}` is the argument.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Helpers {
    helpers: BTreeMap<String, Vec<String>>,
}

/// The sources of a user.
pub fn secret_sources(env: &Environment) -> Sources {
    let known: Mutex<HashMap<(String, String), (Instant, Secret)>> = Mutex::default();
    let own = env.clone();
    let file = SecretStore::from_env(env).map(|store| store.path().to_owned());
    let sources = Sources::new(move |scheme, name| {
        let key = (scheme.to_owned(), name.to_owned());
        if let Some((at, value)) = known.lock().get(&key)
            && at.elapsed() < VALUE_LIFETIME
        {
            return Ok(value.clone());
        }
        let value = look_up(&own, scheme, name)?;
        known.lock().insert(key, (Instant::now(), value.clone()));
        Ok(value)
    });
    match file {
        Some(file) => sources.kept_in(file),
        None => sources,
    }
}

fn look_up(env: &Environment, scheme: &str, name: &str) -> Result<Secret, String> {
    match scheme {
        "secret" => {
            let store = SecretStore::from_env(env).ok_or("there is no folder with secrets")?;
            store.get(name)?.ok_or_else(|| format!("there is no secret `{name}`"))
        }
        "keyring" => {
            let keyring = system_keyring(env)?;
            let place = keyring_place(name);
            let value = aside(async move { keyring.get(&place).await })?;
            value.ok_or_else(|| format!("the keyring has no `{name}`"))
        }
        _ => {
            let (helper, argument) = name.split_once(':').unwrap_or((name, ""));
            let command = command(env, helper, argument)?;
            aside(run(helper.to_owned(), command))
        }
    }
}

/// The keyring of the user's system.
///
/// # Errors
/// When its program is not there.
pub fn system_keyring(env: &Environment) -> Result<Keyring, String> {
    Keyring::find(env.var("PATH"))
        .ok_or_else(|| format!("the keyring needs the program `{}`", Keyring::program_name()))
}

/// The place in the keyring of a value that belongs to no file.
pub fn keyring_place(name: &str) -> KeyringPlace {
    KeyringPlace { file: String::new(), input: name.to_owned() }
}

fn command(env: &Environment, helper: &str, argument: &str) -> Result<Vec<String>, String> {
    let folder = env.own_config_dir().ok_or("the configuration folder is not known")?;
    let path: PathBuf = folder.join(HELPERS);
    let shown = base::text::path::spelled(&path);
    let all = files::load_json(&path, MAX_FILE_BYTES, |text| {
        files::parse_json::<Helpers>(text.as_bytes())
    })?;
    let all = all.ok_or_else(|| format!("{shown}: there is no such file"))?;
    let command = all.helpers.get(helper).filter(|command| !command.is_empty());
    let command = command.ok_or_else(|| format!("{shown}: there is no helper `{helper}`"))?;
    Ok(command.iter().map(|word| word.replace("{}", argument)).collect())
}

async fn run(helper: String, command: Vec<String>) -> Result<Secret, String> {
    let fail = |what: &str| format!("the helper `{helper}`: {what}");
    let (program, arguments) = command.split_first().ok_or_else(|| fail("is empty"))?;
    let said = run_program(program.as_ref(), arguments, "", HELPER_TIMEOUT).await;
    match said.map_err(|error| fail(&error))?.trim_end_matches(['\n', '\r']) {
        "" => Err(fail("printed nothing")),
        text => Ok(Secret::new(text)),
    }
}

/// Blocks on a future from any context, on a thread and runtime of its own.
fn aside<T: Send + 'static>(
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| error.to_string())?.block_on(work)
    });
    thread.join().unwrap_or_else(|_| Err("it failed".to_owned()))
}
