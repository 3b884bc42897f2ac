//! Files that people name for results and reports: refused before the work when they could not be
//! written, and replaced whole, so that a failure leaves what was there.

use std::path::{Path, is_separator};

use base::SafeText;
use base::atomic::{Readers, check_writable, replace, resolved};

/// Refuses a file that could not be written, before anything is done.
///
/// # Errors
/// Names the file, and what is wrong with it.
pub fn check(path: &Path) -> Result<(), String> {
    let shown = SafeText::line(&path.display().to_string());
    if path.is_dir() || path.as_os_str().to_string_lossy().ends_with(is_separator) {
        return Err(format!("{shown}: it is a folder: name a file in it"));
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        let folder = SafeText::line(&folder.display().to_string());
        return Err(format!("{shown}: there is no folder {folder}; nothing was done"));
    }
    check_writable(path).map_err(|error| format!("{shown}: {error}; nothing was done"))?;
    let refusing = if path.exists() { path } else { folder };
    match may_write(refusing) {
        Ok(()) => Ok(()),
        Err(why) if refusing == path => Err(format!("{shown}: {why}; nothing was done")),
        Err(why) => {
            let folder = SafeText::line(&folder.display().to_string());
            Err(format!("{shown}: the folder {folder} cannot be written: {why}; nothing was done"))
        }
    }
}

/// Refuses a file of ours that could not be replaced; its folder is made with it.
///
/// # Errors
/// Names the file, and what is wrong with it.
pub fn check_own(path: &Path) -> Result<(), String> {
    let target = resolved(path);
    let folder = target.ancestors().skip(1).map(|folder| folder.join(".")).find(|it| it.is_dir());
    check_writable(path)
        .and_then(|()| folder.map_or(Ok(()), |folder| may_write(&folder)))
        .map_err(|error| format!("{}: {error}; nothing was done", path.display()))
}

/// Writes a file, whole or not at all. Devices and pipes take it as it comes, and so does a file in
/// a folder in which it cannot be replaced.
///
/// # Errors
/// Names the file.
pub fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    // What is open already, as `/dev/stdout` or `/proc/self/fd/1`, may be a file that is appended to.
    let is_open = path.starts_with("/dev")
        || path.starts_with("/proc") && folder_of(path).file_name().is_some_and(|it| it == "fd");
    let is_special = is_open || std::fs::metadata(path).is_ok_and(|meta| !meta.is_file());
    let in_place = is_special || (path.exists() && may_write(folder_of(path)).is_err());
    let written = if in_place {
        std::fs::write(path, content)
    } else {
        replace(path, content, Readers::Default)
    };
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether the system permits to write a file, or into a folder.
fn may_write(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn what_cannot_be_written_is_refused_before_the_work() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path();
        check(&folder.join("new")).expect("it can be made");
        std::fs::write(folder.join("old"), "old").expect("written");
        check(&folder.join("old")).expect("it can be replaced");
        for (file, why) in [
            ("", "it is a folder"),
            ("none/", "it is a folder"),
            ("none/new", "there is no folder"),
            ("old/new", "there is no folder"),
        ] {
            let refused = check(&PathBuf::from(format!("{}/{file}", folder.display())));
            assert!(refused.as_ref().is_err_and(|said| said.contains(why)), "{file}: {refused:?}");
        }
        let mut permissions = std::fs::metadata(folder.join("old")).expect("there").permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(folder.join("old"), permissions).expect("set");
        assert!(check(&folder.join("old")).is_err_and(|said| said.contains("read-only")));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_replaced_whole_and_a_device_is_written() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, same) = (dir.path().join("a"), dir.path().join("same"));
        std::fs::write(&file, "old").expect("written");
        std::fs::hard_link(&file, &same).expect("linked");
        write(&file, b"new").expect("replaced");
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "new");
        // What was there was never touched.
        assert_eq!(std::fs::read_to_string(&same).expect("read"), "old");
        write(Path::new("/dev/null"), b"new").expect("a device");
    }
}
