//! Attaches the files that a message names as `@PATH`: text, and pictures. Only for messages of the
//! local user, never for messages from the network.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;

use crate::media::{MAX_MEDIA_BYTES, ToolMedia};
use base::file::{read, read_text};

/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// What the user sends: text, and pictures.
#[derive(Clone, Debug, Default)]
pub struct UserInput {
    pub text: String,
    pub media: Vec<ToolMedia>,
}

impl From<String> for UserInput {
    fn from(text: String) -> Self {
        Self { text, media: Vec::new() }
    }
}

/// The MIME type of a picture that models take, by the end of its name.
fn picture_type(name: &str) -> Option<&'static str> {
    let (_, end) = name.rsplit_once('.')?;
    match end.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

/// Appends the text of the files that a message names, and takes the pictures among them. Words that
/// name no file are unchanged.
///
/// # Errors
/// Names a file that is too large, or neither text nor a picture.
pub fn with_files(message: &str, folder: &Path) -> Result<UserInput, String> {
    let UserInput { text: mut out, mut media } = message.to_owned().into();
    for word in message.split_whitespace() {
        let Some(name) = word.strip_prefix('@') else { continue };
        let is_file = |name: &&str| folder.join(name).is_file();
        let bare = name.trim_end_matches(['.', ',', ';', ':', ')', '?', '!']);
        let Some(name) = [name, bare].into_iter().find(is_file) else { continue };
        if let Some(mime) = picture_type(name) {
            let bytes = read(&folder.join(name), MAX_MEDIA_BYTES as u64);
            let bytes = bytes.map_err(|error| format!("{name}: {error}"))?;
            let data = base64::engine::general_purpose::STANDARD.encode(bytes);
            media.push(ToolMedia { mime: mime.to_owned(), data: data.into() });
            continue;
        }
        let text = read_text(&folder.join(name), MAX_FILE_BYTES);
        let text = text.map_err(|error| format!("{name}: {error}"))?.unwrap_or_default();
        append_file(&mut out, name, &text);
    }
    Ok(UserInput { text: out, media })
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
        assert_eq!(sent.text, "read @a.md, please, @ada\n\na.md:\n````\none\n```\ntwo\n```\n````");
        std::fs::write(folder.path().join("b"), vec![0xff; 9]).unwrap();
        assert!(with_files("@b", folder.path()).unwrap_err().contains("UTF-8"));
        std::fs::write(folder.path().join("p.PNG"), b"png").unwrap();
        let sent = with_files("what is @p.PNG?", folder.path()).unwrap();
        assert_eq!(sent.text, "what is @p.PNG?");
        assert!(
            matches!(&sent.media[..], [one] if one.mime == "image/png" && &*one.data == "cG5n")
        );
    }
}
