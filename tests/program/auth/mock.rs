//! An MCP server that wants a token, and its authorization server, on one loopback port. Every answer
//! that a test bends is a field of [`World`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use mcpdeck::mcp::{ClientAuth, ClientOrigin, StoredClient, StoredToken};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the servers do, and what was asked of them.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
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
    /// Path and token of every request to a server.
    pub bearers: Vec<(String, String)>,
    /// What the resource metadata says it is for; the server at `/mcp` when none.
    pub resource: Option<String>,
    /// The authorization servers that the resource metadata names before the real one.
    pub named_before: Vec<String>,
    /// Where the resource metadata is, when not at its well-known place.
    pub metadata_path: Option<&'static str>,
    /// The server takes no GET, and its challenge asks for this scope.
    pub asks_scope: Option<&'static str>,
    /// The clients it knows; others see a page that leads nowhere.
    pub clients: Vec<String>,
    pub registered: u32,
    /// The token endpoint looks at the code before the client.
    pub code_first: bool,
    /// The status and body of a registration for an address that contains the text.
    pub refused_redirect: Option<(&'static str, &'static str, &'static str)>,
    /// The sign-in page sends back this error.
    pub page_error: Option<&'static str>,
    /// Fields of the token answer that differ.
    pub granted: HashMap<&'static str, Value>,
    /// Members of the resource metadata that differ.
    pub resource_members: HashMap<&'static str, Value>,
    /// Documents begin with a byte order mark.
    pub marks: bool,
    /// Revocations are never answered.
    pub stalls: bool,
    /// Revocations need this member, whatever it says.
    pub revokes_with: Option<&'static str>,
    /// Tokens must be bound to a key, and every proof needs this nonce where it is not empty.
    pub bound: Option<&'static str>,
    /// Every proof: the path it came with, its header and its claims.
    pub proofs: Vec<Proof>,
    /// The JWTs that are good at the token endpoint.
    pub assertions: Vec<String>,
    /// How many grants the token endpoint does not answer, and the head of what it says instead;
    /// where that is empty, the connection just ends.
    pub unanswered: usize,
    pub instead: &'static str,
    /// The place that does not answer, where it is another than the token endpoint.
    pub silent_at: Option<&'static str>,
    /// No document says where to sign in, and nobody registers.
    pub is_unpublished: bool,
}

/// A proof of possession as it arrived.
#[derive(Clone, Debug)]
pub struct Proof {
    pub path: String,
    pub header: Value,
    pub claims: Value,
}

/// A request as the servers see it.
struct Asked<'a> {
    verb: &'a str,
    target: &'a str,
    bearer: &'a str,
    proof: &'a str,
    body: &'a str,
}

/// The running servers.
#[derive(Clone)]
pub struct Mock(pub Arc<Mutex<World>>);

impl Mock {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let clients = vec!["registered".to_owned()];
        let world = World { base, clients, ..World::default() };
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
        let (mut bearer, mut proof, mut length) = (String::new(), String::new(), 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "authorization" => {
                    let scheme = if self.world().bound.is_some() { "DPoP " } else { "Bearer " };
                    bearer = value.strip_prefix(scheme).unwrap_or("").to_owned();
                }
                "dpop" => value.clone_into(&mut proof),
                "content-length" => length = value.parse().ok()?,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let body = String::from_utf8(body).ok()?;
        let asked =
            Asked { verb: &verb, target: &target, bearer: &bearer, proof: &proof, body: &body };
        let reply = self.world().reply(&asked);
        if target == "/revoke" && self.world().stalls {
            std::future::pending::<()>().await;
        }
        stream.write_all(reply.as_bytes()).await.ok()?;
        stream.shutdown().await.ok()
    }
}

impl World {
    pub fn stored(&self, age: u64) -> StoredToken {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let client = StoredClient {
            issuer: self.base.clone(),
            server: format!("{}/mcp", self.base),
            id: "registered".into(),
            secret: None,
            secret_expires_at: None,
            auth: ClientAuth::None,
            redirect_uri: "http://127.0.0.1:1/callback".into(),
            origin: ClientOrigin::Registered,
        };
        StoredToken {
            issuer: self.base.clone(),
            server: format!("{}/mcp", self.base),
            resource: format!("{}/mcp", self.base),
            client,
            token_endpoint: format!("{}/token", self.base),
            revocation_endpoint: Some(format!("{}/revoke", self.base)),
            access_token: self.access.clone(),
            refresh_token: Some(self.refresh.clone()),
            obtained_at: now.as_secs() - age,
            expires_in: Some(3600),
            scopes: vec!["read".into()],
            proof_key: None,
        }
    }

