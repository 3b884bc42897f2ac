//! The person's editor on a temporary file. Needs the terminal to be free.

use std::io::Write as _;
use std::path::Path;

use crate::text::SafeText;

/// Opens `text` in `$VISUAL`, `$EDITOR` or `vi`; gives what was written, or why there is nothing.
pub(super) async fn edit(text: &str, suffix: &str) -> Result<String, SafeText> {
    let fail =
        |what: &str, reason: &dyn std::fmt::Display| SafeText::line(&format!("{what}: {reason}"));
    let set = |name| std::env::var(name).ok().filter(|value: &String| !value.trim().is_empty());
    let command = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let name = format!("mcpdeck-{:016x}{suffix}", fastrand::u64(..));
    let path = std::env::temp_dir().join(name);
    write_private(&path, text).map_err(|error| fail("the temporary file", &error))?;
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = tokio::process::Command::new(program).args(words).arg(&path).status().await;
    let read = std::fs::read_to_string(&path);
    let _ = std::fs::remove_file(&path);
    match status {
        Ok(status) if status.success() => read.map_err(|error| fail("the temporary file", &error)),
        Ok(status) => Err(fail(program, &format!("ended with {status}; nothing was changed"))),
        Err(error) => Err(fail(program, &error)),
    }
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}
