//! The atlas server's prompts, resources and completions. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::demo::chart;
use crate::demo::geo::{self, Airport};

/// An airport as JSON.
pub(crate) fn airport(airport: &Airport) -> Value {
    json!({
        "code": airport.code,
        "name": airport.name,
        "city": airport.city,
        "country": airport.country,
        "latitude": airport.latitude,
        "longitude": airport.longitude,
        "elevationFeet": airport.elevation,
        "runwayMetres": airport.runway.1,
    })
}

/// The content of a resource, `None` when there is none.
pub(crate) fn read(uri: &str, catalogue: &Value, logbook: &Value) -> Option<Value> {
    let rest = uri.strip_prefix("atlas://")?;
    let parts: Vec<&str> = rest.split('/').collect();
    let (kind, text) = match parts.as_slice() {
        ["airports"] => {
            let all: Vec<Value> = geo::AIRPORTS.iter().map(airport).collect();
            ("application/json", format!("{:#}", Value::Array(all)))
        }
        ["logbook"] => ("application/json", format!("{logbook:#}")),
        ["manual", chapter] => {
            ("text/markdown", catalogue["manual"][*chapter].as_str()?.to_owned())
        }
        ["airport", code] => ("application/json", format!("{:#}", airport(geo::find(code)?))),
        ["metar", code, hour] => {
            let (place, hour) = (geo::find(code)?, hour.parse::<u32>().ok().filter(|h| *h < 24)?);
            ("text/plain", geo::weather(place, hour).metar(place.code, hour))
        }
        ["chart", "world"] => {
            let blob = BASE64_STANDARD.encode(chart::route(&[]));
            return Some(json!({"uri": uri, "mimeType": "image/png", "blob": blob}));
        }
        _ => return None,
    };
    Some(json!({"uri": uri, "mimeType": kind, "text": text}))
}

/// A prompt with its arguments filled in.
pub(crate) fn prompt(name: &str, arguments: &Value) -> Result<Value, String> {
    let given = |key: &str| {
        let value = arguments[key].as_str().filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("Argument {key} is missing"))
    };
    let messages = match name {
        "briefing" => {
            let find = |key| {
                let code = given(key)?;
                geo::find(code).ok_or_else(|| format!("Unknown airport: {code}"))
            };
            let (from, to) = (find("from")?, find("to")?);
            let tone = given("tone").unwrap_or("terse");
            let miles = geo::distance(from, to).round();
            let ask = format!(
                "Brief the crew for the flight from {} to {}, {miles} nautical miles. Be {tone}.",
                from.name, to.name
            );
            let weather = json!({
                "uri": format!("atlas://metar/{}/12", to.code),
                "mimeType": "text/plain",
                "text": geo::weather(to, 12).metar(to.code, 12),
            });
            json!([
                {"role": "user", "content": {"type": "text", "text": ask}},
                {"role": "user", "content": {"type": "resource", "resource": weather}},
            ])
        }
        "explain_metar" => {
            let ask =
                format!("Explain this weather report in plain words:\n\n{}", given("report")?);
            json!([{"role": "user", "content": {"type": "text", "text": ask}}])
        }
        "welcome_aboard" => json!([
            {"role": "user", "content": {"type": "text", "text": "Write the announcement before take-off, under sixty words."}},
            {"role": "assistant", "content": {"type": "text", "text": "Ladies and gentlemen, welcome aboard"}},
        ]),
        other => return Err(format!("Unknown prompt: {other}")),
    };
    Ok(json!({"messages": messages}))
}

/// Values that an argument of a prompt or of a template may take and that begin as typed. Nobody
/// flies to where `from` says they are.
pub(crate) fn complete(argument: &str, typed: &str, from: Option<&str>) -> Vec<String> {
    let all: Vec<String> = match argument {
        "from" | "to" | "code" => geo::AIRPORTS.iter().map(|a| a.code.to_owned()).collect(),
        "tone" => ["terse", "friendly", "pirate"].map(str::to_owned).to_vec(),
        "hour" => (0..24).map(|hour| hour.to_string()).collect(),
        _ => Vec::new(),
    };
    let typed = typed.to_lowercase();
    let here = |value: &String| argument == "to" && Some(value.as_str()) == from;
    all.into_iter()
        .filter(|value| !here(value) && value.to_lowercase().starts_with(&typed))
        .collect()
}
