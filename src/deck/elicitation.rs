//! An elicitation request parsed for display: what it asks for, and whether that looks like a
//! secret (MCP 2025-11-25, client features, elicitation). Pure.

use std::sync::Arc;

use serde_json::{Value, json};
use url::{Host, Position, Url};

use base::address::is_loopback;
use base::text::SafeText;
use schema::{SchemaDocument, parameters};

/// An `elicitation/create` request, parsed for display.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitationReading {
    /// The message of the server.
    pub message: SafeText,
    /// What it asks for.
    pub asks: Asks,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// What an elicitation asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asks {
    /// A form.
    Form(AskedForm),
    /// A visit to a URL.
    Url(UrlReading),
}

/// A form that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedForm {
    /// The schema of its content.
    pub schema: Arc<Value>,
    /// Its number of fields.
    pub fields: usize,
    /// The labels of the fields that have a description, as in the form, and these descriptions.
    pub described: Vec<(SafeText, SafeText)>,
}

/// The result of an elicitation that is accepted with this content.
pub fn accepted_form(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

/// Words in a field's name or text that indicate a secret. The specification forbids asking for
/// secrets in a form.
const SECRET_WORDS: &str = "password|passwd|passphrase|passcode|secret|api key|api_key|apikey|\
    api-key|token|private key|private_key|credential|ssn|social security|credit card|card number|\
    cvv|cvc|iban|pin code|one-time code|otp|seed phrase|recovery phrase";
/// Maximum number of fields drawn as a form; a larger one is edited as JSON.
pub const MAX_FORM_FIELDS: usize = 200;

/// Parses `params`. Never fails.
pub fn read_elicitation(params: &Value) -> ElicitationReading {
    let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
    let mut warnings = Vec::new();
    let is_url = params.get("mode").and_then(Value::as_str) == Some("url");
    let asks = if is_url {
        let reading = read_url(params.get("url").and_then(Value::as_str).unwrap_or_default());
        warnings.extend(reading.warnings.iter().cloned());
        Asks::Url(reading)
    } else {
        let schema = params.get("requestedSchema").cloned().unwrap_or_else(|| {
            warnings
                .push("it does not say what it asks for: `requestedSchema` is missing".to_owned());
            json!({"type": "object"})
        });
        Asks::Form(read_form(schema, &mut warnings))
    };
    if !is_url && looks_secret(message) {
        warnings.push("the message speaks of a secret; a form is the wrong place for one".into());
    }
    ElicitationReading { message: SafeText::block(message), asks, warnings }
}

fn read_form(schema: Value, warnings: &mut Vec<String>) -> AskedForm {
    let document = SchemaDocument::new(&Arc::new(schema));
    let fields = parameters(&document, usize::MAX);
    let mut described = Vec::new();
    for field in &fields {
        let text = |key: &str| field.outline.first(|node| node.text(key)).unwrap_or_default();
        let (title, description) = (text("title"), field.description());
        if [field.name.as_str(), title, description].into_iter().any(looks_secret)
            || text("format") == "password"
        {
            let name = SafeText::line(&field.name);
            warnings.push(format!("`{name}` looks like a secret; servers must not ask for those"));
        }
        if field.outline.types().contains(&"object") {
            let name = SafeText::line(&field.name);
            warnings.push(format!("`{name}` is nested, which the specification does not allow"));
        }
        if !description.is_empty() {
            let label = if title.is_empty() { field.name.as_str() } else { title };
            described.push((SafeText::line(label), SafeText::line(description)));
        }
    }
    if fields.len() > MAX_FORM_FIELDS {
        warnings.push(format!("it asks for {} fields; edit them as JSON", fields.len()));
    }
    AskedForm { schema: Arc::clone(document.raw()), fields: fields.len(), described }
}

/// Whether `text` mentions a secret.
fn looks_secret(text: &str) -> bool {
    let text = text.to_lowercase();
    SECRET_WORDS.split('|').any(|word| {
        text.match_indices(word).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !letter(before) && (!letter(after) || after == Some('s'))
        })
    })
}

// Inspection of a URL before the user opens it (MCP 2025-11-25, client features, elicitation,
// URL mode). Pure: fetches and opens nothing.

/// Longest URL that may be opened, in bytes.
const MAX_URL_BYTES: usize = 2_048;

/// A URL split into parts for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlReading {
    /// Text before the host, safe to draw.
    pub before: SafeText,
    /// The host the browser would really connect to.
    pub host: SafeText,
    /// Text after the host.
    pub after: SafeText,
    /// What the server sent, if that differs from what would be opened.
    pub written: Option<SafeText>,
    /// Why it must not be opened; empty if it may be.
    pub refusals: Vec<String>,
    /// What the user should check before opening it.
    pub warnings: Vec<String>,
    /// The normalised URL to pass to the opener; `None` if it is refused.
    pub open: Option<String>,
}

