//! Runs the built program with a row and checks the universal invariants.

use std::process::Command;
use std::time::Duration;

use mcpdeck::base::text::json::WrittenValue;
use serde_json::Value;

use super::row::{Row, Run, subset};
use super::stage::{HOST_SECRET, Stage, secrets};
use super::support::{Finished, bin, finish, wait_for};

type Problems = Vec<String>;

/// Runs the program once and checks the row's expectations and the invariants.
pub fn run(row: &Row, stage: &Stage, run: &Run) -> (Finished, Problems) {
    run.harm.iter().for_each(|harm| stage.harm(harm));
    let seconds = run.seconds.unwrap_or(20);
    let arguments: Vec<String> = arguments(run).iter().map(|word| stage.at(word)).collect();
    let command = command(row, stage, &arguments);
    let timeout = Duration::from_secs(seconds);
    let finished =
        if run.terminal { terminal(&command, timeout) } else { finish(command, timeout) };
    let mut problems = judge(row, run, &finished);
    problems.extend(leaks(stage, &finished));
    problems.extend(stage.flaws(&[]));
    // A server that stops slowly may have been left to the guardian, which has the rest of its time.
    let left = stage.bench.left_after(Duration::from_secs(15));
    if !left.is_empty() {
        problems.push(format!("I6: {:?} left behind: {left:#?}", run.args));
    }
    (finished, problems)
}

/// Checks one outcome against the row and the invariants.
pub fn judge(row: &Row, run: &Run, finished: &Finished) -> Problems {
    let mut problems = Problems::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            let mut out = finished.stdout.clone() + &finished.stderr;
            if out.len() > 2500 {
                let cut = (0..=2500).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
                out.truncate(cut);
            }
            problems.push(format!("{:?}: {what}\n{out}", run.args));
        }
    };
    let code = finished.code.unwrap_or(-1);
    expect(
        if run.exit.is_empty() { (0..=3).contains(&code) } else { run.exit.contains(&code) },
        format!("exit code {code}, expected {:?}", run.exit),
    );
    if !run.json.is_null() || is_json(run) {
        // A number beyond the range of a double is JSON too.
        match WrittenValue::parse(&finished.stdout).map(|json| json.value) {
            Ok(json) => {
                expect(
                    run.json.is_null() || subset(&run.json, &json),
                    format!("expected {} in {json:#}", run.json),
                );
                for flaw in unexplained(&json) {
                    expect(false, format!("I1: {flaw}"));
                }
            }
            Err(error) => expect(false, format!("no JSON: {error}")),
        }
    }
    for text in &run.says {
        let said = finished.stdout.contains(text) || finished.stderr.contains(text);
        expect(said, format!("should say {text:?}"));
    }
    for text in &run.never_says {
        let said = finished.stdout.contains(text) || finished.stderr.contains(text);
        expect(!said, format!("should not say {text:?}"));
    }
    let limit = row.host.peak_mib.unwrap_or(300) << 20;
    expect(
        finished.peak < limit,
        format!("I5: peak of {} MiB:\n{}", finished.peak >> 20, finished.peak_was),
    );
    problems
}

fn arguments(run: &Run) -> Vec<String> {
    let words: Vec<&str> = run.args.iter().map(String::as_str).collect();
    let check: &[&str] = match words.as_slice() {
        ["check"] => &["--check", "--format", "json"],
        ["check", "human"] => &["--check", "-v"],
        other => other,
    };
    check.iter().map(|word| (*word).to_owned()).collect()
}

fn is_json(run: &Run) -> bool {
    run.args == ["check"] || run.args.iter().any(|arg| arg == "--json")
}

/// Runs a command in its own pseudo-terminal; all of its output counts as stdout.
fn terminal(command: &Command, at_most: Duration) -> Finished {
    use portable_pty::{CommandBuilder, PtySize, native_pty_system};
    let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).expect("a terminal");
    let mut builder = CommandBuilder::new(command.get_program());
    builder.args(command.get_args());
    builder.env("NO_COLOR", "1");
    builder.env("TERM", "xterm");
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => builder.env(key, value),
            None => builder.env_remove(key),
        }
    }
    if let Some(folder) = command.get_current_dir() {
        builder.cwd(folder);
    }
    let begun = std::time::Instant::now();
    let mut child = pair.slave.spawn_command(builder).expect("the program starts");
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().expect("a reader");
    let read = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = std::io::Read::read_to_end(&mut reader, &mut bytes);
        bytes
    });
    let status = wait_for("the program on its terminal to end", at_most, || {
        child.try_wait().expect("a child of ours")
    });
    drop(pair.master);
    let bytes = read.join().expect("a reader");
    Finished {
        code: Some(status.exit_code() as i32),
        // The terminal converts LF to CRLF; our progress line uses CR and a clear sequence.
        stdout: String::from_utf8_lossy(&bytes).replace("\r\n", "\n").replace("\r\u{1b}[K", ""),
        stderr: String::new(),
        took: begun.elapsed(),
        peak: 0,
        peak_was: String::new(),
    }
}

