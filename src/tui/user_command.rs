//! Commands of the user's keymap file: a shell command bound to a key.
//!
//! Names chosen by servers never become part of the command line: a placeholder is replaced by a
//! quoted reference to an environment variable, which the shell does not parse again.

use std::io;
use std::process::Stdio;

use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use crate::prelude::*;

/// Placeholders of a command line, the environment variables that hold their values, and the hint
/// if there is no value.
pub const PLACES: [(&str, &str, &str); 3] = [
    ("{server}", "COMMAND_SERVER", "select a server first"),
    ("{tool}", "COMMAND_TOOL", "select a tool in Tools first"),
    ("{uri}", "COMMAND_URI", "select a resource in Resources first"),
];
/// Time limit for a command without the terminal.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait for its output after it has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);
/// Most bytes of its output that are shown, of each stream.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// A table `[commands.NAME]` of the keymap file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserCommand {
    pub key: String,
    /// The shell command line.
    pub run: String,
    /// Where the key is bound.
    #[serde(default = "global")]
    pub scope: String,
    /// A sentence for help and palette.
    #[serde(default)]
    pub help: String,
    /// Whether to ask before running it.
    #[serde(default)]
    pub confirm: bool,
    /// Whether it gets the terminal.
    #[serde(default)]
    pub terminal: bool,
    #[serde(skip)]
    pub name: String,
    /// Whether the terminal shows the line before it runs, and keeps a failure until it was read.
    #[serde(skip)]
    pub is_shown: bool,
}

impl UserCommand {
    /// A command line that mends something; with the terminal it is shown, otherwise its output is.
    pub fn mending(run: String, terminal: bool) -> Self {
        Self {
            key: String::new(),
            name: run.clone(),
            run,
            scope: String::new(),
            help: String::new(),
            confirm: false,
            terminal,
            is_shown: true,
        }
    }
}

fn global() -> String {
    "global".to_owned()
}

/// A command with the values of its placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledCommand {
    pub command: UserCommand,
    /// Values, in the order of [`PLACES`].
    pub values: [Option<String>; 3],
}

