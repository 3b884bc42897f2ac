//! The keyring of the user's system, through its command line program: `secret-tool` for the Secret
//! Service on Linux and the BSDs, `security` on macOS. Values are passed through pipes, never as
//! arguments. Only values stored here before are requested, because a keyring may have to be
//! unlocked manually.
//!
//! The crate `keyring` (4.2) is not used: it needs a D-Bus client, about 50 packages, for one value a
//! call.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use base::Secret;

/// How long the user may take to unlock it.
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest value that is read back, in bytes.
const MAX_VALUE_BYTES: u64 = 64 << 10;

/// The keyring, through its command line program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyring {
    program: PathBuf,
    kind: KeyringKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyringKind {
    SecretTool,
    Security,
}

/// The place of a value: an input of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyringPlace {
    /// The configuration file, absolute.
    pub file: String,
    /// Id of the input.
    pub input: String,
}

impl Keyring {
    /// The keyring of this system, when its program is on `path` (the value of `PATH`).
    pub fn find(path: Option<&str>) -> Option<Self> {
        let kind =
            if cfg!(target_os = "macos") { KeyringKind::Security } else { KeyringKind::SecretTool };
        let name = Self::program_name();
        let folders = std::env::split_paths(path?).filter(|folder| folder.is_absolute());
        let program = folders.map(|folder| folder.join(name)).find(|p| is_program(p))?;
        Some(Self { program, kind })
    }

    /// The name of the keyring program on this system.
    pub const fn program_name() -> &'static str {
        if cfg!(target_os = "macos") { "security" } else { "secret-tool" }
    }

    /// Stores a value.
    ///
    /// # Errors
    /// A message that does not contain the value.
    pub async fn set(&self, place: &KeyringPlace, value: &Secret) -> Result<(), String> {
        let (args, input) = match self.kind {
            KeyringKind::SecretTool => {
                let label = format!("mcpdeck input {}", place.input);
                let mut args = vec!["store".to_owned(), format!("--label={label}")];
                args.extend(attributes(place));
                (args, value.expose().to_owned())
            }
            // A command ends at a line break: the rest of the value would be read as the next one.
            KeyringKind::Security if value.expose().contains(['\n', '\r']) => {
                return Err(
                    "the keyring (security): a value of several lines cannot be kept".to_owned()
                );
            }
            KeyringKind::Security => {
                // Its own command language, read from stdin: nothing is passed as arguments.
                let line = format!(
                    "add-generic-password -U -s {} -a {} -w {}\n",
                    quoted("mcpdeck"),
                    quoted(&account(place)),
                    quoted(value.expose())
                );
                (vec!["-i".to_owned()], line)
            }
        };
        self.run(&args, &input).await.map(|_| ())
    }

    /// The stored value, if there is one.
    ///
    /// # Errors
    /// A sentence.
    pub async fn get(&self, place: &KeyringPlace) -> Result<Option<Secret>, String> {
        let args =
            self.query("lookup", &["find-generic-password", "-s", "mcpdeck", "-w", "-a"], place);
        let text = self.run(&args, "").await?;
        // `security` ends the value with a line break, `secret-tool` does not.
        let text =
            if self.kind == KeyringKind::Security { text.trim_end_matches('\n') } else { &text };
        Ok((!text.is_empty()).then(|| Secret::new(text)))
    }

    /// Removes a value.
    ///
    /// # Errors
    /// A sentence.
    pub async fn forget(&self, place: &KeyringPlace) -> Result<(), String> {
        let args = self.query("clear", &["delete-generic-password", "-s", "mcpdeck", "-a"], place);
        self.run(&args, "").await.map(|_| ())
    }

    /// Arguments of a query for a place, for either program.
    fn query(&self, secret_tool: &str, security: &[&str], place: &KeyringPlace) -> Vec<String> {
        let (words, place): (&[&str], Vec<String>) = match self.kind {
            KeyringKind::SecretTool => (&[secret_tool], attributes(place).to_vec()),
            KeyringKind::Security => (security, vec![account(place)]),
        };
        words.iter().map(|word| (*word).to_owned()).chain(place).collect()
    }

    async fn run(&self, args: &[String], input: &str) -> Result<String, String> {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let said = run_program(&self.program, args, input, UNLOCK_TIMEOUT).await;
        said.map_err(|what| format!("the keyring ({name}): {what}"))
    }
}

/// Why a program gave no usable output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFailure {
    /// It cannot be run, failed, or timed out.
    pub why: String,
    /// What it wrote to stdout and then, where that was read, to stderr.
    pub output: String,
}

/// The output of a program for an input on stdin; its stderr is not read.
///
/// # Errors
/// Why there is no usable output: it cannot be run, fails, or times out.
pub async fn run_program(
    program: &Path,
    args: &[String],
    input: &str,
    timeout: Duration,
) -> Result<String, String> {
    let done = run_reading(program, args, input, timeout, Stdio::null()).await;
    done.map_err(|failure| failure.why)
}

/// The same for a program whose reasons are wanted when it fails.
///
/// # Errors
/// As [`run_program`], with what it wrote.
pub async fn query_program(
    program: &Path,
    args: &[String],
    input: &str,
    timeout: Duration,
) -> Result<String, ProgramFailure> {
    run_reading(program, args, input, timeout, Stdio::piped()).await
}

async fn run_reading(
    program: &Path,
    args: &[String],
    input: &str,
    timeout: Duration,
    stderr: Stdio,
) -> Result<String, ProgramFailure> {
    let failed = |why: String| ProgramFailure { why, output: String::new() };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
    let mut child = command.kill_on_drop(true).spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => failed("the program is not there".to_owned()),
        _ => failed(error.to_string()),
    })?;
    let run = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A program that fails before it reads this reports it by its exit status.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (text, reasons) = tokio::try_join!(read_start(stdout), read_start(stderr))?;
        let text = String::from_utf8(text).map_err(std::io::Error::other)?;
        // Reasons are for people: what is no text in them is no failure.
        let reasons = String::from_utf8_lossy(&reasons).into_owned();
        Ok::<_, std::io::Error>((child.wait().await?, text, reasons))
    };
    match tokio::time::timeout(timeout, run).await {
        Ok(Ok((status, text, _))) if status.success() => Ok(text),
        Ok(Ok((status, text, reasons))) => {
            Err(ProgramFailure { why: status.to_string(), output: text + &reasons })
        }
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("it did not answer".to_owned())),
    }
}

/// The start of an output.
async fn read_start(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_VALUE_BYTES).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

fn attributes(place: &KeyringPlace) -> [String; 6] {
    ["service", "mcpdeck", "file", &place.file, "input", &place.input].map(str::to_owned)
}

fn account(place: &KeyringPlace) -> String {
    format!("{}#{}", place.file, place.input)
}

/// Quotes a word for the command language of `security -i`.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

fn is_program(path: &Path) -> bool {
    let Ok(meta) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let runs = std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let runs = true;
    meta.is_file() && runs
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reasons_that_are_no_text_are_no_failure_and_are_kept_of_one() {
        let run = async |script: &str| {
            let args = ["-c".to_owned(), script.to_owned()];
            query_program(Path::new("/bin/sh"), &args, "", Duration::from_secs(60)).await
        };
        let warned = run(r"printf '\377 old' >&2; echo 1.2").await;
        assert_eq!(warned.as_deref(), Ok("1.2\n"));
        let failed = run(r"printf '\377 gone' >&2; echo out; exit 3").await.unwrap_err();
        assert_eq!(failed.output, "out\n\u{fffd} gone");
        assert!(failed.why.contains('3'), "{failed:?}");
    }
}
