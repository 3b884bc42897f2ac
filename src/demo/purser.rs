//! A stand-in for a model: drafts completions from what it is asked, always the same for the same
//! request. Shows where a real one would come in; answers nothing by itself.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::host::{Drafter, PendingRequest};
use crate::mcp::RequestKind;

/// Drafts completions without a model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Purser;

/// Characters of the last message that are taken up.
const TAKEN_UP: usize = 200;

impl Drafter for Purser {
    fn name(&self) -> &'static str {
        "the demo purser"
    }

    fn draft(
        &self,
        request: Arc<PendingRequest>,
        params: Arc<Value>,
    ) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(async move {
            if request.kind != RequestKind::Sampling {
                return Err("it writes completions only".to_owned());
            }
            Ok(draft(&params))
        })
    }
}

fn draft(params: &Value) -> Value {
    let last = params.get("messages").and_then(Value::as_array).and_then(|m| m.last());
    let content = last.and_then(|message| message.get("content")).unwrap_or(&Value::Null);
    let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
    let asked = blocks.iter().find_map(|block| block.get("text")?.as_str()).unwrap_or("nothing");
    let asked: String = asked.chars().take(TAKEN_UP).collect();
    json!({
        "role": "assistant",
        "content": {"type": "text", "text": format!("Dear passengers, about \u{201c}{asked}\u{201d}: all is well.")},
        "model": "demo-purser",
        "stopReason": "endTurn",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_is_taken_up_whatever_its_shape() {
        let text = json!({"type": "text", "text": "turbulence"});
        for content in [text.clone(), json!([{"type": "image"}, text])] {
            let drafted = draft(&json!({"messages": [{"role": "user", "content": content}]}));
            let text = drafted["content"]["text"].as_str().expect("text");
            assert!(text.contains("turbulence"), "{text}");
        }
        assert!(draft(&json!([])).to_string().contains("nothing"));
    }
}
