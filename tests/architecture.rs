//! The shape of the source, read as text: forbidden imports per folder, file lengths, headers.
//! Guards invariants 1, 2 and 7 of `src/lib.rs` where the compiler cannot.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers from the leaves up: a folder (or file) under `src`, and the folders it may name.
const LAYERS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("config", &["base"]),
    ("error", &["base", "config"]),
    ("process", &["base", "config", "error"]),
    ("mcp", &["base", "config", "error", "process"]),
    ("host", &["base", "config", "error", "process", "mcp"]),
    ("deck", &["base", "config", "error", "process", "mcp", "host"]),
    ("check", &["base", "config", "error", "process", "mcp", "host", "deck"]),
    ("tui", &["base", "config", "error", "process", "mcp", "host", "deck"]),
    ("mock", &["base"]),
    ("demo", &["base", "config", "error", "mcp", "host", "mock"]),
    ("telemetry", &["base", "config", "error", "mcp", "host"]),
];

/// Words that code of a folder must not hold.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("base", &["ratatui", "rmcp", "clap::"]),
    ("config", &["ratatui", "rmcp", "clap::"]),
    ("process", &["ratatui", "crossterm", "rmcp", "clap::"]),
    ("mcp", &["ratatui", "crossterm", "clap::"]),
    ("host", &["ratatui", "crossterm", "clap::"]),
    ("deck", &["ratatui", "crossterm", "rmcp", "clap::"]),
    ("tui", &["println!", "print!"]),
    ("check", &["ratatui", "crossterm"]),
];

/// Longest source file, in lines.
const LONGEST: usize = 450;

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).expect("src is readable") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("source is UTF-8");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() > 20, "the walk found the source tree");
    found
}

fn relative(path: &Path) -> String {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    path.strip_prefix(src).expect("below src").to_string_lossy().replace('\\', "/")
}

/// Code without comments: a rule may be named in words without being broken.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The first part of a path below `src`: the folder, or the file beside it.
fn top(name: &str) -> &str {
    name.split('/').next().unwrap_or(name).trim_end_matches(".rs")
}

#[test]
fn arrows_run_down_only() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let name = relative(&path);
        let Some((own, below)) = LAYERS.iter().find(|(folder, _)| *folder == top(&name)) else {
            continue;
        };
        for (number, line) in code(&text) {
            for rest in line.split("crate::").skip(1) {
                let folder: String =
                    rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
                if LAYERS.iter().any(|(known, _)| *known == folder)
                    && folder != *own
                    && !below.contains(&folder.as_str())
                {
                    broken.push(format!("src/{name}:{}: `crate::{folder}`", number + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "arrows that run up:\n{}", broken.join("\n"));
}

#[test]
fn no_folder_holds_words_it_must_not_know() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let name = relative(&path);
        let Some((_, words)) = FORBIDDEN.iter().find(|(folder, _)| *folder == top(&name)) else {
            continue;
        };
        for (number, line) in code(&text) {
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                broken.push(format!("src/{name}:{}: `{word}`", number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "forbidden words:\n{}", broken.join("\n"));
}

#[test]
fn every_file_says_what_it_owns_and_none_is_too_long() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let name = relative(&path);
        if !text.starts_with("//!") {
            broken.push(format!("src/{name}: does not open with `//!`"));
        }
        let lines = text.lines().count();
        if lines > LONGEST {
            broken.push(format!("src/{name}: {lines} lines, at most {LONGEST}"));
        }
        if name.ends_with("/mod.rs") {
            broken.push(format!("src/{name}: write it as the folder's name with `.rs`"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
