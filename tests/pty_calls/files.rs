//! A file picked by keys for a field: its path, or its bytes as base64, arrive at the server.

use super::results::{launch, received, tool};
use super::*;

#[test]
fn a_picked_file_arrives_as_a_path_and_as_base64() {
    let schema = json!({"type": "object", "required": ["path", "data"], "properties": {
        "path": {"type": "string"},
        "data": {"type": "string", "contentEncoding": "base64"}}});
    let script = json!({"tools": [tool("take", &schema)],
        "calls": {"take": {"answer": {"content": [{"type": "text", "text": "taken"}]}}}});
    let launch = launch(&script);
    let folder = launch.home().join("things");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("hello.txt"), "Hello").unwrap();
    std::fs::write(folder.join("pixel.gif"), b"GIF89a\x01\0\x01\0\0\0\0;").unwrap();
    std::fs::write(folder.join("evil\x1b]0;owned\x07"), "").unwrap();
    let mut deck = launch.start();
    deck.wait("1 ready");
    deck.keys("2");
    open(&mut deck, "take");
    deck.keys("\x06");
    deck.wait("pick a path for this field");
    deck.keys(&format!("{}\r", folder.display()));
    deck.wait("hello.txt");
    deck.wait("pixel.gif");
    deck.assert_no_foreign_escape();
    deck.keys("hel\r");
    deck.gone("pick a path for this field");
    // The picker of the next field begins where the last file was.
    deck.keys("\t\x06");
    deck.wait("as base64, up to 4 MiB");
    deck.wait("14 B");
    deck.keys("pix\r");
    deck.gone("as base64, up to 4 MiB");
    deck.wait("R0lGODlh");
    deck.keys(F5);
    deck.wait("taken");
    let file = folder.join("hello.txt");
    assert_eq!(received(&deck, &format!("\"path\":\"{}\"", file.display())), 1);
    assert_eq!(received(&deck, "\"data\":\"R0lGODlhAQABAAAAADs=\""), 1);
    leave(&mut deck);
    deck.quit();
}
