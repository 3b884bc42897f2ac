//! Asks the user at the terminal what servers ask during a call: forms, addresses to visit and
//! completions (MCP 2025-11-25, client features, elicitation and sampling).

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use url::Url;

use super::typed::OpenLines;
use super::{output, values};
use base::SafeText;
use base::pointer::child_pointer;
use deck::{
    AnswerReply, AskedForm, Asks, MAX_FORM_FIELDS, UrlReading, accepted_form, read_elicitation,
};
use host::ApprovalRequest;
use protocol::{Answer, RequestKind};
use schema::{Parameter, SchemaDocument, SchemaVerdict, Validator, parameters};

/// Maximum length of a text that is shown, in characters.
const MAX_SHOWN_CHARS: usize = 4_000;

/// Asks; `None` for what is not the user's to answer here.
pub async fn ask(lines: &mut OpenLines<'_>, request: &ApprovalRequest) -> Option<Answer> {
    Some(match request.kind {
        RequestKind::Elicitation | RequestKind::UrlElicitation => {
            let action =
                elicited(lines, request).await.unwrap_or_else(|| json!({"action": "cancel"}));
            Answer::Result(action)
        }
        RequestKind::Sampling => {
            let written = completion(lines, request).await.map(AnswerReply::Text);
            written.unwrap_or(AnswerReply::Decline(true)).by_person(&request.kind)
        }
        RequestKind::Roots
        | RequestKind::Guard
        | RequestKind::Permission
        | RequestKind::SignIn
        | RequestKind::Other(_) => return None,
    })
}

/// `server "x" asks during x.y`
fn who(request: &ApprovalRequest) -> String {
    let during = request.during.as_ref().map(|during| format!(" during {during}"));
    format!("server \"{}\" asks{}", request.server, during.unwrap_or_default())
}

/// The result of an elicitation; `None` when it is dismissed.
async fn elicited(lines: &mut OpenLines<'_>, request: &ApprovalRequest) -> Option<Value> {
    let reading = read_elicitation(&request.params);
    let message = SafeText::cut_block(&reading.message, MAX_SHOWN_CHARS);
    let mut shown = format!("{}: {message}", who(request));
    for warning in &reading.warnings {
        let _ = write!(shown, "\n  ! {}", SafeText::line(warning));
    }
    match reading.asks {
        Asks::Url(url) => visit(lines, shown, &url).await,
        Asks::Form(form) => fill_in(lines, shown, (&form, request)).await,
    }
}

/// Shows an address to visit, and opens it on request.
async fn visit(lines: &mut OpenLines<'_>, mut shown: String, url: &UrlReading) -> Option<Value> {
    let _ = write!(shown, "\n  it wants you to open {}{}{}", url.before, url.host, url.after);
    for refusal in &url.refusals {
        let _ = write!(shown, "\n  this is not opened: {}", SafeText::line(refusal));
    }
    let choices = match &url.open {
        Some(_) => "[o: open it in the browser, y: done elsewhere, n: decline, Enter: cancel]",
        None => "[n: decline, Enter: cancel]",
    };
    let line = lines.ask(Some(&format!("{shown}\n  {choices}"))).await?;
    match (line.trim(), &url.open) {
        ("o", Some(address)) => {
            let opened = match Url::parse(address) {
                Ok(address) => deck::open_browser(address).await,
                Err(error) => Err(SafeText::line(&error.to_string())),
            };
            if let Err(why) = opened {
                output::complain(&format!("the browser did not open: {why}"));
            }
            Some(json!({"action": "accept"}))
        }
        ("y" | "yes", Some(_)) => Some(json!({"action": "accept"})),
        ("n" | "no", _) => Some(json!({"action": "decline"})),
        _ => None,
    }
}

/// Fills in a form, field by field, until it fits.
async fn fill_in(
    lines: &mut OpenLines<'_>,
    shown: String,
    (form, request): (&AskedForm, &ApprovalRequest),
) -> Option<Value> {
    let document = SchemaDocument::new(&form.schema);
    let fields = parameters(&document, MAX_FORM_FIELDS);
    let choices = match fields.len() {
        0 => "[y: accept, n: decline, Enter: cancel]",
        _ => "[y: answer, n: decline, Enter: cancel]",
    };
    let line = lines.ask(Some(&format!("{shown}\n  {choices}"))).await?;
    match line.trim() {
        "y" | "yes" => {}
        "n" | "no" => return Some(json!({"action": "decline"})),
        _ => return None,
    }
    loop {
        let mut content = Map::new();
        for field in &fields {
            if let Some(value) = ask_field(lines, &document, (field, &content)).await? {
                content.insert(field.name.clone(), value);
            }
        }
        let result = accepted_form(Value::Object(content));
        match deck::check_answer(&request.kind, &request.params, &result) {
            Ok(()) => return Some(result),
            Err(why) => output::complain(&format!("{}; once more:", SafeText::line(&why))),
        }
    }
}

