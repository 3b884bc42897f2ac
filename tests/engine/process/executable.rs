//! Every reason why a command cannot be started has its own message (fault catalogue, row O6).

use std::path::Path;

use mcpdeck::base::secret::Secret;
use mcpdeck::config::StdioConfig;
use mcpdeck::process::{SpawnError, resolve};

use crate::process::support::{deck, make_executable, shell};

fn entry(command: &str) -> StdioConfig {
    StdioConfig { command: command.into(), args: Vec::new(), ..shell("") }
}

fn refused(config: &StdioConfig) -> SpawnError {
    match resolve(config) {
        Ok(launch) => panic!("found {}", launch.program.display()),
        Err(error) => error,
    }
}

fn file(dir: &Path, name: &str, content: &[u8]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).expect("a file");
    make_executable(&path);
    path.to_str().expect("text").to_owned()
}

#[test]
fn a_missing_command_names_the_path_that_was_searched_and_what_to_install() {
    let mut config = entry("npx");
    config.env.insert("PATH".into(), Secret::new("/nowhere:/nor/here"));
    let error = refused(&config);
    let text = error.error.to_string();
    assert!(text.contains("command not found: npx"), "{text}");
    assert!(text.contains("PATH=/nowhere:/nor/here"), "{text}");
    assert!(text.contains("Node.js"), "{text}");
    assert!(!error.retryable);
}

#[test]
fn a_long_path_is_counted_and_not_printed() {
    let mut config = entry("npx");
    config.env.insert("PATH".into(), Secret::new(["/nowhere/at/all"; 7].join(":")));
    let text = refused(&config).error.to_string();
    assert!(text.contains("searched the 7 folders of PATH"), "{text}");
    assert!(!text.contains("/nowhere"), "{text}");
}

#[test]
fn a_misspelt_command_is_corrected() {
    let error = refused(&entry("basename2"));
    assert!(error.error.to_string().contains("did you mean \"basename\"?"), "{}", error.error);
}

#[test]
fn a_whole_command_line_in_command_is_distinguished_from_its_arguments() {
    let error = refused(&entry("npx -y some-server"));
    assert!(error.error.to_string().contains("`args`"), "{}", error.error);
}

#[test]
fn a_relative_path_is_taken_from_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "server", b"#!/bin/sh\n");
    let mut config = entry("./server");
    config.cwd = Some(dir.path().to_owned());
    assert!(resolve(&config).unwrap().program.ends_with("server"));
    config.command = "./other".into();
    let error = refused(&config);
    assert!(error.error.to_string().contains("no such file"), "{}", error.error);
    assert!(error.error.to_string().contains(dir.path().to_str().unwrap()), "{}", error.error);
    // A bare name is not searched there, but the help suggests the path.
    config.command = "server".into();
    assert!(refused(&config).error.to_string().contains("./server"));
}

#[test]
fn what_only_a_shell_understands_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let script = file(dir.path(), "my server", b"#!/bin/sh\n");
    let plain = file(dir.path(), "server.py", b"print()\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&plain, mode).unwrap();
    for (command, part) in [
        ("~/bin/server".to_owned(), "write \"${userHome}/bin/server\""),
        (format!("{script} --port 3"), "the rest (\"--port 3\") in `args`"),
        ("/no such/file".to_owned(), "correct `command` or `cwd`"),
        (plain, "\"python3\" as `command`"),
    ] {
        let error = refused(&entry(&command)).error.to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn directories_plain_files_and_empty_files_are_distinguished() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().to_str().unwrap();
    assert!(refused(&entry(directory)).error.to_string().contains("is a directory"));
    let plain = file(dir.path(), "plain", b"#!/bin/sh\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&plain, mode).unwrap();
    let error = refused(&entry(&plain));
    assert!(error.error.to_string().contains("may not be executed"), "{}", error.error);
    assert!(error.error.to_string().contains("chmod +x"), "{}", error.error);
    let empty = file(dir.path(), "empty", b"");
    assert!(refused(&entry(&empty)).error.to_string().contains("is an empty file"));
}

#[test]
fn a_script_is_refused_when_nothing_can_run_it() {
    let dir = tempfile::tempdir().unwrap();
    for (content, words) in [
        (&b"echo hello\n"[..], "without a shebang"),
        (b"#!/no/such/interpreter\n", "needs /no/such/interpreter"),
        (b"#!/bin/sh\r\necho\r\n", "Windows line endings"),
        (b"#!\necho\n", "shebang line of"),
        (b"#!/usr/bin/env -S FOO=1 no-such-runtime --flag\n", "needs no-such-runtime"),
        (b"#!/usr/bin/env -S -u NAME no-such-runtime\n", "needs no-such-runtime"),
        (b"\x7fELF\x01\x02\x01\0\0\0\0\0\0\0\0\0\0\0\xff\xff\0\0", "not in a format this machine"),
        (b"\xca\xfe\xba\xbe\0\0\0\x02", "not in a format this machine"),
    ] {
        let path = file(dir.path(), "script", content);
        let error = refused(&entry(&path));
        assert!(error.error.to_string().contains(words), "{}", error.error);
    }
}

#[test]
fn a_wrong_working_directory_is_not_blamed_on_the_command() {
    let mut config = shell("");
    config.cwd = Some("/no/such/place".into());
    let error = refused(&config);
    assert!(error.error.to_string().contains("/no/such/place does not exist"), "{}", error.error);
    config.cwd = Some("/bin/sh".into());
    assert!(refused(&config).error.to_string().contains("is not a directory"));
}

#[test]
fn nul_and_emptiness_are_refused() {
    assert!(refused(&entry(" ")).error.to_string().contains("the command is empty"));
    assert!(refused(&entry("a\0b")).error.to_string().contains("the command contains NUL"));
    let mut config = shell("");
    config.args.push("x\0".into());
    let error = refused(&config);
    assert!(error.error.to_string().contains("argument 3"), "{}", error.error);
}

#[tokio::test]
async fn a_binary_whose_loader_is_missing_says_so() {
    // A copy of the local shell whose loader path is replaced by another of the same length.
    let mut bytes = std::fs::read("/bin/sh").unwrap();
    let loader = b"/lib64/ld-linux-x86-64.so.2";
    let Some(at) = bytes.windows(loader.len()).position(|part| part == loader) else { return };
    bytes[at + 1] = b'x';
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "prog", &bytes);
    let launch = resolve(&entry(&path)).unwrap();
    let Err(error) = deck("loader").try_start(launch).await else { panic!("started") };
    assert!(error.error.to_string().contains("loader or interpreter"), "{}", error.error);
}

#[tokio::test]
async fn arguments_beyond_the_systems_limit_are_named() {
    let mut config = shell("exit 0");
    config.args.extend(std::iter::repeat_n("x".repeat(100_000), 100));
    let Err(error) = deck("long").try_start(resolve(&config).unwrap()).await else {
        panic!("started")
    };
    assert!(error.error.to_string().contains("together are too long"), "{}", error.error);
    assert!(!error.retryable);
}

#[test]
fn a_terminal_escape_in_a_command_cannot_reach_the_message() {
    let text = refused(&entry("\x1b]0;owned\x07")).error.to_string();
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