/// Parses and checks `raw`.
///
/// Refused: any scheme but `https` (and `http` on a loopback host), user information
/// (`good@evil`), control characters, white space, more than 2,048 bytes, no host. Warned
/// about: punycode and look-alike hosts, bare IP addresses, unusual ports.
pub fn read_url(raw: &str) -> UrlReading {
    let mut refusals = Vec::new();
    let mut warnings = Vec::new();
    if raw.len() > MAX_URL_BYTES {
        refusals
            .push(format!("it is {} bytes long, at most {MAX_URL_BYTES} are opened", raw.len()));
    }
    if raw.chars().any(|c| c.is_control() || c.is_whitespace()) {
        refusals.push("it holds white space or control characters".to_owned());
    }
    let parsed = match Url::parse(raw) {
        Ok(url) => url,
        Err(error) => {
            refusals.push(format!("it is not a URL: {error}"));
            let before = SafeText::line(raw);
            return UrlReading { before, refusals, ..UrlReading::default() };
        }
    };
    check_scheme(&parsed, &mut refusals, &mut warnings);
    if !parsed.username().is_empty() || parsed.password().is_some() {
        refusals.push(format!(
            "the part before `@` is not an address; it would really open {}",
            parsed.host_str().unwrap_or("nothing")
        ));
    }
    check_host(&parsed, raw, &mut refusals, &mut warnings);
    if let Some(port) = parsed.port() {
        warnings.push(format!("unusual port {port}"));
    }
    // Shows the host of the parsed URL, which would be opened, not the one that was written.
    let before = SafeText::line(&parsed[..Position::BeforeHost]);
    let host = SafeText::line(&parsed[Position::BeforeHost..Position::AfterHost]);
    let after = SafeText::line(&parsed[Position::AfterHost..]);
    let open = refusals.is_empty().then(|| parsed.to_string());
    let written = (parsed.as_str() != raw && parsed.as_str().trim_end_matches('/') != raw)
        .then(|| SafeText::line(raw));
    UrlReading { before, host, after, written, refusals, warnings, open }
}

fn check_scheme(url: &Url, refusals: &mut Vec<String>, warnings: &mut Vec<String>) {
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(url) => {
            warnings.push("this machine itself, without encryption".to_owned());
        }
        "http" => refusals.push("`http` to another machine is not encrypted".to_owned()),
        other => refusals.push(format!("`{other}:` is not opened, only `https:`")),
    }
}

fn check_host(url: &Url, raw: &str, refusals: &mut Vec<String>, warnings: &mut Vec<String>) {
    match url.host() {
        None => refusals.push("it names no host".to_owned()),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) if !is_loopback(url) => {
            warnings.push("the host is a bare address, not a name".to_owned());
        }
        Some(Host::Domain(name)) => {
            if name.split('.').any(|label| label.starts_with("xn--")) {
                warnings.push(format!(
                    "the host holds letters of other alphabets that can look like Latin ones; its real name is {name}"
                ));
            }
            let written = raw.split("//").nth(1).unwrap_or_default().to_lowercase();
            if !written.starts_with(name) && !name.contains("xn--") && !written.contains('@') {
                warnings.push(format!("written differently from what it opens: {name}"));
            }
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_wants_a_secret_is_pointed_out_and_an_ordinary_one_is_not() {
        let schema = json!({"type": "object", "properties": {
            "api_key": {"type": "string"}, "x": {"type": "string", "title": "Your password"},
            "city": {"type": "string", "description": "Where you live"}, "tokenizer": {"type": "string"},
        }});
        let reading = read_elicitation(&json!({"message": "hello", "requestedSchema": schema}));
        assert_eq!(reading.warnings.len(), 2, "{:?}", reading.warnings);
    }

    #[test]
    fn an_accepted_elicitation_carries_its_content() {
        let content = json!({"a": 1});
        assert_eq!(accepted_form(content), json!({"action": "accept", "content": {"a": 1}}));
    }

    #[test]
    fn url_mode_shows_the_address_and_refuses_what_must_not_be_opened() {
        let reading = read_elicitation(
            &json!({"mode": "url", "message": "sign in", "url": "javascript:alert(1)"}),
        );
        assert!(matches!(reading.asks, Asks::Url(url) if url.open.is_none()));
    }

    #[test]
    fn a_request_without_any_schema_is_still_shown() {
        let reading = read_elicitation(&json!({}));
        assert!(matches!(reading.asks, Asks::Form(_)));
        assert_eq!(reading.warnings.len(), 1);
    }
}

#[cfg(test)]
mod url_tests {
    use super::*;

    #[test]
    fn an_ordinary_address_may_be_opened_and_shows_its_host_apart() {
        let reading = read_url("https://auth.example.com/login?state=abc");
        assert_eq!(reading.host.as_str(), "auth.example.com");
        assert_eq!(reading.before.as_str(), "https://");
        assert_eq!(reading.after.as_str(), "/login?state=abc");
        assert_eq!(reading.open.as_deref(), Some("https://auth.example.com/login?state=abc"));
        assert!(reading.warnings.is_empty() && reading.refusals.is_empty());
    }

    #[test]
    fn what_is_no_plain_web_address_is_refused_with_a_reason() {
        for raw in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "--flag",
            "https://good.com@evil.example/",
            "https://a.example/\nHost: b",
            "https://a.example/$(touch pwned) x",
            "http://a.example/",
            "data:text/html,hi",
            "https:",
        ] {
            let reading = read_url(raw);
            assert!(!reading.refusals.is_empty(), "{raw}");
            assert_eq!(reading.open, None, "{raw}");
        }
        assert!(read_url(&format!("https://a.example/{}", "x".repeat(20_000))).open.is_none());
    }

    #[test]
    fn the_host_behind_user_information_is_the_one_that_is_shown() {
        assert_eq!(read_url("https://good.com@evil.example/x").host.as_str(), "evil.example");
    }

    #[test]
    fn look_alike_hosts_and_bare_addresses_are_pointed_out() {
        let reading = read_url("https://аpple.com/");
        assert!(reading.host.starts_with("xn--"), "{reading:?}");
        assert!(!reading.warnings.is_empty());
        assert!(!read_url("https://10.0.0.1/").warnings.is_empty());
        assert!(!read_url("https://a.example:8443/").warnings.is_empty());
        assert!(read_url("http://127.0.0.1:3000/cb").open.is_some());
    }
}
