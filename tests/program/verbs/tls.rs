//! An MCP server behind TLS on loopback, with a certificate made to measure: one request per
//! connection, and a count of the requests that came through the handshake.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// An authority of its own, which nobody trusts unless told to.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Its certificate, as `SSL_CERT_FILE` wants it.
    pub fn pem(&self) -> String {
        self.0.pem()
    }
}

/// A server that runs as long as the test program.
pub struct TlsServer {
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl TlsServer {
    /// Serves with this certificate; without an authority it is signed by itself.
    pub fn serve(params: &CertificateParams, authority: Option<&Authority>) -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate = match authority {
            Some(authority) => params.signed_by(&key, &authority.0),
            None => params.self_signed(&key),
        };
        let certificate = certificate.expect("a certificate").der().clone();
        let config = Arc::new(config(certificate, &key));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, count) = (Arc::clone(&config), Arc::clone(&count));
                // A peer that breaks the handshake off is what some tests are about.
                std::thread::spawn(move || drop(converse(stream, config, &count)));
            }
        });
        Self { port, requests }
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}/mcp", self.port)
    }

    /// HTTP requests so far, whose sender took the certificate for good.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn config(certificate: CertificateDer<'static>, key: &KeyPair) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .expect("a certificate for its key")
}

fn converse(stream: TcpStream, config: Arc<ServerConfig>, count: &AtomicUsize) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(());
    }
    count.fetch_add(1, Ordering::SeqCst);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, body) = if first.starts_with("POST") {
        answer(&serde_json::from_slice(&body)?)
    } else {
        ("405 Method Not Allowed", String::new())
    };
    let stream = reader.get_mut();
    let size = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {size}\r\n\r\n{body}"
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// A server of one tool.
fn answer(request: &Value) -> (&'static str, String) {
    if request.get("id").is_none() {
        return ("202 Accepted", String::new());
    }
    let mut reply = json!({"jsonrpc": "2.0", "id": request["id"]});
    match request["method"].as_str() {
        Some("initialize") => {
            reply["result"] = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "behind TLS", "version": "1"}});
        }
        Some("tools/list") => {
            reply["result"] = json!({"tools": [{"name": "echo", "description": "Says it again.",
                "inputSchema": {"type": "object"}}]});
        }
        Some("ping") => reply["result"] = json!({}),
        _ => reply["error"] = json!({"code": -32601, "message": "Method not found"}),
    }
    ("200 OK", reply.to_string())
}
