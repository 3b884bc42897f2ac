//! The redirect target: a loopback address (RFC 8252, section 7.3), `http://127.0.0.1:PORT/callback`
//! unless the entry says otherwise. The port is reused, because clients are registered with it.
//! Listens in both address families: a browser may take `localhost` for either.

use std::io;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::grant::is_code;
use super::step::AuthFailure;
use base::address::is_loopback;
use config::OAuthConfig;

/// The address that the browser is redirected to, for any port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedirectTarget {
    /// `oauth.redirectUri` as typed: authorization servers compare it letter by letter.
    typed: Option<String>,
    host: String,
    path: String,
    port: Option<u16>,
    /// Whether the entry names none.
    is_default: bool,
}

impl RedirectTarget {
    /// The target that the entry asks for, or the default one.
    ///
    /// # Errors
    /// When the address of the entry is not one of this machine.
    pub(super) fn new(config: &OAuthConfig) -> Result<Self, AuthFailure> {
        let Some(typed) = &config.redirect_uri else {
            let (host, path) = ("127.0.0.1".to_owned(), "/callback".to_owned());
            let port = config.callback_port;
            return Ok(Self { typed: None, host, path, port, is_default: true });
        };
        let url = Url::parse(typed).ok().filter(|url| url.scheme() == "http" && is_loopback(url));
        let refused = || AuthFailure::refused("`oauth.redirectUri` is no loopback address");
        let url = url.ok_or_else(refused)?;
        Ok(Self {
            typed: url.port().map(|_| typed.clone()),
            host: url.host_str().unwrap_or_default().to_owned(),
            path: url.path().to_owned(),
            port: url.port().or(config.callback_port),
            is_default: false,
        })
    }

    /// The same target by the name that some authorization servers require; `None` when the entry
    /// names one.
    pub(super) fn by_name(&self) -> Option<Self> {
        self.is_default.then(|| Self { host: "localhost".to_owned(), ..self.clone() })
    }

    /// The address with this port.
    pub(super) fn at(&self, port: u16) -> String {
        let Self { typed, host, path, .. } = self;
        typed.clone().unwrap_or_else(|| format!("http://{host}:{port}{path}"))
    }
}

/// A listener for the browser's redirect.
pub(super) struct Loopback {
    listeners: Vec<TcpListener>,
    /// Whether no other program answers for `localhost` at this port.
    has_name: bool,
    target: RedirectTarget,
    port: u16,
}

