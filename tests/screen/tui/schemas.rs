//! Tools whose schemas are written as pydantic, zod and published servers write them, in the list of
//! tools and in their details.

use crossterm::event::{KeyCode, KeyModifiers};
use serde_json::{Value, json};

use super::{draw, press};

#[test]
fn the_list_of_tools_and_their_details_read_every_schema() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/schemas/tools.json");
    let text = std::fs::read_to_string(path).expect("readable");
    let tools: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let mut app = super::find::over(&json!([{"server": "odd", "tools": tools, "prompts": [],
        "resources": []}]));
    press(&mut app, KeyCode::Char('2'), KeyModifiers::NONE);
    let screen = draw(&mut app, 200, 60);
    for tool in &tools {
        let (name, signature) =
            (tool["name"].as_str().unwrap(), tool["signature"].as_str().unwrap());
        let shown: String = signature.chars().take(48).collect();
        let is_row =
            |line: &str| line.split_whitespace().any(|word| word.trim_start_matches('▸') == name);
        let row = screen.lines().find(|line| is_row(line) && line.contains(&shown));
        assert!(row.is_some(), "{name} {signature}\n{screen}");
    }
    for name in ["joined", "recursive", "old_tuple"] {
        press(&mut app, KeyCode::Char('/'), KeyModifiers::NONE);
        name.chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), KeyModifiers::NONE));
        press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
        insta::assert_snapshot!(format!("details_of_{name}"), draw(&mut app, 140, 16));
        press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    }
}
