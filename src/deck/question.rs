//! What a server asks during a call, on a page: the request as JSON, the script and the style that show
//! it, and the answer when the reader replies.

use serde_json::{Value, json};

use crate::answers::{AnswerReply, check_answer};
use crate::elicitation::{Asks, read_elicitation};
use host::ApprovalRequest;
use protocol::{Answer, RequestKind};

/// Largest request of a server that is passed on to a page, in bytes: what is kept for pages that are
/// loaded again is limited.
const MAX_QUESTION_BYTES: usize = 128 << 10;

/// The script that pages share: `fillQuestion(box, question, reply)` puts a question into a box.
const QUESTION_SCRIPT: &str = include_str!("question.js");
/// The style of its forms.
const QUESTION_STYLE: &str = include_str!("question.css");

/// A page of ours with the shared script and style, at its marks.
pub fn with_questions(page: &str) -> String {
    let page = page.replacen("// QUESTION.JS\n", QUESTION_SCRIPT, 1);
    page.replacen("/* QUESTION.CSS */\n", QUESTION_STYLE, 1)
}

/// What a server asks, for a page: its request, what there is to warn of, and the address to `open`, if
/// it asks for one that may be opened. `None` for what the reader of a page is not to answer, and for
/// what is too long.
pub fn page_question(request: &ApprovalRequest) -> Option<Value> {
    let is_elicitation = match request.kind {
        RequestKind::Sampling => false,
        RequestKind::Elicitation | RequestKind::UrlElicitation => true,
        RequestKind::Roots
        | RequestKind::Guard
        | RequestKind::Permission
        | RequestKind::SignIn
        | RequestKind::Other(_) => return None,
    };
    if request.bytes > MAX_QUESTION_BYTES {
        return None;
    }
    let mut question = json!({
        "type": "question", "id": request.id, "server": request.server,
        "method": request.kind.method(), "during": request.during,
        "params": &*request.params, "deadline": request.deadline.to_rfc3339(),
    });
    if is_elicitation {
        let reading = read_elicitation(&request.params);
        let mut warnings = reading.warnings;
        if let Asks::Url(url) = reading.asks {
            warnings.extend(url.refusals);
            question["open"] = json!(url.open);
        }
        question["warnings"] = json!(warnings);
    }
    Some(question)
}

/// The answer to a request when the person replies so.
///
/// # Errors
/// What was expected of the answer.
pub fn checked_reply(request: &ApprovalRequest, reply: &AnswerReply) -> Result<Answer, String> {
    let answer = reply.by_person(&request.kind);
    if let Answer::Result(result) = &answer {
        check_answer(&request.kind, &request.params, result)?;
    }
    Ok(answer)
}
