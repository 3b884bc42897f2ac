//! Paths as text for output. JSON is UTF-8 and a path may hold other bytes: these are spelled
//! `\xNN`. For display and reports only; nothing is opened by such a text.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// The path, with bytes that are not UTF-8 spelled `\xNN`.
pub fn spelled(path: &Path) -> Cow<'_, str> {
    if let Some(text) = path.to_str() {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            use std::fmt::Write as _;
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    Cow::Owned(out)
}

/// For `serialize_with`: one path.
pub fn one<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&spelled(path))
}

/// For `serialize_with`: an optional path.
pub fn perhaps<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(spelled).serialize(to)
}

/// For `serialize_with`: a list of paths.
pub fn many<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| spelled(path)))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_spelled_and_the_rest_stays() {
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/b\xc3\xa4d-\xff\xfe/x"));
        assert_eq!(spelled(path), "/bäd-\\xff\\xfe/x");
        assert!(matches!(spelled(Path::new("/bäd")), Cow::Borrowed("/bäd")));
    }
}
