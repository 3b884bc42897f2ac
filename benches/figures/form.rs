//! Forms and results: time to build and draw the forms of the largest schemas; for large answers of
//! a real server process, time from the last byte to the first screen, time to scroll, and peak
//! memory relative to the size of the answer. `cargo bench --bench figures -- form`; the word
//! `answers` skips the forms.

mod answers;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpdeck::schema::{Defaults, Validator};
use mcpdeck::tui::action::Action;
use mcpdeck::tui::form::draw::Styles;
use mcpdeck::tui::form::{FormState, draw};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Map, Value, json};

const AREA: Rect = Rect { x: 0, y: 0, width: 120, height: 40 };

/// Measures forms and answers, or the latter alone; or is the server or the reader of one answer.
pub fn measure(words: &[String]) {
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", kind, mark] => answers::serve(kind, mark),
        ["measure", kind] => answers::measure(kind),
        ["answers"] => answers::all(),
        _ => {
            forms();
            answers::all();
        }
    }
}

fn median(times: usize, mut work: impl FnMut()) -> Duration {
    let mut all: Vec<Duration> = (0..times)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect();
    all.sort();
    all[all.len() / 2]
}

fn forms() {
    let properties: Map<String, Value> = (0..2_000)
        .map(|i| {
            let field = match i % 5 {
                0 => json!({"type": "string", "description": "Some text", "maxLength": 40}),
                1 => json!({"type": "integer", "minimum": 0, "default": 3}),
                2 => json!({"enum": ["a", "b", "c"]}),
                3 => json!({"type": "boolean"}),
                _ => json!({"type": ["number", "null"]}),
            };
            (format!("property_{i}"), field)
        })
        .collect();
    let wide = Arc::new(json!({"type": "object", "properties": properties}));
    form("2,000 properties", &wide);
    if let Some((name, schema)) = largest() {
        form(&format!("largest real schema ({name})"), &Arc::new(schema));
    }
    let schema = json!({"type": "object", "properties": {"city": {"type": "string", "minLength": 1},
        "days": {"type": "integer", "minimum": 1, "maximum": 14}}, "required": ["city"]});
    let validator = Validator::compile(&schema).expect("compiles");
    let value = json!({"city": "Oslo", "days": 3});
    let per_check = median(50, || {
        for _ in 0..1_000 {
            std::hint::black_box(validator.check(std::hint::black_box(&value)));
        }
    }) / 1_000;
    println!("validate a small call                         {per_check:>10.2?}");
}

fn form(name: &str, schema: &Arc<Value>) {
    let compile = median(9, || drop(Validator::compile(schema)));
    let build = median(21, || drop(FormState::new(schema, Defaults::Required)));
    let mut state = FormState::new(schema, Defaults::Required);
    let mut buf = Buffer::empty(AREA);
    let drawing = median(51, || draw::form(&state, &Styles::default(), "Call", AREA, &mut buf));
    let typing = median(21, || {
        let key = crossterm::event::KeyCode::Char('x');
        state.type_key(key.into());
    });
    let moving = median(51, || {
        state.apply(Action::NextField);
        draw::form(&state, &Styles::default(), "Call", AREA, &mut buf);
    });
    println!("form of {name}: {} rows", state.rows().len());
    println!("  compile one validator                       {compile:>10.2?}");
    println!("  build (schema, validators, rows)            {build:>10.2?}");
    println!("  draw                                        {drawing:>10.2?}");
    println!("  build and draw: goal under 16 ms            {:>10.2?}", build + drawing);
    println!("  one key typed, checked                      {typing:>10.2?}");
    println!("  one line down, drawn                        {moving:>10.2?}");
}

fn largest() -> Option<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/schemas/real");
    let mut best: Option<(usize, String, Value)> = None;
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let text = std::fs::read_to_string(entry.path()).ok()?;
        for tool in serde_json::from_str::<Vec<Value>>(&text).ok()? {
            let schema = tool["inputSchema"].clone();
            let size = schema.to_string().len();
            if best.as_ref().is_none_or(|(most, _, _)| size > *most) {
                best = Some((size, tool["name"].as_str()?.to_owned(), schema));
            }
        }
    }
    best.map(|(size, name, schema)| (format!("{name}, {size} bytes"), schema))
}