impl Loopback {
    /// Longest request read, in bytes.
    const MAX_REQUEST_BYTES: usize = 32 << 10;
    const READ_TIMEOUT: Duration = Duration::from_secs(5);
    /// Most connections served at the same time.
    const MAX_CONNECTIONS: usize = 16;
    /// Most answers to other sign-ins that the user is told of.
    const MAX_REPORTED_STRAYS: usize = 8;
    /// Range of new ports: below the ephemeral ports (from 32768 on Linux, 49152 elsewhere), so
    /// that no outgoing connection occupies it at the next sign-in.
    const PORTS: std::ops::Range<u16> = 20_000..32_768;
    const MAX_PORT_TRIES: usize = 32;
    /// How long a port that is in use is waited for. What listened there a moment ago may not have
    /// closed it yet: a sign-in that was just withdrawn, or a process that another thread starts,
    /// which holds a copy of every socket until its program is loaded.
    const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);
    /// Time between two tries of such a port.
    const RELEASE_INTERVAL: Duration = Duration::from_millis(20);

    /// Listens at the configured port, or else at the remembered one when it is free or soon
    /// becomes so, or else at a new one.
    ///
    /// # Errors
    /// When the configured port is taken; names the program that holds it.
    pub(super) async fn bind(
        target: RedirectTarget,
        remembered: Option<u16>,
    ) -> Result<Self, AuthFailure> {
        let found = if let Some(port) = target.port {
            let found = Self::listen_soon(&target, port).await;
            let found = found.and_then(|found| found.checked(&target));
            found.map_err(|error| taken(port, &error))?
        } else {
            let mut found = match remembered {
                Some(port) => Self::listen_soon(&target, port).await,
                None => Err(io::ErrorKind::AddrInUse.into()),
            };
            let new = (0..Self::MAX_PORT_TRIES).map(|_| fastrand::u16(Self::PORTS));
            // Any port will do when none of these is free.
            for port in new.chain([0]) {
                if found.as_ref().is_ok_and(|found| found.has_name) {
                    break;
                }
                found = listen(&target, port).await;
            }
            let found = found.and_then(|found| found.checked(&target));
            found.map_err(AuthFailure::failed)?
        };
        let Listeners { listeners, has_name } = found;
        let port = listeners.first().map(TcpListener::local_addr).transpose();
        let port = port.map_err(AuthFailure::failed)?.map_or(0, |address| address.port());
        Ok(Self { listeners, has_name, target, port })
    }

    /// Listens at a port; while it is in use, tries again for [`Self::RELEASE_TIMEOUT`].
    async fn listen_soon(target: &RedirectTarget, port: u16) -> io::Result<Listeners> {
        let began = tokio::time::Instant::now();
        loop {
            let found = listen(target, port).await;
            let is_in_use = match &found {
                Ok(found) => !found.has_name,
                Err(error) => error.kind() == io::ErrorKind::AddrInUse,
            };
            if !is_in_use || began.elapsed() >= Self::RELEASE_TIMEOUT {
                return found;
            }
            drop(found);
            tokio::time::sleep(Self::RELEASE_INTERVAL).await;
        }
    }

    pub(super) fn redirect_uri(&self) -> String {
        self.target.at(self.port)
    }

    /// The same address by the name of this machine, where that is another one.
    pub(super) fn by_name(&self) -> Option<String> {
        let target = self.target.by_name().filter(|_| self.has_name)?;
        Some(target.at(self.port))
    }

    /// Waits for the answer to the sign-in of `state`, and gives its address. An answer to none, or
    /// to another, is told to the browser and to `strayed`, and nothing of it is used (RFC 6749,
    /// section 10.12). Browsers open connections that they do not use, so several are served at the
    /// same time.
    pub(super) async fn callback(&self, state: &str, strayed: impl Fn(&StrayAnswer)) -> String {
        let mut open = FuturesUnordered::new();
        let mut strays = 0;
        loop {
            tokio::select! {
                accepted = self.accept(), if open.len() < Self::MAX_CONNECTIONS => match accepted {
                    Ok(stream) => open.push(self.serve(stream, state)),
                    // Out of file descriptors, which is transient.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
                served = open.next(), if !open.is_empty() => match served {
                    Some(Arrival::Answer(url)) => return url,
                    Some(Arrival::Stray(stray)) if strays < Self::MAX_REPORTED_STRAYS => {
                        strays += 1;
                        strayed(&stray);
                    }
                    Some(Arrival::Stray(_) | Arrival::Other) | None => {}
                },
            }
        }
    }

    async fn accept(&self) -> io::Result<TcpStream> {
        let accepts = self.listeners.iter().map(|listener| Box::pin(listener.accept()));
        let (accepted, ..) = futures::future::select_all(accepts).await;
        accepted.map(|(stream, _)| stream)
    }

    /// Answers one request; returns what it is.
    async fn serve(&self, mut stream: TcpStream, state: &str) -> Arrival {
        let read = tokio::time::timeout(Self::READ_TIMEOUT, head(&mut stream)).await;
        let arrival = match read.ok().flatten() {
            Some((method, target)) => self.arrival(&method, &target, state),
            None => Arrival::Other,
        };
        let (status, text) = match &arrival {
            Arrival::Answer(_) => {
                let done = "Done. You can close this page and go back to mcpdeck.";
                ("200 OK", done.to_owned())
            }
            Arrival::Stray(stray) => (stray.status(), stray.page()),
            Arrival::Other => ("404 Not Found", "mcpdeck is not waiting for this.".to_owned()),
        };
        let reply = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-length: {}\r\nreferrer-policy: no-referrer\r\n\
             x-content-type-options: nosniff\r\nconnection: close\r\n\r\n{text}",
            text.len()
        );
        let answered = async {
            stream.write_all(reply.as_bytes()).await?;
            stream.shutdown().await?;
            // What is left unread would take the page back from the browser.
            let mut rest = [0_u8; 2048];
            let mut left = Self::MAX_REQUEST_BYTES;
            while !matches!(arrival, Arrival::Answer(_)) && left > 0 {
                match stream.read(&mut rest).await? {
                    0 => break,
                    read => left = left.saturating_sub(read),
                }
            }
            io::Result::Ok(())
        };
        let _ = tokio::time::timeout(Self::READ_TIMEOUT, answered).await;
        arrival
    }

    /// What a request is.
    fn arrival(&self, method: &str, target: &str, state: &str) -> Arrival {
        let address = format!("http://127.0.0.1:{}{target}", self.port);
        let Some(url) = Url::parse(&address).ok().filter(|url| url.path() == self.target.path)
        else {
            return Arrival::Other;
        };
        let query = |name: &str| {
            let found = url.query_pairs().find(|(key, _)| key == name);
            found.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty())
        };
        let why = match (method, query("state")) {
            ("GET", Some(given)) if given == state => return Arrival::Answer(address),
            ("GET", None) => StrayReason::NoState,
            ("GET", Some(_)) => StrayReason::OtherState,
            ("POST", _) => StrayReason::Posted,
            _ => return Arrival::Other,
        };
        Arrival::Stray(StrayAnswer { why, error: query("error").filter(|code| is_code(code)) })
    }
}

