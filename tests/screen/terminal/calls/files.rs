//! A file that fills a field: as text, or its bytes as base64, it arrives at the server.

use super::results::{launch, received, tool};
use super::*;

#[test]
fn a_file_fills_a_field_as_text_and_as_base64() {
    let schema = json!({"type": "object", "required": ["text", "data"], "properties": {
        "text": {"type": "string"},
        "data": {"type": "string", "contentEncoding": "base64"}}});
    let script = json!({"tools": [tool("take", &schema)],
        "calls": {"take": {"answer": {"content": [{"type": "text", "text": "taken"}]}}}});
    let launch = launch(&script);
    let folder = launch.home().join("things");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("hello.txt"), "Hello").unwrap();
    std::fs::write(folder.join("pixel.gif"), b"GIF89a\x01\0\x01\0\0\0\0;").unwrap();
    let mut deck = launch.start();
    deck.wait("1 ready");
    deck.keys("2");
    open(&mut deck, "take");
    deck.keys("\x06");
    deck.wait("the content of the file");
    deck.keys("absent\r");
    deck.wait("No such file");
    deck.keys("\x15things/hello.txt\r");
    deck.wait_until("the text", |screen| {
        screen.contains("Hello") && !screen.contains("of the file")
    });
    deck.keys("\t\x06");
    deck.wait("the content of the file");
    deck.keys(&format!("{}/pixel.gif\r", folder.display()));
    deck.wait("R0lGODlh");
    deck.keys(F5);
    deck.wait("taken");
    assert_eq!(received(&deck, "\"text\":\"Hello\""), 1);
    assert_eq!(received(&deck, "\"data\":\"R0lGODlhAQABAAAAADs=\""), 1);
    leave(&mut deck);
    deck.quit();
}
