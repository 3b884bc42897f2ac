//! Whom a grant is for, as the command line and the files spell it. Pure.

use url::Url;

use crate::call::Origin;

/// Reads the caller that a grant is for: one caller by its whole id, or `KIND:*` for all of a kind;
/// ids are compared literally.
///
/// # Errors
/// Why no caller can be called so, and what to write instead.
pub fn parse_holder(text: &str) -> Result<String, String> {
    let Some(origin) = Origin::parse(text) else {
        return Err(
            "write gateway:TOKEN, browser:https://ORIGIN, chat:SESSION or app:SERVER".into()
        );
    };
    match (&origin, origin.parts()) {
        (_, (_, Some("*"))) => Ok(text.to_owned()),
        (Origin::Browser(page), _) => parse_web_origin(page).map(|page| format!("browser:{page}")),
        (_, (kind, Some(id))) if id.contains(['*', '?', '[', '{']) => Err(format!(
            "no caller is called `{id}`: write a whole id, or {kind}:* for all of them"
        )),
        _ => Ok(text.to_owned()),
    }
}

/// Reads the origin of pages (a scheme, a host, and a port where it is not the usual one), in the
/// spelling that browsers send. `null`, which pages without an origin send, names nobody.
///
/// # Errors
/// What to write instead.
pub fn parse_web_origin(text: &str) -> Result<String, String> {
    let is_origin = |url: &Url| {
        url.host_str().is_some_and(|host| !host.is_empty() && !host.contains('*'))
            && text.matches('/').count() == 2
            && !text.contains(['@', '?', '#', '\\'])
    };
    match Url::parse(text) {
        Ok(url) if is_origin(&url) && url.origin().is_tuple() => {
            Ok(url.origin().ascii_serialization())
        }
        Ok(url) if is_origin(&url) => Ok(text.to_owned()),
        _ => Err("write an origin as browsers send it, such as https://app.example; no pattern, \
                  no path, not null"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_that_no_browser_sends_is_refused() {
        for origin in [
            "https://app.example",
            "http://localhost:3000",
            "http://[::1]:1",
            "chrome-extension://abcdefgh",
        ] {
            assert_eq!(parse_web_origin(origin).as_deref(), Ok(origin));
        }
        let written = parse_web_origin("https://App.example:443");
        assert_eq!(written.as_deref(), Ok("https://app.example"), "as browsers send it");
        for wrong in [
            "*",
            "null",
            "",
            "app.example",
            "localhost:3000",
            "https://*.c.example",
            "https://",
            "https://a.example/",
            "https://a.example/path",
            "https://a@b.example",
            "https:a.example",
            "https://a.example?q",
            "file:///a",
        ] {
            assert!(parse_web_origin(wrong).is_err(), "{wrong}");
        }
    }
}