/// A request to the listener.
enum Arrival {
    /// The answer to this sign-in: its address.
    Answer(String),
    /// An answer to none, or to another.
    Stray(StrayAnswer),
    /// Something else, such as the icon of a page.
    Other,
}

/// What came to the redirect address instead of the answer to this sign-in.
pub(super) struct StrayAnswer {
    why: StrayReason,
    /// The error code that it names.
    error: Option<String>,
}

/// Why an answer does not belong to this sign-in.
#[derive(Clone, Copy)]
enum StrayReason {
    NoState,
    OtherState,
    Posted,
}

impl StrayAnswer {
    /// The status of its page.
    fn status(&self) -> &'static str {
        match self.why {
            StrayReason::NoState | StrayReason::OtherState => "400 Bad Request",
            StrayReason::Posted => "405 Method Not Allowed\r\nallow: GET",
        }
    }

    /// The status as a number.
    pub(super) fn status_code(&self) -> Option<u16> {
        self.status().get(..3)?.parse().ok()
    }

    /// What the browser shows.
    fn page(&self) -> String {
        format!(
            "This is not the answer that mcpdeck waits for: {}.\n\nNothing of it was used, and \
             nobody was signed in. mcpdeck still waits: go back to the page it has opened and \
             sign in there, or press Ctrl-C in mcpdeck and begin anew.\n",
            self.reason()
        )
    }

    fn reason(&self) -> String {
        let why = match self.why {
            StrayReason::NoState => "its address holds no `state`",
            StrayReason::OtherState => "its `state` is that of another sign-in",
            StrayReason::Posted => "it came by POST, and answers are addresses",
        };
        let error = self.error.as_ref().map(|code| format!("; it names the error `{code}`"));
        format!("{why}{}", error.unwrap_or_default())
    }
}

impl std::fmt::Display for StrayAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = self.reason();
        write!(f, "an answer was not used: {why}; still waiting for the one to this sign-in")
    }
}

/// The listeners of one port.
struct Listeners {
    listeners: Vec<TcpListener>,
    has_name: bool,
}

impl Listeners {
    /// Refuses a port of which another program could answer for the target's name.
    fn checked(self, target: &RedirectTarget) -> io::Result<Self> {
        let is_shared = target.host == "localhost" && !self.has_name;
        if is_shared { Err(io::ErrorKind::AddrInUse.into()) } else { Ok(self) }
    }
}

/// Listens at a port in both address families; one that this machine does not have is not missed.
async fn listen(target: &RedirectTarget, port: u16) -> io::Result<Listeners> {
    let first = TcpListener::bind(("127.0.0.1", port)).await;
    let port = match &first {
        Ok(listener) => listener.local_addr()?.port(),
        Err(_) => port,
    };
    let second = TcpListener::bind(("::1", port)).await;
    let (needed, other) = if target.host == "[::1]" { (second, first) } else { (first, second) };
    let is_taken = other.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse);
    let listeners = std::iter::once(needed?).chain(other.ok()).collect();
    Ok(Listeners { listeners, has_name: !is_taken })
}

/// The method and target of a request, once its head is complete.
async fn head(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut head = Vec::new();
    let mut piece = [0_u8; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&piece[..read]);
        if head.len() > Loopback::MAX_REQUEST_BYTES {
            return None;
        }
    }
    // What follows the head of a POST need not be text.
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ').map(str::to_owned);
    words.next().zip(words.next())
}

