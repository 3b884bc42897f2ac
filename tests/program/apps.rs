//! Apps: the page of a tool in a browser, in its sandbox, with the host's side of its protocol.

use std::io::BufRead as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use axum::http::header;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::page::Page;
use crate::support::Bench;

const PATIENCE: Duration = Duration::from_secs(60);

/// A page that speaks the protocol without a library. What it finds out it logs as one JSON text.
const PAGE: &str = r#"<!doctype html><html><body><p id="said">nothing</p><script>
let last = 0;
const open = {}, told = {};
const post = (message) => parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
const ask = (method, params) => new Promise((done) => {
  last += 1;
  open[last] = done;
  post({ id: last, method, params });
});
const attempt = (act) => { try { return String(act()); } catch (error) { return error.name; } };
const reach = (url) => fetch(url).then((answer) => answer.text(), (error) => error.name);
addEventListener('message', async ({ data }) => {
  if (data.method === 'ui/resource-teardown') return post({ id: data.id, result: {} });
  if (data.method) {
    told[data.method.split('/').pop()] = data.params;
    if (data.method !== 'ui/notifications/tool-result') return;
    const found = {
      told,
      ready,
      parent: attempt(() => parent.document.title),
      top: attempt(() => top.document.title),
      cookie: attempt(() => document.cookie),
      storage: attempt(() => localStorage.length),
      origin: self.origin,
      reached: await reach('REACH'),
      read: await ask('resources/read', { uri: 'note://one' }),
      refreshed: await ask('tools/call', { name: 'refresh', arguments: { of: 1 } }),
      hidden: await ask('tools/call', { name: 'secret', arguments: {} }),
      absent: await ask('tools/call', { name: 'other.tool' }),
      script: await ask('ui/open-link', { url: 'javascript:alert(1)' }),
      full: await ask('ui/request-display-mode', { mode: 'fullscreen' }),
      pip: await ask('ui/request-display-mode', { mode: 'pip' }),
      spoken: await ask('ui/message', { role: 'user', content: [] }),
      unknown: await ask('sampling/createMessage', {}),
    };
    post({ method: 'ui/notifications/size-changed', params: { width: 300, height: 123 } });
    post({ method: 'notifications/message', params: { level: 'info', data: JSON.stringify(found) } });
    const changed = await ask('tools/call', { name: 'change', arguments: { to: 'red' } });
    post({ method: 'notifications/message', params: { level: 'info', data: JSON.stringify({ changed }) } });
    const link = await ask('ui/open-link', { url: 'https://example.org/x' });
    post({ method: 'notifications/message', params: { level: 'info', data: JSON.stringify({ link }) } });
    return;
  }
  open[data.id]?.(data.error ? { error: data.error } : data.result);
});
let ready;
(async () => {
  ready = await ask('ui/initialize', { appInfo: { name: 'test', version: '1' },
    appCapabilities: { availableDisplayModes: ['inline', 'fullscreen'] }, protocolVersion: '2026-01-26' });
  post({ method: 'ui/notifications/initialized', params: {} });
})();
</script></body></html>"#;

/// A server with an app that tries to reach an address; `domains` are those it names.
fn script(reach: &str, domains: &Value) -> Value {
    let tool = |name: &str, more: Value| {
        let mut tool = json!({"name": name, "inputSchema": {"type": "object"}});
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool
    };
    let only_app = json!({"ui": {"visibility": ["app"]}});
    json!({
        "tools": [
            tool("show", json!({"_meta": {"ui": {"resourceUri": "ui://board/main"}}})),
            tool("refresh", json!({"_meta": only_app, "annotations": {"readOnlyHint": true}})),
            tool("change", json!({"_meta": only_app})),
            tool("secret", json!({"_meta": {"ui": {"visibility": ["model"]}}})),
            tool("plain", json!({})),
        ],
        "resources": [{"uri": "note://one", "name": "one"}],
        "reads": {
            "note://one": {"answer": {"contents": [{"uri": "note://one", "text": "a note"}]}},
            "ui://board/main": {"answer": {"contents": [{
                "uri": "ui://board/main",
                "mimeType": "text/html;profile=mcp-app",
                "text": PAGE.replace("REACH", reach).replace("${", "$${"),
                "_meta": {"ui": {"csp": {"connectDomains": domains}}},
            }]}},
        },
        "calls": {
            "show": {"answer": {
                "content": [{"type": "text", "text": "42 sold"}],
                "structuredContent": {"sold": 42}, "_meta": {"x": 1},
            }},
            "refresh": {"text": "fresh ${arguments.of}"},
            "change": {"text": "now ${arguments.to}"},
            "secret": {"text": "for models"},
            "plain": {"text": "plain"},
        },
    })
}

