//! Hashes as text.

use std::path::Path;

use sha2::{Digest, Sha256};

/// A short name for a path, for files that remember something about it.
pub(crate) fn file_key(file: impl AsRef<Path>) -> String {
    let mut name = hex(&Sha256::digest(file.as_ref().as_os_str().as_encoded_bytes()));
    name.truncate(32);
    name
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
