//! Attaches the text of files that a message names as `@PATH`. Only for messages of the local user,
//! never for messages from the network.

use std::fmt::Write as _;
use std::path::Path;

use base::file::read_text;

/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Appends the text of the files that a message names. Words that name no file are unchanged.
///
/// # Errors
/// Names a file that is too large or not text.
pub fn with_files(message: &str, folder: &Path) -> Result<String, String> {
    let mut out = message.to_owned();
    for word in message.split_whitespace() {
        let Some(name) = word.strip_prefix('@') else { continue };
        let is_file = |name: &&str| folder.join(name).is_file();
        let bare = name.trim_end_matches(['.', ',', ';', ':', ')', '?', '!']);
        let Some(name) = [name, bare].into_iter().find(is_file) else { continue };
        let text = read_text(&folder.join(name), MAX_FILE_BYTES);
        let text = text.map_err(|error| format!("{name}: {error}"))?.unwrap_or_default();
        append_file(&mut out, name, &text);
    }
    Ok(out)
}

/// Appends the text of a file to a message.
pub fn append_file(message: &mut String, name: &str, text: &str) {
    // Longer than any fence in the text.
    let fence = "`".repeat(text.split(|c| c != '`').map(str::len).max().unwrap_or(0).max(2) + 1);
    let _ = write!(message, "\n\n{name}:\n{fence}\n{}\n{fence}", text.trim_end_matches('\n'));
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
