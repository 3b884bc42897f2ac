//! Opens the system's browser, only at the user's request.

use std::process::Stdio;
use std::time::Duration;

use base::SafeText;

/// A browser that exits with an error within this time has not opened anything.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(2);

/// Passes a URL to the system's browser, as one argument and never through a shell. The user must
/// have confirmed it, and it must be plain `https:` or local to this machine.
///
/// # Errors
/// When no program that opens it could be started.
pub async fn open_browser(url: url::Url) -> Result<(), SafeText> {
    let mut programs = Vec::new();
    programs.extend(std::env::var("BROWSER").ok());
    programs.push(
        if cfg!(target_os = "macos") {
            "open"
        } else if cfg!(windows) {
            "rundll32 url.dll,FileProtocolHandler"
        } else {
            "xdg-open"
        }
        .to_owned(),
    );
    for program in &programs {
        let mut words = program.split_whitespace();
        let Some(name) = words.next() else { continue };
        let mut command = tokio::process::Command::new(name);
        command.args(words).arg(url.as_str());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { continue };
        match tokio::time::timeout(FAILURE_TIMEOUT, child.wait()).await {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(_) => {}
            Err(_) => {
                // It lives as long as the browser; waiting for it avoids a zombie.
                tokio::spawn(async move { child.wait().await });
                return Ok(());
            }
        }
    }
    Err(SafeText::line("no browser could be started"))
}
