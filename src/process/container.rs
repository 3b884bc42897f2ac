//! Servers in containers (`"launch": {"docker": ...}`): at every stop a container that outlives the
//! engine's client is killed by its id, and at the next start those of an earlier host by label.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use crate::{Launch, census};
use config::{ENTRY_LABEL, HOST_LABEL, ID_FILE};

/// Timeout for one engine command.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(10);

/// A container that is about to run, or runs.
#[derive(Clone)]
pub struct Container {
    launch: Arc<Launch>,
    id_file: PathBuf,
    entry: OsString,
}

impl Container {
    /// The container that a command line runs, if any; fills in the per-start arguments.
    pub fn prepare(launch: &mut Launch) -> Option<Self> {
        let place = launch.args.iter().position(|arg| arg == ID_FILE)?;
        let is_entry = |arg: &str| arg.starts_with(ENTRY_LABEL);
        let entry = launch.args.iter().find(|arg| arg.to_str().is_some_and(is_entry))?.clone();
        let id_file = std::env::temp_dir().join(format!("mcpdeck-{:032x}.cid", fastrand::u128(..)));
        launch.args[place] = id_file.clone().into();
        for arg in launch.args.iter_mut().filter(|arg| *arg == HOST_LABEL) {
            arg.push(std::process::id().to_string());
        }
        Some(Self { launch: Arc::new(launch.clone()), id_file, entry })
    }

    /// Ends containers of this entry whose host is gone.
    pub async fn end_left(&self) {
        let mut filter = OsString::from("label=");
        filter.push(&self.entry);
        let form = r#"{{.ID}} {{.Label "mcpdeck.host"}}"#;
        let list = [OsStr::new("ps"), "--no-trunc".as_ref(), "--filter".as_ref(), &filter];
        let Some(found) =
            self.engine(list.into_iter().chain(["--format", form].map(OsStr::new))).await
        else {
            return;
        };
        for line in found.lines() {
            let Some((id, host)) = line.split_once(' ') else { continue };
            let host: Option<u32> = host.trim().parse().ok();
            let lives = |host| host != std::process::id() && census::row(host).is_some();
            if !host.is_some_and(lives) {
                tracing::warn!(target: "mcpdeck::process", id, "ending a container that was left");
                self.kill(id).await;
            }
        }
    }

    /// Ends it, even if the program that started it is gone.
    pub async fn end(&self) {
        if let Ok(id) = tokio::fs::read_to_string(&self.id_file).await {
            self.kill(id.trim()).await;
        }
        let _ = tokio::fs::remove_file(&self.id_file).await;
    }

    async fn kill(&self, id: &str) {
        if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            // Fails if it has already ended, which is fine.
            self.engine(["kill", id].map(OsStr::new).into_iter()).await;
        }
    }

    /// The output of an engine command; `None` when it fails or times out.
    async fn engine<'a>(&self, args: impl Iterator<Item = &'a OsStr>) -> Option<String> {
        let mut command = tokio::process::Command::new(&self.launch.program);
        command.args(args).env_clear().current_dir(&self.launch.cwd).kill_on_drop(true);
        command.envs(self.launch.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let output = tokio::time::timeout(ENGINE_TIMEOUT, command.output()).await.ok()?.ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
