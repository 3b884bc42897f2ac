//! Pictures and sounds in what a server says, as files for programs that can show and play them.

use serde_json::Value;

use crate::tui::result::{content, image};

/// A picture or sound of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What its file ends with, made of letters and digits.
    pub suffix: String,
    /// Its decoded bytes; an error says why there are none.
    pub content: Result<Vec<u8>, String>,
}

/// Every picture and sound of a sampling request, in its order, those in results of tools included
/// (`CreateMessageRequestParams`, `messages[].content`).
pub fn media(params: &Value) -> Vec<Media> {
    let mut found = Vec::new();
    let messages = params.get("messages").and_then(Value::as_array);
    for content in messages.into_iter().flatten().filter_map(|message| message.get("content")) {
        collect(content, &mut found);
    }
    found
}

fn collect(content: &Value, found: &mut Vec<Media>) {
    let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
    for block in blocks {
        let field = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match field("type") {
            "image" | "audio" => found.push(Media {
                suffix: content::suffix(field("mimeType")),
                content: image::bytes(field("data")),
            }),
            // Its content is a list of plain blocks: this goes one level down.
            "tool_result" => {
                if let Some(inner) = block.get("content") {
                    collect_plain(inner, found);
                }
            }
            _ => {}
        }
    }
}

fn collect_plain(content: &Value, found: &mut Vec<Media>) {
    for block in content.as_array().into_iter().flatten() {
        if block.get("type").and_then(Value::as_str) != Some("tool_result") {
            collect(block, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pictures_and_sounds_are_found_in_order_also_in_results_of_tools() {
        let picture = json!({"type": "image", "mimeType": "image/jpeg", "data": "AAEC"});
        let sound = json!({"type": "audio", "mimeType": "audio/../../x", "data": "!"});
        let result = json!({"type": "tool_result", "toolUseId": "1",
            "content": [{"type": "text", "text": "see"}, picture]});
        let params = json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "user", "content": sound},
            {"role": "user", "content": [result, picture]}]});
        let found = media(&params);
        let suffixes: Vec<&str> = found.iter().map(|media| &*media.suffix).collect();
        assert_eq!(suffixes, ["x", "jpg", "jpg"]);
        assert!(found[0].content.is_err(), "{found:?}");
        assert_eq!(found[2].content.as_deref(), Ok(&[0, 1, 2][..]));
    }
}
