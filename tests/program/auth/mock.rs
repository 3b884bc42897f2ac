//! An MCP server that wants a token, and its authorization server, on one loopback port. Every answer
//! that a test bends is a field of [`World`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use mcpdeck::mcp::{ClientAuth, ClientOrigin, StoredClient, StoredToken};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the servers do, and what was asked of them.
#[derive(Debug, Default)]
pub struct World {
    pub base: String,
    /// Every request: verb and path.
    pub seen: Vec<String>,
    /// Fields of the metadata that differ.
    pub metadata: HashMap<&'static str, Value>,
    /// What the challenge names instead of the real resource metadata.
    pub resource_metadata: Option<String>,
    /// `iss` of the callback; none when null.
    pub iss: Option<Value>,
    /// The good access and refresh token.
    pub access: String,
    pub refresh: String,
    /// Tokens issued so far.
    pub issued: u32,
    /// Calls need a scope nobody ever gets.
    pub insatiable: bool,
    /// What happens before a refresh is answered with `invalid_grant`.
    pub refuse_refresh: Option<fn(&World)>,
    /// Folder of the tokens, for `refuse_refresh`.
    pub folder: Option<std::path::PathBuf>,
}

/// The running servers.
#[derive(Clone)]
pub struct Mock(pub Arc<Mutex<World>>);

