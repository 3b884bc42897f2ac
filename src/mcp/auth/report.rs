//! Reporting the steps of signing in to whoever watches: addresses without their query, bodies with
//! their secrets masked.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use url::Url;

use super::step::{AuthEvent, AuthFailure, AuthStep, StepKind};
use base::secret::MASK;
use base::{SafeText, ServerName};
use config::is_secret;

impl AuthStep {
    /// A step made now; anything secret is removed from its address.
    pub(super) fn new(kind: StepKind, url: &Url) -> Self {
        let mut shown = url.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        let _ = (shown.set_password(None), shown.set_username(""));
        let url = SafeText::line(shown.as_str());
        Self { kind, url, status: None, took: Duration::ZERO, refused: None }
    }
}

impl AuthFailure {
    /// A refusal that quotes what a server said.
    pub(super) fn refused(text: impl std::fmt::Display) -> Self {
        Self::Refused(SafeText::line(&text.to_string()).to_string())
    }

    /// A failure that quotes what a server or the system said.
    pub(super) fn failed(text: impl std::fmt::Display) -> Self {
        Self::Failed(SafeText::line(&text.to_string()).to_string())
    }
}

/// A listener for the events of accounts.
pub(super) type AuthListener = Arc<dyn Fn(&ServerName, AuthEvent<'_>) + Send + Sync>;

/// Reports the events of one server.
#[derive(Clone)]
pub(super) struct AuthReporter {
    pub(super) server: ServerName,
    pub(super) watches: Vec<AuthListener>,
}

impl AuthReporter {
    pub(super) fn emit(&self, event: AuthEvent<'_>) {
        for watch in &self.watches {
            watch(&self.server, event);
        }
    }

    /// Reports that the server refused a request, with its challenge.
    pub(super) fn challenged(&self, step: AuthStep, challenge: Option<&str>) {
        let header = challenge.map(|c| serde_json::json!({"www-authenticate": c}).to_string());
        self.step(step, &[], header.unwrap_or_default().as_bytes());
    }

    pub(super) fn step(&self, step: AuthStep, sent: &[u8], answered: &[u8]) {
        tracing::info!(server = %self.server, %step, "sign-in");
        let sent = readable(step.kind, sent, true);
        let answered = readable(step.kind, answered, false);
        self.emit(AuthEvent::Step { step: &step, sent: &sent, answered: &answered });
    }
}

/// A body as JSON in which secrets are masked. Requests may be forms, and the browser sends and
/// receives a query; any other text is only counted. Metadata is public.
fn readable(kind: StepKind, body: &[u8], is_sent: bool) -> String {
    if body.is_empty() {
        return String::new();
    }
    let json = serde_json::from_slice(body).ok().filter(Value::is_object);
    let mut value = match json {
        Some(json) => json,
        None if is_sent || kind == StepKind::Authorize => {
            let pairs = url::form_urlencoded::parse(body).into_owned();
            pairs.map(|(key, value)| (key, Value::String(value))).collect::<Value>()
        }
        None => return format!("{} bytes that are not a JSON object", body.len()),
    };
    if !matches!(kind, StepKind::ResourceMetadata | StepKind::ServerMetadata) {
        mask("", &mut value);
    }
    value.to_string()
}

fn mask(name: &str, value: &mut Value) {
    const SECRET: [&str; 3] = ["code", "code_verifier", "state"];
    match value {
        Value::String(text)
            if SECRET.contains(&name)
                || name.contains("assertion")
                || matches!(name, "subject_token" | "actor_token")
                || is_secret(name, text) =>
        {
            MASK.clone_into(text);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(name, item)),
        Value::Object(map) => map.iter_mut().for_each(|(name, value)| mask(name, value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_form_and_of_an_answer_are_masked_and_the_rest_is_readable() {
        let form = b"grant_type=authorization_code&code=good&code_verifier=v&client_assertion=a.b";
        assert_eq!(
            readable(StepKind::Token, form, true),
            r#"{"grant_type":"authorization_code","code":"***","code_verifier":"***","client_assertion":"***"}"#
        );
        let answer = br#"{"access_token":"a","refresh_token":"r","id_token":"i","token_type":"Bearer","expires_in":5,"scope":"read","nested":[{"client_secret":"s"}]}"#;
        let shown = readable(StepKind::Token, answer, false);
        assert_eq!(shown.matches(MASK).count(), 4, "{shown}");
        assert!(
            shown.contains(r#""token_type":"Bearer","expires_in":5,"scope":"read""#),
            "{shown}"
        );
        let page = readable(StepKind::Token, b"<p>the token abc</p>", false);
        assert_eq!(page, "20 bytes that are not a JSON object");
    }
}
