//! Runs the user's editor on a text or a file. The terminal must be released first.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use base::atomic::replace_quickly;
use base::text::SafeText;

/// The editor used when none is configured.
const DEFAULT: &str = if cfg!(windows) { "notepad" } else { "vi" };

/// Edits `text` in `$VISUAL`, `$EDITOR` or the default editor; returns the new text, or an error. What
/// was written there and cannot be used stays in its file, which the error names.
pub(super) async fn edit(text: &str, suffix: &str) -> Result<String, SafeText> {
    let fail = |error: io::Error| SafeText::line(&format!("the temporary file: {error}"));
    let path = std::env::temp_dir().join(format!("mcpdeck-{:016x}{suffix}", fastrand::u64(..)));
    replace_quickly(&path, text.as_bytes()).map_err(fail)?;
    let done = open(&path, 0).await;
    let read = std::fs::read(&path).map_err(fail);
    let is_work = matches!(&read, Ok(written) if written != text.as_bytes());
    let kept =
        |why: &str| SafeText::line(&format!("{why}; your text is kept in {}", path.display()));
    match (done, read.map(String::from_utf8)) {
        (Err(why), _) if is_work => Err(kept(&why)),
        (Ok(()), Ok(Err(_))) => Err(kept("the text is not UTF-8")),
        (done, read) => {
            let _ = std::fs::remove_file(&path);
            done.map_err(|why| SafeText::line(&format!("{why}; nothing was changed")))?;
            let read = read?;
            read.map_err(|error| SafeText::line(&error.to_string()))
        }
    }
}

/// Opens a file in place, at a line if the editor is known to accept one.
pub(super) async fn open(path: &Path, line: u32) -> Result<(), SafeText> {
    let words = words(&command());
    let (program, arguments) = split(&words);
    let place = at_line(program, path, line);
    let status = start(program).args(arguments).args(place).status().await;
    let failed = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("{program} ended with {status}"),
        Err(error) => format!("{program}: {error}"),
    };
    Err(SafeText::line(&failed))
}

fn command() -> String {
    let set = |name| std::env::var(name).ok().filter(|value: &String| !value.trim().is_empty());
    set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| DEFAULT.to_owned())
}

/// Splits a command into program and arguments. Double quotes keep words together, nothing else is
/// special; if the whole command names an existing file, that is the program.
fn words(command: &str) -> Vec<String> {
    let command = command.trim();
    if Path::new(command).is_file() {
        return vec![command.to_owned()];
    }
    let mut words = Vec::new();
    let mut rest = command;
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').and_then(|inside| inside.split_once('"'));
        let (word, after) = quoted
            .unwrap_or_else(|| rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())));
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

fn split(words: &[String]) -> (&str, &[String]) {
    words.split_first().map_or((DEFAULT, &[]), |(program, rest)| (program, rest))
}

/// A program by name. On Windows many editors are batch files (`code.cmd`), which process creation
/// does not find by itself.
fn start(program: &str) -> tokio::process::Command {
    #[cfg(windows)]
    if let Ok(found) = which::which(program) {
        return tokio::process::Command::new(found);
    }
    tokio::process::Command::new(program)
}

/// The arguments that make an editor open a file at a line.
fn at_line(program: &str, path: &Path, line: u32) -> Vec<OsString> {
    let name = Path::new(program).file_stem().unwrap_or_default().to_string_lossy();
    let with_line = || {
        let mut file = path.as_os_str().to_owned();
        file.push(format!(":{line}"));
        file
    };
    match &*name {
        _ if line == 0 => vec![path.into()],
        "vi" | "vim" | "nvim" | "view" | "nano" | "emacs" | "emacsclient" | "micro" | "kak"
        | "joe" | "ne" | "mg" | "gvim" => vec![format!("+{line}").into(), path.into()],
        "hx" | "helix" | "zed" | "subl" => vec![with_line()],
        "code" | "codium" | "cursor" | "windsurf" => vec!["--goto".into(), with_line()],
        _ => vec![path.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_file_or_words_of_which_quotes_keep_some_together() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("an editor");
        std::fs::write(&file, "").expect("written");
        let file = file.to_str().expect("a name");
        assert_eq!(words(file), [file]);
        assert_eq!(words(&format!("\"{file}\" --wait ")), [file, "--wait"]);
        assert_eq!(words(" code  --wait"), ["code", "--wait"]);
        assert_eq!(words("\"open"), ["\"open"]);
        assert_eq!(split(&[]).0, DEFAULT);
    }

    #[test]
    fn editors_that_are_known_are_reported_the_line_and_others_get_the_file_alone() {
        let words = |program| at_line(program, Path::new("a b.json"), 7);
        assert_eq!(words("/usr/bin/vim"), ["+7", "a b.json"]);
        assert_eq!(words("code"), ["--goto", "a b.json:7"]);
        assert_eq!(words("hx"), ["a b.json:7"]);
        assert_eq!(words("unheard-of"), ["a b.json"]);
    }
}
