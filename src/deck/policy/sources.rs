//! Where `${secret:NAME}`, `${keyring:NAME}` and `${cmd:HELPER:ARGUMENT}` of a configuration come
//! from. A helper program is named in the user's own `helpers.json` only, never in a configuration.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;

use crate::base::Secret;
use crate::base::file::read_text;
use crate::config::{Environment, Sources};
use crate::deck::keyring::{Keyring, Place};
use crate::deck::policy::SecretStore;

/// Name of the file of helpers in the user's configuration folder.
pub const HELPERS: &str = "helpers.json";
/// A value is asked for again after this time.
const KEPT: Duration = Duration::from_secs(30);
/// How long a helper may take: a person may have to unlock something.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest value, in bytes.
const LONGEST: u64 = 64 << 10;
/// Largest file of helpers, in bytes.
const LARGEST: u64 = 1 << 20;

/// The user's helper programs: `{"helpers": {"op": ["op", "read", "{}"]}}`. `{}` is the argument.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Helpers {
    helpers: BTreeMap<String, Vec<String>>,
}

/// The sources of a user.
pub fn sources(env: &Environment) -> Sources {
    let known: Mutex<HashMap<(String, String), (Instant, Secret)>> = Mutex::default();
    let own = env.clone();
    Sources::new(move |scheme, name| {
        let key = (scheme.to_owned(), name.to_owned());
        if let Some((at, value)) = known.lock().get(&key)
            && at.elapsed() < KEPT
        {
            return Ok(value.clone());
        }
        let value = look_up(&own, scheme, name)?;
        known.lock().insert(key, (Instant::now(), value.clone()));
        Ok(value)
    })
}

fn look_up(env: &Environment, scheme: &str, name: &str) -> Result<Secret, String> {
    match scheme {
        "secret" => {
            let store = SecretStore::of(env).ok_or("there is no folder with secrets")?;
            store.get(name)?.ok_or_else(|| format!("there is no secret `{name}`"))
        }
        "keyring" => {
            let keyring = keyring(env)?;
            let place = place(name);
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
pub fn keyring(env: &Environment) -> Result<Keyring, String> {
    Keyring::find(env.var("PATH"))
        .ok_or_else(|| format!("the keyring needs the program `{}`", Keyring::program_name()))
}

/// Where the keyring holds a value that belongs to no file.
pub fn place(name: &str) -> Place {
    Place { file: String::new(), input: name.to_owned() }
}

fn command(env: &Environment, helper: &str, argument: &str) -> Result<Vec<String>, String> {
    let folder = env.config_dir.as_ref().ok_or("the configuration folder is not known")?;
    let path: PathBuf = folder.join("mcpdeck").join(HELPERS);
    let shown = crate::base::text::path::spelled(&path).into_owned();
    let text = read_text(&path, LARGEST).map_err(|error| format!("{shown}: {error}"))?;
    let text = text.ok_or_else(|| format!("{shown}: there is no such file"))?;
    let all: Helpers = serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
    let command = all.helpers.get(helper).filter(|command| !command.is_empty());
    let command = command.ok_or_else(|| format!("{shown}: there is no helper `{helper}`"))?;
    Ok(command.iter().map(|word| word.replace("{}", argument)).collect())
}

async fn run(helper: String, command: Vec<String>) -> Result<Secret, String> {
    let fail = |what: &str| format!("the helper `{helper}`: {what}");
    let (program, arguments) = command.split_first().ok_or_else(|| fail("is empty"))?;
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| fail(&error.to_string()))?;
    let spoken = async {
        let mut text = String::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(LONGEST).read_to_string(&mut text).await?;
        }
        Ok::<_, std::io::Error>((child.wait().await?, text))
    };
    match tokio::time::timeout(PATIENCE, spoken).await {
        Ok(Ok((status, text))) if status.success() => {
            let text = text.trim_end_matches(['\n', '\r']);
            if text.is_empty() { Err(fail("printed nothing")) } else { Ok(Secret::new(text)) }
        }
        Ok(Ok((status, _))) => Err(fail(&status.to_string())),
        Ok(Err(error)) => Err(fail(&error.to_string())),
        Err(_) => Err(fail("did not answer")),
    }
}

/// Waits for something from wherever a configuration is loaded.
fn aside<T: Send + 'static>(
    work: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| error.to_string())?.block_on(work)
    });
    thread.join().unwrap_or_else(|_| Err("it failed".to_owned()))
}
