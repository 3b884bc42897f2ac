//! The system's browser, opened when a person asked for it and never otherwise.

use std::process::Stdio;
use std::time::Duration;

use crate::base::SafeText;

/// A browser that ends this quickly with an error has not opened anything.
const FAILS_WITHIN: Duration = Duration::from_secs(2);

/// Hands an address to the system's browser. It was confirmed by a person and is a plain `https:`
/// URL, or one of this machine; it goes as one argument of a program, never through a shell.
///
/// # Errors
/// No program could be started that opens it.
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
        match tokio::time::timeout(FAILS_WITHIN, child.wait()).await {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(_) => {}
            Err(_) => {
                // It lives as long as the browser; it is waited for so that it is no zombie.
                tokio::spawn(async move { child.wait().await });
                return Ok(());
            }
        }
    }
    Err(SafeText::line("no browser could be started"))
}
