//! Every file of `fixtures/configs/invalid`, saved over a running deck: nothing happens to what
//! runs, and the problems shown are the ones that `mcpdeck config` and `--check` tell.

use std::path::PathBuf;
use std::time::Duration;

use mcpdeck::config::{Diagnostic, render_all};
use serde_json::{Value, json};

use crate::support::{Bench, repo};
use crate::watch::deck::{Running, script};

fn fixtures() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(repo("fixtures/configs/invalid")).expect("the fixtures");
    let mut all: Vec<PathBuf> = folder.map(|entry| entry.expect("an entry").path()).collect();
    all.retain(|path| {
        let name = path.to_string_lossy();
        name.ends_with(".json") && !name.ends_with(".expected.json")
    });
    all.sort();
    assert!(all.len() > 30);
    all
}

fn reported(diagnostics: &[Diagnostic]) -> String {
    render_all(diagnostics).trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_invalid_file_leaves_the_deck_running_and_shows_what_the_check_says() {
    let bench = Bench::new();
    for entry in std::fs::read_dir(repo("fixtures/configs/invalid")).expect("the fixtures") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "env") {
            let name = path.file_name().expect("a name");
            std::fs::copy(&path, bench.path().join(name)).expect("copied");
        }
    }
    let good = format!(
        "{:#}",
        json!({"servers": {"well": bench.mock("server", &script(), &Value::Null)}})
    );
    let mut running = Running::start(bench, &good).await;
    running.ready(&["well"]).await;
    let mut pid = running.pid("well");
    for fixture in fixtures() {
        let name = fixture.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read(&fixture).expect("readable");
        std::fs::write(&running.file, text).expect("written");
        let file = running.file.display().to_string();
        let finished = running.bench.run(&["config", "--config", &file], Duration::from_secs(30));
        // An input without an answer is a question, no mistake of the file.
        let code = if name == "input-needed.json" { 0 } else { 2 };
        assert_eq!(finished.code, Some(code), "{name} is invalid");
        let expected = finished.stderr.trim_end().to_owned();
        if name == "input-needed.json" {
            // Nothing is wrong with it where a person can be asked: it is used, and asks.
            running
                .until("the input is asked for", |view| {
                    view.diagnostics.iter().any(|d| expected.contains(&d.message))
                        && view.servers.contains_key("a")
                        && view.rejected.is_empty()
                })
                .await;
            std::fs::write(&running.file, &good).expect("written");
            running.ready(&["well"]).await;
            pid = running.pid("well");
            continue;
        }
        running
            .until(&format!("{name}: {expected}"), |view| reported(&view.rejected) == expected)
            .await;
        assert_eq!(running.pid("well"), pid, "{name}: what runs is left alone");
        let check = running
            .bench
            .run(&["--check", "--color", "never", "--config", &file], Duration::from_secs(30));
        assert_eq!(check.code, Some(2), "{name}: {}{}", check.stdout, check.stderr);
        let said = check.stdout + &check.stderr;
        let rejected = running.host.view().borrow().rejected.clone();
        for diagnostic in rejected.iter().filter(|diagnostic| diagnostic.is_error()) {
            assert!(said.contains(&diagnostic.message), "{name}: {}\n{said}", diagnostic.message);
        }
        running.host.call_tool("well.quick", json!({})).await.expect("it is called as before");
    }
    std::fs::write(&running.file, &good).expect("written");
    running.until("a good file makes it good again", |view| view.rejected.is_empty()).await;
    assert_eq!(running.pid("well"), pid);
    running.end().await;
}
