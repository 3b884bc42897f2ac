//! Pictures and sounds of a request, written to files: a terminal shows and plays few of them.

use super::super::App;
use crate::base::text::SafeText;
use crate::tui::approval::media::{Media, media};
use crate::tui::effect::Effect;
use crate::tui::pane::catalog::file_name;

impl App {
    /// Writes every picture and sound of the request being answered to a new file in the working
    /// directory; each is told.
    pub(super) fn save_media(&mut self, effects: &mut Vec<Effect>) {
        let Some(desk) = self.answers.desk() else { return };
        let found = media(&desk.request.params);
        if found.is_empty() {
            desk.notice = Some(SafeText::line("it brings no picture and no sound"));
        }
        let server = file_name(&SafeText::line(desk.request.server.as_str()));
        for (at, Media { suffix, content }) in found.into_iter().enumerate() {
            match content {
                Ok(content) => {
                    let name = format!("{server}-{}-{}.{suffix}", desk.id().0, at + 1);
                    effects.push(Effect::Save { name: name.into(), content });
                }
                Err(reason) => {
                    let notice = format!("number {} was not written: {reason}", at + 1);
                    desk.notice = Some(SafeText::line(&notice));
                }
            }
        }
    }
}