impl FilledCommand {
    /// The line as the shell reads it. Directly within double quotes the reference is inserted as
    /// it is, elsewhere in quotes of its own, so that a value is never split into words.
    fn script(&self) -> String {
        let mut script = String::new();
        // Open quotes, and open commands within them.
        let mut open = Vec::new();
        let mut rest = self.command.run.as_str();
        while let Some(c) = rest.chars().next() {
            if let Some((place, name, _)) =
                PLACES.iter().find(|(place, ..)| rest.starts_with(place))
            {
                let (before, after) = match open.last() {
                    _ if cfg!(windows) => ("${env:", "}"),
                    Some('"') => ("${", "}"),
                    _ => ("\"${", "}\""),
                };
                script.extend([before, name, after]);
                rest = &rest[place.len()..];
                continue;
            }
            match (open.last(), c) {
                (Some('\''), '\'') | (Some('"'), '"') | (Some('`'), '`') | (Some('('), ')') => {
                    open.pop();
                }
                (Some('\''), _) | (Some('"'), '\'') => {}
                (inside, '(') if script.ends_with('$') || inside == Some(&'(') => open.push(c),
                (_, '"' | '\'' | '`') => open.push(c),
                _ => {}
            }
            script.push(c);
            rest = &rest[c.len_utf8()..];
            if let Some(next) = rest.chars().next()
                && c == '\\'
                && open.last() != Some(&'\'')
            {
                script.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        script
    }

    fn shell(&self) -> Command {
        let (program, options): (&str, &[&str]) = if cfg!(windows) {
            ("powershell", &["-NoProfile", "-Command"])
        } else {
            ("/bin/sh", &["-c"])
        };
        let mut script = self.script();
        if self.command.is_shown && self.command.terminal && !cfg!(windows) {
            script = shown_script(&script);
        }
        let mut shell = Command::new(program);
        shell.args(options).arg(script).kill_on_drop(true);
        for ((_, name, _), value) in PLACES.iter().zip(&self.values) {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell
    }

    fn failed(&self, why: impl std::fmt::Display) -> SafeText {
        SafeText::line(&format!("{}: {why}", self.command.name))
    }

    /// Runs it with the terminal, which must have been released.
    ///
    /// # Errors
    /// Why it could not be started, or how it ended.
    pub async fn in_terminal(&self) -> Result<(), SafeText> {
        match self.shell().status().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.failed(status)),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Runs it without the terminal; returns its output until it ended. Processes it left in the
    /// background keep running.
    ///
    /// # Errors
    /// Why there is no output.
    pub async fn captured(&self) -> Result<SafeText, SafeText> {
        self.captured_within(COMMAND_TIMEOUT).await
    }

    async fn captured_within(&self, longest: Duration) -> Result<SafeText, SafeText> {
        let work = async {
            let mut shell = self.shell();
            shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            #[cfg(unix)]
            shell.process_group(0);
            let mut group = Group(shell.spawn()?);
            let (stdout, stderr) = (group.0.stdout.take(), group.0.stderr.take());
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let status = {
                let read =
                    async { tokio::try_join!(read(stdout, &mut out), read(stderr, &mut err)) };
                tokio::pin!(read);
                tokio::select! {
                    read = &mut read => {
                        read?;
                        group.0.wait().await?
                    }
                    status = group.0.wait() => {
                        // Background processes may hold the pipes open forever.
                        if let Ok(read) = tokio::time::timeout(OUTPUT_TIMEOUT, read).await {
                            read?;
                        }
                        status?
                    }
                }
            };
            out.append(&mut err);
            Ok::<_, io::Error>((String::from_utf8_lossy(&out).into_owned(), status))
        };
        match tokio::time::timeout(longest, work).await {
            Ok(Ok((mut text, status))) => {
                if !status.success() || text.is_empty() {
                    text.extend(["(", &status.to_string(), ")"]);
                }
                Ok(SafeText::block(&text))
            }
            Ok(Err(error)) => Err(self.failed(error)),
            Err(_) => Err(self.failed("stopped after 60 s; `terminal = true` sets no limit")),
        }
    }
}

/// A script that prints its line first, and waits for a key when it has failed.
fn shown_script(line: &str) -> String {
    format!(
        "printf '$ %s\\n\\n' {}\n(\n{line}\n)\nstatus=$?\nif [ $status -ne 0 ]; then\n\
         printf '\\nIt failed (exit code %s). Enter goes back to mcpdeck. ' $status\n\
         read -r _\nfi\nexit $status",
        base::text::quoted(line)
    )
}

/// Reads a pipe to its end, or up to the most bytes shown; then it says so.
async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) -> io::Result<()> {
    if let Some(pipe) = pipe
        && pipe.take(MAX_OUTPUT_BYTES).read_to_end(bytes).await? as u64 == MAX_OUTPUT_BYTES
    {
        bytes.extend("\n… the rest is left out\n".as_bytes());
    }
    Ok(())
}

/// A shell in its own process group; dropping it kills the whole group.
struct Group(Child);

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        let id = self.0.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        if let Some(id) = id {
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn run(line: &str, tool: &str) -> FilledCommand {
        let command = UserCommand {
            key: "f10".into(),
            name: "try".into(),
            is_shown: false,
            ..UserCommand::mending(line.into(), false)
        };
        FilledCommand { command, values: [None, Some(tool.into()), None] }
    }

    #[tokio::test]
    async fn what_a_server_calls_its_tool_is_one_word_and_never_a_command() {
        let hostile = "a  $(echo run)`echo run`\"; echo run '*";
        for line in [
            "printf '[%s]' {tool}",
            "printf '[%s]' \"{tool}\"",
            "printf '[%s]' \"x\"{tool} | sed s/x//",
            "printf %s \"$(printf '[%s]' {tool})\"",
            "sh -c 'printf \"[%s]\" {tool}'",
            "printf \\\"; printf '[%s]' {tool}",
        ] {
            let said = run(line, hostile).captured().await.expect("it ran");
            assert_eq!(said.trim_start_matches('"'), format!("[{hostile}]"), "{line}");
        }
    }

    #[test]
    fn a_line_that_mends_something_is_shown_as_it_is_and_its_failure_waits_to_be_read() {
        let ends = |line: &str, typed: &str| {
            let shell = std::process::Command::new("/bin/sh")
                .args(["-c", &shown_script(line)])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn();
            let mut shell = shell.expect("a shell");
            let mut stdin = shell.stdin.take().expect("piped");
            std::io::Write::write_all(&mut stdin, typed.as_bytes()).expect("it reads");
            drop(stdin);
            let output = shell.wait_with_output().expect("it ends");
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (code, said) = ends("cd '/a b' 2>/dev/null || exit 7", "");
        assert_eq!(
            (code, said.lines().next()),
            (Some(7), Some("$ cd '/a b' 2>/dev/null || exit 7"))
        );
        let (code, said) = ends("printf 100%; false", "\n");
        assert_eq!(code, Some(1));
        assert!(said.contains("100%") && said.contains("It failed (exit code 1)"), "{said}");
        let (code, said) = ends("true", "");
        assert_eq!((code, said.trim_end()), (Some(0), "$ true"));
    }

    #[tokio::test]
    async fn what_a_command_leaves_in_the_background_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        // It ends when its folder is gone, which is after the command is.
        let line = "cd {uri} && (while [ -d \"$PWD\" ]; do sleep 0.1; done) & echo done";
        let mut command = run(line, "");
        command.values[2] = Some(folder.path().display().to_string());
        let said = command.captured().await.expect("it ran");
        assert_eq!(said.as_str(), "done\n");
    }

    #[tokio::test]
    async fn output_that_is_too_long_is_cut_and_that_is_said() {
        let line = "head -c 2000000 /dev/zero | tr '\\0' x";
        let said = run(line, "").captured().await.expect("it ran");
        assert!(said.len() < 1_100_000 && said.contains("x\n… the rest is left out"));
    }

    /// Waits until something is so, without a clock.
    async fn until(mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_ends_with_everything_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().display();
        let begin = "echo $$ >begun && mv begun group";
        let line = format!("cd '{place}' && ({begin}; sleep 600) | cat");
        let slow = tokio::spawn(async move { run(&line, "").captured().await });
        let group = folder.path().join("group");
        until(|| group.exists()).await;
        tokio::time::pause();
        tokio::time::advance(COMMAND_TIMEOUT).await;
        let stopped = slow.await.expect("no panic").expect_err("it is stopped");
        assert!(stopped.contains("stopped after 60 s"), "{stopped}");
        let group = std::fs::read_to_string(group).expect("it wrote its group");
        let group = group.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
        let group = group.expect("a number");
        until(|| rustix::process::test_kill_process_group(group).is_err()).await;
    }

    #[tokio::test]
    async fn a_command_that_fails_says_how_it_ended() {
        let said = run("echo wrong >&2; exit 3", "").captured().await.expect("it ran");
        assert_eq!(said.as_str(), "wrong\n(exit status: 3)");
    }
}