/// The program with the row's configuration and canaries in its environment.
pub fn command(row: &Row, stage: &Stage, args: &[String]) -> Command {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let plain = stage.bench.command(&args);
    let mut command = match row.host.prefix.split_first() {
        None => plain,
        Some((program, rest)) => {
            let mut wrapped = Command::new(program);
            wrapped.args(rest).arg(bin()).args(&args).current_dir(stage.bench.path());
            for (key, value) in plain.get_envs() {
                if let Some(value) = value {
                    wrapped.env(key, value);
                }
            }
            wrapped
        }
    };
    command.arg("--config").arg(&stage.config).arg("--log-file").arg(&stage.log);
    if let Some(cwd) = &row.host.cwd {
        command.current_dir(stage.at(cwd));
    }
    command.env("MCPDECK_CANARY_HOST", HOST_SECRET.as_str());
    for (key, value) in &row.host.env {
        match value {
            Some(value) => command.env(key, stage.at(value)),
            None => command.env_remove(key),
        };
    }
    if row.host.lost_folder {
        let lost = stage.bench.path().join("lost");
        let _ = std::fs::create_dir(&lost);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg("cd \"$0\" && rmdir \"$0\" && exec \"$@\"").arg(&lost);
        shell.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        command = shell;
    }
    command
}

/// I1: every problem names the server, the cause and the next step.
fn unexplained(json: &Value) -> Vec<String> {
    let mut flaws = Vec::new();
    let said = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
    let error = &json["error"];
    if error.is_object() {
        for part in ["code", "message", "help"] {
            if !said(&error[part]) {
                flaws.push(format!("the error has no {part}: {error}"));
            }
        }
    }
    for server in json["servers"].as_array().into_iter().flatten() {
        if server.get("verdict").is_none() {
            let fine = ["ready", "disabled"].iter().any(|fine| server["state"] == *fine);
            if !fine && !said(&server["reason"]) {
                flaws.push(format!(
                    "{} is {} and nothing says why",
                    server["name"], server["state"]
                ));
            }
            continue;
        }
        let findings = server["findings"].as_array().cloned().unwrap_or_default();
        if server["verdict"] != "ok" && findings.is_empty() {
            flaws.push(format!("{} is not ok and nothing says why", server["name"]));
        }
        for finding in findings {
            for part in ["rule", "severity", "message", "help"] {
                if !said(&finding[part]) {
                    flaws.push(format!("a finding has no {part}: {finding}"));
                }
            }
        }
    }
    flaws
}

/// I7 and I8: no control sequences and no secrets in output and logs.
fn leaks(stage: &Stage, finished: &Finished) -> Vec<String> {
    let mut flaws = Vec::new();
    let log = match std::fs::metadata(&stage.log) {
        Ok(found) if found.is_file() => std::fs::read(&stage.log).unwrap_or_default(),
        _ => Vec::new(),
    };
    let log = String::from_utf8_lossy(&log).into_owned();
    for (name, text) in [("stdout", &finished.stdout), ("stderr", &finished.stderr), ("log", &log)]
    {
        if let Some(at) = text.find(is_hostile) {
            let line = text[..at].matches('\n').count() + 1;
            let sign = text[at..].chars().next().unwrap_or_default();
            flaws.push(format!("I7: {sign:?} in {name}, line {line}"));
        }
        for secret in secrets() {
            if text.contains(secret) {
                flaws.push(format!("I8: {secret} in {name}"));
            }
        }
        if text.contains("panicked at") {
            flaws.push(format!("a panic in {name}"));
        }
    }
    flaws
}

/// Characters that move the cursor, ring the bell, or color, hide or reverse text.
fn is_hostile(sign: char) -> bool {
    (sign.is_control() && sign != '\n' && sign != '\t')
        || matches!(sign, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}')
        || matches!(sign, '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}' | '\u{3164}')
        || matches!(sign, '\u{E0000}'..='\u{E007F}')
}

/// Kills the program while it runs; none of its processes may be alive two seconds later.
pub fn kill(row: &Row, stage: &Stage, kill: &super::row::Kill) -> Problems {
    let mut child = command(row, stage, &kill.args)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let wanted = kill.processes;
    wait_for("the servers to live", Duration::from_secs(15), || {
        (stage.bench.processes().len() >= wanted).then_some(())
    });
    let _ = child.kill();
    let _ = child.wait();
    let left = stage.bench.left_after(Duration::from_secs(2));
    let mut problems = stage.flaws(&[]);
    if !left.is_empty() {
        problems.push(format!("I6: outlived the host: {left:#?}"));
    }
    if let Some(again) = &kill.again {
        problems.extend(run(row, stage, again).1);
    }
    problems
}
