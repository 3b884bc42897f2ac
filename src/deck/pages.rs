//! What pages share that are served to a browser: signing in (a link that works once becomes a
//! cookie that no script can read and no other site can send) and the policy for their content.
//! Text alone; the pages do the HTTP.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use base::file::random_hex;

/// Maximum number of links and of cookies; those that end first are dropped beyond it.
const MAX_SIGN_INS: usize = 1_000;
/// How long a link works.
const SIGN_IN_LINK_LIFETIME: Duration = Duration::from_secs(3_600);
/// How long a cookie works.
const SIGN_IN_COOKIE_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3_600);

/// What stands for a value, by a secret name.
type SignInTable<T> = Mutex<HashMap<String, (T, Instant)>>;

/// The links and cookies in force, each for a value of the page, such as a token.
pub struct BrowserSignIns<T> {
    links: SignInTable<T>,
    cookies: SignInTable<T>,
}

impl<T> Default for BrowserSignIns<T> {
    fn default() -> Self {
        Self { links: Mutex::default(), cookies: Mutex::default() }
    }
}

impl<T: Clone> BrowserSignIns<T> {
    /// Makes the code of a link that works once, for an hour; `None` without random numbers.
    pub fn link(&self, value: T) -> Option<String> {
        keep(&self.links, value, SIGN_IN_LINK_LIFETIME)
    }

    /// The value of a link, which does not work again.
    pub fn redeem(&self, code: &str) -> Option<T> {
        let (value, until) = self.links.lock().remove(code)?;
        (until > Instant::now()).then_some(value)
    }

    /// Makes a cookie for a value: the text of `Set-Cookie`, sent back to `path` alone and never
    /// with requests of other sites. `None` without random numbers.
    pub fn cookie(&self, name: &str, path: &str, value: T) -> Option<String> {
        let cookie = keep(&self.cookies, value, SIGN_IN_COOKIE_LIFETIME)?;
        let age = SIGN_IN_COOKIE_LIFETIME.as_secs();
        Some(format!("{name}={cookie}; Path={path}; HttpOnly; SameSite=Strict; Max-Age={age}"))
    }

    /// The cookie of this name among `Cookie` headers, if it is in force, and its value.
    pub fn signed_in<'h>(
        &self,
        name: &str,
        headers: impl Iterator<Item = &'h str>,
    ) -> Option<(String, T)> {
        let mut pairs =
            headers.flat_map(|line| line.split(';')).filter_map(|one| one.trim().split_once('='));
        let (_, cookie) = pairs.find(|(key, _)| *key == name)?;
        let cookies = self.cookies.lock();
        let (value, _) = cookies.get(cookie).filter(|(_, until)| *until > Instant::now())?;
        Some((cookie.to_owned(), value.clone()))
    }

    /// Ends a cookie.
    pub fn end(&self, cookie: &str) {
        self.cookies.lock().remove(cookie);
    }
}

fn keep<T>(all: &SignInTable<T>, value: T, lifetime: Duration) -> Option<String> {
    let (name, now) = (random_hex::<32>().ok()?, Instant::now());
    let mut all = all.lock();
    all.retain(|_, (_, until)| *until > now);
    if all.len() >= MAX_SIGN_INS {
        let first = all.iter().min_by_key(|(_, (_, until))| *until);
        if let Some(first) = first.map(|(name, _)| name.clone()) {
            all.remove(&first);
        }
    }
    all.insert(name.clone(), (value, now + lifetime));
    Some(name)
}

/// The name of the cookie of a page: browsers keep cookies by host, so it names the port of `host`.
pub fn cookie_name(page: &str, host: &str) -> String {
    let port = host.rsplit_once(':').map(|(_, port)| port).unwrap_or_default();
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    format!("mcpdeck_{page}_{}", if is_port { port } else { "80" })
}

/// The content security policy of a page with one inline script and one inline style: they alone run,
/// by their hashes, and reach nothing but the service itself. `more` are directives besides, each with
/// its semicolon and blank.
pub fn page_policy(page: &str, more: &str) -> String {
    let hash = |tag: &str| {
        let part = page
            .split_once(&format!("<{tag}>"))
            .and_then(|(_, rest)| rest.split_once(&format!("</{tag}>")).map(|(inner, _)| inner));
        BASE64_STANDARD.encode(Sha256::digest(part.unwrap_or_default()))
    };
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         {more}base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash("script"),
        hash("style")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_link_works_once_and_a_cookie_until_it_ends() {
        let all = BrowserSignIns::default();
        let code = all.link(7).expect("random numbers");
        assert_eq!((all.redeem(&code), all.redeem(&code)), (Some(7), None));
        let late = all.link(8).expect("random numbers");
        tokio::time::advance(SIGN_IN_LINK_LIFETIME).await;
        assert_eq!(all.redeem(&late), None);
        let name = cookie_name("admin", "127.0.0.1:80a");
        assert_eq!(name, "mcpdeck_admin_80");
        let line = all.cookie(&name, "/admin", 9).expect("random numbers");
        assert!(
            line.ends_with("; Path=/admin; HttpOnly; SameSite=Strict; Max-Age=604800"),
            "{line}"
        );
        let sent = format!("other=1; {}", line.split(';').next().expect("a pair"));
        let (cookie, value) = all.signed_in(&name, [sent.as_str()].into_iter()).expect("in force");
        assert_eq!(value, 9);
        assert_eq!(all.signed_in("mcpdeck_admin_81", [sent.as_str()].into_iter()), None);
        all.end(&cookie);
        assert_eq!(all.signed_in(&name, [sent.as_str()].into_iter()), None);
    }
}
