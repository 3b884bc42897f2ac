//! The tools of two servers compared, from the tools.

use mcpdeck::tui::app::App;
use mcpdeck::tui::effect::{Baseline, Effect};
use serde_json::{Value, json};

use super::driver::Driver;
use super::keys::{NONE, types};
use super::{draw, press};
use crossterm::event::KeyCode;

fn tool(name: &str, description: &str, properties: &Value) -> Value {
    json!({"name": name, "description": description,
        "inputSchema": {"type": "object", "properties": properties}})
}

/// Two versions of a server, and one for something else.
fn versions() -> App {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let path = json!({ "path": text });
    let server = |name: &str, tools: &[Value]| json!({"server": name, "tools": tools, "prompts": [], "resources": []});
    super::find::over(&json!([
        server(
            "files",
            &[
                tool("read", "Reads a file as text.", &path),
                tool("write", "Writes a file.", &json!({"path": text, "content": text})),
                tool("list", "Lists a folder.", &path),
            ]
        ),
        server(
            "files-next",
            &[
                tool(
                    "read",
                    "Reads a file as text or bytes.",
                    &json!({"path": text, "head": number})
                ),
                tool("list", "Lists a folder.", &path),
                tool("watch", "Tells when a file changes.", &path),
            ]
        ),
        server("clock", &[tool("now", "The time.", &json!({}))]),
    ]))
}

#[test]
fn the_tools_of_two_servers_are_compared_by_name_field_and_word() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut app = versions();
        types(&mut app, "2");
        draw(&mut app, width, height);
        types(&mut app, "=");
        let screen = draw(&mut app, width, height);
        for part in ["compare server \"files\" with", "files-next", "clock", "mcp.lock.json"] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
        types(&mut app, "next");
        press(&mut app, KeyCode::Enter, NONE);
        let screen = draw(&mut app, width, height);
        insta::assert_snapshot!(format!("compared_servers_{width}x{height}"), screen);
    }
}

#[test]
fn the_tools_of_a_server_are_compared_with_the_lock_file() {
    let mut driver = Driver::new();
    driver.keys("2");
    draw(&mut driver.app, 120, 40);
    driver.keys("=");
    driver.keys("lock\r");
    assert!(driver.wanted.contains(&Effect::Baseline(Baseline::Lock)), "{:?}", driver.wanted);
    let screen = draw(&mut driver.app, 120, 40);
    assert!(screen.contains("━ policy ") && screen.contains("lock"), "{screen}");
}
