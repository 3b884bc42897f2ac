//! A separate file system for a row: small, so that it fills up at once, or read-only. It is
//! mounted in the mount namespace of a child process and disappears with that, even if the test
//! fails.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::row::DiskPlan;

/// The file that fills the file system.
const BALLAST: &str = "ballast";

/// A mounted file system.
pub struct Disk {
    holder: Child,
    /// Its path through `/proc`, outside of the namespace.
    pub path: PathBuf,
    point: tempfile::TempDir,
}

impl Disk {
    /// Mounts it; `None` if that is not permitted.
    pub fn mount(plan: &DiskPlan) -> Option<Self> {
        let point = tempfile::tempdir().expect("a temporary folder");
        let script = "mount -t tmpfs -o size=\"$1\"k none \"$0\" && echo ready && cat > /dev/null";
        let mut holder = Command::new("unshare")
            .args(["-m", "sh", "-c", script])
            .arg(point.path())
            .arg(plan.kib.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let _ = BufReader::new(holder.stdout.take()?).read_line(&mut line);
        let below = point.path().strip_prefix("/").expect("absolute").to_path_buf();
        let path = Path::new("/proc").join(holder.id().to_string()).join("root").join(below);
        if line.trim() != "ready" || std::fs::read_dir(&path).is_err() {
            let _ = holder.kill();
            let _ = holder.wait();
            return None;
        }
        Some(Self { holder, path, point })
    }

    /// Makes all further writes fail: full, or read-only.
    pub fn close(&self, plan: &DiskPlan) {
        if plan.read_only {
            let done = Command::new("nsenter")
                .args(["-m", "-t", &self.holder.id().to_string()])
                .args(["mount", "-o", "remount,ro"])
                .arg(self.point.path())
                .status();
            assert!(done.is_ok_and(|status| status.success()), "it is made read-only");
            return;
        }
        let mut ballast = std::fs::File::create(self.path.join(BALLAST)).expect("room for a file");
        while ballast.write_all(&[b'x'; 4096]).is_ok() {}
        assert!(std::fs::write(self.path.join("probe"), [b'x'; 4096]).is_err(), "it is full");
        let _ = std::fs::remove_file(self.path.join("probe"));
    }

    /// Reports truncated and leftover files.
    pub fn flaws(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        for (path, content) in super::stage::files(&self.path) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let shown = path.strip_prefix(&self.path).unwrap_or(&path).display();
            if name == BALLAST {
                continue;
            }
            if name.contains(".tmp") || path.extension().is_some_and(|extension| extension == "new")
            {
                flaws.push(format!("I2: {shown} was left lying about"));
            }
            let is_json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).is_ok();
            let whole = match path.extension().and_then(|extension| extension.to_str()) {
                Some("json") => is_json(&content),
                Some("jsonl") => content
                    .split(|byte| *byte == b'\n')
                    .all(|line| line.is_empty() || is_json(line)),
                _ => true,
            };
            if !whole {
                let text = String::from_utf8_lossy(&content).into_owned();
                flaws.push(format!("I2: {shown} is half-written: {text:?}"));
            }
        }
        flaws
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
