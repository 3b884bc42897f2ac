//! The tour: a few short pages on the first `--demo`.

use crate::tui::ink::ink;
use crate::tui::keymap::Scope;
use crate::tui::pane::Ui;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// Title and text of each page; keys are named by what they do.
pub const PAGES: &[(&str, &[&str])] = &[
    (
        "This is the deck of your MCP servers",
        &[
            "Every server of an mcp.json runs below this window: started in order, watched, and \
             stopped with everything it started when you leave. Here some demo servers run.",
            "",
            "The digits 1 to 0 show the panes: servers, tools, resources, prompts, traffic, logs, \
             metrics, cache, approvals and the configuration.",
        ],
    ),
    (
        "One gesture, one meaning",
        &[
            "{open} goes in, {back} comes out and never quits. {filter} narrows a list, {copy} \
             copies, {save} saves.",
            "",
            "{previous-server} and {next-server} narrow every pane to one server; {all-servers} \
             shows all of them again.",
            "",
            "{restart} restarts a server, {start-stop} stops or starts it, {black-box} opens its \
             black box: why it died, its last words and messages.",
        ],
    ),
    (
        "Servers may ask you",
        &["A server that wants a completion or an answer waits in the approvals pane, with the \
             clock of its call standing still. A badge and a bell tell you; {approvals} takes you \
             there, {answer} straight to the oldest question. Nothing is answered by a stray key."],
    ),
    (
        "You need to remember one key",
        &[
            "{help}  shows the keys that work where you are, and  {palette}  finds every action by \
             a few letters.",
            "",
            "{theme} tries another theme. Try the moody server: ask it to crash and look at its \
             black box.",
        ],
    ),
];

/// One page.
pub fn page(number: usize, ui: Ui<'_>) -> Doc {
    let mut doc = Doc::new(ui.area.width);
    let Some((title, lines)) = PAGES.get(number) else { return doc };
    doc.heading(*title);
    doc.gap();
    for line in *lines {
        doc.text(0, &ui.spelled(&[Scope::Servers], line), Role::Text);
    }
    doc.gap();
    let reader = [Scope::Reader];
    doc.line(vec![
        (ui.spelled(&reader, "{open}"), Role::Key),
        (ink!(" next   "), Role::Muted),
        (ui.spelled(&reader, "{back}"), Role::Key),
        (ink!(" skip   "), Role::Muted),
        (ink!("{} of {}", number + 1, PAGES.len()), Role::Faint),
    ]);
    doc
}
