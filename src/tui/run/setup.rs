//! How the app is set up: from the options, the environment and the files of the person, which are
//! looked at again while it runs.

use std::time::Duration;

use tokio::sync::mpsc;

use super::Options;
use crate::tui::app::Setup;
use crate::tui::app::calls::Calls;
use crate::tui::graphics;
use crate::tui::message::Message;
use crate::tui::prefs::Prefs;
use crate::tui::state::Places;
use crate::tui::theme::ColorDepth;

/// Themes and keymap are few and small: they are looked at by the clock.
const USER_FILES: Duration = Duration::from_secs(2);

/// Tells when a theme or the keymap of the person changed.
pub(super) async fn follow_user_files(places: Places, messages: mpsc::Sender<Message>) {
    let read = |places: Places| tokio::task::spawn_blocking(move || places.user_files());
    let Ok(mut known) = read(places.clone()).await else { return };
    loop {
        tokio::time::sleep(USER_FILES).await;
        let Ok(files) = read(places.clone()).await else { return };
        if files != known {
            known = files.clone();
            if messages.send(Message::UserFiles(files)).await.is_err() {
                return;
            }
        }
    }
}

/// The app as the options, the environment and the files of the person want it.
pub(super) fn setup(options: &Options, places: &Places, prefs: Prefs) -> Setup {
    let depth = match options.colour {
        Some(false) => ColorDepth::None,
        _ => ColorDepth::from_env(|name| std::env::var(name).ok()),
    };
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_none_or(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        });
    let ascii = options.ascii || !utf8;
    let glyphs = if ascii { &crate::tui::glyph::ASCII } else { &crate::tui::glyph::UNICODE };
    let support = graphics::Support::from_env(|name| std::env::var(name).ok(), depth, glyphs);
    Setup {
        ascii,
        graphics: support.with_cell(cell_pixels()),
        theme: options.theme.clone(),
        depth,
        prefs,
        user: places.user_files(),
        home: dirs::home_dir(),
        folder: std::env::current_dir().unwrap_or_default(),
        tour: options.tour,
        calls: Calls::default(),
        origin: options.origin.clone(),
    }
}

/// The size of a cell as the operating system has it; many terminals leave it at zero.
pub(super) fn cell_pixels() -> Option<graphics::CellPixels> {
    let size = crossterm::terminal::window_size().ok()?;
    let cell =
        |pixels: u16, cells: u16| pixels.checked_div(cells).filter(|n| (2..=256).contains(n));
    let (width, height) = (cell(size.width, size.columns)?, cell(size.height, size.rows)?);
    Some(graphics::CellPixels { width, height })
}