fn taken(port: u16, error: &io::Error) -> AuthFailure {
    let holder = holder(port).map(|who| format!(" by {who}")).unwrap_or_default();
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => format!("is in use{holder}"),
        _ => format!("cannot be opened: {error}"),
    };
    AuthFailure::refused(format!(
        "port {port} of `oauth` {what}; stop that program, or register another port"
    ))
}

/// The program that listens on a port of this machine, where the system reports it.
fn holder(port: u16) -> Option<String> {
    const LISTENS: &str = "0A";
    let table = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect::<String>();
    let end = format!(":{port:04X}");
    let inode = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let here = fields.get(1)?.ends_with(&end) && *fields.get(3)? == LISTENS;
        here.then(|| fields.get(9).copied()).flatten()
    })?;
    let socket = format!("socket:[{inode}]");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbered = processes.filter(|e| e.file_name().to_string_lossy().parse::<u32>().is_ok());
    for process in numbered {
        let files = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let holds = files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|link| link.to_string_lossy() == socket);
        if holds {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let pid = process.file_name().to_string_lossy().into_owned();
            return Some(format!("`{}` (pid {pid})", name.trim()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(redirect_uri: Option<&str>, callback_port: Option<u16>) -> RedirectTarget {
        let redirect_uri = redirect_uri.map(str::to_owned);
        let config = OAuthConfig { redirect_uri, callback_port, ..OAuthConfig::default() };
        RedirectTarget::new(&config).expect("a loopback address")
    }

    #[test]
    fn the_address_is_sent_as_the_entry_spells_it() {
        for (typed, port, sent) in [
            (None, None, "http://127.0.0.1:7/callback"),
            (Some("http://localhost/cb"), None, "http://localhost:7/cb"),
            (Some("http://localhost"), Some(9), "http://localhost:7/"),
            (Some("http://LOCALHOST:3118"), None, "http://LOCALHOST:3118"),
            (Some("http://[::1]/a/b"), None, "http://[::1]:7/a/b"),
        ] {
            assert_eq!(target(typed, port).at(7), sent, "{typed:?}");
        }
        assert_eq!(target(Some("http://localhost"), Some(9)).port, Some(9));
        assert_eq!(target(Some("http://localhost:3118/x"), None).port, Some(3118));
        assert_eq!(target(Some("http://127.0.0.1/x"), None).by_name(), None);
        let by_name = target(None, None).by_name().expect("another name");
        assert_eq!(by_name.at(7), "http://localhost:7/callback");
    }

    /// A listener of one address family at a free port below the ephemeral ones.
    fn occupy(host: &str) -> (std::net::TcpListener, u16) {
        let ports = std::iter::repeat_with(|| fastrand::u16(Loopback::PORTS)).take(1000);
        let mut open = ports.filter_map(|port| {
            let listener = std::net::TcpListener::bind((host, port)).ok()?;
            Some((listener, port))
        });
        open.next().expect("one of a thousand ports is free")
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_that_is_just_being_closed_is_waited_for() {
        for (remembered, configured) in [(true, false), (false, true)] {
            let (held, port) = occupy("127.0.0.1");
            let listening = Loopback::bind(
                target(None, configured.then_some(port)),
                remembered.then_some(port),
            );
            let closing = async {
                tokio::time::sleep(Loopback::RELEASE_TIMEOUT / 2).await;
                drop(held);
            };
            let (loopback, ()) = tokio::join!(listening, closing);
            assert_eq!(loopback.expect("it is free").port, port, "remembered: {remembered}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_that_stays_in_use_is_replaced_or_refused() {
        let (held, port) = occupy("127.0.0.1");
        let loopback = Loopback::bind(target(None, None), Some(port)).await.expect("another");
        assert_ne!(loopback.port, port);
        let refused = Loopback::bind(target(None, Some(port)), None).await;
        let why = refused.err().expect("it is in use").to_string();
        assert!(why.contains(&format!("port {port} of `oauth` is in use")), "{why}");
        drop(held);
    }

    #[test]
    fn another_machine_gets_no_code() {
        for typed in ["https://localhost/cb", "http://a.example/cb", "http://localhost.evil/", "x"]
        {
            let redirect_uri = Some(typed.to_owned());
            let config = OAuthConfig { redirect_uri, ..OAuthConfig::default() };
            assert!(RedirectTarget::new(&config).is_err(), "{typed}");
        }
    }
}
