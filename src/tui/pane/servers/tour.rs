//! The tour: a few short pages on the first `--demo`.

use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// Title and text of each page.
pub const PAGES: &[(&str, &[&str])] = &[
    (
        "This is the deck of your MCP servers",
        &[
            "Every server of an mcp.json runs below this window: started in order, watched, and",
            "stopped with everything it started when you leave. Here some demo servers run.",
            "",
            "The digits 1 to 0 show the panes: servers, tools, resources, prompts, traffic,",
            "logs, metrics, cache, approvals and the configuration.",
        ],
    ),
    (
        "One gesture, one meaning",
        &[
            "enter goes in, esc comes out and never quits.  / narrows a list, y copies, w saves.",
            "[ and ] narrow every pane to one server; * shows all of them again.",
            "r restarts a server, s stops or starts it, b opens its black box: why it died, its",
            "last words and messages.",
        ],
    ),
    (
        "Servers may ask you",
        &[
            "A server that wants a completion or an answer waits in the approvals pane, with the",
            "clock of its call standing still. A badge and a bell tell you; a takes you there.",
            "Nothing is ever answered by a stray key.",
        ],
    ),
    (
        "You need to remember one key",
        &[
            "?  shows the keys that work where you are, and  :  finds every action by a few letters.",
            "",
            "T tries another theme. Try the moody server: ask it to crash and look at its black box.",
        ],
    ),
];

/// One page.
pub fn page(number: usize, width: u16) -> Doc {
    let mut doc = Doc::new(width);
    let Some((title, lines)) = PAGES.get(number) else { return doc };
    doc.heading(*title);
    doc.gap();
    for line in *lines {
        doc.text(0, line, Role::Text);
    }
    doc.gap();
    let position = crate::tui::ink::ink!("{} of {}", number + 1, PAGES.len());
    doc.line(vec![
        (crate::tui::ink::ink!("enter"), Role::Key),
        (crate::tui::ink::ink!(" next   "), Role::Muted),
        (crate::tui::ink::ink!("esc"), Role::Key),
        (crate::tui::ink::ink!(" skip   "), Role::Muted),
        (position, Role::Faint),
    ]);
    doc
}