impl Mock {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let world = World { base, ..World::default() };
        let mock = Self(Arc::new(Mutex::new(world)));
        let serving = mock.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().answer(stream));
            }
        });
        mock
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub fn url(&self) -> String {
        format!("{}/mcp", self.world().base)
    }

    /// How often something was asked for.
    pub fn count(&self, what: &str) -> usize {
        self.world().seen.iter().filter(|seen| seen.starts_with(what)).count()
    }

    /// The token that is good now, as it is kept, with so many seconds since it was issued.
    pub fn token(&self, age: u64) -> StoredToken {
        let mut world = self.world();
        (world.access, world.refresh) = ("access-0-good".into(), "refresh-0-good".into());
        world.stored(age)
    }

    async fn answer(self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        stream.read_line(&mut head).await.ok()?;
        let mut words = head.split(' ');
        let (verb, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (mut bearer, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "authorization" => bearer = value.strip_prefix("Bearer ").unwrap_or("").to_owned(),
                "content-length" => length = value.parse().ok()?,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let body = String::from_utf8(body).ok()?;
        let reply = self.world().reply(&verb, &target, &bearer, &body);
        stream.write_all(reply.as_bytes()).await.ok()?;
        stream.shutdown().await.ok()
    }
}

impl World {
    pub fn stored(&self, age: u64) -> StoredToken {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let client = StoredClient {
            issuer: self.base.clone(),
            id: "registered".into(),
            secret: None,
            auth: ClientAuth::None,
            redirect_uri: "http://127.0.0.1:1/callback".into(),
            origin: ClientOrigin::Registered,
        };
        StoredToken {
            issuer: self.base.clone(),
            resource: format!("{}/mcp", self.base),
            client,
            token_endpoint: format!("{}/token", self.base),
            revocation_endpoint: Some(format!("{}/revoke", self.base)),
            access_token: self.access.clone(),
            refresh_token: Some(self.refresh.clone()),
            obtained_at: now.as_secs() - age,
            expires_in: Some(3600),
            scopes: vec!["read".into()],
        }
    }

    fn reply(&mut self, verb: &str, target: &str, bearer: &str, body: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.seen.push(format!("{verb} {path} {body}"));
        let form = |text: &str| -> HashMap<String, String> {
            url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
        };
        match path {
            "/mcp" => self.mcp(verb, bearer, body),
            "/.well-known/oauth-protected-resource/mcp" => ok(&json!({
                "resource": format!("{}/mcp", self.base),
                "authorization_servers": [self.base],
                "scopes_supported": ["read"],
            })),
            "/.well-known/oauth-authorization-server" => {
                let base = &self.base;
                let mut metadata = json!({
                    "issuer": base,
                    "authorization_endpoint": format!("{base}/authorize"),
                    "token_endpoint": format!("{base}/token"),
                    "registration_endpoint": format!("{base}/register"),
                    "revocation_endpoint": format!("{base}/revoke"),
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                });
                for (key, value) in &self.metadata {
                    metadata[*key] = value.clone();
                }
                ok(&metadata)
            }
            "/register" => {
                let asked: Value = serde_json::from_str(body).unwrap_or_default();
                ok(&json!({"client_id": "registered", "redirect_uris": asked["redirect_uris"]}))
            }
            "/authorize" => {
                let asked = form(query);
                let mut back = url::Url::parse(&asked["redirect_uri"]).unwrap();
                back.query_pairs_mut().append_pair("state", &asked["state"]);
                let iss = self.iss.clone().unwrap_or_else(|| json!(self.base));
                if let Some(iss) = iss.as_str() {
                    back.query_pairs_mut().append_pair("iss", iss);
                }
                let evil = iss != json!(self.base) && !iss.is_null();
                let (key, value) =
                    if evil { ("error", "pay_evil_example_now") } else { ("code", "good-code") };
                back.query_pairs_mut().append_pair(key, value);
                http("302 Found", &[("location", back.as_str())], "")
            }
            "/token" => self.token(&form(body)),
            "/revoke" => http("200 OK", &[], ""),
            _ => http("404 Not Found", &[], ""),
        }
    }

    fn token(&mut self, form: &HashMap<String, String>) -> String {
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let good = match field("grant_type") {
            "authorization_code" => {
                field("code") == "good-code" && !field("code_verifier").is_empty()
            }
            _ if self.refuse_refresh.is_some() => {
                if let Some(before) = self.refuse_refresh {
                    self.access = "access-of-a-sibling".into();
                    before(self);
                }
                false
            }
            // Rotates: each is good once.
            _ => field("refresh_token") == self.refresh,
        };
        if !good || field("resource") != format!("{}/mcp", self.base) {
            let refused = json!({"error": "invalid_grant"}).to_string();
            return http("400 Bad Request", &[("content-type", "application/json")], &refused);
        }
        self.issued += 1;
        self.access = format!("access-{}-good", self.issued);
        self.refresh = format!("refresh-{}-good", self.issued);
        ok(&json!({
            "access_token": self.access, "token_type": "Bearer", "expires_in": 3600,
            "refresh_token": self.refresh, "scope": "read",
        }))
    }

    fn mcp(&self, verb: &str, bearer: &str, body: &str) -> String {
        let named = format!("{}/.well-known/oauth-protected-resource/mcp", self.base);
        let named = self.resource_metadata.as_ref().unwrap_or(&named);
        let challenge = |more: &str| format!("Bearer resource_metadata=\"{named}\"{more}");
        if bearer.is_empty() || bearer != self.access {
            return http("401 Unauthorized", &[("www-authenticate", &challenge(""))], "");
        }
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        let result = match message["method"].as_str().unwrap_or_default() {
            _ if verb != "POST" => return http("405 Method Not Allowed", &[], ""),
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
            "tools/call" if self.insatiable => {
                let more = ", error=\"insufficient_scope\", scope=\"admin\"";
                return http("403 Forbidden", &[("www-authenticate", &challenge(more))], "");
            }
            "tools/call" => json!({"content": [{"type": "text", "text": "done"}]}),
            "server/discover" => {
                let error = json!({"code": -32601, "message": "not known"});
                return ok(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            }
            _ => return http("202 Accepted", &[], ""),
        };
        ok(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}

fn ok(body: &Value) -> String {
    http("200 OK", &[("content-type", "application/json")], &body.to_string())
}

fn http(status: &str, headers: &[(&str, &str)], body: &str) -> String {
    let headers: Vec<String> = headers.iter().map(|(k, v)| format!("{k}: {v}\r\n")).collect();
    let headers = headers.concat();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}