    /// The refusal of a request whose proof is missing or wrong, where one is wanted.
    fn unproven(&mut self, asked: &Asked<'_>) -> Option<String> {
        let nonce = self.bound?;
        let path = asked.target.split('?').next().unwrap_or_default();
        let part = |n: usize| {
            let part = asked.proof.split('.').nth(n)?;
            let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).ok()?;
            serde_json::from_slice::<Value>(&bytes).ok()
        };
        let refused = |challenge: &str, code: &str| {
            let body = json!({"error": code}).to_string();
            let header = if path == "/token" { "x-none" } else { "www-authenticate" };
            let status = if path == "/token" { "400 Bad Request" } else { "401 Unauthorized" };
            let headers =
                [(header, challenge), ("dpop-nonce", nonce), ("content-type", "application/json")];
            http(status, &headers, &body)
        };
        let named = format!("{}/.well-known/oauth-protected-resource/mcp", self.base);
        let (Some(header), Some(claims)) = (part(0), part(1)) else {
            let challenge = format!("DPoP resource_metadata=\"{named}\"");
            return Some(refused(&challenge, "invalid_dpop_proof"));
        };
        let is_good = claims["htm"] == asked.verb
            && claims["htu"] == format!("{}{path}", self.base)
            && self.proofs.iter().all(|seen| seen.claims["jti"] != claims["jti"]);
        self.proofs.push(Proof { path: path.to_owned(), header, claims: claims.clone() });
        if !is_good {
            return Some(refused("DPoP error=\"invalid_dpop_proof\"", "invalid_dpop_proof"));
        }
        if !nonce.is_empty() && claims["nonce"] != nonce {
            return Some(refused("DPoP error=\"use_dpop_nonce\"", "use_dpop_nonce"));
        }
        None
    }

    fn reply(&mut self, asked: &Asked<'_>) -> String {
        let &Asked { verb, target, bearer, body, .. } = asked;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.seen.push(format!("{verb} {path} {body}"));
        let form = |text: &str| -> HashMap<String, String> {
            url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
        };
        let document = format!("/.well-known/oauth-protected-resource{path}", path = "/mcp");
        let document = self.metadata_path.unwrap_or(&document);
        if matches!(path, "/mcp" | "/token")
            && let Some(refused) = self.unproven(asked)
        {
            return refused;
        }
        match path {
            path if self.is_unpublished && path != "/mcp" => http("404 Not Found", &[], ""),
            path if self.unanswered > 0 && path == self.silent_at.unwrap_or("/token") => {
                self.unanswered -= 1;
                match self.instead {
                    "" => String::new(),
                    head => http(head, &[], "<html>no answer</html>"),
                }
            }
            "/idp/token" => {
                let asked = form(body);
                if asked["subject_token"] != "id-token" || asked["audience"] != self.base {
                    let refused = json!({"error": "invalid_grant"}).to_string();
                    return http("400 Bad Request", &[], &refused);
                }
                let grant = format!("grant-for-{}", asked["resource"]);
                self.assertions.push(grant.clone());
                ok(&json!({
                    "access_token": grant, "token_type": "N_A", "expires_in": 300,
                    "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
                }))
            }
            "/mcp" | "/other/mcp" => {
                self.bearers.push((path.to_owned(), bearer.to_owned()));
                self.mcp(verb, bearer, body)
            }
            path if path == document => {
                let mut metadata = json!({
                    "resource": self.resource(),
                    "authorization_servers":
                        ([&self.named_before[..], std::slice::from_ref(&self.base)].concat()),
                    "scopes_supported": ["read"],
                });
                for (key, value) in &self.resource_members {
                    metadata[*key] = value.clone();
                }
                let mark = if self.marks { "\u{feff}" } else { "" };
                let head = [("content-type", "application/json")];
                http("200 OK", &head, &format!("{mark}{metadata}"))
            }
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
            "/register" => self.register(body),
            "/authorize" if !self.clients.contains(&form(query)["client_id"]) => {
                http("400 Bad Request", &[], "I do not know this client.")
            }
            "/authorize" => self.page(&form(query)),
            "/token" | "/token/" => self.token(&form(body)),
            "/revoke" if self.revokes_with.is_some_and(|it| !form(body).contains_key(it)) => {
                let refused = json!({"error": "invalid_request"}).to_string();
                http("400 Bad Request", &[("content-type", "application/json")], &refused)
            }
            "/revoke" => http("200 OK", &[], ""),
            _ => http("404 Not Found", &[], ""),
        }
    }

    /// What the sign-in page sends the browser to.
    fn page(&mut self, asked: &HashMap<String, String>) -> String {
        if asked.get("prompt").is_some_and(|prompt| prompt == "none") {
            // Nobody sees a page.
            let last = self.seen.pop().unwrap_or_default();
            self.seen.push(last.replace("GET /authorize", "GET /authorize/none"));
        }
        let mut back = url::Url::parse(&asked["redirect_uri"]).unwrap();
        back.query_pairs_mut().append_pair("state", &asked["state"]);
        let iss = self.iss.clone().unwrap_or_else(|| json!(self.base));
        if let Some(iss) = iss.as_str() {
            back.query_pairs_mut().append_pair("iss", iss);
        }
        let is_ours = |iss: &str| iss.trim_end_matches('/') == self.base;
        let evil = iss.as_str().is_some_and(|iss| !is_ours(iss));
        let (key, value) = match self.page_error {
            _ if evil => ("error", "pay_evil_example_now"),
            Some(error) => ("error", error),
            None => ("code", "good-code"),
        };
        back.query_pairs_mut().append_pair(key, value);
        http("302 Found", &[("location", back.as_str())], "")
    }

    fn register(&mut self, body: &str) -> String {
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let redirect = asked["redirect_uris"][0].as_str().unwrap_or_default();
        if let Some((part, status, answer)) = self.refused_redirect
            && redirect.contains(part)
        {
            return http(status, &[("content-type", "application/json")], answer);
        }
        self.registered += 1;
        let id = match self.registered {
            1 => "registered".to_owned(),
            more => format!("registered-{more}"),
        };
        self.clients.push(id.clone());
        ok(&json!({"client_id": id, "redirect_uris": asked["redirect_uris"]}))
    }

    /// What a token is for.
    fn resource(&self) -> String {
        self.resource.clone().unwrap_or_else(|| format!("{}/mcp", self.base))
    }

    fn token(&mut self, form: &HashMap<String, String>) -> String {
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let json = [("content-type", "application/json")];
        if !self.clients.iter().any(|id| id == field("client_id")) && !self.code_first {
            let refused = json!({"error": "invalid_client"}).to_string();
            return http("401 Unauthorized", &json, &refused);
        }
        let good = match field("grant_type") {
            "authorization_code" => {
                field("code") == "good-code" && !field("code_verifier").is_empty()
            }
            "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
                self.assertions.iter().any(|good| good == field("assertion"))
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
        if !good || field("resource") != self.resource() {
            let refused = json!({"error": "invalid_grant"}).to_string();
            return http("400 Bad Request", &json, &refused);
        }
        self.issued += 1;
        self.access = format!("access-{}-good", self.issued);
        self.refresh = format!("refresh-{}-good", self.issued);
        let mut answer = json!({
            "access_token": self.access,
            "token_type": if self.bound.is_some() { "DPoP" } else { "Bearer" },
            "expires_in": 3600,
            "refresh_token": self.refresh, "scope": "read",
        });
        for (key, value) in &self.granted {
            answer[*key] = value.clone();
        }
        ok(&answer)
    }

    fn mcp(&self, verb: &str, bearer: &str, body: &str) -> String {
        let path = self.metadata_path.unwrap_or("/.well-known/oauth-protected-resource/mcp");
        let named = format!("{}{path}", self.base);
        let named = self.resource_metadata.as_ref().unwrap_or(&named);
        let scope = self.asks_scope.map(|scope| format!(", scope=\"{scope}\""));
        let challenge = |more: &str| {
            let scope = scope.as_deref().unwrap_or_default();
            format!("Bearer resource_metadata=\"{named}\"{scope}{more}")
        };
        if verb == "GET" && self.asks_scope.is_some() {
            return http("405 Method Not Allowed", &[], "");
        }
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
