//! Attaches the files that a message names as `@PATH`: text, and pictures. Only for messages of the
//! local user, never for messages from the network.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;

use crate::llm::{ChatMessage, WithFiles};
use crate::media::{MAX_MEDIA_BYTES, ToolMedia};
use base::file::{read, read_text};

/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// What the user sends: text, and pictures.
#[derive(Clone, Debug, Default)]
pub struct UserInput {
    pub text: String,
    pub media: Vec<ToolMedia>,
    /// What of the text the user wrote, where files that were attached stand behind it.
    pub attached: Option<Box<WithFiles>>,
}

impl From<String> for UserInput {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl UserInput {
    /// Takes the files of a message that this one replaces; returns whether all of them are still
    /// there: pictures are not stored.
    pub fn take_files(&mut self, replaced: &ChatMessage) -> bool {
        let ChatMessage::User { text, attached: Some(files), media, .. } = replaced else {
            return true;
        };
        if media.len() < files.pictures {
            return false;
        }
        let WithFiles { written, mut names, pictures } =
            self.attached.take().map_or_else(Default::default, |attached| *attached);
        let is_first = names.is_empty() && written.is_empty();
        let written = if is_first { self.text.clone() } else { written };
        let behind = text.get(files.written.len()..).unwrap_or_default();
        // Pictures are told of again when they are sent.
        let mut behind = behind;
        while let Some((before, line)) = behind.rsplit_once('\n')
            && line.starts_with("[picture, ")
        {
            behind = before;
        }
        if !behind.is_empty() && !behind.starts_with('\n') {
            self.text.push_str("\n\n");
        }
        self.text.push_str(behind);
        self.media.extend(media.iter().cloned());
        names.extend(files.names.iter().cloned());
        let pictures = pictures + files.pictures;
        self.attached = Some(Box::new(WithFiles { written, names, pictures }));
        true
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
    let UserInput { text: mut out, mut media, attached } = message.to_owned().into();
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
    Ok(UserInput { text: out, media, attached })
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
    fn a_message_that_replaces_another_takes_its_files_while_they_are_there() {
        let mut text = "look\n\na.md:\n```\none\n```".to_owned();
        text.push_str("\n[p.png]\n[picture, image/png, 3 B]");
        let picture = ToolMedia { mime: "image/png".to_owned(), data: "cG5n".into() };
        let names = vec!["a.md".to_owned(), "p.png".to_owned()];
        let files = WithFiles { written: "look".to_owned(), names: names.clone(), pictures: 1 };
        let old = |media| ChatMessage::User {
            text: text.clone(),
            attached: Some(Box::new(files.clone())),
            withheld: false,
            media,
            given: 1,
        };
        let mut input = UserInput::from("look again".to_owned());
        assert!(!input.take_files(&old(Vec::new())), "the picture is gone");
        assert!(input.take_files(&old(vec![picture])));
        assert_eq!(input.text, "look again\n\na.md:\n```\none\n```\n[p.png]");
        assert_eq!(input.media.len(), 1);
        let attached = input.attached.expect("files");
        assert_eq!((attached.written.as_str(), &attached.names), ("look again", &names));
        assert_eq!(attached.shown(), "look again\n[a.md]\n[p.png]");
        let mut plain = UserInput::from("x".to_owned());
        assert!(plain.take_files(&ChatMessage::user("y")) && plain.attached.is_none());
    }

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
