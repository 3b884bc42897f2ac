//! The page of a tool as its server sends it, and what it asks the browser for.

use base64::Engine as _;
use serde_json::{Value, json};

use base::SafeText;
use protocol::APP_MEDIA_TYPE;

/// Maximum size of a page, in bytes.
const MAX_PAGE_BYTES: usize = 16 << 20;
/// Maximum number of addresses of one kind that a page may name.
const MAX_DOMAINS: usize = 64;
/// Maximum length of such an address, in bytes.
const MAX_DOMAIN_BYTES: usize = 256;

/// The addresses that a page may reach (`_meta.ui.csp`), each as the source of a Content Security
/// Policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppDomains {
    /// For requests of its scripts.
    pub connect: Vec<String>,
    /// For scripts, styles, images, fonts and media.
    pub resource: Vec<String>,
    /// For frames in it.
    pub frame: Vec<String>,
    /// For the base of its relative addresses.
    pub base: Vec<String>,
    /// Those that cannot be allowed: without a host, or no address at all.
    pub refused: Vec<SafeText>,
}

impl AppDomains {
    fn new(csp: &Value) -> Self {
        let mut refused = Vec::new();
        let mut list = |key: &str| {
            let named = csp[key].as_array().map(Vec::as_slice).unwrap_or_default();
            let named = named.iter().take(MAX_DOMAINS).filter_map(Value::as_str);
            let (good, bad): (Vec<&str>, Vec<&str>) = named.partition(|it| is_source(it));
            refused.extend(bad.into_iter().map(|it| SafeText::cut(it, MAX_DOMAIN_BYTES)));
            good.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let (connect, resource) = (list("connectDomains"), list("resourceDomains"));
        let (frame, base) = (list("frameDomains"), list("baseUriDomains"));
        Self { connect, resource, frame, base, refused }
    }

    /// Whether it reaches nothing.
    pub fn is_empty(&self) -> bool {
        self.named().next().is_none()
    }

    /// Every address once.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        let all = [&self.connect, &self.resource, &self.frame, &self.base];
        let all: Vec<&str> = all.into_iter().flatten().map(String::as_str).collect();
        let is_first = |at: usize, all: &[&str]| !all[..at].contains(&all[at]);
        let once: Vec<&str> =
            (0..all.len()).filter(|at| is_first(*at, &all)).map(|at| all[at]).collect();
        once.into_iter()
    }

    /// The policy of a page that may reach these.
    pub fn policy(&self) -> String {
        let with = |fixed: &str, more: &[String]| match (fixed, more) {
            ("", []) => "'none'".to_owned(),
            (fixed, []) => fixed.to_owned(),
            (fixed, more) => format!("{fixed} {}", more.join(" ")).trim_start().to_owned(),
        };
        let code = with("'self' 'unsafe-inline'", &self.resource);
        let media = with("'self' data: blob:", &self.resource);
        format!(
            "default-src 'none'; script-src {code}; style-src {code}; img-src {media}; \
             media-src {media}; font-src {media}; connect-src {}; frame-src {}; base-uri {}; \
             worker-src blob:; object-src 'none'; form-action 'none'; webrtc 'block'; \
             sandbox allow-scripts allow-forms",
            with("", &self.connect),
            with("", &self.frame),
            with("'self'", &self.base),
        )
    }

    /// The same as a page is told of it (`McpUiResourceCsp`).
    pub fn to_json(&self) -> Value {
        json!({
            "connectDomains": self.connect, "resourceDomains": self.resource,
            "frameDomains": self.frame, "baseUriDomains": self.base,
        })
    }
}

/// Whether a text is one address with a host: nothing that ends a directive of the policy, no scheme
/// or wildcard that stands for everything.
fn is_source(text: &str) -> bool {
    let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = authority.split_once(':').unwrap_or((authority, "*"));
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_rest =
        |c: char| is_host(c) || matches!(c, '/' | ':' | '*' | '%' | '~' | '+' | '@' | '=');
    text.len() <= MAX_DOMAIN_BYTES
        && matches!(scheme, "https" | "http" | "wss" | "ws")
        && !name.is_empty()
        && name.chars().all(is_host)
        && name.chars().any(|c| c.is_ascii_alphanumeric())
        // Without one it would be a scheme alone.
        && (port == "*" || !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()))
        && rest.chars().all(is_rest)
}

/// A page, ready to be served.
#[derive(Clone, Debug, PartialEq)]
pub struct AppDocument {
    /// Its address (`ui://`).
    pub uri: String,
    /// Its HTML.
    pub html: String,
    /// What it asks to reach.
    pub domains: AppDomains,
    /// Whether it wants a border around it.
    pub has_border: bool,
}

