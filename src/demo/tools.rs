//! The atlas server's tools that change nothing. Pure: arguments in, tool result out.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::atlas;
use crate::demo::chart;
use crate::demo::geo::{self, Airport};

/// The result of a tool, `None` when there is no such tool.
pub(crate) fn call(name: &str, arguments: &Value, catalogue: &Value) -> Option<Value> {
    let result = match name {
        "find_airport" => Ok(find_airport(arguments)),
        "plan_flight" => plan_flight(arguments),
        "weather" => weather(arguments),
        "draw_chart" => draw_chart(arguments),
        "load_sheet" => load_sheet(arguments),
        "consult_manual" => consult_manual(arguments, catalogue),
        "play_chime" => Ok(play_chime(arguments)),
        _ => return None,
    };
    Some(result.unwrap_or_else(|error| {
        let mut said = said(&error);
        said["isError"] = true.into();
        said
    }))
}

/// A result of one block of text.
pub(crate) fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn structured(value: Value) -> Value {
    json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value})
}

fn airport(code: &Value) -> Result<&'static Airport, String> {
    let code = code.as_str().unwrap_or_default();
    geo::find(code)
        .ok_or_else(|| format!("There is no airport {code} in this atlas; try find_airport."))
}

fn route(codes: &Value) -> Result<Vec<&'static Airport>, String> {
    codes.as_array().into_iter().flatten().map(airport).collect()
}

fn find_airport(arguments: &Value) -> Value {
    let found = geo::search(arguments["query"].as_str().unwrap_or_default());
    let limit = arguments["limit"].as_u64().unwrap_or(5) as usize;
    let airports: Vec<Value> =
        found.iter().take(limit).map(|airport| atlas::airport(airport)).collect();
    structured(json!({"total": found.len(), "airports": airports}))
}

fn plan_flight(arguments: &Value) -> Result<Value, String> {
    let stops = route(&arguments["route"])?;
    let aircraft = &arguments["aircraft"];
    let (knots, burn) = match aircraft["kind"].as_str() {
        Some("turboprop") => (aircraft["knots"].as_f64().unwrap_or(300.0), 700.0),
        Some("balloon") => (12.0, 30.0),
        _ => (aircraft["mach"].as_f64().unwrap_or(0.78) * 573.6, 2500.0),
    };
    let mut legs = Vec::new();
    let (mut miles, mut minutes) = (0.0, 0);
    for leg in stops.windows(2) {
        let distance = geo::distance(leg[0], leg[1]);
        let time = (distance / knots * 60.0).round() as u64;
        legs.push(json!({
            "from": leg[0].code,
            "to": leg[1].code,
            "nauticalMiles": distance.round(),
            "courseDegrees": geo::course(leg[0], leg[1]).round(),
            "minutes": time,
        }));
        miles += distance;
        minutes += time;
    }
    let cargo = arguments["cargo"].as_object().into_iter().flatten();
    let cargo: f64 = cargo.filter_map(|(_, kg)| kg.as_f64()).sum();
    let hours = minutes as f64 / 60.0;
    Ok(structured(json!({
        "legs": legs,
        "totalNauticalMiles": miles.round(),
        "totalMinutes": minutes,
        "fuelKilograms": (hours * (burn + cargo * 0.03)).round() as u64,
        "soulsOnBoard": arguments["passengers"].as_array().map_or(0, Vec::len) + 2,
    })))
}

fn weather(arguments: &Value) -> Result<Value, String> {
    let place = airport(&arguments["airport"])?;
    let hour = arguments["hour"].as_u64().unwrap_or(12) as u32;
    let weather = geo::weather(place, hour);
    Ok(structured(json!({
        "metar": weather.metar(place.code, hour),
        "windFrom": weather.wind_from,
        "windKnots": weather.wind,
        "celsius": weather.temperature,
        "hectopascal": weather.pressure,
        "sky": weather.sky,
    })))
}

fn draw_chart(arguments: &Value) -> Result<Value, String> {
    let stops = route(&arguments["route"])?;
    let names: Vec<&str> = stops.iter().map(|stop| stop.city).collect();
    let image = BASE64_STANDARD.encode(chart::route(&stops));
    Ok(json!({"content": [
        {"type": "text", "text": names.join(" to ")},
        {"type": "image", "data": image, "mimeType": "image/png"},
        {"type": "resource_link", "uri": "atlas://chart/world", "name": "world-chart",
         "mimeType": "image/png", "description": "Every airport of the atlas"},
    ]}))
}

fn load_sheet(arguments: &Value) -> Result<Value, String> {
    const LIMIT: f64 = 757.0;
    let stations = arguments["stations"].as_object().cloned().unwrap_or_default();
    let load: f64 = stations.values().filter_map(Value::as_f64).sum();
    let aerobatic = arguments["aerobatic"].as_bool().unwrap_or(false);
    let limit = if aerobatic { LIMIT * 0.8 } else { LIMIT };
    if load > limit {
        return Err(format!(
            "{load} kg is {} kg over the limit of {limit} kg. Leave something behind.",
            load - limit
        ));
    }
    Ok(said(&format!("{load} kg of {limit} kg: clear to fly.")))
}

fn consult_manual(arguments: &Value, catalogue: &Value) -> Result<Value, String> {
    let topic = arguments["topic"].as_str().unwrap_or_default();
    let text = catalogue["manual"][topic]
        .as_str()
        .ok_or_else(|| format!("The manual has no chapter {topic}."))?;
    let uri = format!("atlas://manual/{topic}");
    Ok(json!({"content": [
        {"type": "text", "text": text, "annotations": {"audience": ["user"], "priority": 0.9}},
        {"type": "resource_link", "uri": uri, "name": topic, "mimeType": "text/markdown"},
        {"type": "resource", "resource": {
            "uri": "atlas://manual/checklist", "mimeType": "text/markdown",
            "text": catalogue["manual"]["checklist"],
        }},
    ]}))
}

/// A quarter of a second of a fading tone as WAV: 8 kHz, one channel, eight bits.
fn play_chime(arguments: &Value) -> Value {
    const RATE: u32 = 8000;
    const LENGTH: u32 = RATE / 4;
    let hertz = arguments["hertz"].as_f64().unwrap_or(587.33);
    let mut wav = b"RIFF".to_vec();
    wav.extend_from_slice(&(36 + LENGTH).to_le_bytes());
    wav.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend_from_slice(&RATE.to_le_bytes());
    wav.extend_from_slice(&RATE.to_le_bytes());
    wav.extend_from_slice(b"\x01\0\x08\0data");
    wav.extend_from_slice(&LENGTH.to_le_bytes());
    for sample in 0..LENGTH {
        let fade = 1.0 - f64::from(sample) / f64::from(LENGTH);
        let phase = f64::from(sample) * hertz * std::f64::consts::TAU / f64::from(RATE);
        wav.push((128.0 + 100.0 * fade * phase.sin()) as u8);
    }
    json!({"content": [
        {"type": "audio", "data": BASE64_STANDARD.encode(wav), "mimeType": "audio/wav"},
    ]})
}
