//! The shape of the source, read as text: forbidden imports per folder, file lengths, headers.
//! Guards invariants 1, 2 and 7 of `src/lib.rs` where the compiler cannot.

use std::fs;
use std::path::{Path, PathBuf};

/// A folder (or file) under `src` and the words its code must not hold.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("config", &["crate::host", "crate::tui", "crate::check", "crate::cli", "ratatui", "rmcp"]),
    ("host", &["crate::tui", "crate::check", "crate::cli", "ratatui", "crossterm", "clap"]),
    ("tui", &["crate::check", "crate::cli", "host::server", "println!", "print!"]),
    ("check", &["crate::tui", "crate::cli", "host::server", "ratatui", "crossterm"]),
    ("demo", &["crate::tui", "crate::check", "crate::cli"]),
    ("mock", &["crate::tui", "crate::check", "crate::cli", "crate::host"]),
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

#[test]
fn no_folder_imports_what_it_must_not_know() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let name = relative(&path);
        for (folder, words) in FORBIDDEN {
            if !name.starts_with(&format!("{folder}/")) && name != format!("{folder}.rs") {
                continue;
            }
            for (number, line) in code(&text) {
                if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                    broken.push(format!("src/{name}:{}: `{word}`", number + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "forbidden imports:\n{}", broken.join("\n"));
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
