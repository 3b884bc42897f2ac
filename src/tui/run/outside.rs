//! What the loop does with the terminal itself: the clipboard, the shell, an editor.

use std::io;

use base64::Engine as _;

use super::Dashboard;
use crate::base::text::SafeText;
use crate::error::{Error, ErrorCode};
use crate::tui::message::Message;

impl Dashboard {
    /// OSC 52: the terminal puts it on the clipboard, also through ssh. The text is base64, so
    /// nothing in it can reach the terminal as a sequence.
    pub(super) fn copy(&mut self, text: &str) -> io::Result<()> {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        self.session.write(format!("\x1b]52;c;{encoded}\x07").as_bytes())
    }

    pub(super) fn resized(&mut self) -> io::Result<()> {
        let (width, height) = self.session.size()?;
        self.app.update(Message::Resize(width, height));
        Ok(())
    }

    pub(super) async fn suspend(&mut self) -> io::Result<()> {
        self.input.pause();
        self.session.leave()?;
        self.signals.stop_job().await;
        self.session.resume()?;
        self.input.resume();
        self.resized()
    }

    /// Hands the terminal to `$VISUAL` or `$EDITOR` and takes it back.
    pub(super) async fn edit(
        &mut self,
        text: &str,
        suffix: &str,
    ) -> io::Result<Result<String, SafeText>> {
        self.input.pause();
        self.session.leave()?;
        let edited = crate::tui::editor::edit(text, suffix).await;
        self.session.resume()?;
        self.input.resume();
        self.resized()?;
        Ok(edited)
    }

    /// Hands the terminal to the editor on a file itself; what it saves is followed like any edit.
    pub(super) async fn edit_file(&mut self, path: &std::path::Path, line: u32) -> io::Result<()> {
        self.input.pause();
        self.session.leave()?;
        let done = crate::tui::editor::open(path, line).await;
        self.session.resume()?;
        self.input.resume();
        self.resized()?;
        if let Err(reason) = done {
            let error = Error::new(ErrorCode::Internal, reason.as_str());
            Box::pin(self.update(Message::Failed(error))).await?;
        }
        Ok(())
    }
}
