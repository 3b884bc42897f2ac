//! I10: `check` and the other front ends agree about a server.

use serde_json::Value;

use super::program;
use super::row::{Row, Run};
use super::stage::Stage;
use super::support::Finished;

/// Runs `check`, unless its outcome is given, and `status`; returns the differences.
pub fn compare(row: &Row, checked: Option<Finished>) -> Vec<String> {
    let mut problems = Vec::new();
    let seconds = row.runs.iter().filter_map(|run| run.seconds).max();
    let run = |args: &[&str]| Run {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        seconds,
        ..Run::default()
    };
    let checked = if let Some(checked) = checked {
        checked
    } else {
        let (finished, found) = program::run(row, &Stage::set(row), &run(&["check"]));
        problems.extend(found);
        finished
    };
    let (status, found) = program::run(row, &Stage::set(row), &run(&["status", "--json"]));
    problems.extend(found);
    let read = |finished: &Finished| serde_json::from_str::<Value>(&finished.stdout);
    let (Ok(check), Ok(status)) = (read(&checked), read(&status)) else {
        problems.push("I10: no JSON to compare".to_owned());
        return problems;
    };
    if check["verdict"] == "usage" || status.get("error").is_some() {
        if check["verdict"] != "usage" || status.get("error").is_none() {
            problems.push(format!("I10: check says {}, status {status}", check["verdict"]));
        }
        return problems;
    }
    for server in status["servers"].as_array().into_iter().flatten() {
        let verdict = check["servers"].as_array().into_iter().flatten();
        let verdict = verdict.clone().find(|other| other["name"] == server["name"]);
        let complete = verdict.map(|found| found["verdict"] != "incomplete");
        let ready = server["state"] == "ready";
        if complete != Some(ready) {
            problems.push(format!(
                "I10: {} is {} for status, {} for the check",
                server["name"],
                server["state"],
                verdict.map_or(&Value::Null, |found| &found["verdict"])
            ));
        }
    }
    problems
}
