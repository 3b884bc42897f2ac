//! A page in a headless browser. Use with `#[path = "../support/page.rs"] mod page;`.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Message as Frame;

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page in a headless browser, controlled over its debugging protocol.
pub struct Page {
    browser: std::process::Child,
    socket: WebSocketStream<TcpStream>,
    _profile: tempfile::TempDir,
}

impl Page {
    /// Opens a URL; `None` if there is no browser.
    pub async fn open(url: &str) -> Option<Self> {
        Self::open_at(url, url).await
    }

    /// Opens a URL that leads to another one; `None` if there is no browser.
    pub async fn open_at(url: &str, landed: &str) -> Option<Self> {
        use std::io::BufRead as _;
        mcpdeck::mcp::provide_tls();
        let named = std::env::var_os("MCPDECK_CHROMIUM").unwrap_or("/usr/bin/chromium".into());
        let profile = tempfile::tempdir().unwrap();
        let mut browser = std::process::Command::new(named)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"])
            // Nothing is asked of the network but the page.
            .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .ok()?;
        let lines = std::io::BufReader::new(browser.stderr.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let line = lines.find(|line| line.contains("ws://")).expect("the browser listens");
        std::thread::spawn(move || lines.for_each(drop));
        let host = line.split("ws://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        let target = loop {
            let all = reqwest::get(format!("http://{host}/json")).await.unwrap();
            let all: Vec<Value> = all.json().await.unwrap();
            let page = all.into_iter().find(|page| page["url"].as_str() == Some(landed));
            match page {
                Some(page) => break page["webSocketDebuggerUrl"].as_str().unwrap().to_owned(),
                None => tokio::task::yield_now().await,
            }
        };
        let stream = TcpStream::connect(&host).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(target, stream).await.unwrap();
        Some(Self { browser, socket, _profile: profile })
    }

    /// Evaluates an expression.
    pub async fn run(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        self.call("Runtime.evaluate", params).await["result"]["value"].take()
    }

    /// Loads the page again. The old one still answers for a while, so it is marked.
    pub async fn reload(&mut self) {
        self.run("window.isOld = true; location.reload()").await;
        self.until("!window.isOld && document.readyState === 'complete'").await;
    }

    /// Calls a method of the protocol.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let message = json!({"id": 1, "method": method, "params": params});
        self.socket.send(Frame::Text(message.to_string().into())).await.unwrap();
        loop {
            let Frame::Text(text) = self.socket.next().await.unwrap().unwrap() else { continue };
            let mut answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == 1 {
                return answer["result"].take();
            }
        }
    }

    /// Polls until an expression is true.
    pub async fn until(&mut self, expression: &str) {
        let begun = tokio::time::Instant::now();
        while self.run(expression).await != true {
            let shown = self.run("document.body.innerText").await;
            assert!(begun.elapsed() < PATIENCE, "never: {expression}\n{shown}");
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
