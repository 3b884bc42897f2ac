//! What a file is that was given where a file of another kind is read.

use std::fmt;
use std::path::Path;

use serde_json::Value;

/// Bytes of a file that are looked at.
const MAX_PEEK_BYTES: u64 = 1 << 20;

/// A kind of files of this program. Displayed with the command that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Of `--record`.
    Recording,
    /// Of `mcpdeck test`.
    Tests,
    /// An `mcp.json`.
    Configuration,
    /// Of `mcpdeck mock`.
    ServerScript,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recording => "a recording: `mcpdeck open`, `report` and `replay` take it",
            Self::Tests => "a file of tests: `mcpdeck test` takes it",
            Self::Configuration => "a configuration of servers: it is named with --config",
            Self::ServerScript => "a script of a server: `mcpdeck mock` takes it",
        })
    }
}

/// What a file seems to be; `None` where that is not known.
pub fn kind_of_file(path: &Path) -> Option<FileKind> {
    // Anything but a file may never end, or never begin.
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let text = base::file::read(path, MAX_PEEK_BYTES).ok();
    let text = text.or_else(|| beginning(path))?;
    kind_of_text(&String::from_utf8_lossy(&text))
}

/// The beginning of a file that is longer.
fn beginning(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MAX_PEEK_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

fn kind_of_text(text: &str) -> Option<FileKind> {
    let first = text.lines().next().unwrap_or_default();
    let line: Option<Value> = serde_json::from_str(first).ok();
    if line.is_some_and(|line| line["type"] == "header" && line["version"].is_u64()) {
        return Some(FileKind::Recording);
    }
    let whole: Value = serde_json::from_str(text).ok()?;
    let has = |names: &[&str]| names.iter().any(|name| whole.get(name).is_some());
    if has(&["lockfileVersion"]) {
        None
    } else if has(&["suites"]) {
        Some(FileKind::Tests)
    } else if has(&["mcpServers", "servers"]) {
        Some(FileKind::Configuration)
    } else if has(&["tools", "prompts", "resources"]) && has(&["calls", "reads", "gets", "on"]) {
        Some(FileKind::ServerScript)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_this_program_are_told_apart() {
        for (text, kind) in [
            (
                "{\"type\":\"header\",\"version\":1,\"product\":\"p\"}\n{}",
                Some(FileKind::Recording),
            ),
            ("{\n  \"mcpServers\": {}\n}", Some(FileKind::Configuration)),
            ("{\"servers\": {}, \"inputs\": []}", Some(FileKind::Configuration)),
            ("{\"suites\": {}, \"servers\": {}}", Some(FileKind::Tests)),
            ("{\"tools\": [], \"calls\": {}}", Some(FileKind::ServerScript)),
            ("{\"tools\": []}", None),
            ("{\"log\": {}}", None),
            ("root:x:0:0", None),
            ("", None),
        ] {
            assert_eq!(kind_of_text(text), kind, "{text}");
        }
    }
}
