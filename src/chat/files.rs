//! Files that a message of the person names as `@PATH`: their text goes to the model with it. For
//! whoever sits at this machine; never for what comes over a network.

use std::fmt::Write as _;
use std::path::Path;

use crate::base::file::read_text;

/// Largest file, in bytes.
const LARGEST: u64 = 256 << 10;

/// The message with the text of the files it names. What names no file stays a word.
///
/// # Errors
/// Names a file that cannot be sent: too large, or no text.
pub fn with_files(message: &str, folder: &Path) -> Result<String, String> {
    let mut out = message.to_owned();
    for word in message.split_whitespace() {
        let Some(name) = word.strip_prefix('@') else { continue };
        let is_file = |name: &&str| folder.join(name).is_file();
        let bare = name.trim_end_matches(['.', ',', ';', ':', ')', '?', '!']);
        let Some(name) = [name, bare].into_iter().find(is_file) else { continue };
        let text = read_text(&folder.join(name), LARGEST);
        let text = text.map_err(|error| format!("{name}: {error}"))?.unwrap_or_default();
        // Longer than any fence within.
        let fence =
            "`".repeat(text.split(|c| c != '`').map(str::len).max().unwrap_or(0).max(2) + 1);
        let _ = write!(out, "\n\n{name}:\n{fence}\n{}\n{fence}", text.trim_end_matches('\n'));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sent_with_the_message_and_other_words_stay() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.md"), "one\n```\ntwo\n```\n").unwrap();
        let sent = with_files("read @a.md, please, @ada", folder.path()).unwrap();
        assert_eq!(sent, "read @a.md, please, @ada\n\na.md:\n````\none\n```\ntwo\n```\n````");
        std::fs::write(folder.path().join("b"), vec![0xff; 9]).unwrap();
        assert!(with_files("@b", folder.path()).unwrap_err().contains("UTF-8"));
    }
}
