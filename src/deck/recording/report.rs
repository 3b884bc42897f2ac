//! A recording as one HTML page without anything from outside, to attach to an issue.

use std::fmt::Write as _;

use super::export::Told;
use super::operations::Outcome;
use crate::host::Fact;

/// Most operations of the table; the rest is counted.
const ROWS: usize = 5_000;
/// Most bytes of a body that are shown.
const BODY: usize = 2_000;

/// The page.
pub(super) fn html(told: &Told) -> String {
    let (header, frames, missed) = (&told.header, told.frames, told.missed);
    let mut page = String::new();
    let began = header.began.to_rfc3339();
    let _ = write!(
        page,
        "<!doctype html><html lang=en><meta charset=utf-8><title>mcpdeck recording</title>\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <style>{STYLE}</style><h1>Recording of {began}</h1><p>{} · {frames} messages · {}{}",
        escaped(&header.product),
        if header.scrubbed { "scrubbed" } else { "not scrubbed: it may hold private data" },
        if missed > 0 { format!(" · {missed} messages were not kept") } else { String::new() },
    );
    page.push_str(
        "<h2>Operations</h2><table><tr><th>at<th>server<th>method<th>target<th>ms<th>result",
    );
    let at = |moment: crate::base::Timestamp| moment.since(header.began).as_secs_f64();
    for (number, row) in told.operations.iter().take(ROWS) {
        let class = match row.outcome {
            Outcome::Ok => "ok",
            Outcome::Open => "open",
            Outcome::ToolError | Outcome::Error | Outcome::Lost => "error",
        };
        let ms =
            row.ended.map(|ended| format!("{:.1}", ended.since(row.asked).as_secs_f64() * 1e3));
        let [request, answer] = told.bodies.get(&number).cloned().unwrap_or_default();
        let _ = write!(
            page,
            "<tr class={class}><td>{:.3} s<td>{}<td>{}{}<td>{}<td class=n>{}<td><details><summary>{}\
             </summary><pre>{}</pre><pre>{}</pre></details>",
            at(row.sent),
            escaped(row.server.as_str()),
            "↳ ".repeat(row.depth.into()),
            escaped(&row.method),
            escaped(row.target.as_deref().unwrap_or_default()),
            ms.unwrap_or_default(),
            row.outcome.as_str(),
            escaped(&cut(&request)),
            escaped(&cut(&answer)),
        );
    }
    page.push_str("</table>");
    let skipped = told.operations.iter().count().saturating_sub(ROWS);
    if skipped > 0 {
        let _ = write!(page, "<p>{skipped} more operations are in the recording.");
    }
    page.push_str("<h2>Servers</h2><table><tr><th>at<th>server<th>event<th>");
    let shown = told.facts.iter().filter(|record| {
        let is_shown = matches!(
            record.fact,
            Fact::StateChanged { .. }
                | Fact::Exited { .. }
                | Fact::Found { .. }
                | Fact::BreakerChanged { .. }
        );
        is_shown
    });
    for record in shown {
        let server = record.fact.server().map_or("", |server| server.as_str());
        let text = serde_json::to_string(&record.fact).unwrap_or_default();
        let _ = write!(
            page,
            "<tr><td>{:.3} s<td>{}<td>{}<td><code>{}</code>",
            at(record.at),
            escaped(server),
            record.fact.name(),
            escaped(&cut(&text))
        );
    }
    page.push_str("</table></html>\n");
    page
}

const STYLE: &str = "body{font:14px system-ui;margin:2em;max-width:90em}table{border-collapse:collapse}\
td,th{padding:.2em .8em;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}.n{text-align:right}\
.error td{background:#fee}.open td{background:#ffd}pre{white-space:pre-wrap;word-break:break-all;max-width:60em}";

fn cut(text: &str) -> String {
    match text.char_indices().nth(BODY) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Text that is text in a page, whatever it holds; control characters are made visible.
fn escaped(text: &str) -> String {
    let safe = crate::base::text::SafeText::block(text);
    safe.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