/// `mcpdeck app`, what it says of the page, and what the page logs.
struct Shown {
    child: Child,
    said: Value,
    logs: mpsc::Receiver<Value>,
}

impl Shown {
    fn new(bench: &Bench, args: &[&str]) -> Self {
        Self::with(bench, args, &[])
    }

    /// The same with variables of the environment.
    fn with(bench: &Bench, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let args = [&["app"], args, &["--no-browser", "--json"]].concat();
        let mut command = bench.command(&args);
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        let said = serde_json::from_str(&line).expect("one JSON object");
        let (sender, logs) = mpsc::channel(1_000);
        let lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let text = line.split_once("the app: ").map(|(_, text)| text);
                if let Some(logged) = text.and_then(|text| serde_json::from_str(text).ok()) {
                    let _ = sender.blocking_send(logged);
                }
            }
        });
        Self { child, said, logs }
    }

    /// What the page logs next.
    async fn logged(&mut self) -> Value {
        let logged = tokio::time::timeout(PATIENCE, self.logs.recv()).await;
        logged.expect("the page logs").expect("the page lives")
    }

    fn url(&self) -> &str {
        self.said["url"].as_str().unwrap()
    }

    /// Where the browser ends.
    fn landed(&self) -> String {
        format!("{}/", self.url().split("/open").next().unwrap())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that everybody may read, for pages that reach it.
async fn reachable() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = async || ([(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")], "reached");
    let routes = axum::Router::new().route("/", axum::routing::get(answer));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_runs_in_its_sandbox_and_calls_through_the_policy() {
    let reach = reachable().await;
    let bench = Bench::playing(&[("board", script(&reach, &json!([])))]);
    let mut shown = Shown::new(&bench, &["board.show", "year=2026"]);
    assert_eq!(shown.said["uri"], "ui://board/main");
    assert_eq!(shown.said["asksToReach"], json!([]));
    let Some(mut page) = Page::open_at(shown.url(), &shown.landed()).await else { return };
    let found = shown.logged().await;

    let ready = &found["ready"];
    assert_eq!(ready["protocolVersion"], "2026-01-26");
    assert_eq!(ready["hostInfo"]["name"], "mcpdeck");
    assert_eq!(ready["hostCapabilities"]["serverTools"], json!({}));
    let context = &ready["hostContext"];
    assert_eq!(context["toolInfo"]["tool"]["name"], "show");
    assert_eq!((&context["theme"], &context["displayMode"]), (&json!("light"), &json!("inline")));
    assert!(context["containerDimensions"]["width"].as_f64().unwrap() > 100.0, "{context}");
    assert_eq!(found["told"]["tool-input"], json!({"arguments": {"year": 2026}}));
    let result = &found["told"]["tool-result"];
    assert_eq!(result["structuredContent"], json!({"sold": 42}));
    assert_eq!(result["_meta"]["x"], 1, "the result is as it was sent: {result}");

    for place in ["parent", "top", "cookie", "storage"] {
        assert_eq!(found[place], "SecurityError", "{place}");
    }
    assert_eq!(found["origin"], "null");
    assert_eq!(found["reached"], "TypeError", "it named no address");

    assert_eq!(found["read"]["contents"][0]["text"], "a note");
    assert_eq!(found["refreshed"]["content"][0]["text"], "fresh 1");
    let refused = |key: &str| found[key]["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(refused("hidden"), "`secret` is not for apps");
    assert_eq!(refused("absent"), "there is no tool `other.tool`");
    assert_eq!(refused("script"), "`url` is an address of the web");
    assert_eq!(refused("spoken"), "there is no conversation here");
    assert_eq!(found["unknown"]["error"]["code"], -32601);
    assert_eq!(found["full"], json!({"mode": "fullscreen"}));
    assert_eq!(found["pip"], json!({"mode": "fullscreen"}), "what it did not declare is not shown");
    assert_eq!(page.run("document.body.className").await, "full");

    // A tool that may change something is asked about.
    page.until("document.querySelector('.ask pre')?.textContent.includes('red')").await;
    let asked = page.run("document.querySelector('.ask').innerText").await.to_string();
    for part in ["board.change", "not annotated as read-only", "Once", "For this session", "No"] {
        assert!(asked.contains(part), "{asked}");
    }
    page.run("document.querySelector('.ask button').click()").await;
    let changed = shown.logged().await;
    assert_eq!(changed["changed"]["content"][0]["text"], "now red");
    // A link is opened by the user alone.
    page.until("document.querySelector('.ask pre')?.textContent === 'https://example.org/x'").await;
    page.run("document.querySelectorAll('.ask button')[1].click()").await;
    let link = shown.logged().await;
    assert_eq!(link["link"]["error"]["message"], "the user did not open it");

    // The address worked once; nobody else gets the page.
    let again = reqwest::get(shown.url()).await.unwrap();
    assert_eq!(again.status(), 403);
    assert_eq!(reqwest::get(shown.landed()).await.unwrap().status(), 403);
    let http = reqwest::Client::new();
    let by_name = http.get(shown.landed()).header("host", "evil.example").send().await.unwrap();
    assert_eq!(by_name.status(), 421);
    drop(page);
    let ended = tokio::task::spawn_blocking(move || shown.child.wait().map(|exit| exit.code()));
    let ended = tokio::time::timeout(PATIENCE, ended).await.expect("it ends with its page");
    assert_eq!(ended.unwrap().unwrap(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_reaches_what_it_names_and_the_user_allows() {
    let reach = reachable().await;
    let named = json!([reach, "https://*", "*"]);
    for (button, reached) in [("Open without", "TypeError"), ("Allow", "reached")] {
        let bench = Bench::playing(&[("board", script(&reach, &named))]);
        let mut shown = Shown::new(&bench, &["show"]);
        assert_eq!(shown.said["asksToReach"], json!([reach]));
        assert_eq!(shown.said["refused"], json!(["https://*", "*"]));
        let Some(mut page) = Page::open_at(shown.url(), &shown.landed()).await else { return };
        page.until(&format!("document.querySelector('.ask pre')?.textContent === '{reach}'")).await;
        let frame = page.run("document.getElementById('app').src").await;
        assert_eq!(frame, "", "nothing is loaded before the answer");
        let click = format!(
            "[...document.querySelectorAll('.ask button')].find((it) => it.textContent === \
             '{button}').click()"
        );
        page.run(&click).await;
        let found = shown.logged().await;
        assert_eq!(found["reached"], reached, "{button}");
        let told = &found["ready"]["hostCapabilities"]["sandbox"]["csp"]["connectDomains"];
        let expected = if button == "Allow" { json!([reach]) } else { json!([]) };
        assert_eq!(*told, expected);
    }
}

/// A page that calls one tool, and logs what comes of it.
const CALLER: &str = r"<!doctype html><html><body><script>
let last = 0;
const open = {};
const post = (message) => parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
const ask = (method, params) => new Promise((done) => {
  last += 1;
  open[last] = done;
  post({ id: last, method, params });
});
addEventListener('message', ({ data }) => open[data.id]?.(data.error ? { error: data.error } : data.result));
(async () => {
  await ask('ui/initialize', { appInfo: { name: 'test', version: '1' }, appCapabilities: {}, protocolVersion: '2026-01-26' });
  post({ method: 'ui/notifications/initialized', params: {} });
  const called = await ask('tools/call', { name: 'order', arguments: {} });
  post({ method: 'notifications/message', params: { level: 'info', data: JSON.stringify(called) } });
})();
</script></body></html>";

/// A server whose page calls the tool `order`, which is played so.
fn ordering(order: &Value) -> Value {
    let mut script = script("", &json!([]));
    script["reads"]["ui://board/main"]["answer"]["contents"][0]["text"] =
        json!(CALLER.replace("${", "$${"));
    script["calls"]["order"] = order.clone();
    let tools = script["tools"].as_array_mut().unwrap();
    tools.push(json!({
        "name": "order", "inputSchema": {"type": "object"},
        "_meta": {"ui": {"visibility": ["app"]}}, "annotations": {"readOnlyHint": true},
    }));
    script
}

/// Clicks the button with this text.
fn click(text: &str) -> String {
    let all = "[...document.querySelectorAll('.ask button')]";
    format!("{all}.find((it) => it.textContent === '{text}').click()")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_asks_during_a_call_of_a_page_is_asked_around_it() {
    let form = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 3, "title": "How large"},
        "colour": {"enum": ["red", "blue"]},
    }});
    let ask = |method: &str, save: &str, params: Value| json!({"ask": {"method": method, "as": save, "params": params}});
    let url = json!({"mode": "url", "message": "Pay.", "elicitationId": "1",
        "url": "https://good.example@evil.example/"});
    let words = json!({"maxTokens": 9, "messages":
        [{"role": "user", "content": {"type": "text", "text": "Name it."}}]});
    let told = "${saved.form.result.content.size} ${saved.form.result.content.colour}, \
                ${saved.visit.result.action}, ${saved.words.result.content.text}";
    let script = ordering(&json!([
        ask("elicitation/create", "form", json!({"message": "Which?", "requestedSchema": form})),
        ask("elicitation/create", "visit", url),
        ask("sampling/createMessage", "words", words),
        {"text": told},
    ]));
    let bench = Bench::playing(&[("board", script)]);
    let mut shown = Shown::new(&bench, &["show"]);
    let Some(mut page) = Page::open_at(shown.url(), &shown.landed()).await else { return };
    page.until("document.querySelectorAll('.ask label').length === 2").await;
    let asked = page.run("document.querySelector('.ask').innerText").await.to_string();
    for part in ["Server “board” asks during order", "Which?", "How large *", "Cancel"] {
        assert!(asked.contains(part), "{asked}");
    }
    // What does not fit is told beside the fields, which stay.
    page.run("document.querySelector('.ask input').value = '2'").await;
    page.run(&click("Send")).await;
    page.until("document.querySelector('.wrong').textContent.includes('does not fit')").await;
    page.run("document.querySelector('.ask input').value = '7'").await;
    page.run("document.querySelector('.ask select').selectedIndex = 2").await;
    page.run(&click("Send")).await;
    // An address that must not be opened has no button for it.
    page.until("document.querySelector('.ask')?.innerText.includes('Pay.')").await;
    let buttons = page.run("document.querySelector('.ask').innerText").await.to_string();
    assert!(buttons.contains("not an address") && !buttons.contains("Open the page"), "{buttons}");
    page.run(&click("Decline")).await;
    page.until("document.querySelector('.ask')?.innerText.includes('Name it.')").await;
    page.run("document.querySelector('.ask textarea').value = 'Ada'").await;
    page.run(&click("Send")).await;
    let called = shown.logged().await;
    assert_eq!(called["content"][0]["text"], "7 blue, decline, Ada");
    page.until("document.querySelectorAll('.ask').length === 0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_asks_during_the_call_itself_is_asked_on_its_page_too() {
    let mut script = ordering(&json!({"text": "ordered"}));
    let form = json!({"type": "object", "properties": {"year": {"type": "integer"}}});
    script["calls"]["show"] = json!([
        {"ask": {"method": "elicitation/create", "as": "form",
            "params": {"message": "Which year?", "requestedSchema": form}}},
        {"text": "${saved.form.result.content.year}"},
    ]);
    script["reads"]["ui://board/main"]["answer"]["contents"][0]["text"] = json!(
        CALLER
            .replace(
                "const called = await ask('tools/call', { name: 'order', arguments: {} });",
                ""
            )
            .replace(
                "({ data }) =>",
                "({ data }) => data.method?.endsWith('tool-result') ? \
                post({ method: 'notifications/message', params: { level: 'info', \
                data: JSON.stringify(data.params) } }) :"
            )
            .replace("data: JSON.stringify(called)", "data: 'null'")
            .replace("${", "$${")
    );
    let bench = Bench::playing(&[("board", script)]);
    let mut shown = Shown::new(&bench, &["show"]);
    let Some(mut page) = Page::open_at(shown.url(), &shown.landed()).await else { return };
    let is_asked = "document.querySelector('.ask')?.innerText.includes('Which year?')";
    page.until(is_asked).await;
    // Loaded again, it is asked again.
    page.reload().await;
    page.until(is_asked).await;
    page.run("document.querySelector('.ask input').value = '2027'").await;
    page.run(&click("Send")).await;
    let mut told = shown.logged().await;
    while told.is_null() {
        told = shown.logged().await;
    }
    assert_eq!(told["content"][0]["text"], "2027");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_a_page_belong_to_the_trace_of_its_program() {
    let script = ordering(&json!({"text": "${params._meta.traceparent:-none}"}));
    let bench = Bench::playing(&[("board", script)]);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut shown = Shown::with(&bench, &["show"], &[("TRACEPARENT", trace)]);
    let Some(_page) = Page::open_at(shown.url(), &shown.landed()).await else { return };
    assert_eq!(shown.logged().await["content"][0]["text"], trace);
}

#[test]
fn lists_mark_apps_and_a_tool_without_one_is_refused() {
    let bench = Bench::playing(&[("board", script("", &json!([])))]);
    let listed = bench.run(&["list", "--long"], PATIENCE);
    assert!(listed.stdout.contains("app: ui://board/main"), "{}", listed.stdout);
    assert!(
        listed.stdout.contains("for apps only: models are not offered it"),
        "{}",
        listed.stdout
    );
    let refused = bench.run(&["app", "plain", "--no-browser"], PATIENCE);
    assert!(refused.stderr.contains("the tool `plain` has no app"), "{}", refused.stderr);
    assert_eq!(refused.code, Some(2));
    // The data of the tool is shown at the terminal as ever, and its page is read like any resource.
    let called = bench.run(&["call", "show"], PATIENCE);
    assert!(called.stdout.contains("42 sold"), "{}", called.stdout);
    let read = bench.run(&["read", "ui://board/main"], PATIENCE);
    assert!(read.stdout.contains("<!doctype html>"), "{} {}", read.stdout, read.stderr);
}

/// A session of a client at the gateway, by plain requests.
#[cfg(feature = "gateway")]
struct GatewaySession {
    http: reqwest::Client,
    url: String,
    token: String,
    id: Option<String>,
}

#[cfg(feature = "gateway")]
impl GatewaySession {
    async fn send(&mut self, message: Value) -> Value {
        let mut request = self
            .http
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .json(&message);
        if let Some(id) = &self.id {
            request = request.header("mcp-session-id", id);
        }
        let answer = request.send().await.unwrap();
        if let Some(id) = answer.headers().get("mcp-session-id") {
            self.id = Some(id.to_str().unwrap().to_owned());
        }
        let text = answer.text().await.unwrap();
        let mut data = text.lines().rev().filter_map(|line| line.strip_prefix("data:"));
        let data = data.find(|data| !data.trim().is_empty()).unwrap_or(&text);
        serde_json::from_str(data).unwrap_or_default()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self.send(message).await;
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }
}

#[cfg(feature = "gateway")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_passes_apps_on_to_clients_that_show_them() {
    mcpdeck::mcp::provide_tls();
    let none = json!([]);
    let mut second = script("", &none);
    second["reads"]["ui://board/main"]["answer"]["contents"][0]["text"] = json!("<p>second</p>");
    let bench = Bench::playing(&[("first", script("", &none)), ("second", second)]);
    let mut serve = bench.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut serve = Shutdown(serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    std::io::BufReader::new(serve.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let token = std::fs::read_to_string(said["tokenFile"].as_str().unwrap()).unwrap();
    let session = async |extensions: Value| {
        let mut session = GatewaySession {
            http: reqwest::Client::new(),
            url: said["mcp"].as_str().unwrap().to_owned(),
            token: token.trim().to_owned(),
            id: None,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25", "clientInfo": {"name": "host", "version": "1"},
            "capabilities": {"extensions": extensions},
        });
        // It is declared once a server that has apps is ready.
        let begun = std::time::Instant::now();
        loop {
            session.id = None;
            let answer = session.ask("initialize", hello.clone()).await;
            if answer["capabilities"]["extensions"].get("io.modelcontextprotocol/ui").is_some() {
                break;
            }
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{answer}");
        }
        session.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        session
    };
    let apps = json!({"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}});
    let mut host = session(apps).await;
    let tools = host.ask("tools/list", json!({})).await["tools"].clone();
    let of = |tools: &Value, name: &str| {
        let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name);
        tool.map(|tool| tool["_meta"].clone())
    };
    assert_eq!(of(&tools, "first__show").unwrap()["ui"]["resourceUri"], "ui://board/main");
    assert_eq!(of(&tools, "first__refresh").unwrap()["ui"]["visibility"], json!(["app"]));
    // A page by the same address of another server has one of its own.
    let other = of(&tools, "second__show").unwrap()["ui"]["resourceUri"].clone();
    assert_eq!(other, "ui://mcpdeck/second/board/main");
    let page = host.ask("resources/read", json!({"uri": "ui://board/main"})).await;
    let content = &page["contents"][0];
    assert_eq!(content["mimeType"], "text/html;profile=mcp-app");
    assert!(content["text"].as_str().unwrap().starts_with("<!doctype html>"));
    assert!(content["_meta"]["ui"]["csp"].is_object(), "it comes as it was sent");
    let page = host.ask("resources/read", json!({"uri": other})).await;
    assert_eq!(page["contents"][0]["text"], "<p>second</p>");
    assert_eq!(page["contents"][0]["uri"], other);
    let called = json!({"name": "first__show", "arguments": {}});
    let called = host.ask("tools/call", called).await;
    assert_eq!(
        (&called["structuredContent"]["sold"], &called["_meta"]["x"]),
        (&json!(42), &json!(1))
    );
    let refreshed = json!({"name": "first__refresh", "arguments": {"of": 2}});
    let refreshed = host.ask("tools/call", refreshed).await;
    assert_eq!(refreshed["content"][0]["text"], "fresh 2");

    // Where no apps are shown, the tools that only they call are of no use.
    let mut plain = session(json!({})).await;
    let tools = plain.ask("tools/list", json!({})).await["tools"].clone();
    assert!(of(&tools, "first__show").is_some() && of(&tools, "first__refresh").is_none());
}

/// Ends a process with the test.
#[cfg(feature = "gateway")]
struct Shutdown(Child);

#[cfg(feature = "gateway")]
impl Drop for Shutdown {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(feature = "chat")]
#[test]
fn a_model_is_not_offered_the_tools_of_apps() {
    let bench = Bench::playing(&[("board", script("", &json!([])))]);
    let ask = |tool: &str| {
        let args = ["chat", "--provider", "embedded", "--allow-all", "-p", tool];
        bench.run(&args, PATIENCE)
    };
    assert!(ask("show").stdout.contains("42 sold"));
    let refused = ask("call refresh {}");
    assert!(refused.stdout.contains("there is no tool `refresh`"), "{refused:?}");
}