/// Asks for one field until its value fits: `Some(None)` leaves it out, `None` at the end of stdin.
async fn ask_field(
    lines: &mut OpenLines<'_>,
    document: &SchemaDocument,
    (field, content): (&Parameter<'_>, &Map<String, Value>),
) -> Option<Option<Value>> {
    let default = field.outline.first(|schema| schema.value("default"));
    let mut question = format!("  {}", SafeText::cut(&field.name, 60));
    let title = field.outline.first(|schema| schema.text("title")).unwrap_or_default();
    let about = if field.description().is_empty() { title } else { field.description() };
    if !about.is_empty() {
        let _ = write!(question, ": {}", SafeText::cut(about, 200));
    }
    let needs = if field.required { "required" } else { "optional" };
    let default_words = default.map(|value| match value.as_str() {
        Some(text) => SafeText::cut(text, 60),
        None => SafeText::cut(&value.to_string(), 60),
    });
    let preset = default_words.map(|words| format!(", Enter: {words}")).unwrap_or_default();
    let _ = write!(question, "  ({}, {needs}{preset})", values::kind(field));
    loop {
        let line = lines.ask(Some(&question)).await?;
        let text = line.trim_end_matches(['\r', '\n']);
        let value = match (text.is_empty(), default) {
            (true, Some(value)) => value.clone(),
            (true, None) if field.required => {
                output::complain("  it is required");
                continue;
            }
            (true, None) => return Some(None),
            (false, _) => {
                let pair = [format!("{}={text}", field.name)];
                match values::arguments(None, &pair, document) {
                    Ok(read) => read.value[field.name.as_str()].clone(),
                    Err(wrong) => {
                        output::complain(&format!("  {}", SafeText::line(&wrong.join("; "))));
                        continue;
                    }
                }
            }
        };
        let mut so_far = content.clone();
        so_far.insert(field.name.clone(), value.clone());
        match misfit(document.raw(), &field.name, so_far) {
            None => return Some(Some(value)),
            Some(why) => output::complain(&format!("  {}", SafeText::line(&why))),
        }
    }
}

/// What is wrong with one field of a form.
fn misfit(schema: &Arc<Value>, name: &str, so_far: Map<String, Value>) -> Option<String> {
    let validator = Validator::compile(schema).ok()?;
    let SchemaVerdict::Invalid(violations) = validator.check(&Value::Object(so_far)) else {
        return None;
    };
    let place = child_pointer("", name);
    let own = violations.into_iter().find(|one| one.pointer.starts_with(&place));
    own.map(|one| one.message)
}

/// Shows what is asked of a model, and reads the answer; `None` for a refusal.
async fn completion(lines: &mut OpenLines<'_>, request: &ApprovalRequest) -> Option<String> {
    let params = &request.params;
    let mut shown = format!("{} for a completion", who(request));
    let mut show = |role: &str, text: &str| {
        let text = SafeText::cut_block(text, MAX_SHOWN_CHARS).replace('\n', "\n    ");
        let _ = write!(shown, "\n  {}: {text}", SafeText::cut(role, 20));
    };
    if let Some(system) = params["systemPrompt"].as_str() {
        show("system", system);
    }
    for message in params["messages"].as_array().into_iter().flatten() {
        let content = &message["content"];
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        for block in blocks {
            let role = message["role"].as_str().unwrap_or("?");
            match block["text"].as_str() {
                Some(text) => show(role, text),
                None => show(role, &format!("[{}]", block["type"].as_str().unwrap_or("nothing"))),
            }
        }
    }
    shown.push_str("\n  [write the assistant's answer; an empty line ends it, at once: refuse]");
    let mut text = lines.ask(Some(&shown)).await.filter(|line| !line.trim().is_empty())?;
    while let Some(line) = lines.ask(None).await.filter(|line| !line.trim().is_empty()) {
        text.push('\n');
        text.push_str(&line);
    }
    Some(text)
}