impl AppDocument {
    /// Reads the answer to `resources/read` of a page. `listed` is its entry in the list of resources,
    /// if it has one: what the content does not say of it is taken from there.
    ///
    /// # Errors
    /// What is wrong with the answer, as a sentence for the user.
    pub fn from_result(uri: &str, result: &Value, listed: Option<&Value>) -> Result<Self, String> {
        let contents = result["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
        let content = contents.iter().find(|one| one["uri"] == uri).or(contents.first());
        let content = content.ok_or_else(|| format!("`{uri}` has no content"))?;
        let media = content["mimeType"].as_str().unwrap_or_default();
        if !is_app(media) {
            let media = SafeText::cut(media, 80);
            return Err(format!("`{uri}` is `{media}`; the page of a tool is `{APP_MEDIA_TYPE}`"));
        }
        let html = match (content["text"].as_str(), content["blob"].as_str()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(blob)) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(blob);
                let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
                text.ok_or_else(|| format!("`blob` of `{uri}` is no text in base64"))?
            }
            (None, None) => return Err(format!("`{uri}` has neither `text` nor `blob`")),
        };
        if html.len() > MAX_PAGE_BYTES {
            let most = MAX_PAGE_BYTES >> 20;
            return Err(format!("`{uri}` is larger than {most} MiB"));
        }
        let meta = |key: &str| {
            let own = content.pointer("/_meta/ui").and_then(|meta| meta.get(key));
            own.or_else(|| listed?.pointer("/_meta/ui")?.get(key)).unwrap_or(&Value::Null)
        };
        Ok(Self {
            uri: uri.to_owned(),
            html,
            domains: AppDomains::new(meta("csp")),
            has_border: meta("prefersBorder").as_bool().unwrap_or(true),
        })
    }
}

/// Whether a media type is that of pages: HTML with the profile.
fn is_app(media: &str) -> bool {
    let mut parts = media.split(';').map(str::trim);
    let is_html = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"));
    is_html
        && parts.any(|part| part.replace(['"', ' '], "").eq_ignore_ascii_case("profile=mcp-app"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(content: &Value) -> Result<AppDocument, String> {
        AppDocument::from_result("ui://a/b", &json!({"contents": [content]}), None)
    }

    #[test]
    fn a_page_is_html_with_the_profile_as_text_or_in_base64() {
        let text =
            json!({"uri": "ui://a/b", "mimeType": "text/html; profile=\"mcp-app\"", "text": "<p>"});
        assert_eq!(page(&text).unwrap().html, "<p>");
        let blob = json!({"uri": "ui://a/b", "mimeType": APP_MEDIA_TYPE, "blob": "PHA+"});
        assert_eq!(page(&blob).unwrap().html, "<p>");
        for (wrong, why) in [
            (json!({"uri": "ui://a/b", "mimeType": "text/html", "text": ""}), "`text/html`"),
            (json!({"uri": "ui://a/b", "mimeType": APP_MEDIA_TYPE}), "neither"),
            (json!({"uri": "ui://a/b", "mimeType": APP_MEDIA_TYPE, "blob": "?"}), "base64"),
        ] {
            assert!(page(&wrong).unwrap_err().contains(why), "{wrong}");
        }
        let none = AppDocument::from_result("ui://a/b", &json!({"contents": []}), None);
        assert!(none.unwrap_err().contains("no content"));
    }

    #[test]
    fn what_the_content_does_not_say_is_taken_from_the_list() {
        let result = json!({"contents": [{"uri": "ui://a", "mimeType": APP_MEDIA_TYPE, "text": "",
            "_meta": {"ui": {"prefersBorder": false}}}]});
        let listed = json!({"_meta": {"ui": {
            "prefersBorder": true, "csp": {"connectDomains": ["https://a.example"]},
        }}});
        let page = AppDocument::from_result("ui://a", &result, Some(&listed)).unwrap();
        assert!(!page.has_border);
        assert_eq!(page.domains.connect, ["https://a.example"]);
    }

    #[test]
    fn a_page_reaches_nothing_unless_it_names_it() {
        let policy = AppDomains::default().policy();
        for part in ["default-src 'none'", "connect-src 'none'", "frame-src 'none'", "sandbox "] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("http") && !policy.contains("allow-same-origin"), "{policy}");
        let csp = json!({
            "connectDomains": ["https://a.example", "wss://b.example:8443"],
            "resourceDomains": ["https://*.cdn.example/x/", "cdn.example"],
            "frameDomains": ["https://v.example"], "baseUriDomains": ["https://a.example"],
        });
        let domains = AppDomains::new(&csp);
        let policy = domains.policy();
        for part in [
            "connect-src https://a.example wss://b.example:8443;",
            "script-src 'self' 'unsafe-inline' https://*.cdn.example/x/ cdn.example;",
            "frame-src https://v.example;",
            "base-uri 'self' https://a.example;",
        ] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert_eq!(domains.named().count(), 5);
        assert!(domains.refused.is_empty());
    }

    #[test]
    fn what_is_no_single_address_is_refused() {
        for wrong in [
            "*",
            "https:",
            "https://",
            "data:",
            "javascript:alert",
            "'unsafe-eval'",
            "https://a; script-src *",
            "a b",
            "https://*",
            "https://*.",
            "file:///etc",
            "javascript://a",
            "https://a,b",
            "",
        ] {
            let domains = AppDomains::new(&json!({"connectDomains": [wrong]}));
            assert!(domains.is_empty() && domains.refused.len() == 1, "{wrong}");
        }
    }
}
