//! Messages as one HTML page, to be handed on: a table with the bodies folded below the rows. Pure.

use std::fmt::Write as _;

use crate::call::export::{escaped, framed};
use crate::model::Model;
use crate::prelude::*;
use base::text::json::WrittenValue;
use deck::has_failed;
use protocol::{Direction, TrafficRecord};

/// Largest body of a message on the page, in bytes.
const MAX_BODY_BYTES: usize = 256 << 10;

/// The page.
pub fn page(records: &[Arc<TrafficRecord>]) -> String {
    let mut servers: Vec<&str> = records.iter().map(|record| record.server.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    let messages = count(records.len(), "message");
    let title = escaped(&format!("{messages} of {}", servers.join(", ")));
    let mut body = format!("<h1>{title}</h1>\n");
    if let (Some(first), Some(last)) = (records.first(), records.last()) {
        let took = Dur(last.at.since(first.at));
        let _ = writeln!(body, "<p>{} · {took}</p>", first.at.to_rfc3339());
    }
    body.push_str(
        "<table>\n<tr><th>time<th>server<th><th>method<th>id<th class=number>size\
         <th class=number>latency\n",
    );
    for record in records {
        row(record, &mut body);
    }
    body.push_str("</table>\n");
    framed(&title, &body)
}

fn row(record: &TrafficRecord, body: &mut String) {
    let is_red = has_failed(record);
    let class = if is_red { " class=red" } else { "" };
    let arrow = match record.direction {
        Direction::Out => "→",
        Direction::In => "←",
    };
    let text = |text: Option<&SafeText>| escaped(text.map_or("", SafeText::as_str));
    let latency = record.latency.map_or_else(String::new, |took| Dur(took).to_string());
    let what = record.method.as_ref().or(record.problem.as_ref());
    let _ = writeln!(
        body,
        "<tr{class}><td>{}<td>{}<td>{arrow}<td>{} {}<td>{}<td class=number>{}\
         <td class=number>{latency}",
        Model::time_of_day(record.at).as_str(),
        escaped(record.server.as_str()),
        text(what),
        text(record.target.as_ref()),
        text(record.id.as_ref()),
        Bytes(record.bytes as u64),
    );
    if let Some(problem) = record.problem.as_ref().filter(|_| record.method.is_some()) {
        let _ = writeln!(body, "<tr{class}><td><td colspan=6>{}", escaped(problem));
    }
    let value = WrittenValue::parse(&record.body).ok();
    let pretty = value
        .and_then(|value| serde_json::to_string_pretty(&value).ok())
        .unwrap_or_else(|| record.body.to_string());
    let shown = base::text::cut(&pretty, MAX_BODY_BYTES);
    let rest = pretty.len() - shown.len();
    let more = if rest > 0 { format!("\n… {} more", Bytes(rest as u64)) } else { String::new() };
    let _ = writeln!(
        body,
        "<tr><td><td colspan=6><details><summary>body</summary><pre>{}{more}</pre></details>",
        escaped(shown),
    );
}
