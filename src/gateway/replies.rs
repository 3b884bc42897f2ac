//! Questions of servers over REST: programs fetch them, and answer.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, RawQuery, State};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::outside::Outside;
use super::questions::ProgramName;
use super::rest::{RestAnswer, body, unprocessable};
use super::state::Gateway;
use super::tokens::Client;
use base::text::SafeText;
use deck::check_answer;
use host::AccessScope;
use protocol::Answer;

/// Longest time that a request waits for a question, in seconds.
const MAX_POLL_SECONDS: f64 = 60.0;

/// `GET /requests`: the open questions to this client; with `wait`, as soon as there is one; with
/// `for`, those of the calls that this program made.
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    RawQuery(query): RawQuery,
) -> RestAnswer {
    client.allows(AccessScope::ToolsCall)?;
    let (mut wait, mut program) = (0.0, ProgramName::default());
    for (key, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if key == "for" {
            program = ProgramName::parse(&value).map_err(unprocessable)?;
            continue;
        }
        if key != "wait" {
            let key = SafeText::line(&key);
            return Err(unprocessable(format!("`{key}` is not one of: wait, for")));
        }
        let seconds = value.parse::<f64>().ok().filter(|it| (0.0..=MAX_POLL_SECONDS).contains(it));
        let wrong =
            || unprocessable(format!("`wait` is a number of seconds up to {MAX_POLL_SECONDS}"));
        wait = seconds.ok_or_else(wrong)?;
    }
    let mut changed = gateway.questions.follow();
    let asked = async {
        loop {
            let open = gateway.questions.list(&client, &program);
            if !open.is_empty() || changed.changed().await.is_err() {
                return open;
            }
        }
    };
    let waited = async {
        tokio::select! {
            open = asked => open,
            () = tokio::time::sleep(Duration::from_secs_f64(wait)) => Vec::new(),
            () = client.cut.cancelled() => Vec::new(),
            () = gateway.streams.cancelled() => Vec::new(),
        }
    };
    Ok(Json(json!({ "requests": waited.await })))
}

/// The body of `POST /requests/{id}`: the result of the request, or an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerBody {
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<AnswerError>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerError {
    #[serde(default = "declined")]
    code: i64,
    message: String,
}

/// JSON-RPC code of a request that the user rejected (MCP, sampling).
const fn declined() -> i64 {
    -1
}

/// `POST /requests/{id}`: answers a question.
pub(crate) async fn answer(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
    request: Result<Json<AnswerBody>, JsonRejection>,
) -> RestAnswer {
    client.allows(AccessScope::ToolsCall)?;
    let asked = gateway.questions.find(&client, &id).ok_or_else(|| Outside::absent(&id))?;
    let answer = match body(request)? {
        AnswerBody { result: Some(result), error: None } => {
            check_answer(&asked.kind, &asked.params, &result).map_err(unprocessable)?;
            Answer::Result(result)
        }
        AnswerBody { result: None, error: Some(error) } => {
            let message = SafeText::line(&error.message).to_string();
            Answer::Refuse { code: error.code, message }
        }
        _ => return Err(unprocessable("write either `result` or `error`")),
    };
    if gateway.questions.answer(&client, &id, answer) {
        return Ok(Json(json!({"id": id, "answered": true})));
    }
    Err(Outside::absent(&id))
}
