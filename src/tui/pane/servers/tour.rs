//! The tour: a few short pages on the first `--demo`.

use crate::keymap::KeyScope;
use crate::overlay::TextReader;
use crate::pane::Ui;
use crate::prelude::*;
use crate::widget::Doc;

/// Title and text of each page; keys are given as actions in braces.
const PAGES: &[(&str, &[&str])] = &[
    (
        "Your MCP servers",
        &[
            "mcpdeck starts the servers of an mcp.json in order, watches them, and stops them with \
             all their processes when you quit. These are the demo servers.",
            "",
            "The digits 1 to 0 show the panes: servers, tools, resources, prompts, traffic, logs, \
             metrics, cache, inbox and the configuration.",
        ],
    ),
    (
        "Keys",
        &[
            "{open} opens, {back} goes back and never quits. {filter} filters a list, {copy} \
             copies, {save} saves.",
            "",
            "{previous-server} and {next-server} show one server in every pane; {all-servers} \
             shows all of them.",
            "",
            "{restart} restarts a server, {start-stop} stops or starts it, {black-box} opens its \
             diagnostics: last exit, recent output and messages.",
        ],
    ),
    (
        "Requests of servers",
        &["Sampling and elicitation requests wait in the inbox; the timeout of the call \
             is paused meanwhile. A badge and a bell tell you; {show-inbox} shows them, {answer} \
             opens the oldest one."],
    ),
    (
        "Help",
        &[
            "{help} shows the keys of the current screen, {palette} finds every action by name.",
            "",
            "{theme} changes the theme. Try the gremlin server: call a tool that crashes it and \
             look at its diagnostics.",
        ],
    ),
];

/// A reader of its pages.
pub fn reader() -> TextReader {
    TextReader::live(ink!("welcome"), PAGES.len(), page)
}

/// One page.
fn page(number: usize, ui: Ui<'_>) -> Doc {
    let mut doc = Doc::new(ui.area.width);
    let Some((title, lines)) = PAGES.get(number) else { return doc };
    doc.heading(*title);
    doc.gap();
    for line in *lines {
        doc.text(0, &ui.spelled(&[KeyScope::Servers], line), Role::Text);
    }
    doc.gap();
    let reader = [KeyScope::Reader];
    doc.line(vec![
        (ui.spelled(&reader, "{open}"), Role::Key),
        (ink!(" next   "), Role::Muted),
        (ui.spelled(&reader, "{back}"), Role::Key),
        (ink!(" skip   "), Role::Muted),
        (ink!("{} of {}", number + 1, PAGES.len()), Role::Faint),
    ]);
    doc
}
